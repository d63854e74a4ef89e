"""Gradients of convolutions for their input and their weight, as functions."""

from __future__ import annotations

from collections.abc import Sequence

from cygrad import Tensor
from cygrad.autograd import _core
from cygrad.nn.functional.checks import per_dimension, require_tensor

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]

Sizes = int | Sequence[int]


def _geometry(
    name: str,
    input_size: Sequence[int],
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    groups: int,
) -> tuple[int, ...]:
    """The numbers of a convolution, if its input, weight and gradient go together."""
    dims = int(name[4])
    require_tensor(name, "grad_output", grad_output)
    wanted = None
    numbers = [per_dimension(word, value, dims) for word, value in
               (("stride", stride), ("padding", padding), ("dilation", dilation))]  # fmt: skip
    if len(input_size) == len(weight_size) == dims + 2 and groups > 0 and min(*numbers[0], *numbers[2]) > 0:
        batch, channels, *place = input_size
        filters, part, *kernel = weight_size
        if channels == part * groups and filters % groups == 0:
            found = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p,
                d in zip(place, kernel, *numbers, strict=True)]
            wanted = (batch, filters, *found) if min(found) > 0 else None
    if wanted is None or tuple(grad_output.shape) != wanted:
        raise RuntimeError(
            f"{name}: an input of {list(input_size)}, a weight of {list(weight_size)}, stride={stride}, "
            f"padding={padding}, dilation={dilation} and groups={groups} "
            + ("do not go together" if wanted is None else f"have a result of {list(wanted)}")
            + f", got grad_output of {list(grad_output.shape)}"
        )
    return (*(n for triple in numbers for n in triple), groups)


def _input(name: str, input_size: Sequence[int], weight: Tensor, grad_output: Tensor, *numbers: Sizes) -> Tensor:
    require_tensor(name, "weight", weight)
    geometry = _geometry(name, input_size, weight.shape, grad_output, *numbers)
    return _core.convolution_input(grad_output, weight, geometry, tuple(input_size))


def _weight(name: str, input: Tensor, weight_size: Sequence[int], grad_output: Tensor, *numbers: Sizes) -> Tensor:
    require_tensor(name, "input", input)
    geometry = _geometry(name, input.shape, weight_size, grad_output, *numbers)
    return _core.convolution_weight(grad_output, input, geometry, tuple(weight_size))


def conv1d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of `conv1d` for its input; see `conv2d_input`."""
    return _input("conv1d_input", input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of `conv1d` for its weight; see `conv2d_weight`."""
    return _weight("conv1d_weight", input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of `cygrad.nn.functional.conv2d` for its input.

    Parameters
    ----------
    input_size : sequence of int
        Shape of the input, (N, C, H, W).
    weight : Tensor
        The filters.
    grad_output : Tensor
        Gradient of the result.
    stride, padding, dilation, groups
        Of the convolution.

    Raises
    ------
    RuntimeError
        If the shapes do not go together.
    """
    return _input("conv2d_input", input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of `cygrad.nn.functional.conv2d` for its weight.

    Parameters
    ----------
    input : Tensor, shape (N, C, H, W)
    weight_size : sequence of int
        Shape of the filters.
    grad_output, stride, padding, dilation, groups
        See `conv2d_input`.

    Raises
    ------
    RuntimeError
        If the shapes do not go together.
    """
    return _weight("conv2d_weight", input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of `conv3d` for its input; see `conv2d_input`."""
    return _input("conv3d_input", input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of `conv3d` for its weight; see `conv2d_weight`."""
    return _weight("conv3d_weight", input, weight_size, grad_output, stride, padding, dilation, groups)
