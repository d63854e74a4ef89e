"""Custom Functions: operations with a forward and a backward of the user's own."""

from ._core import FunctionCtx, apply_function

__all__ = ["Function", "FunctionCtx", "once_differentiable"]


class Function:
    """Base class of operations with a gradient of their own.

    Subclasses define static methods ``forward(ctx, *args)`` (or ``forward(*args)`` and ``setup_context(ctx, inputs,
    output)``) and ``backward(ctx, *grad_outputs)``, which returns one gradient, or None, for each argument of forward.
    Call them through ``apply``, never directly.

    Examples
    --------
    >>> import cygrad as torch
    >>> class Square(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         x, = ctx.saved_tensors
    ...         return 2 * x * grad
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> Square.apply(x).backward()
    >>> x.grad
    tensor(6.)
    """

    # Whether vmap may run forward, setup_context and backward as they are, on tensors that stand for a batch.
    generate_vmap_rule = False
    _transposed = False     # forward mode transposes backward, which is made of differentiable operations

    def __init__(self, *args, **kwargs):
        name = type(self).__name__
        raise RuntimeError(f"{name} should not be instantiated. Methods on autograd functions are all static, so use "
                           f"{name}.apply(...)")

    @staticmethod
    def forward(*args, **kwargs):
        """Computes the outputs; nothing in it is recorded."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Fills ctx after forward, when forward does not take ctx itself."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        """Returns one gradient, or None, for each argument of forward."""
        raise NotImplementedError("You must implement either the backward or vjp method for your custom "
                                  "autograd.Function to use it with backward mode AD.")

    vjp = backward                       # another name that subclasses may give it

    @staticmethod
    def vmap(info, in_dims, *args):
        """The Function for a whole batch, in vmap: returns its output and the dimensions that count the examples there.

        Parameters
        ----------
        info
            Its attributes `batch_size` and `randomness`.
        in_dims : tuple of int or None
            For each argument, the dimension that counts the examples; None where they share it.
        *args
            The arguments of forward, without `ctx`.
        """
        raise NotImplementedError("To use autograd.Function with vmap, you must either override the vmap static method "
                                  "or set generate_vmap_rule=True.")

    @staticmethod
    def jvp(ctx, *grad_inputs):
        """Returns the tangents of the outputs from those of the arguments: zeros, or None, where there is none."""
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function to use it with "
                                  "forward mode AD.")

    @classmethod
    def apply(cls, *args, **kwargs):
        """Runs forward and records this Function as one node of the graph; keywords of forward get no gradient."""
        return apply_function(cls, args, kwargs)


class _NoSecondDerivative(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(ctx, name, *grads):
        ctx.name = name
        ctx.set_materialize_grads(False)
        return tuple(g.clone() for g in grads)

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable: "
                           f"{ctx.name}")


def once_differentiable(backward):
    """Decorator of a backward that is not itself differentiable: differentiating its result raises RuntimeError."""
    from functools import wraps

    from ._core import Tensor, is_grad_enabled
    from .grad_mode import no_grad

    @wraps(backward)
    def wrapper(ctx, *grads):
        with no_grad():
            outputs = backward(ctx, *grads)
        if not is_grad_enabled() or not any(isinstance(g, Tensor) and g.requires_grad for g in grads):
            return outputs
        many = isinstance(outputs, tuple)
        values = outputs if many else (outputs,)
        places = [i for i, v in enumerate(values) if isinstance(v, Tensor)]
        leaves = [values[i].detach().requires_grad_() for i in places]
        guarded = _NoSecondDerivative.apply(type(ctx).__name__, *leaves)
        result = list(values)
        for i, v in zip(places, guarded, strict=True):
            result[i] = v
        return tuple(result) if many else result[0]

    return wrapper
