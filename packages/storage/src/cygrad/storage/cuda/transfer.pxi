# transfer: copies between the CPU and devices, and numbers out of device memory. May use: runtime, the kernels' copy_on_device.

@cython.final
@cython.no_gc
cdef class Held:
    # a block for one copy, with its Meta; freed with the object
    cdef Meta m
    cdef Storage memory

    def __dealloc__(self):
        meta_clear(&self.m)


cdef Held block_like(Meta* x, int code, int device):
    """Memory on a device in the layout of a dense x, else row-major."""
    cdef Held h = Held.__new__(Held)
    if x.flags & DENSE:
        meta_dense_like(&h.m, x, code)
    else:
        meta_contig(&h.m, x.ndim, x.sizes, code)
    meta_place(&h.m, device)
    h.memory = meta_storage(&h.m)
    return h


cdef bint alike(const Meta* a, const Meta* b) noexcept:
    """Whether two dense blocks hold the same elements at the same places."""
    cdef int d
    if a.dtype != b.dtype or not a.flags & b.flags & DENSE or not meta_same_shape(a, b):
        return False
    for d in range(a.ndim):
        if a.strides[d] != b.strides[d] and a.sizes[d] > 1:
            return False
    return True


cdef int move_block(Meta* to, Meta* source, int direction) except -1:
    """The bytes of one dense block to another; the device's work of its stream goes first. Where copies may go on, those of
    page-locked memory of ours do: it is kept until they are done."""
    cdef int device = to.device if to.device else source.device, code
    cdef int source_device = source.device if source.device else to.device
    cdef int64_t nbytes = source.numel * ITEMSIZE[source.dtype]
    cdef void* stream
    cdef list pinned = None
    cdef bint wait
    if direction != CYG_ON_DEVICES and ops.copies_go_on():
        pinned = pinned_around(source.data if direction == CYG_TO_DEVICE else to.data)
    wait = pinned is None
    enter(device, &stream)
    with nogil:
        code = cyg_rt_copy(to.data, source.data, nbytes, direction, device - 1, source_device - 1, stream)
        if code == 0 and wait:
            code = cyg_rt_stream_synchronize(device - 1, stream)
    check(code, "copying between devices")
    return 0 if wait else mark_pinned(pinned, device - 1, stream)


cdef int send_small(Meta* to, Meta* source) except -1:
    """The bytes of a dense block of the CPU to a device, without waiting for it, by page-locked memory. For values that an operation
    made: whoever copies a tensor relies on its being there when the copy returns, on whatever stream."""
    cdef int64_t nbytes = source.numel * ITEMSIZE[source.dtype]
    cdef Storage stage
    cdef void* stream
    if nbytes > SIZE_OF_STEPS:
        return move_block_now(to, source, CYG_TO_DEVICE)
    stage = pinned_storage(nbytes)
    memcpy(stage.ptr, source.data, nbytes)
    enter(to.device, &stream)
    check(cyg_rt_copy(to.data, stage.ptr, nbytes, CYG_TO_DEVICE, to.device - 1, to.device - 1, stream), "copying to a device")
    return mark_pinned(pinned_around(stage.ptr), to.device - 1, stream)


cdef int move_memory(int to_device, void* to, int device, const void* source, int64_t nbytes) except -1:
    """Bytes between two places, of which one at least is on a device."""
    cdef int place = to_device if to_device else device, other = device if device else to_device, code
    cdef int direction = CYG_TO_HOST if to_device == 0 else CYG_TO_DEVICE if device == 0 else CYG_ON_DEVICES
    cdef void* stream
    if other != place:                     # what the other device still has to do
        enter(other, &stream)
        with nogil:
            code = cyg_rt_stream_synchronize(other - 1, stream)
        check(code, "copying between devices")
    enter(place, &stream)
    with nogil:
        code = cyg_rt_copy(to, source, nbytes, direction, place - 1, other - 1, stream)
        if code == 0:
            code = cyg_rt_stream_synchronize(place - 1, stream)
    return check(code, "copying between devices")


cdef int to_device(Meta* dst, Meta* src) except -1:
    cdef Held near, far
    if alike(dst, src):
        return move_block(dst, src, CYG_TO_DEVICE)
    near = block_like(dst, dst.dtype, 0)
    ops.copy_into(&near.m, src)
    if alike(dst, &near.m):
        return move_block_now(dst, &near.m, CYG_TO_DEVICE)
    far = block_like(dst, dst.dtype, dst.device)
    move_block_now(&far.m, &near.m, CYG_TO_DEVICE)
    return copy_on_device(dst, &far.m)


cdef int move_block_now(Meta* to, Meta* source, int direction) except -1:
    """The same, done when it returns: one of the blocks is gone soon."""
    cdef bint before = ops.let_copies_go_on(False)
    try:
        return move_block(to, source, direction)
    finally:
        ops.let_copies_go_on(before)


cdef int to_host(Meta* dst, Meta* src) except -1:
    cdef Held near, far = None
    cdef Meta* source = src
    if alike(dst, src):
        return move_block(dst, src, CYG_TO_HOST)
    if not src.flags & DENSE:
        far = block_like(src, src.dtype, src.device)
        copy_on_device(&far.m, src)
        source = &far.m
    near = block_like(source, source.dtype, 0)
    move_block_now(&near.m, source, CYG_TO_HOST)
    return ops.copy_into(dst, &near.m)


cdef int between_devices(Meta* dst, Meta* src) except -1:
    cdef Held here = None, there
    cdef Meta* source = src
    cdef void* stream
    cdef int code, device = src.device - 1
    if not src.flags & DENSE:
        here = block_like(src, src.dtype, src.device)
        copy_on_device(&here.m, src)
        source = &here.m
    enter(src.device, &stream)
    with nogil:
        code = cyg_rt_stream_synchronize(device, stream)
    check(code, "copying between devices")
    if alike(dst, source):
        return move_block(dst, source, CYG_ON_DEVICES)
    there = block_like(source, source.dtype, dst.device)
    move_block_now(&there.m, source, CYG_ON_DEVICES)
    return copy_on_device(dst, &there.m)


cdef int copy_into(Meta* dst, Meta* src) except -1:
    cdef Held shown
    check_writable("copy_", dst)
    if dst.device == src.device:
        return copy_on_device(dst, src)
    shown = Held.__new__(Held)
    view_expand(&shown.m, src, dst.ndim, dst.sizes)      # whether the shapes go together, before anything is moved
    if dst.numel == 0:
        return 0
    if src.device == 0:
        return to_device(dst, src)
    return to_host(dst, src) if dst.device == 0 else between_devices(dst, src)


cdef Held on_host(Meta* x):
    """A copy on the CPU."""
    cdef Held near = block_like(x, x.dtype, 0)
    if x.numel:
        to_host(&near.m, x)
    return near


cdef object item(Meta* x):
    return ops.item(&on_host(x).m)


cdef object to_list(Meta* x):
    return ops.to_list(&on_host(x).m)
