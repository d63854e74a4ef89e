"""Reductions, softmax and normalisation of the CUDA extension, run as host code, beside NumPy."""

import ctypes

import numpy as np
import pytest
from device_code import CODES, call, library

KINDS = ("sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "any", "all", "var", "std", "norm2", "power",
         "abs_max", "abs_min", "logsumexp")  # fmt: skip
SHAPES = [((1,), (0,)), ((5,), (0,)), ((3000,), (0,)), ((200001,), (0,)), ((7, 9), (1,)), ((7, 9), (0,)),
          ((300, 70), (0,)), ((300, 70), (1,)), ((3, 5000), (1,)), ((5000, 3), (0,)), ((20000, 33), (0,)),
          ((4, 5, 6, 7), (1, 3)), ((4, 5, 6, 7), (0, 2)), ((6, 1, 40), (0, 1, 2)), ((2, 70000), (1,))]  # fmt: skip


class Fold(ctypes.Structure):
    _fields_ = [("x", ctypes.c_void_p), ("y", ctypes.c_void_p), ("index", ctypes.c_void_p), ("code", ctypes.c_int),
                ("kept_ndim", ctypes.c_int), ("reduced_ndim", ctypes.c_int), ("kept_size", ctypes.c_int64 * 64),
                ("kept_x", ctypes.c_int64 * 64), ("kept_y", ctypes.c_int64 * 64), ("reduced_size", ctypes.c_int64 * 64),
                ("reduced_x", ctypes.c_int64 * 64), ("outputs", ctypes.c_int64), ("count", ctypes.c_int64),
                ("attr", ctypes.c_double)]  # fmt: skip


def plan(x, y, index, code, axes, attr):
    p = Fold(
        x=x.ctypes.data, y=None if y is None else y.ctypes.data, index=None if index is None else index.ctypes.data
    )
    p.code, p.attr, p.outputs, p.count = code, attr, 1, 1
    for d in reversed(range(x.ndim)):
        if d in axes:
            p.reduced_size[p.reduced_ndim], p.reduced_x[p.reduced_ndim] = x.shape[d], x.strides[d]
            p.reduced_ndim += 1
            p.count *= x.shape[d]
        else:
            p.kept_size[p.kept_ndim], p.kept_x[p.kept_ndim], p.kept_y[p.kept_ndim] = x.shape[d], x.strides[d], p.outputs
            p.kept_ndim += 1
            p.outputs *= x.shape[d]
    return p


def reduce(kind, x, axes, code, out=None, attr=0.0, index=None):
    p = plan(x, out, index, code, axes, attr)
    find = library().cyg_reduce_scratch
    find.restype = ctypes.c_int64
    source = CODES[x.dtype.name]
    scratch = np.zeros(max(find(KINDS.index(kind), source, ctypes.byref(p)), 1), np.uint8)
    call("cyg_reduce", KINDS.index(kind), source, ctypes.byref(p), scratch)


@pytest.mark.parametrize(("shape", "axes"), SHAPES)
@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_reductions_of_reals(shape, axes, dtype):
    rng = np.random.default_rng(1)
    x = rng.standard_normal(shape).astype(dtype)
    kept = [n for d, n in enumerate(shape) if d not in axes]
    wide = x.astype(np.float64)
    rtol = 2e-5 if dtype == "float32" else 1e-11
    expected = {"sum": wide.sum(axes), "mean": wide.mean(axes), "amax": wide.max(axes), "amin": wide.min(axes),
                "norm2": np.sqrt((wide**2).sum(axes)), "abs_max": np.abs(wide).max(axes),
                "abs_min": np.abs(wide).min(axes), "logsumexp": np.log(np.exp(wide).sum(axes))}  # fmt: skip
    if x.size > np.prod(kept):
        expected |= {"var": wide.var(axes, ddof=1), "std": wide.std(axes, ddof=1)}
    for kind, want in expected.items():
        y = np.zeros(kept, dtype)
        reduce(kind, x, axes, CODES[dtype], y, 1.0)
        np.testing.assert_allclose(y, want, rtol=rtol, atol=rtol * 30, err_msg=kind)
    y = np.zeros(kept, dtype)
    reduce("power", x, axes, CODES[dtype], y, 3.0)
    np.testing.assert_allclose(y, (np.abs(wide) ** 3).sum(axes) ** (1 / 3), rtol=rtol)


@pytest.mark.parametrize(("shape", "axes"), SHAPES)
@pytest.mark.parametrize("dtype", ("uint8", "int32", "int64", "uint64"))
def test_reductions_of_integers(shape, axes, dtype):
    rng = np.random.default_rng(2)
    x = rng.integers(0, 5, shape).astype(dtype)
    kept = [n for d, n in enumerate(shape) if d not in axes]
    for kind, f in {"sum": np.sum, "prod": np.prod, "any": np.any, "all": np.all}.items():
        y = np.zeros(kept, bool if kind in ("any", "all") else np.int64)
        reduce(kind, x, axes, CODES[y.dtype.name], y)
        np.testing.assert_array_equal(y, f(x, axes, dtype=np.int64) if kind in ("sum", "prod") else f(x, axes))
    for kind, f in {"amax": np.max, "amin": np.min}.items():
        y = np.zeros(kept, dtype)
        reduce(kind, x, axes, CODES[dtype], y)
        np.testing.assert_array_equal(y, f(x, axes))
    moved = np.moveaxis(x, axes, range(-len(axes), 0)).reshape(*kept, -1)
    for kind, f in {"argmax": np.argmax, "argmin": np.argmin}.items():
        y, places = np.zeros(kept, dtype), np.zeros(kept, np.int64)
        reduce(kind, x, axes, CODES[dtype], y, index=places)
        np.testing.assert_array_equal(places, f(moved, -1))
        np.testing.assert_array_equal(y, np.take_along_axis(moved, places[..., None], -1)[..., 0])


def test_nan_wins():
    x = np.array([1.0, np.nan, 5.0, np.nan, -3.0])
    for kind in ("amax", "amin", "argmax", "argmin"):
        y, place = np.zeros(()), np.zeros((), np.int64)
        reduce(kind, x, (0,), CODES["float64"], y, index=place if "arg" in kind else None)
        assert np.isnan(y)
        assert place == ("arg" in kind)


def test_norm_neither_overflows_nor_vanishes():
    for scale in (1e200, 1e-200, 1.0):
        x, y = np.full(1000, scale), np.zeros(())
        reduce("norm2", x, (0,), CODES["float64"], y)
        np.testing.assert_allclose(y, scale * np.sqrt(1000), rtol=1e-12)


def test_strided_and_transposed():
    x = np.arange(60 * 80, dtype=np.float32).reshape(60, 80)
    for view in (x.T, x[::2, ::3], x[:, 1:]):
        for axes in ((0,), (1,), (0, 1)):
            y = np.zeros([n for d, n in enumerate(view.shape) if d not in axes], np.float32)
            reduce("sum", view, axes, CODES["float32"], y)
            np.testing.assert_allclose(y, view.sum(axes, dtype=np.float64), rtol=1e-6)


class Lines(ctypes.Structure):
    _fields_ = [("y", ctypes.c_void_p), ("x", ctypes.c_void_p), ("d", ctypes.c_void_p), ("w", ctypes.c_void_p),
                ("b", ctypes.c_void_p), ("lines", ctypes.c_int64), ("count", ctypes.c_int64),
                ("st", ctypes.c_int64 * 3), ("ndim", ctypes.c_int), ("size", ctypes.c_int64 * 64),
                ("step", (ctypes.c_int64 * 3) * 64), ("attr", ctypes.c_double)]  # fmt: skip


LINES = ("softmax", "log_softmax", "softmax_backward", "log_softmax_backward", "layer_norm", "layer_norm_input")


def run_lines(kind, dim, y, x, d=None, w=None, b=None, attr=0.0):
    """`y` from `x` along `dim`; all arrays have y's shape, w and b that of a line."""
    operands = [y, x, x if d is None else d]
    plan = Lines(lines=y.size // y.shape[dim], count=y.shape[dim], attr=attr)
    for name, a in {"y": y, "x": x, "d": d, "w": w, "b": b}.items():
        setattr(plan, name, None if a is None else a.ctypes.data)
    for k, a in enumerate(operands):
        plan.st[k] = a.strides[dim]
    for axis in reversed([axis for axis in range(y.ndim) if axis != dim % y.ndim]):
        plan.size[plan.ndim] = y.shape[axis]
        for k, a in enumerate(operands):
            plan.step[plan.ndim][k] = a.strides[axis]
        plan.ndim += 1
    call("cyg_lines", LINES.index(kind), CODES[x.dtype.name], plan)


LINE_SHAPES = [((1,), 0), ((7,), 0), ((5, 33), 1), ((5, 33), 0), ((3, 1024), 1), ((2, 3000), 1), ((2, 4099), 1),
               ((9000, 2), 0), ((70, 64), 0), ((3, 40, 50), 1), ((1000, 8), 1)]  # fmt: skip


@pytest.mark.parametrize(("shape", "dim"), LINE_SHAPES)
@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_softmax_and_gradients(shape, dim, dtype):
    rng = np.random.default_rng(4)
    x, g = (rng.standard_normal(shape).astype(dtype) * 3 for _ in range(2))
    tol = {"rtol": 1e-5, "atol": 1e-5} if dtype == "float32" else {"rtol": 1e-11, "atol": 1e-12}
    e = np.exp(x.astype(float) - x.max(dim, keepdims=True))
    soft = e / e.sum(dim, keepdims=True)
    y = np.zeros(shape, dtype)
    run_lines("softmax", dim, y, x)
    np.testing.assert_allclose(y, soft, **tol)
    run_lines("log_softmax", dim, y, x)
    np.testing.assert_allclose(y, np.log(soft), **tol)
    run_lines("softmax_backward", dim, y, g, soft.astype(dtype))
    np.testing.assert_allclose(y, soft * (g - (g * soft).sum(dim, keepdims=True)), **tol)
    run_lines("log_softmax_backward", dim, y, g, np.log(soft).astype(dtype))
    np.testing.assert_allclose(y, g - soft * g.sum(dim, keepdims=True), rtol=tol["rtol"], atol=tol["atol"] * 30)


@pytest.mark.parametrize(("rows", "n"), [(5, 3), (4, 64), (3, 1000), (7, 4097), (300, 16)])
@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_layer_norm_and_gradient(rows, n, dtype):
    rng = np.random.default_rng(5)
    x, d = (rng.standard_normal((rows, n)).astype(dtype) for _ in range(2))
    x += dtype == "float64" and 1000
    w, b = (rng.standard_normal(n).astype(dtype) for _ in range(2))
    wide = x.astype(float)
    scale = 1 / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    h = (wide - wide.mean(1, keepdims=True)) * scale
    tol = {"rtol": 1e-4, "atol": 1e-4} if dtype == "float32" else {"rtol": 1e-9, "atol": 1e-9}
    y = np.zeros_like(x)
    run_lines("layer_norm", 1, y, x, w=w, b=b, attr=1e-5)
    np.testing.assert_allclose(y, h * w + b, **tol)
    run_lines("layer_norm_input", 1, y, x, d, w=w, attr=1e-5)
    dw = d.astype(float) * w
    want = scale * (dw - dw.mean(1, keepdims=True) - h * (dw * h).mean(1, keepdims=True))
    np.testing.assert_allclose(y, want, **tol)


def test_softmax_of_infinities():
    x = np.array([[-np.inf, 1.0, 2.0], [-np.inf] * 3, [np.inf, 0.0, 1.0], [np.nan, 0.0, 1.0]])
    y = np.zeros_like(x)
    run_lines("softmax", 1, y, x)
    np.testing.assert_allclose(y[0], [0, 1 / (1 + np.e), np.e / (1 + np.e)])
    assert np.isnan(y[1:]).sum() == 3 + 1 + 3 or np.isnan(y[1:]).all()
