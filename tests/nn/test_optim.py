"""Optimizers: their formulas, parity with PyTorch, groups, states, hooks, layouts of memory, and bad input."""

import copy
import importlib
import itertools
import pickle
import warnings

import numpy as np
import pytest

GRADS = np.array([[1.0, -2.0], [0.5, 0.0], [-3.0, 1e-3], [0.1, 2.0], [1.0, 1.0]])
START = np.array([1.0, -1.0])


@pytest.fixture
def parameter(torch, nn):
    def make(values=(1.0, 2.0), dtype=None):
        return nn.Parameter(torch.tensor(values, dtype=dtype or torch.float64))

    return make


@pytest.fixture
def optimizers(backend):
    """The module that holds the base class."""
    return importlib.import_module(backend + ".optim.optimizer")


@pytest.fixture
def run(torch, parameter):
    """The parameter after steps with the gradients of GRADS."""

    def run(make, grads=GRADS):
        p = parameter(START.tolist())
        optimizer = make([p])
        for g in grads:
            p.grad = torch.tensor(g.tolist(), dtype=torch.float64)
            optimizer.step()
        return p.tolist()

    return run


# ---- formulas
@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("dampening", [0.0, 0.3])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("maximize", [False, True])
def test_sgd(torch, run, nesterov, dampening, momentum, decay, maximize):
    if nesterov and (dampening or not momentum):
        with pytest.raises(ValueError, match="Nesterov"):
            torch.optim.SGD([torch.zeros(1)], 0.1, momentum, dampening, nesterov=True)
        return
    x, buffer = START.copy(), None
    for g in GRADS:
        d = (-g if maximize else g) + decay * x
        buffer = d if buffer is None else momentum * buffer + (1 - dampening) * d
        x = x - 0.1 * (d + momentum * buffer if nesterov else buffer if momentum else d)
    options = {"momentum": momentum, "dampening": dampening, "weight_decay": decay, "nesterov": nesterov}
    got = run(lambda p: torch.optim.SGD(p, lr=0.1, maximize=maximize, **options))
    np.testing.assert_allclose(got, x, rtol=1e-14)


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("betas", [(0.8, 0.9), (0.3, 0.999), (0.0, 0.0)])
def test_adam(torch, run, amsgrad, decay, decoupled, maximize, betas):
    x, m, v, top = START.copy(), 0.0, 0.0, 0.0
    for t, g in enumerate(GRADS, 1):
        d = -g if maximize else g
        if decoupled:
            x = x * (1 - 0.01 * decay)
        else:
            d = d + decay * x
        m, v = betas[0] * m + (1 - betas[0]) * d, betas[1] * v + (1 - betas[1]) * d * d
        top = np.maximum(top, v)
        spread = np.sqrt((top if amsgrad else v) / (1 - betas[1] ** t))
        x = x - 0.01 * (m / (1 - betas[0] ** t)) / (spread + 1e-6)
    options = {"lr": 0.01, "betas": betas, "eps": 1e-6, "weight_decay": decay, "amsgrad": amsgrad, "maximize": maximize}
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    np.testing.assert_allclose(run(lambda p: kind(p, **options)), x, rtol=1e-13)


SGD_OPTIONS = [
    {"lr": 0.05, "momentum": mu, "dampening": da, "weight_decay": wd, "nesterov": ne, "maximize": ma}
    for mu, da, wd, ne, ma in itertools.product([0, 0.9], [0, 0.2], [0, 0.01], [False, True], [False, True])
    if not ne or (mu and not da)
]
ADAM_OPTIONS = [
    {"lr": 0.01, "weight_decay": wd, "amsgrad": am, "maximize": ma}
    for wd, am, ma in itertools.product([0, 0.1], [False, True], [False, True])
]
CASES = [("SGD", o) for o in SGD_OPTIONS] + [(k, o) for k in ("Adam", "AdamW") for o in ADAM_OPTIONS]


def trained(torch, kind, options, dtype, steps=100):
    """Three parameters after steps with fixed pseudo-random gradients; the second one has none at times."""
    rng = np.random.default_rng(0)
    shapes = [(3, 4), (5,), ()]

    def draw(shape):
        return torch.tensor(np.asarray(rng.standard_normal(shape)).tolist(), dtype=getattr(torch, dtype))

    params = [torch.nn.Parameter(draw(shape)) for shape in shapes]
    optimizer = getattr(torch.optim, kind)(params, **options)
    for step in range(steps):
        for i, (p, s) in enumerate(zip(params, shapes, strict=True)):
            g = draw(s)
            p.grad = None if i == 1 and step % 3 == 0 else g
        optimizer.step()
    return params, optimizer


def label(value):
    return value if isinstance(value, str) else "-".join(map(str, value.values()))


@pytest.mark.parametrize(("kind", "options"), CASES, ids=label)
def test_a_hundred_steps_beside_torch(torch, oracle, kind, options):
    ours, optimizer = trained(torch, kind, options, "float64")
    theirs, reference = trained(oracle, kind, options, "float64")
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.tolist(), b.detach().numpy(), rtol=1e-12, atol=1e-12)
    for a, b in zip(ours, theirs, strict=True):
        assert set(optimizer.state[a]) == set(reference.state[b])
        for key, value in reference.state[b].items():
            np.testing.assert_allclose(optimizer.state[a][key].tolist(), value.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_float32_beside_torch(torch, oracle, kind):
    options = {"lr": 0.01, "weight_decay": 0.1} | ({"momentum": 0.9} if kind == "SGD" else {"amsgrad": True})
    ours, _ = trained(torch, kind, options, "float32")
    theirs, _ = trained(oracle, kind, options, "float32")
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.tolist(), b.detach().numpy(), rtol=2e-6, atol=2e-7)


def test_states_pass_to_torch_and_back(torch, oracle):
    """A state_dict of one library, turned into tensors of the other, continues the same run."""
    for kind, options in CASES[3], CASES[-1]:
        ours, optimizer = trained(torch, kind, options, "float64", steps=3)
        theirs, reference = trained(oracle, kind, options, "float64", steps=5)

        def convert(value):
            if isinstance(value, dict):
                return {key: convert(entry) for key, entry in value.items()}
            if not isinstance(value, oracle.Tensor):
                return value
            return torch.tensor(value.tolist(), dtype=getattr(torch, str(value.dtype).removeprefix("torch.")))

        optimizer.load_state_dict(convert(reference.state_dict()))
        for a, b in zip(ours, theirs, strict=True):
            with torch.no_grad():
                a.copy_(torch.tensor(b.tolist(), dtype=torch.float64))
            a.grad, b.grad = torch.ones_like(a), oracle.ones_like(b)
        optimizer.step()
        reference.step()
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a.tolist(), b.tolist(), rtol=1e-12)
        assert set(reference.state_dict()["param_groups"][0]) == set(optimizer.state_dict()["param_groups"][0])


# ---- gradients
def test_no_gradient_is_not_a_zero_gradient(torch, parameter):
    for make in (
        lambda p: torch.optim.SGD([p], lr=0.1, momentum=0.9, weight_decay=0.1),
        lambda p: torch.optim.Adam([p], lr=0.1, weight_decay=0.1),
    ):
        p = parameter()
        optimizer = make(p)
        optimizer.step()
        assert p.tolist() == [1, 2] and not optimizer.state
        p.grad = torch.zeros_like(p)
        optimizer.step()
        assert all(now < before for now, before in zip(p.tolist(), [1, 2], strict=True))


def test_zero_grad(torch, parameter):
    p = parameter()
    optimizer = torch.optim.SGD([p], lr=0.1)
    p.grad = torch.ones_like(p)
    kept = p.grad
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is kept and kept.tolist() == [0, 0]
    optimizer.zero_grad()
    assert p.grad is None


def test_a_step_is_an_in_place_write(torch, parameter):
    p = parameter()
    optimizer = torch.optim.Adam([p], lr=0.1)
    loss = (p * p).sum()
    loss.backward(retain_graph=True)
    version = p._version
    optimizer.step()
    assert p._version > version and p.is_leaf and p.requires_grad
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_gradients_made_with_a_graph(torch, parameter):
    p = parameter()
    optimizer = torch.optim.SGD([p], lr=0.5)
    (p * p).sum().backward(create_graph=True)
    optimizer.step()
    assert p.tolist() == [0, 0] and p.grad_fn is None


# ---- memory
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("layout", ["transposed", "strided", "gradient transposed", "state contiguous"])
def test_layouts_of_memory(torch, nn, seeded, kind, layout):
    """What lies where in memory changes nothing about the result."""
    options = {"lr": 0.1, "momentum": 0.9, "nesterov": True} if kind == "SGD" else {"lr": 0.1, "amsgrad": True}
    plain = nn.Parameter(torch.randn(4, 6, dtype=torch.float64))
    other = plain.detach().clone()
    if layout == "transposed":
        other = other.t().contiguous().t()
    elif layout == "strided":
        block = torch.zeros(4, 13, dtype=torch.float64)
        block[:, ::2][:, :6] = other
        other = block[:, ::2][:, :6]
    other = nn.Parameter(other)
    optimizers = [getattr(torch.optim, kind)([p], **options) for p in (plain, other)]
    for step in range(4):
        g = torch.randn(4, 6, dtype=torch.float64)
        plain.grad = g
        other.grad = g.t().contiguous().t() if layout == "gradient transposed" else g.clone()
        for optimizer in optimizers:
            optimizer.step()
        if layout == "state contiguous" and step == 1:
            state = optimizers[1].state[other]
            for key in state:
                if state[key].dim():
                    state[key] = state[key].t().contiguous().t()
    assert other.tolist() == plain.tolist()
    if layout == "strided":
        assert block[:, 1::2].abs().sum().item() == 0


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_many_elements_and_both_dtypes_in_one_group(torch, nn, seeded, kind):
    """Large enough to be split between threads, at a size that no block divides."""
    options = {"lr": 0.1, "momentum": 0.9} if kind == "SGD" else {"lr": 0.1}
    sizes = [(100_003, torch.float32), (7, torch.float64), (0, torch.float32), (50_001, torch.float64)]
    params = [nn.Parameter(torch.randn(n, dtype=dtype)) for n, dtype in sizes]
    before = [p.detach().clone() for p in params]
    optimizer = getattr(torch.optim, kind)(params, **options)
    for _ in range(2):
        for p in params:
            p.grad = torch.ones_like(p)
        optimizer.step()
    moved = 0.1 + 0.19 if kind == "SGD" else 0.2
    for p, b in zip(params, before, strict=True):
        if p.numel():
            assert (p - b + moved).abs().max().item() < 1e-6


def test_threads_do_not_change_the_result(torch, nn):
    if torch.get_num_threads() < 2:
        pytest.skip("this machine has one CPU")
    results = []
    threads = torch.get_num_threads()
    try:
        for n in (1, threads):
            torch.set_num_threads(n)
            torch.manual_seed(0)
            p = nn.Parameter(torch.randn(200_000))
            optimizer = torch.optim.Adam([p], lr=0.01, weight_decay=0.1)
            for _ in range(3):
                p.grad = torch.randn(200_000)
                optimizer.step()
            results.append(p.detach())
    finally:
        torch.set_num_threads(threads)
    assert (results[0] == results[1]).all().item()


def test_what_a_step_cannot_write_to(torch, nn, beyond_pytorch):
    for start in (torch.ones(1).expand(3), torch.from_numpy(np.broadcast_to(np.ones(3), (2, 3)).view())):
        p = nn.Parameter(start)
        p.grad = torch.ones_like(p)
        with pytest.raises(RuntimeError, match="clone"):
            torch.optim.SGD([p], lr=0.1).step()


def test_state_of_another_shape_is_refused_before_anything_changes(torch, parameter, beyond_pytorch):
    first, second = parameter(), parameter((1.0, 2.0, 3.0))
    optimizer = torch.optim.SGD([first, second], lr=0.1, momentum=0.9)
    for p in (first, second):
        p.grad = torch.ones_like(p)
    optimizer.state[second]["momentum_buffer"] = torch.zeros(2, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"\(3,\).*\(2,\)"):
        optimizer.step()
    assert first.tolist() == [1, 2] and second.tolist() == [1, 2, 3] and first not in optimizer.state


# ---- groups
def test_groups_have_their_own_options(torch, parameter):
    a, b = parameter(), parameter()
    optimizer = torch.optim.SGD([{"params": a}, {"params": [b], "lr": 1.0}], lr=0.1)
    assert [g["lr"] for g in optimizer.param_groups] == [0.1, 1.0] and optimizer.param_groups[0]["params"] == [a]
    for p in (a, b):
        p.grad = torch.ones_like(p)
    optimizer.step()
    assert a.tolist() == [0.9, 1.9] and b.tolist() == [0, 1]
    optimizer.param_groups[0]["lr"] = 0.9
    optimizer.step()
    assert a.tolist() == pytest.approx([0, 1])
    c = parameter()
    optimizer.add_param_group({"params": iter([c]), "weight_decay": 0.5})
    c.grad = torch.zeros_like(c)
    optimizer.step()
    assert c.tolist() == [0.95, 1.9]


def test_names(torch, nn):
    layer = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(layer.named_parameters(), lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.param_groups[0]["params"] == list(layer.parameters())
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
    with pytest.raises(ValueError, match="names"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(1))]})
    with pytest.raises(ValueError, match="names"):
        torch.optim.SGD([("a", nn.Parameter(torch.zeros(1))), nn.Parameter(torch.zeros(1))], lr=0.1)


def test_a_learning_rate_may_be_a_tensor(torch, run):
    plain = run(lambda p: torch.optim.Adam(p, lr=0.25))
    assert run(lambda p: torch.optim.Adam(p, lr=torch.tensor(0.25))) == pytest.approx(plain, rel=1e-6)


def test_bad_parameters(torch, nn, parameter):
    p = parameter()
    optimizer = torch.optim.SGD([p], lr=0.1)
    for error, params in (
        (TypeError, p),
        (TypeError, [3]),
        (TypeError, [{"params": {p}}]),
        (ValueError, []),
        (ValueError, [p * 2]),
        (ValueError, [{"params": [p]}, {"params": [p]}]),
    ):
        with pytest.raises(error):
            torch.optim.SGD(params, lr=0.1)
    for error, group in ((TypeError, [p]), (ValueError, {"params": [p]}), (TypeError, {"params": "x"})):
        with pytest.raises(error):
            optimizer.add_param_group(group)
    assert len(optimizer.param_groups) == 1
    with pytest.warns(UserWarning):
        torch.optim.SGD([p, p], lr=0.1)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("SGD", {"lr": -0.1}),
        ("SGD", {"momentum": -0.1}),
        ("SGD", {"weight_decay": -0.1}),
        ("SGD", {"nesterov": True}),
        ("SGD", {"nesterov": True, "momentum": 0.9, "dampening": 0.1}),
        ("Adam", {"lr": -0.1}),
        ("Adam", {"eps": -1e-8}),
        ("Adam", {"betas": (1.0, 0.9)}),
        ("Adam", {"betas": (0.9, -0.1)}),
        ("AdamW", {"weight_decay": -1}),
    ],
)
def test_bad_options(torch, parameter, kind, options):
    with pytest.raises(ValueError):
        getattr(torch.optim, kind)([parameter()], **options)


@pytest.mark.parametrize(
    "options", [{"differentiable": True, "fused": True}, {"capturable": True}, {"foreach": True, "fused": True}]
)
def test_implementations_that_do_not_exist(torch, parameter, options, beyond_pytorch):
    with pytest.raises(RuntimeError):
        torch.optim.Adam([parameter()], **options)


# ---- closures and hooks
def test_closure(torch, parameter):
    p = parameter()
    optimizer = torch.optim.SGD([p], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with torch.no_grad():
        assert optimizer.step(closure).item() == 5
    assert p.tolist() == [0, 0] and optimizer.step() is None


def test_step_hooks(torch, parameter, optimizers):
    p = parameter()
    optimizer = torch.optim.SGD([p], lr=0.1)
    seen = []
    handles = [
        optimizer.register_step_pre_hook(lambda opt, args, kwargs: seen.append(("pre", opt, args, kwargs))),
        optimizer.register_step_post_hook(lambda opt, args, kwargs: seen.append(("post",))),
        optimizers.register_optimizer_step_pre_hook(lambda *a: seen.append(("every pre",))),
        optimizers.register_optimizer_step_post_hook(lambda *a: seen.append(("every post",))),
    ]
    optimizer.step()
    assert [entry[0] for entry in seen] == ["every pre", "pre", "post", "every post"] and seen[1][1] is optimizer
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(seen) == 4
    optimizer.register_step_pre_hook(lambda *a: 3)
    with pytest.raises(RuntimeError):
        optimizer.step()


def test_optimizers_of_users(torch, parameter, optimizers):
    class Signs(torch.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": optimizers.required})

        @torch.no_grad()
        def step(self):
            for group in self.param_groups:
                for p in group["params"]:
                    p.sub_(p.grad.sign(), alpha=group["lr"])
                    self.state[p]["n"] = self.state[p].get("n", 0) + 1

    p = parameter()
    with pytest.raises(ValueError, match="lr"):
        Signs([p])
    optimizer = Signs([{"params": [p], "lr": 0.5}])
    seen = []
    optimizer.register_step_post_hook(lambda *a: seen.append(1))
    p.grad = torch.tensor([3.0, -3.0], dtype=torch.float64)
    optimizer.step()
    assert p.tolist() == [0.5, 2.5] and seen == [1] and optimizer.state_dict()["state"] == {0: {"n": 1}}
    with pytest.raises(NotImplementedError):
        torch.optim.Optimizer([p], {}).step()


# ---- states
def stepped(torch, parameter, kind="Adam", **options):
    p = parameter()
    optimizer = getattr(torch.optim, kind)([p], lr=0.1, **options)
    p.grad = torch.ones_like(p)
    optimizer.step()
    return p, optimizer


def test_state_dict_shares_no_memory(torch, parameter, beyond_pytorch):
    p, optimizer = stepped(torch, parameter)
    state = optimizer.state_dict()
    before = state["state"][0]["exp_avg"].tolist()
    p.grad = torch.full_like(p, 9.0)
    optimizer.step()
    state["param_groups"][0]["lr"] = 7
    assert state["state"][0]["exp_avg"].tolist() == before and state["state"][0]["step"].item() == 1
    assert optimizer.param_groups[0]["lr"] == 0.1 and state["param_groups"][0]["params"] == [0]


def test_loaded_state_is_a_copy(torch, parameter, beyond_pytorch):
    p, first = stepped(torch, parameter, "SGD", momentum=0.9)
    q, second = stepped(torch, parameter, "SGD", momentum=0.5)
    second.load_state_dict(first.state_dict())
    assert second.param_groups[0]["momentum"] == 0.9
    q.grad = torch.full_like(q, 5.0)
    second.step()
    assert second.state[q]["momentum_buffer"].tolist() == pytest.approx([5.9, 5.9])
    assert first.state[p]["momentum_buffer"].tolist() == [1, 1]


def test_loaded_state_takes_the_parameters_dtype(torch, parameter):
    _, source = stepped(torch, parameter)
    p = parameter(dtype=torch.float32)
    target = torch.optim.Adam([p])
    target.load_state_dict(source.state_dict())
    state = target.state[p]
    assert state["exp_avg"].dtype == torch.float32 and state["step"].dtype == torch.float32
    p.grad = torch.ones_like(p)
    target.step()
    assert state["step"].item() == 2


def test_a_state_that_does_not_fit_changes_nothing(torch, parameter):
    _, source = stepped(torch, parameter)
    p, q = parameter(), parameter()
    for groups in ([{"params": [p]}, {"params": [q]}], [{"params": [p, q]}]):
        target = torch.optim.Adam(groups, lr=0.7)
        with pytest.raises(ValueError):
            target.load_state_dict(source.state_dict())
        assert not target.state and target.param_groups[0]["lr"] == 0.7


def test_hooks_around_states(torch, parameter):
    p, optimizer = stepped(torch, parameter)
    seen = []
    optimizer.register_state_dict_pre_hook(lambda opt: seen.append("before save"))
    optimizer.register_state_dict_post_hook(lambda opt, state: state | {"extra": 1})
    optimizer.register_load_state_dict_pre_hook(lambda opt, state: seen.append(state.pop("extra")))
    optimizer.register_load_state_dict_post_hook(lambda opt: seen.append("after load"))
    optimizer.register_load_state_dict_post_hook(lambda opt: seen.append("first"), prepend=True)
    state = optimizer.state_dict()
    optimizer.load_state_dict(state)
    assert seen == ["before save", 1, "first", "after load"] and state["extra"] == 1
    assert optimizer.state[p]["step"].item() == 1


def test_adamw_stays_decoupled_whatever_it_loads(torch, parameter):
    _, adam = stepped(torch, parameter)
    p = parameter()
    adamw = torch.optim.AdamW([p])
    adamw.load_state_dict(adam.state_dict())
    assert adamw.param_groups[0]["decoupled_weight_decay"]


def test_copies_and_pickles_go_on_like_the_original(torch, parameter):
    p, optimizer = stepped(torch, parameter)
    for twin in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        q = twin.param_groups[0]["params"][0]
        assert q is not p and twin.state[q]["step"].item() == 1
        q.grad = torch.ones_like(q)
        twin.step()
        assert twin.state[q]["step"].item() == 2
    assert optimizer.state[p]["step"].item() == 1


def test_repr(torch, parameter):
    optimizer = torch.optim.SGD([parameter()], lr=0.1)
    assert repr(optimizer) == (
        "SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: False\n    foreach: None\n    fused: None\n"
        "    lr: 0.1\n    maximize: False\n    momentum: 0\n    nesterov: False\n    weight_decay: 0\n)"
    )


def test_accumulated_small_batches_equal_a_large_one(torch, nn, seeded):
    x, y = torch.randn(12, 3, dtype=torch.float64), torch.randn(12, 1, dtype=torch.float64)
    results = []
    for parts in (1, 4):
        torch.manual_seed(1)
        layer = nn.Linear(3, 1).double()
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        for a, b in zip(x.chunk(parts), y.chunk(parts), strict=True):
            (nn.functional.mse_loss(layer(a), b) / parts).backward()
        optimizer.step()
        results.append(layer.weight.tolist()[0])
    assert results[0] == pytest.approx(results[1], rel=1e-12)


def test_training_reaches_the_solution(torch, nn, seeded):
    x = torch.randn(64, 3)
    target = x @ torch.tensor([[1.0], [-2.0], [0.5]]) + 3
    for make in (lambda p: torch.optim.SGD(p, 0.1, momentum=0.5), lambda p: torch.optim.AdamW(p, 0.1, weight_decay=0)):
        layer = nn.Linear(3, 1)
        optimizer = make(layer.parameters())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(200):
                optimizer.zero_grad()
                nn.functional.mse_loss(layer(x), target).backward()
                optimizer.step()
        assert layer.weight.tolist()[0] == pytest.approx([1, -2, 0.5], abs=1e-2)
        assert layer.bias.item() == pytest.approx(3, abs=1e-2)


def test_a_step_after_saving_in_allow_mutation(torch):
    """Parameters that the graph saved are copied before the optimizer writes them."""
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        y = (w * w).sum()
        w.grad = torch.ones(2)
        optimizer.step()
        w.grad = None
        y.backward()
    assert w.tolist() == [0.5, 1.5] and w.grad.tolist() == [2.0, 4.0]


def test_a_step_into_an_inference_tensor(torch):
    with torch.inference_mode():
        w = torch.ones(2, requires_grad=True)
    w.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        torch.optim.SGD([w], lr=0.5).step()
    assert w.tolist() == [1.0, 1.0] or torch.__name__ == "torch"     # which writes before it raises
