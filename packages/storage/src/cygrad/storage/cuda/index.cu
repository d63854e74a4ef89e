// Reading and writing through indices. Index tensors become places, byte offsets in x; places are read at once, and written in
// the order of a stable sort: each place belongs to one thread, which takes what arrives there, or joined blocks of it, in order.
#include "launch.cuh"
#include "device_complex.cuh"

#ifdef CYG_HOST
static inline void lower(unsigned long long* found, unsigned long long k) { if (k < *found) *found = k; }
#else
static __device__ __forceinline__ void lower(unsigned long long* found, unsigned long long k) { atomicMin(found, k); }
#endif

namespace {

// places[i] (+)= index * step, over positions; an index outside [low, size) leaves its position in `bad`.
struct FindPlaces {
    int64_t* places;
    const char* index;
    int64_t low, size, step;
    bool first;
    unsigned long long* bad;
    WideOffsets<2> at;                       // of the index, and of x along positions that have their own place
    CYG_BODY void one(int64_t i) const {
        int64_t o[2];
        at.at(i, o);
        int64_t k = *(const int64_t*)(index + o[0]);
        if (k < low || k >= size) {
            lower(bad, (unsigned long long)i);
            k = 0;
        }
        places[i] = (first ? o[1] : places[i]) + (k < 0 ? k + size : k) * step;
    }
};

// v = x at its places
template <class T> struct Through {
    const char* x;
    char* v;
    const int64_t* places;
    WideOffsets<3> at;                       // of v, of x without its place, of `places`
    CYG_BODY void one(int64_t i) const {
        int64_t o[3];
        at.at(i, o);
        *(T*)(v + o[0]) = *(const T*)(x + o[1] + *(const int64_t*)((const char*)places + o[2]));
    }
};

template <class V> CYG_FN V joined(int how, V a, V b) {
    switch (how) {
        case CYG_JOIN_ADD: return a + b;
        case CYG_JOIN_MULTIPLY: return a * b;
        case CYG_JOIN_MIN: return a != a || (b == b && a <= b) ? a : b;
        case CYG_JOIN_MAX: return a != a || (b == b && a >= b) ? a : b;
    }
    return b;
}
template <class P> CYG_FN complex_t<P> joined(int how, complex_t<P> a, complex_t<P> b) {
    return how == CYG_JOIN_ADD ? a + b : how == CYG_JOIN_MULTIPLY ? c_mul(a, b) : b;
}

// Of elements as memory holds them: sums of truths are "or", products "and".
template <class T> CYG_FN ValueOf<T> joined_as(int how, ValueOf<T> a, ValueOf<T> b) { return joined(how, a, b); }
template <> CYG_IN uint8_t joined_as<bool_t>(int how, uint8_t a, uint8_t b) {
    return how == CYG_JOIN_ADD || how == CYG_JOIN_MAX ? a | b : how == CYG_JOIN_WRITE ? b : a & b;
}

// Sorted places. Equal ones are a run. Where it covers a whole block of 64 positions, these are joined first, with others at the
// same time: 64 of them make a block of the next level, and so on. Blocks lie at multiples of their size, so what is joined with
// what depends on the places alone; order stays as it is. A run that covers no block is joined one after the other.
enum { LOG_BLOCK = 6, BLOCK = 1 << LOG_BLOCK, LEVELS = 4 };

template <class T> struct Joining {
    typedef ValueOf<T> V;
    enum { AHEAD = 4 };                      // are read before they are joined: they are anywhere in v
    char* x;
    const char* v;
    const int64_t *places, *order;           // sorted, and the positions that they come from; NULL: distinct, as they come
    int64_t count, inner, step;              // step: bytes of v for a step of order
    int how, levels;                         // levels: the last one of which there are blocks
    V* blocks[LEVELS + 1];                   // what those of a level came to, (count >> 6 * level) x inner
    WideOffsets<1> value;                    // of v along positions, where they are distinct
    WideOffsets<2> around;                   // of v and x along what is not indexed

    // y joined with n <= AHEAD elements of sorted positions, or with n blocks of a level, from j on; e: the number of the element
    // among `inner`, o: bytes of v before it.
    CYG_IN void take(V& y, int level, int64_t j, int n, int64_t e, int64_t o) const {
        V next[AHEAD];
        if (level) {
            const V* from = blocks[level] + j * inner + e;
            CYG_UNROLL
            for (int u = 0; u < AHEAD; u++)
                if (u < n) next[u] = from[u * inner];
        } else {
            int64_t from[AHEAD];
            CYG_UNROLL
            for (int u = 0; u < AHEAD; u++)
                if (u < n) from[u] = order[j + u];
            CYG_UNROLL
            for (int u = 0; u < AHEAD; u++)
                if (u < n) next[u] = Stored<T>::load(*(const T*)(v + o + from[u] * step));
        }
        CYG_UNROLL
        for (int u = 0; u < AHEAD; u++)
            if (u < n) y = joined_as<T>(how, y, next[u]);
    }
};

// The blocks of one level that lie in one run.
template <class T> struct JoinBlocks {
    Joining<T> on;
    int level;
    CYG_BODY void one(int64_t i) const {
        const int64_t b = i / on.inner, e = i - b * on.inner, first = b << LOG_BLOCK * level;
        if (on.places[first] != on.places[first + ((int64_t)1 << LOG_BLOCK * level) - 1]) return;
        int64_t o[2];
        on.around.find(e, o);
        const int64_t j = b << LOG_BLOCK;
        ValueOf<T> y = level > 1 ? on.blocks[level - 1][j * on.inner + e]
            : Stored<T>::load(*(const T*)(on.v + o[0] + on.order[j] * on.step));
        CYG_ROLLED
        for (int k = 1; k < BLOCK; k += on.AHEAD) on.take(y, level - 1, j + k, cyg_min<int>(on.AHEAD, BLOCK - k), e, o[0]);
        on.blocks[level][b * on.inner + e] = y;
    }
};

// The thread of the first of a run takes it all, for one element of what is not indexed.
template <class T> struct JoinPlaces {
    Joining<T> on;
    CYG_BODY void one(int64_t i) const {
        const int64_t rank = i / on.inner, e = i - rank * on.inner, place = on.places[rank];
        if (on.order && rank > 0 && place == on.places[rank - 1]) return;
        int64_t o[2];
        on.around.at(e, o);
        T* there = (T*)(on.x + o[1] + place);
        ValueOf<T> y = Stored<T>::load(*there);
        if (!on.order) {
            y = joined_as<T>(on.how, y, Stored<T>::load(*(const T*)(on.v + o[0] + on.value.first(rank))));
        } else {
            int64_t end = rank + 1, step = 1;          // of the run, by steps that double, and then by halves
            for (; end + step <= on.count && on.places[end + step - 1] == place; step *= 2) end += step;
            while (step /= 2)
                if (end + step <= on.count && on.places[end + step - 1] == place) end += step;
            // Of writes the last one stays. Up to BLOCK equal ones are joined as they come, so that these sums are the CPU's.
            const int levels = end - rank > BLOCK ? on.levels : 0;
            for (int64_t at = on.how == CYG_JOIN_WRITE ? end - 1 : rank; at < end;) {
                int level = 0;
                while (level < levels && (at & (((int64_t)1 << LOG_BLOCK * (level + 1)) - 1)) == 0
                       && at + ((int64_t)1 << LOG_BLOCK * (level + 1)) <= end) level++;
                const int64_t j = at >> LOG_BLOCK * level, most = cyg_min(end >> LOG_BLOCK * level, (j | (BLOCK - 1)) + 1) - j;
                const int n = (int)cyg_min<int64_t>(on.AHEAD, most);
                on.take(y, level, j, n, e, o[0]);
                at += (int64_t)n << LOG_BLOCK * level;
            }
        }
        *there = Stored<T>::store(y);
    }
};

// Where positions of v are no single dimension, their bytes in the place of their numbers.
struct Locate {
    int64_t* order;
    WideOffsets<1> value;
    CYG_BODY void one(int64_t i) const { order[i] = value.first(order[i]); }
};

template <int N> int fill_offsets(WideOffsets<N>& at, int ndim, const int64_t* sizes, const int64_t (*steps)[3], const int* which) {
    if (ndim > CYG_DIMS) return CYG_TOO_MANY_DIMS;
    at.clear();
    for (int d = 0; d < ndim; d++) {
        int64_t s[N];
        for (int k = 0; k < N; k++) s[k] = steps[d][which[k]];
        at.add(sizes[d], s);
    }
    return 0;
}

template <class T> int through(const CygThrough& c, void* stream) {
    static const int all[3] = {0, 1, 2};
    Through<T> k;
    k.x = c.x, k.v = c.v, k.places = c.places;
    int error = fill_offsets(k.at, c.ndim, c.sizes, c.steps, all);
    return error ? error : cyg_each(k, c.count, stream);
}

// Positions at level k of blocks; 0 where there are none, since places are distinct or only the last of equal ones counts.
int64_t blocks_of(const CygJoinPlaces& c, int level) {
    return c.order && c.how != CYG_JOIN_WRITE ? c.count >> LOG_BLOCK * level : 0;
}

template <class T> int join(const CygJoinPlaces& c, void* scratch, void* stream) {
    static const int first[1] = {0}, both[2] = {0, 1};
    Joining<T> on;
    on.x = c.x, on.v = c.v, on.places = c.places, on.order = c.order, on.count = c.count, on.inner = c.inner, on.how = c.how;
    int error = fill_offsets(on.value, c.value_ndim, c.value_sizes, c.value_steps, first);
    if (!error) error = fill_offsets(on.around, c.ndim, c.sizes, c.steps, both);
    on.step = on.value.ndim ? on.value.st[0][0] : 0;
    if (!error && c.order && on.value.ndim > 1) {
        on.step = 1;
        error = cyg_each(Locate{c.order, on.value}, c.count, stream);
    }
    on.blocks[0] = nullptr, on.levels = 0;
    ValueOf<T>* room = (ValueOf<T>*)scratch;
    for (int level = 1; level <= LEVELS && blocks_of(c, level); level++) {
        on.blocks[level] = room, on.levels = level;
        room += blocks_of(c, level) * c.inner;
    }
    for (int level = 1; level <= on.levels && !error; level++)
        error = cyg_each(JoinBlocks<T>{on, level}, blocks_of(c, level) * c.inner, stream);
    return error ? error : cyg_each(JoinPlaces<T>{on}, c.count * c.inner, stream);
}

// Ones and zeros for what is not zero and what is.
template <class T> struct Marks {
    const char* x;
    int64_t* y;
    WideOffsets<1> at;
    template <class V> static CYG_IN bool truth(V v) { return v != 0; }
    template <class P> static CYG_IN bool truth(complex_t<P> v) { return v.re != 0 || v.im != 0; }
    CYG_BODY void one(int64_t i) const {
        int64_t o[1];
        at.at(i, o);
        y[i] = truth(Stored<T>::load(*(const T*)(x + o[0])));
    }
};

// Where the running count of marks goes up: the element's number, in row-major order.
struct Chosen {
    const int64_t* running;
    int64_t* y;
    CYG_BODY void one(int64_t i) const {
        if (running[i] != (i ? running[i - 1] : 0)) y[running[i] - 1] = i;
    }
};

// Coordinates of element numbers: one column of `found` for each dimension.
struct Coordinates {
    const int64_t* numbers;
    int64_t* y;
    int64_t found;
    int ndim;
    int64_t sizes[CYG_MAXDIM];
    CYG_BODY void one(int64_t i) const {
        int64_t rest = numbers[i];
        for (int d = ndim - 1; d >= 0; d--) {
            y[d * found + i] = rest % sizes[d];
            rest /= sizes[d];
        }
    }
};

// Zero left of a diagonal of the last two dimensions, or right of it.
template <class T> struct Triangle {
    char* x;
    int64_t rows, columns, diagonal;
    bool upper;
    WideOffsets<1> at;
    CYG_BODY void one(int64_t i) const {
        const int64_t column = i % columns, row = i / columns % rows;
        if (upper ? column < row + diagonal : column > row + diagonal) {
            int64_t o[1];
            at.at(i, o);
            *(T*)(x + o[0]) = T();
        }
    }
};

// 0, 1, 2, ...
struct Count {
    int64_t* y;
    CYG_BODY void one(int64_t i) const { y[i] = i; }
};

}

int cyg_find_places(const CygPlaces* c, void* stream) {
    FindPlaces k;
    if (c->ndim > CYG_DIMS) return CYG_TOO_MANY_DIMS;
    k.places = c->places, k.index = c->index, k.low = c->low, k.size = c->size, k.step = c->step;
    k.first = c->first, k.bad = (unsigned long long*)c->bad;
    k.at.clear();
    for (int d = 0; d < c->ndim; d++) k.at.add(c->sizes[d], c->steps[d]);
    return cyg_each(k, c->count, stream);
}

int cyg_through(int size, const CygThrough* c, void* stream) {
    switch (size) {
        case 1: return through<uint8_t>(*c, stream);
        case 2: return through<uint16_t>(*c, stream);
        case 4: return through<uint32_t>(*c, stream);
        case 8: return through<uint64_t>(*c, stream);
        default: return through<c128_t>(*c, stream);
    }
}

int64_t cyg_join_scratch(int code, const CygJoinPlaces* c) {
    int64_t elements = 0;
    for (int level = 1; level <= LEVELS; level++) elements += blocks_of(*c, level) * c->inner;
    return elements * (code == C_COMPLEX128 ? 16 : 8);
}

int cyg_join_places(int code, const CygJoinPlaces* c, void* scratch, void* stream) {
    switch (code) {
        case C_BOOL: return join<bool_t>(*c, scratch, stream);
#define CASE(code, T) case code: return join<T>(*c, scratch, stream);
        CYG_INTEGERS(CASE)
        CYG_REALS(CASE)
        CYG_COMPLEX(CASE)
#undef CASE
    }
    return CYG_NO_KERNEL;
}

int cyg_marks(int code, const char* x, int64_t* y, int ndim, const int64_t* sizes, const int64_t* steps, int64_t count,
              void* stream) {
    if (ndim > CYG_DIMS) return CYG_TOO_MANY_DIMS;
    auto go = [&](auto k) {
        k.x = x, k.y = y;
        k.at.clear();
        for (int d = 0; d < ndim; d++) k.at.add(sizes[d], &steps[d]);
        return cyg_each(k, count, stream);
    };
    switch (code) {
        case C_BOOL: return go(Marks<bool_t>());
#define CASE(code, T) case code: return go(Marks<T>());
        CYG_INTEGERS(CASE)
        CYG_REALS(CASE)
        CYG_COMPLEX(CASE)
#undef CASE
    }
    return CYG_NO_KERNEL;
}

int cyg_chosen(const int64_t* running, int64_t* y, int64_t count, void* stream) {
    return cyg_each(Chosen{running, y}, count, stream);
}

int cyg_coordinates(const int64_t* numbers, int64_t* y, int64_t found, int ndim, const int64_t* sizes, void* stream) {
    Coordinates k;
    k.numbers = numbers, k.y = y, k.found = found, k.ndim = ndim;
    for (int d = 0; d < ndim; d++) k.sizes[d] = sizes[d];
    return cyg_each(k, found, stream);
}

int cyg_count(int64_t* y, int64_t count, void* stream) {
    return cyg_each(Count{y}, count, stream);
}

int cyg_triangle(int size, char* x, int ndim, const int64_t* sizes, const int64_t* steps, int64_t count, int64_t diagonal,
                 int upper, void* stream) {
    if (ndim > CYG_DIMS) return CYG_TOO_MANY_DIMS;
    auto go = [&](auto k) {
        k.x = x, k.rows = sizes[1], k.columns = sizes[0], k.diagonal = diagonal, k.upper = upper;
        k.at.clear();
        for (int d = 0; d < ndim; d++) k.at.add(sizes[d], &steps[d]);
        return cyg_each(k, count, stream);
    };
    switch (size) {
        case 1: return go(Triangle<uint8_t>());
        case 2: return go(Triangle<uint16_t>());
        case 4: return go(Triangle<uint32_t>());
        case 8: return go(Triangle<uint64_t>());
        default: return go(Triangle<c128_t>());
    }
}
