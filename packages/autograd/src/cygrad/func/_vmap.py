"""vmap: a function of one example becomes one of a whole batch."""

from functools import wraps

from cygrad.autograd import _core
from cygrad.autograd._core import Tensor, batch_in, batch_out, enter_level, is_alike, leave_level, levels_of

from ._tree import broadcast_prefix, flatten, unflatten

__all__ = ["looped_operations", "vmap"]


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """A function that applies `func` to every example of a batch at once.

    `func` is written for one example. Inside it tensors have the shape of one example, while every operation computes
    all of them together: there is no loop in Python. vmap may be nested, and goes together with the other transforms:
    ``vmap(grad(loss), in_dims=(None, 0))`` is the gradient of each example.

    Parameters
    ----------
    func : callable
        Takes tensors, or lists, tuples and dicts of them, and returns the same.
    in_dims : int, None or tuple
        For each argument the dimension that counts the examples, None where all share the argument; one for all, or a
        tuple that may go as deep as the arguments do. Negative ones count from the end. Keyword arguments are shared.
    out_dims : int, None or nested ints
        Where that dimension goes in the results; None for a result that is the same for all.
    randomness : {"error", "different", "same"}
        What random operations do: they are refused, draw numbers for each example, or the same for all.
    chunk_size : int, optional
        At most so many examples at once, which bounds the memory that is needed.

    Returns
    -------
    callable

    Raises
    ------
    ValueError
        The arguments do not fit `in_dims`, nothing is mapped over, sizes differ, or results do not fit `out_dims`.
    RuntimeError
        `func` lets values decide: ``if x:``, ``x.item()``, ``x[mask]``, or writes values that differ between the
        examples into a tensor that does not; `randomness` is not one of the three words.

    Examples
    --------
    >>> import cygrad as torch
    >>> x, w = torch.ones(3, 2), torch.tensor([1.0, 2.0])
    >>> torch.vmap(torch.dot, in_dims=(0, None))(x, w)
    tensor([3., 3., 3.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and not (isinstance(chunk_size, int) and chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or an int greater than 0, got {chunk_size!r}")
    name = getattr(func, "__name__", type(func).__name__)

    def mapped(*args, **kwargs):
        leaves, dims, spec, size = examples_of(args, in_dims, name)
        if chunk_size is None or size <= chunk_size:
            return run(func, leaves, dims, spec, kwargs, size, out_dims, randomness, name)
        return in_chunks(func, leaves, dims, spec, kwargs, size, out_dims, randomness, name, chunk_size)

    return wraps(func)(mapped) if hasattr(func, "__name__") else mapped


def examples_of(args, in_dims, name):
    """Leaves of the arguments, the dimension of each (None or not negative), their tree, and the number of examples."""
    if not isinstance(in_dims, (int, tuple)) and in_dims is not None:
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}): in_dims is an int or a tuple nested as the inputs are, got "
            f"{type(in_dims).__name__}"
        )
    if not args:
        raise ValueError(f"vmap({name}): got no inputs; there is nothing to map over")
    leaves, spec = flatten(args)
    dims = broadcast_prefix(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}): in_dims is not compatible with the structure of the "
            f"inputs, {spec}, it has {flatten(in_dims)[1]}"
        )
    found, sizes = [], []
    for leaf, dim in zip(leaves, dims, strict=True):
        if dim is not None and (not isinstance(dim, int) or isinstance(dim, bool)):
            raise ValueError(f"vmap({name}, in_dims={in_dims}): an in_dim is an int or None, got {dim!r}")
        if dim is not None and not isinstance(leaf, Tensor):
            raise ValueError(
                f"vmap({name}, in_dims={in_dims}): got in_dim={dim} for an input of type "
                f"{type(leaf).__name__}. Only tensors can be mapped over: use None for it"
            )
        if dim is not None and not -leaf.ndim <= dim < leaf.ndim:
            raise ValueError(
                f"vmap({name}, in_dims={in_dims}): got in_dim={dim} for a tensor of {leaf.ndim} "
                f"dimensions, wanted is {-leaf.ndim} <= in_dim < {leaf.ndim}"
            )
        found.append(dim if dim is None else dim % leaf.ndim)
        if dim is not None:
            sizes.append(leaf.shape[dim])
    if not sizes:
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}): expected at least one Tensor to map over, but all in_dims are None"
        )
    if len(set(sizes)) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return leaves, found, spec, sizes[0]


def run(func, leaves, dims, spec, kwargs, size, out_dims, randomness, name):
    """The function on all examples at once."""
    level = enter_level(size, randomness)
    try:
        inside = [leaf if dim is None else batch_in(leaf, level, dim) for leaf, dim in zip(leaves, dims, strict=True)]
        result = func(*unflatten(inside, spec), **kwargs)
        found, tree = flatten(result)
        places = places_of(found, tree, out_dims, name)
        return unflatten([left(x, p, level, name) for x, p in zip(found, places, strict=True)], tree)
    finally:
        leave_level(level)


def places_of(found, tree, out_dims, name):
    """The out_dim of each result."""
    if tree.kind is None and isinstance(out_dims, tuple) and len(out_dims) == 1:
        out_dims = out_dims[0]
    places = broadcast_prefix(out_dims, tree)
    if places is None:
        raise ValueError(
            f"vmap({name}, out_dims={out_dims}): out_dims is not compatible with the structure of the "
            f"outputs, {tree}, it has {flatten(out_dims)[1]}"
        )
    for p in places:
        if p is not None and (not isinstance(p, int) or isinstance(p, bool)):
            raise ValueError(
                f"vmap({name}, out_dims={out_dims}): out_dims is an int, None, or ints nested as the outputs are"
            )
    return places


def left(x, place, level, name):
    """A result as the caller of vmap sees it."""
    if place is None:
        if isinstance(x, Tensor) and level in levels_of(x):
            if is_alike(x, level):
                return batch_out(x, level, 0)[0]
            raise ValueError(f"vmap({name}): a result that differs between the examples needs an out_dim, got None")
        return x
    if not isinstance(x, Tensor):
        raise ValueError(
            f"vmap({name}): the function must only return Tensors, got {type(x).__name__}. Did you mean "
            "to set out_dims to None for this output?"
        )
    return batch_out(x, level, place)


def in_chunks(func, leaves, dims, spec, kwargs, size, out_dims, randomness, name, chunk_size):
    """The same, some examples at a time."""
    from cygrad.random import _restore, _states

    states = _states() if randomness == "same" else None
    columns = tree = places = None
    for start in range(0, size, chunk_size):
        part = min(chunk_size, size - start)
        if states is not None:
            _restore(states)
        some = [x if d is None else x.narrow(d, start, part) for x, d in zip(leaves, dims, strict=True)]
        found, tree = flatten(run(func, some, dims, spec, kwargs, part, out_dims, randomness, name))
        places = places_of(found, tree, out_dims, name)
        columns = [[] for _ in found] if columns is None else columns
        for column, x in zip(columns, found, strict=True):
            column.append(x)
    joined = [c[-1] if p is None else _core.cat(c, p) for c, p in zip(columns, places, strict=True)]
    return unflatten(joined, tree)


def looped_operations():
    """Names of the operations that vmap runs once for each example, because there is no batching rule for them.

    The first use of each one inside vmap warns.

    Returns
    -------
    tuple of str
    """
    return tuple(sorted({*_core.GENERATED_LOOPED, *_core.LOOPED}))
