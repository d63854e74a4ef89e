/* Entry points of the device kernels, as C sees them.

   Pointers are of device memory, strides count bytes where an Iter (core.pxd) holds them and elements elsewhere, codes are
   DTypeCodes. All return 0, a cudaError_t, -1 where there is no kernel for the dtype, or -2 where
   the dimensions are too many. Nothing here allocates: what needs
   room takes it as `scratch`, and a function of its name with _scratch says how many bytes. Work goes to `stream`. */
#ifndef CYGRAD_KERNELS_H
#define CYGRAD_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* held, bit k: operand k is one number in the host's memory */
int cyg_has_pointwise(int kernel, int code);
int cyg_pointwise(int kernel, int code, const void* iter, const double* attr, unsigned held, void* stream);
int cyg_copy(int to, int from, const void* iter, void* stream);
int cyg_fill(int code, const void* iter, const void* cell, void* stream);

/* == reductions == */

enum CygReduction {
    CYG_REDUCE_SUM, CYG_REDUCE_MEAN, CYG_REDUCE_PROD, CYG_REDUCE_AMAX, CYG_REDUCE_AMIN, CYG_REDUCE_ARGMAX, CYG_REDUCE_ARGMIN, CYG_REDUCE_ANY, CYG_REDUCE_ALL, CYG_REDUCE_VAR, CYG_REDUCE_STD, CYG_REDUCE_NORM2,
    CYG_REDUCE_NORM_POWER, CYG_REDUCE_ABS_MAX, CYG_REDUCE_ABS_MIN, CYG_REDUCE_LOGSUMEXP
};
typedef struct {
    const char* x;
    char *y, *index;           /* index: int64, for argmax and argmin; either of the two may be NULL there */
    int code;                  /* dtype of y; that of sums and products of integers is any integer's, else it is x's */
    int kept_ndim, reduced_ndim;
    int64_t kept_size[64], kept_x[64], kept_y[64];     /* innermost first; strides of x in bytes, of y in elements */
    int64_t reduced_size[64], reduced_x[64];           /* in the order in which positions are counted */
    int64_t outputs, count;    /* elements of the result, and how many are folded into each; neither is 0 */
    double attr;               /* correction of a variance, exponent of a norm */
} CygFold;
int64_t cyg_reduce_scratch(int what, int code, const CygFold* plan);
int cyg_reduce(int what, int code, const CygFold* plan, void* scratch, void* stream);

/* == whole lines along one dimension: results of the input's shape == */

enum CygLinesOf {
    CYG_LINES_SOFTMAX, CYG_LINES_LOG_SOFTMAX, CYG_LINES_SOFTMAX_BACKWARD, CYG_LINES_LOG_SOFTMAX_BACKWARD, CYG_LINES_LAYER_NORM,
    CYG_LINES_LAYER_NORM_INPUT
};
typedef struct {
    char* y;
    const char *x, *d;         /* backward x is the gradient and d the result; of a normalisation d is the gradient */
    const char *w, *b;         /* dense, along a line, or NULL */
    int64_t lines, count;      /* count: elements of a line, at least 1 */
    int64_t st[3];             /* byte strides along a line, of y, x, d */
    int ndim;                  /* across lines, innermost first */
    int64_t size[64], step[64][3];
    double attr;               /* eps */
} CygLines;
int cyg_lines(int what, int code, const CygLines* lines, void* stream);

#ifdef __cplusplus
}
#endif
#endif
