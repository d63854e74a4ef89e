"""Checks of options that several optimizers share."""

from __future__ import annotations

from typing import Any

from cygrad import Tensor


def check_not_negative(name: str, value: Any) -> None:
    """ValueError if an option is negative or NaN."""
    if not value >= 0.0:
        raise ValueError(f"Invalid {name}: {value} (it must be at least 0)")


def check_rate(lr: Any) -> None:
    """ValueError if a learning rate is negative, NaN, or a tensor of several elements."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError(f"Tensor lr must be 1-element, got shape {tuple(lr.shape)}")
    check_not_negative("learning rate", lr)


def check_betas(betas: Any) -> tuple[float, float]:
    """The two betas as floats; ValueError if one is outside [0, 1)."""
    if isinstance(betas[0], Tensor) != isinstance(betas[1], Tensor):
        raise ValueError(f"betas must be either both floats or both Tensors, got {betas!r}")
    for i, beta in enumerate(betas):
        if isinstance(beta, Tensor) and beta.numel() != 1:
            raise ValueError(f"Tensor betas[{i}] must be 1-element, got shape {tuple(beta.shape)}")
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta} (it must be in [0, 1))")
    return float(betas[0]), float(betas[1])


def check_choices(foreach: bool | None, fused: bool | None, differentiable: bool, capturable: bool = False) -> None:
    """RuntimeError if an implementation is asked for that contradicts itself or does not exist."""
    if foreach and fused:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together")
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if capturable:
        raise RuntimeError("capturable=True is not supported: it is for graphs of CUDA, which are not here")
