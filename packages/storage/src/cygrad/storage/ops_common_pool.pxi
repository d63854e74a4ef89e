# Pooling and patches on any device: geometry and shapes. A device has `pool_run` and `conv_run`, `rowmajor` and `recast`.

cdef enum:
    POOL_NUMBERS = 5           # lists of a geometry: output sizes, window, stride, padding, dilation
    MEANS = 0                  # what is done with a plane
    SPREAD = 1
    TOPS = 2
    ADD = 3
    PICK = 4

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
    int dtype, device
    const char* x
    char* y
    int64_t* index


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


cdef int pool_dtype(str op, Meta* x) except -1:
    if not is_float(COMPUTED[x.dtype]):
        no_kernel(op, x.dtype)
    return COMPUTED[x.dtype]


cdef int check_places(str op, Meta* index, int ndim, const int64_t* sizes) except -1:
    cdef int i
    cdef bint fits = index.dtype == INT64 and index.ndim == ndim
    for i in range(ndim if fits else 0):
        fits = fits and index.sizes[i] == sizes[i]
    if not fits:
        raise RuntimeError(f"{op}: int64 places of sizes {[sizes[i] for i in range(ndim)]} are wanted, got {name_of(index.dtype)} of shape "
                           f"{shape_text(index)}")
    return 0


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
        p.dtype, p.device = a.dtype, a.device
        s = allocate_contig(y, x.ndim, sizes, p.dtype)
        p.x, p.y = a.data, y.data
        if y.numel:
            with nogil:
                pool_run(&p, what)
    finally:
        meta_clear(&a)
        meta_clear(&b)
    return recast(y, s, x.dtype)


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
        p.dtype, p.device = a.dtype, a.device
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
        c.dtype, c.device = a.dtype, a.device
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
        c.dtype, c.device = a.dtype, a.device
        s = allocate_contig(y, nd + 2, sizes, c.dtype)
        fill_double(y, 0)
        c.x, c.y = y.data, a.data
        if g.numel:
            conv_run(&c, patch_back_part, c.batch * c.channels)
    finally:
        meta_clear(&a)
    return recast(y, s, g.dtype)
