# Kernel group "random": the state of MT19937, uniform float32 numbers from it, and normal ones from those, bit for bit
# as PyTorch's vector path makes them.
#
# log, sin and cos are the single-precision polynomials of Cephes (Moshier), evaluated with exactly the fused
# multiply-adds that PyTorch's binary has. Every fused step is written out, and no other product is added to anything,
# so the compiler cannot fuse more or less: all instruction sets give the same bits.
from libc.math cimport fmaf, sqrtf
from libc.stdint cimport int32_t, int64_t, uint32_t
from cygrad.storage.core cimport FLOAT32, N_DTYPES
include "_hand_ids.pxi"

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    static inline uint32_t cyg_bits(float x) { uint32_t i; memcpy(&i, &x, 4); return i; }
    static inline float cyg_float(uint32_t i) { float x; memcpy(&x, &i, 4); return x; }
    """
    uint32_t bits "cyg_bits"(float x) noexcept nogil
    float float_of "cyg_float"(uint32_t i) noexcept nogil


# ---- MT19937 (Matsumoto and Nishimura, 1998)

cdef inline uint32_t twist(uint32_t u, uint32_t v) noexcept nogil:
    return (((u & 0x80000000U) | (v & 0x7fffffffU)) >> 1) ^ (0x9908b0dfU & -(v & 1))


cdef void renew(uint32_t* s) noexcept nogil:
    """The next 624 words of state."""
    cdef int i
    for i in range(227):
        s[i] = s[i + 397] ^ twist(s[i], s[i + 1])
    for i in range(227, 623):
        s[i] = s[i - 227] ^ twist(s[i], s[i + 1])
    s[623] = s[396] ^ twist(s[623], s[0])


cdef void unit_floats(float* y, const uint32_t* s, int64_t n) noexcept nogil:
    """n words of state to numbers of [0, 1) with 24 bits."""
    cdef int64_t i
    cdef uint32_t v
    for i in range(n):
        v = s[i]
        v ^= v >> 11
        v ^= (v << 7) & 0x9d2c5680U
        v ^= (v << 15) & 0xefc60000U
        v ^= v >> 18
        y[i] = <float> <int32_t> (v & 0xffffffU) * <float> 5.9604644775390625e-8       # 2**-24


# ---- normal numbers

cdef inline float log_cephes(float x) noexcept nogil:
    """Of a normal number; 0 gives a large negative number, which no uniform draw reaches."""
    cdef uint32_t b = bits(x)
    cdef float e = <float> (<int32_t> (b >> 23) - 126)
    cdef float m = float_of((b & 0x7fffff) | 0x3f000000)          # x = m * 2**e, 0.5 <= m < 1
    cdef bint low = m < <float> 0.707106781186547524
    cdef float y, z
    e = e - 1 if low else e
    m = (m - 1) + m if low else m - 1
    z = m * m
    y = fmaf(<float> 7.0376836292e-2, m, <float> -1.1514610310e-1)
    y = fmaf(y, m, <float> 1.1676998740e-1)
    y = fmaf(y, m, <float> -1.2420140846e-1)
    y = fmaf(y, m, <float> 1.4249322787e-1)
    y = fmaf(y, m, <float> -1.6668057665e-1)
    y = fmaf(y, m, <float> 2.0000714765e-1)
    y = fmaf(y, m, <float> -2.4999993993e-1)
    y = fmaf(y, m, <float> 3.3333331174e-1)
    y = fmaf(y * m, z, e * <float> -2.12194440e-4)
    y = fmaf(-z, <float> 0.5, y)
    return fmaf(e, <float> 0.693359375, m + y)


cdef inline void sin_cos_cephes(float x, float* sine, float* cosine) noexcept nogil:
    """Of 0 <= x < 2 pi, by octants."""
    cdef int32_t k = (<int32_t> (x * <float> 1.27323954473516) + 1) & ~1
    cdef uint32_t octant = <uint32_t> k
    cdef float z, c, s
    cdef bint swapped = (octant & 2) != 0
    x = fmaf(<float> k, <float> -0.78515625, x)                           # pi / 4 in three parts
    x = fmaf(<float> k, <float> -2.4187564849853515625e-4, x)
    x = fmaf(<float> k, <float> -3.77489497744594108e-8, x)
    z = x * x
    c = fmaf(<float> 2.443315711809948e-5, z, <float> -1.388731625493765e-3)
    c = fmaf(c, z, <float> 4.166664568298827e-2)
    c = fmaf(c * z, z, z * <float> -0.5) + 1
    s = fmaf(<float> -1.9515295891e-4, z, <float> 8.3321608736e-3)
    s = fmaf(s, z, <float> -1.6666654611e-1)
    s = fmaf(s * z, x, x)
    sine[0] = float_of(bits(c if swapped else s) ^ ((octant & 4) << 29))
    cosine[0] = float_of(bits(s if swapped else c) ^ ((~(octant - 2) & 4) << 29))


# n is a multiple of 16; Box and Muller (1958) on the pairs (j, j + 8) of every 16.
cdef void normal_pairs(float* y, int64_t n, double mean, double std) noexcept nogil:
    cdef float centre = <float> mean, scale = <float> std
    cdef float radius[8]
    cdef float sine, cosine
    cdef int64_t i = 0, j
    while i < n:
        for j in range(8):
            radius[j] = sqrtf(-2 * log_cephes(1 - y[j]))
        for j in range(8):
            sin_cos_cephes(<float> 6.283185307179586 * y[j + 8], &sine, &cosine)
            y[j] = fmaf(radius[j] * cosine, scale, centre)
            y[j + 8] = fmaf(radius[j] * sine, scale, centre)
        y += 16
        i += 16


cdef void register_kernels(void** table) noexcept:
    table[H_MT_RENEW * N_DTYPES + FLOAT32] = <void*> renew
    table[H_UNIT_FLOATS * N_DTYPES + FLOAT32] = <void*> unit_floats
    table[H_NORMAL_PAIRS * N_DTYPES + FLOAT32] = <void*> normal_pairs


def register_address():
    return <size_t> &register_kernels
