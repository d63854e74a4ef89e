"""Lesson 2: the graph is built while the program runs."""
import weakref

import pytest


def nodes_below(root):
    """All nodes that can be reached from a ``grad_fn``, each once, parents before children where possible."""
    seen, todo = [], [root]
    while todo:
        node = todo.pop()
        if node is None or any(node is other for other in seen):
            continue
        seen.append(node)
        todo.extend(parent for parent, _ in node.next_functions)
    return seen


@pytest.fixture
def a(torch):
    """The leaf that the first graphs of the lesson grow from."""
    return torch.tensor([2., 3.], requires_grad=True)


def test_a_leaf_has_no_history(torch, a):
    """A tensor that the user made is a leaf: no operation produced it, so it has no ``grad_fn``."""
    assert a.requires_grad
    assert a.is_leaf
    assert a.grad_fn is None
    assert a.grad is None
    plain = torch.tensor([1., 2.])
    assert not plain.requires_grad
    assert plain.is_leaf
    assert plain.grad_fn is None


def test_a_result_names_the_operation_that_made_it(a):
    """Each recorded result points to a node, and the node prints the name of the operation it differentiates."""
    b = a * 3
    c = b.mean()
    assert repr(b.grad_fn).startswith("<MulBackward0 object at 0x")
    assert repr(c.grad_fn).startswith("<MeanBackward0 object at 0x")
    assert b.grad_fn.name() == "MulBackward0"
    assert c.grad_fn.name() == "MeanBackward0"
    assert not b.is_leaf
    assert b.requires_grad
    assert c.requires_grad


def test_a_result_prints_its_history(a):
    """Printing a tensor shows the name of its node, and a leaf shows that it requires a gradient."""
    assert repr(a) == "tensor([2., 3.], requires_grad=True)"
    assert repr(a * 3) == "tensor([6., 9.], grad_fn=<MulBackward0>)"
    assert repr((a * 3).mean()) == "tensor(7.5000, grad_fn=<MeanBackward0>)"


def test_nodes_are_linked_from_result_to_leaf(a):
    """From the mean the links lead to the product and from there to the node that accumulates into the leaf."""
    b = a * 3
    c = b.mean()
    assert len(c.grad_fn.next_functions) == 1
    product, output_number = c.grad_fn.next_functions[0]
    assert product is b.grad_fn
    assert output_number == 0
    end = product.next_functions[0][0]
    assert "AccumulateGrad" in repr(end)
    assert end.variable is a
    assert end.next_functions == ()


def test_a_constant_has_no_link(torch, a):
    """Where an operand needs no gradient the link is empty, so nothing will ever be computed along it."""
    constant = torch.tensor([10., 20.])
    links = (a * constant).grad_fn.next_functions
    assert len(links) == 2
    assert links[0][0].variable is a
    assert links[1] == (None, 0)
    assert (constant * constant).grad_fn is None


def test_a_leaf_has_one_end_however_often_it_is_used(a):
    """All uses of a leaf end in the same accumulating node."""
    b = a * 3
    c = a.exp()
    assert b.grad_fn.next_functions[0][0] is c.grad_fn.next_functions[0][0]


def test_an_operation_with_several_results(a):
    """A node with several outputs is one node; links tell which of its outputs they mean."""
    first, second = a.unbind(0)
    assert first.grad_fn is second.grad_fn
    links = (first * second).grad_fn.next_functions
    assert [number for _, number in links] == [0, 1]


def test_the_graph_grows_with_each_operation(a):
    """Nothing is declared beforehand: after each statement the graph is one node larger."""
    y = a
    for count in range(1, 6):
        y = y * 2
        assert len(nodes_below(y.grad_fn)) == count + 1      # the products and the leaf's end


def test_python_decides_the_shape_of_the_graph(torch):
    """A loop that depends on the data builds another graph in each iteration, and each has the right derivative."""
    for start, doublings in ((3., 6), (60., 1), (150., 0)):
        x = torch.tensor(start, requires_grad=True)
        y = x * 1
        while y < 100:
            y = y * 2
        assert len(nodes_below(y.grad_fn)) == doublings + 2
        y.backward()
        assert x.grad.item() == 2. ** doublings


def test_a_branch_that_was_not_taken_leaves_no_trace(torch):
    """Only what ran was recorded, so the derivative is that of the branch which was taken."""
    def f(x):
        return x * x if x.sum() > 0 else -3 * x

    for value, derivative in ((2., 4.), (-2., -3.)):
        x = torch.tensor([value], requires_grad=True)
        f(x).sum().backward()
        assert x.grad.tolist() == [derivative]


def test_the_graph_has_no_cycle(torch):
    """Every operation makes a new tensor out of existing ones, so following the links always ends at leaves."""
    x = torch.tensor([1., 2.], requires_grad=True)
    w = torch.tensor([3., 4.], requires_grad=True)
    h = x * w
    y = (h.exp() + h) * h + x
    y = y.sum() + h.mean()

    on_path, finished = [], []

    def visit(node):
        assert all(node is not other for other in on_path), "a node was reached from itself"
        if any(node is other for other in finished):
            return
        on_path.append(node)
        for parent, _ in node.next_functions:
            if parent is not None:
                visit(parent)
        finished.append(on_path.pop())

    visit(y.grad_fn)
    ends = [node for node in finished if not node.next_functions]
    assert {id(node.variable) for node in ends} == {id(x), id(w)}


def test_links_cannot_be_rewired(a):
    """History can be read but not written."""
    b = a * 3
    with pytest.raises(AttributeError):
        a.grad_fn = b.grad_fn
    with pytest.raises(AttributeError):
        b.grad_fn.next_functions = ((b.grad_fn, 0),)
    assert a.grad_fn is None
    assert b.grad_fn.next_functions[0][0].variable is a


def test_a_leaf_cannot_become_its_own_result(a):
    """Writing a result into the leaf that it came from would close a cycle; it raises and changes nothing."""
    for write in (lambda: a.mul_(2), lambda: a.copy_(a * 2), lambda: a[0].zero_(), lambda: a.__setitem__(0, 5.)):
        with pytest.raises(RuntimeError, match="leaf"):
            write()
    assert a.tolist() == [2., 3.]
    assert a.is_leaf
    assert a._version == 0


def test_writing_in_place_gives_a_tensor_new_history(a):
    """A result that is changed in place moves on to a newer node, whose link leads to the older one: still no cycle."""
    b = a * 3
    before = b.grad_fn
    b.add_(1)
    assert b.grad_fn is not before
    assert b.grad_fn.next_functions[0][0] is before
    b.sum().backward()
    assert a.grad.tolist() == [3., 3.]


def test_the_graph_is_used_up_by_backward(a):
    """Backward frees what the nodes had saved, so going through them again is an error that tells about
    ``retain_graph``.
    """
    c = (a * a).mean()
    c.backward()
    assert a.grad.tolist() == [2., 3.]
    with pytest.raises(RuntimeError, match="retain_graph") as caught:
        c.backward()
    assert "second time" in str(caught.value)
    assert a.grad.tolist() == [2., 3.]


def test_the_graph_can_be_kept(a):
    """With ``retain_graph=True`` the same graph serves again, and the gradients add up."""
    c = (a * a).mean()
    c.backward(retain_graph=True)
    c.backward(retain_graph=True)
    c.backward()
    assert a.grad.tolist() == [6., 9.]


def test_dropping_the_result_drops_the_graph(torch, a):
    """The graph lives as long as a result that points to it: there is no global tape."""
    hidden = a.exp()
    y = (hidden * hidden).sum()
    watch = weakref.ref(hidden)
    del hidden
    assert watch() is not None      # the product needs it for backward
    del y
    assert watch() is None
