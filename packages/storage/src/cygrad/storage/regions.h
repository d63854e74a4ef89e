/* Regions without the GIL, counted. A loop that runs in one reads memory through pointers that it took from tensors
   before; meanwhile another thread may hold the GIL and want to take that memory away (x.data = y, resize_, out=). It
   calls cyg_settle first, which waits until no region is open. While somebody waits, regions that begin keep the GIL,
   so the wait ends with the loops that run now.

   Every `with nogil` and `prange(nogil=True)` of a module that includes abi.pxi is counted, because PyEval_SaveThread,
   by which Cython begins them, is redefined here. The counters are read and written with the GIL held only. */
#ifndef CYGRAD_REGIONS_H
#define CYGRAD_REGIONS_H
#include <stdint.h>
#include <time.h>

typedef struct {
    int64_t open;       /* regions that run without the GIL */
    int64_t waiting;    /* threads inside cyg_settle */
} cyg_regions_t;

static cyg_regions_t cyg_own_regions;                     /* core's are everybody's */
static cyg_regions_t *cyg_regions = &cyg_own_regions;
static char cyg_kept;                                     /* its address stands for a region that kept the GIL */

static inline PyThreadState *cyg_region_begin(void)
{
    if (cyg_regions->waiting) return (PyThreadState *)&cyg_kept;
    cyg_regions->open++;
    return PyEval_SaveThread();
}

static inline void cyg_region_end(PyThreadState *state)
{
    if (state == (PyThreadState *)&cyg_kept) return;
    PyEval_RestoreThread(state);
    cyg_regions->open--;
}

/* Returns with the GIL held and no region open; -1 with an exception set if a signal handler raised one meanwhile. */
static inline int cyg_settle(void)
{
    struct timespec pause = {0, 50000};
    PyThreadState *state;
    int failed = 0;
    if (cyg_regions->open == 0) return 0;
    cyg_regions->waiting++;
    while (cyg_regions->open && !failed) {
        state = PyEval_SaveThread();
        nanosleep(&pause, NULL);
        PyEval_RestoreThread(state);
        failed = PyErr_CheckSignals();
    }
    cyg_regions->waiting--;
    return failed;
}

/* In a forked child the other threads' regions do not exist. */
static inline void cyg_forked(void) { cyg_regions->open = cyg_regions->waiting = 0; }

#define PyEval_SaveThread cyg_region_begin
#define PyEval_RestoreThread cyg_region_end
#endif
