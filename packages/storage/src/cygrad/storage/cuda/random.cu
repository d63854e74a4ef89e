// Random numbers by seed and place: Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011). Element i takes word i % 4 of the block
// that its number names, so a number depends on seed, offset and place alone, not on how the work is cut.
#include "launch.cuh"
#include "convert.cuh"

namespace {

struct Words { uint32_t w[4]; };

CYG_FN uint32_t high_product(uint32_t a, uint32_t b) { return (uint32_t)((uint64_t)a * b >> 32); }

CYG_FN Words philox(uint64_t seed, uint64_t block, uint64_t stream) {
    uint32_t c[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)};
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    CYG_UNROLL
    for (int round = 0; round < 10; round++) {
        const uint32_t a = high_product(0xD2511F53u, c[0]), b = 0xD2511F53u * c[0];
        const uint32_t d = high_product(0xCD9E8D57u, c[2]), e = 0xCD9E8D57u * c[2];
        c[0] = d ^ c[1] ^ k0, c[1] = e, c[2] = a ^ c[3] ^ k1, c[3] = b;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return Words{{c[0], c[1], c[2], c[3]}};
}

CYG_FN double unit(uint32_t high, uint32_t low) {            // [0, 1), 53 bits
    return (double)(((uint64_t)high << 32 | low) >> 11) * (1.0 / 9007199254740992.0);
}
CYG_FN float unit_float(uint32_t w) { return (float)(w >> 8) * (1.0f / 16777216.0f); }

// A pair of normal numbers from uniform ones (Box and Muller 1958); u is not 0.
CYG_FN double normal_of(double u, double v) { return sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v); }
CYG_FN float normal_float(uint32_t a, uint32_t b) {
    return sqrtf(-2 * logf(1 - unit_float(a))) * cosf(6.2831853f * unit_float(b));
}

// What is drawn for one element, whose words are two of a block.
CYG_FN double draw(int kind, uint32_t a, uint32_t b, double low, double high, bool single) {
    const double u = single ? (double)unit_float(a) : unit(a, b);
    switch (kind) {
        case CYG_UNIFORM: return low + u * (high - low);
        case CYG_NORMAL: return low + high * (single ? (double)normal_float(a, b) : normal_of(u, unit(b, a)));
        case CYG_LOG_NORMAL: return exp(low + high * normal_of(u, unit(b, a)));
        case CYG_BERNOULLI: return u < low;
        case CYG_EXPONENTIAL: return -log1p(-u) / low;
        case CYG_GEOMETRIC: return ceil(log1p(-u) / log1p(-low)) < 1 ? 1 : ceil(log1p(-u) / log1p(-low));
        case CYG_CAUCHY: return low + high * tan(3.141592653589793 * (u - 0.5));
    }
    return 0;
}

template <class T> struct Draw {
    enum { THREADS = 256 };
    char* y;
    int kind;
    double low, high;                        // or mean and deviation, rate, probability
    uint64_t span, seed, offset;             // span of integers; 0: all of a word
    int64_t base, pairs, count;
    WideOffsets<1> at;

    CYG_IN void one(int64_t i, uint32_t a, uint32_t b) const {
        int64_t o[1];
        at.at(i, o);
        T* p = (T*)(y + o[0]);
        if (kind == CYG_INTEGER) {
            const uint64_t word = (uint64_t)a << 32 | b;
            store_as(code_of(), (char*)p, (int64_t)((span ? word % span : word) + (uint64_t)base));
            return;
        }
        T v = Convert<T>::from(draw(kind, a, b, low, high, sizeof(ValueOf<T>) <= 4));
        if (kind == CYG_UNIFORM && !((double)as_number(v) < high)) v = Convert<T>::from(low);
        *p = v;
    }
    static CYG_IN ValueOf<T> as_number(T v) { return Stored<T>::load(v); }
    static CYG_IN int code_of();
    CYG_BODY void operator()(Grid g) const {
        CYG_EACH_THREAD(t) {
            const int64_t i = g.block * THREADS + t;
            if (i < pairs) {
                const Words w = philox(seed, offset / 4 + (uint64_t)i, 0);
                one(2 * i, w.w[0], w.w[1]);
                if (2 * i + 1 < count) one(2 * i + 1, w.w[2], w.w[3]);
            }
        }
    }
};
template <> CYG_IN int Draw<bool_t>::code_of() { return C_BOOL; }
#define CYG_CODE_OF(code, T) template <> CYG_IN int Draw<T>::code_of() { return code; }
CYG_INTEGERS(CYG_CODE_OF)
CYG_REALS(CYG_CODE_OF)

template <class T> int draw_all(const CygDraw& d, void* stream) {
    Draw<T> k;
    k.y = d.y, k.kind = d.kind, k.low = d.low, k.high = d.high, k.span = d.span, k.base = d.base;
    k.seed = d.seed, k.offset = d.offset, k.count = d.count, k.pairs = cyg_parts(d.count, 2);
    k.at.clear();
    for (int i = 0; i < d.ndim; i++) k.at.add(d.sizes[i], &d.steps[i]);
    return cyg_launch(k, cyg_parts(k.pairs, Draw<T>::THREADS), stream);
}

}

int cyg_draw(int code, const CygDraw* d, void* stream) {
    if (d->ndim > CYG_DIMS) return CYG_TOO_MANY_DIMS;
    switch (code) {
        case C_BOOL: return draw_all<bool_t>(*d, stream);
#define CASE(code, T) case code: return draw_all<T>(*d, stream);
        CYG_INTEGERS(CASE)
        CYG_REALS(CASE)
#undef CASE
    }
    return CYG_NO_KERNEL;
}
