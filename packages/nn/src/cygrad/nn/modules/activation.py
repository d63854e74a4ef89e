"""Nonlinearities as modules."""

from __future__ import annotations

import warnings
from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.nn import functional as F
from cygrad.nn import init
from cygrad.nn.modules.module import Module
from cygrad.nn.parameter import Parameter

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


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


class _InPlace(Module):
    """An activation that may write over its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class SELU(_InPlace):
    """`elu` with the scales that keep mean 0 and variance 1, see `cygrad.nn.functional.selu`.

    Parameters
    ----------
    inplace : bool, default False
        Write over the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class SiLU(_InPlace):
    """``x * sigmoid(x)``, see `cygrad.nn.functional.silu`.

    Parameters
    ----------
    inplace : bool, default False
        Write over the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


class Mish(_InPlace):
    """``x * tanh(softplus(x))``, see `cygrad.nn.functional.mish`.

    Parameters
    ----------
    inplace : bool, default False
        Write over the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


class Hardsigmoid(Module):
    """``(x + 3) / 6`` between 0 and 1, see `cygrad.nn.functional.hardsigmoid`.

    Parameters
    ----------
    inplace : bool, default False
        Write over the input.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)


class Hardswish(Module):
    """``x * hardsigmoid(x)``, see `cygrad.nn.functional.hardswish`.

    Parameters
    ----------
    inplace : bool, default False
        Write over the input.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)


class Threshold(Module):
    """The input, and a value where it is at most a bound, see `cygrad.nn.functional.threshold`.

    Parameters
    ----------
    threshold, value : float
    inplace : bool, default False
        Write over the input.
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}{_inplace(self)}"


def _inplace(module: Module) -> str:
    return ", inplace=True" if module.inplace else ""


class RReLU(Module):
    """The input, and in training a random share of it where it is negative, see `cygrad.nn.functional.rrelu`.

    Parameters
    ----------
    lower, upper : float, default 1/8 and 1/3
        The share is uniform between them; in evaluation it is their mean.
    inplace : bool, default False
        Write over the input.
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}{_inplace(self)}"


class Hardtanh(Module):
    """The input between two bounds, see `cygrad.nn.functional.hardtanh`.

    Parameters
    ----------
    min_val, max_val : float, default -1 and 1
        The bounds.
    inplace : bool, default False
        Write over the input.
    min_value, max_value : float, optional
        Deprecated names of the bounds.

    Raises
    ------
    ValueError
        If the lower bound is not below the upper one.
    """

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        for old, new, value in (("min_value", "min_val", min_value), ("max_value", "max_val", max_value)):
            if value is not None:
                warnings.warn(f"keyword argument `{old}` is deprecated, use `{new}`", FutureWarning, stacklevel=2)
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        if not self.max_val > self.min_val:
            raise ValueError(f"max_val must be larger than min_val, got {self.max_val} and {self.min_val}")
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}{_inplace(self)}"


class ReLU6(Hardtanh):
    """The input between 0 and 6.

    Parameters
    ----------
    inplace : bool, default False
        Write over the input.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ELU(Module):
    """``x``, and ``alpha * (exp(x) - 1)`` where it is negative, see `cygrad.nn.functional.elu`.

    Parameters
    ----------
    alpha : float, default 1
    inplace : bool, default False
        Write over the input.
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}{_inplace(self)}"


class CELU(ELU):
    """`ELU` with a continuous derivative, see `cygrad.nn.functional.celu`.

    Parameters
    ----------
    alpha : float, default 1
        Not 0.
    inplace : bool, default False
        Write over the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class LeakyReLU(Module):
    """``x``, and ``negative_slope * x`` where it is negative, see `cygrad.nn.functional.leaky_relu`.

    Parameters
    ----------
    negative_slope : float, default 0.01
    inplace : bool, default False
        Write over the input.
    """

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}{_inplace(self)}"


class GLU(Module):
    """The first half times the sigmoid of the second half, see `cygrad.nn.functional.glu`.

    Parameters
    ----------
    dim : int, default -1
        The dimension that is halved.
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Hardshrink(Module):
    """The input, and 0 where its magnitude is at most `lambd`, by default 0.5."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Softshrink(Module):
    """The input moved towards 0 by `lambd`, by default 0.5."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``, see `cygrad.nn.functional.softplus`.

    Parameters
    ----------
    beta : float, default 1
    threshold : float, default 20
        Where ``beta * x`` is larger, the input itself is returned.
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class PReLU(Module):
    """``x``, and a learnt multiple of it where it is negative, see `cygrad.nn.functional.prelu`.

    Parameters
    ----------
    num_parameters : int, default 1
        One slope for all channels, or as many as there are.
    init : float, default 0.25
        The slopes at the start.
    device, dtype : optional
        Of the slopes.

    Attributes
    ----------
    weight : Parameter, shape (num_parameters,)
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(cygrad.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the slopes to what they start with."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class Softmax2d(Module):
    """`Softmax` over the channels: shape (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3)


class LogSigmoid(Module):
    """``log(sigmoid(x))`` without overflow."""

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Softsign(Module):
    """``x / (1 + |x|)``."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(Module):
    """``x - tanh(x)``."""

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)
