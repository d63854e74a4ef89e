# The pointwise kernels of special.toml: as those of pointwise.pxi, but compiled once, for the base instruction set. They are
# rare, most are long scalar functions with branches (special.h), and three copies would only take time and space.
include "_pointwise.pxi"

cdef extern from "special_through.h":
    void c_register_through(void** table) noexcept

include "special_loops.pxi"
