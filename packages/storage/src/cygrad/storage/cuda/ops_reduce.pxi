# Reductions, softmax and normalisation on a device. May use: the shape rules that devices share, ops_copy.

include "_reduce.pxi"
include "kernel_ids.pxi"
include "ops_common_reduce.pxi"
include "ops_common_along.pxi"
include "ops_common_norm.pxi"

cdef extern from "kernels.h" nogil:
    int CYG_REDUCE_SUM, CYG_REDUCE_MEAN, CYG_REDUCE_PROD, CYG_REDUCE_AMAX, CYG_REDUCE_AMIN, CYG_REDUCE_ARGMAX
    int CYG_REDUCE_ARGMIN, CYG_REDUCE_ANY, CYG_REDUCE_ALL, CYG_REDUCE_VAR, CYG_REDUCE_STD, CYG_REDUCE_NORM2
    int CYG_REDUCE_NORM_POWER, CYG_REDUCE_ABS_MAX, CYG_REDUCE_ABS_MIN, CYG_REDUCE_LOGSUMEXP
    int CYG_LINES_SOFTMAX, CYG_LINES_LOG_SOFTMAX, CYG_LINES_SOFTMAX_BACKWARD, CYG_LINES_LOG_SOFTMAX_BACKWARD
    int CYG_LINES_LAYER_NORM, CYG_LINES_LAYER_NORM_INPUT
    ctypedef struct CygFold:
        const char* x
        char* y
        char* index
        int code, kept_ndim, reduced_ndim
        int64_t kept_size[64]
        int64_t kept_x[64]
        int64_t kept_y[64]
        int64_t reduced_size[64]
        int64_t reduced_x[64]
        int64_t outputs, count
        double attr
    ctypedef struct CygLines:
        char* y
        const char* x
        const char* d
        const char* w
        const char* b
        int64_t lines, count
        int64_t st[3]
        int ndim
        int64_t size[64]
        int64_t step[64][3]
        double attr
    int cyg_has_reduction(int what, int code)
    int64_t cyg_reduce_scratch(int what, int code, const CygFold* plan)
    int cyg_reduce(int what, int code, const CygFold* plan, void* scratch, void* stream)
    int cyg_lines(int what, int code, const CygLines* lines, void* stream)
    int64_t cyg_norm_weight_scratch(int code, int64_t rows, int64_t n)
    int cyg_norm_weight(int code, char* y, const char* d, const char* x, int64_t rows, int64_t n, double eps, void* scratch,
                        void* stream)


cdef int reduction_of(int kid, int out) noexcept:
    """The kernel of kernels.h for an id of the CPU's kernels and what is made of its accumulators."""
    if kid == H_SUM:
        return CYG_REDUCE_MEAN if out == AS_MEAN else CYG_REDUCE_SUM
    if kid == H_PROD:
        return CYG_REDUCE_PROD
    if kid == H_MAX:
        return CYG_REDUCE_AMAX
    if kid == H_MIN:
        return CYG_REDUCE_AMIN
    if kid == H_ARGMAX:
        return CYG_REDUCE_ARGMAX
    if kid == H_ARGMIN:
        return CYG_REDUCE_ARGMIN
    if kid == H_ANY:
        return CYG_REDUCE_ANY
    if kid == H_ALL:
        return CYG_REDUCE_ALL
    if kid == H_VAR:
        return CYG_REDUCE_STD if out == AS_STD else CYG_REDUCE_VAR
    if kid == H_SUMSQ:
        return CYG_REDUCE_NORM2
    if kid == H_SUMPOW:
        return CYG_REDUCE_NORM_POWER
    if kid == H_ABSMAX:
        return CYG_REDUCE_ABS_MAX
    return CYG_REDUCE_ABS_MIN if kid == H_ABSMIN else CYG_REDUCE_LOGSUMEXP


cdef int check_kernel(str op, int kid, int code) except -1:
    """The dtypes of the CPU's kernels: complex numbers have no order, and are summed and multiplied as they are."""
    if is_complex(code) and kid != H_SUM and kid != H_PROD and kid != H_ANY and kid != H_ALL:
        return no_kernel(op, code)
    return 0


cdef int fold(CygFold* p, Meta* x, uint64_t mask, int kid, int out, double attr) except -1:
    """Fold x; the results' pointers and dtype are set."""
    cdef Axes kept, reduced
    cdef Storage held = None
    cdef void* stream
    cdef int64_t size = ITEMSIZE[x.dtype], y = 1, nbytes
    cdef int d
    cdef bint ordered = kid == H_ARGMAX or kid == H_ARGMIN
    if not cyg_has_reduction(reduction_of(kid, out), x.dtype) and COMPUTED[x.dtype] != x.dtype:
        return fold_computed(p, x, mask, kid, out, attr)
    kept.n = reduced.n = 0
    for d in range(x.ndim - 1, -1, -1):
        if mask >> d & 1:
            axes_add(&reduced, x.sizes[d], x.strides[d] * size, 0, not ordered)
        else:
            axes_add(&kept, x.sizes[d], x.strides[d] * size, y, True)
            y *= x.sizes[d]
    axes_coalesce(&kept)
    axes_coalesce(&reduced)
    p.x, p.attr = x.data, attr
    p.kept_ndim, p.reduced_ndim = kept.n, reduced.n
    p.outputs = p.count = 1
    for d in range(kept.n):
        p.kept_size[d], p.kept_x[d], p.kept_y[d] = kept.size[d], kept.x[d], kept.y[d]
        p.outputs *= kept.size[d]
    for d in range(reduced.n):
        p.reduced_size[d], p.reduced_x[d] = reduced.size[d], reduced.x[d]
        p.count *= reduced.size[d]
    enter(x.device, &stream)
    nbytes = cyg_reduce_scratch(reduction_of(kid, out), x.dtype, p)
    if nbytes:
        held = scratch(x.device, nbytes)
    return ran(cyg_reduce(reduction_of(kid, out), x.dtype, p, held.ptr if nbytes else NULL, stream), "reduction", x.dtype)


cdef int fold_computed(CygFold* p, Meta* x, uint64_t mask, int kid, int out, double attr) except -1:
    """The same over a copy in the dtype that x's computes in."""
    cdef Meta held
    cdef Storage s
    memset(&held, 0, sizeof(Meta))
    s = op_clone(&held, x, COMPUTED[x.dtype], False)
    try:
        return fold(p, &held, mask, kid, out, attr)
    finally:
        meta_clear(&held)


cdef Storage reduce_to(Meta* y, Meta* x, uint64_t mask, bint keepdim, int kid, int out, int code, double attr,
                       double empty):
    cdef CygFold p
    cdef Storage s
    cdef int64_t sizes[MAXDIM]
    cdef int ndim
    reduced_shape(x, mask, keepdim, &ndim, sizes)
    meta_place(y, x.device)
    s = allocate_contig(y, ndim, sizes, code)
    p.y, p.index, p.code = y.data, NULL, code
    if out == AS_INDEX:
        p.y, p.index = NULL, y.data
    try:
        if x.numel == 0:
            fill_double(y, empty)
        else:
            fold(&p, x, mask, kid, out, attr)
    except BaseException:
        meta_clear(y)
        raise
    return s


cdef int fold_extremes(Meta* y, Meta* index, Meta* x, uint64_t mask, int kid) except -1:
    cdef CygFold p
    p.y, p.index, p.code = y.data, index.data, y.dtype
    return fold(&p, x, mask, kid, AS_PAIR, 0)


cdef int take_roots(Meta* y) except -1:
    """Square roots of a row-major real y, in place."""
    cdef Meta* operands[2]
    operands[0] = operands[1] = y
    return run_row(K_SQRT, y.dtype, operands, 2, NULL)


cdef Storage modulus(Meta* y, Meta* x):
    """Absolute values, as a real tensor."""
    cdef Meta* operands[2]
    cdef Storage s
    meta_place(y, x.device)
    s = allocate_contig(y, x.ndim, x.sizes, real_of(x.dtype))
    operands[0], operands[1] = y, x
    try:
        run_row(K_ABS, x.dtype, operands, 2, NULL)
    except BaseException:
        meta_clear(y)
        raise
    return s


# ---- whole lines

cdef void line_dims(CygLines* l, Meta** operands, int count, int64_t dim) noexcept:
    """Strides along `dim` and across lines; a missing third operand repeats the second."""
    cdef const Meta* m
    cdef Meta* y = operands[0]
    cdef int d, k
    cdef bint joins
    l.count = y.sizes[dim] if y.ndim else 1
    l.lines = y.numel // l.count
    l.ndim = 0
    for k in range(3):
        m = operands[k if k < count else count - 1]
        l.st[k] = m.strides[dim] * ITEMSIZE[m.dtype] if y.ndim else ITEMSIZE[m.dtype]
    for d in range(y.ndim - 1, -1, -1):
        if d == dim or y.sizes[d] == 1:
            continue
        joins = l.ndim > 0
        for k in range(3):
            m = operands[k if k < count else count - 1]
            l.step[l.ndim][k] = m.strides[d] * ITEMSIZE[m.dtype]
            joins = joins and l.step[l.ndim][k] == l.size[l.ndim - 1] * l.step[l.ndim - 1][k]
        if joins:
            l.size[l.ndim - 1] *= y.sizes[d]
        else:
            l.size[l.ndim] = y.sizes[d]
            l.ndim += 1


cdef Storage along(str op, int kid, Meta* y, Meta* a, Meta* b, int64_t dim):
    """y is of a's shape and dtype; b is NULL for a kernel of one operand."""
    cdef CygLines l
    cdef Meta* operands[3]
    cdef void* stream
    cdef Storage s
    cdef int what = (CYG_LINES_SOFTMAX if kid == H_SOFTMAX else CYG_LINES_LOG_SOFTMAX if kid == H_LOG_SOFTMAX else
                     CYG_LINES_SOFTMAX_BACKWARD if kid == H_SOFTMAX_BACKWARD else CYG_LINES_LOG_SOFTMAX_BACKWARD)
    if not is_float(a.dtype):
        no_kernel(op, a.dtype)
    meta_place(y, a.device)
    s = allocate_contig(y, a.ndim, a.sizes, a.dtype)
    if y.numel == 0:
        return s
    operands[0], operands[1], operands[2] = y, a, b
    line_dims(&l, operands, 2 if b == NULL else 3, dim)
    l.y, l.x, l.d = y.data, a.data, b.data if b != NULL else NULL
    l.w = l.b = NULL
    l.attr = 0
    try:
        enter(y.device, &stream)
        ran(cyg_lines(what, a.dtype, &l, stream), op, a.dtype)
    except BaseException:
        meta_clear(y)
        raise
    return s


cdef Storage norm_rows(int kid, str op, Meta* y, Meta* d, Meta* x, Meta* w, Meta* b, double eps):
    cdef CygLines l
    cdef Meta held[4]
    cdef Meta* given[4]
    cdef void* stream
    cdef Storage s
    cdef int i
    check_norm(op, x, d, w, b)
    if not is_float(x.dtype):
        no_kernel(op, x.dtype)
    memset(held, 0, sizeof(held))
    given[0], given[1], given[2], given[3] = d, x, w, b
    keep = []
    try:
        for i in range(4):
            if given[i] != NULL:
                keep.append(rowmajor(&held[i], given[i]))
        meta_place(y, x.device)
        s = allocate_contig(y, x.ndim, x.sizes, x.dtype)
        if y.numel == 0:
            return s
        l.y, l.x, l.w = y.data, held[1].data, held[2].data
        l.d, l.b = held[0].data if d != NULL else NULL, held[3].data if b != NULL else NULL
        l.count, l.lines, l.attr = w.numel, y.numel // w.numel, eps
        l.ndim, l.size[0] = 1, l.lines
        for i in range(3):
            l.st[i] = ITEMSIZE[x.dtype]
            l.step[0][i] = l.count * l.st[i]
        enter(y.device, &stream)
        ran(cyg_lines(CYG_LINES_LAYER_NORM if kid == H_LAYER_NORM else CYG_LINES_LAYER_NORM_INPUT, x.dtype, &l, stream), op, x.dtype)
    except BaseException:
        meta_clear(y)
        raise
    finally:
        for i in range(4):
            meta_clear(&held[i])
    return s


cdef Storage op_layer_norm_weight(Meta* y, Meta* d, Meta* x, double eps, int ndim, const int64_t* sizes):
    cdef Meta a, b
    cdef Storage keep_a, keep_b, s, room
    cdef void* stream
    cdef int64_t rows
    check_norm_weight(d, x, ndim, sizes)
    memset(&a, 0, sizeof(Meta))
    memset(&b, 0, sizeof(Meta))
    try:
        keep_a, keep_b = rowmajor(&a, d), rowmajor(&b, x)
        meta_place(y, x.device)
        s = allocate_contig(y, ndim, sizes, x.dtype)
        if a.numel == 0:
            fill_double(y, 0)
            return s
        rows = a.numel // y.numel
        enter(x.device, &stream)
        room = scratch(x.device, cyg_norm_weight_scratch(x.dtype, rows, y.numel))
        ran(cyg_norm_weight(x.dtype, y.data, a.data, b.data, rows, y.numel, eps, room.ptr, stream), "layer_norm_weight", x.dtype)
    except BaseException:
        meta_clear(y)
        raise
    finally:
        meta_clear(&a)
        meta_clear(&b)
    return s


cdef tuple op_layer_norm_gradients(Meta* dx, Meta* dw, Meta* db, Meta* d, Meta* x, Meta* w, double eps):
    cdef uint64_t rows = (<uint64_t>1 << (x.ndim - w.ndim)) - 1
    cdef Storage first, second, third
    try:
        first = op_layer_norm_input(dx, d, x, w, eps)
        second = op_layer_norm_weight(dw, d, x, eps, w.ndim, w.sizes)
        third = op_sum(db, d, rows, False, -1) if rows else op_clone(db, d, d.dtype, True)
        return first, second, third
    except BaseException:
        meta_clear(dx)
        meta_clear(dw)
        meta_clear(db)
        raise
