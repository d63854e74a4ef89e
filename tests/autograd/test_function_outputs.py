"""What a Function may return and write: inputs, views, the same tensor twice, no tensors; what its node shows."""
import gc
import warnings
import weakref

import pytest


@pytest.fixture
def function(torch):
    """Make a Function of a forward and a backward."""
    def make(forward, backward=None, **more):
        methods = {"forward": staticmethod(forward)}
        if backward is not None:
            methods["backward"] = staticmethod(backward)
        methods |= {name: staticmethod(f) for name, f in more.items()}
        return type("Made", (torch.autograd.Function,), methods)

    return make


def state(t):
    """(name of grad_fn, requires_grad, is a view, version)"""
    name = None if t.grad_fn is None else t.grad_fn.name().rpartition(":")[2]
    return name, t.requires_grad, t._is_view(), t._version


# --- the node -------------------------------------------------------------------------------------------------------


def test_only_tensors_have_edges(torch, leaf, function):
    scaled = function(lambda ctx, a, k, b: a * k * b, lambda ctx, g: (g, None, g))
    seen = []
    for x, y in ((leaf(1.0), leaf(2.0)), (torch.ones(1), leaf(2.0))):
        z = scaled.apply(x, 2, y)
        edges = z.grad_fn.next_functions
        assert [node is not None for node, _ in edges] == [x.requires_grad, True]
        z.grad_fn.register_hook(lambda given, arrived: seen.append((len(given), len(arrived))))
        z.backward()
    assert seen == [(2, 1), (2, 1)]
    with pytest.raises(RuntimeError, match="returned a gradient different than None at position 2"):
        function(lambda ctx, a, k: a * k, lambda ctx, g: (g, g)).apply(leaf(1.0), 2).backward()


def test_what_the_node_shows(torch, leaf, function):
    made = function(lambda ctx, a: a * 2, lambda ctx, g: g * 2)
    node = made.apply(leaf(1.0)).grad_fn
    assert node.name() == type(node).__name__ == "MadeBackward" and type(node)._forward_cls is made
    assert isinstance(node, torch.autograd.graph.Node) and isinstance(node, torch.autograd.function.FunctionCtx)
    assert node.metadata == {} and node.needs_input_grad == (True,) and node.saved_tensors == ()
    assert "object at 0x" in repr(node)


def test_to_save_during_forward(torch, leaf, function):
    seen = []

    def forward(ctx, a):
        ctx.save_for_backward(a)
        ctx.save_for_backward(a * 2)
        seen.append(len(ctx.to_save))
        ctx.save_for_forward(a)
        return a * 1

    x = leaf(3.0)
    function(forward, lambda ctx, g: g * ctx.saved_tensors[0]).apply(x).backward()
    assert seen == [1] and x.grad.item() == 6.0
    for name in ("save_for_backward", "save_for_forward"):
        with pytest.raises((TypeError, AssertionError)):
            function(lambda ctx, a, name=name: getattr(ctx, name)(5)).apply(x)


# --- vjp ------------------------------------------------------------------------------------------------------------


def test_backward_may_be_called_vjp(torch, leaf, function):
    x = leaf(1.0)
    function(lambda ctx, a: a * 2, vjp=lambda ctx, g: g * 5).apply(x).backward()
    assert x.grad.item() == 5.0
    both = function(lambda ctx, a: a * 2, lambda ctx, g: g, vjp=lambda ctx, g: g)
    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
        both.apply(x).backward()
    with pytest.raises(NotImplementedError, match="either the backward or vjp method"):
        function(lambda ctx, a: a * 2).apply(x).backward()


# --- outputs --------------------------------------------------------------------------------------------------------


def test_outputs_that_are_no_tensors(torch, leaf, function):
    seen = []
    mixed = function(lambda ctx, a: (a * 2, 5, "s", None, [a]), lambda ctx, *grads: seen.append(grads) or grads[0] * 2)
    x = leaf(1.0)
    y, *others = mixed.apply(x)
    assert others[:3] == [5, "s", None] and others[3][0] is x
    y.backward()
    assert [None if g is None else g.item() for g in seen[0]] == [1.0, None, None, None, None]
    for value in (5, None, (), (5, None)):
        assert function(lambda ctx, a, value=value: value, lambda ctx, *g: None).apply(x) == value


def test_an_integer_output(torch, leaf, function):
    seen = []
    both = function(lambda ctx, a: (a * 1, a.long()), lambda ctx, g, h: seen.append((h.dtype, h.tolist())) or g)
    y, n = both.apply(leaf(1.0))
    assert state(n) == (None, False, False, 0)
    y.backward()
    assert seen == [(torch.int64, [0])]


def test_the_same_output_twice(torch, leaf, function):
    seen = []

    def forward(ctx, a):
        y = a * 1
        return y, y

    x = leaf(1.0)
    a, b = function(forward, lambda ctx, g, h: seen.append((g.item(), h.item())) or g + h).apply(x)
    assert a is b
    (a + 2 * b).backward()
    assert seen == [(0.0, 3.0)] and x.grad.item() == 3.0


def test_an_input_returned_as_it_is(torch, leaf, function):
    same = function(lambda ctx, a: a, lambda ctx, g: g * 2)
    x = leaf(1.0, 2.0)
    h, plain = x * 1, torch.ones(2)
    for given in (x, h):
        y = same.apply(given)
        assert y is not given and y._base is given and state(y) == ("MadeBackward", True, True, 0)
        with pytest.raises(RuntimeError, match=r"inside a custom Function|returned by a custom Function"):
            y.mul_(2)
    y = same.apply(plain)
    assert y is not plain and y._base is plain and state(y) == (None, False, True, 0)
    y.mul_(2)
    assert plain.tolist() == [2.0, 2.0]
    with torch.no_grad():
        y = same.apply(h)
    assert y is not h and state(y) == (None, False, False, 0)
    same.apply(h).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_view_of_an_input(torch, leaf, function):
    part = function(lambda ctx, a: a[:2], lambda ctx, g: torch.cat([g, g.new_zeros(1)]))
    x = leaf(1.0, 2.0, 3.0)
    h = x * 1
    v = part.apply(h)
    assert v._base is h and state(v) == ("MadeBackward", True, True, 0)
    with pytest.raises(RuntimeError, match=r"inside a custom Function|returned by a custom Function"):
        v.mul_(2)
    h.mul_(2)
    with pytest.raises(RuntimeError, match=r"inside a custom Function|returned by a custom Function"):
        v * 1
    several = function(lambda ctx, a: (a[:2], a[1:]), lambda ctx, g, k: torch.cat([g, k[1:]]))
    a, b = several.apply(x * 1)
    assert a.grad_fn is b.grad_fn
    with pytest.raises(RuntimeError, match="returns multiple views"):
        a.mul_(2)
    (a.sum() + 3 * b.sum()).backward()
    assert x.grad.tolist() == [1.0, 1.0, 3.0]


def test_a_tensor_that_forward_found_elsewhere(torch, leaf, function):
    other = leaf(5.0)
    y = function(lambda ctx, a: other, lambda ctx, g: g).apply(leaf(1.0))
    assert y is other and state(y) == ("MadeBackward", True, False, 0)


# --- changes in place -----------------------------------------------------------------------------------------------


def double(ctx, a):
    a.mul_(2)
    ctx.mark_dirty(a)
    return a


def test_a_dirty_view(torch, leaf, function):
    """The base gets the history; view and result are the same tensor."""
    doubled = function(double, lambda ctx, g: g * 2)
    x = leaf(1.0, 2.0, 3.0)
    base = x * 1
    view = base[:2]
    result = doubled.apply(view)
    assert result is view and state(view) == ("AsStridedBackward0", True, True, 2)
    assert state(base) == ("CopySlices", True, False, 2)
    base.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 1.0]


def test_a_dirty_view_of_a_plain_buffer(torch, leaf, function):
    def fill(ctx, a, b):
        ctx.mark_dirty(a)
        return a.copy_(b)

    x, buffer = leaf(1.0, 2.0), torch.zeros(3, dtype=torch.float64)
    function(fill, lambda ctx, g: (None, g * 3)).apply(buffer[:2], x)
    assert state(buffer) == ("CopySlices", True, False, 2)
    buffer.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_a_dirty_input_that_is_not_returned(torch, leaf, function):
    def lost(ctx, a):
        double(ctx, a)
        return a * 1

    for given in (leaf(1.0) * 1, torch.ones(1)):
        with pytest.raises(RuntimeError, match="marked as dirty during the forward method were not returned"):
            function(lost, lambda ctx, g: g).apply(given)


def test_dirty_tensors_that_are_no_inputs(torch, leaf, function):
    def forward(ctx, a):
        y = a * 1
        ctx.mark_dirty(y)
        return y

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        y = function(forward, lambda ctx, g: g).apply(leaf(1.0))
    assert state(y) == ("MadeBackward", True, False, 1)
    assert "not an input" in str(seen[0].message)
    for name in ("mark_dirty", "mark_non_differentiable"):
        with pytest.raises(RuntimeError, match=r"only accepts? variable|can only accept variables"):
            function(lambda ctx, a, name=name: getattr(ctx, name)(3) or a * 1, lambda ctx, g: g).apply(leaf(1.0) * 1)


def test_dirty_and_not_differentiable(torch, leaf, function):
    def forward(ctx, a):
        double(ctx, a)
        ctx.mark_non_differentiable(a)
        return a

    assert state(function(forward, lambda ctx, g: g).apply(leaf(1.0) * 1)) == (None, False, False, 2)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("run", [False, True])
def test_a_saved_dirty_output_makes_no_cycle(torch, leaf, function, whole, run):
    def forward(ctx, a):
        double(ctx, a)
        ctx.save_for_backward(a)
        return a

    doubled = function(forward, lambda ctx, g: g * ctx.saved_tensors[0])
    gc.collect()
    gc.disable()
    try:
        x = leaf(1.0, 2.0, 3.0)
        base = x * 1
        result = doubled.apply(base if whole else base[:2])
        alive = [weakref.ref(base), weakref.ref(result)]
        if run:
            result.sum().backward()
            assert x.grad.tolist() == [2.0, 4.0, 6.0 if whole else 0.0]
        del base, result
        assert all(r() is None for r in alive)
    finally:
        gc.enable()


def test_second_derivative_through_a_saved_dirty_view(torch, leaf, function):
    """y = x^2 of a part, in place; its derivative is computed from the result."""
    def forward(ctx, a):
        a.mul_(a.clone())
        ctx.mark_dirty(a)
        ctx.save_for_backward(a)
        return a

    squared = function(forward, lambda ctx, g: 2 * g * ctx.saved_tensors[0].sqrt())
    x = leaf(1.0, 2.0, 3.0)
    base = x * 1
    squared.apply(base[1:])
    g, = torch.autograd.grad((base * base).sum(), x, create_graph=True)
    h, = torch.autograd.grad(g.sum(), x)
    assert g.tolist() == pytest.approx([2.0, 32.0, 108.0]) and h.tolist() == pytest.approx([2.0, 48.0, 108.0])


# --- two-step style -------------------------------------------------------------------------------------------------


def test_setup_context_sees_defaults(torch, leaf, function):
    seen = []

    def setup(ctx, inputs, output):
        seen.append((len(inputs), inputs[1:], output.item()))
        ctx.save_for_backward(inputs[0])

    power = function(lambda a, n=3: a**n, lambda ctx, g: (g * ctx.saved_tensors[0], None), setup_context=setup)
    x = leaf(2.0)
    assert power.apply(x).grad_fn.needs_input_grad == (True, False)
    power.apply(x, 2).backward()
    assert seen == [(2, (3,), 8.0), (2, (2,), 4.0)] and x.grad.item() == 2.0


def test_needs_input_grad_does_not_depend_on_what_is_asked(torch, leaf, function):
    seen = []
    product = function(lambda ctx, a, b: a * b, lambda ctx, g: seen.append(ctx.needs_input_grad) or (g, g))
    a, b = leaf(1.0), leaf(2.0)
    product.apply(a, b).backward(inputs=[a])
    assert seen == [(True, True)] and b.grad is None


def test_a_complex_gradient_of_a_real_input(torch, leaf, function):
    x = leaf(1.0)
    imaginary = function(lambda ctx, a: a * 1, lambda ctx, g: g * 1j)
    with pytest.raises(RuntimeError):
        imaginary.apply(x).backward()
    assert x.grad is None
    z = torch.ones(1, dtype=torch.complex128, requires_grad=True)
    function(lambda ctx, a: a.real * 1, lambda ctx, g: g).apply(z).backward()
    assert z.grad.dtype == torch.complex128 and z.grad.tolist() == [1.0]


def test_materialize_grads_is_a_bool(torch, leaf, function):
    with pytest.raises(TypeError):
        function(lambda ctx, a: ctx.set_materialize_grads(1) or a * 1, lambda ctx, g: g).apply(leaf(1.0))


def test_pickling_drops_history(torch, leaf):
    """A tensor with history comes back as a leaf that requires a gradient."""
    import pickle

    y = leaf(1.0, 2.0) * 2
    z = pickle.loads(pickle.dumps(y))
    assert z.is_leaf and z.requires_grad and z.tolist() == [2.0, 4.0]
    with pytest.raises(RuntimeError, match="support the deepcopy protocol"):
        import copy

        copy.deepcopy(y)


def test_a_retained_gradient_is_that_of_the_new_value(torch, leaf, function):
    """A Function that writes its input: a kept .grad is what arrives at the result, as after an operation in place."""

    def write(ctx, a):
        a.mul_(0.5)
        ctx.mark_dirty(a)
        return a

    halved = function(write, lambda ctx, g: g * 0.5)
    x = leaf(1.0)
    y = x * 1
    y.retain_grad()
    z = halved.apply(y)
    assert z is y and y.retains_grad
    (z * 3).sum().backward()
    assert y.grad.tolist() == [3.0]
    assert x.grad.tolist() == [1.5]
