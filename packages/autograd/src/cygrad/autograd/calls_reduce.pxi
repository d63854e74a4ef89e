# calls_reduce: public reductions whose meaning depends on what they are given. May use: calls.


def max(input=REQUIRED, dim=None, keepdim=False, *, other=None, out=None):
    """The largest element; with `dim`, (values, indices) along it; with a tensor, the larger of two elementwise."""
    cdef Tensor x = as_tensor_arg(input, "max", "input")
    if isinstance(dim, Tensor):
        return finish(op_maximum(x, <Tensor>dim), out)
    if other is not None:
        return finish(op_maximum(x, as_tensor_arg(other, "max", "other")), out)
    if dim is None:
        return finish(numbered(op_max_all(x, full_mask(x), False), 1), out)
    k = wrap_dim(as_index(dim, "max", "dim"), x.m.ndim)
    result = named_results("max", op_max_dim(x, k, as_flag(keepdim, "max", "keepdim")))
    return result if out is None else deliver(result, out, True)


def min(input=REQUIRED, dim=None, keepdim=False, *, other=None, out=None):
    """The smallest element; with `dim`, (values, indices) along it; with a tensor, the smaller of two elementwise."""
    cdef Tensor x = as_tensor_arg(input, "min", "input")
    if isinstance(dim, Tensor):
        return finish(op_minimum(x, <Tensor>dim), out)
    if other is not None:
        return finish(op_minimum(x, as_tensor_arg(other, "min", "other")), out)
    if dim is None:
        return finish(numbered(op_min_all(x, full_mask(x), False), 1), out)
    k = wrap_dim(as_index(dim, "min", "dim"), x.m.ndim)
    result = named_results("min", op_min_dim(x, k, as_flag(keepdim, "min", "keepdim")))
    return result if out is None else deliver(result, out, True)


cdef tuple dim_or_unbiased(object dim, object unbiased, str name):
    """The two arguments, of which a lone bool is the second."""
    if not PyBool_Check(dim):
        return dim, unbiased
    if unbiased is not None:
        wrong_type(dim, name, "dim", "int or tuple of ints")
    return None, dim


cdef double correction_of(object unbiased, object correction, str name) except? -1.25:
    if unbiased is not None:
        if correction is not None:
            raise TypeError(f"{name}(): 'unbiased' and 'correction' say the same thing, give one of them; got "
                            f"{unbiased!r} and {correction!r}")
        return 1.0 if as_flag(unbiased, name, "unbiased") else 0.0
    return 1.0 if correction is None else as_number(correction, name, "correction")


def var(input=REQUIRED, dim=None, unbiased=None, keepdim=False, *, correction=None, out=None):
    """Variance over `dim`, with `correction` (default 1: unbiased) degrees of freedom taken off the count."""
    cdef Tensor x = as_tensor_arg(input, "var", "input")
    dim, unbiased = dim_or_unbiased(dim, unbiased, "var")
    return finish(op_variance(x, dims_mask(dim, x.m.ndim, "var"), correction_of(unbiased, correction, "var"),
                              as_flag(keepdim, "var", "keepdim")), out)


def std(input=REQUIRED, dim=None, unbiased=None, keepdim=False, *, correction=None, out=None):
    """Standard deviation over `dim`, with `correction` (default 1: unbiased) degrees of freedom taken off the count."""
    cdef Tensor x = as_tensor_arg(input, "std", "input")
    dim, unbiased = dim_or_unbiased(dim, unbiased, "std")
    return finish(op_deviation(x, dims_mask(dim, x.m.ndim, "std"), correction_of(unbiased, correction, "std"),
                               as_flag(keepdim, "std", "keepdim")), out)


def norm(input=REQUIRED, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """p-norm of the elements over `dim`.

    ``"fro"`` and None are the 2-norm, over at most two dimensions; ``"nuc"`` is the sum of the singular values of
    matrices. See also ``linalg.norm``.
    """
    cdef Tensor x = as_tensor_arg(input, "norm", "input")
    cdef double order = 2
    if out is None and dtype is None:
        x = raised_away(x)
    if isinstance(p, str):
        named = isinstance(dim, (tuple, list)) and len(dim)
        if p not in ("fro", "nuc"):
            raise RuntimeError(f"norm(): argument 'p' must be a number, 'fro' or 'nuc', got {p!r}")
        if named and len(dim) > 2:
            raise RuntimeError(f"norm(): the order {p!r} takes one or two dimensions, got dim={dim}")
        if p == "nuc":
            from cygrad import linalg
            return finish(linalg.matrix_norm(x, p, dim if named else tuple(range(x.m.ndim)) if dim is None else (dim,),
                                             keepdim, dtype=dtype), out)
    elif p is not None:
        order = as_number(p, "norm", "p")
    if dtype is not None and category(x.m.dtype) >= 2:
        if category(dtype_code(dtype)) < 2:
            raise RuntimeError(f"linalg.vector_norm: dtype should be floating point or complex, but got {dtype}")
        if promote(x.m.dtype, dtype_code(dtype)) != dtype_code(dtype):
            raise RuntimeError(f"linalg.vector_norm: the dtype of the input ({dtype_object(x.m.dtype)}) should be "
                               f"convertible without narrowing to the specified dtype ({dtype})")
        x = op_cast(x, dtype_code(dtype))
    if category(x.m.dtype) < 2:
        raise RuntimeError("linalg.vector_norm: Expected a floating point tensor as input, got "
                           f"{dtype_object(x.m.dtype)}")
    return finish_exact(op_vector_norm(x, order, dims_mask(dim, x.m.ndim, "norm"), as_flag(keepdim, "norm", "keepdim")),
                        out)


def logsumexp(input=REQUIRED, dim=REQUIRED, keepdim=False, *, out=None):
    """``log(sum(exp(input)))`` over `dim` without overflow."""
    cdef Tensor x = as_tensor_arg(input, "logsumexp", "input")
    cdef bint keep = as_flag(keepdim, "logsumexp", "keepdim")
    cdef uint64_t mask
    if dim is None or dim is REQUIRED:
        wrong_type(dim, "logsumexp", "dim", "int or tuple of ints")
    if out is None:
        x = raised_away(x)
    mask = dims_mask(dim, x.m.ndim, "logsumexp")
    return finish(complex_logsumexp(x, mask, keep) if category(x.m.dtype) == KIND_COMPLEX
                  else op_logsumexp(x, mask, keep), out)
