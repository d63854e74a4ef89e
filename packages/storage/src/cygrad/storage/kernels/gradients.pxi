# The gradients of pointwise rows, each fused into one loop.
include "_pointwise.pxi"

cdef extern from "gradients_through.h":
    void c_register_through(void** table) noexcept

include "gradients_loops.pxi"
