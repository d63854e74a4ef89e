"""Losses as modules."""

from __future__ import annotations

import math
import warnings
from typing import Any

from cygrad import Tensor
from cygrad.nn import functional as F
from cygrad.nn.functional.checks import allow_tensors, reduction_of
from cygrad.nn.modules.linear import Linear
from cygrad.nn.modules.module import Module

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "LinearCrossEntropyLoss",
    "MSELoss",
    "NLLLoss",
    "NLLLoss2d",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
]


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


class SmoothL1Loss(_Loss):
    """The mean absolute error with a parabola near 0, see `cygrad.nn.functional.smooth_l1_loss`.

    Parameters
    ----------
    beta : float, default 1.0
        Width of the parabola.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(
            input,
            target,
            beta=self.beta,
            reduction=self.reduction,
        )


class HuberLoss(_Loss):
    """Half the squared error, going on as a straight line, see `cygrad.nn.functional.huber_loss`.

    Parameters
    ----------
    delta : float, default 1.0
        Where the line begins.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.

    Raises
    ------
    TypeError
        If `delta` is no number.
    """

    def __init__(
        self,
        reduction: str = "mean",
        delta: float = 1.0,
    ) -> None:
        super().__init__(reduction=reduction)
        if not isinstance(delta, (int, float)):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(
            input,
            target,
            delta=self.delta,
            reduction=self.reduction,
        )


class GaussianNLLLoss(_Loss):
    """The negative log-likelihood of normally distributed values, see `cygrad.nn.functional.gaussian_nll_loss`.

    Parameters
    ----------
    full : bool, default False
        Add the constant part.
    eps : float, default 1e-6
        Smallest variance.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def __init__(
        self,
        *,
        full: bool = False,
        eps: float = 1e-6,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor) -> Tensor:
        return F.gaussian_nll_loss(
            input,
            target,
            var,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class PoissonNLLLoss(_Loss):
    """The negative log-likelihood of Poisson distributed counts, see `cygrad.nn.functional.poisson_nll_loss`.

    Parameters
    ----------
    log_input : bool, default True
        The input is the logarithm of the rate.
    full : bool, default False
        Add Stirling's approximation of the constant part.
    eps : float, default 1e-8
        Added to a rate before its logarithm is taken.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class KLDivLoss(_Loss):
    """The Kullback-Leibler divergence, see `cygrad.nn.functional.kl_div`.

    Parameters
    ----------
    log_target : bool, default False
        The target is given as logarithms.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        # PyTorch takes any word here, and its functional form refuses what it does not know.
        super().__init__(size_average, reduce, "mean" if reduction == "batchmean" else reduction)
        self.reduction = reduction if size_average is None and reduce is None else self.reduction
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(
            input,
            target,
            log_target=self.log_target,
            reduction=self.reduction,
        )


class BCELoss(_WeightedLoss):
    """Cross entropy of probabilities of yes or no, see `cygrad.nn.functional.binary_cross_entropy`.

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
        return F.binary_cross_entropy(
            input,
            target,
            weight=self.weight,
            reduction=self.reduction,
        )


class BCEWithLogitsLoss(_WeightedLoss):
    """Cross entropy of scores of yes or no, see `cygrad.nn.functional.binary_cross_entropy_with_logits`.

    Parameters
    ----------
    weight : Tensor, optional
        Factors, see there.
    pos_weight : Tensor, optional
        Factors of the share of yes.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input,
            target,
            weight=self.weight,
            pos_weight=self.pos_weight,
            reduction=self.reduction,
        )


class SoftMarginLoss(_Loss):
    """The logistic loss of targets 1 and -1, see `cygrad.nn.functional.soft_margin_loss`.

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
        return F.soft_margin_loss(
            input,
            target,
            reduction=self.reduction,
        )


class CTCLoss(_Loss):
    """The loss of all alignments of labels with steps, see `cygrad.nn.functional.ctc_loss`.

    Parameters
    ----------
    blank : int, default 0
        The label of nothing.
    reduction : str
        ``"mean"``, ``"sum"`` or ``"none"``.
    zero_infinity : bool, default False
        Infinite losses become 0.
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor) -> Tensor:
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )


class NLLLoss2d(NLLLoss):
    """Deprecated name of `NLLLoss`."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        warnings.warn("`NLLLoss2d` has been deprecated: use `NLLLoss`, which is the same", FutureWarning, stacklevel=2)
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class LinearCrossEntropyLoss(_WeightedLoss):
    """A linear layer and the cross entropy of its results, see `cygrad.nn.functional.linear_cross_entropy`.

    Parameters
    ----------
    in_features : int
        Size of the last dimension of the input.
    num_classes : int
        Number of classes, C.
    out_features : tuple of int
        Further dimensions d1, ...: the scores have the shape (N, C, d1, ...).
    bias : bool, default False
        Whether the layer has a bias.
    device, dtype : optional
        Of its parameters.
    reduction, weight, ignore_index, label_smoothing, options
        See there.

    Attributes
    ----------
    linear : Linear
        The layer, of ``C * d1 * ...`` results.

    Raises
    ------
    RuntimeError
        If `weight` or `label_smoothing` do not fit.
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: F.LinearCrossEntropyOptions | None = None,
    ) -> None:
        allow_tensors("LinearCrossEntropyLoss", weight=weight)
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        super().__init__(weight, None, None, reduction)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        rows = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, rows, bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        scores = (self.num_classes, *self.out_features)
        weight, bias = self.linear.weight, self.linear.bias
        return F.linear_cross_entropy(
            input,
            weight.reshape(*scores, weight.shape[-1]),
            target,
            linear_bias=None if bias is None else bias.reshape(scores),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
            f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
