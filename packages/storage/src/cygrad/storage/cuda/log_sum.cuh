// Sums of exponentials beside the largest exponent, which is taken off all of them, so that none overflows.
#ifndef CYGRAD_LOG_SUM_CUH
#define CYGRAD_LOG_SUM_CUH

#include "shim.cuh"

template <class V> struct LogSum {           // the sum of exp(x - top)
    V top, sum;
};
template <class V> CYG_FN LogSum<V> no_log_sum() { return LogSum<V>{(V)-INFINITY, 0}; }

template <class V> CYG_FN void join_log_sums(LogSum<V>& s, const LogSum<V>& o) {
    if (o.top > s.top || o.top != o.top) s.sum = o.sum + (s.sum == 0 ? 0 : s.sum * exp(s.top - o.top)), s.top = o.top;
    else if (o.sum != 0) s.sum += o.top == s.top ? o.sum : o.sum * exp(o.top - s.top);
}

// N elements at once: their maximum first, so that each costs one exponential and no jump. A NaN gets into the sum, wherever it is.
template <int N, class V> CYG_FN void add_log_sum(LogSum<V>& s, const V* x) {
    V top = x[0], sum = 0;
    CYG_UNROLL
    for (int k = 1; k < N; k++) top = x[k] > top ? x[k] : top;
    const V from = top == (V)-INFINITY ? 0 : top;      // of nothing else: exponentials are 0, not NaN
    CYG_UNROLL
    for (int k = 0; k < N; k++) sum += exp(x[k] - from);
    join_log_sums(s, LogSum<V>{top, sum});
}

#endif
