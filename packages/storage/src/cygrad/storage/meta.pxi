# Meta: shape, strides and flags. Invariant: flags always agree with sizes and strides (set_flags): loops trust them.

cdef extern from *:
    """
    static int cyg_mul(int64_t a, int64_t b, int64_t* c) { return __builtin_mul_overflow(a, b, c); }
    static int cyg_add(int64_t a, int64_t b, int64_t* c) { return __builtin_add_overflow(a, b, c); }
    """
    bint cyg_mul(int64_t a, int64_t b, int64_t* c) noexcept
    bint cyg_add(int64_t a, int64_t b, int64_t* c) noexcept


cdef int too_many_dims(int ndim) except -1:
    raise RuntimeError(f"a tensor has at most {MAXDIM} dimensions, {ndim} were asked for")


cdef inline int meta_open(Meta* y, int ndim, int dtype, char* data) except -1:
    if ndim <= INLINE:
        y.sizes = y.inl
        y.strides = y.inl + INLINE
    else:
        if ndim > MAXDIM:
            too_many_dims(ndim)
        y.sizes = <int64_t*>block_alloc(16 * ndim)
        if y.sizes == NULL:
            raise MemoryError()
        y.strides = y.sizes + ndim
    y.ndim = ndim
    y.dtype = dtype
    y.data = data
    return 0


cdef int meta_alloc(Meta* y, int ndim) except -1:
    return meta_open(y, ndim, BOOL, NULL)


cdef void meta_clear(Meta* y) noexcept:
    if y.ndim > INLINE:
        block_free(y.sizes, 16 * y.ndim)
    y.data = NULL
    y.numel = 0
    y.sizes = y.strides = NULL
    y.ndim = y.dtype = y.device = y.flags = 0


cdef int meta_like(Meta* y, const Meta* x) except -1:
    meta_open(y, x.ndim, x.dtype, x.data)
    memcpy(y.sizes, x.sizes, 8 * x.ndim)
    memcpy(y.strides, x.strides, 8 * x.ndim)
    y.numel, y.device, y.flags = x.numel, x.device, x.flags
    return 0


cdef int bad_sizes(int ndim, const int64_t* sizes) except -1:
    """The error for sizes that no tensor can have."""
    cdef int d
    for d in range(ndim):
        if sizes[d] < 0:
            raise RuntimeError(f"a tensor cannot have the negative dimension {sizes[d]}: sizes {listed(ndim, sizes)}")
    raise RuntimeError(f"Storage size calculation overflowed with sizes={listed(ndim, sizes)}")


cdef int meta_contig(Meta* y, int ndim, const int64_t* sizes, int dtype) except -1:
    cdef int64_t n = 1, stride = 1, s, nbytes
    cdef bint bad = False
    cdef int d
    meta_open(y, ndim, dtype, NULL)
    for d in range(ndim - 1, -1, -1):
        s = sizes[d]
        y.sizes[d] = s
        y.strides[d] = stride
        bad |= s < 0
        bad |= cyg_mul(stride, s if s > 1 else 1, &stride)
        cyg_mul(n, s, &n)      # no overflow where stride, which counts a 0 as 1, has none
    y.numel = n
    y.flags = CONTIGUOUS | DENSE | (FLAT if y.device == 0 else 0)
    if bad or cyg_mul(stride, ITEMSIZE[dtype], &nbytes):
        meta_clear(y)
        bad_sizes(ndim, sizes)
    return 0


cdef int by_stride(const Meta* x, int* order) noexcept:
    """Dimensions of more than one element, ordered by stride, innermost first; returns how many."""
    cdef int n = 0, d, i
    for d in range(x.ndim - 1, -1, -1):
        if x.sizes[d] != 1:
            i = n
            while i > 0 and x.strides[order[i - 1]] > x.strides[d]:
                order[i] = order[i - 1]
                i -= 1
            order[i] = d
            n += 1
    return n


cdef void set_flags(Meta* y) noexcept:
    """All flags from sizes, strides and device; numel is known."""
    cdef int64_t stride = 1
    cdef int order[MAXDIM]
    cdef int d, i, n
    y.flags = CONTIGUOUS | DENSE | (FLAT if y.device == 0 else 0)
    if y.numel == 0:
        return
    for d in range(y.ndim - 1, -1, -1):
        if y.sizes[d] != 1:
            if y.strides[d] != stride:
                y.flags = 0
                break
            stride *= y.sizes[d]
    if y.flags:
        return
    stride = 1
    n = by_stride(y, order)
    for i in range(n):
        if y.strides[order[i]] != stride:
            return
        stride *= y.sizes[order[i]]
    y.flags = DENSE


cdef int meta_close(Meta* y) except -1:
    """numel and flags, once sizes and strides are set."""
    cdef int64_t n = 1
    cdef bint bad = False, empty = False
    cdef int d
    for d in range(y.ndim):
        bad |= y.sizes[d] < 0
        empty |= y.sizes[d] == 0
        bad |= cyg_mul(n, y.sizes[d] if y.sizes[d] > 1 else 1, &n)
    if bad:
        try:
            bad_sizes(y.ndim, y.sizes)
        finally:
            meta_clear(y)
    y.numel = 0 if empty else n
    set_flags(y)
    return 0


cdef int meta_strided(Meta* y, int ndim, const int64_t* sizes, const int64_t* strides, int dtype, char* data) except -1:
    meta_open(y, ndim, dtype, data)
    memcpy(y.sizes, sizes, 8 * ndim)
    memcpy(y.strides, strides, 8 * ndim)
    return meta_close(y)


cdef void stride_order(Meta** ops, int n, int ndim, const int64_t* sizes, int* order) noexcept:
    """Dimensions from inner to outer as the operands' strides suggest, the first operand deciding first.

    An operand that is broadcast along a dimension has no opinion about it; among equal strides the smaller dimension
    is the inner one; without any opinion the last dimension is the innermost.
    """
    cdef int64_t sa, sb
    cdef int i, j, k, a, b, verdict, da, db
    for i in range(ndim):
        order[i] = ndim - 1 - i
    for i in range(1, ndim):
        b = order[i]
        j = i          # the place that b has reached; undecided neighbours are skipped, not crossed
        for k in range(i - 1, -1, -1):
            a = order[k]
            verdict = 0
            for op in range(n):
                da, db = a - (ndim - ops[op].ndim), b - (ndim - ops[op].ndim)
                if da < 0 or db < 0:
                    continue
                sa = 0 if ops[op].sizes[da] != sizes[a] else ops[op].strides[da]
                sb = 0 if ops[op].sizes[db] != sizes[b] else ops[op].strides[db]
                if sa == 0 or sb == 0:
                    continue
                if sa != sb:
                    verdict = 1 if sa > sb else -1
                    break
                if sizes[a] > sizes[b]:
                    verdict = 1
                    break
            if verdict < 0:
                break
            if verdict > 0:
                order[j] = a
                order[k] = b
                j = k


cdef int meta_joint(Meta* y, Meta** ops, int n, int ndim, const int64_t* sizes, int dtype) except -1:
    cdef int order[MAXDIM]
    cdef int64_t stride = 1
    cdef bint rowmajor = True, alike = True, full
    cdef int i
    for i in range(n):
        if ops[i].device:
            y.device = ops[i].device
    meta_contig(y, ndim, sizes, dtype)
    for i in range(n):
        full = meta_same_shape(ops[i], y)
        rowmajor &= full and (ops[i].flags & CONTIGUOUS) != 0
        # `and`, not `&=`: the first operand may have fewer strides than are compared
        alike = alike and full and (ops[i].flags & DENSE) != 0 and memcmp(ops[i].strides, ops[0].strides, 8 * ndim) == 0
    if rowmajor:
        return 0
    if alike:
        memcpy(y.strides, ops[0].strides, 8 * ndim)
        set_flags(y)
        return 0
    stride_order(ops, n, ndim, sizes, order)
    rowmajor = True
    for i in range(ndim):
        rowmajor &= order[i] == ndim - 1 - i
    if rowmajor:
        return 0
    for i in range(ndim):
        y.strides[order[i]] = stride
        stride *= sizes[order[i]]        # 0 once a size is 0, as in PyTorch
    set_flags(y)
    return 0


cdef int meta_dense_like(Meta* y, const Meta* x, int dtype) except -1:
    cdef Meta* op = <Meta*>x
    if x.flags & DENSE:
        meta_open(y, x.ndim, dtype, NULL)
        memcpy(y.sizes, x.sizes, 8 * x.ndim)
        memcpy(y.strides, x.strides, 8 * x.ndim)
        y.numel, y.flags, y.device = x.numel, x.flags, x.device
        return 0
    return meta_joint(y, &op, 1, x.ndim, x.sizes, dtype)


cdef Storage meta_storage(Meta* y):
    cdef Storage s
    cdef int64_t nbytes
    if cyg_mul(y.numel, ITEMSIZE[y.dtype], &nbytes):
        bad_sizes(y.ndim, y.sizes)
    s = storage_new(nbytes) if y.device == 0 else storage_on(y.device, nbytes)
    y.data = s.ptr
    return s


cdef bint meta_same_shape(const Meta* a, const Meta* b) noexcept:
    return a.ndim == b.ndim and memcmp(a.sizes, b.sizes, 8 * a.ndim) == 0


cdef object shape_tuple(const Meta* m):
    return size_of(m.ndim, m.sizes)


cdef object stride_tuple(const Meta* m):
    return tuple_of(m.ndim, m.strides)


cdef int bad_dim(int64_t dim, int ndim) except -1:
    cdef int n = ndim if ndim > 0 else 1
    raise IndexError(f"dimension {dim} is out of range: a tensor with {ndim} dimensions takes {-n} to {n - 1}")


cdef int wrap_dim(int64_t dim, int ndim) except -1:
    cdef int n = ndim if ndim > 0 else 1
    if dim < -n or dim >= n:
        bad_dim(dim, ndim)
    return <int>(dim + n if dim < 0 else dim)


cdef int bad_broadcast(int ndim, const int64_t* sizes, const Meta* m, int d) except -1:
    raise RuntimeError(
        f"the shapes {listed(ndim, sizes)} and {listed(m.ndim, m.sizes)} cannot be broadcast together: sizes "
        f"{sizes[d]} and {m.sizes[d - ndim + m.ndim]} at dimension {d} must match, or one of them must be 1")


cdef int broadcast_shapes(Meta** ops, int n, int64_t* sizes) except -1:
    cdef int ndim = 0, k, d, shift
    cdef int64_t s
    for k in range(n):
        if ops[k].ndim > ndim:
            ndim = ops[k].ndim
    for d in range(ndim):
        sizes[d] = 1
    for k in range(n):
        shift = ndim - ops[k].ndim
        for d in range(ndim - 1, shift - 1, -1):
            s = ops[k].sizes[d - shift]
            if s != sizes[d] and s != 1:
                if sizes[d] != 1:
                    bad_broadcast(ndim, sizes, ops[k], d)
                sizes[d] = s
    return ndim


cdef int64_t reach(const Meta* m) noexcept:
    """Elements from the first to the last one, inclusive; 0 when there are none."""
    cdef int64_t last = 0
    cdef int d
    if m.numel == 0:
        return 0
    for d in range(m.ndim):
        last += (m.sizes[d] - 1) * m.strides[d]
    return last + 1


cdef bint meets_itself(const Meta* m) noexcept:
    """Exact answer by marking every reached element; for the few layouts that sorting by stride does not decide."""
    cdef int64_t c[MAXDIM]
    cdef int64_t n = reach(m), at = 0, i
    cdef bint found = False
    cdef int d
    cdef uint8_t* seen = <uint8_t*>block_alloc(n)
    if seen == NULL:
        return True          # refusing to write is the safe answer
    memset(seen, 0, n)
    memset(c, 0, sizeof(c))
    for i in range(m.numel):
        if seen[at]:
            found = True
            break
        seen[at] = 1
        d = m.ndim - 1
        while d >= 0:
            c[d] += 1
            at += m.strides[d]
            if c[d] < m.sizes[d]:
                break
            at -= c[d] * m.strides[d]
            c[d] = 0
            d -= 1
    block_free(seen, n)
    return found


cdef bint has_internal_overlap(const Meta* m) noexcept:
    cdef int order[MAXDIM]
    cdef int64_t last = 0, stride
    cdef bint unsure = False
    cdef int i, n
    if m.flags & DENSE or m.numel < 2:
        return False
    n = by_stride(m, order)
    for i in range(n):
        stride = m.strides[order[i]]
        if stride == 0:
            return True
        unsure |= stride <= last      # a step of this dimension lands inside what the inner ones span
        last += (m.sizes[order[i]] - 1) * stride
    return unsure and meets_itself(m)


cdef bint may_share_memory(const Meta* a, const Meta* b) noexcept:
    return (a.numel > 0 and b.numel > 0 and a.data < b.data + reach(b) * ITEMSIZE[b.dtype]
            and b.data < a.data + reach(a) * ITEMSIZE[a.dtype])
