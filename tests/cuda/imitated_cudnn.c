/* The functions of cuDNN that convolutions call, as loops on the processor: tests put it where NVIDIA's wheel would have it. It
   checks what it is given as strictly as the documents of the library ask, and answers with the library's statuses. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, BAD_PARAM = 2000, NOT_SUPPORTED = 3000, NO_MEMORY = 4004, EXECUTION_FAILED = 5000 };
enum { FLOAT = 0, DOUBLE = 1, HALF = 2, BFLOAT16 = 9 };

typedef struct { int type, ndim, size[5], stride[5]; } Tensor;                 /* a filter as well */
typedef struct { int ndim, pad[3], stride[3], dilation[3], groups, math, compute; } Convolution;
typedef struct { void* stream; } Handle;
typedef struct { int algorithm, status; float time; size_t memory; int determinism, math, reserved[3]; } Perf;

/* What tests read and set. */
int cygrad_imitated;                     /* whether the library is there */
int imitated_calls[3], imitated_measured, imitated_algorithm, imitated_math, imitated_compute, imitated_handles;
int imitated_failure;                    /* the status of the next convolution */
int imitated_no_stream;                  /* whether handles refuse streams */
int imitated_lacks;                      /* how many of the next calls find no memory: for a handle, for algorithms, for a convolution */
int imitated_refuses;                    /* no algorithm */
int imitated_nothing_deterministic;

size_t cudnnGetVersion(void) { return 91234; }
const char* cudnnGetErrorString(int status) { return status == EXECUTION_FAILED ? "CUDNN_STATUS_EXECUTION_FAILED" : "CUDNN_STATUS_OTHER"; }
static int lacks(void) { return imitated_lacks > 0 && imitated_lacks--; }
int cudnnCreate(void** h) {
    if (lacks()) return NO_MEMORY;
    imitated_handles++;
    *h = calloc(1, sizeof(Handle));
    return OK;
}
int cudnnSetStream(void* h, void* stream) {
    if (imitated_no_stream) return NOT_SUPPORTED;
    ((Handle*)h)->stream = stream;
    return OK;
}

int cudnnCreateTensorDescriptor(void** t) { *t = calloc(1, sizeof(Tensor)); return OK; }
int cudnnCreateFilterDescriptor(void** t) { return cudnnCreateTensorDescriptor(t); }
int cudnnCreateConvolutionDescriptor(void** c) { *c = calloc(1, sizeof(Convolution)); ((Convolution*)*c)->groups = 1; return OK; }
int cudnnDestroyTensorDescriptor(void* t) { free(t); return OK; }
int cudnnDestroyFilterDescriptor(void* t) { free(t); return OK; }
int cudnnDestroyConvolutionDescriptor(void* t) { free(t); return OK; }

int cudnnSetTensorNdDescriptor(void* d, int type, int ndim, const int* size, const int* stride) {
    Tensor* t = d;
    if (ndim < 4 || ndim > 5) return BAD_PARAM;
    t->type = type, t->ndim = ndim;
    for (int i = 0; i < ndim; i++) {
        if (size[i] <= 0 || stride[i] <= 0) return BAD_PARAM;
        t->size[i] = size[i], t->stride[i] = stride[i];
    }
    return OK;
}
int cudnnSetFilterNdDescriptor(void* d, int type, int format, int ndim, const int* size) {
    int stride[5], step = 1;
    if (format != 0) return NOT_SUPPORTED;
    for (int i = ndim - 1; i >= 0; i--) stride[i] = step, step *= size[i];
    return cudnnSetTensorNdDescriptor(d, type, ndim, size, stride);
}
int cudnnSetConvolutionNdDescriptor(void* d, int ndim, const int* pad, const int* stride, const int* dilation, int mode, int compute) {
    Convolution* c = d;
    if (ndim < 2 || ndim > 3 || mode != 1) return BAD_PARAM;
    c->ndim = ndim, c->compute = compute;
    for (int i = 0; i < ndim; i++) {
        if (pad[i] < 0 || stride[i] <= 0 || dilation[i] <= 0) return BAD_PARAM;
        c->pad[i] = pad[i], c->stride[i] = stride[i], c->dilation[i] = dilation[i];
    }
    return OK;
}
int cudnnSetConvolutionGroupCount(void* c, int groups) { ((Convolution*)c)->groups = groups; return groups > 0 ? OK : BAD_PARAM; }
int cudnnSetConvolutionMathType(void* c, int math) { ((Convolution*)c)->math = math; return math >= 0 && math <= 3 ? OK : BAD_PARAM; }

static double load(const Tensor* t, const void* p, int64_t i) {
    uint32_t bits;
    float f;
    switch (t->type) {
        case FLOAT: return ((const float*)p)[i];
        case DOUBLE: return ((const double*)p)[i];
        case HALF: return (double)((const _Float16*)p)[i];
    }
    bits = (uint32_t)((const uint16_t*)p)[i] << 16;
    memcpy(&f, &bits, 4);
    return f;
}
static void store(const Tensor* t, void* p, int64_t i, double v) {
    uint32_t bits;
    float f = (float)v;
    switch (t->type) {
        case FLOAT: ((float*)p)[i] = f; return;
        case DOUBLE: ((double*)p)[i] = v; return;
        case HALF: ((_Float16*)p)[i] = (_Float16)f; return;
    }
    memcpy(&bits, &f, 4);
    bits += 0x7fff + (bits >> 16 & 1);
    ((uint16_t*)p)[i] = (uint16_t)(bits >> 16);
}

static int fits(const Convolution* c, const Tensor* x, const Tensor* w, const Tensor* y) {
    if (x->type != w->type || x->type != y->type || c->compute != (x->type == DOUBLE ? DOUBLE : FLOAT)) return 0;
    if (x->ndim != c->ndim + 2 || w->ndim != x->ndim || y->ndim != x->ndim) return 0;
    if (x->size[0] != y->size[0] || x->size[1] != w->size[1] * c->groups || y->size[1] != w->size[0] || w->size[0] % c->groups) return 0;
    for (int d = 0; d < c->ndim; d++)
        if (y->size[2 + d] != (x->size[2 + d] + 2 * c->pad[d] - c->dilation[d] * (w->size[2 + d] - 1) - 1) / c->stride[d] + 1) return 0;
    return 1;
}

/* out = alpha * (what the other two make) + beta * out, `kind` as the names below count. */
static int compute(int kind, const Convolution* c, const Tensor* x, void* px, const Tensor* w, void* pw, const Tensor* y, void* py,
                   double alpha, double beta) {
    const Tensor* t = kind == 0 ? y : kind == 1 ? x : w;
    void* out = kind == 0 ? py : kind == 1 ? px : pw;
    int64_t total = 1, taps = 1, places = 1;
    int per = w->size[0] / c->groups;
    for (int d = 0; d < t->ndim; d++) total *= t->size[d];
    for (int d = 2; d < w->ndim; d++) taps *= w->size[d], places *= y->size[d];
    double* sums = calloc((size_t)total, sizeof(double));
    for (int b = 0; b < y->size[0]; b++)
        for (int f = 0; f < y->size[1]; f++)
            for (int64_t place = 0; place < places; place++)
                for (int k = 0; k < w->size[1]; k++)
                    for (int64_t tap = 0; tap < taps; tap++) {
                        int channel = f / per * w->size[1] + k, inside = 1;
                        int64_t rest = place, left = tap;
                        int64_t ix = (int64_t)b * x->stride[0] + (int64_t)channel * x->stride[1], iw = (int64_t)f * w->stride[0] + (int64_t)k * w->stride[1];
                        int64_t iy = (int64_t)b * y->stride[0] + (int64_t)f * y->stride[1], dense = 0, step = 1;
                        for (int d = c->ndim - 1; d >= 0; d--) {
                            int at = (int)(rest % y->size[2 + d]), u = (int)(left % w->size[2 + d]);
                            int point = at * c->stride[d] - c->pad[d] + u * c->dilation[d];
                            inside = inside && point >= 0 && point < x->size[2 + d];
                            ix += (int64_t)point * x->stride[2 + d], iw += (int64_t)u * w->stride[2 + d], iy += (int64_t)at * y->stride[2 + d];
                            dense += (kind == 0 ? at : kind == 1 ? point : u) * step, step *= t->size[2 + d];
                            rest /= y->size[2 + d], left /= w->size[2 + d];
                        }
                        if (!inside) continue;
                        dense += step * ((kind == 0 ? f : kind == 1 ? channel : k) + (int64_t)t->size[1] * (kind == 2 ? f : b));
                        sums[dense] += kind == 0 ? load(x, px, ix) * load(w, pw, iw) : kind == 1 ? load(w, pw, iw) * load(y, py, iy)
                            : load(x, px, ix) * load(y, py, iy);
                    }
    for (int64_t i = 0; i < total; i++) {
        int64_t rest = i, at = 0;
        for (int d = t->ndim - 1; d >= 0; d--) at += rest % t->size[d] * t->stride[d], rest /= t->size[d];
        store(t, out, at, alpha * sums[i] + (beta != 0 ? beta * load(t, out, at) : 0));
    }
    free(sums);
    return OK;
}

static size_t room_of(int algorithm) { return algorithm == 2 ? (size_t)1 << 40 : 64 + 8 * (size_t)algorithm; }

static int offer(int wanted, int* found, Perf* perf) {
    static const Perf all[] = {{5, NOT_SUPPORTED, 0, 0, 1, 0}, {3, OK, 1, 0, 0, 1}, {2, OK, 2, 0, 1, 0}, {1, OK, 3, 0, 1, 1}, {0, OK, 4, 0, 1, 0}};
    *found = 0;
    if (imitated_refuses) return NOT_SUPPORTED;
    if (lacks()) return NO_MEMORY;
    for (int i = 0; i < 5 && *found < wanted; i++) {
        perf[*found] = all[i], perf[*found].memory = room_of(all[i].algorithm);
        if (imitated_nothing_deterministic) perf[*found].determinism = 0;
        (*found)++;
    }
    return OK;
}

static int run(int kind, const void* alpha, const void* beta, int algorithm, void* room, size_t nbytes, const Convolution* c,
               const Tensor* x, const void* px, const Tensor* w, const void* pw, const Tensor* y, const void* py) {
    int status = imitated_failure;
    imitated_failure = 0;
    if (status) return status;
    if (lacks()) return NO_MEMORY;
    if (!fits(c, x, w, y) || nbytes < room_of(algorithm) || !room) return BAD_PARAM;
    memset(room, 0xaa, nbytes);
    imitated_calls[kind]++, imitated_algorithm = algorithm, imitated_math = c->math, imitated_compute = c->compute;
    return c->compute == DOUBLE ? compute(kind, c, x, (void*)px, w, (void*)pw, y, (void*)py, *(const double*)alpha, *(const double*)beta)
        : compute(kind, c, x, (void*)px, w, (void*)pw, y, (void*)py, *(const float*)alpha, *(const float*)beta);
}

/* A kind of convolution: its name, the order of its operands a, b and result r among x, w and y. */
#define KIND(NAME, K, X, W, Y) \
    int cudnnGetConvolution##NAME##Algorithm_v7(void* h, void* a, void* b, void* c, void* r, int wanted, int* found, Perf* perf) { \
        return h && fits(c, X, W, Y) ? offer(wanted, found, perf) : BAD_PARAM; \
    } \
    int cudnnFindConvolution##NAME##AlgorithmEx(void* h, void* a, const void* pa, void* b, const void* pb, void* c, void* r, void* pr, \
                                                int wanted, int* found, Perf* perf, void* room, size_t nbytes) { \
        imitated_measured++; \
        if (!h || !pa || !pb || !room || !fits(c, X, W, Y)) return BAD_PARAM; \
        memset(room, 0xbb, nbytes), memset(pr, 0xcc, 8); \
        return offer(wanted, found, perf); \
    } \
    int cudnnGetConvolution##NAME##WorkspaceSize(void* h, void* a, void* b, void* c, void* r, int algorithm, size_t* nbytes) { \
        *nbytes = room_of(algorithm); \
        return h && fits(c, X, W, Y) ? OK : BAD_PARAM; \
    } \
    int cudnnConvolution##NAME(void* h, const void* alpha, void* a, const void* pa, void* b, const void* pb, void* c, int algorithm, \
                               void* room, size_t nbytes, const void* beta, void* r, void* pr) { \
        return h ? run(K, alpha, beta, algorithm, room, nbytes, c, X, P##X, W, P##W, Y, P##Y) : BAD_PARAM; \
    }
#define Pa pa
#define Pb pb
#define Pr pr
KIND(Forward, 0, a, b, r)
KIND(BackwardData, 1, r, a, b)
KIND(BackwardFilter, 2, a, r, b)
