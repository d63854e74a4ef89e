"""The CPU as a device, for programs that ask it what they ask others."""

__all__ = ["amp", "current_device", "device_count", "is_available", "is_initialized", "set_device", "synchronize"]


def is_available() -> bool:
    """Whether there is a CPU: yes."""
    return True


def is_initialized() -> bool:
    """Whether it can be used: yes."""
    return True


def device_count() -> int:
    """Number of devices: 1, however many cores it has."""
    return 1


def current_device() -> str:
    """Name of the device."""
    return "cpu"


def set_device(device: object) -> None:
    """Does nothing: there is one device."""


def synchronize(device: object = None) -> None:
    """Does nothing: what was computed is there."""


def __getattr__(name: str) -> object:
    if name == "amp":
        from importlib import import_module

        return import_module(".amp", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
