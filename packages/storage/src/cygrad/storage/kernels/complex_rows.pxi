# Kernel group "complex_rows": the pointwise kernels of complex numbers, printed as C by opgen/complexes.py. Compiled for the base
# instruction set only.
include "kernel_ids.pxi"

cdef extern from "complex_rows.h":
    void c_register_rows(void** table) noexcept


def register_address():
    """Address of ``void register_kernels(void** table)``, which fills ``table[kernel id][dtype code]``."""
    return <size_t><void*>&c_register_rows


def table_stamp():
    """What the ids stand for; see `cygrad.storage.dispatch.table_stamp`."""
    return TABLE_STAMP
