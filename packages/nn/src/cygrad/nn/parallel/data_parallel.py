"""`DataParallel`: a batch is cut into parts, and each device computes with one."""

from __future__ import annotations

from itertools import chain
from typing import Any

import cygrad
from cygrad.nn.modules.module import Module
from cygrad.nn.parallel.parts import Devices, gather, named_device, parallel_apply, replicate, scatter_kwargs

__all__ = ["DataParallel", "data_parallel"]


def _numbers(device_ids: Devices | None) -> list[int]:
    return list(range(cygrad.cuda.device_count())) if device_ids is None else [_number(d) for d in device_ids]


def _number(device: Any) -> int:
    place = named_device(device)
    if place.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {place}")
    return place.index


class DataParallel(Module):
    """A module that runs on several devices at once: each call cuts its batch into parts, one for each device.

    The module is copied to the devices in every call. Gradients are summed in the module's parameters, which have to
    lie on the first device. Where there is no device the module is called as it is.

    Parameters
    ----------
    module : Module
    device_ids : sequence of int, str or device, optional
        By default all CUDA devices; "cuda" is the current one.
    output_device : int, str or device, optional
        Where results are joined; by default the first device.
    dim : int
        Dimension of tensors along which batches are cut and joined.

    Attributes
    ----------
    device_ids : list of int
    output_device : int
    """

    def __init__(
        self, module: Module, device_ids: Devices | None = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module
        self.dim = dim
        self.device_ids = _numbers(device_ids) if cygrad.cuda.is_available() else []
        if not self.device_ids:
            return
        self.output_device = self.device_ids[0] if output_device is None else _number(output_device)
        self.src_device_obj = cygrad.device("cuda", self.device_ids[0])
        if len(self.device_ids) == 1:
            self.module.to(self.src_device_obj)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        _check(self.module, self.src_device_obj)
        positional, named = self.scatter(inputs, kwargs, self.device_ids)
        if not positional:
            positional, named = ((),), ({},)
        if len(self.device_ids) == 1:
            return self.module(*positional[0], **named[0])
        replicas = self.replicate(self.module, self.device_ids[: len(positional)])
        return self.gather(self.parallel_apply(replicas, positional, named), self.output_device)

    def replicate(self, module: Module, device_ids: Devices) -> list[Module]:
        """See `cygrad.nn.parallel.replicate`."""
        return replicate(module, device_ids, not cygrad.is_grad_enabled())

    def scatter(self, inputs: tuple, kwargs: dict[str, Any] | None, device_ids: Devices) -> tuple[tuple, tuple]:
        """Positional arguments and those by name for each device, see `cygrad.nn.parallel.scatter`."""
        return scatter_kwargs(inputs, kwargs, device_ids, self.dim)

    def parallel_apply(self, replicas: list[Module], inputs: Any, kwargs: Any) -> list[Any]:
        """See `cygrad.nn.parallel.parallel_apply`."""
        return parallel_apply(replicas, inputs, kwargs, self.device_ids[: len(replicas)])

    def gather(self, outputs: Any, output_device: Any) -> Any:
        """See `cygrad.nn.parallel.gather`."""
        return gather(outputs, output_device, self.dim)


def _check(module: Module, place: cygrad.device) -> None:
    for tensor in chain(module.parameters(), module.buffers()):
        if tensor.device != place:
            raise RuntimeError(
                f"module must have its parameters and buffers on device {place} (device_ids[0]) but found one of them "
                f"on device: {tensor.device}"
            )


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Devices | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """One call of a module as `DataParallel` makes it.

    Parameters
    ----------
    module : Module
        On the first device.
    inputs : tuple of arguments, or the only one
    device_ids, output_device, dim
        See `DataParallel`.
    module_kwargs : dict, optional
        Arguments by name.

    Raises
    ------
    RuntimeError
        There is no device, or a parameter is not on the first.
    ValueError
        A device is none of CUDA's, or none is named.
    """
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    if not cygrad.cuda.is_available():
        raise RuntimeError("data_parallel(): no CUDA device is available")
    places = _numbers(device_ids)
    if not places:
        raise ValueError("data_parallel(): device_ids must name a device at least, got none")
    _check(module, cygrad.device("cuda", places[0]))
    positional, named = scatter_kwargs(inputs, module_kwargs, places, dim)
    if not positional:
        positional, named = ((),), ({},)
    if len(places) == 1:
        return module(*positional[0], **named[0])
    places = places[: len(positional)]
    outputs = parallel_apply(replicate(module, places), positional, named, places)
    return gather(outputs, places[0] if output_device is None else _number(output_device), dim)
