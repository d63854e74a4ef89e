# Kernel group "moment": variance, norms and log-sum-exp. Accumulators are double whatever the element type.
from libc.math cimport INFINITY, fabs
include "_reduce.pxi"
include "_vecmath.pxi"

cdef enum:
    LANES = 16
    BLOCK = 512            # elements whose own mean, or own largest element, is taken before they join the running one
    ROWS = 64              # the same for rows across outputs
    ANY_POWER = 0          # of sum(|x| ** p), and the two powers that need no pow
    COUNT = 1
    ABSOLUTE = 2
    LARGEST = 0
    SMALLEST = 1


# ---- variance: blocks in two passes, joined by the update of Chan, Golub and LeVeque (1979)

cdef inline void join(double* mean, double* squares, double* count, double mean2, double squares2,
                      double count2) noexcept nogil:
    cdef double total = count[0] + count2
    cdef double delta = mean2 - mean[0]
    mean[0] += delta * (count2 / total)
    squares[0] += squares2 + delta * delta * (count[0] * count2 / total)
    count[0] = total


cdef double sum_block(const char* x, int64_t n, int64_t st, const real* tag) noexcept nogil:
    cdef double lane[LANES]
    cdef double total = 0
    cdef int64_t i = 0, j
    for j in range(LANES):
        lane[j] = 0
    if st == sizeof(real):
        while i + LANES <= n:
            for j in range(LANES):
                lane[j] += (<const real*> x)[i + j]
            i += LANES
    for j in range(LANES):
        total += lane[j]
    while i < n:
        total += (<const real*> (x + i * st))[0]
        i += 1
    return total


cdef double squares_block(const char* x, int64_t n, int64_t st, double mean, const real* tag) noexcept nogil:
    cdef double lane[LANES]
    cdef double total = 0, d
    cdef int64_t i = 0, j
    for j in range(LANES):
        lane[j] = 0
    if st == sizeof(real):
        while i + LANES <= n:
            for j in range(LANES):
                d = (<const real*> x)[i + j] - mean
                lane[j] += d * d
            i += LANES
    for j in range(LANES):
        total += lane[j]
    while i < n:
        d = (<const real*> (x + i * st))[0] - mean
        total += d * d
        i += 1
    return total


cdef void var_across(double* count, double* mean, double* squares, const char* x, int64_t m, int64_t sk, int64_t n,
                     int64_t sr, const real* tag) noexcept nogil:
    cdef double own[PLANE]
    cdef double own_squares[PLANE]
    cdef double d
    cdef int64_t i, j
    cdef const real* row
    for j in range(m):
        own[j] = 0
        own_squares[j] = 0
    for i in range(n):
        row = <const real*> (x + i * sr)
        if sk == sizeof(real):
            for j in range(m):
                own[j] += row[j]
        else:
            for j in range(m):
                own[j] += (<const real*> (<const char*> row + j * sk))[0]
    for j in range(m):
        own[j] /= n
    for i in range(n):
        row = <const real*> (x + i * sr)
        if sk == sizeof(real):
            for j in range(m):
                d = row[j] - own[j]
                own_squares[j] += d * d
        else:
            for j in range(m):
                d = (<const real*> (<const char*> row + j * sk))[0] - own[j]
                own_squares[j] += d * d
    for j in range(m):
        join(mean + j, squares + j, count + j, own[j], own_squares[j], n)


cdef void var_kernel(char* acc, const real* x, int64_t m, int64_t sk, int64_t n, int64_t sr, int64_t base, int mode,
                     double p) noexcept nogil:
    cdef double* count = <double*> acc
    cdef double* mean = count + PLANE
    cdef double* squares = mean + PLANE
    cdef const char* p0 = <const char*> x
    cdef double own
    cdef int64_t i, j, k
    if mode & FIRST:
        for j in range(m):
            count[j] = 0
            mean[j] = 0
            squares[j] = 0
    if mode & ACROSS:
        i = 0
        while i < n:
            k = n - i if n - i < ROWS else ROWS
            var_across[real](count, mean, squares, p0 + i * sr, m, sk, k, sr, x)
            i += k
        return
    for j in range(m):
        i = 0
        while i < n:
            k = n - i if n - i < BLOCK else BLOCK
            own = sum_block[real](p0 + j * sk + i * sr, k, sr, x) / k
            join(mean + j, squares + j, count + j, own, squares_block[real](p0 + j * sk + i * sr, k, sr, own, x), k)
            i += k


cdef void var_merge(double* acc, const double* other, int64_t m) noexcept nogil:
    cdef int64_t j
    for j in range(m):
        join(acc + PLANE + j, acc + 2 * PLANE + j, acc + j, other[PLANE + j], other[2 * PLANE + j], other[j])


# ---- 2-norm: three sums of squares, of large, middle and small numbers (Blue, 1978); floats need only the middle one

cdef inline void square_into(double v, double* big, double* middle, double* small) noexcept nogil:
    cdef double a = fabs(v)
    cdef double b = a * NORM_DOWN if a > NORM_BIG else 0.0
    cdef double s = a * NORM_UP if a < NORM_SMALL else 0.0
    cdef double c = 0.0 if (a > NORM_BIG) | (a < NORM_SMALL) else a      # NaN lands here
    big[0] += b * b
    small[0] += s * s
    middle[0] += c * c


cdef void sumsq_row(double* acc, const char* x, int64_t n, int64_t st, const real* tag) noexcept nogil:
    cdef double big[8]
    cdef double middle[8]
    cdef double small[8]
    cdef double v
    cdef int64_t i = 0, j
    for j in range(8):
        big[j] = 0
        middle[j] = 0
        small[j] = 0
    if st == sizeof(real):
        while i + 8 <= n:
            for j in range(8):
                v = (<const real*> x)[i + j]
                if real is float:
                    middle[j] += v * v
                else:
                    square_into(v, big + j, middle + j, small + j)
            i += 8
    while i < n:
        square_into((<const real*> (x + i * st))[0], big, middle, small)
        i += 1
    for j in range(8):
        acc[0] += big[j]
        acc[PLANE] += middle[j]
        acc[2 * PLANE] += small[j]


cdef void sumsq_kernel(char* acc, const real* x, int64_t m, int64_t sk, int64_t n, int64_t sr, int64_t base, int mode,
                       double p) noexcept nogil:
    cdef double* big = <double*> acc
    cdef double* middle = big + PLANE
    cdef double* small = middle + PLANE
    cdef const char* p0 = <const char*> x
    cdef double v
    cdef int64_t i, j
    if mode & FIRST:
        for j in range(m):
            big[j] = 0
            middle[j] = 0
            small[j] = 0
    if mode & ACROSS:
        for i in range(n):
            for j in range(m):
                v = (<const real*> (p0 + i * sr + j * sk))[0]
                if real is float:
                    middle[j] += v * v
                else:
                    square_into(v, big + j, middle + j, small + j)
        return
    for j in range(m):
        sumsq_row[real](big + j, p0 + j * sk, n, sr, x)


cdef void add_planes(double* acc, const double* other, int64_t m) noexcept nogil:
    cdef int64_t j
    for j in range(m):
        acc[j] += other[j]
        acc[PLANE + j] += other[PLANE + j]
        acc[2 * PLANE + j] += other[2 * PLANE + j]


# ---- other norms

cdef inline void add_powers(double* acc, const char* x, int64_t m, int64_t sk, int64_t n, int64_t sr, double p,
                            int power, int mode, const real* tag) noexcept nogil:
    cdef int64_t i, j, count = m if mode & ACROSS else n, times = n if mode & ACROSS else m
    cdef int64_t inner = sk if mode & ACROSS else sr, outer = sr if mode & ACROSS else sk
    cdef double v
    for i in range(times):
        for j in range(count):
            v = fabs(<double> (<const real*> (x + i * outer + j * inner))[0])
            if power == COUNT:
                v = v != 0
            elif power == ANY_POWER:
                v = vm_power_f64(v, p)
            if mode & ACROSS:
                acc[j] += v
            else:
                acc[i] += v


cdef void sumpow_kernel(char* acc, const real* x, int64_t m, int64_t sk, int64_t n, int64_t sr, int64_t base, int mode,
                        double p) noexcept nogil:
    cdef int64_t j
    if mode & FIRST:
        for j in range(m):
            (<double*> acc)[j] = 0
    if p == 1:
        add_powers[real](<double*> acc, <const char*> x, m, sk, n, sr, p, ABSOLUTE, mode, x)
    elif p == 0:
        add_powers[real](<double*> acc, <const char*> x, m, sk, n, sr, p, COUNT, mode, x)
    else:
        add_powers[real](<double*> acc, <const char*> x, m, sk, n, sr, p, ANY_POWER, mode, x)


cdef void sumpow_merge(double* acc, const double* other, int64_t m) noexcept nogil:
    cdef int64_t j
    for j in range(m):
        acc[j] += other[j]


cdef inline real further(real a, real v, int side) noexcept nogil:
    v = <real> fabs(v)
    if side == LARGEST:
        return v if (v > a) | (v != v) else a
    return v if (v < a) | (v != v) else a


cdef inline void abs_extreme(real* best, const char* x, int64_t m, int64_t sk, int64_t n, int64_t sr, int mode,
                             int side, const real* tag) noexcept nogil:
    cdef int64_t i, j
    cdef real v
    if mode & FIRST:
        for j in range(m):
            best[j] = 0 if side == LARGEST else <real> INFINITY
    if mode & ACROSS:
        for i in range(n):
            for j in range(m):
                best[j] = further[real](best[j], (<const real*> (x + i * sr + j * sk))[0], side)
    else:
        for j in range(m):
            v = best[j]
            for i in range(n):
                v = further[real](v, (<const real*> (x + j * sk + i * sr))[0], side)
            best[j] = v


cdef void absmax_kernel(char* acc, const real* x, int64_t m, int64_t sk, int64_t n, int64_t sr, int64_t base, int mode,
                        double p) noexcept nogil:
    abs_extreme[real](<real*> acc, <const char*> x, m, sk, n, sr, mode, LARGEST, x)


cdef void absmin_kernel(char* acc, const real* x, int64_t m, int64_t sk, int64_t n, int64_t sr, int64_t base, int mode,
                        double p) noexcept nogil:
    abs_extreme[real](<real*> acc, <const char*> x, m, sk, n, sr, mode, SMALLEST, x)


cdef void absmax_merge(real* acc, const real* other, int64_t m) noexcept nogil:
    cdef int64_t j
    for j in range(m):
        acc[j] = further[real](acc[j], other[j], LARGEST)


cdef void absmin_merge(real* acc, const real* other, int64_t m) noexcept nogil:
    cdef int64_t j
    for j in range(m):
        acc[j] = further[real](acc[j], other[j], SMALLEST)


# ---- log-sum-exp: a running maximum, and the sum of exp(x - maximum)

cdef inline void lift(double* top, double* total, double top2, double total2) noexcept nogil:
    """Join (top2, total2). Equal tops are left alone, so that two infinities of one sign do not make a NaN."""
    if top2 > top[0] or top2 != top2:
        total[0] = total[0] * vm_exp_f64(top[0] - top2) + total2 if total[0] != 0 else total2
        top[0] = top2
    elif top2 == top[0]:
        total[0] += total2
    elif total2 != 0:
        total[0] += total2 * vm_exp_f64(top2 - top[0])


cdef void sumexp_block(double* top, double* total, const char* x, int64_t n, int64_t st,
                       const real* tag) noexcept nogil:
    """At most BLOCK elements."""
    cdef real part[BLOCK]
    cdef real best = <real> -INFINITY
    cdef real v
    cdef int64_t i
    for i in range(n):
        v = (<const real*> (x + i * st))[0]
        part[i] = v
        best = v if (v > best) | (v != v) else best
    for i in range(n):
        part[i] = exponential[real](part[i] - best)
    lift_block(top, total, best, sum_block[real](<const char*> part, n, sizeof(real), tag))


cdef inline void lift_block(double* top, double* total, double best, double s) noexcept nogil:
    """A block whose largest element is infinite counts by that alone: exp(inf - inf) is no number."""
    if fabs(best) == INFINITY:
        lift(top, total, best, 1 if best > 0 else 0)
    else:
        lift(top, total, best, s)


cdef void sumexp_across(double* top, double* total, const char* x, int64_t m, int64_t sk, int64_t n, int64_t sr,
                        const real* tag) noexcept nogil:
    """At most ROWS rows."""
    cdef real best[PLANE]
    cdef real part[PLANE]
    cdef double s[PLANE]
    cdef real v
    cdef int64_t i, j
    for j in range(m):
        best[j] = <real> -INFINITY
        s[j] = 0
    for i in range(n):
        for j in range(m):
            v = (<const real*> (x + i * sr + j * sk))[0]
            best[j] = v if (v > best[j]) | (v != v) else best[j]
    for i in range(n):
        for j in range(m):
            part[j] = (<const real*> (x + i * sr + j * sk))[0] - best[j]
        for j in range(m):
            part[j] = exponential[real](part[j])
        for j in range(m):
            s[j] += part[j]
    for j in range(m):
        lift_block(top + j, total + j, best[j], s[j])


cdef void sumexp_kernel(char* acc, const real* x, int64_t m, int64_t sk, int64_t n, int64_t sr, int64_t base, int mode,
                        double p) noexcept nogil:
    cdef double* top = <double*> acc
    cdef double* total = top + PLANE
    cdef const char* p0 = <const char*> x
    cdef int64_t i, j, k
    if mode & FIRST:
        for j in range(m):
            top[j] = -INFINITY
            total[j] = 0
    if mode & ACROSS:
        i = 0
        while i < n:
            k = n - i if n - i < ROWS else ROWS
            sumexp_across[real](top, total, p0 + i * sr, m, sk, k, sr, x)
            i += k
        return
    for j in range(m):
        i = 0
        while i < n:
            k = n - i if n - i < BLOCK else BLOCK
            sumexp_block[real](top + j, total + j, p0 + j * sk + i * sr, k, sr, x)
            i += k


cdef void sumexp_merge(double* acc, const double* other, int64_t m) noexcept nogil:
    cdef int64_t j
    for j in range(m):
        lift(acc + j, acc + PLANE + j, other[j], other[PLANE + j])


# ---- the table

cdef inline void register_reduction(int kid, int code, void* kernel, void* merge, void** table) noexcept:
    table[kid * N_DTYPES + code] = kernel
    table[(H_MERGE + kid - H_SUM) * N_DTYPES + code] = merge


cdef inline void register_real(real tag, int code, void** table) noexcept:
    register_reduction(H_VAR, code, <void*> var_kernel[real], <void*> var_merge, table)
    register_reduction(H_SUMSQ, code, <void*> sumsq_kernel[real], <void*> add_planes, table)
    register_reduction(H_SUMPOW, code, <void*> sumpow_kernel[real], <void*> sumpow_merge, table)
    register_reduction(H_ABSMAX, code, <void*> absmax_kernel[real], <void*> absmax_merge[real], table)
    register_reduction(H_ABSMIN, code, <void*> absmin_kernel[real], <void*> absmin_merge[real], table)
    register_reduction(H_SUMEXP, code, <void*> sumexp_kernel[real], <void*> sumexp_merge, table)


cdef void register_kernels(void** table) noexcept:
    register_real[float](0, FLOAT32, table)
    register_real[double](0, FLOAT64, table)


def register_address():
    return <size_t> &register_kernels
