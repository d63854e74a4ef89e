# Systems with a factored matrix (getrs, trsm, sytrs), and least squares (gels and its kin).

ctypedef void (*Getrs)(char*, int*, int*, void*, int*, int*, void*, int*, int*, size_t) noexcept nogil
ctypedef void (*Trsm)(char*, char*, char*, char*, int*, int*, void*, void*, int*, void*, int*, size_t, size_t, size_t,
                      size_t) noexcept nogil
ctypedef void (*Gels)(char*, int*, int*, int*, void*, int*, void*, int*, void*, int*, int*, size_t) noexcept nogil
# gelsy: m, n, nrhs, a, lda, b, ldb, jpvt, rcond, rank, work, lwork, (rwork,) info
ctypedef void (*GelsyReal)(int*, int*, int*, void*, int*, void*, int*, int*, void*, int*, void*, int*,
                           int*) noexcept nogil
ctypedef void (*GelsyComplex)(int*, int*, int*, void*, int*, void*, int*, int*, void*, int*, void*, int*, void*,
                              int*) noexcept nogil
# gelss: m, n, nrhs, a, lda, b, ldb, s, rcond, rank, work, lwork, (rwork,) info; gelsd: ..., iwork before info
ctypedef void (*GelssReal)(int*, int*, int*, void*, int*, void*, int*, void*, void*, int*, void*, int*,
                           int*) noexcept nogil
ctypedef void (*GelsdReal)(int*, int*, int*, void*, int*, void*, int*, void*, void*, int*, void*, int*, int*,
                           int*) noexcept nogil
ctypedef void (*GelssComplex)(int*, int*, int*, void*, int*, void*, int*, void*, void*, int*, void*, int*, void*,
                              int*) noexcept nogil
ctypedef void (*GelsdComplex)(int*, int*, int*, void*, int*, void*, int*, void*, void*, int*, void*, int*, void*, int*,
                              int*) noexcept nogil


# LU (n x n), pivots (int32), b (n x k) -> x (n x k); letter: N, T or C
cdef void getrs_item(Job* j, int64_t i, char* work) noexcept nogil:
    cdef int failed = 0
    (<Getrs> j.f)(&j.a, &j.n, &j.k, item(j, 1, i), &j.ld[1], <int*> item(j, 2, i), item(j, 0, i), &j.ld[0], &failed,
                  ONE)


cdef int check_pivots(const Meta* pivots, int64_t n) except -1:
    """A pivot outside 1..n would make LAPACK swap rows outside the matrix."""
    cdef int64_t i
    for i in range(pivots.numel):
        if (<const int*> pivots.data)[i] < 1 or (<const int*> pivots.data)[i] > n:
            raise RuntimeError(f"lu_solve: pivots must be between 1 and {n}, the size of the matrix, got "
                               f"{(<const int*> pivots.data)[i]}")
    return 0


cdef list run_getrs(Meta** x, int n, Meta** y, Job* j):
    cdef Meta lu, pivots
    open_job(j, "getrs", x[0], True)
    same_batch("getrs", x[0], x[1], 1, j.n)
    same_batch("getrs", x[0], x[2], 2, j.n)
    same_type("getrs", x[0], x[2])
    if x[1].dtype != INT32:
        raise RuntimeError(f"getrs: pivots of dtype int32 are wanted, got {dtype_object(x[1].dtype).name}")
    j.k = <int> x[2].sizes[x[2].ndim - 1]
    j.f = routine("getrs", "getrs", j.code)
    s = [copy_columns(j, 0, y[0], x[2])]
    if j.n and j.k:
        memset(&lu, 0, sizeof(Meta))
        memset(&pivots, 0, sizeof(Meta))
        try:
            keep = read_columns(j, 1, &lu, x[0]), read_rows(j, 2, &pivots, x[1])
            check_pivots(&pivots, j.n)
            run_job(j, getrs_item, <double> j.n * j.n * j.k)
        finally:
            meta_clear(&lu)
            meta_clear(&pivots)
    return s


# a (triangular), b (m x n) -> x (m x n); letters of xTRSM: side, uplo, trans, diag
cdef void trsm_item(Job* j, int64_t i, char* work) noexcept nogil:
    cdef double one[2]
    one[0] = one[1] = 0
    if j.code == FLOAT32 or j.code == COMPLEX64:
        (<float*> one)[0] = 1
    else:
        one[0] = 1
    (<Trsm> j.f)(&j.a, &j.b, &j.c, &j.d, &j.m, &j.n, one, item(j, 1, i), &j.ld[1], item(j, 0, i), &j.ld[0], ONE, ONE,
                 ONE, ONE)


cdef list run_trsm(Meta** x, int n, Meta** y, Job* j):
    cdef Meta a
    cdef int64_t order
    open_job(j, "trsm", x[1], False)
    order = j.m if j.a == c'L' else j.n
    same_batch("trsm", x[1], x[0], 2, order)
    same_type("trsm", x[0], x[1])
    if x[0].sizes[x[0].ndim - 1] != order:
        raise RuntimeError(f"trsm: square matrices are wanted, got shape {text(x[0])}")
    j.f = routine("trsm", "trsm", j.code)
    s = [copy_columns(j, 0, y[0], x[1])]
    if j.m and j.n:
        memset(&a, 0, sizeof(Meta))
        try:
            keep = read_columns(j, 1, &a, x[0])
            run_job(j, trsm_item, <double> order * j.m * j.n / 2)
        finally:
            meta_clear(&a)
    return s


# LDL (n x n), pivots (int32), b (n x k) -> x (n x k); letters: uplo, H for Hermitian
cdef void sytrs_item(Job* j, int64_t i, char* work) noexcept nogil:
    cdef int failed = 0
    (<Getrs> j.f)(&j.a, &j.n, &j.k, item(j, 1, i), &j.ld[1], <int*> item(j, 2, i), item(j, 0, i), &j.ld[0], &failed,
                  ONE)


cdef int check_symmetric_pivots(const Meta* pivots, int64_t n) except -1:
    """Negative pivots come in pairs and mark a block of two; the first one of a lower factor is not in the last row."""
    cdef int64_t i, v
    for i in range(pivots.numel):
        v = (<const int*> pivots.data)[i]
        if v == 0 or v > n or v < -n:
            raise RuntimeError(f"ldl_solve: pivots must be between 1 and {n}, the size of the matrix, or their "
                               f"negatives, got {v}")
    if n == 1:
        for i in range(pivots.numel):
            if (<const int*> pivots.data)[i] < 0:
                raise RuntimeError("ldl_solve: a matrix of one row has no block of two, but its pivot is negative")
    return 0


cdef int check_blocks(const Meta* pivots, int64_t n) except -1:
    """Walk the factor as the routine does: each negative pivot has a partner beside it."""
    cdef const int* p = <const int*> pivots.data
    cdef int64_t first, k
    for first in range(0, pivots.numel, n):
        k = 0
        while k < n:
            if p[first + k] > 0:
                k += 1
                continue
            if k + 1 >= n or p[first + k + 1] > 0:
                raise RuntimeError("ldl_solve: negative pivots must come in pairs, which mark blocks of two")
            k += 2
    return 0


cdef list run_sytrs(Meta** x, int n, Meta** y, Job* j):
    cdef Meta ldl, pivots
    open_job(j, "sytrs", x[0], True)
    same_batch("sytrs", x[0], x[1], 1, j.n)
    same_batch("sytrs", x[0], x[2], 2, j.n)
    same_type("sytrs", x[0], x[2])
    if x[1].dtype != INT32:
        raise RuntimeError(f"sytrs: pivots of dtype int32 are wanted, got {dtype_object(x[1].dtype).name}")
    j.k = <int> x[2].sizes[x[2].ndim - 1]
    j.f = routine("sytrs", "hetrs" if j.b == c'H' else "sytrs", j.code)
    s = [copy_columns(j, 0, y[0], x[2])]
    if j.n and j.k:
        memset(&ldl, 0, sizeof(Meta))
        memset(&pivots, 0, sizeof(Meta))
        try:
            keep = read_columns(j, 1, &ldl, x[0]), read_rows(j, 2, &pivots, x[1])
            check_symmetric_pivots(&pivots, j.n)
            check_blocks(&pivots, j.n)
            run_job(j, sytrs_item, <double> j.n * j.n * j.k)
        finally:
            meta_clear(&ldl)
            meta_clear(&pivots)
    return s


# Least squares: a (m x n), b (max(m, n) x k, of which the first m rows are read) -> x and residuals in b's shape, rank
# (int32), singular values (letters d and s), info. The letter ends the routine's name: "-" gels, y, d, s.
cdef void gels_item(Job* j, int64_t i, char* work) noexcept nogil:
    cdef void* a = item(j, 4, i)
    cdef void* b = item(j, 0, i)
    cdef int* rank = <int*> item(j, 1, i)
    cdef void* s = item(j, 2, i)
    cdef int* failed = info(j, 3, i)
    cdef double number[1]
    cdef char plain = c'N'
    cdef void* real = work + j.rwork
    cdef int* whole = <int*> (work + j.iwork)
    if j.code == FLOAT32 or j.code == COMPLEX64:
        (<float*> number)[0] = <float> j.rcond
    else:
        number[0] = j.rcond
    if j.a == c'-':
        (<Gels> j.f)(&plain, &j.m, &j.n, &j.k, a, &j.ld[4], b, &j.ld[0], work, &j.lwork, failed, ONE)
    elif j.a == c'y':
        memset(whole, 0, 4 * j.n)        # no column is fixed
        if is_real(j):
            (<GelsyReal> j.f)(&j.m, &j.n, &j.k, a, &j.ld[4], b, &j.ld[0], whole, number, rank, work, &j.lwork, failed)
        else:
            (<GelsyComplex> j.f)(&j.m, &j.n, &j.k, a, &j.ld[4], b, &j.ld[0], whole, number, rank, work, &j.lwork, real,
                                 failed)
    elif j.a == c's':
        if is_real(j):
            (<GelssReal> j.f)(&j.m, &j.n, &j.k, a, &j.ld[4], b, &j.ld[0], s, number, rank, work, &j.lwork, failed)
        else:
            (<GelssComplex> j.f)(&j.m, &j.n, &j.k, a, &j.ld[4], b, &j.ld[0], s, number, rank, work, &j.lwork, real,
                                 failed)
    elif is_real(j):
        (<GelsdReal> j.f)(&j.m, &j.n, &j.k, a, &j.ld[4], b, &j.ld[0], s, number, rank, work, &j.lwork, whole, failed)
    else:
        (<GelsdComplex> j.f)(&j.m, &j.n, &j.k, a, &j.ld[4], b, &j.ld[0], s, number, rank, work, &j.lwork, real, whole,
                             failed)


cdef int ask_gels(Job* j) except -1:
    """Query the workspace by a call of the first item with length -1."""
    cdef char answer[192]
    cdef double room[1]
    cdef int64_t small = min(j.m, j.n), reals = 0, ints = j.n
    memset(answer, 0, sizeof(answer))
    j.lwork = -1
    j.rwork, j.iwork = 64, 128               # the answers' places
    if j.a == c'y' and j.n * 4 > 64:         # the driver clears the pivots: no call, but the documented formula
        j.lwork = 0
        reserve(j, 66 * max(small + 2 * j.n + 64, 64) + 64 * j.k + 2 * small + 2 * j.n, 2 * j.n, j.n)
        return 0
    gels_item(j, 0, answer)
    info(j, 3, 0)[0] = 0
    if j.a == c'd':
        ints = max((<int*> (answer + 128))[0], 11 * small + 3 * small * 32)
        if not is_real(j):
            room[0] = (<float*> (answer + 64))[0] if j.code == COMPLEX64 else (<double*> (answer + 64))[0]
            reals = <int64_t> room[0] + 64
    elif j.a == c's':
        reals = 5 * small
    elif j.a == c'y':
        reals = 2 * j.n
    reserve(j, best(j, answer) + 64, reals, ints)
    return 0


cdef list run_gels(Meta** x, int n, Meta** y, Job* j):
    cdef Meta a
    cdef str name
    open_job(j, "gels", x[0], False)
    same_batch("gels", x[0], x[1], 2, max(j.m, j.n))
    same_type("gels", x[0], x[1])
    j.k = <int> x[1].sizes[x[1].ndim - 1]
    if j.a not in (c'-', c'y', c'd', c's'):
        raise ValueError("gels takes the letter -, y, d or s")
    name = "gels" if j.a == c'-' else "gels" + chr(j.a)
    j.f = routine(name, name, j.code)
    s = [copy_columns(j, 0, y[0], x[1]), new_rows(j, 1, y[1], x[0], -1, INT32),
         new_rows(j, 2, y[2], x[0], min(j.m, j.n), real_code(j.code)), new_rows(j, 3, y[3], x[0], -1, INT32)]
    if j.m and j.n and j.k and j.batches:
        memset(&a, 0, sizeof(Meta))
        try:
            keep = copy_columns(j, 4, &a, x[0])
            ask_gels(j)
            run_job(j, gels_item, 4.0 * j.m * j.n * min(j.m, j.n))
        finally:
            meta_clear(&a)
    return s
