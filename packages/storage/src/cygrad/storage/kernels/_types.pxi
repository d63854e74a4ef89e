# Element types that kernels are written for. A new dtype is one line in `number` (or `real`) and one in each `for_each` below it.
# bool has a C type of its own, so that kernels can tell it from uint8 although both are one unsigned byte.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from cygrad.storage.core cimport BOOL, UINT8, INT32, INT64, FLOAT32, FLOAT64, N_DTYPES

cdef extern from *:
    """
    #ifndef CYGRAD_BOOL
    #define CYGRAD_BOOL
    typedef unsigned char cyg_bool;
    #endif
    """
    ctypedef unsigned char bool_t "cyg_bool"

ctypedef fused element:
    bool_t
    uint8_t
    int32_t
    int64_t
    float
    double

ctypedef fused real:
    float
    double
