# entry: backward() and grad(), from what users pass to a pass of the engine. May use: engine, args, tensor.


cdef list sole_gradient(object g):
    """The gradient of one root, which may come in a sequence."""
    cdef list grads = list(g) if isinstance(g, (list, tuple)) else [g]
    for one in grads:
        if one is not None and not isinstance(one, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {kind_of(one)}")
    if len(grads) != 1:
        raise RuntimeError(f"got 1 tensor and {len(grads)} gradients")
    return grads


cdef Tensor first_gradient(Tensor t, object g, int i, bint create):
    """The gradient that a root starts from: given, or 1 for a tensor of one element."""
    if g is None:
        if t.m.numel != 1:
            raise RuntimeError(f"grad can be implicitly created only for scalar outputs, but output {i} has shape {list(shape_tuple(&t.m))}: "
                               "pass gradient= (grad_outputs=) of that shape")
        if not is_float(t.m.dtype):
            raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {dtype_object(t.m.dtype)}")
        return ones_same(t)
    if not isinstance(g, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {kind_of(g)}")
    if not meta_same_shape(&(<Tensor>g).m, &t.m):
        raise RuntimeError(f"Mismatch in shape: grad_output[{i}] has a shape of {shape_tuple(&(<Tensor>g).m)} and output[{i}] has a shape of "
                           f"{shape_tuple(&t.m)}.")
    if KIND_COMPLEX in (category((<Tensor>g).m.dtype), category(t.m.dtype)) and (<Tensor>g).m.dtype != t.m.dtype:
        raise RuntimeError(f"For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
                           f"grad_output[{i}] has a dtype of {dtype_object((<Tensor>g).m.dtype)} and output[{i}] has a dtype of "
                           f"{dtype_object(t.m.dtype)}.")
    if (<Tensor>g).m.dtype != t.m.dtype:
        return op_cast(<Tensor>g, t.m.dtype)
    return <Tensor>g


cdef tuple target_of_edge(object e, str role):
    """The same for a GradientEdge, which stands for a tensor."""
    node = getattr(e, "node", None)
    if not isinstance(node, Node) or not hasattr(e, "output_nr"):
        raise TypeError(f"{role} must be Tensors or GradientEdges, not {kind_of(e)}")
    return (node.variable, 0, True) if (<Node>node).op is &OP_ACCUMULATE else (node, e.output_nr, False)


cdef Tensor stand_in(object target, object number, bint leaf):
    """A tensor without values, of the shape and dtype whose gradient arrives there."""
    cdef Dims d
    cdef Tensor y = tensor_new()
    cdef int64_t i = number
    if leaf:
        return alias_of(<Tensor>target)
    shape, kind = (<Node>target)._output_meta[i]
    dims_from(shape, &d)
    meta_contig(&y.m, d.n, d.v, dtype_code(kind))
    adopt(y, storage_new(0))
    return y


cdef tuple target_of(Tensor t):
    """(target, output number, is leaf): where t's gradient arrives."""
    return (t.fn, t.out_nr, False) if made_by(t) is not None else (t, 0, True)


cdef bint is_target(Tensor t) except -1:
    """Whether a gradient can arrive at t. A view made under no_grad of a leaf requires grad, but leads nowhere."""
    return needs(t) and (made_by(t) is not None or t.flags & REQUIRES_GRAD != 0)


cdef list root_list(list tensors, list grads, bint create):
    """(target, output number, is leaf, gradient) of each; wrong gradients are told before tensors that need none."""
    cdef list roots = []
    cdef Tensor t
    for i, x in enumerate(tensors):
        if not isinstance(x, Tensor):
            target = target_of_edge(x, "tensors")
            roots.append((*target, first_gradient(stand_in(target[0], target[1], target[2]), grads[i], i, create)))
            continue
        t = <Tensor>x
        roots.append(first_gradient(t, grads[i], i, create) if needs(t) or grads[i] is not None else None)
    for i, x in enumerate(tensors):
        if not isinstance(x, Tensor):
            continue
        t = <Tensor>x
        if not is_target(t):
            raise RuntimeError(f"element {i} of tensors does not require grad and does not have a grad_fn")
        roots[i] = (*target_of(t), roots[i])
    return roots


cdef list input_list(object inputs):
    """Target of each input; non-leaves are asked for at the edge into their maker."""
    cdef list edges = []
    cdef Tensor t
    for i, x in enumerate(inputs):
        if not isinstance(x, Tensor):
            edges.append(target_of_edge(x, "inputs"))
            continue
        t = <Tensor>x
        if not needs(t):
            raise RuntimeError(f"One of the differentiated Tensors does not require grad: input {i}, of shape {list(shape_tuple(&t.m))}")
        edges.append(target_of(t))
    return edges


cdef bint cycle_told = False


cdef int warn_of_cycle() except -1:
    global cycle_told
    import warnings
    if not cycle_told:
        cycle_told = True
        warnings.warn("Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient which "
                      "can cause a memory leak: only the garbage collector frees it. autograd.grad makes none; else set .grad to None "
                      "after use.", UserWarning)
    return 0


cdef int backward_call(list tensors, list grads, object retain, object create, object inputs) except -1:
    cdef Tensor t
    cdef bint on = as_switch(create, "backward", "create_graph")
    cdef bint keep = on if retain is None else as_switch(retain, "backward", "retain_graph")
    cdef list wanted_inputs, roots, targets
    if cyg_level != NULL:
        raise RuntimeError("backward() inside of vmap would add the gradients of all examples to one .grad: use autograd.grad() or "
                           "func.grad() there, or call backward() outside")
    if on:
        warn_of_cycle()
    if inputs is None:
        roots = root_list(tensors, grads, on)
        grads.clear()
        run_pass(roots, keep, on, None, False)
        check_done()
        return 0
    wanted_inputs = [inputs] if isinstance(inputs, Tensor) or hasattr(inputs, "node") else list(inputs)
    if not wanted_inputs:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    roots = root_list(tensors, grads, on)
    grads.clear()
    targets = input_list(wanted_inputs)
    for x in wanted_inputs:
        if isinstance(x, Tensor):
            x.retain_grad()                  # that of a leaf is anyway
    run_pass(roots, keep, on, targets, True)
    return 0


def run_backward(tensors, grads, retain_graph, create_graph, inputs):
    """Accumulates into leaves (or only into `inputs`); arguments are sequences of equal length. See `autograd.backward`."""
    backward_call(list(tensors), list(grads), retain_graph, create_graph, inputs)


def run_grad(outputs, inputs, grads, retain_graph, create_graph, allow_unused):
    """The gradients of `inputs`, as a tuple. See `autograd.grad`."""
    cdef bint on = as_switch(create_graph, "grad", "create_graph")
    cdef bint keep = on if retain_graph is None else as_switch(retain_graph, "grad", "retain_graph")
    cdef bint lenient = as_switch(allow_unused, "grad", "allow_unused")
    cdef list roots = root_list(list(outputs), list(grads), on)
    cdef list edges = input_list(inputs)
    cdef list found = run_pass(roots, keep, on, edges, False)
    for i, g in enumerate(found):
        if g is None and not lenient:
            shape = list(inputs[i].shape) if isinstance(inputs[i], Tensor) else inputs[i].node._output_meta[inputs[i].output_nr][0]
            raise RuntimeError(f"One of the differentiated Tensors appears to not have been used in the graph: input {i}, of shape "
                               f"{list(shape)}. Set allow_unused=True if this is the desired behavior.")
    return tuple(found)


cdef extern from "Python.h":
    ctypedef struct CType "PyTypeObject":
        PyObject* tp_dict
    void PyType_Modified(CType* kind)


def own(result):
    """For compositions: the result, which is no view of what nobody else can reach. A tuple of results: each of them."""
    cdef Tensor y
    if isinstance(result, tuple):
        for one in <tuple>result:
            own(one)
    elif isinstance(result, Tensor):
        y = <Tensor>result
        if y.base is not None and (<PyObject*>y.base).ob_refcnt == 1 and y.view_version == y.mem.version:
            y.base = None
            y.creation = VIEW_PLAIN
    return result


def name_node(Tensor y not None, str name):
    """y, whose node gets the name that PyTorch's has; for compositions of which the last part made it."""
    return called(y, row_called(y.fn.op.id, name.encode())) if y.fn is not None and y.fn.op.id != OP_FUNCTION else y


def add_methods(dict methods):
    """Gives Tensor the methods that are written in Python, by name; for cygrad.autograd.composed."""
    cdef CType* kind = <CType*>Tensor
    cdef dict own = <dict>kind.tp_dict
    for name in methods:
        if name in own:
            raise ValueError(f"Tensor has a method {name!r} already: declare an operation in one place")
    own.update(methods)
    PyType_Modified(kind)
