# trace: which operation wrote a memory last, and where in the user's program operations ran. May use: mode.
# Which operation: always, a number in the storage (bump). Where: only while somebody asks for lines (CYGRAD_TRACE=1, trace_lines(),
# anomaly mode); then a node keeps the line of its call in its NodeExtra, and `written` the lines of the last writes.
# A line is (file, number, function of the user, public call of cygrad or None): no frame is held, so nothing lives longer.

cdef enum:
    OTHER_WRITES = 1024        # from here on, last_op is a place in write_names: writes that no row of the table stands for
    LINE_KNOWN = 0x8000        # in last_op: `written` has this write. A new storage, or a write without a line, has not
    MAX_WRITTEN = 4096         # storages whose lines are kept
    MAX_WRITES = 16            # writes of each

cdef int keeping_lines = 0     # how many ask for lines
cdef dict written = {}         # address of a storage -> [(version, last_op, line)]; least recently written storages first
cdef list write_names = []
cdef dict write_numbers = {}   # name -> its place

cdef dict OTHER_WORDS = {
    "unnamed": "an unnamed write", "function": "a custom Function", "optimizer_step": "an optimizer step", "clamp_both": "clamp_",
    "div_trunc": "div_"}
cdef object PLUMBING = frozenset({
    "__call__", "__getattr__", "__setattr__", "_call_impl", "_wrapped_call_impl", "apply", "call", "hooked", "wrapper", "<lambda>"})


def _keep_lines(int change):
    """Counts one more (1) or one less (-1) who asks for lines."""
    global keeping_lines
    keeping_lines += change


cdef bint own_frame(object frame):
    name = frame.f_globals.get("__name__")
    return type(name) is str and (name == "cygrad" or name.startswith("cygrad."))


cdef object user_line():
    """The innermost line that is not cygrad's own, and which function of cygrad it called (None: a compiled one)."""
    cdef str called = None
    try:
        frame = _sys._getframe(0)
    except ValueError:                   # called from C, no Python runs
        return None
    while frame is not None and own_frame(frame):
        name = frame.f_code.co_qualname.rpartition("<locals>.")[2]
        if name.rpartition(".")[2] not in PLUMBING:
            called = name
        frame = frame.f_back
    if frame is None:
        return None
    if called is not None:
        called = called.removesuffix(".forward")
    return (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, called)


def _user_line():
    return user_line()


cdef str line_text(tuple line):
    """For messages: file, line, function, the source, the call."""
    import linecache
    file, number, function, called = line
    source = linecache.getline(file, number).strip()
    place = f"{file}:{number}" + ("" if function == "<module>" else f", in {function}")
    return place + (f": {source}" if source else "") + (f" (in {called})" if called else "")


def _line_text(tuple line):
    return line_text(line)


cdef int named_write(str name) except -1:
    """The number that stands for a write of this name."""
    cdef object number = write_numbers.get(name)
    if number is None:
        if len(write_names) > 8000:
            return 0                     # Functions made in a loop: unnamed
        number = write_numbers[name] = len(write_names)
        write_names.append(name)
    return OTHER_WRITES + <int>number


cdef str op_word(int op):
    """What wrote in place, for messages: ``add_``."""
    cdef str name
    op &= ~LINE_KNOWN
    if op >= OTHER_WRITES:
        return write_names[op - OTHER_WRITES]
    name = ROW_NAMES[op - 1].removesuffix("_scaled") if op else "unnamed"
    return OTHER_WORDS.get(name, name + "_")


cdef int bump(Tensor t, uint16_t op) except -1:
    """Counts one in-place write."""
    t.mem.version += 1
    if keeping_lines:
        op = note_write(t, op)
    t.mem.last_op = op
    return 0


cdef int note_write(Tensor t, int op) except -1:
    """The last_op of this write, whose line is now known."""
    cdef size_t key = <size_t><void*>t.mem
    cdef list entries = written.pop(key, None)
    op |= LINE_KNOWN
    if entries is None or not t.mem.last_op & LINE_KNOWN:       # those are of a storage that was here before
        entries = []
    entries.append((t.mem.version, op, user_line()))
    if len(entries) > MAX_WRITES:
        del entries[0]
    written[key] = entries               # last in the order
    if len(written) > MAX_WRITTEN:
        del written[next(iter(written))]
    return op


cdef int rename_write(Tensor t, int op) except -1:
    """The write that was just counted has another name: that of the public call."""
    cdef list entries
    if t.mem.last_op & LINE_KNOWN:
        entries = written.get(<size_t><void*>t.mem)
        if entries:
            version, _, line = entries[len(entries) - 1]
            entries[len(entries) - 1] = (version, op | LINE_KNOWN, line)
        op |= LINE_KNOWN
    t.mem.last_op = op
    return 0


def _name_write(Tensor t, str name):
    """For compositions: the write that was just counted is `name`."""
    rename_write(t, named_write(name))


cdef str writes_text(Node n, Tensor t, uint32_t version):
    """What is known about the writes to t since `version`; n saved or made t, or is None."""
    cdef list entries = written.get(<size_t><void*>t.mem, []) if t.mem.last_op & LINE_KNOWN else []
    cdef list lines = []
    saved = None if n is None or n.x is None else n.x.line
    if saved is not None:
        lines.append(f"\n  saved by {node_name(n)} at {line_text(saved)}")
    entries = [e for e in entries if e[0] > version and e[2] is not None]
    if entries and entries[0][0] > version + 1:
        lines.append(f"\n  ({entries[0][0] - version - 1} earlier writes: no lines were kept)")
    for number, op, line in entries:
        lines.append(f"\n  overwritten by {op_word(op)} (version {number}) at {line_text(line)}")
    if not lines:
        lines.append(" Run with CYGRAD_TRACE=1, or inside autograd.trace_lines(), to see the lines where both ran.")
    return "".join(lines)


cdef int raise_changed(Node n, str which, Tensor t, uint32_t version) except -1:
    """A saved tensor is not what it was."""
    raise RuntimeError(
        f"one of the variables needed for gradient computation has been modified by an inplace operation: {node_name(n)} saved "
        f"{which}a {dtype_object(t.m.dtype)} tensor of shape {list(shape_tuple(&t.m))}, at version {version}, but it is "
        f"at version {t.mem.version} now; expected version {version} instead. The last in-place operation on its memory was "
        f"{op_word(t.mem.last_op)}. Use the out-of-place form, or clone() before writing."
        f"{writes_text(n, t, version)}")
