# Kernel group "scan": results that carry a state along a line: running sums, products and extrema, and the linear
# recurrence that their gradients are made of.
#
# They are Along kernels (see along.pxi): m lines of n elements, step from line to line, st inside a line, in bytes; a
# line that is read backwards has negative strides. Lines run side by side, so that one line's additions fill the waiting
# time of another's.
# Invariant: the value of a line does not depend on m or on its neighbours. States are double or int64.
from libc.math cimport INFINITY, exp, log
include "_types.pxi"
include "_hand_ids.pxi"

cdef enum:
    COLUMNS = 64           # lines side by side whose elements are neighbours
    GROUP = 8              # lines side by side that lie apart: each has a cache line of its own
    SUM = 0
    PRODUCT = 1
    LARGEST = 0
    SMALLEST = 1


cdef inline int64_t columns(int64_t left, int64_t step, int64_t size) noexcept nogil:
    """How many of the lines that are left run side by side."""
    return min(left, COLUMNS if step == size else GROUP)


# ---- sums and products

cdef inline void running_row(real* y, const real* x, double* state, int64_t k, int64_t to, int64_t step,
                             int kind) noexcept nogil:
    """One element of k lines."""
    cdef int64_t j
    cdef real v
    if step == sizeof(real) and to == sizeof(real):
        for j in range(k):
            state[j] = state[j] + x[j] if kind == SUM else state[j] * x[j]
            y[j] = <real> state[j]
        return
    for j in range(k):
        v = (<const real*> (<const char*> x + j * step))[0]
        state[j] = state[j] + v if kind == SUM else state[j] * v
        (<real*> (<char*> y + j * to))[0] = <real> state[j]


cdef inline void running_line(char* y, const char* x, int64_t n, const int64_t* st, real tag, int kind) noexcept nogil:
    cdef double state = 0 if kind == SUM else 1
    cdef real v
    cdef int64_t i
    for i in range(n):
        v = (<const real*> x)[0]
        state = state + v if kind == SUM else state * v
        (<real*> y)[0] = <real> state
        x += st[1]
        y += st[0]


cdef inline void running(real* y, const real* x, int64_t m, const int64_t* step, int64_t n, const int64_t* st,
                         int kind) noexcept nogil:
    cdef double state[COLUMNS]
    cdef int64_t i, j, k, first = 0
    if m == 1:
        running_line[real](<char*> y, <const char*> x, n, st, 0, kind)
        return
    while first < m:
        k = columns(m - first, step[1], sizeof(real))
        for j in range(k):
            state[j] = 0 if kind == SUM else 1
        for i in range(n):
            running_row[real](<real*> (<char*> y + i * st[0] + first * step[0]),
                              <const real*> (<const char*> x + i * st[1] + first * step[1]), state, k, step[0], step[1],
                              kind)
        first += k


cdef inline void running_whole(int64_t* y, const element* x, int64_t m, const int64_t* step, int64_t n,
                               const int64_t* st, int kind) noexcept nogil:
    """Integers and bool; overflow wraps around."""
    cdef uint64_t state[COLUMNS]
    cdef uint64_t v
    cdef int64_t i, j, k, first = 0
    cdef const char* p
    cdef char* q
    while first < m:
        k = columns(m - first, step[1], sizeof(element))
        for j in range(k):
            state[j] = kind
        for i in range(n):
            p = <const char*> x + i * st[1] + first * step[1]
            q = <char*> y + i * st[0] + first * step[0]
            for j in range(k):
                if element is bool_t:
                    v = (<const element*> (p + j * step[1]))[0] != 0
                else:
                    v = <uint64_t> <int64_t> (<const element*> (p + j * step[1]))[0]
                state[j] = state[j] + v if kind == SUM else state[j] * v
                (<int64_t*> (q + j * step[0]))[0] = <int64_t> state[j]
        first += k


cdef void cumsum_kernel(char* y, const element* a, const char* b, int64_t m, const int64_t* step, int64_t n,
                        const int64_t* st) noexcept nogil:
    if element in real:
        running[element](<element*> y, a, m, step, n, st, SUM)
    else:
        running_whole[element](<int64_t*> y, a, m, step, n, st, SUM)


cdef void cumprod_kernel(char* y, const element* a, const char* b, int64_t m, const int64_t* step, int64_t n,
                         const int64_t* st) noexcept nogil:
    if element in real:
        running[element](<element*> y, a, m, step, n, st, PRODUCT)
    else:
        running_whole[element](<int64_t*> y, a, m, step, n, st, PRODUCT)


# ---- extrema: the last of equals is named, and NaN stays once it came

cdef inline void extremum_line(char* y, char* index, const char* x, int64_t n, const int64_t* st, element tag,
                               int side) noexcept nogil:
    cdef int64_t i, where = 0
    cdef element v, best = (<const element*> x)[0]
    for i in range(n):
        v = (<const element*> x)[0]
        if side == LARGEST:
            if v >= best or v != v:
                best = v
                where = i
        elif v <= best or v != v:
            best = v
            where = i
        (<element*> y)[0] = best
        (<int64_t*> index)[0] = where
        x += st[1]
        y += st[0]
        index += st[2]


cdef inline void extrema(char* y, const char* x, char* index, int64_t m, const int64_t* step, int64_t n,
                         const int64_t* st, element tag, int side) noexcept nogil:
    cdef int64_t j
    for j in range(m):
        extremum_line[element](y + j * step[0], index + j * step[2], x + j * step[1], n, st, tag, side)


cdef void cummax_kernel(element* y, const char* x, char* index, int64_t m, const int64_t* step, int64_t n,
                        const int64_t* st) noexcept nogil:
    extrema[element](<char*> y, x, index, m, step, n, st, 0, LARGEST)


cdef void cummin_kernel(element* y, const char* x, char* index, int64_t m, const int64_t* step, int64_t n,
                        const int64_t* st) noexcept nogil:
    extrema[element](<char*> y, x, index, m, step, n, st, 0, SMALLEST)


# ---- log(sum(exp)): the largest so far, and the sum of exponentials of the distances from it

cdef void logcumsumexp_kernel(real* y, const real* a, const char* b, int64_t m, const int64_t* step, int64_t n,
                              const int64_t* st) noexcept nogil:
    cdef int64_t i, j
    cdef double top, total, v
    cdef const char* x
    cdef char* z
    for j in range(m):
        x = <const char*> a + j * step[1]
        z = <char*> y + j * step[0]
        top, total = -INFINITY, 0
        for i in range(n):
            v = (<const real*> x)[0]
            if v > top:
                total = total * exp(top - v) + 1
                top = v
            elif v == top:                     # without a difference, which infinities do not have
                total += 1
            else:
                total += exp(v - top)
            (<real*> z)[0] = <real> (top + log(total))
            x += st[1]
            z += st[0]


# ---- y[i] = x[i] + a[i] * y[i - 1]; a[0] is not read

cdef void recurrence_kernel(real* y, const char* x, const char* a, int64_t m, const int64_t* step, int64_t n,
                            const int64_t* st) noexcept nogil:
    cdef double state[COLUMNS]
    cdef int64_t i, j, k, first = 0
    cdef const char* p
    cdef const char* q
    cdef char* z
    while first < m:
        k = columns(m - first, step[1], sizeof(real))
        for i in range(n):
            p = x + i * st[1] + first * step[1]
            q = a + i * st[2] + first * step[2]
            z = <char*> y + i * st[0] + first * step[0]
            for j in range(k):
                if i == 0:
                    state[j] = (<const real*> (p + j * step[1]))[0]
                else:
                    state[j] = ((<const real*> (p + j * step[1]))[0]
                                + (<const real*> (q + j * step[2]))[0] * state[j])
                (<real*> (z + j * step[0]))[0] = <real> state[j]
        first += k


# ---- the table

cdef inline void register_element(element tag, int code, void** table) noexcept:
    table[H_CUMSUM * N_DTYPES + code] = <void*> cumsum_kernel[element]
    table[H_CUMPROD * N_DTYPES + code] = <void*> cumprod_kernel[element]
    table[H_CUMMAX * N_DTYPES + code] = <void*> cummax_kernel[element]
    table[H_CUMMIN * N_DTYPES + code] = <void*> cummin_kernel[element]


cdef inline void register_real(real tag, int code, void** table) noexcept:
    table[H_LOGCUMSUMEXP * N_DTYPES + code] = <void*> logcumsumexp_kernel[real]
    table[H_RECURRENCE * N_DTYPES + code] = <void*> recurrence_kernel[real]


cdef void register_kernels(void** table) noexcept:
    register_element[bool_t](0, BOOL, table)
    register_element[uint8_t](0, UINT8, table)
    register_element[int32_t](0, INT32, table)
    register_element[int64_t](0, INT64, table)
    register_element[uint64_t](0, UINT64, table)
    register_element[float](0, FLOAT32, table)
    register_element[double](0, FLOAT64, table)
    register_real[float](0, FLOAT32, table)
    register_real[double](0, FLOAT64, table)


def register_address():
    return <size_t> &register_kernels
