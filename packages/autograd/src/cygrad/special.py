"""Special functions, as PyTorch's torch.special."""

from .autograd.composed import publish as _publish

__all__ = _publish("special", globals())
