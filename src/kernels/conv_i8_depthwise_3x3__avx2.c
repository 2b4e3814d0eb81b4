/* Depthwise 8-bit 3x3 convolution without dilation, stride 1 or 2, 32 channels at a time, along a row of outputs. The nine taps are
 * five pairs: rows 0 and 1 of each column, then row 2 of columns 0 and 1, then row 2 of column 2, which stands in the next pixel's
 * pair. What neighbouring pixels share is interleaved once.
 * Packed weights: [block of 32][pair][OCT_PAIR_BYTES].
 * SPDX-License-Identifier: MIT */
#include "kernels/conv_i8_depthwise_pairs__avx2.h"

#define PAIRS 5
#define BLOCK (PAIRS * OCT_PAIR_BYTES)
#define PIXELS 8 /* pixels between epilogues that are not plain */

static const char *reject(const oct_conv_shape *s) {
  const char *reason = oct_depthwise_reject(s);
  if (reason) return reason;
  if (s->out_channels != s->channels) return "made for channel multiplier 1";
  if (s->kernel_h != 3 || s->kernel_w != 3 || s->dilation_h != 1 || s->dilation_w != 1) return "made for 3x3 without dilation";
  if (s->stride_h != s->stride_w || s->stride_h > 2) return "made for strides 1 and 2";
  return NULL;
}

static size_t packed_bytes(const oct_conv_shape *s) { return (size_t)((s->channels + 31) / 32) * BLOCK; }

static void pack(const oct_conv_shape *s, const int8_t *weights, void *packed) {
  memset(packed, 0, packed_bytes(s));
  for (int64_t c = 0; c < s->channels; c++) {
    const int8_t *w = weights + c * 9;
    int8_t *out = (int8_t *)packed + c / 32 * BLOCK;
    int lane = (int)(c % 32);
    for (int x = 0; x < 3; x++)
      for (int y = 0; y < 2; y++) oct_pair_put(out + x * OCT_PAIR_BYTES, lane, y, w[y * 3 + x]);
    for (int x = 0; x < 2; x++) oct_pair_put(out + 3 * OCT_PAIR_BYTES, lane, x, w[6 + x]);
    oct_pair_put(out + 4 * OCT_PAIR_BYTES, lane, s->stride_w == 1,
                 w[8]); /* second of the pair that begins at column 1, or first of the next */
  }
}

static size_t units(const oct_conv_shape *s) { return (size_t)(s->batch * s->out_h); }

typedef struct strip {
  const uint8_t *in[3];
  char *out;
  const char *residual;
  int64_t pixel, width;
  ptrdiff_t in_pixel, out_pixel, residual_pixel;
} strip;

/* Half of one pixel's channels: five pairs. */
static inline __attribute__((always_inline)) void half(__m256i a, __m256i b, __m256i c, __m256i d, __m256i e, const int8_t *w, __m256i *c0,
                                                       __m256i *c1) {
  __m256i l = _mm256_maddubs_epi16(a, oct_load256(w)), h = _mm256_maddubs_epi16(a, oct_load256(w + 64));
  oct_pair_half(b, w + OCT_PAIR_BYTES, &l, &h);
  oct_pair_half(c, w + 2 * OCT_PAIR_BYTES, &l, &h);
  oct_pair_half(d, w + 3 * OCT_PAIR_BYTES, &l, &h);
  oct_pair_half(e, w + 4 * OCT_PAIR_BYTES, &l, &h);
  oct_pair_widen(l, h, c0, c1);
}

static inline oct_pair256 rows_01(const strip *s, ptrdiff_t at) {
  return oct_pair256_of(oct_load256(s->in[0] + at), oct_load256(s->in[1] + at));
}
static inline oct_pair256 row_2(const strip *s, ptrdiff_t at, ptrdiff_t next) {
  return oct_pair256_of(oct_load256(s->in[2] + at), oct_load256(s->in[2] + at + next));
}

static void finish(const oct_conv_i8_args *a, const strip *s, int64_t x, int count, int64_t channel, int channels, const int32_t *acc) {
  oct_direct_rows rows = {.pixel = s->pixel + x, .count = count};
  for (int r = 0; r < count; r++) {
    rows.out[r] = s->out + (x + r) * s->out_pixel;
    if (s->residual) rows.residual[r] = s->residual + (x + r) * s->residual_pixel;
  }
  oct_epilogue_i8_avx2(a, &rows, channel, channels, acc, 32);
}

/* `stride` is a constant wherever this is inlined. Nothing is read behind the last pixel's window. */
static inline __attribute__((always_inline)) void run_strip(const oct_conv_i8_args *a, const strip *s, int stride, int64_t channel) {
  const int8_t *w = (const int8_t *)a->packed + channel / 32 * BLOCK;
  const int channels = (int)oct_min_i64(32, a->shape.channels - channel);
  const oct_sums256 bias = oct_sums256_load(a->epilogue.bias ? a->epilogue.bias + channel : NULL);
  oct_pair_epilogue e;
  oct_pair_epilogue_make(&e, a, channel, channels);
  int32_t acc[PIXELS * 32] __attribute__((aligned(32)));
  int filled = 0;
  oct_pair256 v0 = rows_01(s, 0), v1 = rows_01(s, s->in_pixel), last = row_2(s, 0, s->in_pixel);
  ptrdiff_t at = 0;
  for (int64_t x = 0; x < s->width; x++, at += stride * s->in_pixel) {
    const oct_pair256 v2 = rows_01(s, at + 2 * s->in_pixel);
    const oct_pair256 next =
        stride == 1 ? row_2(s, at + s->in_pixel, s->in_pixel) : row_2(s, at + 2 * s->in_pixel, x + 1 < s->width ? s->in_pixel : 0);
    oct_sums256 c = bias;
    half(v0.low, v1.low, v2.low, last.low, next.low, w, &c.c0, &c.c1);
    half(v0.high, v1.high, v2.high, last.high, next.high, w + 32, &c.c2, &c.c3);
    last = next;
    if (stride == 1) v0 = v1, v1 = v2;
    else v0 = v2;
    if (stride == 2 && x + 1 < s->width) v1 = rows_01(s, at + 3 * s->in_pixel);
    if (e.plain) {
      oct_pair_store_plain(s->out + x * s->out_pixel, &c, &e);
      continue;
    }
    oct_sums256_store(acc + 32 * filled, &c);
    if (++filled < PIXELS && x + 1 < s->width) continue;
    finish(a, s, x + 1 - filled, filled, channel, channels, acc);
    filled = 0;
  }
}

static void run_stride_1(const oct_conv_i8_args *a, const strip *s, int64_t channel) { run_strip(a, s, 1, channel); }
static void run_stride_2(const oct_conv_i8_args *a, const strip *s, int64_t channel) { run_strip(a, s, 2, channel); }

static strip strip_of(const oct_conv_i8_args *a, int64_t n, int64_t y, int64_t channel) {
  const oct_conv_shape *s = &a->shape;
  ptrdiff_t element = (ptrdiff_t)oct_epilogue_element(&a->epilogue);
  strip t = {.width = s->out_w,
             .pixel = (n * s->out_h + y) * s->out_w,
             .in_pixel = a->in.pixel,
             .out_pixel = a->out.pixel * element,
             .residual_pixel = a->residual.pixel * element};
  for (int i = 0; i < 3; i++)
    t.in[i] = (const uint8_t *)oct_view_at(&a->in, 1, n, y * s->stride_h - s->pad_top + i, -s->pad_left) + channel;
  t.out = (char *)oct_view_at(&a->out, (size_t)element, n, y, 0) + channel * element;
  if (a->residual.data) t.residual = (const char *)oct_view_at(&a->residual, (size_t)element, n, y, 0) + channel * element;
  return t;
}

static void run(const oct_conv_i8_args *a, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  const oct_conv_shape *s = &a->shape;
  for (int64_t unit = (int64_t)begin; unit < (int64_t)end; unit++)
    for (int64_t c = 0; c < s->channels; c += 32) {
      strip t = strip_of(a, unit / s->out_h, unit % s->out_h, c);
      if (s->stride_w == 2) run_stride_2(a, &t, c);
      else run_stride_1(a, &t, c);
    }
}

const oct_conv_i8_kernel oct_conv_i8_depthwise_3x3__avx2 = {
    .name = "conv_i8_depthwise_3x3__avx2",
    .isa = OCT_ISA_AVX2,
    .preference = 360,
    .reject = reject,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .units = units,
    .run = run,
};
