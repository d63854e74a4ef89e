# twister: the numbers of PyTorch's CPU generator (MT19937; Matsumoto and Nishimura, 1998), one after another.

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
