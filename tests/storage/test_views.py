"""Views: strides, offsets and bounds, against NumPy for values and against PyTorch for strides and exception types."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cygrad.storage import Size, Storage, float32, float64, int64, memory_stats
from cygrad.storage.array import Array

SIZES = st.lists(st.integers(0, 4), max_size=5)


def numbered(sizes):
    """The elements 0, 1, 2, ... as an Array and as an ndarray over the same memory."""
    a = Array.empty(sizes, dtype=float64)
    n = shared(a)
    n[...] = np.arange(n.size).reshape(sizes)
    return a, n


def shared(x):
    """An Array's elements as an ndarray over its memory."""
    return np.asarray(x)


@st.composite
def view_step(draw, sizes):
    """One view of something with these sizes: (method, arguments)."""
    nd = len(sizes)
    dim = st.integers(-nd, nd - 1)
    kinds = ["unsqueeze", "squeeze", "view", "expand", "permute"]
    kinds += ["slice", "narrow", "transpose", "unfold"] if nd else []
    kinds += ["select"] if any(sizes) else []
    kinds += ["diagonal"] if nd > 1 else []
    kind = draw(st.sampled_from(kinds))
    if kind == "unsqueeze":
        return kind, (draw(st.integers(-nd - 1, nd)),)
    if kind == "squeeze":
        return kind, (draw(st.none() | st.lists(dim, unique_by=lambda d: d % nd, max_size=nd)) if nd else None,)
    if kind == "view":
        return kind, (draw(st.permutations(sizes)),)
    if kind == "expand":
        front = draw(st.lists(st.integers(0, 2), max_size=2))
        return kind, (front + [draw(st.sampled_from([-1, s])) if s != 1 else draw(st.integers(-1, 3)) for s in sizes],)
    if kind == "permute":
        return kind, (draw(st.permutations(range(nd))),)
    if kind == "transpose":
        return kind, (draw(dim), draw(dim))
    if kind == "diagonal":
        a = draw(dim)
        b = draw(dim.filter(lambda d: (d - a) % nd))
        return kind, (draw(st.integers(-4, 4)), a, b)
    d = draw(dim)
    if kind == "select":
        d = draw(st.sampled_from([i for i, s in enumerate(sizes) if s]))
        return kind, (d, draw(st.integers(-sizes[d], sizes[d] - 1)))
    if kind == "slice":
        return kind, (d, draw(st.integers(-6, 6)), draw(st.integers(-6, 6)), draw(st.integers(1, 3)))
    if kind == "narrow":
        start = draw(st.integers(0, sizes[d]))
        return kind, (d, start, draw(st.integers(0, sizes[d] - start)))
    return kind, (d, draw(st.integers(0, sizes[d])), draw(st.integers(1, 3)))


def numpy_view(n, kind, args):
    """The same view by NumPy's own means, or None where NumPy has no such view."""
    if kind == "unsqueeze":
        return np.expand_dims(n, args[0])
    if kind == "squeeze":
        dims = range(n.ndim) if args[0] is None else args[0]
        return np.squeeze(n, tuple(d for d in dims if n.shape[d] == 1))
    if kind == "expand":
        front = len(args[0]) - n.ndim
        return np.broadcast_to(n, [n.shape[i - front] if s == -1 else s for i, s in enumerate(args[0])])
    if kind == "permute":
        return n.transpose(args[0])
    if kind == "transpose":
        return n.swapaxes(*args)
    if kind == "diagonal":
        if args[0] >= n.shape[args[2]] or -args[0] >= n.shape[args[1]]:
            return None  # NumPy moves the data pointer outside
        return n.diagonal(*args)
    if kind == "select":
        return n[(slice(None),) * (args[0] % n.ndim) + (args[1],)]
    if kind == "slice":
        return n[(slice(None),) * (args[0] % n.ndim) + (slice(*args[1:]),)]
    if kind == "narrow":
        return n[(slice(None),) * (args[0] % n.ndim) + (slice(args[1], args[1] + args[2]),)]
    if kind == "unfold":
        d, size, step = args
        windows = np.lib.stride_tricks.sliding_window_view(n, size, d) if size else None
        return windows[(slice(None),) * (d % n.ndim) + (slice(None, None, step),)] if size else None
    return None


def row_major(sizes, strides):
    """The definition of contiguity: sizes of 1 do not count, and nothing is contiguous however it lies."""
    step = 1
    for s, t in zip(reversed(sizes), reversed(strides), strict=True):
        if s != 1:
            if t != step:
                return math.prod(sizes) == 0
            step *= s
    return True


@given(SIZES, st.data())
def test_chains_of_views_show_the_same_elements_as_numpy(sizes, data):
    a, n = numbered(sizes)
    for _ in range(data.draw(st.integers(1, 4))):
        kind, args = data.draw(view_step(list(a.shape)))
        if kind == "view":
            flat = n.reshape(args[0])
            try:
                b = a.view(args[0])
            except RuntimeError:
                assert a.numel() > 0 and not a.is_contiguous()
                b = a.reshape(args[0])
                assert b.is_contiguous()
            n, a = flat, b
        else:
            a = getattr(a, kind)(*args)
            wanted = numpy_view(n, kind, args)
            n = shared(a) if wanted is None else wanted
        assert a.shape == n.shape
        assert a.numel() == n.size
        assert np.array_equal(shared(a), n)
        assert a.is_contiguous() == row_major(a.shape, a.strides)


@given(SIZES, st.data())
def test_strides_and_offsets_are_pytorchs(sizes, data):
    torch = pytest.importorskip("torch")
    a, _ = numbered(sizes)
    t = torch.arange(math.prod(sizes), dtype=torch.float64).view(sizes)
    for _ in range(data.draw(st.integers(1, 5))):
        kind, args = data.draw(view_step(list(a.shape)))
        if kind == "view" and not possible(t, args[0]):
            with pytest.raises(RuntimeError, match="reshape"):
                a.view(args[0])
            continue
        a = getattr(a, kind)(*args)
        t = torch_view(torch, t, kind, args)
        assert a.shape == tuple(t.shape)
        assert a.strides == t.stride()
        assert a.offset == t.storage_offset()
        assert a.is_contiguous() == t.is_contiguous()


def possible(t, sizes):
    try:
        t.view(sizes)
    except RuntimeError:
        return False
    return True


def torch_view(torch, t, kind, args):
    if kind == "slice":
        return torch.ops.aten.slice(t, *args)
    if kind == "squeeze":
        return t.squeeze() if args[0] is None else t.squeeze(tuple(args[0]))
    return getattr(t, kind)(*args)


@given(SIZES, SIZES)
def test_reshape_and_view_accept_the_shapes_that_pytorch_accepts(sizes, wanted):
    torch = pytest.importorskip("torch")
    a, _ = numbered(sizes)
    t = torch.zeros(sizes)
    backwards = list(range(len(sizes)))[::-1]
    for x, y in ((a, t), (a.permute(backwards), t.permute(backwards))):
        for method in ("view", "reshape"):
            for target in (wanted, [-1, *wanted[1:]]):
                try:
                    r = getattr(y, method)(target)
                except RuntimeError:
                    with pytest.raises(RuntimeError):
                        getattr(x, method)(target)
                else:
                    got = getattr(x, method)(target)
                    assert (got.shape, got.strides) == (tuple(r.shape), r.stride())


@given(st.lists(st.integers(0, 4), max_size=4), st.data())
def test_as_strided_accepts_exactly_what_lies_inside(sizes, data):
    strides = data.draw(st.lists(st.integers(0, 5), min_size=len(sizes), max_size=len(sizes)))
    offset = data.draw(st.integers(0, 20))
    s = Storage(8 * 20)
    reached = [offset + int(np.dot(i, strides)) for i in np.ndindex(*sizes)]
    if max(reached, default=0) < 20:
        a = Array.over(s, float64, sizes, strides, offset)
        assert (a.shape, a.strides, a.offset) == (tuple(sizes), tuple(strides), offset)
    else:
        with pytest.raises(RuntimeError, match="out of bounds"):
            Array.over(s, float64, sizes, strides, offset)


@given(st.lists(st.integers(0, 5), max_size=4), st.data())
def test_internal_overlap_is_found_exactly(sizes, data):
    strides = data.draw(st.lists(st.integers(0, 9), min_size=len(sizes), max_size=len(sizes)))
    reached = [int(np.dot(i, strides)) for i in np.ndindex(*sizes)]
    a = Array.over(Storage(8 * 200), float64, sizes, strides)
    assert a.overlaps_itself() == (len(set(reached)) < len(reached))


def test_sixty_four_dimensions_are_possible_and_not_one_more():
    a = Array.empty([1] * 30 + [2] * 4 + [1] * 30)
    shared(a.view(-1))[:] = np.arange(16)
    assert a.ndim == 64
    assert a.select(30, 1).ndim == 63
    b = a.permute(list(range(63, -1, -1)))
    assert b.strides == a.strides[::-1]
    assert shared(b.squeeze()).tolist() == np.arange(16).reshape(2, 2, 2, 2).T.tolist()
    one_more = [1] * 65
    for grow in (lambda: a.unsqueeze(0), lambda: a.unfold(0, 1, 1), lambda: a.view(one_more),
                 lambda: a.expand(one_more), lambda: Array.empty(one_more)):
        with pytest.raises(RuntimeError, match="64"):
            grow()


@pytest.mark.parametrize("ndim", [4, 5, 6, 7, 20])
def test_metadata_inside_and_outside_the_object_behave_alike(ndim):
    a, n = numbered([2] + [1] * (ndim - 2) + [3])
    assert shared(a.transpose(0, -1)).tolist() == n.swapaxes(0, -1).tolist()
    assert a.squeeze().shape == (2, 3)
    assert a.unsqueeze(0).squeeze(0).strides == a.strides
    assert a.expand(7, *a.shape).shape == (7, *a.shape)


A = Array.empty(2, 3)
POINT = Array.empty()

REFUSED = {
    "select_past_the_end": (lambda: A.select(0, 2), IndexError, "index 2 is out of bounds for dimension 0 with size 2"),
    "select_before_the_start": (lambda: A.select(1, -4), IndexError, "index -4 is out.*dimension 1 with size 3"),
    "select_of_a_number": (lambda: POINT.select(0, 0), IndexError, "0 dimensions"),
    "dimension_too_high": (lambda: A.select(2, 0), IndexError, "dimension 2 is out of range.*-2 to 1"),
    "dimension_too_low": (lambda: A.transpose(0, -3), IndexError, "dimension -3 is out of range"),
    "unsqueeze_too_far": (lambda: A.unsqueeze(4), IndexError, "-3 to 2"),
    "slice_backwards": (lambda: A.slice(0, 2, 0, -1), ValueError, "step must be greater than zero, got -1"),
    "slice_of_a_number": (lambda: POINT.slice(0, 0, 1), IndexError, "0 dimensions"),
    "narrow_too_long": (lambda: A.narrow(1, 2, 2), RuntimeError, r"start 2 \+ length 2 exceeds dimension size 3"),
    "narrow_negative_length": (lambda: A.narrow(1, 2, -1), RuntimeError, "length must not be negative, got -1"),
    "narrow_start_outside": (lambda: A.narrow(1, 4, 0), IndexError, "start 4 is out of range.*size 3"),
    "narrow_of_a_number": (lambda: POINT.narrow(0, 0, 0), RuntimeError, "0 dimensions"),
    "narrow_huge_length": (lambda: A.narrow(1, 2, 2**63 - 1), RuntimeError, "exceeds"),
    "view_of_another_count": (lambda: A.view(4, 2), RuntimeError, r"\[4, 2\] is invalid for input of size 6"),
    "view_two_unknowns": (lambda: A.view(-1, -1), RuntimeError, "only one dimension can be inferred"),
    "view_negative": (lambda: A.view(-2, 3), RuntimeError, "invalid shape dimension -2"),
    "view_unknown_does_not_divide": (lambda: A.view(4, -1), RuntimeError, "invalid for input of size 6"),
    "view_unknown_of_nothing": (lambda: A.slice(0, 0, 0).view(0, -1), RuntimeError, "ambiguous"),
    "view_product_overflows": (lambda: A.view(2**62, 2**62), RuntimeError, "overflow"),
    "view_of_a_transpose": (lambda: A.transpose(0, 1).view(6), RuntimeError, r"\[3, 2\] and stride \[1, 3\].*reshape"),
    "expand_other_size": (lambda: A.expand(2, 4), RuntimeError, "size 4 must match the existing size 3 at dimension 1"),
    "expand_fewer": (lambda: A.expand(3), RuntimeError, "2 dimensions"),
    "expand_new_unknown": (lambda: A.expand(-1, 2, 3), RuntimeError, "-1"),
    "expand_negative": (lambda: A.expand(-2, 3), RuntimeError, "-2"),
    "permute_too_few": (lambda: A.permute(0), RuntimeError, "2 dimensions"),
    "permute_twice_the_same": (lambda: A.permute(1, -1), RuntimeError, "dimension 1 twice"),
    "permute_outside": (lambda: A.permute(0, 2), IndexError, "out of range"),
    "diagonal_of_one_dimension": (lambda: A.diagonal(0, 1, -1), RuntimeError, "the same"),
    "unfold_too_long": (lambda: A.unfold(1, 4, 1), RuntimeError, "maximum size for dimension 1 is 3, but size is 4"),
    "unfold_no_step": (lambda: A.unfold(1, 2, 0), RuntimeError, "step is 0"),
    "unfold_negative": (lambda: A.unfold(1, -1, 1), RuntimeError, "size is -1"),
    "negative_size": (lambda: Array.empty(2, -3), RuntimeError, r"negative dimension -3: sizes \[2, -3\]"),
    "count_overflows": (lambda: Array.empty(2**40, 2**40), RuntimeError, "overflowed with sizes"),
    "count_overflows_beside_zero": (lambda: Array.empty(2**40, 2**40, 0), RuntimeError, "overflowed with sizes"),
    "bytes_overflow": (lambda: Array.empty(2**62), RuntimeError, "overflowed with sizes"),
    "as_strided_negative_stride": (lambda: Array.over(Storage(8), int64, (1,), (-1,)), RuntimeError, "negative stride"),
    "as_strided_negative_offset": (lambda: Array.over(Storage(8), int64, (1,), (1,), -1), RuntimeError, "-1"),
    "as_strided_overflow": (lambda: Array.over(Storage(8), int64, (2**40,) * 2, (2**40, 1)), RuntimeError, "bounds"),
    "as_strided_lengths": (lambda: Array.over(Storage(8), int64, (1, 1), (1,)), RuntimeError, "2 sizes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_arguments_are_refused_by_name(case):
    act, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        act()
    assert (A.shape, A.strides) == ((2, 3), (3, 1))


def test_pytorch_raises_the_same_types():
    """The cases above that PyTorch also knows as methods, in its own terms."""
    torch = pytest.importorskip("torch")
    t, point = torch.empty(2, 3), torch.empty(())
    calls = {
        "select_past_the_end": lambda: t.select(0, 2), "select_of_a_number": lambda: point.select(0, 0),
        "dimension_too_high": lambda: t.select(2, 0), "unsqueeze_too_far": lambda: t.unsqueeze(4),
        "slice_backwards": lambda: t[::-1], "narrow_too_long": lambda: t.narrow(1, 2, 2),
        "narrow_negative_length": lambda: t.narrow(1, 2, -1), "narrow_start_outside": lambda: t.narrow(1, 4, 0),
        "narrow_of_a_number": lambda: point.narrow(0, 0, 0), "view_of_another_count": lambda: t.view(4, 2),
        "view_two_unknowns": lambda: t.view(-1, -1), "view_negative": lambda: t.view(-2, 3),
        "view_unknown_of_nothing": lambda: t[:0].view(0, -1), "view_of_a_transpose": lambda: t.t().view(6),
        "expand_other_size": lambda: t.expand(2, 4), "expand_fewer": lambda: t.expand(3),
        "expand_new_unknown": lambda: t.expand(-1, 2, 3), "permute_too_few": lambda: t.permute(0),
        "permute_twice_the_same": lambda: t.permute(1, -1), "permute_outside": lambda: t.permute(0, 2),
        "diagonal_of_one_dimension": lambda: t.diagonal(0, 1, -1), "unfold_too_long": lambda: t.unfold(1, 4, 1),
        "unfold_no_step": lambda: t.unfold(1, 2, 0), "negative_size": lambda: torch.empty(2, -3),
        "count_overflows": lambda: torch.empty(2**40, 2**40), "bytes_overflow": lambda: torch.empty(2**62),
        "as_strided_negative_stride": lambda: t.as_strided((1,), (-1,)),
    }
    for case, call in calls.items():
        with pytest.raises(Exception) as caught:
            call()
        assert caught.type is REFUSED[case][1], case


def test_a_failed_view_keeps_no_memory():
    a = Array.empty([2] * 8)
    before = memory_stats()
    for act in (lambda: a.view(3), lambda: a.expand([3] * 8), lambda: a.permute([0] * 8), lambda: a.view([2] * 9),
                lambda: a.transpose(0, 1).view([4] + [2] * 6), lambda: Array.empty([2**20] * 8)):
        with pytest.raises(RuntimeError):
            act()
    after = memory_stats()
    assert after["live_bytes"] == before["live_bytes"]
    assert after["live_storages"] == before["live_storages"]


def test_views_share_and_keep_the_storage():
    a, n = numbered([3, 4])
    v = a.select(0, 1).slice(0, 1, 4, 2)
    assert v.memory is a.memory
    shared(v)[:] = -1
    assert n[1].tolist() == [4, -1, 6, -1]
    del a
    assert shared(v).tolist() == [-1, -1]


def test_shape_is_a_size_and_strides_a_tuple():
    a = Array.empty(3, 4, dtype=float32)
    assert type(a.shape) is Size and repr(a.shape) == "torch.Size([3, 4])"
    assert type(a.strides) is tuple and a.strides == (4, 1)
