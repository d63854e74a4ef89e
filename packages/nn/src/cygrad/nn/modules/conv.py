"""Layers of filters that slide over sequences, images and volumes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.nn import functional as F
from cygrad.nn import init
from cygrad.nn.functional.checks import per_dimension
from cygrad.nn.modules.module import Module
from cygrad.nn.parameter import Parameter

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Fold", "Unfold"]

Sizes = int | Sequence[int]


class _ConvNd(Module):
    _dims: int
    _transposed = False

    def _make(
        self,
        channels: tuple[int, int],
        kernel_size: Sizes,
        stride: Sizes,
        padding: Sizes | str,
        dilation: Sizes,
        output_padding: Sizes,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: Any,
    ) -> None:
        ins, outs = channels
        dims = self._dims
        if groups <= 0:
            raise ValueError(f"groups must be a positive integer, got {groups}")
        for name, number in (("in_channels", ins), ("out_channels", outs)):
            if number % groups:
                raise ValueError(f"{name} must be divisible by groups, got {number} and groups={groups}")
        modes = ("zeros",) if self._transposed else ("zeros", "reflect", "replicate", "circular")
        if padding_mode not in modes:
            raise ValueError(f"padding_mode must be one of {modes}, but got padding_mode={padding_mode!r}")
        self.in_channels = ins
        self.out_channels = outs
        self.kernel_size = per_dimension("kernel_size", kernel_size, dims)
        self.stride = per_dimension("stride", stride, dims)
        self.dilation = per_dimension("dilation", dilation, dims)
        self.padding = self._checked_padding(padding)
        self.transposed = self._transposed
        self.output_padding = per_dimension("output_padding", output_padding, dims)
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._widths()
        shape = (ins, outs // groups) if self._transposed else (outs, ins // groups)
        self.weight = Parameter(cygrad.empty((*shape, *self.kernel_size), device=device, dtype=dtype))
        value = Parameter(cygrad.empty(outs, device=device, dtype=dtype)) if bias else None
        self.register_parameter("bias", value)
        self.reset_parameters()

    def _checked_padding(self, padding: Sizes | str) -> tuple[int, ...] | str:
        if not isinstance(padding, str):
            return per_dimension("padding", padding, self._dims)
        if padding not in ("same", "valid"):
            raise ValueError(f"Invalid padding string {padding!r}, should be one of ('same', 'valid')")
        if padding == "same" and any(s != 1 for s in self.stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
        return padding

    def _widths(self) -> list[int]:
        """The padding as `cygrad.nn.functional.pad` takes it."""
        if self.padding == "valid":
            return [0] * (2 * self._dims)
        widths = []
        for i in reversed(range(self._dims)):
            if self.padding == "same":
                total = self.dilation[i] * (self.kernel_size[i] - 1)
                widths += [total // 2, total - total // 2]
            else:
                widths += [self.padding[i]] * 2
        return widths

    def reset_parameters(self) -> None:
        """Draw the parameters anew, uniform in ±1/sqrt(elements that a result is made of)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = init._calculate_fan_in_and_fan_out(self.weight)[0]
            if fan_in:
                init.uniform_(self.bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != (0,) * self._dims:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self._dims:
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * self._dims:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        return text if self.padding_mode == "zeros" else text + f", padding_mode={self.padding_mode}"

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")


class _Conv(_ConvNd):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self._make(
            (in_channels, out_channels),
            kernel_size,
            stride,
            padding,
            dilation,
            0,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        convolve = (F.conv1d, F.conv2d, F.conv3d)[self._dims - 1]
        if self.padding_mode == "zeros":
            return convolve(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        padded = F.pad(input, self._reversed_padding_repeated_twice, self.padding_mode)
        return convolve(padded, weight, bias, self.stride, 0, self.dilation, self.groups)


class Conv1d(_Conv):
    """Learnt filters that slide over sequences: shape (N, C, L) or (C, L); see `Conv2d`."""

    _dims = 1


class Conv2d(_Conv):
    """Learnt filters that slide over images, see `cygrad.nn.functional.conv2d`: shape (N, C, H, W) or (C, H, W).

    Parameters
    ----------
    in_channels, out_channels : int
        Of the input and of the result.
    kernel_size : int or pair of int
        Sizes of the filters.
    stride, padding, dilation, groups
        See there.
    bias : bool, default True
        Whether there is a bias.
    padding_mode : str, default "zeros"
        What the padding holds: see `cygrad.nn.functional.pad` for ``"reflect"``, ``"replicate"`` and ``"circular"``.
    device, dtype : optional
        Of the parameters.

    Attributes
    ----------
    weight : Parameter, shape (out_channels, in_channels / groups, *kernel_size)
    bias : Parameter, shape (out_channels,), or None
        Both start uniform in ±1/sqrt(k), where k elements make one of the result.

    Raises
    ------
    ValueError
        If the groups do not divide both channels, or an option is unknown.
    """

    _dims = 2


class Conv3d(_Conv):
    """Learnt filters that slide over volumes: shape (N, C, D, H, W) or (C, D, H, W); see `Conv2d`."""

    _dims = 3


class _ConvTransposeNd(_ConvNd):
    _transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if isinstance(padding, str):
            raise TypeError(f"padding of a transposed convolution must be int or tuple of ints, got {padding!r}")
        self._make(
            (in_channels, out_channels),
            kernel_size,
            stride,
            padding,
            dilation,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        transpose = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[self._dims - 1]
        return transpose(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self._output_padding(input, output_size),
            self.groups,
            self.dilation,
        )

    def _output_padding(self, input: Tensor, output_size: Sequence[int] | None) -> tuple[int, ...]:
        """What leads to the wanted sizes."""
        if output_size is None:
            return self.output_padding
        dims = self._dims
        wanted = list(output_size)
        lead = input.dim() - dims
        if len(wanted) == lead + dims:
            wanted = wanted[lead:]
        if len(wanted) != dims:
            raise ValueError(
                f"ConvTranspose{dims}D: for {input.dim()}D input, output_size must have {dims} or {lead + dims} "
                f"elements (got {len(output_size)})"
            )
        more = []
        for i in range(dims):
            least = (input.shape[lead + i] - 1) * self.stride[i] - 2 * self.padding[i]
            least += self.dilation[i] * (self.kernel_size[i] - 1) + 1
            if not least <= wanted[i] <= least + self.stride[i] - 1:
                raise ValueError(
                    f"requested an output size of {tuple(wanted)}, but dimension {i} must be between {least} and "
                    f"{least + self.stride[i] - 1} (for an input of {tuple(input.shape[lead:])})"
                )
            more.append(wanted[i] - least)
        return tuple(more)


class ConvTranspose1d(_ConvTransposeNd):
    """The transposed map of `Conv1d`: shape (N, C, L) or (C, L); see `ConvTranspose2d`."""

    _dims = 1


class ConvTranspose2d(_ConvTransposeNd):
    """The transposed map of `Conv2d`, see `cygrad.nn.functional.conv_transpose2d`.

    Calls take `output_size` as well: the sizes of the result, where several are possible.

    Parameters
    ----------
    in_channels, out_channels, kernel_size, stride, padding, groups, bias, dilation, device, dtype
        See `Conv2d`.
    output_padding : int or pair of int
        Added to the sizes of the result, at one end.
    padding_mode : str
        Only ``"zeros"``.

    Attributes
    ----------
    weight : Parameter, shape (in_channels, out_channels / groups, *kernel_size)
    bias : Parameter, shape (out_channels,), or None

    Raises
    ------
    ValueError
        If the groups do not divide both channels, or an option is unknown.
    """

    _dims = 2


class ConvTranspose3d(_ConvTransposeNd):
    """The transposed map of `Conv3d`: shape (N, C, D, H, W) or (C, D, H, W); see `ConvTranspose2d`."""

    _dims = 3


class Unfold(Module):
    """The windows of images as columns, see `cygrad.nn.functional.unfold`."""

    def __init__(self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Fold(Unfold):
    """Columns added where they come from, see `cygrad.nn.functional.fold`."""

    def __init__(
        self, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}, {super().extra_repr()}"
