"""cuDNN, which convolutions on CUDA devices use where it is found, and how they do.

``enabled``, ``deterministic``, ``benchmark`` and ``allow_tf32`` can be set. Algorithms whose sums are the same in every
run are taken unless ``benchmark`` is True and ``deterministic`` is not. ``benchmark`` times what there is, once for
each geometry; ``benchmark_limit`` is remembered, and has no effect.
"""

import sys
from contextlib import contextmanager
from types import ModuleType

from cygrad.storage import cuda as _cuda

__all__ = ["allow_tf32", "benchmark", "benchmark_limit", "deterministic", "enabled", "flags",  # noqa: F822
           "is_acceptable", "is_available", "version"]

_DTYPES = ("torch.float16", "torch.bfloat16", "torch.float32", "torch.float64")
_SETTINGS = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32")


def __getattr__(name):
    if name in _SETTINGS:
        return getattr(_cuda.cudnn, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Module(ModuleType):
    def __setattr__(self, name, value):
        if name in _SETTINGS:
            setattr(_cuda.cudnn, name, value)
        else:
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Module


def is_available() -> bool:
    """Whether there is a CUDA device, and cuDNN is found for it."""
    return _cuda.why_not() is None and version() is not None


def version() -> int | None:
    """The number of cuDNN's version, such as 92801; None where it is not found."""
    return None if _cuda.extension() is None else _cuda.extension().cudnn_version()


def is_acceptable(tensor: object) -> bool:
    """Whether cuDNN could compute with this tensor: it is on a CUDA device, and of a dtype that cuDNN gets."""
    return bool(_cuda.cudnn.enabled and tensor.is_cuda and str(tensor.dtype) in _DTYPES and is_available())


@contextmanager
def flags(enabled=False, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True, **others):
    """Other settings inside a ``with``."""
    given = {"enabled": enabled, "benchmark": benchmark, "benchmark_limit": benchmark_limit,
             "deterministic": deterministic, "allow_tf32": allow_tf32}
    before = {name: getattr(_cuda.cudnn, name) for name in given}
    vars(_cuda.cudnn).update(given)
    try:
        yield
    finally:
        vars(_cuda.cudnn).update(before)
