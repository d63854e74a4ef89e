"""Losses that ask for a margin, and distances, as modules."""

from __future__ import annotations

from collections.abc import Callable

from cygrad import Tensor
from cygrad.nn import functional as F
from cygrad.nn.modules.loss import _Loss, _WeightedLoss
from cygrad.nn.modules.module import Module

__all__ = [
    "CosineEmbeddingLoss",
    "CosineSimilarity",
    "HingeEmbeddingLoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "PairwiseDistance",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]


class CosineSimilarity(Module):
    """The cosine of the angle between vectors, see `cygrad.nn.functional.cosine_similarity`.

    Parameters
    ----------
    dim : int, default 1
        The dimension of the vectors.
    eps : float, default 1e-8
        Smallest norm of a vector.
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The norm of the difference of vectors, see `cygrad.nn.functional.pairwise_distance`.

    Parameters
    ----------
    p : float, default 2
        Order of the norm.
    eps : float, default 1e-6
        Added to the difference.
    keepdim : bool, default False
        Keep the last dimension, with size 1.
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class MarginRankingLoss(_Loss):
    """What the better of two scores lacks to a margin, see `cygrad.nn.functional.margin_ranking_loss`.

    Parameters
    ----------
    margin : float, default 0.0
        By which they should differ.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(
            input1,
            input2,
            target,
            margin=self.margin,
            reduction=self.reduction,
        )


class HingeEmbeddingLoss(_Loss):
    """Distances of equals, and what others lack to a margin, see `cygrad.nn.functional.hinge_embedding_loss`.

    Parameters
    ----------
    margin : float, default 1.0
        By which others should differ.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(
            input,
            target,
            margin=self.margin,
            reduction=self.reduction,
        )


class CosineEmbeddingLoss(_Loss):
    """Angles of equals, and what others lack to one, see `cygrad.nn.functional.cosine_embedding_loss`.

    Parameters
    ----------
    margin : float, default 0.0
        Largest cosine of others that costs nothing.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(
            input1,
            input2,
            target,
            margin=self.margin,
            reduction=self.reduction,
        )


class MultiMarginLoss(_WeightedLoss):
    """What the right class lacks to a margin over each other, see `cygrad.nn.functional.multi_margin_loss`.

    Parameters
    ----------
    p : int, default 1
        1 or 2: the exponent.
    margin : float, default 1.0
        By which the right score should exceed each other.
    weight : Tensor, optional
        Factors, see there.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError(f"only p == 1 and p == 2 supported, got {p}")
        if weight is not None and weight.dim() != 1:
            raise ValueError(f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.dim()}D instead")
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(
            input,
            target,
            p=self.p,
            margin=self.margin,
            weight=self.weight,
            reduction=self.reduction,
        )


class MultiLabelMarginLoss(_Loss):
    """What all right classes lack to a margin over all others, see `cygrad.nn.functional.multilabel_margin_loss`.

    Parameters
    ----------
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(
            input,
            target,
            reduction=self.reduction,
        )


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Cross entropy of each class, yes or no, see `cygrad.nn.functional.multilabel_soft_margin_loss`.

    Parameters
    ----------
    weight : Tensor, optional
        Factors, see there.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(
            input,
            target,
            weight=self.weight,
            reduction=self.reduction,
        )


class TripletMarginLoss(_Loss):
    """What negatives lack to being further away than positives by a margin.

    See `cygrad.nn.functional.triplet_margin_loss`.

    Parameters
    ----------
    margin : float, default 1.0
        By which they should be further away.
    p : float, default 2.0
        Order of the norm.
    eps : float, default 1e-6
        Keeps the gradient of equals finite.
    swap : bool, default False
        Take the distance from positive to negative where it is smaller.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead")
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """`TripletMarginLoss` with a distance of the user's own.

    See `cygrad.nn.functional.triplet_margin_with_distance_loss`.

    Parameters
    ----------
    distance_function : callable, optional
        By default `PairwiseDistance`.
    margin : float, default 1.0
        By which negatives should be further away.
    swap : bool, default False
        Take the distance from positive to negative where it is smaller.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead"
            )
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
