/* What calibration does with every value: extremes, and counts per bin. All variants give the same results.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_VECTOR_HISTOGRAM_H
#define OCT_KERNELS_VECTOR_HISTOGRAM_H

#include "kernels/kernels.h"

bool oct_extremes_f32__scalar(size_t n, const float *x, float *low, float *high);
bool oct_extremes_f32__avx2(size_t n, const float *x, float *low, float *high);
bool oct_extremes_f32__avx512(size_t n, const float *x, float *low, float *high);
void oct_histogram_f32__scalar(size_t n, const float *x, float factor, int32_t first, uint32_t *bins, uint32_t *zeros);
void oct_histogram_f32__avx2(size_t n, const float *x, float factor, int32_t first, uint32_t *bins, uint32_t *zeros);
void oct_histogram_f32__avx512(size_t n, const float *x, float factor, int32_t first, uint32_t *bins, uint32_t *zeros);

static inline void oct_histogram_one(float x, float factor, int32_t first, uint32_t *bins, uint32_t *zeros) {
  if (x == 0) {
    ++*zeros;
    return;
  }
  const float position = x * factor;
  const int32_t whole = (int32_t)position;
  bins[whole - (position < (float)whole) - first]++;
}

#endif
