// Scores of attention to weights and back; the products around them are cuBLAS's. A block takes a row.
#include "launch.cuh"
#include "log_sum.cuh"

namespace {

// Scores of N keys of a row, `step` apart, as the mask leaves them; -inf behind the last key. All loads come before their use.
template <int N, class T> CYG_FN void masked(const CygScores& c, int64_t row, int64_t last, int64_t first, int step, const T* s, T* v) {
    const int64_t at = row * c.keys;
    CYG_UNROLL
    for (int k = 0; k < N; k++) v[k] = first + k * step < c.keys ? s[first + k * step] : (T)-INFINITY;
    if (c.mask && c.mask_is_bool) {
        const uint8_t* mask = (const uint8_t*)c.mask + at;
        CYG_UNROLL
        for (int k = 0; k < N; k++) if (first + k * step < c.keys && !mask[first + k * step]) v[k] = (T)-INFINITY;
    } else if (c.mask) {
        const T* mask = (const T*)c.mask + at;
        CYG_UNROLL
        for (int k = 0; k < N; k++) v[k] += first + k * step < c.keys ? mask[first + k * step] : 0;
    }
    CYG_UNROLL
    for (int k = 0; k < N; k++) if (first + k * step > last) v[k] = (T)-INFINITY;
}
// The last key that a row may see.
CYG_FN int64_t last_of(const CygScores& c, int64_t row) { return c.causal ? row % c.queries : c.keys - 1; }

template <class T> struct Weigh {
    enum { THREADS = 128, HELD = 32 / sizeof(T) };        // a thread reads some elements at once
    typedef LogSum<T> Acc;
    CygScores c;
    CYG_BODY void operator()(Grid g) const {
        CYG_SHARED(Acc, acc, THREADS);
        T* s = (T*)c.scores + g.block * c.keys;
        const int64_t last = last_of(c, g.block);
        CYG_EACH_THREAD(t) {
            Acc a = no_log_sum<T>();
            for (int64_t first = t; first < c.keys; first += THREADS * HELD) {
                T v[HELD];
                masked<HELD>(c, g.block, last, first, THREADS, s, v);
                CYG_UNROLL
                for (int k = 0; k < HELD; k++)
                    if (first + k * THREADS < c.keys) s[first + k * THREADS] = v[k];
                add_log_sum<HELD>(a, v);
            }
            acc[t] = a;
        }
        CYG_SYNC();
        for (int d = THREADS / 2; d > 0; d /= 2) {
            CYG_EACH_THREAD(t) if (t < d) join_log_sums(acc[t], acc[t + d]);
            CYG_SYNC();
        }
        CYG_EACH_THREAD(t) {
            const Acc a = acc[0];
            const T scale = a.sum == 0 ? 0 : 1 / a.sum;
            for (int64_t first = t; first < c.keys; first += THREADS * HELD) {
                T v[HELD];
                CYG_UNROLL
                for (int k = 0; k < HELD; k++) v[k] = first + k * THREADS < c.keys ? s[first + k * THREADS] : 0;
                CYG_UNROLL
                for (int k = 0; k < HELD; k++)
                    if (first + k * THREADS < c.keys) s[first + k * THREADS] = a.sum == 0 ? 0 : exp(v[k] - a.top) * scale;
            }
            if (t == 0) ((T*)c.top)[g.block] = a.sum == 0 ? (T)INFINITY : a.top + log(a.sum);
        }
    }
};

template <class T> struct WeighBack {
    enum { THREADS = 128, HELD = 16 / sizeof(T) };
    CygScores c;
    CYG_BODY void operator()(Grid g) const {
        T *s = (T*)c.scores + g.block * c.keys, *d = (T*)c.g + g.block * c.keys;
        const T top = ((const T*)c.top)[g.block], inner = ((const T*)c.inner)[g.block];
        const int64_t last = last_of(c, g.block);
        CYG_EACH_THREAD(t) {
            for (int64_t first = t; first < c.keys; first += THREADS * HELD) {
                T v[HELD], slope[HELD];
                masked<HELD>(c, g.block, last, first, THREADS, s, v);
                CYG_UNROLL
                for (int k = 0; k < HELD; k++) slope[k] = first + k * THREADS < c.keys ? d[first + k * THREADS] : 0;
                CYG_UNROLL
                for (int k = 0; k < HELD; k++) {
                    if (first + k * THREADS >= c.keys) continue;
                    const T w = v[k] == (T)-INFINITY ? 0 : exp(v[k] - top);
                    s[first + k * THREADS] = w;
                    d[first + k * THREADS] = w * (slope[k] - inner);
                }
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
