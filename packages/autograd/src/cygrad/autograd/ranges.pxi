# ranges: tensors of numbers that follow one another. May use: args, construct.

cdef object as_bound(object v, str arg):
    """A number of a range, as Python has it."""
    if isinstance(v, Tensor) and (<Tensor>v).m.ndim == 0:
        return (<Tensor>v).item()
    if not (isinstance(v, (int, float)) or isinstance(v, np_type("number"))):
        wrong_type(v, "arange", arg, "Number")
    return v


def arange(start=REQUIRED, end=None, step=1, *, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """Numbers from `start` (0 when only one is given) up to, without, `end`, `step` apart."""
    cdef Tensor y = tensor_new()
    cdef int code
    if end is None:
        start, end = 0, start
    start, end, step = as_bound(start, "start"), as_bound(end, "end"), as_bound(step, "step")
    real = dtype is None and _py.any(isinstance(v, float) or isinstance(v, np_type("floating")) for v in (start, end, step))
    code = code_beside(dtype, out, default_dtype() if real else INT64)
    pin = check_layout(layout, pin_memory, "arange")
    on = check_new(device, requires_grad, code, "arange")
    y.m.device = on >> 1
    adopt(y, ops.op_arange(&y.m, start, end, step, code))
    return finish(pin_new(finish_new(y, on), pin), out)


cdef double as_end(object v, int code, str arg) except? -1.25:
    """First or last number of an evenly spaced range, cut to an integer for an integer dtype."""
    cdef double end
    if isinstance(v, Tensor) and (<Tensor>v).m.ndim:
        raise RuntimeError(f"linspace(): only supports 0-dimensional start and end tensors, but got {arg} with "
                           f"{(<Tensor>v).m.ndim} dimension(s)")
    end = as_number(v, "linspace", arg)
    if category(code) != 1:
        return end
    if not -9.3e18 < end < 9.3e18:
        raise RuntimeError(f"linspace(): value cannot be converted to type int64_t without overflow: {end}")
    return <double><int64_t>end


def linspace(start=REQUIRED, end=REQUIRED, steps=REQUIRED, *, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """`steps` numbers evenly spaced from `start` to `end`, both included."""
    cdef Tensor y = tensor_new()
    cdef int code = code_beside(dtype, out, default_dtype())
    cdef double first = as_end(start, code, "start"), last = as_end(end, code, "end")
    cdef int64_t n = as_index(steps, "linspace", "steps")
    pin = check_layout(layout, pin_memory, "linspace")
    if n < 0:
        raise RuntimeError(f"linspace(): number of steps must be non-negative, got {n}")
    on = check_new(device, requires_grad, code, "linspace")
    y.m.device = on >> 1
    adopt(y, ops.op_linspace(&y.m, first, last, n, code))
    return finish(pin_new(finish_new(y, on), pin), out)


def eye(n=REQUIRED, m=None, *, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """Ones on the diagonal of an (n, m) matrix of zeros."""
    cdef Tensor y = tensor_new()
    cdef int64_t rows = as_index(n, "eye", "n"), columns = rows if m is None else as_index(m, "eye", "m")
    cdef int code = code_beside(dtype, out, default_dtype())
    pin = check_layout(layout, pin_memory, "eye")
    if rows < 0 or columns < 0:
        raise RuntimeError(f"eye(): n and m must be greater or equal to 0, got {rows} and {columns}")
    on = check_new(device, requires_grad, code, "eye")
    y.m.device = on >> 1
    adopt(y, ops.op_eye(&y.m, rows, columns, code))
    return finish(pin_new(finish_new(y, on), pin), out)
