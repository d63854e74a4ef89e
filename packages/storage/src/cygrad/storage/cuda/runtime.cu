/* Devices, memory, copies, streams and events: the functions of runtime.h over the platform. */
#include "runtime.h"

#include <cstring>
#ifndef CYG_HOST
#include <dlfcn.h>
#endif
#include <memory>

#include "allocator.cuh"
#include "platform.cuh"

namespace {

constexpr int MOST = 64;                     /* devices that are told apart */

struct Chosen {
    int device = 0;                          /* by the user */
    void* streams[MOST] = {};
};

thread_local Chosen chosen;
#ifdef CYG_HOST
thread_local int current = 0;
#endif
std::unique_ptr<cyg::Allocator> allocators[MOST];
std::mutex making;

cyg::Allocator* made(int device) {
    std::lock_guard<std::mutex> hold(making);
    return allocators[device].get();
}

cyg::Allocator& allocator(int device) {
    std::lock_guard<std::mutex> hold(making);
    if (!allocators[device]) allocators[device] = std::make_unique<cyg::Allocator>(device);
    return *allocators[device];
}

/* The device that CUDA takes for this thread's work. Other libraries change it too, so it is asked for, not remembered. */
int set_current(int device) {
#ifdef CYG_HOST
    current = device;
    return 0;
#else
    int now = -1;
    cudaError_t failed = cudaGetDevice(&now);
    return failed || now == device ? failed : cudaSetDevice(device);
#endif
}

/* Whether somebody uses a device: to make another one current would cost it a context, some 500 MB. */
bool has_context(int device) {
#ifdef CYG_HOST
    (void)device;
    return true;
#else
    typedef int (*State)(int device, unsigned* flags, int* active);          /* of cuda.h */
    static const State state = [] {
        void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        return driver ? reinterpret_cast<State>(dlsym(driver, "cuDevicePrimaryCtxGetState")) : nullptr;
    }();
    unsigned flags;
    int active = 0;
    return state && state(device, &flags, &active) == 0 && active;
#endif
}

/* A device made current for one call of CUDA; then the one that was, for other libraries in this thread. */
struct On {
    int before = -1, failed = 0;
    explicit On(int device) {
#ifdef CYG_HOST
        before = current;
#else
        failed = cudaGetDevice(&before);
#endif
        if (!failed) failed = set_current(device);
        if (before == device) before = -1;
    }
    ~On() {
        if (before >= 0 && has_context(before)) set_current(before);
    }
};

}  // namespace

#ifndef CYG_HOST

namespace {

/* The device for what belongs to none: the chosen one, unless it is not in use and another one is. */
int used_device() {
    int count = 0;
    if (has_context(chosen.device) || cudaGetDeviceCount(&count) != cudaSuccess) return chosen.device;
    for (int device = 0; device < count; device++)
        if (has_context(device)) return device;
    return chosen.device;
}

/* An error that a call reports is not left behind for the next one to find. */
int told(cudaError_t code) {
    if (code != cudaSuccess) cudaGetLastError();
    return code;
}

cudaStream_t as_stream(void* s) { return static_cast<cudaStream_t>(s); }
cudaEvent_t as_event(void* e) { return static_cast<cudaEvent_t>(e); }

}  // namespace

int cyg::Source::take(void** p, int64_t nbytes) const {
    On on(device);
    return on.failed ? on.failed : told(cudaMalloc(p, nbytes));
}

int cyg::Source::give_back(void* p) const {
    On on(device);
    return on.failed ? on.failed : told(cudaFree(p));
}

bool cyg::Source::passed(void* event) const { return told(cudaEventQuery(as_event(event))) != cudaErrorNotReady; }
void cyg::Source::forget(void* event) const { cudaEventDestroy(as_event(event)); }

void cyg::Source::wait() const {
    On on(device);
    if (!on.failed) told(cudaDeviceSynchronize());
}

extern "C" {

int cyg_rt_count(int* n) {
    *n = 0;
    int failed = told(cudaGetDeviceCount(n));
    if (*n > MOST) *n = MOST;
    return failed;
}

const char* cyg_rt_message(int code) { return cudaGetErrorString(static_cast<cudaError_t>(code)); }

int cyg_rt_properties(int device, cyg_properties* p) {
    cudaDeviceProp found;
    int failed = told(cudaGetDeviceProperties(&found, device));
    if (failed) return failed;
    std::memcpy(p->name, found.name, sizeof(p->name));
    p->total = found.totalGlobalMem;
    p->major = found.major;
    p->minor = found.minor;
    p->processors = found.multiProcessorCount;
    p->warp = found.warpSize;
    return 0;
}

int cyg_rt_synchronize(int device) {
    On on(device);
    return on.failed ? on.failed : told(cudaDeviceSynchronize());
}

int cyg_rt_free_bytes(int device, int64_t* free_bytes, int64_t* total) {
    size_t have = 0, all = 0;
    On on(device);
    int failed = on.failed ? on.failed : told(cudaMemGetInfo(&have, &all));
    *free_bytes = have;
    *total = all;
    return failed;
}

int cyg_rt_pinned(int64_t nbytes, void** p) {
    On on(used_device());
    return on.failed ? on.failed : told(cudaHostAlloc(p, nbytes, cudaHostAllocPortable));
}
int cyg_rt_unpin(void* p) { return told(cudaFreeHost(p)); }

int cyg_rt_is_pinned(const void* p) {
    cudaPointerAttributes found;
    On on(used_device());
    return !on.failed && told(cudaPointerGetAttributes(&found, p)) == 0 && found.type == cudaMemoryTypeHost;
}

int cyg_rt_copy(void* to, const void* from, int64_t nbytes, int direction, int device, int from_device, void* stream) {
    On on(device);
    if (on.failed) return on.failed;
    if (direction == CYG_ON_DEVICES && device != from_device)
        return told(cudaMemcpyPeerAsync(to, device, from, from_device, nbytes, as_stream(stream)));
    return told(cudaMemcpyAsync(to, from, nbytes, static_cast<cudaMemcpyKind>(direction), as_stream(stream)));
}

int cyg_rt_stream_new(int device, int priority, void** stream) {
    On on(device);
    if (on.failed) return on.failed;
    return told(cudaStreamCreateWithPriority(reinterpret_cast<cudaStream_t*>(stream), cudaStreamNonBlocking, priority));
}

int cyg_rt_stream_wait(int device, void* stream, void* event) {
    On on(device);
    return on.failed ? on.failed : told(cudaStreamWaitEvent(as_stream(stream), as_event(event), 0));
}

int cyg_rt_stream_query(int device, void* stream, int* done) {
    On on(device);
    int code = on.failed ? on.failed : told(cudaStreamQuery(as_stream(stream)));
    *done = code == 0;
    return code == cudaErrorNotReady ? 0 : code;
}

int cyg_rt_stream_synchronize(int device, void* stream) {
    On on(device);
    return on.failed ? on.failed : told(cudaStreamSynchronize(as_stream(stream)));
}

int cyg_rt_event_new(int device, int timed, void** event) {
    On on(device);
    if (on.failed) return on.failed;
    return told(cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t*>(event), timed ? cudaEventDefault : cudaEventDisableTiming));
}

int cyg_rt_event_end(void* event) { return told(cudaEventDestroy(as_event(event))); }

int cyg_rt_event_record(int device, void* event, void* stream) {
    On on(device);
    return on.failed ? on.failed : told(cudaEventRecord(as_event(event), as_stream(stream)));
}

int cyg_rt_event_query(void* event, int* done) {
    int code = told(cudaEventQuery(as_event(event)));
    *done = code == 0;
    return code == cudaErrorNotReady ? 0 : code;
}

int cyg_rt_event_synchronize(void* event) { return told(cudaEventSynchronize(as_event(event))); }
int cyg_rt_event_elapsed(void* begin, void* end, float* ms) { return told(cudaEventElapsedTime(ms, as_event(begin), as_event(end))); }

}  // extern "C"

#else  /* the processor as a device: see platform.cuh */

int cyg::Source::take(void** p, int64_t nbytes) const { return host::take(device, p, nbytes); }

int cyg::Source::give_back(void* p) const {
    host::finish(device);
    return host::give_back(device, p);
}

bool cyg::Source::passed(void* event) const { return static_cast<host::Event*>(event)->mark->passed(); }
void cyg::Source::forget(void* event) const { cyg_rt_event_end(event); }
void cyg::Source::wait() const { host::finish(device); }

typedef std::lock_guard<std::recursive_mutex> Hold;

static int give(int device, void* stream, std::function<void()> work) {
    Hold hold(host::mutex);
    host::Stream* s = host::stream_of(device, stream);
    if (!s) return cudaErrorInvalidResourceHandle;
    s->give(std::move(work));
    return 0;
}

int cyg_host_give(void* stream, std::function<void()> work) { return give(current, stream, std::move(work)); }

int cyg_host_now(void* stream, const std::function<int()>& call) {
    Hold hold(host::mutex);
    int failed = cyg_rt_stream_synchronize(current, stream);
    if (failed) return failed;
    host::enter();
    int code = call();
    host::leave();
    return code;
}

extern "C" {

int cyg_rt_count(int* n) {
    *n = host::devices();
    return 0;
}

const char* cyg_rt_message(int code) {
    switch (code) {
        case cudaErrorMemoryAllocation: return "out of memory";
        case cudaErrorInvalidValue: return "invalid argument";
        case cudaErrorInvalidConfiguration: return "invalid configuration argument";
        case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    }
    return "an error";
}

int cyg_rt_properties(int, cyg_properties* p) {
    std::strcpy(p->name, "the processor, as a device");
    p->total = host::ARENA;
    p->major = p->minor = 0;
    p->processors = p->warp = 1;
    return 0;
}

int cyg_rt_synchronize(int device) {
    host::finish(device);
    return 0;
}

int cyg_rt_free_bytes(int device, int64_t* free_bytes, int64_t* total) {
    *total = host::ARENA;
    *free_bytes = host::ARENA - host::arenas[device].end;
    return 0;
}

int cyg_rt_pinned(int64_t nbytes, void** p) {
    Hold hold(host::mutex);
    if (posix_memalign(p, 4096, nbytes)) return cudaErrorMemoryAllocation;
    host::pinned_blocks[static_cast<char*>(*p)] = nbytes;
    return 0;
}

int cyg_rt_unpin(void* p) {
    Hold hold(host::mutex);
    host::pinned_blocks.erase(static_cast<char*>(p));
    std::free(p);
    return 0;
}

int cyg_rt_is_pinned(const void* p) { return host::is_pinned(p); }

/* Pageable memory is read before the call returns, and written before it does, as CUDA has it. */
int cyg_rt_copy(void* to, const void* from, int64_t nbytes, int direction, int device, int, void* stream) {
    if (direction == CYG_TO_DEVICE && !host::is_pinned(from)) {
        auto bytes = std::make_shared<std::vector<char>>(static_cast<const char*>(from), static_cast<const char*>(from) + nbytes);
        return give(device, stream, [=] { std::memcpy(to, bytes->data(), nbytes); });
    }
    int failed = give(device, stream, [=] { std::memmove(to, from, nbytes); });
    if (failed || direction != CYG_TO_HOST || host::is_pinned(to)) return failed;
    return cyg_rt_stream_synchronize(device, stream);
}

int cyg_rt_stream_new(int device, int, void** stream) {
    Hold hold(host::mutex);
    host::Stream* s = new host::Stream(device);
    host::made.insert(s);
    *stream = s;
    return 0;
}

int cyg_rt_stream_wait(int device, void* stream, void* event) {
    std::shared_ptr<host::Mark> mark = static_cast<host::Event*>(event)->mark;
    return mark ? give(device, stream, [mark] { mark->stream->run_until(mark->ticket); }) : 0;
}

/* What only asks lets one piece of work be done, so that asking again and again comes to an end. */
int cyg_rt_stream_query(int device, void* stream, int* done) {
    Hold hold(host::mutex);
    host::Stream* s = host::stream_of(device, stream);
    if (!s) return cudaErrorInvalidResourceHandle;
    *done = s->work.empty();
    if (!*done) s->run_one();
    return 0;
}

int cyg_rt_stream_synchronize(int device, void* stream) {
    Hold hold(host::mutex);
    host::Stream* s = host::stream_of(device, stream);
    if (!s) return cudaErrorInvalidResourceHandle;
    s->run_until(s->given);
    return 0;
}

int cyg_rt_event_new(int, int, void** event) {
    *event = new host::Event;
    return 0;
}

int cyg_rt_event_end(void* event) {
    delete static_cast<host::Event*>(event);
    return 0;
}

int cyg_rt_event_record(int device, void* event, void* stream) {
    Hold hold(host::mutex);
    host::Stream* s = host::stream_of(device, stream);
    if (!s) return cudaErrorInvalidResourceHandle;
    auto mark = std::make_shared<host::Mark>(host::Mark{s, s->given + 1, {}});
    static_cast<host::Event*>(event)->mark = mark;
    s->give([mark] { mark->at = std::chrono::steady_clock::now(); });
    return 0;
}

int cyg_rt_event_query(void* event, int* done) {
    Hold hold(host::mutex);
    std::shared_ptr<host::Mark> mark = static_cast<host::Event*>(event)->mark;
    *done = !mark || mark->passed();
    if (!*done) mark->stream->run_one();
    return 0;
}

int cyg_rt_event_synchronize(void* event) {
    Hold hold(host::mutex);
    std::shared_ptr<host::Mark> mark = static_cast<host::Event*>(event)->mark;
    if (mark) mark->stream->run_until(mark->ticket);
    return 0;
}

int cyg_rt_event_elapsed(void* begin, void* end, float* ms) {
    Hold hold(host::mutex);
    std::shared_ptr<host::Mark> a = static_cast<host::Event*>(begin)->mark, b = static_cast<host::Event*>(end)->mark;
    if (!a || !b) return cudaErrorInvalidValue;
    if (!a->passed() || !b->passed()) return cudaErrorNotReady;
    *ms = std::chrono::duration<float, std::milli>(b->at - a->at).count();
    return 0;
}

}  // extern "C"

#endif

int cyg::Source::mark(void* stream, void** event) const {
    int failed = cyg_rt_event_new(device, 0, event);
    if (failed) return failed;
    failed = cyg_rt_event_record(device, *event, stream);
    if (failed) cyg_rt_event_end(*event);
    return failed;
}

extern "C" {

int cyg_rt_chosen(void) { return chosen.device; }
void cyg_rt_choose(int device) { chosen.device = device; }

int cyg_rt_enter(int device, void** stream) {
    *stream = chosen.streams[device];
    return set_current(device);
}

int cyg_rt_alloc(int device, int64_t nbytes, void** p) { return allocator(device).alloc(nbytes, chosen.streams[device], p); }
void cyg_rt_free(int device, void* p) { allocator(device).free(p); }

int cyg_rt_used_on(int device, void* p, void* stream) {
    allocator(device).used_on(p, stream);
    return 0;
}

int cyg_rt_empty_cache(void) {
    int failed = 0;
    for (int device = 0; device < MOST; device++) {
        cyg::Allocator* of = made(device);
        int code = of ? of->empty() : 0;
        failed = failed ? failed : code;
    }
    return failed;
}

void cyg_rt_memory(int device, cyg_memory* m) { allocator(device).memory(m); }
void cyg_rt_reset_peak(int device) { allocator(device).reset_peak(); }
void cyg_rt_limit(int device, int64_t nbytes) { allocator(device).set_limit(nbytes); }
void cyg_rt_stream_choose(int device, void* stream) { chosen.streams[device] = stream; }
void* cyg_rt_stream_chosen(int device) { return chosen.streams[device]; }

}  // extern "C"
