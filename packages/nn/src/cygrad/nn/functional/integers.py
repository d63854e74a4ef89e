"""Convolutions of integers: windows are views, products of matrices are exact and wrap around as the dtype does."""

from __future__ import annotations

from collections.abc import Callable

import cygrad
from cygrad import Tensor
from cygrad.autograd import _core


def convolved(
    run: Callable[..., Tensor], x: Tensor, weight: Tensor, geometry: tuple[int, ...], shape: tuple[int, ...] = ()
) -> Tensor:
    """What `run` computes of floats: ``_core.convolution``, or ``_core.convolution_input`` for this shape."""
    empty = x.new_empty((0, *x.shape[1:]), dtype=cygrad.float32)
    if run is _core.convolution:
        run(empty, weight.float(), geometry)                    # raises what is to be raised
        return _windows(x, weight, geometry, [])
    run(empty, weight.float(), geometry, (0, *shape[1:]))
    dims, groups = x.dim() - 2, geometry[-1]
    stride, padding, dilation = (geometry[i * dims : (i + 1) * dims] for i in range(3))
    # The transposed map: zeros between the elements, filters that are turned around.
    apart = x.new_zeros((*x.shape[:2], *(max(0, (n - 1) * s + 1) for n, s in zip(x.shape[2:], stride, strict=True))))
    apart[(..., *(slice(None, None, s) for s in stride))] = x
    ends = []
    for i in range(dims):
        reach = dilation[i] * (weight.shape[2 + i] - 1)
        ends.append((reach - padding[i], shape[2 + i] + padding[i] - apart.shape[2 + i]))
    turned = weight.flip(tuple(range(2, weight.dim()))).unflatten(0, (groups, x.shape[1] // groups))
    turned = turned.transpose(1, 2).flatten(0, 1)
    return _windows(apart, turned, (*(1,) * dims, *(0,) * dims, *dilation, groups), ends)


def _windows(x: Tensor, weight: Tensor, geometry: tuple[int, ...], ends: list[tuple[int, int]]) -> Tensor:
    """Products of the windows of x, of which `ends` tells what is added to each dimension, with the filters."""
    dims, groups = x.dim() - 2, geometry[-1]
    stride, padding, dilation = (geometry[i * dims : (i + 1) * dims] for i in range(3))
    widths = [n for pair in reversed(ends or [(p, p) for p in padding]) for n in pair]
    x = cygrad.constant_pad_nd(x, tuple(widths), 0)
    for i in range(dims):
        x = x.unfold(2 + i, dilation[i] * (weight.shape[2 + i] - 1) + 1, stride[i])[..., :: dilation[i]]
    batch, places = x.shape[0], x.shape[2 : 2 + dims]
    parts = x.unflatten(1, (groups, x.shape[1] // groups)).movedim(2, 2 + dims).transpose(0, 1)
    parts = parts.flatten(2 + dims).flatten(1, -2)              # of groups, batch, places, channels, windows
    filters = weight.unflatten(0, (groups, weight.shape[0] // groups)).flatten(2).transpose(1, 2)
    result = (parts @ filters).view(groups, batch, *places, filters.shape[2])
    return result.movedim(-1, 2).transpose(0, 1).flatten(1, 2).contiguous()
