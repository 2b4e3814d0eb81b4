/* Vector kernels, AVX-512 (vector_dense__avx512.h), with 8-bit tables by VBMI's look-up of a byte among 128.
 * SPDX-License-Identifier: MIT */
#include "kernels/vector_dense__avx512.h"

typedef struct entries256 {
  __m512i e[4];
} entries256;

/* Bits 0 to 6 of the index choose among 128 entries, bit 7 between the halves. */
INLINE __m512i table_64(__m512i v, const entries256 *t) {
  const __m512i lower = _mm512_permutex2var_epi8(t->e[0], v, t->e[1]), upper = _mm512_permutex2var_epi8(t->e[2], v, t->e[3]);
  return _mm512_mask_blend_epi8(_mm512_movepi8_mask(v), lower, upper);
}

static void table_u8(size_t n, const uint8_t *x, uint8_t *y, const uint8_t table[256]) {
  const entries256 t = {
      {_mm512_loadu_si512(table), _mm512_loadu_si512(table + 64), _mm512_loadu_si512(table + 128), _mm512_loadu_si512(table + 192)}};
  size_t i = 0;
  for (; i + 64 <= n; i += 64) _mm512_storeu_si512(y + i, table_64(_mm512_loadu_si512(x + i), &t));
  if (i == n) return;
  const __mmask64 mask = mask64(n - i);
  _mm512_mask_storeu_epi8(y + i, mask, table_64(_mm512_maskz_loadu_epi8(mask, x + i), &t));
}

const oct_vector_kernels oct_vector__avx512vbmi = {
    .name = "vector__avx512vbmi",
    .isa = OCT_ISA_AVX512VBMI,
    .table_u8 = table_u8,
    OCT_VECTOR_DENSE__AVX512,
};
