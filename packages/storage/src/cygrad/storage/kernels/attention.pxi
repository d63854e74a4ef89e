# Kernel group "attention": what happens to a block of scores between two matrix products.
# Invariant: a row's values do not depend on the rows beside it.
from libc.math cimport INFINITY, log
include "_types.pxi"
include "_hand_ids.pxi"
include "_vecmath.pxi"
include "_lanes.pxi"


cdef double total_of(const real* x, int64_t n) noexcept nogil:
    cdef real lane[LANES]
    cdef double total = 0
    cdef int64_t i = 0, j
    if n >= LANES:
        for j in range(LANES):
            lane[j] = 0
        while i + LANES <= n:
            for j in range(LANES):
                lane[j] += x[i + j]
            i += LANES
        total = sum_lanes[real](lane)
    while i < n:
        total += x[i]
        i += 1
    return total


cdef double product_of(const real* x, const real* y, int64_t n) noexcept nogil:
    cdef real lane[LANES]
    cdef double total = 0
    cdef int64_t i = 0, j
    if n >= LANES:
        for j in range(LANES):
            lane[j] = 0
        while i + LANES <= n:
            for j in range(LANES):
                lane[j] += x[i + j] * y[i + j]
            i += LANES
        total = sum_lanes[real](lane)
    while i < n:
        total += x[i] * y[i]
        i += 1
    return total


# Scores of a block of keys become weights relative to the largest score so far, `top`; `sums` and the rows of y, which
# hold what the blocks before gave, are brought to the new largest score. One softmax over blocks (Milakov and
# Gimelshein, "Online normalizer calculation for softmax", 2018).
cdef void weigh_kernel(real* s, real* y, double* sums, real* top, int64_t rows, int64_t keys, int64_t width) noexcept nogil:
    cdef int64_t r, i
    cdef real best, shift, factor
    for r in range(rows):
        best = largest[real](s, keys)
        best = best if best > top[r] else top[r]
        shift = best if best > <real> -INFINITY else 0
        factor = exponential[real](top[r] - shift)
        for i in range(keys):
            s[i] = exponential[real](s[i] - shift)
        sums[r] = sums[r] * factor + total_of[real](s, keys)
        if factor != 1:
            for i in range(width):
                y[i] *= factor
        top[r] = best
        s += keys
        y += width


# The rows of y over their sums; top becomes the logarithm of the sum of all exponentials, infinity for rows that see no
# key, whose weights are then 0.
cdef void finish_kernel(real* y, const double* sums, real* top, int64_t rows, int64_t width) noexcept nogil:
    cdef int64_t r, i
    cdef real scale
    for r in range(rows):
        if sums[r] == 0:
            for i in range(width):
                y[i] = 0
            top[r] = <real> INFINITY
        else:
            scale = <real> (1 / sums[r])
            for i in range(width):
                y[i] *= scale
            top[r] = <real> ((top[r] if top[r] > <real> -INFINITY else 0) + log(sums[r]))
        y += width


# Scores become weights, and their gradients g those of the scores: weight * (g - inner), inner: the row of the result
# times its gradient.
cdef void weigh_back_kernel(real* s, real* g, const real* top, const real* inner, int64_t rows,
                            int64_t keys) noexcept nogil:
    cdef int64_t r, i
    for r in range(rows):
        for i in range(keys):
            s[i] = exponential[real](s[i] - top[r])
            g[i] = s[i] * (g[i] - inner[r])
        s += keys
        g += keys


cdef void inner_kernel(real* inner, const real* y, const real* g, int64_t rows, int64_t width) noexcept nogil:
    cdef int64_t r
    for r in range(rows):
        inner[r] = <real> product_of[real](y + r * width, g + r * width, width)


cdef inline void register_real(real tag, int code, void** table) noexcept:
    table[H_WEIGH * N_DTYPES + code] = <void*> weigh_kernel[real]
    table[H_WEIGH_END * N_DTYPES + code] = <void*> finish_kernel[real]
    table[H_WEIGH_BACK * N_DTYPES + code] = <void*> weigh_back_kernel[real]
    table[H_ROWS_INNER * N_DTYPES + code] = <void*> inner_kernel[real]


cdef void register_kernels(void** table) noexcept:
    register_real[float](0, FLOAT32, table)
    register_real[double](0, FLOAT64, table)


def register_address():
    return <size_t> &register_kernels
