# opcall: running and recording pointwise operations. May use: node, promotion, and storage's iterator and kernels.
# Two functions each: a fast path that fits a screen (same dtype, same contiguous shape, nothing special in the mode word),
# and pointwise(), which knows broadcasting, promotion, strides and in-place targets. Errors are built only in cold functions.

cdef inline Tensor tensor_new():
    return Tensor.__new__(Tensor)


cdef inline int adopt(Tensor y, Storage s) except -1:
    """y, whose Meta is filled, lives in s. Nothing else may set y.mem: here a sizes block gets its owner."""
    y.mem = s
    if s.device:
        meta_place(&y.m, s.device)
    return own_sizes(y) if y.m.ndim > INLINE else 0


cdef int own_sizes(Tensor y) except -1:
    """A Tensor has no __dealloc__ (Cython would save and restore the exception state around it, 10 ns a tensor): an object of its
    own frees the block."""
    cdef SizesBlock block = SizesBlock.__new__(SizesBlock)
    block.meta.sizes = y.m.sizes
    block.meta.ndim = y.m.ndim
    y.wide = block
    return 0


cdef int tensor_empty(Tensor y) except -1:
    """Makes the Meta of a tensor that nobody else has seen empty, to be filled anew."""
    memset(&y.m, 0, sizeof(Meta))
    y.wide = None
    return 0


cdef int tensor_strip(Tensor y) except -1:
    """The same for a tensor that other threads may be reading just now. y is to be whole again before the GIL is released."""
    settle()
    return tensor_empty(y)


cdef Tensor empty_rowmajor(const Meta* like, int code):
    """Uninitialised, row-major, shape of `like`, on the CPU."""
    cdef Tensor y = tensor_new()
    cdef Meta* m = &y.m
    cdef int64_t stride = 1
    cdef int i, d = like.ndim
    if d > INLINE:
        meta_contig(m, d, like.sizes, code)
    else:
        m.ndim = d
        m.dtype = code
        m.numel = like.numel
        m.flags = CONTIGUOUS | DENSE | FLAT
        m.sizes = m.inl
        m.strides = m.inl + INLINE
        for i in range(d - 1, -1, -1):
            m.inl[i] = like.sizes[i]
            m.inl[INLINE + i] = stride
            if like.sizes[i] > 1:
                stride *= like.sizes[i]
    adopt(y, storage_new(like.numel * ITEMSIZE[code]))
    m.data = y.mem.ptr
    return y


cdef inline bint same_dense(const Meta* a, const Meta* b) noexcept:
    """Same shape, both row-major and on the CPU: one loop over the block does it."""
    cdef int i
    if a.ndim != b.ndim or not a.flags & b.flags & FLAT:
        return False
    for i in range(a.ndim):
        if a.sizes[i] != b.sizes[i]:
            return False
    return True


cdef inline bint plain(const Meta* m) noexcept:
    """Row-major in dimensions of size 1 too: beside a 0-d tensor their strides would shape the result, as in PyTorch."""
    cdef int64_t stride = 1
    cdef int i
    if not m.flags & FLAT:
        return False
    for i in range(m.ndim - 1, -1, -1):
        if m.strides[i] != stride:
            return False
        if m.sizes[i] > 1:
            stride *= m.sizes[i]
    return True


cdef inline void run_flat(Loop f, Meta** ms, int n, const double* attr) noexcept:
    """Row-major operands of one shape (or one element, step 0)."""
    cdef Iter it
    cdef char* p[6]
    cdef int64_t st[6]
    cdef int i
    cdef int64_t total = ms[0].numel
    for i in range(n):
        p[i] = ms[i].data
        st[i] = ITEMSIZE[ms[i].dtype] if ms[i].numel == total else 0
    if total < NOGIL:
        if total:
            f(p, st, total, attr)
        return
    it.nop = n
    it.ndim = 1
    it.numel = total
    it.sizes[0] = total
    for i in range(n):
        it.p[i] = p[i]
        it.st[0][i] = st[i]
    iter_run_gil(&it, f, attr)


cdef inline void run_two(Loop f, Meta* y, Meta* a, Meta* b, const double* attr) noexcept:
    """run_flat for two inputs, the case whose cost is felt."""
    cdef char* p[3]
    cdef int64_t st[3]
    cdef Meta* ms[3]
    cdef int64_t n = y.numel
    if n >= NOGIL:
        ms[0] = y
        ms[1] = a
        ms[2] = b
        run_flat(f, ms, 3, attr)
        return
    p[0] = y.data
    p[1] = a.data
    p[2] = b.data
    st[0] = ITEMSIZE[y.dtype]
    st[1] = ITEMSIZE[a.dtype] if a.numel == n else 0
    st[2] = ITEMSIZE[b.dtype] if b.numel == n else 0
    if n:
        f(p, st, n, attr)


cdef inline int result_dtype(const OpInfo* o, int code) noexcept:
    """Dtype of the result of an operation that computes in `code`."""
    return BOOL if o.out_bool else real_of(code) if o.out_real else code


cdef inline Tensor unary(int op, Tensor x):
    cdef const OpInfo* o = &OPS[op]
    cdef Loop f
    cdef Meta* ms[2]
    cdef Tensor y
    if x.m.flags & FLAT and not cyg_mode & ~MODE_QUICK:
        f = o.row[x.m.dtype]
        if f != NULL:
            y = empty_rowmajor(&x.m, result_dtype(o, x.m.dtype))
            ms[0] = &y.m
            ms[1] = &x.m
            run_flat(f, ms, 2, NULL)
            if records(x):
                record(o, y, x, None, None, NULL, 0)
            return y
    return pointwise(op, 1, x, None, None, NULL, None)


cdef inline bint guarded(const OpInfo* o, Tensor a, Tensor b) noexcept:
    """Whether operands of one dtype that has a kernel need a look before the loop."""
    return ((o.guard & READS_VALUES and is_integral(a.m.dtype))
            or (o.guard & (GUARD_NOBOOL | GUARD_BOUNDS) and (a.flags | b.flags) & TRUTH))


cdef inline Tensor binary(int op, Tensor a, Tensor b):
    return binary_with(op, a, b, NULL)


cdef inline Tensor binary_with(int op, Tensor a, Tensor b, const double* attr):
    """attr: scalar arguments, or NULL."""
    cdef const OpInfo* o = &OPS[op]
    cdef Loop f
    cdef Meta* shape
    cdef Tensor y
    if a.m.dtype == b.m.dtype and not cyg_mode & ~MODE_QUICK:
        if same_dense(&a.m, &b.m) or (b.m.ndim == 0 and b.m.flags & FLAT and plain(&a.m)):
            shape = &a.m
        elif a.m.ndim == 0 and a.m.flags & FLAT and plain(&b.m):
            shape = &b.m
        else:
            return pointwise(op, 2, a, b, None, attr, None)
        f = o.row[a.m.dtype]
        if f != NULL and not (o.guard and guarded(o, a, b)):
            y = empty_rowmajor(shape, result_dtype(o, a.m.dtype))
            run_two(f, &y.m, &a.m, &b.m, attr)
            if records(a) or records(b):
                record(o, y, a, b, None, attr, 0)
            return y
    return pointwise(op, 2, a, b, None, attr, None)


cdef inline bint rounds_twice(int op, Tensor a, Tensor b) noexcept:
    """Whether a quotient of halves is truncated, which PyTorch does after rounding it, except that of a float32 number."""
    return op == OP_DIV_TRUNC and a.m.dtype == b.m.dtype and is_half(a.m.dtype)


cdef Tensor divided(Tensor a, Tensor b, int op):
    return op_trunc(op_div(a, b)) if rounds_twice(op, a, b) else binary(op, a, b)


cdef inline int edge_of_operand(Node n, int k, Tensor t, int reads):
    """Edge k to t; returns the saved slots that its gradient reads, none when t needs no gradient."""
    n.n_edges = k + 1
    if not marks(t) & (REQUIRES_GRAD | DUAL):
        return 0
    if t.flags & (REQUIRES_GRAD | DUAL) == REQUIRES_GRAD and t.base is None:       # set_edge for the usual case, inline
        if t.fn is None:
            n.leaves |= 1 << k
            if k == 0:
                n.e0 = t
            elif k == 1:
                n.e1 = t
            else:
                n.e2 = t
        else:
            n.nr[k] = t.out_nr
            if k == 0:
                n.e0 = t.fn
            elif k == 1:
                n.e1 = t.fn
            else:
                n.e2 = t.fn
    else:
        set_edge(n, k, t)
        if (n.e0 if k == 0 else n.e1 if k == 1 else n.e2) is None:      # a view that was made without recording: its leaf is not reached
            return 0
    return reads


cdef int record(const OpInfo* o, Tensor y, Tensor a, Tensor b, Tensor c, const double* attr, int in_place) except -1:
    """Makes the node of a pointwise operation: edges, what the needed gradients read, scalar arguments.

    in_place: y is an input, already written; the operand that was y is then an alias with its values and history from before.
    """
    cdef Node n
    cdef Tensor out
    cdef int need = 0, reads = 0
    if not (o.out_bool or category(y.m.dtype) < 2):
        n = node_new(o)
        reads = edge_of_operand(n, 0, a, o.saves[0])
        if b is not None:
            reads |= edge_of_operand(n, 1, b, o.saves[1])
            if c is not None:
                reads |= edge_of_operand(n, 2, c, o.saves[2])
        if reads & 1:
            save(n, 0, a)
        if reads & 2:
            save(n, 1, b)
        if reads & 4:
            save(n, 2, c)
        if reads & 8:
            save(n, SLOT_OUT, alias_of(y))
        if attr != NULL:
            n.attr[0] = attr[0]
            n.attr[1] = attr[1]
        if in_place:
            mark_overwritten(n, y)
            rebase(y, n)
        else:
            node_set_output(n, y)
    return 0


cdef int mark_overwritten(Node n, Tensor y) except -1:
    """Inputs saved by the node that wrote y count as changed by that write where they lie in y's memory. (y itself was copied.)"""
    if n.s0 is not None and n.s0.mem is y.mem:
        n.ver[0] -= 1
    if n.s1 is not None and n.s1.mem is y.mem:
        n.ver[1] -= 1
    if n.s2 is not None and n.s2.mem is y.mem:
        n.ver[2] -= 1
    return 0


cdef int compute_code(const OpInfo* o, Tensor a, Tensor b, Tensor c) except -1:
    """The dtype in which the kernel runs; RuntimeError where there is none."""
    cdef int code
    if (a.flags & WRAPPED and cyg_mode & ~MODE_QUICK and c is None and o.row[a.m.dtype] != NULL
            and (b is None or (b.flags & WRAPPED and b.m.dtype == a.m.dtype))):
        return a.m.dtype                 # numbers of a formula keep their digits, as on the fast paths, which a mode passes by
    if o.alike:
        code = common_code(o, a, b, c)
    else:
        code = result_code(a if o.kinds & 1 else None, b if o.kinds & 2 else None, c if o.kinds & 4 else None)
        if o.kinds & 8 and code == BOOL:
            code = INT64
    if (o.row[code] == NULL and not o.alike and category(code) < 2 and o.row[<int>FLOAT32] != NULL
            and o.row[<int>INT64] == NULL):
        code = default_dtype()           # a function of real numbers, given integers
    if o.row[code] == NULL:
        refuse_dtype(o, code)
    return code


cdef int common_code(const OpInfo* o, Tensor a, Tensor b, Tensor c) except -1:
    """The one dtype of all inputs that are no Python numbers; a 0-d third one (a weight) may have another."""
    cdef int code = a.m.dtype
    cdef Tensor other = None
    if b is not None and b.m.dtype != code:
        other = b
    elif c is not None and c.m.ndim and c.m.dtype != code:
        other = c
    if other is not None:
        raise RuntimeError(f"{ROW_NAMES[o.id - 1]}: tensors of one dtype are wanted, got {dtype_object(code)} and "
                           f"{dtype_object(other.m.dtype)}")
    return code


cdef int refuse_dtype(const OpInfo* o, int code) except -1:
    kind, _, reason = REFUSALS.get(o.id, "NotImplementedError: there is no kernel for it").partition(": ")
    raise getattr(_py, kind)(f"{ROW_NAMES[o.id - 1]}: not implemented for '{dtype_word(code)}' ({dtype_object(code)}): {reason}")


cdef Tensor cast_data(Tensor t, int code):
    """t in another dtype, without history; t itself when it has it."""
    cdef Tensor y
    if t.m.dtype == code:
        return t
    if t.flags & BATCHED:
        return op_cast(alias_of(t), code)
    y = tensor_new()
    adopt(y, ops.op_clone(&y.m, &t.m, code, False))
    return y


cdef Tensor operand(const OpInfo* o, int k, Tensor t, int code):
    """Input k as the kernel wants it."""
    if o.kinds & (16 << k):              # a mask
        if t.m.dtype != BOOL:
            raise RuntimeError(f"{ROW_NAMES[o.id - 1]} expected condition (mask) to be a boolean tensor, but got a tensor with "
                               f"dtype {dtype_object(t.m.dtype)}")
        return t
    return cast_data(t, code)


cdef inline bint same_place(const Meta* a, const Meta* b) noexcept:
    cdef int i
    if a.data != b.data or a.dtype != b.dtype or a.ndim != b.ndim:
        return False
    for i in range(a.ndim):
        if a.sizes[i] != b.sizes[i] or (a.strides[i] != b.strides[i] and a.sizes[i] > 1):
            return False
    return True


cdef Tensor pointwise(int op, int nin, Tensor a, Tensor b, Tensor c, const double* attr, Tensor target):
    """The general form. target: written in place (an operand, for in-place operations; or an `out`), else None."""
    cdef const OpInfo* o = &OPS[op]
    cdef int code, out_code, nd, i
    cdef Tensor ta, tb, tc, y
    cdef Meta* ms[4]
    cdef int64_t sizes[MAXDIM]
    cdef double number[2]
    cdef int64_t began = op_began()
    if target is not None:
        check_history(target, recording() and needs_grad(a, b, c))
    code = compute_code(o, a, b, c)
    out_code = result_dtype(o, code)
    if any_batched(a, b, c) or (target is not None and target.flags & BATCHED):
        return pointwise_batched(o, code, nin, a, b, c, attr, target)
    ta = operand(o, 0, a, code)
    tb = operand(o, 1, b, code) if nin > 1 else None
    tc = operand(o, 2, c, code) if nin > 2 else None
    ms[1] = &ta.m
    if nin > 1:
        ms[2] = &tb.m
    if nin > 2:
        ms[3] = &tc.m
    if o.guard & GUARD_HALVES and is_half(code) and number_beside_halves(o, number, code, a, b, c):
        attr = number
    try:
        nd = broadcast_shapes(ms + 1, nin, sizes)
    except RuntimeError as e:
        raise RuntimeError(f"{o.name.decode().lower()}: {e}") from None
    if o.guard:
        check_guards(o, code, a, b, c, tb, elements(nd, sizes))
    if cyg_mode & MODE_STRICT:
        check_broadcast(o, nd, sizes, (a, b, c))
    if target is None:
        y = tensor_new()
        if o.rowmajor:
            y.m.device = device_among(ms + 1, nin)
            meta_contig(&y.m, nd, sizes, out_code)
        else:
            meta_joint(&y.m, ms + 1, nin, nd, sizes, out_code)
        adopt(y, meta_storage(&y.m))
        run_iter(o.kernel, code, &y.m, ms, nin, nd, sizes, attr)
        if records_any(a, b, c):
            record(o, y, a, b, c, attr, 0)
        if cyg_mode & MODE_OBSERVED:
            observe(op, y, (a, b, c), began)
        return y
    write_in_place(o, code, out_code, target, a, b, c, ms, nin, nd, sizes, attr)
    return target


cdef inline bint any_batched(Tensor a, Tensor b, Tensor c) noexcept:
    return (a.flags & BATCHED or (b is not None and b.flags & BATCHED) or (c is not None and c.flags & BATCHED)) != 0


cdef int check_guards(const OpInfo* o, int code, Tensor a, Tensor b, Tensor c, Tensor cast_b,
                      int64_t count) except -1:
    """What a row asks of its inputs. cast_b: b in the dtype `code` of the loop; count: elements of the result."""
    cdef str name = ROW_NAMES[o.id - 1]
    if o.guard & GUARD_DIVISOR and is_integral(code) and count and holds_any(OP_EQ, cast_b):
        raise RuntimeError(f"ZeroDivisionError: {name} of integers by zero")
    if o.guard & GUARD_EXPONENT and is_integral(code) and b.flags & WRAPPED and holds_any(OP_LT, b):
        raise RuntimeError(f"Integers to negative integer powers are not allowed: {name} of {dtype_object(code)} got the "
                           f"exponent {ops.item(&b.m)}")
    if o.guard & GUARD_NOBOOL and (a.m.dtype == BOOL or b.m.dtype == BOOL or (a.flags | b.flags) & TRUTH):
        raise RuntimeError(f"{name}: subtraction with a bool operand is not supported, got {operand_word(a)} and "
                           f"{operand_word(b)}: use the `^` or `logical_xor()` operator, or `~` to invert a mask")
    if o.guard & GUARD_QUOTIENT and category(b.m.dtype) < 2 and category(c.m.dtype) < 2:
        raise RuntimeError(f"{name}: integer division is not supported, got {dtype_object(b.m.dtype)} and "
                           f"{dtype_object(c.m.dtype)}: convert one to a floating dtype")
    if o.guard & GUARD_BOUNDS and code == BOOL and b.flags & WRAPPED:
        refuse_dtype(o, BOOL)
    if o.guard & GUARD_FLOATING and category(result_code(a, b, c)) < 2:
        refuse_dtype(o, result_code(a, b, c))
    if o.guard & GUARD_RANGE:
        for t in (a, b, c):
            if t is not None and (<Tensor>t).flags & WRAPPED and (<Tensor>t).m.dtype != code:
                check_range(<Tensor>t, code)
    return 0


cdef object operand_word(Tensor t):
    return "a Python bool" if t.flags & TRUTH else dtype_object(t.m.dtype)


cdef bint holds_any(int compare, Tensor t) except -1:
    """Whether some element compares so with 0."""
    return somewhere(binary(compare, t, scalar_tensor(0, t.m.dtype)))


cdef int check_range(Tensor number, int code) except -1:
    """Whether a Python number can be stored in a dtype."""
    cdef Tensor place = scalar_tensor(0, code)
    ops.fill_number(&place.m, ops.item(&number.m))
    return 0


cdef inline bint needs_grad(Tensor a, Tensor b, Tensor c) noexcept:
    return needs(a) or (b is not None and needs(b)) or (c is not None and needs(c))


cdef inline bint records_any(Tensor a, Tensor b, Tensor c) noexcept:
    return records(a) or (b is not None and records(b)) or (c is not None and records(c))


cdef inline int device_among(Meta** ms, int n) noexcept:
    """Where the result of these operands lies: numbers on the CPU may stand beside tensors of another device."""
    cdef int device = 0, i
    for i in range(n):
        if ms[i].device:
            device = ms[i].device
    return device


cdef int run_iter(int kid, int code, Meta* y, Meta** ms, int nin, int nd, const int64_t* sizes, const double* attr) except -1:
    ms[0] = y
    return ops.run_pointwise(kid, code, ms, nin + 1, nd, sizes, attr)


cdef int write_in_place(const OpInfo* o, int code, int out_code, Tensor x, Tensor a, Tensor b, Tensor c, Meta** ms, int nin,
                        int nd, const int64_t* sizes, const double* attr) except -1:
    """Checks, all before the first write; then the loop; then version and history."""
    cdef bint recorded = records_any(a, b, c)
    cdef int64_t began = op_began()
    cdef Tensor before, seen
    check_memory(x)                          # its history has been looked at
    if nin > 1:
        check_partial_overlap(x, b)
    if nin > 2:
        check_partial_overlap(x, c)
    check_target(o, code, out_code, x, nd, sizes)
    seen = seen_before_write(o, out_code, x, a, b, c) if cyg_mode & MODE_OBSERVED else None
    before = history_alias(x, reads_target(o, x, a, b, c)) if recorded else None
    a, b, c = frozen(a, x), frozen(b, x), frozen(c, x)
    write_loop(o, code, out_code, x, ms, nin, nd, sizes, attr)
    finish_write(o, x, a, b, c, before, seen, attr, began)
    return 0


cdef Tensor seen_before_write(const OpInfo* o, int out_code, Tensor x, Tensor a, Tensor b, Tensor c):
    """What observers want of x before it is written, after their checks."""
    if out_code != x.m.dtype and cyg_mode & MODE_STRICT:
        check_written_dtypes(o, x, a, b, c)
    return glimpse(x)


cdef int finish_write(const OpInfo* o, Tensor x, Tensor a, Tensor b, Tensor c, Tensor before, Tensor seen,
                      const double* attr, int64_t began) except -1:
    """After the loop wrote x: version, history (before: x as it was, if it is recorded) and observers (seen)."""
    bump(x, o.id)
    if before is not None:
        record(o, x, before if a is x else a, before if b is x else b, before if c is x else c, attr, 1)
    if seen is not None:
        observe(o.id, x, (seen if a is x else a, seen if b is x else b, seen if c is x else c), began)
    return 0


cdef int check_target(const OpInfo* o, int code, int out_code, Tensor x, int nd, const int64_t* sizes) except -1:
    """Whether shape and dtype of x can take the result."""
    cdef int i
    cdef bint fits = x.m.ndim == nd
    for i in range(nd):
        fits = fits and x.m.sizes[i] == sizes[i]
    if not fits:
        raise RuntimeError(f"{o.name.decode().lower()}_: output with shape {list(shape_tuple(&x.m))} doesn't match the broadcast "
                           f"shape {[sizes[i] for i in range(nd)]}")
    if o.out_real and out_code != code:
        raise RuntimeError(f"In-place {o.name.decode().lower()} is not supported for complex tensors: the result is of "
                           f"{dtype_object(out_code)!r}")
    if not storable(out_code, x.m.dtype):
        raise RuntimeError(f"{o.name.decode().lower()}_: result type {dtype_word(out_code)} can't be cast to the desired output "
                           f"type {dtype_word(x.m.dtype)}")
    return 0


cdef int write_loop(const OpInfo* o, int code, int out_code, Tensor x, Meta** ms, int nin, int nd, const int64_t* sizes,
                    const double* attr) except -1:
    """The loop into x, through a temporary where it reads other places of x's memory or computes in another dtype."""
    cdef int i
    cdef bint direct = x.m.dtype == out_code
    cdef Tensor temp
    for i in range(1, nin + 1):
        if not same_place(&x.m, ms[i]) and may_share_memory(&x.m, ms[i]):
            direct = False
    if direct:
        run_iter(o.kernel, code, &x.m, ms, nin, nd, sizes, attr)
    else:
        temp = tensor_new()
        temp.m.device = x.m.device
        meta_contig(&temp.m, nd, sizes, out_code)
        adopt(temp, meta_storage(&temp.m))
        run_iter(o.kernel, code, &temp.m, ms, nin, nd, sizes, attr)
        ops.copy_into(&x.m, &temp.m)
    return 0


cdef bint reads_target(const OpInfo* o, Tensor x, Tensor a, Tensor b, Tensor c) noexcept:
    """Whether some wanted gradient reads the values that x has before it is written: then they are copied first."""
    cdef int reads = 0
    if records(a):
        reads |= o.saves[0]
    if b is not None and records(b):
        reads |= o.saves[1]
    if c is not None and records(c):
        reads |= o.saves[2]
    return (reads & 1 and a is x) or (reads & 2 and b is x) or (reads & 4 and c is x)


# ---- fused gradients: the scalar reading of a formula, when no graph of the gradient is wanted ----------------------

cdef Tensor fused(int kid, int nin, Tensor a, Tensor b, Tensor c, Tensor d, int masks, const double* attr):
    """Runs gradient kernel kid over up to four operands; None when the operands do not have one floating dtype (bit i of
    `masks`: operand i is bool), or one has a tangent, so that the caller takes the reading that promotes."""
    cdef int code = a.m.dtype, i, nd
    cdef Loop f
    cdef Meta* ms[5]
    cdef int64_t sizes[MAXDIM]
    cdef Tensor y
    cdef bint flat = a.m.flags & FLAT != 0
    if (shows_tangent(a) or (b is not None and shows_tangent(b)) or (c is not None and shows_tangent(c))
            or (d is not None and shows_tangent(d))):
        return None
    if any_batched(a, b, c) or (d is not None and d.flags & BATCHED):
        return fused_batched(kid, nin, a, b, c, d, masks, attr)
    ms[1] = &a.m
    if nin > 1:
        ms[2] = &b.m
    if nin > 2:
        ms[3] = &c.m
    if nin > 3:
        ms[4] = &d.m
    for i in range(nin):
        if ms[i + 1].dtype != (BOOL if masks & (1 << i) else code):
            return None
        flat = flat and (same_dense(&a.m, ms[i + 1]) or (ms[i + 1].ndim == 0 and ms[i + 1].flags & FLAT))
    f = dispatch.kernel(kid, code)
    if f == NULL:
        return None
    if flat:
        y = empty_rowmajor(&a.m, code)
        ms[0] = &y.m
        run_flat(f, ms, nin + 1, attr)
        return y
    nd = broadcast_shapes(ms + 1, nin, sizes)
    y = tensor_new()
    meta_joint(&y.m, ms + 1, nin, nd, sizes, code)
    adopt(y, meta_storage(&y.m))
    run_iter(kid, code, &y.m, ms, nin, nd, sizes, attr)
    return y
