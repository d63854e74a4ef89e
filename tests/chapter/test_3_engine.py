"""Lesson 3: going back through the graph."""
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose

# --- what backward computes -----------------------------------------------------------------------------------------


def test_backward_of_a_scalar_starts_from_one(torch):
    """On a scalar, backward starts from 1.0 and leaves the derivative in the leaf."""
    a = torch.tensor([2., 3.], requires_grad=True)
    c = (a * 3).mean()
    assert c.backward() is None
    assert a.grad.tolist() == [1.5, 1.5]
    assert a.grad.shape == a.shape
    assert a.grad.dtype is a.dtype
    assert not a.grad.requires_grad

    explicit = torch.tensor([2., 3.], requires_grad=True)
    (explicit * 3).mean().backward(gradient=torch.tensor(1.0))
    assert explicit.grad.tolist() == a.grad.tolist()


def test_backward_of_several_numbers_needs_a_gradient(torch):
    """A tensor of several numbers has no one derivative, so backward asks for a gradient of the tensor's shape."""
    x = torch.tensor([1., 2., 3.], requires_grad=True)
    y = x * x
    with pytest.raises(RuntimeError, match="scalar"):
        y.backward()
    for wrong in (torch.tensor([1., 1.]), torch.ones(1, 3), torch.tensor(1.)):
        with pytest.raises(RuntimeError, match="shape"):
            y.backward(gradient=wrong)
    assert x.grad is None
    y.backward(gradient=torch.tensor([1., 10., 100.]))
    assert x.grad.tolist() == [2., 40., 600.]


def test_backward_computes_a_vector_jacobian_product(torch):
    """Given v, backward computes v^T J; feeding in unit vectors gives the rows of the Jacobian, one at a time."""
    def f(x):
        return torch.stack([x[0] * x[1], x[0].sin(), x[1] * x[1] * 3])

    point = [0.5, 2.0]
    jacobian = np.array([[2.0, 0.5], [np.cos(0.5), 0.0], [0.0, 12.0]])
    for v in ([1., 0., 0.], [0., 1., 0.], [0., 0., 1.], [2., -1., 0.5]):
        x = torch.tensor(point, dtype=torch.float64, requires_grad=True)
        f(x).backward(gradient=torch.tensor(v, dtype=torch.float64))
        assert_allclose(x.grad.tolist(), np.array(v) @ jacobian, rtol=1e-12, atol=1e-15)


def test_the_jacobian_is_never_built(torch):
    """Squaring a million numbers would have a Jacobian of a million times a million; its product with v needs no such
    thing.
    """
    x = torch.ones(1_000_000, requires_grad=True)
    (x * x).backward(gradient=torch.full((1_000_000,), 0.5))
    assert x.grad.sum().item() == 1_000_000.0


def test_a_linear_layer_by_hand(torch):
    """For z = mean(x @ w), the gradient of w has w's shape and x, which asked for none, gets none."""
    torch.manual_seed(0)
    w = torch.randn(5, 3, requires_grad=True)
    x = torch.randn(1, 5)
    y = x @ w
    z = y.mean()
    assert repr(y.grad_fn).startswith("<MmBackward0 object at")
    assert repr(z.grad_fn).startswith("<MeanBackward0 object at")
    z.backward()
    assert w.grad.shape == torch.Size([5, 3])
    assert_allclose(w.grad.tolist(), np.repeat(np.array(x.tolist()).T, 3, axis=1) / 3, rtol=1e-6)
    assert x.grad is None


def test_unneeded_paths_are_not_computed(torch):
    """A path to a tensor that needs no gradient is not merely dropped at the end: backward is never asked for it."""
    asked = []

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx, g):
            asked.append(ctx.needs_input_grad)
            x, w = ctx.saved_tensors
            return (g * w if ctx.needs_input_grad[0] else None), (g * x if ctx.needs_input_grad[1] else None)

    x = torch.tensor([1., 2.])
    w = torch.tensor([3., 4.], requires_grad=True)
    Product.apply(x, w).sum().backward()
    assert asked == [(False, True)]
    assert w.grad.tolist() == [1., 2.]
    assert x.grad is None

    dead_end = Product.apply(x, x)
    assert dead_end.grad_fn is None
    assert not dead_end.requires_grad


# --- accumulation ---------------------------------------------------------------------------------------------------


def test_gradients_accumulate(torch):
    """The first backward initialises ``.grad``, the following ones add to it, in the same tensor."""
    w = torch.tensor([1., 2.], requires_grad=True)
    x = torch.tensor([10., 20.])
    assert w.grad is None
    (w * x).sum().backward()
    first = w.grad
    assert first.tolist() == [10., 20.]
    (w * x).sum().backward()
    assert w.grad is first
    assert first.tolist() == [20., 40.]


def test_a_value_used_twice_gets_both_contributions(torch):
    """Where the graph forks, the gradients of all branches are summed."""
    x = torch.tensor(3., requires_grad=True)
    y = x * x           # used in both terms
    (y * 2 + y.exp().log()).backward()
    assert_allclose(x.grad.item(), 2 * 3 * (2 + 1), rtol=1e-6)


def test_gradients_are_cleared_on_request(torch):
    """An optimiser's ``zero_grad`` forgets the gradients, so the next backward starts afresh."""
    w = torch.nn.Parameter(torch.tensor([1., 2.]))
    optimizer = torch.optim.SGD([w], lr=0.1)
    (w * 5).sum().backward()
    optimizer.zero_grad()
    assert w.grad is None
    (w * 7).sum().backward()
    assert w.grad.tolist() == [7., 7.]
    optimizer.zero_grad(set_to_none=False)
    assert w.grad.tolist() == [0., 0.]


def test_small_batches_equal_one_large_batch(torch):
    """Accumulating over k small batches, each loss divided by k, gives the gradient of the large batch."""
    torch.manual_seed(1)
    x = torch.randn(32, 4, dtype=torch.float64)
    target = torch.randn(32, 2, dtype=torch.float64)
    w = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    ((x @ w - target) ** 2).mean().backward()
    large = w.grad.tolist()
    for k in (1, 2, 4, 8, 32):
        w.grad = None
        for xs, ts in zip(x.split(32 // k), target.split(32 // k), strict=True):
            (((xs @ w - ts) ** 2).mean() / k).backward()
        assert_allclose(w.grad.tolist(), large, rtol=1e-12)


# --- the training loop ----------------------------------------------------------------------------------------------


def test_the_standard_loop(torch):
    """Loader, ``zero_grad``, forward, loss, ``backward``, ``step``: with these six a line is fitted to points."""
    torch.manual_seed(0)
    x = torch.linspace(-1, 1, 64).reshape(64, 1)
    dataset = torch.utils.data.TensorDataset(x, 3 * x - 0.5)
    loader = torch.utils.data.DataLoader(dataset, batch_size=16, sampler=torch.utils.data.RandomSampler(dataset))
    model = torch.nn.Linear(1, 1)
    loss_function = torch.nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)

    epochs = []
    for _ in range(40):
        total = 0.0
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = loss_function(model(inputs), targets)
            loss.backward()
            optimizer.step()
            total += loss.item()
        epochs.append(total / len(loader))
    assert epochs[-1] < 1e-6 < epochs[0]
    assert_allclose(model.weight.item(), 3.0, atol=1e-3)
    assert_allclose(model.bias.item(), -0.5, atol=1e-3)


def test_a_sampler_decides_which_examples_are_seen(torch):
    """One epoch visits what the sampler names, each once and in a new order; a subset sampler leaves the others out."""
    dataset = torch.utils.data.TensorDataset(torch.arange(20))
    torch.manual_seed(0)

    def epoch(sampler):
        loader = torch.utils.data.DataLoader(dataset, batch_size=6, sampler=sampler)
        return [value for batch, in loader for value in batch.tolist()]

    everything = torch.utils.data.RandomSampler(dataset)
    first, second = epoch(everything), epoch(everything)
    assert sorted(first) == sorted(second) == list(range(20))
    assert first != second
    assert sorted(epoch(torch.utils.data.SubsetRandomSampler([3, 5, 8]))) == [3, 5, 8]
    assert epoch(torch.utils.data.SequentialSampler(dataset)) == list(range(20))


def test_a_step_follows_the_gradient(torch):
    """Plain gradient descent subtracts the learning rate times the gradient, and leaves the gradient as it was."""
    w = torch.nn.Parameter(torch.tensor([1., -2.]))
    optimizer = torch.optim.SGD([w], lr=0.1)
    (w * torch.tensor([1., 2.])).sum().backward()
    optimizer.step()
    assert_allclose(w.tolist(), [0.9, -2.2], rtol=1e-6)
    assert w.grad.tolist() == [1., 2.]
    assert w.is_leaf
    assert w.grad_fn is None


# --- control --------------------------------------------------------------------------------------------------------


def test_requires_grad_is_contagious(torch):
    """A result requires a gradient as soon as one operand does; only floating point tensors can."""
    x = torch.tensor([1., 2.])
    w = torch.tensor([3., 4.], requires_grad=True)
    assert not (x * x).requires_grad
    assert (x * w).requires_grad
    assert x.requires_grad_() is x
    assert x.requires_grad
    assert (x * x).requires_grad
    x.requires_grad_(False)
    assert not (x * x).requires_grad
    x.requires_grad = True
    assert x.requires_grad
    with pytest.raises(RuntimeError, match="floating point"):
        torch.tensor([1, 2]).requires_grad_()
    with pytest.raises(RuntimeError, match="leaf"):
        (w * 2).requires_grad_(False)


def test_no_grad_records_nothing(torch):
    """Under ``no_grad`` the numbers are the same and no history is kept, for as long as the block lasts."""
    w = torch.tensor([3., 4.], requires_grad=True)
    recorded = (w * w).exp()
    with torch.no_grad():
        assert not torch.is_grad_enabled()
        plain = (w * w).exp()
    assert torch.is_grad_enabled()
    assert plain.tolist() == recorded.tolist()
    assert plain.grad_fn is None
    assert not plain.requires_grad
    assert plain.is_leaf
    assert w.requires_grad
    with pytest.raises(RuntimeError, match="does not require grad"):
        plain.sum().backward()


def test_no_grad_saves_memory(torch):
    """What was recorded keeps its intermediate values for backward; what was not recorded lets them go at once."""
    w = torch.tensor([3., 4.], requires_grad=True)

    def chain():
        watched = []
        y = w
        for _ in range(10):
            y = y.sin()         # its derivative needs the value that went in
            watched.append(weakref.ref(y))
        return y, sum(ref() is not None for ref in watched)

    recorded, alive = chain()
    assert alive == 10
    with torch.no_grad():
        plain, alive = chain()
    assert alive == 1           # the result itself
    assert plain.tolist() == recorded.tolist()


def test_enable_grad_inside_no_grad(torch):
    """Recording can be switched on again inside ``no_grad``; each block restores what held before it."""
    x = torch.tensor([1.], requires_grad=True)
    with torch.no_grad():
        with torch.enable_grad():
            inner = x * 2
        outer = x * 2
    assert inner.grad_fn is not None
    assert outer.grad_fn is None
    inner.backward()
    assert x.grad.tolist() == [2.]


def test_parameters_are_updated_under_no_grad(torch):
    """A leaf that requires a gradient may be written under ``no_grad``: that is what an optimiser does."""
    w = torch.tensor([1., 2.], requires_grad=True)
    (w * w).sum().backward()
    with torch.no_grad():
        w -= 0.25 * w.grad
    assert w.tolist() == [0.5, 1.0]
    assert w.requires_grad
    assert w.is_leaf


def test_detach_shares_the_storage_but_not_the_history(torch):
    """A detached tensor shows the same numbers, and backward does not go through it."""
    x = torch.tensor([2., 3.], requires_grad=True)
    y = x * x
    d = y.detach()
    assert d.data_ptr() == y.data_ptr()
    assert d.grad_fn is None
    assert not d.requires_grad
    (y * d).sum().backward()                # d counts as a constant
    assert x.grad.tolist() == [4. * 2 * 2, 9. * 2 * 3]
    d[0] = -1.
    assert y[0].item() == -1.0


def test_parameters_require_gradients_by_default(torch):
    """A module's parameters are leaves that require gradients; freezing some leaves them as they are."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    assert [p.requires_grad for p in model.parameters()] == [True] * 4
    assert all(p.is_leaf for p in model.parameters())
    for p in model[0].parameters():
        p.requires_grad_(False)
    frozen = [p.tolist() for p in model[0].parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(5, 3)).sum().backward()
    optimizer.step()
    assert [p.grad is None for p in model.parameters()] == [True, True, False, False]
    assert [p.tolist() for p in model[0].parameters()] == frozen
    assert model[2].bias.grad.tolist() == [5., 5.]
