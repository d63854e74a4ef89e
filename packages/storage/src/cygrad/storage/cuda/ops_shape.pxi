# Arrangement and creation on a device. May use: ops_copy, what devices share.

include "ops_common_shape.pxi"

cdef extern from "kernels.h" nogil:
    int cyg_triangle(int size, char* x, int ndim, const int64_t* sizes, const int64_t* steps, int64_t count, int64_t diagonal,
                     int upper, void* stream)


cdef int triangle_into(str op, Meta* x, int64_t diagonal, bint upper) except -1:
    cdef int64_t sizes[MAXDIM]
    cdef int64_t steps[MAXDIM]
    cdef void* stream
    cdef int d, last = x.ndim - 1
    check_triangle(op, x)
    if x.numel == 0:
        return 0
    limit = max(x.sizes[last - 1], x.sizes[last]) + 1
    for d in range(x.ndim):
        sizes[d], steps[d] = x.sizes[last - d], x.strides[last - d] * ITEMSIZE[x.dtype]
    enter(x.device, &stream)
    return ran(cyg_triangle(ITEMSIZE[x.dtype], x.data, x.ndim, sizes, steps, x.numel, min(max(diagonal, -limit), limit), upper,
                            stream), op, x.dtype)


# ---- small tensors are made on the CPU and copied: their rules and rounding are its

cdef Storage brought(Meta* y, Meta* near, int device):
    cdef Storage s
    meta_like(y, near)
    y.data = NULL
    meta_place(y, device)
    s = allocate(y)
    if y.numel:
        send_small(y, near)
    return s


cdef Storage op_arange(Meta* y, object start, object end, object step, int dtype):
    cdef Held near = Held.__new__(Held)
    near.memory = ops.op_arange(&near.m, start, end, step, dtype)
    return brought(y, &near.m, y.device)


cdef Storage op_linspace(Meta* y, double start, double end, int64_t steps, int dtype):
    cdef Held near = Held.__new__(Held)
    near.memory = ops.op_linspace(&near.m, start, end, steps, dtype)
    return brought(y, &near.m, y.device)


cdef Storage op_eye(Meta* y, int64_t n, int64_t m, int dtype):
    cdef Held near = Held.__new__(Held)
    near.memory = ops.op_eye(&near.m, n, m, dtype)
    return brought(y, &near.m, y.device)
