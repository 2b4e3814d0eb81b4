/* Vector kernels, AVX-512 (vector_dense__avx512.h), with 8-bit tables by shuffles of 16 entries.
 * SPDX-License-Identifier: MIT */
#include "kernels/vector_dense__avx512.h"

/* 32 entries of a table, each half of them in all lanes. */
typedef struct entries32 {
  __m512i even, odd;
} entries32;

INLINE entries32 entries_of(const uint8_t *table) {
  return (entries32){_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)table)),
                     _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)(table + 16)))};
}

/* 16 entries of the table per shuffle; bits 4 to 7 of the index then choose among 16 results. */
INLINE __m512i shuffle_pair(__m512i low, __mmask64 bit4, entries32 e) {
  return _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(e.even, low), bit4, e.odd, low);
}

typedef struct entries256 {
  entries32 e[8];
} entries256;

INLINE __m512i table_64(__m512i v, const entries256 *t) {
  const __m512i low = _mm512_and_si512(v, _mm512_set1_epi8(15));
  const __mmask64 bit4 = _mm512_movepi8_mask(_mm512_slli_epi16(v, 3)), bit5 = _mm512_movepi8_mask(_mm512_slli_epi16(v, 2));
  const __mmask64 bit6 = _mm512_movepi8_mask(_mm512_slli_epi16(v, 1)), bit7 = _mm512_movepi8_mask(v);
  const __m512i q0 = _mm512_mask_blend_epi8(bit5, shuffle_pair(low, bit4, t->e[0]), shuffle_pair(low, bit4, t->e[1]));
  const __m512i q1 = _mm512_mask_blend_epi8(bit5, shuffle_pair(low, bit4, t->e[2]), shuffle_pair(low, bit4, t->e[3]));
  const __m512i q2 = _mm512_mask_blend_epi8(bit5, shuffle_pair(low, bit4, t->e[4]), shuffle_pair(low, bit4, t->e[5]));
  const __m512i q3 = _mm512_mask_blend_epi8(bit5, shuffle_pair(low, bit4, t->e[6]), shuffle_pair(low, bit4, t->e[7]));
  const __m512i lower = _mm512_mask_blend_epi8(bit6, q0, q1), upper = _mm512_mask_blend_epi8(bit6, q2, q3);
  return _mm512_mask_blend_epi8(bit7, lower, upper);
}

static void table_u8(size_t n, const uint8_t *x, uint8_t *y, const uint8_t table[256]) {
  const entries256 t = {{entries_of(table), entries_of(table + 32), entries_of(table + 64), entries_of(table + 96), entries_of(table + 128),
                         entries_of(table + 160), entries_of(table + 192), entries_of(table + 224)}};
  size_t i = 0;
  for (; i + 64 <= n; i += 64) _mm512_storeu_si512(y + i, table_64(_mm512_loadu_si512(x + i), &t));
  if (i == n) return;
  const __mmask64 mask = mask64(n - i);
  _mm512_mask_storeu_epi8(y + i, mask, table_64(_mm512_maskz_loadu_epi8(mask, x + i), &t));
}

const oct_vector_kernels oct_vector__avx512 = {
    .name = "vector__avx512",
    .isa = OCT_ISA_AVX512,
    .table_u8 = table_u8,
    OCT_VECTOR_DENSE__AVX512,
};
