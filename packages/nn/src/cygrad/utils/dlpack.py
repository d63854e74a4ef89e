"""Memory shared with other libraries through DLPack capsules."""

from cygrad.autograd.interop import from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor):
    """A DLPack capsule (of version 0) over the memory of a tensor; it can be consumed once."""
    return tensor.__dlpack__()
