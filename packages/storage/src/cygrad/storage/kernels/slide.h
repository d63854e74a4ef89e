/* Loops of convolutions and of sliding maxima: windows of an image laid out so that each tap of a filter is one vector load, and the three
   products of filters, windows and gradients. Vectors are the compiler's own, as wide as the instruction set has them. */
#ifndef CYGRAD_SLIDE_H
#define CYGRAD_SLIDE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Sums are kept in registers: SL_HIGH filters by SL_WIDE vectors of places, or fewer filters by SL_LONG. Sums of a
   gradient of the weight: SL_TALL taps by two vectors of filters; or, where filters are few, a vector for each of
   SL_FEW filters and SL_TAPS taps (SL_LINE of one filter), whose lanes are added up at the end. */
#if defined(__AVX512F__)
#include <immintrin.h>
#define SL_BYTES 64
enum { SL_HIGH = 8, SL_WIDE = 3, SL_LONG = 6, SL_TALL = 12, SL_FEW = 6, SL_TAPS = 4, SL_LINE = 9 };
#else
#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define SL_BYTES 32
#else
#define SL_BYTES 16
#endif
enum { SL_HIGH = 4, SL_WIDE = 3, SL_LONG = 4, SL_TALL = 6, SL_FEW = 3, SL_TAPS = 3, SL_LINE = 9 };
#endif

enum { SL_STRIP = 128 };             /* places whose gradients stay in the first-level cache */

#if defined(__clang__)
#define SL_EVEN(a, b, i) __builtin_shufflevector(a, b, i)
#else
#define SL_EVEN(a, b, i) __builtin_shuffle(a, b, i)
#endif
#define SL_INLINE static inline __attribute__((always_inline))
#define SL_UNROLL _Pragma("GCC unroll 16")

#define REAL float
#define WHOLE int32_t
#define SL(name) name##_f32
#if SL_BYTES == 64
#define SL_FMA(a, b, c) ((SL(vec))_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#elif SL_BYTES == 32
#define SL_FMA(a, b, c) ((SL(vec))_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#else
#define SL_FMA(a, b, c) ((a) * (b) + (c))
#endif
#include "slide_loops.h"
#undef REAL
#undef WHOLE
#undef SL
#undef SL_FMA

#define REAL double
#define WHOLE int64_t
#define SL(name) name##_f64
#if SL_BYTES == 64
#define SL_FMA(a, b, c) ((SL(vec))_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#elif SL_BYTES == 32
#define SL_FMA(a, b, c) ((SL(vec))_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#else
#define SL_FMA(a, b, c) ((a) * (b) + (c))
#endif
#include "slide_loops.h"

#endif
