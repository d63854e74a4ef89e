# Kernel group "batch_norm": batch normalisation. Each kernel takes n rows of m channels, at most CHANNELS, `stride` elements from
# row to row; or, with m and stride 1, a line of n elements of one channel. Parameters are lists of CHANNELS numbers.
include "_types.pxi"
include "_hand_ids.pxi"

cdef enum:
    CHANNELS = 16
    LANES = 16


# y = (x - mean) * factor + offset
cdef void scale_kernel(real* y, const real* x, int64_t m, int64_t n, int64_t stride, const double* c) noexcept nogil:
    cdef real mean[CHANNELS]
    cdef real factor[CHANNELS]
    cdef real offset[CHANNELS]
    cdef real mean0 = <real> c[0], factor0 = <real> c[CHANNELS], offset0 = <real> c[2 * CHANNELS]
    cdef int64_t i, j
    if m == 1 and stride == 1:
        for i in range(n):
            y[i] = (x[i] - mean0) * factor0 + offset0
        return
    for j in range(m):
        mean[j], factor[j], offset[j] = <real> c[j], <real> c[CHANNELS + j], <real> c[2 * CHANNELS + j]
    for i in range(n):
        if m == CHANNELS:
            for j in range(CHANNELS):
                y[i * stride + j] = (x[i * stride + j] - mean[j]) * factor[j] + offset[j]
        else:
            for j in range(m):
                y[i * stride + j] = (x[i * stride + j] - mean[j]) * factor[j] + offset[j]


# acc += the sum of g, and the sum of g * (x - mean)
cdef void sums_kernel(double* acc, const real* g, const real* x, int64_t m, int64_t n, int64_t stride,
                      const double* mean) noexcept nogil:
    cdef double own[LANES]
    cdef double joint[LANES]
    cdef double mean0 = mean[0]
    cdef int64_t i, j
    for j in range(LANES):
        own[j] = 0
        joint[j] = 0
    if m == 1 and stride == 1:
        i = 0
        while i + LANES <= n:
            for j in range(LANES):
                own[j] += g[i + j]
                joint[j] += g[i + j] * (x[i + j] - mean0)
            i += LANES
        while i < n:
            own[0] += g[i]
            joint[0] += g[i] * (x[i] - mean0)
            i += 1
        for j in range(LANES):
            acc[0] += own[j]
            acc[CHANNELS] += joint[j]
        return
    for i in range(n):
        if m == CHANNELS:
            for j in range(CHANNELS):
                own[j] += g[i * stride + j]
                joint[j] += g[i * stride + j] * (x[i * stride + j] - mean[j])
        else:
            for j in range(m):
                own[j] += g[i * stride + j]
                joint[j] += g[i * stride + j] * (x[i * stride + j] - mean[j])
    for j in range(m):
        acc[j] += own[j]
        acc[CHANNELS + j] += joint[j]


# y = g * factor + (x - mean) * slope + offset
cdef void back_kernel(real* y, const real* g, const real* x, int64_t m, int64_t n, int64_t stride,
                      const double* c) noexcept nogil:
    cdef real mean[CHANNELS]
    cdef real factor[CHANNELS]
    cdef real slope[CHANNELS]
    cdef real offset[CHANNELS]
    cdef real mean0 = <real> c[0], factor0 = <real> c[CHANNELS], slope0 = <real> c[2 * CHANNELS]
    cdef real offset0 = <real> c[3 * CHANNELS]
    cdef int64_t i, j, k
    if m == 1 and stride == 1:
        for i in range(n):
            y[i] = g[i] * factor0 + (x[i] - mean0) * slope0 + offset0
        return
    for j in range(m):
        mean[j], factor[j] = <real> c[j], <real> c[CHANNELS + j]
        slope[j], offset[j] = <real> c[2 * CHANNELS + j], <real> c[3 * CHANNELS + j]
    for i in range(n):
        k = i * stride
        if m == CHANNELS:
            for j in range(CHANNELS):
                y[k + j] = g[k + j] * factor[j] + (x[k + j] - mean[j]) * slope[j] + offset[j]
        else:
            for j in range(m):
                y[k + j] = g[k + j] * factor[j] + (x[k + j] - mean[j]) * slope[j] + offset[j]


cdef inline void register_real(real tag, int code, void** table) noexcept:
    table[H_SCALE * N_DTYPES + code] = <void*> scale_kernel[real]
    table[H_SCALE_SUMS * N_DTYPES + code] = <void*> sums_kernel[real]
    table[H_SCALE_BACK * N_DTYPES + code] = <void*> back_kernel[real]


cdef void register_kernels(void** table) noexcept:
    register_real[float](0, FLOAT32, table)
    register_real[double](0, FLOAT64, table)


def register_address():
    return <size_t> &register_kernels
