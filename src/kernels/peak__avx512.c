/* Peaks of 512-bit floats and reads.
 * SPDX-License-Identifier: MIT */
#include "kernels/peak.h"

#include <immintrin.h>

#define EACH_OF_12(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define DECLARE(i) __m512 c##i = _mm512_set1_ps(i);
#define MULTIPLY(i) c##i = _mm512_fmadd_ps(x, w, c##i);
#define SUM(i) sum = _mm512_add_ps(sum, c##i);

static float fma_f32(size_t rounds, const void *operands) {
  const __m512 x = _mm512_loadu_ps(operands), w = _mm512_loadu_ps((const float *)operands + 16);
  EACH_OF_12(DECLARE)
  for (size_t r = 0; r < rounds; r++) {
    EACH_OF_12(MULTIPLY)
  }
  __m512 sum = _mm512_setzero_ps();
  EACH_OF_12(SUM)
  return _mm512_cvtss_f32(sum);
}

static uint64_t read_all(const void *data, size_t bytes) {
  const __m512i *x = data;
  __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
  for (size_t i = 0; i < bytes / 64; i += 8) {
    a = _mm512_ternarylogic_epi64(a, _mm512_load_si512(x + i), _mm512_load_si512(x + i + 1), 0x96); /* exclusive or of three */
    b = _mm512_ternarylogic_epi64(b, _mm512_load_si512(x + i + 2), _mm512_load_si512(x + i + 3), 0x96);
    c = _mm512_ternarylogic_epi64(c, _mm512_load_si512(x + i + 4), _mm512_load_si512(x + i + 5), 0x96);
    d = _mm512_ternarylogic_epi64(d, _mm512_load_si512(x + i + 6), _mm512_load_si512(x + i + 7), 0x96);
  }
  return (uint64_t)_mm512_reduce_add_epi64(_mm512_xor_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(c, d)));
}

const oct_peak_kernel oct_peak__avx512 = {
    .name = "peak__avx512",
    .isa = OCT_ISA_AVX512,
    .fma_f32 = fma_f32,
    .fma_macs = 12 * 16,
    .read = read_all,
};
