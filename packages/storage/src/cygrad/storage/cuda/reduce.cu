// Sums, products, extrema, truth, moments, norms.
#include "fold.cuh"
#include "log_sum.cuh"

namespace {

// The type in which sums of T are kept.
template <class V> struct SumOf { typedef int64_t type; };
template <> struct SumOf<float> { typedef float type; };
template <> struct SumOf<double> { typedef double type; };

template <class T> struct Sum {
    enum { LIGHT = 1 };
    typedef typename SumOf<ValueOf<T>>::type Acc;
    bool mean;
    CYG_IN Acc none() const { return 0; }
    CYG_IN void add(Acc& a, ValueOf<T> x, int64_t) const { a += (Acc)x; }
    CYG_IN void join(Acc& a, const Acc& b) const { a += b; }
    CYG_IN void put(const Acc& a, int64_t n, const FoldOut& out, int64_t place) const {
        store_as(out.code, out.y + place * c_size(out.code), mean ? (Acc)((double)a / (double)n) : a);
    }
};

template <class T> struct Product {          // of floats in double: a factor between others may be out of range
    enum { LIGHT = 0 };
    typedef typename SumOf<ValueOf<T>>::type Sum_;
    struct Acc { double real; uint64_t whole; };
    enum { WHOLE = sizeof(Sum_) == 8 && Sum_(1) / 2 == 0 };
    CYG_IN Acc none() const { return Acc{1, 1}; }
    CYG_IN void add(Acc& a, ValueOf<T> x, int64_t) const {
        if (WHOLE) a.whole *= (uint64_t)(int64_t)x;
        else a.real *= (double)x;
    }
    CYG_IN void join(Acc& a, const Acc& b) const { a.real *= b.real, a.whole *= b.whole; }
    CYG_IN void put(const Acc& a, int64_t, const FoldOut& out, int64_t place) const {
        char* y = out.y + place * c_size(out.code);
        if (WHOLE) store_as(out.code, y, (int64_t)a.whole);
        else store_as(out.code, y, a.real);
    }
};

template <class T> struct ComplexProduct {
    enum { LIGHT = 0 };
    typedef c128_t Acc;
    CYG_IN Acc none() const { return Acc{1, 0}; }
    CYG_IN void add(Acc& a, T x, int64_t) const { join(a, Acc{(double)x.re, (double)x.im}); }
    CYG_IN void join(Acc& a, const Acc& b) const { a = Acc{a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
    CYG_IN void put(const Acc& a, int64_t, const FoldOut& out, int64_t place) const {
        store_as(out.code, out.y + place * c_size(out.code), a);
    }
};

template <class V> CYG_FN bool is_nan(V x) { return x != x; }

// The better of two by size, NaN before numbers and earlier before later; GREAT: the largest is looked for.
template <class T, bool GREAT> struct Extreme {
    enum { LIGHT = 1 };
    typedef ValueOf<T> V;
    struct Acc { V value; int64_t place; };
    CYG_IN Acc none() const { return Acc{0, -1}; }
    CYG_IN bool better(const Acc& b, const Acc& a) const {
        if (b.place < 0 || a.place < 0) return a.place < 0;
        if (is_nan(a.value) || is_nan(b.value)) {
            if (is_nan(a.value) && is_nan(b.value)) return b.place < a.place;
            return is_nan(b.value);
        }
        return b.value == a.value ? b.place < a.place : (b.value > a.value) == GREAT;
    }
    CYG_IN void add(Acc& a, V x, int64_t i) const { join(a, Acc{x, i}); }
    CYG_IN void join(Acc& a, const Acc& b) const { if (better(b, a)) a = b; }
    CYG_IN void put(const Acc& a, int64_t, const FoldOut& out, int64_t place) const {
        if (out.index) ((int64_t*)out.index)[place] = a.place;
        if (out.y) store_as(out.code, out.y + place * c_size(out.code), a.value);
    }
};

template <class T, bool GREAT, bool ABSOLUTE> struct Bound {
    enum { LIGHT = 1 };
    typedef ValueOf<T> Acc;
    Acc empty;                               // an element that any other one beats
    CYG_IN Acc none() const { return empty; }
    CYG_IN Acc of(Acc x) const { return ABSOLUTE && x < 0 ? -x : x; }
    CYG_IN void join(Acc& a, const Acc& b) const { if (is_nan(b) || (GREAT ? b > a : b < a)) a = is_nan(a) ? a : b; }
    CYG_IN void add(Acc& a, Acc x, int64_t) const { join(a, of(x)); }
    CYG_IN void put(const Acc& a, int64_t, const FoldOut& out, int64_t place) const {
        store_as(out.code, out.y + place * c_size(out.code), a);
    }
};

template <class V> CYG_FN bool truth(V x) { return x != 0; }
template <class P> CYG_FN bool truth(complex_t<P> x) { return x.re != 0 || x.im != 0; }

template <class T, bool ALL> struct Truth {
    enum { LIGHT = 1 };
    typedef int Acc;
    CYG_IN Acc none() const { return ALL; }
    CYG_IN void add(Acc& a, ValueOf<T> x, int64_t) const { a = ALL ? a & truth(x) : a | truth(x); }
    CYG_IN void join(Acc& a, const Acc& b) const { a = ALL ? a & b : a | b; }
    CYG_IN void put(const Acc& a, int64_t, const FoldOut& out, int64_t place) const {
        store_as(out.code, out.y + place * c_size(out.code), (int64_t)a);
    }
};

// Sums of what the first element leaves, and of its squares; joined as Chan, Golub and LeVeque (1979) do.
template <class T> struct Variance {
    enum { LIGHT = 1 };
    struct Acc { double n, base, sum, squares; };
    bool root;
    CYG_IN Acc none() const { return Acc{0, 0, 0, 0}; }
    CYG_IN void add(Acc& a, ValueOf<T> x, int64_t) const {
        if (a.n == 0) a.base = (double)x;
        const double d = (double)x - a.base;
        a.n += 1, a.sum += d, a.squares += d * d;
    }
    CYG_IN void join(Acc& a, const Acc& b) const {
        if (b.n == 0) return;
        if (a.n == 0) { a = b; return; }
        const double d = b.base - a.base;    // b's elements seen from a's base
        a.squares += b.squares + d * (2 * b.sum + b.n * d);
        a.sum += b.sum + b.n * d;
        a.n += b.n;
    }
    CYG_IN void put(const Acc& a, int64_t n, const FoldOut& out, int64_t place) const {
        const double apart = a.squares - a.sum * (a.sum / a.n);
        const double left = (double)n - out.attr, y = (apart > 0 || apart != apart ? apart : 0) / (left > 0 ? left : 0);
        store_as(out.code, out.y + place * c_size(out.code), root ? sqrt(y) : y);
    }
};

// Three sums of squares, of numbers scaled so that none overflows or vanishes (Blue, 1978).
template <class T> struct Euclid {
    enum { LIGHT = 1 };
    struct Acc { double big, middle, small; };
    CYG_IN Acc none() const { return Acc{0, 0, 0}; }
    CYG_IN void add(Acc& a, ValueOf<T> value, int64_t) const {
        const double x = fabs((double)value);
        if (sizeof(T) < 8 || (x < 1e140 && x > 1e-140) || x != x) a.middle += x * x;
        else if (x >= 1e140) a.big += x * 1e-160 * (x * 1e-160);
        else a.small += x * 1e160 * (x * 1e160);
    }
    CYG_IN void join(Acc& a, const Acc& b) const { a.big += b.big, a.middle += b.middle, a.small += b.small; }
    CYG_IN void put(const Acc& a, int64_t, const FoldOut& out, int64_t place) const {
        double y = a.big != 0 ? sqrt(a.big + a.middle * 1e-160 * 1e-160) * 1e160
            : a.middle != 0 ? sqrt(a.middle + a.small * 1e-160 * 1e-160) : sqrt(a.small) * 1e-160;
        if (a.middle != a.middle) y = a.middle;
        store_as(out.code, out.y + place * c_size(out.code), y);
    }
};

template <class T> struct Powers {
    enum { LIGHT = 0 };
    typedef double Acc;
    double p;
    CYG_IN Acc none() const { return 0; }
    CYG_IN void add(Acc& a, ValueOf<T> value, int64_t) const {
        const double x = fabs((double)value);
        a += p == 0 ? (double)(x != 0) : p == 1 ? x : pow(x, p);
    }
    CYG_IN void join(Acc& a, const Acc& b) const { a += b; }
    CYG_IN void put(const Acc& a, int64_t, const FoldOut& out, int64_t place) const {
        store_as(out.code, out.y + place * c_size(out.code), p == 0 || p == 1 ? a : pow(a, 1 / p));
    }
};

template <class T> struct LogSumExp {
    enum { LIGHT = 0 };
    typedef ValueOf<T> V;
    typedef LogSum<V> Acc;
    CYG_IN Acc none() const { return no_log_sum<V>(); }
    CYG_IN void add(Acc& a, V x, int64_t) const { join(a, Acc{x, 1}); }
    CYG_IN void join(Acc& a, const Acc& b) const { join_log_sums(a, b); }
    CYG_IN void put(const Acc& a, int64_t, const FoldOut& out, int64_t place) const {
        const V y = a.top - a.top == 0 ? a.top + log(a.sum) : a.top;
        store_as(out.code, out.y + place * c_size(out.code), y);
    }
};

template <class V> V largest() { return (V)((((V)1 << (8 * sizeof(V) - 2)) - 1) * 2 + 1); }
template <> float largest() { return INFINITY; }
template <> double largest() { return INFINITY; }
template <> uint8_t largest() { return 255; }
template <> uint64_t largest() { return UINT64_MAX; }
template <class V> V smallest() { return (V)(-largest<V>() - 1); }
template <> float smallest() { return -INFINITY; }
template <> double smallest() { return -INFINITY; }
template <> uint8_t smallest() { return 0; }
template <> uint64_t smallest() { return 0; }

// Calls f(op, T()) for the kernel of a reduction. Rare types have none: callers convert to the type that they compute in.
template <class T, class F> int with_bounds(int what, F f) {
    typedef ValueOf<T> V;
    switch (what) {
        case CYG_REDUCE_SUM: return f(Sum<T>{false}, T());
        case CYG_REDUCE_AMAX: return f(Bound<T, true, false>{smallest<V>()}, T());
        case CYG_REDUCE_AMIN: return f(Bound<T, false, false>{largest<V>()}, T());
    }
    return CYG_NO_KERNEL;
}
template <class T, class F> int with_number(int what, F f) {
    switch (what) {
        case CYG_REDUCE_PROD: return f(Product<T>(), T());
        case CYG_REDUCE_ARGMAX: return f(Extreme<T, true>(), T());
        case CYG_REDUCE_ARGMIN: return f(Extreme<T, false>(), T());
    }
    return with_bounds<T>(what, f);
}
template <class T, class F> int with_real(int what, F f) {
    switch (what) {
        case CYG_REDUCE_MEAN: return f(Sum<T>{true}, T());
        case CYG_REDUCE_VAR: case CYG_REDUCE_STD: return f(Variance<T>{what == CYG_REDUCE_STD}, T());
    }
    return with_bounds<T>(what, f);
}
template <class T, class F> int with_wide(int what, double attr, F f) {
    switch (what) {
        case CYG_REDUCE_NORM2: return f(Euclid<T>(), T());
        case CYG_REDUCE_NORM_POWER: return f(Powers<T>{attr}, T());
        case CYG_REDUCE_ABS_MAX: return f(Bound<T, true, true>{0}, T());
        case CYG_REDUCE_ABS_MIN: return f(Bound<T, false, true>{largest<ValueOf<T>>()}, T());
        case CYG_REDUCE_LOGSUMEXP: return f(LogSumExp<T>(), T());
        case CYG_REDUCE_PROD: case CYG_REDUCE_ARGMAX: case CYG_REDUCE_ARGMIN: return with_number<T>(what, f);
    }
    return with_real<T>(what, f);
}
template <class T, class F> int truth_of(int what, F f) {
    return what == CYG_REDUCE_ALL ? f(Truth<T, true>(), T()) : f(Truth<T, false>(), T());
}
template <class F> int with_truth(int what, int code, F f) {         // integers by their size
    switch (code) {
        case C_FLOAT16: return truth_of<f16_t>(what, f);
        case C_BFLOAT16: return truth_of<b16_t>(what, f);
        case C_FLOAT32: return truth_of<float>(what, f);
        case C_FLOAT64: return truth_of<double>(what, f);
        case C_COMPLEX64: case C_COMPLEX128: return CYG_NO_KERNEL;
    }
    switch (c_size(code)) {
        case 1: return truth_of<uint8_t>(what, f);
        case 2: return truth_of<int16_t>(what, f);
        case 4: return truth_of<int32_t>(what, f);
        default: return truth_of<int64_t>(what, f);
    }
}
template <class F> int with(int what, int code, double attr, F f) {
    if (what == CYG_REDUCE_ANY || what == CYG_REDUCE_ALL) return with_truth(what, code, f);
    switch (code) {
        case C_BOOL: return with_number<bool_t>(what, f);
        case C_UINT8: return with_number<uint8_t>(what, f);
        case C_INT32: return with_number<int32_t>(what, f);
        case C_INT64: return with_number<int64_t>(what, f);
        case C_UINT64: return with_number<uint64_t>(what, f);
        case C_FLOAT16: return with_real<f16_t>(what, f);
        case C_BFLOAT16: return with_real<b16_t>(what, f);
        case C_FLOAT32: return with_wide<float>(what, attr, f);
        case C_FLOAT64: return with_wide<double>(what, attr, f);
        case C_COMPLEX64: return what == CYG_REDUCE_PROD ? f(ComplexProduct<c64_t>(), c64_t()) : (int)CYG_NO_KERNEL;
        case C_COMPLEX128: return what == CYG_REDUCE_PROD ? f(ComplexProduct<c128_t>(), c128_t()) : (int)CYG_NO_KERNEL;
    }
    return CYG_NO_KERNEL;
}

}

int cyg_has_reduction(int what, int code) {
    return with(what, code, 1, [](auto, auto) { return 0; }) == 0;
}

int64_t cyg_reduce_scratch(int what, int code, const CygFold* plan) {
    int64_t bytes = 0;
    with(what, code, plan->attr, [&](auto op, auto tag) {
        bytes = fold_scratch<decltype(op), decltype(tag)>(*plan);
        return 0;
    });
    return bytes;
}

int cyg_reduce(int what, int code, const CygFold* plan, void* scratch, void* stream) {
    return with(what, code, plan->attr, [&](auto op, auto tag) {
        return run_fold<decltype(op), decltype(tag)>(op, *plan, scratch, stream);
    });
}
