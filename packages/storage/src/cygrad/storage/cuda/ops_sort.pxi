# Sorting on a device. May use: ops_reduce (lines), ops_index.

cdef extern from "kernels.h" nogil:
    int cyg_sort_scratch(int code, int64_t lines, int64_t count, int64_t* nbytes)
    int cyg_sort(int code, const CygLines* lines, int descending, int64_t* places, int64_t* keys, void* scratch, int64_t nbytes,
                 void* stream)
    int cyg_search(int code, const char* bounds, const char* x, const int64_t* sorter, int64_t* y, int64_t width, int64_t each,
                   int64_t total, int right, void* stream)


cdef int sort_lines(str op, int device, int code, const CygLines* l, bint descending, char* places, char* keys) except -1:
    """Places of each line in stable order; keys: NULL, or where one line of int64 goes itself."""
    cdef int64_t nbytes = 0
    cdef void* stream
    cdef Storage room
    enter(device, &stream)
    ran(cyg_sort_scratch(code, l.lines, l.count, &nbytes), op, code)
    room = scratch(device, nbytes)
    return ran(cyg_sort(code, l, descending, <int64_t*>places, <int64_t*>keys, room.ptr, nbytes, stream), op, code)


cdef Storage order_of(Meta* y, Meta* x, int64_t dim, bint descending):
    """Places in stable order along dim, int64 in x's shape."""
    cdef CygLines l
    cdef Meta made
    cdef Meta* operands[2]
    cdef Storage s
    cdef int64_t strides[MAXDIM]
    cdef int64_t step
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
            sort_lines("sort", x.device, x.dtype, &l, descending, made.data, NULL)
        if is_rowmajor(&made):
            meta_like(y, &made)
            return s
        return op_clone(y, &made, INT64, True)
    finally:
        meta_clear(&made)


cdef tuple op_sort(Meta* y, Meta* index, Meta* x, int64_t dim, bint descending, bint stable):
    cdef Storage values, places = order_of(index, x, dim, descending)
    try:
        values = gather_from(y, x, dim, index)
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
        values = gather_from(y, x, dim, index)
    except BaseException:
        meta_clear(index)
        raise
    finally:
        meta_clear(&order)
        meta_clear(&front)
    return values, places


cdef tuple op_kthvalue(Meta* y, Meta* index, Meta* x, int64_t k, int64_t dim, bint keepdim):
    cdef Meta order, front, places, values
    cdef Storage keep, first, second
    cdef uint64_t drop = 0 if keepdim or x.ndim == 0 else <uint64_t>1 << dim
    if size_at(x, dim) == 0:
        raise IndexError(f"kthvalue(): Expected reduction dim {dim} to have non-zero size.")
    if not 1 <= k <= size_at(x, dim):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {dim}: k={k} of {size_at(x, dim)} elements")
    memset(&order, 0, sizeof(Meta))
    memset(&front, 0, sizeof(Meta))
    memset(&places, 0, sizeof(Meta))
    memset(&values, 0, sizeof(Meta))
    values.device = x.device
    try:
        keep = order_of(&order, x, dim, False)
        if x.ndim:
            view_narrow(&front, &order, dim, k - 1, 1)
        else:
            meta_like(&front, &order)
        second = op_clone(&places, &front, INT64, True)
        first = gather_from(&values, x, dim, &places)
        view_squeeze(index, &places, drop)
        view_squeeze(y, &values, drop)
    finally:
        meta_clear(&order)
        meta_clear(&front)
        meta_clear(&places)
        meta_clear(&values)
    return first, second


cdef Storage op_searchsorted(Meta* y, Meta* bounds, Meta* x, Meta* sorter, bint right, bint narrow):
    cdef int64_t width = bounds.sizes[bounds.ndim - 1], bad
    cdef Meta wide
    cdef Storage s
    cdef void* stream
    if bounds.dtype == BOOL or is_complex(bounds.dtype):
        no_kernel("searchsorted", bounds.dtype)
    if narrow and width > 0x7fffffff:
        raise RuntimeError(f"torch.searchsorted(): the size of boundaries' last dimension should be less than 2**31 if "
                           f"out_int32 is True, got {width}")
    if sorter != NULL:
        bad = position_outside(sorter, 0, width)
        if bad >= 0:
            raise RuntimeError(f"torch.searchsorted(): sorter index out of range: {index_number(sorter, bad)} of {width} boundaries")
    memset(&wide, 0, sizeof(Meta))
    wide.device = x.device
    s = allocate_contig(&wide, x.ndim, x.sizes, INT64)
    try:
        if x.numel:
            enter(x.device, &stream)
            ran(cyg_search(bounds.dtype, bounds.data, x.data, <int64_t*>sorter.data if sorter != NULL else NULL,
                           <int64_t*>wide.data, width, x.sizes[x.ndim - 1] if bounds.ndim > 1 else 0, x.numel, right, stream),
                "searchsorted", bounds.dtype)
        if narrow:
            return op_clone(y, &wide, INT32, True)
        meta_like(y, &wide)
    finally:
        meta_clear(&wide)
    return s


cdef Storage op_repeat_positions(Meta* y, Meta* repeats, int64_t total):
    """i, repeats[i] times, for each i in order: where a number stands among the running sums."""
    cdef Meta held, sums, counted
    cdef Storage keep, keep_sums, keep_counted, s
    cdef int64_t bad, known = 0
    cdef void* stream
    if repeats.ndim != 1:
        raise RuntimeError(f"repeat_interleave: the repeats are a vector, got shape {shape_text(repeats)}")
    if repeats.dtype != INT64 and repeats.dtype != INT32:
        no_kernel("repeat_interleave, whose repeats are int64 or int32,", repeats.dtype)
    memset(&held, 0, sizeof(Meta))
    memset(&sums, 0, sizeof(Meta))
    memset(&counted, 0, sizeof(Meta))
    sums.device = counted.device = repeats.device
    try:
        keep = op_clone(&held, repeats, INT64, True)
        bad = position_outside(&held, 0, INT64_MAX // max(held.numel, 1))
        if bad >= 0:
            raise RuntimeError(f"repeat_interleave: repeats cannot be negative or too large, got {index_number(&held, bad)}")
        if held.numel:
            keep_sums = op_cumsum(&sums, &held, 0, INT64)
            read_back(&known, repeats.device, sums.data + (sums.numel - 1) * 8, 8)
        if total >= 0 and total != known:
            raise RuntimeError(f"repeat_interleave: output_size is {total}, but the repeats add up to {known}")
        if known == 0:
            return allocate_contig(y, 1, &known, INT64)
        keep_counted = allocate_contig(&counted, 1, &known, INT64)
        enter(repeats.device, &stream)
        ran(cyg_count(<int64_t*>counted.data, known, stream), "repeat_interleave", INT64)
        return op_searchsorted(y, &sums, &counted, NULL, True, False)
    finally:
        meta_clear(&held)
        meta_clear(&sums)
        meta_clear(&counted)


cdef int masked_scatter_into(Meta* x, Meta* mask, Meta* source) except -1:
    cdef Meta chosen, index, flat, values
    cdef Storage keep, numbers
    cdef int64_t found, one = 1
    if x.dtype != source.dtype:
        raise RuntimeError(f"masked_scatter: the tensor has dtype {name_of(x.dtype)}, the source "
                           f"{name_of(source.dtype)}: the same dtype is wanted")
    if mask.dtype != BOOL:
        raise RuntimeError(f"masked_scatter: a mask of bool is wanted, got {name_of(mask.dtype)}")
    check_writable("masked_scatter", x)
    memset(&chosen, 0, sizeof(Meta))
    memset(&index, 0, sizeof(Meta))
    memset(&flat, 0, sizeof(Meta))
    memset(&values, 0, sizeof(Meta))
    try:
        view_expand(&chosen, mask, x.ndim, x.sizes)
        numbers = chosen_numbers(&chosen, &found)
        if found > source.numel:
            raise RuntimeError(f"masked_scatter: the mask holds for {found} elements, the source has {source.numel}")
        if found == 0:
            return 0
        index.device = values.device = x.device
        meta_strided(&index, 1, &found, &one, INT64, numbers.ptr)
        keep = rowmajor(&flat, source)
        meta_strided(&values, 1, &found, &one, x.dtype, flat.data)
        return join_into(join_flat, "masked_scatter", x, 0, &index, &values, WRITE, True, True)
    finally:
        meta_clear(&chosen)
        meta_clear(&index)
        meta_clear(&flat)
        meta_clear(&values)


cdef Storage op_sort_rows(Meta* y, Meta* x):
    """Numbers of the rows of a contiguous matrix, in the rows' order: stable sorts, from the last column to the first."""
    cdef Meta order, column, keys, turn, fresh
    cdef Storage memory, keep, kept
    cdef int64_t n = x.sizes[0], k
    cdef void* stream
    memset(&order, 0, sizeof(Meta))
    order.device = x.device
    memory = allocate_contig(&order, 1, &n, INT64)
    if n:
        enter(x.device, &stream)
        ran(cyg_count(<int64_t*>order.data, n, stream), "sort", INT64)
    try:
        for k in range(x.sizes[1] - 1 if n else -1, -1, -1):
            memset(&column, 0, sizeof(Meta))
            memset(&keys, 0, sizeof(Meta))
            memset(&turn, 0, sizeof(Meta))
            memset(&fresh, 0, sizeof(Meta))
            keys.device = fresh.device = x.device
            view_select(&column, x, 1, k)
            try:
                keep = op_index_select(&keys, &column, 0, &order)
                kept = order_of(&turn, &keys, 0, False)
                memory = op_index_select(&fresh, &order, 0, &turn)
                meta_clear(&order)
                meta_like(&order, &fresh)
            finally:
                meta_clear(&column)
                meta_clear(&keys)
                meta_clear(&turn)
                meta_clear(&fresh)
        meta_like(y, &order)
    finally:
        meta_clear(&order)
    return memory
