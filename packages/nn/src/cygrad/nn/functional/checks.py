"""What the functions ask of their arguments."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import cygrad
from cygrad import Tensor, bfloat16, channels_last, channels_last_3d, float16
from cygrad.autograd._core import _autocasts, deliver, entitled

HALVES = (float16, bfloat16)


def require_tensor(function: str, argument: str, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{function}(): argument '{argument}' must be Tensor, not {type(value).__name__}")


def outside() -> int:
    """The stacklevel with which a warning of the caller names the code that called cygrad."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("cygrad."):
        level, frame = level + 1, frame.f_back
    return level


def tensors_of(function: str, argument: str, values: Any) -> list[Tensor]:
    """The tensors that an argument names: one, or an iterable, which is read up to the first that is none."""
    if isinstance(values, Tensor):
        return [values]
    if not isinstance(values, Iterable):
        raise TypeError(
            f"{function}(): argument '{argument}' must be Tensor or iterable of Tensors, not {type(values).__name__}"
        )
    found = []
    for i, value in enumerate(values):
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{function}(): argument '{argument}' must be Tensor or iterable of Tensors, but element {i} is "
                f"{type(value).__name__}"
            )
        found.append(value)
    return found


def require_tensors(function: str, **values: Any) -> None:
    for argument, value in values.items():
        require_tensor(function, argument, value)


def allow_tensors(function: str, **values: Any) -> None:
    """Arguments that are tensors, or None where they are left out."""
    for argument, value in values.items():
        if value is not None:
            require_tensor(function, argument, value)


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction that the arguments ask for; the two flags are PyTorch's old way to say it."""
    if size_average is not None or reduce is not None:
        if reduce is False:
            reduction = "none"
        else:
            reduction = "sum" if size_average is False else "mean"
        warnings.warn(f"size_average and reduce are deprecated: use reduction={reduction!r}", stacklevel=outside())
    elif reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction!r} is not a valid value for reduction: use 'none', 'mean' or 'sum'")
    return reduction


def reduced(losses: Tensor, reduction: str, title: str | None = None) -> Tensor:
    """The losses, reduced; `title` names the last node as PyTorch does, whose losses are one operation."""
    result = losses.mean() if reduction == "mean" else losses.sum() if reduction == "sum" else losses
    return result if title is None else entitled(result, title)


def with_out(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function that takes the keyword argument `out`, a tensor that receives the result."""

    @functools.wraps(function)
    def call(*args: Any, out: Tensor | None = None, **kwargs: Any) -> Tensor:
        result = function(*args, **kwargs)
        return result if out is None else deliver(result, out, True)

    return call


def halves_in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of several steps that computes in float32 if all its tensors are halves of one dtype.

    Then results are rounded once, and not every step between, of which scores would be wrong by percents.
    """

    def wide(value: Any) -> Any:
        return value.float() if isinstance(value, Tensor) and value.dtype in HALVES else value

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], Tensor) and args[0].dtype not in HALVES:
            return function(*args, **kwargs)
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        dtypes = {x.dtype for x in tensors if x.is_floating_point() or x.is_complex()}
        if len(dtypes) != 1 or not dtypes.issubset(HALVES) or _autocasts():
            return function(*args, **kwargs)
        (half,) = dtypes

        def narrow(result: Tensor) -> Tensor:
            node = result.grad_fn
            return result.to(half) if node is None else entitled(result.to(half), node.name())

        results = function(*map(wide, args), **{name: wide(value) for name, value in kwargs.items()})
        if isinstance(results, tuple):
            return tuple(result if result is None else narrow(result) for result in results)
        return narrow(results)

    return call


LONGEST_KEPT = 4096


def of_sizes(length: int, device: Any, function: Callable, *args: Any) -> Any:
    """What `function` makes of sizes alone: a tensor of that length on `device`, or a list of pairs of them.

    To make them takes longer than to work on a small image: short ones are kept for the next call. On other devices
    than the CPU they would have to be kept for each stream. A graph shows what it saves: what is given out is another
    tensor each time, in memory that refuses to be written.
    """
    if length > LONGEST_KEPT or device.type != "cpu":
        return function(device, *args)
    return _of_each(Tensor.detach, _kept(function, device, *args))


@functools.lru_cache(maxsize=128)
def _kept(function: Callable, *args: Any) -> Any:
    with cygrad.inference_mode(False), cygrad.no_grad():
        return _of_each(_sealed, function(*args))


def _of_each(change: Callable, made: Any) -> Any:
    if isinstance(made, Tensor):
        return change(made)
    return [(change(at), change(weight)) for at, weight in made]


def _sealed(tensor: Tensor) -> Tensor:
    if not tensor.numel():
        return tensor
    numbers = tensor.contiguous().view(cygrad.uint8).numpy().tobytes()
    return cygrad.frombuffer(numbers, dtype=tensor.dtype).view(tensor.shape)


def per_dimension(name: str, value: int | Sequence[int], dims: int) -> tuple[int, ...]:
    """One number for each dimension: a single one stands for all. RuntimeError if there are others, or no ints."""
    if type(value) is int:
        return (value,) * dims
    if type(value) is tuple and len(value) == dims and {*map(type, value)} == {int}:
        return value
    if isinstance(value, Sequence) and not isinstance(value, str):
        numbers = tuple(value) * (dims if len(value) == 1 else 1) if len(value) in (1, dims) else ()
    else:
        numbers = (value,) * dims
    if len(numbers) != dims or not all(hasattr(n, "__index__") and not isinstance(n, bool) for n in numbers):
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {dims} values to match the dimensions, but got "
            f"{name}={value}"
        )
    return tuple(n.__index__() for n in numbers)


def formatted(result: Tensor, input: Tensor) -> Tensor:
    """A result in the memory format of images or volumes that its input has: channels last stay last."""
    if input.dim() not in (4, 5) or input.stride(1) > input.stride(-1) or not _channels_last(input):
        return result
    return result.contiguous(memory_format=channels_last if input.dim() == 4 else channels_last_3d)


def _channels_last(images: Tensor) -> bool:
    """Whether strides grow from channels to width, height (depth) and batch, also where sizes of 1 leave it open."""
    least, strides = 0, images.stride()
    if strides[1] == 0 or images.numel() == 0:
        return False
    for dim in (1, *range(images.dim() - 1, 1, -1), 0):
        if strides[dim] < least or (dim == 0 and least == strides[1]):
            return False
        least = strides[dim] * max(images.shape[dim], 1)
    return True
