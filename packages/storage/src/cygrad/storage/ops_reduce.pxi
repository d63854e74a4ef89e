# The reduction driver: any shape, strides and set of dimensions becomes calls of Reduce kernels over (outputs x
# elements) blocks.
# Invariant: how the reduced elements are cut into chunks depends on sizes only, and chunks are merged in order, so
# every thread count gives the same bits.

include "ops_common_reduce.pxi"

cdef enum:
    WIDENED = 4096         # elements that are converted for one call of a kernel
    MAX_CHUNKS = 256       # merging takes no time beside folding, and any machine's threads find enough of them
    MANY_TASKS = 16        # output tiles from which the reduced elements stay in one piece

cdef struct Plan:
    Axes kept              # entry 0 is the inner one: outputs of one kernel call
    Axes reduced           # entry 0 is the inner one: elements of one kernel call
    const char* x
    char* y
    char* index            # second result, AS_PAIR only
    int dtype              # of the result
    int out                # AS_...
    int code               # element type of the input, and the one that the kernel takes
    int computed
    Loop widen             # conversion from the one to the other; NULL where they are the same
    Loop store             # conversion of the accumulators' plane 0 to the result
    int width              # bytes of a slot of plane 0
    int planes             # of accumulators, that partial results keep
    int mode               # ACROSS or 0
    double attr            # correction, or exponent of a norm
    Reduce kernel
    Merge merge
    int64_t tile, tiles, outer     # outputs of one task, tiles of the inner kept axis, number of outer kept positions
    int64_t rows                   # number of outer reduced positions
    int64_t chunk, chunks          # inner elements (rows == 1) or rows in one chunk


# ---- shape

cdef int64_t outer_count(const Axes* a) noexcept nogil:
    cdef int64_t n = 1
    cdef int i
    for i in range(1, a.n):
        n *= a.size[i]
    return n


cdef void plan_axes(Plan* p, const Meta* x, uint64_t mask, bint ordered) noexcept nogil:
    """ordered: reduced dimensions stay in their own order, because positions are counted."""
    cdef int d
    cdef int64_t y = 1, size = ITEMSIZE[x.dtype]
    p.kept.n = p.reduced.n = 0
    for d in range(x.ndim - 1, -1, -1):
        if mask >> d & 1:
            axes_add(&p.reduced, x.sizes[d], x.strides[d] * size, 0, not ordered)
        else:
            axes_add(&p.kept, x.sizes[d], x.strides[d] * size, y, True)
            y *= x.sizes[d]
    axes_coalesce(&p.kept)
    axes_coalesce(&p.reduced)
    p.outer = outer_count(&p.kept)
    p.rows = outer_count(&p.reduced)
    p.mode = ACROSS if p.kept.size[0] >= 8 and p.kept.x[0] < p.reduced.x[0] else 0


cdef void plan_tasks(Plan* p) noexcept nogil:
    cdef int64_t m = p.kept.size[0], n = p.reduced.size[0]
    cdef int64_t length
    # across: wide rows are read fastest
    p.tile = min(m, PLANE if p.mode else min(max(GRAIN // (n * p.rows), 16), PLANE))
    p.tiles = (m + p.tile - 1) // p.tile
    p.chunk = n if p.rows == 1 else p.rows
    p.chunks = 1
    if p.outer * p.tiles >= MANY_TASKS or p.tile * n * p.rows < 2 * GRAIN:
        return
    length = max(GRAIN // p.tile, n * p.rows // MAX_CHUNKS)
    if p.rows == 1:
        p.chunk = (length + 4095) // 4096 * 4096 if p.tile == 1 else length
        p.chunks = (n + p.chunk - 1) // p.chunk
    else:
        p.chunk = max(length // n, 1)
        p.chunks = (p.rows + p.chunk - 1) // p.chunk


# ---- execution

cdef int64_t task_place(const Plan* p, int64_t task, int64_t* x, int64_t* y) noexcept nogil:
    """Offsets of a task's first output; returns how many outputs it has."""
    cdef int64_t first = task % p.tiles * p.tile
    cdef int64_t rest = task // p.tiles
    cdef int d
    x[0] = first * p.kept.x[0]
    y[0] = first * p.kept.y[0]
    for d in range(1, p.kept.n):
        x[0] += rest % p.kept.size[d] * p.kept.x[d]
        y[0] += rest % p.kept.size[d] * p.kept.y[d]
        rest = rest // p.kept.size[d]
    return min(p.tile, p.kept.size[0] - first)


cdef void widen_block(const Plan* p, char* to, const char* x, int64_t m, int64_t sk, int64_t n, int64_t sr) noexcept nogil:
    """m rows, sk bytes apart, of n elements to a dense block."""
    cdef int64_t size = ITEMSIZE[p.computed], j
    cdef char* q[2]
    cdef int64_t st[2]
    st[0], st[1] = size, sr
    for j in range(m):
        q[0], q[1] = to + j * n * size, <char*> x + j * sk
        p.widen(q, st, n, NULL)


cdef void run_widened(const Plan* p, char* acc, const char* x, int64_t m, int64_t n, int64_t base, int mode) noexcept nogil:
    """The kernel over blocks of the input in the type that it takes. The length of a block depends on m by classes only."""
    cdef double block[WIDENED]
    cdef int64_t size = ITEMSIZE[p.computed], i = 0, k
    cdef int64_t length = WIDENED // PLANE if m > 16 else WIDENED // 16 if m > 1 else WIDENED
    while i < n:
        k = min(length, n - i)
        if mode & ACROSS:
            widen_block(p, <char*> block, x + i * p.reduced.x[0], k, p.reduced.x[0], m, p.kept.x[0])
            p.kernel(acc, <char*> block, m, size, k, m * size, base + i, mode, p.attr)
        else:
            widen_block(p, <char*> block, x + i * p.reduced.x[0], m, p.kept.x[0], k, p.reduced.x[0])
            p.kernel(acc, <char*> block, m, k * size, k, size, base + i, mode, p.attr)
        mode &= ~FIRST
        i += k


cdef inline void run_kernel(const Plan* p, char* acc, const char* x, int64_t m, int64_t n, int64_t base,
                            int mode) noexcept nogil:
    if p.widen != NULL:
        run_widened(p, acc, x, m, n, base, mode)
    else:
        p.kernel(acc, x, m, p.kept.x[0], n, p.reduced.x[0], base, mode, p.attr)


cdef void fold_rows(const Plan* p, const char* x, int64_t m, int64_t row, int64_t end, char* acc) noexcept nogil:
    cdef int64_t at[MAXDIM]
    cdef int64_t rest = row, n = p.reduced.size[0]
    cdef int mode = p.mode | FIRST
    cdef int d
    for d in range(1, p.reduced.n):
        at[d] = rest % p.reduced.size[d]
        rest = rest // p.reduced.size[d]
        x += at[d] * p.reduced.x[d]
    while True:
        run_kernel(p, acc, x, m, n, row * n, mode)
        mode = p.mode
        row += 1
        if row >= end:
            return
        d = 1
        while True:                            # the next row, as an odometer turns
            x += p.reduced.x[d]
            at[d] += 1
            if at[d] < p.reduced.size[d]:
                break
            x -= at[d] * p.reduced.x[d]
            at[d] = 0
            d += 1


cdef void fold(const Plan* p, int64_t task, int64_t chunk, char* acc) noexcept nogil:
    """One chunk of the elements of one task's outputs."""
    cdef int64_t x, y, m, first, n
    m = task_place(p, task, &x, &y)
    first = chunk * p.chunk
    if p.rows == 1:
        n = min(p.chunk, p.reduced.size[0] - first)
        run_kernel(p, acc, p.x + x + first * p.reduced.x[0], m, n, first, p.mode | FIRST)
    else:
        fold_rows(p, p.x + x, m, first, min(first + p.chunk, p.rows), acc)


cdef double real_result(const Plan* p, const double* a) noexcept nogil:
    """The value of one output that is more than a sum; a[0], a[PLANE], a[2 * PLANE] are its accumulators."""
    cdef double big, middle, small
    if p.out == AS_VAR or p.out == AS_STD:
        big = a[2 * PLANE] / max(a[0] - p.attr, 0.0)
        return sqrt(big) if p.out == AS_STD else big
    if p.out == AS_ROOT:
        return pow(a[0], 1 / p.attr) if p.attr != 1 and p.attr != 0 else a[0]
    if p.out == AS_LOGSUMEXP:
        return a[0] + log(a[PLANE]) if isfinite(a[0]) else a[0]
    big, middle, small = a[0], a[PLANE], a[2 * PLANE]          # see moment.pxi for the three scales
    if big != 0:
        return sqrt(big + middle * NORM_DOWN * NORM_DOWN) * NORM_UP
    if middle != 0:
        return sqrt(middle + small * NORM_DOWN * NORM_DOWN)
    return sqrt(small) * NORM_DOWN


cdef void finish(const Plan* p, int64_t task, char* acc) noexcept nogil:
    """Accumulators of one task to its outputs."""
    cdef double* a = <double*> acc
    cdef double count = <double> (p.reduced.size[0] * p.rows)
    cdef int64_t x, at, m, j
    cdef char* q[2]
    cdef int64_t st[2]
    m = task_place(p, task, &x, &at)
    if p.out == AS_MEAN:
        for j in range(m):
            a[j] /= count
    elif p.out > AS_MEAN:
        for j in range(m):
            a[j] = real_result(p, a + j)
    if p.out == AS_INDEX or p.out == AS_PAIR:
        for j in range(m):
            (<int64_t*> p.index)[at + j * p.kept.y[0]] = (<const int64_t*> acc)[PLANE + j]
    if p.out != AS_INDEX:
        st[0], st[1] = p.kept.y[0] * ITEMSIZE[p.dtype], p.width
        q[0], q[1] = p.y + at * ITEMSIZE[p.dtype], acc
        p.store(q, st, m, NULL)
    if p.out == AS_PARTS:
        q[0], q[1] = q[0] + ITEMSIZE[p.dtype] // 2, acc + PLANE * 8
        p.store(q, st, m, NULL)


cdef void whole_task(const Plan* p, int64_t task) noexcept nogil:
    cdef double acc[PLANES * PLANE]
    fold(p, task, 0, <char*> acc)
    finish(p, task, <char*> acc)


cdef void partial_task(const Plan* p, int64_t k, char* parts) noexcept nogil:
    """Chunk k % chunks of task k // chunks; the planes are packed to `tile` slots each."""
    cdef double acc[PLANES * PLANE]
    cdef int64_t width = p.tile * 8
    cdef int i
    fold(p, k // p.chunks, k % p.chunks, <char*> acc)
    for i in range(p.planes):
        memcpy(parts + (k * p.planes + i) * width, <char*> acc + i * PLANE * 8, width)


cdef void unpack_part(const Plan* p, const char* parts, int64_t k, char* acc) noexcept nogil:
    cdef int64_t width = p.tile * 8
    cdef int i
    for i in range(p.planes):
        memcpy(acc + i * PLANE * 8, parts + (k * p.planes + i) * width, width)


cdef void merge_task(const Plan* p, int64_t task, const char* parts) noexcept nogil:
    cdef double acc[PLANES * PLANE]
    cdef double other[PLANES * PLANE]
    cdef int64_t c, x, y, m = task_place(p, task, &x, &y)
    unpack_part(p, parts, task * p.chunks, <char*> acc)
    for c in range(1, p.chunks):
        unpack_part(p, parts, task * p.chunks + c, <char*> other)
        p.merge(<char*> acc, <char*> other, m)
    finish(p, task, <char*> acc)


cdef int reduce_run(Plan* p, int64_t numel) except -1:
    """Needs numel > 0."""
    cdef int64_t k, tasks = p.outer * p.tiles
    cdef char* parts = NULL
    cdef int threads = 1
    if p.chunks > 1:
        parts = <char*> malloc(tasks * p.chunks * p.planes * p.tile * 8)
        if parts == NULL:
            raise MemoryError(f"no memory for the {tasks * p.chunks} partial results of a reduction")
    if numel < NOGIL:
        for k in range(tasks):
            whole_task(p, k)
        return 0
    with nogil:
        if numel >= GRAIN and tasks * p.chunks > 1:
            threads = num_threads()
        if parts != NULL:
            run_partial(p, tasks, parts, threads)
        elif threads == 1:
            for k in range(tasks):
                whole_task(p, k)
        else:
            for k in prange(tasks, num_threads=threads, schedule="static"):
                whole_task(p, k)
    return 0


cdef void run_partial(const Plan* p, int64_t tasks, char* parts, int threads) noexcept nogil:
    """Takes over `parts`."""
    cdef int64_t k
    if threads == 1:
        for k in range(tasks * p.chunks):
            partial_task(p, k, parts)
    else:
        for k in prange(tasks * p.chunks, num_threads=threads, schedule="static"):
            partial_task(p, k, parts)
    for k in range(tasks):
        merge_task(p, k, parts)
    free(parts)


cdef int check_kernel(str op, int kid, int code) except -1:
    if hand_kernel(kid, COMPUTED[code]) == NULL:
        no_kernel(op, code)
    return 0


cdef void plan_types(Plan* p, int kid, int code, int out_code) noexcept:
    """Kernels and conversions for input of the dtype `code` and a result of the dtype `out_code`; p.out is set."""
    cdef int held, stored = real_of(out_code) if p.out == AS_PARTS else out_code
    p.code, p.computed, p.dtype = code, COMPUTED[code], out_code
    p.kernel = <Reduce> hand_kernel(kid, p.computed)
    p.planes = 1 if not is_complex(code) and kid in (H_SUM, H_PROD, H_MAX, H_MIN, H_ANY, H_ALL) else PLANES
    p.merge = <Merge> hand_kernel(H_MERGE + kid - H_SUM, p.computed)
    p.widen = <Loop> hand_kernel(H_CAST + code, p.computed) if code != p.computed else NULL
    held = FLOAT64 if p.out >= AS_PARTS else INT64 if p.out == AS_INTEGER else out_code if p.out == AS_TRUTH else p.computed
    p.width = ITEMSIZE[held]
    p.store = <Loop> hand_kernel(H_CAST + held, stored)


cdef Storage reduce_to(Meta* y, Meta* x, uint64_t mask, bint keepdim, int kid, int out, int code, double attr,
                       double empty):
    """Shape, memory, plan and run of a reduction of x; `empty` is the value of a reduction over no elements."""
    cdef Plan p
    cdef Storage s
    cdef int64_t sizes[MAXDIM]
    cdef int ndim
    check_kernel("reduction", kid, x.dtype)
    reduced_shape(x, mask, keepdim, &ndim, sizes)
    s = allocate_contig(y, ndim, sizes, code)
    if x.numel == 0:
        fill_double(y, empty)
        return s
    p.x = x.data
    p.y = p.index = y.data
    p.out = out
    p.attr = attr
    plan_types(&p, kid, x.dtype, code)
    plan_axes(&p, x, mask, kid == H_ARGMAX or kid == H_ARGMIN)
    plan_tasks(&p)
    try:
        reduce_run(&p, x.numel)
    except MemoryError:
        meta_clear(y)
        raise
    return s


cdef int fold_extremes(Meta* y, Meta* index, Meta* x, uint64_t mask, int kid) except -1:
    """Values and places of extrema."""
    cdef Plan p
    p.x, p.y, p.index = x.data, y.data, index.data
    p.out, p.attr = AS_PAIR, 0
    plan_types(&p, kid, x.dtype, x.dtype)
    plan_axes(&p, x, mask, True)
    plan_tasks(&p)
    return reduce_run(&p, x.numel)
