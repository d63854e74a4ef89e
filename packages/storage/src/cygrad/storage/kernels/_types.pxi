# Element types that kernels are written for, for use in fused functions.
#
# A kernel that is registered for the types of `element` serves the others too: callers ask COMPUTED (core.pxd) for the
# type that a dtype computes in, and convert blocks or whole operands (convert.h, `computed` in ops_copy.pxi). Complex
# numbers have kernels of their own, or are seen as pairs of real ones.
#
# bool is C's char: a type of its own beside unsigned char (uint8) and signed char, so that fused functions
# tell them apart.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from cygrad.storage.core cimport BOOL, UINT8, INT32, INT64, UINT64, FLOAT32, FLOAT64, N_DTYPES

ctypedef char bool_t

ctypedef fused element:
    bool_t
    uint8_t
    int32_t
    int64_t
    uint64_t
    float
    double

ctypedef fused real:
    float
    double
