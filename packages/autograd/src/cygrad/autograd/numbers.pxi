# numbers: Python numbers as operands beside tensors. May use: opcall.

cdef Tensor scalar_tensor(double value, int code):
    """A 0-d tensor that counts as a Python number in promotion."""
    cdef Tensor y = tensor_new()
    meta_contig(&y.m, 0, NULL, code)
    adopt(y, meta_storage(&y.m))
    y.flags = WRAPPED
    if code == FLOAT32:
        (<float*>y.m.data)[0] = <float>value
    elif code == FLOAT64:
        (<double*>y.m.data)[0] = value
    else:
        ops.fill_double(&y.m, value)
    return y


cdef inline Tensor like_number(double value, Tensor t):
    """A number as an operand beside the floating tensor t."""
    return scalar_tensor(value, default_dtype() if is_integral(t.m.dtype) else real_of(t.m.dtype))


cdef inline bint is_half(int code) noexcept:
    return code == FLOAT16 or code == BFLOAT16


cdef inline Tensor wrap(object v, Tensor t, bint exact):
    """A Python number beside tensor t, in the dtype that it will be promoted to; None when v is not a number.
    exact: an integer outside t's range must keep its value (comparisons)."""
    return wrap_number(v, real_of(t.m.dtype), exact)


cdef inline Tensor wrap_for(int op, object v, Tensor t):
    """The same for an operation, which may want float32 numbers beside halves, or see whether a number overflows."""
    cdef int code = real_of(t.m.dtype), guard = OPS[op].guard
    cdef double size
    if guard & GUARD_RANGE:
        size = PyFloat_AS_DOUBLE(v) if PyFloat_CheckExact(v) else v if PyLong_CheckExact(v) else 0
        if not -65504 <= size <= 65504:
            check_fits(v, code, op)      # inside the range of float16 all fits
    return wrap_number(v, FLOAT32 if guard & GUARD_HALVES and is_half(code) else code, OPS[op].out_bool)


cdef bint number_beside_halves(const OpInfo* o, double* number, int code, Tensor a, Tensor b, Tensor c) except -1:
    """Whether an operand is one number of another dtype, which then keeps the digits of a float32: `number` is its place among
    the operands of the loop, and its value (c_through in convert.h). The dividend of a rounded quotient is rounded itself."""
    cdef Tensor t = None
    if b is not None and b.m.ndim == 0 and b.m.dtype != code:
        t, number[0] = b, 2
    elif c is not None and c.m.ndim == 0 and c.m.dtype != code:
        t, number[0] = c, 3
    elif a.m.ndim == 0 and a.m.dtype != code and not o.guard & GUARD_DIVISOR:
        t, number[0] = a, 1
    if t is not None:
        number[1] = (<float*>t.m.data)[0] if t.m.dtype == FLOAT32 and t.m.flags & FLAT else ops.item(&t.m)
    return t is not None


cdef int check_fits(object v, int code, int op) except -1:
    """A large number beside a tensor of this dtype; halves of `where` may become infinite."""
    if is_float(code):
        if not (op == OP_WHERE and is_half(code)):
            factor_in(v, code)
    elif isinstance(v, float):
        factor_in(v, default_dtype())
    return 0


cdef Tensor wrap_number(object v, int code, bint exact):
    """A Python number beside a tensor of this dtype."""
    cdef Tensor y
    if PyFloat_CheckExact(v):
        return scalar_tensor(PyFloat_AS_DOUBLE(v), code if is_float(code) else default_dtype())
    if PyBool_Check(v):
        y = scalar_tensor(1.0 if v else 0.0, code if is_float(code) else BOOL)
        y.flags |= TRUTH
        return y
    if PyLong_CheckExact(v):
        return scalar_tensor(check_word(v), code) if is_float(code) else wrap_integer(v, code, exact)
    if isinstance(v, float):
        return wrap_number(float(v), code, exact)
    if isinstance(v, int):
        return wrap_number(int(v), code, exact)
    if isinstance(v, complex):
        return complex_scalar(v, COMPLEX128 if code == FLOAT64 else COMPLEX64 if is_float(code) else default_complex())
    if hasattr(v, "dtype") and hasattr(v, "item") and getattr(v, "shape", None) == ():
        return wrap_number(v.item(), code, exact)  # a NumPy scalar
    return None


cdef object check_word(object v):
    """v, a number; an integer has to fit 64 bits, with or without sign, as all that PyTorch takes."""
    if isinstance(v, int) and not -0x8000000000000000 <= v <= 0xFFFFFFFFFFFFFFFF:
        raise OverflowError(f"an integer of at most 64 bits is wanted, got {v}")
    return v


cdef Tensor wrap_integer(object v, int code, bint exact):
    """A Python integer beside an integer or bool tensor."""
    cdef Tensor y = tensor_new()
    cdef bint beyond = code == UINT64 and 0x7FFFFFFFFFFFFFFF < v <= 0xFFFFFFFFFFFFFFFF
    meta_contig(&y.m, 0, NULL, UINT64 if beyond else INT64)
    adopt(y, meta_storage(&y.m))
    if beyond:
        (<uint64_t*>y.m.data)[0] = v
        y.flags = WRAPPED
        return y
    (<int64_t*>y.m.data)[0] = int_value(v)
    if code == INT64 or code == BOOL:
        y.flags = WRAPPED
    elif int_fits(v, code):
        y = cast_data(y, code)
        y.flags = WRAPPED
    else:
        y.flags = WIDE if exact else WRAPPED
    return y


cdef Tensor complex_scalar(object v, int code):
    """A 0-d tensor of a complex dtype that counts as a Python number in promotion."""
    cdef Tensor y = tensor_new()
    meta_contig(&y.m, 0, NULL, code)
    adopt(y, meta_storage(&y.m))
    ops.fill_number(&y.m, v)
    y.flags = WRAPPED
    return y


cdef int64_t int_value(object v) except? -1:
    if not -0x8000000000000000 <= v <= 0x7FFFFFFFFFFFFFFF:
        kind = RuntimeError if 0 < v < 0x10000000000000000 else OverflowError      # PyTorch's types
        raise kind(f"value {v} cannot be converted to int64 without overflow")
    return v


cdef bint int_fits(object v, int code):
    cdef uint64_t most = <uint64_t>-1 >> (64 - 8 * ITEMSIZE[code] + (not is_unsigned(code)))
    if is_unsigned(code):
        return 0 <= v <= most
    return -<object>most - 1 <= v <= most


cdef object binary_object(int op, Tensor a, object b, bint swap):
    """Operator and method form: b a tensor or a number; NotImplemented otherwise, so that b's class may answer."""
    cdef Tensor t
    if isinstance(b, Tensor):
        t = <Tensor>b
    else:
        t = wrap_for(op, b, a)
        if t is None and (op == OP_EQ or op == OP_NE) and isinstance(b, np_type("ndarray")):
            t = as_tensor(b)            # NumPy declines to compare with us, and Python would then say False
        if t is None:
            return NotImplemented
    return binary(op, t, a) if swap else binary(op, a, t)


cdef object divided_by(Tensor x, object number):
    """The operator number / x as PyTorch has it, to the last bit and in the graph: number times the reciprocal of x."""
    cdef Tensor inverse = unary(OP_RECIPROCAL, raised_away(x))
    product = binary_object(OP_MUL, inverse, number, False)
    if product is NotImplemented and isinstance(number, np_type("ndarray")):
        return inverse * number         # NumPy multiplies; it would not have divided
    return product
