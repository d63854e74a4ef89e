"""Layers of largest elements and means of windows."""

from __future__ import annotations

from collections.abc import Sequence

from cygrad import Tensor
from cygrad.nn import functional as F
from cygrad.nn.functional.checks import per_dimension
from cygrad.nn.modules.module import Module

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]

Sizes = int | Sequence[int]


class _MaxPoolNd(Module):
    _dims: int

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[self._dims - 1]
        return pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """The largest element of each window of sequences; see `MaxPool2d`."""

    _dims = 1


class MaxPool2d(_MaxPoolNd):
    """The largest element of each window of images, see `cygrad.nn.functional.max_pool2d`.

    Parameters
    ----------
    kernel_size, stride, padding, dilation, return_indices, ceil_mode
        See there.
    """

    _dims = 2


class MaxPool3d(_MaxPoolNd):
    """The largest element of each window of volumes; see `MaxPool2d`."""

    _dims = 3


class _MaxUnpoolNd(Module):
    _dims: int

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        self.kernel_size = per_dimension("kernel_size", kernel_size, self._dims)
        self.stride = self.kernel_size if stride is None else per_dimension("stride", stride, self._dims)
        self.padding = per_dimension("padding", padding, self._dims)

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        unpool = (F.max_unpool1d, F.max_unpool2d, F.max_unpool3d)[self._dims - 1]
        return unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """The results of `MaxPool1d` put where they come from; see `MaxUnpool2d`."""

    _dims = 1


class MaxUnpool2d(_MaxUnpoolNd):
    """The results of `MaxPool2d` put where they come from, see `cygrad.nn.functional.max_unpool2d`."""

    _dims = 2


class MaxUnpool3d(_MaxUnpoolNd):
    """The results of `MaxPool3d` put where they come from; see `MaxUnpool2d`."""

    _dims = 3


class AvgPool1d(Module):
    """The mean of each window of sequences; see `AvgPool2d`."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = per_dimension("kernel_size", kernel_size, 1)
        self.stride = self.kernel_size if stride is None else per_dimension("stride", stride, 1)
        self.padding = per_dimension("padding", padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(Module):
    """The mean of each window of images, see `cygrad.nn.functional.avg_pool2d`.

    Parameters
    ----------
    kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        See there.
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    _pool = staticmethod(F.avg_pool2d)

    def forward(self, input: Tensor) -> Tensor:
        return self._pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool3d(AvgPool2d):
    """The mean of each window of volumes; see `AvgPool2d`."""

    _pool = staticmethod(F.avg_pool3d)


class _LPPoolNd(Module):
    _dims: int

    def __init__(
        self, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        pool = (F.lp_pool1d, F.lp_pool2d, F.lp_pool3d)[self._dims - 1]
        return pool(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """A norm of each window of sequences; see `LPPool2d`."""

    _dims = 1


class LPPool2d(_LPPoolNd):
    """A norm of each window of images, see `cygrad.nn.functional.lp_pool2d`."""

    _dims = 2


class LPPool3d(_LPPoolNd):
    """A norm of each window of volumes; see `LPPool2d`."""

    _dims = 3


class _AdaptiveAvgPoolNd(Module):
    _dims: int

    def __init__(self, output_size: Sizes | Sequence[int | None] | None) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        pool = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[self._dims - 1]
        return pool(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Means of so many windows of sequences; see `AdaptiveAvgPool2d`."""

    _dims = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Means of so many windows of images as the result has places, see `cygrad.nn.functional.adaptive_avg_pool2d`."""

    _dims = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Means of so many windows of volumes; see `AdaptiveAvgPool2d`."""

    _dims = 3


class _AdaptiveMaxPoolNd(Module):
    _dims: int

    def __init__(self, output_size: Sizes | Sequence[int | None] | None, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        pool = (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)[self._dims - 1]
        return pool(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Largest elements of so many windows of sequences; see `AdaptiveAvgPool2d`."""

    _dims = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Largest elements of so many windows of images; see `AdaptiveAvgPool2d`."""

    _dims = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Largest elements of so many windows of volumes; see `AdaptiveAvgPool2d`."""

    _dims = 3


class _FractionalMaxPool(Module):
    _dims: int
    _random_samples: Tensor | None

    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        dims, name = self._dims, type(self).__name__
        self.kernel_size = per_dimension("kernel_size", kernel_size, dims)
        if min(self.kernel_size) <= 0:
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        if (output_size is None) == (output_ratio is None):
            raise ValueError(
                f"{name} requires specifying either an output size, or a pooling ratio"
                if output_size is None
                else "only one of output_size and output_ratio may be specified"
            )
        self.output_size = None if output_size is None else per_dimension("output_size", output_size, dims)
        if isinstance(output_ratio, (int, float)):
            output_ratio = (output_ratio,) * dims
        self.output_ratio = None if output_ratio is None else tuple(output_ratio)
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {self.output_ratio})")

    def forward(self, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        pool = F.fractional_max_pool2d if self._dims == 2 else F.fractional_max_pool3d
        return pool(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """Largest elements of windows of images at random distances, see `cygrad.nn.functional.fractional_max_pool2d`.

    Parameters
    ----------
    kernel_size : int or pair of int
        Of the windows.
    output_size : int or pair of int, optional
        Sizes of the result.
    output_ratio : float or pair of float, optional
        They as parts of those of the input; one of the two is given.
    return_indices : bool
        Return the places of the maxima as well.

    Raises
    ------
    ValueError
        If both or none of size and ratio are given, a ratio is not between 0 and 1, or a window is empty.
    """

    _dims = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """Largest elements of windows of volumes at random distances; see `FractionalMaxPool2d`."""

    _dims = 3
