/* 1x1 convolution for 24 or 40 channels, which would fill vectors of 16 badly: the lanes of a vector are 8 channels times the two halves of a
 * step of 8 inputs, and the halves are added at the end. Tiles are 8 pixels x 3 vectors or 4 pixels x 5.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_POINTWISE_HALVES_TILE_H
#define OCT_KERNELS_CONV_I8_POINTWISE_HALVES_TILE_H

#include "kernels/conv_i8_pointwise__avx512vnni.h"

static inline __m512i halves_broadcast(const uint8_t *p) {
  int64_t word;
  memcpy(&word, p, 8);
  return _mm512_set1_epi64(word);
}

/* Sums of the halves: 8 channels of a, 8 of b. */
static inline __m512i halves_sum(oct_acc512 first, oct_acc512 second) {
  const __m512i a = (__m512i)first, b = (__m512i)second;
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  return _mm512_add_epi32(_mm512_permutex2var_epi32(a, even, b), _mm512_permutex2var_epi32(a, odd, b));
}

/* A tile's sums: for each pixel the vectors of 16 channels; then for each two pixels the last 8 of both. */
typedef struct halves_sums {
  __m512i full[8], last[4];
} halves_sums;

/* Residuals of the last 8 channels of two pixels. */
static inline __m512i halves_last_residuals(const char *a, const char *b) {
  return _mm512_cvtepu8_epi32(
      _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)(const void *)a), _mm_loadl_epi64((const __m128i *)(const void *)b)));
}

/* The functions below have `vectors`, 3 or 5, `whole` (no pixel lies beyond the last) and `form` constant wherever they are inlined. */

static inline __attribute__((always_inline)) const char *halves_residual(const oct_pointwise_panel *p, const oct_pointwise_place *at,
                                                                         int row, bool whole) {
  return at->residual + (whole ? row : oct_min_i64(row, at->count - 1)) * p->residual_pixel;
}

static inline __attribute__((always_inline)) __m512i halves_full(const oct_pointwise_panel *p, const oct_pointwise_place *at,
                                                                 const halves_sums *s, int i, int vectors, bool whole,
                                                                 oct_pointwise_form form) {
  const int each = vectors / 2, j = i % each;
  __m512i r = s->full[i];
  if (form == OCT_POINTWISE_ADD) r = oct_pointwise_widen(halves_residual(p, at, i / each, whole) + 16 * j);
  return oct_pointwise_round(p, s->full[i], j, r, form);
}

static inline __attribute__((always_inline)) __m512i halves_last(const oct_pointwise_panel *p, const oct_pointwise_place *at,
                                                                 const halves_sums *s, int i, int vectors, bool whole,
                                                                 oct_pointwise_form form) {
  const int each = vectors / 2;
  __m512i r = s->last[i];
  if (form == OCT_POINTWISE_ADD)
    r = halves_last_residuals(halves_residual(p, at, 2 * i, whole) + 16 * each, halves_residual(p, at, 2 * i + 1, whole) + 16 * each);
  return oct_pointwise_round(p, s->last[i], each, r, form);
}

#define FOUR_PIXELS(X) X(0) X(1) X(2) X(3)
#define MORE_PIXELS(X) \
  { X(4) X(5) X(6) X(7) }

static inline __attribute__((always_inline)) void halves_copy(char *out, const char *bytes, int row, int full) {
  memcpy(out, bytes + row * full, (size_t)full);
  memcpy(out + full, bytes + 128 + 8 * row, 8);
}

/* Bytes go through memory, which costs nothing where the products wait for the vector units. */
static inline __attribute__((always_inline)) void halves_store(const oct_pointwise_panel *p, const oct_pointwise_place *at,
                                                               const halves_sums *s, int vectors, bool whole, oct_pointwise_form form) {
  const int full = vectors / 2 * 16;
  const oct_finish512 finish = oct_pointwise_finish(form);
  const oct_quantize512 *q = &p->quantize;
  char bytes[192] __attribute__((aligned(64)));
#define FULL(i) halves_full(p, at, s, i, vectors, whole, form)
#define LAST(i) halves_last(p, at, s, i, vectors, whole, form)
  _mm512_store_si512(bytes, oct_pack_vectors512(FULL(0), FULL(1), FULL(2), FULL(3), q, finish));
  _mm512_store_si512(bytes + 64, oct_pack_vectors512(FULL(4), FULL(5), FULL(6), FULL(7), q, finish));
  const __m512i l0 = LAST(0), l1 = LAST(1), l2 = vectors == 3 ? LAST(2) : l0, l3 = vectors == 3 ? LAST(3) : l1;
  _mm512_store_si512(bytes + 128, oct_pack_vectors512(l0, l1, l2, l3, q, finish));
#undef FULL
#undef LAST
#define COPY(r) halves_copy(at->out + (r)*pixel, bytes, r, full);
  const ptrdiff_t pixel = p->out_pixel;
  if (whole) {
    FOUR_PIXELS(COPY)
    if (vectors == 3) MORE_PIXELS(COPY)
  } else {
    for (int r = 0; r < at->count; r++) COPY(r)
  }
#undef COPY
}

/* 8 channels of a pixel: one half of a vector of floats. */
static inline __attribute__((always_inline)) void halves_float(const oct_pointwise_panel *p, const oct_pointwise_place *at, int row,
                                                               __m256 y, int each) {
  if (at->residual)
    y = _mm256_add_ps(y, _mm256_loadu_ps((const float *)(const void *)(at->residual + row * p->residual_pixel) + 16 * each));
  if (p->clamp) y = _mm256_min_ps(_mm512_castps512_ps256(p->quantize.high), _mm256_max_ps(_mm512_castps512_ps256(p->quantize.low), y));
  _mm256_storeu_ps((float *)(void *)(at->out + row * p->out_pixel) + 16 * each, y);
}

static inline __attribute__((always_inline)) void halves_floats(const oct_pointwise_panel *p, const oct_pointwise_place *at,
                                                                const halves_sums *s, int vectors, bool whole) {
  const int each = vectors / 2;
#define FULL(i) \
  if (whole || i / each < at->count) oct_pointwise_float(p, at, i / each, s->full[i], i % each);
#define LAST(i)                                                                                             \
  {                                                                                                         \
    const __m512 y = oct_pointwise_real(p, s->last[i], each);                                               \
    if (whole || 2 * i < at->count) halves_float(p, at, 2 * i, _mm512_castps512_ps256(y), each);            \
    if (whole || 2 * i + 1 < at->count) halves_float(p, at, 2 * i + 1, _mm512_extractf32x8_ps(y, 1), each); \
  }
  FULL(0) FULL(1) FULL(2) FULL(3) FULL(4) FULL(5) FULL(6) FULL(7) LAST(0) LAST(1) if (vectors == 3) LAST(2) if (vectors == 3) LAST(3)
#undef FULL
#undef LAST
}

static __attribute__((noinline)) void halves_detour(const oct_pointwise_panel *p, const oct_pointwise_place *at, const halves_sums *s,
                                                    int vectors) {
  const int each = vectors / 2, width = each * 16 + 16, pixels = vectors == 3 ? 8 : 4;
  int32_t acc[8 * 48] __attribute__((aligned(64))) = {0};
  for (int i = 0; i < 8; i++) _mm512_store_si512(acc + i / each * width + i % each * 16, s->full[i]);
  for (int i = 0; i < pixels; i++) {
    __m512i x = s->last[i / 2];
    _mm256_store_si256((__m256i *)(void *)(acc + i * width + each * 16),
                       i % 2 ? _mm512_extracti64x4_epi64(x, 1) : _mm512_castsi512_si256(x));
  }
  oct_pointwise_detour(p, at, at->count < pixels ? at->count : pixels, acc, width);
}

static inline __attribute__((always_inline)) void halves_finish(const oct_pointwise_panel *p, const oct_pointwise_place *at,
                                                                const halves_sums *s, int vectors, bool whole, oct_pointwise_form form) {
  if (form == OCT_POINTWISE_DETOUR) halves_detour(p, at, s, vectors);
  else if (form == OCT_POINTWISE_FLOAT) halves_floats(p, at, s, vectors, whole);
  else halves_store(p, at, s, vectors, whole, form);
}

#define OFFSET(r) ((whole ? (r) : oct_min_i64(r, last)) * p->in_pixel)
#define EIGHT_PIXELS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

/* 8 pixels x 24 channels; pixels beyond the last repeat it. */
static inline __attribute__((always_inline)) void halves_tile_3(const oct_pointwise_panel *p, const oct_pointwise_place *at, bool whole,
                                                                oct_pointwise_form form) {
  const int8_t *w = p->weights;
  const uint8_t *in = at->in;
  const int64_t last = at->count - 1;
#define DECLARE(r)                  \
  const ptrdiff_t a##r = OFFSET(r); \
  oct_acc512 c##r = (oct_acc512)p->bias[0], d##r = (oct_acc512)p->bias[1], e##r = (oct_acc512)p->bias[2];
#define MULTIPLY(r)                                \
  {                                                \
    const __m512i x = halves_broadcast(in + a##r); \
    c##r = oct_dot_acc512(c##r, x, w0);            \
    d##r = oct_dot_acc512(d##r, x, w1);            \
    e##r = oct_dot_acc512(e##r, x, w2);            \
  }
  EIGHT_PIXELS(DECLARE)
  for (const uint8_t *end = in + p->bytes; in < end; in += 8, w += 192) {
    const __m512i w0 = _mm512_loadu_si512(w), w1 = _mm512_loadu_si512(w + 64), w2 = _mm512_loadu_si512(w + 128);
    EIGHT_PIXELS(MULTIPLY)
  }
  const halves_sums s = {{halves_sum(c0, d0), halves_sum(c1, d1), halves_sum(c2, d2), halves_sum(c3, d3), halves_sum(c4, d4),
                          halves_sum(c5, d5), halves_sum(c6, d6), halves_sum(c7, d7)},
                         {halves_sum(e0, e1), halves_sum(e2, e3), halves_sum(e4, e5), halves_sum(e6, e7)}};
  halves_finish(p, at, &s, 3, whole, form);
#undef DECLARE
#undef MULTIPLY
}

/* 4 pixels x 40 channels. */
static inline __attribute__((always_inline)) void halves_tile_5(const oct_pointwise_panel *p, const oct_pointwise_place *at, bool whole,
                                                                oct_pointwise_form form) {
  const int8_t *w = p->weights;
  const uint8_t *in = at->in;
  const int64_t last = at->count - 1;
#define DECLARE(r)                                                                                                                       \
  const ptrdiff_t a##r = OFFSET(r);                                                                                                      \
  oct_acc512 c##r = (oct_acc512)p->bias[0], d##r = (oct_acc512)p->bias[1], e##r = (oct_acc512)p->bias[2], f##r = (oct_acc512)p->bias[3], \
             g##r = (oct_acc512)p->bias[4];
#define MULTIPLY(r)                                \
  {                                                \
    const __m512i x = halves_broadcast(in + a##r); \
    c##r = oct_dot_acc512(c##r, x, w0);            \
    d##r = oct_dot_acc512(d##r, x, w1);            \
    e##r = oct_dot_acc512(e##r, x, w2);            \
    f##r = oct_dot_acc512(f##r, x, w3);            \
    g##r = oct_dot_acc512(g##r, x, w4);            \
  }
  FOUR_PIXELS(DECLARE)
  for (const uint8_t *end = in + p->bytes; in < end; in += 8, w += 320) {
    const __m512i w0 = _mm512_loadu_si512(w), w1 = _mm512_loadu_si512(w + 64), w2 = _mm512_loadu_si512(w + 128);
    const __m512i w3 = _mm512_loadu_si512(w + 192), w4 = _mm512_loadu_si512(w + 256);
    FOUR_PIXELS(MULTIPLY)
  }
  const halves_sums s = {{halves_sum(c0, d0), halves_sum(e0, f0), halves_sum(c1, d1), halves_sum(e1, f1), halves_sum(c2, d2),
                          halves_sum(e2, f2), halves_sum(c3, d3), halves_sum(e3, f3)},
                         {halves_sum(g0, g1), halves_sum(g2, g3)}};
  halves_finish(p, at, &s, 5, whole, form);
#undef DECLARE
#undef MULTIPLY
}
#undef OFFSET

static inline __attribute__((always_inline)) void halves_row(const oct_pointwise_panel *p, oct_pointwise_place at, int vectors,
                                                             oct_pointwise_form form) {
  const int rows = vectors == 3 ? 8 : 4;
  for (; at.count >= rows; at = oct_pointwise_after(p, at, rows, form))
    if (vectors == 3) halves_tile_3(p, &at, true, form);
    else halves_tile_5(p, &at, true, form);
  if (at.count > 0 && vectors == 3) halves_tile_3(p, &at, false, form);
  else if (at.count > 0) halves_tile_5(p, &at, false, form);
}

#endif
