# Pooling over windows of one to three dimensions, and patches as a tensor (unfold and fold). A window's places come from a
# geometry; the gradient of what is linear is its adjoint, which is an operation too.
# Invariant: a thread writes whole planes (one channel of one item), so no result depends on the number of threads.

cdef enum:
    POOL_NUMBERS = 5           # lists of a geometry: output sizes, window, stride, padding, dilation
    MEANS = 0                  # what is done with a plane
    SPREAD = 1
    TOPS = 2
    ADD = 3
    PICK = 4
    TOP_LANES = 16             # places that the loop of sliding maxima takes at once, at most
    TOP_LINE = 512             # elements that their windows may span

cdef struct Pool:              # sizes of three dimensions; missing ones have size 1
    int nd
    bint adaptive              # windows cut the input evenly; window, stride and padding mean nothing
    bint with_padding          # a mean counts elements of the padding
    int64_t divisor            # in place of the number of elements, unless 0
    int64_t size[3]
    int64_t out[3]
    int64_t window[3]
    int64_t stride[3]
    int64_t pad[3]
    int64_t dilation[3]
    int64_t planes, points, places
    int dtype
    const char* x
    char* y
    int64_t* index

ctypedef void (*TopLoop)(char* y, int64_t* index, const char* x, const int64_t* v) noexcept nogil

cdef struct Span:              # one dimension of one window, cut to the input
    int64_t start, stop, step, full


cdef int pool_geometry(Pool* p, str op, const int64_t* x, int ndim, int n, const int64_t* v) except -1:
    """``[nd, adaptive, with_padding, divisor, output sizes, window, stride, padding, dilation (each of nd numbers)]``."""
    cdef int i, k, nd = <int> v[0] if n else 0
    memset(p, 0, sizeof(Pool))
    if nd < 1 or nd > 3 or n != 4 + POOL_NUMBERS * nd or ndim < nd:
        raise RuntimeError(f"{op}: a geometry of {n} numbers does not fit an input of {ndim} dimensions")
    p.nd, p.adaptive, p.with_padding, p.divisor = nd, v[1] != 0, v[2] != 0, v[3]
    p.planes = p.points = p.places = 1
    for i in range(ndim - nd):
        p.planes *= x[i]
    for i in range(3):
        p.size[i] = p.out[i] = p.window[i] = p.stride[i] = p.dilation[i] = 1
    for i in range(nd):
        k = 3 - nd + i
        p.size[k], p.out[k] = x[ndim - nd + i], v[4 + i]
        p.window[k], p.stride[k] = v[4 + nd + i], v[4 + 2 * nd + i]
        p.pad[k], p.dilation[k] = v[4 + 3 * nd + i], v[4 + 4 * nd + i]
        if max(max(max(p.out[k], p.window[k]), max(p.stride[k], p.pad[k])), max(p.dilation[k], p.size[k])) > AT_MOST:
            raise RuntimeError(f"{op}: sizes, windows, strides, padding and dilation above 2147483647 are not supported")
        if p.out[k] < 0 or p.window[k] < 1 or p.stride[k] < 1 or p.pad[k] < 0 or p.dilation[k] < 1 or (p.size[k] == 0 and p.out[k]):
            raise RuntimeError(f"{op}: the geometry {[v[j] for j in range(n)]} does not fit an input of sizes "
                               f"{[x[j] for j in range(ndim)]}")
        if not p.adaptive and p.out[k] and (p.out[k] - 1) * p.stride[k] - p.pad[k] >= p.size[k]:
            raise RuntimeError(f"{op}: the last window starts outside an input of sizes {[x[j] for j in range(ndim)]}: geometry "
                               f"{[v[j] for j in range(n)]}")
    for i in range(3):
        p.points *= p.size[i]
        p.places *= p.out[i]
    return 0


cdef inline Span span_of(const Pool* p, int d, int64_t place) noexcept nogil:
    cdef Span s
    cdef int64_t end
    s.step = p.dilation[d]
    if p.adaptive:
        s.start = place * p.size[d] // p.out[d]
        s.stop = ((place + 1) * p.size[d] + p.out[d] - 1) // p.out[d]
        s.full = s.stop - s.start
        return s
    s.start = place * p.stride[d] - p.pad[d]
    end = min(s.start + p.dilation[d] * (p.window[d] - 1) + 1, p.size[d] + p.pad[d])
    s.full = end - s.start
    s.stop = min(end, p.size[d])
    if s.start < 0:
        s.start += (-s.start + s.step - 1) // s.step * s.step
    return s


cdef inline double divisor_of(const Pool* p, const Span* s) noexcept nogil:
    if p.divisor:
        return <double> p.divisor
    if p.with_padding:
        return <double> (s[0].full * s[1].full * s[2].full)
    return <double> ((s[0].stop - s[0].start) * (s[1].stop - s[1].start) * (s[2].stop - s[2].start))


# ---- kernels of one plane

cdef void mean_plane(floating* y, const floating* x, const Pool* p) noexcept nogil:
    cdef Span s[3]
    cdef int64_t i, j, k, a, b, e
    cdef double total
    cdef const floating* line
    for i in range(p.out[0]):
        s[0] = span_of(p, 0, i)
        for j in range(p.out[1]):
            s[1] = span_of(p, 1, j)
            for k in range(p.out[2]):
                s[2] = span_of(p, 2, k)
                total = 0
                for a in range(s[0].start, s[0].stop):
                    for b in range(s[1].start, s[1].stop):
                        line = x + (a * p.size[1] + b) * p.size[2]
                        for e in range(s[2].start, s[2].stop):
                            total += line[e]
                y[0] = <floating> (total / divisor_of(p, s))
                y += 1


cdef void whole_mean_plane(int64_t* y, const int64_t* x, const Pool* p) noexcept nogil:
    """Means cut to whole numbers, towards 0. Sums wrap around."""
    cdef Span s[3]
    cdef int64_t i, j, k, a, b, e, divisor
    cdef uint64_t total
    cdef const int64_t* line
    for i in range(p.out[0]):
        s[0] = span_of(p, 0, i)
        for j in range(p.out[1]):
            s[1] = span_of(p, 1, j)
            for k in range(p.out[2]):
                s[2] = span_of(p, 2, k)
                total = 0
                for a in range(s[0].start, s[0].stop):
                    for b in range(s[1].start, s[1].stop):
                        line = x + (a * p.size[1] + b) * p.size[2]
                        for e in range(s[2].start, s[2].stop):
                            total += <uint64_t> line[e]
                divisor = <int64_t> divisor_of(p, s)
                if divisor < 0:              # the negative of the least number is itself, not a trap
                    total, divisor = -total, -divisor
                y[0] = <int64_t> total // divisor
                y += 1


cdef void spread_plane(floating* x, const floating* y, const Pool* p) noexcept nogil:
    """The adjoint of mean_plane: adds to x, which holds zeros."""
    cdef Span s[3]
    cdef int64_t i, j, k, a, b, e
    cdef floating share
    cdef floating* line
    for i in range(p.out[0]):
        s[0] = span_of(p, 0, i)
        for j in range(p.out[1]):
            s[1] = span_of(p, 1, j)
            for k in range(p.out[2]):
                s[2] = span_of(p, 2, k)
                share = <floating> (y[0] / divisor_of(p, s))
                y += 1
                for a in range(s[0].start, s[0].stop):
                    for b in range(s[1].start, s[1].stop):
                        line = x + (a * p.size[1] + b) * p.size[2]
                        for e in range(s[2].start, s[2].stop):
                            line[e] += share


ctypedef fused ordered:
    float
    double
    int64_t


cdef void top_lines(const Pool* p, int64_t plane) noexcept nogil:
    """As top_plane, of floats in windows that slide."""
    cdef int64_t size = ITEMSIZE[p.dtype], o = plane * p.places, i, j
    cdef int64_t v[14]
    cdef Span s
    cdef TopLoop top = <TopLoop> hand_kernel(H_TOP, p.dtype)
    v[6], v[7], v[8] = p.size[1], p.size[2], p.out[2]
    v[9], v[10], v[11], v[12], v[13] = -p.pad[2], p.stride[2], p.window[2], p.dilation[2], p.points
    for i in range(p.out[0]):
        s = span_of(p, 0, i)
        v[0], v[1], v[2] = s.start, s.stop, s.step
        for j in range(p.out[1]):
            s = span_of(p, 1, j)
            v[3], v[4], v[5] = s.start, s.stop, s.step
            top(p.y + o * size, p.index + o, p.x + plane * p.points * size, v)
            o += p.out[2]


cdef void add_plane(floating* x, const floating* y, const int64_t* index, const Pool* p) noexcept nogil:
    """Adds each y to the element of x, which holds zeros, that its index names."""
    cdef int64_t i, k
    for i in range(p.places):
        k = index[i]                     # once: another thread may write it meanwhile
        if 0 <= k < p.points:
            x[k] += y[i]


cdef void pick_plane(floating* y, const floating* x, const int64_t* index, const Pool* p) noexcept nogil:
    cdef int64_t i, k
    for i in range(p.places):
        k = index[i]
        y[i] = x[k] if 0 <= k < p.points else 0


cdef void top_plane(ordered* y, int64_t* index, const ordered* x, const Pool* p) noexcept nogil:
    """The largest element of each window, and where in the plane it is: the first of equals, but the last NaN; the least
    number and -1 for no element."""
    cdef Span s[3]
    cdef int64_t i, j, k, a, b, e, best
    cdef ordered top, value
    for i in range(p.out[0]):
        s[0] = span_of(p, 0, i)
        for j in range(p.out[1]):
            s[1] = span_of(p, 1, j)
            for k in range(p.out[2]):
                s[2] = span_of(p, 2, k)
                if ordered is int64_t:
                    top = INT64_MIN
                else:
                    top = <ordered> -INFINITY
                best = (s[0].start * p.size[1] + s[1].start) * p.size[2] + s[2].start
                if s[0].start >= s[0].stop or s[1].start >= s[1].stop or s[2].start >= s[2].stop:
                    best = -1                # it lies in the padding as a whole
                a = s[0].start
                while a < s[0].stop:
                    b = s[1].start
                    while b < s[1].stop:
                        e = s[2].start
                        while e < s[2].stop:
                            value = x[(a * p.size[1] + b) * p.size[2] + e]
                            if value > top or value != value:
                                top = value
                                best = (a * p.size[1] + b) * p.size[2] + e
                            e += s[2].step
                        b += s[1].step
                    a += s[0].step
                y[0] = top
                index[0] = best
                y += 1
                index += 1


cdef void pool_plane(const Pool* p, int what, int64_t plane) noexcept nogil:
    cdef int64_t i = plane * p.points, o = plane * p.places
    if p.dtype == INT64:
        if what == MEANS:
            whole_mean_plane(<int64_t*> p.y + o, <const int64_t*> p.x + i, p)
        else:
            top_plane[int64_t](<int64_t*> p.y + o, p.index + o, <const int64_t*> p.x + i, p)
    elif what == TOPS and not p.adaptive and p.points <= AT_MOST \
            and TOP_LANES * p.stride[2] + (p.window[2] - 1) * p.dilation[2] <= TOP_LINE:
        top_lines(p, plane)
    elif p.dtype == FLOAT32:
        float_plane[float](<float*> p.y, <const float*> p.x, p, what, i, o)
    else:
        float_plane[double](<double*> p.y, <const double*> p.x, p, what, i, o)


cdef void float_plane(floating* y, const floating* x, const Pool* p, int what, int64_t i, int64_t o) noexcept nogil:
    """i and o: elements before the plane of the input, and before that of the result."""
    if what == MEANS:
        mean_plane[floating](y + o, x + i, p)
    elif what == SPREAD:
        spread_plane[floating](y + i, x + o, p)
    elif what == TOPS:
        top_plane[floating](y + o, p.index + o, x + i, p)
    elif what == ADD:
        add_plane[floating](y + i, x + o, p.index + o, p)
    else:
        pick_plane[floating](y + o, x + i, p.index + o, p)


cdef void pool_run(const Pool* p, int what) noexcept nogil:
    cdef int64_t i
    cdef int threads = num_threads() if p.planes > 1 and p.planes * (p.points + p.places) >= GRAIN else 1
    if threads == 1:
        for i in range(p.planes):
            pool_plane(p, what, i)
    else:
        for i in prange(p.planes, num_threads=threads, schedule="static"):
            pool_plane(p, what, i)


# ---- operations

cdef int pool_dtype(str op, Meta* x) except -1:
    if not is_float(COMPUTED[x.dtype]):
        no_kernel(op, x.dtype)
    return COMPUTED[x.dtype]


cdef Storage pooled(str op, Meta* y, Meta* index, Meta* x, int n, const int64_t* v, int what):
    """Floats, and int64, as which smaller integers come."""
    cdef Pool p
    cdef Meta a, b
    cdef Storage keep, kept, s
    cdef int64_t sizes[64]
    cdef int i
    if x.dtype != INT64 or what == PICK:
        pool_dtype(op, x)
    pool_geometry(&p, op, x.sizes, x.ndim, n, v)
    memcpy(sizes, x.sizes, x.ndim * sizeof(int64_t))
    for i in range(p.nd):
        sizes[x.ndim - p.nd + i] = v[4 + i]
    if what == PICK:
        check_places(op, index, x.ndim, sizes)
    memset(&a, 0, sizeof(Meta))
    memset(&b, 0, sizeof(Meta))
    try:
        keep = rowmajor(&a, x)
        if what == PICK:
            kept = rowmajor(&b, index)
            p.index = <int64_t*> b.data
        elif what == TOPS:
            p.index = <int64_t*> index.data
        p.dtype = a.dtype
        s = allocate_contig(y, x.ndim, sizes, p.dtype)
        p.x, p.y = a.data, y.data
        if y.numel:
            with nogil:
                pool_run(&p, what)
    finally:
        meta_clear(&a)
        meta_clear(&b)
    return recast(y, s, x.dtype)


cdef int check_places(str op, Meta* index, int ndim, const int64_t* sizes) except -1:
    cdef int i
    cdef bint fits = index.dtype == INT64 and index.ndim == ndim
    for i in range(ndim if fits else 0):
        fits = fits and index.sizes[i] == sizes[i]
    if not fits:
        raise RuntimeError(f"{op}: int64 places of sizes {[sizes[i] for i in range(ndim)]} are wanted, got {name_of(index.dtype)} of shape "
                           f"{shape_text(index)}")
    return 0


cdef Storage op_avg_pool(Meta* y, Meta* x, int n, const int64_t* v):
    return pooled("avg_pool", y, NULL, x, n, v, MEANS)


cdef tuple op_max_pool(Meta* y, Meta* index, Meta* x, int n, const int64_t* v):
    """The largest elements of windows, and where in their planes they are; -1 where a window has none."""
    cdef Pool p
    cdef Storage values, places
    cdef int64_t sizes[64]
    cdef int i
    pool_geometry(&p, "max_pool", x.sizes, x.ndim, n, v)
    memcpy(sizes, x.sizes, x.ndim * sizeof(int64_t))
    for i in range(p.nd):
        sizes[x.ndim - p.nd + i] = v[4 + i]
    places = allocate_contig(index, x.ndim, sizes, INT64)
    try:
        values = pooled("max_pool", y, index, x, n, v, TOPS)
    except BaseException:
        meta_clear(index)
        raise
    return values, places


cdef Storage op_plane_pick(Meta* y, Meta* x, Meta* index, int n, const int64_t* v):
    """The elements of each plane that `index` names, 0 for -1."""
    return pooled("max_pool", y, index, x, n, v, PICK)


cdef Storage pooled_back(str op, Meta* y, Meta* g, Meta* index, int n, const int64_t* v, int m, const int64_t* size):
    """The gradient for an input of shape `size`, from that of the means, or of what `index` names."""
    cdef Pool p
    cdef Meta a, b
    cdef Storage keep, kept, s
    cdef int i
    pool_dtype(op, g)
    pool_geometry(&p, op, size, m, n, v)
    for i in range(m):
        if g.ndim != m or g.sizes[i] != (size[i] if i < m - p.nd else v[4 + i - m + p.nd]):
            raise RuntimeError(f"{op}: a gradient of shape {shape_text(g)} does not belong to an input of shape "
                               f"{[size[j] for j in range(m)]}")
    if index:
        check_places(op, index, g.ndim, g.sizes)
    memset(&a, 0, sizeof(Meta))
    memset(&b, 0, sizeof(Meta))
    try:
        keep = rowmajor(&a, g)
        if index:
            kept = rowmajor(&b, index)
            p.index = <int64_t*> b.data
        p.dtype = a.dtype
        s = allocate_contig(y, m, size, p.dtype)
        fill_double(y, 0)
        p.x, p.y = a.data, y.data
        if g.numel:
            with nogil:
                pool_run(&p, ADD if index else SPREAD)
    finally:
        meta_clear(&a)
        meta_clear(&b)
    return recast(y, s, g.dtype)


cdef Storage op_avg_pool_input(Meta* y, Meta* g, int n, const int64_t* v, int m, const int64_t* size):
    return pooled_back("avg_pool_input", y, g, NULL, n, v, m, size)


cdef Storage op_plane_add(Meta* y, Meta* g, Meta* index, int n, const int64_t* v, int m, const int64_t* size):
    return pooled_back("max_pool", y, g, index, n, v, m, size)


# ---- patches as a tensor

cdef int patch_geometry(Conv* c, str op, int64_t batch, int64_t channels, const int64_t* x, int n, const int64_t* v) except -1:
    """``[window, stride, padding, dilation (each of nd numbers)]``."""
    cdef int i, k, nd = n // 4
    memset(c, 0, sizeof(Conv))
    if nd < 1 or nd > 3 or n != 4 * nd:
        raise RuntimeError(f"{op}: window, stride, padding and dilation of one to three dimensions are wanted, got {n} numbers")
    c.nd, c.groups, c.filters, c.channels = nd, 1, 1, channels
    for i in range(3):
        c.size[i] = c.out[i] = c.window[i] = c.stride[i] = c.dilation[i] = 1
    for i in range(nd):
        k = 3 - nd + i
        c.window[k], c.stride[k], c.pad[k], c.dilation[k] = v[i], v[nd + i], v[2 * nd + i], v[3 * nd + i]
        if c.window[k] < 1 or c.stride[k] < 1 or c.pad[k] < 0 or c.dilation[k] < 1:
            raise RuntimeError(f"{op}: window, stride and dilation must be positive and padding not negative, got "
                               f"{[v[j] for j in range(n)]}")
        if max(max(v[i], v[nd + i]), max(v[2 * nd + i], v[3 * nd + i])) > AT_MOST:
            raise RuntimeError(f"{op}: window, stride, padding and dilation above 2147483647 are not supported")
    count_taps(c, op)
    conv_sizes(c, op, x, batch)
    c.plain = False
    c.tile = c.places
    return 0


cdef void patch_part(const Conv* c, int64_t part) noexcept nogil:
    """All patches of one channel of one item."""
    cdef int64_t size = ITEMSIZE[c.dtype], a, b, e, i, depth, slice = c.out[1] * c.out[2]
    cdef int64_t v[9]
    cdef WindowLoop window = <WindowLoop> hand_kernel(H_WINDOW, c.dtype)
    cdef const char* x = c.x + part * c.points * size
    cdef char* to = c.y + part * c.taps * c.places * size
    v[0], v[2], v[3], v[4] = c.out[1], c.stride[1], c.size[1], c.size[2]
    v[5], v[7], v[8] = c.out[2], c.stride[2], c.size[2]
    for a in range(c.window[0]):
        for b in range(c.window[1]):
            v[1] = b * c.dilation[1] - c.pad[1]
            for e in range(c.window[2]):
                v[6] = e * c.dilation[2] - c.pad[2]
                for i in range(c.out[0]):
                    depth = i * c.stride[0] - c.pad[0] + a * c.dilation[0]
                    if 0 <= depth < c.size[0]:
                        window(to, x + depth * c.size[1] * c.size[2] * size, v)
                    else:
                        memset(to, 0, slice * size)
                    to += slice * size


cdef void patch_back_part(const Conv* c, int64_t part) noexcept nogil:
    cdef int64_t size = ITEMSIZE[c.dtype], item = part // c.channels, channel = part % c.channels
    patches_back(c, c.x + item * c.channels * c.points * size, c.y + part * c.taps * c.places * size, channel, channel + 1, 0, c.places)


cdef Storage op_im2col(Meta* y, Meta* x, int n, const int64_t* v):
    """x of shape (batch, channels, *) -> (batch, channels * window, places)."""
    cdef Conv c
    cdef Meta a
    cdef Storage keep, s
    cdef int64_t sizes[3]
    pool_dtype("im2col", x)
    if x.ndim != n // 4 + 2:
        raise RuntimeError(f"im2col: an input of {n // 4 + 2} dimensions is wanted, got shape {shape_text(x)}")
    patch_geometry(&c, "im2col", x.sizes[0], x.sizes[1], x.sizes + 2, n, v)
    sizes[0], sizes[1], sizes[2] = c.batch, c.channels * c.taps, c.places
    memset(&a, 0, sizeof(Meta))
    try:
        keep = rowmajor(&a, x)
        c.dtype = a.dtype
        s = allocate_contig(y, 3, sizes, c.dtype)
        c.x, c.y = a.data, y.data
        if y.numel:
            conv_run(&c, patch_part, c.batch * c.channels)
    finally:
        meta_clear(&a)
    return recast(y, s, x.dtype)


cdef Storage op_col2im(Meta* y, Meta* g, int n, const int64_t* v, int m, const int64_t* size):
    """The adjoint of im2col for an image of sizes `size`: elements of patches added where they come from."""
    cdef Conv c
    cdef Meta a
    cdef Storage keep, s
    cdef int64_t sizes[5]
    cdef int64_t taps = 1
    cdef int i, nd = n // 4
    pool_dtype("col2im", g)
    if g.ndim != 3 or m != nd or n != 4 * nd:
        raise RuntimeError(f"col2im: patches of three dimensions are wanted, got shape {shape_text(g)} for {m} sizes")
    for i in range(nd):
        if v[i] < 1 or v[i] > AT_MOST or taps * v[i] > AT_MOST:
            raise RuntimeError(f"col2im: a window of sizes {[v[j] for j in range(nd)]} is not supported")
        taps *= v[i]
    if g.sizes[1] % taps:
        raise RuntimeError("Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
                           f"input.size(1)={g.sizes[1]} and kernel_size={tuple([v[j] for j in range(nd)])}.")
    patch_geometry(&c, "col2im", g.sizes[0], g.sizes[1] // taps, size, n, v)
    if g.sizes[2] != c.places:
        raise RuntimeError(f"Given output_size={tuple([size[j] for j in range(nd)])}, kernel_size={tuple([v[j] for j in range(nd)])}, expected size of "
                           f"input's dimension 2 to match the calculated number of sliding blocks {c.places}, but got "
                           f"input.size(2)={g.sizes[2]}.")
    sizes[0], sizes[1] = c.batch, c.channels
    for i in range(nd):
        sizes[2 + i] = size[i]
    memset(&a, 0, sizeof(Meta))
    try:
        keep = rowmajor(&a, g)
        c.dtype = a.dtype
        s = allocate_contig(y, nd + 2, sizes, c.dtype)
        fill_double(y, 0)
        c.x, c.y = y.data, a.data
        if g.numel:
            conv_run(&c, patch_back_part, c.batch * c.channels)
    finally:
        meta_clear(&a)
    return recast(y, s, g.dtype)
