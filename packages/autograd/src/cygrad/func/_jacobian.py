"""Jacobians and Hessians."""

from functools import wraps

from ..autograd import _core
from ._args import picked, put_back, refuse_complex, tensor_leaves
from ._forward import jvp
from ._reverse import vjp
from ._tree import flatten, unflatten
from ._vmap import vmap


def basis(leaves, start, stop):
    """Rows `start` to `stop` of the unit matrix over all elements of the leaves: for each leaf a stack in its shape."""
    rows, first = [], 0
    for leaf in leaves:
        n = leaf.numel()
        part = _core.zeros((stop - start, n), dtype=leaf.dtype, device=leaf.device)
        low, high = max(first, start), min(first + n, stop)
        if low < high:
            part[low - start : high - start, low - first : high - first].fill_diagonal_(1)
        rows.append(part.view(stop - start, *leaf.shape))
        first += n
    return rows


def products(function, leaves, chunk_size=None, randomness="error"):
    """Stacks of what `function` gives for each element of the leaves: as many rows at once as `chunk_size` allows.

    Parameters
    ----------
    function : callable
        Takes a tensor for each leaf, of its shape, and returns a tuple of tensors.
    chunk_size : int, optional
        With 1, `function` is called in a plain loop, with no vmap around it.
    """
    total = sum(leaf.numel() for leaf in leaves)
    if not total:                            # a matrix of no rows, for the shapes of its columns
        return [y.new_zeros((0, *y.shape)) for y in function(*map(_core.zeros_like, leaves))]
    if chunk_size == 1:
        each = [function(*(t[0] for t in basis(leaves, k, k + 1))) for k in range(total)]
        return [_core.stack(column) for column in zip(*each, strict=True)]
    chunk_size = total if chunk_size is None else chunk_size
    together = vmap(function, randomness=randomness)
    chunks = [together(*basis(leaves, k, min(k + chunk_size, total))) for k in range(0, total, chunk_size)]
    return [c[0].contiguous() if len(c) == 1 else _core.cat(c) for c in zip(*chunks, strict=True)]


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None):
    """A function that returns the Jacobian of `func`, found in backward mode: its rows by one backward pass, with vmap.

    Parameters
    ----------
    func : callable
        Returns a tensor, or nested lists, tuples and dicts of tensors; with `has_aux` a pair of that and anything else.
    argnums : int or tuple of int
        Which positional arguments to differentiate by. Each may be a tensor, or nested lists, tuples and dicts of
        tensors.
    has_aux : bool
        Whether `func` returns a pair.
    chunk_size : int, optional
        How many rows are computed at once, all of them by default. Fewer need less memory; with 1 there is no vmap, so
        that a backward may do what vmap refuses.

    Returns
    -------
    callable
        Takes what `func` takes. In place of each tensor of the output it returns the containers of the arguments, whose
        tensors have the output's dimensions before the argument's; with `has_aux` ``(jacobian, aux)``.

    Raises
    ------
    ValueError
        `chunk_size` is not positive.
    RuntimeError
        When the result is called: an argument or output is complex, or a backward cannot be batched.
    """
    if chunk_size is not None and not (isinstance(chunk_size, int) and chunk_size > 0):
        raise ValueError(f"jacrev: `chunk_size` should be greater than 0, an int or None. Got {chunk_size!r}")

    @wraps(func)
    def wrapper(*args, **kwargs):
        refuse_complex(args, "jacrev", "inputs")
        chosen = picked(args, argnums)
        inputs, spec = tensor_leaves(chosen)
        output, vjp_fn, *aux = vjp(lambda x: func(*put_back(args, argnums, x), **kwargs), chosen, has_aux=has_aux)
        outputs, shape = flatten(output)
        refuse_complex(outputs, "jacrev", "outputs")
        stacks = products(lambda *row: tuple(flatten(vjp_fn(unflatten(row, shape)))[0]), outputs, chunk_size)
        found, at = [], 0
        for y in outputs:
            end = at + y.numel()
            blocks = [s[at:end].reshape((*y.shape, *x.shape)) for s, x in zip(stacks, inputs, strict=True)]
            found.append(unflatten(blocks, spec))
            at = end
        jacobian = unflatten(found, shape)
        return (jacobian, *aux) if has_aux else jacobian

    return wrapper


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    """A function that returns the Jacobian of `func`, found in forward mode: its columns by one call, with vmap.

    Parameters
    ----------
    func, argnums, has_aux
        As for `jacrev`.
    randomness : {"error", "different", "same"}
        What random operations in `func` do: as for `vmap`.

    Returns
    -------
    callable
        As that of `jacrev`.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")

    @wraps(func)
    def wrapper(*args, **kwargs):
        refuse_complex(args, "jacfwd", "inputs")
        chosen = picked(args, argnums)
        inputs, spec = tensor_leaves(chosen)
        shapes, latest = [], []              # containers of (tangents, aux), and aux, as the latest call had them

        def push(*row):
            moved = jvp(lambda x: func(*put_back(args, argnums, x), **kwargs), (chosen,), (unflatten(row, spec),),
                        has_aux=has_aux)
            refuse_complex(flatten(moved[0])[0], "jacfwd", "outputs")
            parts = [flatten(part) for part in moved[1:]]
            shapes[:] = [shape for _, shape in parts]
            latest[:] = parts[-1][0]
            return tuple(leaf for leaves, _ in parts for leaf in leaves)

        stacks = products(push, inputs, randomness=randomness)
        count = shapes[0].leaves
        found = []
        for whole in stacks[:count]:
            blocks, at = [], 0
            for x in inputs:
                part, at = whole[at : at + x.numel()], at + x.numel()
                blocks.append(part.movedim(0, -1).reshape((*whole.shape[1:], *x.shape)))
            found.append(unflatten(blocks, spec))
        jacobian = unflatten(found, shapes[0])
        if not has_aux:
            return jacobian
        aux = [a[0] for a in stacks[count:]] if any(x.numel() for x in inputs) else latest   # the same in each call
        return jacobian, unflatten(aux, shapes[1])

    return wrapper


def hessian(func, argnums=0):
    """A function that returns the Hessian of `func`, found in forward mode over backward mode.

    Parameters are those of `jacrev`. For an output of shape S and an argument of shape N the result has shape
    S + N + N.
    """
    return jacfwd(jacrev(func, argnums), argnums)
