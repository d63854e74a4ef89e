"""Transforms of functions: each takes a function and returns another one."""

from ._forward import jvp, linearize
from ._jacobian import hessian, jacfwd, jacrev
from ._reverse import grad, grad_and_value, value_and_grad, vjp
from ._vmap import looped_operations, vmap

__all__ = ["functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
           "looped_operations", "stack_module_state", "value_and_grad", "vjp", "vmap"]


def __getattr__(name):
    if name in ("functional_call", "stack_module_state"):
        from cygrad.nn import stateless

        return getattr(stateless, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
