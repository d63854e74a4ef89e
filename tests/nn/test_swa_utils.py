"""Averaged models, batch norms that are filled anew, and the schedule that goes with them."""

import copy
import importlib
import pickle

import numpy as np
import pytest


@pytest.fixture
def swa(torch, backend):
    return importlib.import_module(backend + ".optim.swa_utils")


def numbers(model):
    return [np.array(t.tolist()) for t in model.state_dict().values()]


def models(lib, count=5):
    """Models of one structure, with the same numbers in every library; batch norms count their batches."""
    drawn = np.random.default_rng(0)
    for k in range(count):
        model = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4), lib.nn.Linear(4, 2).double())
        for t in model.state_dict().values():
            values = drawn.standard_normal(tuple(t.shape)) if t.is_floating_point() else np.array(k * 7 + 3)
            t.copy_(lib.tensor(values.tolist(), dtype=t.dtype).reshape(tuple(t.shape)))
        yield model


RULES = {
    "mean": {},
    "mean of buffers": {"use_buffers": True},
    "ema": lambda swa: {"avg_fn": swa.get_ema_avg_fn(0.9)},
    "ema of buffers": lambda swa: {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.9), "use_buffers": True},
    "several": lambda swa: {"multi_avg_fn": swa.get_swa_multi_avg_fn()},
    "single": lambda swa: {"avg_fn": swa.get_swa_avg_fn()},
    "own": lambda swa: {"avg_fn": lambda mean, now, n: mean * 0.5 + now * n},
}


@pytest.mark.parametrize("rule", RULES)
def test_averages_are_pytorchs(torch, oracle, backend, rule):
    results = []
    for lib in (torch, oracle):
        swa = importlib.import_module(lib.__name__ + ".optim.swa_utils")
        options = RULES[rule] if isinstance(RULES[rule], dict) else RULES[rule](swa)
        first, *others = models(lib)
        averaged = swa.AveragedModel(first, **options)
        for model in (first, *others):
            averaged.update_parameters(model)
        assert averaged.n_averaged.item() == 5
        results.append((list(averaged.state_dict()), numbers(averaged)))
    (names, ours), (reference, theirs) = results
    assert names == reference
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


def test_the_mean_is_the_mean(torch, swa):
    first, *others = models(torch)
    averaged = swa.AveragedModel(first)
    for model in (first, *others):
        averaged.update_parameters(model)
    expected = np.mean([np.array(m[0].weight.tolist()) for m in (first, *others)], axis=0)
    np.testing.assert_allclose(averaged.module[0].weight.tolist(), expected, rtol=1e-5)
    assert averaged.module[1].running_mean.tolist() == others[-1][1].running_mean.tolist()
    x = torch.ones(2, 3)
    averaged.module[2].float()
    averaged.eval()
    with torch.no_grad():
        assert (
            averaged.module[0](x).tolist() == torch.nn.functional.linear(x, *averaged.module[0].parameters()).tolist()
        )


def test_the_model_is_copied(torch, swa):
    (model,) = models(torch, 1)
    averaged = swa.AveragedModel(model)
    before = numbers(averaged)
    with torch.no_grad():
        model[0].weight.zero_()
    for a, b in zip(numbers(averaged), before, strict=True):
        np.testing.assert_array_equal(a, b)
    assert averaged.module[0].weight.requires_grad


def test_states_of_averages_go_both_ways(torch, oracle, swa):
    """What was saved after some models goes on as if nothing had been saved; also pickled and copied."""
    averaged = swa.AveragedModel(next(iter(models(torch, 1))))
    for model in models(torch, 3):
        averaged.update_parameters(model)
    twin = swa.AveragedModel(next(iter(models(torch, 1))))
    twin.load_state_dict(averaged.state_dict())
    twins = [twin, pickle.loads(pickle.dumps(averaged)), copy.deepcopy(averaged)]
    last = list(models(torch))[-1]
    for each in (averaged, *twins):
        each.update_parameters(last)
    for each in twins:
        for a, b in zip(numbers(each), numbers(averaged), strict=True):
            np.testing.assert_array_equal(a, b)


def test_bad_averages(torch, nn, swa, backend):
    for make in (swa.get_ema_avg_fn, swa.get_ema_multi_avg_fn):
        for decay in (-0.1, 1.1):
            with pytest.raises(ValueError, match=f"Invalid decay value {decay}"):
                make(decay)
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn"):
        swa.AveragedModel(nn.Linear(1, 1), avg_fn=swa.get_swa_avg_fn(), multi_avg_fn=swa.get_swa_multi_avg_fn())


def test_what_is_no_model_or_optimizer(torch, nn, swa, beyond_pytorch):
    for call in (
        lambda: swa.AveragedModel([1]),
        lambda: swa.AveragedModel(nn.Linear(1, 1)).update_parameters(None),
        lambda: swa.update_bn([], None),
        lambda: swa.SWALR(1, 0.1),
    ):
        with pytest.raises(TypeError, match=r"Module|Optimizer"):
            call()


def test_a_model_of_another_structure_changes_nothing(torch, nn, swa, beyond_pytorch):
    averaged = swa.AveragedModel(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)))
    before = numbers(averaged)
    for other, match in (
        (nn.Sequential(nn.Linear(2, 3)), "has 4 parameters, the one given has 2"),
        (nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2)), r"number 2 of the parameters has shape \(1, 3\)"),
    ):
        with pytest.raises(ValueError, match=match):
            averaged.update_parameters(other)
    for a, b in zip(numbers(averaged), before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_integer_buffers_have_means_too(torch, swa, beyond_pytorch):
    first, *others = models(torch)
    averaged = swa.AveragedModel(first, multi_avg_fn=swa.get_swa_multi_avg_fn(), use_buffers=True)
    for model in (first, *others):
        averaged.update_parameters(model)
    assert averaged.module[1].num_batches_tracked.item() == 15  # 3, 6.5, 9.7, 12.75, 15.8, each cut to an integer


# ---- update_bn
def test_statistics_are_those_of_the_data(torch, nn, swa, seeded):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    model.eval()
    model[1].train()
    batches = [torch.randn(8, 3) for _ in range(5)]
    for loader in (batches, [(b, 1) for b in batches], [[b] for b in batches]):
        swa.update_bn(loader, model)
        with torch.no_grad():
            hidden = [model[0](b) for b in batches]
        mean = torch.stack([h.mean(0) for h in hidden]).mean(0)
        var = torch.stack([h.var(0) for h in hidden]).mean(0)
        np.testing.assert_allclose(model[1].running_mean.tolist(), mean.tolist(), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(model[1].running_var.tolist(), var.tolist(), rtol=1e-4)
        assert model[1].momentum == 0.1 and not model.training and not model[2].training


def test_an_error_of_the_loader_leaves_modes_and_momenta(torch, nn, swa, beyond_pytorch):
    model = nn.Sequential(nn.BatchNorm1d(2, momentum=0.3), nn.Dropout())
    model.eval()
    model[0].train()

    def broken():
        yield torch.ones(3, 2)
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        swa.update_bn(broken(), model)
    assert model[0].momentum == 0.3 and model[0].training and not model.training and not model[1].training


def test_a_model_without_batch_norm_reads_no_data(nn, swa):
    swa.update_bn(iter(()), nn.Linear(1, 1))


# ---- SWALR
@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 1, 10])
def test_swalr_is_pytorchs(torch, oracle, strategy, epochs):
    results = []
    for lib in (torch, oracle):
        swa = importlib.import_module(lib.__name__ + ".optim.swa_utils")
        groups = [{"params": [lib.nn.Parameter(lib.zeros(1))]}, {"params": [lib.nn.Parameter(lib.zeros(1))], "lr": 2.0}]
        optimizer = lib.optim.SGD(groups, lr=0.5)
        before = lib.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.9)
        schedule = swa.SWALR(optimizer, [0.05, 0.1], anneal_epochs=epochs, anneal_strategy=strategy)
        rates = []
        for k in range(20):
            optimizer.step()
            (before if k < 5 else schedule).step()
            rates += schedule.get_last_lr() if k >= 5 else [g["lr"] for g in optimizer.param_groups]
        results.append((rates, schedule.state_dict()))
    (ours, state), (theirs, reference) = results
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert {"anneal_epochs", "_anneal_strategy", "last_epoch", "base_lrs", "_last_lr"} <= set(state) & set(reference)
    assert "anneal_func" not in state


def test_swalr_resumes(torch, nn, swa):
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.5)
    schedule = swa.SWALR(optimizer, 0.05, anneal_strategy="linear", anneal_epochs=8)
    for _ in range(3):
        optimizer.step()
        schedule.step()
    other = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.5)
    resumed = swa.SWALR(other, 0.05)
    other.load_state_dict(optimizer.state_dict())
    resumed.load_state_dict(schedule.state_dict())
    other.step()
    for each, stepped in ((schedule, optimizer), (resumed, other)):
        stepped.step()
        each.step()
        assert each.get_last_lr()[0] == pytest.approx(0.5 - 4 / 8 * 0.45)


def test_bad_swalr(torch, nn, swa):
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.5)
    for options, match in (
        ({"anneal_strategy": "step"}, "instead got step"),
        ({"anneal_epochs": -1}, "equal or greater than 0, got -1"),
        ({"anneal_epochs": 1.5}, "got 1.5"),
        ({"swa_lr": [0.1, 0.2]}, "swa_lr"),
    ):
        with pytest.raises(ValueError, match=match):
            swa.SWALR(optimizer, **({"swa_lr": 0.1} | options))
