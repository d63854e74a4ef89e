// Results that carry a state along a line: running sums, products and extrema, and linear recurrences. A block scans a chunk of
// a line, in tiles; where lines are few they are cut into chunks, whose totals are found first.
// States are double or int64, joined in an order that depends on sizes alone.
#include "launch.cuh"

namespace {

template <class V> struct WideOf { typedef double type; };
template <> struct WideOf<uint8_t> { typedef int64_t type; };
template <> struct WideOf<int32_t> { typedef int64_t type; };
template <> struct WideOf<int64_t> { typedef int64_t type; };
template <> struct WideOf<uint64_t> { typedef int64_t type; };
template <class T> struct RunningOf { typedef T type; };              // the type of the result
template <> struct RunningOf<bool_t> { typedef int64_t type; };
#define CYG_RUNNING(code, T) template <> struct RunningOf<T> { typedef int64_t type; };
CYG_INTEGERS(CYG_RUNNING)

template <class T, bool PRODUCT> struct Running {
    typedef typename WideOf<ValueOf<T>>::type State;
    typedef typename RunningOf<T>::type R;
    CYG_IN State none() const { return PRODUCT ? 1 : 0; }
    CYG_IN State load(const char* x, const char*, int64_t) const { return (State)Stored<T>::load(*(const T*)x); }
    CYG_IN State join(const State& a, const State& b) const { return PRODUCT ? a * b : a + b; }
    CYG_IN void store(char* y, char*, const State& s) const { *(R*)y = Stored<R>::store((ValueOf<R>)s); }
};

template <class T, bool GREAT> struct RunningBound {                  // the last of equals; NaN stays
    typedef ValueOf<T> V;
    struct State { V value; int64_t place; };
    CYG_IN State none() const { return State{0, -1}; }
    CYG_IN State load(const char* x, const char*, int64_t i) const { return State{Stored<T>::load(*(const T*)x), i}; }
    CYG_IN State join(const State& a, const State& b) const {
        if (b.place < 0) return a;
        if (a.place < 0 || b.value != b.value) return b;
        if (a.value != a.value) return a;
        return (GREAT ? b.value >= a.value : b.value <= a.value) ? b : a;
    }
    CYG_IN void store(char* y, char* index, const State& s) const {
        *(T*)y = Stored<T>::store(s.value);
        *(int64_t*)index = s.place;
    }
};

template <class T> struct RunningLogSum {
    struct State { double top, sum; };
    CYG_IN State none() const { return State{-INFINITY, 0}; }
    CYG_IN State load(const char* x, const char*, int64_t) const { return State{(double)Stored<T>::load(*(const T*)x), 1}; }
    CYG_IN State join(const State& a, const State& b) const {
        if (b.sum == 0) return a;
        if (a.sum == 0) return b;
        if (b.top > a.top || b.top != b.top) return State{b.top, b.sum + a.sum * exp(a.top - b.top)};
        return State{a.top, a.sum + (b.top == a.top ? b.sum : b.sum * exp(b.top - a.top))};
    }
    CYG_IN void store(char* y, char*, const State& s) const {
        const double v = s.top - s.top == 0 ? s.top + log(s.sum) : s.top;
        *(T*)y = Stored<T>::store((ValueOf<T>)v);
    }
};

// y[i] = x[i] + a[i] * y[i - 1]: a state is the map of what was before to what is now
template <class T> struct Recurrence {
    struct State { double factor, value; };
    CYG_IN State none() const { return State{1, 0}; }
    CYG_IN State load(const char* x, const char* a, int64_t i) const {
        return State{i == 0 ? 0 : (double)Stored<T>::load(*(const T*)a), (double)Stored<T>::load(*(const T*)x)};
    }
    CYG_IN State join(const State& a, const State& b) const {
        return State{a.factor * b.factor, b.factor == 0 ? b.value : b.value + b.factor * a.value};
    }
    CYG_IN void store(char* y, char*, const State& s) const { *(T*)y = Stored<T>::store((ValueOf<T>)s.value); }
};

template <class Op> struct ScanTiles {
    enum { THREADS = 256, EACH = 4, TILE = THREADS * EACH };
    typedef typename Op::State State;
    Op op;
    char *y, *third;
    const char* x;
    int64_t count, st[3], chunk, chunks;
    State* totals;                           // lines x chunks: written by the first pass, read by the last
    bool measure;                            // the first pass
    WideOffsets<3> at;
    CYG_BODY void operator()(Grid g) const {
        CYG_SHARED(State, part, THREADS);
        CYG_SHARED(State, before, 1);
        CYG_LOCAL_ARRAY(State, own, EACH);
        CYG_LOCAL(State, next);
        const int64_t line = g.block / chunks, c = g.block % chunks;
        const int64_t first = c * chunk, end = cyg_min(count, first + chunk);
        int64_t o[3];
        at.at(line, o);
        CYG_EACH_THREAD(t) if (t == 0) before[0] = c && !measure ? totals[line * chunks + c - 1] : op.none();
        for (int64_t base = first; base < end; base += TILE) {
            CYG_EACH_THREAD(t) {
                State s = op.none();
                CYG_UNROLL
                for (int e = 0; e < EACH; e++) {
                    const int64_t i = base + t * EACH + e;
                    if (i < end) s = op.join(s, op.load(x + o[1] + i * st[1], third + o[2] + i * st[2], i));
                    CYG_MY(own, t)[e] = s;
                }
                part[t] = s;
            }
            CYG_SYNC();
            CYG_ROLLED
            for (int d = 1; d < THREADS; d *= 2) {
                CYG_EACH_THREAD(t) CYG_MY(next, t) = t >= d ? op.join(part[t - d], part[t]) : part[t];
                CYG_SYNC();
                CYG_EACH_THREAD(t) part[t] = CYG_MY(next, t);
                CYG_SYNC();
            }
            if (!measure) {
                CYG_EACH_THREAD(t) {
                    const State s = t ? op.join(before[0], part[t - 1]) : before[0];
                    CYG_UNROLL
                    for (int e = 0; e < EACH; e++) {
                        const int64_t i = base + t * EACH + e;
                        if (i < end)
                            op.store(y + o[0] + i * st[0], third + o[2] + i * st[2], op.join(s, CYG_MY(own, t)[e]));
                    }
                }
                CYG_SYNC();
            }
            CYG_EACH_THREAD(t) if (t == 0) before[0] = op.join(before[0], part[THREADS - 1]);
            CYG_SYNC();
        }
        CYG_EACH_THREAD(t) if (t == 0 && measure) totals[line * chunks + c] = before[0];
    }
};

// One thread a line, for short lines.
template <class Op> struct ScanLines {
    enum { THREADS = 128 };
    typedef typename Op::State State;
    Op op;
    char *y, *third;
    const char* x;
    int64_t lines, count, st[3];
    WideOffsets<3> at;
    CYG_BODY void operator()(Grid g) const {
        CYG_EACH_THREAD(t) {
            const int64_t line = g.block * THREADS + t;
            if (line < lines) {
                int64_t o[3];
                at.at(line, o);
                State s = op.none();
                for (int64_t i = 0; i < count; i++) {
                    s = op.join(s, op.load(x + o[1] + i * st[1], third + o[2] + i * st[2], i));
                    op.store(y + o[0] + i * st[0], third + o[2] + i * st[2], s);
                }
            }
        }
    }
};

enum { ENOUGH = 512 };                       // blocks that keep a card busy, and so the most chunks of a line

// The totals of a line's chunks, by a block.
template <class Op> struct ScanTotals {
    enum { THREADS = 128, EACH = ENOUGH / THREADS };
    typedef typename Op::State State;
    Op op;
    State* totals;
    int chunks;
    CYG_BODY void operator()(Grid g) const {
        CYG_SHARED(State, part, THREADS);
        CYG_LOCAL_ARRAY(State, own, EACH);
        CYG_LOCAL(State, next);
        State* line = totals + g.block * chunks;
        CYG_EACH_THREAD(t) {
            CYG_UNROLL
            for (int e = 0; e < EACH; e++) CYG_MY(own, t)[e] = t * EACH + e < chunks ? line[t * EACH + e] : op.none();
            CYG_UNROLL
            for (int e = 1; e < EACH; e++) CYG_MY(own, t)[e] = op.join(CYG_MY(own, t)[e - 1], CYG_MY(own, t)[e]);
            part[t] = CYG_MY(own, t)[EACH - 1];
        }
        CYG_SYNC();
        CYG_ROLLED
        for (int d = 1; d < THREADS; d *= 2) {
            CYG_EACH_THREAD(t) CYG_MY(next, t) = t >= d ? op.join(part[t - d], part[t]) : part[t];
            CYG_SYNC();
            CYG_EACH_THREAD(t) part[t] = CYG_MY(next, t);
            CYG_SYNC();
        }
        CYG_EACH_THREAD(t) {
            CYG_UNROLL
            for (int e = 0; e < EACH; e++)
                if (t * EACH + e < chunks) line[t * EACH + e] = t ? op.join(part[t - 1], CYG_MY(own, t)[e]) : CYG_MY(own, t)[e];
        }
    }
};

int64_t chunks_of(const CygLines& l) {
    if (l.lines >= ENOUGH || l.count < 8192) return 1;
    return cyg_max<int64_t>(1, cyg_min<int64_t>(ENOUGH / l.lines, l.count / 4096));
}

bool by_lines(const CygLines& l) {
    return l.lines >= 1024 && (l.count <= 64 || (l.ndim && l.step[0][1] < l.st[1] && l.step[0][1] > 0 && l.size[0] >= 32));
}

template <class Op> int run(const Op& op, const CygLines& l, void* scratch, void* stream) {
    auto set = [&](auto& k) {
        k.op = op, k.y = l.y, k.x = l.x, k.third = (char*)l.d, k.count = l.count;
        for (int i = 0; i < 3; i++) k.st[i] = l.st[i];
        k.at.clear();
        for (int d = 0; d < l.ndim; d++) k.at.add(l.size[d], l.step[d]);
    };
    if (by_lines(l)) {
        ScanLines<Op> k;
        set(k);
        k.lines = l.lines;
        return cyg_launch(k, cyg_parts(l.lines, ScanLines<Op>::THREADS), stream);
    }
    ScanTiles<Op> k;
    set(k);
    const int64_t parts = chunks_of(l);
    k.chunk = cyg_parts(cyg_parts(l.count, parts), ScanTiles<Op>::TILE) * ScanTiles<Op>::TILE;
    k.chunks = cyg_parts(l.count, k.chunk);
    k.totals = (typename Op::State*)scratch, k.measure = true;
    int error = 0;
    if (k.chunks > 1) {
        error = cyg_launch(k, l.lines * k.chunks, stream);
        ScanTotals<Op> join = {op, k.totals, (int)k.chunks};
        if (!error) error = cyg_launch(join, l.lines, stream);
    }
    k.measure = false;
    return error ? error : cyg_launch(k, l.lines * k.chunks, stream);
}

template <class T> int run_integer(int what, const CygLines& l, void* scratch, void* stream) {
    switch (what) {
        case CYG_SCAN_SUM: return run(Running<T, false>(), l, scratch, stream);
        case CYG_SCAN_PRODUCT: return run(Running<T, true>(), l, scratch, stream);
        case CYG_SCAN_MAX: return run(RunningBound<T, true>(), l, scratch, stream);
        case CYG_SCAN_MIN: return run(RunningBound<T, false>(), l, scratch, stream);
    }
    return CYG_NO_KERNEL;
}
template <class T> int run_real(int what, const CygLines& l, void* scratch, void* stream) {
    if (what == CYG_SCAN_LOGSUM) return run(RunningLogSum<T>(), l, scratch, stream);
    if (what == CYG_SCAN_RECURRENCE) return run(Recurrence<T>(), l, scratch, stream);
    return run_integer<T>(what, l, scratch, stream);
}

}

int64_t cyg_scan_scratch(const CygLines* lines) {
    const int64_t chunks = by_lines(*lines) ? 1 : chunks_of(*lines);
    return chunks > 1 ? lines->lines * chunks * 16 : 0;
}

int cyg_scan(int what, int code, const CygLines* lines, void* scratch, void* stream) {
    if (lines->ndim > CYG_DIMS) return CYG_TOO_MANY_DIMS;
    switch (code) {
        case C_BOOL: return run_integer<bool_t>(what, *lines, scratch, stream);
#define CASE(code, T) case code: return run_integer<T>(what, *lines, scratch, stream);
        CYG_INTEGERS(CASE)
#undef CASE
#define CASE(code, T) case code: return run_real<T>(what, *lines, scratch, stream);
        CYG_REALS(CASE)
#undef CASE
    }
    return CYG_NO_KERNEL;
}
