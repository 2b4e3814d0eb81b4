/* Extremes and counts per bin, AVX-512.
 * SPDX-License-Identifier: MIT */
#include "kernels/vector_histogram.h"
#include "kernels/vector_range__avx512.h"

bool oct_extremes_f32__avx512(size_t n, const float *x, float *low, float *high) {
  __m512 least[4], most[4], poison[4];
  for (int j = 0; j < 4; j++) least[j] = _mm512_set1_ps(*low), most[j] = _mm512_set1_ps(*high), poison[j] = _mm512_setzero_ps();
  size_t i = 0;
  for (; i + 64 <= n; i += 64)
    for (int j = 0; j < 4; j++) {
      const __m512 v = _mm512_loadu_ps(x + i + 16 * (size_t)j);
      least[j] = _mm512_min_ps(v, least[j]);
      most[j] = _mm512_max_ps(v, most[j]);
      poison[j] = _mm512_fmadd_ps(v, _mm512_setzero_ps(), poison[j]); /* NaN from then on, where v is NaN or infinite */
    }
  for (; i < n; i += 16) {
    const __mmask16 mask = mask16(n - i);
    const __m512 v = _mm512_maskz_loadu_ps(mask, x + i);
    least[0] = _mm512_mask_min_ps(least[0], mask, v, least[0]);
    most[0] = _mm512_mask_max_ps(most[0], mask, v, most[0]);
    poison[0] = _mm512_fmadd_ps(v, _mm512_setzero_ps(), poison[0]);
  }
  for (int j = 1; j < 4; j++) {
    least[0] = _mm512_min_ps(least[j], least[0]);
    most[0] = _mm512_max_ps(most[j], most[0]);
    poison[0] = _mm512_add_ps(poison[j], poison[0]);
  }
  *low = _mm512_reduce_min_ps(least[0]);
  *high = _mm512_reduce_max_ps(most[0]);
  return _mm512_cmp_ps_mask(poison[0], poison[0], _CMP_UNORD_Q) == 0;
}

/* Places are computed by vectors and counted one by one; zeros, often half of all, do not reach the counters. */
void oct_histogram_f32__avx512(size_t n, const float *x, float factor, int32_t first, uint32_t *bins, uint32_t *zeros) {
  const __m512 scale = _mm512_set1_ps(factor);
  const __m512i start = _mm512_set1_epi32(first);
  _Alignas(64) int32_t places[64];
  uint32_t skipped = 0;
  for (size_t i = 0; i < n; i += 64) {
    int count = 0;
    for (size_t k = i; k < n && k < i + 64; k += 16) {
      const __mmask16 mask = mask16(n - k);
      const __m512 v = _mm512_maskz_loadu_ps(mask, x + k);
      const __mmask16 used = _mm512_mask_cmp_ps_mask(mask, v, _mm512_setzero_ps(), _CMP_NEQ_OQ);
      const __m512i place =
          _mm512_sub_epi32(_mm512_cvt_roundps_epi32(_mm512_mul_ps(v, scale), _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC), start);
      _mm512_storeu_si512(places + count, _mm512_maskz_compress_epi32(used, place));
      const int taken = __builtin_popcount(used);
      count += taken;
      skipped += (uint32_t)(__builtin_popcount(mask) - taken);
    }
    for (int k = 0; k < count; k++) bins[places[k]]++;
  }
  *zeros += skipped;
}
