/* Elementary functions of one element, written so that a loop around them vectorises: no branches, no tables, no calls.
   Every name ends in the element type. A strided element, the tail of a loop and a vector lane run the same operations in
   the same order, so they give the same bits; only instruction sets with and without fused multiply-add differ. */
#ifndef CYGRAD_VECMATH_H
#define CYGRAD_VECMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifndef VM         /* cuda/device_math.cuh says otherwise */
#if defined(__GNUC__) || defined(__clang__)
#define VM static inline __attribute__((always_inline))    /* a loop with a call in it does not vectorise */
#else
#define VM static inline
#endif
#endif

/* The build forbids the compiler to fuse on its own (-ffp-contract=off): it would fuse a vector body and a scalar tail
   differently. Here fusing is asked for by name, wherever the instruction exists. */
#ifdef __FMA__
#define MADD_F32(a, b, c) __builtin_fmaf(a, b, c)
#define MADD_F64(a, b, c) __builtin_fma(a, b, c)
#else
#define MADD_F32(a, b, c) ((a) * (b) + (c))
#define MADD_F64(a, b, c) ((a) * (b) + (c))
#endif

VM uint32_t vm_bits_f32(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }
VM uint64_t vm_bits_f64(double x) { uint64_t u; memcpy(&u, &x, 8); return u; }
VM float vm_from_f32(uint32_t u) { float x; memcpy(&x, &u, 4); return x; }
VM double vm_from_f64(uint64_t u) { double x; memcpy(&x, &u, 8); return x; }

/* == all types == */

#define VM_ANY(T, t) \
VM T vm_where_##t(int c, T a, T b) { return c ? a : b; }
VM_ANY(uint8_t, b8) VM_ANY(uint8_t, u8) VM_ANY(int32_t, i32) VM_ANY(int64_t, i64) VM_ANY(uint64_t, u64)
VM_ANY(float, f32) VM_ANY(double, f64)

/* == integers: what overflows wraps around, a zero divisor gives 0; neither traps == */

#define VM_CLASSIFY(T, t) \
VM int vm_isnan_##t(T x) { (void)x; return 0; } \
VM int vm_isinf_##t(T x) { (void)x; return 0; } \
VM int vm_isfinite_##t(T x) { (void)x; return 1; }
VM_CLASSIFY(uint8_t, b8) VM_CLASSIFY(uint8_t, u8) VM_CLASSIFY(int32_t, i32) VM_CLASSIFY(int64_t, i64) VM_CLASSIFY(uint64_t, u64)

#define VM_INTEGER(T, U, t, MINIMUM) \
VM T vm_floor_##t(T x) { return x; } \
VM T vm_ceil_##t(T x) { return x; } \
VM T vm_rint_##t(T x) { return x; } \
VM T vm_trunc_##t(T x) { return x; } \
VM T vm_abs_##t(T x) { return x < 0 ? (T)(0 - (U)x) : x; } \
VM T vm_sign_##t(T x) { return (T)((x > 0) - (x < 0)); } \
VM T vm_floordiv_##t(T a, T b) { \
    T q; \
    if (b == 0) return 0; \
    if (MINIMUM != 0 && b == (T)-1) return (T)(0 - (U)a);    /* the minimum over -1 traps */ \
    q = (T)(a / b); \
    return (T)(q - ((a % b != 0) & ((a < 0) != (b < 0)))); \
} \
VM T vm_cmod_##t(T a, T b) { \
    if (b == 0 || (MINIMUM != 0 && b == (T)-1)) return 0; \
    return (T)(a % b); \
} \
VM T vm_pymod_##t(T a, T b) { \
    T r = vm_cmod_##t(a, b); \
    return (T)(r + (((r != 0) & ((r < 0) != (b < 0))) ? b : 0)); \
} \
VM T vm_power_##t(T a, T b) { \
    U base = (U)a, result = 1; \
    if (b < 0) return a == 1 ? 1 : a == (T)-1 ? (T)((b & 1) ? -1 : 1) : 0; \
    for (; b != 0; b = (T)(b >> 1)) { \
        if (b & 1) result *= base; \
        base *= base; \
    } \
    return (T)result; \
}
/* Shifts by less than 0 or by all bits and more: nothing is left but the sign. */
#define VM_SHIFTS(T, U, t) \
VM T vm_shift_left_##t(T a, T b) { return b < 0 || b >= (T)(8 * sizeof(T)) ? 0 : (T)((U)a << b); } \
VM T vm_shift_right_##t(T a, T b) { return (T)(a >> (b < 0 || b >= (T)(8 * sizeof(T)) ? (T)(8 * sizeof(T) - 1) : b)); }
VM_SHIFTS(int32_t, uint32_t, i32) VM_SHIFTS(int64_t, uint64_t, i64)
VM uint8_t vm_shift_left_u8(uint8_t a, uint8_t b) { return b >= 8 ? 0 : (uint8_t)((uint32_t)a << b); }
VM uint8_t vm_shift_right_u8(uint8_t a, uint8_t b) { return b >= 8 ? 0 : (uint8_t)(a >> b); }
VM uint64_t vm_shift_left_u64(uint64_t a, uint64_t b) { return b >= 64 ? 0 : a << b; }
VM uint64_t vm_shift_right_u64(uint64_t a, uint64_t b) { return b >= 64 ? 0 : a >> b; }
VM_INTEGER(uint8_t, uint32_t, u8, 0)
VM_INTEGER(int32_t, uint32_t, i32, INT32_MIN)
VM_INTEGER(int64_t, uint64_t, i64, INT64_MIN)
VM_INTEGER(uint64_t, uint64_t, u64, 0)

/* == floating types: exact functions == */

static const float vm_max_f32 = 3.402823466385288598e38f;
static const double vm_max_f64 = 1.797693134862315708e308;
VM float vm_abs_f32(float x) { return fabsf(x); }
VM double vm_abs_f64(double x) { return fabs(x); }

#if defined(__SSE2__) && !defined(__SSE4_1__) && !defined(__CUDACC__)
/* No rounding instruction: adding and taking off 2**(digits - 1) rounds to even; larger numbers are integers already. */
#define VM_ROUND(T, t, f, BIG) \
VM T vm_rint_##t(T x) { \
    T a = fabs##f(x), y = (a + BIG) - BIG; \
    return copysign##f(a < BIG ? y : x, x); \
} \
VM T vm_floor_##t(T x) { T y = vm_rint_##t(x); return copysign##f(y > x ? y - 1 : y, x); } \
VM T vm_ceil_##t(T x) { T y = vm_rint_##t(x); return copysign##f(y < x ? y + 1 : y, x); } \
VM T vm_trunc_##t(T x) { return copysign##f(vm_floor_##t(fabs##f(x)), x); }
VM_ROUND(float, f32, f, 8388608.0f)
VM_ROUND(double, f64, , 4503599627370496.0)
#else
#define VM_ROUND(T, t, f) \
VM T vm_rint_##t(T x) { return rint##f(x); } \
VM T vm_floor_##t(T x) { return floor##f(x); } \
VM T vm_ceil_##t(T x) { return ceil##f(x); } \
VM T vm_trunc_##t(T x) { return trunc##f(x); }
VM_ROUND(float, f32, f)
VM_ROUND(double, f64, )
#endif

#define VM_FLOATING(T, t, f) \
VM int vm_isnan_##t(T x) { return x != x; } \
VM int vm_isinf_##t(T x) { return vm_abs_##t(x) > vm_max_##t; } \
VM int vm_isfinite_##t(T x) { return vm_abs_##t(x) <= vm_max_##t; } \
VM T vm_sign_##t(T x) { return (x > 0 ? (T)1 : (T)0) - (x < 0 ? (T)1 : (T)0); } \
VM T vm_sqrt_##t(T x) { return sqrt##f(x); }
/* Rounded to d decimal places, which every element shares: the power is taken out of the loop. */
#define VM_DECIMAL(T, t, f) \
VM int vm_signbit_##t(T x) { return vm_bits_##t(x) >> (8 * sizeof(T) - 1) != 0; } \
VM T vm_copysign_##t(T a, T b) { return copysign##f(a, b); } \
VM T vm_round_to_##t(T x, T d) { \
    T p = (T)pow(10.0, vm_abs_##t(d)); \
    return d < 0 ? vm_rint_##t(x / p) * p : vm_rint_##t(x * p) / p; \
}
VM_DECIMAL(float, f32, f)
VM_DECIMAL(double, f64, )
VM_FLOATING(float, f32, f)
VM_FLOATING(double, f64, )

/* == floating types: polynomials ==
   All coefficients are minimax fits made for this file (Remez exchange at 200 bits, each coefficient rounded in turn and the
   rest fitted again); the exponent at each says how large the relative error of the fit alone is. tests/ops/test_vecmath.py
   measures whole functions. NaN passes the clamps, because a comparison with it is false. */

/* exp(x) = 2**k * (1 + p), |p| < 0.42: k = round(x / ln 2), p = r + r*r*q(r) on |r| <= ln(2)/2, 2**-32 and 2**-62.
   The shifter 1.5 * 2**(digits - 1) leaves k in the low bits of the sum; ln 2 is split so that k * high part is exact. */
#define SHIFT_F32 12582912.0f
#define SHIFT_F64 6755399441055744.0

VM float vm_expm1_reduced_f32(float x, float *n) {
    float r, q;
    *n = MADD_F32(x, 1.44269504088896341f, SHIFT_F32) - SHIFT_F32;
    r = MADD_F32(*n, -0.693145751953125f, x);
    r = MADD_F32(*n, -1.42860682030941723e-6f, r);
    q = 0.000199583359f;
    q = MADD_F32(q, r, 0.00139341364f);
    q = MADD_F32(q, r, 0.00833319221f);
    q = MADD_F32(q, r, 0.0416664742f);
    q = MADD_F32(q, r, 0.166666672f);
    q = MADD_F32(q, r, 0.5f);
    return MADD_F32(r * r, q, r);
}

VM double vm_expm1_reduced_f64(double x, double *n) {
    double r, q;
    *n = MADD_F64(x, 1.44269504088896341, SHIFT_F64) - SHIFT_F64;
    r = MADD_F64(*n, -6.93147180369123816490e-01, x);
    r = MADD_F64(*n, -1.90821492927058770002e-10, r);
    q = 2.0919730818153308e-9;
    q = MADD_F64(q, r, 2.5109508818952372e-8);
    q = MADD_F64(q, r, 2.7557258635785483e-7);
    q = MADD_F64(q, r, 2.7557243008455394e-6);
    q = MADD_F64(q, r, 2.4801587341065606e-5);
    q = MADD_F64(q, r, 0.00019841269887144024);
    q = MADD_F64(q, r, 0.0013888888888877334);
    q = MADD_F64(q, r, 0.0083333333333213116);
    q = MADD_F64(q, r, 0.041666666666666678);
    q = MADD_F64(q, r, 0.16666666666666677);
    q = MADD_F64(q, r, 0.5);
    return MADD_F64(r * r, q, r);
}

/* 2**n of an integer n that has a normal result: n plus the shifter has n in its low bits, which become the exponent. */
VM float vm_pow2_f32(float n) { return vm_from_f32((vm_bits_f32(n + SHIFT_F32) + 127u) << 23); }
VM double vm_pow2_f64(double n) { return vm_from_f64((vm_bits_f64(n + SHIFT_F64) + 1023u) << 52); }

/* Scaled in two halves, so that results between normal and zero, and those that overflow, come out right. */
VM float vm_exp_f32(float x) {
    float n, h, p, z = x < -104.0f ? -104.0f : x;
    z = z > 89.0f ? 89.0f : z;
    p = vm_expm1_reduced_f32(z, &n) + 1.0f;
    h = MADD_F32(n, 0.5f, SHIFT_F32) - SHIFT_F32;
    return p * vm_pow2_f32(h) * vm_pow2_f32(n - h);
}

VM double vm_exp_f64(double x) {
    double n, h, p, z = x < -746.0 ? -746.0 : x;
    z = z > 710.0 ? 710.0 : z;
    p = vm_expm1_reduced_f64(z, &n) + 1.0;
    h = MADD_F64(n, 0.5, SHIFT_F64) - SHIFT_F64;
    return p * vm_pow2_f64(h) * vm_pow2_f64(n - h);
}

/* 2**n * (1 + p) - 1 with half the scale, which exists also where 2**n overflows; the subtraction is exact or far below p. */
VM float vm_expm1_f32(float x) {
    float n, p, s, y, z = x < -20.0f ? -20.0f : x;
    z = z > 89.0f ? 89.0f : z;
    p = vm_expm1_reduced_f32(z, &n);
    s = vm_pow2_f32(n - 1.0f);
    y = 2.0f * MADD_F32(s, p, s - 0.5f);
    return copysignf(n == 0.0f ? p : y, x);
}

VM double vm_expm1_f64(double x) {
    double n, p, s, y, z = x < -40.0 ? -40.0 : x;
    z = z > 710.0 ? 710.0 : z;
    p = vm_expm1_reduced_f64(z, &n);
    s = vm_pow2_f64(n - 1.0);
    y = 2.0 * MADD_F64(s, p, s - 0.5);
    return copysign(n == 0.0 ? p : y, x);
}

/* log(2**k * (1 + f)) for 1/sqrt(2) <= 1 + f <= sqrt(2). f32: f - f*f/2 + f**3 * P(f), 2**-30.
   f64: with s = f / (2 + f), log(1 + f) = 2s + s*z*R(z), z = s*s, 2**-66; written so that the large term f stays exact. */
VM float vm_log_reduced_f32(float f, float k) {
    float z = f * f, p = 0.0664625168f;
    p = MADD_F32(p, f, -0.116091318f);
    p = MADD_F32(p, f, 0.118972167f);
    p = MADD_F32(p, f, -0.124175206f);
    p = MADD_F32(p, f, 0.14219974f);
    p = MADD_F32(p, f, -0.166673273f);
    p = MADD_F32(p, f, 0.200020686f);
    p = MADD_F32(p, f, -0.250000209f);
    p = MADD_F32(p, f, 0.333333135f);
    p = MADD_F32(f * z, p, k * 1.42860682030941723e-6f);
    p = MADD_F32(-0.5f, z, p);
    return MADD_F32(k, 0.693145751953125f, f + p);
}

VM double vm_log_reduced_f64(double f, double k) {
    double s = f / (2.0 + f), z = s * s, h = 0.5 * f * f, p = 0.1323611438066597;
    p = MADD_F64(p, z, 0.13252007878375968);
    p = MADD_F64(p, z, 0.15386994682675634);
    p = MADD_F64(p, z, 0.18181778233600251);
    p = MADD_F64(p, z, 0.22222222608294825);
    p = MADD_F64(p, z, 0.28571428569404139);
    p = MADD_F64(p, z, 0.40000000000004937);
    p = MADD_F64(p, z, 0.66666666666666663);
    p = MADD_F64(s, MADD_F64(p, z, h), k * 1.90821492927058770002e-10);
    return MADD_F64(k, 6.93147180369123816490e-01, f - (h - p));
}

/* Splits x = 2**k * (1 + f): taking the bits of 1/sqrt(2) off first puts the cut between the exponents there. */
VM float vm_log_f32(float x) {
    float tiny = x < 1.17549435e-38f ? 1.0f : 0.0f, z = tiny != 0.0f ? x * 8388608.0f : x, y;
    uint32_t u = vm_bits_f32(z) + (0x3f800000u - 0x3f3504f3u);
    float k = (float)(int32_t)(u >> 23) - MADD_F32(tiny, 23.0f, 127.0f);
    y = vm_log_reduced_f32(vm_from_f32((u & 0x007fffffu) + 0x3f3504f3u) - 1.0f, k);
    y = x > vm_max_f32 ? x : y;
    return x > 0.0f ? y : x == 0.0f ? -HUGE_VALF : NAN;
}

VM double vm_log_f64(double x) {
    double tiny = x < 2.2250738585072014e-308 ? 1.0 : 0.0, z = tiny != 0.0 ? x * 18014398509481984.0 : x, y;
    uint64_t u = vm_bits_f64(z) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    /* the exponent as a number: put it under the leading bit of 2**52 and take 2**52 off */
    double k = vm_from_f64((u >> 52) | 0x4330000000000000u) - (4503599627370496.0 + 1023.0) - tiny * 54.0;
    y = vm_log_reduced_f64(vm_from_f64((u & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0, k);
    y = x > vm_max_f64 ? x : y;
    return x > 0.0 ? y : x == 0.0 ? -HUGE_VAL : (double)NAN;
}

/* 1 + x is rounded only to find k; f = x * 2**-k + (2**-k - 1) keeps the digits of x that the sum loses. */
VM float vm_log1p_f32(float x) {
    uint32_t u = vm_bits_f32(1.0f + x) + (0x3f800000u - 0x3f3504f3u);
    float k = (float)(int32_t)(u >> 23) - 127.0f;
    float s = vm_from_f32((254u - (u >> 23)) << 23), y;
    float f = x > 33554432.0f ? vm_from_f32((u & 0x007fffffu) + 0x3f3504f3u) - 1.0f : MADD_F32(x, s, s - 1.0f);
    y = copysignf(vm_log_reduced_f32(f, k), x);
    y = x > vm_max_f32 ? x : y;
    return x > -1.0f ? y : x == -1.0f ? -HUGE_VALF : NAN;
}

VM double vm_log1p_f64(double x) {
    uint64_t u = vm_bits_f64(1.0 + x) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    double k = vm_from_f64((u >> 52) | 0x4330000000000000u) - (4503599627370496.0 + 1023.0);
    double s = vm_from_f64((2046u - (u >> 52)) << 52), y;
    double f = x > 18014398509481984.0 ? vm_from_f64((u & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0
                                       : MADD_F64(x, s, s - 1.0);
    y = copysign(vm_log_reduced_f64(f, k), x);
    y = x > vm_max_f64 ? x : y;
    return x > -1.0 ? y : x == -1.0 ? -HUGE_VAL : (double)NAN;
}

/* 1 / (1 + exp(-x)) with the exponential of -|x| only: no overflow, and small results keep their digits. */
VM float vm_sigmoid_f32(float x) {
    float e = vm_exp_f32(-fabsf(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

VM double vm_sigmoid_f64(double x) {
    double e = vm_exp_f64(-fabs(x));
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

/* An odd polynomial below 0.625, 2**-32 and 2**-56; 1 - 2 / (exp(2|x|) + 1) above, which rounds to 1 beyond the clamp. */
VM float vm_tanh_f32(float x) {
    float a = fabsf(x), b = a > 10.0f ? 10.0f : a, z = x * x, p = 0.00215296866f, n, t;
    t = vm_expm1_reduced_f32(b + b, &n);
    t = MADD_F32(vm_pow2_f32(n), t, vm_pow2_f32(n));
    p = MADD_F32(p, z, -0.00819022581f);
    p = MADD_F32(p, z, 0.0217069443f);
    p = MADD_F32(p, z, -0.0539481826f);
    p = MADD_F32(p, z, 0.133332208f);
    p = MADD_F32(p, z, -0.333333313f);
    return copysignf(a < 0.625f ? MADD_F32(a * z, p, a) : 1.0f - 2.0f / (t + 1.0f), x);
}

VM double vm_tanh_f64(double x) {
    double a = fabs(x), b = a > 20.0 ? 20.0 : a, z = x * x, p = -1.6067560211329115e-5, n, t;
    t = vm_expm1_reduced_f64(b + b, &n);
    t = MADD_F64(vm_pow2_f64(n), t, vm_pow2_f64(n));
    p = MADD_F64(p, z, 7.7133872681881696e-5);
    p = MADD_F64(p, z, -0.00022855476026599147);
    p = MADD_F64(p, z, 0.00058631175848200816);
    p = MADD_F64(p, z, -0.0014549573875780332);
    p = MADD_F64(p, z, 0.0035919888787761126);
    p = MADD_F64(p, z, -0.0088632209657576611);
    p = MADD_F64(p, z, 0.021869487573300563);
    p = MADD_F64(p, z, -0.053968253931150317);
    p = MADD_F64(p, z, 0.13333333333261865);
    p = MADD_F64(p, z, -0.33333333333332854);
    return copysign(a < 0.625 ? MADD_F64(a * z, p, a) : 1.0 - 2.0 / (t + 1.0), x);
}

/* Below 1: x + x * P(x*x), 2**-29 and 2**-55. Above: 1 - exp(-Q(|x| - 1)), Q = -log(erfc), which needs the less precision the
   smaller erfc is: 2**-27 and 2**-57 of the result. Beyond the clamp the result rounds to 1. f32 has the logarithm to base 2,
   2**-29, and powers of 2 just good enough for a number below 0.16 that 1 loses: 2**-23 of it. */
VM float vm_erf_f32(float x) {
    float a = fabsf(x), b = (a > 4.0f ? 4.0f : a) - 1.0f, z = x * x, p = 7.92036808e-5f, q = 0.00026772666f, e = 0.0013407259f, s;
    p = MADD_F32(p, z, -0.000803076138f);
    p = MADD_F32(p, z, 0.00519073382f);
    p = MADD_F32(p, z, -0.026855126f);
    p = MADD_F32(p, z, 0.112836182f);
    p = MADD_F32(p, z, -0.376126289f);
    p = MADD_F32(p, z, 0.128379166f);
    q = MADD_F32(q, b, -0.0026345965f);
    q = MADD_F32(q, b, 0.014269541f);
    q = MADD_F32(q, b, -0.059872836f);
    q = MADD_F32(q, b, -1.2163626f);
    q = MADD_F32(q, b, -3.8072243f);
    q = MADD_F32(q, b, -2.6684167f);
    s = q + SHIFT_F32;
    q = q - (s - SHIFT_F32);
    e = MADD_F32(e, q, 0.009671875f);
    e = MADD_F32(e, q, 0.055503085f);
    e = MADD_F32(e, q, 0.24022235f);
    e = MADD_F32(e, q, 0.69314724f);
    e = MADD_F32(e, q, 1.0f) * vm_from_f32((vm_bits_f32(s) + 127u) << 23);
    return copysignf(a < 1.0f ? MADD_F32(a, p, a) : 1.0f - e, x);
}

VM double vm_erf_f64(double x) {
    double a = fabs(x), b = (a > 6.0 ? 6.0 : a) - 1.0, z = x * x, p = -7.5808713635880739e-10, q = -7.1781559887752598e-14, n;
    p = MADD_F64(p, z, 1.3602313730682383e-8);
    p = MADD_F64(p, z, -1.6180705683217674e-7);
    p = MADD_F64(p, z, 1.6443731609929514e-6);
    p = MADD_F64(p, z, -1.4924432978400718e-5);
    p = MADD_F64(p, z, 0.00012055278894414141);
    p = MADD_F64(p, z, -0.00085483254359457444);
    p = MADD_F64(p, z, 0.0052239775958375229);
    p = MADD_F64(p, z, -0.026866170641869157);
    p = MADD_F64(p, z, 0.11283791670936538);
    p = MADD_F64(p, z, -0.37612638903183337);
    p = MADD_F64(p, z, 0.12837916709551256);
    q = MADD_F64(q, b, 1.8916100751998706e-12);
    q = MADD_F64(q, b, -2.3949201518695451e-11);
    q = MADD_F64(q, b, 1.9846113797658376e-10);
    q = MADD_F64(q, b, -1.2300259271048602e-9);
    q = MADD_F64(q, b, 6.0563430287874486e-9);
    q = MADD_F64(q, b, -2.3848822215776776e-8);
    q = MADD_F64(q, b, 7.1347030094710671e-8);
    q = MADD_F64(q, b, -1.3007712770879226e-7);
    q = MADD_F64(q, b, -1.0004404015228434e-7);
    q = MADD_F64(q, b, 2.0158875222189964e-6);
    q = MADD_F64(q, b, -9.5742647427490246e-6);
    q = MADD_F64(q, b, 2.7138381966871977e-5);
    q = MADD_F64(q, b, -2.6268666839954373e-5);
    q = MADD_F64(q, b, -0.00023732542989177648);
    q = MADD_F64(q, b, 0.001977903221799358);
    q = MADD_F64(q, b, -0.010033825469276088);
    q = MADD_F64(q, b, 0.041561098050064436);
    q = MADD_F64(q, b, 0.84310725635830397);
    q = MADD_F64(q, b, 2.6389675142347948);
    q = MADD_F64(q, b, 1.8496055099332482);
    q = vm_expm1_reduced_f64(-q, &n) + 1.0;      /* far from overflow and from zero */
    return copysign(a < 1.0 ? MADD_F64(a, p, a) : 1.0 - q * vm_pow2_f64(n), x);
}

/* == floating types: near and far ==
   Some functions have a short vector form for almost all arguments and need libm for the rest. vm_far_ tells them apart, and
   vm_ itself takes the one or the other for each element. A loop first asks whether any argument is far; if none is, it uses
   vm_near_, which vectorises. */

#define VM_NEAR_1(T, t, name, libm) \
VM T vm_##name##_##t(T x) { return vm_far_##name##_##t(x) ? libm(x) : vm_near_##name##_##t(x); }
#define VM_NEAR_2(T, t, name, libm) \
VM T vm_##name##_##t(T a, T b) { return vm_far_##name##_##t(a, b) ? libm(a, b) : vm_near_##name##_##t(a, b); }

/* Remainder: a - q * b is exact where the quotient has few bits, in double for f32 and by a fused operation for f64. There the
   quotient may be rounded up to the next integer, which leaves the remainder one divisor short. */
VM int vm_far_cmod_f32(float a, float b) { return !((fabsf(a) < 268435456.0f * fabsf(b)) & (fabsf(b) <= vm_max_f32)); }
VM float vm_near_cmod_f32(float a, float b) {
    double q = vm_trunc_f64((double)a / (double)b);
    return copysignf((float)MADD_F64(-q, (double)b, (double)a), a);
}
#ifdef __FMA__
VM int vm_far_cmod_f64(double a, double b) { return !((fabs(a) < 4503599627370496.0 * fabs(b)) & (fabs(b) <= vm_max_f64)); }
#else
VM int vm_far_cmod_f64(double a, double b) { (void)a; (void)b; return 1; }
#endif
VM double vm_near_cmod_f64(double a, double b) {
    double r = MADD_F64(-trunc(a / b), b, a);
    return copysign((r < 0.0) != (a < 0.0) && r != 0.0 ? r + copysign(b, a) : r, a);
}
VM_NEAR_2(float, f32, cmod, fmodf)
VM_NEAR_2(double, f64, cmod, fmod)

/* What the remainder r of C's division gives: Python's remainder, and the quotient rounded down. That is floor((a - r) / b),
   which is right where a / b alone would round up to an integer. */
#define VM_DIVISION(T, t, f) \
VM T vm_pymod_of_##t(T b, T r) { return (r != 0) & ((r < 0) != (b < 0)) ? r + b : r; } \
VM T vm_floordiv_of_##t(T a, T b, T r) { \
    T q = (a - r) / b - ((r != 0) & ((r < 0) != (b < 0)) ? (T)1 : (T)0), down = vm_floor_##t(q); \
    down = q - down > (T)0.5 ? down + 1 : down; \
    down = q == 0 ? copysign##f(0, a / b) : down; \
    return b == 0 ? a / b : down; \
} \
VM int vm_far_pymod_##t(T a, T b) { return vm_far_cmod_##t(a, b); } \
VM int vm_far_floordiv_##t(T a, T b) { return vm_far_cmod_##t(a, b); } \
VM T vm_near_pymod_##t(T a, T b) { return vm_pymod_of_##t(b, vm_near_cmod_##t(a, b)); } \
VM T vm_near_floordiv_##t(T a, T b) { return vm_floordiv_of_##t(a, b, vm_near_cmod_##t(a, b)); } \
VM T vm_pymod_##t(T a, T b) { return vm_pymod_of_##t(b, vm_cmod_##t(a, b)); } \
VM T vm_floordiv_##t(T a, T b) { return vm_floordiv_of_##t(a, b, vm_cmod_##t(a, b)); }
VM_DIVISION(float, f32, f)
VM_DIVISION(double, f64, )

/* Sine and cosine of r + e, |r| <= pi/4, e far below r: 2**-37 and 2**-32 for f32 (in double, without e), 2**-57 and 2**-63. */
VM double vm_sin_short(double r, double z) {
    double p = 2.7182968025438506e-6;
    p = MADD_F64(p, z, -0.00019839333313525562);
    p = MADD_F64(p, z, 0.0083333293812259627);
    p = MADD_F64(p, z, -0.16666666641587058);
    return MADD_F64(r * z, p, r);
}
VM double vm_cos_short(double z) {
    double p = 2.4438307859171894e-5;
    p = MADD_F64(p, z, -0.0013887366308337776);
    p = MADD_F64(p, z, 0.041666646842827698);
    return MADD_F64(z * z, p, MADD_F64(z, -0.5, 1.0));
}
VM double vm_sin_long(double r, double e, double z) {
    double p = 1.5896863811346622e-10;
    p = MADD_F64(p, z, -2.5050759537530496e-8);
    p = MADD_F64(p, z, 2.7557313703125634e-6);
    p = MADD_F64(p, z, -0.00019841269829848937);
    p = MADD_F64(p, z, 0.0083333333333224825);
    p = MADD_F64(p, z, -0.16666666666666632);
    return r + MADD_F64(r * z, p, MADD_F64(-0.5 * z, e, e));
}
VM double vm_cos_long(double r, double e, double z) {
    double p = -1.1359907808975257e-11, h = 0.5 * z, w = 1.0 - h;
    p = MADD_F64(p, z, 2.0875728835868475e-9);
    p = MADD_F64(p, z, -2.7557314398315362e-7);
    p = MADD_F64(p, z, 2.480158728966449e-5);
    p = MADD_F64(p, z, -0.0013888888888874467);
    p = MADD_F64(p, z, 0.041666666666666602);
    return w + (((1.0 - w) - h) + MADD_F64(z * z, p, -(r * e)));
}

/* x = n * pi/2 + r for 0 <= x below the limit; n's low bits are returned. pi/2 comes in pieces of 33 bits, of which n, under
   20 bits, has exact products; up to the f64 limit r + e is right to the last bit however near x is to a multiple of pi/2. */
#define FAR_F32 8e5f
#define FAR_F64 65536.0
VM uint64_t vm_quarter_short(double x, double *r) {
    double t = MADD_F64(x, 0.6366197723675814, SHIFT_F64), n = t - SHIFT_F64;
    *r = MADD_F64(n, -6.077100506506192e-11, MADD_F64(n, -1.5707963267341256, x));
    return vm_bits_f64(t);
}
VM uint64_t vm_quarter_long(double x, double *r, double *e) {
    double t = MADD_F64(x, 0.6366197723675814, SHIFT_F64), n = t - SHIFT_F64;
    double a = MADD_F64(n, -1.5707963267341256, x), w = n * 6.077100506303966e-11, b = a - w;
    w = MADD_F64(n, 2.0222662487959506e-21, -((a - b) - w));
    *r = b - w;
    *e = (b - *r) - w;
    return vm_bits_f64(t);
}
/* a where the lowest bit of n is set, else b: by masks, for SSE2 cannot compare integers of 64 bits */
VM double vm_pick(uint64_t n, double a, double b) {
    return vm_from_f64(vm_bits_f64(b) ^ ((vm_bits_f64(a) ^ vm_bits_f64(b)) & (0 - (n & 1))));
}
/* x with its sign turned where bit `at` of n is set */
VM double vm_turn(double x, uint64_t n, int at) { return vm_from_f64(vm_bits_f64(x) ^ ((n >> at & 1) << 63)); }
VM double vm_sign_of(double x, double y) { return vm_from_f64(vm_bits_f64(x) ^ (vm_bits_f64(y) & 0x8000000000000000u)); }

VM float vm_near_sin_f32(float x) {
    double r;
    uint64_t n = vm_quarter_short(fabs((double)x), &r);
    return (float)vm_sign_of(vm_turn(vm_pick(n, vm_cos_short(r * r), vm_sin_short(r, r * r)), n, 1), (double)x);
}
VM float vm_near_cos_f32(float x) {
    double r;
    uint64_t n = vm_quarter_short(fabs((double)x), &r) + 1;
    return (float)vm_turn(vm_pick(n, vm_cos_short(r * r), vm_sin_short(r, r * r)), n, 1);
}
VM float vm_near_tan_f32(float x) {
    double r;
    uint64_t n = vm_quarter_short(fabs((double)x), &r);
    double s = vm_sin_short(r, r * r), c = vm_cos_short(r * r);
    return (float)vm_sign_of(vm_turn(vm_pick(n, c, s) / vm_pick(n, s, c), n, 0), (double)x);
}
VM double vm_near_sin_f64(double x) {
    double r, e;
    uint64_t n = vm_quarter_long(fabs(x), &r, &e);
    return vm_sign_of(vm_turn(vm_pick(n, vm_cos_long(r, e, r * r), vm_sin_long(r, e, r * r)), n, 1), x);
}
VM double vm_near_cos_f64(double x) {
    double r, e;
    uint64_t n = vm_quarter_long(fabs(x), &r, &e) + 1;
    return vm_turn(vm_pick(n, vm_cos_long(r, e, r * r), vm_sin_long(r, e, r * r)), n, 1);
}
VM double vm_near_tan_f64(double x) {
    double r, e;
    uint64_t n = vm_quarter_long(fabs(x), &r, &e);
    double s = vm_sin_long(r, e, r * r), c = vm_cos_long(r, e, r * r);
    return vm_sign_of(vm_turn(vm_pick(n, c, s) / vm_pick(n, s, c), n, 0), x);
}
#define VM_CIRCULAR(T, t, f, name, LIMIT) \
VM int vm_far_##name##_##t(T x) { return !(vm_abs_##t(x) <= LIMIT); } \
VM_NEAR_1(T, t, name, name##f)
VM_CIRCULAR(float, f32, f, sin, FAR_F32) VM_CIRCULAR(double, f64, , sin, FAR_F64)
VM_CIRCULAR(float, f32, f, cos, FAR_F32) VM_CIRCULAR(double, f64, , cos, FAR_F64)
VM_CIRCULAR(float, f32, f, tan, FAR_F32) VM_CIRCULAR(double, f64, , tan, FAR_F64)

/* == floating types: powers == */

VM double vm_power_f64(double a, double b) { return pow(a, b); }

/* f32 in double: exp(b * log|a|), the two fits to 2**-44 and 2**-34, for the exponent is at most 104 where it matters. Negative
   a has results for integers b only. Two lanes at a time would be slower than libm. */
VM double vm_log_short(double x) {
    uint64_t u = vm_bits_f64(x) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    double k = vm_from_f64((u >> 52) | 0x4330000000000000u) - (4503599627370496.0 + 1023.0);
    double f = vm_from_f64((u & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0, s = f / (2.0 + f), z = s * s;
    double p = 0.1958554781244497;
    p = MADD_F64(p, z, 0.22176098230825667);
    p = MADD_F64(p, z, 0.28572111156894681);
    p = MADD_F64(p, z, 0.39999995604650018);
    p = MADD_F64(p, z, 0.66666666675846398);
    p = MADD_F64(k, 0.6931471805599453, MADD_F64(s * z, p, s + s));
    p = x <= (double)vm_max_f32 ? p : x;
    return x == 0.0 ? -HUGE_VAL : p;
}
VM double vm_exp_short(double x) {
    double z = x < -200.0 ? -200.0 : x, t, n, r, q = 0.00019799986778230459;
    z = z > 200.0 ? 200.0 : z;
    t = MADD_F64(z, 1.44269504088896341, SHIFT_F64);
    n = t - SHIFT_F64;
    r = MADD_F64(n, -0.6931471805599453, z);
    q = MADD_F64(q, r, 0.00139451733306273);
    q = MADD_F64(q, r, 0.008333479814102351);
    q = MADD_F64(q, r, 0.041666288066523123);
    q = MADD_F64(q, r, 0.16666665945635967);
    q = MADD_F64(q, r, 0.5000000069632845);
    return MADD_F64(r * r, q, r + 1.0) * vm_pow2_f64(n);
}
VM float vm_power_f32(float a, float b) {
#ifdef __AVX2__
    double x = (double)a, y = (double)b, l = vm_log_short(fabs(x)), half = 0.5 * y;
    double m = vm_exp_short(l == 0.0 ? 0.0 : y * l);
    double whole = trunc(half) != half ? vm_sign_of(m, x) : m;
    double broken = x < 0.0 ? x < -(double)vm_max_f32 ? m : (double)NAN : m;
    m = trunc(y) == y ? whole : broken;
    return y == 0.0 ? 1.0f : (float)m;
#else
    return powf(a, b);
#endif
}

#endif
