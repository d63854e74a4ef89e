# What kernels of reductions and their driver share.
#
# A Reduce kernel folds a block of m outputs x n elements into m accumulators. Accumulators are planes of PLANE slots of
# 8 bytes: sums use one plane of double or int64, an arg-extremum one of values and one of indices, a variance three
# (count, mean, sum of squared deviations).
# The order of additions depends on n and on ACROSS only, never on m, so outputs may be split among threads at will.
include "_types.pxi"
include "_hand_ids.pxi"

cdef enum:
    PLANE = 512            # outputs that one call may have: three planes are 12 KB, half of a level-1 cache
    PLANES = 3
    FIRST = 1              # mode: the accumulators hold nothing yet
    ACROSS = 2             # mode: inner loop over outputs (their stride is the small one) instead of over elements

# acc, x, m, byte stride of outputs, n, byte stride of elements, index of the first element, mode, exponent of a norm
ctypedef void (*Reduce)(char*, const char*, int64_t, int64_t, int64_t, int64_t, int64_t, int, double) noexcept nogil
ctypedef void (*Merge)(char* acc, const char* other, int64_t m) noexcept nogil

# Scales of the 2-norm: squares of what lies beyond 2**+-490 are taken of the value times 2**-+600 (Blue, 1978).
cdef extern from *:
    """
    #define CYG_NORM_UP 0x1p600
    #define CYG_NORM_DOWN 0x1p-600
    #define CYG_NORM_BIG 0x1p490
    #define CYG_NORM_SMALL 0x1p-490
    """
    const double NORM_UP "CYG_NORM_UP"
    const double NORM_DOWN "CYG_NORM_DOWN"
    const double NORM_BIG "CYG_NORM_BIG"
    const double NORM_SMALL "CYG_NORM_SMALL"
