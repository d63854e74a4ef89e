"""Older names of `cygrad.amp`, deprecated as in PyTorch."""

import warnings

from cygrad import amp
from cygrad.storage.core import dtypes

__all__ = ["GradScaler", "autocast"]


def _deprecated(name):
    warnings.warn(f"`torch.cpu.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}('cpu', args...)` "
                  "instead.", FutureWarning, stacklevel=3)


class autocast(amp.autocast):
    """Deprecated: ``cygrad.amp.autocast("cpu", ...)``."""

    def __init__(self, enabled=True, dtype=dtypes["bfloat16"], cache_enabled=True):
        _deprecated("autocast")
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """Deprecated: ``cygrad.amp.GradScaler("cpu", ...)``."""

    def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        _deprecated("GradScaler")
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
