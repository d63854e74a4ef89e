# engine: backward passes. May use: node, opcall, view, formulas.
# One Pass per call of backward() or grad(): it finds what the roots reach, counts how many gradients each target (a node, or a
# leaf) waits for, and runs the newest ready one first (a heap keyed by creation order; leaves before all). A target's state is a
# row of a C array that belongs to the pass; target.slot points at it. A pass inside a pass (or on another thread) that meets a
# node owned by a live one keeps its row number in a dict instead: slower, rare, right. A Pass never outlives its call.
# Everything runs in the caller's thread.

cdef struct Row:                 # a target's state in one pass
    PyObject* node               # owned: a Node, or a leaf Tensor
    uint64_t seq                 # its place in the order; leaves come first
    PyObject* grad               # owned: gradient of output 0, NULL when none arrived
    PyObject* more               # owned: dict output -> gradient, for outputs 1 and up
    int32_t waits                # edges into this node that have not delivered yet
    int32_t next_edge            # walk in progress; afterwards unused
    uint8_t walked               # its edges have been followed (a captured node has a row before that)
    uint8_t needed               # some wanted leaf or input lies behind it
    uint8_t leaf                 # node is a Tensor
    uint8_t captured             # grad() asks for the gradient that arrives here

cdef extern from *:
    """
    /* the innermost running pass of this thread, borrowed */
    static __thread void* cyg_pass __attribute__((tls_model("initial-exec"))) = 0;
    """
    void* cyg_pass

cdef uint64_t pass_count = 0


@cython.final
cdef class Pass:
    # owned by run_backward's frame
    cdef Row* rows
    cdef int32_t n, cap
    cdef int32_t* heap
    cdef int32_t heap_n, heap_cap
    cdef uint64_t id
    cdef dict aside              # id(node) -> row, for nodes that a live outer pass owns
    cdef bint keep
    cdef bint accumulate         # into all leaves that are reached
    cdef dict capture            # (row, output) -> list of positions in `results`
    cdef list results
    cdef Node collecting         # its gradients go to `collected`, not along its edges (post-hooks, CopySlices)
    cdef Node around             # the CopySlices for which `collecting` runs, or None
    cdef list collected          # by edge; False where none is wanted
    cdef void* running           # borrowed: the node whose backward runs
    cdef Route route             # through the streams of devices, or None

    def __dealloc__(self):
        cdef int32_t i
        for i in range(self.n):
            if self.rows[i].leaf:
                if (<Tensor>self.rows[i].node).task == self.id:
                    (<Tensor>self.rows[i].node).task = 0
            elif (<Node>self.rows[i].node).task == self.id:
                (<Node>self.rows[i].node).task = 0
            Py_XDECREF(self.rows[i].grad)
            Py_XDECREF(self.rows[i].more)
            Py_DECREF(<object>self.rows[i].node)
        free(self.rows)
        free(self.heap)


cyg_set_new(Pass, cyg_no_new)


cdef inline int32_t row_of(Pass p, object e, bint leaf) except -2:
    """e's row in p, -1 when it has none."""
    if leaf:
        if (<Tensor>e).task == p.id:
            return (<Tensor>e).slot
    elif (<Node>e).task == p.id:
        return (<Node>e).slot
    if p.aside is not None:
        return p.aside.get(<size_t><void*>e, -1)
    return -1


cdef int32_t row_new(Pass p, object e, bint leaf) except -1:
    cdef Row* r
    cdef void* grown
    cdef bint free_slot
    if p.n == p.cap:
        grown = realloc(p.rows, (p.cap * 2 or 64) * sizeof(Row))
        if grown == NULL:
            raise MemoryError()
        p.rows = <Row*>grown
        p.cap = p.cap * 2 or 64
    r = &p.rows[p.n]
    memset(r, 0, sizeof(Row))
    Py_INCREF(e)
    r.node = <PyObject*>e
    r.leaf = leaf
    r.seq = <uint64_t>-1 if leaf else (<Node>e).seq
    p.n += 1
    free_slot = (<Tensor>e).task == 0 if leaf else (<Node>e).task == 0
    if not free_slot:
        if p.aside is None:
            p.aside = {}
        p.aside[<size_t><void*>e] = p.n - 1
    elif leaf:
        (<Tensor>e).task = p.id
        (<Tensor>e).slot = p.n - 1
    else:
        (<Node>e).task = p.id
        (<Node>e).slot = p.n - 1
    return p.n - 1


cdef int heap_push(Pass p, int32_t row) except -1:
    cdef int32_t i, up
    cdef void* grown
    cdef uint64_t seq = p.rows[row].seq
    if p.heap_n == p.heap_cap:
        grown = realloc(p.heap, (p.heap_cap * 2 or 64) * sizeof(int32_t))
        if grown == NULL:
            raise MemoryError()
        p.heap = <int32_t*>grown
        p.heap_cap = p.heap_cap * 2 or 64
    i = p.heap_n
    p.heap_n += 1
    while i > 0:
        up = (i - 1) >> 1
        if p.rows[p.heap[up]].seq >= seq:
            break
        p.heap[i] = p.heap[up]
        i = up
    p.heap[i] = row
    return 0


cdef int32_t heap_pop(Pass p) noexcept:
    cdef int32_t top = p.heap[0], last, i = 0, child
    cdef uint64_t seq
    p.heap_n -= 1
    last = p.heap[p.heap_n]
    seq = p.rows[last].seq
    while True:
        child = 2 * i + 1
        if child >= p.heap_n:
            break
        if child + 1 < p.heap_n and p.rows[p.heap[child + 1]].seq > p.rows[p.heap[child]].seq:
            child += 1
        if p.rows[p.heap[child]].seq <= seq:
            break
        p.heap[i] = p.heap[child]
        i = child
    p.heap[i] = last
    return top


cdef int walk(Pass p, object root, bint root_leaf) except -1:
    """Gives every target that root reaches a row, counts the edges into it, and marks what leads to a wanted gradient.
    Iterative."""
    cdef int32_t* stack = NULL
    cdef int32_t depth = 0, cap = 0, here, there
    cdef uint32_t nr = 0
    cdef bint leaf = False
    cdef Node n
    cdef void* grown
    here = row_of(p, root, root_leaf)
    if here < 0:
        here = row_new(p, root, root_leaf)
    elif p.rows[here].walked:
        return 0
    p.rows[here].walked = 1
    p.rows[here].needed |= p.accumulate          # into whatever is reached
    if root_leaf:
        return 0
    try:
        while True:
            n = <Node>p.rows[here].node
            if p.rows[here].next_edge < n.n_edges:
                e = edge(n, p.rows[here].next_edge, &nr, &leaf)
                p.rows[here].next_edge += 1
                if e is None:
                    continue
                there = row_of(p, e, leaf)
                if there < 0:
                    there = row_new(p, e, leaf)
                p.rows[there].waits += 1
                p.rows[there].needed |= p.accumulate
                if leaf:
                    p.rows[there].walked = 1
                if p.rows[there].walked:
                    p.rows[here].needed |= p.rows[there].needed
                    continue
                p.rows[there].walked = 1
                if depth == cap:
                    grown = realloc(stack, (cap * 2 or 64) * sizeof(int32_t))
                    if grown == NULL:
                        raise MemoryError()
                    stack = <int32_t*>grown
                    cap = cap * 2 or 64
                stack[depth] = here
                depth += 1
                here = there
                continue
            if depth == 0:
                break
            depth -= 1
            p.rows[stack[depth]].needed |= p.rows[here].needed
            here = stack[depth]
    finally:
        free(stack)
    return 0


cdef Tensor fit(Node n, int k, object e, bint leaf, uint32_t nr, Tensor g):
    """The gradient for edge k of n, checked against what the receiving target is: summed to its shape, cast to its dtype."""
    cdef const int64_t* sizes
    cdef Dims listed
    cdef int nd, code, i, place
    cdef bint same
    if n.x is not None and n.x.levels is not None:
        g = settled(n, e, leaf, g)
    if leaf:
        sizes = (<Tensor>e).m.sizes
        nd = (<Tensor>e).m.ndim
        code = (<Tensor>e).m.dtype
        place = (<Tensor>e).m.device
    elif not many(<Node>e):
        sizes = (<Node>e).osizes
        nd = (<Node>e).ondim
        code = (<Node>e).odtype
        place = (<Node>e).odevice
    else:
        shape, code, place = (<Node>e).x.outs[nr]
        dims_from(shape, &listed)
        nd = listed.n
        sizes = listed.v
    same = g.m.ndim == nd
    if same:
        for i in range(nd):
            same = same and g.m.sizes[i] == sizes[i]
    if not same:
        if not expandable(sizes, nd, &g.m):
            if leaf and not (<Tensor>e).flags & REQUIRES_GRAD and n.op.id != OP_FUNCTION:
                return g                     # a leaf no more, of another shape by now: only its hooks see this
            raise RuntimeError(
                f"Function {node_name(n)} returned an invalid gradient at index {k} - got {list(shape_tuple(&g.m))} but expected "
                f"shape compatible with {[sizes[i] for i in range(nd)]}")
        g = sum_to(g, nd, sizes)
    if g.m.dtype != code:
        if category(code) < 2:
            raise RuntimeError(f"Function {node_name(n)} returned a gradient at index {k} for a tensor of dtype "
                               f"{dtype_object(code)}, which has none")
        g = op_cast(g, code)
    return g if g.m.device == place else gone_over(n, k, g, place)


cdef Tensor gone_over(Node n, int k, Tensor g, int place):
    """A gradient that arrives from another device: of a copy between devices, or of a number beside tensors."""
    if n.op.id != OP_CAST and n.op.id != OP_COPY and g.m.ndim:
        raise RuntimeError(f"Function {node_name(n)} returned an invalid gradient at index {k} - expected device {device_object(place)} "
                           f"but got {device_object(g.m.device)}")
    return op_to_device(g, place)


cdef bint expandable(const int64_t* sizes, int nd, const Meta* g) noexcept:
    """Whether a tensor of `sizes` broadcasts to g's shape."""
    cdef int i
    if nd > g.ndim:
        return False
    for i in range(nd):
        if sizes[nd - 1 - i] != g.sizes[g.ndim - 1 - i] and sizes[nd - 1 - i] != 1:
            return False
    return True


cdef int backward_into(Pass p, list kept, Node n, tuple arrived, Node around) except -1:
    """Calls n's backward with the gradients that arrived; what it gives is put into `kept`. The pass remembers this, not the
    node: other threads, or a pass inside n's backward, may run n too."""
    cdef Node node = p.collecting, outer = p.around
    cdef list before = p.collected
    p.collecting, p.around, p.collected = n, around, kept
    try:
        if many(n) or (arrived[0] is None and n.op.id == OP_FUNCTION):
            backward_many(n, arrived)
        elif arrived[0] is not None:
            n.op.backward(n, <Tensor>arrived[0])
    finally:
        p.collecting, p.around, p.collected = node, outer, before
    return 0


cdef bint wanted(Node n, int k):
    """Whether a gradient for input k of n goes anywhere in the running pass. Backward functions ask before they compute."""
    cdef uint32_t nr = 0
    cdef bint leaf = False
    cdef int32_t r
    cdef Pass p = <Pass>cyg_pass
    if p.collecting is n:
        return p.collected[k] is not False
    e = edge(n, k, &nr, &leaf)
    if e is None:
        return False
    r = row_of(p, e, leaf)
    return r >= 0 and p.rows[r].needed


cdef int pass_grad(Node n, int k, Tensor g) except -1:
    """Backward functions hand each gradient on through this. g None: no gradient."""
    cdef uint32_t nr = 0
    cdef bint leaf = False
    cdef Pass p = <Pass>cyg_pass
    cdef int32_t r
    if g is None:
        return 0
    if p.collecting is n:
        p.collected[k] = g
        return 0
    e = edge(n, k, &nr, &leaf)
    if e is None:
        return 0
    r = row_of(p, e, leaf)
    if r < 0 or not p.rows[r].needed:
        return 0
    return add_to_row(p, r, nr, fit(n, k, e, leaf, nr, g))


cdef int add_to_row(Pass p, int32_t r, uint32_t nr, Tensor g) except -1:
    cdef Row* row = &p.rows[r]
    cdef dict more
    cdef object have
    cdef Tensor total
    cdef bint sole
    if nr == 0:
        if row.grad == NULL:
            Py_INCREF(g)
            row.grad = <PyObject*>g
            return 0
        sole = row.grad.ob_refcnt == 1
        total = add_grads(<Tensor>row.grad, g, sole)
        Py_INCREF(total)
        row = &p.rows[r]
        Py_DECREF(<Tensor>row.grad)
        row.grad = <PyObject*>total
        return 0
    if row.more == NULL:
        more = {}
        Py_INCREF(more)
        row.more = <PyObject*>more
    more = <dict>row.more
    have = more.get(nr)
    more[nr] = g if have is None else add_grads(<Tensor>have, g, False)
    return 0


cdef int run_backward_of(Pass p, int32_t r, Node n) except -1:
    """Calls n's backward; the gradients leave through pass_grad."""
    cdef Tensor g
    p.running = <void*>n
    if n.released and n.op.id != OP_FUNCTION:
        raise RuntimeError(RELEASED)         # a custom Function is asked when it reads what it saved
    if watching or cyg_mode & MODE_NAN or (n.x is not None and n.x.hooks is not None and n.x.hooks.post):
        return run_with_hooks(p, r, n)
    if many(n):
        return backward_many(n, row_all(p, r, n))
    g = <Tensor>p.rows[r].grad if p.rows[r].grad != NULL else None
    if g is not None:
        row_put(p, r, 0, None)               # n's own reference is now the only one
        return n.op.backward(n, g)
    return backward_many(n, (None,)) if n.op.id == OP_FUNCTION else 0


cdef int capture(Pass p, int32_t r) except -1:
    """Stores the gradients that grad() asked for at this target."""
    cdef Tensor g
    for (row, number), positions in p.capture.items():
        if row != r:
            continue
        g = row_get(p, r, number)
        if p.rows[r].leaf:
            run_leaf_hooks(p, r)
            g = row_get(p, r, number)
        for i in positions:
            p.results[i] = g
    return 0


cdef int run_leaf_hooks(Pass p, int32_t r) except -1:
    cdef Tensor leaf = <Tensor>p.rows[r].node
    if not leaf.flags & HAS_HOOKS or not leaf.extra.hooks:
        return 0
    if p.rows[r].grad == NULL:
        return tell_of_none(leaf.extra.hooks)
    return row_put(p, r, 0, run_tensor_hooks(leaf.extra.hooks, <Tensor>p.rows[r].grad))


cdef int run_leaf(Pass p, int32_t r) except -1:
    """The leaf's turn: its hooks, those of its AccumulateGrad node where somebody holds that, and .grad between them."""
    cdef Tensor leaf = <Tensor>p.rows[r].node
    cdef PyObject* owned
    cdef Node acc = <Node>leaf.acc if leaf.acc != NULL else None
    cdef bint hooked = acc is not None and acc.x.hooks is not None
    cdef bint sole
    run_leaf_hooks(p, r)
    if hooked:
        run_pre_hooks(p, r, acc)
    owned = p.rows[r].grad
    if owned == NULL:
        return 0
    p.rows[r].grad = NULL
    sole = owned.ob_refcnt == 1
    try:
        accumulate(leaf, <Tensor>owned, sole)
        if hooked:
            for hook in list(acc.x.hooks.post.values()):
                hook((), (<Tensor>owned,))
    finally:
        Py_DECREF(<Tensor>owned)
    return 0


cdef int run_row(Pass p, int32_t r) except -1:
    cdef Node n
    cdef int32_t t
    cdef uint32_t nr = 0
    cdef bint leaf = False
    cdef int k
    cdef int64_t began
    if p.rows[r].leaf:
        if p.rows[r].captured:
            return capture(p, r)
        if not p.rows[r].needed and not p.accumulate:
            return run_leaf_hooks(p, r)
        return run_leaf(p, r)
    n = <Node>p.rows[r].node
    if p.route is not None:
        p.route.go(n)
    if n.x is not None and n.x.hooks is not None:
        run_tensor_level(p, r, n)
    if not p.rows[r].needed:
        return 0
    if p.rows[r].captured:
        capture(p, r)
    if behind_needed(p, n):
        if n.x is not None and n.x.hooks is not None:
            run_pre_hooks(p, r, n)
        began = op_began()
        run_backward_of(p, r, n)
        if began:
            note_node(n, began)
        if not p.keep:
            node_release(n)
    row_put(p, r, 0, None)
    Py_XDECREF(p.rows[r].more)
    p.rows[r].more = NULL
    for k in range(n.n_edges):
        e = edge(n, k, &nr, &leaf)
        if e is None:
            continue
        t = row_of(p, e, leaf)
        if t < 0:
            continue
        p.rows[t].waits -= 1
        if p.rows[t].waits == 0 and p.rows[t].needed:
            heap_push(p, t)
    return 0


cdef bint behind_needed(Pass p, Node n):
    """Whether some edge of n leads to a wanted gradient (n itself may be wanted and nothing behind it)."""
    cdef uint32_t nr = 0
    cdef bint leaf = False
    cdef int k
    cdef int32_t t
    if p.capture is None:
        return True                          # nothing is captured: a needed node is needed for what lies behind it
    for k in range(n.n_edges):
        e = edge(n, k, &nr, &leaf)
        if e is not None:
            t = row_of(p, e, leaf)
            if t >= 0 and p.rows[t].needed:
                return True
    return False


cdef list run_pass(list roots, bint keep, bint create, list inputs, bint into_inputs):
    """roots: (target, output, is leaf, gradient), emptied here so that nobody else holds the gradients.
    inputs: (target, output, is leaf) whose gradients are returned, by position (None where nothing arrived); or, into_inputs,
    the only ones that the pass has to reach. None: accumulate into all leaves.
    """
    global pass_count, cyg_pass
    cdef Pass p = Pass.__new__(Pass)
    cdef Tensor g
    cdef int32_t r
    cdef int before
    cdef void* outer = cyg_pass
    cdef list first = []
    pass_count += 1
    p.id = pass_count
    p.keep = keep
    p.accumulate = inputs is None
    p.route = Route.__new__(Route) if streams_used else None
    if inputs is not None:
        mark_inputs(p, inputs, not into_inputs)
    for e, nr, leaf, g in roots:
        walk(p, e, leaf)
        first.append(row_of(p, e, leaf))
    before = set_recording(create)
    restore_mode(cyg_mode & ~MODE_STRICT)        # formulas may broadcast
    cyg_pass = <void*>p
    try:
        for e, nr, leaf, g in roots:
            add_to_row(p, row_of(p, e, leaf), nr, g)
        roots.clear()
        e = None
        g = None
        for r in dict.fromkeys(first):
            if p.rows[r].waits == 0 and (p.rows[r].needed or len(first) == 1):
                heap_push(p, r)              # hooks of the only root run also where nothing that is wanted lies behind it
        while p.heap_n:
            run_row(p, heap_pop(p))
            PyErr_CheckSignals()
    finally:
        cyg_pass = outer
        restore_mode(before)
        if p.route is not None:
            p.route.leave()
    return p.results


cdef int mark_inputs(Pass p, list inputs, bint captured) except -1:
    cdef int32_t r
    if captured:
        p.capture = {}
        p.results = [None] * len(inputs)
    for i, (e, nr, leaf) in enumerate(inputs):
        r = row_of(p, e, leaf)
        if r < 0:
            r = row_new(p, e, leaf)
        p.rows[r].needed = 1
        if captured:
            p.rows[r].captured = 1
            p.capture.setdefault((r, nr), []).append(i)
    return 0
