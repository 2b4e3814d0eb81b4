/* Extremes and counts per bin: the reference.
 * SPDX-License-Identifier: MIT */
#include "kernels/vector_histogram.h"

/* x * 0 is NaN for NaN and infinities, and 0 for all else. */
bool oct_extremes_f32__scalar(size_t n, const float *x, float *low, float *high) {
  float poison = 0, least = *low, most = *high;
  for (size_t i = 0; i < n; i++) {
    least = x[i] < least ? x[i] : least;
    most = x[i] > most ? x[i] : most;
    poison += x[i] * 0.0f;
  }
  *low = least, *high = most;
  return poison == 0;
}

void oct_histogram_f32__scalar(size_t n, const float *x, float factor, int32_t first, uint32_t *bins, uint32_t *zeros) {
  for (size_t i = 0; i < n; i++) oct_histogram_one(x[i], factor, first, bins, zeros);
}
