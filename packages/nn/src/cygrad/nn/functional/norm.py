"""Normalisation to mean 0 and variance 1 over a batch, a layer, a group or an instance."""

from __future__ import annotations

from collections.abc import Sequence

import cygrad
from cygrad import Tensor
from cygrad.autograd import _core
from cygrad.autograd._core import entitled
from cygrad.autograd.autocasting import raised
from cygrad.nn.functional.checks import HALVES, allow_tensors, require_tensor

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "rms_norm"]


def _check_dtypes(name: str, input: Tensor, *others: Tensor | None) -> None:
    """Weights have the dtype of the input, or float32 beside halves."""
    if not input.is_floating_point():
        raise NotImplementedError(f"{name} is not implemented for {input.dtype}")
    for other in others:
        if other is not None and other.dtype != input.dtype:
            if input.dtype in HALVES and other.dtype == cygrad.float32:
                continue
            raise RuntimeError(
                f"{name}: mixed dtype (CPU): all inputs must share same datatype, got {input.dtype} and {other.dtype}"
            )


def _wide(input: Tensor) -> Tensor:
    """Halves as float32, in which their sums are taken."""
    return input.float() if input.dtype in HALVES else input


def _dense(input: Tensor) -> Tensor:
    """The input in an order that the result may have: channels first or last."""
    formats = {4: cygrad.channels_last, 5: cygrad.channels_last_3d}
    if input.dim() in formats and input.is_contiguous(memory_format=formats[input.dim()]):
        return input
    return input.contiguous()


def _normal(x: Tensor, dims: Sequence[int], eps: float) -> Tensor:
    var, mean = cygrad.var_mean(x, tuple(dims), correction=0, keepdim=True)
    return (x - mean) * (var + eps).rsqrt()


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None, shape: Sequence[int]) -> Tensor:
    if weight is not None:
        x = x * weight.view(shape)
    return x if bias is None else x + bias.view(shape)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel over the batch and all places.

    Ioffe and Szegedy, "Batch normalization: accelerating deep network training by reducing internal covariate shift"
    (2015).

    Parameters
    ----------
    input : Tensor, shape (N, C, *)
        Floating point.
    running_mean, running_var : Tensor, shape (C,), optional
        Statistics to use; with `training` they are moved towards those of the batch (whose variance is taken with
        Bessel's correction).
    weight, bias : Tensor, shape (C,), optional
        Scale and offset of the result.
    training : bool
        Use the statistics of the batch.
    momentum : float
        Share by which the running statistics move.
    eps : float
        Added to the variance.

    Raises
    ------
    ValueError
        If `training` has one value for each channel only.
    RuntimeError
        If sizes or dtypes do not go together, or statistics are missing.
    """
    require_tensor("batch_norm", "input", input)
    allow_tensors("batch_norm", running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    channels = input.shape[1] if input.dim() > 1 else 0
    if input.dim() < 2 and not input.numel():
        return input.clone()
    count = input.numel() // channels if channels else 0
    if training and count == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
    for name, value in (
        ("running_mean", running_mean),
        ("running_var", running_var),
        ("weight", weight),
        ("bias", bias),
    ):
        if value is not None and value.numel() != channels:
            raise RuntimeError(f"{name} should contain {channels} elements not {value.numel()}")
        if value is None and not training and name.startswith("running"):
            raise RuntimeError(f"{name} must be defined in evaluation mode")
    _check_dtypes("batch_norm", input, running_mean, running_var, weight, bias)
    shape = [channels if d == 1 else 1 for d in range(input.dim())]
    x = _wide(_dense(input))
    if not training:
        scale = (running_var + eps).rsqrt()
        scale = scale if weight is None else scale * weight
        result = _affine((x - running_mean.view(shape)) * scale.view(shape), None, bias, shape).to(input.dtype)
        return entitled(result, "NativeBatchNormBackward0")
    weight = cygrad.ones(channels, dtype=x.dtype, device=x.device) if weight is None else weight.to(x.dtype)
    bias = cygrad.zeros(channels, dtype=x.dtype, device=x.device) if bias is None else bias.to(x.dtype)
    result, stats = _core.batch_norm(x, weight, bias, eps)
    if count:
        _move(running_mean, stats[0], momentum)
        _move(running_var, stats[2] * (count / (count - 1)), momentum)
    return entitled(result.to(input.dtype), "NativeBatchNormBackward0")


def _move(running: Tensor | None, value: Tensor, momentum: float) -> None:
    if running is not None:
        with cygrad.no_grad():
            running.mul_(1 - momentum).add_(value.detach().view_as(running), alpha=momentum)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise over the last dimensions.

    Ba et al., "Layer normalization" (2016).

    Parameters
    ----------
    input : Tensor
        Floating point.
    normalized_shape : sequence of int
        The sizes of these dimensions.
    weight, bias : Tensor of this shape, optional
        Scale and offset of the result.
    eps : float
        Added to the variance.

    Raises
    ------
    RuntimeError
        If the shapes do not go together.
    """
    require_tensor("layer_norm", "input", input)
    allow_tensors("layer_norm", weight=weight, bias=bias)
    _last_dims("layer_norm", input, normalized_shape, weight, bias)
    input, weight, bias = raised(input, weight, bias)
    _check_dtypes("layer_norm", input, weight, bias)
    x, sizes = _wide(input), tuple(normalized_shape)
    scale = cygrad.ones(sizes, dtype=x.dtype, device=x.device) if weight is None else weight.to(x.dtype)
    shift = cygrad.zeros(sizes, dtype=x.dtype, device=x.device) if bias is None else bias.to(x.dtype)
    return entitled(_core.layer_norm(x, scale, shift, eps).to(input.dtype), "NativeLayerNormBackward0")


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divide by the root of the mean square over the last dimensions.

    Zhang and Sennrich, "Root mean square layer normalization" (2019).

    Parameters
    ----------
    input : Tensor
        Floating point or complex: squares of complex numbers are complex here, as in PyTorch.
    normalized_shape : sequence of int
        The sizes of these dimensions.
    weight : Tensor of this shape, optional
        Scale of the result.
    eps : float, optional
        Added to the mean square; by default the dtype's smallest step from 1.

    Raises
    ------
    RuntimeError
        If the shapes do not go together.
    """
    require_tensor("rms_norm", "input", input)
    allow_tensors("rms_norm", weight=weight)
    dims = _last_dims("rms_norm", input, normalized_shape, weight)
    input, weight = raised(input, weight)
    x = _wide(_dense(input))
    eps = cygrad.finfo(x.dtype).eps if eps is None else eps
    root = ((x * x).mean(dims, keepdim=True) + eps).rsqrt()
    return _affine(x * root, weight, None, tuple(normalized_shape)).to(input.dtype)


def _last_dims(name: str, input: Tensor, shape: Sequence[int], *weights: Tensor | None) -> tuple[int, ...]:
    """The dimensions that a shape names, if they and the weights have it."""
    if isinstance(shape, int):
        raise TypeError(f"{name}(): argument 'normalized_shape' must be tuple of ints, not int")
    sizes = list(shape)
    if not sizes:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
            "normalized_shape = []"
        )
    for what, value in zip(("weight", "bias"), weights, strict=False):
        if value is not None and list(value.shape) != sizes:
            raise RuntimeError(
                f"Expected {what} to be of same shape as normalized_shape, but got {what} of shape "
                f"{list(value.shape)} and normalized_shape = {sizes}"
            )
    if list(input.shape[-len(sizes) :]) != sizes:
        wanted = ", ".join(map(str, sizes))
        raise RuntimeError(
            f"Given normalized_shape={sizes}, expected input with shape [*, {wanted}], but got input of "
            f"size{list(input.shape)}"
        )
    return tuple(range(-len(sizes), 0))


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalise each group of channels of each item.

    Wu and He, "Group normalization" (2018).

    Parameters
    ----------
    input : Tensor, shape (N, C, *)
        Floating point.
    num_groups : int
        Divides C.
    weight, bias : Tensor, shape (C,), optional
        Scale and offset of the result.
    eps : float
        Added to the variance.

    Raises
    ------
    ValueError
        If a group of an item and its batch have one value only.
    RuntimeError
        If the sizes do not go together.
    """
    require_tensor("group_norm", "input", input)
    allow_tensors("group_norm", weight=weight, bias=bias)
    input, weight, bias = raised(input, weight, bias)
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    batch, channels, *place = input.shape
    if num_groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    if channels % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(input.shape)} and num_groups={num_groups}"
        )
    for what, value in (("weight", weight), ("bias", bias)):
        if value is not None and tuple(value.shape) != (channels,):
            raise RuntimeError(
                f"Expected {what} to be a vector of size equal to the number of channels in input, but got {what} of "
                f"shape {list(value.shape)} and input of shape {list(input.shape)}"
            )
    if input.numel() and input.numel() == num_groups:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {list(input.shape)}")
    _check_dtypes("group_norm", input, weight, bias)
    parts = _wide(_dense(input)).reshape(batch, num_groups, channels // num_groups, *place)
    normal = _normal(parts, range(2, parts.dim()), eps).reshape(input.shape)
    shape = [channels if d == 1 else 1 for d in range(input.dim())]
    return entitled(_affine(normal, weight, bias, shape).to(input.dtype), "NativeGroupNormBackward0")


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel of each item over its places.

    Ulyanov et al., "Instance normalization: the missing ingredient for fast stylization" (2016).

    Parameters
    ----------
    input : Tensor, shape (N, C, *)
        Floating point.
    running_mean, running_var, weight, bias, momentum, eps
        See `batch_norm`; the running statistics move towards the mean of those of the items.
    use_input_stats : bool
        When False, the running statistics are used.

    Raises
    ------
    ValueError
        If an item has one place only.
    RuntimeError
        If sizes or dtypes do not go together, or statistics are missing.
    """
    require_tensor("instance_norm", "input", input)
    allow_tensors("instance_norm", running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    channels, *place = input.shape[1:] if input.dim() > 1 else (0,)
    count = 1
    for size in place:
        count *= size
    if count == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    for name, value in (
        ("running_mean", running_mean),
        ("running_var", running_var),
        ("weight", weight),
        ("bias", bias),
    ):
        if value is not None and value.numel() != channels:
            raise RuntimeError(f"{name} should contain {channels} elements not {value.numel()}")
    _check_dtypes("instance_norm", input, running_mean, running_var, weight, bias)
    x = _wide(input.contiguous())
    dims = tuple(range(2, input.dim()))
    var, mean = cygrad.var_mean(x, dims, correction=0, keepdim=True)
    if count:
        _move(running_mean, mean.mean(0), momentum)
        _move(running_var, (var * (count / (count - 1))).mean(0), momentum)
    shape = [channels if d == 1 else 1 for d in range(input.dim())]
    result = _affine((x - mean) * (var + eps).rsqrt(), weight, bias, shape).to(input.dtype)
    return entitled(result, "ViewBackward0")  # PyTorch's is a batch norm, seen in the shape of the input


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divide by a power of the mean square of neighbouring channels.

    Krizhevsky et al., "ImageNet classification with deep convolutional neural networks" (2012).

    Parameters
    ----------
    input : Tensor, shape (N, C, *)
        Of three dimensions or more.
    size : int
        How many channels are neighbours.
    alpha, beta, k : float
        The divisor is ``(k + alpha * mean) ** beta``; channels beyond the ends count as zeros.

    Raises
    ------
    ValueError
        If the input has fewer dimensions.
    RuntimeError
        If `size` is not positive.
    """
    require_tensor("local_response_norm", "input", input)
    if input.dim() < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.dim()} dimensions)")
    if size <= 0:
        raise RuntimeError(f"kernel size should be greater than zero, but got {size}")
    if input.numel() == 0:
        return input
    ends = [0] * (2 * (input.dim() - 2)) + [size // 2, (size - 1) // 2]
    squares = cygrad.constant_pad_nd(input * input, tuple(ends), 0)
    windows = squares.unfold(1, size, 1)
    whole = not (squares.is_floating_point() or squares.is_complex())       # whose means are cut, as PyTorch's pools
    mean = windows.sum(-1) // size if whole else windows.mean(-1)
    return input / (mean * alpha + k) ** beta
