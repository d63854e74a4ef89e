# autocast: operations that compute in another dtype inside cygrad.autocast. May use: mode, opcall, ops.
# Which ones is PyTorch's choice for the CPU. Rows of the op table say it by their key `autocast`, whose lines the generator prints into
# op_NAME; matmul, cat and stack ask here themselves; what is written in Python is wrapped (autocast.py). Casts are ordinary operations,
# so gradients come back in the dtypes of the originals.

cdef extern from *:
    """
    #if defined(_MSC_VER)
    static __declspec(thread) int cyg_low = -1, cyg_keep_casts = 1, cyg_nesting = 0;
    #else
    static __thread int cyg_low = -1, cyg_keep_casts = 1, cyg_nesting = 0;
    #endif
    """
    int cyg_low                # dtype of what computes in less digits; -1: bfloat16, the default
    int cyg_keep_casts         # whether casts of leaves are kept until the outermost autocast ends
    int cyg_nesting

cdef object casts_of_thread = _threading.local()           # .kept: id of a leaf -> (leaf, its version, dtype, cast)


cdef inline int low_code() noexcept:
    return BFLOAT16 if cyg_low < 0 else cyg_low


cdef inline bint castable(int code) noexcept:
    return code == FLOAT32 or code == BFLOAT16 or code == FLOAT16


cdef Tensor recast(Tensor x, int code):
    """x in a dtype, unless it is of one that autocast leaves alone: float64, integers, complex numbers."""
    if x is None or x.m.dtype == code or not castable(x.m.dtype):
        return x
    if (cyg_keep_casts and code == low_code() and x.m.dtype == FLOAT32 and x.flags & REQUIRES_GRAD and x.fn is None and x.base is None
            and recording() and not x.flags & (BATCHED | DUAL)):
        return kept_cast(x, code)
    return op_cast(x, code)


cdef Tensor kept_cast(Tensor leaf, int code):
    """The cast of a weight that several operations use, which so has one gradient; anew when the weight was written."""
    cdef dict kept = casts_of_thread.__dict__.setdefault("kept", {})
    cdef tuple found = kept.get(<size_t><void*>leaf)
    if found is not None and found[0] is leaf and found[1] == leaf.mem.version and found[2] == code:
        return <Tensor>found[3]
    cdef Tensor y = op_cast(leaf, code)
    if cyg_nesting > 0:                  # otherwise nothing would ever end it
        kept[<size_t><void*>leaf] = (leaf, leaf.mem.version, code, y)
    return y


cdef Tensor lowered(Tensor x):
    """For what computes in less digits."""
    return recast(x, low_code())


cdef Tensor raised(Tensor x):
    """For what needs the digits of a float32."""
    return recast(x, FLOAT32)


cdef int widest(list xs) except -1:
    """The dtype in which tensors come together: float32 if one is of it."""
    cdef int code, found = low_code()
    for x in xs:
        code = (<Tensor>x).m.dtype if x is not None else found
        if code == FLOAT32:
            found = FLOAT32
        elif castable(code) and code != low_code() and found != FLOAT32:
            raise RuntimeError(f"autocast: Unexpected floating ScalarType, {dtype_object(code)} beside autocast to {dtype_object(low_code())}")
    return found


cdef list in_widest(list xs):
    cdef int code = widest(xs)
    return [recast(<Tensor>x, code) for x in xs]


cdef int uncast() noexcept:
    """Nothing is cast from here on. Returns the mode word to restore."""
    global cyg_mode
    cdef int before = cyg_mode
    cyg_mode = before & ~MODE_AUTOCAST
    return before


cdef object cast_in(object value, int code):
    """Tensors in nested lists, tuples and dictionaries in a dtype, see recast."""
    if isinstance(value, Tensor):
        return recast(<Tensor>value, code)
    if type(value) is list or type(value) is tuple:
        return type(value)([cast_in(v, code) for v in value])
    return value


def _autocasts():
    """Whether autocast is on in this thread."""
    return cyg_mode & MODE_AUTOCAST != 0


def _uncast_call(function, args, kwargs):
    """A call inside which nothing is cast."""
    cdef int before = uncast()
    try:
        return function(*args, **kwargs)
    finally:
        switch_mode(MODE_AUTOCAST, before & MODE_AUTOCAST != 0)


def _autocast_call(bint low, function, args, kwargs):
    """A call with all tensors in one dtype: the low one, or float32."""
    cdef int code = low_code() if low else FLOAT32
    args = [cast_in(v, code) for v in args]
    return _uncast_call(function, args, {name: cast_in(v, code) for name, v in kwargs.items()})


def _autocast_state():
    """(on, dtype, whether casts are kept) of this thread."""
    return cyg_mode & MODE_AUTOCAST != 0, dtype_object(low_code()), cyg_keep_casts != 0


def _set_autocast(bint on, dtype low not None, bint keep):
    global cyg_low, cyg_keep_casts
    switch_mode(MODE_AUTOCAST, on)
    cyg_low = dtype_code(low)
    cyg_keep_casts = keep


def autocast_increment_nesting():
    """Enter one more level; returns how many there are."""
    global cyg_nesting
    cyg_nesting += 1
    return cyg_nesting


def autocast_decrement_nesting():
    """Leave a level; returns how many are left."""
    global cyg_nesting
    cyg_nesting -= 1
    return cyg_nesting


def clear_autocast_cache():
    """Forget the casts that were kept in this thread."""
    casts_of_thread.__dict__.pop("kept", None)
