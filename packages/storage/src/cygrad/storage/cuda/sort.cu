// Stable sorting of lines by radix, and bisection. Keys are unsigned integers in the order of the elements that they stand for; those of
// several lines have the number of their line above them, so that one sort serves all.
#include "launch.cuh"

#ifdef CYG_HOST
#include <algorithm>
#include <vector>
#else
#include <cub/device/device_radix_sort.cuh>
#endif

namespace {

// Order-preserving integers of elements: floats by their bits, zeros equal, NaN last. BITS of them count.
template <class T> struct KeyOf;
#define CYG_KEY(T, WIDTH, KEY) \
template <> struct KeyOf<T> { \
    enum { BITS = WIDTH }; \
    static CYG_IN uint64_t of(T x) { return KEY; } \
};
CYG_FN uint64_t bits_key(uint64_t u, int width, uint64_t infinity) {
    const uint64_t sign = (uint64_t)1 << (width - 1), all = sign | (sign - 1), size = u & ~sign;
    return size > infinity ? all : size == 0 ? sign : u & sign ? ~u & all : u | sign;
}
CYG_FN uint64_t double_bits(double x) { uint64_t u; memcpy(&u, &x, 8); return u; }
CYG_KEY(bool_t, 1, x.byte != 0)
CYG_KEY(uint8_t, 8, x)
CYG_KEY(int8_t, 8, (uint64_t)(x + 128))
CYG_KEY(int16_t, 16, (uint64_t)(x + 32768))
CYG_KEY(uint16_t, 16, x)
CYG_KEY(int32_t, 32, (uint64_t)((int64_t)x + 2147483648ll))
CYG_KEY(uint32_t, 32, x)
CYG_KEY(int64_t, 64, (uint64_t)x ^ (uint64_t)1 << 63)
CYG_KEY(uint64_t, 64, x)
CYG_KEY(float, 32, bits_key(c_bits(x), 32, 0x7f800000u))
CYG_KEY(double, 64, bits_key(double_bits(x), 64, (uint64_t)0x7ff << 52))
CYG_KEY(f16_t, 16, bits_key(x.bits, 16, 0x7c00))
CYG_KEY(b16_t, 16, bits_key(x.bits, 16, 0x7f80))

// Keys and where they stand, twice: a sort goes to and fro between the two, and says which one is sorted.
template <class K> struct Pairs {
    K* keys[2];
    uint32_t* places[2];
    int now;
};

#ifdef CYG_HOST
const int64_t GROUP = 1 << 14;               // elements sorted at a time; few, so that tests see several groups

template <class K> struct SortPairs {
    enum { THREADS = 1 };
    Pairs<K> p;
    int64_t count;
    K mask;
    CYG_BODY void operator()(Grid) const {
        std::vector<int64_t> order((size_t)count);
        for (int64_t i = 0; i < count; i++) order[i] = i;
        std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return (p.keys[0][a] & mask) < (p.keys[0][b] & mask); });
        for (int64_t i = 0; i < count; i++) p.keys[1][i] = p.keys[0][order[i]], p.places[1][i] = p.places[0][order[i]];
    }
};
template <class K> int sort_pairs(Pairs<K>* p, int64_t count, int bits, void*, size_t* room, void* stream) {
    const bool asks = *room == 0;
    *room = 1;
    if (asks) return 0;
    const int error = cyg_launch(SortPairs<K>{*p, count, (K)(bits < 64 ? ((uint64_t)1 << bits) - 1 : ~(uint64_t)0)}, 1, stream);
    p->now = 1;
    return error;
}
#else
const int64_t GROUP = INT32_MAX;

// Of room 0: only says how much is needed.
template <class K> int sort_pairs(Pairs<K>* p, int64_t count, int bits, void* memory, size_t* room, void* stream) {
    cub::DoubleBuffer<K> keys(p->keys[0], p->keys[1]);
    cub::DoubleBuffer<uint32_t> places(p->places[0], p->places[1]);
    const cudaError_t error = cub::DeviceRadixSort::SortPairs(*room ? memory : nullptr, *room, keys, places, (int)count, 0, bits, (cudaStream_t)stream);
    p->now = keys.selector;
    return (int)error;
}
#endif

template <class T, class K> struct LoadKeys {
    const char* x;
    K* keys;
    uint32_t* places;
    int64_t first, count, step;              // lines before these; elements of a line
    bool descending, lines_above, within;    // within: a place counts from the start of its line
    WideOffsets<1> at;                       // of lines
    CYG_BODY void one(int64_t i) const {
        const int64_t line = i / count, k = i - line * count;
        int64_t o[1];
        at.at(first + line, o);
        const uint64_t key = KeyOf<T>::of(*(const T*)(x + o[0] + k * step));
        const uint64_t all = ~(uint64_t)0 >> (64 - KeyOf<T>::BITS);
        keys[i] = (K)((descending ? ~key & all : key) | (lines_above ? (uint64_t)line << (KeyOf<T>::BITS & 63) : 0));
        places[i] = (uint32_t)(within ? k : i);
    }
};

struct LinesOf {                             // keys that are the lines of places
    const uint32_t* places;
    uint32_t* lines;
    int64_t count;
    CYG_BODY void one(int64_t i) const { lines[i] = (uint32_t)(places[i] / count); }
};

struct PutPlaces {
    const uint32_t* places;
    const uint64_t* sorted;
    int64_t *y, *keys, count;                // keys: NULL, or the sorted keys themselves
    bool within;
    CYG_BODY void one(int64_t i) const {
        y[i] = within ? places[i] : places[i] % count;
        if (keys) keys[i] = (int64_t)(sorted[i] ^ (uint64_t)1 << 63);
    }
};

// First places where x could stand among the sorted bounds of its line.
template <class T> struct Search {
    const T *bounds, *x;
    const int64_t* sorter;
    int64_t *y, width, each;                 // bounds in a line, elements of x for a line (0: one line for all)
    bool right;
    CYG_BODY void one(int64_t i) const {
        const int64_t line = each ? i / each * width : 0;
        const uint64_t key = KeyOf<T>::of(x[i]);
        int64_t low = 0, high = width;
        while (low < high) {
            const int64_t middle = (low + high) / 2, at = sorter ? sorter[line + middle] : middle;
            const uint64_t b = KeyOf<T>::of(bounds[line + at]);
            if (b < key || (right && b == key)) low = middle + 1;
            else high = middle;
        }
        y[i] = low;
    }
};

int bits_of(int64_t lines) {
    int bits = 0;
    while (lines > (int64_t)1 << bits) bits++;
    return bits;
}

// How lines are sorted: in groups whose elements 32 bits count. Keys of 64 bits have no room for the number of a line; these are sorted
// as if all were one line, and then by their lines.
struct Way {
    int bits, line_bits, key_size;
    bool twice;
    int64_t group, most;                     // lines, elements of a group
    Way(int width, int64_t lines, int64_t count) {
        group = cyg_min(lines, cyg_max<int64_t>(GROUP / count, 1));
        most = group * count;
        line_bits = bits_of(group);
        twice = group > 1 && width + line_bits > 64;
        bits = twice ? width : width + line_bits;
        key_size = bits > 32 ? 8 : 4;
    }
};

int64_t whole(int64_t nbytes) { return (nbytes + 255) / 256 * 256; }

template <class K> Pairs<K> pairs_in(char* memory, int64_t most, int key_size) {
    const int64_t keys = whole(most * key_size), places = whole(most * 4);
    return Pairs<K>{{(K*)memory, (K*)(memory + keys)}, {(uint32_t*)(memory + 2 * keys), (uint32_t*)(memory + 2 * keys + places)}, 0};
}

template <class K> int room_for(const Way& w, size_t* room) {
    Pairs<K> none = {};
    size_t once = 0, again = 0;
    int error = sort_pairs(&none, w.most, w.bits, nullptr, &once, nullptr);
    if (!error && w.twice) {
        Pairs<uint32_t> lines = {};
        error = sort_pairs(&lines, w.most, w.line_bits, nullptr, &again, nullptr);
    }
    *room = cyg_max(cyg_max(once, again), (size_t)1);
    return error;
}

template <class T, class K> int sort_group(const CygLines& l, const Way& w, int64_t first, int64_t lines, bool descending, int64_t* y,
                                           int64_t* sorted, char* memory, size_t room, void* stream) {
    const int64_t total = lines * l.count;
    Pairs<K> p = pairs_in<K>(memory, w.most, w.key_size);
    char* rest = memory + 2 * whole(w.most * w.key_size) + 2 * whole(w.most * 4);
    LoadKeys<T, K> k;
    k.x = l.x, k.keys = p.keys[0], k.places = p.places[0], k.first = first, k.count = l.count, k.step = l.st[1];
    k.descending = descending, k.lines_above = w.group > 1 && !w.twice, k.within = !w.twice;
    k.at.clear();
    for (int d = 0; d < l.ndim; d++) k.at.add(l.size[d], &l.step[d][1]);
    int error = cyg_each(k, total, stream);
    if (!error) error = sort_pairs(&p, total, w.bits, rest, &room, stream);
    uint32_t* places = p.places[p.now];
    const uint64_t* keys = (const uint64_t*)p.keys[p.now];
    if (!error && w.twice) {
        Pairs<uint32_t> q = {{(uint32_t*)p.keys[0], (uint32_t*)p.keys[1]}, {places, p.places[1 - p.now]}, 0};
        error = cyg_each(LinesOf{places, q.keys[0], l.count}, total, stream);
        if (!error) error = sort_pairs(&q, total, w.line_bits, rest, &room, stream);
        places = q.places[q.now];
    }
    return error ? error : cyg_each(PutPlaces{places, keys, y, sorted, l.count, !w.twice}, total, stream);
}

template <class T> int sort(const CygLines& l, bool descending, int64_t* y, int64_t* sorted, char* memory, int64_t nbytes, void* stream) {
    const Way w(KeyOf<T>::BITS, l.lines, l.count);
    const size_t room = (size_t)(nbytes - 2 * whole(w.most * w.key_size) - 2 * whole(w.most * 4));
    int error = 0;
    for (int64_t first = 0; !error && first < l.lines; first += w.group) {
        const int64_t lines = cyg_min(w.group, l.lines - first);
        int64_t* there = y + first * l.count;
        if constexpr (KeyOf<T>::BITS <= 32) {
            if (w.key_size == 4) {
                error = sort_group<T, uint32_t>(l, w, first, lines, descending, there, sorted, memory, room, stream);
                continue;
            }
        }
        error = sort_group<T, uint64_t>(l, w, first, lines, descending, there, sorted, memory, room, stream);
    }
    return error;
}

#define CYG_SORTABLE(F) F(C_BOOL, bool_t) CYG_INTEGERS(F) CYG_REALS(F)

}

int cyg_sort_scratch(int code, int64_t lines, int64_t count, int64_t* nbytes) {
    int width = 0;
    switch (code) {
#define CASE(code, T) case code: width = KeyOf<T>::BITS; break;
        CYG_SORTABLE(CASE)
#undef CASE
        default: return CYG_NO_KERNEL;
    }
    if (count > INT32_MAX) return CYG_TOO_LONG;
    const Way w(width, lines, count);
    size_t room = 0;
    const int error = w.key_size == 4 ? room_for<uint32_t>(w, &room) : room_for<uint64_t>(w, &room);
    *nbytes = 2 * whole(w.most * w.key_size) + 2 * whole(w.most * 4) + (int64_t)room;
    return error;
}

int cyg_sort(int code, const CygLines* l, int descending, int64_t* places, int64_t* keys, void* scratch, int64_t nbytes, void* stream) {
    if (l->ndim > CYG_DIMS) return CYG_TOO_MANY_DIMS;
    switch (code) {
#define CASE(code, T) case code: return sort<T>(*l, descending != 0, places, keys, (char*)scratch, nbytes, stream);
        CYG_SORTABLE(CASE)
#undef CASE
    }
    return CYG_NO_KERNEL;
}

int cyg_search(int code, const char* bounds, const char* x, const int64_t* sorter, int64_t* y, int64_t width, int64_t each,
               int64_t total, int right, void* stream) {
    switch (code) {
        case C_BOOL: return CYG_NO_KERNEL;
#define CASE(code, T) \
        case code: { \
            Search<T> k = {(const T*)bounds, (const T*)x, sorter, y, width, each, right != 0}; \
            return cyg_each(k, total, stream); \
        }
        CYG_INTEGERS(CASE)
        CYG_REALS(CASE)
#undef CASE
    }
    return CYG_NO_KERNEL;
}
