# formulas: gradients too long for a row of the table. May use: the generated op_ functions, view.
# All are made of differentiable operations, so that gradients of gradients need nothing more.


cdef int edge_sizes(Node n, int k, Dims* d) except -1:
    """Shape of input k of n, as its maker declared it."""
    cdef uint32_t nr = 0
    cdef bint leaf = False
    cdef int i, nd
    cdef const int64_t* sizes
    target = edge(n, k, &nr, &leaf)
    if not leaf and many(<Node>target):
        return dims_from((<Node>target).x.outs[nr][0], d)
    if leaf:
        d.n = (<Tensor>target).m.ndim
        sizes = (<Tensor>target).m.sizes
    else:
        d.n = (<Node>target).ondim
        sizes = (<Node>target).osizes
    for i in range(d.n):
        d.v[i] = sizes[i]
    return 0


cdef tuple dims_tuple(const Dims* d):
    return tuple([d.v[i] for i in range(d.n)])


cdef int dims_from(object seq, Dims* d) except -1:
    d.n = 0
    if len(seq) > MAXDIM:
        raise RuntimeError(f"a tensor has at most {MAXDIM} dimensions, {len(seq)} were given")
    d.n = len(seq)
    for i in range(d.n):
        d.v[i] = seq[i]
    return 0


cdef inline int bits(uint64_t mask) noexcept:
    cdef int n = 0
    while mask:
        mask &= mask - 1
        n += 1
    return n


cdef double count(const Dims* d, uint64_t mask) noexcept:
    """Elements that a reduction over `mask` folds into one."""
    cdef double c = 1
    cdef int i
    for i in range(d.n):
        if mask >> i & 1:
            c *= d.v[i]
    return c


cdef double positive_count(const Dims* d, uint64_t mask) noexcept:
    """`count`, but 1 for none: a gradient without elements is still divided by it."""
    cdef double c = count(d, mask)
    return c if c else 1


cdef Tensor underivable(Tensor g):
    """In place of a derivative that is no function here."""
    raise RuntimeError("the derivative of igamma, igammac and zeta in their first argument is not implemented")


cdef Tensor zeros_of(int nd, const int64_t* sizes, int code, int device):
    cdef Tensor y = tensor_new()
    y.m.device = device
    adopt(y, ops.op_full(&y.m, nd, sizes, 0.0, code))
    return y


cdef inline Tensor zeros_same(Tensor t):
    return zeros_of(t.m.ndim, t.m.sizes, t.m.dtype, t.m.device)


cdef Tensor sum_to(Tensor g, int nd, const int64_t* sizes):
    """g summed down to a shape that broadcasts to g's."""
    cdef uint64_t mask = 0
    cdef int i, lead = g.m.ndim - nd
    cdef Dims d
    for i in range(g.m.ndim):
        if i < lead or (sizes[i - lead] == 1 and g.m.sizes[i] != 1):
            mask |= <uint64_t>1 << i
    if mask:
        g = op_sum(g, mask, True, -1)
    if lead == 0:
        return g
    d.n = nd
    for i in range(nd):
        d.v[i] = sizes[i]
    return op_reshape(g, &d)


cdef inline Tensor sum_to_dims(Tensor g, const Dims* d):
    return sum_to(g, d.n, d.v)


cdef Tensor op_reshape(Tensor x, const Dims* d):
    """A view where the layout allows it, else a copy."""
    cdef Meta probe
    cdef Tensor y
    cdef int fits
    memset(&probe, 0, sizeof(Meta))
    fits = view_reshape(&probe, &x.m, d.n, d.v)
    meta_clear(&probe)
    if not fits:
        return by_itself(called(op_view_as_shape(op_contiguous(x), d), UNSAFE_VIEW))
    y = op_view_as_shape(x, d)
    return y if x.m.flags & CONTIGUOUS else called(y, RESHAPE_ALIAS)


cdef Tensor op_contiguous(Tensor x):
    """x itself when it is row-major, else a row-major copy."""
    cdef Tensor y
    cdef Node n
    cdef int64_t began = op_began()
    if x.m.flags & CONTIGUOUS or (x.flags & BATCHED and rowmajor_example(x)):
        return x
    if x.flags & BATCHED:
        y = batch_clone(x, True)
    else:
        y = tensor_new()
        adopt(y, ops.op_clone(&y.m, &x.m, x.m.dtype, True))
    if records(x):
        n = node_new(&OPS[OP_CLONE])
        set_edge(n, 0, x)
        node_set_output(n, y)
    if cyg_mode & MODE_PROFILE:
        note_op(OP_CLONE, y, (x,), began)
    return y


cdef Tensor op_to_device(Tensor x, int device):
    """x on another device; itself where it is there. The engine brings the gradient back, as it does for dtypes."""
    cdef Tensor y
    cdef Node n
    cdef int64_t began = op_began()
    if x.m.device == device:
        return x
    if x.flags & BATCHED:
        y = under(on_device(front(x, batch_of(x), 0), device), batch_of(x), 0)
    else:
        y = on_device(x, device)
    if records(x):
        n = node_new(&OPS[OP_CAST])
        set_edge(n, 0, x)
        node_set_output(n, y)
    if cyg_mode & MODE_PROFILE:
        note_op(OP_CAST, y, (x,), began)
    return y


cdef Tensor op_clone(Tensor x):
    """A copy in the layout of a dense x."""
    cdef Tensor y
    cdef Node n
    cdef int64_t began = op_began()
    if x.flags & BATCHED:
        y = batch_clone(x, False)
    else:
        y = tensor_new()
        adopt(y, ops.op_clone(&y.m, &x.m, x.m.dtype, False))
    if records(x):
        n = node_new(&OPS[OP_CLONE])
        set_edge(n, 0, x)
        node_set_output(n, y)
    if cyg_mode & MODE_PROFILE:
        note_op(OP_CLONE, y, (x,), began)
    return y


cdef int bw_clone(Node n, Tensor g) except -1:
    return pass_grad(n, 0, g)


cdef Tensor op_t(Tensor x):
    """A matrix transposed; a vector or a 0-d tensor as it is."""
    cdef Tensor y = tensor_new()
    if x.m.ndim == 2:
        view_transpose(&y.m, &x.m, 0, 1)
    else:
        meta_like(&y.m, &x.m)
    return record_view(OP_T, y, x)


cdef int bw_t(Node n, Tensor g) except -1:
    return pass_grad(n, 0, transposed_gradient(g))


cdef Tensor transposed_gradient(Tensor g):
    """A gradient transposed. Where no graph of it is wanted it is no view of g, so that a leaf may keep it as it is."""
    cdef Tensor y
    if recording() or g.m.ndim != 2 or g.flags & BATCHED or g.base is not None or shows_tangent(g):
        return op_t(g)
    y = tensor_new()
    view_transpose(&y.m, &g.m, 0, 1)
    adopt(y, g.mem)
    return y


cdef Tensor scaled(Tensor g, double factor):
    return g if factor == 1 else op_mul(g, like_number(factor, g))


cdef Tensor right_gradient(Node node, int k, Tensor a, Tensor g):
    """The gradient of b, input k, in a @ b. Where b is a matrix transposed, it is column-major: the matrix's own is then
    row-major, as its leaf wants it."""
    cdef uint32_t nr = 0
    cdef bint leaf = False
    b = edge(node, k, &nr, &leaf)
    if b is not None and not leaf and (<Node>b).op.id in (OP_T, OP_TRANSPOSE):
        return transposed_gradient(op_mm(transposed_gradient(g), conj_of(a)))
    return op_mm(op_t(conj_of(a)), g)


cdef Tensor op_alias(Tensor x):
    """A view of all of x."""
    cdef Tensor y = tensor_new()
    meta_like(&y.m, &x.m)
    return record_view(OP_ALIAS, y, x)


cdef int bw_alias(Node n, Tensor g) except -1:
    return pass_grad(n, 0, g)


cdef Tensor linked(Tensor g, Node n):
    """g, a gradient that n gives, with an edge to where n's first input came from: it does not change with that input, so the
    derivative is 0, which is another answer than none."""
    cdef Tensor y
    cdef Node link
    cdef uint32_t nr = 0
    cdef bint leaf = False
    if not recording() or n.dual == INPUTS_ONLY:
        return g
    source = edge(n, 0, &nr, &leaf)
    if source is None:
        return g
    y = alias_of(g)
    link = node_new(row_called(OP_LINKED, n.op.name + b"Backward"))
    set_edge(link, 0, g)
    put_edge(link, 1, source, nr, leaf)
    node_set_output(link, y)
    return y


cdef int bw_linked(Node n, Tensor g) except -1:
    if wanted(n, 1):
        pass_grad(n, 1, zeros_same(g))
    if wanted(n, 0):
        pass_grad(n, 0, g)
    return 0


cdef Tensor record_view(int op, Tensor y, Tensor x):
    """y, whose Meta is set, as a view of x with a node that keeps nothing."""
    cdef Node n
    view_begin(y, x)
    if records(x) and category(x.m.dtype) >= 2:
        n = node_new(&OPS[op])
        set_edge(n, 0, x)
        node_set_output(n, y)
    return y


cdef Tensor ones_same(Tensor t):
    cdef Tensor y = tensor_new()
    y.m.device = t.m.device
    adopt(y, ops.op_full(&y.m, t.m.ndim, t.m.sizes, 1.0, t.m.dtype))
    return y


cdef Tensor unpermute(Tensor g, const Dims* dims):
    cdef Dims back
    cdef int i
    back.n = dims.n
    for i in range(dims.n):
        back.v[wrap_dim(dims.v[i], dims.n)] = i
    return op_permute(g, &back)


cdef Tensor unsqueeze_backward(Tensor g, int64_t dim):
    return op_squeeze_dims(g, <uint64_t>1 << wrap_dim(dim, g.m.ndim))


# ---- joining, indexing ----------------------------------------------------------------------------------------------

cdef int bw_cat(Node n, Tensor g) except -1:
    cdef int64_t dim = n.iattr[0], at = 0, size
    cdef int k
    for k in range(n.n_edges):
        size = n.rest[k]
        if wanted(n, k):
            pass_grad(n, k, op_narrow(g, dim, at, size))
        at += size
    return 0


cdef Tensor op_cat(list xs, int64_t dim):
    cdef Tensor y = tensor_new(), t
    cdef Node n
    cdef int k, count = len(xs)
    cdef bint recorded = False, batched = False
    cdef Meta** ms = <Meta**>malloc((count or 1) * sizeof(Meta*))
    if ms == NULL:
        raise MemoryError()
    try:
        for k in range(count):
            t = <Tensor>xs[k]
            ms[k] = &t.m
            recorded = recorded or records(t)
            batched = batched or t.flags & BATCHED
        if batched:
            y = batch_cat(xs, dim)
        else:
            adopt(y, ops.op_cat(&y.m, ms, count, dim))
    finally:
        free(ms)
    if recorded:
        n = node_new(&OPS[OP_CAT])
        dim = wrap_dim(dim, y.m.ndim)
        n.iattr[0] = dim
        n.rest = tuple([(<Tensor>t).m.sizes[dim] if (<Tensor>t).m.ndim == y.m.ndim else 0 for t in xs])
        for k in range(count):
            t = <Tensor>xs[k]
            set_edge(n, k, t if t.m.ndim == y.m.ndim else None)
        node_set_output(n, y)
    return y


cdef Tensor op_stack(list xs, int64_t dim):
    """Tensors of one shape along a new dimension."""
    cdef list rows = []
    cdef Tensor row, y
    cdef Node n
    cdef int k
    for x in xs:
        row = tensor_new()               # without history: the node below is the only one
        view_unsqueeze(&row.m, &(<Tensor>x).m, dim)
        adopt(row, (<Tensor>x).mem)
        if (<Tensor>x).flags & BATCHED:
            inherit(row, <Tensor>x)
        rows.append(row)
    y = op_cat(rows, dim)
    if category(y.m.dtype) >= 2 and _py.any([records(<Tensor>x) for x in xs]):
        n = node_new(&OPS[OP_STACK])
        n.iattr[0] = dim
        for k in range(len(xs)):
            set_edge(n, k, <Tensor>xs[k])
        node_set_output(n, y)
    return y


cdef int bw_stack(Node n, Tensor g) except -1:
    cdef int k
    for k in range(n.n_edges):
        if wanted(n, k):
            pass_grad(n, k, op_select(g, n.iattr[0], k))
    return 0


cdef Tensor index_select_backward(Tensor g, const Dims* sizes, int64_t dim, Tensor index):
    return op_index_add(zeros_of(sizes.n, sizes.v, g.m.dtype, g.m.device), dim, index, g)


cdef Tensor gather_backward(Tensor g, const Dims* sizes, int64_t dim, Tensor index):
    return op_scatter_add(zeros_of(sizes.n, sizes.v, g.m.dtype, g.m.device), dim, index, g)


cdef Tensor value_select_backward(Tensor g, const Dims* sizes, int64_t dim, Tensor index, bint keepdim):
    if sizes.n == 0:
        return g
    if not keepdim:
        g = op_unsqueeze(g, dim)
        index = op_unsqueeze(index, dim)
    return op_scatter_add(zeros_of(sizes.n, sizes.v, g.m.dtype, g.m.device), dim, index, g)


cdef Tensor values_at(Tensor t, int64_t dim, Tensor index, bint keepdim):
    """The elements of t that a reduction along dim took."""
    if t.m.ndim == 0:
        return t
    if keepdim:
        return op_gather(t, dim, index)
    return op_squeeze_dims(op_gather(t, dim, op_unsqueeze(index, dim)), <uint64_t>1 << dim)


cdef Tensor masked_select_backward(Tensor g, const Dims* sizes, Tensor mask):
    """g spread to where the mask held, in order, over the broadcast shape (the engine sums down to x's)."""
    cdef Meta* ms[2]
    cdef Meta x
    cdef int64_t full[64]
    cdef int nd
    cdef Dims d, flat
    cdef Tensor wide, y
    rowmajor_probe(&x, sizes, g.m.dtype)
    ms[0] = &x
    ms[1] = &mask.m
    nd = broadcast_shapes(ms, 2, full)
    meta_clear(&x)
    d.n = nd
    memcpy(d.v, full, nd * sizeof(int64_t))
    wide = op_contiguous(op_expand_to(mask, &d))
    flat.n = 1                           # an index mask is one-dimensional
    flat.v[0] = wide.m.numel
    y = op_index_put(zeros_of(1, flat.v, g.m.dtype, g.m.device), [op_view_as_shape(wide, &flat)], g, False)
    return op_view_as_shape(y, &d)


cdef int bw_optimizer_step(Node n, Tensor g) except -1:
    raise SystemError("an optimizer's write is never recorded")


cdef Tensor col2im_of(Tensor g, const Dims* geometry, const Dims* shape):
    """Gradient of im2col: its adjoint takes the sizes of the image only."""
    cdef Dims size
    cdef int i, nd = geometry.n // 4
    size.n = nd
    for i in range(nd):
        size.v[i] = shape.v[shape.n - nd + i]
    return op_col2im(g, geometry, &size)
