# Complex numbers: reductions and scans through their parts. A complex tensor is seen as a real one with a last dimension
# of two, whose strides are the same memory's.

cdef void take_roots(Meta* y) noexcept:
    """Square roots of a row-major real y, in place."""
    cdef int64_t i
    for i in range(y.numel):
        if y.dtype == FLOAT32:
            (<float*> y.data)[i] = <float> sqrt((<float*> y.data)[i])
        else:
            (<double*> y.data)[i] = sqrt((<double*> y.data)[i])


cdef Storage modulus(Meta* y, Meta* x):
    """Absolute values, as a real tensor."""
    cdef Meta* operands[2]
    cdef Iter it
    cdef Storage s = allocate_contig(y, x.ndim, x.sizes, real_of(x.dtype))
    if y.numel:
        operands[0], operands[1] = y, x
        iter_build(&it, operands, 2, y.ndim, y.sizes)
        iter_run_gil(&it, <Loop> hand_kernel(H_MODULUS, x.dtype), NULL)
    return s
