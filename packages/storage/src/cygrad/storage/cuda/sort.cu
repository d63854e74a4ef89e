// Stable sorting of lines of keys with their places: tiles in shared memory by ranks, then merges in which each element finds
// its rank in the other run by bisection. Keys are unsigned integers in the order of the elements that they stand for.
#include "launch.cuh"

namespace {

// Order-preserving integers of elements: floats by their bits, NaN last.
template <class T> struct KeyOf;
#define CYG_KEY(T, KEY) \
template <> struct KeyOf<T> { \
    static CYG_IN uint64_t of(T x) { return KEY; } \
};
CYG_FN uint64_t bits_key(uint64_t u, int width) {
    const uint64_t sign = (uint64_t)1 << (width - 1), all = sign | (sign - 1);
    return u & sign ? ~u & all : u | sign;
}
CYG_FN uint64_t double_bits(double x) { uint64_t u; memcpy(&u, &x, 8); return u; }
CYG_KEY(bool_t, x.byte != 0)
CYG_KEY(uint8_t, x)
CYG_KEY(int8_t, (uint64_t)(x + 128))
CYG_KEY(int16_t, (uint64_t)(x + 32768))
CYG_KEY(uint16_t, x)
CYG_KEY(int32_t, (uint64_t)((int64_t)x + 2147483648ll))
CYG_KEY(uint32_t, x)
CYG_KEY(int64_t, (uint64_t)x ^ (uint64_t)1 << 63)
CYG_KEY(uint64_t, x)
CYG_KEY(float, x != x ? 0xffffffffu : x == 0 ? 0x80000000u : bits_key(c_bits(x), 32))
CYG_KEY(double, x != x ? ~(uint64_t)0 : x == 0 ? (uint64_t)1 << 63 : bits_key(double_bits(x), 64))
CYG_KEY(f16_t, KeyOf<float>::of(widen(x)))
CYG_KEY(b16_t, KeyOf<float>::of(widen(x)))

struct Item {
    uint64_t key;
    int64_t place;
};

CYG_FN bool before(const Item& a, const Item& b) { return a.key < b.key || (a.key == b.key && a.place < b.place); }

template <class T> struct LoadItems {
    enum { THREADS = 256 };
    const char* x;
    Item* y;
    int64_t count, total, step;
    bool descending;
    WideOffsets<1> at;                       // of lines
    CYG_BODY void operator()(Grid g) const {
        CYG_EACH_THREAD(t) {
            const int64_t i = g.block * THREADS + t, line = i / count, k = i - line * count;
            if (i < total) {
                int64_t o[1];
                at.at(line, o);
                const uint64_t key = KeyOf<T>::of(*(const T*)(x + o[0] + k * step));
                y[i] = Item{descending ? ~key : key, k};
            }
        }
    }
};

// A tile: each thread counts the items that come before its own.
struct SortTiles {
    enum { THREADS = 256 };
    const Item* x;
    Item* y;
    int64_t count, tiles;
    CYG_BODY void operator()(Grid g) const {
        CYG_SHARED(Item, item, THREADS);
        const int64_t line = g.block / tiles, first = g.block % tiles * THREADS;
        const int n = (int)cyg_min<int64_t>(THREADS, count - first);
        CYG_EACH_THREAD(t) if (t < n) item[t] = x[line * count + first + t];
        CYG_SYNC();
        CYG_EACH_THREAD(t) {
            if (t < n) {
                int rank = 0;
                const Item mine = item[t];
                for (int k = 0; k < n; k++) rank += before(item[k], mine);
                y[line * count + first + rank] = mine;
            }
        }
    }
};

struct MergeRuns {
    enum { THREADS = 256 };
    const Item* x;
    Item* y;
    int64_t count, total, run;
    CYG_BODY void operator()(Grid g) const {
        CYG_EACH_THREAD(t) {
            const int64_t i = g.block * THREADS + t;
            if (i < total) {
                const int64_t line = i / count, k = i - line * count, pair = k / (2 * run) * (2 * run);
                const Item* items = x + line * count;
                const Item mine = items[k];
                const bool left = k - pair < run;
                int64_t low = cyg_min(count, left ? pair + run : pair), high = cyg_min(count, left ? pair + 2 * run : pair + run);
                const int64_t start = low;
                while (low < high) {
                    const int64_t middle = (low + high) / 2;
                    if (before(items[middle], mine)) low = middle + 1;
                    else high = middle;
                }
                const int64_t own = left ? k - pair : k - cyg_min(count, pair + run);
                y[line * count + pair + own + (low - start)] = mine;
            }
        }
    }
};

struct PutPlaces {
    enum { THREADS = 256 };
    const Item* x;
    int64_t* y;
    int64_t *keys, total;                    // keys: NULL, or the sorted keys themselves
    CYG_BODY void operator()(Grid g) const {
        CYG_EACH_THREAD(t) {
            const int64_t i = g.block * THREADS + t;
            if (i < total) {
                y[i] = x[i].place;
                if (keys) keys[i] = (int64_t)(x[i].key ^ (uint64_t)1 << 63);
            }
        }
    }
};

// First places where x could stand among the sorted bounds of its line.
template <class T> struct Search {
    enum { THREADS = 256 };
    const T *bounds, *x;
    const int64_t* sorter;
    int64_t *y, width, each, total;          // bounds in a line, elements of x for a line (0: one line for all)
    bool right;
    CYG_BODY void operator()(Grid g) const {
        CYG_EACH_THREAD(t) {
            const int64_t i = g.block * THREADS + t;
            if (i < total) {
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
        }
    }
};

int sort_items(Item* a, Item* b, int64_t lines, int64_t count, Item** sorted, void* stream) {
    const int64_t total = lines * count, tiles = cyg_parts(count, SortTiles::THREADS);
    int error = cyg_launch(SortTiles{a, b, count, tiles}, lines * tiles, stream);
    for (int64_t run = SortTiles::THREADS; !error && run < count; run *= 2) {
        Item* swap = a;
        a = b, b = swap;
        error = cyg_launch(MergeRuns{a, b, count, total, run}, cyg_parts(total, MergeRuns::THREADS), stream);
    }
    *sorted = b;
    return error;
}

template <class T> int load(const CygLines& l, bool descending, Item* items, void* stream) {
    LoadItems<T> k;
    k.x = l.x, k.y = items, k.count = l.count, k.total = l.lines * l.count, k.step = l.st[1], k.descending = descending;
    k.at.clear();
    for (int d = 0; d < l.ndim; d++) k.at.add(l.size[d], &l.step[d][1]);
    return cyg_launch(k, cyg_parts(k.total, LoadItems<T>::THREADS), stream);
}

}

int64_t cyg_sort_scratch(int64_t total) { return 2 * total * (int64_t)sizeof(Item); }

int cyg_sort(int code, const CygLines* l, int descending, int64_t* places, int64_t* keys, void* scratch, void* stream) {
    Item *a = (Item*)scratch, *b = a + l->lines * l->count, *sorted = a;
    int error = CYG_NO_KERNEL;
    if (l->ndim > CYG_DIMS) return CYG_TOO_MANY_DIMS;
    switch (code) {
        case C_BOOL: error = load<bool_t>(*l, descending, a, stream); break;
#define CASE(code, T) case code: error = load<T>(*l, descending, a, stream); break;
        CYG_INTEGERS(CASE)
        CYG_REALS(CASE)
#undef CASE
    }
    if (!error) error = sort_items(a, b, l->lines, l->count, &sorted, stream);
    const int64_t total = l->lines * l->count;
    return error ? error : cyg_launch(PutPlaces{sorted, places, keys, total}, cyg_parts(total, PutPlaces::THREADS), stream);
}

int cyg_search(int code, const char* bounds, const char* x, const int64_t* sorter, int64_t* y, int64_t width, int64_t each,
               int64_t total, int right, void* stream) {
    switch (code) {
        case C_BOOL: return CYG_NO_KERNEL;
#define CASE(code, T) \
        case code: { \
            Search<T> k = {(const T*)bounds, (const T*)x, sorter, y, width, each, total, right != 0}; \
            return cyg_launch(k, cyg_parts(total, Search<T>::THREADS), stream); \
        }
        CYG_INTEGERS(CASE)
        CYG_REALS(CASE)
#undef CASE
    }
    return CYG_NO_KERNEL;
}
