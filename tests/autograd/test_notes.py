"""What PyTorch's notes on the mechanics of autograd promise, point by point, where no other test here says it."""
import math
import threading

import pytest

# --- saved tensors --------------------------------------------------------------------------------------------------


def test_what_is_saved_is_the_input_itself_and_another_tensor_for_the_result(torch, leaf):
    x = leaf(1.0, 2.0)
    y = x.pow(2)
    assert x is y.grad_fn._saved_self
    y = x.exp()
    assert y.equal(y.grad_fn._saved_result) and y is not y.grad_fn._saved_result


def test_a_changed_value_is_told_when_it_is_asked_for(torch, leaf):
    """A Function that does not look at what it saved works; one that does is refused."""
    looks = [False]

    class Saves(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2 + (0 * ctx.saved_tensors[0] if looks[0] else 0)

    x = leaf(1.0)
    y = x * 1
    z = Saves.apply(y)
    y.mul_(5)
    z.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [2.0]
    looks[0] = True
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


# --- functions that are not differentiable everywhere ---------------------------------------------------------------


@pytest.mark.parametrize(("name", "at", "want"), [
    ("relu", 0.0, 0.0), ("abs", 0.0, 0.0),                        # convex: the subgradient of least norm
    ("hardtanh", 1.0, 0.0), ("relu6", 6.0, 0.0), ("hardtanh", -1.0, 0.0),
    ("sqrt", 0.0, math.inf), ("rsqrt", 0.0, -math.inf),           # by continuity
    ("log", 0.0, math.inf), ("acos", 1.0, -math.inf), ("atanh", 1.0, math.inf),
    ("sign", 0.0, 0.0), ("round", 0.5, 0.0), ("floor", 1.0, 0.0), ("ceil", 1.0, 0.0), ("trunc", 1.0, 0.0),
    ("heaviside", 0.0, None),
    ("log", -1.0, -1.0), ("log2", -1.0, -1 / math.log(2)),        # outside of the domain: the formula
    ("sqrt", -1.0, math.nan), ("asin", 2.0, math.nan)])
def test_gradients_at_corners_and_edges(torch, name, at, want):
    """The derivative where there is one; of convex functions the subgradient of least norm; else by continuity."""
    x = torch.tensor(at, dtype=torch.float64, requires_grad=True)
    if want is None:
        with pytest.raises((RuntimeError, NotImplementedError)):
            torch.heaviside(x, torch.ones_like(x)).backward()
        return
    f = getattr(torch, name, None) or getattr(torch.nn.functional, name)
    f(x).backward()
    assert x.grad.item() == want or (math.isnan(want) and math.isnan(x.grad.item()))


def test_gradients_of_ties(torch, leaf):
    """Extrema over all share the gradient; along a dimension one element, whose index is told, gets all of it."""
    for name in ("amax", "amin", "max", "min"):
        x = leaf(3.0, 3.0, 3.0, 3.0)
        getattr(x, name)().backward()
        assert x.grad.tolist() == [0.25] * 4
    for name in ("max", "min", "median"):
        x = leaf(3.0, 3.0, 3.0)
        values, index = getattr(x, name)(0)
        values.backward()
        assert x.grad.tolist() == [float(i == index.item()) for i in range(3)]
    a, b = leaf(1.0, 2.0), leaf(1.0, 0.0)
    torch.maximum(a, b).sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([0.5, 1.0], [0.5, 0.0])
    x = leaf(-1.0, 0.5, 1.0)
    x.clamp(-1, 1).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


# --- what is recorded -----------------------------------------------------------------------------------------------


def test_recording_depends_on_the_inputs(torch, leaf):
    """One input that requires a gradient is enough; results that none needs have no history, nor have integers."""
    x, plain = leaf(1.0, 2.0), torch.ones(2, dtype=torch.float64)
    assert (x + plain).requires_grad and not (plain + plain).requires_grad
    for y in (x.argmax(), x > 0, x.long(), x.sort()[1], x.detach() * 2):
        assert not y.requires_grad and y.is_leaf and y.grad_fn is None


def test_a_frozen_part(torch, leaf):
    """What does not require a gradient gets none, and what only leads there is not differentiated."""
    calls = []
    frozen, head = leaf(1.0, 2.0).requires_grad_(False), leaf(3.0, 4.0)
    features = frozen * 2
    assert features.grad_fn is None
    (features * head).sum().backward()
    assert frozen.grad is None and head.grad.tolist() == [2.0, 4.0]
    frozen.requires_grad_()
    out = (frozen * head).sum()
    out.grad_fn.next_functions[0][0].register_hook(lambda gi, go: calls.append([g is None for g in gi]))
    out.backward(inputs=[head])
    assert frozen.grad is None and len(calls) == 1


def test_modes_and_what_makes_leaves(torch):
    """Recording can be off while leaves are made: what asks for requires_grad gets it."""
    with torch.no_grad():
        x = torch.zeros(2, requires_grad=True)
        y = torch.nn.Parameter(torch.zeros(2))
        assert x.requires_grad and y.requires_grad and not (x * 2).requires_grad
        x.add_(1)                        # an optimizer's way
    assert x.is_leaf and (x * 2).requires_grad and x.tolist() == [1.0, 1.0]
    with torch.no_grad(), torch.enable_grad():
        assert (x * 2).requires_grad
    with torch.inference_mode():
        assert not (x * 2).requires_grad
        with torch.inference_mode(False):
            assert (x * 2).requires_grad


def test_evaluation_is_no_grad_mode(torch):
    """eval() changes what layers do, not what is recorded."""
    layer = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.5)).eval()
    assert layer(torch.ones(2)).requires_grad


# --- which hooks and nodes run --------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["backward", "backward inputs=[x]", "backward inputs=[z]", "grad x", "grad z"])
def test_which_hooks_run(torch, leaf, call):
    """A tensor's hooks run where its gradient is computed; a node's only where the node runs, which that of an input of
    grad() need not; the hook after accumulation only where .grad was written."""
    x = leaf(1.0)
    z = x * 2
    y = z * 3
    calls = []
    x.register_hook(lambda g: calls.append("x"))
    x.register_post_accumulate_grad_hook(lambda t: calls.append("x.grad"))
    z.register_hook(lambda g: calls.append("z"))
    z.grad_fn.register_prehook(lambda g: calls.append("before z"))
    z.grad_fn.register_hook(lambda gi, go: calls.append("after z"))
    y.grad_fn.register_hook(lambda gi, go: calls.append("after y"))
    if call == "backward":
        y.backward()
        assert calls == ["after y", "z", "before z", "after z", "x", "x.grad"]
    elif call == "backward inputs=[x]":
        y.backward(inputs=[x])
        assert calls == ["after y", "z", "before z", "after z", "x", "x.grad"]
    elif call == "backward inputs=[z]":
        y.backward(inputs=[z])
        assert calls[:2] == ["after y", "z"] and "x" not in calls and z.grad.tolist() == [3.0]
    elif call == "grad x":
        torch.autograd.grad(y, x)
        assert calls == ["after y", "z", "before z", "after z", "x"]
    else:
        torch.autograd.grad(y, z)
        assert calls == ["after y", "z"]


def test_a_retained_gradient_is_what_all_hooks_leave(torch, leaf):
    """retain_grad() comes last, whenever it was called; after a change in place it belongs to the new value."""
    x = leaf(1.0)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    (y * 1).backward()
    assert y.grad.tolist() == [10.0] and x.grad.tolist() == [20.0]
    y = x * 2
    y.retain_grad()
    y.mul_(7)
    (y * 3).backward()
    assert y.grad.tolist() == [3.0]


# --- threads --------------------------------------------------------------------------------------------------------


def in_threads(*works):
    """Runs all at once; the errors."""
    errors, start = [], threading.Barrier(len(works))

    def run(work):
        start.wait()
        try:
            work()
        except RuntimeError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_threads_that_share_the_first_part_of_a_graph(torch, leaf):
    """It is freed by one of them: the others are told, unless the graph is retained."""
    x = leaf(1.0, 2.0)
    shared = (x * x).sum()
    errors = in_threads(*[lambda k=k: (shared * k).backward() for k in (2, 3)])
    assert len(errors) <= 1 and all("a second time" in error for error in errors)
    x.grad = None
    shared = (x * x).sum()
    assert in_threads(*[lambda k=k: (shared * k).backward(retain_graph=True) for k in (2, 3, 4)]) == []
    assert x.grad.tolist() == [18.0, 36.0]


def test_threads_that_accumulate_into_one_leaf(torch, leaf):
    """No gradient is lost, and hooks see each of them."""
    x = leaf(1.0, 2.0)
    calls = []
    x.register_hook(lambda g: calls.append(g.tolist()))

    def work():
        for _ in range(50):
            (x * 3).sum().backward()

    assert in_threads(*[work] * 4) == []
    assert x.grad.tolist() == [600.0, 600.0] and calls == [[3.0, 3.0]] * 200


def test_modes_begin_anew_in_a_thread(torch, leaf):
    x = leaf(1.0)
    seen = []
    with torch.no_grad():
        assert in_threads(lambda: seen.append((x * 2).requires_grad)) == []
    assert seen == [True]


def test_grad_in_threads_touches_no_leaf(torch, leaf):
    """autograd.grad() of several threads over one graph gives each its own."""
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    seen = {}

    def work(k):
        seen[k], = torch.autograd.grad(y * k, x, retain_graph=True)

    assert in_threads(*[lambda k=k: work(k) for k in (1, 2, 3)]) == []
    assert [seen[k].tolist() for k in (1, 2, 3)] == [[2.0 * k, 4.0 * k] for k in (1, 2, 3)]
    assert x.grad is None
