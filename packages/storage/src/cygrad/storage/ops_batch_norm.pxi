# Batch normalisation: one pass for a channel's mean and variance and one for its result, while the channel is still in the
# cache; the same for the gradients. Images may have channels first or last.
# Invariant: a channel is one thread's, so no result depends on the number of threads.

cdef enum:
    CHANNELS = 16              # that are computed together where they lie side by side; as in kernels/batch_norm.pxi

ctypedef void (*ScaleLoop)(char* y, const char* x, int64_t m, int64_t n, int64_t stride, const double* c) noexcept nogil
ctypedef void (*SumsLoop)(double* acc, const char* g, const char* x, int64_t m, int64_t n, int64_t stride,
                          const double* mean) noexcept nogil
ctypedef void (*BackLoop)(char* y, const char* g, const char* x, int64_t m, int64_t n, int64_t stride, const double* c) noexcept nogil

cdef struct Channels:
    int dtype
    int64_t channels, count    # elements of a channel
    int64_t lines, length      # a channel is so many lines of so many elements
    int64_t line, step         # elements from one line to the next, and from one element of a channel to the next
    int64_t together, size     # channels of a part; bytes of an element
    double eps
    char* y
    char* stats                # mean, reciprocal of the standard deviation, variance
    char* sums                 # of the gradient, and of it times the normalised input
    const char* x
    const char* g
    const char* w
    const char* b
    Reduce var
    ScaleLoop scale
    SumsLoop add
    BackLoop back

ctypedef void (*ChannelsPart)(const Channels* p, int64_t first, int64_t m) noexcept nogil


cdef bint channels_last(const Meta* x) noexcept:
    """Whether the second dimension is the innermost of a dense x."""
    cdef int64_t expected = x.sizes[1]
    cdef int d
    if x.sizes[1] > 1 and x.strides[1] != 1:
        return False
    for d in range(x.ndim - 1, 0, -1):
        if d > 1 and x.sizes[d] > 1 and x.strides[d] != expected:
            return False
        expected *= x.sizes[d] if d > 1 else 1
    return x.sizes[0] <= 1 or x.strides[0] == expected


cdef list channels_held(Channels* p, Meta* held, Meta** operands, int n, int images):
    """Operands as the loops take them, the first `images` of which have the input's shape; what is returned keeps them."""
    cdef list keep = []
    cdef Meta* x = operands[0]
    cdef bint last = x.ndim >= 2
    cdef int i
    if x.ndim < 2 or not is_float(COMPUTED[x.dtype]):
        raise RuntimeError(f"batch_norm: a floating point input of at least two dimensions is wanted, got {name_of(x.dtype)} of shape "
                           f"{shape_text(x)}")
    memset(p, 0, sizeof(Channels))
    for i in range(n):
        if operands[i].dtype != x.dtype:
            raise RuntimeError(f"batch_norm: operands of one dtype are wanted, got {name_of(x.dtype)} and {name_of(operands[i].dtype)}")
        if i < images:
            last = last and channels_last(operands[i]) and COMPUTED[x.dtype] == x.dtype
    for i in range(n):
        if i < images and last:
            meta_like(&held[i], operands[i])
        else:
            keep.append(rowmajor(&held[i], operands[i]))
    p.dtype, p.channels = held[0].dtype, x.sizes[1]
    p.size, p.count = ITEMSIZE[p.dtype], x.numel // max(<int64_t> 1, x.sizes[1])
    p.lines = 1 if last else x.sizes[0]
    p.length = p.count // max(<int64_t> 1, p.lines)
    p.line, p.step = p.channels * p.length, p.channels if last else 1
    p.together = CHANNELS if last else 1
    p.x = held[0].data
    p.var, p.scale = <Reduce> hand_kernel(H_VAR, p.dtype), <ScaleLoop> hand_kernel(H_SCALE, p.dtype)
    p.add, p.back = <SumsLoop> hand_kernel(H_SCALE_SUMS, p.dtype), <BackLoop> hand_kernel(H_SCALE_BACK, p.dtype)
    return keep


cdef inline int64_t channel_at(const Channels* p, int64_t first, int64_t line) noexcept nogil:
    """Bytes before line `line` of channel `first`."""
    return (line * p.line + first * (1 if p.together > 1 else p.length)) * p.size


cdef inline double channel_get(const Channels* p, const char* a, int64_t i) noexcept nogil:
    return (<const float*> a)[i] if p.dtype == FLOAT32 else (<const double*> a)[i]


cdef inline void channel_set(const Channels* p, char* a, int64_t i, double value) noexcept nogil:
    if p.dtype == FLOAT32:
        (<float*> a)[i] = <float> value
    else:
        (<double*> a)[i] = value


cdef void channel_part(const Channels* p, int64_t first, int64_t m) noexcept nogil:
    """Statistics and results."""
    cdef double acc[PLANES * PLANE]
    cdef double c[3 * CHANNELS]
    cdef double var, scale
    cdef int64_t i, j
    for i in range(p.lines):
        p.var(<char*> acc, p.x + channel_at(p, first, i), m, p.size, p.length, p.step * p.size, 0,
              (0 if i else FIRST) | (ACROSS if p.together > 1 else 0), 0)
    for j in range(m):
        var = acc[2 * PLANE + j] / acc[j]
        scale = 1 / sqrt(var + p.eps)
        channel_set(p, p.stats, first + j, acc[PLANE + j])
        channel_set(p, p.stats, p.channels + first + j, scale)
        channel_set(p, p.stats, 2 * p.channels + first + j, var)
        c[j], c[CHANNELS + j] = acc[PLANE + j], scale * channel_get(p, p.w, first + j)
        c[2 * CHANNELS + j] = channel_get(p, p.b, first + j)
    for i in range(p.lines):
        p.scale(p.y + channel_at(p, first, i), p.x + channel_at(p, first, i), m, p.length, p.step, c)


cdef void channel_sums_part(const Channels* p, int64_t first, int64_t m) noexcept nogil:
    cdef double acc[2 * CHANNELS]
    cdef double mean[CHANNELS]
    cdef int64_t i, j
    memset(acc, 0, sizeof(acc))
    for j in range(m):
        mean[j] = channel_get(p, p.stats, first + j)
    for i in range(p.lines):
        p.add(acc, p.g + channel_at(p, first, i), p.x + channel_at(p, first, i), m, p.length, p.step, mean)
    for j in range(m):
        channel_set(p, p.sums, first + j, acc[j])
        channel_set(p, p.sums, p.channels + first + j, acc[CHANNELS + j] * channel_get(p, p.stats, p.channels + first + j))


cdef void channel_input_part(const Channels* p, int64_t first, int64_t m) noexcept nogil:
    """weight * scale * (g - mean of g - normalised input * mean of g times normalised input)"""
    cdef double c[4 * CHANNELS]
    cdef double scale, factor
    cdef int64_t i, j
    for j in range(m):
        scale = channel_get(p, p.stats, p.channels + first + j)
        factor = scale * channel_get(p, p.w, first + j)
        c[j], c[CHANNELS + j] = channel_get(p, p.stats, first + j), factor
        c[2 * CHANNELS + j] = -factor * scale * channel_get(p, p.sums, p.channels + first + j) / p.count
        c[3 * CHANNELS + j] = -factor * channel_get(p, p.sums, first + j) / p.count
    for i in range(p.lines):
        p.back(p.y + channel_at(p, first, i), p.g + channel_at(p, first, i), p.x + channel_at(p, first, i), m, p.length, p.step, c)


cdef int channels_run(const Channels* p, ChannelsPart run) except -1:
    cdef int64_t i, parts = (p.channels + p.together - 1) // p.together
    cdef int threads = num_threads() if parts > 1 and p.count * p.channels >= GRAIN else 1
    if p.count == 0:
        return 0
    with nogil:
        if threads == 1:
            for i in range(parts):
                run(p, i * p.together, min(p.together, p.channels - i * p.together))
        else:
            for i in prange(parts, num_threads=threads, schedule="dynamic"):
                run(p, i * p.together, min(p.together, p.channels - i * p.together))
    return 0


cdef tuple op_batch_norm(Meta* y, Meta* stats, Meta* x, Meta* w, Meta* b, double eps):
    """Normalised x, and its statistics as rows: mean, reciprocal of the standard deviation, variance."""
    cdef Channels p
    cdef Meta held[3]
    cdef Meta* operands[3]
    cdef int64_t shape[2]
    cdef Storage s, t
    cdef int i
    operands[0], operands[1], operands[2] = x, w, b
    memset(held, 0, sizeof(held))
    try:
        keep = channels_held(&p, held, operands, 3, 1)
        if w.numel != p.channels or b.numel != p.channels:
            raise RuntimeError(f"batch_norm: weight and bias of {p.channels} elements are wanted, got shapes {shape_text(w)} and "
                               f"{shape_text(b)}")
        meta_dense_like(y, &held[0], p.dtype)
        s = meta_storage(y)
        shape[0], shape[1] = 3, p.channels
        t = allocate_contig(stats, 2, shape, p.dtype)
        p.w, p.b, p.y, p.stats, p.eps = held[1].data, held[2].data, y.data, stats.data, eps
        channels_run(&p, channel_part)
    finally:
        for i in range(3):
            meta_clear(&held[i])
    return recast(y, s, x.dtype), recast(stats, t, x.dtype)


cdef int check_channels(str op, const Channels* p, Meta* x, Meta* g, Meta* stats, Meta* sums) except -1:
    """The gradient has the input's shape, the other tables the sizes that were read from it; sums may be NULL."""
    if not meta_same_shape(g, x):
        raise RuntimeError(f"{op}: the gradient has shape {shape_text(g)}, the input {shape_text(x)}: the same shape is wanted")
    if stats.numel != 3 * p.channels or (sums != NULL and sums.numel != 2 * p.channels):
        raise RuntimeError(f"{op}: statistics of {p.channels} channels are wanted, got tables of shapes {shape_text(stats)}"
                           f"{' and ' + shape_text(sums) if sums != NULL else ''}")
    return 0


cdef Storage op_batch_norm_sums(Meta* y, Meta* g, Meta* x, Meta* stats):
    """Sums of g and of g times the normalised x over each channel, as two rows."""
    cdef Channels p
    cdef Meta held[3]
    cdef Meta* operands[3]
    cdef int64_t shape[2]
    cdef Storage s
    cdef int i
    operands[0], operands[1], operands[2] = x, g, stats
    memset(held, 0, sizeof(held))
    try:
        keep = channels_held(&p, held, operands, 3, 2)
        check_channels("batch_norm_sums", &p, x, g, stats, NULL)
        shape[0], shape[1] = 2, p.channels
        s = allocate_contig(y, 2, shape, p.dtype)
        fill_double(y, 0)
        p.g, p.stats, p.sums = held[1].data, held[2].data, y.data
        channels_run(&p, channel_sums_part)
    finally:
        for i in range(3):
            meta_clear(&held[i])
    return recast(y, s, x.dtype)


cdef Storage op_batch_norm_input(Meta* y, Meta* g, Meta* x, Meta* w, Meta* stats, Meta* sums):
    """The gradient for x, from `sums` of op_batch_norm_sums."""
    cdef Channels p
    cdef Meta held[5]
    cdef Meta* operands[5]
    cdef Storage s
    cdef int i
    operands[0], operands[1], operands[2], operands[3], operands[4] = x, g, w, stats, sums
    memset(held, 0, sizeof(held))
    try:
        keep = channels_held(&p, held, operands, 5, 2)
        check_channels("batch_norm_input", &p, x, g, stats, sums)
        if w.numel != p.channels:
            raise RuntimeError(f"batch_norm_input: a weight of {p.channels} elements is wanted, got shape {shape_text(w)}")
        meta_dense_like(y, &held[0], p.dtype)
        s = meta_storage(y)
        p.g, p.w, p.stats, p.sums, p.y = held[1].data, held[2].data, held[3].data, held[4].data, y.data
        channels_run(&p, channel_input_part)
    finally:
        for i in range(5):
            meta_clear(&held[i])
    return recast(y, s, x.dtype)
