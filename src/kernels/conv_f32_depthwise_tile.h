/* Depthwise float convolution (one input channel per group, any multiplier, kernel, stride and dilation), written once for every
 * vector width. The including file defines the vector type V, its LANES, the mask type M and the V_... operations.
 *
 * Lanes are output channels; a tile is up to 8 neighbouring output pixels of one row x one vector of channels. Weights are packed
 * [vector of channels][kernel row][kernel column][lane], zeros in lanes past the last channel. Every output adds its products in
 * the order (kernel row, kernel column), so bits depend neither on tile widths nor on threads. With stride and dilation 1 the
 * 3x3 and 5x5 forms keep a row of inputs in registers and use each for every kernel column.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_F32_DEPTHWISE_TILE_H
#define OCT_KERNELS_CONV_F32_DEPTHWISE_TILE_H

#include <stddef.h>

#include "kernels/kernels.h"

#define PART 128 /* channels of a unit: what 8 pixels touch stays in the first-level cache */

typedef struct tile_args {
  const float *in, *residual; /* at the tile's first pixel and channel; residual may be NULL */
  float *out;
  const float *weights, *bias; /* bias may be NULL */
  int kernel_h, kernel_w;
  ptrdiff_t row_step, tap_step, in_step, out_step, residual_step; /* floats: between kernel rows, kernel columns, neighbouring output pixels */
  float low, high;
  M mask;      /* lanes that are channels */
  I input_of;  /* multiplier > 1: the input lane that each output lane reads */
} tile_args;

#define FOR_PIXELS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

#define ACCUMULATOR(p) V c##p = V_ZERO();
#define MULTIPLY(p)                                                                                    \
  if (width > p) {                                                                                     \
    V x = V_LOAD(a + p * t->in_step);                                                                  \
    c##p = V_FMA(spread ? V_PERMUTE(t->input_of, x) : x, b, c##p);                                     \
  }
#define FINISH(p) \
  if (width > p) tile_finish(t, p, c##p, bias, low, high);

static inline __attribute__((always_inline)) void tile_finish(const tile_args *t, int pixel, V y, V bias, V low, V high) {
  y = V_ADD(y, bias);
  if (t->residual) y = V_ADD(y, V_LOAD_MASK(t->mask, t->residual + pixel * t->residual_step));
  y = V_MIN(high, V_MAX(low, y)); /* the second operand wins when one is NaN: NaN stays */
  V_STORE_MASK(t->out + pixel * t->out_step, t->mask, y);
}

/* Any kernel; `spread`: the multiplier is above 1. */
static inline __attribute__((always_inline)) void tile_any(const tile_args *t, const int width, const bool spread) {
  const float *row = t->in, *weights = t->weights;
  FOR_PIXELS(ACCUMULATOR)
  for (int i = 0; i < t->kernel_h; i++, row += t->row_step) {
    const float *a = row;
    for (int j = 0; j < t->kernel_w; j++, a += t->tap_step, weights += LANES) {
      V b = V_LOAD(weights);
      FOR_PIXELS(MULTIPLY)
    }
  }
  const V low = V_SET1(t->low), high = V_SET1(t->high), bias = t->bias ? V_LOAD(t->bias) : V_ZERO();
  FOR_PIXELS(FINISH)
}

typedef void (*tile_fn)(const tile_args *t);

#define TILE_ANY(width)                                                                                              \
  static __attribute__((noinline)) void tile_any_##width(const tile_args *t) { tile_any(t, width, false); }          \
  static __attribute__((noinline)) void tile_spread_##width(const tile_args *t) { tile_any(t, width, true); }
TILE_ANY(1) TILE_ANY(2) TILE_ANY(3) TILE_ANY(4) TILE_ANY(5) TILE_ANY(6) TILE_ANY(7) TILE_ANY(8)
static const tile_fn tiles_any[8] = {tile_any_1, tile_any_2, tile_any_3, tile_any_4, tile_any_5, tile_any_6, tile_any_7, tile_any_8};
static const tile_fn tiles_spread[8] = {tile_spread_1, tile_spread_2, tile_spread_3, tile_spread_4, tile_spread_5, tile_spread_6, tile_spread_7, tile_spread_8};

static const char *reject(const oct_conv_shape *s) {
  return s->groups == s->channels && s->channels > 0 && s->out_channels % s->groups == 0 ? NULL : "not depthwise";
}

static size_t packed_bytes(const oct_conv_shape *s) {
  size_t vectors = ((size_t)s->out_channels + LANES - 1) / LANES;
  return vectors * LANES * (size_t)s->kernel_h * (size_t)s->kernel_w * sizeof(float);
}

static void pack(const oct_conv_shape *s, const float *weights, void *packed) {
  int64_t taps = (int64_t)s->kernel_h * s->kernel_w;
  float *p = (float *)packed;
  for (int64_t first = 0; first < s->out_channels; first += LANES)
    for (int64_t tap = 0; tap < taps; tap++)
      for (int64_t c = first; c < first + LANES; c++) *p++ = c < s->out_channels ? weights[c * taps + tap] : 0;
}

/* A unit is PART channels of one output row. */
static size_t units(const oct_conv_shape *s) { return (size_t)(s->batch * s->out_h * ((s->out_channels + PART - 1) / PART)); }

/* Pixels [x, x + width) of a row, channels [first, last) in steps of a vector. */
static void run_tiles(const oct_conv_f32_args *args, tile_args *t, tile_fn tile, int64_t n, int64_t y, int64_t x, int64_t first, int64_t last) {
  const oct_conv_shape *s = &args->shape;
  int64_t taps = (int64_t)s->kernel_h * s->kernel_w, multiplier = s->out_channels / s->groups;
  const float *in = (const float *)oct_view_at(&args->in, sizeof(float), n, y * s->stride_h - s->pad_top, x * s->stride_w - s->pad_left);
  float *out = (float *)oct_view_at(&args->out, sizeof(float), n, y, x);
  const float *residual = args->residual.data ? (const float *)oct_view_at(&args->residual, sizeof(float), n, y, x) : NULL;
  for (int64_t c = first; c < last; c += LANES) {
    int64_t channel = multiplier == 1 ? c : c / multiplier;
    t->in = in + channel;
    t->out = out + c;
    t->residual = residual ? residual + c : NULL;
    t->weights = (const float *)args->packed + c * taps;
    t->bias = args->bias ? args->bias + c : NULL;
    t->mask = lane_mask(last - c < LANES ? last - c : LANES);
    if (multiplier > 1) t->input_of = lane_inputs(c, channel, multiplier);
    tile(t);
  }
}

static void run(const oct_conv_f32_args *args, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  const oct_conv_shape *s = &args->shape;
  const int64_t parts = (s->out_channels + PART - 1) / PART;
  const tile_fn *tiles = s->out_channels > s->groups ? tiles_spread : tiles_any;
  tile_args t = {.kernel_h = s->kernel_h,
                 .kernel_w = s->kernel_w,
                 .row_step = s->dilation_h * args->in.row,
                 .tap_step = s->dilation_w * args->in.pixel,
                 .in_step = s->stride_w * args->in.pixel,
                 .out_step = args->out.pixel,
                 .residual_step = args->residual.pixel,
                 .low = args->low,
                 .high = args->high};
  for (size_t unit = begin; unit < end; unit++) {
    int64_t first = (int64_t)unit % parts * PART, row = (int64_t)unit / parts;
    int64_t last = first + PART < s->out_channels ? first + PART : s->out_channels;
    int64_t tile_count = (s->out_w + 7) / 8, x = 0; /* tiles of nearly one width: 14 is 7 + 7 */
    for (int64_t i = 0; i < tile_count; i++) {
      int64_t width = (s->out_w - x + tile_count - i - 1) / (tile_count - i);
      run_tiles(args, &t, tiles[width - 1], row / s->out_h, row % s->out_h, x, first, last);
      x += width;
    }
  }
}

#endif
