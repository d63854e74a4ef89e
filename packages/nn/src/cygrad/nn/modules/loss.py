"""Losses as modules."""

from __future__ import annotations

from cygrad import Tensor
from cygrad.nn import functional as F
from cygrad.nn.functional.checks import reduction_of
from cygrad.nn.modules.module import Module

__all__ = ["CrossEntropyLoss", "L1Loss", "MSELoss", "NLLLoss"]


class _Loss(Module):
    """A module that turns predictions and targets into a loss.

    `size_average` and `reduce` are PyTorch's old way to say `reduction`.
    """

    reduction: str

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction_of(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """The mean absolute error, see `cygrad.nn.functional.l1_loss`."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """The mean squared error, see `cygrad.nn.functional.mse_loss`."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class NLLLoss(_WeightedLoss):
    """The negative log-likelihood, see `cygrad.nn.functional.nll_loss`.

    Parameters
    ----------
    weight : Tensor, shape (C,), optional
        One factor for each class.
    ignore_index : int, default -100
        Targets of this value count for nothing.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class CrossEntropyLoss(_WeightedLoss):
    """Cross entropy between scores and classes, see `cygrad.nn.functional.cross_entropy`.

    Parameters
    ----------
    weight : Tensor, shape (C,), optional
        One factor for each class.
    ignore_index : int, default -100
        Index targets of this value count for nothing.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.
    label_smoothing : float in [0, 1], default 0
        Share of the target that is spread evenly over all classes.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )
