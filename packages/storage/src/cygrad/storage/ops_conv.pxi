# Convolutions of one to three dimensions. Three operations that are each other's gradients: result, input and weight.
# Windows of one element that go everywhere are matrix products; the others are in ops_slide.
# Invariant: tiles and blocks depend on sizes only, so every thread count gives the same bits.

include "ops_common_conv.pxi"

cdef enum:
    STRIP = 2048               # places of one product of a window of one element
    SHARES = 8                 # parts into which work is cut that has no batch to be cut by

ctypedef fused floating:
    float
    double

# ---- geometry

cdef void conv_parts(Conv* c, int64_t others) noexcept:
    """Cuts the channels of a group into parts, if there are few `others` that threads could take; chooses the tile."""
    cdef int64_t wanted = max(<int64_t> 1, SHARES // max(<int64_t> 1, others))
    c.block = max(<int64_t> 1, (c.channels + wanted - 1) // wanted)
    c.blocks = (c.channels + c.block - 1) // c.block
    c.tile = max(<int64_t> 64, (c.places * c.batch * c.groups + SHARES - 1) // SHARES)
    c.tile = max(<int64_t> 1, min(min(c.tile, c.places), <int64_t> STRIP))


# ---- patches

cdef void add_patches(floating* x, const floating* buffer, const Conv* c, int64_t first, int64_t last, int64_t start,
                      int64_t stop) noexcept nogil:
    """The adjoint of im2col: adds each element of a patch to where it came from."""
    cdef int64_t channel, a, b, e, place, i, j, k, left, right, n
    cdef int64_t width = stop - start
    cdef int64_t depth, row, column
    cdef floating* line
    cdef const floating* source
    cdef int64_t step = c.stride[2]
    for channel in range(first, last):
        for a in range(c.window[0]):
            for b in range(c.window[1]):
                for e in range(c.window[2]):
                    source = buffer
                    place = start
                    while place < stop:
                        k = place % c.out[2]
                        j = place // c.out[2] % c.out[1]
                        i = place // (c.out[2] * c.out[1])
                        n = min(c.out[2] - k, stop - place)
                        depth = i * c.stride[0] - c.pad[0] + a * c.dilation[0]
                        row = j * c.stride[1] - c.pad[1] + b * c.dilation[1]
                        if 0 <= depth < c.size[0] and 0 <= row < c.size[1]:
                            line = x + ((channel * c.size[0] + depth) * c.size[1] + row) * c.size[2]
                            column = k * step - c.pad[2] + e * c.dilation[2]
                            left = min(n, (-column + step - 1) // step) if column < 0 else 0
                            right = (c.size[2] - column + step - 1) // step if column < c.size[2] else 0
                            right = max(left, min(n, right))
                            for i in range(left, right):
                                line[column + i * step] += source[i]
                        source += n
                        place += n
                    buffer += width


cdef void patches_back(const Conv* c, char* x, const char* buffer, int64_t first, int64_t last, int64_t start, int64_t stop) noexcept nogil:
    if c.dtype == FLOAT32:
        add_patches[float](<float*> x, <const float*> buffer, c, first, last, start, stop)
    else:
        add_patches[double](<double*> x, <const double*> buffer, c, first, last, start, stop)


cdef void conv_gemm(int dtype, int ta, int tb, int64_t m, int64_t n, int64_t k, const char* a, int64_t lda, const char* b,
                    int64_t ldb, double beta, char* y, int64_t ldy) noexcept nogil:
    if dtype == FLOAT32:
        sgemm(ROW_MAJOR, ta, tb, <int> m, <int> n, <int> k, 1, <const float*> a, <int> lda, <const float*> b, <int> ldb,
              <float> beta, <float*> y, <int> ldy)
    else:
        dgemm(ROW_MAJOR, ta, tb, <int> m, <int> n, <int> k, 1, <const double*> a, <int> lda, <const double*> b, <int> ldb,
              beta, <double*> y, <int> ldy)


# ---- windows of one element

cdef void fill_bias(const Conv* c, char* y, const char* bias, int64_t n) noexcept nogil:
    """The first n places of each filter of a group."""
    cdef int64_t i, j
    for i in range(c.filters):
        for j in range(n):
            if c.dtype == FLOAT32:
                (<float*> y)[i * c.places + j] = (<const float*> bias)[i]
            else:
                (<double*> y)[i * c.places + j] = (<const double*> bias)[i]


cdef void conv_forward_part(const Conv* c, int64_t part) noexcept nogil:
    """One tile of places of one group of one item."""
    cdef int64_t size = ITEMSIZE[c.dtype], tiles = (c.places + c.tile - 1) // c.tile
    cdef int64_t start = part % tiles * c.tile
    cdef int64_t n = min(c.tile, c.places - start)
    cdef int64_t group = part // tiles % c.groups, item = part // (tiles * c.groups)
    cdef const char* x = c.x + ((item * c.groups + group) * c.channels * c.points + start) * size
    cdef const char* w = c.w + group * c.filters * c.channels * size
    cdef char* y = c.y + ((item * c.groups + group) * c.filters * c.places + start) * size
    if c.bias:
        fill_bias(c, y, c.bias + group * c.filters * size, n)
    conv_gemm(c.dtype, PLAIN, PLAIN, c.filters, n, c.channels, w, c.channels, x, c.points, c.bias != NULL, y, c.places)


cdef void conv_input_part(const Conv* c, int64_t part) noexcept nogil:
    """Some channels of one group of one item; x is written."""
    cdef int64_t size = ITEMSIZE[c.dtype]
    cdef int64_t first = part % c.blocks * c.block
    cdef int64_t group = part // c.blocks % c.groups, item = part // (c.blocks * c.groups)
    cdef char* x = c.x + ((item * c.groups + group) * c.channels + first) * c.points * size
    cdef const char* w = c.w + (group * c.filters * c.channels + first) * size
    cdef const char* g = c.y + (item * c.groups + group) * c.filters * c.places * size
    conv_gemm(c.dtype, TRANSPOSED, PLAIN, min(c.block, c.channels - first), c.points, c.filters, w, c.channels, g, c.places, 0, x,
              c.points)


cdef void conv_weight_part(const Conv* c, int64_t part) noexcept nogil:
    """Some channels of one group, over the whole batch; w is written, and holds zeros."""
    cdef int64_t size = ITEMSIZE[c.dtype]
    cdef int64_t first = part % c.blocks * c.block
    cdef int64_t group = part // c.blocks, item, start
    cdef char* w = c.w + (group * c.filters * c.channels + first) * size
    cdef const char* x
    cdef const char* g
    for item in range(c.batch):
        x = c.x + ((item * c.groups + group) * c.channels + first) * c.points * size
        g = c.y + (item * c.groups + group) * c.filters * c.places * size
        start = 0
        while start < c.places:
            conv_gemm(c.dtype, PLAIN, TRANSPOSED, c.filters, min(c.block, c.channels - first), min(c.tile, c.places - start),
                      g + start * size, c.places, x + start * size, c.points, 1, w, c.channels)
            start += c.tile


ctypedef void (*ConvPart)(const Conv* c, int64_t part) noexcept nogil


cdef int conv_run(Conv* c, ConvPart run, int64_t parts) except -1:
    cdef int64_t i
    cdef int64_t work = c.batch * c.groups * c.filters * c.places * c.channels * c.taps
    cdef int threads = num_threads() if parts > 1 and work >= QUIET_WORK else 1
    with nogil:
        if threads == 1:
            for i in range(parts):
                run(c, i)
        else:
            for i in prange(parts, num_threads=threads, schedule="dynamic"):
                run(c, i)
    return 0


# ---- operations

cdef Storage rowmajor(Meta* held, Meta* x):
    """x as BLAS loops take it: row-major, in a dtype that has kernels. The caller clears `held` and keeps what is returned."""
    if x.flags & CONTIGUOUS and COMPUTED[x.dtype] == x.dtype:
        meta_like(held, x)
        return None
    return op_clone(held, x, COMPUTED[x.dtype], True)


cdef Storage convolved(Meta* y, Meta* x, Meta* w, Meta* bias, int n, const int64_t* v):
    """x of shape (batch, channels, *), w (filters, channels / groups, *), bias NULL or of as many elements as filters."""
    cdef Conv c
    cdef Meta a, b, d
    cdef Storage keep_a, keep_b, keep_d, s
    cdef int64_t sizes[5]
    cdef int64_t i
    conv_geometry(&c, "convolution", w, x.ndim - 2, n, v)
    check_conv_input("convolution", &c, x, w)
    conv_sizes(&c, "convolution", x.sizes + 2, x.sizes[0])
    sizes[0], sizes[1] = c.batch, c.groups * c.filters
    for i in range(c.nd):
        sizes[2 + i] = c.out[3 - c.nd + i]
    if bias and (bias.dtype != x.dtype or bias.numel != sizes[1]):
        raise RuntimeError(f"convolution: a bias of {sizes[1]} elements of dtype {name_of(x.dtype)} is wanted, got {name_of(bias.dtype)} of "
                           f"shape {shape_text(bias)}")
    memset(&a, 0, sizeof(Meta))
    memset(&b, 0, sizeof(Meta))
    memset(&d, 0, sizeof(Meta))
    try:
        keep_a, keep_b = rowmajor(&a, x), rowmajor(&b, w)
        if bias:
            keep_d = rowmajor(&d, bias)
        c.dtype = a.dtype
        s = allocate_contig(y, c.nd + 2, sizes, c.dtype)
        c.x, c.w, c.bias, c.y = a.data, b.data, d.data, y.data
        conv_parts(&c, SHARES)
        if y.numel and c.channels * c.taps == 0:
            fill_double(y, 0)
            for i in range(c.batch * c.groups if bias else 0):
                fill_bias(&c, c.y + i * c.filters * c.places * ITEMSIZE[c.dtype], c.bias + i % c.groups * c.filters * ITEMSIZE[c.dtype],
                          c.places)
        elif y.numel and c.plain:
            conv_run(&c, conv_forward_part, c.batch * c.groups * ((c.places + c.tile - 1) // c.tile))
        elif y.numel:
            slide_convolution(&c)
    finally:
        meta_clear(&a)
        meta_clear(&b)
        meta_clear(&d)
    return recast(y, s, x.dtype)


cdef Storage op_convolution(Meta* y, Meta* x, Meta* w, int n, const int64_t* v):
    return convolved(y, x, w, NULL, n, v)


cdef Storage op_convolution_bias(Meta* y, Meta* x, Meta* w, Meta* bias, int n, const int64_t* v):
    return convolved(y, x, w, bias, n, v)


cdef Storage op_convolution_input(Meta* y, Meta* g, Meta* w, int n, const int64_t* v, int m, const int64_t* size):
    """The gradient for an input of shape `size`, from that of the result."""
    cdef Conv c
    cdef Meta a, b
    cdef Storage keep_a, keep_b, s
    conv_geometry(&c, "convolution_input", w, m - 2, n, v)
    check_sizes_of_result(&c, "convolution_input", g, w, m, size)
    memset(&a, 0, sizeof(Meta))
    memset(&b, 0, sizeof(Meta))
    try:
        keep_a, keep_b = rowmajor(&a, g), rowmajor(&b, w)
        c.dtype = a.dtype
        s = allocate_contig(y, m, size, c.dtype)
        c.x, c.w, c.y = y.data, b.data, a.data
        conv_parts(&c, c.batch * c.groups)
        if not (y.numel and g.numel and c.taps):
            fill_double(y, 0)
        elif c.plain:
            conv_run(&c, conv_input_part, c.batch * c.groups * c.blocks)
        else:
            if phases_of(&c, 0) * phases_of(&c, 1) * phases_of(&c, 2) < c.stride[0] * c.stride[1] * c.stride[2]:
                fill_double(y, 0)
            slide_input(&c)
    finally:
        meta_clear(&a)
        meta_clear(&b)
    return recast(y, s, g.dtype)


cdef Storage op_convolution_weight(Meta* y, Meta* g, Meta* x, int n, const int64_t* v, int m, const int64_t* size):
    """The gradient for a weight of shape `size`, from that of the result and the input."""
    cdef Conv c
    cdef Meta a, b, shape
    cdef Storage keep_a, keep_b, s
    memset(&shape, 0, sizeof(Meta))
    meta_contig(&shape, m, size, g.dtype)
    try:
        conv_geometry(&c, "convolution_weight", &shape, x.ndim - 2, n, v)
        check_conv_input("convolution_weight", &c, x, &shape)
        check_sizes_of_result(&c, "convolution_weight", g, &shape, x.ndim, x.sizes)
    finally:
        meta_clear(&shape)
    memset(&a, 0, sizeof(Meta))
    memset(&b, 0, sizeof(Meta))
    try:
        keep_a, keep_b = rowmajor(&a, g), rowmajor(&b, x)
        c.dtype = a.dtype
        s = allocate_contig(y, m, size, c.dtype)
        c.x, c.w, c.y = b.data, y.data, a.data
        conv_parts(&c, c.groups)
        if c.plain or not (y.numel and g.numel):
            fill_double(y, 0)
        if y.numel and g.numel and c.plain:
            conv_run(&c, conv_weight_part, c.groups * c.blocks)
        elif y.numel and g.numel:
            slide_weight(&c)
    finally:
        meta_clear(&a)
        meta_clear(&b)
    return recast(y, s, g.dtype)
