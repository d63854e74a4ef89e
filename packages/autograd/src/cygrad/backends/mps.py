"""Apple's GPUs, which are not used."""

__all__ = ["is_available", "is_built"]


def is_built() -> bool:
    """Whether there are kernels for Apple's GPUs: no."""
    return False


def is_available() -> bool:
    """Whether tensors can be on Apple's GPUs: no."""
    return False
