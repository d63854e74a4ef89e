"""Windows of whole numbers: every digit counts, and means are cut towards 0."""

import pytest

import cygrad
import cygrad.nn.functional as F

BIG = 2**53


def test_maxima_beyond_double_precision():
    x = cygrad.tensor([[BIG, BIG + 1, -BIG - 1, -BIG - 2]])
    assert F.max_pool1d(x, 2).tolist() == [[BIG + 1, -BIG - 1]]
    values, places = F.max_pool2d(x[None], (1, 2), return_indices=True)
    assert values.tolist() == [[[BIG + 1, -BIG - 1]]] and places.tolist() == [[[1, 2]]]
    least = cygrad.full((1, 3), -(2**63))
    values, places = F.max_pool1d(least, 3, 1, 1, return_indices=True)
    assert values.tolist() == [[-(2**63)] * 3] and places.tolist() == [[0, 0, 1]]


def test_means_beyond_double_precision():
    x = cygrad.tensor([[[BIG + 1, BIG + 3], [BIG + 5, BIG + 7]]])
    assert F.avg_pool2d(x, 2).tolist() == [[[BIG + 4]]]
    assert F.avg_pool2d(-x, 2).tolist() == [[[-BIG - 4]]]
    assert F.avg_pool2d(x, 2, divisor_override=1).tolist() == [[[4 * BIG + 16]]]


def test_the_least_number_over_minus_one_does_not_trap():
    x = cygrad.tensor([[[-(2**63)]]])
    assert F.avg_pool2d(x, 1, divisor_override=-1).tolist() == [[[-(2**63)]]]


OPTIONS = [{}, {"padding": 1}, {"padding": 1, "count_include_pad": False}, {"ceil_mode": True}]


@pytest.mark.parametrize("options", OPTIONS)
def test_means_are_pytorchs(options):
    torch = pytest.importorskip("torch")
    values = [[[(7 * i * i + 3 * j) % 23 - 11 for j in range(5)] for i in range(6)]]
    ours, theirs = (lib.nn.functional.avg_pool2d(lib.tensor(values), (2, 3), **options) for lib in (cygrad, torch))
    assert ours.dtype is cygrad.int64 and ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
def test_maxima_of_every_integer_dtype(dtype):
    torch = pytest.importorskip("torch")
    values = [[[(7 * i * i + 3 * j) % 23 for j in range(5)] for i in range(6)]]
    found = []
    for lib in (cygrad, torch):
        x = lib.tensor(values, dtype=getattr(lib, dtype))
        y, places = lib.nn.functional.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True)
        found.append((str(y.dtype), y.tolist(), places.tolist()))
    assert found[0] == found[1]


def test_refused_dtypes():
    for dtype in (cygrad.bool, cygrad.uint64, cygrad.complex64):
        with pytest.raises(NotImplementedError):
            F.max_pool1d(cygrad.ones(1, 4, dtype=dtype), 2)
    for dtype in (cygrad.bool, cygrad.int32):
        with pytest.raises(NotImplementedError):
            F.avg_pool1d(cygrad.ones(1, 4, dtype=dtype), 2)
