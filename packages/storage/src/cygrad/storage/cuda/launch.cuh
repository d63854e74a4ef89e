// The one driver of elementwise kernels over core's Iter: what is dense along the innermost dimension in vectors of 16 bytes, other
// strides element by element. Where an iteration has 2**31 elements or too many dimensions, its outermost dimension is cut
// here, so that kernels divide 32-bit indices only; offsets have 64 bits.
#ifndef CYGRAD_LAUNCH_CUH
#define CYGRAD_LAUNCH_CUH

#include "types.cuh"

enum { CYG_MAXOPS = 6, CYG_MAXDIM = 64, CYG_DIMS = 24 };

struct Iter {                                // core.pxd: dimension 0 is the innermost, strides are in bytes
    int nop, ndim;
    int64_t numel;
    char* p[CYG_MAXOPS];
    int64_t sizes[CYG_MAXDIM];
    int64_t st[CYG_MAXDIM][CYG_MAXOPS];
};

// Quotients by a constant: q = (hi(n * factor) + n) >> shift, right for n < 2**31 (Granlund and Montgomery 1994).
struct Divisor {
    uint32_t divisor, factor, shift;
    static Divisor of(uint32_t d) {
        uint32_t shift = 0;
        while (shift < 31 && (1u << shift) < d) shift++;
        uint64_t factor = ((((uint64_t)1 << shift) - d) << 32) / d + 1;
        return Divisor{d, (uint32_t)factor, shift};
    }
    CYG_IN uint32_t quotient(uint32_t n) const {
#ifdef __CUDA_ARCH__
        return (__umulhi(n, factor) + n) >> shift;
#else
        return (uint32_t)((((uint64_t)n * factor >> 32) + n) >> shift);
#endif
    }
};

// Byte offsets of N operands at a linear index.
template <int N> struct Offsets {
    int ndim;
    Divisor size[CYG_DIMS];
    int64_t st[CYG_DIMS][N];
    void set(const Iter& it) {
        ndim = it.ndim;
        for (int d = 0; d < ndim; d++) {
            size[d] = Divisor::of((uint32_t)it.sizes[d]);
            for (int k = 0; k < N; k++) st[d][k] = it.st[d][k];
        }
    }
    CYG_IN void at(uint32_t i, int64_t* offset) const {
        CYG_UNROLL
        for (int k = 0; k < N; k++) offset[k] = 0;
        for (int d = 0; d < ndim; d++) {
            uint32_t q = size[d].quotient(i), r = i - q * size[d].divisor;
            CYG_UNROLL
            for (int k = 0; k < N; k++) offset[k] += r * st[d][k];
            i = q;
        }
    }
};

CYG_CALL int64_t long_quotient(int64_t a, int64_t b) { return a / b; }

// The same for indices of 64 bits, for kernels that are not cut: what is below 2**31 is divided quickly, and the outermost
// dimension needs no division.
template <int N> struct WideOffsets {
    int ndim;
    Divisor fast[CYG_DIMS];
    int64_t size[CYG_DIMS], st[CYG_DIMS][N];
    CYG_IN void at(int64_t i, int64_t* offset) const {
        CYG_UNROLL
        for (int k = 0; k < N; k++) offset[k] = 0;
        for (int d = 0; d < ndim; d++) {
            int64_t q = 0, r = i;
            if (d < ndim - 1) {
                q = i >> 31 || size[d] >> 31 ? long_quotient(i, size[d]) : (int64_t)fast[d].quotient((uint32_t)i);
                r = i - q * size[d];
            }
            CYG_UNROLL
            for (int k = 0; k < N; k++) offset[k] += r * st[d][k];
            i = q;
        }
    }
    // The same, called once or twice by a thread: a function of its own, which keeps kernels short.
    CYG_LONG void find(int64_t i, int64_t* offset) const { at(i, offset); }
    CYG_LONG int64_t first(int64_t i) const {
        int64_t offset[N];
        at(i, offset);
        return offset[0];
    }
    void clear() { ndim = 0; }
    void add(int64_t count, const int64_t* steps) {
        fast[ndim] = Divisor::of(count >> 31 ? 1u : (uint32_t)count);
        size[ndim] = count;
        for (int k = 0; k < N; k++) st[ndim][k] = steps[k];
        ndim++;
    }
};

// Call f(part) for parts of `it` with less than 2**31 elements and at most CYG_DIMS dimensions.
template <class F> static int each_part(const Iter& it, F f) {
    if (it.numel == 0) return 0;
    if (it.numel < ((int64_t)1 << 31) && it.ndim <= CYG_DIMS) return f(it);
    Iter part = it;
    const int last = it.ndim - 1;
    int64_t inner = it.numel / it.sizes[last];
    int64_t step = it.ndim > CYG_DIMS ? 1 : cyg_max<int64_t>(1, (((int64_t)1 << 31) - 1) / inner & ~(int64_t)63);
    if (it.ndim == 1) step = (int64_t)1 << 30;
    for (int64_t first = 0; first < it.sizes[last]; first += step) {
        int64_t count = cyg_min(step, it.sizes[last] - first);
        part.sizes[last] = count;
        part.ndim = count == 1 && last > 0 ? last : last + 1;
        part.numel = inner * count;
        for (int k = 0; k < it.nop; k++) part.p[k] = it.p[k] + first * it.st[last][k];
        int error = each_part(part, f);
        if (error) return error;
    }
    return 0;
}

struct alignas(16) Cell {                    // one element that comes with the launch: a number of the host
    char bytes[16];
};

template <int N> struct Operands {
    char* p[N];                              // result first
    Cell cells[N];
    uint32_t held;                           // bit k: operand k is cells[k]
    CYG_IN const char* at(int k) const { return held >> k & 1 ? cells[k].bytes : p[k]; }
};

// V elements that are moved as one.
template <class T, int V> struct alignas(sizeof(T) * V) Pack {
    T x[V];
};

constexpr int biggest(int size) { return size; }
template <class... Rest> constexpr int biggest(int first, Rest... rest) {
    return first > biggest((int)rest...) ? first : biggest((int)rest...);
}

template <int... K> struct Places {};
template <int N, int... K> struct MakePlaces : MakePlaces<N - 1, N - 1, K...> {};
template <int... K> struct MakePlaces<0, K...> { typedef Places<K...> type; };

// Operands that are dense along the innermost dimension, or do not move along it: a thread takes one pack. Of a single dimension the
// elements after the last whole pack have threads of their own.
template <class F, class R, class... X> struct VectorKernel {
    enum { THREADS = 256, N = sizeof...(X) + 1, V = 16 / biggest((int)sizeof(R), (int)sizeof(X)...) };
    F f;
    Operands<N> on;
    uint32_t dense;                          // bit k: operand k moves on with the result
    int64_t count;
    Offsets<N> offsets;                      // where there is more than one dimension

    template <class T, int K> CYG_IN Pack<T, V> fetch(const int64_t* o) const {
        Pack<T, V> pack;
        const char* p = on.at(K + 1) + o[K + 1];
        if (dense >> (K + 1) & 1) return *(const Pack<T, V>*)p;
        const T one = *(const T*)p;
        CYG_UNROLL
        for (int j = 0; j < V; j++) pack.x[j] = one;
        return pack;
    }
    CYG_IN void compute(const int64_t* o, const Pack<X, V>&... x) const {
        Pack<R, V> y;
        CYG_UNROLL
        for (int j = 0; j < V; j++) y.x[j] = Stored<R>::store(f(Stored<X>::load(x.x[j])...));
        *(Pack<R, V>*)(on.p[0] + o[0]) = y;
    }
    template <int... K> CYG_IN void run(int64_t block, int t, Places<K...>) const {
        const int64_t packs = count / V, pack = block * THREADS + t;
        const int sizes[N] = {(int)sizeof(R), (int)sizeof(X)...};
        if (pack < packs) {
            int64_t o[N];
            if (offsets.ndim > 1) offsets.at((uint32_t)(pack * V), o);
            else {
                CYG_UNROLL
                for (int k = 0; k < N; k++) o[k] = dense >> k & 1 ? pack * (V * sizes[k]) : 0;
            }
            compute(o, fetch<X, K>(o)...);
        }
        if (block == 0 && t < count - packs * V) {
            const int64_t i = packs * V + t;
            ((R*)on.p[0])[i] = Stored<R>::store(
                f(Stored<X>::load(((const X*)on.at(K + 1))[dense >> (K + 1) & 1 ? i : 0])...));
        }
    }
    CYG_BODY void operator()(Grid g) const {
        CYG_EACH_THREAD(t) run(g.block, t, typename MakePlaces<N - 1>::type());
    }
    int64_t blocks() const { return cyg_max<int64_t>(1, cyg_parts(count / V, THREADS)); }
};

// Any strides. HEAVY: what a formula computes takes longer than memory; such ones have this kernel only.
template <bool HEAVY, class F, class R, class... X> struct StridedKernel {
    enum { THREADS = HEAVY ? 128 : 256, N = sizeof...(X) + 1, U = 1 };
    F f;
    Operands<N> on;
    uint32_t count;
    Offsets<N> offsets;

    template <int... K> CYG_IN void run(int64_t block, int t, Places<K...>) const {
        const int64_t first = block * (THREADS * U) + t;
        int64_t o[U][N];
        CYG_UNROLL
        for (int u = 0; u < U; u++)
            if (first + u * THREADS < count) offsets.at((uint32_t)(first + u * THREADS), o[u]);
        ValueOf<R> y[U];
        CYG_UNROLL
        for (int u = 0; u < U; u++)
            if (first + u * THREADS < count) y[u] = f(Stored<X>::load(*(const X*)(on.at(K + 1) + o[u][K + 1]))...);
        CYG_UNROLL
        for (int u = 0; u < U; u++)
            if (first + u * THREADS < count) *(R*)(on.p[0] + o[u][0]) = Stored<R>::store(y[u]);
    }
    CYG_BODY void operator()(Grid g) const {
        CYG_EACH_THREAD(t) run(g.block, t, typename MakePlaces<N - 1>::type());
    }
    int64_t blocks() const { return cyg_parts(count, THREADS * U); }
};

// What a launch needs beside the formula. Not a function of the formula, so that the code of the host is compiled once for
// each number of operands.
template <int N> struct Part {
    Operands<N> on;
    uint32_t dense;
    int64_t count;
    Offsets<N> offsets;
};

template <int N> struct Launches {
    int (*vector)(const void* f, const Part<N>& part, void* stream);         // NULL: there is none
    int (*strided)(const void* f, const Part<N>& part, void* stream);
    int sizes[N];                            // of the operands' elements
    int pack;                                // elements that a vector kernel moves as one
};

// Whether a vector kernel fits; says which operands move on with the result.
template <int N> static bool takes_packs(const Iter& it, uint32_t held, const Launches<N>& with, uint32_t* dense) {
    *dense = 0;
    if (!with.vector || it.st[0][0] != with.sizes[0] || (it.ndim > 1 && it.sizes[0] % with.pack)) return false;
    for (int k = 0; k < N; k++) {
        const bool moves = it.st[0][k] == with.sizes[k] && !(held >> k & 1);
        const int64_t pack = with.sizes[k] * with.pack;
        if (!moves && (k == 0 || it.st[0][k] != 0)) return false;
        if (moves && (uintptr_t)it.p[k] % (uintptr_t)pack) return false;
        for (int d = 1; d < it.ndim; d++)
            if (moves && it.st[d][k] % pack) return false;
        *dense |= (uint32_t)moves << k;
    }
    return true;
}

// held, bit k: it.p[k] is memory of the host and holds one number.
template <int N>
static int run_parts(const Iter& whole, uint32_t held, const Launches<N>& with, const void* f, void* stream) {
    return each_part(whole, [&](const Iter& it) {
        Part<N> part;
        part.on.held = held;
        part.count = it.numel;
        for (int k = 0; k < N; k++) {
            part.on.p[k] = it.p[k];
            if (held >> k & 1) memcpy(part.on.cells[k].bytes, it.p[k], with.sizes[k]);
        }
        part.offsets.set(it);
        return takes_packs(it, held, with, &part.dense) ? with.vector(f, part, stream) : with.strided(f, part, stream);
    });
}

template <class K, class F, int N> static int launch_vector(const void* f, const Part<N>& part, void* stream) {
    K kernel;
    kernel.f = *(const F*)f, kernel.on = part.on, kernel.dense = part.dense, kernel.count = part.count, kernel.offsets = part.offsets;
    return cyg_launch(kernel, kernel.blocks(), stream);
}

template <class K, class F, int N> static int launch_strided(const void* f, const Part<N>& part, void* stream) {
    K kernel;
    kernel.f = *(const F*)f, kernel.on = part.on, kernel.count = (uint32_t)part.count, kernel.offsets = part.offsets;
    return cyg_launch(kernel, kernel.blocks(), stream);
}

// Run f over `it`; the stored types are those of the result and of each input.
template <bool HEAVY, class R, class... X, class F>
static int elementwise(const F& f, const Iter& it, uint32_t held, void* stream) {
    enum { N = sizeof...(X) + 1 };
    typedef VectorKernel<F, R, X...> Vector;
    Launches<N> with = {nullptr, launch_strided<StridedKernel<HEAVY, F, R, X...>, F, N>,
                        {(int)sizeof(R), (int)sizeof(X)...}, Vector::V};
    if constexpr (!HEAVY) with.vector = launch_vector<Vector, F, N>;
    return run_parts<N>(it, held, with, &f, stream);
}

#endif
