/* What the tiles of 8-bit 1x1 convolution share (AVX-512 VNNI; conv_i8_pointwise__avx512vnni.c): a panel of output channels with the constants
 * of its epilogue, places along a row of pixels, and bytes from accumulators while these are in registers.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_POINTWISE_AVX512VNNI_H
#define OCT_KERNELS_CONV_I8_POINTWISE_AVX512VNNI_H

#include "kernels/conv_i8_positive__avx512vnni.h"
#include "kernels/conv_i8_tiles__avx512vnni.h"

/* How accumulators become outputs. Each has code of its own, so there are few. DETOUR: by oct_epilogue_i8_avx512(). PLAIN and SATURATE: as
 * oct_finish512, without residuals. ADD: residuals, where packing saturates. SHIFTED: any other bytes of profile onnx without residuals, or
 * rounded floats of one scale. FLOAT: floats of one scale, not in the order of quarters. POSITIVE: PLAIN, or rounded floats, as
 * conv_i8_positive__avx512vnni.h has it; not for sums of halves. */
#define OCT_POINTWISE_FORMS(X) X(DETOUR) X(PLAIN) X(SATURATE) X(ADD) X(SHIFTED) X(FLOAT)
typedef enum oct_pointwise_form {
#define X(name) OCT_POINTWISE_##name,
  OCT_POINTWISE_FORMS(X) X(POSITIVE)
#undef X
} oct_pointwise_form;

/* Pixels side by side; `out` and `residual` point at the panel's first channel. */
typedef struct oct_pointwise_place {
  const uint8_t *in;
  char *out;
  const char *residual;
  int64_t pixel; /* index of the first one over all images */
  int64_t count;
} oct_pointwise_place;

typedef struct oct_pointwise_panel oct_pointwise_panel;
typedef void (*oct_pointwise_row_fn)(oct_pointwise_panel *panel, oct_pointwise_place at);

struct oct_pointwise_panel {
  /* As its accumulators, or what becomes of them, are ordered. If POSITIVE, accumulators start at `bias` and `float_bias` is the offset. */
  __m512i bias[5], multiplier[4], float_bias[4];
  oct_quantize512 quantize; /* if FLOAT, low and high are those of floats */
  bool clamp;               /* if FLOAT */
  __mmask64 mask;           /* its channels */
  const oct_conv_i8_args *args;
  oct_pointwise_row_fn row;
  const int8_t *weights;
  const int8_t *next, *end; /* of the weights that come after: those that were not fetched yet */
  int64_t bytes;            /* of a pixel, padded to steps */
  int64_t channel;
  ptrdiff_t in_pixel, out_pixel, residual_pixel; /* bytes from an output pixel to the next */
  int count;                                     /* channels */
  ptrdiff_t
      ahead; /* from a pixel to that of the next row, when it is to be fetched: pixels that lie apart come late by themselves; else 0 */
};

static inline oct_finish512 oct_pointwise_finish(oct_pointwise_form f) {
  if (f == OCT_POINTWISE_PLAIN || f == OCT_POINTWISE_POSITIVE) return OCT_FINISH_PLAIN;
  return f == OCT_POINTWISE_SHIFTED ? OCT_FINISH_CLAMP : OCT_FINISH_SATURATE;
}

static inline oct_pointwise_form oct_pointwise_form_of(const oct_conv_i8_args *a, int64_t channel, int count) {
  const oct_epilogue_i8 *e = &a->epilogue;
  if (e->out == OCT_EPILOGUE_U8 && e->profile == OCT_PROFILE_ONNX && a->residual.data && !e->table &&
      oct_finish512_of(e, oct_largest512(e->multiplier + channel, count), true) != OCT_FINISH_CLAMP)
    return OCT_POINTWISE_ADD;
  switch (oct_quarters_kind_of(a, channel, count)) {
    case OCT_QUARTERS_DETOUR: return OCT_POINTWISE_DETOUR;
    case OCT_QUARTERS_PLAIN: return OCT_POINTWISE_PLAIN;
    case OCT_QUARTERS_SATURATE: return OCT_POINTWISE_SATURATE;
    default: return OCT_POINTWISE_SHIFTED;
  }
}

/* The functions below have `form` constant wherever they are inlined. */

/* Rounded values of accumulators, still without the zero point; j: which of the panel's vectors of constants; residual: as int32. */
static inline __attribute__((always_inline)) __m512i oct_pointwise_round(const oct_pointwise_panel *p, __m512i c, int j, __m512i residual,
                                                                         oct_pointwise_form form) {
  const oct_quantize512 *q = &p->quantize;
  if (form == OCT_POINTWISE_POSITIVE) return oct_positive_round(c, p->multiplier[j], p->float_bias[j]);
  __m512 t = _mm512_mul_ps(_mm512_cvtepi32_ps(c), _mm512_castsi512_ps(p->multiplier[j]));
  if (form == OCT_POINTWISE_SHIFTED) t = _mm512_add_ps(t, _mm512_castsi512_ps(p->float_bias[j]));
  if (form == OCT_POINTWISE_ADD)
    t = _mm512_add_ps(t, _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(residual, q->residual_zero_point)), q->residual_scale));
  return _mm512_cvtps_epi32(oct_pointwise_finish(form) == OCT_FINISH_CLAMP ? oct_clamp_ps512(t, q->low, q->high) : t);
}

/* Floats of 16 channels, or of 8 of two pixels, still without the residual. */
static inline __attribute__((always_inline)) __m512 oct_pointwise_real(const oct_pointwise_panel *p, __m512i c, int j) {
  return _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(c), _mm512_castsi512_ps(p->multiplier[j])), _mm512_castsi512_ps(p->float_bias[j]));
}

static inline __attribute__((always_inline)) __m512 oct_pointwise_clamp(const oct_pointwise_panel *p, __m512 y) {
  return p->clamp ? oct_clamp_ps512(y, p->quantize.low, p->quantize.high) : y;
}

/* Vector j of a pixel's channels to its place. */
static inline __attribute__((always_inline)) void oct_pointwise_float(const oct_pointwise_panel *p, const oct_pointwise_place *at, int row,
                                                                      __m512i c, int j) {
  const __mmask16 mask = (__mmask16)(p->mask >> 16 * j);
  __m512 y = oct_pointwise_real(p, c, j);
  if (at->residual) y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(mask, at->residual + row * p->residual_pixel + 64 * j));
  _mm512_mask_storeu_ps(at->out + row * p->out_pixel + 64 * j, mask, oct_pointwise_clamp(p, y));
}

static inline __m512i oct_pointwise_widen(const char *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)); }

/* Weights to be fetched during a tile of so many bytes of them; when all are, those at hand. */
static inline const char *oct_pointwise_next(oct_pointwise_panel *p, ptrdiff_t bytes) {
  const int8_t *next = p->next;
  if (p->end - next > bytes) p->next += bytes;
  else p->next = p->end = p->weights;
  return (const char *)next;
}

static inline __attribute__((always_inline)) oct_pointwise_place oct_pointwise_after(const oct_pointwise_panel *p, oct_pointwise_place at,
                                                                                     int count, oct_pointwise_form form) {
  at.in += count * p->in_pixel, at.out += count * p->out_pixel, at.pixel += count, at.count -= count;
  if (form == OCT_POINTWISE_ADD || ((form == OCT_POINTWISE_DETOUR || form == OCT_POINTWISE_FLOAT) && at.residual))
    at.residual += count * p->residual_pixel;
  return at;
}

/* acc[pixel][width] of the first `count` pixels, by the epilogue for any case. */
static __attribute__((noinline, unused)) void oct_pointwise_detour(const oct_pointwise_panel *p, const oct_pointwise_place *at,
                                                                   int64_t count, const int32_t *acc, int width) {
  oct_direct_rows rows; /* large: only what is used is set */
  rows.pixel = at->pixel, rows.count = (int)count;
  for (int64_t r = 0; r < count; r++) {
    rows.out[r] = at->out + r * p->out_pixel;
    if (at->residual) rows.residual[r] = at->residual + r * p->residual_pixel;
  }
  oct_epilogue_i8_avx512(p->args, &rows, p->channel, p->count, acc, width);
}

#endif
