"""Transforms of functions: each takes a function and returns another one."""

from ._forward import jvp, linearize
from ._jacobian import hessian, jacfwd, jacrev
from ._reverse import grad, grad_and_value, value_and_grad, vjp
from ._vmap import looped_operations, vmap

__all__ = ["debug_unwrap", "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev",
           "jvp", "linearize", "looped_operations", "rearrange", "replace_all_batch_norm_modules_",
           "stack_module_state", "value_and_grad", "vjp", "vmap"]


def __getattr__(name):
    if name in ("functional_call", "replace_all_batch_norm_modules_", "stack_module_state"):
        from cygrad.nn import stateless

        return getattr(stateless, name)
    if name == "rearrange":
        from ._rearrange import rearrange

        return rearrange
    if name in ("debug_unwrap", "functionalize"):
        from . import _inspect

        return getattr(_inspect, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
