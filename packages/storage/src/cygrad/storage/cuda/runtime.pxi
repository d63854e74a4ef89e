# runtime: devices, memory, streams and events for Python and for the operations. May use: ops_common.
# A device's number here counts from 0, as CUDA does; Meta.device is one more, for 0 is the CPU.

cdef extern from "runtime.h":
    enum:
        CYG_TO_DEVICE
        CYG_TO_HOST
        CYG_ON_DEVICES
    ctypedef struct cyg_memory:
        int64_t allocated, reserved, active, most_allocated, most_reserved, most_active, segments, retries, failures
    ctypedef struct cyg_properties:
        char name[256]
        int64_t total
        int major, minor, processors, warp
    int cyg_rt_count(int* n) noexcept
    const char* cyg_rt_message(int code) noexcept
    int cyg_rt_properties(int device, cyg_properties* p) noexcept
    int cyg_rt_chosen() noexcept
    void cyg_rt_choose(int device) noexcept
    int cyg_rt_enter(int device, void** stream) noexcept
    int cyg_rt_synchronize(int device) noexcept nogil
    int cyg_rt_alloc(int device, int64_t nbytes, void** p) noexcept nogil
    void cyg_rt_free(int device, void* p) noexcept
    int cyg_rt_used_on(int device, void* p, void* stream) noexcept
    int cyg_rt_empty_cache() noexcept nogil
    void cyg_rt_memory(int device, cyg_memory* m) noexcept
    void cyg_rt_reset_peak(int device) noexcept
    int cyg_rt_free_bytes(int device, int64_t* free_bytes, int64_t* total) noexcept
    void cyg_rt_limit(int device, int64_t nbytes) noexcept
    int cyg_rt_pinned(int64_t nbytes, void** p) noexcept nogil
    int cyg_rt_unpin(void* p) noexcept nogil
    int cyg_rt_is_pinned(const void* p) noexcept
    int cyg_rt_copy(void* to, const void* f, int64_t nbytes, int direction, int device, int from_device, void* stream) noexcept nogil
    int cyg_rt_stream_new(int device, int priority, void** stream) noexcept
    int cyg_rt_stream_wait(int device, void* stream, void* event) noexcept
    int cyg_rt_stream_query(int device, void* stream, int* done) noexcept
    int cyg_rt_stream_synchronize(int device, void* stream) noexcept nogil
    void cyg_rt_stream_choose(int device, void* stream) noexcept
    void* cyg_rt_stream_chosen(int device) noexcept
    int cyg_rt_event_new(int device, int timed, void** event) noexcept
    int cyg_rt_event_end(void* event) noexcept
    int cyg_rt_event_record(int device, void* event, void* stream) noexcept
    int cyg_rt_event_query(void* event, int* done) noexcept
    int cyg_rt_event_synchronize(void* event) noexcept nogil
    int cyg_rt_event_elapsed(void* begin, void* end, float* milliseconds) noexcept

OUT_OF_MEMORY = 2          # cudaErrorMemoryAllocation
FORKED = ("Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start "
          "method")

cdef bint in_use = False           # CUDA was asked for devices, and found some
cdef bint in_child = False         # of a process in which it was: CUDA does not work here, and nothing of it may be called


def note_fork():
    """Called in a child after os.fork."""
    global in_child
    in_child = in_child or in_use


os.register_at_fork(after_in_child=note_fork)


class OutOfMemoryError(RuntimeError):
    """A device has not enough memory for what is asked, even without what is kept for reuse."""
    __module__ = "cygrad.cuda"


class AcceleratorError(RuntimeError):
    """CUDA reports an error, perhaps of a kernel that was started earlier."""
    __module__ = "cygrad.cuda"


cdef int not_in_child() except -1:
    if in_child:
        raise RuntimeError(FORKED)
    return 0


cdef int check(int code, str what) except -1:
    if code:
        raise AcceleratorError(f"CUDA error: {cyg_rt_message(code).decode()} ({what})")
    return 0


cdef int enter(int device, void** stream) except -1:
    """Make the device of a Meta current for CUDA; its work goes to `stream`."""
    not_in_child()
    if device < 1:
        raise RuntimeError("an operation of a device was given memory of the CPU: move it with to(device) first")
    return check(cyg_rt_enter(device - 1, stream), "choosing a device")


cdef str size_text(int64_t nbytes):
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} bytes"


cdef dict limits = {}              # device -> bytes that may be reserved of it


cdef int out_of_memory(int device, int64_t nbytes) except -1:
    cdef cyg_memory m
    cdef int64_t have = 0, total = 0
    cyg_rt_memory(device, &m)
    cyg_rt_free_bytes(device, &have, &total)
    allowed = f"; {size_text(limits[device])} allowed" if device in limits else ""
    raise OutOfMemoryError(
        f"CUDA out of memory. Tried to allocate {size_text(nbytes)}. GPU {device} has a total capacity of {size_text(total)} of which "
        f"{size_text(have)} is free{allowed}. Of the memory reserved by this process, {size_text(m.allocated)} is allocated, and "
        f"{size_text(m.reserved - m.allocated)} is cached")


cdef void* take_memory(int device, int64_t nbytes) except NULL:
    cdef void* p = NULL
    cdef int code
    not_in_child()
    with nogil:
        code = cyg_rt_alloc(device - 1, nbytes, &p)
    if code == OUT_OF_MEMORY:
        out_of_memory(device - 1, nbytes)
    check(code, f"allocating {nbytes} bytes")
    return p


cdef void give_memory(int device, void* p) noexcept:
    if not in_child:
        cyg_rt_free(device - 1, p)


cdef Storage scratch(int device, int64_t nbytes):
    """Memory of a Meta's device for one operation; it goes back in the order of the stream."""
    return storage_on(device, nbytes)


# ---- devices

def count():
    """Number of devices; RuntimeError that says why CUDA cannot be used."""
    global in_use
    cdef int n = 0, code
    not_in_child()
    code = cyg_rt_count(&n)
    if code:
        raise RuntimeError(f"CUDA cannot be used: {cyg_rt_message(code).decode()}")
    in_use = in_use or n > 0
    return n


def chosen():
    """The device that this thread chose."""
    return cyg_rt_chosen()


def choose(int device):
    """Choose one for this thread; the caller has checked that it exists."""
    cyg_rt_choose(device)


def properties(int device):
    """(name, bytes of memory, major, minor version of its abilities, multiprocessors, threads that run in step)"""
    cdef cyg_properties p
    check(cyg_rt_properties(device, &p), "asking for a device's properties")
    return p.name.decode(), p.total, p.major, p.minor, p.processors, p.warp


def synchronize(int device):
    """Wait until all work of a device is done."""
    cdef int code
    with nogil:
        code = cyg_rt_synchronize(device)
    check(code, "synchronize()")


# ---- memory

def empty_cache():
    """Give all memory that is kept for reuse back to the devices, and page-locked memory to the system."""
    cdef int code
    with nogil:
        code = cyg_rt_empty_cache()
    check(code, "empty_cache()")
    unpin_idle()


def memory(int device):
    """Bytes and numbers of one device, by name."""
    cdef cyg_memory m
    cyg_rt_memory(device, &m)
    return {"allocated": m.allocated, "reserved": m.reserved, "active": m.active,
            "max_allocated": m.most_allocated, "max_reserved": m.most_reserved, "max_active": m.most_active,
            "segments": m.segments, "retries": m.retries, "ooms": m.failures}


def reset_peak(int device):
    """Let the largest values begin again from what is in use now."""
    cyg_rt_reset_peak(device)


def free_bytes(int device):
    """(free, all) bytes of a device."""
    cdef int64_t have = 0, total = 0
    check(cyg_rt_free_bytes(device, &have, &total), "mem_get_info()")
    return have, total


def limit(int device, int64_t nbytes):
    """Reserve no more than so many bytes of a device; negative: no limit."""
    limits.pop(device, None)
    if nbytes >= 0:
        limits[device] = nbytes
    cyg_rt_limit(device, nbytes)


include "pinned.pxi"         # page-locked memory of the CPU


def pinned_memory():
    """Blocks of page-locked memory in use and their bytes, and the same of those that are kept for reuse."""
    cdef int64_t held = 0
    wake_rested()
    for block in pinned_held.values():
        held += <int64_t>block[0]
    for _, nbytes, _ in pinned_resting:
        held += <int64_t>nbytes
    idle = sum([len(places) for places in pinned_idle.values()])
    return len(pinned_held) + len(pinned_resting), held, idle, idle_bytes()


def empty_pinned():
    """Give page-locked memory that is kept for reuse back to the system."""
    unpin_idle()


def is_pinned(Storage s not None):
    """Whether a storage's memory is page-locked."""
    if s.device != 0 or s.nbytes <= 0:
        return False
    if pinned_around(s.ptr) is not None:
        return True
    # Another library may have locked it. CUDA is only asked where it is in use, since being asked takes a device's memory.
    return in_use and not in_child and cyg_rt_is_pinned(s.ptr) != 0


def record_stream(Storage s not None, Stream stream not None):
    """Say that a stream uses memory that was allocated for another one: it is not reused before the stream is done."""
    not_in_child()
    if s.device == 0:
        raise RuntimeError("record_stream(): the tensor is on the CPU")
    if stream.device_index != s.device - 1:
        raise RuntimeError(f"record_stream(): the tensor is on cuda:{s.device - 1}, the stream is one of cuda:{stream.device_index}")
    if s.owner is not None:                # memory of another library
        s.owner.note(stream.cuda_stream)
    check(cyg_rt_used_on(s.device - 1, s.ptr, stream.handle), "record_stream()")


# ---- streams: they come from a pool and return to it, since the allocator knows them by address

cdef dict idle_streams = {}        # (device, priority) -> addresses
cdef dict priorities = {}          # (device, address) -> priority of a stream that was made here


cdef class Stream:
    """Work of a device that is done in order, beside that of other streams.

    Parameters
    ----------
    device : int
        Counted from 0.
    priority : int
        Smaller numbers go first.
    address : int, optional
        Of a stream that is there already and belongs to others; 0 is the default one.
    """
    cdef void* handle
    cdef readonly int device_index, priority
    cdef bint owned

    def __cinit__(self, int device, int priority=0, address=None):
        cdef list idle = idle_streams.setdefault((device, priority), [])
        not_in_child()
        self.device_index = device
        self.priority = priority
        self.owned = address is None
        if address is not None:
            self.handle = <void*><size_t>address
            self.priority = priorities.get((device, address), priority)
        elif idle:
            self.handle = <void*><size_t>idle.pop()
        else:
            check(cyg_rt_stream_new(device, priority, &self.handle), "making a stream")
            priorities[device, <size_t>self.handle] = priority

    def __dealloc__(self):
        if self.owned and self.handle != NULL and idle_streams is not None:
            idle_streams[self.device_index, self.priority].append(<size_t>self.handle)

    @property
    def cuda_stream(self):
        """Its address, for other libraries."""
        return <size_t>self.handle

    def query(self):
        """Whether all of its work is done."""
        cdef int done = 0
        not_in_child()
        check(cyg_rt_stream_query(self.device_index, self.handle, &done), "Stream.query()")
        return done != 0

    def synchronize(self):
        """Wait for all of its work."""
        cdef int code
        not_in_child()
        with nogil:
            code = cyg_rt_stream_synchronize(self.device_index, self.handle)
        check(code, "Stream.synchronize()")

    def wait_event(self, Event event not None):
        """Let what it is given from now on wait for an event."""
        not_in_child()
        if event.handle != NULL:
            check(cyg_rt_stream_wait(self.device_index, self.handle, event.handle), "Stream.wait_event()")

    def __eq__(self, other):
        return (isinstance(other, Stream) and self.handle == (<Stream>other).handle
                and self.device_index == (<Stream>other).device_index)

    def __hash__(self):
        return hash((<size_t>self.handle, self.device_index))

    def __repr__(self):
        return f"<torch.cuda.Stream device=cuda:{self.device_index} cuda_stream={<size_t>self.handle:#x}>"


def stream_address(int device):
    """Of the stream to which this thread's work on a device goes."""
    return <size_t>cyg_rt_stream_chosen(device)


def wait_for(int device, addresses):
    """Wait for streams, by address, and for the one to which this thread's work goes; None: for all work of the device.

    In a forked child there is no work.
    """
    cdef int code
    cdef size_t address
    if in_child:
        return
    if addresses is None:
        return synchronize(device)
    for address in {*addresses, stream_address(device)}:
        with nogil:
            code = cyg_rt_stream_synchronize(device, <void*>address)
        check(code, "waiting for a stream")


def choose_stream(Stream stream not None):
    """Let this thread's work on the stream's device go there; it has to live as long."""
    cyg_rt_stream_choose(stream.device_index, stream.handle)


cdef class Event:
    """A place in the work of a stream.

    Parameters
    ----------
    enable_timing : bool
        Whether `elapsed_time` may be asked for.
    """
    cdef void* handle                  # NULL until it is recorded: its device is that of the stream then
    cdef readonly int device_index
    cdef readonly bint timed

    def __cinit__(self, enable_timing=False, blocking=False, interprocess=False):
        if interprocess:
            raise NotImplementedError("Event(interprocess=True): events of several processes are not supported")
        self.timed = bool(enable_timing)
        self.device_index = -1

    def __dealloc__(self):
        if self.handle != NULL and not in_child:
            cyg_rt_event_end(self.handle)

    @property
    def cuda_event(self):
        """Its address, for other libraries; 0 before it is recorded."""
        return <size_t>self.handle

    cdef int place(self, int device, void* stream) except -1:
        not_in_child()
        if self.handle == NULL:
            check(cyg_rt_event_new(device, self.timed, &self.handle), "making an event")
            self.device_index = device
        elif self.device_index != device:
            raise RuntimeError(f"Event device {self.device_index} does not match recording stream's device {device}.")
        return check(cyg_rt_event_record(device, self.handle, stream), "Event.record()")

    def record_on(self, Stream stream not None):
        """Put it behind all that the stream was given so far."""
        self.place(stream.device_index, stream.handle)

    def query(self):
        """Whether the work before it is done."""
        cdef int done = 1
        not_in_child()
        if self.handle != NULL:
            check(cyg_rt_event_query(self.handle, &done), "Event.query()")
        return done != 0

    def synchronize(self):
        """Wait for the work before it."""
        cdef int code
        not_in_child()
        if self.handle != NULL:
            with nogil:
                code = cyg_rt_event_synchronize(self.handle)
            check(code, "Event.synchronize()")

    def elapsed_time(self, Event end_event not None):
        """Milliseconds from this event to another."""
        cdef float ms = 0
        not_in_child()
        if not self.timed or not end_event.timed:
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self.handle == NULL or end_event.handle == NULL:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        check(cyg_rt_event_elapsed(self.handle, end_event.handle, &ms), "Event.elapsed_time()")
        return ms


# ---- random numbers: a generator of a device is a seed, and how many numbers were taken

cdef list generators = []
cdef object first_seed = None      # of those that are not there yet; without it, the one of the CPU's generator


cdef Generator generator_on(int device):
    """The default generator of a Meta's device."""
    while len(generators) < device:
        from cygrad.storage import cuda
        generators.append(cuda.make_generator(len(generators) + 1))
        (<Generator>generators[len(generators) - 1]).manual_seed(
            default_generator().initial_seed() if first_seed is None else first_seed)
    return <Generator>generators[device - 1]


def default_generator_of(int device):
    """The default generator of a device, counted from 0."""
    return generator_on(device + 1)


def seed_all(seed):
    """Start the generators of all devices anew."""
    global first_seed
    Generator(1).manual_seed(seed)             # refuses what is no seed before anything has changed
    first_seed = seed
    for g in generators:
        g.manual_seed(seed)


cdef int philox(Generator gen, int device, uint64_t count, uint64_t* seed, uint64_t* offset) except -1:
    """Where to begin with `count` numbers, which are taken with this."""
    if gen is None or gen is default_generator():
        gen = generator_on(device)
    if gen.device_code != device:
        raise RuntimeError(f"Expected a 'cuda' device type for generator but found '{device_object(gen.device_code)}', beside a tensor on "
                           f"{device_object(device)}")
    seed[0] = gen.key
    offset[0] = gen.taken
    gen.taken += (count + 3) // 4 * 4
    return 0
