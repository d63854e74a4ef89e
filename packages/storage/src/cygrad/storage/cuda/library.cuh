// Libraries of NVIDIA's, bound when they are first asked for: their handles, and what they said when a call failed.
#ifndef CYGRAD_LIBRARY_CUH
#define CYGRAD_LIBRARY_CUH

#include <map>
#include <mutex>
#include <utility>

#include "shim.cuh"

typedef int (*CygCreate)(void** handle);
typedef int (*CygSetStream)(void* handle, void* stream);

// Keeps the name of a function that failed and its status for cyg_library_said; CYG_LIBRARY_FAILED.
int cyg_library_failed(const char* function, int status, const char* text);

// Libraries take memory of their own, which the allocator may keep for reuse: gives that back to the devices, and says whether
// what failed is worth another try.
bool cyg_make_room(void);

// One for each device and stream: what a handle keeps on the device serves one stream at a time. They are few, since streams come
// from a pool, and live as long as the process. The stream is set at each use: one of somebody else's may end, and another begin at
// its address. While one is in use, `busy` is locked: two threads may share a stream.
class CygHandles {
  public:
    std::mutex busy;

    int of(void* stream, CygCreate create, CygSetStream set, const char* name, void** handle);

  private:
    std::map<std::pair<int, void*>, void*> made;
};

#ifdef CYG_HOST
// A library works at once: behind what the stream has, with the memory of devices open.
template <class F> static int cyg_library_call(void* stream, const F& call) { return cyg_host_now ? cyg_host_now(stream, call) : call(); }
#else
template <class F> static int cyg_library_call(void*, const F& call) { return call(); }
#endif

#endif
