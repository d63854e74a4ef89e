# Reductions on any device: shapes, dtypes and errors. A device has `reduce_to` and `fold_extremes`, which run a kernel,
# `check_kernel`, `op_clone`, `modulus` and `take_roots`.
# Invariant: arguments are checked before memory is taken, and a reduction over no elements needs no kernel.

cdef enum:
    AS_ELEMENT             # the result is plane 0 as it is
    AS_INDEX               # the result is the int64 plane 1
    AS_PAIR                # both, into two results
    AS_TRUTH
    AS_INTEGER             # int64 plane 0, cast
    AS_PARTS               # complex, parts in planes 0 and 1
    AS_SUM                 # from here on: real results, made of double planes
    AS_MEAN
    AS_VAR
    AS_STD
    AS_NORM2
    AS_ROOT
    AS_LOGSUMEXP

cdef struct Axes:          # dimensions without size 1, smallest x stride first, coalesced
    int n
    int64_t size[MAXDIM]
    int64_t x[MAXDIM]      # byte strides of the input
    int64_t y[MAXDIM]      # element strides of the result


# ---- shape

cdef void axes_add(Axes* a, int64_t size, int64_t x, int64_t y, bint sort) noexcept nogil:
    """Add the next dimension outwards: dimensions come innermost first."""
    cdef int i
    if size == 1:
        return
    i = a.n
    while sort and i > 0 and a.x[i - 1] > x:
        a.size[i] = a.size[i - 1]
        a.x[i] = a.x[i - 1]
        a.y[i] = a.y[i - 1]
        i -= 1
    a.size[i] = size
    a.x[i] = x
    a.y[i] = y
    a.n += 1


cdef void axes_coalesce(Axes* a) noexcept nogil:
    cdef int i, k = 0
    if a.n == 0:
        a.n = 1
        a.size[0] = 1
        a.x[0] = a.y[0] = 0
        return
    for i in range(1, a.n):
        if a.x[i] == a.size[k] * a.x[k] and a.y[i] == a.size[k] * a.y[k]:
            a.size[k] *= a.size[i]
        else:
            k += 1
            a.size[k] = a.size[i]
            a.x[k] = a.x[i]
            a.y[k] = a.y[i]
    a.n = k + 1


cdef void reduced_shape(const Meta* x, uint64_t mask, bint keepdim, int* ndim, int64_t* sizes) noexcept:
    cdef int d, k = 0
    for d in range(x.ndim):
        if not mask >> d & 1:
            sizes[k] = x.sizes[d]
            k += 1
        elif keepdim:
            sizes[k] = 1
            k += 1
    ndim[0] = k


# ---- sums

cdef Storage reduce_cast(Meta* y, Meta* x, uint64_t mask, bint keepdim, int kid, int out, int code, double empty):
    """A sum-like reduction in the dtype `code`; the input is cast first, unless only an integer's width changes."""
    cdef Meta held
    cdef Storage s, result
    if x.dtype == code or (code == INT64 and is_integral(x.dtype)):
        if is_complex(code) and kid != H_PROD:
            return over_parts(y, x, mask, keepdim, kid, out, 0, empty)
        return reduce_to(y, x, mask, keepdim, kid, out, code, 0, empty)
    memset(&held, 0, sizeof(Meta))
    s = op_clone(&held, x, code, False)
    try:
        result = reduce_cast(y, &held, mask, keepdim, kid, out, code, empty)
    finally:
        meta_clear(&held)
    return result


cdef Storage op_sum(Meta* y, Meta* x, uint64_t mask, bint keepdim, int dtype):
    cdef int code = dtype if dtype >= 0 else INT64 if is_integral(x.dtype) else x.dtype
    return reduce_cast(y, x, mask, keepdim, H_SUM, AS_INTEGER if is_integral(code) else AS_SUM, code, 0)


cdef Storage op_prod(Meta* y, Meta* x, uint64_t mask, bint keepdim, int dtype):
    cdef int code = dtype if dtype >= 0 else INT64 if is_integral(x.dtype) else x.dtype
    return reduce_cast(y, x, mask, keepdim, H_PROD,
                       AS_SUM if is_float(code) else AS_PARTS if is_complex(code) else AS_INTEGER, code, 1)


cdef Storage op_mean(Meta* y, Meta* x, uint64_t mask, bint keepdim, int dtype):
    cdef int code = dtype if dtype >= 0 else x.dtype
    if is_integral(code):
        raise RuntimeError(f"mean: a floating point dtype is wanted, got {name_of(code)}: convert the input or give dtype=")
    return reduce_cast(y, x, mask, keepdim, H_SUM, AS_MEAN, code, NAN)


# ---- extrema and truth

cdef int check_not_empty(str op, Meta* x, uint64_t mask) except -1:
    """An extremum of no elements does not exist; the exception type depends on whether all dimensions are reduced."""
    cdef int d
    if x.numel != 0:
        return 0
    for d in range(x.ndim):
        if mask >> d & 1 and x.sizes[d] == 0:
            if mask == (<uint64_t> 2 << (x.ndim - 1)) - 1 and op in ("amax", "amin"):
                raise RuntimeError(f"{op}: a tensor without elements (shape {shape_text(x)}) has no extremum: reduce "
                                   "over a dimension of nonzero size")
            raise IndexError(f"{op}: dimension {d} of size 0 has no extremum (shape {shape_text(x)}): a nonzero size "
                             "is wanted")
    return 0


cdef Storage op_amax(Meta* y, Meta* x, uint64_t mask, bint keepdim):
    check_kernel("amax", H_MAX, x.dtype)
    check_not_empty("amax", x, mask)
    return reduce_to(y, x, mask, keepdim, H_MAX, AS_ELEMENT, x.dtype, 0, 0)


cdef Storage op_amin(Meta* y, Meta* x, uint64_t mask, bint keepdim):
    check_kernel("amin", H_MIN, x.dtype)
    check_not_empty("amin", x, mask)
    return reduce_to(y, x, mask, keepdim, H_MIN, AS_ELEMENT, x.dtype, 0, 0)


cdef int check_arg(str op, Meta* x, uint64_t mask) except -1:
    if x.dtype == BOOL:
        raise RuntimeError(f"{op}: bool input is not supported: convert it to an integer first")
    check_kernel(op, H_ARGMAX, x.dtype)
    return check_not_empty(op, x, mask)


cdef Storage op_argmax(Meta* y, Meta* x, uint64_t mask, bint keepdim):
    check_arg("argmax", x, mask)
    return reduce_to(y, x, mask, keepdim, H_ARGMAX, AS_INDEX, INT64, 0, 0)


cdef Storage op_argmin(Meta* y, Meta* x, uint64_t mask, bint keepdim):
    check_arg("argmin", x, mask)
    return reduce_to(y, x, mask, keepdim, H_ARGMIN, AS_INDEX, INT64, 0, 0)


cdef tuple extreme_dim(str op, Meta* y, Meta* index, Meta* x, int64_t dim, bint keepdim, int kid):
    cdef Storage values, places
    cdef int64_t sizes[MAXDIM]
    cdef int ndim
    cdef uint64_t mask = <uint64_t> 1 << dim if x.ndim else 0
    check_kernel(op, kid, x.dtype)
    check_not_empty(op, x, mask)
    reduced_shape(x, mask, keepdim, &ndim, sizes)
    values = allocate_contig(y, ndim, sizes, x.dtype)
    try:
        places = allocate_contig(index, ndim, sizes, INT64)
        if x.numel:
            fold_extremes(y, index, x, mask, kid)
    except BaseException:
        meta_clear(y)
        meta_clear(index)
        raise
    return values, places


cdef tuple op_max_dim(Meta* y, Meta* index, Meta* x, int64_t dim, bint keepdim):
    return extreme_dim("max", y, index, x, dim, keepdim, H_ARGMAX)


cdef tuple op_min_dim(Meta* y, Meta* index, Meta* x, int64_t dim, bint keepdim):
    return extreme_dim("min", y, index, x, dim, keepdim, H_ARGMIN)


cdef Storage op_any(Meta* y, Meta* x, uint64_t mask, bint keepdim):
    return truth_of(y, x, mask, keepdim, H_ANY, 0)


cdef Storage op_all(Meta* y, Meta* x, uint64_t mask, bint keepdim):
    return truth_of(y, x, mask, keepdim, H_ALL, 1)


# ---- moments and norms

cdef Storage op_var(Meta* y, Meta* x, uint64_t mask, double correction, bint keepdim):
    if is_complex(x.dtype):
        return spread_of_parts(y, x, mask, correction, keepdim)
    if not is_float(x.dtype):
        raise RuntimeError(f"var: a floating point dtype is wanted, got {name_of(x.dtype)}")
    return reduce_to(y, x, mask, keepdim, H_VAR, AS_VAR, x.dtype, correction, NAN)


cdef Storage op_std(Meta* y, Meta* x, uint64_t mask, double correction, bint keepdim):
    cdef Storage s
    if is_complex(x.dtype):
        s = spread_of_parts(y, x, mask, correction, keepdim)
        take_roots(y)
        return s
    if not is_float(x.dtype):
        raise RuntimeError(f"std: a floating point dtype is wanted, got {name_of(x.dtype)}")
    return reduce_to(y, x, mask, keepdim, H_VAR, AS_STD, x.dtype, correction, NAN)


cdef Storage op_norm(Meta* y, Meta* x, double p, uint64_t mask, bint keepdim):
    cdef Meta held
    cdef Storage s
    cdef int d
    if is_complex(x.dtype):
        memset(&held, 0, sizeof(Meta))
        s = modulus(&held, x)
        try:
            return op_norm(y, &held, p, mask, keepdim)
        finally:
            meta_clear(&held)
    if not is_float(x.dtype):
        raise RuntimeError(f"norm: a floating point dtype is wanted, got {name_of(x.dtype)}")
    if p < 0 or p == INFINITY:
        for d in range(x.ndim):
            if mask >> d & 1 and x.sizes[d] == 0:
                raise RuntimeError(f"norm: the {p}-norm of no elements does not exist (shape {shape_text(x)}, "
                                   f"dimension {d})")
    if p == 2:
        return reduce_to(y, x, mask, keepdim, H_SUMSQ, AS_NORM2, x.dtype, 2, 0)
    if p == INFINITY:
        return reduce_to(y, x, mask, keepdim, H_ABSMAX, AS_ELEMENT, x.dtype, 0, 0)
    if p == -INFINITY:
        return reduce_to(y, x, mask, keepdim, H_ABSMIN, AS_ELEMENT, x.dtype, 0, 0)
    return reduce_to(y, x, mask, keepdim, H_SUMPOW, AS_ROOT, x.dtype, p, 0)


cdef Storage op_logsumexp(Meta* y, Meta* x, uint64_t mask, bint keepdim):
    cdef Meta held
    cdef Storage s, result
    check_kernel("logsumexp", H_MAX, x.dtype)
    if is_float(x.dtype):
        return reduce_to(y, x, mask, keepdim, H_SUMEXP, AS_LOGSUMEXP, x.dtype, 0, -INFINITY)
    memset(&held, 0, sizeof(Meta))
    s = op_clone(&held, x, default_dtype(), False)
    try:
        result = op_logsumexp(y, &held, mask, keepdim)
    finally:
        meta_clear(&held)
    return result


# ---- complex numbers, seen as real ones with a last dimension of two

cdef Storage over_parts(Meta* y, Meta* x, uint64_t mask, bint keepdim, int kid, int out, double attr, double empty):
    """A sum-like reduction of both parts; y is complex."""
    cdef Meta shown, made
    cdef Storage s
    memset(&shown, 0, sizeof(Meta))
    memset(&made, 0, sizeof(Meta))
    view_parts(&shown, x)
    try:
        s = reduce_to(&made, &shown, mask, keepdim, kid, out, shown.dtype, attr, empty)
        view_whole(y, &made)
    finally:
        meta_clear(&shown)
        meta_clear(&made)
    return s


cdef Storage spread_of_parts(Meta* y, Meta* x, uint64_t mask, double correction, bint keepdim):
    """The variance: the sum of the variances of both parts."""
    cdef Meta shown, made
    cdef Storage s
    memset(&shown, 0, sizeof(Meta))
    memset(&made, 0, sizeof(Meta))
    view_parts(&shown, x)
    try:
        s = reduce_to(&made, &shown, mask, keepdim, H_VAR, AS_VAR, shown.dtype, correction, NAN)
        return reduce_to(y, &made, <uint64_t> 1 << (made.ndim - 1), False, H_SUM, AS_SUM, made.dtype, 0, 0)
    finally:
        meta_clear(&shown)
        meta_clear(&made)


cdef Storage truth_of(Meta* y, Meta* x, uint64_t mask, bint keepdim, int kid, double empty):
    cdef Meta held
    cdef Storage s
    if not is_complex(x.dtype):
        return reduce_to(y, x, mask, keepdim, kid, AS_TRUTH, UINT8 if x.dtype == UINT8 else BOOL, 0, empty)
    memset(&held, 0, sizeof(Meta))
    s = op_clone(&held, x, BOOL, False)
    try:
        return reduce_to(y, &held, mask, keepdim, kid, AS_TRUTH, BOOL, 0, empty)
    finally:
        meta_clear(&held)
