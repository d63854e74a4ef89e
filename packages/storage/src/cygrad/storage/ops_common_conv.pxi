# Geometry of convolutions on any device.

cdef enum:
    AT_MOST = 0x7fffffff          # of a number of a geometry: products of two fit 64 bits

cdef struct Conv:              # sizes of three dimensions; missing ones have size 1
    int nd
    int64_t batch, groups, channels, filters       # channels and filters of one group
    int64_t size[3]            # of the input
    int64_t out[3]
    int64_t window[3]
    int64_t stride[3]
    int64_t pad[3]
    int64_t dilation[3]
    int64_t taps, places, points                   # elements of a window, of a result, of an input, of one channel
    int64_t tile               # places of one tile
    bint plain                 # a window of one element that goes everywhere: the input is its own patches
    int dtype, device
    int64_t block, blocks      # channels of a part, parts in a group
    char* x
    char* w
    char* bias                 # NULL for none
    char* y


cdef int conv_geometry(Conv* c, str op, Meta* w, int nd, int n, const int64_t* v) except -1:
    """Fills what the weight and ``[stride, padding, dilation (each of nd numbers), groups]`` say."""
    cdef int i, k
    memset(c, 0, sizeof(Conv))
    if not is_float(COMPUTED[w.dtype]):
        no_kernel(op, w.dtype)
    if nd < 1 or nd > 3 or n != 3 * nd + 1:
        raise RuntimeError(f"{op}: one to three dimensions with a stride, padding and dilation for each are wanted, got {nd} "
                           f"dimensions and {n} numbers")
    if w.ndim != nd + 2:
        raise RuntimeError(f"{op}: the weight needs {nd + 2} dimensions, got shape {shape_text(w)}")
    c.nd, c.dtype, c.groups = nd, w.dtype, v[3 * nd]
    for i in range(3):
        c.size[i] = c.out[i] = c.window[i] = c.stride[i] = c.dilation[i] = 1
    for i in range(nd):
        k = 3 - nd + i
        c.window[k], c.stride[k], c.pad[k], c.dilation[k] = w.sizes[2 + i], v[i], v[nd + i], v[2 * nd + i]
        if c.stride[k] <= 0:
            raise RuntimeError(f"non-positive stride is not supported: {op} with stride {[v[j] for j in range(nd)]}")
        if c.pad[k] < 0:
            raise RuntimeError(f"negative padding is not supported: {op} with padding {[v[nd + j] for j in range(nd)]}")
        if c.dilation[k] <= 0:
            raise RuntimeError(f"dilation should be greater than zero: {op} with dilation {[v[2 * nd + j] for j in range(nd)]}")
        if max(max(v[i], v[nd + i]), max(v[2 * nd + i], w.sizes[2 + i])) > AT_MOST:
            raise RuntimeError(f"{op}: windows, strides, padding and dilation above 2147483647 are not supported")
    if c.groups <= 0:
        raise RuntimeError(f"non-positive groups is not supported: {op} with groups={c.groups}")
    if w.sizes[0] % c.groups:
        raise RuntimeError(f"Given groups={c.groups}, expected weight to be divisible by {c.groups} at dimension 0, but got weight of "
                           f"size {shape_text(w)} instead")
    c.filters, c.channels = w.sizes[0] // c.groups, w.sizes[1]
    return count_taps(c, op)


cdef int count_taps(Conv* c, str op) except -1:
    """Elements of a window; each of its sizes is at most AT_MOST."""
    cdef int i
    c.taps = 1
    for i in range(3):
        c.taps *= c.window[i]
        if c.taps > AT_MOST:
            raise RuntimeError(f"{op}: windows of more than 2147483647 elements are not supported")
    return 0


cdef int conv_sizes(Conv* c, str op, const int64_t* x, int64_t batch) except -1:
    """Fills the sizes of input and result, when the input's are known."""
    cdef int i, k
    cdef int64_t span, room
    c.batch = batch
    for i in range(c.nd):
        k = 3 - c.nd + i
        c.size[k] = x[i]
        if x[i] > AT_MOST:
            raise RuntimeError(f"{op}: images of more than 2147483647 elements a channel are not supported")
        span = c.dilation[k] * (c.window[k] - 1) + 1
        room = x[i] + 2 * c.pad[k]
        if c.window[k] > 0 and span > room:
            raise RuntimeError(f"Calculated padded input size per channel: {[x[j] + 2 * c.pad[3 - c.nd + j] for j in range(c.nd)]}. "
                               f"Kernel size: {[c.dilation[3 - c.nd + j] * (c.window[3 - c.nd + j] - 1) + 1 for j in range(c.nd)]}. "
                               "Kernel size can't be greater than actual input size")
        c.out[k] = (room - span) // c.stride[k] + 1
    c.plain = True
    c.points = c.places = 1
    for i in range(3):
        c.plain = c.plain and c.window[i] == 1 and c.stride[i] == 1 and c.pad[i] == 0
        if max(c.size[i], c.out[i]) > 0x7fffffff or max(c.points * c.size[i], c.places * c.out[i]) > 0x7fffffff:
            raise RuntimeError(f"{op}: images of more than 2147483647 elements a channel are not supported")
        c.points *= c.size[i]
        c.places *= c.out[i]
    if max(c.channels, c.filters) > AT_MOST or c.channels * c.taps > AT_MOST:
        raise RuntimeError(f"{op}: filters of more than 2147483647 elements are not supported")
    return 0


cdef int check_conv_input(str op, Conv* c, Meta* x, Meta* w) except -1:
    if x.dtype != w.dtype:
        raise RuntimeError(f"Input type ({name_of(x.dtype)}) and weight type ({name_of(w.dtype)}) should be the same: {op}")
    if x.sizes[1] != c.channels * c.groups:
        raise RuntimeError(f"Given groups={c.groups}, weight of size {shape_text(w)}, expected input{shape_text(x)} to have "
                           f"{c.channels * c.groups} channels, but got {x.sizes[1]} channels instead")
    return 0


cdef int check_sizes_of_result(Conv* c, str op, Meta* g, Meta* w, int m, const int64_t* size) except -1:
    """Whether g has the shape of the result for an input of shape `size`."""
    cdef int i
    if g.dtype != w.dtype:
        raise RuntimeError(f"Input type ({name_of(g.dtype)}) and weight type ({name_of(w.dtype)}) should be the same: {op}")
    if size[1] != c.channels * c.groups:
        raise RuntimeError(f"{op}: a weight of shape {shape_text(w)} with groups={c.groups} belongs to {c.channels * c.groups} channels, not "
                           f"{size[1]}")
    for i in range(m):
        if size[i] < 0:
            raise RuntimeError(f"{op}: the negative size {size[i]} at dimension {i}")
    conv_sizes(c, op, size + 2, size[0])
    if g.ndim != m or g.sizes[0] != c.batch or g.sizes[1] != c.groups * c.filters:
        raise RuntimeError(f"{op}: {c.groups * c.filters} channels in a batch of {c.batch} are wanted, got shape {shape_text(g)}")
    for i in range(c.nd):
        if g.sizes[2 + i] != c.out[3 - c.nd + i]:
            raise RuntimeError(f"{op}: a result of sizes {[c.out[3 - c.nd + j] for j in range(c.nd)]} belongs to an input of sizes "
                               f"{[size[2 + j] for j in range(c.nd)]}, got shape {shape_text(g)}")
    return 0
