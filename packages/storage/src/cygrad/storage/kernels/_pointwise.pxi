# What the groups of pointwise kernels share. Each includes its loops, printed from the op table, after this.
# May cimport: core, and only its constants and types. Invariant: nothing here touches a Python object or the GIL.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy
from cygrad.storage.core cimport (Loop, MAXOPS, N_DTYPES, BOOL, UINT8, INT32, INT64, UINT64, FLOAT32, FLOAT64)

include "kernel_ids.pxi"
include "_blocks.pxi"


def register_address():
    """Address of ``void register_kernels(void** table)``, which fills ``table[kernel id][dtype code]``."""
    return <size_t><void*>&register_kernels


def table_stamp():
    """What the ids stand for; see `cygrad.storage.dispatch.table_stamp`."""
    return TABLE_STAMP
