# function_dual: tangents through custom Functions. May use: function, dual.
# A Function's own jvp computes them. Those of this library have none: their backward is made of differentiable operations, and is
# transposed as that of any other node.


cdef list dual_befores(FunctionCtx c, tuple args):
    """The tensors among the arguments, those that forward changed as they were before for tangents' sake; None for the rest."""
    cdef set dirty = {id(t) for t in c.dirty or ()}
    cdef list found = []
    cdef Tensor y
    for a in args:
        if id(a) in dirty:
            y = alias_of(<Tensor>a)
            share_tangents(y, <Tensor>a)
            found.append(y)
        else:
            found.append(a if isinstance(a, Tensor) else None)
    return found


cdef set undifferentiable(FunctionCtx c, tuple outputs):
    """Numbers of the outputs that have no derivative."""
    cdef set plain = {id(t) for t in c.no_gradient or ()}
    return {i for i, y in enumerate(outputs) if not isinstance(y, Tensor) or id(y) in plain or category((<Tensor>y).m.dtype) < 2}


cdef int push_function(FunctionCtx c, tuple args, list befores, tuple outputs, set skipped, list levels,
                       bint transposed) except -1:
    """Gives the outputs their tangents."""
    cdef int limit = cyg_limit
    cdef bint true = recording() and _py.any([needs(<Tensor>a) for a in args if isinstance(a, Tensor)])
    cdef list duals = c.x.duals if c.x is not None else None
    global cyg_limit
    c.dual = 0 if true else INPUTS_ONLY
    if c.x is not None:
        c.x.duals = None
    try:
        for level in levels:
            cyg_limit = (<ForwardLevel>level).depth
            tangents = [tangent_at(<Tensor>t, <ForwardLevel>level) if t is not None else None for t in befores]
            if transposed:
                on = recording() and (true or len(levels) > 1 or _py.any([t is not None and needs(<Tensor>t) for t in tangents]))
                values = transposed_function(c, outputs, tangents, skipped, on)
            else:
                values = values_of_jvp(c, args, tangents, outputs)
            for i, y in enumerate(outputs):
                if values[i] is not None and i not in skipped:
                    give_tangent(c, <Tensor>y, i, <ForwardLevel>level, <Tensor>values[i], _py.any([y is a for a in args]))
    finally:
        cyg_limit = limit
    if transposed and not true:              # recorded for the tangents only
        for y in outputs:
            if isinstance(y, Tensor) and (<Tensor>y).fn is c:
                (<Tensor>y).fn = None
                (<Tensor>y).flags &= ~REQUIRES_GRAD
    return cut_dual_edges(c, duals) if duals is not None else 0


cdef int give_tangent(FunctionCtx c, Tensor y, int i, ForwardLevel level, Tensor v, bint dirty) except -1:
    if not meta_same_shape(&v.m, &y.m):
        raise RuntimeError("Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
                           f"supported. Tensor is of size {list(shape_tuple(&y.m))} while the given forward gradient is of size "
                           f"{list(shape_tuple(&v.m))}: output {i} of {c.owner.__name__}.jvp")
    for kept, _, number in c.kept or ():
        if number == i and isinstance(kept, Tensor):
            set_tangent(<Tensor>kept, level, v)
    if dirty:
        return write_tangent(y, level, v)
    if y.flags & DUAL and y.extra.root is not None:      # a view made in forward: it has its own tangent now
        y.extra.root = None
    return set_tangent(y, level, v)


cdef list transposed_function(FunctionCtx c, tuple outputs, list tangents, set skipped, bint on):
    cdef list pairs = [(k, tangents[place]) for k, place in enumerate(c.places) if tangents[place] is not None]
    return twice_transposed(c, [None if i in skipped else y for i, y in enumerate(outputs)], pairs, on)


cdef list values_of_jvp(FunctionCtx c, tuple args, list tangents, tuple outputs):
    """What the Function's jvp returns, one for each output; checked."""
    if c.materialize_grads:
        tangents = [zeros_same(<Tensor>a) if t is None and isinstance(a, Tensor) and category((<Tensor>a).m.dtype) >= 2 else t
                    for a, t in zip(args, tangents)]
    c.in_jvp = True
    try:
        result = c.owner.jvp(c, *tangents)
    finally:
        c.in_jvp = False
    given = list(result) if isinstance(result, tuple) else [result]
    if len(given) != len(outputs):
        raise RuntimeError(f"{c.owner.__name__}: Function's jvp returned an invalid number of forward gradients (expected "
                           f"{len(outputs)} but got {len(given)})")
    for i, v in enumerate(given):
        if v is not None and not isinstance(v, Tensor):
            raise RuntimeError(f"{c.owner.__name__}.jvp: expected Variable or None (got {kind_of(v)}) for grad output {i}.")
    return given
