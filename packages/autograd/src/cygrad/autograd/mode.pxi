# mode: what the current thread records. May use: nothing. Invariant: 0 means "record, nothing special", the fast path's test.

cdef extern from *:
    """
    #if defined(_MSC_VER)
    static __declspec(thread) int cyg_mode = 0;
    static __declspec(thread) int cyg_limit = 0x7fffffff;
    #else
    static __thread int cyg_mode __attribute__((tls_model("initial-exec"))) = 0;   /* no call to find it */
    static __thread int cyg_limit __attribute__((tls_model("initial-exec"))) = 0x7fffffff;
    #endif
    """
    int cyg_mode
    int cyg_limit              # tangents of levels of this depth and more are out of sight

cdef enum:
    MODE_NO_GRAD = 1
    MODE_INFERENCE = 2       # nothing is recorded whatever the grad mode, and memory made now is marked (Storage.origin)
    MODE_PACK = 4            # saved_tensors_hooks take what is saved
    MODE_WRITES = 8          # somebody is told of writes in place before they happen
    MODE_UNRECORDED = 3
    MODE_AUTOCAST_CPU = 16   # some operations compute in other dtypes (autocast.pxi), on the CPU
    MODE_AUTOCAST_CUDA = 32  # the same on devices
    MODE_AUTOCAST = 48
    MODE_QUICK = 51          # what fast paths of pointwise operations need not look at
    MODE_NAN = 0x100           # find_nan(): results and gradients are looked at
    MODE_INF = 0x200           # beside it: infinities count too
    MODE_STRICT = 0x400        # strict(): accidents are errors
    MODE_PROFILE = 0x800       # profile(): when operations begin and end is written down (profile.pxi)
    MODE_OBSERVED = 0xD00      # operations report what they did (observe.pxi)
    MODE_KEPT = 0x1000         # results of kernel rows are kept, or given back without being computed (observe.pxi)

cdef enum:                   # Storage.origin; 0: made in normal mode
    UNCOUNTED = 1            # made in inference mode: writes are not counted, and refused outside of it
    COUNTED = 2              # such memory seen through .data, which counts its own


cdef inline bint recording() noexcept:
    return (cyg_mode & MODE_UNRECORDED) == 0


cdef inline int set_recording(bint on) noexcept:
    """Returns the mode word to restore."""
    global cyg_mode
    cdef int before = cyg_mode
    cyg_mode = before & ~MODE_NO_GRAD if on else before | MODE_NO_GRAD
    return before


cdef inline int work_unseen() noexcept:
    """For parts of an operation: nothing of them is recorded or reported. Returns the mode word to restore."""
    global cyg_mode
    cdef int before = cyg_mode
    cyg_mode = MODE_NO_GRAD | before & MODE_INFERENCE
    return before


cdef void restore_mode(int before) noexcept:
    global cyg_mode
    cyg_mode = before


cdef inline void switch_mode(int bit, bint on) noexcept:
    global cyg_mode
    cyg_mode = cyg_mode | bit if on else cyg_mode & ~bit


def is_grad_enabled():
    """Whether grad mode is on in this thread."""
    return (cyg_mode & MODE_NO_GRAD) == 0


def is_inference_mode_enabled():
    """Whether inference mode is on in this thread."""
    return (cyg_mode & MODE_INFERENCE) != 0


def _set_grad_enabled(bint mode):
    set_recording(mode)


def _set_inference_mode(bint mode, bint grad):
    """Inference mode on or off, with this grad mode; returns what both were, to be given back."""
    before = is_inference_mode_enabled(), is_grad_enabled()
    switch_mode(MODE_INFERENCE, mode)
    switch_mode(MODE_NO_GRAD, not grad)
    storage_origin(mode)
    return before
