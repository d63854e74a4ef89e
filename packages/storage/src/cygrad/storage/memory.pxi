# Memory: a cache of freed blocks, and Storage. Everything here runs with the GIL held.
# Invariant: a block is returned with the byte count it was asked for, which alone says which list it belongs to.
from libc.stdlib cimport free
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.object cimport PyObject, PyTypeObject

cdef extern from *:
    """
    #include <errno.h>
    #include <stdint.h>
    #include <stdlib.h>
    #include <sys/mman.h>

    #define CYG_HUGE ((size_t)1 << 21)

    /* A mapping of its own for a large block: it goes back to the system whole, and starts on a huge page. */
    static void* cyg_map(size_t n)
    {
        char *p = mmap(NULL, n + CYG_HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        size_t head;
        if (p == MAP_FAILED) return NULL;
        head = (CYG_HUGE - ((uintptr_t)p & (CYG_HUGE - 1))) & (CYG_HUGE - 1);
        if (head) munmap(p, head);
        munmap(p + head + n, CYG_HUGE - head);
        p += head;
    #ifdef MADV_HUGEPAGE
        madvise(p, n, MADV_HUGEPAGE);
    #endif
        return p;
    }

    static void* cyg_aligned(size_t n)
    {
        void *p;
        return posix_memalign(&p, 64, n) ? NULL : p;
    }

    static void cyg_unmap(void *p, size_t n) { munmap(p, n); }

    /* Where a storage without bytes lies: neither read nor written, but C may calculate with it, as not with NULL. */
    static char cyg_nowhere[64] __attribute__((aligned(64)));

    /* floor(log2(n)), n > 0 */
    static int cyg_log2(uint64_t n) { return 63 - __builtin_clzll(n); }

    /* Under AddressSanitizer every block is one of its own, of its exact size: the cache would hide wrong accesses. */
    #ifdef __SANITIZE_ADDRESS__
    #define CYG_NO_CACHE 1
    #else
    #define CYG_NO_CACHE 0
    #endif
    """
    enum: CYG_HUGE
    enum: CYG_NO_CACHE
    void* cyg_map(size_t n) noexcept
    void* cyg_aligned(size_t n) noexcept
    void cyg_unmap(void* p, size_t n) noexcept
    char cyg_nowhere[64]
    int cyg_log2(uint64_t n) noexcept

cdef enum:
    SMALL = 4096           # bytes; up to here a class holds multiples of 64
    N_SMALL = 64
    DEPTH = 64             # freed blocks kept in each small class: 8.3 MB if all are full
    N_LARGE = 408          # 8 classes an octave, from 2**12 to 2**63
    MAX_AGE = 20000        # large allocations after which an unused block is given back

cdef int64_t LARGEST = <int64_t>1 << 62
cdef int64_t CACHE_CAP = <int64_t>256 << 20

cdef struct Free:          # lives inside the freed large block itself
    Free* newer            # all classes, by the time of freeing
    Free* older
    Free* above            # same class, above = freed later
    Free* below
    int64_t size
    int64_t stamp
    int cls

cdef uint8_t small_count[N_SMALL]
cdef void* small_slot[N_SMALL][DEPTH]
cdef Free* large_top[N_LARGE]
cdef Free* newest = NULL
cdef Free* oldest = NULL
cdef int64_t clock_ = 0        # counts large allocations
cdef int64_t held_large = 0    # bytes in the large cache
cdef int64_t live_bytes = 0    # handed out, as asked for
cdef int64_t peak_bytes = 0
cdef int64_t live_storages = 0


cdef inline int large_class(int64_t nbytes, int64_t* size) noexcept:
    """Class of a block above SMALL bytes; its size, at most an eighth more than asked for, goes to `size`."""
    cdef uint64_t last = <uint64_t>nbytes - 1
    cdef int e = cyg_log2(last)
    cdef int64_t eighth = <int64_t>(last >> (e - 3))
    size[0] = (eighth + 1) << (e - 3)
    return (e - 12) * 8 + <int>eighth - 8


cdef void unlink(Free* f) noexcept:
    global newest, oldest, held_large
    if f.newer == NULL:
        newest = f.older
    else:
        f.newer.older = f.older
    if f.older == NULL:
        oldest = f.newer
    else:
        f.older.newer = f.newer
    if f.above == NULL:
        large_top[f.cls] = f.below
    else:
        f.above.below = f.below
    if f.below != NULL:
        f.below.above = f.above
    held_large -= f.size


cdef void give_back(void* p, int64_t size) noexcept:
    if size >= CYG_HUGE:
        cyg_unmap(p, size)
    else:
        free(p)


cdef void evict() noexcept:
    cdef Free* f = oldest
    unlink(f)
    give_back(f, f.size)


cdef void* large_alloc(int64_t nbytes) noexcept:
    global clock_
    cdef int64_t size
    cdef int cls
    cdef void* p
    if nbytes > LARGEST:
        return NULL
    cls = large_class(nbytes, &size)
    clock_ += 1
    while oldest != NULL and clock_ - oldest.stamp > MAX_AGE:
        evict()
    if large_top[cls] != NULL:
        p = large_top[cls]
        unlink(large_top[cls])
        return p
    p = cyg_map(size) if size >= CYG_HUGE else cyg_aligned(size)
    if p == NULL and oldest != NULL:   # what the cache holds may be what is missing
        while oldest != NULL:
            evict()
        p = cyg_map(size) if size >= CYG_HUGE else cyg_aligned(size)
    return p


cdef void large_free(void* p, int64_t nbytes) noexcept:
    global newest, oldest, held_large
    cdef int64_t size
    cdef int cls = large_class(nbytes, &size)
    cdef Free* f = <Free*>p
    if size > CACHE_CAP:
        give_back(p, size)
        return
    while held_large + size > CACHE_CAP:
        evict()
    f.size, f.cls, f.stamp = size, cls, clock_
    f.newer, f.older = NULL, newest
    if newest == NULL:
        oldest = f
    else:
        newest.newer = f
    newest = f
    f.above, f.below = NULL, large_top[cls]
    if f.below != NULL:
        f.below.above = f
    large_top[cls] = f
    held_large += size


cdef void* block_alloc(int64_t nbytes) noexcept:
    global live_bytes, peak_bytes
    cdef int c
    cdef void* p
    if CYG_NO_CACHE:
        p = cyg_aligned(nbytes) if nbytes > 0 else NULL
    elif nbytes <= SMALL:
        if nbytes <= 0:
            return NULL
        c = <int>((nbytes - 1) >> 6)
        if small_count[c]:
            small_count[c] -= 1
            p = small_slot[c][small_count[c]]
        else:
            p = cyg_aligned((c + 1) << 6)
    else:
        p = large_alloc(nbytes)
    if p != NULL:
        live_bytes += nbytes
        if live_bytes > peak_bytes:
            peak_bytes = live_bytes
    return p


cdef void block_free(void* p, int64_t nbytes) noexcept:
    global live_bytes
    cdef int c
    if p == NULL:
        return
    live_bytes -= nbytes
    if CYG_NO_CACHE:
        free(p)
        return
    if nbytes > SMALL:
        large_free(p, nbytes)
        return
    c = <int>((nbytes - 1) >> 6)
    if small_count[c] < DEPTH:
        small_slot[c][small_count[c]] = p
        small_count[c] += 1
    else:
        free(p)


def empty_cache():
    """Give all cached free blocks back to the system. Live tensors keep their memory."""
    cdef int c, i
    for c in range(N_SMALL):
        for i in range(small_count[c]):
            free(small_slot[c][i])
        small_count[c] = 0
    while oldest != NULL:
        evict()


def memory_stats():
    """What the allocator holds.

    Returns
    -------
    dict
        ``live_bytes``: bytes in use, as asked for; ``peak_bytes``: the largest value that it had since the start or
        since `reset_peak`; ``cached_bytes``: bytes of freed blocks kept for reuse; ``live_storages``: number of
        `Storage` objects.
    """
    cdef int c
    cdef int64_t small = 0
    for c in range(N_SMALL):
        small += <int64_t>small_count[c] * (c + 1) * 64
    return {"live_bytes": live_bytes, "peak_bytes": peak_bytes, "cached_bytes": small + held_large,
            "live_storages": live_storages}


def reset_peak():
    """Let ``memory_stats()["peak_bytes"]`` start again from the bytes now in use."""
    global peak_bytes
    peak_bytes = live_bytes


cdef extern from "regions.h":
    int cyg_settle() except -1
    void cyg_forked()


cdef int settle() except -1:
    """Wait until no loop runs without the GIL. What follows must not release it before memory has changed hands."""
    return cyg_settle()


# ---- Storage --------------------------------------------------------------------------------------------------------
cdef enum:                 # Storage.kind
    EMPTY = 0              # nothing to give back, ptr is cyg_nowhere
    BLOCK = 1              # from block_alloc
    BORROWED = 2           # belongs to `owner`
    RESIZED = 3            # from block_alloc, for as many bytes as the int `owner` says
    ELSEWHERE = 4          # from a device's allocator


cdef int out_of_memory(int64_t nbytes) except -1:
    raise RuntimeError(f"can't allocate memory: you tried to allocate {nbytes} bytes; {live_bytes} bytes are in use")


cdef extern from *:
    """
    #if defined(_MSC_VER)
    static __declspec(thread) unsigned char cyg_origin = 0;
    #else
    static __thread unsigned char cyg_origin __attribute__((tls_model("initial-exec"))) = 0;
    #endif
    """
    unsigned char cyg_origin


cdef int storage_origin(int origin) noexcept:
    global cyg_origin
    cdef int before = cyg_origin
    cyg_origin = <unsigned char>origin
    return before


cdef Storage storage_new(int64_t nbytes):
    cdef Storage s = Storage.__new__(Storage)
    s.origin = cyg_origin
    if nbytes > 0:
        take_block(s, nbytes)
    return s


cdef inline int take_block(Storage s, int64_t nbytes) except -1:
    """Memory for a storage that has none."""
    cdef void* p = block_alloc(nbytes) if s.device == 0 else device_alloc(s.device, nbytes)
    if p == NULL:
        out_of_memory(nbytes)
    s.ptr = <char*>p
    s.kind = BLOCK if s.device == 0 else ELSEWHERE
    s.nbytes = nbytes
    return 0


cdef Storage storage_borrow(char* ptr, int64_t nbytes, object owner, bint readonly):
    cdef Storage s = Storage.__new__(Storage)
    s.ptr = ptr if ptr != NULL else cyg_nowhere
    s.origin = cyg_origin
    s.nbytes = nbytes
    s.kind = BORROWED
    s.readonly = readonly
    s.owner = owner
    return s


@cython.final
@cython.no_gc
@cython.freelist(512)
cdef class Storage:
    """One contiguous block of memory, counted in bytes: what PyTorch calls ``UntypedStorage``.

    Tensors hold a reference to it and describe how their elements lie in it. Made by tensors, or here.

    Parameters
    ----------
    content : int, bytes or sequence of int
        The size, of bytes that are not initialised (negative sizes raise RuntimeError); or the bytes.
    """
    def __cinit__(self):
        global live_storages
        live_storages += 1
        self.ptr = cyg_nowhere
        if birth_noters:
            note_birth(self)

    def __init__(self, content=0):
        cdef Py_ssize_t nbytes
        cdef bytes given = None
        if self.kind != EMPTY:
            raise RuntimeError("a storage is initialised once")
        if hasattr(content, "__index__"):
            nbytes = content
        else:
            given = bytes(content)
            nbytes = len(given)
        if nbytes < 0:
            raise RuntimeError(f"a storage of {nbytes} bytes: its size must not be negative")
        if nbytes > 0:
            take_block(self, nbytes)
        if given is not None and nbytes:            # without bytes there is no memory: C wants pointers even so
            memcpy(self.ptr, <const char*>given, nbytes)

    def __dealloc__(self):
        global live_storages
        live_storages -= 1
        if births:
            forget_birth(self)
        if self.kind == BLOCK:
            block_free(self.ptr, self.nbytes)
        elif self.kind == RESIZED:
            block_free(self.ptr, self.owner)
        elif self.kind == ELSEWHERE:
            device_free(self.device, self.ptr)

    def _count_bytes(self):
        """Size in bytes."""
        return self.nbytes

    def data_ptr(self):
        """Address of the first byte; 0 when the storage is empty."""
        return <uint64_t>self.ptr if self.ptr != cyg_nowhere else 0

    def __len__(self):
        return self.nbytes

    def size(self):
        """Size in bytes."""
        return self.nbytes

    def untyped(self):
        """The storage itself."""
        return self

    def element_size(self):
        """1: the elements of an untyped storage are bytes."""
        return 1

    @property
    def device(self):
        """Where the memory lies."""
        return device_object(self.device)

    @staticmethod
    def from_file(filename, shared=False, nbytes=0):
        """A storage whose memory is a file; see `cygrad.storage.interop.storage_from_file`."""
        from cygrad.storage.interop import storage_from_file
        return storage_from_file(filename, shared, nbytes)

    @property
    def filename(self):
        """The file that this memory is, or None."""
        return getattr(self.owner, "filename", None)

    def is_shared(self):
        """Whether the bytes lie where other processes can see what is written: in a mapped file, or shared memory."""
        return getattr(self.owner, "shared", False)

    def share_memory_(self):
        """Moving memory to where other processes share it is a matter of the tensors over it.

        Raises
        ------
        RuntimeError
            Unless the bytes lie there already.
        """
        if self.is_shared():
            return self
        raise RuntimeError("a storage cannot be moved into shared memory by itself: call share_memory_() of a tensor over "
                           "it, which takes all tensors along")

    def clone(self):
        """A storage of its own with the same bytes."""
        cdef Storage s = storage_on(self.device, self.nbytes)
        move_bytes(s, self)
        return s

    def cpu(self):
        """A storage on the CPU with the same bytes: itself if it is there."""
        return self if self.device == 0 else moved_storage(self, 0)

    def cuda(self, device=None):
        """A storage on a CUDA device, by default the current one, with the same bytes: itself if it is there."""
        return self.to("cuda" if device is None else device)

    def to(self, device):
        """A storage on a device with the same bytes: itself if it is there."""
        return self if self.device == device_code(device) else moved_storage(self, device_code(device))

    def is_pinned(self, device=None):
        """Whether the memory is page-locked, so that CUDA devices read it on their own."""
        from cygrad.storage import cuda
        return cuda.why_not() is None and cuda.extension().is_pinned(self)

    def pin_memory(self, device=None):
        """A storage with the same bytes in page-locked memory; itself if it lies there already.

        Raises
        ------
        RuntimeError
            There is no CUDA device.
        TypeError
            The storage is on one.
        """
        return pinned_copy(self)

    def copy_(self, Storage source not None, non_blocking=None):
        """Overwrite all bytes with those of a storage of the same size."""
        if source.nbytes != self.nbytes:
            raise RuntimeError(f"size does not match, self was {self.nbytes} bytes but src was {source.nbytes} bytes")
        if self.readonly:
            check_bytes_writable(self)
        move_bytes(self, source)
        self.version += 1
        self.last_op = 0
        return self

    def fill_(self, value):
        """Overwrite all bytes with one number."""
        self[:] = value
        return self

    def resize_(self, Py_ssize_t nbytes):
        """Change the size in place.

        A storage that shrinks keeps its block, so tensors over it stay valid, and may grow again up to that.

        Raises
        ------
        RuntimeError
            The memory is borrowed; or a storage that has bytes would have to move to grow, from under its tensors.
        """
        cdef int64_t room = self.owner if self.kind == RESIZED else self.nbytes
        if self.kind == BORROWED:
            raise RuntimeError("Trying to resize storage that is not resizable: its memory belongs to another object")
        if nbytes < 0:
            raise RuntimeError(f"a storage of {nbytes} bytes: its size must not be negative")
        if self.kind == EMPTY and nbytes > 0:
            take_block(self, nbytes)
        elif nbytes > room:
            raise RuntimeError(f"a storage of {room} bytes cannot grow to {nbytes}: its bytes would move, and tensors "
                               "may point to them; make a new one and copy_ them")
        elif self.kind == BLOCK:
            self.owner = room
            self.kind = RESIZED
        self.nbytes = nbytes
        return self

    @property
    def _version(self):
        """Number of in-place writes through tensors so far."""
        return self.version

    @property
    def _readonly(self):
        """Whether the memory was borrowed from an object that forbids writing."""
        return self.readonly != 0

    @property
    def _owner(self):
        """The object that the memory belongs to, where it is borrowed; else None."""
        return self.owner if self.kind == BORROWED else None

    def tolist(self):
        """The bytes as a list of int."""
        if self.device:
            return self.cpu().tolist()
        return [<uint8_t>self.ptr[i] for i in range(self.nbytes)]

    def __getitem__(self, index):
        cdef int64_t i
        if isinstance(index, slice):
            start, stop, step = index.indices(self.nbytes)
            if step != 1:
                raise RuntimeError(f"a storage is sliced with step 1, not {step}")
            i = start
            check_host(self)
            return storage_borrow(self.ptr + i, max(stop - start, 0), self, self.readonly)
        storage_index(self, index, &i)
        check_host(self)
        return <uint8_t>self.ptr[i]

    def __setitem__(self, index, value):
        cdef int64_t i, n
        cdef uint8_t byte
        if not isinstance(value, int):
            raise RuntimeError(f"an untyped storage holds bytes: an int is wanted, got {value!r} of type "
                               f"{builtin_type(value).__name__}")
        byte = value & 255
        check_bytes_writable(self)
        if isinstance(index, slice):
            start, stop, step = index.indices(self.nbytes)
            if step != 1:
                raise RuntimeError(f"a storage is sliced with step 1, not {step}")
            i, n = start, max(stop - start, 0)
        else:
            storage_index(self, index, &i)
            n = 1
        if n and self.device:
            fill_away(self, i, n, byte)
        elif n:
            memset(self.ptr + i, byte, n)
        self.version += 1
        self.last_op = 0

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = self.clone()
        return memo[id(self)]

    def __reduce__(self):
        if self.device:
            return storage_of_bytes, (self.cpu().__reduce__()[1][0], str(device_object(self.device)))
        return storage_of_bytes, (PyBytes_FromStringAndSize(self.ptr, self.nbytes),)

    def __repr__(self):
        values = "".join(f" {b}\n" for b in self.tolist())
        return f"{values}[torch.storage.UntypedStorage(device={device_object(self.device)}) of size {self.nbytes}]"


# The C field holds the name `nbytes`, so the method that Python calls by that name is entered by hand.
(<dict>(<PyTypeObject*>Storage).tp_dict)["nbytes"] = (<dict>(<PyTypeObject*>Storage).tp_dict).pop("_count_bytes")
