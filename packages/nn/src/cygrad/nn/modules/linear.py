"""Affine layers."""

from __future__ import annotations

import math
from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.nn import functional as F
from cygrad.nn import init
from cygrad.nn.modules.module import Module
from cygrad.nn.parameter import Parameter

__all__ = ["Bilinear", "Identity", "Linear"]


class Identity(Module):
    """Returns its input; takes any arguments, so that it can stand in for another layer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """``x @ weight.T + bias``.

    Parameters
    ----------
    in_features, out_features : int
        Size of the last dimension of the input and of the output.
    bias : bool, default True
        Whether there is a bias.
    device, dtype : optional
        Of the parameters.

    Attributes
    ----------
    weight : Parameter, shape (out_features, in_features)
        Starts uniform in ±1/sqrt(in_features) (He et al. with a = sqrt(5)).
    bias : Parameter, shape (out_features,), or None
        Starts uniform in ±1/sqrt(in_features).

    Raises
    ------
    RuntimeError
        If a size is negative; or in a call, if the input's last dimension is not `in_features`.
    """

    in_features: int
    out_features: int

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(cygrad.empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(cygrad.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """``x1 @ weight[k] @ x2 + bias[k]`` for every k, see `cygrad.nn.functional.bilinear`.

    Parameters
    ----------
    in1_features, in2_features, out_features : int
        Sizes of the last dimensions of both inputs and of the output.
    bias : bool, default True
        Whether there is a bias.
    device, dtype : optional
        Of the parameters.

    Raises
    ------
    ValueError
        If `in1_features` is not positive.
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        size = (out_features, in1_features, in2_features)
        self.weight = Parameter(cygrad.empty(size, device=device, dtype=dtype))
        self.register_parameter(
            "bias", Parameter(cygrad.empty(out_features, device=device, dtype=dtype)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew, uniform in ±1/sqrt(in1_features)."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )
