"""Anomaly mode: NaN in a backward pass is an error, and a failing node says where it was made."""
import warnings

import pytest


def caught(torch, function, kind=RuntimeError, **options):
    """The exception and the texts of the warnings of `function` in anomaly mode."""
    with warnings.catch_warnings(record=True) as seen, pytest.raises(kind) as error:
        warnings.simplefilter("always")
        with torch.autograd.set_detect_anomaly(True, **options):
            function()
    return str(error.value), [str(w.message) for w in seen]


def make_root(x):
    return x.sqrt()


@pytest.fixture
def failing(torch):
    class Failing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise ValueError("no gradient today")

    return Failing


def test_nan_is_found_where_it_arises(torch, leaf):
    x = leaf(0.0, 1.0)
    weight = torch.tensor([0.0, 1.0], dtype=torch.float64)
    error, texts = caught(torch, lambda: (make_root(x) * weight).sum().backward())
    assert error == "Function 'SqrtBackward0' returned nan values in its 0th output."
    assert "Error detected in SqrtBackward0. Traceback of forward call that caused the error" in texts[0]
    assert "return x.sqrt()" in texts[0] and x.grad is None


def test_nan_is_not_looked_for_on_request(torch, leaf):
    x = leaf(0.0, 1.0)
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        assert torch.is_anomaly_enabled() and not torch.is_anomaly_check_nan_enabled()
        (x.sqrt() * torch.tensor([0.0, 1.0], dtype=torch.float64)).sum().backward()
    assert x.grad[0].isnan() and not torch.is_anomaly_enabled() and torch.is_anomaly_check_nan_enabled()


def test_a_failing_backward_is_explained(torch, leaf, failing):
    error, texts = caught(torch, lambda: failing.apply(leaf(1.0)).sum().backward(), ValueError)
    assert error == "no gradient today"
    assert "Error detected in FailingBackward. Traceback of forward call" in texts[0] and "failing.apply" in texts[0]


def test_a_node_made_before_has_no_traceback(torch, leaf, failing):
    y = failing.apply(leaf(1.0))
    _, texts = caught(torch, lambda: y.sum().backward(), ValueError)
    assert "Error detected in FailingBackward. No forward pass information available" in texts[0]


def test_a_node_of_a_backward_pass_names_what_led_to_it(torch, leaf, failing):
    class Outer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            x, = ctx.saved_tensors
            return failing.apply(g * x)

    def twice():
        x = leaf(1.0)
        y = Outer.apply(x).sum()
        g, = torch.autograd.grad(y, x, create_graph=True)
        g.sum().backward()

    _, texts = caught(torch, twice, ValueError)
    assert "Error detected in FailingBackward" in texts[0]
    assert "Previous calculation was induced by OuterBackward. Traceback of forward call" in texts[1]
    assert "y = Outer.apply(x).sum()" in texts[1]


def test_the_first_traceback_is_the_users(torch, leaf):
    with torch.autograd.set_detect_anomaly(True):
        y = leaf(1.0) * 2
    assert y.grad_fn.metadata["traceback_"][-1].endswith("y = leaf(1.0) * 2\n")


def test_the_context_warns_and_restores(torch, leaf):
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        context = torch.autograd.detect_anomaly()
    with context:
        assert torch.is_anomaly_enabled()
        with torch.autograd.set_detect_anomaly(False):
            assert not torch.is_anomaly_enabled()
        assert torch.is_anomaly_enabled()
    assert not torch.is_anomaly_enabled()
    with pytest.raises(TypeError):
        torch.autograd.set_detect_anomaly(1)


def test_gradients_are_the_same(torch, leaf):
    x, y = leaf(1.0, 2.0), leaf(1.0, 2.0)
    with torch.autograd.set_detect_anomaly(True):
        v = x * 1
        v[:1].mul_(3)
        a, b = v.split(1)
        (v.exp() + a * b).sum().backward()
    w = y * 1
    w[:1].mul_(3)
    a, b = w.split(1)
    (w.exp() + a * b).sum().backward()
    assert x.grad.tolist() == y.grad.tolist()
