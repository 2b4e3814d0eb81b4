/* Vector kernels, AVX-512: the bytes of vector__scalar.c, whose functions state what each does. Tails are masked: nothing is
 * read or written outside [0, n). Pools: vector_pool__avx512.c. What the rows of vector__avx512.c and vector__avx512vbmi.c share.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_VECTOR_DENSE__AVX512_H
#define OCT_KERNELS_VECTOR_DENSE__AVX512_H

#include "kernels/vector_math.h"
#include "kernels/vector_histogram.h"
#include "kernels/vector_planes.h"
#include "kernels/vector_scale.h"
#include "kernels/vector_pool.h"
#include "kernels/vector_range__avx512.h"

INLINE __m512i load_u8(__mmask16 mask, const uint8_t *p) { return _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, p)); }
INLINE void store_u8(uint8_t *p, __mmask16 mask, __m512i x) { _mm_mask_storeu_epi8(p, mask, _mm512_cvtepi32_epi8(x)); }

/* 64 values at once; false, with nothing written, when one is near a tie or NaN. */
INLINE bool quantize_64(const float *x, uint8_t *y, __m512 factor, const range *r) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
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
  const __m512i bytes = _mm512_packus_epi16(low, high);
  _mm512_storeu_si512(y, _mm512_permutexvar_epi32(order, bytes));
  return true;
}

static void quantize_f32_u8(size_t n, const float *x, uint8_t *y, float scale, int32_t zero_point) {
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

static void dequantize_u8_f32(size_t n, const uint8_t *x, float *y, float scale, int32_t zero_point) {
  const __m512i zero = _mm512_set1_epi32(zero_point);
  const __m512 factor = _mm512_set1_ps(scale);
  for (size_t i = 0; i < n; i += 16) {
    const __mmask16 mask = mask16(n - i);
    __m512 t = _mm512_cvtepi32_ps(_mm512_sub_epi32(load_u8(mask, x + i), zero));
    _mm512_mask_storeu_ps(y + i, mask, _mm512_mul_ps(t, factor));
  }
}

static void table_u8_f32(size_t n, const uint8_t *x, float *y, const float table[256]) {
  for (size_t i = 0; i < n; i += 16) {
    const __mmask16 mask = mask16(n - i);
    _mm512_mask_storeu_ps(y + i, mask, _mm512_i32gather_ps(load_u8(mask, x + i), table, 4));
  }
}

static void add_u8(size_t n, const uint8_t *a, const uint8_t *b, uint8_t *y, float a_scale, int32_t a_zp, float b_scale, int32_t b_zp,
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

static void mul_u8(size_t n, const uint8_t *a, const uint8_t *b, bool b_broadcast, uint8_t *y, float scale, int32_t a_zp, int32_t b_zp,
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
static void minmax_f32(size_t n, const float *x, float *low, float *high) {
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

static void add_f32(size_t n, const float *a, const float *b, float *y) { MAP_F32(a, b, _mm512_add_ps(p, q)) }
static void sub_f32(size_t n, const float *a, const float *b, float *y) { MAP_F32(a, b, _mm512_sub_ps(p, q)) }
static void mul_f32(size_t n, const float *a, const float *b, float *y) { MAP_F32(a, b, _mm512_mul_ps(p, q)) }
static void div_f32(size_t n, const float *a, const float *b, float *y) { MAP_F32(a, b, _mm512_div_ps(p, q)) }

static void scale_f32(size_t n, const float *x, float *y, float scale, float shift) {
  const __m512 factor = _mm512_set1_ps(scale), term = _mm512_set1_ps(shift);
  MAP_F32(x, x, _mm512_add_ps(_mm512_mul_ps(p, factor), term))
}

/* `low` first, also where low > high. */
static void clamp_f32(size_t n, const float *x, float *y, float low, float high) {
  const __m512 least = _mm512_set1_ps(low), most = _mm512_set1_ps(high);
  MAP_F32(x, x, _mm512_mask_mov_ps(_mm512_min_ps(most, p), _mm512_cmp_ps_mask(p, least, _CMP_LT_OQ), least))
}

/* Fields of a row. */
#define OCT_VECTOR_DENSE__AVX512                                                                                                        \
  .quantize_f32_u8 = quantize_f32_u8, .dequantize_u8_f32 = dequantize_u8_f32, .table_u8_f32 = table_u8_f32, .add_u8 = add_u8,           \
  .mul_u8 = mul_u8, .minmax_f32 = minmax_f32, .add_f32 = add_f32, .sub_f32 = sub_f32, .mul_f32 = mul_f32, .div_f32 = div_f32,           \
  .scale_f32 = scale_f32, .clamp_f32 = clamp_f32, .math = &oct_vector_math__avx512, .max_pool_u8 = oct_max_pool_u8__avx512,             \
  .max_pool_f32 = oct_max_pool_f32__avx512, .average_pool_u8 = oct_average_pool_u8__avx512,                                             \
  .average_pool_f32 = oct_average_pool_f32__avx512, .transpose_u8 = oct_transpose_u8__avx2, .transpose_u32 = oct_transpose_u32__avx2,   \
  .quantize_planes_u8 = oct_quantize_planes_u8__avx512, .fold_scale = oct_fold_scale__avx512, .extremes_f32 = oct_extremes_f32__avx512, \
  .histogram_f32 = oct_histogram_f32__avx512

#endif
