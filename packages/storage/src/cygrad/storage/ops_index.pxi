# Reading and writing along one dimension through an index tensor: index_select, index_add, gather, scatter.
# Invariant: every index is checked before the first element is written.

cdef Storage take_index(Meta* held, Meta* index):
    """The index as contiguous int64; `held` becomes a view or a converted copy of it, to be cleared by the caller."""
    if index.dtype == INT64 and index.flags & CONTIGUOUS:
        meta_like(held, index)
        return None
    return op_clone(held, index, INT64, True)


cdef int64_t first_bad(const int64_t* index, int64_t n, int64_t low, int64_t size) noexcept nogil:
    """Position of the first index outside [low, size), or -1."""
    cdef int64_t i, k, end = 0
    cdef bint bad
    while end < n:
        i = end
        end = min(end + 4096, n)
        bad = False
        for k in range(i, end):
            bad |= (index[k] < low) | (index[k] >= size)
        if bad:
            for k in range(i, end):
                if index[k] < low or index[k] >= size:
                    return k
    return -1


cdef int check_index_dtype(str op, Meta* index) except -1:
    if index.dtype != INT64 and index.dtype != INT32:
        raise RuntimeError(f"{op}: an index of int64 or int32 is wanted, got {name_of(index.dtype)}")
    return 0


cdef int check_index_vector(str op, Meta* index) except -1:
    if index.ndim > 1:
        raise IndexError(f"{op}: the index is supposed to be a vector, got shape {shape_text(index)}")
    return 0


# ---- whole slices along one dimension

cdef int64_t size_at(const Meta* x, int64_t dim) noexcept:
    return x.sizes[dim] if x.ndim else 1


cdef Storage op_index_select(Meta* y, Meta* x, int64_t dim, Meta* index):
    cdef Meta held
    cdef Meta* one[1]
    cdef Pick pick
    cdef Storage keep, s
    cdef int64_t sizes[MAXDIM]
    cdef int64_t bad, n = index.numel
    check_index_dtype("index_select", index)
    check_index_vector("index_select", index)
    if x.ndim == 0 and n != 1:
        raise RuntimeError(f"index_select: a 0-dimensional tensor takes exactly one index, got {n}")
    memset(&held, 0, sizeof(Meta))
    keep = take_index(&held, index)
    try:
        bad = first_bad(<const int64_t*> held.data, n, 0, size_at(x, dim))
        if bad >= 0:
            raise IndexError(f"index_select: index out of range: index {(<const int64_t*> held.data)[bad]} is out of "
                             f"bounds for dimension {dim} with size {size_at(x, dim)}; negative indices are not taken")
        memcpy(sizes, x.sizes, x.ndim * sizeof(int64_t))
        if x.ndim:
            sizes[dim] = n
        s = allocate_contig(y, x.ndim, sizes, x.dtype)
        pick_along(&pick, y, x, dim, <const int64_t*> held.data, n)
        pick_run(&pick, False, False)
    except BaseException:
        meta_clear(y)
        raise
    finally:
        meta_clear(&held)
    return s


cdef int check_slices(Meta* x, int64_t dim, Meta* index, Meta* src) except -1:
    """Arguments of index_add: src is x with index.numel slices along dim."""
    cdef int d
    cdef bint fits = src.ndim == x.ndim
    check_index_dtype("index_add", index)
    check_index_vector("index_add", index)
    if x.dtype != src.dtype:
        raise RuntimeError(f"index_add: the tensor has dtype {name_of(x.dtype)}, the source {name_of(src.dtype)}: the "
                           "same dtype is wanted")
    if index.numel != size_at(src, dim if src.ndim > dim else 0):
        raise RuntimeError(f"index_add: {index.numel} indices for a source of shape {shape_text(src)} along dimension "
                           f"{dim}: one for each slice is wanted")
    for d in range(x.ndim if fits else 0):
        fits = fits and (d == dim or x.sizes[d] == src.sizes[d])
    if not fits:
        raise RuntimeError(f"index_add: the source has shape {shape_text(src)}, the tensor {shape_text(x)}: the same "
                           f"sizes except in dimension {dim} are wanted")
    return check_writable("index_add", x)


cdef int index_add_into(Meta* x, int64_t dim, Meta* index, Meta* src) except -1:
    cdef Meta held, other
    cdef Pick pick
    cdef Storage keep, keep_other
    cdef int64_t bad
    check_slices(x, dim, index, src)
    memset(&held, 0, sizeof(Meta))
    memset(&other, 0, sizeof(Meta))
    keep = take_index(&held, index)
    try:
        bad = first_bad(<const int64_t*> held.data, index.numel, 0, size_at(x, dim))
        if bad >= 0:
            raise RuntimeError(f"index_add: index {(<const int64_t*> held.data)[bad]} is out of bounds for dimension "
                               f"{dim} with size {size_at(x, dim)}; negative indices are not taken")
        if may_share_memory(x, src):
            keep_other = op_clone(&other, src, src.dtype, True)
            src = &other
        pick_along(&pick, src, x, dim, <const int64_t*> held.data, index.numel)
        pick_run(&pick, True, True)
    finally:
        meta_clear(&held)
        meta_clear(&other)
    return 0


# ---- single elements along one dimension

cdef struct Lookup:        # gather and scatter: index positions row by row
    const int64_t* index
    int64_t rows, n        # n = size of the index's last dimension
    int ndim
    int64_t size[MAXDIM]   # of the index
    int64_t x[MAXDIM]      # byte strides of the tensor indexed; 0 along dim
    int64_t v[MAXDIM]      # byte strides of the values
    int64_t step           # byte stride of the tensor along dim
    char* x_data
    char* v_data


cdef void plan_lookup(Lookup* l, Meta* x, Meta* v, int64_t dim, Meta* index) noexcept nogil:
    cdef int d
    cdef int64_t size = ITEMSIZE[x.dtype]
    l.index = <const int64_t*> index.data
    l.ndim = max(index.ndim, 1)
    l.x_data, l.v_data = x.data, v.data
    l.step = x.strides[dim] * size if x.ndim else 0
    for d in range(l.ndim):
        l.size[d] = index.sizes[d] if index.ndim else 1
        l.x[d] = x.strides[d] * size if x.ndim and d != dim else 0
        l.v[d] = v.strides[d] * size if v.ndim else 0
    l.n = l.size[l.ndim - 1]
    l.rows = index.numel // l.n if l.n else 0


cdef int64_t row_place(const Lookup* l, int64_t row, int64_t* v) noexcept nogil:
    """Byte offset of a row of index positions in the tensor, and in the values."""
    cdef int64_t x = 0
    cdef int d
    v[0] = 0
    for d in range(l.ndim - 2, -1, -1):
        x += row % l.size[d] * l.x[d]
        v[0] += row % l.size[d] * l.v[d]
        row = row // l.size[d]
    return x


cdef void lookup_row(const Lookup* l, int64_t row, bint write, const word* tag) noexcept nogil:
    cdef int64_t v, x = row_place(l, row, &v)
    cdef const int64_t* index = l.index + row * l.n
    cdef int64_t i, xs = l.x[l.ndim - 1], vs = l.v[l.ndim - 1]
    cdef char* p = l.x_data + x
    cdef char* q = l.v_data + v
    for i in range(l.n):
        if write:
            (<word*> (p + index[i] * l.step + i * xs))[0] = (<word*> (q + i * vs))[0]
        else:
            (<word*> (q + i * vs))[0] = (<word*> (p + index[i] * l.step + i * xs))[0]


cdef void lookup_rows(const Lookup* l, int64_t first, int64_t end, bint write, int size) noexcept nogil:
    cdef int64_t row
    for row in range(first, end):
        if size == 4:
            lookup_row[uint32_t](l, row, write, NULL)
        elif size == 8:
            lookup_row[uint64_t](l, row, write, NULL)
        elif size == 1:
            lookup_row[uint8_t](l, row, write, NULL)
        elif size == 2:
            lookup_row[uint16_t](l, row, write, NULL)
        else:
            lookup_row[sixteen](l, row, write, NULL)


cdef void add_rows_at(const Lookup* l, real tag) noexcept nogil:
    cdef int64_t row, v, x, i
    cdef const int64_t* index
    for row in range(l.rows):
        x = row_place(l, row, &v)
        index = l.index + row * l.n
        for i in range(l.n):
            (<real*> (l.x_data + x + index[i] * l.step + i * l.x[l.ndim - 1]))[0] += (
                <real*> (l.v_data + v + i * l.v[l.ndim - 1]))[0]


cdef void add_rows_by(const Lookup* l, Loop add) noexcept nogil:
    """The same through a loop that adds one element at a time."""
    cdef int64_t row, v, x, i
    cdef const int64_t* index
    cdef char* q[2]
    cdef int64_t st[2]
    st[0] = st[1] = 0
    for row in range(l.rows):
        x = row_place(l, row, &v)
        index = l.index + row * l.n
        for i in range(l.n):
            q[0] = l.x_data + x + index[i] * l.step + i * l.x[l.ndim - 1]
            q[1] = l.v_data + v + i * l.v[l.ndim - 1]
            add(q, st, 1, NULL)


cdef void add_rows_any(const Lookup* l, int code, Loop add) noexcept nogil:
    if code == FLOAT32:
        add_rows_at[float](l, 0)
    elif code == FLOAT64:
        add_rows_at[double](l, 0)
    else:
        add_rows_by(l, add)


cdef int check_lookup(str op, Meta* x, int64_t dim, Meta* index, Meta* src) except -1:
    """Dtype and shape of an index of gather (src NULL) or scatter."""
    cdef int d
    check_index_dtype(op, index)
    if index.numel == 0:
        return 0
    if max(index.ndim, 1) != max(x.ndim, 1) or (src != NULL and max(src.ndim, 1) != max(x.ndim, 1)):
        source = f", {src.ndim} in the source {shape_text(src)}" if src != NULL else ""
        raise RuntimeError(f"{op}: as many dimensions as the tensor has are wanted, got {index.ndim} in the index "
                           f"{shape_text(index)}{source}, {x.ndim} in the tensor {shape_text(x)}")
    for d in range(index.ndim):
        if d != dim and index.sizes[d] > size_at(x, d):
            raise RuntimeError(f"{op}: the index of shape {shape_text(index)} is larger than the tensor of shape "
                               f"{shape_text(x)} in dimension {d}; only dimension {dim} may be")
        if src != NULL and index.sizes[d] > size_at(src, d):
            raise RuntimeError(f"{op}: the index of shape {shape_text(index)} is larger than the source of shape "
                               f"{shape_text(src)} in dimension {d}")
    return 0


cdef int check_lookup_values(str op, Meta* x, int64_t dim, Meta* index) except -1:
    cdef int64_t bad = first_bad(<const int64_t*> index.data, index.numel, 0, size_at(x, dim))
    if bad >= 0:
        raise RuntimeError(f"{op}: index {(<const int64_t*> index.data)[bad]} is out of bounds for dimension {dim} "
                           f"with size {size_at(x, dim)}; negative indices are not taken")
    return 0


cdef void lookup(const Lookup* l, bint write, int size) noexcept nogil:
    """Reading splits over threads; writing keeps the order of the index, so that the last of equal indices wins."""
    cdef int64_t i, per, chunks
    cdef int threads = num_threads() if not write and l.rows > 1 and l.rows * l.n >= GRAIN else 1
    if threads == 1:
        lookup_rows(l, 0, l.rows, write, size)
        return
    per = (4096 + l.n - 1) // l.n
    chunks = (l.rows + per - 1) // per
    for i in prange(chunks, num_threads=threads, schedule="static"):
        lookup_rows(l, i * per, min((i + 1) * per, l.rows), write, size)


cdef Storage op_gather(Meta* y, Meta* x, int64_t dim, Meta* index):
    cdef Meta held
    cdef Lookup l
    cdef Storage keep, s
    check_lookup("gather", x, dim, index, NULL)
    memset(&held, 0, sizeof(Meta))
    keep = take_index(&held, index)
    try:
        if index.numel:
            check_lookup_values("gather", x, dim, &held)
        s = allocate_contig(y, index.ndim, index.sizes, x.dtype)
        if index.numel:
            plan_lookup(&l, x, y, dim, &held)
            with nogil:
                lookup(&l, False, ITEMSIZE[x.dtype])
    finally:
        meta_clear(&held)
    return s


cdef int scatter_into(Meta* x, int64_t dim, Meta* index, Meta* src, bint add) except -1:
    cdef Meta held, other
    cdef Lookup l
    cdef Storage keep, keep_other
    cdef Loop adding = <Loop> hand_kernel(H_ADD_AT, x.dtype)
    cdef str op = "scatter_add" if add else "scatter"
    if x.dtype != src.dtype:
        raise RuntimeError(f"{op}: the tensor has dtype {name_of(x.dtype)}, the source {name_of(src.dtype)}: the same "
                           "dtype is wanted")
    check_lookup(op, x, dim, index, src)
    if index.numel == 0:
        return 0
    check_writable(op, x)
    memset(&held, 0, sizeof(Meta))
    memset(&other, 0, sizeof(Meta))
    keep = take_index(&held, index)
    try:
        check_lookup_values(op, x, dim, &held)
        if may_share_memory(x, src):
            keep_other = op_clone(&other, src, src.dtype, True)
            src = &other
        if keep is None and may_share_memory(x, &held):
            meta_clear(&held)
            keep = op_clone(&held, index, INT64, True)
        plan_lookup(&l, x, src, dim, &held)
        with nogil:
            if add:
                add_rows_any(&l, x.dtype, adding)
            else:
                lookup(&l, True, ITEMSIZE[x.dtype])
    finally:
        meta_clear(&held)
        meta_clear(&other)
    return 0


# ---- the same on a copy

cdef Storage op_scatter(Meta* y, Meta* x, int64_t dim, Meta* index, Meta* src):
    cdef Storage s = op_clone(y, x, x.dtype, True)
    try:
        scatter_into(y, dim, index, src, False)
    except BaseException:
        meta_clear(y)
        raise
    return s


cdef Storage op_scatter_add(Meta* y, Meta* x, int64_t dim, Meta* index, Meta* src):
    cdef Storage s = op_clone(y, x, x.dtype, True)
    try:
        scatter_into(y, dim, index, src, True)
    except BaseException:
        meta_clear(y)
        raise
    return s


cdef Storage op_index_add(Meta* y, Meta* x, int64_t dim, Meta* index, Meta* src):
    cdef Storage s = op_clone(y, x, x.dtype, True)
    try:
        index_add_into(y, dim, index, src)
    except BaseException:
        meta_clear(y)
        raise
    return s
