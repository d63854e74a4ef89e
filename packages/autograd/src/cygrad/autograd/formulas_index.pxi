# formulas_index: gradients of reading and writing through indices. May use: formulas.

cdef Tensor copied_slices_backward(Tensor g, int64_t dim, Tensor index, const Dims* sizes):
    """Of index_copy's source; one without dimensions stands for the only slice."""
    g = op_index_select(g, dim, index)
    return op_reshape(g, sizes) if sizes.n != g.m.ndim else g


cdef Tensor filled_slices(Tensor g, int64_t dim, Tensor index):
    """g where index_fill wrote, each place once, and zeros elsewhere; the engine sums it up."""
    cdef Tensor none = zeros_of(g.m.ndim, g.m.sizes, BOOL, g.m.device)
    return op_where(op_index_fill(none, dim, index, scalar_tensor(1, BOOL)), g, scalar_tensor(0, g.m.dtype))


cdef Tensor take_backward(Tensor g, const Dims* sizes, Tensor index):
    return op_put(zeros_of(sizes.n, sizes.v, g.m.dtype, g.m.device), index, g, True)


cdef Tensor put_backward(Tensor g, Tensor index, bint accumulate):
    """Of the tensor written to: what was overwritten has no gradient."""
    return g if accumulate else op_put(g, index, zeros_of(index.m.ndim, index.m.sizes, g.m.dtype, g.m.device), False)


cdef Tensor masked_scatter_backward(Tensor g, Tensor mask, const Dims* sizes):
    """Of the source: the elements under the mask, and zeros for those that were not needed."""
    cdef Tensor taken
    cdef Dims pad
    cdef int64_t numel = 1
    cdef int i
    for i in range(sizes.n):
        numel *= sizes.v[i]
    if mask.flags & BATCHED:
        return op_reshape(op_narrow(moved_up(g, mask, numel), 0, 0, numel), sizes)
    taken = op_masked_select(g, mask)
    if taken.m.numel < numel:
        pad.n = 2
        pad.v[0] = 0
        pad.v[1] = numel - taken.m.numel
        taken = op_constant_pad_nd(taken, &pad, 0)
    return op_reshape(taken, sizes)


cdef Tensor moved_up(Tensor g, Tensor mask, int64_t numel):
    """The elements of g under a mask one after another, then zeros, and in the last place the sum of all others: a shape that does
    not depend on the mask."""
    cdef Dims d, flat
    cdef Tensor at
    d.n = g.m.ndim
    memcpy(d.v, g.m.sizes, d.n * sizeof(int64_t))
    flat.n = 1
    flat.v[0] = g.m.numel
    mask = op_reshape(op_expand_to(mask, &d), &flat)
    at = op_sub(op_cumsum(mask, 0, -1), scalar_tensor(1, INT64))
    at = op_where(mask, at, scalar_tensor(<double>numel, INT64))
    flat.v[0] = numel + 1
    d.n = 1
    d.v[0] = g.m.numel
    return op_scatter_add(zeros_of(1, flat.v, g.m.dtype, g.m.device), 0, at, op_reshape(g, &d))


# ---- index_reduce and scatter_reduce; slices: it is the first

cdef Tensor taken_at(Tensor t, int64_t dim, Tensor index, bint slices):
    return op_index_select(t, dim, index) if slices else op_gather(t, dim, index)


cdef Tensor added_at(Tensor t, int64_t dim, Tensor index, Tensor src, bint slices):
    return op_index_add(t, dim, index, src) if slices else op_scatter_add(t, dim, index, src)


cdef Tensor reduced_at(Tensor t, int64_t dim, Tensor index, Tensor src, str reduce, bint include_self, bint slices):
    if slices:
        return op_index_reduce(t, dim, index, src, reduce, include_self)
    return op_scatter_reduce(t, dim, index, src, reduce, include_self)


cdef Tensor shown_part(Tensor src, Tensor index, bint slices):
    """The part of scatter's source that the index reaches."""
    cdef int d
    if not slices:
        for d in range(src.m.ndim):
            if index.m.ndim == src.m.ndim and src.m.sizes[d] > index.m.sizes[d]:
                src = op_narrow(src, d, 0, index.m.sizes[d])
    return src


cdef Tensor counted_at(Tensor x, Tensor src, int64_t dim, Tensor index, bint include_self, bint slices):
    """How many elements were joined, at least 1."""
    cdef Tensor n = ones_same(x) if include_self else zeros_same(x)
    n = added_at(n, dim, index, ones_same(src), slices)
    return op_masked_fill(n, op_eq(n, scalar_tensor(0, n.m.dtype)), scalar_tensor(1, n.m.dtype))


cdef Tensor shared_at(Tensor g, Tensor x, Tensor y, Tensor src, int64_t dim, Tensor index, bint include_self,
                      bint slices):
    """g over the number of elements that are the extremum."""
    cdef Tensor mine = op_cast(op_eq(x, y), g.m.dtype)
    cdef Tensor theirs = op_cast(op_eq(src, taken_at(y, dim, index, slices)), g.m.dtype)
    if not include_self:
        mine = cleared_at(mine, dim, index, slices)
    return op_div(g, op_maximum(added_at(mine, dim, index, theirs, slices), ones_same(g)))


cdef Tensor cleared_at(Tensor g, int64_t dim, Tensor index, bint slices):
    cdef Tensor zero = scalar_tensor(0, g.m.dtype)
    return op_index_fill(g, dim, index, zero) if slices else op_scatter_fill(g, dim, index, zero)


cdef Tensor reduced_into(Tensor g, Tensor x, Tensor y, Tensor src, int64_t dim, Tensor index, str reduce,
                         bint include_self, bint slices):
    """Gradient of the tensor that was joined with src."""
    cdef Tensor zero, safe
    src = shown_part(src, index, slices)
    if reduce == "mean":
        g = op_div(g, counted_at(x, src, dim, index, include_self, slices))
    elif reduce == "prod":
        zero = op_eq(x, scalar_tensor(0, x.m.dtype))
        safe = op_masked_fill(x, zero, scalar_tensor(1, x.m.dtype))
        g = op_div(op_mul(g, conj_of(reduced_at(safe, dim, index, src, reduce, include_self, slices))), conj_of(safe))
    elif reduce != "sum":
        g = op_mul(shared_at(g, x, y, src, dim, index, include_self, slices), op_cast(op_eq(x, y), g.m.dtype))
    return g if include_self else cleared_at(g, dim, index, slices)


cdef Tensor reduced_from(Tensor g, Tensor x, Tensor y, Tensor src, int64_t dim, Tensor index, str reduce,
                         bint include_self, bint slices):
    """Gradient of the source."""
    cdef Tensor zero, lone, others, count, one = scalar_tensor(1, real_of(g.m.dtype))
    src = shown_part(src, index, slices)
    if reduce == "mean":
        g = op_div(g, counted_at(x, src, dim, index, include_self, slices))
    elif reduce == "prod":
        # A lone zero gets the product of all others; where there are more, all products are 0.
        zero = op_eq(src, scalar_tensor(0, src.m.dtype))
        count = added_at(zeros_of(x.m.ndim, x.m.sizes, one.m.dtype, x.m.device), dim, index, op_cast(zero, one.m.dtype), slices)
        lone = op_logical_and(zero, op_eq(taken_at(count, dim, index, slices), one))
        others = reduced_at(x, dim, index, op_masked_fill(src, lone, one), reduce, include_self, slices)
        g = op_where(lone, taken_at(op_mul(g, conj_of(others)), dim, index, slices),
                     op_div(taken_at(op_mul(g, conj_of(y)), dim, index, slices), conj_of(op_masked_fill(src, zero, one))))
        return op_only_once(g) if (recording() or shows_tangent(g)) and holds_any(OP_GT, op_sub(count, one)) else g
    elif reduce != "sum":
        g = shared_at(g, x, y, src, dim, index, include_self, slices)
        return op_mul(taken_at(g, dim, index, slices),
                      op_cast(op_eq(src, taken_at(y, dim, index, slices)), g.m.dtype))
    return taken_at(g, dim, index, slices)


cdef Tensor op_only_once(Tensor x):
    """x, of which no gradient can be taken: what it is made of holds in its values only."""
    cdef Tensor y = alias_of(x)
    cdef Node n
    if needs(x) or shows_tangent(x):
        n = node_new(&OPS[OP_ONLY_ONCE])
        set_edge(n, 0, x)
        node_set_output(n, y)
    return y


cdef int bw_only_once(Node n, Tensor g) except -1:
    raise RuntimeError("index_reduce and scatter_reduce with 'prod': the gradient of the source cannot be differentiated "
                       "again where several of its elements with one index are 0")


# ---- arrangement

cdef Tensor padded(Tensor t, const Dims* pad):
    return op_constant_pad_nd(t, pad, 0)


cdef Tensor unpadded(Tensor g, const Dims* pad):
    cdef Dims back
    cdef int i
    back.n = pad.n
    for i in range(pad.n):
        back.v[i] = -pad.v[i]
    return op_constant_pad_nd(g, &back, 0)
