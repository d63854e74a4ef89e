# indexing: x[...] and x[...] = v. May use: args, construct, the generated views.
# A key is read left to right into a chain of views; tensors among it are collected and applied at the end in one index operation.

cdef bint is_index_list(object k):
    return isinstance(k, (list, _numpy.ndarray, range))


cdef Tensor index_tensor(object k):
    """A list, array or tensor as an index: int64 or bool."""
    cdef Tensor t
    if isinstance(k, Tensor):
        t = <Tensor>k
    elif isinstance(k, _numpy.ndarray):
        t = tensor(k)
    else:
        t = from_sequence(k, -1 if len(k) else INT64)
    if t.m.dtype == BOOL or t.m.dtype == INT64:
        return t
    if t.m.dtype <= INT64:
        return cast_data(t, INT64)
    raise IndexError(f"tensors used as indices must be long, int, byte or bool tensors, got {dtype_object(t.m.dtype)}")


cdef int consumed(object k):
    """Dimensions of x that one entry of the key uses up."""
    if k is None or k is Ellipsis or PyBool_Check(k):
        return 0
    if isinstance(k, Tensor) and (<Tensor>k).m.dtype == BOOL:
        return (<Tensor>k).m.ndim
    if is_index_list(k):
        return index_depth(k)
    return 1


cdef int index_depth(object k):
    if isinstance(k, _numpy.ndarray):
        return k.ndim if k.dtype == bool else 1
    inner = k
    depth = 0
    while isinstance(inner, (list, tuple)) and len(inner):
        inner = inner[0]
        depth += 1
    return depth if PyBool_Check(inner) and depth else 1


cdef Tensor basic_index(Tensor x, object key, list tensors):
    """Applies ints, slices, None and Ellipsis as views; index tensors land in `tensors` by dimension of the returned view."""
    cdef int64_t dim = 0, start, stop, step
    cdef int used = 0
    cdef Tensor t
    entries = key if isinstance(key, tuple) else (key,)
    for k in entries:
        used += consumed(k)
    if used > x.m.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.m.ndim}: the key uses {used}")
    missing = x.m.ndim - used
    seen_ellipsis = False
    for k in entries:
        if PyLong_CheckExact(k):
            x = op_select(x, dim, k)
        elif isinstance(k, slice):
            slice_bounds(k, x.m.sizes[dim], &start, &stop, &step)
            if not (start == 0 and stop == x.m.sizes[dim] and step == 1):
                x = op_slice(x, dim, start, stop, step)
            dim += 1
        elif k is None:
            x = op_unsqueeze(x, dim)
            dim += 1
        elif k is Ellipsis:
            if not seen_ellipsis:
                dim += missing
                seen_ellipsis = True
        elif PyBool_Check(k):
            x = op_unsqueeze(x, dim)
            put_index(tensors, dim, from_sequence([k], BOOL))
            dim += 1
        elif isinstance(k, Tensor) or is_index_list(k):
            t = index_tensor(k)
            if t.m.ndim == 0 and t.m.dtype != BOOL:
                x = op_select(x, dim, ops.item(&t.m)) if not tensors and len(entries) == 1 else add_index(x, tensors, dim, t)
                if tensors and tensors[len(tensors) - 1] is t:
                    dim += 1
                continue
            if t.m.dtype == BOOL:
                if t.m.ndim == 0:
                    x = op_unsqueeze(x, dim)
                    put_index(tensors, dim, op_unsqueeze(t, 0))
                    dim += 1
                    continue
                check_mask(x, dim, t)
                if t.m.ndim > 1:
                    for i, part in enumerate(mask_indices(t)):
                        put_index(tensors, dim + i, <Tensor>part)
                else:
                    put_index(tensors, dim, t)
                dim += t.m.ndim
            else:
                put_index(tensors, dim, t)
                dim += 1
        elif hasattr(k, "__index__"):
            x = op_select(x, dim, k.__index__())
        else:
            raise TypeError(f"only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {kind_of(k)})")
    return x


cdef Tensor add_index(Tensor x, list tensors, int64_t dim, Tensor t):
    put_index(tensors, dim, t)
    return x


cdef int put_index(list tensors, int64_t dim, Tensor t) except -1:
    while len(tensors) < dim:
        tensors.append(None)
    tensors.append(t)
    return 0


cdef int check_mask(Tensor x, int64_t dim, Tensor mask) except -1:
    cdef int i
    for i in range(mask.m.ndim):
        if mask.m.sizes[i] != x.m.sizes[dim + i]:
            raise IndexError(f"The shape of the mask {list(shape_tuple(&mask.m))} at index {i} does not match the shape of the indexed tensor "
                             f"{list(shape_tuple(&x.m))} at index {dim + i}")
    return 0


cdef list mask_indices(Tensor mask):
    """A bool mask of several dimensions as one int64 index for each."""
    cdef Tensor rows = tensor_new()
    cdef int i
    rows.mem = ops.op_nonzero(&rows.m, &mask.m)
    return [op_contiguous(op_select(rows, 1, i)) for i in range(mask.m.ndim)]


cdef int slice_bounds(object s, int64_t size, int64_t* start, int64_t* stop, int64_t* step) except -1:
    step[0] = 1 if s.step is None else slice_number(s.step)
    if step[0] <= 0:
        raise ValueError(f"step must be greater than zero, got {s.step}")
    start[0] = 0 if s.start is None else slice_number(s.start)
    stop[0] = size if s.stop is None else slice_number(s.stop)
    if start[0] < 0:
        start[0] = larger(start[0] + size, 0)
    if stop[0] < 0:
        stop[0] = larger(stop[0] + size, 0)
    start[0] = smaller(start[0], size)
    stop[0] = larger(smaller(stop[0], size), start[0])
    return 0


cdef inline int64_t smaller(int64_t a, int64_t b) noexcept:
    return a if a < b else b


cdef inline int64_t larger(int64_t a, int64_t b) noexcept:
    return a if a > b else b


cdef int64_t slice_number(object v) except? -1:
    if PyLong_CheckExact(v):
        return _py.max(_py.min(v, 0x7FFFFFFFFFFFFFFF), -0x7FFFFFFFFFFFFFFF)
    if hasattr(v, "__index__"):
        return v.__index__()
    raise TypeError(f"slice indices must be integers or None or have an __index__ method, got {kind_of(v)}")


cdef Tensor get_item(Tensor x, object key):
    cdef list tensors
    cdef Tensor y
    cdef int64_t start, stop, step
    if PyLong_CheckExact(key):
        if x.m.ndim == 0:
            raise IndexError("invalid index of a 0-dim tensor. Use `tensor.item()` in Python to convert a 0-dim tensor to a number")
        return op_select(x, 0, key)
    if isinstance(key, list) and not plain_index_list(key):
        key = tuple(key)
    tensors = []
    y = basic_index(x, key, tensors)
    if tensors:
        return op_index(y, tensors)
    if y is x:
        return alias_view(x)
    return y


cdef bint plain_index_list(list key):
    """A list of numbers or nested lists is an index; one that holds slices, None or tensors is read as a tuple."""
    for k in key:
        if isinstance(k, slice) or k is None or k is Ellipsis or isinstance(k, Tensor):
            return False
    return True


cdef Tensor alias_view(Tensor x):
    cdef Dims sizes, strides
    cdef int i
    sizes.n = strides.n = x.m.ndim
    for i in range(sizes.n):
        sizes.v[i] = x.m.sizes[i]
        strides.v[i] = x.m.strides[i]
    return op_as_strided(x, &sizes, &strides, (x.m.data - x.mem.ptr) // ITEMSIZE[x.m.dtype])


cdef int set_item(Tensor x, object key, object value) except -1:
    cdef list tensors = []
    cdef Tensor y, v
    if isinstance(key, list) and not plain_index_list(key):
        key = tuple(key)
    y = basic_index(x, key, tensors)
    if not tensors and isinstance(value, (int, float)):
        fill_in(y, value)
        return 0
    if isinstance(value, Tensor):
        v = <Tensor>value
    else:
        v = tensor(value, dtype=dtype_object(x.m.dtype))
    if tensors:
        put_in(y, tensors, v, False)
        return 0
    if v.m.ndim > y.m.ndim:
        v = drop_leading_ones(v, y.m.ndim)
    copy_in(y, v)
    return 0


cdef Tensor drop_leading_ones(Tensor v, int ndim):
    """Values may have extra dimensions of size 1 in front."""
    cdef uint64_t mask = 0
    cdef int i
    for i in range(v.m.ndim - ndim):
        if v.m.sizes[i] != 1:
            raise RuntimeError(f"The expanded size of the tensor must match: a value of shape {list(shape_tuple(&v.m))} cannot be written to a "
                               f"{ndim}-dimensional place")
        mask |= <uint64_t>1 << i
    return op_squeeze_dims(v, mask)


cdef int fill_in(Tensor x, object value) except -1:
    """x.fill_(value), recorded: what was there needs no gradient any more."""
    cdef Node n
    cdef Tensor before
    cdef bint recorded = recording() and needs(x)
    check_in_place(x, recorded)
    before = history_alias(x, False) if recorded else None
    ops.fill_number(&x.m, value)
    bump(x, OP_FILL)
    if recorded:
        n = node_new(&OPS[OP_FILL])
        set_edge(n, 0, before)
        rebase(x, n)
    return 0


cdef int bw_fill(Node n, Tensor g) except -1:
    if wanted(n, 0):
        pass_grad(n, 0, zeros_same(g))
    return 0


# ---- index and index_put --------------------------------------------------------------------------------------------------------------

cdef int index_pointers(Tensor x, list tensors, Meta** at) except -1:
    cdef int i
    if len(tensors) > x.m.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.m.ndim} (got {len(tensors)})")
    for i in range(len(tensors)):
        at[i] = &(<Tensor>tensors[i]).m if tensors[i] is not None else NULL
    return len(tensors)


cdef list frozen_indices(list tensors):
    """What backward keeps: the user may change an index tensor, or his list, before that."""
    return [None if t is None else op_clone(<Tensor>t) for t in tensors]


cdef Tensor op_index(Tensor x, list tensors):
    cdef Tensor y = tensor_new()
    cdef Meta* at[64]
    cdef Node n
    cdef int count = index_pointers(x, tensors, at)
    y.mem = ops.op_index(&y.m, &x.m, at, count)
    if cyg_mode == 0 and needs(x):
        n = node_new(&OPS[OP_INDEX])
        set_edge(n, 0, x)
        n.rest = frozen_indices(tensors)
        node_set_output(n, y)
    return y


cdef int bw_index(Node n, Tensor g) except -1:
    cdef Dims d
    if wanted(n, 0):
        edge_sizes(n, 0, &d)
        pass_grad(n, 0, op_index_put(zeros_of(d.n, d.v, g.m.dtype), n.rest, g, True))
    return 0


cdef Tensor op_index_put(Tensor x, list tensors, Tensor v, bint accumulate):
    """A copy of x with v written, or added, at the indices."""
    cdef Tensor y = op_clone(x)
    put_in(y, tensors, v, accumulate)
    return y


cdef int put_in(Tensor x, list tensors, Tensor v, bint accumulate) except -1:
    """x[tensors] = v (or += v), in place and recorded."""
    cdef Meta* at[64]
    cdef Node n
    cdef Tensor before
    cdef bint recorded = recording() and (needs(x) or needs(v))
    cdef int count = index_pointers(x, tensors, at)
    if v.m.dtype != x.m.dtype:
        if v.m.ndim == 0 or not accumulate:
            v = op_cast(v, x.m.dtype)
        else:
            raise RuntimeError(f"Index put requires the source and destination dtypes match, got {dtype_object(x.m.dtype)} for the destination and "
                               f"{dtype_object(v.m.dtype)} for the source.")
    check_in_place(x, recorded)
    before = history_alias(x, False) if recorded else None
    ops.index_put_into(&x.m, at, count, &v.m, accumulate)
    bump(x, OP_INDEX_PUT)
    if recorded:
        n = node_new(&OPS[OP_INDEX_PUT])
        set_edge(n, 0, before)
        set_edge(n, 1, v)
        n.rest = frozen_indices(tensors)
        n.iattr[0] = accumulate
        rebase(x, n)
    return 0


cdef int bw_index_put(Node n, Tensor g) except -1:
    if wanted(n, 0):
        if n.iattr[0]:
            pass_grad(n, 0, g)
        else:
            pass_grad(n, 0, op_index_put(g, n.rest, zeros_of(0, NULL, g.m.dtype), False))
    if wanted(n, 1):
        pass_grad(n, 1, op_index(g, n.rest))
    return 0


# ---- several views of one call --------------------------------------------------------------------------------------------------------

cdef tuple op_unbind(Tensor x, int64_t dim):
    cdef int64_t i
    cdef list parts = []
    cdef Tensor y
    if x.m.ndim == 0:
        raise RuntimeError("unbind(): dimension specified as 0 but tensor has no dimensions")
    dim = wrap_dim(dim, x.m.ndim)
    for i in range(x.m.sizes[dim]):
        y = tensor_new()
        view_select(&y.m, &x.m, dim, i)
        view_begin(y, x)
        parts.append(y)
    many_outputs(OP_UNBIND, x, parts, dim)
    return tuple(parts)


cdef tuple op_split_sizes(Tensor x, const Dims* sizes, int64_t dim):
    cdef int64_t at = 0, total = 0
    cdef int i
    cdef list parts = []
    cdef Tensor y
    dim = wrap_dim(dim, x.m.ndim)
    for i in range(sizes.n):
        total += sizes.v[i]
        if sizes.v[i] < 0:
            raise RuntimeError(f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={list(dims_tuple(sizes))}")
    if x.m.ndim == 0 or total != x.m.sizes[dim]:
        raise RuntimeError(f"split_with_sizes expects split_sizes to sum exactly to {x.m.sizes[dim] if x.m.ndim else 1} (input tensor's size at dimension "
                           f"{dim}), but got split_sizes={list(dims_tuple(sizes))}")
    for i in range(sizes.n):
        y = tensor_new()
        view_narrow(&y.m, &x.m, dim, at, sizes.v[i])
        view_begin(y, x)
        at += sizes.v[i]
        parts.append(y)
    many_outputs(OP_SPLIT_SIZES, x, parts, dim)
    return tuple(parts)


cdef int many_outputs(int op, Tensor x, list parts, int64_t dim) except -1:
    cdef Node n
    cdef Tensor y
    for part in parts:
        if (<Tensor>part).creation == VIEW_PLAIN:
            (<Tensor>part).creation = VIEW_MULTI
    if not parts or cyg_mode != 0 or not needs(x) or category(x.m.dtype) < 2:
        return 0
    n = node_new(&OPS[op])
    set_edge(n, 0, x)
    n.iattr[0] = dim
    node_set_outputs(n, parts)
    return 0


cdef int node_set_outputs(Node n, list ys) except -1:
    cdef Tensor y
    cdef int i = 0
    extra(n).outs = []
    for part in ys:
        y = <Tensor>part
        extra(n).outs.append((shape_tuple(&y.m), <int>y.m.dtype))
        y.fn = n
        y.out_nr = i
        y.flags |= REQUIRES_GRAD
        i += 1
    return 0


cdef int backward_many(Node n, tuple grads) except -1:
    """Backward of nodes with several outputs, some of which may have received nothing."""
    cdef list parts
    cdef Dims d
    if n.op.id == OP_FUNCTION:
        return function_backward(n, grads)
    if not wanted(n, 0):
        return 0
    parts = []
    for i, g in enumerate(grads):
        if g is None:
            shape, code = extra(n).outs[i]
            dims_from(shape, &d)
            g = zeros_of(d.n, d.v, code)
        parts.append(op_unsqueeze(<Tensor>g, n.iattr[0]) if n.op.id == OP_UNBIND else g)
    pass_grad(n, 0, op_cat(parts, n.iattr[0]))
    return 0


cdef int bw_unbind(Node n, Tensor g) except -1:
    return backward_many(n, (g,))


cdef int bw_split_sizes(Node n, Tensor g) except -1:
    return backward_many(n, (g,))


cdef int bw_function(Node n, Tensor g) except -1:
    return function_backward(n, (g,))
