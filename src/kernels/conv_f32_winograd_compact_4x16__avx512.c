/* Float Winograd convolution F(4x4,3x3), AVX-512, whose weights stay 3x3 in memory: a quarter of the memory traffic, for layers
 * with many weights. They are transformed between the products, in registers, for one row of positions (6) x 4 tiles x 16 channels
 * at a time; or, for a block of many tiles, a row of positions at a time into the workspace, for products of 16 tiles x 16.
 * Bit for bit the results of conv_f32_winograd_6x64__avx512.c.
 * SPDX-License-Identifier: MIT */
#include "kernels/conv_f32_winograd__avx512.h"

#define PANEL 16
#define STORED 9
#define CACHED_FLOATS (300 * 1024)
#define HEIGHT 4
#define MANY 16 /* tiles of a block, above which its weights are transformed into the workspace */

#define SCRATCH (6 * PANEL) /* floats per channel */

#include "kernels/conv_f32_winograd_tile.h"
#include "kernels/conv_f32_winograd_products_tile.h"

/* Value of row `row` of the weights' first transform in kernel column j: `w` holds the 9 taps. */
static inline __attribute__((always_inline)) __m512 row_value(const int row, const float *w, const int j) {
  const float *g0 = w + j * LANES, *g1 = w + (3 + j) * LANES, *g2 = w + (6 + j) * LANES;
  if (row == 0) return V_LOAD(g0);
  if (row == 5) return V_LOAD(g2);
  if (row == 1) return V_ADD(V_ADD(V_LOAD(g0), V_LOAD(g2)), V_LOAD(g1));
  if (row == 2) return V_SUB(V_ADD(V_LOAD(g0), V_LOAD(g2)), V_LOAD(g1));
  return V_FMA(V_SET1(row == 3 ? 2 : -2), V_LOAD(g1), V_FMA(V_SET1(4), V_LOAD(g2), V_LOAD(g0)));
}

#define FOR_POSITIONS(X, r) X(r, 0) X(r, 1) X(r, 2) X(r, 3) X(r, 4) X(r, 5)
#define FOR_ROW(X) FOR_POSITIONS(X, 0) FOR_POSITIONS(X, 1) FOR_POSITIONS(X, 2) FOR_POSITIONS(X, 3)
#define MULTIPLY_ROW(r, j) \
  if (height > r) c##r##_##j = V_FMA(V_SET1(in[(r * POSITIONS + j) * LANES + k]), u.p##j, c##r##_##j);
#define KEEP_ROW(r, p) \
  if (height > r) V_STORE(out + (r * POSITIONS + p) * LANES, c##r##_##p);

/* The weights of one channel at the six positions of row `row`. */
static inline __attribute__((always_inline)) six row_weights(const int row, const float *w) {
  const V h0 = row_value(row, w, 0), h1 = row_value(row, w, 1), h2 = row_value(row, w, 2);
  const V sum = V_ADD(h0, h2), quad = V_FMA(V_SET1(4), h2, h0);
  six u;
  u.p0 = h0, u.p1 = V_ADD(sum, h1), u.p2 = V_SUB(sum, h1);
  u.p3 = V_FMA(V_SET1(2), h1, quad), u.p4 = V_FMA(V_SET1(-2), h1, quad), u.p5 = h2;
  return u;
}

static inline __attribute__((always_inline)) void fetch(const float *next) {
  _mm_prefetch((const char *)next, _MM_HINT_T1);
  _mm_prefetch((const char *)(next + LANES), _MM_HINT_T1);
}

/* All positions of one row, for `height` tiles. Meanwhile 2 lines per channel of the next panel's weights come into the cache. */
static inline __attribute__((always_inline)) void products_row(const int row, const int height, const float *in, ptrdiff_t chunk_step,
                                                               int64_t channels, const float *weights, const float *next, float *out) {
  FOR_ROW(ACCUMULATOR)
  for (; channels > 0; channels -= LANES, in += chunk_step) {
    const int64_t count = channels < LANES ? channels : LANES;
    for (int64_t k = 0; k < count; k++, weights += 9 * LANES, next += 2 * LANES) {
      const six u = row_weights(row, weights);
      fetch(next);
      FOR_ROW(MULTIPLY_ROW)
    }
  }
  FOR_ROW(KEEP_ROW)
}

typedef void (*products_fn)(const float *in, ptrdiff_t chunk_step, int64_t channels, const float *weights, const float *next, float *out);

#define PRODUCTS(row, height)                                                                                                          \
  static __attribute__((noinline)) void products_##row##_##height(const float *in, ptrdiff_t chunk_step, int64_t channels,            \
                                                                  const float *weights, const float *next, float *out) {              \
    products_row(row, height, in, chunk_step, channels, weights, next, out);                                                           \
  }
#define PRODUCTS_OF(row) PRODUCTS(row, 1) PRODUCTS(row, 2) PRODUCTS(row, 3) PRODUCTS(row, 4)
#define NAMES_OF(row) {products_##row##_1, products_##row##_2, products_##row##_3, products_##row##_4}

PRODUCTS_OF(0) PRODUCTS_OF(1) PRODUCTS_OF(2) PRODUCTS_OF(3) PRODUCTS_OF(4) PRODUCTS_OF(5)

static const products_fn rows[6][HEIGHT] = {NAMES_OF(0), NAMES_OF(1), NAMES_OF(2), NAMES_OF(3), NAMES_OF(4), NAMES_OF(5)};

/* Few tiles: transformed between the products. */
static void multiply_few(const oct_winograd_f32_block *b, int64_t channels, const float *weights, const float *values, float *products) {
  const float *next = weights + 9 * channels * LANES;
  for (int row = 0; row < 6; row++, next += 2 * channels * LANES) {
    int64_t last = row == 4 ? b->tall_end : b->tiles, parts = (last + HEIGHT - 1) / HEIGHT;
    for (int64_t left = parts, i = 0; left > 0; left--) {
      int64_t height = (last - i + left - 1) / left, at = (i * POSITIONS + row * 6) * LANES;
      rows[row][height - 1](values + at, b->tiles * POSITIONS * LANES, channels, weights, next, products + at);
      i += height;
    }
  }
}

/* One row's weights [position][channel][lane]. */
static inline __attribute__((always_inline)) void expand_row(const int row, int64_t channels, const float *w, const float *next,
                                                             float *to) {
  const ptrdiff_t step = channels * LANES;
  for (int64_t c = 0; c < channels; c++, w += 9 * LANES, next += 2 * LANES, to += LANES) {
    const six u = row_weights(row, w);
    fetch(next);
    V_STORE(to, u.p0), V_STORE(to + step, u.p1), V_STORE(to + 2 * step, u.p2);
    V_STORE(to + 3 * step, u.p3), V_STORE(to + 4 * step, u.p4), V_STORE(to + 5 * step, u.p5);
  }
}

#define EXPAND(row) \
  static __attribute__((noinline)) void expand_##row(int64_t channels, const float *w, const float *next, float *to) { \
    expand_row(row, channels, w, next, to);                                                                            \
  }
EXPAND(0) EXPAND(1) EXPAND(2) EXPAND(3) EXPAND(4) EXPAND(5)

typedef void (*expand_fn)(int64_t channels, const float *weights, const float *next, float *to);
static const expand_fn expand_rows[6] = {expand_0, expand_1, expand_2, expand_3, expand_4, expand_5};

GEMM_16(1)

static const gemm_set column = {.height = 16, .run = {GEMM_NAMES_16(1)}};

/* Many tiles: a row's weights are transformed once, and lie near by while its products are made. */
static void multiply_many(const oct_winograd_f32_block *b, int64_t channels, const float *weights, const float *values, float *products,
                          float *scratch) {
  const float *next = weights + 9 * channels * LANES;
  for (int row = 0; row < 6; row++, next += 2 * channels * LANES) {
    expand_rows[row](channels, weights, next, scratch);
    for (int j = 0; j < 6; j++)
      multiply_position(&column, b, row * 6 + j, channels, LANES, scratch + j * channels * LANES, values, products);
  }
}

static void multiply(const oct_winograd_f32_block *b, int64_t channels, int64_t width, const float *weights, const float *values,
                     float *products, float *scratch) {
  (void)width;
  if (b->tiles > MANY) multiply_many(b, channels, weights, values, products, scratch);
  else multiply_few(b, channels, weights, values, products);
}

static const char *reject(const oct_conv_shape *s) { return oct_winograd_f32_refusal(s); }

const oct_conv_f32_kernel oct_conv_f32_winograd_compact_4x16__avx512 = {
    .name = "conv_f32_winograd_compact_4x16__avx512",
    .isa = OCT_ISA_AVX512,
    .preference = 215,
    .approximate = true,
    .reject = reject,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .workspace_bytes = workspace_bytes,
    .units = units,
    .run = run,
};
