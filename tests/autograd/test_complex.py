"""Complex numbers against PyTorch: values, gradients of both orders, parts as views, numbers, printing, refusals."""

import itertools
import math

import numpy as np
import pytest

import cygrad

torch = pytest.importorskip("torch")

LIBRARIES = (cygrad, torch)
NUMBERS = np.random.default_rng(7).standard_normal((4, 4, 5))
KINDS = ("complex64", "complex128")


def operands(name, gradients=False):
    """Two (4, 5) operands in both libraries."""
    pairs = [NUMBERS[0] + 1j * NUMBERS[1], NUMBERS[2] + 1j * NUMBERS[3]]
    made = [[lib.tensor(x.tolist(), dtype=getattr(lib, name)) for x in pairs] for lib in LIBRARIES]
    if gradients:
        for tensors in made:
            for x in tensors:
                x.requires_grad_()
    return made


def same(ours, theirs, tolerance=None):
    assert repr(ours.dtype) == repr(theirs.dtype)
    assert tuple(ours.shape) == tuple(theirs.shape)
    a, b = ours.detach().numpy(), theirs.detach().resolve_conj().numpy()
    tolerance = tolerance or (4e-6 if b.dtype.name in ("complex64", "float32") else 1e-12)
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


ONE = (  # noqa: SIM905
    "neg reciprocal square sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh "
    "tanh asinh acosh atanh sigmoid sinc abs angle sgn isnan isinf isfinite logical_not conj isreal sum mean var std"
).split()
MORE = {
    "add": lambda lib, x, y: x + y, "sub": lambda lib, x, y: x - y, "mul": lambda lib, x, y: x * y,
    "div": lambda lib, x, y: x / y, "pow": lambda lib, x, y: x**y, "number_power": lambda lib, x, y: 2**x,
    "power_number": lambda lib, x, y: x**2.5, "power_two": lambda lib, x, y: x**2,
    "number": lambda lib, x, y: (2 - x) * 2j + 1.5, "eq": lambda lib, x, y: x == x.clone(),
    "ne": lambda lib, x, y: x != y, "where": lambda lib, x, y: lib.where(x.real > 0, x, y),
    "lerp": lambda lib, x, y: lib.lerp(x, y, 0.3), "lerp_tensor": lambda lib, x, y: lib.lerp(x, y, x),
    "addcmul": lambda lib, x, y: lib.addcmul(x, x, y, value=0.5),
    "addcdiv": lambda lib, x, y: lib.addcdiv(x, x, y, value=0.5),
    "sum_dim": lambda lib, x, y: x.t().sum(0), "mean_dim": lambda lib, x, y: x.mean(1, keepdim=True),
    "prod": lambda lib, x, y: x.prod(), "prod_dim": lambda lib, x, y: x.prod(0), "std_dim": lambda lib, x, y: x.std(1),
    "norm": lambda lib, x, y: x.norm(), "norm_one": lambda lib, x, y: x.norm(1, dim=1),
    "norm_most": lambda lib, x, y: x.norm(math.inf, dim=0), "norm_three": lambda lib, x, y: x.norm(3),
    "cumsum": lambda lib, x, y: x.cumsum(1), "cumprod": lambda lib, x, y: x.cumprod(0),
    "any": lambda lib, x, y: x.any(0),
    "all": lambda lib, x, y: x.all(), "mm": lambda lib, x, y: x @ y.t(), "mv": lambda lib, x, y: x @ y[0],
    "bmm": lambda lib, x, y: lib.bmm(x[None], y.t()[None]), "dot": lambda lib, x, y: lib.dot(x[0], y[1]),
    "addmm": lambda lib, x, y: lib.addmm(x[:, :1], x, y.t(), alpha=0.5, beta=2), "real": lambda lib, x, y: x.real * 2,
    "imag": lambda lib, x, y: x.imag * 2, "H": lambda lib, x, y: x.H, "mH": lambda lib, x, y: x.mH,
    "view_as_real": lambda lib, x, y: lib.view_as_real(x), "complex": lambda lib, x, y: lib.complex(x.real, y.imag),
    "view_as_complex": lambda lib, x, y: lib.view_as_complex(lib.view_as_real(x)),
    "polar": lambda lib, x, y: lib.polar(x.real.abs(), y.real), "index": lambda lib, x, y: x[[1, 2, 1]],
    "cat": lambda lib, x, y: lib.cat([x, y.real.contiguous()]),
    "to_real": lambda lib, x, y: lib.real(x).to(lib.float64),
    "masked_fill": lambda lib, x, y: x.masked_fill(x.real > 0, 1j),
    "logical_and": lambda lib, x, y: lib.logical_and(x, y),
    "strided": lambda lib, x, y: x[:, ::2] * y.t()[::2].t(), "broadcast": lambda lib, x, y: x * y[:, :1] + y[0],
    "mixed": lambda lib, x, y: x * y.real + y.imag,
}  # fmt: skip
MORE |= {name: (lambda lib, x, y, name=name: getattr(lib, name)(x)) for name in ONE}
each = pytest.mark.parametrize("f", MORE.values(), ids=list(MORE))


@each
@pytest.mark.parametrize("name", KINDS)
def test_values(f, name):
    (a, b), (ta, tb) = operands(name)
    same(f(cygrad, a, b), f(torch, ta, tb))


@each
def test_gradients(f):
    """Of first order with and without a graph, and of second order."""
    found = []
    for lib, tensors in zip(LIBRARIES, operands("complex128", gradients=True), strict=True):
        y = f(lib, *tensors)
        if not y.requires_grad:
            return
        weights = lib.ones_like(y) * (1 - 0.5j) if y.is_complex() else lib.ones_like(y)
        plain = lib.autograd.grad(y, tensors, weights, allow_unused=True, retain_graph=True)
        first = lib.autograd.grad(y, tensors, weights, allow_unused=True, create_graph=True)
        total = sum((g.abs() ** 2).sum() for g in first if g is not None)
        second = lib.autograd.grad(total, tensors, allow_unused=True) if total.requires_grad else ()
        found.append([*plain, *first, *second])
    for ours, theirs in zip(*found, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            same(ours, theirs, 1e-9)


def test_real_inputs_of_complex_results_have_real_gradients():
    for f in (lambda x: (x * (1 + 2j)).abs().sum(), lambda x: ((x + 1j) ** 2).real.sum(), lambda x: (1j**x).imag.sum()):
        grads = []
        for lib in LIBRARIES:
            x = lib.tensor([1.0, -2.0, 0.5], dtype=lib.float64, requires_grad=True)
            f(x).backward()
            grads.append(x.grad)
        assert grads[0].dtype is cygrad.float64
        same(*grads)


def test_a_complex_scalar_has_no_gradient_by_itself():
    for lib in LIBRARIES:
        x = lib.tensor(1 + 1j, requires_grad=True)
        with pytest.raises(RuntimeError, match="real scalar outputs"):
            (x * 2).backward()
        (x * 2).backward(lib.tensor(1 + 0j))
        assert x.grad.item() == 2


@pytest.mark.parametrize("name", KINDS)
def test_parts_are_views(name):
    x = cygrad.tensor([[1 + 2j, 3 - 4j]], dtype=getattr(cygrad, name))
    x.real[0, 1] = 7
    x.imag = x.imag * 10
    cygrad.view_as_real(x)[..., 1] += 1
    assert x.tolist() == [[1 + 21j, 7 - 39j]]
    assert x.real.stride() == (4, 2) and x.imag.storage_offset() == 1 and x.real.data_ptr() == x.data_ptr()
    x.real = 0
    assert x.tolist() == [[21j, -39j]]
    back = cygrad.view_as_complex(cygrad.view_as_real(x))
    assert back.data_ptr() == x.data_ptr() and back.stride() == x.stride()
    plain = cygrad.tensor([1.0])
    assert plain.real is plain and plain.conj() is plain and plain.resolve_conj() is plain
    with pytest.raises(RuntimeError, match="imag is not implemented"):
        getattr(plain, "imag")  # noqa: B009


@pytest.mark.parametrize("write", [
    lambda lib, x: x.real.mul_(3), lambda lib, x: x.imag.copy_(x.real * 2),
    lambda lib, x: lib.view_as_real(x)[1:].zero_(),
    lambda lib, x: x[1:].imag.add_(x[:1].real.clone()), lambda lib, x: x.real[::2].mul_(x.imag[::2].clone()),
])  # fmt: skip
def test_writes_into_parts_have_gradients(write):
    found = []
    for lib in LIBRARIES:
        leaf = lib.tensor([1 + 2j, 3 - 1j, 0.5j], dtype=lib.complex128, requires_grad=True)
        x = leaf * (1 + 1j)
        other = x.real                         # a view from before the write, used after it
        write(lib, x)
        y = (x * x).abs().sum() + (other * other).sum()
        first = lib.autograd.grad(y, leaf, create_graph=True)[0]
        found.append((first, lib.autograd.grad((first.abs() ** 2).sum(), leaf)[0]))
    for ours, theirs in zip(*found, strict=True):
        same(ours, theirs, 1e-10)


def test_writes_into_complex_numbers_over_real_ones_have_gradients():
    found = []
    for lib in LIBRARIES:
        leaf = lib.arange(8.0, dtype=lib.float64).reshape(4, 2).requires_grad_()
        x = leaf * 2
        lib.view_as_complex(x)[1:3].mul_(1 - 2j)
        y = (x * x).sum()
        found.append(lib.autograd.grad(y, leaf)[0])
    same(*found)


@pytest.mark.parametrize("bad", [
    lambda lib: lib.ones(3), lambda lib: lib.ones(2, 4).t()[:2], lambda lib: lib.ones(2, 3)[:, :2],
    lambda lib: lib.ones(3, 2, dtype=lib.int64), lambda lib: lib.tensor(1.0), lambda lib: lib.ones(9)[1:].view(4, 2),
])  # fmt: skip
def test_what_holds_no_pairs_is_refused(bad):
    for lib in LIBRARIES:
        with pytest.raises(RuntimeError):
            lib.view_as_complex(bad(lib))


def test_parts_that_make_no_complex_number_are_refused():
    x = cygrad.ones(2)
    for parts in ((x, x.double()), (x.half(), x.half()), (x.int(), x.int())):
        for f in (cygrad.complex, cygrad.polar):
            with pytest.raises(RuntimeError):
                f(*parts)
    with pytest.raises(RuntimeError, match="complex tensors"):
        cygrad.view_as_real(x)


@pytest.mark.parametrize("f", [
    lambda x: x < x * 2, lambda x: x >= 1, lambda x: x.max(), lambda x: x.argmin(), lambda x: x.amax(),
    lambda x: x.max(0), lambda x: x.sort(), lambda x: x.floor(), lambda x: x % 2, lambda x: x // 2,
    lambda x: x.clamp(0, 1), lambda x: x.relu(), lambda x: x.cummax(0), lambda x: cygrad.maximum(x, x),
    lambda x: x.sign(), lambda x: x.erf(), lambda x: x & x, lambda x: float(x[0]), lambda x: int(x[0]),
    lambda x: cygrad.arange(3, dtype=x.dtype), lambda x: x.softmax(0), lambda x: cygrad.ones(2).add_(x)])  # fmt: skip
def test_what_complex_numbers_cannot(f):
    with pytest.raises((RuntimeError, NotImplementedError, TypeError)):
        f(cygrad.tensor([1 + 2j, 3]))


def test_numbers():
    x = cygrad.tensor([1 + 2j, 3.5, True, 2])
    assert x.dtype is cygrad.complex64 and x.tolist() == [1 + 2j, 3.5, 1, 2]
    assert x[0].item() == complex(x[0]) == 1 + 2j and x.is_complex() and cygrad.is_complex(x)
    assert cygrad.full((2,), 1j).dtype is cygrad.complex64 and cygrad.tensor(1j).dtype is cygrad.complex64
    assert (cygrad.ones(2) * 1j).dtype is cygrad.complex64
    assert (cygrad.ones(2, dtype=cygrad.float64) * 1j).dtype is cygrad.complex128
    assert (cygrad.tensor([1, 2]) + 1j).tolist() == [1 + 1j, 2 + 1j]
    assert (x.to(cygrad.complex128) * 0.1)[2].item() == 0.1
    x[1] = 4j
    assert x[1].item() == 4j
    assert x.fill_(2 - 1j).tolist() == [2 - 1j] * 4
    assert bool(cygrad.tensor(1j)) and not bool(cygrad.tensor(0j))
    assert cygrad.from_numpy(np.array([1j])).dtype is cygrad.complex128 and x.numpy().dtype == np.complex64
    for number in (1e300, 1e300j):
        with pytest.raises(RuntimeError, match="complex64"):
            x.fill_(number)


VALUES = ([0.0, -0.0, 1, -1.5, math.inf, -math.inf, math.nan], [0.0, -0.0, 2.25, math.inf, math.nan])


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("op", "exp log sqrt sin tanh atan asinh abs angle conj square sinh".split())  # noqa: SIM905
def test_special_values(op, name):
    numbers = [complex(a, b) for a, b in itertools.product(*VALUES)]
    ours, theirs = (getattr(lib, op)(lib.tensor(numbers, dtype=getattr(lib, name))) for lib in LIBRARIES)
    same(ours, theirs)


@pytest.mark.parametrize("numbers", [
    [1 + 2j, 3 - 4.5j], [1e10 + 1e-5j, 1], [0j, 1j], [], [[1.25 + 3j] * 8] * 3, [math.nan + 1j, complex(1, math.inf)],
    [1000000 + 1j], 3j, [complex(-0.0, -0.0)], [[1.5 - 2j] * 60] * 20, [complex(math.inf, -math.inf), 0.1234567j]])
@pytest.mark.parametrize("name", KINDS)
def test_printing(numbers, name):
    ours, theirs = (repr(lib.tensor(numbers, dtype=getattr(lib, name))) for lib in LIBRARIES)
    assert ours == theirs


def test_layouts_of_results(torch):
    """Angles lie by rows, other results as their inputs do; a power of two lies as a complex exponent."""
    x = torch.ones(4, 3, dtype=torch.complex64).t()
    assert torch.abs(x).stride() == torch.exp(x).stride() == (1, 3)
    assert torch.angle(x).stride() == x.angle().stride() == (4, 1) and torch.angle(x.real).stride() == (1, 3)
    a, b = torch.ones(10, 1, 5, dtype=torch.complex64), torch.ones(5, 10, 1, dtype=torch.complex64).permute(2, 1, 0)
    assert torch.ldexp(a, b).stride() == (50, 1, 10)
    assert torch.ldexp(a.real, b.real).stride() == (50, 5, 1)


def test_sgn_at_zero_has_derivatives_that_are_numbers():
    """Of every order and mode they are 0 there: what is masked has no derivative that could be NaN."""
    x = cygrad.tensor([0j, 3 + 4j], dtype=cygrad.complex128, requires_grad=True)
    with cygrad.autograd.forward_ad.dual_level():
        dual = cygrad.autograd.forward_ad.make_dual(x, cygrad.ones_like(x))
        g, = cygrad.autograd.grad(dual.sgn().real.sum(), dual, create_graph=True)
        tangent = cygrad.autograd.forward_ad.unpack_dual(g).tangent
    assert g[0] == 0 and tangent[0] == 0 and not tangent.isnan().any()
    g, = cygrad.autograd.grad(x.sgn().real.sum(), x, create_graph=True)
    second, = cygrad.autograd.grad(cygrad.view_as_real(g).sum(), x)
    assert second[0] == 0 and not second.isnan().any()
