# Attention, softmax(q @ k.T * scale + mask) @ v, in blocks of queries and keys: scores of one block are in memory at a
# time, forwards and backwards (Dao et al., "FlashAttention", 2022).
# Invariant: blocks depend on sizes only, and a thread does all of what is added up in one place, so every thread count
# gives the same bits.

include "ops_common_attention.pxi"

cdef enum:
    QUERIES = 64               # of a block
    KEYS = 256

ctypedef void (*Weigh)(char* s, char* y, double* sums, char* top, int64_t rows, int64_t keys, int64_t width) noexcept nogil
ctypedef void (*WeighEnd)(char* y, const double* sums, char* top, int64_t rows, int64_t width) noexcept nogil
ctypedef void (*WeighBack)(char* s, char* g, const char* top, const char* inner, int64_t rows, int64_t keys) noexcept nogil
ctypedef void (*RowsInner)(char* inner, const char* y, const char* g, int64_t rows, int64_t width) noexcept nogil

cdef struct Attention:
    int dtype
    bint causal
    int64_t size               # bytes of an element
    int64_t items, queries, keys, depth, width
    double scale
    const Meta* q              # (*, queries, depth), (*, keys, depth), (*, keys, width), (*, queries, keys) or NULL
    const Meta* k
    const Meta* v
    const Meta* mask
    const Meta* g              # (*, queries, width)
    char* y                    # row-major from here on
    char* top                  # (*, queries)
    char* gq
    char* gk
    char* gv
    Weigh weigh
    WeighEnd end
    WeighBack back
    RowsInner inner


cdef const char* item_of(const Meta* m, int64_t item) noexcept nogil:
    """Where a matrix of a batch begins."""
    cdef const char* p = m.data
    cdef int d
    for d in range(m.ndim - 3, -1, -1):
        p += item % m.sizes[d] * m.strides[d] * ITEMSIZE[m.dtype]
        item //= m.sizes[d]
    return p


cdef inline int64_t row_step(const Meta* m) noexcept nogil:
    """Elements from row to row, at least a row's length: the step of a single row means nothing."""
    return max(m.strides[m.ndim - 2], m.sizes[m.ndim - 1])


cdef void multiply_block(const Attention* a, int ta, int tb, int64_t n, int64_t p, int64_t k, double alpha, const char* x,
                         int64_t ldx, const char* w, int64_t ldw, double beta, char* y, int64_t ldy) noexcept nogil:
    if a.dtype == FLOAT32:
        sgemm(ROW_MAJOR, ta, tb, <int> n, <int> p, <int> k, <float> alpha, <const float*> x, <int> ldx, <const float*> w,
              <int> ldw, <float> beta, <float*> y, <int> ldy)
    else:
        dgemm(ROW_MAJOR, ta, tb, <int> n, <int> p, <int> k, alpha, <const double*> x, <int> ldx, <const double*> w,
              <int> ldw, beta, <double*> y, <int> ldy)


cdef void mask_block(const Attention* a, floating* s, int64_t item, int64_t first, int64_t rows, int64_t start,
                     int64_t keys) noexcept nogil:
    """Put the mask into scores of the queries from `first` and the keys from `start`."""
    cdef int64_t r, j, down, right
    cdef const char* m
    cdef floating low = <floating> -INFINITY
    if a.causal and start + keys > first + 1:
        for r in range(rows):
            for j in range(max(first + r + 1 - start, 0), keys):
                s[r * keys + j] = low
    if a.mask == NULL:
        return
    down, right = a.mask.strides[a.mask.ndim - 2], a.mask.strides[a.mask.ndim - 1]
    m = item_of(a.mask, item) + (first * down + start * right) * ITEMSIZE[a.mask.dtype]
    for r in range(rows):
        if a.mask.dtype == BOOL:
            for j in range(keys):
                s[r * keys + j] = s[r * keys + j] if m[r * down + j * right] else low
        else:
            for j in range(keys):
                s[r * keys + j] += (<const floating*> m)[r * down + j * right]


cdef void scores_of(const Attention* a, char* s, int64_t item, int64_t first, int64_t rows, int64_t start,
                    int64_t keys) noexcept nogil:
    multiply_block(a, PLAIN, TRANSPOSED, rows, keys, a.depth, a.scale, item_of(a.q, item) + first * row_step(a.q) * a.size,
                   row_step(a.q), item_of(a.k, item) + start * row_step(a.k) * a.size, row_step(a.k), 0, s, keys)
    if a.dtype == FLOAT32:
        mask_block[float](a, <float*> s, item, first, rows, start, keys)
    else:
        mask_block[double](a, <double*> s, item, first, rows, start, keys)


cdef inline int64_t last_key(const Attention* a, int64_t first, int64_t rows) noexcept nogil:
    """The number of keys that some of these queries see."""
    return min(a.keys, first + rows) if a.causal else a.keys


cdef void attend_block(const Attention* a, int64_t block, char* scratch) noexcept nogil:
    """Results of one block of queries of one item."""
    cdef int64_t blocks = (a.queries + QUERIES - 1) // QUERIES
    cdef int64_t item = block // blocks, first = block % blocks * QUERIES, start = 0, keys, stop, r
    cdef int64_t rows = min(<int64_t> QUERIES, a.queries - first)
    cdef double sums[QUERIES]
    cdef char* y = a.y + (item * a.queries + first) * a.width * a.size
    cdef char* top = a.top + (item * a.queries + first) * a.size
    memset(y, 0, rows * a.width * a.size)
    for r in range(rows):
        sums[r] = 0
        if a.dtype == FLOAT32:
            (<float*> top)[r] = <float> -INFINITY
        else:
            (<double*> top)[r] = -INFINITY
    stop = last_key(a, first, rows)
    while start < stop:
        keys = min(<int64_t> KEYS, stop - start)
        scores_of(a, scratch, item, first, rows, start, keys)
        a.weigh(scratch, y, sums, top, rows, keys, a.width)
        multiply_block(a, PLAIN, PLAIN, rows, a.width, keys, 1, scratch, keys, item_of(a.v, item) + start * row_step(a.v) * a.size,
                       row_step(a.v), 1, y, a.width)
        start += keys
    a.end(y, sums, top, rows, a.width)


cdef void attend_back_item(const Attention* a, int64_t item, char* scratch) noexcept nogil:
    """Gradients of all of one item."""
    cdef int64_t first = 0, rows, start, stop, keys
    cdef char* s = scratch
    cdef char* gs = s + QUERIES * KEYS * a.size
    cdef char* inner = gs + QUERIES * KEYS * a.size
    cdef char* gk = a.gk + item * a.keys * a.depth * a.size
    cdef char* gv = a.gv + item * a.keys * a.width * a.size
    cdef char* gq
    cdef const char* top
    cdef const char* g
    cdef const char* q
    cdef const char* k
    memset(gk, 0, a.keys * a.depth * a.size)
    memset(gv, 0, a.keys * a.width * a.size)
    memset(a.gq + item * a.queries * a.depth * a.size, 0, a.queries * a.depth * a.size)
    while first < a.queries:
        rows, start = min(<int64_t> QUERIES, a.queries - first), 0
        stop = last_key(a, first, rows)
        gq = a.gq + (item * a.queries + first) * a.depth * a.size
        top = a.top + (item * a.queries + first) * a.size
        g = item_of(a.g, item) + first * a.width * a.size
        q = item_of(a.q, item) + first * row_step(a.q) * a.size
        a.inner(inner, a.y + (item * a.queries + first) * a.width * a.size, g, rows, a.width)
        while start < stop:
            keys = min(<int64_t> KEYS, stop - start)
            k = item_of(a.k, item) + start * row_step(a.k) * a.size
            scores_of(a, s, item, first, rows, start, keys)
            multiply_block(a, PLAIN, TRANSPOSED, rows, keys, a.width, 1, g, a.width,
                           item_of(a.v, item) + start * row_step(a.v) * a.size, row_step(a.v), 0, gs, keys)
            a.back(s, gs, top, inner, rows, keys)
            multiply_block(a, TRANSPOSED, PLAIN, keys, a.width, rows, 1, s, keys, g, a.width, 1, gv + start * a.width * a.size,
                           a.width)
            multiply_block(a, PLAIN, PLAIN, rows, a.depth, keys, a.scale, gs, keys, k, row_step(a.k), 1, gq, a.depth)
            multiply_block(a, TRANSPOSED, PLAIN, keys, a.depth, rows, a.scale, gs, keys, q, row_step(a.q), 1,
                           gk + start * a.depth * a.size, a.depth)
            start += keys
        first += rows


cdef int check_attention(Attention* a, Meta* q, Meta* k, Meta* v, Meta* mask, bint causal, double scale) except -1:
    cdef int64_t sizes[5]
    memset(a, 0, sizeof(Attention))
    check_attention_sizes(sizes, q, k, v, mask)
    a.items, a.queries, a.keys, a.depth, a.width = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]
    a.dtype, a.size, a.causal, a.scale = q.dtype, ITEMSIZE[q.dtype], causal, scale
    a.q, a.k, a.v, a.mask = q, k, v, mask
    a.weigh = <Weigh> hand_kernel(H_WEIGH, q.dtype)
    a.end = <WeighEnd> hand_kernel(H_WEIGH_END, q.dtype)
    a.back = <WeighBack> hand_kernel(H_WEIGH_BACK, q.dtype)
    a.inner = <RowsInner> hand_kernel(H_ROWS_INNER, q.dtype)
    return 0


cdef tuple op_attention(Meta* y, Meta* top, Meta* q, Meta* k, Meta* v, Meta* mask, bint causal, double scale):
    cdef Attention a
    cdef int64_t sizes[MAXDIM]
    cdef int64_t i, blocks, nbytes
    cdef int threads, n = q.ndim
    cdef char* scratch
    cdef Storage s, t
    check_attention(&a, q, k, v, mask, causal, scale)
    blocks = (a.queries + QUERIES - 1) // QUERIES * a.items
    threads = num_threads() if blocks > 1 and blocks * min(<int64_t> QUERIES, a.queries) * a.keys * a.depth >= SPLIT_WORK else 1
    nbytes = threads * QUERIES * KEYS * a.size
    memcpy(sizes, q.sizes, n * sizeof(int64_t))
    scratch = <char*> block_alloc(nbytes)
    if scratch == NULL:
        raise MemoryError(f"no memory for scores of {nbytes} bytes")
    try:
        t = allocate_contig(top, n - 1, sizes, q.dtype)
        sizes[n - 1] = a.width
        s = allocate_contig(y, n, sizes, q.dtype)
        a.y, a.top = y.data, top.data
        with nogil:
            if threads == 1:
                for i in range(blocks):
                    attend_block(&a, i, scratch)
            else:
                for i in prange(blocks, num_threads=threads, schedule="dynamic"):
                    attend_block(&a, i, scratch + threadid() * QUERIES * KEYS * a.size)
    except BaseException:
        meta_clear(y)
        meta_clear(top)
        raise
    finally:
        block_free(scratch, nbytes)
    return s, t


cdef tuple op_attention_backward(Meta** y, Meta* g, Meta* q, Meta* k, Meta* v, Meta* mask, Meta* result, Meta* top,
                                 bint causal, double scale):
    cdef Attention a
    cdef int64_t i, each, nbytes
    cdef int threads, j
    cdef char* scratch
    cdef list storages = []
    check_attention(&a, q, k, v, mask, causal, scale)
    check_row_major("the gradient", g, a.items * a.queries * a.width, q.dtype)
    check_row_major("the result", result, a.items * a.queries * a.width, q.dtype)
    check_row_major("the sums", top, a.items * a.queries, q.dtype)
    threads = num_threads() if a.items > 1 and a.items * a.queries * a.keys * a.depth >= SPLIT_WORK else 1
    each = (2 * QUERIES * KEYS + QUERIES) * a.size
    nbytes = threads * each
    scratch = <char*> block_alloc(nbytes)
    if scratch == NULL:
        raise MemoryError(f"no memory for scores of {nbytes} bytes")
    try:
        storages.append(allocate_contig(y[0], q.ndim, q.sizes, q.dtype))
        storages.append(allocate_contig(y[1], k.ndim, k.sizes, q.dtype))
        storages.append(allocate_contig(y[2], v.ndim, v.sizes, q.dtype))
        a.g, a.y, a.top = g, result.data, top.data
        a.gq, a.gk, a.gv = y[0].data, y[1].data, y[2].data
        with nogil:
            if threads == 1:
                for i in range(a.items):
                    attend_back_item(&a, i, scratch)
            else:
                for i in prange(a.items, num_threads=threads, schedule="dynamic"):
                    attend_back_item(&a, i, scratch + threadid() * each)
    except BaseException:
        for j in range(3):
            meta_clear(y[j])
        raise
    finally:
        block_free(scratch, nbytes)
    return tuple(storages)
