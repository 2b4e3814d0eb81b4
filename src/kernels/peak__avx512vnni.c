/* Peak of the 512-bit dot product of 8-bit integers.
 * SPDX-License-Identifier: MIT */
#include "kernels/peak.h"

#include <immintrin.h>

#define EACH_OF_12(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define DECLARE(i) __m512i c##i = _mm512_set1_epi32(i);
#define MULTIPLY(i) c##i = _mm512_dpbusd_epi32(c##i, x, w);
#define SUM(i) sum = _mm512_xor_si512(sum, c##i);

static uint32_t dot_i8(size_t rounds, const void *operands) {
  const __m512i x = _mm512_loadu_si512(operands), w = _mm512_loadu_si512((const __m512i *)operands + 1);
  EACH_OF_12(DECLARE)
  for (size_t r = 0; r < rounds; r++) {
    EACH_OF_12(MULTIPLY)
  }
  __m512i sum = _mm512_setzero_si512();
  EACH_OF_12(SUM)
  return (uint32_t)_mm512_reduce_add_epi32(sum);
}

const oct_peak_kernel oct_peak__avx512vnni = {
    .name = "peak__avx512vnni",
    .isa = OCT_ISA_AVX512VNNI,
    .dot_i8 = dot_i8,
    .dot_macs = 12 * 64,
};
