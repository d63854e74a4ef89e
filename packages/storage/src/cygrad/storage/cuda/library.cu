#include "library.cuh"

#include <stdio.h>

static thread_local char said[256] = "";

int cyg_library_failed(const char* function, int status, const char* text) {
    snprintf(said, sizeof(said), "%s returned %d%s%s", function, status, text ? ", " : "", text ? text : "");
    return CYG_LIBRARY_FAILED;
}

const char* cyg_library_said(void) { return said; }

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
        if (status == 0) made[{device, stream}] = *handle;
    }
    if (status == 0) status = set(*handle, stream);
    return status == 0 ? 0 : cyg_library_failed(name, status, nullptr);
}
