"""Every pointwise kernel of the CUDA extension beside the CPU's, in all element types and layouts, run as host code."""

import ctypes

import numpy as np
import pytest
from device_code import CODES, call, iterate, library

from cygrad.storage import dispatch
from cygrad.storage.opgen.complexes import COMPLEX_TYPES, complex_formula
from cygrad.storage.opgen.parse import load
from cygrad.storage.opgen.scalar import kernels

ROWS = load()
FOUND = kernels(ROWS)
NAMES = {code.upper(): name for name, code in zip(CODES, CODES, strict=True)}
NUMPY = {code: np.uint16 if code in ("FLOAT16", "BFLOAT16") else np.dtype(NAMES[code]) for code in NAMES}


def codes_of(kernel):
    """Every dtype that a kernel serves."""
    found = [*(t.code for t in kernel.types), *kernel.adapted]
    return found + [t.code for t in COMPLEX_TYPES if complex_formula(kernel)]


CASES = [(i, k, code) for i, k in enumerate(FOUND) for code in codes_of(k)]
LAYOUTS = ("dense", "strided", "number")


def to_float(code, bits):
    if code == "FLOAT16":
        return bits.view(np.float16).astype(np.float64)
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def of_float(code, x):
    if code == "FLOAT16":
        return x.astype(np.float16).view(np.uint16)
    return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def sample(rng, kernel, code, n):
    test = kernel.row.test
    low, high = test.get("low", -3), test.get("high", 3)
    if code == "BOOL":
        return rng.integers(0, 2, n).astype(np.uint8)
    if "INT" in code:
        return rng.integers(max(low, 0 if code[0] == "U" else -20), 20, n).astype(NUMPY[code])
    x = rng.uniform(low, high, n)
    if "COMPLEX" in code:
        return (x + 1j * rng.uniform(-2, 2, n)).astype(NUMPY[code])
    return of_float(code, x) if "FLOAT16" in code else x.astype(NUMPY[code])


def result_type(kernel, code):
    if kernel.truth:
        return np.uint8
    if "COMPLEX" in code and kernel.name == kernel.row.name and kernel.row.out == "real":
        return np.float32 if code == "COMPLEX64" else np.float64
    return NUMPY[code] if code != "BOOL" else np.uint8


def laid(x, layout):
    """The same numbers in another layout."""
    if layout == "dense":
        return x
    wide = np.zeros(2 * x.size, x.dtype)
    wide[::2] = x
    return wide[::2]


def close(code, got, want):
    if "FLOAT16" in code and got.dtype == np.uint16:
        got, want = to_float(code, got), to_float(code, want)
        np.testing.assert_allclose(got, want, rtol=2e-3 if code == "FLOAT16" else 2e-2, atol=1e-6)
    elif got.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want)
    else:
        single = got.dtype.itemsize == (4 if got.dtype.kind == "f" else 8)
        np.testing.assert_allclose(got, want, rtol=1e-4 if single else 1e-11, atol=1e-6 if single else 1e-13)


@pytest.mark.parametrize(("index", "kernel", "code"), CASES, ids=[f"{k.name}-{c}" for _, k, c in CASES])
def test_same_as_on_cpu(index, kernel, code):
    """Dense, strided and with a number: the results of the CPU's kernel, to rounding."""
    rng = np.random.default_rng(3)
    attr = tuple(float(v) for v in rng.integers(1, 4, len(kernel.attrs)))
    numbers = (ctypes.c_double * 6)(*attr)
    n = 1100
    inputs = []
    for _, kind in kernel.operands:
        x = sample(rng, kernel, code, n) if kind == "value" else rng.integers(0, 2, n).astype(np.uint8)
        inputs.append(x)
    number = CODES[NAMES[code]]
    want = np.zeros(n, result_type(kernel, code))
    for layout in LAYOUTS if len(inputs) > 1 else LAYOUTS[:2]:
        xs = [laid(x, layout if layout != "number" else "dense") for x in inputs]
        if layout == "number":
            xs[1] = xs[1][:1]
        full = [np.broadcast_to(x, (n,)) for x in xs]
        dispatch.run_loop(kernel.name, number, want, tuple(full), attr)
        got = laid(np.zeros(n, want.dtype), layout if layout != "number" else "dense")
        it = iterate(got, *xs)
        held = 4 if layout == "number" else 0
        call("cyg_pointwise", index, number, it, numbers if attr else None, held)
        close(code, got, want)


def test_no_kernel_is_told():
    names = [k.name for k in FOUND]
    x = np.zeros(4)
    assert library().cyg_pointwise(names.index("sin"), CODES["int64"], ctypes.byref(iterate(x, x)), None, 0, None) == -1


@pytest.mark.parametrize("start", (0, 1))
@pytest.mark.parametrize("n", (0, 1, 3, 4, 1023, 1024, 1025, 4099))
def test_any_length_and_alignment(n, start):
    """Packs of 16 bytes, what is left after them, and memory that does not begin where a pack could."""
    add = [k.name for k in FOUND].index("add")
    room = np.arange(n + start, dtype=np.float32)
    y = np.full(n + start, -1, np.float32)
    call("cyg_pointwise", add, CODES["float32"], iterate(y[start:], room[start:], room[start:]), None, 0)
    np.testing.assert_array_equal(y[start:], 2 * room[start:])
    np.testing.assert_array_equal(y[:start], -1)


@pytest.mark.parametrize("shape", ((7,), (3, 5), (4, 1, 6), (2, 3, 4, 5), (2,) * 13))
def test_broadcast_and_permuted(shape):
    rng = np.random.default_rng(0)
    add = [k.name for k in FOUND].index("add")
    a = rng.standard_normal(shape[::-1]).T
    b = rng.standard_normal(shape[-1:])
    y = np.zeros(shape)
    call("cyg_pointwise", add, CODES["float64"], iterate(y, a, b), None, 0)
    np.testing.assert_array_equal(y, a + b)
