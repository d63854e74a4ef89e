# function: custom Functions. May use: engine, tensor.
# The context that forward and backward receive is the graph node itself, of a class made once for each Function.


cdef class FunctionCtx(Node):
    """What forward and backward of a custom Function share; it is the Function's node of the graph."""

    cdef public object needs_input_grad      # one bool for each argument of forward
    cdef public object materialize_grads
    cdef object owner                        # the Function class
    cdef tuple to_save
    cdef tuple dirty
    cdef tuple no_gradient
    cdef list kept                           # (tensor or None, version, output number or -1)
    cdef int n_args
    cdef tuple tensors                       # which arguments of forward were tensors
    cdef dict __dict__

    def save_for_backward(self, *tensors):
        """Keeps tensors (or None) for backward; inputs, outputs and intermediate results alike."""
        for i, t in enumerate(tensors):
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(f"save_for_backward can only save variables, but argument {i} is of type {kind_of(t)}")
        self.to_save = tensors

    @property
    def saved_tensors(self):
        """What save_for_backward was given, in that order; checked to be unchanged."""
        return unpack_saved(self)

    def mark_dirty(self, *args):
        """Says which inputs forward changed in place; they must be among its outputs."""
        self.dirty = args

    def mark_non_differentiable(self, *args):
        """Says which outputs have no gradient."""
        self.no_gradient = args

    def set_materialize_grads(self, value):
        """Whether backward receives zeros (the default) or None for outputs that no gradient reached."""
        self.materialize_grads = value


cdef New new_context = cyg_new_of(FunctionCtx)
cyg_set_new(FunctionCtx, cyg_no_new)


cdef object unpack_saved(FunctionCtx c):
    cdef Tensor t, y
    if c.kept is None:
        if c.released:
            raise RuntimeError(RELEASED)
        return c.to_save if c.to_save is not None else ()
    out = []
    for value, version, number in c.kept:
        if value is None:
            out.append(None)
            continue
        t = <Tensor>value
        if t.mem.version != version:
            raise_changed(c, "", t, version)
        if number >= 0:
            y = alias_of(t)
            y.fn = c
            y.out_nr = number
            y.flags |= REQUIRES_GRAD
            out.append(y)
        else:
            out.append(t)
    return tuple(out)


cdef int keep_saved(FunctionCtx c, tuple outputs) except -1:
    """After forward: outputs are kept as aliases, so that the node does not own itself."""
    cdef Tensor t
    c.kept = []
    for value in c.to_save or ():
        number = -1
        if value is not None:
            t = <Tensor>value
            if t.fn is c:
                number = t.out_nr
                t = alias_of(t)
            c.kept.append((t, t.mem.version, number))
        else:
            c.kept.append((None, 0, -1))
    c.to_save = None
    return 0


cdef dict _context_classes = {}


cdef object context_class(object function):
    cls = function.__dict__.get("_backward_cls")
    if cls is None:
        cls = type(function.__name__ + "Backward", (FunctionCtx,), {"__module__": "torch.autograd.function"})
        function._backward_cls = cls
    elif not (isinstance(cls, type) and issubclass(cls, FunctionCtx)):
        raise TypeError(f"{function.__name__}._backward_cls must be a class made from FunctionCtx, got {cls!r}")
    return cls


cdef tuple bind_defaults(object forward, tuple args, dict kwargs):
    """All arguments of forward in order, for setup_context, which sees no keywords."""
    import inspect
    bound = inspect.signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


def apply_function(function, tuple args, dict kwargs):
    """Runs a custom Function's forward without recording and makes its node; the body of ``Function.apply``."""
    cdef FunctionCtx c
    cdef Tensor t
    cdef int before, k
    cdef bint recorded = False
    two_step = function.setup_context is not _no_setup()
    if two_step:
        args = bind_defaults(function.forward, args, kwargs)
        kwargs = {}
    cls = context_class(function)
    c = <FunctionCtx>new_context(cls, <PyObject*>(), NULL)
    c.op = &OPS[OP_FUNCTION]
    c.materialize_grads = True
    c.owner = function
    c.n_args = len(args)
    c.tensors = tuple([isinstance(a, Tensor) for a in args])
    c.needs_input_grad = tuple([isinstance(a, Tensor) and needs(<Tensor>a) for a in args])
    recorded = recording() and True in c.needs_input_grad
    before = set_recording(False)
    try:
        if two_step:
            output = function.forward(*args)
            function.setup_context(c, args, output)
        elif kwargs:
            output = function.forward(c, *args, **kwargs)
        else:
            output = function.forward(c, *args)
    finally:
        restore_mode(before)
    outputs = output if isinstance(output, tuple) else (output,)
    check_outputs(c, outputs)
    wrapped = wrap_outputs(c, args, outputs, recorded)
    return wrapped if isinstance(output, tuple) else wrapped[0]


cdef object _base_setup = None


cdef object _no_setup():
    global _base_setup
    if _base_setup is None:
        from cygrad.autograd.function import Function
        _base_setup = Function.setup_context
    return _base_setup


cdef int check_outputs(FunctionCtx c, tuple outputs) except -1:
    for o in outputs:
        if isinstance(o, Tensor):
            return 0
    kinds = ", ".join([kind_of(o) for o in outputs]) or "nothing"
    raise TypeError(f"{c.owner.__name__}.forward: expected Variable or tuple of them (got {kinds})")


cdef tuple wrap_outputs(FunctionCtx c, tuple args, tuple outputs, bint recorded):
    """Outputs with the node attached: inputs returned as they are become views of themselves, dirty ones are rebased."""
    cdef Tensor y
    cdef uint32_t nr
    global node_seq
    dirty = {id(t) for t in c.dirty or ()}
    plain = {id(t) for t in c.no_gradient or ()}
    inputs = {id(a) for a in args if isinstance(a, Tensor)}
    for t in c.dirty or ():
        if id(t) not in inputs:
            raise RuntimeError(f"{c.owner.__name__}: mark_dirty was given a tensor that is not an input")
        if recorded and id(t) not in {id(o) for o in outputs}:
            raise RuntimeError(f"{c.owner.__name__}: some elements marked as dirty during the forward method were not returned "
                               "as output. The inputs that are modified inplace must all be outputs of the Function.")
        if recorded and (<Tensor>t).base is not None and len(outputs) > 1:
            raise RuntimeError(f"{c.owner.__name__}: a view that is modified in place must be the Function's only output")
    for t in c.dirty or ():
        if recorded:
            check_in_place(<Tensor>t, True)
        bump(<Tensor>t, named_write(f"the custom Function {c.owner.__name__}"))
    if not recorded:
        returned = inputs - dirty            # inputs that forward returned as they are: the caller gets another tensor
        return tuple([alias_of(<Tensor>o) if id(o) in returned else o for o in outputs])
    c.seq = node_seq
    node_seq += 1
    if keeping_lines:
        extra(c).line = user_line()
    for k, a in enumerate(args):
        if isinstance(a, Tensor):
            set_edge(c, k, history_alias(<Tensor>a, False) if id(a) in dirty else <Tensor>a)
        else:
            put_edge(c, k, None, 0, False)
    extra(c).outs = []
    result = []
    for i, o in enumerate(outputs):
        if not isinstance(o, Tensor):
            extra(c).outs.append(((), FLOAT32))
            result.append(o)
            continue
        y = <Tensor>o
        if id(o) in inputs and id(o) in plain:
            y = alias_of(y)                  # the caller's own tensor keeps its history
        elif id(o) in inputs and id(o) not in dirty:
            y = view_of_input(y)
        extra(c).outs.append((shape_tuple(&y.m), <int>y.m.dtype))
        if id(o) not in plain and category(y.m.dtype) >= 2:
            attach(c, y, i, id(o) in dirty)
        elif id(o) in plain:
            y.flags &= ~REQUIRES_GRAD
            y.fn = None
        result.append(y)
    swap_saved(c, outputs, result)
    keep_saved(c, tuple(result))
    c.dirty = c.no_gradient = None           # they hold outputs, which hold c
    return tuple(result)


cdef int attach(FunctionCtx c, Tensor y, int i, bint was_dirty) except -1:
    if was_dirty and y.base is not None:
        return rebase(y, c)
    if y.base is not None:
        y.creation = VIEW_FUNCTION
        y.view_version = y.mem.version       # forward may have written after it took the view
    y.fn = c
    y.out_nr = i
    y.flags |= REQUIRES_GRAD
    return 0


cdef Tensor view_of_input(Tensor x):
    """forward returned an input unchanged: the output is a new tensor over the same elements, with the Function's history."""
    cdef Tensor y = alias_of(x)
    y.base = x.base if x.base is not None else x
    y.view_version = x.mem.version
    y.creation = VIEW_FUNCTION
    return y


cdef int swap_saved(FunctionCtx c, tuple outputs, list result) except -1:
    """A saved input that was returned keeps meaning the input; a saved output means what the user got."""
    if c.to_save is None:
        return 0
    new = {id(o): r for o, r in zip(outputs, result) if isinstance(o, Tensor) and (<Tensor>r).fn is c and o is r}
    c.to_save = tuple([new.get(id(t), t) for t in c.to_save])
    return 0


cdef int function_backward(Node n, tuple grads) except -1:
    """The user's backward: what it returns is counted, checked and handed on."""
    cdef FunctionCtx c = <FunctionCtx>n
    cdef Dims d
    cdef list given = []
    cdef int k
    for i, g in enumerate(grads):
        if g is None and c.materialize_grads:
            shape, code = extra(c).outs[i]
            dims_from(shape, &d)
            g = zeros_of(d.n, d.v, code)
        given.append(g)
    if _py.all([g is None for g in given]) and not c.materialize_grads and len(given) == 1:
        return 0
    result = c.owner.backward(c, *given)
    returned = result if isinstance(result, tuple) else (result,)
    if len(returned) > c.n_args and _py.all([r is None for r in returned[c.n_args:]]):
        returned = returned[:c.n_args]
    if len(returned) != c.n_args:
        raise RuntimeError(f"function {type(c).__name__} returned an incorrect number of gradients (expected {c.n_args}, got "
                           f"{len(returned)})")
    for k, r in enumerate(returned):
        if r is None:
            continue
        if not isinstance(r, Tensor):
            raise RuntimeError(f"expected Variable or None (got {kind_of(r)}) as gradient {k} of {type(c).__name__}")
        if c.tensors[k] is False:
            raise RuntimeError(f"function {type(c).__name__} returned a gradient different from None at position {k + 1}, but "
                               "the corresponding forward input was not a Variable")
        pass_grad(n, k, <Tensor>r)
    if not (<Pass>cyg_pass).keep:
        c.kept = None
        c.released = 1
    return 0
