"""Sorting on a device: by radix of unsigned keys, several lines at once, beside NumPy's stable sort."""

import numpy as np
import pytest

import cygrad

pytestmark = pytest.mark.usefixtures("any_devices")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64")
SHAPES = [(7,), (1,), (3, 5), (40, 1), (2, 3, 301), (1, 20000), (700, 50), (3, 9000)]      # the last: several groups


def drawn(dtype, shape):
    """Many equal elements, the extremes, and of floats what has no place in an order."""
    rng = np.random.default_rng(len(shape) + shape[-1])
    if dtype == "bool":
        return cygrad.tensor(rng.integers(0, 2, shape) > 0)
    if dtype in INTEGERS:
        limits = np.iinfo(dtype)
        x = rng.choice(np.array([limits.min, limits.max, 0, 1, 2, 3, limits.max // 2], dtype), shape)
        return cygrad.tensor(np.where(rng.random(shape) < 0.5, x, rng.integers(0, 90, shape, dtype)))
    x = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1.5, -1.5, 1e-7, 3e38], shape)
    return cygrad.tensor(np.where(rng.random(shape) < 0.5, x, rng.normal(size=shape))).to(getattr(cygrad, dtype))


def same(a, b):
    return a.shape == b.shape and np.array_equal(a.double().numpy(), b.double().numpy(), equal_nan=True)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["bool", *INTEGERS, "float16", "bfloat16", "float32", "float64"])
def test_order_is_the_cpus(dtype, shape, descending):
    x = drawn(dtype, shape)
    for dim in {0, len(shape) - 1}:
        wanted = x.sort(dim, descending=descending, stable=True)
        values, places = x.cuda().sort(dim, descending=descending, stable=True)
        assert places.tolist() == wanted[1].tolist() and same(values.cpu(), wanted[0])


def test_lines_with_strides():
    x = drawn("float32", (6, 31, 10))
    for view in (lambda v: v.transpose(0, 2), lambda v: v[::2, 1:, ::3], lambda v: v[0].expand(4, 31, 10)):
        wanted = view(x).sort(1, stable=True)
        found = view(x.cuda()).sort(1, stable=True)
        assert found[1].tolist() == wanted[1].tolist() and same(found[0].cpu(), wanted[0])


@pytest.mark.parametrize("dtype", ["int64", "float32", "bfloat16"])
def test_largest_smallest_and_kth(dtype):
    x = cygrad.tensor(np.random.default_rng(2).permutation(300)).reshape(5, 60).to(getattr(cygrad, dtype))
    x = x / 1 if x.is_floating_point() else x
    for k in (0, 1, 7, 60):
        for largest in (True, False):
            wanted, found = x.sort(1, descending=largest), x.cuda().topk(k, 1, largest=largest)
            assert same(found[0].cpu(), wanted[0][:, :k]) and same(x.gather(1, found[1].cpu()), wanted[0][:, :k])
    wanted, found = x.kthvalue(9, 1), x.cuda().kthvalue(9, 1)
    assert same(found[0].cpu(), wanted[0]) and found[1].tolist() == wanted[1].tolist()


def test_empty_lines_and_numbers():
    for shape, dim in (((0,), 0), ((3, 0), 1), ((0, 4), 1), ((), 0)):
        values, places = cygrad.zeros(shape, device="cuda").sort(dim)
        assert values.shape == places.shape == shape


@pytest.mark.usefixtures("imitated_devices")
def test_nothing_waits_for_the_device():
    x = cygrad.arange(100.0, device="cuda").flip(0)
    cygrad.cuda.synchronize()
    values, places = x.sort()
    top = x.topk(3)
    assert not cygrad.cuda.default_stream().query()
    assert values.tolist() == list(range(100)) and places.tolist() == values.flip(0).tolist()
    assert top[0].tolist() == [99, 98, 97]
