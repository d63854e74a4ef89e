// Batch normalisation over (batch, channels, places): sums of chunks of each channel, which a second pass joins in their order,
// and results column by column. How the work is cut depends on sizes alone.
#include "fold.cuh"

namespace {

// Statistics of x, or, `BACK`, sums of g and of g times the normalised x. Statistics are of x less the first element of its
// channel, the same for all chunks, so that what is added up is small where numbers are far from 0.
template <class T, bool BACK> struct Sums {
    struct Acc { double a, b; };
    CygChannels c;
    static CYG_IN double at(const char* p, int64_t i) { return (double)Stored<T>::load(((const T*)p)[i]); }
    static CYG_IN void keep(char* p, int64_t i, double v) { ((T*)p)[i] = Stored<T>::store((ValueOf<T>)v); }
    CYG_IN double base(int64_t channel) const {
        if (BACK) return at(c.stats, channel);
        return c.batch * c.places != 0 ? at(c.x, channel * c.places) : 0;
    }
    CYG_IN Acc none() const { return Acc{0, 0}; }
    CYG_IN void join(Acc& a, const Acc& b) const { a.a += b.a, a.b += b.b; }
    CYG_IN void put(const Acc& s, int64_t count, const FoldOut&, int64_t channel) const {
        if (BACK) {
            keep(c.sums, channel, s.a);
            keep(c.sums, c.channels + channel, s.b * at(c.stats, c.channels + channel));
        } else {
            const double n = count ? (double)count : 1;      // statistics of nothing are 0
            const double m = s.a / n, v = s.b / n - m * m;
            const double spread = v > 0 || v != v ? v : 0;
            keep(c.stats, channel, m + base(channel));
            keep(c.stats, c.channels + channel, 1 / sqrt(spread + c.eps));
            keep(c.stats, 2 * c.channels + channel, spread);
        }
    }
};

struct Cut {
    int64_t rows, width;                     // of a chunk: items of the batch, and places of each, which are below 2^31
    int chunks, across;                      // chunks of a channel; how many of them share a row
    int log_lanes, log_group;                // threads along places; channels side by side in a block; other threads: other rows
};

enum { LOG_THREADS = 8, BLOCKS = 2048, LEAST = 4096 };       // blocks that keep any card busy; elements that are worth one

// For packs of `pack` places, which divides `places`.
Cut cut_of(const CygChannels& c, int pack) {
    Cut k;
    const int64_t items = cyg_max<int64_t>(c.batch, 1), places = cyg_max<int64_t>(c.places, 1);
    const int near = cyg_min(log2_up(places / pack), 5);     // a warp reads neighbours
    k.log_group = cyg_min(5 - near, log2_up(c.channels));
    const int64_t groups = cyg_max<int64_t>(1, cyg_parts(c.channels, (int64_t)1 << k.log_group));
    const int64_t wanted = cyg_max<int64_t>(1, cyg_min(BLOCKS / groups, (items * places << k.log_group) / LEAST));
    const int64_t down = cyg_min(items, wanted), across = cyg_min(wanted / down, cyg_parts(places, 1024));
    k.rows = cyg_parts(items, down);
    k.width = cyg_parts(cyg_parts(places, across), 64) * 64;
    k.across = (int)cyg_parts(places, k.width);
    k.chunks = (int)cyg_parts(items, k.rows) * k.across;
    k.log_lanes = LOG_THREADS - k.log_group - cyg_min(log2_up(k.rows), LOG_THREADS - near - k.log_group);
    return k;
}

// A thread walks down rows, which are items of the batch, and in each along places; it divides nothing, and reads AHEAD packs
// at once.
template <class T, bool BACK, int V> struct SumChunks {
    enum { THREADS = 1 << LOG_THREADS, AHEAD = V > 1 ? 2 : 4 };
    typedef Sums<T, BACK> Op;
    typedef typename Op::Acc Acc;
    Op op;
    Cut cut;
    Acc* partial;                            // chunks x channels, or NULL
    CYG_BODY void operator()(Grid g) const {
        CYG_SHARED(Acc, acc, THREADS);
        const CygChannels& c = op.c;
        const int lanes = 1 << cut.log_lanes, group = 1 << cut.log_group, lines = THREADS / (lanes * group);
        const uint32_t chunk = (uint32_t)g.block % (uint32_t)cut.chunks;
        const int64_t channel0 = (int64_t)((uint32_t)g.block / (uint32_t)cut.chunks) << cut.log_group;
        const int64_t row0 = chunk / (uint32_t)cut.across * cut.rows, place0 = chunk % (uint32_t)cut.across * cut.width;
        const int rows = (int)cyg_min(cut.rows, c.batch - row0), width = (int)cyg_min(cut.width, c.places - place0);
        CYG_EACH_THREAD(t) {
            Acc s = op.none();
            const int64_t channel = channel0 + ((t >> cut.log_lanes) & (group - 1));
            const int start = (t & (lanes - 1)) * V;
            if (channel < c.channels && start < width) {
                const double base = op.base(channel);
                const int64_t down = lines * c.channels * c.places;
                int row = t >> (cut.log_lanes + cut.log_group), place = start;
                int64_t at = ((row0 + row) * c.channels + channel) * c.places + place0;
                while (row < rows) {
                    Pack<T, V> x[AHEAD], d[AHEAD];
                    int some = 0;
                    CYG_UNROLL
                    for (int u = 0; u < AHEAD; u++)
                        if (row < rows) {
                            x[u] = *(const Pack<T, V>*)((const T*)c.x + at + place);
                            if (BACK) d[u] = *(const Pack<T, V>*)((const T*)c.g + at + place);
                            some = u + 1, place += lanes * V;
                            if (place >= width) place = start, row += lines, at += down;
                        }
                    CYG_UNROLL
                    for (int u = 0; u < AHEAD; u++)
                        if (u < some)
                            CYG_UNROLL
                            for (int j = 0; j < V; j++) {
                                const double v = (double)Stored<T>::load(x[u].x[j]) - base;
                                const double e = BACK ? (double)Stored<T>::load(d[u].x[j]) : v;
                                s.a += e, s.b += e * v;
                            }
                }
            }
            acc[t] = s;
        }
        CYG_SYNC();
        CYG_ROLLED
        for (int d = THREADS / 2; d >= lanes * group; d /= 2) {
            CYG_EACH_THREAD(t) if (t < d) op.join(acc[t], acc[t + d]);
            CYG_SYNC();
        }
        CYG_ROLLED
        for (int d = lanes / 2; d > 0; d /= 2) {
            CYG_EACH_THREAD(t) if (t < lanes * group && (t & (lanes - 1)) < d) op.join(acc[t], acc[t + d]);
            CYG_SYNC();
        }
        CYG_EACH_THREAD(t) {
            const int64_t channel = channel0 + (t >> cut.log_lanes);
            if (t < lanes * group && (t & (lanes - 1)) == 0 && channel < c.channels) {
                if (partial) partial[chunk * c.channels + channel] = acc[t];
                else op.put(acc[t], c.batch * c.places, FoldOut(), channel);
            }
        }
    }
};

// A column is a place of a channel: a thread has one, or V neighbours, and takes ROWS items of the batch there.
template <class T, bool BACK, int V> struct Apply {
    enum { THREADS = 256, ROWS = 4 };
    typedef ValueOf<T> R;
    CygChannels c;
    Divisor places;
    int64_t columns;
    uint32_t across;                         // blocks beside each other
    int log_lanes;                           // threads beside each other
    static CYG_IN R at(const char* p, int64_t i) { return Stored<T>::load(((const T*)p)[i]); }
    CYG_BODY void operator()(Grid g) const {
        const uint32_t down = (uint32_t)g.block / across, side = (uint32_t)g.block - down * across;
        const int lanes = 1 << log_lanes, lines = THREADS / lanes;
        CYG_EACH_THREAD(t) {
            const int64_t column = (((int64_t)side << log_lanes) + (t & (lanes - 1))) * V;
            const int64_t row = (int64_t)down * (lines * ROWS) + (t >> log_lanes);
            if (column < columns && row < c.batch) {
                Pack<T, V> x[ROWS], d[ROWS];
                CYG_UNROLL
                for (int u = 0; u < ROWS; u++)
                    if (row + u * lines < c.batch) {
                        const int64_t i = (row + u * lines) * columns + column;
                        x[u] = *(const Pack<T, V>*)((const T*)c.x + i);
                        if (BACK) d[u] = *(const Pack<T, V>*)((const T*)c.g + i);
                    }
                const int64_t k = columns >> 31 ? long_quotient(column, c.places) : (int64_t)places.quotient((uint32_t)column);
                const R mean = at(c.stats, k), scale = at(c.stats, c.channels + k), w = at(c.w, k), n = (R)(c.batch * c.places);
                const R slope = w * scale;
                const R first = BACK ? at(c.sums, k) / n : at(c.b, k), second = BACK ? at(c.sums, c.channels + k) / n : 0;
                CYG_UNROLL
                for (int u = 0; u < ROWS; u++)
                    if (row + u * lines < c.batch) {
                        Pack<T, V> y;
                        CYG_UNROLL
                        for (int j = 0; j < V; j++) {
                            const R h = (Stored<T>::load(x[u].x[j]) - mean) * scale;
                            y.x[j] = Stored<T>::store(
                                BACK ? slope * (Stored<T>::load(d[u].x[j]) - first - h * second) : h * w + first);
                        }
                        *(Pack<T, V>*)((T*)c.y + (row + u * lines) * columns + column) = y;
                    }
            }
        }
    }
};

template <class T> bool packs(const CygChannels& c) {
    return c.places % (16 / (int)sizeof(T)) == 0 && ((uintptr_t)c.x | (uintptr_t)c.g | (uintptr_t)c.y) % 16 == 0;
}

template <class T, bool BACK, int V> int add_up(const CygChannels& c, void* scratch, void* stream) {
    SumChunks<T, BACK, V> k;
    k.op.c = c, k.cut = cut_of(c, V);
    k.partial = k.cut.chunks > 1 ? (typename Sums<T, BACK>::Acc*)scratch : nullptr;
    const int error = cyg_launch(k, cyg_parts(c.channels, (int64_t)1 << k.cut.log_group) * k.cut.chunks, stream);
    if (error || !k.partial) return error;
    JoinKernel<Sums<T, BACK>> join;
    static const int64_t steps[2] = {0, 1};
    join.op = k.op, join.partial = k.partial, join.out = FoldOut();
    join.outputs = c.channels, join.count = c.batch * c.places, join.chunks = k.cut.chunks;
    join.kept.clear(), join.kept.add(c.channels, steps);
    return cyg_launch(join, cyg_parts(c.channels, (int64_t)join.OUTPUTS), stream);
}

template <class T, bool BACK, int V> int apply(const CygChannels& c, void* stream) {
    Apply<T, BACK, V> k;
    k.c = c, k.columns = c.channels * c.places;
    if (k.columns == 0 || c.batch == 0) return 0;
    k.places = Divisor::of(c.places >> 31 ? 1u : (uint32_t)c.places);
    k.log_lanes = cyg_min(log2_up(k.columns / V), 8);
    const int64_t across = cyg_parts(k.columns / V, (int64_t)1 << k.log_lanes);
    k.across = (uint32_t)across;
    return cyg_launch(k, across * cyg_parts(c.batch, (int64_t)(k.THREADS >> k.log_lanes) * k.ROWS), stream);
}

template <class T, bool BACK, int V> int run(int what, const CygChannels& c, void* scratch, void* stream) {
    const int error = what == CYG_CHANNELS_INPUT ? 0 : add_up<T, BACK, V>(c, scratch, stream);
    return error || what == CYG_CHANNELS_SUMS ? error : apply<T, BACK, V>(c, stream);
}

template <class T> int run(int what, const CygChannels& c, void* scratch, void* stream) {
    constexpr int V = 16 / sizeof(T);
    auto* go = what == CYG_CHANNELS_NORM ? (packs<T>(c) ? run<T, false, V> : run<T, false, 1>)
        : packs<T>(c) ? run<T, true, V> : run<T, true, 1>;
    return go(what, c, scratch, stream);
}

}

// Which packs there are is not known yet.
int64_t cyg_channels_scratch(const CygChannels* c) {
    int chunks = cut_of(*c, 1).chunks;
    for (int pack = 2; pack <= 4; pack *= 2)
        if (c->places % pack == 0) chunks = cyg_max(chunks, cut_of(*c, pack).chunks);
    return chunks > 1 ? chunks * c->channels * (int64_t)sizeof(Sums<double, false>::Acc) : 0;
}

int cyg_channels(int what, int code, const CygChannels* c, void* scratch, void* stream) {
    if (code == C_FLOAT32) return run<float>(what, *c, scratch, stream);
    return code == C_FLOAT64 ? run<double>(what, *c, scratch, stream) : (int)CYG_NO_KERNEL;
}
