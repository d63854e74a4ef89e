# Views: new metadata over the same memory. Arguments are checked before y is opened: a failed view leaves y empty.


cdef int64_t product(int nd, const int64_t* sizes) except -1:
    cdef int64_t n = 1
    cdef bint bad = False, empty = False
    cdef int d
    for d in range(nd):
        empty |= sizes[d] == 0
        bad |= cyg_mul(n, sizes[d] if sizes[d] > 1 else 1, &n)
    if bad:
        bad_sizes(nd, sizes)
    return 0 if empty else n


cdef int resolve_sizes(const Meta* x, int nd, const int64_t* sizes, int64_t* full) except -1:
    """Copy `sizes` to `full` with -1 replaced by the size that keeps the number of elements."""
    cdef int unknown = -1, d
    cdef int64_t n
    if nd > MAXDIM:
        too_many_dims(nd)
    for d in range(nd):
        full[d] = sizes[d]
        if sizes[d] == -1:
            if unknown >= 0:
                raise RuntimeError(f"only one dimension can be inferred, but {listed(nd, sizes)} has more than one -1")
            unknown = d
            full[d] = 1
        elif sizes[d] < 0:
            raise RuntimeError(f"invalid shape dimension {sizes[d]} in {listed(nd, sizes)}")
    n = product(nd, full)
    if unknown >= 0:
        if n == 0:
            raise RuntimeError(f"the -1 in the shape {listed(nd, sizes)} is ambiguous: any size gives its 0 elements; "
                               f"the input has {x.numel}")
        full[unknown] = x.numel // n
        n *= full[unknown]
    if n != x.numel:
        raise RuntimeError(f"shape {listed(nd, sizes)} is invalid for input of size {x.numel}, whose shape is "
                           f"{listed(x.ndim, x.sizes)}")
    return 0


cdef bint view_strides(const Meta* x, int nd, const int64_t* full, int64_t* strides) noexcept:
    """Strides that show x's elements, in x's order, in the shape `full`; False when none do.

    Neighbouring dimensions of x form a run when one step of the outer one passes the whole inner one. New dimensions
    may split or join inside a run, and never across two.
    """
    cdef int64_t run = 1, got, base
    cdef int v = nd - 1, d
    if x.numel == 0:
        if nd == x.ndim and memcmp(full, x.sizes, 8 * nd) == 0:
            memcpy(strides, x.strides, 8 * nd)
            return True
        base = 1
        for d in range(nd - 1, -1, -1):
            strides[d] = base
            base *= full[d] if full[d] > 1 else 1
        return True
    if x.ndim == 0:
        for d in range(nd):
            strides[d] = 1
        return True
    base = x.strides[x.ndim - 1]
    for d in range(x.ndim - 1, -1, -1):
        run *= x.sizes[d]
        if d > 0 and (x.sizes[d - 1] == 1 or x.strides[d - 1] == run * base):
            continue
        got = 1
        while v >= 0 and (got < run or full[v] == 1):
            strides[v] = got * base
            got *= full[v]
            v -= 1
        if got != run:
            return False
        if d > 0:
            base = x.strides[d - 1]
            run = 1
    return v == -1


cdef int view_view(Meta* y, const Meta* x, int nd, const int64_t* sizes) except -1:
    cdef int64_t full[MAXDIM]
    cdef int64_t strides[MAXDIM]
    resolve_sizes(x, nd, sizes, full)
    if not view_strides(x, nd, full, strides):
        raise RuntimeError(
            f"view: the shape {listed(nd, sizes)} is not compatible with a tensor of size {listed(x.ndim, x.sizes)} "
            f"and stride {listed(x.ndim, x.strides)}, because it would join dimensions that do not follow each other in "
            f"memory (the tensor is not contiguous there); use .reshape(...), which copies where it must")
    y.device = x.device
    return meta_strided(y, nd, full, strides, x.dtype, x.data)


cdef int view_reshape(Meta* y, const Meta* x, int nd, const int64_t* sizes) except -1:
    cdef int64_t full[MAXDIM]
    cdef int64_t strides[MAXDIM]
    resolve_sizes(x, nd, sizes, full)
    if view_strides(x, nd, full, strides):
        y.device = x.device
        meta_strided(y, nd, full, strides, x.dtype, x.data)
        return 1
    y.device = x.device
    meta_contig(y, nd, full, x.dtype)
    return 0


cdef int view_expand(Meta* y, const Meta* x, int nd, const int64_t* sizes) except -1:
    cdef int64_t full[MAXDIM]
    cdef int64_t strides[MAXDIM]
    cdef int64_t old, want
    cdef int d, shift = nd - x.ndim
    if shift < 0:
        raise RuntimeError(f"expand: {nd} sizes {listed(nd, sizes)} were given for a tensor of {x.ndim} dimensions "
                           f"{listed(x.ndim, x.sizes)}; at least {x.ndim} are wanted")
    if nd > MAXDIM:
        too_many_dims(nd)
    for d in range(nd - 1, -1, -1):
        want = sizes[d]
        if d >= shift:
            old, strides[d] = x.sizes[d - shift], x.strides[d - shift]
            if want == -1:
                want = old
        else:
            old = 1
            strides[d] = full[d + 1] * strides[d + 1] if x.ndim > 0 else 0
            if want == -1:
                raise RuntimeError(f"expand: -1 keeps a size, but dimension {d} of {listed(nd, sizes)} is a new one in "
                                   f"front of the tensor's shape {listed(x.ndim, x.sizes)}")
        if want < 0:
            raise RuntimeError(f"expand: {want} is no size, in {listed(nd, sizes)}")
        if want != old:
            if old != 1:
                raise RuntimeError(f"expand: the expanded size {want} must match the existing size {old} at dimension "
                                   f"{d}; target sizes {listed(nd, sizes)}, tensor sizes {listed(x.ndim, x.sizes)}")
            strides[d] = 0
        full[d] = want
    y.device = x.device
    return meta_strided(y, nd, full, strides, x.dtype, x.data)


cdef int view_permute(Meta* y, const Meta* x, int nd, const int64_t* dims) except -1:
    cdef int order[MAXDIM]
    cdef uint64_t seen = 0
    cdef int d
    if nd != x.ndim:
        raise RuntimeError(f"permute: {nd} dims {listed(nd, dims)} were given for a tensor with {x.ndim} dimensions")
    for d in range(nd):
        order[d] = wrap_dim(dims[d], nd)
        if seen >> order[d] & 1:
            raise RuntimeError(f"permute: duplicate dims are not allowed: {listed(nd, dims)} has dimension {order[d]} "
                               f"twice")
        seen |= <uint64_t>1 << order[d]
    y.device = x.device
    meta_open(y, nd, x.dtype, x.data)
    for d in range(nd):
        y.sizes[d] = x.sizes[order[d]]
        y.strides[d] = x.strides[order[d]]
    return meta_close(y)


cdef int view_transpose(Meta* y, const Meta* x, int64_t d0, int64_t d1) except -1:
    cdef int a = wrap_dim(d0, x.ndim)
    cdef int b = wrap_dim(d1, x.ndim)
    meta_like(y, x)
    if a != b:
        y.sizes[a], y.sizes[b] = x.sizes[b], x.sizes[a]
        y.strides[a], y.strides[b] = x.strides[b], x.strides[a]
        set_flags(y)
    return 0


cdef int view_squeeze(Meta* y, const Meta* x, uint64_t mask) except -1:
    cdef int nd = 0, d
    cdef uint64_t drop = 0
    for d in range(x.ndim):
        if mask >> d & 1 and x.sizes[d] == 1:
            drop |= <uint64_t>1 << d
        else:
            nd += 1
    y.device = x.device
    meta_open(y, nd, x.dtype, x.data)
    nd = 0
    for d in range(x.ndim):
        if not drop >> d & 1:
            y.sizes[nd] = x.sizes[d]
            y.strides[nd] = x.strides[d]
            nd += 1
    y.numel = x.numel
    set_flags(y)
    return 0


cdef int view_unsqueeze(Meta* y, const Meta* x, int64_t dim) except -1:
    cdef int at = wrap_dim(dim, x.ndim + 1)
    cdef int d
    y.device = x.device
    meta_open(y, x.ndim + 1, x.dtype, x.data)
    for d in range(x.ndim):
        y.sizes[d + (d >= at)] = x.sizes[d]
        y.strides[d + (d >= at)] = x.strides[d]
    y.sizes[at] = 1
    y.strides[at] = x.sizes[at] * x.strides[at] if at < x.ndim else 1
    y.numel = x.numel
    set_flags(y)
    return 0


cdef int no_dim(str name) except -1:
    raise IndexError(f"{name}: a tensor with 0 dimensions has no dimension to {name} from")


cdef int view_select(Meta* y, const Meta* x, int64_t dim, int64_t index) except -1:
    cdef int at, d
    cdef int64_t i = index
    if x.ndim == 0:
        no_dim("select")
    at = wrap_dim(dim, x.ndim)
    if i < 0:
        i += x.sizes[at]
    if i < 0 or i >= x.sizes[at]:
        raise IndexError(f"index {index} is out of bounds for dimension {at} with size {x.sizes[at]} (the shape is "
                         f"{listed(x.ndim, x.sizes)})")
    y.device = x.device
    meta_open(y, x.ndim - 1, x.dtype, x.data + i * x.strides[at] * ITEMSIZE[x.dtype])
    for d in range(x.ndim - 1):
        y.sizes[d] = x.sizes[d + (d >= at)]
        y.strides[d] = x.strides[d + (d >= at)]
    y.numel = x.numel // x.sizes[at]
    set_flags(y)
    return 0


cdef int view_slice(Meta* y, const Meta* x, int64_t dim, int64_t start, int64_t stop, int64_t step) except -1:
    cdef int at
    cdef int64_t size
    if x.ndim == 0:
        no_dim("slice")
    at = wrap_dim(dim, x.ndim)
    if step <= 0:
        raise ValueError(f"step must be greater than zero, got {step}")
    size = x.sizes[at]
    if start < 0:
        start += size
    if stop < 0:
        stop += size
    start = 0 if start < 0 else size if start > size else start
    stop = start if stop < start else size if stop > size else stop
    meta_like(y, x)
    y.data += start * x.strides[at] * ITEMSIZE[x.dtype]
    y.sizes[at] = (stop - start) // step + ((stop - start) % step != 0)
    if cyg_mul(x.strides[at], step, &y.strides[at]):
        y.strides[at] = x.strides[at]      # no element lies a step further, so the stride is never used
    return meta_close(y)


cdef int view_narrow(Meta* y, const Meta* x, int64_t dim, int64_t start, int64_t length) except -1:
    cdef int at
    cdef int64_t size
    if x.ndim == 0:
        raise RuntimeError("narrow: a tensor with 0 dimensions has no dimension to narrow")
    at = wrap_dim(dim, x.ndim)
    size = x.sizes[at]
    if length < 0:
        raise RuntimeError(f"narrow: length must not be negative, got {length}")
    if start < -size or start > size:
        raise IndexError(f"narrow: start {start} is out of range for dimension {at} with size {size}, which takes "
                         f"{-size} to {size}")
    if start < 0:
        start += size
    if start > size - length:
        raise RuntimeError(f"narrow: start {start} + length {length} exceeds dimension size {size} (dimension {at})")
    return view_slice(y, x, at, start, start + length, 1)


cdef int view_diagonal(Meta* y, const Meta* x, int64_t offset, int64_t dim1, int64_t dim2) except -1:
    cdef int a = wrap_dim(dim1, x.ndim)
    cdef int b = wrap_dim(dim2, x.ndim)
    cdef int d, n = 0
    cdef int64_t rows, cols, length
    if a == b:
        raise RuntimeError(f"diagonal: the dimensions {dim1} and {dim2} are the same; two different ones are wanted")
    rows, cols = x.sizes[a], x.sizes[b]
    if offset >= 0:
        length = 0 if offset >= cols else min(rows, cols - offset)
    else:
        length = 0 if -offset >= rows or offset == INT64_MIN else min(rows + offset, cols)
    y.device = x.device
    meta_open(y, x.ndim - 1, x.dtype, x.data)
    if length > 0:
        y.data += (offset * x.strides[b] if offset > 0 else -offset * x.strides[a]) * ITEMSIZE[x.dtype]
    for d in range(x.ndim):
        if d != a and d != b:
            y.sizes[n] = x.sizes[d]
            y.strides[n] = x.strides[d]
            n += 1
    y.sizes[n] = length
    y.strides[n] = x.strides[a] + x.strides[b]
    return meta_close(y)


cdef int view_unfold(Meta* y, const Meta* x, int64_t dim, int64_t size, int64_t step) except -1:
    cdef int at = wrap_dim(dim, x.ndim)
    cdef int64_t have = x.sizes[at] if x.ndim > 0 else 1
    if size < 0:
        raise RuntimeError(f"unfold: size is {size} but must be >= 0")
    if size > have:
        raise RuntimeError(f"unfold: the maximum size for dimension {at} is {have}, but size is {size}")
    if step <= 0:
        raise RuntimeError(f"unfold: step is {step} but must be > 0")
    y.device = x.device
    meta_open(y, x.ndim + 1, x.dtype, x.data)
    memcpy(y.sizes, x.sizes, 8 * x.ndim)
    memcpy(y.strides, x.strides, 8 * x.ndim)
    y.sizes[x.ndim] = size
    y.strides[x.ndim] = x.strides[at] if x.ndim > 0 else 1
    if x.ndim > 0:
        y.sizes[at] = (have - size) // step + 1
        if cyg_mul(x.strides[at], step, &y.strides[at]):
            y.strides[at] = x.strides[at]      # a single window: the stride is never used
    return meta_close(y)


cdef int view_as_strided(Meta* y, const Meta* x, Storage s, int nd, const int64_t* sizes, const int64_t* strides,
                         int64_t offset) except -1:
    cdef int64_t last = offset, span, item = ITEMSIZE[x.dtype], nbytes
    cdef bint bad = False, empty = False
    cdef int d
    if nd > MAXDIM:
        too_many_dims(nd)
    for d in range(nd):
        if sizes[d] < 0:
            bad_sizes(nd, sizes)
        if strides[d] < 0:
            raise RuntimeError(f"as_strided: negative strides are not supported, got strides {listed(nd, strides)}")
        empty |= sizes[d] == 0
    if offset < 0:
        raise RuntimeError(f"as_strided: the storage offset must not be negative, got {offset}")
    for d in range(nd):
        if not empty:
            bad |= cyg_mul(sizes[d] - 1, strides[d], &span)
            bad |= cyg_add(last, span, &last)
    bad |= cyg_add(last, 1, &last) or cyg_mul(last, item, &nbytes)
    if not empty and (bad or nbytes > s.nbytes):
        raise RuntimeError(
            f"as_strided: sizes {listed(nd, sizes)}, strides {listed(nd, strides)} and storage offset {offset} reach out "
            f"of bounds for a storage of {s.nbytes} bytes ({s.nbytes // item} elements of {dtype_object(x.dtype)!r})")
    y.device = x.device
    return meta_strided(y, nd, sizes, strides, x.dtype, s.ptr + offset * item)


# ---- complex numbers and their parts

cdef int view_parts(Meta* y, const Meta* x) except -1:
    cdef int64_t sizes[MAXDIM + 1]
    cdef int64_t strides[MAXDIM + 1]
    cdef int d
    if not is_complex(x.dtype):
        raise RuntimeError(f"view_as_real is only supported for complex tensors, got {dtype_object(x.dtype)!r}")
    for d in range(x.ndim):
        sizes[d], strides[d] = x.sizes[d], 2 * x.strides[d]
    sizes[x.ndim], strides[x.ndim] = 2, 1
    y.device = x.device
    return meta_strided(y, x.ndim + 1, sizes, strides, real_of(x.dtype), x.data)


cdef int view_whole(Meta* y, const Meta* x) except -1:
    cdef int64_t strides[MAXDIM]
    cdef int d, last = x.ndim - 1
    cdef bint even = True
    if x.dtype != FLOAT32 and x.dtype != FLOAT64:
        raise RuntimeError(f"view_as_complex is only supported for float32 and float64 tensors, got {dtype_object(x.dtype)!r}")
    if last < 0 or x.sizes[last] != 2:
        raise RuntimeError(f"view_as_complex: the last dimension must have size 2, got shape {listed(x.ndim, x.sizes)}")
    if x.strides[last] != 1 and x.numel:
        raise RuntimeError(f"view_as_complex: the last dimension must have stride 1, got strides {listed(x.ndim, x.strides)}")
    for d in range(last):
        even = even and (x.strides[d] % 2 == 0 or x.sizes[d] <= 1)
        strides[d] = x.strides[d] // 2
    if not even and x.numel:
        raise RuntimeError(f"view_as_complex: all strides but the last must be divisible by 2, got {listed(x.ndim, x.strides)}")
    if <uint64_t>x.data % (2 * ITEMSIZE[x.dtype]):
        raise RuntimeError("view_as_complex: the storage offset must be divisible by 2")
    y.device = x.device
    return meta_strided(y, last, x.sizes, strides, complex_of(x.dtype), x.data)
