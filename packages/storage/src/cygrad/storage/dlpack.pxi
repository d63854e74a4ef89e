# dlpack: arrays exchanged with other libraries through the structs of the DLPack standard, version 1 (0 on request).
# Invariants: a struct that is given away holds a reference to its Storage, or to its DLLoan; one that is taken goes back by its
# DLLease. Memory of a device is not given back before the work of streams that its owner does not know of is done.
from cpython.pycapsule cimport (
    PyCapsule_CheckExact, PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New, PyCapsule_SetName)
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport malloc

cdef extern from *:
    """
    typedef struct { int32_t device_type, device_id; } CygDLDevice;
    typedef struct { uint8_t code, bits; uint16_t lanes; } CygDLType;
    typedef struct {
        void *data;
        CygDLDevice device;
        int32_t ndim;
        CygDLType dtype;
        int64_t *shape, *strides;      /* in elements; strides may be NULL: row-major */
        uint64_t byte_offset;
    } CygDLTensor;
    typedef struct CygDLManaged {      /* version 0, capsule "dltensor" */
        CygDLTensor t;
        void *context;
        void (*deleter)(struct CygDLManaged *);
    } CygDLManaged;
    typedef struct CygDLVersioned {    /* version 1, capsule "dltensor_versioned" */
        uint32_t major, minor;
        void *context;
        void (*deleter)(struct CygDLVersioned *);
        uint64_t flags;
        CygDLTensor t;
    } CygDLVersioned;

    /* Consumers may call these from any thread, without the GIL, and even after Python has ended. */
    static void cyg_dl_release(void *owner)
    {
        PyGILState_STATE held;
        if (!Py_IsInitialized()) return;
        held = PyGILState_Ensure();
        Py_DECREF((PyObject *)owner);
        PyGILState_Release(held);
    }
    static void cyg_dl_delete(CygDLManaged *p) { cyg_dl_release(p->context); free(p); }
    static void cyg_dl_delete_versioned(CygDLVersioned *p) { cyg_dl_release(p->context); free(p); }

    /* A capsule that nobody consumed. */
    static void cyg_dl_drop(PyObject *capsule)
    {
        if (PyCapsule_IsValid(capsule, "dltensor")) {
            CygDLManaged *p = PyCapsule_GetPointer(capsule, "dltensor");
            if (p->deleter) p->deleter(p);
        } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
            CygDLVersioned *p = PyCapsule_GetPointer(capsule, "dltensor_versioned");
            if (p->deleter) p->deleter(p);
        }
    }
    """
    ctypedef struct CygDLDevice:
        int32_t device_type, device_id
    ctypedef struct CygDLType:
        uint8_t code, bits
        uint16_t lanes
    ctypedef struct CygDLTensor:
        void* data
        CygDLDevice device
        int32_t ndim
        CygDLType dtype
        int64_t* shape
        int64_t* strides
        uint64_t byte_offset
    ctypedef struct CygDLManaged:
        CygDLTensor t
        void* context
        void (*deleter)(CygDLManaged*) noexcept
    ctypedef struct CygDLVersioned:
        uint32_t major, minor
        void* context
        void (*deleter)(CygDLVersioned*) noexcept
        uint64_t flags
        CygDLTensor t
    void cyg_dl_delete(CygDLManaged*) noexcept
    void cyg_dl_delete_versioned(CygDLVersioned*) noexcept
    void cyg_dl_drop(object capsule) noexcept

cdef enum:
    DL_CPU = 1
    DL_CUDA = 2
    DL_CUDA_HOST = 3       # page-locked memory of the CPU
    DL_READ_ONLY = 1       # flags
    DL_IS_COPIED = 2
    DL_MAJOR = 1
    DL_MINOR = 0


cdef tuple dl_kind(dtype):
    """The standard's (code, bits) of an element type."""
    if dtype.name == "bool":
        code = 6
    elif dtype.name == "bfloat16":
        code = 4
    elif dtype.is_complex:
        code = 5
    elif dtype.is_floating_point:
        code = 2
    else:
        code = 0 if dtype.is_signed else 1
    return code, dtype.itemsize * 8


cdef dict DL_KINDS = {d.code: dl_kind(d) for d in dtypes.values()}
cdef dict DL_CODES = {kind: code for code, kind in DL_KINDS.items()}


# ---- out

cdef class DLLoan:
    # A storage in the hands of a stream that the consumer named. When it lets go the stream may be at work still, or be gone, so
    # that nothing but the whole device can be waited for.
    cdef Storage storage
    cdef object wait           # of the extension: at the end of the process nothing can be imported

    def __dealloc__(self):
        self.wait(self.storage.device - 1, None)


cdef void fill_dl(CygDLTensor* t, const Meta* m, int64_t* dims) noexcept:
    cdef int d
    t.data = NULL if m.device and m.numel == 0 else m.data      # an address of the CPU would be none of that device
    t.device.device_type, t.device.device_id = (DL_CUDA, m.device - 1) if m.device else (DL_CPU, 0)
    t.ndim = m.ndim
    t.shape, t.strides = dims, dims + m.ndim
    for d in range(m.ndim):
        dims[d] = m.sizes[d]
        dims[m.ndim + d] = m.strides[d]
    t.byte_offset = 0


cdef object dlpack_capsule(const Meta* m, Storage s, bint versioned, bint copied, bint lent):
    """m's elements, which lie in s, for another library; `lent`: to a stream of its own."""
    cdef DLLoan loan
    cdef object owner = s
    cdef CygDLManaged* old
    cdef CygDLVersioned* new
    cdef CygDLType kind
    cdef size_t dims = 2 * m.ndim * sizeof(int64_t)
    code, bits = DL_KINDS[m.dtype]
    kind.code, kind.bits, kind.lanes = code, bits, 1
    if not versioned and s.readonly:
        raise BufferError("the tensor's memory is read-only, which DLPack can say from version 1.0 on only: pass "
                          "max_version=(1, 0)")
    if lent:
        from cygrad.storage import cuda
        wait = cuda.extension().wait_for
        loan = DLLoan.__new__(DLLoan)
        loan.storage, loan.wait = s, wait
        owner = loan
    if versioned:
        new = <CygDLVersioned*>malloc(sizeof(CygDLVersioned) + dims)
        if new == NULL:
            raise MemoryError()
        new.major, new.minor = DL_MAJOR, DL_MINOR
        new.flags = (DL_READ_ONLY if s.readonly else 0) | (DL_IS_COPIED if copied else 0)
        fill_dl(&new.t, m, <int64_t*>(new + 1))
        new.t.dtype = kind
        new.context, new.deleter = <void*>owner, cyg_dl_delete_versioned
        Py_INCREF(owner)
        return PyCapsule_New(new, "dltensor_versioned", <void (*)(object) noexcept>cyg_dl_drop)
    old = <CygDLManaged*>malloc(sizeof(CygDLManaged) + dims)
    if old == NULL:
        raise MemoryError()
    fill_dl(&old.t, m, <int64_t*>(old + 1))
    old.t.dtype = kind
    old.context, old.deleter = <void*>owner, cyg_dl_delete
    Py_INCREF(owner)
    return PyCapsule_New(old, "dltensor", <void (*)(object) noexcept>cyg_dl_drop)


def dlpack_from_storage(Storage storage not None, dtype, sizes, strides, int64_t offset, versioned, copied, lent=False):
    """A DLPack capsule over a storage's memory, which it keeps alive.

    Parameters
    ----------
    storage : Storage
    dtype : dtype
    sizes, strides : tuple of int
        Strides in elements.
    offset : int
        Element of the storage at which the array starts.
    versioned : bool
        Whether the consumer reads structs of version 1.0.
    copied : bool
        Whether the memory was copied for this export.
    lent : bool
        Whether memory of a device goes to a stream that is not the default one.

    Raises
    ------
    BufferError
        The memory is read-only, and the consumer's version cannot be told so.
    RuntimeError
        The array would reach outside the storage.
    """
    cdef Meta x, m
    cdef int64_t n[MAXDIM]
    cdef int64_t st[MAXDIM]
    cdef int d, nd = len(sizes)
    if nd > MAXDIM or len(strides) != nd:
        raise RuntimeError(f"{nd} sizes and {len(strides)} strides were given, at most {MAXDIM} of each are wanted")
    for d in range(nd):
        n[d], st[d] = sizes[d], strides[d]
    memset(&x, 0, sizeof(Meta))
    memset(&m, 0, sizeof(Meta))
    x.dtype = dtype_code(dtype)
    x.device = storage.device
    view_as_strided(&m, &x, storage, nd, n, st, offset)
    try:
        return dlpack_capsule(&m, storage, versioned, copied, lent)
    finally:
        meta_clear(&m)


# ---- in

cdef class DLLease:
    # owned by the Storage that views the memory; gives the producer's struct back
    cdef CygDLManaged* old
    cdef CygDLVersioned* new
    cdef int device            # of a Meta
    cdef set streams           # addresses of those that use it
    cdef object wait

    def note(self, size_t stream):
        """Another stream uses the memory."""
        self.streams.add(stream)

    def __dealloc__(self):
        try:
            if self.device:
                self.wait(self.device - 1, self.streams)
        finally:
            self.give_back()

    cdef int give_back(self) except -1:
        if self.old != NULL and self.old.deleter != NULL:
            self.old.deleter(self.old)
        if self.new != NULL and self.new.deleter != NULL:
            self.new.deleter(self.new)
        return 0


cdef object produce(object obj, object copy):
    """The capsule of an object that offers one."""
    if not hasattr(obj, "__dlpack_device__"):
        raise TypeError(f"from_dlpack(): {type(obj).__name__} has __dlpack__, but no __dlpack_device__")
    kind, number = obj.__dlpack_device__()
    if kind == DL_CUDA:
        return produce_away(obj, number, copy)
    if kind not in (DL_CPU, DL_CUDA_HOST):
        raise BufferError(f"from_dlpack(): {type(obj).__name__} lies on DLPack device ({int(kind)}, {number}), and "
                          f"tensors here lie on the CPU, which is (1, 0), or CUDA devices; move it there first")
    try:
        if copy is None:
            return obj.__dlpack__(max_version=(DL_MAJOR, DL_MINOR))
        return obj.__dlpack__(max_version=(DL_MAJOR, DL_MINOR), copy=copy)
    except TypeError:                # a producer of version 0
        return obj.__dlpack__()


cdef object produce_away(object obj, number, object copy):
    """The same on a CUDA device; the producer lets the stream that is used here wait for its work."""
    from cygrad.storage import cuda
    cuda.code_of(device("cuda", number))
    stream = cuda.extension().stream_address(number) or 1              # 1: the standard's word for the default stream
    try:
        if copy is None:
            return obj.__dlpack__(stream=stream, max_version=(DL_MAJOR, DL_MINOR))
        return obj.__dlpack__(stream=stream, max_version=(DL_MAJOR, DL_MINOR), copy=copy)
    except TypeError:                # a producer of version 0
        return obj.__dlpack__(stream=stream)


cdef int device_of_dl(const CygDLTensor* t) except -1:
    if t.device.device_type == DL_CPU or t.device.device_type == DL_CUDA_HOST:
        return 0
    if t.device.device_type != DL_CUDA:
        raise RuntimeError(f"from_dlpack(): unsupported device_type: {t.device.device_type}; 1, the CPU, or 2, CUDA, is wanted")
    return device_code(device("cuda", t.device.device_id))


cdef int code_of_dl(const CygDLTensor* t) except -1:
    code = DL_CODES.get((t.dtype.code, t.dtype.bits)) if t.dtype.lanes == 1 else None
    if code is None:
        names = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
        raise RuntimeError(f"from_dlpack(): unsupported element type: DLPack code {t.dtype.code} "
                           f"({names.get(t.dtype.code, 'other')}), {t.dtype.bits} bits, {t.dtype.lanes} lanes")
    return code


cdef Storage storage_of_dl(Meta* y, const CygDLTensor* t, object owner, bint readonly):
    cdef int64_t strides[MAXDIM]
    cdef int64_t step = 1, last = 0
    cdef int d, code = code_of_dl(t)
    cdef char* data = <char*>(<size_t>t.data + <size_t>t.byte_offset)        # of an empty array it may be NULL
    cdef Storage memory
    cdef bint empty = False
    y.device = device_of_dl(t)
    if not 0 <= t.ndim <= MAXDIM:
        raise RuntimeError(f"from_dlpack(): a tensor has at most {MAXDIM} dimensions, the array has {t.ndim}")
    for d in range(t.ndim - 1, -1, -1):
        if t.shape[d] < 0:
            raise RuntimeError(f"from_dlpack(): the array has the negative size {t.shape[d]} at dimension {d}")
        strides[d] = t.strides[d] if t.strides != NULL else step
        if strides[d] < 0 and t.shape[d] > 1:
            raise ValueError(f"from_dlpack(): the array has the negative stride {strides[d]} at dimension {d}, and "
                             f"tensors with negative strides are not supported; make a copy first")
        strides[d] = max(strides[d], 0)
        step *= max(t.shape[d], 1)
        empty |= t.shape[d] == 0
        last += (t.shape[d] - 1) * strides[d]
    if y.device != 0 and not empty and <size_t>data % <size_t>ITEMSIZE[code]:
        # A device that reads such an address fails, and with it everything after it.
        raise BufferError(f"from_dlpack(): the array's memory begins at {<size_t>data:#x}, which is no multiple of the "
                          f"{ITEMSIZE[code]} bytes of an element; a CUDA device cannot read it")
    memory = storage_borrow(NULL if empty else data, 0 if empty else (last + 1) * ITEMSIZE[code], owner, readonly)
    memory.device = y.device
    meta_strided(y, t.ndim, t.shape, strides, code, memory.ptr)
    return memory


cdef Storage storage_of_capsule(Meta* y, object capsule):
    cdef DLLease owner = DLLease.__new__(DLLease)
    cdef CygDLVersioned* new
    cdef CygDLManaged* old
    cdef Storage s
    if PyCapsule_IsValid(capsule, "dltensor_versioned"):
        new = <CygDLVersioned*>PyCapsule_GetPointer(capsule, "dltensor_versioned")
        if new.major > DL_MAJOR:
            raise BufferError(f"from_dlpack(): the capsule is of DLPack version {new.major}.{new.minor}, "
                              f"{DL_MAJOR}.x is supported")
        s = storage_of_dl(y, &new.t, owner, new.flags & DL_READ_ONLY != 0)
        PyCapsule_SetName(capsule, "used_dltensor_versioned")
        owner.new = new
    elif PyCapsule_IsValid(capsule, "dltensor"):
        old = <CygDLManaged*>PyCapsule_GetPointer(capsule, "dltensor")
        s = storage_of_dl(y, &old.t, owner, False)
        PyCapsule_SetName(capsule, "used_dltensor")
        owner.old = old
    else:
        raise RuntimeError("from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only "
                           "once, so you might have already constructed a tensor from it once.")
    if s.device:
        from cygrad.storage import cuda
        owner.streams, owner.wait = {cuda.extension().stream_address(s.device - 1)}, cuda.extension().wait_for
        owner.device = s.device
    return s


def storage_from_dlpack(obj, copy=None):
    """Share the memory of an array of another library.

    Parameters
    ----------
    obj : object with ``__dlpack__`` and ``__dlpack_device__``, or a capsule that ``__dlpack__`` returned
    copy : bool, optional
        Asked of the producer: True wants a copy, False wants none.

    Returns
    -------
    tuple
        ``(storage, sizes, strides, dtype)``, strides in elements.

    Raises
    ------
    TypeError
        Neither.
    RuntimeError
        The capsule was consumed before, or holds elements that tensors do not have.
    ValueError
        Negative strides.
    BufferError
        The array lies on another device, or in structs of a later version.
    """
    cdef Meta m
    memset(&m, 0, sizeof(Meta))
    if PyCapsule_CheckExact(obj):
        capsule = obj
    elif hasattr(obj, "__dlpack__"):
        capsule = produce(obj, copy)
    else:
        raise TypeError(f"from_dlpack(): an array with __dlpack__ or a DLPack capsule is wanted, got "
                        f"{type(obj).__name__}")
    s = storage_of_capsule(&m, capsule)
    try:
        return s, shape_tuple(&m), stride_tuple(&m), dtype_object(m.dtype)
    finally:
        meta_clear(&m)
