# Copies in another arrangement: flip, roll, padding, triangles, repetition counts as an index.

cdef Storage op_flip(Meta* y, Meta* x, uint64_t mask):
    """The elements along the masked dimensions in reverse order, in the layout of x."""
    cdef Meta back
    cdef Storage s
    cdef int d
    meta_dense_like(y, x, x.dtype)
    s = allocate(y)
    memset(&back, 0, sizeof(Meta))
    meta_like(&back, x)
    back.flags = 0                             # negative strides exist in here only
    for d in range(x.ndim):
        if mask >> d & 1 and x.numel:
            back.data += (x.sizes[d] - 1) * x.strides[d] * ITEMSIZE[x.dtype]
            back.strides[d] = -back.strides[d]
    copy_broadcast(y, &back)
    meta_clear(&back)
    return s


cdef int copy_narrow(Meta* y, int64_t y_at, Meta* x, int64_t x_at, int64_t n, int64_t dim) except -1:
    """n slices of x along dim, from x_at on, to y from y_at on."""
    cdef Meta to, source
    memset(&to, 0, sizeof(Meta))
    memset(&source, 0, sizeof(Meta))
    view_narrow(&to, y, dim, y_at, n)
    view_narrow(&source, x, dim, x_at, n)
    copy_broadcast(&to, &source)
    meta_clear(&to)
    meta_clear(&source)
    return 0


cdef Storage op_roll(Meta* y, Meta* x, int64_t shift, int64_t dim):
    cdef int64_t n = size_at(x, dim)
    cdef Storage s
    if x.ndim == 0 or x.numel == 0:
        return op_clone(y, x, x.dtype, True)
    shift %= n
    if shift < 0:
        shift += n
    s = allocate_contig(y, x.ndim, x.sizes, x.dtype)
    copy_narrow(y, shift, x, 0, n - shift, dim)
    copy_narrow(y, 0, x, n - shift, shift, dim)
    return s


cdef Storage op_constant_pad(Meta* y, Meta* x, int n, const int64_t* pad, object value):
    """x with pad[0] more elements before and pad[1] behind in the last dimension, and so on; negative ones cut off."""
    cdef Meta to, source
    cdef Storage s
    cdef int64_t sizes[MAXDIM]
    cdef int64_t before[MAXDIM]
    cdef int64_t behind[MAXDIM]
    cdef int d, k
    cdef bint grows = False
    if n % 2 or n > 2 * x.ndim:
        raise RuntimeError(f"constant_pad_nd: two pads for each of at most {x.ndim} dimensions are wanted, got "
                           f"{[pad[k] for k in range(n)]} for a tensor of shape {shape_text(x)}")
    for d in range(x.ndim):
        k = 2 * (x.ndim - 1 - d)
        before[d] = pad[k] if k < n else 0
        behind[d] = pad[k + 1] if k < n else 0
        grows = grows or before[d] > 0 or behind[d] > 0
        check_pad(x, d, before[d], behind[d])
        sizes[d] = x.sizes[d] + before[d] + behind[d]
    memset(&to, 0, sizeof(Meta))
    memset(&source, 0, sizeof(Meta))
    try:
        cut(&source, x, before, behind, False)
        if not grows:
            return op_clone(y, &source, x.dtype, False)
        s = op_full(y, x.ndim, sizes, 0, x.dtype)
        if value != 0:
            fill_number(y, value)
        cut(&to, y, before, behind, True)
        copy_broadcast(&to, &source)
    except BaseException:
        meta_clear(y)
        raise
    finally:
        meta_clear(&to)
        meta_clear(&source)
    return s


cdef int check_pad(Meta* x, int d, int64_t before, int64_t behind) except -1:
    cdef int64_t limit = <int64_t> 1 << 61
    if not -limit < before < limit or not -limit < behind < limit:
        raise RuntimeError(f"constant_pad_nd: a pad of {before} or {behind} is too large")
    if x.sizes[d] + before + behind < 0 or x.sizes[d] + min(before, 0) + min(behind, 0) < 0:
        raise RuntimeError(f"constant_pad_nd: the input size {x.sizes[d]}, plus negative padding {before} and {behind}, "
                           f"resulted in a negative output size in dimension {d}")
    return 0


cdef int cut(Meta* y, Meta* x, const int64_t* before, const int64_t* behind, bint inner) except -1:
    """The part of x that is kept (where pads are negative), or of the result where it goes (where they are positive)."""
    cdef int64_t low, high
    cdef int d
    meta_like(y, x)
    for d in range(x.ndim):
        low = max(before[d] if inner else -before[d], 0)
        high = max(behind[d] if inner else -behind[d], 0)
        y.data += low * x.strides[d] * ITEMSIZE[x.dtype]
        y.sizes[d] -= low + high
    return meta_refresh(y)


cdef int meta_refresh(Meta* y) except -1:
    """Flags and numel of a Meta whose sizes were changed."""
    cdef Meta again
    memset(&again, 0, sizeof(Meta))
    meta_strided(&again, y.ndim, y.sizes, y.strides, y.dtype, y.data)
    y.numel, y.flags = again.numel, again.flags
    meta_clear(&again)
    return 0


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
    if x.ndim < 2:
        raise RuntimeError(f"{op}: the tensor must have at least 2 dimensions, got shape {shape_text(x)}")
    check_writable(op, x)
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


cdef int tril_into(Meta* x, int64_t diagonal) except -1:
    return triangle_into("tril", x, diagonal, False)


cdef int triu_into(Meta* x, int64_t diagonal) except -1:
    return triangle_into("triu", x, diagonal, True)


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
