# dual: forward mode. May use: node, opcall, view, engine, formulas.
# A tensor may carry a tangent for each open level; that of a view is the part of its root's tangent that lies in the same place, so
# writes through any view are seen by all. An operation with such an input makes its node as if it were recorded; the tangent of its
# result is computed from the node, which then stays only if gradients are wanted as well. While tangents of a level are
# computed, those of this level and of the ones inside it are out of sight: nothing is differentiated twice by mistake.


@cython.final
cdef class ForwardLevel:
    """A level of forward mode. Levels opened inside have a greater depth."""

    def __cinit__(self, int depth):
        self.depth = depth
        self.open = True
        self.ring = Dual.__new__(Dual)

    def close(self):
        """Takes the tangents of this level off all tensors."""
        cdef list found = []
        cdef Dual d = <Dual>self.ring.after
        self.open = False
        while d is not self.ring:
            found.append(d.tangent)          # dropped when all are off: what goes with one may unlink others
            d.tangent = None
            d = <Dual>d.after


@cython.final
@cython.freelist(64)
cdef class Dual:
    def __cinit__(self):
        self.before = self.after = <void*>self

    def __dealloc__(self):
        (<Dual>self.before).after = self.after
        (<Dual>self.after).before = self.before


cyg_set_new(Dual, cyg_no_new)


cdef Tensor dual_root(Tensor t):
    """The tensor whose tangents t's are, or are parts of; None."""
    if t.flags & DUAL:
        return t.extra.root if t.extra.root is not None else t
    if t.base is not None and t.base.flags & DUAL:
        return t.base
    return None


cdef Dual dual_of(Tensor root, ForwardLevel level):
    """What a root keeps for a level, or None."""
    cdef Dual d = root.extra.dual
    while d is not None and d.level is not level:
        d = d.lower
    return d if d is not None and d.tangent is not None else None


cdef bint dual_visible(Tensor t) noexcept:
    """Whether t, which is marked, has a tangent that can be seen now."""
    cdef Tensor root
    cdef Dual d
    if cyg_mode & MODE_INFERENCE:
        return False
    root = dual_root(t)
    d = root.extra.dual if root is not None else None
    while d is not None:
        if d.tangent is not None and d.level.depth < cyg_limit:
            return True
        d = d.lower
    return False


cdef int add_levels(Tensor t, list levels) except -1:
    """The levels of the tangents of t that can be seen, put into a list that is in order of depth."""
    cdef Tensor root = dual_root(t)
    cdef Dual d = root.extra.dual if root is not None else None
    cdef int i
    while d is not None:
        if d.tangent is not None and d.level.depth < cyg_limit and d.level not in levels:
            i = len(levels)
            while i and (<ForwardLevel>levels[i - 1]).depth > d.level.depth:
                i -= 1
            levels.insert(i, d.level)
        d = d.lower
    return 0


cdef int set_tangent(Tensor t, ForwardLevel level, Tensor v) except -1:
    """Makes v the tangent of t, which becomes its own root."""
    cdef Dual d, at = None, new
    d = extra_new(t).dual
    t.flags |= DUAL
    while d is not None and d.level.depth > level.depth:
        at = d
        d = d.lower
    if category(v.m.dtype) != category(t.m.dtype):
        v = op_cast(v, t.m.dtype)
    if d is not None and d.level is level:
        d.tangent = v
        return 0
    while d is not None and not d.level.open:
        d = d.lower
    new = Dual.__new__(Dual)
    new.tangent = v
    new.level = level
    new.lower = d
    new.after = level.ring.after
    new.before = <void*>level.ring
    (<Dual>new.after).before = <void*>new
    level.ring.after = <void*>new
    if at is None:
        t.extra.dual = new
    else:
        at.lower = new
    return 0


cdef Tensor tangent_at(Tensor t, ForwardLevel level):
    """The tangent of t, None when it has none. Only levels of less depth may be in sight."""
    cdef Tensor root = dual_root(t)
    cdef Dual d = dual_of(root, level) if root is not None else None
    if d is None:
        return None
    if root is t:
        return d.tangent
    if reaches_out(t, root):
        return strided_as(laid_for(d.tangent, geometry(root), geometry(t)), geometry(t), geometry(root))
    d.tangent = laid_like(root, d.tangent)
    return part_of(d.tangent, geometry(t), offset_of(root), t.m.dtype)


cdef bint reaches_out(Tensor t, Tensor root):
    """Whether t, by `as_strided`, shows memory that root does not. It has no tangent there, and keeps none that is written there."""
    cdef tuple view = geometry(t), own = geometry(root)
    return category(t.m.dtype) == category(root.m.dtype) and (view[2] < own[2] or extent(view) > extent(own))


cdef Tensor strided_as(Tensor block, tuple geo, tuple other):
    """The part with a geometry of a block that was laid for two."""
    cdef Dims sizes, strides
    dims_from(geo[0], &sizes)
    dims_from(geo[1], &strides)
    return op_as_strided(block, &sizes, &strides, geo[2] - _py.min(geo[2], other[2]))


cdef bint is_laid_like(Tensor root, Tensor v) noexcept:
    """Whether v lies at the start of its memory with the strides of root."""
    cdef int i
    if v.m.data != v.mem.ptr or v.base is not None:
        return False
    for i in range(root.m.ndim):
        if root.m.sizes[i] > 1 and root.m.strides[i] != v.m.strides[i]:
            return False
    return True


cdef Tensor laid_like(Tensor root, Tensor v):
    """v in memory of its own in which views of root can be taken."""
    return v if is_laid_like(root, v) else laid_copy(root, v)


cdef Tensor laid_copy(Tensor root, Tensor v):
    cdef Dims sizes, strides
    cdef int before
    check_apart(root)
    dims_from(shape_tuple(&root.m), &sizes)
    dims_from(stride_tuple(&root.m), &strides)
    before = set_recording(True)
    try:
        return copy_of(v, &sizes, &strides)
    finally:
        restore_mode(before)


cdef int share_tangents(Tensor y, Tensor x) except -1:
    """y, which shows the same elements as x, gets the tangents of x as its own."""
    global cyg_limit
    cdef list levels = []
    cdef int limit = cyg_limit
    add_levels(x, levels)
    try:
        for level in levels:
            cyg_limit = (<ForwardLevel>level).depth
            set_tangent(y, <ForwardLevel>level, tangent_at(x, <ForwardLevel>level))
    finally:
        cyg_limit = limit
    return 0


cdef int dual_view(Tensor y, Tensor x) except -1:
    """y, a new view of x, shows parts of the tangents that x has. Those of a root whose elements share memory lie in no memory like its
    own: there the view gets tangents as what any other operation makes does."""
    cdef Tensor root = dual_root(x)
    extra_new(y).root = None if has_internal_overlap(&root.m) else root
    y.flags |= DUAL
    return 0


# ---- operations ------------------------------------------------------------------------------------------------------

cdef int dual_edge(Node n, int k, Tensor t) except -1:
    """Edge k to an input with a tangent; where it needs no gradient, the edge only tells its shape."""
    cdef NodeExtra x = extra(n)
    cdef bint true = recording() and needs(t)
    n.dual = HAS_DUALS
    if x.duals is None:
        x.duals = []
    x.duals.append((k, t, true))
    return plain_edge(n, k, t) if true else put_edge(n, k, t, 0, True)


cdef bint wants_gradients(Node n, list duals):
    """Whether n is recorded for backward as well."""
    cdef uint32_t nr = 0
    cdef bint leaf = False
    cdef int k
    if not recording():
        return False
    cdef set shown = {k for k, _, true in duals if not true}
    for k in range(n.n_edges):
        if k not in shown and edge(n, k, &nr, &leaf) is not None:
            return True
    return False


cdef int cut_dual_edges(Node n, list duals) except -1:
    for k, _, true in duals:
        if not true:
            put_edge(n, k, None, 0, False)
    return 0


cdef int dual_output(Node n, Tensor y) except -1:
    """node_set_output for a node with dual inputs; its outputs' shape is set."""
    cdef list duals = n.x.duals
    cdef bint true = wants_gradients(n, duals)
    cdef Tensor root
    n.x.duals = None
    n.dual = INPUTS_ONLY if not true else 0
    if true:
        y.fn = n
        y.out_nr = 0
        y.flags |= REQUIRES_GRAD
    root = dual_root(y)
    if root is None or root is y:            # else a view, whose tangents are its root's
        for level, v in tangents_of(n, y, duals, true):
            set_tangent(y, <ForwardLevel>level, <Tensor>v)
    if true and cyg_mode & MODE_PACK:
        pack_saved(n)
    return cut_dual_edges(n, duals)


cdef int dual_rebase(Node n, Tensor x) except -1:
    """rebase for a node with dual inputs."""
    cdef list duals = n.x.duals
    cdef bint true = wants_gradients(n, duals)
    n.x.duals = None
    n.dual = INPUTS_ONLY if not true else 0
    shape_output(n, &x.m)
    for level, v in tangents_of(n, x, duals, true):
        write_tangent(x, <ForwardLevel>level, <Tensor>v)
    if true and cyg_mode & MODE_PACK:
        pack_saved(n)
    cut_dual_edges(n, duals)
    return rebase(x, n) if true else 0


cdef list tangents_of(Node n, Tensor y, list duals, bint true):
    """(level, tangent) of what n makes. true: n is recorded for backward, so the tangents are recorded too;
    they may need gradients where n does not."""
    global cyg_limit
    cdef list levels = [], found = [], pairs
    cdef int limit = cyg_limit, before
    cdef Tensor v
    cdef bint on
    for _, t, _ in duals:
        add_levels(<Tensor>t, levels)
    try:
        for level in levels:
            cyg_limit = (<ForwardLevel>level).depth
            pairs = []
            for k, t, _ in duals:
                v = tangent_at(<Tensor>t, <ForwardLevel>level)
                if v is not None:
                    pairs.append((k, v))
            on = recording() and (true or len(levels) > 1 or _py.any([needs(<Tensor>t) for _, t in pairs]))
            before = cyg_mode
            if not on:
                restore_mode(before & ~MODE_PACK)        # nothing is kept for backward
            try:
                v = pushed(n, y, pairs, on)
            finally:
                restore_mode(before)
            if n.s3 is not None and n.s3.m.dtype == y.m.dtype:
                set_tangent(n.s3, <ForwardLevel>level, v)
            found.append((level, v))
    finally:
        cyg_limit = limit
    return found


cdef Tensor pushed(Node n, Tensor y, list pairs, bint on):
    """The tangent of n's output from those of its inputs. on: whether it may be part of a graph."""
    cdef Tensor total = None, v
    cdef int before
    if n.op.id == OP_CAT or n.op.id == OP_STACK:
        before = set_recording(on)
        try:
            return joined_tangents(n, y, pairs)
        finally:
            restore_mode(before)
    if n.op.forward == NULL and (n.op.row == NO_KERNELS or category(y.m.dtype) != KIND_FLOAT
                                 or _py.any([category((<Tensor>v).m.dtype) != KIND_FLOAT for _, v in pairs])):
        return <Tensor>twice_transposed(n, [y], pairs, on)[0]
    before = set_recording(on)
    try:
        for k, t in pairs:
            v = n.op.forward(n, k, <Tensor>t) if n.op.forward != NULL else by_gradient(n, k, <Tensor>t, y)
            if v is not None:
                v = as_code(v, y.m.dtype)
                total = v if total is None else op_add(total, v)
        if total is None:
            total = zeros_same(y)
        return total if meta_same_shape(&total.m, &y.m) else expanded_as(total, y)
    finally:
        restore_mode(before)


cdef Tensor expanded_as(Tensor t, Tensor y):
    cdef Dims d
    dims_from(shape_tuple(&y.m), &d)
    return op_expand_to(t, &d)


cdef Tensor by_gradient(Node n, int k, Tensor t, Tensor y):
    """Part of an input in the tangent of a pointwise operation on real numbers: its derivative is a factor for each
    element, the same one in either mode."""
    global cyg_pass
    cdef list kept = [False] * n.n_edges
    cdef Pass p = Pass.__new__(Pass)
    cdef void* outer = cyg_pass
    t = as_code(t, y.m.dtype)
    if not meta_same_shape(&t.m, &y.m):
        t = expanded_as(t, y)
    kept[k] = None
    p.keep = True
    p.collecting = n
    p.collected = kept
    cyg_pass = <void*>p
    try:
        n.op.backward(n, t)
    finally:
        cyg_pass = outer
    return kept[k]


cdef list twice_transposed(Node n, list outs, list pairs, bint on):
    """Tangents of n's outputs; None for those that are None in `outs`. Backward of n is a linear map of the outputs' gradients u; the gradient
    of <backward(u), tangents> by u is its transpose, applied to the tangents. u's values do not matter."""
    global cyg_pass
    cdef Pass p = Pass.__new__(Pass)
    cdef list us = [None if y is None else dummy(<Tensor>y) for y in outs], roots = [], given
    cdef uint32_t nr = 0
    cdef bint leaf = False
    cdef Tensor g
    cdef int k, before = set_recording(True)
    cdef void* outer = cyg_pass
    cdef tuple summed = n.x.levels if n.x is not None else None
    p.keep = True
    p.collecting = n
    p.collected = [False] * n.n_edges
    for k, _ in pairs:
        p.collected[k] = None
    cyg_pass = <void*>p
    if summed is not None:
        n.x.levels = None                    # each example of a batch has a tangent of its own
    try:
        if many(n) or n.op.id == OP_FUNCTION:
            backward_many(n, tuple(us))
        else:
            n.op.backward(n, <Tensor>us[0])
        for k, t in pairs:
            if p.collected[k] is not None:
                e = edge(n, k, &nr, &leaf)
                g = fit(n, k, e, leaf, nr, <Tensor>p.collected[k])
                if needs(g):
                    roots.append((*target_of(g), as_code(<Tensor>t, g.m.dtype)))
    finally:
        if summed is not None:
            n.x.levels = summed
        cyg_pass = outer
        restore_mode(before)
    wanted_us = [u for u in us if u is not None]
    given = run_pass(roots, True, on, [(u, 0, True) for u in wanted_us], False) if roots else [None] * len(wanted_us)
    given.reverse()
    return [None if u is None else found_or_zeros(<Tensor>given.pop(), <Tensor>u) for u in us]


cdef Tensor found_or_zeros(Tensor v, Tensor u):
    return zeros_same(u) if v is None else v


cdef Tensor dummy(Tensor y):
    cdef Tensor u = zeros_same(y)
    if y.flags & BATCHED:
        set_batch(u, batch_with(batch_of(y).levels))     # alike in all of them
    u.flags |= REQUIRES_GRAD
    return u


cdef int write_tangent(Tensor x, ForwardLevel level, Tensor v) except -1:
    """The tangent of x, which was written in place; x may be a view of what has the tangent."""
    global cyg_limit
    cdef Tensor root = dual_root(x), whole, held
    cdef Dual d
    cdef int limit = cyg_limit
    if root is None:
        root = x.base if x.base is not None else x
    if root is x:
        return set_tangent(x, level, v)
    d = dual_of(root, level) if root.flags & DUAL else None
    cyg_limit = level.depth
    try:
        held = d.tangent if d is not None else zeros_same(root)
        if v.flags & BATCHED:                # with room for each example
            held = op_add(held, spread(zeros_same(held), batch_of(v), True))
        if reaches_out(x, root):
            whole = laid_for(held, geometry(root), geometry(x))
            copy_in(strided_as(whole, geometry(x), geometry(root)), v)
            whole = laid_copy(root, strided_as(whole, geometry(root), geometry(x)))
        else:
            whole = laid_copy(root, held)
            copy_in(part_of(whole, geometry(x), offset_of(root), x.m.dtype), v)
    finally:
        cyg_limit = limit
    return set_tangent(root, level, whole)


# ---- rows without a formula of the table that have a shorter way -----------------------------------------------------

cdef Tensor fw_same(Node n, int k, Tensor t):
    return t


cdef Tensor fw_copy(Node n, int k, Tensor t):
    return t if k == 1 else None


cdef Tensor fw_fill(Node n, int k, Tensor t):
    return None


cdef Tensor fw_index(Node n, int k, Tensor t):
    return op_index(t, kept_indices(n))


cdef Tensor fw_batch_in(Node n, int k, Tensor t):
    return op_batch_in(t, <Level>n.rest, n.iattr[0])


cdef Tensor fw_batch_out(Node n, int k, Tensor t):
    return op_batch_out(t, <Level>n.rest, n.iattr[0])


OPS[OP_BATCH_IN].forward = fw_batch_in
OPS[OP_BATCH_OUT].forward = fw_batch_out
OPS[OP_CLONE].forward = fw_same
OPS[OP_COPY].forward = fw_copy
OPS[OP_FILL].forward = fw_fill
OPS[OP_INDEX].forward = fw_index


cdef Tensor joined_tangents(Node n, Tensor y, list pairs):
    """The tangent of cat or stack: theirs of the parts, zeros where a part has none."""
    cdef dict given = dict(pairs)
    cdef list parts = []
    cdef Dims d
    cdef int k, dim = wrap_dim(n.iattr[0], y.m.ndim)
    dims_from(shape_tuple(&y.m), &d)
    if n.op.id == OP_STACK:
        for k in range(dim, d.n - 1):
            d.v[k] = d.v[k + 1]
        d.n -= 1
    for k in range(n.n_edges):
        if n.op.id == OP_CAT:
            d.v[dim] = n.rest[k]
        parts.append(given[k] if k in given else zeros_of(d.n, d.v, y.m.dtype, y.m.device))
    return op_cat(parts, dim) if n.op.id == OP_CAT else op_stack(parts, dim)


# ---- what users call -------------------------------------------------------------------------------------------------

def make_dual_tensor(Tensor primal not None, Tensor tangent not None, ForwardLevel level not None):
    """A view of `primal` with `tangent` as its tangent of a level. See `forward_ad.make_dual`."""
    global cyg_limit
    cdef Tensor y
    cdef Dims d
    cdef int limit = cyg_limit
    for t in (primal, tangent):
        if peek_tangent(<Tensor>t, level) is not None:
            raise RuntimeError(f"make_dual(): the {'primal' if t is primal else 'tangent'} has a tangent of this level already: "
                               "unpack_dual() takes it off")
    if not meta_same_shape(&primal.m, &tangent.m):
        raise RuntimeError("Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
                           f"supported. Tensor is of size {list(shape_tuple(&primal.m))} while the given forward gradient is of size "
                           f"{list(shape_tuple(&tangent.m))}.")
    if has_internal_overlap(&primal.m):      # there is no place for a tangent of each element
        y = op_clone(primal)
    else:
        y = without_tangents(primal)
    share_tangents(y, primal)
    cyg_limit = level.depth
    try:
        set_tangent(y, level, tangent)
    finally:
        cyg_limit = limit
    return y


cdef Tensor without_tangents(Tensor x):
    """A view of x that backward sees and forward mode does not."""
    global cyg_limit
    cdef Dims d
    cdef Tensor y
    cdef int limit = cyg_limit
    dims_from(shape_tuple(&x.m), &d)
    cyg_limit = 0
    try:
        y = op_view_as_shape(x, &d)
    finally:
        cyg_limit = limit
    y.flags |= DUAL                          # a root of its own
    extra_new(y).root = None
    return y


cdef Tensor peek_tangent(Tensor t, ForwardLevel level):
    global cyg_limit
    cdef int limit = cyg_limit
    cyg_limit = level.depth
    try:
        return tangent_at(t, level)
    finally:
        cyg_limit = limit


def tangent_of(Tensor t not None, ForwardLevel level not None):
    """The tangent of a level, or None."""
    return peek_tangent(t, level)


def primal_of(Tensor t not None, ForwardLevel level not None):
    """`t` as a view without its tangents of this level and of those inside it."""
    global cyg_limit
    cdef Tensor y = without_tangents(t)
    cdef int limit = cyg_limit
    cyg_limit = _py.min(limit, level.depth)
    try:
        share_tangents(y, t)
    finally:
        cyg_limit = limit
    return y


def innermost_tangent(Tensor t not None):
    """The tangent of the innermost level of which t has one, or None."""
    cdef list levels = []
    add_levels(t, levels)
    return peek_tangent(t, <ForwardLevel>levels[len(levels) - 1]) if levels else None


def differentiated(*tensors):
    """Whether an operation on these is recorded, or carries tangents on: then it must be made of such operations."""
    return _py.any([isinstance(t, Tensor) and records(<Tensor>t) for t in tensors])


def _set_forward_limit(int depth):
    """Puts tangents of this depth and more out of sight on this thread; returns the limit that was before."""
    global cyg_limit
    cdef int before = cyg_limit
    cyg_limit = depth
    return before
