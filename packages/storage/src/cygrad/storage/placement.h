/* Where the threads of a team run: not on the core of the thread that waits for them.

   A sleeping thread is often woken on the core of the one that wakes it, though another has nothing to do; then the two take
   turns, and a loop takes as long as on one core. So each worker takes that core out of its own affinity mask, and whenever
   the thread that opens regions has moved to another core, a small region tells the workers. A worker only ever asks for
   cores that it had before. Where the machine has other work, the mask is given back: who is kept off a core has to
   wait for another.

   Nothing is done where OpenMP was told to bind its threads (OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY). */
#ifndef CYGRAD_PLACEMENT_H
#define CYGRAD_PLACEMENT_H

#if defined(__linux__) && defined(_OPENMP)
#include <fcntl.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { CYG_NOWHERE = -1, CYG_LOOK_MS = 250 };

/* of a worker: its mask before, and the one that it asked for last (where it is another by now, somebody else decides) */
static __thread cpu_set_t cyg_mask_before, cyg_mask_asked;
static __thread char cyg_mask_known;

/* of a thread that opens regions: the core that its workers keep off, how many they are, when it looked for other work */
static __thread int cyg_kept_off = CYG_NOWHERE, cyg_kept_team;
static __thread int64_t cyg_looked_at = -CYG_LOOK_MS;
static __thread char cyg_has_spare;

static void cyg_keep_off(int cpu)
{
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return;
    if (!cyg_mask_known || !CPU_EQUAL(&mask, &cyg_mask_asked)) cyg_mask_before = mask;
    cyg_mask_known = 1;
    mask = cyg_mask_before;
    if (cpu != CYG_NOWHERE) CPU_CLR(cpu, &mask);
    if (CPU_COUNT(&mask) == 0) mask = cyg_mask_before;
    if (sched_setaffinity(0, sizeof(mask), &mask) == 0) cyg_mask_asked = mask;
}

/* Whether less than half of the cores have other work at this moment. */
static char cyg_find_spare(void)
{
    char text[128];
    const char *p = text;
    long running = 0;
    int file = open("/proc/loadavg", O_RDONLY | O_CLOEXEC), field;
    ssize_t n = file < 0 ? 0 : read(file, text, sizeof(text) - 1);
    if (file >= 0) close(file);
    text[n > 0 ? n : 0] = 0;
    for (field = 0; field < 3; field++) {                 /* three averages, then threads running, this one among them */
        while (*p && *p != ' ') p++;
        if (*p) p++;
    }
    if (sscanf(p, "%ld/", &running) != 1) return 0;
    return 2 * (running - 1) < sysconf(_SC_NPROCESSORS_ONLN);
}

static void cyg_place_team(int team)
{
    struct timespec t;
    int64_t now;
    int cpu;
    if (omp_get_proc_bind() != omp_proc_bind_false) return;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    now = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
    if (now - cyg_looked_at >= CYG_LOOK_MS) {
        cyg_has_spare = cyg_find_spare();
        cyg_looked_at = now;
    }
    cpu = cyg_has_spare ? sched_getcpu() : CYG_NOWHERE;
    if (cpu == cyg_kept_off && (team <= cyg_kept_team || cpu == CYG_NOWHERE)) return;
    cyg_kept_off = cpu;
    cyg_kept_team = team;
    #pragma omp parallel num_threads(team)
    {
        if (omp_get_thread_num() > 0) cyg_keep_off(cpu);
    }
}
#else
static void cyg_place_team(int team) { (void)team; }
#endif
#endif
