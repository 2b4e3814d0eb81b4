/* What the variants of the float Winograd convolution share: which layers they take, how an image is cut into tiles, how
 * weights are packed. No vector code: that is conv_f32_winograd_tile.h.
 *
 * F(4x4,3x3) with the points 0, 1, -1, 2, -2, infinity. Where an image's height or width n is no multiple of 4 it is cut as
 * n = 4a + 3b (possible for all n but 1, 2 and 5): F(3,3) uses the points 0, 1, -1, 2, infinity, so its weights are a subset of
 * the same ones. Per dimension, with weights transformed by the rows g' = [1 0 0] [1 1 1] [1 -1 1] [1 2 4] [1 -2 4] [0 0 1],
 * the sums over channels m and the outputs y are
 *   F(4,3): 6 y0 = 3/2 m0 - s + t/4, 6 y1 = e/2 - d, 6 y2 = t - s, 6 y3 = 2 e - d + 6 m5
 *           with s = m1 + m2, d = m1 - m2, t = m3 + m4, e = m3 - m4
 *   F(3,3): 6 y0 = 3 m0 - 3 m1 - m2 + m3, 6 y1 = m2 - 3 m1 + 2 m3, 6 y2 = 4 m3 - 3 m1 - m2 + 6 m5
 * and the weights are divided by the 36 of both dimensions when they are packed.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_F32_WINOGRAD_H
#define OCT_KERNELS_CONV_F32_WINOGRAD_H

#include <stddef.h>
#include <string.h>

#include "kernels/kernels.h"

#define OCT_WINOGRAD_F32_POSITIONS 36

/* Tiles are numbered by class, then image, row, column, so that of the tiles of a block those that have a position (row 4 needs
 * height 4, column 4 needs width 4) are neighbours: first height 4 and width 3, then 4x4, 3x4, 3x3. */
typedef struct oct_winograd_f32_plan {
  int64_t tall_rows, low_rows, wide_columns, narrow_columns; /* tiles of height 4 and 3, of width 4 and 3 along one image */
  int64_t class_end[4];                                      /* number of the first tile after each class */
  int64_t blocks, block_tiles;                               /* blocks of neighbouring tiles, and the most tiles of one */
  int64_t chunks, panels, columns;                           /* vectors of input channels; panels and packed output channels */
} oct_winograd_f32_plan;

typedef struct oct_winograd_f32_tile {
  int64_t index, n, row, column; /* row and column count tiles of the class */
  int kind;                      /* class */
} oct_winograd_f32_tile;

static inline bool oct_winograd_f32_divides(int64_t n) { return n > 2 && n != 5; }

static inline oct_winograd_f32_plan oct_winograd_f32_plan_make(const oct_conv_shape *s, int lanes, int panel, int64_t cached_floats) {
  oct_winograd_f32_plan p;
  p.low_rows = -s->out_h & 3, p.narrow_columns = -s->out_w & 3;
  p.tall_rows = (s->out_h - 3 * p.low_rows) / 4, p.wide_columns = (s->out_w - 3 * p.narrow_columns) / 4;
  p.class_end[0] = s->batch * p.tall_rows * p.narrow_columns;
  p.class_end[1] = p.class_end[0] + s->batch * p.tall_rows * p.wide_columns;
  p.class_end[2] = p.class_end[1] + s->batch * p.low_rows * p.wide_columns;
  p.class_end[3] = p.class_end[2] + s->batch * p.low_rows * p.narrow_columns;
  p.chunks = (s->channels + lanes - 1) / lanes;
  p.columns = (s->out_channels + lanes - 1) / lanes * lanes;
  p.panels = (s->out_channels + panel - 1) / panel;
  int64_t most = cached_floats / (OCT_WINOGRAD_F32_POSITIONS * (p.chunks * lanes + panel));
  most = most < 12 ? 12 : most > 64 ? 64 : most;
  p.blocks = (p.class_end[3] + most - 1) / most;
  p.block_tiles = (p.class_end[3] + p.blocks - 1) / p.blocks;
  return p;
}

static inline bool oct_winograd_f32_tall(int kind) { return kind < 2; }
static inline bool oct_winograd_f32_wide(int kind) { return kind == 1 || kind == 2; }

static inline int64_t oct_winograd_f32_row_tiles(const oct_winograd_f32_plan *p, int kind) {
  return oct_winograd_f32_wide(kind) ? p->wide_columns : p->narrow_columns;
}
static inline int64_t oct_winograd_f32_column_tiles(const oct_winograd_f32_plan *p, int kind) {
  return oct_winograd_f32_tall(kind) ? p->tall_rows : p->low_rows;
}

static inline oct_winograd_f32_tile oct_winograd_f32_tile_at(const oct_winograd_f32_plan *p, int64_t index) {
  oct_winograd_f32_tile t = {.index = index};
  while (t.kind < 3 && index >= p->class_end[t.kind]) t.kind++;
  int64_t inside = t.kind ? index - p->class_end[t.kind - 1] : index, wide = oct_winograd_f32_row_tiles(p, t.kind),
          high = oct_winograd_f32_column_tiles(p, t.kind);
  t.column = inside % wide, t.row = inside / wide % high, t.n = inside / wide / high;
  return t;
}

static inline void oct_winograd_f32_tile_next(const oct_winograd_f32_plan *p, oct_winograd_f32_tile *t) {
  t->index++;
  if (++t->column < oct_winograd_f32_row_tiles(p, t->kind)) return;
  t->column = 0;
  if (++t->row < oct_winograd_f32_column_tiles(p, t->kind)) return;
  t->row = 0, t->n++;
  while (t->kind < 3 && t->index >= p->class_end[t->kind]) t->kind++, t->n = 0;
}

/* The tile's first output pixel. */
static inline int64_t oct_winograd_f32_y(const oct_winograd_f32_plan *p, const oct_winograd_f32_tile *t) {
  return oct_winograd_f32_tall(t->kind) ? 4 * t->row : 4 * p->tall_rows + 3 * t->row;
}
static inline int64_t oct_winograd_f32_x(const oct_winograd_f32_plan *p, const oct_winograd_f32_tile *t) {
  return oct_winograd_f32_wide(t->kind) ? 4 * t->column : 4 * p->wide_columns + 3 * t->column;
}

/* Where a block lies, and which of its tiles have height 4 and width 4 (counted from the block's first). */
typedef struct oct_winograd_f32_block {
  int64_t first, tiles, tall_end, wide_begin, wide_end;
} oct_winograd_f32_block;

static inline int64_t oct_winograd_f32_clip(int64_t x, int64_t high) { return x < 0 ? 0 : x < high ? x : high; }

static inline oct_winograd_f32_block oct_winograd_f32_block_at(const oct_winograd_f32_plan *p, int64_t block) {
  int64_t all = p->class_end[3];
  oct_winograd_f32_block b = {.first = all * block / p->blocks};
  b.tiles = all * (block + 1) / p->blocks - b.first;
  b.tall_end = oct_winograd_f32_clip(p->class_end[1] - b.first, b.tiles);
  b.wide_begin = oct_winograd_f32_clip(p->class_end[0] - b.first, b.tiles);
  b.wide_end = oct_winograd_f32_clip(p->class_end[2] - b.first, b.tiles);
  return b;
}

/* The rule of choice, on the shape alone. Below 8 channels the transforms outweigh what they save. */
static inline const char *oct_winograd_f32_refusal(const oct_conv_shape *s) {
  if (s->kernel_h != 3 || s->kernel_w != 3 || s->stride_h != 1 || s->stride_w != 1 || s->dilation_h != 1 || s->dilation_w != 1)
    return "not 3x3 with stride and dilation 1";
  if (s->groups != 1) return "has groups";
  if (!oct_winograd_f32_divides(s->out_h) || !oct_winograd_f32_divides(s->out_w)) return "1, 2 or 5 output rows or columns";
  if (s->channels < 8 || s->out_channels < 8) return "too few channels";
  return NULL;
}

/* Transformed weights are four times as many, and each block of tiles reads them all: up to `most` bytes come in time, beyond that they
 * want many tiles. */
static inline bool oct_winograd_f32_is_heavy(const oct_conv_shape *s, int64_t bytes_per_tile, int64_t most) {
  int64_t tiles = s->batch * ((s->out_h + 3) / 4) * ((s->out_w + 3) / 4);
  int64_t bytes = OCT_WINOGRAD_F32_POSITIONS * (int64_t)sizeof(float) * s->channels * s->out_channels;
  return bytes > bytes_per_tile * tiles || bytes > most;
}

/* Row (a, b, c) of weights or of one of the sums below, transformed: the six values of a dimension. Multiplications are by powers of 2. */
static inline void oct_winograd_f32_line(float a, float b, float c, float u[6]) {
  float sum = a + c, quad = a + 4 * c;
  u[0] = a, u[1] = sum + b, u[2] = sum - b;
  u[3] = quad + 2 * b, u[4] = quad - 2 * b, u[5] = c;
}

/* One filter's 3x3 weights of one channel: divided by 36 (9 are stored) and transformed (36 are stored). Both forms give the same bits. */
static inline void oct_winograd_f32_weights(const float w[9], int stored, float *u) {
  float g[9], line[6], down[3][6];
  for (int i = 0; i < 9; i++) g[i] = w[i] / 36;
  if (stored == 9) {
    memcpy(u, g, sizeof g);
    return;
  }
  for (int j = 0; j < 3; j++) oct_winograd_f32_line(g[j], g[3 + j], g[6 + j], down[j]);
  for (int i = 0; i < 6; i++) {
    oct_winograd_f32_line(down[0][i], down[1][i], down[2][i], line);
    memcpy(u + 6 * i, line, sizeof line);
  }
}

/* weights [out][channels][3][3]. packed, with 36 stored values: [panel][position][channel][column], with 9: [panel][channel][tap][column];
 * the last panel is cut to whole vectors, with zeros in what is left. */
static inline void oct_winograd_f32_pack(const oct_conv_shape *s, int lanes, int panel, int stored, const float *weights, float *packed) {
  int64_t columns = (s->out_channels + lanes - 1) / lanes * lanes;
  for (int64_t first = 0; first < columns; first += panel) {
    int64_t width = columns - first < panel ? columns - first : panel, step = stored == 9 ? width : s->channels * width;
    for (int64_t c = 0; c < s->channels; c++) {
      float *to = packed + c * (stored == 9 ? 9 * width : width);
      for (int64_t k = 0; k < width; k++) {
        float u[OCT_WINOGRAD_F32_POSITIONS] = {0};
        if (first + k < s->out_channels) oct_winograd_f32_weights(weights + ((first + k) * s->channels + c) * 9, stored, u);
        for (int64_t i = 0; i < stored; i++) to[i * step + k] = u[i];
      }
    }
    packed += stored * s->channels * width;
  }
}

#endif
