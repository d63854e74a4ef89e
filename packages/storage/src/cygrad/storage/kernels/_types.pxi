# Element types that kernels are written for. A new dtype is one line in `element` (or `real`) and one in the
# register_kernels of each group.
#
# bool is C's char: a type of its own beside unsigned char (uint8) and signed char, so that fused functions
# tell them apart.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from cygrad.storage.core cimport BOOL, UINT8, INT32, INT64, FLOAT32, FLOAT64, N_DTYPES

ctypedef char bool_t

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
