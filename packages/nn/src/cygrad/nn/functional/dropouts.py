"""Elements set to 0 at random."""

from __future__ import annotations

import math
import warnings

from cygrad import Tensor
from cygrad.autograd import _core
from cygrad.nn.functional.checks import require_tensor

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set elements to 0 at random and scale the others so that the mean stays.

    Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting" (2014).

    Parameters
    ----------
    input : Tensor
    p : float
        Probability of an element to become 0.
    training : bool
        When False, the input is returned as it is.
    inplace : bool
        Write over the input.

    Raises
    ------
    ValueError
        If `p` is no probability.
    """
    require_tensor("dropout", "input", input)
    _check_probability(p)
    if p == 0 or not training or input.numel() == 0:
        return input
    if p == 1:
        return input.mul_(0.0) if inplace else input * 0.0
    noise = _core.room_to_draw(input, "dropout").bernoulli_(1 - p).div_(1 - p)
    return input.mul_(noise) if inplace else input * noise


def _check_probability(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _per_channel(input: Tensor) -> Tensor:
    """Memory for one number a channel, shaped to broadcast."""
    if input.dim() < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return _core.room_to_draw(input.new_empty([*input.shape[:2], *(1 for _ in input.shape[2:])]), "dropout")


def channel_dropout(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    """`dropout` of whole channels, the second dimension."""
    if p == 0 or not training or input.numel() == 0:
        return input
    if p == 1:
        return input.mul_(0.0) if inplace else input * 0.0
    noise = _per_channel(input).bernoulli_(1 - p).div_(1 - p)
    return input.mul_(noise) if inplace else input * noise


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of sequences: shape (N, C, L) or (C, L)."""
    require_tensor("dropout1d", "input", input)
    _check_probability(p)
    if input.dim() not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input. It drops channels of inputs "
            "with 1 spatial dimension, a channel dimension, and an optional batch dimension."
        )
    if input.dim() == 3:
        return channel_dropout(input, p, training, inplace)
    result = channel_dropout(input.unsqueeze(0), p, training, inplace).squeeze(0)
    return input if inplace else result


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of images: shape (N, C, H, W); of three dimensions, (N, C, L) as in PyTorch."""
    require_tensor("dropout2d", "input", input)
    _check_probability(p)
    if input.dim() not in (3, 4):
        warnings.warn(
            f"dropout2d: Received a {input.dim()}-D input to dropout2d, which is deprecated: it drops channels of "
            "inputs with 2 spatial dimensions, a channel dimension, and a batch dimension",
            stacklevel=2,
        )
    if input.dim() == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired "
            "- input is interpreted as shape (N, C, L): use dropout1d",
            stacklevel=2,
        )
    return channel_dropout(input, p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of volumes: shape (N, C, D, H, W) or (C, D, H, W)."""
    require_tensor("dropout3d", "input", input)
    _check_probability(p)
    if input.dim() not in (4, 5):
        warnings.warn(
            f"dropout3d: Received a {input.dim()}-D input to dropout3d, which is deprecated: it drops channels of "
            "inputs with 3 spatial dimensions, a channel dimension, and an optional batch dimension",
            stacklevel=2,
        )
    if input.dim() == 5:
        return channel_dropout(input, p, training, inplace)
    result = channel_dropout(input.unsqueeze(0), p, training, inplace).squeeze(0)
    return input if inplace else result


# The value to which `selu` tends: what is dropped gets it in place of 0.
FAR = 1.7580993408473766


def _alpha(input: Tensor, noise: Tensor, p: float, inplace: bool) -> Tensor:
    """Set what is dropped to -FAR, and bring mean and variance back."""
    scale = 1 / math.sqrt((FAR * FAR * p + 1) * (1 - p))
    offset = noise.add(-1).mul_(FAR * scale).add_(FAR * scale * p)
    noise = noise.mul_(scale)
    return input.mul_(noise).add_(offset) if inplace else input * noise + offset


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps mean 0 and variance 1, for networks with `selu`.

    Klambauer et al., "Self-normalizing neural networks" (2017).

    Parameters
    ----------
    input, p, training, inplace
        See `dropout`; here `training` is False by default.
    """
    require_tensor("alpha_dropout", "input", input)
    _check_probability(p)
    if p == 0 or not training or input.numel() == 0:
        return input
    if p == 1:
        return input.mul_(0.0) if inplace else input * 0.0
    return _alpha(input, _core.room_to_draw(input, "alpha_dropout").bernoulli_(1 - p), p, inplace)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels: shape (N, C, *)."""
    require_tensor("feature_alpha_dropout", "input", input)
    _check_probability(p)
    if p == 0 or not training or input.numel() == 0:
        return input
    if p == 1:
        return input.mul_(0.0) if inplace else input * 0.0
    return _alpha(input, _per_channel(input).bernoulli_(1 - p), p, inplace)
