"""Lesson 1: a tensor is a description; the numbers lie in a storage."""
import pytest
from numpy.testing import assert_allclose

# PyTorch announces a later change of Tensor.storage(); the chapter uses it all the same.
pytestmark = pytest.mark.filterwarnings("ignore:.*TypedStorage is deprecated:UserWarning")


@pytest.fixture
def x(torch):
    """Twelve numbers in one row, the block of memory that most of the lesson looks at."""
    return torch.arange(12, dtype=torch.float32)


@pytest.fixture
def t(x):
    """The same twelve numbers seen as three rows of four."""
    return x.view(3, 4)


def test_a_tensor_carries_metadata(torch, x):
    """A tensor knows its device, its type, its shape, where it starts in its storage and how far apart its elements
    lie.
    """
    assert x.device == torch.device("cpu")
    assert str(x.device) == "cpu"
    assert x.dtype is torch.float32
    assert str(x.dtype) == "torch.float32"
    assert x.shape == torch.Size([12])
    assert x.size() == x.shape
    assert x.dim() == 1
    assert x.numel() == 12
    assert x.storage_offset() == 0
    assert x.stride() == (1,)


def test_the_numbers_lie_in_a_typed_storage(torch, x):
    """The storage is one contiguous, one-dimensional block that has a type, a length, a size in bytes and an address.
    """
    storage = x.storage()
    assert storage.tolist() == [0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11.]
    assert storage.dtype is torch.float32
    assert len(storage) == 12
    assert storage.nbytes() == 12 * 4
    assert storage.data_ptr() == x.data_ptr()
    assert storage[0] == 0.0
    assert storage[11] == 11.0
    assert storage[-1] == 11.0
    with pytest.raises(IndexError):
        storage[12]


def test_writing_to_the_storage_changes_the_tensor(x):
    """Nothing stands between storage and tensor: a number written into the block is what the tensor shows."""
    x.storage()[3] = 42.0
    assert x[3].item() == 42.0


def test_the_same_block_as_bytes(torch):
    """An untyped storage is the same memory counted in bytes."""
    x = torch.tensor([1, 256], dtype=torch.int32)
    raw = x.untyped_storage()
    assert len(raw) == raw.nbytes() == 8
    assert raw.data_ptr() == x.data_ptr()
    assert raw.tolist() == [1, 0, 0, 0, 0, 1, 0, 0]     # least significant byte first
    assert raw[5] == 1


def test_every_type_has_its_width(torch):
    """The same number of elements takes as many bytes as the type says."""
    widths = {torch.bool: 1, torch.uint8: 1, torch.int32: 4, torch.int64: 8, torch.float32: 4, torch.float64: 8}
    for dtype, width in widths.items():
        x = torch.zeros(6, dtype=dtype)
        assert x.storage().nbytes() == 6 * width
        assert x.untyped_storage().nbytes() == 6 * width
        assert x.element_size() == width


def test_a_view_shares_the_storage(x):
    """A view is a second description of the same block: what is written through one is read through the other."""
    y = x.view(3, 4)
    assert y.data_ptr() == x.data_ptr()
    assert y.storage().data_ptr() == x.storage().data_ptr()
    y[0, 0] = 99.
    assert x[0].item() == 99.0
    x[11] = -1.
    assert y[2, 3].item() == -1.0


def test_a_part_sees_the_whole_block(x):
    """A slice has fewer elements than its storage, because the storage is still the whole block."""
    part = x[4:6]
    assert part.tolist() == [4.0, 5.0]
    assert part.storage_offset() == 4
    assert len(part.storage()) == 12
    assert part.data_ptr() == x.data_ptr() + 4 * 4
    assert part.storage().data_ptr() == x.data_ptr()


def test_shape_stride_and_offset(torch, t):
    """In a 3 by 4 tensor one step down skips four elements and one step right skips one; row 1 starts at element 4."""
    assert t.shape == torch.Size([3, 4])
    assert str(t.shape) == "torch.Size([3, 4])"
    assert t.stride() == (4, 1)
    assert t.storage_offset() == 0
    assert t[1].storage_offset() == 4
    assert t[1].stride() == (1,)


def test_where_an_element_lies(t):
    """Element (i, j) lies at offset + i * stride(0) + j * stride(1), for a tensor and for each of its views."""
    for view in (t, t.t(), t[1:, ::2], t.t()[1:3], t[:, 2:3], t[2].expand(3, 4)):
        block = view.storage().tolist()
        rows, columns = view.shape
        for i in range(rows):
            for j in range(columns):
                place = view.storage_offset() + i * view.stride(0) + j * view.stride(1)
                assert view[i, j].item() == block[place]


def test_printing(t):
    """Printed, the numbers stand in aligned columns."""
    assert str(t) == (
        "tensor([[ 0.,  1.,  2.,  3.],\n"
        "        [ 4.,  5.,  6.,  7.],\n"
        "        [ 8.,  9., 10., 11.]])"
    )
    assert repr(t) == str(t)


def test_transposing_moves_no_number(torch, t):
    """The transpose swaps shape and strides and leaves the block alone, so it no longer walks through memory in
    order.
    """
    u = t.t()
    assert u.shape == torch.Size([4, 3])
    assert u.stride() == (1, 4)
    assert u.data_ptr() == t.data_ptr()
    assert u.storage().data_ptr() == t.storage().data_ptr()
    assert t.is_contiguous()
    assert not u.is_contiguous()
    assert u.tolist() == [[0., 4., 8.], [1., 5., 9.], [2., 6., 10.], [3., 7., 11.]]
    assert u.storage().tolist() == t.storage().tolist()


def test_view_refuses_what_would_need_a_copy(t):
    """No stride describes the transpose as one row, so view raises, says why, and names the method that would copy."""
    u = t.t()
    with pytest.raises(RuntimeError) as caught:
        u.view(-1)
    message = str(caught.value)
    assert "stride" in message or "contiguous" in message
    assert "reshape" in message
    assert u.stride() == (1, 4)


def test_view_can_do_more_than_contiguous(torch, x):
    """View does not ask for a contiguous tensor, only for dimensions that can be split or joined without moving
    numbers.
    """
    every_second = x[::2]
    assert not every_second.is_contiguous()
    table = every_second.view(2, 3)
    assert table.stride() == (6, 2)
    assert table.tolist() == [[0., 2., 4.], [6., 8., 10.]]
    assert table.data_ptr() == x.data_ptr()
    cube = x.view(2, 3, 2)
    assert cube.transpose(0, 1).view(3, 2, 2, 1).shape == torch.Size([3, 2, 2, 1])


def test_reshape_is_a_view_where_it_can_be(t):
    """Reshape shares the storage whenever a view exists."""
    flat = t.reshape(-1)
    assert flat.data_ptr() == t.data_ptr()
    flat[5] = 50.
    assert t[1, 1].item() == 50.0


def test_reshape_is_a_copy_where_it_must_be(t):
    """Of the transpose, reshape returns the numbers in the new order, in a storage of their own."""
    flat = t.t().reshape(-1)
    assert flat.tolist() == [0., 4., 8., 1., 5., 9., 2., 6., 10., 3., 7., 11.]
    assert flat.data_ptr() != t.data_ptr()
    flat[0] = 99.
    assert t[0, 0].item() == 0.0


def test_contiguous_copies_into_row_order(t):
    """Contiguous writes the numbers row by row into a new storage, after which view works again."""
    u = t.t()
    c = u.contiguous()
    assert c.shape == u.shape
    assert c.stride() == (3, 1)
    assert c.is_contiguous()
    assert c.storage().data_ptr() != t.storage().data_ptr()
    assert c.tolist() == u.tolist()
    assert c.view(-1).tolist() == [0., 4., 8., 1., 5., 9., 2., 6., 10., 3., 7., 11.]


def test_contiguous_of_a_contiguous_tensor_is_free(t):
    """What is already in row order is returned as it is."""
    assert t.contiguous() is t
    assert t[1].contiguous().data_ptr() == t[1].data_ptr()


def test_operations_accept_every_layout(torch, t):
    """A kernel walks over strides, so an operation on a strided tensor gives what it gives on a row-major copy."""
    wide = torch.arange(48, dtype=torch.float32).view(4, 12) / 48
    layouts = (t.t(), wide[:, ::4], wide.t()[::4].t(), t[0].expand(4, 4), wide[1:3].permute(1, 0))
    for view in layouts:
        assert not view.is_contiguous()
        copy = view.contiguous()
        for op in (torch.exp, torch.neg, torch.sum, torch.mean, lambda v: v * v + 1, lambda v: v.sum(0),
                   lambda v: v.amax(1), lambda v: v @ v.t()):
            assert_allclose(op(view).tolist(), op(copy).tolist(), rtol=1e-6)


def test_strided_writing_goes_straight_to_the_block(x, t):
    """Changing a strided view in place writes into the one storage, with no copy in between."""
    t.t()[1:3].mul_(10)
    assert x.tolist() == [0., 10., 20., 3., 4., 50., 60., 7., 8., 90., 100., 11.]


def test_a_result_keeps_the_order_of_its_input(t):
    """Elementwise results are laid out as their input is, so that both are walked in the order of memory."""
    u = t.t()
    assert (u * 2).stride() == (1, 4)
    assert (u + u).is_contiguous() is False
    assert u.clone().stride() == (1, 4)
    assert (t * 2).stride() == (4, 1)
