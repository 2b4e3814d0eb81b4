/* Vector kernels, AVX-512: the bytes of vector__scalar.c, whose functions state what each does, with 8-bit tables by shuffles of 16 entries.
 * Tails are masked: nothing is read or written outside [0, n). Pools: vector_pool__avx512.c.
 * SPDX-License-Identifier: MIT */
#include "kernels/vector_dense__avx512.h"

INLINE __m512i load_u8(__mmask16 mask, const uint8_t *p) { return _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, p)); }
INLINE void store_u8(uint8_t *p, __mmask16 mask, __m512i x) { _mm_mask_storeu_epi8(p, mask, _mm512_cvtepi32_epi8(x)); }

/* 64 values at once; false, with nothing written, when one is near a tie or NaN. */
INLINE bool quantize_64(const float *x, uint8_t *y, __m512 factor, const range *r) {
  __m512i q[4];
  __mmask16 sure = 0xffff;
  for (int k = 0; k < 4; k++) { /* less the zero point, by a product; what packing saturates is not clamped */
    const __m512 t = _mm512_min_ps(r->high, _mm512_mul_ps(_mm512_loadu_ps(x + 16 * k), factor));
    sure = _mm512_mask_cmp_ps_mask(sure, _mm512_abs_ps(_mm512_reduce_ps(t, 8)), _mm512_set1_ps(NEAR_TIE), _CMP_LT_OQ);
    q[k] = _mm512_cvtps_epi32(t);
  }
  if (sure != 0xffff) return false;
  const __m512i zero_point = _mm512_packs_epi32(r->zero_point, r->zero_point); /* -128 .. 383 */
  const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(q[0], q[1]), zero_point),
                high = _mm512_adds_epi16(_mm512_packs_epi32(q[2], q[3]), zero_point);
  _mm512_storeu_si512(y, pack_words(low, high));
  return true;
}

void oct_quantize_f32_u8__avx512(size_t n, const float *x, uint8_t *y, float scale, int32_t zero_point) {
  const range r = range_make(zero_point, 0, 255);
  const bool divide = must_divide(scale, zero_point);
  const __m512 divisor = _mm512_set1_ps(scale), factor = _mm512_set1_ps(1.0f / scale);
  for (size_t i = 0; i < n; i += 64) {
    if (n - i >= 64 && !divide && quantize_64(x + i, y + i, factor, &r)) continue;
    for (size_t k = i; k < n && k < i + 64; k += 16) {
      const __mmask16 mask = mask16(n - k);
      store_u8(y + k, mask, quantize_by_division(_mm512_maskz_loadu_ps(mask, x + k), divisor, &r));
    }
  }
}

void oct_dequantize_u8_f32__avx512(size_t n, const uint8_t *x, float *y, float scale, int32_t zero_point) {
  const __m512i zero = _mm512_set1_epi32(zero_point);
  const __m512 factor = _mm512_set1_ps(scale);
  for (size_t i = 0; i < n; i += 16) {
    const __mmask16 mask = mask16(n - i);
    __m512 t = _mm512_cvtepi32_ps(_mm512_sub_epi32(load_u8(mask, x + i), zero));
    _mm512_mask_storeu_ps(y + i, mask, _mm512_mul_ps(t, factor));
  }
}

void oct_table_u8_f32__avx512(size_t n, const uint8_t *x, float *y, const float table[256]) {
  for (size_t i = 0; i < n; i += 16) {
    const __mmask16 mask = mask16(n - i);
    _mm512_mask_storeu_ps(y + i, mask, _mm512_i32gather_ps(load_u8(mask, x + i), table, 4));
  }
}

void oct_add_u8__avx512(size_t n, const uint8_t *a, const uint8_t *b, uint8_t *y, float a_scale, int32_t a_zp, float b_scale, int32_t b_zp,
                        int32_t zp, int32_t low, int32_t high) {
  const range r = range_make(zp, low, high);
  const __m512i a_zero = _mm512_set1_epi32(a_zp), b_zero = _mm512_set1_epi32(b_zp);
  const __m512 a_factor = _mm512_set1_ps(a_scale), b_factor = _mm512_set1_ps(b_scale);
  for (size_t i = 0; i < n; i += 16) {
    const __mmask16 mask = mask16(n - i);
    const __m512 p = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(load_u8(mask, a + i), a_zero)), a_factor);
    const __m512 q = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(load_u8(mask, b + i), b_zero)), b_factor);
    store_u8(y + i, mask, range_round(&r, range_clamp(&r, _mm512_add_ps(p, q))));
  }
}

void oct_mul_u8__avx512(size_t n, const uint8_t *a, const uint8_t *b, bool b_broadcast, uint8_t *y, float scale, int32_t a_zp, int32_t b_zp,
                        int32_t zp, int32_t low, int32_t high) {
  const range r = range_make(zp, low, high);
  const __m512i a_zero = _mm512_set1_epi32(a_zp), b_zero = _mm512_set1_epi32(b_zp);
  const __m512i b_value = n && b_broadcast ? _mm512_set1_epi32(b[0] - b_zp) : b_zero;
  const __m512 factor = _mm512_set1_ps(scale);
  for (size_t i = 0; i < n; i += 16) {
    const __mmask16 mask = mask16(n - i);
    const __m512i p = _mm512_sub_epi32(load_u8(mask, a + i), a_zero);
    const __m512i q = b_broadcast ? b_value : _mm512_sub_epi32(load_u8(mask, b + i), b_zero);
    const __m512 t = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_mullo_epi32(p, q)), factor);
    store_u8(y + i, mask, range_round(&r, range_clamp(&r, t)));
  }
}

/* min(x, m) is m when x is NaN. */
void oct_minmax_f32__avx512(size_t n, const float *x, float *low, float *high) {
  __m512 min0 = _mm512_set1_ps(*low), max0 = _mm512_set1_ps(*high), min1 = min0, max1 = max0;
  size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m512 v = _mm512_loadu_ps(x + i), w = _mm512_loadu_ps(x + i + 16);
    min0 = _mm512_min_ps(v, min0), max0 = _mm512_max_ps(v, max0);
    min1 = _mm512_min_ps(w, min1), max1 = _mm512_max_ps(w, max1);
  }
  for (; i < n; i += 16) {
    const __mmask16 mask = mask16(n - i);
    const __m512 v = _mm512_maskz_loadu_ps(mask, x + i);
    min0 = _mm512_mask_min_ps(min0, mask, v, min0), max0 = _mm512_mask_max_ps(max0, mask, v, max0);
  }
  *low = _mm512_reduce_min_ps(_mm512_min_ps(min1, min0)) + 0.0f;
  *high = _mm512_reduce_max_ps(_mm512_max_ps(max1, max0)) + 0.0f;
}

/* y = expression of the vectors p (from a) and q (from b); operands that an operation has not got are loaded for nothing. */
#define MAP_F32(a, b, expression)                                                                \
  size_t i = 0;                                                                                  \
  for (; i + 16 <= n; i += 16) {                                                                 \
    const __m512 p = _mm512_loadu_ps(a + i), q = _mm512_loadu_ps(b + i);                         \
    (void)q;                                                                                     \
    _mm512_storeu_ps(y + i, expression);                                                         \
  }                                                                                              \
  if (i < n) {                                                                                   \
    const __mmask16 mask = mask16(n - i);                                                        \
    const __m512 p = _mm512_maskz_loadu_ps(mask, a + i), q = _mm512_maskz_loadu_ps(mask, b + i); \
    (void)q;                                                                                     \
    _mm512_mask_storeu_ps(y + i, mask, expression);                                              \
  }

void oct_add_f32__avx512(size_t n, const float *a, const float *b, float *y) { MAP_F32(a, b, _mm512_add_ps(p, q)) }
void oct_sub_f32__avx512(size_t n, const float *a, const float *b, float *y) { MAP_F32(a, b, _mm512_sub_ps(p, q)) }
void oct_mul_f32__avx512(size_t n, const float *a, const float *b, float *y) { MAP_F32(a, b, _mm512_mul_ps(p, q)) }
void oct_div_f32__avx512(size_t n, const float *a, const float *b, float *y) { MAP_F32(a, b, _mm512_div_ps(p, q)) }

void oct_scale_f32__avx512(size_t n, const float *x, float *y, float scale, float shift) {
  const __m512 factor = _mm512_set1_ps(scale), term = _mm512_set1_ps(shift);
  MAP_F32(x, x, _mm512_add_ps(_mm512_mul_ps(p, factor), term))
}

/* `low` first, also where low > high. */
void oct_clamp_f32__avx512(size_t n, const float *x, float *y, float low, float high) {
  const __m512 least = _mm512_set1_ps(low), most = _mm512_set1_ps(high);
  MAP_F32(x, x, _mm512_mask_mov_ps(_mm512_min_ps(most, p), _mm512_cmp_ps_mask(p, least, _CMP_LT_OQ), least))
}

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
