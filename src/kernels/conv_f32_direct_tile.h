/* The micro kernel of the direct float convolution, written once for every vector width. The including file defines the vector
 * type V, its LANES, the mask type M and the V_... operations, then instantiates tiles.
 *
 * A tile is up to 6 (narrow ones: 12) output pixels x `columns` vectors of output channels. When few columns leave registers free,
 * `chains` partial sums per output run side by side: chain j adds the products with k % chains == j, and the chains are added at the
 * end as (0 + 1) + (2 + 3). chains > 1 needs a multiple of `chains` channels, so that where runs begin does not matter.
 * The order of additions of an output thus depends on the shape alone: not on tile height, views or threads.
 * Each accumulator is a variable of its own (gcc 12 spills arrays); what `height`, `columns` and `chains` leave unused is
 * removed by the compiler, as all three are constants after inlining.
 *
 * Weights come from far: while the last tiles of a panel run they fetch the next panel, evenly; a panel that nobody has fetched is
 * fetched by its first tile, a little ahead of its use.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_F32_DIRECT_TILE_H
#define OCT_KERNELS_CONV_F32_DIRECT_TILE_H

#include "kernels/conv_f32_direct.h"

#define TILE_HEIGHT 12
#define MOST_FETCHED (160 * 1024) /* floats: two panels must fit into the second-level cache */
#define LINE 16                   /* floats */
#define MOST_FETCHING 16          /* tiles that share the work of fetching a panel */
#define AHEAD 2048                /* floats: how far ahead of its use the first tile fetches what no other tile has fetched for it */

typedef struct tile_args {
  const float *in[TILE_HEIGHT], *residual[TILE_HEIGHT];
  float *out[TILE_HEIGHT];
  const float *weights, *bias; /* at the panel's first column; bias may be NULL */
  const float *next;           /* weights to bring into the second-level cache by the widest tiles, `next_step` floats per k */
  ptrdiff_t next_step;
  float low, high;
  oct_conv_f32_runs runs;
  M mask; /* lanes of the last column that exist */
} tile_args;

#define FOR_VECTORS(X, r) X(r, 0) X(r, 1) X(r, 2) X(r, 3)
#define FOR_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define FOR_ALL(X)  \
  FOR_VECTORS(X, 0) \
  FOR_VECTORS(X, 1) \
  FOR_VECTORS(X, 2) \
  FOR_VECTORS(X, 3) \
  FOR_VECTORS(X, 4) \
  FOR_VECTORS(X, 5) FOR_VECTORS(X, 6) FOR_VECTORS(X, 7) FOR_VECTORS(X, 8) FOR_VECTORS(X, 9) FOR_VECTORS(X, 10) FOR_VECTORS(X, 11)

#define POINTER(r) const float *in##r = height > r ? t->in[r] : NULL;
#define RUN_POINTER(r) const float *a##r = height > r ? in##r + run * runs.run_step : NULL;
#define ROW_ADVANCE(r) \
  if (height > r) in##r += runs.row_step;
#define ACCUMULATOR(r, v) V c##r##_##v = V_ZERO();
#define WEIGHTS(v) V b##v = vectors > v ? V_LOAD(weights + v * LANES) : V_ZERO();
#define MULTIPLY(r, v) \
  if (height > r && vectors > v) c##r##_##v = V_FMA(V_SET1(a##r[k + v / columns]), b##v, c##r##_##v);
#define ADD_CHAINS(r)                                                                                                        \
  if (height > r && chains == 2 && columns == 1) c##r##_0 = V_ADD(c##r##_0, c##r##_1);                                       \
  if (height > r && chains == 2 && columns == 2) c##r##_0 = V_ADD(c##r##_0, c##r##_2), c##r##_1 = V_ADD(c##r##_1, c##r##_3); \
  if (height > r && chains == 4) c##r##_0 = V_ADD(V_ADD(c##r##_0, c##r##_1), V_ADD(c##r##_2, c##r##_3));
#define FINISH(r, v) \
  if (height > r && columns > v) tile_finish(t, r, v, v == columns - 1, adds, c##r##_##v, bias##v, low, high);
#define BIAS(v) V bias##v = columns > v && t->bias ? tile_bias(t, v, v == columns - 1) : V_ZERO();

/* Bias is padded to whole vectors for whole layers, but not for every group. */
static inline __attribute__((always_inline)) V tile_bias(const tile_args *t, int vector, bool last) {
  return last ? V_LOAD_MASK(t->mask, t->bias + vector * LANES) : V_LOAD(t->bias + vector * LANES);
}

static inline __attribute__((always_inline)) void tile_finish(const tile_args *t, int row, int vector, bool last, bool adds, V y, V bias,
                                                              V low, V high) {
  y = V_ADD(y, bias);
  if (adds) {
    const float *residual = t->residual[row] + vector * LANES;
    y = V_ADD(y, last ? V_LOAD_MASK(t->mask, residual) : V_LOAD(residual));
  }
  y = V_MIN(high, V_MAX(low, y)); /* the second operand wins when one is NaN: NaN stays */
  if (last) V_STORE_MASK(t->out[row] + vector * LANES, t->mask, y);
  else V_STORE(t->out[row] + vector * LANES, y);
}

/* `first`: the panel's weights are still far away, and fetched AHEAD. */
static inline __attribute__((always_inline)) void tile(const tile_args *t, const int height, const int columns, const int chains,
                                                       const bool first) {
  const int vectors = columns * chains;
  const bool fetches = columns * LANES == PANEL && chains == 1;
  const oct_conv_f32_runs runs = t->runs;
  const float *weights = t->weights, *next = t->next;
  FOR_ROWS(POINTER);
  FOR_ALL(ACCUMULATOR);
  for (int64_t row = 0; row < runs.rows; row++) {
    for (int64_t run = 0; run < runs.runs; run++) {
      FOR_ROWS(RUN_POINTER);
      for (int64_t k = 0; k < runs.length; k += chains) {
        WEIGHTS(0) WEIGHTS(1) WEIGHTS(2) WEIGHTS(3);
        if (fetches && !first) __builtin_prefetch(next, 0, 2), next += t->next_step;
        if (first)
          for (int line = 0; line < columns * LANES; line += LINE) __builtin_prefetch(weights + AHEAD + line, 0, 2);
        FOR_ALL(MULTIPLY);
        weights += vectors * LANES;
      }
    }
    FOR_ROWS(ROW_ADVANCE);
  }
  FOR_ROWS(ADD_CHAINS);
  const V low = V_SET1(t->low), high = V_SET1(t->high);
  const bool adds = t->residual[0] != NULL;
  BIAS(0) BIAS(1) BIAS(2) BIAS(3);
  FOR_ALL(FINISH);
}

typedef void (*tile_fn)(const tile_args *t);

/* Tiles of heights 1 to 6 (1 to 12 of one vector; 1 to 3 where `chains` and `columns` use up the registers) and their table. */
#define TILE(height, columns, chains)                                                              \
  static __attribute__((noinline)) void tile_##height##x##columns##x##chains(const tile_args *t) { \
    tile(t, height, columns, chains, false);                                                       \
  }
#define FIRST_TILE(height, columns) \
  static __attribute__((noinline)) void first_tile_##height##x##columns(const tile_args *t) { tile(t, height, columns, 1, true); }
#define TILES_3(columns, chains) TILE(1, columns, chains) TILE(2, columns, chains) TILE(3, columns, chains)
#define TILES_6(columns, chains) TILES_3(columns, chains) TILE(4, columns, chains) TILE(5, columns, chains) TILE(6, columns, chains)
#define TILES_8(columns, chains) TILES_6(columns, chains) TILE(7, columns, chains) TILE(8, columns, chains)
#define TILES_12(columns, chains) \
  TILES_8(columns, chains)        \
  TILE(9, columns, chains) TILE(10, columns, chains) TILE(11, columns, chains) TILE(12, columns, chains)
#define TILE_NAMES_3(columns, chains) tile_1x##columns##x##chains, tile_2x##columns##x##chains, tile_3x##columns##x##chains
#define TILE_NAMES_6(columns, chains) \
  TILE_NAMES_3(columns, chains), tile_4x##columns##x##chains, tile_5x##columns##x##chains, tile_6x##columns##x##chains

#define FIRST_TILES_6(columns) \
  FIRST_TILE(1, columns) FIRST_TILE(2, columns) FIRST_TILE(3, columns) FIRST_TILE(4, columns) FIRST_TILE(5, columns) FIRST_TILE(6, columns)
#define FIRST_TILE_NAMES_6(columns)                                                                                       \
  first_tile_1x##columns, first_tile_2x##columns, first_tile_3x##columns, first_tile_4x##columns, first_tile_5x##columns, \
      first_tile_6x##columns

#define TILE_NAMES_8(columns, chains) TILE_NAMES_6(columns, chains), tile_7x##columns##x##chains, tile_8x##columns##x##chains
#define TILE_NAMES_12(columns, chains)                                                                                    \
  TILE_NAMES_8(columns, chains), tile_9x##columns##x##chains, tile_10x##columns##x##chains, tile_11x##columns##x##chains, \
      tile_12x##columns##x##chains

/* What runs a panel: the tallest tile, and one function per height. */
typedef struct tile_set {
  int columns, chains, height;
  tile_fn run[TILE_HEIGHT];
  tile_fn first[TILE_HEIGHT]; /* for a panel's first tile when nothing has fetched the panel; NULL: no such tiles */
} tile_set;

/* Who fetches a panel's weights: the tiles of the panel before it, if they are enough for that and both panels fit into the cache. */
static inline bool next_is_fetched(const oct_conv_f32_plan *plan, int64_t tiles, int64_t panel) {
  return panel <= MOST_FETCHED && tiles * LINE >= PANEL && plan->panels > 1;
}

/* The next `height` pixels; most tiles lie in one row of the image. */
static inline void tile_pixels(tile_args *t, oct_conv_f32_walk *walk, int height, int64_t in_channel, int64_t channel) {
  const bool one_row = walk->x + height < walk->args->shape.out_w;
  const ptrdiff_t in_step = walk->args->shape.stride_w * walk->args->in.pixel, out_step = walk->args->out.pixel,
                  residual_step = walk->args->residual.pixel;
  for (int r = 0; r < height; r++) {
    t->in[r] = walk->in + in_channel;
    t->out[r] = walk->out + channel;
    if (walk->residual) t->residual[r] = walk->residual + channel;
    if (!one_row) {
      oct_conv_f32_walk_next(walk);
      continue;
    }
    walk->in += in_step, walk->out += out_step;
    if (walk->residual) walk->residual += residual_step;
  }
  if (one_row) walk->x += height;
}

/* Columns [unit->column, + set->columns * LANES) of pixels [unit->pixel, unit->pixel_end), in tiles of nearly one height: 49 pixels are
 * 5 times 5 and 4 times 6, not 8 times 6 and one. `begins`: nothing ran before. */
static void run_unit(const oct_conv_f32_args *args, const oct_conv_f32_plan *plan, const oct_conv_f32_unit *unit, const tile_set *set,
                     M mask, bool begins) {
  int64_t channel = unit->group * plan->group_out + unit->column, in_channel = unit->group * plan->group_in;
  tile_args t = {.weights = (const float *)args->packed + (unit->group * plan->columns + unit->column) * plan->k,
                 .bias = args->bias ? args->bias + channel : NULL,
                 .low = args->low,
                 .high = args->high,
                 .runs = oct_conv_f32_runs_make(args, plan->group_in),
                 .mask = mask};
  oct_conv_f32_walk walk = oct_conv_f32_walk_start(args, unit->pixel);
  int64_t left = unit->pixel_end - unit->pixel;
  const int64_t tiles = (left + set->height - 1) / set->height, panel = set->columns * LANES * plan->k;
  const bool fetched = next_is_fetched(plan, tiles, panel), first = set->first[0] && (begins || (unit->pixel == 0 && !fetched));
  /* The panel's last tiles fetch the next panel, if it comes after them. */
  const bool fetches = fetched && (plan->panel_major ? unit->pixel_end == plan->pixels : unit->pixel == 0);
  const int64_t fetching = !fetches ? 0 : tiles < MOST_FETCHING ? tiles : MOST_FETCHING;
  const tile_fn *run = first ? set->first : set->run;
  for (int64_t i = 0; i < tiles; i++, run = set->run) {
    t.next = t.weights, t.next_step = 0;
    if (tiles - i <= fetching) {
      t.next_step = (PANEL + fetching - 1) / fetching;
      t.next = t.weights + panel + (i - tiles + fetching) * t.next_step * plan->k;
    }
    int height = (int)((left + tiles - i - 1) / (tiles - i));
    left -= height;
    tile_pixels(&t, &walk, height, in_channel, channel);
    run[height - 1](&t);
  }
}

#endif
