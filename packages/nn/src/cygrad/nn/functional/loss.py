"""Losses of numbers against numbers."""

from __future__ import annotations

import warnings

from cygrad import Tensor
from cygrad.nn.functional.checks import reduced, reduction_of, require_tensor

__all__ = ["l1_loss", "mse_loss"]


def _difference(name: str, input: Tensor, target: Tensor) -> Tensor:
    require_tensor(name, "input", input)
    require_tensor(name, "target", target)
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
        return reduced(errors, reduction)
    require_tensor(name, "weight", weight)
    if weight.shape != input.shape:
        raise ValueError(f"{name}: the weight has shape {weight.shape}, the input {input.shape}: they must be equal")
    errors = errors * weight
    return errors.sum() / weight.sum() if reduction == "mean" else reduced(errors, reduction)


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
    reduction = reduction_of(size_average, reduce, reduction)
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
    reduction = reduction_of(size_average, reduce, reduction)
    return _weighted("l1_loss", _difference("l1_loss", input, target).abs(), weight, input, reduction)
