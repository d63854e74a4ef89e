"""Memory of CUDA devices, as torch.cuda.memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from cygrad.storage.core import Storage, dtypes

from ..autograd._core import empty
from . import _devices, _streams
from ._devices import extension, index_of, is_available, list_gpu_processes

__all__ = [
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "caching_allocator_disabled",
    "caching_allocator_enable",
    "empty_cache",
    "get_allocator_backend",
    "get_per_process_memory_fraction",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "list_gpu_processes",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]

_fractions: dict[int, float] = {}
_given: dict[int, Storage] = {}    # what caching_allocator_alloc gave away, by address


def empty_cache() -> None:
    """Give all memory that is kept for reuse back to the devices. `cygrad.empty_cache` gives the CPU's back."""
    if is_available():
        extension.empty_cache()


def _number(name: str, device: Any) -> int:
    return extension.memory(index_of(device))[name] if is_available() else 0


def memory_allocated(device: Any = None) -> int:
    """Bytes of tensors on a device, as the allocator rounds them."""
    return _number("allocated", device)


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes of tensors on a device so far, or since `reset_peak_memory_stats`."""
    return _number("max_allocated", device)


def memory_reserved(device: Any = None) -> int:
    """Bytes that this process holds of a device: those of tensors, and those that are kept for reuse."""
    return _number("reserved", device)


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that this process held of a device so far, or since `reset_peak_memory_stats`."""
    return _number("max_reserved", device)


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let the largest numbers begin again from what is in use now."""
    if is_available():
        extension.reset_peak(index_of(device))


def _deprecated(name: str, instead: str) -> None:
    warnings.warn(f"`torch.cuda.{name}` is deprecated: use `torch.cuda.{instead}`", FutureWarning, stacklevel=3)


def memory_cached(device: Any = None) -> int:
    """Deprecated: `memory_reserved`."""
    _deprecated("memory_cached", "memory_reserved")
    return memory_reserved(device)


def max_memory_cached(device: Any = None) -> int:
    """Deprecated: `max_memory_reserved`."""
    _deprecated("max_memory_cached", "max_memory_reserved")
    return max_memory_reserved(device)


def reset_max_memory_allocated(device: Any = None) -> None:
    """Deprecated: `reset_peak_memory_stats`, which it calls."""
    _deprecated("reset_max_memory_allocated", "reset_peak_memory_stats")
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: Any = None) -> None:
    """Deprecated: `reset_peak_memory_stats`, which it calls."""
    _deprecated("reset_max_memory_cached", "reset_peak_memory_stats")
    reset_peak_memory_stats(device)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free, all) bytes of a device, as the driver counts them, whoever uses the rest."""
    return extension.free_bytes(index_of(device))


# PyTorch's names of what the allocator counts; what it does not count has no name here.
_NAMES = {
    "allocated": "allocated_bytes.all.current", "max_allocated": "allocated_bytes.all.peak",
    "reserved": "reserved_bytes.all.current", "max_reserved": "reserved_bytes.all.peak",
    "active": "active_bytes.all.current", "max_active": "active_bytes.all.peak",
    "segments": "segment.all.current", "retries": "num_alloc_retries", "ooms": "num_ooms",
}  # fmt: skip


def memory_stats(device: Any = None) -> dict[str, int]:
    """Numbers of the allocator of a device, under PyTorch's names for those that it counts."""
    if not is_available():
        return {}
    counted = extension.memory(index_of(device))
    return {name: counted[key] for key, name in _NAMES.items()}


def _nested(stats: dict[str, int]) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    for name, value in stats.items():
        *folders, last = name.split(".")
        place = whole
        for folder in folders:
            place = place.setdefault(folder, {})
        place[last] = value
    return whole


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """The numbers of `memory_stats`, with a dict for each part of their names."""
    return _nested(memory_stats(device))


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Does nothing: sums over all that was allocated so far are not kept."""
    if is_available():
        index_of(device)


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The numbers of `memory_stats` as text, a line each."""
    return "\n".join(f"{name:<32} {value:>20,}" for name, value in memory_stats(device).items())


def memory_snapshot(mempool_id: Any = None, include_traces: bool = True) -> Any:
    """NotImplementedError: the allocator does not list its blocks."""
    raise NotImplementedError("memory_snapshot(): the allocator does not list its blocks; cygrad.tools.memory lists "
                              "tensors")


def host_memory_stats() -> dict[str, int]:
    """Numbers of the page-locked memory of the CPU, under PyTorch's names: what is in use, and with what is kept."""
    if not is_available():
        return {}
    blocks, held, kept_blocks, kept = extension.pinned_memory()
    return {
        "active_requests.current": blocks, "active_bytes.current": held,
        "allocations.current": blocks + kept_blocks, "allocated_bytes.current": held + kept,
    }  # fmt: skip


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """The numbers of `host_memory_stats`, with a dict for each part of their names."""
    return _nested(host_memory_stats())


def reset_accumulated_host_memory_stats() -> None:
    """Does nothing: sums over all that was allocated so far are not kept."""


def reset_peak_host_memory_stats() -> None:
    """Does nothing: the largest numbers of page-locked memory are not kept."""


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Let this process reserve no more than a part of a device's memory.

    Raises
    ------
    TypeError
        `fraction` is no float.
    ValueError
        It is not between 0 and 1.
    """
    if not isinstance(fraction, float | int) or isinstance(fraction, bool):
        raise TypeError(f"Invalid type for fraction argument, must be `float`, got {type(fraction).__name__}")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    index = index_of(device)
    extension.limit(index, int(fraction * extension.properties(index)[1]))
    _fractions[index] = float(fraction)


def get_per_process_memory_fraction(device: Any = None) -> float:
    """What `set_per_process_memory_fraction` was given for a device; 1.0 without a limit."""
    return _fractions.get(index_of(device), 1.0)


def get_allocator_backend() -> str:
    """``"native"``: the allocator of cygrad itself."""
    return "native"


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """Memory of a device for other libraries: the address of so many bytes, which `caching_allocator_delete` ends.

    Parameters
    ----------
    size : int
    device : device, str or int, optional
        Default: the current one.
    stream : Stream or int, optional
        Where it is used first; default: the current one of the device.
    """
    index = index_of(device)
    if isinstance(stream, int) and not isinstance(stream, bool):
        stream = _streams.Stream(index, stream_ptr=stream)
    elif stream is not None and not isinstance(stream, _streams.Stream):
        raise TypeError("Invalid type for stream argument, must be `torch.cuda.Stream` or `int`, got "
                        f"{type(stream).__name__}")
    with nullcontext() if stream is None else _streams.stream(stream), _devices.device(index):
        memory = empty(size, dtype=dtypes["uint8"], device=f"cuda:{index}").untyped_storage()
    if size:
        _given[memory.data_ptr()] = memory
    return memory.data_ptr()


def caching_allocator_delete(mem_ptr: int) -> None:
    """End memory that `caching_allocator_alloc` gave; 0, the address of no bytes, ends nothing.

    Raises
    ------
    ValueError
        It gave no such address, or it was ended before.
    """
    if mem_ptr and _given.pop(mem_ptr, None) is None:
        raise ValueError(f"caching_allocator_delete(): {mem_ptr:#x} is no address that caching_allocator_alloc gave")


def caching_allocator_enable(value: bool = True) -> None:
    """NotImplementedError with False: memory always is kept for reuse."""
    if not value:
        raise NotImplementedError("caching_allocator_enable(False): memory of devices always is kept for reuse here")


@contextmanager
def caching_allocator_disabled() -> Iterator[None]:
    """NotImplementedError: memory always is kept for reuse."""
    caching_allocator_enable(False)
    yield


def __getattr__(name: str) -> Any:
    from .._later import missing_attribute

    raise missing_attribute("cygrad.cuda", name)
