# formulas_complex: complex numbers in gradients. May use: the generated op_ functions, view, formulas.
# PyTorch's convention: the gradient of a holomorphic y(x) is g * conj(dy/dx). Where the input is real, the engine takes the
# real part of what arrives.


cdef Tensor conj_of(Tensor x):
    """The conjugate; a real tensor itself."""
    return op_conjugate(x) if category(x.m.dtype) == KIND_COMPLEX else x


cdef Tensor real_of_tensor(Tensor x):
    """The real part, a view; a real tensor itself."""
    return op_select(op_view_as_real(x), -1, 0) if category(x.m.dtype) == KIND_COMPLEX else x


cdef Tensor imag_of_tensor(Tensor x):
    return op_select(op_view_as_real(x), -1, 1)


cdef Tensor whole_of(Tensor parts):
    """Complex numbers from parts along the last dimension, through a copy where they do not lie side by side."""
    return op_view_as_complex(op_contiguous(parts))


cdef Tensor complex_of_parts(Tensor re, Tensor im):
    """Complex numbers of two real tensors of one shape."""
    return op_view_as_complex(op_stack([re, im], re.m.ndim))


cdef Tensor turned(Tensor x):
    """x times i."""
    return complex_of_parts(op_neg(imag_of_tensor(x)), real_of_tensor(x))


cdef Tensor sgn_backward(Tensor g, Tensor x, Tensor y):
    """0 for real numbers. Of a complex one only the part of g across its direction y counts: (g - y Re(g conj(y))) / |x|; 0 at 0."""
    cdef Tensor along, size, zero
    if category(x.m.dtype) != KIND_COMPLEX:
        return zeros_same(g)
    size = op_abs(x)
    zero = op_eq(size, like_number(0, size))
    size = op_masked_fill(size, zero, scalar_tensor(1, size.m.dtype))         # derivatives of what is masked are none either
    along = op_mul(y, real_of_tensor(op_mul(g, conj_of(y))))
    return op_masked_fill(op_div(op_sub(g, along), size), zero, scalar_tensor(0, g.m.dtype))


cdef Tensor angle_backward(Tensor g, Tensor x):
    """0 for real numbers; g i x / |x|**2 for complex ones, 0 at 0."""
    cdef Tensor size, slope
    if category(x.m.dtype) != KIND_COMPLEX:
        return zeros_same(g)
    size = op_abs(x)
    slope = op_div(turned(x), op_mul(size, size))
    return op_mul(g, op_masked_fill(slope, op_eq(size, like_number(0, size)), scalar_tensor(0, x.m.dtype)))
