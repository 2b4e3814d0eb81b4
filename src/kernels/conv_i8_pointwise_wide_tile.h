/* 1x1 convolution: tiles of up to 6 pixels x 64 channels in the order of quarters, or x 48 in natural order.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_POINTWISE_WIDE_TILE_H
#define OCT_KERNELS_CONV_I8_POINTWISE_WIDE_TILE_H

#include "kernels/conv_i8_pointwise__avx512vnni.h"

/* 64 bytes of residuals as quarters, or 48 in natural order. */
static inline __attribute__((always_inline)) oct_quarters wide_residuals(const char *p, int vectors) {
  const __m512i zero = _mm512_setzero_si512();
  if (vectors == 4) return oct_quarters_interleave(_mm512_loadu_si512(p), zero, zero, zero);
  return (oct_quarters){oct_pointwise_widen(p), oct_pointwise_widen(p + 16), oct_pointwise_widen(p + 32), zero};
}

/* One pixel. `vectors` and `form` are constants wherever this is inlined. */
static inline __attribute__((always_inline)) void wide_store(const oct_pointwise_panel *p, const oct_pointwise_place *at, int row,
                                                             oct_quarters c, int vectors, oct_pointwise_form form) {
  if (form == OCT_POINTWISE_FLOAT) { /* of 48 channels */
    oct_pointwise_float(p, at, row, c.q0, 0), oct_pointwise_float(p, at, row, c.q1, 1), oct_pointwise_float(p, at, row, c.q2, 2);
    return;
  }
  oct_quarters r = c;
  if (form == OCT_POINTWISE_ADD) r = wide_residuals(at->residual + row * p->residual_pixel, vectors);
  const __m512i a = oct_pointwise_round(p, c.q0, 0, r.q0, form), b = oct_pointwise_round(p, c.q1, 1, r.q1, form);
  const __m512i x = oct_pointwise_round(p, c.q2, 2, r.q2, form), y = vectors == 4 ? oct_pointwise_round(p, c.q3, 3, r.q3, form) : x;
  const __m512i bytes = vectors == 4 ? oct_pack_lanes512(a, b, x, y, &p->quantize, oct_pointwise_finish(form))
                                     : oct_pack_vectors512(a, b, x, y, &p->quantize, oct_pointwise_finish(form));
  if (vectors == 4 && p->count == 64) _mm512_storeu_si512(at->out + row * p->out_pixel, bytes); /* without a mask: faster */
  else _mm512_mask_storeu_epi8(at->out + row * p->out_pixel, p->mask, bytes);
}

static inline void wide_store_acc(int32_t *acc, oct_quarters c, int vectors) {
  if (vectors == 4) oct_quarters_store_acc(acc, c);
  else _mm512_store_si512(acc, c.q0), _mm512_store_si512(acc + 16, c.q1), _mm512_store_si512(acc + 32, c.q2);
}

#define SIX(X) X(0) X(1) X(2) X(3) X(4) X(5)

static inline void wide_fetch(const oct_pointwise_panel *p, const oct_pointwise_place *at, int rows) {
  const char *pixel = (const char *)at->in + p->ahead;
  for (int r = 0; r < rows; r++, pixel += p->in_pixel)
    for (int64_t line = 0; line < p->bytes; line += 64) _mm_prefetch(pixel + line, _MM_HINT_T0);
}

/* `rows`, `vectors` and `form` are constants wherever this is inlined, so the variables of rows beyond them vanish. */
static inline __attribute__((always_inline)) void wide_tile(oct_pointwise_panel *p, const oct_pointwise_place *at, int rows, int vectors,
                                                            oct_pointwise_form form) {
  const int8_t *w = p->weights;
  const uint8_t *in = at->in;
  const ptrdiff_t step = p->in_pixel;
  const char *next = oct_pointwise_next(p, p->bytes * 16);
  if (p->ahead) wide_fetch(p, at, rows);
#define DECLARE(r) \
  oct_acc512 c##r = (oct_acc512)p->bias[0], d##r = (oct_acc512)p->bias[1], e##r = (oct_acc512)p->bias[2], f##r = (oct_acc512)p->bias[3];
#define MULTIPLY(r)                                       \
  if (r < rows) {                                         \
    const __m512i x = oct_broadcast4(in + r * step);      \
    c##r = oct_dot_acc512(c##r, x, w0);                   \
    d##r = oct_dot_acc512(d##r, x, w1);                   \
    e##r = oct_dot_acc512(e##r, x, w2);                   \
    if (vectors == 4) f##r = oct_dot_acc512(f##r, x, w3); \
  }
#define QUARTERS(r) ((oct_quarters){(__m512i)c##r, (__m512i)d##r, (__m512i)e##r, (__m512i)f##r})
#define KEEP(r) \
  if (r < rows) wide_store_acc(acc + r * 64, QUARTERS(r), vectors);
#define STORE(r) \
  if (r < rows) wide_store(p, at, r, QUARTERS(r), vectors, form);
  SIX(DECLARE)
  for (const uint8_t *end = in + p->bytes; in < end; in += 4, w += 64 * vectors, next += 64) {
    _mm_prefetch(next, _MM_HINT_T1);
    const __m512i w0 = _mm512_loadu_si512(w);
    const __m512i w1 = _mm512_loadu_si512(w + 64);
    const __m512i w2 = _mm512_loadu_si512(w + 128);
    const __m512i w3 = vectors == 4 ? _mm512_loadu_si512(w + 192) : w2;
    SIX(MULTIPLY)
  }
  if (form == OCT_POINTWISE_DETOUR) {
    int32_t acc[6 * 64] __attribute__((aligned(64)));
    SIX(KEEP)
    oct_pointwise_detour(p, at, rows, acc, 64);
    return;
  }
  SIX(STORE)
#undef DECLARE
#undef MULTIPLY
#undef QUARTERS
#undef KEEP
#undef STORE
}

static inline __attribute__((always_inline)) void wide_row(oct_pointwise_panel *p, oct_pointwise_place at, int vectors,
                                                           oct_pointwise_form form) {
  const int64_t tiles = oct_quotient(at.count + 5, 6);
  for (int64_t left = tiles; left > 0; left--) {
    const int rows = (int)oct_quotient(at.count + left - 1, left);
    switch (rows) {
      case 6: wide_tile(p, &at, 6, vectors, form); break;
      case 5: wide_tile(p, &at, 5, vectors, form); break;
      case 4: wide_tile(p, &at, 4, vectors, form); break;
      case 3: wide_tile(p, &at, 3, vectors, form); break;
      case 2: wide_tile(p, &at, 2, vectors, form); break;
      default: wide_tile(p, &at, 1, vectors, form); break;
    }
    at = oct_pointwise_after(p, at, rows, form);
  }
}

#endif
