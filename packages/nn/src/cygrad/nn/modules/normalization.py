"""Normalisation over a layer, a group or neighbouring channels."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.nn import functional as F
from cygrad.nn import init
from cygrad.nn.modules.module import Module
from cygrad.nn.parameter import Parameter

__all__ = ["GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class LayerNorm(Module):
    """Normalises over the last dimensions, see `cygrad.nn.functional.layer_norm`.

    Parameters
    ----------
    normalized_shape : int or sequence of int
        The sizes of these dimensions.
    eps : float, default 1e-5
        Added to the variance.
    elementwise_affine : bool, default True
        Learn a scale and an offset for each element of this shape.
    bias : bool, default True
        Learn an offset, if `elementwise_affine`.
    device, dtype : optional
        Of the parameters.
    """

    normalized_shape: tuple[int, ...]

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        whole = isinstance(normalized_shape, numbers.Integral)
        self.normalized_shape = (normalized_shape,) if whole else tuple(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, wanted in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            value = Parameter(cygrad.empty(self.normalized_shape, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set scale and offset to 1 and 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divides by the root of the mean square over the last dimensions, see `cygrad.nn.functional.rms_norm`.

    Parameters
    ----------
    normalized_shape : int or sequence of int
        The sizes of these dimensions.
    eps : float, optional
        Added to the mean square; by default the dtype's smallest step from 1.
    elementwise_affine : bool, default True
        Learn a scale for each element of this shape.
    device, dtype : optional
        Of the parameter.
    """

    normalized_shape: tuple[int, ...]

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        whole = isinstance(normalized_shape, numbers.Integral)
        self.normalized_shape = (normalized_shape,) if whole else tuple(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        value = (
            Parameter(cygrad.empty(self.normalized_shape, device=device, dtype=dtype)) if elementwise_affine else None
        )
        self.register_parameter("weight", value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the scale to 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Normalises each group of channels of each item, see `cygrad.nn.functional.group_norm`.

    Parameters
    ----------
    num_groups, num_channels : int
        The first divides the second.
    eps : float, default 1e-5
        Added to the variance.
    affine : bool, default True
        Learn a scale and an offset for each channel.
    device, dtype : optional
        Of the parameters.
    bias : bool, default True
        Learn an offset, if `affine`.

    Raises
    ------
    ValueError
        If the groups do not divide the channels.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if not num_groups or num_channels % num_groups:
            raise ValueError(
                f"num_channels must be divisible by num_groups, got num_channels={num_channels} and "
                f"num_groups={num_groups}"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            value = Parameter(cygrad.empty(num_channels, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set scale and offset to 1 and 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """Divides by neighbouring channels, see `cygrad.nn.functional.local_response_norm`.

    Parameters
    ----------
    size : int
        How many channels are neighbours.
    alpha, beta, k : float, default 1e-4, 0.75 and 1
        See there.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
