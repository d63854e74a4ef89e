# Advanced indexing: several index tensors at once, with NumPy's placing of their dimensions.

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
