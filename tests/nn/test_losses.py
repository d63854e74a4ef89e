"""Losses against their formulas, all options, and bad input."""

import math
import warnings

import numpy as np
import pytest

SCORES = np.random.RandomState(0).randn(5, 3)
TARGETS = np.array([0, 2, 1, 1, 2])
WEIGHTS = np.array([0.5, 1.0, 2.0])
LOG_P = SCORES - np.log(np.exp(SCORES).sum(1, keepdims=True))


@pytest.fixture
def F(nn):
    return nn.functional


@pytest.fixture
def t(torch):
    """A tensor of an array; floats become float64."""
    return lambda array: torch.tensor(array.tolist(), dtype=torch.float64 if array.dtype.kind == "f" else torch.int64)


def reduced(rows, reduction, divisor=None):
    if reduction == "none":
        return rows
    return rows.sum() / (1 if reduction == "sum" else rows.size if divisor is None else divisor)


REDUCTIONS = ("none", "mean", "sum")


# ---- squares and absolute values
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_mse_and_l1(torch, nn, F, t, reduction):
    a, b = SCORES, SCORES[::-1] * 2
    for name, module, rows in (("mse_loss", "MSELoss", (a - b) ** 2), ("l1_loss", "L1Loss", abs(a - b))):
        want = reduced(rows, reduction)
        np.testing.assert_allclose(getattr(F, name)(t(a), t(b), reduction=reduction).tolist(), want, rtol=1e-12)
        np.testing.assert_allclose(getattr(nn, module)(reduction=reduction)(t(a), t(b)).tolist(), want, rtol=1e-12)
        weighted = getattr(F, name)(t(a), t(b), reduction=reduction, weight=t(abs(a)))
        np.testing.assert_allclose(weighted.tolist(), reduced(rows * abs(a), reduction, abs(a).sum()), rtol=1e-12)


def test_gradients_of_mse_and_l1(torch, F):
    x = torch.tensor([1.0, 4.0, 2.0], requires_grad=True)
    y = torch.tensor([2.0, 2.0, 2.0], requires_grad=True)
    F.mse_loss(x, y).backward()
    assert x.grad.tolist() == pytest.approx([-2 / 3, 4 / 3, 0]) and y.grad.tolist() == pytest.approx([2 / 3, -4 / 3, 0])
    x.grad = None
    F.l1_loss(x, y, reduction="sum").backward()
    assert x.grad.tolist() == [-1, 1, 0]


def test_shapes_that_differ_warn(torch, F):
    column, row = torch.tensor([[1.0], [2.0]]), torch.tensor([1.0, 2.0])
    for loss in (F.mse_loss, F.l1_loss):
        with pytest.warns(UserWarning, match=r"\[2\].*\[2, 1\]") as caught:
            assert loss(column, row).item() == 0.5
        assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        F.mse_loss(torch.ones(2, 1), torch.zeros(2, 1))
    with pytest.warns(UserWarning), pytest.raises(RuntimeError):
        F.mse_loss(torch.ones(3), torch.ones(2))


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss"])
def test_bad_input_of_mse_and_l1(torch, F, name):
    loss = getattr(F, name)
    with pytest.raises(ValueError, match="most"):
        loss(torch.ones(2), torch.ones(2), reduction="most")
    with pytest.raises(ValueError):
        loss(torch.ones(2), torch.ones(2), weight=torch.ones(3))


def test_mse_of_integers(torch, F):
    with pytest.raises(NotImplementedError):
        F.mse_loss(torch.tensor([1]), torch.tensor([2]))


def test_old_names_of_reductions_warn(torch, nn, F):
    x, y = torch.tensor([1.0, 2.0]), torch.zeros(2)
    for flags, want in (({"size_average": False}, 5.0), ({"size_average": True}, 2.5), ({"reduce": False}, [1.0, 4.0])):
        with pytest.warns(UserWarning, match="reduction="):
            assert F.mse_loss(x, y, **flags).tolist() == want
        with pytest.warns(UserWarning):
            assert nn.MSELoss(**flags)(x, y).tolist() == want


# ---- classes
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("ignored", [-100, 1, 0])
@pytest.mark.parametrize("weight", [None, WEIGHTS])
def test_cross_entropy_with_all_options(torch, nn, F, t, reduction, smoothing, ignored, weight):
    targets = TARGETS.copy()
    targets[3] = ignored
    keep = targets != ignored
    safe = np.where(keep, targets, 0)
    w = np.ones(3) if weight is None else weight
    nll = -(LOG_P * w)[np.arange(5), safe] * keep
    rows = (1 - smoothing) * nll - smoothing * (LOG_P * w).sum(1) * keep / 3
    want = reduced(rows, reduction, (w[safe] * keep).sum())
    options = {
        "weight": None if weight is None else t(weight),
        "ignore_index": ignored,
        "reduction": reduction,
        "label_smoothing": smoothing,
    }
    x = t(SCORES).requires_grad_()
    got = F.cross_entropy(x, t(targets), **options)
    np.testing.assert_allclose(got.tolist(), want, rtol=1e-12)
    assert nn.CrossEntropyLoss(**options)(x, t(targets)).tolist() == got.tolist()
    got.sum().backward()
    assert [any(row) for row in x.grad.tolist()] == keep.tolist()


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weight", [None, WEIGHTS])
def test_nll(nn, F, t, reduction, weight):
    targets = np.array([0, -1, 1, 1, 2])
    w = (np.ones(3) if weight is None else weight)[targets] * (targets >= 0)
    want = reduced(-LOG_P[np.arange(5), targets] * w, reduction, w.sum())
    options = {"weight": None if weight is None else t(weight), "ignore_index": -1, "reduction": reduction}
    np.testing.assert_allclose(F.nll_loss(t(LOG_P), t(targets), **options).tolist(), want, rtol=1e-12)
    np.testing.assert_allclose(nn.NLLLoss(**options)(t(LOG_P), t(targets)).tolist(), want, rtol=1e-12)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("weight", [None, WEIGHTS])
def test_cross_entropy_of_probabilities(F, t, reduction, smoothing, weight):
    p = np.exp(LOG_P[::-1])
    w = np.ones(3) if weight is None else weight
    rows = -(LOG_P * w * (p * (1 - smoothing) + smoothing / 3)).sum(1)
    want = reduced(rows, reduction)
    options = {"weight": None if weight is None else t(weight), "reduction": reduction, "label_smoothing": smoothing}
    np.testing.assert_allclose(F.cross_entropy(t(SCORES), t(p.copy()), **options).tolist(), want, rtol=1e-12)


def test_gradient_of_cross_entropy(torch, F, t):
    x = t(SCORES).requires_grad_()
    F.cross_entropy(x, t(TARGETS)).backward()
    want = (np.exp(LOG_P) - np.eye(3)[TARGETS]) / 5
    np.testing.assert_allclose(x.grad.tolist(), want, rtol=1e-12, atol=1e-15)


def test_cross_entropy_shapes(torch, F, t):
    images = np.random.RandomState(1).randn(2, 3, 4, 2)
    targets = np.random.RandomState(2).randint(0, 3, (2, 4, 2))
    lp = images - np.log(np.exp(images).sum(1, keepdims=True))
    want = -np.take_along_axis(lp, targets[:, None], 1)[:, 0]
    for smoothing in (0.0, 0.1):
        rows = (1 - smoothing) * want - smoothing * lp.sum(1) / 3
        got = F.cross_entropy(t(images), t(targets), reduction="none", label_smoothing=smoothing)
        np.testing.assert_allclose(got.tolist(), rows, rtol=1e-12)
    rows = F.cross_entropy(t(SCORES), t(TARGETS), reduction="none")
    assert F.cross_entropy(t(SCORES)[1], t(TARGETS)[1]).item() == pytest.approx(rows[1].item())
    assert math.isnan(F.cross_entropy(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)).item())
    assert F.cross_entropy(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64), reduction="sum").item() == 0


def test_cross_entropy_of_large_scores(torch, F):
    x = torch.tensor([[1e4, 0.0], [-1e4, 0.0]], requires_grad=True)
    loss = F.cross_entropy(x, torch.tensor([0, 0]), reduction="none")
    assert loss.tolist() == [0, 1e4]
    loss.sum().backward()
    assert x.grad.tolist() == [[0, 0], [-1, 1]]


def test_an_ignored_row_may_be_infinite(torch, F):
    x = torch.tensor([[0.0, -math.inf], [0.0, 0.0]])
    assert F.nll_loss(x, torch.tensor([-100, 1]), reduction="none").tolist() == [0, 0]
    assert F.nll_loss(x, torch.tensor([1, 1]), ignore_index=0, reduction="sum").item() == math.inf
    assert str(F.nll_loss(x, torch.tensor([-100, 1]), reduction="none")[0].item()) == "0.0"


def test_uint8_targets(torch, F, t):
    got = F.cross_entropy(t(SCORES), t(TARGETS).to(torch.uint8))
    assert got.item() == F.cross_entropy(t(SCORES), t(TARGETS)).item()


BAD_CLASSES = {
    "too large": (IndexError, (5, 3), [0, 2, 1, 1, 3], {}),
    "negative": (IndexError, (5, 3), [0, 2, -1, 1, 1], {}),
    "too large beside ignored": (IndexError, (5, 3), [0, 2, -100, 1, 7], {}),
    "other batch size": (ValueError, (5, 3), [0, 1], {}),
    "other inner size": (RuntimeError, (1, 3, 4), [[0, 1]], {}),
    "no dimensions": (RuntimeError, (), 0, {}),
    "int32": (RuntimeError, (2, 3), [0, 1], {"dtype": "int32"}),
    "float": (RuntimeError, (2, 3), [0, 1], {"dtype": "float32"}),
    "reduction": (ValueError, (2, 3), [0, 1], {"reduction": "most"}),
    "smoothing": (RuntimeError, (2, 3), [0, 1], {"label_smoothing": 1.5}),
    "weight": (RuntimeError, (2, 3), [0, 1], {"weight": 2}),
    "integer probabilities": (RuntimeError, (2, 3), [[0, 1, 0], [1, 0, 0]], {}),
    "ignored probabilities": (RuntimeError, (1, 3), [[0.0, 1.0, 0.0]], {"ignore_index": 1}),
}


@pytest.mark.parametrize("case", BAD_CLASSES)
def test_bad_input_of_cross_entropy(torch, F, case):
    error, shape, target, options = BAD_CLASSES[case]
    options = dict(options)
    target = torch.tensor(target)
    if "dtype" in options:
        target = target.to(getattr(torch, options.pop("dtype")))
    if "weight" in options:
        options["weight"] = torch.ones(options["weight"])
    with pytest.raises(error):
        F.cross_entropy(torch.zeros(shape), target, **options)


def test_the_message_names_the_wrong_class(torch, F):
    with pytest.raises(IndexError, match=r"Target 7 is out of bounds"):
        F.cross_entropy(torch.zeros(2, 3), torch.tensor([1, 7]))


def test_class_weights_are_state(torch, nn):
    loss = nn.CrossEntropyLoss(weight=torch.ones(3))
    assert list(loss.state_dict()) == ["weight"] and not list(loss.parameters())
    assert loss.double().weight.dtype == torch.float64
    assert list(nn.NLLLoss().state_dict()) == []


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("soft", [False, True])
def test_torch_computes_the_same(torch, F, oracle, t, smoothing, soft):
    scores = SCORES.astype(np.float32)
    target = np.exp(LOG_P).astype(np.float32) if soft else TARGETS
    theirs = oracle.tensor(scores, requires_grad=True)
    ours = torch.tensor(scores.tolist(), requires_grad=True)
    a = oracle.nn.functional.cross_entropy(theirs, oracle.tensor(target), label_smoothing=smoothing)
    b = F.cross_entropy(ours, torch.tensor(target.tolist()), label_smoothing=smoothing)
    a.backward()
    b.backward()
    assert b.item() == pytest.approx(a.item(), rel=1e-6)
    np.testing.assert_allclose(ours.grad.tolist(), theirs.grad.tolist(), rtol=1e-5, atol=1e-7)
