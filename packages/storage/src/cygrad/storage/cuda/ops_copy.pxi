# Copies, casts and fills on a device. May use: core, the entry points of kernels.h.
# Invariant: what a result is placed on is what its input lies on.

cdef extern from "kernels.h" nogil:
    int cyg_pointwise(int kernel, int code, const void* it, const double* attr, unsigned held, void* stream)
    int cyg_copy(int to, int source, const void* it, void* stream)
    int cyg_fill(int code, const void* it, const void* cell, void* stream)
    const char* cyg_library_said()


cdef int ran(int code, str op, int dtype) except -1:
    """What an entry point returned: nothing, or an error."""
    if code == 0:
        return 0
    if code == -1:
        return no_kernel(op, dtype)
    if code == -2:
        raise RuntimeError(f"{op}: CUDA kernels take tensors of at most 24 dimensions that do not join: call contiguous() first")
    if code == -3:
        raise RuntimeError(f"{op}: cuBLAS has not been opened")
    if code == -4:
        raise RuntimeError(f"{op}: {cyg_library_said().decode()}")
    if code == -5:
        raise RuntimeError(f"{op}: cuBLAS does not take the strides of an operand")
    if code == -7:
        raise RuntimeError(f"{op}: a dimension of 2147483648 elements or more is not supported on CUDA devices")
    return check(code, op)


cdef int copy_broadcast(Meta* y, Meta* x) except -1:
    """y = x cast and broadcast; shapes fit, memory does not overlap."""
    cdef Iter it
    cdef Meta* operands[2]
    cdef void* stream
    if y.numel == 0:
        return 0
    operands[0], operands[1] = y, x
    iter_build(&it, operands, 2, y.ndim, y.sizes)
    enter(y.device, &stream)
    return ran(cyg_copy(y.dtype, x.dtype, &it, stream), "copy_", y.dtype)


cdef Storage op_clone(Meta* y, Meta* x, int dtype, bint rowmajor):
    cdef Storage s
    if dtype < 0:
        dtype = x.dtype
    if rowmajor:
        meta_contig(y, x.ndim, x.sizes, dtype)
    else:
        meta_dense_like(y, x, dtype)
    meta_place(y, x.device)
    s = allocate(y)
    try:
        copy_broadcast(y, x)
    except BaseException:
        meta_clear(y)
        raise
    return s


cdef Storage op_cast(Meta* y, Meta* x, int dtype):
    return op_clone(y, x, dtype, False)


cdef int copy_on_device(Meta* dst, Meta* src) except -1:
    cdef Meta held
    cdef Storage s
    cdef int d, lead = dst.ndim - src.ndim
    cdef bint fits = lead >= 0
    if fits:
        for d in range(src.ndim):
            fits = fits and (src.sizes[d] == 1 or src.sizes[d] == dst.sizes[d + lead])
    if not fits:
        raise RuntimeError(f"copy_: a source of shape {shape_text(src)} does not broadcast to the shape "
                           f"{shape_text(dst)} of the tensor written to")
    check_writable("copy_", dst)
    if not may_share_memory(dst, src):
        return copy_broadcast(dst, src)
    memset(&held, 0, sizeof(Meta))
    s = op_clone(&held, src, dst.dtype, False)
    try:
        return copy_broadcast(dst, &held)
    finally:
        meta_clear(&held)


cdef Storage rowmajor(Meta* held, Meta* x):
    """x as kernels over dense memory take it. The caller clears `held` and keeps what is returned."""
    if x.flags & CONTIGUOUS or x.flags & FLAT and is_rowmajor(x):
        meta_like(held, x)
        return None
    return op_clone(held, x, x.dtype, True)


cdef bint is_rowmajor(const Meta* x) noexcept:
    cdef int64_t step = 1
    cdef int d
    for d in range(x.ndim - 1, -1, -1):
        if x.sizes[d] != 1 and x.strides[d] != step:
            return False
        step *= x.sizes[d]
    return True


cdef int fill_cell(Meta* y, const void* cell) except -1:
    """Every element of y, which may overlap itself, becomes `cell`, one element of its dtype in the host's memory."""
    cdef Iter it
    cdef Meta* operands[1]
    cdef void* stream
    if y.numel == 0:
        return 0
    operands[0] = y
    iter_build(&it, operands, 1, y.ndim, y.sizes)
    enter(y.device, &stream)
    return ran(cyg_fill(y.dtype, &it, cell, stream), "fill_", y.dtype)


cdef int fill_number(Meta* dst, object value) except -1:
    cdef int64_t cell[2]
    cdef Meta one
    cell[0] = cell[1] = 0
    scalar_meta(&one, cell, dst.dtype)
    ops.fill_number(&one, value)               # the CPU's rules of what fits a dtype
    return fill_cell(dst, cell)


cdef int fill_double(Meta* dst, double value) except -1:
    cdef int64_t cell[2]
    cdef Meta one
    cell[0] = cell[1] = 0
    scalar_meta(&one, cell, dst.dtype)
    ops.fill_double(&one, value)
    return fill_cell(dst, cell)


cdef Storage op_full(Meta* y, int nd, const int64_t* sizes, double value, int dtype):
    cdef Storage s = allocate_contig(y, nd, sizes, dtype)
    try:
        fill_double(y, value)
    except BaseException:
        meta_clear(y)
        raise
    return s


cdef int pointwise(int device, int kid, int code, Iter* it, int held, const double* attr) except -1:
    cdef void* stream
    enter(device, &stream)
    return ran(cyg_pointwise(kid, code, it, attr, held, stream), "this operation", code)


cdef int run_row(int kid, int code, Meta** operands, int count, const double* attr) except -1:
    """One row of the op table over Metas that are there, the result first."""
    cdef Iter it
    if operands[0].numel == 0:
        return 0
    iter_build(&it, operands, count, operands[0].ndim, operands[0].sizes)
    return pointwise(operands[0].device, kid, code, &it, 0, attr)
