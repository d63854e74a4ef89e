"""Hooks on what is saved for backward."""
import gc
import weakref

import pytest


@pytest.fixture
def hooks(torch):
    return torch.autograd.graph.saved_tensors_hooks


def test_pack_once_unpack_at_each_use(torch, leaf, hooks):
    calls = []
    x = leaf(1.0, 2.0)
    with hooks(lambda t: calls.append("pack") or t.tolist(),
               lambda v: calls.append("unpack") or torch.tensor(v, dtype=torch.float64)):
        y = x.exp().sum()
        assert calls == ["pack"]
    x * x                                # outside: nothing
    y.backward(retain_graph=True)
    y.backward()
    assert calls == ["pack", "unpack", "unpack"]
    assert x.grad.tolist() == pytest.approx([2 * 2.718281828, 2 * 7.389056099])


def test_what_is_saved_goes_through_the_hooks(torch, leaf, hooks):
    """Inputs, results, matrices; only what a gradient needs."""
    seen = []
    x, w, c = leaf(1.0, 2.0), leaf(3.0, 4.0), torch.ones(2, dtype=torch.float64)

    def packed(operation):
        seen.clear()
        with hooks(lambda t: seen.append(t.tolist()) or t, lambda t: t):
            operation()
        return sorted(seen)

    assert packed(lambda: x * w) == [[1.0, 2.0], [3.0, 4.0]]
    assert packed(lambda: x * c) == [[1.0, 1.0]]
    assert packed(lambda: x + w) == []
    assert packed(lambda: x.tanh()) == [x.tanh().tolist()]
    assert packed(lambda: x.reshape(1, 2) @ w.reshape(2, 1)) == [[[1.0, 2.0]], [[3.0], [4.0]]]
    assert packed(lambda: c * c) == []
    with torch.no_grad():
        assert packed(lambda: x * w) == []


def test_the_innermost_pair_is_in_force(torch, leaf, hooks):
    calls = []
    x = leaf(1.0)
    outer = hooks(lambda t: calls.append("outer") or t, lambda t: t)
    with outer:
        with hooks(lambda t: calls.append("inner") or t, lambda t: t):
            x.exp()
        x.exp()
    x.exp()
    assert calls == ["inner", "outer"]


def test_functions_save_through_hooks_too(torch, leaf, hooks):
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x**3
            ctx.save_for_backward(x, None, y)
            return y

        @staticmethod
        def backward(ctx, g):
            x, none, y = ctx.saved_tensors
            assert none is None
            return 3 * y / x * g

    calls = []
    x = leaf(2.0)
    with hooks(lambda t: calls.append(t.item()) or t.clone(), lambda t: t):
        y = Cube.apply(x)
    assert calls == [2.0, 8.0]
    g, = torch.autograd.grad(y, x, create_graph=True)
    h, = torch.autograd.grad(g, x)
    assert (g.item(), h.item()) == (12.0, 12.0)


def test_second_derivatives_flow_through_unpacked_tensors(torch, leaf, hooks):
    """Inputs that are leaves, inputs that are not, and results."""
    x = leaf(0.5, 2.0)
    with hooks(lambda t: t.detach().clone(), lambda t: t.clone()):
        y = ((x * x).exp() * x.tanh()).sum()
        g, = torch.autograd.grad(y, x, create_graph=True)
        h, = torch.autograd.grad(g.sum(), x)
    y = ((x * x).exp() * x.tanh()).sum()
    g2, = torch.autograd.grad(y, x, create_graph=True)
    h2, = torch.autograd.grad(g2.sum(), x)
    assert torch.allclose(g, g2) and torch.allclose(h, h2)


def test_in_place_on_a_view(torch, leaf, hooks):
    x = leaf(1.0, 2.0, 3.0)
    with hooks(lambda t: t.clone(), lambda t: t):
        y = x * 1
        y[:2].mul_(x[1:])
        (y * y).sum().backward()
    z = leaf(1.0, 2.0, 3.0)
    w = z * 1
    w[:2].mul_(z[1:])
    (w * w).sum().backward()
    assert x.grad.tolist() == z.grad.tolist()


def test_versions_are_the_hooks_business(torch, leaf, hooks):
    x = leaf(1.0, 2.0)
    with hooks(lambda t: t.clone(), lambda t: t):
        y = x.exp()
    y.mul_(0)
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]


def test_wrong_hooks(torch, leaf, hooks):
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="modifying its input in place"), hooks(lambda t: t.add_(1), lambda t: t):
        (x * 1).exp()
    with hooks(lambda t: t, lambda t: 5):
        y = x.exp()
    with pytest.raises(TypeError, match="unpack_hook expected to be a Tensor"):
        y.backward()
    with pytest.raises(ZeroDivisionError), hooks(lambda t: 1 / 0, lambda t: t):
        x.exp()
    with pytest.raises(TypeError), hooks(1, 2):
        pass
    x.exp().backward()                   # nothing of them is left in force
    assert x.grad.item() == pytest.approx(2.718281828)


def test_released_with_the_graph(torch, leaf, hooks):
    class Packed:
        def __init__(self, t):
            self.t = t

    dead = []
    x = leaf(1.0, 2.0)

    def pack(t):
        p = Packed(t.detach())
        dead.append(weakref.ref(p))
        return p

    gc.disable()
    try:
        with hooks(pack, lambda p: p.t):
            y = (x.exp() * x).sum()
        assert len(dead) == 3 and all(r() is not None for r in dead)
        y.backward()
        assert all(r() is None for r in dead)
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            y.backward()
    finally:
        gc.enable()


def test_disabled(torch, hooks):
    graph = torch.autograd.graph
    with graph.disable_saved_tensors_hooks("not here"):
        with pytest.raises(RuntimeError, match="not here"), hooks(lambda t: t, lambda t: t):
            pass
        with graph.disable_saved_tensors_hooks("nor here"), pytest.raises(RuntimeError, match="nor here"), \
                hooks(lambda t: t, lambda t: t):
            pass
    with hooks(lambda t: t, lambda t: t), pytest.raises(RuntimeError, match="too late"), \
            graph.disable_saved_tensors_hooks("too late"):
        pass
    with hooks(lambda t: t, lambda t: t):
        pass


def test_save_on_cpu(torch, leaf):
    x = leaf(1.0, 2.0)
    with torch.autograd.graph.save_on_cpu():
        y = (x.exp() * x).sum()
    y.backward()
    assert torch.allclose(x.grad, (x.exp() * (x + 1)).detach())


def test_hooks_of_one_saved_tensor(torch, leaf):
    x = leaf(2.0)
    y = x * x
    y.grad_fn._raw_saved_self.register_hooks(lambda t: t * 10, lambda t: t)
    with pytest.raises(RuntimeError, match="already been set"):
        y.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
    assert y.grad_fn._saved_self.item() == 20.0 and y.grad_fn._saved_other.item() == 2.0
    y.backward()
    assert x.grad.item() == 22.0


# --- mutation of saved tensors --------------------------------------------------------------------------------------


def test_mutation_is_allowed_inside(torch, leaf):
    x, v = leaf(1.0, 2.0), leaf(1.0, 2.0)
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        y = x * 1
        z = y.exp() * y
        y.mul_(100)
        z.mul_(y)
        y[0] = 7.0
        y.zero_()
        z.sum().backward()
    w = v * 1
    (w.exp() * w * (w * 100)).sum().backward()
    assert torch.allclose(x.grad, v.grad)


def test_mutation_copies_only_what_is_saved(torch, leaf, beyond_pytorch):
    x = leaf(1.0, 2.0)
    with torch.autograd.graph.allow_mutation_on_saved_tensors() as allowed:
        y = x * 1
        z = y.exp()
        y.mul_(2)                        # not saved: exp keeps its result
        assert len(allowed._handles) == 1
        z.mul_(2)
        assert not allowed._handles
        z.sum().backward()


def test_mutation_outside(torch, leaf):
    allow = torch.autograd.graph.allow_mutation_on_saved_tensors
    x = leaf(1.0)
    with allow():
        y = x.exp()
        with pytest.raises(RuntimeError, match="cannot be nested"), allow():
            pass
    with pytest.raises((AssertionError, RuntimeError), match="outside of the 'allow_mutation_on_saved_tensors'"):
        y.backward()
    with allow() as context:
        y = x.exp()
        context.clear()
        with pytest.raises((AssertionError, RuntimeError), match="outside of the"):
            y.backward()
    y = x.exp()
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_increment_version(torch, leaf):
    x = leaf(1.0, 2.0)
    y = x * 1
    z = y * y
    torch.autograd.graph.increment_version(y)
    assert y._version == 1
    torch.autograd.graph.increment_version([y, x])
    assert (y._version, x._version) == (2, 1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_increment_version_checks_its_argument(torch, beyond_pytorch):
    with torch.inference_mode():
        made = torch.ones(1)
    with pytest.raises(RuntimeError):
        torch.autograd.graph.increment_version(made)
    with pytest.raises(TypeError):
        torch.autograd.graph.increment_version([1])
