/* A device's memory, kept in blocks: asking CUDA for memory, and giving it back, waits for all work on the device.

   Segments are what CUDA gave. A segment is cut into blocks; neighbours that are both free are one block again. A block that comes
   back is for the stream that it was allocated for: work of that stream, in order, makes waiting unnecessary. */
#pragma once

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime.h"

namespace cyg {

constexpr int64_t UNIT = 512;                   /* sizes are multiples of it */
constexpr int64_t SMALL = int64_t(1) << 20;     /* up to here blocks share segments of SMALL_SEGMENT */
constexpr int64_t SMALL_SEGMENT = int64_t(2) << 20;
constexpr int64_t MEDIUM = int64_t(10) << 20;   /* up to here segments are of MEDIUM_SEGMENT, above of what was asked for */
constexpr int64_t MEDIUM_SEGMENT = int64_t(20) << 20;
constexpr int64_t ROUND = int64_t(2) << 20;

struct Block {
    char* ptr;
    int64_t size;
    void* stream;
    bool used = false, small;
    Block *before = nullptr, *after = nullptr;  /* neighbours in the segment */
    std::vector<void*> others;                  /* streams beside its own that use it */
    std::vector<std::pair<void*, void*>> events;   /* stream and event of theirs, which must pass before it is free */
    Block(char* p, int64_t n, void* s, bool few) : ptr(p), size(n), stream(s), small(few) {}
};

/* What one device asks of CUDA; all return 0 or an error. */
struct Source {
    int device;
    int take(void** p, int64_t nbytes) const;
    int give_back(void* p) const;
    int mark(void* stream, void** event) const;   /* an event behind all that the stream has got so far */
    bool passed(void* event) const;
    void forget(void* event) const;
    void wait() const;
};

class Allocator {
  public:
    explicit Allocator(int device) : source{device} {}

    int alloc(int64_t nbytes, void* stream, void** p) {
        if (nbytes > INT64_MAX - ROUND) return 2;              /* no memory: rounding it up would wrap around */
        std::lock_guard<std::recursive_mutex> hold(mutex);
        int64_t size = (nbytes + UNIT - 1) / UNIT * UNIT;
        collect();
        Block* b = find(size, stream);
        if (!b) {
            int failed = grow(size, stream, &b);
            if (failed) return failed;
        }
        cut(b, size);
        b->used = true;
        live[b->ptr] = b;
        state.allocated += b->size;
        if (state.allocated > state.most_allocated) state.most_allocated = state.allocated;
        state.active += b->size;
        if (state.active > state.most_active) state.most_active = state.active;
        *p = b->ptr;
        return 0;
    }

    void free(void* p) {
        std::lock_guard<std::recursive_mutex> hold(mutex);
        auto found = live.find(p);
        if (found == live.end()) return;
        Block* b = found->second;
        live.erase(found);
        state.allocated -= b->size;
        for (void* stream : b->others) {
            void* event;
            if (source.mark(stream, &event) == 0)
                b->events.emplace_back(stream, event);
            else
                source.wait();
        }
        b->others.clear();
        if (b->events.empty())
            release(b);
        else
            waiting.push_back(b);
    }

    void used_on(void* p, void* stream) {
        std::lock_guard<std::recursive_mutex> hold(mutex);
        auto found = live.find(p);
        if (found == live.end() || found->second->stream == stream) return;
        for (void* known : found->second->others)
            if (known == stream) return;
        found->second->others.push_back(stream);
    }

    int empty() {
        std::lock_guard<std::recursive_mutex> hold(mutex);
        if (!waiting.empty()) {
            source.wait();
            collect();
        }
        return give_back_free();
    }

    void memory(cyg_memory* m) {
        std::lock_guard<std::recursive_mutex> hold(mutex);
        *m = state;
    }

    void reset_peak() {
        std::lock_guard<std::recursive_mutex> hold(mutex);
        state.most_allocated = state.allocated;
        state.most_active = state.active;
        state.most_reserved = state.reserved;
    }

    void set_limit(int64_t nbytes) {
        std::lock_guard<std::recursive_mutex> hold(mutex);
        limit = nbytes;
    }

  private:
    using Key = std::tuple<bool, void*, int64_t, char*>;    /* small, stream, size, place: the first that fits is the smallest */

    static Key key(const Block* b) { return {b->small, b->stream, b->size, b->ptr}; }

    Block* find(int64_t size, void* stream) {
        bool small = size <= SMALL;
        auto found = idle.lower_bound(Key{small, stream, size, nullptr});
        if (found == idle.end() || std::get<0>(found->first) != small || std::get<1>(found->first) != stream) return nullptr;
        Block* b = found->second;
        idle.erase(found);
        return b;
    }

    int grow(int64_t size, void* stream, Block** b) {
        int64_t whole = size <= SMALL ? SMALL_SEGMENT : size <= MEDIUM ? MEDIUM_SEGMENT : (size + ROUND - 1) / ROUND * ROUND;
        void* p = nullptr;
        int failed = take(&p, whole);
        if (failed) {                            /* what is kept for reuse may be what is missing */
            state.retries++;
            source.wait();
            collect();
            give_back_free();
            failed = take(&p, whole);
        }
        if (failed) {
            state.failures++;
            return failed;
        }
        state.reserved += whole;
        state.segments++;
        if (state.reserved > state.most_reserved) state.most_reserved = state.reserved;
        *b = new Block(static_cast<char*>(p), whole, stream, size <= SMALL);
        return 0;
    }

    int take(void** p, int64_t whole) {
        return limit >= 0 && state.reserved + whole > limit ? 2 : source.take(p, whole);   /* 2: cudaErrorMemoryAllocation */
    }

    void cut(Block* b, int64_t size) {
        int64_t rest = b->size - size;
        if (rest < (b->small ? UNIT : SMALL + UNIT)) return;
        Block* tail = new Block(b->ptr + size, rest, b->stream, b->small);
        tail->before = b;
        tail->after = b->after;
        if (b->after) b->after->before = tail;
        b->after = tail;
        b->size = size;
        idle[key(tail)] = tail;
    }

    void release(Block* b) {
        b->used = false;
        state.active -= b->size;
        if (b->after && is_idle(b->after)) join(b, b->after);
        if (b->before && is_idle(b->before)) {
            Block* first = b->before;
            idle.erase(key(first));
            join_kept(first, b);
            b = first;
        }
        idle[key(b)] = b;
    }

    bool is_idle(const Block* b) { return idle.find(key(b)) != idle.end(); }

    void join(Block* b, Block* next) {
        idle.erase(key(next));
        join_kept(b, next);
    }

    void join_kept(Block* b, Block* next) {
        b->size += next->size;
        b->after = next->after;
        if (next->after) next->after->before = b;
        delete next;
    }

    /* Events of a stream pass in their order: where one has not, later ones are not asked for. */
    void collect() {
        std::vector<void*> behind;
        size_t kept = 0;
        for (Block* b : waiting) {
            while (!b->events.empty()) {
                auto [stream, event] = b->events.back();
                if (std::find(behind.begin(), behind.end(), stream) != behind.end()) break;
                if (!source.passed(event)) {
                    behind.push_back(stream);
                    break;
                }
                source.forget(event);
                b->events.pop_back();
            }
            if (b->events.empty()) release(b);
            else waiting[kept++] = b;
        }
        waiting.resize(kept);
    }

    int give_back_free() {
        int failed = 0;
        for (auto it = idle.begin(); it != idle.end();) {
            Block* b = it->second;
            if (b->before || b->after) {
                ++it;
                continue;
            }
            it = idle.erase(it);
            int code = source.give_back(b->ptr);
            failed = failed ? failed : code;
            state.reserved -= b->size;
            state.segments--;
            delete b;
        }
        return failed;
    }

    Source source;
    std::recursive_mutex mutex;
    std::map<Key, Block*> idle;
    std::unordered_map<void*, Block*> live;
    std::vector<Block*> waiting;
    cyg_memory state = {};
    int64_t limit = -1;
};

}  // namespace cyg
