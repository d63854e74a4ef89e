"""Trees: what is a container, maps over trees, registered classes; beside PyTorch where it is installed."""

import dataclasses
import importlib
import os
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

BACKEND = os.environ.get("CYGRAD_TEST_BACKEND", "cygrad")
torch = importlib.import_module(BACKEND)
tree = importlib.import_module(BACKEND + ".utils._pytree")

Pair = namedtuple("Pair", "first second")
NESTED = {
    "list": [1, (2, 3), []],
    "named": Pair(4, {"x": 5}),
    "ordered": OrderedDict(b=6, a=7),
    "default": defaultdict(list, k=8),
    "deque": deque([9, 10], maxlen=3),
    "none": None,
    "set": {11},
}
LEAVES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, None, {11}]


def test_leaves_and_structure():
    leaves, spec = tree.tree_flatten(NESTED)
    assert leaves == LEAVES and spec.num_leaves == 12
    again = tree.tree_unflatten(leaves, spec)
    assert again == NESTED and again["deque"].maxlen == 3 and type(again["named"]) is Pair
    assert again["default"].default_factory is list
    assert tree.tree_structure(again) == spec and tree.tree_structure([1]) != spec
    assert list(tree.tree_iter(NESTED)) == tree.tree_leaves(NESTED) == LEAVES
    assert tree.tree_structure(3).is_leaf() and tree.tree_structure(()).num_leaves == 0
    with pytest.raises(ValueError, match="12"):
        tree.tree_unflatten([1, 2], spec)
    with pytest.raises(TypeError, match="TreeSpec"):
        tree.tree_unflatten([1], [1])


def test_is_leaf():
    assert tree.tree_leaves([1, (2, 3)], is_leaf=lambda t: isinstance(t, tuple)) == [1, (2, 3)]
    assert tree.tree_map(len, {"a": (1, 2), "b": ()}, is_leaf=lambda t: isinstance(t, tuple)) == {"a": 2, "b": 0}


def test_maps():
    assert tree.tree_map(lambda v: v * 2, {"a": [1, 2], "b": 3}) == {"a": [2, 4], "b": 6}
    added = tree.tree_map(lambda a, b, c: (a, b, c), {"a": 1, "b": [2]}, {"b": [3], "a": 4}, {"a": (5, 6), "b": [7]})
    assert added == {"a": (1, 4, (5, 6)), "b": [(2, 3, 7)]}
    for wrong in ([1, 2], {"a": 1}, {"a": 1, "c": [2]}, {"a": 1, "b": (2,)}):
        with pytest.raises(ValueError):
            tree.tree_map(lambda a, b: a, {"a": 1, "b": [2]}, wrong)
    seen = []
    given = [1, (2,)]
    assert tree.tree_map_(seen.append, given) is given and seen == [1, 2]
    assert tree.tree_map_only(int, str, [1, 2.0, "a"]) == ["1", 2.0, "a"]
    assert tree.tree_map_only((int, float), str, [1, 2.0, "a"]) == ["1", "2.0", "a"]
    assert tree.tree_map_only(lambda v: v == 1, str, [1, 2]) == ["1", 2]
    assert tree.tree_all(bool, [1, (2,)]) and not tree.tree_any(bool, [0, (None,)])


def test_results_of_several_tensors_are_containers():
    found = torch.sort(torch.tensor([2.0, 1.0]))
    halved = tree.tree_map(lambda t: t[:1], found)
    assert type(halved) is type(found) and halved.values.tolist() == [1] and halved.indices.tolist() == [1]


class Both:
    def __init__(self, a, b, name):
        self.a, self.b, self.name = a, b, name


@dataclasses.dataclass
class State:
    weight: object
    bias: object = None
    steps: int = dataclasses.field(default=0, init=False)


def test_registered_classes():
    tree.register_pytree_node(Both, lambda v: ((v.a, v.b), v.name), lambda parts, name: Both(*parts, name))
    with pytest.raises(ValueError, match="already registered"):
        tree.register_pytree_node(Both, None, None)
    x = torch.tensor([1.0, 2.0])
    given = Both(x, [x + 1], "net")
    doubled = tree.tree_map(lambda t: t * 2, given)
    assert doubled.name == "net" and doubled.b[0].tolist() == [4, 6]
    slope = torch.func.grad(lambda v: (v.a * v.b[0]).sum())(given)
    assert type(slope) is Both and slope.a.tolist() == [2, 3] and slope.b[0].tolist() == [1, 2]
    rows = torch.func.vmap(lambda v: v.a * v.b[0])(given)
    assert rows.tolist() == [2, 6]
    tree.register_dataclass(State)
    moved = torch.func.jvp(lambda s: State(s.weight * 2), (State(x),), (State(x),))[1]
    assert type(moved) is State and moved.bias is None and moved.weight.tolist() == [2, 4]
    with pytest.raises(ValueError):
        tree.register_dataclass(Both)
