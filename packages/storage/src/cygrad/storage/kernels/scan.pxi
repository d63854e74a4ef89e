# Kernel group "scan": results that carry a state along a line: running sums, products and extrema, and the linear
# recurrence that their gradients are made of.
#
# They are Along kernels (see along.pxi): m lines of n elements, step from line to line, st inside a line, in bytes; a
# line that is read backwards has negative strides. Lines run side by side, so that one line's additions fill the waiting
# time of another's.
# Invariant: the value of a line does not depend on m or on its neighbours. States are double or int64.
# Every dtype has kernels of its own here, adapted ones too: a state runs through the whole line, which may be long, so
# that there are no blocks to convert.
from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int8_t, int16_t, uint16_t, uint32_t
from cygrad.storage.core cimport BFLOAT16, FLOAT16, INT8, INT16, UINT16, UINT32
include "_types.pxi"
include "_hand_ids.pxi"

cdef extern from *:
    """
    #include "convert.h"
    typedef struct { uint16_t bits; } c_float16;
    typedef struct { uint16_t bits; } c_bfloat16;
    """
    ctypedef struct float16 "c_float16":
        uint16_t bits
    ctypedef struct bfloat16 "c_bfloat16":
        uint16_t bits
    float widen_f16 "c_widen_f16"(uint16_t h) noexcept nogil
    float widen_b16 "c_widen_b16"(uint16_t h) noexcept nogil
    uint16_t narrow_f16 "c_narrow_f16"(float x) noexcept nogil
    uint16_t narrow_b16 "c_narrow_b16"(float x) noexcept nogil

ctypedef fused number:
    float
    double
    float16
    bfloat16

ctypedef fused whole:
    bool_t
    uint8_t
    int8_t
    int16_t
    int32_t
    int64_t
    uint16_t
    uint32_t
    uint64_t

ctypedef fused ordered:        # what is compared: halves as float
    bool_t
    uint8_t
    int8_t
    int16_t
    int32_t
    int64_t
    uint16_t
    uint32_t
    uint64_t
    float
    double

ctypedef fused half:
    float16
    bfloat16


cdef inline double read(const number* p) noexcept nogil:
    if number is float16:
        return widen_f16(p.bits)
    elif number is bfloat16:
        return widen_b16(p.bits)
    else:
        return p[0]


cdef inline void write(number* p, double v) noexcept nogil:
    if number is float16:
        p.bits = narrow_f16(<float> v)
    elif number is bfloat16:
        p.bits = narrow_b16(<float> v)
    else:
        p[0] = <number> v


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

cdef inline void running_row(number* y, const number* x, double* state, int64_t k, int64_t to, int64_t step,
                             int kind) noexcept nogil:
    """One element of k lines."""
    cdef int64_t j
    cdef double v
    if step == sizeof(number) and to == sizeof(number):
        for j in range(k):
            v = read[number](x + j)
            state[j] = state[j] + v if kind == SUM else state[j] * v
            write[number](y + j, state[j])
        return
    for j in range(k):
        v = read[number](<const number*> (<const char*> x + j * step))
        state[j] = state[j] + v if kind == SUM else state[j] * v
        write[number](<number*> (<char*> y + j * to), state[j])


cdef inline void running_line(number* y, const number* x, int64_t n, const int64_t* st, int kind) noexcept nogil:
    cdef double state = 0 if kind == SUM else 1
    cdef double v
    cdef int64_t i
    for i in range(n):
        v = read[number](x)
        state = state + v if kind == SUM else state * v
        write[number](y, state)
        x = <const number*> (<const char*> x + st[1])
        y = <number*> (<char*> y + st[0])


cdef inline void running(number* y, const number* x, int64_t m, const int64_t* step, int64_t n, const int64_t* st,
                         int kind) noexcept nogil:
    cdef double state[COLUMNS]
    cdef int64_t i, j, k, first = 0
    if m == 1:
        running_line[number](y, x, n, st, kind)
        return
    while first < m:
        k = columns(m - first, step[1], sizeof(number))
        for j in range(k):
            state[j] = 0 if kind == SUM else 1
        for i in range(n):
            running_row[number](<number*> (<char*> y + i * st[0] + first * step[0]),
                                <const number*> (<const char*> x + i * st[1] + first * step[1]), state, k, step[0],
                                step[1], kind)
        first += k


cdef inline void running_whole(int64_t* y, const whole* x, int64_t m, const int64_t* step, int64_t n,
                               const int64_t* st, int kind) noexcept nogil:
    """Integers and bool; overflow wraps around."""
    cdef uint64_t state[COLUMNS]
    cdef uint64_t v
    cdef int64_t i, j, k, first = 0
    cdef const char* p
    cdef char* q
    while first < m:
        k = columns(m - first, step[1], sizeof(whole))
        for j in range(k):
            state[j] = kind
        for i in range(n):
            p = <const char*> x + i * st[1] + first * step[1]
            q = <char*> y + i * st[0] + first * step[0]
            for j in range(k):
                if whole is bool_t:
                    v = (<const whole*> (p + j * step[1]))[0] != 0
                else:
                    v = <uint64_t> <int64_t> (<const whole*> (p + j * step[1]))[0]
                state[j] = state[j] + v if kind == SUM else state[j] * v
                (<int64_t*> (q + j * step[0]))[0] = <int64_t> state[j]
        first += k


cdef void cumsum_kernel(number* y, const number* a, const char* b, int64_t m, const int64_t* step, int64_t n,
                        const int64_t* st) noexcept nogil:
    running[number](y, a, m, step, n, st, SUM)


cdef void cumprod_kernel(number* y, const number* a, const char* b, int64_t m, const int64_t* step, int64_t n,
                         const int64_t* st) noexcept nogil:
    running[number](y, a, m, step, n, st, PRODUCT)


cdef void cumsum_whole(char* y, const whole* a, const char* b, int64_t m, const int64_t* step, int64_t n,
                       const int64_t* st) noexcept nogil:
    running_whole[whole](<int64_t*> y, a, m, step, n, st, SUM)


cdef void cumprod_whole(char* y, const whole* a, const char* b, int64_t m, const int64_t* step, int64_t n,
                        const int64_t* st) noexcept nogil:
    running_whole[whole](<int64_t*> y, a, m, step, n, st, PRODUCT)


# ---- extrema: the last of equals is named, and NaN stays once it came

cdef inline bint replaces(ordered v, ordered best, int side) noexcept nogil:
    return v != v or (v >= best if side == LARGEST else v <= best)


cdef inline void extremum_line(ordered* y, int64_t* index, const ordered* x, int64_t n, const int64_t* st,
                               int side) noexcept nogil:
    cdef int64_t i, where = 0
    cdef ordered v, best = x[0]
    for i in range(n):
        v = x[0]
        if replaces[ordered](v, best, side):
            best = v
            where = i
        y[0] = best
        index[0] = where
        x = <const ordered*> (<const char*> x + st[1])
        y = <ordered*> (<char*> y + st[0])
        index = <int64_t*> (<char*> index + st[2])


cdef inline void extremum_of_halves(half* y, int64_t* index, const half* x, int64_t n, const int64_t* st,
                                    int side) noexcept nogil:
    cdef int64_t i, where = 0
    cdef half kept = x[0]
    cdef float v, best = <float> read[half](x)
    for i in range(n):
        v = <float> read[half](x)
        if replaces[float](v, best, side):
            best = v
            kept = x[0]
            where = i
        y[0] = kept
        index[0] = where
        x = <const half*> (<const char*> x + st[1])
        y = <half*> (<char*> y + st[0])
        index = <int64_t*> (<char*> index + st[2])


cdef void cummax_kernel(ordered* y, const char* x, char* index, int64_t m, const int64_t* step, int64_t n,
                        const int64_t* st) noexcept nogil:
    cdef int64_t j
    for j in range(m):
        extremum_line[ordered](<ordered*> (<char*> y + j * step[0]), <int64_t*> (index + j * step[2]),
                               <const ordered*> (x + j * step[1]), n, st, LARGEST)


cdef void cummin_kernel(ordered* y, const char* x, char* index, int64_t m, const int64_t* step, int64_t n,
                        const int64_t* st) noexcept nogil:
    cdef int64_t j
    for j in range(m):
        extremum_line[ordered](<ordered*> (<char*> y + j * step[0]), <int64_t*> (index + j * step[2]),
                               <const ordered*> (x + j * step[1]), n, st, SMALLEST)


cdef void cummax_of_halves(half* y, const char* x, char* index, int64_t m, const int64_t* step, int64_t n,
                           const int64_t* st) noexcept nogil:
    cdef int64_t j
    for j in range(m):
        extremum_of_halves[half](<half*> (<char*> y + j * step[0]), <int64_t*> (index + j * step[2]),
                                 <const half*> (x + j * step[1]), n, st, LARGEST)


cdef void cummin_of_halves(half* y, const char* x, char* index, int64_t m, const int64_t* step, int64_t n,
                           const int64_t* st) noexcept nogil:
    cdef int64_t j
    for j in range(m):
        extremum_of_halves[half](<half*> (<char*> y + j * step[0]), <int64_t*> (index + j * step[2]),
                                 <const half*> (x + j * step[1]), n, st, SMALLEST)


# ---- log(sum(exp)): the largest so far, and the sum of exponentials of the distances from it

cdef void logcumsumexp_kernel(number* y, const number* a, const char* b, int64_t m, const int64_t* step, int64_t n,
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
            v = read[number](<const number*> x)
            if v > top:
                total = total * exp(top - v) + 1
                top = v
            elif v == top:                     # without a difference, which infinities do not have
                total += 1
            else:
                total += exp(v - top)
            write[number](<number*> z, top + log(total))
            x += st[1]
            z += st[0]


# ---- y[i] = x[i] + a[i] * y[i - 1]; a[0] is not read

cdef void recurrence_kernel(number* y, const char* x, const char* a, int64_t m, const int64_t* step, int64_t n,
                            const int64_t* st) noexcept nogil:
    cdef double state[COLUMNS]
    cdef int64_t i, j, k, first = 0
    cdef const char* p
    cdef const char* q
    cdef char* z
    while first < m:
        k = columns(m - first, step[1], sizeof(number))
        for i in range(n):
            p = x + i * st[1] + first * step[1]
            q = a + i * st[2] + first * step[2]
            z = <char*> y + i * st[0] + first * step[0]
            for j in range(k):
                if i == 0:
                    state[j] = read[number](<const number*> (p + j * step[1]))
                else:
                    state[j] = (read[number](<const number*> (p + j * step[1]))
                                + read[number](<const number*> (q + j * step[2])) * state[j])
                write[number](<number*> (z + j * step[0]), state[j])
        first += k


# ---- the table

cdef inline void register_whole(whole tag, int code, void** table) noexcept:
    table[H_CUMSUM * N_DTYPES + code] = <void*> cumsum_whole[whole]
    table[H_CUMPROD * N_DTYPES + code] = <void*> cumprod_whole[whole]


cdef inline void register_ordered(ordered tag, int code, void** table) noexcept:
    table[H_CUMMAX * N_DTYPES + code] = <void*> cummax_kernel[ordered]
    table[H_CUMMIN * N_DTYPES + code] = <void*> cummin_kernel[ordered]


cdef inline void register_half(half* tag, int code, void** table) noexcept:
    table[H_CUMMAX * N_DTYPES + code] = <void*> cummax_of_halves[half]
    table[H_CUMMIN * N_DTYPES + code] = <void*> cummin_of_halves[half]


cdef inline void register_number(number* tag, int code, void** table) noexcept:
    table[H_CUMSUM * N_DTYPES + code] = <void*> cumsum_kernel[number]
    table[H_CUMPROD * N_DTYPES + code] = <void*> cumprod_kernel[number]
    table[H_LOGCUMSUMEXP * N_DTYPES + code] = <void*> logcumsumexp_kernel[number]
    table[H_RECURRENCE * N_DTYPES + code] = <void*> recurrence_kernel[number]


cdef inline void register_integer(whole tag, int code, void** table) noexcept:
    register_whole[whole](tag, code, table)
    register_ordered[whole](tag, code, table)


cdef void register_kernels(void** table) noexcept:
    register_integer[bool_t](0, BOOL, table)
    register_integer[uint8_t](0, UINT8, table)
    register_integer[int8_t](0, INT8, table)
    register_integer[int16_t](0, INT16, table)
    register_integer[int32_t](0, INT32, table)
    register_integer[int64_t](0, INT64, table)
    register_integer[uint16_t](0, UINT16, table)
    register_integer[uint32_t](0, UINT32, table)
    register_integer[uint64_t](0, UINT64, table)
    register_ordered[float](0, FLOAT32, table)
    register_ordered[double](0, FLOAT64, table)
    register_half[float16](NULL, FLOAT16, table)
    register_half[bfloat16](NULL, BFLOAT16, table)
    register_number[float](NULL, FLOAT32, table)
    register_number[double](NULL, FLOAT64, table)
    register_number[float16](NULL, FLOAT16, table)
    register_number[bfloat16](NULL, BFLOAT16, table)


def register_address():
    return <size_t> &register_kernels
