"""Older names of `cygrad.amp`, deprecated as in PyTorch."""

import functools
import warnings

from cygrad import amp
from cygrad.storage.core import dtypes

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


def _deprecated(name, instead):
    warnings.warn(f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use `torch.amp.{instead}` instead.",
                  FutureWarning, stacklevel=3)


class autocast(amp.autocast):
    """Deprecated: ``cygrad.amp.autocast("cuda", ...)``."""

    def __init__(self, enabled=True, dtype=dtypes["float16"], cache_enabled=True):
        _deprecated("autocast", "autocast('cuda', args...)")
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """Deprecated: ``cygrad.amp.GradScaler("cuda", ...)``."""

    def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        _deprecated("GradScaler", "GradScaler('cuda', args...)")
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def custom_fwd(fwd=None, *, cast_inputs=None):
    """Deprecated: ``cygrad.amp.custom_fwd(..., device_type="cuda")``."""
    _deprecated("custom_fwd", "custom_fwd(args..., device_type='cuda')")
    return functools.partial(amp.custom_fwd, device_type="cuda")(fwd, cast_inputs=cast_inputs)


def custom_bwd(bwd):
    """Deprecated: ``cygrad.amp.custom_bwd(..., device_type="cuda")``."""
    _deprecated("custom_bwd", "custom_bwd(args..., device_type='cuda')")
    return amp.custom_bwd(bwd, device_type="cuda")
