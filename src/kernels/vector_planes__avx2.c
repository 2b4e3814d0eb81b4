/* Transposing, and quantizing the planes of an image to its pixels, AVX2. Nothing outside of the operands is read or written.
 * SPDX-License-Identifier: MIT */
#include <float.h>
#include <immintrin.h>
#include <string.h>

#include "kernels/vector_planes.h"

#define INLINE static inline __attribute__((always_inline))

/* ---- Transposing, 32 bits ------------------------------------------------------------------------------------------ */

/* Floats ahead of what is read that are asked for: planes come from outside the second-level cache, by several streams whose pages end. */
#define AHEAD 1024

/* At most 4 rows: one output row is one store. Where output rows of 3 touch, the store writes a fourth, which the next row overwrites. */
INLINE void narrow_u32(const size_t rows, size_t columns, const float *x, ptrdiff_t x_row, float *y, ptrdiff_t y_row) {
  const __m128 zero = _mm_setzero_ps();
  const bool touching = rows == 3 && y_row == 3;
  size_t c = 0;
  for (; c + 4 + touching <= columns; c += 4, x += 4) {
    const __m128 a = _mm_loadu_ps(x), b = _mm_loadu_ps(x + x_row), d = rows > 2 ? _mm_loadu_ps(x + 2 * x_row) : zero,
                 e = rows > 3 ? _mm_loadu_ps(x + 3 * x_row) : zero;
    const __m128 low = _mm_unpacklo_ps(a, b), high = _mm_unpackhi_ps(a, b), low2 = _mm_unpacklo_ps(d, e), high2 = _mm_unpackhi_ps(d, e);
    const __m128 out[4] = {_mm_movelh_ps(low, low2), _mm_movehl_ps(low2, low), _mm_movelh_ps(high, high2), _mm_movehl_ps(high2, high)};
    for (size_t r = 0; r < rows; r++) _mm_prefetch((const char *)(x + (ptrdiff_t)r * x_row + AHEAD), _MM_HINT_T0);
    for (int k = 0; k < 4; k++, y += y_row) {
      if (rows == 4 || touching) {
        _mm_storeu_ps(y, out[k]);
        continue;
      }
      _mm_storel_pi((__m64 *)(void *)y, out[k]);
      if (rows == 3) _mm_store_ss(y + 2, _mm_movehl_ps(out[k], out[k]));
    }
  }
  for (; c < columns; c++, x++, y += y_row)
    for (size_t r = 0; r < rows; r++) memcpy(y + r, x + (ptrdiff_t)r * x_row, sizeof *y);
}

INLINE __m256i first_lanes(size_t n) { return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)); }

/* 8x8, or the first `rows` x `columns` of it. */
INLINE void block_u32(size_t rows, size_t columns, const float *x, ptrdiff_t x_row, float *y, ptrdiff_t y_row, const bool whole) {
  __m256 r[8], s[8];
  const __m256i in = first_lanes(columns), out = first_lanes(rows);
  for (size_t i = 0; i < 8; i++) {
    r[i] = _mm256_setzero_ps();
    if (whole) r[i] = _mm256_loadu_ps(x + (ptrdiff_t)i * x_row);
    else if (i < rows) r[i] = _mm256_maskload_ps(x + (ptrdiff_t)i * x_row, in);
  }
  for (int i = 0; i < 8; i += 2) s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]), s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  for (int i = 0; i < 8; i += 4) { /* columns 0 4, 1 5, 2 6, 3 7 of four rows */
    r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44), r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44), r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xee);
  }
  for (int i = 0; i < 4; i++) s[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20), s[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
  for (size_t i = 0; i < 8; i++) {
    if (whole) _mm256_storeu_ps(y + (ptrdiff_t)i * y_row, s[i]);
    else if (i < columns) _mm256_maskstore_ps(y + (ptrdiff_t)i * y_row, out, s[i]);
  }
}

void oct_transpose_u32__avx2(size_t rows, size_t columns, const uint32_t *x, ptrdiff_t x_row, uint32_t *y, ptrdiff_t y_row) {
  const float *from = (const float *)(const void *)x; /* moves only: no bit changes */
  float *to = (float *)(void *)y;
  if (rows == 2) narrow_u32(2, columns, from, x_row, to, y_row);
  else if (rows == 3 && y_row == 3) narrow_u32(3, columns, from, x_row, to, 3);
  else if (rows == 3) narrow_u32(3, columns, from, x_row, to, y_row);
  else if (rows == 4) narrow_u32(4, columns, from, x_row, to, y_row);
  else if (rows < 2) oct_transpose_u32__scalar(rows, columns, x, x_row, y, y_row);
  if (rows <= 4) return;
  for (size_t r = 0; r < rows; r += 8)
    for (size_t c = 0; c < columns; c += 8) {
      const float *in = from + (ptrdiff_t)r * x_row + (ptrdiff_t)c;
      float *out = to + (ptrdiff_t)c * y_row + (ptrdiff_t)r;
      size_t row_count = rows - r < 8 ? rows - r : 8, column_count = columns - c < 8 ? columns - c : 8;
      if (row_count == 8 && column_count == 8) block_u32(8, 8, in, x_row, out, y_row, true);
      else block_u32(row_count, column_count, in, x_row, out, y_row, false);
    }
}

/* ---- Transposing, bytes -------------------------------------------------------------------------------------------- */

INLINE void block_u8(const uint8_t *x, ptrdiff_t x_row, uint8_t *y, ptrdiff_t y_row) {
  __m128i r[8], s[8];
  for (int i = 0; i < 8; i++) r[i] = _mm_loadl_epi64((const __m128i *)(const void *)(x + i * x_row));
  for (int i = 0; i < 4; i++) s[i] = _mm_unpacklo_epi8(r[2 * i], r[2 * i + 1]); /* pairs of rows, by column */
  r[0] = _mm_unpacklo_epi16(s[0], s[1]), r[1] = _mm_unpackhi_epi16(s[0], s[1]);
  r[2] = _mm_unpacklo_epi16(s[2], s[3]), r[3] = _mm_unpackhi_epi16(s[2], s[3]);
  s[0] = _mm_unpacklo_epi32(r[0], r[2]), s[1] = _mm_unpackhi_epi32(r[0], r[2]);
  s[2] = _mm_unpacklo_epi32(r[1], r[3]), s[3] = _mm_unpackhi_epi32(r[1], r[3]);
  for (int i = 0; i < 4; i++) {
    _mm_storel_epi64((__m128i *)(void *)(y + 2 * i * y_row), s[i]);
    _mm_storel_epi64((__m128i *)(void *)(y + (2 * i + 1) * y_row), _mm_unpackhi_epi64(s[i], s[i]));
  }
}

void oct_transpose_u8__avx2(size_t rows, size_t columns, const uint8_t *x, ptrdiff_t x_row, uint8_t *y, ptrdiff_t y_row) {
  if (rows < 2 || columns < 2) {
    oct_transpose_u8__scalar(rows, columns, x, x_row, y, y_row);
    return;
  }
  for (size_t r = 0; r < rows; r += 8)
    for (size_t c = 0; c < columns; c += 8) {
      const uint8_t *in = x + (ptrdiff_t)r * x_row + (ptrdiff_t)c;
      uint8_t *out = y + (ptrdiff_t)c * y_row + (ptrdiff_t)r, from[64] = {0}, to[64];
      size_t row_count = rows - r < 8 ? rows - r : 8, column_count = columns - c < 8 ? columns - c : 8;
      if (row_count == 8 && column_count == 8) {
        block_u8(in, x_row, out, y_row);
        continue;
      }
      for (size_t i = 0; i < row_count; i++) memcpy(from + 8 * i, in + (ptrdiff_t)i * x_row, column_count);
      block_u8(from, 8, to, 8);
      for (size_t i = 0; i < column_count; i++) memcpy(out + (ptrdiff_t)i * y_row, to + 8 * i, row_count);
    }
}

/* ---- Planes to pixels ----------------------------------------------------------------------------------------------- */

typedef struct quantizer {
  __m256 low, high, divisor, factor;
  __m256i zero_point;
  bool divide; /* see vector__avx2.c on ties */
} quantizer;

INLINE __m256i quantize_8(const float *x, const quantizer *q) {
  const __m256 v = _mm256_loadu_ps(x), sign = _mm256_set1_ps(-0.0f), near_tie = _mm256_set1_ps(0.5f - 0x1p-12f);
  __m256 t = _mm256_min_ps(q->high, _mm256_max_ps(q->low, _mm256_mul_ps(v, q->factor)));
  __m256i whole = _mm256_cvtps_epi32(t);
  __m256 distance = _mm256_andnot_ps(sign, _mm256_sub_ps(t, _mm256_cvtepi32_ps(whole)));
  if (q->divide || _mm256_movemask_ps(_mm256_cmp_ps(distance, near_tie, _CMP_NLT_UQ))) {
    const __m256 zero = _mm256_min_ps(q->high, _mm256_max_ps(q->low, _mm256_setzero_ps())); /* what NaN becomes */
    t = _mm256_min_ps(q->high, _mm256_max_ps(q->low, _mm256_div_ps(v, q->divisor)));
    whole = _mm256_cvtps_epi32(_mm256_blendv_ps(t, zero, _mm256_cmp_ps(t, t, _CMP_UNORD_Q)));
  }
  return _mm256_add_epi32(whole, q->zero_point);
}

INLINE __m256i quantize_ahead(const float *x, const quantizer *q) {
  _mm_prefetch((const char *)(x + AHEAD), _MM_HINT_T0);
  return quantize_8(x, q);
}

/* Returns how many pixels it did. Stores of 3 bytes a pixel write 4 bytes more, which the next pixels overwrite. */
INLINE size_t run_row(size_t n, const size_t planes, const float *x, ptrdiff_t plane, uint8_t *y, const quantizer *q) {
  const __m256i three = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
  const size_t more = planes == 3 ? 2 : 0;
  size_t i = 0;
  for (; i + 8 + more <= n; i += 8, y += 8 * planes) {
    __m256i v = quantize_ahead(x + i, q);
    if (planes > 1) v = _mm256_or_si256(v, _mm256_slli_epi32(quantize_ahead(x + plane + i, q), 8));
    if (planes > 2) v = _mm256_or_si256(v, _mm256_slli_epi32(quantize_ahead(x + 2 * plane + i, q), 16));
    if (planes > 3) v = _mm256_or_si256(v, _mm256_slli_epi32(quantize_ahead(x + 3 * plane + i, q), 24));
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(v, v), 0xd8);
    if (planes == 1) {
      const __m128i low = _mm256_castsi256_si128(words);
      _mm_storel_epi64((__m128i *)(void *)y, _mm_packus_epi16(low, low));
    } else if (planes == 2) {
      _mm_storeu_si128((__m128i *)(void *)y, _mm256_castsi256_si128(words));
    } else if (planes == 3) {
      v = _mm256_shuffle_epi8(v, three);
      _mm_storeu_si128((__m128i *)(void *)y, _mm256_castsi256_si128(v));
      _mm_storeu_si128((__m128i *)(void *)(y + 12), _mm256_extracti128_si256(v, 1));
    } else {
      _mm256_storeu_si256((__m256i *)(void *)y, v);
    }
  }
  return i;
}

void oct_quantize_planes_u8__avx2(size_t rows, size_t n, size_t planes, const float *x, ptrdiff_t x_row, ptrdiff_t plane, uint8_t *y,
                                  ptrdiff_t y_row, float scale, int32_t zero_point) {
  const float inverse = 1.0f / scale, size = fabsf(inverse);
  const quantizer q = {.low = _mm256_set1_ps((float)(0 - zero_point)),
                       .high = _mm256_set1_ps((float)(255 - zero_point)),
                       .divisor = _mm256_set1_ps(scale),
                       .factor = _mm256_set1_ps(inverse),
                       .zero_point = _mm256_set1_epi32(zero_point),
                       .divide = !(size >= FLT_MIN && size <= FLT_MAX && fabsf(scale) >= FLT_MIN) || zero_point < -128 || zero_point > 383};
  for (; rows > 0; rows--, x += x_row, y += y_row) {
    size_t done = 0;
    if (planes == 1) done = run_row(n, 1, x, plane, y, &q);
    if (planes == 2) done = run_row(n, 2, x, plane, y, &q);
    if (planes == 3) done = run_row(n, 3, x, plane, y, &q);
    if (planes == 4) done = run_row(n, 4, x, plane, y, &q);
    oct_quantize_planes_u8__scalar(1, n - done, planes, x + done, 0, plane, y + done * planes, 0, scale, zero_point);
  }
}
