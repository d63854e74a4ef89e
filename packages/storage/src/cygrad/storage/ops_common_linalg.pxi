# Matrix products on any device, which has `product`, of operands that fit.

cdef int check_same_dtype(str op, Meta* a, Meta* b) except -1:
    if a.dtype != b.dtype:
        raise RuntimeError(f"{op}: operands of the same dtype are wanted, got {name_of(a.dtype)} (shape "
                           f"{shape_text(a)}) and {name_of(b.dtype)} (shape {shape_text(b)})")
    if a.dtype == BOOL:
        no_kernel(op, BOOL)
    return 0


cdef int check_product(str op, Meta* a, Meta* b, int ndim) except -1:
    if a.ndim != ndim or b.ndim != ndim:
        kind = "2D, matrices" if ndim == 2 else "3D, batches of matrices"
        raise RuntimeError(f"{op}: two {ndim}-dimensional tensors ({kind}) are wanted, got shapes {shape_text(a)} and "
                           f"{shape_text(b)}")
    if ndim == 3 and a.sizes[0] != b.sizes[0]:
        raise RuntimeError(f"{op}: the batch sizes {a.sizes[0]} and {b.sizes[0]} differ (shapes {shape_text(a)} and "
                           f"{shape_text(b)})")
    if a.sizes[ndim - 1] != b.sizes[ndim - 2]:
        hint = ""
        if ndim == 3:
            hint = f": the second's shape must start with {[a.sizes[0], a.sizes[2]]}, not {[b.sizes[0], b.sizes[1]]}"
        raise RuntimeError(f"{op}: mat1 and mat2 shapes cannot be multiplied ({a.sizes[ndim - 2]}x{a.sizes[ndim - 1]} "
                           f"and {b.sizes[ndim - 2]}x{b.sizes[ndim - 1]}): inner sizes {a.sizes[ndim - 1]} and "
                           f"{b.sizes[ndim - 2]} differ{hint}")
    return check_same_dtype(op, a, b)


cdef int check_addmm(Meta* c, Meta* a, Meta* b) except -1:
    check_product("addmm", a, b, 2)
    if c.dtype != a.dtype:
        raise RuntimeError(f"addmm: the added tensor has dtype {name_of(c.dtype)} (shape {shape_text(c)}), the "
                           f"matrices have {name_of(a.dtype)}: the same dtype is wanted")
    return 0


cdef int check_dot(Meta* a, Meta* b) except -1:
    if a.ndim != 1 or b.ndim != 1:
        raise RuntimeError(f"dot: two 1-dimensional tensors are wanted, but got {a.ndim}D and {b.ndim}D tensors, of "
                           f"shapes {shape_text(a)} and {shape_text(b)}")
    if a.sizes[0] != b.sizes[0]:
        raise RuntimeError(f"dot: tensors of the same length are wanted, got {a.sizes[0]} and {b.sizes[0]} elements")
    return check_same_dtype("dot", a, b)


cdef Storage op_mm(Meta* y, Meta* a, Meta* b):
    return product("mm", y, a, b, 2)


cdef Storage op_bmm(Meta* y, Meta* a, Meta* b):
    return product("bmm", y, a, b, 3)


cdef Storage op_mv(Meta* y, Meta* a, Meta* v):
    """A product with a matrix of one column."""
    cdef Meta column
    cdef Storage s
    if a.ndim != 2 or v.ndim != 1:
        raise RuntimeError(f"mv: a matrix and a vector are wanted, got shapes {shape_text(a)} and {shape_text(v)}")
    if a.sizes[1] != v.sizes[0]:
        raise RuntimeError(f"mv: a matrix of shape {shape_text(a)} does not multiply a vector of {v.sizes[0]} "
                           f"elements: {a.sizes[1]} are wanted")
    check_same_dtype("mv", a, v)
    memset(&column, 0, sizeof(Meta))
    view_unsqueeze(&column, v, 1)
    s = product("mv", y, a, &column, 2)
    meta_clear(&column)
    y.ndim = 1
    return s
