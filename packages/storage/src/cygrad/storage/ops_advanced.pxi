# Advanced indexing: several index tensors at once, with NumPy's layout of the result; masks.

cdef struct Advanced:
    int first              # result dimension where the index dimensions go
    int ndim               # their number and sizes
    int64_t sizes[MAXDIM]
    # dimensions of x that are not indexed, in order; the first `first` come before the index dimensions
    int nkept
    int64_t kept[MAXDIM]
    int64_t strides[MAXDIM]        # of x, elements


cdef Storage open_index(Meta* held, Meta* x, Meta* index, int d):
    """One index as int64: masks become positions. Returns what keeps a converted one alive."""
    cdef Storage s
    if index.dtype == INT64:
        meta_like(held, index)
        return None
    if index.dtype == INT32:
        return op_clone(held, index, INT64, False)
    if index.dtype != BOOL and index.dtype != UINT8:
        raise IndexError(f"tensors used as indices must be int64, int32, uint8 or bool, got {name_of(index.dtype)} for "
                         f"dimension {d}")
    if index.ndim != 1 or index.sizes[0] != x.sizes[d]:
        raise IndexError(f"a mask of shape {shape_text(index)} does not match dimension {d} of a tensor of shape "
                         f"{shape_text(x)}")
    s = op_nonzero(held, index)
    held.ndim = 1                              # (count, 1) row-major
    return s


cdef void index_strides(int64_t* strides, const Meta* index, int ndim) noexcept nogil:
    """Element strides of an index broadcast to `ndim` dimensions."""
    cdef int d, e
    for d in range(ndim):
        e = d - ndim + index.ndim
        strides[d] = 0 if e < 0 or index.sizes[e] == 1 else index.strides[e]


cdef bint add_offsets(int64_t* offsets, int64_t n, const Advanced* a, const Meta* index, int64_t size, int64_t step,
                      int64_t* bad) noexcept nogil:
    """offsets[i] += index i, wrapped, times step.

    False, and the index in `bad`, at the first one outside [-size, size).
    """
    cdef int64_t strides[MAXDIM]
    cdef int64_t at[MAXDIM]
    cdef const int64_t* p = <const int64_t*> index.data
    cdef int64_t i, v
    cdef int d
    index_strides(strides, index, a.ndim)
    memset(at, 0, sizeof(at))
    for i in range(n):
        v = p[0]
        if v < -size or v >= size:
            bad[0] = v
            return False
        offsets[i] += (v + size if v < 0 else v) * step
        d = a.ndim - 1
        while d >= 0:
            p += strides[d]
            at[d] += 1
            if at[d] < a.sizes[d]:
                break
            p -= at[d] * strides[d]
            at[d] = 0
            d -= 1
    return True


cdef int advanced_shape(Advanced* a, Meta* x, Meta** index, int n, Meta* held, list keep) except -1:
    """Open the indices, broadcast them, and place them among the dimensions that stay."""
    cdef Meta* opened[MAXDIM]
    cdef int d, count = 0, lowest = -1, highest = -1
    if n > x.ndim:
        raise IndexError(f"too many indices for a tensor of dimension {x.ndim}: got {n}")
    a.nkept = 0
    for d in range(x.ndim):
        if d < n and index[d] != NULL:
            keep.append(open_index(&held[count], x, index[d], d))
            opened[count] = &held[count]
            count += 1
            lowest = d if lowest < 0 else lowest
            highest = d
        else:
            a.kept[a.nkept], a.strides[a.nkept] = x.sizes[d], x.strides[d]
            a.nkept += 1
    a.first = lowest if count and highest - lowest + 1 == count else 0
    a.ndim = 0
    if count:
        try:
            a.ndim = broadcast_shapes(opened, count, a.sizes)
        except RuntimeError:
            shapes = ", ".join([shape_text(opened[d]) for d in range(count)])
            raise IndexError(f"shape mismatch: indexing tensors of shapes {shapes} do not broadcast together") from None
    return count


cdef int64_t* advanced_offsets(const Advanced* a, Meta* x, Meta** index, int n, Meta* held, int64_t* total) except NULL:
    """Byte offset into x of every index position; IndexError before anything is read or written."""
    cdef int64_t count = 1, size, bad = 0
    cdef int64_t* offsets
    cdef int d, k = 0
    for d in range(a.ndim):
        count *= a.sizes[d]
    offsets = <int64_t*> malloc(count * sizeof(int64_t) + 1)
    if offsets == NULL:
        raise MemoryError(f"no memory for {count} offsets of an index")
    memset(offsets, 0, count * sizeof(int64_t))
    for d in range(n):
        if index[d] == NULL:
            continue
        size = x.sizes[d]
        if not add_offsets(offsets, count, a, &held[k], size, x.strides[d] * ITEMSIZE[x.dtype], &bad):
            free(offsets)
            raise IndexError(f"index {bad} is out of bounds for dimension {d} with size {size}")
        k += 1
    total[0] = count
    return offsets


cdef int result_shape(const Advanced* a, int64_t* sizes) except -1:
    cdef int after = a.nkept - a.first
    if a.nkept + a.ndim > MAXDIM:
        raise RuntimeError(f"index: the result would have {a.nkept + a.ndim} dimensions, more than {MAXDIM}")
    memcpy(sizes, a.kept, a.first * sizeof(int64_t))
    memcpy(sizes + a.first, a.sizes, a.ndim * sizeof(int64_t))
    memcpy(sizes + a.first + a.ndim, a.kept + a.first, after * sizeof(int64_t))
    return a.first + a.ndim + after


cdef bint index_step(const Advanced* a, const Meta* v, int64_t* step) noexcept:
    """Whether the index dimensions of v have one common step in elements."""
    cdef int64_t run = 0
    cdef bint found = False
    cdef int d
    step[0] = 0
    for d in range(a.first + a.ndim - 1, a.first - 1, -1):
        if v.sizes[d] == 1:
            continue
        if not found:
            found = True
            step[0] = v.strides[d]
        elif v.strides[d] != run:
            return False
        run = v.strides[d] * v.sizes[d]
    return True


cdef void pick_advanced(Pick* p, const Advanced* a, Meta* v, Meta* x, int64_t step) noexcept:
    cdef int64_t size = ITEMSIZE[x.dtype]
    cdef int behind = a.first + a.ndim
    p.x, p.v, p.dtype = x.data, v.data, x.dtype
    p.step = step * size
    pick_dims(&p.before, a.first, a.kept, v.strides, a.strides, size)
    pick_dims(&p.after, a.nkept - a.first, a.kept + a.first, v.strides + behind, a.strides + a.first, size)


cdef Meta* metas_new(int n) except NULL:
    cdef Meta* m = <Meta*> malloc(n * sizeof(Meta) + 1)
    if m == NULL:
        raise MemoryError(f"no memory for {n} index descriptions")
    memset(m, 0, n * sizeof(Meta))
    return m


cdef void metas_free(Meta* m, int n) noexcept:
    cdef int k
    for k in range(n):
        meta_clear(&m[k])
    free(m)


cdef Storage op_index(Meta* y, Meta* x, Meta** index, int n):
    cdef Advanced a
    cdef Pick p
    cdef Storage s
    cdef int64_t sizes[MAXDIM]
    cdef int64_t step
    cdef int ndim
    cdef list keep = []
    cdef Meta* held = metas_new(n)
    try:
        advanced_shape(&a, x, index, n, held, keep)
        p.offsets = advanced_offsets(&a, x, index, n, held, &p.n)
    finally:
        metas_free(held, n)
    try:
        ndim = result_shape(&a, sizes)
        s = allocate_contig(y, ndim, sizes, x.dtype)
    except BaseException:
        free(p.offsets)
        raise
    index_step(&a, y, &step)                   # y is row-major
    pick_advanced(&p, &a, y, x, step)
    pick_run(&p, False, False)
    return s


cdef Storage open_value(Meta* shown, Meta* x, Meta* value, const Advanced* a, int64_t* step):
    """The value in the shape of x[index], with one step between index positions.

    It is a copy where the value's strides or memory need one; then the Storage returned keeps it alive.
    """
    cdef Meta expanded
    cdef Storage s
    cdef int64_t sizes[MAXDIM]
    cdef int ndim = result_shape(a, sizes), d, lead = ndim - value.ndim
    cdef bint fits = True
    for d in range(value.ndim):
        fits = fits and (value.sizes[d] == 1 or (d + lead >= 0 and value.sizes[d] == sizes[d + lead]))
    if not fits or lead < 0:
        raise RuntimeError(f"shape mismatch: a value of shape {shape_text(value)} does not broadcast to the indexing "
                           f"result of shape {[sizes[d] for d in range(ndim)]}")
    memset(&expanded, 0, sizeof(Meta))
    view_expand(&expanded, value, ndim, sizes)
    if not may_share_memory(x, value) and index_step(a, &expanded, step):
        meta_like(shown, &expanded)
        meta_clear(&expanded)
        return None
    try:
        s = op_clone(shown, &expanded, value.dtype, True)
    finally:
        meta_clear(&expanded)
    index_step(a, shown, step)
    return s


cdef int index_put_into(Meta* x, Meta** index, int n, Meta* value, bint accumulate) except -1:
    cdef Advanced a
    cdef Pick p
    cdef Meta shown
    cdef Storage s
    cdef int64_t step
    cdef list keep = []
    cdef Meta* held
    if value.dtype != x.dtype:
        raise RuntimeError(f"index_put: the tensor has dtype {name_of(x.dtype)}, the value {name_of(value.dtype)}: the "
                           "same dtype is wanted")
    check_writable("index_put", x)
    held = metas_new(n)
    memset(&shown, 0, sizeof(Meta))
    p.offsets = NULL
    try:
        advanced_shape(&a, x, index, n, held, keep)
        s = open_value(&shown, x, value, &a, &step)
        p.offsets = advanced_offsets(&a, x, index, n, held, &p.n)
        pick_advanced(&p, &a, &shown, x, step)
        pick_run(&p, True, accumulate)
    finally:
        metas_free(held, n)
        meta_clear(&shown)
    return 0


# ---- masks

cdef int64_t count_true(const uint8_t* x, int64_t n) noexcept nogil:
    cdef int64_t i, total = 0
    for i in range(n):
        total += x[i] != 0       # borrowed memory may hold other bytes than 0 and 1: all but 0 are true
    return total


cdef void true_positions(const uint8_t* x, int64_t n, int ndim, const int64_t* sizes, int64_t* out) noexcept nogil:
    cdef int64_t i, rest
    cdef int d
    for i in range(n):
        if x[i]:
            rest = i
            for d in range(ndim - 1, -1, -1):
                out[d] = rest % sizes[d]
                rest = rest // sizes[d]
            out += ndim


cdef Storage op_nonzero(Meta* y, Meta* x):
    cdef Meta flags
    cdef Storage keep, s
    cdef int64_t sizes[2]
    memset(&flags, 0, sizeof(Meta))
    keep = op_clone(&flags, x, BOOL, True)
    try:
        with nogil:
            sizes[0] = count_true(<const uint8_t*> flags.data, flags.numel)
        sizes[1] = x.ndim
        s = allocate_contig(y, 2, sizes, INT64)
        with nogil:
            true_positions(<const uint8_t*> flags.data, flags.numel, x.ndim, x.sizes, <int64_t*> y.data)
    finally:
        meta_clear(&flags)
    return s


cdef void compress(word* y, const char* values, const uint8_t* mask, int64_t n) noexcept nogil:
    cdef const word* x = <const word*> values
    cdef int64_t i
    for i in range(n):
        if mask[i]:
            y[0] = x[i]
            y += 1


cdef Storage op_masked_select(Meta* y, Meta* x, Meta* mask):
    cdef Meta* operands[2]
    cdef Meta shown, flags, values
    cdef Storage keep_flags, keep_values, s
    cdef int64_t sizes[MAXDIM]
    cdef int64_t count
    cdef int ndim, size = ITEMSIZE[x.dtype]
    if mask.dtype != BOOL:
        raise RuntimeError(f"masked_select: a mask of bool is wanted, got {name_of(mask.dtype)}")
    operands[0], operands[1] = x, mask
    ndim = broadcast_shapes(operands, 2, sizes)
    memset(&shown, 0, sizeof(Meta))
    memset(&flags, 0, sizeof(Meta))
    memset(&values, 0, sizeof(Meta))
    try:
        view_expand(&shown, mask, ndim, sizes)
        keep_flags = op_clone(&flags, &shown, BOOL, True)
        meta_clear(&shown)
        view_expand(&shown, x, ndim, sizes)
        if shown.flags & CONTIGUOUS:
            meta_like(&values, &shown)
        else:
            keep_values = op_clone(&values, &shown, x.dtype, True)
        count = count_true(<const uint8_t*> flags.data, flags.numel)
        s = allocate_contig(y, 1, &count, x.dtype)
        with nogil:
            if size == 4:
                compress[uint32_t](<uint32_t*> y.data, values.data, <const uint8_t*> flags.data, flags.numel)
            elif size == 8:
                compress[uint64_t](<uint64_t*> y.data, values.data, <const uint8_t*> flags.data, flags.numel)
            elif size == 1:
                compress[uint8_t](<uint8_t*> y.data, values.data, <const uint8_t*> flags.data, flags.numel)
            elif size == 2:
                compress[uint16_t](<uint16_t*> y.data, values.data, <const uint8_t*> flags.data, flags.numel)
            else:
                compress[sixteen](<sixteen*> y.data, values.data, <const uint8_t*> flags.data, flags.numel)
    finally:
        meta_clear(&shown)
        meta_clear(&flags)
        meta_clear(&values)
    return s
