"""tools.check: all derivatives of a model with one call."""

import pytest

import cygrad as torch
from cygrad.tools import check
from cygrad.tools.gradcheck import GradcheckError, gradcheck

nn = pytest.importorskip("cygrad.nn")
checkpoint = pytest.importorskip("cygrad.utils.checkpoint").checkpoint


def wrong_square(spoil):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return spoil(2 * g * x)

    return Square.apply


def outcomes(report):
    return {name: outcome for name, outcome, _, _ in report.results}


def test_a_model_as_it_trains():
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Dropout(0.3), nn.Linear(4, 1))
    before = {k: v.clone() for k, v in model.state_dict().items()}
    x = torch.rand(5, 3)
    state = torch.get_rng_state()
    report = check(model, x)
    assert report
    assert set(outcomes(report).values()) == {"passed"} and len(report.results) == 6
    assert "parameter 0.weight" in str(report) and "44 elements, all of them" in str(report)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert model[0].weight.dtype is torch.float32 and x.grad is None and model[0].weight.grad is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: (nn.LSTM(2, 3), torch.rand(4, 2, 2)),
        lambda: (nn.Conv2d(2, 3, 3), torch.rand(2, 2, 4, 5)),
        lambda: (nn.MultiheadAttention(4, 2), [torch.rand(3, 2, 4)] * 3),
        lambda: (nn.functional.cross_entropy, (torch.rand(3, 2), torch.tensor([0, 1, 0]))),
        lambda: (lambda x: {"loss": x[0]["a"].prod() * x[1], "size": 3}, ([{"a": torch.rand(3)}, torch.rand(())],)),
        lambda: (nn.TransformerEncoderLayer(4, 2, 5), torch.rand(2, 3, 4)),
        lambda: (lambda x: checkpoint(lambda v: v.exp().sin(), x, use_reentrant=False), torch.rand(3)),
    ],
)
def test_layers_and_functions(make):
    torch.manual_seed(0)
    assert set(outcomes(check(*make())).values()) == {"passed"}


def test_a_large_model_is_checked_by_projections():
    model = nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 2))
    report = check(model, torch.rand(4, 20))
    assert report and "random projections" in str(report)
    assert "all of them" in str(check(nn.Linear(2, 1), torch.rand(1, 2), second_order=False, forward=False))


def test_what_is_wrong_is_named():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(2, 3), nn.Linear(3, 1)

        def forward(self, x):
            return self.second(wrong_square(lambda g: -g)(self.first(x)))

    with pytest.raises(GradcheckError) as caught:
        check(Model(), torch.rand(4, 2))
    text = str(caught.value)
    assert "with respect to input 0 (parameter first.weight)" in text and "opposite sign" in text
    report = check(Model(), torch.rand(4, 2), raise_exception=False)
    assert not report
    assert outcomes(report) == {
        "backward": "failed",
        "forward mode": "skipped",
        "backward, batched": "passed",
        "forward mode, batched": "skipped",
        "backward twice": "skipped",
        "forward over backward": "skipped",
    }
    assert "You must implement the jvp function" in str(report)


def test_what_is_not_available_is_skipped_and_said():
    assert check(wrong_square(lambda g: g), torch.rand(3))
    twice = torch.autograd.function.once_differentiable(lambda ctx, g: g * 2)
    Once = type("Once", (torch.autograd.Function,), {
        "forward": staticmethod(lambda ctx, x: x * 2), "backward": staticmethod(twice)})
    report = check(Once.apply, torch.rand(3), raise_exception=False)
    assert outcomes(report)["backward"] == "passed"


def test_inputs_that_require_gradients_are_the_only_ones_if_any_does():
    x, y = torch.rand(2, requires_grad=True), torch.rand(2)
    report = check(lambda x, y: (x * y).sum(), (y, x))
    assert report.checked == ["tensor 0 of the inputs"] and "2 elements" in str(report)
    assert check(lambda x, *, scale: x * scale, x, {"scale": torch.rand(2)})
    with pytest.raises(ValueError, match="no parameter that requires gradients, and no input in floating point"):
        check(lambda i: i * 2, torch.tensor([1, 2]))
    with pytest.raises(ValueError, match="no output of <lambda> depends on tensor 0"):
        check(lambda x: x.detach(), x)
    for wrong in (None, 3, nn.Linear):
        with pytest.raises(TypeError, match="target must be a module or function"):
            check(wrong, x)
    with pytest.raises(TypeError, match="'kwargs' must be dict, not list"):
        check(lambda x: x, x, [1])


def test_modes_around_do_not_matter():
    x = torch.rand(3)
    with torch.no_grad():
        assert check(lambda x: x * x, x)
    with torch.inference_mode():
        assert check(lambda x: x * x, x)


def test_what_raises_in_a_part_fails_there():
    report = check(lambda x: checkpoint(torch.exp, x, use_reentrant=True), torch.rand(3), raise_exception=False)
    assert outcomes(report)["backward"] == "failed" and "incompatible with .grad()" in str(report)


def spoilt(place, factor):
    def spoil(g):
        g = g.clone()
        g[place] *= factor
        return g

    return wrong_square(spoil)


def test_one_wrong_element_of_many_is_found_by_halving():
    x = torch.linspace(0.5, 1.5, 1200, dtype=torch.float64).reshape(200, 6).requires_grad_()
    with pytest.raises(GradcheckError) as caught:
        gradcheck(spoilt((7, 3), 1.5), (x,), fast_mode=True)
    assert "d output[7, 3] / d input[7, 3]: numerical 1.0750626, analytical 1.6125938" in str(caught.value)
    assert "The formula: around eps=" in str(caught.value)
    assert gradcheck(spoilt((7, 3), 1.0), (x,), fast_mode=True)


def test_a_wrong_tangent_of_many_is_found():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_forward(x)
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

        @staticmethod
        def jvp(ctx, t):
            moved = 2 * t * ctx.saved_tensors[0]
            moved[7, 3] *= 1.5
            return moved

    x = torch.linspace(0.5, 1.5, 1200, dtype=torch.float64).reshape(200, 6).requires_grad_()
    with pytest.raises(GradcheckError, match=r"in forward mode: along .* the tangent of output\[7, 3\]"):
        gradcheck(Square.apply, (x,), fast_mode=True, check_forward_ad=True)
