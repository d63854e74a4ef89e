"""Parametrizations of parameters, their kinds, and the hooks that came before them."""

import copy
import importlib
import pickle
import warnings

import numpy as np
import pytest


@pytest.fixture
def parametrize(nn):
    return nn.utils.parametrize


@pytest.fixture
def symmetric(nn):
    class Symmetric(nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).T

    return Symmetric


def test_a_parametrized_layer(torch, nn, parametrize, symmetric):
    torch.manual_seed(0)
    layer = nn.Linear(3, 3)
    original = layer.weight
    before = original.detach().clone()
    assert parametrize.register_parametrization(layer, "weight", symmetric()) is layer
    assert parametrize.is_parametrized(layer) and parametrize.is_parametrized(layer, "weight")
    assert not parametrize.is_parametrized(layer, "bias")
    assert (layer.weight == layer.weight.T).all() and layer.weight is not layer.weight
    assert layer.parametrizations.weight.original is original and isinstance(layer, nn.Linear)
    assert [name for name, _ in layer.named_parameters()] == ["bias", "parametrizations.weight.original"]
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    text = "ParametrizedLinear(\n  in_features=3, out_features=3, bias=True\n  (parametrizations): ModuleDict("
    assert repr(layer).startswith(text)
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
    layer(torch.ones(1, 3)).sum().backward()
    assert original.grad.tolist() == [[1, 2, 2], [0, 1, 2], [0, 0, 1]]
    assert parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False) is layer
    assert layer.weight is original and (original == before).all() and type(layer) is nn.Linear
    assert not parametrize.is_parametrized(layer) and not hasattr(layer, "parametrizations")


def test_what_is_left_may_be_the_value(torch, nn, parametrize, symmetric):
    layer = nn.Linear(3, 3)
    original = layer.weight
    parametrize.register_parametrization(layer, "weight", symmetric())
    value = layer.weight.tolist()
    parametrize.remove_parametrizations(layer, "weight")
    assert layer.weight is original and layer.weight.tolist() == value and original.requires_grad


def test_several_in_turn_and_right_inverses(torch, nn, parametrize):
    class Times(nn.Module):
        def __init__(self, factor):
            super().__init__()
            self.factor = factor

        def forward(self, x):
            return x * self.factor

        def right_inverse(self, x):
            return x / self.factor

    layer = nn.Linear(2, 2)
    value = layer.weight.tolist()
    for factor in (2.0, 4.0):
        parametrize.register_parametrization(layer, "weight", Times(factor))
    assert layer.parametrizations.weight.original.tolist() == [[x / 2 for x in row] for row in value]
    assert layer.weight.tolist() == [[x * 4 for x in row] for row in value]
    layer.weight = torch.full((2, 2), 16.0)
    assert layer.parametrizations.weight.original.tolist() == [[2, 2]] * 2 and layer.weight.tolist() == [[16, 16]] * 2
    assert len(layer.parametrizations.weight) == 2 and layer.parametrizations.weight[1].factor == 4
    assert layer.eval().parametrizations.weight[0].training is False


def test_several_originals(torch, nn, parametrize):
    class Outer(nn.Module):
        def forward(self, a, b):
            return a.unsqueeze(1) * b

        def right_inverse(self, x):
            return x[:, 0].clone(), x[0] / x[0, 0]

    layer = nn.Linear(2, 3, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 6.0], [5.0, 10.0]]))
    parametrize.register_parametrization(layer, "weight", Outer())
    assert list(layer.state_dict()) == ["parametrizations.weight.original0", "parametrizations.weight.original1"]
    assert layer.weight.tolist() == [[1, 2], [3, 6], [5, 10]]
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in layer.parameters())
    with pytest.raises(ValueError, match="sequence of tensors"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer.weight) is nn.Parameter and layer.weight.tolist() == [[1, 2], [3, 6], [5, 10]]


def test_buffers(torch, nn, parametrize):
    class Exp(nn.Module):
        def forward(self, x):
            return x.exp()

    norm = nn.BatchNorm1d(2)
    parametrize.register_parametrization(norm, "running_var", Exp())
    assert [name for name, _ in norm.named_buffers()][-1] == "parametrizations.running_var.original"
    assert norm.running_var.tolist() == pytest.approx([np.e] * 2)
    parametrize.remove_parametrizations(norm, "running_var")
    assert norm.running_var.tolist() == pytest.approx([np.e] * 2) and not norm.running_var.requires_grad


def test_cached_values(nn, parametrize, symmetric):
    layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", symmetric())
    with parametrize.cached():
        first = layer.weight
        with parametrize.cached():
            assert layer.weight is first
        assert layer.weight is first
    assert layer.weight is not first


def test_what_does_not_fit(torch, nn, parametrize):
    class Bad(nn.Module):
        def __init__(self, result, inverse=None):
            super().__init__()
            self.result = result
            if inverse is not None:
                self.right_inverse = inverse

        def forward(self, *x):
            return self.result(*x)

    cases = [
        (lambda x: None, None), (lambda x: x.double(), None), (lambda x: x[:1], None),
        (lambda x: x, lambda x: x.double()),
        (lambda x: x, lambda x: "text"), (lambda *x: x[0], lambda x: (x, "text")),
    ]  # fmt: skip
    for result, inverse in cases:
        layer = nn.Linear(2, 2)
        before, weight = layer.weight.tolist(), layer.weight
        with pytest.raises(ValueError):
            parametrize.register_parametrization(layer, "weight", Bad(result, inverse))
        assert layer.weight is weight and weight.tolist() == before and type(layer) is nn.Linear
    layer = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="does not have"):
        parametrize.register_parametrization(layer, "nothing", Bad(lambda x: x))
    with pytest.raises(ValueError, match="does not have a parametrization"):
        parametrize.remove_parametrizations(layer, "weight")
    with pytest.raises(ValueError, match="one or more modules"):
        parametrize.ParametrizationList([], layer.weight)
    parametrize.register_parametrization(layer, "weight", Bad(lambda x: x[:1]), unsafe=True)
    assert layer.weight.shape == (1, 2)
    with pytest.raises(RuntimeError, match="right_inverse"):
        layer.weight = torch.zeros(1, 2)


def test_a_further_one_that_does_not_fit(torch, nn, parametrize, symmetric):
    layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", symmetric())

    class Cut(nn.Module):
        def forward(self, x):
            return x[:1]

    with pytest.raises(ValueError, match="shape"):
        parametrize.register_parametrization(layer, "weight", Cut())
    assert len(layer.parametrizations.weight) == 1


def test_copies_and_pickles(nn, parametrize, symmetric):
    layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", symmetric())
    other = copy.deepcopy(layer)
    assert other.weight.tolist() == layer.weight.tolist()
    assert other.parametrizations.weight.original is not layer.parametrizations.weight.original
    with pytest.raises(RuntimeError, match="state_dict"):
        pickle.dumps(layer)


def test_a_copy_has_a_class_of_its_own(nn, parametrize, symmetric, beyond_pytorch):
    layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", symmetric())
    other = copy.deepcopy(layer)
    parametrize.remove_parametrizations(other, "weight")
    assert (layer.weight == layer.weight.T).all()


def test_transfer(nn, parametrize, symmetric):
    layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", symmetric())
    other = nn.Linear(3, 3)
    assert parametrize.transfer_parametrizations_and_params(layer, other) is other
    assert other.parametrizations.weight.original is layer.parametrizations.weight.original
    assert other.weight.tolist() == layer.weight.tolist()


# ---- the kinds
KINDS = [
    ("weight_norm", {}), ("weight_norm", {"dim": None}), ("weight_norm", {"dim": 1}), ("spectral_norm", {}),
    ("spectral_norm", {"n_power_iterations": 3, "eps": 1e-6, "dim": 1}), ("orthogonal", {}),
    ("orthogonal", {"orthogonal_map": "cayley"}), ("orthogonal", {"orthogonal_map": "matrix_exp"}),
    ("orthogonal", {"orthogonal_map": "householder", "use_trivialization": False}),
]  # fmt: skip
LAYERS = [("Linear", (3, 5)), ("Linear", (5, 3)), ("Linear", (4, 4)), ("Conv2d", (2, 3, 3)),
    ("ConvTranspose2d", (2, 3, 2))]


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=lambda i: f"{KINDS[i][0]}{i}")
@pytest.mark.parametrize("layer", range(len(LAYERS)), ids=lambda i: f"{LAYERS[i][0]}{i}")
def test_kinds_beside_pytorch(torch, nn, oracle, kind, layer):
    (name, options), (cls, args) = KINDS[kind], LAYERS[layer]
    found = []
    for lib in (torch, oracle):
        lib.manual_seed(kind)
        made = getattr(lib.nn, cls)(*args, dtype=lib.float64)
        assert getattr(lib.nn.utils.parametrizations, name)(made, **options) is made
        x = lib.randn(2, 4, 4, dtype=lib.float64) if cls.startswith("Conv") else lib.randn(2, args[0],
            dtype=lib.float64)
        text = repr(made)
        results = []
        for training in (True, False):
            made.train(training)
            y = made(x)
            y.sin().sum().backward()
            results += [y, made.weight]
        results += [p.grad for p in made.parameters()]
        state = made.state_dict()
        found.append((text, list(state), [t.detach().numpy() for t in (*results, *state.values())]))
    (text, keys, values), (text_t, keys_t, values_t) = found
    assert text == text_t and keys == keys_t
    for a, b in zip(values, values_t, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-10)


def test_orthogonal_matrices_stay_orthogonal(torch, nn):
    torch.manual_seed(0)
    for rows, columns in ((3, 5), (5, 3), (4, 4)):
        layer = nn.utils.parametrizations.orthogonal(nn.Linear(columns, rows, dtype=torch.float64))
        steps = torch.optim.SGD(layer.parameters(), lr=0.1)
        for _ in range(3):
            steps.zero_grad()
            layer(torch.randn(4, columns, dtype=torch.float64)).square().sum().backward()
            steps.step()
        w = layer.weight.detach()
        w = w if rows >= columns else w.T
        assert torch.allclose(w.T @ w, torch.eye(min(rows, columns), dtype=torch.float64), atol=1e-12)
        target = torch.linalg.qr(torch.randn(max(rows, columns), min(rows, columns), dtype=torch.float64))[0]
        target = target if rows >= columns else target.T
        layer.weight = target
        assert torch.allclose(layer.weight, target, atol=1e-12)


def test_kinds_that_cannot_be(torch, nn):
    kinds = nn.utils.parametrizations
    for make, error in (
        (lambda: kinds.orthogonal(nn.Linear(2, 2), "bias"), ValueError),
        (lambda: kinds.orthogonal(nn.Linear(2, 2), orthogonal_map="other"), ValueError),
        (lambda: kinds.orthogonal(nn.Linear(2, 2), "nothing"), ValueError),
        (lambda: kinds.orthogonal(nn.Linear(2, 3, dtype=torch.complex64), orthogonal_map="householder"), ValueError),
        (lambda: kinds.spectral_norm(nn.Linear(2, 2), n_power_iterations=0), ValueError),
        (lambda: kinds.spectral_norm(nn.Linear(2, 2), dim=2), IndexError),
        (lambda: kinds.spectral_norm(nn.Linear(2, 2), "nothing"), ValueError),
        (lambda: kinds.weight_norm(nn.Linear(2, 2), "nothing"), ValueError),
    ):
        with pytest.raises(error):
            make()
    layer = kinds.orthogonal(nn.Linear(2, 2), use_trivialization=False)
    with pytest.raises(NotImplementedError):
        layer.weight = torch.eye(2)
    with pytest.raises(ValueError, match="shape"):
        kinds.orthogonal(nn.Linear(2, 2)).weight = torch.eye(3)


# ---- the hooks
@pytest.fixture
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", ["weight_norm", "spectral_norm"])
@pytest.mark.parametrize("layer", range(len(LAYERS)), ids=lambda i: f"{LAYERS[i][0]}{i}")
def test_hooks_beside_pytorch(torch, nn, oracle, quiet, name, layer):
    cls, args = LAYERS[layer]
    found = []
    for lib in (torch, oracle):
        lib.manual_seed(layer)
        made = getattr(lib.nn, cls)(*args, dtype=lib.float64)
        getattr(lib.nn.utils, name)(made)
        x = lib.randn(2, 4, 4, dtype=lib.float64) if cls.startswith("Conv") else lib.randn(2, args[0],
            dtype=lib.float64)
        y = made(x)
        y.sin().sum().backward()
        state = made.state_dict()
        results = [y, *(p.grad for p in made.parameters()), *state.values()]
        names = list(state)
        metadata = dict(state._metadata[""])
        getattr(lib.nn.utils, "remove_" + name)(made)
        results += [made.weight, made.eval()(x)]
        assert not made._forward_pre_hooks and not made._state_dict_hooks
        assert lib is oracle or not made._load_state_dict_pre_hooks
        found.append((names, metadata, list(made.state_dict()), [t.detach().numpy() for t in results]))
    assert found[0][:3] == found[1][:3]
    for a, b in zip(found[0][3], found[1][3], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-10)


def test_hooks_that_cannot_be(nn, quiet):
    for name in ("weight_norm", "spectral_norm"):
        put, remove = getattr(nn.utils, name), getattr(nn.utils, "remove_" + name)
        layer = put(nn.Linear(2, 2))
        with pytest.raises(RuntimeError, match="Cannot register two"):
            put(layer)
        remove(layer)
        with pytest.raises(ValueError, match="not found"):
            remove(layer)
        with pytest.raises(ValueError, match="uninitialized"):
            put(nn.LazyLinear(2))
    with pytest.raises(ValueError, match="positive"):
        nn.utils.spectral_norm(nn.Linear(2, 2), n_power_iterations=0)
    with pytest.raises(ValueError, match="None"):
        nn.utils.spectral_norm(nn.Linear(2, 2, bias=False), "bias")


def test_the_new_weight_norm_reads_states_of_the_old(torch, nn, quiet):
    old, new = nn.utils.weight_norm(nn.Linear(3, 2)), nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    new.load_state_dict(old.state_dict())
    x = torch.ones(1, 3)
    assert new(x).tolist() == pytest.approx(old(x).tolist()[0]) or torch.allclose(new(x), old(x))


def test_states_from_before_the_right_vector_was_saved(torch, nn):
    torch.manual_seed(0)
    layer = nn.utils.spectral_norm(nn.Linear(2, 3))
    for _ in range(20):
        layer(torch.ones(1, 2))
    layer.eval()(torch.ones(1, 2))
    state = dict(layer.state_dict())
    v = state.pop("weight_v")
    state["weight"] = layer.weight.detach()
    other = nn.utils.spectral_norm(nn.Linear(2, 3))
    other.load_state_dict(state)
    assert torch.allclose(other.weight_v, v, atol=1e-4)
    with pytest.raises(RuntimeError, match="Missing"):
        other.load_state_dict({k: t for k, t in state.items() if k != "weight_u"})


def test_old_names_are_deprecated(nn, torch):
    with pytest.warns(FutureWarning, match="parametrizations"):
        nn.utils.weight_norm(nn.Linear(2, 2))
    stateless = importlib.import_module(nn.utils.__name__ + ".stateless")
    with pytest.warns(FutureWarning):
        y = stateless.functional_call(nn.Linear(1, 1), {"weight": torch.ones(1, 1), "bias": torch.zeros(1)},
            torch.ones(1))
    assert y.item() == 1
    p = nn.Parameter(torch.zeros(2))
    p.grad = torch.tensor([3.0, 4.0])
    with pytest.warns(FutureWarning):
        assert nn.utils.clip_grad_norm([p], 1.0).item() == 5
