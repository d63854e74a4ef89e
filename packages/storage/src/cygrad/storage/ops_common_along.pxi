# Softmax and its gradients on any device, which has `along`.

cdef int check_alike(str op, Meta* g, Meta* out) except -1:
    if not meta_same_shape(g, out):
        raise RuntimeError(f"{op}: the gradient has shape {shape_text(g)}, the result {shape_text(out)}: the same "
                           "shape is wanted")
    if g.dtype != out.dtype:
        raise RuntimeError(f"{op}: the gradient has dtype {name_of(g.dtype)}, the result {name_of(out.dtype)}: the "
                           "same dtype is wanted")
    return 0


cdef Storage op_softmax(Meta* y, Meta* x, int64_t dim):
    return along("softmax", H_SOFTMAX, y, x, NULL, dim)


cdef Storage op_log_softmax(Meta* y, Meta* x, int64_t dim):
    return along("log_softmax", H_LOG_SOFTMAX, y, x, NULL, dim)


cdef Storage op_softmax_backward(Meta* y, Meta* g, Meta* out, int64_t dim):
    check_alike("softmax_backward", g, out)
    return along("softmax_backward", H_SOFTMAX_BACKWARD, y, g, out, dim)


cdef Storage op_log_softmax_backward(Meta* y, Meta* g, Meta* out, int64_t dim):
    check_alike("log_softmax_backward", g, out)
    return along("log_softmax_backward", H_LOG_SOFTMAX_BACKWARD, y, g, out, dim)
