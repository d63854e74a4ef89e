"""The results of max pooling put where they come from."""

from __future__ import annotations

import math
from collections.abc import Sequence

import cygrad
from cygrad import Tensor
from cygrad.autograd._core import entitled, whole_batch
from cygrad.autograd.autocasting import autocasts
from cygrad.nn.functional.checks import formatted, per_dimension, require_tensor

__all__ = ["max_unpool1d", "max_unpool2d", "max_unpool3d"]

Sizes = int | Sequence[int]


def _max_unpool(
    dims: int,
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    output_size: Sequence[int] | None,
) -> Tensor:
    name = f"max_unpool{dims}d"
    require_tensor(name, "input", input)
    require_tensor(name, "indices", indices)
    kernel = per_dimension("kernel_size", kernel_size, dims)
    steps = kernel if stride is None or stride in ([], ()) else per_dimension("stride", stride, dims)
    padding = per_dimension("padding", padding, dims)
    if input.dim() not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"Input to {name} should be a {dims + 1}d or {dims + 2}d Tensor, but got one with {input.dim()} dims"
        )
    if indices.dtype != cygrad.int64:
        raise RuntimeError(f"elements in indices should be type int64 but got: {indices.dtype}")
    if indices.shape != input.shape:
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(input.shape)}) but got indices "
            f"tensor with shape: {list(indices.shape)}"
        )
    sizes = _unpooled(input, kernel, steps, padding, output_size)
    places = math.prod(sizes)
    seen = whole_batch(indices)
    if seen.numel() and not (seen.min() >= 0 and seen.max() < places):
        wrong = int(seen.max() if seen.max() >= places else seen.min())
        raise RuntimeError(
            f"Found an invalid max index: {wrong} (output volumes are of size {'x'.join(map(str, sizes))})"
        )
    lead = input.shape[: input.dim() - dims]
    zeros = cygrad.zeros(*lead, places, dtype=input.dtype, device=input.device)
    result = zeros.scatter(-1, indices.flatten(-dims), input.flatten(-dims)).view(*lead, *sizes)
    title = "SqueezeBackward1" if dims == 1 else f"MaxUnpool{dims}DBackward0"
    return entitled(formatted(result, input), title)


def _unpooled(
    input: Tensor, kernel: tuple, stride: tuple, padding: tuple, output_size: Sequence[int] | None
) -> list[int]:
    dims = len(kernel)
    default = [
        (size - 1) * s + k - 2 * p for size, k, s, p in zip(input.shape[-dims:], kernel, stride, padding, strict=True)
    ]
    if output_size is None:
        return default
    wanted = list(output_size)
    if len(wanted) == dims + 2:
        wanted = wanted[2:]
    if len(wanted) != dims:
        raise ValueError(
            f"output_size should be a sequence containing {dims} or {dims + 2} elements, but it has a length of "
            f"'{len(output_size)}'"
        )
    for i, (size, most, step) in enumerate(zip(wanted, default, stride, strict=True)):
        if not most - step < size < most + step:
            raise ValueError(
                f'invalid output_size "{tuple(output_size)}" (dim {i} must be between {most - step} and {most + step})'
            )
    return wanted


@autocasts("float32")
def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Put the results of `max_pool1d` where they come from, among zeros; see `max_unpool2d`."""
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


@autocasts("float32")
def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Put the results of `max_pool2d` where they come from, among zeros.

    Parameters
    ----------
    input : Tensor, shape (N, C, H, W) or (C, H, W)
    indices : Tensor of int64, shape of the input
        As `max_pool2d` returns them.
    kernel_size, stride, padding : int or pair of int
        Of the pooling.
    output_size : sequence of int, optional
        Sizes of the image, where several are possible.

    Raises
    ------
    RuntimeError
        If an index lies outside the image.
    ValueError
        If no image of `output_size` gives a result of these sizes.
    """
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


@autocasts("float32")
def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Put the results of `max_pool3d` where they come from, among zeros; see `max_unpool2d`."""
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)
