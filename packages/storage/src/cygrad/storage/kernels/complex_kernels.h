/* Hand-written kernels of complex numbers. Sums of complex numbers need none: they are sums of both parts. */
#ifndef CYGRAD_COMPLEX_KERNELS_H
#define CYGRAD_COMPLEX_KERNELS_H

#include "complexmath.h"

enum { C_PLANE = 512, C_FIRST = 1 };        /* PLANE and FIRST of _reduce.pxi */

#define C_KERNELS(t, T, P) \
/* Loop: the absolute value, a real number */ \
static void c_modulus_##t(char** p, const int64_t* st, int64_t n, const double* attr) { \
    int64_t i; \
    (void)attr; \
    for (i = 0; i < n; i++) C_AT(P, p[0], i, st[0]) = c_abs_##t(C_AT(const T, p[1], i, st[1])); \
} \
/* Loop: p[0] = sum of a * b, in double */ \
static void c_dot_##t(char** p, const int64_t* st, int64_t n, const double* attr) { \
    double re = 0, im = 0; \
    int64_t i; \
    (void)attr; \
    for (i = 0; i < n; i++) { \
        T a = C_AT(const T, p[1], i, st[1]), b = C_AT(const T, p[2], i, st[2]); \
        re += (double)c_real_##t(a) * c_real_##t(b) - (double)c_imag_##t(a) * c_imag_##t(b); \
        im += (double)c_real_##t(a) * c_imag_##t(b) + (double)c_imag_##t(a) * c_real_##t(b); \
    } \
    *(T*)p[0] = c_make_##t((P)re, (P)im); \
} \
/* Reduce: products in double, real parts in the first plane and imaginary ones in the second */ \
static void c_prod_##t(char* acc, const char* x, int64_t m, int64_t sk, int64_t n, int64_t sr, int64_t base, int mode, \
                       double attr) { \
    double* re = (double*)acc; \
    double* im = re + C_PLANE; \
    int64_t i, j; \
    (void)base, (void)attr; \
    for (j = 0; j < m; j++) { \
        double _Complex z = mode & C_FIRST ? 1 : c_make_c128(re[j], im[j]); \
        for (i = 0; i < n; i++) { \
            T v = *(const T*)(x + j * sk + i * sr); \
            z = c_mul_c128(z, c_make_c128(c_real_##t(v), c_imag_##t(v))); \
        } \
        re[j] = c_real_c128(z), im[j] = c_imag_c128(z); \
    } \
} \
/* Along: running products */ \
static void c_cumprod_##t(char* y, const char* a, const char* b, int64_t m, const int64_t* step, int64_t n, \
                          const int64_t* st) { \
    int64_t i, j; \
    (void)b; \
    for (j = 0; j < m; j++) { \
        double _Complex z = 1; \
        for (i = 0; i < n; i++) { \
            T v = *(const T*)(a + j * step[1] + i * st[1]); \
            z = c_mul_c128(z, c_make_c128(c_real_##t(v), c_imag_##t(v))); \
            *(T*)(y + j * step[0] + i * st[0]) = c_make_##t((P)c_real_c128(z), (P)c_imag_c128(z)); \
        } \
    } \
} \
/* Along: y[i] = x[i] + a[i] * y[i - 1]; a[0] is not read */ \
static void c_recurrence_##t(char* y, const char* x, const char* a, int64_t m, const int64_t* step, int64_t n, \
                             const int64_t* st) { \
    int64_t i, j; \
    for (j = 0; j < m; j++) { \
        double _Complex z = 0; \
        for (i = 0; i < n; i++) { \
            T v = *(const T*)(x + j * step[1] + i * st[1]), f; \
            if (i) { \
                f = *(const T*)(a + j * step[2] + i * st[2]); \
                z = c_mul_c128(z, c_make_c128(c_real_##t(f), c_imag_##t(f))); \
            } \
            z += c_make_c128(c_real_##t(v), c_imag_##t(v)); \
            *(T*)(y + j * step[0] + i * st[0]) = c_make_##t((P)c_real_c128(z), (P)c_imag_c128(z)); \
        } \
    } \
} \
/* Along: log of running sums of exponentials */ \
static void c_logcumsumexp_##t(char* y, const char* a, const char* b, int64_t m, const int64_t* step, int64_t n, \
                               const int64_t* st) { \
    int64_t i, j; \
    (void)b; \
    for (j = 0; j < m; j++) { \
        double _Complex z = c_make_c128(-INFINITY, 0); \
        for (i = 0; i < n; i++) { \
            T v = *(const T*)(a + j * step[1] + i * st[1]); \
            z = c_logaddexp(z, c_make_c128(c_real_##t(v), c_imag_##t(v))); \
            *(T*)(y + j * step[0] + i * st[0]) = c_make_##t((P)c_real_c128(z), (P)c_imag_c128(z)); \
        } \
    } \
}

/* log(exp(a) + exp(b)): the one of the larger real part, whose phase is kept, plus log(1 + the quotient) */
static double _Complex c_logaddexp(double _Complex a, double _Complex b) {
    double _Complex low, w;
    double u, v;
    if (c_isnan_c128(a) || c_isnan_c128(b)) return c_make_c128(NAN, NAN);
    low = c_real_c128(a) < c_real_c128(b) ? a : b;
    a = c_real_c128(a) < c_real_c128(b) ? b : a;
    if (isinf(c_real_c128(a))) return a;
    w = cexp(low - a);
    u = c_real_c128(w), v = c_imag_c128(w);
    return a + c_make_c128(0.5 * log1p(2 * u + u * u + v * v), atan2(v, 1 + u));
}

C_KERNELS(c64, float _Complex, float)
C_KERNELS(c128, double _Complex, double)

static void c_prod_merge(char* acc, const char* other, int64_t m) {
    double* a = (double*)acc;
    const double* b = (const double*)other;
    int64_t j;
    for (j = 0; j < m; j++) {
        double _Complex z = c_mul_c128(c_make_c128(a[j], a[C_PLANE + j]), c_make_c128(b[j], b[C_PLANE + j]));
        a[j] = c_real_c128(z), a[C_PLANE + j] = c_imag_c128(z);
    }
}

#endif
