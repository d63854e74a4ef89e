# function: custom Functions. May use: engine, tensor.
# The context that forward and backward receive is the graph node itself, of a class made once for each Function.


cdef class FunctionCtx(Node):
    """What forward and backward of a custom Function share; it is the Function's node of the graph."""

    cdef readonly object needs_input_grad    # one bool for each argument of forward
    cdef public object materialize_grads
    cdef readonly object saved_for_forward   # what save_for_forward was given, None before
    cdef object owner                        # the Function class
    cdef readonly object to_save             # what save_for_backward was given, during forward
    cdef tuple dirty
    cdef tuple no_gradient
    cdef list kept                           # (tensor, Packed or None; version; output number, -1 for none)
    cdef tuple places                        # edge -> which argument of forward it is: the tensors among them
    cdef int n_args
    cdef bint in_jvp
    cdef dict __dict__

    def save_for_backward(self, *tensors):
        """Keeps tensors (or None) for backward; inputs, outputs and intermediate results alike."""
        check_saved(tensors, "save_for_backward")
        self.to_save = tensors

    def save_for_forward(self, *tensors):
        """Keeps tensors (or None) for jvp, which finds them in `saved_tensors`."""
        check_saved(tensors, "save_for_forward")
        self.saved_for_forward = tensors

    @property
    def saved_tensors(self):
        """What save_for_backward was given, in that order; checked to be unchanged. Inside ``jvp``: what save_for_forward was given."""
        if self.in_jvp:
            return self.saved_for_forward if self.saved_for_forward is not None else ()
        return unpack_saved(self)

    def mark_dirty(self, *args):
        """Says which inputs forward changed in place; they must be among its outputs."""
        check_marked(args, "mark_dirty")
        self.dirty = args

    def mark_non_differentiable(self, *args):
        """Says which outputs have no gradient."""
        check_marked(args, "mark_non_differentiable")
        self.no_gradient = args

    def set_materialize_grads(self, value):
        """Whether backward receives zeros (the default) or None for outputs that no gradient reached."""
        if not PyBool_Check(value):
            raise TypeError(f"set_materialize_grads(): argument 'value' must be bool, not {kind_of(value)}")
        self.materialize_grads = value


cdef int check_saved(tuple tensors, str name) except -1:
    for i, t in enumerate(tensors):
        if t is not None and not isinstance(t, Tensor):
            raise TypeError(f"{name} can only save variables, but argument {i} is of type {kind_of(t)}")
    return 0


cdef int check_marked(tuple tensors, str name) except -1:
    for i, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            raise RuntimeError(f"{name} can only accept variables, but argument {i} is of type {kind_of(t)}")
    return 0


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
        if isinstance(value, Packed):
            y = unpack_value(<Packed>value)
            if number < 0:
                connect(y, (<Packed>value).target, (<Packed>value).nr, (<Packed>value).leaf)
        elif value is None:
            out.append(None)
            continue
        else:
            t = <Tensor>value
            if t.mem.version != version:
                raise_changed(c, "", t, version)
            y = alias_of(t) if number >= 0 else t
        if number >= 0 and isinstance(value, Tensor) and (<Tensor>value).flags & DUAL:
            share_tangents(y, <Tensor>value)
        if number >= 0 and c.dual != INPUTS_ONLY:
            attach_output(c, y)
            if y.fn is c:
                y.out_nr = number
        out.append(y)
    return tuple(out)


cdef int keep_saved(FunctionCtx c, dict numbers) except -1:
    """After forward: outputs are kept as aliases, so that the node does not own itself. numbers: id -> output number."""
    cdef Tensor t
    cdef Packed p
    c.kept = []
    for value in c.to_save or ():
        if value is None:
            c.kept.append((None, 0, -1))
            continue
        t = <Tensor>value
        if t.mem.origin:
            refuse_inference()
        number = numbers.get(id(value), -1)
        if number >= 0:
            t = alias_of(t)
        if cyg_mode & MODE_PACK:
            p = pack(t, saved_hooks())
            if needs(t):
                p.target, p.nr, p.leaf = target_of(t)
            c.kept.append((p, 0, number))
        else:
            c.kept.append((t, t.mem.version, number))
    c.to_save = None
    return 0


cdef dict _context_classes = {}

cdef enum:
    CO_VARARGS = 0x04      # of a code object: it takes *args


cdef object context_class(object function):
    cls = function.__dict__.get("_backward_cls")
    if cls is None:
        cls = type(function.__name__ + "Backward", (FunctionCtx,), {"__module__": "torch.autograd.function", "_forward_cls": function})
        function._backward_cls = cls
    elif not (isinstance(cls, type) and issubclass(cls, FunctionCtx)):
        raise TypeError(f"{function.__name__}._backward_cls must be a class made from FunctionCtx, got {cls!r}")
    return cls


cdef tuple bind_defaults(object forward, tuple args, dict kwargs):
    """All arguments of forward in order, for setup_context, which sees no keywords."""
    code = getattr(forward, "__code__", None)
    if not kwargs and code is not None and code.co_argcount == len(args) and not hasattr(forward, "__wrapped__") \
            and not code.co_kwonlyargcount and not code.co_flags & CO_VARARGS:
        return args                      # to find the signature takes longer than most functions
    import inspect
    bound = inspect.signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


def apply_function(function, tuple args, dict kwargs):
    """Runs a custom Function's forward without recording and makes its node; the body of ``Function.apply``."""
    cdef FunctionCtx c
    cdef Tensor t
    cdef int before, limit, k
    cdef bint recorded = False, transposed = False
    cdef list levels = []
    cdef Batch over = joint_of([a for a in args if isinstance(a, Tensor)])
    global cyg_limit
    if over is not None and not batches_itself(function):
        return apply_batched(function, args, kwargs, over)
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
    c.places = tuple([k for k, a in enumerate(args) if isinstance(a, Tensor)])
    for a in args:
        if isinstance(a, Tensor) and shows_tangent(<Tensor>a):
            add_levels(<Tensor>a, levels)
    transposed = levels and function._transposed
    c.needs_input_grad = tuple([isinstance(a, Tensor) and (needs(<Tensor>a) or (transposed and shows_tangent(<Tensor>a)))
                                for a in args])
    recorded = (recording() or transposed) and True in c.needs_input_grad
    if recorded:
        for k, place in enumerate(c.places):
            set_edge(c, k, <Tensor>args[place])      # its history as it is before forward
    before = set_recording(False)
    limit = cyg_limit
    cyg_limit = 0
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
        cyg_limit = limit
    outputs = output if isinstance(output, tuple) else (output,)
    if over is not None:
        outputs = tuple([in_levels(<Tensor>o, over) if isinstance(o, Tensor) else o for o in outputs])
    befores = dual_befores(c, args) if levels else None
    skipped = undifferentiable(c, outputs) if levels else None
    if cyg_mode & MODE_NAN:
        observe_function(c, args, outputs)
    wrapped = wrap_outputs(c, args, outputs, recorded)
    if levels:
        push_function(c, args, befores, wrapped, skipped, levels, transposed)
    c.saved_for_forward = None               # it may hold outputs, which hold c
    return wrapped if isinstance(output, tuple) else wrapped[0]


cdef Tensor in_levels(Tensor x, Batch over):
    """x as it is, or as an example of those levels in which it does not vary: a Function's gradients want to know no difference."""
    over = with_all(over)
    return x if x.flags & BATCHED and batch_of(x).levels == over.levels else under(front(x, over, 0), over, 0)


cdef bint batches_itself(object function) except -1:
    """Whether forward and backward, which see one example, are all that vmap needs; RuntimeError where there is no way."""
    own = getattr(function, "vmap", None) is not _base("vmap")
    generated = bool(getattr(function, "generate_vmap_rule", False))
    if own and generated:
        raise RuntimeError(f"{function.__name__}: generate_vmap_rule=True and a vmap staticmethod exclude each other; remove one")
    if not own and not generated:
        raise RuntimeError(f"{function.__name__} has no rule for vmap: set generate_vmap_rule = True in the class, if forward, "
                           "setup_context and backward are made of tensor operations, or override the vmap staticmethod")
    return generated


class VmapInfo:
    """What ``Function.vmap`` is told: `batch_size`, and `randomness` as given to vmap."""

    __slots__ = ("batch_size", "randomness")

    def __init__(self, batch_size, randomness):
        self.batch_size, self.randomness = batch_size, randomness

    def __repr__(self):
        return f"VmapInfo(batch_size={self.batch_size}, randomness={self.randomness!r})"


cdef object apply_batched(object function, tuple args, dict kwargs, Batch over):
    """The user's own rule: it sees the examples of the innermost level as one tensor, and runs outside of that level."""
    global cyg_level
    cdef Level level = <Level>over.levels[over.n - 1]
    cdef void* running = cyg_level
    if kwargs:
        raise RuntimeError(f"{function.__name__}.apply: inside vmap, keyword arguments are not supported")
    whole = [batch_out(a, level, 0) if isinstance(a, Tensor) and level in levels_of(a) else a for a in args]
    dims = tuple([0 if isinstance(a, Tensor) and level in levels_of(a) else None for a in args])
    if running == <void*>level:
        cyg_level = <void*>level.outer if level.outer is not None else NULL
    try:
        result = function.vmap(VmapInfo(level.size, level.randomness), dims, *whole)
    finally:
        cyg_level = running
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(f"{function.__name__}.vmap must return a tuple (output, out_dims), got {kind_of(result)}")
    outputs, out_dims = result
    if not isinstance(outputs, tuple):
        return entered(outputs, out_dims, level)
    if not isinstance(out_dims, tuple):
        out_dims = (out_dims,) * len(outputs)
    if len(out_dims) != len(outputs):
        raise RuntimeError(f"{function.__name__}.vmap returned {len(outputs)} outputs and {len(out_dims)} out_dims")
    return tuple([entered(o, d, level) for o, d in zip(outputs, out_dims)])


cdef object entered(object output, object dim, Level level):
    return output if dim is None or not isinstance(output, Tensor) else batch_in(output, level, dim)


cdef object _base(str name):
    from cygrad.autograd.function import Function
    return getattr(Function, name)


cdef object _base_setup = None


cdef object _no_setup():
    global _base_setup
    if _base_setup is None:
        from cygrad.autograd.function import Function
        _base_setup = Function.setup_context
    return _base_setup


cdef int check_dirty(FunctionCtx c, tuple outputs, set inputs, bint recorded) except -1:
    """What mark_dirty was given, before anything gets a history."""
    cdef Tensor t
    returned = {id(o) for o in outputs}
    for t in c.dirty or ():
        bump(t, named_write(f"the custom Function {c.owner.__name__}"))      # forward wrote, whatever else is wrong
    for t in c.dirty or ():
        if id(t) not in returned:
            raise RuntimeError(f"{c.owner.__name__}: Some elements marked as dirty during the forward method were not returned as output. "
                               "The inputs that are modified inplace must all be outputs of the Function.")
        if recorded and t.base is not None and len(outputs) > 1:
            raise RuntimeError(f"{c.owner.__name__}: If your Function modifies inplace an input that is a view of another Tensor, your "
                               "Function cannot return more than one Tensor. The view must be its only output")
        if recorded:
            check_in_place(t, True)
        if id(t) not in inputs:
            import warnings
            warnings.warn(f"{c.owner.__name__}: ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have "
                          "been mutated should be passed to ctx.mark_dirty().", UserWarning)
    return 0


cdef tuple wrap_outputs(FunctionCtx c, tuple args, tuple outputs, bint recorded):
    """Outputs with the node attached: inputs returned as they are become views of themselves, dirty ones are rebased."""
    cdef Tensor y
    cdef int k
    global node_seq
    dirty = {id(t) for t in c.dirty or ()}
    plain = {id(t) for t in c.no_gradient or ()}
    inputs = {id(args[k]) for k in c.places}
    check_dirty(c, outputs, inputs, recorded)
    if not recorded:
        returned = inputs - dirty            # inputs that forward returned as they are: the caller gets another tensor
        return tuple([returned_constant(<Tensor>o) if id(o) in returned else alias_of(<Tensor>o) if id(o) in dirty and needs(<Tensor>o) else o
                      for o in outputs])
    c.seq = node_seq
    node_seq += 1
    if keeping_lines:
        note_origin(c)
    for o in outputs:
        if isinstance(o, Tensor) and (<Tensor>o).flags & BATCHED:
            extra(c).levels = batch_of(<Tensor>o).levels
    c.dual = 0                               # the tangents come later, from jvp
    several = len([o for o in outputs if isinstance(o, Tensor) and id(o) not in plain and category((<Tensor>o).m.dtype) >= 2]) > 1
    extra(c).outs = []
    result, numbers = [], {}
    for i, o in enumerate(outputs):
        if not isinstance(o, Tensor):
            extra(c).outs.append(None)
            result.append(o)
            continue
        y = <Tensor>o
        if id(o) in inputs and id(o) in plain:
            y = returned_constant(y) if id(o) not in dirty else alias_of(y)      # the caller's own tensor keeps its history
        elif id(o) in inputs and id(o) not in dirty:
            y = returned_input(y)
        extra(c).outs.append((shape_tuple(&y.m), <int>y.m.dtype, <int>y.m.device))
        if id(o) in plain:
            y.flags &= ~REQUIRES_GRAD
            y.fn = None
        elif category(y.m.dtype) >= 2:
            attach(c, y, i, id(o) in dirty, several)
            if y is o:
                numbers[id(o)] = i
        result.append(y)
    keep_saved(c, numbers)
    c.dirty = c.no_gradient = None           # they hold outputs, which hold c
    return tuple(result)


cdef int attach(FunctionCtx c, Tensor y, int i, bint was_dirty, bint several) except -1:
    cdef bint retains = was_dirty and y.flags & RETAINS_GRAD and y.fn is not None
    if was_dirty:
        y.grad_ = None                       # that of another value
    if was_dirty and y.base is not None:
        return rebase(y, c)
    if retains:                              # that of the new value from now on
        node_hooks(y.fn).retain.pop(y.out_nr, None)
    if y.base is not None:
        y.creation = VIEW_MULTI if several else VIEW_FUNCTION
        y.view_version = y.mem.version       # forward may have written after it took the view
    y.fn = c
    y.out_nr = i
    y.flags |= REQUIRES_GRAD
    if streams_used and y.m.device:
        note_stream(c, y.m.device)
    return keep_retaining(y) if retains else 0


cdef Tensor returned_input(Tensor x):
    """forward returned an input unchanged: the output is a new tensor over the same elements."""
    cdef Tensor y = alias_of(x)
    if not x.mem.origin:
        y.base = x.base if x.base is not None else x
        y.view_version = x.mem.version
        y.creation = VIEW_FUNCTION
    return y


cdef Tensor returned_constant(Tensor x):
    """The same for an output without gradient: it is not attached to anything that has one."""
    return alias_of(x) if needs(x) else returned_input(x)


cdef int check_real(FunctionCtx c, int k, Tensor g) except -1:
    """A complex gradient of a real input is a mistake: its imaginary part would be lost."""
    cdef uint32_t nr = 0
    cdef bint leaf = False
    cdef int code
    if category(g.m.dtype) != KIND_COMPLEX:
        return 0
    e = edge(c, k, &nr, &leaf)
    if e is None:
        return 0
    code = (<Tensor>e).m.dtype if leaf else (<Node>e).x.outs[nr][1] if many(<Node>e) else (<Node>e).odtype
    if category(code) != KIND_COMPLEX:
        raise RuntimeError(f"Function {type(c).__name__} returned a {dtype_object(g.m.dtype)} gradient at index {k} for an input of "
                           f"{dtype_object(code)}: take its real part")
    return 0


cdef object backward_of(FunctionCtx c):
    """The user's backward, which may be named vjp."""
    global _base_backward
    if _base_backward is None:
        from cygrad.autograd.function import Function
        _base_backward = Function.backward
    cls = c.owner
    if cls.vjp is _base_backward:
        return cls.backward
    if cls.backward is not _base_backward and cls.backward is not cls.vjp:
        raise RuntimeError(f"{cls.__name__}: Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only "
                           "implement one of them.")
    return cls.vjp


cdef object _base_backward = None


cdef int function_backward(Node n, tuple grads) except -1:
    """The user's backward: what it returns is counted, checked and handed on."""
    cdef FunctionCtx c = <FunctionCtx>n
    cdef Dims d
    cdef list given = []
    cdef int k
    for i, g in enumerate(grads):
        if g is None and c.materialize_grads and c.x.outs[i] is not None:
            shape, code, place = c.x.outs[i]
            dims_from(shape, &d)
            g = zeros_of(d.n, d.v, code, place)
        given.append(g)
    if _py.all([g is None for g in given]) and not c.materialize_grads and len(given) == 1:
        return 0
    result = backward_of(c)(c, *given)
    returned = result if isinstance(result, tuple) else (result,)
    if len(returned) > c.n_args and _py.all([r is None for r in returned[c.n_args:]]):
        returned = returned[:c.n_args]
    if len(returned) != c.n_args:
        raise RuntimeError(f"function {type(c).__name__} returned an incorrect number of gradients (expected {c.n_args}, got "
                           f"{len(returned)})")
    for i, r in enumerate(returned):
        if r is None:
            continue
        if not isinstance(r, Tensor):
            raise RuntimeError(f"expected Variable or None (got {kind_of(r)}) as gradient {i} of {type(c).__name__}")
        if i not in c.places:
            raise RuntimeError(f"function {type(c).__name__} returned a gradient different than None at position {i + 1}, but "
                               "the corresponding forward input was not a Variable")
    for k, place in enumerate(c.places):
        if returned[place] is not None and wanted(n, k):
            check_real(c, k, <Tensor>returned[place])
        pass_grad(n, k, <Tensor>returned[place])
    if not (<Pass>cyg_pass).keep:
        c.kept = None
        c.released = 1
    return 0
