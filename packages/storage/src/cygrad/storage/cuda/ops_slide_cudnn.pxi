# Convolutions by cuDNN, which is looked for when the first one is asked for. May use: ops_linalg, ops_slide.
from cygrad.storage.cuda import cudnn as cudnn_settings

cdef extern from "kernels.h" nogil:
    enum:
        CYG_CONV_TF32
        CYG_CONV_ANY_ORDER
        CYG_CONV_MEASURED
        CYG_NOT_TAKEN
    int cyg_cudnn_open(const char* path)
    int64_t cyg_cudnn_version()
    int cyg_convolution_known(int which, const void* conv, int settings)
    int cyg_convolution_plan(int which, const void* conv, int settings, char* memory, int64_t most, void** plan, int64_t* room,
                             void* stream)
    int cyg_convolve(const void* plan, const void* conv, double beta, char* memory, int64_t room, void* stream)
    void cyg_convolution_done(void* plan)

cdef enum:
    ROOM_AT_MOST = 1 << 30         # bytes that an algorithm may take beside its operands
    ROOM_TO_MEASURE = 1 << 28      # while algorithms are timed

cdef list searched = None         # sys.path when cuDNN was not found in it


cdef bint open_cudnn() except -1:
    """Bind cuDNN; whether it is there."""
    global searched
    if cyg_cudnn_version():
        return True
    if searched == sys.path:
        return False
    for path in library_paths("cudnn", "libcudnn", (9, 8)):
        if cyg_cudnn_open(os.fsencode(path)):
            return True
    searched = list(sys.path)
    return False


def cudnn_version():
    """The number of its version, as CUDNN_VERSION in its header; None where cuDNN is not found."""
    return cyg_cudnn_version() if open_cudnn() else None


cdef int settings_of_cudnn() except -1:
    cdef bint exact = cudnn_settings.deterministic or cudnn_settings.always_deterministic
    cdef int settings = CYG_CONV_TF32 if cudnn_settings.allow_tf32 else 0
    if cudnn_settings.benchmark:
        settings |= CYG_CONV_MEASURED if exact else CYG_CONV_MEASURED | CYG_CONV_ANY_ORDER
    return settings


cdef bint by_cudnn(Conv* c, int which, Meta* y, Meta* bias) except -1:
    """A convolution, or one of its gradients, into y; False where cuDNN is off, not there, or has no algorithm for it."""
    cdef int settings, code
    cdef void* plan = NULL
    cdef void* stream
    cdef int64_t room = 0
    cdef Storage memory = None
    if not cudnn_settings.enabled or not open_cudnn():
        return False
    settings = settings_of_cudnn()
    if settings & CYG_CONV_MEASURED and not cyg_convolution_known(which, c, settings):
        memory = scratch(c.device, ROOM_TO_MEASURE)
    enter(c.device, &stream)
    try:
        code = cyg_convolution_plan(which, c, settings, NULL if memory is None else memory.ptr,
                                    ROOM_AT_MOST if memory is None else ROOM_TO_MEASURE, &plan, &room, stream)
        if code == CYG_NOT_TAKEN:
            return False
        ran(code, "convolution", c.dtype)
        if bias:
            add_bias(y, bias)
        memory = scratch(c.device, max(room, <int64_t> 1))
        ran(cyg_convolve(plan, c, 1 if bias else 0, memory.ptr, room, stream), "convolution", c.dtype)
    finally:
        cyg_convolution_done(plan)
    return True
