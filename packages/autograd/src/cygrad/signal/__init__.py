"""Signal processing, as PyTorch's torch.signal."""

from . import windows

__all__ = ["windows"]
