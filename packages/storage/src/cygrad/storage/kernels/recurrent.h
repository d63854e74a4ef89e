/* Recurrent layers: all steps of a few sequences in one call. A step is a product of the states with packed weights and a
   loop over the gates; going back, the same with the gradients. Sequences do not depend on one another, so threads share
   them and never wait for each other between steps.

   Each element of a product is one sum in the order of the weights' rows, whatever rows and columns stand beside it. */
#ifndef CYGRAD_RECURRENT_H
#define CYGRAD_RECURRENT_H

#include "recurrent_plan.h"
#include "vecmath.h"

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define TALL 8                     /* rows of a tile: as many as there are registers for */
#else
#define TALL 4
#endif
#define WIDE 2                     /* vectors of a tile's row */

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

#define REAL float
#define NAME(x) x##_f32
#define VM_NAME(x) vm_##x##_f32
#if defined(__AVX512F__)
#define FUSED(a, b, c) ((NAME(Vector))_mm512_fmadd_ps(_mm512_set1_ps(a), (__m512)(b), (__m512)(c)))
#elif defined(__AVX2__) && defined(__FMA__)
#define FUSED(a, b, c) ((NAME(Vector))_mm256_fmadd_ps(_mm256_set1_ps(a), (__m256)(b), (__m256)(c)))
#else
#define FUSED(a, b, c) ((a) * (b) + (c))
#endif
#include "recurrent_steps.h"
#undef REAL
#undef NAME
#undef VM_NAME
#undef FUSED

#define REAL double
#define NAME(x) x##_f64
#define VM_NAME(x) vm_##x##_f64
#if defined(__AVX512F__)
#define FUSED(a, b, c) ((NAME(Vector))_mm512_fmadd_pd(_mm512_set1_pd(a), (__m512d)(b), (__m512d)(c)))
#elif defined(__AVX2__) && defined(__FMA__)
#define FUSED(a, b, c) ((NAME(Vector))_mm256_fmadd_pd(_mm256_set1_pd(a), (__m256d)(b), (__m256d)(c)))
#else
#define FUSED(a, b, c) ((a) * (b) + (c))
#endif
#include "recurrent_steps.h"
#undef REAL
#undef NAME
#undef VM_NAME
#undef FUSED

#endif
