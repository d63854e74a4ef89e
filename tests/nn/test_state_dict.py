"""state_dict and load_state_dict: names, strictness, errors that change nothing, assignment, hooks, extra state."""

from collections import OrderedDict

import pytest


@pytest.fixture
def make(torch, nn):
    def make_net(out=2):
        net = nn.Sequential(OrderedDict(first=nn.Linear(3, 4), second=nn.Linear(4, out)))
        net.register_buffer("mean", torch.zeros(3))
        net.register_buffer("scratch", torch.zeros(1), persistent=False)
        return net

    return make_net


def content(net):
    return {name: tensor.tolist() for name, tensor in net.state_dict().items()}


NAMES = ["mean", "first.weight", "first.bias", "second.weight", "second.bias"]


def test_names_and_sharing(torch, make):
    net = make()
    state = net.state_dict()
    assert list(state) == NAMES and isinstance(state, OrderedDict)
    assert not any(tensor.requires_grad for tensor in state.values())
    assert state["first.weight"].data_ptr() == net.first.weight.data_ptr()
    assert list(net.state_dict(prefix="p.")) == ["p." + name for name in NAMES]
    assert net.state_dict(keep_vars=True)["first.weight"] is net.first.weight
    mine = {"other": 1}
    assert net.state_dict(destination=mine) is mine and list(mine) == ["other", *NAMES]
    assert state._metadata[""] == {"version": 1} and set(state._metadata) == {"", "first", "second"}


def test_round_trip(torch, make):
    torch.manual_seed(1)
    source, target = make(), make()
    parameters = list(target.parameters())
    assert content(source) != content(target)
    answer = target.load_state_dict(source.state_dict())
    assert content(source) == content(target)
    assert all(a is b for a, b in zip(parameters, target.parameters(), strict=True))
    assert answer.missing_keys == answer.unexpected_keys == [] and repr(answer) == "<All keys matched successfully>"
    with torch.no_grad():
        source.first.weight.zero_()
    assert target.first.weight.abs().sum().item() > 0


def test_loading_converts_to_the_parameters_dtype(torch, make):
    net = make()
    net.load_state_dict(make().double().state_dict())
    assert net.first.weight.dtype == torch.float32


def test_missing_and_unexpected_names(torch, make, beyond_pytorch):
    source, target = make(), make()
    state = source.state_dict()
    del state["first.bias"]
    state["third.weight"] = torch.zeros(1)
    state["first.extra"] = torch.zeros(1)
    state["odd"] = torch.zeros(1)
    before = content(target)
    with pytest.raises(RuntimeError) as caught:
        target.load_state_dict(state)
    message = str(caught.value)
    assert message.startswith("Error(s) in loading state_dict for Sequential:")
    assert 'Missing key(s) in state_dict: "first.bias"' in message
    for name in ("third.weight", "first.extra", "odd"):
        assert f'"{name}"' in message.split("Unexpected key(s) in state_dict: ")[1]
    assert content(target) == before


def test_not_strict(torch, make):
    source, target = make(), make()
    state = source.state_dict()
    del state["first.bias"]
    state["odd"] = torch.zeros(1)
    answer = target.load_state_dict(state, strict=False)
    assert answer.missing_keys == ["first.bias"] and answer.unexpected_keys == ["odd"]
    assert "first.bias" in repr(answer)
    assert target.second.weight.tolist() == source.second.weight.tolist()
    assert target.first.bias.tolist() != source.first.bias.tolist()


@pytest.mark.parametrize("strict", [True, False])
def test_shapes_that_differ_change_nothing(make, strict, beyond_pytorch):
    source, target = make(out=5), make()
    before = content(target)
    with pytest.raises(RuntimeError) as caught:
        target.load_state_dict(source.state_dict(), strict=strict)
    for part in ("size mismatch for second.weight", "size mismatch for second.bias", "[5, 4]", "[2, 4]"):
        assert part in str(caught.value)
    assert content(target) == before


def test_values_that_are_no_tensors(make):
    target = make()
    state = target.state_dict()
    state["first.bias"] = [1, 2, 3, 4]
    with pytest.raises(RuntimeError, match=r"first\.bias"):
        target.load_state_dict(state)
    with pytest.raises(TypeError, match="list"):
        target.load_state_dict([1])


def test_scalars_saved_as_vectors(torch, nn):
    net = nn.Module()
    net.register_buffer("count", torch.tensor(0.0))
    net.load_state_dict({"count": torch.tensor([3.0])})
    assert net.count.shape == () and net.count.item() == 3


def test_assign(torch, nn, make):
    source, target = make().double(), make()
    target.second.requires_grad_(False)
    state = source.state_dict()
    target.load_state_dict(state, assign=True)
    assert target.first.weight.dtype == torch.float64 and isinstance(target.first.weight, nn.Parameter)
    assert target.first.weight.data_ptr() == state["first.weight"].data_ptr()
    assert target.first.weight.requires_grad and not target.second.weight.requires_grad
    assert target.mean.dtype == torch.float64


def test_the_given_state_is_not_changed(torch, make):
    target = make()
    target.register_load_state_dict_pre_hook(lambda module, state, *rest: state.pop("odd", None))
    state = make().state_dict()
    state["odd"] = torch.zeros(1)
    target.load_state_dict(state)
    assert "odd" in state


# ---- hooks
def test_hooks_around_state_dict(make):
    net = make()
    seen = []
    net.register_state_dict_pre_hook(lambda module, prefix, keep_vars: seen.append((prefix, keep_vars)))
    handle = net.register_state_dict_post_hook(lambda module, state, prefix, meta: state.pop(prefix + "mean"))
    with pytest.raises(RuntimeError):
        net.state_dict()  # a hook that returns something
    handle.remove()

    def drop_mean(module, state, prefix, meta):
        del state[prefix + "mean"]

    net.register_state_dict_post_hook(drop_mean)
    assert list(net.state_dict(prefix="p.", keep_vars=True)) == ["p." + name for name in NAMES[1:]]
    assert seen == [("", False), ("p.", True)]


def test_pre_hook_renames(make):
    source, target = make(), make()
    state = {name.replace("first", "old"): tensor for name, tensor in source.state_dict().items()}

    def rename(module, state, prefix, *rest):
        for name in [name for name in state if name.startswith("old.")]:
            state[name.replace("old.", "first.")] = state.pop(name)

    target.register_load_state_dict_pre_hook(rename)
    target.load_state_dict(state)
    assert content(target) == content(source)


def test_post_hook_forgives_and_sees_loaded_values(make):
    source, target = make(), make()
    state = source.state_dict()
    del state["first.bias"]
    seen = []

    def forgive(module, keys):
        seen.append(module.second.bias.tolist())
        keys.missing_keys.clear()

    target.register_load_state_dict_post_hook(forgive)
    answer = target.load_state_dict(state)
    assert seen == [source.second.bias.tolist()] and answer.missing_keys == []


@pytest.mark.parametrize("assign", [True, False])
def test_a_post_hook_that_does_not_forgive_changes_nothing(make, assign, beyond_pytorch):
    source, target = make(), make()
    state = source.state_dict()
    del state["first.bias"]
    target.register_load_state_dict_post_hook(lambda module, keys: None)
    before, parameters = content(target), list(target.parameters())
    with pytest.raises(RuntimeError, match=r"first\.bias"):
        target.load_state_dict(state, assign=assign)
    assert content(target) == before
    assert all(a is b for a, b in zip(parameters, target.parameters(), strict=True))


def test_a_subclass_reads_an_older_layout(torch, nn):
    class Renamed(nn.Module):
        _version = 2

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(2))

        def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
            if local_metadata.get("version", 1) < 2:
                state_dict[prefix + "weight"] = state_dict.pop(prefix + "w")
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    net = nn.Sequential(Renamed())
    net.load_state_dict({"0.w": torch.ones(2)})
    assert net[0].weight.tolist() == [1, 1]
    newer = net.state_dict()
    assert newer._metadata["0"] == {"version": 2}
    net.load_state_dict(newer)


def test_a_direct_call_loads_at_once(torch, nn):
    layer = nn.Linear(1, 1)
    missing = []
    layer._load_from_state_dict({"weight": torch.tensor([[5.0]])}, "", {}, True, missing, [], [])
    assert layer.weight.item() == 5 and missing == ["bias"]


def test_extra_state(nn):
    class Counted(nn.Module):
        count = 0

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    source, target = nn.Sequential(Counted()), nn.Sequential(Counted())
    source[0].count = 7
    state = source.state_dict()
    assert dict(state) == {"0._extra_state": {"count": 7}}
    target.load_state_dict(state)
    assert target[0].count == 7
    with pytest.raises(RuntimeError, match="_extra_state"):
        target.load_state_dict({})
    with pytest.raises(RuntimeError, match="_extra_state"):
        nn.Sequential(nn.ReLU()).load_state_dict(state)
    for call in (nn.Module().get_extra_state, lambda: nn.Module().set_extra_state(1)):
        with pytest.raises(RuntimeError):
            call()


def test_torch_reads_and_writes_the_same_states(torch, make, oracle):
    """Names, order and shapes agree, so states pass in both directions as numpy arrays."""
    theirs = oracle.nn.Sequential(OrderedDict(first=oracle.nn.Linear(3, 4), second=oracle.nn.Linear(4, 2)))
    theirs.register_buffer("mean", oracle.zeros(3))
    ours = make()
    assert list(theirs.state_dict()) == list(ours.state_dict())
    ours.load_state_dict({k: torch.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    assert content(ours) == content(theirs)


def test_hooks_as_they_were_before_they_were_public(nn):
    layer = nn.Linear(2, 2)
    seen = []
    layer._register_load_state_dict_pre_hook(lambda state, prefix, *rest: seen.append((prefix, len(rest))))
    layer._register_load_state_dict_pre_hook(lambda module, *rest: seen.append(module), with_module=True)
    layer._register_state_dict_hook(lambda module, state, prefix, metadata: {"replaced": state})
    state = layer.state_dict()
    assert list(state) == ["replaced"]
    layer.load_state_dict(state["replaced"])
    assert seen == [("", 5), layer]
    public = nn.Linear(2, 2)
    public.register_state_dict_post_hook(lambda *args: {})
    with pytest.raises(RuntimeError):
        public.state_dict()
