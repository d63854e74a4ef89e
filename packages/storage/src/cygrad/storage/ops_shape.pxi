# Triangles, and repetition counts as an index, on the CPU.

include "ops_common_shape.pxi"

# ---- triangles

cdef void clear_rows(Meta* x, int64_t first, int64_t end, int64_t diagonal, bint upper, Update f) noexcept nogil:
    """Rows (of all matrices, one after another): zero left of the diagonal for the upper triangle, right of it else."""
    cdef int64_t zero[2]
    cdef int64_t rows = x.sizes[x.ndim - 2], columns = x.sizes[x.ndim - 1], size = ITEMSIZE[x.dtype]
    cdef int64_t step = x.strides[x.ndim - 1] * size, row, rest, at, low, high
    cdef int d
    zero[0] = zero[1] = 0
    for row in range(first, end):
        rest, at = row, 0
        for d in range(x.ndim - 2, -1, -1):
            at += rest % x.sizes[d] * x.strides[d]
            rest = rest // x.sizes[d]
        low, high = 0, columns
        if upper:
            high = min(max(row % rows + diagonal, 0), columns)
        else:
            low = min(max(row % rows + diagonal + 1, 0), columns)
        if low < high:
            f(x.data + at * size + low * step, NULL, step, <char*> zero, NULL, 0, high - low)


cdef void clear_triangle(Meta* x, int64_t diagonal, bint upper, int threads) noexcept nogil:
    cdef int64_t rows = x.numel // x.sizes[x.ndim - 1], i
    cdef Update f = mover(ITEMSIZE[x.dtype])
    if threads == 1:
        clear_rows(x, 0, rows, diagonal, upper, f)
        return
    for i in prange(threads, num_threads=threads, schedule="static"):
        clear_rows(x, rows * i // threads, rows * (i + 1) // threads, diagonal, upper, f)


cdef int triangle_into(str op, Meta* x, int64_t diagonal, bint upper) except -1:
    cdef int threads = num_threads() if x.numel >= GRAIN else 1
    cdef int64_t limit
    check_triangle(op, x)
    if x.numel == 0:
        return 0
    limit = max(x.sizes[x.ndim - 2], x.sizes[x.ndim - 1]) + 1
    diagonal = min(max(diagonal, -limit), limit)
    if x.numel < NOGIL:
        clear_triangle(x, diagonal, upper, 1)
    else:
        with nogil:
            clear_triangle(x, diagonal, upper, threads)
    return 0


# ---- repetition

cdef Storage op_repeat_positions(Meta* y, Meta* repeats, int64_t total):
    """i, repeats[i] times, for each i in order. total: their sum where it is known, else -1."""
    cdef Meta held
    cdef Storage keep, s
    cdef const int64_t* count
    cdef int64_t* out
    cdef int64_t i, k, known = 0, n = repeats.numel
    if repeats.ndim != 1:
        raise RuntimeError(f"repeat_interleave: the repeats are a vector, got shape {shape_text(repeats)}")
    if repeats.dtype != INT64 and repeats.dtype != INT32:
        no_kernel("repeat_interleave, whose repeats are int64 or int32,", repeats.dtype)
    memset(&held, 0, sizeof(Meta))
    keep = op_clone(&held, repeats, INT64, True)
    count = <const int64_t*> held.data
    try:
        for i in range(n):
            if count[i] < 0 or count[i] > INT64_MAX - known:
                raise RuntimeError(f"repeat_interleave: repeats cannot be negative or too large, got {count[i]}")
            known += count[i]
        if total >= 0 and total != known:
            raise RuntimeError(f"repeat_interleave: output_size is {total}, but the repeats add up to {known}")
        s = allocate_contig(y, 1, &known, INT64)
        out = <int64_t*> y.data
        with nogil:
            for i in range(n):
                for k in range(count[i]):
                    out[k] = i
                out += count[i]
    finally:
        meta_clear(&held)
    return s
