// Results of the input's shape that need whole lines along one dimension: softmax with its gradients, layer normalisation with
// that of its input. A line is read once where the registers of its threads hold it, else a second time.
//
// An operation is a struct with
//     enum { OPERANDS, PEAK, SIDES }    inputs; whether Acc is a LogSum, which takes elements itself; how many of w and b it reads
//     V filler(V base) const            an element that `add` does not notice: lanes have some behind the end of a line
//     void add(Acc&, x, d, w, base), join(Acc&, const Acc&), finish(Acc&, count), V out(const Acc&, x, d, w, b, base)
#include "launch.cuh"
#include "log_sum.cuh"

namespace {

enum { LINE_BUSY = 1 << 17 };                // threads that keep any card busy

template <class V> struct Softmax {
    enum { OPERANDS = 1, PEAK = 1, SIDES = 0 };
    typedef LogSum<V> Acc;
    bool logarithm;
    CYG_IN Acc none() const { return no_log_sum<V>(); }
    CYG_IN V filler(V) const { return (V)-INFINITY; }
    CYG_IN void join(Acc& s, const Acc& o) const { join_log_sums(s, o); }
    CYG_IN void finish(Acc& s, int64_t) const { s.sum = logarithm ? log(s.sum) : 1 / s.sum; }
    CYG_IN V out(const Acc& s, V x, V, V, V, V) const {
        return logarithm ? x - s.top - s.sum : exp(x - s.top) * s.sum;
    }
};

// x is the gradient, d the result
template <class V> struct SoftmaxBackward {
    enum { OPERANDS = 2, PEAK = 0, SIDES = 0 };
    typedef V Acc;
    bool logarithm;
    CYG_IN Acc none() const { return 0; }
    CYG_IN V filler(V) const { return 0; }
    CYG_IN void add(Acc& s, V g, V y, V, V) const { s += logarithm ? g : g * y; }
    CYG_IN void join(Acc& s, const Acc& o) const { s += o; }
    CYG_IN void finish(Acc&, int64_t) const {}
    CYG_IN V out(const Acc& s, V g, V y, V, V, V) const { return logarithm ? g - exp(y) * s : y * (g - s); }
};

// Sums over x - base, where base is the first element of the line: nothing cancels.
template <class V> struct LayerNorm {
    enum { OPERANDS = 1, PEAK = 0, SIDES = 2 };
    struct Acc { double sum, squares; V mean, scale; };
    double eps;
    CYG_IN Acc none() const { return Acc{0, 0, 0, 0}; }
    CYG_IN V filler(V base) const { return base; }
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
    enum { OPERANDS = 2, PEAK = 0, SIDES = 1 };
    struct Acc { double sum, squares, plain, tilted; V mean, scale, first, second; };
    double eps;
    CYG_IN Acc none() const { return Acc{0, 0, 0, 0, 0, 0, 0, 0}; }
    CYG_IN V filler(V base) const { return base; }
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

// A lane takes a line in groups of HELD elements; with ONCE there is one group, which stays in registers until the result is known.
template <class Op, class T, int HELD, bool ONCE> struct LineKernel {
    enum { THREADS = 256, V = 16 / sizeof(T), PACKS = HELD / V };
    typedef ValueOf<T> Value;
    typedef typename Op::Acc Acc;
    typedef Pack<T, V> Vector;
    Op op;
    char* y;
    const char *x, *d, *w, *b;               // d, w, b: NULL where there is none; w and b run along the line
    int64_t lines, count, st[3];             // byte strides along a line of y, x, d
    int lanes, log_lines;
    bool across, packed, sided;              // packed: lanes take V elements at a time, which lie together; sided: those of w, b too
    WideOffsets<3> at;

    CYG_IN int64_t line_of(Grid g, int t) const {
        return (g.block << log_lines) + (across ? t & ((1 << log_lines) - 1) : t / lanes);
    }
    CYG_IN int lane_of(int t) const { return across ? t >> log_lines : t & (lanes - 1); }
    CYG_IN int64_t group() const { return (int64_t)HELD * lanes; }
    CYG_IN int64_t pack_at(int k, int lane) const { return ((int64_t)k * lanes + lane) * V; }
    CYG_IN Value read(const char* p, int64_t i, int64_t step) const { return Stored<T>::load(*(const T*)(p + i * step)); }
    CYG_IN void unpack(const char* p, int64_t i, Value* to) const {
        const Vector pack = *(const Vector*)(p + i * (int64_t)sizeof(T));
        CYG_UNROLL
        for (int j = 0; j < V; j++) to[j] = Stored<T>::load(pack.x[j]);
    }
    // V neighbours of w or b
    CYG_IN void side(const char* p, int64_t i, Value otherwise, Value* to) const {
        if (p && sided) return unpack(p, i, to);
        CYG_UNROLL
        for (int j = 0; j < V; j++) to[j] = p ? read(p, i + j, sizeof(T)) : otherwise;
    }

    // Two loops, so that each has steps that the compiler knows: xs and ds are registers then, and all loads come before their use.
    CYG_IN void load(Value* xs, Value* ds, const char* px, const char* pd, int64_t first, int lane, Value base) const {
        if (packed) {
            CYG_UNROLL
            for (int k = 0; k < PACKS; k++) {
                const int64_t i = first + pack_at(k, lane);
                CYG_UNROLL
                for (int j = 0; j < V; j++) xs[k * V + j] = op.filler(base), ds[k * V + j] = 0;
                if (i < count) unpack(px, i, xs + k * V);
                if (Op::OPERANDS > 1 && i < count) unpack(pd, i, ds + k * V);
            }
            return;
        }
        CYG_UNROLL
        for (int k = 0; k < HELD; k++) {
            const int64_t i = first + (int64_t)k * lanes + lane;
            xs[k] = i < count ? read(px, i, st[1]) : op.filler(base);
            ds[k] = Op::OPERANDS > 1 && i < count ? read(pd, i, st[2]) : 0;
        }
    }
    CYG_IN void add(Acc& s, const Value* xs, const Value* ds, int64_t first, int lane, Value base) const {
        if constexpr (Op::PEAK) {
            add_log_sum<HELD>(s, xs);
        } else if (packed) {
            CYG_UNROLL
            for (int k = 0; k < PACKS; k++) {
                const int64_t i = first + pack_at(k, lane);
                Value ws[V] = {};
                if (Op::SIDES == 1 && i < count) side(w, i, 1, ws);
                CYG_UNROLL
                for (int j = 0; j < V; j++) op.add(s, xs[k * V + j], ds[k * V + j], ws[j], base);
            }
        } else {
            CYG_UNROLL
            for (int k = 0; k < HELD; k++) {
                const int64_t i = first + (int64_t)k * lanes + lane;
                op.add(s, xs[k], ds[k], Op::SIDES == 1 && i < count ? w ? read(w, i, sizeof(T)) : 1 : 0, base);
            }
        }
    }
    CYG_IN void store(char* py, const Acc& s, const Value* xs, const Value* ds, int64_t first, int lane, Value base) const {
        if (packed) {
            CYG_UNROLL
            for (int k = 0; k < PACKS; k++) {
                const int64_t i = first + pack_at(k, lane);
                if (i >= count) continue;
                Value ws[V] = {}, bs[V] = {};
                Vector pack;
                if (Op::SIDES > 0) side(w, i, 1, ws);
                if (Op::SIDES > 1) side(b, i, 0, bs);
                CYG_UNROLL
                for (int j = 0; j < V; j++)
                    pack.x[j] = Stored<T>::store(op.out(s, xs[k * V + j], ds[k * V + j], ws[j], bs[j], base));
                *(Vector*)(py + i * (int64_t)sizeof(T)) = pack;
            }
            return;
        }
        CYG_UNROLL
        for (int k = 0; k < HELD; k++) {
            const int64_t i = first + (int64_t)k * lanes + lane;
            if (i >= count) continue;
            const Value wi = Op::SIDES > 0 && w ? read(w, i, sizeof(T)) : 1, bi = Op::SIDES > 1 && b ? read(b, i, sizeof(T)) : 0;
            *(T*)(py + i * st[0]) = Stored<T>::store(op.out(s, xs[k], ds[k], wi, bi, base));
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
                for (int64_t first = 0; first < (ONCE ? 1 : count); first += group()) {
                    load(CYG_MY(xs, t), CYG_MY(ds, t), px, pd, first, lane_of(t), base);
                    add(s, CYG_MY(xs, t), CYG_MY(ds, t), first, lane_of(t), base);
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
                for (int64_t first = 0; first < (ONCE ? 1 : count); first += group()) {
                    if (!ONCE) load(CYG_MY(xs, t), CYG_MY(ds, t), px, pd, first, lane_of(t), base);
                    store(y + o[0], s, CYG_MY(xs, t), CYG_MY(ds, t), first, lane_of(t), base);
                }
            }
        }
    }
};

int log2_up(int64_t n) {
    int k = 0;
    while (((int64_t)1 << k) < n) k++;
    return k;
}

template <class Op, class T, int HELD, bool ONCE> int launch_lines(const Op& op, const CygLines& l, int lanes, bool across,
                                                                   bool packed, void* stream) {
    typedef LineKernel<Op, T, HELD, ONCE> K;
    static_assert(sizeof(K) < 4000, "arguments of a kernel");
    K k;
    k.op = op, k.y = l.y, k.x = l.x, k.d = l.d ? l.d : l.x, k.w = l.w, k.b = l.b;
    k.lines = l.lines, k.count = l.count, k.across = across, k.packed = packed;
    k.sided = (uintptr_t)l.w % 16 == 0 && (uintptr_t)l.b % 16 == 0;
    k.lanes = 1 << lanes, k.log_lines = log2_up(K::THREADS) - lanes;
    for (int i = 0; i < 3; i++) k.st[i] = l.st[i];
    k.at.clear();
    for (int d = 0; d < l.ndim; d++) k.at.add(l.size[d], l.step[d]);
    return cyg_launch(k, cyg_parts(l.lines, (int64_t)1 << k.log_lines), stream);
}

// The first element of a line is read again for its result, so a result over its own input has to be known before it is written.
template <class Op, class T> int run_lines(const Op& op, const CygLines& l, void* stream) {
    enum { V = 16 / sizeof(T), WIDE = sizeof(ValueOf<T>) > 4, HELD = WIDE ? 8 : 16 };     // what registers hold
    const bool across = l.ndim > 0 && l.lines >= 32 && l.step[0][1] == (int64_t)sizeof(T) && l.st[1] != (int64_t)sizeof(T);
    bool packed = !across && l.count % V == 0 && (uintptr_t)l.x % 16 == 0 && (uintptr_t)l.y % 16 == 0;
    for (int i = 0; i < 2 + (l.d != nullptr); i++) {
        packed = packed && l.st[i] == (int64_t)sizeof(T);
        for (int d = 0; d < l.ndim; d++) packed = packed && l.step[d][i] % 16 == 0;
    }
    packed = packed && (!l.d || (uintptr_t)l.d % 16 == 0);
    // Few lanes of many elements for a line, as long as all lines together have threads enough.
    const int most = cyg_min(log2_up(cyg_parts(l.count, V)), across ? 3 : 8);
    int lanes = cyg_min(log2_up(cyg_parts(l.count, HELD)), most);
    while (lanes < most && !across && l.lines << lanes < LINE_BUSY) lanes++;
    const int64_t each = packed ? cyg_parts(l.count / V, (int64_t)1 << lanes) * V : cyg_parts(l.count, (int64_t)1 << lanes);
    if (each <= HELD) return launch_lines<Op, T, HELD, true>(op, l, lanes, across, packed, stream);
    if constexpr (!WIDE)
        if (each <= 2 * HELD) return launch_lines<Op, T, 2 * HELD, true>(op, l, lanes, across, packed, stream);
    return launch_lines<Op, T, WIDE ? 4 : HELD, false>(op, l, lanes, across, packed, stream);
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
