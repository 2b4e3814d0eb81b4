/* Depthwise 8-bit 3x3 convolution, 64 channels at a time. Quarters are interleaved down the columns, so that a column serves three
 * neighbouring pixels; with stride 1 four rows of a column serve two output rows, by weights (w0,w1,w2,0) and (0,w0,w1,w2).
 * With 16 or 32 channels 64 bytes are 4 or 2 pixels, whose weights are then repeated.
 * Packed weights: [block of 64][output row 0, 1][kernel column][quarter][16 channels][4 rows].
 * SPDX-License-Identifier: MIT */
#include "kernels/conv_i8_quarters__avx512vnni.h"

#define COLUMN 256       /* bytes of one kernel column's weights */
#define ROW (3 * COLUMN) /* ... of one output row's */
#define BLOCK (2 * ROW)
#define PIXELS 8 /* pixels of a row between epilogues that are not plain */

static const char *reject(const oct_conv_shape *s) {
  const char *reason = oct_depthwise_reject(s);
  if (reason) return reason;
  if (s->out_channels != s->channels) return "made for channel multiplier 1";
  if (s->kernel_h != 3 || s->kernel_w != 3 || s->dilation_h != 1 || s->dilation_w != 1) return "made for 3x3 without dilation";
  if (s->stride_h != s->stride_w || s->stride_h > 2) return "made for strides 1 and 2";
  if (s->channels > 32 || (s->stride_w == 1 && (s->channels == 16 || s->channels == 32))) return NULL;
  return "made for more than 32 channels, or 16 or 32 with stride 1";
}

static size_t packed_bytes(const oct_conv_shape *s) { return (size_t)((s->channels + 63) / 64) * BLOCK; }

/* Channels that the weights of 16 and 32 are repeated to. */
static int64_t lanes(const oct_conv_shape *s) { return s->channels == 16 || s->channels == 32 ? 64 : s->channels; }

static void pack(const oct_conv_shape *s, const int8_t *weights, void *packed) {
  int8_t *out = (int8_t *)packed;
  memset(out, 0, packed_bytes(s));
  for (int64_t c = 0; c < lanes(s); c++) {
    int lane = (int)(c % 64), j = lane % 16 / 4, i = lane / 16 * 4 + lane % 4;
    for (int y = 0; y < 3; y++)
      for (int x = 0; x < 3; x++) {
        int8_t *first = out + c / 64 * BLOCK + x * COLUMN + j * 64 + i * 4 + y;
        first[0] = first[ROW + 1] = weights[c % s->channels * 9 + y * 3 + x];
      }
  }
}

/* Units are pairs of output rows (stride 1) or output rows (stride 2). */
static int64_t units_per_image(const oct_conv_shape *s) { return s->stride_h == 1 ? (s->out_h + 1) / 2 : s->out_h; }
static size_t units(const oct_conv_shape *s) { return (size_t)(s->batch * units_per_image(s)); }

/* What a row (pair) of a block needs. Rows 3 of the input and 1 of the output exist only where `both`. */
typedef struct strip {
  const uint8_t *in[4];
  char *out[2];
  const char *residual[2];
  int64_t pixel[2], width;
  ptrdiff_t in_pixel, out_pixel, residual_pixel;
  bool both;
  int together; /* pixels per vector */
} strip;

static inline oct_quarters column(const strip *s, ptrdiff_t at) {
  return oct_quarters_interleave(_mm512_loadu_si512(s->in[0] + at), _mm512_loadu_si512(s->in[1] + at), _mm512_loadu_si512(s->in[2] + at),
                                 _mm512_loadu_si512(s->in[3] + at));
}

static inline oct_quarters three(oct_quarters bias, const oct_quarters *a, const oct_quarters *b, const oct_quarters *c, const int8_t *w) {
  return oct_quarters_dot(oct_quarters_dot(oct_quarters_dot(bias, *a, w), *b, w + COLUMN), *c, w + 2 * COLUMN);
}

/* `count` pixels of a row from x on, whose accumulators lie `width` apart. */
static void finish(const oct_conv_i8_args *a, const strip *s, int row, int64_t x, int count, int64_t channel, const int32_t *acc,
                   int width) {
  oct_direct_rows rows = {.pixel = s->pixel[row] + x, .count = count};
  for (int r = 0; r < count; r++) {
    rows.out[r] = s->out[row] + (x + r) * s->out_pixel;
    if (s->residual[row]) rows.residual[r] = s->residual[row] + (x + r) * s->residual_pixel;
  }
  oct_epilogue_i8_avx512(a, &rows, channel, (int)oct_min_i64(width, a->shape.channels - channel), acc, width);
}

/* Biases (or multipliers) of the block as quarters, repeated when several pixels share a vector. */
static oct_quarters repeated(const oct_conv_i8_args *a, const strip *s, const void *values, int64_t channel) {
  int32_t lanes[64] __attribute__((aligned(64)));
  if (!values || s->together == 1) return oct_quarters_load(values ? (const int32_t *)values + channel : NULL);
  for (int i = 0; i < 64; i++) memcpy(&lanes[i], (const int32_t *)values + i % a->shape.channels, 4);
  return oct_quarters_load(lanes);
}

/* `stride` and `both` are constants wherever this is inlined. */
static inline __attribute__((always_inline)) void run_strip(const oct_conv_i8_args *a, const strip *s, int stride, bool both,
                                                            int64_t channel) {
  const int8_t *w = (const int8_t *)a->packed + channel / 64 * BLOCK;
  int filled = 0;
  const oct_quarters bias = repeated(a, s, a->epilogue.bias, channel);
  const oct_quarters_epilogue e = oct_quarters_epilogue_of(a, channel, (int)oct_min_i64(64, a->shape.channels - channel));
  int32_t acc[2][PIXELS * 64] __attribute__((aligned(64)));
  oct_quarters c0 = column(s, 0), c1 = stride == 1 ? column(s, s->in_pixel) : c0, c2;
  ptrdiff_t at = (stride == 1 ? 2 : 1) * s->in_pixel;
  for (int64_t x = 0; x < s->width; x++) {
    if (stride == 2) c1 = column(s, at), at += s->in_pixel;
    c2 = column(s, at), at += s->in_pixel;
    oct_quarters y0 = three(bias, &c0, &c1, &c2, w), y1 = y0;
    if (both) y1 = three(bias, &c0, &c1, &c2, w + ROW);
    if (stride == 1) c0 = c1, c1 = c2;
    else c0 = c2;
    if (e.plain) {
      oct_quarters_store_plain(s->out[0] + x * s->out_pixel, y0, &e);
      if (both) oct_quarters_store_plain(s->out[1] + x * s->out_pixel, y1, &e);
      continue;
    }
    oct_quarters_store_acc(acc[0] + 64 * filled, y0);
    if (both) oct_quarters_store_acc(acc[1] + 64 * filled, y1);
    if (++filled < PIXELS && x + 1 < s->width) continue;
    finish(a, s, 0, x + 1 - filled, filled, channel, acc[0], 64);
    if (both) finish(a, s, 1, x + 1 - filled, filled, channel, acc[1], 64);
    filled = 0;
  }
}

/* Several pixels per vector (stride 1): s->together pixels a step. */
static void run_together(const oct_conv_i8_args *a, const strip *s) {
  const int8_t *w = (const int8_t *)a->packed;
  const int width = (int)a->shape.channels;
  const oct_quarters bias = repeated(a, s, a->epilogue.bias, 0);
  oct_quarters_epilogue e = oct_quarters_epilogue_of(a, 0, 64);
  if (e.plain) e.multiplier = repeated(a, s, a->epilogue.multiplier, 0);
  if (e.shifted) e.float_bias = repeated(a, s, a->epilogue.float_bias, 0);
  e.plain = e.plain && s->out_pixel == width;
  int32_t acc[64] __attribute__((aligned(64)));
  for (int64_t x = 0; x < s->width; x += s->together) {
    ptrdiff_t at = x * s->in_pixel;
    int count = (int)oct_min_i64(s->together, s->width - x);
    oct_quarters c0 = column(s, at), c1 = column(s, at + s->in_pixel), c2 = column(s, at + 2 * s->in_pixel);
    if (count < s->together) e.mask = ((__mmask64)1 << (count * width)) - 1;
    for (int row = 0; row < (s->both ? 2 : 1); row++) {
      oct_quarters y = three(bias, &c0, &c1, &c2, w + row * ROW);
      if (e.plain) {
        oct_quarters_store_plain(s->out[row] + x * s->out_pixel, y, &e);
      } else {
        oct_quarters_store_acc(acc, y);
        finish(a, s, row, x, count, 0, acc, width);
      }
    }
  }
}

static void run_stride_2(const oct_conv_i8_args *a, const strip *s, int64_t channel) { run_strip(a, s, 2, false, channel); }
static void run_one(const oct_conv_i8_args *a, const strip *s, int64_t channel) { run_strip(a, s, 1, false, channel); }
static void run_both(const oct_conv_i8_args *a, const strip *s, int64_t channel) { run_strip(a, s, 1, true, channel); }

static strip strip_of(const oct_conv_i8_args *a, int64_t n, int64_t y, int64_t channel) {
  const oct_conv_shape *s = &a->shape;
  ptrdiff_t element = (ptrdiff_t)oct_epilogue_element(&a->epilogue);
  strip t = {
      .width = s->out_w, .in_pixel = a->in.pixel, .out_pixel = a->out.pixel * element, .residual_pixel = a->residual.pixel * element};
  t.together = lanes(s) > s->channels && a->in.pixel == s->channels ? (int)(64 / s->channels) : 1;
  t.both = s->stride_h == 1 && y + 1 < s->out_h;
  for (int i = 0; i < 4; i++)
    t.in[i] = (const uint8_t *)oct_view_at(&a->in, 1, n, y * s->stride_h - s->pad_top + (i < 3 || t.both ? i : 2), -s->pad_left) + channel;
  for (int i = 0; i < (t.both ? 2 : 1); i++) {
    t.pixel[i] = (n * s->out_h + y + i) * s->out_w;
    t.out[i] = (char *)oct_view_at(&a->out, (size_t)element, n, y + i, 0) + channel * element;
    if (a->residual.data) t.residual[i] = (const char *)oct_view_at(&a->residual, (size_t)element, n, y + i, 0) + channel * element;
  }
  return t;
}

static void run(const oct_conv_i8_args *a, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  const oct_conv_shape *s = &a->shape;
  int64_t per_image = units_per_image(s);
  for (int64_t unit = (int64_t)begin; unit < (int64_t)end; unit++) {
    int64_t n = unit / per_image, y = unit % per_image * (s->stride_h == 1 ? 2 : 1);
    for (int64_t c = 0; c < s->channels; c += 64) {
      strip t = strip_of(a, n, y, c);
      if (t.together > 1) run_together(a, &t);
      else if (s->stride_h == 2) run_stride_2(a, &t, c);
      else if (t.both) run_both(a, &t, c);
      else run_one(a, &t, c);
    }
  }
}

const oct_conv_i8_kernel oct_conv_i8_depthwise_3x3__avx512vnni = {
    .name = "conv_i8_depthwise_3x3__avx512vnni",
    .isa = OCT_ISA_AVX512VNNI,
    .preference = 520,
    .reject = reject,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .units = units,
    .run = run,
};
