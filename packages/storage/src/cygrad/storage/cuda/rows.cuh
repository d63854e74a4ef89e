// How the rows that opgen prints are run: a functor and the stored types of its operands make one entry of the table.
#ifndef CYGRAD_ROWS_CUH
#define CYGRAD_ROWS_CUH

#include "launch.cuh"
#include "device_math.cuh"

typedef int (*RowRun)(const Iter* it, const double* attr, uint32_t held, void* stream);

struct Row {
    int kernel, code;
    RowRun run;
};

template <class F, bool HEAVY, class R, class... X>
static int run_row(const Iter* it, const double* attr, uint32_t held, void* stream) {
    return elementwise<HEAVY, R, X...>(F::of(attr), *it, held, stream);
}

// A formula over halves, one operand of which may be a number with the digits of a float32: attr is its place and its value.
template <class F> struct Numbered {
    F f;
    int which;
    float number;
    static Numbered of(const double* attr) {
        return Numbered{F::of(nullptr), attr ? (int)attr[0] : 0, attr ? (float)attr[1] : 0};
    }
    template <int... K, class... X> CYG_IN float take(Places<K...>, X... x) const {
        return f((which == K + 1 ? number : x)...);
    }
    template <class... X> CYG_IN float operator()(X... x) const {
        return take(typename MakePlaces<sizeof...(X)>::type(), x...);
    }
};

#endif
