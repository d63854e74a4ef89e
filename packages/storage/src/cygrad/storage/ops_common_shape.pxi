# Copies in another arrangement on any device: flip, roll, padding, joining. A device has `copy_broadcast`, `op_clone`, `op_full`,
# and `triangle_into`.

cdef Storage op_flip(Meta* y, Meta* x, uint64_t mask):
    """The elements along the masked dimensions in reverse order, in the layout of x."""
    cdef Meta back
    cdef Storage s
    cdef int d
    meta_dense_like(y, x, x.dtype)
    s = allocate(y)
    memset(&back, 0, sizeof(Meta))
    meta_like(&back, x)
    back.flags = 0                             # negative strides exist in here only
    for d in range(x.ndim):
        if mask >> d & 1 and x.numel:
            back.data += (x.sizes[d] - 1) * x.strides[d] * ITEMSIZE[x.dtype]
            back.strides[d] = -back.strides[d]
    copy_broadcast(y, &back)
    meta_clear(&back)
    return s


cdef int copy_narrow(Meta* y, int64_t y_at, Meta* x, int64_t x_at, int64_t n, int64_t dim) except -1:
    """n slices of x along dim, from x_at on, to y from y_at on."""
    cdef Meta to, source
    memset(&to, 0, sizeof(Meta))
    memset(&source, 0, sizeof(Meta))
    view_narrow(&to, y, dim, y_at, n)
    view_narrow(&source, x, dim, x_at, n)
    copy_broadcast(&to, &source)
    meta_clear(&to)
    meta_clear(&source)
    return 0


cdef Storage op_roll(Meta* y, Meta* x, int64_t shift, int64_t dim):
    cdef int64_t n = size_at(x, dim)
    cdef Storage s
    if x.ndim == 0 or x.numel == 0:
        return op_clone(y, x, x.dtype, True)
    shift %= n
    if shift < 0:
        shift += n
    s = allocate_contig(y, x.ndim, x.sizes, x.dtype)
    copy_narrow(y, shift, x, 0, n - shift, dim)
    copy_narrow(y, 0, x, n - shift, shift, dim)
    return s


cdef Storage op_constant_pad(Meta* y, Meta* x, int n, const int64_t* pad, object value):
    """x with pad[0] more elements before and pad[1] behind in the last dimension, and so on; negative ones cut off."""
    cdef Meta to, source
    cdef Storage s
    cdef int64_t sizes[MAXDIM]
    cdef int64_t before[MAXDIM]
    cdef int64_t behind[MAXDIM]
    cdef int d, k
    cdef bint grows = False
    if n % 2 or n > 2 * x.ndim:
        raise RuntimeError(f"constant_pad_nd: two pads for each of at most {x.ndim} dimensions are wanted, got "
                           f"{[pad[k] for k in range(n)]} for a tensor of shape {shape_text(x)}")
    for d in range(x.ndim):
        k = 2 * (x.ndim - 1 - d)
        before[d] = pad[k] if k < n else 0
        behind[d] = pad[k + 1] if k < n else 0
        grows = grows or before[d] > 0 or behind[d] > 0
        check_pad(x, d, before[d], behind[d])
        sizes[d] = x.sizes[d] + before[d] + behind[d]
    memset(&to, 0, sizeof(Meta))
    memset(&source, 0, sizeof(Meta))
    try:
        cut(&source, x, before, behind, False)
        if not grows:
            return op_clone(y, &source, x.dtype, False)
        s = op_full(y, x.ndim, sizes, 0, x.dtype)
        if value != 0:
            fill_number(y, value)
        cut(&to, y, before, behind, True)
        copy_broadcast(&to, &source)
    except BaseException:
        meta_clear(y)
        raise
    finally:
        meta_clear(&to)
        meta_clear(&source)
    return s


cdef int check_pad(Meta* x, int d, int64_t before, int64_t behind) except -1:
    cdef int64_t limit = <int64_t> 1 << 61
    if not -limit < before < limit or not -limit < behind < limit:
        raise RuntimeError(f"constant_pad_nd: a pad of {before} or {behind} is too large")
    if x.sizes[d] + before + behind < 0 or x.sizes[d] + min(before, 0) + min(behind, 0) < 0:
        raise RuntimeError(f"constant_pad_nd: the input size {x.sizes[d]}, plus negative padding {before} and {behind}, "
                           f"resulted in a negative output size in dimension {d}")
    return 0


cdef int cut(Meta* y, Meta* x, const int64_t* before, const int64_t* behind, bint inner) except -1:
    """The part of x that is kept (where pads are negative), or of the result where it goes (where they are positive)."""
    cdef int64_t low, high
    cdef int d
    meta_like(y, x)
    for d in range(x.ndim):
        low = max(before[d] if inner else -before[d], 0)
        high = max(behind[d] if inner else -behind[d], 0)
        y.data += low * x.strides[d] * ITEMSIZE[x.dtype]
        y.sizes[d] -= low + high
    return meta_refresh(y)


cdef int meta_refresh(Meta* y) except -1:
    """Flags and numel of a Meta whose sizes were changed."""
    cdef Meta again
    memset(&again, 0, sizeof(Meta))
    again.device = y.device
    meta_strided(&again, y.ndim, y.sizes, y.strides, y.dtype, y.data)
    y.numel, y.flags = again.numel, again.flags
    meta_clear(&again)
    return 0


# ---- triangles

cdef int check_triangle(str op, Meta* x) except -1:
    if x.ndim < 2:
        raise RuntimeError(f"{op}: the tensor must have at least 2 dimensions, got shape {shape_text(x)}")
    check_writable(op, x)
    return 0


cdef int tril_into(Meta* x, int64_t diagonal) except -1:
    return triangle_into("tril", x, diagonal, False)


cdef int triu_into(Meta* x, int64_t diagonal) except -1:
    return triangle_into("triu", x, diagonal, True)


# ---- joins

cdef bint is_legacy_empty(const Meta* x) noexcept:
    return x.ndim == 1 and x.numel == 0


cdef int join_shape(int64_t* sizes, Meta** xs, int n, int64_t dim) except -2:
    """Sizes of the joined tensor.

    Returns the dimension joined along, wrapped, or -1 when all inputs are legacy empties.
    """
    cdef Meta* like = NULL
    cdef int i, d, at = -1
    for i in range(n):
        if xs[i].ndim == 0:
            raise RuntimeError(f"cat: tensor {i} is zero-dimensional, and cannot be concatenated")
        if is_legacy_empty(xs[i]):
            continue
        if like == NULL:
            like = xs[i]
            at = wrap_dim(dim, like.ndim)
            memcpy(sizes, like.sizes, like.ndim * sizeof(int64_t))
            continue
        if xs[i].ndim != like.ndim:
            raise RuntimeError(f"cat: tensors must have the same number of dimensions, got {like.ndim} and {xs[i].ndim}: "
                               f"shapes {shape_text(like)} and {shape_text(xs[i])} (tensor {i})")
        for d in range(like.ndim):
            if d != at and xs[i].sizes[d] != like.sizes[d]:
                raise RuntimeError(f"cat: sizes must match except in dimension {at}: tensor {i} has shape "
                                   f"{shape_text(xs[i])}, the first one {shape_text(like)}")
        sizes[at] += xs[i].sizes[at]
    return at


cdef Storage op_cat(Meta* y, Meta** xs, int n, int64_t dim):
    cdef int64_t sizes[MAXDIM]
    cdef int64_t start = 0
    cdef int i, at, code, ndim = 1
    cdef Meta part
    cdef Storage s
    if n == 0:
        raise ValueError("cat: a non-empty list of tensors is wanted, got an empty one")
    code = xs[0].dtype
    for i in range(1, n):
        code = promote(code, xs[i].dtype)
    at = join_shape(sizes, xs, n, dim)
    if at < 0:
        at = wrap_dim(dim, 1)
        sizes[0] = 0
    for i in range(n):
        if not is_legacy_empty(xs[i]):
            ndim = xs[i].ndim
    s = allocate_contig(y, ndim, sizes, code)
    memset(&part, 0, sizeof(Meta))
    for i in range(n):
        if not is_legacy_empty(xs[i]):
            view_narrow(&part, y, at, start, xs[i].sizes[at])
            copy_broadcast(&part, xs[i])
            meta_clear(&part)
            start += xs[i].sizes[at]
    return s


# ---- dtypes without kernels of their own

cdef Storage recast(Meta* y, Storage s, int code):
    """The result y of a kernel that worked on `computed` input, in the dtype `code`; y's memory is returned."""
    cdef Meta made
    if y.dtype == code:
        return s
    memset(&made, 0, sizeof(Meta))
    try:
        s = op_clone(&made, y, code, True)
    finally:
        meta_clear(y)
    meta_like(y, &made)
    meta_clear(&made)
    return s
