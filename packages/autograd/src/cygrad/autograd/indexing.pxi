# indexing: x[...] and x[...] = v. May use: args, construct, the generated views.
# A key is read left to right into a chain of views; tensors in it are applied at the end in one operation.

cdef bint is_index_list(object k):
    return isinstance(k, (list, tuple, range)) or isinstance(k, np_type("ndarray"))


cdef Tensor index_tensor(object k):
    """A list, array or tensor as an index: int64, int32 or bool. Data, unlike tensors, may be of any numbers."""
    cdef Tensor t
    if isinstance(k, Tensor):
        t = <Tensor>k
    elif isinstance(k, np_type("ndarray")):
        if k.dtype.kind not in "biufc":
            raise TypeError(f"an index is of integers or bools, not an array of {k.dtype.type.__name__}")
        t = tensor(k if k.dtype.kind == "b" or k.dtype == "uint8" else k.astype("int64"), device=device_object(0))
    else:
        t = from_sequence(k, -1 if len(k) else INT64)
        if t.m.dtype != BOOL and t.m.dtype != UINT8:
            t = cast_data(t, INT64)
    if t.m.dtype == UINT8:
        import warnings
        warnings.warn("indexing with dtype torch.uint8, which counts as a mask, is deprecated: use a dtype "
                      "torch.bool", UserWarning, stacklevel=1)
        return cast_data(t, BOOL)
    if t.m.dtype == BOOL or t.m.dtype == INT64 or t.m.dtype == INT32:
        return t
    raise IndexError(f"tensors used as indices must be long, int, byte or bool tensors, got {dtype_object(t.m.dtype)} "
                     f"of shape {list(shape_tuple(&t.m))}")


cdef Tensor index_beside(Tensor t, Tensor x):
    """An index tensor where the tensor is that it indexes: those of the CPU are brought there."""
    if t.m.device == x.m.device:
        return t
    if t.m.device:
        raise RuntimeError(f"indices should be either on cpu or on the same device as the indexed tensor ({device_object(x.m.device)}), got one "
                           f"on {device_object(t.m.device)}")
    return op_to_device(t, x.m.device)


cdef list read_key(object key):
    """The entries of a key, lists and arrays among them as tensors."""
    cdef list entries = list(key) if isinstance(key, tuple) else [key]
    for i, k in enumerate(entries):
        if PyLong_CheckExact(k) or isinstance(k, slice) or k is None or k is Ellipsis:
            continue
        if isinstance(k, Tensor) or is_index_list(k):
            entries[i] = index_tensor(k)
        elif isinstance(k, str):
            raise TypeError(f"an index is an integer, a slice, ..., None or a tensor of integers or bools, not the "
                            f"str {k!r}")
        elif not hasattr(k, "__index__"):
            raise IndexError(f"only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are "
                             f"valid indices (got {kind_of(k)})")
    return entries


cdef int consumed(list entries) except -1:
    """Dimensions that the key uses up."""
    cdef int used = 0
    for k in entries:
        if PyLong_CheckExact(k):
            used += 1
        elif isinstance(k, Tensor):
            used += (<Tensor>k).m.ndim if (<Tensor>k).m.dtype == BOOL else 1
        elif not (k is None or k is Ellipsis or PyBool_Check(k)):
            used += 1
    return used


cdef Tensor basic_index(Tensor x, object key, list tensors):
    """Applies ints, slices, None and ... as views; index tensors go to `tensors` by dimension of the returned view."""
    cdef list entries = read_key(key)
    cdef int64_t dim = 0, start, stop, step
    cdef int used = consumed(entries), missing = x.m.ndim - used, dropped = 0
    cdef bint seen_ellipsis = False, whole
    if missing < 0:
        refuse_key(x, entries, used)
    for k in entries:
        if PyLong_CheckExact(k):
            x = select_checked(x, dim, k, dropped)
            dropped += 1
        elif isinstance(k, Tensor):
            if (<Tensor>k).m.ndim == 0 and (<Tensor>k).m.dtype != BOOL and not (<Tensor>k).flags & BATCHED:
                x = select_checked(x, dim, ops.item(&(<Tensor>k).m), dropped)
                dropped += 1
                continue
            k = index_beside(<Tensor>k, x)
            if (<Tensor>k).m.dtype == BOOL:
                if len(entries) == 1 and (<Tensor>k).m.ndim and meta_same_shape(&(<Tensor>k).m, &x.m):
                    tensors.append(k)          # one pass over both, without positions in between
                else:
                    x = place_mask(x, tensors, &dim, <Tensor>k)
            else:
                put_index(tensors, dim, <Tensor>k)
                dim += 1
        elif isinstance(k, slice):
            whole = slice_bounds(k, x.m.sizes[dim], &start, &stop, &step)
            if not whole:
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
            x = place_mask(x, tensors, &dim, index_beside(from_sequence(k, BOOL), x))
        else:
            x = select_checked(x, dim, k, dropped)
            dropped += 1
    return x


cdef int refuse_key(Tensor x, list entries, int used) except -1:
    if x.m.ndim == 0 and len(entries) == 1:
        if isinstance(entries[0], slice):
            raise IndexError("slice() cannot be applied to a 0-dim tensor.")
        if not isinstance(entries[0], Tensor):
            raise IndexError(ZERO_DIM_INDEX)
    raise IndexError(f"too many indices for tensor of dimension {x.m.ndim}: the key uses {used}, the shape is "
                     f"{list(shape_tuple(&x.m))}")


ZERO_DIM_INDEX = "invalid index of a 0-dim tensor. Use `tensor.item()` in Python to convert a 0-dim tensor to a number"


cdef Tensor select_checked(Tensor x, int64_t dim, object index, int dropped):
    """x without dimension `dim`; the error counts the `dropped` dimensions, which earlier integers took away."""
    cdef int64_t i = as_index(index, "index", "key"), size = x.m.sizes[dim]
    if i < -size or i >= size:
        raise IndexError(f"index {i} is out of bounds for dimension {dim + dropped} with size {size}")
    return op_select(x, dim, i)


cdef Tensor place_mask(Tensor x, list tensors, int64_t* dim, Tensor mask):
    """A mask of the key goes to `tensors`: one of several dimensions as int64 indices, one of none adds a dimension."""
    cdef int i
    if mask.m.ndim == 0:
        put_index(tensors, dim[0], op_unsqueeze(mask, 0))
        x = op_unsqueeze(x, dim[0])
        dim[0] += 1
        return x
    for i in range(mask.m.ndim):
        if mask.m.sizes[i] != x.m.sizes[dim[0] + i]:
            raise IndexError(f"The shape of the mask {list(shape_tuple(&mask.m))} at index {i} does not match the "
                             f"shape of the indexed tensor "
                             f"{list(shape_tuple(&x.m))} at index {dim[0] + i}")
    if mask.m.ndim == 1:
        put_index(tensors, dim[0], mask)
    else:
        for part in mask_indices(mask):
            put_index(tensors, dim[0], <Tensor>part)
            dim[0] += 1
        return x
    dim[0] += 1
    return x


cdef int put_index(list tensors, int64_t dim, Tensor t) except -1:
    while len(tensors) < dim:
        tensors.append(None)
    tensors.append(t)
    return 0


cdef list mask_indices(Tensor mask):
    """A bool mask of several dimensions as one int64 index for each."""
    cdef Tensor rows = tensor_new()
    cdef int i
    if mask.flags & BATCHED and not all_alike(mask):
        refuse_dynamic(mask, "indexing with a mask")
    mask = first_of(mask)
    adopt(rows, ops.op_nonzero(&rows.m, &mask.m))
    return [op_contiguous(op_select(rows, 1, i)) for i in range(mask.m.ndim)]


cdef Tensor get_item(Tensor x, object key):
    cdef list tensors
    cdef Tensor y
    cdef int64_t start, stop, step
    if PyLong_CheckExact(key):
        if x.m.ndim == 0:
            raise IndexError(ZERO_DIM_INDEX)
        return select_checked(x, 0, key, 0)
    if isinstance(key, slice) and x.m.ndim:
        slice_bounds(key, x.m.sizes[0], &start, &stop, &step)
        return op_slice(x, 0, start, stop, step)
    if isinstance(key, list) and holds_indices(key):
        key = tuple(key)
    tensors = []
    y = basic_index(x, key, tensors)
    if tensors:
        return op_index(y, tensors)
    return op_alias(x) if y is x else y


cdef bint holds_indices(list key):
    """Whether PyTorch reads a list as a tuple of indices: a short one of slices, None, tensors or sequences."""
    if len(key) >= 32:
        return False
    for k in key:
        if isinstance(k, (slice, Tensor)) or k is None or k is Ellipsis or PySequence_Check(k):
            return True
    return False


cdef int set_item(Tensor x, object key, object value) except -1:
    cdef list tensors = []
    cdef Tensor y, v
    if isinstance(value, np_type("integer")):
        value = int(value)
    if PyLong_CheckExact(value):
        as_index(value, "__setitem__", "value")
    elif not isinstance(value, (Tensor, int, float, complex)):
        raise TypeError(f"can't assign a {kind_of(value)} to a torch.{dtype_word(x.m.dtype)}Tensor: wanted a number "
                        f"or a Tensor")
    if is_half(x.m.dtype) and isinstance(value, (int, float)):       # what is too large for a half becomes infinite
        value = ops.item(&scalar_tensor(value, x.m.dtype).m)
    if isinstance(key, list) and holds_indices(key):
        key = tuple(key)
    y = basic_index(x, key, tensors)
    if not isinstance(value, Tensor):
        if not tensors:
            fill_in(y, value, False)
            return 0
        v = full((), value, dtype=dtype_object(x.m.dtype), device=device_object(x.m.device))
    else:
        v = <Tensor>value
        if tensors or not meta_same_shape(&v.m, &y.m):
            v = drop_leading_ones(v)
            if (<Tensor>value).m.ndim and v.mem.ptr == y.mem.ptr and not tensors:
                v = expanded_as(v, y)          # what lies in the memory written is looked at as it is read
    if not tensors:
        copy_in(y, v, OP_COPY if v.m.ndim else OP_FILL)
        return 0
    put_in(y, tensors, value_of_mask(x, key, v), False)
    return 0


cdef Tensor value_of_mask(Tensor x, object key, Tensor v):
    """One value written under a mask, which is a masked_fill: any dtype is converted, but a mask of bytes refused."""
    cdef list entries
    if v.m.numel != 1:
        return v
    entries = [k for k in (key if isinstance(key, (tuple, list)) else (key,)) if isinstance(k, Tensor) or is_index_list(k)]
    if len(entries) == 1 and isinstance(entries[0], Tensor) and (<Tensor>entries[0]).m.dtype == UINT8:
        raise RuntimeError("masked_fill_ only supports boolean masks, but got mask with dtype unsigned char")
    return op_cast(v, x.m.dtype) if v.m.dtype != x.m.dtype and one_mask(key) else v


cdef bint one_mask(object key):
    """Whether a key's only index tensor is a mask: the assignment of one value is a masked_fill, which converts it."""
    masks = [k for k in read_key(key) if isinstance(k, Tensor)]
    return len(masks) == 1 and (<Tensor>masks[0]).m.dtype == BOOL


cdef Tensor drop_leading_ones(Tensor v):
    """Values may have extra dimensions of size 1 in front."""
    cdef int i = 0
    while i < v.m.ndim and v.m.sizes[i] == 1:
        i += 1
    return op_squeeze_dims(v, (<uint64_t>1 << i) - 1) if i else v


cdef int fill_in(Tensor x, object value, bint shared) except -1:
    """x.fill_(value), recorded: what was there needs no gradient any more. shared: elements may lie at one address."""
    cdef Node n
    cdef Tensor before, whole
    cdef bint recorded = records(x)
    if x.mem.readonly or not shared:
        check_writable(x)
    check_own_mode(x)
    check_history(x, recorded and needs(x))
    if cyg_mode & MODE_WRITES:
        announce_write(x)
    before = history_alias(x, False) if recorded else None
    if x.flags & BATCHED:
        whole = front(x, joint(x, None, None), 0)
        ops.fill_number(&whole.m, value)
    else:
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
    if n.n_edges > 1 and wanted(n, 1):
        pass_grad(n, 1, g)
    return 0


# ---- index and index_put ---------------------------------------------------------------------------------------------

cdef int index_pointers(Tensor x, list tensors, Meta** at) except -1:
    cdef int i
    if len(tensors) > x.m.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.m.ndim} (got {len(tensors)})")
    for i in range(len(tensors)):
        at[i] = &(<Tensor>tensors[i]).m if tensors[i] is not None else NULL
    return len(tensors)


cdef list index_list(Tensor x, object indices, str name):
    """The index tensors of index_put_, masks of several dimensions as one index for each."""
    cdef list tensors = []
    cdef int64_t dim = 0
    cdef Tensor t
    for k in as_tensors(indices, name, "indices"):
        t = index_beside(index_tensor(k), x)
        if t.m.dtype == BOOL and 0 < t.m.ndim <= x.m.ndim - dim:
            place_mask(x, tensors, &dim, t)
        else:
            put_index(tensors, dim, t)
            dim += 1
    if not tensors:
        raise RuntimeError(f"{name}(): at least one index tensor is wanted, got none")
    return tensors


cdef int save_indices(Node n, list tensors) except -1:
    """Keeps index tensors for backward, in the place of the slots that a node has for its inputs."""
    cdef Tensor t
    cdef list kept = []
    cdef bint packs = cyg_mode & MODE_PACK and (n.dual != HAS_DUALS or wants_gradients(n, n.x.duals))
    for each in tensors:
        if each is None:
            kept.append(None)
            continue
        t = <Tensor>each
        if t.mem.origin:
            refuse_inference()
        kept.append(pack(t, saved_hooks()) if packs else (alias_of(t), t.mem.version))
    n.rest = kept
    n.saved |= SAVED_REST
    return 0


cdef list kept_indices(Node n):
    """What `save_indices` kept, checked to be unchanged."""
    cdef Tensor t
    cdef list found = []
    if n.rest is None:
        raise RuntimeError(RELEASED)
    for each in n.rest:
        if each is None:
            found.append(None)
        elif isinstance(each, Packed):
            found.append(unpack_value(<Packed>each))
        else:
            t, version = each
            if t.mem.version != version:
                raise_changed(n, "its index, ", t, version)
            found.append(t)
    return found


cdef Tensor op_index(Tensor x, list tensors):
    cdef Tensor y = tensor_new()
    cdef Meta* at[64]
    cdef Node n
    cdef int count = index_pointers(x, tensors, at)
    if x.flags & BATCHED or list_batched(tensors):
        y = batch_index(x, tensors)
    else:
        adopt(y, ops.op_index(&y.m, &x.m, at, count))
    if records(x):
        n = node_new(&OPS[OP_INDEX])
        set_edge(n, 0, x)
        save_indices(n, tensors)
        node_set_output(n, y)
    return y


cdef bint list_batched(list tensors) noexcept:
    for t in tensors:
        if t is not None and (<Tensor>t).flags & BATCHED:
            return True
    return False


cdef int bw_index(Node n, Tensor g) except -1:
    cdef Dims d
    if wanted(n, 0):
        edge_sizes(n, 0, &d)
        indices = kept_indices(n)
        repeats = len(indices) > 1 or (<Tensor>indices[0]).m.dtype != BOOL
        pass_grad(n, 0, op_index_put(zeros_of(d.n, d.v, g.m.dtype, g.m.device), indices, g, repeats))
    return 0


cdef Tensor op_index_put(Tensor x, list tensors, Tensor v, bint accumulate):
    """A copy of x with v written, or added, at the indices."""
    cdef Tensor y = roomy(x, [*tensors, v])
    put_in(y, tensors, v, accumulate)
    return y


cdef Tensor roomy(Tensor x, list beside):
    """A copy of x with room for each example of the tensors that are to be written to it."""
    cdef Tensor y = with_room(x, *beside)
    return op_clone(x) if y is x else y


def with_room(Tensor x not None, *beside):
    """x, or where the tensors `beside` vary in levels of vmap that x does not, a copy with room for each example."""
    cdef Batch over = joint_of((x, *beside))
    if over is None or (x.flags & BATCHED and batch_of(x).levels == over.levels and alike_levels(over, (x,)) & ~over.thin == 0):
        return x
    return op_add(x, spread(zeros_of(0, NULL, x.m.dtype, x.m.device), over, True))


cdef int put_in(Tensor x, list tensors, Tensor v, bint accumulate) except -1:
    """x[tensors] = v (or += v), in place and recorded."""
    cdef Meta* at[64]
    cdef Node n
    cdef Tensor before
    cdef bint recorded = records(x) or records(v)
    cdef int count = index_pointers(x, tensors, at)
    cdef int64_t began = op_began()
    if v.m.dtype != x.m.dtype:
        raise RuntimeError(f"Index put requires the source and destination dtypes match, got "
                           f"{dtype_object(x.m.dtype)} for the destination and "
                           f"{dtype_object(v.m.dtype)} for the source.")
    check_in_place(x, recorded and (needs(x) or needs(v)))
    refuse_overlap(x, v)
    for t in tensors:
        if t is not None and not ((<Tensor>t).m.dtype == BOOL and v.m.numel == 1):     # that is a masked_fill
            refuse_overlap(x, <Tensor>t)
    if any_batched(x, v, None) or list_batched(tensors):
        check_levels(x, [v, *tensors], "index_put_")
    before = history_alias(x, False) if recorded else None
    v = frozen(v, x)
    seen = glimpse(x) if cyg_mode & MODE_OBSERVED else None
    if x.flags & BATCHED:
        batch_put(x, tensors, v, accumulate)
    else:
        ops.index_put_into(&x.m, at, count, &v.m, accumulate)
    bump(x, OP_INDEX_PUT)
    if seen is not None:
        observe(OP_INDEX_PUT, x, (seen, v), began)
    if recorded:
        n = node_new(&OPS[OP_INDEX_PUT])
        set_edge(n, 0, before)
        set_edge(n, 1, v)
        save_indices(n, tensors)
        n.iattr[0] = accumulate
        rebase(x, n)
    return 0


cdef int bw_index_put(Node n, Tensor g) except -1:
    cdef list indices = kept_indices(n)
    if wanted(n, 0):
        if n.iattr[0]:
            pass_grad(n, 0, g)
        else:
            pass_grad(n, 0, op_index_put(g, indices, zeros_of(0, NULL, g.m.dtype, g.m.device), False))
    if wanted(n, 1):
        pass_grad(n, 1, op_index(g, indices))
    return 0


# ---- several views of one call ---------------------------------------------------------------------------------------

cdef tuple op_unbind(Tensor x, int64_t dim):
    cdef int64_t i
    cdef list parts = []
    cdef Tensor y
    if x.m.ndim == 0:
        raise IndexError("unbind(): Dimension specified as 0 but tensor has no dimensions")
    dim = wrap_dim(dim, x.m.ndim)
    check_room(x.m.sizes[dim], "unbind")
    for i in range(x.m.sizes[dim]):
        y = tensor_new()
        view_select(&y.m, &x.m, dim, i)
        view_begin(y, x)
        parts.append(y)
    many_outputs(OP_UNBIND, x, parts, dim)
    return tuple(parts)


cdef tuple op_split_sizes(Tensor x, list sizes, int64_t dim):
    cdef int64_t at = 0, size
    cdef list parts = []
    cdef Tensor y
    dim = wrap_dim(dim, x.m.ndim)
    if sizes and _py.min(sizes) < 0:
        raise RuntimeError(f"split_with_sizes expects split_sizes have only non-negative entries, but got "
                           f"split_sizes={sizes}")
    if x.m.ndim == 0 or _py.sum(sizes) != x.m.sizes[dim]:
        raise RuntimeError(f"split_with_sizes expects split_sizes to sum exactly to "
                           f"{x.m.sizes[dim] if x.m.ndim else 1} (input tensor's size at dimension "
                           f"{dim}), but got split_sizes={sizes}")
    for size in sizes:
        y = tensor_new()
        view_narrow(&y.m, &x.m, dim, at, size)
        view_begin(y, x)
        at += size
        parts.append(y)
    many_outputs(OP_SPLIT_WITH_SIZES, x, parts, dim)
    return tuple(parts)


cdef int many_outputs(int op, Tensor x, list parts, int64_t dim) except -1:
    cdef Node n
    cdef Tensor y
    for part in parts:
        if (<Tensor>part).creation == VIEW_PLAIN:
            (<Tensor>part).creation = VIEW_MULTI
    if not parts or not records(x) or category(x.m.dtype) < 2:
        return 0
    n = node_new(&OPS[op])
    set_edge(n, 0, x)
    n.iattr[0] = dim
    node_set_outputs(n, parts)
    return 0


cdef int node_set_outputs(Node n, list ys) except -1:
    cdef Tensor y
    cdef int i = 0
    cdef bint true = True
    extra(n).outs = []
    if n.dual == HAS_DUALS:              # the parts are views: their tangents are their root's
        true = wants_gradients(n, n.x.duals)
        cut_dual_edges(n, n.x.duals)
        n.x.duals = None
        n.dual = 0
    for part in ys:
        y = <Tensor>part
        if y.flags & BATCHED:
            n.x.levels = batch_of(y).levels
        extra(n).outs.append((shape_tuple(&y.m), <int>y.m.dtype, <int>y.m.device))
        if true:
            y.fn = n
            y.out_nr = i
            y.flags |= REQUIRES_GRAD
            if streams_used and y.m.device:
                note_stream(n, y.m.device)
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
            shape, code, place = extra(n).outs[i]
            dims_from(shape, &d)
            g = zeros_of(d.n, d.v, code, place)
        parts.append(op_unsqueeze(<Tensor>g, n.iattr[0]) if n.op.id == OP_UNBIND else g)
    pass_grad(n, 0, op_cat(parts, n.iattr[0]))
    return 0


cdef int bw_unbind(Node n, Tensor g) except -1:
    return backward_many(n, (g,))


cdef int bw_split(Node n, Tensor g) except -1:
    return backward_many(n, (g,))


cdef int bw_split_with_sizes(Node n, Tensor g) except -1:
    return backward_many(n, (g,))


cdef int bw_function(Node n, Tensor g) except -1:
    return function_backward(n, (g,))
