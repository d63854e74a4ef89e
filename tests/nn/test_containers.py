"""Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from collections import OrderedDict

import pytest


def kinds(modules):
    return [type(module).__name__ for module in modules]


# ---- Sequential
def test_sequential_calls_in_order(torch, nn):
    net = nn.Sequential(OrderedDict(first=nn.Linear(1, 1, bias=False), act=nn.ReLU()))
    with torch.no_grad():
        net.first.weight.fill_(2)
    assert net(torch.tensor([[3.0], [-1.0]])).tolist() == [[6], [0]]
    assert list(net.state_dict()) == ["first.weight"]
    assert nn.Sequential()(5) == 5


def test_sequential_as_a_list(nn):
    net = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.Sigmoid())
    assert len(net) == 3 and kinds(net) == ["ReLU", "Tanh", "Sigmoid"]
    assert isinstance(net[0], nn.ReLU) and isinstance(net[-1], nn.Sigmoid)
    assert kinds(net[1:]) == ["Tanh", "Sigmoid"] and isinstance(net[1:], nn.Sequential)
    net[0] = nn.Identity()
    assert net.append(nn.Flatten()) is net and kinds(net) == ["Identity", "Tanh", "Sigmoid", "Flatten"]
    net.insert(1, nn.ReLU())
    assert kinds(net) == ["Identity", "ReLU", "Tanh", "Sigmoid", "Flatten"]
    del net[1:3]
    del net[-1]
    assert kinds(net) == ["Identity", "Sigmoid"] and [name for name, _ in net.named_children()] == ["0", "1"]
    assert isinstance(net.pop(0), nn.Identity) and kinds(net) == ["Sigmoid"]
    net.extend([nn.ReLU(), nn.Tanh()])
    assert kinds(net + nn.Sequential(nn.Identity())) == ["Sigmoid", "ReLU", "Tanh", "Identity"]
    assert kinds(nn.Sequential(nn.ReLU(), nn.Tanh()) * 2) == ["ReLU", "Tanh"] * 2
    twice = nn.Sequential(nn.ReLU())
    twice *= 3
    twice += nn.Sequential(nn.Tanh())
    assert kinds(twice) == ["ReLU"] * 3 + ["Tanh"]


@pytest.mark.parametrize(
    ("error", "action"),
    [
        (IndexError, lambda net, nn: net[3]),
        (IndexError, lambda net, nn: net[-3]),
        (IndexError, lambda net, nn: net.__setitem__(2, nn.ReLU())),
        (IndexError, lambda net, nn: net.__delitem__(2)),
        (IndexError, lambda net, nn: net.insert(4, nn.ReLU())),
        (TypeError, lambda net, nn: net.append(3)),
        (TypeError, lambda net, nn: net.__mul__("x")),
        (ValueError, lambda net, nn: net * 0),
        (ValueError, lambda net, nn: net + nn.ReLU()),
    ],
)
def test_bad_uses_of_sequential_change_nothing(nn, error, action):
    net = nn.Sequential(nn.ReLU(), nn.Tanh())
    with pytest.raises(error):
        action(net, nn)
    assert kinds(net) == ["ReLU", "Tanh"]


# ---- ModuleList
def test_module_list(nn):
    layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    assert len(list(layers.parameters())) == 4 and len(layers) == 2
    layers.append(nn.ReLU()).extend([nn.Tanh()])
    layers += [nn.Sigmoid()]
    layers.insert(0, nn.Identity())
    assert kinds(layers) == ["Identity", "Linear", "Linear", "ReLU", "Tanh", "Sigmoid"]
    assert kinds(layers[1:3]) == ["Linear", "Linear"] and isinstance(layers[1:3], nn.ModuleList)
    assert kinds(layers[:1] + layers[-1:]) == ["Identity", "Sigmoid"]
    del layers[0], layers[-1]
    assert isinstance(layers.pop(-1), nn.Tanh) and kinds(layers) == ["Linear", "Linear", "ReLU"]
    layers[-1] = nn.Tanh()
    assert repr(layers) == (
        "ModuleList(\n  (0-1): 2 x Linear(in_features=2, out_features=2, bias=True)\n  (2): Tanh()\n)"
    )
    assert repr(nn.ModuleList()) == "ModuleList()"
    for bad in (lambda: layers[9], lambda: layers.__setitem__(9, nn.ReLU())):
        with pytest.raises(IndexError):
            bad()
    for bad in (lambda: layers.extend(3), lambda: layers.append(3), lambda: nn.ModuleList([1])):
        with pytest.raises(TypeError):
            bad()
    with pytest.raises(NotImplementedError):
        layers(1)


# ---- ModuleDict
def test_module_dict(nn):
    choice = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
    choice["id"] = nn.Identity()
    choice.update([("sigmoid", nn.Sigmoid())])
    choice.update(nn.ModuleDict({"relu": nn.Linear(1, 1)}))
    assert list(choice) == list(choice.keys()) == ["relu", "tanh", "id", "sigmoid"]
    assert kinds(choice.values()) == ["Linear", "Tanh", "Identity", "Sigmoid"] and len(choice) == 4
    assert "id" in choice and isinstance(choice.pop("id"), nn.Identity) and "id" not in choice
    del choice["tanh"]
    assert [name for name, _ in choice.items()] == ["relu", "sigmoid"]
    assert list(choice.state_dict()) == ["relu.weight", "relu.bias"]
    for bad in (3, [("a",)], [3], [("a", 1, 2)]):
        with pytest.raises((TypeError, ValueError)):
            choice.update(bad)
    with pytest.raises(KeyError):
        choice["nothing"]
    with pytest.raises(TypeError):
        choice["number"] = 3
    assert len(choice) == 2
    choice.clear()
    assert len(choice) == 0


# ---- parameters
def test_parameter_list(torch, nn):
    entries = nn.ParameterList([torch.zeros(2), nn.Parameter(torch.ones(1))])
    assert all(isinstance(p, nn.Parameter) for p in entries) and len(entries) == 2
    entries.append(torch.ones(3))
    entries += [nn.Parameter(torch.zeros(4))]
    assert [p.numel() for p in entries] == [2, 1, 3, 4] and list(entries.state_dict()) == ["0", "1", "2", "3"]
    assert entries[-1].numel() == 4 and [p.numel() for p in entries[1:3]] == [1, 3]
    entries[0] = torch.zeros(5)
    assert entries[0].numel() == 5 and isinstance(entries[0], nn.Parameter)
    assert repr(nn.ParameterList([torch.zeros(2, 3), 4])) == (
        "ParameterList(\n    (0): Parameter containing: [torch.float32 of size 2x3]\n    (1): Object of type: int\n)"
    )
    with pytest.raises(TypeError):
        entries.extend(torch.zeros(2))
    for bad in (lambda: entries[4], lambda: entries.__setitem__(-5, torch.zeros(1))):
        with pytest.raises(IndexError):
            bad()
    with pytest.raises(RuntimeError):
        entries(1)


def test_parameter_dict(torch, nn):
    entries = nn.ParameterDict({"a": torch.zeros(1), "b": 3})
    entries["c"] = nn.Parameter(torch.zeros(2))
    assert list(entries) == ["a", "b", "c"] == list(reversed(list(reversed(entries))))
    assert isinstance(entries["a"], nn.Parameter) and entries["b"] == 3 and entries.get("x", 5) == 5
    assert list(entries.state_dict()) == ["a", "c"]
    assert entries.setdefault("d", torch.ones(1)).item() == 1 and entries.popitem()[0] == "d"
    entries.update({"b": torch.ones(2)})
    assert [v.numel() for v in entries.values()] == [1, 2, 2]
    assert list(entries | nn.ParameterDict({"z": torch.zeros(1)})) == ["a", "b", "c", "z"]
    twin = entries.copy()
    del entries["a"]
    assert entries.pop("b").numel() == 2 and next(iter(entries.items()))[0] == "c" and list(twin) == ["a", "b", "c"]
    assert list(entries.fromkeys(["p", "q"], 1).items()) == [("p", 1), ("q", 1)]
    with pytest.raises((KeyError, AttributeError)):  # the former is what other dictionaries do
        entries["a"]
    entries.clear()
    assert len(entries) == 0 and "c" not in entries and not list(entries.parameters())
    with pytest.raises(KeyError):
        entries.popitem()
    with pytest.raises(RuntimeError):
        entries(1)


def test_entries_of_a_plain_dict_are_sorted(torch, nn, oracle):
    """The order is that of an optimizer's state."""
    entries = [("z", 1), ("a", 2), ("m", "text")]
    for lib in (torch, oracle):
        made = {key: lib.ones(n) if isinstance(n, int) else n for key, n in entries}
        assert list(lib.nn.ParameterDict(made)) == ["a", "m", "z"]
        assert list(lib.nn.ParameterDict(list(made.items()))) == ["z", "a", "m"]
        assert list(lib.nn.ParameterDict(OrderedDict(made))) == ["z", "a", "m"]
        assert "(a): Parameter containing: [torch.FloatTensor of size 2]" in repr(lib.nn.ParameterDict(made))


def test_places_are_integers(torch, nn):
    for make in (lambda: nn.Sequential(nn.ReLU()), lambda: nn.ModuleList([nn.ReLU()])):
        for place in (1.0, "0", None):
            with pytest.raises((TypeError, ValueError)):
                make()[place]
