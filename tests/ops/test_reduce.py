"""Reductions and the operations along a dimension, against NumPy in double precision."""

import itertools
import math

import numpy as np
import pytest

from cygrad.storage import functions as F
from cygrad.storage.array import Array
from cygrad.storage.core import dtypes

inf, nan = math.inf, math.nan
DTYPES = ("bool", "uint8", "int32", "int64", "float32", "float64")
REAL = ("float32", "float64")
SHAPES = (
    (),
    (1,),
    (5,),
    (70,),
    (3, 4),
    (40, 50),
    (2, 3, 4),
    (0,),
    (0, 3),
    (3, 0, 2),
    (16, 9, 33),
    (5, 1, 7),
    (8, 1000),
    (700, 9),
)


def sample(shape, dtype, seed=0):
    x = np.asarray(np.random.default_rng(seed).standard_normal(shape) * 3)
    return (x > 0 if dtype == "bool" else np.abs(x) if dtype == "uint8" else x).astype(dtype)


def dim_sets(ndim):
    return [None, *(c for k in range(1, ndim + 1) for c in itertools.combinations(range(ndim), k))]


def cases(dims_of=dim_sets):
    return [(s, d) for s in SHAPES for d in dims_of(len(s))]


def check(got, want, dtype, tolerance=0.0):
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == np.dtype(dtype)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def tolerance(dtype):
    return 2e-6 if dtype == "float32" else 1e-12


def is_real(dtype):
    return dtype in REAL


# ---- shapes, dtypes, layouts


@pytest.mark.parametrize("dtype", DTYPES)
def test_sum(dtype, layout, lay_out):
    for shape, dims in cases():
        for keep in (False, True):
            a, x = lay_out(sample(shape, dtype), layout)
            want = np.sum(
                x.astype("f8") if is_real(dtype) else x,
                axis=dims,
                keepdims=keep,
                dtype=None if is_real(dtype) else "i8",
            )
            check(F.sum(a, dims, keep), want, dtype if is_real(dtype) else "int64", 40 * tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_prod(dtype, layout, lay_out):
    for shape, dims in cases():
        x = sample(shape, dtype)
        if is_real(dtype):  # powers of two: exact in any order, and no underflow meets an overflow
            x = (np.where(x > 4, 2, np.sign(x))).astype(dtype)
        a, x = lay_out(x, layout)
        with np.errstate(over="ignore"):
            want = np.prod(x.astype("f8" if is_real(dtype) else "i8"), axis=dims).astype(
                dtype if is_real(dtype) else "i8"
            )
            check(F.prod(a, dims), want, dtype if is_real(dtype) else "int64")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("ours", "theirs"), [(F.amax, np.max), (F.amin, np.min)])
def test_extrema(ours, theirs, dtype, layout, lay_out):
    for shape, dims in cases():
        if all(shape[d] for d in (range(len(shape)) if dims is None else dims)):
            for keep in (False, True):
                a, x = lay_out(sample(shape, dtype), layout)
                check(ours(a, dims, keep), theirs(x, axis=dims, keepdims=keep), dtype)


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize(("ours", "theirs"), [(F.argmax, np.argmax), (F.argmin, np.argmin)])
def test_place_of_the_first_extremum(ours, theirs, dtype, layout, lay_out):
    for shape in (s for s in SHAPES if 0 not in s):
        for dim in (None, *range(len(shape))):
            a, x = lay_out(np.round(sample(shape, dtype)), layout)
            check(ours(a, dim), theirs(x, axis=dim), "int64")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("ours", "side"), [(F.max_dim, np.argmax), (F.min_dim, np.argmin)])
def test_extremum_and_place_along_a_dimension(ours, side, dtype, layout, lay_out):
    for shape in (s for s in SHAPES if 0 not in s):
        for dim in range(len(shape)):
            a, x = lay_out(sample(shape, dtype), layout)
            values, places = ours(a, dim, True)
            want = np.expand_dims(side(x, axis=dim), dim)
            check(places, want, "int64")
            check(values, np.take_along_axis(x, want, dim), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_truth(dtype, layout, lay_out):
    kind = "uint8" if dtype == "uint8" else "bool"
    for shape, dims in cases():
        for scale in (0, 1):
            a, x = lay_out((sample(shape, dtype) * scale).astype(dtype), layout)
            check(F.any(a, dims), np.any(x, axis=dims), kind)
            check(F.all(a, dims), np.all(x, axis=dims), kind)


@pytest.mark.parametrize("dtype", REAL)
def test_moments(dtype, layout, lay_out):
    for shape, dims in cases():
        a, x = lay_out(sample(shape, dtype) + 5, layout)
        x = x.astype("f8")
        count = np.prod([shape[d] for d in (range(len(shape)) if dims is None else dims)])
        with np.errstate(all="ignore"):
            check(F.mean(a, dims), np.sum(x, axis=dims) / count, dtype, tolerance(dtype))
            centred = np.sum((x - np.sum(x, axis=dims, keepdims=True) / count) ** 2, axis=dims)
            for correction in (0, 1, 2.5):
                want = centred / np.float64(max(count - correction, 0)) if count else centred * nan
                check(F.var(a, dims, correction), want, dtype, 4 * tolerance(dtype))
                check(F.std(a, dims, correction), np.sqrt(want), dtype, 4 * tolerance(dtype))


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("p", [2, 1, 0, 3, 0.5, inf, -inf, -1])
def test_norms(p, dtype, layout, lay_out):
    for shape, dims in cases():
        named = range(len(shape)) if dims is None else dims
        if (p >= 0 and p != inf) or all(shape[d] for d in named):
            a, x = lay_out(sample(shape, dtype), layout)
            size = np.abs(x.astype("f8"))
            if abs(p) == inf:
                want = (np.max if p > 0 else np.min)(size, axis=dims)
            elif p == 0:
                want = np.sum(size != 0, axis=dims)
            else:
                want = np.sum(size**p, axis=dims) ** (1 / p)
            check(F.norm(a, p, dims), want, dtype, 8 * tolerance(dtype))


def log_sum_exp(x, axis, keepdims=False):
    top = np.max(x, axis=axis, keepdims=True, initial=-inf)
    top = np.where(np.isfinite(top), top, 0)
    with np.errstate(divide="ignore"):
        y = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return y if keepdims else np.squeeze(y, axis=axis) if axis is not None else y.reshape(())


@pytest.mark.parametrize("dtype", REAL)
def test_logsumexp(dtype, layout, lay_out):
    for shape, dims in cases():
        a, x = lay_out(sample(shape, dtype), layout)
        check(F.logsumexp(a, dims), log_sum_exp(x.astype("f8"), dims), dtype, 2 * tolerance(dtype))


@pytest.mark.parametrize("dtype", REAL)
def test_softmax_and_its_gradients(dtype, layout, lay_out):
    for shape in SHAPES:
        for dim in range(len(shape)):
            a, x = lay_out(sample(shape, dtype), layout)
            want = x - log_sum_exp(x.astype("f8"), dim, True)
            check(F.log_softmax(a, dim), want, dtype, tolerance(dtype))
            check(F.softmax(a, dim), np.exp(want), dtype, tolerance(dtype))
            g, gx = lay_out(sample(shape, dtype, 1), layout)
            y, yx = lay_out(np.exp(want).astype(dtype), "transposed")
            inner = np.sum(gx.astype("f8") * yx, axis=dim, keepdims=True)
            check(F.softmax_backward(g, y, dim), yx * (gx - inner), dtype, 4 * tolerance(dtype))
            y, yx = lay_out(want.astype(dtype), "strided")
            total = np.sum(gx.astype("f8"), axis=dim, keepdims=True)
            check(F.log_softmax_backward(g, y, dim), gx - np.exp(yx.astype("f8")) * total, dtype, 40 * tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_cumsum(dtype, layout, lay_out):
    for shape in SHAPES:
        for dim in range(len(shape)):
            a, x = lay_out(sample(shape, dtype), layout)
            want = np.cumsum(x.astype("f8") if is_real(dtype) else x, axis=dim, dtype=None if is_real(dtype) else "i8")
            check(F.cumsum(a, dim), want, dtype if is_real(dtype) else "int64", 20 * tolerance(dtype))


@pytest.mark.parametrize("f", [F.sum, F.prod])
def test_a_result_dtype_is_the_dtype_of_the_additions(f):
    x = Array(np.array([2.75, 2.75, 0.0 if f is F.sum else 1.0], "float32"))
    assert f(x, dtype=dtypes["int32"]).tolist() == 4
    assert f(x, dtype=dtypes["bool"]).tolist() is True
    assert f(x, dtype=dtypes["float64"]).dtype is dtypes["float64"]
    assert F.sum(Array(np.full(3, 200, "uint8")), dtype=dtypes["uint8"]).tolist() == 600 - 512
    assert F.mean(Array(np.array([1, 2])), dtype=dtypes["float64"]).tolist() == 1.5


# ---- hard values


def test_a_hundred_million_ones():
    assert F.sum(Array(np.ones(1, "float32")).expand(10**8)).item() == 10**8
    ones = Array(np.ones(10**7 + 3, "float32"))
    assert F.sum(ones).item() == 10**7 + 3
    assert F.sum(ones.narrow(0, 1, 10**7).view(10**6, 10), 0).tolist() == [10**6] * 10


def test_float32_sums_stay_near_the_exact_sum():
    x = np.random.default_rng(0).random(3_000_000).astype("float32")
    exact = math.fsum(x)
    assert abs(F.sum(Array(x)).item() - exact) <= 2e-7 * exact
    columns = F.sum(Array(x).view(300_000, 10), 0).tolist()
    for j, got in enumerate(columns):
        assert got == pytest.approx(math.fsum(x[j::10]), rel=2e-7)


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("n", [1, 3, 40, 1000])
def test_nan_wins_over_every_number(n, dtype, layout, lay_out):
    for where in {0, n // 2, n - 1}:
        row = np.where(np.arange(n) == where, nan, inf if n % 2 else -inf).astype(dtype)
        a, x = lay_out(np.stack([row, row], 1), layout)
        if np.isnan(x).any(0).all():
            for f in (F.amax, F.amin, F.logsumexp):
                assert np.isnan(np.asarray(f(a, 0))).all()
            first = [int(np.argmax(np.isnan(x[:, j]))) for j in (0, 1)]
            assert F.argmax(a, 0).tolist() == F.argmin(a, 0).tolist() == first
            assert math.isnan(F.norm(a, 2).item())
            assert math.isnan(F.norm(a, inf).item())
        assert F.any(a).item() is True


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_first_of_equals_is_found_in_any_layout(dtype, layout, lay_out):
    for shape in ((9,), (3, 7), (40, 3000), (3000, 40)):
        a, _ = lay_out(np.ones(shape, dtype), layout)
        for d in range(len(shape)):
            assert set(np.asarray(F.max_dim(a, d)[1]).ravel().tolist()) == {0}
        if dtype != "bool":
            assert F.argmax(a).item() == F.argmin(a).item() == 0


def test_the_neutral_element_can_be_the_extremum():
    assert F.argmax(Array(np.array([-inf, -inf]))).item() == 0
    assert F.argmin(Array(np.array([inf, inf], "float32"))).item() == 0
    assert F.amax(Array(np.array([-(2**63)] * 40))).item() == -(2**63)
    assert F.amin(Array(np.array([2**31 - 1] * 40, "int32"))).item() == 2**31 - 1
    assert F.amin(Array(np.ones(3, bool))).item() is True


@pytest.mark.parametrize(
    ("values", "want"),
    [
        ([-inf, -inf], -inf),
        ([inf, 1], inf),
        ([-inf, 0], 0.0),
        ([inf, -inf], inf),
        ([1000, 1000], 1000 + math.log(2)),
        ([], -inf),
    ],
)
def test_logsumexp_of_infinities(values, want):
    for dtype in REAL:
        x = Array(np.array(values, dtype))
        assert F.logsumexp(x).item() == pytest.approx(want, rel=1e-7)
        if values:
            columns = Array(np.repeat(np.array(values, dtype)[:, None], 20, 1))
            np.testing.assert_allclose(np.asarray(F.logsumexp(columns, 0)), want, rtol=1e-7)


def test_softmax_of_infinities():
    x = Array(np.array([[0, -inf, 0], [-inf, -inf, -inf], [inf, 0, 0], [nan, 0, 0]], "float32"))
    got = np.asarray(F.softmax(x, 1))
    assert got[0].tolist() == [0.5, 0, 0.5]
    assert np.isnan(got[1]).all()
    assert math.isnan(got[2, 0])
    assert np.isnan(got[3]).all()
    assert np.asarray(F.log_softmax(x, 1))[0].tolist() == pytest.approx([-math.log(2), -inf, -math.log(2)])


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [
        ("float32", 1e20),
        ("float32", 1e-25),
        ("float32", 1e-40),
        ("float64", 1e200),
        ("float64", 1e-200),
        ("float64", 5e-324),
    ],
)
def test_2_norm_neither_overflows_nor_underflows(dtype, scale):
    for shape, dims in (((100,), None), ((100, 20), 0), ((20, 100), 1)):
        x = np.full(shape, scale, dtype)
        np.testing.assert_allclose(
            np.asarray(F.norm(Array(x), 2, dims)), 10 * scale, rtol=1e-6 if dtype == "float64" else 1e-4
        )


def test_2_norm_of_mixed_scales():
    assert F.norm(Array(np.array([1e200, 1.0, 1e-200]))).item() == 1e200
    assert F.norm(Array(np.array([3e-200, 4e-200]))).item() == pytest.approx(5e-200)
    assert F.norm(Array(np.array([3.0, 4.0, 1e-300]))).item() == 5
    assert F.norm(Array(np.array([inf, 1.0]))).item() == inf
    assert F.norm(Array(np.array([1e300, nan]))).item() != F.norm(Array(np.array([1e300, nan]))).item()


def test_variance_beside_a_large_mean():
    x = np.random.default_rng(0).standard_normal((2000, 20)).astype("float32") + np.float32(10000)
    for dims in (None, 0, 1):
        np.testing.assert_allclose(
            np.asarray(F.var(Array(x), dims)), np.var(x.astype("f8"), axis=dims, ddof=1), rtol=1e-6
        )
    assert math.isnan(F.var(Array(np.ones(1))).item())


# ---- threads


@pytest.mark.parametrize("shape", [(1_000_003,), (300_000, 10), (10, 300_000), (500, 700), (64, 3, 5000), (2, 250_000)])
def test_thread_counts_give_the_same_bits(shape, threads):
    x = Array(np.random.default_rng(1).standard_normal(shape).astype("float32"))
    fs = [F.sum, F.mean, F.prod, F.var, F.norm, F.logsumexp, F.amax]
    for dims in dim_sets(len(shape)):
        for f in fs:
            one, two = threads(lambda f=f, d=dims: np.asarray(f(x, dims=d)).tobytes())
            assert one == two, (f, dims)
    for dim in range(len(shape)):
        for f in (F.softmax, F.log_softmax, F.cumsum, F.argmax):
            one, two = threads(lambda f=f, d=dim: np.asarray(f(x, d)).tobytes())
            assert one == two, (f, dim)


def test_large_reductions_agree_with_numpy():
    x = np.random.default_rng(2).integers(-1000, 1000, (300, 4000)).astype("int32")
    for dims in (None, 0, 1):
        check(F.sum(Array(x), dims), x.sum(axis=dims, dtype="i8"), "int64")
        check(F.argmax(Array(x), dims), x.argmax(axis=dims), "int64")
        check(F.amin(Array(x.T), dims), x.T.min(axis=dims), "int32")


# ---- bad input


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: F.amax(Array(np.zeros((0, 3))), 0), IndexError, "dimension 0 of size 0"),
        (lambda: F.amin(Array(np.zeros((0, 3)))), RuntimeError, r"\[0, 3\]"),
        (lambda: F.max_dim(Array(np.zeros((2, 0))), 1), IndexError, "dimension 1 of size 0"),
        (lambda: F.argmin(Array(np.zeros(0))), IndexError, "size 0"),
        (lambda: F.argmax(Array(np.ones(2, bool))), RuntimeError, "bool"),
        (lambda: F.mean(Array(np.ones(2, "int32"))), RuntimeError, "int32"),
        (lambda: F.mean(Array(np.ones(2)), dtype=dtypes["int64"]), RuntimeError, "int64"),
        (lambda: F.var(Array(np.ones(2, "int64"))), RuntimeError, "int64"),
        (lambda: F.std(Array(np.ones(2, bool))), RuntimeError, "bool"),
        (lambda: F.norm(Array(np.ones(2, "uint8"))), RuntimeError, "uint8"),
        (lambda: F.norm(Array(np.zeros((0, 2))), inf, 0), RuntimeError, "inf-norm"),
        (lambda: F.norm(Array(np.zeros(0)), -1), RuntimeError, "-1.0-norm"),
        (lambda: F.softmax(Array(np.ones(2, "int64")), 0), NotImplementedError, "softmax.*int64"),
        (lambda: F.softmax(Array(np.ones(2)), 1), IndexError, "1"),
        (lambda: F.cumsum(Array(np.ones(2)), 0, dtypes["bool"]), NotImplementedError, "bool"),
        (lambda: F.softmax_backward(Array(np.ones(2)), Array(np.ones(3)), 0), RuntimeError, r"\[2\].*\[3\]"),
        (lambda: F.softmax_backward(Array(np.ones(2)), Array(np.ones(2, "f4")), 0), RuntimeError, "float64.*float32"),
    ],
)
def test_bad_input_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_reductions_over_nothing():
    empty = Array(np.zeros((2, 0)))
    assert F.sum(empty, 1).tolist() == [0, 0]
    assert F.prod(empty, 1).tolist() == [1, 1]
    assert np.isnan(np.asarray(F.mean(empty, 1))).all()
    assert np.isnan(np.asarray(F.var(empty, 1))).all()
    assert F.any(empty).item() is False
    assert F.all(empty).item() is True
    assert F.amax(empty, 0).tolist() == []
    assert F.softmax(empty, 1).tolist() == [[], []]
