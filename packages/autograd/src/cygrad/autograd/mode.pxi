# mode: what the current thread records. May use: nothing. Invariant: 0 means "record, nothing special", the fast path's test.

cdef extern from *:
    """
    #if defined(_MSC_VER)
    static __declspec(thread) int cyg_mode = 0;
    #else
    static __thread int cyg_mode __attribute__((tls_model("initial-exec"))) = 0;   /* no call to find it */
    #endif
    """
    int cyg_mode

cdef enum:
    MODE_NO_GRAD = 1


cdef inline bint recording() noexcept:
    return (cyg_mode & MODE_NO_GRAD) == 0


cdef inline int set_recording(bint on) noexcept:
    """Returns the mode word to restore."""
    global cyg_mode
    cdef int before = cyg_mode
    cyg_mode = before & ~MODE_NO_GRAD if on else before | MODE_NO_GRAD
    return before


cdef inline void restore_mode(int before) noexcept:
    global cyg_mode
    cyg_mode = before


def is_grad_enabled():
    """Whether operations of this thread are recorded now."""
    return recording()


def _set_grad_enabled(bint mode):
    set_recording(mode)
