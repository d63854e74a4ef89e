# Kernel group "copy": conversion between every pair of dtypes, and adding in place. A fill is a conversion from a
# source of stride 0. What is here is for the types that have kernels; cast.h makes the others' of these.
# Invariant: no conversion is undefined behaviour; what does not fit an integer gives what x86's conversion instruction
# gives.
include "_types.pxi"
include "_hand_ids.pxi"

cdef extern from *:
    """
    /* Whether a strided source is read in vectors for a result of stride sy: 1.4 times as fast as one by one with AVX-512,
       and 1.5 times slower without. A macro, because a run-time test changes how GCC versions the loop after it. */
    #ifdef __AVX512F__
    #define cyg_gathers(sy, size) ((sy) == (int64_t)(size))
    #else
    #define cyg_gathers(sy, size) 0
    #endif
    """
    bint gathers "cyg_gathers"(int64_t sy, size_t size) noexcept nogil

cdef extern from "cast.h":
    void c_complete(void** casts, void** adds) noexcept

ctypedef fused source:
    bool_t
    uint8_t
    int32_t
    int64_t
    uint64_t
    float
    double


cdef inline int64_t to_int64(source x) noexcept nogil:
    cdef source z = x
    if source is float or source is double:
        # 2**63 is exact in both types; NaN fails both tests
        if not (x >= <source> -9223372036854775808.0 and x < <source> 9223372036854775808.0):
            z = <source> -9223372036854775808.0
    return <int64_t> z


cdef inline uint64_t to_uint64(source x) noexcept nogil:
    if source is float or source is double:
        if x >= <source> 9223372036854775808.0 and x < <source> 18446744073709551616.0:
            return <uint64_t> to_int64[source](x - <source> 9223372036854775808.0) + (<uint64_t> 1 << 63)
    return <uint64_t> to_int64[source](x)


cdef inline int32_t to_int32(source x) noexcept nogil:
    cdef source z = x
    if source is float:
        z = x if x >= <float> -2147483648.0 and x < <float> 2147483648.0 else <float> -2147483648.0
    elif source is double:
        z = x if x > -2147483649.0 and x < 2147483648.0 else -2147483648.0
    return <int32_t> z


cdef inline element convert(source x, element tag) noexcept nogil:
    if element is bool_t:
        return x != 0
    elif source is bool_t:
        return <element> (x != 0)
    elif element is int32_t:
        return to_int32[source](x)
    elif element is float or element is double:
        return <element> x
    elif element is uint64_t:
        return to_uint64[source](x)
    else:
        return <element> to_int64[source](x)


# A Loop; the argument types carry the two dtypes, since a fused function is told apart by its arguments only.
cdef void cast_loop(element** p, const int64_t* st, int64_t n, const source* attr) noexcept nogil:
    cdef element* y = p[0]
    cdef source* x = <source*> p[1]
    cdef element v = 0
    cdef int64_t i
    cdef int64_t sy = st[0], sx = st[1]
    if sy == sizeof(element) and sx == sizeof(source):
        for i in range(n):
            y[i] = convert[source, element](x[i], v)
    elif sx == 0:
        v = convert[source, element](x[0], v)
        if sy == sizeof(element):
            for i in range(n):
                y[i] = v
        else:
            for i in range(n):
                (<element*> (<char*> y + i * sy))[0] = v
    elif gathers(sy, sizeof(element)):
        for i in range(n):
            y[i] = convert[source, element]((<source*> (<char*> x + i * sx))[0], v)
    else:
        for i in range(n):
            (<element*> (<char*> y + i * sy))[0] = convert[source, element]((<source*> (<char*> x + i * sx))[0], v)


# A Loop: y += x; the first operand's type tells the dtype. Rows may repeat an element (stride 0), so it runs strictly
# in order.
cdef void add_at(element** p, const int64_t* st, int64_t n, const double* attr) noexcept nogil:
    cdef element* y = p[0]
    cdef const element* x = p[1]
    cdef int64_t i
    if st[0] == sizeof(element) and st[1] == sizeof(element):
        for i in range(n):
            if element is bool_t:
                y[i] |= x[i]
            else:
                y[i] += x[i]
    else:
        for i in range(n):
            if element is bool_t:
                (<element*> (<char*> y + i * st[0]))[0] |= (<element*> (<char*> x + i * st[1]))[0]
            else:
                (<element*> (<char*> y + i * st[0]))[0] += (<element*> (<char*> x + i * st[1]))[0]


cdef inline void register_pair(element to, source x, int code, int source_code, void** table) noexcept:
    table[(H_CAST + source_code) * N_DTYPES + code] = <void*> cast_loop[element, source]


cdef inline void register_from(source x, int code, void** table) noexcept:
    table[H_ADD_AT * N_DTYPES + code] = <void*> add_at[source]
    register_pair[bool_t, source](0, x, BOOL, code, table)
    register_pair[uint8_t, source](0, x, UINT8, code, table)
    register_pair[int32_t, source](0, x, INT32, code, table)
    register_pair[int64_t, source](0, x, INT64, code, table)
    register_pair[uint64_t, source](0, x, UINT64, code, table)
    register_pair[float, source](0, x, FLOAT32, code, table)
    register_pair[double, source](0, x, FLOAT64, code, table)


cdef void register_kernels(void** table) noexcept:
    register_from[bool_t](0, BOOL, table)
    register_from[uint8_t](0, UINT8, table)
    register_from[int32_t](0, INT32, table)
    register_from[int64_t](0, INT64, table)
    register_from[uint64_t](0, UINT64, table)
    register_from[float](0, FLOAT32, table)
    register_from[double](0, FLOAT64, table)
    c_complete(&table[H_CAST * N_DTYPES], &table[H_ADD_AT * N_DTYPES])


def register_address():
    return <size_t> &register_kernels
