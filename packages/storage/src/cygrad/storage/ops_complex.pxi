# Complex numbers: reductions and scans through their parts. A complex tensor is seen as a real one with a last dimension
# of two, whose strides are the same memory's.

cdef Storage over_parts(Meta* y, Meta* x, uint64_t mask, bint keepdim, int kid, int out, double attr, double empty):
    """A sum-like reduction of both parts; y is complex."""
    cdef Meta shown, made
    cdef Storage s
    memset(&shown, 0, sizeof(Meta))
    memset(&made, 0, sizeof(Meta))
    view_parts(&shown, x)
    try:
        s = reduce_to(&made, &shown, mask, keepdim, kid, out, shown.dtype, attr, empty)
        view_whole(y, &made)
    finally:
        meta_clear(&shown)
        meta_clear(&made)
    return s


cdef Storage spread_of_parts(Meta* y, Meta* x, uint64_t mask, double correction, bint keepdim):
    """The variance: the sum of the variances of both parts."""
    cdef Meta shown, made
    cdef Storage s
    memset(&shown, 0, sizeof(Meta))
    memset(&made, 0, sizeof(Meta))
    view_parts(&shown, x)
    try:
        s = reduce_to(&made, &shown, mask, keepdim, H_VAR, AS_VAR, shown.dtype, correction, NAN)
        return reduce_to(y, &made, <uint64_t> 1 << (made.ndim - 1), False, H_SUM, AS_SUM, made.dtype, 0, 0)
    finally:
        meta_clear(&shown)
        meta_clear(&made)


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


cdef Storage scan_parts(int kid, Meta* y, Meta* x, int64_t dim, bint reverse):
    """A running sum of both parts; y is complex."""
    cdef Meta shown, made
    cdef Storage s
    if x.ndim == 0:                            # whose only dimension would be that of the parts
        return op_clone(y, x, x.dtype, True)
    memset(&shown, 0, sizeof(Meta))
    memset(&made, 0, sizeof(Meta))
    view_parts(&shown, x)
    try:
        s = allocate_contig(&made, shown.ndim, shown.sizes, shown.dtype)
        scan_into(kid, &made, &shown, NULL, dim, reverse)
        view_whole(y, &made)
    finally:
        meta_clear(&shown)
        meta_clear(&made)
    return s


cdef Storage truth_of(Meta* y, Meta* x, uint64_t mask, bint keepdim, int kid, double empty):
    cdef Meta held
    cdef Storage s
    if not is_complex(x.dtype):
        return reduce_to(y, x, mask, keepdim, kid, AS_TRUTH, UINT8 if x.dtype == UINT8 else BOOL, 0, empty)
    memset(&held, 0, sizeof(Meta))
    s = op_clone(&held, x, BOOL, False)
    try:
        return reduce_to(y, &held, mask, keepdim, kid, AS_TRUTH, BOOL, 0, empty)
    finally:
        meta_clear(&held)
