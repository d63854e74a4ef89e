"""Numbers beside tensors: factors of any kind, integers of 64 bits, numbers beside halves."""

import math

import pytest

import cygrad
from cygrad.storage.functions import full as full_array
from cygrad.tools.gradcheck import gradcheck, gradgradcheck

LARGE = 2**53 + 1      # no double is it
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
nan = math.nan


def made(shape, dtype, seed=0):
    generator = cygrad.Generator().manual_seed(seed)
    return (cygrad.randn(shape, generator=generator, dtype=cygrad.float64) * 3).to(getattr(cygrad, dtype))


def gradients_agree(f, *tensors):
    """Both orders of the gradients of a function of complex tensors, as one of their parts."""
    leaves = [cygrad.view_as_real(t.detach()).clone().requires_grad_() for t in tensors]

    def of_parts(*leaves):
        return cygrad.view_as_real(f(*map(cygrad.view_as_complex, leaves)))

    return gradcheck(of_parts, leaves) and gradgradcheck(of_parts, leaves)


# name -> operation over tensors of made(), alpha, beta; and the same in plain steps
BLENDS = {
    "addmm": ([(2, 4), (2, 3), (3, 4)], lambda c, a, b: (c, a @ b)),
    "addmv": ([(2,), (2, 3), (3,)], lambda c, a, b: (c, a @ b)),
    "addr": ([(2, 3), (2,), (3,)], lambda c, a, b: (c, cygrad.outer(a, b))),
    "addbmm": ([(2, 4), (5, 2, 3), (5, 3, 4)], lambda c, a, b: (c, (a @ b).sum(0))),
    "baddbmm": ([(5, 2, 4), (5, 2, 3), (5, 3, 4)], lambda c, a, b: (c, a @ b)),
}


@pytest.mark.parametrize("alpha, beta", [(2j, 1), (1, 2 - 1j), (0.5 + 2j, -3j), (1 + 0j, 0j), (True, False)])
@pytest.mark.parametrize("name", BLENDS)
def test_blends_of_complex_matrices(name, alpha, beta):
    shapes, plain = BLENDS[name]
    tensors = [made(s, "float64", i) + 1j * made(s, "float64", i + 9) for i, s in enumerate(shapes)]
    if name == "addr" and alpha is True:
        with pytest.raises(RuntimeError, match="Boolean"):
            cygrad.addr(*tensors, alpha=alpha, beta=beta)
        return
    c, product = plain(*tensors)
    wanted = c * beta + product * alpha
    assert cygrad.allclose(getattr(cygrad, name)(*tensors, alpha=alpha, beta=beta), wanted)
    target = tensors[0].clone()
    assert getattr(target, name + "_")(*tensors[1:], alpha=alpha, beta=beta) is target
    assert cygrad.allclose(target, wanted)
    assert gradients_agree(lambda *t: getattr(cygrad, name)(*t, alpha=alpha, beta=beta), *tensors)


@pytest.mark.parametrize("name", BLENDS)
def test_blends_of_integers_are_exact(name):
    tensors = [made(s, "int64", i) for i, s in enumerate(BLENDS[name][0])]
    c, product = BLENDS[name][1](*tensors)
    y = getattr(cygrad, name)(*tensors, alpha=LARGE, beta=-LARGE)
    assert cygrad.equal(y, c * -LARGE + product * LARGE)
    small = [t.to(cygrad.uint8) for t in tensors]
    with pytest.raises(RuntimeError, match="overflow"):
        getattr(cygrad, name)(*small, alpha=LARGE)


@pytest.mark.parametrize("name", BLENDS)
def test_a_factor_that_the_dtype_has_not(name):
    tensors = [made(s, "float32", i) for i, s in enumerate(BLENDS[name][0])]
    wanted = getattr(cygrad, name)(*tensors, alpha=2)
    assert cygrad.equal(getattr(cygrad, name)(*tensors, alpha=2 + 0j), wanted)
    for arguments in ({"alpha": 2j}, {"beta": 2j}):
        with pytest.raises(RuntimeError, match="2j"):
            getattr(cygrad, name)(*tensors, **arguments)
    with pytest.raises(TypeError, match="alpha"):
        getattr(cygrad, name)(*tensors, alpha="2")


def test_zero_beta_ignores_nan():
    c = cygrad.full((2, 2), nan, dtype=cygrad.complex64)
    a = cygrad.eye(2, dtype=cygrad.complex64)
    assert cygrad.addmm(c, a, a, beta=0j, alpha=2j).tolist() == [[2j, 0j], [0j, 2j]]


@pytest.mark.parametrize("name", ["add", "sub"])
def test_alpha_of_sums(name):
    sign = 1 if name == "add" else -1
    a, b = (made((2, 3), "complex128", i) + 1j for i in (1, 2))

    def f(a, b):
        return getattr(cygrad, name)(a, b, alpha=1 - 2j)

    assert cygrad.allclose(f(a, b), a + sign * (1 - 2j) * b)
    assert cygrad.allclose(getattr(a.clone(), name + "_")(b, alpha=1 - 2j), f(a, b))
    assert gradients_agree(f, a, b)
    i = cygrad.tensor([3, -5])
    assert getattr(cygrad, name)(i, i, alpha=LARGE).tolist() == [v + sign * v * LARGE for v in (3, -5)]
    assert getattr(cygrad, name)(cygrad.ones(2), 3j, alpha=2j).tolist() == [1 - sign * 6] * 2
    for x, alpha, word in ((i, 2.5, "floating"), (i, 2j, "floating"), (i, True, "Boolean"),
                           (cygrad.ones(2), 2j, "complex"),
                           (i.to(cygrad.uint8), 300, "overflow"), (cygrad.ones(2).half(), 70000, "overflow")):
        with pytest.raises(RuntimeError, match=word):
            getattr(cygrad, name)(x, x, alpha=alpha)


def test_values_of_addcmul_and_addcdiv():
    x, a, b = (made((3,), "complex128", i) + 1j for i in range(3))
    for f, g in ((cygrad.addcmul, lambda: x + 2j * a * b), (cygrad.addcdiv, lambda: x + 2j * a / b)):
        assert cygrad.allclose(f(x, a, b, value=2j), g())
        assert gradients_agree(lambda *t, f=f: f(*t, value=2j), x, a, b)
    i = cygrad.tensor([3, -5])
    assert cygrad.addcmul(i, i, i, value=LARGE).tolist() == [v + LARGE * v * v for v in (3, -5)]
    with pytest.raises(RuntimeError, match="2j"):
        cygrad.addcmul(cygrad.ones(1), cygrad.ones(1), cygrad.ones(1), value=2j)


def test_alpha_of_index_add():
    i = cygrad.tensor([3, -5])
    assert i.index_add(0, cygrad.tensor([1]), i[:1], alpha=LARGE).tolist() == [3, -5 + 3 * LARGE]


# ---- integers that no double is

FILLS = {
    "full": lambda x, v: cygrad.full(x.shape, v, dtype=x.dtype),
    "full_like": cygrad.full_like,
    "new_full": lambda x, v: x.new_full(x.shape, v),
    "fill_": lambda x, v: x.clone().fill_(v),
    "masked_fill": lambda x, v: x.masked_fill(x == x, v),
    "masked_fill_": lambda x, v: x.clone().masked_fill_(x == x, v),
    "where": lambda x, v: cygrad.where(x == x, v, x),
    "where other": lambda x, v: cygrad.where(x != x, x, v),
    "index_fill": lambda x, v: x.index_fill(0, cygrad.tensor([0, 1]), v),
    "scatter": lambda x, v: x.scatter(0, cygrad.tensor([0, 1]), v),
    "constant_pad_nd": lambda x, v: cygrad.constant_pad_nd(x, (2, 0), v)[:2],
    "storage": lambda x, v: cygrad.tensor(full_array((2,), v, x.dtype).tolist(), dtype=x.dtype),
}


@pytest.mark.parametrize("name", FILLS)
def test_fills_are_exact(name):
    for dtype in INTEGERS:
        x = cygrad.zeros(2, dtype=getattr(cygrad, dtype))
        info = cygrad.iinfo(x.dtype)
        for v in {info.min, info.max, min(info.max, LARGE), max(info.min, -LARGE)}:
            assert FILLS[name](x, v).tolist() == [v, v]
        with pytest.raises(RuntimeError, match="overflow"):
            FILLS[name](x, info.max + 1)
    x = cygrad.zeros(2, dtype=cygrad.uint64)
    assert FILLS[name](x, 2**64 - 1).tolist() == [2**64 - 1] * 2


@pytest.mark.parametrize("v", [2**64, -(2**63) - 1, 10**30])
def test_integers_of_more_than_64_bits(v):
    for dtype in ("float32", "float16", "complex64", "int64"):
        x = cygrad.ones(2, dtype=getattr(cygrad, dtype))
        for f in ("full_like", "add", "mul", "masked_fill"):
            with pytest.raises(OverflowError, match="64"):
                x.masked_fill(x == x, v) if f == "masked_fill" else getattr(cygrad, f)(x, v)


def test_numbers_alone():
    mask = cygrad.tensor([True, False])
    assert cygrad.where(mask, 2**63, 2**63).tolist() == [2**63] * 2
    assert cygrad.where(mask, LARGE, 1).tolist() == [LARGE, 1]
    with pytest.raises(RuntimeError, match="overflow"):
        cygrad.where(mask, 1e300, 1.0)


def test_bounds_that_the_dtype_has_not():
    for x, v in ((cygrad.ones(2), 1e300), (cygrad.ones(2).half(), 70000), (cygrad.ones(2).int(), 2**40)):
        for f in (cygrad.clamp_min, cygrad.clamp_max):
            with pytest.raises(RuntimeError, match="overflow"):
                f(x, v)
    assert cygrad.ones(2).half().clamp(max=math.inf).tolist() == [1, 1]


# ---- numbers beside halves keep the digits of a float32

HALVES = ("float16", "bfloat16")


@pytest.mark.parametrize("dtype", HALVES)
def test_numbers_beside_halves(dtype):
    x = made((400,), "float32").mul(17).to(getattr(cygrad, dtype))
    for v in (3.14159265, 0.33337, 1024.3, -7.7777, 2049):
        for other in (v, cygrad.tensor(v), cygrad.tensor(v, dtype=cygrad.float64)):
            for f in (lambda a, b: a * b, lambda a, b: b * a, lambda a, b: a / b, lambda a, b: a // b,
                      lambda a, b: cygrad.div(a, b, rounding_mode="trunc")):
                y = f(x, other)
                assert y.dtype is x.dtype
                assert cygrad.equal(y, f(x.float(), v).to(x.dtype))
        assert cygrad.equal(x.clone().mul_(v), x * v)
        y = x.clone()
        y /= v
        assert cygrad.equal(y, x / v)
        assert cygrad.equal(cygrad.lerp(x, -x, v), cygrad.lerp(x.float(), -x.float(), v).to(x.dtype))
        g, = cygrad.autograd.grad((x.requires_grad_() * v).sum(), x)
        assert cygrad.equal(g, cygrad.full_like(x.float(), v).to(x.dtype))
        x = x.detach()


@pytest.mark.parametrize("dtype", HALVES)
def test_numbers_beside_halves_are_pytorchs(dtype):
    torch = pytest.importorskip("torch")
    values = made((300,), "float32").mul(17).tolist()
    x, t = (m.tensor(values, dtype=getattr(m, dtype)) for m in (cygrad, torch))
    for v in (3.14159265, 0.33337, 1024.3, -7.7777):
        for f in (lambda a, b: a * b, lambda a, b: a / b, lambda a, b: a // b, lambda a, b: a + b,
                  lambda a, b: a - b, lambda a, b: a % b, lambda a, b: a < b):
            assert str(f(x, v).tolist()) == str(f(t, v).tolist())


def test_assigned_numbers_overflow_to_infinity_in_halves_only():
    x = cygrad.zeros(2, dtype=cygrad.float16)
    x[0] = 70000
    x[[1]] = -1e300
    assert x.tolist() == [math.inf, -math.inf]
    with pytest.raises(RuntimeError, match="overflow"):
        cygrad.zeros(2)[0] = 1e300
