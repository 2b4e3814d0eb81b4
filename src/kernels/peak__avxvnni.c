/* Peak of the 256-bit dot product: as AVX-VNNI, and, with OCT_AVXVNNI_AS_AVX512VL, in its AVX-512 encoding.
 * SPDX-License-Identifier: MIT */
#include "kernels/peak.h"

#include <immintrin.h>

#ifdef OCT_AVXVNNI_AS_AVX512VL
#define DOT(acc, x, w) _mm256_dpbusd_epi32(acc, x, w)
#else
#define DOT(acc, x, w) _mm256_dpbusd_avx_epi32(acc, x, w)
#endif

#define EACH_OF_12(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define DECLARE(i) __m256i c##i = _mm256_set1_epi32(i);
#define MULTIPLY(i) c##i = DOT(c##i, x, w);
#define SUM(i) sum = _mm256_xor_si256(sum, c##i);

static uint32_t dot_i8(size_t rounds, const void *operands) {
  const __m256i x = _mm256_loadu_si256(operands), w = _mm256_loadu_si256((const __m256i *)operands + 1);
  EACH_OF_12(DECLARE)
  for (size_t r = 0; r < rounds; r++) {
    EACH_OF_12(MULTIPLY)
  }
  __m256i sum = _mm256_setzero_si256();
  EACH_OF_12(SUM)
  return (uint32_t)_mm256_extract_epi32(sum, 0);
}

#ifdef OCT_AVXVNNI_AS_AVX512VL
const oct_peak_kernel oct_peak__avx512vl = {
    .name = "peak__avx512vl",
    .isa = OCT_ISA_AVX512VNNI,
#else
const oct_peak_kernel oct_peak__avxvnni = {
    .name = "peak__avxvnni",
    .isa = OCT_ISA_AVXVNNI,
#endif
    .dot_i8 = dot_i8,
    .dot_macs = 12 * 32,
};
