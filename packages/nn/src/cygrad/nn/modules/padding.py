"""Padding, and pixels moved between channels and places."""

from __future__ import annotations

from collections.abc import Sequence

from cygrad import Tensor
from cygrad.nn import functional as F
from cygrad.nn.modules.module import Module

__all__ = [
    "ChannelShuffle",
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "PixelShuffle",
    "PixelUnshuffle",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _Pad(Module):
    _dims: int
    _mode: str
    _value: float | None = None
    padding: tuple[int, ...]

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        self.padding = _widths(padding, self._dims)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode, self._value)

    def extra_repr(self) -> str:
        return f"{self.padding}"


def _widths(padding: int | Sequence[int], dims: int) -> tuple[int, ...]:
    """Two widths for each dimension."""
    return (padding,) * (2 * dims) if isinstance(padding, int) else tuple(padding)


class _ConstantPadNd(_Pad):
    _mode = "constant"

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPadNd):
    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ConstantPad1d(_ConstantPadNd):
    """One value at both ends of sequences, see `cygrad.nn.functional.pad`.

    Takes `padding` (one width, or two for each dimension from the last on) and `value`.
    """

    _dims = 1


class ConstantPad2d(_ConstantPadNd):
    """One value at both ends of images, see `cygrad.nn.functional.pad`.

    Takes `padding` (one width, or two for each dimension from the last on) and `value`.
    """

    _dims = 2


class ConstantPad3d(_ConstantPadNd):
    """One value at both ends of volumes, see `cygrad.nn.functional.pad`.

    Takes `padding` (one width, or two for each dimension from the last on) and `value`.
    """

    _dims = 3


class ZeroPad1d(_ZeroPad):
    """Zeros at both ends of sequences, see `cygrad.nn.functional.pad`.

    Takes `padding`: one width, or two for each dimension from the last on.
    """

    _dims = 1


class ZeroPad2d(_ZeroPad):
    """Zeros at both ends of images, see `cygrad.nn.functional.pad`.

    Takes `padding`: one width, or two for each dimension from the last on.
    """

    _dims = 2


class ZeroPad3d(_ZeroPad):
    """Zeros at both ends of volumes, see `cygrad.nn.functional.pad`.

    Takes `padding`: one width, or two for each dimension from the last on.
    """

    _dims = 3


class ReflectionPad1d(_Pad):
    """What a mirror at the outermost element shows at both ends of sequences, see `cygrad.nn.functional.pad`.

    Takes `padding`: one width, or two for each dimension from the last on.
    """

    _dims = 1
    _mode = "reflect"


class ReflectionPad2d(_Pad):
    """What a mirror at the outermost element shows at both ends of images, see `cygrad.nn.functional.pad`.

    Takes `padding`: one width, or two for each dimension from the last on.
    """

    _dims = 2
    _mode = "reflect"


class ReflectionPad3d(_Pad):
    """What a mirror at the outermost element shows at both ends of volumes, see `cygrad.nn.functional.pad`.

    Takes `padding`: one width, or two for each dimension from the last on.
    """

    _dims = 3
    _mode = "reflect"


class ReplicationPad1d(_Pad):
    """The outermost element again at both ends of sequences, see `cygrad.nn.functional.pad`.

    Takes `padding`: one width, or two for each dimension from the last on.
    """

    _dims = 1
    _mode = "replicate"


class ReplicationPad2d(_Pad):
    """The outermost element again at both ends of images, see `cygrad.nn.functional.pad`.

    Takes `padding`: one width, or two for each dimension from the last on.
    """

    _dims = 2
    _mode = "replicate"


class ReplicationPad3d(_Pad):
    """The outermost element again at both ends of volumes, see `cygrad.nn.functional.pad`.

    Takes `padding`: one width, or two for each dimension from the last on.
    """

    _dims = 3
    _mode = "replicate"


class CircularPad1d(_Pad):
    """The other end at both ends of sequences, see `cygrad.nn.functional.pad`.

    Takes `padding`: one width, or two for each dimension from the last on.
    """

    _dims = 1
    _mode = "circular"


class CircularPad2d(_Pad):
    """The other end at both ends of images, see `cygrad.nn.functional.pad`.

    Takes `padding`: one width, or two for each dimension from the last on.
    """

    _dims = 2
    _mode = "circular"


class CircularPad3d(_Pad):
    """The other end at both ends of volumes, see `cygrad.nn.functional.pad`.

    Takes `padding`: one width, or two for each dimension from the last on.
    """

    _dims = 3
    _mode = "circular"


class PixelShuffle(Module):
    """Spreads groups of channels over a finer image, see `cygrad.nn.functional.pixel_shuffle`."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Undoes `PixelShuffle`, see `cygrad.nn.functional.pixel_unshuffle`."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Takes the channels from each group in turn, see `cygrad.nn.functional.channel_shuffle`."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
