"""Window functions, as PyTorch's torch.signal.windows."""

from ..autograd.composed import publish as _publish

__all__ = _publish("signal.windows", globals())
