"""The engine: recording, backward passes, custom Functions."""

import warnings

from . import anomaly_mode, forward_ad, function, functional, grad_mode, graph, rows
from ._core import Tensor, run_backward, run_grad
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .function import Function, FunctionCtx
from .grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled, set_multithreading_enabled
from .nan import NanError, find_nan
from .strict_mode import StrictError, is_strict_enabled, set_strict, strict
from .tracing import trace_lines
from .variable import Variable

__all__ = ["Function", "FunctionCtx", "NanError", "StrictError", "Variable", "anomaly_mode", "backward",
           "detect_anomaly", "enable_grad", "find_nan", "forward_ad", "function", "functional", "grad", "grad_mode",
           "gradcheck", "gradgradcheck", "graph", "inference_mode", "is_strict_enabled", "no_grad", "rows",
           "set_detect_anomaly", "set_grad_enabled", "set_multithreading_enabled", "set_strict", "strict",
           "trace_lines"]


def _sequence(value, name):
    if isinstance(value, Tensor | graph.GradientEdge):
        return (value,)
    try:
        items = iter(value)
    except TypeError:
        raise TypeError(f"{name} must be a Tensor or a sequence of Tensors, not {type(value).__name__}") from None
    found = []
    for i, t in enumerate(items):        # up to the first that is none: there may be more than memory holds
        if not isinstance(t, Tensor | graph.GradientEdge):
            raise TypeError(f"{name}[{i}] must be a Tensor, not {type(t).__name__}")
        found.append(t)
    return tuple(found)


def _gradients(grads, outputs, name):
    if grads is None:
        return (None,) * len(outputs)
    grads = (grads,) if isinstance(grads, Tensor) else grads if hasattr(grads, "__len__") else tuple(grads)
    if len(grads) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(grads)} gradients in {name}: one gradient (or None) "
                           "for each tensor is wanted")
    return tuple(grads)


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None):
    """Adds the gradients of `tensors` to ``.grad`` of the leaves that they were made from.

    Parameters
    ----------
    tensors : Tensor or GradientEdge, or a sequence of them
        Roots; each of one element, or with its gradient in `grad_tensors`.
    grad_tensors : Tensor or sequence, optional
        Gradient of each root, of its shape; None for a root of one element.
    retain_graph, create_graph : bool
        As for ``Tensor.backward``.
    inputs : Tensor or sequence of Tensor, optional
        Only these receive gradients.

    Raises
    ------
    RuntimeError
        A root needs no gradient, has several elements and no gradient, or its graph was freed by an earlier pass.
    """
    if grad_variables is not None:
        warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2)
        grad_tensors = grad_variables if grad_tensors is None else grad_tensors
    tensors = _sequence(tensors, "tensors")
    run_backward(tensors, _gradients(grad_tensors, tensors, "grad_tensors"), retain_graph, create_graph, inputs)


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True, allow_unused=None,
         is_grads_batched=False, materialize_grads=False):
    """The gradients of the sum of `outputs` (weighted by `grad_outputs`) with respect to `inputs`, as a tuple.

    Parameters
    ----------
    outputs, inputs : Tensor or GradientEdge, or a sequence of them
    grad_outputs : Tensor or sequence, optional
        Weights, one of each output's shape; None for outputs of one element.
    retain_graph, create_graph : bool
        As for ``Tensor.backward``.
    is_grads_batched : bool
        `grad_outputs` have one more dimension in front, and so have the results: a gradient for each row, all
        computed at once.
    allow_unused : bool, optional
        Gives None for an input that the outputs do not depend on, instead of an error.
    materialize_grads : bool
        Gives zeros for such an input.

    Raises
    ------
    RuntimeError
        An input is not part of the graph; see also `backward`.
    """
    if materialize_grads:
        if allow_unused is False:
            raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
                             "allow_unused=False.")
        allow_unused = True
    outputs = _sequence(outputs, "outputs")
    inputs = _sequence(inputs, "inputs")
    if not inputs:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty: name at least one tensor")
    weights = _gradients(grad_outputs, outputs, "grad_outputs")
    lenient = False if allow_unused is None else allow_unused
    gradients = _batched_gradients if is_grads_batched else run_grad
    result = gradients(outputs, inputs, weights, retain_graph, create_graph, lenient)
    if materialize_grads:
        from ._core import zeros_like

        pairs = zip(result, inputs, strict=True)
        result = tuple(zeros_like(x, requires_grad=bool(create_graph)) if g is None else g for g, x in pairs)
    return result


def _batched_gradients(outputs, inputs, weights, *options):
    """run_grad for each row of the weights at once."""
    from cygrad.func import vmap

    if any(w is None for w in weights):
        raise RuntimeError("grad(is_grads_batched=True) wants a gradient for each output in grad_outputs, got None")
    unused = []

    def rows(*weights):
        found = run_grad(outputs, inputs, weights, *options)
        unused[:] = [g is None for g in found]
        return tuple(g for g in found if g is not None)

    if not weights:
        return run_grad(outputs, inputs, weights, *options)
    found = iter(vmap(rows, randomness="same")(*weights))
    return tuple(None if missing else next(found) for missing in unused)


def __getattr__(name):
    if name in ("gradcheck", "gradgradcheck"):
        try:
            from cygrad.tools import gradcheck as module
        except ModuleNotFoundError as error:
            if error.name != "cygrad-tools":
                raise
            raise AttributeError(str(error)) from error
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
