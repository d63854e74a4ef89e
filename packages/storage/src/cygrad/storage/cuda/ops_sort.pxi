# Sorting on a device. May use: ops_reduce (lines), ops_index.

cdef extern from "kernels.h" nogil:
    int64_t cyg_sort_scratch(int64_t total)
    int cyg_sort(int code, const CygLines* lines, int descending, int64_t* places, int64_t* keys, void* scratch, void* stream)
    int cyg_search(int code, const char* bounds, const char* x, const int64_t* sorter, int64_t* y, int64_t width, int64_t each,
                   int64_t total, int right, void* stream)


cdef Storage order_of(Meta* y, Meta* x, int64_t dim, bint descending):
    """Places in stable order along dim, int64 in x's shape."""
    cdef CygLines l
    cdef Meta made
    cdef Meta* operands[2]
    cdef Storage s, room
    cdef int64_t sizes[MAXDIM]
    cdef int64_t strides[MAXDIM]
    cdef int64_t step
    cdef void* stream
    cdef int d
    if is_complex(x.dtype):
        no_kernel("sort", x.dtype)
    memset(&made, 0, sizeof(Meta))
    # lines one after another: the sorted dimension is the inner one of the memory
    step = x.sizes[dim] if x.ndim else 1
    for d in range(x.ndim - 1, -1, -1):
        if d == dim:
            strides[d] = 1
        else:
            strides[d] = step
            step *= x.sizes[d]
    made.device = x.device
    meta_strided(&made, x.ndim, x.sizes, strides, INT64, NULL)
    meta_place(&made, x.device)
    s = allocate(&made)
    try:
        if x.numel:
            operands[0], operands[1] = &made, x
            line_dims(&l, operands, 2, dim)
            l.x = x.data
            enter(x.device, &stream)
            room = scratch(x.device, cyg_sort_scratch(x.numel))
            ran(cyg_sort(x.dtype, &l, descending, <int64_t*>made.data, NULL, room.ptr, stream), "sort", x.dtype)
        if is_rowmajor(&made):
            meta_like(y, &made)
            return s
        return op_clone(y, &made, INT64, True)
    finally:
        meta_clear(&made)


cdef tuple op_sort(Meta* y, Meta* index, Meta* x, int64_t dim, bint descending, bint stable):
    cdef Storage values, places = order_of(index, x, dim, descending)
    try:
        values = op_gather(y, x, dim, index)
    except BaseException:
        meta_clear(index)
        raise
    return values, places


cdef tuple op_topk(Meta* y, Meta* index, Meta* x, int64_t k, int64_t dim, bint largest, bint in_order):
    cdef Meta order, front
    cdef Storage keep, values, places
    if k < 0 or k > size_at(x, dim):
        raise RuntimeError(f"topk: k = {k} of {size_at(x, dim)} elements in dimension {dim}: selected index k out of range")
    memset(&order, 0, sizeof(Meta))
    memset(&front, 0, sizeof(Meta))
    keep = order_of(&order, x, dim, largest)
    try:
        if x.ndim:
            view_narrow(&front, &order, dim, 0, k)
        else:
            meta_like(&front, &order)
        places = op_clone(index, &front, INT64, True)
        values = op_gather(y, x, dim, index)
    finally:
        meta_clear(&order)
        meta_clear(&front)
    return values, places
