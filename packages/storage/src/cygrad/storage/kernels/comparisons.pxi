# The pointwise kernels whose result is a truth value.
include "_pointwise.pxi"

cdef extern from "comparisons_through.h":
    void c_register_through(void** table) noexcept

include "comparisons_loops.pxi"
