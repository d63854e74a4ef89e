// Element types as memory holds them and as kernels compute in them.
#ifndef CYGRAD_TYPES_CUH
#define CYGRAD_TYPES_CUH

#include "shim.cuh"

enum Code {                                  // DTypeCode of core.pxd
    C_BOOL, C_UINT8, C_INT8, C_INT16, C_INT32, C_INT64, C_FLOAT16, C_BFLOAT16, C_FLOAT32, C_FLOAT64, C_COMPLEX64, C_COMPLEX128,
    C_UINT16, C_UINT32, C_UINT64, C_COLUMNS = 16
};

CYG_FN int c_size(int code) {
    return code <= C_INT8 ? 1 : code == C_INT32 || code == C_FLOAT32 || code == C_UINT32 ? 4
        : code == C_COMPLEX128 ? 16 : code == C_INT64 || code == C_FLOAT64 || code == C_COMPLEX64 || code == C_UINT64 ? 8 : 2;
}

struct f16_t { uint16_t bits; };
struct b16_t { uint16_t bits; };
template <class P> struct alignas(2 * sizeof(P)) complex_t { P re, im; };
typedef complex_t<float> c64_t;
typedef complex_t<double> c128_t;
struct bool_t { uint8_t byte; };              // all but 0 is true

CYG_FN uint32_t c_bits(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }
CYG_FN float c_float(uint32_t u) { float x; memcpy(&x, &u, 4); return x; }

#ifdef __CUDA_ARCH__
CYG_FN float widen(f16_t h) { float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h.bits)); return x; }
CYG_FN f16_t narrow_f16(float x) { f16_t h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(x)); return h; }
CYG_FN b16_t narrow_b16(float x) { b16_t h; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h.bits) : "f"(x)); return h; }
#else
// The exponent is rebiased by 112; a subnormal is an integer of units 2**-24.
CYG_FN float widen(f16_t h) {
    uint32_t sign = (uint32_t)(h.bits & 0x8000u) << 16, e = h.bits >> 10 & 31, m = h.bits & 1023;
    if (e == 0) return c_float(c_bits((float)m * 5.9604644775390625e-8f) | sign);
    return c_float(sign | (e == 31 ? 0x7f800000u : (e + 112) << 23) | m << 13);
}
CYG_FN f16_t narrow_f16(float x) {
    uint32_t u = c_bits(x), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return f16_t{(uint16_t)(sign | 0x7e00u)};
    if (a >= 0x477ff000u) return f16_t{(uint16_t)(sign | 0x7c00u)};
    if (a < 0x38800000u) return f16_t{(uint16_t)(sign | (c_bits(c_float(a) + 0.5f) - 0x3f000000u))};  // the sum rounds to 2**-24
    return f16_t{(uint16_t)(sign | ((a + 0xfffu + (a >> 13 & 1) - 0x38000000u) >> 13))};
}
CYG_FN b16_t narrow_b16(float x) {
    uint32_t u = c_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return b16_t{(uint16_t)(u >> 16 | 0x40u)};
    return b16_t{(uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16)};
}
#endif
CYG_FN float widen(b16_t h) { return c_float((uint32_t)h.bits << 16); }

// Traits of a stored type: what it computes in, and the way there and back. Integers keep their low bits.
template <class T> struct Stored {
    typedef T Value;
    CYG_FN T load(T x) { return x; }
    CYG_FN T store(T x) { return x; }
};
#define CYG_STORED(T, V, LOAD, STORE) \
template <> struct Stored<T> { \
    typedef V Value; \
    CYG_FN V load(T x) { return LOAD; } \
    CYG_FN T store(V x) { return STORE; } \
};
CYG_STORED(bool_t, uint8_t, (uint8_t)(x.byte != 0), bool_t{x})
CYG_STORED(int8_t, int32_t, x, (int8_t)x)
CYG_STORED(int16_t, int32_t, x, (int16_t)x)
CYG_STORED(uint16_t, int32_t, x, (uint16_t)x)
CYG_STORED(uint32_t, int64_t, x, (uint32_t)x)
CYG_STORED(f16_t, float, widen(x), narrow_f16(x))
CYG_STORED(b16_t, float, widen(x), narrow_b16(x))
template <class T> using ValueOf = typename Stored<T>::Value;

// DO(code, stored type) for groups of dtypes
#define CYG_REALS(DO) DO(C_FLOAT32, float) DO(C_FLOAT64, double) DO(C_FLOAT16, f16_t) DO(C_BFLOAT16, b16_t)
#define CYG_INTEGERS(DO) \
    DO(C_UINT8, uint8_t) DO(C_INT8, int8_t) DO(C_INT16, int16_t) DO(C_INT32, int32_t) DO(C_INT64, int64_t) \
    DO(C_UINT16, uint16_t) DO(C_UINT32, uint32_t) DO(C_UINT64, uint64_t)
#define CYG_COMPLEX(DO) DO(C_COMPLEX64, c64_t) DO(C_COMPLEX128, c128_t)

#endif
