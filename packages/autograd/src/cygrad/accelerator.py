"""The machine's accelerator, as torch.accelerator: there is none."""

__all__ = ["current_accelerator", "current_device_index", "device_count", "is_available", "synchronize"]


def is_available() -> bool:
    """Whether there is an accelerator: no."""
    return False


def device_count() -> int:
    """Number of accelerators: 0."""
    return 0


def current_accelerator(check_available: bool = False) -> None:
    """The accelerator: None, there is none."""


def current_device_index() -> int:
    """Raises RuntimeError: there is none."""
    raise RuntimeError("Cannot access accelerator device when none is available: cygrad computes on the CPU")


def synchronize(device: object = None) -> None:
    """Raises RuntimeError: there is no device to wait for."""
    current_device_index()
