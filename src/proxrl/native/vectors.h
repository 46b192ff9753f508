/* Vectors of float32 for AVX2 with FMA, or for AVX-512.

   The C code is compiled for each (setup.py); without these, PyTorch is many times faster. Both have
   the same bits: a register holds more numbers, but no number is computed in another order. */

#pragma once

#include <immintrin.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

/* Explicit vectors: GCC 12's own vectorizer miscompiles a sum of masked values at -O3. */
#ifdef __AVX512F__
typedef float lanes __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t bits __attribute__((vector_size(64), aligned(4), may_alias));
enum { LANES = 16 };
#else
typedef float lanes __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t bits __attribute__((vector_size(32), aligned(4), may_alias));
enum { LANES = 8 };
#endif

INLINE lanes load(const float *from)
{
    return *(const lanes *)from;
}

INLINE void store(float *to, lanes values)
{
    *(lanes *)to = values;
}

INLINE lanes relu(lanes values)
{
    return (lanes)((bits)values & ~(values < 0));
}

/* The gradient before a ReLU: it passes where the output is positive (or NaN). */
INLINE lanes before_relu(lanes gradient, lanes outputs)
{
    return (lanes)((bits)gradient & ~(outputs <= 0));
}
