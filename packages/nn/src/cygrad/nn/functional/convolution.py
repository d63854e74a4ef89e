"""Convolutions, transposed ones, and patches as a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cygrad
from cygrad import Tensor
from cygrad.autograd import _core
from cygrad.autograd.autocasting import autocasts
from cygrad.nn.functional.checks import HALVES, formatted, per_dimension, require_tensor
from cygrad.nn.functional.integers import convolved

__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "fold",
    "unfold",
]

Sizes = int | Sequence[int]


def _batched(name: str, input: Tensor, dims: int) -> tuple[Tensor, bool]:
    """The input with a batch dimension, and whether it had one."""
    require_tensor(name, "input", input)
    if input.dim() not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to {name}, but got input of size: "
            f"{list(input.shape)}"
        )
    return (input, True) if input.dim() == dims + 2 else (input.unsqueeze(0), False)


def _check_weight(
    name: str, input: Tensor, weight: Tensor, bias: Tensor | None, dims: int, filters_dim: int, groups: int
) -> None:
    require_tensor(name, "weight", weight)
    if weight.dim() != dims + 2:
        raise RuntimeError(
            f"expected {dims + 2}-dimensional weight for {dims + 2}-dimensional input, but got weight of size "
            f"{list(weight.shape)} instead: {name}"
        )
    if weight.shape[0] < max(groups, 1):
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size "
            f"{list(weight.shape)} instead"
        )
    if 0 in weight.shape[2:]:
        raise RuntimeError(f"kernel size should be greater than zero, but got weight of size {list(weight.shape)}")
    if 0 in input.shape[2:] and 0 not in input.shape[:2]:
        raise RuntimeError(
            f"Only zero batch or zero channel inputs are supported, but got input shape: {list(input.shape)}"
        )
    if bias is None:
        return
    require_tensor(name, "bias", bias)
    if bias.dtype != input.dtype:
        raise RuntimeError(f"Input type ({input.dtype}) and bias type ({bias.dtype}) should be the same: {name}")
    filters = weight.shape[filters_dim] * (groups if filters_dim else 1)
    if tuple(bias.shape) != (filters,):
        raise RuntimeError(
            f"Given {'transposed=1, ' if filters_dim else ''}weight of size {list(weight.shape)}, expected bias to be "
            f"1-dimensional with {filters} elements, but got bias of size {list(bias.shape)} instead"
        )


def _by_parts(run: Callable[..., Tensor], x: Tensor, weight: Tensor, *numbers: tuple[int, ...]) -> Tensor:
    """A convolution of floats, of integers or, part by part, of complex numbers."""
    if x.dtype == weight.dtype and not (x.is_floating_point() or x.is_complex() or x.dtype == cygrad.bool):
        return convolved(run, x, weight, *numbers)
    if not (x.is_complex() and weight.is_complex()):
        return run(x, weight, *numbers)
    real = run(x.real, weight.real, *numbers) - run(x.imag, weight.imag, *numbers)
    return cygrad.complex(real, run(x.real, weight.imag, *numbers) + run(x.imag, weight.real, *numbers))


def _widened(x: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Halves as float32 where a bias will be added, so that the sum is rounded once."""
    if bias is None or x.dtype != weight.dtype or x.dtype not in HALVES:
        return x, weight, bias
    return x.float(), weight.float(), bias.float()


def _finished(result: Tensor, bias: Tensor | None, batched: bool, dims: int, input: Tensor) -> Tensor:
    """The result with the bias, in the layout and the dimensions of the input."""
    if bias is not None:
        result = (result + bias.view(-1, *(1,) * dims)).to(input.dtype)
    if not batched:
        return formatted(result.squeeze(0), input)
    return _core.entitled(formatted(result, input), "ConvolutionBackward0")


def _conv(
    dims: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Sizes | str,
    dilation: Sizes,
    groups: int,
) -> Tensor:
    name = f"conv{dims}d"
    x, batched = _batched(name, input, dims)
    _check_weight(name, x, weight, bias, dims, 0, groups)
    stride = per_dimension("stride", stride, dims)
    dilation = per_dimension("dilation", dilation, dims)
    if isinstance(padding, str):
        x, padding = _named_padding(x, weight, padding, stride, dilation, dims)
    padding = per_dimension("padding", padding, dims)
    geometry = (*stride, *padding, *dilation, groups)
    if bias is not None and x.is_floating_point():
        result = _core.convolution_bias(x, weight, bias.view(-1, *(1,) * dims), geometry)
        return _finished(result, None, batched, dims, input)
    return _finished(_by_parts(_core.convolution, x, weight, geometry), bias, batched, dims, input)


def _named_padding(
    x: Tensor, weight: Tensor, padding: str, stride: tuple, dilation: tuple, dims: int
) -> tuple[Tensor, tuple[int, ...]]:
    """The padding that a word means; what cannot be the same at both ends is put on before."""
    if padding == "valid":
        return x, (0,) * dims
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: {padding!r}: 'valid' and 'same' are known")
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    totals = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    if any(total % 2 for total in totals):
        widths = [width for total in reversed(totals) for width in (0, total % 2)]
        x = cygrad.constant_pad_nd(x, tuple(widths), 0)
    return x, tuple(total // 2 for total in totals)


@autocasts("low")
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Slide filters over sequences; see `conv2d`.

    Parameters
    ----------
    input : Tensor, shape (N, C, L) or (C, L)
    weight : Tensor, shape (F, C / groups, K)
    bias, stride, padding, dilation, groups
        See `conv2d`.

    Returns
    -------
    Tensor, shape (N, F, L') or (F, L')
    """
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


@autocasts("low")
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Slide filters over images: sums of products, without turning the filters round.

    Parameters
    ----------
    input : Tensor, shape (N, C, H, W) or (C, H, W)
    weight : Tensor, shape (F, C / groups, KH, KW)
        F filters.
    bias : Tensor, shape (F,), optional
    stride : int or pair of int
        Steps between places.
    padding : int, pair of int, or str
        Zeros at both ends; ``"valid"`` is none, ``"same"`` so many that the result has the sizes of the input.
    dilation : int or pair of int
        Steps between the elements of a filter.
    groups : int
        Parts into which channels and filters are cut, each with the others' nothing to do.

    Returns
    -------
    Tensor, shape (N, F, H', W') or (F, H', W')
        ``H' = (H + 2 * padding - dilation * (KH - 1) - 1) // stride + 1``.

    Raises
    ------
    RuntimeError
        If sizes or dtypes do not go together.
    """
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


@autocasts("low")
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Slide filters over volumes; see `conv2d`.

    Parameters
    ----------
    input : Tensor, shape (N, C, D, H, W) or (C, D, H, W)
    weight : Tensor, shape (F, C / groups, KD, KH, KW)
    bias, stride, padding, dilation, groups
        See `conv2d`.

    Returns
    -------
    Tensor, shape (N, F, D', H', W') or (F, D', H', W')
    """
    return _conv(3, input, weight, bias, stride, padding, dilation, groups)


def _conv_transpose(
    dims: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Sizes,
    output_padding: Sizes,
    groups: int,
    dilation: Sizes,
) -> Tensor:
    name = f"conv_transpose{dims}d"
    x, batched = _batched(name, input, dims)
    _check_weight(name, x, weight, bias, dims, 1, groups)
    stride, padding, dilation, more = (
        per_dimension(what, value, dims)
        for what, value in (
            ("stride", stride),
            ("padding", padding),
            ("dilation", dilation),
            ("output_padding", output_padding),
        )
    )
    if groups <= 0:
        raise RuntimeError(f"non-positive groups is not supported: {name} with groups={groups}")
    if x.shape[1] != weight.shape[0]:
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(weight.shape)}, expected input{list(input.shape)} to have "
            f"{weight.shape[0]} channels, but got {x.shape[1]} channels instead"
        )
    if any(m < 0 for m in more):
        raise RuntimeError(f"negative output_padding is not supported: {name} with output_padding={more}")
    if any(m >= s and m >= d for m, s, d in zip(more, stride, dilation, strict=True)):
        raise RuntimeError(
            f"output padding must be smaller than either stride or dilation, but got output_padding={more}, "
            f"stride={stride}, dilation={dilation}"
        )
    # Several inputs of a convolution have results of one size; but beyond a whole step it would have another place.
    cropped = any(m >= s for m, s in zip(more, stride, strict=True))
    kept, sizes = [], []
    for i in range(dims):
        full = (x.shape[2 + i] - 1) * stride[i] + dilation[i] * (weight.shape[2 + i] - 1) + 1
        kept.append(full - 2 * padding[i] + more[i])
        sizes.append(full if cropped else kept[i])
        if not 1 <= kept[i] <= 0x7FFFFFFF:
            raise RuntimeError(
                f"{name}: the result would have size {kept[i]} at dimension {i}, from an input of {list(input.shape)} "
                f"and a weight of {list(weight.shape)}"
            )
    shape = (x.shape[0], weight.shape[1] * groups, *sizes)
    pads = (0,) * dims if cropped else padding
    x, weight, bias = _widened(x, weight, bias)
    result = _by_parts(_core.convolution_input, x, weight, (*stride, *pads, *dilation, groups), shape)
    if cropped:
        ends = [(-padding[i], kept[i] + padding[i] - sizes[i]) for i in reversed(range(dims))]
        result = cygrad.constant_pad_nd(result, tuple(width for pair in ends for width in pair), 0)
    return _finished(result, bias, batched, dims, input)


@autocasts("low")
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """The transposed map of `conv1d`; see `conv_transpose2d`.

    Parameters
    ----------
    input : Tensor, shape (N, C, L) or (C, L)
    weight : Tensor, shape (C, F / groups, K)
    bias, stride, padding, output_padding, groups, dilation
        See `conv_transpose2d`.
    """
    return _conv_transpose(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@autocasts("low")
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """The transposed map of `conv2d`, which is its gradient for the input.

    Parameters
    ----------
    input : Tensor, shape (N, C, H, W) or (C, H, W)
    weight : Tensor, shape (C, F / groups, KH, KW)
    bias : Tensor, shape (F,), optional
    stride, padding, dilation : int or pair of int
        Of the convolution whose transposed map this is.
    output_padding : int or pair of int
        Added to the sizes of the result, at one end: several inputs of the convolution have results of one size.
    groups : int
        See `conv2d`.

    Returns
    -------
    Tensor, shape (N, F, H', W') or (F, H', W')
        ``H' = (H - 1) * stride - 2 * padding + dilation * (KH - 1) + output_padding + 1``.

    Raises
    ------
    RuntimeError
        If sizes or dtypes do not go together.
    """
    return _conv_transpose(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@autocasts("low")
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """The transposed map of `conv3d`; see `conv_transpose2d`.

    Parameters
    ----------
    input : Tensor, shape (N, C, D, H, W) or (C, D, H, W)
    weight : Tensor, shape (C, F / groups, KD, KH, KW)
    bias, stride, padding, output_padding, groups, dilation
        See `conv_transpose2d`.
    """
    return _conv_transpose(3, input, weight, bias, stride, padding, output_padding, groups, dilation)


def unfold(input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> Tensor:
    """Return the windows of images as columns.

    Parameters
    ----------
    input : Tensor, shape (N, C, H, W) or (C, H, W)
    kernel_size, dilation, padding, stride : int or pair of int
        As of a convolution.

    Returns
    -------
    Tensor, shape (N, C * KH * KW, places) or without N

    Raises
    ------
    RuntimeError
        If no window fits.
    """
    require_tensor("unfold", "input", input)
    if input.dim() not in (3, 4) or any(size == 0 for size in input.shape[input.dim() - 3 :]):
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, "
            f"but got: {list(input.shape)}"
        )
    x = input if input.dim() == 4 else input.unsqueeze(0)
    kernel, dilation, padding, stride = _windows(kernel_size, dilation, padding, stride)
    blocks = [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, d, p, s in zip(x.shape[2:], kernel, dilation, padding, stride, strict=True)
    ]
    if min(blocks) < 1:
        raise RuntimeError(
            f"Given input with spatial size {tuple(x.shape[2:])}, kernel_size={kernel}, dilation={dilation}, "
            f"padding={padding}, calculated shape of the array of sliding blocks as {tuple(blocks)}, but its "
            "components must be at least one."
        )
    result = _moved(x, lambda part: _core.im2col(part, (*kernel, *stride, *padding, *dilation)))
    result = _core.entitled(result, "Im2ColBackward0")
    return result if input.dim() == 4 else result.squeeze(0)


def fold(
    input: Tensor,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """Add the columns that `unfold` gives where they come from.

    Parameters
    ----------
    input : Tensor, shape (N, C * KH * KW, places) or without N
    output_size : int or pair of int
        Sizes of the images.
    kernel_size, dilation, padding, stride : int or pair of int
        See `unfold`.

    Returns
    -------
    Tensor, shape (N, C, H, W) or (C, H, W)

    Raises
    ------
    RuntimeError
        If the number of columns, or their length, does not fit.
    """
    require_tensor("fold", "input", input)
    if input.dim() not in (2, 3) or any(size == 0 for size in input.shape[input.dim() - 2 :]):
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for "
            f"input, but got: {list(input.shape)}"
        )
    x = input if input.dim() == 3 else input.unsqueeze(0)
    kernel, dilation, padding, stride = _windows(kernel_size, dilation, padding, stride)
    sizes = per_dimension("output_size", output_size, 2)
    result = _moved(x, lambda part: _core.col2im(part, (*kernel, *stride, *padding, *dilation), sizes))
    result = _core.entitled(result, "Col2ImBackward0")
    return result if input.dim() == 3 else result.squeeze(0)


def _moved(x: Tensor, run: Callable[[Tensor], Tensor]) -> Tensor:
    """What `run`, which moves and adds floats, does with numbers of other kinds: complex ones by parts."""
    if x.is_complex():
        return cygrad.complex(run(x.real), run(x.imag))
    return run(x.float()).bool() if x.dtype == cygrad.bool else run(x)


def _windows(kernel: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes) -> tuple[tuple[int, ...], ...]:
    named = (("kernel_size", kernel), ("dilation", dilation), ("padding", padding), ("stride", stride))
    pairs = tuple(per_dimension(name, value, 2) for name, value in named)
    for (name, _), pair in zip(named, pairs, strict=True):
        if min(pair) < (0 if name == "padding" else 1):
            least = "non-negative" if name == "padding" else "greater than zero"
            raise RuntimeError(f"{name} should be {least}, but got {pair}")
    return pairs
