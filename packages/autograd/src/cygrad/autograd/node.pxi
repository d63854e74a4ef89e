# node: one step of the backward graph. May use: mode.
# A Node keeps what its gradient needs in named object slots, so that Cython traverses and clears them and a cycle made by
# a hook or by create_graph is collectable. Edges point to the nodes that made the inputs; the graph owns only towards the leaves.

cdef extern from *:
    """
    /* newfunc, with a class as any other object */
    typedef PyObject* (*cyg_new)(PyObject* type, PyObject* args, PyObject* kwargs);
    #define cyg_new_of(type) ((cyg_new)((PyTypeObject*)(type))->tp_new)
    static void cyg_set_new(PyObject* type, cyg_new made) {
        ((PyTypeObject*)type)->tp_new = (newfunc)made;
        ((PyTypeObject*)type)->tp_vectorcall = NULL;      /* Cython's would pass it by */
        PyType_Modified((PyTypeObject*)type);
    }
    #define cyg_is_plain(node, cls) (Py_TYPE(node) == (PyTypeObject*)(cls))
    static void cyg_set_type(PyObject* node, PyObject* cls) {
        Py_INCREF(cls);                                    /* instances own their class, where it was made at run time */
        Py_SET_TYPE(node, (PyTypeObject*)cls);
    }
    static PyObject* cyg_no_new(PyObject* type, PyObject* args, PyObject* kwargs) {
        (void)args; (void)kwargs;
        return PyErr_Format(PyExc_TypeError, "%.200s objects are made by cygrad itself, they cannot be constructed",
                            ((PyTypeObject*)type)->tp_name);
    }
    """
    ctypedef object (*New "cyg_new")(object, PyObject*, PyObject*)
    bint cyg_is_plain(object node, object cls) noexcept
    void cyg_set_type(object node, object cls) noexcept
    New cyg_new_of(object type) noexcept
    void cyg_set_new(object type, New made) noexcept
    New cyg_no_new

cdef extern from "node_memory.h":
    void cyg_set_node_memory(object type, Py_ssize_t head) noexcept


cdef uint64_t node_seq = 0
cdef int watching = 0              # WATCH_...: what anomaly mode, which is the whole process's, asks for
cdef OpInfo[1024] OPS              # by op id; filled at import
cdef OpInfo OP_ACCUMULATE          # the leaf's node
OP_ACCUMULATE.name = b"AccumulateGrad"
OP_ACCUMULATE.id = 0
cdef const OpInfo* RESHAPE_ALIAS   # views that reshape() makes, under PyTorch's names; see table.pxi
cdef const OpInfo* UNSAFE_VIEW


_GradientMeta = _namedtuple("_GradientMeta", "shape dtype device")


class Hooks:
    """What users attached to a node: dicts of callables by handle id."""

    __slots__ = ("tensor", "pre", "post", "retain", "metadata")

    def __init__(self):
        self.tensor = []        # (output number, dict) in order of registration
        self.pre = {}
        self.post = {}
        self.metadata = {}
        self.retain = {}        # output number -> weak reference to the tensor whose .grad is kept


cdef class NodeExtra:
    pass


cyg_set_new(NodeExtra, cyg_no_new)


@cython.final
cdef class SizesBlock:
    # owned by a Tensor, or by the NodeExtra of a node, of more than INLINE dimensions
    cdef Meta meta             # holds the block, nothing else

    def __dealloc__(self):
        meta_clear(&self.meta)


cyg_set_new(SizesBlock, cyg_no_new)


@cython.final
@cython.no_gc_clear
cdef class LeafLink:
    # owned by the AccumulateGrad node of a leaf. The collector must not clear it: its death is what ends leaf.acc.
    cdef Tensor leaf

    def __dealloc__(self):
        self.leaf.acc = NULL


cyg_set_new(LeafLink, cyg_no_new)


cdef NodeExtra extra(Node n):
    if n.x is None:
        n.x = NodeExtra.__new__(NodeExtra)
    return n.x


@cython.freelist(512)
@cython.trashcan(True)
cdef class Node:
    """A recorded operation: a node of the backward graph. Made by operations, never by users."""

    def __init__(self):
        raise TypeError("graph nodes are made by recorded operations, they cannot be constructed")

    def name(self):
        """The operation, as PyTorch names it: ``MulBackward0``, ``AccumulateGrad``."""
        return node_name(self)

    def __repr__(self):
        return f"<{node_name(self)} object at {<size_t><void*>self:#x}>"

    @property
    def next_functions(self):
        """Pairs (node, which of its outputs) that gradients of the inputs go to; (None, 0) where none is needed."""
        cdef uint32_t nr = 0
        cdef bint leaf = False
        out = []
        for i in range(self.n_edges):
            e = edge(self, i, &nr, &leaf)
            out.append((None, 0) if e is None else (shown(accumulate_node(<Tensor>e)), 0) if leaf else (shown(e), nr))
        return tuple(out)

    @property
    def variable(self):
        """The leaf, of an AccumulateGrad node."""
        if self.op is not &OP_ACCUMULATE:
            raise AttributeError(f"{node_name(self)} has no attribute 'variable': only AccumulateGrad has")
        return self.rest

    def _sequence_nr(self):
        return self.seq

    @property
    def _output_meta(self):
        """((shape, dtype), ...) of the outputs that this node made."""
        if many(self):
            return tuple(None if o is None else (o[0], dtype_object(o[1])) for o in self.x.outs)
        if self.op is &OP_ACCUMULATE:
            return ((shape_tuple(&(<Tensor>self.rest).m), dtype_object((<Tensor>self.rest).m.dtype)),)
        return ((Size([self.osizes[i] for i in range(self.ondim)]), dtype_object(self.odtype)),)

    @property
    def _saved_tensors(self):
        """Tensors kept for backward, by slot: inputs, then the output."""
        if self.released:
            raise RuntimeError(RELEASED)
        return tuple(t for t in (self.s0, self.s1, self.s2, self.s3) if t is not None)

    @property
    def _input_metadata(self):
        """For each output of this node, what its gradient is: an object with shape, dtype and device."""
        if many(self):
            return tuple(None if o is None else _GradientMeta(o[0], dtype_object(o[1]), device_object(o[2])) for o in self.x.outs)
        place = (<Tensor>self.rest).m.device if self.op is &OP_ACCUMULATE else self.odevice
        return (_GradientMeta(*self._output_meta[0], device_object(place)),)

    def __getattr__(self, name):
        return saved_attribute(self, name)

    def __dir__(self):
        return [*object.__dir__(self), *saved_names(self)]

    def __call__(self, *grads):
        """The gradients that this node gives for those of its outputs, as in a backward pass that goes no further."""
        return call_node(self, grads)

    def register_hook(self, hook):
        """Calls ``hook(grad_inputs, grad_outputs)`` after this node ran; a returned tuple replaces grad_inputs."""
        return add_hook(node_hooks(self).post, hook)

    def register_prehook(self, hook):
        """Calls ``hook(grad_outputs)`` before this node runs; a returned tuple replaces them."""
        return add_hook(node_hooks(self).pre, hook)

    @property
    def metadata(self):
        """A dict of the user's own, for notes about this node."""
        return node_hooks(self).metadata

    def __reduce_ex__(self, protocol):
        raise TypeError(f"cannot pickle '{node_name(self)}' object: a node belongs to the graph of this process. Save or copy values, "
                        "tensor.detach(), not their history")


# A node without an operation has nothing that its methods could read.
cyg_set_new(Node, cyg_no_new)
cyg_set_node_memory(Node, _sys.getsizeof([]) - [].__sizeof__())


RELEASED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). "
    "Saved values of the graph are freed by .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time.")


cdef list node_titles = [None]     # names of nodes that end an operation made of several
cdef dict title_numbers = {}       # name -> its place in node_titles


def entitled(Tensor y not None, str name not None):
    """y, a new tensor: its node gets the name that PyTorch's has, where the operation that made y is only the last of several."""
    if y.fn is not None:
        number = title_numbers.get(name)
        if number is None:
            if len(node_titles) > 255:
                raise SystemError(f"no number is left for the node name {name!r}")
            number = title_numbers[name] = len(node_titles)
            node_titles.append(name)
        y.fn.title = number
    return y


cdef dict node_classes = {}        # name -> the class that nodes of this name have when somebody looks at them


cdef Node shown(Node n):
    """n for users: its class is one of its own name, as PyTorch's nodes have. Nobody looks at most nodes, so they get it here."""
    if n is not None and cyg_is_plain(n, Node):
        name = node_name(n)
        cls = node_classes.get(name)
        if cls is None:
            cls = node_classes[name] = type(name, (Node,), {"__slots__": (), "__doc__": Node.__doc__, "__module__": "builtins"})
            cyg_set_new(cls, cyg_no_new)
        cyg_set_type(n, cls)
    return n


cdef str node_name(Node n):
    if n.op is &OP_ACCUMULATE:
        return "AccumulateGrad"
    if n.title:
        return node_titles[n.title]
    if n.op.id == OP_FUNCTION:
        return type(n).__name__
    name = n.op.name.decode()
    return name if name == "CopySlices" else f"{name}Backward{n.digit}"


cdef inline Node node_new(const OpInfo* op):
    global node_seq
    cdef Node n = Node.__new__(Node)
    n.op = op
    n.seq = node_seq
    node_seq += 1
    if keeping_lines:
        note_origin(n)
    return n


cdef int node_set_output(Node n, Tensor y) except -1:
    """Makes `y` output 0 of n: the engine checks the arriving gradient against this shape and dtype."""
    shape_output(n, &y.m)
    if y.flags & BATCHED:
        extra(n).levels = batch_of(y).levels
    if n.dual == HAS_DUALS:
        return dual_output(n, y)
    y.fn = n
    y.out_nr = 0
    y.flags |= REQUIRES_GRAD
    return 0


cdef inline Tensor numbered(Tensor y, int digit):
    """y, whose node gets the name of PyTorch's overload."""
    if y.fn is not None:
        y.fn.digit = digit
    return y


cdef inline Tensor called(Tensor y, const OpInfo* name):
    """y, whose node gets another name: that of `name`, a copy of its operation's row."""
    if y.fn is not None:
        y.fn.op = name
    return y


cdef inline bint many(Node n) noexcept:
    """Whether n made several outputs."""
    return n.x is not None and n.x.outs is not None


cdef inline object edge(Node n, int k, uint32_t* nr, bint* leaf):
    """Where the gradient of input k goes: a Node and its output number, or a leaf Tensor, or None."""
    cdef list more
    if k < 4:
        nr[0] = n.nr[k]
        leaf[0] = n.leaves >> k & 1
        return n.e0 if k == 0 else n.e1 if k == 1 else n.e2 if k == 2 else n.e3
    more = n.x.more[k - 4]
    nr[0] = more[1]
    leaf[0] = more[2]
    return more[0]


cdef int set_edge(Node n, int k, Tensor t) except -1:
    """Edge k goes to what made t; nowhere when t is None or needs no gradient."""
    if t is None:
        return put_edge(n, k, None, 0, False)
    if shows_tangent(t):
        return dual_edge(n, k, t)
    return plain_edge(n, k, t)


cdef int plain_edge(Node n, int k, Tensor t) except -1:
    if not needs(t):
        return put_edge(n, k, None, 0, False)
    if t.base is not None and t.view_version != t.mem.version:
        view_refresh(t)
    if t.fn is not None:
        return put_edge(n, k, t.fn, t.out_nr, False)
    if not t.flags & REQUIRES_GRAD:          # a view made under no_grad, of a leaf
        return put_edge(n, k, None, 0, False)
    if cyg_mode & MODE_STRICT:
        note_used(t)
    return put_edge(n, k, t, 0, True)


cdef int put_edge(Node n, int k, object e, uint32_t nr, bint leaf) except -1:
    cdef NodeExtra x
    if k >= n.n_edges:
        n.n_edges = k + 1
    if k < 4:
        n.nr[k] = nr
        n.leaves = n.leaves | (1 << k) if leaf else n.leaves & ~(1 << k)
        if k == 0:
            n.e0 = e
        elif k == 1:
            n.e1 = e
        elif k == 2:
            n.e2 = e
        else:
            n.e3 = e
        return 0
    x = extra(n)
    if x.more is None:
        x.more = []
    while len(x.more) < k - 3:
        x.more.append([None, 0, False])
    x.more[k - 4] = [e, nr, leaf]
    return 0


cdef Node accumulate_node(Tensor leaf):
    """The leaf's AccumulateGrad, for those who look at the graph: one for as long as somebody holds it. The graph itself does not
    need it; its edges point to the leaf."""
    cdef Node n
    cdef LeafLink link
    if leaf.acc != NULL:
        return <Node>leaf.acc
    n = node_new(&OP_ACCUMULATE)
    n.rest = leaf
    link = LeafLink.__new__(LeafLink)
    link.leaf = leaf
    extra(n).owned = link
    leaf.acc = <void*>n
    return n


cdef inline bint needs(Tensor t) noexcept:
    """Whether t needs a gradient; a view does when its base does, which may have come later."""
    return t.flags & REQUIRES_GRAD != 0 or (t.base is not None and t.base.flags & REQUIRES_GRAD != 0)


cdef inline int marks(Tensor t) noexcept:
    """The flags of t and of its base."""
    return t.flags | t.base.flags if t.base is not None else t.flags


cdef inline bint shows_tangent(Tensor t) noexcept:
    """Whether t has a tangent that can be seen now."""
    return marks(t) & DUAL and dual_visible(t)


cdef inline bint records(Tensor t) noexcept:
    """Whether an operation on t makes a node: for backward, or for the tangents of forward mode."""
    cdef int f = marks(t)
    return f & (REQUIRES_GRAD | DUAL) and ((f & REQUIRES_GRAD and recording()) or (f & DUAL and dual_visible(t)))


cdef Tensor alias_of(Tensor t):
    """The same elements in a tensor without history; shares storage and version."""
    cdef Tensor y = tensor_new()
    meta_like(&y.m, &t.m)
    adopt(y, t.mem)
    if t.flags & BATCHED:
        inherit(y, t)
    return y


cdef int save(Node n, int slot, Tensor t) except -1:
    """Keeps t for backward, with the version that it has now. An output must be given as its alias: no cycle."""
    if t.mem.origin:
        refuse_inference()
    if cyg_mode & MODE_PACK and not t.flags & WRAPPED and n.dual != HAS_DUALS:
        return save_packed(n, slot, t)
    n.ver[slot] = t.mem.version
    n.saved |= 1 << slot
    t.flags &= ~TRUTH                    # what gradients compute with it, the user did not write
    if slot == 0:
        n.s0 = t
    elif slot == 1:
        n.s1 = t
    elif slot == 2:
        n.s2 = t
    else:
        n.s3 = t
    return 0


cdef inline bint reads_slot(int op, int slot) noexcept:
    """Whether some gradient of the row reads what is saved in this slot."""
    cdef const uint8_t* saves = OPS[op].saves
    return (saves[0] | saves[1] | saves[2] | saves[3]) >> slot & 1


cdef int keep(Node n, Tensor a, Tensor b, Tensor c, Tensor y) except -1:
    """Saves what the gradients of inputs with edges read, of the inputs and the output: for rows that are no loops."""
    cdef const uint8_t* saves = n.op.saves
    cdef int reads = 0
    if n.e0 is not None:
        reads = saves[0]
    if n.e1 is not None:
        reads |= saves[1]
    if n.e2 is not None:
        reads |= saves[2]
    if n.e3 is not None:
        reads |= saves[3]
    if reads & 1:
        save(n, 0, a)
    if reads & 2:
        save(n, 1, b)
    if reads & 4:
        save(n, 2, c)
    if reads & 8:
        save(n, SLOT_OUT, alias_of(y))
    return 0


cdef Tensor unpack(Node n, int slot):
    """The tensor kept in a slot; RuntimeError when it was freed or changed since."""
    cdef Tensor t = n.s0 if slot == 0 else n.s1 if slot == 1 else n.s2 if slot == 2 else n.s3
    cdef Tensor y
    if t is None:
        if n.released:
            raise RuntimeError(RELEASED)
        if n.x is not None and n.x.packed is not None and slot in n.x.packed:
            return unpack_packed(n, slot)
        raise SystemError(f"{node_name(n)}: slot {slot} was not saved")
    if t.mem.version != n.ver[slot]:
        raise_changed(n, "its result, " if slot == SLOT_OUT else f"its input {slot}, ", t, n.ver[slot])
    if slot == SLOT_OUT and recording() and not is_integral(t.m.dtype) and n.dual != INPUTS_ONLY:
        y = alias_of(t)                  # re-attached, so that a second derivative flows through the output
        attach_output(n, y)
        if t.flags & DUAL:
            share_tangents(y, t)
        return y
    if t.fn is None and recording() and slot != SLOT_OUT and lost_history(n, slot, t):
        raise RuntimeError("Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(): the second derivative "
                           f"would miss what it depended on. {node_name(n)} saved its input {slot}, a {dtype_object(t.m.dtype)} tensor of "
                           f"shape {list(shape_tuple(&t.m))}. Use the out-of-place .detach() instead")
    return t


cdef bint lost_history(Node n, int slot, Tensor t):
    """Whether t, which n saved of an input that had a history, has none any more."""
    cdef uint32_t nr = 0
    cdef bint leaf = False
    return not needs(t) and edge(n, slot, &nr, &leaf) is not None and not leaf


cdef int attach_output(Node n, Tensor y) except -1:
    """Makes y, n's output, part of the graph again. Where n wrote through a view, the graph knows the base that CopySlices made,
    not n: y is then a view of that."""
    cdef Pass p
    cdef Node v
    if cyg_pass != NULL:                 # else somebody looks at the graph
        p = <Pass>cyg_pass
        if p.collecting is n and p.around is not None:
            v = node_new(&OPS[OP_AS_STRIDED])
            put_edge(v, 0, p.around, 0, False)
            v.rest = p.around.rest[1:]
            return node_set_output(v, y)
    y.fn = n
    y.flags |= REQUIRES_GRAD
    return 0


cdef uint16_t optimizer_op() noexcept:
    return OP_OPTIMIZER_STEP


cdef void node_release(Node n) noexcept:
    """Frees what was saved; a second backward through n raises."""
    if n.op.id == OP_LERP and n.s2 is not None and n.saved == 1 << 2 and n.s2.flags & WRAPPED:
        return                               # a number, which PyTorch does not free here
    if n.saved or n.op.id == OP_FUNCTION:
        n.s0 = None
        n.s1 = None
        n.s2 = None
        n.s3 = None
        if n.saved & SAVED_REST:
            n.rest = None
        n.released = 1
        if n.x is not None:
            n.x.packed = None


cdef object node_hooks(Node n):
    cdef NodeExtra x = extra(n)
    if x.hooks is None:
        x.hooks = Hooks()
    return x.hooks


cdef class RemovableHandle:
    """Takes a hook off again: ``remove()``, or leaving a ``with`` block."""

    cdef object hooks
    cdef readonly object id

    def remove(self):
        """Removes the hook; harmless when it is gone already."""
        if self.hooks is not None:
            self.hooks.pop(self.id, None)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.remove()


cyg_set_new(RemovableHandle, cyg_no_new)


cdef object handle_count = 0


cdef add_hook(dict hooks, hook):
    global handle_count
    if not callable(hook):
        raise TypeError(f"a hook must be callable, got {type(hook).__name__}")
    cdef RemovableHandle h = RemovableHandle.__new__(RemovableHandle)
    h.hooks = hooks
    h.id = handle_count
    handle_count += 1
    hooks[h.id] = hook
    return h
