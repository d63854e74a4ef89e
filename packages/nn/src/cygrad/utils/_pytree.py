"""Nested containers ("pytrees"): their leaves, and functions of these.

Containers are lists, tuples and named tuples, dicts, OrderedDicts, defaultdicts, deques, and registered classes; all
else, None too, is a leaf. The transforms of ``cygrad.func`` take and give the same trees.
"""

import dataclasses

from cygrad.func import _tree
from cygrad.func._tree import Spec

__all__ = [
    "TreeSpec", "register_dataclass", "register_pytree_node", "tree_all", "tree_any", "tree_flatten", "tree_iter",
    "tree_leaves", "tree_map", "tree_map_", "tree_map_only", "tree_structure", "tree_unflatten",
]

TreeSpec = Spec


def tree_flatten(tree, is_leaf=None):
    """The leaves of a tree and its structure.

    Parameters
    ----------
    tree : object
    is_leaf : callable, optional
        Takes a container; what it is true for counts as a leaf.

    Returns
    -------
    (list, TreeSpec)
    """
    return _tree.flatten(tree, is_leaf)


def tree_unflatten(leaves, treespec):
    """The tree of that structure with these leaves.

    Raises
    ------
    TypeError
        `treespec` is no TreeSpec.
    ValueError
        It has another number of leaves.
    """
    if not isinstance(treespec, Spec):
        raise TypeError(
            "tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but got item of type "
            f"{type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_leaves(tree, is_leaf=None):
    """The leaves of a tree, in order, as a list."""
    return _tree.flatten(tree, is_leaf)[0]


def tree_iter(tree, is_leaf=None):
    """An iterator over the leaves of a tree."""
    yield from tree_leaves(tree, is_leaf)


def tree_structure(tree, is_leaf=None):
    """The structure of a tree, a TreeSpec."""
    return _tree.flatten(tree, is_leaf)[1]


def tree_map(func, tree, *rests, is_leaf=None):
    """The tree with each leaf replaced by ``func(leaf)``, or ``func(leaf, *leaves of rests)``.

    Parameters
    ----------
    func : callable
    tree : object
    *rests
        Trees that have `tree` as a prefix: what they have in the place of a leaf is handed over whole.
    is_leaf : callable, optional
        As for `tree_flatten`.

    Raises
    ------
    ValueError
        A tree of `rests` has other containers.
    """
    leaves, spec = _tree.flatten(tree, is_leaf)
    columns = [leaves, *(spec.flatten_up_to(rest) for rest in rests)]
    return _tree.unflatten([func(*row) for row in zip(*columns, strict=True)], spec)


def tree_map_(func, tree, *rests, is_leaf=None):
    """Calls `func` for each leaf as `tree_map` does, for what it does to them, and returns `tree` itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(type_or_types_or_pred, func, tree, is_leaf=None):
    """`tree_map` over the leaves of some types, or those for which a predicate holds; others stay."""
    holds = _predicate(type_or_types_or_pred)
    return tree_map(lambda leaf: func(leaf) if holds(leaf) else leaf, tree, is_leaf=is_leaf)


def _predicate(types):
    if isinstance(types, (type, tuple)) or hasattr(types, "__args__"):
        return lambda leaf: isinstance(leaf, types)
    if callable(types):
        return types
    raise TypeError("Argument must be a type, a tuple of types, or a callable.")


def tree_all(pred, tree, is_leaf=None):
    """Whether `pred` holds for all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None):
    """Whether `pred` holds for some leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def register_pytree_node(cls, flatten_fn, unflatten_fn, *, serialized_type_name=None):
    """Makes instances of a class containers, for these functions and for the transforms of ``cygrad.func``.

    Parameters
    ----------
    cls : type
        Its subclasses are no containers.
    flatten_fn : callable
        Takes an instance, returns its parts, an iterable, and a context that can be compared.
    unflatten_fn : callable
        Takes parts and context, returns an instance.
    serialized_type_name : str, optional
        Not used: structures are not written to files.

    Raises
    ------
    TypeError
        `cls` is no class.
    ValueError
        It is a container already.
    """
    if not isinstance(cls, type):
        raise TypeError(f"register_pytree_node(): cls must be a class, got {cls!r}")
    if cls in _tree.NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _tree.NODES[cls] = (flatten_fn, unflatten_fn)


def register_dataclass(cls, *, field_names=None, drop_field_names=None):
    """Makes a dataclass a container, whose parts are its fields in order; those that are None are no parts.

    Parameters
    ----------
    cls : type
    field_names : list of str, optional
        The fields that are parts, by default all that ``__init__`` takes.
    drop_field_names : list of str, optional
        Fields that are left to their defaults.

    Raises
    ------
    ValueError
        The names do not cover the fields that ``__init__`` takes, or name others.
    """
    if dataclasses.is_dataclass(cls):
        taken = [f.name for f in dataclasses.fields(cls) if f.init]
        dropped = list(drop_field_names or ())
        names = [n for n in taken if n not in dropped] if field_names is None else list(field_names)
        if set(names) | set(dropped) != set(taken):
            raise ValueError(
                f"field_names and drop_field_names of {cls.__name__} are its fields {taken}, got {names} and {dropped}"
            )
    elif field_names is None:
        raise ValueError(
            "field_names must be specified with a list of all fields used to initialize the class if it is not a "
            "dataclass."
        )
    else:
        names = list(field_names)

    def flatten_fn(value):
        given = [(name, getattr(value, name)) for name in names]
        present = [name for name, v in given if v is not None]
        return [v for _, v in given if v is not None], (present, [name for name in names if name not in present])

    def unflatten_fn(parts, context):
        given, absent = context
        return cls(**dict(zip(given, parts, strict=True)), **dict.fromkeys(absent))

    register_pytree_node(cls, flatten_fn, unflatten_fn)
