"""Images: pixels moved between channels and places."""

from __future__ import annotations

from cygrad import Tensor, contiguous_format
from cygrad.autograd._core import entitled
from cygrad.nn.functional.checks import formatted, require_tensor

__all__ = ["channel_shuffle", "pixel_shuffle", "pixel_unshuffle"]


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Spread groups of channels over a finer image.

    Shi et al., "Real-time single image and video super-resolution using an efficient sub-pixel convolutional neural
    network" (2016).

    Parameters
    ----------
    input : Tensor, shape (..., C * r**2, H, W)
    upscale_factor : int
        r, positive.

    Returns
    -------
    Tensor, shape (..., C, H * r, W * r)

    Raises
    ------
    RuntimeError
        If the input has fewer than three dimensions, or its channels are no multiple of ``r**2``.
    """
    require_tensor("pixel_shuffle", "input", input)
    r = _factor("pixel_shuffle", "upscale_factor", input, upscale_factor)
    *batch, channels, height, width = input.shape
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={channels} is not divisible by {r * r}"
        )
    parts = input.reshape(*batch, channels // (r * r), r, r, height, width)
    n = len(batch)
    moved = parts.permute(*range(n + 1), n + 3, n + 1, n + 4, n + 2)
    moved = moved.clone(memory_format=contiguous_format)
    result = moved.view(*batch, channels // (r * r), height * r, width * r)
    return entitled(formatted(result, input), "PixelShuffleBackward0")


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Undo `pixel_shuffle`.

    Parameters
    ----------
    input : Tensor, shape (..., C, H * r, W * r)
    downscale_factor : int
        r, positive.

    Returns
    -------
    Tensor, shape (..., C * r**2, H, W)

    Raises
    ------
    RuntimeError
        If the input has fewer than three dimensions, or height or width are no multiples of r.
    """
    require_tensor("pixel_unshuffle", "input", input)
    r = _factor("pixel_unshuffle", "downscale_factor", input, downscale_factor)
    *batch, channels, height, width = input.shape
    for what, dim, size in (("height", -2, height), ("width", -1, width)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {what} to be divisible by downscale_factor, but input.size({dim})={size} is "
                f"not divisible by {r}"
            )
    parts = input.reshape(*batch, channels, height // r, r, width // r, r)
    n = len(batch)
    moved = parts.permute(*range(n + 1), n + 2, n + 4, n + 1, n + 3)
    moved = moved.clone(memory_format=contiguous_format)
    result = moved.view(*batch, channels * r * r, height // r, width // r)
    return entitled(formatted(result, input), "PixelUnshuffleBackward0")


def _factor(name: str, argument: str, input: Tensor, factor: int) -> int:
    if input.dim() < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with {input.dim()} dimension(s)"
        )
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive {argument}, but got {factor}")
    return factor


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Take the channels from each group in turn.

    Zhang et al., "ShuffleNet: an extremely efficient convolutional neural network for mobile devices" (2018).

    Parameters
    ----------
    input : Tensor, shape (N, C, *)
        Of three dimensions or more.
    groups : int
        Divides C.

    Raises
    ------
    RuntimeError
        If it does not, or the input has fewer dimensions.
    """
    require_tensor("channel_shuffle", "input", input)
    if input.dim() <= 2:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    batch, channels, *place = input.shape
    if channels % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {channels} channels and {groups} groups."
        )
    parts = input.reshape(batch, groups, channels // groups, *place)
    return entitled(formatted(parts.transpose(1, 2).reshape(input.shape), input), "ChannelShuffleBackward0")
