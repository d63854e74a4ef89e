# construct: tensors from data and from nothing. May use: args.

import numpy as _numpy


cdef Tensor finish_new(Tensor y, object requires_grad):
    if requires_grad:
        set_requires_grad(y, True)
    return y


cdef int set_requires_grad(Tensor t, bint on) except -1:
    if on and category(t.m.dtype) < 2:
        raise RuntimeError(f"only Tensors of floating point and complex dtype can require gradients, this one is {dtype_object(t.m.dtype)}")
    if t.fn is not None:
        if not on:
            raise RuntimeError("you can only change requires_grad flags of leaf variables; use y = x.detach() to cut the graph")
        return 0
    if on:
        t.flags |= REQUIRES_GRAD
    else:
        t.flags &= ~REQUIRES_GRAD
    return 0


# ---- nested sequences ----------------------------------------------------------------------------------------------------------------

cdef inline bint is_nested(object v):
    return (isinstance(v, (list, tuple, range)) or
            (not isinstance(v, (str, bytes, float, int)) and PySequence_Check(v) and hasattr(v, "__len__") and getattr(v, "ndim", 1) != 0))


cdef int shape_of(object data, Dims* d) except -1:
    """Shape by the first elements; scan() checks that the others agree."""
    d.n = 0
    while is_nested(data):
        if isinstance(data, (str, bytes)):
            break
        if d.n == MAXDIM:
            raise ValueError(f"tensor(): nested deeper than {MAXDIM} levels")
        d.v[d.n] = len(data)
        d.n += 1
        if d.v[d.n - 1] == 0:
            break
        data = data[0]
    return 0


cdef int scan(object data, const Dims* d, int depth, int code) except -2:
    """Checks that the sequence is not ragged; returns the dtype of its elements promoted with `code` (-1: none yet)."""
    cdef int found
    if depth < d.n:
        if not is_nested(data):
            raise TypeError(f"tensor(): expected a sequence of length {d.v[depth]} at dim {depth}, got {kind_of(data)}: not a sequence")
        if len(data) != d.v[depth]:
            raise ValueError(f"expected sequence of length {d.v[depth]} at dim {depth} (got {len(data)})")
        for item in data:
            code = scan(item, d, depth + 1, code)
        return code
    if PyFloat_CheckExact(data):
        found = default_dtype()
    elif PyBool_Check(data):
        found = BOOL
    elif PyLong_CheckExact(data):
        found = INT64
    elif isinstance(data, Tensor):
        if (<Tensor>data).m.numel != 1:
            raise ValueError(f"tensor(): only one element tensors can be converted to Python scalars, got shape {list((<Tensor>data).shape)}")
        found = (<Tensor>data).m.dtype
    elif isinstance(data, _numpy.generic):
        found = dtype_of_numpy(data.dtype)
    elif isinstance(data, float):
        found = default_dtype()
    elif isinstance(data, int):
        found = INT64
    elif is_nested(data) and not isinstance(data, (str, bytes)):
        raise ValueError(f"expected scalars at dim {depth}, got a sequence of length {len(data)}: the nesting is ragged")
    else:
        raise TypeError(f"tensor(): invalid data type {kind_of(data)!r}, wanted numbers, bools or sequences of them")
    return found if code < 0 else promote(code, found)


cdef int store(object data, const Dims* d, int depth, char** at, int code) except -1:
    cdef object v
    if depth < d.n:
        for item in data:
            store(item, d, depth + 1, at, code)
        return 0
    v = data
    if code == FLOAT32:
        (<float*>at[0])[0] = <float><double>v
    elif code == FLOAT64:
        (<double*>at[0])[0] = <double>v
    elif code == BOOL:
        (<uint8_t*>at[0])[0] = 1 if v else 0
    else:
        if not PyLong_CheckExact(v):
            v = int(v)
        if code == INT64:
            (<int64_t*>at[0])[0] = int_value(v)
        else:
            if not int_fits(v, code):
                raise RuntimeError(f"value cannot be converted to type {dtype_object(code).name} without overflow: {v}")
            if code == INT32:
                (<int32_t*>at[0])[0] = v
            elif code == UINT8:
                (<uint8_t*>at[0])[0] = v
            else:
                raise RuntimeError(f"tensor(): not implemented for dtype {dtype_object(code)}")
    at[0] += ITEMSIZE[code]
    return 0


cdef Tensor from_sequence(object data, int code):
    cdef Dims d
    cdef Tensor y
    cdef char* at
    cdef int found
    if isinstance(data, (str, bytes)):
        raise TypeError(f"tensor(): invalid data type {kind_of(data)!r}, wanted numbers, bools or sequences of them")
    shape_of(data, &d)
    found = scan(data, &d, 0, -1)
    if code < 0:
        code = default_dtype() if found < 0 else found
    y = tensor_new()
    meta_contig(&y.m, d.n, d.v, code)
    y.mem = meta_storage(&y.m)
    at = y.m.data
    if y.m.numel:
        store(data, &d, 0, &at, code)
    return y


cdef int dtype_of_numpy(object d) except -1:
    try:
        return _NUMPY_CODES[d.name]
    except KeyError:
        raise TypeError(f"can't convert np.ndarray of type {d.name}: supported are {', '.join(_NUMPY_CODES)}") from None


_NUMPY_CODES = {"bool": BOOL, "uint8": UINT8, "int32": INT32, "int64": INT64, "float32": FLOAT32, "float64": FLOAT64}


cdef Tensor from_buffer(object array):
    """Shares the memory of a NumPy array."""
    cdef Tensor y = tensor_new()
    cdef Dims sizes, strides
    from cygrad.storage.interop import storage_from_buffer
    s, shape, steps, kind = storage_from_buffer(array)
    dims_from(shape, &sizes)
    dims_from(steps, &strides)
    y.mem = s
    meta_strided(&y.m, sizes.n, sizes.v, strides.v, (<dtype?>kind).code, y.mem.ptr)
    return y


def tensor(data, *, dtype=None, device=None, requires_grad=False):
    """A new tensor with a copy of `data`.

    Parameters
    ----------
    data : number, nested sequence, numpy.ndarray or Tensor
    dtype : dtype, optional
        Default: bool for bools, int64 for integers, the default dtype for floats; an array's own.
    device : str or device, optional
        Only ``"cpu"`` in this build.
    requires_grad : bool

    Raises
    ------
    ValueError
        The sequences are ragged.
    TypeError
        Something in `data` is not a number.
    """
    cdef int code = code_or_none(dtype)
    cdef Tensor y, src
    check_device(device)
    if isinstance(data, Tensor):
        src = <Tensor>data
        y = tensor_new()
        y.mem = ops.op_clone(&y.m, &src.m, src.m.dtype if code < 0 else code, False)
    elif isinstance(data, _numpy.ndarray):
        src = from_buffer(data) if _py.min(data.strides, default=1) >= 0 and data.dtype.isnative else from_buffer(data.astype(data.dtype.newbyteorder("="), order="C"))
        y = tensor_new()
        y.mem = ops.op_clone(&y.m, &src.m, src.m.dtype if code < 0 else code, False)
    else:
        y = from_sequence(data, code)
    return finish_new(y, requires_grad)


def as_tensor(data, dtype=None, device=None):
    """`data` as a tensor: itself, or sharing a NumPy array's memory, when no conversion is needed; else a copy."""
    cdef Tensor y
    check_device(device)
    if isinstance(data, Tensor):
        y = <Tensor>data
    elif isinstance(data, _numpy.ndarray) and _py.min(data.strides, default=1) >= 0:
        y = from_buffer(data)
    else:
        return tensor(data, dtype=dtype, device=device)
    return y if dtype is None or dtype_code(dtype) == y.m.dtype else op_cast(y, dtype_code(dtype))


def from_numpy(ndarray):
    """A tensor over the array's own memory: writing one shows in the other.

    Raises
    ------
    TypeError
        Not an array, or of a dtype that tensors do not have.
    ValueError
        Negative strides.
    """
    if not isinstance(ndarray, _numpy.ndarray):
        raise TypeError(f"expected np.ndarray (got {kind_of(ndarray)})")
    return from_buffer(ndarray)


def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """A 1-d tensor over the memory of an object with the buffer protocol, which stays alive and fixed as long as the tensor."""
    cdef Tensor y = tensor_new()
    cdef Dims d
    from cygrad.storage.interop import storage_from_bytes
    s, elements = storage_from_bytes(buffer, dtype_object(dtype_code(dtype)), count, offset)
    y.mem = s
    d.n = 1
    d.v[0] = elements
    meta_contig(&y.m, 1, d.v, dtype_code(dtype))
    y.m.data = y.mem.ptr
    return finish_new(y, requires_grad)


# ---- filled tensors ------------------------------------------------------------------------------------------------------------------

cdef Tensor filled(const Dims* d, object value, int code):
    cdef Tensor y = tensor_new()
    meta_contig(&y.m, d.n, d.v, code)
    y.mem = meta_storage(&y.m)
    if value is not None and y.m.numel:
        ops.fill_number(&y.m, value)
    return y


cdef Tensor filled_zero(const Dims* d, double value, int code):
    cdef Tensor y = tensor_new()
    y.mem = ops.op_full(&y.m, d.n, d.v, value, code)
    return y


cdef inline int code_or_default(object d) except -1:
    return default_dtype() if d is None else dtype_code(d)


def zeros(*size, dtype=None, device=None, requires_grad=False, out=None):
    """A tensor of zeros of the given shape."""
    cdef Dims d
    parse_shape(size, &d, "zeros")
    check_device(device)
    return finish(finish_new(filled_zero(&d, 0.0, code_or_default(dtype)), requires_grad), out)


def ones(*size, dtype=None, device=None, requires_grad=False, out=None):
    """A tensor of ones of the given shape."""
    cdef Dims d
    parse_shape(size, &d, "ones")
    check_device(device)
    return finish(finish_new(filled_zero(&d, 1.0, code_or_default(dtype)), requires_grad), out)


def empty(*size, dtype=None, device=None, requires_grad=False):
    """An uninitialised tensor of the given shape."""
    cdef Dims d
    parse_shape(size, &d, "empty")
    check_device(device)
    return finish_new(filled(&d, None, code_or_default(dtype)), requires_grad)


def full(size, fill_value, *, dtype=None, device=None, requires_grad=False):
    """A tensor of the given shape filled with a number, whose kind decides the dtype when none is given."""
    cdef Dims d
    parse_ints(size, &d, "full", "size")
    check_device(device)
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    if dtype is None:
        code = BOOL if isinstance(fill_value, bool) else INT64 if isinstance(fill_value, int) else default_dtype()
    else:
        code = dtype_code(dtype)
    if not isinstance(fill_value, (int, float)):
        raise TypeError(f"full(): argument 'fill_value' must be Number, not {kind_of(fill_value)}")
    return finish_new(filled(&d, fill_value, code), requires_grad)


def zeros_like(Tensor input not None, *, dtype=None, device=None, requires_grad=False):
    """Zeros in the shape, dtype and layout of `input`."""
    return finish_new(like(input, 0.0, dtype, device), requires_grad)


def ones_like(Tensor input not None, *, dtype=None, device=None, requires_grad=False):
    """Ones in the shape, dtype and layout of `input`."""
    return finish_new(like(input, 1.0, dtype, device), requires_grad)


def empty_like(Tensor input not None, *, dtype=None, device=None, requires_grad=False):
    """Uninitialised, in the shape, dtype and layout of `input`."""
    return finish_new(like(input, None, dtype, device), requires_grad)


def full_like(Tensor input not None, fill_value, *, dtype=None, device=None, requires_grad=False):
    """A number in the shape, dtype and layout of `input`."""
    return finish_new(like(input, fill_value, dtype, device), requires_grad)


cdef Tensor like(Tensor t, object value, object dt, object device):
    cdef Tensor y = tensor_new()
    check_device(device)
    meta_dense_like(&y.m, &t.m, t.m.dtype if dt is None else dtype_code(dt))
    y.mem = meta_storage(&y.m)
    if value is not None and y.m.numel:
        ops.fill_number(&y.m, value)
    return y


def arange(start, end=None, step=1, *, dtype=None, device=None, requires_grad=False):
    """Numbers from `start` (0 when only one is given) up to, without, `end`, `step` apart."""
    cdef Tensor y = tensor_new()
    check_device(device)
    if end is None:
        start, end = 0, start
    for name, v in (("start", start), ("end", end), ("step", step)):
        if isinstance(v, Tensor):
            continue
        if not isinstance(v, (int, float)):
            raise TypeError(f"arange(): argument '{name}' must be Number, not {kind_of(v)}")
    start, end, step = (v.item() if isinstance(v, Tensor) else v for v in (start, end, step))
    code = dtype_code(dtype) if dtype is not None else default_dtype() if _py.any(isinstance(v, float) for v in (start, end, step)) else INT64
    y.mem = ops.op_arange(&y.m, start, end, step, code)
    return finish_new(y, requires_grad)


def linspace(double start, double end, int64_t steps, *, dtype=None, device=None, requires_grad=False):
    """`steps` numbers evenly spaced from `start` to `end`, both included."""
    cdef Tensor y = tensor_new()
    check_device(device)
    if steps < 0:
        raise RuntimeError(f"linspace(): number of steps must be non-negative, got {steps}")
    y.mem = ops.op_linspace(&y.m, start, end, steps, code_or_default(dtype))
    return finish_new(y, requires_grad)


def eye(int64_t n, m=None, *, dtype=None, device=None, requires_grad=False):
    """Ones on the diagonal of an (n, m) matrix of zeros."""
    cdef Tensor y = tensor_new()
    check_device(device)
    columns = n if m is None else as_index(m, "eye", "m")
    if n < 0 or columns < 0:
        raise RuntimeError(f"eye(): n and m must be greater or equal to 0, got {n} and {columns}")
    y.mem = ops.op_eye(&y.m, n, columns, code_or_default(dtype))
    return finish_new(y, requires_grad)


# ---- random numbers --------------------------------------------------------------------------------------------------------------------

cdef object generator_of(object g):
    if g is None:
        return ops.default_generator()
    if not isinstance(g, ops.Generator):
        raise TypeError(f"argument 'generator' must be Generator, not {kind_of(g)}")
    return g


def rand(*size, generator=None, dtype=None, device=None, requires_grad=False):
    """Uniform numbers in [0, 1)."""
    cdef Dims d
    cdef Tensor y
    parse_shape(size, &d, "rand")
    check_device(device)
    y = filled(&d, None, code_or_default(dtype))
    ops.uniform_into(&y.m, 0.0, 1.0, generator_of(generator))
    return finish_new(y, requires_grad)


def randn(*size, generator=None, dtype=None, device=None, requires_grad=False):
    """Normal numbers of mean 0 and variance 1."""
    cdef Dims d
    cdef Tensor y
    parse_shape(size, &d, "randn")
    check_device(device)
    y = filled(&d, None, code_or_default(dtype))
    ops.normal_into(&y.m, 0.0, 1.0, generator_of(generator))
    return finish_new(y, requires_grad)


def randint(low, high=None, size=None, *, generator=None, dtype=None, device=None, requires_grad=False):
    """Integers in [low, high); ``randint(high, size)`` starts at 0."""
    cdef Dims d
    cdef Tensor y
    if size is None:
        low, high, size = 0, low, high
    parse_ints(size, &d, "randint", "size")
    check_device(device)
    low, high = as_index(low, "randint", "low"), as_index(high, "randint", "high")
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    y = filled(&d, None, INT64 if dtype is None else dtype_code(dtype))
    ops.random_into(&y.m, low, high, generator_of(generator))
    return finish_new(y, requires_grad)


def randperm(int64_t n, *, generator=None, dtype=None, device=None, requires_grad=False):
    """A random permutation of 0 .. n - 1."""
    cdef Tensor y = tensor_new()
    check_device(device)
    if n < 0:
        raise RuntimeError(f"randperm(): n must be non-negative, got {n}")
    y.mem = ops.op_randperm(&y.m, n, INT64 if dtype is None else dtype_code(dtype), generator_of(generator))
    return finish_new(y, requires_grad)


def rand_like(Tensor input not None, *, dtype=None, device=None, requires_grad=False):
    """Uniform numbers in [0, 1) in the shape of `input`."""
    cdef Tensor y = like(input, None, dtype, device)
    ops.uniform_into(&y.m, 0.0, 1.0, ops.default_generator())
    return finish_new(y, requires_grad)


def randn_like(Tensor input not None, *, dtype=None, device=None, requires_grad=False):
    """Normal numbers of mean 0 and variance 1 in the shape of `input`."""
    cdef Tensor y = like(input, None, dtype, device)
    ops.normal_into(&y.m, 0.0, 1.0, ops.default_generator())
    return finish_new(y, requires_grad)


def manual_seed(seed):
    """Starts the default generator anew: the same seed gives the same numbers, and PyTorch's. Returns the generator."""
    return ops.default_generator().manual_seed(seed)


def get_default_dtype():
    """The dtype of tensors made from Python floats."""
    return dtype_object(default_dtype())


def set_default_dtype(d):
    """Sets the dtype of tensors made from Python floats: float32 or float64."""
    set_default(dtype_code(d))
