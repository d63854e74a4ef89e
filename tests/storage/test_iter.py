"""The iterator: broadcasting, layouts, stride order of results, and independence of the number of threads."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cygrad.storage import bool as bool_
from cygrad.storage import float32, float64, get_num_threads, int32, int64, set_num_threads, uint8
from cygrad.storage.array import Array

SIDE = st.integers(0, 4)


@st.composite
def layout(draw, sizes):
    """An ndarray of these sizes with an arbitrary layout: permuted, gapped or repeated."""
    order = draw(st.permutations(range(len(sizes))))
    inner = [sizes[d] for d in order]
    steps = [draw(st.integers(1, 2)) for _ in inner]
    n = np.arange(math.prod(s * t for s, t in zip(inner, steps, strict=True)), dtype=np.float64) / 7 - 3
    n = n.reshape([s * t for s, t in zip(inner, steps, strict=True)])
    gapped = n[(*(slice(None, None, t) for t in steps), ...)]  # with "...", an ndarray even when 0-d
    return gapped.transpose(np.argsort(order).tolist())


@st.composite
def operands(draw, count):
    """Ndarrays that broadcast together."""
    full = draw(st.lists(SIDE, max_size=5))
    found = []
    for _ in range(count):
        keep = draw(st.integers(0, len(full)))
        found.append(draw(layout([s if draw(st.booleans()) else 1 for s in full[len(full) - keep :]])))
    return found


@given(operands(2))
def test_two_operands_of_any_layout_broadcast_as_in_numpy(pair):
    y = Array.call("sub", *map(Array, pair))
    wanted = pair[0] - pair[1]
    assert y.shape == wanted.shape
    assert np.array_equal(np.asarray(y), wanted)


@given(operands(3))
def test_three_operands_of_two_types_broadcast_as_in_numpy(triple):
    c = np.signbit(triple[0])
    y = Array.call("where", *map(Array, (c, *triple[1:])))
    wanted = np.where(c, *triple[1:])
    assert y.shape == wanted.shape
    assert np.array_equal(np.asarray(y), wanted)


def laid_out_as(y, wanted):
    """Equal strides; PyTorch restates those of one-element dimensions in four dimensions, and of nothing."""
    pairs = zip(y.shape, y.strides, wanted.stride(), strict=True)
    return y.numel() == 0 or all(ours == theirs for size, ours, theirs in pairs if size > 1 or y.ndim != 4)


@given(operands(2))
def test_results_lie_in_memory_as_pytorchs_do(pair):
    torch = pytest.importorskip("torch")
    y = Array.call("add", *map(Array, pair))
    wanted = torch.from_numpy(pair[0]) + torch.from_numpy(pair[1])
    assert y.shape == tuple(wanted.shape)
    assert laid_out_as(y, wanted)


@given(st.lists(SIDE, max_size=5).flatmap(layout))
def test_results_of_one_operand_lie_in_memory_as_pytorchs_do(n):
    torch = pytest.importorskip("torch")
    y = Array.call("neg", Array(n))
    assert laid_out_as(y, torch.from_numpy(n).neg())


@pytest.mark.parametrize("sizes", [(3, 1), (1,), (2, 0, 3), (), (1, 1, 1)])
def test_an_expanded_operand_is_read_again_and_again(sizes):
    n = np.arange(math.prod(sizes), dtype=np.float64).reshape(sizes)
    a = Array(n).expand(5, *sizes)
    assert np.array_equal(np.asarray(Array.call("add", a, a)), np.broadcast_to(2 * n, (5, *sizes)))


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)])
@pytest.mark.parametrize(
    "sizes", [(40, 50, 60), (100000, 3), (3, 100000), (2, 3, 20000), (7, 16385), (1, 65536 + 3), (40000, 2, 2)]
)
def test_large_iterations_cover_every_element_once(sizes, axes):
    axes = [d for d in axes if d < len(sizes)]
    n = np.arange(math.prod(sizes), dtype=np.float64).reshape(sizes)
    row = np.arange(sizes[-1], dtype=np.float64)
    assert np.array_equal(np.asarray(Array.call("add", Array(n), Array(row))), n + row)
    column = np.arange(sizes[0], dtype=np.float64).reshape(-1, *[1] * (len(sizes) - 1))
    assert np.array_equal(np.asarray(Array.call("sub", Array(column), Array(n))), column - n)
    t = n.transpose(axes)
    u = np.ascontiguousarray(t) + 1
    assert np.array_equal(np.asarray(Array.call("sub", Array(t), Array(u))), t - u)
    assert np.array_equal(np.asarray(Array.call("neg", Array(t[::2]))), -t[::2])


def test_twenty_dimensions_of_two_in_any_order():
    n = np.arange(2**18, dtype=np.float64).reshape([2] * 18)
    order = [5, 0, 17, 3, 1, 8, 2, 11, 4, 16, 6, 15, 7, 14, 9, 13, 10, 12]
    y = Array.call("add", Array(n), Array(n).permute(order))
    assert np.array_equal(np.asarray(y), n + n.transpose(order))


def test_more_dimensions_than_numpy_coalesces():
    a = Array.empty([1] * 31 + [3] + [1] * 31 + [2])
    np.asarray(a.view(6))[:] = range(6)
    y = Array.call("add", a, a.transpose(31, 63).transpose(63, 31))
    assert y.shape == a.shape
    assert np.asarray(y.view(6)).tolist() == [0, 2, 4, 6, 8, 10]


@pytest.fixture
def threads():
    """Sets the number of threads for one test."""
    before = get_num_threads()
    yield set_num_threads
    set_num_threads(before)


@pytest.mark.parametrize("dtype", [float32, float64, int32, int64, uint8, bool_])
@pytest.mark.parametrize("shape", ["flat", "gapped", "rows", "short_rows", "transposed"])
def test_any_number_of_threads_gives_the_same_bits(threads, shape, dtype):
    rng = np.random.default_rng(1)
    base = rng.integers(0, 2 if dtype is bool_ else 100, 2 * 300007).astype(np.dtype(dtype.name))
    a = {
        "flat": base[:300007], "gapped": base[::2], "rows": base[: 600 * 1000].reshape(600, 1000)[:, :-1],
        "short_rows": base[:600000].reshape(-1, 3), "transposed": base[:600000].reshape(600, 1000).T,
    }[shape]
    b = a[..., :1] if a.ndim > 1 else a[::-1].copy()
    results = []
    for n in (1, 2, 3, 7):
        threads(n)
        second = "maximum" if dtype is bool_ else "sigmoid" if dtype in (float32, float64) else "mul"
        for name in ("add", second):
            x = (Array(a),) if name == "sigmoid" else (Array(a), Array(b))
            results.append(np.asarray(Array.call(name, *x)).tobytes())
    assert results == results[:2] * 4


def test_vector_body_and_tail_agree(threads):
    """An element's value does not depend on where it stands, so a piece of an array gives a piece of the result."""
    threads(2)
    n = np.random.default_rng(2).normal(size=100003).astype(np.float32)
    whole = np.asarray(Array.call("exp", Array(n)))
    for start, stop in ((0, 1), (1, 64), (5, 70), (16383, 16385), (32767, 65536), (99999, 100003)):
        assert np.asarray(Array.call("exp", Array(n[start:stop]))).tobytes() == whole[start:stop].tobytes()


REFUSED = {
    "shapes": (
        lambda: Array.call("add", Array.empty(2, 3), Array.empty(2, 4)),
        RuntimeError, r"\[2, 3\] and \[2, 4\].*3 and 4 at dimension 1"),
    "zero_and_two": (lambda: Array.call("add", Array.empty(0), Array.empty(2)), RuntimeError, r"\[0\] and \[2\]"),
    "third_operand": (
        lambda: Array.call("where", Array.empty(4, 1, dtype=bool_), Array.empty(3), Array.empty(2, 1)),
        RuntimeError, r"\[4, 3\] and \[2, 1\].*4 and 2 at dimension 0"),
    "count": (lambda: Array.call("add", Array.empty(2)), TypeError, "takes 2 arrays"),
    "number": (lambda: Array.call("add", Array.empty(2), 1.0), TypeError, "Array, float"),
    "name": (lambda: Array.call("no_such_row"), KeyError, "no_such_row"),
    "gradient_kernel": (lambda: Array.call("mul_g_a", Array.empty(2), Array.empty(2)), KeyError, "mul_g_a"),
    "mask": (lambda: Array.call("where", Array.empty(2), Array.empty(2), Array.empty(2)), TypeError, "torch.bool"),
    "dtype": (lambda: Array.call("bitwise_and", Array.empty(2), Array.empty(2)), TypeError, "torch.float32"),
    "scalar_missing": (lambda: Array.call("add_scaled", Array.empty(2), Array.empty(2)), TypeError, "alpha"),
    "scalar_unknown": (lambda: Array.call("add", Array.empty(2), Array.empty(2), beta=1), TypeError, "beta"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_operands_are_refused_by_name(case):
    act, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        act()
