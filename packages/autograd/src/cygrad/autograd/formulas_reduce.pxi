# formulas_reduce: gradients of reductions and scans that are too long for a row of the table. May use: formulas.


cdef Tensor restore_dims(Tensor g, uint64_t mask, bint keepdim):
    """Reduced dimensions put back with size 1."""
    cdef Dims d
    cdef int i, k = 0
    if keepdim or mask == 0:
        return g
    d.n = g.m.ndim + bits(mask)
    for i in range(d.n):
        if mask >> i & 1:
            d.v[i] = 1
        else:
            d.v[i] = g.m.sizes[k]
            k += 1
    return op_view_as_shape(g, &d)


cdef Tensor expand_reduced(Tensor g, const Dims* sizes, uint64_t mask, bint keepdim):
    """A reduction's gradient repeated over what was reduced, without copying."""
    cdef Tensor y
    cdef int i, k = 0
    cdef int64_t strides[64]
    if recording() or g.flags & BATCHED or shows_tangent(g) or needs(g):
        return op_expand_to(restore_dims(g, mask, keepdim), sizes)
    for i in range(sizes.n):
        if mask >> i & 1:
            strides[i] = 0
            k += keepdim
        else:
            strides[i] = g.m.strides[k] if g.m.sizes[k] != 1 or sizes.v[i] == 1 else 0
            k += 1
    y = tensor_new()
    meta_strided(&y.m, sizes.n, sizes.v, strides, g.m.dtype, g.m.data)
    adopt(y, g.mem)
    return y


cdef Tensor sum_keep(Tensor x, int64_t dim):
    return op_sum(x, <uint64_t>1 << wrap_dim(dim, x.m.ndim), True, -1) if x.m.ndim else x


cdef Tensor extremum_backward(Tensor g, Tensor x, Tensor y, uint64_t mask, bint keepdim):
    """Equal extrema share the gradient evenly."""
    cdef Tensor hit = op_eq(x, restore_dims(y, mask, keepdim))
    cdef Tensor ties = op_sum(hit, mask, True, g.m.dtype)
    return op_mul(op_cast(hit, g.m.dtype), op_div(restore_dims(g, mask, keepdim), ties))


cdef Tensor prod_backward(Tensor g, Tensor x, Tensor y, uint64_t mask, bint keepdim):
    """g * (product of the other factors). Without zeros that is y / x; one zero leaves only its own factor a gradient, two
    leave none.

    In the presence of zeros it is that of the last running product, which stays differentiable.
    """
    cdef Tensor flat, zero = op_eq(x, scalar_tensor(0, x.m.dtype))
    cdef uint64_t m = mask if mask or x.m.ndim == 0 else full_mask(x)
    cdef Dims column, others
    if x.m.ndim == 0:
        return op_clone(g)
    if not somewhere(zero):
        return op_div(op_mul(restore_dims(g, mask, keepdim), conj_of(restore_dims(y, mask, keepdim))), conj_of(x))
    flat = reduced_last(as_code(x, g.m.dtype), m)
    column.n = others.n = 2
    column.v[0] = others.v[0] = flat.m.sizes[0]
    column.v[1] = 1
    others.v[1] = flat.m.sizes[1] - 1
    g = op_cat([zeros_of(2, others.v, g.m.dtype, g.m.device), op_reshape(g, &column)], 1)
    return restored_from_last(cumprod_backward(g, flat, op_cumprod(flat, 1, -1), 1), x, m)


cdef Tensor as_code(Tensor x, int code):
    return x if x.m.dtype == code else op_cast(x, code)


cdef uint64_t full_mask(Tensor x) noexcept:
    return (<uint64_t>1 << x.m.ndim) - 1 if x.m.ndim < 64 else ~<uint64_t>0


cdef int last_order(Tensor x, uint64_t mask, Dims* order) noexcept:
    """Dimension order that puts the masked ones last."""
    cdef int i
    order.n = 0
    for i in range(x.m.ndim):
        if not mask >> i & 1:
            order.v[order.n] = i
            order.n += 1
    for i in range(x.m.ndim):
        if mask >> i & 1:
            order.v[order.n] = i
            order.n += 1
    return 0


cdef Tensor reduced_last(Tensor x, uint64_t mask):
    """x as (kept elements, reduced elements)."""
    cdef Dims order, shape
    cdef int i
    last_order(x, mask, &order)
    shape.n = 2
    shape.v[0] = shape.v[1] = 1
    for i in range(x.m.ndim):
        shape.v[1 if mask >> i & 1 else 0] *= x.m.sizes[i]
    return op_reshape(op_permute(x, &order), &shape)


cdef Tensor restored_from_last(Tensor flat, Tensor x, uint64_t mask):
    cdef Dims order, shape, back
    cdef int i
    last_order(x, mask, &order)
    shape.n = back.n = order.n
    for i in range(order.n):
        shape.v[i] = x.m.sizes[order.v[i]]
        back.v[order.v[i]] = i
    return op_permute(op_reshape(flat, &shape), &back)


cdef Tensor variance_backward(Tensor g, Tensor x, uint64_t mask, double correction, bint keepdim):
    """2 (x - mean) / (count - correction); without a degree of freedom in the whole infinite, or NaN at the mean."""
    cdef Dims d
    cdef double freedom
    cdef Tensor centred = op_sub(x, op_mean(x, mask, True, -1)), limit
    d.n = x.m.ndim
    memcpy(d.v, x.m.sizes, d.n * sizeof(int64_t))
    freedom = count(&d, mask) - correction
    g = restore_dims(g, mask, keepdim)
    if freedom <= 0 and mask == full_mask(x):
        limit = op_where(op_eq(centred, like_number(0, x)), like_number(NAN, x), like_number(INFINITY, x))
        return op_mul(g, limit)
    return op_mul(op_mul(g, like_number(2 / freedom, g)), centred)


cdef Tensor std_backward(Tensor g, Tensor x, Tensor y, uint64_t mask, double correction, bint keepdim):
    """That of the variance, times 1 / (2 std); 0 where the deviation is 0."""
    cdef Tensor scale = op_div(g, op_mul(y, like_number(2, y)))
    scale = op_masked_fill(scale, op_eq(y, scalar_tensor(0, y.m.dtype)), scalar_tensor(0, scale.m.dtype))
    return variance_backward(scale, x, mask, correction, keepdim)


cdef tuple layer_norm_gradients(Tensor g, Tensor x, Tensor w, double eps, Node n):
    """Those for input, weight and bias: None where it is not wanted."""
    cdef Tensor dx = None, dw = None, db = None
    cdef Dims size
    if wanted(n, 0) and (wanted(n, 1) or wanted(n, 2)) and by_kernel(g, x, w):
        dx, dw, db = tensor_new(), tensor_new(), tensor_new()
        first, second, third = ops.op_layer_norm_gradients(&dx.m, &dw.m, &db.m, &g.m, &x.m, &w.m, eps)
        adopt(dx, first)
        adopt(dw, second)
        adopt(db, third)
        return dx, dw, db
    dx = op_layer_norm_input(g, x, w, eps) if wanted(n, 0) else None
    if wanted(n, 1):
        edge_sizes(n, 1, &size)
        dw = op_layer_norm_weight(g, x, eps, &size)
    if wanted(n, 2):
        edge_sizes(n, 2, &size)
        db = sum_to_dims(g, &size)
    return dx, dw, db


cdef Tensor layer_norm_tangent(Tensor t, Tensor x, Tensor w, double eps):
    """By how much rows normalised without a weight change where x changes by t; it is its own adjoint."""
    return op_layer_norm_input(t, x, ones_same(w), eps)


cdef Tensor layer_norm_twice(Tensor t, Tensor d, Tensor x, Tensor w, double eps):
    """Gradient of <t, layer_norm_input(d, x, w)> for x.

    With v = d w, the normalised row z and its scale s, that product is s (<t, v> - n mean(t) mean(v) - n a b), where a and b
    are the means of t z and v z. It depends on x through z, whose tangent is `layer_norm_tangent`, and through s, whose
    gradient is -s^2 z / n.
    """
    cdef Tensor one = ones_same(w)
    cdef Tensor z = op_layer_norm(x, one, zeros_same(w), eps), v = op_mul(d, w), of_t, of_v, through_z, through_scale, scale
    cdef uint64_t dims = full_mask(x) & ~((<uint64_t>1 << (x.m.ndim - w.m.ndim)) - 1)
    scale = op_rsqrt(op_add(op_variance(x, dims, 0, True), like_number(eps, x)))
    of_t, of_v = op_mean(op_mul(t, z), dims, True, -1), op_mean(op_mul(v, z), dims, True, -1)
    through_z = op_neg(op_mul(scale, op_add(op_mul(t, of_v), op_mul(v, of_t))))
    through_scale = op_sub(op_mean(op_mul(t, v), dims, True, -1),
                           op_add(op_mul(op_mean(t, dims, True, -1), op_mean(v, dims, True, -1)), op_mul(of_t, of_v)))
    return op_sub(layer_norm_tangent(through_z, x, w, eps), op_mul(op_mul(op_mul(scale, scale), z), through_scale))


cdef Tensor norm_backward(Tensor g, Tensor x, Tensor y, double p, uint64_t mask, bint keepdim):
    """Gradient of (sum |x|^p)^(1/p); 0 where the norm is 0, and for p < 1 where the element is 0.

    Elements are divided by a constant of the norm's value, so that no power overflows: through that division, second derivatives of
    all elements would be NaN where the power of one has none.
    """
    cdef Tensor hit, share, unit, ratio, zero, none = scalar_tensor(0, x.m.dtype)
    g = restore_dims(g, mask, keepdim)
    y = restore_dims(y, mask, keepdim)
    if p == 0:
        return zeros_same(x)
    if p == 1:
        return op_mul(op_sgn(x), g)
    if p == INFINITY or p == -INFINITY:
        hit = op_eq(op_abs(x), y)
        share = op_div(g, op_sum(hit, mask, True, g.m.dtype))
        return op_mul(op_mul(op_sgn(x), op_cast(hit, g.m.dtype)), share)
    zero = op_eq(y, none)
    if p == 2:
        return op_mul(op_masked_fill(op_div(x, y), zero, none), g)
    y = op_masked_fill(y, zero, scalar_tensor(1, y.m.dtype))
    unit = alias_of(y)
    hit = op_div(op_abs(x), unit)
    if p < 1:
        hit = op_masked_fill(hit, op_eq(x, none), scalar_tensor(1, hit.m.dtype))
    share = op_mul(op_sgn(x), op_pow(hit, like_number(p - 1, hit)))
    if records(y):
        ratio = op_masked_fill(op_div(y, unit), op_isinf(unit), scalar_tensor(1, y.m.dtype))
        share = op_mul(share, op_pow(ratio, like_number(1 - p, ratio)))
    return op_mul(op_masked_fill(share, zero, none), g)


cdef Tensor shifted(Tensor x, int64_t dim, double first):
    """The elements moved one place along dim; `first` enters, the last ones leave."""
    cdef Tensor head
    cdef Dims d
    cdef int i
    d.n = x.m.ndim
    for i in range(d.n):
        d.v[i] = x.m.sizes[i]
    if d.n:
        d.v[dim] = 1
    head = tensor_new()
    head.m.device = x.m.device
    adopt(head, ops.op_full(&head.m, d.n, d.v, first, x.m.dtype))
    return op_cat([head, op_narrow(x, dim, 0, x.m.sizes[dim] - 1)], dim) if d.n and x.m.sizes[dim] else head


cdef Tensor cumprod_backward(Tensor g, Tensor x, Tensor y, int64_t dim):
    """The factors before element i, times what the factors after it make of the gradients from i on.

    No factor is divided by, so zeros need no care; the second part is a recurrence, r[i] = g[i] + x[i + 1] * r[i + 1].
    """
    if y.m.numel < 2:
        return g
    return op_mul(conj_of(shifted(y, dim, 1)), op_recurrence(g, conj_of(as_code(x, g.m.dtype)), dim, True))


cdef Tensor logcumsumexp_backward(Tensor g, Tensor x, Tensor y, int64_t dim):
    """sum over k >= i of g[k] exp(x[i] - y[k]), as exp(x[i] - y[i]) times a recurrence whose factors exp(y[i] - y[i + 1])
    are at most 1.
    """
    cdef Tensor before, same, rise
    if y.m.numel == 0:
        return g
    before = shifted(y, dim, -INFINITY)
    same = op_logical_and(op_eq(before, y), op_isinf(y))
    rise = op_masked_fill(op_sub(before, y), same, scalar_tensor(0, y.m.dtype))
    return op_mul(conj_of(op_exp(op_sub(x, y))), op_recurrence(g, conj_of(op_exp(rise)), dim, True))


cdef Tensor complex_logsumexp(Tensor x, uint64_t mask, bint keepdim):
    """From parts, whose gradients are right; the largest real part is a constant that cancels out."""
    cdef Tensor y, top
    if x.m.numel:
        top = op_amax(alias_of(real_of_tensor(x)), mask, True)
        top = op_masked_fill(top, op_logical_not(op_isfinite(top)), scalar_tensor(0, top.m.dtype))
        y = op_add(op_log(op_sum(op_exp(op_sub(x, top)), mask, True, -1)), top)
    else:
        y = op_log(op_sum(op_exp(x), mask, True, -1))
    if not keepdim:
        y = by_itself(op_squeeze_dims(y, mask))
    return called(y, row_called(y.fn.op.id, b"Logsumexp")) if y.fn is not None else y


cdef Tensor recurrence_transposed(Tensor g, Tensor a, int64_t dim, bint reverse):
    return op_recurrence(g, conj_of(a), dim, not reverse)


cdef Tensor recurrence_factor(Tensor g, Tensor a, Tensor y, int64_t dim, bint reverse):
    """The gradient that reaches y[i], times the y that a[i] multiplied."""
    if y.m.numel == 0:
        return g
    a, y = conj_of(a), conj_of(y)
    if reverse:
        return op_mul(y, shifted(op_recurrence(g, a, dim, False), dim, 0))
    return op_mul(op_recurrence(g, a, dim, True), shifted(y, dim, 0))


# ---- batch normalisation: kernels where nothing is recorded, operations that are differentiable again elsewhere

cdef inline bint by_kernel(Tensor g, Tensor x, Tensor w) noexcept:
    """Whether a gradient is numbers alone: it is not differentiated again, neither backward nor forward."""
    return (not recording() and not (g.flags | x.flags | w.flags) & BATCHED
            and not (shows_tangent(g) or shows_tangent(x) or shows_tangent(w)))


cdef uint64_t all_but_channels(Tensor x) noexcept:
    return full_mask(x) & ~<uint64_t>2


cdef Tensor normal_scale(Tensor x, double eps):
    """Reciprocal of each channel's standard deviation."""
    cdef Tensor var = op_variance(x, all_but_channels(x), 0, True)
    return op_rsqrt(op_add(var, like_number(eps, var)))


cdef Tensor normalised(Tensor x, double eps):
    return op_mul(op_sub(x, op_mean(x, all_but_channels(x), True, -1)), normal_scale(x, eps))


cdef Tensor per_channel(Tensor v, Tensor x):
    """A vector of channels as it stands beside x."""
    cdef Dims d
    cdef int i
    d.n = x.m.ndim
    for i in range(d.n):
        d.v[i] = x.m.sizes[1] if i == 1 else 1
    return op_reshape(v, &d)


cdef Tensor batch_norm_sums(Tensor g, Tensor x, Tensor stats, double eps):
    """Sums of g, and of g times the normalised x, over each channel: two rows."""
    cdef uint64_t mask = all_but_channels(x)
    cdef Tensor y
    if by_kernel(g, x, stats):
        y = tensor_new()
        adopt(y, ops.op_batch_norm_sums(&y.m, &g.m, &x.m, &stats.m))
        return y
    return op_stack([op_sum(g, mask, False, -1), op_sum(op_mul(g, normalised(x, eps)), mask, False, -1)], 0)


cdef Tensor batch_norm_input(Tensor g, Tensor x, Tensor w, Tensor stats, Tensor sums, double eps):
    """``w * scale * (g - mean(g) - normal * mean(g * normal))``"""
    cdef Tensor y, normal, count
    if by_kernel(g, x, w):
        y = tensor_new()
        adopt(y, ops.op_batch_norm_input(&y.m, &g.m, &x.m, &w.m, &stats.m, &sums.m))
        return y
    normal, count = normalised(x, eps), like_number(<double>(x.m.numel // (x.m.sizes[1] or 1)), x)
    y = op_add(per_channel(op_select(sums, 0, 0), x), op_mul(normal, per_channel(op_select(sums, 0, 1), x)))
    return op_mul(op_mul(per_channel(w, x), normal_scale(x, eps)), op_sub(g, op_div(y, count)))
