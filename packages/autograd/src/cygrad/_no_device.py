"""What modules of devices that are not there answer: programs that ask go on with the CPU."""


def is_available() -> bool:
    """Whether tensors can be on such a device: no."""
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
    raise RuntimeError("no such device is available: cygrad computes on the CPU")


def synchronize(device: object = None) -> None:
    """Raises RuntimeError: there is no device to wait for."""
    current_device()
