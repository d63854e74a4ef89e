"""Lesson 4: writing operations of one's own."""
import ctypes
import ctypes.util
import gc
import math
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose

# --- the linear function --------------------------------------------------------------------------------------------


@pytest.fixture
def linear(torch):
    """The chapter's function: x @ w.T + b, with an optional bias."""

    class LinearFunction(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, bias=None):
            ctx.save_for_backward(x, weight, bias)
            y = x @ weight.t()
            return y if bias is None else y + bias

        @staticmethod
        def backward(ctx, g):
            x, weight, bias = ctx.saved_tensors
            grad_x = g @ weight if ctx.needs_input_grad[0] else None
            grad_weight = g.t() @ x if ctx.needs_input_grad[1] else None
            grad_bias = g.sum(0) if bias is not None and ctx.needs_input_grad[2] else None
            return grad_x, grad_weight, grad_bias

    return LinearFunction.apply


@pytest.fixture
def operands(torch):
    """x, w and b of the chapter's worked example."""
    x = torch.tensor([[1., 2., 3.], [4., 5., 6.]], requires_grad=True)
    w = torch.tensor([[.1, .2, .3], [.4, .5, .6]], requires_grad=True)
    b = torch.tensor([.01, .02], requires_grad=True)
    return x, w, b


def test_the_worked_example(linear, operands):
    """The forward half computes what the chapter prints."""
    y = linear(*operands)
    assert_allclose(y.tolist(), [[1.41, 3.22], [3.21, 7.72]], rtol=1e-6)
    assert y.requires_grad
    assert repr(y.grad_fn).startswith("<")
    assert "LinearFunctionBackward" in repr(y.grad_fn)
    assert y.grad_fn.name() == "LinearFunctionBackward"


def test_its_gradients(torch, linear, operands):
    """The backward half gives the gradients of the same formula written with the library's own operations."""
    x, w, b = operands
    incoming = torch.tensor([[1., 2.], [3., 4.]])
    linear(x, w, b).backward(incoming)
    own = [p.grad.tolist() for p in operands]
    for p in operands:
        p.grad = None
    (x @ w.t() + b).backward(incoming)
    for mine, theirs in zip(own, operands, strict=True):
        assert_allclose(mine, theirs.grad.tolist(), rtol=1e-6)
    assert own[2] == [4., 6.]


def test_an_optional_input_may_be_left_out(torch, linear, operands):
    """Without the bias, ``None`` is saved, and backward returns ``None`` in its place."""
    x, w, _ = operands
    for y in (linear(x, w), linear(x, w, None)):
        assert_allclose(y.tolist(), [[1.4, 3.2], [3.2, 7.7]], rtol=1e-6)
    y.sum().backward()
    assert_allclose(w.grad.tolist(), [[5., 7., 9.], [5., 7., 9.]])


def test_only_what_is_needed(torch, linear):
    """``needs_input_grad`` spares the products that nobody asked for."""
    x = torch.ones(2, 3)
    w = torch.ones(2, 3, requires_grad=True)
    b = torch.ones(2)
    linear(x, w, b).sum().backward()
    assert w.grad.tolist() == [[2.] * 3] * 2
    assert x.grad is None
    assert b.grad is None


# --- the contract ---------------------------------------------------------------------------------------------------


def test_apply_records_and_forward_does_not(torch):
    """``apply`` runs forward without recording and puts one node in its place; a direct call of forward is just a
    call.
    """
    states = []

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            states.append(torch.is_grad_enabled())
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = torch.tensor([1., 2.], requires_grad=True)
    y = Twice.apply(x)
    assert states == [False]
    assert y.grad_fn.name() == "TwiceBackward"
    assert y.grad_fn.next_functions[0][0].variable is x
    assert Twice.forward(None, x).grad_fn.name() == "MulBackward0"


def test_saved_tensors_come_back_in_order(torch):
    """``saved_tensors`` is a tuple in the order of saving, with ``None`` where ``None`` was saved; other values are
    attributes.
    """
    seen = {}

    class Saving(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, power, label):
            y = x ** power
            ctx.save_for_backward(x, None, y)
            ctx.power, ctx.label = power, label
            return y

        @staticmethod
        def backward(ctx, g):
            x, nothing, y = ctx.saved_tensors
            seen.update(kind=type(ctx.saved_tensors), x=x, nothing=nothing, y=y, label=ctx.label)
            return g * ctx.power * x ** (ctx.power - 1), None, None

    x = torch.tensor([1., 2.], requires_grad=True)
    y = Saving.apply(x, 3, "cube")
    y.sum().backward()
    assert seen["kind"] is tuple
    assert seen["x"] is x
    assert seen["nothing"] is None
    assert seen["y"].tolist() == [1., 8.]
    assert seen["label"] == "cube"
    assert x.grad.tolist() == [3., 12.]


def test_needs_input_grad_mirrors_the_arguments(torch):
    """There is one entry for each argument of forward, ``False`` for what is not a tensor or needs no gradient."""
    seen = []

    class Look(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, number, b, text):
            seen.append(ctx.needs_input_grad)
            return a + b * number

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.needs_input_grad)
            return None, None, g * 2., None

    a = torch.tensor([1.])
    b = torch.tensor([1.], requires_grad=True)
    Look.apply(a, 2., b, "text").backward()
    assert seen == [(False, False, True, False)] * 2
    assert b.grad.tolist() == [2.]


def test_one_gradient_arrives_for_each_output(torch):
    """A function with two results gets two gradients, zeros for a result that was not used."""
    arrived = []

    class SumAndProduct(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a + b, a * b

        @staticmethod
        def backward(ctx, g_sum, g_product):
            arrived.append((g_sum.tolist(), g_product.tolist()))
            a, b = ctx.saved_tensors
            return g_sum + g_product * b, g_sum + g_product * a

    a = torch.tensor([2.], requires_grad=True)
    b = torch.tensor([5.], requires_grad=True)
    total, product = SumAndProduct.apply(a, b)
    assert total.grad_fn is product.grad_fn
    (total * 10 + product).backward()
    assert (a.grad.item(), b.grad.item()) == (15., 12.)
    _, product = SumAndProduct.apply(a, b)
    product.backward()
    assert arrived == [([10.], [1.]), ([0.], [1.])]


def test_a_wrong_number_of_gradients_is_an_error(torch):
    """Backward must return as many gradients as forward had arguments; the error names the function and both numbers.
    """

    class Forgetful(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b, c):
            return a * b * c

        @staticmethod
        def backward(ctx, g):
            return g, g

    a, b, c = (torch.tensor([float(i)], requires_grad=True) for i in (1, 2, 3))
    with pytest.raises(RuntimeError, match="Forgetful") as caught:
        Forgetful.apply(a, b, c).backward()
    assert "3" in str(caught.value)
    assert "2" in str(caught.value)
    assert [v.grad for v in (a, b, c)] == [None, None, None]


def test_a_gradient_of_the_wrong_shape_is_an_error(torch):
    """A gradient must have the shape of its input; the error names the function and both shapes."""

    class Careless(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.sum()

        @staticmethod
        def backward(ctx, g):
            return torch.ones(7)

    x = torch.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="Careless") as caught:
        Careless.apply(x).backward()
    for number in ("7", "2, 3"):
        assert number in str(caught.value)
    assert x.grad is None


# --- what it is good for --------------------------------------------------------------------------------------------


def test_foreign_code_in_numpy(torch):
    """A function may leave the library altogether: here NumPy sorts, and backward carries the gradients to where they
    came from.
    """

    class NumpySort(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            array = x.detach().numpy()
            order = np.argsort(array)
            ctx.order = order
            return torch.from_numpy(array[order])

        @staticmethod
        def backward(ctx, g):
            out = np.empty(len(ctx.order), dtype=np.float32)
            out[ctx.order] = g.numpy()
            return torch.from_numpy(out)

    x = torch.tensor([3., 1., 2.], requires_grad=True)
    y = NumpySort.apply(x)
    assert y.tolist() == [1., 2., 3.]
    (y * torch.tensor([1., 10., 100.])).sum().backward()
    assert x.grad.tolist() == [100., 1., 10.]


def test_foreign_code_in_c(torch):
    """C code gets the address of the storage and needs to know nothing of tensors: here the C library's ``cbrt``."""
    library = ctypes.CDLL(ctypes.util.find_library("m") or None)
    library.cbrt.restype, library.cbrt.argtypes = ctypes.c_double, [ctypes.c_double]

    class CubeRoot(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            source = x.contiguous()
            y = torch.empty_like(source)
            block = ctypes.c_double * x.numel()
            numbers, results = block.from_address(source.data_ptr()), block.from_address(y.data_ptr())
            for i in range(x.numel()):
                results[i] = library.cbrt(numbers[i])
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            y, = ctx.saved_tensors
            return g / (3 * y * y)

    x = torch.tensor([8., 27., -64.], dtype=torch.float64, requires_grad=True)
    y = CubeRoot.apply(x)
    assert_allclose(y.tolist(), [2., 3., -4.], rtol=1e-15)
    y.sum().backward()
    assert_allclose(x.grad.tolist(), [1 / 12, 1 / 27, 1 / 48], rtol=1e-14)


def test_a_gradient_that_is_cheaper_and_safer(torch):
    """log(1 + e^x) recorded piece by piece overflows on the way back; its own function knows that the derivative is a
    sigmoid.
    """

    class SoftPlus(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(min=0) + torch.log1p(torch.exp(-x.abs()))

        @staticmethod
        def backward(ctx, g):
            x, = ctx.saved_tensors
            return g * torch.sigmoid(x)

    numbers = [-1000., -1., 0., 1., 1000.]
    naive = torch.tensor(numbers, requires_grad=True)
    torch.log(1 + torch.exp(naive)).sum().backward()
    assert math.isnan(naive.grad[4].item())

    x = torch.tensor(numbers, requires_grad=True)
    y = SoftPlus.apply(x)
    y.sum().backward()
    assert_allclose(y.tolist(), np.logaddexp(0, numbers), rtol=1e-6)
    assert_allclose(x.grad.tolist(), [0., 1 / (1 + math.e), 0.5, math.e / (1 + math.e), 1.], rtol=1e-6)


def test_a_straight_through_estimator(torch):
    """Rounding has derivative zero almost everywhere; a straight-through estimator lets the gradient pass as if
    nothing had happened.
    """

    class Round(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.round()

        @staticmethod
        def backward(ctx, g):
            return g

    x = torch.tensor([0.2, 1.7], requires_grad=True)
    (x.round() * 3).sum().backward()
    assert x.grad.tolist() == [0., 0.]
    x.grad = None
    y = Round.apply(x)
    assert y.tolist() == [0., 2.]
    (y * 3).sum().backward()
    assert x.grad.tolist() == [3., 3.]


# --- checking -------------------------------------------------------------------------------------------------------


def test_gradcheck_accepts_a_right_formula(torch, linear):
    """Finite differences in double precision agree with the gradients of the linear function."""
    torch.manual_seed(0)
    x, w, b = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((4, 3), (2, 3), (2,)))
    assert torch.autograd.gradcheck(linear, (x, w, b), eps=1e-6, atol=1e-4) is True
    assert torch.autograd.gradcheck(linear, (x, w), eps=1e-6, atol=1e-4) is True


def test_gradcheck_catches_wrong_formulas(torch):
    """A factor, a sign, a missing term or a missing gradient: each is found."""
    def cube(wrong):
        class Cube(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x * x

            @staticmethod
            def backward(ctx, g):
                return wrong(ctx.saved_tensors[0], g)

        return Cube.apply

    x = torch.tensor([0.3, -1.2, 2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(cube(lambda x, g: g * 3 * x * x), (x,), eps=1e-6, atol=1e-4)
    wrong = {
        "factor": lambda x, g: g * 2 * x * x,
        "sign": lambda x, g: -g * 3 * x * x,
        "constant term": lambda x, g: g * (3 * x * x + 0.01),
        "forgotten incoming gradient": lambda x, g: 3 * x * x,
        "swapped elements": lambda x, g: (g * 3 * x * x)[torch.tensor([1, 0, 2])],
        "none at all": lambda x, g: None,
    }
    for name, formula in wrong.items():
        with pytest.raises(RuntimeError):
            torch.autograd.gradcheck(cube(formula), (x,), eps=1e-6, atol=1e-4)
        assert torch.autograd.gradcheck(cube(formula), (x,), eps=1e-6, atol=1e-4, raise_exception=False) is False, name


# --- memory ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def square(torch):
    """A function that saves its input."""

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            x, = ctx.saved_tensors
            return 2 * g * x

    return Square.apply


def test_saved_tensors_live_until_backward(torch, square):
    """A saved tensor costs memory until backward has used it, and is then free without help from the garbage
    collector.
    """
    gc.disable()
    try:
        x = torch.tensor([3.], requires_grad=True)
        h = x * 1
        watch = weakref.ref(h)
        y = square(h)
        del h
        assert watch() is not None
        y.backward()
        assert watch() is None
        assert x.grad.tolist() == [6.]
    finally:
        gc.enable()


def test_recompute_what_is_cheap(torch):
    """Instead of an intermediate value the input can be saved, and the value computed again: nothing new is kept
    alive.
    """
    kept = []

    class Lean(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            bump = torch.exp(-x * x)
            kept.append(weakref.ref(bump))
            return x * bump

        @staticmethod
        def backward(ctx, g):
            x, = ctx.saved_tensors
            return g * torch.exp(-x * x) * (1 - 2 * x * x)

    x = torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True)
    y = Lean.apply(x)
    assert kept[0]() is None
    assert torch.autograd.gradcheck(Lean.apply, (x,), eps=1e-6, atol=1e-4)
    assert y.tolist() == pytest.approx([v * math.exp(-v * v) for v in (0.5, 1.5)])


def test_changing_a_saved_tensor_is_detected(torch, square):
    """Backward would compute with numbers that forward never saw; the version counter gives it away."""
    x = torch.tensor([3., 4.], requires_grad=True)
    h = x * 1
    y = square(h)
    assert h._version == 0
    h.add_(1)
    assert h._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        y.sum().backward()
    assert "version 1" in str(caught.value)
    assert "version 0" in str(caught.value)
    assert x.grad is None


# --- gradients of gradients -----------------------------------------------------------------------------------------


def test_gradients_of_gradients(torch, square):
    """The backward of ``square`` is made of differentiable operations, so it can itself be differentiated, again and
    again.
    """
    x = torch.tensor(3., requires_grad=True)
    y = square(square(x))                                           # x**4
    for expected in (4 * 27., 12 * 9., 24 * 3., 24.):
        y, = torch.autograd.grad(y, x, create_graph=True)
        assert y.item() == expected


def test_a_gradient_penalty(torch, linear, operands):
    """A loss may contain the norm of a gradient, and its own gradient then goes through the custom backward."""
    x, w, b = operands
    out = linear(x, w, b)
    grad_x, = torch.autograd.grad((out * out).sum(), x, create_graph=True)
    penalty = (grad_x * grad_x).sum()
    penalty.backward()

    # by hand: grad_x = 2 (x w^T + b) w; its squared norm by b is 8 (x w^T + b) w w^T, summed over the rows
    xs, ws, bs = (np.array(p.tolist()) for p in operands)
    assert_allclose(b.grad.tolist(), (8 * (xs @ ws.T + bs) @ ws @ ws.T).sum(0), rtol=1e-5)
    assert_allclose(grad_x.tolist(), 2 * (xs @ ws.T + bs) @ ws, rtol=1e-5)
