"""Nonlinearities."""

from __future__ import annotations

import math
import warnings
from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.autograd import _core
from cygrad.nn.functional.checks import require_tensor

__all__ = ["gelu", "log_softmax", "relu", "relu_", "sigmoid", "softmax", "softmin", "tanh"]


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``max(input, 0)``, element by element; with `inplace` written over the input."""
    require_tensor("relu", "input", input)
    return input.relu_() if inplace else input.relu()


def relu_(input: Tensor) -> Tensor:
    """Set negative elements to 0, and return the input."""
    require_tensor("relu_", "input", input)
    return input.relu_()


def tanh(input: Tensor) -> Tensor:
    """Return the hyperbolic tangent, element by element."""
    return cygrad.tanh(input)


def sigmoid(input: Tensor) -> Tensor:
    """Return ``1 / (1 + exp(-input))``, element by element."""
    return cygrad.sigmoid(input)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """Return ``input * P(X <= input)`` for a standard normal X, element by element.

    Hendrycks and Gimpel, "Gaussian error linear units" (2016).

    Parameters
    ----------
    input : Tensor
    approximate : str
        ``"none"`` for the error function, ``"tanh"`` for the paper's approximation of it.

    Raises
    ------
    RuntimeError
        If `approximate` is neither.
    """
    if approximate == "none":
        return _core.gelu(input)
    if approximate == "tanh":
        return 0.5 * input * (1 + (math.sqrt(2 / math.pi) * (input + 0.044715 * input**3)).tanh())
    raise RuntimeError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")


def _softmax_dim(name: str, dims: int) -> int:
    warnings.warn(f"{name} without dim chooses a dimension itself, which is deprecated: give dim", stacklevel=3)
    return 0 if dims in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Return ``exp(input)`` over its sum along `dim`.

    Parameters
    ----------
    input : Tensor
    dim : int
        Along which the result sums to 1. Leaving it out is deprecated.
    dtype : dtype, optional
        The input is converted to it first.

    Raises
    ------
    IndexError
        If there is no such dimension.
    """
    require_tensor("softmax", "input", input)
    dim = _softmax_dim("softmax", input.dim()) if dim is None else dim
    return input.softmax(dim, dtype=dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Return ``softmax(-input)``; the arguments are those of `softmax`."""
    require_tensor("softmin", "input", input)
    dim = _softmax_dim("softmin", input.dim()) if dim is None else dim
    return (-input).softmax(dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Return ``log(softmax(input))`` without overflow; the arguments are those of `softmax`."""
    require_tensor("log_softmax", "input", input)
    dim = _softmax_dim("log_softmax", input.dim()) if dim is None else dim
    return input.log_softmax(dim, dtype=dtype)
