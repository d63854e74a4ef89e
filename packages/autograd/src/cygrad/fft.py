"""Helpers of Fourier transforms, as PyTorch's torch.fft."""

from .autograd.composed import publish as _publish

__all__ = _publish("fft", globals())
