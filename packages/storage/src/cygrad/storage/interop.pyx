# Memory shared with other libraries, in both directions, without copying.
from cpython.buffer cimport (
    Py_buffer, PyBUF_FORMAT, PyBUF_F_CONTIGUOUS, PyBUF_FULL_RO, PyBUF_ND, PyBUF_STRIDES, PyBUF_WRITABLE,
    PyBuffer_FillInfo, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer)
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int64_t
from libc.string cimport memset
from cygrad.storage.core cimport (
    BOOL, UINT8, INT8, INT16, INT32, INT64, UINT16, UINT32, UINT64, FLOAT16, FLOAT32, FLOAT64, COMPLEX64, COMPLEX128,
    CONTIGUOUS, ITEMSIZE, MAXDIM, Meta, Storage, block_alloc, block_free, device_code, device_object, dtype_code, dtype_object, meta_clear,
    meta_strided, shape_tuple, storage_borrow, storage_new, stride_tuple, view_as_strided)
from cygrad.storage.core import device, dtypes

include "abi.pxi"

check_storage_abi("cygrad.storage.interop")

cdef extern from *:
    """
    /* Format letters of the struct module by dtype code; bfloat16 has none. "l" is NumPy's name of its int64. */
    static const char* const CYG_FORMAT[16] = {
        "?", "B", "b", "h", "i", sizeof(long) == 8 ? "l" : "q", "e", NULL, "f", "d", "Zf", "Zd", "H", "I",
        sizeof(long) == 8 ? "L" : "Q", NULL};
    #define CYG_BIG_ENDIAN (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
    """
    const char* CYG_FORMAT[16]
    bint CYG_BIG_ENDIAN

cdef dict ACCEPTED = {d.code: d for d in dtypes.values()}


cdef str name_of(object obj):
    """How messages call what was given: ndarrays by their element type."""
    kind = getattr(obj, "dtype", None)
    if kind is None:
        return type(obj).__name__
    scalar = getattr(getattr(kind, "type", None), "__name__", str(kind)).rstrip("_")
    return f"{type(obj).__name__} of type {kind}" + ("" if scalar == str(kind) else f" ({scalar})")


cdef int bad_type(object obj, str reason) except -1:
    names = ", ".join(ACCEPTED[c].name for c in sorted(ACCEPTED))
    raise TypeError(f"can't share memory with {name_of(obj)}: {reason}; the supported element types are: {names}")


cdef int code_of_format(object obj, const Py_buffer* view) except -1:
    """The dtype code that a buffer's format string stands for."""
    cdef str text = "B" if view.format == NULL else view.format.decode()
    cdef str order = text[0] if text[0] in "@=<>!" else "@"
    cdef str kind = text[1:] if text[0] in "@=<>!" else text
    cdef bint big = order in ">!"
    cdef int code
    if order not in "@=" and big != CYG_BIG_ENDIAN and view.itemsize > 1:
        raise ValueError(f"{name_of(obj)} has a byte order different from this machine's; convert it first, in NumPy "
                         f"with .astype(a.dtype.newbyteorder('='))")
    if len(kind) == 1 and kind in "bhilqn":
        code = {1: INT8, 2: INT16, 4: INT32, 8: INT64}[view.itemsize]
    elif len(kind) == 1 and kind in "BHILQN":
        code = {1: UINT8, 2: UINT16, 4: UINT32, 8: UINT64}[view.itemsize]
    else:
        code = {"?": BOOL, "e": FLOAT16, "f": FLOAT32, "d": FLOAT64, "Zf": COMPLEX64, "Zd": COMPLEX128}.get(kind, -1)
    if code not in ACCEPTED:
        bad_type(obj, f"its elements have the buffer format {text!r}")
    return code


cdef extern from *:
    """
    #include <errno.h>
    #include <sys/mman.h>
    #include <unistd.h>
    static void* cyg_map_shared(int fd, size_t n)
    {
        int flags = MAP_SHARED;
        void *p;
    #ifdef MAP_POPULATE
        flags |= MAP_POPULATE;             /* all of it will be read: no fault for each page */
    #endif
        p = mmap(NULL, n, PROT_READ | PROT_WRITE, flags, fd, 0);
        return p == MAP_FAILED ? NULL : p;
    }
    """
    int errno
    void* cyg_map_shared(int fd, size_t n) nogil
    int munmap(void* p, size_t n) nogil
    int close(int fd) nogil


cdef class Mapping:
    """A file's bytes as memory that other processes which map it see too; a buffer of bytes.

    Python's own ``mmap`` keeps a descriptor open for each mapping, of which a process may have few.

    Parameters
    ----------
    fd : int
        Descriptor of the file.
    nbytes : int
        How much of it, from its beginning.
    keep : bool
        Whether the descriptor belongs to the mapping from now on, and is closed with it.

    Attributes
    ----------
    fd : int
        The descriptor, -1 where it was not kept.
    nbytes : int

    Raises
    ------
    OSError
        It cannot be mapped; the descriptor is still the caller's then.
    """
    cdef char* ptr
    cdef readonly Py_ssize_t nbytes
    cdef readonly int fd
    cdef object __weakref__

    def __cinit__(self, int fd, Py_ssize_t nbytes, bint keep=False):
        self.fd = -1
        if nbytes <= 0:
            raise ValueError(f"a mapping of {nbytes} bytes: it must have some")
        self.ptr = <char*>cyg_map_shared(fd, nbytes)
        if self.ptr == NULL:
            import os
            raise OSError(errno, f"unable to map {nbytes} bytes of shared memory: {os.strerror(errno)}")
        self.nbytes = nbytes
        if keep:
            self.fd = fd

    def __dealloc__(self):
        if self.ptr != NULL:
            munmap(self.ptr, self.nbytes)
        if self.fd >= 0:
            close(self.fd)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.ptr, self.nbytes, False, flags)

    def __len__(self):
        return self.nbytes


cdef class Part:
    """The first bytes of a mapping; a buffer, whose end tells that nobody uses them any more.

    Parameters
    ----------
    mapping : Mapping
    nbytes : int

    Raises
    ------
    ValueError
        The mapping has fewer bytes.
    """
    cdef readonly Mapping mapping
    cdef readonly Py_ssize_t nbytes
    cdef object __weakref__

    def __cinit__(self, Mapping mapping not None, Py_ssize_t nbytes):
        if nbytes < 0 or nbytes > mapping.nbytes:
            raise ValueError(f"a part of {nbytes} bytes of a mapping that has {mapping.nbytes}")
        self.mapping = mapping
        self.nbytes = nbytes

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.mapping.ptr, self.nbytes, False, flags)


cdef class Lease:
    # owned by the Storage that views the memory; while it lives, the exporter may neither move nor resize it
    cdef Py_buffer view
    cdef bint held
    cdef readonly object filename          # of a mapped file
    cdef readonly bint shared              # other processes that map the file see what is written
    cdef Mapping mapping                   # None, or the one that the memory is part of

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)


cdef Mapping mapped(object obj):
    """The mapping that a buffer, or a slice of one, lies in, or None."""
    if isinstance(obj, memoryview):
        obj = obj.obj
    if isinstance(obj, Part):
        obj = (<Part>obj).mapping
    return obj if isinstance(obj, Mapping) else None


def mapping_of(Storage storage not None):
    """The shared mapping in which a storage lies.

    Returns
    -------
    tuple or None
        The `Mapping`, and the storage's first byte in it.
    """
    cdef Storage s = storage
    while isinstance(s.owner, Storage):
        s = s.owner
    if not isinstance(s.owner, Lease) or (<Lease>s.owner).mapping is None:
        return None
    return (<Lease>s.owner).mapping, storage.ptr - (<Lease>s.owner).mapping.ptr


cdef Lease lease(object obj, int flags):
    cdef Lease x = Lease.__new__(Lease)
    PyObject_GetBuffer(obj, &x.view, flags)
    x.held = True
    return x


cdef Storage storage_of_buffer(Meta* y, object obj):
    cdef Lease x
    cdef Storage memory
    cdef Py_buffer* view
    cdef int64_t sizes[MAXDIM]
    cdef int64_t strides[MAXDIM]
    cdef int64_t last = 0, step
    cdef int d, code
    if not PyObject_CheckBuffer(obj):
        raise TypeError(f"can't share memory with {name_of(obj)}: it has no buffer protocol")
    try:
        x = lease(obj, PyBUF_FULL_RO)
    except ValueError as e:      # NumPy's answer for element types that no format letter describes
        bad_type(obj, str(e))
    view = &x.view
    step = view.itemsize
    code = code_of_format(obj, view)
    own = getattr(obj, "strides", None)      # NumPy's buffers restate strides of dimensions of fewer than two elements
    if view.ndim > MAXDIM:
        raise RuntimeError(f"a tensor has at most {MAXDIM} dimensions, {name_of(obj)} has {view.ndim}")
    if view.suboffsets != NULL:
        raise ValueError(f"{name_of(obj)} is an array of pointers to rows; one block of memory is wanted")
    for d in range(view.ndim - 1, -1, -1):
        sizes[d] = view.shape[d] if view.shape != NULL else view.len // view.itemsize
        strides[d] = own[d] if own is not None else view.strides[d] if view.strides != NULL else step
        step *= sizes[d]
        if strides[d] < 0:
            raise ValueError(f"{name_of(obj)} has the negative stride {strides[d]} at dimension {d}, and tensors with "
                             f"negative strides are not supported; make a copy first, in NumPy with .copy()")
        if strides[d] % view.itemsize:
            raise ValueError(f"{name_of(obj)} has strides that are not a multiple of the element byte size "
                             f"{view.itemsize}: {strides[d]} at dimension {d}; make a copy first, in NumPy with .copy()")
        strides[d] //= view.itemsize
        last += (sizes[d] - 1) * strides[d]
    meta_strided(y, view.ndim, sizes, strides, code, <char*>view.buf)
    memory = storage_borrow(<char*>view.buf, (last + 1) * view.itemsize if y.numel else 0, x, view.readonly)
    y.data = memory.ptr
    return memory


cdef extern from *:
    """
    /* What NumPy's __array_struct__ points to. */
    typedef struct {
        int version, nd;
        char kind;
        int itemsize, flags;
        Py_ssize_t *shape, *strides;
        char* data;
        PyObject* descr;
    } CygArray;
    """
    ctypedef struct CygArray:
        int nd
        char kind
        int itemsize
        int flags
        Py_ssize_t* shape
        Py_ssize_t* strides
        char* data

cdef enum:                 # flags of it
    NATIVE = 0x200
    WRITEABLE = 0x400


cdef int code_of_kind(char kind, int itemsize) noexcept:
    if kind == c"f":
        return FLOAT32 if itemsize == 4 else FLOAT64 if itemsize == 8 else FLOAT16 if itemsize == 2 else -1
    if kind == c"i":
        return INT64 if itemsize == 8 else INT32 if itemsize == 4 else INT16 if itemsize == 2 else INT8
    if kind == c"u":
        return UINT64 if itemsize == 8 else UINT32 if itemsize == 4 else UINT16 if itemsize == 2 else UINT8
    if kind == c"c":
        return COMPLEX64 if itemsize == 8 else COMPLEX128 if itemsize == 16 else -1
    return BOOL if kind == c"b" else -1


cdef Storage storage_of_array(Meta* y, object array):
    """`storage_of_buffer` of a numpy.ndarray, read from the struct that it shows: its buffer is described in text."""
    cdef object shown = array.__array_struct__
    cdef const CygArray* a = <const CygArray*>PyCapsule_GetPointer(shown, NULL)
    cdef int64_t strides[MAXDIM]
    cdef int64_t last = 0
    cdef int d, code = code_of_kind(a.kind, a.itemsize)
    if code < 0 or not a.flags & NATIVE or a.nd > MAXDIM:
        return storage_of_buffer(y, array)       # which says what is wrong
    for d in range(a.nd):
        if a.strides[d] < 0 or a.strides[d] % a.itemsize:
            return storage_of_buffer(y, array)
        strides[d] = a.strides[d] // a.itemsize
        last += (a.shape[d] - 1) * strides[d]
    meta_strided(y, a.nd, <const int64_t*>a.shape if a.nd else strides, strides, code, a.data)     # no dimensions: NULL
    return storage_borrow(a.data, (last + 1) * a.itemsize if y.numel else 0, array, not a.flags & WRITEABLE)


def storage_from_buffer(obj):
    """Share the memory of an array.

    Parameters
    ----------
    obj : object with the buffer protocol
        A NumPy array, ``array.array``, ``memoryview``, ``bytearray``, ... It stays alive, and may not be resized, as
        long as the storage lives.

    Returns
    -------
    tuple
        ``(storage, sizes, strides, dtype)``, strides in elements.

    Raises
    ------
    TypeError
        No buffer, or an element type that tensors do not have.
    ValueError
        Foreign byte order, negative strides, or strides that do not fall on elements.
    """
    cdef Meta m
    cdef Storage s = storage_of_buffer(&m, obj)
    try:
        return s, shape_tuple(&m), stride_tuple(&m), dtype_object(m.dtype)
    finally:
        meta_clear(&m)


def storage_from_bytes(obj, dtype, Py_ssize_t count=-1, Py_ssize_t offset=0):
    """Share a run of raw bytes, read as elements of `dtype`.

    Parameters
    ----------
    obj : object with the buffer protocol
        Its bytes must be contiguous.
    dtype : dtype
        Element type.
    count : int
        Number of elements; -1 takes all that follow.
    offset : int
        First byte.

    Returns
    -------
    tuple
        ``(storage, count)``

    Raises
    ------
    ValueError
        No buffer, not contiguous, no bytes, or bytes and elements do not fit.
    """
    cdef int code = dtype_code(dtype)
    cdef int64_t item = ITEMSIZE[code], n
    cdef Lease x
    if not PyObject_CheckBuffer(obj):
        raise ValueError(f"a buffer is wanted: {type(obj).__name__} does not implement the buffer protocol")
    x = lease(obj, PyBUF_ND)
    n = x.view.len
    if n == 0 or count == 0:
        raise ValueError(f"both the buffer's length ({n} bytes) and count ({count}) must be other than 0")
    if offset < 0 or offset >= n:
        raise ValueError(f"offset {offset} must not be negative and must lie inside the buffer of {n} bytes")
    if count < 0:
        if (n - offset) % item:
            raise ValueError(f"{n - offset} bytes follow offset {offset} in the buffer of {n} bytes: no multiple of "
                             f"the element size {item} of {dtype!r}")
        count = (n - offset) // item
    if count > (n - offset) // item:
        raise ValueError(f"{count} elements of {item} bytes from offset {offset} were asked for, but the buffer has "
                         f"{n} bytes")
    x.mapping = mapped(obj)
    x.shared = x.mapping is not None
    return storage_borrow(<char*>x.view.buf + offset, count * item, x, x.view.readonly), count


def storage_from_file(filename, shared=False, Py_ssize_t nbytes=0):
    """Map a file into memory.

    Parameters
    ----------
    filename : str or path
        With `shared`, it is made or lengthened where needed.
    shared : bool
        Whether what is written goes to the file, and to others who map it; otherwise it stays private.
    nbytes : int
        Size; 0 with an existing file takes all of it.

    Raises
    ------
    RuntimeError
        The file cannot be opened, or holds fewer bytes.
    """
    import mmap
    import os
    cdef Lease x
    name = os.fspath(filename)
    if nbytes < 0:
        raise RuntimeError(f"cannot map {nbytes} bytes of file <{name}>: the size must not be negative")
    try:
        handle = os.open(name, os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY, 0o600)
    except OSError as e:
        mode = "read-write" if shared else "read-only"
        raise RuntimeError(f"unable to open file <{name}> in {mode} mode: {e.strerror} ({e.errno})") from None
    try:
        size = os.fstat(handle).st_size
        if size < nbytes and not shared:
            raise RuntimeError(f"file <{name}> size <{size}> is smaller than the required mapping size <{nbytes}>")
        if size < nbytes:
            os.ftruncate(handle, nbytes)
        nbytes = nbytes or size
        if nbytes == 0:
            return storage_new(0)
        x = lease(mmap.mmap(handle, nbytes, flags=mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE,
                            prot=mmap.PROT_READ | mmap.PROT_WRITE), PyBUF_ND)
    except OSError as e:
        raise RuntimeError(f"unable to map {nbytes} bytes of file <{name}>: {e.strerror} ({e.errno})") from None
    finally:
        os.close(handle)
    x.filename, x.shared = name, bool(shared)
    return storage_borrow(<char*>x.view.buf, nbytes, x, False)


# ---- out -------------------------------------------------------------------------------------------------------------
cdef int export_buffer(Py_buffer* view, object owner, const Meta* m, Storage s, int flags) except -1:
    cdef int64_t* shape
    cdef int d
    view.obj = None
    if m.device:
        raise BufferError(f"the memory of a tensor on {device_object(m.device)} cannot be reached from the CPU: use .cpu() first")
    if CYG_FORMAT[m.dtype] == NULL:
        raise BufferError(f"the buffer protocol has no format for {dtype_object(m.dtype)!r}")
    if flags & PyBUF_WRITABLE and s.readonly:
        raise BufferError("a writable buffer was asked for, but the memory is read-only")
    if flags & PyBUF_STRIDES != PyBUF_STRIDES and not m.flags & CONTIGUOUS:
        raise BufferError("the tensor is not contiguous, and the consumer cannot follow strides")
    if flags & PyBUF_F_CONTIGUOUS == PyBUF_F_CONTIGUOUS and m.ndim > 1:
        raise BufferError("a buffer in Fortran order was asked for")
    shape = <int64_t*>block_alloc(16 * m.ndim + 16)
    if shape == NULL:
        raise MemoryError()
    for d in range(m.ndim):
        shape[d] = m.sizes[d]
        shape[m.ndim + d] = m.strides[d] * ITEMSIZE[m.dtype]
    view.buf = m.data
    view.obj = owner
    view.len = m.numel * ITEMSIZE[m.dtype]
    view.itemsize = ITEMSIZE[m.dtype]
    view.readonly = s.readonly
    view.ndim = m.ndim
    view.format = <char*>CYG_FORMAT[m.dtype] if flags & PyBUF_FORMAT else NULL
    view.shape = <Py_ssize_t*>shape
    view.strides = <Py_ssize_t*>shape + m.ndim if flags & PyBUF_STRIDES == PyBUF_STRIDES else NULL
    view.suboffsets = NULL
    view.internal = shape
    return 0


cdef void release_buffer(Py_buffer* view) noexcept:
    block_free(view.internal, 16 * view.ndim + 16)


include "dlpack.pxi"    # the same through DLPack's structs
