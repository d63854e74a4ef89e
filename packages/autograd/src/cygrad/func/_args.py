"""Arguments and results of transforms: which to differentiate by, what a function may return."""

from ..autograd._core import Tensor
from ._tree import flatten, unflatten


def check_argnums(argnums, count):
    """The numbers of the arguments to differentiate by, counted from the front, as a tuple."""
    if type(argnums) is int:
        return (one_argnum(argnums, count),)
    if not isinstance(argnums, tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    if not argnums:
        raise RuntimeError("argnums must be non-empty")
    for number in argnums:
        if type(number) is not int:
            raise RuntimeError(f"argnums must be int or Tuple[int, ...], got {argnums!r}")
    found = tuple(one_argnum(number, count) for number in argnums)
    if len(set(found)) != len(found):
        raise RuntimeError(f"argnums elements must be unique, got {argnums!r}")
    return found


def one_argnum(number, count):
    if not -count <= number < count:
        raise RuntimeError(f"Got argnum={number}, but only {count} positional inputs")
    return number % count


def picked(args, argnums):
    """What `argnums`, as the user wrote it, names: an argument, or a tuple of them."""
    numbers = check_argnums(argnums, len(args))
    return args[numbers[0]] if isinstance(argnums, int) else tuple(args[i] for i in numbers)


def put_back(args, argnums, values):
    """`args` with what `picked` gave replaced by `values`, a tree of the same containers."""
    numbers = check_argnums(argnums, len(args))
    args = list(args)
    for number, value in zip(numbers, (values,) if isinstance(argnums, int) else values, strict=True):
        args[number] = value
    return args


def tensor_leaves(tree):
    """The leaves of what is differentiated by, and the `Spec` of their containers."""
    leaves, spec = flatten(tree)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")
    return leaves, spec


def split_aux(result, has_aux, caller):
    """(output, aux) of what a function returned."""
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(f"{caller}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return result


def output_leaves(output, caller):
    """The leaves of a function's output, all of which must be tensors, and the `Spec` of their containers."""
    leaves, spec = flatten(output)
    if not leaves:
        raise RuntimeError(f"{caller}: expected f(*primals) to return only tensors, got no tensor")
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(
                f"{caller}: expected f(*primals) to return only tensors, got unsupported type {type(leaf)}"
            )
    return leaves, spec


def map_tensors(function, tree):
    """The tree with `function` applied to its leaves, all of which must be tensors."""
    leaves, spec = flatten(tree)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(leaf)}")
    return unflatten([function(leaf) for leaf in leaves], spec)


def refuse_complex(tree, caller, what):
    """Raises for complex tensors, of which Jacobians are not defined here."""
    for i, leaf in enumerate(flatten(tree)[0]):
        if isinstance(leaf, Tensor) and leaf.is_complex():
            raise RuntimeError(
                f"{caller}: Expected all {what} to be real but received complex tensor at flattened input idx: {i}"
            )
