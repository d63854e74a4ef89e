# Storage, shape metadata and the broadcasting iterator, as one translation unit so that the small calls are inlined.
# May cimport: libc, cpython. The contract is core.pxd; the parts below say what each of them keeps true.
import math
import operator
import os

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t, INT64_MIN
from libc.string cimport memcmp, memcpy, memmove, memset

builtin_type = type

include "abi.pxi"
include "types.pxi"     # dtype, Size, device
include "devices.pxi"   # memory beside the CPU's
include "memory.pxi"    # block cache, Storage
include "bytes.pxi"     # a Storage as a sequence of bytes
include "births.pxi"    # where storages were made
include "meta.pxi"      # Meta, broadcasting, overlap
include "views.pxi"     # view rules
include "iter.pxi"      # Iter and its drivers


def abi():
    """Stamp of the C declarations that this build was compiled from; dependants compare it at import."""
    return CYGRAD_STORAGE_ABI


def regions_address():
    """Where this process counts its regions without the GIL, for modules that have some."""
    return <size_t>cyg_regions
