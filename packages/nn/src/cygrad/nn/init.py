"""Starting values of parameters, written in place.

Every function draws from the generator in PyTorch's order, so a seed gives PyTorch's numbers.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
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
    if not isinstance(mode, str):
        raise TypeError(f"mode must be str, not {type(mode).__name__}")
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode {mode!r} is not supported: use 'fan_in' or 'fan_out'")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def _nothing_to_fill(tensor: Tensor) -> bool:
    if 0 in tensor.shape:
        warnings.warn(f"initialising a tensor of shape {tuple(tensor.shape)}, which has no elements", stacklevel=3)
        return True
    return False


_skips_turn = threading.Lock()
_skips: int | None = None  # the thread that makes a module which is not to be filled


@contextmanager
def skipping() -> Iterator[None]:
    """Have this thread's calls of the functions of this module do nothing, inside the ``with`` block."""
    global _skips
    with _skips_turn:
        _skips = threading.get_ident()
        try:
            yield
        finally:
            _skips = None


def _skipped() -> bool:
    return _skips is not None and _skips == threading.get_ident()


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with numbers drawn uniformly from [`a`, `b`), and return the tensor."""
    require_tensor("uniform_", "tensor", tensor)
    if _skipped():
        return tensor
    with cygrad.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with numbers from the normal distribution of that mean and standard deviation, and return the tensor."""
    require_tensor("normal_", "tensor", tensor)
    if _skipped():
        return tensor
    with cygrad.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one number, and return the tensor."""
    require_tensor("constant_", "tensor", tensor)
    if _skipped():
        return tensor
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
        If the number of dimensions is another, or `groups` is not positive or does not divide the output channels.
    """
    require_tensor("dirac_", "tensor", tensor)
    if tensor.dim() not in (3, 4, 5):
        raise ValueError(f"only tensors with 3, 4 or 5 dimensions are convolution weights, got {tensor.dim()}")
    if groups < 1 or tensor.size(0) % groups:
        raise ValueError(f"groups must be positive and divide the {tensor.size(0)} output channels, got {groups}")
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


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """Fill with numbers of the normal distribution of that mean and standard deviation, between `a` and `b`.

    By rejection: of normal numbers where most lie between the bounds, else of uniform ones.

    Parameters
    ----------
    tensor : Tensor
        Floating point.
    mean, std : float
        Of the distribution that is cut off.
    a, b : float
        Smallest and largest value.
    generator : Generator, optional
        Where the numbers come from.

    Returns
    -------
    Tensor
        The same.

    Raises
    ------
    ValueError
        If `std` is not positive.
    """
    require_tensor("trunc_normal_", "tensor", tensor)
    mean, std, a, b = float(mean), float(std), float(a), float(b)  # others are refused before writing
    if not std > 0:
        raise ValueError(f"trunc_normal_: std must be positive, got {std}")
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_: they are in a tail of the distribution",
            stacklevel=2,
        )
    if _skipped():
        return tensor
    below_a, below_b = (math.erf((bound - mean) / (std * math.sqrt(2.0))) / 2 for bound in (a, b))
    with cygrad.no_grad():
        if below_b - below_a > 0.3:
            return _rejected_normal(tensor, mean, std, a, b, generator)
        return _rejected_uniform(tensor, mean, std, a, b, generator)


def _rejected_normal(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> Tensor:
    # The bounds, as the dtype has them.
    low, high = (cygrad.tensor(bound, dtype=tensor.dtype, device=tensor.device) for bound in (a, b))
    tensor.normal_(mean, std, generator=generator)
    while (outside := (tensor < low) | (tensor > high)).any():
        again = cygrad.empty_like(tensor, requires_grad=False).normal_(mean, std, generator=generator)
        tensor.copy_(cygrad.where(outside, again, tensor))
    return tensor


def _rejected_uniform(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> Tensor:
    """A uniform number is kept with the probability density at it, relative to the highest between the bounds."""
    highest = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    pending = None
    while pending is None or pending.any():
        drawn = cygrad.empty_like(tensor, requires_grad=False).uniform_(a, b, generator=generator)
        tensor.copy_(drawn if pending is None else cygrad.where(pending, drawn, tensor))
        density = drawn.sub_(mean).div_(std).pow_(2).mul_(-0.5).sub_(highest)
        refused = cygrad.empty_like(density).uniform_(generator=generator).log_() > density
        pending = refused if pending is None else pending & refused
    return tensor


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Fill with `gain` times an orthogonal matrix, drawn uniformly; return the tensor.

    Saxe et al., "Exact solutions to the nonlinear dynamics of learning in deep linear neural networks" (2013).

    Parameters
    ----------
    tensor : Tensor
        Two dimensions or more; those behind the first count as one. Its rows are orthogonal, or its columns if there
        are fewer.
    gain : float
        Factor of all elements.
    generator : Generator, optional
        Where the numbers come from.

    Raises
    ------
    ValueError
        If it has fewer dimensions.
    """
    require_tensor("orthogonal_", "tensor", tensor)
    if tensor.dim() < 2:
        raise ValueError(f"Only tensors with 2 or more dimensions are supported, got {tensor.dim()}")
    if tensor.numel() == 0 or _skipped():
        return tensor
    rows = tensor.size(0)
    with cygrad.no_grad():
        drawn = tensor.detach().new_empty((rows, tensor.numel() // rows)).normal_(0, 1, generator=generator)
        wide = drawn.size(0) < drawn.size(1)
        q, r = cygrad.linalg.qr(drawn.t() if wide else drawn)
        q = q * r.diagonal().sign() * gain  # signs so that q is uniform: those of r are LAPACK's choice
        tensor.copy_((q.t() if wide else q).reshape(tensor.shape))
    return tensor


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
            tensor[cygrad.randperm(rows, device=tensor.device)[:zeros], column] = 0
    return tensor


def _deprecated(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function under the name that it had before it said that it writes in place."""
    new, old = function.__name__, function.__name__[:-1]

    def call(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.", FutureWarning, stacklevel=2
        )
        return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = old
    call.__doc__ = f"Deprecated name of `{new}`."
    return call


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)
