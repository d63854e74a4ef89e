"""Lazy modules: created without the size of their input, complete after the first call."""

import copy
import pickle

import numpy as np
import pytest

LAYERS = [
    ("LazyLinear", (4,), {}, (2, 3, 5)), ("LazyLinear", (4,), {"bias": False}, (5,)),
    ("LazyConv1d", (4, 3), {"groups": 2}, (2, 6, 9)), ("LazyConv1d", (4, 3), {"padding_mode": "circular"}, (6, 9)),
    ("LazyConv2d", (4, (3, 2)), {"stride": 2, "bias": False}, (2, 3, 8, 8)),
    ("LazyConv3d", (4, 2), {}, (1, 3, 4, 4, 4)),
    ("LazyConvTranspose1d", (4, 3), {"stride": 2, "output_padding": 1}, (2, 6, 9)),
    ("LazyConvTranspose2d", (4, 3), {"groups": 2}, (2, 6, 4, 4)), ("LazyConvTranspose3d", (2, 2), {}, (3, 2, 2, 2)),
    ("LazyBatchNorm1d", (), {}, (4, 3)), ("LazyBatchNorm1d", (), {"affine": False}, (4, 3, 5)),
    ("LazyBatchNorm2d", (1e-3, None), {"bias": False}, (4, 3, 2, 2)),
    ("LazyBatchNorm3d", (), {"track_running_stats": False}, (4, 3, 2, 2, 2)),
    ("LazyInstanceNorm1d", (), {}, (4, 3, 5)), ("LazyInstanceNorm2d", (), {}, (4, 3, 5, 5)),
    ("LazyInstanceNorm3d", (), {"affine": False}, (4, 3, 2, 2, 2)),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(LAYERS)), ids=lambda i: f"{LAYERS[i][0]}{i}")
def test_becomes_pytorchs_layer(nn, torch, oracle, case):
    name, args, options, shape = LAYERS[case]
    x = np.random.default_rng(case).standard_normal(shape).astype("float32")
    found = []
    for lib in (torch, oracle):
        layer = getattr(lib.nn, name)(*args, **options)
        before = repr(layer), list(layer.state_dict()), [repr(p) for p in layer.parameters()]
        lib.manual_seed(3)
        result = layer(lib.from_numpy(x))
        assert type(layer) is getattr(lib.nn, name.removeprefix("Lazy"))
        assert not layer._forward_pre_hooks
        state = {key: value.numpy() for key, value in layer.state_dict().items()}
        found.append((before, repr(layer), state, result.detach().numpy()))
    (before, text, state, result), (before_t, text_t, state_t, result_t) = found
    assert before == before_t and text == text_t
    assert list(state) == list(state_t)
    for key in state:
        same = np.testing.assert_allclose if key.startswith("running") else np.testing.assert_array_equal
        same(state[key], state_t[key], **({"rtol": 1e-5, "atol": 1e-7} if key.startswith("running") else {}))
    np.testing.assert_allclose(result, result_t, rtol=1e-4, atol=1e-5)


def test_in_a_network(nn, torch):
    net = nn.Sequential(nn.LazyConv2d(4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
    optimizer_sees = list(net.parameters())
    net.double()
    assert all(a is b for a, b in zip(optimizer_sees, net.parameters(), strict=True))
    assert all(p.dtype == torch.float64 for p in net.parameters())
    net(torch.zeros(1, 3, 5, 5, dtype=torch.float64)).sum().backward()
    assert all(a is b for a, b in zip(optimizer_sees, net.parameters(), strict=True))
    assert net[3].in_features == 36 and net[0].in_channels == 3
    assert all(p.grad is not None and type(p) is nn.Parameter for p in net.parameters())


def test_what_has_no_values_refuses(nn, torch):
    layer = nn.LazyLinear(2)
    for use in (
        lambda p: p + 1, lambda p: 1 - p, lambda p: p.add_(1), lambda p: p.numel(), lambda p: p[0], lambda p: len(p),
        lambda p: p == p, lambda p: p.detach(), lambda p: p.tolist(), lambda p: p @ p, lambda p: bool(p), list,
        lambda p: p.requires_grad_(False), lambda p: -p, lambda p: p.sum(), lambda p: p.backward(),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="uninitialized parameter"):
            use(layer.weight)
    with pytest.raises(RuntimeError, match="shape of an uninitialized"):
        layer.weight.shape  # noqa: B018
    with pytest.raises(RuntimeError, match="share memory"):
        layer.share_memory()
    assert isinstance(layer.weight, nn.Parameter) and layer.weight.requires_grad and layer.weight.is_leaf
    assert repr(layer.weight) == "<UninitializedParameter>"


def test_states(nn, torch):
    full = nn.Linear(3, 2)
    lazy = nn.LazyLinear(2)
    assert [repr(v) for v in lazy.state_dict().values()] == ["<UninitializedParameter>"] * 2
    with pytest.raises(RuntimeError):
        full.load_state_dict(lazy.state_dict())
    before = full.weight.tolist()
    other = nn.LazyLinear(2)
    other.load_state_dict(lazy.state_dict())
    assert other.has_uninitialized_params()
    lazy.load_state_dict(full.state_dict())
    assert not lazy.has_uninitialized_params() and lazy.weight.tolist() == before
    x = torch.randn(4, 3)
    assert lazy(x).tolist() == full(x).tolist() and repr(lazy) == repr(full)


def test_a_load_that_fails_leaves_it_uninitialized(nn, torch, beyond_pytorch):
    net = nn.Sequential(nn.LazyLinear(2), nn.Linear(2, 2))
    state = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 3)).state_dict()
    with pytest.raises(RuntimeError, match="size mismatch"):
        net.load_state_dict(state)
    assert net[0].has_uninitialized_params()
    with pytest.raises(RuntimeError, match="Unexpected"):
        net.load_state_dict({**net.state_dict(), "0.weight": torch.ones(2, 3), "more": torch.ones(1)})
    assert net[0].has_uninitialized_params()


def test_a_loaded_convolution_knows_its_channels(nn, torch, beyond_pytorch):
    for name, options in (("Conv2d", {"groups": 2}), ("ConvTranspose2d", {"groups": 2}), ("BatchNorm2d", {})):
        if name == "BatchNorm2d":
            full, lazy = nn.BatchNorm2d(4), nn.LazyBatchNorm2d()
        else:
            full, lazy = getattr(nn, name)(4, 6, 3, **options), getattr(nn, "Lazy" + name)(6, 3, **options)
        lazy.load_state_dict(full.state_dict())
        lazy(torch.randn(2, 4, 5, 5))
        assert repr(lazy) == repr(full)


def test_copies_and_pickles(nn, torch):
    lazy = nn.LazyLinear(2, dtype=torch.float64)
    for copied in (copy.deepcopy(lazy), pickle.loads(pickle.dumps(lazy))):
        assert copied.weight is not lazy.weight and copied.has_uninitialized_params()
        copied(torch.ones(2, 3, dtype=torch.float64 if copied.weight.dtype == torch.float64 else torch.float32))
        assert type(copied) is nn.Linear and copied.in_features == 3
        assert lazy.has_uninitialized_params()


def test_copies_keep_dtype_and_buffers(nn, torch, beyond_pytorch):
    lazy = nn.LazyBatchNorm1d(dtype=torch.float64)
    for copied in (copy.deepcopy(lazy), pickle.loads(pickle.dumps(lazy))):
        copied(torch.ones(2, 3, dtype=torch.float64))
        assert type(copied) is nn.BatchNorm1d and copied.running_mean.dtype == torch.float64
        assert lazy.has_uninitialized_params()


def test_what_cannot_be_a_first_input(nn, torch):
    with pytest.raises(RuntimeError, match="input to LazyConv1d"):
        nn.LazyConv1d(2, 3)(torch.ones(4))
    with pytest.raises(ValueError, match="divisible"):
        nn.LazyConv1d(2, 3, groups=2)(torch.ones(1, 3, 9))
    layer = nn.LazyLinear(2)

    class Forgetful(nn.modules.lazy.LazyModuleMixin, nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.UninitializedParameter()

        def initialize_parameters(self, x):
            pass

    with pytest.raises(RuntimeError, match="not been fully initialized"):
        Forgetful()(torch.ones(1))
    with pytest.raises(TypeError):
        layer()
    assert layer.has_uninitialized_params()


def test_own_lazy_module(nn, torch):
    class Scale(nn.modules.lazy.LazyModuleMixin, nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = nn.UninitializedParameter()
            self.offset = nn.UninitializedBuffer()

        def initialize_parameters(self, x):
            self.factor.materialize(x.shape[1:])
            self.offset.materialize(x.shape[1:], dtype=torch.float64)
            nn.init.ones_(self.factor)
            nn.init.zeros_(self.offset)

        def forward(self, x):
            return x * self.factor + self.offset

    module = Scale()
    assert module(torch.ones(2, 3)).tolist() == [[1.0] * 3] * 2
    assert module.offset.dtype == torch.float64 and list(module.state_dict()) == ["factor", "offset"]
    assert isinstance(module.factor, nn.Parameter) and module.factor.shape == (3,)


def test_what_cannot_be_materialized_stays_as_it_was(nn, torch, beyond_pytorch):
    p = nn.UninitializedParameter()
    for shape, dtype, error in (((2,), torch.int64, RuntimeError), ((-1,), None, RuntimeError), ("a", None, TypeError)):
        with pytest.raises(error):
            p.materialize(shape, dtype=dtype)
        assert repr(p) == "<UninitializedParameter>"
        for use in (lambda p: p + 1, lambda p: torch.add(p, 1), lambda p: torch.reshape(p, (0,)), lambda p: p.T):
            with pytest.raises(ValueError, match="uninitialized parameter"):
                use(p)
    p.materialize((2, 3))
    assert type(p) is nn.Parameter and torch.zeros_like(p).tolist() == [[0] * 3] * 2
