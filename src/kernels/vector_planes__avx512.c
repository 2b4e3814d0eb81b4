/* Quantizing the planes of an image to its pixels, AVX-512: 16 pixels at once, put together as 32-bit numbers. Tails are masked.
 * SPDX-License-Identifier: MIT */
#include "kernels/vector_planes.h"
#include "kernels/vector_range__avx512.h"

/* Floats ahead of what is read that are asked for: planes come from outside the second-level cache, by several streams whose pages end. */
#define AHEAD 1024

/* The low `planes` bytes of each number, side by side. */
INLINE void store_pixels(uint8_t *y, __m512i v, size_t planes, size_t left) {
  if (planes == 1) {
    _mm512_mask_cvtepi32_storeu_epi8(y, mask16(left), v);
    return;
  }
  if (planes == 2) {
    _mm512_mask_cvtepi32_storeu_epi16(y, mask16(left), v);
    return;
  }
  if (planes == 3) {
    const __m512i bytes = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
    const __m512i quarters = _mm512_setr_epi32(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 3, 7, 11, 15);
    v = _mm512_permutexvar_epi32(quarters, _mm512_shuffle_epi8(v, bytes));
  }
  _mm512_mask_storeu_epi8(y, mask64(planes * (left < 16 ? left : 16)), v);
}

typedef struct quantizer {
  range r;
  __m512 divisor, factor;
  __m512i zero_points; /* of all planes, where their bytes lie: adding them at the end is adding them to each */
  bool divide;
} quantizer;

INLINE void run_row(size_t n, const size_t planes, const float *x, ptrdiff_t plane, uint8_t *y, const quantizer *q) {
  for (size_t i = 0; i < n; i += 16) {
    const __mmask16 mask = mask16(n - i);
    __mmask16 sure = q->divide ? 0 : 0xffff;
    __m512i v = _mm512_setzero_si512();
    for (size_t c = planes; !q->divide && c-- > 0;) {
      const float *from = x + (ptrdiff_t)c * plane + i;
      _mm_prefetch((const char *)(from + AHEAD), _MM_HINT_T0);
      v = _mm512_add_epi32(_mm512_slli_epi32(v, 8), quantize_by_product(_mm512_maskz_loadu_ps(mask, from), q->factor, &q->r, &sure));
    }
    v = _mm512_add_epi32(v, q->zero_points);
    if (sure != 0xffff) v = _mm512_setzero_si512();
    for (size_t c = planes; sure != 0xffff && c-- > 0;) {
      const __m512 values = _mm512_maskz_loadu_ps(mask, x + (ptrdiff_t)c * plane + i);
      v = _mm512_or_si512(_mm512_slli_epi32(v, 8), quantize_by_division(values, q->divisor, &q->r));
    }
    store_pixels(y + i * planes, v, planes, n - i);
  }
}

void oct_quantize_planes_u8__avx512(size_t rows, size_t n, size_t planes, const float *x, ptrdiff_t x_row, ptrdiff_t plane, uint8_t *y,
                                    ptrdiff_t y_row, float scale, int32_t zero_point) {
  uint32_t zero_points = 0;
  for (size_t c = 0; c < planes; c++) zero_points = (zero_points << 8) + (uint32_t)zero_point;
  const quantizer q = {range_make(zero_point, 0, 255), _mm512_set1_ps(scale), _mm512_set1_ps(1.0f / scale),
                       _mm512_set1_epi32((int32_t)zero_points), must_divide(scale, zero_point)};
  for (; rows > 0; rows--, x += x_row, y += y_row) {
    if (planes == 1) run_row(n, 1, x, plane, y, &q);
    if (planes == 2) run_row(n, 2, x, plane, y, &q);
    if (planes == 3) run_row(n, 3, x, plane, y, &q);
    if (planes == 4) run_row(n, 4, x, plane, y, &q);
  }
}
