"""The graph as users see it: nodes, edges, what nodes keep, hooks on several gradients."""
import copy
import pickle

import pytest

# --- nodes ----------------------------------------------------------------------------------------------------------


def test_saved_values_by_name(torch, leaf):
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    node = (x * w).grad_fn
    assert node._saved_self.tolist() == [1.0, 2.0] and node._saved_other.tolist() == [3.0, 4.0]
    assert (x * w.detach()).grad_fn._saved_self is None
    y = x.exp()
    assert y.grad_fn._saved_result.tolist() == y.tolist() and y.grad_fn._saved_result.grad_fn is y.grad_fn
    assert (x.reshape(1, 2) @ w.reshape(2, 1)).grad_fn._saved_mat2.tolist() == [[3.0], [4.0]]
    node = x.reshape(1, 2).sum(1, keepdim=True).grad_fn
    assert tuple(node._saved_dim) == (1,) and node._saved_keepdim is True
    assert "_saved_self" in dir((x * w).grad_fn) and "_raw_saved_result" in dir(y.grad_fn)
    with pytest.raises(AttributeError):
        y.grad_fn._saved_self  # noqa: B018
    with pytest.raises(AttributeError):
        y.grad_fn.nonsense  # noqa: B018


def test_saved_values_are_gone_after_backward(torch, leaf):
    x = leaf(1.0, 2.0)
    y = x.exp().sum()
    node = y.grad_fn.next_functions[0][0]
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        node._saved_result  # noqa: B018


def test_a_node_can_be_called(torch, leaf):
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    one = torch.ones(2, dtype=torch.float64)
    g, h = (x * w).grad_fn(one)
    assert (g.tolist(), h.tolist()) == ([3.0, 4.0], [1.0, 2.0])
    g, h = (x * w.detach()).grad_fn(one)
    assert g.tolist() == [3.0, 4.0] and h is None
    assert x.grad is None


def test_a_node_cannot_be_copied(torch, leaf):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    for y, name in ((leaf(1.0) * 2, "MulBackward0"), (Double.apply(leaf(1.0)), "DoubleBackward")):
        for use in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match=f"cannot pickle '{name}' object"):
                use(y.grad_fn)


def test_node_is_the_class_of_all(torch, leaf):
    x = leaf(1.0)
    Node = torch.autograd.graph.Node
    y = x * 2
    assert type(y.grad_fn).__name__ == "MulBackward0" and type(y.grad_fn) is type((x * 3).grad_fn)
    assert type(y.grad_fn.next_functions[0][0]).__name__ == "AccumulateGrad"
    with pytest.raises(TypeError):
        type(y.grad_fn)()
    assert isinstance(y.grad_fn, Node) and isinstance(y.grad_fn.next_functions[0][0], Node)
    assert y.grad_fn.metadata == {} and y.grad_fn.metadata is y.grad_fn.metadata


# --- edges ----------------------------------------------------------------------------------------------------------


def test_edges_stand_for_tensors(torch, leaf):
    edge_of = torch.autograd.graph.get_gradient_edge
    x = leaf(1.0, 2.0)
    y = x * 2
    z = (y * y).sum()
    assert edge_of(y).node is y.grad_fn and edge_of(y).output_nr == 0
    assert edge_of(x).node.name().endswith("AccumulateGrad")
    g, h = torch.autograd.grad(z, [edge_of(y), x], retain_graph=True)
    assert (g.tolist(), h.tolist()) == ([4.0, 8.0], [8.0, 16.0])
    g, = torch.autograd.grad(edge_of(z), edge_of(x), retain_graph=True)
    assert g.tolist() == [8.0, 16.0]
    g, = torch.autograd.grad(edge_of(y), x, grad_outputs=torch.ones(2, dtype=torch.float64), retain_graph=True)
    assert g.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="implicitly created only for scalar outputs"):
        torch.autograd.grad(edge_of(y), x, retain_graph=True)
    torch.autograd.backward(edge_of(z), inputs=[edge_of(x)], retain_graph=True)
    assert x.grad.tolist() == [8.0, 16.0]
    z.backward(inputs=[edge_of(y)], retain_graph=True)
    assert x.grad.tolist() == [8.0, 16.0] and not y.retains_grad
    torch.autograd.backward([edge_of(z), z])
    assert x.grad.tolist() == [24.0, 48.0]


def test_an_edge_of_one_of_several_outputs(torch, leaf):
    edge_of = torch.autograd.graph.get_gradient_edge
    x = leaf(1.0, 2.0, 3.0)
    b = x.split([1, 2])[1]
    assert edge_of(b).output_nr == 1
    g, = torch.autograd.grad((b * b).sum(), edge_of(b), retain_graph=True)
    assert g.tolist() == [4.0, 6.0]
    g, = torch.autograd.grad(edge_of(b), x, torch.ones(2, dtype=torch.float64))
    assert g.tolist() == [0.0, 1.0, 1.0]


def test_wrong_edges(torch, leaf):
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="does not require gradients"):
        torch.autograd.graph.get_gradient_edge(torch.ones(1))
    with pytest.raises(RuntimeError, match="not have been used in the graph"):
        torch.autograd.grad(x * 2, torch.autograd.graph.get_gradient_edge(leaf(1.0)))
    with pytest.raises(TypeError):
        torch.autograd.grad([5], x)
    with pytest.raises(TypeError):
        torch.autograd.grad(x * 2, [5])


# --- hooks on several gradients -------------------------------------------------------------------------------------


def test_hook_on_all_gradients(torch, leaf):
    a, b, c = leaf(1.0), leaf(2.0), leaf(3.0)
    d = a * b
    seen = []
    handle = torch.autograd.graph.register_multi_grad_hook((a, b, c, d), seen.append)

    def shown():
        grads, = seen
        seen.clear()
        return [None if g is None else g.item() for g in grads]

    d.backward(retain_graph=True)
    assert shown() == [2.0, 1.0, None, 1.0]
    d.backward(inputs=(a,), retain_graph=True)
    assert shown() == [2.0, None, None, 1.0]
    (d * c).backward(retain_graph=True)
    assert shown() == [6.0, 3.0, 2.0, 3.0]
    torch.autograd.grad(d, a, retain_graph=True)
    assert shown() == [2.0, None, None, 1.0]
    handle.remove()
    d.backward()
    assert not seen


def test_hook_on_any_gradient(torch, leaf):
    a, b = leaf(1.0), leaf(2.0)
    seen = []
    with torch.autograd.graph.register_multi_grad_hook((a, b), lambda g: seen.append(g.item()), mode="any"):
        for _ in range(2):
            (a * b).backward()
    assert len(seen) == 2 and set(seen) <= {1.0, 2.0}
    (a * b).backward()
    assert len(seen) == 2
    with pytest.raises(ValueError, match="Expects mode to be one of"):
        torch.autograd.graph.register_multi_grad_hook((a,), print, mode="some")


def test_hook_on_all_gradients_of_nested_passes(torch, leaf):
    """Each pass has gradients of its own."""
    a, b = leaf(1.0), leaf(2.0)
    seen = []
    torch.autograd.graph.register_multi_grad_hook((a, b), lambda grads: seen.append([g.item() for g in grads]))

    class Inside(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            with torch.enable_grad():
                (a * b * 10).backward()
            return g

    (Inside.apply(a) * b).backward()
    assert seen == [[20.0, 10.0], [2.0, 1.0]]


def test_variable_is_the_old_name(torch, leaf):
    x = torch.autograd.Variable(torch.ones(2), requires_grad=True)
    assert isinstance(x, torch.Tensor) and isinstance(x, torch.autograd.Variable) and x.requires_grad and x.is_leaf


def test_hook_on_all_gradients_of_one_node(torch, leaf):
    """Outputs of one node are reached together: those without gradient count, with None."""
    x = leaf(1.0, 2.0, 3.0)
    first, second, third = x.unbind(0)
    seen = []
    torch.autograd.graph.register_multi_grad_hook((first, third), seen.append)
    (second * 2).backward(retain_graph=True)
    (third * 2).backward()
    assert [[None if g is None else g.item() for g in grads] for grads in seen] == [[None, None], [None, 2.0]]


def test_hook_on_all_gradients_where_a_function_gives_none(torch, leaf):
    """A leaf that is reached without a gradient counts too."""

    class Half(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, g):
            return g, None

    x, y = leaf(1.0), leaf(2.0)
    z = y * 1
    seen = []
    torch.autograd.graph.register_multi_grad_hook((x, y, z), seen.append)
    Half.apply(x, y).backward()
    Half.apply(x, z).backward()
    assert [[None if g is None else g.item() for g in grads] for grads in seen] == [[1.0, None, None]] * 2
