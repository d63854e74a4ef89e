"""Optimizers beside PyTorch's: a hundred steps with all options, states both ways, and bad options."""

import pickle

import numpy as np
import pytest

OPTIONS = {
    "Adadelta": [{}, {"rho": 0.5, "eps": 1e-3, "weight_decay": 0.1, "lr": 0.3}, {"maximize": True}],
    "Adagrad": [{}, {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5}, {"maximize": True}],
    "Adam": [{}, {"amsgrad": True, "weight_decay": 0.1}, {"maximize": True, "betas": (0.5, 0.6), "eps": 1e-3}],
    "AdamW": [{}, {"amsgrad": True, "weight_decay": 0.3}],
    "Adamax": [{}, {"betas": (0.5, 0.7), "weight_decay": 0.1, "eps": 1e-3}, {"maximize": True}],
    "ASGD": [{}, {"lambd": 0.1, "alpha": 0.5, "t0": 5, "weight_decay": 0.1}, {"maximize": True}],
    "NAdam": [
        {},
        {"weight_decay": 0.1, "momentum_decay": 0.1, "betas": (0.5, 0.7)},
        {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
    ],
    "RAdam": [
        {},
        {"betas": (0.5, 0.7), "weight_decay": 0.1},
        {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
    ],
    "RMSprop": [
        {},
        {"alpha": 0.5, "weight_decay": 0.1, "eps": 1e-3},
        {"momentum": 0.9},
        {"centered": True},
        {"momentum": 0.5, "centered": True, "maximize": True},
    ],
    "Rprop": [{}, {"etas": (0.3, 1.5), "step_sizes": (1e-2, 0.1)}, {"maximize": True}],
    "SGD": [{}, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, {"momentum": 0.5, "dampening": 0.3}],
}
CASES = [(name, i) for name, options in OPTIONS.items() for i in range(len(options))]
SHAPES = [(3, 4), (), (700,), (2, 0)]


def made(lib, name, options, dtype="float64"):
    drawn = np.random.default_rng(1)
    params = [lib.nn.Parameter(lib.tensor(drawn.standard_normal(s).tolist(), dtype=getattr(lib, dtype)).reshape(s))
              for s in SHAPES]
    groups = [{"params": params[:2]}, {"params": params[2:], "lr": 0.03}]
    return params, getattr(lib.optim, name)(groups, **options)


def trained(lib, params, optimizer, steps, seed=2, sparse=False):
    drawn = np.random.default_rng(seed)
    for _ in range(steps):
        for i, p in enumerate(params):
            values = drawn.standard_normal(tuple(p.shape))
            values = np.where(drawn.random(tuple(p.shape)) < 0.2, 0.0, values)
            p.grad = None if sparse and i == 1 else lib.tensor(values.tolist(), dtype=p.dtype).reshape(tuple(p.shape))
        optimizer.step()
    return [p.detach().numpy() for p in params]


def close(a, b, tolerance):
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("name", "case"), CASES)
def test_a_hundred_steps(torch, name, case):
    oracle = pytest.importorskip("torch")
    options = OPTIONS[name][case]
    ours, theirs = (trained(lib, *made(lib, name, options), 100) for lib in (torch, oracle))
    close(ours, theirs, 1e-12)
    ours, theirs = (trained(lib, *made(lib, name, options, "float32"), 100) for lib in (torch, oracle))
    close(ours, theirs, 3e-6 if name == "RMSprop" else 1e-6)  # its momentum adds rounding of ten steps up


@pytest.mark.parametrize(("name", "case"), CASES)
def test_states_go_both_ways(torch, name, case):
    """Half of the steps in one library, the other half in another, from the first one's state."""
    oracle = pytest.importorskip("torch")
    options = OPTIONS[name][case]
    params, optimizer = made(oracle, name, options)
    trained(oracle, params, optimizer, 5)
    want = trained(oracle, params, optimizer, 5, 3)

    def state_in(lib, state):
        if isinstance(state, dict):
            return {k: state_in(lib, v) for k, v in state.items()}
        if hasattr(state, "numpy"):
            return lib.tensor(state.tolist(), dtype=getattr(lib, str(state.dtype).split(".")[1])).reshape(
                tuple(state.shape)
            )
        return [state_in(lib, v) for v in state] if isinstance(state, list) else state

    for first, second in [(torch, oracle), (oracle, torch), (torch, torch)]:
        params, optimizer = made(first, name, options)
        trained(first, params, optimizer, 5)
        state = state_in(second, optimizer.state_dict())
        others, other = made(second, name, options)
        for p, q in zip(others, params, strict=True):
            p.data = second.tensor(q.tolist(), dtype=p.dtype).reshape(tuple(p.shape))
        other.load_state_dict(state)
        # The rate of ASGD is a float32 in one library until it is loaded, and of the dtype of the parameter then.
        close(trained(second, others, other, 5, 3), want, 1e-6 if name == "ASGD" else 1e-9)


@pytest.mark.parametrize("name", OPTIONS)
def test_parameters_without_gradient_stay(torch, name):
    params, optimizer = made(torch, name, {})
    before = params[1].detach().clone()
    trained(torch, params, optimizer, 3, sparse=True)
    assert torch.equal(params[1], before)
    assert params[1] not in optimizer.state or name == "Adagrad"
    assert all(s["step"] == 3 for p, s in optimizer.state.items() if p is not params[1] and "step" in s)


@pytest.mark.parametrize("name", OPTIONS)
def test_steps_are_counted_and_pickled(torch, name):
    params, optimizer = made(torch, name, {})
    version = params[0]._version
    trained(torch, params, optimizer, 2)
    assert params[0]._version == version + 2
    copy = pickle.loads(pickle.dumps(optimizer))
    assert len(copy.param_groups) == 2
    assert repr(copy) == repr(optimizer)
    close([p.detach().numpy() for g in copy.param_groups for p in g["params"]], [p.detach().numpy() for p in params], 0)


def test_texts_are_pytorchs(torch):
    oracle = pytest.importorskip("torch")
    for name in OPTIONS:
        assert repr(made(torch, name, {})[1]) == repr(made(oracle, name, {})[1])


@pytest.mark.parametrize(
    "name, options, match",
    [
        ("Adadelta", {"rho": 2}, "rho value: 2"),
        ("Adadelta", {"lr": -1}, "learning rate: -1"),
        ("Adagrad", {"lr_decay": -1}, "lr_decay value: -1"),
        ("Adagrad", {"initial_accumulator_value": -1}, "initial_accumulator_value value: -1"),
        ("Adamax", {"betas": (1.0, 0.9)}, "beta parameter at index 0: 1.0"),
        ("ASGD", {"weight_decay": -1}, "weight_decay value: -1"),
        ("NAdam", {"momentum_decay": -1}, "momentum_decay value: -1"),
        ("RAdam", {"eps": -1}, "epsilon value: -1"),
        ("RMSprop", {"alpha": -1}, "alpha value: -1"),
        ("RMSprop", {"momentum": -1}, "momentum value: -1"),
        ("Rprop", {"etas": (1.5, 0.5)}, "eta values: 1.5, 0.5"),
    ],
)
def test_bad_options(torch, name, options, match):
    with pytest.raises(ValueError, match=match):
        made(torch, name, options)


@pytest.mark.parametrize("name", OPTIONS)
def test_bad_states(torch, name):
    params, optimizer = made(torch, name, {"momentum": 0.9} if name == "SGD" else {})
    trained(torch, params, optimizer, 1)
    before = params[0].detach().clone()
    state = optimizer.state[params[0]]
    key = next(k for k in state if state[k].dim())
    state[key] = torch.zeros(2, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"the state of a parameter must be .* of shape \(3, 4\)"):
        optimizer.step()
    assert torch.equal(params[0], before)
