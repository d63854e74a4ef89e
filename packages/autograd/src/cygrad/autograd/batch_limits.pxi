# batch_limits: what may be written and read of tensors of vmap, and what new ones have room for. May use: batch.


cdef bint made_in(Tensor x, Level level):
    """Whether the memory of x, an example in a level, was made inside of it: else x is a view of a tensor outside."""
    return x.base is None or (x.base.flags & BATCHED and level in batch_of(x.base).levels)


cdef int check_shown_once(Tensor x) except -1:
    """A tensor that has a memory outside of a vmap which all examples show, an expanded one, cannot be written there."""
    cdef Batch own = batch_of(x)
    cdef int i
    for i in range(own.n):
        if own.steps[i] == 0 and (<Level>own.levels[i]).size > 1 and not made_in(x, <Level>own.levels[i]):
            refuse_shared(x, f"the same for all {(<Level>own.levels[i]).size} examples of a vmap")
    return 0


cdef Batch room_like(Tensor x):
    """The levels of a new tensor like the batched x. It has room for each example, but is alike where x is alike because a transform
    runs in the level: buffers go together there, whether they are made from an input or from nothing."""
    cdef Batch own = batch_of(x), b = batch_with(own.levels)
    cdef int i
    for i in range(b.n):
        if own.steps[i] == 0 and (<Level>own.levels[i]).differentiated and made_in(x, <Level>own.levels[i]):
            b.thin |= 1u << i
    return b


cdef Tensor shown_in_all(Tensor y):
    """y, a new tensor, as an example of every vmap that runs: what a function inside of a transform makes may be written there, and
    its gradient is one for each example, as that of the transform's inputs is."""
    cdef Level level = current_level()
    cdef list running = []
    cdef Batch b
    cdef int i
    while level is not None:
        running.insert(0, level)
        level = level.outer
    b = batch_with(tuple(running))
    for i in range(b.n):
        b.steps[i] = 0
    set_batch(y, b)
    return y


cdef int refuse_reading(Tensor x, str what) except -1:
    """Raises for what wants the numbers of a batched tensor in Python, unless they are the same in all examples."""
    check_values(batch_of(x))
    if all_alike(x):
        return 0
    raise RuntimeError(f"vmap: {what} wants one value, but this tensor (one example: shape {list(shape_tuple(&x.m))}, "
                       f"{dtype_object(x.m.dtype)}) stands for {examples(batch_of(x))} examples with values of their own. Inside vmap, "
                       "control flow cannot depend on a tensor's values; write it with tensor operations such as where()")


cdef int refuse_dynamic(Tensor x, str name) except -1:
    raise RuntimeError(f"vmap: {name} cannot be batched, because the shape of its result depends on the values and would differ from "
                       f"one of the {examples(batch_of(x))} examples to the next (dynamic shape)")


cdef int check_levels(Tensor x, object operands, str name) except -1:
    """Whether x, to be written in place, has room for a value of each example."""
    cdef Batch over = joint_of(operands), own = batch_of(x) if x.flags & BATCHED else None
    cdef int i
    if over is None:
        return 0
    for i in range(over.n):
        level = over.levels[i]
        if own is None or level not in own.levels or (own.steps[own.levels.index(level)] == 0 and size_in(over, i) > 1):
            raise RuntimeError(f"vmap: {name} would write a value for each of {(<Level>level).size} examples into a tensor of shape "
                               f"{list(shape_tuple(&x.m))} that is the same for all of them. Use the out-of-place form, or make the "
                               "tensor from a batched one, for example with zeros_like() or new_zeros()")
    return 0
