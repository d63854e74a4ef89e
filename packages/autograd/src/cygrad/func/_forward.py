"""Transforms in forward mode."""

from ..autograd import _core
from ..autograd._core import Tensor, zeros_like
from ..autograd.forward_ad import close_level, open_level
from ..autograd.grad_mode import enable_grad
from ._args import map_tensors, output_leaves, split_aux, tensor_leaves
from ._reverse import Tape
from ._tree import flatten, unflatten


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """The value of `func`, and how it changes as its arguments move along `tangents`.

    Parameters
    ----------
    func : callable
        Returns a tensor, or nested lists, tuples and dicts of tensors; with `has_aux` a pair of that and anything else
        made of tensors.
    primals, tangents : tuple
        The arguments, tensors or nested containers of tensors, and their directions, of the same containers and shapes.
    strict : bool
        Whether an output that does not depend on the arguments is an error; otherwise its tangent is zeros.
    has_aux : bool
        Whether `func` returns a pair.

    Returns
    -------
    tuple
        ``(output, tangent of output)``, with `has_aux` ``(output, tangent of output, aux)``.

    Examples
    --------
    >>> import cygrad as torch
    >>> torch.func.jvp(torch.sin, (torch.tensor(0.0),), (torch.tensor(2.0),))
    (tensor(0.), tensor(2.))
    """
    caller = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{caller}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    leaves, spec = flatten(primals)
    directions, like = flatten(tangents)
    if spec != like:
        raise RuntimeError(
            f"{caller}: Expected primals and tangents to have the same python structure. For example, if primals "
            "is a tuple of 3 tensors, tangents also must be. Got primals with structure "
            f"{spec} and tangents with structure {like}"
        )
    if not leaves:
        raise RuntimeError(f"{caller}: Expected primals to contain at least one Tensor.")
    for name, values in (("primals", leaves), ("tangents", directions)):
        for value in values:
            if not isinstance(value, Tensor):
                raise RuntimeError(f"{caller}: Expected {name} to only contain Tensors, got {type(value)}")
    for name, values in (("primal", leaves), ("tangent", directions)):
        for value in values:
            if not (value.is_floating_point() or value.is_complex()):
                raise ValueError(f"Expected {name} to be floating point or complex, but got: {value.dtype}")
    level = open_level()
    try:
        duals = [_core.make_dual_tensor(p, t, level) for p, t in zip(leaves, directions, strict=True)]
        output, aux = split_aux(func(*unflatten(duals, spec)), has_aux, caller)
        outputs, shape = output_leaves(output, caller)
        moved = [_core.tangent_of(y, level) for y in outputs]
        if strict and None in moved:
            raise RuntimeError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This "
                "is not allowed with strict=True."
            )
        moved = [zeros_like(y) if t is None else t for y, t in zip(outputs, moved, strict=True)]
        aux = map_tensors(lambda t: t, aux) if has_aux else None
    finally:
        close_level(level)
    result = unflatten(outputs, shape), unflatten(moved, shape)
    return (*result, aux) if has_aux else result


def linearize(func, *primals):
    """The value of `func`, and its linear approximation there: a function of tangents, cheap to call many times.

    `func` runs once. The result of a call of the approximation is that of `jvp` with the same tangents.

    Parameters
    ----------
    func : callable
        Returns a tensor, or nested lists, tuples and dicts of tensors.
    *primals
        Arguments: tensors, or nested containers of tensors.

    Returns
    -------
    tuple
        ``(output, jvp_fn)``; ``jvp_fn(*tangents)`` takes containers, shapes and dtypes like those of `primals`.
    """
    leaves, spec = tensor_leaves(primals)
    tape = Tape(leaves)
    with enable_grad():
        output = func(*unflatten(tape.inputs, spec))
    tape.end()
    outputs, shape = output_leaves(output, "linearize(f, *primals)")
    weights, grads = _core.transposed_parts(outputs, tape.inputs)

    def jvp_fn(*tangents):
        given, like = flatten(tangents)
        if like != spec:
            raise RuntimeError(f"Expected the tangents {like} to have the same argspec as the primals {spec}")
        for i, (t, x) in enumerate(zip(given, leaves, strict=True)):
            for what in ("shape", "dtype"):
                if getattr(t, what) != getattr(x, what):
                    raise RuntimeError(
                        f"tangent:{i} with {what} {getattr(t, what)} in flattened pytree doesn't match the "
                        f"{what} {getattr(x, what)} of the corresponding primal."
                    )
        create = _core.is_grad_enabled() and any(
            _core.lives(t, tape.start) for t in [*given, *(g for g in grads if g is not None)]
        )
        moved = _core.transposed_again(weights, grads, given, create)
        return unflatten(
            [zeros_like(y) if t is None else tape.released(t) for t, y in zip(moved, outputs, strict=True)], shape
        )

    return unflatten([tape.released(t) for t in outputs], shape), jvp_fn
