# layers: loops of whole layers on tensors, for cygrad.nn, which records them. May use: formulas, args.


def all_plain(*tensors):
    """Whether all are tensors of one dtype without tangents and outside of vmap; None, for an absent tensor, fits too."""
    cdef int code = -1
    for x in tensors:
        if x is None:
            continue
        if not isinstance(x, Tensor) or (<Tensor>x).flags & BATCHED or shows_tangent(<Tensor>x):
            return False
        if code >= 0 and (<Tensor>x).m.dtype != code:
            return False
        code = (<Tensor>x).m.dtype
    return True


cdef int64_t* counts_of(tuple counts) except NULL:
    """Room for the counts twice; to be freed."""
    cdef int64_t* numbers = <int64_t*>malloc(2 * (len(counts) or 1) * sizeof(int64_t))
    if numbers == NULL:
        raise MemoryError(f"no memory for {len(counts)} counts of steps")
    try:
        for k in range(len(counts)):
            numbers[k] = counts[k]
    except BaseException:
        free(numbers)
        raise
    return numbers


cdef list row_major(tuple tensors, Meta** x):
    """Row-major tensors, or None, and their Metas."""
    cdef list held = [None if t is None else op_contiguous(<Tensor?>t) for t in tensors]
    for k, t in enumerate(held):
        x[k] = NULL if t is None else &(<Tensor>t).m
    return held


cdef list results_of(list results, object storages):
    for k, s in enumerate(storages):
        if s is None:
            results[k] = None
        else:
            adopt(<Tensor>results[k], <Storage>s)
    return results


def recurrent(str mode, bint backwards, tuple counts, bint keep, *tensors):
    """The states after each step of a recurrent layer; nothing is recorded.

    Parameters
    ----------
    mode : str
        "RNN_TANH", "RNN_RELU", "LSTM" or "GRU".
    backwards : bool
        Whether the last step comes first.
    counts : tuple of int
        Rows of each step.
    keep : bool
        Whether what the gradient reads is wanted, too.
    *tensors : Tensor or None
        The input's share of the gates, the state's weights and biases, the states and cells to start from.

    Returns
    -------
    list of Tensor or None
        States, cells, and what the gradient reads.
    """
    cdef Meta* x[5]
    cdef Meta* y[3]
    cdef list results = [tensor_new() for _ in range(3)]
    cdef list held
    cdef int64_t* numbers
    if len(tensors) != 5 or tensors[0] is None or tensors[1] is None or tensors[3] is None or not all_plain(*tensors):
        raise TypeError("recurrent() wants five tensors of one dtype: gates, weights, biases (or None), states, cells (or None)")
    held = row_major(tensors, x)
    for k in range(3):
        y[k] = &(<Tensor>results[k]).m
    numbers = counts_of(counts)
    try:
        return results_of(results, ops.op_recurrent(y, x, mode, backwards, len(counts), numbers, keep))
    finally:
        free(numbers)


def recurrent_backward(str mode, bint backwards, tuple counts, *tensors):
    """Gradients of `recurrent`; nothing is recorded.

    Parameters
    ----------
    mode, backwards, counts
        Those of the call.
    *tensors : Tensor or None
        Gradients of states and cells; weights, states and cells that were started from; the call's three results.

    Returns
    -------
    list of Tensor or None
        Gradients of the input's share of the gates, of the state's share where it is another, of the states and cells
        to start from; and the state before each step.
    """
    cdef Meta* x[8]
    cdef Meta* y[5]
    cdef list results = [tensor_new() for _ in range(5)]
    cdef list held
    cdef int64_t* numbers
    if len(tensors) != 8 or not all_plain(*tensors) or _py.any([tensors[k] is None for k in (0, 2, 3, 5)]):
        raise TypeError("recurrent_backward() wants gradients of states and cells, weights, states, cells and the three results of "
                        "recurrent(), all of one dtype")
    held = row_major(tensors, x)
    for k in range(5):
        y[k] = &(<Tensor>results[k]).m
    numbers = counts_of(counts)
    try:
        return results_of(results, ops.op_recurrent_backward(y, x, mode, backwards, len(counts), numbers))
    finally:
        free(numbers)


cdef Tensor in_rows(Tensor x):
    """x, or a row-major copy where its layout is none that attention takes."""
    return x if ops.attention_rows(&x.m) else op_contiguous(x)


def attention(Tensor q not None, Tensor k not None, Tensor v not None, object mask, bint causal, double scale):
    """``softmax(q @ k.mT * scale + mask) @ v``; nothing is recorded.

    Parameters
    ----------
    q, k, v : Tensor, shape (*, L, E), (*, S, E), (*, S, V)
        With the same batch dimensions, none of them empty.
    mask : Tensor or None, shape (*, L, S)
        bool, or numbers that are added to the scores.
    causal : bool
        Query i sees keys 0 to i.
    scale : float

    Returns
    -------
    tuple of Tensor
        The result, and the logarithms of the sums of each query's exponentials.
    """
    cdef Tensor y = tensor_new(), top = tensor_new()
    if not all_plain(q, k, v) or not all_plain(mask):
        raise TypeError("attention() wants tensors of one dtype")
    q, k, v = in_rows(q), in_rows(k), in_rows(v)
    first, second = ops.op_attention(&y.m, &top.m, &q.m, &k.m, &v.m, NULL if mask is None else &(<Tensor>mask).m, causal, scale)
    adopt(y, first)
    adopt(top, second)
    return y, top


def attention_backward(Tensor g not None, Tensor q not None, Tensor k not None, Tensor v not None, object mask, bint causal,
                       double scale, Tensor result not None, Tensor top not None):
    """Gradients of `attention` by q, k and v, from that of its result; nothing is recorded."""
    cdef Meta* y[3]
    cdef list results = [tensor_new() for _ in range(3)]
    if not all_plain(g, q, k, v, result, top) or not all_plain(mask):
        raise TypeError("attention_backward() wants tensors of one dtype")
    g, q, k, v = op_contiguous(g), in_rows(q), in_rows(k), in_rows(v)
    for i in range(3):
        y[i] = &(<Tensor>results[i]).m
    return results_of(results, ops.op_attention_backward(y, &g.m, &q.m, &k.m, &v.m, NULL if mask is None else &(<Tensor>mask).m,
                                                         &result.m, &top.m, causal, scale))
