/* Float Winograd convolution F(4x4,3x3), AVX-512, whose weights stay 3x3 in memory: a quarter of the memory traffic, for layers
 * with many weights. The sums over the channels are cut into blocks of 16 channels, whose weights and values lie in the first-level
 * cache; between blocks the sums wait in the products. A block's weights are transformed between its products, in registers, for one
 * row of positions (6) x 4 tiles x 16 output channels at a time; or, when there are more tiles, a row of positions at a time into
 * the workspace, for products of 16 tiles x 16. Each weight is read once, AHEAD of its use.
 * Bit for bit the results of conv_f32_winograd_6x64__avx512.c.
 * SPDX-License-Identifier: MIT */
#include "kernels/conv_f32_winograd__avx512.h"

#define PANEL 16
#define STORED 9
#define CACHED_FLOATS (400 * 1024)
#define AHEAD (16 * 1024) /* floats: what a far cache needs to deliver, and little enough for the second-level cache */
#define LEAD(position) ((position) < AHEAD ? (position) : AHEAD)
#define BLOCK LANES /* channels */
#define HEIGHT 4    /* tiles at a time when weights are transformed in registers */
#define FEW 6       /* tiles of a block, above which its weights are transformed into the workspace */
#define TALLEST 16

#define SCRATCH (6 * BLOCK * PANEL)

#include "kernels/conv_f32_winograd_tile.h"

/* ---- Weights ------------------------------------------------------------------------------------------------------ */

/* Value of row `row` of the weights' first transform in kernel column j: `w` holds the 9 taps. */
static inline __attribute__((always_inline)) __m512 row_value(const int row, const float *w, const int j) {
  const float *g0 = w + j * LANES, *g1 = w + (3 + j) * LANES, *g2 = w + (6 + j) * LANES;
  if (row == 0) return V_LOAD(g0);
  if (row == 5) return V_LOAD(g2);
  if (row == 1) return V_ADD(V_ADD(V_LOAD(g0), V_LOAD(g2)), V_LOAD(g1));
  if (row == 2) return V_SUB(V_ADD(V_LOAD(g0), V_LOAD(g2)), V_LOAD(g1));
  return V_FMA(V_SET1(row == 3 ? 2 : -2), V_LOAD(g1), V_FMA(V_SET1(4), V_LOAD(g2), V_LOAD(g0)));
}

/* The weights of one channel at the six positions of row `row`. */
static inline __attribute__((always_inline)) six row_weights(const int row, const float *w) {
  const V h0 = row_value(row, w, 0), h1 = row_value(row, w, 1), h2 = row_value(row, w, 2);
  const V sum = V_ADD(h0, h2), quad = V_FMA(V_SET1(4), h2, h0);
  six u;
  u.p0 = h0, u.p1 = V_ADD(sum, h1), u.p2 = V_SUB(sum, h1);
  u.p3 = V_FMA(V_SET1(2), h1, quad), u.p4 = V_FMA(V_SET1(-2), h1, quad), u.p5 = h2;
  return u;
}

/* ---- Few tiles: weights transformed between the products ------------------------------------------------------------ */

#define FOR_POSITIONS(X, r) X(r, 0) X(r, 1) X(r, 2) X(r, 3) X(r, 4) X(r, 5)
#define FOR_ROW(X) FOR_POSITIONS(X, 0) FOR_POSITIONS(X, 1) FOR_POSITIONS(X, 2) FOR_POSITIONS(X, 3)
#define RESUME_ROW(r, p)   \
  V c##r##_##p = V_ZERO(); \
  if (height > r && resume) c##r##_##p = V_LOAD(out + (r * POSITIONS + p) * LANES);
#define MULTIPLY_ROW(r, j) \
  if (height > r) c##r##_##j = V_FMA(V_SET1(in[(r * POSITIONS + j) * LANES + k]), u.p##j, c##r##_##j);
#define KEEP_ROW(r, p) \
  if (height > r) V_STORE(out + (r * POSITIONS + p) * LANES, c##r##_##p);

/* One block's products at all positions of one row, for `height` tiles. The six rows fetch one or two of each channel's nine lines. */
static inline __attribute__((always_inline)) void products_row(const int row, const int height, const float *in, int64_t channels,
                                                               const float *weights, bool resume, float *out) {
  const float *next = weights + AHEAD + (row < 3 ? row : 2 * row - 3) * LANES;
  FOR_ROW(RESUME_ROW)
  for (int64_t k = 0; k < channels; k++, weights += 9 * LANES, next += 9 * LANES) {
    const six u = row_weights(row, weights);
    __builtin_prefetch(next, 0, 2);
    if (row >= 3) __builtin_prefetch(next + LANES, 0, 2);
    FOR_ROW(MULTIPLY_ROW)
  }
  FOR_ROW(KEEP_ROW)
}

typedef void (*products_fn)(const float *in, int64_t channels, const float *weights, bool resume, float *out);

#define PRODUCTS(row, height)                                                                                                           \
  static __attribute__((noinline)) void products_##row##_##height(const float *in, int64_t channels, const float *weights, bool resume, \
                                                                  float *out) {                                                         \
    products_row(row, height, in, channels, weights, resume, out);                                                                      \
  }
#define PRODUCTS_OF(row) PRODUCTS(row, 1) PRODUCTS(row, 2) PRODUCTS(row, 3) PRODUCTS(row, 4)
#define NAMES_OF(row) \
  { products_##row##_1, products_##row##_2, products_##row##_3, products_##row##_4 }

/* clang-format off */
PRODUCTS_OF(0) PRODUCTS_OF(1) PRODUCTS_OF(2) PRODUCTS_OF(3) PRODUCTS_OF(4) PRODUCTS_OF(5)
    /* clang-format on */

    static const products_fn rows[6][HEIGHT] = {NAMES_OF(0), NAMES_OF(1), NAMES_OF(2), NAMES_OF(3), NAMES_OF(4), NAMES_OF(5)};

static void multiply_few(const oct_winograd_f32_block *b, int64_t channels, const float *weights, const float *values, bool resume,
                         float *products) {
  for (int row = 0; row < 6; row++) {
    int64_t last = row == 4 ? b->tall_end : b->tiles, parts = (last + HEIGHT - 1) / HEIGHT;
    for (int64_t left = parts, i = 0; left > 0; left--) {
      int64_t height = (last - i + left - 1) / left, at = (i * POSITIONS + row * 6) * LANES;
      rows[row][height - 1](values + at, channels, weights, resume, products + at);
      i += height;
    }
  }
}

/* ---- Many tiles: weights transformed into the workspace ------------------------------------------------------------- */

/* One row's weights of a block: [position][channel][lane]. */
static inline __attribute__((always_inline)) void expand_row(const int row, int64_t channels, const float *w, float *to) {
  for (int64_t c = 0; c < channels; c++, w += 9 * LANES, to += LANES) {
    const six u = row_weights(row, w);
    V_STORE(to, u.p0), V_STORE(to + BLOCK * LANES, u.p1), V_STORE(to + 2 * BLOCK * LANES, u.p2);
    V_STORE(to + 3 * BLOCK * LANES, u.p3), V_STORE(to + 4 * BLOCK * LANES, u.p4), V_STORE(to + 5 * BLOCK * LANES, u.p5);
  }
}

#define EXPAND(row) \
  static __attribute__((noinline)) void expand_##row(int64_t channels, const float *w, float *to) { expand_row(row, channels, w, to); }
/* clang-format off */
EXPAND(0) EXPAND(1) EXPAND(2) EXPAND(3) EXPAND(4) EXPAND(5)
    /* clang-format on */

    typedef void (*expand_fn)(int64_t channels, const float *weights, float *to);
static const expand_fn expand_rows[6] = {expand_0, expand_1, expand_2, expand_3, expand_4, expand_5};

#define FOR_TILES(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define RESUME(r)    \
  V c##r = V_ZERO(); \
  if (height > r && resume) c##r = V_LOAD(out + r * POSITIONS * LANES);
#define MULTIPLY(r) \
  if (height > r) c##r = V_FMA(V_SET1(in[r * POSITIONS * LANES + k]), w, c##r);
#define KEEP(r) \
  if (height > r) V_STORE(out + r * POSITIONS * LANES, c##r);

/* One block's products at one position, for `height` tiles. The next position's values come into the first-level cache, a tile's line
 * per channel. */
static inline __attribute__((always_inline)) void products_position(const int height, const float *in, int64_t channels,
                                                                    const float *weights, bool resume, float *out) {
  const float *next = in + LANES;
  FOR_TILES(RESUME)
  for (int64_t k = 0; k < channels; k++, weights += LANES, next += POSITIONS * LANES) {
    const V w = V_LOAD(weights);
    __builtin_prefetch(next, 0, 3);
    FOR_TILES(MULTIPLY)
  }
  FOR_TILES(KEEP)
}

#define PRODUCTS_AT(height)                                                                                                        \
  static __attribute__((noinline)) void products_at_##height(const float *in, int64_t channels, const float *weights, bool resume, \
                                                             float *out) {                                                         \
    products_position(height, in, channels, weights, resume, out);                                                                 \
  }
#define PRODUCTS_NAME(height) products_at_##height,
#define FOR_HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16)
FOR_HEIGHTS(PRODUCTS_AT)

static const products_fn heights[TALLEST] = {FOR_HEIGHTS(PRODUCTS_NAME)};

static void multiply_position(const oct_winograd_f32_block *b, int position, int64_t channels, const float *weights, const float *values,
                              bool resume, float *products) {
  int64_t first = position % 6 == 4 ? b->wide_begin : 0, last = position % 6 == 4 ? b->wide_end : b->tiles;
  if (position / 6 == 4 && last > b->tall_end) last = b->tall_end;
  int64_t parts = (last - first + TALLEST - 1) / TALLEST;
  for (int64_t left = parts, i = first; left > 0; left--) {
    int64_t height = (last - i + left - 1) / left, at = (i * POSITIONS + position) * LANES;
    heights[height - 1](values + at, channels, weights, resume, products + at);
    i += height;
  }
}

static void multiply_many(const oct_winograd_f32_block *b, int64_t channels, const float *weights, const float *values, bool resume,
                          float *products, float *scratch) {
  const int fetched = BLOCK * 9 / POSITIONS; /* lines per position */
  const float *next = weights + AHEAD;
  for (int row = 0; row < 6; row++) {
    expand_rows[row](channels, weights, scratch);
    for (int j = 0; j < 6; j++) {
      for (int line = 0; line < fetched; line++, next += LANES) __builtin_prefetch(next, 0, 2);
      multiply_position(b, row * 6 + j, channels, scratch + j * BLOCK * LANES, values, resume, products);
    }
  }
}

static void multiply(const oct_winograd_f32_block *b, int64_t channels, int64_t width, const float *weights, const float *values,
                     float *products, float *scratch) {
  (void)width;
  for (int64_t c = 0; c < channels; c += BLOCK, weights += 9 * BLOCK * LANES, values += b->tiles * POSITIONS * LANES) {
    const int64_t count = channels - c < BLOCK ? channels - c : BLOCK;
    if (b->tiles > FEW) multiply_many(b, count, weights, values, c > 0, products, scratch);
    else multiply_few(b, count, weights, values, c > 0, products);
  }
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
