"""How far the elementary functions are from the true values, in units of the last place.

``pytest -rP`` shows the table.
"""

import math

import numpy as np
import pytest

from cygrad.storage import dispatch

CODE = {np.float32: 8, np.float64: 9}
# the most that was measured over all instruction sets, rounded up: f32 over every 97th bit pattern, f64 over 4 million
LIMITS = {
    "exp": (1.0, 1.0), "expm1": (1.45, 2.0), "log": (0.8, 0.85), "log1p": (1.4, 1.4), "tanh": (1.35, 1.35),
    "sigmoid": (2.3, 2.45), "erf": (1.2, 1.4), "sqrt": (0.5, 0.5),
    "sin": (1.0, 0.8), "cos": (1.0, 0.8), "tan": (1.0, 2.1),
}  # fmt: skip
EDGES = {
    "exp": [(0.0, 1.0), (math.inf, math.inf), (-math.inf, 0.0), (89.0, math.inf), (-104.0, 0.0)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (math.inf, math.inf), (-math.inf, -1.0), (-50.0, -1.0)],
    "log": [(0.0, -math.inf), (-0.0, -math.inf), (1.0, 0.0), (math.inf, math.inf), (-1.0, math.nan)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1.0, -math.inf), (math.inf, math.inf), (-1.5, math.nan)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (math.inf, 1.0), (-math.inf, -1.0), (30.0, 1.0)],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (math.inf, 1.0), (-math.inf, 0.0), (60.0, 1.0)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (math.inf, 1.0), (-math.inf, -1.0), (7.0, 1.0)],
    "sqrt": [(0.0, 0.0), (-0.0, -0.0), (math.inf, math.inf), (-1.0, math.nan)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (math.inf, math.nan)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (-math.inf, math.nan)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (math.inf, math.nan)],
}
each_isa = pytest.mark.parametrize("isa", dispatch.isas_available())
each_function = pytest.mark.parametrize("name", LIMITS)
each_type = pytest.mark.parametrize("dtype", CODE, ids=["f32", "f64"])


def run(name, x, isa):
    out = np.empty_like(x)
    dispatch.run_loop(name, CODE[x.dtype.type], out, (x,), (), isa)
    return out


def erf(x):
    """In extended precision: the series about 0 below 2, the continued fraction of erfc above."""
    x = np.asarray(x, np.longdouble)
    a = np.minimum(np.abs(x), 12)
    low, high = np.minimum(a, 2), np.maximum(a, 2)
    term, total = low.copy(), low.copy()
    for n in range(1, 60):
        term = term * (-low * low / n)
        total = total + term / (2 * n + 1)
    tail = np.zeros_like(a)
    for n in range(120, 0, -1):
        tail = (np.longdouble(n) / 2) / (high + tail)
    root = np.sqrt(np.arctan(np.longdouble(1)) * 4)
    below, above = 2 / root * total, 1 - np.exp(-high * high) / (root * (high + tail))
    return np.copysign(np.where(a < 2, below, above), x)


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def true_value(name, x):
    function = {"erf": erf, "sigmoid": sigmoid}.get(name) or getattr(np, name)
    with np.errstate(all="ignore"):
        return function(x.astype(np.longdouble if x.dtype == np.float64 else np.float64))


def units_off(got, want):
    """Distance in units of the last place of the rounded true value; infinite where only one is finite or NaN."""
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
        off = np.abs(got.astype(want.dtype) - want) / np.spacing(np.abs(rounded)).astype(want.dtype)
    equal = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    off = np.where(equal & ~np.isfinite(rounded), 0, off)
    overflowing = np.isinf(got) & (np.abs(rounded) == np.finfo(got.dtype).max)  # one unit beyond the largest number
    return np.where(overflowing, 1, np.where(np.isnan(off), np.inf, off))


def arguments(dtype):
    rng = np.random.default_rng(3)
    if dtype is np.float32:
        return rng.integers(0, 2**32, 300_000, dtype=np.uint32).view(np.float32)
    spread = [rng.standard_normal(20_000) * s for s in (1e-9, 0.01, 0.3, 1, 3, 10, 50, 300)]
    bits = rng.integers(0, 2**64, 40_000, dtype=np.uint64).view(np.float64)
    return np.concatenate([*spread, bits, 1 + rng.standard_normal(20_000) * 1e-3, 2.0 ** -rng.uniform(0, 53, 5000) - 1])


@each_isa
@each_type
@each_function
def test_units_of_the_last_place(name, dtype, isa):
    x = arguments(dtype)
    off = units_off(run(name, x, isa), true_value(name, x))
    worst = int(np.argmax(off))
    mean = off[np.isfinite(off)].mean()
    print(f"{name:8} {np.dtype(dtype).name} {isa:7} max {off[worst]:.2f} at {x[worst]!r}, mean {mean:.3f}")
    assert off[worst] <= LIMITS[name][dtype is np.float64]


@each_isa
@each_type
@each_function
def test_edges(name, dtype, isa):
    x, want = (np.array(v, dtype) for v in zip(*EDGES[name], (math.nan, math.nan), strict=True))
    if dtype is np.float64:  # the arguments of the f32 limits are ordinary in f64
        keep = np.isin(x, [89.0, -104.0], invert=True)
        x, want = x[keep], want[keep]
    got = run(name, x, isa)
    assert np.array_equal(got, want, equal_nan=True), (x, got)
    assert np.array_equal(np.signbit(got[got == 0]), np.signbit(want[want == 0]))


@each_isa
@pytest.mark.parametrize("name", ["expm1", "log1p", "tanh", "erf", "sin", "tan"])
@each_type
def test_small_arguments_keep_their_digits(name, dtype, isa):
    x = np.array([np.finfo(dtype).smallest_subnormal, np.finfo(dtype).tiny, np.finfo(dtype).eps**2], dtype)
    scale = 2 / math.sqrt(math.pi) if name == "erf" else 1
    want = (x.astype(np.longdouble) * scale).astype(dtype)
    for signed in (1, -1):
        got = run(name, signed * x, isa)
        assert np.all(np.abs(got - signed * want) <= np.spacing(want))


@each_isa
def test_results_between_normal_and_zero(isa):
    x = np.linspace(-103.9, -87.0, 5000).astype(np.float32)
    assert units_off(run("exp", x, isa), true_value("exp", x)).max() <= 1
    assert units_off(run("sigmoid", x, isa), true_value("sigmoid", x)).max() <= 1.1
    y = np.linspace(-745.1, -708.0, 5000)
    assert units_off(run("exp", y, isa), true_value("exp", y)).max() <= 1
    tiny = np.arange(1, 5000, dtype=np.uint32).view(np.float32)
    assert units_off(run("log", tiny, isa), true_value("log", tiny)).max() <= 1
    assert units_off(run("sqrt", tiny, isa), true_value("sqrt", tiny)).max() <= 0.5
