"""Nested containers of arguments and results: lists, tuples (named ones too) and dicts. Everything else is a leaf."""

from collections import OrderedDict, defaultdict


class Spec:
    """The containers of a tree without its leaves.

    Parameters
    ----------
    kind : type or None
        Of the container; None stands for a leaf.
    context
        What `kind` needs beside its parts: the keys of a dict, and the factory of a defaultdict.
    parts : list of Spec
    """

    __slots__ = ("context", "kind", "leaves", "parts")

    def __init__(self, kind, context=None, parts=()):
        self.kind, self.context, self.parts = kind, context, list(parts)
        self.leaves = 1 if kind is None else sum(p.leaves for p in self.parts)

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


def parts_of(tree):
    """(kind, context, parts) of a container; None of a leaf."""
    kind = type(tree)
    if kind in (list, tuple):
        return kind, None, list(tree)
    if kind in (dict, OrderedDict):
        return kind, list(tree), list(tree.values())
    if kind is defaultdict:
        return kind, (tree.default_factory, list(tree)), list(tree.values())
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return kind, None, list(tree)
    return None


def flatten(tree):
    """The leaves of a tree in order, and its `Spec`."""
    found = parts_of(tree)
    if found is None:
        return [tree], LEAF
    leaves, specs = [], []
    for part in found[2]:
        below, spec = flatten(part)
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
    if spec.kind in (list, tuple):
        return spec.kind(parts)
    if spec.kind in (dict, OrderedDict):
        return spec.kind(zip(spec.context, parts, strict=True))
    if spec.kind is defaultdict:
        return defaultdict(spec.context[0], zip(spec.context[1], parts, strict=True))
    return spec.kind(*parts)


def tree_map(function, tree):
    """The tree with `function` applied to each leaf."""
    leaves, spec = flatten(tree)
    return unflatten([function(leaf) for leaf in leaves], spec)


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
