# LAPACK over batches of matrices. Includes: lapack_factor (triangular, orthogonal and symmetric factors), lapack_solve
# (systems and least squares), lapack_spectral (eigenvalues and singular values).
#
# Every driver copies what the routine overwrites into its results, column-major, and calls the routine once for each
# item of the batch. Large batches are cut into one range an own thread; OpenBLAS itself runs with one, and items do not
# depend on each other, so the thread count changes no bit. Routines are bound by name and element type when they are
# first called: Fortran passes everything by address, so the four types of a routine share one C signature, but for the
# real workspace that some complex ones want.
import ctypes

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from cygrad.storage.core cimport (
    COMPLEX64, COMPLEX128, CONTIGUOUS, FLOAT32, FLOAT64, INT32, ITEMSIZE, MAXDIM, Meta, Storage, dtype_object,
    meta_clear, meta_contig, meta_like, meta_storage, meta_strided, num_threads, shape_tuple)
from cygrad.storage.ops cimport blas, copy_into, op_clone

include "abi.pxi"

check_storage_abi("cygrad.storage.lapack")

cdef enum:
    SLOTS = 7              # arrays of one item
    QUIET_WORK = 1 << 16   # multiply-adds below which the GIL is kept
    SPLIT_WORK = 1 << 20   # from which a batch is shared between threads

cdef struct Job:           # one call of a driver
    void* f                # the routine
    int code               # element type
    int64_t size           # bytes of an element
    char a, b, c, d        # the routine's character arguments
    int m, n, k            # its sizes; what they mean is the routine's business
    int64_t batches
    char* p[SLOTS]         # first item of each array
    int64_t step[SLOTS]    # bytes from one item to the next
    int ld[SLOTS]          # leading dimension of a matrix
    int lwork
    int64_t rwork, iwork, room      # workspace of one thread: where the real and integer parts start; all of it
    double rcond

ctypedef void (*Item)(Job* j, int64_t i, char* work) noexcept nogil
ctypedef list (*Driver)(Meta** x, int n, Meta** y, Job* j)

cdef dict ADDRESSES = {}
cdef size_t ONE = 1        # hidden length of each character argument


# ---- routines

cdef void* routine(str real, str unitary, int code) except NULL:
    """Address of a routine for an element type; some have another name for complex elements."""
    cdef str name
    cdef size_t address
    if code == FLOAT32 or code == FLOAT64:
        name = ("s" if code == FLOAT32 else "d") + real
    else:
        name = ("c" if code == COMPLEX64 else "z") + unitary
    found = ADDRESSES.get(name)
    if found is None:
        found = ADDRESSES[name] = ctypes.cast(getattr(blas(), f"scipy_{name}_"), ctypes.c_void_p).value
    address = found
    return <void*> address


cdef inline bint is_real(const Job* j) noexcept nogil:
    return j.code == FLOAT32 or j.code == FLOAT64


cdef inline int real_code(int code) noexcept nogil:
    return FLOAT32 if code == COMPLEX64 else FLOAT64 if code == COMPLEX128 else code


cdef inline int complex_code(int code) noexcept nogil:
    return COMPLEX64 if code == FLOAT32 else COMPLEX128 if code == FLOAT64 else code


# ---- arrays

cdef str text(const Meta* m):
    return str(list(shape_tuple(m)))


cdef int open_job(Job* j, str name, const Meta* a, bint square) except -1:
    """Take element type, batch and sizes from the first matrix."""
    cdef int d
    if a.dtype != FLOAT32 and a.dtype != FLOAT64 and a.dtype != COMPLEX64 and a.dtype != COMPLEX128:
        raise RuntimeError(f"{name}: float32, float64, complex64 or complex128 is wanted, got "
                           f"{dtype_object(a.dtype).name}")
    if a.ndim < 2:
        raise RuntimeError(f"{name}: at least 2 dimensions are wanted, got shape {text(a)}")
    for d in range(a.ndim - 2, a.ndim):
        if a.sizes[d] > 0x7fffffff:
            raise RuntimeError(f"{name}: matrices of at most 2147483647 rows and columns are possible, got {text(a)}")
    j.m, j.n = <int> a.sizes[a.ndim - 2], <int> a.sizes[a.ndim - 1]
    if square and j.m != j.n:
        raise RuntimeError(f"{name}: square matrices are wanted, got shape {text(a)}")
    j.code = a.dtype
    j.size = ITEMSIZE[a.dtype]
    j.batches = 1
    for d in range(a.ndim - 2):
        j.batches *= a.sizes[d]
    return 0


cdef int same_batch(str name, const Meta* a, const Meta* b, int cut, int64_t rows) except -1:
    """b has a's batch before its last `cut` dimensions, of which the first is `rows`, and a's dtype."""
    cdef int d
    cdef bint ok = b.ndim - cut == a.ndim - 2 and (rows < 0 or b.sizes[b.ndim - cut] == rows)
    if ok:
        for d in range(a.ndim - 2):
            ok &= a.sizes[d] == b.sizes[d]
    if not ok:
        raise RuntimeError(f"{name}: operands of shapes {text(a)} and {text(b)} do not fit")
    return 0


cdef int same_type(str name, const Meta* a, const Meta* b) except -1:
    if a.dtype != b.dtype:
        raise RuntimeError(f"{name}: operands of one dtype are wanted, got {dtype_object(a.dtype).name} and "
                           f"{dtype_object(b.dtype).name}")
    return 0


cdef void place(Job* j, int slot, const Meta* y, int cut) noexcept:
    """Array `slot` of an item is the last `cut` dimensions of y."""
    cdef int64_t count = 1
    cdef int d
    for d in range(y.ndim - cut, y.ndim):
        count *= y.sizes[d]
    j.p[slot] = y.data
    j.step[slot] = count * ITEMSIZE[y.dtype]
    j.ld[slot] = <int> max(y.sizes[y.ndim - 2], 1) if cut == 2 else 1


cdef int columns_meta(Meta* y, const Meta* like, int64_t rows, int64_t columns, int code) except -1:
    """Column-major matrices over like's batch."""
    cdef int64_t sizes[MAXDIM]
    cdef int64_t strides[MAXDIM]
    cdef int64_t step = max(rows, 1) * max(columns, 1)
    cdef int d, nd = like.ndim
    for d in range(nd - 3, -1, -1):
        sizes[d] = like.sizes[d]
        strides[d] = step
        step *= max(sizes[d], 1)
    sizes[nd - 2], sizes[nd - 1] = rows, columns
    strides[nd - 2], strides[nd - 1] = 1, max(rows, 1)
    return meta_strided(y, nd, sizes, strides, code, NULL)


cdef Storage new_columns(Job* j, int slot, Meta* y, const Meta* like, int64_t rows, int64_t columns):
    cdef Storage s
    columns_meta(y, like, rows, columns, like.dtype)
    s = meta_storage(y)
    place(j, slot, y, 2)
    return s


cdef Storage copy_columns(Job* j, int slot, Meta* y, Meta* x):
    """A column-major copy of x, which the routine overwrites."""
    cdef Storage s = new_columns(j, slot, y, x, x.sizes[x.ndim - 2], x.sizes[x.ndim - 1])
    if y.numel:
        copy_into(y, x)
    return s


cdef Storage new_rows(Job* j, int slot, Meta* y, const Meta* like, int64_t count, int code):
    """One vector of `count` elements an item; one number where count is negative."""
    cdef int64_t sizes[MAXDIM]
    cdef int d, nd = like.ndim - 2
    cdef Storage s
    for d in range(nd):
        sizes[d] = like.sizes[d]
    sizes[nd] = count
    meta_contig(y, nd + (count >= 0), sizes, code)
    s = meta_storage(y)
    if y.numel:
        memset(y.data, 0, y.numel * ITEMSIZE[code])
    place(j, slot, y, count >= 0)
    return s


cdef Storage read_columns(Job* j, int slot, Meta* held, Meta* x):
    """x as it is where it is column-major, otherwise a copy; `held` is cleared by the caller."""
    cdef Storage s = None
    cdef Meta wanted
    cdef bint ok = True
    cdef int d
    memset(&wanted, 0, sizeof(Meta))
    columns_meta(&wanted, x, x.sizes[x.ndim - 2], x.sizes[x.ndim - 1], x.dtype)
    for d in range(x.ndim):
        ok &= x.strides[d] == wanted.strides[d]
    meta_clear(&wanted)
    if not ok:
        return copy_columns(j, slot, held, x)
    meta_like(held, x)
    place(j, slot, held, 2)
    return s


cdef Storage read_rows(Job* j, int slot, Meta* held, Meta* x):
    """Vectors, one an item."""
    cdef Storage s = None
    if x.flags & CONTIGUOUS:
        meta_like(held, x)
    else:
        s = op_clone(held, x, x.dtype, True)
    place(j, slot, held, 1)
    return s


# ---- workspace and execution

cdef inline void* item(const Job* j, int slot, int64_t i) noexcept nogil:
    return j.p[slot] + i * j.step[slot]


cdef inline int* info(const Job* j, int slot, int64_t i) noexcept nogil:
    return <int*> (j.p[slot] + i * 4)


cdef int best(const Job* j, const void* answer) noexcept nogil:
    """The workspace that a routine asked for, in elements. float32 cannot hold large counts: rounded up."""
    cdef double v = (<const float*> answer)[0] if j.code in (FLOAT32, COMPLEX64) else (<const double*> answer)[0]
    return <int> min(max(v * (1 + 1e-6) + 1, 1), 2147483647)


cdef int reserve(Job* j, int64_t elements, int64_t reals, int64_t ints) except -1:
    """Lay out one thread's workspace."""
    j.lwork = <int> max(elements, 1)
    j.rwork = (j.lwork * j.size + 63) // 64 * 64
    j.iwork = j.rwork + (max(reals, 1) * 8 + 63) // 64 * 64
    j.room = j.iwork + (max(ints, 1) * 4 + 63) // 64 * 64
    return 0


cdef int run_job(Job* j, Item f, double work) except -1:
    """Call f for every item; `work` is the multiply-adds of one."""
    cdef double total = work * j.batches
    cdef int threads = 1
    cdef int64_t i, t
    cdef char* room
    if j.batches == 0:
        return 0
    if total >= SPLIT_WORK and j.batches > 1:
        threads = <int> min(num_threads(), j.batches)
    room = <char*> malloc(max(j.room, 64) * threads)
    if room == NULL:
        raise MemoryError(f"no memory for a workspace of {max(j.room, 64) * threads} bytes")
    if total < QUIET_WORK:
        for i in range(j.batches):
            f(j, i, room)
    else:
        with nogil:
            if threads == 1:
                for i in range(j.batches):
                    f(j, i, room)
            else:
                for t in prange(threads, num_threads=threads, schedule="static"):
                    run_range(j, f, t * j.batches // threads, (t + 1) * j.batches // threads, room + t * j.room)
    free(room)
    return 0


cdef void run_range(Job* j, Item f, int64_t start, int64_t stop, char* room) noexcept nogil:
    cdef int64_t i
    for i in range(start, stop):
        f(j, i, room)


include "lapack_factor.pxi"
include "lapack_solve.pxi"
include "lapack_spectral.pxi"


# ---- the table

cdef struct Entry:
    Driver f
    int inputs
    int letters

cdef Entry ENTRIES[16]
cdef dict NUMBERS = {}


cdef int enter(str name, Driver f, int inputs, int letters) except -1:
    cdef int i = len(NUMBERS)
    ENTRIES[i].f, ENTRIES[i].inputs, ENTRIES[i].letters = f, inputs, letters
    NUMBERS[name] = i
    return 0


enter("getrf", run_getrf, 1, 0)
enter("potrf", run_potrf, 1, 1)
enter("geqrf", run_geqrf, 1, 0)
enter("orgqr", run_orgqr, 2, 0)
enter("ormqr", run_ormqr, 3, 2)
enter("sytrf", run_sytrf, 1, 2)
enter("getrs", run_getrs, 3, 1)
enter("trsm", run_trsm, 2, 4)
enter("sytrs", run_sytrs, 3, 2)
enter("gels", run_gels, 2, 1)
enter("gesdd", run_gesdd, 1, 1)
enter("syevd", run_syevd, 1, 2)
enter("geev", run_geev, 1, 1)


def routines():
    """Names of the drivers."""
    return list(NUMBERS)


cdef list lapack_call(str routine, Meta** x, int n, Meta** y, bytes letters, double rcond):
    cdef Job j
    cdef Entry e
    cdef int k
    found = NUMBERS.get(routine)
    if found is None:
        raise ValueError(f"there is no LAPACK driver {routine!r}")
    e = ENTRIES[<int> found]
    if n != e.inputs or len(letters) != e.letters:
        raise ValueError(f"{routine} takes {e.inputs} tensors and {e.letters} letters, got {n} and {letters!r}")
    memset(&j, 0, sizeof(Job))
    j.rcond = rcond
    if e.letters > 0:
        j.a = letters[0]
    if e.letters > 1:
        j.b = letters[1]
    if e.letters > 2:
        j.c, j.d = letters[2], letters[3]
    try:
        return e.f(x, n, y, &j)
    except BaseException:
        for k in range(LAPACK_RESULTS):
            meta_clear(y[k])
        raise
