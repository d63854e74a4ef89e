# Running sums, products and extrema along a dimension, and the linear recurrence behind their gradients, on any device: it has
# `scan_into`, which runs a kernel, and `can_scan`. Every dtype but the complex ones has kernels of its own.


cdef Storage scan_clone(Meta* y, Meta* x, int code):
    """x itself, as y, if it has this dtype; else a copy."""
    if x.dtype != code:
        return op_clone(y, x, code, True)
    meta_like(y, x)
    return None


cdef Storage running(str op, int kid, Meta* y, Meta* x, int64_t dim, int dtype, bint reverse):
    """Sums and products: integers in int64, floats in their own dtype, the result converted to `dtype`."""
    cdef Meta held, wide
    cdef Storage s, memory, result
    cdef int code = dtype if dtype >= 0 else INT64 if is_integral(x.dtype) else x.dtype
    cdef int inner
    if dtype == BOOL:
        raise NotImplementedError(f"{op} is not implemented for a result of dtype bool")
    # an integer's width changes inside the kernel
    inner = x.dtype if is_integral(x.dtype) and is_integral(code) else code
    if not can_scan(kid, inner) and not is_complex(inner):
        no_kernel(op, inner)
    memset(&held, 0, sizeof(Meta))
    memset(&wide, 0, sizeof(Meta))
    s = scan_clone(&held, x, inner)
    try:
        if is_complex(inner) and kid == H_CUMSUM:
            return scan_parts(kid, y, &held, dim, reverse)
        wide.device = x.device
        memory = allocate_contig(&wide, x.ndim, x.sizes, INT64 if is_integral(inner) else inner)
        scan_into(kid, &wide, &held, NULL, dim, reverse)
        if wide.dtype == code:
            meta_like(y, &wide)
            return memory
        return op_clone(y, &wide, code, True)
    finally:
        meta_clear(&held)
        meta_clear(&wide)


cdef Storage op_cumsum(Meta* y, Meta* x, int64_t dim, int dtype):
    return running("cumsum", H_CUMSUM, y, x, dim, dtype, False)


cdef Storage op_cumsum_back(Meta* y, Meta* x, int64_t dim):
    return running("cumsum", H_CUMSUM, y, x, dim, -1, True)


cdef Storage op_cumprod(Meta* y, Meta* x, int64_t dim, int dtype):
    return running("cumprod", H_CUMPROD, y, x, dim, dtype, False)


cdef Storage same_scan(str op, int kid, Meta* y, Meta* x, Meta* third, int64_t dim, bint reverse):
    """A scan whose result has the dtype of x."""
    cdef Storage memory
    if not can_scan(kid, x.dtype):
        no_kernel(op, x.dtype)
    memory = allocate_contig(y, x.ndim, x.sizes, x.dtype)
    scan_into(kid, y, x, third, dim, reverse)
    return memory


cdef tuple running_extremum(str op, int kid, Meta* y, Meta* index, Meta* x, int64_t dim):
    cdef Storage values, places = allocate_contig(index, x.ndim, x.sizes, INT64)
    try:
        values = same_scan(op, kid, y, x, index, dim, False)
    except BaseException:
        meta_clear(index)
        raise
    return values, places


cdef tuple op_cummax(Meta* y, Meta* index, Meta* x, int64_t dim):
    return running_extremum("cummax", H_CUMMAX, y, index, x, dim)


cdef tuple op_cummin(Meta* y, Meta* index, Meta* x, int64_t dim):
    return running_extremum("cummin", H_CUMMIN, y, index, x, dim)


cdef Storage op_logcumsumexp(Meta* y, Meta* x, int64_t dim):
    if is_integral(x.dtype):
        no_kernel("logcumsumexp", x.dtype)
    return same_scan("logcumsumexp", H_LOGCUMSUMEXP, y, x, NULL, dim, False)


cdef Storage op_recurrence(Meta* y, Meta* x, Meta* a, int64_t dim, bint reverse):
    """y[i] = x[i] + a[i] * y[i - 1], or reversed its transpose y[i] = x[i] + a[i + 1] * y[i + 1]."""
    check_alike("recurrence", x, a)
    return same_scan("recurrence", H_RECURRENCE, y, x, a, dim, reverse)


cdef Storage scan_parts(int kid, Meta* y, Meta* x, int64_t dim, bint reverse):
    """A running sum of both parts; y is complex."""
    cdef Meta shown, made
    cdef Storage s
    if x.ndim == 0:                            # whose only dimension would be that of the parts
        return op_clone(y, x, x.dtype, True)
    memset(&shown, 0, sizeof(Meta))
    memset(&made, 0, sizeof(Meta))
    view_parts(&shown, x)
    try:
        made.device = x.device
        s = allocate_contig(&made, shown.ndim, shown.sizes, shown.dtype)
        scan_into(kid, &made, &shown, NULL, dim, reverse)
        view_whole(y, &made)
    finally:
        meta_clear(&shown)
        meta_clear(&made)
    return s
