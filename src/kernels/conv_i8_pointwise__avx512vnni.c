/* 8-bit 1x1 convolution of few channels (AVX-512 VNNI): with so few products per output the epilogue decides, so bytes are made from the
 * accumulators while these are in registers. Tiles are 4 pixels x 64 output channels in the order of quarters
 * (conv_i8_quarters__avx512vnni.h), 8 pixels x 32 or 8 pixels x 16 in natural order, along a row of the image.
 * Packed weights: [panel][step][vector][16 channels][4]; a panel is 64 channels, the last ones 32 or 16.
 * SPDX-License-Identifier: MIT */
#include "kernels/conv_i8_quarters__avx512vnni.h"
#include "kernels/conv_i8_tiles__avx512vnni.h"

#define CHANNELS 64         /* most input channels: with more, other tiles are faster */
#define NARROW_CHANNELS 144 /* ... with at most 32 output channels */
#define NEAR 20480          /* bytes of pixels that pass through all panels before the next ones, where weights are few */
#define FAR 131072          /* ... and where they are many */

static const char *reject(const oct_conv_shape *s) {
  if (s->kernel_h != 1 || s->kernel_w != 1 || s->groups != 1) return "made for 1x1 of one group";
  if (s->channels > (s->out_channels > 32 ? CHANNELS : NARROW_CHANNELS)) return "made for few input channels";
  if (s->out_channels < 16) return "made for at least 16 output channels";
  return s->out_h == 1 ? "made for images of more than one row" : NULL;
}

static int64_t steps_of(const oct_conv_shape *s) { return (s->channels + 3) / 4; }

/* Vectors of the next panel when `left` channels are left: 33 to 48 make two panels. */
static int vectors_of(int64_t left) { return left > 48 ? 4 : left > 16 ? 2 : 1; }

static size_t packed_bytes(const oct_conv_shape *s) {
  int64_t vectors = 0;
  while (16 * vectors < s->out_channels) vectors += vectors_of(s->out_channels - 16 * vectors);
  return (size_t)(vectors * steps_of(s) * 64);
}

static void pack(const oct_conv_shape *s, const int8_t *weights, void *packed) {
  int8_t *out = (int8_t *)packed;
  int vectors;
  for (int64_t o = 0; o < s->out_channels; o += 16 * vectors) {
    vectors = vectors_of(s->out_channels - o);
    for (int64_t k = 0; k < steps_of(s); k++)
      for (int j = 0; j < vectors; j++)
        for (int i = 0; i < 16; i++)
          for (int64_t b = 4 * k; b < 4 * k + 4; b++) {
            int64_t c = o + (vectors == 4 ? oct_quarter_channel(j, i) : 16 * j + i);
            *out++ = c < s->out_channels && b < s->channels ? weights[c * s->channels + b] : 0;
          }
  }
}

/* Units are rows of the output. */
static size_t units(const oct_conv_shape *s) { return (size_t)(s->batch * s->out_h); }

typedef struct panel {
  const oct_conv_i8_args *args;
  int64_t channel, bytes; /* bytes: of a pixel, padded to steps */
  const int8_t *weights;
  ptrdiff_t in_pixel, out_pixel, residual_pixel; /* bytes from an output pixel to the next */
  int count, vectors;
  bool adds; /* a residual, in profile onnx and without a table: the one detour that is not made */
  oct_quarters bias;
  oct_quarters_epilogue epilogue;
} panel;

/* Some pixels of a row. */
typedef struct place {
  const uint8_t *in;
  char *out;
  const char *residual;
  int64_t pixel;
  int count;
} place;

/* The values of a panel's channels in the order of its accumulators; those of 32 or 16 repeated. NULL gives zeros. */
static oct_quarters values_of(const void *values, int count, int vectors) {
  if (!values || vectors == 4) return oct_quarters_load(values);
  const __m512i a = _mm512_maskz_loadu_epi32(oct_mask16(count), values);
  const __m512i b = vectors == 2 ? _mm512_maskz_loadu_epi32(oct_mask16(count - 16), (const int32_t *)values + 16) : a;
  return (oct_quarters){a, b, a, b};
}

static panel panel_of(const oct_conv_i8_args *a, int64_t channel, const int8_t *weights) {
  const oct_conv_shape *s = &a->shape;
  const oct_epilogue_i8 *e = &a->epilogue;
  const ptrdiff_t element = (ptrdiff_t)oct_epilogue_element(e);
  panel p = {.args = a, .channel = channel, .bytes = 4 * steps_of(s), .weights = weights, .vectors = vectors_of(s->out_channels - channel)};
  p.count = (int)oct_min_i64(16 * p.vectors, s->out_channels - channel);
  p.in_pixel = a->in.pixel * s->stride_w, p.out_pixel = a->out.pixel * element, p.residual_pixel = a->residual.pixel * element;
  p.epilogue = oct_quarters_epilogue_of(a, channel, p.count, 4 / p.vectors); /* narrow panels: their own order below */
  p.adds = a->residual.data && e->out == OCT_EPILOGUE_U8 && e->profile == OCT_PROFILE_ONNX && !e->table;
  if (p.adds) p.epilogue.quantize = oct_quantize512_of(e);
  const bool direct = p.adds || p.epilogue.kind != OCT_QUARTERS_DETOUR, shifted = p.epilogue.kind == OCT_QUARTERS_SHIFTED && e->float_bias;
  p.bias = values_of(e->bias ? e->bias + channel : NULL, p.count, p.vectors);
  p.epilogue.multiplier = values_of(direct ? e->multiplier + channel : NULL, p.count, p.vectors);
  p.epilogue.float_bias = values_of(shifted ? e->float_bias + channel : NULL, p.count, p.vectors);
  return p;
}

static __attribute__((noinline)) void detour(const panel *p, const place *at, const int32_t *acc) {
  oct_direct_rows rows; /* large: only what is used is set */
  rows.pixel = at->pixel, rows.count = at->count;
  for (int r = 0; r < at->count; r++) {
    rows.out[r] = at->out + r * p->out_pixel;
    if (at->residual) rows.residual[r] = at->residual + r * p->residual_pixel;
  }
  oct_epilogue_i8_avx512(p->args, &rows, p->channel, p->count, acc, 16 * p->vectors);
}

static inline __m512i sum_with(__m512i c, __m512i multiplier, __m512i residual, const oct_quantize512 *q) {
  __m512 t = _mm512_mul_ps(_mm512_cvtepi32_ps(c), _mm512_castsi512_ps(multiplier));
  t = _mm512_add_ps(t, _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(residual, q->residual_zero_point)), q->residual_scale));
  return _mm512_cvtps_epi32(oct_clamp_ps512(t, q->low, q->high));
}

/* Bytes of accumulators and residuals. */
static inline __m512i bytes_with(const panel *p, oct_quarters c, oct_quarters r) {
  const oct_quarters *m = &p->epilogue.multiplier;
  const oct_quantize512 *q = &p->epilogue.quantize;
  return oct_pack_lanes512(sum_with(c.q0, m->q0, r.q0, q), sum_with(c.q1, m->q1, r.q1, q), sum_with(c.q2, m->q2, r.q2, q),
                           sum_with(c.q3, m->q3, r.q3, q), q, OCT_FINISH_CLAMP);
}

/* 64 bytes of residuals as quarters. */
static inline oct_quarters quarters_of_bytes(const char *p) {
  const __m512i zero = _mm512_setzero_si512();
  return oct_quarters_interleave(_mm512_loadu_si512(p), zero, zero, zero);
}

static inline __m512i widen16(const char *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)); }

/* Residuals of 2 pixels x 32 channels or 4 x 16 from pixel `first` on; pixels beyond the last repeat it. */
static inline __attribute__((always_inline)) oct_quarters residuals_narrow(const panel *p, const place *at, int first, int vectors) {
  const int last = at->count - 1;
#define RESIDUAL(i) (at->residual + (first + (i) < last ? first + (i) : last) * p->residual_pixel)
  if (vectors == 2) return (oct_quarters){widen16(RESIDUAL(0)), widen16(RESIDUAL(0) + 16), widen16(RESIDUAL(1)), widen16(RESIDUAL(1) + 16)};
  return (oct_quarters){widen16(RESIDUAL(0)), widen16(RESIDUAL(1)), widen16(RESIDUAL(2)), widen16(RESIDUAL(3))};
#undef RESIDUAL
}

#define FOUR(X) X(0) X(1) X(2) X(3)

/* `rows` is a constant wherever this is inlined, so the variables of rows beyond it vanish. */
static inline __attribute__((always_inline)) void tile_wide(const panel *p, const place *at, int rows, bool adds) {
  const oct_quarters bias = p->bias;
  const oct_quarters_epilogue *e = &p->epilogue;
  const int8_t *w = p->weights;
#define DECLARE(r)                                \
  const uint8_t *a##r = at->in + r * p->in_pixel; \
  oct_quarters c##r = bias;
#define MULTIPLY(r)                                \
  if (r < rows) {                                  \
    const __m512i x = oct_broadcast4(a##r + k);    \
    c##r.q0 = _mm512_dpbusd_epi32(c##r.q0, x, w0); \
    c##r.q1 = _mm512_dpbusd_epi32(c##r.q1, x, w1); \
    c##r.q2 = _mm512_dpbusd_epi32(c##r.q2, x, w2); \
    c##r.q3 = _mm512_dpbusd_epi32(c##r.q3, x, w3); \
  }
#define KEEP(r) \
  if (r < rows) oct_quarters_store_acc(acc + r * 64, c##r);
#define ADD(r)                                                   \
  if (r < rows)                                                  \
    _mm512_mask_storeu_epi8(at->out + r * p->out_pixel, e->mask, \
                            bytes_with(p, c##r, quarters_of_bytes(at->residual + r * p->residual_pixel)));
#define STORE(r) \
  if (r < rows) _mm512_mask_storeu_epi8(at->out + r * p->out_pixel, e->mask, oct_quarters_bytes(c##r, e));
  FOUR(DECLARE)
  for (ptrdiff_t k = 0; k < p->bytes; k += 4, w += 256) {
    const __m512i w0 = _mm512_loadu_si512(w);
    const __m512i w1 = _mm512_loadu_si512(w + 64);
    const __m512i w2 = _mm512_loadu_si512(w + 128);
    const __m512i w3 = _mm512_loadu_si512(w + 192);
    FOUR(MULTIPLY)
  }
  if (adds) {
    FOUR(ADD)
    return;
  }
  if (e->kind == OCT_QUARTERS_DETOUR) {
    int32_t acc[4 * 64] __attribute__((aligned(64)));
    FOUR(KEEP)
    detour(p, at, acc);
    return;
  }
  FOUR(STORE)
#undef DECLARE
#undef MULTIPLY
#undef KEEP
#undef ADD
#undef STORE
}

/* Bytes of 2 pixels x 32 channels or 4 x 16 to their places. */
static inline __attribute__((always_inline)) void store_narrow(const panel *p, const place *at, int first, oct_quarters c, int vectors,
                                                               bool adds) {
  if (first >= at->count) return;
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i bytes = adds ? bytes_with(p, c, residuals_narrow(p, at, first, vectors)) : oct_quarters_bytes(c, &p->epilogue);
  const __m512i x = _mm512_permutexvar_epi32(order, bytes);
  const __mmask64 mask = p->epilogue.mask;
  const int left = at->count - first;
  char *out = at->out + first * p->out_pixel;
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

#define EIGHT(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

/* 8 pixels; those beyond the last repeat it. */
static inline __attribute__((always_inline)) void tile_narrow(const panel *p, const place *at, int vectors, bool adds) {
  const oct_quarters bias = p->bias;
  const int8_t *w = p->weights;
#define DECLARE(r)                                                                  \
  const uint8_t *a##r = at->in + (r < at->count ? r : at->count - 1) * p->in_pixel; \
  __m512i c##r = bias.q0, d##r = bias.q1;
#define MULTIPLY(r)                                            \
  {                                                            \
    const __m512i x = oct_broadcast4(a##r + k);                \
    c##r = _mm512_dpbusd_epi32(c##r, x, w0);                   \
    if (vectors == 2) d##r = _mm512_dpbusd_epi32(d##r, x, w1); \
  }
#define KEEP(r)                                     \
  _mm512_store_si512(acc + r * 16 * vectors, c##r); \
  if (vectors == 2) _mm512_store_si512(acc + r * 32 + 16, d##r);
  EIGHT(DECLARE)
  for (ptrdiff_t k = 0; k < p->bytes; k += 4, w += 64 * vectors) {
    const __m512i w0 = _mm512_loadu_si512(w), w1 = vectors == 2 ? _mm512_loadu_si512(w + 64) : w0;
    EIGHT(MULTIPLY)
  }
  if (!adds && p->epilogue.kind == OCT_QUARTERS_DETOUR) {
    int32_t acc[256] __attribute__((aligned(64)));
    EIGHT(KEEP)
    detour(p, at, acc);
  } else if (vectors == 2) {
    store_narrow(p, at, 0, (oct_quarters){c0, d0, c1, d1}, 2, adds);
    store_narrow(p, at, 2, (oct_quarters){c2, d2, c3, d3}, 2, adds);
    store_narrow(p, at, 4, (oct_quarters){c4, d4, c5, d5}, 2, adds);
    store_narrow(p, at, 6, (oct_quarters){c6, d6, c7, d7}, 2, adds);
  } else {
    store_narrow(p, at, 0, (oct_quarters){c0, c1, c2, c3}, 1, adds);
    store_narrow(p, at, 4, (oct_quarters){c4, c5, c6, c7}, 1, adds);
  }
#undef DECLARE
#undef MULTIPLY
#undef KEEP
}

/* `adds` is a constant wherever this is inlined. */
static inline __attribute__((always_inline)) void tile_as(const panel *p, const place *at, bool adds) {
  if (p->vectors == 2) tile_narrow(p, at, 2, adds);
  else if (p->vectors == 1) tile_narrow(p, at, 1, adds);
  else if (at->count == 4) tile_wide(p, at, 4, adds);
  else if (at->count == 3) tile_wide(p, at, 3, adds);
  else if (at->count == 2) tile_wide(p, at, 2, adds);
  else tile_wide(p, at, 1, adds);
}

static __attribute__((noinline)) void tile_adding(const panel *p, const place *at) { tile_as(p, at, true); }

static void tile(const panel *p, const place *at) {
  if (p->adds) tile_adding(p, at);
  else tile_as(p, at, false);
}

/* One row of the output. */
static void run_row(const panel *p, int64_t row) {
  const oct_conv_i8_args *a = p->args;
  const oct_conv_shape *s = &a->shape;
  const size_t element = oct_epilogue_element(&a->epilogue);
  const int64_t n = oct_quotient(row, s->out_h), y = row - n * s->out_h;
  const int most = p->vectors == 4 ? 4 : 8;
  place at = {.pixel = row * s->out_w};
  at.in = (const uint8_t *)oct_view_at(&a->in, 1, n, y * s->stride_h - s->pad_top, -s->pad_left);
  at.out = (char *)oct_view_at(&a->out, element, n, y, 0) + (size_t)p->channel * element;
  if (a->residual.data) at.residual = (const char *)oct_view_at(&a->residual, element, n, y, 0) + (size_t)p->channel * element;
  for (int64_t x = 0; x < s->out_w; x += most) {
    at.count = (int)oct_min_i64(most, s->out_w - x);
    tile(p, &at);
    at.in += most * p->in_pixel, at.out += most * p->out_pixel, at.pixel += most;
    if (at.residual) at.residual += most * p->residual_pixel;
  }
}

static void run(const oct_conv_i8_args *a, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  const oct_conv_shape *s = &a->shape;
  const int64_t row_bytes = s->in_w * s->channels * s->stride_h + s->out_w * s->out_channels;
  const int64_t together = 1 + oct_quotient(packed_bytes(s) <= 16384 ? NEAR : FAR, row_bytes + 1);
  for (int64_t first = (int64_t)begin; first < (int64_t)end; first += together) {
    const int64_t last = oct_min_i64(first + together, (int64_t)end);
    const int8_t *weights = (const int8_t *)a->packed;
    for (int64_t o = 0; o < s->out_channels;) {
      const panel p = panel_of(a, o, weights);
      for (int64_t row = first; row < last; row++) run_row(&p, row);
      weights += steps_of(s) * 64 * p.vectors;
      o += 16 * p.vectors;
    }
  }
}

const oct_conv_i8_kernel oct_conv_i8_pointwise__avx512vnni = {
    .name = "conv_i8_pointwise__avx512vnni",
    .isa = OCT_ISA_AVX512VNNI,
    .preference = 470,
    .reject = reject,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .units = units,
    .run = run,
};
