"""Custom functions: the contract between forward, backward and the context, and what happens when it is broken."""
import gc
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose


def make(torch, forward, backward=None, name="Custom", **more):
    """A Function class with the given halves."""
    body = {"forward": staticmethod(forward)} | more
    if backward is not None:
        body["backward"] = staticmethod(backward)
    return type(name, (torch.autograd.Function,), body)


# --- recording ------------------------------------------------------------------------------------------------------


def test_what_apply_records(torch, leaf):
    """One node in place of all that forward did, linked to the tensor arguments in their order."""
    f = make(torch, lambda ctx, a, k, b: (a * k).exp() + b, lambda ctx, g: (g, None, g), name="Blend")
    a, b = leaf(1.0), leaf(2.0)
    y = f.apply(a, 2.0, b)
    assert y.requires_grad
    assert not y.is_leaf
    assert y.grad_fn.name() == "BlendBackward"
    assert repr(y).endswith("grad_fn=<BlendBackward>)")
    assert [link[0].variable for link in y.grad_fn.next_functions if link[0] is not None] == [a, b]


def test_nothing_is_recorded_without_need(torch, leaf):
    """Without an input that requires a gradient, or under ``no_grad``, the result is a plain tensor."""
    f = make(torch, lambda ctx, x: x * 2, lambda ctx, g: g * 2)
    assert f.apply(torch.ones(2)).grad_fn is None
    with torch.no_grad():
        y = f.apply(leaf(1.0))
    assert (y.grad_fn, y.requires_grad) == (None, False)


def test_forward_does_not_record(torch, leaf):
    """Recording is off in forward, even when it was on, and back to the caller's mode afterwards, also after an
    error.
    """
    def forward(ctx, x, fail):
        assert not torch.is_grad_enabled()
        assert (x * 2).grad_fn is None
        if fail:
            raise KeyError("from forward")
        return x * 2

    f = make(torch, forward, lambda ctx, g: (g * 2, None))
    f.apply(leaf(1.0), False)
    assert torch.is_grad_enabled()
    with pytest.raises(KeyError, match="from forward"):
        f.apply(leaf(1.0), True)
    assert torch.is_grad_enabled()


def test_keyword_arguments_reach_forward(torch, leaf):
    """Keywords are passed on; their values count as plain arguments without gradients."""
    f = make(torch, lambda ctx, x, factor=2: x * factor, lambda ctx, g: g * 3)
    y = f.apply(leaf(1.0), factor=3)
    assert y.tolist() == [3.0]


def test_the_kind_of_the_result_is_kept(torch, leaf):
    """A single tensor comes back as a tensor, a tuple as a tuple, and what is not a tensor as it is."""
    x = leaf(1.0)
    assert isinstance(make(torch, lambda ctx, x: x * 2, lambda ctx, g: g).apply(x), torch.Tensor)
    one = make(torch, lambda ctx, x: (x * 2,), lambda ctx, g: g * 2).apply(x)
    assert isinstance(one, tuple)
    assert len(one) == 1
    y, nothing, text = make(torch, lambda ctx, x: (x * 2, None, "text"), lambda ctx, g, *rest: g * 2).apply(x)
    assert (nothing, text) == (None, "text")
    y.sum().backward()
    assert x.grad.tolist() == [2.0]


def test_the_two_step_style(torch, leaf, check_gradients):
    """Forward without a context, and ``setup_context`` that receives inputs and output."""
    seen = []

    def setup(ctx, inputs, output):
        x, k = inputs
        seen.append((x.tolist(), k, output.tolist()))
        ctx.save_for_backward(x)
        ctx.k = k

    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g * ctx.k * x ** (ctx.k - 1), None

    f = make(torch, lambda x, k: x ** k, backward, setup_context=staticmethod(setup))
    x = leaf(2.0, 3.0)
    f.apply(x, 3).sum().backward()
    assert seen == [([2.0, 3.0], 3, [8.0, 27.0])]
    assert x.grad.tolist() == [12.0, 27.0]
    check_gradients(lambda v: f.apply(v, 3), x)


# --- the context ----------------------------------------------------------------------------------------------------


def test_attributes_of_the_context(torch, leaf):
    """Whatever forward hangs on the context is there in backward; what it did not is an AttributeError."""
    def forward(ctx, x):
        ctx.shape, ctx.notes = x.shape, {"count": 3}
        return x.sum()

    def backward(ctx, g):
        with pytest.raises(AttributeError):
            _ = ctx.missing
        return g.expand(ctx.shape) * ctx.notes["count"]

    x = leaf(1.0, 2.0)
    make(torch, forward, backward).apply(x).backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_saved_inputs_are_the_inputs(torch, leaf):
    """A saved input comes back as the very tensor, with its history; a saved output comes back with this node as
    history.
    """
    seen = []

    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(x, y)
        return y

    def backward(ctx, g):
        x, y = ctx.saved_tensors
        seen.append((x, y.grad_fn, y.requires_grad))
        return g * y

    x = leaf(1.0)
    h = x * 1
    out = make(torch, forward, backward).apply(h)
    node = out.grad_fn
    out.sum().backward()
    (saved, saved_node, requires), = seen
    assert saved is h
    assert saved_node is node
    assert requires


def test_saving_again_replaces(torch, leaf):
    """The last call of ``save_for_backward`` counts."""
    def forward(ctx, x):
        ctx.save_for_backward(x, x)
        ctx.save_for_backward(x)
        return x * 1

    def backward(ctx, g):
        assert len(ctx.saved_tensors) == 1
        return g

    make(torch, forward, backward).apply(leaf(1.0)).sum().backward()


def test_a_function_that_saves_nothing(torch, leaf):
    """``saved_tensors`` is then the empty tuple."""
    def backward(ctx, g):
        assert ctx.saved_tensors == ()
        return g

    x = leaf(1.0)
    make(torch, lambda ctx, x: x * 1, backward).apply(x).sum().backward()
    assert x.grad.tolist() == [1.0]


def test_only_tensors_can_be_saved(torch, leaf):
    """Numbers belong on the context; saving one is a TypeError that says which argument it was."""
    def forward(ctx, x):
        ctx.save_for_backward(x, 3)
        return x * 1

    with pytest.raises(TypeError, match="int") as caught:
        make(torch, forward, lambda ctx, g: g).apply(leaf(1.0)).sum().backward()
    assert "1" in str(caught.value)


def test_saved_tensors_after_backward(torch, leaf):
    """Once backward has freed them, asking for them is the error of a second backward."""
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    y = make(torch, forward, lambda ctx, g: g * ctx.saved_tensors[0]).apply(leaf(1.0))
    node = y.grad_fn
    assert node.saved_tensors[0].tolist() == [1.0]
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        _ = node.saved_tensors
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_versions_of_saved_tensors_are_checked(torch, leaf):
    """A saved input or output that was changed in place is refused in ``saved_tensors``; one that was not saved is
    not.
    """
    for saved in (0, 1):
        def forward(ctx, x, saved=saved):
            y = x * 2
            ctx.save_for_backward((x, y)[saved])
            return y

        f = make(torch, forward, lambda ctx, g: g * ctx.saved_tensors[0] * 0 + g)
        x = leaf(1.0)
        h = x * 1
        y = f.apply(h)
        (h, y)[saved].add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
        assert x.grad is None
        h = x * 1
        y = f.apply(h)
        (h, y)[1 - saved].add_(1)
        y.sum().backward()
        assert x.grad.tolist() == [1.0]


def test_needs_input_grad_in_both_halves(torch, leaf):
    """Forward and backward see one flag for each argument."""
    seen = []

    def forward(ctx, a, b, k, c):
        seen.append(ctx.needs_input_grad)
        return a + b + k + c

    def backward(ctx, g):
        seen.append(ctx.needs_input_grad)
        return g, g, None, g

    a, b, c = leaf(1.0), torch.ones(1, dtype=torch.float64), leaf(1.0) * 2
    make(torch, forward, backward).apply(a, b, 5, c).sum().backward()
    assert seen == [(True, False, False, True)] * 2


# --- several outputs and missing gradients --------------------------------------------------------------------------


def test_unused_outputs_receive_zeros(torch, leaf):
    """By default a gradient that did not arrive is a tensor of zeros of the output's shape and type."""
    seen = []

    def backward(ctx, g1, g2):
        seen.append((g1.tolist(), g2.tolist(), g2.dtype))
        return g1 * 2

    x = leaf(1.0, 2.0)
    f = make(torch, lambda ctx, x: (x * 2, x.sum()), backward)
    f.apply(x)[0].sum().backward()
    assert seen == [([1.0, 1.0], 0.0, torch.float64)]


def test_or_none_on_request(torch, leaf):
    """After ``set_materialize_grads(False)`` it is ``None``."""
    seen = []

    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    def backward(ctx, g1, g2):
        seen.append((g1, g2 is None))
        return g2 * 3 if g1 is None else g1 * 2

    x = leaf(1.0)
    f = make(torch, forward, backward)
    f.apply(x)[1].sum().backward()
    assert seen[-1] == (None, False)
    f.apply(x)[0].sum().backward()
    assert seen[-1][1]
    assert x.grad.tolist() == [5.0]


def test_none_stops_the_gradient(torch, leaf):
    """``None`` in place of a gradient means that there is none: nothing is accumulated along that path."""
    stop = make(torch, lambda ctx, a, b, c: a * b * c, lambda ctx, g: (None, g * 5, None))
    a, b, c = leaf(2.0), leaf(3.0), leaf(4.0)
    stop.apply(a, b, c * 2).sum().backward()
    assert b.grad.tolist() == [5.0]
    assert [a.grad, c.grad] == [None, None]


def test_outputs_marked_non_differentiable(torch, leaf):
    """A marked output does not require a gradient; integer and bool results never do."""
    seen = []

    def forward(ctx, x):
        double, triple, order = x * 2, x * 3, x > 1
        ctx.mark_non_differentiable(triple)
        return double, triple, order

    def backward(ctx, g, *rest):
        seen.append([r.tolist() for r in rest])
        return g * 2

    x = leaf(1.0, 2.0)
    double, triple, order = make(torch, forward, backward).apply(x)
    assert [t.requires_grad for t in (double, triple, order)] == [True, False, False]
    assert triple.grad_fn is None
    double.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert seen[0][0] == [0.0, 0.0]


def test_inputs_marked_dirty(torch, leaf):
    """An input changed in place and returned is the same tensor with this node as its new history."""
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    f = make(torch, forward, lambda ctx, g: g * 3, name="Triple")
    x = leaf(1.0, 2.0)
    h = x * 1
    out = f.apply(h)
    assert out is h
    assert h.grad_fn.name() == "TripleBackward"
    assert h._version >= 1
    h.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_a_dirty_view_changes_its_base(torch, leaf):
    """When the dirty input is a view, the base takes part in the new history."""
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    f = make(torch, forward, lambda ctx, g: g * 3)
    x = leaf(1.0, 2.0)
    h = x * 1
    f.apply(h[:1])
    assert h.tolist() == [3.0, 2.0]
    h.sum().backward()
    assert x.grad.tolist() == [3.0, 1.0]


def test_a_dirty_leaf_is_refused(torch, leaf):
    """A leaf that requires a gradient cannot be marked dirty."""
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x

    with pytest.raises(RuntimeError, match="leaf"):
        make(torch, forward, lambda ctx, g: g).apply(leaf(1.0))


def test_a_dirty_input_must_be_returned(torch, leaf):
    """Marking an input dirty and returning something else is refused."""
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.clone()

    with pytest.raises(RuntimeError, match="dirty"):
        make(torch, forward, lambda ctx, g: g).apply(leaf(1.0) * 1)


def test_returning_an_input(torch, leaf):
    """An input returned as it is becomes a new tensor over the same memory, so the node is not lost."""
    f = make(torch, lambda ctx, x: x, lambda ctx, g: g * 7)
    x = leaf(1.0)
    y = f.apply(x)
    assert y is not x
    assert y.data_ptr() == x.data_ptr()
    assert x.is_leaf
    y.sum().backward()
    assert x.grad.tolist() == [7.0]


def test_returning_a_view_of_an_input(torch, leaf):
    """A view is an allowed result, and its gradient comes from the function's backward."""
    f = make(torch, lambda ctx, x: x.view(2, 1), lambda ctx, g: g.view(2) * 5)
    x = leaf(1.0, 2.0)
    y = f.apply(x)
    assert y.data_ptr() == x.data_ptr()
    y.sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]


# --- second derivatives ---------------------------------------------------------------------------------------------


def test_double_backward_through_inputs_and_outputs(torch, leaf, check_gradients):
    """Saved inputs and saved outputs both carry the second derivative, here of (e^x, x e^x)."""
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(x, y)
        return y, y * x

    def backward(ctx, g1, g2):
        x, y = ctx.saved_tensors
        return g1 * y + g2 * y * (1 + x)

    f = make(torch, forward, backward).apply
    x = leaf(0.3, -0.8)
    check_gradients(f, x)
    g, = torch.autograd.grad(f(x)[1].sum(), x, create_graph=True)
    v = np.array([0.3, -0.8])
    assert_allclose(g.tolist(), np.exp(v) * (1 + v), rtol=1e-12)
    assert_allclose(torch.autograd.grad(g.sum(), x)[0].tolist(), np.exp(v) * (2 + v), rtol=1e-12)


def test_once_differentiable(torch, leaf):
    """A backward marked ``once_differentiable`` runs unrecorded, and going through it a second time is refused."""
    from importlib import import_module

    once = import_module(torch.__name__ + ".autograd.function").once_differentiable

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @once
    def backward(ctx, g):
        assert not torch.is_grad_enabled()
        return g * 2 * ctx.saved_tensors[0]

    f = make(torch, forward, backward)
    x = leaf(3.0)
    g, = torch.autograd.grad(f.apply(x).pow(2).sum(), x, create_graph=True)
    assert g.tolist() == [108.0]
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


# --- broken contracts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("returned", "count"), [(1, "1"), (2, "2"), (4, "4")])
def test_wrong_number_of_gradients(torch, leaf, returned, count):
    """The error names the function, the number of arguments and the number returned; no gradient was written."""
    f = make(torch, lambda ctx, a, b, c: a * b * c, lambda ctx, g: (g,) * returned, name="Miscounts")
    leaves = leaf(1.0), leaf(2.0), leaf(3.0)
    with pytest.raises(RuntimeError, match="Miscounts") as caught:
        f.apply(*leaves).sum().backward()
    assert "3" in str(caught.value)
    assert count in str(caught.value)
    assert [x.grad for x in leaves] == [None] * 3


def test_more_gradients_are_allowed_if_they_are_none(torch, leaf):
    """Surplus ``None`` values do no harm."""
    x = leaf(1.0)
    make(torch, lambda ctx, x: x * 1, lambda ctx, g: (g, None, None)).apply(x).sum().backward()
    assert x.grad.tolist() == [1.0]


def test_a_gradient_for_an_argument_that_is_not_a_tensor(torch, leaf):
    """Only ``None`` may stand in the place of a plain argument; the error names function and place."""
    f = make(torch, lambda ctx, x, k: x * k, lambda ctx, g: (g, g), name="TooGenerous")
    with pytest.raises(RuntimeError, match="TooGenerous") as caught:
        f.apply(leaf(1.0), 2.0).sum().backward()
    assert "2" in str(caught.value)


def test_wrong_shape_of_a_gradient(torch, leaf):
    """The error names the function and both shapes."""
    for wrong, given in ((lambda g: torch.ones(5, dtype=torch.float64), "5"), (lambda g: g.sum(), "[]")):
        f = make(torch, lambda ctx, k, x: x * k, lambda ctx, g, wrong=wrong: (None, wrong(g)), name="Misshapes")
        x = leaf(1.0, 2.0)
        with pytest.raises(RuntimeError, match="Misshapes") as caught:
            f.apply(3.0, x).sum().backward()
        message = str(caught.value).replace("()", "[]")
        assert given in message
        assert "2" in message
        assert x.grad is None


def test_a_gradient_that_can_be_summed_to_the_shape(torch, leaf):
    """A gradient of the broadcast shape is summed, as for the library's own operations; a narrower type is converted.
    """
    x = leaf(1.0, 2.0)
    make(torch, lambda ctx, x: x * 1, lambda ctx, g: torch.ones(4, 2)).apply(x).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]
    assert x.grad.dtype is torch.float64


def test_a_gradient_that_is_not_a_tensor(torch, leaf):
    """A number is not a gradient."""
    f = make(torch, lambda ctx, x: x * 1, lambda ctx, g: 3.0, name="Number")
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="float"):
        f.apply(x).sum().backward()
    assert x.grad is None


def test_missing_halves(torch, leaf):
    """A class without forward cannot be applied; one without backward cannot be differentiated."""
    with pytest.raises(NotImplementedError, match="forward"):
        type("NoForward", (torch.autograd.Function,), {}).apply(leaf(1.0))
    y = make(torch, lambda ctx, x: x * 1).apply(leaf(1.0))
    with pytest.raises(NotImplementedError, match="backward"):
        y.sum().backward()


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_a_function_is_not_called_as_an_object(torch, leaf):
    """There are no function objects; the message shows the way to ``apply``'s style."""
    f = make(torch, lambda ctx, x: x * 1, lambda ctx, g: g)
    with pytest.raises(RuntimeError, match="static"):
        f()(leaf(1.0))


def test_wrong_arguments_of_forward(torch, leaf):
    """Too few arguments are Python's own TypeError, which names forward."""
    def forward(ctx, a, b):
        return a * b

    with pytest.raises(TypeError, match="forward"):
        make(torch, forward, lambda ctx, g: (g, g)).apply(leaf(1.0))
    assert torch.is_grad_enabled()


# --- life -----------------------------------------------------------------------------------------------------------


def test_a_dropped_function_is_freed_at_once(torch, leaf):
    """Context, saved input, saved output and attributes go when the result goes, without the garbage collector."""
    class Marker:
        pass

    watches = []

    def forward(ctx, x):
        y = x.exp()
        ctx.marker = Marker()
        watches.append(weakref.ref(ctx.marker))
        ctx.save_for_backward(x, y)
        return y

    f = make(torch, forward, lambda ctx, g: g * ctx.saved_tensors[1])
    x = leaf(1.0)
    gc.disable()
    try:
        y = f.apply(x)
        assert watches[0]() is not None
        del y
        y = f.apply(x)
        y.sum().backward()
        del y
        assert [w() for w in watches] == [None, None]
    finally:
        gc.enable()
