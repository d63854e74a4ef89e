"""Converting and moving all tensors of a module at once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import cygrad
from cygrad import Tensor
from cygrad.nn.parameter import is_lazy

__all__ = []

M = TypeVar("M", bound="Convertible")


class Convertible:
    """What converts the tensors of a module and its children."""

    _parameters: Any
    _buffers: Any
    children: Callable[[], Iterator[Any]]

    def _apply(self: M, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> M:
        """Replace the values of all parameters (and their gradients) and buffers by ``fn`` of them.

        Parameters stay the same objects, so optimisers and tied weights keep seeing them.
        """
        if recurse:
            for module in self.children():
                module._apply(fn)
        for parameter in self._parameters.values():
            if is_lazy(parameter):
                parameter._become(fn(parameter))
            elif parameter is not None:
                grad = parameter.grad
                with cygrad.no_grad():
                    parameter.data = fn(parameter.data)
                    if grad is not None:
                        parameter.grad = fn(grad.detach()).requires_grad_(grad.requires_grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self: M, *args: Any, **kwargs: Any) -> M:
        """Move or convert parameters and buffers in place, and return this module.

        ``to(device=None, dtype=None, non_blocking=False)``, ``to(dtype)``, ``to(tensor)`` (its dtype and device),
        ``to(memory_format=format)``.

        Parameters
        ----------
        device : str or device, optional
            Where to.
        dtype : dtype, optional
            A floating-point or complex type; integer and bool tensors keep theirs.
        memory_format : memory_format, optional
            For the tensors of 4 and 5 dimensions.

        Raises
        ------
        TypeError
            If the dtype is neither a floating-point nor a complex type, or an argument none of these.
        RuntimeError
            If there is no such device.
        """
        device, dtype, memory_format = _parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"a module converts to floating-point or complex types only, got {dtype}")
        if dtype is not None and dtype.is_complex:
            warnings.warn(
                "complex modules: layers that compare or order values have no meaning for complex parameters",
                stacklevel=2,
            )

        def convert(tensor: Tensor) -> Tensor:
            number = tensor.is_floating_point() or tensor.is_complex()
            wanted = dtype if dtype is not None and number else tensor.dtype
            place = tensor.device if device is None else device
            if memory_format is not None and not is_lazy(tensor) and tensor.dim() in (4, 5):
                return tensor.to(place, wanted, memory_format=memory_format)
            return tensor.to(place, wanted)

        return self._apply(convert)

    def to_empty(self: M, *, device: Any, recurse: bool = True) -> M:
        """Give parameters and buffers new memory, which is not filled, on a device, and return this module."""

        def emptied(tensor: Tensor) -> Tensor:
            return tensor.to(device) if is_lazy(tensor) else cygrad.empty_like(tensor, device=device)

        return self._apply(emptied, recurse)

    def cpu(self: M) -> M:
        """Move all parameters and buffers to main memory, and return this module."""
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self: M, device: Any = None) -> M:
        """Move all parameters and buffers to a CUDA device, by default the current one, and return this module."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def xpu(self: M, device: Any = None) -> M:
        """Raises RuntimeError where there is a tensor to move: there is no such device."""
        return self._to_device("xpu", device)

    def ipu(self: M, device: Any = None) -> M:
        """Raises RuntimeError where there is a tensor to move: there is no such device."""
        return self._to_device("ipu", device)

    def mtia(self: M, device: Any = None) -> M:
        """Raises RuntimeError where there is a tensor to move: there is no such device."""
        return self._to_device("mtia", device)

    def _to_device(self: M, kind: str, device: Any) -> M:
        place = f"{kind}:{device}" if isinstance(device, int) else kind if device is None else device
        return self._apply(lambda tensor: tensor.to(place))

    def type(self: M, dst_type: Any) -> M:
        """Convert all parameters and buffers, integers included, to one dtype, and return this module."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def float(self: M) -> M:
        """Convert floating-point parameters and buffers to float32, and return this module."""
        return self._apply(lambda tensor: tensor.float() if tensor.is_floating_point() else tensor)

    def double(self: M) -> M:
        """Convert floating-point parameters and buffers to float64, and return this module."""
        return self._apply(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)

    def half(self: M) -> M:
        """Convert floating-point parameters and buffers to float16, and return this module."""
        return self._apply(lambda tensor: tensor.half() if tensor.is_floating_point() else tensor)

    def bfloat16(self: M) -> M:
        """Convert floating-point parameters and buffers to bfloat16, and return this module."""
        return self._apply(lambda tensor: tensor.bfloat16() if tensor.is_floating_point() else tensor)

    def share_memory(self: M) -> M:
        """Have parameters and buffers in memory that other processes can see, see `Tensor.share_memory_`."""
        for tensor in (*self.parameters(), *self.buffers()):
            tensor.share_memory_()
            if tensor.grad is not None:
                tensor.grad.share_memory_()
        return self

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Raises RuntimeError: there is no compiler, modules run as they are."""
        raise RuntimeError("Module.compile(): cygrad has no compiler; call the module as it is")


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
    """Device, dtype and memory format that the arguments of `Module.to` ask for; None where they ask for nothing."""
    if "copy" in kwargs:
        raise RuntimeError("Module.to() does not accept the argument copy: a module changes in place")
    known = {"device", "dtype", "tensor", "non_blocking", "memory_format"}
    unknown = sorted(set(kwargs) - known)
    if unknown:
        raise TypeError(f"to() has no argument {unknown[0]!r}")
    device, dtype, tensor = kwargs.get("device"), kwargs.get("dtype"), kwargs.get("tensor")
    for arg in args[:2]:
        if isinstance(arg, Tensor):
            tensor = arg
        elif isinstance(arg, cygrad.dtype):
            dtype = arg
        elif isinstance(arg, (str, int, cygrad.device)) and not isinstance(arg, bool):
            device = arg
        elif arg is not None and not isinstance(arg, bool):
            raise TypeError(f"to() takes a device, a dtype or a Tensor, got {type(arg).__name__}")
    if tensor is not None:
        device, dtype = tensor.device, tensor.dtype
    return device, dtype, kwargs.get("memory_format")
