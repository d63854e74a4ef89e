/* Entry points of the device kernels, as C sees them.

   Pointers are of device memory, strides count bytes where an Iter (core.pxd) holds them and elements elsewhere, codes are
   DTypeCodes. All return 0, a cudaError_t, or one of the negative codes
   here. Nothing here allocates: what needs
   room takes it as `scratch`, and a function of its name with _scratch says how many bytes. Work goes to `stream`. */
#ifndef CYGRAD_KERNELS_H
#define CYGRAD_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    CYG_NO_KERNEL = -1,        /* for this dtype */
    CYG_TOO_MANY_DIMS = -2,
    CYG_NO_LIBRARY = -3,       /* cuBLAS or cuDNN was not opened */
    CYG_LIBRARY_FAILED = -4,   /* it returned an error: cyg_library_said */
    CYG_STRIDES = -5,          /* of a matrix, which the library does not take: make it contiguous */
    CYG_NOT_TAKEN = -6,        /* cuDNN has no algorithm for a convolution */
    CYG_TOO_LONG = -7          /* a line of 2^31 elements or more */
};

/* held, bit k: operand k is one number in the host's memory */
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
    int code;                  /* dtype of y, to which the result is converted */
    int kept_ndim, reduced_ndim;
    int64_t kept_size[64], kept_x[64], kept_y[64];     /* innermost first; strides of x in bytes, of y in elements */
    int64_t reduced_size[64], reduced_x[64];           /* in the order in which positions are counted */
    int64_t outputs, count;    /* elements of the result, and how many are folded into each; neither is 0 */
    double attr;               /* correction of a variance, exponent of a norm */
} CygFold;
/* where there is none, x is to be converted to the dtype that its own computes in */
int cyg_has_reduction(int what, int code);
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
/* y of n elements: the sum over rows of d times the normalised x */
int64_t cyg_norm_weight_scratch(int code, int64_t rows, int64_t n);
int cyg_norm_weight(int code, char* y, const char* d, const char* x, int64_t rows, int64_t n, double eps, void* scratch,
                    void* stream);

/* == running sums and their like == */

enum CygScan { CYG_SCAN_SUM, CYG_SCAN_PRODUCT, CYG_SCAN_MAX, CYG_SCAN_MIN, CYG_SCAN_LOGSUM, CYG_SCAN_RECURRENCE };
/* d: the factors of a recurrence, or the places (int64) of an extremum, which are written. Sums and products of integers are
   int64. Lines may have negative strides, and are not empty. */
int64_t cyg_scan_scratch(const CygLines* lines);       /* of 0 bytes none is needed */
int cyg_scan(int what, int code, const CygLines* lines, void* scratch, void* stream);

/* == indices == */

enum CygJoin { CYG_JOIN_WRITE, CYG_JOIN_ADD, CYG_JOIN_MULTIPLY, CYG_JOIN_MIN, CYG_JOIN_MAX };     /* of writes the last one stays */
typedef struct {               /* places[i] = (first ? offset in x : places[i]) + index[i] * step, over row-major positions */
    int64_t* places;
    const char* index;         /* int64 */
    int64_t count, low, size, step;    /* an index in [low, size); negative ones count from the end */
    int first;
    uint64_t* bad;             /* becomes the least position of an index outside; the rest is then worth nothing */
    int ndim;                  /* of the positions, innermost first: byte steps of the index, and of x */
    int64_t sizes[64], steps[64][2];
} CygPlaces;
int cyg_find_places(const CygPlaces* c, void* stream);
typedef struct {               /* v becomes x at its places, elements of one size */
    const char* x;
    char* v;
    const int64_t* places;
    int64_t count;
    int ndim;
    int64_t sizes[64], steps[64][3];   /* innermost first: byte steps of v, of x, of places */
} CygThrough;
int cyg_through(int size, const CygThrough* c, void* stream);
typedef struct {               /* x joined with v at sorted places */
    char* x;
    const char* v;
    const int64_t* places;
    int64_t* order;            /* the position of each place, which may be overwritten; NULL: places are distinct, in any order */
    int64_t count, inner;      /* places; elements at each of them */
    int how;
    int value_ndim, ndim;      /* positions of v (first step), what lies around them in v and x (first two) */
    int64_t value_sizes[64], value_steps[64][3], sizes[64], steps[64][3];
} CygJoinPlaces;
int64_t cyg_join_scratch(int code, const CygJoinPlaces* c);
int cyg_join_places(int code, const CygJoinPlaces* c, void* scratch, void* stream);
/* which elements are not zero, as int64; their numbers, from the running sum of that; their coordinates */
int cyg_marks(int code, const char* x, int64_t* y, int ndim, const int64_t* sizes, const int64_t* steps, int64_t count,
              void* stream);
int cyg_chosen(const int64_t* running, int64_t* y, int64_t count, void* stream);
int cyg_coordinates(const int64_t* numbers, int64_t* y, int64_t found, int ndim, const int64_t* sizes, void* stream);
int cyg_count(int64_t* y, int64_t count, void* stream);    /* 0, 1, 2, ... */

/* sizes and byte steps innermost first; count: elements */
int cyg_triangle(int size, char* x, int ndim, const int64_t* sizes, const int64_t* steps, int64_t count, int64_t diagonal,
                 int upper, void* stream);

/* == sorting: places (and, of one line of int64, keys) of each line in order, row-major, lines one after another == */

int cyg_sort_scratch(int code, int64_t lines, int64_t count, int64_t* nbytes);
int cyg_sort(int code, const CygLines* lines, int descending, int64_t* places, int64_t* keys, void* scratch, int64_t nbytes,
             void* stream);
int cyg_search(int code, const char* bounds, const char* x, const int64_t* sorter, int64_t* y, int64_t width, int64_t each,
               int64_t total, int right, void* stream);

/* == random numbers; element i takes half of Philox's block offset / 4 + i / 2 == */

enum CygDistribution {
    CYG_UNIFORM, CYG_NORMAL, CYG_INTEGER, CYG_BERNOULLI, CYG_EXPONENTIAL, CYG_GEOMETRIC, CYG_CAUCHY, CYG_LOG_NORMAL
};
typedef struct {
    char* y;
    int kind;
    double low, high;          /* or the two parameters of the distribution */
    uint64_t span, seed, offset;
    int64_t base, count;       /* integers: base + word % span, of span 0 the word itself */
    int ndim;                  /* row-major, innermost first; steps in bytes */
    int64_t sizes[64], steps[64];
} CygDraw;
int cyg_draw(int code, const CygDraw* d, void* stream);
/* kind 0: Poisson numbers of rates a; 1: binomial ones of a trials with probabilities p; 2: gamma ones of shapes a */
int cyg_drawn_by(int kind, const double* a, const double* p, double* y, int64_t count, uint64_t seed, uint64_t offset, void* stream);

/* == optimisers: jobs and rules of optim/_job.pxd; wide[j]: job j is of float64 == */

int cyg_steps(const void* jobs, const char* wide, int count, int rule_id, const void* rule, void* stream);

/* == attention: rows of `keys` scores; row r is of query r % queries, which with `causal` sees the keys up to its own number == */

typedef struct {
    char *scores, *top;        /* scores become weights; top: the logarithm of the sum of a row's exponentials, infinite where no key is seen */
    char* g;                   /* backward: gradients of the weights, which become those of the scores */
    const char* inner;         /* and, for each row, the result times its gradient */
    const char* mask;          /* dense like the scores; or NULL */
    int mask_is_bool, causal;
    int64_t rows, queries, keys;
} CygScores;
int cyg_weigh(int code, const CygScores* c, void* stream);
int cyg_weigh_back(int code, const CygScores* c, void* stream);
int cyg_rows_inner(int code, const char* a, const char* b, char* y, int64_t rows, int64_t width, void* stream);

/* == windows: the structs Pool and Conv of ops_common_pool.pxi and ops_common_conv.pxi == */

int cyg_pool(int what, const void* plan, void* stream);
int cyg_patches(int back, const void* plan, void* stream);     /* y of x; back: x, added up from y */

/* == convolutions by cuDNN: a Conv whose x, w and y are dense. A plan is kept for the next convolution of its geometry == */

enum { CYG_CONV_RESULT, CYG_CONV_INPUT, CYG_CONV_WEIGHT };
enum {                         /* settings, bits */
    CYG_CONV_TF32 = 1,         /* float32 may be multiplied in TF32 */
    CYG_CONV_ANY_ORDER = 2,    /* sums may differ from run to run */
    CYG_CONV_MEASURED = 4      /* algorithms are timed, in `most` bytes at `memory`, and overwrite the result */
};
int cyg_cudnn_open(const char* path);  /* whether cuDNN is there now */
int64_t cyg_cudnn_version(void);
int cyg_convolution_known(int which, const void* conv, int settings);
/* room: bytes that the convolution needs, at most `most`; CYG_NOT_TAKEN: there is none */
int cyg_convolution_plan(int which, const void* conv, int settings, char* memory, int64_t most, void** plan, int64_t* room,
                         void* stream);
int cyg_convolve(const void* plan, const void* conv, double beta, char* memory, int64_t room, void* stream);
void cyg_convolution_done(void* plan);

/* == batch normalisation, all row-major and of one dtype, float32 or float64 == */

enum CygChannelsOf { CYG_CHANNELS_NORM, CYG_CHANNELS_SUMS, CYG_CHANNELS_INPUT };
typedef struct {
    char *y, *stats, *sums;    /* stats: rows of means, reciprocals of deviations, variances; sums: of g, of g times the normalised x */
    const char *x, *g, *w, *b;
    int64_t batch, channels, places;
    double eps;
} CygChannels;
int64_t cyg_channels_scratch(const CygChannels* c);         /* for sums; results need none */
int cyg_channels(int what, int code, const CygChannels* c, void* scratch, void* stream);

/* == matrix products: y = alpha * a @ b + beta * y, y row-major == */

typedef struct {
    char* y;
    const char *a, *b;
    int64_t m, n, k, batches;
    int64_t a_row, a_column, a_batch, b_row, b_column, b_batch, y_batch;      /* in elements */
    double alpha, beta;
    int tf32;                          /* whether float32 may be rounded to 10 bits of fraction before it is multiplied */
} CygProduct;
const char* cyg_library_said(void);    /* of the call of this thread that failed last */
int cyg_blas_open(const char* path);   /* whether cuBLAS is there now; the path is what dlopen takes */
int cyg_product(int code, const CygProduct* product, void* stream);

#ifdef __cplusplus
}
#endif
#endif
