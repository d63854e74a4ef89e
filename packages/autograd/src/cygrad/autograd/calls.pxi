# calls: public functions whose meaning depends on what they are given, or that are made of other operations.
# May use: all above.
# Methods in tensor.pxi call these.


RETURNS = {"max": ("values", "indices"), "min": ("values", "indices"), **GENERATED_RETURNS}    # named tuples: their fields
cdef object result_types = None         # the module cygrad.return_types, from the first time on that one is made


def named_results(str name, tuple results):
    """``return_types.NAME`` of these results."""
    global result_types
    if result_types is None:
        from cygrad import return_types
        result_types = return_types
    return getattr(result_types, name)(*results)


cdef Tensor plain_number(object v, str name, str arg):
    """A number with no tensor beside it."""
    if not isinstance(v, (int, float, complex)):
        raise TypeError(f"{name}(): argument '{arg}' must be Tensor or number, not {kind_of(v)}")
    if isinstance(v, int) and check_word(v) > 0x7FFFFFFFFFFFFFFF:
        return wrap_number(v, UINT64, False)
    cdef Tensor t = from_sequence(v, -1)
    t.flags |= WRAPPED
    return t


def clamp(input=REQUIRED, min=None, max=None, *, out=None):
    """Elements limited to ``[min, max]``; either bound may be missing."""
    return finish(clamped(as_tensor_arg(input, "clamp", "input"), min, max), out)


cdef Tensor clamped(Tensor x, object low, object high):
    if low is None and high is None:
        raise RuntimeError("clamp(): At least one of 'min' or 'max' must not be None")
    if high is None:
        return op_clamp_min(x, as_operand(low, x, OP_CLAMP_MIN, "clamp", "min"))
    if low is None:
        return op_clamp_max(x, as_operand(high, x, OP_CLAMP_MAX, "clamp", "max"))
    return numbered(op_clamp_both(x, as_operand(low, x, OP_CLAMP_BOTH, "clamp", "min"),
                                  as_operand(high, x, OP_CLAMP_BOTH, "clamp", "max")),
                    not (isinstance(low, Tensor) or isinstance(high, Tensor)))


cdef int rounded_division(object mode) except -1:
    """The operation for a rounding_mode."""
    if mode is None:
        return OP_DIV
    if not isinstance(mode, str):
        raise TypeError(f"div(): argument 'rounding_mode' must be str, not {kind_of(mode)}")
    if mode == "trunc":
        return OP_DIV_TRUNC
    if mode == "floor":
        return OP_DIV_FLOOR
    raise RuntimeError(f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{mode}'")


def div(input=REQUIRED, other=REQUIRED, *, rounding_mode=None, out=None):
    """Quotient, element by element; integers give the default floating type unless `rounding_mode` is given.

    Parameters
    ----------
    input, other : Tensor or number
    rounding_mode : {None, "trunc", "floor"}
        Rounds the quotient towards zero, or down; the dtype is then that of the operands, and the gradient 0.
    out : Tensor, optional

    Raises
    ------
    RuntimeError
        The mode is another one, or integers are rounded that were divided by zero.
    """
    cdef Tensor a = as_first(input, other, OP_DIV, "div")
    return finish(divided(a, as_operand(other, a, OP_DIV, "div", "other"), rounded_division(rounding_mode)), out)


def pow(input=REQUIRED, exponent=REQUIRED, *, out=None):
    """`input` raised to `exponent`, element by element."""
    cdef Tensor y
    cdef int mode = uncast() if out is not None else cyg_mode
    try:
        if isinstance(input, Tensor):
            y = power(<Tensor>input, exponent)
        else:
            as_first(input, exponent, OP_POW, "pow")     # refuses two numbers
            y = number_power(input, <Tensor>exponent)
    finally:
        restore_mode(mode)
    return finish(y, out)


cdef Tensor number_power(object base, Tensor x):
    """A number raised to a tensor; the result is row-major, as PyTorch's."""
    x = raised_away(x)
    return numbered(op_pow(as_operand(base, x, OP_POW, "pow", "input"), op_contiguous(x)), 2)


cdef Tensor power(Tensor x, object exponent):
    """A square is one multiplication."""
    x = raised_away(x)
    if isinstance(exponent, Tensor):
        exponent = raised_away(<Tensor>exponent)
    if (PyLong_CheckExact(exponent) and exponent == 2 and x.m.dtype != BOOL) or (
            PyFloat_CheckExact(exponent) and exponent == 2.0 and not is_integral(x.m.dtype)):
        return op_pow_square(x)
    return numbered(op_pow(x, as_operand(exponent, x, OP_POW, "pow", "exponent")), isinstance(exponent, Tensor))


# ---- products of matrices --------------------------------------------------------------------------------------------

def matmul(input=REQUIRED, other=REQUIRED, *, out=None):
    """Matrix product: vectors, matrices and batches of them, batch dimensions broadcast."""
    cdef Tensor a = as_tensor_arg(input, "matmul", "input"), b = as_tensor_arg(other, "matmul", "other"), y
    cdef int mode = uncast() if out is not None else cyg_mode
    try:
        y = product(a, b)
    finally:
        restore_mode(mode)
    if isinstance(out, Tensor) and a.m.ndim > 2 and b.m.ndim <= 2 and y.m.numel and meta_same_shape(&y.m, &(<Tensor>out).m):
        check_folds(<Tensor>out, y.m.sizes[y.m.ndim - 1] if b.m.ndim == 2 else 1)
    return finish_exact(y, out)


cdef int check_folds(Tensor out, int64_t columns) except -1:
    """`out` can be seen as the matrix that a product of matrices in a row is computed as."""
    try:
        out.detach().view(-1, columns)
    except RuntimeError:
        raise RuntimeError(f"matmul: out, of shape {list(shape_tuple(&out.m))}, has strides that a matrix of {columns} columns "
                           "cannot be written to: pass a contiguous one") from None


cdef Tensor product(Tensor a, Tensor b):
    cdef int na = a.m.ndim, nb = b.m.ndim
    cdef Tensor y
    if cyg_mode & MODE_AUTOCAST:
        a, b = lowered(a), lowered(b)
    if na == 2 and nb == 2:
        return op_mm(a, b)
    if na == 0 or nb == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {na}D and {nb}D")
    if na == 1 and nb == 1:
        return op_dot(a, b)
    if na == 2 and nb == 1:
        return op_mv(a, b)
    if na == 1:
        y = by_itself(op_squeeze_dims(product(op_unsqueeze(a, 0), b), <uint64_t>1 << (nb - 2)))
        return called(y, UNSAFE_SQUEEZE) if nb > 2 else y
    if nb == 1:
        y = by_itself(op_squeeze_dims(product(a, op_unsqueeze(b, 1)), <uint64_t>1 << (na - 1)))
        return called(y, UNSAFE_SQUEEZE)
    if nb == 2:                          # the batch folds into the rows: one large product
        return fold_product(a, b)
    return batch_product(a, b)


cdef Tensor fold_product(Tensor a, Tensor b):
    cdef Dims flat, back
    cdef int i
    flat.n = 2
    flat.v[0] = 1
    back.n = a.m.ndim
    for i in range(a.m.ndim - 1):
        flat.v[0] *= a.m.sizes[i]
        back.v[i] = a.m.sizes[i]
    flat.v[1] = a.m.sizes[a.m.ndim - 1]
    back.v[a.m.ndim - 1] = b.m.sizes[1]
    return by_itself(called(op_view_as_shape(op_mm(op_reshape(a, &flat), b), &back), UNSAFE_VIEW))


cdef Tensor batch_product(Tensor a, Tensor b):
    cdef Meta ba, bb
    cdef Meta* ms[2]
    cdef int64_t batch[64]
    cdef Dims wide, flat, back
    cdef int nd, i
    cdef int64_t total = 1
    cdef Tensor y
    memset(&ba, 0, sizeof(Meta))
    memset(&bb, 0, sizeof(Meta))
    meta_contig(&ba, a.m.ndim - 2, a.m.sizes, BOOL)
    meta_contig(&bb, b.m.ndim - 2, b.m.sizes, BOOL)
    ms[0] = &ba
    ms[1] = &bb
    try:
        nd = broadcast_shapes(ms, 2, batch)
    except RuntimeError as e:
        raise RuntimeError(f"matmul: batch dimensions of {list(shape_tuple(&a.m))} and {list(shape_tuple(&b.m))} do "
                           f"not broadcast: {e}") from None
    finally:
        meta_clear(&ba)
        meta_clear(&bb)
    for i in range(nd):
        total *= batch[i]
    operands = []
    for t in (a, b):
        wide.n = nd + 2
        memcpy(wide.v, batch, nd * sizeof(int64_t))
        wide.v[nd] = (<Tensor>t).m.sizes[(<Tensor>t).m.ndim - 2]
        wide.v[nd + 1] = (<Tensor>t).m.sizes[(<Tensor>t).m.ndim - 1]
        flat.n = 3
        flat.v[0] = total
        flat.v[1] = wide.v[nd]
        flat.v[2] = wide.v[nd + 1]
        operands.append(op_reshape(op_expand_to(<Tensor>t, &wide), &flat) if nd != 1 or (<Tensor>t).m.ndim != 3
                        or (<Tensor>t).m.sizes[0] != total else t)
    y = op_bmm(<Tensor>operands[0], <Tensor>operands[1])
    if nd == 1:
        return called(y, UNSAFE_BMM)
    back.n = nd + 2
    memcpy(back.v, batch, nd * sizeof(int64_t))
    back.v[nd] = y.m.sizes[1]
    back.v[nd + 1] = y.m.sizes[2]
    return by_itself(called(op_view_as_shape(y, &back), UNSAFE_VIEW))


# ---- shapes ----------------------------------------------------------------------------------------------------------

def reshape(input=REQUIRED, shape=REQUIRED):
    """The same elements in another shape: a view where the layout allows it, else a copy."""
    cdef Tensor x = as_tensor_arg(input, "reshape", "input")
    cdef Dims d
    parse_ints(shape, &d, "reshape", "shape")
    return op_reshape(x, &d)


def permute(input=REQUIRED, dims=REQUIRED):
    """A view with the dimensions in another order."""
    cdef Tensor x = as_tensor_arg(input, "permute", "input")
    cdef Dims d
    parse_ints(dims, &d, "permute", "dims")
    return op_permute(x, &d)


def squeeze(input=REQUIRED, dim=None):
    """A view without the dimensions (or the named ones) of size 1."""
    cdef Tensor x = as_tensor_arg(input, "squeeze", "input")
    cdef int overload = 0 if dim is None else 2 if isinstance(dim, (tuple, list)) else 1
    return numbered(op_squeeze_dims(x, axes_mask(dim, x.m.ndim, "squeeze")), overload)


def flatten(input=REQUIRED, start_dim=0, end_dim=-1):
    """Dimensions `start_dim` to `end_dim` folded into one; a view where possible."""
    cdef Tensor x = as_tensor_arg(input, "flatten", "input")
    cdef Dims d
    cdef int first = wrap_dim(as_index(start_dim, "flatten", "start_dim"), x.m.ndim)
    cdef int last = wrap_dim(as_index(end_dim, "flatten", "end_dim"), x.m.ndim)
    cdef int i
    if first > last:
        raise RuntimeError(f"flatten(): start_dim cannot come after end_dim, got {start_dim} and {end_dim}")
    if x.m.ndim == 0:
        d.n = 1
        d.v[0] = 1
        return op_reshape(x, &d)
    if first == last:
        return x
    d.n = 0
    for i in range(x.m.ndim):
        if first < i <= last:
            d.v[d.n - 1] *= x.m.sizes[i]
        else:
            d.v[d.n] = x.m.sizes[i]
            d.n += 1
    return op_reshape(x, &d)


def movedim(input=REQUIRED, source=REQUIRED, destination=REQUIRED):
    """A view with dimensions moved to other places, the rest keeping their order."""
    cdef Tensor x = as_tensor_arg(input, "movedim", "input")
    cdef Dims s, t, order
    cdef int nd = x.m.ndim, i, k
    parse_dims(source, &s, "movedim", "source")
    parse_dims(destination, &t, "movedim", "destination")
    if s.n != t.n:
        raise RuntimeError(f"movedim: Invalid source or destination dims: source ({s.n} dims) should contain the same "
                           f"number of dims as destination ({t.n} dims)")
    src = [wrap_dim(s.v[i], nd) for i in range(s.n)]
    dst = [wrap_dim(t.v[i], nd) for i in range(t.n)]
    for name, dims in (("source", src), ("destination", dst)):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({dims})")
    if nd == 0:
        return op_alias(x)
    rest = iter([i for i in range(nd) if i not in src])
    place = dict(zip(dst, src))
    dims_from([place[i] if i in place else next(rest) for i in range(nd)], &order)
    return op_permute(x, &order)


def t(input=REQUIRED):
    """The transpose of a matrix; vectors and 0-d tensors as they are."""
    cdef Tensor x = as_tensor_arg(input, "t", "input")
    if x.m.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {x.m.ndim}D")
    return op_t(x)


def unbind(input=REQUIRED, dim=0):
    """The slices along `dim`, as a tuple of views."""
    return op_unbind(as_tensor_arg(input, "unbind", "input"), as_index(dim, "unbind", "dim"))


def split(tensor=REQUIRED, split_size_or_sections=REQUIRED, dim=0):
    """Parts of one size (the last may be smaller), or of the given sizes, along `dim`, as a tuple of views."""
    cdef Tensor x = as_tensor_arg(tensor, "split", "tensor")
    cdef int64_t size, total, k = wrap_dim(as_index(dim, "split", "dim"), x.m.ndim)
    if isinstance(split_size_or_sections, (list, tuple)):
        return op_split_sizes(x, any_number_of_ints(split_size_or_sections, "split", "split_size_or_sections"), k)
    if x.m.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    size = as_index(split_size_or_sections, "split", "split_size_or_sections")
    total = x.m.sizes[k]
    if size < 0 or (size == 0 and total):
        raise RuntimeError(f"split_size must be at least 1 (or 0 if the dimension is empty), but got "
                           f"split_size={size} for dimension {k} of size {total}")
    return split_evenly(x, size, k)


cdef tuple split_evenly(Tensor x, int64_t size, int64_t dim):
    cdef int64_t total = x.m.sizes[dim], at = 0, part
    cdef list parts = []
    cdef Tensor y
    check_room(total // size if size else 0, "split")
    while True:
        part = size if size <= total - at else total - at
        y = tensor_new()
        view_narrow(&y.m, &x.m, dim, at, part)
        view_begin(y, x)
        parts.append(y)
        at += part
        if at >= total:
            break
    many_outputs(OP_SPLIT, x, parts, dim)
    return tuple(parts)


def chunk(input=REQUIRED, chunks=REQUIRED, dim=0):
    """At most `chunks` parts of equal size (the last may be smaller) along `dim`, as a tuple of views."""
    cdef Tensor x = as_tensor_arg(input, "chunk", "input")
    cdef int64_t n = as_index(chunks, "chunk", "chunks"), k = wrap_dim(as_index(dim, "chunk", "dim"), x.m.ndim)
    if x.m.ndim == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if n <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {n}")
    if x.m.sizes[k] == 0:                # of nothing there are as many parts as were asked for
        check_room(n, "chunk")
        return split(x, [0] * n, k)
    return split_evenly(x, (x.m.sizes[k] - 1) // n + 1, k)


def cat(tensors=REQUIRED, dim=0, *, out=None):
    """Tensors joined along an existing dimension."""
    cdef list xs = as_tensors(tensors, "cat", "tensors")
    if cyg_mode & MODE_AUTOCAST_CPU and out is None:
        xs = in_widest(xs)
    cdef int64_t k = as_index(dim, "cat", "dim")
    cdef int n = (<Tensor>xs[0]).m.ndim if xs else 0
    if (n == 4 or n == 5) and _py.all(x.dim() == n and channels_innermost(&(<Tensor>x).m) for x in xs):
        k = wrap_dim(k, n)      # the result lies as its parts do
        k = 0 if k == 0 else n - 1 if k == 1 else k - 1
        return joined(permute(op_cat([permute(x, [0, *range(2, n), 1]) for x in xs], k), [0, n - 1, *range(1, n - 1)]),
                      out, xs)
    return joined(op_cat(xs, k), out, xs)


cdef object joined(Tensor y, object out, list parts):
    """y, or `out` with its values; a dtype that cannot hold them is a TypeError here, and memory of a part refused."""
    if isinstance(out, Tensor) and not storable(y.m.dtype, (<Tensor>out).m.dtype):
        raise TypeError(f"cat(): input types can't be cast to the desired output type {dtype_word((<Tensor>out).m.dtype)}")
    for x in parts if isinstance(out, Tensor) and out.numel() else ():
        refuse_overlap(<Tensor>out, <Tensor>x)
    return finish(y, out)


def stack(tensors=REQUIRED, dim=0, *, out=None):
    """Tensors of one shape joined along a new dimension."""
    cdef list xs = as_tensors(tensors, "stack", "tensors")
    if cyg_mode & MODE_AUTOCAST_CPU and out is None:
        xs = in_widest(xs)
    cdef int64_t k
    if not xs:
        raise RuntimeError("stack expects a non-empty TensorList")
    for i, x in enumerate(xs):
        if not meta_same_shape(&(<Tensor>x).m, &(<Tensor>xs[0]).m):
            raise RuntimeError(f"stack expects each tensor to be equal size, but got {list((<Tensor>xs[0]).shape)} at "
                               f"entry 0 and {list((<Tensor>x).shape)} at entry {i}")
    k = wrap_dim(as_index(dim, "stack", "dim"), (<Tensor>xs[0]).m.ndim + 1)
    return joined(op_stack(xs, k), out, xs)


def as_strided(input=REQUIRED, size=REQUIRED, stride=REQUIRED, storage_offset=None):
    """A view with any sizes, strides and storage offset inside the storage."""
    cdef Tensor x = as_tensor_arg(input, "as_strided", "input")
    cdef Dims d, s
    parse_ints(size, &d, "as_strided", "size")
    parse_ints(stride, &s, "as_strided", "stride")
    return op_as_strided(x, &d, &s, offset_of(x) if storage_offset is None else as_index(storage_offset, "as_strided", "storage_offset"))


def broadcast_to(input=REQUIRED, size=REQUIRED):
    """`input` expanded to a shape, without copying."""
    cdef Tensor x = as_tensor_arg(input, "broadcast_to", "input")
    cdef Dims d
    parse_ints(size, &d, "broadcast_to", "size")
    return op_expand_to(x, &d)


def clone(input=REQUIRED, *, memory_format=None):
    """A copy, differentiable; keeps the layout of a dense input unless `memory_format` says otherwise."""
    cdef Tensor x = as_tensor_arg(input, "clone", "input")
    return in_format(x, format_of(memory_format, x.m.ndim, "clone"), True)


# ---- comparing whole tensors -----------------------------------------------------------------------------------------

def equal(input=REQUIRED, other=REQUIRED):
    """Whether two tensors have the same shape and elements."""
    cdef Tensor x = as_tensor_arg(input, "equal", "input")
    cdef Tensor o = as_tensor_arg(other, "equal", "other")
    cdef Tensor e
    if not meta_same_shape(&x.m, &o.m):
        return False
    e = op_eq(x, o)
    return bool(op_all(e, full_mask(e), False).item())


def isclose(input=REQUIRED, other=REQUIRED, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Where ``|input - other| <= atol + rtol * |other|``."""
    cdef Tensor a = as_tensor_arg(input, "isclose", "input"), b = as_tensor_arg(other, "isclose", "other"), close, bound
    cdef double relative = as_number(rtol, "isclose", "rtol"), absolute = as_number(atol, "isclose", "atol")
    if not (relative >= 0 and absolute >= 0):
        raise RuntimeError(f"isclose(): rtol and atol must be greater than or equal to zero, but got {rtol} and {atol}")
    if a.m.dtype != b.m.dtype:
        raise RuntimeError(f"{dtype_word(a.m.dtype)} did not match {dtype_word(b.m.dtype)}")
    close = op_eq(a, b)
    if as_flag(equal_nan, "isclose", "equal_nan") and is_float(a.m.dtype):
        close = op_logical_or(close, op_logical_and(op_isnan(a), op_isnan(b)))
    if category(a.m.dtype) < 2:
        a, b = op_cast(a, FLOAT64), op_cast(b, FLOAT64)
    bound = op_add(op_mul(op_abs(b), like_number(relative, b)), like_number(absolute, b))
    return op_logical_or(close, op_logical_and(op_isfinite(op_sub(a, b)), op_le(op_abs(op_sub(a, b)), bound)))


def allclose(input=REQUIRED, other=REQUIRED, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether all elements satisfy `isclose`."""
    cdef Tensor e = isclose(input, other, rtol, atol, equal_nan)
    return bool(op_all(e, full_mask(e), False).item())


def numel(input=REQUIRED):
    """The number of elements."""
    return as_tensor_arg(input, "numel", "input").m.numel


def is_tensor(obj):
    """Whether `obj` is a Tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input=REQUIRED):
    """Whether the dtype is a floating one."""
    return bool(is_float(as_tensor_arg(input, "is_floating_point", "input").m.dtype))


def is_inference(input=REQUIRED):
    """Whether the tensor was made in inference mode."""
    return as_tensor_arg(input, "is_inference", "input").mem.origin != 0


def is_complex(input=REQUIRED):
    """Whether the dtype is a complex one."""
    return bool(category(as_tensor_arg(input, "is_complex", "input").m.dtype) == KIND_COMPLEX)


def conj(input=REQUIRED):
    """The complex conjugate; a real tensor itself.

    PyTorch's is a view with a mark, which is resolved when somebody reads it. This one is computed at once, in memory of
    its own, so `is_conj` is always False.
    """
    return conj_of(as_tensor_arg(input, "conj", "input"))


def result_type(tensor1, tensor2):
    """The dtype that an operation between the two would compute in."""
    cdef Tensor a, b
    a = <Tensor>tensor1 if isinstance(tensor1, Tensor) else plain_number(tensor1, "result_type", "tensor1")
    b = <Tensor>tensor2 if isinstance(tensor2, Tensor) else plain_number(tensor2, "result_type", "tensor2")
    return dtype_object(result_code(a, b, None))


def promote_types(type1, type2):
    """The smallest dtype to which both can be converted."""
    return dtype_object(promote(dtype_code(type1), dtype_code(type2)))


def can_cast(from_=REQUIRED, to=REQUIRED):
    """Whether PyTorch's rules let an in-place operation store the first dtype in the second."""
    return bool(storable(dtype_code(from_), dtype_code(to)))
