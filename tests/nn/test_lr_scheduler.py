"""Schedules of the learning rate: their values beside PyTorch's, states, orders of calls, and bad input."""

import copy
import importlib
import math
import pickle
import warnings

import pytest

SCHEDULES = {
    "lambda": lambda s, o: s.LambdaLR(o, lambda e: 0.9**e),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda e: 1 - 0.1 / (e + 1)),
    "step": lambda s, o: s.StepLR(o, 3, 0.5),
    "multistep": lambda s, o: s.MultiStepLR(o, [2, 5, 5, 9], 0.5),
    "constant": lambda s, o: s.ConstantLR(o, 0.5, 4),
    "linear": lambda s, o: s.LinearLR(o, 0.25, 0.75, 6),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.9),
    "polynomial": lambda s, o: s.PolynomialLR(o, 7, 2.0),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 4, 0.01),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "restarts of one length": lambda s, o: s.CosineAnnealingWarmRestarts(o, 4),
    "triangular": lambda s, o: s.CyclicLR(o, 0.1, 0.5, 3),
    "triangular2": lambda s, o: s.CyclicLR(o, 0.1, 0.5, 3, 2, mode="triangular2"),
    "exp_range": lambda s, o: s.CyclicLR(o, 0.1, 0.5, 4, mode="exp_range", gamma=0.9, cycle_momentum=False),
    "own scale": lambda s, o: s.CyclicLR(o, 0.1, 0.5, 4, scale_fn=lambda x: 1 / x, scale_mode="cycle"),
    "onecycle": lambda s, o: s.OneCycleLR(o, 0.7, 21),
    "onecycle linear": lambda s, o: s.OneCycleLR(o, 0.7, epochs=7, steps_per_epoch=3, anneal_strategy="linear"),
    "onecycle three": lambda s, o: s.OneCycleLR(o, 0.7, 30, three_phase=True, pct_start=0.4, div_factor=10),
    "sequential": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=4), s.CosineAnnealingLR(o, 8), s.ExponentialLR(o, 0.9)], [4, 12]
    ),
    "sequential restarts": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, 20), s.CosineAnnealingWarmRestarts(o, 3)], [3]
    ),
    "sequential steps": lambda s, o: s.SequentialLR(
        o, [s.StepLR(o, 2), s.MultiStepLR(o, [1, 3]), s.PolynomialLR(o, 6), s.LambdaLR(o, lambda e: 0.5)], [4, 8, 15]
    ),
    "chained": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.5, 4), s.ExponentialLR(o, 0.9)], o),
    "chained cosine": lambda s, o: s.ChainedScheduler([s.CosineAnnealingLR(o, 5), s.StepLR(o, 2, 0.7)]),
}


@pytest.fixture
def schedulers(backend):
    return importlib.import_module(backend + ".optim.lr_scheduler")


def optimizer_of(torch, kind="sgd", groups=2):
    params = [{"params": [torch.zeros(2, requires_grad=True)], "lr": 0.5 / (i + 1)} for i in range(groups)]
    return torch.optim.SGD(params, 0.5, momentum=0.9) if kind == "sgd" else torch.optim.AdamW(params, 0.5)


def follow(optimizer, schedule, steps):
    """Rate and momentum of each group in each step."""
    seen = []
    for _ in range(steps):
        seen += [[g["lr"], g.get("momentum"), g.get("betas")] for g in optimizer.param_groups]
        seen.append(list(schedule.get_last_lr()))
        optimizer.step()
        schedule.step()
    return seen


def flat(values):
    return [x for v in values for x in (flat(v) if isinstance(v, (list, tuple)) else [v]) if x is not None]


@pytest.mark.parametrize("kind", ["sgd", "adamw"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_as_pytorch(torch, schedulers, name, kind):
    oracle = pytest.importorskip("torch")
    ours = optimizer_of(torch, kind)
    theirs = optimizer_of(oracle, kind)
    steps = 20 if name.startswith("onecycle") else 100  # a cycle has an end
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = follow(theirs, SCHEDULES[name](oracle.optim.lr_scheduler, theirs), steps)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = follow(ours, SCHEDULES[name](schedulers, ours), steps)
    assert flat(got) == pytest.approx(flat(want), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_state_goes_both_ways(torch, schedulers, name):
    """Stopped after 7 steps and resumed from states, PyTorch's by us and ours by PyTorch, rates go on the same."""
    oracle = pytest.importorskip("torch")
    pairs = {"ours": (torch, schedulers), "theirs": (oracle, oracle.optim.lr_scheduler)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for source, target in [("ours", "ours"), ("ours", "theirs"), ("theirs", "ours")]:
            library, module = pairs[source]
            first = optimizer_of(library)
            schedule = SCHEDULES[name](module, first)
            follow(first, schedule, 7)
            state = pickle.loads(pickle.dumps((first.state_dict(), schedule.state_dict())))
            want = follow(first, schedule, 8)
            library, module = pairs[target]
            second = optimizer_of(library)
            resumed = SCHEDULES[name](module, second)
            second.load_state_dict(state[0])
            resumed.load_state_dict(state[1])
            assert flat(follow(second, resumed, 8)) == pytest.approx(flat(want), rel=1e-12, abs=1e-15), (source, target)


@pytest.mark.parametrize("name", ["step", "exponential", "polynomial", "cosine", "linear", "lambda", "constant"])
def test_last_epoch_resumes(torch, schedulers, name):
    """A schedule made with last_epoch starts from the rates that the optimizer has, as PyTorch's."""
    oracle = pytest.importorskip("torch")
    make = {
        "step": lambda s, o, e: s.StepLR(o, 3, 0.5, e),
        "exponential": lambda s, o, e: s.ExponentialLR(o, 0.9, e),
        "polynomial": lambda s, o, e: s.PolynomialLR(o, 7, 2.0, e),
        "cosine": lambda s, o, e: s.CosineAnnealingLR(o, 4, 0.01, e),
        "linear": lambda s, o, e: s.LinearLR(o, 0.25, 0.75, 6, e),
        "lambda": lambda s, o, e: s.LambdaLR(o, lambda e: 0.9**e, e),
        "constant": lambda s, o, e: s.ConstantLR(o, 0.5, 4, e),
    }[name]

    def run(library, module):
        optimizer = optimizer_of(library)
        follow(optimizer, make(module, optimizer, -1), 3)
        return follow(optimizer, make(module, optimizer, 3), 6)

    assert flat(run(torch, schedulers)) == pytest.approx(flat(run(oracle, oracle.optim.lr_scheduler)), rel=1e-12)


@pytest.mark.parametrize("threshold_mode", ["rel", "abs"])
@pytest.mark.parametrize("mode", ["min", "max"])
def test_plateau(torch, schedulers, mode, threshold_mode):
    oracle = pytest.importorskip("torch")
    metrics = [1.0, 0.9, 0.95, 0.9, 0.89995, 0.9, 1.2, 1.3, math.nan, 1.4, 1.5, 1.1, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2]

    def run(library, module):
        optimizer = optimizer_of(library)
        schedule = module.ReduceLROnPlateau(
            optimizer, mode, 0.5, 1, 1e-3, threshold_mode, cooldown=1, min_lr=[0.1, 0.05]
        )
        seen = []
        for metric in metrics:
            schedule.step(library.tensor(metric))
            seen += [*schedule.get_last_lr(), schedule.num_bad_epochs, schedule.best]
        return seen, schedule.state_dict()

    ours, state = run(torch, schedulers)
    theirs, other = run(oracle, oracle.optim.lr_scheduler)
    assert ours == theirs
    assert state == other


def test_plateau_with_a_later_group(torch, schedulers):
    optimizer = optimizer_of(torch)
    schedule = schedulers.ReduceLROnPlateau(optimizer, patience=0)
    optimizer.add_param_group({"params": [torch.zeros(1, requires_grad=True)], "lr": 1.0})
    schedule.step(1.0)
    schedule.step(1.0)
    assert [g["lr"] for g in optimizer.param_groups] == pytest.approx([0.05, 0.025, 0.1])


def test_fractional_epochs(torch, schedulers):
    oracle = pytest.importorskip("torch")

    def run(library, module):
        optimizer = optimizer_of(library)
        schedule = module.CosineAnnealingWarmRestarts(optimizer, 2, 2)
        seen = []
        for epoch in [0.25, 0.5, 1.75, 2, 3.5, 6, 13.9, 14.1, 30]:
            schedule.step(epoch)
            seen.append(optimizer.param_groups[0]["lr"])
        return seen

    assert run(torch, schedulers) == pytest.approx(run(oracle, oracle.optim.lr_scheduler))
    with pytest.raises(ValueError, match="non-negative epoch"):
        schedulers.CosineAnnealingWarmRestarts(optimizer_of(torch), 2).step(-1)


def test_jump_to_an_epoch(torch, schedulers):
    optimizer = optimizer_of(torch)
    schedule = schedulers.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    with pytest.warns(UserWarning, match="epoch parameter"):
        schedule.step(3)
    assert optimizer.param_groups[0]["lr"] == 0.0625
    assert schedule.last_epoch == 3


def test_a_tensor_rate_stays_the_same_tensor(torch, schedulers):
    lr = torch.tensor(0.5)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr)
    schedule = schedulers.StepLR(optimizer, 1, 0.5)
    optimizer.step()
    schedule.step()
    assert optimizer.param_groups[0]["lr"] is lr
    assert lr.item() == 0.25
    assert schedule.base_lrs[0].item() == 0.5
    assert schedule.get_last_lr()[0] is not lr


def test_order_of_calls(torch, schedulers):
    schedule = schedulers.StepLR(optimizer_of(torch), 1)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        schedule.step()
    optimizer = optimizer_of(torch)
    schedule = schedulers.StepLR(optimizer, 1)
    optimizer.step = lambda: None
    with pytest.warns(UserWarning, match="overridden"):
        schedule.step()
    with pytest.warns(UserWarning, match="get_last_lr"):
        schedule.get_lr()
    optimizer = optimizer_of(torch)
    optimizer.step()
    schedule = schedulers.StepLR(optimizer, 1)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        schedule.step()


def test_callable_objects_keep_their_attributes(torch, schedulers):
    class Factor:
        def __init__(self, base):
            self.base = base

        def __call__(self, epoch):
            return self.base**epoch

    state = schedulers.LambdaLR(optimizer_of(torch), [Factor(0.5), lambda e: 1.0]).state_dict()
    assert state["lr_lambdas"] == [{"base": 0.5}, None]
    other = schedulers.LambdaLR(optimizer_of(torch), [Factor(0.1), lambda e: 1.0])
    other.load_state_dict(state)
    assert other.lr_lambdas[0].base == 0.5


def test_a_nested_sequence(torch, schedulers):
    """A sequence as the second part of a sequence starts at its own first epoch."""
    optimizer = optimizer_of(torch, groups=1)
    inner = schedulers.SequentialLR(
        optimizer, [schedulers.ConstantLR(optimizer, 0.5, 9), schedulers.ConstantLR(optimizer, 0.25, 9)], [2]
    )
    schedule = schedulers.SequentialLR(optimizer, [schedulers.ConstantLR(optimizer, 0.1, 9), inner], [2])
    rates = follow(optimizer, schedule, 6)
    assert [r[0] for r in rates[1::2]] == pytest.approx([0.05, 0.05, 0.25, 0.25, 0.125, 0.125])


def test_copies(torch, schedulers):
    optimizer = optimizer_of(torch)
    schedule = schedulers.CosineAnnealingLR(optimizer, 4)
    both = copy.deepcopy((optimizer, schedule))
    assert both[1].optimizer is both[0]
    both[0].step()
    both[1].step()
    assert optimizer.param_groups[0]["lr"] == 0.5 != both[0].param_groups[0]["lr"]


@pytest.mark.parametrize(
    "error, match, make",
    [
        (TypeError, "int is not an Optimizer", lambda s, o: s.StepLR(3, 1)),
        (TypeError, "int is not an Optimizer", lambda s, o: s.ReduceLROnPlateau(3)),
        (TypeError, "int is not an Optimizer", lambda s, o: s.CyclicLR(3, 1, 2)),
        (KeyError, "initial_lr", lambda s, o: s.StepLR(o, 1, last_epoch=3)),
        (ValueError, "Expected 2 lr_lambdas, but got 1", lambda s, o: s.LambdaLR(o, [abs])),
        (TypeError, "should be a function", lambda s, o: s.MultiplicativeLR(o, 3)),
        (ValueError, "between 0 and 1, got 2", lambda s, o: s.ConstantLR(o, 2)),
        (ValueError, "greater than 0", lambda s, o: s.LinearLR(o, 0)),
        (ValueError, "between 0 and 1, got 2", lambda s, o: s.LinearLR(o, 0.5, 2)),
        (ValueError, "positive integer T_0", lambda s, o: s.CosineAnnealingWarmRestarts(o, 0)),
        (ValueError, "T_mult >= 1", lambda s, o: s.CosineAnnealingWarmRestarts(o, 2, 0.5)),
        (ValueError, "float or int eta_min", lambda s, o: s.CosineAnnealingWarmRestarts(o, 2, 1, "x")),
        (ValueError, "base_lr must have the same length", lambda s, o: s.CyclicLR(o, [1], 1)),
        (ValueError, "mode is invalid", lambda s, o: s.CyclicLR(o, 1, 2, mode="x")),
        (ValueError, "either total_steps OR", lambda s, o: s.OneCycleLR(o, 1)),
        (ValueError, "positive integer total_steps, but got -1", lambda s, o: s.OneCycleLR(o, 1, -1)),
        (ValueError, "positive integer epochs", lambda s, o: s.OneCycleLR(o, 1, epochs=0, steps_per_epoch=1)),
        (ValueError, "pct_start, but got 2", lambda s, o: s.OneCycleLR(o, 1, 10, pct_start=2)),
        (ValueError, "one of 'cos' or 'linear'", lambda s, o: s.OneCycleLR(o, 1, 10, anneal_strategy="x")),
        (ValueError, "max_lr must have the same length", lambda s, o: s.OneCycleLR(o, [1], 10)),
        (ValueError, "< 1.0", lambda s, o: s.ReduceLROnPlateau(o, factor=1)),
        (ValueError, "mode x is unknown", lambda s, o: s.ReduceLROnPlateau(o, "x")),
        (ValueError, "threshold mode x is unknown", lambda s, o: s.ReduceLROnPlateau(o, threshold_mode="x")),
        (ValueError, "expected 2 min_lrs, got 1", lambda s, o: s.ReduceLROnPlateau(o, min_lr=[1])),
        (ValueError, "at least one scheduler", lambda s, o: s.SequentialLR(o, [], [])),
        (ValueError, "at least one scheduler", lambda s, o: s.ChainedScheduler([])),
        (ValueError, "one more than the number", lambda s, o: s.SequentialLR(o, [s.ConstantLR(o)], [2])),
        (TypeError, "have `optimizer`", lambda s, o: s.SequentialLR(o, [3], [])),
        (ValueError, "ReduceLROnPlateau", lambda s, o: s.SequentialLR(o, [s.ReduceLROnPlateau(o)], [])),
    ],
)
def test_bad_options(torch, schedulers, error, match, make):
    with pytest.raises(error, match=match):
        make(schedulers, optimizer_of(torch))


def test_schedules_of_two_optimizers(torch, schedulers):
    one, other = optimizer_of(torch), optimizer_of(torch)
    parts = [schedulers.ConstantLR(one), schedulers.ConstantLR(other)]
    with pytest.raises(ValueError, match=r"same optimizer.*index 1"):
        schedulers.SequentialLR(one, parts, [2])
    with pytest.raises(ValueError, match=r"same optimizer.*index 1"):
        schedulers.ChainedScheduler(parts)


def test_no_momentum_to_move(torch, schedulers):
    class Plain(torch.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 0.1})

        def step(self, closure=None):
            return None

    optimizer = Plain([torch.zeros(1, requires_grad=True)])
    with pytest.raises(ValueError, match="momentum or beta1"):
        schedulers.CyclicLR(optimizer, 0.1, 1)
    with pytest.raises(ValueError, match="momentum or beta1"):
        schedulers.OneCycleLR(optimizer, 0.1, 10)
    assert schedulers.OneCycleLR(optimizer, 0.1, 10, cycle_momentum=False).get_last_lr() == pytest.approx([0.004])


def test_one_cycle_ends(torch, schedulers):
    optimizer = optimizer_of(torch)
    schedule = schedulers.OneCycleLR(optimizer, 1.0, 2)
    optimizer.step()
    schedule.step()
    schedule.step()
    with pytest.raises(ValueError, match=r"Tried to step 3 times\. The specified number of total steps is 2"):
        schedule.step()


def test_a_state_with_other_parts(torch, schedulers):
    optimizer = optimizer_of(torch)
    one = schedulers.ChainedScheduler([schedulers.ConstantLR(optimizer)])
    two = schedulers.ChainedScheduler([schedulers.ConstantLR(optimizer), schedulers.ConstantLR(optimizer)])
    with pytest.raises(ValueError, match="has 1 schedulers, this one has 2"):
        two.load_state_dict(one.state_dict())
