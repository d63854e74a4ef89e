# Pooling over windows of one to three dimensions, and patches as a tensor (unfold and fold). A window's places come from a
# geometry; the gradient of what is linear is its adjoint, which is an operation too.
# Invariant: a thread writes whole planes (one channel of one item), so no result depends on the number of threads.

include "ops_common_pool.pxi"

cdef enum:
    TOP_LANES = 16             # places that the loop of sliding maxima takes at once, at most
    TOP_LINE = 512             # elements that their windows may span

ctypedef void (*TopLoop)(char* y, int64_t* index, const char* x, const int64_t* v) noexcept nogil

cdef struct Span:              # one dimension of one window, cut to the input
    int64_t start, stop, step, full


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

# ---- patches as a tensor

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
