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
int8 = dtypes["int8"]
int16 = dtypes["int16"]
int32 = dtypes["int32"]
int64 = dtypes["int64"]
uint16 = dtypes["uint16"]
uint32 = dtypes["uint32"]
uint64 = dtypes["uint64"]
float16 = dtypes["float16"]
bfloat16 = dtypes["bfloat16"]
float32 = dtypes["float32"]
float64 = dtypes["float64"]
complex64 = dtypes["complex64"]
complex128 = dtypes["complex128"]
short = dtypes["short"]
int = dtypes["int"]
long = dtypes["long"]
half = dtypes["half"]
float = dtypes["float"]
double = dtypes["double"]
cfloat = dtypes["cfloat"]
cdouble = dtypes["cdouble"]

__all__ = [
    "Array",
    "Size",
    "Storage",
    "TypedStorage",
    "UntypedStorage",
    "bfloat16",
    "bool",
    "cdouble",
    "cfloat",
    "complex64",
    "complex128",
    "device",
    "double",
    "dtype",
    "dtypes",
    "empty_cache",
    "float",
    "float16",
    "float32",
    "float64",
    "get_default_dtype",
    "get_num_threads",
    "half",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "long",
    "memory_stats",
    "promote_types",
    "reset_peak",
    "set_default_dtype",
    "set_num_threads",
    "short",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]
