# The engine below index_select, index_add and advanced indexing: sub-tensors of x at given byte offsets, one after
# another.

cdef extern from *:
    """
    typedef struct { uint64_t low, high; } cyg_sixteen;
    """
    ctypedef struct sixteen "cyg_sixteen":
        pass

ctypedef fused word:       # elements by their width alone, where they are only moved
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    sixteen

cdef struct Pick:          # v: result of a read or source of a write; x: the tensor indexed
    char* x
    char* v
    int dtype
    int64_t* offsets       # into x, one for each index position; owned
    int64_t n              # index positions
    int64_t step           # byte stride of v from one position to the next
    Iter before            # dimensions left of the index positions; operands v, x
    Iter after             # dimensions right of them


cdef void pick_dims(Iter* it, int ndim, const int64_t* sizes, const int64_t* v, const int64_t* x,
                    int64_t size) noexcept nogil:
    """Coalesced dimensions in their own order: innermost last in the arguments, first in the Iter."""
    cdef int d, k = -1
    it.nop = 2
    it.numel = 1
    for d in range(ndim - 1, -1, -1):
        it.numel *= sizes[d]
        if sizes[d] == 1:
            continue
        if k >= 0 and v[d] * size == it.sizes[k] * it.st[k][0] and x[d] * size == it.sizes[k] * it.st[k][1]:
            it.sizes[k] *= sizes[d]
            continue
        k += 1
        it.sizes[k] = sizes[d]
        it.st[k][0], it.st[k][1] = v[d] * size, x[d] * size
    if k < 0:
        k = 0
        it.sizes[0] = 1
        it.st[0][0] = it.st[0][1] = size
    it.ndim = k + 1


cdef int pick_along(Pick* p, Meta* v, Meta* x, int64_t dim, const int64_t* index, int64_t n) except -1:
    """Slices of x along dim against consecutive slices of v along dim; the indices are in range."""
    cdef int64_t i, size = ITEMSIZE[x.dtype]
    cdef int rest = max(x.ndim - <int> dim - 1, 0)
    p.offsets = <int64_t*> malloc(n * sizeof(int64_t) + 1)
    if p.offsets == NULL:
        raise MemoryError(f"no memory for {n} offsets of an index")
    p.x, p.v, p.n, p.dtype = x.data, v.data, n, x.dtype
    p.step = v.strides[dim] * size if v.ndim else size
    for i in range(n):
        p.offsets[i] = index[i] * (x.strides[dim] * size if x.ndim else 0)
    pick_dims(&p.before, <int> dim if x.ndim else 0, x.sizes, v.strides, x.strides, size)
    pick_dims(&p.after, rest, x.sizes + dim + 1, v.strides + dim + 1, x.strides + dim + 1, size)
    return 0


# ---- execution

cdef void move_part(const Pick* p, char* v, char* x, bint write, Loop loop) noexcept nogil:
    """The dimensions right of one index position."""
    cdef const Iter* it = &p.after
    cdef int64_t at[MAXDIM]
    cdef int64_t st[2]
    cdef char* q[2]
    cdef int d
    for d in range(1, it.ndim):
        at[d] = 0
    st[0], st[1] = (it.st[0][1], it.st[0][0]) if write else (it.st[0][0], it.st[0][1])
    while True:
        q[0], q[1] = (x, v) if write else (v, x)
        loop(q, st, it.sizes[0], NULL)
        d = 1
        while d < it.ndim:
            v += it.st[d][0]
            x += it.st[d][1]
            at[d] += 1
            if at[d] < it.sizes[d]:
                break
            v -= at[d] * it.st[d][0]
            x -= at[d] * it.st[d][1]
            at[d] = 0
            d += 1
        if d >= it.ndim:
            return


cdef void move_words(const Pick* p, char* v, char* x, int64_t first, int64_t end, bint write,
                     const word* tag) noexcept nogil:
    """Index positions [first, end) where each one is a single element."""
    cdef int64_t i
    for i in range(first, end):
        if write:
            (<word*> (x + p.offsets[i]))[0] = (<word*> (v + i * p.step))[0]
        else:
            (<word*> (v + i * p.step))[0] = (<word*> (x + p.offsets[i]))[0]


cdef void move_positions(const Pick* p, int64_t before, int64_t first, int64_t end, bint write, bint add,
                         Loop loop) noexcept nogil:
    """Index positions [first, end) at one place of the dimensions before them."""
    cdef char* v = p.v
    cdef char* x = p.x
    cdef int64_t i, bytes = p.after.sizes[0] * ITEMSIZE[p.dtype]
    cdef int size = ITEMSIZE[p.dtype], d
    for d in range(p.before.ndim):
        v += before % p.before.sizes[d] * p.before.st[d][0]
        x += before % p.before.sizes[d] * p.before.st[d][1]
        before = before // p.before.sizes[d]
    if p.after.numel == 1 and not add:
        if size == 4:
            move_words[uint32_t](p, v, x, first, end, write, NULL)
        elif size == 8:
            move_words[uint64_t](p, v, x, first, end, write, NULL)
        elif size == 1:
            move_words[uint8_t](p, v, x, first, end, write, NULL)
        elif size == 2:
            move_words[uint16_t](p, v, x, first, end, write, NULL)
        else:
            move_words[sixteen](p, v, x, first, end, write, NULL)
    elif p.after.ndim == 1 and p.after.st[0][0] == size and p.after.st[0][1] == size and not add:
        for i in range(first, end):
            if write:
                memcpy(x + p.offsets[i], v + i * p.step, bytes)
            else:
                memcpy(v + i * p.step, x + p.offsets[i], bytes)
    else:
        for i in range(first, end):
            move_part(p, v + i * p.step, x + p.offsets[i], write, loop)


cdef void pick_threads(const Pick* p, bint write, bint add, Loop loop) noexcept nogil:
    """Reading splits over threads; writing keeps the order of the index, so repeated indices give one result."""
    cdef int64_t i, b, chunks, tasks, per
    cdef int64_t work = p.n * p.after.numel * p.before.numel
    cdef int threads = num_threads() if not write and work >= GRAIN else 1
    if threads == 1:
        for b in range(p.before.numel):
            move_positions(p, b, 0, p.n, write, add, loop)
        return
    per = (8192 + p.after.numel - 1) // p.after.numel
    chunks = (p.n + per - 1) // per
    tasks = chunks * p.before.numel
    for i in prange(tasks, num_threads=threads, schedule="static"):
        move_positions(p, i // chunks, i % chunks * per, min((i % chunks + 1) * per, p.n), write, add, loop)


cdef void pick_run(Pick* p, bint write, bint add) noexcept:
    """Move everything, and give the offsets back."""
    cdef Loop loop = <Loop> hand_kernel(H_ADD_AT if add else H_CAST + p.dtype, p.dtype)
    cdef int64_t work = p.n * p.after.numel * p.before.numel
    if 0 < work < NOGIL:
        pick_threads(p, write, add, loop)
    elif work:
        with nogil:
            pick_threads(p, write, add, loop)
    free(p.offsets)


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
