"""Nonlinearities."""

from __future__ import annotations

import warnings
from typing import Any

import cygrad
from cygrad import Tensor, contiguous_format, empty, empty_like, float64, ones_like, zeros_like
from cygrad import bool as bool_
from cygrad.autograd import _core
from cygrad.autograd._core import row_call
from cygrad.autograd.autocasting import autocasts
from cygrad.nn.functional.checks import require_tensor, with_out

__all__ = [
    "celu",
    "celu_",
    "elu",
    "elu_",
    "gelu",
    "glu",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "leaky_relu",
    "leaky_relu_",
    "log_softmax",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
]


def _row(name: str, input: Tensor, inplace: bool, *attributes: float) -> Tensor:
    """A row of the op table, written over the input or not."""
    return row_call(name, (input,), attributes, input if inplace else None)


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


@with_out
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
        return _row("gelu_tanh", input, False)
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


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Return the input between 0 and 6, element by element; with `inplace` written over the input."""
    return hardtanh(input, 0.0, 6.0, inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Return the input, and `negative_slope` times it where it is negative.

    Maas et al., "Rectifier nonlinearities improve neural network acoustic models" (2013).

    Parameters
    ----------
    input : Tensor
        Floating point.
    negative_slope : float
    inplace : bool
        Write over the input.
    """
    return _row("leaky_relu", input, inplace, negative_slope)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """`leaky_relu`, written over the input."""
    return leaky_relu(input, negative_slope, True)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return the input, and ``alpha * (exp(input) - 1)`` where it is negative.

    Clevert et al., "Fast and accurate deep network learning by exponential linear units" (2016).

    Parameters
    ----------
    input : Tensor
        Floating point.
    alpha : float
    inplace : bool
        Write over the input.
    """
    return _row("elu", input, inplace, alpha)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`elu`, written over the input."""
    return elu(input, alpha, True)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `elu` with the scales that keep mean 0 and variance 1.

    Klambauer et al., "Self-normalizing neural networks" (2017).

    Parameters
    ----------
    input : Tensor
        Floating point.
    inplace : bool
        Write over the input.
    """
    return _row("selu", input, inplace)


def selu_(input: Tensor) -> Tensor:
    """`selu`, written over the input."""
    return selu(input, True)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return the input, and ``alpha * (exp(input / alpha) - 1)`` where it is negative.

    Barron, "Continuously differentiable exponential linear units" (2017).

    Parameters
    ----------
    input : Tensor
        Floating point.
    alpha : float
        Not 0.
    inplace : bool
        Write over the input.

    Raises
    ------
    RuntimeError
        If `alpha` is 0.
    """
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    result = _row("celu", input, inplace, alpha)
    return result if inplace else _core.entitled(result, "CeluBackward0")


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`celu`, written over the input."""
    return celu(input, alpha, True)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``input * sigmoid(input)``, element by element.

    Elfwing et al., "Sigmoid-weighted linear units for neural network function approximation" (2018).

    Parameters
    ----------
    input : Tensor
        Floating point or complex.
    inplace : bool
        Write over the input.
    """
    require_tensor("silu", "input", input)
    if input.is_complex():
        return input.copy_(input * input.sigmoid()) if inplace else input * input.sigmoid()
    return _row("silu", input, inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``input * tanh(softplus(input))``, element by element.

    Misra, "Mish: a self regularized non-monotonic activation function" (2020).

    Parameters
    ----------
    input : Tensor
        Floating point.
    inplace : bool
        Write over the input.
    """
    return _row("mish", input, inplace)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Return the first half of the input times the sigmoid of the second half.

    Dauphin et al., "Language modeling with gated convolutional networks" (2017).

    Parameters
    ----------
    input : Tensor
        Of at least one dimension.
    dim : int
        The dimension that is halved.

    Raises
    ------
    RuntimeError
        If its size is odd, or the input is 0-d.
    """
    require_tensor("glu", "input", input)
    if input.dim() == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    size = input.shape[dim]
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {size}")
    first, second = input.narrow(dim, 0, size // 2), input.narrow(dim, size // 2, size // 2)
    return _core.entitled(first * second.sigmoid(), "GluBackward0")


@autocasts("low")
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Return the input, and `weight` times it where it is negative.

    He et al., "Delving deep into rectifiers" (2015).

    Parameters
    ----------
    input : Tensor
        Floating point.
    weight : Tensor, shape (C,), (1,) or ()
        One slope for all, or one for each channel, which is the second dimension of the input.

    Raises
    ------
    RuntimeError
        If the number of slopes is neither 1 nor that of the channels, or the dtypes differ.
    """
    require_tensor("prelu", "input", input)
    require_tensor("prelu", "weight", weight)
    if input.dtype != weight.dtype:
        raise RuntimeError(f"prelu: Type promoting not supported. Got {input.dtype} and {weight.dtype}")
    if weight.numel() != 1:
        if input.dim() == 0:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = input.shape[1] if input.dim() > 1 else 1
        if channels != weight.numel():
            raise RuntimeError(
                "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{weight.numel()}, and channel size = {channels}."
            )
    if weight.dim() > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.dim()}")
    if input.dim() != 1 or weight.numel() != 1:
        weight = weight.view([weight.numel() if d == 1 else 1 for d in range(input.dim())])
    return _core.entitled(row_call("prelu", (input, weight)), "PreluKernelBackward0")


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """Return the input, and where it is not positive a random share of it.

    Xu et al., "Empirical evaluation of rectified activations in convolutional network" (2015).

    Parameters
    ----------
    input : Tensor
        Floating point.
    lower, upper : float
        The share is uniform between them.
    training : bool
        When False, the share is the mean of the two.
    inplace : bool
        Write over the input.

    Raises
    ------
    RuntimeError
        If `lower` exceeds `upper`, or one is not finite.
    """
    require_tensor("rrelu", "input", input)
    if not (abs(lower) < float("inf") and abs(upper) < float("inf")):
        raise RuntimeError(f"rrelu: lower and upper bounds must be finite, got {lower} and {upper}")
    if lower > upper:
        raise RuntimeError(f"Lower bound should be less than or equal to the upper bound, got {lower} and {upper}")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    shares = ones_like(input, memory_format=contiguous_format, requires_grad=False)
    fall = input.detach() <= 0
    if _core.innermost_level() is not None:      # how many are drawn must not depend on the example
        drawn = _core.room_to_draw(shares, "rrelu").uniform_(lower, upper)
        shares = cygrad.where(fall, drawn, shares)
        return input.mul_(shares) if inplace else _core.entitled(shares * input, "RreluWithNoiseBackward0")
    # One double for each element that needs one, in row-major order: PyTorch's numbers from the same seed.
    drawn = empty(int(fall.sum()), dtype=float64, device=input.device).uniform_(lower, upper)
    shares[fall] = drawn.to(input.dtype)
    # Row-major, as the shares.
    return input.mul_(shares) if inplace else _core.entitled(shares * input, "RreluWithNoiseBackward0")


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """`rrelu`, written over the input."""
    return rrelu(input, lower, upper, training, True)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Return the input between two bounds, element by element. The gradient at the bounds is 0.

    Parameters
    ----------
    input : Tensor
        Not bool.
    min_val, max_val : float
        The bounds.
    inplace : bool
        Write over the input.

    Raises
    ------
    ValueError
        If `min_val` is larger than `max_val`.
    """
    require_tensor("hardtanh", "input", input)
    if min_val > max_val:
        raise ValueError(f"min_val cannot be greater than max_val, got {min_val} and {max_val}")
    if not input.is_floating_point():
        if input.dtype == bool_ or input.is_complex():
            raise RuntimeError(f"hardtanh: inputs of {input.dtype} are not supported")
        return input.clamp_(int(min_val), int(max_val)) if inplace else input.clamp(int(min_val), int(max_val))
    return _row("hardtanh", input, inplace, min_val, max_val)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`hardtanh`, written over the input."""
    return hardtanh(input, min_val, max_val, True)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``(input + 3) / 6`` between 0 and 1; with `inplace` written over the input.

    Howard et al., "Searching for MobileNetV3" (2019).
    """
    return _row("hardsigmoid", input, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``input * hardsigmoid(input)``; with `inplace` written over the input.

    Howard et al., "Searching for MobileNetV3" (2019).
    """
    return _row("hardswish", input, inplace)


@with_out
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Return the input, and 0 where its magnitude is at most `lambd`."""
    return _row("hardshrink", input, False, lambd)


@with_out
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Return the input moved towards 0 by `lambd`, which must not be negative (RuntimeError)."""
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    return _row("softshrink", input, False, lambd)


@autocasts(None)
@with_out
def softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """Return ``log(1 + exp(beta * input)) / beta``, element by element.

    Parameters
    ----------
    input : Tensor
        Floating point.
    beta : float
    threshold : float
        Where ``beta * input`` is larger, the input itself is returned.
    """
    return _row("softplus", input, False, beta, threshold)


def softsign(input: Tensor) -> Tensor:
    """Return ``input / (1 + |input|)``, element by element."""
    require_tensor("softsign", "input", input)
    return input / (input.abs() + 1)


def tanhshrink(input: Tensor) -> Tensor:
    """Return ``input - tanh(input)``, element by element."""
    require_tensor("tanhshrink", "input", input)
    return input - input.tanh()


@with_out
def logsigmoid(input: Tensor) -> Tensor:
    """Return ``log(sigmoid(input))`` without overflow, element by element."""
    return _row("logsigmoid", input, False)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Return the input, and `value` where it is at most `threshold`.

    Parameters
    ----------
    input : Tensor
        Not bool.
    threshold, value : float
    inplace : bool
        Write over the input.
    """
    return _row("threshold", input, inplace, threshold, value)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """`threshold`, written over the input."""
    return _row("threshold", input, True, threshold, value)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Draw a category at random, nearly or with a straight-through gradient.

    Jang et al., "Categorical reparameterization with Gumbel-softmax" (2017); Maddison et al., "The concrete
    distribution" (2017).

    Parameters
    ----------
    logits : Tensor
        Unnormalised log-probabilities.
    tau : float
        Temperature: the smaller, the nearer the result is to one category.
    hard : bool
        The result is one category exactly; its gradient is that of the nearly drawn one.
    eps : float
        Not used.
    dim : int
        The dimension of the categories.

    Returns
    -------
    Tensor, shape of `logits`
    """
    noise = -empty_like(logits, memory_format=contiguous_format, requires_grad=False).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    one = zeros_like(logits, memory_format=contiguous_format, requires_grad=False)
    one = one.scatter_(dim, soft.argmax(dim, keepdim=True), 1.0)
    return one - soft.detach() + soft
