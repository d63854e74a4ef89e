"""Hooks on tensors: order, replacement, removal, and their place in the gradient's graph."""
import pytest


def test_hooks_run_in_order_and_may_replace(leaf):
    """Each hook sees what the one before returned; returning nothing leaves the gradient as it is."""
    x = leaf(1.0)
    h = x * 1
    seen = []
    h.register_hook(lambda g: seen.append(("first", g.item())))
    h.register_hook(lambda g: g * 10)
    h.register_hook(lambda g: seen.append(("third", g.item())))
    (h * 2).sum().backward()
    assert seen == [("first", 2.0), ("third", 20.0)]
    assert x.grad.tolist() == [20.0]


def test_a_hook_sees_the_total_once(leaf):
    """A value used along several paths has its hook called with the sum of all of them."""
    a = leaf(1.5)
    b = a + a
    c = b * b
    seen = []
    b.register_hook(lambda g: seen.append(g.tolist()))
    ((c + b) * c).sum().backward()              # b^4 + b^3
    assert seen == [[4 * 27.0 + 3 * 9.0]]
    assert a.grad.tolist() == [270.0]


def test_a_leaf_hook_runs_before_accumulation(leaf):
    """On a leaf the hook changes the contribution, not what has been accumulated already."""
    x = leaf(1.0)
    (x * 5).sum().backward()
    x.register_hook(lambda g: g * 100)
    (x * 5).sum().backward()
    assert x.grad.tolist() == [505.0]


def test_retain_grad_sees_what_hooks_returned(leaf):
    """The kept gradient is the one that goes on, whichever of the two was registered first."""
    for hook_first in (True, False):
        x = leaf(1.0)
        h = x * 1
        if hook_first:
            h.register_hook(lambda g: g * 3)
            h.retain_grad()
        else:
            h.retain_grad()
            h.register_hook(lambda g: g * 3)
        h.sum().backward()
        assert h.grad.tolist() == [3.0]
        assert x.grad.tolist() == [3.0]


def test_hooks_can_be_removed(leaf):
    """A removed hook is not called; removing twice, or from within another hook, does no harm."""
    x = leaf(1.0)
    calls = []
    first = x.register_hook(lambda g: calls.append("first"))
    second = x.register_hook(lambda g: calls.append("second"))
    x.sum().backward()
    first.remove()
    first.remove()
    x.sum().backward()
    second.remove()
    x.sum().backward()
    assert calls == ["first", "second", "second"]
    assert x.grad.tolist() == [3.0]


def test_hooks_on_outputs_of_one_node(leaf):
    """Hooks belong to a tensor, that is to one output of a node."""
    x = leaf(1.0, 2.0)
    first, second = x.unbind(0)
    second.register_hook(lambda g: g * 10)
    (first + second).backward()
    assert x.grad.tolist() == [1.0, 10.0]


def test_hooks_run_under_autograd_grad(torch, leaf):
    """``autograd.grad`` applies the hooks of what it passes and of what it returns."""
    x = leaf(1.0)
    h = x * 2
    h.register_hook(lambda g: g * 3)
    x.register_hook(lambda g: g * 5)
    assert torch.autograd.grad(h.sum(), x)[0].tolist() == [30.0]


def test_a_hook_is_differentiated_with_create_graph(torch, leaf):
    """What a hook does is part of the gradient's graph."""
    x = leaf(3.0)
    h = x * x
    h.register_hook(lambda g: g * x)
    g, = torch.autograd.grad(h.sum(), x, create_graph=True)         # 2 x * x
    assert g.tolist() == [18.0]
    assert torch.autograd.grad(g.sum(), x)[0].tolist() == [12.0]


def test_a_hook_that_returns_nonsense(torch, leaf):
    """A hook that changes the shape or returns something else raises, and the leaf keeps its gradient."""
    for wrong, error in ((lambda g: torch.ones(3, dtype=torch.float64), RuntimeError), (lambda g: "text", TypeError)):
        x = leaf(1.0)
        h = x * 1
        h.register_hook(wrong)
        with pytest.raises(error):
            h.sum().backward()
        assert x.grad is None
