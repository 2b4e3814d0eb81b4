/* Depthwise float convolution (one input channel per group, any multiplier, kernel, stride and dilation), and convolution whose
 * groups are a part of a vector (no more input than output channels per group, which divide the lanes), written once for every
 * vector width. The including file defines the vector type V, its LANES, the integer vector I, the mask type M, the V_...
 * operations, lane_mask() and lane_inputs(), and REUSE (1: there are registers enough to keep a row of inputs).
 *
 * Lanes are output channels; a tile is up to 8 neighbouring output pixels of one row. Weights are packed
 * [vector of channels][kernel row][input channel of the group][kernel column][lane], zeros in lanes past the last channel. Every
 * output adds its products in this order, so bits depend neither on tile widths nor on threads.
 *
 * A unit is PART channels of ROWS output rows; it walks down the rows for one tile's width at a time, so that of a tile's input
 * all but `stride_h` rows are still in the first-level cache.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_F32_DEPTHWISE_TILE_H
#define OCT_KERNELS_CONV_F32_DEPTHWISE_TILE_H

#include <stddef.h>

#include "kernels/kernels.h"

#define PART 64
#define ROWS 16
#define TILE_WIDTH 8

typedef struct tile_args {
  const float *in, *residual; /* at the tile's first pixel and channel; residual may be NULL */
  float *out;
  const float *weights, *bias; /* at the first channel; bias may be NULL */
  int64_t channel, channels;   /* the first one, and how many */
  int64_t group_in, group_out; /* channels of a group */
  int kernel_h, kernel_w;
  ptrdiff_t row_step, tap_step;               /* floats between kernel rows, kernel columns */
  ptrdiff_t in_step, out_step, residual_step; /* floats between neighbouring output pixels */
  float low, high;
} tile_args;

#define FOR_PIXELS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define FOR_INPUTS(X) FOR_PIXELS(X) X(8) X(9) X(10) X(11)

#define ACCUMULATOR(p) V c##p = V_ZERO();
#define MULTIPLY(p)                                             \
  if (width > p) {                                              \
    V x = V_LOAD(a + p * t->in_step);                           \
    c##p = V_FMA(spread ? V_PERMUTE(input_of, x) : x, b, c##p); \
  }
#define FINISH(p) \
  if (width > p) tile_finish(t, c + p * t->out_step, c + p * t->residual_step, last, mask, c##p, bias, low, high);

static inline __attribute__((always_inline)) void tile_finish(const tile_args *t, ptrdiff_t out, ptrdiff_t residual, bool last, M mask, V y,
                                                              V bias, V low, V high) {
  y = V_ADD(y, bias);
  if (t->residual) y = V_ADD(y, last ? V_LOAD_MASK(mask, t->residual + residual) : V_LOAD(t->residual + residual));
  y = V_MIN(high, V_MAX(low, y)); /* the second operand wins when one is NaN: NaN stays */
  if (last) V_STORE_MASK(t->out + out, mask, y);
  else V_STORE(t->out + out, y);
}

/* The vector of inputs that starts at `*first` holds those of the lanes from output channel `channel` on. */
static inline __attribute__((always_inline)) I tile_inputs(const tile_args *t, const bool spread, int64_t channel, int64_t *first) {
  *first = spread ? channel / t->group_out * t->group_in : channel;
  return spread ? lane_inputs(channel, *first, t->group_in, t->group_out) : lane_inputs(0, 0, 1, 1);
}

/* Any kernel; `spread`: groups have several channels and every lane looks for its input. */
static inline __attribute__((always_inline)) void tile_any(const tile_args *t, const int width, const bool spread) {
  const V low = V_SET1(t->low), high = V_SET1(t->high);
  const float *weights = t->weights;
  const int64_t group_in = spread ? t->group_in : 1;
  for (int64_t c = 0; c < t->channels; c += LANES) {
    int64_t first;
    const I inputs = tile_inputs(t, spread, t->channel + c, &first);
    const float *row = t->in + first;
    FOR_PIXELS(ACCUMULATOR);
    for (int i = 0; i < t->kernel_h; i++, row += t->row_step) {
      I input_of = inputs;
      for (int64_t g = 0; g < group_in; g++, input_of = I_NEXT(input_of)) {
        const float *a = row;
        for (int j = 0; j < t->kernel_w; j++, a += t->tap_step, weights += LANES) {
          V b = V_LOAD(weights);
          FOR_PIXELS(MULTIPLY);
        }
      }
    }
    const bool last = t->channels - c < LANES;
    const M mask = lane_mask(last ? t->channels - c : LANES);
    const V bias = t->bias ? V_LOAD(t->bias + c) : V_ZERO();
    FOR_PIXELS(FINISH);
  }
}

#if REUSE
/* Stride and dilation 1, kernel_w == taps (3 or 5): each input of a row is loaded once and used for every kernel column. */
#define INPUT(p)                                                           \
  V x##p = p < width + taps - 1 ? V_LOAD(row + p * t->in_step) : V_ZERO(); \
  if (spread && p < width + taps - 1) x##p = V_PERMUTE(input_of, x##p);
#define USE(p, x) \
  if (width > p) c##p = V_FMA(x, b, c##p);
#define TAP(j, i0, i1, i2, i3, i4, i5, i6, i7)                                              \
  if (taps > j) {                                                                           \
    V b = V_LOAD(weights + j * LANES);                                                      \
    USE(0, i0) USE(1, i1) USE(2, i2) USE(3, i3) USE(4, i4) USE(5, i5) USE(6, i6) USE(7, i7) \
  }
static inline __attribute__((always_inline)) void tile_reuse(const tile_args *t, const int width, const int taps, const bool spread) {
  const V low = V_SET1(t->low), high = V_SET1(t->high);
  const float *weights = t->weights;
  const int64_t group_in = spread ? t->group_in : 1;
  for (int64_t c = 0; c < t->channels; c += LANES) {
    int64_t first;
    const I inputs = tile_inputs(t, spread, t->channel + c, &first);
    const float *row = t->in + first;
    FOR_PIXELS(ACCUMULATOR);
    for (int i = 0; i < t->kernel_h; i++, row += t->row_step) {
      I input_of = inputs;
      for (int64_t g = 0; g < group_in; g++, input_of = I_NEXT(input_of), weights += taps * LANES) {
        FOR_INPUTS(INPUT);
        TAP(0, x0, x1, x2, x3, x4, x5, x6, x7);
        TAP(1, x1, x2, x3, x4, x5, x6, x7, x8);
        TAP(2, x2, x3, x4, x5, x6, x7, x8, x9);
        TAP(3, x3, x4, x5, x6, x7, x8, x9, x10);
        TAP(4, x4, x5, x6, x7, x8, x9, x10, x11);
      }
    }
    const bool last = t->channels - c < LANES;
    const M mask = lane_mask(last ? t->channels - c : LANES);
    const V bias = t->bias ? V_LOAD(t->bias + c) : V_ZERO();
    FOR_PIXELS(FINISH);
  }
}
#endif

typedef void (*tile_fn)(const tile_args *t);

/* Tiles of widths 1 to 8 and their table. */
/* clang-format off */
#define TILE(kind, width, body) \
  static __attribute__((noinline)) void tile_##kind##_##width(const tile_args *t) { body; }
#define TILES(kind, body)                                                                                                                  \
  TILE(kind, 1, body(1)) TILE(kind, 2, body(2)) TILE(kind, 3, body(3)) TILE(kind, 4, body(4)) TILE(kind, 5, body(5)) TILE(kind, 6, body(6)) \
  TILE(kind, 7, body(7)) TILE(kind, 8, body(8))                                                                                            \
  static const tile_fn tiles_##kind[TILE_WIDTH] = {tile_##kind##_1, tile_##kind##_2, tile_##kind##_3, tile_##kind##_4,                     \
                                                   tile_##kind##_5, tile_##kind##_6, tile_##kind##_7, tile_##kind##_8};
/* clang-format on */
#define BODY_ANY(width) tile_any(t, width, false)
#define BODY_SPREAD(width) tile_any(t, width, true)
TILES(any, BODY_ANY)
TILES(spread, BODY_SPREAD)
#if REUSE
#define BODY_REUSE3(width) tile_reuse(t, width, 3, false)
#define BODY_REUSE5(width) tile_reuse(t, width, 5, false)
#define BODY_SPREAD3(width) tile_reuse(t, width, 3, true)
TILES(reuse3, BODY_REUSE3)
TILES(reuse5, BODY_REUSE5)
TILES(spread3, BODY_SPREAD3)
#endif

static const tile_fn *choose_tiles(const oct_conv_shape *s) {
  const bool spread = s->out_channels > s->groups;
#if REUSE
  if (s->stride_w == 1 && s->dilation_w == 1 && s->kernel_w == 3) return spread ? tiles_spread3 : tiles_reuse3;
  if (s->stride_w == 1 && s->dilation_w == 1 && s->kernel_w == 5 && !spread) return tiles_reuse5;
#endif
  return spread ? tiles_spread : tiles_any;
}

static const char *reject(const oct_conv_shape *s) {
  if (s->channels < 1 || s->out_channels % s->groups != 0) return "not depthwise";
  const int64_t group_in = s->channels / s->groups, group_out = s->out_channels / s->groups;
  if (s->groups == 1 || (group_in == 1 && group_out >= 8)) return "groups fill vectors of their own";
  if (group_in == 1) return NULL;
  return group_in <= group_out && group_out < LANES && LANES % group_out == 0 ? NULL : "not depthwise, and groups are no part of a vector";
}

static size_t packed_bytes(const oct_conv_shape *s) {
  size_t vectors = ((size_t)s->out_channels + LANES - 1) / LANES;
  return vectors * LANES * (size_t)(s->channels / s->groups) * (size_t)s->kernel_h * (size_t)s->kernel_w * sizeof(float);
}

static void pack(const oct_conv_shape *s, const float *weights, void *packed) {
  const int64_t group_in = s->channels / s->groups;
  float *p = (float *)packed;
  for (int64_t first = 0; first < s->out_channels; first += LANES)
    for (int i = 0; i < s->kernel_h; i++)
      for (int64_t g = 0; g < group_in; g++)
        for (int j = 0; j < s->kernel_w; j++)
          for (int64_t c = first; c < first + LANES; c++)
            *p++ = c < s->out_channels ? weights[((c * group_in + g) * s->kernel_h + i) * s->kernel_w + j] : 0;
}

static size_t units(const oct_conv_shape *s) {
  return (size_t)(s->batch * ((s->out_h + ROWS - 1) / ROWS) * ((s->out_channels + PART - 1) / PART));
}

/* Output rows [y, last) of image n, in tiles of nearly one width: 14 pixels are 7 + 7. */
static void run_rows(const oct_conv_f32_args *args, tile_args *t, const tile_fn *tiles, int64_t n, int64_t y, int64_t last) {
  const oct_conv_shape *s = &args->shape;
  const int64_t tile_count = (s->out_w + TILE_WIDTH - 1) / TILE_WIDTH;
  const float *in = (const float *)oct_view_at(&args->in, sizeof(float), n, y * s->stride_h - s->pad_top, -s->pad_left);
  float *out = (float *)oct_view_at(&args->out, sizeof(float), n, y, 0) + t->channel;
  const float *residual = args->residual.data ? (const float *)oct_view_at(&args->residual, sizeof(float), n, y, 0) + t->channel : NULL;
  for (int64_t i = 0, x = 0, width; i < tile_count; i++, x += width) {
    width = (s->out_w - x + tile_count - i - 1) / (tile_count - i);
    const tile_fn tile = tiles[width - 1];
    t->in = in + x * t->in_step;
    t->out = out + x * t->out_step;
    t->residual = residual ? residual + x * t->residual_step : NULL;
    for (int64_t row = y; row < last; row++) {
      tile(t);
      t->in += s->stride_h * args->in.row;
      t->out += args->out.row;
      if (residual) t->residual += args->residual.row;
    }
  }
}

static void run(const oct_conv_f32_args *args, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  const oct_conv_shape *s = &args->shape;
  const int64_t parts = (s->out_channels + PART - 1) / PART, blocks = (s->out_h + ROWS - 1) / ROWS,
                k = s->channels / s->groups * s->kernel_h * s->kernel_w;
  const tile_fn *tiles = choose_tiles(s);
  tile_args t = {.group_in = s->channels / s->groups,
                 .group_out = s->out_channels / s->groups,
                 .kernel_h = s->kernel_h,
                 .kernel_w = s->kernel_w,
                 .row_step = s->dilation_h * args->in.row,
                 .tap_step = s->dilation_w * args->in.pixel,
                 .in_step = s->stride_w * args->in.pixel,
                 .out_step = args->out.pixel,
                 .residual_step = args->residual.pixel,
                 .low = args->low,
                 .high = args->high};
  for (size_t unit = begin; unit < end; unit++) {
    int64_t part = (int64_t)unit % parts, block = (int64_t)unit / parts, y = block % blocks * ROWS;
    t.channel = part * PART;
    t.channels = s->out_channels - t.channel < PART ? s->out_channels - t.channel : PART;
    t.weights = (const float *)args->packed + t.channel * k;
    t.bias = args->bias ? args->bias + t.channel : NULL;
    run_rows(args, &t, tiles, block / blocks, y, y + ROWS < s->out_h ? y + ROWS : s->out_h);
  }
}

#endif
