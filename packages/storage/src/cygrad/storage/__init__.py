"""Tensor memory without gradients: storages, shapes and strides, element types, broadcasting loops, kernels."""

from . import _openmp  # before everything else that loads core
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

UntypedStorage = Storage               # PyTorch's name

# These shadow builtins, as they do in PyTorch.
bool = dtypes["bool"]
uint8 = dtypes["uint8"]
int32 = dtypes["int32"]
int64 = dtypes["int64"]
float32 = dtypes["float32"]
float64 = dtypes["float64"]
int = dtypes["int"]
long = dtypes["long"]
float = dtypes["float"]
double = dtypes["double"]

__all__ = [
    "Array",
    "Size",
    "Storage",
    "TypedStorage",
    "UntypedStorage",
    "bool",
    "device",
    "double",
    "dtype",
    "dtypes",
    "empty_cache",
    "float",
    "float32",
    "float64",
    "get_default_dtype",
    "get_num_threads",
    "int",
    "int32",
    "int64",
    "long",
    "memory_stats",
    "promote_types",
    "reset_peak",
    "set_default_dtype",
    "set_num_threads",
    "uint8",
]
