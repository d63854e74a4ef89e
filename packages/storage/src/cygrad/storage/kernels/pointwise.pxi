# The pointwise kernels that integers have too: loops printed from the op table. Compiled once per instruction set, as are
# comparisons, functions and gradients: groups of their own so that a changed formula compiles a part.
include "_pointwise.pxi"

cdef extern from "pointwise_through.h":
    void c_register_through(void** table) noexcept

include "pointwise_loops.pxi"
