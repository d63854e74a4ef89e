"""The engine: order, accumulation, roots, what is kept, errors, nested passes, depth and the life of the graph."""
import gc
import sys
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose

import cygrad

# --- accumulation and roots -----------------------------------------------------------------------------------------


def test_diamond(leaf):
    """x -> (exp, square) -> product: both arms arrive at x before its gradient is complete."""
    x = leaf(0.5, 1.0)
    at = np.array([0.5, 1.0])
    (x.exp() * (x * x)).sum().backward()
    assert_allclose(x.grad.tolist(), np.exp(at) * (at ** 2 + 2 * at), rtol=1e-14)


def test_a_node_runs_after_all_its_consumers(torch, leaf):
    """Each intermediate value is visited once, with the complete gradient, although the arms differ in length."""
    calls = []

    class Watched(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            calls.append(g.tolist())
            return g

    x = leaf(2.0)
    h = Watched.apply(x)
    long_arm = h
    for _ in range(20):
        long_arm = long_arm * 1.0
    (long_arm + h * 3 + h).sum().backward()
    assert calls == [[5.0]]
    assert x.grad.tolist() == [5.0]


def test_exponentially_many_paths(leaf):
    """x doubled sixty times through y + y has 2^60 paths and sixty nodes; the engine walks over nodes."""
    x = leaf(1.0)
    y = x
    for _ in range(60):
        y = y + y
    y.sum().backward()
    assert x.grad.tolist() == [2.0 ** 60]


def test_backward_from_several_roots(torch, leaf):
    """Several roots, with or without gradients of their own, contribute together in one pass."""
    x = leaf(1.0, 2.0)
    shared = x * x
    vector = shared * 3
    scalar = shared.sum()
    torch.autograd.backward([vector, scalar], [torch.tensor([1.0, 10.0], dtype=torch.float64), None])
    assert x.grad.tolist() == [2 * 1 * (3 * 1 + 1), 2 * 2 * (3 * 10 + 1)]


def test_the_same_root_twice(torch, leaf):
    """A root that is given twice counts twice."""
    x = leaf(3.0)
    y = (x * x).sum()
    torch.autograd.backward([y, y])
    assert x.grad.tolist() == [12.0]


def test_a_leaf_as_root(torch, leaf):
    """Backward of a leaf puts the incoming gradient into the leaf."""
    x = leaf(1.0, 2.0)
    x.backward(torch.tensor([5.0, 6.0], dtype=torch.float64))
    assert x.grad.tolist() == [5.0, 6.0]


def test_accumulated_gradient_is_not_the_callers(torch, leaf):
    """Two leaves with equal gradients, and the incoming gradient, keep memory of their own."""
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    incoming = torch.tensor([1.0, 1.0], dtype=torch.float64)
    (x + y).backward(incoming)
    x.grad.mul_(0)
    assert y.grad.tolist() == [1.0, 1.0]
    assert incoming.tolist() == [1.0, 1.0]
    y.grad.mul_(7)
    assert incoming.tolist() == [1.0, 1.0]


@pytest.mark.filterwarnings("ignore:Using backward\\(\\) with create_graph:UserWarning")
def test_accumulation_in_place_keeps_the_gradient_object(leaf):
    """A second backward adds into the tensor that is there; with ``create_graph`` it puts a new one in its place."""
    x = leaf(2.0)
    (x * x).sum().backward()
    first = x.grad
    (x * x).sum().backward()
    assert x.grad is first
    assert first.tolist() == [8.0]
    (x * x).sum().backward(create_graph=True)
    assert x.grad is not first
    assert x.grad.tolist() == [12.0]
    assert x.grad.grad_fn is not None
    x.grad = None


def test_gradient_of_a_broadcast_operand_is_summed_back(torch):
    """Each operand receives a gradient of its own shape, whatever was added to the left or stretched."""
    big = np.arange(24.0).reshape(2, 3, 4)
    for shape in ((), (1,), (4,), (1, 4), (3, 1), (1, 1, 1), (2, 1, 4), (2, 3, 4)):
        p = torch.full(shape, 2.0, dtype=torch.float64, requires_grad=True)
        (torch.tensor(big) * p).sum().backward()
        lead = 3 - len(shape)
        want = big.sum(axis=tuple(range(lead)))
        want = want.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True)
        assert p.grad.shape == torch.Size(shape)
        assert_allclose(p.grad.tolist(), want.tolist())


def test_mixed_dtypes_get_gradients_of_their_own_dtype(torch):
    """A float32 operand of a float64 product gets a float32 gradient."""
    a = torch.tensor([1.0, 2.0], dtype=torch.float32, requires_grad=True)
    b = torch.tensor([3.0, 4.0], dtype=torch.float64, requires_grad=True)
    y = a * b
    assert y.dtype is torch.float64
    y.sum().backward()
    assert a.grad.dtype is torch.float32
    assert b.grad.dtype is torch.float64
    assert (a.grad.tolist(), b.grad.tolist()) == ([3.0, 4.0], [1.0, 2.0])


# --- what is kept ---------------------------------------------------------------------------------------------------


def test_retain_graph_on_a_shared_part(leaf):
    """Two losses over a common part: the first backward keeps it for the second."""
    x = leaf(3.0)
    common = x * x
    (2 * common).sum().backward(retain_graph=True)
    (3 * common).sum().backward()
    assert x.grad.tolist() == [30.0]


def test_a_freed_shared_part_raises_before_anything_is_accumulated(leaf):
    """Without ``retain_graph`` the second loss fails on the part that was freed, and the gradients stay."""
    x = leaf(3.0)
    common = (x * x).exp().log()
    common.sum().backward()
    before = x.grad.tolist()
    with pytest.raises(RuntimeError, match="second time"):
        (3 * common).sum().backward()
    assert x.grad.tolist() == before


def test_a_graph_that_saved_nothing_can_be_used_twice(leaf):
    """Addition and scaling by a number save no tensor, so there is nothing that a first backward could free."""
    x = leaf(1.0, 2.0)
    y = (x + x).sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [4.0, 4.0]


def test_backward_releases_what_was_saved(leaf):
    """After backward the intermediate values are gone even while the result lives."""
    x = leaf(2.0)
    h = x * 1
    watch = weakref.ref(h)
    y = (h * h).sum()
    del h
    y.backward(retain_graph=True)
    assert watch() is not None
    y.backward()
    assert watch() is None


def test_retain_grad_keeps_an_intermediate_gradient(torch, leaf):
    """Only leaves keep gradients, unless asked; on a leaf asking changes nothing."""
    x = leaf(2.0)
    h = x * x
    h.retain_grad()
    x.retain_grad()
    (h * 5).sum().backward()
    assert h.grad.tolist() == [5.0]
    assert x.grad.tolist() == [20.0]
    with pytest.raises(RuntimeError):
        torch.ones(2).retain_grad()


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_intermediate_gradients_are_dropped_otherwise(leaf):
    """Nothing is left in the ``.grad`` of an intermediate value."""
    x = leaf(2.0)
    h = x * x
    (h * 5).sum().backward()
    assert h.grad is None


# --- autograd.grad and inputs= --------------------------------------------------------------------------------------


def test_grad_for_inputs_in_any_order(torch, leaf):
    """Gradients come in the order of the inputs, for leaves and for intermediate values, the same one twice if asked.
    """
    a, b = leaf(2.0), leaf(5.0)
    h = a * b
    y = h * h
    got = torch.autograd.grad(y.sum(), [h, b, a, b])
    assert [g.tolist() for g in got] == [[20.0], [40.0], [100.0], [40.0]]
    assert [a.grad, b.grad] == [None, None]


def test_grad_of_an_output_by_itself(torch, leaf):
    """The derivative of a tensor by itself is the incoming gradient."""
    x = leaf(1.0, 2.0)
    y = x * 3
    g, = torch.autograd.grad(y, y, grad_outputs=torch.tensor([1.0, 2.0], dtype=torch.float64))
    assert g.tolist() == [1.0, 2.0]


def test_grad_stops_at_the_inputs(torch, leaf):
    """Nothing below the inputs is computed: the function there is not called, and its saved tensors survive."""
    called = []

    class Below(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            called.append(ctx.saved_tensors)
            return g * 2

    x = leaf(1.0)
    h = Below.apply(x)
    y = (h * h).sum()
    assert torch.autograd.grad(y, h, retain_graph=True)[0].tolist() == [4.0]
    assert called == []
    y.backward()
    assert len(called) == 1
    assert x.grad.tolist() == [8.0]


def test_allow_unused_and_materialize(torch, leaf):
    """An input without a path: an error, ``None``, or zeros, as the caller chose."""
    x, other = leaf(1.0), leaf(1.0, 2.0)
    y = (x * 2).sum()
    with pytest.raises(RuntimeError, match="allow_unused"):
        torch.autograd.grad(y, [x, other], retain_graph=True)
    assert torch.autograd.grad(y, [other], allow_unused=True, retain_graph=True) == (None,)
    zeros, = torch.autograd.grad(y, [other], materialize_grads=True)
    assert zeros.tolist() == [0.0, 0.0]


def test_backward_into_chosen_leaves_only(leaf):
    """``backward(inputs=...)`` accumulates into the tensors named and leaves the others alone."""
    a, b = leaf(2.0), leaf(5.0)
    (a * b).sum().backward(inputs=[b])
    assert a.grad is None
    assert b.grad.tolist() == [2.0]
    (a * b).sum().backward(inputs=a)
    assert a.grad.tolist() == [5.0]
    with pytest.raises(RuntimeError, match="inputs"):
        (a * b).sum().backward(inputs=[])


def test_second_derivatives_reach_only_what_they_depend_on(torch, leaf):
    """The derivative of a * b by a is b: its own derivative exists for b only."""
    a, b = leaf(2.0), leaf(3.0)
    ga, = torch.autograd.grad((a * b).sum(), a, create_graph=True)
    ga.backward()
    assert a.grad is None
    assert b.grad.tolist() == [1.0]


def test_third_derivative_through_create_graph(torch, leaf):
    """d^3/dx^3 (x^4 sin x), by hand."""
    x = leaf(0.7, -1.3)
    v = np.array([0.7, -1.3])
    y = (x ** 4 * x.sin()).sum()
    for _ in range(3):
        y = torch.autograd.grad(y.sum(), x, create_graph=True)[0]
    want = 24 * v * np.sin(v) + 36 * v**2 * np.cos(v) - 12 * v**3 * np.sin(v) - v**4 * np.cos(v)
    assert_allclose(y.tolist(), want, rtol=1e-12)


def test_create_graph_keeps_the_graph(torch, leaf):
    """``create_graph`` implies ``retain_graph``."""
    x = leaf(2.0)
    y = (x * x).sum()
    torch.autograd.grad(y, x, create_graph=True)
    y.backward()
    assert x.grad.tolist() == [4.0]


# --- errors on the way ----------------------------------------------------------------------------------------------


@pytest.fixture
def fragile(torch):
    """Identity whose backward fails as long as its switch is on."""
    switch = {"broken": True}

    class Fragile(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            if switch["broken"]:
                raise ZeroDivisionError("from backward")
            return g + 0 * ctx.saved_tensors[0]

    return Fragile.apply, switch


def test_an_exception_reaches_the_caller(torch, leaf, fragile):
    """The user's own exception comes out of backward as it was raised, and no gradient below it was written."""
    f, _ = fragile
    x = leaf(2.0)
    x.grad = torch.tensor([7.0], dtype=torch.float64)
    y = f(x * x).sum()
    with pytest.raises(ZeroDivisionError, match="from backward"):
        y.backward()
    assert x.grad.tolist() == [7.0]
    hooked = x * x
    hooked.register_hook(lambda g: {}["missing"])
    with pytest.raises(KeyError, match="missing"):
        hooked.sum().backward()
    assert x.grad.tolist() == [7.0]


def test_a_failed_backward_leaves_nothing_half_done(torch, leaf, fragile):
    """Gradients that were waiting when backward failed are forgotten: a second attempt gives the plain result."""
    f, switch = fragile
    x = leaf(2.0)
    h = x * x
    y = (f(h) + h * 3).sum()
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            y.backward(retain_graph=True)
    assert torch.is_grad_enabled()
    switch["broken"] = False
    y.backward()
    assert x.grad.tolist() == [16.0]
    z = leaf(3.0)
    (z * z).sum().backward()
    assert z.grad.tolist() == [6.0]


def test_arguments_are_checked_before_anything_runs(torch, leaf):
    """Wrong incoming gradients raise before the first node is visited, so not even other roots have had an effect."""
    x, z = leaf(1.0, 2.0), leaf(1.0)
    good, bad = (z * 2).sum(), x * x
    for grads in ([None, torch.ones(3, dtype=torch.float64)], [None, None], [None]):
        with pytest.raises(RuntimeError):
            torch.autograd.backward([good, bad], grads)
    assert [x.grad, z.grad] == [None, None]
    good.backward()
    assert z.grad.tolist() == [2.0]


# --- backward inside backward ---------------------------------------------------------------------------------------


def test_backward_inside_backward(torch, leaf):
    """A function may build and differentiate a graph of its own while the outer pass is under way."""

    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.y = ctx.x ** 3
            return ctx.y.detach()

        @staticmethod
        def backward(ctx, g):
            ctx.y.backward(g)
            return ctx.x.grad

    x = leaf(2.0)
    h = x * 5
    y = Inner.apply(h) + h
    y.sum().backward()
    assert x.grad.tolist() == [5 * (3 * 100 + 1)]


def test_backward_inside_backward_over_the_same_nodes(torch, leaf):
    """An inner pass may go through nodes for which the outer pass still collects; neither disturbs the other."""
    x = leaf(3.0)
    h = x * x
    k = h * 2
    inner_result = []

    class Peek(torch.autograd.Function):
        @staticmethod
        def forward(ctx, v):
            return v * 1

        @staticmethod
        def backward(ctx, g):
            inner_result.append(torch.autograd.grad(k, x, retain_graph=True)[0].tolist())
            return g

    (Peek.apply(h) + h * 10 + k).sum().backward()
    assert inner_result == [[12.0]]
    assert x.grad.tolist() == [6.0 * 13]


def test_deeply_nested_backward(torch, leaf):
    """Fifty passes, each started by the one before."""

    class Nest(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            if ctx.depth == 0:
                return g * 2, None
            with torch.enable_grad():
                inner = ctx.saved_tensors[0].detach().requires_grad_()
                Nest.apply(inner, ctx.depth - 1).sum().backward()
            return g * inner.grad, None

    x = leaf(1.0)
    Nest.apply(x, 50).sum().backward()
    assert x.grad.tolist() == [2.0]


# --- depth ----------------------------------------------------------------------------------------------------------


def test_a_million_operations(run_child):
    """A chain of a million operations can be built, differentiated and dropped on a small stack, in both directions."""
    out = run_child("""
        import threading
        def work():
            x = torch.ones(1, requires_grad=True)
            y = x
            for _ in range(1_000_000):
                y = y * 1.0
            y.backward()
            print(x.grad.item())
            y = x
            for _ in range(1_000_000):
                y = y + x
            del y
            print("dropped")
        threading.stack_size(1 << 20)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        """, timeout=300)
    assert out.split() == ["1.0", "dropped"]


def test_a_long_chain_dropped_during_backward(run_child):
    """The graph of a gradient of a long chain, and a chain inside a cycle that the collector finds, are dropped as
    well.
    """
    out = run_child("""
        import gc
        x = torch.ones(1, requires_grad=True)
        y = x
        for _ in range(100_000):
            y = y * x
        g, = torch.autograd.grad(y, x, create_graph=True)
        print(g.item())
        del y, g
        y = x
        for _ in range(100_000):
            y = y * 1.0
        y.register_hook(lambda g, keep=[y]: None)
        del y
        gc.collect()
        print("collected")
        """, timeout=300)
    assert out.split() == ["100001.0", "collected"]


def test_a_long_chain_that_was_looked_at(run_child):
    """Nodes get their own class when somebody sees them; chains of such nodes are freed without recursion too."""
    out = run_child("""
        import gc
        gc.disable()
        x = torch.ones(1, requires_grad=True)
        y = x
        for i in range(300_000):
            y = y + x if i % 3 else y * 1.0
            if i % 2:
                y.grad_fn
        y.sum().backward(retain_graph=True)
        del y
        print(x.grad.item())
        """)
    assert out == "200001.0"


def test_depth_is_not_bounded_by_the_recursion_limit(run_child):
    """Python's recursion limit plays no part."""
    out = run_child("""
        import sys
        x = torch.ones(1, requires_grad=True)
        y = x
        for _ in range(5000):
            y = (y + 1) * 1.0
        sys.setrecursionlimit(60)
        y.backward()
        sys.setrecursionlimit(1000)
        print(x.grad.item())
        """)
    assert out == "1.0"


# --- life of the graph ----------------------------------------------------------------------------------------------


def test_a_graph_dies_without_the_collector(leaf):
    """No reference cycle arises in ordinary use: dropping the result frees everything at once."""
    gc.disable()
    try:
        x = leaf(1.0)
        h = x.exp()
        watches = [weakref.ref(h)]
        y = h * h
        watches.append(weakref.ref(y))
        z = y.sum()
        del h, y, z
        assert [w() for w in watches] == [None, None]
    finally:
        gc.enable()


def test_a_cycle_through_a_hook_is_collected(leaf, beyond_pytorch):
    """A hook that holds its own tensor is a cycle, and the collector can see it."""
    class Marker:
        pass

    x = leaf(1.0)
    h = x * 2
    marker = Marker()
    watch = weakref.ref(marker)
    h.register_hook(lambda g, keep=(h, marker): None)
    del h, marker
    gc.collect()
    assert watch() is None


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="the layout of Python's objects is not known yet")
def test_a_growing_graph_does_not_keep_the_collector_busy():
    """Nodes are not counted singly, or it would run some thirty times here, over all of them again and again."""
    x, c, runs = cygrad.ones(1, requires_grad=True), cygrad.ones(1), []

    def began(phase, info):
        if phase == "start":
            runs.append(info["generation"])

    gc.collect()
    gc.callbacks.append(began)
    try:
        y = x
        for _ in range(20_000):
            y = y + c
    finally:
        gc.callbacks.remove(began)
    assert len(runs) < 5
    y.backward()
    assert x.grad.tolist() == [1]


@pytest.mark.parametrize("argument", ["retain_graph", "create_graph"])
def test_switches_of_a_backward_pass_are_bool(argument):
    x = cygrad.ones(2, requires_grad=True)
    for wrong in ("no", 1.0, [], object()):
        with pytest.raises(TypeError, match=argument):
            x.sum().backward(**{argument: wrong})
        with pytest.raises(TypeError, match=argument):
            cygrad.autograd.grad(x.sum(), x, **{argument: wrong})
    with pytest.raises(TypeError, match="allow_unused"):
        cygrad.autograd.grad(x.sum(), x, allow_unused="no")
    assert x.grad is None
    x.sum().backward(**{argument: 1})
    assert x.grad.tolist() == [1, 1]


def test_a_leaf_that_is_none_any_more_may_have_any_shape(torch, leaf):
    """It gets no gradient, so none has to fit."""
    x = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    y = (x * 2).sum()
    x.requires_grad_(False)
    x.t_()
    y.backward()
    assert x.grad is None and x.shape == (3, 2)


def test_a_wrong_gradient_is_refused_at_a_leaf_that_is_none_any_more(torch, leaf):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return torch.ones(5, 7, dtype=grad.dtype)

    x = leaf(1.0, 2.0)
    y = Wrong.apply(x)
    x.requires_grad_(False)
    with pytest.raises(RuntimeError, match="invalid gradient at index 0"):
        y.sum().backward()


def test_a_gradient_that_is_a_view_of_a_leaf(torch, leaf):
    """A sum hands the gradient that it was given on as a view of it: one of a leaf stays one."""
    x, w = leaf(1.0, 2.0), torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    (g,) = torch.autograd.grad(x.sum(), x, w)
    assert g.tolist() == [3.0, 3.0] and g.requires_grad


def test_every_row_has_a_gradient(beyond_pytorch):
    """A node without one would end the process; a row that lacks one is given one that raises, and is listed."""
    from cygrad.autograd import rows

    assert rows.WITHOUT_GRADIENT == []
