"""What the functions ask of their arguments."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from cygrad import Tensor
from cygrad.autograd._core import deliver


def require_tensor(function: str, argument: str, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{function}(): argument '{argument}' must be Tensor, not {type(value).__name__}")


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
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


def reduced(losses: Tensor, reduction: str) -> Tensor:
    return losses.mean() if reduction == "mean" else losses.sum() if reduction == "sum" else losses


def with_out(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function that takes the keyword argument `out`, a tensor that receives the result."""

    @functools.wraps(function)
    def call(*args: Any, out: Tensor | None = None, **kwargs: Any) -> Tensor:
        result = function(*args, **kwargs)
        return result if out is None else deliver(result, out, True)

    return call
