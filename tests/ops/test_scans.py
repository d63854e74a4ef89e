"""Running sums, products and extrema: values, places, gradients of both orders, hard inputs."""

import math

import numpy as np
import pytest

import cygrad
from cygrad.storage import core
from cygrad.tools.gradcheck import gradcheck, gradgradcheck

inf, nan = math.inf, math.nan
SCANS = ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp")
SHAPES = ((), (1,), (0,), (5,), (0, 3), (3, 0), (3, 4), (4, 3, 5), (70, 3), (3, 70), (2, 100, 9))


def layouts(x):
    """The same elements in other memory."""
    yield x
    if x.dim() > 1:
        yield x.transpose(0, -1).contiguous().transpose(0, -1)
    if x.dim():
        yield cygrad.stack([x, x], -1)[..., 1]
        yield cygrad.cat([x[:1], x])[1:]


def first(result):
    return result[0] if isinstance(result, tuple) else result


def parts(result):
    return list(result) if isinstance(result, tuple) else [result]


def random(shape, dtype="float64", seed=0):
    generator = cygrad.Generator().manual_seed(seed)
    x = cygrad.randn(shape, generator=generator, dtype=cygrad.float64)
    return (x * (1 if dtype.startswith("float") else 3)).to(getattr(cygrad, dtype))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("name", SCANS)
def test_pytorchs_results_in_every_layout(name, dtype):
    torch = pytest.importorskip("torch")
    if name == "logcumsumexp" and not dtype.startswith("float"):
        pytest.skip("floats only")
    for shape in SHAPES:
        x = random(shape, dtype)
        for dim in range(-max(len(shape), 1), max(len(shape), 1)):
            wanted = parts(getattr(torch, name)(torch.from_numpy(x.numpy().copy()), dim))
            for y in layouts(x):
                for a, b in zip(parts(getattr(cygrad, name)(y, dim)), wanted, strict=True):
                    assert str(a.dtype) == str(b.dtype)
                    assert (a.shape, a.stride()) == (b.shape, b.stride())
                    tolerance = 3e-5 if dtype == "float32" else 1e-12     # torch adds float32 in float32
                    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("zeros", [(), (1,), (1, 3), (0, 1, 2, 3)])
def test_gradients_of_products_with_zeros(zeros):
    """The gradient of each factor is the product of the others, which is no quotient where factors are zero."""
    x = cygrad.tensor([1.5, -2.0, 0.5, 3.0], dtype=cygrad.float64)
    x[list(zeros)] = 0
    values = x.tolist()
    x.requires_grad_()
    (g,) = cygrad.autograd.grad(x.prod(), x)
    others = [math.prod(values[:i] + values[i + 1 :]) for i in range(4)]
    assert g.tolist() == pytest.approx(others)
    (g,) = cygrad.autograd.grad(x.cumprod(0).sum(), x)
    product = lambda n, i: math.prod(v for k, v in enumerate(values[: n + 1]) if k != i)  # noqa: E731
    running = [sum(product(n, i) for n in range(i, 4)) for i in range(4)]
    assert g.tolist() == pytest.approx(running)
    pairs = (lambda t: t.view(2, 2).prod(0), lambda t: t.view(2, 2).cumprod(1))
    for f in (lambda t: t.prod(), lambda t: t.cumprod(0), *pairs):
        assert gradcheck(f, [x])
        assert gradgradcheck(f, [x])


def test_the_gradient_of_a_long_product_with_a_zero_is_one_scan():
    x = cygrad.ones(100_000, dtype=cygrad.float64)
    x[500] = 0
    x.requires_grad_()
    (g,) = cygrad.autograd.grad(x.prod(), x)
    assert g.sum().item() == g[500].item() == 1


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("dim", [0, 1])
def test_derivatives_of_both_orders(name, dim):
    x = random((3, 4)).requires_grad_()
    function = lambda t: first(getattr(cygrad, name)(t, dim))  # noqa: E731
    assert gradcheck(function, [x])
    assert gradgradcheck(function, [x])


def test_ties_and_nan():
    x = cygrad.tensor([1.0, 3.0, 3.0, nan, 5.0, nan])
    values, indices = cygrad.cummax(x, 0)
    assert values[:3].tolist() == [1, 3, 3]
    assert values[3:].isnan().all()
    assert indices.tolist() == [0, 1, 2, 3, 3, 5]
    assert cygrad.cummin(cygrad.tensor([2, 1, 1, 3]), 0).indices.tolist() == [0, 1, 2, 2]
    x = cygrad.tensor([1.0, 3.0, 3.0, 2.0], requires_grad=True)
    cygrad.cummax(x, 0).values.sum().backward()
    assert x.grad.tolist() == [1, 1, 2, 0]


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([-inf, -inf], [-inf, -inf]),
        ([-inf, 0.0, 0.0], [-inf, 0.0, math.log(2)]),
        ([0.0, inf, 1.0], [0.0, inf, inf]),
        ([1000.0, 1000.0], [1000.0, 1000 + math.log(2)]),
        ([0.0, nan, 1.0], [0.0, nan, nan]),
        ([-1e4, 1e4, -1e4], [-1e4, 1e4, 1e4]),
    ],
)
def test_logcumsumexp_of_hard_values(values, wanted):
    for dtype in (cygrad.float32, cygrad.float64):
        assert cygrad.logcumsumexp(cygrad.tensor(values, dtype=dtype), 0).tolist() == pytest.approx(wanted, nan_ok=True)


def test_gradients_of_logcumsumexp_do_not_overflow():
    x = cygrad.tensor([0.0, 800.0, -800.0, 900.0], dtype=cygrad.float64, requires_grad=True)
    (g,) = cygrad.autograd.grad(cygrad.logcumsumexp(x, 0), x, cygrad.ones(4, dtype=cygrad.float64))
    assert g.tolist() == pytest.approx([1, 2, 0, 1])


def test_float32_running_sums_are_added_in_double():
    assert cygrad.ones(1).expand(2**24 + 10).cumsum(0)[-1].item() == 2**24 + 10
    tenth = cygrad.full((1_000_000,), 0.1).cumsum(0)[-1].item()
    assert tenth == pytest.approx(1_000_000 * cygrad.tensor(0.1).item(), rel=1e-7)
    x = cygrad.tensor([1e8, 1.0, -1e8, 1.0], requires_grad=True)
    (g,) = cygrad.autograd.grad(x.cumsum(0), x, cygrad.tensor([1e-8, 1.0, 1e8, 1e-8]))
    assert g[3].item() == pytest.approx(1e-8)       # from the far end, not as a difference of sums


@pytest.mark.parametrize("name", SCANS)
def test_one_thread_gives_the_same_bits_as_two(name):
    x = random((64, 40, 50), "float32")
    threads = core.get_num_threads()
    try:
        found = []
        for n in (1, 2):
            core.set_num_threads(n)
            found.append([first(getattr(cygrad, name)(x, d)) for d in range(3)])
    finally:
        core.set_num_threads(threads)
    assert all(map(cygrad.equal, *found))


def test_integers_wrap_around():
    assert cygrad.tensor([2**62, 2**62, 1]).cumsum(0).tolist() == [2**62, -(2**63), -(2**63) + 1]
    assert cygrad.full((3,), 16, dtype=cygrad.uint8).cumprod(0, dtype=cygrad.uint8).tolist() == [16, 0, 0]
    assert cygrad.tensor([True, True]).cumsum(0).dtype is cygrad.int64


def test_the_dtype_is_that_of_the_additions():
    x = cygrad.tensor([1.7, 1.7])
    assert x.cumsum(0, dtype=cygrad.int32).tolist() == [1, 2]
    assert cygrad.cumsum(x, 0, out=cygrad.zeros(2, dtype=cygrad.int64)).tolist() == [1, 2]
    assert x.cumprod(0, dtype=cygrad.float64).dtype is cygrad.float64


@pytest.mark.parametrize("name", ["cumsum_", "cumprod_"])
def test_in_place(name):
    x = random((3, 4)).requires_grad_()
    scan = lambda t: getattr(t.clone(), name)(1)  # noqa: E731
    assert cygrad.equal(scan(x), getattr(cygrad, name[:-1])(x, 1))
    assert gradcheck(scan, [x])
    assert gradgradcheck(scan, [x])
    row = cygrad.ones(1, 3).expand(2, 3)
    with pytest.raises(RuntimeError, match="memory"):
        getattr(row, name)(0)
    with pytest.raises(RuntimeError, match="dtype"):
        getattr(cygrad.ones(3), name)(0, dtype=cygrad.float64)


@pytest.mark.parametrize("name", SCANS)
def test_bad_input(name):
    scan = getattr(cygrad, name)
    with pytest.raises(IndexError, match="out of range"):
        scan(cygrad.ones(2, 3), 2)
    with pytest.raises(TypeError, match="dim"):
        scan(cygrad.ones(2), 1.5)
    with pytest.raises(TypeError, match="list"):
        scan([1.0], 0)
    if name not in ("cumsum", "cumprod"):
        x, dtype = cygrad.ones(2), cygrad.float64
        outs = (cygrad.empty(2, dtype=dtype), cygrad.empty(2, dtype=cygrad.int64))
        with pytest.raises(RuntimeError, match="dtype"):
            scan(x, 0, out=outs if name.startswith("cumm") else outs[0])
    if name == "logcumsumexp":
        with pytest.raises(NotImplementedError, match="int64"):
            scan(cygrad.ones(2, dtype=cygrad.int64), 0)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp", "logsumexp", "sum", "prod"])
def test_complex_numbers_and_their_gradients(name):
    torch = pytest.importorskip("torch")
    z = np.random.default_rng(0).standard_normal((3, 4, 2)) @ np.array([1, 2j])
    z[1, 2] = 0
    found = []
    for lib, x in ((torch, torch.from_numpy(z.copy())), (cygrad, cygrad.tensor(z.tolist(), dtype=cygrad.complex128))):
        x.requires_grad_()
        y = getattr(lib, name)(x * x, 1)
        g = lib.ones_like(y) * (1 - 2j)
        (first,) = lib.autograd.grad(y, x, g, create_graph=True)
        (second,) = lib.autograd.grad(first, x, lib.ones_like(first) * 1j)
        found.append([t.detach().resolve_conj().numpy() for t in (y, first, second)])
    for ours, wanted in zip(*reversed(found), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-9, atol=1e-9)


def test_logarithms_of_complex_sums_keep_the_phase():
    z = cygrad.tensor([1 + 10j, 1 + 10j, -inf + 1j], dtype=cygrad.complex128)
    wanted = [1 + 10j, 1 + math.log(2) + 10j, 1 + math.log(2) + 10j]
    assert cygrad.logcumsumexp(z, 0).tolist() == pytest.approx(wanted)
    assert cygrad.cumsum(z[0], 0).item() == z[0].item()
    assert cygrad.logsumexp(z, 0).item() == pytest.approx(1 + math.log(2) + (10 - 4 * math.pi) * 1j)


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint16", "uint32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", SCANS)
def test_small_dtypes_are_scanned_as_the_wide_one(name, dtype):
    if name == "logcumsumexp" and "float" not in dtype:
        pytest.skip("floats only")
    wide = "float32" if "float" in dtype else "int64"
    for shape in ((), (0, 3), (5,), (3, 70), (70, 3)):
        x = random(shape, "float32").abs().mul(3).to(getattr(cygrad, dtype))
        for dim in range(len(shape)):
            wanted = parts(getattr(cygrad, name)(x.to(getattr(cygrad, wide)), dim))
            for y in layouts(x):
                for a, b in zip(parts(getattr(cygrad, name)(y, dim)), wanted, strict=True):
                    assert cygrad.equal(a, b.to(a.dtype))


def test_nan_of_halves_stays():
    x = cygrad.tensor([1.0, nan, 3.0, -inf], dtype=cygrad.bfloat16)
    values, indices = cygrad.cummin(x, 0)
    assert str(values.tolist()) == "[1.0, nan, nan, nan]"
    assert indices.tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("dtype", ["float16", "int16"])
@pytest.mark.parametrize("name", ["cumsum", "cummax", "logcumsumexp"])
def test_a_scan_allocates_its_result_and_nothing_else(name, dtype):
    if name == "logcumsumexp" and dtype == "int16":
        pytest.skip("floats only")
    x = cygrad.ones(1 << 20, dtype=getattr(cygrad, dtype))
    cygrad.storage.reset_peak()
    before = cygrad.storage.memory_stats()["live_bytes"]
    results = parts(getattr(cygrad, name)(x, 0))
    wanted = sum(y.numel() * y.itemsize for y in results)
    assert cygrad.storage.memory_stats()["peak_bytes"] - before <= wanted + 4096
