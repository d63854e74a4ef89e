/* The run time below the device kernels, as C sees it: devices, memory, copies, streams, events.

   All functions return 0 or a cudaError_t, unless they return nothing. Devices count from 0. A stream is a cudaStream_t; NULL
   is the default one. Every thread has a current device and, for each device, a current stream. */
#ifndef CYGRAD_RUNTIME_H
#define CYGRAD_RUNTIME_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CYG_TO_DEVICE = 1, CYG_TO_HOST = 2, CYG_ON_DEVICES = 3 };   /* directions of a copy, as cudaMemcpyKind has them */

typedef struct {
    int64_t allocated, reserved, active, most_allocated, most_reserved, most_active;    /* bytes of one device; active: not free yet */
    int64_t segments, retries, failures;
} cyg_memory;

typedef struct {
    char name[256];
    int64_t total;
    int major, minor, processors, warp;
} cyg_properties;

int cyg_rt_count(int* n);
const char* cyg_rt_message(int code);
int cyg_rt_properties(int device, cyg_properties* p);

int cyg_rt_chosen(void);                      /* the device that the user chose for this thread */
void cyg_rt_choose(int device);
int cyg_rt_enter(int device, void** stream);  /* makes it current for CUDA, and says where its work goes */
int cyg_rt_synchronize(int device);

int cyg_rt_alloc(int device, int64_t nbytes, void** p);            /* for use on the current stream */
void cyg_rt_free(int device, void* p);                             /* what the stream was given before is still right */
int cyg_rt_used_on(int device, void* p, void* stream);             /* a stream beside the one it was allocated for */
int cyg_rt_empty_cache(void);
void cyg_rt_memory(int device, cyg_memory* m);
void cyg_rt_reset_peak(int device);
int cyg_rt_free_bytes(int device, int64_t* free_bytes, int64_t* total);
void cyg_rt_limit(int device, int64_t nbytes);                     /* reserve no more than so many; negative: no limit */
int cyg_rt_pinned(int64_t nbytes, void** p);
int cyg_rt_unpin(void* p);
int cyg_rt_is_pinned(const void* p);

int cyg_rt_copy(void* to, const void* from, int64_t nbytes, int direction, int device, int from_device, void* stream);

int cyg_rt_stream_new(int device, int priority, void** stream);
int cyg_rt_stream_wait(int device, void* stream, void* event);
int cyg_rt_stream_query(int device, void* stream, int* done);
int cyg_rt_stream_synchronize(int device, void* stream);
void cyg_rt_stream_choose(int device, void* stream);
void* cyg_rt_stream_chosen(int device);

int cyg_rt_event_new(int device, int timed, void** event);
int cyg_rt_event_end(void* event);
int cyg_rt_event_record(int device, void* event, void* stream);
int cyg_rt_event_query(void* event, int* done);
int cyg_rt_event_synchronize(void* event);
int cyg_rt_event_elapsed(void* begin, void* end, float* milliseconds);

#ifdef __cplusplus
}
#endif
#endif
