# The engine below everything that index tensors name: places of x, each a sub-tensor of it, against consecutive ones of
# values v. Places are computed in blocks on the stack, so nothing is allocated.
# Invariant: indices are checked before the first element is written, and once more when they are used (another thread
# may have changed them since): no place ever lies outside x.

cdef enum:
    CHECKED = 16384        # indices that are checked in one run, from the last run to the first

cdef struct Place:         # one index tensor
    Walk walk              # operand 0: its elements, int64, in the broadcast shape of all
    int64_t size           # of the dimension that it indexes
    int64_t step           # byte stride of x there; 1 for a flat index

cdef struct Pick:
    char* x
    char* v
    int64_t n              # index positions
    int count              # index tensors
    Place* places          # owned
    Meta* flat             # not NULL: the only index counts x's elements in row-major order
    Walk values            # index dimensions of v (operand 0)
    Walk before            # dimensions left of the index positions; operands v, x
    Walk after             # dimensions right of them


cdef int pick_start(Pick* p, Meta* x, Meta* v, int count) except -1:
    p.x, p.v, p.count, p.flat = x.data, v.data, count, NULL
    p.places = <Place*> malloc(count * sizeof(Place) + 1)
    if p.places == NULL:
        raise MemoryError(f"no memory for {count} index tensors")
    walk_start(&p.values)
    walk_start(&p.before)
    walk_start(&p.after)
    return 0


cdef void pick_ready(Pick* p) noexcept:
    walk_end(&p.values)
    walk_end(&p.before)
    walk_end(&p.after)
    p.values.p[0] = NULL
    p.n = p.values.numel


cdef void pick_end(Pick* p) noexcept:
    free(p.places)
    p.places = NULL


cdef int64_t first_outside_in(const Place* p, int64_t low, int64_t high, int64_t at, int64_t end) noexcept nogil:
    """Position of the first of the indices [at, end) outside [low, high), or -1."""
    cdef int64_t c[MAXDIM]
    cdef char* q[WALKERS]
    cdef int64_t run, i, v, step = p.walk.st[0][0]
    cdef uint64_t wide = <uint64_t> high - <uint64_t> low
    cdef bint bad
    if at >= end:
        return -1
    walk_seek(&p.walk, at, c, q)
    while at < end:
        run = min(min(p.walk.sizes[0] - c[0], end - at), 4096)
        bad = False
        if step == sizeof(int64_t):
            for i in range(run):
                bad |= (<uint64_t*> q[0])[i] - <uint64_t> low >= wide
        else:
            for i in range(run):
                bad |= (<uint64_t*> (q[0] + i * step))[0] - <uint64_t> low >= wide
        if bad:
            for i in range(run):
                v = (<int64_t*> (q[0] + i * step))[0]
                if v < low or v >= high:
                    return at + i
        walk_on(&p.walk, run, c, q)
        at += run
    return -1


cdef int64_t first_outside_from_end(const Place* p, int64_t low, int64_t high, int64_t at, int64_t end) noexcept nogil:
    """The same, read block by block from the end: those in front are still in the cache when they are used next."""
    cdef int64_t found = -1, start, k
    while at < end:
        start = max(at, end - CHECKED)
        k = first_outside_in(p, low, high, start, end)
        found = k if k >= 0 else found
        end = start
    return found


cdef int64_t first_outside(const Place* p, int64_t low, int64_t high) noexcept:
    """Position of the first index outside [low, high), or -1."""
    cdef int64_t parts = num_threads() if p.walk.numel >= GRAIN else 1, n = p.walk.numel, i, k
    cdef int64_t found = n
    if n < NOGIL:
        return first_outside_in(p, low, high, 0, n)
    with nogil:
        if parts == 1:
            return first_outside_from_end(p, low, high, 0, n)
        for i in prange(parts, num_threads=<int> parts, schedule="static"):
            k = first_outside_from_end(p, low, high, n * i // parts, n * (i + 1) // parts)
            if k >= 0:
                lower(&found, k)
    return found if found < n else -1


cdef int64_t index_value(const Place* p, int64_t at) noexcept nogil:
    cdef int64_t c[MAXDIM]
    cdef char* q[WALKERS]
    walk_seek(&p.walk, at, c, q)
    return (<int64_t*> q[0])[0]


cdef int64_t position_outside(Meta* index, int64_t low, int64_t high) except -2:
    """Position of the first number of an index outside [low, high), or -1."""
    cdef Place place
    if index.numel == 0:
        return -1
    walk_over(&place.walk, index, NULL, index.ndim, index.sizes)
    return first_outside(&place, low, high)


cdef int64_t index_number(Meta* index, int64_t position) except? -1:
    """The number that `position_outside` found."""
    cdef Place place
    walk_over(&place.walk, index, NULL, index.ndim, index.sizes)
    return index_value(&place, position)


cdef void add_places(const Place* p, int64_t first, int64_t n, int64_t* out) noexcept nogil:
    """out[i] += the place that index first + i names."""
    cdef int64_t c[MAXDIM]
    cdef char* q[WALKERS]
    cdef int64_t run, i, v, size = p.size, step = p.walk.st[0][0]
    walk_seek(&p.walk, first, c, q)
    while n:
        run = min(p.walk.sizes[0] - c[0], n)
        for i in range(run):
            v = (<int64_t*> (q[0] + i * step))[0]
            v = v + size if v < 0 else v
            out[i] += v * p.step if 0 <= v < size else 0
        walk_on(&p.walk, run, c, q)
        out += run
        n -= run


cdef void find_places(const Pick* p, int64_t first, int64_t n, int64_t* out) noexcept nogil:
    cdef int64_t i, rest, at
    cdef int k, d
    memset(out, 0, n * sizeof(int64_t))
    for k in range(p.count):
        add_places(&p.places[k], first, n, out)
    if p.flat == NULL:
        return
    for i in range(n):
        rest, at = out[i], 0
        if p.flat.flags & CONTIGUOUS:
            at = rest
        else:
            for d in range(p.flat.ndim - 1, -1, -1):
                at += rest % p.flat.sizes[d] * p.flat.strides[d]
                rest = rest // p.flat.sizes[d]
        out[i] = at * ITEMSIZE[p.flat.dtype]


cdef void find_values(const Walk* w, int64_t first, int64_t n, int64_t* out) noexcept nogil:
    """Byte offsets of consecutive index positions in v."""
    cdef int64_t c[MAXDIM]
    cdef char* q[WALKERS]
    cdef int64_t run, i, at, step = w.st[0][0]
    walk_seek(w, first, c, q)
    while n:
        run = min(w.sizes[0] - c[0], n)
        at = <int64_t> q[0]
        for i in range(run):
            out[i] = at + i * step
        walk_on(w, run, c, q)
        out += run
        n -= run


# ---- execution

cdef extern from *:
    """
    static void cyg_lower(int64_t *found, int64_t k) {       /* *found = min(*found, k), from several threads */
        int64_t seen = __atomic_load_n(found, __ATOMIC_RELAXED);
        while (k < seen && !__atomic_compare_exchange_n(found, &seen, k, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    }
    """
    void lower "cyg_lower"(int64_t* found, int64_t k) noexcept nogil

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define cyg_prefetch(p) __builtin_prefetch(p)
    #else
    #define cyg_prefetch(p) ((void)(p))
    #endif
    """
    void prefetch "cyg_prefetch"(const void* p) noexcept nogil

cdef enum:
    AHEAD = 4              # rows that are fetched before their turn: nothing but the index tells where they lie
    FETCHED = 512          # bytes of them, the rest of a longer row the processor fetches by itself


cdef struct Range:         # of index positions, and of the elements before and after them
    int64_t first, last
    int64_t before, before_end
    int64_t after, after_end


cdef inline void apply_one(Update f, bint read, char* x, const int64_t* xo, int64_t xs, char* v, const int64_t* vo,
                           int64_t vs, int64_t n) noexcept nogil:
    if read:
        f(v, vo, vs, x, xo, xs, n)
    else:
        f(x, xo, xs, v, vo, vs, n)


cdef void pick_after(const Pick* p, const Range* r, Update f, bint read, char* v, char* x) noexcept nogil:
    """The dimensions right of one index position."""
    cdef const Walk* w = &p.after
    cdef int64_t c[MAXDIM]
    cdef char* q[WALKERS]
    cdef int64_t at = r.after, run
    if w.ndim == 1:
        apply_one(f, read, x + at * w.st[0][1], NULL, w.st[0][1], v + at * w.st[0][0], NULL, w.st[0][0],
                  r.after_end - at)
        return
    walk_seek(w, at, c, q)
    while at < r.after_end:
        run = min(w.sizes[0] - c[0], r.after_end - at)
        apply_one(f, read, x + <int64_t> q[1], NULL, w.st[0][1], v + <int64_t> q[0], NULL, w.st[0][0], run)
        walk_on(w, run, c, q)
        at += run


cdef inline void fetch_row(const char* x, int64_t bytes) noexcept nogil:
    cdef int64_t i = 0
    while i < bytes and i < FETCHED:
        prefetch(x + i)
        i += 64


cdef void pick_range(const Pick* p, const Range* r, Update f, bint read) noexcept nogil:
    cdef int64_t xo[BLOCK]
    cdef int64_t vo[BLOCK]
    cdef int64_t c[MAXDIM]
    cdef char* q[WALKERS]
    cdef int64_t first = r.first, n, b, i
    cdef char* x
    cdef char* v
    while first < r.last:
        n = min(r.last - first, BLOCK)
        find_places(p, first, n, xo)
        find_values(&p.values, first, n, vo)
        walk_seek(&p.before, r.before, c, q)
        for b in range(r.before, r.before_end):
            v, x = p.v + <int64_t> q[0], p.x + <int64_t> q[1]
            if p.after.numel == 1:
                apply_one(f, read, x, xo, 0, v, vo, 0, n)
            else:
                for i in range(n):
                    if i + AHEAD < n:
                        fetch_row(x + xo[i + AHEAD] + r.after * p.after.st[0][1], p.after.st[0][1] * p.after.sizes[0])
                    pick_after(p, r, f, read, v + vo[i], x + xo[i])
            walk_on(&p.before, 1, c, q)
        first += n


cdef void pick_split(const Pick* p, Update f, bint read, int64_t parts) noexcept nogil:
    """Reads are cut anywhere. Writes are never cut between index positions, which may repeat: each place of x belongs to
    one thread, which takes them in their order."""
    cdef int64_t i
    cdef Range r
    if parts == 1:
        whole_range(&r, p)
        pick_range(p, &r, f, read)
        return
    for i in prange(parts, num_threads=<int> parts, schedule="static"):
        pick_part(p, f, read, i, parts)


cdef void whole_range(Range* r, const Pick* p) noexcept nogil:
    r.first = r.before = r.after = 0
    r.last, r.before_end, r.after_end = p.n, p.before.numel, p.after.numel


cdef void pick_part(const Pick* p, Update f, bint read, int64_t i, int64_t parts) noexcept nogil:
    cdef Range r
    whole_range(&r, p)
    if p.before.numel >= parts and (not read or p.before.numel >= p.n):
        r.before, r.before_end = r.before_end * i // parts, r.before_end * (i + 1) // parts
    elif read:
        r.first, r.last = r.last * i // parts, r.last * (i + 1) // parts
    else:
        r.after, r.after_end = r.after_end * i // parts, r.after_end * (i + 1) // parts
    if r.before < r.before_end and r.after < r.after_end:
        pick_range(p, &r, f, read)


cdef void pick_run(const Pick* p, Update f, bint read) noexcept:
    cdef int64_t work = p.n * p.after.numel * p.before.numel
    cdef int64_t parts = num_threads() if work >= GRAIN else 1
    if not read and p.before.numel < parts and p.after.numel < 8 * parts:
        parts = 1
    if 0 < work < NOGIL:
        pick_split(p, f, read, parts)
    elif work:
        with nogil:
            pick_split(p, f, read, parts)


cdef int divide_by_count(Meta* x, Meta* count) except -1:
    """x /= count, which broadcasts to x's shape."""
    cdef Iter it
    cdef Meta* operands[2]
    if x.numel:
        operands[0], operands[1] = x, count
        iter_build(&it, operands, 2, x.ndim, x.sizes)
        iter_run_gil(&it, <Loop> hand_kernel(H_DIVIDE_COUNT, x.dtype), NULL)
    return 0


# ---- in order

cdef int add_in_order(Meta* x, Meta* src) except -1:
    cdef Loop loop = <Loop> hand_kernel(H_ADD_AT, x.dtype)
    cdef int64_t at[MAXDIM]
    cdef int64_t st[2]
    cdef char* p[2]
    cdef int64_t size = ITEMSIZE[x.dtype], n = x.sizes[x.ndim - 1] if x.ndim else 1
    cdef int d, last = x.ndim - 1
    if x.numel == 0:
        return 0
    memset(at, 0, sizeof(at))
    p[0], p[1] = x.data, src.data
    st[0], st[1] = (x.strides[last] * size, src.strides[last] * size) if x.ndim else (size, size)
    while True:
        loop(p, st, n, NULL)
        d = last - 1
        while d >= 0:
            p[0] += x.strides[d] * size
            p[1] += src.strides[d] * size
            at[d] += 1
            if at[d] < x.sizes[d]:
                break
            p[0] -= at[d] * x.strides[d] * size
            p[1] -= at[d] * src.strides[d] * size
            at[d] = 0
            d -= 1
        if d < 0:
            return 0
