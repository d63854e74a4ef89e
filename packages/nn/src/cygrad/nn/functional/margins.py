"""Losses that ask for a margin, and distances."""

from __future__ import annotations

from collections.abc import Callable

import cygrad
from cygrad import Tensor
from cygrad.autograd._core import entitled, whole_batch
from cygrad.autograd.autocasting import autocasts
from cygrad.nn.functional.activation import logsigmoid
from cygrad.nn.functional.checks import allow_tensors, reduced, reduction_of, require_tensor, require_tensors

__all__ = [
    "cosine_embedding_loss",
    "cosine_similarity",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "normalize",
    "pairwise_distance",
    "pdist",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


# ---- distances ---------------------------------------------------------------------------------------------------
def normalize(
    input: Tensor, p: float = 2.0, dim: int | tuple[int, ...] = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """Return the input over its norm along a dimension.

    Parameters
    ----------
    input : Tensor
    p : float
        Order of the norm.
    dim : int or tuple of int
        Where the norm is taken.
    eps : float
        Smallest divisor.
    out : Tensor, optional
        Where the result is written.
    """
    require_tensor("normalize", "input", input)
    norm = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return input / norm if out is None else cygrad.div(input, norm, out=out)


@autocasts(None)
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Return the cosine of the angle between vectors.

    Parameters
    ----------
    x1, x2 : Tensor
        Shapes that broadcast; floating point.
    dim : int
        The dimension of the vectors.
    eps : float
        Smallest norm of a vector.

    Returns
    -------
    Tensor
        The common shape without `dim`.

    Raises
    ------
    RuntimeError
        If neither is floating point, or the shapes do not broadcast.
    """
    require_tensor("cosine_similarity", "x1", x1)
    require_tensor("cosine_similarity", "x2", x2)
    common = cygrad.promote_types(x1.dtype, x2.dtype)
    if not (common.is_floating_point or common.is_complex):
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {common}")
    x1, x2 = cygrad.broadcast_tensors(x1.to(common), x2.to(common))
    # Each is divided before the product: the squares of large vectors overflow.
    first, second = (x / x.norm(2, dim, keepdim=True).clamp_min(eps) for x in (x1, x2))
    return (first * second).sum(dim)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """Return the norm of ``x1 - x2 + eps`` along the last dimension.

    Parameters
    ----------
    x1, x2 : Tensor
        Shapes that broadcast.
    p : float
        Order of the norm.
    eps : float
        Keeps the gradient of equal vectors finite.
    keepdim : bool
        Keep the last dimension, with size 1.
    """
    require_tensor("pairwise_distance", "x1", x1)
    require_tensor("pairwise_distance", "x2", x2)
    return entitled((x1 - x2 + eps).norm(p, -1, keepdim=keepdim), "NormBackward1")


@autocasts(None)
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """Return the distances of all pairs of rows.

    Parameters
    ----------
    input : Tensor, shape (N, M)
        float32 or float64.
    p : float
        Order of the norm, not negative.

    Returns
    -------
    Tensor, shape (N * (N - 1) / 2,)
        Rows 0 and 1, 0 and 2, ..., N - 2 and N - 1.

    Raises
    ------
    RuntimeError
        If it is no matrix of floating point, or `p` is negative.
    """
    require_tensor("pdist", "input", input)
    if input.dim() != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.dim()}D")
    if not input.is_floating_point():
        raise RuntimeError(f"pdist only supports floating-point dtypes, got {input.dtype}")
    if not p >= 0:
        raise RuntimeError(f"pdist only supports non-negative p values, got {p}")
    rows = cygrad.triu_indices(input.shape[0], input.shape[0], 1, device=input.device)
    if input.shape[1] == 0:                  # also for the norms that no elements do not have
        return entitled(input.sum(1)[rows[0]], "PdistBackward0")
    return entitled((input[rows[0]] - input[rows[1]]).norm(p, 1), "PdistBackward0")


# ---- losses ------------------------------------------------------------------------------------------------------
def _check_dims(name: str, **tensors: Tensor) -> None:
    if len({t.dim() for t in tensors.values()}) > 1:
        sizes = ", ".join(f"{key}: {tuple(t.shape)}" for key, t in tensors.items())
        raise RuntimeError(f"{name} : All input tensors should have same dimension but got sizes: {sizes}")


@autocasts("float32")
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean of ``max(0, -target * (input1 - input2) + margin)``.

    Parameters
    ----------
    input1, input2 : Tensor
        Scores.
    target : Tensor
        1 where the first is to be ranked higher, -1 where the second is.
    margin : float
        By which they should differ.
    size_average, reduce, reduction
        See `mse_loss`.

    Raises
    ------
    RuntimeError
        If they have different numbers of dimensions.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    require_tensors("margin_ranking_loss", input1=input1, input2=input2, target=target)
    _check_dims("margin_ranking_loss", input1=input1, input2=input2, target=target)
    return reduced((-target * (input1 - input2) + margin).clamp_min(0), reduction)


@autocasts("float32")
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean of the distances of equals (target 1) and of what others (target -1) lack to a margin.

    Parameters
    ----------
    input : Tensor
        Distances.
    target : Tensor
        1 or -1.
    margin : float
        By which others should differ.
    size_average, reduce, reduction
        See `mse_loss`.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    require_tensors("hinge_embedding_loss", input=input, target=target)
    apart = cygrad.where(target == 1, 0, (margin - input).clamp_min(0))
    return reduced(apart + cygrad.where(target == -1, 0, input), reduction)


@autocasts("float32")
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean of ``1 - cos`` of equals (target 1) and of ``max(0, cos - margin)`` of others (target -1).

    Parameters
    ----------
    input1, input2 : Tensor, shape (N, D) or (D,)
        Vectors.
    target : Tensor, shape (N,) or ()
        1 or -1.
    margin : float
        Largest cosine of others that costs nothing.
    size_average, reduce, reduction
        See `mse_loss`.

    Raises
    ------
    RuntimeError
        If the shapes do not go together.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    require_tensors("cosine_embedding_loss", input1=input1, input2=input2, target=target)
    if target.dim() not in (0, 1):
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if input1.dim() != target.dim() + 1 or input2.dim() != target.dim() + 1:
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but found inputs with sizes "
            f"{list(input1.shape)} and {list(input2.shape)}."
        )
    epsilon = 1e-12  # inside the square root, so that the gradient of vectors of zeros is finite
    products = (input1 * input2).sum(-1)
    squares = ((input1 * input1).sum(-1) + epsilon) * ((input2 * input2).sum(-1) + epsilon)
    cosines = products / squares.sqrt()
    zeros = cygrad.zeros_like(cosines, requires_grad=False)
    together = cygrad.where(target == 1, 1 - cosines, zeros)
    others = target == cygrad.tensor(-1, device=target.device).to(target.dtype)       # bytes, too, hold a -1
    return reduced(together + cygrad.where(others, (cosines - margin).clamp_min(0), zeros), reduction)


@autocasts("float32")
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean of what the scores of the right classes lack to a margin over each other, over the classes.

    Parameters
    ----------
    input : Tensor, shape (N, C) or (C,)
        Scores.
    target : Tensor of int64, shape (N,) or ()
        The right classes.
    p : int
        1 or 2: the exponent.
    margin : float
        By which the right score should exceed each other.
    weight : Tensor, shape (C,), optional
        One factor for each class.
    size_average, reduce, reduction
        See `mse_loss`.

    Raises
    ------
    ValueError
        If `p` is another number.
    RuntimeError
        If a target is no class, or the shapes do not go together.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    require_tensors("multi_margin_loss", input=input, target=target)
    allow_tensors("multi_margin_loss", weight=weight)
    if p not in (1, 2):
        raise ValueError(f"only p == 1 and p == 2 supported, got {p}")
    scores = input.unsqueeze(0) if input.dim() < 2 else input
    classes = scores.shape[-1] if input.dim() else 1
    scores = scores.reshape(-1, classes) if input.dim() == 0 else scores
    if scores.dim() != 2 or classes == 0:
        raise RuntimeError(
            "multi_margin_loss: Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{tuple(input.shape)}"
        )
    if target.dim() > 1 or target.numel() != scores.shape[0]:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch "
            f"size). Expected target size {[scores.shape[0]]}, but got {list(target.shape)}. Input has shape "
            f"{list(input.shape)}."
        )
    if weight is not None and weight.dim() != 1:
        raise ValueError(f"weight must be one-dimensional, got shape {tuple(weight.shape)}")
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(f"inconsistent weight size, expected {classes} but got {list(weight.shape)}")
    right = target.reshape(-1, 1)
    seen = whole_batch(right)
    if seen.numel() and not (seen.min() >= 0 and seen.max() < classes):
        raise RuntimeError(f"multi_margin_loss: target out of range: classes are 0 to {classes - 1}")
    lacks = (margin - scores.gather(1, right) + scores).clamp_min(0)
    lacks = lacks if p == 1 else lacks * lacks
    if weight is not None:
        lacks = lacks * weight[right]
    own = cygrad.zeros_like(scores, dtype=cygrad.bool, requires_grad=False).scatter(1, right, True)
    losses = lacks.masked_fill(own, 0).sum(1) / classes
    return reduced(losses if input.dim() == 2 else losses.squeeze(0), reduction, "MultiMarginLossBackward0")


@autocasts("float32")
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean of what the scores of all right classes lack to a margin of 1 over all others, over the classes.

    Parameters
    ----------
    input : Tensor, shape (N, C) or (C,)
        Scores.
    target : Tensor of int64, shape of the input
        The right classes of each row, and -1 behind the last.
    size_average, reduce, reduction
        See `mse_loss`.

    Raises
    ------
    RuntimeError
        If a target is no class, or the shapes differ.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    require_tensors("multilabel_margin_loss", input=input, target=target)
    if target.dtype != cygrad.int64:
        raise RuntimeError(f"expected scalar type Long but found {target.dtype}")
    if target.shape != input.shape or input.dim() > 2:
        raise RuntimeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    scores, labels = (x.reshape(1, -1) if x.dim() < 2 else x for x in (input, target))
    classes = scores.shape[1]
    seen = whole_batch(labels)
    if seen.numel() and not (seen.min() >= -1 and seen.max() < classes):
        raise RuntimeError(f"argument #2 'target' is out of range: classes are 0 to {classes - 1}, -1 ends a row")
    used = (labels == -1).to(cygrad.int64).cumsum(1) == 0
    safe = labels.masked_fill(~used, 0)
    own = cygrad.zeros_like(scores, dtype=cygrad.int64, requires_grad=False)
    own = own.scatter_add(1, safe, used.to(cygrad.int64)) > 0
    lacks = (1 - scores.gather(1, safe).unsqueeze(2) + scores.unsqueeze(1)).clamp_min(0)
    losses = lacks.masked_fill(~used.unsqueeze(2) | own.unsqueeze(1), 0).sum((1, 2)) / classes
    return reduced(losses if input.dim() == 2 else losses.squeeze(0), reduction, "MultilabelMarginLossBackward0")


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean over classes of the cross entropy of each, yes or no.

    Parameters
    ----------
    input : Tensor, shape (..., C)
        Scores.
    target : Tensor, shape of the input
        0 or 1.
    weight : Tensor, shape (C,), optional
        One factor for each class.
    size_average, reduce, reduction
        See `mse_loss`.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    losses = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        losses = losses * weight
    losses = losses.mean(-1)
    return reduced(losses, reduction, "DivBackward0" if reduction == "none" else None)


@autocasts("float32")
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean of ``max(0, distance(anchor, positive) - distance(anchor, negative) + margin)``.

    Balntas et al., "Learning local feature descriptors with triplets and shallow convolutional neural networks" (2016).

    Parameters
    ----------
    anchor, positive, negative : Tensor, shape (N, D) or (D,)
        Vectors.
    margin : float
        By which the negatives should be further away.
    p, eps : float
        See `pairwise_distance`.
    swap : bool
        Take the distance from positive to negative where it is the smaller one.
    size_average, reduce, reduction
        See `mse_loss`.

    Raises
    ------
    RuntimeError
        If they have different numbers of dimensions.
    ValueError
        If the margin is not positive.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    return _triplet(anchor, positive, negative, lambda a, b: pairwise_distance(a, b, p, eps), margin, swap, reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Return `triplet_margin_loss` with a distance of the user's own, by default `pairwise_distance`."""
    reduction = reduction_of(None, None, reduction)
    return _triplet(anchor, positive, negative, distance_function or pairwise_distance, margin, swap, reduction)


def _triplet(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    distance: Callable[[Tensor, Tensor], Tensor],
    margin: float,
    swap: bool,
    reduction: str,
) -> Tensor:
    require_tensors("triplet_margin_loss", anchor=anchor, positive=positive, negative=negative)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.dim()}D, positive {positive.dim()}D, and negative {negative.dim()}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = cygrad.minimum(far, distance(positive, negative))
    return reduced((near - far + margin).clamp_min(0), reduction)
