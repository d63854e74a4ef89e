"""Reading and writing through index arrays, against NumPy."""

import itertools

import numpy as np
import pytest

from cygrad.storage import functions as F
from cygrad.storage.array import Array

DTYPES = ("bool", "uint8", "int32", "int64", "float32", "float64")
SHAPES = ((5,), (4, 6), (3, 4, 5), (2, 3, 4, 5), (70, 80))


def sample(shape, dtype, seed=0):
    return np.random.default_rng(seed).integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)


def moved(shape, dim, size):
    return tuple(size if d == dim else n for d, n in enumerate(shape))


# ---- along one dimension


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["int64", "int32"])
def test_index_select(kind, dtype, layout, lay_out):
    for shape in SHAPES:
        for dim in range(len(shape)):
            a, x = lay_out(sample(shape, dtype), layout)
            for count in (0, 1, 9):
                index = np.random.default_rng(count).integers(0, shape[dim], count).astype(kind)
                for i in (index, np.repeat(index, 2)[::2]):
                    got = np.asarray(F.index_select(a, dim, Array(i)))
                    np.testing.assert_array_equal(got, np.take(x, index, dim))
    assert F.index_select(Array(np.arange(3)), 0, Array(np.array(2))).tolist() == [2]
    assert F.index_select(Array(np.array(7.0)), 0, Array(np.array([0]))).tolist() == 7


@pytest.mark.parametrize("dtype", DTYPES)
def test_index_add_adds_repeated_indices_up(dtype, layout, lay_out):
    for shape in SHAPES:
        for dim in range(len(shape)):
            a, x = lay_out(sample(shape, dtype), layout)
            index = np.random.default_rng(1).integers(0, shape[dim], 9)
            src, values = lay_out(sample(moved(shape, dim, 9), dtype, 2), layout)
            want = x.copy()
            np.add.at(np.moveaxis(want, dim, 0), index, np.moveaxis(values, dim, 0))
            np.testing.assert_array_equal(np.asarray(F.index_add(a, dim, Array(index), src)), want)
            np.testing.assert_array_equal(np.asarray(a), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gather(dtype, layout, lay_out):
    for shape in SHAPES:
        for dim in range(len(shape)):
            a, x = lay_out(sample(shape, dtype), layout)
            small = tuple(max(1, n - 1) for n in moved(shape, dim, 8))
            i, index = lay_out(np.random.default_rng(3).integers(0, shape[dim], small), layout)
            near = x[tuple(slice(None) if d == dim else slice(n) for d, n in enumerate(small))]
            np.testing.assert_array_equal(np.asarray(F.gather(a, dim, i)), np.take_along_axis(near, index, dim))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("add", [False, True])
def test_scatter(add, dtype, layout, lay_out):
    for shape in SHAPES:
        for dim in range(len(shape)):
            a, x = lay_out(sample(shape, dtype), layout)
            small = tuple(max(1, n - 1) for n in moved(shape, dim, 8))
            index = np.random.default_rng(3).integers(0, shape[dim], small)
            src, values = lay_out(sample(moved(small, dim, 12), dtype, 4), layout)
            want = x.copy()
            with np.errstate(over="ignore"):
                for at in np.ndindex(*small):  # row by row: the last of equal indices wins
                    to = moved(at, dim, index[at])
                    want[to] = want[to] + values[at] if add else values[at]
            np.testing.assert_array_equal(np.asarray(F.scatter(a, dim, Array(index), src, add)), want)


def test_scatter_reads_all_before_it_writes():
    x = np.arange(5)
    F.scatter_(Array(x), 0, Array(x), Array(x))
    np.testing.assert_array_equal(x, np.arange(5))
    x = np.arange(6)
    F.scatter_(Array(x[1:]), 0, Array(np.arange(5)), Array(x[:-1]))
    np.testing.assert_array_equal(x, [0, 0, 1, 2, 3, 4])
    x = np.arange(6)
    F.index_add_(Array(x[1:]), 0, Array(np.arange(5)), Array(x[:-1]))
    np.testing.assert_array_equal(x, [0, 1, 3, 5, 7, 9])


def test_an_empty_index_changes_nothing():
    none = Array(np.zeros(0, "int64"))
    assert F.gather(Array(np.ones((2, 2))), 0, none).shape == (0,)
    x = np.ones((2, 2))
    F.scatter_(Array(x), 0, none, Array(np.zeros((1, 1))))
    F.index_add_(Array(x), 0, none, Array(np.zeros((0, 2))))
    assert (x == 1).all()


# ---- advanced indices


def index_kinds(n, rng):
    """Index arrays for a dimension of n elements, which broadcast together: with negatives, and one a mask of four."""
    mask = np.zeros(n, bool)
    mask[rng.permutation(n)[: 4 if n >= 4 else 1]] = True
    return [
        None,
        rng.integers(-n, n, 4),
        rng.integers(-n, n, (2, 1)).astype("int32"),
        np.asfortranarray(rng.integers(-n, n, (2, 4))),
        mask,
    ]


def index_cases(shape):
    rng = np.random.default_rng(0)
    for kinds in itertools.product(range(5), repeat=len(shape)):
        yield [index_kinds(n, rng)[k] for n, k in zip(shape, kinds, strict=True)]


def of_numpy(index):
    return tuple(slice(None) if i is None else i for i in index)


def of_arrays(index):
    return [None if i is None else Array(i) for i in index]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5,), (4, 6), (3, 4, 5)])
def test_reading_follows_numpy(shape, dtype, layout, lay_out):
    a, x = lay_out(sample(shape, dtype), layout)
    for index in index_cases(shape):
        np.testing.assert_array_equal(np.asarray(F.index(a, of_arrays(index))), x[of_numpy(index)])


def test_reading_four_dimensions_and_fewer_indices_than_dimensions():
    x = sample((4, 4, 4, 4), "float32")
    for index in itertools.islice(index_cases(x.shape), 0, None, 7):
        np.testing.assert_array_equal(np.asarray(F.index(Array(x), of_arrays(index))), x[of_numpy(index)])
    i = np.array([3, -1])
    for index in ([i], [None, i], [None, None, i], [], [None]):
        np.testing.assert_array_equal(np.asarray(F.index(Array(x), of_arrays(index))), x[of_numpy(index)])


def written(x, index, value, accumulate):
    """x after one element after the other was written, in the order of the index."""
    y = x.copy()
    places = np.arange(x.size).reshape(x.shape)[of_numpy(index)]
    flat = y.reshape(-1)
    for at, v in zip(places.ravel(), np.broadcast_to(value, places.shape).ravel(), strict=True):
        flat[at] = flat[at] + v if accumulate else v
    return y


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float32"])
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("shape", [(5,), (4, 6), (3, 4, 5)])
def test_writing_in_the_order_of_the_index(shape, accumulate, dtype):
    x = sample(shape, dtype)
    for index in index_cases(shape):
        target = x[of_numpy(index)].shape
        for value_shape in {target, target[-1:], (), (1, *target[1:])}:
            value = sample(value_shape, dtype, 5)
            with np.errstate(over="ignore"):
                want = written(x, index, value, accumulate)
            y = x.copy()
            F.index_put_(Array(y), of_arrays(index), Array(value), accumulate)
            np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
def test_writing_into_any_layout(dtype):
    for make in (np.array, np.asfortranarray, lambda x: np.repeat(x, 2, 1)[:, ::2]):
        x = make(sample((6, 7), dtype))
        index, value = np.array([4, -6, 2]), sample((3, 7), dtype, 1)
        want = x.copy()
        want[index] = value
        F.index_put_(Array(x), [Array(index)], Array(value))
        np.testing.assert_array_equal(x, want)
        want[:, index] = value[0, :3]
        F.index_put_(Array(x), [None, Array(index)], Array(value[0, :3]))
        np.testing.assert_array_equal(x, want)


def test_a_value_may_share_memory_with_its_target():
    x = np.arange(10)
    F.index_put_(Array(x), [Array(np.arange(1, 10))], Array(x[:-1]))
    np.testing.assert_array_equal(x, [0, *range(9)])
    x = np.array([1, 2, 0])
    F.index_put_(Array(x), [Array(x)], Array(x))
    np.testing.assert_array_equal(x, [0, 1, 2])


# ---- masks


@pytest.mark.parametrize("dtype", DTYPES)
def test_nonzero_and_masked_select(dtype, layout, lay_out):
    for shape in (*SHAPES, (), (0, 3)):
        a, x = lay_out(sample(shape, dtype) * sample(shape, dtype, 1), layout)
        want = np.argwhere(x) if x.ndim else np.zeros((int(bool(x)), 0), "int64")
        got = np.asarray(F.nonzero(a))
        assert got.shape == want.shape
        np.testing.assert_array_equal(got, want)
        m, mask = lay_out(sample(shape, "bool", 2), layout)
        np.testing.assert_array_equal(np.asarray(F.masked_select(a, m)), x[mask])
        if x.ndim == 2:
            wide = np.broadcast_to(mask[:, :1], shape)
            column = Array(np.ascontiguousarray(mask[:, :1]))
            np.testing.assert_array_equal(np.asarray(F.masked_select(a, column)), x[wide])


@pytest.mark.parametrize("n", [7, 8, 9, 511, 512, 513, 16384, 40_001])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_masks_of_any_length_and_density(n, share):
    """Eight at a time, block by block, chunk by chunk; in both layouts of what is tested and of what is taken."""
    rng = np.random.default_rng(n)
    mask, x = rng.random((n, 2)) < share, rng.standard_normal((n, 2)).astype("float32")
    for hit, values in itertools.product((mask[:, 0].copy(), mask[:, 0]), (x[:, 0].copy(), x[:, 0])):
        np.testing.assert_array_equal(np.asarray(F.nonzero(Array(hit)))[:, 0], np.nonzero(hit)[0])
        np.testing.assert_array_equal(np.asarray(F.masked_select(Array(values), Array(hit))), values[hit])
    np.testing.assert_array_equal(np.asarray(F.nonzero(Array(mask))), np.argwhere(mask))


# ---- threads and size


def test_large_reads_on_threads(threads):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((500, 300)).astype("float32")
    rows, both = rng.integers(0, 500, 2000), rng.integers(0, 300, (900, 300))
    cases = [
        (lambda: F.index_select(Array(x), 0, Array(rows)), x[rows]),
        (lambda: F.index_select(Array(x.T), 1, Array(rows)), x.T[:, rows]),
        (lambda: F.gather(Array(x), 1, Array(both[:500])), np.take_along_axis(x, both[:500], 1)),
        (lambda: F.index(Array(x), [Array(both), Array(both)]), x[both, both]),
    ]
    for f, want in cases:
        for got in threads(lambda f=f: np.asarray(f())):
            np.testing.assert_array_equal(got, want)


def test_a_bad_index_is_found_anywhere():
    x = Array(np.zeros((3, 3)))
    for n, at in itertools.product((1, 5000, 10_000), (0, -1, "middle")):
        index = np.zeros(n, "int64")
        index[n // 2 if at == "middle" else at] = 3
        with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 1 with size 3"):
            F.index_select(x, 1, Array(index))
        with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 1 with size 3"):
            F.index(x, [None, Array(index)])


# ---- bad input


def array(*values, dtype=None):
    return Array(np.array(values, dtype))


BAD = {
    "select too large": (lambda x: F.index_select(x, 0, array(0, 3)), IndexError, "index 3.*dimension 0 with size 3"),
    "select negative": (lambda x: F.index_select(x, 0, array(-1)), IndexError, "index -1"),
    "select by floats": (lambda x: F.index_select(x, 0, array(0.0)), RuntimeError, "float64"),
    "select by a matrix": (lambda x: F.index_select(x, 0, array([0])), IndexError, r"\[1, 1\]"),
    "select twice of 0-d": (lambda x: F.index_select(Array(np.array(1)), 0, array(0, 0)), RuntimeError, "2"),
    "gather too large": (lambda x: F.gather(x, 0, array([5])), RuntimeError, "index 5.*dimension 0 with size 3"),
    "gather negative": (lambda x: F.gather(x, 0, array([-1])), RuntimeError, "index -1"),
    "gather other ndim": (lambda x: F.gather(x, 0, array(1)), RuntimeError, r"\[1\].*\[3, 3\]"),
    "gather wider": (lambda x: F.gather(x, 0, array([0, 0, 0, 0])), RuntimeError, r"\[1, 4\].*\[3, 3\]"),
    "gather by floats": (lambda x: F.gather(x, 0, array([0.0])), RuntimeError, "float64"),
    "scatter too large": (lambda x: F.scatter_(x, 0, array([5]), array([1.0])), RuntimeError, "index 5"),
    "scatter other dtype": (lambda x: F.scatter_(x, 0, array([0]), array([1])), RuntimeError, "float64.*int64"),
    "scatter short source": (
        lambda x: F.scatter_(x, 0, array([0, 1]), array([1.0])), RuntimeError, r"\[1, 2\].*\[1, 1\]"),
    "scatter into rows that overlap": (
        lambda x: F.scatter_(x.narrow(0, 0, 1).expand(3, 3), 0, array([0]), array([1.0])), RuntimeError, r"clone\(\)"),
    "add too large": (lambda x: F.index_add_(x, 0, array(5), array([1.0, 1, 1])), RuntimeError, "index 5"),
    "add other count": (
        lambda x: F.index_add_(x, 0, array(0), array([1.0] * 3, [1.0] * 3)), RuntimeError, r"1 ind.*\[2, 3\]"),
    "add other width": (lambda x: F.index_add_(x, 0, array(0), array([1.0, 1])), RuntimeError, r"\[1, 2\].*\[3, 3\]"),
    "add other dtype": (lambda x: F.index_add_(x, 0, array(0), array([1, 1, 1])), RuntimeError, "float64.*int64"),
    "add by a matrix": (lambda x: F.index_add_(x, 0, array([0]), array([1.0, 1, 1])), IndexError, r"\[1, 1\]"),
    "read one past the end": (lambda x: F.index(x, [array(3)]), IndexError, "index 3.*dimension 0 with size 3"),
    "read before the start": (lambda x: F.index(x, [None, array(-4)]), IndexError, "index -4.*dimension 1 with size 3"),
    "read by floats": (lambda x: F.index(x, [array(0.0)]), IndexError, "float64"),
    "read by a short mask": (lambda x: F.index(x, [array(True, False)]), IndexError, r"\[2\].*\[3, 3\]"),
    "read by shapes that differ": (lambda x: F.index(x, [array(0, 1), array(0, 1, 2)]), IndexError, r"\[2\], \[3\]"),
    "read too many": (lambda x: F.index(x, [array(0)] * 3), IndexError, "too many"),
    "read of nothing": (lambda x: F.index(x.narrow(0, 0, 0), [array(0)]), IndexError, "size 0"),
    "write one past the end": (lambda x: F.index_put_(x, [array(0, 3)], array(1.0)), IndexError, "index 3"),
    "write other shape": (
        lambda x: F.index_put_(x, [array(0, 1)], Array(np.ones((3, 2)))), RuntimeError, r"\[3, 2\].*\[2, 3\]"),
    "write other dtype": (lambda x: F.index_put_(x, [array(0)], array(1)), RuntimeError, "float64.*int64"),
    "write into rows that overlap": (
        lambda x: F.index_put_(x.narrow(0, 0, 1).expand(3, 3), [array(0)], array(1.0)), RuntimeError, r"clone\(\)"),
    "mask of integers": (lambda x: F.masked_select(x, array(1, 0, 1)), RuntimeError, "int64"),
    "mask of a shape beyond count": (
        lambda x: F.masked_select(x.narrow(0, 0, 1).narrow(1, 0, 1).expand(1, 2**32), array(True).expand(2**32, 1)),
        RuntimeError, "overflowed"),
    "mask of other shape": (lambda x: F.masked_select(x, array(True, False)), RuntimeError, r"\[3, 3\].*\[2\]"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_and_changes_nothing(name):
    call, error, text = BAD[name]
    x = np.arange(9.0).reshape(3, 3)
    with pytest.raises(error, match=text):
        call(Array(x))
    np.testing.assert_array_equal(x, np.arange(9.0).reshape(3, 3))
