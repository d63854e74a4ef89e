# Indices on any device: what is read and written through them, checks of shapes and numbers, the placing of the dimensions of
# several index tensors. A device has `position_outside` and `index_number`, and `join_into` with its ways of reaching places,
# `join_slices`, `join_elements` and `join_flat`.
# Invariant: every index is checked before the first element is written.

cdef enum:                 # modes; the kernels H_UPDATE + mode - PLUS
    WRITE = 0
    PLUS = 1
    TIMES = 2
    LEAST = 3
    MOST = 4
    MEAN = 5


cdef int reduce_mode(str op, object name, bint sums) except -1:
    """The mode that a reduce argument names."""
    if name == "sum" and sums:
        return PLUS
    modes = {"prod": TIMES, "mean": MEAN, "amax": MOST, "amin": LEAST}
    if name not in modes:
        raise RuntimeError(f"{op}(): reduce is one of {'sum, ' if sums else ''}{', '.join(modes)}, got {name!r}")
    return modes[name]


cdef object smallest_integer(int code):
    return -largest_integer(code) - 1 if dtype_object(code).is_signed else 0


cdef int64_t size_at(const Meta* x, int64_t dim) noexcept nogil:
    return x.sizes[dim] if x.ndim else 1


cdef int64_t bytes_at(const Meta* x, int64_t dim) noexcept nogil:
    """Byte stride; what has no dimensions stays where it is."""
    return x.strides[dim] * ITEMSIZE[x.dtype] if x.ndim else 0


cdef Storage take_index(Meta* held, Meta* index):
    """The index as int64; `held` becomes a view or a converted copy of it, to be cleared by the caller."""
    if index.dtype == INT64:
        meta_like(held, index)
        return None
    return op_clone(held, index, INT64, False)


cdef int check_index_dtype(str op, Meta* index, bint narrow) except -1:
    """narrow: int32 is taken as well."""
    if index.dtype != INT64 and not (narrow and index.dtype == INT32):
        raise RuntimeError(f"{op}(): an index of {'int64 or int32' if narrow else 'int64'} is wanted, got "
                           f"{name_of(index.dtype)}")
    return 0


cdef Storage aside(Meta* copy, Meta* x, Meta* other):
    """A copy of `other` where it may lie in x's memory, which is about to be written; else a view of it."""
    if may_share_memory(x, other):
        return op_clone(copy, other, other.dtype, False)
    meta_like(copy, other)
    return None


cdef int check_slices(str op, Meta* x, int64_t dim, Meta* index, bint narrow, bint negative,
                      object error=IndexError) except -1:
    """A vector of indices into dimension dim. negative: they may be counted from the end."""
    cdef Meta held
    cdef Storage keep
    cdef int64_t bad, value, size = size_at(x, dim)
    check_index_dtype(op, index, narrow)
    if index.ndim > 1:
        raise IndexError(f"{op}(): the index is supposed to be a vector, got shape {shape_text(index)}")
    memset(&held, 0, sizeof(Meta))
    keep = take_index(&held, index)
    try:
        bad = position_outside(&held, -size if negative else 0, size)
        value = index_number(&held, bad) if bad >= 0 else 0
    finally:
        meta_clear(&held)
    if bad >= 0:
        raise error(f"{op}(): index out of range: index {value} is out of bounds for dimension {dim} with size "
                    f"{size}" + ("" if negative else "; negative indices are not taken"))
    return 0


cdef int check_source(str op, Meta* x, int64_t dim, Meta* index, Meta* src) except -1:
    """src is x with index.numel slices along dim."""
    cdef int d
    cdef bint fits = src.ndim == x.ndim
    if x.dtype != src.dtype:
        raise RuntimeError(f"{op}(): the tensor has dtype {name_of(x.dtype)}, the source {name_of(src.dtype)}: the "
                           "same dtype is wanted")
    for d in range(x.ndim if fits else 0):
        fits = fits and (d == dim or x.sizes[d] == src.sizes[d])
    if not fits:
        raise RuntimeError(f"{op}(): the source has shape {shape_text(src)}, the tensor {shape_text(x)}: the same "
                           f"sizes except in dimension {dim} are wanted")
    if index.numel != size_at(src, dim):
        raise RuntimeError(f"{op}(): {index.numel} indices for a source of shape {shape_text(src)} along dimension "
                           f"{dim}: one for each slice is wanted")
    return 0


cdef int index_add_into(Meta* x, int64_t dim, Meta* index, Meta* src) except -1:
    check_source("index_add", x, dim, index, src)
    check_slices("index_add", x, dim, index, True, False, RuntimeError if x.ndim > 1 else IndexError)   # as PyTorch
    return join_into(join_slices, "index_add", x, dim, index, src, PLUS, True, False)


cdef int index_reduce_into(Meta* x, int64_t dim, Meta* index, Meta* src, str reduce, bint include_self) except -1:
    cdef int mode = reduce_mode("index_reduce", reduce, False)
    check_source("index_reduce", x, dim, index, src)
    check_slices("index_reduce", x, dim, index, True, False)
    return join_into(join_slices, "index_reduce", x, dim, index, src, mode, include_self, False)


cdef int index_copy_into(Meta* x, int64_t dim, Meta* index, Meta* src) except -1:
    if index.ndim > 1:
        raise IndexError(f"index_copy(): the index has dimension 1 or 0, got shape {shape_text(index)}")
    if src.ndim and x.ndim and src.ndim != x.ndim:
        raise IndexError(f"index_copy(): the source has {src.ndim} dimensions, the tensor {x.ndim}: as many are wanted")
    if index.numel != size_at(src, dim if src.ndim else 0):
        raise IndexError(f"index_copy(): {index.numel} indices for a source of shape {shape_text(src)} along dimension "
                         f"{dim}: one for each slice is wanted")
    if x.dtype != src.dtype or src.ndim == x.ndim:
        check_source("index_copy", x, dim, index, src)
    elif x.numel != size_at(x, 0) or src.numel != 1:
        raise RuntimeError(f"index_copy(): the source has shape {shape_text(src)}, the tensor {shape_text(x)}: the "
                           f"same sizes except in dimension {dim} are wanted")
    check_slices("index_copy", x, dim, index, False, False)
    return join_into(join_slices, "index_copy", x, dim, index, src, WRITE, True, False)


cdef int index_fill_into(Meta* x, int64_t dim, Meta* index, Meta* value) except -1:
    cdef Meta cell
    cdef Storage keep
    if index.dtype != INT64:
        raise IndexError(f"index_fill_(): an index of int64 is wanted, got {name_of(index.dtype)}")
    if index.ndim > 1:
        raise RuntimeError(f"index_fill_(): the index has to be a vector or a scalar, got shape {shape_text(index)}")
    check_slices("index_fill", x, dim, index, False, True)
    memset(&cell, 0, sizeof(Meta))
    keep = op_clone(&cell, value, x.dtype, True)
    try:
        join_into(join_slices, "index_fill", x, dim, index, &cell, WRITE, True, False)
    finally:
        meta_clear(&cell)
    return 0


cdef int check_lookup(str op, Meta* x, int64_t dim, Meta* index, Meta* src) except -1:
    """Dtype and shape of an index of gather (src NULL) or scatter."""
    cdef int d
    if index.numel == 0:
        return 0
    check_index_dtype(op, index, True)
    if max(index.ndim, 1) != max(x.ndim, 1) or (src != NULL and max(src.ndim, 1) != max(x.ndim, 1)):
        source = f", {src.ndim} in the source {shape_text(src)}" if src != NULL else ""
        raise RuntimeError(f"{op}(): as many dimensions as the tensor has are wanted, got {index.ndim} in the index "
                           f"{shape_text(index)}{source}, {x.ndim} in the tensor {shape_text(x)}")
    for d in range(index.ndim):
        if d != dim and index.sizes[d] > size_at(x, d):
            raise RuntimeError(f"{op}(): the index of shape {shape_text(index)} is larger than the tensor of shape "
                               f"{shape_text(x)} in dimension {d}; only dimension {dim} may be")
        if src != NULL and index.sizes[d] > size_at(src, d):
            raise RuntimeError(f"{op}(): the index of shape {shape_text(index)} is larger than the source of shape "
                               f"{shape_text(src)} in dimension {d}")
    return 0


cdef int check_lookup_values(str op, Meta* x, int64_t dim, Meta* index) except -1:
    cdef int64_t bad = position_outside(index, 0, size_at(x, dim))
    if bad >= 0:
        raise RuntimeError(f"{op}(): index {index_number(index, bad)} is out of bounds for dimension {dim} with size "
                           f"{size_at(x, dim)}; negative indices are not taken")
    return 0


cdef int scatter_with(str op, Meta* x, int64_t dim, Meta* index, Meta* src, int mode, bint include_self) except -1:
    if x.dtype != src.dtype:
        raise RuntimeError(f"{op}(): the tensor has dtype {name_of(x.dtype)}, the source {name_of(src.dtype)}: the "
                           "same dtype is wanted")
    check_lookup(op, x, dim, index, src)
    return scatter_checked(op, x, dim, index, src, mode, include_self)


cdef int scatter_checked(str op, Meta* x, int64_t dim, Meta* index, Meta* v, int mode, bint include_self) except -1:
    cdef Meta held
    cdef Storage keep
    check_writable(op, x)
    memset(&held, 0, sizeof(Meta))
    keep = take_index(&held, index)
    try:
        check_lookup_values(op, x, dim, &held)
        if index.numel:
            join_into(join_elements, op, x, dim, &held, v, mode, include_self, True)
    finally:
        meta_clear(&held)
    return 0


cdef int scatter_into(Meta* x, int64_t dim, Meta* index, Meta* src) except -1:
    return scatter_with("scatter", x, dim, index, src, WRITE, True)


cdef int scatter_fill_into(Meta* x, int64_t dim, Meta* index, Meta* value) except -1:
    cdef Meta cell
    cdef Storage keep
    check_lookup("scatter", x, dim, index, NULL)
    memset(&cell, 0, sizeof(Meta))
    keep = op_clone(&cell, value, x.dtype, True)
    try:
        scatter_checked("scatter", x, dim, index, &cell, WRITE, True)
    finally:
        meta_clear(&cell)
    return 0


cdef int scatter_add_into(Meta* x, int64_t dim, Meta* index, Meta* src) except -1:
    return scatter_with("scatter_add", x, dim, index, src, PLUS, True)


cdef int scatter_reduce_into(Meta* x, int64_t dim, Meta* index, Meta* src, str reduce, bint include_self) except -1:
    return scatter_with("scatter_reduce", x, dim, index, src, reduce_mode("scatter_reduce", reduce, True),
                        include_self)


cdef int check_flat(str op, Meta* x, Meta* index) except -1:
    cdef int64_t bad
    check_index_dtype(op, index, False)
    if x.numel == 0 and index.numel:
        raise IndexError(f"{op}(): there is nothing to take from an empty tensor of shape {shape_text(x)}")
    bad = position_outside(index, -x.numel, x.numel)
    if bad >= 0:
        raise IndexError(f"{op}(): out of range: tried to access index {index_number(index, bad)} on a tensor of "
                         f"{x.numel} elements")
    return 0


cdef int put_into(Meta* x, Meta* index, Meta* src, bint accumulate) except -1:
    if x.dtype != src.dtype:
        raise RuntimeError(f"put_(): the tensor has dtype {name_of(x.dtype)}, the source {name_of(src.dtype)}: the "
                           "same dtype is wanted")
    check_index_dtype("put_", index, False)
    if src.numel != index.numel:
        raise IndexError(f"put_(): as many elements in source and index are wanted, got {src.numel} in the source "
                         f"{shape_text(src)} and {index.numel} in the index {shape_text(index)}")
    check_writable("put_", x)
    check_flat("put_", x, index)
    return join_into(join_flat, "put_", x, 0, index, src, PLUS if accumulate else WRITE, True, True)


# ---- several index tensors at once, with NumPy's placing of their dimensions

cdef struct Advanced:
    int first              # result dimension where the index dimensions go
    int ndim               # their number and sizes
    int64_t sizes[MAXDIM]
    # dimensions of x that are not indexed, in order; the first `first` come before the index dimensions
    int nkept
    int64_t kept[MAXDIM]
    int64_t strides[MAXDIM]        # of x, elements
    int count              # index tensors, and the dimension of x that each indexes
    int dims[MAXDIM]
    uint64_t narrow        # bit k: it came as int32


cdef Storage open_index(Meta* held, Meta* x, Meta* index, int d):
    """One index as int64: masks become positions. Returns what keeps a converted one alive."""
    cdef Storage s
    if index.dtype == INT64 or index.dtype == INT32:
        return take_index(held, index)
    if index.dtype != BOOL and index.dtype != UINT8:
        raise IndexError(f"tensors used as indices must be int64, int32, uint8 or bool, got {name_of(index.dtype)} for "
                         f"dimension {d}")
    if index.ndim != 1 or index.sizes[0] != x.sizes[d]:
        raise IndexError(f"a mask of shape {shape_text(index)} does not match dimension {d} of a tensor of shape "
                         f"{shape_text(x)}")
    s = op_nonzero(held, index)
    held.ndim = 1                              # (count, 1) row-major
    return s


cdef Storage open_mask(Meta* held, Meta* mask):
    """The positions under a mask of several dimensions, one index for each."""
    cdef Meta rows
    cdef Storage s
    cdef int d
    memset(&rows, 0, sizeof(Meta))
    s = op_nonzero(&rows, mask)
    for d in range(mask.ndim):
        view_select(&held[d], &rows, 1, d)
    meta_clear(&rows)
    return s


cdef int advanced_shape(Advanced* a, Meta* x, Meta** index, int n, Meta* held, list keep) except -1:
    """Open the indices, broadcast them, and place them among the dimensions that stay."""
    cdef Meta* opened[MAXDIM]
    cdef int d, count = 0, lowest = -1, highest = -1
    if n > x.ndim:
        raise IndexError(f"too many indices for a tensor of dimension {x.ndim}: got {n}")
    a.nkept = 0
    a.narrow = 0
    if x.ndim > 1 and is_whole_mask(x, index, n):
        keep.append(open_mask(held, index[0]))
        for d in range(x.ndim):
            opened[d], a.dims[d] = &held[d], d
        count, lowest, highest = x.ndim, 0, x.ndim - 1
    for d in range(x.ndim if count == 0 else 0):
        if d < n and index[d] != NULL:
            keep.append(open_index(&held[count], x, index[d], d))
            opened[count] = &held[count]
            a.dims[count] = d
            a.narrow |= <uint64_t> (index[d].dtype == INT32) << count
            count += 1
            lowest = d if lowest < 0 else lowest
            highest = d
        else:
            a.kept[a.nkept], a.strides[a.nkept] = x.sizes[d], x.strides[d]
            a.nkept += 1
    a.count = count
    a.first = lowest if count and highest - lowest + 1 == count else 0
    a.ndim = 0
    if count:
        try:
            a.ndim = broadcast_shapes(opened, count, a.sizes)
        except RuntimeError:
            shapes = ", ".join([shape_text(opened[d]) for d in range(count)])
            raise IndexError(f"shape mismatch: indexing tensors of shapes {shapes} do not broadcast together") from None
    return 0


cdef Meta* metas_new(int n) except NULL:
    cdef Meta* m = <Meta*> malloc((n + 1) * sizeof(Meta))
    if m == NULL:
        raise MemoryError()
    memset(m, 0, (n + 1) * sizeof(Meta))
    return m


cdef void metas_free(Meta* m, int n) noexcept:
    cdef int d
    for d in range(n):
        meta_clear(&m[d])
    free(m)


cdef int result_shape(const Advanced* a, int64_t* sizes) except -1:
    cdef int after = a.nkept - a.first
    if a.nkept + a.ndim > MAXDIM:
        raise RuntimeError(f"index: the result would have {a.nkept + a.ndim} dimensions, more than {MAXDIM}")
    memcpy(sizes, a.kept, a.first * sizeof(int64_t))
    memcpy(sizes + a.first, a.sizes, a.ndim * sizeof(int64_t))
    memcpy(sizes + a.first + a.ndim, a.kept + a.first, after * sizeof(int64_t))
    return a.first + a.ndim + after


cdef bint is_plain(const Meta* m) noexcept:
    """Row-major in dimensions of size 1 too, whose strides would shape the result, and not empty."""
    cdef int64_t stride = 1
    cdef int d
    for d in range(m.ndim - 1, -1, -1):
        if m.strides[d] != stride:
            return False
        stride *= m.sizes[d]
    return m.numel != 0


cdef int result_layout(Meta* y, const Advanced* a, Meta* x, Meta* held) except -1:
    """y, without memory, ordered as x along the dimensions that stay and as the indices along theirs."""
    cdef int64_t sizes[MAXDIM]
    cdef int64_t strides[MAXDIM]
    cdef Meta* operands[MAXDIM + 1]
    cdef Meta* shown
    cdef int ndim = result_shape(a, sizes), k, d, e
    cdef bint plain = is_plain(x)
    for k in range(a.count):
        plain = plain and is_plain(&held[k])
    if plain:
        return meta_contig(y, ndim, sizes, x.dtype)
    shown = metas_new(a.count + 1)
    try:
        for d in range(ndim):
            e = d if d < a.first else d - a.ndim
            strides[d] = 0 if a.first <= d < a.first + a.ndim else a.strides[e]
        meta_strided(&shown[0], ndim, sizes, strides, x.dtype, NULL)
        operands[0] = &shown[0]
        for k in range(a.count):
            show_index(&shown[k + 1], a, &held[k], ndim, a.narrow >> k & 1)
            operands[k + 1] = &shown[k + 1]
        return meta_joint(y, operands, a.count + 1, ndim, sizes, x.dtype)
    finally:
        metas_free(shown, a.count + 1)


cdef int show_index(Meta* shown, const Advanced* a, Meta* index, int ndim, bint narrow) except -1:
    """An index among the dimensions of the result, of size 1 in those that are not its own.

    narrow: PyTorch converts it to int64 once it is broadcast, which makes it dense.
    """
    cdef Meta wide, dense
    cdef int64_t sizes[MAXDIM]
    cdef int d
    for d in range(ndim):
        sizes[d] = a.sizes[d - a.first] if a.first <= d < a.first + a.ndim else 1
    memset(&wide, 0, sizeof(Meta))
    memset(&dense, 0, sizeof(Meta))
    view_expand(&wide, index, a.ndim, a.sizes)
    try:
        if not narrow:
            return view_view(shown, &wide, ndim, sizes)
        meta_dense_like(&dense, &wide, INT64)
        return view_view(shown, &dense, ndim, sizes)
    finally:
        meta_clear(&wide)
        meta_clear(&dense)


cdef bint is_whole_mask(const Meta* x, Meta** index, int n) noexcept:
    """Whether the only index is a mask of x's shape."""
    return n == 1 and index[0] != NULL and index[0].dtype == BOOL and x.ndim > 0 and meta_same_shape(x, index[0])


cdef int open_value(Meta* shown, Meta* value, const Advanced* a) except -1:
    """The value in the shape of x[index]."""
    cdef int64_t sizes[MAXDIM]
    cdef int ndim = result_shape(a, sizes), d, lead = ndim - value.ndim
    cdef bint fits = True
    for d in range(value.ndim):
        fits = fits and (value.sizes[d] == 1 or (d + lead >= 0 and value.sizes[d] == sizes[d + lead]))
    if not fits or lead < 0:
        raise RuntimeError(f"shape mismatch: a value of shape {shape_text(value)} does not broadcast to the indexing "
                           f"result of shape {[sizes[d] for d in range(ndim)]}")
    return view_expand(shown, value, ndim, sizes)


cdef Storage part_aside(Meta* m):
    """m becomes a copy of itself."""
    cdef Meta copy
    cdef Storage s
    memset(&copy, 0, sizeof(Meta))
    s = op_clone(&copy, m, m.dtype, False)
    meta_clear(m)
    meta_like(m, &copy)
    meta_clear(&copy)
    return s
