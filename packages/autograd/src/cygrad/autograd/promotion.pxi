# promotion: the dtype of a result. May use: node. PyTorch's rule: tensors with dimensions outrank 0-d tensors, which outrank
# Python numbers; a lower rank matters only when its category (bool < int < float < complex) is higher.

cdef uint64_t computed = 0         # one bit for each dtype that has kernels: the others are there to be named only
for _t in _dtypes.values():
    computed |= <uint64_t>1 << any_code(_t)


cdef int dtype_code(object o) except -1:
    """The code of a dtype that tensors may have."""
    cdef int code = any_code(o)
    if not computed >> code & 1:
        known = ", ".join(sorted({repr(t) for t in _dtypes.values()}))
        raise TypeError(f"tensors of {o!r} are not there yet; the dtypes are {known}")
    return code


cdef struct Promotion:
    int dim, zero, number       # highest dtype seen in each rank, -1 when none


cdef inline void promotion_add(Promotion* p, Tensor t) noexcept:
    cdef int c = t.m.dtype
    if t.flags & WIDE:
        p.dim = c if p.dim < 0 else promote(p.dim, c)
    elif t.flags & WRAPPED:
        if c == FLOAT64:
            c = default_dtype()
        p.number = c if p.number < 0 else promote(p.number, c)
    elif t.m.ndim:
        p.dim = c if p.dim < 0 else promote(p.dim, c)
    else:
        p.zero = c if p.zero < 0 else promote(p.zero, c)


cdef inline int combine(int high, int low) noexcept:
    if high < 0:
        return low
    if low < 0 or high >= COMPLEX64:
        return high
    if is_float(high):
        return (COMPLEX128 if high == FLOAT64 else COMPLEX64) if low >= COMPLEX64 else high
    if high == BOOL or low >= FLOAT16:
        return promote(high, low)
    return high


cdef inline int promotion_result(Promotion* p) noexcept:
    return combine(combine(p.dim, p.zero), p.number)


cdef int result_code(Tensor a, Tensor b, Tensor c) noexcept:
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
    return 0 if code == BOOL else 1 if code <= INT64 else 2 if code <= FLOAT64 else 3


cdef inline bint can_cast(int source, int target) noexcept:
    """Whether an in-place operation may store a result of one dtype in another."""
    cdef int s = category(source), t = category(target)
    return s <= t


cdef str dtype_word(int code):
    """The scalar type's name in messages: Float, Long."""
    return ("Bool", "Byte", "Char", "Short", "Int", "Long", "Half", "BFloat16", "Float", "Double", "ComplexFloat", "ComplexDouble")[code]
