"""Linear algebra, as PyTorch's torch.linalg."""

from .autograd.composed import publish as _publish
from .autograd.composed.linalg_base import LinAlgError

__all__ = ["LinAlgError", *_publish("linalg", globals())]
