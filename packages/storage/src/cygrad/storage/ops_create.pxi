# New tensors: filled, ranges, joins.

cdef Storage op_full(Meta* y, int nd, const int64_t* sizes, double value, int dtype):
    cdef Storage s
    check_castable("full", dtype, FLOAT64)
    s = allocate_contig(y, nd, sizes, dtype)
    fill_double(y, value)
    return s


# ---- ranges

cdef void count_up(element* y, int64_t n, int64_t start, int64_t step) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        y[i] = <element> (<uint64_t> start + <uint64_t> i * <uint64_t> step)


cdef void ramp(real* y, int64_t n, double start, double step) noexcept nogil:
    """Rounded as PyTorch's: pairs of 32-byte groups start from a number of their type, the rest is direct."""
    cdef int64_t i = 0, k, width = 32 // sizeof(real)
    cdef int64_t whole = n - n % (2 * width)
    cdef real base
    while i < whole:
        base = <real> fma(step, <double> i, start)
        for k in range(width):
            y[i + k] = <real> fma(step, <double> k, base)
        i += width
    for i in range(whole, n):
        y[i] = <real> fma(step, <double> i, start)


cdef object range_length(object start, object end, object step, int code):
    """Number of elements of the half-open range; RuntimeError where there is none."""
    cdef double count
    if step == 0:
        raise RuntimeError(f"arange: step must be nonzero, got start={start}, end={end}, step={step}")
    if not (isfinite(<double> start) and isfinite(<double> end)):
        raise RuntimeError(f"arange: start and end must be finite, got {start} -> {end}")
    if (start > end) == (step > 0) and start != end:
        raise RuntimeError(f"arange: the sign of step {step} does not lead from {start} to {end}")
    if code == INT64:
        return -((start - end) // step)
    count = ceil((<double> end - <double> start) / <double> step)
    if not 0 <= count < 9.2e18:
        raise RuntimeError(f"arange: from {start} to {end} by {step} is more elements than memory can hold")
    return int(count)


cdef Storage op_arange(Meta* y, object start, object end, object step, int dtype):
    cdef Storage s
    cdef int64_t n, first = 0, stride = 0
    cdef double first_real = 0, stride_real = 0
    cdef int code
    start, end, step = plain_number(start), plain_number(end), plain_number(step)
    if dtype < 0:
        dtype = default_dtype() if float in (type(start), type(end), type(step)) else INT64
    if dtype == BOOL or is_complex(dtype):
        no_kernel("arange", dtype)
    if dtype == INT64 and not any(isinstance(v, float) and not isfinite(<double> v) for v in (start, end, step)):
        if step != 0 and int(step) == 0:
            raise ValueError(f"arange: the step {step} is 0 as an integer; a nonzero one is wanted for int64")
        start, end, step = int(start), int(end), int(step)
    count = range_length(start, end, step, dtype)
    if count > 0x7fffffffffffffff:
        raise RuntimeError(f"arange: from {start} to {end} by {step} is more elements than memory can hold")
    n = count
    if is_float(dtype):
        first_real, stride_real = start, step
    else:
        first, stride = wrapped(int(start)), wrapped(int(step))
    code = counted_in(dtype)
    s = allocate_contig(y, 1, &n, code)
    with nogil:
        if code == INT64:
            count_up[int64_t](<int64_t*> y.data, n, first, stride)
        elif code == FLOAT32:
            ramp[float](<float*> y.data, n, first_real, stride_real)
        else:
            ramp[double](<double*> y.data, n, first_real, stride_real)
    return recast(y, s, dtype)


cdef int counted_in(int code) noexcept:
    """The dtype in which a range is made: int64 for all integers, float32 for halves."""
    return COMPUTED[code] if is_float(code) else INT64


cdef void spread(element* y, int64_t n, double start, double end) noexcept nogil:
    """Symmetric: the second half counts down from `end`, so both ends are exact.

    float32 steps are rounded to float32, and the ends of integers cut to integers, as PyTorch's.
    """
    cdef int64_t i
    cdef double step = (end - start) / (n - 1) if n > 1 else 0
    cdef float first = <float> start, last = <float> end, stride = (last - first) / <float> (n - 1) if n > 1 else 0
    for i in range(n):
        if element is float:
            y[i] = fmaf(stride, <float> i, first) if i < n // 2 or n == 1 else fmaf(-stride, <float> (n - 1 - i), last)
        else:
            y[i] = <element> (fma(step, <double> i, start) if i < n // 2 or n == 1
                              else fma(-step, <double> (n - 1 - i), end))


cdef Storage op_linspace(Meta* y, double start, double end, int64_t steps, int dtype):
    cdef Storage s
    cdef int code
    if steps < 0:
        raise RuntimeError(f"linspace: steps must not be negative, got {steps}")
    if dtype < 0:
        dtype = default_dtype()
    if dtype == BOOL:
        no_kernel("linspace", dtype)
    code = counted_in(real_of(dtype))
    s = allocate_contig(y, 1, &steps, code)
    if code == FLOAT32:
        spread[float](<float*> y.data, steps, start, end)
    elif code == FLOAT64:
        spread[double](<double*> y.data, steps, start, end)
    else:
        spread[int64_t](<int64_t*> y.data, steps, start, end)
    return recast(y, s, dtype)


cdef Storage op_eye(Meta* y, int64_t n, int64_t m, int dtype):
    cdef Storage s
    cdef int64_t sizes[2]
    cdef int64_t step
    cdef int64_t one[2]
    if n < 0 or m < 0:
        raise RuntimeError(f"eye: the numbers of rows and columns must not be negative, got {n} and {m}")
    sizes[0] = n
    sizes[1] = m
    s = op_full(y, 2, sizes, 0, dtype)
    number_bytes(<char*> one, 1, dtype)
    for step in range(min(n, m)):
        memcpy(y.data + step * (m + 1) * ITEMSIZE[dtype], one, ITEMSIZE[dtype])
    return s
