"""Starting values of parameters, written in place.

Every function draws from the generator in PyTorch's order, so a seed gives PyTorch's numbers.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.nn.functional.checks import require_tensor

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "sparse_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

_GAINS: dict[str, Callable[[float], float]] = {
    "sigmoid": lambda a: 1.0,
    "tanh": lambda a: 5.0 / 3,
    "relu": lambda a: math.sqrt(2.0),
    "leaky_relu": lambda a: math.sqrt(2.0 / (1 + a**2)),
    "selu": lambda a: 3.0 / 4,
} | dict.fromkeys(("linear", *(f"conv{t}{n}d" for t in ("", "_transpose") for n in (1, 2, 3))), lambda a: 1.0)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor by which weights grow to make up for a nonlinearity after them.

    Parameters
    ----------
    nonlinearity : str
        ``"linear"``, ``"conv1d"`` (and the other convolutions), ``"sigmoid"``, ``"tanh"``, ``"relu"``,
        ``"leaky_relu"`` or ``"selu"``.
    param : float, optional
        Negative slope of ``"leaky_relu"``, 0.01 by default.

    Raises
    ------
    ValueError
        If the name is not one of these, or the slope no number.
    """
    if nonlinearity not in _GAINS:
        raise ValueError(f"unsupported nonlinearity {nonlinearity!r}; known: {', '.join(sorted(_GAINS))}")
    slope = 0.01 if param is None else param
    if nonlinearity == "leaky_relu" and (isinstance(slope, bool) or not isinstance(slope, (int, float))):
        raise ValueError(f"negative_slope {slope!r} is not a valid number")
    return _GAINS[nonlinearity](slope)


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    if tensor.dim() < 2:
        raise ValueError(f"fan in and fan out need a tensor of 2 or more dimensions, got shape {tuple(tensor.shape)}")
    field = math.prod(tensor.shape[2:])
    return tensor.size(1) * field, tensor.size(0) * field


def _fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode {mode!r} is not supported: use 'fan_in' or 'fan_out'")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def _nothing_to_fill(tensor: Tensor) -> bool:
    if 0 in tensor.shape:
        warnings.warn(f"initialising a tensor of shape {tuple(tensor.shape)}, which has no elements", stacklevel=3)
        return True
    return False


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with numbers drawn uniformly from [`a`, `b`), and return the tensor."""
    require_tensor("uniform_", "tensor", tensor)
    with cygrad.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with numbers from the normal distribution of that mean and standard deviation, and return the tensor."""
    require_tensor("normal_", "tensor", tensor)
    with cygrad.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one number, and return the tensor."""
    require_tensor("constant_", "tensor", tensor)
    with cygrad.no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones, and return the tensor."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros, and return the tensor."""
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """Make a matrix the identity, and return it; ValueError unless it has 2 dimensions."""
    require_tensor("eye_", "tensor", tensor)
    if tensor.dim() != 2:
        raise ValueError(f"only tensors with 2 dimensions can become an identity matrix, got {tensor.dim()}")
    with cygrad.no_grad():
        tensor.zero_()
        tensor.diagonal().fill_(1)
    return tensor


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Make convolution weights pass their input channels through, as far as there are channels.

    Parameters
    ----------
    tensor : Tensor
        Weights of shape (out, in / groups, *kernel*), 3 to 5 dimensions.
    groups : int
        Number of groups of the convolution.

    Raises
    ------
    ValueError
        If the number of dimensions is another, or `groups` does not divide the output channels.
    """
    require_tensor("dirac_", "tensor", tensor)
    if tensor.dim() not in (3, 4, 5):
        raise ValueError(f"only tensors with 3, 4 or 5 dimensions are convolution weights, got {tensor.dim()}")
    if tensor.size(0) % groups:
        raise ValueError(f"groups must divide the {tensor.size(0)} output channels, got {groups}")
    per_group = tensor.size(0) // groups
    middle = tuple(size // 2 for size in tensor.shape[2:])
    with cygrad.no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(per_group, tensor.size(1))):
                tensor[(group * per_group + channel, channel, *middle)] = 1
    return tensor


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with uniform numbers of variance 2 gain² / (fan_in + fan_out), and return the tensor.

    Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks" (2010). ValueError
    if the tensor has fewer than 2 dimensions.
    """
    require_tensor("xavier_uniform_", "tensor", tensor)
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with normal numbers of variance 2 gain² / (fan_in + fan_out), and return the tensor.

    Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks" (2010). ValueError
    if the tensor has fewer than 2 dimensions.
    """
    require_tensor("xavier_normal_", "tensor", tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor)))), generator)


def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Fill with uniform numbers of variance gain² / fan, and return the tensor.

    He et al., "Delving deep into rectifiers" (2015).

    Parameters
    ----------
    tensor : Tensor
        At least 2 dimensions; without elements it is left alone, with a warning.
    a : float
        Negative slope of the leaky ReLU that follows.
    mode : str
        ``"fan_in"`` keeps the variance of activations, ``"fan_out"`` that of gradients.
    nonlinearity : str
        What follows, see `calculate_gain`.
    generator : Generator, optional
        Where the numbers come from.

    Raises
    ------
    ValueError
        If the mode or the nonlinearity is unknown, or the tensor has fewer than 2 dimensions.
    """
    require_tensor("kaiming_uniform_", "tensor", tensor)
    if _nothing_to_fill(tensor):
        return tensor
    std = calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode))
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Fill with normal numbers of variance gain² / fan, and return the tensor; see `kaiming_uniform_`."""
    require_tensor("kaiming_normal_", "tensor", tensor)
    if _nothing_to_fill(tensor):
        return tensor
    return normal_(tensor, 0, calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode)), generator)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fill a matrix with normal numbers and set a fraction `sparsity` of every column to zero; return the matrix.

    Martens, "Deep learning via Hessian-free optimization" (2010). ValueError unless it has 2 dimensions.
    """
    require_tensor("sparse_", "tensor", tensor)
    if tensor.dim() != 2:
        raise ValueError(f"only tensors with 2 dimensions can be made sparse, got {tensor.dim()}")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with cygrad.no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[cygrad.randperm(rows)[:zeros], column] = 0
    return tensor
