# args: what users may pass, checked and converted. May use: opcall.
# Every message names function, argument, what came and what is wanted.

cdef object ONE = 1


cdef dict _modules = _sys.modules


cdef object np_type(str name):
    """A class of NumPy for isinstance; () as long as nobody imported NumPy, for then nothing can be one.

    Importing NumPy takes longer than importing cygrad, and many programs never need it.
    """
    module = _modules.get("numpy")
    return getattr(module, name, ()) if module is not None else ()


cdef str kind_of(object v):
    return type(v).__name__


class _Required:
    """The default of arguments that must be given: their own checks refuse it and name the argument."""

    def __repr__(self):
        return "<required>"


cdef object REQUIRED = _Required()


cdef int wrong_type(object v, str name, str arg, str wanted) except -1:
    if v is REQUIRED:
        raise TypeError(f'{name}() missing 1 required positional argument: "{arg}"')
    raise TypeError(f"{name}(): argument '{arg}' must be {wanted}, not {kind_of(v)}")


cdef int64_t as_index(object v, str name, str arg) except? -1:
    """An int, or something that stands for one (__index__)."""
    cdef int overflow = 0
    cdef int64_t i = PyLong_AsLongLongAndOverflow(v if PyLong_CheckExact(v) else whole(v, name, arg), &overflow)
    if overflow:
        raise ValueError(f"{name}(): argument '{arg}' must fit in 64 bits, got {v}")
    return i


cdef object whole(object v, str name, str arg):
    """The Python int that v stands for."""
    if not PyBool_Check(v) and hasattr(v, "__index__") and not (isinstance(v, Tensor) and (<Tensor>v).m.dtype == BOOL):
        try:
            return v.__index__()
        except TypeError:
            pass
    if isinstance(v, Tensor) and name == "narrow" and arg == "start":      # there a tensor is what PyTorch wants
        raise RuntimeError(f"narrow(): argument 'start' must be an integer or a 0-dim integral Tensor, not one of shape "
                           f"{list((<Tensor>v).shape)} and dtype {v.dtype}")
    wrong_type(v, name, arg, "int")


cdef double as_number(object v, str name, str arg) except? -1.25:
    """A Python number or a tensor of one element."""
    if PyFloat_CheckExact(v):
        return PyFloat_AS_DOUBLE(v)
    if isinstance(v, Tensor) and (<Tensor>v).m.ndim == 0:
        v = (<Tensor>v).item()
    if isinstance(v, (int, float)) or isinstance(v, np_type("number")):
        return v
    wrong_type(v, name, arg, "a number")


cdef bint as_flag(object v, str name, str arg) except -1:
    if PyBool_Check(v) or isinstance(v, np_type("bool_")):
        return bool(v)
    wrong_type(v, name, arg, "bool")


cdef bint as_switch(object v, str name, str arg) except -1:
    """A bool, or an integer that stands for one."""
    if PyBool_Check(v):
        return v is True
    if isinstance(v, int) or isinstance(v, (np_type("bool_"), np_type("integer"))):
        return bool(v)
    wrong_type(v, name, arg, "bool")


cdef object as_scalar(object v, str name, str arg):
    """A Python number, complex ones too, or one of NumPy's, or a tensor of one element."""
    if isinstance(v, Tensor) and (<Tensor>v).m.ndim == 0:
        return (<Tensor>v).item()
    if isinstance(v, (int, float, complex)):
        return v
    if isinstance(v, np_type("number")):
        return v.item()
    wrong_type(v, name, arg, "a number")


cdef str as_word(object v, str name, str arg):
    if not isinstance(v, str):
        wrong_type(v, name, arg, "str")
    return v


cdef int parse_ints(object v, Dims* d, str name, str arg) except -1:
    """A sequence of ints."""
    cdef int64_t i
    cdef int overflow = 0
    if not isinstance(v, (tuple, list)):
        wrong_type(v, name, arg, "tuple of ints")
    if len(v) > MAXDIM:
        raise RuntimeError(f"{name}(): argument '{arg}' has {len(v)} entries, at most {MAXDIM} are supported")
    d.n = len(v)
    for i in range(d.n):
        k = v[i]
        if not PyLong_CheckExact(k):
            if PyBool_Check(k) or not hasattr(k, "__index__"):
                raise TypeError(f"{name}(): argument '{arg}' must be tuple of ints, but entry {i} is of type "
                                f"{kind_of(k)}")
            k = whole(k, name, arg)
            if len(v) != d.n:           # what stands for an int may do anything
                raise RuntimeError(f"{name}(): argument '{arg}' changed its length while it was read")
        d.v[i] = PyLong_AsLongLongAndOverflow(k, &overflow)
        if overflow:
            raise TypeError(f"{name}(): argument '{arg}' must be tuple of ints that fit in 64 bits, but entry {i} is "
                            f"{k}")
    return 0


cdef list any_number_of_ints(object v, str name, str arg):
    """A sequence of ints, which may be more than there are dimensions."""
    cdef tuple entries = tuple(v)
    cdef list found = []
    cdef Dims d
    cdef Py_ssize_t at
    for at in range(0, len(entries), MAXDIM):
        parse_ints(entries[at : at + MAXDIM], &d, name, arg)
        found += dims_tuple(&d)
    return found


cdef int check_room(int64_t n, str name) except -1:
    """Refuse to make a number of objects for which there is no memory, before making the first."""
    if n > 1 << 20:
        try:
            PyList_New(n)
        except MemoryError:
            raise RuntimeError(f"{name}(): can't allocate memory for {n} results") from None
    return 0


cdef int parse_dims(object v, Dims* d, str name, str arg) except -1:
    """An int or a sequence of ints."""
    if isinstance(v, (tuple, list)):
        return parse_ints(v, d, name, arg)
    if PyBool_Check(v) or not hasattr(v, "__index__"):
        wrong_type(v, name, arg, "int or tuple of ints")
    d.n = 1
    d.v[0] = as_index(v, name, arg)
    return 0


cdef int parse_shape(tuple args, Dims* d, str name, str arg="size") except -1:
    """Sizes given one by one or as one sequence: f(2, 3), f((2, 3)), f([2, 3])."""
    if not args:
        wrong_type(REQUIRED, name, arg, "")
    if len(args) == 1 and not hasattr(args[0], "__index__"):
        return parse_ints(args[0], d, name, arg)
    return parse_ints(args, d, name, arg)


cdef uint64_t dims_mask(object dim, int ndim, str name) except? 0xFFFFFFFFFFFFFFFF:
    """The set of dimensions to reduce; None and () mean all."""
    cdef uint64_t mask = 0, bit
    cdef Dims d
    cdef int i, k
    if dim is None:
        return (<uint64_t>1 << ndim) - 1 if ndim < 64 else ~<uint64_t>0
    parse_dims(dim, &d, name, "dim")
    if d.n == 0:
        return (<uint64_t>1 << ndim) - 1 if ndim < 64 else ~<uint64_t>0
    for i in range(d.n):
        k = wrap_dim(d.v[i], ndim)
        bit = <uint64_t>1 << k
        if mask & bit:
            raise RuntimeError(f"{name}(): dim {k} appears multiple times in the list of dims {dim}")
        mask |= bit
    return mask if ndim else 0


cdef uint64_t axis_mask(object dim, int ndim, str name) except? 0xFFFFFFFFFFFFFFFF:
    """The dimension to reduce, as a set; None means all."""
    cdef int k
    if dim is None:
        return dims_mask(None, ndim, name)
    k = wrap_dim(as_index(dim, name, "dim"), ndim)
    return <uint64_t>1 << k if ndim else 0


cdef uint64_t axes_mask(object dim, int ndim, str name) except? 0xFFFFFFFFFFFFFFFF:
    """The set of dimensions to reduce; None means all, () none."""
    return 0 if isinstance(dim, (tuple, list)) and not dim else dims_mask(dim, ndim, name)


cdef int code_or_none(object d) except -2:
    return -1 if d is None else dtype_code(d)


cdef inline Tensor as_tensor_arg(object v, str name, str arg):
    if not isinstance(v, Tensor):
        wrong_type(v, name, arg, "Tensor")
    return <Tensor>v


cdef Tensor as_operand(object v, Tensor beside, int op, str name, str arg):
    """A tensor, or a number beside one."""
    cdef Tensor t
    if isinstance(v, Tensor):
        return <Tensor>v
    t = wrap_for(op, v, beside)
    if t is None:
        wrong_type(v, name, arg, "Tensor or number")
    return t


cdef Tensor as_single(object v, Tensor beside, int op, str name, str arg):
    """A number, or a tensor without dimensions."""
    cdef Tensor t
    if not isinstance(v, Tensor):
        if not isinstance(v, (int, float, complex)) and not isinstance(v, np_type("generic")):
            wrong_type(v, name, arg, "Tensor or number")
        if isinstance(v, complex) and category(beside.m.dtype) != KIND_COMPLEX and name.startswith("index_fill"):
            raise RuntimeError(f"{name}(): Converting complex Scalar to non-complex type is not supported, got {v} for "
                               f"{dtype_object(beside.m.dtype)}")
        if PyFloat_CheckExact(v) and (beside.m.dtype == FLOAT64 or (beside.m.dtype == FLOAT32 and not 3e38 < abs(<double>v) < INFINITY)):
            t = scalar_tensor(v, beside.m.dtype)
            t.flags &= ~WRAPPED
            return t
        return full((), v, dtype=dtype_object(beside.m.dtype), device=device_object(0))
    t = <Tensor>v
    if t.m.ndim:
        raise RuntimeError(f"{name}(): argument '{arg}' must be a number or a 0-dimensional tensor, but has "
                           f"{t.m.ndim} dimension(s): shape "
                           f"{list(shape_tuple(&t.m))}")
    if category(t.m.dtype) == KIND_COMPLEX and category(beside.m.dtype) != KIND_COMPLEX and t.item().imag:
        raise RuntimeError(f"{name}(): the {arg} {t.item()} cannot be converted to {dtype_object(beside.m.dtype)} "
                           f"without overflow")
    return t


cdef Tensor as_first(object v, object other, int op, str name):
    """First operand of an operation that also takes a number there, if its second is a tensor."""
    if isinstance(v, Tensor):
        return <Tensor>v
    if isinstance(other, Tensor):
        return as_operand(v, <Tensor>other, op, name, "input")
    if v is REQUIRED or other is REQUIRED:
        wrong_type(REQUIRED, name, "input" if v is REQUIRED else "other", "")
    raise TypeError(f"{name}(): one of its operands must be Tensor, got {kind_of(v)} and {kind_of(other)}")


# ---- factors: numbers that multiply one of the tensors

cdef bint differs_from_one(object alpha) except -1:
    """False for what has no effect as a factor; scale_of checks the rest."""
    return PyBool_Check(alpha) or not (isinstance(alpha, (int, float)) and alpha == 1)


cdef object factor_in(object v, int code):
    """A factor as a number of this dtype, cut to an integer for integers; RuntimeError where there is no such number."""
    cdef Tensor place = scalar_tensor(0, code)
    ops.fill_number(&place.m, check_word(v))
    if isinstance(v, complex) and category(code) != KIND_COMPLEX:
        v = v.real
    return bool(v) if code == BOOL else int(v) if is_integral(code) else v


def as_factor(value, Tensor like not None, str name, str arg):
    """`value` as a factor in the numbers of `like`; halves multiply by float32 numbers."""
    return factor_in(as_scalar(value, name, arg), FLOAT32 if is_half(like.m.dtype) else like.m.dtype)


cdef object scale_of(object v, int code, str name, str arg):
    """A factor of the same kind as the result, whose dtype is `code`, rounded to that dtype."""
    cdef Tensor place
    v = as_scalar(v, name, arg)
    if isinstance(v, bool) and code != BOOL:
        raise RuntimeError(f"{name}(): Boolean {arg} only supported for Boolean results, got {arg}={v} for a result of dtype "
                           f"{dtype_object(code)}")
    if category(code) < 2 and not isinstance(v, int):
        raise RuntimeError(f"{name}(): For integral input tensors, argument {arg} must not be a floating point number, got "
                           f"{v}")
    if category(code) == KIND_FLOAT and isinstance(v, complex):
        raise RuntimeError(f"{name}(): For non-complex input tensors, argument {arg} must not be a complex number, got {v}")
    v = factor_in(v, code)
    if is_half(code):
        place = scalar_tensor(v, code)
        v = ops.item(&place.m)
    return v


def as_scale(value, Tensor like not None, str name, str arg):
    """`value` as a factor of the kind of `like`: no fraction for integers, bool for bool only."""
    return scale_of(value, like.m.dtype, name, arg)


cdef inline bint plain_factor(object v, int code) except -1:
    """Whether v is as it is a number of this dtype: the usual case, without a look through all rules."""
    if PyFloat_CheckExact(v):
        return (code == FLOAT32 or code == FLOAT64) and -1e38 < PyFloat_AS_DOUBLE(v) < 1e38
    return PyLong_CheckExact(v) and (code == FLOAT32 or code == FLOAT64 or code == INT64) and -0x8000000 < v < 0x8000000


cdef bint is_double(object v) except -1:
    """Whether a kernel's scalar argument, a double, can be this number."""
    return not (isinstance(v, complex) and v.imag or isinstance(v, int) and not -0x20000000000000 <= v <= 0x20000000000000)


cdef Tensor times(Tensor t, object factor, int code):
    """t times a number that is no double, computed in the dtype `code`."""
    if t.m.dtype != code:
        t = op_cast(t, code)
    return op_mul(t, wrap(factor, t, False))


cdef Tensor factored(object v, Tensor t, Tensor like, str name, str arg, double* to):
    """The tensor that the factor v multiplies, with `to` for what is left of the factor: t and the number itself if that is
    a double, else their product and 1."""
    cdef int code = result_code(like, t, None)
    if plain_factor(v, code):
        to[0] = v
        return t
    v = factor_in(as_scalar(v, name, arg), FLOAT32 if is_half(code) else code)
    to[0] = 1
    if not is_double(v):
        return times(t, v, code)
    to[0] = v.real
    return t


cdef Tensor with_alpha(int op, int scaled, Tensor a, Tensor b, object alpha, str name, Tensor target):
    """A sum or difference with a factor on b; `scaled` is the operation with a factor that is a double."""
    cdef double attr[2]
    cdef int code = result_code(a, b, None)
    attr[1] = 0
    if plain_factor(alpha, code):
        attr[0] = alpha
        return binary_with(scaled, a, b, attr) if target is None else pointwise(scaled, 2, a, b, None, attr, target)
    alpha = scale_of(alpha, code, name, "alpha")
    if not is_double(alpha):
        return pointwise(op, 2, a, times(b, alpha, code), None, NULL, target)
    attr[0] = alpha.real
    return pointwise(scaled, 2, a, b, None, attr, target)


cdef list as_tensors(object v, str name, str arg):
    """A non-empty sequence of tensors."""
    if isinstance(v, Tensor) or not isinstance(v, (tuple, list)):
        wrong_type(v, name, arg, "tuple of Tensors")
    for i, t in enumerate(v):
        if not isinstance(t, Tensor):
            raise TypeError(f"{name}(): expected Tensor as element {i} in argument '{arg}', but got {kind_of(t)}")
    return list(v)


cdef int check_out(Tensor y, object out, bint exact) except -1:
    """Whether y can be written to what the user gave as `out`. exact: they must have the same dtype."""
    cdef Tensor o
    if not isinstance(out, Tensor):
        raise TypeError(f"argument 'out' must be Tensor, not {kind_of(out)}")
    o = <Tensor>out
    if exact and o.m.dtype != y.m.dtype:
        raise RuntimeError(f"Expected out tensor to have dtype {dtype_object(y.m.dtype)}, but got {dtype_object(o.m.dtype)} instead")
    if o.m.device != y.m.device:
        raise RuntimeError(f"Expected out tensor to have device {device_object(y.m.device)}, but got {device_object(o.m.device)} instead")
    if shows_tangent(y) or shows_tangent(o):
        raise NotImplementedError("forward mode does not go through out=...: one of the arguments has a tangent")
    if recording() and (needs(y) or needs(o)):
        raise RuntimeError("out=... arguments don't support automatic differentiation, but one of the arguments "
                           "requires grad")
    if not storable(y.m.dtype, o.m.dtype):
        raise RuntimeError(f"result type {dtype_word(y.m.dtype)} can't be cast to the desired output type "
                           f"{dtype_word(o.m.dtype)}")
    if not meta_same_shape(&o.m, &y.m):
        return check_size(o, &y.m)
    check_writable(o)
    return check_history(o, False)


cdef Tensor write_out(Tensor y, Tensor o):
    """Writes y to what `check_out` has seen."""
    if not meta_same_shape(&o.m, &y.m):
        resize(o, &y.m)
    copy_in(o, y)
    rename_write(o, named_write("a call with out="))
    return o


cdef object finish(Tensor y, object out):
    """Hands y over, or writes it to the tensor that the user gave as `out`."""
    if out is None:
        return y
    check_out(y, out, False)
    return write_out(y, <Tensor>out)


cdef object finish_exact(Tensor y, object out):
    """`finish`, for operations whose `out` must have the dtype of the result."""
    if out is None:
        return y
    check_out(y, out, True)
    return write_out(y, <Tensor>out)


def deliver(result, out, bint exact=False):
    """Writes a result to the tensor that the user gave as `out`; a tuple of results to a tuple of tensors: to all or to none."""
    if not isinstance(result, tuple):
        return finish_exact(<Tensor?>result, out) if exact else finish(<Tensor?>result, out)
    if not isinstance(out, (tuple, list)) or len(out) != len(result):
        raise TypeError(f"argument 'out' must be tuple of {len(result)} Tensors, not {kind_of(out)}")
    for r, o in zip(result, out):
        check_out(<Tensor?>r, o, exact)
    written = [write_out(<Tensor>r, <Tensor>o) for r, o in zip(result, out)]
    return type(result)(*written) if hasattr(result, "_fields") else type(out)(written)


cdef int check_size(Tensor o, const Meta* like) except -1:
    """Only an empty `out` may get the shape of the result: PyTorch warns about others, we refuse."""
    if o.m.numel:
        raise RuntimeError(f"out has shape {list(shape_tuple(&o.m))}, the result has {list(shape_tuple(like))}: pass "
                           f"one of that shape or an empty one")
    return 0


cdef int resize(Tensor o, const Meta* like) except -1:
    """Gives an `out` the shape of the result."""
    cdef Storage s
    cdef int code = o.m.dtype
    check_size(o, like)
    s = storage_on(o.m.device, like.numel * ITEMSIZE[code])
    tensor_strip(o)
    meta_dense_like(&o.m, like, code)          # in the result's layout, as PyTorch allocates it
    adopt(o, s)
    o.m.data = s.ptr
    o.base = None
    return 0


cdef int check_new(object device, object requires_grad, int code, str name) except -1:
    """Options of all new tensors, read before anything is made or drawn, as `finish_new` takes them: 1 if a gradient is wanted, and
    twice the number of the device."""
    cdef bint on = requires_grad is not None and as_flag(requires_grad, name, "requires_grad")
    cdef int place = device_code(device)
    if on and category(code) < 2:
        raise RuntimeError(f"{name}(): only Tensors of floating point and complex dtype can require gradients, not "
                           f"{dtype_object(code)}")
    return place << 1 | on


# ---- slices

cdef bint slice_bounds(object s, int64_t size, int64_t* start, int64_t* stop, int64_t* step) except -1:
    """Whether it plainly is the whole, of which no view is made."""
    cdef bint plain
    step[0] = 1 if s.step is None else slice_number(s.step)
    if step[0] <= 0:
        raise ValueError(f"step must be greater than zero, got {s.step}")
    start[0] = 0 if s.start is None else slice_number(s.start)
    stop[0] = size if s.stop is None else slice_number(s.stop)
    plain = start[0] == 0 and stop[0] >= size and step[0] == 1
    if start[0] < 0:
        start[0] = larger(start[0] + size, 0)
    if stop[0] < 0:
        stop[0] = larger(stop[0] + size, 0)
    start[0] = smaller(start[0], size)
    stop[0] = larger(smaller(stop[0], size), start[0])
    return plain


cdef inline int64_t smaller(int64_t a, int64_t b) noexcept:
    return a if a < b else b


cdef inline int64_t larger(int64_t a, int64_t b) noexcept:
    return a if a > b else b


cdef int64_t slice_number(object v) except? -1:
    """A bound of a slice; what is beyond 64 bits is beyond every tensor."""
    cdef int overflow = 0
    cdef int64_t i
    if not PyLong_CheckExact(v):
        if not hasattr(v, "__index__"):
            raise TypeError(f"slice indices must be integers or None or have an __index__ method, got {kind_of(v)}")
        v = v.__index__()
    i = PyLong_AsLongLongAndOverflow(v, &overflow)
    return i if overflow == 0 else overflow * <int64_t>0x7FFFFFFFFFFFFFFF
