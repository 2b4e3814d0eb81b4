/* 8-bit 1x1 convolution of few channels (AVX-512 VNNI): with so few products per output the epilogue decides, so bytes are made from the
 * accumulators while these are in registers. Output channels are cut into panels, each with a tile of its own (conv_i8_pointwise_*_tile.h):
 * as many of 64 as there are, then what is left. Tiles lie along a row of the image.
 * Packed weights: [panel][step][vector][16 lanes][4].
 * SPDX-License-Identifier: MIT */
#include "kernels/conv_i8_pointwise_halves_tile.h"
#include "kernels/conv_i8_pointwise_narrow_tile.h"
#include "kernels/conv_i8_pointwise_wide_tile.h"

#define CHANNELS 128        /* most input channels: with more, other tiles are faster */
#define NARROW_CHANNELS 256 /* ... with at most 40 output channels */
#define HALVED_CHANNELS 32  /* fewest input channels for which sums of halves pay */
#define NEAR 20480          /* bytes of pixels that pass through all panels before the next ones, where weights are few */
#define FAR 131072          /* ... and where they are many */

static const char *reject(const oct_conv_shape *s) {
  if (s->kernel_h != 1 || s->kernel_w != 1 || s->groups != 1) return "made for 1x1 of one group";
  if (s->channels > (s->out_channels > 40 ? CHANNELS : NARROW_CHANNELS)) return "made for few input channels";
  if (s->out_channels < 16) return "made for at least 16 output channels";
  return s->out_h == 1 ? "made for images of more than one row" : NULL;
}

/* ---- Panels ---- */

#define SIX_ROWS(tile, vectors)                                                                                                         \
  tile##_##vectors##_DETOUR, tile##_##vectors##_PLAIN, tile##_##vectors##_SATURATE, tile##_##vectors##_ADD, tile##_##vectors##_SHIFTED, \
      tile##_##vectors##_FLOAT
#define ROWS_OF(tile, vectors) \
  { SIX_ROWS(tile, vectors), tile##_##vectors##_POSITIVE }
#define ROWS_OF_HALVES(vectors) \
  { SIX_ROWS(halves, vectors) }
#define DEFINE(tile, vectors, form)                                                                                 \
  static __attribute__((noinline)) void tile##_##vectors##_##form(oct_pointwise_panel *p, oct_pointwise_place at) { \
    tile##_row(p, at, vectors, OCT_POINTWISE_##form);                                                               \
  }
#define WIDE_4(form) DEFINE(wide, 4, form)
#define WIDE_3(form) DEFINE(wide, 3, form)
#define NARROW_2(form) DEFINE(narrow, 2, form)
#define NARROW_1(form) DEFINE(narrow, 1, form)
#define HALVES_3(form) DEFINE(halves, 3, form)
#define HALVES_5(form) DEFINE(halves, 5, form)
OCT_POINTWISE_FORMS(WIDE_4)
WIDE_4(POSITIVE)
OCT_POINTWISE_FORMS(WIDE_3)
WIDE_3(POSITIVE)
OCT_POINTWISE_FORMS(NARROW_2)
NARROW_2(POSITIVE)
OCT_POINTWISE_FORMS(NARROW_1)
NARROW_1(POSITIVE)
OCT_POINTWISE_FORMS(HALVES_3)
OCT_POINTWISE_FORMS(HALVES_5)

#define FORMS (OCT_POINTWISE_POSITIVE + 1)

/* What a kind of panel is. Lane i of vector j, counted as i + 16 j, has the weights of one channel, or of half of its step. */
typedef struct panel_kind {
  int channels, vectors, step; /* step: inputs */
  oct_pointwise_row_fn rows[FORMS];
} panel_kind;

static const panel_kind kind_64 = {64, 4, 4, ROWS_OF(wide, 4)}, kind_48 = {48, 3, 4, ROWS_OF(wide, 3)},
                        kind_40 = {40, 5, 8, ROWS_OF_HALVES(5)}, kind_32 = {32, 2, 4, ROWS_OF(narrow, 2)},
                        kind_24 = {24, 3, 8, ROWS_OF_HALVES(3)}, kind_16 = {16, 1, 4, ROWS_OF(narrow, 1)};

/* The kind of the panel that begins at output channel `first`. */
static const panel_kind *kind_of(const oct_conv_shape *s, int64_t first) {
  const int64_t left = s->out_channels - first;
  if (s->channels >= HALVED_CHANNELS && left == 40) return &kind_40;
  if (s->channels >= HALVED_CHANNELS && left == 24) return &kind_24;
  return left > 48 ? &kind_64 : left > 32 ? &kind_48 : left > 16 ? &kind_32 : &kind_16;
}

static int64_t bytes_of(const oct_conv_shape *s, const panel_kind *k) { return (s->channels + k->step - 1) / k->step * k->step; }

static int64_t weights_of(const oct_conv_shape *s, const panel_kind *k) { return bytes_of(s, k) / k->step * k->vectors * 64; }

static size_t packed_bytes(const oct_conv_shape *s) {
  int64_t bytes = 0;
  for (int64_t o = 0; o < s->out_channels; o += kind_of(s, o)->channels) bytes += weights_of(s, kind_of(s, o));
  return (size_t)bytes;
}

/* Channel within the panel of lane i of vector j. */
static int64_t lane_channel(const panel_kind *k, int j, int i) {
  if (k->step == 8) return 8 * j + i / 2;
  return k->vectors == 4 ? oct_quarter_channel(j, i) : 16 * j + i;
}

static void pack(const oct_conv_shape *s, const int8_t *weights, void *packed) {
  int8_t *out = (int8_t *)packed;
  const panel_kind *k;
  for (int64_t o = 0; o < s->out_channels; o += k->channels) {
    k = kind_of(s, o);
    for (int64_t first = 0; first < bytes_of(s, k); first += k->step)
      for (int lane = 0; lane < 16 * k->vectors; lane++)
        for (int b = 0; b < 4; b++) {
          int64_t c = o + lane_channel(k, lane / 16, lane % 16), i = first + (k->step == 8 ? lane % 2 * 4 : 0) + b;
          *out++ = c < s->out_channels && i < s->channels ? weights[c * s->channels + i] : 0;
        }
  }
}

/* Values of 16 channels for each of some vectors, 4 of them as quarters; NULL gives zeros. Their array is padded (kernels.h). */
static void order(const void *values, int vectors, __m512i *to) {
  const int32_t *v = (const int32_t *)values;
  if (vectors == 4) {
    const oct_quarters q = oct_quarters_load(v);
    to[0] = q.q0, to[1] = q.q1, to[2] = q.q2, to[3] = q.q3;
    return;
  }
  for (int j = 0; j < vectors; j++) to[j] = v ? _mm512_loadu_si512(v + 16 * j) : _mm512_setzero_si512();
}

static __m256i load8(const int32_t *v) { return v ? _mm256_loadu_si256((const __m256i *)(const void *)v) : _mm256_setzero_si256(); }

/* Only one of the two lanes of a channel has its bias. */
static void order_bias(const panel_kind *k, const int32_t *bias, __m512i *to) {
  if (k->step == 4) order(bias, k->vectors, to);
  else
    for (int j = 0; j < k->vectors; j++) to[j] = _mm512_cvtepu32_epi64(load8(bias ? bias + 8 * j : NULL));
}

/* Constants of what becomes of accumulators: with halves the last 8 channels lie there twice. */
static void order_sums(const panel_kind *k, const float *values, __m512i *to) {
  const int full = k->vectors / 2;
  order(values, k->step == 8 ? full : k->vectors, to);
  if (k->step == 8) to[full] = _mm512_broadcast_i64x4(load8(values ? (const int32_t *)(const void *)(values + 16 * full) : NULL));
}

/* Of a panel whose weights and channels are set. */
static void panel_epilogue(const panel_kind *k, oct_pointwise_panel *p) {
  const oct_epilogue_i8 *e = &p->args->epilogue;
  oct_pointwise_form form = oct_pointwise_form_of(p->args, p->channel, p->count);
  if (e->out == OCT_EPILOGUE_F32 && !e->row_scale && k->vectors != 4) form = OCT_POINTWISE_FLOAT;
  order_bias(k, e->bias ? e->bias + p->channel : NULL, p->bias);
  if (form != OCT_POINTWISE_DETOUR) {
    p->quantize = oct_quantize512_of(e);
    order_sums(k, e->multiplier + p->channel, p->multiplier);
  }
  if (form == OCT_POINTWISE_SHIFTED || form == OCT_POINTWISE_PLAIN) order_sums(k, oct_positive_floats(e, p->channel), p->float_bias);
  if (form == OCT_POINTWISE_FLOAT) {
    for (int i = 0; i < 4; i++) p->float_bias[i] = _mm512_castps_si512(_mm512_set1_ps(-0.0f)); /* adding it changes nothing */
    if (e->float_bias) order_sums(k, e->float_bias + p->channel, p->float_bias);
    p->quantize.low = _mm512_set1_ps(e->float_low), p->quantize.high = _mm512_set1_ps(e->float_high);
    p->clamp = e->float_low != -INFINITY || e->float_high != INFINITY;
  }
  if (k->step == 4 && oct_positive_possible(p->args, p->channel, p->count) &&
      oct_positive_set_all(k->vectors, p->weights, p->bytes / 4, p->bias, p->multiplier, p->float_bias))
    form = OCT_POINTWISE_POSITIVE;
  p->row = k->rows[form];
}

static void panel_of(const oct_conv_i8_args *a, int64_t channel, const int8_t *weights, oct_pointwise_panel *p) {
  const oct_conv_shape *s = &a->shape;
  const ptrdiff_t element = (ptrdiff_t)oct_epilogue_element(&a->epilogue);
  const panel_kind *k = kind_of(s, channel);
  p->ahead = 0;
  p->args = a, p->channel = channel, p->bytes = bytes_of(s, k), p->weights = weights;
  p->count = (int)oct_min_i64(k->channels, s->out_channels - channel);
  p->mask = p->count == 64 ? ~(__mmask64)0 : ((__mmask64)1 << p->count) - 1;
  p->next = p->end = weights + weights_of(s, k);
  if (channel + p->count < s->out_channels) p->end += weights_of(s, kind_of(s, channel + p->count));
  if (channel == 0 && s->stride_w > 1) p->ahead = s->stride_h * a->in.row;
  p->in_pixel = a->in.pixel * s->stride_w, p->out_pixel = a->out.pixel * element, p->residual_pixel = a->residual.pixel * element;
  panel_epilogue(k, p);
}

/* ---- Running ---- */

/* Units are rows of the output. */
static size_t units(const oct_conv_shape *s) { return (size_t)(s->batch * s->out_h); }

static size_t workspace_bytes(const oct_conv_shape *s) {
  size_t panels = 0;
  for (int64_t o = 0; o < s->out_channels; o += kind_of(s, o)->channels) panels++;
  return panels * sizeof(oct_pointwise_panel);
}

static void run_row(oct_pointwise_panel *p, int64_t row) {
  const oct_conv_i8_args *a = p->args;
  const oct_conv_shape *s = &a->shape;
  const size_t element = oct_epilogue_element(&a->epilogue), first = (size_t)p->channel * element;
  const int64_t n = oct_quotient(row, s->out_h), y = row - n * s->out_h;
  oct_pointwise_place at = {.pixel = row * s->out_w, .count = s->out_w};
  at.in = (const uint8_t *)oct_view_at(&a->in, 1, n, y * s->stride_h - s->pad_top, -s->pad_left);
  at.out = (char *)oct_view_at(&a->out, element, n, y, 0) + first;
  if (a->residual.data) at.residual = (const char *)oct_view_at(&a->residual, element, n, y, 0) + first;
  p->row(p, at);
}

static void run(const oct_conv_i8_args *a, size_t begin, size_t end, void *workspace) {
  const oct_conv_shape *s = &a->shape;
  const int64_t row_bytes = s->in_w * s->channels * s->stride_h + s->out_w * s->out_channels;
  const int64_t together = 1 + oct_quotient(packed_bytes(s) <= 16384 ? NEAR : FAR, row_bytes + 1);
  oct_pointwise_panel *panels = (oct_pointwise_panel *)workspace, *last = panels;
  const int8_t *weights = (const int8_t *)a->packed;
  for (int64_t o = 0; o < s->out_channels; o += last++->count) {
    panel_of(a, o, weights, last);
    weights += weights_of(s, kind_of(s, o));
  }
  for (int64_t first = (int64_t)begin, stop; first < (int64_t)end; first = stop) {
    stop = oct_min_i64(first + together, (int64_t)end);
    for (oct_pointwise_panel *p = panels; p < last; p++)
      for (int64_t row = first; row < stop; row++) run_row(p, row);
  }
}

const oct_conv_i8_kernel oct_conv_i8_pointwise__avx512vnni = {
    .name = "conv_i8_pointwise__avx512vnni",
    .isa = OCT_ISA_AVX512VNNI,
    .preference = 470,
    .reject = reject,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .workspace_bytes = workspace_bytes,
    .units = units,
    .run = run,
};
