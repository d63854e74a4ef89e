"""The operations of neural networks as functions, without parameters of their own."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.autograd import _core

__all__ = [
    "cross_entropy",
    "dropout",
    "gelu",
    "l1_loss",
    "linear",
    "log_softmax",
    "mse_loss",
    "nll_loss",
    "pad",
    "relu",
    "relu_",
    "sigmoid",
    "softmax",
    "softmin",
    "tanh",
]


def _require_tensor(function: str, argument: str, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{function}(): argument '{argument}' must be Tensor, not {type(value).__name__}")


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``input @ weight.T + bias``.

    Parameters
    ----------
    input : Tensor, shape (*, in_features)
    weight : Tensor, shape (out_features, in_features) or (in_features,)
    bias : Tensor, shape (out_features,), optional

    Returns
    -------
    Tensor, shape (*, out_features)

    Raises
    ------
    RuntimeError
        If the sizes or the dtypes do not go together.
    """
    _require_tensor("linear", "input", input)
    dims = input.dim()
    if bias is not None and weight.dim() == 2:
        if dims == 2:
            return cygrad.addmm(bias, input, weight.t())
        if dims > 2 and input.is_contiguous():
            return cygrad.addmm(bias, input.flatten(0, -2), weight.t()).view(*input.shape[:-1], weight.shape[0])
    if dims == 0:
        raise RuntimeError("linear needs an input of at least one dimension, got a 0-d input")
    product = input.matmul(weight.t())
    return product if bias is None else product + bias


# ---- activations -------------------------------------------------------------------------------------------------
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Put more elements at both ends of the last dimensions.

    Parameters
    ----------
    input : Tensor
    pad : sequence of int
        How many before and behind in the last dimension, then in the one before it, and so on; negative ones cut off.
    mode : {"constant"}
        All have one value.
    value : number, optional
        0 by default.

    Raises
    ------
    NotImplementedError
        The mode is another one.
    """
    if mode != "constant":
        raise NotImplementedError(f"pad(): the mode {mode!r} is not there; the modes are: 'constant'")
    return cygrad.constant_pad_nd(input, tuple(pad), 0 if value is None else value)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``max(input, 0)``, element by element; with `inplace` written over the input."""
    _require_tensor("relu", "input", input)
    return input.relu_() if inplace else input.relu()


def relu_(input: Tensor) -> Tensor:
    """Set negative elements to 0, and return the input."""
    return input.relu_()


def tanh(input: Tensor) -> Tensor:
    """Return the hyperbolic tangent, element by element."""
    return input.tanh()


def sigmoid(input: Tensor) -> Tensor:
    """Return ``1 / (1 + exp(-input))``, element by element."""
    return input.sigmoid()


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
    dim = _softmax_dim("softmax", input.dim()) if dim is None else dim
    return input.softmax(dim, dtype=dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Return ``softmax(-input)``; the arguments are those of `softmax`."""
    dim = _softmax_dim("softmin", input.dim()) if dim is None else dim
    return (-input).softmax(dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Return ``log(softmax(input))`` without overflow; the arguments are those of `softmax`."""
    dim = _softmax_dim("log_softmax", input.dim()) if dim is None else dim
    return input.log_softmax(dim, dtype=dtype)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set elements to 0 at random and scale the others so that the mean stays.

    Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting" (2014).

    Parameters
    ----------
    input : Tensor
    p : float
        Probability of an element to become 0.
    training : bool
        When False, the input is returned as it is.
    inplace : bool
        Write over the input.

    Raises
    ------
    ValueError
        If `p` is no probability.
    """
    _require_tensor("dropout", "input", input)
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if p == 0 or not training or input.numel() == 0:
        return input
    if p == 1:
        return input.mul_(0.0) if inplace else input * 0.0
    noise = cygrad.empty_like(input, requires_grad=False).bernoulli_(1 - p).div_(1 - p)
    return input.mul_(noise) if inplace else input * noise


# ---- losses ------------------------------------------------------------------------------------------------------
def _reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction that the arguments ask for; the two flags are PyTorch's old way to say it."""
    if size_average is not None or reduce is not None:
        if reduce is False:
            reduction = "none"
        else:
            reduction = "sum" if size_average is False else "mean"
        warnings.warn(f"size_average and reduce are deprecated: use reduction={reduction!r}", stacklevel=3)
    elif reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction!r} is not a valid value for reduction: use 'none', 'mean' or 'sum'")
    return reduction


def _reduced(losses: Tensor, reduction: str) -> Tensor:
    return losses.mean() if reduction == "mean" else losses.sum() if reduction == "sum" else losses


def _difference(name: str, input: Tensor, target: Tensor) -> Tensor:
    if target.shape != input.shape:
        warnings.warn(
            f"{name}: the target has shape {target.shape}, the input {input.shape}; they are broadcast against each "
            "other, which is rarely what is meant",
            stacklevel=3,
        )
    difference = input - target
    if not difference.is_floating_point():
        raise NotImplementedError(f"{name} is not implemented for {input.dtype} and {target.dtype}")
    return difference


def _weighted(name: str, errors: Tensor, weight: Tensor | None, input: Tensor, reduction: str) -> Tensor:
    if weight is None:
        return _reduced(errors, reduction)
    if weight.shape != input.shape:
        raise ValueError(f"{name}: the weight has shape {weight.shape}, the input {input.shape}: they must be equal")
    errors = errors * weight
    return errors.sum() / weight.sum() if reduction == "mean" else _reduced(errors, reduction)


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
    reduction = _reduction(size_average, reduce, reduction)
    return _weighted("mse_loss", _difference("mse_loss", input, target).square(), weight, input, reduction)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return the mean of ``|input - target|``; arguments and errors are those of `mse_loss`."""
    reduction = _reduction(size_average, reduce, reduction)
    return _weighted("l1_loss", _difference("l1_loss", input, target).abs(), weight, input, reduction)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log-likelihood of class indices.

    Parameters
    ----------
    input : Tensor, shape (N, C), (C,) or (N, C, d1, ...)
        Log-probabilities, as `log_softmax` gives them.
    target : Tensor of int64 or uint8, shape (N,), () or (N, d1, ...)
        The right classes, each in 0 .. C-1 or `ignore_index`.
    weight : Tensor, shape (C,), optional
        One factor for each class.
    size_average, reduce : bool, optional
        Deprecated, use `reduction`.
    ignore_index : int
        A target of this value counts for nothing.
    reduction : str
        ``"mean"`` (weighted by `weight`), ``"sum"`` or ``"none"``.

    Raises
    ------
    IndexError
        If a target is no class.
    ValueError
        If the batch sizes differ or the reduction is unknown.
    RuntimeError
        If the shapes or dtypes do not go together otherwise.
    """
    _require_tensor("nll_loss", "input", input)
    _require_tensor("nll_loss", "target", target)
    reduction = _reduction(size_average, reduce, reduction)
    return _ClassTargets(input, target, weight, ignore_index).nll(input, reduction)


class _ClassTargets:
    """Class indices, checked against the scores that they belong to.

    Attributes
    ----------
    safe : Tensor
        The targets, 0 in place of those that are ignored.
    keep : Tensor or None
        Which targets count; None when all do.
    weights : Tensor or None
        The factor of each target, 0 where it is ignored; None when all are 1.
    """

    def __init__(self, input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int) -> None:
        self.dim = _class_dim(input, target)
        if input.dim() == 1:
            target = target.reshape(())
        classes = input.shape[self.dim]
        _check_class_weight(weight, classes)
        if target.dtype == cygrad.uint8:
            target = target.long()
        elif target.dtype != cygrad.int64:
            raise RuntimeError(f"class indices must be torch.int64 or torch.uint8, got {target.dtype}")
        self.safe, self.keep = target, None
        all_classes = target.numel() == 0 or (target.min().item() >= 0 and target.max().item() < classes)
        if not all_classes or 0 <= ignore_index < classes:
            self.keep = target != ignore_index
            self.safe = target.masked_fill(target == ignore_index, 0)
            _check_bounds(self.safe, classes, ignore_index)
        self.weights = None
        if weight is not None:
            self.weights = weight.index_select(0, self.safe.reshape(-1)).reshape(self.safe.shape)
        if self.keep is not None:
            kept = self.keep.to(input.dtype)
            self.weights = kept if self.weights is None else self.weights * kept

    def nll(self, log_probabilities: Tensor, reduction: str) -> Tensor:
        picked = log_probabilities.gather(self.dim, self.safe.unsqueeze(self.dim)).squeeze(self.dim)
        if self.weights is None:
            return -_reduced(picked, reduction)
        losses = -picked * self.weights
        if self.keep is not None:
            losses = losses.masked_fill(~self.keep, 0)  # a weight of 0 does not cancel an infinite loss
        return self.mean(losses) if reduction == "mean" else _reduced(losses, reduction)

    def mean(self, losses: Tensor) -> Tensor:
        return losses.mean() if self.weights is None else losses.sum() / self.weights.sum()


def _class_dim(input: Tensor, target: Tensor) -> int:
    """The dimension that holds the classes, if the shapes go together."""
    scores, classes = tuple(input.shape), tuple(target.shape)
    if len(scores) == 1 and classes in ((), (1,)):
        return 0
    if len(scores) > 1 and classes == (scores[0], *scores[2:]):
        return 1
    shapes = f"got input of shape {scores} and target of shape {classes}"
    if not scores:
        raise ValueError(f"the input needs one dimension or more, {shapes}")
    if len(scores) == 1:
        raise ValueError(f"one row of class scores takes one target, {shapes}")
    batch = classes[0] if classes else 1
    if batch != scores[0]:
        raise ValueError(f"Expected input batch_size ({scores[0]}) to match target batch_size ({batch}): {shapes}")
    raise RuntimeError(f"Expected target size {[scores[0], *scores[2:]]}: {shapes}")


def _check_class_weight(weight: Tensor | None, classes: int) -> None:
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(f"weight must have shape ({classes},), one factor for each class, got {tuple(weight.shape)}")


def _check_bounds(target: Tensor, classes: int, ignore_index: int) -> None:
    wrong = [t for t in target.reshape(-1).tolist() if not 0 <= t < classes]
    if wrong:
        raise IndexError(
            f"Target {wrong[0]} is out of bounds: classes are 0 to {classes - 1}, and {ignore_index} is ignored"
        )


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the cross entropy between scores and classes, ``nll_loss(log_softmax(input), target)``.

    Parameters
    ----------
    input : Tensor, shape (N, C), (C,) or (N, C, d1, ...)
        Unnormalised scores.
    target : Tensor
        Class indices (int64 or uint8) of shape (N,), () or (N, d1, ...), each in 0 .. C-1 or `ignore_index`; or class
        probabilities (floating point) in the shape of the input.
    weight : Tensor, shape (C,), optional
        One factor for each class.
    size_average, reduce : bool, optional
        Deprecated, use `reduction`.
    ignore_index : int
        An index target of this value counts for nothing.
    reduction : str
        ``"mean"`` (weighted by `weight` for index targets), ``"sum"`` or ``"none"``.
    label_smoothing : float in [0, 1]
        Share of the target that is spread evenly over all classes (Szegedy et al., "Rethinking the Inception
        architecture", 2015).

    Raises
    ------
    IndexError
        If a target is no class.
    ValueError
        If the batch sizes differ or the reduction is unknown.
    RuntimeError
        If shapes, dtypes or the smoothing do not fit otherwise.
    """
    _require_tensor("cross_entropy", "input", input)
    _require_tensor("cross_entropy", "target", target)
    reduction = _reduction(size_average, reduce, reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0, got {label_smoothing}")
    if not input.is_floating_point():
        raise NotImplementedError(f"cross_entropy is not implemented for scores of {input.dtype}")
    if target.shape == input.shape:
        return _soft_cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)
    if target.is_floating_point() and target.dim() == input.dim():
        raise RuntimeError(
            f"class probabilities must have the shape of the input, {tuple(input.shape)}, got {tuple(target.shape)}"
        )
    targets = _ClassTargets(input, target, weight, ignore_index)
    log_probabilities = input.log_softmax(targets.dim)
    nll = targets.nll(log_probabilities, reduction)
    if label_smoothing == 0.0:
        return nll
    spread = log_probabilities if weight is None else log_probabilities * _along(weight, targets.dim, input.dim())
    smooth = -spread.sum(targets.dim)
    if targets.keep is not None:
        smooth = smooth.masked_fill(~targets.keep, 0)
    smooth = targets.mean(smooth) if reduction == "mean" else _reduced(smooth, reduction)
    return (1 - label_smoothing) * nll + smooth * (label_smoothing / input.shape[targets.dim])


def _along(weight: Tensor, dim: int, dims: int) -> Tensor:
    """One factor for each class, shaped to broadcast along the class dimension."""
    return weight.view(*(-1 if d == dim else 1 for d in range(dims)))


def _soft_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str, label_smoothing: float
) -> Tensor:
    if not target.is_floating_point():
        raise RuntimeError(f"class probabilities must be floating point, got {target.dtype}")
    if ignore_index >= 0:
        raise RuntimeError(f"ignore_index {ignore_index} has no meaning for class probabilities")
    if input.dim() == 0:
        raise ValueError("the input needs one dimension or more, got a 0-d input")
    dim = 0 if input.dim() == 1 else 1
    classes = input.shape[dim]
    _check_class_weight(weight, classes)
    if label_smoothing > 0:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    products = input.log_softmax(dim) * target
    if weight is not None:
        products = products * _along(weight, dim, input.dim())
    if reduction == "none":
        return -products.sum(dim)
    total = -products.sum()
    return total / (input.numel() / classes) if reduction == "mean" else total
