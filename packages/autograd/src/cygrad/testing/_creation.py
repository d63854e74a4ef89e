"""`make_tensor`: random numbers between bounds, in every dtype and layout."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import cygrad
from cygrad import Tensor


def make_tensor(
    *shape: int | Sequence[int],
    dtype: cygrad.dtype,
    device: str | cygrad.device,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: object | None = None,
) -> Tensor:
    """A tensor of numbers drawn uniformly from ``[low, high)``; with the same seed the numbers are PyTorch's.

    Parameters
    ----------
    shape
        Sizes, or one sequence of them.
    dtype, device
        Those of the tensor.
    low, high
        Bounds, cut to what the dtype can hold. Without them: 0 and 2 for bool, -9 and 10 for integers (0 and 10 for
        unsigned ones), -9 and 9 for floating and complex dtypes, whose parts are drawn each by itself.
    requires_grad
        Whether operations on the tensor are recorded; for floating and complex dtypes.
    noncontiguous
        Whether the tensor shall be every other element of a larger one (if it has two elements or more).
    exclude_zero
        Whether zeros give way to 1, or to the smallest normal number of a floating dtype.
    memory_format
        Layout of the tensor, in place of `noncontiguous`.

    Raises
    ------
    ValueError
        If `low` is not below `high`, one of them is NaN, the dtype holds none of the numbers between them, a dtype
        without gradients is to require one, or both `noncontiguous` and `memory_format` are given.
    TypeError
        If `dtype` is no dtype.
    """
    if len(shape) == 1 and isinstance(shape[0], Sequence):
        shape = shape[0]
    shape = tuple(shape)
    if not isinstance(dtype, cygrad.dtype):
        raise TypeError(f"make_tensor: dtype has to be a cygrad.dtype, not {type(dtype).__name__}")
    if noncontiguous and memory_format is not None:
        raise ValueError("The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
                         f"{noncontiguous=} and {memory_format=}")
    real = dtype.is_floating_point or dtype.is_complex
    if requires_grad and not real:
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype=}")
    low, high = _bounds(low, high, dtype, real)
    noncontiguous = noncontiguous and math.prod(shape) > 1
    drawn = (*shape[:-1], 2 * shape[-1]) if noncontiguous else shape
    if real:
        result = cygrad.empty(drawn, dtype=dtype, device=device)
        _fill(cygrad.view_as_real(result) if dtype.is_complex else result, low, high)
    else:
        result = cygrad.randint(low, high, drawn, dtype=dtype, device=device)
    if noncontiguous:
        result = result[..., 1::2]      # from 1, so that the offset is not 0 either
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = cygrad.finfo(dtype).tiny if real else 1
    return result.requires_grad_() if requires_grad else result


def _bounds(low, high, dtype, real):
    if dtype is cygrad.bool:
        lowest, end, defaults = 0, 2, (0, 2)
    elif real:
        info = cygrad.finfo(dtype)
        lowest, end, defaults = info.min, info.max, (-9, 9)
    else:
        info = cygrad.iinfo(dtype)
        # randint takes int64, and so never draws the last number of it
        lowest, end, defaults = info.min, min(info.max + 1, 2**63 - 1), (-9, 10)
    low, high = (default if given is None else given for given, default in zip((low, high), defaults, strict=True))
    if low != low or high != high:
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    if low == high and real:
        warnings.warn("make_tensor: `low` equals `high`; cygrad.full makes a tensor of one number", FutureWarning,
                      stacklevel=3)
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high < lowest or low >= end:
        raise ValueError(f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} only "
                         f"supports [{lowest}, {end})")
    low, high = (min(max(bound, lowest), end) for bound in (low, high))
    return (low, high) if real else (math.ceil(low), math.ceil(high))       # no number below `low`, all below `high`


def _fill(tensor, low, high):
    if high - low >= cygrad.finfo(tensor.dtype).max:    # more than uniform_ can span
        tensor.uniform_(low / 2, high / 2).mul_(2)
    else:
        tensor.uniform_(low, high)
