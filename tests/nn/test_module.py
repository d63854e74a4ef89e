"""Module: registration and attributes, walking the tree, modes and conversions, copies and text."""

import copy
import importlib
import inspect
import pickle

import pytest


@pytest.fixture
def net(torch, nn, seeded):
    """Two layers, one inside the other."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.tensor([2.0]))
            self.register_buffer("mean", torch.zeros(3))
            self.register_buffer("scratch", torch.ones(2), persistent=False)
            self.body = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2, bias=False))
            self.plain = 5

        def forward(self, x):
            return self.body(x - self.mean) * self.scale

    return Net()


def names(pairs):
    return [name for name, _ in pairs]


# ---- registration
def test_parameters_in_order_of_registration(net):
    assert names(net.named_parameters()) == ["scale", "body.0.weight", "body.0.bias", "body.2.weight"]
    assert names(net.named_parameters(prefix="p")) == ["p.scale", "p.body.0.weight", "p.body.0.bias", "p.body.2.weight"]
    assert names(net.named_parameters(recurse=False)) == ["scale"]
    assert [tuple(p.shape) for p in net.parameters()] == [(1,), (4, 3), (4,), (2, 4)]
    assert names(net.named_buffers()) == ["mean", "scratch"]


def test_modules_and_children(net):
    assert names(net.named_modules()) == ["", "body", "body.0", "body.1", "body.2"]
    assert names(net.named_children()) == ["body"]
    assert next(net.modules()) is net and list(net.children()) == [net.body]


def test_tied_weights_are_listed_once(nn):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 2, bias=False)
            self.b = nn.Linear(2, 2, bias=False)
            self.b.weight = self.a.weight
            self.c = self.a

    tied = Tied()
    assert names(tied.named_parameters()) == ["a.weight"]
    assert names(tied.named_parameters(remove_duplicate=False)) == ["a.weight", "b.weight", "c.weight"]
    assert names(tied.named_modules()) == ["", "a", "b"]
    assert names(tied.named_children()) == ["a", "b"]
    assert list(tied.state_dict()) == ["a.weight", "b.weight", "c.weight"]


def test_a_parameter_needs_gradients_by_default(torch, nn):
    with torch.no_grad():
        assert nn.Parameter(torch.zeros(2)).requires_grad
    assert not nn.Parameter(torch.zeros(2), requires_grad=False).requires_grad
    data = torch.zeros(2)
    parameter = nn.Parameter(data)
    assert parameter.is_leaf and parameter.data_ptr() == data.data_ptr() and not data.requires_grad
    assert isinstance(parameter, torch.Tensor) and not isinstance(parameter * 1, nn.Parameter)
    assert repr(nn.Parameter(torch.tensor([1.0]))) == "Parameter containing:\ntensor([1.], requires_grad=True)"


def test_attributes_find_what_is_registered(torch, nn, net):
    assert net.plain == 5 and net.mean.tolist() == [0, 0, 0] and net.body[0].weight.shape == (4, 3)
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'nothing'"):
        net.nothing  # noqa: B018
    assert {"scale", "mean", "body", "plain", "forward"} <= set(dir(net))
    assert "0" not in dir(net.body)


def test_assignment_keeps_one_meaning_for_a_name(torch, nn, net):
    with pytest.raises(TypeError, match="scale"):
        net.scale = torch.zeros(1)
    with pytest.raises(TypeError, match="body"):
        net.body = 3
    with pytest.raises(TypeError, match="mean"):
        net.mean = "x"
    assert names(net.named_parameters()) == ["scale", "body.0.weight", "body.0.bias", "body.2.weight"]
    net.mean = torch.ones(3)
    assert net.get_buffer("mean").tolist() == [1, 1, 1]
    net.scale = None
    assert "scale" not in names(net.named_parameters()) and net.scale is None
    net.plain = nn.Parameter(torch.zeros(1))
    assert "plain" in names(net.named_parameters()) and "plain" not in vars(net)
    with pytest.raises(TypeError, match="plain"):
        net.plain = nn.ReLU()
    net.scratch = nn.ReLU()
    assert "scratch" not in names(net.named_buffers()) and "scratch" in names(net.named_children())
    net.mean = nn.Parameter(torch.zeros(1))
    assert "mean" in names(net.named_parameters()) and "mean" not in names(net.named_buffers())


def test_deletion(net):
    del net.scale, net.mean, net.body, net.plain
    assert not list(net.parameters()) and not list(net.children()) and names(net.named_buffers()) == ["scratch"]
    with pytest.raises(AttributeError):
        del net.scale


def test_nothing_can_be_assigned_before_init(torch, nn):
    class Hasty(nn.Module):
        def __init__(self, value):
            self.value = value

    for value in (nn.Parameter(torch.zeros(1)), nn.ReLU(), nn.Buffer(torch.zeros(1))):
        with pytest.raises(AttributeError, match=r"before Module\.__init__"):
            Hasty(value)


@pytest.mark.parametrize(
    ("method", "name", "error"),
    [
        ("register_parameter", "", KeyError),
        ("register_parameter", "a.b", KeyError),
        ("register_parameter", "forward", KeyError),
        ("register_parameter", 3, TypeError),
        ("register_buffer", "", KeyError),
        ("register_buffer", "a.b", KeyError),
        ("register_buffer", "forward", KeyError),
        ("register_buffer", 3, TypeError),
        ("add_module", "", KeyError),
        ("add_module", "a.b", KeyError),
        ("add_module", "forward", KeyError),
        ("add_module", 3, TypeError),
    ],
)
def test_names_that_cannot_be_registered(nn, method, name, error):
    with pytest.raises(error):
        getattr(nn.Module(), method)(name, None)


def test_values_that_cannot_be_registered(torch, nn):
    module = nn.Module()
    with pytest.raises(TypeError, match="w"):
        module.register_parameter("w", torch.zeros(1))
    with pytest.raises(TypeError, match="b"):
        module.register_buffer("b", 3)
    with pytest.raises(TypeError):
        module.add_module("m", 3)
    parameter = nn.Parameter(torch.zeros(1))
    with pytest.raises(TypeError):
        nn.Module(3)
    with pytest.raises(TypeError):
        nn.Module(x=3)
    assert not list(module.parameters()) and not list(module.buffers()) and not list(module.children())
    module.register_parameter("w", parameter)
    module.register_buffer("b", None)
    assert module.w is parameter and module.b is None and list(module.state_dict()) == ["w"]


def test_a_parameter_is_a_leaf(torch, nn):
    class Result(nn.Parameter):
        pass

    module = nn.Module()
    module.w = nn.Parameter(torch.zeros(1))
    grown = torch.Tensor._make_subclass(Result, torch.zeros(1), True)
    module.w = grown
    assert module.w is grown
    with pytest.raises(TypeError):
        module.w = grown * 2


def test_buffers_by_assignment(torch, nn):
    module = nn.Module()
    module.kept = nn.Buffer(torch.ones(2))
    module.lost = nn.Buffer(torch.ones(2), persistent=False)
    assert names(module.named_buffers()) == ["kept", "lost"] and list(module.state_dict()) == ["kept"]
    assert isinstance(module.kept, nn.Buffer) and not module.kept.requires_grad
    module.lost = torch.zeros(2)
    assert list(module.state_dict()) == ["kept"]
    module.lost = nn.Buffer(torch.zeros(2))
    assert list(module.state_dict()) == ["kept", "lost"]
    assert repr(module.kept) == "tensor([1., 1.])"


def test_paths(torch, nn, net):
    assert net.get_submodule("") is net and net.get_submodule("body.0") is net.body[0]
    assert net.get_parameter("body.0.bias") is net.body[0].bias
    for path in ("body.7", "plain", "body.0.weight", "nowhere.x"):
        with pytest.raises(AttributeError):
            net.get_submodule(path)
    for path in ("mean", "body", "body.0.nothing"):
        with pytest.raises(AttributeError):
            net.get_parameter(path)
    with pytest.raises(AttributeError):
        net.get_buffer("scale")
    net.set_submodule("body.1", nn.Tanh())
    assert isinstance(net.body[1], nn.Tanh)
    with pytest.raises(ValueError):
        net.set_submodule("", nn.Tanh())


# ---- calling
def test_call_runs_forward(torch, net):
    assert net(torch.zeros(5, 3)).shape == (5, 2)
    assert net(x=torch.zeros(5, 3)).shape == (5, 2)


def test_a_module_without_forward(nn):
    with pytest.raises(NotImplementedError, match="Module"):
        nn.Module()(1)


# ---- the whole tree
def test_apply_visits_children_first(nn, net):
    seen = []
    assert net.apply(lambda module: seen.append(type(module).__name__)) is net
    assert seen == ["Linear", "ReLU", "Linear", "Sequential", "Net"]


def test_train_and_eval(net):
    assert net.training and net.eval() is net
    assert not any(module.training for module in net.modules())
    assert net.train() is net and all(module.training for module in net.modules())
    with pytest.raises(ValueError):
        net.train("yes")


def test_requires_grad(net):
    assert net.requires_grad_(False) is net
    assert not any(parameter.requires_grad for parameter in net.parameters())


@pytest.mark.parametrize("set_to_none", [True, False])
def test_zero_grad(torch, net, set_to_none):
    net(torch.ones(2, 3)).sum().backward()
    net.scale.grad.requires_grad_()
    net.zero_grad(set_to_none=set_to_none)
    for parameter in net.parameters():
        if set_to_none:
            assert parameter.grad is None
        else:
            assert not parameter.grad.requires_grad and not parameter.grad.abs().sum().item()


def test_conversion_keeps_the_parameters(torch, nn, net):
    net.register_buffer("count", torch.tensor(3))
    net(torch.ones(2, 3)).sum().backward()
    before = list(net.parameters())
    assert net.double() is net
    assert all(a is b for a, b in zip(before, net.parameters(), strict=True))
    assert {p.dtype for p in net.parameters()} == {torch.float64} == {p.grad.dtype for p in net.parameters()}
    assert net.mean.dtype == torch.float64 and net.count.dtype == torch.int64
    assert net.to(torch.float32).scale.dtype == torch.float32
    assert net.to("cpu", torch.float64).scale.dtype == torch.float64
    assert net.to(torch.zeros(1)).scale.dtype == torch.float32
    assert net.to(dtype=torch.float64).float().scale.dtype == torch.float32
    assert net.scale.is_leaf and net.scale.requires_grad and isinstance(net.scale, nn.Parameter)
    with pytest.raises(TypeError):
        net.to(torch.int64)
    assert net.cpu() is net


# ---- copies
def test_deepcopy_is_independent_and_keeps_ties(torch, nn, net):
    net.again = net.body[0]
    net.body[2].register_parameter("tied", net.scale)
    twin = copy.deepcopy(net)
    assert twin.again is twin.body[0] and twin.body[2].tied is twin.scale and twin.scale is not net.scale
    assert twin.scale.requires_grad and isinstance(twin.scale, nn.Parameter)
    with torch.no_grad():
        twin.scale.fill_(7)
    assert net.scale.item() == 2 and "scratch" not in twin.state_dict()


def test_pickle(torch, nn, seeded):
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh()).eval()
    net[0].weight.requires_grad_(False)
    twin = pickle.loads(pickle.dumps(net))
    x = torch.ones(1, 2)
    assert twin(x).tolist() == net(x).tolist() and not twin.training
    assert [p.requires_grad for p in twin.parameters()] == [False, True]
    assert all(isinstance(p, nn.Parameter) for p in twin.parameters())


def test_pickle_of_an_earlier_version(torch, nn, beyond_pytorch):
    net = nn.Linear(2, 2)
    state = {key: value for key, value in vars(net).items() if "hooks" not in key and "hook_options" not in key}
    old = nn.Linear.__new__(nn.Linear)
    old.__setstate__(state)
    assert old(torch.zeros(1, 2)).shape == (1, 2) and list(old.state_dict()) == ["weight", "bias"]


# ---- text
def test_repr(nn):
    net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(inplace=True)), nn.Identity())
    assert repr(net) == (
        "Sequential(\n"
        "  (0): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (1): Sequential(\n"
        "    (0): ReLU(inplace=True)\n"
        "  )\n"
        "  (2): Identity()\n"
        ")"
    )


def test_extra_repr_of_several_lines(nn):
    class Chatty(nn.Module):
        def extra_repr(self):
            return "a=1\nb=2"

    chatty = Chatty()
    assert repr(chatty) == "Chatty(\n  a=1\n  b=2\n)"
    chatty.child = nn.ReLU()
    assert repr(chatty) == "Chatty(\n  a=1\n  b=2\n  (child): ReLU()\n)"


# ---- cost
def test_a_call_without_hooks_costs_one_frame(nn, beyond_pytorch):
    depth = []

    class Probe(nn.Module):
        def forward(self, x):
            depth.append(len(inspect.stack(0)))

    probe = Probe()
    probe.forward(0)
    probe(0)
    nn.Sequential(probe)(0)
    assert depth[1] - depth[0] == 1 and depth[2] - depth[1] == 2


def test_conversions(torch, nn):
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    for convert, dtype in (("half", torch.float16), ("bfloat16", torch.bfloat16), ("double", torch.float64),
                           ("float", torch.float32)):  # fmt: skip
        assert getattr(net, convert)() is net
        assert {t.dtype for t in net.parameters()} == {dtype}
        assert net[1].running_mean.dtype == dtype and net[1].num_batches_tracked.dtype == torch.int64
    weight = net[0].weight
    net.to(memory_format=torch.channels_last)
    assert net[0].weight is weight and weight.stride() == (27, 1, 9, 3) and net[1].weight.stride() == (1,)
    net.to(torch.float64, memory_format=torch.contiguous_format)
    assert weight.stride() == (27, 9, 3, 1) and weight.dtype == torch.float64
    before = weight.data_ptr()
    net.to_empty(device="cpu")
    assert net[0].weight is weight and weight.data_ptr() != before and weight.shape == (4, 3, 3, 3)
    net.type(torch.float16)
    assert net[1].num_batches_tracked.dtype == torch.float16


def test_conversions_that_cannot_be(torch, nn):
    layer = nn.Linear(2, 2)
    for args, options, error in (((torch.int8,), {}, TypeError), (("nope",), {}, RuntimeError),
                                 (([1],), {}, TypeError), ((), {"copy": True}, RuntimeError)):  # fmt: skip
        with pytest.raises(error):
            layer.to(*args, **options)
    assert layer.weight.dtype == torch.float32
    assert nn.ReLU().cuda().training


def test_devices_that_are_not_there(torch, nn, beyond_pytorch):
    for kind in ("cuda", "xpu", "ipu", "mtia"):
        with pytest.raises(RuntimeError, match=f"no device '{kind}"):
            getattr(nn.Linear(2, 2), kind)()
    with pytest.raises(RuntimeError, match="no compiler"):
        nn.Linear(2, 2).compile()


def test_unflatten(torch, nn):
    module = nn.Unflatten(1, (2, -1))
    assert module(torch.zeros(3, 6)).shape == (3, 2, 3) and repr(module) == "Unflatten(dim=1, unflattened_size=(2, -1))"
    for args in ((1, 3), (1, (2, 1.5))):
        with pytest.raises(TypeError):
            nn.Unflatten(*args)


@pytest.mark.parametrize("path", [
    "activation.ReLU", "adaptive.AdaptiveLogSoftmaxWithLoss", "batchnorm._BatchNorm", "channelshuffle.ChannelShuffle",
    "container.Sequential", "conv._ConvNd", "distance.PairwiseDistance", "dropout._DropoutNd", "flatten.Unflatten",
    "fold.Fold", "instancenorm._InstanceNorm", "instancenorm.InstanceNorm2d", "lazy.LazyModuleMixin", "linear.Linear",
    "loss._Loss", "loss._WeightedLoss", "module.Module", "normalization.LayerNorm", "padding._ConstantPadNd",
    "batchnorm._NormBase",
    "pixelshuffle.PixelShuffle", "pooling._MaxPoolNd", "pooling.MaxPool2d", "rnn.RNNBase", "sparse.Embedding",
    "transformer.Transformer", "upsampling.Upsample", "utils._pair", "utils._triple",
])  # fmt: skip
def test_where_programs_import_from(backend, path):
    place, _, name = path.partition(".")
    module = importlib.import_module(f"{backend}.nn.modules.{place}")
    assert hasattr(module, name) and getattr(importlib.import_module(f"{backend}.nn.modules"), place) is module


def test_tuples_and_prefixes(torch, nn):
    utils = nn.modules.utils
    assert utils._pair(3) == (3, 3) and utils._triple([1, 2, 3]) == (1, 2, 3) and utils._ntuple(4)("a") == ("a",)
    net = nn.Sequential(nn.Linear(2, 2))
    state = nn.ModuleDict({"module": net}).state_dict()
    utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["0.weight", "0.bias"] and sorted(state._metadata) == ["", "0"]
    net.load_state_dict(state)
