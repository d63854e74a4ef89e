"""Matrix products on BLAS and of integers, against NumPy in double precision."""

import subprocess
import sys

import numpy as np
import pytest

from cygrad.storage import functions as F
from cygrad.storage.array import Array

DTYPES = ("uint8", "int32", "int64", "float32", "float64")
SIZES = [
    (1, 1, 1), (2, 3, 4), (5, 1, 7), (1, 9, 1), (1, 8, 6), (7, 3, 1), (33, 17, 20), (130, 70, 260),
    (900, 300, 1), (1, 300, 901), (0, 3, 4), (3, 0, 4), (3, 4, 0), (3, 0, 1), (1, 0, 4), (1, 0, 1),
]  # fmt: skip


def sample(shape, dtype, seed=0):
    return np.random.default_rng(seed).integers(0 if dtype == "uint8" else -9, 9, shape).astype(dtype)


def forms(x):
    """The same matrix as BLAS can take it (row-major, column-major, with a gap between rows) and as it cannot."""
    n, m = x.shape[-2:]
    yield x
    yield np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    gap = np.zeros((*x.shape[:-1], m + 5), x.dtype)
    gap[..., 2 : 2 + m] = x
    yield gap[..., 2 : 2 + m]
    sparse = np.zeros((*x.shape[:-2], 2 * n + 1, 3 * m + 1), x.dtype)
    sparse[..., 1 : 2 * n + 1 : 2, 1 : 3 * m + 1 : 3] = x
    yield sparse[..., 1 : 2 * n + 1 : 2, 1 : 3 * m + 1 : 3]


def product(a, b):
    """Exact for these integers in double; the integer types wrap."""
    return (a.astype("f8") @ b.astype("f8")).astype("i8").astype(a.dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_mm_of_any_layouts(size, dtype):
    n, k, p = size
    a, b = sample((n, k), dtype), sample((k, p), dtype, 1)
    for x in forms(a):
        for y in forms(b):
            got = np.asarray(F.mm(Array(x), Array(y)))
            assert got.dtype == a.dtype
            np.testing.assert_array_equal(got, product(a, b))
    for x in forms(a):
        np.testing.assert_array_equal(np.asarray(F.mm(Array(x), Array(a).transpose(0, 1))), product(a, a.T))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_bmm_of_any_layouts(size, dtype):
    n, k, p = size
    for batches in (0, 1, 5):
        a, b = sample((batches, n, k), dtype), sample((batches, k, p), dtype, 1)
        for x in forms(a):
            for y in forms(b):
                np.testing.assert_array_equal(np.asarray(F.bmm(Array(x), Array(y))), product(a, b))
    a, b = sample((1, n, k), dtype), sample((4, k, p), dtype, 1)
    np.testing.assert_array_equal(np.asarray(F.bmm(Array(a).expand(4, n, k), Array(b))), product(np.repeat(a, 4, 0), b))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_addmm_broadcasts_what_it_adds(size, dtype):
    n, k, p = size
    a, b, c = sample((n, k), dtype), sample((k, p), dtype, 1), sample((n, p), dtype, 2)
    for added in (c, c[:1].copy(), c[0].copy() if n else c, np.asarray(sample((), dtype))):
        if added.ndim < 2 or added.shape[0] in (1, n):
            for beta, alpha in ((1, 1), (2, 3), (0, 2), (1, 0)):
                want = (beta * added.astype("i8") + alpha * product(a, b).astype("i8")).astype(dtype)
                got = np.asarray(F.addmm(Array(np.asarray(added)), Array(a), Array(b), beta, alpha))
                np.testing.assert_array_equal(got, np.broadcast_to(want, (n, p)))


def test_beta_0_forgets_what_it_adds():
    c = np.full((2, 2), np.nan, "float32")
    ones = Array(np.ones((2, 2), "float32"))
    assert F.addmm(Array(c), ones, ones, 0, 1).tolist() == [[2, 2], [2, 2]]


@pytest.mark.parametrize("size", [(5, 70, 1), (1, 70, 5), (400, 700, 1), (1, 700, 400), (1, 3, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_a_matrix_by_a_vector(size, dtype):
    """In every layout and with every factor; what the result's memory held before does not matter, NaN and Inf do."""
    n, k, p = size
    rng = np.random.default_rng(0)
    a, b, c = (
        (rng.integers(-9, 9, s) + (1j * rng.integers(-9, 9, s) if "complex" in dtype else 0)).astype(dtype)
        for s in ((n, k), (k, p), (n, p))
    )
    for x in forms(a):
        for y in forms(b):
            np.testing.assert_array_equal(np.asarray(F.mm(Array(x), Array(y))), a @ b)
            np.testing.assert_array_equal(np.asarray(F.addmm(Array(c), Array(x), Array(y), 3, -2)), 3 * c - 2 * (a @ b))
            lost = Array(np.full((n, p), np.nan, dtype))
            np.testing.assert_array_equal(np.asarray(F.addmm(lost, Array(x), Array(y), 0, 1)), a @ b)
    for value in (np.nan, np.inf):      # by 0 too: neither factor is skipped
        bad = np.zeros_like(a if p == 1 else b)
        bad[:] = value
        x, y = (bad, np.zeros_like(b)) if p == 1 else (np.zeros_like(a), bad)
        assert np.isnan(np.asarray(F.mm(Array(x), Array(y)))).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_what_memory_held_before_is_forgotten(dtype):
    """The result of a matrix by a vector lies where a tensor of NaN lay."""
    for n in (3, 40, 1000):
        a, b = sample((n, 7), "int64").astype(dtype), sample((7, 1), "int64", 1).astype(dtype)
        x, y = Array(a), Array(b)
        for _ in range(20):
            F.mm(Array(np.full((n, 1), np.nan, dtype)), Array(np.ones((1, 1), dtype)))
            np.testing.assert_array_equal(np.asarray(F.mm(x, y)), a @ b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors(dtype):
    for n in (0, 1, 5, 100, 5000):
        a, b = sample(n, dtype), sample(n, dtype, 1)
        want = np.array(np.dot(a.astype("f8"), b.astype("f8")), "i8").astype(dtype)
        assert F.dot(Array(a), Array(b)).tolist() == want.tolist()
        assert F.dot(Array(np.repeat(a, 2)[::2]), Array(np.repeat(b, 3)[::3])).tolist() == want.tolist()
        m = sample((7, n), dtype, 2)
        for x in forms(m):
            got = np.asarray(F.mv(Array(x), Array(np.repeat(b, 2)[::2])))
            assert got.shape == (7,)
            np.testing.assert_array_equal(got, product(m, b[:, None])[:, 0])


def test_a_float_dot_product_is_added_up_in_double():
    a = np.full(10**6, 0.1, "float32")
    assert F.dot(Array(a), Array(a)).item() == pytest.approx(float(np.float64(np.float32(0.1)) ** 2) * 10**6, rel=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "size",
    [(512, 300, 512), (2000, 64, 128), (17, 4096, 2100), (1030, 1030, 33), (129, 700, 130),
     (3001, 700, 1), (1, 700, 3001)],
)
def test_thread_counts_give_the_same_bits(size, dtype, threads):
    n, k, p = size
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((n, k)).astype(dtype), rng.standard_normal((k, p)).astype(dtype)
    one, two = threads(lambda: np.asarray(F.mm(Array(a), Array(b))))
    np.testing.assert_array_equal(one, two)
    exact = a.astype("f8") @ b.astype("f8")
    np.testing.assert_allclose(one, exact, atol=(1e-6 if dtype == "float32" else 1e-15) * k, rtol=1e-5)


def test_batches_are_split_over_threads_alike(threads):
    a = np.random.default_rng(0).standard_normal((40, 64, 64)).astype("float32")
    one, two = threads(lambda: np.asarray(F.bmm(Array(a), Array(a))))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_allclose(one, a.astype("f8") @ a.astype("f8"), atol=1e-4)


def zeros(*shape, dtype="float32"):
    return Array(np.zeros(shape, dtype))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: F.mm(zeros(2, 3), zeros(2, 3)), "2x3 and 2x3"),
        (lambda: F.mm(zeros(2, 3), zeros(3)), r"\[2, 3\] and \[3\]"),
        (lambda: F.mm(zeros(2, 3), zeros(3, 2, dtype="float64")), "float32.*float64"),
        (lambda: F.bmm(zeros(2, 2, 3), zeros(3, 3, 2)), "batch sizes 2 and 3"),
        (lambda: F.bmm(zeros(2, 2, 3), zeros(2, 4, 2)), "2x3 and 4x2"),
        (lambda: F.bmm(zeros(2, 3), zeros(2, 3, 2)), "3-dimensional"),
        (lambda: F.addmm(zeros(4), zeros(2, 3), zeros(3, 2)), "4"),
        (lambda: F.addmm(zeros(2, 2, dtype="float64"), zeros(2, 3), zeros(3, 2)), "float64"),
        (lambda: F.mv(zeros(2, 3), zeros(2)), r"\[2, 3\].*2 elements"),
        (lambda: F.mv(zeros(3), zeros(3)), "matrix and a vector"),
        (lambda: F.dot(zeros(3), zeros(2)), "3 and 2"),
        (lambda: F.dot(zeros(3, 1), zeros(3)), "1-dimensional"),
        (lambda: F.dot(zeros(2), zeros(2, dtype="int64")), "float32.*int64"),
    ],
)
def test_bad_shapes_and_dtypes_are_refused(call, text):
    with pytest.raises(RuntimeError, match=text):
        call()


def test_bool_has_no_products():
    for call in (lambda x: F.mm(x, x), lambda x: F.addmm(x, x, x), lambda x: F.mv(x, x.select(0, 0))):
        with pytest.raises(NotImplementedError, match="bool"):
            call(zeros(2, 2, dtype="bool"))


WITHOUT_BLAS = """
import sys

class Refuses:
    def find_spec(self, name, path=None, target=None):
        if name == "scipy_openblas32":
            raise ModuleNotFoundError("no such wheel", name=name)

sys.meta_path.insert(0, Refuses())
try:
    import cygrad.storage.ops
except ImportError as e:
    print(e)
"""


def test_without_the_blas_wheel_the_import_says_what_to_install():
    done = subprocess.run([sys.executable, "-c", WITHOUT_BLAS], capture_output=True, text=True, timeout=60, check=True)
    assert "pip install scipy-openblas32" in done.stdout
