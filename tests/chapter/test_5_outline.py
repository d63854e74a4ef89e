"""Lesson 5: higher derivatives, checking them, drawing the graph, and an exercise."""
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from numpy.testing import assert_allclose

# --- higher-order gradients -----------------------------------------------------------------------------------------


def test_grad_returns_instead_of_accumulating(torch):
    """``autograd.grad`` hands the gradients back, one for each input asked for, and touches no ``.grad``."""
    x = torch.tensor([1., 2.], requires_grad=True)
    w = torch.tensor([3., 4.], requires_grad=True)
    y = (x * w).sum()
    result = torch.autograd.grad(y, (x, w))
    assert isinstance(result, tuple)
    assert [g.tolist() for g in result] == [[3., 4.], [1., 2.]]
    assert [x.grad, w.grad] == [None, None]


def test_grad_of_an_intermediate_value(torch):
    """Any tensor on the way can be asked for, and what lies below it is then left alone."""
    x = torch.tensor(2., requires_grad=True)
    h = x * x
    y = h.exp()
    grad_h, = torch.autograd.grad(y, h)
    assert_allclose(grad_h.item(), np.exp(4.), rtol=1e-6)
    assert x.grad is None


def test_grad_takes_incoming_gradients(torch):
    """For an output of several numbers the incoming gradient is given as ``grad_outputs``."""
    x = torch.tensor([1., 2., 3.], requires_grad=True)
    y = x ** 2
    with pytest.raises(RuntimeError, match="scalar"):
        torch.autograd.grad(y, x)
    g, = torch.autograd.grad(y, x, grad_outputs=torch.tensor([1., 10., 100.]))
    assert g.tolist() == [2., 40., 600.]


def test_an_unused_input_must_be_expected(torch):
    """Asking for the gradient of a tensor that played no part is an error unless it is allowed, and then the answer
    is ``None``.
    """
    x = torch.tensor([1.], requires_grad=True)
    other = torch.tensor([1.], requires_grad=True)
    y = (x * 2).sum()
    with pytest.raises(RuntimeError, match="allow_unused"):
        torch.autograd.grad(y, (x, other), retain_graph=True)
    used, unused = torch.autograd.grad(y, (x, other), allow_unused=True)
    assert used.tolist() == [2.]
    assert unused is None


def test_create_graph_makes_gradients_differentiable(torch):
    """With ``create_graph=True`` the gradient has a history of its own, without it the gradient is a constant."""
    x = torch.tensor(2., requires_grad=True)
    constant, = torch.autograd.grad(x ** 3, x)
    assert constant.grad_fn is None
    first, = torch.autograd.grad(x ** 3, x, create_graph=True)
    assert first.item() == 12.
    assert first.grad_fn is not None
    second, = torch.autograd.grad(first, x)
    assert second.item() == 12.


def test_all_derivatives_of_sine(torch):
    """Differentiated four times, sine is sine again."""
    x = torch.linspace(-3, 3, 13, dtype=torch.float64, requires_grad=True)
    at = np.array(x.tolist())
    y = x.sin()
    for expected in (np.cos(at), -np.sin(at), -np.cos(at), np.sin(at)):
        y, = torch.autograd.grad(y.sum(), x, create_graph=True)
        assert_allclose(y.tolist(), expected, rtol=1e-13, atol=1e-15)


def test_a_hessian_row_by_row(torch):
    """The Hessian is the Jacobian of the gradient; each row is one more backward through the gradient's graph."""
    def rosenbrock(p):
        return (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2

    for a, b in ((1., 1.), (-1.2, 1.), (0.3, -0.7)):
        p = torch.tensor([a, b], dtype=torch.float64, requires_grad=True)
        gradient, = torch.autograd.grad(rosenbrock(p), p, create_graph=True)
        rows = [torch.autograd.grad(gradient[i], p, retain_graph=True)[0].tolist() for i in range(2)]
        assert_allclose(gradient.tolist(), [-2 * (1 - a) - 400 * a * (b - a * a), 200 * (b - a * a)], atol=1e-12)
        assert_allclose(rows, [[2 - 400 * (b - 3 * a * a), -400 * a], [-400 * a, 200.]], rtol=1e-12)


def test_newtons_method(torch):
    """With second derivatives, Newton's method finds the root of x^2 = 2 to machine precision within six steps."""
    x = torch.tensor(1., dtype=torch.float64, requires_grad=True)
    for _ in range(6):
        energy = x ** 3 / 3 - 2 * x                     # its derivative is x^2 - 2
        slope, = torch.autograd.grad(energy, x, create_graph=True)
        curvature, = torch.autograd.grad(slope, x)
        with torch.no_grad():
            x -= slope / curvature
    assert_allclose(x.item(), np.sqrt(2), rtol=1e-15)


def test_a_gradient_penalty_in_training(torch):
    """``backward`` through a gradient reaches the parameters: the penalty (|dD/dx| - 1)^2 of a linear critic pulls
    |w| to 1.
    """
    w = torch.tensor([3., 4.], requires_grad=True)
    for _ in range(50):
        x = torch.tensor([[0.5, -1.], [2., 1.]], requires_grad=True)
        score = x @ w
        slope, = torch.autograd.grad(score.sum(), x, create_graph=True)
        ((slope.norm(dim=1) - 1) ** 2).mean().backward()
        with torch.no_grad():
            w -= 0.2 * w.grad
            w.grad = None
    assert_allclose(w.tolist(), [0.6, 0.8], rtol=1e-5)


# --- checking gradients ---------------------------------------------------------------------------------------------


def test_gradcheck_covers_the_librarys_own_operations(torch):
    """What holds for a function of one's own holds for the built-in ones: every derivative can be checked."""
    torch.manual_seed(0)
    x = torch.rand(3, 4, dtype=torch.float64) + 0.5
    for f in (torch.exp, torch.log, torch.sqrt, torch.tanh, torch.sigmoid, lambda v: v.softmax(1), lambda v: v.t() @ v,
              lambda v: v[1:, ::2] * 2, lambda v: v.prod(), lambda v: v.std(0), lambda v: torch.cat([v, v.exp()], 1)):
        assert torch.autograd.gradcheck(f, (x.clone().requires_grad_(),), eps=1e-6, atol=1e-4)


def test_gradgradcheck_checks_the_second_derivative(torch):
    """A backward that is right can still have a wrong derivative; ``gradgradcheck`` finds it where ``gradcheck``
    cannot.
    """
    def cube(second_order):
        class Cube(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x ** 3

            @staticmethod
            def backward(ctx, g):
                x, = ctx.saved_tensors
                return 3 * g * (x ** 2 if second_order else x.detach() ** 2)

        return Cube.apply

    x = torch.tensor([0.5, -1.5], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(cube(True), (x,)) is True
    assert torch.autograd.gradcheck(cube(False), (x,)) is True
    with pytest.raises(RuntimeError):
        torch.autograd.gradgradcheck(cube(False), (x,))


# --- drawing graphs -------------------------------------------------------------------------------------------------


@pytest.fixture
def drawing(beyond_pytorch):
    """The module that draws graphs."""
    import cygrad.tools.graph as graph

    return graph


@pytest.fixture
def chapter_graph(torch):
    """(a * 3).mean() of lesson 2, with its leaf."""
    a = torch.tensor([2., 3.], requires_grad=True)
    return (a * 3).mean(), {"a": a}


def arrows(dot):
    """The edges of a DOT text, as pairs of the first lines of the labels they join."""
    labels = dict(re.findall(r'(\w+) \[label="([^"\\]+)', dot))
    return {(labels[tail], labels[head]) for tail, head in re.findall(r"(\w+) -> (\w+)", dot)}


def test_the_backward_graph_as_dot_text(drawing, chapter_graph):
    """In DOT, the language of graphviz, the ``grad_fn`` links lead from the result down to the leaf."""
    root, names = chapter_graph
    dot = drawing.to_dot(root, params=names)
    assert re.match(r"\s*digraph\b", dot)
    assert dot.count("{") == dot.count("}") == 1
    assert arrows(dot) == {("output", "MeanBackward0"), ("MeanBackward0", "MulBackward0"),
                           ("MulBackward0", "AccumulateGrad"), ("AccumulateGrad", "a")}


def test_the_forward_graph_as_dot_text(drawing, chapter_graph):
    """Read in the direction of the data, tensors stand as boxes between the operations, which are ellipses."""
    root, names = chapter_graph
    dot = drawing.to_dot(root, params=names, view="forward")
    between = "(2,) float32"
    assert arrows(dot) == {("a", "Mul"), ("Mul", between), (between, "Mean"), ("Mean", "output")}
    shapes = dict(re.findall(r'label="([^"\\]+).*shape=(\w+)', dot))
    assert shapes == {"a": "box", "Mul": "ellipse", between: "box", "Mean": "ellipse", "output": "box"}


def test_the_graph_as_a_picture(drawing, chapter_graph):
    """The same graph as SVG needs no other program: it is well-formed XML in which each node is written once."""
    root, names = chapter_graph
    svg = ElementTree.fromstring(drawing.to_svg(root, params=names))
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    written = [" ".join(text.itertext()) for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    for label in ("MeanBackward0", "MulBackward0"):
        assert sum(label in text for text in written) == 1, label
    assert any(re.match(r"a\b", text.strip()) for text in written)


def test_drawing_changes_nothing(drawing, chapter_graph):
    """A graph that was drawn can still be used."""
    root, names = chapter_graph
    drawing.to_dot(root, params=names)
    drawing.to_svg(root, params=names)
    root.backward()
    assert names["a"].grad.tolist() == [1.5, 1.5]


# --- exercise -------------------------------------------------------------------------------------------------------


def test_an_exercise_a_function_of_your_own(torch):
    """The closing exercise: a numerically stable cross-entropy as one function, checked, then trained with."""

    class CrossEntropy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, logits, target):
            shifted = logits - logits.amax(1, keepdim=True)
            log_p = shifted - shifted.exp().sum(1, keepdim=True).log()
            one_hot = torch.zeros_like(logits)
            one_hot[torch.arange(len(target)), target] = 1
            ctx.save_for_backward(log_p.exp(), one_hot)
            return -(log_p * one_hot).sum() / len(target)

        @staticmethod
        def backward(ctx, g):
            p, one_hot = ctx.saved_tensors
            return g * (p - one_hot) / len(p), None

    torch.manual_seed(0)
    target = torch.tensor([0, 2, 1, 2])
    logits = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: CrossEntropy.apply(z, target), (logits,))
    huge = torch.tensor([[1000., 0.], [0., 1000.]], requires_grad=True)
    loss = CrossEntropy.apply(huge, torch.tensor([0, 0]))
    loss.backward()
    assert loss.item() == 500.
    assert huge.grad.tolist() == [[0., 0.], [-0.5, 0.5]]

    points = torch.randn(60, 2)
    classes = (points[:, 0] > 0).long() + (points[:, 1] > 0).long()
    w = torch.zeros(2, 3, requires_grad=True)
    b = torch.zeros(3, requires_grad=True)
    losses = []
    for _ in range(100):
        loss = CrossEntropy.apply(points @ w + b, classes)
        for p, g in zip((w, b), torch.autograd.grad(loss, (w, b)), strict=True):
            with torch.no_grad():
                p -= g
        losses.append(loss.item())
    assert_allclose(losses[0], np.log(3), rtol=1e-6)
    assert losses[-1] < 0.7 * losses[0]
