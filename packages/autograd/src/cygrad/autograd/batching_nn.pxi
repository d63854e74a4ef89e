# batching_nn: convolutions, pooling, patches and layer normalisation of batched tensors. May use: batching.
# The first have a dimension for a batch of their own, in which examples find room; filters that differ between the examples are groups.


cdef Tensor folded(Tensor x, Batch over):
    """All examples along x's first dimension, a plain tensor."""
    cdef Tensor whole = front(x, over, 0)
    cdef Dims d
    cdef int i
    d.n = x.m.ndim
    memcpy(d.v, x.m.sizes, d.n * sizeof(int64_t))
    d.v[0] *= examples(over)
    return op_reshape(whole, &d)


cdef Tensor unfolded(Tensor y, Batch over):
    """The reverse."""
    cdef Dims d
    cdef int i, k = over.n
    d.n = k + y.m.ndim
    for i in range(k):
        d.v[i] = size_in(over, i)
    d.v[k] = y.m.sizes[0] // examples(over)
    memcpy(d.v + k + 1, y.m.sizes + 1, (y.m.ndim - 1) * sizeof(int64_t))
    return under(op_view_as_shape(y, &d), over, 0)


cdef Tensor as_groups(Tensor x, Batch over):
    """All examples along x's second dimension, each as channels of its own."""
    return op_transpose(folded(op_transpose(alias_of(x), 0, 1), over), 0, 1)


cdef Tensor from_groups(Tensor y, Batch over):
    """The reverse."""
    return op_transpose(unfolded(op_contiguous(op_transpose(y, 0, 1)), over), 0, 1)


cdef int grouped(Dims* more, const Dims* geometry, Batch over) noexcept:
    """The geometry of a convolution with as many times the groups as there are examples."""
    more[0] = geometry[0]
    more.v[more.n - 1] *= examples(over)
    return 0


cdef bint images(Tensor a, Tensor b) noexcept:
    return a.m.ndim >= 3 and a.m.ndim == b.m.ndim


cdef Tensor batch_convolution(Tensor x, Tensor w, const Dims* geometry):
    cdef Batch over = joint(x, w, None)
    cdef Dims more
    cdef int before
    if not images(x, w) or examples(over) == 0:
        return stack_examples([op_convolution(first_of(x), first_of(w), geometry)], over)
    before = work_unseen()
    try:
        if not w.flags & BATCHED or all_alike(w):
            return unfolded(op_convolution(folded(x, over), first_of(w), geometry), over)
        grouped(&more, geometry, over)
        return from_groups(op_convolution(as_groups(x, over), folded(w, over), &more), over)
    except Exception:
        op_convolution(first_of(x), first_of(w), geometry)
        raise
    finally:
        restore_mode(before)


cdef Tensor batch_convolution_bias(Tensor x, Tensor w, Tensor b, const Dims* geometry):
    return op_add(op_convolution(x, w, geometry), b)


cdef Tensor batch_convolution_input(Tensor d, Tensor w, const Dims* geometry, const Dims* size):
    cdef Batch over = joint(d, w, None)
    cdef Dims more, wide = size[0]
    cdef int before
    if not images(d, w) or size.n != d.m.ndim or examples(over) == 0:
        return stack_examples([op_convolution_input(first_of(d), first_of(w), geometry, size)], over)
    before = work_unseen()
    try:
        if not w.flags & BATCHED or all_alike(w):
            wide.v[0] *= examples(over)
            return unfolded(op_convolution_input(folded(d, over), first_of(w), geometry, &wide), over)
        grouped(&more, geometry, over)
        wide.v[1] *= examples(over)
        return from_groups(op_convolution_input(as_groups(d, over), folded(w, over), &more, &wide), over)
    except Exception:
        op_convolution_input(first_of(d), first_of(w), geometry, size)
        raise
    finally:
        restore_mode(before)


cdef Tensor batch_convolution_weight(Tensor d, Tensor x, const Dims* geometry, const Dims* size):
    cdef Batch over = joint(d, x, None)
    cdef Dims more, wide = size[0]
    cdef int before
    if not images(d, x) or size.n != d.m.ndim or examples(over) == 0:
        return stack_examples([op_convolution_weight(first_of(d), first_of(x), geometry, size)], over)
    before = work_unseen()
    try:
        grouped(&more, geometry, over)
        wide.v[0] *= examples(over)
        return unfolded(op_convolution_weight(as_groups(d, over), as_groups(x, over), &more, &wide), over)
    except Exception:
        op_convolution_weight(first_of(d), first_of(x), geometry, size)
        raise
    finally:
        restore_mode(before)


cdef Tensor batch_avg_pool_input(Tensor d, const Dims* geometry, const Dims* size):
    """Planes are pooled one by one, whatever dimensions count them."""
    cdef Batch over = joint(d, None, None)
    cdef Dims wide
    cdef Tensor whole = front(d, over, 0), y = tensor_new()
    cdef int i
    wide.n = over.n + size.n
    for i in range(over.n):
        wide.v[i] = size_in(over, i)
    memcpy(wide.v + over.n, size.v, size.n * sizeof(int64_t))
    try:
        adopt(y, ops.op_avg_pool_input(&y.m, &whole.m, geometry.n, geometry.v, wide.n, wide.v))
    except Exception:
        op_avg_pool_input(first_of(d), geometry, size)
        raise
    return under(y, over, 0)


cdef Tensor batch_plane_add(Tensor d, Tensor places, const Dims* geometry, const Dims* size):
    cdef Batch over = joint(d, places, None)
    cdef Dims wide
    cdef Tensor whole = front(d, over, 0), at = front(places, over, 0), y = tensor_new()
    cdef int i
    wide.n = over.n + size.n
    for i in range(over.n):
        wide.v[i] = size_in(over, i)
    memcpy(wide.v + over.n, size.v, size.n * sizeof(int64_t))
    try:
        adopt(y, ops.op_plane_add(&y.m, &whole.m, &at.m, geometry.n, geometry.v, wide.n, wide.v))
    except Exception:
        op_plane_add(first_of(d), first_of(places), geometry, size)
        raise
    return under(y, over, 0)


cdef tuple batch_batch_norm(Tensor x, Tensor w, Tensor b, double eps):
    """Made of operations, which batch by themselves."""
    cdef uint64_t mask = all_but_channels(x)
    cdef Tensor mean, var, scale, y
    cdef int before = work_unseen()
    try:
        mean, var, scale = op_mean(x, mask, True, -1), op_variance(x, mask, 0, True), normal_scale(x, eps)
        y = op_mul(op_mul(op_sub(x, mean), scale), per_channel(w, x))
        return op_add(y, per_channel(b, x)), op_stack([op_sum(t, mask, False, -1) for t in (mean, scale, var)], 0)
    finally:
        restore_mode(before)


cdef Tensor batch_im2col(Tensor x, const Dims* geometry):
    cdef Batch over = joint(x, None, None)
    cdef int before
    if x.m.ndim < 3 or examples(over) == 0:
        return stack_examples([op_im2col(first_of(x), geometry)], over)
    before = work_unseen()
    try:
        return unfolded(op_im2col(folded(x, over), geometry), over)
    finally:
        restore_mode(before)


cdef Tensor batch_col2im(Tensor d, const Dims* geometry, const Dims* size):
    cdef Batch over = joint(d, None, None)
    cdef int before
    if d.m.ndim != 3 or examples(over) == 0:
        return stack_examples([op_col2im(first_of(d), geometry, size)], over)
    before = work_unseen()
    try:
        return unfolded(op_col2im(folded(d, over), geometry, size), over)
    finally:
        restore_mode(before)


# ---- layer normalisation: examples are further rows; weights that differ between the examples multiply afterwards

cdef Tensor batch_layer_norm(Tensor x, Tensor w, Tensor b, double eps):
    cdef Batch over = joint(x, w, b)
    cdef Tensor one
    if examples(over) == 0:
        return stack_examples([op_layer_norm(first_of(x), first_of(w), first_of(b), eps)], over)
    if not (w.flags | b.flags) & BATCHED:
        return under(op_layer_norm(front(x, over, 0), w, b, eps), over, 0)
    one = ones_same(first_of(w))
    return op_add(op_mul(op_layer_norm(x, one, zeros_same(one), eps), w), b)


cdef Tensor batch_layer_norm_input(Tensor d, Tensor x, Tensor w, double eps):
    cdef Batch over = joint(d, x, w)
    if examples(over) == 0:
        return stack_examples([op_layer_norm_input(first_of(d), first_of(x), first_of(w), eps)], over)
    if not w.flags & BATCHED:
        return under(op_layer_norm_input(front(d, over, 0), front(x, over, 0), w, eps), over, 0)
    return op_layer_norm_input(op_mul(d, w), x, ones_same(first_of(w)), eps)


cdef Tensor batch_layer_norm_weight(Tensor d, Tensor x, double eps, const Dims* size):
    cdef Batch over = joint(d, x, None)
    cdef Tensor one
    if examples(over) == 0:
        return stack_examples([op_layer_norm_weight(first_of(d), first_of(x), eps, size)], over)
    one = ones_same(layer_norm_row(first_of(x), size))
    return sum_to_dims(op_mul(d, op_layer_norm(x, one, zeros_same(one), eps)), size)


cdef Tensor layer_norm_row(Tensor x, const Dims* size):
    """The first row: of the shape that a weight has."""
    while x.m.ndim > size.n:
        x = op_select(x, 0, 0)
    return x
