/* Quantizing the planes of an image to its pixels, AVX-512, 16 pixels at once. Tails are masked.
 *
 * A quotient, its zero point and a half are one number with 16 bits behind the point, x * factor + offset, whose floor is the result. It
 * differs from what the division gives by less than MARGIN units inside of the range: at most 2.5 for each of the rounded quotient and the
 * rounded 1 / scale (|quotient| <= 640), 1 for the sum, 1/2 for its conversion. The offset has that margin in it, so the floor is right unless
 * less than 2 * MARGIN units are behind the point; such pixels are divided. So are NaN and numbers beyond 2^31, which the conversion turns
 * into 0x80000000.
 * SPDX-License-Identifier: MIT */
#include "kernels/vector_planes.h"
#include "kernels/vector_range__avx512.h"

/* Floats ahead of what is read that are asked for: planes come from outside the second-level cache, by several streams whose pages end. */
#define AHEAD 1024

#define MARGIN 8

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
  __m512 divisor, factor, offset;
} quantizer;

static void divide(size_t n, size_t planes, const float *x, ptrdiff_t plane, uint8_t *y, const quantizer *q) {
  for (size_t i = 0; i < n; i += 16) {
    __m512i v = _mm512_setzero_si512();
    for (size_t c = planes; c-- > 0;) {
      const __m512 values = _mm512_maskz_loadu_ps(mask16(n - i), x + (ptrdiff_t)c * plane + i);
      v = _mm512_or_si512(_mm512_slli_epi32(v, 8), quantize_by_division(values, q->divisor, &q->r));
    }
    store_pixels(y + i * planes, v, planes, n - i);
  }
}

/* 16 results with what is behind their points, of which `least` keeps the least. */
INLINE __m512i fixed_point(const float *x, __mmask16 mask, const quantizer *q, __m512i *least) {
  _mm_prefetch((const char *)(x + AHEAD), _MM_HINT_T0);
  const __m512i v = _mm512_cvtps_epi32(_mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, x), q->factor, q->offset));
  *least = _mm512_min_epu16(*least, v);
  return v;
}

INLINE bool is_sure(__m512i least) { return !_mm512_testn_epi32_mask(least, _mm512_set1_epi32(0xFFFF & -2 * MARGIN)); }

/* The upper words of both, side by side. */
INLINE __m512i upper_words(__m512i a, __m512i b) { return _mm512_mask_blend_epi16(0x55555555, b, _mm512_srli_epi32(a, 16)); }

/* 16 pixels of 2 to 4 planes. */
INLINE void put_pixels(const size_t planes, const float *x, ptrdiff_t plane, __mmask16 mask, uint8_t *y, const quantizer *q,
                       __m512i *least) {
  const __m512i a = fixed_point(x, mask, q, least), b = fixed_point(x + plane, mask, q, least), ab = upper_words(a, b);
  if (planes == 2) {
    const __m512i halves = _mm512_setr_epi64(0, 2, 4, 6, 0, 2, 4, 6);
    _mm512_mask_storeu_epi16(y, mask, _mm512_permutexvar_epi64(halves, _mm512_packus_epi16(ab, ab)));
    return;
  }
  const __m512i c = fixed_point(x + 2 * plane, mask, q, least);
  if (planes == 3) {
    const __m512i bytes = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 9, 2, 3, 11, 4, 5, 13, 6, 7, 15, -1, -1, -1, -1));
    const __m512i quarters = _mm512_setr_epi32(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 3, 7, 11, 15);
    const __m512i v = _mm512_permutexvar_epi32(quarters, _mm512_shuffle_epi8(_mm512_packus_epi16(ab, c), bytes));
    if (mask == 0xFFFF) _mm512_mask_storeu_epi32(y, 0xFFF, v);
    else _mm512_mask_storeu_epi8(y, mask64(3 * (size_t)__builtin_popcount(mask)), v);
    return;
  }
  const __m512i bytes = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
  const __m512i cd = upper_words(c, fixed_point(x + 3 * plane, mask, q, least));
  _mm512_mask_storeu_epi32(y, mask, _mm512_shuffle_epi8(_mm512_packus_epi16(ab, cd), bytes));
}

/* 64 pixels of one plane. */
INLINE void put_plane(const float *x, uint8_t *y, const quantizer *q, __m512i *least) {
  const __m512i a = _mm512_srai_epi32(fixed_point(x, 0xFFFF, q, least), 16),
                b = _mm512_srai_epi32(fixed_point(x + 16, 0xFFFF, q, least), 16);
  const __m512i c = _mm512_srai_epi32(fixed_point(x + 32, 0xFFFF, q, least), 16);
  const __m512i d = _mm512_srai_epi32(fixed_point(x + 48, 0xFFFF, q, least), 16);
  _mm512_storeu_si512(y, pack_words(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d)));
}

INLINE void run_row(size_t n, const size_t planes, const float *x, ptrdiff_t plane, uint8_t *y, const quantizer *q) {
  const size_t block = planes == 1 ? 64 : 32;
  for (size_t i = 0, take; i < n; i += take) {
    __m512i least = _mm512_set1_epi32(-1);
    const float *from = x + i;
    uint8_t *to = y + i * planes;
    take = n - i >= block ? block : n - i < 16 ? n - i : 16;
    const __mmask16 mask = mask16(take);
    if (planes == 1 && take == block) put_plane(from, to, q, &least);
    else if (planes == 1) {
      const __m512i v = _mm512_srai_epi32(fixed_point(from, mask, q, &least), 16);
      _mm512_mask_cvtusepi32_storeu_epi8(to, mask, _mm512_max_epi32(v, _mm512_setzero_si512()));
    } else if (take == block) {
      put_pixels(planes, from, plane, 0xFFFF, to, q, &least);
      put_pixels(planes, from + 16, plane, 0xFFFF, to + 16 * planes, q, &least);
    } else put_pixels(planes, from, plane, mask, to, q, &least);
    if (__builtin_expect(!is_sure(least), 0)) divide(take, planes, from, plane, to, q);
  }
}

void oct_quantize_planes_u8__avx512(size_t rows, size_t n, size_t planes, const float *x, ptrdiff_t x_row, ptrdiff_t plane, uint8_t *y,
                                    ptrdiff_t y_row, float scale, int32_t zero_point) {
  const float one = 65536.0f, factor = 1.0f / scale * one;
  const quantizer q = {range_make(zero_point, 0, 255), _mm512_set1_ps(scale), _mm512_set1_ps(factor),
                       _mm512_set1_ps(((float)zero_point + 0.5f) * one + MARGIN)};
  const bool divides = must_divide(scale, zero_point) || fabsf(factor) > FLT_MAX;
  for (; rows > 0; rows--, x += x_row, y += y_row) {
    if (divides) divide(n, planes, x, plane, y, &q);
    else if (planes == 1) run_row(n, 1, x, plane, y, &q);
    else if (planes == 2) run_row(n, 2, x, plane, y, &q);
    else if (planes == 3) run_row(n, 3, x, plane, y, &q);
    else if (planes == 4) run_row(n, 4, x, plane, y, &q);
  }
}
