/* Adapted types: int8, int16, uint16, uint32, float16 and bfloat16 have no kernels of their own. Blocks of them are widened to
   the type that they compute in (COMPUTED in core.pxd), a kernel of that type runs, and its result is narrowed: integers keep
   their low bits, halves are rounded to the nearest, ties to even, and a NaN stays one. All conversions are free of branches,
   so that their loops become vector code. */
#ifndef CYGRAD_CONVERT_H
#define CYGRAD_CONVERT_H

#include <stdint.h>
#include <string.h>

/* DTypeCode of core.pxd */
enum {
    C_BOOL, C_UINT8, C_INT8, C_INT16, C_INT32, C_INT64, C_FLOAT16, C_BFLOAT16, C_FLOAT32, C_FLOAT64, C_COMPLEX64, C_COMPLEX128,
    C_UINT16, C_UINT32, C_UINT64, C_COLUMNS = 16
};
enum { C_NUMBER = 64 };        /* a bit of `truths` beyond the operands */
enum { C_BLOCK = 512 };        /* elements of a block on the stack */

typedef void (*c_loop)(char** p, const int64_t* st, int64_t n, const double* attr);

/* Every adapted type with its code, its elements and those it computes in. */
#define C_ADAPTED(DO) \
    DO(C_INT8, i8, int8_t, int32_t) DO(C_INT16, i16, int16_t, int32_t) DO(C_UINT16, u16, uint16_t, int32_t) \
    DO(C_UINT32, u32, uint32_t, int64_t) DO(C_FLOAT16, f16, uint16_t, float) DO(C_BFLOAT16, b16, uint16_t, float)

static inline int c_size(int code) {
    static const uint8_t size[16] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 2, 4, 8, 0};
    return size[code];
}
static inline int c_computed(int code) {
    static const uint8_t computed[16] = {C_BOOL, C_UINT8, C_INT32, C_INT32, C_INT32, C_INT64, C_FLOAT32, C_FLOAT32, C_FLOAT32,
                                         C_FLOAT64, C_COMPLEX64, C_COMPLEX128, C_INT32, C_INT64, C_UINT64, 0};
    return computed[code];
}

/* == one element == */

static inline uint32_t c_bits(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }
static inline float c_float(uint32_t u) { float x; memcpy(&x, &u, 4); return x; }

/* float16: the exponent is rebiased by 112; that of infinities once more. A subnormal is an integer of units 2**-24, which are
   the last place of numbers from 0.5 * 2**-13 on: put there, the leading one is then taken off again. */
static inline float c_widen_f16(uint16_t h) {
    uint32_t a = (uint32_t)(h & 0x7fffu) << 13, u = a + 0x38000000u;
    uint32_t small = c_bits(c_float(a + 0x38800000u) - c_float(0x38800000u));
    u = a >= 0x0f800000u ? u + 0x38000000u : u;
    u = a < 0x00800000u ? small : u;
    return c_float(u | (uint32_t)(h & 0x8000u) << 16);
}
static inline uint16_t c_narrow_f16(float x) {
    uint32_t u = c_bits(x), a = u & 0x7fffffffu;
    uint32_t small = c_bits(c_float(a) + 0.5f) - 0x3f000000u;     /* the sum rounds to units of 2**-24 */
    uint32_t h = (a + 0xfffu + (a >> 13 & 1) - 0x38000000u) >> 13;
    h = a < 0x38800000u ? small : h;
    h = a >= 0x477ff000u ? 0x7c00u : h;
    h = a > 0x7f800000u ? 0x7e00u : h;
    return (uint16_t)(h | (u >> 16 & 0x8000u));
}
static inline float c_widen_b16(uint16_t h) { return c_float((uint32_t)h << 16); }
static inline uint16_t c_narrow_b16(float x) {
    uint32_t u = c_bits(x), h = (u + 0x7fffu + (u >> 16 & 1)) >> 16;
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u | (u >> 16 & 0x8000u) : h);
}
#define C_INTEGER(t, T, W) \
static inline W c_widen_##t(T x) { return (W)x; } \
static inline T c_narrow_##t(W x) { return (T)x; }
C_INTEGER(i8, int8_t, int32_t)
C_INTEGER(i16, int16_t, int32_t)
C_INTEGER(u16, uint16_t, int32_t)
C_INTEGER(u32, uint32_t, int64_t)

/* == blocks == */

#define C_AT(T, p, i, st) (*(T*)((char*)(p) + (i) * (st)))

#define C_BLOCKS(CODE, t, T, W) \
static void c_widen_block_##t(W* y, const char* x, int64_t st, int64_t n) { \
    int64_t i; \
    if (st == (int64_t)sizeof(T)) for (i = 0; i < n; i++) y[i] = c_widen_##t(((const T*)x)[i]); \
    else for (i = 0; i < n; i++) y[i] = c_widen_##t(C_AT(const T, x, i, st)); \
} \
static void c_narrow_block_##t(char* y, int64_t st, const W* x, int64_t n) { \
    int64_t i; \
    if (st == (int64_t)sizeof(T)) for (i = 0; i < n; i++) ((T*)y)[i] = c_narrow_##t(x[i]); \
    else for (i = 0; i < n; i++) C_AT(T, y, i, st) = c_narrow_##t(x[i]); \
}
C_ADAPTED(C_BLOCKS)

/* n elements of an adapted type, st bytes apart, into a dense block; and back */
static void c_widen(int code, void* y, const char* x, int64_t st, int64_t n) {
#define C_CASE(CODE, t, T, W) case CODE: c_widen_block_##t((W*)y, x, st, n); return;
    switch (code) { C_ADAPTED(C_CASE) }
#undef C_CASE
}
static void c_narrow(int code, char* y, int64_t st, const void* x, int64_t n) {
#define C_CASE(CODE, t, T, W) case CODE: c_narrow_block_##t(y, st, (const W*)x, n); return;
    switch (code) { C_ADAPTED(C_CASE) }
#undef C_CASE
}

/* == a pointwise kernel of an adapted type == */

/* Run `loop`, a kernel of the type that `code` computes in, over operands of the type `code`; bit k of `truths` is set where
   operand k is of bytes whatever the type. With C_NUMBER, `attr` is NULL or says that one operand of halves is a number with the
   digits of a float: its place and its value. */
static void c_through(c_loop loop, int code, int nop, unsigned truths, char** p, const int64_t* st, int64_t n,
                      const double* attr) {
    uint64_t block[6][C_BLOCK];
    int64_t dense[6], done, m, i;
    char* q[6];
    int k, which = -1;
    float number = 0;
    for (k = 0; k < nop; k++) dense[k] = truths >> k & 1 ? 1 : c_size(c_computed(code));
    if (truths & C_NUMBER && attr) { number = (float)attr[1]; which = (int)attr[0]; dense[which] = 0; }
    for (done = 0; done < n; done += m) {
        m = n - done < C_BLOCK ? n - done : C_BLOCK;
        for (k = 0; k < nop; k++) {
            char* at = p[k] + done * st[k];
            q[k] = (char*)block[k];
            if (k == which) q[k] = (char*)&number;
            else if (truths >> k & 1) {
                if (st[k] == 1) q[k] = at;
                else if (k) for (i = 0; i < m; i++) q[k][i] = at[i * st[k]];
            }
            else if (k && (st[k] || !done)) c_widen(code, q[k], at, st[k], m);
        }
        loop(q, dense, m, attr);
        if (!(truths & 1)) c_narrow(code, p[0] + done * st[0], st[0], q[0], m);
        else if (st[0] != 1) for (i = 0; i < m; i++) p[0][(done + i) * st[0]] = q[0][i];
    }
}

#endif
