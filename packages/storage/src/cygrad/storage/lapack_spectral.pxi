# Singular values (gesdd), eigenvalues of symmetric (syevd) and general matrices (geev).

# jobz, m, n, a, lda, s, u, ldu, vt, ldvt, work, lwork, (rwork,) iwork, info
ctypedef void (*GesddReal)(char*, int*, int*, void*, int*, void*, void*, int*, void*, int*, void*, int*, int*, int*,
                           size_t) noexcept nogil
ctypedef void (*GesddComplex)(char*, int*, int*, void*, int*, void*, void*, int*, void*, int*, void*, int*, void*,
                              int*, int*, size_t) noexcept nogil
# jobz, uplo, n, a, lda, w, work, lwork, (rwork, lrwork,) iwork, liwork, info
ctypedef void (*SyevdReal)(char*, char*, int*, void*, int*, void*, void*, int*, int*, int*, int*, size_t,
                           size_t) noexcept nogil
ctypedef void (*SyevdComplex)(char*, char*, int*, void*, int*, void*, void*, int*, void*, int*, int*, int*, int*,
                              size_t, size_t) noexcept nogil
# jobvl, jobvr, n, a, lda, (wr, wi | w), vl, ldvl, vr, ldvr, work, lwork, (rwork,) info
ctypedef void (*GeevReal)(char*, char*, int*, void*, int*, void*, void*, void*, int*, void*, int*, void*, int*, int*,
                          size_t, size_t) noexcept nogil
ctypedef void (*GeevComplex)(char*, char*, int*, void*, int*, void*, void*, int*, void*, int*, void*, int*, void*,
                             int*, size_t, size_t) noexcept nogil


# a (m x n) -> U, S, Vh, info; letter A: square U and Vh, S: thin ones, N: empty ones
cdef void gesdd_item(Job* j, int64_t i, char* work) noexcept nogil:
    cdef int* whole = <int*> (work + j.iwork)
    if is_real(j):
        (<GesddReal> j.f)(&j.a, &j.m, &j.n, item(j, 4, i), &j.ld[4], item(j, 1, i), item(j, 0, i), &j.ld[0],
                          item(j, 2, i), &j.ld[2], work, &j.lwork, whole, info(j, 3, i), ONE)
    else:
        (<GesddComplex> j.f)(&j.a, &j.m, &j.n, item(j, 4, i), &j.ld[4], item(j, 1, i), item(j, 0, i), &j.ld[0],
                             item(j, 2, i), &j.ld[2], work, &j.lwork, work + j.rwork, whole, info(j, 3, i), ONE)


cdef list run_gesdd(Meta** x, int n, Meta** y, Job* j):
    cdef Meta a
    cdef int64_t small, large, reals = 0, rows, columns
    cdef char answer[128]
    open_job(j, "gesdd", x[0], False)
    j.f = routine("gesdd", "gesdd", j.code)
    small, large = min(j.m, j.n), max(j.m, j.n)
    rows = j.m if j.a != c'N' else 0
    columns = j.n if j.a != c'N' else 0
    s = [new_columns(j, 0, y[0], x[0], rows, j.m if j.a == c'A' else small if rows else 0),
         new_rows(j, 1, y[1], x[0], small, real_code(j.code)),
         new_columns(j, 2, y[2], x[0], j.n if j.a == c'A' else small if columns else 0, columns),
         new_rows(j, 3, y[3], x[0], -1, INT32)]
    if small and j.batches:
        memset(&a, 0, sizeof(Meta))
        try:
            keep = copy_columns(j, 4, &a, x[0])
            if not is_real(j):
                reals = (max(5 * small * small + 5 * small, 2 * large * small + 2 * small * small + small)
                         if j.a != c'N' else 7 * small)
            j.lwork, j.rwork, j.iwork = -1, 64, 64
            gesdd_item(j, 0, answer)
            info(j, 3, 0)[0] = 0
            reserve(j, best(j, answer), reals, 8 * small)
            run_job(j, gesdd_item, 4.0 * j.m * j.n * small)
        finally:
            meta_clear(&a)
    return s


# a (n x n) -> eigenvalues (ascending), eigenvectors (with letter V; otherwise what is left), info; letters: N or V, uplo
cdef void syevd_item(Job* j, int64_t i, char* work) noexcept nogil:
    cdef int liwork = j.k if j.lwork > 0 else -1
    cdef int lrwork = <int> ((j.iwork - j.rwork) // 8) if j.lwork > 0 else -1
    cdef int* whole = <int*> (work + j.iwork)
    if is_real(j):
        (<SyevdReal> j.f)(&j.a, &j.b, &j.n, item(j, 1, i), &j.ld[1], item(j, 0, i), work, &j.lwork, whole, &liwork,
                          info(j, 2, i), ONE, ONE)
    else:
        (<SyevdComplex> j.f)(&j.a, &j.b, &j.n, item(j, 1, i), &j.ld[1], item(j, 0, i), work, &j.lwork,
                             work + j.rwork, &lrwork, whole, &liwork, info(j, 2, i), ONE, ONE)


cdef list run_syevd(Meta** x, int n, Meta** y, Job* j):
    cdef char answer[192]
    cdef int64_t reals = 0
    open_job(j, "syevd", x[0], True)
    j.f = routine("syevd", "heevd", j.code)
    s = [new_rows(j, 0, y[0], x[0], j.n, real_code(j.code)), copy_columns(j, 1, y[1], x[0]),
         new_rows(j, 2, y[2], x[0], -1, INT32)]
    if j.n and j.batches:
        memset(answer, 0, sizeof(answer))
        j.lwork, j.rwork, j.iwork = -1, 64, 128
        syevd_item(j, 0, answer)
        info(j, 2, 0)[0] = 0
        j.k = max((<int*> (answer + 128))[0], 1)
        if not is_real(j):
            reals = 1 + 5 * <int64_t> j.n + 2 * <int64_t> j.n * j.n
        reserve(j, best(j, answer), reals, j.k)
        run_job(j, syevd_item, 4.0 * j.n * j.n * j.n)
    return s


# a (n x n) -> eigenvalues, eigenvectors (letter V; otherwise empty), info. For real elements the eigenvalues come as
# real and imaginary parts, (..., 2, n), and the eigenvectors as LAPACK packs pairs: real part, imaginary part.
cdef void geev_item(Job* j, int64_t i, char* work) noexcept nogil:
    cdef char* w = <char*> item(j, 0, i)
    cdef char left = c'N'
    cdef int unused = 1
    if is_real(j):
        (<GeevReal> j.f)(&left, &j.a, &j.n, item(j, 3, i), &j.ld[3], w, w + j.n * j.size, NULL, &unused,
                         item(j, 1, i), &j.ld[1], work, &j.lwork, info(j, 2, i), ONE, ONE)
    else:
        (<GeevComplex> j.f)(&left, &j.a, &j.n, item(j, 3, i), &j.ld[3], w, NULL, &unused, item(j, 1, i), &j.ld[1],
                            work, &j.lwork, work + j.rwork, info(j, 2, i), ONE, ONE)


cdef list run_geev(Meta** x, int n, Meta** y, Job* j):
    cdef Meta a
    cdef char answer[128]
    cdef int64_t order
    open_job(j, "geev", x[0], True)
    j.f = routine("geev", "geev", j.code)
    order = j.n if j.a == c'V' else 0
    s = [new_rows(j, 0, y[0], x[0], j.n * (2 if is_real(j) else 1), j.code),
         new_columns(j, 1, y[1], x[0], order, order), new_rows(j, 2, y[2], x[0], -1, INT32)]
    if j.n and j.batches:
        memset(&a, 0, sizeof(Meta))
        try:
            keep = copy_columns(j, 3, &a, x[0])
            j.lwork, j.rwork = -1, 64
            geev_item(j, 0, answer)
            info(j, 2, 0)[0] = 0
            reserve(j, best(j, answer), 2 * <int64_t> j.n, 0)
            run_job(j, geev_item, 10.0 * j.n * j.n * j.n)
        finally:
            meta_clear(&a)
    return s
