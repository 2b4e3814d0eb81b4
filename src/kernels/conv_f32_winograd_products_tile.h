/* The products of the float Winograd convolution with transformed weights in memory: per position a matrix product of tiles and
 * output channels. Included after conv_f32_winograd_tile.h by files that instantiate heights with GEMM() and list them. Products of
 * FETCHING columns or more bring the weights of the next position into the second-level cache meanwhile, up to two lines per channel.
 * Each accumulator is a variable of its own (gcc 12 spills arrays); what `height` and `columns` leave unused is removed by the
 * compiler, as both are constants after inlining.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_F32_WINOGRAD_PRODUCTS_TILE_H
#define OCT_KERNELS_CONV_F32_WINOGRAD_PRODUCTS_TILE_H

#include "kernels/conv_f32_winograd.h"

#define TALLEST 12
#define LINE 16 /* floats */

#define FOR_VECTORS(X, r) X(r, 0) X(r, 1) X(r, 2) X(r, 3)
/* clang-format off */
#define FOR_ALL(X)                                                                                     \
  FOR_VECTORS(X, 0) FOR_VECTORS(X, 1) FOR_VECTORS(X, 2) FOR_VECTORS(X, 3) FOR_VECTORS(X, 4) FOR_VECTORS(X, 5) \
  FOR_VECTORS(X, 6) FOR_VECTORS(X, 7) FOR_VECTORS(X, 8) FOR_VECTORS(X, 9) FOR_VECTORS(X, 10) FOR_VECTORS(X, 11)
/* clang-format on */
#define ACCUMULATOR(r, v) V c##r##_##v = V_ZERO();
#define WEIGHTS(v) V b##v = columns > v ? V_LOAD(weights + v * LANES) : V_ZERO();
#define MULTIPLY(r, v) \
  if (height > r && columns > v) c##r##_##v = V_FMA(V_SET1(in[r * POSITIONS * LANES + k]), b##v, c##r##_##v);
#define KEEP(r, v) \
  if (height > r && columns > v) V_STORE(out + (r * POSITIONS * columns + v) * LANES, c##r##_##v);

/* What the products of one position read and write: the first tile's values, floats between vectors of channels there; the weights
 * [channel][column]; two runs of weights to fetch, a line per channel each. */
typedef struct gemm_args {
  const float *in;
  ptrdiff_t chunk_step;
  int64_t channels;
  const float *weights, *next[2];
  float *out;
} gemm_args;

/* `height` tiles x `columns` vectors of output channels at one position. */
static inline __attribute__((always_inline)) void gemm(const int height, const int columns, const gemm_args *a) {
  const float *in = a->in, *weights = a->weights, *next = a->next[0], *also = a->next[1];
  float *out = a->out;
  FOR_ALL(ACCUMULATOR)
  for (int64_t channels = a->channels; channels > 0; channels -= LANES, in += a->chunk_step) {
    const int64_t count = channels < LANES ? channels : LANES;
    for (int64_t k = 0; k < count; k++, weights += columns * LANES) {
      if (columns >= FETCHING) {
        __builtin_prefetch(next, 0, 2), __builtin_prefetch(also, 0, 2);
        next += LINE, also += LINE;
      }
      WEIGHTS(0) WEIGHTS(1) WEIGHTS(2) WEIGHTS(3) FOR_ALL(MULTIPLY)
    }
  }
  FOR_ALL(KEEP)
}

typedef void (*gemm_fn)(const gemm_args *a);

/* The products of one panel width: the most tiles at a time, and one function per number of tiles. */
typedef struct gemm_set {
  int height;
  gemm_fn run[TALLEST];
} gemm_set;

#define GEMM(height, columns) \
  static __attribute__((noinline)) void gemm_##height##x##columns(const gemm_args *a) { gemm(height, columns, a); }
#define GEMM_6(columns) GEMM(1, columns) GEMM(2, columns) GEMM(3, columns) GEMM(4, columns) GEMM(5, columns) GEMM(6, columns)
#define GEMM_8(columns) GEMM_6(columns) GEMM(7, columns) GEMM(8, columns)
#define GEMM_12(columns) GEMM_8(columns) GEMM(9, columns) GEMM(10, columns) GEMM(11, columns) GEMM(12, columns)
#define GEMM_NAMES_6(columns) gemm_1x##columns, gemm_2x##columns, gemm_3x##columns, gemm_4x##columns, gemm_5x##columns, gemm_6x##columns
#define GEMM_NAMES_8(columns) GEMM_NAMES_6(columns), gemm_7x##columns, gemm_8x##columns
#define GEMM_NAMES_12(columns) GEMM_NAMES_8(columns), gemm_9x##columns, gemm_10x##columns, gemm_11x##columns, gemm_12x##columns

/* One position, for all tiles of the block that have it. The next position's weights are `columns` runs of a line per channel; product
 * i of `parts` fetches run i, and run i + parts; where there is none, what it reads itself. */
static void multiply_position(const gemm_set *set, const oct_winograd_f32_block *b, int position, int64_t channels, int64_t width,
                              const float *weights, const float *values, float *products) {
  int64_t first = position % 6 == 4 ? b->wide_begin : 0, last = position % 6 == 4 ? b->wide_end : b->tiles;
  if (position / 6 == 4 && last > b->tall_end) last = b->tall_end;
  const int64_t parts = (last - first + set->height - 1) / set->height, runs = width / LINE;
  const float *then = weights + channels * width;
  gemm_args a = {.chunk_step = b->tiles * POSITIONS * LANES, .channels = channels, .weights = weights};
  for (int64_t part = 0, i = first; part < parts; part++) {
    int64_t height = (last - i + parts - part - 1) / (parts - part);
    a.in = values + (i * POSITIONS + position) * LANES;
    a.out = products + (i * POSITIONS + position) * width;
    a.next[0] = part < runs ? then + part * channels * LINE : weights;
    a.next[1] = part + parts < runs ? then + (part + parts) * channels * LINE : weights;
    set->run[height - 1](&a);
    i += height;
  }
}

#endif
