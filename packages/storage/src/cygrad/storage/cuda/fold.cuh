// Reductions: a number of threads (lanes) folds the elements of one output, and a tree in shared memory joins them. How the
// work is cut depends on sizes alone, and nothing is added by atomics, so results are the same in every run.
//
// An operation is a struct with
//     typedef Acc                       plain data
//     enum { LIGHT }                    whether it is quick enough that memory is what is waited for
//     Acc none() const                  of no elements
//     void add(Acc&, Value, int64_t i)  element i of the output
//     void join(Acc&, const Acc&)       with what lies behind
//     void put(const Acc&, int64_t n, const Out&, int64_t place)
#ifndef CYGRAD_FOLD_CUH
#define CYGRAD_FOLD_CUH

#include "convert.cuh"

#include "launch.cuh"

struct FoldOut {
    char *y, *index;                         // either may be NULL
    int code;                                // dtype of y
    double attr;
};

struct FoldCut {                             // how a reduction is cut
    int lanes, log_outputs;                  // lanes * (1 << log_outputs) threads
    bool across;                             // neighbouring threads have neighbouring outputs, not elements
    int64_t chunk, chunks;                   // elements of one block, and how many blocks share an output
};

// Blocks and threads that keep any card busy, also when the last blocks run alone.
enum { FOLD_THREADS = 256, FOLD_BLOCKS = 2048, FOLD_BUSY = 1 << 17 };

template <class Op, class T> struct FoldKernel {
    enum { THREADS = FOLD_THREADS, V = 16 / sizeof(T) < 8 ? 16 / sizeof(T) : 8 };
    // Worth packs of 16 bytes: the types that are often summed.
    enum { PACKED = Op::LIGHT && (sizeof(T) >= 4 || sizeof(ValueOf<T>) > sizeof(T)) };
    typedef typename Op::Acc Acc;
    Op op;
    const char* x;
    FoldOut out;
    Acc* partial;                            // chunks x outputs, or NULL
    int64_t outputs, count, step;            // step: bytes from one element to the next, where the elements are one dimension
    FoldCut cut;
    bool packed;
    WideOffsets<2> kept;
    WideOffsets<1> reduced;

    CYG_IN int64_t output_of(Grid g, int t) const {
        const int in = cut.across ? t & ((1 << cut.log_outputs) - 1) : t / cut.lanes;
        return ((cut.chunks == 1 ? g.block : g.block / cut.chunks) << cut.log_outputs) + in;
    }
    CYG_IN int64_t chunk_of(Grid g) const { return cut.chunks == 1 ? 0 : g.block % cut.chunks; }
    CYG_IN int lane_of(int t) const { return cut.across ? t >> cut.log_outputs : t & (cut.lanes - 1); }
    CYG_IN void fold(Acc& a, const char* p, int64_t first, int64_t lane, int64_t end) const {
        const int64_t lanes = cut.lanes;
        if (PACKED && packed) {
            const Pack<T, V>* packs = (const Pack<T, V>*)p;
            CYG_UNROLL_2
            for (int64_t k = first / V + lane; k < end / V; k += lanes) {
                const Pack<T, V> pack = packs[k];
                CYG_UNROLL
                for (int j = 0; j < V; j++) op.add(a, Stored<T>::load(pack.x[j]), k * V + j);
            }
            for (int64_t i = end / V * V + lane; i < end; i += lanes) op.add(a, Stored<T>::load(((const T*)p)[i]), i);
        } else if (Op::LIGHT && reduced.ndim <= 1) {
            CYG_UNROLL_4
            for (int64_t i = first + lane; i < end; i += lanes) op.add(a, Stored<T>::load(*(const T*)(p + i * step)), i);
        } else if (reduced.ndim <= 1) {
            for (int64_t i = first + lane; i < end; i += lanes) op.add(a, Stored<T>::load(*(const T*)(p + i * step)), i);
        } else {
            for (int64_t i = first + lane; i < end; i += lanes) {
                int64_t o[1];
                reduced.at(i, o);
                op.add(a, Stored<T>::load(*(const T*)(p + o[0])), i);
            }
        }
    }
    CYG_BODY void operator()(Grid g) const {
        CYG_SHARED(Acc, acc, THREADS);
        const int64_t first = chunk_of(g) * cut.chunk, end = cyg_min(count, first + cut.chunk);
        CYG_EACH_THREAD(t) {
            const int64_t output = output_of(g, t);
            Acc a = op.none();
            if (output < outputs) {
                int64_t o[2];
                kept.find(output, o);
                fold(a, x + o[0], first, lane_of(t), end);
            }
            acc[t] = a;
        }
        CYG_SYNC();
        const int next = cut.across ? 1 << cut.log_outputs : 1;
        for (int s = cut.lanes / 2; s > 0; s /= 2) {
            CYG_EACH_THREAD(t) if (lane_of(t) < s) op.join(acc[t], acc[t + s * next]);
            CYG_SYNC();
        }
        CYG_EACH_THREAD(t) {
            const int64_t output = output_of(g, t);
            if (lane_of(t) == 0 && output < outputs) {
                if (partial) partial[chunk_of(g) * outputs + output] = acc[t];
                else {
                    int64_t o[2];
                    kept.find(output, o);
                    op.put(acc[t], count, out, o[1]);
                }
            }
        }
    }
};

// The second pass: lanes join the chunks of an output, in order.
template <class Op> struct JoinKernel {
    enum { THREADS = FOLD_THREADS, LANES = 128, OUTPUTS = THREADS / LANES };
    typedef typename Op::Acc Acc;
    Op op;
    const Acc* partial;
    FoldOut out;
    int64_t outputs, count, chunks;
    WideOffsets<2> kept;
    CYG_BODY void operator()(Grid g) const {
        CYG_SHARED(Acc, acc, THREADS);
        const int64_t each = cyg_parts(chunks, LANES);
        CYG_EACH_THREAD(t) {
            const int64_t output = g.block * OUTPUTS + t / LANES, first = t % LANES * each;
            Acc a = op.none();
            if (output < outputs)
                for (int64_t c = first; c < cyg_min(chunks, first + each); c++) op.join(a, partial[c * outputs + output]);
            acc[t] = a;
        }
        CYG_SYNC();
        for (int s = 1; s < LANES; s *= 2) {
            CYG_EACH_THREAD(t) if (t % (2 * s) == 0) op.join(acc[t], acc[t + s]);
            CYG_SYNC();
        }
        CYG_EACH_THREAD(t) {
            const int64_t output = g.block * OUTPUTS + t / LANES;
            if (t % LANES == 0 && output < outputs) {
                int64_t o[2];
                kept.find(output, o);
                op.put(acc[t], count, out, o[1]);
            }
        }
    }
};

static inline int log2_up(int64_t n) {
    int k = 0;
    while (((int64_t)1 << k) < n) k++;
    return k;
}

static FoldCut cut_fold(const CygFold& p, int pack) {
    FoldCut c;
    const int64_t near_kept = p.kept_ndim ? (p.kept_x[0] < 0 ? -p.kept_x[0] : p.kept_x[0]) : INT64_MAX;
    const int64_t near_reduced = p.reduced_ndim ? (p.reduced_x[0] < 0 ? -p.reduced_x[0] : p.reduced_x[0]) : INT64_MAX;
    c.across = p.outputs >= 8 && near_kept < near_reduced;
    const int most = log2_up(FOLD_THREADS);
    // Few lanes of some packs each, as long as all outputs together have threads enough.
    const int full = cyg_min(log2_up(cyg_max<int64_t>(1, p.count / (c.across ? 4 : pack))), most);
    int lanes = c.across ? cyg_min(full, p.outputs > 1 << 20 ? 0 : 3)
        : cyg_min(log2_up(cyg_max<int64_t>(1, p.count / (4 * pack))), full);
    while (!c.across && lanes < full && p.outputs << lanes < FOLD_BUSY) lanes++;
    c.lanes = 1 << lanes;
    c.log_outputs = most - lanes;
    const int64_t blocks = cyg_parts(p.outputs, (int64_t)1 << c.log_outputs);
    const int64_t least = (int64_t)c.lanes * pack * 8;       // elements that are worth a block
    c.chunks = blocks >= FOLD_BLOCKS / 2 ? 1 : cyg_max<int64_t>(1, cyg_min(FOLD_BLOCKS / blocks, p.count / least));
    c.chunk = cyg_parts(cyg_parts(p.count, c.chunks), 64) * 64;
    c.chunks = cyg_max<int64_t>(1, cyg_parts(p.count, c.chunk));
    return c;
}

// Bytes of scratch memory that a reduction needs.
template <class Op, class T> static int64_t fold_scratch(const CygFold& p) {
    FoldCut cut = cut_fold(p, FoldKernel<Op, T>::V);
    return cut.chunks > 1 ? cut.chunks * p.outputs * (int64_t)sizeof(typename Op::Acc) : 0;
}

template <class Op, class T> static int run_fold(const Op& op, const CygFold& p, void* scratch, void* stream) {
    typedef FoldKernel<Op, T> K;
    static_assert(sizeof(K) < 4000, "arguments of a kernel");
    if (p.kept_ndim > CYG_DIMS || p.reduced_ndim > CYG_DIMS) return CYG_TOO_MANY_DIMS;
    K k;
    k.op = op, k.x = p.x, k.out = FoldOut{p.y, p.index, p.code, p.attr};
    k.outputs = p.outputs, k.count = p.count;
    k.cut = cut_fold(p, K::V);
    k.step = p.reduced_ndim ? p.reduced_x[0] : 0;
    k.packed = K::PACKED && !k.cut.across && p.reduced_ndim == 1 && k.step == sizeof(T) && (uintptr_t)p.x % 16 == 0 && p.count >= K::V;
    k.kept.clear(), k.reduced.clear();
    for (int d = 0; d < p.kept_ndim; d++) {
        const int64_t steps[2] = {p.kept_x[d], p.kept_y[d]};
        k.kept.add(p.kept_size[d], steps);
        k.packed = k.packed && p.kept_x[d] % 16 == 0;
    }
    for (int d = 0; d < p.reduced_ndim; d++) k.reduced.add(p.reduced_size[d], &p.reduced_x[d]);
    k.partial = k.cut.chunks > 1 ? (typename Op::Acc*)scratch : nullptr;
    int error = cyg_launch(k, cyg_parts(p.outputs, (int64_t)1 << k.cut.log_outputs) * k.cut.chunks, stream);
    if (error || !k.partial) return error;
    JoinKernel<Op> join;
    join.op = op, join.partial = k.partial, join.out = k.out, join.outputs = p.outputs, join.count = p.count;
    join.chunks = k.cut.chunks, join.kept = k.kept;
    return cyg_launch(join, cyg_parts(p.outputs, JoinKernel<Op>::OUTPUTS), stream);
}

#endif
