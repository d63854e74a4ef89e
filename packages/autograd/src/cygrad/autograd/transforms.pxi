# transforms: what the transforms of cygrad.func ask of the graph. May use: engine, entry, dual.
# A transform in backward mode differentiates by inputs of its own, which alias what the function was called with. Where that is part
# of a graph around the transform, so are they. Otherwise they are leaves, which die with the transform: no gradient goes to a leaf
# that does not require one any more.


def recorded_count():
    """How many nodes were made in this process: those that a transform makes have this number or a higher one."""
    return node_seq


def transform_input(Tensor t not None):
    """An alias of `t` to differentiate by, which nothing else in the graph knows."""
    cdef Tensor y
    if category(t.m.dtype) < 2:
        raise RuntimeError(f"only Tensors of floating point dtype can require gradients, got {dtype_object(t.m.dtype)}")
    t = lifted(t)
    if recording() and needs(t):
        y = op_alias(t)
        y.creation = VIEW_FUNCTION           # writing into it would change the caller's tensor
        return y
    y = alias_of(t)
    share_tangents(y, t)
    y.flags |= REQUIRES_GRAD
    return y


def end_inputs(inputs):
    """Ends the life of a transform's inputs in the graph."""
    for t in inputs:
        if (<Tensor>t).fn is None:
            (<Tensor>t).flags &= ~REQUIRES_GRAD


cdef bint reaches_live(Tensor t, uint64_t start) except -1:
    """Whether gradients of t go to a leaf that lives, or to a node from before `start`."""
    cdef uint32_t nr = 0
    cdef bint leaf = False
    cdef Node n
    cdef int k
    if not needs(t):
        return False
    e, _, is_leaf = target_of(t)
    if is_leaf:
        return (<Tensor>e).flags & REQUIRES_GRAD != 0
    cdef list stack = [e]
    cdef set seen = {id(e)}
    while stack:
        n = <Node>stack.pop()
        if n.seq < start:
            return True
        for k in range(n.n_edges):
            e = edge(n, k, &nr, &leaf)
            if leaf and e is not None:
                if (<Tensor>e).flags & REQUIRES_GRAD:
                    return True
            elif e is not None and id(e) not in seen:
                seen.add(id(e))
                stack.append(e)
    return False


def lives(Tensor t not None, uint64_t start):
    """Whether `t` is part of a graph around the transform that began at `start`, whose inputs have ended."""
    return recording() and reaches_live(t, start)


cdef Tensor cut_loose(Tensor t, uint64_t start):
    """t without a history that ends in a transform's inputs only."""
    cdef Tensor y
    cdef list levels = []
    cdef int limit = cyg_limit
    global cyg_limit
    if not needs(t) or (recording() and reaches_live(t, start)):
        return t
    y = alias_of(t)
    add_levels(t, levels)
    try:
        for level in levels:
            cyg_limit = (<ForwardLevel>level).depth
            set_tangent(y, <ForwardLevel>level, cut_loose(tangent_at(t, <ForwardLevel>level), start))
    finally:
        cyg_limit = limit
    return y


def transform_output(Tensor t not None, uint64_t start):
    """What the caller of a transform gets of `t`: without history where that ends in the transform's inputs only."""
    return cut_loose(t, start)


def transform_gradients(list outputs, list inputs, list weights, bint keep, bint create):
    """Gradients of a transform's inputs, None where there is none; the inputs may have ended."""
    cdef list roots = []
    cdef set own = {id(t) for t in inputs}
    cdef Tensor t
    for i, y in enumerate(outputs):
        t = <Tensor>y
        w = first_gradient(t, weights[i], i, create)
        target = target_of(t)
        if t.fn is not None or id(t) in own:
            roots.append((*target, w))
    return run_pass(roots, keep, create, [target_of(<Tensor>t) for t in inputs], False)


def transposed_parts(list outputs, list inputs):
    """(gradients of the outputs, gradients of the inputs as functions of these), to be given to `transposed_again`."""
    cdef list us = [dummy(<Tensor>y) for y in outputs]
    cdef int before = set_recording(True)
    try:
        grads = transform_gradients(outputs, inputs, us, True, True)
    finally:
        restore_mode(before)
    end_inputs(us)
    return us, grads


def transposed_again(list us, list grads, list tangents, bint create):
    """Tangents of the outputs, None for zero, from those of the inputs."""
    cdef list roots = []
    for g, t in zip(grads, tangents):
        if g is not None and (<Tensor>g).fn is not None:
            roots.append((*target_of(<Tensor>g), as_code(<Tensor>t, (<Tensor>g).m.dtype)))
    return run_pass(roots, True, create, [target_of(<Tensor>u) for u in us], False)
