"""Losses of numbers against numbers."""

from __future__ import annotations

import math
import warnings

from cygrad import Tensor, empty_like, full_like
from cygrad.autograd._core import _autocasts_away, anywhere, row_call, whole_batch
from cygrad.autograd.autocasting import autocasts
from cygrad.autograd.strict_mode import is_strict_enabled, refuse
from cygrad.nn.functional.activation import logsigmoid
from cygrad.nn.functional.checks import (
    allow_tensors,
    halves_in_float32,
    outside,
    reduced,
    reduction_of,
    require_tensor,
)

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "gaussian_nll_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
]


def _warn_of_broadcast(name: str, input: Tensor, target: Tensor) -> None:
    require_tensor(name, "input", input)
    require_tensor(name, "target", target)
    if target.shape != input.shape:
        if is_strict_enabled():
            refuse(
                "broadcast",
                f"{name}: the target has shape {list(target.shape)}, the input {list(input.shape)}. Broadcast against "
                "each other they give a loss of other pairs than are meant: reshape() or squeeze() one of them.",
            )
        warnings.warn(
            f"{name}: the target has shape {target.shape}, the input {input.shape}; they are broadcast against each "
            "other, which is rarely what is meant",
            stacklevel=outside(),
        )


def _order(input: Tensor) -> list[int] | None:
    """The dimensions in the order of their strides where the layout of `input` is another one than row-major."""
    if input.is_contiguous():
        return None
    strides = empty_like(input.detach()).stride()
    order = sorted(range(input.dim()), key=lambda d: -strides[d])
    return None if order == list(range(input.dim())) else order


def _check_floating(name: str, input: Tensor, target: Tensor) -> None:
    if not (input.is_floating_point() or target.is_floating_point()):
        raise NotImplementedError(f"{name} is not implemented for {input.dtype} and {target.dtype}")


def _difference(input: Tensor, target: Tensor, name: str) -> Tensor:
    _check_floating(name, input, target)
    return input - target


def _weighted(
    name: str, errors: Tensor, weight: Tensor | None, input: Tensor, reduction: str, title: str | None
) -> Tensor:
    if weight is None:
        return reduced(errors, reduction, title)
    require_tensor(name, "weight", weight)
    if weight.shape != input.shape:
        raise ValueError(f"{name}: the weight has shape {weight.shape}, the input {input.shape}: they must be equal")
    errors = errors * weight
    return errors.sum() / weight.sum() if reduction == "mean" else reduced(errors, reduction)


@autocasts("float32")
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return the mean of ``(input - target)**2``.

    Parameters
    ----------
    input, target : Tensor
        Floating point. Shapes that differ are broadcast, with a warning.
    size_average, reduce : bool, optional
        Deprecated, use `reduction`.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.
    weight : Tensor, optional
        One factor for each element, in the shape of the input; the mean becomes a weighted mean.

    Raises
    ------
    ValueError
        If the reduction is unknown or the weight has another shape.
    RuntimeError
        If the shapes do not broadcast.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    _warn_of_broadcast("mse_loss", input, target)
    squares = _difference(input, target, "mse_loss").square()
    return _weighted("mse_loss", squares, weight, input, reduction, "MseLossBackward0")


@autocasts("float32")
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return the mean of ``|input - target|``; arguments and errors are those of `mse_loss`."""
    reduction = reduction_of(size_average, reduce, reduction)
    _warn_of_broadcast("l1_loss", input, target)
    if not (input.is_complex() or target.is_complex()):
        _check_floating("l1_loss", input, target)
    return _weighted("l1_loss", (input - target).abs(), weight, input, reduction, None)


@autocasts("float32")
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Return the mean of ``|input - target|``, rounded off to a parabola near 0.

    Girshick, "Fast R-CNN" (2015).

    Parameters
    ----------
    input, target, size_average, reduce, reduction
        See `mse_loss`.
    beta : float
        Width of the parabola; 0 gives `l1_loss`.

    Raises
    ------
    RuntimeError
        If `beta` is negative.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    _warn_of_broadcast("smooth_l1_loss", input, target)
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta, got {beta}")
    if beta == 0:
        return reduced(_difference(input, target, "smooth_l1_loss").abs(), reduction)
    _check_floating("smooth_l1_loss", input, target)
    return reduced(row_call("smooth_l1", (input, target), (beta,)), reduction, "SmoothL1LossBackward0")


@autocasts("float32")
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Return the mean of half the squared difference, which goes on as a straight line from `delta` on.

    Huber, "Robust estimation of a location parameter" (1964).

    Parameters
    ----------
    input, target, reduction, weight
        See `mse_loss`.
    delta : float
        Where the line begins.

    Raises
    ------
    RuntimeError
        If `delta` is not positive.
    """
    reduction = reduction_of(None, None, reduction)
    _warn_of_broadcast("huber_loss", input, target)
    if delta <= 0:
        raise RuntimeError(f"huber_loss does not support non-positive values for delta, got {delta}")
    _check_floating("huber_loss", input, target)
    losses = row_call("huber", (input, target), (delta,))
    return _weighted("huber_loss", losses, weight, input, reduction, "HuberLossBackward0")


@autocasts("float32")
@halves_in_float32
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean cross entropy of probabilities of yes or no. Logarithms are cut at -100.

    Parameters
    ----------
    input : Tensor
        Probabilities.
    target : Tensor, shape and dtype of the input
        Probabilities as well.
    weight : Tensor, optional
        Factors that broadcast to the shape of the input.
    size_average, reduce, reduction
        See `mse_loss`.

    Raises
    ------
    ValueError
        If the shapes differ.
    RuntimeError
        If something is no probability, or the dtypes differ.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    require_tensor("binary_cross_entropy", "input", input)
    require_tensor("binary_cross_entropy", "target", target)
    allow_tensors("binary_cross_entropy", weight=weight)
    if _autocasts_away((input, target), {}):
        raise RuntimeError(
            "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: probabilities near "
            "0 and 1 are rounded to them in float16. Use binary_cross_entropy_with_logits or BCEWithLogitsLoss, which "
            "take what stands before the sigmoid, or compute the loss with autocast switched off"
        )
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is deprecated. "
            "Please ensure they have the same size."
        )
    if input.dtype != target.dtype:
        raise RuntimeError(f"binary_cross_entropy: the input is {input.dtype}, the target {target.dtype}")
    for name, values in (("input", input), ("target", target)):
        values = whole_batch(values)
        if values.numel() and not (values.amin() >= 0 and values.amax() <= 1):
            raise RuntimeError(f"all elements of {name} should be between 0 and 1")
    order = _order(input)
    if order is None:
        losses = row_call("binary_cross_entropy", (input, target))
    else:
        losses = row_call("binary_cross_entropy", (input.permute(order), target.permute(order)))
        losses = losses.permute([order.index(d) for d in range(input.dim())])
    losses = losses if weight is None else losses * weight.expand(losses.shape)
    return reduced(losses, reduction, "BinaryCrossEntropyBackward0")


@autocasts("float32")
@halves_in_float32
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Return `binary_cross_entropy` of ``sigmoid(input)``, without overflow.

    Parameters
    ----------
    input : Tensor
        Scores.
    target : Tensor, shape of the input
        Probabilities.
    weight : Tensor, optional
        Factors that broadcast to the shape of the input.
    size_average, reduce, reduction
        See `mse_loss`.
    pos_weight : Tensor, optional
        Factors of the share of yes, which broadcast to the shape of the input.

    Raises
    ------
    ValueError
        If the shapes differ.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    require_tensor("binary_cross_entropy_with_logits", "input", input)
    require_tensor("binary_cross_entropy_with_logits", "target", target)
    if target.shape != input.shape:
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    if pos_weight is None and (reduction != "none" or input.stride() == target.stride()):
        losses = row_call("binary_cross_entropy_with_logits", (input, target))
    else:  # in the layout of the target, as PyTorch's
        yes = logsigmoid(input)
        losses = (1 - target) * input - (yes if pos_weight is None else ((pos_weight - 1) * target + 1) * yes)
    losses = losses if weight is None else losses * weight
    return reduced(losses, reduction, "BinaryCrossEntropyWithLogitsBackward0")


@autocasts("float32")
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Return the Kullback-Leibler divergence, ``target * (log(target) - input)``.

    Parameters
    ----------
    input : Tensor
        Log-probabilities.
    target : Tensor
        Probabilities, or log-probabilities with `log_target`.
    size_average, reduce : bool, optional
        Deprecated, use `reduction`.
    reduction : str
        ``"batchmean"`` (the mathematical value: the sum over the batch size), ``"sum"``, ``"none"``, or ``"mean"`` over
        all elements.
    log_target : bool
        See `target`.

    Raises
    ------
    ValueError
        If the reduction is unknown.
    """
    require_tensor("kl_div", "input", input)
    require_tensor("kl_div", "target", target)
    per_batch = reduction == "batchmean"
    reduction = reduction_of(size_average, reduce, "sum" if per_batch else reduction)
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size; 'batchmean' divides "
            "by the batch size only, which is the mathematical definition",
            stacklevel=outside(),
        )
    losses = target.exp() * (target - input) if log_target else target.xlogy(target) - target * input
    total = reduced(losses, reduction)
    return total / input.shape[0] if per_batch and input.dim() else total


@autocasts("float32")
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean of ``log(1 + exp(-target * input))`` for targets 1 and -1; see `mse_loss` for the arguments."""
    require_tensor("soft_margin_loss", "input", input)
    require_tensor("soft_margin_loss", "target", target)
    reduction = reduction_of(size_average, reduce, reduction)
    return reduced(-logsigmoid(target * input), reduction, "SoftMarginLossBackward0")


@autocasts("float32")
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log-likelihood of counts that are Poisson distributed.

    Parameters
    ----------
    input : Tensor
        The logarithm of the rate, or the rate without `log_input`.
    target : Tensor
        Counts.
    log_input : bool
        See `input`.
    full : bool
        Add Stirling's approximation of ``log(target!)``, for targets above 1.
    size_average, reduce, reduction
        See `mse_loss`.
    eps : float
        Added to a rate before its logarithm is taken.

    Raises
    ------
    ValueError
        If the reduction is unknown.
    """
    require_tensor("poisson_nll_loss", "input", input)
    require_tensor("poisson_nll_loss", "target", target)
    reduction = reduction_of(size_average, reduce, reduction)
    losses = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        losses = losses + stirling.masked_fill(target <= 1, 0)
    return reduced(losses, reduction)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log-likelihood of values that are normally distributed.

    Nix and Weigend, "Estimating the mean and variance of the target probability distribution" (1994).

    Parameters
    ----------
    input : Tensor
        Means.
    target : Tensor
        Values.
    var : Tensor or float
        Variances: in the shape of the input, without its last dimension, or with a last dimension of 1.
    full : bool
        Add the constant ``log(2 * pi) / 2``.
    eps : float
        Smallest variance; where it is taken, the variance gets the gradient as if it were its own.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.

    Raises
    ------
    ValueError
        If a variance is negative, has another shape, or the reduction is unknown.
    """
    require_tensor("gaussian_nll_loss", "input", input)
    require_tensor("gaussian_nll_loss", "target", target)
    if isinstance(var, (int, float)):
        if var < 0:
            raise ValueError(f"var has negative entry/entries: {var}")
        var = full_like(input, var, requires_grad=False)
    elif anywhere(var < 0):
        raise ValueError("var has negative entry/entries")
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif not (input.dim() == var.dim() and input.shape[:-1] == var.shape[:-1] and var.shape[-1] == 1):
            raise ValueError(f"var is of incorrect size: {tuple(var.shape)} for an input of {tuple(input.shape)}")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid: use 'none', 'mean' or 'sum'")
    var = var + (var.detach().clamp(min=eps) - var.detach())
    losses = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    return reduced(losses, reduction)
