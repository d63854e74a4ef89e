/* What the run time asks of the platform. With nvcc that is the CUDA run time; with CYG_HOST, memory of this process stands for the
   devices': an arena each that nothing may touch but kernels and copies, so that a stray access ends the process at once. */
#pragma once

#ifndef CYG_HOST
#include <cuda_runtime.h>
#else
#include <sys/mman.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "runtime.h"

typedef int cudaError_t;
enum {
    cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2, cudaErrorInvalidConfiguration = 9,
    cudaErrorInvalidResourceHandle = 400, cudaErrorNotReady = 600
};

namespace host {

constexpr int MOST_DEVICES = 4;
constexpr size_t ARENA = size_t(1) << 36, PAGE = 4096;

struct Arena {
    char* base = nullptr;
    size_t end = 0;                        /* bytes that were ever handed out */
    std::map<size_t, size_t> holes;        /* place -> size of what came back */
    std::map<size_t, size_t> taken;
};

inline Arena arenas[MOST_DEVICES];
inline std::recursive_mutex mutex;
inline int depth = 0;

inline int devices() {
    const char* wanted = std::getenv("CYGRAD_CUDA_HOST");
    int n = wanted ? std::atoi(wanted) : 0;
    return n < 0 ? 0 : n > MOST_DEVICES ? MOST_DEVICES : n;
}

inline void protect(int rights) {
    for (Arena& a : arenas)
        if (a.end) mprotect(a.base, a.end, rights);
}

/* Holds the lock from the outermost entry to the outermost leave: no other thread then finds the arenas open by accident. */
inline void enter() {
    mutex.lock();
    if (depth++ == 0) protect(PROT_READ | PROT_WRITE);
}

inline void leave() {
    if (--depth == 0) protect(PROT_NONE);
    mutex.unlock();
}

inline size_t whole_pages(size_t n) { return (n + PAGE - 1) / PAGE * PAGE; }

inline cudaError_t take(int device, void** p, size_t nbytes) {
    std::lock_guard<std::recursive_mutex> hold(mutex);
    Arena& a = arenas[device];
    size_t n = whole_pages(nbytes), at;
    if (!a.base) {
        void* base = mmap(nullptr, ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED) return cudaErrorMemoryAllocation;
        a.base = static_cast<char*>(base);
    }
    for (auto hole = a.holes.begin(); hole != a.holes.end(); ++hole)
        if (hole->second >= n) {
            at = hole->first;
            size_t rest = hole->second - n;
            a.holes.erase(hole);
            if (rest) a.holes[at + n] = rest;
            a.taken[at] = n;
            *p = a.base + at;
            return cudaSuccess;
        }
    if (a.end + n > ARENA) return cudaErrorMemoryAllocation;
    at = a.end;
    a.end += n;
    a.taken[at] = n;
    if (depth) mprotect(a.base + at, n, PROT_READ | PROT_WRITE);
    *p = a.base + at;
    return cudaSuccess;
}

inline cudaError_t give_back(int device, void* p) {
    std::lock_guard<std::recursive_mutex> hold(mutex);
    Arena& a = arenas[device];
    size_t at = static_cast<char*>(p) - a.base;
    auto found = a.taken.find(at);
    if (found == a.taken.end()) return cudaErrorInvalidValue;
    size_t n = found->second;
    a.taken.erase(found);
    madvise(p, n, MADV_DONTNEED);
    auto after = a.holes.lower_bound(at);
    if (after != a.holes.end() && after->first == at + n) {
        n += after->second;
        after = a.holes.erase(after);
    }
    if (after != a.holes.begin()) {
        auto before = std::prev(after);
        if (before->first + before->second == at) {
            before->second += n;
            return cudaSuccess;
        }
    }
    a.holes[at] = n;
    return cudaSuccess;
}

/* A stream: work in order, which is put off until something waits for it. What uses memory too early, too late or
   without saying so on which stream then finds wrong numbers, as it would on a device at times. */
struct Stream {
    int device;
    std::deque<std::function<void()>> work;
    uint64_t given = 0, done = 0;

    explicit Stream(int of) : device(of) {}

    void give(std::function<void()> f) {
        work.push_back(std::move(f));
        given++;
        while (work.size() > MOST_WAITING) run_one();
    }
    void run_one() {
        std::function<void()> f = std::move(work.front());
        work.pop_front();
        enter();
        f();
        leave();
        done++;
    }
    void run_until(uint64_t ticket) {
        while (done < ticket && !work.empty()) run_one();
    }

    static constexpr size_t MOST_WAITING = 1024;      /* as many launches wait on a device before the next one has to */
};

/* A place in a stream. An event that is recorded again points to another one: who waits for the first still does. */
struct Mark {
    Stream* stream;
    uint64_t ticket;
    std::chrono::steady_clock::time_point at;
    bool passed() const { return stream->done >= ticket; }
};
struct Event { std::shared_ptr<Mark> mark; };

inline std::set<Stream*> made;
inline std::unique_ptr<Stream> first[MOST_DEVICES];

/* NULL is the default stream of a device; nullptr is returned for what is no stream. */
inline Stream* stream_of(int device, void* s) {
    if (!s) {
        if (!first[device]) first[device] = std::make_unique<Stream>(device);
        return first[device].get();
    }
    Stream* known = static_cast<Stream*>(s);
    return made.count(known) ? known : nullptr;
}

inline void finish(int device) {
    std::lock_guard<std::recursive_mutex> hold(mutex);
    if (first[device]) first[device]->run_until(first[device]->given);
    for (Stream* s : made)
        if (s->device == device) s->run_until(s->given);
}

inline std::map<const char*, int64_t> pinned_blocks;

inline bool is_pinned(const void* p) {
    std::lock_guard<std::recursive_mutex> hold(mutex);
    auto after = pinned_blocks.upper_bound(static_cast<const char*>(p));
    if (after == pinned_blocks.begin()) return false;
    --after;
    return static_cast<const char*>(p) < after->first + after->second;
}

}  // namespace host
#endif
