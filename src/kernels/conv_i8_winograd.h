/* 8-bit 3x3 convolution by Winograd's F(4x4,3x3) in integers: what every SIMD variant shares. The result is exact.
 *
 * A tile is 4x4, 4x3, 3x4 or 3x3 output pixels; F(3,3) uses the points 0, 1, -1, 2, inf, a subset of those of F(4,3)
 * (0, 1, -1, 2, -2, inf), so one set of transformed weights serves all four kinds, and no tile is padded.
 *   input    d' = B q B^T of the raw bytes: |d'| <= 68 * 255 fits int16
 *   weights  w' = F G g G^T F with F = diag(6, -4, -4, 1, 1, 12), which makes them integers: |w'| <= 144 * 128 fits int16
 *   products m[position][output channel] = sum over channels of w' d', modulo 2^32
 *   output   x = A m A^T = 576 y, modulo 2^32
 * y is the sum that direct convolution gives. 576 = 9 * 64 and 9 has an inverse modulo 2^32, so x / 9 = 64 y modulo 2^32 and a
 * shift by 6 bits gives y + bias wherever |y + bias| < 2^25: whatever overflowed on the way does not matter. Weights and bias decide
 * whether that holds (oct_winograd_reject_weights()).
 *
 * Here are sizes, packing, tiles, units and the loop over them; transforms and products come from the instruction set.
 * Lavin, Gray: Fast Algorithms for Convolutional Neural Networks, arXiv:1509.09308, describe the algorithm.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_WINOGRAD_H
#define OCT_KERNELS_CONV_I8_WINOGRAD_H

#include "kernels/conv_i8_direct.h"

#define OCT_WINOGRAD_POSITIONS 36 /* 6 rows of 6 */
#define OCT_WINOGRAD_PIXELS 16    /* most output pixels of a tile */
#define OCT_WINOGRAD_BLOCK 32
#define OCT_WINOGRAD_ROWS 10         /* most tiles of one product */
#define OCT_WINOGRAD_NINTH 954437177 /* times 9 is 1 modulo 2^32 */
#define OCT_WINOGRAD_BOUND (1 << 25)

/* One step multiplies a pair of channels of some tiles by the weights of all output channels of a panel. */
typedef struct oct_winograd_product {
  const int16_t *v; /* transformed inputs of the first tile at one position: [tile][lanes] */
  ptrdiff_t chunk;  /* elements to the next `lanes` channels */
  int64_t steps;
  const int16_t *u; /* transformed weights [steps][panel width][2] */
  int32_t *m;       /* results of the first tile: [tile][widest] */
  const char *next; /* what to fetch into the second-level cache meanwhile, and how many bytes per step */
  ptrdiff_t ahead;
} oct_winograd_product;

/* v: one tile's place; `position` and `chunk` are distances there. */
typedef void (*oct_winograd_input_fn)(const uint8_t *in, ptrdiff_t row, ptrdiff_t pixel, int64_t chunks, int16_t *v, ptrdiff_t position,
                                      ptrdiff_t chunk);
typedef void (*oct_winograd_product_fn)(const oct_winograd_product *p);
/* acc[pixel][widest] = y + bias, from m[position][widest] with `position` elements between. `bias` is to be added at position (1, 1), which
 * takes part in all pixels alike. */
typedef void (*oct_winograd_output_fn)(const int32_t *m, ptrdiff_t position, int vectors, const int32_t *bias, int32_t *acc);

typedef struct oct_winograd_isa {
  int lanes;                                                        /* channels of one input vector */
  int quantum, widest;                                              /* panel widths: multiples of `quantum` up to `widest` */
  const int *rows;                                                  /* [width / quantum - 1]: most tiles of one product */
  const oct_winograd_product_fn (*products)[OCT_WINOGRAD_ROWS + 1]; /* [width / quantum - 1][tiles] */
  oct_winograd_input_fn input[2][2];                                /* [height - 3][width - 3] of the tile */
  oct_winograd_output_fn output[2][2];
  oct_direct_epilogue_fn epilogue;
} oct_winograd_isa;

/* ---- The tiles of a problem ---- */

/* `length` as a sum of fours and threes, the fours first; false for 1, 2 and 5. */
static inline bool oct_winograd_split(int64_t length, int64_t *fours, int64_t *all) {
  int64_t threes = (4 - length % 4) % 4;
  if (length < 3 * threes || length < 1) return false;
  *fours = (length - 3 * threes) / 4;
  *all = *fours + threes;
  return true;
}

typedef struct oct_winograd_tile {
  int64_t n, y, x;
  int height, width;
} oct_winograd_tile;

/* In the order 4x3, 4x4, 3x4, 3x3, so that the tiles which have a position always follow one another. */
typedef struct oct_winograd_list {
  int count, wide, short_, narrow; /* first tile of width 4, of height 3, of neither 4 */
  oct_winograd_tile tiles[OCT_WINOGRAD_BLOCK];
} oct_winograd_list;

typedef struct oct_winograd_plan {
  int64_t fours_down, down, fours_across, across; /* tiles of an image */
  int64_t tiles, blocks, panels;
  int64_t chunks, steps; /* of channels: of `lanes`, of 2 */
  /* Workspace: transformed inputs [chunk][position][tile][lanes] and products [position][tile][widest] of one block. */
  ptrdiff_t chunk, input_position, result_position; /* elements */
  size_t input_bytes, result_bytes;
} oct_winograd_plan;

/* Tiles of a block: their transformed inputs and the products of a panel should stay in the second-level cache. */
static inline int64_t oct_winograd_block(int64_t channels) {
  int64_t fit = (1280 << 10) / (OCT_WINOGRAD_POSITIONS * 2 * channels);
  return fit < 8 ? 8 : fit > OCT_WINOGRAD_BLOCK ? OCT_WINOGRAD_BLOCK : fit;
}

static inline oct_winograd_plan oct_winograd_plan_of(const oct_conv_shape *s, const oct_winograd_isa *isa) {
  oct_winograd_plan p = {.chunks = (s->channels + isa->lanes - 1) / isa->lanes, .steps = (s->channels + 1) / 2};
  oct_winograd_split(s->out_h, &p.fours_down, &p.down);
  oct_winograd_split(s->out_w, &p.fours_across, &p.across);
  p.tiles = s->batch * p.down * p.across;
  int64_t most = oct_winograd_block(p.chunks * isa->lanes);
  p.blocks = (p.tiles + most - 1) / most;
  p.panels = (s->out_channels + isa->widest - 1) / isa->widest;
  while (p.blocks > 1 && p.blocks * p.panels % 4) p.blocks++; /* equal shares for two or four threads */
  /* An odd number of vectors between positions, so that those of one tile do not meet in the same cache sets. */
  int64_t block = (p.tiles + p.blocks - 1) / p.blocks, odd = block | 1;
  p.input_position = odd * isa->lanes;
  p.result_position = block * isa->widest + 64 / (ptrdiff_t)sizeof(int32_t);
  p.chunk = OCT_WINOGRAD_POSITIONS * p.input_position;
  p.input_bytes = ((size_t)(p.chunks * p.chunk) * sizeof(int16_t) + 63) / 64 * 64;
  p.result_bytes = (size_t)(OCT_WINOGRAD_POSITIONS * p.result_position) * sizeof(int32_t);
  return p;
}

static inline oct_winograd_tile oct_winograd_tile_at(const oct_winograd_plan *p, int64_t index) {
  int64_t row = oct_quotient(index, p->across), column = index - row * p->across, n = oct_quotient(row, p->down);
  row -= n * p->down;
  int64_t past_y = row - p->fours_down, past_x = column - p->fours_across;
  return (oct_winograd_tile){.n = n,
                             .y = past_y < 0 ? 4 * row : 4 * p->fours_down + 3 * past_y,
                             .x = past_x < 0 ? 4 * column : 4 * p->fours_across + 3 * past_x,
                             .height = past_y < 0 ? 4 : 3,
                             .width = past_x < 0 ? 4 : 3};
}

/* Place in the order of a list. */
static inline int oct_winograd_kind(const oct_winograd_tile *t) { return t->height == 4 ? t->width == 4 : 2 + (t->width == 3); }

/* Tiles are spread evenly over the blocks. */
static inline void oct_winograd_list_of(const oct_winograd_plan *p, int64_t block, oct_winograd_list *list) {
  int64_t first = block * p->tiles / p->blocks, last = (block + 1) * p->tiles / p->blocks;
  oct_winograd_tile tiles[OCT_WINOGRAD_BLOCK];
  int counts[4] = {0}, at[4];
  list->count = (int)(last - first);
  for (int i = 0; i < list->count; i++) {
    tiles[i] = oct_winograd_tile_at(p, first + i);
    counts[oct_winograd_kind(&tiles[i])]++;
  }
  at[0] = 0, at[1] = counts[0], at[2] = at[1] + counts[1], at[3] = at[2] + counts[2];
  list->wide = at[1], list->short_ = at[2], list->narrow = at[3];
  for (int i = 0; i < list->count; i++) list->tiles[at[oct_winograd_kind(&tiles[i])]++] = tiles[i];
}

/* ---- What a row says about a problem ---- */

/* What the arithmetic needs. */
static inline const char *oct_winograd_reject(const oct_conv_shape *s) {
  int64_t fours, all;
  if (s->kernel_h != 3 || s->kernel_w != 3 || s->stride_h != 1 || s->stride_w != 1) return "made for 3x3 kernels with stride 1";
  if (s->dilation_h != 1 || s->dilation_w != 1 || s->groups != 1) return "made for dilation 1 and one group";
  if (!oct_winograd_split(s->out_h, &fours, &all) || !oct_winograd_split(s->out_w, &fours, &all))
    return "an output of 1, 2 or 5 rows or columns is no sum of tiles of 4 and 3";
  return NULL;
}

/* From which sizes on a row is faster than direct convolution, as measured. */
typedef struct oct_winograd_worth {
  int64_t channels, out_channels, both, tiles; /* at least; both: channels * out_channels */
} oct_winograd_worth;

static inline const char *oct_winograd_reject_small(const oct_conv_shape *s, const oct_winograd_worth *worth) {
  const char *reason = oct_winograd_reject(s);
  if (reason) return reason;
  int64_t fours, down, across;
  oct_winograd_split(s->out_h, &fours, &down);
  oct_winograd_split(s->out_w, &fours, &across);
  bool small = s->channels < worth->channels || s->out_channels < worth->out_channels || s->channels * s->out_channels < worth->both ||
               s->batch * down * across < worth->tiles;
  return small ? "direct convolution is faster for so few channels or tiles" : NULL;
}

/* With the zero point in the bias, y + bias lies between bias + 255 * (sum of negative weights) and bias + 255 * (sum of positive ones). */
static inline const char *oct_winograd_reject_weights(const oct_conv_shape *s, const int8_t *weights, const int32_t *bias) {
  int64_t depth = s->channels * 9;
  for (int64_t o = 0; o < s->out_channels; o++) {
    int64_t sum = 0, magnitude = 0, b = bias ? bias[o] : 0;
    for (int64_t i = 0; i < depth; i++) {
      int64_t w = weights[o * depth + i];
      sum += w, magnitude += w < 0 ? -w : w;
    }
    int64_t highest = b + 255 * ((magnitude + sum) / 2), lowest = b - 255 * ((magnitude - sum) / 2);
    if (highest >= OCT_WINOGRAD_BOUND || lowest <= -OCT_WINOGRAD_BOUND)
      return "an accumulator with its bias could reach 2^25 = 33554432, the bound below which this form is exact";
  }
  return NULL;
}

/* ---- Packed weights: [panel][position][step][panel width][2], the last panel as narrow as the quantum allows ---- */

/* Width of the panel that begins at output channel `first`. */
static inline int oct_winograd_width(const oct_conv_shape *s, const oct_winograd_isa *isa, int64_t first) {
  int64_t left = s->out_channels - first;
  return left >= isa->widest ? isa->widest : (int)((left + isa->quantum - 1) / isa->quantum) * isa->quantum;
}

static inline size_t oct_winograd_packed_bytes(const oct_conv_shape *s, const oct_winograd_isa *isa) {
  int64_t channels = (s->out_channels + isa->quantum - 1) / isa->quantum * isa->quantum;
  return (size_t)(channels * ((s->channels + 1) / 2) * 2 * OCT_WINOGRAD_POSITIONS) * sizeof(int16_t);
}

/* One dimension of F G: three weights become six, scaled by F. */
static inline void oct_winograd_weights(const int *g, int stride, int *w) {
  int even = g[0] + g[2 * stride], odd = g[stride], wide = g[0] + 4 * g[2 * stride];
  w[0] = 6 * g[0];
  w[1] = -4 * (even + odd);
  w[2] = -4 * (even - odd);
  w[3] = wide + 2 * odd;
  w[4] = wide - 2 * odd;
  w[5] = 12 * g[2 * stride];
}

static inline void oct_winograd_weights_3x3(const int8_t *weights, int16_t *u, ptrdiff_t position) {
  int g[9], columns[3][6], w[6];
  for (int i = 0; i < 9; i++) g[i] = weights[i];
  for (int j = 0; j < 3; j++) oct_winograd_weights(g + j, 3, columns[j]);
  for (int i = 0; i < 6; i++) {
    const int row[3] = {columns[0][i], columns[1][i], columns[2][i]};
    oct_winograd_weights(row, 1, w);
    for (int j = 0; j < 6; j++) u[(6 * i + j) * position] = (int16_t)w[j];
  }
}

static inline void oct_winograd_pack(const oct_conv_shape *s, const oct_winograd_isa *isa, const int8_t *weights, void *packed) {
  int64_t steps = (s->channels + 1) / 2;
  int16_t *out = (int16_t *)packed;
  for (int64_t o = 0; o < s->out_channels; o += isa->widest) {
    int width = oct_winograd_width(s, isa, o), count = (int)oct_min_i64(width, s->out_channels - o);
    for (int64_t step = 0; step < steps; step++) {
      int16_t u[OCT_WINOGRAD_POSITIONS * 2 * OCT_DIRECT_WIDTH] = {0}; /* [position][width][2]: written out in whole lines */
      for (int i = 0; i < count; i++)
        for (int c = 0; c < 2 && 2 * step + c < s->channels; c++)
          oct_winograd_weights_3x3(weights + ((o + i) * s->channels + 2 * step + c) * 9, u + 2 * i + c, 2 * width);
      for (int p = 0; p < OCT_WINOGRAD_POSITIONS; p++)
        memcpy(out + (p * steps + step) * 2 * width, u + p * 2 * width, (size_t)width * 2 * sizeof(int16_t));
    }
    out += OCT_WINOGRAD_POSITIONS * steps * 2 * width;
  }
}

/* ---- Running ---- */

static inline size_t oct_winograd_workspace_bytes(const oct_conv_shape *s, const oct_winograd_isa *isa) {
  oct_winograd_plan p = oct_winograd_plan_of(s, isa);
  return p.input_bytes + p.result_bytes;
}

/* A unit is one panel of one block; the units of a block follow one another. */
static inline size_t oct_winograd_units(const oct_conv_shape *s, const oct_winograd_isa *isa) {
  oct_winograd_plan p = oct_winograd_plan_of(s, isa);
  return (size_t)(p.blocks * p.panels);
}

static inline void oct_winograd_inputs(const oct_conv_i8_args *a, const oct_winograd_isa *isa, const oct_winograd_plan *p,
                                       const oct_winograd_list *list, int16_t *v) {
  for (int i = 0; i < list->count; i++, v += isa->lanes) {
    const oct_winograd_tile *t = &list->tiles[i];
    const uint8_t *in = (const uint8_t *)oct_view_at(&a->in, 1, t->n, t->y - a->shape.pad_top, t->x - a->shape.pad_left);
    isa->input[t->height - 3][t->width - 3](in, a->in.row, a->in.pixel, p->chunks, v, p->input_position, p->chunk);
  }
}

/* All positions of one panel. Tiles are taken in groups of equal sizes, as far as possible; the
 * first groups of a position fetch the weights of the next. */
static inline void oct_winograd_products(const oct_winograd_isa *isa, const oct_winograd_plan *p, const oct_winograd_list *list, int width,
                                         const int16_t *v, const int16_t *u, int32_t *m) {
  int kind = width / isa->quantum - 1, most = isa->rows[kind];
  int64_t size = p->steps * 2 * width;
  for (int position = 0; position < OCT_WINOGRAD_POSITIONS; position++, u += size) {
    int first = position % 6 == 4 ? list->wide : 0;
    int last = position / 6 == 4 ? list->short_ : position % 6 == 4 ? list->narrow : list->count;
    int groups = (last - first + most - 1) / most, parts = groups >= 4 ? 4 : 2;
    for (int g = 0; g < groups; g++) {
      int from = first + (last - first) * g / groups, to = first + (last - first) * (g + 1) / groups;
      bool fetch = g < parts;
      const oct_winograd_product product = {.v = v + position * p->input_position + from * isa->lanes,
                                            .chunk = p->chunk,
                                            .steps = p->steps,
                                            .u = u,
                                            .m = m + position * p->result_position + from * isa->widest,
                                            .next = (const char *)(fetch ? u + size + size / parts * g : u),
                                            .ahead = fetch ? width * 4 / parts : 0};
      isa->products[kind][to - from](&product);
    }
  }
}

/* The rows that share one epilogue: the pixels [y0, y1) x width of a tile. */
static inline void oct_winograd_rows(const oct_conv_i8_args *a, const oct_winograd_tile *t, int y0, int y1, int64_t channel,
                                     oct_direct_rows *rows) {
  size_t element = oct_epilogue_element(&a->epilogue), offset = (size_t)channel * element;
  ptrdiff_t out_step = a->out.pixel * (ptrdiff_t)element, residual_step = a->residual.pixel * (ptrdiff_t)element;
  rows->pixel = (t->n * a->shape.out_h + t->y + y0) * a->shape.out_w + t->x;
  rows->count = 0;
  for (int y = y0; y < y1; y++) {
    char *out = (char *)oct_view_at(&a->out, element, t->n, t->y + y, t->x) + offset;
    const char *residual = a->residual.data ? (char *)oct_view_at(&a->residual, element, t->n, t->y + y, t->x) + offset : NULL;
    for (int x = 0; x < t->width; x++, rows->count++) {
      rows->out[rows->count] = out + x * out_step;
      rows->residual[rows->count] = residual ? residual + x * residual_step : NULL;
    }
  }
}

static inline void oct_winograd_outputs(const oct_conv_i8_args *a, const oct_winograd_isa *isa, const oct_winograd_plan *p,
                                        const oct_winograd_list *list, int64_t channel, int width, const int32_t *m) {
  const oct_epilogue_i8 *e = &a->epilogue;
  int count = (int)oct_min_i64(width, a->shape.out_channels - channel);
  int32_t bias[3][OCT_DIRECT_WIDTH] __attribute__((aligned(64))), acc[OCT_WINOGRAD_PIXELS * OCT_DIRECT_WIDTH] __attribute__((aligned(64)));
  /* 576 times the bias, less the factor of position 1 in each dimension: 1 in tiles of 4, 3 in tiles of 3. */
  for (int i = 0; i < width; i++) {
    uint32_t b = e->bias && i < count ? (uint32_t)e->bias[channel + i] : 0;
    bias[0][i] = (int32_t)(b * 64), bias[1][i] = (int32_t)(b * 192), bias[2][i] = (int32_t)(b * 576);
  }
  /* An epilogue counts pixels on from its first: only where all of an image have one scale may it take more than one row. */
  bool by_row = e->row_scale && e->rows_per_scale % (a->shape.out_h * a->shape.out_w) != 0;
  for (int i = 0; i < list->count; i++, m += isa->widest) {
    const oct_winograd_tile *t = &list->tiles[i];
    oct_direct_rows rows;
    isa->output[t->height - 3][t->width - 3](m, p->result_position, width / isa->quantum, bias[t->height + t->width - 6], acc);
    for (int y = 0, step = by_row ? 1 : t->height; y < t->height; y += step) {
      oct_winograd_rows(a, t, y, y + step, channel, &rows);
      isa->epilogue(a, &rows, channel, count, acc + y * t->width * isa->widest, isa->widest);
    }
  }
}

static inline void oct_winograd_run(const oct_conv_i8_args *a, const oct_winograd_isa *isa, size_t begin, size_t end, void *workspace) {
  oct_winograd_plan p = oct_winograd_plan_of(&a->shape, isa);
  int16_t *v = (int16_t *)workspace;
  int32_t *m = (int32_t *)(void *)((char *)workspace + p.input_bytes);
  int64_t unit = (int64_t)begin;
  while (unit < (int64_t)end) {
    oct_winograd_list list;
    int64_t block = oct_quotient(unit, p.panels), after = oct_min_i64((block + 1) * p.panels, (int64_t)end);
    oct_winograd_list_of(&p, block, &list);
    oct_winograd_inputs(a, isa, &p, &list, v);
    for (; unit < after; unit++) {
      int64_t channel = (unit - block * p.panels) * isa->widest;
      int width = oct_winograd_width(&a->shape, isa, channel);
      const int16_t *u = (const int16_t *)a->packed + OCT_WINOGRAD_POSITIONS * p.steps * 2 * channel;
      oct_winograd_products(isa, &p, &list, width, v, u, m);
      oct_winograd_outputs(a, isa, &p, &list, channel, width, m);
    }
  }
}

#endif
