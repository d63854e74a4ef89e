"""LBFGS, Muon, Adafactor, SparseAdam; steps that autograd records; parameters that occur twice or overlap."""

import copy
import pickle
import warnings

import numpy as np
import pytest

WOLFE = {"line_search_fn": "strong_wolfe"}


def tensor(lib, values, dtype="float64"):
    return lib.tensor(np.asarray(values).tolist(), dtype=getattr(lib, dtype)).reshape(np.shape(values))


def state_in(lib, state):
    """A state of one library with the tensors of another."""
    if isinstance(state, dict):
        return {key: state_in(lib, value) for key, value in state.items()}
    if hasattr(state, "numpy"):
        return lib.tensor(state.tolist(), dtype=getattr(lib, str(state.dtype).split(".")[1])).reshape(
            tuple(state.shape)
        )
    return [state_in(lib, value) for value in state] if isinstance(state, list) else state


# ---- LBFGS
class Fit:
    """A small regression with a curved valley beside it, in one library."""

    def __init__(self, lib, dtype="float64", **options):
        drawn = np.random.default_rng(0)
        self.matrix, self.target = (tensor(lib, drawn.standard_normal(s), dtype) for s in ((9, 6), (9,)))
        self.params = [lib.nn.Parameter(tensor(lib, drawn.standard_normal(s), dtype)) for s in ((6,), (1, 2), ())]
        self.optimizer = lib.optim.LBFGS(self.params, **options)
        self.calls = 0

    def closure(self):
        self.calls += 1
        self.optimizer.zero_grad()
        w, v, _ = self.params  # the last one has no gradient
        loss = ((self.matrix @ w - self.target) ** 2).mean() + 3 * (v[0, 1] - v[0, 0] ** 2) ** 2 + (1 - v[0, 0]) ** 2
        loss.backward()
        return loss

    def steps(self, count):
        return [self.optimizer.step(self.closure).item() for _ in range(count)]


LBFGS_OPTIONS = [
    {},
    WOLFE,
    {"lr": 0.5, "max_iter": 3, "history_size": 20},
    {"lr": 0.7, "history_size": 2, "max_iter": 4},
    WOLFE | {"lr": 0.1, "max_iter": 5},
    WOLFE | {"lr": 10.0, "max_iter": 5},
    WOLFE | {"max_eval": 1},
    WOLFE | {"max_iter": 6, "max_eval": 4, "history_size": 10},
    {"tolerance_grad": 0.1, "max_iter": 2},
    {"tolerance_change": 0.5, "max_iter": 4},
]


@pytest.mark.parametrize("options", LBFGS_OPTIONS, ids=str)
def test_lbfgs_goes_pytorchs_way(torch, oracle, options):
    ours, theirs = Fit(torch, **options), Fit(oracle, **options)
    np.testing.assert_allclose(ours.steps(8), theirs.steps(8), rtol=1e-9, atol=1e-12)
    for p, q in zip(ours.params, theirs.params, strict=True):
        np.testing.assert_allclose(p.tolist(), q.tolist(), rtol=1e-8, atol=1e-10)
    assert ours.calls == theirs.calls
    state, reference = (fit.optimizer.state_dict()["state"][0] for fit in (ours, theirs))
    assert list(state) and set(state) == set(reference)
    assert all(state[key] == reference[key] for key in ("func_evals", "n_iter"))
    assert len(state["old_dirs"]) == len(reference["old_dirs"])
    assert repr(ours.optimizer) == repr(theirs.optimizer)


@pytest.mark.parametrize("options", [{}, WOLFE], ids=str)
def test_lbfgs_float32_reaches_the_minimum(torch, options):
    fit = Fit(torch, "float32", **options)
    fit.steps(10)
    expected = np.linalg.lstsq(np.array(fit.matrix.tolist()), np.array(fit.target.tolist()), rcond=None)[0]
    np.testing.assert_allclose(fit.params[0].tolist(), expected, atol=2e-3)
    np.testing.assert_allclose(fit.params[1].tolist(), [[1, 1]], atol=1e-2)


def test_states_of_lbfgs_go_both_ways(torch, oracle):
    want = Fit(oracle, **WOLFE)
    want.steps(5)
    for first, second in [(torch, oracle), (oracle, torch), (torch, torch)]:
        a, b = Fit(first, max_iter=2, **WOLFE), Fit(second, max_iter=2, **WOLFE)
        whole = Fit(oracle, max_iter=2, **WOLFE)
        losses = whole.steps(6)
        a.steps(3)
        b.optimizer.load_state_dict(state_in(second, a.optimizer.state_dict()))
        for p, q in zip(b.params, a.params, strict=True):
            p.data = tensor(second, q.tolist())
        np.testing.assert_allclose(b.steps(3), losses[3:], rtol=1e-9)


def test_states_of_lbfgs_are_copies(torch, beyond_pytorch):
    fit = Fit(torch, **WOLFE)
    fit.steps(1)
    saved = fit.optimizer.state_dict()
    twins = copy.deepcopy(saved)
    other = pickle.loads(pickle.dumps(saved))
    fit.steps(2)
    assert saved["state"][0]["d"].tolist() == twins["state"][0]["d"].tolist() == other["state"][0]["d"].tolist()
    assert len(saved["state"][0]["old_dirs"]) == len(twins["state"][0]["old_dirs"])


def test_lbfgs_with_complex_parameters_and_transposed_ones(torch, oracle):
    """PyTorch cannot take transposed ones; the result is that of contiguous ones."""
    results = []
    for lib in (torch, oracle):
        z = lib.tensor([1 + 2j, -0.5j], requires_grad=True)
        w = lib.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).t()
        w = (w.contiguous() if lib is oracle else w).requires_grad_()
        optimizer = lib.optim.LBFGS([z, w], lr=0.5, max_iter=5)

        def closure(z=z, w=w, lib=lib, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (z - 1j).abs().square().sum() + ((w - 1) ** 2 * lib.arange(6).reshape(3, 2)).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        results.append([*z.tolist(), *w.flatten().tolist()])
    np.testing.assert_allclose(*results, rtol=1e-5)


def test_an_error_of_the_closure_leaves_everything_as_it_was(torch, beyond_pytorch):
    for options in ({}, WOLFE):
        fit = Fit(torch, **options)
        fit.steps(1)
        before = copy.deepcopy((fit.optimizer.state_dict(), [p.tolist() for p in fit.params]))
        calls = []

        def closure(fit=fit, calls=calls):
            calls.append(1)
            if len(calls) == 3:
                raise KeyError("no more data")
            return fit.closure()

        fit.optimizer.param_groups[0].update(tolerance_change=0, tolerance_grad=0)
        with pytest.raises(KeyError, match="no more data"):
            fit.optimizer.step(closure)
        state, values = before
        assert [p.tolist() for p in fit.params] == values
        now = fit.optimizer.state_dict()["state"][0]
        assert now["n_iter"] == state["state"][0]["n_iter"] and now["d"].tolist() == state["state"][0]["d"].tolist()


def test_lbfgs_does_not_go_where_the_loss_is_nan(torch, nn, beyond_pytorch):
    p = nn.Parameter(torch.tensor([1.0]))
    optimizer = torch.optim.LBFGS([p], lr=100.0, **WOLFE)

    def closure():
        optimizer.zero_grad()
        loss = (p.log() ** 2 + p).sum() if p.item() > 0 else p.sum() * float("nan")
        loss.backward()
        return loss

    optimizer.step(closure)
    assert p.isfinite().all()


def test_bad_lbfgs(torch, nn):
    p, q = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    with pytest.raises(ValueError, match="parameter groups"):
        torch.optim.LBFGS([{"params": [p]}, {"params": [q]}])
    with pytest.raises(ValueError, match="learning rate"):
        torch.optim.LBFGS([p], lr=-1.0)
    with pytest.raises(TypeError):
        torch.optim.LBFGS([p]).step()
    p.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        torch.optim.LBFGS([p], line_search_fn="armijo").step(lambda: 1.0)


# ---- Muon and Adafactor
MATRIX_OPTIONS = {
    "Muon": [
        {},
        {"nesterov": False, "lr": 0.1},
        {"adjust_lr_fn": "match_rms_adamw", "momentum": 0.5, "ns_steps": 3, "weight_decay": 0},
        {"adjust_lr_fn": "original", "ns_coefficients": (2.0, -1.5, 0.5), "eps": 1e-3},
    ],
    "Adafactor": [
        {},
        {"lr": 0.1, "weight_decay": 0.1, "d": 2.0, "beta2_decay": -0.5, "eps": (1e-2, 1e-2)},
        {"maximize": True, "lr": 1.0},
    ],
}
MATRIX_CASES = [(name, i) for name, options in MATRIX_OPTIONS.items() for i in range(len(options))]


def made(lib, name, options, dtype="float64"):
    drawn = np.random.default_rng(1)
    shapes = [(3, 4), (20, 5), (5, 20), (1, 1)] + ([] if name == "Muon" else [(), (50,), (2, 3, 5)])
    params = [lib.nn.Parameter(tensor(lib, drawn.standard_normal(s), dtype)) for s in shapes]
    return params, getattr(lib.optim, name)([{"params": params[:2]}, {"params": params[2:], "lr": 0.03}], **options)


def trained(lib, params, optimizer, steps, seed=2):
    drawn = np.random.default_rng(seed)
    for step in range(steps):
        for i, p in enumerate(params):
            g = drawn.standard_normal(tuple(p.shape))
            p.grad = None if i == 1 and step % 3 == 0 else tensor(lib, g, str(p.dtype).split(".")[1])
        optimizer.step()
    return [np.array(p.tolist()) for p in params]


def close(a, b, tolerance):
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("name", "case"), MATRIX_CASES)
def test_a_hundred_steps(torch, oracle, name, case):
    options = MATRIX_OPTIONS[name][case]
    for dtype, tolerance in (("float64", 1e-12), ("float32", 1e-5)):
        made_here, made_there = (made(lib, name, options, dtype) for lib in (torch, oracle))
        ours, theirs = trained(torch, *made_here, 100), trained(oracle, *made_there, 100)
        close(ours, theirs, tolerance if name == "Adafactor" else 1e-4)  # Muon multiplies in bfloat16
        assert repr(made_here[1]) == repr(made_there[1])


@pytest.mark.parametrize(("name", "case"), MATRIX_CASES)
def test_states_go_both_ways(torch, oracle, name, case):
    options = MATRIX_OPTIONS[name][case]
    want = trained(oracle, *made(oracle, name, options), 5)
    for first, second in [(torch, oracle), (oracle, torch), (torch, torch)]:
        params, optimizer = made(first, name, options)
        trained(first, params, optimizer, 5)
        others, other = made(second, name, options)
        for p, q in zip(others, params, strict=True):
            p.data = tensor(second, q.tolist())
        other.load_state_dict(state_in(second, optimizer.state_dict()))
        reference, its = made(oracle, name, options)
        trained(oracle, reference, its, 5)
        close(trained(second, others, other, 5, 3), trained(oracle, reference, its, 5, 3), 1e-4)
    assert len(want) == len(params)


def test_muon_makes_updates_orthogonal(torch, nn, seeded):
    """With the polynomial that converges, the update is the product of the two orthogonal factors of the gradient."""
    g = torch.randn(6, 4)
    p = nn.Parameter(torch.zeros(6, 4))
    p.grad = g
    coefficients = (1.875, -1.25, 0.375)
    optimizer = torch.optim.Muon(
        [p], lr=1.0, weight_decay=0, momentum=0, nesterov=False, ns_coefficients=coefficients, ns_steps=30
    )
    optimizer.step()
    u, _, v = np.linalg.svd(np.array(g.tolist()), full_matrices=False)
    np.testing.assert_allclose(p.tolist(), -(u @ v) * np.sqrt(6 / 4), atol=0.05)


def test_adafactor_keeps_less_than_the_parameter(torch, nn):
    p = nn.Parameter(torch.ones(30, 40))
    p.grad = torch.ones(30, 40)
    optimizer = torch.optim.Adafactor([p])
    optimizer.step()
    assert {k: tuple(v.shape) for k, v in optimizer.state[p].items()} == {
        "step": (),
        "row_var": (30, 1),
        "col_var": (1, 40),
    }


def test_an_empty_parameter_is_no_error(torch, nn, beyond_pytorch):
    for name, shape in (("Adafactor", (2, 0)), ("Adafactor", (0,)), ("Muon", (2, 0))):
        p = nn.Parameter(torch.ones(shape))
        p.grad = torch.ones(shape)
        getattr(torch.optim, name)([p]).step()
        assert tuple(p.shape) == shape


@pytest.mark.parametrize(
    ("name", "options", "match"),
    [
        ("Muon", {"lr": -1}, "-1"),
        ("Muon", {"momentum": -1}, "-1"),
        ("Muon", {"weight_decay": -1}, "-1"),
        ("Muon", {"adjust_lr_fn": "other"}, "other"),
        ("Adafactor", {"lr": -1}, "-1"),
        ("Adafactor", {"beta2_decay": 0.5}, "beta2_decay should be <= 0 but is: 0.5"),
        ("Adafactor", {"eps": (-1.0, 1e-3)}, "epsilon1"),
        ("Adafactor", {"eps": (None, -1e-3)}, "epsilon2"),
        ("Adafactor", {"d": 0.5}, "Clipping threshold d should be >= 1 but is: 0.5"),
        ("Adafactor", {"weight_decay": -1}, "-1"),
        ("SparseAdam", {"lr": 0.0}, "learning rate: 0.0"),
        ("SparseAdam", {"eps": 0.0}, "epsilon value: 0.0"),
        ("SparseAdam", {"betas": (1.0, 0.9)}, "index 0: 1.0"),
    ],
)
def test_bad_options(torch, nn, name, options, match):
    with pytest.raises(ValueError, match=match):
        getattr(torch.optim, name)([nn.Parameter(torch.ones(2, 2))], **options)


def test_what_muon_cannot_update(torch, nn):
    with pytest.raises(ValueError, match="2D parameters"):
        torch.optim.Muon([nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2))])


def test_groups_that_muon_gets_later_are_checked(torch, nn, beyond_pytorch):
    optimizer = torch.optim.Muon([nn.Parameter(torch.ones(2, 2))])
    with pytest.raises(ValueError, match=r"parameter 0 has shape \(2,\)"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))]})
    assert len(optimizer.param_groups) == 1
    for options in ({"ns_steps": 100}, {"ns_coefficients": (1.0,)}):
        with pytest.raises(ValueError, match="ns_"):
            torch.optim.Muon([nn.Parameter(torch.ones(2, 2))], **options)


def test_complex_parameters_are_refused(torch, nn):
    for name in ("Muon", "Adafactor"):
        p, q = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2, 2, dtype=torch.complex64))
        p.grad, q.grad = torch.ones_like(p), torch.ones_like(q)
        with pytest.raises(RuntimeError, match=name):
            getattr(torch.optim, name)([p, q]).step()
        assert (p == 1).all()
    with pytest.raises(ValueError, match=r"Complex params at indices"):
        torch.optim.SparseAdam([q])


def test_sparse_adam_says_what_to_use(torch, nn):
    p = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SparseAdam([p])
    assert optimizer.step(lambda: 3) == 3
    p.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients, please consider Adam instead"):
        optimizer.step()
    assert p.tolist() == [1, 1]


# ---- parameters that occur twice, and that overlap
EVERY = {
    "Adadelta": {},
    "Adafactor": {},
    "Adagrad": {"initial_accumulator_value": 0.1},
    "Adam": {"amsgrad": True},
    "AdamW": {},
    "Adamax": {},
    "ASGD": {"lambd": 0.1, "t0": 2},
    "Muon": {},
    "NAdam": {"momentum_decay": 0.1},
    "RAdam": {"betas": (0.9, 0.9)},
    "RMSprop": {"momentum": 0.9, "centered": True},
    "Rprop": {},
    "SGD": {"momentum": 0.9, "dampening": 0.2},
}


@pytest.mark.parametrize("name", EVERY)
def test_repeated_and_overlapping_parameters(torch, oracle, name):
    """Updates come one after the other, as in PyTorch; a parameter that is named twice counts two steps."""
    results = []
    for lib in (torch, oracle):
        drawn = np.random.default_rng(1)
        base = tensor(lib, drawn.standard_normal((4, 2)))
        p = lib.nn.Parameter(tensor(lib, drawn.standard_normal((3, 2))))
        q, r = base[:3].requires_grad_(), base[1:].requires_grad_()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optimizer = getattr(lib.optim, name)([p, q, p, r], **EVERY[name])
        for _ in range(12):
            for x in (p, q, r):
                x.grad = tensor(lib, drawn.standard_normal((3, 2)))
            optimizer.step()
        steps = optimizer.state[p].get("step")
        results.append(([x.tolist() for x in (p, base)], None if steps is None else steps.item()))
    (ours, count), (theirs, reference) = results
    close(map(np.array, ours), map(np.array, theirs), 1e-12)
    assert count == reference


def test_a_repeated_parameter_is_still_known_after_pickling(torch, nn):
    p = nn.Parameter(torch.ones(2))
    with pytest.warns(UserWarning):
        optimizer = torch.optim.Adam([p, p])
    twin = pickle.loads(pickle.dumps(optimizer))
    q = twin.param_groups[0]["params"][0]
    q.grad = torch.ones(2)
    twin.step()
    assert twin.state[q]["step"].item() == 2


# ---- steps that are recorded
RECORDED = {name: options for name, options in EVERY.items() if name not in ("Adafactor", "Muon")}
DECAYS = {"weight_decay": 0.1}


def recorded(lib, name, options, steps, start, rate, gradients):
    """The parameter after recorded steps, as a function of where it started, of the gradients and of the rate."""
    p = start.clone()
    optimizer = getattr(lib.optim, name)([p], lr=rate, differentiable=True, **options)
    for k in range(steps):
        p.grad = gradients[k].clone()
        optimizer.step()
    return p


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_steps_are_the_others(torch, nn, name, beyond_pytorch):
    """To the last digits; PyTorch takes powers in float32 when it records."""
    drawn = np.random.default_rng(4)
    start, gradients = drawn.standard_normal(5), drawn.standard_normal((30, 5))
    for extra in ({}, {"maximize": True}, *([DECAYS] if name != "Rprop" else [])):
        options = RECORDED[name] | extra
        q = nn.Parameter(tensor(torch, start))
        optimizer = getattr(torch.optim, name)([q], lr=0.05, **options)
        for g in gradients:
            q.grad = tensor(torch, g)
            optimizer.step()
        p = recorded(torch, name, options, 30, tensor(torch, start), 0.05, tensor(torch, gradients))
        # the rate of ASGD, and the product of NAdam, are kept as float32 by the loops
        np.testing.assert_allclose(p.tolist(), q.tolist(), rtol=1e-6 if name in ("ASGD", "NAdam") else 1e-12)


@pytest.mark.parametrize("name", RECORDED)
def test_gradients_through_steps(torch, name, beyond_pytorch):
    from cygrad.tools.gradcheck import gradcheck

    drawn = np.random.default_rng(5)
    start = tensor(torch, drawn.standard_normal(4)).requires_grad_()
    gradients = tensor(torch, drawn.standard_normal((3, 4))).requires_grad_()
    rate = torch.tensor(0.05, dtype=torch.float64, requires_grad=True)
    options = RECORDED[name] | (DECAYS if name != "Rprop" else {})
    if name == "Rprop":  # the rate is where its steps begin
        rate = rate.detach()
    assert gradcheck(lambda *args: recorded(torch, name, options, 3, *args), (start, rate, gradients), atol=1e-5)


@pytest.mark.parametrize("name", RECORDED)
def test_gradients_through_a_step_are_pytorchs(torch, oracle, name):
    """Without momentum of SGD, whose first one PyTorch cuts off."""
    options = {} if name == "SGD" else RECORDED[name]
    options = options if name == "Rprop" else options | DECAYS
    drawn = np.random.default_rng(6)
    start, gradients = drawn.standard_normal(4), drawn.standard_normal((1, 4))
    results = []
    for lib in (torch, oracle):
        s, g = tensor(lib, start).requires_grad_(), tensor(lib, gradients).requires_grad_()
        p = recorded(lib, name, options, 1, s, 0.05, g)
        (p * p).sum().backward()
        results.append((s.grad.tolist(), g.grad.tolist()))
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)  # it takes powers in float32


def test_a_rate_learns_from_the_loss_after_the_step(torch):
    """One step of descent on w**2 goes to w * (1 - 2 lr); the best rate is 1/2."""
    rate = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    for _ in range(50):
        w = torch.tensor([3.0], dtype=torch.float64, requires_grad=True)
        p = w.clone()
        (p.grad,) = torch.autograd.grad((w * w).sum(), w, create_graph=True)
        torch.optim.SGD([p], lr=rate, differentiable=True).step()
        loss = (p * p).sum()
        (slope,) = torch.autograd.grad(loss, rate)
        rate = (rate - 0.01 * slope).detach().requires_grad_()
    assert rate.item() == pytest.approx(0.5, abs=1e-3)


def test_a_recorded_step_refuses_leaves(torch, nn):
    p, q = torch.ones(2), nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([p, q], differentiable=True)
    p.grad, q.grad = torch.ones(2), torch.ones(2)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        optimizer.step()
    assert q.tolist() == [1, 1] and (p.tolist() == [1, 1] or torch.__name__ == "torch")


# ---- steps on other parameters
def test_swapping_in_parameters_and_state(torch, nn):
    p = nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer = torch.optim.Adam([p], lr=0.1)
    p.grad = torch.ones(2)
    optimizer.step()
    own, group, before = optimizer.state, dict(optimizer.param_groups[0]), p.tolist()
    state = optimizer.state_dict()
    state["param_groups"][0]["lr"] = 0.5
    state["state"][0]["exp_avg"] = torch.zeros(2)
    q = torch.tensor([5.0, 6.0])
    q.grad = torch.ones(2)
    with torch.optim.swap_in_optimizer_params_and_state(optimizer, {"p": q}, state):
        assert optimizer.param_groups[0]["params"][0] is q and optimizer.param_groups[0]["lr"] == 0.5
        optimizer.step()
    assert optimizer.state is own and optimizer.param_groups[0] == group and p.tolist() == before
    assert q.tolist() != [5.0, 6.0] and state["state"][0]["exp_avg"].tolist() == pytest.approx([0.1, 0.1])
    with pytest.raises(KeyError), torch.optim.swap_in_optimizer_params_and_state(optimizer, {"p": q}, state):
        raise KeyError
    assert optimizer.state is own and optimizer.param_groups[0]["params"][0] is p


@pytest.mark.parametrize(
    "spoil",
    [
        lambda s: s.update(state=[]),
        lambda s: s.update(param_groups={}),
        lambda s: s["param_groups"].append({}),
        lambda s: s["param_groups"][0].update(params=["p"]),
        lambda s: s["param_groups"][0].update(params=[0, 1]),
        lambda s: s["param_groups"][0].update(new=1),
        lambda s: s["param_groups"][0].pop("lr"),
        lambda s: s["state"].update({7: {}}),
        lambda s: s["state"].update({0: 3}),
    ],
)
def test_swapping_in_another_form(torch, nn, spoil):
    p = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([p])
    state = optimizer.state_dict()
    with pytest.raises(RuntimeError, match="initialized"):
        torch.optim.swap_in_optimizer_params_and_state(optimizer, {"p": p}, state).__enter__()
    p.grad = torch.ones(2)
    optimizer.step()
    state = optimizer.state_dict()
    spoil(state)
    own = optimizer.state
    with pytest.raises(RuntimeError, match="swap"):
        torch.optim.swap_in_optimizer_params_and_state(optimizer, {"p": p}, state).__enter__()
    assert optimizer.state is own and optimizer.param_groups[0]["params"][0] is p
