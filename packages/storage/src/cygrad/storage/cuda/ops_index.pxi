# Reading and writing through indices on a device. May use: ops_copy, ops_sort, what devices share.
# Index tensors become places, byte offsets in x. Places are read at once; before they are written they are sorted, so that
# equal ones are taken in their order, by one thread or in blocks that are joined first.

from libc.stdlib cimport free, malloc

include "ops_common_index.pxi"

cdef extern from "kernels.h" nogil:
    ctypedef struct CygPlaces:
        int64_t* places
        const char* index
        int64_t count, low, size, step
        int first
        uint64_t* bad
        int ndim
        int64_t sizes[64]
        int64_t steps[64][2]
    ctypedef struct CygThrough:
        const char* x
        char* v
        const int64_t* places
        int64_t count
        int ndim
        int64_t sizes[64]
        int64_t steps[64][3]
    ctypedef struct CygJoinPlaces:
        char* x
        const char* v
        const int64_t* places
        int64_t* order
        int64_t count, inner
        int how, value_ndim, ndim
        int64_t value_sizes[64]
        int64_t value_steps[64][3]
        int64_t sizes[64]
        int64_t steps[64][3]
    int cyg_find_places(const CygPlaces* c, void* stream)
    int cyg_through(int size, const CygThrough* c, void* stream)
    int64_t cyg_join_scratch(int code, const CygJoinPlaces* c)
    int cyg_join_places(int code, const CygJoinPlaces* c, void* scratch, void* stream)
    int cyg_marks(int code, const char* x, int64_t* y, int ndim, const int64_t* sizes, const int64_t* steps, int64_t count,
                  void* stream)
    int cyg_chosen(const int64_t* running, int64_t* y, int64_t count, void* stream)
    int cyg_coordinates(const int64_t* numbers, int64_t* y, int64_t found, int ndim, const int64_t* sizes, void* stream)
    int cyg_count(int64_t* y, int64_t count, void* stream)

cdef struct Picked:        # places of x against consecutive ones of v
    int64_t n              # positions, row-major
    bint distinct          # no two positions have the same place
    int nvalue             # dimensions of the positions, outermost first, with byte steps of v
    int64_t size[MAXDIM]
    int64_t step[MAXDIM]
    int naround            # dimensions that are not indexed, with byte steps of v and x
    int64_t around[MAXDIM]
    int64_t around_v[MAXDIM]
    int64_t around_x[MAXDIM]
    int64_t inner          # product of `around`

ctypedef Storage (*Reach)(Picked* p, Meta* x, int64_t dim, Meta* index, Meta* v)


cdef int read_back(void* to, int device, const void* source, int64_t nbytes) except -1:
    """Bytes of a device, once its stream has come there."""
    cdef void* stream
    cdef int code
    enter(device, &stream)
    with nogil:
        code = cyg_rt_copy(to, source, nbytes, CYG_TO_HOST, device - 1, device - 1, stream)
        if code == 0:
            code = cyg_rt_stream_synchronize(device - 1, stream)
    return check(code, "reading a number")


cdef int add_places(Storage places, Meta* index, int ndim, const int64_t* sizes, int64_t low, int64_t size, int64_t step,
                    const int64_t* base, bint first, uint64_t* bad) except -1:
    """The numbers of an int64 index, expanded to `sizes`, as places; `base` has x's byte steps along them, or is NULL."""
    cdef CygPlaces c
    cdef Meta shown
    cdef void* stream
    cdef int d
    memset(&shown, 0, sizeof(Meta))
    view_expand(&shown, index, ndim, sizes)
    c.places, c.index, c.count, c.low, c.size, c.step = <int64_t*>places.ptr, shown.data, shown.numel, low, size, step
    c.first, c.bad, c.ndim = first, bad, 0
    for d in range(ndim - 1, -1, -1):
        if sizes[d] != 1:
            c.sizes[c.ndim] = sizes[d]
            c.steps[c.ndim][0] = shown.strides[d] * 8
            c.steps[c.ndim][1] = base[d] if base != NULL else 0
            c.ndim += 1
    meta_clear(&shown)
    if c.count == 0:
        return 0
    enter(index.device, &stream)
    return ran(cyg_find_places(&c, stream), "index", INT64)


cdef int64_t position_outside(Meta* index, int64_t low, int64_t high) except -2:
    cdef Storage places, flag
    cdef uint64_t none = <uint64_t>-1, bad = 0
    cdef void* stream
    if index.numel == 0:
        return -1
    places = scratch(index.device, index.numel * 8)
    flag = scratch(index.device, 8)
    enter(index.device, &stream)
    check(cyg_rt_copy(flag.ptr, &none, 8, CYG_TO_DEVICE, index.device - 1, index.device - 1, stream), "index")
    add_places(places, index, index.ndim, index.sizes, low, high, 0, NULL, True, <uint64_t*>flag.ptr)
    read_back(&bad, index.device, flag.ptr, 8)
    return -1 if bad == none else <int64_t>bad


cdef int64_t index_number(Meta* index, int64_t position) except? -1:
    cdef int64_t at = 0, value = 0
    cdef int d
    for d in range(index.ndim - 1, -1, -1):
        at += position % index.sizes[d] * index.strides[d]
        position = position // index.sizes[d]
    read_back(&value, index.device, index.data + at * 8, 8)
    return value


cdef Storage places_for(Meta* index, int64_t n):
    return scratch(index.device, max(n, 1) * 8)


cdef Storage ignored_flag(Meta* index):
    """Where a kernel may say that an index is outside, which was asked before."""
    return scratch(index.device, 8)


# ---- how places are reached

cdef Storage join_slices(Picked* p, Meta* x, int64_t dim, Meta* index, Meta* v):
    """Slices of x along dim against consecutive slices of v, or against its one element."""
    cdef Storage places = places_for(index, index.numel), flag = ignored_flag(index)
    cdef int d
    add_places(places, index, index.ndim, index.sizes, -size_at(x, dim), size_at(x, dim), bytes_at(x, dim), NULL, True,
               <uint64_t*>flag.ptr)
    p.n, p.nvalue, p.naround, p.inner, p.distinct = index.numel, 1, 0, 1, index.numel == 1
    p.size[0], p.step[0] = index.numel, bytes_at(v, dim) if v.ndim else 0
    for d in range(x.ndim):
        if d != dim:
            p.around[p.naround], p.around_x[p.naround] = x.sizes[d], bytes_at(x, d)
            p.around_v[p.naround] = bytes_at(v, d) if v.ndim else 0
            p.inner *= x.sizes[d]
            p.naround += 1
    return places


cdef Storage join_elements(Picked* p, Meta* x, int64_t dim, Meta* index, Meta* v):
    """Every element of the index names one of x along dim."""
    cdef int64_t base[MAXDIM]
    cdef Storage places = places_for(index, index.numel), flag = ignored_flag(index)
    cdef int d
    for d in range(index.ndim):
        base[d] = bytes_at(x, d) if d != dim else 0
    add_places(places, index, index.ndim, index.sizes, 0, size_at(x, dim), bytes_at(x, dim), base, True,
               <uint64_t*>flag.ptr)
    p.n, p.nvalue, p.naround, p.inner, p.distinct = index.numel, index.ndim, 0, 1, size_at(index, dim) == 1
    for d in range(index.ndim):
        p.size[d], p.step[d] = index.sizes[d], bytes_at(v, d) if v.ndim else 0
    return places


cdef Storage join_flat(Picked* p, Meta* x, int64_t dim, Meta* index, Meta* v):
    """Numbers that count the elements of a row-major x."""
    cdef Storage places = places_for(index, index.numel), flag = ignored_flag(index)
    cdef int d
    add_places(places, index, index.ndim, index.sizes, -x.numel, x.numel, ITEMSIZE[x.dtype], NULL, True,
               <uint64_t*>flag.ptr)
    p.n, p.nvalue, p.naround, p.inner, p.distinct = index.numel, v.ndim, 0, 1, index.numel == 1
    for d in range(v.ndim):
        p.size[d], p.step[d] = v.sizes[d], bytes_at(v, d)
    return places


# ---- reading and writing

cdef int pass_through(const Picked* p, Storage places, Meta* x, Meta* v) except -1:
    """v becomes what x holds at its places."""
    cdef CygThrough c
    cdef void* stream
    cdef int64_t step = 8
    cdef int d
    c.x, c.v, c.places, c.count, c.ndim = x.data, v.data, <int64_t*>places.ptr, p.n * p.inner, 0
    if c.count == 0:
        return 0
    for d in range(p.naround - 1, -1, -1):
        c.sizes[c.ndim] = p.around[d]
        c.steps[c.ndim][0], c.steps[c.ndim][1], c.steps[c.ndim][2] = p.around_v[d], p.around_x[d], 0
        c.ndim += 1
    for d in range(p.nvalue - 1, -1, -1):
        c.sizes[c.ndim] = p.size[d]
        c.steps[c.ndim][0], c.steps[c.ndim][1], c.steps[c.ndim][2] = p.step[d], 0, step
        step *= p.size[d]
        c.ndim += 1
    enter(x.device, &stream)
    return ran(cyg_through(ITEMSIZE[x.dtype], &c, stream), "index", x.dtype)


cdef int join_at(const Picked* p, Storage places, Meta* x, Meta* v, int mode) except -1:
    """x joined with v at its places, equal ones in their order."""
    cdef CygJoinPlaces c
    cdef Storage order = None, ordered = places, room = None
    cdef CygLines l
    cdef void* stream
    cdef int64_t nbytes
    cdef int d, last
    if p.n * p.inner == 0:
        return 0
    if not p.distinct:
        order, ordered = scratch(x.device, p.n * 8), scratch(x.device, p.n * 8)
        memset(&l, 0, sizeof(CygLines))
        l.x, l.lines, l.count, l.st[1] = places.ptr, 1, p.n, 8
        sort_lines("index", x.device, INT64, &l, False, order.ptr, ordered.ptr)
    c.x, c.v, c.places, c.order = x.data, v.data, <int64_t*>ordered.ptr, NULL if p.distinct else <int64_t*>order.ptr
    c.count, c.inner, c.how, c.value_ndim, c.ndim = p.n, p.inner, mode, 0, 0
    for d in range(p.nvalue - 1, -1, -1):
        last = c.value_ndim - 1
        if last >= 0 and p.step[d] == c.value_sizes[last] * c.value_steps[last][0]:      # one dimension is read without dividing
            c.value_sizes[last] *= p.size[d]
            continue
        c.value_sizes[c.value_ndim], c.value_steps[c.value_ndim][0] = p.size[d], p.step[d]
        c.value_ndim += 1
    for d in range(p.naround - 1, -1, -1):
        c.sizes[c.ndim], c.steps[c.ndim][0], c.steps[c.ndim][1] = p.around[d], p.around_v[d], p.around_x[d]
        c.ndim += 1
    nbytes = cyg_join_scratch(x.dtype, &c)
    if nbytes:
        room = scratch(x.device, nbytes)
    enter(x.device, &stream)
    return ran(cyg_join_places(x.dtype, &c, room.ptr if nbytes else NULL, stream), "index", x.dtype)


cdef int join_into(Reach run, str op, Meta* x, int64_t dim, Meta* index, Meta* v, int mode, bint include_self,
                   bint by_element) except -1:
    """x joined with v; without include_self, what x held there does not count."""
    cdef Meta held, ready, other, dense
    cdef Storage keep, keep_ready, keep_other, keep_dense
    check_writable(op, x)
    if is_complex(x.dtype) and (mode == LEAST or mode == MOST):
        no_kernel(op, x.dtype)
    memset(&held, 0, sizeof(Meta))
    memset(&ready, 0, sizeof(Meta))
    memset(&other, 0, sizeof(Meta))
    memset(&dense, 0, sizeof(Meta))
    keep = take_index(&held, index)
    try:
        keep_ready = aside(&ready, x, &held)
        keep_other = aside(&other, x, v)
        if run == join_flat and not is_rowmajor(x):
            keep_dense = op_clone(&dense, x, x.dtype, True)
            join_once(run, &dense, dim, &ready, &other, mode, include_self)
            copy_broadcast(x, &dense)
        else:
            join_once(run, x, dim, &ready, &other, PLUS if mode == MEAN else mode, include_self)
        if mode == MEAN:
            take_mean(run, x, dim, &ready, include_self, by_element)
    finally:
        meta_clear(&held)
        meta_clear(&ready)
        meta_clear(&other)
        meta_clear(&dense)
    return 0


cdef int join_once(Reach run, Meta* x, int64_t dim, Meta* index, Meta* v, int mode, bint include_self) except -1:
    cdef Picked p
    cdef Storage places, cell
    cdef Meta neutral
    cdef int64_t memory[2]
    cdef Meta near
    if mode != WRITE and not include_self:
        near.device = 0
        put_neutral_number(&near, memory, mode, x.dtype)
        memset(&neutral, 0, sizeof(Meta))
        neutral.device = x.device
        cell = allocate_contig(&neutral, 0, NULL, x.dtype)
        fill_cell(&neutral, memory)
        places = run(&p, x, dim, index, &neutral)
        join_at(&p, places, x, &neutral, WRITE)
    places = run(&p, x, dim, index, v)
    return join_at(&p, places, x, v, mode)


cdef int take_mean(Reach run, Meta* x, int64_t dim, Meta* index, bint include_self, bint by_element) except -1:
    """Sums divided by how many were added up; places that nothing came to stay as they are."""
    cdef Meta count, unit, divisor
    cdef Meta* operands[3]
    cdef Storage keep, keep_unit, keep_divisor
    cdef int64_t sizes[MAXDIM]
    cdef int d
    for d in range(x.ndim):
        sizes[d] = x.sizes[d] if by_element or d == dim else 1
    memset(&count, 0, sizeof(Meta))
    memset(&unit, 0, sizeof(Meta))
    memset(&divisor, 0, sizeof(Meta))
    count.device = unit.device = x.device
    try:
        keep, keep_unit = op_full(&count, x.ndim, sizes, include_self, INT64), op_full(&unit, 0, NULL, 1, INT64)
        join_once(run, &count, dim, index, &unit, PLUS, True)
        operands[0], operands[1], operands[2] = &count, &count, &unit
        run_row(K_MAXIMUM, INT64, operands, 3, NULL)
        keep_divisor = op_clone(&divisor, &count, x.dtype, True)
        operands[0], operands[1], operands[2] = x, x, &divisor
        run_row(K_DIV if is_float(x.dtype) or is_complex(x.dtype) else K_DIV_FLOOR, x.dtype, operands, 3, NULL)
    finally:
        meta_clear(&count)
        meta_clear(&unit)
        meta_clear(&divisor)
    return 0


cdef int add_in_order(Meta* x, Meta* src) except -1:
    """x += src for an x that reaches some elements twice: these are taken together, in their order."""
    cdef Meta zero
    cdef Picked p
    cdef Storage keep, places, flag
    cdef int64_t base[MAXDIM]
    cdef int d
    if x.numel == 0:
        return 0
    memset(&zero, 0, sizeof(Meta))
    zero.device = x.device
    keep = op_full(&zero, 0, NULL, 0, INT64)
    places, flag = scratch(x.device, x.numel * 8), scratch(x.device, 8)
    p.n, p.nvalue, p.naround, p.inner, p.distinct = x.numel, x.ndim, 0, 1, False
    for d in range(x.ndim):
        base[d] = bytes_at(x, d)
        p.size[d], p.step[d] = x.sizes[d], bytes_at(src, d)
    try:
        add_places(places, &zero, x.ndim, x.sizes, 0, 1, 0, base, True, <uint64_t*>flag.ptr)
        return join_at(&p, places, x, src, PLUS)
    finally:
        meta_clear(&zero)


cdef int put_neutral_number(Meta* cell, void* memory, int mode, int code) except -1:
    """One element, in the host's memory, that changes nothing when joined."""
    scalar_meta(cell, memory, code)
    if is_float(code) and mode >= LEAST:
        return ops.fill_double(cell, INFINITY if mode == LEAST else -INFINITY)
    if mode == PLUS or mode == TIMES or code == BOOL:
        return ops.fill_double(cell, mode == TIMES or (mode == LEAST and code == BOOL))
    return ops.fill_number(cell, largest_integer(code) if mode == LEAST else smallest_integer(code))


cdef Storage op_index_select(Meta* y, Meta* x, int64_t dim, Meta* index):
    cdef Meta held
    cdef Picked p
    cdef Storage keep, s, places
    cdef int64_t sizes[MAXDIM]
    if x.ndim == 0 and index.numel != 1:
        raise RuntimeError(f"index_select(): a 0-dimensional tensor takes exactly one index, got {index.numel}")
    check_slices("index_select", x, dim, index, True, False)
    memcpy(sizes, x.sizes, x.ndim * sizeof(int64_t))
    if x.ndim:
        sizes[dim] = index.numel
    s = allocate_contig(y, x.ndim, sizes, x.dtype)
    memset(&held, 0, sizeof(Meta))
    try:
        keep = take_index(&held, index)
        places = join_slices(&p, x, dim, &held, y)
        pass_through(&p, places, x, y)
    except BaseException:
        meta_clear(y)
        raise
    finally:
        meta_clear(&held)
    return s


cdef Storage op_gather(Meta* y, Meta* x, int64_t dim, Meta* index):
    cdef Meta held
    cdef Storage keep
    check_lookup("gather", x, dim, index, NULL)
    memset(&held, 0, sizeof(Meta))
    keep = take_index(&held, index)
    try:
        check_lookup_values("gather", x, dim, &held)
        return gather_from(y, x, dim, &held)
    finally:
        meta_clear(&held)


cdef Storage gather_from(Meta* y, Meta* x, int64_t dim, Meta* index):
    """The same of an int64 index whose numbers are known to be right: nothing waits for the device."""
    cdef Picked p
    cdef Storage places, s = allocate_contig(y, index.ndim, index.sizes, x.dtype)
    try:
        if index.numel:
            places = join_elements(&p, x, dim, index, y)
            pass_through(&p, places, x, y)
    except BaseException:
        meta_clear(y)
        raise
    return s


cdef Storage op_take(Meta* y, Meta* x, Meta* index):
    cdef Meta dense
    cdef Picked p
    cdef Storage keep, s, places
    check_flat("take", x, index)
    memset(&dense, 0, sizeof(Meta))
    keep = rowmajor(&dense, x)
    try:
        s = allocate_contig(y, index.ndim, index.sizes, x.dtype)
        places = join_flat(&p, &dense, 0, index, y)
        pass_through(&p, places, &dense, y)
    except BaseException:
        meta_clear(y)
        raise
    finally:
        meta_clear(&dense)
    return s


# ---- several index tensors

cdef Storage reach_advanced(Picked* p, const Advanced* a, Meta* v, Meta* x, Meta* held):
    """Places of x[index]; IndexError for an index out of range. v has the shape of the result."""
    cdef int64_t size = ITEMSIZE[x.dtype], bad, value
    cdef Meta shown
    cdef Storage places, flag
    cdef int k, d, behind = a.first + a.ndim
    p.n = p.inner = 1
    p.nvalue = p.naround = p.distinct = 0
    for d in range(v.ndim):
        if a.first <= d < behind:
            p.size[p.nvalue], p.step[p.nvalue] = v.sizes[d], v.strides[d] * size
            p.n *= v.sizes[d]
            p.nvalue += 1
        else:
            p.around[p.naround], p.around_v[p.naround] = v.sizes[d], v.strides[d] * size
            p.around_x[p.naround] = a.strides[d if d < a.first else d - a.ndim] * size
            p.inner *= v.sizes[d]
            p.naround += 1
    places = scratch(x.device, max(p.n, 1) * 8)
    flag = scratch(x.device, 8)
    for k in range(a.count):
        memset(&shown, 0, sizeof(Meta))
        view_expand(&shown, &held[k], a.ndim, a.sizes)
        try:
            bad = position_outside(&shown, -x.sizes[a.dims[k]], x.sizes[a.dims[k]])
            if bad >= 0:
                value = index_number(&shown, bad)
                raise IndexError(f"index {value} is out of bounds for dimension {a.dims[k]} with size {x.sizes[a.dims[k]]}")
        finally:
            meta_clear(&shown)
        add_places(places, &held[k], a.ndim, a.sizes, -x.sizes[a.dims[k]], x.sizes[a.dims[k]],
                   x.strides[a.dims[k]] * size, NULL, k == 0, <uint64_t*>flag.ptr)
    return places


cdef Storage op_index(Meta* y, Meta* x, Meta** index, int n):
    cdef Advanced a
    cdef Picked p
    cdef Storage s, places
    cdef list keep = []
    cdef Meta* held
    cdef int device = x.device
    if is_whole_mask(x, index, n):
        return op_masked_select(y, x, index[0])
    held = metas_new(max(n, <int> x.ndim))
    try:
        advanced_shape(&a, x, index, n, held, keep)
        result_layout(y, &a, x, held)
        meta_place(y, device)
        s = meta_storage(y)
        if a.count == 0:
            copy_broadcast(y, x)
            return s
        places = reach_advanced(&p, &a, y, x, held)
        pass_through(&p, places, x, y)
    except BaseException:
        meta_clear(y)
        raise
    finally:
        metas_free(held, max(n, <int> x.ndim))
    return s


cdef int index_put_into(Meta* x, Meta** index, int n, Meta* value, bint accumulate) except -1:
    cdef Advanced a
    cdef Picked p
    cdef Meta shown, other
    cdef Storage keep_other, places
    cdef list keep = []
    cdef Meta* held
    cdef int k
    if value.dtype != x.dtype:
        raise RuntimeError(f"index_put: the tensor has dtype {name_of(x.dtype)}, the value {name_of(value.dtype)}: the "
                           "same dtype is wanted")
    check_writable("index_put", x)
    held = metas_new(max(n, <int> x.ndim))
    memset(&shown, 0, sizeof(Meta))
    memset(&other, 0, sizeof(Meta))
    try:
        keep_other = aside(&other, x, value)
        advanced_shape(&a, x, index, n, held, keep)
        open_value(&shown, &other, &a)
        for k in range(a.count):
            if may_share_memory(x, &held[k]):
                keep.append(part_aside(&held[k]))
        places = reach_advanced(&p, &a, &shown, x, held)
        join_at(&p, places, x, &shown, PLUS if accumulate else WRITE)
    finally:
        metas_free(held, max(n, <int> x.ndim))
        meta_clear(&shown)
        meta_clear(&other)
    return 0


# ---- what is not zero

cdef Storage chosen_numbers(Meta* x, int64_t* found):
    """Row-major numbers of the elements that are not zero."""
    cdef Storage running, room = None, numbers
    cdef CygLines l
    cdef int64_t nbytes
    cdef int64_t sizes[MAXDIM]
    cdef int64_t steps[MAXDIM]
    cdef void* stream
    cdef int d, ndim = 0
    found[0] = 0
    if x.numel == 0:
        return None
    for d in range(x.ndim - 1, -1, -1):
        if x.sizes[d] != 1:
            sizes[ndim], steps[ndim] = x.sizes[d], x.strides[d] * ITEMSIZE[x.dtype]
            ndim += 1
    running = scratch(x.device, x.numel * 8)
    enter(x.device, &stream)
    ran(cyg_marks(x.dtype, x.data, <int64_t*>running.ptr, ndim, sizes, steps, x.numel, stream), "nonzero", x.dtype)
    memset(&l, 0, sizeof(CygLines))
    l.y = running.ptr
    l.x = l.d = running.ptr
    l.lines, l.count = 1, x.numel
    l.st[0] = l.st[1] = l.st[2] = 8
    nbytes = cyg_scan_scratch(&l)
    if nbytes:
        room = scratch(x.device, nbytes)
    ran(cyg_scan(CYG_SCAN_SUM, INT64, &l, room.ptr if nbytes else NULL, stream), "nonzero", INT64)
    read_back(found, x.device, running.ptr + (x.numel - 1) * 8, 8)
    numbers = scratch(x.device, max(found[0], 1) * 8)
    ran(cyg_chosen(<int64_t*>running.ptr, <int64_t*>numbers.ptr, x.numel, stream), "nonzero", INT64)
    return numbers


cdef Storage op_nonzero(Meta* y, Meta* x):
    cdef int64_t sizes[2]
    cdef int64_t strides[2]
    cdef void* stream
    cdef Storage s, numbers = chosen_numbers(x, &sizes[0])
    sizes[1], strides[0], strides[1] = x.ndim, 1, sizes[0]
    y.device = x.device
    meta_strided(y, 2, sizes, strides, INT64, NULL)
    meta_place(y, x.device)
    s = allocate(y)
    if sizes[0] and x.ndim:
        enter(x.device, &stream)
        ran(cyg_coordinates(<int64_t*>numbers.ptr, <int64_t*>y.data, sizes[0], x.ndim, x.sizes, stream), "nonzero", INT64)
    return s


cdef Storage op_masked_select(Meta* y, Meta* x, Meta* mask):
    cdef Meta shown, chosen, dense, index
    cdef Meta* both[2]
    cdef Storage keep, numbers, s
    cdef int64_t sizes[MAXDIM]
    cdef int64_t found, one = 1
    cdef int ndim
    if mask.dtype != BOOL:
        raise RuntimeError(f"masked_select: a mask of bool is wanted, got {name_of(mask.dtype)}")
    both[0], both[1] = x, mask
    ndim = broadcast_shapes(both, 2, sizes)
    memset(&shown, 0, sizeof(Meta))
    memset(&chosen, 0, sizeof(Meta))
    memset(&dense, 0, sizeof(Meta))
    memset(&index, 0, sizeof(Meta))
    try:
        view_expand(&shown, x, ndim, sizes)
        view_expand(&chosen, mask, ndim, sizes)
        numbers = chosen_numbers(&chosen, &found)
        meta_strided(&index, 1, &found, &one, INT64, numbers.ptr if found else NULL)
        meta_place(&index, x.device)
        keep = rowmajor(&dense, &shown)
        if found:
            return op_take(y, &dense, &index)
        s = allocate_contig(y, 1, &found, x.dtype)
    finally:
        meta_clear(&shown)
        meta_clear(&chosen)
        meta_clear(&dense)
        meta_clear(&index)
    return s
