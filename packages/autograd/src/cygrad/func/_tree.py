"""Nested containers of arguments and results: lists, tuples (named ones too), dicts, deques and what users register.

Everything else is a leaf.
"""

from collections import OrderedDict, defaultdict, deque

# type -> (parts and context of a container, the container of parts and a context)
NODES = {
    list: (lambda tree: (tree, None), lambda parts, _: list(parts)),
    tuple: (lambda tree: (tree, None), lambda parts, _: tuple(parts)),
    dict: (lambda tree: (tree.values(), list(tree)), lambda parts, keys: dict(zip(keys, parts, strict=True))),
    OrderedDict: (
        lambda tree: (tree.values(), list(tree)),
        lambda parts, keys: OrderedDict(zip(keys, parts, strict=True)),
    ),
    defaultdict: (
        lambda tree: (tree.values(), (tree.default_factory, list(tree))),
        lambda parts, made: defaultdict(made[0], zip(made[1], parts, strict=True)),
    ),
    deque: (lambda tree: (tree, tree.maxlen), lambda parts, most: deque(parts, maxlen=most)),
}


class Spec:
    """The containers of a tree without its leaves.

    Parameters
    ----------
    kind : type or None
        Of the container; None stands for a leaf.
    context
        What `kind` needs beside its parts: the keys of a dict, the factory of a defaultdict.
    parts : list of Spec
    """

    __slots__ = ("context", "kind", "leaves", "parts")

    def __init__(self, kind, context=None, parts=()):
        self.kind, self.context, self.parts = kind, context, list(parts)
        self.leaves = 1 if kind is None else sum(p.leaves for p in self.parts)

    type = property(lambda self: self.kind)
    num_leaves = property(lambda self: self.leaves)
    num_children = property(lambda self: len(self.parts))
    num_nodes = property(lambda self: 1 + sum(p.num_nodes for p in self.parts))

    def is_leaf(self):
        """Whether it is the structure of a leaf."""
        return self.kind is None

    def children(self):
        """The structures of the parts, as a list."""
        return list(self.parts)

    def child(self, index):
        """The structure of one part."""
        return self.parts[index]

    def unflatten(self, leaves):
        """The tree of this structure with these leaves."""
        leaves = list(leaves)
        if len(leaves) != self.leaves:
            raise ValueError(f"a tree of {self.leaves} leaves is wanted, {self}, but {len(leaves)} were given")
        return unflatten(leaves, self)

    def flatten_up_to(self, tree):
        """What a tree that has this structure as a prefix has in the places of the leaves."""
        if self.kind is None:
            return [tree]
        found = parts_of(tree)
        if found is None or not self.fits(*found):
            raise ValueError(f"Node type mismatch; expected the containers {self}, but got {flatten(tree)[1]}")
        parts = found[2]
        if self.kind in (dict, OrderedDict, defaultdict):
            parts = [tree[key] for key in self.keys()]
        return [leaf for spec, part in zip(self.parts, parts, strict=True) for leaf in spec.flatten_up_to(part)]

    def keys(self):
        """The keys of a dict."""
        return self.context[1] if self.kind is defaultdict else self.context

    def fits(self, kind, context, parts):
        """Whether a container is of this kind with as many parts, and the same keys in any order if it is a dict."""
        if kind is not self.kind or len(parts) != len(self.parts):
            return False
        return kind not in (dict, OrderedDict) or set(context) == set(self.context)

    def __eq__(self, other):
        return (
            isinstance(other, Spec)
            and (self.kind, self.context) == (other.kind, other.context)
            and self.parts == other.parts
        )

    __hash__ = None

    def __repr__(self):
        if self.kind is None:
            return "*"
        return f"{self.kind.__name__}({', '.join(map(repr, self.parts))})"


LEAF = Spec(None)


def parts_of(tree, is_leaf=None):
    """(kind, context, parts) of a container; None of a leaf."""
    if is_leaf is not None and is_leaf(tree):
        return None
    kind = type(tree)
    node = NODES.get(kind)
    if node is not None:
        parts, context = node[0](tree)
        return kind, context, list(parts)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return kind, None, list(tree)
    return None


def flatten(tree, is_leaf=None):
    """The leaves of a tree in order, and its `Spec`."""
    found = parts_of(tree, is_leaf)
    if found is None:
        return [tree], LEAF
    leaves, specs = [], []
    for part in found[2]:
        below, spec = flatten(part, is_leaf)
        leaves += below
        specs.append(spec)
    return leaves, Spec(found[0], found[1], specs)


def unflatten(leaves, spec):
    """The tree with these leaves."""
    return _build(iter(leaves), spec)


def _build(leaves, spec):
    if spec.kind is None:
        return next(leaves)
    parts = [_build(leaves, s) for s in spec.parts]
    node = NODES.get(spec.kind)
    return spec.kind(*parts) if node is None else node[1](parts, spec.context)


def broadcast_prefix(prefix, spec):
    """The leaves of a tree that may end early: there one leaf stands for all that lies below in `spec`, repeated.

    None where the containers of the two do not agree.
    """
    found = parts_of(prefix)
    if found is None:
        return [prefix] * spec.leaves
    kind, context, parts = found
    if spec.kind is None or kind is not spec.kind or len(parts) != len(spec.parts):
        return None
    order = range(len(parts))
    if kind in (dict, OrderedDict):
        if set(context) != set(spec.context):
            return None
        order = [context.index(key) for key in spec.context]
    leaves = []
    for k, s in zip(order, spec.parts, strict=True):
        below = broadcast_prefix(parts[k], s)
        if below is None:
            return None
        leaves += below
    return leaves
