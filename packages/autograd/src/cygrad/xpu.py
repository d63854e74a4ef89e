"""Intel's GPUs: there are none, as on a machine without them. Programs that ask go on with the CPU."""

__all__ = ["current_device", "device_count", "empty_cache", "is_available", "manual_seed", "manual_seed_all",
           "synchronize"]


def is_available() -> bool:
    """Whether tensors can be on Intel's GPUs: no."""
    return False


def device_count() -> int:
    """Number of such devices: 0."""
    return 0


def manual_seed(seed: int) -> None:
    """Does nothing: there is no generator of a device to seed."""


def manual_seed_all(seed: int) -> None:
    """Does nothing, see `manual_seed`."""


def empty_cache() -> None:
    """Does nothing: there is no device whose memory is kept."""


def current_device() -> int:
    """Raises RuntimeError: there is none."""
    raise RuntimeError("no xpu device is available: cygrad computes on the CPU")


def synchronize(device: object = None) -> None:
    """Raises RuntimeError: there is no device to wait for."""
    raise RuntimeError("no xpu device is available: cygrad computes on the CPU")
