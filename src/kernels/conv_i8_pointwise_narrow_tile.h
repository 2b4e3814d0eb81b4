/* 1x1 convolution: tiles of 8 pixels x 32 channels or 16 pixels x 16, in natural order.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_POINTWISE_NARROW_TILE_H
#define OCT_KERNELS_CONV_I8_POINTWISE_NARROW_TILE_H

#include "kernels/conv_i8_pointwise__avx512vnni.h"

/* Residuals of 2 pixels x 32 channels or 4 x 16 from pixel `first` on; pixels beyond the last repeat it. */
static inline __attribute__((always_inline)) oct_quarters narrow_residuals(const oct_pointwise_panel *p, const oct_pointwise_place *at,
                                                                           int first, int vectors, bool whole) {
#define RESIDUAL(i) (at->residual + (whole ? first + (i) : oct_min_i64(first + (i), at->count - 1)) * p->residual_pixel)
  if (vectors == 2)
    return (oct_quarters){oct_pointwise_widen(RESIDUAL(0)), oct_pointwise_widen(RESIDUAL(0) + 16), oct_pointwise_widen(RESIDUAL(1)),
                          oct_pointwise_widen(RESIDUAL(1) + 16)};
  return (oct_quarters){oct_pointwise_widen(RESIDUAL(0)), oct_pointwise_widen(RESIDUAL(1)), oct_pointwise_widen(RESIDUAL(2)),
                        oct_pointwise_widen(RESIDUAL(3))};
#undef RESIDUAL
}

/* All channels of 2 or 4 pixels; without masks, which take time. */
static inline __attribute__((always_inline)) void narrow_store_full(char *out, ptrdiff_t pixel, __m512i x, int vectors) {
  if (pixel == 16 * vectors) {
    _mm512_storeu_si512(out, x);
  } else if (vectors == 2) {
    _mm256_storeu_si256((__m256i *)(void *)out, _mm512_castsi512_si256(x));
    _mm256_storeu_si256((__m256i *)(void *)(out + pixel), _mm512_extracti64x4_epi64(x, 1));
  } else {
    _mm_storeu_si128((__m128i *)(void *)out, _mm512_castsi512_si128(x));
    _mm_storeu_si128((__m128i *)(void *)(out + pixel), _mm512_extracti32x4_epi32(x, 1));
    _mm_storeu_si128((__m128i *)(void *)(out + 2 * pixel), _mm512_extracti32x4_epi32(x, 2));
    _mm_storeu_si128((__m128i *)(void *)(out + 3 * pixel), _mm512_extracti32x4_epi32(x, 3));
  }
}

/* 2 pixels x 32 channels or 4 x 16 as floats. */
static inline __attribute__((always_inline)) void narrow_floats(const oct_pointwise_panel *p, const oct_pointwise_place *at, int first,
                                                                oct_quarters c, int vectors, bool whole) {
  const int64_t left = whole ? 4 : at->count - first;
  if (vectors == 2) {
    oct_pointwise_float(p, at, first, c.q0, 0), oct_pointwise_float(p, at, first, c.q1, 1);
    if (left > 1) oct_pointwise_float(p, at, first + 1, c.q2, 0), oct_pointwise_float(p, at, first + 1, c.q3, 1);
    return;
  }
  oct_pointwise_float(p, at, first, c.q0, 0);
  if (left > 1) oct_pointwise_float(p, at, first + 1, c.q1, 0);
  if (left > 2) oct_pointwise_float(p, at, first + 2, c.q2, 0);
  if (left > 3) oct_pointwise_float(p, at, first + 3, c.q3, 0);
}

/* 2 pixels x 32 channels or 4 x 16 to their places; `whole`: none of them lies beyond the last. */
static inline __attribute__((always_inline)) void narrow_store(const oct_pointwise_panel *p, const oct_pointwise_place *at, int first,
                                                               oct_quarters c, int vectors, bool whole, oct_pointwise_form form) {
  if (!whole && first >= at->count) return;
  if (form == OCT_POINTWISE_FLOAT) {
    narrow_floats(p, at, first, c, vectors, whole);
    return;
  }
  oct_quarters r = c;
  if (form == OCT_POINTWISE_ADD) r = narrow_residuals(p, at, first, vectors, whole);
  const int second = vectors == 2;
  const __m512i x = oct_pack_vectors512(oct_pointwise_round(p, c.q0, 0, r.q0, form), oct_pointwise_round(p, c.q1, second, r.q1, form),
                                        oct_pointwise_round(p, c.q2, 0, r.q2, form), oct_pointwise_round(p, c.q3, second, r.q3, form),
                                        &p->quantize, oct_pointwise_finish(form));
  const int64_t left = whole ? 4 : at->count - first;
  const __mmask64 mask = p->mask;
  char *out = at->out + first * p->out_pixel;
  if (whole && p->count == 16 * vectors) {
    narrow_store_full(out, p->out_pixel, x, vectors);
    return;
  }
  if (vectors == 2) {
    _mm256_mask_storeu_epi8(out, (__mmask32)mask, _mm512_castsi512_si256(x));
    if (left > 1) _mm256_mask_storeu_epi8(out + p->out_pixel, (__mmask32)mask, _mm512_extracti64x4_epi64(x, 1));
    return;
  }
  _mm_mask_storeu_epi8(out, (__mmask16)mask, _mm512_castsi512_si128(x));
  if (left > 1) _mm_mask_storeu_epi8(out + p->out_pixel, (__mmask16)mask, _mm512_extracti32x4_epi32(x, 1));
  if (left > 2) _mm_mask_storeu_epi8(out + 2 * p->out_pixel, (__mmask16)mask, _mm512_extracti32x4_epi32(x, 2));
  if (left > 3) _mm_mask_storeu_epi8(out + 3 * p->out_pixel, (__mmask16)mask, _mm512_extracti32x4_epi32(x, 3));
}

#define NARROW(a, b, c, d) ((oct_quarters){(__m512i)(a), (__m512i)(b), (__m512i)(c), (__m512i)(d)})
#define EIGHT(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

/* The second vector of channels, or, with one vector, 8 more pixels. Pixels beyond the last repeat it. */
static inline __attribute__((always_inline)) void narrow_tile(const oct_pointwise_panel *p, const oct_pointwise_place *at, int vectors,
                                                              bool whole, oct_pointwise_form form) {
  const int8_t *w = p->weights;
  const uint8_t *in = at->in, *far = at->in + (whole ? 8 * p->in_pixel : 0);
  const int64_t last = at->count - 1;
#define OFFSET(r) ((whole ? (r) : oct_min_i64(r, last)) * p->in_pixel)
#define DECLARE(r)                                                                       \
  const ptrdiff_t a##r = OFFSET(r), b##r = whole || vectors == 2 ? a##r : OFFSET(r + 8); \
  oct_acc512 c##r = (oct_acc512)p->bias[0], d##r = (oct_acc512)p->bias[vectors - 1];
#define MULTIPLY(r)                                                                                 \
  {                                                                                                 \
    const __m512i x = oct_broadcast4(in + a##r), y = vectors == 2 ? x : oct_broadcast4(far + b##r); \
    c##r = oct_dot_acc512(c##r, x, w0);                                                             \
    d##r = oct_dot_acc512(d##r, y, w1);                                                             \
  }
#define KEEP(r)                                              \
  _mm512_store_si512(acc + r * 16 * vectors, (__m512i)c##r); \
  _mm512_store_si512(acc + (vectors == 2 ? r * 32 + 16 : r * 16 + 128), (__m512i)d##r);
  EIGHT(DECLARE)
  for (const uint8_t *end = in + p->bytes; in < end; in += 4, far += 4, w += 64 * vectors) {
    const __m512i w0 = _mm512_loadu_si512(w), w1 = vectors == 2 ? _mm512_loadu_si512(w + 64) : w0;
    EIGHT(MULTIPLY)
  }
  if (form == OCT_POINTWISE_DETOUR) {
    int32_t acc[256] __attribute__((aligned(64)));
    EIGHT(KEEP)
    oct_pointwise_detour(p, at, whole ? 16 / vectors : at->count, acc, 16 * vectors);
  } else if (vectors == 2) {
    narrow_store(p, at, 0, NARROW(c0, d0, c1, d1), 2, whole, form);
    narrow_store(p, at, 2, NARROW(c2, d2, c3, d3), 2, whole, form);
    narrow_store(p, at, 4, NARROW(c4, d4, c5, d5), 2, whole, form);
    narrow_store(p, at, 6, NARROW(c6, d6, c7, d7), 2, whole, form);
  } else {
    narrow_store(p, at, 0, NARROW(c0, c1, c2, c3), 1, whole, form);
    narrow_store(p, at, 4, NARROW(c4, c5, c6, c7), 1, whole, form);
    narrow_store(p, at, 8, NARROW(d0, d1, d2, d3), 1, whole, form);
    narrow_store(p, at, 12, NARROW(d4, d5, d6, d7), 1, whole, form);
  }
#undef OFFSET
#undef DECLARE
#undef MULTIPLY
#undef KEEP
}

static inline __attribute__((always_inline)) void narrow_row(const oct_pointwise_panel *p, oct_pointwise_place at, int vectors,
                                                             oct_pointwise_form form) {
  const int rows = 16 / vectors;
  for (; at.count >= rows; at = oct_pointwise_after(p, at, rows, form)) narrow_tile(p, &at, vectors, true, form);
  if (at.count > 0) narrow_tile(p, &at, vectors, false, form);
}

#endif
