"""Index tensors and masks are saved for backward like any other operand."""
import pytest


def put(torch, y, i):
    y[i] = torch.ones(2, requires_grad=True) * 2
    return y


OPERATIONS = {
    "index": lambda torch, y, i: y[i],
    "index_put": put,
    "accumulate": lambda torch, y, i: y.index_put_((i,), torch.ones(2, requires_grad=True) * 2, accumulate=True),
    "index_select": lambda torch, y, i: y.index_select(0, i),
    "gather": lambda torch, y, i: y.gather(0, i),
    "take": lambda torch, y, i: y.take(i),
    "scatter": lambda torch, y, i: y.scatter(0, i, torch.ones(2)),
}
MASKED = {
    "mask": lambda torch, y, m: y[m],
    "assigned": put,
    "masked_select": lambda torch, y, m: y.masked_select(m),
    "masked_fill": lambda torch, y, m: y.masked_fill(m, 0.0),
    "where": lambda torch, y, m: torch.where(m, y, 0.0),
}
ALL = [(f, "index") for f in OPERATIONS] + [(f, "mask") for f in MASKED]


@pytest.fixture
def operation(request, torch):
    """An operation over four numbers, and a function that makes its index."""
    name, kind = request.param
    made = {"index": lambda: torch.tensor([0, 2]), "mask": lambda: torch.tensor([True, False, True, False])}[kind]
    return (OPERATIONS | MASKED)[name], made


@pytest.mark.parametrize("operation", ALL, indirect=True, ids=lambda p: p[0])
def test_a_changed_index_is_detected(torch, operation):
    f, made = operation
    x, i = torch.arange(4.0, requires_grad=True), made()
    y = f(torch, x * 1, i)
    i.logical_not_() if i.dtype == torch.bool else i.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    assert x.grad is None


@pytest.mark.parametrize("operation", ALL, indirect=True, ids=lambda p: p[0])
def test_a_second_pass_needs_retain_graph(torch, operation):
    f, made = operation
    x = torch.arange(4.0, requires_grad=True)
    total = f(torch, x * 1, made()).sum()
    total.backward(retain_graph=True)
    first = x.grad.clone()
    total.backward()
    assert torch.equal(x.grad, 2 * first)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        total.backward()


@pytest.mark.parametrize("operation", ALL, indirect=True, ids=lambda p: p[0])
def test_indices_go_through_hooks(torch, operation):
    f, made = operation
    x, v, i = torch.arange(4.0, requires_grad=True), torch.arange(4.0, requires_grad=True), made()
    seen = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t.dtype) or t.clone(), lambda t: t):
        y = f(torch, x * 1, i)
    assert i.dtype in seen
    i.logical_not_() if i.dtype == torch.bool else i.add_(1)
    y.sum().backward()
    f(torch, v * 1, made()).sum().backward()
    assert torch.equal(x.grad, v.grad)


def test_a_list_of_the_users_may_change(torch):
    x, places = torch.arange(4.0, requires_grad=True), [0, 2]
    y = (x * 1)[places]
    places[0] = 3
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 0.0, 1.0, 0.0]
