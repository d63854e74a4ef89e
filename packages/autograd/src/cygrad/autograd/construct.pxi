# construct: tensors from data and from nothing. May use: args.



cdef Tensor finish_new(Tensor y, int wanted):
    """A new tensor as `check_new` read that it is wanted."""
    if wanted >> 1 != y.m.device:
        y = on_device(y, wanted >> 1)
    if wanted & 1:
        y.flags |= REQUIRES_GRAD
    if cyg_level != NULL and (<Level>cyg_level).differentiated and not y.flags & BATCHED:
        return shown_in_all(y)
    return y


cdef int set_requires_grad(Tensor t, bint on) except -1:
    if on and category(t.m.dtype) < 2:
        raise RuntimeError(f"only Tensors of floating point and complex dtype can require gradients, this one is "
                           f"{dtype_object(t.m.dtype)}")
    if t.fn is not None:
        if not on:
            raise RuntimeError("you can only change requires_grad flags of leaf variables; use y = x.detach() to cut "
                               "the graph")
        return 0
    if on and t.mem is not None and t.mem.origin and not cyg_mode & MODE_INFERENCE:
        raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed. clone() it for a normal "
                           "tensor first")
    if on:
        t.flags |= REQUIRES_GRAD
    else:
        t.flags &= ~REQUIRES_GRAD
    return 0


# ---- nested sequences ------------------------------------------------------------------------------------------------

cdef inline bint is_nested(object v):
    """A sequence other than text; tensors count as numbers, arrays as sequences of their rows."""
    if isinstance(v, (list, tuple, range)):
        return True
    return (not isinstance(v, (str, bytes, float, int, Tensor)) and PySequence_Check(v) and hasattr(v, "__len__")
            and getattr(v, "ndim", 1) != 0)


cdef int shape_of(object data, Dims* d) except -1:
    """Shape by the first elements; scan() checks that the others agree."""
    d.n = 0
    while is_nested(data):
        if d.n == MAXDIM:
            raise ValueError(f"tensor(): nested deeper than {MAXDIM} levels")
        d.v[d.n] = len(data)
        d.n += 1
        if d.v[d.n - 1] == 0:
            break
        data = data[0]
    return 0


cdef int scan(object data, const Dims* d, int depth, int code, bint given) except -2:
    """Checks that the sequence is not ragged; returns the dtype of its elements promoted with `code` (-1: none yet).
    given: the user named a dtype, so that an element needs to be a number only."""
    cdef int found = -1
    cdef int64_t met
    if depth < d.n:
        if not is_nested(data):
            if isinstance(data, (float, int, complex, Tensor)) or isinstance(data, np_type("generic")):
                raise TypeError(f"tensor(): expected a sequence of length {d.v[depth]} at dim {depth}, got "
                                f"{kind_of(data)}: not a sequence")
            bad_element(data, depth, given)
        if len(data) != d.v[depth]:
            raise ValueError(f"expected sequence of length {d.v[depth]} at dim {depth} (got {len(data)})")
        met = 0
        for item in data:
            met += 1
            code = scan(item, d, depth + 1, code, given)
        if met != d.v[depth]:
            uneven(met, d.v[depth], depth)
        return code
    if PyFloat_CheckExact(data):
        found = default_dtype()
    elif PyBool_Check(data):
        found = BOOL
    elif PyLong_CheckExact(data):
        found = INT64
    elif isinstance(data, Tensor):
        if (<Tensor>data).m.numel != 1:
            raise ValueError(f"tensor(): only one element tensors can be converted to Python scalars, got shape "
                             f"{list((<Tensor>data).shape)}")
        found = (<Tensor>data).m.dtype
    elif isinstance(data, np_type("generic")) and not isinstance(data, (str, bytes)):
        found = dtype_of_numpy(data.dtype)
    elif isinstance(data, float):
        found = default_dtype()
    elif isinstance(data, int):
        found = INT64
    elif isinstance(data, complex):
        found = default_complex()
    else:
        bad_element(data, depth, given)
    return found if code < 0 else promote(code, found)


cdef int uneven(int64_t met, int64_t length, int depth) except -1:
    """A sequence gave more or fewer elements than its length says, or than it gave before."""
    found = "more" if met > length else met
    raise ValueError(f"tensor(): expected a sequence of length {length} at dim {depth}, but it gave {found} elements")


cdef int bad_element(object data, int depth, bint given) except -1:
    """Raises what PyTorch does for an element that is no number."""
    if isinstance(data, str) and depth:
        raise ValueError(f"tensor(): too many dimensions: a 'str' at dim {depth} is neither a number nor a sequence "
                         f"of numbers")
    if isinstance(data, (str, bytes)):
        raise TypeError(f"tensor(): invalid data type {kind_of(data)!r}, wanted numbers, bools or sequences of them")
    if is_nested(data):
        raise TypeError(f"tensor(): expected a number at dim {depth}, got {kind_of(data)} of length {len(data)}: the "
                        f"nesting is ragged")
    if given:
        raise TypeError(f"tensor(): must be real number, not {kind_of(data)}")
    raise RuntimeError(f"tensor(): Could not infer dtype of {kind_of(data)}, wanted numbers, bools or sequences of "
                       f"them")


cdef int store(object data, const Dims* d, int depth, char** at, int code) except -1:
    cdef int64_t met
    if depth < d.n:
        met = 0
        for item in data:               # reading an element may run the user's code, which may change the sequence
            met += 1
            if met > d.v[depth]:
                break
            store(item, d, depth + 1, at, code)
        if met != d.v[depth]:
            uneven(met, d.v[depth], depth)
        return 0
    if code == FLOAT32:
        (<float*>at[0])[0] = <float><double>data
    elif code == FLOAT64:
        (<double*>at[0])[0] = <double>data
    elif code == BOOL:
        (<uint8_t*>at[0])[0] = 1 if data else 0
    elif code == INT64:
        (<int64_t*>at[0])[0] = integer(data, code)
    else:
        store_converted(data, at[0], code)
    at[0] += ITEMSIZE[code]
    return 0


cdef int store_converted(object data, char* at, int code) except -1:
    """An element of a dtype that is reached through int64, double or complex128."""
    cdef double cell[2]
    cdef int64_t i
    if is_float(code):
        cell[0] = data
        ops.convert_one(at, code, cell, FLOAT64)
    elif category(code) == KIND_COMPLEX:
        if isinstance(data, (Tensor, *_py.filter(None, (np_type("generic"),)))):
            data = data.item()
        z = complex(data)
        cell[0], cell[1] = z.real, z.imag
        ops.convert_one(at, code, cell, COMPLEX128)
    elif code == UINT64:
        (<uint64_t*>at)[0] = unsigned_integer(data)
    else:
        i = integer(data, code)
        ops.convert_one(at, code, &i, INT64)
    return 0


cdef uint64_t unsigned_integer(object v) except? 7:
    """An integer of 64 bits without sign. As in PyTorch, neither fractions nor negative numbers are taken."""
    if isinstance(v, Tensor) or isinstance(v, np_type("generic")):
        v = v.item()
    if not isinstance(v, int):
        raise TypeError(f"tensor(): an integer is wanted for {dtype_object(UINT64)!r}, got {v!r} of type {kind_of(v)}")
    if not 0 <= v <= 0xFFFFFFFFFFFFFFFF:
        raise OverflowError(f"tensor(): {v} does not fit {dtype_object(UINT64)!r}")
    return v


cdef int64_t integer(object v, int code) except? -1:
    """A number cut to an integer of the dtype; unsigned ones also take negative numbers and wrap them, as in PyTorch."""
    cdef int overflow = 0
    cdef int64_t i
    n = v
    if not PyLong_CheckExact(v):
        if isinstance(v, Tensor) or isinstance(v, np_type("generic")):
            v = v.item()
        if isinstance(v, float) and not -9.3e18 < v < 9.3e18:      # NaN too
            raise RuntimeError(f"value cannot be converted to type {dtype_object(code).name} without overflow: {v}")
        n = int(v)
    i = PyLong_AsLongLongAndOverflow(n, &overflow)
    if overflow and PyLong_CheckExact(v):
        raise ValueError(f"tensor(): Overflow when unpacking long long: {v} needs more than 64 bits")
    if overflow or not int_fits(-n if is_unsigned(code) and i < 0 and not isinstance(v, float) else n, code):
        raise RuntimeError(f"value cannot be converted to type {dtype_object(code).name} without overflow: {v}")
    return i


cdef Tensor from_sequence(object data, int code):
    cdef Dims d
    cdef Tensor y
    cdef char* at
    cdef int found = -1
    shape_of(data, &d)
    found = scan(data, &d, 0, -1, code >= 0)
    if code < 0:
        code = default_dtype() if found < 0 else found
    y = tensor_new()
    meta_contig(&y.m, d.n, d.v, code)
    adopt(y, meta_storage(&y.m))
    at = y.m.data
    if y.m.numel:
        store(data, &d, 0, &at, code)
    return y


cdef int dtype_of_numpy(object d) except -1:
    try:
        return _NUMPY_CODES[d.name]
    except KeyError:
        raise TypeError(f"can't convert np.ndarray of type {d.type.__name__.rstrip('_')}: supported are "
                        f"{', '.join(_NUMPY_CODES)}") from None


_NUMPY_CODES = {name: dtype_code(d) for name, d in _dtypes.items() if name == (<dtype>d).name and name != "bfloat16"}


cdef Tensor from_buffer(object array):
    """Shares the memory of a NumPy array."""
    cdef Tensor y = tensor_new()
    if type(array) is np_type("ndarray"):
        adopt(y, storage_of_array(&y.m, array))
    else:
        adopt(y, storage_of_buffer(&y.m, array))
    return y


def tensor(data=REQUIRED, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A new tensor with a copy of `data`.

    Parameters
    ----------
    data : number, nested sequence, numpy.ndarray or Tensor
    dtype : dtype, optional
        Default: bool for bools, int64 for integers, the default dtype for floats; an array's own.
    device : str or device, optional
        Default: that of `data`, if it is a Tensor; else the CPU.
    requires_grad : bool
    pin_memory : bool
        Whether its memory is page-locked, so that CUDA devices copy it on their own.

    Raises
    ------
    ValueError
        The sequences are ragged, hold text, or an integer has more than 64 bits.
    TypeError
        `data` is text, or a sequence stands where others have a number.
    RuntimeError
        Something in `data` is no number, or does not fit `dtype`.
    """
    cdef int code = code_or_none(dtype), pin = check_layout(None, pin_memory, "tensor")
    cdef Tensor y, src
    place = device
    if data is REQUIRED:
        wrong_type(data, "tensor", "data", "")
    if isinstance(data, Tensor):
        src = <Tensor>data
        place = src.device if device is None else device
    elif isinstance(data, np_type("ndarray")):
        if not (shareable(data) and data.dtype.isnative):
            data = data.astype(data.dtype.newbyteorder("="), order="C")
        src = from_buffer(data)
    else:
        y = from_sequence(data, code)
        return pin_new(finish_new(y, check_new(device, requires_grad, y.m.dtype, "tensor")), pin)
    code = src.m.dtype if code < 0 else code
    on = check_new(place, requires_grad, code, "tensor")
    if src.flags & BATCHED:
        return pin_new(finish_new(op_clone(cast_data(alias_of(src), code)), on), pin)
    y = tensor_new()
    adopt(y, ops.op_clone(&y.m, &src.m, code, False))
    return pin_new(finish_new(y, on), pin)


cdef bint shareable(object array):
    """No negative strides."""
    return _py.min(array.strides, default=1) >= 0


def as_tensor(data=REQUIRED, dtype=None, device=None):
    """`data` as a tensor: itself, or sharing a NumPy array's memory, when no conversion is needed; else a copy."""
    cdef int code = code_or_none(dtype), place
    cdef Tensor y
    if data is REQUIRED:
        wrong_type(data, "as_tensor", "data", "")
    if isinstance(data, Tensor):
        y = <Tensor>data
    elif isinstance(data, np_type("ndarray")) and shareable(data):
        y = from_buffer(data)
    else:
        return tensor(data, dtype=dtype, device=device)
    y = y if code < 0 or code == y.m.dtype else op_cast(y, code)
    place = device_code(device)
    # as in PyTorch, a default device that was chosen is asked for, and brings a tensor there; without one it stays
    return y if device is None and place == 0 and isinstance(data, Tensor) else op_to_device(y, place)


def from_numpy(ndarray=REQUIRED):
    """A tensor over the array's own memory: writing one shows in the other.

    Raises
    ------
    TypeError
        Not an array, or of a dtype that tensors do not have.
    ValueError
        Negative strides.
    """
    if not isinstance(ndarray, np_type("ndarray")):
        raise TypeError(f"from_numpy(): expected np.ndarray (got {kind_of(ndarray)})")
    return from_buffer(ndarray)


def frombuffer(buffer, *, dtype=REQUIRED, count=-1, offset=0, requires_grad=False):
    """A 1-d tensor over the memory of an object with the buffer protocol, which stays alive and fixed meanwhile."""
    cdef Tensor y = tensor_new()
    cdef Dims d
    cdef int code
    cdef bint on
    from cygrad.storage.interop import storage_from_bytes
    if dtype is REQUIRED:
        wrong_type(dtype, "frombuffer", "dtype", "")
    code = dtype_code(dtype)
    on = check_new(None, requires_grad, code, "frombuffer")
    s, elements = storage_from_bytes(buffer, dtype_object(code), as_index(count, "frombuffer", "count"),
                                     as_index(offset, "frombuffer", "offset"))
    adopt(y, s)
    d.n = 1
    d.v[0] = elements
    meta_contig(&y.m, 1, d.v, code)
    y.m.data = y.mem.ptr
    return finish_new(y, on & 1)               # over memory of the CPU, whatever the default device


# ---- filled tensors --------------------------------------------------------------------------------------------------

cdef Tensor on_device(Tensor x, int device):
    """A copy of x, without history, on another device."""
    cdef Tensor y = tensor_new()
    meta_dense_like(&y.m, &x.m, x.m.dtype)
    meta_place(&y.m, device)
    adopt(y, meta_storage(&y.m))
    ops.copy_into(&y.m, &x.m)
    return y


cdef Tensor filled(const Dims* d, object value, int code, int device):
    cdef Tensor y = tensor_new()
    y.m.device = device
    meta_contig(&y.m, d.n, d.v, code)
    adopt(y, meta_storage(&y.m))
    if value is not None and y.m.numel:
        ops.fill_number(&y.m, value)
    return y


cdef Tensor filled_zero(const Dims* d, double value, int code, int device):
    cdef Tensor y = tensor_new()
    y.m.device = device
    adopt(y, ops.op_full(&y.m, d.n, d.v, value, code))
    return y


cdef inline int code_or_default(object d) except -1:
    return default_dtype() if d is None else dtype_code(d)


cdef int code_beside(object d, object out, int otherwise) except -1:
    """dtype of a new tensor: the one given, that of the tensor `out` that it goes to, or another. Two have to agree."""
    cdef int code
    if out is None:
        return otherwise if d is None else dtype_code(d)
    if not isinstance(out, Tensor):
        raise TypeError(f"argument 'out' must be Tensor, not {kind_of(out)}")
    code = (<Tensor>out).m.dtype
    if d is not None and dtype_code(d) != code:
        raise RuntimeError(f"dtype {dtype_word(dtype_code(d))} does not match dtype of out parameter ({dtype_word(code)})")
    return code


cdef object as_fill(object v, str name, str arg="fill_value"):
    """The Python number that every element gets."""
    if isinstance(v, Tensor) and (<Tensor>v).m.ndim == 0:
        return (<Tensor>v).item()
    if isinstance(v, np_type("generic")):
        v = v.item()
    if not isinstance(v, (int, float, complex)):
        wrong_type(v, name, arg, "Number")
    return check_word(v)


def zeros(*sizes, size=None, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A tensor of zeros of the given shape."""
    cdef Dims d
    cdef int code = code_beside(dtype, out, default_dtype())
    parse_shape(sizes if size is None else (size, *sizes), &d, "zeros")
    pin = check_layout(layout, pin_memory, "zeros")
    on = check_new(device, requires_grad, code, "zeros")
    return finish(pin_new(finish_new(filled_zero(&d, 0.0, code, on >> 1), on), pin), out)


def ones(*sizes, size=None, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A tensor of ones of the given shape."""
    cdef Dims d
    cdef int code = code_beside(dtype, out, default_dtype())
    parse_shape(sizes if size is None else (size, *sizes), &d, "ones")
    pin = check_layout(layout, pin_memory, "ones")
    on = check_new(device, requires_grad, code, "ones")
    return finish(pin_new(finish_new(filled_zero(&d, 1.0, code, on >> 1), on), pin), out)


def empty(*sizes, size=None, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, memory_format=None):
    """An uninitialised tensor of the given shape."""
    cdef Dims d
    cdef int code = code_beside(dtype, out, default_dtype())
    parse_shape(sizes if size is None else (size, *sizes), &d, "empty")
    pin = check_layout(layout, pin_memory, "empty")
    on = check_new(device, requires_grad, code, "empty")
    y = filled(&d, None, code, on >> 1)
    if memory_format is not None and memory_format is not contiguous_format:
        y = like(y, None, None, None, False, "empty", memory_format)
    return finish(pin_new(finish_new(y, on), pin, False), out)


def full(size=REQUIRED, fill_value=REQUIRED, *, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A tensor of the given shape filled with a number, whose kind decides the dtype when none is given."""
    cdef Dims d
    cdef int code
    parse_ints(size, &d, "full", "size")
    fill_value = as_fill(fill_value, "full")
    code = (BOOL if isinstance(fill_value, bool) else INT64 if isinstance(fill_value, int)
            else default_complex() if isinstance(fill_value, complex) else default_dtype())
    code = code_beside(dtype, out, code)
    pin = check_layout(layout, pin_memory, "full")
    on = check_new(device, requires_grad, code, "full")
    return finish(pin_new(finish_new(filled(&d, fill_value, code, on >> 1), on), pin), out)


def zeros_like(input=REQUIRED, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, memory_format=None):
    """Zeros in the shape, dtype and layout of `input`."""
    pin = check_layout(layout, pin_memory, "zeros_like")
    return pin_new(like(input, 0.0, dtype, device, requires_grad, "zeros_like", memory_format), pin)


def ones_like(input=REQUIRED, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, memory_format=None):
    """Ones in the shape, dtype and layout of `input`."""
    pin = check_layout(layout, pin_memory, "ones_like")
    return pin_new(like(input, 1.0, dtype, device, requires_grad, "ones_like", memory_format), pin)


def empty_like(input=REQUIRED, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, memory_format=None):
    """Uninitialised, in the shape, dtype and layout of `input`."""
    pin = check_layout(layout, pin_memory, "empty_like")
    return pin_new(like(input, None, dtype, device, requires_grad, "empty_like", memory_format), pin, False)


def full_like(input=REQUIRED, fill_value=REQUIRED, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, memory_format=None):
    """A number in the shape, dtype and layout of `input`."""
    pin = check_layout(layout, pin_memory, "full_like")
    return pin_new(like(input, as_fill(fill_value, "full_like"), dtype, device, requires_grad, "full_like", memory_format), pin)


cdef Tensor like(object input, object value, object dt, object device, object requires_grad, str name, object order=None):
    cdef Tensor t = as_tensor_arg(input, name, "input"), y = tensor_new()
    cdef int code = t.m.dtype if dt is None else dtype_code(dt)
    cdef int on = check_new(device_object(t.m.device) if device is None else device, requires_grad, code, name)
    meta_in_format(&y.m, &t.m, format_of(order, t.m.ndim, name), code)
    meta_place(&y.m, on >> 1)
    adopt(y, meta_storage(&y.m))
    if value is not None and y.m.numel:
        ops.fill_number(&y.m, value)
    return finish_new(beside(y, t), on)


cdef Tensor beside(Tensor y, Tensor x):
    """The new tensor y, with room for each example if x is batched."""
    cdef Tensor z
    if not x.flags & BATCHED:
        return y
    z = copied_over(y, room_like(x), False)
    z.flags |= y.flags & REQUIRES_GRAD
    return z


def get_default_dtype():
    """The dtype of tensors made from Python floats."""
    return dtype_object(default_dtype())


def set_default_dtype(d):
    """Sets the dtype of tensors made from Python floats, a floating one; complex numbers become its complex counterpart."""
    set_default(dtype_code(d))
