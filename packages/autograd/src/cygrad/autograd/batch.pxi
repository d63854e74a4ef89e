# batch: one example that stands for a whole batch, in vmap. May use: opcall, view.
# A batched tensor is a Tensor (flag BATCHED) whose Meta is that of one example, the first. Shapes, dimensions, messages, the graph
# and its formulas see this and know nothing of batches; its Batch says which vmaps it varies in, and how far apart their examples
# lie. Views copy the Batch and are done. What computes takes `front`, a plain tensor with the batch dimensions in front, and puts
# its result `under` the same levels again.
# Meta.flags of a batched tensor are never CONTIGUOUS or DENSE: every fast path then leaves it to the general form.
# A tensor may be in a level and yet alike in all of its examples (a step of 0): so the inputs of a transform that runs inside of vmap
# are, whose gradients differ where they themselves do not. What is made of nothing else is computed once and is alike again, and its
# values can be read.

cdef enum:
    MAX_LEVELS = 16

cdef extern from *:
    """
    /* the innermost vmap that runs on this thread, borrowed */
    #if defined(_MSC_VER)
    static __declspec(thread) void* cyg_level = 0;
    #else
    static __thread void* cyg_level __attribute__((tls_model("initial-exec"))) = 0;
    #endif
    """
    void* cyg_level

cdef uint64_t level_count = 0


@cython.final
cdef class Level:
    """One vmap: how many examples there are, and what random operations do. Its tensors keep it when it has ended, for the graph."""

    cdef readonly int64_t size
    cdef readonly uint64_t id            # later ones are inside of earlier ones
    cdef readonly str randomness
    cdef readonly Level outer            # None, or the vmap around this one while it runs
    cdef readonly int depth              # from 1
    cdef bint differentiated             # a transform in backward mode has run inside of it

    def __repr__(self):
        return f"<vmap level {self.depth} of {self.size} examples>"


cyg_set_new(Level, cyg_no_new)


@cython.final
cdef class Batch:
    # owned by the Extra of a tensor, shared with its views; never changed
    cdef tuple levels                    # of Level, outer ones first; not empty
    cdef int n
    cdef unsigned int thin               # bit i: in level i all operands are alike, so that it counts as one example. Of `joint_of` only
    cdef int64_t steps[MAX_LEVELS]       # bytes from one example to the next


cyg_set_new(Batch, cyg_no_new)


cdef Level NO_VALUES = Level.__new__(Level)      # that of tensors which have no values yet: whatever computes asks for it, and is told
NO_VALUES.size = 1


cdef int check_values(Batch b) except -1:
    if b.levels[0] is NO_VALUES:
        raise ValueError("Attempted to use an uninitialized parameter: it has no shape and no values yet. Call the lazy module that it "
                         "belongs to once, with an example of its input, before anything is computed with its parameters")
    return 0


def _without_values(Tensor t not None, bint without):
    """Every operation on t raises ValueError from now on, or no more."""
    if without:
        set_batch(t, batch_with((NO_VALUES,)))
    else:
        t.flags &= ~BATCHED
        extra_new(t).batch = None
    return t


def enter_level(int64_t size, str randomness):
    """Begins a vmap on this thread."""
    global cyg_level, level_count
    cdef Level level = Level.__new__(Level)
    level.size = size
    level.randomness = randomness
    level.outer = current_level()
    level.depth = level.outer.depth + 1 if level.outer is not None else 1
    level.differentiated = level.outer is not None and level.outer.differentiated
    if level.depth > MAX_LEVELS:
        raise RuntimeError(f"vmap: at most {MAX_LEVELS} of them may run inside one another")
    level_count += 1
    level.id = level_count
    Py_INCREF(level)                     # cyg_level's
    cyg_level = <void*>level
    return level


def leave_level(Level level not None):
    """Ends the innermost vmap of this thread."""
    global cyg_level
    if cyg_level != <void*>level:
        raise RuntimeError("vmap: levels end in the reverse of the order in which they began")
    cyg_level = <void*>level.outer if level.outer is not None else NULL
    level.outer = None
    Py_DECREF(level)


cdef inline Level current_level():
    return <Level>cyg_level if cyg_level != NULL else None


def innermost_level():
    """The vmap that runs on this thread, or None."""
    return current_level()


def is_batched(Tensor t not None):
    """Whether t is an example of a vmap."""
    return t.flags & BATCHED != 0


def levels_of(Tensor t not None):
    """The vmaps that t is an example of, outer ones first."""
    return batch_of(t).levels if t.flags & BATCHED else ()


cdef inline Batch batch_of(Tensor t):
    return <Batch>t.extra.batch


cdef int set_batch(Tensor y, Batch batch) except -1:
    extra_new(y).batch = batch
    y.flags |= BATCHED
    y.m.flags = 0
    return 0


cdef int inherit(Tensor y, Tensor x) except -1:
    """y, which has the Meta of one example of the batched x, is batched alike."""
    return set_batch(y, batch_of(x))


cdef Batch joint_of(object tensors):
    """All levels that some of the tensors have; None where none has any. Those in which none varies are thin."""
    cdef Batch b, have = None
    cdef set seen
    cdef unsigned int thin
    for t in tensors:
        if t is None or not (<Tensor>t).flags & BATCHED:
            continue
        b = batch_of(<Tensor>t)
        check_values(b)
        if have is None:
            have = b
        elif b.levels != have.levels:
            seen = set(have.levels) | set(b.levels)
            have = batch_with(tuple(sorted(seen, key=level_id)))
    if have is None:
        return None
    thin = alike_levels(have, tensors)
    if thin:
        have = batch_with(have.levels)
        have.thin = thin
    return have


cdef unsigned int alike_levels(Batch over, object tensors) except? 0xFFFFFFFF:
    """The levels, as bits, in which none of the tensors varies."""
    cdef unsigned int thin = (1u << over.n) - 1
    cdef Batch b
    cdef int i, j
    for i in range(over.n):
        if (<Level>over.levels[i]).size == 0:
            thin &= ~(1u << i)
    for t in tensors:
        if t is None or not (<Tensor>t).flags & BATCHED:
            continue
        b = batch_of(<Tensor>t)
        i = 0
        for j in range(b.n):
            while over.levels[i] is not b.levels[j]:
                i += 1
            if b.steps[j]:
                thin &= ~(1u << i)
    return thin


cdef inline Batch with_all(Batch over):
    """The same levels, each with all of its examples."""
    return batch_with(over.levels) if over.thin else over


cdef inline int64_t size_in(Batch over, int i):
    """How many examples of level i are computed."""
    return 1 if over.thin >> i & 1 else (<Level>over.levels[i]).size


cdef object level_id(object level):
    return (<Level>level).id


cdef Batch batch_with(tuple levels):
    """A Batch without steps, to say which levels."""
    cdef Batch b = Batch.__new__(Batch)
    if len(levels) > MAX_LEVELS:
        raise RuntimeError(f"vmap: a tensor of {len(levels)} levels, at most {MAX_LEVELS} are supported")
    b.levels = levels
    b.n = len(levels)
    return b


cdef inline Batch joint(Tensor a, Tensor b, Tensor c):
    return joint_of((a, b, c))


cdef int64_t examples(Batch over) except -1:
    """How many examples are computed in all."""
    cdef int64_t n = 1
    cdef int i
    for i in range(over.n):
        n *= size_in(over, i)
    return n


cdef Tensor front(Tensor x, Batch over, int rank):
    """x as a plain tensor without history: the dimensions of `over` in front, expanded where x does not vary, then x's own, at least
    `rank` (with size 1 before the others)."""
    cdef Tensor y = tensor_new()
    cdef int64_t sizes[MAXDIM]
    cdef int64_t strides[MAXDIM]
    cdef int64_t item = ITEMSIZE[x.m.dtype]
    cdef Batch own = batch_of(x) if x.flags & BATCHED else None
    cdef int i, j = 0, k = over.n, pad = rank - x.m.ndim if rank > x.m.ndim else 0
    if own is not None:
        check_values(own)
    if k + pad + x.m.ndim > MAXDIM:
        raise RuntimeError(f"vmap: {x.m.ndim} dimensions inside of {k} levels are more than {MAXDIM}")
    for i in range(k):
        sizes[i] = size_in(over, i)
        strides[i] = 0
        if own is not None and j < own.n and own.levels[j] is over.levels[i]:
            if own.steps[j] and over.thin >> i & 1:
                raise SystemError("vmap: what varies was taken for alike")
            if own.steps[j] % item:
                raise RuntimeError(f"vmap: examples that lie {own.steps[j]} bytes apart cannot be seen as {dtype_object(x.m.dtype)}")
            strides[i] = own.steps[j] // item
            j += 1
    for i in range(k, k + pad):
        sizes[i] = strides[i] = 1
    memcpy(sizes + k + pad, x.m.sizes, x.m.ndim * sizeof(int64_t))
    memcpy(strides + k + pad, x.m.strides, x.m.ndim * sizeof(int64_t))
    meta_strided(&y.m, k + pad + x.m.ndim, sizes, strides, x.m.dtype, x.m.data)
    adopt(y, x.mem)
    return y


cdef Tensor under(Tensor y, Batch over, int drop):
    """The plain tensor y, whose first dimensions are those of `over`, as a batched one; drop: its last ones, of size 1, that lifting
    added."""
    cdef Tensor z = tensor_new()
    cdef Batch b = batch_with(over.levels)
    cdef int i, k = over.n
    for i in range(k):
        b.steps[i] = 0 if over.thin >> i & 1 else y.m.strides[i] * ITEMSIZE[y.m.dtype]
    meta_strided(&z.m, y.m.ndim - k - drop, y.m.sizes + k, y.m.strides + k, y.m.dtype, y.m.data)
    adopt(z, y.mem)
    set_batch(z, b)
    return z


cdef Tensor bare(Tensor x):
    """A tensor that is not batched, without its history."""
    cdef Tensor y
    if x.fn is None and not x.flags & (REQUIRES_GRAD | DUAL) and x.base is None:
        return x
    y = alias_of(x)
    y.flags |= x.flags & (WRAPPED | TRUTH | WIDE)
    return y


cdef Tensor aligned(Tensor x, Batch over, int rank, bint away):
    """x as an operand that broadcasts beside others of `over`, `away`: of a device: as it is when it is the same in all examples."""
    if not x.flags & BATCHED:
        return bare(x)
    if away and x.m.ndim == 0 and x.m.device == 0 and examples(batch_of(x)) and all_alike(x):
        return example(x, batch_of(x), 0)          # a number of the CPU may stand beside a device's tensors, one of many may not
    return front(x, over, rank)


cdef bint all_alike(Tensor x) except -1:
    """Whether a batched x is one tensor shown again and again."""
    cdef Batch b = batch_of(x)
    check_values(b)
    return alike_levels(b, (x,)) == (1u << b.n) - 1


def is_alike(Tensor x not None, Level level not None):
    """Whether x, which is an example of a vmap, is the same in all examples of it."""
    cdef Batch b = batch_of(x)
    return b.steps[b.levels.index(level)] == 0 and level.size > 0


cdef Tensor example(Tensor x, Batch over, int64_t number):
    """Example `number` of x, counted over all levels of `over`: a plain tensor over the same memory, without history."""
    cdef Tensor y
    cdef Batch own
    cdef int i, j
    cdef int64_t shift = 0, size
    if not x.flags & BATCHED:
        return bare(x)
    own = batch_of(x)
    check_values(own)
    j = own.n - 1
    for i in range(over.n - 1, -1, -1):
        size = size_in(over, i)
        if j >= 0 and own.levels[j] is over.levels[i]:
            shift += (number % size) * own.steps[j]
            j -= 1
        number //= size
    y = tensor_new()
    meta_strided(&y.m, x.m.ndim, x.m.sizes, x.m.strides, x.m.dtype, x.m.data + shift)
    adopt(y, x.mem)
    return y


cdef Tensor first_of(Tensor x):
    """The first example, to ask an operation what it has to say about one; zeros where there is none."""
    if not x.flags & BATCHED:
        return bare(x)
    if examples(batch_of(x)) == 0:
        return zeros_of(x.m.ndim, x.m.sizes, x.m.dtype, x.m.device)
    return example(x, batch_of(x), 0)


cdef Tensor stack_examples(list ys, Batch over):
    """The results of all examples, one after another, as one batched tensor."""
    cdef Tensor y, first = <Tensor>ys[0]
    cdef Dims d
    cdef int i
    for y in ys:
        if not meta_same_shape(&y.m, &first.m):
            raise RuntimeError(f"vmap: the examples' results have different shapes, {list(shape_tuple(&first.m))} and "
                               f"{list(shape_tuple(&y.m))}")
    y = op_stack(ys, 0)
    d.n = over.n + first.m.ndim
    for i in range(over.n):
        d.v[i] = size_in(over, i)
    memcpy(d.v + over.n, first.m.sizes, first.m.ndim * sizeof(int64_t))
    if d.n > MAXDIM:
        raise RuntimeError(f"vmap: {first.m.ndim} dimensions inside of {over.n} levels are more than {MAXDIM}")
    if examples(over) == 0:
        return under(filled(&d, None, first.m.dtype, first.m.device), over, 0)
    return under(op_view_as_shape(y, &d), over, 0)


cdef Tensor spread(Tensor x, Batch over, bint rowmajor):
    """A copy of x without history that has every level of `over`, each example in memory of its own."""
    return copied_over(x, with_all(over), rowmajor)


cdef Tensor copied_over(Tensor x, Batch over, bint rowmajor):
    """A copy of x without history that has every level of `over`; alike in thin ones."""
    cdef Tensor whole = front(x, over, 0), y = tensor_new()
    adopt(y, ops.op_clone(&y.m, &whole.m, x.m.dtype, True if whole.m.flags & DENSE == 0 else rowmajor))
    return under(y, over, 0)


cdef Tensor spread_new(Tensor y, Batch over):
    """A new tensor that nobody else has seen, with room for each example."""
    return y if over is None else spread(y, over, True)


cdef bint somewhere(Tensor mask) except -1:
    """Whether a bool tensor holds in some element of some example."""
    cdef Tensor whole = front(mask, batch_of(mask), 0) if mask.flags & BATCHED else mask
    cdef Tensor found = tensor_new()
    adopt(found, ops.op_any(&found.m, &whole.m, full_mask(whole), False))
    return ops.item(&found.m)


def anywhere(Tensor mask not None):
    """Whether a bool tensor holds in some element, of some example in vmap: for checks, which refuse the batch as a whole."""
    return somewhere(mask)


def everywhere(Tensor mask not None):
    """Whether a bool tensor holds in every element, of every example in vmap."""
    cdef Tensor whole = front(mask, batch_of(mask), 0) if mask.flags & BATCHED else mask
    cdef Tensor found = tensor_new()
    adopt(found, ops.op_all(&found.m, &whole.m, full_mask(whole), False))
    return bool(ops.item(&found.m))


def whole_batch(Tensor x not None):
    """x without history; of a batched one all examples, in dimensions in front. For checks that read values."""
    return front(x, batch_of(x), 0) if x.flags & BATCHED else x.detach()


# ---- what runs once for each example ---------------------------------------------------------------------------------

LOOPED = []                  # names of compositions that run so, beside the rows of the table
WARNED_LOOPS = set()


def warn_loop(str name):
    """Says, once for each operation, that vmap has no rule for it."""
    if name not in WARNED_LOOPS:
        WARNED_LOOPS.add(name)
        import warnings
        warnings.warn(f"vmap: there is no batching rule for {name}, so it runs once for each example, which is slow; "
                      "func.looped_operations() lists all such operations", UserWarning, stacklevel=2)


# ---- in and out of a level, recorded ---------------------------------------------------------------------------------

def batch_in(Tensor x not None, Level level not None, int64_t dim):
    """One example of x, whose dimension `dim` counts the examples of a level."""
    return op_batch_in(x, level, dim)


def batch_out(Tensor x not None, Level level not None, int64_t dim):
    """All examples of a level, along dimension `dim` of the result; repeated where x is the same in all."""
    return op_batch_out(x, level, dim)


cdef Tensor op_batch_in(Tensor x, Level level, int64_t dim):
    cdef Tensor y = tensor_new(), shown = tensor_new()
    cdef Batch b, own
    cdef Node n
    cdef int i, at
    dim = wrap_dim(dim, x.m.ndim)
    if x.m.sizes[dim] != level.size:
        raise RuntimeError(f"vmap: dimension {dim} has size {x.m.sizes[dim]}, but there are {level.size} examples")
    own = batch_of(x) if x.flags & BATCHED else None
    at = 0
    while own is not None and at < own.n and (<Level>own.levels[at]).id < level.id:
        at += 1                              # before levels inside of it: a gradient may come back to one that has ended
    b = batch_with((*own.levels[:at], level, *own.levels[at:]) if own is not None else (level,))
    if own is not None:
        for i in range(own.n):
            b.steps[i if i < at else i + 1] = own.steps[i]
    b.steps[at] = x.m.strides[dim] * ITEMSIZE[x.m.dtype]
    view_select(&y.m, &x.m, dim, 0) if level.size else view_without(&y.m, &x.m, dim)
    view_begin(y, x)
    set_batch(y, b)
    if y.creation == VIEW_PLAIN:
        y.creation = VIEW_EXAMPLE
    if y.flags & DUAL:                       # the same places of its root's tangent are no batch
        y.extra.root = None
    if records(x) and category(x.m.dtype) >= 2:
        n = node_new(&OPS[OP_BATCH_IN])
        set_edge(n, 0, x)
        n.rest = level
        n.iattr[0] = dim
        node_set_output(n, y)
    return y


cdef int view_without(Meta* y, const Meta* x, int64_t dim) except -1:
    """x without an empty dimension."""
    cdef int64_t sizes[MAXDIM]
    cdef int64_t strides[MAXDIM]
    cdef int i, k = 0
    for i in range(x.ndim):
        if i != dim:
            sizes[k], strides[k] = x.sizes[i], x.strides[i]
            k += 1
    y.device = x.device
    return meta_strided(y, k, sizes, strides, x.dtype, x.data)


cdef int bw_batch_in(Node n, Tensor g) except -1:
    if wanted(n, 0):
        pass_grad(n, 0, op_batch_out(g, <Level>n.rest, n.iattr[0]))
    return 0


cdef Tensor op_batch_out(Tensor x, Level level, int64_t dim):
    """A view; of a tensor that does not vary, an expanded one."""
    cdef Tensor y = tensor_new()
    cdef Batch own = batch_of(x) if x.flags & BATCHED else None, rest
    cdef Node n
    cdef int64_t sizes[MAXDIM]
    cdef int64_t strides[MAXDIM]
    cdef int i, j, at = -1, nd = x.m.ndim + 1
    if nd > MAXDIM:
        raise RuntimeError(f"vmap: a result of {x.m.ndim} dimensions has no room for that of the batch")
    dim = wrap_dim(dim, nd)
    for i in range(own.n if own is not None else 0):
        if own.levels[i] is level:
            at = i
    j = 0
    for i in range(nd):
        if i == dim:
            sizes[i] = level.size
            strides[i] = own.steps[at] // ITEMSIZE[x.m.dtype] if at >= 0 else 0
        else:
            sizes[i], strides[i] = x.m.sizes[j], x.m.strides[j]
            j += 1
    meta_strided(&y.m, nd, sizes, strides, x.m.dtype, x.m.data)
    adopt(y, x.mem)
    if own is not None and own.n > (at >= 0):
        rest = batch_with(own.levels[:at] + own.levels[at + 1:] if at >= 0 else own.levels)
        j = 0
        for i in range(own.n):
            if i != at:
                rest.steps[j] = own.steps[i]
                j += 1
        set_batch(y, rest)
    elif at >= 0 and x.base is not None and not x.base.flags & BATCHED:      # an input, or a view of one
        y.base, y.view_version, y.creation = x.base, x.view_version, x.creation
    if records(x) and category(x.m.dtype) >= 2:
        n = node_new(&OPS[OP_BATCH_OUT])
        set_edge(n, 0, x)
        n.rest = level
        n.iattr[0] = dim
        node_set_output(n, y)
        if extra(n).levels is None:
            n.x.levels = ()                  # so that what it gives is settled
    return y


cdef int bw_batch_out(Node n, Tensor g) except -1:
    if wanted(n, 0):
        pass_grad(n, 0, op_batch_in(g, <Level>n.rest, n.iattr[0]))
    return 0


cdef Tensor lifted(Tensor x):
    """x as an example of every vmap that runs: its gradient is then one for each example, and not their sum."""
    cdef Level level = current_level()
    cdef list missing = []
    cdef tuple own = batch_of(x).levels if x.flags & BATCHED else ()
    while level is not None:
        if level not in own:
            missing.append(level)
        level.differentiated = True
        level = level.outer
    for level in reversed(missing):
        x = op_batch_in(op_batch_out(x, level, 0), level, 0)
    return x


def lift(Tensor x not None):
    """x, or inside of vmap an example of every level that runs: a tensor whose gradient is one for each example."""
    return lifted(x) if cyg_level != NULL else x


cdef Tensor settled(Node n, object e, bint leaf, Tensor g):
    """The gradient that n, which computes in some levels, gives to a target that has fewer of them: the sum over the examples."""
    cdef tuple here = n.x.levels, there = None
    cdef Tensor total
    if n.op.id == OP_BATCH_IN or e is n:     # its gradient has left the level already; or what a hook put in its place
        return g
    if n.op.id == OP_BATCH_OUT:              # and that of its reverse has entered it
        here = (*here, n.rest)
    if leaf:
        there = batch_of(<Tensor>e).levels if (<Tensor>e).flags & BATCHED else ()
    elif (<Node>e).x is not None and (<Node>e).x.levels is not None:
        there = (<Node>e).x.levels
    else:
        there = ()
    for level in here:
        if level in there:
            continue
        if g.flags & BATCHED and level in batch_of(g).levels:
            g = op_sum(op_batch_out(g, <Level>level, 0), 1, False, g.m.dtype)
        else:
            g = op_mul(g, like_number(<double>(<Level>level).size, g))
    return g
