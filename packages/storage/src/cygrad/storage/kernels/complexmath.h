/* Functions of one complex number. Products and quotients are written out: those of C's Annex G look for infinities that came
   out as NaN, at many times the cost, and give other results than PyTorch there. Where the C library has the function of a
   complex argument it is taken, branch cuts and signed zeros included. */
#ifndef CYGRAD_COMPLEXMATH_H
#define CYGRAD_COMPLEXMATH_H

#include <complex.h>
#include <math.h>
#include <stdint.h>
#include "convert.h"

#define C_LN2 0.69314718055994530942
#define C_LN10 2.30258509299404568402

#define C_PARTS(t, T, P, f) \
static inline T c_make_##t(P re, P im) { T z; ((P*)&z)[0] = re; ((P*)&z)[1] = im; return z; } \
static inline P c_real_##t(T z) { return ((const P*)&z)[0]; } \
static inline P c_imag_##t(T z) { return ((const P*)&z)[1]; } \
static inline T c_conj_##t(T z) { return c_make_##t(c_real_##t(z), -c_imag_##t(z)); } \
static inline P c_abs_##t(T z) { return hypot##f(c_real_##t(z), c_imag_##t(z)); } \
static inline P c_angle_##t(T z) { return atan2##f(c_imag_##t(z), c_real_##t(z)); } \
static inline int c_isnan_##t(T z) { return isnan(c_real_##t(z)) | isnan(c_imag_##t(z)); } \
static inline int c_isinf_##t(T z) { return !!isinf(c_real_##t(z)) | !!isinf(c_imag_##t(z)); } \
static inline int c_isfinite_##t(T z) { return !!isfinite(c_real_##t(z)) & !!isfinite(c_imag_##t(z)); } \
static inline T c_scale_##t(T z, P r) { return c_make_##t(c_real_##t(z) * r, c_imag_##t(z) * r); } \
static inline T c_mul_##t(T x, T y) { \
    P a = c_real_##t(x), b = c_imag_##t(x), c = c_real_##t(y), d = c_imag_##t(y); \
    return c_make_##t(a * c - b * d, a * d + b * c); \
} \
/* by the larger part of the divisor (Smith, 1962) */ \
static inline T c_div_##t(T x, T y) { \
    P a = c_real_##t(x), b = c_imag_##t(x), c = c_real_##t(y), d = c_imag_##t(y), r, s; \
    if (fabs##f(c) >= fabs##f(d)) { \
        if (c == 0 && d == 0) return c_make_##t(a / fabs##f(c), b / fabs##f(c)); \
        r = d / c, s = (P)1 / (c + d * r); \
        return c_make_##t((a + b * r) * s, (b - a * r) * s); \
    } \
    r = c / d, s = (P)1 / (d + c * r); \
    return c_make_##t((a * r + b) * s, (b * r - a) * s); \
} \
static inline T c_sgn_##t(T z) { \
    P r = c_abs_##t(z); \
    return r == 0 ? c_make_##t(0, 0) : c_make_##t(c_real_##t(z) / r, c_imag_##t(z) / r); \
} \
static inline T c_sqrt_##t(T z) { return csqrt##f(z); } \
static inline T c_exp_##t(T z) { return cexp##f(z); } \
static inline T c_log_##t(T z) { return clog##f(z); } \
static inline T c_sin_##t(T z) { return csin##f(z); } \
static inline T c_cos_##t(T z) { return ccos##f(z); } \
static inline T c_tan_##t(T z) { return ctan##f(z); } \
static inline T c_asin_##t(T z) { return casin##f(z); } \
static inline T c_acos_##t(T z) { return cacos##f(z); } \
static inline T c_atan_##t(T z) { return catan##f(z); } \
static inline T c_sinh_##t(T z) { return csinh##f(z); } \
static inline T c_cosh_##t(T z) { return ccosh##f(z); } \
static inline T c_tanh_##t(T z) { return ctanh##f(z); } \
static inline T c_asinh_##t(T z) { return casinh##f(z); } \
static inline T c_acosh_##t(T z) { return cacosh##f(z); } \
static inline T c_atanh_##t(T z) { return catanh##f(z); } \
static inline T c_exp2_##t(T z) { return cexp##f(c_scale_##t(z, (P)C_LN2)); } \
static inline T c_log2_##t(T z) { return c_scale_##t(clog##f(z), (P)(1 / C_LN2)); } \
static inline T c_log10_##t(T z) { return c_scale_##t(clog##f(z), (P)(1 / C_LN10)); } \
/* exp(z) - 1 = (expm1(x) cos(y) - 2 sin(y/2)**2) + i exp(x) sin(y), which cancels nothing near 0 */ \
static inline T c_expm1_##t(T z) { \
    P x = c_real_##t(z), y = c_imag_##t(z), s = sin##f(y / 2); \
    if (y == 0) return c_make_##t(expm1##f(x), y); \
    if (!isfinite(y)) return cexp##f(z) - 1; \
    return c_make_##t(expm1##f(x) * cos##f(y) - 2 * s * s, exp##f(x) * sin##f(y)); \
} \
/* |1 + z|**2 - 1 = x (2 + x) + y**2, whose log1p is twice the real part where |1 + z| is near 1 */ \
static inline T c_log1p_##t(T z) { \
    P x = c_real_##t(z), y = c_imag_##t(z), angle = atan2##f(y, x + 1); \
    if (fabs##f(x) < (P)0.5 && fabs##f(y) < (P)0.5) return c_make_##t(log1p##f(x * (2 + x) + y * y) / 2, angle); \
    return c_make_##t(log##f(hypot##f(x + 1, y)), angle); \
} \
static inline T c_sigmoid_##t(T z) { \
    T e = cexp##f(-z); \
    return c_div_##t(c_make_##t(1, 0), c_make_##t(1 + c_real_##t(e), c_imag_##t(e))); \
} \
static inline T c_power_##t(T x, T y) { \
    P e = c_real_##t(y); \
    if (c_imag_##t(y) == 0) { \
        if (e == 0) return c_make_##t(1, 0); \
        if (e == 1) return x; \
        if (e == 2) return c_mul_##t(x, x); \
        if (e == 3) return c_mul_##t(c_mul_##t(x, x), x); \
        if (e == -1) return c_div_##t(c_make_##t(1, 0), x); \
        if (e == (P)0.5) return csqrt##f(x); \
    } \
    return cpow##f(x, y); \
}
C_PARTS(c64, float _Complex, float, f)
C_PARTS(c128, double _Complex, double, )

#endif
