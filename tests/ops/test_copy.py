"""Copies, casts, fills and new arrays, against NumPy."""

import itertools
import math

import numpy as np
import pytest

from cygrad.storage import functions as F
from cygrad.storage.array import Array
from cygrad.storage.core import dtypes

inf, nan = math.inf, math.nan
DTYPES = ("bool", "uint8", "int32", "int64", "float32", "float64")
INTEGERS = {"uint8": (0, 2**8 - 1), "int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
NUMBERS = [
    0,
    1,
    -1,
    2,
    5,
    127,
    128,
    255,
    256,
    300,
    -128,
    -129,
    2**31 - 1,
    2**31,
    -(2**31),
    -(2**31) - 1,
    2**40 + 3,
    2**63 - 1,
]
FLOATS = [
    0.0,
    -0.0,
    0.5,
    -0.5,
    0.99,
    -0.99,
    2.5,
    -2.5,
    254.9,
    1e-40,
    1e30,
    -1e30,
    3e9,
    -3e9,
    1e19,
    -1e19,
    inf,
    -inf,
    nan,
]


def as_bits(v, dtype):
    """A Python integer wrapped into an integer dtype."""
    bits = 8 * np.dtype(dtype).itemsize
    v &= (1 << bits) - 1
    return v - (1 << bits) if dtype != "uint8" and v >> (bits - 1) else v


def converted(v, dtype):
    """What one Python number becomes: C's conversion, with x86's result where C leaves it undefined."""
    if dtype == "bool":
        return bool(v)
    if dtype in ("float32", "float64"):
        return v
    if isinstance(v, int):
        return as_bits(v, dtype)
    low, high = INTEGERS["int32" if dtype == "int32" else "int64"]
    whole = int(v) if math.isfinite(v) else None
    return as_bits(whole if whole is not None and low <= whole <= high else low, dtype)


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
def test_every_conversion(source, target, layout, lay_out):
    if source in ("float32", "float64"):
        x = np.array(FLOATS, source)
    else:
        x = np.array([converted(v, source) for v in NUMBERS], source)
    want = np.array([converted(v, target) for v in x.tolist()], target)
    for repeats in (1, 7):  # 7: vector bodies and tails
        a, _ = lay_out(np.tile(x, repeats)[:, None], layout)
        np.testing.assert_array_equal(np.asarray(F.cast(a, dtypes[target]))[:, 0], np.tile(want, repeats))


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
@pytest.mark.parametrize("shape", [(7,), (100, 200), (17, 33), (64, 64), (3, 70, 50), (20, 3, 40, 5)])
def test_any_permutation_is_copied(shape, dtype, threads):
    x = (np.random.default_rng(0).standard_normal(shape) * 50).astype("int64").astype(dtype)
    for order in itertools.permutations(range(len(shape))):
        want = np.ascontiguousarray(x.transpose(order))
        one, two = threads(lambda o=order: np.asarray(Array(x).permute(*o).contiguous()))
        np.testing.assert_array_equal(one, want)
        np.testing.assert_array_equal(two, want)
        wide = np.empty(want.shape)
        Array(wide).copy_(Array(x).permute(*order))
        np.testing.assert_array_equal(wide, want)


def test_a_large_copy_in_parts(threads):
    x = np.random.default_rng(0).integers(0, 255, 3 * 2**20 + 5).astype("uint8")
    for got in threads(lambda: np.asarray(Array(x).clone())):
        np.testing.assert_array_equal(got, x)


def test_broadcasting_copy():
    x = np.zeros((2, 3, 4))
    Array(x).copy_(Array(np.arange(3.0)[:, None]))
    np.testing.assert_array_equal(x, np.broadcast_to(np.arange(3.0)[:, None], x.shape))
    Array(x).copy_(Array(np.array(7, "int64")))
    assert (x == 7).all()


def test_overlapping_source_is_read_before_it_is_written():
    x = np.arange(10.0)
    Array(x[1:]).copy_(Array(x[:-1]))
    np.testing.assert_array_equal(x, [0, *range(9)])
    x = np.arange(10.0)
    Array(x[:-1]).copy_(Array(x[1:]))
    np.testing.assert_array_equal(x, [*range(1, 10), 9])
    m = np.arange(1600.0).reshape(40, 40)
    a, want = Array(m), m.T.copy()
    a.copy_(a.transpose(0, 1))
    np.testing.assert_array_equal(m, want)
    a.copy_(a)
    np.testing.assert_array_equal(m, want)


def test_a_target_that_overlaps_itself_is_refused():
    x = np.zeros((1, 3))
    with pytest.raises(RuntimeError, match=r"clone\(\)"):
        Array(x).expand(2, 3).copy_(Array(np.ones((2, 3))))
    assert (x == 0).all()
    Array(x).expand(2, 3).fill_(4)  # one value for all is no contradiction
    assert (x == 4).all()


def test_a_source_that_does_not_fit_is_refused():
    x = np.zeros((2, 3))
    for shape in ((2,), (4,), (1, 2, 3), (3, 2)):
        with pytest.raises(RuntimeError, match=r"\[2, 3\]"):
            Array(x).copy_(Array(np.ones(shape)))
    assert (x == 0).all()


def test_a_copy_keeps_the_stride_order_of_dense_memory():
    x = Array(np.zeros((3, 4, 5))).permute(2, 0, 1)
    assert F.cast(x, dtypes["float32"]).strides == x.strides
    assert x.contiguous().strides == (12, 4, 1)


# ---- numbers in and out


@pytest.mark.parametrize("dtype", DTYPES)
def test_fill_takes_what_fits(dtype, layout, lay_out):
    low, high = INTEGERS.get(dtype, (-(2**24), 2**24))
    for value in (
        0,
        1,
        True,
        2.0,
        low if dtype != "bool" else 0,
        high if dtype != "bool" else 5,
        np.float32(3),
        np.int16(7),
    ):
        a, _ = lay_out(np.ones((5, 40), dtype), layout)
        a.fill_(value)
        assert set(np.asarray(a).ravel().tolist()) == {bool(value) if dtype == "bool" else value}


def test_uint8_takes_negative_numbers_of_its_own_size():
    x = np.zeros(1, "uint8")
    assert Array(x).fill_(-1).tolist() == [255]
    assert Array(x).fill_(-255).tolist() == [1]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("uint8", 256), ("uint8", -256), ("uint8", 255.5), ("int32", 2**31), ("int32", 1e10), ("int32", nan),
        ("int64", 2**63), ("int64", inf), ("int64", -(2**63) - 1), ("float32", 1e300), ("float32", 10**400),
        ("float64", 10**400), ("float32", 1j),
    ],
)  # fmt: skip
def test_fill_refuses_what_does_not_fit(dtype, value):
    x = np.full(3, 7, dtype)
    with pytest.raises(RuntimeError, match=dtype):
        Array(x).fill_(value)
    assert (x == 7).all()


def test_fill_refuses_what_is_no_number():
    for value in ("1", None, [1], object()):
        with pytest.raises(TypeError, match=type(value).__name__):
            Array(np.zeros(3)).fill_(value)


@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_become_python_numbers(dtype, layout, lay_out):
    kind = {"bool": bool, "float32": float, "float64": float}.get(dtype, int)
    for shape in ((), (1,), (2, 3), (0, 2), (2, 0)):
        a, x = lay_out((np.arange(np.prod(shape, dtype=int)).reshape(shape) * 1.5).astype(dtype), layout)
        assert a.tolist() == x.tolist()
        if a.numel() == 1:
            assert type(a.item()) is kind
            assert a.item() == x.item()
        else:
            with pytest.raises(RuntimeError, match=f"{a.numel()} elements"):
                a.item()


# ---- new arrays


@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_integer_ranges(dtype):
    for start, end, step in ((0, 5, 1), (2, 11, 3), (5, 0, -1), (0, 0, 1), (10, 1, -4), (0, 100, 7)):
        if dtype == "uint8" and step < 0:
            continue
        got = F.arange(start, end, step, dtypes[dtype])
        assert got.tolist() == list(range(start, end, step))
        assert got.dtype is dtypes[dtype]


def test_a_range_is_as_long_as_its_quotient_rounded_up():
    for start, end, step in ((0, 1, 0.1), (1, 2.5, 0.3), (3, -2, -0.7), (0, 1, 0.01), (-5, 5, 0.001)):
        for dtype in ("float32", "float64"):
            got = np.asarray(F.arange(start, end, step, dtypes[dtype]))
            assert len(got) == math.ceil((end - start) / step)
            np.testing.assert_allclose(got, start + step * np.arange(len(got)), rtol=1e-6, atol=1e-6)


def test_the_dtype_of_a_range():
    assert F.arange(0, 3).dtype is dtypes["int64"]
    assert F.arange(0, 3.0).dtype is dtypes["float32"]
    assert F.arange(True, 3).tolist() == [1, 2]
    assert F.arange(2**62, 2**62 + 3).tolist() == [2**62, 2**62 + 1, 2**62 + 2]


@pytest.mark.parametrize(
    ("args", "error", "text"),
    [
        ((0, 10, 0), RuntimeError, "nonzero"),
        ((0, 10, -1), RuntimeError, "sign"),
        ((10, 0, 1), RuntimeError, "sign"),
        ((0, inf), RuntimeError, "finite"),
        ((nan, 3), RuntimeError, "finite"),
        ((0, 1e30), RuntimeError, "memory"),
        ((0, 10**30), RuntimeError, "memory"),
        ((0, 1, 0.5, dtypes["int64"]), ValueError, "nonzero"),
        ((0, 2, 1, dtypes["bool"]), NotImplementedError, "bool"),
        (("a", 2), TypeError, "str"),
    ],
)
def test_bad_ranges_are_refused(args, error, text):
    with pytest.raises(error, match=text):
        F.arange(*args)


def test_linspace_has_exact_ends_and_is_symmetric():
    for dtype in ("float32", "float64"):
        for low, high in ((0, 1), (-3, 7), (5, -5), (0.1, 0.7)):
            for n in (2, 3, 10, 11, 1000):
                y = np.asarray(F.linspace(low, high, n, dtypes[dtype]))
                assert y[0] == np.dtype(dtype).type(low)
                assert y[-1] == np.dtype(dtype).type(high)
                np.testing.assert_allclose(y, np.linspace(low, high, n), rtol=1e-6, atol=1e-6)
                if low == -high:
                    np.testing.assert_array_equal(y, -y[::-1])
    assert F.linspace(0, 10, 5, dtypes["int64"]).tolist() == [0, 2, 5, 7, 10]
    assert F.linspace(3, 5, 1).tolist() == [3]
    assert F.linspace(3, 5, 0).tolist() == []
    with pytest.raises(RuntimeError, match="-1"):
        F.linspace(0, 1, -1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ranges_have_the_bits_of_torch(dtype):
    torch = pytest.importorskip("torch")
    for args in ((0, 1, 0.1), (0, 1, 0.01), (-1, 1, 0.05), (0, 100, 0.37), (3, -3, -0.3)):
        np.testing.assert_array_equal(
            np.asarray(F.arange(*args, dtypes[dtype])), torch.arange(*args, dtype=getattr(torch, dtype)).numpy()
        )
    for args in ((0, 1, 11), (-3, 7, 100), (0.1, 0.7, 50), (5, -5, 7)):
        np.testing.assert_array_equal(
            np.asarray(F.linspace(*args, dtypes[dtype])), torch.linspace(*args, dtype=getattr(torch, dtype)).numpy()
        )


def test_eye_and_full():
    for dtype in DTYPES:
        for n, m in ((3, 3), (2, 5), (5, 2), (0, 3), (3, 0)):
            np.testing.assert_array_equal(np.asarray(F.eye(n, m, dtypes[dtype])), np.eye(n, m, dtype=dtype))
        np.testing.assert_array_equal(np.asarray(F.full((2, 3), 1, dtypes[dtype])), np.ones((2, 3), dtype))
    for n, m in ((-1, 2), (2, -1)):
        with pytest.raises(RuntimeError, match="negative"):
            F.eye(n, m, dtypes["float32"])


# ---- joining


def test_cat_joins_any_layout_and_promotes(layout, lay_out):
    kinds = ("uint8", "int64", "float32", "bool")
    for dim in (0, 1, 2, -1):
        parts = []
        for k, kind in enumerate(kinds):
            shape = [2, 3, 4]
            shape[dim] = k
            parts.append(lay_out((np.arange(np.prod(shape)) % 2).reshape(shape).astype(kind), layout))
        got = np.asarray(F.cat([a for a, _ in parts], dim))
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, np.concatenate([x.astype("f4") for _, x in parts], dim))


def test_cat_passes_over_empty_vectors():
    none = Array(np.zeros(0, "float64"))
    m = Array(np.ones((2, 3), "float32"))
    for got in (F.cat([none, m], 1), F.cat([m, none], 0)):
        assert got.shape == (2, 3)
        assert got.dtype is dtypes["float64"]
    assert F.cat([none, none]).shape == (0,)


@pytest.mark.parametrize(
    ("shapes", "dim", "error", "text"),
    [
        ([], 0, ValueError, "empty list"),
        ([()], 0, RuntimeError, "tensor 0"),
        ([(2, 3), (3,)], 0, RuntimeError, r"\[2, 3\].*\[3\]"),
        ([(2, 3), (2, 4)], 0, RuntimeError, r"\[2, 4\]"),
        ([(2, 3)], 2, IndexError, "2"),
        ([(0,)], 1, IndexError, "1"),
    ],
)
def test_bad_joins_are_refused(shapes, dim, error, text):
    with pytest.raises(error, match=text):
        F.cat([Array(np.zeros(s)) for s in shapes], dim)
