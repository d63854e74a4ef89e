#include "library.cuh"

#include <stdio.h>

// Of runtime.h, where the run time is linked in.
extern "C" __attribute__((weak)) int cyg_rt_empty_cache(void);

static thread_local char said[256] = "";

// What a call of the library's left behind is no error of the next launch.
static void forget_error() {
#ifndef CYG_HOST
    cudaGetLastError();
#endif
}

int cyg_library_failed(const char* function, int status, const char* text) {
    forget_error();
    snprintf(said, sizeof(said), "%s returned %d%s%s", function, status, text ? ", " : "", text ? text : "");
    return CYG_LIBRARY_FAILED;
}

const char* cyg_library_said(void) { return said; }

bool cyg_make_room(void) {
    forget_error();
    return cyg_rt_empty_cache && cyg_rt_empty_cache() == 0;
}

int CygHandles::of(void* stream, CygCreate create, CygSetStream set, const char* name, void** handle) {
    int device = 0;
#ifndef CYG_HOST
    const cudaError_t error = cudaGetDevice(&device);
    if (error != cudaSuccess) return (int)error;
#endif
    const auto found = made.find({device, stream});
    int status = 0;
    if (found != made.end()) {
        *handle = found->second;
    } else {
        status = create(handle);
        if (status != 0 && cyg_make_room()) status = create(handle);
        if (status == 0) made[{device, stream}] = *handle;
    }
    if (status == 0) status = set(*handle, stream);
    return status == 0 ? 0 : cyg_library_failed(name, status, nullptr);
}
