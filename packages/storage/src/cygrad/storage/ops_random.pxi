# Tensors of random numbers, PyTorch's for the same seed.
# Invariant: numbers are drawn one after another in memory order, so they do not depend on the number of threads.
from libc.math cimport exp, floor, lgamma, pow, tan

include "ops_common_random.pxi"

cdef struct Draw:          # what to draw, the same for every element
    Twister* g
    int kind
    double low, high       # or mean and standard deviation, or probability
    uint64_t span
    int64_t base


cdef Twister* twister(Generator gen) noexcept:
    return <Twister*> (default_generator() if gen is None else gen).mt


cdef inline double draw(const Draw* r, bint single) noexcept nogil:
    cdef float low, high, y
    cdef double x
    if r.kind == UNIFORM:      # what rounding takes to the upper bound, which is excluded, becomes the lower one
        if single:
            low, high = <float> r.low, <float> r.high
            y = fmaf(uniform_float(r.g), high - low, low)
            return low if y >= high else y
        x = fma(uniform_double(r.g), r.high - r.low, r.low)
        return r.low if x >= r.high else x
    if r.kind == NORMAL:
        return fma(normal_double(r.g), r.high, r.low)
    if r.kind == LOG_NORMAL:
        return exp(fma(normal_double(r.g), r.high, r.low))
    if r.kind == EXPONENTIAL:
        return -1 / r.low * log1p(-uniform_double(r.g))
    if r.kind == GEOMETRIC:
        return ceil(log(uniform_double(r.g)) / log1p(-r.low))
    if r.kind == CAUCHY:
        return r.low + r.high * tan(M_PI * (uniform_double(r.g) - 0.5))
    return uniform_double(r.g) < r.low


cdef void draw_row(const Draw* r, element* y, int64_t step, int64_t n) noexcept nogil:
    cdef int64_t i, v
    cdef uint64_t word
    cdef bint single = sizeof(element) == 4
    for i in range(n):
        if r.kind == INTEGER or r.kind == INTEGER_WIDE:
            word = draw64(r.g) if r.kind == INTEGER_WIDE else draw32(r.g)
            v = <int64_t> ((word % r.span if r.span else word) + <uint64_t> r.base)
            y[0] = <element> (v != 0 if element is bool_t else v)
        else:
            y[0] = <element> draw(r, single)
        y = <element*> (<char*> y + step)


cdef void draw_converted(const Draw* r, char* y, int64_t step, int64_t n, int code) noexcept nogil:
    """Dtypes that are reached through int64 or double only."""
    cdef int64_t i, v
    cdef double x, high = r.high
    cdef uint64_t word, cell = 0
    if r.kind == UNIFORM:                  # the upper bound as the dtype has it
        convert_one(<char*> &cell, code, &high, FLOAT64)
        convert_one(<char*> &high, FLOAT64, &cell, code)
    for i in range(n):
        if r.kind == INTEGER or r.kind == INTEGER_WIDE:
            word = draw64(r.g) if r.kind == INTEGER_WIDE else draw32(r.g)
            v = <int64_t> ((word % r.span if r.span else word) + <uint64_t> r.base)
            convert_one(y, code, &v, INT64)
        else:
            x = draw(r, True)
            convert_one(y, code, &x, FLOAT64)
            if r.kind == UNIFORM:
                convert_one(<char*> &x, FLOAT64, y, code)
                if x >= high:
                    x = r.low
                    convert_one(y, code, &x, FLOAT64)
        y += step


cdef void uniform_row(const Draw* r, float* y, int64_t n) noexcept nogil:
    """A contiguous row of float32."""
    cdef float low = <float> r.low, high = <float> r.high, width = high - low, v
    cdef int64_t i
    uniform_floats(r.g, y, n)
    if low != 0 or width != 1:
        for i in range(n):
            v = fmaf(y[i], width, low)
            y[i] = low if v >= high else v


cdef void draw_any(const Draw* r, char* y, int64_t step, int64_t n, int code) noexcept nogil:
    if code == FLOAT32 and r.kind == UNIFORM and step == 4:
        uniform_row(r, <float*> y, n)
    elif code == FLOAT32:
        draw_row[float](r, <float*> y, step, n)
    elif code == FLOAT64:
        draw_row[double](r, <double*> y, step, n)
    elif code == INT64:
        draw_row[int64_t](r, <int64_t*> y, step, n)
    elif code == INT32:
        draw_row[int32_t](r, <int32_t*> y, step, n)
    elif code == UINT8:
        draw_row[uint8_t](r, <uint8_t*> y, step, n)
    elif code == BOOL:
        draw_row[bool_t](r, <bool_t*> y, step, n)
    else:
        draw_converted(r, y, step, n, code)


cdef void draw_rows(const Draw* r, const Iter* it, int code) noexcept nogil:
    """All elements, in the order of their addresses as far as strides can tell."""
    cdef int64_t at[MAXDIM]
    cdef char* y = it.p[0]
    cdef int d
    memset(at, 0, sizeof(at))
    while True:
        draw_any(r, y, it.st[0][0], it.sizes[0], code)
        d = 1
        while d < it.ndim:
            y += it.st[d][0]
            at[d] += 1
            if at[d] < it.sizes[d]:
                break
            y -= at[d] * it.st[d][0]
            at[d] = 0
            d += 1
        if d >= it.ndim:
            return


cdef void draw_into(Meta* x, const Draw* r) noexcept:
    cdef Iter it
    cdef Meta* operands[1]
    if x.numel == 0:
        return
    operands[0] = x
    iter_build(&it, operands, 1, x.ndim, x.sizes)
    if x.numel < NOGIL:
        hold(r.g)
        draw_rows(r, &it, x.dtype)
        let_go(r.g)
    else:
        with nogil:
            hold(r.g)
            draw_rows(r, &it, x.dtype)
            let_go(r.g)


cdef int uniform_into(Meta* x, double low, double high, Generator gen) except -1:
    cdef Draw r
    check_uniform(x, low, high)
    r.g, r.kind, r.low, r.high = twister(gen), UNIFORM, low, high
    draw_into(x, &r)
    return 0


cdef int normal_into(Meta* x, double mean, double std, Generator gen) except -1:
    cdef Draw r
    check_real("normal_", x)
    if not std >= 0:
        raise RuntimeError(f"normal_: a standard deviation of at least 0 is wanted, got {std}")
    r.g, r.kind, r.low, r.high = twister(gen), NORMAL, mean, std
    if x.numel < 16 or not x.flags & CONTIGUOUS:
        draw_into(x, &r)
    elif COMPUTED[x.dtype] != x.dtype:
        normal_through_floats(x, &r)
    else:
        with nogil:
            hold(r.g)
            if x.dtype == FLOAT32:
                normal_floats(<float*> x.data, x.numel, &r)
            else:
                normal_doubles(<double*> x.data, x.numel, &r)
            let_go(r.g)
    return 0


cdef int normal_through_floats(Meta* x, const Draw* r) except -1:
    """Halves have rounded float32 numbers. The end of a length that is no multiple of 16 is drawn once only."""
    cdef Meta wide
    cdef int64_t whole = x.numel & ~<int64_t> 15
    cdef float* y
    memset(&wide, 0, sizeof(Meta))
    held = allocate_contig(&wide, x.ndim, x.sizes, FLOAT32)
    y = <float*> wide.data
    try:
        with nogil:
            hold(r.g)
            normal_floats(y, whole, r)
            if whole < x.numel:
                normal_floats(y + x.numel - 16, 16, r)
            let_go(r.g)
        copy_into(x, &wide)
    finally:
        meta_clear(&wide)
    return 0


cdef int draw_kind_into(Meta* x, int kind, double a, double b, Generator gen) except -1:
    """Numbers of a distribution of one or two parameters, which the caller checked."""
    cdef Draw r
    check_writable("random", x)
    r.g, r.kind, r.low, r.high = twister(gen), kind, a, b
    draw_into(x, &r)
    return 0


# PyTorch's path for 16 contiguous elements and more: uniform numbers first, then pairs (j, j + 8) of every 16; where
# the length is no multiple of 16, the last 16 elements are drawn again. float32 has the vector polynomials of
# kernels/random.pxi.

cdef void normal_floats(float* y, int64_t n, const Draw* r) noexcept nogil:
    uniform_floats(r.g, y, n)
    normal_pairs(y, n & ~<int64_t> 15, r.low, r.high)
    if n & 15:
        y += n - 16
        uniform_floats(r.g, y, 16)
        normal_pairs(y, 16, r.low, r.high)


cdef void normal_pair(double* a, double* b, double mean, double std) noexcept nogil:
    cdef double radius = sqrt(-2.0 * log(1.0 - a[0]))
    cdef double angle = 2.0 * M_PI * b[0]
    a[0] = fma(radius * cos(angle), std, mean)
    b[0] = fma(radius * sin(angle), std, mean)


cdef void normal_doubles(double* y, int64_t n, const Draw* r) noexcept nogil:
    cdef int64_t i, j
    for i in range(n):
        y[i] = uniform_double(r.g)
    i = 0
    while i + 16 <= n:
        for j in range(i, i + 8):
            normal_pair(y + j, y + j + 8, r.low, r.high)
        i += 16
    if i < n:
        y += n - 16
        for j in range(16):
            y[j] = uniform_double(r.g)
        for j in range(8):
            normal_pair(y + j, y + j + 8, r.low, r.high)


cdef int random_into(Meta* x, int64_t low, int64_t high, Generator gen) except -1:
    cdef Draw r
    check_range(x, low, high)
    check_writable("random_", x)
    r.g, r.base, r.span = twister(gen), low, <uint64_t> high - <uint64_t> low
    r.kind = INTEGER_WIDE if r.span >= <uint64_t> 1 << 28 else INTEGER
    draw_into(x, &r)
    return 0


cdef int random_full_into(Meta* x, Generator gen) except -1:
    """PyTorch's random_() without bounds: from 0 to the largest integer that the type holds exactly."""
    cdef Draw r
    cdef int code = x.dtype
    check_writable("random_", x)
    r.g, r.base = twister(gen), 0
    r.kind = INTEGER_WIDE if code == INT64 or code == UINT64 or code == FLOAT64 else INTEGER
    if code == BOOL:
        r.span = 2
    elif is_float(code):
        r.span = (<uint64_t> 1 << digits_of(code)) + 1
    elif is_complex(code):
        no_kernel("random_", code)
    else:
        r.span = (largest_integer(code) + 1) & 0xffffffffffffffff      # 0: the word as it is
    draw_into(x, &r)
    return 0


cdef int random_from_into(Meta* x, int64_t low, Generator gen) except -1:
    """Integers from low to the largest that the type holds exactly."""
    cdef Draw r
    cdef int code = x.dtype
    most = 1 if code == BOOL else 1 << <object> digits_of(code) if is_float(code) else largest_integer(code)
    check_range(x, low, most + 1)
    check_writable("random_", x)
    span = most - low + 1
    r.g, r.base, r.span = twister(gen), low if span < 1 << 64 else 0, span & 0xffffffffffffffff     # 0: all of a word
    r.kind = INTEGER_WIDE if span >= 1 << 28 else INTEGER
    draw_into(x, &r)
    return 0


cdef int bernoulli_into(Meta* x, double p, Generator gen) except -1:
    cdef Draw r
    check_probability(x, p)
    r.g, r.kind, r.low = twister(gen), BERNOULLI, p
    draw_into(x, &r)
    return 0


cdef enum:
    LONG_SHUFFLE = 214748364       # 2**32 / 20; from here on, 32 bits modulo the length are noticeably uneven


cdef void shuffle(int64_t* y, int64_t n, Twister* g) noexcept nogil:
    """Knuth's shuffle, from the front; the inside-out form of it for long permutations."""
    cdef int64_t i, k, v
    if n >= LONG_SHUFFLE:
        for i in range(n):
            k = <int64_t> (draw64(g) % <uint64_t> (i + 1))
            y[i] = y[k]
            y[k] = i
        return
    for i in range(n):
        y[i] = i
    for i in range(n - 1):
        k = i + <int64_t> (draw32(g) % <uint64_t> (n - i))
        v = y[i]
        y[i] = y[k]
        y[k] = v


cdef Storage op_randperm(Meta* y, int64_t n, int dtype, Generator gen):
    cdef Storage s
    cdef Twister* g
    dtype = check_randperm(n, dtype)
    s = allocate_contig(y, 1, &n, INT64)
    g = twister(gen)
    with nogil:
        hold(g)
        shuffle(<int64_t*> y.data, n, g)
        let_go(g)
    return recast(y, s, dtype)


# ---- drawing from given weights

cdef int64_t place_of(const double* sums, int64_t n, double u) noexcept nogil:
    """The first place whose sum is at least u."""
    cdef int64_t low = 0, high = n, middle
    while low < high:
        middle = low + (high - low) // 2
        if sums[middle] < u:
            low = middle + 1
        else:
            high = middle
    return low


cdef double as_float(double x) noexcept nogil:
    return <double> <float> x


cdef void pick(int64_t* y, int64_t count, const double* weights, double* sums, int64_t n, bint single,
               Twister* g) noexcept nogil:
    """`count` places drawn with probabilities proportional to weights, by the inverse of the running sum."""
    cdef double sum = 0
    cdef int64_t i
    for i in range(n):
        sum += weights[i]
        sum = as_float(sum) if single else sum
        sums[i] = sum
    for i in range(n):
        sums[i] = as_float(sums[i] / sum) if single else sums[i] / sum
    sums[n - 1] = 1
    for i in range(count):
        y[i] = place_of(sums, n, uniform_double(g))


cdef Storage op_multinomial(Meta* y, Meta* weights, int64_t count, bint single, Generator gen):
    """Rows of `count` places, drawn with replacement from the rows of contiguous float64 weights (1-d or 2-d)."""
    cdef int64_t sizes[2]
    cdef int64_t n = weights.sizes[weights.ndim - 1], rows = weights.sizes[0] if weights.ndim == 2 else 1, row
    cdef double* sums
    cdef Twister* g = twister(gen)
    cdef Storage s
    sizes[0], sizes[weights.ndim - 1] = rows, count
    s = allocate_contig(y, weights.ndim, sizes, INT64)
    if y.numel == 0:
        return s
    sums = <double*> malloc(n * sizeof(double))
    if sums == NULL:
        raise MemoryError(f"multinomial: no memory for {n} sums")
    with nogil:
        hold(g)
        for row in range(rows):
            pick(<int64_t*> y.data + row * count, count, <const double*> weights.data + row * n, sums, n, single, g)
        let_go(g)
    free(sums)
    return s


# ---- counts, and gamma numbers

cdef double poisson(double rate, Twister* g) noexcept nogil:
    """Small rates: how many uniform factors keep a product above exp(-rate). Large ones: Hoermann's transformed
    rejection PTRS (1993).
    """
    cdef double k = 0, product, limit, a, b, inverse_alpha, v_r, u, v, us, slack
    if not isfinite(rate):
        return NAN
    if rate < 10:
        if rate == 0:
            return 0
        limit, product = exp(-rate), uniform_double(g)
        while product > limit:
            k += 1
            product *= uniform_double(g)
        return k
    b = 0.931 + 2.53 * sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)
    while True:
        u = uniform_double(g) - 0.5
        v = uniform_double(g)
        us = 0.5 - fabs(u)
        k = floor((2 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= v_r:
            return k
        if k < 0 or (us < 0.013 and v > us):
            continue
        slack = -rate + k * log(rate) - lgamma(k + 1)
        if log(v) + log(inverse_alpha) - log(a / (us * us) + b) <= slack:
            return k


cdef double stirling_tail(double k) noexcept nogil:
    """log(k!) beyond Stirling's formula for it."""
    cdef double square = (k + 1) * (k + 1)
    if k < 10:
        return lgamma(k + 1) - (0.5 * log(2 * M_PI) + (k + 0.5) * log(k + 1) - (k + 1))
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)


cdef double binomial(double n, double p, Twister* g) noexcept nogil:
    """p <= 1/2. Few successes: sums of geometric gaps (Devroye, 1986). Many: Hoermann's BTRS (1993)."""
    cdef double k = 0, gap, spread, a, b, v_r, odds, alpha, mode, u, v, us, bound
    if n * p < 10:
        gap = ceil(log(uniform_double(g)) / log1p(-p))
        while gap <= n:
            k += 1
            gap += ceil(log(uniform_double(g)) / log1p(-p))
        return k
    spread = sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    v_r = 0.92 - 4.2 / b
    odds = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * spread
    mode = floor((n + 1) * p)
    while True:
        u = uniform_double(g) - 0.5
        v = uniform_double(g)
        us = 0.5 - fabs(u)
        k = floor((2 * a / us + b) * u + n * p + 0.5)
        if us >= 0.07 and v <= v_r:
            return k
        if k < 0 or k > n:
            continue
        v = log(v * alpha / (a / (us * us) + b))
        bound = ((mode + 0.5) * log((mode + 1) / (odds * (n - mode + 1))) + (n + 1) * log((n - mode + 1) / (n - k + 1))
                 + (k + 0.5) * log(odds * (n - k + 1) / (k + 1)) + stirling_tail(mode) + stirling_tail(n - mode)
                 - stirling_tail(k) - stirling_tail(n - k))
        if v <= bound:
            return k


cdef double any_binomial(double n, double p, Twister* g) noexcept nogil:
    if n <= 0 or p <= 0:
        return 0
    if not isfinite(n) or p != p:
        return NAN
    if p >= 1:
        return n
    return binomial(n, p, g) if p <= 0.5 else n - binomial(n, 1 - p, g)


cdef double standard_gamma(double shape, Twister* g) noexcept nogil:
    """Marsaglia and Tsang, "A simple method for generating gamma variables" (2000). Shapes below 1 are raised by 1, and
    the number is multiplied by a uniform one to the power of 1 / shape.
    """
    cdef double factor = 1, d, c, x, v, u
    if not isfinite(shape):
        return NAN
    if shape < 1:
        if shape <= 0:
            return 0
        factor = pow(1 - uniform_double(g), 1 / shape)
        shape += 1
    d = shape - 1.0 / 3
    c = 1 / sqrt(9 * d)
    while True:
        x = normal_double(g)
        v = 1 + c * x
        if v <= 0:
            continue
        v = v * v * v
        u = 1 - uniform_double(g)
        if u < 1 - 0.0331 * x * x * x * x or log(u) < 0.5 * x * x + d * (1 - v + log(v)):
            return factor * d * v


cdef Storage op_drawn_by(Meta* y, DrawnBy kind, Meta* a, Meta* p, Generator gen):
    """Poisson numbers of rates a, gamma ones of shapes a, or binomial ones of a trials and probabilities p; all are contiguous
    float64.
    """
    cdef int64_t i
    cdef double* to
    cdef Twister* g = twister(gen)
    cdef Storage s = allocate_contig(y, a.ndim, a.sizes, FLOAT64)
    to = <double*> y.data
    with nogil:
        hold(g)
        for i in range(y.numel):
            if kind == BY_RATE:
                to[i] = poisson((<const double*> a.data)[i], g)
            elif kind == BY_SHAPE:
                to[i] = standard_gamma((<const double*> a.data)[i], g)
            else:
                to[i] = any_binomial((<const double*> a.data)[i], (<const double*> p.data)[i], g)
        let_go(g)
    return s
