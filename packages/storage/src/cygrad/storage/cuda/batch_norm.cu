// Batch normalisation over (batch, channels, places): statistics and sums by a block for each channel, results element by element.
#include "launch.cuh"

namespace {

template <class T> struct Channel {
    enum { THREADS = 256 };
    struct Acc { double a, b; };
    CygChannels c;
    bool back;                               // sums of g and of g times the normalised x; else statistics of x
    CYG_IN int64_t element(int64_t channel, int64_t i) const {
        const int64_t item = i / c.places;
        return (item * c.channels + channel) * c.places + i - item * c.places;
    }
    static CYG_IN double at(const char* p, int64_t i) { return (double)Stored<T>::load(((const T*)p)[i]); }
    static CYG_IN void put(char* p, int64_t i, double v) { ((T*)p)[i] = Stored<T>::store((ValueOf<T>)v); }
    CYG_BODY void operator()(Grid g) const {
        CYG_SHARED(Acc, acc, THREADS);
        const int64_t count = c.batch * c.places, channel = g.block;
        CYG_EACH_THREAD(t) {
            Acc s = {0, 0};
            const double base = back ? at(c.stats, channel) : count ? at(c.x, element(channel, 0)) : 0;
            for (int64_t i = t; i < count; i += THREADS) {
                const int64_t e = element(channel, i);
                const double v = at(c.x, e) - base, d = back ? at(c.g, e) : v;
                s.a += d, s.b += d * v;
            }
            acc[t] = s;
        }
        CYG_SYNC();
        for (int d = THREADS / 2; d > 0; d /= 2) {
            CYG_EACH_THREAD(t) if (t < d) acc[t].a += acc[t + d].a, acc[t].b += acc[t + d].b;
            CYG_SYNC();
        }
        CYG_EACH_THREAD(t) {
            if (t == 0 && back) {
                put(c.sums, channel, acc[0].a);
                put(c.sums, c.channels + channel, acc[0].b * at(c.stats, c.channels + channel));
            } else if (t == 0) {
                const double n = count ? (double)count : 1;      // statistics of nothing are 0
                const double m = acc[0].a / n, v = acc[0].b / n - m * m;
                const double spread = v > 0 || v != v ? v : 0;
                put(c.stats, channel, count ? m + at(c.x, element(channel, 0)) : 0);
                put(c.stats, c.channels + channel, 1 / sqrt(spread + c.eps));
                put(c.stats, 2 * c.channels + channel, spread);
            }
        }
    }
};

template <class T> struct Apply {
    enum { THREADS = 256 };
    typedef ValueOf<T> V;
    CygChannels c;
    bool back;
    static CYG_IN V at(const char* p, int64_t i) { return Stored<T>::load(((const T*)p)[i]); }
    CYG_BODY void operator()(Grid g) const {
        CYG_EACH_THREAD(t) {
            const int64_t i = g.block * THREADS + t;
            if (i < c.batch * c.channels * c.places) {
                const int64_t k = i / c.places % c.channels;
                const V scale = at(c.stats, c.channels + k), h = (at(c.x, i) - at(c.stats, k)) * scale;
                const V n = (V)(c.batch * c.places);
                const V y = back ? at(c.w, k) * scale * (at(c.g, i) - at(c.sums, k) / n - h * (at(c.sums, c.channels + k) / n))
                    : h * at(c.w, k) + at(c.b, k);
                ((T*)c.y)[i] = Stored<T>::store(y);
            }
        }
    }
};

template <class T> int run(int what, const CygChannels& c, void* stream) {
    const bool back = what != CYG_CHANNELS_NORM;
    int error = 0;
    if (what != CYG_CHANNELS_INPUT) error = cyg_launch(Channel<T>{c, back}, c.channels, stream);
    if (error || what == CYG_CHANNELS_SUMS) return error;
    return cyg_launch(Apply<T>{c, back}, cyg_parts(c.batch * c.channels * c.places, Apply<T>::THREADS), stream);
}

}

int cyg_channels(int what, int code, const CygChannels* c, void* stream) {
    if (code == C_FLOAT32) return run<float>(what, *c, stream);
    return code == C_FLOAT64 ? run<double>(what, *c, stream) : (int)CYG_NO_KERNEL;
}
