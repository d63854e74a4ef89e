"""Transforms in backward mode."""

from functools import wraps

from ..autograd import _core
from ..autograd._core import Tensor, zeros_like
from ..autograd.grad_mode import enable_grad
from ._args import map_tensors, output_leaves, picked, put_back, split_aux, tensor_leaves
from ._tree import flatten, unflatten


class Tape:
    """One call of a function by inputs of its own, recorded.

    Transforms nest: to those around, what a tape gives is part of their graph where it depends on it, and is without
    history where it does not.

    Parameters
    ----------
    function : callable
    leaves : list of Tensor
        What to differentiate by.
    """

    def __init__(self, leaves):
        self.start = _core.recorded_count()
        self.inputs = [_core.transform_input(t) for t in leaves]

    def end(self):
        """No gradient goes to the inputs any more, except through `gradients`."""
        _core.end_inputs(self.inputs)

    def released(self, t):
        """What the caller gets of a result."""
        return _core.transform_output(t, self.start)

    def gradients(self, outputs, weights, keep, create=None):
        """Gradients of the inputs, zeros where there is none, after `end`. create: False for none that are recorded."""
        create = create is not False and _core.is_grad_enabled() and any(
            _core.lives(t, self.start) for t in [*outputs, *(w for w in weights if w is not None)]
        )
        grads = _core.transform_gradients(list(outputs), self.inputs, list(weights), keep or create, create)
        return [zeros_like(x) if g is None else self.released(g) for g, x in zip(grads, self.inputs, strict=True)]


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that returns the gradient of `func`, and what `func` returned.

    Parameters
    ----------
    func : callable
        Returns a tensor of one element without dimensions; with `has_aux` a pair of it and anything else made of
        tensors.
    argnums : int or tuple of int
        Which positional arguments to differentiate by. Each may be a tensor, or nested lists, tuples and dicts of
        tensors.
    has_aux : bool
        Whether `func` returns a pair.

    Returns
    -------
    callable
        Takes what `func` takes; returns ``(gradient, value)``, with `has_aux` ``(gradient, (value, aux))``. The
        gradient is a tuple where `argnums` is one.

    Raises
    ------
    RuntimeError
        When the result is called: `func` returned something else, or `argnums` names no argument.
    """

    @wraps(func)
    def wrapper(*args, **kwargs):
        grads, value, aux = _differentiate(func, argnums, has_aux, args, kwargs)
        return grads, (value, aux) if has_aux else value

    return wrapper


def value_and_grad(func, argnums=0, has_aux=False):
    """A function that returns what `func` returned, and its gradient: `grad_and_value` in the other order."""

    @wraps(func)
    def wrapper(*args, **kwargs):
        grads, value, aux = _differentiate(func, argnums, has_aux, args, kwargs)
        return (value, aux) if has_aux else value, grads

    return wrapper


def grad(func, argnums=0, has_aux=False):
    """A function that returns the gradient of `func`; can be nested for higher derivatives.

    Parameters are those of `grad_and_value`.

    Returns
    -------
    callable
        Takes what `func` takes; returns the gradient, with `has_aux` ``(gradient, aux)``.

    Examples
    --------
    >>> import cygrad as torch
    >>> torch.func.grad(torch.func.grad(torch.sin))(torch.tensor(0.5))
    tensor(-0.4794)
    """

    @wraps(func)
    def wrapper(*args, **kwargs):
        grads, _, aux = _differentiate(func, argnums, has_aux, args, kwargs)
        return (grads, aux) if has_aux else grads

    return wrapper


def _differentiate(func, argnums, has_aux, args, kwargs):
    """(gradients, value, aux) of a function of one value."""
    caller = "grad_and_value(f)(*args)"
    leaves, spec = tensor_leaves(picked(args, argnums))
    tape = Tape(leaves)
    with enable_grad():
        result = func(*put_back(args, argnums, unflatten(tape.inputs, spec)), **kwargs)
    tape.end()
    output, aux = split_aux(result, has_aux, caller)
    if not isinstance(output, Tensor):
        raise RuntimeError(f"{caller}: Expected f(*args) to return a Tensor, got {type(output)}")
    if output.dim():
        raise RuntimeError(
            f"{caller}: Expected f(*args) to return a scalar Tensor, got tensor with {output.dim()} dims. "
            "Maybe you wanted to use the vjp or jacrev APIs instead?"
        )
    grads = unflatten(
        tape.gradients([output], [None], False) if output.requires_grad else [zeros_like(x) for x in tape.inputs], spec
    )
    return grads, tape.released(output), map_tensors(tape.released, aux) if has_aux else None


def vjp(func, *primals, has_aux=False):
    """The value of `func`, and a function that takes the gradient of that to the gradients of `primals`.

    Parameters
    ----------
    func : callable
        Returns a tensor, or nested lists, tuples and dicts of tensors; with `has_aux` a pair of that and anything else
        made of tensors.
    *primals
        Arguments: tensors, or nested containers of tensors.
    has_aux : bool
        Whether `func` returns a pair.

    Returns
    -------
    tuple
        ``(output, vjp_fn)``, with `has_aux` ``(output, vjp_fn, aux)``. ``vjp_fn(cotangents)`` takes containers like
        those of `output` and returns a tuple, one gradient for each of `primals`. It may be called several times, but
        not after ``retain_graph=False``; with ``create_graph=False`` the gradients are no part of a graph.

    Raises
    ------
    RuntimeError
        An output is not floating-point or complex.
    """
    caller = "vjp(f, *primals)"
    leaves, spec = tensor_leaves(primals)
    tape = Tape(leaves)
    with enable_grad():
        result = func(*unflatten(tape.inputs, spec))
    tape.end()
    output, aux = split_aux(result, has_aux, caller)
    outputs, shape = output_leaves(output, caller)

    for y in outputs:
        if not (y.is_floating_point() or y.is_complex()):
            raise RuntimeError(
                f"vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got one with dtype {y.dtype}"
            )

    def vjp_fn(cotangents, retain_graph=True, create_graph=None):
        given, like = flatten(cotangents)
        if like != shape:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function. cotangents: {like}, primal output: {shape}"
            )
        return unflatten(tape.gradients(outputs, given, retain_graph, create_graph), spec)

    released = unflatten([tape.released(t) for t in outputs], shape)
    return (released, vjp_fn, map_tensors(tape.released, aux)) if has_aux else (released, vjp_fn)
