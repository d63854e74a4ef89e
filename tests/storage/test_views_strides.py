"""Views of tensors: shape, stride, offset and sharing, with NumPy's views as the reference."""
import importlib
import importlib.util
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

BACKEND = os.environ.get("CYGRAD_TEST_BACKEND", "cygrad")


@pytest.fixture(scope="module")
def torch():
    """The library under test. Where the storage distribution is installed alone there are no tensors to test."""
    if BACKEND == "cygrad" and importlib.util.find_spec("cygrad.autograd") is None:
        pytest.skip("tensors come with the autograd distribution")
    return importlib.import_module(BACKEND)


@pytest.fixture
def block(torch):
    """0 ... 23 as a tensor of shape (2, 3, 4)."""
    return torch.arange(24, dtype=torch.float64).view(2, 3, 4)


def assert_same_view(tensor, array, base, base_array):
    """The tensor shows the same elements of its base as the array does of its own, along the same strides."""
    assert tuple(tensor.shape) == array.shape
    assert_array_equal(np.array(tensor.tolist(), dtype=array.dtype).reshape(array.shape), array)
    if array.size:
        start = (array.__array_interface__["data"][0] - base_array.__array_interface__["data"][0]) // array.itemsize
        assert tensor.storage_offset() == start
        assert tensor.data_ptr() - base.data_ptr() == start * array.itemsize
        strides = [s // array.itemsize for s in array.strides]
        moving = [d for d in range(array.ndim) if array.shape[d] > 1]
        assert [tensor.stride(d) for d in moving] == [strides[d] for d in moving]
        assert tensor.is_contiguous() == array.flags.c_contiguous


# --- single views ---------------------------------------------------------------------------------------------------

VIEWS = {
    "transpose": (lambda t: t.transpose(0, 2), (4, 3, 2), (1, 4, 12), 0),
    "transpose negative": (lambda t: t.transpose(-1, -2), (2, 4, 3), (12, 1, 4), 0),
    "permute": (lambda t: t.permute(2, 0, 1), (4, 2, 3), (1, 12, 4), 0),
    "permute negative": (lambda t: t.permute(-1, 0, -2), (4, 2, 3), (1, 12, 4), 0),
    "permute tuple": (lambda t: t.permute((1, 0, 2)), (3, 2, 4), (4, 12, 1), 0),
    "movedim": (lambda t: t.movedim(0, -1), (3, 4, 2), (4, 1, 12), 0),
    "movedim several": (lambda t: t.movedim((0, 1), (2, 0)), (3, 4, 2), (4, 1, 12), 0),
    "T of a matrix": (lambda t: t[0].T, (4, 3), (1, 4), 0),
    "t of a matrix": (lambda t: t[1].t(), (4, 3), (1, 4), 12),
    "t of a vector": (lambda t: t[1, 2].t(), (4,), (1,), 20),
    "view": (lambda t: t.view(6, 4), (6, 4), (4, 1), 0),
    "view with unknown": (lambda t: t.view(4, -1), (4, 6), (6, 1), 0),
    "view of a slice": (lambda t: t[:, 1:].view(2, 8), (2, 8), (12, 1), 4),
    "view that splits a strided axis": (lambda t: t.view(24)[::2].view(3, 4), (3, 4), (8, 2), 0),
    "view of a permuted tensor": (lambda t: t.permute(2, 0, 1).view(2, 2, 2, 3), (2, 2, 2, 3), (2, 1, 12, 4), 0),
    "flatten": (lambda t: t.flatten(), (24,), (1,), 0),
    "flatten some": (lambda t: t.flatten(1), (2, 12), (12, 1), 0),
    "reshape": (lambda t: t.reshape(3, 8), (3, 8), (8, 1), 0),
    "expand": (lambda t: t[:, :1].expand(2, 5, 4), (2, 5, 4), (12, 0, 1), 0),
    "expand in front": (lambda t: t[0, 0].expand(3, -1), (3, 4), (0, 1), 0),
    "expand_as": (lambda t: t[1, 2, 3].expand_as(t), (2, 3, 4), (0, 0, 0), 23),
    "unsqueeze": (lambda t: t.unsqueeze(1), (2, 1, 3, 4), (12, 12, 4, 1), 0),
    "unsqueeze last": (lambda t: t.unsqueeze(-1), (2, 3, 4, 1), (12, 4, 1, 1), 0),
    "squeeze": (lambda t: t[:1, :, 2:3].squeeze(), (3,), (4,), 2),
    "squeeze one axis": (lambda t: t[:1, :, 2:3].squeeze(0), (3, 1), (4, 1), 2),
    "squeeze of a longer axis": (lambda t: t.squeeze(1), (2, 3, 4), (12, 4, 1), 0),
    "select": (lambda t: t.select(1, 2), (2, 4), (12, 1), 8),
    "select negative": (lambda t: t.select(-1, -1), (2, 3), (12, 4), 3),
    "narrow": (lambda t: t.narrow(2, 1, 2), (2, 3, 2), (12, 4, 1), 1),
    "narrow to nothing": (lambda t: t.narrow(1, 3, 0), (2, 0, 4), (12, 4, 1), 12),
    "index": (lambda t: t[1], (3, 4), (4, 1), 12),
    "index negative": (lambda t: t[-1, -2], (4,), (1,), 16),
    "index to a number": (lambda t: t[1, 2, 3], (), (), 23),
    "slice": (lambda t: t[:, 1:3, ::2], (2, 2, 2), (12, 4, 2), 4),
    "slice with large step": (lambda t: t[:, :, ::7], (2, 3, 1), (12, 4, 7), 0),
    "slice beyond the end": (lambda t: t[0, 0, 2:100], (2,), (1,), 2),
    "slice before the start": (lambda t: t[0, 0, -100:2], (2,), (1,), 0),
    "None": (lambda t: t[:, None, 1], (2, 1, 4), (12, 12, 1), 4),
    "ellipsis": (lambda t: t[..., 1], (2, 3), (12, 4), 1),
    "ellipsis of nothing": (lambda t: t[0, ..., 1, 2], (), (), 6),
    "diagonal": (lambda t: t.diagonal(0, 1, 2), (2, 3), (12, 5), 0),
    "diagonal above": (lambda t: t.diagonal(1, 1, 2), (2, 3), (12, 5), 1),
    "diagonal below": (lambda t: t.diagonal(-1, 1, 2), (2, 2), (12, 5), 4),
    "diagonal of default axes": (lambda t: t.diagonal(), (4, 2), (1, 16), 0),
    "as_strided": (lambda t: t.as_strided((2, 3), (5, 2), 4), (2, 3), (5, 2), 4),
    "as_strided overlapping": (lambda t: t.as_strided((4, 3), (1, 1)), (4, 3), (1, 1), 0),
    "unbind": (lambda t: t.unbind(1)[2], (2, 4), (12, 1), 8),
    "split": (lambda t: t.split(2, 1)[1], (2, 1, 4), (12, 4, 1), 8),
    "split by sizes": (lambda t: t.split([1, 3], -1)[1], (2, 3, 3), (12, 4, 1), 1),
    "chunk": (lambda t: t.chunk(2, 2)[1], (2, 3, 2), (12, 4, 1), 2),
    "detach": (lambda t: t[1].detach(), (3, 4), (4, 1), 12),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views(block, name):
    """Shape, stride and offset are as computed by hand, the memory is shared, and the elements are those it
    describes.
    """
    make, shape, stride, offset = VIEWS[name]
    view = make(block)
    assert (tuple(view.shape), view.stride(), view.storage_offset()) == (shape, stride, offset)
    assert view.data_ptr() == (block.data_ptr() + 8 * offset if view.numel() else 0)
    assert view.untyped_storage().data_ptr() == block.untyped_storage().data_ptr()
    numbers = np.lib.stride_tricks.as_strided(np.arange(24.0)[offset:], shape, [8 * s for s in stride])
    assert_array_equal(np.array(view.tolist()).reshape(shape), numbers)


def test_pieces(torch):
    """Split and chunk cover the axis, with a shorter last piece; unbind drops the axis."""
    x = torch.arange(10)
    assert [c.tolist() for c in x.split(4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [len(c) for c in x.chunk(4)] == [3, 3, 3, 1]
    assert [len(c) for c in x[:3].chunk(5)] == [1, 1, 1]
    assert [c.tolist() for c in x[:6].view(2, 3).unbind(1)] == [[0, 3], [1, 4], [2, 5]]
    assert isinstance(x.split(4), tuple)
    for piece in (*x.split(4), *x.chunk(3), *x.unbind()):
        piece.add_(1)
    assert x.tolist() == [n + 3 for n in range(10)]


def test_strides_of_small_tensors(torch):
    """Empty and single-element tensors have the strides that their sizes give, counting an empty axis as one."""
    for shape, stride in (((), ()), ((0,), (1,)), ((0, 3), (3, 1)), ((3, 0, 2), (2, 2, 1)), ((1, 1), (1, 1)),
                          ((2, 1, 3), (3, 3, 1))):
        x = torch.zeros(shape)
        assert x.stride() == stride
        assert x.is_contiguous()


def test_contiguity_ignores_axes_of_length_one(torch, block):
    """Where there is only one step, or none, its stride does not matter."""
    assert torch.zeros(1, 4).t().is_contiguous()
    assert block[:1, :1].is_contiguous()
    assert block[:1].is_contiguous()
    assert torch.zeros(0, 4).t().is_contiguous()
    assert not block[:, :1].is_contiguous()
    assert not torch.zeros(3).expand(2, 3).is_contiguous()
    assert torch.zeros(3).expand(1, 3).is_contiguous()


def test_many_dimensions(torch):
    """Twelve axes work as three do: views, reductions and arithmetic."""
    x = torch.arange(2**12, dtype=torch.float64).view([2] * 12)
    back = x.permute(*range(11, -1, -1))
    assert back.stride() == tuple(2**i for i in range(12))
    reference = np.arange(2.0**12).reshape([2] * 12)
    assert (back + x).sum(0)[(1,) * 11].item() == (reference.T + reference).sum(0)[(1,) * 11]
    assert_array_equal(back.reshape(-1).tolist(), reference.T.reshape(-1))
    assert torch.zeros([1] * 20).dim() == 20


# --- chains of views ------------------------------------------------------------------------------------------------


def draw_view(data, shape):
    """One random view operation that is valid for the shape, as a pair of functions for tensor and array."""
    n = len(shape)
    kinds = ["unsqueeze", "none", "slice"]
    if n:
        kinds += ["select", "permute", "narrow", "expand"]
    if n >= 2:
        kinds += ["transpose", "diagonal"]
    kind = data.draw(st.sampled_from(kinds))
    axis = data.draw(st.integers(0, max(n - 1, 0)))
    if kind == "unsqueeze":
        axis = data.draw(st.integers(0, n))
        return lambda t: t.unsqueeze(axis), lambda a: np.expand_dims(a, axis)
    if kind == "none":
        return lambda t: t[..., None], lambda a: a[..., None]
    if kind == "slice":
        bounds = st.tuples(st.integers(-6, 6), st.integers(-6, 6), st.integers(1, 3))
        index = (..., *(slice(*data.draw(bounds)) for _ in range(min(n, 2))))
        return lambda t: t[index], lambda a: a[index]
    if kind == "select" and shape[axis]:
        i = data.draw(st.integers(-shape[axis], shape[axis] - 1))
        return lambda t: t.select(axis, i), lambda a: a[(slice(None),) * axis + (i, ...)]
    if kind == "permute":
        order = data.draw(st.permutations(range(n)))
        return lambda t: t.permute(*order), lambda a: a.transpose(order)
    if kind == "narrow":
        start = data.draw(st.integers(0, shape[axis]))
        length = data.draw(st.integers(0, shape[axis] - start))
        where = (slice(None),) * axis + (slice(start, start + length),)
        return lambda t: t.narrow(axis, start, length), lambda a: a[where]
    if kind == "expand":
        size = tuple(3 if s == 1 else s for s in shape)
        return lambda t: t.expand(2, *size), lambda a: np.broadcast_to(a, (2, *size))
    if kind == "transpose":
        other = data.draw(st.integers(0, n - 1))
        return lambda t: t.transpose(axis, other - n), lambda a: a.swapaxes(axis, other)
    if kind == "diagonal":
        offset = data.draw(st.integers(-1, 1))
        return lambda t: t.diagonal(offset, 0, n - 1), lambda a: a.diagonal(offset, 0, n - 1)
    return lambda t: t[...], lambda a: a[...]


@settings(max_examples=300)
@given(data=st.data())
def test_random_chains_of_views(torch, data):
    """After any chain of views the tensor shows what NumPy's view shows, at the same addresses."""
    base, base_array = torch.arange(60, dtype=torch.int64), np.arange(60)
    tensor, array = base.view(3, 4, 5), base_array.reshape(3, 4, 5)
    for _ in range(data.draw(st.integers(1, 6))):
        if array.ndim > 5 or array.size > 2000:
            break
        of_tensor, of_array = draw_view(data, array.shape)
        tensor, array = of_tensor(tensor), of_array(array)
        assert_same_view(tensor, array, base, base_array)
    copy = tensor.contiguous()
    assert copy.is_contiguous()
    assert_array_equal(np.array(copy.tolist(), dtype=np.int64).reshape(array.shape), array)
    assert tensor.sum().item() == array.sum()
    assert_array_equal(np.array((tensor + 1).tolist(), dtype=np.int64).reshape(array.shape), array + 1)


@settings(max_examples=300)
@given(data=st.data())
def test_view_works_exactly_when_nothing_moves(torch, data):
    """``view`` succeeds exactly where NumPy can reshape without a copy, and ``reshape`` always gives the same
    numbers.
    """
    base, base_array = torch.arange(48, dtype=torch.int64), np.arange(48)
    tensor, array = base.view(2, 4, 6), base_array.reshape(2, 4, 6)
    for _ in range(data.draw(st.integers(0, 3))):
        of_tensor, of_array = draw_view(data, array.shape)
        tensor, array = of_tensor(tensor), of_array(array)
    factors = data.draw(st.permutations([f for f in (2, 2, 2, 2, 3) if array.size % f == 0]))
    rest, shape = array.size, []
    for f in factors:
        if rest and rest % f == 0:
            shape.append(f)
            rest //= f
    shape.insert(data.draw(st.integers(0, len(shape))), rest)
    try:
        want = np.reshape(array, shape, copy=False)
    except ValueError:
        with pytest.raises(RuntimeError):
            tensor.view(shape)
        assert tensor.reshape(shape).untyped_storage().data_ptr() != base.untyped_storage().data_ptr()
    else:
        assert_same_view(tensor.view(shape), want, base, base_array)
    assert_array_equal(np.array(tensor.reshape(shape).tolist(), dtype=np.int64).reshape(shape), array.reshape(shape))


# --- indexing -------------------------------------------------------------------------------------------------------

INDICES = {
    "number": 1,
    "numpy number": np.int64(-1),
    "numbers": (1, -1, 0),
    "slice": (slice(None), slice(2, None)),
    "none": (None, 0, None),
    "ellipsis": (..., 2),
    "empty tuple": (),
    "empty slice": slice(5, 2),
    "index vector": [0, 1, 1, -1],
    "index matrix": np.array([[0, 1], [1, 0]]),
    "index vector in the second axis": (slice(None), np.array([2, 0])),
    "mask of rows": np.array([True, False]),
    "mask of all": np.arange(24).reshape(2, 3, 4) % 3 == 0,
    "mask of two axes": np.arange(6).reshape(2, 3) % 2 == 1,
    "mask of nothing": np.zeros((2, 3, 4), dtype=bool),
}


def in_tensors(torch, index):
    """The same index with tensors in place of arrays."""
    if isinstance(index, tuple):
        return tuple(in_tensors(torch, part) for part in index)
    return torch.tensor(index) if isinstance(index, np.ndarray) else index


@pytest.mark.parametrize("name", INDICES)
def test_reading_and_writing_by_index(torch, block, name):
    """Each kind of index reads and writes what it does in NumPy; index tensors and masks copy, all others share."""
    index = INDICES[name]
    array = np.arange(24.0).reshape(2, 3, 4)
    mine = in_tensors(torch, index)
    got, want = block[mine], array[index]
    assert tuple(got.shape) == want.shape
    assert_array_equal(np.array(got.tolist()).reshape(want.shape), want)
    if want.size:
        shares = got.untyped_storage().data_ptr() == block.untyped_storage().data_ptr()
        assert shares == (isinstance(want, np.float64) or np.shares_memory(want, array))
    block[mine] = -1.0
    array[index] = -1.0
    assert_array_equal(block.tolist(), array)
    fill = np.arange(100.0, 100.0 + want.size).reshape(want.shape)
    block[mine] = torch.tensor(fill)
    if name != "index vector" and name != "index matrix":       # which of several writes to one place wins is open
        array[index] = fill
        assert_array_equal(block.tolist(), array)


def test_a_mask_selects_in_row_order_of_any_layout(torch, block):
    """A boolean mask picks elements in the order of the indices, not of the memory."""
    view = block.permute(2, 0, 1)
    reference = np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1)
    assert view[view % 5 == 0].tolist() == reference[reference % 5 == 0].tolist()
    view[view > 20] = 0.0
    assert block.max().item() == 20.0


def test_gather_and_index_select(torch, block):
    """Selection along one axis equals NumPy's, for contiguous and transposed sources."""
    rng = np.random.RandomState(0)
    array = np.arange(24.0).reshape(2, 3, 4)
    for tensor, source in ((block, array), (block.permute(2, 1, 0), array.transpose(2, 1, 0))):
        for axis in range(3):
            pick = rng.randint(0, source.shape[axis], size=5)
            assert_array_equal(tensor.index_select(axis, torch.tensor(pick)).tolist(), source.take(pick, axis))
            places = rng.randint(0, source.shape[axis], size=source.shape)
            gathered = tensor.gather(axis - 3, torch.tensor(places))
            assert_array_equal(gathered.tolist(), np.take_along_axis(source, places, axis))


# --- copies ---------------------------------------------------------------------------------------------------------


def test_layout_of_copies(torch, block):
    """A copy of a dense tensor keeps the order of its axes; gaps and repeated elements are squeezed out."""
    assert block.permute(2, 0, 1).clone().stride() == (1, 12, 4)
    assert block[:, ::2].clone().stride() == (8, 4, 1)
    assert block[:, :1].expand(2, 3, 4).clone().stride() == (12, 4, 1)
    assert torch.zeros_like(block.permute(1, 0, 2)).stride() == (4, 12, 1)
    assert block.permute(2, 0, 1).contiguous().stride() == (6, 3, 1)
    assert block.permute(2, 0, 1).to(torch.float32).stride() == (1, 12, 4)


def test_conversions_that_have_nothing_to_do(torch, block):
    """They return the tensor itself."""
    for same in (block.to(torch.float64), block.double(), block.cpu(), block.to("cpu"), block.contiguous()):
        assert same is block
    assert block.float().data_ptr() != block.data_ptr()
    assert block.clone().data_ptr() != block.data_ptr()


def test_sharing_with_numpy(torch):
    """``from_numpy`` and ``numpy()`` share memory in both directions, with all strides; ``tensor`` copies."""
    array = np.arange(12.0).reshape(3, 4)
    for source in (array, array.T, array[:, ::2], array[1], np.asfortranarray(array)):
        tensor = torch.from_numpy(source)
        assert_array_equal(tensor.tolist(), source)
        assert tensor.stride() == tuple(s // 8 for s in source.strides)
        assert tensor.data_ptr() == source.__array_interface__["data"][0]
        back = tensor.numpy()
        assert np.shares_memory(back, source)
        assert back.strides == source.strides
        copied = torch.tensor(source)
        last = (-1,) * source.ndim
        tensor[last] = tensor[last].item() + 100
        assert back[last] == source[last] == copied[last].item() + 100


def test_memory_outlives_its_owner(torch):
    """The numbers stay while either side is alive."""
    view = torch.from_numpy(np.arange(1000.0))[500:].numpy()
    noise = [np.full(1000, np.nan) for _ in range(50)]
    assert view.tolist() == list(range(500, 1000))
    storage = torch.arange(1000.0).view(10, 100)[3].untyped_storage()
    noise += [torch.zeros(1000) for _ in range(50)]
    assert bytes(storage.tolist()[4000 - 4:]) == np.float32(999).tobytes()


def test_types_shared_with_numpy(torch):
    """Each type meets the NumPy type of its name."""
    for name in ("bool", "uint8", "int32", "int64", "float32", "float64"):
        array = np.array([0, 1, 1], dtype=name)
        tensor = torch.from_numpy(array)
        assert str(tensor.dtype) == f"torch.{name}"
        assert tensor.numpy().dtype == array.dtype
        assert tensor.tolist() == array.tolist()
        assert torch.zeros(2, dtype=tensor.dtype).numpy().dtype == array.dtype
