/* The float Winograd convolution, written once for every vector width: transforms of input and output, the epilogue, units.
 * The including file defines the vector type V, its LANES, the mask type M, the V_... operations, lane_mask(), PANEL (output
 * channels worked on together), CACHED_FLOATS (transformed input and products of a block that stay in the second-level cache), STORED
 * (floats per filter and channel in the packed weights: 36 or 9), SCRATCH (floats of workspace that multiply() wants), LEAD (floats of
 * weights that it reads before what it fetches itself can have arrived) and multiply(), the products of one panel.
 *
 * A unit is one panel of one block of tiles; a call that gets several units of a block transforms its input once. In the
 * workspace lie the transformed input [vector of channels][tile][position][lane], with zeros at the positions that a tile does
 * not have, and the products [tile][position][column]: the distances between tiles are constants.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_F32_WINOGRAD_TILE_H
#define OCT_KERNELS_CONV_F32_WINOGRAD_TILE_H

#include "kernels/conv_f32_winograd.h"

#define POSITIONS OCT_WINOGRAD_F32_POSITIONS

typedef struct six {
  V p0, p1, p2, p3, p4, p5;
} six;

/* ---- Input ----------------------------------------------------------------------------------------------------- */

static inline __attribute__((always_inline)) six input_line(const bool four, V d0, V d1, V d2, V d3, V d4, V d5) {
  six r;
  if (four) {
    const V minus4 = V_SET1(-4), minus5 = V_SET1(-5), plus4 = V_SET1(4);
    V a = V_FMA(minus4, d2, d4), b = V_FMA(minus4, d1, d3), c = V_SUB(d4, d2), e = V_SUB(d3, d1);
    r.p0 = V_FMA(plus4, d0, V_FMA(minus5, d2, d4));
    r.p1 = V_ADD(a, b), r.p2 = V_SUB(a, b);
    r.p3 = V_FMA(V_SET1(2), e, c), r.p4 = V_FMA(V_SET1(-2), e, c);
    r.p5 = V_FMA(plus4, d1, V_FMA(minus5, d3, d5));
  } else {
    const V plus2 = V_SET1(2), minus2 = V_SET1(-2);
    V a = V_SUB(d3, d1), b = V_SUB(d3, d2);
    r.p0 = V_FMA(plus2, V_SUB(d0, d2), a);
    r.p1 = V_FMA(minus2, d1, b), r.p2 = V_FMA(minus2, V_SUB(d2, d1), b);
    r.p3 = a, r.p4 = V_ZERO();
    r.p5 = V_FMA(minus2, a, V_SUB(d4, d2));
  }
  return r;
}

#define INPUT(i, j) masked ? V_LOAD_MASK(mask, in + i * row + j * pixel) : V_LOAD(in + i * row + j * pixel)
#define INPUT_COLUMN(j)                                                    \
  six c##j = {V_ZERO(), V_ZERO(), V_ZERO(), V_ZERO(), V_ZERO(), V_ZERO()}; \
  if (wide || j < 5)                                                       \
    c##j = input_line(tall, INPUT(0, j), INPUT(1, j), INPUT(2, j), INPUT(3, j), INPUT(4, j), tall ? INPUT(5, j) : V_ZERO());
#define INPUT_ROW(i)                                                                             \
  if (tall || i != 4) {                                                                          \
    six r = input_line(wide, c0.p##i, c1.p##i, c2.p##i, c3.p##i, c4.p##i, c5.p##i);              \
    float *to = out + i * 6 * LANES;                                                             \
    V_STORE(to, r.p0), V_STORE(to + LANES, r.p1), V_STORE(to + 2 * LANES, r.p2);                 \
    V_STORE(to + 3 * LANES, r.p3), V_STORE(to + 4 * LANES, r.p4), V_STORE(to + 5 * LANES, r.p5); \
  }

/* One tile, one vector of channels; masked: the lanes past the last channel become 0. */
static inline __attribute__((always_inline)) void input_tile(const bool tall, const bool wide, const bool masked, const float *in,
                                                             ptrdiff_t row, ptrdiff_t pixel, M mask, float *out) {
  (void)mask;
  INPUT_COLUMN(0)
  INPUT_COLUMN(1)
  INPUT_COLUMN(2)
  INPUT_COLUMN(3) INPUT_COLUMN(4) INPUT_COLUMN(5) INPUT_ROW(0) INPUT_ROW(1) INPUT_ROW(2) INPUT_ROW(3) INPUT_ROW(4) INPUT_ROW(5)
}

typedef struct input_args {
  const float *in; /* the tile's first input pixel */
  ptrdiff_t row, pixel;
  float *out;
  ptrdiff_t chunk_step; /* floats between vectors of channels in `out` */
  int64_t channels;
} input_args;

static inline __attribute__((always_inline)) void input_channels(const bool tall, const bool wide, const input_args *a) {
  const M whole = lane_mask(LANES);
  const float *in = a->in;
  float *out = a->out;
  int64_t left = a->channels;
  for (; left >= LANES; left -= LANES, in += LANES, out += a->chunk_step) input_tile(tall, wide, false, in, a->row, a->pixel, whole, out);
  if (left) input_tile(tall, wide, true, in, a->row, a->pixel, lane_mask(left), out);
}

static __attribute__((noinline)) void input_4x3(const input_args *a) { input_channels(true, false, a); }
static __attribute__((noinline)) void input_4x4(const input_args *a) { input_channels(true, true, a); }
static __attribute__((noinline)) void input_3x4(const input_args *a) { input_channels(false, true, a); }
static __attribute__((noinline)) void input_3x3(const input_args *a) { input_channels(false, false, a); }

typedef void (*input_fn)(const input_args *a);
static const input_fn input_tiles[4] = {input_4x3, input_4x4, input_3x4, input_3x3};

static void transform_input(const oct_conv_f32_args *args, const oct_winograd_f32_plan *p, const oct_winograd_f32_block *b, float *values) {
  const oct_conv_shape *s = &args->shape;
  input_args a = {.row = args->in.row, .pixel = args->in.pixel, .chunk_step = b->tiles * POSITIONS * LANES, .channels = s->channels};
  oct_winograd_f32_tile t = oct_winograd_f32_tile_at(p, b->first);
  for (int64_t i = 0; i < b->tiles; i++, oct_winograd_f32_tile_next(p, &t)) {
    int64_t y = oct_winograd_f32_y(p, &t) - s->pad_top, x = oct_winograd_f32_x(p, &t) - s->pad_left;
    a.in = (const float *)oct_view_at(&args->in, sizeof(float), t.n, y, x);
    a.out = values + i * POSITIONS * LANES;
    input_tiles[t.kind](&a);
  }
}

/* ---- Output ----------------------------------------------------------------------------------------------------- */

typedef struct output_args {
  const float *products;
  ptrdiff_t step; /* floats between positions */
  float *out;
  ptrdiff_t row, pixel;
  const float *residual; /* or NULL */
  ptrdiff_t residual_row, residual_pixel;
  const float *bias; /* or NULL */
  float low, high;
  int64_t channels;
} output_args;

static inline __attribute__((always_inline)) six output_line(const bool four, V m0, V m1, V m2, V m3, V m4, V m5) {
  six r;
  r.p3 = r.p4 = r.p5 = V_ZERO();
  if (four) {
    V s = V_ADD(m1, m2), d = V_SUB(m1, m2), t = V_ADD(m3, m4), e = V_SUB(m3, m4);
    r.p0 = V_FMA(V_SET1(1.5f), m0, V_FMSUB(V_SET1(0.25f), t, s));
    r.p1 = V_FMSUB(V_SET1(0.5f), e, d);
    r.p2 = V_SUB(t, s);
    r.p3 = V_FMA(V_SET1(6), m5, V_FMSUB(V_SET1(2), e, d));
  } else {
    const V plus3 = V_SET1(3);
    V a = V_FMA(plus3, m1, m2);
    r.p0 = V_FMA(plus3, m0, V_SUB(m3, a));
    r.p1 = V_FMA(V_SET1(2), m3, V_FMA(V_SET1(-3), m1, m2));
    r.p2 = V_FMA(V_SET1(6), m5, V_FMSUB(V_SET1(4), m3, a));
  }
  return r;
}

static inline __attribute__((always_inline)) void output_pixel(const output_args *a, int64_t c, int y, int x, bool last, M mask, V value) {
  V v = V_ADD(value, a->bias ? V_LOAD(a->bias + c) : V_ZERO());
  if (a->residual) {
    const float *residual = a->residual + y * a->residual_row + x * a->residual_pixel + c;
    v = V_ADD(v, last ? V_LOAD_MASK(mask, residual) : V_LOAD(residual));
  }
  v = V_MIN(V_SET1(a->high), V_MAX(V_SET1(a->low), v)); /* the second operand wins when one is NaN: NaN stays */
  float *out = a->out + y * a->row + x * a->pixel + c;
  if (last) V_STORE_MASK(out, mask, v);
  else V_STORE(out, v);
}

#define PRODUCT(i, j) V_LOAD(m + (i * 6 + j) * a->step)
#define OUTPUT_COLUMN(j)                                                   \
  six c##j = {V_ZERO(), V_ZERO(), V_ZERO(), V_ZERO(), V_ZERO(), V_ZERO()}; \
  if (wide || j != 4)                                                      \
    c##j = output_line(tall, PRODUCT(0, j), PRODUCT(1, j), PRODUCT(2, j), PRODUCT(3, j), tall ? PRODUCT(4, j) : V_ZERO(), PRODUCT(5, j));
#define OUTPUT_ROW(i)                                                                       \
  if (tall || i < 3) {                                                                      \
    six r = output_line(wide, c0.p##i, c1.p##i, c2.p##i, c3.p##i, c4.p##i, c5.p##i);        \
    output_pixel(a, c, i, 0, last, mask, r.p0), output_pixel(a, c, i, 1, last, mask, r.p1); \
    output_pixel(a, c, i, 2, last, mask, r.p2);                                             \
    if (wide) output_pixel(a, c, i, 3, last, mask, r.p3);                                   \
  }

static inline __attribute__((always_inline)) void output_tile(const bool tall, const bool wide, const output_args *a) {
  for (int64_t c = 0; c < a->channels; c += LANES) {
    const float *m = a->products + c;
    const bool last = a->channels - c < LANES;
    const M mask = lane_mask(last ? a->channels - c : LANES);
    OUTPUT_COLUMN(0)
    OUTPUT_COLUMN(1)
    OUTPUT_COLUMN(2) OUTPUT_COLUMN(3) OUTPUT_COLUMN(4) OUTPUT_COLUMN(5) OUTPUT_ROW(0) OUTPUT_ROW(1) OUTPUT_ROW(2) OUTPUT_ROW(3)
  }
}

static __attribute__((noinline)) void output_4x3(const output_args *a) { output_tile(true, false, a); }
static __attribute__((noinline)) void output_4x4(const output_args *a) { output_tile(true, true, a); }
static __attribute__((noinline)) void output_3x4(const output_args *a) { output_tile(false, true, a); }
static __attribute__((noinline)) void output_3x3(const output_args *a) { output_tile(false, false, a); }

typedef void (*output_fn)(const output_args *a);
static const output_fn output_tiles[4] = {output_4x3, output_4x4, output_3x4, output_3x3};

static void transform_output(const oct_conv_f32_args *args, const oct_winograd_f32_plan *p, const oct_winograd_f32_block *b,
                             int64_t channel, int64_t width, const float *products) {
  output_args a = {.step = width,
                   .row = args->out.row,
                   .pixel = args->out.pixel,
                   .residual_row = args->residual.row,
                   .residual_pixel = args->residual.pixel,
                   .bias = args->bias ? args->bias + channel : NULL,
                   .low = args->low,
                   .high = args->high,
                   .channels = args->shape.out_channels - channel < PANEL ? args->shape.out_channels - channel : PANEL};
  oct_winograd_f32_tile t = oct_winograd_f32_tile_at(p, b->first);
  for (int64_t i = 0; i < b->tiles; i++, oct_winograd_f32_tile_next(p, &t)) {
    int64_t y = oct_winograd_f32_y(p, &t), x = oct_winograd_f32_x(p, &t);
    a.products = products + i * POSITIONS * width;
    a.out = (float *)oct_view_at(&args->out, sizeof(float), t.n, y, x) + channel;
    if (args->residual.data) a.residual = (const float *)oct_view_at(&args->residual, sizeof(float), t.n, y, x) + channel;
    output_tiles[t.kind](&a);
  }
}

/* ---- The row's functions ------------------------------------------------------------------------------------------ */

/* Every sum runs over the channels in their order, whatever the tile's neighbours. `width`: columns of this panel. */
static void multiply(const oct_winograd_f32_block *b, int64_t channels, int64_t width, const float *weights, const float *values,
                     float *products, float *scratch);

static oct_winograd_f32_plan plan_of(const oct_conv_shape *s) { return oct_winograd_f32_plan_make(s, LANES, PANEL, CACHED_FLOATS); }

static size_t packed_bytes(const oct_conv_shape *s) { return (size_t)plan_of(s).columns * (size_t)s->channels * STORED * sizeof(float); }

static void pack(const oct_conv_shape *s, const float *weights, void *packed) {
  oct_winograd_f32_pack(s, LANES, PANEL, STORED, weights, (float *)packed);
}

static size_t workspace_bytes(const oct_conv_shape *s) {
  oct_winograd_f32_plan p = plan_of(s);
  return ((size_t)p.block_tiles * POSITIONS * ((size_t)p.chunks * LANES + PANEL) + SCRATCH) * sizeof(float);
}

static size_t units(const oct_conv_shape *s) {
  oct_winograd_f32_plan p = plan_of(s);
  return (size_t)(p.blocks * p.panels);
}

/* Weights are far away when a layer starts: the first ones come while the input is transformed. */
static void fetch_first(const float *weights, int64_t floats) {
  for (int64_t i = 0; i < floats; i += 64 / (int64_t)sizeof(float)) __builtin_prefetch(weights + i, 0, 2);
}

static void run(const oct_conv_f32_args *args, size_t begin, size_t end, void *workspace) {
  const oct_conv_shape *s = &args->shape;
  const oct_winograd_f32_plan p = plan_of(s);
  float *values = (float *)workspace, *products = values + p.block_tiles * POSITIONS * p.chunks * LANES,
        *scratch = products + p.block_tiles * POSITIONS * PANEL;
  oct_winograd_f32_block b = {0};
  int64_t present = -1;
  for (size_t unit = begin; unit < end; unit++) {
    int64_t block = (int64_t)unit / p.panels, channel = ((int64_t)unit - block * p.panels) * PANEL,
            width = p.columns - channel < PANEL ? p.columns - channel : PANEL;
    const float *weights = (const float *)args->packed + channel * s->channels * STORED;
    if (block != present) {
      fetch_first(weights, LEAD(s->channels * width));
      b = oct_winograd_f32_block_at(&p, block);
      transform_input(args, &p, &b, values);
      present = block;
    }
    multiply(&b, s->channels, width, weights, values, products, scratch);
    transform_output(args, &p, &b, channel, width, products);
  }
}

#endif
