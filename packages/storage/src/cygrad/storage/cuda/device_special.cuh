// special.h for the device, which has no extended precision: where the CPU's functions use it, the last digits differ.
#ifndef CYGRAD_DEVICE_SPECIAL_CUH
#define CYGRAD_DEVICE_SPECIAL_CUH

#include "shim.cuh"

#ifdef CYG_HOST
#define SP_FN static inline
static inline double sp_lgamma(double x) { int sign; return lgamma_r(x, &sign); }
#else
#define SP_FN static __host__ __device__ inline
SP_FN double sp_lgamma(double x) { return lgamma(x); }
#endif
#define SP_TABLE CYG_TABLE
#define SP_LONG(name) name
typedef double sp_long;
#include "special.h"

#endif
