# Kernel group "reduce": sums, products, extrema, truth values. Moments and norms are in the group "moment".
# Invariant: float sums run in LANES independent lanes inside blocks of fixed size, and blocks are added in double.
from libc.math cimport INFINITY, fabs
include "_reduce.pxi"

cdef enum:
    LANES = 32             # hides the latency of an add on every instruction set, and still fits SSE2's registers
    BLOCK = 4096           # elements a lane block; a lane adds 128 of them in its own precision
    ROWS = 64              # rows added in the element's precision before they go to the double accumulators
    LARGEST = 0
    SMALLEST = 1


# ---- sum

cdef double sum_row(const real* x, int64_t n) noexcept nogil:
    cdef real lane[LANES]
    cdef double total = 0, b = 0, c = 0, d = 0
    cdef int64_t i, j, k, w
    while n >= LANES:
        k = (n if n < BLOCK else BLOCK) & ~<int64_t> (LANES - 1)
        for j in range(LANES):
            lane[j] = x[j]
        i = LANES
        while i < k:
            for j in range(LANES):
                lane[j] += x[i + j]
            i += LANES
        w = LANES // 2
        while w >= 4:
            for j in range(w):
                lane[j] += lane[j + w]
            w //= 2
        total += (<double> lane[0] + <double> lane[1]) + (<double> lane[2] + <double> lane[3])
        x += k
        n -= k
    i = 0
    while i + 4 <= n:                          # short rows: four sums hide the latency of an add
        total += x[i]
        b += x[i + 1]
        c += x[i + 2]
        d += x[i + 3]
        i += 4
    while i < n:
        total += x[i]
        i += 1
    return (total + b) + (c + d)


cdef double sum_strided(const char* x, int64_t n, int64_t st, const real* tag) noexcept nogil:
    cdef double a = 0, b = 0, c = 0, d = 0
    cdef int64_t i = 0
    while i + 4 <= n:
        a += (<const real*> x)[0]
        b += (<const real*> (x + st))[0]
        c += (<const real*> (x + 2 * st))[0]
        d += (<const real*> (x + 3 * st))[0]
        x += 4 * st
        i += 4
    while i < n:
        a += (<const real*> x)[0]
        x += st
        i += 1
    return (a + b) + (c + d)


cdef void add_rows(real* y, const char* x, int64_t m, int64_t sk, int64_t n, int64_t sr,
                   const real* tag) noexcept nogil:
    """y[j] = sum over n >= 1 rows; four at a time, so that y is loaded and stored once for four rows."""
    cdef int64_t i, j
    cdef const real* a
    cdef const real* b
    cdef const real* c
    cdef const real* d
    for j in range(m):
        y[j] = (<const real*> (x + j * sk))[0]
    i = 1
    while i + 4 <= n:
        a = <const real*> (x + i * sr)
        b = <const real*> (x + (i + 1) * sr)
        c = <const real*> (x + (i + 2) * sr)
        d = <const real*> (x + (i + 3) * sr)
        if sk == sizeof(real):
            for j in range(m):
                y[j] += (a[j] + b[j]) + (c[j] + d[j])
        else:
            for j in range(m):
                y[j] += (((<const real*> (<const char*> a + j * sk))[0] + (<const real*> (<const char*> b + j * sk))[0])
                         + ((<const real*> (<const char*> c + j * sk))[0]
                            + (<const real*> (<const char*> d + j * sk))[0]))
        i += 4
    while i < n:
        if sk == sizeof(real):
            a = <const real*> (x + i * sr)
            for j in range(m):
                y[j] += a[j]
        else:
            for j in range(m):
                y[j] += (<const real*> (x + i * sr + j * sk))[0]
        i += 1


cdef void sum_across(double* acc, const char* x, int64_t m, int64_t sk, int64_t n, int64_t sr,
                     const real* tag) noexcept nogil:
    cdef real part[PLANE]
    cdef int64_t i, j, k
    i = 0
    while i < n:
        k = n - i if n - i < ROWS else ROWS
        add_rows[real](&part[0], x + i * sr, m, sk, k, sr, tag)
        for j in range(m):
            acc[j] += part[j]
        i += k


cdef inline int64_t whole(element x) noexcept nogil:
    """The integer that is added: every byte but 0 is true, and borrowed memory may hold any."""
    if element is bool_t:
        return x != 0
    else:
        return <int64_t> x


cdef void sum_integers(int64_t* acc, const char* x, int64_t m, int64_t sk, int64_t n, int64_t sr, int mode,
                       const element* tag) noexcept nogil:
    cdef int64_t i, j, total
    cdef const element* row
    if mode & ACROSS:
        for i in range(n):
            row = <const element*> (x + i * sr)
            if sk == sizeof(element):
                for j in range(m):
                    acc[j] += whole[element](row[j])
            else:
                for j in range(m):
                    acc[j] += whole[element]((<const element*> (<const char*> row + j * sk))[0])
        return
    for j in range(m):
        row = <const element*> (x + j * sk)
        total = 0
        if sr == sizeof(element):
            for i in range(n):
                total += whole[element](row[i])
        else:
            for i in range(n):
                total += whole[element]((<const element*> (<const char*> row + i * sr))[0])
        acc[j] += total


cdef void sum_kernel(char* acc, const element* x, int64_t m, int64_t sk, int64_t n, int64_t sr, int64_t base, int mode,
                     double p) noexcept nogil:
    cdef int64_t j
    cdef double* total = <double*> acc
    cdef const char* p0 = <const char*> x
    if mode & FIRST:
        for j in range(m):
            if element is float or element is double:
                total[j] = 0
            else:
                (<int64_t*> acc)[j] = 0
    if element is float or element is double:
        if mode & ACROSS:
            sum_across[element](total, p0, m, sk, n, sr, x)
        elif sr == sizeof(element):
            for j in range(m):
                total[j] += sum_row[element](<const element*> (p0 + j * sk), n)
        else:
            for j in range(m):
                total[j] += sum_strided[element](p0 + j * sk, n, sr, x)
    else:
        sum_integers[element](<int64_t*> acc, p0, m, sk, n, sr, mode, x)


cdef void sum_merge(element* acc, const element* other, int64_t m) noexcept nogil:
    cdef int64_t j
    for j in range(m):
        if element is float or element is double:
            (<double*> acc)[j] += (<const double*> other)[j]
        else:
            (<int64_t*> acc)[j] += (<const int64_t*> other)[j]


# ---- product

cdef double product_row(const char* x, int64_t n, int64_t st, const real* tag) noexcept nogil:
    cdef double lane[LANES]
    cdef double total = 1
    cdef int64_t i = 0, j
    if st == sizeof(real) and n >= LANES:
        for j in range(LANES):
            lane[j] = (<const real*> x)[j]
        i = LANES
        while i + LANES <= n:
            for j in range(LANES):
                lane[j] *= (<const real*> x)[i + j]
            i += LANES
        for j in range(LANES):
            total *= lane[j]
    while i < n:
        total *= (<const real*> (x + i * st))[0]
        i += 1
    return total


cdef void prod_kernel(char* acc, const element* x, int64_t m, int64_t sk, int64_t n, int64_t sr, int64_t base, int mode,
                      double p) noexcept nogil:
    cdef int64_t i, j
    cdef double* total = <double*> acc
    cdef int64_t* count = <int64_t*> acc
    cdef const char* p0 = <const char*> x
    if mode & FIRST:
        for j in range(m):
            if element is float or element is double:
                total[j] = 1
            else:
                count[j] = 1
    if mode & ACROSS:
        for i in range(n):
            for j in range(m):
                if element is float or element is double:
                    total[j] *= (<const element*> (p0 + i * sr + j * sk))[0]
                else:
                    count[j] = <int64_t> (<uint64_t> count[j]
                                          * <uint64_t> whole[element]((<const element*> (p0 + i * sr + j * sk))[0]))
        return
    for j in range(m):
        if element is float or element is double:
            total[j] *= product_row[element](p0 + j * sk, n, sr, x)
        else:
            for i in range(n):
                count[j] = <int64_t> (<uint64_t> count[j]
                                      * <uint64_t> whole[element]((<const element*> (p0 + i * sr + j * sk))[0]))


cdef void prod_merge(element* acc, const element* other, int64_t m) noexcept nogil:
    cdef int64_t j
    for j in range(m):
        if element is float or element is double:
            (<double*> acc)[j] *= (<const double*> other)[j]
        else:
            (<int64_t*> acc)[j] = <int64_t> ((<const uint64_t*> acc)[j] * (<const uint64_t*> other)[j])


# ---- extrema: NaN wins over every number, the first of equals keeps its place

cdef inline element worst(int side, element tag) noexcept nogil:
    """The neutral element of the extremum."""
    if element is float or element is double:
        return <element> (-INFINITY if side == LARGEST else INFINITY)
    elif element is int64_t:
        return <element> (<int64_t> 0x8000000000000000ULL if side == LARGEST else 0x7FFFFFFFFFFFFFFFLL)
    elif element is int32_t:
        return <element> (<int32_t> 0x80000000U if side == LARGEST else 0x7FFFFFFF)
    elif element is uint64_t:
        return <element> (0 if side == LARGEST else 0xFFFFFFFFFFFFFFFFULL)
    elif element is bool_t:
        return <element> (0 if side == LARGEST else 1)
    else:
        return <element> (0 if side == LARGEST else 255)


cdef inline element better(element a, element v, int side) noexcept nogil:
    """The extremum of a and v. A NaN in `a` stays, because no comparison with it holds."""
    if side == LARGEST:
        return v if (v > a) | (v != v) else a
    return v if (v < a) | (v != v) else a


cdef inline bint beats(element v, element a, int side) noexcept nogil:
    if side == LARGEST:
        return (v > a) | ((v != v) & (a == a))
    return (v < a) | ((v != v) & (a == a))


cdef inline element extreme_row(const element* x, int64_t n, int side) noexcept nogil:
    cdef element lane[LANES]
    cdef element best
    cdef int64_t i = 0, j
    best = worst[element](side, 0)
    if n >= LANES:
        for j in range(LANES):
            lane[j] = x[j]
        i = LANES
        while i + LANES <= n:
            for j in range(LANES):
                lane[j] = better[element](lane[j], x[i + j], side)
            i += LANES
        for j in range(LANES):
            best = better[element](best, lane[j], side)
    while i < n:
        best = better[element](best, x[i], side)
        i += 1
    return best


cdef inline void extreme(char* acc, const element* x, int64_t m, int64_t sk, int64_t n, int64_t sr, int mode,
                         int side) noexcept nogil:
    cdef int64_t i, j
    cdef element* best = <element*> acc
    cdef element v
    cdef const char* p0 = <const char*> x
    cdef const element* row
    if mode & FIRST:
        for j in range(m):
            best[j] = worst[element](side, 0)
    if mode & ACROSS:
        for i in range(n):
            row = <const element*> (p0 + i * sr)
            if sk == sizeof(element):
                for j in range(m):
                    best[j] = better[element](best[j], row[j], side)
            else:
                for j in range(m):
                    best[j] = better[element](best[j], (<const element*> (<const char*> row + j * sk))[0], side)
        return
    for j in range(m):
        if sr == sizeof(element):
            v = extreme_row[element](<const element*> (p0 + j * sk), n, side)
        else:
            v = best[j]
            for i in range(n):
                v = better[element](v, (<const element*> (p0 + j * sk + i * sr))[0], side)
        best[j] = better[element](best[j], v, side)


cdef void max_kernel(char* acc, const element* x, int64_t m, int64_t sk, int64_t n, int64_t sr, int64_t base, int mode,
                     double p) noexcept nogil:
    extreme[element](acc, x, m, sk, n, sr, mode, LARGEST)


cdef void min_kernel(char* acc, const element* x, int64_t m, int64_t sk, int64_t n, int64_t sr, int64_t base, int mode,
                     double p) noexcept nogil:
    extreme[element](acc, x, m, sk, n, sr, mode, SMALLEST)


cdef void max_merge(element* acc, const element* other, int64_t m) noexcept nogil:
    cdef int64_t j
    for j in range(m):
        acc[j] = better[element](acc[j], other[j], LARGEST)


cdef void min_merge(element* acc, const element* other, int64_t m) noexcept nogil:
    cdef int64_t j
    for j in range(m):
        acc[j] = better[element](acc[j], other[j], SMALLEST)


# ---- where the extremum is

cdef inline void find_row(element* best, int64_t* index, const element* x, int64_t n, int64_t base,
                          int side) noexcept nogil:
    """Block by block: only a block whose extremum beats the best so far is searched for the place."""
    cdef int64_t i, k
    cdef element v
    while n > 0:
        k = n if n < 512 else 512
        v = extreme_row[element](x, k, side)
        if beats[element](v, best[0], side):
            i = 0
            while not (x[i] == v or x[i] != x[i]):
                i += 1
            best[0] = v
            index[0] = base + i
        x += k
        base += k
        n -= k


cdef inline void place(char* acc, const element* x, int64_t m, int64_t sk, int64_t n, int64_t sr, int64_t base,
                       int mode, int side) noexcept nogil:
    cdef int64_t i, j
    cdef element* best = <element*> acc
    cdef int64_t* index = <int64_t*> (acc + 8 * PLANE)
    cdef element v
    cdef bint take
    cdef const char* p0 = <const char*> x
    if mode & FIRST:
        for j in range(m):                     # the first element is the best so far even if it is the neutral one
            best[j] = (<const element*> (p0 + j * sk))[0]
            index[j] = base
    if mode & ACROSS:
        for i in range(n):
            for j in range(m):
                v = (<const element*> (p0 + i * sr + j * sk))[0]
                take = beats[element](v, best[j], side)
                best[j] = v if take else best[j]
                index[j] = base + i if take else index[j]
        return
    for j in range(m):
        if sr == sizeof(element):
            find_row[element](best + j, index + j, <const element*> (p0 + j * sk), n, base, side)
        else:
            for i in range(n):
                v = (<const element*> (p0 + j * sk + i * sr))[0]
                if beats[element](v, best[j], side):
                    best[j] = v
                    index[j] = base + i


cdef void argmax_kernel(char* acc, const element* x, int64_t m, int64_t sk, int64_t n, int64_t sr, int64_t base,
                        int mode, double p) noexcept nogil:
    place[element](acc, x, m, sk, n, sr, base, mode, LARGEST)


cdef void argmin_kernel(char* acc, const element* x, int64_t m, int64_t sk, int64_t n, int64_t sr, int64_t base,
                        int mode, double p) noexcept nogil:
    place[element](acc, x, m, sk, n, sr, base, mode, SMALLEST)


cdef inline void place_merge(element* best, const element* other, int64_t m, int side) noexcept nogil:
    cdef int64_t j
    cdef int64_t* index = <int64_t*> (<char*> best + 8 * PLANE)
    cdef const int64_t* at = <const int64_t*> (<const char*> other + 8 * PLANE)
    for j in range(m):                         # `other` comes later in order, so equals stay
        if beats[element](other[j], best[j], side):
            best[j] = other[j]
            index[j] = at[j]


cdef void argmax_merge(element* acc, const element* other, int64_t m) noexcept nogil:
    place_merge[element](acc, other, m, LARGEST)


cdef void argmin_merge(element* acc, const element* other, int64_t m) noexcept nogil:
    place_merge[element](acc, other, m, SMALLEST)


# ---- truth; NaN is true

cdef inline void truth(char* acc, const element* x, int64_t m, int64_t sk, int64_t n, int64_t sr, int mode,
                       bint every) noexcept nogil:
    """any (every = False): starts from 0 and stops at a nonzero element; all: starts from 1 and stops at a zero."""
    cdef int64_t i, j, k, end
    cdef uint8_t* y = <uint8_t*> acc
    cdef const char* p0 = <const char*> x
    cdef const element* row
    cdef uint8_t hit
    if mode & FIRST:
        for j in range(m):
            y[j] = every
    if mode & ACROSS:
        for i in range(n):
            for j in range(m):
                hit = (<const element*> (p0 + i * sr + j * sk))[0] != 0
                y[j] = y[j] & hit if every else y[j] | hit
        return
    for j in range(m):
        i = 0
        while i < n and y[j] == every:
            end = i + 1024 if i + 1024 < n else n
            hit = 0
            row = <const element*> (p0 + j * sk)
            if sr == sizeof(element):
                for k in range(i, end):
                    hit |= (row[k] != 0) != every
            else:
                for k in range(i, end):
                    hit |= ((<const element*> (<const char*> row + k * sr))[0] != 0) != every
            if hit:
                y[j] = not every
            i = end


cdef void any_kernel(char* acc, const element* x, int64_t m, int64_t sk, int64_t n, int64_t sr, int64_t base, int mode,
                     double p) noexcept nogil:
    truth[element](acc, x, m, sk, n, sr, mode, False)


cdef void all_kernel(char* acc, const element* x, int64_t m, int64_t sk, int64_t n, int64_t sr, int64_t base, int mode,
                     double p) noexcept nogil:
    truth[element](acc, x, m, sk, n, sr, mode, True)


cdef void any_merge(char* acc, const char* other, int64_t m) noexcept nogil:
    cdef int64_t j
    for j in range(m):
        acc[j] |= other[j]


cdef void all_merge(char* acc, const char* other, int64_t m) noexcept nogil:
    cdef int64_t j
    for j in range(m):
        acc[j] &= other[j]


# ---- the table

cdef inline void register_reduction(int kid, int code, void* kernel, void* merge, void** table) noexcept:
    table[kid * N_DTYPES + code] = kernel
    table[(H_MERGE + kid - H_SUM) * N_DTYPES + code] = merge


cdef inline void register_element(element tag, int code, void** table) noexcept:
    register_reduction(H_SUM, code, <void*> sum_kernel[element], <void*> sum_merge[element], table)
    register_reduction(H_PROD, code, <void*> prod_kernel[element], <void*> prod_merge[element], table)
    register_reduction(H_MAX, code, <void*> max_kernel[element], <void*> max_merge[element], table)
    register_reduction(H_MIN, code, <void*> min_kernel[element], <void*> min_merge[element], table)
    register_reduction(H_ARGMAX, code, <void*> argmax_kernel[element], <void*> argmax_merge[element], table)
    register_reduction(H_ARGMIN, code, <void*> argmin_kernel[element], <void*> argmin_merge[element], table)
    register_reduction(H_ANY, code, <void*> any_kernel[element], <void*> any_merge, table)
    register_reduction(H_ALL, code, <void*> all_kernel[element], <void*> all_merge, table)


cdef void register_kernels(void** table) noexcept:
    register_element[bool_t](0, BOOL, table)
    register_element[uint8_t](0, UINT8, table)
    register_element[int32_t](0, INT32, table)
    register_element[int64_t](0, INT64, table)
    register_element[uint64_t](0, UINT64, table)
    register_element[float](0, FLOAT32, table)
    register_element[double](0, FLOAT64, table)


def register_address():
    return <size_t> &register_kernels
