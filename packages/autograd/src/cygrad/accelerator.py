"""The machine's accelerator, as torch.accelerator: CUDA where there is a device, else none."""

from cygrad.storage import cuda as _devices
from cygrad.storage.core import device as _device

__all__ = ["current_accelerator", "current_device_index", "device_count", "is_available", "synchronize"]


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


def synchronize(device: object = None) -> None:
    """Wait until all work of a device is done; RuntimeError where there is none."""
    from cygrad import cuda

    current_device_index()
    cuda.synchronize(device)
