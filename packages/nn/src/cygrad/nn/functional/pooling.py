"""Largest elements and means of windows."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import cygrad
from cygrad import Tensor
from cygrad.autograd import _core
from cygrad.autograd.autocasting import autocasts
from cygrad.nn.functional.checks import formatted, per_dimension, require_tensor, with_out

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
]

Sizes = int | Sequence[int]
Both = tuple[Tensor, Tensor]


def _check_dims(name: str, input: Tensor, dims: int) -> None:
    require_tensor(name, "input", input)
    if input.dim() not in (dims + 1, dims + 2) or 0 in input.shape[input.dim() - dims - 1 :]:
        raise RuntimeError(
            f"{name}: Expected {dims + 1}D or {dims + 2}D (batch mode) tensor with optional 0 dim batch size for "
            f"input, but got:{list(input.shape)}"
        )


@functools.lru_cache(maxsize=1024, typed=True)
def _sliding(
    name: str,
    shape: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    ceil_mode: bool,
    count_padding: bool = False,
    divisor: int = 0,
) -> tuple[int, ...]:
    """The geometry of windows that slide over planes of `shape`, of which the first are the channels, if they fit."""
    for what, values in (("kernel_size", kernel), ("stride", stride), ("dilation", dilation)):
        if min(values) < 1:
            raise RuntimeError(f"{name}: {what} should be greater than zero, but got {values}")
    sizes = []
    for size, k, s, p, d in zip(shape[1:], kernel, stride, padding, dilation, strict=True):
        reach = d * (k - 1) + 1
        if p < 0:
            raise RuntimeError(f"pad must be non-negative, but got pad: {p}")
        if p > reach // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and "
                f"dilation={d}"
            )
        out = (size + 2 * p - reach + (s - 1 if ceil_mode else 0)) // s + 1
        if ceil_mode and (out - 1) * s >= size + p:
            out -= 1  # the last window would begin in the padding behind
        sizes.append(out)
    if min(sizes) < 1:
        raise RuntimeError(
            f"Given input size: {shape}. Calculated output size: {(shape[0], *sizes)}. Output size is too small: {name}"
        )
    return _geometry(sizes, kernel, stride, padding, dilation, count_padding=count_padding, divisor=divisor)


def _geometry(
    sizes: Sequence[int],
    kernel: Sequence[int] = (),
    stride: Sequence[int] = (),
    padding: Sequence[int] = (),
    dilation: Sequence[int] = (),
    adaptive: bool = False,
    count_padding: bool = False,
    divisor: int = 0,
) -> tuple[int, ...]:
    """What the rows of pooling in the op table take: see ops_pool.pxi."""
    ones = (1,) * len(sizes)
    return (
        len(sizes),
        int(adaptive),
        int(count_padding),
        divisor,
        *sizes,
        *(kernel or ones),
        *(stride or ones),
        *(padding or (0,) * len(sizes)),
        *(dilation or ones),
    )


def _titled(result: Tensor, name: str, dims: int) -> Tensor:
    """`result`, whose node is named as PyTorch's, which pools sequences as images of one row."""
    return _core.entitled(result, "SqueezeBackward1" if dims == 1 else f"{name}Backward0")


# ---- sliding maxima ----------------------------------------------------------------------------------------------
def _max_pool(
    dims: int,
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
) -> Both:
    name = f"max_pool{dims}d"
    _check_dims(name, input, dims)
    kernel = per_dimension("kernel_size", kernel_size, dims)
    steps = kernel if stride is None or stride in ([], ()) else per_dimension("stride", stride, dims)
    padding = per_dimension("padding", padding, dims)
    dilation = per_dimension("dilation", dilation, dims)
    geometry = _sliding(name, tuple(input.shape[-dims - 1 :]), kernel, steps, padding, dilation, bool(ceil_mode))
    searched = input
    if not input.is_floating_point():
        if input.dtype in (cygrad.bool, cygrad.uint64) or input.is_complex():
            raise NotImplementedError(f"{name} is not implemented for {input.dtype}")
        searched = searched.long()
    values, index = _core.max_pool(searched, geometry)
    if not input.is_floating_point():
        values = values.masked_fill(index < 0, cygrad.iinfo(input.dtype).min).to(input.dtype)  # windows of nothing
    values = formatted(values, input)
    return _titled(values, f"MaxPool{dims}DWithIndices", dims), formatted(index, input)


def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Both:
    """Return the results of `max_pool1d` and where they come from."""
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Both:
    """Return the results of `max_pool2d` and where they come from."""
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode)


@autocasts("float32")
def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Both:
    """Return the results of `max_pool3d` and where they come from."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | Both:
    """Return the largest element of each window of sequences; see `max_pool2d`."""
    both = _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode)
    return both if return_indices else both[0]


def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | Both:
    """Return the largest element of each window of images.

    Parameters
    ----------
    input : Tensor, shape (N, C, H, W) or (C, H, W)
    kernel_size : int or pair of int
        Sizes of the window.
    stride : int or pair of int, optional
        Steps between windows; by default they lie side by side.
    padding : int or pair of int
        By which windows may begin before and end behind the image, at most half their size.
    dilation : int or pair of int
        Steps between the elements of a window.
    ceil_mode : bool
        Take a last window that does not fit as a whole.
    return_indices : bool
        Return where the elements are, too, counted in their plane; `max_unpool2d` takes it.

    Returns
    -------
    Tensor, shape (N, C, H', W') or (C, H', W'); or a pair

    Raises
    ------
    RuntimeError
        If no window fits.
    """
    both = _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode)
    return both if return_indices else both[0]


@autocasts("float32")
def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | Both:
    """Return the largest element of each window of volumes; see `max_pool2d`."""
    both = _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode)
    return both if return_indices else both[0]


# ---- sliding means -----------------------------------------------------------------------------------------------
def _avg_pool(
    dims: int,
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    name = f"avg_pool{dims}d"
    _check_dims(name, input, dims)
    kernel = per_dimension("kernel_size", kernel_size, dims)
    steps = kernel if stride is None or stride in ([], ()) else per_dimension("stride", stride, dims)
    padding = per_dimension("padding", padding, dims)
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    shape, ones = tuple(input.shape[-dims - 1 :]), (1,) * dims
    sums = bool(count_include_pad), divisor_override or 0
    geometry = _sliding(name, shape, kernel, steps, padding, ones, bool(ceil_mode), *sums)
    if not input.is_floating_point() and input.dtype != cygrad.int64:
        raise NotImplementedError(f"{name} is not implemented for {input.dtype}")
    means = _core.avg_pool(input, geometry)
    return _titled(formatted(means, input) if dims == 2 else means, f"AvgPool{dims}D", dims)


def avg_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the mean of each window of sequences; see `avg_pool2d`."""
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@with_out
def avg_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window of images.

    Parameters
    ----------
    input : Tensor, shape (N, C, H, W) or (C, H, W)
    kernel_size, stride, padding, ceil_mode
        See `max_pool2d`.
    count_include_pad : bool
        Count the zeros of the padding.
    divisor_override : int, optional
        Divide by this in place of the number of elements.

    Returns
    -------
    Tensor, shape (N, C, H', W') or (C, H', W')

    Raises
    ------
    RuntimeError
        If no window fits.
    """
    return _avg_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@autocasts("float32")
@with_out
def avg_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window of volumes; see `avg_pool2d`."""
    return _avg_pool(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


_avg_pool_in_float32 = autocasts("float32")(_avg_pool)


def _lp_pool(
    dims: int, input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None, ceil_mode: bool
) -> Tensor:
    elements = math.prod(per_dimension("kernel_size", kernel_size, dims))
    pool = _avg_pool if dims < 3 else _avg_pool_in_float32
    means = pool(dims, input.pow(norm_type), kernel_size, stride, 0, ceil_mode, True, None)
    return (means.sign() * means.abs().relu()).mul(elements).pow(1.0 / norm_type)


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """Return a norm of each window of sequences; see `lp_pool2d`."""
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """Return a norm of each window of images: the root of the sum of powers, without absolute values.

    Parameters
    ----------
    input : Tensor, shape (N, C, H, W) or (C, H, W)
    norm_type : float
        The exponent.
    kernel_size, stride, ceil_mode
        See `max_pool2d`.
    """
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """Return a norm of each window of volumes; see `lp_pool2d`."""
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)


# ---- windows that follow from the sizes of the result ------------------------------------------------------------
def _adaptive(name: str, dims: int, input: Tensor, output_size: Sizes | Sequence[int | None] | None) -> list[int]:
    """The sizes of the result; None keeps that of the input."""
    require_tensor(name, "input", input)
    if input.dim() <= dims:
        raise ValueError(f"Input dimension should be at least {dims + 1}, got {input.dim()}: {name}")
    if input.dim() not in (dims + 1, dims + 2):
        raise RuntimeError(f"{name}(): Expected {dims + 1}D or {dims + 2}D tensor, but got {list(input.shape)}")
    if isinstance(output_size, Sequence):
        if len(output_size) != dims:
            raise RuntimeError(f"{name}: output_size must be {dims}, got {output_size}")
        wanted = list(output_size)
    else:
        wanted = [output_size] * dims
    place = input.shape[-dims:]
    sizes = [have if want is None else want for want, have in zip(wanted, place, strict=True)]
    if min(sizes) < 0:
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received {tuple(sizes)}"
        )
    if "avg" in name and all(size == 1 for size in sizes):
        return sizes  # means of everything, which may be nothing
    # PyTorch takes the first dimension for a batch even where there is none, and means of no channels in one and two.
    means = "avg" in name and dims < 3
    for dim in range(input.dim() - dims if means else 1, input.dim()):
        if input.shape[dim] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
                f"{list(input.shape)} with dimension {dim} being empty"
            )
    return sizes


def _adaptive_avg_pool(dims: int, input: Tensor, output_size: Sizes | Sequence[int | None] | None) -> Tensor:
    name = f"adaptive_avg_pool{dims}d"
    sizes = _adaptive(name, dims, input, output_size)
    if not input.is_floating_point():
        raise NotImplementedError(f"{name} is not implemented for {input.dtype}")
    if 0 in input.shape[-dims:]:
        return input.mean(tuple(range(-dims, 0)), keepdim=True)         # one window of nothing: NaN, as PyTorch's
    if all(size == 1 for size in sizes):
        means = input.mean(tuple(range(-dims, 0)), keepdim=True)
    else:
        means = _core.avg_pool(input, _geometry(sizes, adaptive=True))
    means = formatted(means, input) if dims == 2 else means
    if dims > 1 and means.shape[-dims:].numel() == 1:
        return _core.entitled(means, "MeanBackward1")  # which it is
    return _titled(means, f"AdaptiveAvgPool{dims}D", dims)


def adaptive_avg_pool1d(input: Tensor, output_size: Sizes) -> Tensor:
    """Return means of so many windows of sequences; see `adaptive_avg_pool2d`."""
    return _adaptive_avg_pool(1, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Sizes | Sequence[int | None] | None) -> Tensor:
    """Return means of so many windows of images as the result has places.

    Parameters
    ----------
    input : Tensor, shape (N, C, H, W) or (C, H, W)
    output_size : int, None, or pair of them
        Sizes of the result; None keeps that of the input.

    Returns
    -------
    Tensor, shape (N, C, H', W') or (C, H', W')
        Place i of n goes from ``floor(i * H / n)`` to ``ceil((i + 1) * H / n)``.

    Raises
    ------
    RuntimeError
        If the sizes are not two, or a dimension of the input is empty.
    """
    return _adaptive_avg_pool(2, input, output_size)


@autocasts("float32")
def adaptive_avg_pool3d(input: Tensor, output_size: Sizes | Sequence[int | None] | None) -> Tensor:
    """Return means of so many windows of volumes; see `adaptive_avg_pool2d`."""
    return _adaptive_avg_pool(3, input, output_size)


def _adaptive_max_pool(dims: int, input: Tensor, output_size: Sizes | Sequence[int | None] | None) -> Both:
    name = f"adaptive_max_pool{dims}d"
    sizes = _adaptive(name, dims, input, output_size)
    if not input.is_floating_point():
        raise NotImplementedError(f"{name} is not implemented for {input.dtype}")
    values, index = _core.max_pool(input, _geometry(sizes, adaptive=True))
    if dims == 2:
        values, index = formatted(values, input), formatted(index, input)
    return _titled(values, f"AdaptiveMaxPool{dims}D", dims), index


def adaptive_max_pool1d_with_indices(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Both:
    """Return the results of `adaptive_max_pool1d` and where they come from."""
    return _adaptive_max_pool(1, input, output_size)


def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: Sizes | Sequence[int | None] | None, return_indices: bool = False
) -> Both:
    """Return the results of `adaptive_max_pool2d` and where they come from."""
    return _adaptive_max_pool(2, input, output_size)


@autocasts("float32")
def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: Sizes | Sequence[int | None] | None, return_indices: bool = False
) -> Both:
    """Return the results of `adaptive_max_pool3d` and where they come from."""
    return _adaptive_max_pool(3, input, output_size)


def adaptive_max_pool1d(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Tensor | Both:
    """Return largest elements of so many windows of sequences; see `adaptive_avg_pool2d` and `max_pool2d`."""
    both = _adaptive_max_pool(1, input, output_size)
    return both if return_indices else both[0]


def adaptive_max_pool2d(
    input: Tensor, output_size: Sizes | Sequence[int | None] | None, return_indices: bool = False
) -> Tensor | Both:
    """Return largest elements of so many windows of images; see `adaptive_avg_pool2d` and `max_pool2d`."""
    both = _adaptive_max_pool(2, input, output_size)
    return both if return_indices else both[0]


@autocasts("float32")
def adaptive_max_pool3d(
    input: Tensor, output_size: Sizes | Sequence[int | None] | None, return_indices: bool = False
) -> Tensor | Both:
    """Return largest elements of so many windows of volumes; see `adaptive_avg_pool2d` and `max_pool2d`."""
    both = _adaptive_max_pool(3, input, output_size)
    return both if return_indices else both[0]
