// Optimiser steps over all parameters at once: a launch carries a table of jobs, and each block takes a piece of one. The rules
// are those of optim/kernels/step.pxi, element by element.
#include "launch.cuh"

namespace {

// As optim/_job.pxd declares them.
struct Job {
    char* p;
    const char* g;
    char* s[3];
    int64_t n;
    double rate, root, extra;
    int fresh;
};
struct SgdRule {
    double lr, momentum, dampening, weight_decay;
    int nesterov, maximize;
};
struct AdamRule {
    double lr, beta1, beta2, eps, weight_decay;
    int decoupled, amsgrad, maximize;
};
struct Rule {
    int kind;
    double lr, keep, keep_square, eps, weight_decay, momentum, low, high;
    int decoupled, maximize, centered;
};
enum { SGD_UPDATE, ADAM_UPDATE, RULE_UPDATE };
enum { ADADELTA, ADAGRAD, ADAMAX, ASGD, NADAM, RADAM, RMSPROP, RPROP };

template <class V> CYG_FN V toward(V m, V d, double share) {          // from the nearer end: share 1 gives d itself
    const V w = (V)share;
    return share < 0.5 ? m + w * (d - m) : d - (d - m) * ((V)1 - w);
}
template <class V> CYG_FN V square_toward(V v, V d, double keep) { return v * (V)keep + (V)(1 - keep) * d * d; }

template <class V> CYG_FN void update(V* p, V g, V* const* s, int64_t i, const Job& job, const SgdRule& r) {
    V d = r.maximize ? -g : g, *b = s[0];
    if (r.weight_decay != 0) d += (V)r.weight_decay * p[i];
    if (r.momentum != 0) {
        const V m = job.fresh ? d : b[i] * (V)r.momentum + (V)(1 - r.dampening) * d;
        b[i] = m;
        d = r.nesterov ? d + (V)r.momentum * m : m;
    }
    p[i] += (V)-r.lr * d;
}

template <class V> CYG_FN void update(V* p, V g, V* const* s, int64_t i, const Job& job, const AdamRule& r) {
    V d = r.maximize ? -g : g, x = p[i];
    if (r.weight_decay != 0) {
        if (r.decoupled) x *= (V)(1 - r.lr * r.weight_decay);
        else d += (V)r.weight_decay * x;
    }
    const V m = toward(s[0][i], d, 1 - r.beta1);
    V v = square_toward(s[1][i], d, r.beta2);
    s[0][i] = m, s[1][i] = v;
    if (r.amsgrad) {
        const V top = s[2][i];
        v = v > top || v != v ? v : top;
        s[2][i] = v;
    }
    p[i] = x + (V)-job.rate * m / (sqrt(v) / (V)job.root + (V)r.eps);
}

template <class V> CYG_FN V rmsprop_step(V d, V* const* s, int64_t i, const Rule& r) {
    const V v = square_toward(s[0][i], d, r.keep);
    s[0][i] = v;
    if (!r.centered) return d / (sqrt(v) + (V)r.eps);
    V* mean = r.momentum > 0 ? s[2] : s[1];
    const V m = toward(mean[i], d, 1 - r.keep);
    mean[i] = m;
    return d / (sqrt(v - m * m) + (V)r.eps);
}

template <class V> CYG_FN void update(V* p, V g, V* const* s, int64_t i, const Job& job, const Rule& r) {
    V d = r.maximize ? -g : g, x = p[i];
    const V eps = (V)r.eps, rate = (V)job.rate, root = (V)job.root, extra = (V)job.extra;
    if (r.weight_decay != 0) {
        if (r.decoupled) x *= (V)(1 - r.lr * r.weight_decay);
        else d += (V)r.weight_decay * x;
    }
    switch (r.kind) {
        case ADADELTA: {
            const V v = square_toward(s[0][i], d, r.keep), u = s[1][i], delta = sqrt(u + eps) / sqrt(v + eps) * d;
            s[0][i] = v, s[1][i] = u * (V)r.keep + (V)(1 - r.keep) * delta * delta;
            p[i] = x - (V)r.lr * delta;
            return;
        }
        case ADAGRAD: {
            const V total = s[0][i] + d * d;
            s[0][i] = total;
            p[i] = x - rate * (d / (sqrt(total) + eps));
            return;
        }
        case ADAMAX: {
            const V m = toward(s[0][i], d, 1 - r.keep), old = s[1][i] * (V)r.keep_square, fresh = fabs(d) + eps;
            const V top = old > fresh || old != old ? old : fresh;
            s[0][i] = m, s[1][i] = top;
            p[i] = x - rate * (m / top);
            return;
        }
        case ASGD: {
            x = x * root - rate * d;
            p[i] = x;
            s[0][i] = job.extra == 1 ? x : s[0][i] + (x - s[0][i]) * extra;
            return;
        }
        case NADAM: {
            const V m = toward(s[0][i], d, 1 - r.keep), v = square_toward(s[1][i], d, r.keep_square);
            const V divisor = sqrt(v / root) + eps;
            s[0][i] = m, s[1][i] = v;
            x -= rate * (d / divisor);
            p[i] = x - extra * (m / divisor);
            return;
        }
        case RADAM: {
            const V m = toward(s[0][i], d, 1 - r.keep), v = square_toward(s[1][i], d, r.keep_square);
            s[0][i] = m, s[1][i] = v;
            p[i] = job.root == 0 ? x - rate * m : x - rate * m * (root / (sqrt(v) + eps));
            return;
        }
        case RMSPROP: {
            V step = rmsprop_step(d, s, i, r);
            if (r.momentum > 0) step = s[1][i] = s[1][i] * (V)r.momentum + step;
            p[i] = x - (V)r.lr * step;
            return;
        }
        case RPROP: {
            const V both = d * s[0][i];
            V size = s[1][i] * (both > 0 ? (V)r.keep_square : both < 0 ? (V)r.keep : (V)1);
            size = size < (V)r.low ? (V)r.low : size > (V)r.high ? (V)r.high : size;
            d = both < 0 ? (V)0 : d;
            p[i] = x - (d > 0 ? size : d < 0 ? -size : d * size);
            s[0][i] = d, s[1][i] = size;
            return;
        }
    }
}

template <class V, class R> struct Steps {
    enum { THREADS = 256, PIECE = 2048, MOST = 32 };
    Job jobs[MOST];
    uint32_t first[MOST + 1];                // blocks before each job
    int count;
    R rule;
    CYG_BODY void operator()(Grid g) const {
        int j = 0;
        while (j < count - 1 && (uint32_t)g.block >= first[j + 1]) j++;
        const Job& job = jobs[j];
        V* const s[3] = {(V*)job.s[0], (V*)job.s[1], (V*)job.s[2]};
        const int64_t start = (int64_t)((uint32_t)g.block - first[j]) * PIECE, end = cyg_min(job.n, start + (int64_t)PIECE);
        CYG_EACH_THREAD(t) {
            CYG_UNROLL_4
            for (int64_t i = start + t; i < end; i += THREADS) update((V*)job.p, ((const V*)job.g)[i], s, i, job, rule);
        }
    }
};

template <class V, class R> int steps(const Job* jobs, const char* wide, int count, const R& rule, void* stream) {
    typedef Steps<V, R> K;
    static_assert(sizeof(K) < 4000, "arguments of a kernel");
    K k;
    k.rule = rule;
    int error = 0;
    for (int at = 0; at < count && !error;) {
        k.count = 0, k.first[0] = 0;
        int64_t blocks = 0;
        for (; at < count && k.count < K::MOST && blocks < (1 << 29); at++) {
            if ((wide[at] != 0) != (sizeof(V) == 8) || jobs[at].n == 0) continue;
            k.jobs[k.count] = jobs[at];
            blocks += cyg_parts(jobs[at].n, K::PIECE);
            k.first[++k.count] = (uint32_t)blocks;
        }
        if (k.count) error = cyg_launch(k, blocks, stream);
    }
    return error;
}

template <class R> int both(const void* jobs, const char* wide, int count, const void* rule, void* stream) {
    int error = steps<float>((const Job*)jobs, wide, count, *(const R*)rule, stream);
    return error ? error : steps<double>((const Job*)jobs, wide, count, *(const R*)rule, stream);
}

}

int cyg_steps(const void* jobs, const char* wide, int count, int rule_id, const void* rule, void* stream) {
    switch (rule_id) {
        case SGD_UPDATE: return both<SgdRule>(jobs, wide, count, rule, stream);
        case ADAM_UPDATE: return both<AdamRule>(jobs, wide, count, rule, stream);
        default: return both<Rule>(jobs, wide, count, rule, stream);
    }
}
