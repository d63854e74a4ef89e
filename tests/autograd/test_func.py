"""Transforms of functions: gradients, products with Jacobians, Jacobians, nesting, trees of arguments, errors."""

import pytest

import cygrad
from cygrad import func
from cygrad.autograd import forward_ad as fw


def t64(x):
    return cygrad.tensor(x, dtype=cygrad.float64)


def close(a, b, tolerance=1e-10):
    return cygrad.allclose(a, b if isinstance(b, cygrad.Tensor) else t64(b), rtol=tolerance, atol=tolerance)


X = t64([1.0, 2.0])


# ---- grad


def test_grad():
    assert func.grad(cygrad.sin)(t64(0.0)).item() == 1
    assert func.grad(lambda x, y: (x * y).sum(), argnums=1)(X, X + 1).tolist() == [1, 2]
    assert func.grad(lambda x, y: (x * y).sum(), argnums=-1)(X, X + 1).tolist() == [1, 2]
    both = func.grad(lambda x, y: (x * y).sum(), argnums=(1, 0))(X, X + 1)
    assert [g.tolist() for g in both] == [[1, 2], [2, 3]]
    assert func.grad(lambda x, y=1: (x * y).sum())(X, y=3).tolist() == [3, 3]
    assert func.grad(lambda x: t64(1.0))(X).tolist() == [0, 0]


def test_value_and_grad():
    f = lambda x: (x**2).sum()  # noqa: E731
    g, v = func.grad_and_value(f)(X)
    assert (g.tolist(), v.item()) == ([2, 4], 5)
    v, g = func.value_and_grad(f)(X)
    assert (g.tolist(), v.item()) == ([2, 4], 5)
    assert not v.requires_grad
    assert not g.requires_grad


def test_aux():
    f = lambda x: (x.sum(), {"twice": x * 2})  # noqa: E731
    g, aux = func.grad(f, has_aux=True)(X)
    assert g.tolist() == [1, 1]
    assert aux["twice"].tolist() == [2, 4]
    assert not aux["twice"].requires_grad
    (v, aux), g = func.value_and_grad(f, has_aux=True)(X)
    assert v.item() == 3
    for wrong in (lambda x: x.sum(), lambda x: (x.sum(), 1, 2)):
        with pytest.raises(RuntimeError, match="aux"):
            func.grad(wrong, has_aux=True)(X)
    with pytest.raises(RuntimeError, match="int"):
        func.grad(lambda x: (x.sum(), 3), has_aux=True)(X)


def test_trees():
    f = lambda p: (p["a"] * p["b"][0]).sum() + p["b"][1][0].sum()  # noqa: E731
    p = {"a": X, "b": [X + 1, (X,)]}
    g = func.grad(f)(p)
    assert g["a"].tolist() == [2, 3]
    assert g["b"][0].tolist() == [1, 2]
    assert g["b"][1][0].tolist() == [1, 1]
    assert isinstance(g["b"][1], tuple)


def test_what_grad_refuses():
    f = lambda x: x.sum()  # noqa: E731
    with pytest.raises(RuntimeError, match="scalar"):
        func.grad(lambda x: x * 2)(X)
    with pytest.raises(RuntimeError, match="return a Tensor"):
        func.grad(lambda x: 2.0)(X)
    with pytest.raises(RuntimeError, match="only 1 positional"):
        func.grad(f, argnums=3)(X)
    for wrong in ("a", [0]):
        with pytest.raises(RuntimeError, match="argnums"):
            func.grad(f, argnums=wrong)(X)
    with pytest.raises(RuntimeError, match="unique"):
        func.grad(f, argnums=(0, -1))(X)
    with pytest.raises(RuntimeError, match="non-empty"):
        func.grad(f, argnums=())(X)
    with pytest.raises(ValueError, match="float"):
        func.grad(f)(2.0)
    with pytest.raises(RuntimeError, match="floating point"):
        func.grad(f)(cygrad.tensor([1, 2]))
    with pytest.raises(RuntimeError, match=r"in-place|inplace"):
        func.grad(lambda x: x.sin_().sum())(X.clone())


def test_grad_and_the_graph_around():
    x = t64(3.0).requires_grad_()
    g = func.grad(lambda y: x * y)(t64(2.0))
    assert g.requires_grad
    assert cygrad.autograd.grad(g, x)[0].item() == 1
    g = func.grad(lambda y: y**3)(x)
    assert cygrad.autograd.grad(g, x)[0].item() == 18
    g, v = func.grad_and_value(lambda y: y**2 + x.detach())(t64(2.0))
    assert not g.requires_grad
    assert not v.requires_grad
    v = func.grad_and_value(lambda y: y * 2 + x)(t64(2.0))[1]
    v.backward()
    assert x.grad.item() == 1


def test_grad_and_modes():
    with cygrad.no_grad():
        assert func.grad(lambda x: (x * x).sum())(X).tolist() == [2, 4]
        y = t64(2.0).requires_grad_()
        assert not func.grad(lambda x: x * y)(t64(1.0)).requires_grad
    assert func.grad(cygrad.no_grad()(lambda x: x.sum()))(X).tolist() == [0, 0]


# ---- vjp, jvp, linearize


def test_vjp():
    y, vjp_fn = func.vjp(lambda x: x**2, X)
    assert y.tolist() == [1, 4]
    assert not y.requires_grad
    assert [vjp_fn(X)[0].tolist() for _ in range(2)] == [[2, 8]] * 2
    _, vjp_fn = func.vjp(lambda x, y: {"a": x * y, "b": [x]}, X, X + 1)
    gx, gy = vjp_fn({"a": X, "b": [X]})
    assert gx.tolist() == [3, 8]
    assert gy.tolist() == [1, 4]
    y, vjp_fn, aux = func.vjp(lambda x: (x * 2, x), X, has_aux=True)
    assert aux.tolist() == [1, 2]


def test_what_vjp_refuses():
    _, vjp_fn = func.vjp(lambda x: x * 2, X)
    with pytest.raises(RuntimeError, match="structure"):
        vjp_fn((X, X))
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        vjp_fn(t64([1.0, 2.0, 3.0]))
    with pytest.raises(TypeError, match="int"):
        vjp_fn(1)
    with pytest.raises(RuntimeError, match="int"):
        func.vjp(lambda x: 3, X)
    with pytest.raises(ValueError, match="float"):
        func.vjp(lambda x, y: x, X, 3.0)
    with pytest.raises(RuntimeError, match="aux"):
        func.vjp(lambda x: x * 2, X, has_aux=True)


def test_jvp():
    y, t = func.jvp(lambda x: x**2, (X,), (X,))
    assert (y.tolist(), t.tolist()) == ([1, 4], [2, 8])
    y, t = func.jvp(lambda p: {"r": p["a"] * p["b"][0]}, ({"a": X, "b": [X]},), ({"a": X, "b": [X]},))
    assert t["r"].tolist() == [2, 8]
    y, t = func.jvp(lambda x: X, (X,), (X,))
    assert t.tolist() == [0, 0]
    y, t, aux = func.jvp(lambda x: (x * 2, {"a": x}), (X,), (X,), has_aux=True)
    assert aux["a"].tolist() == [1, 2]
    with fw.dual_level():
        assert fw.unpack_dual(y).tangent is None


def test_what_jvp_refuses():
    f = lambda x: x**2  # noqa: E731
    for args, message in (
        ((X, X), "tuple"),
        (((), ()), "at least one"),
        (((X,), (X, X)), "structure"),
        (([X], [X]), "tuple"),
        (((X,), (X[:1],)), "different size"),
        (((2.0,), (X,)), "float"),
        (((X,), (2.0,)), "float"),
    ):
        with pytest.raises(RuntimeError, match=message):
            func.jvp(f, *args)
    with pytest.raises(RuntimeError, match="int"):
        func.jvp(lambda x: 3, (X,), (X,))
    with pytest.raises(RuntimeError, match="independent"):
        func.jvp(lambda x: X, (X,), (X,), strict=True)
    with fw.dual_level():  # after all these errors no level is left open
        assert fw._thread.levels == [fw._thread.entered]


def test_linearize():
    calls = []

    def f(x, y):
        calls.append(1)
        return {"r": x.sin() * y, "s": x.sum()}

    y, jvp_fn = func.linearize(f, X, X + 1)
    expected = func.jvp(f, (X, X + 1), (X * 3, X))
    moved = jvp_fn(X * 3, X)
    assert close(moved["r"], expected[1]["r"])
    assert close(jvp_fn(X * 6, X * 2)["s"], 18.0)
    assert close(y["r"], expected[0]["r"])
    assert len(calls) == 2
    assert not moved["r"].requires_grad
    with pytest.raises(RuntimeError, match="argspec"):
        jvp_fn(X)
    with pytest.raises(RuntimeError, match="shape"):
        jvp_fn(X, X[:1])
    with pytest.raises(RuntimeError, match="dtype"):
        jvp_fn(X, X.float())


# ---- Jacobians


@pytest.mark.parametrize("transform", [func.jacrev, func.jacfwd])
def test_jacobians(transform):
    assert transform(lambda x: x**2)(X).tolist() == [[2, 0], [0, 4]]
    (a, b), k = transform(lambda x, y: (x * y, {"k": x.sum()}), argnums=(0, 1))(X, X + 1)
    assert (a.tolist(), b.tolist()) == ([[2, 0], [0, 3]], [[1, 0], [0, 2]])
    assert [g.tolist() for g in k["k"]] == [[1, 1], [0, 0]]
    assert transform(lambda p: p["a"] ** 2)({"a": X})["a"].tolist() == [[2, 0], [0, 4]]
    j, aux = transform(lambda x: (x**2, x), has_aux=True)(X)
    assert j.tolist() == [[2, 0], [0, 4]]
    assert aux.tolist() == [1, 2]
    m = t64([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    j = transform(lambda x: (x @ m).sum(0, keepdim=True))(t64([[1.0, 2.0]]))
    assert j.shape == (1, 3, 1, 2)
    assert j[0, :, 0].tolist() == m.T.tolist()
    with pytest.raises(RuntimeError, match="int"):
        transform(lambda x: 3)(X)
    with pytest.raises(RuntimeError, match="only 1 positional"):
        transform(lambda x: x, argnums=2)(X)


@pytest.mark.parametrize("transform", [func.jacrev, func.jacfwd])
def test_jacobians_of_nothing(transform):
    assert transform(lambda x: x**2)(X[:0]).shape == (0, 0)
    assert transform(lambda x: x.sum() * X)(X[:0]).shape == (2, 0)
    assert transform(lambda x: x[:0])(X).shape == (0, 2)


def test_options_of_jacobians():
    for size in (1, 5):
        assert func.jacrev(lambda x: x**2, chunk_size=size)(X).tolist() == [[2, 0], [0, 4]]
    with pytest.raises(ValueError, match="chunk_size"):
        func.jacrev(lambda x: x, chunk_size=0)
    with pytest.raises(RuntimeError, match="randomness"):
        func.jacfwd(lambda x: x, randomness="none")(X)


def test_hessian():
    assert close(func.hessian(lambda x: (x**3).sum())(X), [[6.0, 0.0], [0.0, 12.0]])
    h = func.hessian(lambda x, y: (x**2 * y).sum(), argnums=(0, 1))(X, X + 2)
    assert close(h[0][0], [[6.0, 0.0], [0.0, 8.0]])
    assert close(h[0][1], [[2.0, 0.0], [0.0, 4.0]])
    assert close(h[1][0], [[2.0, 0.0], [0.0, 4.0]])
    assert close(h[1][1], [[0.0, 0.0], [0.0, 0.0]])


# ---- nesting


def f(x):
    return (x.sin() * x.exp()).sum()


PAIRS = [func.jacfwd, func.jacrev]


@pytest.mark.parametrize("outer", PAIRS)
@pytest.mark.parametrize("inner", PAIRS)
def test_second_derivatives_agree(outer, inner):
    expected = cygrad.diag(2 * X.exp() * X.cos())
    assert close(outer(inner(f))(X), expected)
    assert close(outer(lambda x: inner(lambda y: f(y))(x))(X), expected)


@pytest.mark.parametrize("a", PAIRS)
@pytest.mark.parametrize("b", PAIRS)
@pytest.mark.parametrize("c", PAIRS)
def test_third_derivatives_agree(a, b, c):
    third = a(b(c(lambda x: (x**4).sum())))(X)
    assert close(third[0, 0, 0], 24.0)
    assert close(third[1, 1, 1], 48.0)
    assert third.sum().item() == pytest.approx(72)


def test_perturbations_are_not_confused():
    """d/dx (x * d/dy (x + y)) is 1, not 2, in every combination of modes."""
    one = t64(1.0)

    def derivative(g):
        return lambda x: func.jvp(g, (x,), (one,))[1]

    for outer in (func.grad, derivative):
        for inner in (func.grad, derivative):
            assert outer(lambda x, d=inner: x * d(lambda y: x + y)(one))(one).item() == 1
            assert outer(lambda x, d=inner: x * d(lambda y: x * y)(x))(t64(3.0)).item() == 6
            assert outer(lambda x, d=inner: d(lambda y: x * y * y)(x * 2))(t64(3.0)).item() == 24


def test_derivatives_of_any_depth():
    g, h = cygrad.sin, cygrad.sin
    for _ in range(5):
        g = func.grad(g)
        h = (lambda k: lambda x: func.jvp(k, (x,), (t64(1.0),))[1])(h)
    x = t64(0.3)
    assert g(x).item() == pytest.approx(cygrad.cos(x).item())
    assert h(x).item() == pytest.approx(cygrad.cos(x).item())


def test_transforms_inside_a_dual_level():
    with fw.dual_level():
        d = fw.make_dual(t64(2.0), t64(1.0))
        y = func.jvp(lambda x: x**3, (d,), (t64(1.0),))[1]
        g = func.grad(lambda x: x**3)(d)
        assert y.item() == g.item() == 12
        assert fw.unpack_dual(y).tangent.item() == fw.unpack_dual(g).tangent.item() == 12


def test_vjp_inside_jvp_and_jvp_inside_vjp():
    v = t64([0.5, 2.0])
    hv = 2 * X.exp() * X.cos() * v
    assert close(func.jvp(func.grad(f), (X,), (v,))[1], hv)
    assert close(func.vjp(func.grad(f), X)[1](v)[0], hv)
    assert close(func.grad(lambda x: func.jvp(f, (x,), (v,))[1])(X), hv)
    assert close(func.linearize(func.grad(f), X)[1](v), hv)
    assert close(func.grad(lambda x: func.linearize(f, x)[1](v))(X), hv)
    assert close(func.grad(lambda t: func.jvp(f, (X,), (t,))[1])(v), func.grad(f)(X))
    assert close(func.jacfwd(lambda t: func.vjp(lambda x: x.sin(), X)[1](t)[0])(v), cygrad.diag(X.cos()))


def test_writes_under_transforms():
    def g(x):
        y = x * 1
        y[0] = x[1] * x[0]
        y.view(2, 1)[1].mul_(x[0])
        return (y * y).sum()

    for transform in (func.grad, func.jacrev, func.jacfwd):
        assert close(transform(g)(X), [16.0, 8.0])
    for h in (func.hessian(g), func.jacrev(func.jacrev(g)), func.jacfwd(func.jacfwd(g)), func.jacrev(func.jacfwd(g))):
        assert close(h(X), [[16.0, 16.0], [16.0, 4.0]])


def test_no_history_is_left():
    h = func.jacrev(func.grad(f))(X)
    assert not h.requires_grad
    x = X.clone().requires_grad_()
    h = func.hessian(f)(x)
    assert h.requires_grad
    third = cygrad.autograd.grad(h.sum(), x)[0]
    assert close(third, 2 * X.exp() * (X.cos() - X.sin()))


# ---- modules


def test_functional_call():
    nn = pytest.importorskip("cygrad.nn")
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    p = {name: t.detach() for name, t in model.named_parameters()}
    x = cygrad.tensor([[1.0, 2.0]])
    before = model(x)
    loss = lambda p: func.functional_call(model, p, (x,)).sum()  # noqa: E731
    g = func.grad(loss)(p)
    before.sum().backward()
    for name, t in model.named_parameters():
        assert cygrad.allclose(g[name], t.grad)
    assert func.functional_call(model, {k: v * 0 for k, v in p.items()}, x).item() == 0
    assert cygrad.equal(model(x), before)


def test_what_functional_call_refuses():
    nn = pytest.importorskip("cygrad.nn")
    model, x = nn.Linear(2, 1), cygrad.ones(2)
    w, b = cygrad.ones(1, 2), cygrad.zeros(1)
    call = func.functional_call
    assert call(model, ({"weight": w}, {"bias": b}), x).item() == 2
    assert call(model, {}, kwargs={"input": x}).shape == (1,)
    with pytest.raises(RuntimeError, match=r"Missing.*bias"):
        call(model, {"weight": w}, x, strict=True)
    with pytest.raises(RuntimeError, match=r"Unexpected.*other"):
        call(model, {"weight": w, "bias": b, "other": b}, x, strict=True)
    with pytest.raises(ValueError, match="multiple"):
        call(model, ({"weight": w}, {"weight": w}), x)
    with pytest.raises(ValueError, match="int"):
        call(model, 3, x)
    with pytest.raises(TypeError, match="3"):
        call(model, {"weight": 3}, x)
    with pytest.raises(TypeError, match="int"):
        call(3, {}, x)


def test_functional_call_and_tied_weights():
    nn = pytest.importorskip("cygrad.nn")

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
            self.b.weight = self.a.weight
            self.register_buffer("calls", cygrad.zeros(()))

        def forward(self, x):
            self.calls = self.calls + 1
            return self.b(self.a(x))

    model, x = Tied(), cygrad.ones(2)
    values = {"a.weight": 2 * cygrad.eye(2), "calls": cygrad.zeros(())}
    assert func.functional_call(model, values, x).tolist() == [4, 4]
    assert values["calls"].item() == 1
    assert model.calls.item() == 0
    with pytest.raises(ValueError, match="tied"):
        func.functional_call(model, {"a.weight": cygrad.eye(2), "b.weight": cygrad.ones(2, 2)}, x)
    y = func.functional_call(model, {"a.weight": cygrad.eye(2), "b.weight": cygrad.ones(2, 2)}, x, tie_weights=False)
    assert y.tolist() == [2, 2]


def test_stack_module_state():
    nn = pytest.importorskip("cygrad.nn")
    models = [nn.Linear(2, 1) for _ in range(3)]
    p, buffers = func.stack_module_state(models)
    assert {k: tuple(v.shape) for k, v in p.items()} == {"weight": (3, 1, 2), "bias": (3, 1)}
    assert buffers == {}
    assert p["weight"].requires_grad
    assert p["weight"].is_leaf
    for wrong in ([], [models[0], nn.ReLU()], [models[0], nn.Linear(2, 1).eval()]):
        with pytest.raises(RuntimeError, match="stack_module_state"):
            func.stack_module_state(wrong)
