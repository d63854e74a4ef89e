# indexed: public functions that read and write through index tensors, or rearrange. May use: args, indexing.
# What the op table says by itself is not here. Methods in tensor.pxi.in call these.

cdef int64_t dim_of(Tensor x, object dim, str name) except -1:
    return wrap_dim(as_index(dim, name, "dim"), x.m.ndim)


def gather(input=REQUIRED, dim=REQUIRED, index=REQUIRED, *, sparse_grad=False, out=None):
    """``out[i][j] = input[index[i][j]][j]`` for `dim` 0, and so on for other dimensions.

    Parameters
    ----------
    input : Tensor
    dim : int
    index : Tensor
        int64 or int32, as many dimensions as `input`, outside `dim` at most its size.
    sparse_grad : bool
        Accepted for PyTorch's sake: gradients are dense.
    out : Tensor, optional
    """
    cdef Tensor x = as_tensor_arg(input, "gather", "input")
    as_flag(sparse_grad, "gather", "sparse_grad")
    return finish_exact(op_gather(x, dim_of(x, dim, "gather"), as_tensor_arg(index, "gather", "index")), out)


def scatter(input=REQUIRED, dim=REQUIRED, index=REQUIRED, src=None, *, value=None, reduce=None, out=None):
    """A copy with elements written where `index` says along `dim`; of equal indices the last one counts.

    Parameters
    ----------
    input : Tensor
    dim : int
    index : Tensor
        int64 or int32.
    src : Tensor or number
        A tensor at least as large as `index`; or, as `value`, one number for all.
    reduce : {"add", "multiply"}, optional
        Joins what is written with what was there.
    out : Tensor, optional
    """
    return finish_exact(scattered(as_tensor_arg(input, "scatter", "input"), dim, index, src, value, reduce, False), out)


cdef Tensor scattered(Tensor x, object dim, object index, object src, object value, object reduce, bint in_place):
    cdef str name = "scatter_" if in_place else "scatter"
    cdef int64_t k = dim_of(x, dim, name)
    cdef Tensor at = as_tensor_arg(index, name, "index"), v
    cdef Dims d
    if (src is None) == (value is None):
        raise TypeError(f"{name}(): one of the arguments 'src' and 'value' is wanted, got "
                        f"{'none' if src is None else 'both'}")
    value = src if value is None else value
    if reduce is None:
        if isinstance(value, Tensor):
            return in_scatter(x, k, at, <Tensor>value) if in_place else op_scatter(x, k, at, <Tensor>value)
        v = as_single(value, x, OP_SCATTER_FILL, name, "value" if src is None else "src")
        return in_scatter_fill(x, k, at, v) if in_place else numbered(op_scatter_fill(x, k, at, v), 1)
    if reduce not in ("add", "multiply"):
        raise RuntimeError(f"{name}(): reduce argument must be either add or multiply, got {reduce!r}")
    if isinstance(value, Tensor):
        v = <Tensor>value
    else:
        dims_from(at.shape, &d)
        v = op_expand_to(as_single(value, x, OP_SCATTER_FILL, name, "value"), &d)
    if reduce == "add":
        return in_scatter_add(x, k, at, v) if in_place else op_scatter_add(x, k, at, v)
    if in_place:
        return in_scatter_reduce(x, k, at, v, "prod", True)
    return op_scatter_reduce(x, k, at, v, "prod", True)


def take(input=REQUIRED, index=REQUIRED, *, out=None):
    """The elements whose numbers in row-major order `index` holds, in its shape; negative ones count from the end."""
    cdef Tensor x = as_tensor_arg(input, "take", "input"), at = as_tensor_arg(index, "take", "index")
    if isinstance(out, Tensor):
        refuse_overlap(<Tensor>out, x)
        refuse_overlap(<Tensor>out, at)
    return finish_exact(op_take(x, at), out)


def index_add(input=REQUIRED, dim=REQUIRED, index=REQUIRED, source=REQUIRED, *, alpha=1, out=None):
    """A copy with the slices of `source`, times `alpha`, added where `index` says; repeated indices add up.

    Parameters
    ----------
    input : Tensor
    dim : int
    index : Tensor
        A vector of int64 or int32.
    source : Tensor
        Of the dtype and shape of `input`, but with one slice along `dim` for each index.
    alpha : number
    out : Tensor, optional
    """
    return finish_exact(slices_added(as_tensor_arg(input, "index_add", "input"), dim, index, source, alpha, False), out)


cdef Tensor slices_added(Tensor x, object dim, object index, object source, object alpha, bint in_place):
    cdef str name = "index_add_" if in_place else "index_add"
    cdef int64_t k = dim_of(x, dim, name)
    cdef Tensor at = as_tensor_arg(index, name, "index"), v = as_tensor_arg(source, name, "source")
    if alpha is not ONE and differs_from_one(alpha):
        if in_place:
            refuse_overlap(x, v)
        v = times(v, as_factor(alpha, v, name, "alpha"), v.m.dtype)
    return in_index_add(x, k, at, v) if in_place else op_index_add(x, k, at, v)


def masked_scatter(input=REQUIRED, mask=REQUIRED, source=REQUIRED):
    """A copy with the elements of `source`, one after another, where `mask` holds; `input` and `mask` broadcast."""
    cdef Tensor x = as_tensor_arg(input, "masked_scatter", "input")
    cdef Tensor m = as_tensor_arg(mask, "masked_scatter", "mask")
    cdef Tensor v = as_tensor_arg(source, "masked_scatter", "source")
    cdef Meta* ms[2]
    cdef Dims d
    ms[0], ms[1] = &x.m, &m.m
    d.n = broadcast_shapes(ms, 2, d.v)
    if d.n != x.m.ndim or memcmp(d.v, x.m.sizes, d.n * sizeof(int64_t)) != 0:
        x = op_expand_to(x, &d)
    return op_masked_scatter(x, m, v)


def index_put(input=REQUIRED, indices=REQUIRED, values=REQUIRED, accumulate=False):
    """A copy with ``copy[indices] = values`` (or ``+=`` with `accumulate`).

    Parameters
    ----------
    input : Tensor
    indices : tuple of Tensor
        Indices or masks, for the first dimensions.
    values : Tensor
        Of the dtype of `input`; broadcast to the shape of ``input[indices]``.
    accumulate : bool
        Adds, also repeatedly where indices repeat.
    """
    cdef Tensor x = as_tensor_arg(input, "index_put", "input")
    if cyg_mode & MODE_AUTOCAST_CUDA and isinstance(values, Tensor):
        x, values = in_widest([x, values])
    return put_at(roomy(x, [t for t in (*indices, values) if isinstance(t, Tensor)]), indices, values, accumulate, "index_put")


cdef Tensor put_at(Tensor x, object indices, object values, object accumulate, str name):
    """index_put_."""
    cdef list tensors = index_list(x, indices, name)
    cdef Tensor v = as_tensor_arg(values, name, "values")
    cdef bint add = as_flag(accumulate, name, "accumulate")
    put_in(x, tensors, v if add else value_of_mask(x, tuple(indices), v), add)
    return x


def where(condition=REQUIRED, input=None, other=None, *, out=None):
    """`input` where `condition` holds, `other` elsewhere; with the condition alone, the indices where it holds."""
    cdef Tensor c = as_tensor_arg(condition, "where", "condition"), a, b
    if input is None and other is None:
        return places(c)
    if isinstance(input, Tensor):
        a = <Tensor>input
        b = as_operand(other, a, OP_WHERE, "where", "other")
    elif isinstance(other, Tensor):
        b = <Tensor>other
        a = as_operand(input, b, OP_WHERE, "where", "input")
    else:
        for v in (input, other):
            if isinstance(v, float):
                factor_in(v, default_dtype())
        a = plain_number(input, "where", "input")
        b = plain_number(other, "where", "other")
    if c.m.dtype != BOOL:
        raise RuntimeError("where(): expected condition to be a boolean tensor, but got a tensor with dtype "
                           f"{dtype_object(c.m.dtype)} and shape {list(shape_tuple(&c.m))}")
    return finish_exact(op_where(c, a, b), out)


def nonzero(input=REQUIRED, *, out=None, as_tuple=False):
    """Indices of the nonzero elements, one row each; with `as_tuple`, one index tensor a dimension."""
    cdef Tensor x = as_tensor_arg(input, "nonzero", "input")
    if as_flag(as_tuple, "nonzero", "as_tuple"):
        if out is not None:
            raise TypeError(f"nonzero(): argument 'out' does not go with as_tuple=True, got {kind_of(out)}")
        return places(x)
    return finish_exact(op_nonzero_rows(x), out)


cdef tuple places(Tensor x):
    """One index tensor a dimension; a 0-d tensor counts as a vector of one element."""
    return op_unbind(op_nonzero_rows(x if x.m.ndim else op_unsqueeze(x, 0)), 1)


# ---- arrangement

def flip(input=REQUIRED, dims=REQUIRED):
    """A copy with the elements in reverse order along `dims`, an int or several."""
    return flipped(as_tensor_arg(input, "flip", "input"), dims)


cdef Tensor flipped(Tensor x, object dims):
    return op_flip(x, axes_mask(dims, x.m.ndim, "flip"))


def roll(input=REQUIRED, shifts=REQUIRED, dims=None):
    """A copy with the elements shifted along `dims`; those pushed out come in again at the other end.

    Parameters
    ----------
    input : Tensor
    shifts, dims : int or tuple of int
        One shift for each dimension. Without dimensions the flattened tensor is shifted.
    """
    cdef Tensor x = as_tensor_arg(input, "roll", "input")
    cdef Dims s, d, shape
    cdef int i
    parse_dims(shifts, &s, "roll", "shifts")
    d.n = 0
    if dims is not None:
        parse_dims(dims, &d, "roll", "dims")
    if s.n == 0:
        raise RuntimeError("roll(): `shifts` required, got none")
    if d.n == 0 and s.n == 1:
        dims_from((x.m.numel,), &shape)
        dims_from(x.shape, &d)
        return by_itself(called(op_view_as_shape(op_roll(op_reshape(x, &shape), s.v[0], 0), &d), ROLL_VIEW))
    if d.n != s.n:
        raise RuntimeError(f"roll(): shifts and dimensions must align, got {s.n} shifts and {d.n} dims")
    if x.m.ndim == 0:
        raise IndexError(f"roll(): a dimension was given, {d.v[0]}, but the tensor has none")
    for i in range(s.n):
        x = op_roll(x, s.v[i], wrap_dim(d.v[i], x.m.ndim))
    return x


def repeat_interleave(input=REQUIRED, repeats=None, dim=None, *, output_size=None):
    """Elements (or slices along `dim`) repeated one by one.

    Parameters
    ----------
    input : Tensor
        Flattened where `dim` is None. Alone, it holds the repeats, and the result is which element each copy is of.
    repeats : int or Tensor
        For all, or one for each slice.
    dim : int, optional
    output_size : int, optional
        The size of the result along `dim`, where it is known; checked.
    """
    cdef Tensor x = as_tensor_arg(input, "repeat_interleave", "input"), times
    cdef int64_t k, total = -1 if output_size is None else as_index(output_size, "repeat_interleave", "output_size")
    cdef Dims d
    if repeats is None:
        return op_repeat_positions(x, total)
    if dim is None:
        dims_from((x.m.numel,), &d)
        x, dim = op_reshape(x, &d), 0
    elif x.m.ndim == 0:
        raise IndexError(f"repeat_interleave(): a dimension was given, {dim}, but the tensor has none")
    k = dim_of(x, dim, "repeat_interleave")
    if not isinstance(repeats, Tensor):
        return repeated(x, as_index(repeats, "repeat_interleave", "repeats"), k, total)
    times = <Tensor>repeats
    if times.m.ndim > 1:
        raise RuntimeError(f"repeat_interleave(): repeats must be 0-dim or 1-dim tensor, got {list(times.shape)}")
    d.n = 1
    d.v[0] = x.m.sizes[k]
    if times.m.numel == 1:
        times = op_expand_to(times, &d)
    elif times.m.sizes[0] != d.v[0]:
        raise RuntimeError(f"repeat_interleave(): repeats must have the same size as input along dim, but got "
                           f"repeats.size(0) = {times.m.sizes[0]} and input.size({k}) = {d.v[0]}")
    return op_index_select(x, k, op_repeat_positions(times, total))


cdef Tensor repeated(Tensor x, int64_t times, int64_t dim, int64_t total):
    """Each slice `times` times."""
    cdef Dims wide, shape
    cdef int i
    cdef int64_t size = x.m.sizes[dim]
    if times < 0:
        raise RuntimeError(f"repeat_interleave(): repeats must be non-negative, got {times}")
    if total >= 0 and total != size * times:
        raise RuntimeError(f"repeat_interleave(): output_size is {total}, but {times} repeats of {size} are "
                           f"{size * times}")
    wide.n = x.m.ndim + 1
    if wide.n > MAXDIM:
        raise RuntimeError(f"repeat_interleave(): a tensor of {x.m.ndim} dimensions has too many")
    shape.n = x.m.ndim
    for i in range(wide.n):
        wide.v[i] = times if i == dim + 1 else x.m.sizes[i if i <= dim else i - 1]
    for i in range(shape.n):
        shape.v[i] = size * times if i == dim else x.m.sizes[i]
    return op_view_as_shape(contiguous_copy(op_expand_to(op_unsqueeze(x, dim + 1), &wide)), &shape)


cdef Tensor contiguous_copy(Tensor x):
    """A row-major copy, also of what is row-major already."""
    return op_clone(x) if x.m.flags & CONTIGUOUS or rowmajor_example(x) else op_contiguous(x)
