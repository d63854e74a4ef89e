# ops_common: what the operations of every device share. May use: core. Invariant: a Meta whose memory cannot be had is empty again.

cdef Storage allocate(Meta* y):
    """Memory for y; y is empty again when there is none."""
    try:
        return meta_storage(y)
    except BaseException:
        meta_clear(y)
        raise


cdef Storage allocate_contig(Meta* y, int ndim, const int64_t* sizes, int code):
    meta_contig(y, ndim, sizes, code)
    return allocate(y)


cdef void scalar_meta(Meta* m, void* data, int code) noexcept:
    """A 0-d Meta over one element; needs no meta_clear."""
    memset(m, 0, sizeof(Meta))
    m.data = <char*> data
    m.numel = 1
    m.sizes = &m.inl[0]
    m.strides = &m.inl[5]
    m.dtype = code
    m.flags = CONTIGUOUS


cdef str name_of(int code):
    return dtype_object(code).name


cdef str shape_text(const Meta* m):
    return str(list(shape_tuple(m)))


cdef int no_kernel(str op, int code) except -1:
    raise NotImplementedError(f"{op} is not implemented for {name_of(code)}")


cdef int check_writable(str op, Meta* x) except -1:
    if has_internal_overlap(x):
        raise RuntimeError(
            f"{op}: unsupported operation: several elements of the tensor written to (shape {shape_text(x)}, strides "
            f"{list(stride_tuple(x))}) share one memory location; clone() it first")
    return 0
