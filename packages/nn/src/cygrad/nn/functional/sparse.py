"""Rows of a table, looked up by number."""

from __future__ import annotations

from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.autograd import Function
from cygrad.autograd._core import entitled, whole_batch, with_room
from cygrad.nn.functional.checks import HALVES, allow_tensors, require_tensor

__all__ = ["embedding", "embedding_bag", "one_hot"]


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Return rows of zeros with a 1 at the place that each number names.

    Parameters
    ----------
    tensor : Tensor of int64
        Numbers of classes.
    num_classes : int
        Length of the rows; -1 for one more than the largest number.

    Returns
    -------
    Tensor of int64, shape (*, num_classes)

    Raises
    ------
    RuntimeError
        If a number is negative or no class, or there is none and `num_classes` is not given.
    """
    require_tensor("one_hot", "tensor", tensor)
    if tensor.dtype != cygrad.int64:
        raise RuntimeError(f"one_hot is only applicable to index tensor of type LongTensor, got {tensor.dtype}")
    if tensor.numel() == 0:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return cygrad.zeros(*tensor.shape, num_classes, dtype=cygrad.int64, device=tensor.device)
    seen = whole_batch(tensor)
    if seen.min() < 0:
        raise RuntimeError(f"Class values must be non-negative, got {seen.min().item()}.")
    largest = int(seen.max())
    if num_classes == -1:
        num_classes = largest + 1
    elif num_classes <= largest:
        raise RuntimeError(f"Class values must be smaller than num_classes, {num_classes}, got {largest}.")
    zeros = with_room(cygrad.zeros(*tensor.shape, num_classes, dtype=cygrad.int64, device=tensor.device), tensor)
    return zeros.scatter_(-1, tensor.unsqueeze(-1), 1)


class _Rows(Function):
    """Rows of a table whose gradients leave one row out, or are divided by how often a row was taken."""

    generate_vmap_rule = True

    @staticmethod
    def forward(ctx: Any, weight: Tensor, index: Tensor, padding: int | None, by_frequency: bool) -> Tensor:
        ctx.save_for_backward(index)
        ctx.save_for_forward(index)
        ctx.rows, ctx.padding, ctx.by_frequency = weight.shape[0], padding, by_frequency
        return weight.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        (index,) = ctx.saved_tensors
        if ctx.by_frequency:
            counts = index.bincount(minlength=ctx.rows)
            grad = grad / counts[index].unsqueeze(-1).to(grad.dtype)
        if ctx.padding is not None:
            grad = grad.masked_fill((index == ctx.padding).unsqueeze(-1), 0)
        zeros = cygrad.zeros(ctx.rows, grad.shape[-1], dtype=grad.dtype, device=grad.device)
        return zeros.index_add(0, index, grad), None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: None) -> Tensor:
        (index,) = ctx.saved_tensors
        return tangent.index_select(0, index)


def _rows(weight: Tensor, index: Tensor, padding: int | None, by_frequency: bool) -> Tensor:
    """The rows of `weight` that a flat index names."""
    if padding is None and not by_frequency:
        return weight.index_select(0, index)
    return _Rows.apply(weight, index, padding, by_frequency)


def _check(name: str, input: Tensor, weight: Tensor, padding_idx: int | None, sparse: bool) -> int | None:
    """The padding row counted from the start, if everything goes together."""
    require_tensor(name, "input", input)
    require_tensor(name, "weight", weight)
    if weight.dim() != 2:
        raise RuntimeError(f"'weight' must be 2-D, got shape {tuple(weight.shape)}")
    if input.dtype not in (cygrad.int64, cygrad.int32):
        raise RuntimeError(f"{name}: Expected tensor of indices to be Long or Int; but got {input.dtype} instead")
    if sparse and weight.requires_grad and cygrad.is_grad_enabled():
        raise NotImplementedError(f"{name}: sparse gradients are not supported, leave sparse=False")
    rows = weight.shape[0]
    seen = whole_batch(input)
    if seen.numel() and not (seen.min() >= 0 and seen.max() < rows):
        wrong = int(seen[(seen < 0) | (seen >= rows)][0])
        if name == "embedding_bag":
            raise RuntimeError(f"embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {wrong}")
        if rows == 0:
            raise RuntimeError(f"embedding: index {wrong} of a weight without rows, of shape {tuple(weight.shape)}")
        raise IndexError(f"index out of range in self: {wrong}, there are rows 0 to {rows - 1}")
    if padding_idx is None:
        return None
    return padding_idx + rows if padding_idx < 0 else padding_idx


def _renorm(weight: Tensor, index: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale the rows that are looked up down to a largest norm, in place and without a record."""
    with cygrad.no_grad():
        used = index.unique()
        rows = weight[used]
        norms = rows.norm(norm_type, 1, keepdim=True)
        weight[used] = cygrad.where(norms > max_norm, rows * (max_norm / (norms + 1e-7)), rows)


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return the rows of a table that indices name.

    Parameters
    ----------
    input : Tensor of int64 or int32
        Numbers of rows.
    weight : Tensor, shape (V, D)
        The table.
    padding_idx : int, optional
        A row that gets no gradient.
    max_norm : float, optional
        Rows that are looked up and have a larger norm are scaled down, in the table itself.
    norm_type : float
        Order of this norm.
    scale_grad_by_freq : bool
        Divide the gradient of a row by how often it was looked up.
    sparse : bool
        Must be False where a gradient is wanted: gradients are dense.

    Returns
    -------
    Tensor, shape (*, D)

    Raises
    ------
    IndexError
        If there is no such row; RuntimeError if there is none at all.
    AssertionError
        If `padding_idx` is none of the rows.
    RuntimeError
        If the dtype of the indices is another, or the table is no matrix.
    """
    require_tensor("embedding", "weight", weight)
    if padding_idx is not None and not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise AssertionError(f"Padding_idx must be within num_embeddings, {weight.shape[0]}, got {padding_idx}")
    padding = _check("embedding", input, weight, padding_idx, sparse)
    flat = input.reshape(-1)
    if max_norm is not None:
        _renorm(weight, flat, max_norm, norm_type)
    rows = _rows(weight, flat, padding, scale_grad_by_freq)
    return entitled(rows.view(*input.shape, weight.shape[1]), "EmbeddingBackward0")


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Return the sum, mean or maximum of rows of a table, for each bag of indices.

    Parameters
    ----------
    input : Tensor of int64 or int32, shape (B, N) or (N,)
        Numbers of rows: one bag in each row of it, or bags one behind the other.
    weight : Tensor, shape (V, D)
        The table.
    offsets : Tensor of ints, shape (B,), optional
        Where in a flat `input` each bag begins.
    max_norm, norm_type, scale_grad_by_freq, sparse
        See `embedding`.
    mode : str
        ``"sum"``, ``"mean"`` or ``"max"``. A bag of nothing gives zeros.
    per_sample_weights : Tensor, shape of `input`, optional
        Factors of the rows, for sums.
    include_last_offset : bool
        The last offset is the end of the last bag.
    padding_idx : int, optional
        Indices of this value belong to no bag.

    Returns
    -------
    Tensor, shape (B, D)

    Raises
    ------
    ValueError
        If the mode is unknown, or shapes do not go together.
    RuntimeError
        If there is no such row; if the offsets do not begin at 0 or reach beyond the indices.
    """
    require_tensor("embedding_bag", "input", input)
    require_tensor("embedding_bag", "weight", weight)
    allow_tensors("embedding_bag", offsets=offsets, per_sample_weights=per_sample_weights)
    _check_bags(input, offsets, per_sample_weights, mode, scale_grad_by_freq)
    if padding_idx is not None and not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, -{weight.shape[0]} through {weight.shape[0] - 1}, "
            f"but got {padding_idx}"
        )
    padding = _check("embedding_bag", input, weight, padding_idx, sparse)
    flat = input.reshape(-1).long()
    if max_norm is not None:                 # of every row that is named, also beyond the bags
        _renorm(weight, flat, max_norm, norm_type)
    starts = _starts(input, offsets, include_last_offset)
    bags = starts.shape[0]
    owner = cygrad.bucketize(cygrad.arange(flat.shape[0], device=flat.device), starts, right=True) - 1
    factors = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    if include_last_offset and offsets is not None:
        end = int(offsets[-1])
        flat, owner, factors = flat[:end], owner[:end], None if factors is None else factors[:end]
    if padding is not None:
        kept = flat != padding
        flat, owner = flat[kept], owner[kept]
        factors = None if factors is None else factors[kept]
    rows = _rows(weight, flat, None, scale_grad_by_freq)
    if mode == "max":
        return entitled(_largest(rows, owner, bags), "EmbeddingBagBackward0")
    if rows.dtype in HALVES:
        rows = rows.float()                  # sums of halves are rounded once
    if factors is not None:
        rows = rows * factors.unsqueeze(-1)
    sums = cygrad.zeros(bags, weight.shape[1], dtype=rows.dtype, device=rows.device).index_add(0, owner, rows)
    if mode == "mean":
        sums = sums / owner.bincount(minlength=bags).clamp_min(1).unsqueeze(-1).to(sums.dtype)
    return entitled(sums.to(weight.dtype), "EmbeddingBagBackward0")


def _check_bags(
    input: Tensor, offsets: Tensor | None, factors: Tensor | None, mode: str, scale_grad_by_freq: bool
) -> None:
    if input.dim() == 2 and offsets is not None:
        raise ValueError(
            "if input is 2D, then offsets has to be None, as input is treated as a mini-batch of fixed length "
            f"sequences. However, found offsets of type {type(offsets)}"
        )
    if input.dim() == 1 and (offsets is None or offsets.dim() != 1):
        got = "None" if offsets is None else f"shape {tuple(offsets.shape)}"
        raise ValueError(f"offsets has to be a 1D Tensor but got {got}")
    if input.dim() not in (1, 2):
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"mode has to be one of sum, mean or max, got {mode!r}")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if factors is not None:
        if factors.shape != input.shape:
            raise ValueError(
                f"embedding_bag: If per_sample_weights ({factors.shape}) is not None, then it must have the same shape "
                f"as the input ({input.shape})"
            )
        if mode != "sum":
            raise NotImplementedError(
                "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
                f"(got mode={mode!r})"
            )


def _starts(input: Tensor, offsets: Tensor | None, include_last_offset: bool) -> Tensor:
    """Where each bag begins."""
    if offsets is None:
        return cygrad.arange(input.shape[0], device=input.device) * input.shape[1]
    starts = offsets.long()
    if include_last_offset:
        if starts.shape[0] == 0:
            raise RuntimeError("include_last_offset: number of offsets should be at least 1")
        starts = starts[:-1]
    if starts.shape[0]:
        seen, given = whole_batch(starts), whole_batch(offsets)
        if (seen[..., 0] != 0).any():
            raise RuntimeError(
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. "
                f"However, got {seen[..., 0].tolist()}"
            )
        if (given[..., -1] > input.shape[0]).any():
            raise RuntimeError(
                f"offsets[-1] can not be greater than input's length {input.shape[0]} but got offsets[-1] of "
                f"{given[..., -1].tolist()}"
            )
        if (seen[..., 1:] < seen[..., :-1]).any():
            raise RuntimeError(f"offsets have to be in ascending order, got {given.tolist()}")
    return starts


def _largest(rows: Tensor, owner: Tensor, bags: int) -> Tensor:
    """The maximum of each bag; of equals, the gradient goes to the first."""
    count, width = rows.shape
    if count == 0:
        return cygrad.zeros(bags, width, dtype=rows.dtype, device=rows.device) + rows.sum()
    to = owner.unsqueeze(-1).expand(count, width)
    values = rows.detach()
    least = cygrad.full((bags, width), float("-inf"), dtype=rows.dtype, device=rows.device)
    tops = least.scatter_reduce(0, to, values, "amax")
    places = cygrad.arange(count, device=rows.device).unsqueeze(-1).expand(count, width)
    tops = tops.gather(0, to)
    places = places.masked_fill((values != tops) & ~(values.isnan() & tops.isnan()), count)
    beyond = cygrad.full((bags, width), count, dtype=cygrad.int64, device=rows.device)
    first = beyond.scatter_reduce(0, to, places, "amin")
    empty = first == count
    return rows.gather(0, first.masked_fill(empty, 0)).masked_fill(empty, 0)
