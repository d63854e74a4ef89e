# Advanced indexing: several index tensors at once, with NumPy's placing of their dimensions.

cdef struct Advanced:
    int first              # result dimension where the index dimensions go
    int ndim               # their number and sizes
    int64_t sizes[MAXDIM]
    # dimensions of x that are not indexed, in order; the first `first` come before the index dimensions
    int nkept
    int64_t kept[MAXDIM]
    int64_t strides[MAXDIM]        # of x, elements
    int count              # index tensors, and the dimension of x that each indexes
    int dims[MAXDIM]
    uint64_t narrow        # bit k: it came as int32


cdef Storage open_index(Meta* held, Meta* x, Meta* index, int d):
    """One index as int64: masks become positions. Returns what keeps a converted one alive."""
    cdef Storage s
    if index.dtype == INT64 or index.dtype == INT32:
        return take_index(held, index)
    if index.dtype != BOOL and index.dtype != UINT8:
        raise IndexError(f"tensors used as indices must be int64, int32, uint8 or bool, got {name_of(index.dtype)} for "
                         f"dimension {d}")
    if index.ndim != 1 or index.sizes[0] != x.sizes[d]:
        raise IndexError(f"a mask of shape {shape_text(index)} does not match dimension {d} of a tensor of shape "
                         f"{shape_text(x)}")
    s = op_nonzero(held, index)
    held.ndim = 1                              # (count, 1) row-major
    return s


cdef Storage open_mask(Meta* held, Meta* mask):
    """The positions under a mask of several dimensions, one index for each."""
    cdef Meta rows
    cdef Storage s
    cdef int d
    memset(&rows, 0, sizeof(Meta))
    s = op_nonzero(&rows, mask)
    for d in range(mask.ndim):
        view_select(&held[d], &rows, 1, d)
    meta_clear(&rows)
    return s


cdef int advanced_shape(Advanced* a, Meta* x, Meta** index, int n, Meta* held, list keep) except -1:
    """Open the indices, broadcast them, and place them among the dimensions that stay."""
    cdef Meta* opened[MAXDIM]
    cdef int d, count = 0, lowest = -1, highest = -1
    if n > x.ndim:
        raise IndexError(f"too many indices for a tensor of dimension {x.ndim}: got {n}")
    a.nkept = 0
    a.narrow = 0
    if x.ndim > 1 and is_whole_mask(x, index, n):
        keep.append(open_mask(held, index[0]))
        for d in range(x.ndim):
            opened[d], a.dims[d] = &held[d], d
        count, lowest, highest = x.ndim, 0, x.ndim - 1
    for d in range(x.ndim if count == 0 else 0):
        if d < n and index[d] != NULL:
            keep.append(open_index(&held[count], x, index[d], d))
            opened[count] = &held[count]
            a.dims[count] = d
            a.narrow |= <uint64_t> (index[d].dtype == INT32) << count
            count += 1
            lowest = d if lowest < 0 else lowest
            highest = d
        else:
            a.kept[a.nkept], a.strides[a.nkept] = x.sizes[d], x.strides[d]
            a.nkept += 1
    a.count = count
    a.first = lowest if count and highest - lowest + 1 == count else 0
    a.ndim = 0
    if count:
        try:
            a.ndim = broadcast_shapes(opened, count, a.sizes)
        except RuntimeError:
            shapes = ", ".join([shape_text(opened[d]) for d in range(count)])
            raise IndexError(f"shape mismatch: indexing tensors of shapes {shapes} do not broadcast together") from None
    return 0


cdef Meta* metas_new(int n) except NULL:
    cdef Meta* m = <Meta*> malloc((n + 1) * sizeof(Meta))
    if m == NULL:
        raise MemoryError()
    memset(m, 0, (n + 1) * sizeof(Meta))
    return m


cdef void metas_free(Meta* m, int n) noexcept:
    cdef int d
    for d in range(n):
        meta_clear(&m[d])
    free(m)


cdef int result_shape(const Advanced* a, int64_t* sizes) except -1:
    cdef int after = a.nkept - a.first
    if a.nkept + a.ndim > MAXDIM:
        raise RuntimeError(f"index: the result would have {a.nkept + a.ndim} dimensions, more than {MAXDIM}")
    memcpy(sizes, a.kept, a.first * sizeof(int64_t))
    memcpy(sizes + a.first, a.sizes, a.ndim * sizeof(int64_t))
    memcpy(sizes + a.first + a.ndim, a.kept + a.first, after * sizeof(int64_t))
    return a.first + a.ndim + after


cdef bint is_plain(const Meta* m) noexcept:
    """Row-major in dimensions of size 1 too, whose strides would shape the result, and not empty."""
    cdef int64_t stride = 1
    cdef int d
    for d in range(m.ndim - 1, -1, -1):
        if m.strides[d] != stride:
            return False
        stride *= m.sizes[d]
    return m.numel != 0


cdef int result_layout(Meta* y, const Advanced* a, Meta* x, Meta* held) except -1:
    """y, without memory, ordered as x along the dimensions that stay and as the indices along theirs."""
    cdef int64_t sizes[MAXDIM]
    cdef int64_t strides[MAXDIM]
    cdef Meta* operands[MAXDIM + 1]
    cdef Meta* shown
    cdef int ndim = result_shape(a, sizes), k, d, e
    cdef bint plain = is_plain(x)
    for k in range(a.count):
        plain = plain and is_plain(&held[k])
    if plain:
        return meta_contig(y, ndim, sizes, x.dtype)
    shown = metas_new(a.count + 1)
    try:
        for d in range(ndim):
            e = d if d < a.first else d - a.ndim
            strides[d] = 0 if a.first <= d < a.first + a.ndim else a.strides[e]
        meta_strided(&shown[0], ndim, sizes, strides, x.dtype, NULL)
        operands[0] = &shown[0]
        for k in range(a.count):
            show_index(&shown[k + 1], a, &held[k], ndim, a.narrow >> k & 1)
            operands[k + 1] = &shown[k + 1]
        return meta_joint(y, operands, a.count + 1, ndim, sizes, x.dtype)
    finally:
        metas_free(shown, a.count + 1)


cdef int show_index(Meta* shown, const Advanced* a, Meta* index, int ndim, bint narrow) except -1:
    """An index among the dimensions of the result, of size 1 in those that are not its own.

    narrow: PyTorch converts it to int64 once it is broadcast, which makes it dense.
    """
    cdef Meta wide, dense
    cdef int64_t sizes[MAXDIM]
    cdef int d
    for d in range(ndim):
        sizes[d] = a.sizes[d - a.first] if a.first <= d < a.first + a.ndim else 1
    memset(&wide, 0, sizeof(Meta))
    memset(&dense, 0, sizeof(Meta))
    view_expand(&wide, index, a.ndim, a.sizes)
    try:
        if not narrow:
            return view_view(shown, &wide, ndim, sizes)
        meta_dense_like(&dense, &wide, INT64)
        return view_view(shown, &dense, ndim, sizes)
    finally:
        meta_clear(&wide)
        meta_clear(&dense)


cdef int pick_advanced(Pick* p, const Advanced* a, Meta* v, Meta* x, Meta* held) except -1:
    """The plan; IndexError for an index out of range, and then nothing is left to free."""
    cdef int64_t size = ITEMSIZE[x.dtype], bad
    cdef int k, d, behind = a.first + a.ndim
    pick_start(p, x, v, a.count)
    for k in range(a.count):
        walk_over(&p.places[k].walk, &held[k], NULL, a.ndim, a.sizes)
        p.places[k].size, p.places[k].step = x.sizes[a.dims[k]], x.strides[a.dims[k]] * size
        bad = -1 if p.places[k].walk.numel == 0 else first_outside(&p.places[k], -p.places[k].size, p.places[k].size)
        if bad >= 0:
            value = index_value(&p.places[k], bad)
            pick_end(p)
            raise IndexError(f"index {value} is out of bounds for dimension {a.dims[k]} with size "
                             f"{x.sizes[a.dims[k]]}")
    for d in range(v.ndim - 1, -1, -1):
        if d >= behind:
            walk_dim(&p.after, v.sizes[d], v.strides[d] * size, a.strides[d - a.ndim] * size, 0)
        elif d >= a.first:
            walk_dim(&p.values, v.sizes[d], v.strides[d] * size, 0, 0)
        else:
            walk_dim(&p.before, v.sizes[d], v.strides[d] * size, a.strides[d] * size, 0)
    pick_ready(p)
    return 0


cdef Storage op_index(Meta* y, Meta* x, Meta** index, int n):
    cdef Advanced a
    cdef Pick p
    cdef Storage s
    cdef list keep = []
    cdef Meta* held
    if is_whole_mask(x, index, n):
        return op_masked_select(y, x, index[0])
    held = metas_new(max(n, <int> x.ndim))
    p.places = NULL
    try:
        advanced_shape(&a, x, index, n, held, keep)
        result_layout(y, &a, x, held)
        pick_advanced(&p, &a, y, x, held)
        s = meta_storage(y)
        p.v = y.data
        pick_run(&p, mover(ITEMSIZE[x.dtype]), True)
    except BaseException:
        meta_clear(y)
        raise
    finally:
        pick_end(&p)
        metas_free(held, max(n, <int> x.ndim))
    return s


cdef bint is_whole_mask(const Meta* x, Meta** index, int n) noexcept:
    """Whether the only index is a mask of x's shape."""
    return n == 1 and index[0] != NULL and index[0].dtype == BOOL and x.ndim > 0 and meta_same_shape(x, index[0])


cdef int open_value(Meta* shown, Meta* value, const Advanced* a) except -1:
    """The value in the shape of x[index]."""
    cdef int64_t sizes[MAXDIM]
    cdef int ndim = result_shape(a, sizes), d, lead = ndim - value.ndim
    cdef bint fits = True
    for d in range(value.ndim):
        fits = fits and (value.sizes[d] == 1 or (d + lead >= 0 and value.sizes[d] == sizes[d + lead]))
    if not fits or lead < 0:
        raise RuntimeError(f"shape mismatch: a value of shape {shape_text(value)} does not broadcast to the indexing "
                           f"result of shape {[sizes[d] for d in range(ndim)]}")
    return view_expand(shown, value, ndim, sizes)


cdef int index_put_into(Meta* x, Meta** index, int n, Meta* value, bint accumulate) except -1:
    cdef Meta other
    cdef Storage keep
    if value.dtype != x.dtype:
        raise RuntimeError(f"index_put: the tensor has dtype {name_of(x.dtype)}, the value {name_of(value.dtype)}: the "
                           "same dtype is wanted")
    check_writable("index_put", x)
    if accumulate and is_half(x.dtype):
        return put_in_float(x, index, n, value)
    memset(&other, 0, sizeof(Meta))
    keep = aside(&other, x, value)
    try:
        if not accumulate and is_whole_mask(x, index, n) and value.numel == 1:
            masked_fill_into(x, index[0], &other)
        elif not accumulate and is_whole_mask(x, index, n) and value.ndim == 1:
            unpack_into(x, index[0], &other, True)
        else:
            put_places(x, index, n, &other, updater("index_put", PLUS if accumulate else WRITE, x.dtype))
    finally:
        meta_clear(&other)
    return 0


cdef int put_places(Meta* x, Meta** index, int n, Meta* value, Update f) except -1:
    cdef Advanced a
    cdef Pick p
    cdef Meta shown
    cdef list keep = []
    cdef Meta* held
    cdef int k
    held = metas_new(max(n, <int> x.ndim))
    memset(&shown, 0, sizeof(Meta))
    p.places = NULL
    try:
        advanced_shape(&a, x, index, n, held, keep)
        open_value(&shown, value, &a)
        for k in range(a.count):
            if may_share_memory(x, &held[k]):
                keep.append(part_aside(&held[k]))
        pick_advanced(&p, &a, &shown, x, held)
        pick_run(&p, f, False)
    finally:
        pick_end(&p)
        metas_free(held, max(n, <int> x.ndim))
        meta_clear(&shown)
    return 0


cdef Storage part_aside(Meta* m):
    """m becomes a copy of itself."""
    cdef Meta copy
    cdef Storage s
    memset(&copy, 0, sizeof(Meta))
    s = op_clone(&copy, m, m.dtype, False)
    meta_clear(m)
    meta_like(m, &copy)
    meta_clear(&copy)
    return s


cdef int put_in_float(Meta* x, Meta** index, int n, Meta* value) except -1:
    """Accumulation on a float32 copy, rounded once at the end."""
    cdef Meta wide, values
    cdef Storage keep, keep_values
    memset(&wide, 0, sizeof(Meta))
    memset(&values, 0, sizeof(Meta))
    try:
        keep = op_clone(&wide, x, FLOAT32, False)
        keep_values = op_clone(&values, value, FLOAT32, False)
        index_put_into(&wide, index, n, &values, True)
        copy_into(x, &wide)
    finally:
        meta_clear(&wide)
        meta_clear(&values)
    return 0
