# Random numbers: PyTorch's CPU generator (MT19937; Matsumoto and Nishimura, 1998), number for number.
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
    int busy               # one thread at a time draws or changes the state: see `hold`

DEFAULT_SEED = 67280421310721


cdef extern from *:
    """
    #include <sched.h>
    static inline void cyg_hold(int *busy) { while (__atomic_exchange_n(busy, 1, __ATOMIC_ACQUIRE)) sched_yield(); }
    static inline void cyg_let_go(int *busy) { __atomic_store_n(busy, 0, __ATOMIC_RELEASE); }
    """
    void cyg_hold(int* busy) noexcept nogil
    void cyg_let_go(int* busy) noexcept nogil


cdef inline void hold(Twister* g) noexcept nogil:
    """Waits for other threads' draws. Who holds a generator never waits for the GIL: one may call this with it."""
    cyg_hold(&g.busy)


cdef inline void let_go(Twister* g) noexcept nogil:
    cyg_let_go(&g.busy)


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
        (<Twister*> self.mt).busy = 0
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
        cdef Twister* g = <Twister*> self.mt
        cdef uint64_t word = seed & 0xffffffffffffffff
        hold(g)
        twister_seed(g, word)
        let_go(g)
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
        cdef Twister copy
        hold(g)
        copy = g[0]
        let_go(g)
        words = [copy.state[i] for i in range(MT_N)]
        return struct.pack("<Qii626Q", copy.seed, copy.left, 1, copy.next, *words, 0)[:5016] + struct.pack(
            "<dddi4xfi", 0.0, copy.normal if copy.has_normal else 0.0, 0.0, copy.has_normal, 0.0, 0)

    def set_state(self, state):
        """Continue from `state`, bytes as `get_state` gives them.

        Raises
        ------
        RuntimeError
            The length is not 5056, or the position in the state is impossible.
        """
        cdef Twister* g = <Twister*> self.mt
        cdef Twister new
        cdef int i
        state = bytes(state)
        if len(state) != STATE_BYTES:
            raise RuntimeError(f"set_state: {STATE_BYTES} bytes are wanted, got {len(state)}")
        seed, left, seeded, at, *words = struct.unpack_from("<Qii625Q", state)
        _, normal, _, has_normal = struct.unpack_from("<dddi", state, 5016)
        if not (seeded == 1 and 0 < left <= MT_N and 0 <= at <= MT_N + 1 - left and any(words)):
            raise RuntimeError(f"set_state: not a state of this generator (left={left}, next={at}, seeded={seeded})")
        new.seed, new.left, new.next, new.normal, new.has_normal = seed, left, at, normal, bool(has_normal)
        for i in range(MT_N):
            new.state[i] = <uint32_t> words[i]
        new.busy = 1
        hold(g)
        g[0] = new
        let_go(g)
        return self


cdef Generator THE_GENERATOR = Generator()
THE_GENERATOR.seed()


def forget_threads():
    """In a forked child: the threads that drew from the default generator are not there."""
    let_go(<Twister*> THE_GENERATOR.mt)


os.register_at_fork(after_in_child=forget_threads)


cdef Generator default_generator():
    return THE_GENERATOR


def use_generator(Generator gen not None):
    """Make `gen` the default generator; it goes on where the one before it was."""
    global THE_GENERATOR
    cdef Twister* last = <Twister*> THE_GENERATOR.mt
    if gen is not THE_GENERATOR:
        hold(last)
        (<Twister*> gen.mt)[0] = last[0]
        let_go(last)
        let_go(<Twister*> gen.mt)
        THE_GENERATOR = gen


cdef Twister* twister(Generator gen) noexcept:
    return <Twister*> (THE_GENERATOR if gen is None else gen).mt
