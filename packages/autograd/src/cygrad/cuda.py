"""CUDA devices: there are none, as on a machine without them. Programs that ask go on with the CPU."""

from contextlib import contextmanager

__all__ = [
    "OutOfMemoryError",
    "current_device",
    "device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state_all",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "reset_peak_memory_stats",
    "set_device",
    "set_rng_state_all",
    "synchronize",
]


class OutOfMemoryError(RuntimeError):
    """A device has not enough memory: what programs catch; nothing raises it, for the CPU's own is a MemoryError."""


def is_available() -> bool:
    """Whether tensors can be on CUDA devices: no."""
    return False


def device_count() -> int:
    """Number of CUDA devices: 0."""
    return 0


def manual_seed(seed: int) -> None:
    """Does nothing: there is no generator of a device to seed, which PyTorch passes over as well."""


def manual_seed_all(seed: int) -> None:
    """Does nothing, see `manual_seed`."""


def is_initialized() -> bool:
    """Whether a CUDA device is in use: no."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether CUDA devices know bfloat16: there are none."""
    return False


def empty_cache() -> None:
    """Does nothing: no memory of a device is kept. `cygrad.empty_cache` gives the CPU's back."""


def memory_allocated(device: object = None) -> int:
    """Bytes of tensors on a CUDA device: 0."""
    return 0


def max_memory_allocated(device: object = None) -> int:
    """The most bytes of tensors on a CUDA device: 0."""
    return 0


def memory_reserved(device: object = None) -> int:
    """Bytes held of a CUDA device: 0."""
    return 0


def max_memory_reserved(device: object = None) -> int:
    """The most bytes held of a CUDA device: 0."""
    return 0


def reset_peak_memory_stats(device: object = None) -> None:
    """Does nothing: the peak is 0."""


def get_rng_state_all() -> list:
    """The states of the devices' generators: there are none."""
    return []


def set_rng_state_all(new_states: list) -> None:
    """Takes the states of no generators; others raise RuntimeError."""
    if list(new_states):
        _none()


@contextmanager
def device(device: object):
    """Raises RuntimeError, unless `device` is None or negative, by which PyTorch means none."""
    if device is not None and not (isinstance(device, int) and device < 0):
        _none()
    yield


def _none():
    raise RuntimeError("no CUDA device is available: cygrad computes on the CPU")


def current_device() -> int:
    """Raises RuntimeError: there is none."""
    _none()


def set_device(device: object) -> None:
    """Raises RuntimeError: there is none."""
    _none()


def get_device_name(device: object = None) -> str:
    """Raises RuntimeError: there is none."""
    _none()


def get_device_capability(device: object = None) -> tuple:
    """Raises RuntimeError: there is none."""
    _none()


def get_device_properties(device: object = None) -> object:
    """Raises RuntimeError: there is none."""
    _none()


def synchronize(device: object = None) -> None:
    """Raises RuntimeError: there is no device to wait for."""
    _none()


def __getattr__(name: str) -> object:
    from ._later import missing_attribute

    raise missing_attribute(__name__, name)
