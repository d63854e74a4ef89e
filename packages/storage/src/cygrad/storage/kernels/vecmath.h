/* Elementary functions of one element, written so that a loop around them vectorises: no branches, no tables, no calls.
   Every name ends in the element type. A strided element, the tail of a loop and a vector lane run the same operations in
   the same order, so they give the same bits; only instruction sets with and without fused multiply-add differ. */
#ifndef CYGRAD_VECMATH_H
#define CYGRAD_VECMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define VM static inline

/* == all types == */

#define VM_ANY(T, t) \
VM T vm_where_##t(int c, T a, T b) { return c ? a : b; }
VM_ANY(uint8_t, b8) VM_ANY(uint8_t, u8) VM_ANY(int32_t, i32) VM_ANY(int64_t, i64) VM_ANY(float, f32) VM_ANY(double, f64)

/* == integers: what overflows wraps around, a zero divisor gives 0; neither traps == */

#define VM_CLASSIFY(T, t) \
VM int vm_isnan_##t(T x) { (void)x; return 0; } \
VM int vm_isinf_##t(T x) { (void)x; return 0; } \
VM int vm_isfinite_##t(T x) { (void)x; return 1; }
VM_CLASSIFY(uint8_t, b8) VM_CLASSIFY(uint8_t, u8) VM_CLASSIFY(int32_t, i32) VM_CLASSIFY(int64_t, i64)

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
VM_INTEGER(uint8_t, uint32_t, u8, 0)
VM_INTEGER(int32_t, uint32_t, i32, INT32_MIN)
VM_INTEGER(int64_t, uint64_t, i64, INT64_MIN)

/* == floating types == */

#define VM_FLOATING(T, t, f) \
VM int vm_isnan_##t(T x) { return x != x; } \
VM int vm_isinf_##t(T x) { return vm_abs_##t(x) > vm_max_##t; } \
VM int vm_isfinite_##t(T x) { return vm_abs_##t(x) <= vm_max_##t; } \
VM T vm_sign_##t(T x) { return (T)((x > 0) - (x < 0)); } \
VM T vm_sqrt_##t(T x) { return sqrt##f(x); } \
VM T vm_floor_##t(T x) { return floor##f(x); } \
VM T vm_ceil_##t(T x) { return ceil##f(x); } \
VM T vm_rint_##t(T x) { return rint##f(x); } \
VM T vm_trunc_##t(T x) { return trunc##f(x); } \
VM T vm_sin_##t(T x) { return sin##f(x); } \
VM T vm_cos_##t(T x) { return cos##f(x); } \
VM T vm_tan_##t(T x) { return tan##f(x); } \
VM T vm_power_##t(T a, T b) { return pow##f(a, b); } \
VM T vm_exp_##t(T x) { return exp##f(x); } \
VM T vm_expm1_##t(T x) { return expm1##f(x); } \
VM T vm_log_##t(T x) { return log##f(x); } \
VM T vm_log1p_##t(T x) { return log1p##f(x); } \
VM T vm_tanh_##t(T x) { return tanh##f(x); } \
VM T vm_sigmoid_##t(T x) { return 1 / (1 + exp##f(-x)); } \
VM T vm_erf_##t(T x) { return erf##f(x); } \
VM T vm_cmod_##t(T a, T b) { return fmod##f(a, b); } \
VM T vm_pymod_##t(T a, T b) { \
    T r = fmod##f(a, b); \
    return (r != 0) & ((r < 0) != (b < 0)) ? r + b : r; \
} \
/* The exact quotient of a - a mod b, rounded down; the remainder makes it right where a / b alone would round up. */ \
VM T vm_floordiv_##t(T a, T b) { \
    T r = fmod##f(a, b), q = (a - r) / b, down; \
    if (b == 0) return a / b; \
    if ((r != 0) & ((r < 0) != (b < 0))) q -= 1; \
    if (q == 0) return copysign##f(0, a / b); \
    down = floor##f(q); \
    return q - down > (T)0.5 ? down + 1 : down; \
}
static const float vm_max_f32 = 3.402823466385288598e38f;
static const double vm_max_f64 = 1.797693134862315708e308;
VM float vm_abs_f32(float x) { return fabsf(x); }
VM double vm_abs_f64(double x) { return fabs(x); }
VM_FLOATING(float, f32, f)
VM_FLOATING(double, f64, )

#endif
