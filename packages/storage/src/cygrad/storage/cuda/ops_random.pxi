# Random numbers on a device: those of Philox by the seed and the place of its generator. May use: ops_copy, ops_index.
# Invariant: element i of a draw has a number of its own, whatever the strides and however the work is cut.

include "ops_common_random.pxi"

cdef extern from "kernels.h" nogil:
    int CYG_UNIFORM, CYG_NORMAL, CYG_INTEGER, CYG_BERNOULLI, CYG_EXPONENTIAL, CYG_GEOMETRIC, CYG_CAUCHY, CYG_LOG_NORMAL
    ctypedef struct CygDraw:
        char* y
        int kind
        double low, high
        uint64_t span, seed, offset
        int64_t base, count
        int ndim
        int64_t sizes[64]
        int64_t steps[64]
    int cyg_draw(int code, const CygDraw* d, void* stream)
    int cyg_drawn_by(int kind, const double* a, const double* p, double* y, int64_t count, uint64_t seed, uint64_t offset, void* stream)

cdef enum:
    WORDS_OF_A_STREAM = 8000   # of one element's numbers, which rejection takes as many of as it needs, far fewer


cdef int draw_into(Meta* x, CygDraw* draw, Generator gen) except -1:
    """Fill x, whose distribution is set."""
    cdef void* stream
    cdef int d
    if x.numel == 0:
        return 0
    philox(gen, x.device, 2 * <uint64_t>x.numel, &draw.seed, &draw.offset)
    draw.y, draw.count, draw.ndim = x.data, x.numel, 0
    for d in range(x.ndim - 1, -1, -1):
        if x.sizes[d] == 1:
            continue
        if draw.ndim and x.strides[d] * ITEMSIZE[x.dtype] == draw.sizes[draw.ndim - 1] * draw.steps[draw.ndim - 1]:
            draw.sizes[draw.ndim - 1] *= x.sizes[d]
        else:
            draw.sizes[draw.ndim], draw.steps[draw.ndim] = x.sizes[d], x.strides[d] * ITEMSIZE[x.dtype]
            draw.ndim += 1
    enter(x.device, &stream)
    return ran(cyg_draw(x.dtype, draw, stream), "random numbers", x.dtype)


cdef int draw_two(Meta* x, int kind, double a, double b, Generator gen) except -1:
    cdef CygDraw draw
    draw.kind, draw.low, draw.high, draw.span, draw.base = kind, a, b, 0, 0
    return draw_into(x, &draw, gen)


cdef int draw_integers(Meta* x, int64_t base, uint64_t span, Generator gen) except -1:
    cdef CygDraw draw
    draw.kind, draw.low, draw.high, draw.span, draw.base = CYG_INTEGER, 0, 0, span, base
    return draw_into(x, &draw, gen)


cdef int uniform_into(Meta* x, double low, double high, Generator gen) except -1:
    check_uniform(x, low, high)
    return draw_two(x, CYG_UNIFORM, low, high, gen)


cdef int normal_into(Meta* x, double mean, double std, Generator gen) except -1:
    check_real("normal_", x)
    if not std >= 0:
        raise RuntimeError(f"normal_: a standard deviation of at least 0 is wanted, got {std}")
    return draw_two(x, CYG_NORMAL, mean, std, gen)


cdef int draw_kind_into(Meta* x, int kind, double a, double b, Generator gen) except -1:
    check_writable("random", x)
    return draw_two(x, CYG_UNIFORM if kind == UNIFORM else CYG_NORMAL if kind == NORMAL else CYG_BERNOULLI if kind == BERNOULLI else
                    CYG_EXPONENTIAL if kind == EXPONENTIAL else CYG_GEOMETRIC if kind == GEOMETRIC else
                    CYG_CAUCHY if kind == CAUCHY else CYG_LOG_NORMAL, a, b, gen)


cdef int random_into(Meta* x, int64_t low, int64_t high, Generator gen) except -1:
    check_range(x, low, high)
    check_writable("random_", x)
    return draw_integers(x, low, <uint64_t> high - <uint64_t> low, gen)


cdef int random_full_into(Meta* x, Generator gen) except -1:
    check_writable("random_", x)
    if is_complex(x.dtype):
        no_kernel("random_", x.dtype)
    span = (2 if x.dtype == BOOL else (1 << <object> digits_of(x.dtype)) + 1 if is_float(x.dtype) else
            largest_integer(x.dtype) + 1)
    return draw_integers(x, 0, span & 0xffffffffffffffff, gen)


cdef int random_from_into(Meta* x, int64_t low, Generator gen) except -1:
    cdef int code = x.dtype
    most = 1 if code == BOOL else 1 << <object> digits_of(code) if is_float(code) else largest_integer(code)
    check_range(x, low, most + 1)
    check_writable("random_", x)
    span = most - low + 1
    return draw_integers(x, low if span < 1 << <object> 64 else 0, span & 0xffffffffffffffff, gen)


cdef int bernoulli_into(Meta* x, double p, Generator gen) except -1:
    check_probability(x, p)
    return draw_two(x, CYG_BERNOULLI, p, 0, gen)


cdef Storage op_randperm(Meta* y, int64_t n, int dtype, Generator gen):
    """The order of n random words: equal ones, which are rare, stay in theirs."""
    cdef Meta words, order
    cdef Storage memory, s
    cdef int device = y.device
    dtype = check_randperm(n, dtype)
    memset(&words, 0, sizeof(Meta))
    memset(&order, 0, sizeof(Meta))
    words.device = order.device = device
    memory = allocate_contig(&words, 1, &n, INT64)
    try:
        draw_integers(&words, 0, 0, gen)
        s = order_of(&order, &words, 0, False)
        return op_clone(y, &order, dtype, True)
    finally:
        meta_clear(&words)
        meta_clear(&order)


cdef Storage op_multinomial(Meta* y, Meta* weights, int64_t count, bint single, Generator gen):
    """Rows of `count` places, drawn with replacement: where uniform numbers stand among the running sums of a row's weights."""
    cdef Meta sums, drawn, last
    cdef Meta* operands[3]
    cdef Storage keep, keep_drawn
    cdef int64_t sizes[2]
    cdef int dim = weights.ndim - 1
    memset(&sums, 0, sizeof(Meta))
    memset(&drawn, 0, sizeof(Meta))
    memset(&last, 0, sizeof(Meta))
    sums.device = drawn.device = weights.device
    sizes[0] = weights.sizes[0]
    sizes[dim] = count
    try:
        keep = op_cumsum(&sums, weights, dim, FLOAT64)
        keep_drawn = allocate_contig(&drawn, weights.ndim, sizes, FLOAT64)
        draw_two(&drawn, CYG_UNIFORM, 0, 1, gen)
        view_narrow(&last, &sums, dim, weights.sizes[dim] - 1, 1)
        operands[0], operands[1], operands[2] = &drawn, &drawn, &last
        run_row(K_MUL, FLOAT64, operands, 3, NULL)
        return op_searchsorted(y, &sums, &drawn, NULL, True, False)
    finally:
        meta_clear(&sums)
        meta_clear(&drawn)
        meta_clear(&last)


cdef Storage op_drawn_by(Meta* y, DrawnBy kind, Meta* a, Meta* p, Generator gen):
    """Poisson numbers of rates a, gamma ones of shapes a, or binomial ones of a trials and probabilities p; all are contiguous
    float64.
    """
    cdef uint64_t seed, offset
    cdef void* stream
    cdef Storage s = allocate_contig(y, a.ndim, a.sizes, FLOAT64)
    if y.numel:
        philox(gen, a.device, WORDS_OF_A_STREAM, &seed, &offset)
        enter(a.device, &stream)
        ran(cyg_drawn_by(0 if kind == BY_RATE else 1 if kind == BY_TRIALS else 2, <double*>a.data, <double*>p.data if p != NULL else NULL,
                         <double*>y.data, y.numel, seed, offset, stream), "random numbers", FLOAT64)
    return s
