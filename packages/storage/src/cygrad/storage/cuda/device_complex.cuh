// Functions of one complex number, by the names that opgen/complexes.py prints; complexmath.h has the CPU's. Square roots and
// inverse functions follow Kahan, "Branch cuts for complex elementary functions" (1987).
#ifndef CYGRAD_DEVICE_COMPLEX_CUH
#define CYGRAD_DEVICE_COMPLEX_CUH

#include "types.cuh"

#define C_LN2 0.69314718055994530942
#define C_LN10 2.30258509299404568402
#define C_OF template <class P> CYG_FN

C_OF complex_t<P> c_make(P re, P im) { return complex_t<P>{re, im}; }
C_OF complex_t<P> operator+(complex_t<P> a, complex_t<P> b) { return c_make<P>(a.re + b.re, a.im + b.im); }
C_OF complex_t<P> operator-(complex_t<P> a, complex_t<P> b) { return c_make<P>(a.re - b.re, a.im - b.im); }
C_OF complex_t<P> operator+(complex_t<P> a, P b) { return c_make<P>(a.re + b, a.im); }
C_OF complex_t<P> operator+(P a, complex_t<P> b) { return c_make<P>(a + b.re, b.im); }
C_OF complex_t<P> operator-(complex_t<P> a, P b) { return c_make<P>(a.re - b, a.im); }
C_OF complex_t<P> operator-(P a, complex_t<P> b) { return c_make<P>(a - b.re, -b.im); }
C_OF complex_t<P> operator-(complex_t<P> a) { return c_make<P>(-a.re, -a.im); }
C_OF bool operator==(complex_t<P> a, complex_t<P> b) { return a.re == b.re && a.im == b.im; }
C_OF bool operator!=(complex_t<P> a, complex_t<P> b) { return !(a == b); }
C_OF bool operator==(complex_t<P> a, P b) { return a.re == b && a.im == 0; }
C_OF bool operator!=(complex_t<P> a, P b) { return !(a == b); }

C_OF complex_t<P> c_conj(complex_t<P> z) { return c_make<P>(z.re, -z.im); }
C_OF complex_t<P> c_turn(complex_t<P> z) { return c_make<P>(-z.im, z.re); }          // i z
C_OF complex_t<P> c_turn_back(complex_t<P> z) { return c_make<P>(z.im, -z.re); }     // -i z
C_OF complex_t<P> c_scale(complex_t<P> z, P r) { return c_make<P>(z.re * r, z.im * r); }
C_OF P c_real(complex_t<P> z) { return z.re; }
C_OF P c_imag(complex_t<P> z) { return z.im; }
C_OF P c_abs(complex_t<P> z) { return hypot(z.re, z.im); }
C_OF P c_angle(complex_t<P> z) { return atan2(z.im, z.re); }
C_OF int c_isnan(complex_t<P> z) { return z.re != z.re || z.im != z.im; }
C_OF int c_far(P x) { return !(x - x == 0); }                                        // infinite or NaN
C_OF int c_isfinite(complex_t<P> z) { return !c_far(z.re) && !c_far(z.im); }
C_OF int c_isinf(complex_t<P> z) { return (c_far(z.re) && z.re == z.re) || (c_far(z.im) && z.im == z.im); }
C_OF complex_t<P> c_mul(complex_t<P> x, complex_t<P> y) {
    return c_make<P>(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re);
}
// by the larger part of the divisor (Smith, 1962)
C_OF complex_t<P> c_div(complex_t<P> x, complex_t<P> y) {
    if (fabs(y.re) >= fabs(y.im)) {
        if (y.re == 0 && y.im == 0) return c_make<P>(x.re / fabs(y.re), x.im / fabs(y.im));
        P r = y.im / y.re, s = (P)1 / (y.re + y.im * r);
        return c_make<P>((x.re + x.im * r) * s, (x.im - x.re * r) * s);
    }
    P r = y.re / y.im, s = (P)1 / (y.im + y.re * r);
    return c_make<P>((x.re * r + x.im) * s, (x.im * r - x.re) * s);
}
C_OF complex_t<P> c_sgn(complex_t<P> z) {
    P r = c_abs(z);
    return r == 0 ? c_make<P>(0, 0) : c_make<P>(z.re / r, z.im / r);
}
C_OF complex_t<P> c_sqrt(complex_t<P> z) {
    if (c_far(z.im) && z.im == z.im) return c_make<P>((P)INFINITY, z.im);
    if (z.re == 0 && z.im == 0) return c_make<P>(0, z.im);
    P a = fabs(z.re) / 8, b = fabs(z.im) / 8, r = 2 * sqrt(a + hypot(a, b));
    return z.re >= 0 ? c_make<P>(r, z.im / (2 * r)) : c_make<P>(fabs(z.im) / (2 * r), copysign(r, z.im));
}
C_OF complex_t<P> c_exp(complex_t<P> z) {
    P e = exp(z.re);
    if (z.im == 0) return c_make<P>(e, z.im);
    if (e == 0) return c_make<P>(0, 0);
    return c_make<P>(e * cos(z.im), e * sin(z.im));
}
C_OF complex_t<P> c_log(complex_t<P> z) {
    P a = cyg_max<P>(fabs(z.re), fabs(z.im)), b = cyg_min<P>(fabs(z.re), fabs(z.im)), r = c_abs(z);
    if (a > (P)0.5 && a < 2) return c_make<P>(log1p((a - 1) * (a + 1) + b * b) / 2, c_angle(z));
    return c_make<P>(log(r), c_angle(z));
}
C_OF complex_t<P> c_sinh(complex_t<P> z) {
    if (z.im == 0) return c_make<P>(sinh(z.re), z.im);
    return c_make<P>(sinh(z.re) * cos(z.im), cosh(z.re) * sin(z.im));
}
C_OF complex_t<P> c_cosh(complex_t<P> z) {
    if (z.im == 0) return c_make<P>(cosh(z.re), z.re * z.im);
    return c_make<P>(cosh(z.re) * cos(z.im), sinh(z.re) * sin(z.im));
}
C_OF complex_t<P> c_tanh(complex_t<P> z) {
    if (fabs(z.re) > 22) return c_make<P>(copysign((P)1, z.re), 4 * sin(z.im) * cos(z.im) * exp(-2 * fabs(z.re)));
    P t = tan(z.im), beta = 1 + t * t, s = sinh(z.re), rho = sqrt(1 + s * s), d = 1 + beta * s * s;
    return c_make<P>(beta * rho * s / d, t / d);
}
C_OF complex_t<P> c_sin(complex_t<P> z) { return c_turn_back(c_sinh(c_turn(z))); }
C_OF complex_t<P> c_cos(complex_t<P> z) { return c_cosh(c_turn(z)); }
C_OF complex_t<P> c_tan(complex_t<P> z) { return c_turn_back(c_tanh(c_turn(z))); }
C_OF complex_t<P> c_acos(complex_t<P> z) {
    complex_t<P> a = c_sqrt((P)1 - z), b = c_sqrt((P)1 + z);
    return c_make<P>(2 * atan2(a.re, b.re), asinh(c_mul(c_conj(b), a).im));
}
C_OF complex_t<P> c_asin(complex_t<P> z) {
    complex_t<P> a = c_sqrt((P)1 - z), b = c_sqrt((P)1 + z);
    return c_make<P>(atan2(z.re, c_mul(a, b).re), asinh(c_mul(c_conj(a), b).im));
}
C_OF complex_t<P> c_acosh(complex_t<P> z) {
    complex_t<P> a = c_sqrt(z - (P)1), b = c_sqrt(z + (P)1);
    return c_make<P>(asinh(c_mul(c_conj(a), b).re), 2 * atan2(a.im, b.re));
}
C_OF complex_t<P> c_atanh(complex_t<P> z) {
    P d = (1 - z.re) * (1 - z.re) + z.im * z.im;
    return c_make<P>(log1p(4 * z.re / d) / 4, atan2(2 * z.im, (1 - z.re) * (1 + z.re) - z.im * z.im) / 2);
}
C_OF complex_t<P> c_asinh(complex_t<P> z) { return c_turn_back(c_asin(c_turn(z))); }
C_OF complex_t<P> c_atan(complex_t<P> z) { return c_turn_back(c_atanh(c_turn(z))); }
C_OF complex_t<P> c_exp2(complex_t<P> z) { return c_exp(c_scale(z, (P)C_LN2)); }
C_OF complex_t<P> c_log2(complex_t<P> z) { return c_scale(c_log(z), (P)(1 / C_LN2)); }
C_OF complex_t<P> c_log10(complex_t<P> z) { return c_scale(c_log(z), (P)(1 / C_LN10)); }
C_OF complex_t<P> c_expm1(complex_t<P> z) {
    P s = sin(z.im / 2);
    if (z.im == 0) return c_make<P>(expm1(z.re), z.im);
    return c_make<P>(expm1(z.re) * cos(z.im) - 2 * s * s, exp(z.re) * sin(z.im));
}
C_OF complex_t<P> c_log1p(complex_t<P> z) {
    P angle = atan2(z.im, z.re + 1);
    if (fabs(z.re) < (P)0.5 && fabs(z.im) < (P)0.5)
        return c_make<P>(log1p(z.re * (2 + z.re) + z.im * z.im) / 2, angle);
    return c_make<P>(log(hypot(z.re + 1, z.im)), angle);
}
C_OF complex_t<P> c_sigmoid(complex_t<P> z) { return c_div(c_make<P>(1, 0), (P)1 + c_exp(-z)); }
C_OF complex_t<P> c_power(complex_t<P> x, complex_t<P> y) {
    if (y.im == 0) {
        if (y.re == 0) return c_make<P>(1, 0);
        if (y.re == 1) return x;
        if (y.re == 2) return c_mul(x, x);
        if (y.re == 3) return c_mul(c_mul(x, x), x);
        if (y.re == -1) return c_div(c_make<P>(1, 0), x);
        if (y.re == (P)0.5) return c_sqrt(x);
    }
    if (x.re == 0 && x.im == 0) return y.re > 0 ? c_make<P>(0, 0) : c_make<P>((P)NAN, (P)NAN);
    return c_exp(c_mul(y, c_log(x)));
}

#define C_NAMES(t, P) \
CYG_FN complex_t<P> c_make_##t(P re, P im) { return c_make<P>(re, im); } \
CYG_FN complex_t<P> c_scale_##t(complex_t<P> z, P r) { return c_scale(z, r); } \
CYG_FN P c_abs_##t(complex_t<P> z) { return c_abs(z); } \
CYG_FN P c_angle_##t(complex_t<P> z) { return c_angle(z); } \
CYG_FN P c_real_##t(complex_t<P> z) { return z.re; } \
CYG_FN P c_imag_##t(complex_t<P> z) { return z.im; } \
CYG_FN int c_isnan_##t(complex_t<P> z) { return c_isnan(z); } \
CYG_FN int c_isinf_##t(complex_t<P> z) { return c_isinf(z); } \
CYG_FN int c_isfinite_##t(complex_t<P> z) { return c_isfinite(z); } \
C_BINARY(mul, t, P) C_BINARY(div, t, P) C_BINARY(power, t, P) \
C_UNARY(conj, t, P) C_UNARY(sgn, t, P) C_UNARY(sqrt, t, P) C_UNARY(exp, t, P) C_UNARY(exp2, t, P) C_UNARY(expm1, t, P) \
C_UNARY(log, t, P) C_UNARY(log2, t, P) C_UNARY(log10, t, P) C_UNARY(log1p, t, P) C_UNARY(sin, t, P) C_UNARY(cos, t, P) \
C_UNARY(tan, t, P) C_UNARY(asin, t, P) C_UNARY(acos, t, P) C_UNARY(atan, t, P) C_UNARY(sinh, t, P) C_UNARY(cosh, t, P) \
C_UNARY(tanh, t, P) C_UNARY(asinh, t, P) C_UNARY(acosh, t, P) C_UNARY(atanh, t, P) C_UNARY(sigmoid, t, P)
#define C_UNARY(name, t, P) CYG_FN complex_t<P> c_##name##_##t(complex_t<P> z) { return c_##name(z); }
#define C_BINARY(name, t, P) CYG_FN complex_t<P> c_##name##_##t(complex_t<P> x, complex_t<P> y) { return c_##name(x, y); }
C_NAMES(c64, float)
C_NAMES(c128, double)

#endif
