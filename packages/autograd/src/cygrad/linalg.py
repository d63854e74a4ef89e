"""Linear algebra, as PyTorch's torch.linalg."""

from .autograd.composed import publish as _publish

__all__ = _publish("linalg", globals())
