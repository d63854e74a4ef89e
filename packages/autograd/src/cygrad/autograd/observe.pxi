# observe: what find_nan(), strict() and profile() look at when an operation has run. May use: trace, opcall, engine.
# Everything here is cold: a bit of the mode word leads to it, and pointwise operations leave their fast paths for any such bit.

cdef object nan_found = None           # called with what gave NaN; it raises or takes note. See nan.py
cdef object leaf_used = None           # called with a leaf that strict mode saw used. See strict_mode.py
cdef object accident = None            # called with (kind, message), raises unless that kind is allowed. See strict_mode.py
cdef object results_keeper = None      # called with (row, result or None, inputs); see utils/checkpoint.py
cdef object backward_done = None       # called in strict mode when a pass has accumulated


def _set_observers(nan=None, used=None, refuse=None, done=None):
    global nan_found, leaf_used, accident, backward_done
    nan_found = nan or nan_found
    leaf_used = used or leaf_used
    accident = refuse or accident
    backward_done = done or backward_done


def _set_results_keeper(keeper):
    """What is called under MODE_KEPT: with None for a result before a row computes it, to give it back; then with the result."""
    global results_keeper
    results_keeper = keeper


def _keeping_results(bint on):
    """Whether the keeper is called in this thread from now on; returns whether it was."""
    before = cyg_mode & MODE_KEPT != 0
    switch_mode(MODE_KEPT, on)
    return before


cdef Tensor kept_result(int op, Tensor y, tuple inputs):
    """What the keeper has of a row's result, None for nothing; or, given the result, y."""
    cdef int mode = cyg_mode
    restore_mode(mode & ~MODE_KEPT)
    try:
        found = results_keeper(ROW_NAMES[op - 1], None if y is None else alias_of(y), inputs)
    finally:
        restore_mode(mode)
    return y if y is not None else None if found is None else alias_of(<Tensor>found)


def _strict_bit():
    return cyg_mode & MODE_STRICT != 0


def _observed():
    """Whether find_nan() or strict() is on in this thread."""
    return cyg_mode & MODE_OBSERVED != 0


def _observe_write(str name, Tensor y not None, tuple inputs):
    """For compiled code that writes tensors without an operation: y was written by `name` from the inputs."""
    global cyg_mode
    cdef int mode = cyg_mode
    if mode & MODE_NAN:
        cyg_mode = MODE_NO_GRAD
        try:
            if astray(y, mode & MODE_INF):
                nan_found("forward", name, "", (y,), inputs, None, user_line())
        finally:
            cyg_mode = mode


def _mode_bits(int mask, int bits):
    """Sets the bits of this thread's mode word under `mask`; returns what they were."""
    global cyg_mode
    cdef int before = cyg_mode & mask
    cyg_mode = (cyg_mode & ~mask) | (bits & mask)
    return before


cdef bint astray(Tensor t, bint inf) except -1:
    """Whether t holds NaN, or infinities where they count too. To be called with nothing recorded or observed."""
    if t is None or category(t.m.dtype) < 2 or t.m.numel == 0:
        return False
    if inf:
        t = op_sub(t, t)                 # 0 where finite
    return somewhere(op_ne(t, t))


cdef Tensor glimpse(Tensor x):
    """What x holds before it is overwritten, for find_nan."""
    return op_clone(alias_of(x)) if cyg_mode & MODE_NAN else x


cdef int observe(int op, Tensor y, tuple inputs, int64_t began) except -1:
    """y is a result of a row of the table, whose computation began then."""
    global cyg_mode
    cdef int mode = cyg_mode
    if mode & MODE_PROFILE:
        note_op(op, y, inputs, began)
    if mode & MODE_STRICT:
        for t in inputs:
            if t is not None:
                note_used(<Tensor>t)
    if mode & MODE_NAN:
        cyg_mode = MODE_NO_GRAD
        try:
            if astray(y, mode & MODE_INF):
                nan_found("forward", ROW_NAMES[op - 1], OPS[op].name.decode(), (y,), inputs, None, user_line())
        finally:
            cyg_mode = mode
    return 0


cdef int observe_function(FunctionCtx c, tuple args, tuple outputs) except -1:
    """A custom Function gave NaN that none of its operations showed: it computes outside of cygrad."""
    global cyg_mode
    cdef int mode = cyg_mode
    cyg_mode = MODE_NO_GRAD
    try:
        for t in outputs:
            if isinstance(t, Tensor) and astray(<Tensor>t, mode & MODE_INF):
                nan_found("forward", c.owner.__name__, "", tuple([o for o in outputs if isinstance(o, Tensor)]),
                          tuple([a for a in args if isinstance(a, Tensor)]), None, user_line())
                break
    finally:
        cyg_mode = mode
    return 0


cdef tuple held_by(Node n):
    """Tensors that n keeps for its gradient."""
    if n.op.id == OP_FUNCTION:
        return tuple([t if isinstance(t, Tensor) else None for t, _, _ in (<FunctionCtx>n).kept or ()])
    return (n.s0, n.s1, n.s2, n.s3)


cdef int observe_gradients(Node n, list given, tuple arrived, int mode) except -1:
    """n's backward has run: `given` by input. mode: that of the pass."""
    global cyg_mode
    cdef int now = cyg_mode
    cyg_mode = MODE_NO_GRAD
    try:
        for g in given:
            if isinstance(g, Tensor) and astray(<Tensor>g, mode & MODE_INF):
                results = tuple([g if isinstance(g, Tensor) else None for g in given])
                nan_found("backward", node_name(n), "", results, arrived, n, user_line())
                break
    finally:
        cyg_mode = now
    return 0


def _saved_by(Node n):
    """For reports: (name, tensor) of what a node keeps."""
    return [("result" if i == SLOT_OUT and n.op.id != OP_FUNCTION else f"{i}", t) for i, t in enumerate(held_by(n)) if t is not None]


def _line_of(Node n):
    """Where the user's program made a node, if lines were kept."""
    return None if n.x is None else n.x.line


def _memory_of(Tensor t):
    """(storage, its bytes): equal storages are one memory. One that borrows another's bytes is that other one."""
    cdef Storage s = t.mem
    while isinstance(s.owner, Storage):
        s = <Storage>s.owner
    return <size_t><void*>s, s.nbytes


def _birth_place():
    """For notes of where storages are made: the line of the program, and the name of the node whose backward runs, or None."""
    name = None
    if cyg_pass != NULL and (<Pass>cyg_pass).running != NULL:
        name = node_name(<Node>(<Pass>cyg_pass).running)
    return user_line(), name


def _kept_by(Node n):
    """(name, value, packed) of all that a node keeps for its backward: tensors, or what a pack hook made of them."""
    cdef list found = []
    cdef dict names
    if n.op.id == OP_FUNCTION:
        for i, (value, _, _) in enumerate((<FunctionCtx>n).kept or ()):
            add_kept(found, str(i), value)
        for name, value in getattr(n, "__dict__", {}).items():
            add_kept(found, f"ctx.{name}", value)
        return found
    names = {field: name for name, field in fields_of(n)}
    for slot, t in enumerate((n.s0, n.s1, n.s2, n.s3)):
        if t is None and n.x is not None and n.x.packed is not None:
            t = n.x.packed.get(slot)
        add_kept(found, names.get(str(slot), "result" if slot == SLOT_OUT else f"input {slot}"), t)
    add_kept(found, names.get("r", "rest"), n.rest)
    return found


cdef int add_kept(list found, str name, value) except -1:
    if isinstance(value, Tensor):
        found.append((name, value, False))
    elif isinstance(value, Packed):
        found.append((name, (<Packed>value).value, True))
    elif isinstance(value, Node):            # CopySlices keeps the node that wrote
        found += [(f"{node_name(<Node>value)}.{part}", v, packed) for part, v, packed in _kept_by(<Node>value)]
    elif isinstance(value, (list, tuple)):
        for each in value:
            add_kept(found, name, each)
    return 0


cdef bint own_function(Node n):
    """Whether n's backward is cygrad's code: a formula, whose parts are not looked at one by one."""
    return n.op.id != OP_FUNCTION or (<FunctionCtx>n).owner.__module__.startswith("cygrad.")


# ---- strict ---------------------------------------------------------------------------------------------------------

cdef int note_used(Tensor t) except -1:
    if t.flags & REQUIRES_GRAD and t.fn is None:
        leaf_used(t)
    return 0


cdef int refuse(str kind, str message) except -1:
    """Raises StrictError, unless this kind of accident is allowed here."""
    accident(kind, message)
    return 0


cdef int check_done() except -1:
    """A pass has accumulated its gradients."""
    if cyg_mode & MODE_STRICT:
        backward_done()
    return 0


def _storage_owners(Tensor t):
    """How many objects hold t's memory."""
    return (<PyObject*>t.mem).ob_refcnt


cdef int check_broadcast(const OpInfo* o, int nd, const int64_t* sizes, tuple operands) except -1:
    """Two operands that are both expanded, neither of them a number: (N,) and (N, 1) give (N, N)."""
    cdef int i, expanded = 0
    cdef bint whole
    cdef Tensor t
    for x in operands:
        if x is None or (<Tensor>x).m.numel == 1:
            continue
        t = <Tensor>x
        whole = t.m.ndim == nd
        for i in range(nd if whole else 0):
            whole = whole and t.m.sizes[i] == sizes[i]
        if whole:
            return 0                     # the others are expanded to it
        expanded += 1
    if expanded > 1 and called_by_user():
        shapes = " and ".join([str(list(shape_tuple(&(<Tensor>x).m))) for x in operands if x is not None])
        refuse("broadcast",
               f"{o.name.decode().lower()}: operands of shapes {shapes} are expanded both, to {[sizes[i] for i in range(nd)]}. That is an "
               "accident where one has a dimension too many or too few: see reshape(), squeeze() and unsqueeze(). Where it is "
               "meant, expand() one of them")
    return 0


cdef bint called_by_user():
    """Whether the innermost Python code that runs is not cygrad's, but for the public forms of rare rows."""
    try:
        frame = _sys._getframe(0)
    except ValueError:
        return True
    while frame is not None and frame.f_globals.get("__name__") == "cygrad.autograd.rows":
        frame = frame.f_back
    return frame is None or not own_frame(frame)


cdef bint narrower(int code, int than) noexcept:
    """Whether values of dtype `than` lose digits, range or parts in dtype `code`."""
    cdef int k = category(code), t = category(than)
    if code == than or than == BOOL:
        return False
    if k != t:
        return k < t
    if ITEMSIZE[code] != ITEMSIZE[than]:
        return ITEMSIZE[code] < ITEMSIZE[than]
    return k >= 2 or not is_unsigned(than)       # float16 and bfloat16; int32 and uint32, where a sign is lost


cdef int check_narrowing(int code, Tensor source, str where) except -1:
    """A tensor's values are to be written into one of dtype `code`. Python numbers take any."""
    if not source.flags & WRAPPED and narrower(code, source.m.dtype):
        refuse("narrowing",
               f"{where}: values of {dtype_object(source.m.dtype)} are written into a tensor of {dtype_object(code)} and lose digits "
               f"or range. Where that is meant, convert them first: x.to({dtype_object(code)})")
    return 0


cdef int check_written_dtypes(const OpInfo* o, Tensor x, Tensor a, Tensor b, Tensor c) except -1:
    """The same for the operands of an operation that writes x."""
    for t in (a, b, c):
        if t is not None and t is not x:
            check_narrowing(x.m.dtype, <Tensor>t, f"{ROW_NAMES[o.id - 1]}_")
    return 0
