// The gradient of the weight of a layer normalisation: sums over rows of d * (x - mean) * scale.
#include "launch.cuh"

namespace {

struct RowStat {
    double mean, scale;
};

template <class T> struct RowStats {
    enum { THREADS = 256, LANES = 32, ROWS = THREADS / LANES };
    const T* x;
    RowStat* y;
    int64_t rows, n;
    double eps;
    CYG_BODY void operator()(Grid g) const {
        CYG_SHARED(RowStat, sums, THREADS);
        CYG_EACH_THREAD(t) {
            const int64_t row = g.block * ROWS + t / LANES;
            RowStat s = {0, 0};
            if (row < rows) {
                const double base = (double)Stored<T>::load(x[row * n]);
                CYG_UNROLL_4
                for (int64_t i = t % LANES; i < n; i += LANES) {
                    const double v = (double)Stored<T>::load(x[row * n + i]) - base;
                    s.mean += v, s.scale += v * v;
                }
            }
            sums[t] = s;
        }
        CYG_SYNC();
        for (int s = LANES / 2; s > 0; s /= 2) {
            CYG_EACH_THREAD(t) if (t % LANES < s) sums[t].mean += sums[t + s].mean, sums[t].scale += sums[t + s].scale;
            CYG_SYNC();
        }
        CYG_EACH_THREAD(t) {
            const int64_t row = g.block * ROWS + t / LANES;
            if (t % LANES == 0 && row < rows) {
                const double m = sums[t].mean / (double)n, v = sums[t].scale / (double)n - m * m;
                y[row] = RowStat{m + (double)Stored<T>::load(x[row * n]), 1 / sqrt((v > 0 || v != v ? v : 0) + eps)};
            }
        }
    }
};

// Sums over a share of the rows, 32 columns in a block.
template <class T> struct WeightShare {
    enum { THREADS = 256, COLUMNS = 32, LANES = THREADS / COLUMNS };
    const T *d, *x;
    const RowStat* stats;
    double* y;                               // shares x n
    int64_t rows, n, share, across;          // rows in a share; blocks across the columns
    CYG_BODY void operator()(Grid g) const {
        CYG_SHARED(double, sums, THREADS);
        const int64_t part = g.block / across, first = part * share, end = cyg_min(rows, first + share);
        CYG_EACH_THREAD(t) {
            const int64_t column = g.block % across * COLUMNS + t % COLUMNS;
            double s = 0;
            if (column < n)
                for (int64_t row = first + t / COLUMNS; row < end; row += LANES)
                    s += (double)Stored<T>::load(d[row * n + column])
                        * ((double)Stored<T>::load(x[row * n + column]) - stats[row].mean) * stats[row].scale;
            sums[t] = s;
        }
        CYG_SYNC();
        for (int s = LANES / 2; s > 0; s /= 2) {
            CYG_EACH_THREAD(t) if (t / COLUMNS < s) sums[t] += sums[t + s * COLUMNS];
            CYG_SYNC();
        }
        CYG_EACH_THREAD(t) {
            const int64_t column = g.block % across * COLUMNS + t % COLUMNS;
            if (t < COLUMNS && column < n) y[part * n + column] = sums[t];
        }
    }
};

template <class T> struct AddShares {
    enum { THREADS = 128 };
    const double* x;
    T* y;
    int64_t n, shares;
    CYG_BODY void operator()(Grid g) const {
        CYG_EACH_THREAD(t) {
            const int64_t i = g.block * THREADS + t;
            if (i < n) {
                double s = 0;
                for (int64_t k = 0; k < shares; k++) s += x[k * n + i];
                y[i] = Stored<T>::store((ValueOf<T>)s);
            }
        }
    }
};

int64_t shares_of(int64_t rows, int64_t n) {
    const int64_t across = cyg_parts(n, 32);
    return cyg_max<int64_t>(1, cyg_min(cyg_parts(1024, across), cyg_parts(rows, 64)));
}

template <class T> int weight(char* y, const char* d, const char* x, int64_t rows, int64_t n, double eps, void* scratch,
                              void* stream) {
    RowStats<T> first;
    first.x = (const T*)x, first.y = (RowStat*)scratch, first.rows = rows, first.n = n, first.eps = eps;
    int error = cyg_launch(first, cyg_parts(rows, RowStats<T>::ROWS), stream);
    WeightShare<T> second;
    second.d = (const T*)d, second.x = (const T*)x, second.stats = first.y, second.y = (double*)(first.y + rows);
    second.rows = rows, second.n = n, second.across = cyg_parts(n, WeightShare<T>::COLUMNS);
    second.share = cyg_parts(rows, shares_of(rows, n));
    const int64_t shares = cyg_parts(rows, second.share);
    if (!error) error = cyg_launch(second, shares * second.across, stream);
    AddShares<T> last;
    last.x = second.y, last.y = (T*)y, last.n = n, last.shares = shares;
    return error ? error : cyg_launch(last, cyg_parts(n, AddShares<T>::THREADS), stream);
}

}

int64_t cyg_norm_weight_scratch(int code, int64_t rows, int64_t n) {
    (void)code;
    return rows * (int64_t)sizeof(RowStat) + shares_of(rows, n) * n * (int64_t)sizeof(double);
}

int cyg_norm_weight(int code, char* y, const char* d, const char* x, int64_t rows, int64_t n, double eps, void* scratch,
                    void* stream) {
    switch (code) {
#define CASE(code, T) case code: return weight<T>(y, d, x, rows, n, eps, scratch, stream);
        CYG_REALS(CASE)
#undef CASE
    }
    return CYG_NO_KERNEL;
}
