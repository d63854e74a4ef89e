# Factors: triangular (getrf, potrf), orthogonal (geqrf, orgqr, ormqr), symmetric indefinite (sytrf).

ctypedef void (*Getrf)(int*, int*, void*, int*, int*, int*) noexcept nogil
ctypedef void (*Potrf)(char*, int*, void*, int*, int*, size_t) noexcept nogil
ctypedef void (*Geqrf)(int*, int*, void*, int*, void*, void*, int*, int*) noexcept nogil
ctypedef void (*Orgqr)(int*, int*, int*, void*, int*, void*, void*, int*, int*) noexcept nogil
ctypedef void (*Ormqr)(char*, char*, int*, int*, int*, void*, int*, void*, void*, int*, void*, int*, int*, size_t,
                       size_t) noexcept nogil
ctypedef void (*Sytrf)(char*, int*, void*, int*, int*, void*, int*, int*, size_t) noexcept nogil


# a (m x n) -> LU (m x n), pivots (int32, 1-based), info
cdef void getrf_item(Job* j, int64_t i, char* work) noexcept nogil:
    (<Getrf> j.f)(&j.m, &j.n, item(j, 0, i), &j.ld[0], <int*> item(j, 1, i), info(j, 2, i))


cdef list run_getrf(Meta** x, int n, Meta** y, Job* j):
    open_job(j, "getrf", x[0], False)
    j.f = routine("getrf", "getrf", j.code)
    s = [copy_columns(j, 0, y[0], x[0]), new_rows(j, 1, y[1], x[0], min(j.m, j.n), INT32),
         new_rows(j, 2, y[2], x[0], -1, INT32)]
    if j.m and j.n:
        run_job(j, getrf_item, <double> j.m * j.n * min(j.m, j.n))
    return s


# a (n x n, of which the triangle a is read) -> factor with zeros in the other triangle, info
cdef void potrf_item(Job* j, int64_t i, char* work) noexcept nogil:
    cdef char* p = <char*> item(j, 0, i)
    cdef int64_t k
    (<Potrf> j.f)(&j.a, &j.n, p, &j.ld[0], info(j, 1, i), ONE)
    for k in range(j.n):
        if j.a == c'L':
            memset(p + k * j.n * j.size, 0, k * j.size)
        else:
            memset(p + (k * j.n + k + 1) * j.size, 0, (j.n - k - 1) * j.size)


cdef list run_potrf(Meta** x, int n, Meta** y, Job* j):
    open_job(j, "potrf", x[0], True)
    j.f = routine("potrf", "potrf", j.code)
    s = [copy_columns(j, 0, y[0], x[0]), new_rows(j, 1, y[1], x[0], -1, INT32)]
    if j.n:
        run_job(j, potrf_item, <double> j.n * j.n * j.n / 3)
    return s


# a (m x n) -> reflectors below R (m x n), tau
cdef void geqrf_item(Job* j, int64_t i, char* work) noexcept nogil:
    cdef int failed = 0
    (<Geqrf> j.f)(&j.m, &j.n, item(j, 0, i), &j.ld[0], item(j, 1, i), work, &j.lwork, &failed)


cdef list run_geqrf(Meta** x, int n, Meta** y, Job* j):
    cdef int ask = -1, failed = 0
    cdef double answer[2]
    open_job(j, "geqrf", x[0], False)
    j.f = routine("geqrf", "geqrf", j.code)
    s = [copy_columns(j, 0, y[0], x[0]), new_rows(j, 1, y[1], x[0], min(j.m, j.n), j.code)]
    if j.m and j.n:
        (<Geqrf> j.f)(&j.m, &j.n, j.p[0], &j.ld[0], j.p[1], answer, &ask, &failed)
        reserve(j, max(best(j, answer), j.n), 0, 0)
        run_job(j, geqrf_item, 2.0 * j.m * j.n * min(j.m, j.n))
    return s


# reflectors (m x n, n <= m), tau (k <= n) -> Q (m x n)
cdef void orgqr_item(Job* j, int64_t i, char* work) noexcept nogil:
    cdef int failed = 0
    (<Orgqr> j.f)(&j.m, &j.n, &j.k, item(j, 0, i), &j.ld[0], item(j, 1, i), work, &j.lwork, &failed)


cdef list run_orgqr(Meta** x, int n, Meta** y, Job* j):
    cdef int ask = -1, failed = 0
    cdef double answer[2]
    cdef Meta tau
    open_job(j, "orgqr", x[0], False)
    same_batch("orgqr", x[0], x[1], 1, -1)
    same_type("orgqr", x[0], x[1])
    j.k = <int> x[1].sizes[x[1].ndim - 1]
    if j.n > j.m or j.k > j.n:
        raise RuntimeError(f"orgqr: reflectors of shape {text(x[0])} and {text(x[1])} do not fit")
    j.f = routine("orgqr", "ungqr", j.code)
    s = [copy_columns(j, 0, y[0], x[0])]
    if j.m and j.n:
        memset(&tau, 0, sizeof(Meta))
        keep = read_rows(j, 1, &tau, x[1])
        (<Orgqr> j.f)(&j.m, &j.n, &j.k, j.p[0], &j.ld[0], j.p[1], answer, &ask, &failed)
        try:
            reserve(j, max(best(j, answer), j.n), 0, 0)
            run_job(j, orgqr_item, 2.0 * j.m * j.n * j.n)
        finally:
            meta_clear(&tau)
    return s


# reflectors (q x k), tau (k), c (m x n) -> Q c (side L) or c Q (side R), with Q's adjoint for letter 2 = T
cdef void ormqr_item(Job* j, int64_t i, char* work) noexcept nogil:
    cdef int failed = 0
    (<Ormqr> j.f)(&j.a, &j.b, &j.m, &j.n, &j.k, item(j, 1, i), &j.ld[1], item(j, 2, i), item(j, 0, i), &j.ld[0], work,
                  &j.lwork, &failed, ONE, ONE)


cdef list run_ormqr(Meta** x, int n, Meta** y, Job* j):
    cdef int ask = -1, failed = 0
    cdef double answer[2]
    cdef int64_t order
    cdef Meta q, tau
    open_job(j, "ormqr", x[2], False)
    order = j.m if j.a == c'L' else j.n
    same_batch("ormqr", x[2], x[0], 2, order)
    same_batch("ormqr", x[2], x[1], 1, -1)
    same_type("ormqr", x[0], x[1])
    same_type("ormqr", x[0], x[2])
    j.k = <int> x[1].sizes[x[1].ndim - 1]
    if j.k > order or j.k > x[0].sizes[x[0].ndim - 1]:
        raise RuntimeError(f"ormqr: reflectors of shape {text(x[0])} and {text(x[1])} do not fit")
    if j.b == c'T' and not is_real(j):
        j.b = c'C'
    j.f = routine("ormqr", "unmqr", j.code)
    s = [copy_columns(j, 0, y[0], x[2])]
    if j.m and j.n and j.k:
        memset(&q, 0, sizeof(Meta))
        memset(&tau, 0, sizeof(Meta))
        try:
            keep = read_columns(j, 1, &q, x[0]), read_rows(j, 2, &tau, x[1])
            (<Ormqr> j.f)(&j.a, &j.b, &j.m, &j.n, &j.k, j.p[1], &j.ld[1], j.p[2], j.p[0], &j.ld[0], answer, &ask,
                          &failed, ONE, ONE)
            reserve(j, max(best(j, answer), max(j.m, j.n)), 0, 0)
            run_job(j, ormqr_item, 2.0 * j.m * j.n * j.k)
        finally:
            meta_clear(&q)
            meta_clear(&tau)
    return s


# a (n x n, of which the triangle a is read; letter b = H: Hermitian) -> LDL (n x n), pivots (int32), info
cdef void sytrf_item(Job* j, int64_t i, char* work) noexcept nogil:
    (<Sytrf> j.f)(&j.a, &j.n, item(j, 0, i), &j.ld[0], <int*> item(j, 1, i), work, &j.lwork, info(j, 2, i), ONE)


cdef list run_sytrf(Meta** x, int n, Meta** y, Job* j):
    cdef int ask = -1, failed = 0
    cdef double answer[2]
    open_job(j, "sytrf", x[0], True)
    j.f = routine("sytrf", "hetrf" if j.b == c'H' else "sytrf", j.code)
    s = [copy_columns(j, 0, y[0], x[0]), new_rows(j, 1, y[1], x[0], j.n, INT32), new_rows(j, 2, y[2], x[0], -1, INT32)]
    if j.n and j.batches:
        (<Sytrf> j.f)(&j.a, &j.n, j.p[0], &j.ld[0], <int*> j.p[1], answer, &ask, &failed, ONE)
        reserve(j, max(best(j, answer), j.n), 0, 0)
        run_job(j, sytrf_item, <double> j.n * j.n * j.n / 3)
    return s
