"""Gradients that do not change with what they are taken at: recorded ones are functions of it, of derivative 0."""

import pytest

CONSTANT = (
    "relu", "relu6", "leaky_relu", "hardtanh", "hardsigmoid", "hardshrink", "softshrink", "threshold", "avg_pool1d"
)


@pytest.fixture(params=CONSTANT)
def piecewise(torch, backend, request):
    """A function of a matrix that is made of straight pieces."""
    if request.param == "hardsigmoid" and backend == "torch":
        pytest.skip("PyTorch has no second derivative of hardsigmoid")
    arguments = {"threshold": (0.1, 0.2), "avg_pool1d": (2,)}.get(request.param, ())
    function = getattr(torch.nn.functional, request.param)
    return lambda x: function(x, *arguments)


@pytest.fixture
def x(torch):
    return torch.tensor([[0.7, -0.7, 1.5, 0.3], [-2.0, 4.0, -5.0, -0.2]], dtype=torch.float64, requires_grad=True)


def test_the_second_derivative_is_zero_rather_than_missing(torch, piecewise, x):
    (slope,) = torch.autograd.grad(piecewise(x).sum(), x, create_graph=True)
    assert slope.requires_grad and slope.grad_fn is not None
    (second,) = torch.autograd.grad((slope**2).sum(), x)
    assert second.tolist() == [[0.0] * 4] * 2


def test_a_penalty_of_the_slope_trains(torch, piecewise, x):
    """backward() of what depends on the slope alone works, and .grad is 0."""
    (slope,) = torch.autograd.grad(piecewise(x).sum(), x, create_graph=True)
    (slope - 1).pow(2).mean().backward()
    assert x.grad.tolist() == [[0.0] * 4] * 2


def test_the_gradient_of_a_gradient_arrives_too(torch, piecewise, x):
    """Its derivative by the gradient that came in is the slope itself."""
    weight = torch.ones_like(piecewise(x), requires_grad=True)
    (first,) = torch.autograd.grad(piecewise(x), x, weight, create_graph=True)
    u = torch.full_like(first, 3.0)
    by_weight, by_x = torch.autograd.grad(first, [weight, x], u)
    (alone,) = torch.autograd.grad((first.detach() * x).sum(), x)
    assert by_x.tolist() == [[0.0] * 4] * 2
    assert torch.allclose((by_weight * weight).sum(), (u * alone).sum())


def test_no_graph_means_no_edge(torch, piecewise, x):
    (slope,) = torch.autograd.grad(piecewise(x).sum(), x)
    assert not slope.requires_grad


def test_transforms(torch, piecewise, x):
    h = torch.func.hessian(lambda x: piecewise(x).sum())(x.detach())
    assert h.shape == (2, 4, 2, 4) and not h.any()
    square = torch.func.hessian(lambda x: (piecewise(x) ** 2).sum())(x.detach())
    slopes = torch.func.jacrev(piecewise)(x.detach()).flatten(0, 1).flatten(1)
    assert torch.allclose(square.flatten(0, 1).flatten(1), 2 * slopes.T @ slopes)


def test_hooks_and_inputs_that_do_not_require_a_gradient(torch, x):
    """The edge leads to where the input came from: through its hooks, and not to constants."""
    seen = []
    h = x * 2
    h.register_hook(lambda g: seen.append(g.abs().sum().item()))
    (slope,) = torch.autograd.grad(torch.relu(h).sum(), h, create_graph=True)
    assert torch.autograd.grad(slope.sum(), x)[0].abs().sum() == 0
    assert seen[-1] == 0.0
    assert not torch.relu(x.detach()).requires_grad
