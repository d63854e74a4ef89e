"""Tensor memory without gradients: storages, shapes and strides, element types, broadcasting loops, kernels."""

from .array import Array
from .core import (
    Size,
    Storage,
    device,
    dtype,
    dtypes,
    empty_cache,
    get_default_dtype,
    get_num_threads,
    memory_stats,
    promote_types,
    reset_peak,
    set_default_dtype,
    set_num_threads,
)
from .typed import TypedStorage

globals().update(dtypes)  # float32, int64, ... and the aliases float, double, int, long

__all__ = [
    "Array",
    "Size",
    "Storage",
    "TypedStorage",
    "device",
    "dtype",
    "dtypes",
    "empty_cache",
    "get_default_dtype",
    "get_num_threads",
    "memory_stats",
    "promote_types",
    "reset_peak",
    "set_default_dtype",
    "set_num_threads",
    *dtypes,
]
