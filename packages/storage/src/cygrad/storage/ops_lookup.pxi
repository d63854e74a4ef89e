# Reading and writing single elements: gather and scatter, whose index has as many dimensions as the tensor; take and
# put, whose index counts the elements.
# Invariant: every index is checked before the first element is written; gather, whose result is new, checks on the way.

cdef struct Lookup:
    Meta* x                # the tensor indexed, along dim
    Meta* v                # values in the index's shape (or larger; or one for all, without dimensions)
    Meta* index
    int dim
    int split              # the dimension that is cut for threads
    Update f               # writes v into x
    Scatter write          # the same by indices, or NULL
    Gather read            # in place of both, not NULL: reads x into v


cdef void lookup_walk(Walk* w, const Lookup* l, int64_t first, int64_t end) noexcept nogil:
    """A walk over index, values and tensor, of which only [first, end) along the split dimension."""
    cdef int d
    walk_start(w)
    for d in range(l.index.ndim - 1, -1, -1):
        walk_dim(w, end - first if d == l.split else l.index.sizes[d], bytes_at(l.index, d), bytes_at(l.v, d),
                 bytes_at(l.x, d) if d != l.dim else 0)
    walk_end(w)
    w.p[0], w.p[1], w.p[2] = l.index.data, l.v.data, l.x.data
    if l.index.ndim:
        w.p[0] += first * bytes_at(l.index, l.split)
        w.p[1] += first * bytes_at(l.v, l.split)
        w.p[2] += first * bytes_at(l.x, l.split) if l.split != l.dim else 0


cdef bint lookup_part(const Lookup* l, int64_t first, int64_t end) noexcept nogil:
    """Whether an index was outside, of those that are read."""
    cdef Walk w
    cdef int64_t xo[BLOCK]
    cdef int64_t c[MAXDIM]
    cdef char* q[WALKERS]
    cdef int64_t at = 0, run, i, k, size = size_at(l.x, l.dim), step = bytes_at(l.x, l.dim)
    cdef bint bad = False
    if first >= end:
        return False
    lookup_walk(&w, l, first, end)
    walk_seek(&w, 0, c, q)
    while at < w.numel:
        run = w.sizes[0] - c[0]
        if l.read != NULL:
            bad |= l.read(q[1], w.st[0][1], q[2], w.st[0][2], q[0], w.st[0][0], run, size, step)
        elif l.write != NULL:
            l.write(q[2], w.st[0][2], q[1], w.st[0][1], q[0], w.st[0][0], run, size, step)
        else:
            run = min(run, BLOCK)
            for i in range(run):
                k = (<int64_t*> (q[0] + i * w.st[0][0]))[0]
                xo[i] = i * w.st[0][2] + (k * step if 0 <= k < size else 0)
            l.f(q[2], xo, 0, q[1], NULL, w.st[0][1], run)
        walk_on(&w, run, c, q)
        at += run
    return bad


cdef bint lookup_split(const Lookup* l, int64_t n, int64_t parts) noexcept nogil:
    cdef int64_t i
    cdef int bad = 0
    if parts == 1:
        return lookup_part(l, 0, n)
    for i in prange(parts, num_threads=<int> parts, schedule="static"):
        bad += lookup_part(l, n * i // parts, n * (i + 1) // parts)
    return bad != 0


cdef bint lookup(Meta* x, int64_t dim, Meta* index, Meta* v, Update f, Gather read) noexcept:
    """Whether an index was outside, of those that are read.

    Writing is never cut along dim: indices may repeat there, and the last of equal ones wins.
    """
    cdef Lookup l
    cdef int64_t n = 1, parts
    cdef int d
    l.x, l.v, l.index, l.dim, l.split, l.f, l.read = x, v, index, <int> dim, <int> dim, f, read
    l.write = scatterer(f, x.dtype) if read == NULL else NULL
    if index.numel == 0:
        return False
    if index.ndim:
        n = index.sizes[dim] if read != NULL else 1
        for d in range(index.ndim):
            if d != dim and index.sizes[d] > n:
                l.split, n = d, index.sizes[d]
        if l.split == dim:
            n = index.sizes[dim]
    parts = num_threads() if index.numel >= GRAIN and (read != NULL or l.split != dim) else 1
    if index.numel < NOGIL:
        return lookup_split(&l, n, parts)
    with nogil:
        return lookup_split(&l, n, parts)


cdef int join_elements(Meta* x, int64_t dim, Meta* index, Meta* v, Update f) except -1:
    lookup(x, dim, index, v, f, NULL)
    return 0


cdef Storage op_gather(Meta* y, Meta* x, int64_t dim, Meta* index):
    cdef Meta held
    cdef Storage keep, s
    check_lookup("gather", x, dim, index, NULL)
    memset(&held, 0, sizeof(Meta))
    keep = take_index(&held, index)
    try:
        if index.numel and not size_at(x, dim):
            check_lookup_values("gather", x, dim, &held)
        s = allocate_contig(y, index.ndim, index.sizes, x.dtype)
        if lookup(x, dim, &held, y, NULL, gatherer(ITEMSIZE[x.dtype])):
            meta_clear(y)
            check_lookup_values("gather", x, dim, &held)
            raise RuntimeError("gather(): an index was out of bounds, and another thread has changed it since")
    finally:
        meta_clear(&held)
    return s


# ---- counted through all elements

cdef int pick_flat(Pick* p, Meta* v, Meta* x, Meta* index) except -1:
    cdef int d
    pick_start(p, x, v, 1)
    p.flat = x
    walk_over(&p.places[0].walk, index, NULL, index.ndim, index.sizes)
    p.places[0].size, p.places[0].step = x.numel, 1
    for d in range(v.ndim - 1, -1, -1):
        walk_dim(&p.values, v.sizes[d], bytes_at(v, d), 0, 0)
    pick_ready(p)
    p.n = index.numel
    return 0


cdef int join_flat(Meta* x, int64_t dim, Meta* index, Meta* v, Update f) except -1:
    cdef Pick pick
    pick_flat(&pick, v, x, index)
    pick_run(&pick, f, False)
    pick_end(&pick)
    return 0


cdef Storage op_take(Meta* y, Meta* x, Meta* index):
    cdef Pick pick
    cdef Storage s
    check_flat("take", x, index)
    s = allocate_contig(y, index.ndim, index.sizes, x.dtype)
    pick_flat(&pick, y, x, index)
    pick_run(&pick, mover(ITEMSIZE[x.dtype]), True)
    pick_end(&pick)
    return s
