# args: what users may pass, checked and converted. May use: opcall. Every message names function, argument, what came and what is wanted.

cdef object ONE = 1


cdef str kind_of(object v):
    return type(v).__name__


cdef int64_t as_index(object v, str name, str arg) except? -1:
    """An int, or something that stands for one (__index__)."""
    if PyLong_CheckExact(v):
        return v
    if PyBool_Check(v) or not hasattr(v, "__index__"):
        raise TypeError(f"{name}(): argument '{arg}' must be int, not {kind_of(v)}")
    return v.__index__()


cdef int parse_ints(object v, Dims* d, str name, str arg) except -1:
    """An int or a sequence of ints."""
    cdef int64_t i
    if isinstance(v, (tuple, list)):
        if len(v) > MAXDIM:
            raise RuntimeError(f"{name}(): argument '{arg}' has {len(v)} entries, at most {MAXDIM} are supported")
        d.n = len(v)
        for i in range(d.n):
            d.v[i] = v[i] if PyLong_CheckExact(v[i]) else as_index(v[i], name, arg)
        return 0
    if PyLong_CheckExact(v) or (hasattr(v, "__index__") and not PyBool_Check(v)):
        d.n = 1
        d.v[0] = v.__index__()
        return 0
    raise TypeError(f"{name}(): argument '{arg}' must be tuple of ints, not {kind_of(v)}")


cdef int parse_shape(tuple args, Dims* d, str name) except -1:
    """Sizes given one by one or as one sequence: f(2, 3), f((2, 3)), f([2, 3])."""
    if len(args) == 1 and not PyLong_CheckExact(args[0]):
        return parse_ints(args[0], d, name, "size")
    return parse_ints(args, d, name, "size")


cdef uint64_t dims_mask(object dim, int ndim, str name) except? 0xFFFFFFFFFFFFFFFF:
    """The set of dimensions to reduce; None and () mean all."""
    cdef uint64_t mask = 0, bit
    cdef Dims d
    cdef int i, k
    if dim is None:
        return (<uint64_t>1 << ndim) - 1 if ndim < 64 else ~<uint64_t>0
    parse_ints(dim, &d, name, "dim")
    if d.n == 0:
        return (<uint64_t>1 << ndim) - 1 if ndim < 64 else ~<uint64_t>0
    for i in range(d.n):
        k = wrap_dim(d.v[i], ndim)
        bit = <uint64_t>1 << k
        if mask & bit:
            raise RuntimeError(f"{name}(): dim {k} appears multiple times in the list of dims {dim}")
        mask |= bit
    return mask if ndim else 0


cdef int code_or_none(object d) except -2:
    return -1 if d is None else dtype_code(d)


cdef Tensor as_tensor_arg(object v, str name, str arg):
    if not isinstance(v, Tensor):
        raise TypeError(f"{name}(): argument '{arg}' must be Tensor, not {kind_of(v)}")
    return <Tensor>v


cdef Tensor as_operand(object v, Tensor beside, int op, str name, str arg):
    """A tensor, or a number beside one."""
    cdef Tensor t
    if isinstance(v, Tensor):
        return <Tensor>v
    t = wrap(v, beside, OPS[op].out_bool)
    if t is None:
        raise TypeError(f"{name}(): argument '{arg}' must be Tensor or number, not {kind_of(v)}")
    return t


cdef Tensor as_first(object v, object other, int op, str name):
    """First operand of an operation that also takes a number there, if its second is a tensor."""
    if isinstance(v, Tensor):
        return <Tensor>v
    if isinstance(other, Tensor):
        return as_operand(v, <Tensor>other, op, name, "input")
    raise TypeError(f"{name}(): one of its operands must be Tensor, got {kind_of(v)} and {kind_of(other)}")


cdef double as_alpha(object alpha, Tensor a, Tensor b, str name) except? -1.25:
    if isinstance(alpha, float) and category(a.m.dtype) < 2 and category(b.m.dtype) < 2:
        raise RuntimeError(f"{name}(): For integral input tensors, argument alpha must not be a floating point number, got {alpha}")
    if not isinstance(alpha, (int, float)):
        raise TypeError(f"{name}(): argument 'alpha' must be Number, not {kind_of(alpha)}")
    return alpha


cdef list as_tensors(object v, str name, str arg):
    """A non-empty sequence of tensors."""
    if isinstance(v, Tensor) or not isinstance(v, (tuple, list)):
        raise TypeError(f"{name}(): argument '{arg}' must be tuple of Tensors, not {kind_of(v)}")
    for i, t in enumerate(v):
        if not isinstance(t, Tensor):
            raise TypeError(f"{name}(): expected Tensor as element {i} in argument '{arg}', but got {kind_of(t)}")
    return list(v)


cdef object finish(Tensor y, object out):
    """Hands y over, or writes it to the tensor that the user gave as `out`."""
    cdef Tensor o
    if out is None:
        return y
    o = as_tensor_arg(out, "out", "out")
    if recording() and (needs(y) or needs(o)):
        raise RuntimeError("out=... arguments don't support automatic differentiation, but one of the arguments requires grad")
    if not can_cast(y.m.dtype, o.m.dtype):
        raise RuntimeError(f"result type {dtype_word(y.m.dtype)} can't be cast to the desired output type {dtype_word(o.m.dtype)}")
    if not meta_same_shape(&o.m, &y.m):
        resize(o, &y.m)
    copy_in(o, y)
    return o


cdef int resize(Tensor o, const Meta* like) except -1:
    """Gives an `out` the shape of the result; only an empty one may change (PyTorch warns about others, we refuse)."""
    cdef Storage s
    cdef int code = o.m.dtype
    if o.m.numel:
        raise RuntimeError(f"out has shape {list(shape_tuple(&o.m))}, the result has {list(shape_tuple(like))}: pass one of that shape or an empty one")
    meta_clear(&o.m)
    meta_contig(&o.m, like.ndim, like.sizes, code)
    s = storage_new(like.numel * ITEMSIZE[code])
    o.mem = s
    o.m.data = s.ptr
    o.base = None
    return 0


cdef int check_device(object device) except -1:
    if device is not None:
        Device(device)
    return 0
