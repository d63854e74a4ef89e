# Kernel group "linalg": inner products, and matrix products of integers, which BLAS does not have.
include "_types.pxi"
include "_hand_ids.pxi"

cdef enum:
    LANES = 16
    BLOCK = 2048           # elements that a lane adds up before it goes to double


cdef double dot_block(const real* a, const real* b, int64_t n) noexcept nogil:
    """n <= BLOCK contiguous elements."""
    cdef real lane[LANES]
    cdef double total = 0
    cdef int64_t i = 0, j
    for j in range(LANES):
        lane[j] = 0
    while i + LANES <= n:
        for j in range(LANES):
            lane[j] += a[i + j] * b[i + j]
        i += LANES
    for j in range(LANES):
        total += lane[j]
    while i < n:
        total += <double> a[i] * <double> b[i]
        i += 1
    return total


# A Loop: y[0] = sum of a * b. The first operand's type tells the dtype.
cdef void dot_kernel(element** p, const int64_t* st, int64_t n, const double* attr) noexcept nogil:
    cdef const char* a = <const char*> p[1]
    cdef const char* b = <const char*> p[2]
    cdef double total = 0
    cdef int64_t whole = 0, i = 0, k
    if element is float or element is double:
        if st[1] == sizeof(element) and st[2] == sizeof(element):
            while i < n:
                k = n - i if n - i < BLOCK else BLOCK
                total += dot_block[element](<const element*> a + i, <const element*> b + i, k)
                i += k
        else:
            for i in range(n):
                total += <double> (<const element*> (a + i * st[1]))[0] * <double> (<const element*> (b + i * st[2]))[0]
        p[0][0] = <element> total
    else:
        for i in range(n):
            whole += <int64_t> (<const element*> (a + i * st[1]))[0] * <int64_t> (<const element*> (b + i * st[2]))[0]
        p[0][0] = <element> whole


# y (row-major, n x p) = a (n x k) @ b (k x p); sizes are n, p, k; strides those of a and b in bytes. Sums wrap.
cdef void mm_kernel(element* y, const char* a, const char* b, const int64_t* sizes,
                    const int64_t* strides) noexcept nogil:
    cdef int64_t i, j, q, n = sizes[0], p = sizes[1], k = sizes[2]
    cdef element v
    cdef const char* row
    for i in range(n):
        for j in range(p):
            y[j] = 0
        for q in range(k):
            v = (<const element*> (a + i * strides[0] + q * strides[1]))[0]
            row = b + q * strides[2]
            if strides[3] == sizeof(element):
                for j in range(p):
                    y[j] += v * (<const element*> row)[j]
            else:
                for j in range(p):
                    y[j] += v * (<const element*> (row + j * strides[3]))[0]
        y += p


cdef inline void register_integer(element tag, int code, void** table) noexcept:
    table[H_MM * N_DTYPES + code] = <void*> mm_kernel[element]
    table[H_DOT * N_DTYPES + code] = <void*> dot_kernel[element]


cdef void register_kernels(void** table) noexcept:
    register_integer[uint8_t](0, UINT8, table)
    register_integer[int32_t](0, INT32, table)
    register_integer[int64_t](0, INT64, table)
    register_integer[uint64_t](0, UINT64, table)
    table[H_DOT * N_DTYPES + FLOAT32] = <void*> dot_kernel[float]
    table[H_DOT * N_DTYPES + FLOAT64] = <void*> dot_kernel[double]


def register_address():
    return <size_t> &register_kernels
