# Layer normalisation on any device, which has `norm_rows`: a result of x's shape, from x and, going backward, the gradient d.

cdef int check_norm(str op, const Meta* x, const Meta* d, const Meta* w, const Meta* b) except -1:
    """d is of x's shape, w of that of x's last dimensions, b of w's; each may be NULL."""
    cdef int i
    for other in (("gradient", <size_t> d), ("weight", <size_t> w), ("bias", <size_t> b)):
        if other[1] and (<const Meta*> <size_t> other[1]).dtype != x.dtype:
            raise RuntimeError(f"{op}: the {other[0]} has dtype {name_of((<const Meta*> <size_t> other[1]).dtype)}, the input "
                               f"{name_of(x.dtype)}: the same dtype is wanted")
    if d != NULL and not meta_same_shape(d, x):
        raise RuntimeError(f"{op}: the gradient has shape {shape_text(d)}, the input {shape_text(x)}: the same shape is wanted")
    if w != NULL:
        for i in range(w.ndim):
            if w.ndim > x.ndim or w.sizes[i] != x.sizes[x.ndim - w.ndim + i]:
                raise RuntimeError(f"{op}: a weight of shape {shape_text(w)} belongs to an input whose last sizes are these, got "
                                   f"shape {shape_text(x)}")
    if b != NULL and not meta_same_shape(b, w):
        raise RuntimeError(f"{op}: the bias has shape {shape_text(b)}, the weight {shape_text(w)}: the same shape is wanted")
    return 0


cdef int check_norm_weight(const Meta* d, const Meta* x, int ndim, const int64_t* sizes) except -1:
    cdef int i
    if ndim > x.ndim:
        raise RuntimeError(f"layer_norm_weight: a weight of {ndim} dimensions for an input of shape {shape_text(x)}")
    for i in range(ndim):
        if sizes[i] != x.sizes[x.ndim - ndim + i]:
            raise RuntimeError(f"layer_norm_weight: the size {sizes[i]} at dimension {i} of the weight does not belong to an input of "
                               f"shape {shape_text(x)}")
    check_norm("layer_norm_weight", x, d, NULL, NULL)
    return 0


cdef Storage op_layer_norm(Meta* y, Meta* x, Meta* w, Meta* b, double eps):
    return norm_rows(H_LAYER_NORM, "layer_norm", y, NULL, x, w, b, eps)


cdef Storage op_layer_norm_input(Meta* y, Meta* d, Meta* x, Meta* w, double eps):
    return norm_rows(H_LAYER_NORM_INPUT, "layer_norm_input", y, d, x, w, NULL, eps)
