"""Gradients of the right factor of a product, and their layout: what a weight's .grad is made of."""

import numpy as np
import pytest

CASES = {
    "transposed": lambda torch, x, w: x @ w.t(),
    "by dimensions": lambda torch, x, w: x @ w.transpose(0, 1),
    "addmm": lambda torch, x, w: torch.addmm(torch.ones(4, dtype=w.dtype), x, w.t()),
    "factors": lambda torch, x, w: torch.addmm(torch.ones(4, dtype=w.dtype), x, w.t(), beta=2, alpha=3),
    "used twice": lambda torch, x, w: x @ w.t() + (2 * x) @ w.t(),
    "a view of it": lambda torch, x, w: x @ w[:, :3].t() if x.shape[1] == 3 else x @ w.view(4, 5).t(),
    "plain": lambda torch, x, w: x @ w.t().contiguous(),
    "a transposed leaf": lambda torch, x, w: x.t().contiguous().t() @ w.t(),
}


@pytest.mark.parametrize("kind", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("case", CASES)
def test_layout_and_values(torch, case, kind):
    """Row-major as the weight is, equal to PyTorch's, and nobody else's memory."""
    oracle = pytest.importorskip("torch")
    drawn = np.random.default_rng(1)
    imaginary = 1j if kind[0] == "c" else 0
    values = [drawn.standard_normal(s) + imaginary * drawn.standard_normal(s) for s in ((6, 5), (4, 5))]
    seen = []
    for lib in (torch, oracle):
        x, w = (lib.tensor(v.astype(kind)).requires_grad_() for v in values)
        for _ in range(2):
            y = CASES[case](lib, x, w)
            (y * y.conj()).real.sum().backward() if kind[0] == "c" else (y * y).sum().backward()
        assert w.grad.is_contiguous() and w.grad.stride() == w.stride()
        seen.append([g.detach().numpy() for g in (x.grad, w.grad)])
    for a, b in zip(*seen, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-4)


def test_a_column_major_leaf_keeps_its_layout(torch):
    w = torch.ones(5, 4).t().requires_grad_()
    (torch.ones(6, 5) @ w.t()).sum().backward()
    assert w.grad.stride() == w.stride() == (1, 4)


def test_a_gradient_that_a_hook_holds_is_copied(torch):
    """What a hook of the transposed weight was given does not change when .grad does."""
    w, held = torch.ones(4, 5, requires_grad=True), []
    turned = w.t()
    turned.register_hook(held.append)
    (torch.ones(6, 5) @ turned).sum().backward()
    w.grad.zero_()
    assert (held[0] == 6).all()


def test_second_derivatives(torch):
    x = torch.arange(6.0, dtype=torch.float64).reshape(2, 3).sin().requires_grad_()
    w = torch.arange(12.0, dtype=torch.float64).reshape(4, 3).cos().requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x, w: (x @ w.t()).sin(), (x, w))
    assert torch.autograd.gradgradcheck(lambda x, w: torch.addmm(w[0, 0], x, w.t(), beta=2, alpha=3).sin(), (x, w))


def test_transforms(torch):
    x, w = torch.ones(3, 5), torch.arange(20.0).reshape(4, 5)
    several = torch.stack([x, 2 * x])
    grads = torch.func.vmap(torch.func.grad(lambda x, w: ((x @ w.t()) ** 2).sum(), 1), (0, None))(several, w)
    for x, g in zip(several, grads, strict=True):
        assert torch.allclose(g, torch.func.grad(lambda w, x=x: ((x @ w.t()) ** 2).sum())(w))
    tangent = torch.func.jvp(torch.func.grad(lambda w: ((x @ w.t()) ** 2).sum()), (w,), (w,))[1]
    assert torch.allclose(tangent, 2 * (w @ x.t()) @ x)
