// Copies and casts between any strides and dtypes, and fills.
#include "launch.cuh"
#include "convert.cuh"

namespace {

template <class T> struct Raw {               // an element that is not computed with
    T x;
};

template <class T> struct Same {
    CYG_IN Raw<T> operator()(Raw<T> x) const { return x; }
};

template <class S, class T> struct Cast {
    CYG_IN Raw<T> operator()(ValueOf<S> x) const { return Raw<T>{Convert<T>::from(x)}; }
};

// The rarer conversions: the dtype of the result is known when the kernel runs.
template <class S> struct AnyCast {
    enum { THREADS = 256 };
    char* y;
    const char* x;
    int to;
    uint32_t count;
    Offsets<2> offsets;
    CYG_BODY void operator()(Grid g) const {
        CYG_EACH_THREAD(t) {
            const int64_t i = g.block * THREADS + t;
            int64_t o[2];
            if (i < count) {
                offsets.at((uint32_t)i, o);
                store_as(to, y + o[0], Stored<S>::load(*(const S*)(x + o[1])));
            }
        }
    }
};

// Tiles of SIDE x SIDE through shared memory: the source runs along dimension `far`, the result along dimension 0, and both
// are read and written in whole lines.
template <class T> struct Turn {
    enum { THREADS = 256, SIDE = sizeof(T) < 4 ? 64 : 32, ROWS = THREADS / SIDE, EACH = SIDE / ROWS };
    char* y;
    const char* x;
    int64_t near_size, far_size, y_far, x_near;       // byte strides; those of y along 0 and of x along `far` are sizeof(T)
    uint32_t across, down;                            // tiles along 0 and along `far`
    Offsets<2> rest;

    CYG_BODY void operator()(Grid g) const {
        CYG_SHARED(T, tile, SIDE * (SIDE + 1));
        int64_t place = g.block / across, o[2];
        const int64_t i0 = (g.block - place * across) * SIDE;
        const int64_t batch = place / down, j0 = (place - batch * down) * SIDE;
        rest.at((uint32_t)batch, o);
        CYG_LOCAL_ARRAY(T, held, EACH);           // all loads come before their use: one at a time would wait for memory
        CYG_EACH_THREAD(t) {
            const int64_t j = j0 + t % SIDE, i = i0 + t / SIDE;
            const char* from = x + o[1] + i * x_near + j * (int64_t)sizeof(T);
            CYG_UNROLL
            for (int k = 0; k < EACH; k++)
                if (j < far_size && i + k * ROWS < near_size) CYG_MY(held, t)[k] = *(const T*)(from + k * ROWS * x_near);
            CYG_UNROLL
            for (int k = 0; k < EACH; k++) tile[(t / SIDE + k * ROWS) * (SIDE + 1) + t % SIDE] = CYG_MY(held, t)[k];
        }
        CYG_SYNC();
        CYG_EACH_THREAD(t) {
            const int64_t i = i0 + t % SIDE, j = j0 + t / SIDE;
            char* to = y + o[0] + j * y_far + i * (int64_t)sizeof(T);
            CYG_UNROLL
            for (int k = 0; k < EACH; k++)
                if (i < near_size && j + k * ROWS < far_size)
                    *(T*)(to + k * ROWS * y_far) = tile[t % SIDE * (SIDE + 1) + t / SIDE + k * ROWS];
        }
    }
};

// The dimension along which the source runs while the result runs along dimension 0, or 0.
int turned(const Iter& it, int64_t size) {
    if (it.st[0][0] != size || it.st[0][1] == size || it.sizes[0] < 16) return 0;
    for (int d = 1; d < it.ndim; d++)
        if (it.st[d][1] == size && it.sizes[d] >= 16) return d;
    return 0;
}

template <class T> int turn(const Iter& it, int far, void* stream) {
    Turn<T> k;
    Iter rest;
    rest.ndim = 0;
    int64_t batches = 1;
    for (int d = 1; d < it.ndim; d++) {
        if (d == far) continue;
        rest.sizes[rest.ndim] = it.sizes[d];
        rest.st[rest.ndim][0] = it.st[d][0], rest.st[rest.ndim][1] = it.st[d][1];
        rest.ndim++;
        batches *= it.sizes[d];
    }
    k.y = it.p[0], k.x = it.p[1];
    k.near_size = it.sizes[0], k.far_size = it.sizes[far];
    k.y_far = it.st[far][0], k.x_near = it.st[0][1];
    k.across = (uint32_t)cyg_parts(k.near_size, Turn<T>::SIDE), k.down = (uint32_t)cyg_parts(k.far_size, Turn<T>::SIDE);
    k.rest.set(rest);
    return cyg_launch(k, batches * k.across * k.down, stream);
}

template <class T> int copy_same(const Iter& it, void* stream) {
    return each_part(it, [&](const Iter& part) {
        int far = turned(part, sizeof(T));
        return far ? turn<T>(part, far, stream) : elementwise<false, Raw<T>, Raw<T>>(Same<T>(), part, 0, stream);
    });
}

// Conversions that are worth vectors: between floating types, and of other common types to float32.
constexpr bool floating(int code) { return code >= C_FLOAT16 && code <= C_FLOAT64; }
constexpr bool often(int from, int to) {
    return floating(to) && (floating(from) || (to == C_FLOAT32 && (from <= C_UINT8 || from == C_INT32 || from == C_INT64)));
}

template <class S, int from> int cast_from(int to, const Iter& it, void* stream) {
    switch (to) {
#define TO(code, T) \
        case code: \
            if constexpr (often(from, code)) return elementwise<false, Raw<T>, S>(Cast<S, T>(), it, 0, stream); \
            break;
        CYG_ALL(TO)
#undef TO
    }
    return each_part(it, [&](const Iter& part) {
        AnyCast<S> k;
        k.y = part.p[0], k.x = part.p[1], k.to = to, k.count = (uint32_t)part.numel;
        k.offsets.set(part);
        return cyg_launch(k, cyg_parts(part.numel, AnyCast<S>::THREADS), stream);
    });
}

template <class T> struct Value {
    Raw<T> value;
    CYG_IN Raw<T> operator()() const { return value; }
};
template <class T> int fill(const Iter& it, const void* cell, void* stream) {
    Value<T> f;
    memcpy(&f.value, cell, sizeof(T));
    return elementwise<false, Raw<T>>(f, it, 0, stream);
}

}

int cyg_copy(int to, int from, const void* iter, void* stream) {
    const Iter& it = *(const Iter*)iter;
    if (to == from)
        switch (c_size(to)) {
            case 1: return copy_same<uint8_t>(it, stream);
            case 2: return copy_same<uint16_t>(it, stream);
            case 4: return copy_same<uint32_t>(it, stream);
            case 8: return copy_same<uint64_t>(it, stream);
            default: return copy_same<c128_t>(it, stream);
        }
    switch (from) {
#define FROM(code, S) case code: return cast_from<S, code>(to, it, stream);
        CYG_ALL(FROM)
#undef FROM
    }
    return CYG_NO_KERNEL;
}

int cyg_fill(int code, const void* iter, const void* cell, void* stream) {
    const Iter& it = *(const Iter*)iter;
    switch (c_size(code)) {
        case 1: return fill<uint8_t>(it, cell, stream);
        case 2: return fill<uint16_t>(it, cell, stream);
        case 4: return fill<uint32_t>(it, cell, stream);
        case 8: return fill<uint64_t>(it, cell, stream);
        default: return fill<c128_t>(it, cell, stream);
    }
}
