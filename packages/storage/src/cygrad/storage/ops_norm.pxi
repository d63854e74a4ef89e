# Layer normalisation and its gradients. Rows are what the dimensions of the weight span; the input has more in front.

include "ops_common_norm.pxi"

ctypedef void (*NormRows)(char* y, const char* d, const char* x, const char* w, const char* b, int64_t m, int64_t n,
                          double eps) noexcept nogil

cdef enum:
    NORM_SHARES = 32       # parts of the rows whose sums for the weight are taken apart, and added in order
    NORM_LEAST = 16        # rows of a part: so the sums take no more than a fourth of the memory of the rows

cdef struct Norm:
    char* y
    char* d
    char* x
    char* w
    char* b
    int64_t n              # elements of a row
    int64_t rows
    int64_t tile           # rows of one kernel call
    int64_t tiles
    int size               # bytes of an element
    double eps
    NormRows kernel


cdef void norm_part(const Norm* p, int64_t k) noexcept nogil:
    cdef int64_t first = k * p.tile, jump = k * p.tile * p.n * p.size
    p.kernel(p.y + jump, p.d + jump, p.x + jump, p.w, p.b, min(p.tile, p.rows - first), p.n, p.eps)


cdef void norm_run(const Norm* p) noexcept:
    cdef int64_t k
    cdef int threads = 1
    if p.n * p.rows < NOGIL:
        for k in range(p.tiles):
            norm_part(p, k)
        return
    with nogil:
        if p.tiles > 1 and p.n * p.rows >= GRAIN:
            threads = num_threads()
        if threads == 1:
            for k in range(p.tiles):
                norm_part(p, k)
        else:
            for k in prange(p.tiles, num_threads=threads, schedule="static"):
                norm_part(p, k)


cdef Storage norm_rows(int kid, str op, Meta* y, Meta* d, Meta* x, Meta* w, Meta* b, double eps):
    """A result of x's shape; d is NULL going forward, b going backward."""
    cdef Norm p
    cdef Meta held[4]
    cdef Meta* given[4]
    cdef int i
    cdef Storage s
    check_norm(op, x, d, w, b)
    if hand_kernel(kid, COMPUTED[x.dtype]) == NULL:
        no_kernel(op, x.dtype)
    memset(held, 0, sizeof(held))
    memset(&p, 0, sizeof(Norm))
    given[0], given[1], given[2], given[3] = d, x, w, b
    keep = []
    try:
        for i in range(4):
            if given[i] != NULL:
                keep.append(rowmajor(&held[i], given[i]))
        s = allocate_contig(y, x.ndim, x.sizes, held[1].dtype)
        if y.numel:
            # going forward there is no gradient: C may not calculate with NULL
            p.y, p.d, p.x, p.w, p.b = y.data, held[0].data if d != NULL else held[1].data, held[1].data, held[2].data, held[3].data
            p.n, p.rows, p.eps, p.size = w.numel, y.numel // w.numel, eps, ITEMSIZE[y.dtype]
            p.tile = max(GRAIN // (2 * p.n), 1)
            p.tiles = (p.rows + p.tile - 1) // p.tile
            p.kernel = <NormRows> hand_kernel(kid, y.dtype)
            norm_run(&p)
    finally:
        for i in range(4):
            meta_clear(&held[i])
    return recast(y, s, x.dtype)


cdef void norm_share(const Norm* p, int64_t k, double* sums, int64_t columns) noexcept nogil:
    cdef int64_t first = k * p.tile, jump = k * p.tile * p.n * p.size, rows = min(p.tile, p.rows - first)
    sums += k * columns
    memset(sums, 0, columns * sizeof(double))
    if columns == p.n:
        p.kernel(<char*> sums, p.d + jump, p.x + jump, NULL, NULL, rows, p.n, p.eps)
    else:
        p.kernel(p.y + jump, p.d + jump, p.x + jump, p.w, <const char*> sums, rows, p.n, p.eps)


cdef int norm_shares(str op, Norm* p, char** totals, int many, int code) except -1:
    """Sums over rows, `many` of n elements: one array of them a share, then the arrays in order."""
    cdef double* sums
    cdef int64_t i, k, columns = many * p.n
    cdef int threads, q
    cdef double one
    p.tile = max((p.rows + NORM_SHARES - 1) // NORM_SHARES, GRAIN // (2 * p.n), NORM_LEAST)
    p.tiles = (p.rows + p.tile - 1) // p.tile
    sums = <double*> malloc(p.tiles * columns * sizeof(double))
    if sums == NULL:
        raise MemoryError(f"{op}: no memory for {p.tiles * columns * 8} bytes of sums")
    with nogil:
        threads = num_threads() if p.tiles > 1 and p.n * p.rows >= GRAIN else 1
        if threads == 1:
            for k in range(p.tiles):
                norm_share(p, k, sums, columns)
        else:
            for k in prange(p.tiles, num_threads=threads, schedule="static"):
                norm_share(p, k, sums, columns)
        for q in range(many):
            for i in range(p.n):
                one = 0
                for k in range(p.tiles):
                    one += sums[k * columns + q * p.n + i]
                if code == FLOAT32:
                    (<float*> totals[q])[i] = <float> one
                else:
                    (<double*> totals[q])[i] = one
        free(sums)
    return 0


cdef Storage op_layer_norm_weight(Meta* y, Meta* d, Meta* x, double eps, int ndim, const int64_t* sizes):
    """The gradient for a weight of shape `sizes`: the sum over rows of d times the normalised row."""
    cdef Norm p
    cdef Meta a, b
    cdef Storage keep_a, keep_b, s
    check_norm_weight(d, x, ndim, sizes)
    if hand_kernel(H_LAYER_NORM_WEIGHT, COMPUTED[x.dtype]) == NULL:
        no_kernel("layer_norm_weight", x.dtype)
    memset(&a, 0, sizeof(Meta))
    memset(&b, 0, sizeof(Meta))
    memset(&p, 0, sizeof(Norm))
    try:
        keep_a, keep_b = rowmajor(&a, d), rowmajor(&b, x)
        s = allocate_contig(y, ndim, sizes, a.dtype)
        if a.numel == 0:
            fill_double(y, 0)
        else:
            p.y, p.d, p.x = y.data, a.data, b.data
            p.n, p.rows, p.eps, p.size = y.numel, a.numel // y.numel, eps, ITEMSIZE[y.dtype]
            p.kernel = <NormRows> hand_kernel(H_LAYER_NORM_WEIGHT, y.dtype)
            norm_shares("layer_norm_weight", &p, &p.y, 1, y.dtype)
    finally:
        meta_clear(&a)
        meta_clear(&b)
    return recast(y, s, x.dtype)


cdef tuple op_layer_norm_gradients(Meta* dx, Meta* dw, Meta* db, Meta* d, Meta* x, Meta* w, double eps):
    cdef Norm p
    cdef Meta held[3]
    cdef Meta* given[3]
    cdef char* totals[2]
    cdef Storage first, second, third
    cdef int i
    check_norm("layer_norm_gradients", x, d, w, NULL)
    if hand_kernel(H_LAYER_NORM_ALL, COMPUTED[x.dtype]) == NULL:
        no_kernel("layer_norm_gradients", x.dtype)
    memset(held, 0, sizeof(held))
    memset(&p, 0, sizeof(Norm))
    given[0], given[1], given[2] = d, x, w
    keep = []
    try:
        for i in range(3):
            keep.append(rowmajor(&held[i], given[i]))
        first = allocate_contig(dx, x.ndim, x.sizes, held[1].dtype)
        second = allocate_contig(dw, w.ndim, w.sizes, held[1].dtype)
        third = allocate_contig(db, w.ndim, w.sizes, held[1].dtype)
        if x.numel == 0:
            fill_double(dw, 0)
            fill_double(db, 0)
        else:
            p.y, p.d, p.x, p.w = dx.data, held[0].data, held[1].data, held[2].data
            p.n, p.rows, p.eps, p.size = w.numel, x.numel // w.numel, eps, ITEMSIZE[dx.dtype]
            p.kernel = <NormRows> hand_kernel(H_LAYER_NORM_ALL, dx.dtype)
            totals[0], totals[1] = db.data, dw.data
            norm_shares("layer_norm_gradients", &p, totals, 2, dx.dtype)
        return recast(dx, first, x.dtype), recast(dw, second, x.dtype), recast(db, third, x.dtype)
    except BaseException:
        meta_clear(dx)
        meta_clear(dw)
        meta_clear(db)
        raise
    finally:
        for i in range(3):
            meta_clear(&held[i])
