"""Inference mode: what is made in it, and what is refused outside."""
import copy
import threading

import pytest


@pytest.fixture
def made(torch):
    """A tensor made in inference mode."""
    with torch.inference_mode():
        return torch.ones(3)


def test_nothing_is_recorded_inside(torch, leaf):
    x = leaf(1.0, 2.0)
    with torch.inference_mode():
        assert torch.is_inference_mode_enabled() and not torch.is_grad_enabled()
        y = x * 2
        assert not y.requires_grad and y.grad_fn is None and y.is_inference() and torch.is_inference(y)
        with torch.enable_grad():
            assert torch.is_grad_enabled()
            assert not (x * 2).requires_grad
        with torch.inference_mode(False):
            assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
            z = x * 2
            assert z.requires_grad and not z.is_inference()
        assert torch.is_inference_mode_enabled() and not torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled() and torch.is_grad_enabled() and not (x * 2).is_inference()


def test_a_leaf_made_inside_may_require_a_gradient(torch):
    with torch.inference_mode():
        x = torch.ones(2, requires_grad=True)
        assert x.requires_grad and x.is_inference()
        assert not (x + 1).requires_grad


def test_what_inference_tensors_are(torch, made):
    """Neither counted nor known as views; normal tensors come out of operations on them."""
    assert not made[:2]._is_view() and made[:2]._base is None
    assert made[:2].is_inference() and made.detach().is_inference() and made.view(3, 1).is_inference()
    assert not made.clone().is_inference() and not (made + 1).is_inference()
    with pytest.raises(RuntimeError, match="do not track version counter"):
        made._version  # noqa: B018


@pytest.mark.parametrize("change", [
    lambda t: t.add_(1), lambda t: t.zero_(), lambda t: t.fill_(2), lambda t: t.copy_(t.clone()),
    lambda t: t[:2].mul_(2),
    lambda t: t.__setitem__(0, 5.0), lambda t: t.uniform_(), lambda t: t.index_add_(0, t.long()[:1], t.clone()[:1])])
def test_changing_one_outside_is_refused(torch, backend, made, change):
    before = made.tolist()
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        change(made)
    with torch.no_grad(), pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        change(made)
    assert made.tolist() == before or backend == "torch"     # which writes before it raises
    with torch.inference_mode():
        change(made)


def test_saving_one_for_backward_is_refused(torch, leaf, made):
    x = torch.ones(3, requires_grad=True)
    assert (x + made).grad_fn is not None
    for operation in (lambda: x * made, lambda: torch.dot(x, made), lambda: made.exp() * x + x * made):
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            operation()

    class Save(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(b)
            return a + b

        @staticmethod
        def backward(ctx, g):
            return g, g

    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        Save.apply(x, made)
    (x * made.clone()).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


def test_requires_grad_outside_is_refused(torch, made):
    for switch in (lambda: made.requires_grad_(), lambda: setattr(made, "requires_grad", True)):
        with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor outside InferenceMode"):
            switch()
    made.requires_grad_(False)


def test_normal_tensors_inside(torch, leaf):
    """Writes to them count; views of them are views, and cannot be written outside."""
    x = leaf(1.0, 2.0, 3.0)
    y = x * 1
    with torch.inference_mode():
        y.add_(1)
        v = y[:2]
        assert y._version == 1 and not y.is_inference() and not v.is_inference() and v._is_view()
    with pytest.raises(RuntimeError, match="A view was created in inference mode"):
        v.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z = x * 1
        w = z * z
        with torch.inference_mode():
            z.add_(1)
        w.sum().backward()


def test_as_a_decorator(torch, leaf):
    x = leaf(1.0)

    @torch.inference_mode()
    def called():
        return x * 2

    @torch.inference_mode
    def bare():
        return x * 2

    @torch.inference_mode(False)
    def off():
        return x * 2

    @torch.inference_mode()
    def generated():
        yield x * 2
        yield x * 3

    assert called().is_inference() and bare().is_inference()
    with torch.inference_mode():
        assert off().requires_grad
    for y in generated():
        assert y.is_inference() and not torch.is_inference_mode_enabled()


def test_it_belongs_to_a_thread(torch):
    seen = []

    def look():
        seen.append((torch.is_inference_mode_enabled(), torch.ones(1).is_inference()))

    with torch.inference_mode():
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert seen == [(False, False)]


def test_it_ends_after_an_exception(torch):
    with pytest.raises(KeyError), torch.inference_mode():
        raise KeyError
    assert not torch.is_inference_mode_enabled() and not torch.ones(1).is_inference()


def test_changes_in_place_inside(torch, leaf):
    """Composed operations too; and a leaf may be resized, for nothing is recorded."""
    with torch.inference_mode():
        x = torch.tensor([1.25, 2.75])
        assert x.round_().tolist() == [1.0, 3.0]
        assert x.cumsum_(0).tolist() == [1.0, 4.0]
        y = leaf(1.0, 2.0)
        y.resize_(1)
        assert y.tolist() == [1.0]
        assert y.detach_() is y and y.requires_grad              # there is no history to cut


@pytest.mark.parametrize("change", ["t_()", "transpose_(0, 1)", "squeeze_()", "unsqueeze_(0)", "resize_(1)",
                                    "set_(torch.zeros(2))", "as_strided_((1,), (1,))"])
def test_changing_a_shape_outside_is_refused(torch, made, backend, change):
    with torch.inference_mode():
        x = made.view(1, 3)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        eval(f"x.{change}", {"x": x, "torch": torch})
    assert x.is_inference()
    assert backend == "torch" or x.shape == (1, 3)       # PyTorch has changed it by then


def test_the_memory_seen_from_outside(torch):
    """.data and detach() of an inference tensor count their own writes, and may be written outside."""
    with torch.inference_mode():
        x = torch.tensor([1.0, 2.0])
        inside = x.data
        copied = copy.copy(torch.ones(1))
    for seen in (x.data, x.detach()):
        seen.mul_(2)
        assert (seen.is_inference(), seen._version) == (True, 1)
    assert x.tolist() == [4.0, 8.0]
    for y in (inside, copied):
        with pytest.raises(RuntimeError, match="do not track version counter"):
            y._version  # noqa: B018


def test_memory_given_to_a_normal_tensor(torch):
    """Such a tensor may be written outside."""
    x = torch.zeros(2)
    with torch.inference_mode():
        x.data = torch.ones(2)
    x.add_(1)
    assert (x.tolist(), x._version) == ([2.0, 2.0], 1)


def test_set_keeps_what_a_tensor_is(torch):
    """An inference tensor over the memory of a normal one stays an inference tensor, and the other way round."""
    normal = torch.zeros(2)
    with torch.inference_mode():
        x = torch.ones(2)
        x.set_(torch.zeros(2))
        normal.set_(torch.ones(2))
    assert x.is_inference() and not normal.is_inference()
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        x.add_(1)
    normal.add_(1)
    assert normal.tolist() == [2.0, 2.0]


def test_a_view_that_leads_nowhere_asks_for_nothing(torch, leaf):
    """A view of a leaf, made in inference mode, requires a gradient, but none reaches the leaf: nothing is saved."""
    x = leaf(1.0, 2.0)
    with torch.inference_mode():
        view, constant = x[:1], x * 1
    for y in (constant[:1] / view, view * constant[:1], constant[:1] * view):
        assert y.requires_grad
        if hasattr(y.grad_fn, "_saved_tensors"):
            assert y.grad_fn._saved_tensors == ()
