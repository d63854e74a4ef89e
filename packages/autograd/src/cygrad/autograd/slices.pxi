# slices: gradients of views, and of in-place writes through them. May use: view, formulas.
# Every view that shows some elements of x has the same gradient: zeros of x's shape with the gradient put in the view's place.


# ---- gradients of views that drop elements: the slice put into zeros ------------------------------------------------

cdef Tensor embed(Tensor g, const Dims* sizes, Meta* place):
    """Zeros of `sizes` with g in the place that a view had; `place` is that view of a row-major tensor whose data starts at NULL.
    Elements that the view showed several times receive the sum."""
    cdef Tensor y = zeros_of(sizes.n, sizes.v, g.m.dtype, g.m.device), part = tensor_new(), values = g
    cdef Node n
    cdef int64_t offset = <int64_t>place.data // ITEMSIZE[g.m.dtype]
    if g.flags & BATCHED:
        y = spread(y, batch_of(g), True)
    part.m.device = y.m.device
    meta_strided(&part.m, place.ndim, place.sizes, place.strides, g.m.dtype, y.m.data + offset * ITEMSIZE[g.m.dtype])
    adopt(part, y.mem)
    if g.flags & BATCHED:
        inherit(part, y)
        part, values = front(part, batch_of(g), 0), front(g, batch_of(g), 0)
    if has_internal_overlap(&part.m):
        ops.add_in_order(&part.m, &values.m)
    else:
        ops.copy_into(&part.m, &values.m)
    if records(g):
        n = node_new(&OPS[OP_EMBED])
        set_edge(n, 0, g)
        n.rest = (shape_tuple(&g.m), tuple([place.strides[i] for i in range(place.ndim)]), offset)
        node_set_output(n, y)
    return y


cdef int rowmajor_probe(Meta* m, const Dims* sizes, int code) except -1:
    """A row-major Meta at address 0, to ask a view rule where its elements lie."""
    memset(m, 0, sizeof(Meta))
    meta_contig(m, sizes.n, sizes.v, code)
    m.data = NULL
    return 0


cdef Tensor select_backward(Tensor g, const Dims* sizes, int64_t dim, int64_t index):
    cdef Meta m, v
    rowmajor_probe(&m, sizes, g.m.dtype)
    memset(&v, 0, sizeof(Meta))
    try:
        view_select(&v, &m, dim, index)
        return embed(g, sizes, &v)
    finally:
        meta_clear(&m)
        meta_clear(&v)


cdef Tensor slice_backward(Tensor g, const Dims* sizes, int64_t dim, int64_t start, int64_t stop, int64_t step):
    cdef Meta m, v
    rowmajor_probe(&m, sizes, g.m.dtype)
    memset(&v, 0, sizeof(Meta))
    try:
        view_slice(&v, &m, dim, start, stop, step)
        return embed(g, sizes, &v)
    finally:
        meta_clear(&m)
        meta_clear(&v)


cdef Tensor narrow_backward(Tensor g, const Dims* sizes, int64_t dim, int64_t start, int64_t length):
    if start < 0:                        # counted from the end
        start += sizes.v[wrap_dim(dim, sizes.n)]
    return slice_backward(g, sizes, dim, start, start + length, 1)


cdef Tensor diagonal_backward(Tensor g, const Dims* sizes, int64_t offset, int64_t dim1, int64_t dim2):
    cdef Meta m, v
    rowmajor_probe(&m, sizes, g.m.dtype)
    memset(&v, 0, sizeof(Meta))
    try:
        view_diagonal(&v, &m, offset, dim1, dim2)
        return embed(g, sizes, &v)
    finally:
        meta_clear(&m)
        meta_clear(&v)


cdef Tensor unfold_backward(Tensor g, const Dims* sizes, int64_t dim, int64_t size, int64_t step):
    cdef Meta m, v
    rowmajor_probe(&m, sizes, g.m.dtype)
    memset(&v, 0, sizeof(Meta))
    try:
        view_unfold(&v, &m, dim, size, step)
        return embed(g, sizes, &v)
    finally:
        meta_clear(&m)
        meta_clear(&v)


cdef int bw_embed(Node n, Tensor g) except -1:
    cdef Dims sizes, strides
    if wanted(n, 0):
        shape, steps, offset = n.rest
        dims_from(shape, &sizes)
        dims_from(steps, &strides)
        g = op_contiguous(g)
        pass_grad(n, 0, op_as_strided(g, &sizes, &strides, offset_of(g) + <int64_t>offset))
    return 0


# ---- as_strided, which view refreshes and in-place writes through views rest on -------------------------------------

cdef Tensor op_as_strided(Tensor x, const Dims* sizes, const Dims* strides, int64_t offset):
    cdef Tensor y = tensor_new()
    cdef Node n
    if sizes.n != strides.n:
        raise RuntimeError(f"as_strided: the {sizes.n} sizes {list(dims_tuple(sizes))} and {strides.n} strides "
                           f"{list(dims_tuple(strides))} must be equally many")
    view_as_strided(&y.m, &x.m, x.mem, sizes.n, sizes.v, strides.v, offset)
    view_begin(y, x)
    if y.flags & BATCHED:
        check_reach(y)
    if records(x):
        n = node_new(&OPS[OP_AS_STRIDED])
        set_edge(n, 0, x)
        n.rest = (geometry(y), geometry(x), x.m.dtype)
        node_set_output(n, y)
    return y


cdef int check_reach(Tensor y) except -1:
    """Whether the elements of all examples of a view lie in the storage."""
    cdef Tensor whole = front(y, batch_of(y), 0), probe = tensor_new()
    view_as_strided(&probe.m, &whole.m, y.mem, whole.m.ndim, whole.m.sizes, whole.m.strides,
                    (whole.m.data - y.mem.ptr) // ITEMSIZE[y.m.dtype])
    return adopt(probe, y.mem)


cdef int bw_as_strided(Node n, Tensor g) except -1:
    """The base may be complex where the view is of its parts, and the other way round: then both are seen as parts."""
    if not wanted(n, 0):
        return 0
    view, base, code = n.rest
    if category(code) == category(n.odtype):
        pass_grad(n, 0, as_strided_backward(g, view, base))
    elif category(code) == KIND_COMPLEX:
        pass_grad(n, 0, whole_of(as_strided_backward(g, view, parts_geometry(base))))
    else:
        pass_grad(n, 0, as_strided_backward(op_view_as_real(g), parts_geometry(view), base))
    return 0


cdef tuple parts_geometry(tuple geo):
    """Of the parts of complex numbers of a geometry."""
    return ((*geo[0], 2), (*[2 * s for s in geo[1]], 1), 2 * geo[2])


cdef Tensor laid_for(Tensor g, tuple view, tuple base):
    """A block with room for two geometries in the same storage, from the lower of their offsets on; g is in the place of the first."""
    cdef Dims sizes, strides, block
    cdef Meta part
    cdef int64_t low = _py.min(view[2], base[2])
    cdef int64_t high = _py.max(extent(view), extent(base))
    block.n = 1
    block.v[0] = high - low
    dims_from(view[0], &sizes)
    dims_from(view[1], &strides)
    memset(&part, 0, sizeof(Meta))
    meta_strided(&part, sizes.n, sizes.v, strides.v, g.m.dtype, <char*><size_t>((view[2] - low) * ITEMSIZE[g.m.dtype]))
    try:
        return embed(g, &block, &part)
    finally:
        meta_clear(&part)


cdef Tensor as_strided_backward(Tensor g, tuple view, tuple base):
    """Gradient of a view with one geometry for a base with another, both in the same storage: g is laid into the smallest
    block that holds both; an element that the base shows k times takes a k-th of what arrived there."""
    cdef Dims sizes, strides, block
    cdef Meta part
    cdef Tensor y = laid_for(g, view, base), times
    cdef int64_t low = _py.min(view[2], base[2])
    block.n = 1
    block.v[0] = _py.max(extent(view), extent(base)) - low
    dims_from(base[0], &sizes)
    dims_from(base[1], &strides)
    memset(&part, 0, sizeof(Meta))
    meta_strided(&part, sizes.n, sizes.v, strides.v, g.m.dtype, NULL)
    overlapping = has_internal_overlap(&part)
    meta_clear(&part)
    if overlapping:
        times = zeros_of(1, block.v, g.m.dtype, g.m.device)          # the same for all examples
        part.device = times.m.device
        meta_strided(&part, sizes.n, sizes.v, strides.v, g.m.dtype,
                     times.m.data + <int64_t>(base[2] - low) * ITEMSIZE[g.m.dtype])
        try:
            ones = tensor_new()
            (<Tensor>ones).m.device = times.m.device
            adopt((<Tensor>ones), ops.op_full(&(<Tensor>ones).m, sizes.n, sizes.v, 1.0, g.m.dtype))
            ops.add_in_order(&part, &(<Tensor>ones).m)
        finally:
            meta_clear(&part)
        y = op_div(y, op_maximum(times, ones_same(times)))
    return op_as_strided(y, &sizes, &strides, base[2] - low)


cdef object extent(tuple geo):
    """One past the last element that a geometry reaches."""
    if 0 in geo[0]:
        return geo[2]
    return geo[2] + _py.sum([(n - 1) * s for n, s in zip(geo[0], geo[1])]) + 1


cdef int bw_copy_slices(Node n, Tensor g) except -1:
    """In-place write through a view: the gradient of the written slice goes through the writing operation, the rest passes."""
    cdef Node f
    cdef list grads
    cdef Tensor whole, part, inner
    cdef Dims sizes, strides
    cdef int k
    f, view, base, code = n.rest
    if n.x is not None and n.x.levels is not None:
        g = op_add(g, spread(zeros_same(g), batch_with(n.x.levels), True))      # with room for each example
    want0 = wanted(n, 0)
    dims_from(base[0], &sizes)
    dims_from(base[1], &strides)
    whole = copy_of(g, &sizes, &strides)
    part = part_of(whole, view, base[2], code)
    grads = [None if wanted(n, k) else False for k in range(f.n_edges)]
    if f.released:
        raise RuntimeError(RELEASED)
    backward_into(<Pass>cyg_pass, grads, f, (op_clone(part),), n)
    if want0:
        if grads[0] is not None:
            inner = fit_slice(<Tensor>grads[0], view[0], part)
            copy_in(part, inner)
        else:
            copy_in(part, zeros_same(part))
        pass_grad(n, 0, whole)
    for k in range(1, f.n_edges):
        if grads[k] is not None and grads[k] is not False:
            pass_grad(n, k, <Tensor>grads[k])
    if not (<Pass>cyg_pass).keep:
        node_release(f)
    return 0


cdef Tensor part_of(Tensor whole, tuple view, int64_t low, int code):
    """The view with this geometry and dtype of a base that begins at `low`, of which `whole` is a copy at the start of its memory.

    A view of parts, or of parts as complex numbers, counts in other elements than the base does.
    """
    cdef Dims sizes, strides, pairs, steps
    cdef Tensor shown = whole
    cdef int64_t at = view[2]
    dims_from(view[0], &sizes)
    dims_from(view[1], &strides)
    if category(code) == category(whole.m.dtype):
        at -= low
    elif category(code) == KIND_COMPLEX:
        if low % 2:
            raise RuntimeError("an in-place write through complex numbers whose base begins at an odd element has no gradient")
        at -= low // 2
        pairs.n = steps.n = 2
        pairs.v[0], pairs.v[1] = whole.mem.nbytes // (2 * ITEMSIZE[whole.m.dtype]), 2
        if whole.flags & BATCHED:
            pairs.v[0] = pairs.v[0] // examples(batch_of(whole))
        steps.v[0], steps.v[1] = 2, 1
        shown = op_view_as_complex(op_as_strided(whole, &pairs, &steps, 0))
    else:
        at -= 2 * low
        shown = op_view_as_real(whole)
    return op_as_strided(shown, &sizes, &strides, at)


cdef Tensor fit_slice(Tensor g, tuple sizes, Tensor like):
    cdef Dims d
    dims_from(sizes, &d)
    if not meta_same_shape(&g.m, &like.m):
        g = sum_to(g, d.n, d.v)
    return op_cast(g, like.m.dtype) if g.m.dtype != like.m.dtype else g


cdef Tensor copy_of(Tensor g, const Dims* sizes, const Dims* strides):
    """A copy of g laid out with the strides of the base, so that the view's strides name the same elements in it."""
    cdef Tensor y
    cdef Node n
    cdef int64_t reach = 1
    cdef int i
    cdef Dims block
    for i in range(sizes.n):
        if sizes.v[i] == 0:
            reach = 0
            break
        reach += (sizes.v[i] - 1) * strides.v[i]
    block.n = 1
    block.v[0] = reach
    y = zeros_of(1, block.v, g.m.dtype, g.m.device)
    if g.flags & BATCHED:
        y = spread(y, batch_of(g), True)
    tensor_empty(y)
    meta_strided(&y.m, sizes.n, sizes.v, strides.v, g.m.dtype, y.mem.ptr)
    adopt(y, y.mem)
    if g.flags & BATCHED:
        y.m.flags = 0
        batch_copy_into(y, g)
    else:
        ops.copy_into(&y.m, &g.m)
    if records(g):
        n = node_new(&OPS[OP_CLONE])
        set_edge(n, 0, g)
        node_set_output(n, y)
    return y


cdef int copy_in(Tensor x, Tensor src, int op=OP_COPY) except -1:
    """x.copy_(src), recorded. op: what the write is called in messages."""
    cdef Node n
    cdef Tensor before
    cdef bint recorded = category(x.m.dtype) >= 2 and (records(x) or records(src))      # integers have no history
    cdef int64_t began = op_began()
    cdef bint itself = op != OP_FILL and is_itself(x, src)
    if itself:
        check_own_mode(x)
        check_history(x, recorded and (needs(x) or needs(src)))
    else:
        check_in_place(x, recorded and (needs(x) or needs(src)))
    if cyg_mode & MODE_STRICT:
        check_narrowing(x.m.dtype, src, "copy_")
    if any_batched(x, src, None):
        check_levels(x, (src,), "copy_")
    if op != OP_FILL and x.mem.ptr == src.mem.ptr and not itself:
        check_partial_overlap(x, src)
    before = history_alias(x, False) if recorded else None
    if recorded:
        src = frozen(src, x)
    if x.flags & BATCHED:
        batch_copy_into(x, src)
    elif not itself:
        ops.copy_into(&x.m, &src.m)
    bump(x, op)
    if cyg_mode & MODE_OBSERVED:
        observe(OP_COPY, x, (src,), began)
    if recorded:
        n = node_new(&OPS[OP_COPY])
        set_edge(n, 0, before)
        set_edge(n, 1, src)
        n.odtype = x.m.dtype
        rebase(x, n)
    return 0


cdef bint is_itself(Tensor x, Tensor src) noexcept:
    """Whether a copy from src to x leaves everything as it is: an expanded tensor may be assigned to itself."""
    return (x.m.data == src.m.data and x.m.dtype == src.m.dtype and meta_same_shape(&x.m, &src.m) and same_strides(&x.m, &src.m)
            and not (x.flags | src.flags) & BATCHED)


cdef int bw_copy(Node n, Tensor g) except -1:
    if wanted(n, 0):
        pass_grad(n, 0, zeros_same(g))
    if wanted(n, 1):
        pass_grad(n, 1, g)
    return 0
