# The iterator: one loop over strided operands. The only parallel region of pointwise work.
# Invariant: how the work is cut depends on sizes alone, never on the number of threads.
from cython.parallel cimport prange

cdef extern from *:
    """
    #ifdef _OPENMP
    #include <omp.h>
    #define HAS_OPENMP 1
    #else
    #define HAS_OPENMP 0
    static int omp_in_parallel(void) { return 0; }
    static int omp_get_max_threads(void) { return 1; }
    #endif
    """
    bint omp_in_parallel() noexcept nogil
    int omp_get_max_threads() noexcept nogil
    bint HAS_OPENMP

cdef enum:
    CHUNK = 16384      # elements a thread takes at a time; a multiple of 64, so vector bodies and tails never move
    TILE = 1024        # elements of a row that runs along an outer dimension: a few such rows fit the first cache
    SHORT = 16         # an inner dimension below this is not worth a call of its own

cdef int team = omp_get_max_threads()      # OMP_NUM_THREADS, or the processors that this process may use
cdef bint teamed = False                   # a region with more than one thread has run in this process
cdef bint orphan = False                   # forked after that: libgomp would wait for threads that no longer exist


cdef int num_threads() noexcept nogil:
    global teamed
    if team == 1 or omp_in_parallel():
        return 1
    teamed = True
    return team


def has_openmp():
    """Whether this was compiled with OpenMP: without it there is one thread."""
    return HAS_OPENMP


def get_num_threads():
    """Number of threads that large operations use."""
    return team


def set_num_threads(n):
    """Set the number of threads that large operations use.

    Raises
    ------
    RuntimeError
        If `n` is not a positive int, or if more than one thread is asked for in a process that was forked after its
        parent had used several: those threads do not exist here, and the thread library would wait for them for ever.
    """
    global team
    if not isinstance(n, int) or isinstance(n, bool):
        raise RuntimeError(f"set_num_threads expects an int, but got {type(n).__name__}")
    if not 0 < n <= 65536:
        raise RuntimeError(f"set_num_threads expects a positive integer up to 65536, got {n}")
    if n > 1 and orphan:
        raise RuntimeError(f"set_num_threads({n}): this process was forked from one that had used several threads, and "
                           f"can use only one; start it with the 'spawn' method instead")
    team = n


def _after_fork():
    global team, orphan
    cyg_forked()
    orphan = orphan or teamed
    team = 1


os.register_at_fork(after_in_child=_after_fork)


cdef void iter_build(Iter* it, Meta** ops, int nop, int ndim, const int64_t* sizes) noexcept:
    cdef int64_t n = 1
    cdef bint flat = True
    cdef int k, d
    for d in range(ndim):
        n *= sizes[d]
    it.nop = nop
    it.numel = n
    for k in range(nop):
        it.p[k] = ops[k].data
        # An operand with as many elements as the result is not repeated, and a single element is at home everywhere.
        if ops[k].numel == n and ops[k].flags & CONTIGUOUS:
            it.st[0][k] = ITEMSIZE[ops[k].dtype]
        elif ops[k].numel == 1:
            it.st[0][k] = 0
        else:
            flat = False
    if flat or n == 0:
        it.ndim = 1
        it.sizes[0] = n
        return
    gather_dims(it, ops, ndim, sizes)
    sort_dims(it)
    join_dims(it)


cdef void gather_dims(Iter* it, Meta** ops, int ndim, const int64_t* sizes) noexcept:
    """Sizes and byte strides of the dimensions above 1, last dimension first."""
    cdef int k, d, e, n = 0
    cdef const Meta* m
    for d in range(ndim - 1, -1, -1):
        if sizes[d] == 1:
            continue
        it.sizes[n] = sizes[d]
        for k in range(it.nop):
            m = ops[k]
            e = d - ndim + m.ndim
            it.st[n][k] = 0 if e < 0 or m.sizes[e] == 1 else m.strides[e] * ITEMSIZE[m.dtype]
        n += 1
    it.ndim = n


cdef inline bint inside(const Iter* it, int a, int b) noexcept:
    """Whether dimension a belongs inside b: by the first operand that moves along both and tells them apart."""
    cdef int k
    for k in range(it.nop):
        if it.st[a][k] != 0 and it.st[b][k] != 0 and it.st[a][k] != it.st[b][k]:
            return it.st[a][k] < it.st[b][k]
    return False


cdef void swap_dims(Iter* it, int a, int b) noexcept:
    cdef int k
    it.sizes[a], it.sizes[b] = it.sizes[b], it.sizes[a]
    for k in range(it.nop):
        it.st[a][k], it.st[b][k] = it.st[b][k], it.st[a][k]


cdef void sort_dims(Iter* it) noexcept:
    cdef int i, j
    for i in range(1, it.ndim):
        j = i
        while j > 0 and inside(it, j, j - 1):
            swap_dims(it, j, j - 1)
            j -= 1


cdef void join_dims(Iter* it) noexcept:
    """Merge each dimension into the one inside it where every operand steps on evenly."""
    cdef int d, k, last = 0
    cdef bint even
    for d in range(1, it.ndim):
        even = True
        for k in range(it.nop):
            even &= it.st[d][k] == it.sizes[last] * it.st[last][k]
        if even:
            it.sizes[last] *= it.sizes[d]
        else:
            last += 1
            it.sizes[last] = it.sizes[d]
            for k in range(it.nop):
                it.st[last][k] = it.st[d][k]
    it.ndim = last + 1


cdef struct Plan:              # how an iteration is cut into rows: runs of at most `tile` elements along one dimension
    int row
    int64_t tile
    int64_t count[MAXDIM]      # sizes, but the number of tiles for `row`
    int64_t rows               # product of count
    int64_t per                # rows in one chunk


cdef void make_plan(Plan* plan, const Iter* it) noexcept nogil:
    """Rows run along the innermost dimension; if that is very short, along the longest one, in tiles."""
    cdef int d
    plan.row = 0
    plan.tile = CHUNK
    if it.sizes[0] < SHORT:
        for d in range(1, it.ndim):
            if it.sizes[d] > it.sizes[plan.row]:
                plan.row = d
        if plan.row > 0:
            plan.tile = TILE
    plan.rows = 1
    for d in range(it.ndim):
        plan.count[d] = it.sizes[d]
        if d == plan.row:
            plan.count[d] = (it.sizes[d] + plan.tile - 1) // plan.tile
        plan.rows *= plan.count[d]
    plan.per = CHUNK // min(plan.tile, it.sizes[plan.row])


cdef void run_rows(const Iter* it, const Plan* plan, int64_t first, int64_t stop, Loop f,
                   const double* attr) noexcept nogil:
    """Rows `first` to `stop` of the plan, in order."""
    cdef int64_t c[MAXDIM]
    cdef int64_t step[MAXOPS]      # of one tile along the row dimension
    cdef char* p[MAXOPS]
    cdef int64_t rest = first, i, n
    cdef int row = plan.row, nop = it.nop, d, k
    for k in range(nop):
        p[k] = it.p[k]
        step[k] = it.st[row][k] * plan.tile
    for d in range(it.ndim):
        c[d] = rest % plan.count[d]
        rest //= plan.count[d]
        for k in range(nop):
            p[k] += c[d] * (step[k] if d == row else it.st[d][k])
    for i in range(first, stop):
        n = it.sizes[row] - c[row] * plan.tile
        f(p, it.st[row], n if n < plan.tile else plan.tile, attr)
        for d in range(it.ndim):
            c[d] += 1
            if c[d] < plan.count[d]:
                for k in range(nop):
                    p[k] += step[k] if d == row else it.st[d][k]
                break
            for k in range(nop):
                p[k] -= (c[d] - 1) * (step[k] if d == row else it.st[d][k])
            c[d] = 0


cdef void iter_run(Iter* it, Loop f, const double* attr) noexcept nogil:
    cdef Plan plan
    cdef int64_t i, chunks
    cdef int threads
    if it.numel == 0:
        return
    if it.ndim == 1 and it.numel < GRAIN:
        f(it.p, it.st[0], it.numel, attr)
        return
    make_plan(&plan, it)
    threads = 1 if it.numel < GRAIN else num_threads()
    if threads == 1:
        run_rows(it, &plan, 0, plan.rows, f, attr)
        return
    chunks = (plan.rows + plan.per - 1) // plan.per
    for i in prange(chunks, num_threads=threads, schedule="static"):
        run_rows(it, &plan, i * plan.per, min((i + 1) * plan.per, plan.rows), f, attr)


cdef void iter_run_gil(Iter* it, Loop f, const double* attr) noexcept:
    if it.numel < NOGIL:
        iter_run(it, f, attr)
    else:
        with nogil:
            iter_run(it, f, attr)
