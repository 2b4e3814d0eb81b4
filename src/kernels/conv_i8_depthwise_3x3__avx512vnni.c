/* Depthwise 8-bit 3x3 convolution (see conv_i8_depthwise_strips__avx512vnni.h). Interleaved columns of four rows stay in registers for the
 * pixels to come and serve two output rows. With stride 2 the second one's last row is interleaved on its own, four columns at a time.
 * SPDX-License-Identifier: MIT */
#include "kernels/conv_i8_depthwise_strips__avx512vnni.h"

/* [column][output row] */
static const int8_t taps_1[6][4] = {{0, 3, 6, -1}, {-1, 0, 3, 6}, {1, 4, 7, -1}, {-1, 1, 4, 7}, {2, 5, 8, -1}, {-1, 2, 5, 8}};
static const int8_t taps_2[7][4] = {{0, 3, 6, -1}, {-1, -1, 0, 3}, {1, 4, 7, -1}, {-1, -1, 1, 4},
                                    {2, 5, 8, -1}, {-1, -1, 2, 5}, {6, 7, 8, -1}};

static inline __attribute__((always_inline)) oct_quarters three(oct_quarters y, oct_quarters a, oct_quarters b, oct_quarters c,
                                                                const int8_t *w) {
  return oct_quarters_dot(oct_quarters_dot(oct_quarters_dot(y, a, w), b, w + 512), c, w + 1024);
}

/* The vector that begins some pixels after the one in a; b is the one after it. 4 `lanes` of 32 bits hold 16 channels of a quarter. */
#define FOLLOWING(a, b, lanes)                                                                            \
  ((oct_quarters){_mm512_alignr_epi32((b).q0, (a).q0, lanes), _mm512_alignr_epi32((b).q1, (a).q1, lanes), \
                  _mm512_alignr_epi32((b).q2, (a).q2, lanes), _mm512_alignr_epi32((b).q3, (a).q3, lanes)})
#define FOLLOWING_PAIRS(a, b, lanes) \
  ((oct_strip_pairs){_mm512_alignr_epi32((b).low, (a).low, lanes), _mm512_alignr_epi32((b).high, (a).high, lanes)})

/* `pixels`, `loads` and `direct` (bytes of two rows to the output, or sums) are constants wherever these are inlined. */
static inline __attribute__((always_inline)) void stride_1(const oct_strip *t, oct_strip_part part, int pixels, int loads, bool direct) {
  const ptrdiff_t pixel = t->args->in.pixel, last = (t->width + 1) * pixel;
  const uint8_t *in[4] = {t->in[0], t->in[1], t->in[2], t->in[3]};
  const int8_t *w = t->block->weights;
  const oct_quarters start = t->block->start;
  oct_strip_output o = oct_strip_output_of(t, &part);
  for (int strip = 0; strip < t->count; strip++) {
    oct_quarters a = oct_strip_column(in, part.first * pixel, pixel, last, loads), b = a, c;
    if (pixels == 1) b = oct_strip_column(in, (part.first + 1) * pixel, pixel, last, loads);
    for (int64_t x = part.first; x < part.end; x += pixels) {
      const ptrdiff_t at = (x + (pixels == 1 ? 2 : pixels)) * pixel;
      const oct_quarters next = oct_strip_column(in, pixels == 1 ? at : oct_min_i64(at, last), pixel, last, loads);
      if (pixels == 2) b = FOLLOWING(a, next, 8);
      else if (pixels == 4) b = FOLLOWING(a, next, 4);
      if (pixels == 4) c = FOLLOWING(a, next, 8);
      else c = next;
      oct_strip_put(&o, 0, x, three(start, a, b, c, w), pixels, direct);
      if (direct || o.rows == 2) oct_strip_put(&o, 1, x, three(start, a, b, c, w + 256), pixels, direct);
      a = pixels == 1 ? b : next;
      if (pixels == 1) b = next;
    }
    oct_strip_next(t, strip, in, 4, &o);
  }
}

/* Two columns of one row. The second one may lie behind the last that there is. */
static inline __attribute__((always_inline)) oct_strip_pairs beside(const uint8_t *in, ptrdiff_t at, ptrdiff_t pixel, ptrdiff_t last,
                                                                    int loads) {
  return oct_strip_pair(oct_strip_load(in, at, 2 * pixel, last, loads),
                        oct_strip_load(in, oct_min_i64(at + pixel, last), 2 * pixel, last, loads));
}

static inline __attribute__((always_inline)) void stride_2(const oct_strip *t, oct_strip_part part, int pixels, bool direct) {
  const ptrdiff_t pixel = t->args->in.pixel, last = 2 * t->width * pixel;
  const uint8_t *in[5] = {t->in[0], t->in[1], t->in[2], t->in[3], t->in[4]};
  const int8_t *w = t->block->weights;
  const oct_quarters start = t->block->start;
  oct_strip_output o = oct_strip_output_of(t, &part);
  for (int strip = 0; strip < t->count; strip++) {
    oct_quarters a = oct_strip_column(in, 2 * part.first * pixel, 2 * pixel, last, pixels), c;
    oct_strip_pairs p = beside(in[4], 2 * part.first * pixel, pixel, last, pixels), f;
    for (int64_t x = part.first; x < part.end; x += pixels) {
      const ptrdiff_t at = 2 * x * pixel, after = oct_min_i64(at + 2 * pixels * pixel, last);
      const oct_quarters b = oct_strip_column(in, at + pixel, 2 * pixel, last - pixel, pixels);
      const oct_quarters next = oct_strip_column(in, after, 2 * pixel, last, pixels);
      c = pixels == 1 ? next : pixels == 2 ? FOLLOWING(a, next, 8) : FOLLOWING(a, next, 4);
      oct_strip_put(&o, 0, x, three(start, a, b, c, w), pixels, direct);
      if (direct || o.rows == 2) {
        const oct_strip_pairs q = beside(in[4], after, pixel, last, pixels);
        f = pixels == 1 ? q : pixels == 2 ? FOLLOWING_PAIRS(p, q, 8) : FOLLOWING_PAIRS(p, q, 4);
        oct_strip_put(&o, 1, x, oct_quarters_dot(three(start, a, b, c, w + 256), oct_strip_quads(p, f), w + 1536), pixels, direct);
        p = q;
      }
      a = next;
    }
    oct_strip_next(t, strip, in, 5, &o);
  }
}

#define PART(name, stride, ...)                               \
  static void name(const oct_strip *t, oct_strip_part part) { \
    if (part.sums) stride(t, part, __VA_ARGS__, false);       \
    else stride(t, part, __VA_ARGS__, true);                  \
  }
PART(stride_1_1, stride_1, 1, 1)
PART(stride_1_2, stride_1, 2, 2)
PART(stride_1_2_dense, stride_1, 2, 1)
PART(stride_1_4, stride_1, 4, 4)
PART(stride_1_4_dense, stride_1, 4, 1)
PART(stride_2_1, stride_2, 1)
PART(stride_2_2, stride_2, 2)
PART(stride_2_4, stride_2, 4)

static void part(const oct_strip *t, oct_strip_part part) {
  static const oct_strip_fn one[] = {stride_1_1, stride_1_2, stride_1_4}, dense[] = {stride_1_1, stride_1_2_dense, stride_1_4_dense},
                            two[] = {stride_2_1, stride_2_2, stride_2_4};
  const int pixels = t->block->pixels;
  const oct_strip_fn *list = t->args->shape.stride_w == 2 ? two : t->args->in.pixel * pixels == 64 ? dense : one;
  list[pixels / 2](t, part);
}

static const oct_strip_form *form_of(const oct_conv_shape *s) {
  static const oct_strip_form forms[2] = {{.dots = 6, .taps = taps_1, .most = INT32_MAX, .part = part},
                                          {.dots = 7, .taps = taps_2, .most = INT32_MAX, .part = part}};
  return &forms[s->stride_w - 1];
}

static const char *reject(const oct_conv_shape *s) { return oct_strip_reject(s, 3); }
static size_t packed_bytes(const oct_conv_shape *s) { return oct_strip_packed_bytes(s, form_of(s)); }
static void pack(const oct_conv_shape *s, const int8_t *weights, void *packed) { oct_strip_pack(s, form_of(s), weights, packed); }

static void run(const oct_conv_i8_args *a, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  oct_strip_run(a, begin, end, form_of(&a->shape));
}

const oct_conv_i8_kernel oct_conv_i8_depthwise_3x3__avx512vnni = {
    .name = "conv_i8_depthwise_3x3__avx512vnni",
    .isa = OCT_ISA_AVX512VNNI,
    .preference = 520,
    .reject = reject,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .units = oct_strip_units,
    .run = run,
};
