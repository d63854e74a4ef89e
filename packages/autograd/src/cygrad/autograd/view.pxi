# view: tensors over another's storage, and in-place writes through them. May use: opcall, node.
# A view knows its base (never itself a view) and the storage version at which its grad_fn was right. An in-place write rebases
# the base's history with one CopySlices node; the grad_fn of every other view is then stale and is made again when read.


cdef inline int view_begin(Tensor y, Tensor x) except -1:
    """y, whose Meta is set, becomes a view of x."""
    adopt(y, x.mem)
    if x.mem.origin:
        return 0                             # inference tensors do not know their views
    y.base = x.base if x.base is not None else x
    y.view_version = x.mem.version
    if marks(x) & DUAL:
        dual_view(y, x)
    if not recording():
        y.creation = VIEW_INFERENCE if cyg_mode & MODE_INFERENCE else VIEW_NO_GRAD
    elif x.base is not None:
        y.creation = x.creation
    if x.flags & BATCHED:
        check_values(batch_of(x))
        inherit(y, x)
    return 0


cdef inline Tensor by_itself(Tensor y):
    """y, a view of a tensor that nobody else has, as a tensor of its own."""
    if not y.flags & (DUAL | BATCHED):
        y.base = None
        y.creation = VIEW_PLAIN
    return y


cdef Storage storage_root(Storage s):
    """The storage that owns the memory of s."""
    if isinstance(s.owner, Storage) and (<Storage>s.owner).ptr == s.ptr and (<Storage>s.owner).nbytes == s.nbytes:
        return <Storage>s.owner
    return s


cdef Storage storage_alias(Storage s):
    """The same memory under a version counter of its own: what .data gives."""
    cdef Storage root = storage_root(s)
    cdef Storage y = storage_borrow(root.ptr, root.nbytes, root, root.readonly)
    y.device = root.device
    y.origin = 0 if not s.origin else UNCOUNTED if cyg_mode & MODE_INFERENCE else COUNTED
    return y


cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(object o)


def exchange_memory(Tensor x not None, Storage target not None, list objects not None):
    """Move the bytes of a tensor's storage, and with them all tensors over it, into the memory of another storage.

    Addresses of memory lie in tensors, so all of them must be found, and nothing else may know the address.

    Parameters
    ----------
    x : Tensor
    target : Storage
        Of the same size; it has the old memory afterwards. Nobody else may have it.
    objects : list
        Among them are all tensors that lie in the storage, perhaps: ``gc.get_objects()``.

    Returns
    -------
    bool
        False, and nothing has changed, if references to the storage are left that are no tensor's, or if it is a slice of
        another one.
    """
    cdef Storage root = storage_root(x.mem), s
    cdef Tensor t
    cdef list tensors = []
    cdef dict found = {}                  # storage over this memory -> how many of the tensors have it
    cdef Py_ssize_t held
    if isinstance(root.owner, Storage) or root.device or target.device:
        return False
    for o in objects:
        if isinstance(o, Tensor):
            t = <Tensor>o
            if t.mem is not None and storage_root(t.mem) is root:
                if t.flags & LENT:
                    return False
                tensors.append(t)
                found[t.mem] = found.get(t.mem, 0) + 1
    s = t = o = None
    if target.nbytes != root.nbytes:
        raise ValueError(f"a storage of {root.nbytes} bytes cannot have memory of {target.nbytes} bytes")
    settle()                              # what is counted from here on stays so: the GIL is held
    found.setdefault(root, 0)
    for s, count in found.items():
        held = count + 2                  # the dictionary and the loop's variable have it too
        if s is root:
            held += len(found)            # each of the others, and the variable above
        if Py_REFCNT(s) != held:
            return False
    shift_memory(root, target, tensors, list(found))
    return True


cdef int shift_memory(Storage root, Storage target, list tensors, list storages) except -1:
    """Exchange two storages' memory; tensors and aliases of the first follow it. The GIL is held throughout."""
    cdef Tensor t
    cdef Storage s
    cdef char* ptr = target.ptr
    if root.nbytes:
        memcpy(ptr, root.ptr, root.nbytes)
    for t in tensors:
        t.m.data = ptr + byte_offset(t)
    for s in storages:
        if s is not root:
            s.ptr = ptr
            s.readonly = target.readonly
    target.ptr, root.ptr = root.ptr, ptr
    target.kind, root.kind = root.kind, target.kind
    target.readonly, root.readonly = root.readonly, target.readonly
    target.owner, root.owner = root.owner, target.owner
    return 0


cdef bint same_strides(const Meta* a, const Meta* b) noexcept:
    return a.ndim == b.ndim and memcmp(a.strides, b.strides, a.ndim * sizeof(int64_t)) == 0


cdef int check_writable(Tensor x) except -1:
    if x.mem.readonly:
        raise RuntimeError("the tensor's memory is read-only (it was borrowed from a read-only buffer); clone() it before "
                           "writing")
    check_own_mode(x)
    check_apart(x)
    if x.flags & BATCHED:
        check_shown_once(x)
        check_writable(front(x, joint(x, None, None), 0))
    return 0


cdef int check_apart(Tensor x) except -1:
    """Whether each element (of one example) has memory of its own."""
    if has_internal_overlap(&x.m):
        refuse_shared(x, f"stride {stride_tuple(&x.m)}")
    return 0


cdef int refuse_shared(Tensor x, str why) except -1:
    raise RuntimeError(f"unsupported operation: more than one element of the written-to tensor (shape {list(shape_tuple(&x.m))}, {why}) "
                       "refers to a single memory location. Please clone() the tensor before performing the operation.")


cdef inline int check_own_mode(Tensor x) except -1:
    """Inference tensors are written in inference mode only: their writes are not counted."""
    if x.mem.origin == UNCOUNTED and not cyg_mode & MODE_INFERENCE:
        raise RuntimeError("Inplace update to inference tensor outside InferenceMode is not allowed. clone() it for a normal tensor "
                           "before writing")
    return 0


cdef int check_in_place(Tensor x, bint recorded) except -1:
    """Whether x may be written. recorded: some operand needs a gradient and recording is on."""
    check_writable(x)
    check_history(x, recorded)
    return announce_write(x) if cyg_mode & MODE_WRITES else 0


cdef int check_memory(Tensor x) except -1:
    """Whether the memory of x may be written; who watches writes is told."""
    check_writable(x)
    return announce_write(x) if cyg_mode & MODE_WRITES else 0


cdef int refuse_overlap(Tensor x, Tensor t) except -1:
    """An index or a source in the memory of the tensor written to has no defined meaning; where the layouts leave that
    open, storage copies it first."""
    if x is t or (x.mem.ptr == t.mem.ptr and x.m.flags & t.m.flags & DENSE and may_share_memory(&x.m, &t.m)):
        raise RuntimeError(
            f"unsupported operation: some elements of the input tensor (shape {list(shape_tuple(&t.m))}) and of the written-to "
            f"tensor (shape {list(shape_tuple(&x.m))}) refer to a single memory location. Please clone() the tensor before "
            "performing the operation.")
    return 0


cdef int check_partial_overlap(Tensor x, Tensor t) except -1:
    """Two dense blocks that share some elements but not all cannot be written element by element in a defined order."""
    if (x.mem.ptr == t.mem.ptr and x.m.flags & t.m.flags & DENSE and may_share_memory(&x.m, &t.m)
            and not (x.m.data == t.m.data and x.m.numel == t.m.numel and same_strides(&x.m, &t.m)
                     and ITEMSIZE[x.m.dtype] == ITEMSIZE[t.m.dtype])):
        raise RuntimeError(
            f"unsupported operation: some elements of the input tensor (shape {list(shape_tuple(&t.m))}) and of the written-to "
            f"tensor (shape {list(shape_tuple(&x.m))}) refer to a single memory location. Please clone() the tensor before "
            "performing the operation.")
    return 0


cdef int check_history(Tensor x, bint recorded) except -1:
    """Whether the graph of x allows a write."""
    if not recording():
        return 0
    if x.flags & REQUIRES_GRAD and x.fn is None and (x.base is None or not x.base.flags & REQUIRES_GRAD):
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation: "
                           f"shape {list(shape_tuple(&x.m))}; write under no_grad(), or to a clone()")
    if x.base is None:
        return 0
    if not (recorded or x.base.flags & REQUIRES_GRAD):
        return 0
    if x.creation == VIEW_NO_GRAD:
        raise RuntimeError("A view was created in no_grad mode and is being modified inplace with grad mode enabled. "
                           "Make the view and the change both inside, or both outside, of no_grad.")
    if x.creation == VIEW_INFERENCE:
        raise RuntimeError("A view was created in inference mode and is being modified inplace in normal mode. Make the view and the "
                           "change both inside, or both outside, of inference_mode.")
    if x.creation == VIEW_MULTI:
        raise RuntimeError("this tensor is the output of a function that returns multiple views (unbind, split, chunk) and is "
                           "being modified inplace: its siblings could not be differentiated. Use the out-of-place form, or "
                           "clone() it first.")
    if x.creation == VIEW_FUNCTION:
        raise RuntimeError("this tensor is a view returned by a custom Function and is being modified inplace, which would "
                           "bypass the Function's backward. clone() it inside the Function.")
    if x.creation == VIEW_EXAMPLE:
        raise RuntimeError("a tensor that vmap shares with what is outside of it is being modified inplace, which the outside's history "
                           "would not show. Use the out-of-place form, or clone() it first.")
    if x.base.flags & REQUIRES_GRAD and x.base.fn is None:
        raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation: "
                           f"leaf of shape {list(shape_tuple(&x.base.m))}; write under no_grad()")
    if x.flags & REQUIRES_GRAD and not x.base.flags & REQUIRES_GRAD:
        raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation: the leaf is itself a view "
                           "of a tensor that requires none; write under no_grad()")
    return 0


cdef Tensor history_alias(Tensor x, bint copied):
    """x with the history that it has before an in-place operation: the operation's input. copied: with its values too."""
    cdef Tensor y
    if copied:
        y = op_clone(alias_of(x))
    else:
        y = alias_of(x)
    if needs(x) and recording():
        if x.base is not None and x.view_version != x.mem.version:
            view_refresh(x)
        y.fn = x.fn
        y.out_nr = x.out_nr
        y.flags |= REQUIRES_GRAD
    if shows_tangent(x):
        share_tangents(y, x)
    return y


cdef Tensor frozen(Tensor t, Tensor written):
    """An operand of a write into `written` with the history that it has before: where it is a view of the same memory, it has another
    one afterwards. RuntimeError where it cannot be taken again."""
    cdef Tensor y
    if t is None or t is written or t.base is None or not records(t):
        return t
    if made_by(t) is None and t.flags & REQUIRES_GRAD or t.mem is not written.mem:
        return t
    if t.fn is not None:
        return history_alias(t, False)
    y = alias_of(t)
    if shows_tangent(t):
        share_tangents(y, t)
    return y


cdef int rebase(Tensor x, Node n) except -1:
    """After an in-place operation recorded as n: n (or CopySlices around it) becomes the history of x (or of its base)."""
    cdef Tensor b = x.base
    cdef Node c
    cdef int k
    cdef uint32_t nr = 0
    cdef bint leaf = False
    if n.dual == HAS_DUALS:
        return dual_rebase(n, x)
    if b is None:
        return replace_history(n, x)
    # n saw a slice of the base; its output gradient has the slice's shape
    shape_output(n, &x.m)
    c = node_new(&OPS[OP_COPY_SLICES])
    plain_edge(c, 0, b)
    for k in range(1, n.n_edges):
        e = edge(n, k, &nr, &leaf)
        put_edge(c, k, e, nr, leaf)
    c.rest = (n, geometry(x), geometry(b), x.m.dtype)
    c.saved = SAVED_REST
    replace_history(c, b)
    x.flags |= REQUIRES_GRAD
    view_refresh(x)
    return 0


cdef int replace_history(Node n, Tensor x) except -1:
    """n becomes what made x; a retained .grad will be that of the new value."""
    cdef bint retains = x.flags & RETAINS_GRAD and x.fn is not None
    if retains:
        node_hooks(x.fn).retain.pop(x.out_nr, None)
    node_set_output(n, x)
    return keep_retaining(x) if retains else 0


cdef inline int shape_output(Node n, Meta* m) except -1:
    cdef int i
    cdef SizesBlock block
    if m.ndim <= INLINE:
        n.osizes = n.oinl
        memcpy(n.oinl, m.inl, sizeof(n.oinl))
    else:
        block = SizesBlock.__new__(SizesBlock)
        meta_alloc(&block.meta, m.ndim)
        extra(n).owned = block
        n.osizes = block.meta.sizes
        for i in range(m.ndim):
            n.osizes[i] = m.sizes[i]
    n.ondim = m.ndim
    n.odtype = m.dtype
    n.odevice = m.device
    return note_stream(n, m.device) if streams_used and m.device else 0


cdef char* nowhere = storage_new(0).ptr      # where tensors point whose storage has no bytes


cdef int64_t byte_offset(Tensor x) noexcept:
    """Of the first element in the storage. One made before its storage grew from nothing points to where that was, or beside."""
    cdef int64_t here = x.m.data - x.mem.ptr, there = x.m.data - nowhere
    cdef int64_t far = here if here >= 0 else -here
    return here if x.m.numel or 0 <= here <= x.mem.nbytes else there if -far < there < far else here


cdef int64_t offset_of(Tensor x) noexcept:
    """The same in elements."""
    return byte_offset(x) // ITEMSIZE[x.m.dtype]


cdef tuple geometry(Tensor x):
    """(sizes, strides, offset) of a tensor in its storage."""
    return (tuple(shape_tuple(&x.m)), stride_tuple(&x.m), offset_of(x))


cdef int view_refresh(Tensor x) except -1:
    """Makes the grad_fn of a view whose base was written since: the view is taken again from the base's new history."""
    cdef Node n
    cdef Tensor b = x.base
    if x.fn is None and not b.flags & REQUIRES_GRAD:
        return 0
    if x.creation != VIEW_PLAIN:
        raise RuntimeError(
            f"a view of shape {list(shape_tuple(&x.m))} is used whose base, or another view of it, has been modified inplace since, "
            f"last by {op_word(x.mem.last_op)}; it cannot be taken again from the new values, because it is {CREATIONS[x.creation]}. "
            f"clone() it before the change.{writes_text(x.fn, x, x.view_version)}")
    x.view_version = x.mem.version
    n = node_new(&OPS[OP_AS_STRIDED])
    plain_edge(n, 0, b)                      # the tangent of x is found from b as it is
    n.rest = (geometry(x), geometry(b), b.m.dtype)
    return replace_history(n, x)


cdef inline Node made_by(Tensor t):
    """What made t; a view whose base was written since is taken from it again."""
    if t.base is not None and t.view_version != t.mem.version:
        view_refresh(t)
    return t.fn


cdef dict CREATIONS = {
    VIEW_NO_GRAD: "a view that was created in no_grad mode",
    VIEW_INFERENCE: "a view that was created in inference mode",
    VIEW_MULTI: "the output of a function that returns multiple views (unbind, split, chunk)",
    VIEW_FUNCTION: "a view returned by a custom Function",
    VIEW_EXAMPLE: "an example that vmap took from a tensor outside of it"}


cdef int64_t elements(int nd, const int64_t* sizes) noexcept:
    cdef int64_t n = 1
    cdef int i
    for i in range(nd):
        n *= sizes[i]
    return n
