/* The range of an 8-bit result around its zero point, in float as the rounding rule has it, AVX-512; and masks of the first lanes.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_VECTOR_RANGE__AVX512_H
#define OCT_KERNELS_VECTOR_RANGE__AVX512_H

#include <float.h>
#include <immintrin.h>

#include "kernels/kernels.h"

#define INLINE static inline __attribute__((always_inline))

INLINE __mmask16 mask16(size_t left) { return left >= 16 ? 0xffff : (__mmask16)((1u << left) - 1); }
INLINE __mmask64 mask64(size_t left) { return left >= 64 ? ~0ull : (1ull << left) - 1; }

typedef struct range {
  __m512 low, high;
  __m512i zero_point;
} range;

INLINE range range_make(int32_t zero_point, int32_t low, int32_t high) {
  return (range){_mm512_set1_ps((float)(low - zero_point)), _mm512_set1_ps((float)(high - zero_point)), _mm512_set1_epi32(zero_point)};
}
INLINE __m512 range_clamp(const range *r, __m512 t) { return _mm512_min_ps(r->high, _mm512_max_ps(r->low, t)); }
INLINE __m512i range_round(const range *r, __m512 t) { return _mm512_add_epi32(_mm512_cvtps_epi32(t), r->zero_point); }

/* x / scale decides ties, but x * (1 / scale) is much cheaper and differs from it by less than 3 * 2^-24 * 512 < 2^-13 inside the
 * range; only a vector with a value that near to a tie is divided. Where 1 / scale is not an ordinary number all are. */
#define NEAR_TIE (0.5f - 0x1p-13f)
INLINE bool must_divide(float scale, int32_t zero_point) {
  const float inverse = fabsf(1.0f / scale);
  return !(inverse >= FLT_MIN && inverse <= FLT_MAX && fabsf(scale) >= FLT_MIN) || zero_point < -128 || zero_point > 383;
}

/* The rule itself: a division, and NaN becomes the zero point. */
INLINE __m512i quantize_by_division(__m512 x, __m512 divisor, const range *r) {
  __m512 t = range_clamp(r, _mm512_div_ps(x, divisor));
  t = _mm512_mask_mov_ps(t, _mm512_cmp_ps_mask(t, t, _CMP_UNORD_Q), range_clamp(r, _mm512_setzero_ps()));
  return range_round(r, t);
}

/* 4 x 16 numbers, put together as words of two each, to bytes in their order. */
INLINE __m512i pack_words(__m512i first_two, __m512i last_two) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm512_permutexvar_epi32(order, _mm512_packus_epi16(first_two, last_two));
}

#endif
