# batching: operations on batched tensors that have no row to make a rule from, or whose rule is not the usual one. May use: batch,
# formulas. What is recorded is the operation itself, by its caller: here is only computed.


# ---- pointwise -------------------------------------------------------------------------------------------------------

cdef Tensor pointwise_batched(const OpInfo* o, int code, int nin, Tensor a, Tensor b, Tensor c, const double* attr, Tensor target):
    """pointwise(), whose checks see one example and whose loop sees all."""
    cdef int out_code = result_dtype(o, code), nd, wide, i
    cdef Batch over = joint_of((a, b, c, target))
    cdef Meta* ms[4]
    cdef int64_t sizes[MAXDIM]
    cdef int64_t full[MAXDIM]
    cdef Tensor y, before, place, seen
    cdef bint recorded, away = a.m.device or (nin > 1 and b.m.device) or (nin > 2 and c.m.device)
    cdef Tensor ta, tb = None, tc = None
    cdef int64_t began = op_began()
    ms[1] = &a.m
    ms[2] = &b.m if nin > 1 else NULL
    ms[3] = &c.m if nin > 2 else NULL
    try:
        nd = broadcast_shapes(ms + 1, nin, sizes)
    except RuntimeError as e:
        raise RuntimeError(f"{o.name.decode().lower()}: {e}") from None
    ta = operand(o, 0, aligned(a, over, nd, away), code)
    ms[1] = &ta.m
    if nin > 1:
        tb = operand(o, 1, aligned(b, over, nd, away), code)
        ms[2] = &tb.m
    if nin > 2:
        tc = operand(o, 2, aligned(c, over, nd, away), code)
        ms[3] = &tc.m
    if o.guard:
        check_guards(o, code, a, b, c, tb, elements(nd, sizes))
    if cyg_mode & MODE_STRICT:
        check_broadcast(o, nd, sizes, (a, b, c))
    wide = broadcast_shapes(ms + 1, nin, full)
    if target is None:
        y = tensor_new()
        if o.rowmajor:
            y.m.device = device_among(ms + 1, nin)
            meta_contig(&y.m, wide, full, out_code)
        else:
            meta_joint(&y.m, ms + 1, nin, wide, full, out_code)
        adopt(y, meta_storage(&y.m))
        run_iter(o.kernel, code, &y.m, ms, nin, wide, full, attr)
        y = under(y, over, 0)
        if records_any(a, b, c):
            record(o, y, a, b, c, attr, 0)
        if cyg_mode & MODE_OBSERVED:
            observe(o.id, y, (a, b, c), began)
        return y
    recorded = records_any(a, b, c)
    check_target(o, code, out_code, target, nd, sizes)
    check_levels(target, (a, b, c), o.name.decode().lower() + "_")
    check_in_place(target, recorded and needs_grad(a, b, c))
    seen = seen_before_write(o, out_code, target, a, b, c) if cyg_mode & MODE_OBSERVED else None
    before = history_alias(target, reads_target(o, target, a, b, c)) if recorded else None
    a, b, c = frozen(a, target), frozen(b, target), frozen(c, target)
    place = front(target, over, nd)
    write_loop(o, code, out_code, place, ms, nin, place.m.ndim, place.m.sizes, attr)
    finish_write(o, target, a, b, c, before, seen, attr, began)
    return target


cdef Tensor fused_batched(int kid, int nin, Tensor a, Tensor b, Tensor c, Tensor d, int masks, const double* attr):
    """fused() over all examples at once."""
    cdef Batch over = joint_of((a, b, c, d))
    cdef list given = []
    cdef int rank = 0
    cdef bint away = False
    cdef Tensor t, y
    for t in (a, b, c, d):
        if t is not None:
            away = away or t.m.device != 0
            if t.m.ndim > rank:
                rank = t.m.ndim
    for t in (a, b, c, d):
        given.append(None if t is None else aligned(t, over, rank, away))
    y = fused(kid, nin, <Tensor>given[0], <Tensor>given[1], <Tensor>given[2], <Tensor>given[3], masks, attr)
    return None if y is None else under(y, over, 0)


# ---- products of matrices --------------------------------------------------------------------------------------------

cdef Tensor factor(Tensor x, Batch over, Tensor beside):
    """One of two factors: without the batch where it is the same in all examples, and the other one varies in every level."""
    cdef bint other = beside.flags & BATCHED and not all_alike(beside) and batch_of(beside).levels == over.levels
    if other and (not x.flags & BATCHED or all_alike(x)):
        return first_of(x)
    return front(x, over, 0)


cdef bint fit_together(Tensor a, Tensor b, int na, int nb) noexcept:
    """Whether two factors of so many dimensions have one inner size and dtype."""
    return (a.m.ndim == na and b.m.ndim == nb and a.m.dtype == b.m.dtype
            and a.m.sizes[na - 1] == b.m.sizes[nb - 2 if nb > 1 else 0])


cdef Tensor multiplied(Tensor a, Tensor b, Batch over):
    cdef int before = work_unseen()
    try:
        return product(factor(a, over, b), factor(b, over, a))
    finally:
        restore_mode(before)


cdef Tensor batch_mm(Tensor a, Tensor b):
    cdef Batch over = joint(a, b, None)
    if not fit_together(a, b, 2, 2):
        return op_mm(first_of(a), first_of(b))           # raises
    return under(multiplied(a, b, over), over, 0)


cdef Tensor batch_bmm(Tensor a, Tensor b):
    cdef Batch over = joint(a, b, None)
    if not fit_together(a, b, 3, 3) or a.m.sizes[0] != b.m.sizes[0]:
        return op_bmm(first_of(a), first_of(b))          # raises
    return under(multiplied(a, b, over), over, 0)


cdef Tensor batch_mv(Tensor a, Tensor b):
    cdef Batch over = joint(a, b, None)
    cdef Tensor y
    if not fit_together(a, b, 2, 1):
        return op_mv(first_of(a), first_of(b))           # raises
    if not a.flags & BATCHED or all_alike(a):            # one large product
        y = multiplied(op_view_as_row(b), op_t(alias_of(a)), over)
        return dropped(y, over, y.m.ndim - 2)
    y = multiplied(a, op_unsqueeze(alias_of(b), 1), over)
    return under(y, over, 1)


cdef Tensor op_view_as_row(Tensor x):
    return op_unsqueeze(alias_of(x), 0)


cdef Tensor dropped(Tensor y, Batch over, int dim):
    """y, whose dimension `dim` has size 1, without that, under the levels."""
    cdef Tensor z = tensor_new()
    view_select(&z.m, &y.m, dim, 0)
    adopt(z, y.mem)
    return under(z, over, 0)


cdef Tensor batch_dot(Tensor a, Tensor b):
    cdef Batch over = joint(a, b, None)
    if not fit_together(a, b, 1, 1):
        return op_dot(first_of(a), first_of(b))          # raises
    return under(multiplied(op_view_as_row(a), op_unsqueeze(alias_of(b), 1), over), over, 2)


cdef Tensor batch_addmm(Tensor c, Tensor a, Tensor b, double beta, double alpha):
    cdef Batch over = joint(c, a, b)
    cdef Tensor y
    cdef int before
    if not fit_together(a, b, 2, 2) or c.m.dtype != a.m.dtype or c.m.ndim > 2:
        return op_addmm(first_of(c), first_of(a), first_of(b), beta, alpha)          # raises
    y = under(multiplied(a, b, over), over, 0)
    if not expandable(c.m.sizes, c.m.ndim, &y.m):
        return op_addmm(first_of(c), first_of(a), first_of(b), beta, alpha)          # raises
    before = work_unseen()
    try:
        if alpha != 1:
            y = op_mul(y, scalar_tensor(alpha, y.m.dtype))
        if beta != 0:
            y = op_add(op_mul(detached(c), scalar_tensor(beta, c.m.dtype)) if beta != 1 else detached(c), y)
        return y
    finally:
        restore_mode(before)


cdef Tensor detached(Tensor x):
    return alias_of(x)


# ---- search ----------------------------------------------------------------------------------------------------------

cdef Tensor batch_argmax(Tensor x, uint64_t dim, bint keepdim):
    return batch_arg(x, dim, keepdim, True)


cdef Tensor batch_argmin(Tensor x, uint64_t dim, bint keepdim):
    return batch_arg(x, dim, keepdim, False)


cdef Tensor batch_arg(Tensor x, uint64_t dim, bint keepdim, bint largest):
    """Along one dimension, or in the flattened example."""
    cdef Batch over = joint(x, None, None)
    cdef Tensor flat = alias_of(x), y = tensor_new()
    cdef Dims d
    cdef int i
    if x.m.numel == 0:
        return op_argmax(first_of(x), dim, keepdim) if largest else op_argmin(first_of(x), dim, keepdim)
    if bits(dim) != 1:
        d.n = 1
        d.v[0] = x.m.numel
        flat = op_reshape(flat, &d)
    flat = front(flat, over, 1)
    i = 0
    if bits(dim) == 1:
        while not dim >> i & 1:
            i += 1
    if largest:
        adopt(y, ops.op_argmax(&y.m, &flat.m, <uint64_t>1 << (over.n + i), keepdim and bits(dim) == 1))
    else:
        adopt(y, ops.op_argmin(&y.m, &flat.m, <uint64_t>1 << (over.n + i), keepdim and bits(dim) == 1))
    y = under(y, over, 0)
    if keepdim and bits(dim) != 1 and x.m.ndim:
        d.n = x.m.ndim
        for i in range(d.n):
            d.v[i] = 1
        y = op_view_as_shape(y, &d)
    return y


# ---- indices that vary -----------------------------------------------------------------------------------------------

cdef Tensor index_for_all(Tensor index, Tensor like, int64_t dim):
    """A vector of indices along `dim` as an index for every element of `like`, but for its size there."""
    cdef Dims line, wide
    cdef int i
    index = alias_of(index)
    line.n = wide.n = like.m.ndim
    dim = wrap_dim(dim, like.m.ndim)
    for i in range(line.n):
        line.v[i] = index.m.numel if i == dim else 1
        wide.v[i] = index.m.numel if i == dim else like.m.sizes[i]
    return op_expand_to(op_reshape(index, &line), &wide)


cdef Tensor along_index_select(Tensor x, int64_t dim, Tensor index):
    op_index_select(first_of(x), dim, first_of(index))       # its checks
    return batch_gather(x, dim, index_for_all(index, x, dim))


cdef Tensor source_for(Tensor source, Tensor y, int64_t dim):
    """Slices of y; a source without dimensions is the only one."""
    source = alias_of(source)
    return op_unsqueeze(source, 0) if source.m.ndim == 0 and y.m.ndim else source


cdef int along_index_add(Tensor y, int64_t dim, Tensor index, Tensor source) except -1:
    op_index_add(first_of(y), dim, first_of(index), first_of(source))
    source = source_for(source, y, dim)
    return batch_into_scatter_add(y, dim, index_for_all(index, source, dim), source)


cdef int along_index_copy(Tensor y, int64_t dim, Tensor index, Tensor source) except -1:
    op_index_copy(first_of(y), dim, first_of(index), first_of(source))
    source = source_for(source, y, dim)
    return batch_into_scatter(y, dim, index_for_all(index, source, dim), source)


cdef int along_index_reduce(Tensor y, int64_t dim, Tensor index, Tensor source, str reduce, bint include_self) except -1:
    op_index_reduce(first_of(y), dim, first_of(index), first_of(source), reduce, include_self)
    source = source_for(source, y, dim)
    return batch_into_scatter_reduce(y, dim, index_for_all(index, source, dim), source, reduce, include_self)


cdef int along_index_fill(Tensor y, int64_t dim, Tensor index, Tensor v) except -1:
    op_index_fill(first_of(y), dim, first_of(index), first_of(v))
    index = alias_of(index)
    if y.m.ndim:
        index = counted_from_front(index, y.m.sizes[wrap_dim(dim, y.m.ndim)])
    index = index_for_all(index, y, dim)
    return along_scatter_fill(y, dim, index, v) if v.flags & BATCHED else batch_into_scatter_fill(y, dim, index, v)


cdef int along_scatter_fill(Tensor y, int64_t dim, Tensor index, Tensor v) except -1:
    """A number that varies: as an element for each index."""
    cdef Dims d
    d.n = index.m.ndim
    memcpy(d.v, index.m.sizes, d.n * sizeof(int64_t))
    v = alias_of(v)
    if v.m.dtype != y.m.dtype:
        v = op_cast(v, y.m.dtype)
    return batch_into_scatter(y, dim, index, op_expand_to(v, &d))


cdef Tensor counted_from_front(Tensor index, int64_t size):
    """Indices of which negative ones counted from the end."""
    cdef Tensor more = op_add(index, scalar_tensor(<double>size, INT64))
    return op_where(op_lt(index, scalar_tensor(0, INT64)), more, index)


cdef Tensor batch_take(Tensor x, Tensor index):
    """From the flattened example."""
    cdef Batch over = joint(x, index, None)
    cdef Tensor y
    cdef Dims flat, shape
    if not x.flags & BATCHED:
        x, index = bare(x), front(index, over, 0)
        y = tensor_new()
        adopt(y, ops.op_take(&y.m, &x.m, &index.m))
        return under(y, over, 0)
    op_take(first_of(x), first_of(index))                    # its checks
    shape.n = index.m.ndim
    memcpy(shape.v, index.m.sizes, shape.n * sizeof(int64_t))
    flat.n = 1
    flat.v[0] = index.m.numel
    index = op_reshape(alias_of(index), &flat)
    index = counted_from_front(index, x.m.numel)
    flat.v[0] = x.m.numel
    return op_view_as_shape(batch_gather(op_reshape(alias_of(x), &flat), 0, index), &shape)


cdef Tensor batch_masked_select(Tensor x, Tensor mask):
    """Under a mask that is the same for all examples."""
    cdef Meta* ms[2]
    cdef Dims d, flat
    cdef Tensor places
    if mask.flags & BATCHED and all_alike(mask):
        mask = first_of(mask)
    if mask.flags & BATCHED or mask.m.dtype != BOOL:
        op_masked_select(first_of(x), first_of(mask))        # its checks
        refuse_dynamic(x if x.flags & BATCHED else mask, "masked_select")
    ms[0] = &x.m
    ms[1] = &mask.m
    d.n = broadcast_shapes(ms, 2, d.v)
    flat.n = 1
    flat.v[0] = elements(d.n, d.v)
    places = op_reshape(op_expand_to(bare(mask), &d), &flat)
    places = op_select(op_nonzero_rows(places), 1, 0)
    return batch_index_select(op_reshape(op_expand_to(alias_of(x), &d), &flat), 0, op_contiguous(places))


# ---- x[...] ----------------------------------------------------------------------------------------------------------

cdef list plain_indices(Tensor x, list tensors):
    """Index tensors of which none is a mask that varies; masks become positions where others vary."""
    cdef list plain = []
    cdef bint varies = False
    for t in tensors:
        if t is not None and (<Tensor>t).flags & BATCHED:
            if (<Tensor>t).m.dtype != BOOL:
                varies = True
            elif not all_alike(<Tensor>t):
                refuse_dynamic(<Tensor>t, "indexing with a mask")
    for t in [first_of(<Tensor>t) if t is not None and (<Tensor>t).m.dtype == BOOL else t for t in tensors]:
        if varies and t is not None and (<Tensor>t).m.dtype == BOOL:
            plain += mask_indices(<Tensor>t)
        else:
            plain.append(t)
    return plain


cdef struct Place:
    int first        # dimension of the indexed example where the indices' dimensions go
    int count        # how many these are
    int kept         # dimensions of the plain result before them


cdef list index_over(Tensor x, list tensors, Batch over, Place* where):
    """Index tensors for `front(x, over)`: positions of the examples go along where some index varies, nothing where none does.

    `where` says how the result lies: `kept` dimensions of the batch or of x come first, then the indices' dimensions.
    """
    cdef list found = [], parts
    cdef Tensor t, at
    cdef int i, first = -1, last = -1, nd = 0, k = over.n
    cdef bint varies = False, whole = len(tensors) == 1 and (<Tensor>tensors[0]).m.dtype == BOOL
    for i in range(len(tensors)):
        if tensors[i] is not None:
            t = <Tensor>tensors[i]
            first = i if first < 0 else first
            last = i
            nd = _py.max(nd, 1 if t.m.dtype == BOOL else t.m.ndim)
            varies = varies or t.flags & BATCHED != 0
    adjacent = None not in tensors[first:last + 1]
    where.first = first if adjacent else 0
    where.count = nd
    if not varies:
        where.kept = k + first if adjacent else 0
        if whole and (<Tensor>tensors[0]).m.ndim > 1:
            tensors = mask_indices(<Tensor>tensors[0])
        return [None] * k + tensors
    where.kept = k
    for i in range(k):
        at = arange(size_in(over, i), device=device_object(x.m.device))
        found.append(at.reshape([-1 if j == i else 1 for j in range(k)] + [1] * nd))
    return found + [None if t is None else front(<Tensor>t, over, nd) if (<Tensor>t).flags & BATCHED else t for t in tensors]


cdef list result_order(Place* where, int k, int total):
    """Order of the plain result's dimensions that puts the batch first and the indices' dimensions where an example has them."""
    cdef list rest, index = list(range(where.kept, where.kept + where.count))
    rest = [d for d in range(total) if d not in index]
    return rest[:k + where.first] + index + rest[k + where.first:]


cdef Tensor batch_index(Tensor x, list tensors):
    cdef Batch over
    cdef Tensor whole, y = tensor_new()
    cdef Meta* at[64]
    cdef Place where
    cdef Dims order
    cdef int before
    tensors = plain_indices(x, tensors)
    over = joint_of([x, *tensors])
    before = work_unseen()
    try:
        tensors = index_over(x, tensors, over, &where)
        whole = front(x, over, 0)
        index_pointers(whole, tensors, at)
        adopt(y, ops.op_index(&y.m, &whole.m, at, len(tensors)))
        if where.kept != over.n + where.first:
            dims_from(result_order(&where, over.n, y.m.ndim), &order)
            y = op_permute(y, &order)
    finally:
        restore_mode(before)
    return under(y, over, 0)


cdef int batch_put(Tensor x, list tensors, Tensor v, bint accumulate) except -1:
    """x[tensors] = v, or += v; x has all levels."""
    cdef Batch over = joint(x, None, None)
    cdef Tensor whole, probe
    cdef Meta* at[64]
    cdef Place where
    cdef Dims d
    cdef int before = work_unseen()
    try:
        probe = op_index(first_of(x), [None if t is None else first_of(<Tensor>t) for t in tensors])     # shape, and its checks
        if not expandable(v.m.sizes, v.m.ndim, &probe.m):
            op_index_put(first_of(x), [None if t is None else first_of(<Tensor>t) for t in tensors], first_of(v), accumulate)
        if v.m.numel == 1 and one_varying_mask(tensors):
            return put_under_mask(x, <Tensor>tensors[0], v, accumulate)
        tensors = index_over(x, plain_indices(x, tensors), over, &where)
        whole = front(x, over, 0)
        index_pointers(whole, tensors, at)
        if v.flags & BATCHED or where.kept != over.n + where.first:
            d.n = probe.m.ndim
            memcpy(d.v, probe.m.sizes, d.n * sizeof(int64_t))
            v = front(op_expand_to(alias_of(v), &d), over, 0)
            if where.kept != over.n + where.first:
                order = result_order(&where, over.n, v.m.ndim)
                dims_from([order.index(i) for i in range(len(order))], &d)
                v = op_permute(v, &d)
        ops.index_put_into(&whole.m, at, len(tensors), &v.m, accumulate)
    finally:
        restore_mode(before)
    return 0


cdef bint one_varying_mask(list tensors):
    return len(tensors) == 1 and tensors[0] is not None and (<Tensor>tensors[0]).m.dtype == BOOL and (
        (<Tensor>tensors[0]).flags & BATCHED != 0)


cdef int put_under_mask(Tensor x, Tensor mask, Tensor v, bint accumulate) except -1:
    """One value where a mask holds that differs between the examples: no positions are needed for that."""
    cdef Tensor plain = alias_of(x)
    cdef Dims d
    cdef int i
    d.n = x.m.ndim
    for i in range(d.n):
        d.v[i] = mask.m.sizes[i] if i < mask.m.ndim else 1
    mask = op_reshape(alias_of(mask), &d)
    d.n = 0
    v = op_reshape(alias_of(v), &d)
    return batch_copy_into(x, op_where(mask, op_add(plain, v) if accumulate else v, plain))


# ---- joining and copying ---------------------------------------------------------------------------------------------

cdef Tensor batch_cat(list xs, int64_t dim):
    cdef Batch over = joint_of(xs)
    cdef list kept = [x for x in xs if not ((<Tensor>x).m.ndim == 1 and (<Tensor>x).m.numel == 0)] or xs[:1]
    cdef int before = work_unseen()
    cdef Tensor y
    try:
        if _py.any([(<Tensor>x).m.ndim != (<Tensor>kept[0]).m.ndim for x in kept]) or (<Tensor>kept[0]).m.ndim == 0:
            return op_cat([first_of(<Tensor>x) for x in xs], dim)                    # raises
        dim = wrap_dim(dim, (<Tensor>kept[0]).m.ndim)
        code = (<Tensor>xs[0]).m.dtype
        for x in xs:
            code = promote(code, (<Tensor>x).m.dtype)
        try:
            y = op_cat([front(<Tensor>x, over, 0) for x in kept], dim + over.n)
        except Exception:
            op_cat([first_of(<Tensor>x) for x in xs], dim)
            raise
        return under(cast_data(y, code), over, 0)
    finally:
        restore_mode(before)


cdef Tensor batch_clone(Tensor x, bint rowmajor):
    """A copy without history."""
    return copied_over(x, joint(x, None, None), rowmajor)


cdef bint rowmajor_example(Tensor x) noexcept:
    """Whether the elements of each example lie row-major without gaps."""
    cdef int64_t stride = 1
    cdef int i
    for i in range(x.m.ndim - 1, -1, -1):
        if x.m.sizes[i] != 1 and x.m.strides[i] != stride and x.m.numel:
            return False
        stride *= x.m.sizes[i]
    return True


cdef int batch_copy_into(Tensor x, Tensor src) except -1:
    """The values of src written to x, which has all its levels."""
    cdef Batch over = joint(x, None, None)
    cdef Tensor to = front(x, over, 0)
    if src.m.ndim > x.m.ndim or not expandable(src.m.sizes, src.m.ndim, &x.m):
        x, src = first_of(x), first_of(src)
        ops.copy_into(&x.m, &src.m)                          # raises
    src = aligned(src, over, x.m.ndim, False)
    ops.copy_into(&to.m, &src.m)
    return 0


cdef Tensor batch_searchsorted(Tensor bounds, Tensor values, Tensor order, bint right, bint narrow):
    """bounds, values and order have one dtype and fit one another, as one example's."""
    cdef Batch over = joint(bounds, values, order)
    cdef Tensor y = tensor_new(), b, v, o = None
    cdef Dims wide
    cdef int lead = values.m.ndim - 1 if values.m.ndim > 1 else 0
    if not bounds.flags & BATCHED and bounds.m.ndim == 1 and (order is None or not order.flags & BATCHED):
        b, v = op_contiguous(bare(bounds)), op_contiguous(front(values, over, 0))
        o = None if order is None else op_contiguous(bare(order))
        adopt(y, ops.op_searchsorted(&y.m, &b.m, &v.m, NULL if o is None else &o.m, right, narrow))
        return under(y, over, 0)
    if bounds.m.ndim == 1 and lead:                          # the same bounds for all rows of an example
        wide.n = lead + 1
        memcpy(wide.v, values.m.sizes, lead * sizeof(int64_t))
        wide.v[lead] = bounds.m.sizes[0]
        bounds = op_expand_to(alias_of(bounds), &wide)
        order = None if order is None else op_expand_to(alias_of(order), &wide)
    b, v = op_contiguous(front(bounds, over, 0)), op_contiguous(front(values, over, 1))
    o = None if order is None else op_contiguous(front(order, over, 0))
    adopt(y, ops.op_searchsorted(&y.m, &b.m, &v.m, NULL if o is None else &o.m, right, narrow))
    return under(y, over, values.m.ndim == 0)
