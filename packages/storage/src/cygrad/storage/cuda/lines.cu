// Results of the input's shape that need whole lines along one dimension: softmax with its gradients, layer normalisation with
// that of its input. A line is read once where the registers of its threads hold it, else a second time.
#include "launch.cuh"

namespace {

template <class V> struct Softmax {
    enum { OPERANDS = 1 };
    struct Acc { V top, sum; };
    bool logarithm;
    CYG_IN Acc none() const { return Acc{(V)-INFINITY, 0}; }
    CYG_IN void add(Acc& s, V x, V, V, V) const { join(s, Acc{x, 1}); }
    CYG_IN void join(Acc& s, const Acc& o) const {
        if (o.top > s.top || o.top != o.top) s.sum = o.sum + (s.sum == 0 ? 0 : s.sum * exp(s.top - o.top)), s.top = o.top;
        else if (o.sum != 0) s.sum += o.top == s.top ? o.sum : o.sum * exp(o.top - s.top);
    }
    CYG_IN void finish(Acc& s, int64_t) const { s.sum = logarithm ? log(s.sum) : 1 / s.sum; }
    CYG_IN V out(const Acc& s, V x, V, V, V, V) const {
        return logarithm ? x - s.top - s.sum : exp(x - s.top) * s.sum;
    }
};

// x is the gradient, d the result
template <class V> struct SoftmaxBackward {
    enum { OPERANDS = 2 };
    typedef V Acc;
    bool logarithm;
    CYG_IN Acc none() const { return 0; }
    CYG_IN void add(Acc& s, V g, V y, V, V) const { s += logarithm ? g : g * y; }
    CYG_IN void join(Acc& s, const Acc& o) const { s += o; }
    CYG_IN void finish(Acc&, int64_t) const {}
    CYG_IN V out(const Acc& s, V g, V y, V, V, V) const { return logarithm ? g - exp(y) * s : y * (g - s); }
};

// Sums over x - base, where base is the first element of the line: nothing cancels.
template <class V> struct LayerNorm {
    enum { OPERANDS = 1 };
    struct Acc { double sum, squares; V mean, scale; };
    double eps;
    CYG_IN Acc none() const { return Acc{0, 0, 0, 0}; }
    CYG_IN void add(Acc& s, V x, V, V, V base) const {
        const double v = (double)x - (double)base;
        s.sum += v, s.squares += v * v;
    }
    CYG_IN void join(Acc& s, const Acc& o) const { s.sum += o.sum, s.squares += o.squares; }
    CYG_IN void finish(Acc& s, int64_t n) const {
        const double m = s.sum / (double)n, v = s.squares / (double)n - m * m;
        s.mean = (V)m, s.scale = (V)(1 / sqrt((v > 0 || v != v ? v : 0) + eps));
    }
    CYG_IN V out(const Acc& s, V x, V, V w, V b, V base) const { return (x - base - s.mean) * s.scale * w + b; }
};

// d: the gradient of the result. With h = (x - mean) * scale: scale * (d w - mean(d w) - h * mean(d w h)).
template <class V> struct LayerNormBackward {
    enum { OPERANDS = 2 };
    struct Acc { double sum, squares, plain, tilted; V mean, scale, first, second; };
    double eps;
    CYG_IN Acc none() const { return Acc{0, 0, 0, 0, 0, 0, 0, 0}; }
    CYG_IN void add(Acc& s, V x, V d, V w, V base) const {
        const double v = (double)x - (double)base, g = (double)d * (double)w;
        s.sum += v, s.squares += v * v, s.plain += g, s.tilted += g * v;
    }
    CYG_IN void join(Acc& s, const Acc& o) const {
        s.sum += o.sum, s.squares += o.squares, s.plain += o.plain, s.tilted += o.tilted;
    }
    CYG_IN void finish(Acc& s, int64_t count) const {
        const double n = (double)count, m = s.sum / n, v = s.squares / n - m * m;
        const double scale = 1 / sqrt((v > 0 || v != v ? v : 0) + eps);
        s.mean = (V)m, s.scale = (V)scale;
        s.first = (V)(s.plain / n), s.second = (V)(scale * (s.tilted - m * s.plain) / n);
    }
    CYG_IN V out(const Acc& s, V x, V d, V w, V, V base) const {
        return s.scale * (d * w - s.first - (x - base - s.mean) * s.scale * s.second);
    }
};

// KEPT elements of a line stay in the registers of a thread; 0: the line is read twice.
template <class Op, class T, int KEPT> struct LineKernel {
    enum { THREADS = 256, V = 16 / sizeof(T), HELD = KEPT ? KEPT : 1 };
    typedef ValueOf<T> Value;
    typedef typename Op::Acc Acc;
    Op op;
    char* y;
    const char *x, *d, *w, *b;               // d, w, b: NULL where there is none; w and b run along the line
    int64_t lines, count, st[3];             // byte strides along a line of y, x, d
    int lanes, log_lines;
    bool across, packed;                     // packed: lanes take V elements at a time, which lie together
    WideOffsets<3> at;

    CYG_IN int64_t line_of(Grid g, int t) const {
        return (g.block << log_lines) + (across ? t & ((1 << log_lines) - 1) : t / lanes);
    }
    CYG_IN int lane_of(int t) const { return across ? t >> log_lines : t & (lanes - 1); }
    CYG_IN int64_t element(int k, int lane) const {          // the k-th of a lane
        return packed ? ((int64_t)(k / V) * lanes + lane) * V + k % V : (int64_t)k * lanes + lane;
    }
    CYG_IN Value read(const char* p, int64_t i, int64_t step) const { return Stored<T>::load(*(const T*)(p + i * step)); }
    CYG_IN Value side(const char* p, int64_t i, Value otherwise) const { return p ? Stored<T>::load(((const T*)p)[i]) : otherwise; }

    // Two loops, so that each has steps that the compiler knows: xs and ds are registers then.
    CYG_IN void load(Value* xs, Value* ds, const char* px, const char* pd, int lane) const {
        if (HELD % V == 0 && packed) {
            CYG_UNROLL
            for (int k = 0; k < HELD; k += V) {
                const int64_t i = element(k, lane);
                if (i >= count) continue;
                const Pack<T, V> a = *(const Pack<T, V>*)(px + i * (int64_t)sizeof(T));
                const Pack<T, V> c = Op::OPERANDS > 1 ? *(const Pack<T, V>*)(pd + i * (int64_t)sizeof(T)) : a;
                CYG_UNROLL
                for (int j = 0; j < V && k + j < HELD; j++) {
                    xs[k + j] = Stored<T>::load(a.x[j]);
                    if (Op::OPERANDS > 1) ds[k + j] = Stored<T>::load(c.x[j]);
                }
            }
            return;
        }
        CYG_UNROLL
        for (int k = 0; k < HELD; k++) {
            const int64_t i = (int64_t)k * lanes + lane;
            if (i >= count) continue;
            xs[k] = read(px, i, st[1]);
            if (Op::OPERANDS > 1) ds[k] = read(pd, i, st[2]);
        }
    }
    CYG_IN T result(const Acc& s, const Value* xs, const Value* ds, Value base, int k, int64_t i) const {
        return Stored<T>::store(op.out(s, xs[k], Op::OPERANDS > 1 ? ds[k] : 0, side(w, i, 1), side(b, i, 0), base));
    }
    CYG_IN void store(char* py, const Acc& s, const Value* xs, const Value* ds, Value base, int lane) const {
        if (HELD % V == 0 && packed) {
            CYG_UNROLL
            for (int k = 0; k < HELD; k += V) {
                const int64_t i = element(k, lane);
                Pack<T, V> pack;
                if (i >= count) continue;
                CYG_UNROLL
                for (int j = 0; j < V && k + j < HELD; j++) pack.x[j] = result(s, xs, ds, base, k + j, i + j);
                *(Pack<T, V>*)(py + i * (int64_t)sizeof(T)) = pack;
            }
            return;
        }
        CYG_UNROLL
        for (int k = 0; k < HELD; k++) {
            const int64_t i = (int64_t)k * lanes + lane;
            if (i < count) *(T*)(py + i * st[0]) = result(s, xs, ds, base, k, i);
        }
    }

    CYG_BODY void operator()(Grid g) const {
        CYG_SHARED(Acc, acc, THREADS);
        CYG_LOCAL_ARRAY(Value, xs, HELD);
        CYG_LOCAL_ARRAY(Value, ds, HELD);
        CYG_EACH_THREAD(t) {
            const int64_t line = line_of(g, t);
            Acc s = op.none();
            if (line < lines) {
                int64_t o[3];
                at.at(line, o);
                const char *px = x + o[1], *pd = d + o[2];
                const Value base = read(px, 0, st[1]);
                if (KEPT) {
                    load(CYG_MY(xs, t), CYG_MY(ds, t), px, pd, lane_of(t));
                    CYG_UNROLL
                    for (int k = 0; k < HELD; k++) {
                        const int64_t i = element(k, lane_of(t));
                        if (i < count)
                            op.add(s, CYG_MY(xs, t)[k], Op::OPERANDS > 1 ? CYG_MY(ds, t)[k] : 0, side(w, i, 1), base);
                    }
                } else {
                    CYG_UNROLL_4
                    for (int64_t i = lane_of(t); i < count; i += lanes)
                        op.add(s, read(px, i, st[1]), Op::OPERANDS > 1 ? read(pd, i, st[2]) : 0, side(w, i, 1), base);
                }
            }
            acc[t] = s;
        }
        CYG_SYNC();
        const int next = across ? 1 << log_lines : 1;
        for (int s = lanes / 2; s > 0; s /= 2) {
            CYG_EACH_THREAD(t) if (lane_of(t) < s) op.join(acc[t], acc[t + s * next]);
            CYG_SYNC();
        }
        CYG_EACH_THREAD(t) if (lane_of(t) == 0) op.finish(acc[t], count);
        CYG_SYNC();
        CYG_EACH_THREAD(t) {
            const int64_t line = line_of(g, t);
            if (line < lines) {
                int64_t o[3];
                at.at(line, o);
                const Acc s = acc[t - lane_of(t) * next];
                const char *px = x + o[1], *pd = d + o[2];
                const Value base = read(px, 0, st[1]);
                if (KEPT) store(y + o[0], s, CYG_MY(xs, t), CYG_MY(ds, t), base, lane_of(t));
                else
                    for (int64_t i = lane_of(t); i < count; i += lanes)
                        *(T*)(y + o[0] + i * st[0]) = Stored<T>::store(op.out(s, read(px, i, st[1]),
                            Op::OPERANDS > 1 ? read(pd, i, st[2]) : 0, side(w, i, 1), side(b, i, 0), base));
            }
        }
    }
};

int log2_up(int64_t n) {
    int k = 0;
    while (((int64_t)1 << k) < n) k++;
    return k;
}

template <class Op, class T, int KEPT> int launch_lines(const Op& op, const CygLines& l, int lanes, bool across, bool packed,
                                                        void* stream) {
    typedef LineKernel<Op, T, KEPT> K;
    static_assert(sizeof(K) < 4000, "arguments of a kernel");
    K k;
    k.op = op, k.y = l.y, k.x = l.x, k.d = l.d ? l.d : l.x, k.w = l.w, k.b = l.b;
    k.lines = l.lines, k.count = l.count, k.across = across, k.packed = packed;
    k.lanes = 1 << lanes, k.log_lines = log2_up(K::THREADS) - lanes;
    for (int i = 0; i < 3; i++) k.st[i] = l.st[i];
    k.at.clear();
    for (int d = 0; d < l.ndim; d++) k.at.add(l.size[d], l.step[d]);
    return cyg_launch(k, cyg_parts(l.lines, (int64_t)1 << k.log_lines), stream);
}

template <class Op, class T> int run_lines(const Op& op, const CygLines& l, void* stream) {
    enum { V = 16 / sizeof(T), FEW = V, MANY = 16 > V ? 16 : V };
    const bool across = l.ndim > 0 && l.lines >= 32 && l.step[0][1] == (int64_t)sizeof(T) && l.st[1] != (int64_t)sizeof(T);
    bool packed = !across && l.count % V == 0 && (uintptr_t)l.x % 16 == 0 && (uintptr_t)l.y % 16 == 0;
    for (int i = 0; i < 2 + (l.d != nullptr); i++) {
        packed = packed && l.st[i] == (int64_t)sizeof(T);
        for (int d = 0; d < l.ndim; d++) packed = packed && l.step[d][i] % 16 == 0;
    }
    packed = packed && (!l.d || (uintptr_t)l.d % 16 == 0);
    const int lanes = across ? cyg_min(log2_up(cyg_parts(l.count, 16)), 3) : cyg_min(log2_up(cyg_parts(l.count, V)), 8);
    const int64_t each = cyg_parts(l.count, (int64_t)1 << lanes);
    if (each <= FEW) return launch_lines<Op, T, FEW>(op, l, lanes, across, packed, stream);
    if (each <= MANY) return launch_lines<Op, T, MANY>(op, l, lanes, across, packed, stream);
    return launch_lines<Op, T, 0>(op, l, lanes, across, false, stream);
}

template <class T> int run(int what, const CygLines& l, void* stream) {
    typedef ValueOf<T> V;
    switch (what) {
        case CYG_LINES_SOFTMAX: return run_lines<Softmax<V>, T>(Softmax<V>{false}, l, stream);
        case CYG_LINES_LOG_SOFTMAX: return run_lines<Softmax<V>, T>(Softmax<V>{true}, l, stream);
        case CYG_LINES_SOFTMAX_BACKWARD: return run_lines<SoftmaxBackward<V>, T>(SoftmaxBackward<V>{false}, l, stream);
        case CYG_LINES_LOG_SOFTMAX_BACKWARD: return run_lines<SoftmaxBackward<V>, T>(SoftmaxBackward<V>{true}, l, stream);
        case CYG_LINES_LAYER_NORM: return run_lines<LayerNorm<V>, T>(LayerNorm<V>{l.attr}, l, stream);
        case CYG_LINES_LAYER_NORM_INPUT: return run_lines<LayerNormBackward<V>, T>(LayerNormBackward<V>{l.attr}, l, stream);
    }
    return CYG_NO_KERNEL;
}

}

int cyg_lines(int what, int code, const CygLines* lines, void* stream) {
    if (lines->ndim > CYG_DIMS) return CYG_TOO_MANY_DIMS;
    switch (code) {
#define CASE(code, T) case code: return run<T>(what, *lines, stream);
        CYG_REALS(CASE)
#undef CASE
    }
    return CYG_NO_KERNEL;
}
