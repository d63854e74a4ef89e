"""Whose changes are counted where: ``.data``, ``set_``, copies, and operations that change a shape in place."""

import copy
import pickle

import pytest


def test_data_has_a_counter_of_its_own(torch):
    """Writes through ``.data`` are counted there and in its views, and not in the tensor."""
    x = torch.zeros(2, 2)
    x.add_(1)
    alias = x.data
    assert alias._version == 0
    alias.add_(1)
    part = alias[0]
    part.add_(1)
    assert (alias._version, part._version, x._version) == (2, 2, 1)
    assert x.data._version == 0
    assert x.tolist() == [[3.0, 3.0], [2.0, 2.0]]
    assert alias.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert alias.untyped_storage() is x.untyped_storage()


def test_an_operation_that_saved_data_sees_it_change(torch, leaf):
    """What was saved through ``.data`` is checked against that counter."""
    x, w = torch.tensor([1.0, 2.0], dtype=torch.float64), leaf(3.0, 4.0)
    alias = x.data
    y = (w * alias).sum()
    alias.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_assigning_data_keeps_the_counter(torch):
    """The tensor moves to other memory with the version it has; the two count apart afterwards."""
    x, y = torch.zeros(2), torch.ones(2)
    x.add_(1)
    y.add_(1).add_(1)
    x.data = y
    assert (x._version, y._version) == (1, 2)
    x.add_(1)
    assert (x._version, y._version) == (2, 2)
    assert y.tolist() == [4.0, 4.0]
    view = x[0]
    x.data = x
    x.add_(1)
    assert view._version == x._version == 3


def test_set_counts_as_a_change(torch, leaf):
    """Also over the tensor's own memory; a leaf that requires grad is refused while operations are recorded."""
    x = torch.tensor([1.0, 2.0])
    x.set_(x)
    assert (x.tolist(), x._version) == ([1.0, 2.0], 1)
    x.set_(torch.tensor([3.0]))
    assert (x.tolist(), x._version) == ([3.0], 2)
    w = leaf(1.0)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        w.set_(torch.ones(2, dtype=torch.float64))
    with torch.no_grad():
        w.set_(torch.ones(2, dtype=torch.float64))
    assert w.tolist() == [1.0, 1.0]
    assert w.requires_grad


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_start_as_if_set(torch, copied):
    """A copy is a tensor that was put over memory: version 1, however often the original was changed."""
    x = torch.zeros(3)
    x.add_(1).add_(1)
    assert copied(x)._version == 1
    assert copied(torch.zeros(0))._version == 1


def test_a_tensor_with_a_history_is_copied_and_pickled_as_a_leaf(torch, leaf):
    """``copy.copy`` and pickle keep whether it requires grad, and drop the graph; ``deepcopy`` refuses."""
    y = leaf(1.0, 2.0) * 2
    for x in (copy.copy(y), pickle.loads(pickle.dumps(y))):
        assert (x.tolist(), x.is_leaf, x.requires_grad) == ([2.0, 4.0], True, True)
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(y)


def test_changing_the_shape_in_place_is_counted(torch, leaf):
    """The memory is as it was, but what saved the tensor had another shape."""
    x = torch.zeros(2, 3)
    x.t_()
    x.transpose_(0, 1)
    x.unsqueeze_(0)
    x.squeeze_()
    assert x._version == 4
    y = leaf(1.0, 2.0).view(1, 2) * 2
    view = y[0]
    y.t_()
    assert (y._version, view._version) == (1, 1)
    (y * y).sum().backward()


def test_changing_the_shape_of_a_view_without_recording(torch, leaf):
    """The view is taken from its base again, in the new shape."""
    x = leaf(1.0, 2.0, 3.0)
    y = (x * 1).view(3)
    with torch.no_grad():
        y.unsqueeze_(0)
    assert y.grad_fn.name() == "AsStridedBackward0"
    (y * torch.tensor([[1.0, 10.0, 100.0]], dtype=torch.float64)).sum().backward()
    assert x.grad.tolist() == [1.0, 10.0, 100.0]


# --- Functions and gradients ----------------------------------------------------------------------------------------


def test_what_is_marked_dirty_must_be_returned(torch):
    """Also when nothing is recorded."""
    class Forgotten(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x * 2

    with pytest.raises(RuntimeError, match="dirty during the forward method were not returned"):
        Forgotten.apply(torch.ones(2))


def test_requires_grad_of_a_result_cannot_be_assigned(torch, leaf):
    y = leaf(1.0) * 2
    with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf variables"):
        y.requires_grad = True
    assert y.requires_grad_() is y


def test_inputs_that_are_no_leaves_retain_their_gradient(torch, leaf):
    """``backward(inputs=...)`` of a result makes it retain; naming it twice counts once."""
    x = leaf(1.0, 2.0)
    y = x * 2
    (y * y).sum().backward(inputs=[y, y, x, x])
    assert y.retains_grad
    assert y.grad.tolist() == [4.0, 8.0]
    assert x.grad.tolist() == [8.0, 16.0]


def test_materialized_gradients_require_grad_only_when_recorded(torch, leaf):
    x, unused = leaf(1.0), leaf(1.0)
    for create in (False, True):
        zero = torch.autograd.grad(x * x, [x, unused], create_graph=create, materialize_grads=True)[1]
        assert (zero.tolist(), zero.requires_grad) == ([0.0], create)


def test_filling_with_a_tensor_passes_its_gradient(torch, leaf):
    x, value = leaf(1.0, 2.0), leaf(3.0).sum()
    value.retain_grad()
    y = x * 2
    y.fill_(value)
    y.sum().backward()
    assert value.grad.item() == 2.0
    assert x.grad.tolist() == [0.0, 0.0]


def test_a_saved_tensor_that_lost_its_history(torch, leaf):
    """x * x * x, where what was saved of it is detached in place: the second derivative would come out wrong."""
    x = leaf(3.0)
    y = x * x
    z = y * x
    y.detach_()
    with pytest.raises(RuntimeError, match="detached in-place"):
        torch.autograd.grad(z, x, torch.ones(1, dtype=torch.float64), create_graph=True)


def test_the_first_derivative_reads_values_only(torch, leaf, beyond_pytorch):
    x = leaf(3.0)
    y = x * x
    z = y * x
    y.detach_()
    z.sum().backward()
    assert x.grad.tolist() == [27.0]
