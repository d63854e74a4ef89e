/* Rare functions of one element, for the rows of special.toml: long, with branches, and compiled for the base
   instruction set only. All work in double; a float is computed in double and rounded, so it is right to the last bit
   or nearly.
   "DLMF" is the NIST Digital Library of Mathematical Functions, by number of equation. */
#ifndef CYGRAD_SPECIAL_H
#define CYGRAD_SPECIAL_H

#include <math.h>
#include <stdint.h>

/* How functions and tables are declared and what extended precision is; cuda/device_special.cuh says otherwise. */
#ifndef SP_FN
#define SP_FN static inline
#define SP_TABLE static const
#define SP_LONG(name) name##l
typedef long double sp_long;
/* lgamma writes a global sign, which threads would share */
static inline double sp_lgamma(double x) { int sign; return lgamma_r(x, &sign); }
static inline long double sp_lgammal(long double x) { int sign; return lgammal_r(x, &sign); }
#endif

#include "special_fits.h"

#define SP_PI 3.14159265358979323846
#define SP_PI_LONG ((sp_long)3.14159265358979323846264338327950288L)
#define SP_UNARY(name) \
SP_FN float vm_##name##_f32(float x) { return (float)vm_##name##_f64((double)x); }
#define SP_BINARY(name) \
SP_FN float vm_##name##_f32(float a, float b) { return (float)vm_##name##_f64((double)a, (double)b); }

/* == what libm has == */

#define SP_LIBM(name, f) \
SP_FN double vm_##name##_f64(double x) { return f(x); } \
SP_UNARY(name)
SP_LIBM(exp2, exp2) SP_LIBM(log2, log2) SP_LIBM(log10, log10)
SP_LIBM(asin, asin) SP_LIBM(acos, acos) SP_LIBM(atan, atan)
SP_LIBM(sinh, sinh) SP_LIBM(cosh, cosh)
SP_LIBM(asinh, asinh) SP_LIBM(acosh, acosh) SP_LIBM(atanh, atanh)
SP_LIBM(erfc, erfc)
SP_LIBM(j0, j0) SP_LIBM(j1, j1) SP_LIBM(y0, y0) SP_LIBM(y1, y1)

SP_FN double vm_atan2_f64(double a, double b) { return atan2(a, b); }
SP_BINARY(atan2)
SP_FN double vm_hypot_f64(double a, double b) { return hypot(a, b); }
SP_FN float vm_hypot_f32(float a, float b) {       /* the squares are exact in double */
    return isinf(a) || isinf(b) ? INFINITY : (float)sqrt((double)a * a + (double)b * b);
}
SP_FN double vm_nextafter_f64(double a, double b) { return nextafter(a, b); }
SP_FN float vm_nextafter_f32(float a, float b) { return nextafterf(a, b); }

SP_FN double vm_lgamma_f64(double x) { return sp_lgamma(x); }
SP_UNARY(lgamma)

/* The parts of x = m * 2**e, 0.5 <= |m| < 1; zeros, infinities and NaN are their own m, with e = 0. */
SP_FN double vm_mantissa_f64(double x) { int e; return isfinite(x) ? frexp(x, &e) : x; }
SP_FN double vm_exponent_f64(double x) { int e = 0; if (isfinite(x)) (void)frexp(x, &e); return (double)e; }
SP_UNARY(mantissa) SP_UNARY(exponent)

/* == integers == */

/* Greatest common divisor by Euclid, of magnitudes; that of the least integer with itself or 0 wraps around to it. */
#define SP_GCD(T, U, t) \
SP_FN T vm_gcd_##t(T a, T b) { \
    U x = a < 0 ? (U)0 - (U)a : (U)a, y = b < 0 ? (U)0 - (U)b : (U)b, r; \
    while (y != 0) { r = x % y; x = y; y = r; } \
    return (T)x; \
} \
SP_FN T vm_lcm_##t(T a, T b) { \
    T g = vm_gcd_##t(a, b), y = g == 0 ? 0 : (T)((U)(a / g) * (U)b); \
    return y < 0 ? (T)((U)0 - (U)y) : y; \
}
SP_GCD(uint8_t, uint8_t, u8) SP_GCD(int32_t, uint32_t, i32)
SP_GCD(int64_t, uint64_t, i64) SP_GCD(uint64_t, uint64_t, u64)

/* == error function and its relatives == */

SP_FN double sp_chebyshev(const double *c, int n, double t) {
    double b0 = 0, b1 = 0, b2 = 0;
    int k;
    for (k = n - 1; k >= 0; k--) { b2 = b1; b1 = b0; b0 = 2 * t * b1 - b2 + c[k]; }
    return b0 - t * b1;
}
#define SP_SUM(c, t) sp_chebyshev(c, (int)(sizeof(c) / sizeof(c[0])), t)

/* exp(s * x * x) for s = 1 or -1, with the square's rounding error made good: it would cost up to 300 units of the last
   place */
SP_FN double sp_exp_square(double x, double s) {
    double h = x * x, l = fma(x, x, -h);
    return isinf(h) ? exp(s * h) : exp(s * h) * (1 + s * l);
}

/* exp(x**2) erfc(x): a Chebyshev series in (x - 4) / (x + 4) on the whole half line, the mapping of Schonfelder (Math.
   Comp. 32, 1978); on the other half by reflection, DLMF 7.4.2 */
SP_FN double vm_erfcx_f64(double x) {
    double a = fabs(x), y;
    if (isnan(x)) return x;
    y = isinf(a) ? 0.0 : SP_SUM(sp_erfcx, (a - 4) / (a + 4)) / (1 + 2 * a);
    if (x >= 0) return y;
    return x < -26.7 ? INFINITY : 2 * sp_exp_square(x, 1) - y;
}
SP_UNARY(erfcx)

/* The x with erfc(x) = q, 0 < q <= 1/2: a guess good to 1e-6, then Halley's method, which cubes the error: once, and
   twice far out, where the curve bends more. */
SP_FN double sp_erfcinv(double q) {
    double s = sqrt(-log(q)), x, d;
    int k;
    x = s < 3 ? SP_SUM(sp_tail_a, (s - 1.915) / 1.085) : s < 8 ? SP_SUM(sp_tail_b, (s - 5.5) / 2.5)
        : s * SP_SUM(sp_tail_c, (s - 18) / 10);
    for (k = 0; k < (s < 5 ? 1 : 2); k++) {
        if (s < 5) d = (erfc(x) - q) / (1.1283791670955126 * sp_exp_square(x, -1));
        else d = (vm_erfcx_f64(x) - exp(x * x + log(q))) / 1.1283791670955126;
        x += d / (1 - x * d);
    }
    return x;
}

SP_FN double vm_erfinv_f64(double x) {
    double a = fabs(x), y, d;
    if (!(a < 1)) return a == 1 ? copysign(INFINITY, x) : NAN;
    if (a > 0.5) return copysign(sp_erfcinv(1 - a), x);
    y = x * SP_SUM(sp_mid, 8 * x * x - 1);
    d = (erf(y) - x) / (1.1283791670955126 * exp(-y * y));
    return y - d / (1 + y * d);
}
SP_UNARY(erfinv)

/* Normal distribution: the probability below x. erfc is steep far out, so the rounding error of x / sqrt(2) is made
   good. */
#define SP_ROOT_HALF 0.7071067811865476
#define SP_ROOT_HALF_REST -4.833646656726457e-17
SP_FN double vm_ndtr_f64(double x) {
    double t = -x * SP_ROOT_HALF, rest = fma(-x, SP_ROOT_HALF, -t) - x * SP_ROOT_HALF_REST;
    double y = 0.5 * erfc(t);
    return isinf(x) || fabs(x) > 40 ? y : y - 0.5641895835477563 * exp(-t * t) * rest;
}
SP_FN double vm_log_ndtr_f64(double x) {
    double t = -x * SP_ROOT_HALF;
    return x < -1 ? log(0.5 * vm_erfcx_f64(t)) - 0.5 * x * x : log1p(-vm_ndtr_f64(-x));
}
SP_FN double vm_ndtri_f64(double p) {
    double q = p <= 0.5 ? p : 1 - p, y;
    if (!(p >= 0 && p <= 1)) return NAN;
    if (q == 0) return p == 0 ? -INFINITY : INFINITY;
    y = q > 0.25 ? -vm_erfinv_f64(1 - 2 * q) : -sp_erfcinv(2 * q);
    return copysign(1.4142135623730951 * y, p - 0.5);
}
SP_UNARY(ndtr) SP_UNARY(log_ndtr) SP_UNARY(ndtri)

/* == gamma function: derivatives of its logarithm == */

/* B(2j) / (2j)!, j = 1 ... 12 */
SP_TABLE double sp_bernoulli[] = {
    1.0 / 12, -1.0 / 720, 1.0 / 30240, -1.0 / 1209600, 1.0 / 47900160, -691.0 / 1307674368000.0, 1.0 / 74724249600.0,
    -3617.0 / 10670622842880000.0, 43867.0 / 5109094217170944000.0, -174611.0 / 802857662698291200000.0,
    77683.0 / 14101100039391805440000.0, -236364091.0 / 1693824136731743669452800000.0};

/* sum over k >= 0 of (x + k)**-s for x > 0, s > 1: terms up to 10 + s and Euler-Maclaurin for the rest, DLMF 25.11.5 */
SP_FN double sp_hurwitz(double s, double x) {
    double sum = 0, term, power, factor = s;
    int j;
    double far = 10 + s;
    while (x < far) {
        term = pow(x, -s);
        sum += term;
        if (isinf(sum) || term <= 1e-18 * sum) return sum;
        x += 1;
    }
    power = pow(x, -s);
    sum += power * (x / (s - 1) + 0.5);
    power /= x;
    for (j = 0; j < 12; j++) {
        term = factor * power * sp_bernoulli[j];
        sum += term;
        if (fabs(term) < 1e-18 * fabs(sum)) break;
        factor *= (s + 2 * j + 1) * (s + 2 * j + 2);
        power /= x * x;
    }
    return sum;
}

/* The Hurwitz zeta function; for negative x and whole s the negative terms are two sums of positive ones. At infinite
   arguments, and where s is so large that every term is 0, the value is PyTorch's, whose formula is 0 times infinity. */
SP_FN double vm_zeta_f64(double s, double x) {
    double f;
    if (s == 1) return INFINITY;
    if (s < 1) return NAN;
    if (x <= 0 && x == floor(x)) return INFINITY;
    if (isnan(s) || isnan(x) || isinf(x) || (x > 1 && s > 1e12)) return NAN;
    if (x > 0) return sp_hurwitz(s, x);
    if (s != floor(s)) return NAN;
    if (isinf(s)) return INFINITY;
    f = x - floor(x);
    return sp_hurwitz(s, f) + (fmod(s, 2.0) == 0 ? 1 : -1) * (sp_hurwitz(s, 1 - f) - sp_hurwitz(s, 1 - x));
}
SP_BINARY(zeta)

/* Digamma: a Chebyshev series over its root in [1, 2], which keeps its relative precision there; recurrence
   (DLMF 5.5.2) into that interval from (0, 10); the asymptotic series (5.11.2) above; reflection (5.5.4) below, in extended precision, since its parts cancel around the roots. */
SP_FN sp_long sp_digamma_long(sp_long x) {
    sp_long y = 0, z;
    for (; x < 16; x += 1) y += 1 / x;
    z = 1 / (x * x);
    y += z * (1 / 12.0L - z * (1 / 120.0L - z * (1 / 252.0L - z * (1 / 240.0L - z * (1 / 132.0L - z * (691 / 32760.0L
         - z * (1 / 12.0L - z * (3617 / 8160.0L))))))));
    return SP_LONG(log)(x) - 0.5L / x - y;
}
SP_FN double vm_digamma_f64(double x) {
    double y = 0, z, r;
    if (x == 0) return copysign(INFINITY, -x);
    if (x < 0) {
        r = x - floor(x);
        if (r == 0 || isinf(x)) return NAN;
        return (double)(sp_digamma_long(1 - (sp_long)x)
                        - (r == 0.5 ? 0 : SP_PI_LONG / SP_LONG(tan)(SP_PI_LONG * (sp_long)(r > 0.5 ? r - 1 : r))));
    }
    if (x < 10) {
        for (; x > 2; x -= 1) y += 1 / (x - 1);
        if (x < 1) { y -= 1 / x; x += 1; }
        r = (x - 1.4616321449683622) - 9.549995429965697e-17;
        return y + r * SP_SUM(sp_psi, 2 * x - 3);
    }
    z = 1 / (x * x);
    y = z * (1.0 / 132 - z * (691.0 / 32760 - z / 12));
    y = z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - y))));
    return isinf(x) ? x : log(x) - 0.5 / x - y;
}
SP_UNARY(digamma)

/* The n-th derivative of digamma, DLMF 25.11.12. At the poles of the first one PyTorch gives what its reflection formula
   does in working precision, a huge number; so do we. */
#define SP_POLE(T, f, pi, x) { T s_ = sin##f((T)pi * x); return (T)pi * (T)pi / (s_ * s_); }
SP_FN double vm_polygamma_f64(double x, double n) {
    if (n == 0) return vm_digamma_f64(x);
    if (n == 1 && x < 0 && x == floor(x)) SP_POLE(double, , SP_PI, x)
    if (n == 1 && x > 1e18) return 1 / x;
    return (fmod(n, 2.0) == 0 ? -1 : 1) * tgamma(n + 1) * vm_zeta_f64(n + 1, x);
}
SP_FN float vm_polygamma_f32(float x, float n) {
    if (n == 1 && x < 0 && x == floorf(x)) SP_POLE(float, f, SP_PI, x)
    return (float)vm_polygamma_f64(x, n);
}

/* == incomplete gamma functions == */

/* All in extended precision: the exponent of the weight may be 700 and the sums may have a thousand terms, whose roundings
   would be seen. */

/* log(1 + t) - t by the series of 2 atanh(s) with s = t / (2 + t), in which nothing cancels */
SP_FN sp_long sp_log1p_minus(sp_long t) {
    sp_long s = t / (2 + t), q = s * s, sum = 0;
    int k;
    if (t < -0.1L || t > 0.1L) return SP_LONG(log1p)(t) - t;
    for (k = 17; k >= 3; k -= 2) sum = q * sum + 1.0L / k;
    return 2 * s * q * sum - t * s;
}

/* x**a exp(-x) / gamma(a + 1). For large a by the distance from the peak, where a log(x) - x - lgamma(a + 1) would
   cancel. */
SP_FN sp_long sp_gamma_weight(sp_long a, sp_long x) {
    sp_long t = 1 / a, q = t * t, stirling;
    int sign;
    if (a < 20) return SP_LONG(exp)(a * SP_LONG(log)(x) - x - SP_LONG(sp_lgamma)(a + 1));
    stirling = t * (1 / 12.0L - q * (1 / 360.0L - q * (1 / 1260.0L - q * (1 / 1680.0L - q * (1 / 1188.0L - q * (691 / 360360.0L
               - q / 156)))))); /* DLMF 5.11.1 */
    return SP_LONG(exp)(a * sp_log1p_minus((x - a) / a) - stirling) / SP_LONG(sqrt)(2 * SP_PI_LONG * a);
}

/* The series DLMF 8.11.4 gives the lower one, Lentz's continued fraction (8.9.2) the upper one. */
SP_FN sp_long sp_gamma_series(sp_long a, sp_long x) {
    sp_long sum = 1, term = 1;
    int k;
    for (k = 1; k < 200000 && term > 1e-19L * sum; k++) { term *= x / (a + k); sum += term; }
    return sum * sp_gamma_weight(a, x);
}
SP_FN sp_long sp_gamma_fraction(sp_long a, sp_long x) {
    sp_long b = x + 1 - a, c = 1e300L, d = 1 / b, h = d, delta, n;
    int k;
    for (k = 1; k < 200000; k++) {
        n = -k * (k - a);
        b += 2;
        d = n * d + b;
        c = b + n / c;
        if (SP_LONG(fabs)(d) < 1e-300L) d = 1e-300L;
        if (SP_LONG(fabs)(c) < 1e-300L) c = 1e-300L;
        d = 1 / d;
        delta = d * c;
        h *= delta;
        if (SP_LONG(fabs)(delta - 1) < 1e-18L) break;
    }
    return h * a * sp_gamma_weight(a, x);
}
/* upper: 1 for the upper function, whose limits are those of the lower one from 1 */
SP_FN double sp_incomplete(double a, double x, int upper) {
    if (isnan(a) || isnan(x) || a < 0 || x < 0 || (a == 0 && x == 0) || (isinf(a) && isinf(x))) return NAN;
    if (a == 0 || isinf(x)) return upper ? 0 : 1;
    if (x == 0 || isinf(a)) return upper ? 1 : 0;
    if (x < a + 1) return (double)(upper ? 1 - sp_gamma_series(a, x) : sp_gamma_series(a, x));
    return (double)(upper ? sp_gamma_fraction(a, x) : 1 - sp_gamma_fraction(a, x));
}
SP_FN double vm_igamma_f64(double a, double x) { return sp_incomplete(a, x, 0); }
SP_FN double vm_igammac_f64(double a, double x) { return sp_incomplete(a, x, 1); }
SP_BINARY(igamma) SP_BINARY(igammac)

/* == modified Bessel functions: a series on either side of 8 (I) or 2 (K), as Clenshaw (1962) has them == */

SP_FN double vm_i0e_f64(double x) {
    double a = fabs(x);
    return a <= 8 ? SP_SUM(sp_i0_low, a / 4 - 1) : isinf(a) ? 0 : SP_SUM(sp_i0_high, 16 / a - 1) / sqrt(a);
}
SP_FN double vm_i1e_f64(double x) {
    double a = fabs(x);
    if (a <= 8) return x * SP_SUM(sp_i1_low, a / 4 - 1);
    return copysign(isinf(a) ? 0 : SP_SUM(sp_i1_high, 16 / a - 1) / sqrt(a), x);
}
/* NaN at infinity, where the product is infinite times 0, as PyTorch and NumPy have it */
SP_FN double vm_i0_f64(double x) { double e = exp(fabs(x) / 2); return e * (e * vm_i0e_f64(x)); }
SP_FN double vm_i1_f64(double x) { double e = exp(fabs(x) / 2); return e * (e * vm_i1e_f64(x)); }
SP_UNARY(i0e) SP_UNARY(i1e) SP_UNARY(i0) SP_UNARY(i1)

SP_FN double vm_k0e_f64(double x) {
    if (!(x > 0)) return x == 0 ? INFINITY : NAN;
    if (x <= 2) return exp(x) * (SP_SUM(sp_k0_low, x * x / 2 - 1) - log(x / 2) * vm_i0_f64(x));
    return isinf(x) ? 0 : SP_SUM(sp_k0_high, 4 / x - 1) / sqrt(x);
}
SP_FN double vm_k1e_f64(double x) {
    if (!(x > 0)) return x == 0 ? INFINITY : NAN;
    if (x <= 2) return exp(x) * (SP_SUM(sp_k1_low, x * x / 2 - 1) / x + log(x / 2) * vm_i1_f64(x));
    return isinf(x) ? 0 : SP_SUM(sp_k1_high, 4 / x - 1) / sqrt(x);
}
SP_FN double vm_k0_f64(double x) { return isinf(x) && x > 0 ? 0 : exp(-x) * vm_k0e_f64(x); }
SP_FN double vm_k1_f64(double x) { return isinf(x) && x > 0 ? 0 : exp(-x) * vm_k1e_f64(x); }
SP_UNARY(k0e) SP_UNARY(k1e) SP_UNARY(k0) SP_UNARY(k1)

#endif
