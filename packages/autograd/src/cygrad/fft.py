"""Discrete Fourier transforms and their helpers, as PyTorch's torch.fft."""

from .autograd.composed import fft as _transforms
from .autograd.composed import frequencies as _frequencies
from .autograd.composed import publish as _publish

del _frequencies, _transforms           # importing them declares what is published

__all__ = _publish("fft", globals())
