# The C contract of storage: memory, shape metadata, the broadcasting iterator. No gradient is known below this line.
# May cimport: libc only. Invariant: a Meta never outlives the Storage that its data points into.
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from *:
    """
    #ifndef CYGRAD_CORE_CONST
    #define CYGRAD_CORE_CONST
    static const unsigned char CYG_ITEMSIZE[16] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 2, 4, 8, 0};
    static const unsigned char CYG_KIND[16] = {0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 1, 1, 1, 0};
    static const unsigned char CYG_COMPUTED[16] = {0, 1, 4, 4, 4, 5, 8, 8, 8, 9, 10, 11, 4, 5, 14, 0};
    #endif
    """
    const uint8_t ITEMSIZE "CYG_ITEMSIZE"[16]
    const uint8_t KIND "CYG_KIND"[16]            # of a DTypeCode: KIND_BOOL, ...
    const uint8_t COMPUTED "CYG_COMPUTED"[16]    # of a DTypeCode: the one that its kernels compute in

cdef enum:
    MAXDIM = 64        # PyTorch's limit
    INLINE = 5         # dimensions held inside a Meta; more go to a block of their own
    MAXOPS = 6         # operands of one pointwise loop: one output and up to five inputs
    GRAIN = 32768      # elements below which no second thread is woken (a region costs about 1 us)
    NOGIL = 16384      # elements below which the GIL is kept (a release costs about 85 ns)

cdef enum DTypeCode:   # pickles and tables hold names, so codes may change; nothing may rely on their order: ask KIND, or the functions below
    BOOL = 0
    UINT8 = 1
    INT8 = 2
    INT16 = 3
    INT32 = 4
    INT64 = 5
    FLOAT16 = 6
    BFLOAT16 = 7
    FLOAT32 = 8
    FLOAT64 = 9
    COMPLEX64 = 10
    COMPLEX128 = 11
    UINT16 = 12
    UINT32 = 13
    UINT64 = 14
    N_DTYPES = 16      # columns of tables; the last one stays empty

cdef enum:             # KIND of a dtype, in the order of promotion
    KIND_BOOL = 0
    KIND_INT = 1
    KIND_FLOAT = 2
    KIND_COMPLEX = 3

cdef enum:             # Meta.flags
    CONTIGUOUS = 1     # row-major without gaps, size-1 dimensions ignored (PyTorch's rule)
    DENSE = 2          # a permutation of a contiguous block: no gaps and no overlap
    FLAT = 4           # CONTIGUOUS, and in the CPU's memory: loops may run over it at once

cdef struct Meta:
    char* data         # includes the storage offset; adding it again reads past the block
    int64_t numel
    int64_t* sizes     # -> inl, or a heap block above INLINE dimensions: a Meta is never copied by value (use meta_like)
    int64_t* strides   # in elements
    int64_t inl[10]
    uint8_t ndim
    uint8_t dtype      # DTypeCode
    uint8_t device     # 0 = CPU, k + 1 = cuda:k; only that device's kernels may follow data
    uint8_t flags

cdef class Storage:
    # owned by every tensor that views it; final, no GC, freelist; made by storage_new or storage_borrow only
    cdef char* ptr
    cdef int64_t nbytes
    cdef uint32_t version      # bumped by every in-place write; shared by all views, so they need no counter of their own
    cdef uint16_t last_op      # op id of the last in-place write, for the error message of a stale saved tensor
    cdef uint8_t device
    cdef uint8_t kind          # how ptr is given back: see core.pyx
    cdef uint8_t readonly      # borrowed from memory that may not be written
    cdef uint8_t origin        # what storage_origin said on the thread that made it; means something to autograd only
    cdef object owner          # what keeps borrowed memory alive and in place
    cdef object __weakref__

cdef class dtype:
    # one immortal object per DTypeCode
    cdef readonly int code
    cdef readonly int itemsize
    cdef readonly str name
    cdef readonly bint is_floating_point, is_complex, is_signed

# ---- memory -------------------------------------------------------------------------------------------------------
cdef Storage storage_new(int64_t nbytes)                    # uninitialised, 64-byte aligned; MemoryError/RuntimeError
cdef Storage storage_on(int device, int64_t nbytes)         # the same in the memory of a device (0: the CPU)
cdef Storage storage_borrow(char* ptr, int64_t nbytes, object owner, bint readonly)
cdef int storage_origin(int origin) noexcept                # set for storages made by this thread from now on; returns what it was
cdef void* block_alloc(int64_t nbytes) noexcept             # small scratch, GIL held; NULL when out of memory
cdef void block_free(void* p, int64_t nbytes) noexcept      # nbytes as given to block_alloc
cdef int settle() except -1                                 # before a live tensor's memory, shape or strides are replaced: waits for loops that run without the GIL

# ---- metadata -----------------------------------------------------------------------------------------------------
# y is always an empty Meta that the callee fills: all zero, but for `device`, which says where a new tensor is to lie. Views and
# results of given tensors lie where those do. On error it is left empty.
cdef int meta_alloc(Meta* y, int ndim) except -1            # points sizes/strides somewhere, values unset
cdef void meta_clear(Meta* y) noexcept                      # gives a heap block back; y is empty again
cdef int meta_like(Meta* y, const Meta* x) except -1        # same shape, strides, dtype, flags, data
cdef int meta_contig(Meta* y, int ndim, const int64_t* sizes, int dtype) except -1      # row-major; data = NULL
cdef int meta_dense_like(Meta* y, const Meta* x, int dtype) except -1  # x's stride order if x is dense, else row-major (preserve_format)
cdef int meta_strided(Meta* y, int ndim, const int64_t* sizes, const int64_t* strides, int dtype, char* data) except -1
cdef int meta_joint(Meta* y, Meta** ops, int n, int ndim, const int64_t* sizes, int dtype) except -1   # result of broadcast ops: strides ordered as theirs (TensorIterator)
cdef Storage meta_storage(Meta* y)                          # allocates for a dense y, on its device, and sets y.data
cdef inline void meta_place(Meta* y, int device) noexcept:   # y, which has no memory yet, is to lie there
    y.device = device
    y.flags = (y.flags & ~FLAT) | (FLAT if device == 0 and y.flags & CONTIGUOUS else 0)

cdef bint meta_same_shape(const Meta* a, const Meta* b) noexcept
cdef object shape_tuple(const Meta* m)                      # Size
cdef object stride_tuple(const Meta* m)
cdef int wrap_dim(int64_t dim, int ndim) except -1          # negative dims; IndexError as PyTorch's; ndim 0 counts as 1
cdef int broadcast_shapes(Meta** ops, int n, int64_t* sizes) except -1   # returns ndim; RuntimeError names both shapes
cdef bint has_internal_overlap(const Meta* m) noexcept      # some element is reachable by two indices (expanded, as_strided)
cdef bint may_share_memory(const Meta* a, const Meta* b) noexcept        # byte ranges intersect

# ---- views: metadata only; data is set, the caller shares the storage ---------------------------------------------
cdef int view_view(Meta* y, const Meta* x, int nd, const int64_t* sizes) except -1         # one -1 allowed; RuntimeError names reshape
cdef int view_reshape(Meta* y, const Meta* x, int nd, const int64_t* sizes) except -1      # 1: y is a view; 0: a copy is needed, y has the row-major target shape
cdef int view_parts(Meta* y, const Meta* x) except -1      # a complex x as a real y with a last dimension of 2
cdef int view_whole(Meta* y, const Meta* x) except -1      # the reverse
cdef int view_expand(Meta* y, const Meta* x, int nd, const int64_t* sizes) except -1       # -1 keeps a size
cdef int view_permute(Meta* y, const Meta* x, int nd, const int64_t* dims) except -1
cdef int view_transpose(Meta* y, const Meta* x, int64_t d0, int64_t d1) except -1
cdef int view_squeeze(Meta* y, const Meta* x, uint64_t mask) except -1                      # drops the masked dims that have size 1
cdef int view_unsqueeze(Meta* y, const Meta* x, int64_t dim) except -1
cdef int view_select(Meta* y, const Meta* x, int64_t dim, int64_t index) except -1
cdef int view_slice(Meta* y, const Meta* x, int64_t dim, int64_t start, int64_t stop, int64_t step) except -1   # Python's clamping; step > 0
cdef int view_narrow(Meta* y, const Meta* x, int64_t dim, int64_t start, int64_t length) except -1
cdef int view_diagonal(Meta* y, const Meta* x, int64_t offset, int64_t dim1, int64_t dim2) except -1
cdef int view_unfold(Meta* y, const Meta* x, int64_t dim, int64_t size, int64_t step) except -1
cdef int view_as_strided(Meta* y, const Meta* x, Storage s, int nd, const int64_t* sizes, const int64_t* strides, int64_t offset) except -1

# ---- devices ------------------------------------------------------------------------------------------------------
ctypedef void* (*DeviceAlloc)(int device, int64_t nbytes) except NULL      # nbytes > 0
ctypedef void (*DeviceFree)(int device, void* p) noexcept
ctypedef int (*DeviceMove)(int to_device, void* to, int device, const void* source, int64_t nbytes) except -1     # bytes; done when it returns
cdef int enter_memory(DeviceAlloc alloc, DeviceFree release, DeviceMove move) except -1    # called once, by the module that knows devices
cdef object device_object(int device)                       # of a Meta
cdef int device_code(object o) except -1                    # a device, its name or number, None for the default; RuntimeError where there is none

# ---- types --------------------------------------------------------------------------------------------------------
cdef dtype dtype_object(int code)
cdef int dtype_code(object o) except -1                     # a dtype, Python's bool/int/float, None is refused; TypeError
cdef int promote(int a, int b) except -1                    # PyTorch's lattice; RuntimeError where two types have no common one
cdef int complex_of(int code) except -1                     # the complex dtype whose parts have a floating dtype; RuntimeError
cdef int default_dtype() noexcept
cdef int set_default(int code) except -1

cdef inline bint is_float(int code) noexcept nogil:         # floating (not complex)
    return KIND[code] == KIND_FLOAT

cdef inline bint is_integral(int code) noexcept nogil:      # an integer or bool
    return KIND[code] <= KIND_INT

cdef inline bint is_complex(int code) noexcept nogil:
    return KIND[code] == KIND_COMPLEX

cdef inline bint is_unsigned(int code) noexcept nogil:      # an integer without sign
    return code == UINT8 or UINT16 <= code <= UINT64

cdef inline int real_of(int code) noexcept nogil:           # dtype of the parts of a complex number; other codes as they are
    return FLOAT32 if code == COMPLEX64 else FLOAT64 if code == COMPLEX128 else code

# ---- threads ------------------------------------------------------------------------------------------------------
cdef int num_threads() noexcept nogil                       # for a new parallel region; 1 inside one and in a forked child: then enter none

# ---- the iterator -------------------------------------------------------------------------------------------------
ctypedef void (*Loop)(char** p, const int64_t* st, int64_t n, const double* attr) noexcept nogil
# p: one pointer an operand, output first, not to be changed; st: byte strides of this dimension; n: count; attr: scalar arguments of the op

cdef struct Iter:              # on the stack, never allocated; dimension 0 is the innermost
    int nop
    int ndim                   # after dropping size-1 dims, sorting by the output's strides and coalescing; at least 1
    int64_t numel
    char* p[MAXOPS]
    int64_t sizes[MAXDIM]
    int64_t st[MAXDIM][MAXOPS] # byte strides, st[d] is what a Loop gets

cdef void iter_build(Iter* it, Meta** ops, int nop, int ndim, const int64_t* sizes) noexcept   # operands must broadcast to sizes
cdef void iter_run(Iter* it, Loop f, const double* attr) noexcept nogil                        # splits over threads above GRAIN
cdef void iter_run_gil(Iter* it, Loop f, const double* attr) noexcept                          # same, called with the GIL; releases it when large
