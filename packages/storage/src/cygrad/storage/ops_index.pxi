# Reading and writing whole slices along one dimension through an index vector: index_select, index_add, index_copy,
# index_fill, index_reduce; and what all joins through an index share.
# Invariant: every index is checked before the first element is written.

# x joined with v where the index says; all is checked.
ctypedef int (*Run)(Meta* x, int64_t dim, Meta* index, Meta* v, Update f) except -1


cdef bint is_half(int code) noexcept nogil:
    """Types whose sums are made in float32."""
    return code == FLOAT16 or code == BFLOAT16


cdef int put_neutral(Meta* cell, void* memory, int mode, int code) except -1:
    """One element that changes nothing when joined."""
    scalar_meta(cell, memory, code)
    if mode == PLUS or mode == MEAN:
        return fill_double(cell, 0)
    if mode == TIMES:
        return fill_double(cell, 1)
    if is_float(code):
        return fill_double(cell, INFINITY if mode == LEAST else -INFINITY)
    if code == BOOL:
        return fill_double(cell, 1 if mode == LEAST else 0)
    top = largest_integer(code)
    return fill_number(cell, top if mode == LEAST else smallest_integer(code))


cdef int join_into(Run run, str op, Meta* x, int64_t dim, Meta* index, Meta* v, int mode, bint include_self,
                   bint by_element) except -1:
    """x joined with v; without include_self, what x held there does not count.

    by_element: every element has an index of its own, so also a count for a mean; else every slice along dim.
    """
    cdef Meta held, ready, other
    cdef Storage keep, keep_ready, keep_other
    cdef Update f
    check_writable(op, x)
    if mode != WRITE and is_half(x.dtype):
        return join_in_float(run, op, x, dim, index, v, mode, include_self, by_element)
    f = updater(op, mode, x.dtype)
    memset(&held, 0, sizeof(Meta))
    memset(&ready, 0, sizeof(Meta))
    memset(&other, 0, sizeof(Meta))
    keep = take_index(&held, index)
    try:
        keep_ready = aside(&ready, x, &held)
        keep_other = aside(&other, x, v)
        if mode != WRITE and not include_self:
            clear_places(run, x, dim, &ready, mode)
        run(x, dim, &ready, &other, f)
        if mode == MEAN:
            take_mean(run, x, dim, &ready, include_self, by_element)
    finally:
        meta_clear(&held)
        meta_clear(&ready)
        meta_clear(&other)
    return 0


cdef int join_in_float(Run run, str op, Meta* x, int64_t dim, Meta* index, Meta* v, int mode, bint include_self,
                       bint by_element) except -1:
    """The same on a float32 copy, rounded once at the end."""
    cdef Meta wide, values
    cdef Storage keep, keep_values
    memset(&wide, 0, sizeof(Meta))
    memset(&values, 0, sizeof(Meta))
    try:
        keep = op_clone(&wide, x, FLOAT32, False)
        keep_values = op_clone(&values, v, FLOAT32, False)
        join_into(run, op, &wide, dim, index, &values, mode, include_self, by_element)
        copy_into(x, &wide)
    finally:
        meta_clear(&wide)
        meta_clear(&values)
    return 0


cdef int clear_places(Run run, Meta* x, int64_t dim, Meta* index, int mode) except -1:
    cdef int64_t cell[2]
    cdef Meta neutral
    put_neutral(&neutral, cell, mode, x.dtype)
    return run(x, dim, index, &neutral, mover(ITEMSIZE[x.dtype]))


cdef int take_mean(Run run, Meta* x, int64_t dim, Meta* index, bint include_self, bint by_element) except -1:
    """Sums divided by how many were added up."""
    cdef Meta count, unit
    cdef Storage keep
    cdef int64_t sizes[MAXDIM]
    cdef int64_t one = 1
    cdef int d
    scalar_meta(&unit, &one, INT64)
    for d in range(x.ndim):
        sizes[d] = x.sizes[d] if by_element or d == dim else 1
    memset(&count, 0, sizeof(Meta))
    try:
        keep = op_full(&count, x.ndim, sizes, 1 if include_self else 0, INT64)
        run(&count, dim, index, &unit, updater("mean", PLUS, INT64))
        divide_by_count(x, &count)
    finally:
        meta_clear(&count)
    return 0


# ---- slices

cdef int pick_along(Pick* p, Meta* v, Meta* x, int64_t dim, Meta* index) except -1:
    """Slices of x along dim against consecutive slices of v (or, for a v without dimensions, against that)."""
    cdef int d
    pick_start(p, x, v, 1)
    walk_over(&p.places[0].walk, index, NULL, index.ndim, index.sizes)
    p.places[0].size, p.places[0].step = size_at(x, dim), bytes_at(x, dim)
    walk_dim(&p.values, index.numel, bytes_at(v, dim), 0, 0)
    for d in range(x.ndim - 1, -1, -1):
        if d > dim:
            walk_dim(&p.after, x.sizes[d], bytes_at(v, d), bytes_at(x, d), 0)
        elif d < dim:
            walk_dim(&p.before, x.sizes[d], bytes_at(v, d), bytes_at(x, d), 0)
    pick_ready(p)
    return 0


cdef int join_slices(Meta* x, int64_t dim, Meta* index, Meta* v, Update f) except -1:
    cdef Pick pick
    pick_along(&pick, v, x, dim, index)
    pick_run(&pick, f, False)
    pick_end(&pick)
    return 0


cdef Storage op_index_select(Meta* y, Meta* x, int64_t dim, Meta* index):
    cdef Meta held
    cdef Pick pick
    cdef Storage keep, s
    cdef int64_t sizes[MAXDIM]
    if x.ndim == 0 and index.numel != 1:
        raise RuntimeError(f"index_select(): a 0-dimensional tensor takes exactly one index, got {index.numel}")
    check_slices("index_select", x, dim, index, True, False)
    memcpy(sizes, x.sizes, x.ndim * sizeof(int64_t))
    if x.ndim:
        sizes[dim] = index.numel
    s = allocate_contig(y, x.ndim, sizes, x.dtype)
    memset(&held, 0, sizeof(Meta))
    try:
        keep = take_index(&held, index)
        pick_along(&pick, y, x, dim, &held)
        pick_run(&pick, mover(ITEMSIZE[x.dtype]), True)
        pick_end(&pick)
    except BaseException:
        meta_clear(y)
        raise
    finally:
        meta_clear(&held)
    return s
