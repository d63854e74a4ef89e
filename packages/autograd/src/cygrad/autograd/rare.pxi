# rare: rows of the op table called by number, for those whose public forms are not printed. May use: all above.
# rows.py and compositions call these; users do not.

cdef dict ROW_IDS = {row: i for i, row in enumerate(ROW_NAMES, 1)}


def rare_call(int op, str name, tuple numbers, first, second=None, out=None):
    """A rare operation of one or two inputs; numbers: for each input, whether it may be a number."""
    cdef Tensor a
    if len(numbers) == 1:
        return finish(unary(op, as_tensor_arg(first, name, "input")), out)
    a = as_first(first, second, op, name) if numbers[0] else as_tensor_arg(first, name, "input")
    return finish(binary(op, a, rare_second(op, name, numbers, a, second)), out)


cdef Tensor rare_second(int op, str name, tuple numbers, Tensor beside, second):
    return as_operand(second, beside, op, name, "other") if numbers[1] else as_tensor_arg(second, name, "other")


def rare_write(int op, str name, tuple numbers, Tensor first not None, second=None):
    """The same, in place."""
    if len(numbers) == 1:
        return pointwise(op, 1, first, None, None, NULL, first)
    return pointwise(op, 2, first, rare_second(op, name, numbers, first, second), None, NULL, first)


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
