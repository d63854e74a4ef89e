"""vmap together with the other transforms: gradients of each example, Jacobians at once, tangents, in every order."""

import pytest


@pytest.fixture
def func(torch):
    import importlib

    return importlib.import_module(torch.__name__ + ".func")


@pytest.fixture
def data(torch):
    torch.manual_seed(0)
    kind = torch.float64
    return torch.randn(3, 4, dtype=kind), torch.randn(4, dtype=kind), torch.randn(3, dtype=kind)


def each(torch, function, *columns):
    return torch.stack([function(*row) for row in zip(*columns, strict=True)])


def loss(w, x, y):
    return ((x * w).sin().sum() - y) ** 2


def test_the_gradient_of_each_example(torch, func, data):
    x, w, y = data
    got = func.vmap(func.grad(loss), in_dims=(None, 0, 0))(w, x, y)
    assert torch.allclose(got, each(torch, lambda a, b: func.grad(loss)(w, a, b), x, y))
    both, value = func.vmap(func.grad_and_value(loss, argnums=(0, 1)), in_dims=(None, 0, 0))(w, x, y)
    assert torch.allclose(both[0], got) and torch.allclose(value, each(torch, lambda a, b: loss(w, a, b), x, y))
    assert torch.allclose(both[1], each(torch, lambda a, b: func.grad(loss, argnums=1)(w, a, b), x, y))


def test_a_gradient_that_is_the_same_for_all(torch, func, data):
    x, w, _ = data
    got = func.vmap(func.grad(lambda w, x: w.sum() + x.sum()), in_dims=(None, 0))(w, x)
    assert torch.equal(got, torch.ones(3, 4, dtype=w.dtype))


def test_the_gradient_of_a_batch(torch, func, data):
    x, w, y = data
    whole = func.grad(lambda w: func.vmap(loss, in_dims=(None, 0, 0))(w, x, y).sum())(w)
    assert torch.allclose(whole, func.vmap(func.grad(loss), in_dims=(None, 0, 0))(w, x, y).sum(0))


def test_gradients_of_gradients_of_each(torch, func, data):
    x, w, y = data
    penalty = lambda w: func.vmap(func.grad(loss), (None, 0, 0))(w, x, y).pow(2).sum()  # noqa: E731
    slow = lambda w: sum(func.grad(loss)(w, a, b).pow(2).sum() for a, b in zip(x, y, strict=True))  # noqa: E731
    assert torch.allclose(func.grad(penalty)(w), func.grad(slow)(w))
    outer = w.clone().requires_grad_()
    (g,) = torch.autograd.grad(penalty(outer), outer)
    assert torch.allclose(g, func.grad(slow)(w))


def test_second_derivatives_of_each(torch, func, data):
    x, w, y = data
    got = func.vmap(func.hessian(loss), in_dims=(None, 0, 0))(w, x, y)
    assert torch.allclose(got, each(torch, lambda a, b: func.hessian(loss)(w, a, b), x, y))
    again = func.vmap(func.grad(lambda w, x, y: func.grad(loss)(w, x, y).sum()), (None, 0, 0))(w, x, y)
    assert torch.allclose(again, got.sum(-1))


def test_jacobians_of_each(torch, func, data):
    x, w, _ = data
    f = lambda x, w: (x * w).cumsum(0).sin()  # noqa: E731
    for jacobian in (func.jacrev, func.jacfwd):
        got = func.vmap(jacobian(f), in_dims=(0, None))(x, w)
        assert torch.allclose(got, each(torch, lambda a: func.jacrev(f)(a, w), x))


def test_jacobians_through_vmap(torch, func, data):
    x, w, _ = data
    f = lambda w: func.vmap(lambda row: (row * w).exp().sum())(x)  # noqa: E731
    slow = lambda w: torch.stack([(row * w).exp().sum() for row in x])  # noqa: E731
    for jacobian in (func.jacrev, func.jacfwd):
        assert torch.allclose(jacobian(f)(w), func.jacrev(slow)(w))
    assert torch.allclose(func.hessian(lambda w: f(w).sum())(w), func.hessian(lambda w: slow(w).sum())(w))


def test_rows_of_a_pullback_at_once(torch, func, data):
    x, w, _ = data
    _, pull = func.vjp(lambda w: (x @ w).tanh(), w)
    rows = func.vmap(pull)(torch.eye(3, dtype=w.dtype))[0]
    assert torch.allclose(rows, torch.stack([pull(v)[0] for v in torch.eye(3, dtype=w.dtype)]))


def test_tangents_of_each(torch, func, data):
    x, w, _ = data
    f = lambda x, w: (x * w).softmax(0) * x.prod()  # noqa: E731
    got = func.vmap(lambda a, t: func.jvp(lambda a: f(a, w), (a,), (t,))[1])(x, x.flip(0))
    assert torch.allclose(got, each(torch, lambda a, t: func.jvp(lambda a: f(a, w), (a,), (t,))[1], x, x.flip(0)))
    through = func.jvp(lambda w: func.vmap(f, (0, None))(x, w), (w,), (w.flip(0),))[1]
    assert torch.allclose(through, func.jvp(lambda w: torch.stack([f(a, w) for a in x]), (w,), (w.flip(0),))[1])


def test_levels_inside_levels(torch, func, data):
    x, w, y = data
    ws = torch.stack([w, w * 2])
    got = func.vmap(func.vmap(func.grad(loss), (None, 0, 0)), (0, None, None))(ws, x, y)
    expected = torch.stack([each(torch, lambda a, b, v=v: func.grad(loss)(v, a, b), x, y) for v in ws])
    assert torch.allclose(got, expected)
    inner = func.vmap(lambda v: func.grad(lambda u: func.vmap(lambda a, b: loss(u, a, b))(x, y).mean())(v))(ws)
    assert torch.allclose(inner, expected.mean(1))


def test_in_place_and_indices_inside_of_grad(torch, func, data):
    x, w, _ = data
    at = torch.tensor([2, 0, 3])

    def f(w, row, i):
        y = row * w
        y[1:].mul_(w[0])
        return (y.index_select(0, i.reshape(1)) ** 2).sum() + y[i.reshape(1)].sum() * y.sum()

    got = func.vmap(func.grad(f), in_dims=(None, 0, 0))(w, x, at)
    assert torch.allclose(got, each(torch, lambda a, i: func.grad(f)(w, a, i), x, at))


def test_linear_algebra_of_each(torch, func, data):
    a = torch.randn(3, 4, 4, dtype=torch.float64) + 4 * torch.eye(4, dtype=torch.float64)
    b = torch.randn(4, dtype=a.dtype)
    f = lambda a, b: torch.linalg.solve(a, b).sum() + torch.linalg.slogdet(a)[1] + torch.linalg.inv(a).diagonal().prod()  # noqa: E731
    got = func.vmap(func.grad(f, argnums=(0, 1)), in_dims=(0, None))(a, b)
    for k in range(2):
        assert torch.allclose(got[k], each(torch, lambda m, k=k: func.grad(f, argnums=(0, 1))(m, b)[k], a))
