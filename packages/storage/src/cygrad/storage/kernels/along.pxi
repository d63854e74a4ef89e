# Kernel group "along": what needs a whole line of its input: softmax, layer normalisation, and their gradients.
#
# An Along kernel works on m lines of n elements. step holds the byte strides from line to line, st those inside a line,
# of y, a, b. Lines that are contiguous go one by one; else up to COLUMNS lines go side by side, which is contiguous for
# a strided dimension.
# Invariant: the value of a line does not depend on m or on its neighbours.
from libc.math cimport INFINITY, log, sqrt
include "_types.pxi"
include "_hand_ids.pxi"
include "_vecmath.pxi"
include "_lanes.pxi"

cdef enum:
    COLUMNS = 64
    BLOCK = 1024
    TOGETHER = 8           # rows whose share of the gradients of weight and bias is added up before it goes to double
    PLAIN = 0
    LOGARITHM = 1


cdef inline const real* at(const real* p, int64_t offset) noexcept nogil:
    return <const real*> (<const char*> p + offset)


cdef double sum_line(const real* x, int64_t n) noexcept nogil:
    cdef real lane[LANES]
    cdef double total = 0
    cdef int64_t i, j, k
    while n >= LANES:
        k = (n if n < BLOCK else BLOCK) & ~<int64_t> (LANES - 1)
        for j in range(LANES):
            lane[j] = x[j]
        i = LANES
        while i < k:
            for j in range(LANES):
                lane[j] += x[i + j]
            i += LANES
        total += sum_lanes[real](lane)
        x += k
        n -= k
    for i in range(n):
        total += x[i]
    return total


# ---- softmax

cdef inline void softmax_line(real* y, const real* x, int64_t n, int kind) noexcept nogil:
    cdef real part[BLOCK]
    cdef real top = largest[real](x, n)
    cdef real shift, scale
    cdef double total = 0
    cdef int64_t i, k, done = 0
    if kind == PLAIN:
        for i in range(n):
            y[i] = exponential[real](x[i] - top)
        scale = <real> sum_line[real](y, n)
        for i in range(n):
            y[i] /= scale
        return
    while done < n:
        k = n - done if n - done < BLOCK else BLOCK
        for i in range(k):
            part[i] = exponential[real](x[done + i] - top)
        total += sum_line[real](part, k)
        done += k
    shift = <real> log(total)
    for i in range(n):
        y[i] = (x[i] - top) - shift


cdef inline const real* load_row(const real* x, int64_t step, int64_t m, real* row) noexcept nogil:
    """m elements side by side: in place where they are contiguous, else copied into `row`."""
    cdef int64_t j
    if step == sizeof(real):
        return x
    for j in range(m):
        row[j] = at[real](x, j * step)[0]
    return row


cdef inline void store_row(real* y, int64_t step, int64_t m, const real* row) noexcept nogil:
    cdef int64_t j
    if step == sizeof(real):
        for j in range(m):
            y[j] = row[j]
    else:
        for j in range(m):
            (<real*> at[real](y, j * step))[0] = row[j]


cdef inline void softmax_columns(real* y, const real* x, int64_t m, const int64_t* step, int64_t n, const int64_t* st,
                                 int kind) noexcept nogil:
    cdef real top[COLUMNS]
    cdef double total[COLUMNS]
    cdef real part[COLUMNS]
    cdef real held[COLUMNS]
    cdef const real* row
    cdef int64_t i, j
    for j in range(m):
        top[j] = <real> -INFINITY
        total[j] = 0
    for i in range(n):
        row = load_row[real](at[real](x, i * st[1]), step[1], m, held)
        for j in range(m):
            top[j] = row[j] if row[j] > top[j] else top[j]
    for i in range(n):
        row = load_row[real](at[real](x, i * st[1]), step[1], m, held)
        for j in range(m):
            part[j] = exponential[real](row[j] - top[j])
        for j in range(m):
            total[j] += part[j]
        if kind == PLAIN:
            store_row[real](<real*> at[real](y, i * st[0]), step[0], m, part)
    for j in range(m):
        part[j] = <real> (log(total[j]) if kind == LOGARITHM else total[j])
    for i in range(n):
        row = load_row[real](at[real](y, i * st[0]) if kind == PLAIN else at[real](x, i * st[1]),
                             step[0] if kind == PLAIN else step[1], m, held)
        for j in range(m):
            held[j] = row[j] / part[j] if kind == PLAIN else (row[j] - top[j]) - part[j]
        store_row[real](<real*> at[real](y, i * st[0]), step[0], m, held)


cdef inline void softmax_lines(real* y, const real* a, int64_t m, const int64_t* step, int64_t n, const int64_t* st,
                               int kind) noexcept nogil:
    cdef int64_t j, k
    if st[0] == sizeof(real) and st[1] == sizeof(real):
        for j in range(m):
            softmax_line[real](<real*> at[real](y, j * step[0]), at[real](a, j * step[1]), n, kind)
        return
    j = 0
    while j < m:
        k = m - j if m - j < COLUMNS else COLUMNS
        softmax_columns[real](<real*> at[real](y, j * step[0]), at[real](a, j * step[1]), k, step, n, st, kind)
        j += k


cdef void softmax_kernel(real* y, const real* a, const real* b, int64_t m, const int64_t* step, int64_t n,
                         const int64_t* st) noexcept nogil:
    softmax_lines[real](y, a, m, step, n, st, PLAIN)


cdef void log_softmax_kernel(real* y, const real* a, const real* b, int64_t m, const int64_t* step, int64_t n,
                             const int64_t* st) noexcept nogil:
    softmax_lines[real](y, a, m, step, n, st, LOGARITHM)


# ---- their gradients; a is the gradient, b the result of the forward pass

cdef inline void backward_line(real* y, const real* g, const real* b, int64_t n, int kind) noexcept nogil:
    cdef real part[BLOCK]
    cdef double total = 0
    cdef real s
    cdef int64_t i, k, done = 0
    if kind == LOGARITHM:
        s = <real> sum_line[real](g, n)
        for i in range(n):
            y[i] = g[i] - exponential[real](b[i]) * s
        return
    while done < n:
        k = n - done if n - done < BLOCK else BLOCK
        for i in range(k):
            part[i] = g[done + i] * b[done + i]
        total += sum_line[real](part, k)
        done += k
    s = <real> total
    for i in range(n):
        y[i] = b[i] * (g[i] - s)


cdef inline void backward_columns(real* y, const real* g, const real* b, int64_t m, const int64_t* step, int64_t n,
                                  const int64_t* st, int kind) noexcept nogil:
    cdef double total[COLUMNS]
    cdef real s[COLUMNS]
    cdef real part[COLUMNS]
    cdef real held[COLUMNS]
    cdef real held_too[COLUMNS]
    cdef const real* grad
    cdef const real* out
    cdef int64_t i, j
    for j in range(m):
        total[j] = 0
    for i in range(n):
        grad = load_row[real](at[real](g, i * st[1]), step[1], m, held)
        if kind == LOGARITHM:
            for j in range(m):
                total[j] += grad[j]
        else:
            out = load_row[real](at[real](b, i * st[2]), step[2], m, held_too)
            for j in range(m):
                total[j] += grad[j] * out[j]
    for j in range(m):
        s[j] = <real> total[j]
    for i in range(n):
        grad = load_row[real](at[real](g, i * st[1]), step[1], m, held)
        out = load_row[real](at[real](b, i * st[2]), step[2], m, held_too)
        for j in range(m):
            part[j] = grad[j] - exponential[real](out[j]) * s[j] if kind == LOGARITHM else out[j] * (grad[j] - s[j])
        store_row[real](<real*> at[real](y, i * st[0]), step[0], m, part)


cdef inline void backward_lines(real* y, const real* g, const real* b, int64_t m, const int64_t* step, int64_t n,
                                const int64_t* st, int kind) noexcept nogil:
    cdef int64_t j, k
    if st[0] == sizeof(real) and st[1] == sizeof(real) and st[2] == sizeof(real):
        for j in range(m):
            backward_line[real](<real*> at[real](y, j * step[0]), at[real](g, j * step[1]), at[real](b, j * step[2]), n,
                                kind)
        return
    j = 0
    while j < m:
        k = m - j if m - j < COLUMNS else COLUMNS
        backward_columns[real](<real*> at[real](y, j * step[0]), at[real](g, j * step[1]), at[real](b, j * step[2]), k,
                               step, n, st, kind)
        j += k


cdef void softmax_backward_kernel(real* y, const real* a, const real* b, int64_t m, const int64_t* step, int64_t n,
                                  const int64_t* st) noexcept nogil:
    backward_lines[real](y, a, b, m, step, n, st, PLAIN)


cdef void log_softmax_backward_kernel(real* y, const real* a, const real* b, int64_t m, const int64_t* step, int64_t n,
                                      const int64_t* st) noexcept nogil:
    backward_lines[real](y, a, b, m, step, n, st, LOGARITHM)


# ---- layer normalisation: m contiguous rows of n elements; w and b belong to all of them
#
# Mean and deviation are taken anew from the row wherever they are needed: it is in the cache anyhow, and nothing has to
# be kept for backward but the input.

cdef inline real mean_of(const real* x, int64_t n) noexcept nogil:
    return <real> (sum_line[real](x, n) / <double> n)


cdef inline real inverse_deviation(const real* x, real mean, int64_t n, double eps) noexcept nogil:
    cdef real part[BLOCK]
    cdef double total = 0
    cdef int64_t i, k, done = 0
    while done < n:
        k = n - done if n - done < BLOCK else BLOCK
        for i in range(k):
            part[i] = (x[done + i] - mean) * (x[done + i] - mean)
        total += sum_line[real](part, k)
        done += k
    return <real> (1 / sqrt(total / <double> n + eps))


cdef void layer_norm_kernel(real* y, const real* d, const real* x, const real* w, const real* b, int64_t m, int64_t n,
                            double eps) noexcept nogil:
    cdef real mean, scale
    cdef int64_t i, j
    for j in range(m):
        mean = mean_of[real](x, n)
        scale = inverse_deviation[real](x, mean, n, eps)
        for i in range(n):
            y[i] = (x[i] - mean) * scale * w[i] + b[i]
        x += n
        y += n


cdef void layer_norm_input_kernel(real* y, const real* d, const real* x, const real* w, const real* b, int64_t m,
                                  int64_t n, double eps) noexcept nogil:
    """Where v is d * w and z the normalised row, scale * (v - mean(v) - z * mean(v * z))."""
    cdef real part[BLOCK]
    cdef real moment[BLOCK]
    cdef real mean, scale, shift, slope
    cdef double total, tilt
    cdef int64_t i, j, k, done
    for j in range(m):
        mean = mean_of[real](x, n)
        scale = inverse_deviation[real](x, mean, n, eps)
        total = tilt = 0
        done = 0
        while done < n:
            k = n - done if n - done < BLOCK else BLOCK
            for i in range(k):
                part[i] = d[done + i] * w[done + i]
            for i in range(k):
                moment[i] = part[i] * (x[done + i] - mean)
            total += sum_line[real](part, k)
            tilt += sum_line[real](moment, k)
            done += k
        shift = <real> (total / <double> n)
        slope = <real> (tilt / <double> n) * scale * scale
        for i in range(n):
            y[i] = (d[i] * w[i] - shift - (x[i] - mean) * slope) * scale
        x += n
        d += n
        y += n


cdef void layer_norm_weight_kernel(double* y, const real* d, const real* x, const real* w, const real* b, int64_t m,
                                   int64_t n, double eps) noexcept nogil:
    """Adds d times the normalised row, of all rows, to y."""
    cdef real mean, scale
    cdef int64_t i, j
    for j in range(m):
        mean = mean_of[real](x, n)
        scale = inverse_deviation[real](x, mean, n, eps)
        for i in range(n):
            y[i] += d[i] * ((x[i] - mean) * scale)
        x += n
        d += n


cdef void layer_norm_slope(const real* x, const real* d, const real* w, int64_t n, double eps, real* c) noexcept nogil:
    """c: mean and inverse deviation of a row, then what layer_norm_input_kernel calls shift and slope."""
    cdef real part[BLOCK]
    cdef real moment[BLOCK]
    cdef double total = 0, tilt = 0
    cdef int64_t i, k, done = 0
    c[0] = mean_of[real](x, n)
    c[1] = inverse_deviation[real](x, c[0], n, eps)
    while done < n:
        k = n - done if n - done < BLOCK else BLOCK
        for i in range(k):
            part[i] = d[done + i] * w[done + i]
            moment[i] = part[i] * (x[done + i] - c[0])
        total += sum_line[real](part, k)
        tilt += sum_line[real](moment, k)
        done += k
    c[2] = <real> (total / <double> n)
    c[3] = <real> (tilt / <double> n) * c[1] * c[1]


cdef inline void layer_norm_part(real* y, const real* d, const real* x, const real* w, const real* c, real* bias, real* weight,
                                 int64_t k) noexcept nogil:
    """k <= BLOCK elements of one row: its gradient, and what it adds to those of bias and weight."""
    cdef real mean = c[0], scale = c[1], shift = c[2], slope = c[3], centred
    cdef int64_t i
    for i in range(k):
        centred = x[i] - mean
        bias[i] += d[i]
        weight[i] += d[i] * (centred * scale)
        y[i] = (d[i] * w[i] - shift - centred * slope) * scale


cdef void layer_norm_all_kernel(real* y, const real* d, const real* x, const real* w, double* sums, int64_t m, int64_t n,
                                double eps) noexcept nogil:
    """The gradient for x; those for the bias, then those for the weight, of all rows, are added to `sums`."""
    cdef real bias[BLOCK]
    cdef real weight[BLOCK]
    cdef real c[4 * TOGETHER]
    cdef int64_t i, j, k, done, rows
    while m > 0:
        rows = m if m < TOGETHER else TOGETHER
        for j in range(rows):
            layer_norm_slope[real](x + j * n, d + j * n, w, n, eps, c + 4 * j)
        done = 0
        while done < n:
            k = n - done if n - done < BLOCK else BLOCK
            for i in range(k):
                bias[i] = 0
                weight[i] = 0
            for j in range(rows):
                layer_norm_part[real](y + j * n + done, d + j * n + done, x + j * n + done, w + done, c + 4 * j, bias, weight, k)
            for i in range(k):
                sums[done + i] += bias[i]
                sums[n + done + i] += weight[i]
            done += k
        x += rows * n
        d += rows * n
        y += rows * n
        m -= rows


cdef inline void register_real(real tag, int code, void** table) noexcept:
    table[H_LAYER_NORM * N_DTYPES + code] = <void*> layer_norm_kernel[real]
    table[H_LAYER_NORM_INPUT * N_DTYPES + code] = <void*> layer_norm_input_kernel[real]
    table[H_LAYER_NORM_WEIGHT * N_DTYPES + code] = <void*> layer_norm_weight_kernel[real]
    table[H_LAYER_NORM_ALL * N_DTYPES + code] = <void*> layer_norm_all_kernel[real]
    table[H_SOFTMAX * N_DTYPES + code] = <void*> softmax_kernel[real]
    table[H_LOG_SOFTMAX * N_DTYPES + code] = <void*> log_softmax_kernel[real]
    table[H_SOFTMAX_BACKWARD * N_DTYPES + code] = <void*> softmax_backward_kernel[real]
    table[H_LOG_SOFTMAX_BACKWARD * N_DTYPES + code] = <void*> log_softmax_backward_kernel[real]


cdef void register_kernels(void** table) noexcept:
    register_real[float](0, FLOAT32, table)
    register_real[double](0, FLOAT64, table)


def register_address():
    return <size_t> &register_kernels
