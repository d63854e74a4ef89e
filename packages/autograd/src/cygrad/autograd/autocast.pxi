# autocast: operations that compute in another dtype inside cygrad.autocast. May use: mode, opcall, ops.
# Which ones is PyTorch's choice, for the CPU and for devices, each of which has a mode of its own; a tensor is cast if the mode of where it
# lies is on. Rows of the op table say it for the CPU by their key `autocast`, whose lines the generator prints into op_NAME; matmul, cat
# and stack ask here themselves; what is written in Python is wrapped, and so are the public forms of rows that other dtypes are chosen for
# on devices only (autocasting.py). Casts are ordinary operations, so gradients come back in the dtypes of the originals.

cdef extern from *:
    """
    #if defined(_MSC_VER)
    static __declspec(thread) int cyg_low[2] = {-1, -1}, cyg_keep_casts = 1, cyg_nesting = 0;
    #else
    static __thread int cyg_low[2] = {-1, -1}, cyg_keep_casts = 1, cyg_nesting = 0;
    #endif
    """
    int cyg_low[2]             # dtype of what computes in less digits, on the CPU and on devices; -1: bfloat16 and float16, the defaults
    int cyg_keep_casts         # whether casts of leaves are kept until the outermost autocast ends
    int cyg_nesting

cdef object casts_of_thread = _threading.local()           # .kept: id of a leaf -> (leaf, its version, dtype, cast)


cdef inline int low_code(bint away) noexcept:
    return cyg_low[away] if cyg_low[away] >= 0 else FLOAT16 if away else BFLOAT16


cdef inline int autocast_bit(bint away) noexcept:
    return MODE_AUTOCAST_CUDA if away else MODE_AUTOCAST_CPU


cdef inline bint castable(int code) noexcept:
    return code == FLOAT32 or code == BFLOAT16 or code == FLOAT16


cdef Tensor recast(Tensor x, int code):
    """x in a dtype, unless it is of one that autocast leaves alone, float64, integers, complex numbers, or autocast is off where it lies."""
    if x is None or x.m.dtype == code or not castable(x.m.dtype) or not cyg_mode & autocast_bit(x.m.device != 0):
        return x
    if (cyg_keep_casts and code == low_code(x.m.device != 0) and x.m.dtype == FLOAT32 and x.flags & REQUIRES_GRAD and x.fn is None and x.base is None
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
    return recast(x, low_code(x.m.device != 0)) if x is not None else None


cdef Tensor raised(Tensor x):
    """For what needs the digits of a float32."""
    return recast(x, FLOAT32)


cdef int widest(list xs) except -1:
    """The dtype in which tensors come together: float32 if one is of it."""
    cdef bint away = False
    cdef int code, low, found
    for x in xs:
        away = away or (x is not None and (<Tensor>x).m.device != 0)
    low = found = low_code(away)
    for x in xs:
        code = (<Tensor>x).m.dtype if x is not None else found
        if code == FLOAT32:
            found = FLOAT32
        elif castable(code) and code != low and found != FLOAT32 and cyg_mode & autocast_bit(away):
            raise RuntimeError(f"autocast: Unexpected floating ScalarType, {dtype_object(code)} beside autocast to {dtype_object(low)}")
    return found


cdef list in_widest(list xs):
    cdef int code = widest(xs)
    return [recast(<Tensor>x, code) for x in xs]


cdef inline Tensor raised_away(Tensor x):
    """For operators that compute in float32 on devices only."""
    return raised(x) if cyg_mode & MODE_AUTOCAST_CUDA and x.m.device else x


cdef int uncast() noexcept:
    """Nothing is cast from here on. Returns the mode word to restore."""
    global cyg_mode
    cdef int before = cyg_mode
    cyg_mode = before & ~MODE_AUTOCAST
    return before


cdef object cast_in(object value, int code):
    """Tensors in nested lists, tuples and dictionaries in a dtype, the low one for -1, see recast."""
    if isinstance(value, Tensor):
        return lowered(<Tensor>value) if code < 0 else recast(<Tensor>value, code)
    if type(value) is list or type(value) is tuple:
        return type(value)([cast_in(v, code) for v in value])
    return value


cdef int gather_tensors(object value, list found) except -1:
    """Appends the tensors in nested lists, tuples and dictionaries."""
    if isinstance(value, Tensor):
        found.append(value)
    elif type(value) is list or type(value) is tuple:
        for v in value:
            gather_tensors(v, found)
    elif type(value) is dict:
        for v in value.values():
            gather_tensors(v, found)
    return 0


def _autocasts():
    """Whether autocast is on in this thread, for the CPU or for devices."""
    return cyg_mode & MODE_AUTOCAST != 0


def _autocasts_away(args, kwargs):
    """Whether autocast is on in this thread for devices, and a tensor among these arguments is on one."""
    cdef list found = []
    if not cyg_mode & MODE_AUTOCAST_CUDA:
        return False
    gather_tensors(args, found)
    gather_tensors(kwargs, found)
    for x in found:
        if (<Tensor>x).m.device:
            return True
    return False


def _uncast_call(function, args, kwargs):
    """A call inside which nothing is cast."""
    cdef int before = uncast()
    try:
        return function(*args, **kwargs)
    finally:
        switch_mode(MODE_AUTOCAST_CPU, before & MODE_AUTOCAST_CPU != 0)
        switch_mode(MODE_AUTOCAST_CUDA, before & MODE_AUTOCAST_CUDA != 0)


cdef int policy_code(str policy, object args, object kwargs) except -2:
    """The dtype that a policy asks for: "low" (-1), "float32" or "widest"."""
    cdef list found = []
    if policy == "low":
        return -1
    if policy == "float32":
        return FLOAT32
    gather_tensors(args, found)
    gather_tensors(kwargs, found)
    return widest(found)


def _cast_arguments(str policy not None, args, kwargs):
    """The arguments as an operation of this policy gets them."""
    cdef int code = policy_code(policy, args, kwargs)
    return [cast_in(v, code) for v in args], {name: cast_in(v, code) for name, v in kwargs.items()}


def _autocast_call(str policy not None, function, args, kwargs):
    """A call with all tensors in one dtype: the low one, float32, or the widest among them."""
    args, kwargs = _cast_arguments(policy, args, kwargs)
    return _uncast_call(function, args, kwargs)


def _autocast_state(bint away=False):
    """(on, dtype, whether casts are kept) of this thread; away: for devices."""
    return cyg_mode & autocast_bit(away) != 0, dtype_object(low_code(away)), cyg_keep_casts != 0


def _set_autocast(bint on, dtype low not None, bint keep, bint away=False):
    global cyg_keep_casts
    switch_mode(autocast_bit(away), on)
    cyg_low[away] = dtype_code(low)
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
