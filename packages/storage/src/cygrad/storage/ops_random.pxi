# Random numbers: PyTorch's CPU generator (MT19937; Matsumoto and Nishimura, 1998), number for number.
# Invariant: numbers are drawn one after another in memory order, so they do not depend on the number of threads.
import struct

cdef enum:
    MT_N = 624
    STATE_BYTES = 5056     # PyTorch's layout, so that states can be exchanged

cdef struct Twister:
    uint64_t seed
    int left               # numbers before the state is renewed, plus one
    int next
    uint32_t state[624]
    bint has_normal        # a second normal number of the last pair waits in `normal`
    double normal

DEFAULT_SEED = 67280421310721


cdef void twister_seed(Twister* g, uint64_t seed) noexcept:
    cdef int i
    g.seed = seed
    g.state[0] = <uint32_t> seed
    for i in range(1, MT_N):
        g.state[i] = <uint32_t> 1812433253 * (g.state[i - 1] ^ (g.state[i - 1] >> 30)) + <uint32_t> i
    g.left = 1
    g.next = 0
    g.has_normal = False
    g.normal = 0


ctypedef void (*Renew)(uint32_t* state) noexcept nogil
ctypedef void (*UnitFloats)(float* y, const uint32_t* state, int64_t n) noexcept nogil
ctypedef void (*NormalPairs)(float* y, int64_t n, double mean, double std) noexcept nogil

cdef Renew renew = <Renew> hand_kernel(H_MT_RENEW, FLOAT32)
cdef UnitFloats unit_floats = <UnitFloats> hand_kernel(H_UNIT_FLOATS, FLOAT32)
cdef NormalPairs normal_pairs = <NormalPairs> hand_kernel(H_NORMAL_PAIRS, FLOAT32)


cdef inline uint32_t draw32(Twister* g) noexcept nogil:
    cdef uint32_t y
    g.left -= 1
    if g.left == 0:
        renew(g.state)
        g.left, g.next = MT_N, 0
    y = g.state[g.next]
    g.next += 1
    y ^= y >> 11
    y ^= (y << 7) & 0x9d2c5680U
    y ^= (y << 15) & 0xefc60000U
    return y ^ (y >> 18)


cdef inline uint64_t draw64(Twister* g) noexcept nogil:
    cdef uint64_t high = draw32(g)
    return high << 32 | draw32(g)


cdef inline float uniform_float(Twister* g) noexcept nogil:
    return <float> (draw32(g) & 0xffffffU) * <float> 5.9604644775390625e-8        # 2**-24


cdef void uniform_floats(Twister* g, float* y, int64_t n) noexcept nogil:
    """n calls of uniform_float, block by block."""
    cdef int64_t k
    while n > 0:
        if g.left == 1:
            renew(g.state)
            g.left, g.next = MT_N + 1, 0       # one more than after a draw
        k = min(n, g.left - 1)
        unit_floats(y, g.state + g.next, k)
        g.left -= <int> k
        g.next += <int> k
        y += k
        n -= k


cdef inline double uniform_double(Twister* g) noexcept nogil:
    return <double> (draw64(g) & 0x1fffffffffffffU) * 1.1102230246251565e-16       # 2**-53


cdef double normal_double(Twister* g) noexcept nogil:
    """Box and Muller's pair (1958); the second number waits for the next call."""
    cdef double u, radius
    if g.has_normal:
        g.has_normal = False
        return g.normal
    u = uniform_double(g)
    radius = sqrt(-2.0 * log1p(-uniform_double(g)))
    g.has_normal = True
    g.normal = radius * sin(2.0 * M_PI * u)
    return radius * cos(2.0 * M_PI * u)


# ---- the generator object

cdef class Generator:
    """PyTorch's CPU random number generator: the same seed gives the same numbers.

    Attributes and methods follow ``torch.Generator``; a state is the 5056 bytes that PyTorch uses.
    """
    # final lifetime: one default instance for ever, others owned by their user

    def __cinit__(self):
        self.mt = malloc(sizeof(Twister))
        if self.mt == NULL:
            raise MemoryError("no memory for a generator state")
        twister_seed(<Twister*> self.mt, DEFAULT_SEED)

    def __dealloc__(self):
        free(self.mt)

    def manual_seed(self, seed):
        """Restart from `seed`; returns the generator.

        Parameters
        ----------
        seed : int
            From -2**63 to 2**64 - 1; negative numbers stand for ``2**64 + seed``.

        Raises
        ------
        RuntimeError
            `seed` is not an integer.
        ValueError
            It does not fit 64 bits.
        """
        if not hasattr(type(seed), "__index__"):
            raise RuntimeError(f"manual_seed: an integer is wanted, got {type(seed).__name__}")
        seed = seed.__index__()
        if not -2**63 <= seed < 2**64:
            raise ValueError(f"manual_seed: a seed of 64 bits is wanted, got {seed}")
        twister_seed(<Twister*> self.mt, seed & 0xffffffffffffffff)
        return self

    def initial_seed(self):
        """The seed that the generator was last started with."""
        return (<Twister*> self.mt).seed

    def seed(self):
        """Restart from a seed taken from the operating system, and return it."""
        value = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(value)
        return value

    def get_state(self):
        """The state, as bytes of PyTorch's layout."""
        cdef Twister* g = <Twister*> self.mt
        words = [g.state[i] for i in range(MT_N)]
        return struct.pack("<Qii626Q", g.seed, g.left, 1, g.next, *words, 0)[:5016] + struct.pack(
            "<dddi4xfi", 0.0, g.normal if g.has_normal else 0.0, 0.0, g.has_normal, 0.0, 0)

    def set_state(self, state):
        """Continue from `state`, bytes as `get_state` gives them.

        Raises
        ------
        RuntimeError
            The length is not 5056, or the position in the state is impossible.
        """
        cdef Twister* g = <Twister*> self.mt
        cdef int i
        state = bytes(state)
        if len(state) != STATE_BYTES:
            raise RuntimeError(f"set_state: {STATE_BYTES} bytes are wanted, got {len(state)}")
        seed, left, seeded, at, *words = struct.unpack_from("<Qii625Q", state)
        _, normal, _, has_normal = struct.unpack_from("<dddi", state, 5016)
        if not (seeded == 1 and 0 < left <= MT_N and 0 <= at <= MT_N + 1 - left and any(words)):
            raise RuntimeError(f"set_state: not a state of this generator (left={left}, next={at}, seeded={seeded})")
        g.seed, g.left, g.next, g.normal, g.has_normal = seed, left, at, normal, bool(has_normal)
        for i in range(MT_N):
            g.state[i] = <uint32_t> words[i]
        return self


cdef Generator THE_GENERATOR = Generator()
THE_GENERATOR.seed()


cdef Generator default_generator():
    return THE_GENERATOR


cdef Twister* twister(Generator gen) noexcept:
    return <Twister*> (THE_GENERATOR if gen is None else gen).mt


# ---- filling

cdef struct Draw:          # what to draw, the same for every element
    Twister* g
    int kind
    double low, high       # or mean and standard deviation, or probability
    uint64_t span
    int64_t base

cdef enum:
    UNIFORM
    NORMAL
    INTEGER
    INTEGER_WIDE           # more than 28 bits wanted: two words a number
    BERNOULLI


cdef inline double draw(const Draw* r, bint single) noexcept nogil:
    cdef float low
    if r.kind == UNIFORM:
        if single:
            low = <float> r.low
            return fmaf(uniform_float(r.g), <float> r.high - low, low)
        return fma(uniform_double(r.g), r.high - r.low, r.low)
    if r.kind == NORMAL:
        return fma(normal_double(r.g), r.high, r.low)
    return uniform_double(r.g) < r.low


cdef void draw_row(const Draw* r, element* y, int64_t step, int64_t n) noexcept nogil:
    cdef int64_t i, v
    cdef uint64_t word
    cdef bint single = sizeof(element) == 4
    for i in range(n):
        if r.kind == INTEGER or r.kind == INTEGER_WIDE:
            word = draw64(r.g) if r.kind == INTEGER_WIDE else draw32(r.g)
            v = <int64_t> (word % r.span + <uint64_t> r.base)
            y[0] = <element> (v != 0 if element is bool_t else v)
        else:
            y[0] = <element> draw(r, single)
        y = <element*> (<char*> y + step)


cdef void draw_converted(const Draw* r, char* y, int64_t step, int64_t n, int code) noexcept nogil:
    """Dtypes that are reached through int64 or double only. A half takes as many bits of a word as it has digits."""
    cdef int64_t i, v
    cdef double x
    cdef uint64_t word, digits = 1 << (11 if code == FLOAT16 else 8)
    for i in range(n):
        if r.kind == INTEGER or r.kind == INTEGER_WIDE:
            word = draw64(r.g) if r.kind == INTEGER_WIDE else draw32(r.g)
            v = <int64_t> ((word % r.span if r.span else word) + <uint64_t> r.base)
            convert_one(y, code, &v, INT64)
        else:
            if r.kind == UNIFORM:
                x = <double> (draw32(r.g) & (digits - 1)) / <double> digits * (r.high - r.low) + r.low
            else:
                x = draw(r, False)
            convert_one(y, code, &x, FLOAT64)
        y += step


cdef void uniform_row(const Draw* r, float* y, int64_t n) noexcept nogil:
    """A contiguous row of float32."""
    cdef float low = <float> r.low, width = <float> r.high - low
    cdef int64_t i
    uniform_floats(r.g, y, n)
    if low != 0 or width != 1:
        for i in range(n):
            y[i] = fmaf(y[i], width, low)


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
        draw_rows(r, &it, x.dtype)
    else:
        with nogil:
            draw_rows(r, &it, x.dtype)


cdef int check_real(str op, Meta* x) except -1:
    if not is_float(x.dtype):
        no_kernel(op, x.dtype)
    return check_writable(op, x)


cdef double largest_float(int code) noexcept:
    if code == FLOAT16:
        return 65504.0
    if code == BFLOAT16:
        return 3.3895313892515355e38
    return 3.4028234663852886e38 if code == FLOAT32 else 1.7976931348623157e308


cdef int digits_of(int code) noexcept:
    """Bits of a floating type's significand."""
    return 11 if code == FLOAT16 else 8 if code == BFLOAT16 else 24 if code == FLOAT32 else 53


cdef int uniform_into(Meta* x, double low, double high, Generator gen) except -1:
    cdef Draw r
    cdef double largest
    check_real("uniform_", x)
    largest = largest_float(x.dtype)
    if not (fabs(low) <= largest and fabs(high) <= largest):
        raise RuntimeError(f"uniform_: bounds inside the range of {name_of(x.dtype)} are wanted, got [{low}, {high})")
    if low > high:
        raise RuntimeError(f"uniform_: the lower bound must not exceed the upper one, got [{low}, {high})")
    if high - low > largest:
        raise RuntimeError(f"uniform_: the width of [{low}, {high}) does not fit {name_of(x.dtype)}")
    r.g, r.kind, r.low, r.high = twister(gen), UNIFORM, low, high
    draw_into(x, &r)
    return 0


cdef int normal_into(Meta* x, double mean, double std, Generator gen) except -1:
    cdef Draw r
    check_real("normal_", x)
    if not std >= 0:
        raise RuntimeError(f"normal_: a standard deviation of at least 0 is wanted, got {std}")
    r.g, r.kind, r.low, r.high = twister(gen), NORMAL, mean, std
    if x.numel < 16 or not x.flags & CONTIGUOUS or COMPUTED[x.dtype] != x.dtype:
        draw_into(x, &r)
        return 0
    with nogil:
        if x.dtype == FLOAT32:
            normal_floats(<float*> x.data, x.numel, &r)
        else:
            normal_doubles(<double*> x.data, x.numel, &r)
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


cdef int check_range(Meta* x, object low, object high) except -1:
    """Bounds of random integers against the integers that x.dtype holds exactly."""
    cdef int code = x.dtype
    if code == BOOL:
        least, most = 0, 1
    elif is_float(code):
        most = 1 << <object> digits_of(code)
        least = -most
    elif is_complex(code):
        no_kernel("random_", code)
    else:
        most = largest_integer(code)
        least = 0 if is_unsigned(code) else -most - 1
    if low >= high:
        raise RuntimeError(f"random_: the lower bound must be below the upper one, got [{low}, {high})")
    if low < least or high - 1 > most:
        raise RuntimeError(f"random_: bounds inside the range of {name_of(code)} are wanted, from {least} to {most}, "
                           f"got [{low}, {high})")
    return 0


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


cdef int bernoulli_into(Meta* x, double p, Generator gen) except -1:
    cdef Draw r
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_: a probability from 0 to 1 is wanted, got {p}")
    check_writable("bernoulli_", x)
    r.g, r.kind, r.low = twister(gen), BERNOULLI, p
    draw_into(x, &r)
    return 0


cdef void shuffle(int64_t* y, int64_t n, Twister* g) noexcept nogil:
    """Knuth's shuffle, from the front."""
    cdef int64_t i, k, v
    for i in range(n):
        y[i] = i
    for i in range(n - 1):
        k = i + <int64_t> (draw32(g) % <uint64_t> (n - i))
        v = y[i]
        y[i] = y[k]
        y[k] = v


cdef Storage op_randperm(Meta* y, int64_t n, int dtype, Generator gen):
    cdef Storage s
    if n < 0:
        raise RuntimeError(f"randperm: a length of at least 0 is wanted, got {n}")
    if dtype < 0:
        dtype = INT64
    if dtype == BOOL or is_complex(dtype):
        no_kernel("randperm", dtype)
    if n > ((1 << <object> digits_of(dtype)) + 1 if is_float(dtype) else largest_integer(dtype)):
        raise RuntimeError(f"randperm: numbers below {n} do not fit {name_of(dtype)}")
    s = allocate_contig(y, 1, &n, INT64)
    shuffle(<int64_t*> y.data, n, twister(gen))
    return recast(y, s, dtype)
