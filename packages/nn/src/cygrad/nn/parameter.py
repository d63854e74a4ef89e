"""Tensors that a `Module` registers when they are assigned to it."""

from __future__ import annotations

from typing import Any, SupportsIndex

import cygrad
from cygrad import Tensor

__all__ = ["Buffer", "Parameter"]


def _tensor_of(data: Any, kind: str) -> Tensor:
    if data is None:
        return cygrad.empty(0)
    if not isinstance(data, Tensor):
        raise TypeError(f"{kind} is made from a Tensor, got {type(data).__name__}")
    return data


def _unpickle_parameter(cls: type, data: Tensor, requires_grad: bool) -> Parameter:
    return Tensor._make_subclass(cls, data, requires_grad)


class Parameter(Tensor):
    """A tensor that is trained: assigned as an attribute of a `Module`, it becomes one of its parameters.

    Parameters
    ----------
    data : Tensor, optional
        The values; the parameter shares their memory. Without it: an empty tensor of shape ``(0,)``.
    requires_grad : bool, default True
        Whether gradients are computed for it, also when it is made under `no_grad`.

    Raises
    ------
    TypeError
        If `data` is no tensor.
    RuntimeError
        If gradients are wanted for a type that has none (integers, bool).
    """

    _is_param = True

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        return Tensor._make_subclass(cls, _tensor_of(data, cls.__name__), requires_grad)

    def __deepcopy__(self, memo: dict) -> Parameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple:
        return _unpickle_parameter, (type(self), self.detach(), self.requires_grad)


class Buffer(Tensor):
    """A tensor that belongs to a module's state but is not trained, as a running mean is.

    Assigned as an attribute of a `Module`, it does what `Module.register_buffer` does.

    Parameters
    ----------
    data : Tensor, optional
        The values; the buffer shares their memory. Without it: an empty tensor of shape ``(0,)``.
    persistent : bool, default True
        Whether `Module.state_dict` contains it.
    """

    _is_buffer = True
    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        data = _tensor_of(data, cls.__name__)
        buffer = Tensor._make_subclass(cls, data, data.requires_grad)
        buffer.persistent = persistent
        return buffer

    def __repr__(self) -> str:
        return repr(self.detach().requires_grad_(self.requires_grad))

    def __deepcopy__(self, memo: dict) -> Buffer:
        if id(self) not in memo:
            copy = self.detach().clone().requires_grad_(self.requires_grad)
            memo[id(self)] = type(self)(copy, persistent=self.persistent)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple:
        return _unpickle_buffer, (type(self), self.detach(), self.requires_grad, self.persistent)


def _unpickle_buffer(cls: type, data: Tensor, requires_grad: bool, persistent: bool) -> Buffer:
    return cls(data.requires_grad_(requires_grad), persistent=persistent)


def clear_grad(parameter: Tensor, set_to_none: bool) -> None:
    """Drop a gradient, or fill it with zeros after cutting it from any graph that it is part of."""
    grad = parameter.grad
    if grad is None:
        return
    if set_to_none:
        parameter.grad = None
        return
    if grad.grad_fn is not None:
        grad = parameter.grad = grad.detach()
    else:
        grad.requires_grad_(False)
    grad.zero_()
