"""Derivatives inside and outside of vmap: each example has its own."""

import pytest

import cygrad
from cygrad import func
from cygrad.autograd import forward_ad as fw


def t64(x):
    return cygrad.tensor(x, dtype=cygrad.float64)


X = t64([[1.0, 2.0], [0.5, -1.0], [3.0, 0.1]])
V = t64([[1.0, 0.0], [0.5, 2.0], [-1.0, 1.0]])
W = t64([0.3, -0.7])


def close(a, b):
    return cygrad.allclose(a, b, rtol=1e-10, atol=1e-12)


def smooth(x):
    return (x.sin() * x.exp()).sum()


def matrices(x):
    a = x.outer(x) + 3 * cygrad.eye(2, dtype=x.dtype)
    return cygrad.linalg.inv(a).sum() + cygrad.softmax(a, 1)[0, 1] + cygrad.linalg.det(a)


def views(x):
    y = cygrad.cat([x, x * x]).view(2, 2).t()
    return (y[0] * y[1].flip(0)).cumsum(0).prod() + y.amax()


def writes(x):
    y = x * 1
    y[0] = x[1] * x[0]
    y.view(2, 1)[1].mul_(x[0])
    return (y * y).sum()


def complex_numbers(x):
    z = cygrad.view_as_complex(x)
    return (z * z.exp()).abs()


FUNCTIONS = [smooth, matrices, views, writes, complex_numbers]
each = pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)


def looped(g, *batches):
    return cygrad.stack([g(*examples) for examples in zip(*batches, strict=True)])


@each
def test_jvp_of_each_example(f):
    g = lambda x, v: func.jvp(f, (x,), (v,))[1]  # noqa: E731
    assert close(func.vmap(g)(X, V), looped(g, X, V))
    assert close(func.vmap(g, in_dims=(None, 0))(X[0], V), looped(lambda v: g(X[0], v), V))
    assert close(func.vmap(g, in_dims=(0, None))(X, V[1]), looped(lambda x: g(x, V[1]), X))


@each
def test_jvp_of_a_batch(f):
    y, t = func.jvp(func.vmap(f), (X,), (V,))
    assert close(y, looped(f, X))
    assert close(t, looped(lambda x, v: func.jvp(f, (x,), (v,))[1], X, V))


@each
@pytest.mark.parametrize("derivative", [func.grad, func.jacfwd, func.jacrev, func.hessian], ids=lambda d: d.__name__)
def test_derivatives_of_each_example(f, derivative):
    assert close(func.vmap(derivative(f))(X), looped(derivative(f), X))


@each
def test_hessian_product_of_each_example(f):
    forward = lambda x, v: func.jvp(func.grad(f), (x,), (v,))[1]  # noqa: E731
    reverse = lambda x, v: func.vjp(func.grad(f), x)[1](v)[0]  # noqa: E731
    assert close(func.vmap(forward)(X, V), looped(reverse, X, V))
    assert close(func.vmap(reverse)(X, V), looped(reverse, X, V))


def test_gradients_of_what_examples_share():
    loss = lambda w, x: ((x @ w).tanh() - 1) ** 2  # noqa: E731
    each_gradient = looped(lambda x: func.grad(loss)(W, x), X)
    assert close(func.vmap(func.grad(loss), in_dims=(None, 0))(W, X), each_gradient)
    total = lambda w: func.vmap(loss, in_dims=(None, 0))(w, X).sum()  # noqa: E731
    assert close(func.grad(total)(W), each_gradient.sum(0))
    assert close(func.jacfwd(total)(W), each_gradient.sum(0))
    assert close(func.jacrev(func.jacfwd(total))(W), func.jacfwd(func.grad(total))(W))


@pytest.mark.parametrize("out", [0, 1])
def test_backward_of_a_batch_through_a_vmap_that_ended(out):
    x = X[0].clone().requires_grad_()
    y = func.vmap(lambda v: v * x.sin(), out_dims=out)(V)
    u = cygrad.eye(6, dtype=x.dtype).reshape(6, *y.shape)
    back = lambda u: cygrad.autograd.grad(y, x, u, retain_graph=True)[0]  # noqa: E731
    assert close(func.vmap(back)(u), looped(back, u))


def test_linearize_and_vmap():
    _, moved = func.linearize(smooth, X[0])
    assert close(func.vmap(moved)(V), looped(moved, V))


def test_dual_tensors_in_vmap():
    with fw.dual_level():
        d = fw.make_dual(X, V)
        y = func.vmap(lambda x: (x * x).sum())(d)
        assert close(fw.unpack_dual(y).tangent, (2 * X * V).sum(1))


def test_ensembles():
    nn = pytest.importorskip("cygrad.nn")
    models = [nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)) for _ in range(3)]
    params, buffers = func.stack_module_state(models)
    x = cygrad.randn(4, 2)
    call = lambda p, b: func.functional_call(models[0], (p, b), (x,))  # noqa: E731
    y = func.vmap(call)(params, buffers)
    assert cygrad.allclose(y, cygrad.stack([m(x) for m in models]), atol=1e-6)
    g = func.vmap(func.grad(lambda p: call(p, {}).sum()))({k: v.detach() for k, v in params.items()})
    models[1](x).sum().backward()
    assert cygrad.allclose(g["0.weight"][1], models[1][0].weight.grad, atol=1e-6)


def test_what_pytorch_has_not():
    """Here PyTorch has no batching rule, loses a derivative by an argument counted from the end, or refuses."""
    x = t64([1.0, 2.0, 3.0])
    slopes = func.vmap(lambda a, t: func.linearize(lambda a: a**3, a)[1](t))(x, x)
    assert close(slopes, 3 * x**3)
    assert close(func.jacfwd(lambda a, b: a * b, argnums=-1)(x, x), cygrad.diag(x))
    outer = func.vmap(lambda t: func.jvp(lambda a: func.linearize(lambda b: (b**3).sum(), a)[1](x), (x,), (t,))[1])
    assert close(outer(cygrad.eye(3, dtype=cygrad.float64)), 6 * x * x)


def test_what_is_alike_is_computed_once():
    """Of what no example changes there is one, in memory as in values: here the forward pass."""
    from cygrad.storage.core import memory_stats

    n, seen = 50, []
    x = cygrad.rand(n, dtype=cygrad.float64)

    def f(x):
        before = memory_stats()["live_bytes"]
        y = x.exp()
        seen.append(memory_stats()["live_bytes"] - before)
        return (y * y).sum() if bool(y.sum() > 0) else y.sum()

    slopes = func.vmap(lambda k: func.grad(f)(x) * k)(x)
    assert close(slopes, x[:, None] * 2 * (2 * x).exp())
    assert seen[0] < 2 * 8 * n


# ---- beside the transforms


def test_debug_unwrap():
    seen = []

    def f(x):
        seen.append((func.debug_unwrap(x), func.debug_unwrap(x, recurse=False)))
        assert not seen[-1][0].requires_grad
        return x.sum()

    x = t64([[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]]])
    func.vmap(func.vmap(f))(x.requires_grad_())
    (whole, inner), = seen
    assert whole.tolist() == x.tolist() and whole.data_ptr() == x.data_ptr()
    assert inner.shape == (1, 2)
    assert func.debug_unwrap(x) is x
    with pytest.raises(TypeError, match="must be Tensor, not int"):
        func.debug_unwrap(3)


def test_functionalize_is_the_function():
    def f(x, *, by):
        y = x.clone()
        y[0].mul_(by)
        return y

    for remove in ("mutations", "mutations_and_views"):
        assert func.functionalize(f, remove=remove)(X, by=3).tolist() == f(X, by=3).tolist()
        assert func.vmap(func.functionalize(f))(X[None], by=3)[0].tolist() == f(X, by=3).tolist()
    with pytest.raises(RuntimeError, match="invalid argument for remove=views"):
        func.functionalize(f, remove="views")


def test_batch_norms_without_statistics():
    nn = pytest.importorskip("cygrad.nn")
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Sequential(nn.BatchNorm2d(2), nn.InstanceNorm1d(2)))
    assert func.replace_all_batch_norm_modules_(model) is model
    assert model[0].running_mean is None and not model[1][0].track_running_stats and not model.state_dict().keys() & {
        "0.running_mean", "0.num_batches_tracked"}
    x = cygrad.rand(3, 4, 2)
    rows = func.vmap(model[0], randomness="error")(x)
    assert cygrad.allclose(rows[1], nn.BatchNorm1d(2)(x[1]))


def test_everything_public_of_pytorchs_is_there():
    torch = pytest.importorskip("torch")
    assert set(torch.func.__all__) <= set(func.__all__)
    assert all(hasattr(func, name) for name in func.__all__)
    assert cygrad.vmap is func.vmap
