# Recurrent layers: one direction of one layer over whole sequences. Sequences are independent of one another, so chunks of
# them go to the threads, each with all its steps.
# Invariant: chunks depend on sizes only, and no element on its chunk, so every thread count gives the same bits.

cdef enum:
    TALL_CHUNK = 8             # rows of the smallest chunk, a tile of the kernels
    CHUNKS = 16                # at most, where the weights stay in a core's cache
    FEW_CHUNKS = 4             # at most, where every chunk reads them from memory again and again
    CACHED_WEIGHTS = 1 << 20   # bytes

cdef dict RECURRENT_MODES = {"RNN_TANH": (PLAN_TANH, 1, 0), "RNN_RELU": (PLAN_RELU, 1, 0), "LSTM": (PLAN_LSTM, 4, 5),
                             "GRU": (PLAN_GRU, 3, 4)}       # number, gates, blocks of H columns kept for the gradient


cdef int recurrent_plan(RecurrentPlan* p, str mode, bint backwards, int64_t batch, int64_t hidden, int64_t rows, int64_t* numbers,
                        int64_t steps) except -1:
    """`numbers`: the count of each step, and as much room again for their starts."""
    cdef int64_t t, total = 0, most
    memset(p, 0, sizeof(RecurrentPlan))
    if mode not in RECURRENT_MODES:
        raise RuntimeError(f"recurrent: one of {', '.join(RECURRENT_MODES)} is wanted, got {mode}")
    p.mode, p.gates, p.kept_columns = RECURRENT_MODES[mode]
    p.backwards, p.batch, p.hidden, p.steps, p.counts, p.starts = backwards, batch, hidden, steps, numbers, numbers + steps
    for t in range(steps):
        if numbers[t] < 1 or numbers[t] > (numbers[t - 1] if t else batch) or (t == 0 and numbers[t] != batch):
            raise RuntimeError(f"recurrent: counts of steps begin with the batch size {batch} and never grow, got "
                               f"{[numbers[i] for i in range(steps)]}")
        numbers[steps + t] = total
        total += numbers[t]
    if total != rows:
        raise RuntimeError(f"recurrent: the steps have {total} rows together, the gates {rows}")
    most = FEW_CHUNKS if p.gates * hidden * hidden * 4 > CACHED_WEIGHTS else CHUNKS
    p.tall = ((batch + most - 1) // most + TALL_CHUNK - 1) // TALL_CHUNK * TALL_CHUNK
    return 0


cdef int check_recurrent(str what, Meta* x, int ndim, int64_t rows, int64_t columns, int code) except -1:
    """A row-major operand of the shape that the plan wants; NULL is one that is absent."""
    if x == NULL:
        return 0
    if (x.ndim != ndim or x.sizes[ndim - 1] != columns or (ndim == 2 and x.sizes[0] != rows) or x.dtype != code
            or not x.flags & CONTIGUOUS):
        raise RuntimeError(f"recurrent: {what} must be row-major, of shape {[rows, columns][2 - ndim:]} and dtype {name_of(code)}, "
                           f"got shape {shape_text(x)}, strides {list(stride_tuple(x))} and {name_of(x.dtype)}")
    return 0


cdef void* packed_weights(const Meta* w, int64_t depth, int64_t columns, int64_t down, int64_t right,
                          int64_t* nbytes) noexcept:
    """A block with the weights as the kernels want them, or NULL."""
    cdef int64_t panel = (<RecurrentPanel> hand_kernel(H_RECURRENT_PANEL, w.dtype))()
    cdef void* packed
    nbytes[0] = depth * ((columns + panel - 1) // panel * panel) * ITEMSIZE[w.dtype]
    packed = block_alloc(nbytes[0])
    if packed != NULL:
        (<RecurrentPack> hand_kernel(H_RECURRENT_PACK, w.dtype))(packed, w.data, depth, columns, down, right)
    return packed


cdef int run_recurrent(RecurrentPlan* p, int kid, Meta* w, int64_t depth, int64_t columns, int64_t down, int64_t right,
                       int64_t rows) except -1:
    cdef RecurrentSteps kernel = <RecurrentSteps> hand_kernel(kid, w.dtype)
    cdef int64_t chunks = (p.batch + p.tall - 1) // p.tall, nbytes = 0, i
    cdef int64_t each = ((<RecurrentScratch> hand_kernel(H_RECURRENT_SCRATCH, w.dtype))(p) * ITEMSIZE[w.dtype] + 63) // 64 * 64
    cdef int threads = num_threads() if chunks > 1 and rows * depth * columns >= SPLIT_WORK else 1
    cdef void* packed = packed_weights(w, depth, columns, down, right, &nbytes)
    cdef char* scratch = <char*> block_alloc(each * chunks)
    try:
        if packed == NULL or scratch == NULL:
            raise MemoryError(f"no memory for {nbytes + each * chunks} bytes of packed weights and gates")
        p.w = <const char*> packed
        with nogil:
            if threads == 1:
                for i in range(chunks):
                    kernel(p, i * p.tall, scratch + i * each)
            else:
                for i in prange(chunks, num_threads=threads, schedule="dynamic"):
                    kernel(p, i * p.tall, scratch + i * each)
    finally:
        if packed != NULL:
            block_free(packed, nbytes)
        if scratch != NULL:
            block_free(scratch, each * chunks)
    return 0


cdef tuple op_recurrent(Meta** y, Meta** x, str mode, bint backwards, int64_t steps, int64_t* numbers, bint keep):
    cdef RecurrentPlan p
    cdef Meta* gates = x[0]
    cdef Meta* w = x[1]
    cdef Meta* h = x[3]
    cdef int64_t sizes[2]
    cdef int64_t wide
    cdef int code = gates.dtype
    cdef Storage s, c = None, kept = None
    if gates.ndim != 2 or h.ndim != 2 or code not in (FLOAT32, FLOAT64):
        raise RuntimeError(f"recurrent: matrices of float32 or float64 are wanted, got shapes {shape_text(gates)} and "
                           f"{shape_text(h)} of {name_of(code)}")
    recurrent_plan(&p, mode, backwards, h.sizes[0], h.sizes[1], gates.sizes[0], numbers, steps)
    wide = p.gates * p.hidden
    check_recurrent("gates", gates, 2, gates.sizes[0], wide, code)
    check_recurrent("weights", w, 2, wide, p.hidden, code)
    check_recurrent("biases", x[2], 1, 0, wide, code)
    check_recurrent("states", h, 2, p.batch, p.hidden, code)
    check_recurrent("cells", x[4], 2, p.batch, p.hidden, code)
    if (x[4] != NULL) != (p.mode == PLAN_LSTM):
        raise RuntimeError(f"recurrent: an LSTM, and nothing else, has cells; got mode {mode}")
    sizes[0], sizes[1] = gates.sizes[0], p.hidden
    try:
        s = allocate_contig(y[0], 2, sizes, code)
        if p.mode == PLAN_LSTM:
            c = allocate_contig(y[1], 2, sizes, code)
        sizes[1] = p.kept_columns * p.hidden
        if keep and p.kept_columns:
            kept = allocate_contig(y[2], 2, sizes, code)
        p.x, p.h0, p.y = gates.data, h.data, y[0].data
        p.bias = NULL if x[2] == NULL else x[2].data
        p.c0 = NULL if x[4] == NULL else x[4].data
        p.c, p.kept = y[1].data, y[2].data
        if y[0].numel:
            run_recurrent(&p, H_RECURRENT_FORWARD, w, p.hidden, wide, 1, p.hidden, gates.sizes[0])
    except BaseException:
        meta_clear(y[0])
        meta_clear(y[1])
        meta_clear(y[2])
        raise
    return s, c, kept


cdef list op_recurrent_backward(Meta** y, Meta** x, str mode, bint backwards, int64_t steps, int64_t* numbers):
    cdef RecurrentPlan p
    cdef Meta* g = x[0]
    cdef Meta* w = x[2]
    cdef Meta* h = x[3]
    cdef int64_t sizes[2]
    cdef int64_t wide
    cdef int code = g.dtype, k
    cdef list storages = [None] * 5
    if g.ndim != 2 or h.ndim != 2 or code not in (FLOAT32, FLOAT64):
        raise RuntimeError(f"recurrent_backward: matrices of float32 or float64 are wanted, got shapes {shape_text(g)} and "
                           f"{shape_text(h)} of {name_of(code)}")
    recurrent_plan(&p, mode, backwards, h.sizes[0], h.sizes[1], g.sizes[0], numbers, steps)
    wide = p.gates * p.hidden
    check_recurrent("gradients of results", g, 2, g.sizes[0], p.hidden, code)
    check_recurrent("gradients of cells", x[1], 2, g.sizes[0], p.hidden, code)
    check_recurrent("weights", w, 2, wide, p.hidden, code)
    check_recurrent("states", h, 2, p.batch, p.hidden, code)
    check_recurrent("first cells", x[4], 2, p.batch, p.hidden, code)
    check_recurrent("results", x[5], 2, g.sizes[0], p.hidden, code)
    check_recurrent("cells", x[6], 2, g.sizes[0], p.hidden, code)
    check_recurrent("gates", x[7], 2, g.sizes[0], p.kept_columns * p.hidden, code)
    if (x[4] != NULL and x[6] != NULL) != (p.mode == PLAN_LSTM) or (x[7] != NULL) != (p.kept_columns > 0):
        raise RuntimeError(f"recurrent_backward: what a mode keeps is wanted, got something else for {mode}")
    try:
        sizes[0], sizes[1] = g.sizes[0], p.hidden
        storages[4] = allocate_contig(y[4], 2, sizes, code)
        sizes[1] = wide
        storages[0] = allocate_contig(y[0], 2, sizes, code)
        if p.mode == PLAN_GRU:
            storages[1] = allocate_contig(y[1], 2, sizes, code)
        sizes[0], sizes[1] = p.batch, p.hidden
        storages[2] = allocate_contig(y[2], 2, sizes, code)
        if p.mode == PLAN_LSTM:
            storages[3] = allocate_contig(y[3], 2, sizes, code)
        p.gy, p.gc = g.data, NULL if x[1] == NULL else x[1].data
        p.h0, p.y = h.data, x[5].data
        p.c0, p.c = NULL if x[4] == NULL else x[4].data, NULL if x[6] == NULL else x[6].data
        p.kept = NULL if x[7] == NULL else x[7].data
        p.gx, p.gh0, p.gc0, p.before = y[0].data, y[2].data, y[3].data, y[4].data
        p.gh = y[1].data if p.mode == PLAN_GRU else p.gx
        if g.numel:
            run_recurrent(&p, H_RECURRENT_BACKWARD, w, wide, p.hidden, p.hidden, 1, g.sizes[0])
    except BaseException:
        for k in range(5):
            meta_clear(y[k])
        raise
    return storages
