/* Depthwise 8-bit 3x3 convolution (see conv_i8_depthwise_strips__avx512vnni.h). Interleaved columns stay in registers for the pixels to
 * come; with stride 1 four rows of a column serve two output rows, by weights (w0,w1,w2,0) and (0,w0,w1,w2).
 * SPDX-License-Identifier: MIT */
#include "kernels/conv_i8_depthwise_strips__avx512vnni.h"

static const char *reject(const oct_conv_shape *s) { return oct_strip_reject(s, 3); }

static inline __attribute__((always_inline)) oct_quarters three(oct_quarters y, oct_quarters a, oct_quarters b, oct_quarters c,
                                                                const int8_t *w, ptrdiff_t column) {
  return oct_quarters_dot(oct_quarters_dot(oct_quarters_dot(y, a, w), b, w + column), c, w + 2 * column);
}

/* The vector that begins some pixels after the one in a; b is the one after it. 4 `lanes` of 32 bits hold 16 channels of a quarter. */
#define FOLLOWING(a, b, lanes)                                                                            \
  ((oct_quarters){_mm512_alignr_epi32((b).q0, (a).q0, lanes), _mm512_alignr_epi32((b).q1, (a).q1, lanes), \
                  _mm512_alignr_epi32((b).q2, (a).q2, lanes), _mm512_alignr_epi32((b).q3, (a).q3, lanes)})

/* All but t is constant wherever this is inlined. */
static inline __attribute__((always_inline)) void strip_as(const oct_strip *t, int stride, int pixels, int loads, bool both) {
  const ptrdiff_t pixel = t->args->in.pixel, step = stride * pixel, last = ((t->width - 1) * stride + 2) * pixel;
  const ptrdiff_t row = 256, column = stride == 1 ? 2 * row : row;
  const int8_t *w = t->block->weights;
  const oct_quarters bias = t->block->bias;
  oct_quarters a = oct_strip_column(t->in, 0, step, last, loads), b = a, c;
  if (stride == 1 && pixels == 1) b = oct_strip_column(t->in, pixel, step, last, loads);
  for (int64_t x = 0; x < t->width; x += pixels) {
    ptrdiff_t at = x * step;
    oct_quarters next =
        oct_strip_column(t->in, oct_min_i64(at + (stride == 1 && pixels == 1 ? 2 * pixel : pixels * step), last), step, last, loads);
    if (stride == 2) b = oct_strip_column(t->in, at + pixel, step, last - pixel, loads);
    else if (pixels == 2) b = FOLLOWING(a, next, 8);
    else if (pixels == 4) b = FOLLOWING(a, next, 4);
    if (pixels == 1 || (stride == 1 && pixels == 2)) c = next;
    else if (pixels == 4 && stride == 2) c = FOLLOWING(a, next, 4);
    else c = FOLLOWING(a, next, 8);
    oct_strip_store(t, 0, x, three(bias, a, b, c, w, column), pixels);
    if (both) oct_strip_store(t, 1, x, three(bias, a, b, c, w + row, column), pixels);
    a = stride == 1 && pixels == 1 ? b : next;
    if (stride == 1 && pixels == 1) b = next;
  }
}

static void pair_1(const oct_strip *t) { strip_as(t, 1, 1, 1, true); }
static void pair_2(const oct_strip *t) { strip_as(t, 1, 2, 2, true); }
static void pair_2_dense(const oct_strip *t) { strip_as(t, 1, 2, 1, true); }
static void pair_4(const oct_strip *t) { strip_as(t, 1, 4, 4, true); }
static void pair_4_dense(const oct_strip *t) { strip_as(t, 1, 4, 1, true); }
static void single_1(const oct_strip *t) { strip_as(t, 1, 1, 1, false); }
static void single_2(const oct_strip *t) { strip_as(t, 1, 2, 2, false); }
static void single_4(const oct_strip *t) { strip_as(t, 1, 4, 4, false); }
static void stride_2_1(const oct_strip *t) { strip_as(t, 2, 1, 1, false); }
static void stride_2_2(const oct_strip *t) { strip_as(t, 2, 2, 2, false); }
static void stride_2_4(const oct_strip *t) { strip_as(t, 2, 4, 4, false); }

static void strip(const oct_strip *t) {
  static const oct_strip_fn stride_2[] = {stride_2_1, stride_2_2, stride_2_4}, single[] = {single_1, single_2, single_4},
                            pair[] = {pair_1, pair_2, pair_4}, pair_dense[] = {pair_1, pair_2_dense, pair_4_dense};
  int i = t->block->pixels / 2;
  if (t->args->shape.stride_w == 2) stride_2[i](t);
  else if (t->rows == 1) single[i](t);
  else if (t->args->in.pixel * t->block->pixels == 64) pair_dense[i](t);
  else pair[i](t);
}

static void run(const oct_conv_i8_args *a, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  oct_strip_run(a, begin, end, strip);
}

const oct_conv_i8_kernel oct_conv_i8_depthwise_3x3__avx512vnni = {
    .name = "conv_i8_depthwise_3x3__avx512vnni",
    .isa = OCT_ISA_AVX512VNNI,
    .preference = 520,
    .reject = reject,
    .packed_bytes = oct_strip_packed_bytes,
    .pack = oct_strip_pack,
    .units = oct_strip_units,
    .run = run,
};
