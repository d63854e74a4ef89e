# Kernel group "update": elements of x changed by those of v, at scattered places or along a dimension.
#
# An Update takes n elements, strictly in order: places may repeat. Element i of x lies at xo[i], or at i * xs where xo
# is NULL; that of v at vo[i], or i * vs. All in bytes.
# Invariant: integers wrap around without undefined behaviour; a NaN in either operand wins in MIN and MAX.
from libc.stdint cimport int8_t, int16_t
include "_types.pxi"
include "_hand_ids.pxi"
from cygrad.storage.core cimport INT8, INT16, UINT16, UINT32, COMPLEX64, COMPLEX128

cdef enum:                 # added to H_UPDATE
    ADD = 0
    MUL = 1
    MIN = 2
    MAX = 3

# Every type of C: what these loops do is too little to be worth a conversion first.
ctypedef fused number:
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

ctypedef fused part:       # real or imaginary
    float
    double


cdef inline number joined(number a, number b, int how) noexcept nogil:
    if number is bool_t:
        return (a != 0) | (b != 0) if how == ADD or how == MAX else (a != 0) & (b != 0)
    elif how == MAX:
        return b if (b > a) | (b != b) else a
    elif how == MIN:
        return b if (b < a) | (b != b) else a
    elif number is float or number is double:
        return a + b if how == ADD else a * b
    else:
        return <number> (<uint64_t> a + <uint64_t> b if how == ADD else <uint64_t> a * <uint64_t> b)


cdef inline void update(number* x, const int64_t* xo, int64_t xs, const number* v, const int64_t* vo, int64_t vs,
                        int64_t n, int how) noexcept nogil:
    cdef int64_t i
    cdef number* p
    cdef const number* q
    if xo == NULL and vo == NULL and xs == sizeof(number) and vs == sizeof(number):
        for i in range(n):
            x[i] = joined[number](x[i], v[i], how)
        return
    for i in range(n):
        p = <number*> (<char*> x + (xo[i] if xo != NULL else i * xs))
        q = <const number*> (<const char*> v + (vo[i] if vo != NULL else i * vs))
        p[0] = joined[number](p[0], q[0], how)


cdef void update_add(number* x, const int64_t* xo, int64_t xs, const number* v, const int64_t* vo, int64_t vs,
                     int64_t n) noexcept nogil:
    update[number](x, xo, xs, v, vo, vs, n, ADD)


cdef void update_mul(number* x, const int64_t* xo, int64_t xs, const number* v, const int64_t* vo, int64_t vs,
                     int64_t n) noexcept nogil:
    update[number](x, xo, xs, v, vo, vs, n, MUL)


cdef void update_min(number* x, const int64_t* xo, int64_t xs, const number* v, const int64_t* vo, int64_t vs,
                     int64_t n) noexcept nogil:
    update[number](x, xo, xs, v, vo, vs, n, MIN)


cdef void update_max(number* x, const int64_t* xo, int64_t xs, const number* v, const int64_t* vo, int64_t vs,
                     int64_t n) noexcept nogil:
    update[number](x, xo, xs, v, vo, vs, n, MAX)


# A Scatter: the place of x at i * xs + step * index i takes in element i of v, in order. What lies outside is left out.
cdef void scatter_add(number* x, int64_t xs, const number* v, int64_t vs, const char* index, int64_t st, int64_t n,
                      int64_t size, int64_t step) noexcept nogil:
    cdef int64_t i, k
    cdef number* p
    if st == sizeof(int64_t) and xs == 0 and vs == sizeof(number) and step == sizeof(number):
        for i in range(n):
            k = (<const int64_t*> index)[i]
            if <uint64_t> k < <uint64_t> size:
                x[k] = joined[number](x[k], v[i], ADD)
        return
    for i in range(n):
        k = (<const int64_t*> (index + i * st))[0]
        if <uint64_t> k < <uint64_t> size:
            p = <number*> (<char*> x + i * xs + k * step)
            p[0] = joined[number](p[0], (<const number*> (<const char*> v + i * vs))[0], ADD)


# A Loop: y /= count, an int64; integers are rounded down. Nothing was added where the count is 0.
cdef void divide_count(number** p, const int64_t* st, int64_t n, const double* attr) noexcept nogil:
    cdef int64_t i, k
    cdef number* y
    for i in range(n):
        y = <number*> (<char*> p[0] + i * st[0])
        k = (<int64_t*> (<char*> p[1] + i * st[1]))[0]
        if k > 1:
            if number is float or number is double:
                y[0] = y[0] / <number> k
            elif number is uint64_t:
                y[0] = y[0] // <uint64_t> k
            else:
                y[0] = <number> ((<int64_t> y[0] - (k - 1 if y[0] < 0 else 0)) // k)


# A complex number is a pair: sums are those of its parts.
cdef void complex_add(part* x, const int64_t* xo, int64_t xs, const part* v, const int64_t* vo, int64_t vs,
                      int64_t n) noexcept nogil:
    cdef int64_t i
    cdef part* p
    cdef const part* q
    for i in range(n):
        p = <part*> (<char*> x + (xo[i] if xo != NULL else i * xs))
        q = <const part*> (<const char*> v + (vo[i] if vo != NULL else i * vs))
        p[0] += q[0]
        p[1] += q[1]


cdef void complex_mul(part* x, const int64_t* xo, int64_t xs, const part* v, const int64_t* vo, int64_t vs,
                      int64_t n) noexcept nogil:
    cdef int64_t i
    cdef part re
    cdef part* p
    cdef const part* q
    for i in range(n):
        p = <part*> (<char*> x + (xo[i] if xo != NULL else i * xs))
        q = <const part*> (<const char*> v + (vo[i] if vo != NULL else i * vs))
        re = p[0] * q[0] - p[1] * q[1]
        p[1] = p[0] * q[1] + p[1] * q[0]
        p[0] = re


cdef void complex_divide_count(part** p, const int64_t* st, int64_t n, const double* attr) noexcept nogil:
    cdef int64_t i, k
    cdef part* y
    for i in range(n):
        y = <part*> (<char*> p[0] + i * st[0])
        k = (<int64_t*> (<char*> p[1] + i * st[1]))[0]
        if k > 1:
            y[0] = y[0] / <part> k
            y[1] = y[1] / <part> k


cdef inline void register_number(number tag, int code, void** table) noexcept:
    table[(H_UPDATE + ADD) * N_DTYPES + code] = <void*> update_add[number]
    table[(H_UPDATE + MUL) * N_DTYPES + code] = <void*> update_mul[number]
    table[(H_UPDATE + MIN) * N_DTYPES + code] = <void*> update_min[number]
    table[(H_UPDATE + MAX) * N_DTYPES + code] = <void*> update_max[number]
    table[H_SCATTER_ADD * N_DTYPES + code] = <void*> scatter_add[number]
    if number is not bool_t:
        table[H_DIVIDE_COUNT * N_DTYPES + code] = <void*> divide_count[number]


cdef inline void register_complex(part tag, int code, void** table) noexcept:
    table[(H_UPDATE + ADD) * N_DTYPES + code] = <void*> complex_add[part]
    table[(H_UPDATE + MUL) * N_DTYPES + code] = <void*> complex_mul[part]
    table[H_DIVIDE_COUNT * N_DTYPES + code] = <void*> complex_divide_count[part]


cdef void register_kernels(void** table) noexcept:
    register_number[bool_t](0, BOOL, table)
    register_number[uint8_t](0, UINT8, table)
    register_number[int8_t](0, INT8, table)
    register_number[int16_t](0, INT16, table)
    register_number[int32_t](0, INT32, table)
    register_number[int64_t](0, INT64, table)
    register_number[uint16_t](0, UINT16, table)
    register_number[uint32_t](0, UINT32, table)
    register_number[uint64_t](0, UINT64, table)
    register_number[float](0, FLOAT32, table)
    register_number[double](0, FLOAT64, table)
    register_complex[float](0, COMPLEX64, table)
    register_complex[double](0, COMPLEX128, table)


def register_address():
    return <size_t> &register_kernels
