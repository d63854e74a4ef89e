"""Writes whose sources are views of what is written, and views of which the base has changed since."""
import pytest

# --- sources in the memory written ----------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [
    lambda y, part: y.sub_(part), lambda y, part: y.add_(part, alpha=3), lambda y, part: y.copy_(part),
    lambda y, part: y.__setitem__(slice(None), part), lambda y, part: y.__setitem__([0, 1], part),
    lambda y, part: y.lerp_(part, 0.25)])
@pytest.mark.parametrize("several", [True, False])
def test_a_view_keeps_its_history_for_the_write_that_reads_it(torch, leaf, write, several):
    """The source's gradient goes to what it was made from before the write, also where it cannot be taken again."""
    gradients = []
    for copied in (True, False):
        x = leaf(2.0, 3.0, 4.0, 5.0)
        y = (x * 5).view(2, 2)
        part = y.unbind(1)[0] if several else y[:, 0]
        write(y[:, 1], part.clone() if copied else part)
        (y * torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)).sum().backward()
        gradients.append(x.grad.tolist())
    assert gradients[0] == gradients[1]


def test_a_source_that_cannot_be_taken_again_is_refused_before_the_write(torch, leaf):
    """Nothing is written when the history of a source is gone."""
    x = leaf(1.0, 2.0)
    part, _ = x.unbind(0)
    x.detach().add_(0)                   # counts as a change of x
    y = x.detach().clone()
    writes = (lambda: y.mul_(part), lambda: y.copy_(part.expand(2)), lambda: y.fill_(part), lambda: y.lerp_(part, 0.5),
              lambda: y.__setitem__(0, part), lambda: y.index_fill_(0, torch.tensor([0]), part))
    for write in writes:
        with pytest.raises(RuntimeError, match="modified inplace"):
            write()
        assert y.tolist() == [1.0, 2.0]
        assert y._version == 0


def test_a_function_has_the_edges_from_before_its_forward(torch, leaf):
    """What forward writes does not change where the gradients of its inputs go."""

    class AddsFirst(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, part):
            x.add_(part.clone())
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g, g.sum()

    x = leaf(1.0, 2.0)
    y = x * 3
    AddsFirst.apply(y, y.unbind(0)[0])
    (y * torch.tensor([1.0, 10.0], dtype=torch.float64)).sum().backward()
    assert x.grad.tolist() == [3.0 + 33.0, 30.0]


def test_a_function_is_not_run_on_what_cannot_be_taken_again(torch, leaf):
    """The error comes before forward."""
    calls = []

    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            calls.append(x)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g

    x = leaf(1.0, 2.0)
    part, _ = x.unbind(0)
    x.detach().add_(0)
    with pytest.raises(RuntimeError, match="modified inplace"):
        Same.apply(part)
    assert calls == []


# --- copies within one memory ---------------------------------------------------------------------------------------


def test_copies_that_overlap_in_part(torch):
    """A copy between two dense blocks that share some elements is refused, as arithmetic is."""
    x = torch.arange(4.0)
    for write in (lambda: x[:3].copy_(x[1:]), lambda: x.__setitem__(slice(0, 3), x[1:]), lambda: x.copy_(x[:1])):
        with pytest.raises(RuntimeError, match="single memory location"):
            write()
        assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
    whole = torch.view_as_complex(x[:2])
    with pytest.raises(RuntimeError, match="single memory location"):
        whole.mul_(x[0])                 # a part of the number
    y = torch.zeros(1, 1)
    with pytest.raises(RuntimeError, match="single memory location"):
        y[None, :1] = y


def test_a_copy_to_itself_changes_nothing_and_counts(torch, leaf):
    """Even an expanded tensor may be assigned to itself."""
    x = torch.tensor([1.0, 2.0])
    x.copy_(x)
    x[:] = x
    assert (x.tolist(), x._version) == ([1.0, 2.0], 2)
    wide = x.expand(2, 2)
    wide[:] = x
    assert (wide.tolist(), x._version) == ([[1.0, 2.0], [1.0, 2.0]], 3)
    y = leaf(1.0, 2.0) * 1
    y.copy_(y)
    assert "Copy" in y.grad_fn.name()


# --- views whose base has changed -----------------------------------------------------------------------------------


def test_a_view_of_a_base_that_requires_no_gradient_any_more(torch, leaf):
    """It is taken again as if the base did; one of several cannot be."""
    x = leaf(1.0, 2.0)
    view, (first, _) = x[:1], x.unbind(0)
    x.requires_grad_(False)
    x.add_(1)
    assert view.grad_fn.name() == "AsStridedBackward0"
    with pytest.raises(RuntimeError, match="modified inplace"):
        first.grad_fn  # noqa: B018


def test_a_leaf_that_is_a_view_becomes_a_result(torch):
    """When its base gets a history, also by an operation that reads the view itself."""
    base = torch.tensor([1.0, 2.0])
    view = base[...]
    view.requires_grad_()
    base.addcdiv_(view, base)
    assert view.grad_fn.name() == "AsStridedBackward0"


def test_what_a_view_looks_like_does_not_depend_on_when_it_was_looked_at(torch):
    """Asking a view of a plain tensor for its grad_fn between a change and requires_grad makes no difference."""
    for asks in (False, True):
        base = torch.tensor([1.0, 2.0])
        view = base[:1]
        base.add_(1)
        if asks:
            assert view.grad_fn is None
        base.requires_grad_()
        assert view.grad_fn.name() == "AsStridedBackward0"


def test_copies_by_reshape_are_tensors_of_their_own(torch, leaf):
    """A reshape that has to copy gives no view; its node says so. Products of several dimensions are like that, too."""
    x = leaf(1.0, 2.0, 3.0, 4.0).view(2, 2)
    for copy in (x.t().reshape(4), x.t().flatten()):
        assert copy._base is None
        assert copy.grad_fn.name() == "UnsafeViewBackward0"
    assert x[:, :1].reshape(2).grad_fn.name() == "ReshapeAliasBackward0"
    assert x.reshape(4).grad_fn.name() == "ViewBackward0"
    whole = x.expand(2, 2, 2)
    vector = torch.ones(2, dtype=torch.float64)
    for y in (whole @ x, whole @ whole, whole @ vector, vector @ whole):
        assert y._base is None
        assert y.grad_fn.name() == "UnsafeViewBackward0"
    y = x.detach().t().reshape(4)
    assert y.detach_() is y


def test_compositions_are_called_as_in_pytorch(torch, leaf):
    """What is made of several operations here has the name of the one operation there."""
    x = leaf(1.0, 2.0, 3.0, 4.0).view(2, 2)
    assert x.repeat(2, 1).grad_fn.name() == "RepeatBackward0"
    assert x.roll(1).grad_fn.name() == "RollBackward0"
    assert x.roll(1, 0).grad_fn.name() == "RollBackward0"
    assert x.trace().grad_fn.name() == "TraceBackward0"


@pytest.mark.parametrize(("key", "names"), [
    (slice(-2, None), ("SliceBackward0", "CopySlices")), (slice(0, None), (None, "Copy")),
    (slice(None), (None, "Copy")), (slice(0, 9), (None, "Copy"))])
def test_which_slices_are_views_of_their_own(torch, leaf, key, names):
    """All but those that plainly are the whole: numbers from the end count as a part, whatever they come to."""
    x = leaf(1.0, 2.0)
    assert x[None, key].grad_fn.name() == (names[0] or "UnsqueezeBackward0")
    y = x * 1
    y[key] = x
    assert names[1] in y.grad_fn.name()


# --- backward passes ------------------------------------------------------------------------------------------------


def test_the_graph_of_a_write_through_a_view_is_freed(torch, leaf):
    """Also where the write saved nothing: a second pass raises."""
    x = leaf(1.0, 2.0)
    y = torch.zeros(2, dtype=torch.float64)
    y[:1] = x[0]
    y.sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        y.sum().backward()


def test_a_mean_with_a_number_as_weight_frees_nothing(torch, leaf):
    """lerp saves a weight that is a tensor only."""
    x = leaf(1.0)
    y = x.lerp(x, 0.25)
    y.sum().backward()
    y.sum().backward()
    assert x.grad.tolist() == [2.0]
    y = x.lerp(x, torch.tensor(0.25, dtype=torch.float64))
    y.sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        y.sum().backward()


def test_hooks_of_the_only_root(torch, leaf):
    """Hooks of a root run though nothing that is asked for lies behind it; those of one among several do not."""
    calls = []
    x, other = leaf(1.0), leaf(2.0)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: calls.append("y"))
    other.register_hook(lambda g: calls.append("other"))
    assert torch.autograd.grad(y, [other], allow_unused=True) == (None,)
    assert calls == ["y"] and y.grad.tolist() == [1.0] and x.grad is None
    assert torch.autograd.grad(other, [x], allow_unused=True) == (None,)
    assert calls == ["y", "other"] and other.grad is None
    calls.clear()
    torch.autograd.grad([x * 3, other, y], [x], allow_unused=True)
    assert calls == ["y"]                # which leads to x


def test_functions_run_though_their_gradients_go_nowhere(torch, leaf):
    """backward() runs all that the root reaches, also a Function of a view made under no_grad, which leads nowhere."""
    calls = []

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            calls.append(g.tolist())
            return g * 2

    x = leaf(1.0, 2.0)
    with torch.no_grad():
        view = x.view(2)
    Doubled.apply(view).sum().backward()
    assert calls == [[1.0, 1.0]]
    assert x.grad is None


def test_out_of_cat_among_its_parts(torch):
    """A part that shares elements with out= is refused, one that lies between them is not."""
    x = torch.arange(8.0).view(2, 4)
    first, *_, last = x.unbind(1)
    torch.cat([first], out=last)
    assert x[:, 3].tolist() == [0.0, 4.0]
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.cat([x], out=x)


@pytest.mark.parametrize("write", [lambda a, v: a.copy_(v), lambda a, v: a.__setitem__(slice(0, 1), v)])
def test_a_stale_view_copied_into_integers(torch, write):
    """A view that cannot be taken again has no gradient where its values become integers, so nothing is asked of it."""
    base = torch.full((2, 2), 1.5, requires_grad=True)
    view, _ = base.split([1, 1])
    with torch.no_grad():
        base.add_(base)
    for dtype in (torch.bool, torch.int64):
        target = torch.zeros(1, 2, dtype=dtype)
        write(target, view)
        assert target.tolist() == [[3, 3]] if dtype is torch.int64 else [[True, True]]
        assert target._version == 1
    with pytest.raises(RuntimeError, match="view"):
        write(torch.zeros(1, 2), view)
