# pinned: page-locked memory of the CPU, from which and to which devices copy on their own. May use: runtime. The GIL is held.
# Locking pages and unlocking them waits for devices, so blocks are kept for reuse, in sizes of which there are few. A block that a
# copy still reads or writes when nobody holds it any more rests until the events behind its copies have passed.

cdef enum:
    SIZE_OF_STEPS = 1 << 20
    IDLE_AT_MOST = 1 << 30         # bytes kept for reuse when another block has to be locked: with more, all are unlocked first

cdef list pinned_places = []       # addresses of the blocks that somebody holds, in order
cdef dict pinned_held = {}         # address -> [bytes, {(device, stream): Event behind the last copy there}]
cdef list pinned_resting = []      # (address, bytes, events)
cdef dict pinned_idle = {}         # bytes -> addresses


@cython.final
@cython.no_gc
cdef class Pinned:
    """Who holds a block of page-locked memory."""
    cdef char* ptr

    def __dealloc__(self):
        if self.ptr != NULL and not in_child and pinned_held is not None:
            let_rest(<size_t>self.ptr)


cdef int let_rest(size_t address) except -1:
    nbytes, events = pinned_held.pop(address)
    del pinned_places[bisect_left(pinned_places, address)]
    if events:
        pinned_resting.append((address, nbytes, list(events.values())))
    else:
        pinned_idle.setdefault(nbytes, []).append(address)
    return 0


cdef int wake_rested() except -1:
    """Blocks whose copies are done can be used again."""
    cdef list ready = [], waiting = []
    for block in pinned_resting:
        (ready if all([(<Event>e).query() for e in block[2]]) else waiting).append(block)
    pinned_resting[:] = waiting            # no event was refused: until here every block is still where it was
    for address, nbytes, _ in ready:
        pinned_idle.setdefault(nbytes, []).append(address)
    return 0


cdef int unpin_idle() except -1:
    cdef int code, failed = 0
    cdef size_t address
    wake_rested()
    for places in pinned_idle.values():
        while places:
            address = places.pop()
            code = cyg_rt_unpin(<void*>address)
            failed = failed if failed else code
    return check(failed, "unpinning memory")


cdef int64_t pinned_size(int64_t nbytes) noexcept:
    """Bytes of the block for so many: a power of two up to SIZE_OF_STEPS, then eight sizes between one such power and the next."""
    cdef int64_t size = 512
    while size < nbytes and size < (<int64_t>1 << 62):
        size *= 2
    if nbytes > size:
        return nbytes
    return size if size <= SIZE_OF_STEPS else (nbytes + size // 16 - 1) // (size // 16) * (size // 16)


cdef int64_t idle_bytes() except -1:
    cdef int64_t total = 0
    for nbytes, places in pinned_idle.items():
        total += <int64_t>nbytes * len(places)
    return total


def pinned_storage(int64_t nbytes):
    """A Storage in page-locked memory of the CPU."""
    cdef Pinned block = Pinned.__new__(Pinned)
    cdef void* p = NULL
    cdef int64_t size = pinned_size(nbytes)
    cdef int code = 0
    not_in_child()
    if nbytes <= 0:
        return storage_new(0)
    wake_rested()
    places = pinned_idle.get(size)
    if places:
        p = <void*><size_t>places.pop()
    else:
        if idle_bytes() > IDLE_AT_MOST:
            unpin_idle()
        with nogil:
            code = cyg_rt_pinned(size, &p)
        if code:                           # what is kept for reuse may be what is missing
            unpin_idle()
            code = cyg_rt_pinned(size, &p)
        check(code, f"pinning {nbytes} bytes")
    pinned_held[<size_t>p] = [size, {}]
    insort(pinned_places, <size_t>p)
    block.ptr = <char*>p
    return storage_borrow(block.ptr, nbytes, block, False)


cdef list pinned_around(const void* p):
    """What is known of the block in which an address lies; None where it is in none of ours."""
    cdef Py_ssize_t at = bisect_right(pinned_places, <size_t>p) - 1
    cdef size_t start
    if at < 0:
        return None
    start = pinned_places[at]
    found = pinned_held[start]
    return found if <size_t>p < start + <size_t>found[0] else None


cdef int mark_pinned(list block, int device, void* stream) except -1:
    """A copy of a block was given to a stream: the block is in use until the stream is so far."""
    cdef tuple key
    cdef Event e
    try:
        key = (device, <size_t>stream)
        e = block[1].get(key)
        if e is None:
            e = block[1][key] = Event()
        e.place(device, stream)
    except BaseException:                  # nothing would say when the copy is done, so it has to be done now
        with nogil:
            cyg_rt_stream_synchronize(device, stream)
        raise
    return 0
