# Elements under a mask: nonzero, masked_select, masked_scatter, masked_fill. What holds is counted first, chunk by
# chunk, so that results have their final size at once and threads know where their part goes.

cdef enum:
    MARKED = 16384         # elements of a chunk

cdef struct Marks:
    Walk walk              # operand 0: what is tested for nonzero; operand 1: elements to be read or written
    int size               # bytes of an element of operand 0
    uint64_t bits          # those of its words that count: not the sign of a float, since -0.0 is zero


cdef void marks_open(Marks* m, const Meta* flags, const Meta* x, int ndim, const int64_t* sizes) noexcept nogil:
    cdef int code = flags.dtype
    walk_over(&m.walk, flags, x, ndim, sizes)
    m.size = ITEMSIZE[code]
    m.bits = ~<uint64_t> 0
    if code == FLOAT16 or code == BFLOAT16:
        m.bits = 0x7FFF
    elif code == FLOAT32:
        m.bits = 0x7FFFFFFF
    elif code == COMPLEX64:
        m.bits = 0x7FFFFFFF7FFFFFFF
    elif code == FLOAT64 or code == COMPLEX128:
        m.bits = 0x7FFFFFFFFFFFFFFF


cdef void test_words(const word* x, int64_t st, int64_t n, uint64_t bits, uint8_t* out) noexcept nogil:
    cdef int64_t i
    cdef const word* p
    for i in range(n):
        p = <const word*> (<const char*> x + i * st)
        if word is sixteen:
            out[i] = ((p.low | p.high) & bits) != 0
        else:
            out[i] = (p[0] & bits) != 0


cdef void test_block(const Marks* m, const char* x, int64_t n, uint8_t* out) noexcept nogil:
    cdef int64_t st = m.walk.st[0][0]
    if m.size == 1:
        test_words[uint8_t](<const uint8_t*> x, st, n, m.bits, out)
    elif m.size == 2:
        test_words[uint16_t](<const uint16_t*> x, st, n, m.bits, out)
    elif m.size == 4:
        test_words[uint32_t](<const uint32_t*> x, st, n, m.bits, out)
    elif m.size == 8:
        test_words[uint64_t](<const uint64_t*> x, st, n, m.bits, out)
    else:
        test_words[sixteen](<const sixteen*> x, st, n, m.bits, out)


cdef int64_t places_of(const uint8_t* hit, int64_t n, int32_t* places) noexcept nogil:
    """Where `hit` is 1; returns how many. A jump for each element would be guessed wrong half of the time."""
    cdef int64_t i = 0, j = 0, k
    cdef uint64_t eight
    while i + 8 <= n:
        memcpy(&eight, hit + i, 8)
        if eight:
            for k in range(8):
                places[j] = <int32_t> (i + k)
                j += hit[i + k]
        i += 8
    for k in range(i, n):
        places[j] = <int32_t> k
        j += hit[k]
    return j


cdef int64_t count_chunk(const Marks* m, int64_t chunk) noexcept nogil:
    cdef uint8_t hit[BLOCK]
    cdef int64_t c[MAXDIM]
    cdef char* q[WALKERS]
    cdef int64_t at = chunk * MARKED, end = min(at + MARKED, m.walk.numel), run, i, total = 0
    walk_seek(&m.walk, at, c, q)
    while at < end:
        run = min(min(m.walk.sizes[0] - c[0], end - at), BLOCK)
        test_block(m, q[0], run, hit)
        for i in range(run):
            total += hit[i]
        walk_on(&m.walk, run, c, q)
        at += run
    return total


cdef void count_chunks(const Marks* m, int64_t* counts, int64_t chunks, int threads) noexcept nogil:
    cdef int64_t i
    if threads == 1:
        for i in range(chunks):
            counts[i] = count_chunk(m, i)
        return
    for i in prange(chunks, num_threads=threads, schedule="static"):
        counts[i] = count_chunk(m, i)


cdef int64_t* chunk_starts(const Marks* m, int64_t* chunks, int64_t* total) except NULL:
    """How many elements hold before each chunk, to be freed by the caller."""
    cdef int64_t n = m.walk.numel, i, k
    cdef int64_t* counts
    cdef int threads = num_threads() if n >= GRAIN else 1
    chunks[0] = (n + MARKED - 1) // MARKED
    counts = <int64_t*> malloc(chunks[0] * sizeof(int64_t) + 1)
    if counts == NULL:
        raise MemoryError()
    if n < NOGIL:
        count_chunks(m, counts, chunks[0], 1)
    else:
        with nogil:
            count_chunks(m, counts, chunks[0], threads)
    total[0] = 0
    for i in range(chunks[0]):
        k = counts[i]
        counts[i] = total[0]
        total[0] += k
    return counts


# ---- positions

cdef void chunk_positions(const Marks* m, const Meta* x, int64_t chunk, int64_t j, int64_t stop, int64_t* out,
                          int64_t total) noexcept nogil:
    """Coordinates of the elements of a chunk that hold, one column of `total` for each dimension, from row j on.

    stop: the first row of the next chunk. Another thread may have changed x since it was counted.
    """
    cdef uint8_t hit[BLOCK]
    cdef int32_t places[BLOCK]
    cdef int64_t c[MAXDIM]
    cdef int64_t place[MAXDIM]
    cdef char* q[WALKERS]
    cdef int64_t at = chunk * MARKED, end = min(at + MARKED, m.walk.numel), run, i, k, rest
    cdef int64_t row = -1, last = x.sizes[x.ndim - 1]      # the first element of the row that `place` is of
    cdef int d
    walk_seek(&m.walk, at, c, q)
    while at < end:
        run = min(min(m.walk.sizes[0] - c[0], end - at), BLOCK)
        test_block(m, q[0], run, hit)
        for k in range(min(places_of(hit, run, places), stop - j)):
            i = at + places[k]
            if row < 0 or i >= row + last:
                rest = i // last
                row = rest * last
                for d in range(x.ndim - 2, -1, -1):
                    place[d] = rest % x.sizes[d]
                    rest = rest // x.sizes[d]
            for d in range(x.ndim - 1):
                out[d * total + j] = place[d]
            out[(x.ndim - 1) * total + j] = i - row
            j += 1
        walk_on(&m.walk, run, c, q)
        at += run
    while j < stop:
        for d in range(x.ndim):
            out[d * total + j] = 0
        j += 1


cdef void all_positions(const Marks* m, const Meta* x, const int64_t* starts, int64_t chunks, int64_t* out,
                        int64_t total, int threads) noexcept nogil:
    cdef int64_t i
    if threads == 1:
        for i in range(chunks):
            chunk_positions(m, x, i, starts[i], starts[i + 1] if i + 1 < chunks else total, out, total)
        return
    for i in prange(chunks, num_threads=threads, schedule="static"):
        chunk_positions(m, x, i, starts[i], starts[i + 1] if i + 1 < chunks else total, out, total)


cdef Storage op_nonzero(Meta* y, Meta* x):
    cdef Marks m
    cdef Storage s
    cdef int64_t sizes[2]
    cdef int64_t strides[2]
    cdef int64_t chunks = 0
    cdef int64_t* starts = NULL
    cdef int threads = num_threads() if x.numel >= GRAIN else 1
    sizes[0] = 0
    if x.numel:
        marks_open(&m, x, NULL, x.ndim, x.sizes)
        starts = chunk_starts(&m, &chunks, &sizes[0])
    sizes[1] = x.ndim
    strides[0], strides[1] = 1, sizes[0]
    try:
        meta_strided(y, 2, sizes, strides, INT64, NULL)
        s = allocate(y)
        if sizes[0] and x.ndim:
            with nogil:
                all_positions(&m, x, starts, chunks, <int64_t*> y.data, sizes[0], threads)
    finally:
        free(starts)
    return s


# ---- elements

cdef enum:                 # what is done with the elements under a mask
    PACK = 0               # they are written to v one after another
    UNPACK = 1             # they receive the elements of v one after another
    FILL = 2               # they receive the one element v


cdef void marked_words(word* x, int64_t st, const int32_t* places, int64_t n, word* v, int how) noexcept nogil:
    cdef int64_t j
    cdef word* p
    for j in range(n):
        p = <word*> (<char*> x + places[j] * st)
        if how == PACK:
            v[j] = p[0]
        elif how == UNPACK:
            p[0] = v[j]
        else:
            p[0] = v[0]


cdef void marked_block(char* x, int64_t st, const int32_t* places, int64_t n, char* v, int how, int size) noexcept nogil:
    if size == 1:
        marked_words[uint8_t](<uint8_t*> x, st, places, n, <uint8_t*> v, how)
    elif size == 2:
        marked_words[uint16_t](<uint16_t*> x, st, places, n, <uint16_t*> v, how)
    elif size == 4:
        marked_words[uint32_t](<uint32_t*> x, st, places, n, <uint32_t*> v, how)
    elif size == 8:
        marked_words[uint64_t](<uint64_t*> x, st, places, n, <uint64_t*> v, how)
    else:
        marked_words[sixteen](<sixteen*> x, st, places, n, <sixteen*> v, how)


cdef void marked_chunk(const Marks* m, int64_t chunk, char* v, int64_t j, int64_t stop, int how, int size) noexcept nogil:
    """j: the element of v that belongs to the first one of the chunk that holds; stop: that of the next chunk."""
    cdef uint8_t hit[BLOCK]
    cdef int32_t places[BLOCK]
    cdef int64_t c[MAXDIM]
    cdef char* q[WALKERS]
    cdef int64_t at = chunk * MARKED, end = min(at + MARKED, m.walk.numel), run, n
    walk_seek(&m.walk, at, c, q)
    while at < end:
        run = min(min(m.walk.sizes[0] - c[0], end - at), BLOCK)
        test_block(m, q[0], run, hit)
        n = places_of(hit, run, places)
        if how != FILL:
            n = min(n, stop - j)
        marked_block(q[1], m.walk.st[0][1], places, n, v + j * size, how, size)
        if how != FILL:
            j += n
        walk_on(&m.walk, run, c, q)
        at += run


cdef void marked_chunks(const Marks* m, const int64_t* starts, int64_t chunks, int64_t total, char* v, int how,
                        int size, int threads) noexcept nogil:
    cdef int64_t i
    if threads == 1:
        for i in range(chunks):
            marked_chunk(m, i, v, starts[i] if starts != NULL else 0,
                         starts[i + 1] if starts != NULL and i + 1 < chunks else total, how, size)
        return
    for i in prange(chunks, num_threads=threads, schedule="static"):
        marked_chunk(m, i, v, starts[i] if starts != NULL else 0,
                     starts[i + 1] if starts != NULL and i + 1 < chunks else total, how, size)


cdef void run_marked(const Marks* m, const int64_t* starts, int64_t total, char* v, int how, int size) noexcept:
    cdef int64_t n = m.walk.numel, chunks = (n + MARKED - 1) // MARKED
    cdef int threads = num_threads() if n >= GRAIN else 1
    if n < NOGIL:
        marked_chunks(m, starts, chunks, total, v, how, size, 1)
    else:
        with nogil:
            marked_chunks(m, starts, chunks, total, v, how, size, threads)


cdef int check_mask(str op, Meta* mask) except -1:
    if mask.dtype != BOOL:
        raise RuntimeError(f"{op}: a mask of bool is wanted, got {name_of(mask.dtype)}")
    return 0


cdef Storage op_masked_select(Meta* y, Meta* x, Meta* mask):
    cdef Meta* operands[2]
    cdef Meta whole
    cdef Marks m
    cdef Storage s
    cdef int64_t sizes[MAXDIM]
    cdef int64_t total = 0, chunks, numel
    cdef int64_t* starts = NULL
    cdef int ndim
    check_mask("masked_select", mask)
    operands[0], operands[1] = x, mask
    ndim = broadcast_shapes(operands, 2, sizes)
    memset(&whole, 0, sizeof(Meta))
    meta_contig(&whole, ndim, sizes, BOOL)     # refuses what cannot be counted
    numel = whole.numel
    meta_clear(&whole)
    if numel:
        marks_open(&m, mask, x, ndim, sizes)
        starts = chunk_starts(&m, &chunks, &total)
    try:
        s = allocate_contig(y, 1, &total, x.dtype)
        if total:
            run_marked(&m, starts, total, y.data, PACK, ITEMSIZE[x.dtype])
    finally:
        free(starts)
    return s


cdef int check_spread(str op, Meta* x, Meta* mask) except -1:
    """Whether the mask broadcasts to x's shape."""
    cdef int d, lead = x.ndim - mask.ndim
    cdef bint fits = lead >= 0
    check_mask(op, mask)
    for d in range(mask.ndim if fits else 0):
        fits = fits and (mask.sizes[d] == 1 or mask.sizes[d] == x.sizes[d + lead])
    if not fits:
        raise RuntimeError(f"{op}: a mask of shape {shape_text(mask)} does not broadcast to the shape {shape_text(x)} of "
                           "the tensor")
    return check_writable(op, x)


cdef int masked_fill_into(Meta* x, Meta* mask, Meta* value) except -1:
    """value: one element of x's dtype."""
    cdef Marks m
    cdef Meta flags
    cdef Storage keep
    check_spread("masked_fill_", x, mask)
    if x.numel:
        memset(&flags, 0, sizeof(Meta))
        keep = aside(&flags, x, mask)
        marks_open(&m, &flags, x, x.ndim, x.sizes)
        run_marked(&m, NULL, 1, value.data, FILL, ITEMSIZE[x.dtype])
        meta_clear(&flags)
    return 0


cdef int masked_scatter_into(Meta* x, Meta* mask, Meta* source) except -1:
    if x.dtype != source.dtype:
        raise RuntimeError(f"masked_scatter: the tensor has dtype {name_of(x.dtype)}, the source "
                           f"{name_of(source.dtype)}: the same dtype is wanted")
    check_spread("masked_scatter", x, mask)
    return unpack_into(x, mask, source, False)


cdef int unpack_into(Meta* x, Meta* mask, Meta* source, bint exact) except -1:
    """The elements of source where the mask holds; exact: no more of them than are needed."""
    cdef Marks m
    cdef Meta held, flags
    cdef Storage keep, keep_flags
    cdef int64_t total = 0, chunks = 0
    cdef int64_t* starts = NULL
    memset(&held, 0, sizeof(Meta))
    memset(&flags, 0, sizeof(Meta))
    try:
        keep_flags = aside(&flags, x, mask)
        if x.numel:
            marks_open(&m, &flags, x, x.ndim, x.sizes)
            starts = chunk_starts(&m, &chunks, &total)
        if exact and total != source.numel:
            raise RuntimeError(f"shape mismatch: a value of shape {shape_text(source)} does not broadcast to the "
                               f"indexing result of shape [{total}]")
        if total > source.numel:
            raise RuntimeError(f"masked_scatter: the mask holds for {total} elements, the source has {source.numel}")
        if source.flags & CONTIGUOUS and not may_share_memory(x, source):
            meta_like(&held, source)
        else:
            keep = op_clone(&held, source, source.dtype, True)
        if total:
            run_marked(&m, starts, total, held.data, UNPACK, ITEMSIZE[x.dtype])
    finally:
        free(starts)
        meta_clear(&held)
        meta_clear(&flags)
    return 0
