// Conversion of one element between any two dtypes, as kernels/copy.pxi has it: what does not fit an integer gives what x86's
// conversion instruction gives, and small integers keep the low bits of that.
#ifndef CYGRAD_DEVICE_CONVERT_CUH
#define CYGRAD_DEVICE_CONVERT_CUH

#include "types.cuh"

template <class S> CYG_FN int64_t to_int64(S x) { return (int64_t)x; }
template <> CYG_IN int64_t to_int64(double x) {
    return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? (int64_t)x : INT64_MIN;
}
template <> CYG_IN int64_t to_int64(float x) { return to_int64((double)x); }

template <class S> CYG_FN uint64_t to_uint64(S x) { return (uint64_t)to_int64(x); }
template <> CYG_IN uint64_t to_uint64(double x) {
    if (x >= 9223372036854775808.0 && x < 18446744073709551616.0)
        return (uint64_t)to_int64(x - 9223372036854775808.0) + ((uint64_t)1 << 63);
    return (uint64_t)to_int64(x);
}
template <> CYG_IN uint64_t to_uint64(float x) { return to_uint64((double)x); }

template <class S> CYG_FN int32_t to_int32(S x) { return (int32_t)x; }
template <> CYG_IN int32_t to_int32(double x) {
    return x > -2147483649.0 && x < 2147483648.0 ? (int32_t)x : INT32_MIN;
}
template <> CYG_IN int32_t to_int32(float x) { return to_int32((double)x); }

// The value of stored type T from a value x that some stored type computes in.
template <class T> struct Convert {
    template <class S> static CYG_IN T from(S x) { return T(x); }
    template <class P> static CYG_IN T from(complex_t<P> x) { return from(x.re); }
};
#define CYG_CONVERT(T, FROM) \
template <> struct Convert<T> { \
    template <class S> static CYG_IN T from(S x) { return FROM; } \
    template <class P> static CYG_IN T from(complex_t<P> x) { return from(x.re); } \
};
CYG_CONVERT(uint8_t, (uint8_t)to_int64(x))
CYG_CONVERT(int8_t, (int8_t)to_int32(x))
CYG_CONVERT(int16_t, (int16_t)to_int32(x))
CYG_CONVERT(uint16_t, (uint16_t)to_int32(x))
CYG_CONVERT(int32_t, to_int32(x))
CYG_CONVERT(uint32_t, (uint32_t)to_int64(x))
CYG_CONVERT(int64_t, to_int64(x))
CYG_CONVERT(uint64_t, to_uint64(x))
CYG_CONVERT(f16_t, narrow_f16((float)x))
CYG_CONVERT(b16_t, narrow_b16((float)x))
template <> struct Convert<bool_t> {
    template <class S> static CYG_IN bool_t from(S x) { return bool_t{(uint8_t)(x != 0)}; }
    template <class P> static CYG_IN bool_t from(complex_t<P> x) { return bool_t{(uint8_t)((x.re != 0) | (x.im != 0))}; }
};
template <class P> struct Convert<complex_t<P>> {
    template <class S> static CYG_IN complex_t<P> from(S x) { return complex_t<P>{(P)x, 0}; }
    template <class Q> static CYG_IN complex_t<P> from(complex_t<Q> x) { return complex_t<P>{(P)x.re, (P)x.im}; }
};

#define CYG_ALL(DO) DO(C_BOOL, bool_t) CYG_INTEGERS(DO) CYG_REALS(DO) CYG_COMPLEX(DO)

// Write x as an element of the dtype `to`.
template <class S> CYG_CALL void store_as(int to, char* y, S x) {
    switch (to) {
#define TO(code, T) case code: *(T*)y = Convert<T>::from(x); return;
        CYG_ALL(TO)
#undef TO
    }
}

#endif
