"""Losses of scores against classes."""

from __future__ import annotations

import cygrad
from cygrad import Tensor
from cygrad.autograd import _core
from cygrad.autograd.autocasting import autocasts
from cygrad.nn.functional.checks import reduced, reduction_of, require_tensor

__all__ = ["cross_entropy", "nll_loss"]


@autocasts("float32")
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
    require_tensor("nll_loss", "input", input)
    require_tensor("nll_loss", "target", target)
    if weight is not None:
        require_tensor("nll_loss", "weight", weight)
    reduction = reduction_of(size_average, reduce, reduction)
    return _ClassTargets(input, target, weight, ignore_index).nll(input, reduction)


class _ClassTargets:
    """Class indices of the scores that they belong to, and, once `pick` was called, which of them count.

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
        self.classes = input.shape[self.dim]
        _check_class_weight(weight, self.classes)
        if target.dtype == cygrad.uint8:
            target = target.long()
        elif target.dtype != cygrad.int64:
            raise RuntimeError(f"class indices must be torch.int64 or torch.uint8, got {target.dtype}")
        self.weight, self.ignore_index = weight, ignore_index
        self.safe, self.keep, self.weights = target, None, None
        if 0 <= ignore_index < self.classes:
            self._leave_out_ignored()

    def _leave_out_ignored(self) -> None:
        ignored = self.safe == self.ignore_index
        self.keep = ~ignored
        self.safe = self.safe.masked_fill(ignored, 0)

    def _gathered(self, scores: Tensor) -> Tensor | None:
        try:
            return scores.gather(self.dim, self.safe.unsqueeze(self.dim))
        except RuntimeError:
            return None

    def pick(self, scores: Tensor) -> Tensor:
        """The score of each target. Targets are read once, by `gather`, unless it finds some out of range."""
        picked = self._gathered(scores)
        if picked is None and self.keep is None:
            self._leave_out_ignored()
            picked = self._gathered(scores)
        if picked is None:
            _check_bounds(self.safe, self.classes, self.ignore_index)
            picked = scores.gather(self.dim, self.safe.unsqueeze(self.dim))  # what else is wrong says so itself
        if self.weight is not None:
            self.weights = self.weight.index_select(0, self.safe.reshape(-1)).reshape(self.safe.shape)
        if self.keep is not None:
            kept = self.keep.to(scores.dtype)
            self.weights = kept if self.weights is None else self.weights * kept
        return picked.squeeze(self.dim)

    def nll(self, log_probabilities: Tensor, reduction: str) -> Tensor:
        picked = self.pick(log_probabilities)
        title = "NllLossBackward0" if log_probabilities.dim() < 3 else "NllLoss2DBackward0"
        if self.weights is None:
            return _core.entitled(-reduced(picked, reduction), title)
        losses = -picked * self.weights
        if self.keep is not None:
            losses = losses.masked_fill(~self.keep, 0)  # a weight of 0 does not cancel an infinite loss
        return _core.entitled(self.mean(losses) if reduction == "mean" else reduced(losses, reduction), title)

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
    wrong = [t for t in _core.whole_batch(target).reshape(-1).tolist() if not 0 <= t < classes]
    if wrong:
        raise IndexError(
            f"Target {wrong[0]} is out of bounds: classes are 0 to {classes - 1}, and {ignore_index} is ignored"
        )


@autocasts("float32")
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
    require_tensor("cross_entropy", "input", input)
    require_tensor("cross_entropy", "target", target)
    if weight is not None:
        require_tensor("cross_entropy", "weight", weight)
    reduction = reduction_of(size_average, reduce, reduction)
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
    smooth = targets.mean(smooth) if reduction == "mean" else reduced(smooth, reduction)
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
    return _core.entitled(total / (input.numel() / classes), "DivBackward1") if reduction == "mean" else total
