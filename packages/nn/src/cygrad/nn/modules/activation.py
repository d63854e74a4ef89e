"""Nonlinearities as modules."""

from __future__ import annotations

from typing import Any

from cygrad import Tensor
from cygrad.nn import functional as F
from cygrad.nn.modules.module import Module

__all__ = ["GELU", "LogSoftmax", "ReLU", "Sigmoid", "Softmax", "Softmin", "Tanh"]


class ReLU(Module):
    """``max(x, 0)``, element by element.

    Parameters
    ----------
    inplace : bool, default False
        Write over the input.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Tanh(Module):
    """The hyperbolic tangent, element by element."""

    def forward(self, input: Tensor) -> Tensor:
        return input.tanh()


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``, element by element."""

    def forward(self, input: Tensor) -> Tensor:
        return input.sigmoid()


class GELU(Module):
    """The Gaussian error linear unit, see `cygrad.nn.functional.gelu`.

    Parameters
    ----------
    approximate : str
        ``"none"`` or ``"tanh"``.
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class _AlongDim(Module):
    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    """``exp(x)`` over its sum along a dimension.

    Parameters
    ----------
    dim : int
        The dimension. Leaving it out is deprecated.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim)


class Softmin(_AlongDim):
    """``exp(-x)`` over its sum along a dimension.

    Parameters
    ----------
    dim : int
        The dimension. Leaving it out is deprecated.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim)


class LogSoftmax(_AlongDim):
    """The logarithm of `Softmax`, without overflow.

    Parameters
    ----------
    dim : int
        The dimension. Leaving it out is deprecated.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim)
