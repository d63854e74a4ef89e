# hooks: what users attached to nodes, run by a pass. May use: engine.


cdef int run_tensor_level(Pass p, int32_t r, Node n) except -1:
    """Hooks of the tensors that n made, in order of registration; then the gradients that are retained."""
    cdef object h = n.x.hooks
    cdef Tensor g
    for nr, hooks in h.tensor:
        g = row_get(p, r, nr)
        if g is not None:
            row_put(p, r, nr, run_tensor_hooks(hooks, g))
        else:
            tell_of_none(hooks)
    for nr, ref in h.retain.items():
        t = ref()
        g = row_get(p, r, nr)
        if t is not None and g is not None:
            retain(<Tensor>t, g)
    return 0


cdef int tell_of_none(dict hooks) except -1:
    """No gradient arrived where these hooks are: only those that count arrivals hear of it."""
    for hook in list(hooks.values()):
        if getattr(hook, "sees_none", False):
            hook(None)
    return 0


cdef int run_pre_hooks(Pass p, int32_t r, Node n) except -1:
    """Hooks of the node itself, when it is about to run."""
    for hook in list(n.x.hooks.pre.values()):
        grads = row_all(p, r, n)
        out = hook(grads)
        if out is None:
            continue
        check_hook_tuple(hook, out, len(grads))
        for i, v in enumerate(out):
            row_put(p, r, i, replaced(p, r, n, i, v))
    return 0


cdef int check_hook_tuple(hook, object out, Py_ssize_t count) except -1:
    """What a node's hook returned in place of gradients."""
    if not isinstance(out, tuple):
        raise TypeError(f"expected tuple, but hook returned '{kind_of(out)}': {hook_name(hook)} must return a tuple of gradients or None")
    if len(out) != count:
        raise RuntimeError(f"{hook_name(hook)} has returned an incorrect number of values (got {len(out)}, but expected {count})")
    return 0


cdef Tensor replaced(Pass p, int32_t r, Node n, int i, object v):
    """What a pre-hook returned for output i of target r, as a gradient of that output must be; None stands for none."""
    if v is None:
        return None
    if not isinstance(v, Tensor):
        raise TypeError(f"a pre-hook of {node_name(n)} must return Tensors or None, got {kind_of(v)} as gradient {i}")
    return fit(n, i, <object>p.rows[r].node, p.rows[r].leaf, i, <Tensor>v)


cdef Tensor row_get(Pass p, int32_t r, int nr):
    if nr == 0:
        return <Tensor>p.rows[r].grad if p.rows[r].grad != NULL else None
    return (<dict>p.rows[r].more).get(nr) if p.rows[r].more != NULL else None


cdef int row_put(Pass p, int32_t r, int nr, object g) except -1:
    cdef PyObject* old
    if nr == 0:
        old = p.rows[r].grad
        if g is None:
            p.rows[r].grad = NULL
        else:
            Py_INCREF(g)
            p.rows[r].grad = <PyObject*>g
        Py_XDECREF(old)
        return 0
    if p.rows[r].more == NULL:
        more = {}
        Py_INCREF(more)
        p.rows[r].more = <PyObject*>more
    (<dict>p.rows[r].more)[nr] = g
    return 0


cdef tuple row_all(Pass p, int32_t r, Node n):
    return tuple([row_get(p, r, i) for i in range(len(n.x.outs) if many(n) else 1)])


cdef int run_with_hooks(Pass p, int32_t r, Node n) except -1:
    """The backward of a node with post-hooks, in anomaly mode or under find_nan: all gradients are there before any is handed on."""
    cdef list kept
    cdef tuple arrived = row_all(p, r, n), given
    cdef int k, mode = cyg_mode
    kept = [None if wanted(n, k) else False for k in range(n.n_edges)]
    try:
        if mode & MODE_NAN and own_function(n):
            restore_mode(mode & ~(MODE_NAN | MODE_STRICT | MODE_INF))          # the parts of a formula are not looked at one by one
        try:
            backward_into(p, kept, n, arrived, None)
        finally:
            restore_mode(mode)
        if mode & MODE_NAN:
            observe_gradients(n, kept, arrived, mode)
        given = tuple([None if v is False else v for v in kept])
        if n.x is not None and n.x.hooks is not None:
            given = run_post_hooks(n, given, arrived)
        if watching & WATCH_NAN:
            refuse_nan(n, given)
    except BaseException:
        if watching & WATCH_ORIGIN:
            explain(n)
        raise
    for k in range(n.n_edges):
        if given[k] is not None and kept[k] is not False:
            pass_grad(n, k, <Tensor>given[k])
    return 0


cdef tuple run_post_hooks(Node n, tuple given, tuple arrived):
    """What post-hooks, which see all gradients that n received and gave, make of the latter."""
    for hook in list(n.x.hooks.post.values()):
        out = hook(given, arrived)
        if out is None:
            continue
        check_hook_tuple(hook, out, n.n_edges)
        for old, new in zip(given, out):
            if old is None and new is not None:
                raise RuntimeError(f"{hook_name(hook)}: can't replace a None gradient with a non-None value")
            if new is not None:
                check_hook_result(hook, <Tensor>old, new)
        given = out
    return given


# ---- nodes by themselves

cdef tuple call_node(Node n, tuple grads):
    """Runs n's backward outside of a pass, and collects what it gives."""
    global cyg_pass
    cdef Pass p
    cdef list kept
    cdef int count = len(n.x.outs) if many(n) else 1, k
    cdef void* outer = cyg_pass
    cdef uint32_t nr = 0
    cdef bint leaf = False
    if len(grads) != count:
        raise TypeError(f"{node_name(n)} expected {count} gradients, got {len(grads)}")
    for g in grads:
        if g is not None and not isinstance(g, Tensor):
            raise TypeError(f"{node_name(n)} expected Tensors or None, got {kind_of(g)}")
    if n.op is &OP_ACCUMULATE:
        if grads[0] is not None:
            accumulate(<Tensor>n.rest, <Tensor>grads[0], False)
        return ()
    if n.released and n.op.id != OP_FUNCTION:
        raise RuntimeError(RELEASED)
    p = Pass.__new__(Pass)
    p.keep = True
    p.id = <uint64_t>-1                  # owns no node
    kept = [None if edge(n, k, &nr, &leaf) is not None else False for k in range(n.n_edges)]
    cyg_pass = <void*>p
    try:
        backward_into(p, kept, n, grads, None)
    finally:
        cyg_pass = outer
    return tuple([None if g is False else g for g in kept])


def current_pass():
    """The number of the backward pass that runs in this thread, -1 outside of one."""
    return (<Pass>cyg_pass).id if cyg_pass != NULL else -1


def pass_accumulates():
    """Whether the backward pass that runs in this thread accumulates into all leaves."""
    return cyg_pass != NULL and bool((<Pass>cyg_pass).accumulate)


def will_run(Node node not None):
    """Whether the running backward pass gets to this node."""
    cdef Pass p
    cdef int32_t r
    if cyg_pass == NULL:
        raise RuntimeError("will_run() is asked during a backward pass only")
    p = <Pass>cyg_pass
    r = row_of(p, node.rest, True) if node.op is &OP_ACCUMULATE else row_of(p, node, False)
    return r >= 0 and p.rows[r].needed != 0


def edge_of(Tensor tensor not None):
    """(node, output number): where the tensor's gradient arrives."""
    if not needs(tensor):
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    target, nr, leaf = target_of(tensor)
    return (shown(accumulate_node(<Tensor>target)), 0) if leaf else (shown(target), nr)
