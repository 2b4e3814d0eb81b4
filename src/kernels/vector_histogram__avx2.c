/* Extremes and counts per bin, AVX2.
 * SPDX-License-Identifier: MIT */
#include <immintrin.h>

#include "kernels/vector_histogram.h"

bool oct_extremes_f32__avx2(size_t n, const float *x, float *low, float *high) {
  __m256 least[4], most[4], poison[4];
  for (int j = 0; j < 4; j++) least[j] = _mm256_set1_ps(*low), most[j] = _mm256_set1_ps(*high), poison[j] = _mm256_setzero_ps();
  size_t i = 0;
  for (; i + 32 <= n; i += 32)
    for (int j = 0; j < 4; j++) {
      const __m256 v = _mm256_loadu_ps(x + i + 8 * (size_t)j);
      least[j] = _mm256_min_ps(v, least[j]);
      most[j] = _mm256_max_ps(v, most[j]);
      poison[j] = _mm256_fmadd_ps(v, _mm256_setzero_ps(), poison[j]); /* NaN from then on, where v is NaN or infinite */
    }
  for (int j = 1; j < 4; j++) {
    least[0] = _mm256_min_ps(least[j], least[0]);
    most[0] = _mm256_max_ps(most[j], most[0]);
    poison[0] = _mm256_add_ps(poison[j], poison[0]);
  }
  float lows[8], highs[8];
  _mm256_storeu_ps(lows, least[0]);
  _mm256_storeu_ps(highs, most[0]);
  for (int j = 0; j < 8; j++) {
    *low = lows[j] < *low ? lows[j] : *low;
    *high = highs[j] > *high ? highs[j] : *high;
  }
  const bool finite = _mm256_movemask_ps(_mm256_cmp_ps(poison[0], poison[0], _CMP_UNORD_Q)) == 0;
  return oct_extremes_f32__scalar(n - i, x + i, low, high) && finite;
}

/* Places are computed by vectors and counted one by one. Zeros, often half of all, are sent by arithmetic instead of a branch that nobody can
 * predict, to a place of their own for each lane, so that one count does not wait for the other. */
void oct_histogram_f32__avx2(size_t n, const float *x, float factor, int32_t first, uint32_t *bins, uint32_t *zeros) {
  const __m256 scale = _mm256_set1_ps(factor);
  const __m256i start = _mm256_set1_epi32(first),
                apart = _mm256_add_epi32(_mm256_set1_epi32(OCT_HISTOGRAM_BINS), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  _Alignas(32) int32_t places[64];
  size_t i = 0;
  for (; i + 64 <= n; i += 64) {
    for (size_t k = 0; k < 64; k += 8) {
      const __m256 v = _mm256_loadu_ps(x + i + k);
      const __m256i place = _mm256_sub_epi32(_mm256_cvttps_epi32(_mm256_floor_ps(_mm256_mul_ps(v, scale))), start);
      const __m256 zero = _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_EQ_OQ);
      _mm256_store_si256((__m256i *)(void *)(places + k), _mm256_blendv_epi8(place, apart, _mm256_castps_si256(zero)));
    }
    for (int k = 0; k < 64; k++) bins[places[k]]++;
  }
  for (int k = OCT_HISTOGRAM_BINS; k < OCT_HISTOGRAM_BINS + OCT_HISTOGRAM_SLOTS; k++) {
    *zeros += bins[k];
    bins[k] = 0;
  }
  oct_histogram_f32__scalar(n - i, x + i, factor, first, bins, zeros);
}
