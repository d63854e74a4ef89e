# The pointwise kernels of real numbers only: elementary functions.
include "_pointwise.pxi"

cdef extern from "functions_through.h":
    void c_register_through(void** table) noexcept

include "functions_loops.pxi"
