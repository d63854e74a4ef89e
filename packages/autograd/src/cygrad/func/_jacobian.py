"""Jacobians and Hessians."""

from functools import wraps

from ..autograd import _core
from ._args import picked, put_back, tensor_leaves
from ._forward import jvp
from ._reverse import vjp
from ._tree import flatten, unflatten


def basis(leaves):
    """For each element of the leaves: one-hot tensors of all their shapes, zeros but for that element."""
    for i, leaf in enumerate(leaves):
        for k in range(leaf.numel()):
            row = [_core.zeros_like(t, memory_format=_core.contiguous_format) for t in leaves]
            row[i].view(-1)[k] = 1
            yield row


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None):
    """A function that returns the Jacobian of `func`, found in backward mode: one pass for each element of the output.

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
        How many passes run at once; the result is the same.

    Returns
    -------
    callable
        Takes what `func` takes. In place of each tensor of the output it returns the containers of the arguments, whose
        tensors have the output's dimensions before the argument's; with `has_aux` ``(jacobian, aux)``.
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @wraps(func)
    def wrapper(*args, **kwargs):
        chosen = picked(args, argnums)
        inputs, spec = tensor_leaves(chosen)
        output, vjp_fn, *aux = vjp(lambda x: func(*put_back(args, argnums, x), **kwargs), chosen, has_aux=has_aux)
        outputs, shape = flatten(output)
        rows = [flatten(vjp_fn(unflatten(row, shape))[0])[0] for row in basis(outputs)]
        found, at = [], 0
        for y in outputs:
            mine, at = rows[at : at + y.numel()], at + y.numel()
            blocks = [stacked([row[i] for row in mine], x).reshape(*y.shape, *x.shape) for i, x in enumerate(inputs)]
            found.append(unflatten(blocks, spec))
        jacobian = unflatten(found, shape)
        return (jacobian, *aux) if has_aux else jacobian

    return wrapper


def stacked(rows, like):
    """The rows as one tensor, also where there are none."""
    return _core.stack(rows) if rows else like.new_zeros((0, *like.shape))


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    """A function that returns the Jacobian of `func`, found in forward mode: one call for each element of arguments.

    Parameters and result are those of `jacrev`.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")

    @wraps(func)
    def wrapper(*args, **kwargs):
        chosen = picked(args, argnums)
        inputs, spec = tensor_leaves(chosen)
        aux = ()

        def moved(row):
            nonlocal aux
            _, tangent, *aux = jvp(
                lambda x: func(*put_back(args, argnums, x), **kwargs),
                (chosen,),
                (unflatten(row, spec),),
                has_aux=has_aux,
            )
            return tangent

        columns = [moved(row) for row in basis(inputs)]
        if not columns:
            columns, count = [moved([_core.zeros_like(t) for t in inputs])], 0
        else:
            count = len(columns)
        flat = [flatten(c)[0] for c in columns]
        found = []
        for k, y in enumerate(flat[0]):
            whole = stacked([c[k] for c in flat[:count]], y)
            blocks, at = [], 0
            for x in inputs:
                part, at = whole[at : at + x.numel()], at + x.numel()
                blocks.append(part.movedim(0, -1).reshape(*y.shape, *x.shape))
            found.append(unflatten(blocks, spec))
        jacobian = unflatten(found, flatten(columns[0])[1])
        return (jacobian, *aux) if has_aux else jacobian

    return wrapper


def hessian(func, argnums=0):
    """A function that returns the Hessian of `func`, found in forward mode over backward mode.

    Parameters are those of `jacrev`. For an output of shape S and an argument of shape N the result has shape
    S + N + N.
    """
    return jacfwd(jacrev(func, argnums), argnums)
