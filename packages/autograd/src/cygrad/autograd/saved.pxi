# saved: tensors that saved_tensors_hooks took in place of the graph, and writes that somebody is told of. May use: node, view.
# Hooks belong to a thread. MODE_PACK says that some are active, MODE_WRITES that writes are announced.


class _Saving(_threading.local):
    """What a thread has set."""

    def __init__(self):
        self.hooks = []          # (pack, unpack), the innermost last
        self.disabled = None     # why hooks are not allowed
        self.writes = []         # called with a tensor before it is written


cdef object saving = _Saving()


@cython.final
cdef class Packed:
    # owned by a NodeExtra, or by a FunctionCtx; GC
    cdef object value            # what the pack hook returned
    cdef object unpack
    cdef object target           # of a Function's saved value: where its gradient goes; else the node's edge says it
    cdef uint32_t nr
    cdef bint leaf


cyg_set_new(Packed, cyg_no_new)


cdef int refuse_inference() except -1:
    raise RuntimeError(
        "Inference tensors cannot be saved for backward: what a gradient needs was made in inference mode. clone() it for a normal "
        "tensor, or make it under `no_grad()` in place of `inference_mode()`.")


cdef Packed pack(Tensor t, object hooks):
    """Hands t to the pack hook. Nothing in it is recorded; it must not change t."""
    cdef Packed p = Packed.__new__(Packed)
    cdef int before = set_recording(False)
    cdef uint32_t version = t.mem.version
    try:
        p.value = hooks[0](t)
    finally:
        restore_mode(before)
    if t.mem.version != version:
        raise RuntimeError(
            "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook can not be modified by "
            "in-place operations: clone() it in the hook.")
    p.unpack = hooks[1]
    return p


cdef Tensor unpack_value(Packed p):
    """What the unpack hook makes of the packed value, as a tensor without history."""
    cdef Tensor y
    value = p.unpack(p.value)
    if not isinstance(value, Tensor):
        raise TypeError(f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {kind_of(value)}")
    y = alias_of(<Tensor>value)
    share_tangents(y, <Tensor>value)
    return y


cdef object saved_hooks():
    """The pair in force."""
    return saving.hooks[len(saving.hooks) - 1]


cdef int save_packed(Node n, int slot, Tensor t) except -1:
    return put_packed(n, slot, pack(t, saved_hooks()))


cdef int pack_saved(Node n) except -1:
    """Hands on what a node kept until the tangents of its result were there, which must be found from the tensors themselves."""
    cdef Tensor t
    for slot in range(4):
        t = slot_of(n, slot)
        if t is not None and not t.flags & WRAPPED:
            save_packed(n, slot, t)
            empty_slot(n, slot)
    return 0


cdef inline Tensor slot_of(Node n, int slot):
    return n.s0 if slot == 0 else n.s1 if slot == 1 else n.s2 if slot == 2 else n.s3


cdef int empty_slot(Node n, int slot) except -1:
    if slot == 0:
        n.s0 = None
    elif slot == 1:
        n.s1 = None
    elif slot == 2:
        n.s2 = None
    else:
        n.s3 = None
    return 0


cdef int put_packed(Node n, int slot, Packed p) except -1:
    n.saved |= 1 << slot
    if extra(n).packed is None:
        n.x.packed = {}
    n.x.packed[slot] = p
    return 0


cdef Tensor unpack_packed(Node n, int slot):
    """The saved tensor, with the history that the original had. Versions are the hooks' business."""
    cdef Tensor y = unpack_value(n.x.packed[slot])
    cdef uint32_t nr = 0
    cdef bint leaf = False
    if not recording() or category(y.m.dtype) < 2 or n.dual == INPUTS_ONLY:
        return y
    if slot == SLOT_OUT:
        attach_output(n, y)
    elif slot < n.n_edges:
        e = edge(n, slot, &nr, &leaf)
        connect(y, e, nr, leaf)
    return y


cdef int connect(Tensor y, object e, uint32_t nr, bint leaf) except -1:
    """Gradients of y, which has no history, go to e from now on."""
    cdef Node n
    if e is None or (leaf and not needs(<Tensor>e)):
        return 0
    if leaf:                     # y stands for the leaf: one step of the graph leads there
        n = node_new(&OPS[OP_ALIAS])
        put_edge(n, 0, e, 0, True)
        return node_set_output(n, y)
    y.fn = <Node>e
    y.out_nr = nr
    y.flags |= REQUIRES_GRAD
    return 0


@cython.final
cdef class SavedTensor:
    """A value that a node keeps for backward, before it is unpacked: ``node._raw_saved_self``."""

    cdef Node node
    cdef int slot

    def register_hooks(self, pack_hook, unpack_hook):
        """Keeps what ``pack_hook(tensor)`` returns in place of the tensor; ``unpack_hook`` makes the tensor of it again."""
        cdef Node n = self.node
        cdef int slot = self.slot
        cdef Tensor t = slot_of(n, slot)
        check_hook_pair(pack_hook, unpack_hook)
        if n.released:
            raise RuntimeError(RELEASED)
        if t is None:
            raise RuntimeError("Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of hooks is "
                               "allowed at a time.")
        put_packed(n, slot, pack(t, (pack_hook, unpack_hook)))
        empty_slot(n, slot)


cyg_set_new(SavedTensor, cyg_no_new)


cdef int check_hook_pair(object pack_hook, object unpack_hook) except -1:
    for hook in (pack_hook, unpack_hook):
        if not callable(hook):
            raise TypeError(f"saved tensor hooks must be callable, got {kind_of(hook)}")
    return 0


def push_saved_hooks(pack_hook, unpack_hook):
    """Makes these the hooks of this thread until `pop_saved_hooks`."""
    check_hook_pair(pack_hook, unpack_hook)
    if saving.disabled is not None:
        raise RuntimeError(saving.disabled)
    saving.hooks.append((pack_hook, unpack_hook))
    switch_mode(MODE_PACK, True)


def pop_saved_hooks():
    """Takes the innermost hooks off."""
    saving.hooks.pop()
    switch_mode(MODE_PACK, len(saving.hooks) > 0)


def set_saved_hooks_disabled(message):
    """Refuses new hooks with this message; None allows them again. Returns what it was."""
    if message is not None and not isinstance(message, str):
        raise TypeError(f"disable_saved_tensors_hooks(): the message must be a str, got {kind_of(message)}")
    if message is not None and saving.hooks:
        raise RuntimeError(message)
    before = saving.disabled
    saving.disabled = message
    return before


def watch_writes(watcher):
    """Calls ``watcher(tensor)`` before each write in place of this thread; None takes the innermost watcher off."""
    if watcher is None:
        saving.writes.pop()
    else:
        saving.writes.append(watcher)
    switch_mode(MODE_WRITES, len(saving.writes) > 0)


cdef int announce_write(Tensor x) except -1:
    for watcher in list(saving.writes):
        watcher(x)
    return 0


cdef int before_write(Tensor x) except -1:
    check_own_mode(x)
    return announce_write(x) if cyg_mode & MODE_WRITES else 0


def increment_version(tensor):
    """Counts one change in place of a tensor, or of each tensor of an iterable: for code that writes to their memory itself.

    Raises
    ------
    RuntimeError
        A tensor was made in inference mode.
    """
    cdef Tensor t
    for each in (tensor,) if isinstance(tensor, Tensor) else tuple(tensor):
        if not isinstance(each, Tensor):
            raise TypeError(f"increment_version expects each element of the iterable to be a tensor, got {kind_of(each)}")
        t = <Tensor>each
        check_own_mode(t)
        bump(t, 0)


# ---- what a node keeps, by name: node._saved_self, node._saved_dim, node._raw_saved_self

cdef dict saved_fields = {}      # row name -> ((name, field), ...), read from saved_texts when first asked for
cdef list saved_texts = []       # what the modules of gradients say of their rows


def add_saved_fields(str text):
    """What nodes of some rows keep, as the op generator prints it."""
    saved_texts.append(text)


cdef tuple fields_of(Node n):
    """(name, field) of all that n keeps. field: a slot's number; r for `rest`; or the number's place after a letter for its
    type: d float, i int, b bool, t dtype, m a set of dimensions, a one dimension."""
    cdef int id = n.op.id
    if not saved_fields:
        for line in ";".join(saved_texts).split(";"):
            row, _, fields = line.partition(":")
            saved_fields[row] = tuple([tuple(f.split("=")) for f in fields.split(",")])
    return saved_fields.get(ROW_NAMES[id - 1], ()) if 0 < id <= len(ROW_NAMES) else ()


cdef list saved_names(Node n):
    cdef list names = []
    for name, field in fields_of(n):
        names.append("_saved_" + name)
        if field in "0123":
            names.append("_raw_saved_" + name)
    return names


cdef object saved_attribute(Node n, str name):
    cdef SavedTensor raw
    cdef str wanted_name = name.removeprefix("_raw").removeprefix("_saved_")
    if name.startswith(("_saved_", "_raw_saved_")):
        for each, field in fields_of(n):
            if each == wanted_name and field in "0123" and name[1] == "r":
                raw = SavedTensor.__new__(SavedTensor)
                raw.node = n
                raw.slot = int(field)
                return raw
            if each == wanted_name and name[1] == "s":
                return saved_value(n, field)
    raise AttributeError(f"'{node_name(n)}' object has no attribute '{name}'")


cdef object saved_value(Node n, str field):
    """None stands for a tensor that no wanted gradient reads."""
    cdef int k
    if n.released:
        raise RuntimeError(RELEASED)
    if field in "0123":
        if not n.saved >> int(field) & 1:
            return None
        return unpack(n, int(field))
    if field[0] == "r":
        return n.rest
    k = int(field[1])
    if field[0] == "d":
        return n.attr[k]
    if field[0] == "b":
        return bool(n.iattr[k])
    if field[0] == "t":
        return dtype_object(n.iattr[k]) if n.iattr[k] >= 0 else None
    if field[0] in "am":
        dims = [i for i in range(64) if <uint64_t>n.iattr[k] >> i & 1]
        return tuple(dims) if field[0] == "m" or len(dims) != 1 else dims[0]
    return n.iattr[k]
