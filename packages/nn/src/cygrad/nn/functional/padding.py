"""More elements at the ends of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.autograd._core import entitled
from cygrad.autograd.autocasting import autocasts
from cygrad.nn.functional.checks import formatted, of_sizes, require_tensor

__all__ = ["pad"]


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Put more elements at both ends of the last dimensions.

    Parameters
    ----------
    input : Tensor
    pad : sequence of int
        How many before and behind in the last dimension, then in the one before it, and so on; negative ones cut off.
    mode : str
        ``"constant"``: all have one value. ``"reflect"``: mirrored at the outermost element. ``"replicate"``: the
        outermost element again. ``"circular"``: from the other end. The latter three pad the last dimension of an
        input of 2 or 3, the last two of one of 3 or 4, or the last three of one of 4 or 5.
    value : number, optional
        For the mode ``"constant"``, 0 by default.

    Raises
    ------
    RuntimeError
        If the padding is too wide for the input, or a value is given for a mode that takes none.
    NotImplementedError
        If the mode is unknown, or the input has another number of dimensions.
    """
    require_tensor("pad", "input", input)
    widths = tuple(pad)
    if isinstance(value, complex):
        raise TypeError(f"pad(): argument 'value' must be a real number, not {value}")
    if mode == "constant":
        return formatted(cygrad.constant_pad_nd(input, widths, 0 if value is None else value), input)
    if len(widths) % 2:
        raise RuntimeError(f"Padding length must be divisible by 2, got {len(widths)}")
    if len(widths) > 2 * input.dim():
        raise RuntimeError(f"Padding length should be less than or equal to two times the input dimension: {widths}")
    if value not in (None, 0):
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if len(widths) not in (2, 4, 6) or input.dim() not in (len(widths) // 2 + 1, len(widths) // 2 + 2):
        raise NotImplementedError(
            f"Padding size {len(widths)} is not supported for {input.dim()}D input tensor: the mode {mode!r} pads the "
            "last dimension of an input of 2 or 3 dimensions, two of one of 3 or 4, or three of one of 4 or 5"
        )
    _check_sizes(input, len(widths) // 2)
    in_float32 = mode == "replicate" or (mode == "reflect" and len(widths) < 6)  # as PyTorch inside autocast
    return (_padded_in_float32 if in_float32 else _padded)(input, widths, mode)


def _padded(input: Tensor, widths: tuple[int, ...], mode: str) -> Tensor:
    result = input
    for i in range(len(widths) // 2):
        dim = input.dim() - 1 - i
        result = _padded_along(result, dim, widths[2 * i], widths[2 * i + 1], mode)
    result = result.clone() if result is input else result
    if mode == "circular":
        return result
    return entitled(formatted(result, input), f"{_TITLES[mode]}Pad{len(widths) // 2}DBackward0")


_TITLES = {"reflect": "Reflection", "replicate": "Replication"}


_padded_in_float32 = autocasts("float32")(_padded)


def _check_sizes(input: Tensor, padded: int) -> None:
    batched = input.dim() == padded + 2
    if any(size == 0 for size in input.shape[batched:]):
        raise RuntimeError(
            f"Expected {padded + 1}D or {padded + 2}D (batch mode) tensor with possibly 0 batch size and other "
            f"non-zero dimensions for input, but got: {list(input.shape)}"
        )


def _padded_along(input: Tensor, dim: int, before: int, behind: int, mode: str) -> Tensor:
    """One dimension padded; the new elements are picked from the old ones."""
    size = input.shape[dim]
    if before == behind == 0:
        return input
    if size + before + behind < 1:
        raise RuntimeError(f"input (size {size}) is too small. Calculated output size: {size + before + behind}")
    if mode == "reflect" and max(before, behind) >= size:
        raise RuntimeError(
            "Padding size should be less than the corresponding input dimension, but got: padding "
            f"({before}, {behind}) at dimension {dim} of input {list(input.shape)}"
        )
    if mode == "circular" and max(before, behind) > size:
        raise RuntimeError(
            f"Padding value causes wrapping around more than once: padding ({before}, {behind}) at dimension {dim} of "
            f"input {list(input.shape)}"
        )
    kept = size + min(before, 0) + min(behind, 0)
    if mode == "circular" and kept < 1:
        raise RuntimeError(
            f"padding ({before}, {behind}) leaves nothing of dimension {dim} of input {list(input.shape)} that could "
            "be repeated"
        )
    at = of_sizes(size + before + behind, input.device, _picked, mode, size, before, behind)
    return input.index_select(dim, at)


def _picked(device: Any, mode: str, size: int, before: int, behind: int) -> Tensor:
    """The old element that each new one is."""
    if mode == "circular":
        # What negative widths cut off does not come back at the other end.
        kept = size + min(before, 0) + min(behind, 0)
        return cygrad.arange(-max(before, 0), kept + max(behind, 0), device=device).remainder(kept) - min(before, 0)
    at = cygrad.arange(-before, size + behind, device=device)
    return at.clamp(0, size - 1) if mode == "replicate" else (size - 1) - ((size - 1) - at.abs()).abs()
