# Results of the input's shape that need whole lines along one dimension: the driver, and softmax with its gradients.
# Running sums and their like are in ops_scan.

include "ops_common_along.pxi"

ctypedef void (*Along)(char* y, const char* a, const char* b, int64_t m, const int64_t* step, int64_t n,
                       const int64_t* st) noexcept nogil

cdef struct Lines:         # y, a, b: strides in bytes
    char* p[3]
    int64_t n              # elements of a line
    int64_t st[3]
    int ndim               # dimensions across lines, innermost first; entry 0 goes into the kernel call
    int64_t size[MAXDIM]
    int64_t step[MAXDIM][3]
    int64_t tile           # lines of one kernel call
    int64_t tiles
    Along kernel


cdef void plan_lines(Lines* l, Meta** operands, int count, int64_t dim) noexcept nogil:
    cdef Meta* y = operands[0]
    cdef int64_t outer = 1
    cdef int64_t size[3]
    cdef int d, k, j
    cdef bint joins
    l.n = y.sizes[dim] if y.ndim else 1
    l.ndim = 0
    for k in range(count):
        size[k] = ITEMSIZE[operands[k].dtype]
        l.p[k] = operands[k].data
        l.st[k] = operands[k].strides[dim] * size[k] if y.ndim else size[k]
    for d in range(y.ndim - 1, -1, -1):
        if d == dim or y.sizes[d] == 1:
            continue
        j = l.ndim - 1
        joins = j >= 0
        for k in range(count):
            joins = joins and operands[k].strides[d] * size[k] == l.size[j] * l.step[j][k]
        if joins:
            l.size[j] *= y.sizes[d]
            continue
        l.size[l.ndim] = y.sizes[d]
        for k in range(count):
            l.step[l.ndim][k] = operands[k].strides[d] * size[k]
        l.ndim += 1
    if l.ndim == 0:
        l.ndim = 1
        l.size[0] = 1
        memset(l.step[0], 0, sizeof(l.step[0]))
    for d in range(1, l.ndim):
        outer *= l.size[d]
    l.tile = min(l.size[0], max(GRAIN // (2 * max(l.n, 1)), 16) if l.st[0] == size[0] else 64)
    l.tiles = (l.size[0] + l.tile - 1) // l.tile * outer


cdef void run_lines(const Lines* l, int64_t k, int count) noexcept nogil:
    cdef int64_t wide = (l.size[0] + l.tile - 1) // l.tile
    cdef int64_t first = k % wide * l.tile, rest = k // wide
    cdef char* p[3]
    cdef int d, j
    p[2] = NULL
    for j in range(count):
        p[j] = l.p[j] + first * l.step[0][j]
    for d in range(1, l.ndim):
        for j in range(count):
            p[j] += rest % l.size[d] * l.step[d][j]
        rest = rest // l.size[d]
    l.kernel(p[0], p[1], p[2], min(l.tile, l.size[0] - first), l.step[0], l.n, l.st)


cdef Storage along(str op, int kid, Meta* y, Meta* a, Meta* b, int64_t dim):
    """y is of a's shape and dtype; b is NULL for a kernel of one operand."""
    cdef Meta held, other
    cdef Storage keep, keep_other, s
    cdef int code = a.dtype
    if hand_kernel(kid, COMPUTED[code]) == NULL:
        no_kernel(op, code)
    if COMPUTED[code] == code:
        return along_lines(kid, y, a, b, dim)
    memset(&held, 0, sizeof(Meta))
    memset(&other, 0, sizeof(Meta))
    try:
        keep = computed(&held, a)
        if b != NULL:
            keep_other = computed(&other, b)
        s = along_lines(kid, y, &held, &other if b != NULL else NULL, dim)
    finally:
        meta_clear(&held)
        meta_clear(&other)
    return recast(y, s, code)


cdef Storage along_lines(int kid, Meta* y, Meta* a, Meta* b, int64_t dim):
    cdef Lines l
    cdef Meta* operands[3]
    cdef int count = 2 if b == NULL else 3
    cdef Storage s
    s = allocate_contig(y, a.ndim, a.sizes, a.dtype)
    if y.numel == 0:
        return s
    operands[0], operands[1], operands[2] = y, a, b
    plan_lines(&l, operands, count, dim)
    l.kernel = <Along> hand_kernel(kid, a.dtype)
    run_along(&l, count, y.numel)
    return s


cdef void run_along(const Lines* l, int count, int64_t numel) noexcept:
    cdef int64_t k
    cdef int threads = 1
    if numel < NOGIL:
        for k in range(l.tiles):
            run_lines(l, k, count)
        return
    with nogil:
        if l.tiles > 1 and numel >= GRAIN:
            threads = num_threads()
        if threads == 1:
            for k in range(l.tiles):
                run_lines(l, k, count)
        else:
            for k in prange(l.tiles, num_threads=threads, schedule="static"):
                run_lines(l, k, count)
