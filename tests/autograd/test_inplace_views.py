"""Changes in place: version counters, histories of views and bases, and what is refused."""
import numpy as np
import pytest
from numpy.testing import assert_allclose

OVERLAP = r"single memory location|overlap"
WEIGHTS = [1.0, 10.0, 100.0]


def weighted(torch, y):
    """A scalar in which every element of y has a weight of its own, so that its gradient tells the elements apart."""
    return (y * torch.tensor(WEIGHTS[:y.numel()], dtype=torch.float64).view(y.shape)).sum()


# --- version counters -----------------------------------------------------------------------------------------------


def test_each_change_in_place_is_counted(torch):
    """Every in-place operation adds one to the version, an operation out of place adds nothing."""
    x = torch.tensor([1.0, 2.0, 3.0])
    assert x._version == 0
    _ = x + 1
    _ = x.exp()
    assert x._version == 0
    one = torch.ones(3)
    changes = (
        lambda: x.add_(1), lambda: x.sub_(one), lambda: x.mul_(2), lambda: x.div_(one), lambda: x.neg_(),
        lambda: x.abs_(), lambda: x.exp_(), lambda: x.zero_(), lambda: x.fill_(2.0), lambda: x.copy_(one),
        lambda: x.clamp_(0, 1), lambda: x.masked_fill_(x > 0, 0.5), lambda: x.uniform_(), lambda: x.normal_(),
        lambda: x.__setitem__(0, 1.0), lambda: x.__setitem__(slice(1, 3), one[:2]), lambda: x[1:].mul_(3),
        lambda: x.__iadd__(1),
    )
    for count, change in enumerate(changes, 1):
        change()
        assert x._version == count, count


def test_views_and_detached_tensors_share_the_counter(torch):
    """All tensors over one storage have one version, except through ``.data``."""
    x = torch.zeros(2, 3)
    aliases = [x.view(6), x.t(), x[0], x[:, 1:], x.detach(), x.detach()[1], x.expand(4, 2, 3), x.unsqueeze(0)]
    x.add_(1)
    assert [a._version for a in aliases] == [1] * len(aliases)
    aliases[4].add_(1)
    aliases[2].add_(1)
    assert [a._version for a in (x, *aliases)] == [3] * (len(aliases) + 1)
    assert x.clone()._version == 0
    x.data.add_(1)
    assert x._version == 3
    assert x.tolist() == [[4.0] * 3, [3.0] * 3]


def test_a_write_under_no_grad_counts(torch, leaf):
    """Whether or not it is recorded, a change is a change."""
    x = leaf(1.0)
    with torch.no_grad():
        x.add_(1)
    assert x._version == 1
    assert x.tolist() == [2.0]


def test_base_of_a_view(torch):
    """A view knows the tensor that owns the memory; a view of a view knows the same one; a copy has none."""
    x = torch.zeros(2, 3)
    view = x[0]
    assert x._base is None
    assert view._base is x
    assert view[1:]._base is x
    assert x.t().unsqueeze(0)._base is x
    assert (x + 1)._base is None
    assert view.clone()._base is None


# --- histories ------------------------------------------------------------------------------------------------------


def test_in_place_on_an_intermediate_value(torch, leaf):
    """The tensor moves on to a newer node; the gradient is that of the two operations in sequence."""
    x = leaf(1.0, 2.0, 3.0)
    y = x * 2
    y.mul_(5)
    y += 1
    assert y.grad_fn.name() == "AddBackward0"
    weighted(torch, y).backward()
    assert x.grad.tolist() == [10.0, 100.0, 1000.0]


@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "square", "reciprocal", "sin", "cos",
                                  "tanh", "sigmoid", "relu", "abs", "neg"])
def test_in_place_functions_have_the_gradient_of_their_function(torch, leaf, name):
    """f_(x) differentiates like f(x), whether the derivative needs what was overwritten or what was written."""
    x = leaf(0.5, 1.0, 2.0)
    weighted(torch, getattr(x, name)()).backward()
    want = x.grad.tolist()
    x.grad = None
    y = x * 1
    assert getattr(y, name + "_")() is y
    weighted(torch, y).backward()
    assert_allclose(x.grad.tolist(), want, rtol=1e-14)


def test_an_operand_without_gradient_gains_history(torch, leaf):
    """Writing something differentiable into a plain tensor makes it a result."""
    x = leaf(1.0, 2.0, 3.0)
    y = torch.zeros(3, dtype=torch.float64)
    y.add_(x)
    assert y.requires_grad
    assert not y.is_leaf
    weighted(torch, y).backward()
    assert x.grad.tolist() == WEIGHTS

    buffer = torch.zeros(3, dtype=torch.float64)
    buffer[1:] = leaf(5.0, 6.0)
    assert buffer.requires_grad
    assert buffer.grad_fn is not None


def test_overwriting_cuts_the_old_history(torch, leaf):
    """What is overwritten by zeros, a constant or another tensor no longer depends on the past."""
    for write in (lambda y: y.zero_(), lambda y: y.fill_(3.0), lambda y: y.copy_(torch.ones(3)), lambda y: y.mul_(0)):
        x = leaf(1.0, 2.0, 3.0)
        y = x * x
        write(y)
        weighted(torch, y + x).backward()
        assert x.grad.tolist() == WEIGHTS


def test_broadcasting_in_place(torch, leaf):
    """A smaller operand is broadcast into the tensor, and its gradient summed back."""
    x, row = leaf(1.0, 2.0, 3.0), leaf(10.0)
    y = x.view(3, 1) * torch.ones(3, 2, dtype=torch.float64)
    y.mul_(row)
    y.sum().backward()
    assert row.grad.tolist() == [12.0]
    assert x.grad.tolist() == [20.0] * 3


def test_copy_between_types(torch):
    """``copy_`` converts the values on the way in and the gradient on the way back."""
    x = torch.tensor([1.5, 2.5], dtype=torch.float32, requires_grad=True)
    y = torch.zeros(2, dtype=torch.float64)
    y.copy_(x)
    (y * torch.tensor([1.0, 10.0], dtype=torch.float64)).sum().backward()
    assert x.grad.dtype is torch.float32
    assert x.grad.tolist() == [1.0, 10.0]


# --- views ----------------------------------------------------------------------------------------------------------


def test_change_of_a_slice_is_seen_by_the_base(torch, leaf):
    """The base receives a node that splits the gradient between what was changed and what was not."""
    a, factor = leaf(1.0, 2.0, 3.0), leaf(5.0)
    b = a.clone()
    b[1:2].mul_(factor)
    assert b.tolist() == [1.0, 10.0, 3.0]
    assert "CopySlices" in b.grad_fn.name()
    weighted(torch, b).backward()
    assert a.grad.tolist() == [1.0, 50.0, 100.0]
    assert factor.grad.tolist() == [20.0]


def test_change_of_the_base_is_seen_by_a_view(torch, leaf):
    """A view made before the change has a new ``grad_fn`` afterwards, and the right gradient."""
    a = leaf(1.0, 2.0, 3.0)
    b = a * 1
    view = b[1:]
    old = view.grad_fn
    b.mul_(torch.tensor([2.0, 3.0, 4.0], dtype=torch.float64))
    assert view.grad_fn is not old
    assert view.tolist() == [6.0, 12.0]
    (view * torch.tensor([1.0, 10.0], dtype=torch.float64)).sum().backward()
    assert a.grad.tolist() == [0.0, 3.0, 40.0]


def test_change_of_one_view_is_seen_by_another(torch, leaf):
    """Views of one base overlap: what is written through one is differentiated when read through the other."""
    a, w = leaf(1.0, 2.0, 3.0), leaf(7.0, 8.0)
    b = a * 1
    left, right = b[:2], b[1:]
    right.mul_(w)
    weighted(torch, left).backward()
    assert left.tolist() == [1.0, 14.0]
    assert a.grad.tolist() == [1.0, 70.0, 0.0]
    assert w.grad.tolist() == [20.0, 0.0]


def test_chains_of_views(torch, leaf):
    """A change through a view of a view of a view lands in the right elements of the base, with the right gradient."""
    a, w = torch.arange(12, dtype=torch.float64).requires_grad_(), leaf(2.0, 3.0)
    b = a * 1
    deep = b.view(3, 4).t()[1:3].transpose(0, 1)[2]         # elements 9 and 10
    assert deep.tolist() == [9.0, 10.0]
    deep.mul_(w)
    want = np.arange(12.0)
    want[9:11] *= [2, 3]
    assert b.tolist() == want.tolist()
    assert deep.tolist() == [18.0, 30.0]
    (b * b).sum().backward()
    expected = 2 * np.arange(12.0)
    expected[9:11] *= [4, 9]
    assert_allclose(a.grad.tolist(), expected)
    assert_allclose(w.grad.tolist(), [2 * 18 * 9, 2 * 30 * 10])


def test_reading_a_view_after_changing_its_own_view(torch, leaf):
    """The view in the middle of a chain sees the change that came from below it."""
    a = leaf(1.0, 2.0, 3.0)
    b = a * 1
    middle = b[1:]
    middle[1:].mul_(10)
    assert middle.tolist() == [2.0, 30.0]
    middle.sum().backward()
    assert a.grad.tolist() == [0.0, 1.0, 10.0]


@pytest.mark.parametrize("pick", [
    lambda v: v[0], lambda v: v[:, 1], lambda v: v[::2], lambda v: v[..., 1:3], lambda v: v[None, 1, ..., 2],
    lambda v: v.t()[1], lambda v: v.transpose(0, 1)[2:], lambda v: v.permute(1, 0), lambda v: v.view(2, 6)[1],
    lambda v: v.narrow(1, 1, 2), lambda v: v.select(1, 3), lambda v: v.unsqueeze(1), lambda v: v[1:2].squeeze(0),
    lambda v: v.diagonal(), lambda v: v.diagonal(1), lambda v: v.as_strided((2, 2), (4, 2), 1),
    lambda v: v.reshape(-1)[3:7], lambda v: v.flatten(), lambda v: v.movedim(0, 1), lambda v: v.expand(3, 4),
], ids=["row", "column", "step", "ellipsis", "none", "t-row", "transpose", "permute", "view", "narrow", "select",
        "unsqueeze", "squeeze", "diagonal", "diagonal1", "as_strided", "reshape", "flatten", "movedim", "expand"])
def test_every_kind_of_view_can_be_written(torch, pick):
    """Multiplying in place through a view scales exactly the elements it shows, and their gradients."""
    marked = torch.zeros(3, 4, dtype=torch.float64)
    pick(marked).fill_(1.0)
    mask = np.array(marked.tolist())
    a = torch.arange(12, dtype=torch.float64).view(3, 4).requires_grad_()
    b = a * 1
    pick(b).mul_(5)
    assert_allclose(b.tolist(), np.where(mask, 5, 1) * np.arange(12.0).reshape(3, 4))
    assert mask.sum() == pick(b).numel()
    (b * b).sum().backward()
    assert_allclose(a.grad.tolist(), np.where(mask, 25, 1) * 2 * np.arange(12.0).reshape(3, 4))


def test_assignments(torch):
    """``b[...] = v`` cuts the overwritten elements off from a and connects them to v, for every kind of index."""
    indices = {
        "int": 1,
        "slice": slice(0, 3, 2),
        "pair": (slice(None), 2),
        "none and ellipsis": (None, ..., slice(1, 3)),
        "integer tensor": torch.tensor([2, 0]),
        "list": [0, 2],
        "mask": torch.tensor([[True, False, False, True], [False] * 4, [True] * 4]),
    }
    for name, index in indices.items():
        a = torch.ones(3, 4, dtype=torch.float64, requires_grad=True)
        b = a * 2
        v = torch.full(b[index].shape, 7.0, dtype=torch.float64, requires_grad=True)
        b[index] = v
        (b * torch.arange(12, dtype=torch.float64).view(3, 4)).sum().backward()
        place = np.arange(12.0).reshape(3, 4)
        chosen = np.zeros((3, 4), dtype=bool)
        numpy_index = np.array(index.tolist()) if isinstance(index, torch.Tensor) else index
        chosen[numpy_index] = True
        assert_allclose(b.tolist(), np.where(chosen, 7.0, 2.0), err_msg=name)
        assert_allclose(a.grad.tolist(), np.where(chosen, 0.0, 2.0 * place), err_msg=name)
        assert_allclose(v.grad.tolist(), place[numpy_index], err_msg=name)


def test_assigning_a_broadcast_value(torch, leaf):
    """The gradient of a value that fills several elements is the sum over them."""
    value, number = leaf(5.0), leaf(3.0)
    b = torch.zeros(2, 3, dtype=torch.float64)
    b[0] = value
    b[1, 1:] = number[0]
    (b * torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=torch.float64)).sum().backward()
    assert b.tolist() == [[5.0] * 3, [0.0, 3.0, 3.0]]
    assert value.grad.tolist() == [6.0]
    assert number.grad.tolist() == [11.0]


def test_masked_fill_in_place(torch, leaf):
    """Filled elements lose their gradient."""
    x = leaf(1.0, -2.0, 3.0)
    y = x * 2
    y.masked_fill_(y < 0, 0.0)
    weighted(torch, y).backward()
    assert x.grad.tolist() == [2.0, 0.0, 200.0]


def test_filling_a_buffer_step_by_step(torch, leaf):
    """A recurrence written into a preallocated tensor: y[i] = y[i-1] + x[i] gives running sums and their gradients."""
    x = leaf(1.0, 2.0, 3.0)
    y = torch.zeros(3, dtype=torch.float64)
    y[0] = x[0]
    for i in (1, 2):
        y[i] = y[i - 1] + x[i]
    assert y.tolist() == [1.0, 3.0, 6.0]
    weighted(torch, y).backward()
    assert x.grad.tolist() == [111.0, 110.0, 100.0]


def test_swapping_elements(torch, leaf):
    """Elements exchanged in place exchange their gradients."""
    x = leaf(1.0, 2.0, 3.0)
    y = x * 1
    y[0], y[2] = y[2].clone(), y[0].clone()
    weighted(torch, y).backward()
    assert y.tolist() == [3.0, 2.0, 1.0]
    assert x.grad.tolist() == [100.0, 10.0, 1.0]


def test_second_derivative_through_a_changed_view(torch, leaf, check_gradients):
    """The node that splits the gradient is itself differentiable."""
    a, w = leaf(2.0, 3.0), leaf(5.0)

    def f(a, w):
        b = a * a
        b[1:].mul_(w)
        return b * b

    check_gradients(f, a, w)
    g, = torch.autograd.grad(f(a, w).sum(), a, create_graph=True)      # 4 a^3, 4 a^3 w^2
    assert g.tolist() == [32.0, 4 * 27 * 25.0]
    assert torch.autograd.grad(g[1], w)[0].tolist() == [4 * 27 * 2 * 5.0]


def test_a_view_of_a_plain_buffer(torch, leaf):
    """Writing a differentiable value through a view makes the whole buffer a result."""
    x = leaf(1.0, 2.0)
    buffer = torch.zeros(2, 2, dtype=torch.float64)
    buffer.t()[0].add_(x)
    assert buffer.tolist() == [[1.0, 0.0], [2.0, 0.0]]
    assert buffer.requires_grad
    (buffer * torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)).sum().backward()
    assert x.grad.tolist() == [1.0, 3.0]


def test_hooks_before_and_after_a_change(torch, leaf):
    """A hook belongs to the value the tensor had when it was registered."""
    x = leaf(1.0)
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(("before", g.item())))
    y.mul_(3)
    y.register_hook(lambda g: seen.append(("after", g.item())))
    (y * 10).sum().backward()
    assert seen == [("after", 10.0), ("before", 30.0)]
    assert x.grad.tolist() == [60.0]


# --- detection ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [
    lambda y: y.add_(1), lambda y: y[0].zero_(), lambda y: y.detach().zero_(), lambda y: y.view(3, 1).mul_(1),
    lambda y: y.__setitem__(slice(1, 2), 9.0),
], ids=["itself", "a view", "a detached alias", "a reshaped view", "an assignment"])
def test_a_changed_operand_is_detected(torch, leaf, change):
    """If backward needs the old value, it raises, names both versions and the shape, and writes no gradient."""
    x, w = leaf(1.0, 2.0, 3.0), leaf(4.0, 5.0, 6.0)
    y = x * 1
    z = y * w
    change(y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        z.sum().backward()
    assert "version 1" in str(caught.value)
    assert "version 0" in str(caught.value)
    assert "3" in str(caught.value)
    assert [x.grad, w.grad] == [None, None]


def test_the_report_names_the_culprit(torch, leaf, beyond_pytorch):
    """The error names the operation that had saved the value and the one that overwrote it."""
    x = leaf(1.0, 2.0)
    y = x.exp()
    z = y.sin()
    y.mul_(2)
    with pytest.raises(RuntimeError) as caught:
        z.sum().backward()
    message = str(caught.value).lower()
    assert "sin" in message
    assert "mul_" in message


def test_a_changed_result_is_detected(torch, leaf):
    """The same holds for a result that the derivative needs."""
    for name in ("exp", "tanh", "sigmoid", "sqrt"):
        x = leaf(1.0, 2.0)
        y = getattr(x, name)()
        y.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
        assert x.grad is None


def test_a_change_of_another_part_is_detected_too(torch, leaf):
    """The counter belongs to the storage: a change of any part of it counts, because no finer record is kept."""
    x = leaf(1.0, 2.0, 3.0)
    y = x * 1
    left, right = y[:1], y[1:]
    z = right * right
    left.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_a_harmless_change_is_allowed(torch, leaf):
    """Addition needs neither of its operands, and a product only the operand whose partner requires a gradient."""
    x = leaf(1.0, 2.0)
    y = x + 1
    z = y + 2
    y.mul_(3)
    (z + y).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]

    x = leaf(1.0, 2.0)
    constant = torch.tensor([3.0, 4.0], dtype=torch.float64)
    y = x * 1
    z = y * constant
    y.zero_()
    z.sum().backward()
    assert x.grad.tolist() == [3.0, 4.0]


def test_data_is_the_way_around_the_counter(torch, leaf):
    """``.data`` changes values unseen: backward then computes with the new ones."""
    x = leaf(1.0, 2.0)
    y = x * 1
    z = y * y
    y.data.fill_(10.0)
    z.sum().backward()
    assert x.grad.tolist() == [20.0, 20.0]


# --- what is refused ------------------------------------------------------------------------------------------------


def test_a_leaf_that_requires_a_gradient(torch, leaf):
    """It cannot be written, nor can a view of it, while recording is on; nothing is changed, not even the version."""
    x = leaf(1.0, 2.0, 3.0)
    writes = (lambda: x.add_(1), lambda: x.zero_(), lambda: x.copy_(x * 2), lambda: x.__setitem__(0, 1.0),
              lambda: x[1:].mul_(2), lambda: x.view(3, 1).exp_(), lambda: x.masked_fill_(x > 0, 0.0),
              lambda: x.uniform_(), lambda: x.__imul__(2))
    for write in writes:
        with pytest.raises(RuntimeError, match="leaf"):
            write()
    assert x.tolist() == [1.0, 2.0, 3.0]
    assert x._version == 0
    with torch.no_grad():
        x[1:].mul_(2)
    x.detach()[0] = 7.0
    assert x.tolist() == [7.0, 4.0, 6.0]


def test_an_expanded_tensor(torch, leaf):
    """Several elements are one number in memory: arithmetic in place has no meaning there and is refused."""
    base = torch.ones(3, 1)
    wide = base.expand(3, 4)
    for write in (lambda: wide.add_(1), lambda: wide.mul_(torch.ones(3, 4)), lambda: wide.exp_(),
                  lambda: wide.copy_(torch.ones(3, 4)), lambda: wide.__setitem__(0, 3.0), lambda: wide[1].neg_()):
        with pytest.raises(RuntimeError, match=OVERLAP):
            write()
    assert base.tolist() == [[1.0]] * 3
    assert base._version == 0
    y = leaf(1.0) * 1
    with pytest.raises(RuntimeError, match=OVERLAP):
        y.expand(3).mul_(2)
    wide[:, :1].add_(1)
    assert base.tolist() == [[2.0]] * 3


def test_an_operand_that_overlaps_the_result(torch):
    """A tensor shifted onto itself would read what it has just written; it is refused and nothing is changed."""
    x = torch.arange(5.0)
    with pytest.raises(RuntimeError, match=OVERLAP):
        x[1:].add_(x[:-1])
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert x._version == 0
    x.add_(x)
    x[:2].add_(x[2:4])
    assert x.tolist() == [4.0, 8.0, 4.0, 6.0, 8.0]


def test_one_of_several_views(torch, leaf):
    """A view out of ``unbind``, ``split`` or ``chunk`` cannot be written where its siblings have a history."""
    for cut in (lambda b: b.unbind(0), lambda b: b.split(1), lambda b: b.chunk(3)):
        b = leaf(1.0, 2.0, 3.0) * 1
        part = cut(b)[0]
        with pytest.raises(RuntimeError, match="multiple views"):
            part.mul_(2)
        assert b.tolist() == [1.0, 2.0, 3.0]
        assert b._version == 0
        plain = torch.zeros(3)
        cut(plain)[0].add_(1)
        assert plain.tolist() == [1.0, 0.0, 0.0]


def test_a_view_made_under_no_grad(torch, leaf):
    """It has no history that could be rebased: writing to it while recording is refused, inside ``no_grad`` it is
    not.
    """
    b = leaf(1.0, 2.0, 3.0) * 1
    with torch.no_grad():
        view = b[1:]
    with pytest.raises(RuntimeError, match="no_grad"):
        view.mul_(2)
    assert b.tolist() == [1.0, 2.0, 3.0]
    assert b._version == 0
    node = b.grad_fn
    with torch.no_grad():
        view.mul_(2)
    assert b.tolist() == [1.0, 4.0, 6.0]
    assert b.grad_fn is node


def test_a_result_of_another_type(torch):
    """The tensor keeps its type, so a result that does not fit is refused; a narrower one is converted."""
    x = torch.tensor([1, 2, 3])
    for write in (lambda: x.add_(1.5), lambda: x.div_(2), lambda: x.mul_(torch.ones(3)), lambda: x.__itruediv__(2)):
        with pytest.raises(RuntimeError, match=r"(?i)float.*(long|int64)"):
            write()
    assert x.tolist() == [1, 2, 3]
    assert x._version == 0
    y = torch.tensor([1.0, 2.0])
    y.add_(torch.tensor([1, 1]))
    assert y.tolist() == [2.0, 3.0]
    y.add_(torch.tensor([0.5, 0.5], dtype=torch.float64))
    assert y.dtype is torch.float32


def test_a_result_of_another_shape(torch):
    """In place, only the other operand is broadcast; both shapes are named."""
    x = torch.zeros(3, 1)
    with pytest.raises(RuntimeError) as caught:
        x.add_(torch.ones(3, 4))
    message = str(caught.value)
    assert "3, 1" in message
    assert "3, 4" in message
    assert x.tolist() == [[0.0]] * 3


def test_requires_grad_of_a_result(leaf):
    """The flag of a result, or of a view of one, follows from its history and cannot be switched off."""
    y = leaf(1.0, 2.0) * 1
    for t in (y, y[0]):
        with pytest.raises(RuntimeError, match="leaf"):
            t.requires_grad_(False)
        with pytest.raises(RuntimeError, match="leaf"):
            t.requires_grad = False
    assert y.detach().requires_grad_().is_leaf
