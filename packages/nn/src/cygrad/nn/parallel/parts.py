"""A batch cut into parts for devices, a module copied to them, calls side by side, and results brought together."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.nn.modules.module import Module

__all__ = ["gather", "parallel_apply", "replicate", "scatter"]

Devices = Sequence[Any]


def named_device(device: Any) -> cygrad.device:
    """A device given by number, name or itself; "cuda" without a number is the current one of this thread."""
    place = cygrad.device("cuda", device) if isinstance(device, int) else cygrad.device(device)
    without = place.type == "cuda" and place.index is None
    return cygrad.device("cuda", cygrad.cuda.current_device()) if without else place


def scatter(inputs: Any, target_gpus: Devices, dim: int = 0) -> Any:
    """Cut tensors along a dimension, a part for each device, recorded; fewer parts where there is less.

    Parameters
    ----------
    inputs : Tensor, or nested tuple, list or dict with tensors
        What is no tensor goes to each device as it is.
    target_gpus : sequence of int, str or device
    dim : int

    Returns
    -------
    list
        For each part what is given to its device.
    """
    places = [named_device(device) for device in target_gpus]

    def parts(value: Any) -> list[Any]:
        if isinstance(value, Tensor):
            return [part.to(place) for part, place in zip(value.chunk(len(places), dim), places, strict=False)]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return [type(value)(*row) for row in zip(*map(parts, value), strict=False)]
        if isinstance(value, (tuple, list)) and value:
            return [type(value)(row) for row in zip(*map(parts, value), strict=False)]
        if isinstance(value, dict) and value:
            columns = [parts(item) for item in value.values()]
            return [type(value)(zip(value, row, strict=True)) for row in zip(*columns, strict=False)]
        return [value for _ in places]

    return parts(inputs)


def scatter_kwargs(inputs: tuple, kwargs: dict[str, Any] | None, places: Devices, dim: int) -> tuple[tuple, tuple]:
    """Positional arguments and those by name for each device; as many of either."""
    positional = scatter(inputs, places, dim) if inputs else []
    named = scatter(kwargs, places, dim) if kwargs else []
    count = max(len(positional), len(named))
    positional += [()] * (count - len(positional))
    named += [{}] * (count - len(named))
    return tuple(positional), tuple(named)


def replicate(network: Module, devices: Devices, detach: bool = False) -> list[Module]:
    """Copies of a module, one on each device, whose parameters are recorded copies of the module's.

    Parameters
    ----------
    network : Module
        Its buffers are shared by the copy on the same device, so that what is written there stays.
    devices : sequence of int, str or device
    detach : bool
        Whether gradients end at the copies.
    """
    return [_copy_on(named_device(device), network, detach) for device in devices]


def _copy_on(place: cygrad.device, network: Module, detach: bool) -> Module:
    known: dict[int, Tensor] = {}

    def brought(tensor: Tensor, record: bool) -> Tensor:
        """A tensor's copy, the same wherever the tensor is used."""
        if id(tensor) not in known:
            source = tensor if record else tensor.detach()
            known[id(tensor)] = source.to(place) if source.device != place else source.view_as(source)
        return known[id(tensor)]

    replicas = {id(module): _shallow(module) for module in network.modules()}
    for module in network.modules():
        replica = replicas[id(module)]
        for name, child in module._modules.items():
            replica._modules[name] = None if child is None else replicas[id(child)]
        for name, parameter in module._parameters.items():
            replica.__dict__[name] = None if parameter is None else brought(parameter, not detach)
        for name, buffer in module._buffers.items():
            here = buffer is None or buffer.device == place
            replica._buffers[name] = buffer if here else brought(buffer, False)
    return replicas[id(network)]


def _shallow(module: Module) -> Any:
    """A module with the same attributes, and registries of its own; without parameters."""
    replica = module.__class__.__new__(module.__class__)
    replica.__dict__ = module.__dict__.copy()
    replica.__dict__.update(_parameters={}, _buffers={}, _modules={})
    return replica


def parallel_apply(
    modules: Sequence[Callable[..., Any]],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Devices | None = None,
) -> list[Any]:
    """Call modules side by side, each in a thread whose current device is its own.

    Work goes to the streams that the caller has chosen, with its modes of autograd and autocast.

    Parameters
    ----------
    modules : sequence of callable
    inputs : sequence
        For each a tuple of arguments, or its only one.
    kwargs_tup : sequence of dict, optional
        For each its arguments by name.
    devices : sequence of int, str or device, optional
        By default those of the first tensors among the arguments.

    Raises
    ------
    Exception
        The first that a call raised.
    """
    named = [{}] * len(modules) if kwargs_tup is None else kwargs_tup
    if not len(modules) == len(inputs) == len(named) == len(modules if devices is None else devices):
        raise AssertionError(
            f"parallel_apply(): as many inputs and devices as modules are wanted, got {len(modules)} modules, "
            f"{len(inputs)} inputs and {len(named)} dictionaries"
        )
    places = [_first_device(given) for given in zip(inputs, named, strict=True)] if devices is None else devices
    streams = [_current_stream(place) for place in places]
    recording, keeping = cygrad.is_grad_enabled(), cygrad.is_autocast_cache_enabled()
    modes = [(kind, cygrad.is_autocast_enabled(kind), cygrad.get_autocast_dtype(kind)) for kind in ("cpu", "cuda")]
    results: list[Any] = [None] * len(modules)
    failed: list[tuple[int, BaseException]] = []

    def call(i: int) -> None:
        try:
            given = inputs[i] if isinstance(inputs[i], (tuple, list)) else (inputs[i],)
            cygrad.set_autocast_cache_enabled(keeping)
            with cygrad.set_grad_enabled(recording), cygrad.cuda.stream(streams[i]), _modes(modes):
                results[i] = modules[i](*given, **named[i])
        except BaseException as error:  # raised by the caller's thread
            failed.append((i, error))

    if len(modules) == 1:
        call(0)
    else:
        threads = [threading.Thread(target=call, args=(i,)) for i in range(len(modules))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failed:
        raise min(failed, key=lambda pair: pair[0])[1]
    return results


class _modes:
    """Autocast in a thread as in the one that started it."""

    def __init__(self, modes: list[tuple[str, bool, Any]]) -> None:
        self.contexts = [cygrad.autocast(kind, dtype) for kind, on, dtype in modes if on]

    def __enter__(self) -> None:
        for context in self.contexts:
            context.__enter__()

    def __exit__(self, *exc: object) -> None:
        for context in reversed(self.contexts):
            context.__exit__(*exc)


def _current_stream(device: Any) -> Any:
    """The stream of this thread on a device; None where there are no streams."""
    place = None if device is None else named_device(device)
    return None if place is None or place.type != "cuda" else cygrad.cuda.current_stream(place)


def _first_device(value: Any) -> cygrad.device | None:
    if isinstance(value, Tensor):
        return value.device
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return next((found for found in map(_first_device, parts) if found is not None), None)


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """Bring results of several devices to one, recorded, and join their tensors along a dimension.

    Parameters
    ----------
    outputs : sequence
        Of tensors, or of nested tuples, lists and dicts of them, all alike.
    target_device : int, str or device
    dim : int
        Results without dimensions become a vector, with a warning.

    Raises
    ------
    ValueError
        Dictionaries have different keys.
    """
    place = named_device(target_device)
    first = outputs[0]
    if isinstance(first, Tensor):
        parts = [output.to(place) for output in outputs]
        if first.dim() == 0 and dim == 0:
            warnings.warn(
                "Was asked to gather along dimension 0, but all input tensors were scalars; will instead unsqueeze and "
                "return a vector.",
                stacklevel=2,
            )
            return cygrad.stack(parts)
        return cygrad.cat(parts, dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(output.keys() != first.keys() for output in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)((key, gather([output[key] for output in outputs], place, dim)) for key in first)
    joined = [gather(column, place, dim) for column in zip(*outputs, strict=True)]
    return type(first)(*joined) if hasattr(first, "_fields") else type(first)(joined)
