"""Elementwise operations beyond their rows: arguments, numbers on either side, in-place forms, aliases, windows."""

import math

import numpy as np
import pytest

import cygrad
from cygrad.storage.opgen.parse import load
from cygrad.tools.gradcheck import gradcheck, gradgradcheck

inf, nan = math.inf, math.nan
ALIASES = [(alias, row.name) for row in load().values() for alias in row.alias]
WINDOWS = ("hann", "hamming", "blackman", "nuttall", "bartlett", "cosine", "exponential", "gaussian", "kaiser")


def floats(*x, grad=False):
    return cygrad.tensor(x, dtype=cygrad.float64, requires_grad=grad)


def same(a, b):
    return a.dtype is b.dtype and a.tolist() == pytest.approx(b.tolist(), nan_ok=True)


@pytest.mark.parametrize(("alias", "name"), ALIASES)
def test_alias(alias, name):
    """An alias is the same function, method and in-place method."""
    place, _, public = alias.rpartition(".")
    if place:
        assert getattr(getattr(cygrad, place), public) is getattr(cygrad, name)
        return
    name = name.removesuffix("_both")
    assert getattr(cygrad, alias) is getattr(cygrad, name)
    for form in ("", "_"):
        assert getattr(cygrad.Tensor, alias + form, None) is getattr(cygrad.Tensor, name + form, None)


def test_rare_operations_look_like_all_others():
    assert cygrad.asin.__name__ == cygrad.asin.__qualname__ == "asin"
    assert cygrad.asin.__doc__ == load()["asin"].doc
    with pytest.raises(TypeError, match="asin"):
        cygrad.asin()
    with pytest.raises(TypeError, match="Tensor"):
        cygrad.asin(0.5)
    x = floats(0.5)
    assert x.asin_() is x
    assert x.item() == pytest.approx(math.pi / 6)
    assert str(cygrad.asin(floats(0.5, grad=True)).grad_fn).startswith("<AsinBackward0")


# ---- arguments

def test_round():
    x = floats(0.5, 1.5, 2.675, -1234.5)
    assert cygrad.round(x).tolist() == [0, 2, 3, -1234]
    assert cygrad.round(x, decimals=1).tolist() == [0.5, 1.5, 2.7, -1234.5]
    assert x.round(decimals=-2).tolist() == [0, 0, 0, -1200]
    assert x.round_(decimals=1) is x
    assert cygrad.round(cygrad.tensor([1, 2])).tolist() == [1, 2]
    whole = cygrad.tensor([1])
    for wrong in (lambda: cygrad.round(whole, decimals=1), lambda: cygrad.special.round(whole)):
        with pytest.raises(NotImplementedError):
            wrong()
    with pytest.raises(TypeError, match="decimals"):
        cygrad.round(x, decimals=1.5)


def test_nan_to_num():
    x = cygrad.tensor([nan, inf, -inf, 1.0], requires_grad=True)
    largest = cygrad.finfo(cygrad.float32).max
    assert cygrad.nan_to_num(x).tolist() == [0, largest, -largest, 1]
    assert x.nan_to_num(nan=2, posinf=3, neginf=4).tolist() == [2, 3, 4, 1]
    x.nan_to_num().sum().backward()
    assert x.grad.tolist() == [0, 0, 0, 1]
    y = x.detach().clone()
    assert y.nan_to_num_(5.0) is y
    assert y[0] == 5
    assert cygrad.nan_to_num(cygrad.tensor([7])).tolist() == [7]


def test_logit_clamps_to_eps():
    x = floats(-1, 0.05, 0.5, 2, grad=True)
    y = cygrad.logit(x, eps=0.1)
    assert y.tolist() == pytest.approx([-math.log(9), -math.log(9), 0, math.log(9)])
    assert cygrad.autograd.grad(y.sum(), x)[0].tolist() == [0, 0, 4, 0]
    assert same(x.logit(-1.0), x.logit())


def test_frexp():
    x = floats(0.0, 3.0, -0.25, inf, nan, 5e-324, grad=True)
    mantissa, exponent = parts = cygrad.frexp(x)
    assert parts.mantissa is mantissa
    assert parts.exponent is exponent
    assert mantissa.tolist() == pytest.approx([0, 0.75, -0.5, inf, nan, 0.5], nan_ok=True)
    assert exponent.dtype is cygrad.int32
    assert exponent.tolist() == [0, 2, -1, 0, 0, -1073]
    assert cygrad.autograd.grad(mantissa[1], x)[0][1] == 0.25
    with pytest.raises(RuntimeError, match="floating"):
        cygrad.frexp(cygrad.tensor([1]))


def test_polygamma_and_mvlgamma():
    x = floats(1.5, 2.5, grad=True)
    assert same(x.polygamma(0), x.digamma())
    assert same(cygrad.mvlgamma(x, 1), cygrad.lgamma(x))
    assert cygrad.mvlgamma(x, 2).tolist() == pytest.approx(
        [math.lgamma(v) + math.lgamma(v - 0.5) + math.log(math.pi) / 2 for v in x.tolist()])
    assert cygrad.special.multigammaln(x, 2).tolist() == cygrad.mvlgamma(x, 2).tolist()
    y = x * 1
    assert y.mvlgamma_(2) is y
    for f in (lambda x: cygrad.polygamma(1, x), lambda x: cygrad.mvlgamma(x, 2), lambda x: (x * 1).mvlgamma_(2)):
        assert gradcheck(f, [x])
        assert gradgradcheck(f, [x])
    for wrong in (lambda: cygrad.polygamma(-1, x), lambda: cygrad.mvlgamma(x, 0)):
        with pytest.raises(RuntimeError):
            wrong()


# ---- numbers on either side

def test_float_power():
    x = cygrad.tensor([2, 3])
    assert cygrad.float_power(x, -1).tolist() == pytest.approx([0.5, 1 / 3])
    assert cygrad.float_power(2, x).dtype is cygrad.float64
    with pytest.raises(RuntimeError, match="float64"):
        cygrad.tensor([2.0]).float_power_(2)
    with pytest.raises(TypeError):
        cygrad.float_power(2, 3)


def test_ldexp():
    x, e = cygrad.tensor([1.0, 3.0]), cygrad.tensor([2, -1])
    assert cygrad.ldexp(x, e).tolist() == [4, 1.5]
    assert x.ldexp_(e).tolist() == [4, 1.5]
    with pytest.raises(TypeError, match="other"):
        cygrad.ldexp(x, 2)


def test_reflected_forms():
    x = cygrad.tensor([3, 4])
    assert cygrad.rsub(x, 10).tolist() == [7, 6]
    assert cygrad.rsub(x, cygrad.tensor([1, 1]), alpha=2).tolist() == [-5, -7]
    assert (7 % x).tolist() == [1, 3]
    assert (2**x).tolist() == [8, 16]
    assert x.__rdiv__(1.0).tolist() == pytest.approx([1 / 3, 0.25])
    assert cygrad.xlogy(2, x).tolist() == pytest.approx([2 * math.log(3), 2 * math.log(4)])
    assert cygrad.eye(2).__rmatmul__(cygrad.ones(2, 2)).tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("number", [2, 2.0, True, 3, 0.1, 2 - 1j])
@pytest.mark.parametrize("dtype", ["int32", "bfloat16", "float16", "float32", "float64", "complex64"])
def test_number_over_tensor_is_its_reciprocal_times_the_number(number, dtype):
    x = (cygrad.rand(1000) * 9 + 1).to(getattr(cygrad, dtype))
    y = number / x
    assert cygrad.equal(y, x.reciprocal() * number) and cygrad.equal(y, x.__rtruediv__(number))
    assert cygrad.allclose(y, number * cygrad.ones_like(y) / x, rtol=4e-2 if x.element_size() == 2 else 1e-6)
    if x.is_floating_point():
        node = (number / x.requires_grad_()).grad_fn
        assert (node.name(), node.next_functions[0][0].name()) == ("MulBackward0", "ReciprocalBackward0")


def test_what_is_over_a_tensor():
    x = cygrad.tensor([2.0, 4.0], requires_grad=True)
    assert (np.array([1.0, 3.0]) / x.detach()).tolist() == [0.5, 0.75]
    assert (np.float32(3) / x).grad_fn.name() == "MulBackward0"
    assert (cygrad.tensor(2.0) / x).grad_fn.name() == "DivBackward0"
    for other in ("a", [1.0, 2.0], None):
        assert x.__rtruediv__(other) is NotImplemented
        with pytest.raises(TypeError, match="unsupported operand"):
            other / x


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
def test_shifts(dtype):
    dtype = getattr(cygrad, dtype)
    bits = cygrad.iinfo(dtype).bits
    x = cygrad.tensor([1, 5, 100], dtype=dtype)
    assert (x << 1).tolist() == [2, 10, 200 if bits > 8 or dtype is cygrad.uint8 else -56]
    assert (x >> 2).tolist() == [0, 1, 25]
    far = cygrad.tensor([bits, bits + 1, 127], dtype=dtype)
    assert (x << far).tolist() == (x >> far).tolist() == [0, 0, 0]
    if dtype is not cygrad.uint8:
        assert (-x >> far).tolist() == [-1, -1, -1]
        assert (x << -cygrad.ones_like(x)).tolist() == [0, 0, 0]
    x <<= 1
    x >>= 1
    assert x[:2].tolist() == [1, 5]
    assert (2 << cygrad.tensor([1, 2])).tolist() == [4, 8]
    truth = cygrad.tensor([True])
    for wrong in (lambda: x << 1.5, lambda: cygrad.tensor([1.0]) << 1, lambda: truth << truth):
        with pytest.raises(NotImplementedError):
            wrong()


def test_gcd_and_lcm():
    a, b = cygrad.tensor([12, -12, 0, 7, -(2**63)]), cygrad.tensor([18, 8, 0, 0, 0])
    assert cygrad.gcd(a, b).tolist() == [6, 4, 0, 7, -(2**63)]
    assert cygrad.lcm(a, b).tolist() == [36, 24, 0, 0, 0]
    small = cygrad.tensor([200, 3], dtype=cygrad.uint8)
    assert cygrad.lcm(small[0], small[1]).item() == 600 % 256


def test_isin():
    x = cygrad.tensor([[1, 2], [3, 4]])
    assert cygrad.isin(x, cygrad.tensor([4, 1, 9])).tolist() == [[True, False], [False, True]]
    assert cygrad.isin(x, 2, invert=True).tolist() == [[True, False], [True, True]]
    assert cygrad.isin(3, x).item() is True
    assert cygrad.isin(x, cygrad.tensor([])).tolist() == [[False, False], [False, False]]
    assert cygrad.isin(cygrad.tensor([nan]), cygrad.tensor([nan])).tolist() == [False]
    many = cygrad.arange(3000)
    assert int(cygrad.isin(many, many[::3] * 2).sum()) == 500
    with pytest.raises(RuntimeError, match="isin"):
        cygrad.isin(cygrad.tensor([True]), cygrad.tensor([True]))


def test_bool_is_a_number_where_pytorch_counts_it_as_one():
    x = cygrad.tensor([True, False])
    assert cygrad.square(x).dtype is cygrad.int64
    assert cygrad.add(x, x, alpha=False).tolist() == [True, False]
    assert cygrad.clamp_min(x, cygrad.tensor([True, True])).tolist() == [True, True]
    assert cygrad.clamp_max(x, 0).dtype is cygrad.int64
    assert cygrad.signbit(x).tolist() == [False, False]
    with pytest.raises(NotImplementedError):
        cygrad.clamp_min(x, True)
    with pytest.raises(RuntimeError):
        cygrad.positive(x)


def test_out_must_have_the_dtype_of_the_result():
    x = cygrad.tensor([1, 2], dtype=cygrad.int32)
    for function in (cygrad.abs, cygrad.sign, cygrad.floor, cygrad.round, cygrad.nan_to_num, cygrad.signbit):
        out = cygrad.zeros(2, dtype=cygrad.int64)
        with pytest.raises(RuntimeError, match="int64"):
            function(x, out=out)
        assert out.tolist() == [0, 0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_nextafter_of_halves(dtype):
    """Every number is followed by the next one, from the least to the largest and back."""
    dtype = getattr(cygrad, dtype)
    info = cygrad.finfo(dtype)
    ends = [info.max, -info.max, info.smallest_normal, inf]
    x = cygrad.tensor([0.0, -0.0, 1.0, 2.0, -1.0, *ends, 3.0, nan], dtype=dtype)
    up = cygrad.nextafter(x, cygrad.full_like(x, inf)).double().tolist()
    tiny, eps = info.smallest_normal * info.eps, info.eps
    last = info.max * eps / (2 - eps)  # the gap below the largest number
    want = [tiny, tiny, 1 + eps, 2 + 2 * eps, -1 + eps / 2, inf, last - info.max, info.smallest_normal + tiny]
    assert up == pytest.approx([*want, inf, 3 + 2 * eps, nan], nan_ok=True, rel=1e-12)
    back = cygrad.nextafter(cygrad.tensor(up, dtype=dtype), cygrad.full_like(x, -inf)).double().tolist()
    assert back == pytest.approx([0.0, 0.0, *x.double().tolist()[2:8], info.max, 3.0, nan], nan_ok=True, rel=1e-12)


# ---- gradients at corners

@pytest.mark.parametrize(
    ("function", "a", "b", "grads"),
    [
        ("atan2", 0.0, 0.0, (0, 0)),
        ("xlogy", 0.0, 0.0, (0, nan)),
        ("copysign", 0.0, 1.0, (0, 0)),
        ("fmax", 1.0, 1.0, (1, 0)),
        ("fmin", nan, 1.0, (0, 1)),
        ("hypot", 0.0, 0.0, (nan, nan)),
        ("nextafter", 1.0, 2.0, (1, 0)),
        ("nextafter", 1.0, 1.0, (0, 0)),
    ],
)
def test_gradients_of_two_at_corners(function, a, b, grads):
    a, b = floats(a, grad=True), floats(b, grad=True)
    got = cygrad.autograd.grad(getattr(cygrad, function)(a, b).sum(), (a, b))
    assert [g.item() for g in got] == pytest.approx(grads, nan_ok=True)


SLOPES = [("sinc", 0), ("i0", 0), ("angle", 0), ("sgn", 0), ("frac", 1), ("entr", inf), ("i1", 0.5), ("i1e", 0.5)]


@pytest.mark.parametrize(("name", "slope"), SLOPES)
def test_gradients_at_zero(name, slope):
    x = floats(0.0, grad=True)
    function = getattr(cygrad, name, None) or getattr(cygrad.special, name)
    assert cygrad.autograd.grad(function(x).sum(), x)[0].item() == slope


# ---- windows

@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("sym", [True, False])
def test_windows_are_pytorchs(name, sym):
    torch = pytest.importorskip("torch")
    ours, theirs = (getattr(lib.signal.windows, name) for lib in (cygrad, torch))
    for m in (0, 1, 2, 7, 64):
        got, want = ours(m, sym=sym, dtype=cygrad.float64), theirs(m, sym=sym, dtype=torch.float64)
        assert got.tolist() == pytest.approx(want.tolist(), abs=1e-12)
    assert ours(5, sym=sym).dtype is cygrad.float32


def test_windows_refuse():
    windows = cygrad.signal.windows
    for wrong in (
        lambda: windows.hann(-1),
        lambda: windows.hann(3, dtype=cygrad.int64),
        lambda: windows.gaussian(3, std=0),
        lambda: windows.exponential(3, tau=-1),
        lambda: windows.exponential(3, center=1),
        lambda: windows.kaiser(3, beta=-1),
        lambda: windows.general_cosine(3, a=[]),
    ):
        with pytest.raises(ValueError):
            wrong()
    for wrong in (lambda: windows.hann(2.5), lambda: windows.general_cosine(3, a=1)):
        with pytest.raises(TypeError):
            wrong()
    assert windows.hann(3, requires_grad=True).requires_grad


@pytest.mark.parametrize("call", [
    lambda layout: cygrad.fft.fftfreq(4, layout=layout), lambda layout: cygrad.fft.rfftfreq(4, layout=layout),
    lambda layout: cygrad.logspace(1, 2, 3, layout=layout), lambda layout: cygrad.scalar_tensor(3, layout=layout),
    lambda layout: cygrad.hann_window(3, layout=layout), lambda layout: cygrad.kaiser_window(3, layout=layout),
    lambda layout: cygrad.tril_indices(3, 3, layout=layout), lambda layout: cygrad.triu_indices(3, 3, layout=layout),
])
def test_a_layout_that_is_none_is_refused(call):
    assert cygrad.equal(call(cygrad.strided), call(None))
    with pytest.raises(TypeError, match=r"'layout' must be torch\.strided, not list"):
        call([1])
