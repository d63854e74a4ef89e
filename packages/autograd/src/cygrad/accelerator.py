"""The machine's accelerator, as torch.accelerator: CUDA where there is a device, else none."""

from __future__ import annotations

import warnings
from typing import Any

from cygrad.storage import cuda as _devices
from cygrad.storage.core import device as _device
from cygrad.storage.core import dtypes as _dtypes

__all__ = [
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "empty_host_cache",
    "get_device_capability",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
]


def is_available() -> bool:
    """Whether there is an accelerator."""
    return _devices.why_not() is None


def device_count() -> int:
    """Number of accelerators."""
    return _devices.device_count()


def current_accelerator(check_available: bool = False) -> _device | None:
    """The kind of accelerator as a device without an index; None where there is none."""
    return _device("cuda") if is_available() else None


def current_device_index() -> int:
    """Number of the device that this thread uses; RuntimeError where there is none."""
    if not is_available():
        raise RuntimeError(f"Cannot access accelerator device when none is available: {_devices.why_not()}")
    return _devices.extension().chosen()


def _index(device: Any) -> int:
    """Number of a device, by default the current one; RuntimeError where there is none."""
    from .cuda._devices import index_of

    current = current_device_index()
    return current if device is None else index_of(device)


def get_device_capability(device: Any = None, /) -> dict[str, Any]:
    """``supported_dtypes``: the dtypes of tensors that may be on a device."""
    _index(device)
    return {"supported_dtypes": set(_dtypes.values())}


def set_device_index(device: Any, /) -> None:
    """Choose the device that this thread uses where none is named; negative numbers change nothing."""
    current_device_index()
    from .cuda import set_device

    set_device(device)


def _deprecated(name: str) -> None:
    instead = name.replace("idx", "index")
    warnings.warn(f"`torch.accelerator.{name}` is deprecated: use `{instead}`", FutureWarning, stacklevel=3)


def current_device_idx() -> int:
    """Deprecated: `current_device_index`."""
    _deprecated("current_device_idx")
    return current_device_index()


def set_device_idx(device: Any, /) -> None:
    """Deprecated: `set_device_index`."""
    _deprecated("set_device_idx")
    set_device_index(device)


class device_index:
    """A context in which the device of a number is the current one; None changes nothing."""

    def __init__(self, device: int | None, /) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None:
            self.prev_idx = current_device_index()
            set_device_index(self.idx)

    def __exit__(self, *_: object) -> None:
        if self.idx is not None:
            set_device_index(self.prev_idx)


def current_stream(device: Any = None, /) -> Any:
    """The stream to which this thread's work on a device goes."""
    from .cuda import current_stream

    return current_stream(_index(device))


def set_stream(stream: Any) -> None:
    """Choose a stream for this thread's work on its device, which becomes the current one."""
    current_device_index()
    from .cuda import set_stream

    set_stream(stream)


def synchronize(device: Any = None, /) -> None:
    """Wait until all work of a device is done; RuntimeError where there is none."""
    index = _index(device)
    _devices.extension().synchronize(index)


# ---- memory: without a device there is none in use, and nothing to give back


def empty_cache() -> None:
    """Give all memory that is kept for reuse back to the devices."""
    if is_available():
        _devices.extension().empty_cache()


def empty_host_cache() -> None:
    """Give page-locked memory of the CPU that is kept for reuse back to the system."""
    if is_available():
        _devices.extension().empty_pinned()


def memory_stats(device_index: Any = None, /) -> dict[str, int]:
    """See `cygrad.cuda.memory_stats`."""
    from .cuda import memory_stats

    return memory_stats(device_index)


def memory_allocated(device_index: Any = None, /) -> int:
    """Bytes of tensors on a device."""
    from .cuda import memory_allocated

    return memory_allocated(device_index)


def max_memory_allocated(device_index: Any = None, /) -> int:
    """The most bytes of tensors on a device so far, or since `reset_peak_memory_stats`."""
    from .cuda import max_memory_allocated

    return max_memory_allocated(device_index)


def memory_reserved(device_index: Any = None, /) -> int:
    """Bytes that this process holds of a device."""
    from .cuda import memory_reserved

    return memory_reserved(device_index)


def max_memory_reserved(device_index: Any = None, /) -> int:
    """The most bytes that this process held of a device so far, or since `reset_peak_memory_stats`."""
    from .cuda import max_memory_reserved

    return max_memory_reserved(device_index)


def reset_peak_memory_stats(device_index: Any = None, /) -> None:
    """Let the largest numbers begin again from what is in use now."""
    from .cuda import reset_peak_memory_stats

    reset_peak_memory_stats(device_index)


def reset_accumulated_memory_stats(device_index: Any = None, /) -> None:
    """Does nothing: sums over all that was allocated so far are not kept."""
    from .cuda import reset_accumulated_memory_stats

    reset_accumulated_memory_stats(device_index)


def get_memory_info(device_index: Any = None, /) -> tuple[int, int]:
    """(free, all) bytes of a device, whoever uses the rest."""
    index = _index(device_index)
    return _devices.extension().free_bytes(index)


def __getattr__(name: str) -> Any:
    from ._later import missing_attribute

    raise missing_attribute(__name__, name)
