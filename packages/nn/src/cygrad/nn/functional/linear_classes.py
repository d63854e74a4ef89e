"""A linear layer and the cross entropy of its results at once, without keeping all scores."""

from __future__ import annotations

import dataclasses
import math
import warnings

import cygrad
from cygrad import Tensor
from cygrad.nn.functional.checks import HALVES, reduction_of, require_tensor
from cygrad.nn.functional.classes import cross_entropy
from cygrad.nn.functional.products import linear

__all__ = ["LinearCrossEntropyOptions", "linear_cross_entropy"]

POLICIES = ("auto", "accurate", "balanced", "compact")


@dataclasses.dataclass(frozen=True, slots=True)
class LinearCrossEntropyOptions:
    """How `linear_cross_entropy` cuts a batch into chunks, whose scores are computed again for the gradients.

    So memory holds the scores of one chunk, never those of the batch. Gradients of every order work, as often as
    wanted.

    Parameters
    ----------
    allow_retain_graph : bool
        Accepted for PyTorch programs: it is always allowed.
    batch_chunk_size : int, optional
        Rows of a chunk.
    chunking_method : str, optional
        ``"aspect_ratio"``: chunks whose scores take about as much memory as the whole input; ``"aspect_ratio:N"``: 1/N
        of it. ``"auto"``: ``"aspect_ratio"`` for halves, else ``"aspect_ratio:2"``, unless `batch_chunk_size` is given.
    acc_policy : str
        ``"auto"``, ``"accurate"``, ``"balanced"`` or ``"compact"``; accepted for PyTorch programs: all are computed as
        ``"accurate"``.
    acc_dtype : dtype, optional
        In which the scores and losses of halves are computed: float32 by default with ``"auto"``.

    Raises
    ------
    ValueError
        If one has another value.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: cygrad.dtype | None = None

    def __post_init__(self) -> None:
        if self.acc_policy not in POLICIES:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if self.chunking_method not in (None, "auto", "aspect_ratio") and self._divisor() < 1:
            raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.acc_dtype not in (None, *HALVES, cygrad.float32, cygrad.float64):
            raise ValueError(
                "acc_dtype must be one of {None, torch.float16, torch.bfloat16, torch.float32, torch.float64}, got "
                f"{self.acc_dtype!r}"
            )

    def _divisor(self) -> int:
        """N of ``"aspect_ratio:N"``; 0 if it is something else."""
        name, _, number = str(self.chunking_method).partition(":")
        return int(number) if name == "aspect_ratio" and number.isdecimal() else 0

    def _rows(self, batch: int, features: int, classes: int, dtype: cygrad.dtype) -> int:
        """The rows of a chunk."""
        method, given = self.chunking_method, self.batch_chunk_size
        if method is None or (method == "auto" and given is not None):
            return max(1, batch if given is None else min(given, batch))
        divisor = 1 if method == "aspect_ratio" else self._divisor() or (1 if dtype in HALVES else 2)
        wanted = -(-batch // max(1, -(-classes // max(features, 1))))
        rows = min((1 << (wanted - 1).bit_length()) // divisor, batch) if wanted else batch
        if given is not None and min(given, batch) != rows:
            raise ValueError(
                f"batch_chunk_size (={given}) and chunking_method ('{method}') give different chunk sizes "
                f"({min(given, batch)} vs {rows}); pass only one."
            )
        return max(1, rows)

    def _precision(self, dtype: cygrad.dtype) -> cygrad.dtype:
        if self.acc_dtype is None:
            return cygrad.float32 if dtype in HALVES and self.acc_policy == "auto" else dtype
        if self.acc_dtype != dtype and not (dtype in HALVES and self.acc_dtype == cygrad.float32):
            raise RuntimeError(
                f"acc_dtype {self.acc_dtype} does not go with an input of {dtype}: only halves take another, float32"
            )
        return self.acc_dtype


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """Return ``cross_entropy(linear(input, linear_weight, linear_bias), target)``.

    Parameters
    ----------
    input : Tensor, shape (N, F) or (F,)
    linear_weight : Tensor, shape (C, F) or (C, d1, ..., F)
        With further dimensions, each place of them has a loss of its own.
    target : Tensor
        As `cross_entropy` takes it for scores of shape (N, C, d1, ...).
    linear_bias : Tensor, shape (C,) or (C, d1, ...), optional
    weight, reduction, label_smoothing
        See `cross_entropy`.
    ignore_index : int, optional
        A class index that counts for nothing; -100 by default.
    options : LinearCrossEntropyOptions, optional
        Compute chunks of the batch one after another, and their scores again for the gradients: for class indices, one
        loss a row and no smoothing. A warning says when that is not so, and all scores are computed at once.

    Raises
    ------
    RuntimeError
        If shapes or dtypes do not go together, or `ignore_index` is given with class probabilities.
    IndexError
        If a target is no class.
    """
    for name, value in (("input", input), ("linear_weight", linear_weight), ("target", target)):
        require_tensor("linear_cross_entropy", name, value)
    shape = _scores_shape(input, linear_weight, linear_bias)
    if target.shape == shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    ignored = -100 if ignore_index is None else ignore_index
    places = linear_weight.shape[1:-1]
    if options is not None and not places and not label_smoothing and target.dtype == cygrad.int64:
        return _chunked(input, linear_weight, target, linear_bias, weight, reduction, ignored, options)
    if options is not None:
        warnings.warn(
            "linear_cross_entropy: options are ignored, which want class indices of int64, no label_smoothing and a "
            f"weight of two dimensions; got target.dtype={target.dtype}, label_smoothing={label_smoothing} and a "
            f"weight of shape {tuple(linear_weight.shape)}",
            stacklevel=2,
        )
    rows = linear_weight.reshape(math.prod(linear_weight.shape[:-1]), linear_weight.shape[-1])
    scores = linear(input, rows, None if linear_bias is None else linear_bias.reshape(-1)).reshape(shape)
    return cross_entropy(
        scores, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=label_smoothing
    )


def _scores_shape(input: Tensor, linear_weight: Tensor, linear_bias: Tensor | None) -> tuple[int, ...]:
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}")
    if input.shape[-1] != linear_weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {linear_weight.shape[-1]}, respectively"
        )
    scores = tuple(linear_weight.shape[:-1])
    if linear_bias is not None and tuple(linear_bias.shape) != scores:
        raise RuntimeError(f"expected linear_bias shape {scores}, got {tuple(linear_bias.shape)}")
    if len(scores) > 1 and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, "
            f"(N, {input.shape[-1]}), got unbatched input with shape {tuple(input.shape)}"
        )
    return (*input.shape[:-1], *scores)


def _chunked(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    reduction: str,
    ignored: int,
    options: LinearCrossEntropyOptions,
) -> Tensor:
    from cygrad.utils.checkpoint import checkpoint

    reduction = reduction_of(None, None, reduction)
    rows, batched = (input, True) if input.dim() == 2 else (input.unsqueeze(0), False)
    targets = target if batched else target.reshape(1)
    if targets.shape != rows.shape[:1]:
        raise ValueError(
            f"Expected input batch_size ({rows.shape[0]}) to match target batch_size ({tuple(target.shape)})"
        )
    size = options._rows(rows.shape[0], rows.shape[1], linear_weight.shape[0], input.dtype)
    precision = options._precision(input.dtype)
    each = "none" if reduction == "none" else "sum"

    def losses(x: Tensor, w: Tensor, b: Tensor | None, y: Tensor) -> Tensor:
        scores = linear(x.to(precision), w.to(precision), None if b is None else b.to(precision))
        factors = None if weight is None else weight.to(precision)
        return cross_entropy(scores, y, factors, ignore_index=ignored, reduction=each)

    parts = [
        checkpoint(losses, x, linear_weight, linear_bias, y, use_reentrant=False)
        for x, y in zip(rows.split(size), targets.split(size), strict=True)
    ]
    if reduction == "none":
        result = cygrad.cat(parts)
        return (result if batched else result.squeeze(0)).to(input.dtype)
    total = sum(parts[1:], parts[0])
    if reduction == "mean":
        kept = targets[targets != ignored]
        total = total / (kept.numel() if weight is None else weight.to(precision).index_select(0, kept).sum())
    return total.to(input.dtype)
