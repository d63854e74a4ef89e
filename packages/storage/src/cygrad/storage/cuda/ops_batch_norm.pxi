# Batch normalisation on a device. May use: ops_copy.

cdef extern from "kernels.h" nogil:
    int CYG_CHANNELS_NORM, CYG_CHANNELS_SUMS, CYG_CHANNELS_INPUT
    ctypedef struct CygChannels:
        char* y
        char* stats
        char* sums
        const char* x
        const char* g
        const char* w
        const char* b
        int64_t batch, channels, places
        double eps
    int64_t cyg_channels_scratch(const CygChannels* c)
    int cyg_channels(int what, int code, const CygChannels* c, void* scratch, void* stream)


@cython.final
@cython.no_gc
cdef class Dense:
    # a row-major tensor, or a copy that is
    cdef Meta m
    cdef Storage memory

    def __dealloc__(self):
        meta_clear(&self.m)


cdef Dense dense_of(str op, Meta* x, int code, int64_t numel):
    """x of this dtype and so many elements, row-major, in the dtype that it computes in."""
    cdef Dense d = Dense.__new__(Dense)
    if x.dtype != code or x.numel != numel:
        raise RuntimeError(f"{op}: {numel} elements of {name_of(code)} are wanted, got {name_of(x.dtype)} of shape {shape_text(x)}")
    d.memory = rowmajor(&d.m, x) if COMPUTED[code] == code else op_clone(&d.m, x, COMPUTED[code], True)
    return d


cdef int channel_sizes(str op, CygChannels* c, Meta* x, double eps) except -1:
    cdef int d
    if not is_float(x.dtype):
        no_kernel(op, x.dtype)
    if x.ndim < 2:
        raise RuntimeError(f"{op}: an input of shape (batch, channels, *) is wanted, got {shape_text(x)}")
    memset(c, 0, sizeof(CygChannels))
    c.batch, c.channels, c.places, c.eps = x.sizes[0], x.sizes[1], 1, eps
    for d in range(2, x.ndim):
        c.places *= x.sizes[d]
    return 0


cdef int run_channels(str op, int what, Meta* x, const CygChannels* c) except -1:
    cdef int64_t nbytes = 0 if what == CYG_CHANNELS_INPUT else cyg_channels_scratch(c)
    cdef Storage room = scratch(x.device, nbytes) if nbytes else None
    cdef void* stream
    enter(x.device, &stream)
    return ran(cyg_channels(what, COMPUTED[x.dtype], c, room.ptr if nbytes else NULL, stream), op, x.dtype)


cdef tuple op_batch_norm(Meta* y, Meta* stats, Meta* x, Meta* w, Meta* b, double eps):
    """Normalised x, and its statistics as rows: mean, reciprocal of the standard deviation, variance."""
    cdef CygChannels c
    cdef Dense image, weight, bias
    cdef int64_t shape[2]
    cdef Storage s, t
    channel_sizes("batch_norm", &c, x, eps)
    image, weight = dense_of("batch_norm", x, x.dtype, x.numel), dense_of("batch_norm", w, x.dtype, c.channels)
    bias = dense_of("batch_norm", b, x.dtype, c.channels)
    s = allocate_contig(y, x.ndim, x.sizes, COMPUTED[x.dtype])
    shape[0], shape[1] = 3, c.channels
    try:
        t = allocate_contig(stats, 2, shape, COMPUTED[x.dtype])
        c.y, c.stats, c.x, c.w, c.b = y.data, stats.data, image.m.data, weight.m.data, bias.m.data
        run_channels("batch_norm", CYG_CHANNELS_NORM, x, &c)
    except BaseException:
        meta_clear(y)
        meta_clear(stats)
        raise
    return recast(y, s, x.dtype), recast(stats, t, x.dtype)


cdef Storage op_batch_norm_sums(Meta* y, Meta* g, Meta* x, Meta* stats):
    cdef CygChannels c
    cdef Dense image, slope, table
    cdef int64_t shape[2]
    cdef Storage s
    channel_sizes("batch_norm_sums", &c, x, 0)
    image, slope = dense_of("batch_norm_sums", x, x.dtype, x.numel), dense_of("batch_norm_sums", g, x.dtype, x.numel)
    table = dense_of("batch_norm_sums", stats, x.dtype, 3 * c.channels)
    shape[0], shape[1] = 2, c.channels
    s = allocate_contig(y, 2, shape, COMPUTED[x.dtype])
    c.sums, c.stats, c.x, c.g = y.data, table.m.data, image.m.data, slope.m.data
    try:
        run_channels("batch_norm_sums", CYG_CHANNELS_SUMS, x, &c)
    except BaseException:
        meta_clear(y)
        raise
    return recast(y, s, x.dtype)


cdef Storage op_batch_norm_input(Meta* y, Meta* g, Meta* x, Meta* w, Meta* stats, Meta* sums):
    cdef CygChannels c
    cdef Dense image, slope, weight, table, totals
    cdef Storage s
    channel_sizes("batch_norm_input", &c, x, 0)
    image, slope = dense_of("batch_norm_input", x, x.dtype, x.numel), dense_of("batch_norm_input", g, x.dtype, x.numel)
    weight, table = dense_of("batch_norm_input", w, x.dtype, c.channels), dense_of("batch_norm_input", stats, x.dtype, 3 * c.channels)
    totals = dense_of("batch_norm_input", sums, x.dtype, 2 * c.channels)
    s = allocate_contig(y, x.ndim, x.sizes, COMPUTED[x.dtype])
    c.y, c.sums, c.stats, c.x, c.g, c.w = y.data, totals.m.data, table.m.data, image.m.data, slope.m.data, weight.m.data
    try:
        run_channels("batch_norm_input", CYG_CHANNELS_INPUT, x, &c)
    except BaseException:
        meta_clear(y)
        raise
    return recast(y, s, x.dtype)
