"""What CUDA's driver says of devices beyond what the extension asks of the run time; nothing where it is not there."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

from cygrad.storage import cuda as _devices

# Attributes of a device, by PyTorch's names for them: their numbers in CUdevice_attribute.
ATTRIBUTES = {
    "shared_memory_per_block": 8, "clock_rate": 13, "is_integrated": 18, "pci_bus_id": 33, "pci_device_id": 34,
    "memory_clock_rate": 36, "memory_bus_width": 37, "L2_cache_size": 38, "max_threads_per_multi_processor": 39,
    "pci_domain_id": 50, "shared_memory_per_multiprocessor": 81, "regs_per_multiprocessor": 82,
    "is_multi_gpu_board": 84, "shared_memory_per_block_optin": 97, "max_threads_per_block": 1,
}  # fmt: skip


@cache
def library() -> Any:
    """The driver's library; None where devices are imitated, or there is none."""
    if _devices.extension() is None or _devices.is_host():
        return None
    try:
        found = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return None
    return found if found.cuInit(0) == 0 else None


def call(function: str, *args: Any) -> int:
    """Call a function of the driver, and return its code, 0 for success; without a driver nothing is done."""
    return 0 if library() is None else getattr(library(), function)(*args)


def _handle(device: int) -> ctypes.c_int:
    """The driver's own number of a device."""
    value = ctypes.c_int()
    call("cuDeviceGet", ctypes.byref(value), device)
    return value


def attribute(device: int, number: int) -> int | None:
    """An attribute of a device, counted from 0; None where it is not known."""
    value = ctypes.c_int()
    if library() is None or call("cuDeviceGetAttribute", ctypes.byref(value), number, _handle(device)):
        return None
    return value.value


def uuid(device: int) -> bytes | None:
    """The 16 bytes that name a device; None where they are not known."""
    value = (ctypes.c_ubyte * 16)()
    if library() is None or call("cuDeviceGetUuid_v2", value, _handle(device)):
        return None
    return bytes(value)


def priority_range(device: int) -> tuple[int, int]:
    """(least, greatest) priority of a device's streams; (0, 0) where there is but one."""
    least, greatest, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
    place = _handle(device)
    if library() is None or call("cuDevicePrimaryCtxRetain", ctypes.byref(context), place):
        return 0, 0
    try:
        if call("cuCtxPushCurrent_v2", context):
            return 0, 0
        failed = call("cuCtxGetStreamPriorityRange", ctypes.byref(least), ctypes.byref(greatest))
        call("cuCtxPopCurrent_v2", ctypes.byref(context))
    finally:
        call("cuDevicePrimaryCtxRelease_v2", place)
    return (0, 0) if failed else (least.value, greatest.value)
