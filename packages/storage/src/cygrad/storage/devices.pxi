# devices: memory beside the CPU's, and the names of where tensors lie. May use: types. The GIL is held.
# What knows devices (cygrad.storage.cuda) enters its allocator here when it is loaded; until then there are none.

cdef DeviceAlloc device_alloc = NULL
cdef DeviceFree device_free = NULL
cdef DeviceMove device_move = NULL
cdef list known_devices = [CPU]       # by Meta.device

cdef extern from *:
    """
    #if defined(_MSC_VER)
    static __declspec(thread) int cyg_default_place = 0;
    #else
    static __thread int cyg_default_place = 0;
    #endif
    """
    int cyg_default_place             # where new tensors of this thread lie that say nothing else

cdef enum:
    CHOSEN_PLACE = -1                 # the CUDA device that the thread has chosen, whichever that is then


cdef int enter_memory(DeviceAlloc alloc, DeviceFree release, DeviceMove move) except -1:
    global device_alloc, device_free, device_move
    device_alloc, device_free, device_move = alloc, release, move
    return 0


cdef Storage storage_on(int device, int64_t nbytes):
    cdef Storage s = storage_new(0)
    s.device = device
    if nbytes > 0:
        take_block(s, nbytes)
    return s


cdef Storage moved_storage(Storage s, int device):
    """The same bytes in the memory of another device."""
    cdef Storage y = storage_on(device, s.nbytes)
    move_bytes(y, s)
    return y


cdef int move_bytes(Storage y, Storage s) except -1:
    """Overwrite the bytes of y with those of s, which has as many."""
    if s.nbytes and (y.device or s.device):
        device_move(y.device, y.ptr, s.device, s.ptr, s.nbytes)
    elif s.nbytes:
        memmove(y.ptr, s.ptr, s.nbytes)
    return 0


cdef int check_host(Storage s) except -1:
    if s.device:
        raise RuntimeError(f"the bytes of a storage on {device_object(s.device)} cannot be reached from the CPU: use .cpu() first")
    return 0


cdef object device_object(int code):
    while len(known_devices) <= code:
        known_devices.append(device("cuda", len(known_devices) - 1))
    return known_devices[code]


cdef int device_code(object o) except -1:
    cdef device d
    if o is None:
        return cyg_default_place if cyg_default_place != CHOSEN_PLACE else code_of_device(device("cuda"))
    if o is CPU:
        return 0
    if isinstance(o, int) and not isinstance(o, bool):
        d = device("cuda", o)
    else:
        d = o if isinstance(o, device) else device(o)
    return 0 if d.type == "cpu" else code_of_device(d)


cdef int code_of_device(device d) except -1:
    from cygrad.storage import cuda
    return cuda.code_of(d)


cdef int check_accelerator() except -1:
    from cygrad.storage import cuda
    reason = cuda.why_not()
    if reason is not None:
        raise RuntimeError(f"Cannot access accelerator device when none is available: {reason}")
    return 0


def get_default_device():
    """Where new tensors of this thread lie that say nothing else."""
    return device_object(device_code(None))


def set_default_device(where):
    """Choose where new tensors of this thread lie that say nothing else; None is the CPU. Returns what it was.

    CUDA without an index is the device that the thread has chosen when a tensor is made.

    Raises
    ------
    RuntimeError
        There is no such device.
    """
    global cyg_default_place
    cdef int before = cyg_default_place, place = 0 if where is None else device_code(where)
    if place and isinstance(where, (str, device)) and device(where).index is None:
        place = CHOSEN_PLACE
    cyg_default_place = place
    return device("cuda") if before == CHOSEN_PLACE else device_object(before)
