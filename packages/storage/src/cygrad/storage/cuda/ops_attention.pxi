# Attention on a device: products of cuBLAS around kernels that turn scores to weights. May use: ops_copy, ops_linalg.
# Scores are in memory at a time; only logarithms of sums are kept for the gradient, as on the CPU.

include "ops_common_attention.pxi"

cdef extern from "kernels.h" nogil:
    ctypedef struct CygScores:
        char* scores
        char* top
        char* g
        const char* inner
        const char* mask
        int mask_is_bool, causal
        int64_t rows, queries, keys
    int cyg_weigh(int code, const CygScores* c, void* stream)
    int cyg_weigh_back(int code, const CygScores* c, void* stream)
    int cyg_rows_inner(int code, const char* a, const char* b, char* y, int64_t rows, int64_t width, void* stream)


@cython.final
@cython.no_gc
cdef class Batch:
    # a batch of row-major matrices, and its transpose, over memory of a tensor or its own
    cdef Meta m, t
    cdef Storage memory

    def __dealloc__(self):
        meta_clear(&self.m)
        meta_clear(&self.t)


cdef Batch batch_over(char* data, int64_t items, int64_t rows, int64_t columns, int code, int device, Storage memory):
    cdef Batch b = Batch.__new__(Batch)
    cdef int64_t sizes[3]
    cdef int64_t strides[3]
    sizes[0], sizes[1], sizes[2] = items, rows, columns
    strides[0], strides[1], strides[2] = rows * columns, columns, 1
    b.m.device = b.t.device = device
    meta_strided(&b.m, 3, sizes, strides, code, data)
    meta_place(&b.m, device)
    view_transpose(&b.t, &b.m, 1, 2)
    b.memory = memory
    return b


cdef Batch batch_of(Meta* x, int64_t items, int64_t rows, int64_t columns):
    """x as a batch, copied where it is not row-major."""
    cdef Meta held
    cdef Storage keep
    memset(&held, 0, sizeof(Meta))
    keep = rowmajor(&held, x)
    try:
        return batch_over(held.data, items, rows, columns, x.dtype, x.device, keep)
    finally:
        meta_clear(&held)


cdef Batch batch_new(int64_t items, int64_t rows, int64_t columns, int code, int device):
    cdef Storage memory = scratch(device, items * rows * columns * ITEMSIZE[code])
    return batch_over(memory.ptr, items, rows, columns, code, device, memory)


cdef Batch scores_of(CygScores* c, const int64_t* n, Batch q, Batch k, Meta* mask, bint causal, double scale, list keep):
    """q @ k.T * scale, and what the kernels are told of it."""
    cdef Batch s = batch_new(n[0], n[1], n[2], q.m.dtype, q.m.device), held
    multiply_into(&s.m, &q.m, &k.t, scale, 0)
    memset(c, 0, sizeof(CygScores))
    c.scores, c.rows, c.queries, c.keys, c.causal = s.m.data, n[0] * n[1], n[1], n[2], causal
    if mask != NULL:
        held = batch_of(mask, n[0], n[1], n[2])
        keep.append(held)
        c.mask, c.mask_is_bool = held.m.data, mask.dtype == BOOL
    return s


cdef tuple op_attention(Meta* y, Meta* top, Meta* q, Meta* k, Meta* v, Meta* mask, bint causal, double scale):
    cdef CygScores c
    cdef int64_t n[5]
    cdef int64_t sizes[MAXDIM]
    cdef Batch weights, result
    cdef Storage s, t
    cdef void* stream
    cdef list keep = []
    check_attention_sizes(n, q, k, v, mask)
    memcpy(sizes, q.sizes, q.ndim * sizeof(int64_t))
    try:
        t = allocate_contig(top, q.ndim - 1, sizes, q.dtype)
        sizes[q.ndim - 1] = n[4]
        s = allocate_contig(y, q.ndim, sizes, q.dtype)
        weights = scores_of(&c, n, batch_of(q, n[0], n[1], n[3]), batch_of(k, n[0], n[2], n[3]), mask, causal, scale, keep)
        c.top = top.data
        enter(q.device, &stream)
        ran(cyg_weigh(q.dtype, &c, stream), "attention", q.dtype)
        result = batch_over(y.data, n[0], n[1], n[4], q.dtype, q.device, None)
        multiply_into(&result.m, &weights.m, &batch_of(v, n[0], n[2], n[4]).m, 1, 0)
    except BaseException:
        meta_clear(y)
        meta_clear(top)
        raise
    return s, t


cdef tuple op_attention_backward(Meta** y, Meta* g, Meta* q, Meta* k, Meta* v, Meta* mask, Meta* result, Meta* top,
                                 bint causal, double scale):
    cdef CygScores c
    cdef int64_t n[5]
    cdef Batch weights, slopes, inner, arrived, queries, keys, values, made
    cdef void* stream
    cdef list storages = [], keep = []
    cdef int j
    check_attention_sizes(n, q, k, v, mask)
    check_row_major("the gradient", g, n[0] * n[1] * n[4], q.dtype)
    check_row_major("the result", result, n[0] * n[1] * n[4], q.dtype)
    check_row_major("the sums", top, n[0] * n[1], q.dtype)
    try:
        storages.append(allocate_contig(y[0], q.ndim, q.sizes, q.dtype))
        storages.append(allocate_contig(y[1], k.ndim, k.sizes, q.dtype))
        storages.append(allocate_contig(y[2], v.ndim, v.sizes, q.dtype))
        queries, keys = batch_of(q, n[0], n[1], n[3]), batch_of(k, n[0], n[2], n[3])
        values, arrived = batch_of(v, n[0], n[2], n[4]), batch_of(g, n[0], n[1], n[4])
        weights = scores_of(&c, n, queries, keys, mask, causal, scale, keep)
        slopes = batch_new(n[0], n[1], n[2], q.dtype, q.device)
        multiply_into(&slopes.m, &arrived.m, &values.t, 1, 0)
        inner = batch_new(n[0], n[1], 1, q.dtype, q.device)
        enter(q.device, &stream)
        ran(cyg_rows_inner(q.dtype, result.data, g.data, inner.m.data, n[0] * n[1], n[4], stream), "attention", q.dtype)
        c.top, c.g, c.inner = top.data, slopes.m.data, inner.m.data
        ran(cyg_weigh_back(q.dtype, &c, stream), "attention", q.dtype)
        made = batch_over(y[0].data, n[0], n[1], n[3], q.dtype, q.device, None)
        multiply_into(&made.m, &slopes.m, &keys.m, scale, 0)
        made = batch_over(y[1].data, n[0], n[2], n[3], q.dtype, q.device, None)
        multiply_into(&made.m, &slopes.t, &queries.m, scale, 0)
        made = batch_over(y[2].data, n[0], n[2], n[4], q.dtype, q.device, None)
        multiply_into(&made.m, &weights.t, &arrived.m, 1, 0)
    except BaseException:
        for j in range(3):
            meta_clear(y[j])
        raise
    return tuple(storages)
