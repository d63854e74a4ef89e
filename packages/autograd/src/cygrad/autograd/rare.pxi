# rare: pointwise rows of the op table called by name. May use: all above. Compositions call this; users do not.

cdef dict ROW_IDS = {row: i for i, row in enumerate(ROW_NAMES, 1)}


def row_call(str row, tuple inputs, tuple attrs=(), Tensor target=None):
    """The pointwise row of this name.

    Parameters
    ----------
    row : str
    inputs : tuple
        Of at most three: the first is a tensor, the others are tensors or numbers.
    attrs : tuple of float
        Its scalar arguments, at most two.
    target : Tensor, optional
        Where the result is written: an input, for an in-place operation.
    """
    cdef int op = ROW_IDS[row], n = len(inputs), i
    cdef double attr[2]
    cdef Tensor a = as_tensor_arg(inputs[0], row, "input"), b = None, c = None
    if OPS[op].row == NO_KERNELS or n > 3 or len(attrs) > 2:
        raise ValueError(f"{row} is no pointwise row of at most three inputs and two arguments")
    if n > 1:
        b = as_operand(inputs[1], a, op, row, "other")
    if n > 2:
        c = as_operand(inputs[2], a, op, row, "third")
    for i in range(len(attrs)):
        attr[i] = attrs[i]
    return pointwise(op, n, a, b, c, attr if attrs else NULL, target)
