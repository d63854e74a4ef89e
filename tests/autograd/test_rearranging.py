"""Memory formats, changes of shape in place, and the compositions that view, join and rearrange tensors."""

import numpy as np
import pytest


@pytest.fixture
def numbers(torch):
    """The numbers 0, 1, 2, ... in a shape."""
    return lambda *shape: torch.arange(int(np.prod(shape)), dtype=torch.float64).reshape(shape)


# ---- memory formats --------------------------------------------------------------------------------------------------


def test_channels_last(torch, numbers):
    x = numbers(2, 3, 4, 5)
    y = x.contiguous(memory_format=torch.channels_last)
    assert y.stride() == (60, 1, 15, 3)
    assert torch.equal(x, y)
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert not y.is_contiguous()
    assert y.contiguous(memory_format=torch.channels_last) is y
    assert y.clone().stride() == y.stride()
    assert y.clone(memory_format=torch.contiguous_format).stride() == x.stride()
    assert torch.zeros_like(y).stride() == y.stride()
    assert torch.zeros_like(x, memory_format=torch.channels_last).stride() == y.stride()
    assert torch.empty(2, 3, 4, 5, memory_format=torch.channels_last).stride() == y.stride()
    assert torch.cat([y, y], 1).stride() == (120, 1, 30, 6)
    assert numbers(1, 2, 3, 4, 5).contiguous(memory_format=torch.channels_last_3d).stride() == (120, 1, 40, 10, 2)


def test_to_converts_dtype_and_format_at_once(torch, numbers):
    x = numbers(2, 3, 4, 5).permute(3, 2, 1, 0)
    assert x.to(torch.float64) is x
    assert x.to(memory_format=torch.preserve_format) is x
    assert x.to(torch.int32).stride() == x.stride()
    assert x.to(torch.int32, memory_format=torch.contiguous_format).is_contiguous()
    assert x.to(torch.int32, memory_format=torch.channels_last).stride() == (24, 1, 8, 4)
    assert x.float(memory_format=torch.contiguous_format).is_contiguous()
    assert x.to(torch.float64, False, True) is not x            # non_blocking, copy
    assert x.to(torch.zeros(1, dtype=torch.int64)).dtype is torch.int64


def test_gradients_pass_through_formats(torch, numbers, check_gradients):
    x = numbers(1, 2, 2, 2).requires_grad_()
    check_gradients(lambda x: x.contiguous(memory_format=torch.channels_last) ** 2, x)
    check_gradients(lambda x: x.to(memory_format=torch.channels_last) ** 2, x)


@pytest.mark.parametrize("call", [
    lambda t, x: x.contiguous(memory_format=t.channels_last),
    lambda t, x: t.zeros_like(x, memory_format=t.channels_last_3d),
])
def test_formats_of_other_ranks_are_refused(torch, numbers, call):
    with pytest.raises(RuntimeError):
        call(torch, numbers(2, 3))


def test_formats_print_as_pytorchs(torch):
    assert repr(torch.channels_last) == "torch.channels_last"
    assert repr(torch.strided) == "torch.strided" == repr(torch.zeros(1).layout)


# ---- new tensors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [
    lambda t, **o: t.zeros(3, **o), lambda t, **o: t.ones(3, **o), lambda t, **o: t.full((3,), 2, **o),
    lambda t, **o: t.arange(3, **o), lambda t, **o: t.linspace(0, 2, 3, **o), lambda t, **o: t.logspace(0, 2, 3, **o),
])
def test_new_tensors_go_to_out(torch, call):
    wanted = call(torch, dtype=torch.int32)
    out = torch.empty(3, dtype=torch.int32)
    assert call(torch, out=out) is out                          # its dtype is the default then
    assert torch.equal(out, wanted)
    with pytest.raises(RuntimeError, match="dtype"):
        call(torch, out=out, dtype=torch.float32)


def test_empty_strided(torch):
    x = torch.empty_strided((2, 3), (1, 4))
    assert (x.shape, x.stride(), x.storage_offset()) == ((2, 3), (1, 4), 0)
    x.fill_(1)
    assert x.sum() == 6
    assert torch.empty_strided((2, 3), (0, 0)).untyped_storage().nbytes() == 4
    assert torch.empty_strided((0, 3), (5, 5)).numel() == 0
    assert x.new_empty_strided((2,), (7,), dtype=torch.int64).stride() == (7,)
    for size, stride in [((2,), (1, 1)), ((-1,), (1,)), ((2,), (-1,)), ((2**40, 2**40), (2**40, 1))]:
        with pytest.raises((RuntimeError, MemoryError)):
            torch.empty_strided(size, stride)


@pytest.mark.parametrize("offset", [-2, 0, 1])
def test_triangle_indices(torch, offset):
    assert np.array_equal(torch.tril_indices(3, 4, offset).numpy(), np.tril_indices(3, offset, 4))
    assert np.array_equal(torch.triu_indices(3, 4, offset).numpy(), np.triu_indices(3, offset, 4))


def test_integer_ends_of_ranges_are_cut(torch):
    assert torch.linspace(0.9, 4.9, 5, dtype=torch.int64).tolist() == [0, 1, 2, 3, 4]
    assert torch.logspace(0.9, 2.9, 3, dtype=torch.int64).tolist() == [1, 10, 100]


# ---- shape in place --------------------------------------------------------------------------------------------------


def test_resize(torch, numbers):
    x = numbers(2, 3)
    y = x.view(6)
    assert x.resize_(3, 2) is x
    assert x.tolist() == [[0, 1], [2, 3], [4, 5]]
    x.resize_((2,))[0] = 7
    assert y[0] == 7                                            # the memory is still shared
    x.resize_(20)
    assert x[:2].tolist() == [7, 1]
    assert y.tolist() == [7, 1, 2, 3, 4, 5]
    x.resize_as_(y)
    assert x.shape == (6,)
    assert x.resize_(0, 3).shape == (0, 3)
    z = numbers(3, 2).t()
    assert z.resize_(2, 3).stride() == (1, 2)                   # nothing changes
    assert z.resize_(3, 2).stride() == (2, 1)


def test_resize_refuses(torch, numbers):
    with pytest.raises(RuntimeError, match="require"):
        numbers(2).requires_grad_().resize_(3)
    with pytest.raises(RuntimeError):
        numbers(2).resize_(-1)
    with pytest.raises((RuntimeError, MemoryError)):
        numbers(2).resize_(2**62)


@pytest.mark.parametrize(("change", "shape", "stride"), [
    (lambda x: x.t_(), (3, 2), (1, 3)),
    (lambda x: x.transpose_(0, -1), (3, 2), (1, 3)),
    (lambda x: x.swapaxes_(0, 1), (3, 2), (1, 3)),
    (lambda x: x.unsqueeze_(1), (2, 1, 3), (3, 3, 1)),
    (lambda x: x.unsqueeze_(0).squeeze_(), (2, 3), (3, 1)),
    (lambda x: x.as_strided_((2,), (4,), 1), (2,), (4,)),
])
def test_views_in_place(torch, numbers, change, shape, stride):
    base = numbers(2, 3)
    x = base.view(2, 3)
    assert change(x) is x
    assert (x.shape, x.stride()) == (shape, stride)
    assert x.data_ptr() - base.data_ptr() == (8 if len(shape) == 1 else 0)
    leaf = numbers(2, 3).requires_grad_()
    y = leaf * 2
    change(y)
    (y * y).sum().backward()
    z = leaf.detach().clone().requires_grad_()
    used = change(z.detach() * 2)
    wanted = torch.zeros_like(leaf)
    wanted.as_strided(used.shape, used.stride(), used.storage_offset()).fill_(1)
    assert torch.equal(leaf.grad, wanted * 8 * leaf.detach())
    with pytest.raises(RuntimeError, match="leaf"):
        change(leaf)


def test_the_same_bytes_as_another_dtype(torch):
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = x.view(torch.int32)
    assert y[0].tolist() == [0x3F800000, 0x40000000]
    assert not y.requires_grad
    assert x.view(torch.uint8).shape == (2, 8)
    assert x.view(dtype=torch.float64).shape == (2, 1)
    assert x.t().view(torch.int32).stride() == (1, 2)
    bad = [(x.t(), torch.uint8), (x[:, :1], torch.float64), (x[0, 0], torch.uint8), (x[:, 1:], torch.float64)]
    for z, dtype in bad:
        with pytest.raises(RuntimeError):
            z.view(dtype)


def test_set(torch, numbers):
    x, y = numbers(4), torch.zeros(2, dtype=torch.float64)
    assert y.set_(x) is y
    y[1] = 7
    assert x[1] == 7
    assert y.set_(x.untyped_storage(), 2, (2,)).tolist() == [2, 3]
    assert y.set_().shape == (0,)
    for call in (lambda: y.set_(numbers(2).float()), lambda: numbers(1).requires_grad_().set_(x)):
        with pytest.raises(RuntimeError):
            call()
    with pytest.raises(TypeError):
        numbers(1).set_("x")


def test_set_stays_inside_the_memory(beyond_pytorch, torch, numbers):
    """PyTorch makes a storage of its own larger."""
    y = numbers(2)
    with pytest.raises(RuntimeError, match="bounds"):
        y.set_(numbers(4), 3, (4,), (1,))
    assert y.tolist() == [0, 1]


@pytest.mark.parametrize(("shape", "wrap"), [
    ((7, 3), False), ((7, 3), True), ((3, 7), True), ((8, 2), True), ((4, 3), True)])
def test_fill_diagonal(torch, shape, wrap):
    wanted = np.zeros(shape)
    np.fill_diagonal(wanted, 2, wrap)
    assert np.array_equal(torch.zeros(shape).fill_diagonal_(2, wrap).numpy(), wanted)


@pytest.mark.parametrize("increasing", [False, True])
def test_vander(torch, increasing):
    x = np.array([1.0, 2.0, 3.0])
    assert np.array_equal(torch.vander(torch.tensor(x), 4, increasing).numpy(), np.vander(x, 4, increasing))


# ---- compositions beside NumPy ---------------------------------------------------------------------------------------

A = np.arange(24.0).reshape(4, 6)
LIKE_NUMPY = {
    "atleast_1d": (lambda m, x: m.atleast_1d(x[0, 0]),), "atleast_2d": (lambda m, x: m.atleast_2d(x[0]),),
    "atleast_3d": (lambda m, x: m.atleast_3d(x),), "hstack": (lambda m, x: m.hstack([x, x]),),
    "hstack_1d": (lambda m, x: m.hstack([x[0], x[1]]),), "vstack": (lambda m, x: m.vstack([x[0], x]),),
    "dstack": (lambda m, x: m.dstack([x, x]),), "column_stack": (lambda m, x: m.column_stack([x[:, 0], x]),),
    "tile": (lambda m, x: m.tile(x, (2, 1, 3)),), "diag": (lambda m, x: m.diag(x, 1),),
    "diag_1d": (lambda m, x: m.diag(x[0], -2),), "diagflat": (lambda m, x: m.diagflat(x[:2], 1),),
    "broadcast_tensors": (lambda m, x: getattr(m, "broadcast_tensors", np.broadcast_arrays)(x[:1], x[:, :1])[0],),
    "swapaxes": (lambda m, x: m.swapaxes(x, 0, 1),), "moveaxis": (lambda m, x: m.moveaxis(x, 0, 1),),
    "ravel": (lambda m, x: m.ravel(x),), "concatenate": (lambda m, x: m.concatenate([x, x], axis=1),),
    "meshgrid": (lambda m, x: m.meshgrid(x[0], x[1, :2], indexing="xy")[1],),
    "hsplit": (lambda m, x: m.hsplit(x, 3)[1],), "vsplit": (lambda m, x: m.vsplit(x, [1, 3])[1],),
    "dsplit": (lambda m, x: m.dsplit(x.reshape(2, 3, 4), 2)[1],),
    "tensor_split": (lambda m, x: getattr(m, "tensor_split", np.array_split)(x, 3)[2],),
}


@pytest.mark.parametrize("name", LIKE_NUMPY)
def test_like_numpy(torch, name):
    (call,) = LIKE_NUMPY[name]
    wanted = call(np, A)
    got = call(torch, torch.tensor(A))
    assert got.shape == wanted.shape
    assert np.array_equal(got.numpy(), wanted)


@pytest.mark.parametrize("name", ["hstack", "tile", "diag_1d", "diagflat", "meshgrid", "hsplit", "tensor_split"])
def test_gradients_of_compositions(torch, check_gradients, name):
    (call,) = LIKE_NUMPY[name]
    x = torch.tensor(A[:4, :6], requires_grad=True)
    check_gradients(lambda x: call(torch, x * x), x)


def test_repeat_copies(torch, numbers):
    x = numbers(2, 1)
    assert x.repeat(1, 3).tolist() == [[0, 0, 0], [1, 1, 1]]
    assert x.repeat(2, 1, 1).shape == (2, 2, 1)
    assert x.repeat(1, 1).data_ptr() != x.data_ptr()
    assert x.repeat(0, 2).shape == (0, 2)
    for times in [(2,), (-1, 2)]:
        with pytest.raises(RuntimeError):
            x.repeat(*times)


def test_scatters_leave_the_input(torch, numbers, check_gradients):
    x, row = numbers(3, 4), -numbers(4)
    y = torch.select_scatter(x, row, 0, 1)
    assert y[1].tolist() == row.tolist()
    assert torch.equal(x, numbers(3, 4))
    assert torch.slice_scatter(x, -x[:, ::2], 1, 0, None, 2)[:, ::2].tolist() == (-x[:, ::2]).tolist()
    assert torch.diagonal_scatter(x, row[:3]).diagonal().tolist() == row[:3].tolist()
    assert torch.as_strided_scatter(x, row[:2], (2,), (5,), 1).view(-1)[[1, 6]].tolist() == row[:2].tolist()
    check_gradients(lambda x, r: torch.select_scatter(x, r, 0, 1) ** 2, x.requires_grad_(), row.requires_grad_())
    with pytest.raises(RuntimeError, match="size"):
        torch.select_scatter(x, row[:2], 0, 1)


def test_gradient_of_a_strided_scatter(beyond_pytorch, torch, numbers, check_gradients):
    """PyTorch 2.13 gives the input a gradient where it was overwritten."""
    x, r = numbers(3, 4).requires_grad_(), (numbers(2, 2) + 1).requires_grad_()
    check_gradients(lambda x, r: torch.as_strided_scatter(x, r, (2, 2), (4, 1), 1) ** 2, x, r)


def test_choices(torch):
    x, y = torch.tensor([1, 2, 3]), torch.tensor([4, 5])
    assert torch.cartesian_prod(x, y).tolist() == [[1, 4], [1, 5], [2, 4], [2, 5], [3, 4], [3, 5]]
    assert torch.combinations(x).tolist() == [[1, 2], [1, 3], [2, 3]]
    assert torch.combinations(x, 3, with_replacement=True).shape == (10, 3)
    assert torch.combinations(x, 0).shape == (0,)
    assert torch.block_diag(x, torch.tensor([[7.0], [8.0]]), torch.tensor(9)).tolist() == [
        [1, 2, 3, 0, 0], [0, 0, 0, 7, 0], [0, 0, 0, 8, 0], [0, 0, 0, 0, 9]]


def test_broadcast_shapes(torch):
    assert torch.broadcast_shapes((2, 1), 3, (1, 1, 1)) == torch.Size([1, 2, 3])
    with pytest.raises(RuntimeError):
        torch.broadcast_shapes((2,), (3,))


def test_parts_of_an_unsafe_split_may_be_written(torch, numbers):
    x = numbers(4).requires_grad_()
    y = x * 1
    first, _ = torch.unsafe_chunk(y, 2)
    first.mul_(3)
    y.sum().backward()
    assert x.grad.tolist() == [3, 3, 1, 1] or first.grad_fn is not None


@pytest.mark.parametrize(("kind", "call"), [
    (RuntimeError, lambda t, x: t.hsplit(x, 4)), (RuntimeError, lambda t, x: t.vsplit(x[0], 2)),
    (RuntimeError, lambda t, x: t.tensor_split(x[0, 0], 2)), (RuntimeError, lambda t, x: t.tensor_split(x, 0)),
    (IndexError, lambda t, x: t.tensor_split(x, 2, 5)), (RuntimeError, lambda t, x: x.unflatten(0, (3, 3))),
    (RuntimeError, lambda t, x: x.unflatten(0, ())), (RuntimeError, lambda t, x: t.meshgrid(x)),
    (RuntimeError, lambda t, x: t.meshgrid(x[0], indexing="yx")), (RuntimeError, lambda t, x: t.block_diag(x[None])),
    (RuntimeError, lambda t, x: t.diag(x[None])), (RuntimeError, lambda t, x: t.diag_embed(x, 0, 1, 1)),
    (IndexError, lambda t, x: t.diag_embed(x, 0, 5, 1)), (RuntimeError, lambda t, x: t.combinations(x)),
    (RuntimeError, lambda t, x: t.combinations(x[0], -1)), (RuntimeError, lambda t, x: t.cartesian_prod(x)),
    (RuntimeError, lambda t, x: t.hstack([])), (TypeError, lambda t, x: t.atleast_1d(3)),
    (TypeError, lambda t, x: t.hstack(x)), (RuntimeError, lambda t, x: t.logspace(0, 1, -1)),
    (RuntimeError, lambda t, x: t.tril_indices(-1, 2)), (RuntimeError, lambda t, x: t.rot90(x, dims=(0, 0))),
    (RuntimeError, lambda t, x: t.fliplr(x[0])), (TypeError, lambda t, x: x.to("cpu", 3)),
])
def test_refusals(torch, numbers, kind, call):
    with pytest.raises(kind):
        call(torch, numbers(4, 6))
