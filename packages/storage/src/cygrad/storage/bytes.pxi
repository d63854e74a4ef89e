# bytes: a Storage as a sequence of bytes: index, filling, copies that Python asks for. May use: memory, devices. The GIL is held.

cdef enum:
    FILLED_AT_ONCE = 1 << 20           # bytes that are sent to a device in one piece


cdef int storage_index(Storage s, object index, int64_t* at) except -1:
    """Byte position of a Python index."""
    cdef Py_ssize_t i
    try:
        i = index
    except (OverflowError, IndexError):
        i = s.nbytes
    if i < -s.nbytes or i >= s.nbytes:
        raise IndexError(f"index {index} is out of range for a storage of {s.nbytes} bytes")
    at[0] = i + s.nbytes if i < 0 else i
    return 0


cdef int fill_away(Storage s, int64_t at, int64_t n, uint8_t byte) except -1:
    """Write one number into bytes of a device."""
    cdef Storage some = storage_new(min(n, FILLED_AT_ONCE))
    cdef int64_t step
    memset(some.ptr, byte, some.nbytes)
    while n:
        step = min(n, some.nbytes)
        device_move(s.device, s.ptr + at, 0, some.ptr, step)
        at += step
        n -= step
    return 0


cdef int check_bytes_writable(Storage s) except -1:
    if s.readonly:
        raise RuntimeError("this storage was borrowed from read-only memory and cannot be written")
    return 0


cdef Storage pinned_copy(Storage s):
    """The same bytes in page-locked memory; s itself if it lies there."""
    cdef Storage y
    from cygrad.storage import cuda
    check_accelerator()
    if s.device:
        raise TypeError(f"cannot pin a storage on {device_object(s.device)}: only CPU memory can be pinned")
    if s.is_pinned():
        return s
    y = cuda.extension().pinned_storage(s.nbytes)
    move_bytes(y, s)
    return y


def storage_of_bytes(bytes content not None, device=None):
    """A storage of its own that holds a copy of these bytes: how pickles and deep copies make one."""
    cdef Storage s = storage_new(len(content))
    if content:
        memcpy(s.ptr, <const char*>content, len(content))
    return s if device is None else s.to(device)
