# sorting: search in sorted tensors, and the order of rows. May use: args, formulas.


def searchsorted(sorted_sequence=REQUIRED, input=REQUIRED, *, out_int32=False, right=False, side=None, sorter=None,
                 out=None):
    """Where values would be inserted into the last dimension of a sorted tensor to keep it sorted.

    Parameters
    ----------
    sorted_sequence : Tensor
        Boundaries, sorted along the last dimension (or by `sorter`): 1-d, or with the leading dimensions of `input`.
    input : Tensor or number
        Values, of the same dtype.
    out_int32 : bool
        int32 results instead of int64.
    right : bool
        Behind equal boundaries instead of before them; the same as ``side="right"``.
    side : str, optional
        "left" or "right".
    sorter : Tensor, optional
        int64 indices that sort the boundaries.
    out : Tensor, optional

    Raises
    ------
    RuntimeError
        Shapes, dtypes or options that do not fit together.
    """
    cdef Tensor bounds = as_tensor_arg(sorted_sequence, "searchsorted", "sorted_sequence"), values, order = None
    cdef bint behind = as_flag(right, "searchsorted", "right"), narrow = as_flag(out_int32, "searchsorted", "out_int32")
    values = as_values(input, bounds, "searchsorted")
    if side is not None:
        if side != "left" and side != "right":
            raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
        if behind and side == "left":
            raise RuntimeError("torch.searchsorted(): side and right can't be set to opposites, got side of left while "
                               "right was True")
        behind = side == "right"
    check_bounds(bounds, values, isinstance(input, Tensor))
    if sorter is not None:
        order = as_tensor_arg(sorter, "searchsorted", "sorter")
        if not meta_same_shape(&order.m, &bounds.m):
            raise RuntimeError(f"torch.searchsorted(): boundary and sorter must have the same size, but got boundary "
                               f"tensor {list(shape_tuple(&bounds.m))} and sorter tensor {list(shape_tuple(&order.m))}")
        if order.m.dtype != INT64:
            raise RuntimeError(f"torch.searchsorted(): sorter must be a tensor of long dtype but got "
                               f"{dtype_object(order.m.dtype)}")
        order = op_contiguous(order)
    return finish_places(found_places(bounds, values, order, behind, narrow), out)


def bucketize(input=REQUIRED, boundaries=REQUIRED, *, out_int32=False, right=False, out=None):
    """The bucket of each value between sorted 1-d boundaries: `searchsorted` with its arguments the other way round."""
    cdef Tensor bounds = as_tensor_arg(boundaries, "bucketize", "boundaries"), values
    cdef bint behind = as_flag(right, "bucketize", "right"), narrow = as_flag(out_int32, "bucketize", "out_int32")
    values = as_values(input, bounds, "bucketize")
    if bounds.m.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({bounds.m.ndim})")
    check_bounds(bounds, values, isinstance(input, Tensor))
    return finish_places(found_places(bounds, values, None, behind, narrow), out)


cdef Tensor as_values(object v, Tensor bounds, str name):
    """A tensor, or a number as one of the boundaries' kind."""
    if isinstance(v, Tensor):
        return <Tensor>v
    return plain_number(v, name, "input")


cdef int check_bounds(Tensor bounds, Tensor values, bint given) except -1:
    cdef int d, nd = bounds.m.ndim
    cdef bint fits
    if given and bounds.m.dtype != values.m.dtype:
        raise RuntimeError(f"torch.searchsorted(): boundary tensor and input value tensor should have same dtype, but "
                           f"got boundary tensor's dtype {dtype_object(bounds.m.dtype)} and input value tensor's dtype "
                           f"{dtype_object(values.m.dtype)}")
    if nd == 0:
        raise RuntimeError("torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 "
                           "dimension")
    fits = nd == 1 or nd == values.m.ndim
    if nd > 1 and fits:
        for d in range(nd - 1):
            fits = fits and bounds.m.sizes[d] == values.m.sizes[d]
    if not fits:
        raise RuntimeError(f"torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions "
                           f"of boundaries tensor and input value tensor must match, but we got boundaries tensor "
                           f"{list(shape_tuple(&bounds.m))} and input value tensor {list(shape_tuple(&values.m))}")
    return 0


cdef Tensor found_places(Tensor bounds, Tensor values, Tensor order, bint right, bint narrow):
    """Numbers and boundaries meet in the dtype that both can be compared in."""
    cdef Tensor y = tensor_new()
    cdef int code = bounds.m.dtype
    if code != values.m.dtype:
        code = result_code(bounds, values, None)
        bounds, values = op_cast(bounds, code), op_cast(values, code)
    if any_batched(bounds, values, order):
        return batch_searchsorted(bounds, values, order, right, narrow)
    bounds, values = op_contiguous(bounds), op_contiguous(values)
    adopt(y, ops.op_searchsorted(&y.m, &bounds.m, &values.m, NULL if order is None else &order.m, right, narrow))
    return y


cdef object finish_places(Tensor y, object out):
    """Unlike other results, these are not converted to the dtype of `out`."""
    if isinstance(out, Tensor) and (<Tensor>out).m.dtype != y.m.dtype:
        raise RuntimeError(f"torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or "
                           f"Long(int64) depending on whether out_int32 flag is True, but we got "
                           f"{dtype_object((<Tensor>out).m.dtype)} where {dtype_object(y.m.dtype)} is wanted")
    return finish(y, out)


def order_of_rows(Tensor x):
    """Numbers of the rows of a matrix in their lexicographic order; for the compositions."""
    cdef Tensor y = tensor_new()
    if x.m.ndim != 2:
        raise RuntimeError(f"a matrix is wanted, got shape {list(shape_tuple(&x.m))}")
    if x.flags & BATCHED:
        if not all_alike(x):
            refuse_dynamic(x, "unique")
        x = first_of(x)
    x = op_contiguous(x)
    adopt(y, ops.op_sort_rows(&y.m, &x.m))
    return y
