"""Layers that change the size of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cygrad import Tensor
from cygrad.nn import functional as F
from cygrad.nn.modules.module import Module

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


class Upsample(Module):
    """Sequences, images or volumes in another size, see `cygrad.nn.functional.interpolate`.

    Parameters
    ----------
    size, scale_factor, mode, align_corners, recompute_scale_factor
        See there.
    """

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, Sequence):
            self.scale_factor: Any = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        scaled = self.scale_factor is not None
        text = f"scale_factor={self.scale_factor!r}" if scaled else f"size={self.size!r}"
        return f"{text}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` of images to the nearest element."""

    def __init__(
        self, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
    ) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` of images on straight lines, with aligned corners."""

    def __init__(
        self, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
    ) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
