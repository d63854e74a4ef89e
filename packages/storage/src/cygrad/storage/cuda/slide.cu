// Windows that slide over images of one to three dimensions: pooling, patches and what is added back from them. A thread
// gathers one element of the result, so nothing is added by two.
#include "geometry.cuh"
#include "launch.cuh"

namespace {

enum { MEANS, SPREAD, TOPS, ADD, PICK };

struct Span {
    int64_t start, stop, step, full;
    CYG_IN bool has(int64_t i) const { return i >= start && i < stop && (i - start) % step == 0; }
};

CYG_FN Span span_of(const Pool& p, int d, int64_t place) {
    if (p.adaptive) {
        const int64_t start = place * p.size[d] / p.out[d], stop = ((place + 1) * p.size[d] + p.out[d] - 1) / p.out[d];
        return Span{start, stop, p.dilation[d], stop - start};
    }
    Span s;
    s.step = p.dilation[d];
    s.start = place * p.stride[d] - p.pad[d];
    const int64_t end = cyg_min(s.start + p.dilation[d] * (p.window[d] - 1) + 1, p.size[d] + p.pad[d]);
    s.full = end - s.start;
    s.stop = cyg_min(end, p.size[d]);
    if (s.start < 0) s.start += (-s.start + s.step - 1) / s.step * s.step;
    return s;
}
CYG_FN double divisor_of(const Pool& p, const Span* s) {
    if (p.divisor) return (double)p.divisor;
    if (p.with_padding) return (double)(s[0].full * s[1].full * s[2].full);
    return (double)((s[0].stop - s[0].start) * (s[1].stop - s[1].start) * (s[2].stop - s[2].start));
}
CYG_FN void split(int64_t i, const int64_t* sizes, int64_t* at) {
    at[2] = i % sizes[2], at[1] = i / sizes[2] % sizes[1], at[0] = i / sizes[2] / sizes[1];
}

template <class T> struct Windows {          // MEANS, TOPS and PICK: one place of a plane
    typedef ValueOf<T> V;
    Pool p;
    int what;
    CYG_IN void one(int64_t i) const {
        const int64_t plane = i / p.places;
        const T* x = (const T*)p.x + plane * p.points;
        int64_t at[3];
        T* y = (T*)p.y + i;
        if (what == PICK) {
            *y = p.index[i] < 0 || p.index[i] >= p.points ? Stored<T>::store(V(0)) : x[p.index[i]];
            return;
        }
        split(i - plane * p.places, p.out, at);
        const Span s[3] = {span_of(p, 0, at[0]), span_of(p, 1, at[1]), span_of(p, 2, at[2])};
        double total = 0;
        V best = 0;
        int64_t found = -1;
        for (int64_t a = s[0].start; a < s[0].stop; a += s[0].step)
            for (int64_t b = s[1].start; b < s[1].stop; b += s[1].step)
                for (int64_t c = s[2].start; c < s[2].stop; c += s[2].step) {
                    const int64_t point = (a * p.size[1] + b) * p.size[2] + c;
                    const V v = Stored<T>::load(x[point]);
                    total += (double)v;
                    if (found < 0 || v > best || (v != v && best == best)) best = v, found = point;
                }
        if (what == MEANS) {
            *y = Stored<T>::store((V)(total / divisor_of(p, s)));
            return;
        }
        if (found < 0) best = sizeof(V) == 8 && V(1) / 2 == 0 ? V(INT64_MIN) : (V)-INFINITY;
        *y = Stored<T>::store(best);
        p.index[i] = found;
    }
};

// What goes back to one point of a plane from all windows that have it: shares of means, or the whole where the window's index
// names the point.
template <class T> struct Spread {
    Pool p;
    bool named;
    CYG_IN void range(int d, int64_t i, int64_t* low, int64_t* high) const {
        if (p.adaptive) {
            *low = i * p.out[d] / p.size[d] - 1, *high = ((i + 1) * p.out[d] + p.size[d] - 1) / p.size[d] + 1;
        } else {
            *low = (i + p.pad[d] - p.dilation[d] * (p.window[d] - 1)) / p.stride[d] - 1, *high = (i + p.pad[d]) / p.stride[d] + 1;
        }
        *low = cyg_max<int64_t>(*low, 0), *high = cyg_min(*high, p.out[d] - 1);
    }
    CYG_IN void one(int64_t i) const {
        const int64_t plane = i / p.points;
        int64_t at[3], low[3], high[3];
        split(i - plane * p.points, p.size, at);
        for (int d = 0; d < 3; d++) range(d, at[d], &low[d], &high[d]);
        double total = 0;
        for (int64_t a = low[0]; a <= high[0]; a++)
            for (int64_t b = low[1]; b <= high[1]; b++)
                for (int64_t c = low[2]; c <= high[2]; c++) {
                    const Span s[3] = {span_of(p, 0, a), span_of(p, 1, b), span_of(p, 2, c)};
                    const int64_t place = plane * p.places + (a * p.out[1] + b) * p.out[2] + c;
                    if (s[0].has(at[0]) && s[1].has(at[1]) && s[2].has(at[2])
                        && (!named || p.index[place] == i - plane * p.points))
                        total += (double)Stored<T>::load(((const T*)p.x)[place]) / (named ? 1 : divisor_of(p, s));
                }
        ((T*)p.y)[i] = Stored<T>::store((ValueOf<T>)total);
    }
};

template <class T> struct Patches {          // (item, channel, tap, place) of the patches from x, or x from them
    Conv c;
    bool back;
    CYG_IN T patch(int64_t i) const {
        const int64_t place = i % c.places, tap = i / c.places % c.taps, plane = i / c.places / c.taps;
        int64_t at[3], window[3], point = 0;
        split(place, c.out, at);
        split(tap, c.window, window);
        for (int d = 0; d < 3; d++) {
            const int64_t k = at[d] * c.stride[d] - c.pad[d] + window[d] * c.dilation[d];
            if (k < 0 || k >= c.size[d]) return Stored<T>::store(ValueOf<T>(0));
            point = point * c.size[d] + k;
        }
        return ((const T*)c.x)[plane * c.points + point];
    }
    CYG_IN T added(int64_t i) const {
        const int64_t plane = i / c.points;
        int64_t at[3], window[3];
        split(i - plane * c.points, c.size, at);
        double total = 0;
        for (int64_t tap = 0; tap < c.taps; tap++) {
            split(tap, c.window, window);
            int64_t place = 0;
            bool fits = true;
            for (int d = 0; d < 3; d++) {
                const int64_t k = at[d] + c.pad[d] - window[d] * c.dilation[d];
                fits = fits && k >= 0 && k % c.stride[d] == 0 && k / c.stride[d] < c.out[d];
                place = place * c.out[d] + (fits ? k / c.stride[d] : 0);
            }
            if (fits) total += (double)Stored<T>::load(((const T*)c.y)[(plane * c.taps + tap) * c.places + place]);
        }
        return Stored<T>::store((ValueOf<T>)total);
    }
    CYG_IN void one(int64_t i) const {
        if (back)
            ((T*)c.x)[i] = added(i);
        else
            ((T*)c.y)[i] = patch(i);
    }
};

template <class T> int pool(const Pool& p, int what, void* stream) {
    switch (what) {
        case SPREAD: case ADD:
            return cyg_each(Spread<T>{p, what == ADD}, p.planes * p.points, stream);
    }
    return cyg_each(Windows<T>{p, what}, p.planes * p.places, stream);
}

}

int cyg_pool(int what, const void* plan, void* stream) {
    const Pool& p = *(const Pool*)plan;
    switch (p.dtype) {
        case C_INT64: return pool<int64_t>(p, what, stream);
#define CASE(code, T) case code: return pool<T>(p, what, stream);
        CYG_REALS(CASE)
#undef CASE
    }
    return CYG_NO_KERNEL;
}

int cyg_patches(int back, const void* plan, void* stream) {
    const Conv& c = *(const Conv*)plan;
    const int64_t planes = c.batch * c.groups * c.channels, count = planes * (back ? c.points : c.taps * c.places);
    switch (c.dtype) {
#define CASE(code, T) case code: return cyg_each(Patches<T>{c, back != 0}, count, stream);
        CYG_REALS(CASE)
#undef CASE
    }
    return CYG_NO_KERNEL;
}
