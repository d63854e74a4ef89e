// Scores of attention to weights and back; the products around them are cuBLAS's. A block takes a row.
#include "launch.cuh"

namespace {

template <class T> CYG_FN T masked(const CygScores& c, int64_t row, int64_t j, T score) {
    if (c.causal && j > row % c.queries) return (T)-INFINITY;
    if (!c.mask) return score;
    const int64_t at = row * c.keys + j;
    return c.mask_is_bool ? (((const uint8_t*)c.mask)[at] ? score : (T)-INFINITY) : score + ((const T*)c.mask)[at];
}

template <class T> struct Weigh {
    enum { THREADS = 128 };
    struct Acc { T top, sum; };
    CygScores c;
    static CYG_IN void join(Acc& s, const Acc& o) {
        if (o.top > s.top || o.top != o.top) s.sum = o.sum + (s.sum == 0 ? 0 : s.sum * exp(s.top - o.top)), s.top = o.top;
        else if (o.sum != 0) s.sum += o.top == s.top ? o.sum : o.sum * exp(o.top - s.top);
    }
    CYG_BODY void operator()(Grid g) const {
        CYG_SHARED(Acc, acc, THREADS);
        T* s = (T*)c.scores + g.block * c.keys;
        CYG_EACH_THREAD(t) {
            Acc a = {(T)-INFINITY, 0};
            for (int64_t j = t; j < c.keys; j += THREADS) {
                const T v = masked(c, g.block, j, s[j]);
                s[j] = v;
                if (v != (T)-INFINITY) join(a, Acc{v, 1});
            }
            acc[t] = a;
        }
        CYG_SYNC();
        for (int d = THREADS / 2; d > 0; d /= 2) {
            CYG_EACH_THREAD(t) if (t < d) join(acc[t], acc[t + d]);
            CYG_SYNC();
        }
        CYG_EACH_THREAD(t) {
            const Acc a = acc[0];
            const T scale = a.sum == 0 ? 0 : 1 / a.sum;
            for (int64_t j = t; j < c.keys; j += THREADS) s[j] = a.sum == 0 ? 0 : exp(s[j] - a.top) * scale;
            if (t == 0) ((T*)c.top)[g.block] = a.sum == 0 ? (T)INFINITY : a.top + log(a.sum);
        }
    }
};

template <class T> struct WeighBack {
    enum { THREADS = 128 };
    CygScores c;
    CYG_BODY void operator()(Grid g) const {
        T *s = (T*)c.scores + g.block * c.keys, *d = (T*)c.g + g.block * c.keys;
        const T top = ((const T*)c.top)[g.block], inner = ((const T*)c.inner)[g.block];
        CYG_EACH_THREAD(t) {
            for (int64_t j = t; j < c.keys; j += THREADS) {
                const T v = masked(c, g.block, j, s[j]), w = v == (T)-INFINITY ? 0 : exp(v - top);
                s[j] = w;
                d[j] = w * (d[j] - inner);
            }
        }
    }
};

template <class T> struct RowsInner {
    enum { THREADS = 256, LANES = 32, ROWS = THREADS / LANES };
    const T *a, *b;
    T* y;
    int64_t rows, width;
    CYG_BODY void operator()(Grid g) const {
        CYG_SHARED(T, acc, THREADS);
        CYG_EACH_THREAD(t) {
            const int64_t row = g.block * ROWS + t / LANES;
            T s = 0;
            if (row < rows)
                for (int64_t i = t % LANES; i < width; i += LANES) s += a[row * width + i] * b[row * width + i];
            acc[t] = s;
        }
        CYG_SYNC();
        for (int d = LANES / 2; d > 0; d /= 2) {
            CYG_EACH_THREAD(t) if (t % LANES < d) acc[t] += acc[t + d];
            CYG_SYNC();
        }
        CYG_EACH_THREAD(t) {
            const int64_t row = g.block * ROWS + t / LANES;
            if (t % LANES == 0 && row < rows) y[row] = acc[t];
        }
    }
};

template <class T> int inner(const char* a, const char* b, char* y, int64_t rows, int64_t width, void* stream) {
    return cyg_launch(RowsInner<T>{(const T*)a, (const T*)b, (T*)y, rows, width}, cyg_parts(rows, RowsInner<T>::ROWS), stream);
}

}

int cyg_weigh(int code, const CygScores* c, void* stream) {
    if (code == C_FLOAT32) return cyg_launch(Weigh<float>{*c}, c->rows, stream);
    return code == C_FLOAT64 ? cyg_launch(Weigh<double>{*c}, c->rows, stream) : (int)CYG_NO_KERNEL;
}

int cyg_weigh_back(int code, const CygScores* c, void* stream) {
    if (code == C_FLOAT32) return cyg_launch(WeighBack<float>{*c}, c->rows, stream);
    return code == C_FLOAT64 ? cyg_launch(WeighBack<double>{*c}, c->rows, stream) : (int)CYG_NO_KERNEL;
}

int cyg_rows_inner(int code, const char* a, const char* b, char* y, int64_t rows, int64_t width, void* stream) {
    if (code == C_FLOAT32) return inner<float>(a, b, y, rows, width, stream);
    return code == C_FLOAT64 ? inner<double>(a, b, y, rows, width, stream) : (int)CYG_NO_KERNEL;
}
