# Convolutions without a matrix of patches: filters slide over a tile of the image whose lines are laid out so that the
# places of one tap stand side by side. The gradient of the input is a convolution too, one for each place that a stride
# skips; that of the weight sums products of the same lines. See docs/design/storage.md.
# Invariant: tiles, parts and slots depend on sizes only, so every thread count gives the same bits.

cdef enum:
    TILE_BYTES = 1 << 18       # of the lines of one tile: half a second-level cache
    SUM_BYTES = 1 << 14        # of the sums of SLIDE_HIGH filters over one tile: half a first-level cache
    SLOT_BYTES = 1 << 22       # of all partial gradients of a weight
    SLIDE_HIGH = 8             # filters that are computed together
    SLACK = 16                 # elements behind an array up to which vectors may read or write
    LINE_CYCLES = 8            # of laying out one line, besides its elements
    PART_WORK = 1 << 16        # multiply-adds of a part, where groups are small
    FEW = 12                   # filters from which the gradient of the weight has vectors of filters

ctypedef void (*WindowLoop)(char* y, const char* x, const int64_t* v) noexcept nogil
ctypedef void (*PlaceLoop)(char* y, int64_t down, int64_t across, const char* x, int64_t stride, int64_t rows, int64_t columns) noexcept nogil
ctypedef void (*TurnLoop)(char* to, int64_t width, const char* x, int64_t stride, int64_t filters, int64_t places) noexcept nogil
ctypedef void (*SlideLoop)(char* y, int64_t ys, const char* x, const int64_t* xo, int64_t places, const char* w, int64_t ws,
                         const int64_t* wo, int64_t taps, int64_t filters, const char* bias) noexcept nogil
ctypedef void (*OuterLoop)(char* w, int64_t ws, const char* x, const int64_t* xo, int64_t xs, const char* g, int64_t gs, int64_t rows,
                       int64_t columns, int64_t taps, int64_t filters) noexcept nogil
ctypedef void (*FewLoop)(char* w, int64_t ws, const char* g, int64_t gs, const char* x, const int64_t* xo, const char* mask,
                     int64_t places, int64_t taps, int64_t filters) noexcept nogil

cdef struct Axis:              # one dimension: element `start + q * step + ...` of the source meets tap j at place q
    int64_t n, size            # places; elements of the source
    int64_t step               # of the source, from one place to the next
    int64_t taps, first, every # tap j is element first + j * every of the window
    int64_t phases, hop, shift # tap j begins (j % phases) * hop + (j // phases) * shift * step behind `start`
    int64_t start
    int64_t to, by             # where in the result place 0 is, and from one place to the next
    int64_t tile, tiles        # places of a tile, tiles
    bint apart                 # each tap has a line of its own; else the taps of a phase share one, shifted
    int64_t lines, length      # of a tile

cdef struct Slide:
    Axis axis[3]
    int64_t batch, groups, channels, filters       # channels are the source's, filters the result's, of one group
    int64_t x_plane, y_plane, y_line, y_depth      # elements of the source's channel; of the result's parts
    int64_t w_group, w_filter, w_channel           # strides of the weight
    int64_t w_tap[3]
    int64_t plane, taps, sums                      # elements of a tile's lines of one channel; of all taps; places of a tile
    int64_t chunk, block                           # groups and filters of a part
    int64_t slots, cut, width                      # of the gradient of a weight: parts of the batch, channels of a part,
                                                   # filters in whole vectors
    int dtype
    int64_t* xo                # of each tap: its line in the tile
    int64_t* wo                # and its weight
    const char* x
    const char* w
    const char* bias
    char* y
    char* scratch
    int64_t scratch_bytes      # of one thread
    WindowLoop window
    PlaceLoop place
    TurnLoop turn
    SlideLoop slide
    OuterLoop outer
    FewLoop few

ctypedef void (*SlidePart)(const Slide* s, int64_t part, char* buffer) noexcept nogil


# ---- axes

cdef int64_t common(int64_t a, int64_t b) noexcept:
    """Greatest common divisor."""
    while b:
        a, b = b, a % b
    return a


cdef int64_t phases_of(const Conv* c, int d) noexcept:
    """Taps d apart in a window that lies at multiples of a stride look at so many sets of elements."""
    return min(c.stride[d] // common(c.stride[d], c.dilation[d]), c.window[d])


cdef void axis_of_result(Axis* a, const Conv* c, int d) noexcept:
    """Places are those of the convolution's result."""
    a.n, a.size, a.step = c.out[d], c.size[d], c.stride[d]
    a.taps, a.first, a.every = c.window[d], 0, 1
    a.phases, a.hop = phases_of(c, d), c.dilation[d]
    a.shift = c.dilation[d] // common(c.stride[d], c.dilation[d])
    a.start, a.to, a.by = -c.pad[d], 0, 1


cdef void axis_of_input(Axis* a, const Conv* c, int d, int64_t phase) noexcept:
    """Places are every stride-th element of the padded input, beginning with the one that tap `phase` looks at."""
    cdef int64_t stride = c.stride[d], every = stride // common(stride, c.dilation[d])
    cdef int64_t rest = phase * c.dilation[d] % stride, low
    a.taps = (c.window[d] - phase + every - 1) // every
    a.first, a.every = phase + (a.taps - 1) * every, -every
    a.size, a.step, a.phases, a.hop = c.out[d], 1, 1, 0
    a.shift = c.dilation[d] // common(stride, c.dilation[d])
    low = (c.pad[d] - rest + stride - 1) // stride if c.pad[d] > rest else 0
    a.n = max(<int64_t> 0, (c.size[d] - 1 + c.pad[d] - rest + stride) // stride - low)
    a.start = low - (a.first * c.dilation[d] - rest) // stride
    a.to, a.by = low * stride + rest - c.pad[d], stride


cdef void axis_tile(Axis* a, int64_t places) noexcept:
    """Tiles of about equal size, and the lines they need: shared by taps where that is less."""
    cdef int64_t reach = (a.taps - 1) // a.phases * a.shift
    a.tiles = (a.n + places - 1) // places
    a.tile = (a.n + a.tiles - 1) // a.tiles
    a.apart = a.taps * a.tile < a.phases * (a.tile + reach)
    a.lines = a.taps if a.apart else a.phases
    a.length = a.tile if a.apart else a.tile + reach


cdef int64_t line_of(const Axis* a, int64_t tap, int64_t* shift) noexcept nogil:
    shift[0] = 0 if a.apart else tap // a.phases * a.shift
    return tap if a.apart else tap % a.phases


cdef int64_t source_at(const Axis* a, int64_t line, int64_t place) noexcept nogil:
    """Element of the source at which the line begins in a tile that begins at `place`."""
    return a.start + place * a.step + line % a.phases * a.hop + line // a.phases * a.shift * a.step


# ---- plans

cdef int64_t tile_cost(const Slide* s) noexcept:
    """About how many cycles a channel of a tile takes: sums of whole vectors for each tap, and lines to lay out."""
    cdef const Axis* rows = &s.axis[1]
    cdef const Axis* columns = &s.axis[2]
    cdef int64_t lanes = 64 // ITEMSIZE[s.dtype], places = (rows.tile - 1) * columns.length + columns.tile
    return s.axis[0].taps * (s.filters * rows.taps * columns.taps * ((places + lanes - 1) // lanes)
                             + rows.lines * rows.length * columns.lines * (LINE_CYCLES + columns.length // lanes))


cdef void plan_tiles(Slide* s, int64_t channels, int64_t most, bint between) noexcept:
    """Whole rows, as many as fit, or a part of one; `channels` of a tile, at most about `most` places.

    `between`: what lies between two rows costs as much as places do, unless each tap has a line of its own.
    """
    cdef Axis* rows = &s.axis[1]
    cdef Axis* columns = &s.axis[2]
    cdef int64_t size = ITEMSIZE[s.dtype], high, wide, shared
    cdef int64_t room = max(TILE_BYTES // (max(<int64_t> 1, channels) * s.axis[0].taps * size), <int64_t> 1)
    axis_tile(&s.axis[0], 1)
    s.axis[0].apart, s.axis[0].lines, s.axis[0].length = True, s.axis[0].taps, 1
    axis_tile(rows, 1)
    wide = max(<int64_t> 1, min(columns.n, most))
    axis_tile(columns, wide)
    while wide > 48 and rows.lines * rows.length * columns.lines * columns.length > room:
        wide = (wide + 1) // 2
        axis_tile(columns, wide)
    high = 1
    while high < rows.n and (2 * high - 1) * columns.length + columns.tile <= most:
        axis_tile(rows, 2 * high)
        if rows.lines * rows.length * columns.lines * columns.length > room:
            break
        high *= 2
    axis_tile(rows, high)
    if between and not columns.apart and rows.lines * rows.length * columns.taps * columns.tile <= room:
        shared = tile_cost(s)
        columns.apart, columns.lines, columns.length = True, columns.taps, columns.tile
        if tile_cost(s) >= shared:
            axis_tile(columns, columns.tile)
    s.plane = s.axis[0].taps * rows.lines * columns.lines * rows.length * columns.length
    s.taps = s.axis[0].taps * rows.taps * columns.taps
    s.sums = ((rows.tile - 1) * columns.length + columns.tile + SLACK - 1) // SLACK * SLACK


cdef Storage plan_taps(Slide* s, int64_t channels):
    """Tables of where each tap of each channel is."""
    cdef Storage tables = storage_new(max(<int64_t> 1, 2 * channels * s.taps * <int64_t> sizeof(int64_t)))
    cdef Axis* a = s.axis
    cdef int64_t channel, i, j, k, down, right, at, n = 0
    s.xo = <int64_t*> tables.ptr
    s.wo = s.xo + channels * s.taps
    for channel in range(channels):
        for i in range(a[0].taps):
            for j in range(a[1].taps):
                for k in range(a[2].taps):
                    at = (i * a[1].lines + line_of(&a[1], j, &down)) * a[2].lines + line_of(&a[2], k, &right)
                    s.xo[n] = channel * s.plane + (at * a[1].length + down) * a[2].length + right
                    s.wo[n] = channel * s.w_channel + (a[0].first + i * a[0].every) * s.w_tap[0] \
                        + (a[1].first + j * a[1].every) * s.w_tap[1] + (a[2].first + k * a[2].every) * s.w_tap[2]
                    n += 1
    return tables


cdef void slide_of(Slide* s, const Conv* c) noexcept:
    """What convolution and both gradients have in common, and the axes of a result."""
    cdef int d
    memset(s, 0, sizeof(Slide))
    s.dtype, s.batch, s.groups = c.dtype, c.batch, c.groups
    s.channels, s.filters = c.channels, c.filters
    s.x_plane, s.y_plane, s.y_line, s.y_depth = c.points, c.places, c.out[2], c.out[1] * c.out[2]
    s.w_group, s.w_filter, s.w_channel = c.filters * c.channels * c.taps, c.channels * c.taps, c.taps
    s.w_tap[0], s.w_tap[1], s.w_tap[2] = c.window[1] * c.window[2], c.window[2], 1
    for d in range(3):
        axis_of_result(&s.axis[d], c, d)
    s.window, s.place = <WindowLoop> hand_kernel(H_WINDOW, c.dtype), <PlaceLoop> hand_kernel(H_PLACE, c.dtype)
    s.turn, s.slide = <TurnLoop> hand_kernel(H_TURN, c.dtype), <SlideLoop> hand_kernel(H_SLIDE, c.dtype)
    s.outer, s.few = <OuterLoop> hand_kernel(H_OUTER, c.dtype), <FewLoop> hand_kernel(H_FEW, c.dtype)


# ---- parts of work

cdef void take_lines(const Slide* s, char* to, const char* x, int64_t channels, const int64_t* place) noexcept nogil:
    """The lines that the tile at `place` needs, of so many channels from x on."""
    cdef const Axis* a = s.axis
    cdef int64_t channel, i, j, k, depth, size = ITEMSIZE[s.dtype], bytes = a[1].length * a[2].length * size
    cdef int64_t v[9]
    cdef const char* slice
    v[0], v[2], v[3], v[4] = a[1].length, a[1].step, a[1].size, a[2].size
    v[5], v[7], v[8] = a[2].length, a[2].step, a[2].size
    for channel in range(channels):
        for i in range(a[0].taps):
            depth = source_at(a, i, place[0])
            slice = x + (channel * s.x_plane + depth * v[3] * v[4]) * size
            for j in range(a[1].lines):
                v[1] = source_at(a + 1, j, place[1])
                for k in range(a[2].lines):
                    v[6] = source_at(a + 2, k, place[2])
                    if 0 <= depth < a[0].size:
                        s.window(to, slice, v)
                    else:
                        memset(to, 0, bytes)
                    to += bytes
    memset(to, 0, SLACK * size)


cdef int64_t tile_at(const Slide* s, int64_t part, int64_t* place, int64_t* count) noexcept nogil:
    """Where tile `part` begins and how many places it has, along each axis; returns what is left of `part`."""
    cdef int d
    for d in range(2, -1, -1):
        place[d] = part % s.axis[d].tiles * s.axis[d].tile
        count[d] = min(s.axis[d].tile, s.axis[d].n - place[d])
        part = part // s.axis[d].tiles
    return part


cdef void slide_part(const Slide* s, int64_t part, char* buffer) noexcept nogil:
    """Some filters of some groups over one tile of one item."""
    cdef const Axis* a = s.axis
    cdef int64_t blocks = (s.filters + s.block - 1) // s.block, chunks = (s.groups + s.chunk - 1) // s.chunk
    cdef int64_t size = ITEMSIZE[s.dtype], first = part % blocks * s.block, item, group, f, i, n, places
    cdef int64_t place[3]
    cdef int64_t count[3]
    cdef char* sums = buffer + (s.channels * s.plane + SLACK) * size
    cdef char* y
    part = tile_at(s, part // blocks, place, count)
    item = part // chunks
    places = (count[1] - 1) * a[2].length + count[2]
    for group in range(part % chunks * s.chunk, min((part % chunks + 1) * s.chunk, s.groups)):
        take_lines(s, buffer, s.x + (item * s.groups + group) * s.channels * s.x_plane * size, s.channels, place)
        f = first
        while f < min(first + s.block, s.filters):
            n = min(<int64_t> SLIDE_HIGH, s.filters - f)
            s.slide(sums, s.sums, buffer, s.xo, places, s.w + (group * s.w_group + f * s.w_filter) * size, s.w_filter, s.wo,
                    s.channels * s.taps, n, s.bias + (group * s.filters + f) * size if s.bias else NULL)
            for i in range(n):
                y = s.y + (((item * s.groups + group) * s.filters + f + i) * s.y_plane
                           + (a[0].to + place[0] * a[0].by) * s.y_depth
                           + (a[1].to + place[1] * a[1].by) * s.y_line + a[2].to + place[2] * a[2].by) * size
                s.place(y, a[1].by * s.y_line, a[2].by, sums + i * s.sums * size, a[2].length, count[1], count[2])
            f += n


cdef void weight_tile(const Slide* s, const char* x, const char* g, int64_t channels, const int64_t* place, const int64_t* count,
                      bint fresh, char* lines, char* gradients, char* sums) noexcept nogil:
    """Adds one tile of one item. x and g are those of the first channel and filter; `fresh`: the tile before had other sizes."""
    cdef const Axis* a = s.axis
    cdef int64_t size = ITEMSIZE[s.dtype], r
    cdef char* mask = gradients + s.filters * s.sums * size
    take_lines(s, lines, x, channels, place)
    g += (place[0] * s.y_depth + place[1] * s.y_line + place[2]) * size
    if s.filters >= FEW:
        for r in range(count[1]):
            s.turn(gradients + r * count[2] * s.width * size, s.width, g + r * s.y_line * size, s.y_plane, s.filters, count[2])
        s.outer(sums, s.width, lines, s.xo, a[2].length, gradients, s.width, count[1], count[2], channels * s.taps, s.width)
        return
    if fresh:
        memset(gradients, 0, (s.filters + 1) * s.sums * size)
        for r in range(count[1]):
            memset(mask + r * a[2].length * size, 255, count[2] * size)
    for r in range(s.filters):
        s.place(gradients + r * s.sums * size, a[2].length, 1, g + r * s.y_plane * size, s.y_line, count[1], count[2])
    s.few(sums, channels * s.taps, gradients, s.sums, lines, s.xo, mask, (count[1] - 1) * a[2].length + count[2], channels * s.taps,
          s.filters)


cdef void weight_part(const Slide* s, int64_t part, char* buffer) noexcept nogil:
    """Some channels of one group over one slot of the batch; s.w holds the weight's gradient, once for each slot."""
    cdef int64_t cuts = (s.channels + s.cut - 1) // s.cut, size = ITEMSIZE[s.dtype]
    cdef int64_t first = part % cuts * s.cut, group = part // cuts % s.groups, slot = part // (cuts * s.groups)
    cdef int64_t taps = min(s.cut, s.channels - first) * s.taps, item, tile, i, rows = 0, columns = 0
    cdef int64_t place[3]
    cdef int64_t count[3]
    cdef int64_t tiles = s.axis[0].tiles * s.axis[1].tiles * s.axis[2].tiles
    cdef char* gradients = buffer + (s.cut * s.plane + SLACK) * size
    cdef char* sums = gradients + (s.width + 1) * s.sums * size
    cdef char* w = <char*> s.w + ((slot * s.groups + group) * s.w_group + first * s.taps) * size
    memset(sums, 0, taps * s.width * size)
    for item in range(s.batch * slot // s.slots, s.batch * (slot + 1) // s.slots):
        for tile in range(tiles):
            tile_at(s, tile, place, count)
            weight_tile(s, s.x + ((item * s.groups + group) * s.channels + first) * s.x_plane * size,
                        s.y + (item * s.groups + group) * s.filters * s.y_plane * size, taps // s.taps, place, count,
                        rows != count[1] or columns != count[2], buffer, gradients, sums)
            rows, columns = count[1], count[2]
    if s.filters >= FEW:
        for i in range(taps):
            s.place(w + i * size, s.w_filter, 1, sums + i * s.width * size, 1, s.filters, 1)
    else:
        for i in range(s.filters):
            memcpy(w + i * s.w_filter * size, sums + i * taps * size, taps * size)


# ---- execution

cdef int slide_run(Slide* s, SlidePart run, int64_t parts, int64_t elements) except -1:
    """With `elements` of scratch for each thread."""
    cdef int64_t i
    cdef int64_t work = s.batch * s.groups * s.filters * s.channels * s.taps * s.axis[0].n * s.axis[1].n * s.axis[2].n
    cdef int threads = num_threads() if parts > 1 and work >= QUIET_WORK else 1
    cdef Storage scratch
    s.scratch_bytes = (elements * ITEMSIZE[s.dtype] + 63) // 64 * 64
    scratch = storage_new(s.scratch_bytes * threads)
    s.scratch = scratch.ptr
    with nogil:
        if threads == 1:
            for i in range(parts):
                run(s, i, s.scratch)
        else:
            for i in prange(parts, num_threads=threads, schedule="dynamic"):
                run(s, i, s.scratch + threadid() * s.scratch_bytes)
    return 0


cdef int slide_places(Slide* s) except -1:
    """All results of places that the axes have."""
    cdef int64_t parts, high = min(s.filters, <int64_t> SLIDE_HIGH), blocks
    cdef Storage tables
    plan_tiles(s, s.channels, max(<int64_t> SUM_BYTES // (ITEMSIZE[s.dtype] * high), <int64_t> 1), True)
    tables = plan_taps(s, s.channels)
    s.chunk = PART_WORK // max(<int64_t> 1, s.filters * s.channels * s.taps * s.axis[1].tile * s.axis[2].tile)
    s.chunk = max(<int64_t> 1, min(s.chunk, s.groups))
    parts = s.batch * ((s.groups + s.chunk - 1) // s.chunk) * s.axis[0].tiles * s.axis[1].tiles * s.axis[2].tiles
    blocks = min((s.filters + SLIDE_HIGH - 1) // SLIDE_HIGH, (SHARES + parts - 1) // parts)
    s.block = ((s.filters + blocks - 1) // blocks + SLIDE_HIGH - 1) // SLIDE_HIGH * SLIDE_HIGH
    parts *= (s.filters + s.block - 1) // s.block
    return slide_run(s, slide_part, parts, s.channels * s.plane + SLACK + high * s.sums)


cdef int slide_convolution(const Conv* c) except -1:
    cdef Slide s
    slide_of(&s, c)
    s.x, s.w, s.bias, s.y = c.x, c.w, c.bias, c.y
    return slide_places(&s)


cdef int slide_input(const Conv* c) except -1:
    """c.x, which holds zeros where a stride skips elements, from c.y."""
    cdef Slide s
    cdef int64_t phases = phases_of(c, 0) * phases_of(c, 1) * phases_of(c, 2), phase, i, j, k
    for phase in range(phases):
        k = phase % phases_of(c, 2)
        j = phase // phases_of(c, 2) % phases_of(c, 1)
        i = phase // (phases_of(c, 2) * phases_of(c, 1))
        slide_of(&s, c)
        s.channels, s.filters = c.filters, c.channels
        s.x_plane, s.y_plane, s.y_line, s.y_depth = c.places, c.points, c.size[2], c.size[1] * c.size[2]
        s.w_filter, s.w_channel = s.w_channel, s.w_filter
        axis_of_input(&s.axis[0], c, 0, i)
        axis_of_input(&s.axis[1], c, 1, j)
        axis_of_input(&s.axis[2], c, 2, k)
        s.x, s.w, s.y = c.y, c.w, c.x
        if s.axis[0].n and s.axis[1].n and s.axis[2].n:
            slide_places(&s)
    return 0


cdef int slide_weight(const Conv* c) except -1:
    """c.w from c.x and c.y."""
    cdef Slide s
    cdef Storage tables, partial
    cdef int64_t bytes = c.groups * c.filters * c.channels * c.taps * ITEMSIZE[c.dtype], i, cuts
    cdef char* p[2]
    cdef int64_t st[2]
    slide_of(&s, c)
    s.x, s.w, s.y = c.x, c.w, c.y
    s.width = s.filters if s.filters < FEW else (s.filters + SLACK - 1) // SLACK * SLACK
    s.slots = max(<int64_t> 1, min(s.batch, min(<int64_t> SHARES, SLOT_BYTES // bytes)))
    cuts = min(s.channels, (SHARES + s.slots * s.groups - 1) // (s.slots * s.groups))
    s.cut = (s.channels + cuts - 1) // cuts
    plan_tiles(&s, s.cut, max(<int64_t> 128, TILE_BYTES // (s.width * ITEMSIZE[s.dtype])), False)
    tables = plan_taps(&s, s.cut)
    if s.slots > 1:
        partial = storage_new(s.slots * bytes)
        s.w = partial.ptr
    slide_run(&s, weight_part, s.slots * s.groups * ((s.channels + s.cut - 1) // s.cut),
              s.cut * s.plane + SLACK + (s.width + 1) * s.sums + s.cut * s.taps * s.width)
    if s.slots > 1:
        memcpy(c.w, s.w, bytes)
        st[0] = st[1] = ITEMSIZE[s.dtype]
        for i in range(1, s.slots):
            p[0], p[1] = c.w, <char*> s.w + i * bytes
            (<Loop> hand_kernel(H_ADD_AT, s.dtype))(p, st, bytes // ITEMSIZE[s.dtype], NULL)
    return 0
