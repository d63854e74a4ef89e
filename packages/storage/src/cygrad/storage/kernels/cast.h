/* Conversions that are made of others: between adapted types, and of complex numbers, whose parts are converted like real ones.
   kernels/copy.pxi has those between the types that have kernels. */
#ifndef CYGRAD_CAST_H
#define CYGRAD_CAST_H

#include "convert.h"

static c_loop c_casts[C_COLUMNS][C_COLUMNS];      /* [source][result] */

/* From or to an adapted type, block by block. */
static void c_cast_through(int from, int to, char** p, const int64_t* st, int64_t n) {
    uint64_t a[C_BLOCK], b[C_BLOCK];
    int wide = c_computed(from), target = c_computed(to);
    int64_t done, m;
    for (done = 0; done < n; done += m) {
        char* y = p[0] + done * st[0];
        char* x = p[1] + done * st[1];
        char* q[2];
        int64_t s[2];
        m = n - done < C_BLOCK ? n - done : C_BLOCK;
        q[1] = x, s[1] = st[1];
        if (wide != from) {
            q[1] = wide == to && st[0] == c_size(to) ? y : (char*)a, s[1] = c_size(wide);
            c_widen(from, q[1], x, st[1], m);
            if (q[1] == y) continue;
        }
        if (target == to) {
            q[0] = y, s[0] = st[0];
            c_casts[wide][to](q, s, m, NULL);
            continue;
        }
        if (wide != target || s[1] != c_size(target)) {
            q[0] = (char*)b, s[0] = c_size(target);
            c_casts[wide][target](q, s, m, NULL);
            q[1] = q[0];
        }
        c_narrow(to, y, st[0], q[1], m);
    }
}

/* real -> complex: the real part like a real number, the imaginary part 0 */
static void c_cast_to_complex(int from, int part, char** p, const int64_t* st, int64_t n) {
    int64_t i;
    c_casts[from][part](p, st, n, NULL);
    if (part == C_FLOAT32) for (i = 0; i < n; i++) C_AT(float, p[0] + 4, i, st[0]) = 0;
    else for (i = 0; i < n; i++) C_AT(double, p[0] + 8, i, st[0]) = 0;
}

/* complex -> complex of another precision: both parts like real numbers */
static void c_cast_parts(int from, int to, char** p, const int64_t* st, int64_t n) {
    char* q[2] = {p[0] + c_size(to), p[1] + c_size(from)};
    c_casts[from][to](p, st, n, NULL);
    c_casts[from][to](q, st, n, NULL);
}

#define C_TRUTH(t, T) \
static void c_truth_##t(char** p, const int64_t* st, int64_t n, const double* attr) { \
    int64_t i; \
    (void)attr; \
    for (i = 0; i < n; i++) { \
        const T* x = (const T*)(p[1] + i * st[1]); \
        p[0][i * st[0]] = (x[0] != 0) | (x[1] != 0); \
    } \
}
C_TRUTH(c64, float)
C_TRUTH(c128, double)

typedef struct { uint64_t a, b; } c_sixteen;
#define C_COPY(name, T) \
static void name(char** p, const int64_t* st, int64_t n, const double* attr) { \
    int64_t i; \
    (void)attr; \
    for (i = 0; i < n; i++) C_AT(T, p[0], i, st[0]) = C_AT(const T, p[1], i, st[1]); \
}
C_COPY(c_copy_2, uint16_t)
C_COPY(c_copy_16, c_sixteen)

/* y += x, strictly in order, for y may repeat an element */
#define C_ADD(t, T, SUM) \
static void c_add_at_##t(char** p, const int64_t* st, int64_t n, const double* attr) { \
    int64_t i; \
    (void)attr; \
    for (i = 0; i < n; i++) { \
        T* y = (T*)(p[0] + i * st[0]); \
        T x = C_AT(const T, p[1], i, st[1]); \
        *y = SUM; \
    } \
}
C_ADD(u16, uint16_t, (uint16_t)(*y + x))
C_ADD(f16, uint16_t, c_narrow_f16(c_widen_f16(*y) + c_widen_f16(x)))
C_ADD(b16, uint16_t, c_narrow_b16(c_widen_b16(*y) + c_widen_b16(x)))

static c_loop c_adds[C_COLUMNS];
static void c_add_parts(int part, char** p, const int64_t* st, int64_t n) {
    char* q[2] = {p[0] + c_size(part), p[1] + c_size(part)};
    c_adds[part](p, st, n, NULL);
    c_adds[part](q, st, n, NULL);
}

/* A Loop has no room for the two types, so each pair has a function of its own that names them. */
#define C_LOOP(name, call) \
static void name(char** p, const int64_t* st, int64_t n, const double* attr) { (void)attr; call; }

#define C_SOURCES(DO) \
    DO(C_BOOL) DO(C_UINT8) DO(C_INT8) DO(C_INT16) DO(C_INT32) DO(C_INT64) DO(C_FLOAT16) DO(C_BFLOAT16) DO(C_FLOAT32) \
    DO(C_FLOAT64) DO(C_UINT16) DO(C_UINT32) DO(C_UINT64)
#define C_RESULTS(DO, from) \
    DO(from, C_BOOL) DO(from, C_UINT8) DO(from, C_INT8) DO(from, C_INT16) DO(from, C_INT32) DO(from, C_INT64) \
    DO(from, C_FLOAT16) DO(from, C_BFLOAT16) DO(from, C_FLOAT32) DO(from, C_FLOAT64) DO(from, C_UINT16) DO(from, C_UINT32) \
    DO(from, C_UINT64)
#define C_PAIR(from, to) C_LOOP(c_cast_##from##_##to, c_cast_through(from, to, p, st, n))
#define C_FROM(from) \
    C_RESULTS(C_PAIR, from) \
    C_LOOP(c_cast_##from##_single, c_cast_to_complex(from, C_FLOAT32, p, st, n)) \
    C_LOOP(c_cast_##from##_double, c_cast_to_complex(from, C_FLOAT64, p, st, n))
C_SOURCES(C_FROM)
C_LOOP(c_cast_single_double, c_cast_parts(C_FLOAT32, C_FLOAT64, p, st, n))
C_LOOP(c_cast_double_single, c_cast_parts(C_FLOAT64, C_FLOAT32, p, st, n))
C_LOOP(c_add_at_c64, c_add_parts(C_FLOAT32, p, st, n))
C_LOOP(c_add_at_c128, c_add_parts(C_FLOAT64, p, st, n))

#define C_ENTER(from, to) if (!c_casts[from][to]) c_casts[from][to] = c_cast_##from##_##to;
#define C_ENTER_FROM(from) \
    C_RESULTS(C_ENTER, from) \
    c_casts[from][C_COMPLEX64] = c_cast_##from##_single; \
    c_casts[from][C_COMPLEX128] = c_cast_##from##_double;

/* Complete `casts`, rows of pointers by source and result, and `adds`, by type, which hold those of the types with kernels. */
static void c_complete(void** casts, void** adds) {
    int from, to;
    for (from = 0; from < C_COLUMNS; from++) {
        c_adds[from] = (c_loop)adds[from];
        for (to = 0; to < C_COLUMNS; to++) c_casts[from][to] = (c_loop)casts[from * C_COLUMNS + to];
    }
    c_casts[C_INT8][C_INT8] = c_casts[C_UINT8][C_UINT8];            /* a copy knows no numbers, only widths */
    c_casts[C_INT16][C_INT16] = c_casts[C_UINT16][C_UINT16] = c_copy_2;
    c_casts[C_FLOAT16][C_FLOAT16] = c_casts[C_BFLOAT16][C_BFLOAT16] = c_copy_2;
    c_casts[C_UINT32][C_UINT32] = c_casts[C_INT32][C_INT32];
    C_SOURCES(C_ENTER_FROM)
    for (to = 0; to < C_COLUMNS; to++) {                           /* the real part comes first, at the same strides */
        c_casts[C_COMPLEX64][to] = c_casts[C_FLOAT32][to];
        c_casts[C_COMPLEX128][to] = c_casts[C_FLOAT64][to];
    }
    c_casts[C_COMPLEX64][C_BOOL] = c_truth_c64;
    c_casts[C_COMPLEX128][C_BOOL] = c_truth_c128;
    c_casts[C_COMPLEX64][C_COMPLEX64] = c_casts[C_INT64][C_INT64];
    c_casts[C_COMPLEX128][C_COMPLEX128] = c_copy_16;
    c_casts[C_COMPLEX64][C_COMPLEX128] = c_cast_single_double;
    c_casts[C_COMPLEX128][C_COMPLEX64] = c_cast_double_single;
    c_adds[C_INT8] = c_adds[C_UINT8];                              /* sums that wrap around know no signs */
    c_adds[C_INT16] = c_adds[C_UINT16] = c_add_at_u16;
    c_adds[C_UINT32] = c_adds[C_INT32];
    c_adds[C_FLOAT16] = c_add_at_f16;
    c_adds[C_BFLOAT16] = c_add_at_b16;
    c_adds[C_COMPLEX64] = c_add_at_c64;
    c_adds[C_COMPLEX128] = c_add_at_c128;
    memcpy(casts, c_casts, sizeof(c_casts));
    memcpy(adds, c_adds, sizeof(c_adds));
}

#endif
