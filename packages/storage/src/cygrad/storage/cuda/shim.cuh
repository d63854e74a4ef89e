// One source for nvcc and, with -DCYG_HOST, for a C++ compiler: there a launch is a loop over blocks, and a phase of a
// kernel is a loop over the threads of a block. Invariant: kernels talk between threads only through shared memory and only
// across CYG_SYNC, so both readings give the same numbers.
//
// A kernel is a struct of arguments with `enum { THREADS = ... }` and `operator()(Grid g) const`. Its body is made of phases:
//
//     CYG_SHARED(float, part, THREADS);
//     CYG_EACH_THREAD(t) { part[t] = ...; }
//     CYG_SYNC();
//
// What a thread keeps from one phase to the next is a CYG_LOCAL or CYG_LOCAL_ARRAY: on the device a register, on the host one of each thread.
#ifndef CYGRAD_SHIM_CUH
#define CYGRAD_SHIM_CUH

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels.h"

#ifdef CYG_HOST
#include <functional>
#endif

struct Grid {
    int64_t block, blocks;
};

#ifdef CYG_HOST

#define CYG_FN static inline
#define CYG_CALL static
#define CYG_LONG
#define CYG_IN inline
#define CYG_BODY inline
#define CYG_TABLE static const
#define CYG_EACH_THREAD(t) for (int t = 0; t < THREADS; t++)
#define CYG_SYNC() ((void)0)
#define CYG_SHARED(T, name, count) static thread_local T name[count]
#define CYG_LOCAL(T, name) T name##_of[THREADS]
#define CYG_LOCAL_ARRAY(T, name, count) T name##_of[THREADS][count]
#define CYG_MY(name, t) name##_of[t]
#define CYG_UNROLL
#define CYG_ROLLED
#define CYG_UNROLL_2
#define CYG_UNROLL_4

// Of the run time, where one is linked in: work for a stream, and what a library does in the place of work.
__attribute__((weak)) int cyg_host_give(void* stream, std::function<void()> work);
__attribute__((weak)) int cyg_host_now(void* stream, const std::function<int()>& call);

template <class K> static int cyg_launch(const K& k, int64_t blocks, void* stream) {
    if (blocks <= 0) return 0;
    if (blocks > INT32_MAX) return 9;        // cudaErrorInvalidConfiguration
    auto work = [k, blocks] {
        for (int64_t b = 0; b < blocks; b++) k(Grid{b, blocks});
    };
    if (cyg_host_give) return cyg_host_give(stream, work);
    work();
    return 0;
}

#else

#include <cuda_runtime.h>

#define CYG_FN static __host__ __device__ __forceinline__
#define CYG_LONG __host__ __device__ __noinline__
#define CYG_CALL static CYG_LONG      // long, and rarely run
#define CYG_IN __host__ __device__ __forceinline__
#define CYG_BODY __device__ __forceinline__
#define CYG_TABLE static __device__ const
#define CYG_EACH_THREAD(t) if (const int t = threadIdx.x; true)
#define CYG_SYNC() __syncthreads()
#define CYG_SHARED(T, name, count) __shared__ T name[count]
#define CYG_LOCAL(T, name) T name##_of
#define CYG_LOCAL_ARRAY(T, name, count) T name##_of[count]
#define CYG_MY(name, t) name##_of
#define CYG_UNROLL _Pragma("unroll")
#define CYG_ROLLED _Pragma("unroll 1")     // a step with a barrier: copies of it would take time to compile, and gain none
#define CYG_UNROLL_2 _Pragma("unroll 2")
#define CYG_UNROLL_4 _Pragma("unroll 4")

template <class K> __global__ void __launch_bounds__(K::THREADS) cyg_kernel(const __grid_constant__ K k) {
    k(Grid{blockIdx.x, gridDim.x});
}

template <class K> static int cyg_launch(const K& k, int64_t blocks, void* stream) {
    if (blocks <= 0) return 0;
    if (blocks > INT32_MAX) return (int)cudaErrorInvalidConfiguration;
    cyg_kernel<K><<<(unsigned)blocks, K::THREADS, 0, (cudaStream_t)stream>>>(k);
    return (int)cudaGetLastError();
}

#endif

template <class T> CYG_FN T cyg_min(T a, T b) { return b < a ? b : a; }
template <class T> CYG_FN T cyg_max(T a, T b) { return a < b ? b : a; }
CYG_FN int64_t cyg_parts(int64_t n, int64_t per) { return (n + per - 1) / per; }

// Work in which threads have nothing to tell each other: `one(i)` for each i below `count`.
template <class Work> struct Each {
    enum { THREADS = 256 };
    Work work;
    int64_t count;
    CYG_BODY void operator()(Grid g) const {
        CYG_EACH_THREAD(t) {
            const int64_t i = g.block * THREADS + t;
            if (i < count) work.one(i);
        }
    }
};
template <class Work> static int cyg_each(const Work& work, int64_t count, void* stream) {
    return cyg_launch(Each<Work>{work, count}, cyg_parts(count, Each<Work>::THREADS), stream);
}

#endif
