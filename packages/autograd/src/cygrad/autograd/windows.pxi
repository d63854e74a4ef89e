# windows: rows of the op table about windows that take a geometry and the sizes of a result. May use: args, ops.
# nn.functional calls these; users do not.


def convolution_input(d, w, geometry, size):
    """The map from results of a convolution to inputs of shape `size`, transposed to it."""
    cdef Dims g, s
    parse_ints(geometry, &g, "convolution_input", "geometry")
    parse_ints(size, &s, "convolution_input", "size")
    return op_convolution_input(as_tensor_arg(d, "convolution_input", "input"), as_tensor_arg(w, "convolution_input", "weight"), &g, &s)


def col2im(d, geometry, size):
    """Windows added where they come from, in images of sizes `size`."""
    cdef Dims g, s
    parse_ints(geometry, &g, "col2im", "geometry")
    parse_ints(size, &s, "col2im", "size")
    return op_col2im(as_tensor_arg(d, "col2im", "input"), &g, &s)
