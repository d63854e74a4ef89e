# promotion: the dtype of a result. May use: node. PyTorch's rule: tensors with dimensions outrank 0-d tensors, which outrank
# Python numbers; a lower rank matters only when its category (bool < int < float < complex) is higher.

cdef struct Promotion:
    int dim, zero, number       # highest dtype seen in each rank, -1 when none


cdef inline int promotion_add(Promotion* p, Tensor t) except -1:
    cdef int c = t.m.dtype
    if t.flags & WIDE:
        p.dim = c if p.dim < 0 else promote(p.dim, c)
    elif t.flags & WRAPPED:
        if c == FLOAT64:
            c = default_dtype()
        elif c == COMPLEX128:
            c = default_complex()
        p.number = c if p.number < 0 else promote(p.number, c)
    elif t.m.ndim:
        p.dim = c if p.dim < 0 else promote(p.dim, c)
    else:
        p.zero = c if p.zero < 0 else promote(p.zero, c)
    return 0


cdef inline int default_complex() noexcept:
    """The dtype of Python's complex numbers."""
    return COMPLEX128 if default_dtype() == FLOAT64 else COMPLEX64


cdef inline int combine(int high, int low) except -2:
    if high < 0:
        return low
    if low < 0 or category(high) == KIND_COMPLEX:
        return high
    if is_float(high):
        return (COMPLEX128 if high == FLOAT64 else COMPLEX64) if category(low) == KIND_COMPLEX else high
    if high == BOOL or not is_integral(low):
        return promote(high, low)
    return high


cdef inline int promotion_result(Promotion* p) except -2:
    return combine(combine(p.dim, p.zero), p.number)


cdef int result_code(Tensor a, Tensor b, Tensor c) except -1:
    cdef Promotion p
    p.dim = p.zero = p.number = -1
    if a is not None:
        promotion_add(&p, a)
    if b is not None:
        promotion_add(&p, b)
    if c is not None:
        promotion_add(&p, c)
    return promotion_result(&p)


cdef inline int category(int code) noexcept:
    """0 bool, 1 integer, 2 floating, 3 complex."""
    return KIND[code]


cdef inline bint storable(int source, int target) noexcept:
    """Whether an in-place operation may store a result of one dtype in another."""
    return KIND[source] <= KIND[target]


cdef str dtype_word(int code):
    """The scalar type's name in messages: Float, Long."""
    return ("Bool", "Byte", "Char", "Short", "Int", "Long", "Half", "BFloat16", "Float", "Double", "ComplexFloat",
            "ComplexDouble", "UInt16", "UInt32", "UInt64")[code]
