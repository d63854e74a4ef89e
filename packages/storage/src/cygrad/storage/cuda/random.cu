// Random numbers by seed and place: Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011). Elements 2 i and 2 i + 1 share a block,
// which their number names, so a number depends on seed, offset and place alone, not on how the work is cut.
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
    const double open = u + (single ? 0.5 / 16777216.0 : 0.5 / 9007199254740992.0);          // in (0, 1)
    switch (kind) {
        case CYG_UNIFORM: return low + u * (high - low);
        case CYG_NORMAL: return low + high * (single ? (double)normal_float(a, b) : normal_of(u, unit(b, a)));
        case CYG_LOG_NORMAL: return exp(low + high * normal_of(u, unit(b, a)));
        case CYG_BERNOULLI: return u < low;
        case CYG_EXPONENTIAL: return -log(open) / low;
        case CYG_GEOMETRIC: return cyg_max<double>(1, ceil(log(open) / log1p(-low)));
        case CYG_CAUCHY: return low + high * tan(3.141592653589793 * (open - 0.5));
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

// Numbers that are found by rejection: each element has a stream of its own.
struct Source {
    uint64_t seed, block, stream;
    Words words;
    int left;
    CYG_IN double next() {                   // (0, 1)
        if (left == 0) words = philox(seed, block++, stream), left = 2;
        left--;
        return unit(words.w[2 * left], words.w[2 * left + 1]) + 0.5 / 9007199254740992.0;
    }
    CYG_IN double normal() {
        const double u = next();
        return sqrt(-2 * log(u)) * cos(6.283185307179586 * next());
    }
};

// Small rates: how many uniform factors keep a product above exp(-rate). Large ones: PTRS (Hoermann 1993).
CYG_CALL double poisson(double rate, Source& s) {
    if (!(rate - rate == 0)) return NAN;
    if (rate < 10) {
        const double limit = exp(-rate);
        double k = 0, product = s.next();
        for (; product > limit; k++) product *= s.next();
        return rate == 0 ? 0 : k;
    }
    const double b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b, top = 0.9277 - 3.6224 / (b - 2);
    const double scale = log(1.1239 + 1.1328 / (b - 3.4));
    for (;;) {
        const double u = s.next() - 0.5, v = s.next(), us = 0.5 - fabs(u), k = floor((2 * a / us + b) * u + rate + 0.43);
        if (us >= 0.07 && v <= top) return k;
        if (k < 0 || (us < 0.013 && v > us)) continue;
        if (log(v) + scale - log(a / (us * us) + b) <= k * log(rate) - rate - lgamma(k + 1)) return k;
    }
}

// Few successes: distances between them. Many: BTRS (Hoermann 1993).
CYG_CALL double successes(double n, double p, Source& s) {           // of a p up to 1/2
    if (p == 0) return 0;
    if (n * p < 10) {
        double k = -1, at = 0;
        for (; at <= n; k++) at += floor(log(s.next()) / log1p(-p)) + 1;
        return k;
    }
    const double spread = sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * spread, a = -0.0873 + 0.0248 * b + 0.01 * p, c = n * p + 0.5;
    const double top = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * spread, m = floor((n + 1) * p);
    const double h = lgamma(m + 1) + lgamma(n - m + 1), odds = log(p / (1 - p));
    for (;;) {
        const double u = s.next() - 0.5, v = s.next(), us = 0.5 - fabs(u), k = floor((2 * a / us + b) * u + c);
        if (us >= 0.07 && v <= top) return k;
        if (k < 0 || k > n) continue;
        if (log(v * alpha / (a / (us * us) + b)) <= h - lgamma(k + 1) - lgamma(n - k + 1) + (k - m) * odds) return k;
    }
}

CYG_FN double binomial(double n, double p, Source& s) {
    if (!(n >= 0) || !(p >= 0 && p <= 1) || !(n - n == 0)) return NAN;
    const double k = successes(n, p > 0.5 ? 1 - p : p, s);
    return p > 0.5 ? n - k : k;
}

// Marsaglia and Tsang (2000); shapes below 1 by a power of a uniform number.
CYG_CALL double gamma_number(double shape, Source& s) {
    if (!(shape > 0) || !(shape - shape == 0)) return shape == 0 ? 0 : NAN;
    double factor = 1;
    if (shape < 1) factor = pow(s.next(), 1 / shape), shape += 1;
    const double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        const double x = s.normal(), v = (1 + c * x) * (1 + c * x) * (1 + c * x);
        if (v <= 0) continue;
        if (log(s.next()) < 0.5 * x * x + d * (1 - v + log(v))) return factor * d * v;
    }
}

struct DrawnBy {
    enum { THREADS = 128 };
    int kind;
    const double *a, *p;
    double* y;
    int64_t count;
    uint64_t seed, block;
    CYG_BODY void operator()(Grid g) const {
        CYG_EACH_THREAD(t) {
            const int64_t i = g.block * THREADS + t;
            if (i < count) {
                Source s = {seed, block, (uint64_t)i + 1, Words(), 0};
                y[i] = kind == 0 ? poisson(a[i], s) : kind == 1 ? binomial(a[i], p[i], s) : gamma_number(a[i], s);
            }
        }
    }
};

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

int cyg_drawn_by(int kind, const double* a, const double* p, double* y, int64_t count, uint64_t seed, uint64_t offset, void* stream) {
    return cyg_launch(DrawnBy{kind, a, p, y, count, seed, offset / 4}, cyg_parts(count, DrawnBy::THREADS), stream);
}
