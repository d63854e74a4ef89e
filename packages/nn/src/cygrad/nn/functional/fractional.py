"""Maxima of windows that begin at random places."""

from __future__ import annotations

from collections.abc import Sequence

import cygrad
from cygrad import Tensor
from cygrad.autograd._core import entitled
from cygrad.nn.functional.checks import per_dimension, require_tensor

__all__ = [
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
]

Sizes = int | Sequence[int]
Ratios = float | Sequence[float]
Both = tuple[Tensor, Tensor]


def _picked(input: Tensor, index: Tensor, dims: int) -> Tensor:
    """The elements of each plane that an index names."""
    return input.flatten(-dims).gather(-1, index.flatten(-dims)).view(index.shape)


def _output(name: str, dims: int, input: Tensor, size: Sizes | None, ratio: Ratios | None) -> tuple[int, ...]:
    if size is None and ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if size is not None:
        return per_dimension("output_size", size, dims)
    ratios = (ratio,) * dims if isinstance(ratio, (int, float)) else tuple(ratio)
    if len(ratios) != dims:
        raise ValueError(f"{name} requires output_ratio to be a single number or {dims} of them, got {ratio}")
    return tuple(int(n * r) for n, r in zip(input.shape[-dims:], ratios, strict=True))


def _starts(samples: Tensor, size: int, out: int, kernel: int) -> Tensor:
    """Where the windows of each plane begin: steps of a fraction, rounded from a random offset; the last is at the
    end."""
    last = samples.new_full((*samples.shape, 1), size - kernel).long()
    if out == 1:
        return last
    alpha = (samples.new_full((), size - kernel) / samples.new_full((), out - 1)).to(samples.dtype)
    at = cygrad.arange(out - 1, dtype=samples.dtype, device=samples.device)
    offset = samples.unsqueeze(-1)
    return cygrad.cat([((at + offset) * alpha).long() - (offset * alpha).long(), last], -1)


def _fractional_max_pool(
    dims: int,
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None,
    output_ratio: Ratios | None,
    samples: Tensor | None,
) -> Both:
    name = f"fractional_max_pool{dims}d"
    require_tensor(name, "input", input)
    if input.dim() not in (dims + 1, dims + 2) or 0 in input.shape[input.dim() - dims - 1 :]:
        raise RuntimeError(
            f"{name}(): Expected {dims + 1}D or {dims + 2}D tensor with no empty dimension behind the batch for input, "
            f"but got: {list(input.shape)}"
        )
    if not input.is_floating_point():
        raise NotImplementedError(f"{name} is not implemented for {input.dtype}")
    kernel = per_dimension("kernel_size", kernel_size, dims)
    out = _output(name, dims, input, output_size, output_ratio)
    place = tuple(input.shape[-dims:])
    for word, n, o, k in zip(("time", "height", "width")[-dims:], place, out, kernel, strict=True):
        if o < 1 or k < 1 or o + k - 1 > n:
            raise RuntimeError(f"{name}(): pool {word} {k} with {o} results does not fit an input of {word} {n}")
    x = input if input.dim() == dims + 2 else input.unsqueeze(0)
    if samples is None:
        samples = cygrad.rand(*x.shape[:2], dims, dtype=input.dtype, device=input.device)
    elif tuple(samples.shape) != (*x.shape[:2], dims) or samples.dtype != input.dtype:
        raise RuntimeError(
            f"Expect _random_samples of shape {(*x.shape[:2], dims)} and {input.dtype}, got {tuple(samples.shape)} and "
            f"{samples.dtype}"
        )
    # The samples of images are for width and height, those of volumes for time, height and width.
    order = (1, 0) if dims == 2 else (0, 1, 2)
    index = 0
    for d in range(dims):
        starts = _starts(samples[..., order[d]], place[d], out[d], kernel[d])
        at = starts.unsqueeze(-1) + cygrad.arange(kernel[d], device=x.device)
        shape = [*x.shape[:2], *(1,) * (2 * dims)]
        shape[2 + d], shape[2 + dims + d] = out[d], kernel[d]
        index = index * place[d] + at.reshape(shape)
    windows = index.flatten(-dims)  # (N, C, *out, elements of a window)
    found = x.detach().flatten(-dims).gather(-1, windows.flatten(2)).view(windows.shape)
    index = windows.gather(-1, found.argmax(-1, keepdim=True)).squeeze(-1)
    values = entitled(_picked(x, index, dims), f"FractionalMaxPool{dims}DBackward0")
    return (values, index) if x is input else (values.squeeze(0), index.squeeze(0))


def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Both:
    """Return the results of `fractional_max_pool2d` and where they come from."""
    return _fractional_max_pool(2, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Both:
    """Return the results of `fractional_max_pool3d` and where they come from."""
    return _fractional_max_pool(3, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor | Both:
    """Return the largest elements of windows of images whose distances are drawn, one or another whole number.

    Graham, "Fractional max-pooling" (2014).

    Parameters
    ----------
    input : Tensor, shape (N, C, H, W) or (C, H, W)
        Floating point.
    kernel_size : int or pair of int
        Of the windows.
    output_size : int or pair of int, optional
        Sizes of the result.
    output_ratio : float or pair of float, optional
        They as parts of those of the input, where `output_size` is not given.
    return_indices : bool
        Return the places of the maxima in their planes as well.
    _random_samples : Tensor, shape (N, C, 2), optional
        Numbers in 0 .. 1 to use instead of drawing them.

    Raises
    ------
    ValueError
        If neither size nor ratio is given.
    RuntimeError
        If the windows do not fit.
    """
    both = _fractional_max_pool(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return both if return_indices else both[0]


def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor | Both:
    """Return the largest elements of windows of volumes whose distances are drawn; see `fractional_max_pool2d`."""
    both = _fractional_max_pool(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return both if return_indices else both[0]
