# accumulate: where gradients meet: in a row of a pass, in .grad of a leaf. May use: opcall, formulas.


cdef Tensor add_grads(Tensor a, Tensor b, bint sole):
    """a + b; into a's own memory when nobody else can see it and no graph of the gradient is wanted."""
    cdef Meta* ms[3]
    if (sole and not cyg_mode & MODE_NAN and not recording() and a.fn is None and a.base is None and (<PyObject*>a.mem).ob_refcnt == 1
            and not (a.flags & REQUIRES_GRAD or shows_tangent(a) or shows_tangent(b)) and a.m.dtype == b.m.dtype
            and same_dense(&a.m, &b.m)
            and OPS[OP_ADD].row[a.m.dtype] != NULL):
        ms[0] = &a.m
        ms[1] = &a.m
        ms[2] = &b.m
        run_flat(OPS[OP_ADD].row[a.m.dtype], ms, 3, NULL)
        a.mem.version += 1
        return a
    return op_add(a, b)


cdef int accumulate(Tensor leaf, Tensor g, bint sole) except -1:
    """Adds g to the leaf's .grad, and calls the hooks after that. sole: nobody else holds g, so it may become .grad itself."""
    if leaf.flags & REQUIRES_GRAD:           # else it was told so after it had been used
        put_gradient(leaf, g, sole)
    if leaf.flags & HAS_HOOKS:
        for hook in list(leaf.extra.after.values()):
            hook(leaf)
    return 0


cdef int put_gradient(Tensor leaf, Tensor g, bint sole) except -1:
    if leaf.grad_ is not None and not meta_same_shape(&(<Tensor>leaf.grad_).m, &g.m):
        raise RuntimeError(f"a gradient of shape {list(shape_tuple(&g.m))} cannot be added to .grad, which has shape "
                           f"{list(shape_tuple(&(<Tensor>leaf.grad_).m))}; set .grad to None where .data gets another "
                           "shape")
    if leaf.grad_ is None:
        if sole and not recording() and stealable(g, leaf):
            leaf.grad_ = g
        else:
            leaf.grad_ = laid_as(g, &leaf.m)
    elif not cyg_mode & MODE_NO_GRAD:        # create_graph; in inference mode too
        leaf.grad_ = op_add(<Tensor>leaf.grad_, g)
    else:
        leaf.grad_ = added(<Tensor>leaf.grad_, g)
    return 0


cdef inline bint stealable(Tensor g, Tensor leaf) noexcept:
    return ((<PyObject*>g.mem).ob_refcnt == 1 and g.fn is None and g.base is None and g.extra is None
            and g.m.flags & DENSE != 0 and not g.flags & (REQUIRES_GRAD | WRAPPED) and lies_as(&g.m, &leaf.m))


cdef inline bint lies_as(const Meta* g, const Meta* like) noexcept:
    """Whether a gradient has the strides of a dense leaf, or is row-major where the leaf is not dense."""
    cdef int i
    if not like.flags & DENSE or like.flags & CONTIGUOUS or g.ndim != like.ndim:
        return g.flags & CONTIGUOUS != 0
    for i in range(g.ndim):
        if g.strides[i] != like.strides[i] and g.sizes[i] > 1:
            return False
    return True


cdef Tensor laid_as(Tensor g, const Meta* like):
    """A copy of g in the layout that `lies_as` asks for, recorded as clone()."""
    cdef Tensor y
    cdef Node n
    if g.m.ndim != like.ndim or not meta_same_shape(&g.m, <Meta*>like) or g.flags & BATCHED:
        return op_clone(g)               # a hook gave the leaf another shape
    y = tensor_new()
    if like.flags & DENSE:
        meta_dense_like(&y.m, like, g.m.dtype)
    else:
        y.m.device = g.m.device
        meta_contig(&y.m, like.ndim, like.sizes, g.m.dtype)
    adopt(y, meta_storage(&y.m))
    ops.copy_into(&y.m, &g.m)
    if records(g):
        n = node_new(&OPS[OP_CLONE])
        set_edge(n, 0, g)
        node_set_output(n, y)
    return y


cdef Tensor added(Tensor have, Tensor g):
    """have + g in have's own memory, counted as a change, as PyTorch accumulates; a new tensor where that memory cannot be
    written.

    The GIL is held throughout: two threads may accumulate into one leaf.
    """
    cdef Meta* ms[3]
    cdef Iter it
    cdef int64_t began = op_began()
    cdef Loop f = OPS[OP_ADD].row[have.m.dtype]
    if (f == NULL or shows_tangent(g) or shows_tangent(have) or g.m.dtype != have.m.dtype or have.mem.readonly
            or has_internal_overlap(&have.m) or any_batched(have, g, None)):
        return op_add(have, g)
    before_write(have)
    ms[0] = &have.m
    ms[1] = &have.m
    ms[2] = &g.m
    seen = glimpse(have) if cyg_mode & (MODE_NAN | MODE_PROFILE) else None
    if have.m.numel:
        if have.m.device == 0 and g.m.device == 0:
            iter_build(&it, ms, 3, have.m.ndim, have.m.sizes)
            iter_run(&it, f, NULL)
        else:
            ops.run_pointwise(OPS[OP_ADD].kernel, have.m.dtype, ms, 3, have.m.ndim, have.m.sizes, NULL)
    bump(have, OP_ADD)
    if seen is not None:
        observe(OP_ADD, have, (seen, g), began)
    return have


cdef Tensor run_tensor_hooks(dict hooks, Tensor g):
    for hook in list(hooks.values()):
        r = hook(g)
        if r is None:
            continue
        check_hook_result(hook, g, r)
        g = <Tensor>r
    return g


cdef str hook_name(hook):
    return f"hook '{getattr(hook, '__name__', type(hook).__name__)}'"


cdef int check_hook_result(hook, Tensor g, object r) except -1:
    """Whether a hook may put r in the place of the gradient g."""
    if not isinstance(r, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{kind_of(r)}': {hook_name(hook)} must return a Tensor or None")
    if not meta_same_shape(&(<Tensor>r).m, &g.m):
        raise RuntimeError(f"{hook_name(hook)} has changed the size of value: expected {list(shape_tuple(&g.m))}, got "
                           f"{list(shape_tuple(&(<Tensor>r).m))}")
    if (<Tensor>r).m.dtype != g.m.dtype:
        raise RuntimeError(f"{hook_name(hook)} has changed the type of value (was {dtype_object(g.m.dtype)} got "
                           f"{dtype_object((<Tensor>r).m.dtype)})")
    return 0


cdef int retain(Tensor t, Tensor g) except -1:
    if t.grad_ is None:
        t.grad_ = op_clone(g) if g.m.flags & CONTIGUOUS else op_contiguous(g)
    else:
        t.grad_ = op_add(<Tensor>t.grad_, g)
    return 0
