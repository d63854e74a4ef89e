# The reduction driver: any shape, strides and set of dimensions becomes calls of Reduce kernels over (outputs x
# elements) blocks.
# Invariant: how the reduced elements are cut into chunks depends on sizes only, and chunks are merged in order, so
# every thread count gives the same bits.

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
    WIDENED = 4096         # elements that are converted for one call of a kernel
    MAX_CHUNKS = 256       # merging takes no time beside folding, and any machine's threads find enough of them
    MANY_TASKS = 16        # output tiles from which the reduced elements stay in one piece

cdef struct Axes:          # dimensions without size 1, smallest x stride first, coalesced
    int n
    int64_t size[MAXDIM]
    int64_t x[MAXDIM]      # byte strides of the input
    int64_t y[MAXDIM]      # element strides of the result

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
    int mode               # ACROSS or 0
    double attr            # correction, or exponent of a norm
    Reduce kernel
    Merge merge
    int64_t tile, tiles, outer     # outputs of one task, tiles of the inner kept axis, number of outer kept positions
    int64_t rows                   # number of outer reduced positions
    int64_t chunk, chunks          # inner elements (rows == 1) or rows in one chunk


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


cdef int64_t outer_count(const Axes* a) noexcept nogil:
    cdef int64_t n = 1
    cdef int i
    for i in range(1, a.n):
        n *= a.size[i]
    return n


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
    for i in range(PLANES):
        memcpy(parts + (k * PLANES + i) * width, <char*> acc + i * PLANE * 8, width)


cdef void unpack_part(const Plan* p, const char* parts, int64_t k, char* acc) noexcept nogil:
    cdef int64_t width = p.tile * 8
    cdef int i
    for i in range(PLANES):
        memcpy(acc + i * PLANE * 8, parts + (k * PLANES + i) * width, width)


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
        parts = <char*> malloc(tasks * p.chunks * PLANES * p.tile * 8)
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
    cdef Plan p
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
    except BaseException:
        meta_clear(y)
        raise
    if x.numel:
        p.x, p.y, p.index = x.data, y.data, index.data
        p.out, p.attr = AS_PAIR, 0
        plan_types(&p, kid, x.dtype, x.dtype)
        plan_axes(&p, x, mask, True)
        plan_tasks(&p)
        try:
            reduce_run(&p, x.numel)
        except MemoryError:
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
