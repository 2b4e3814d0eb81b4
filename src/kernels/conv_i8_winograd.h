/* 8-bit 3x3 convolution by Winograd's F(4x4,3x3) in integers: what every SIMD variant shares. The result is exact.
 *
 * A tile is 4x4, 4x3, 3x4 or 3x3 output pixels; F(3,3) uses the points 0, 1, -1, 2, inf, a subset of those of F(4,3)
 * (0, 1, -1, 2, -2, inf), so one set of transformed weights serves all four kinds, and no tile is padded.
 *   input    d' = B q B^T of the raw bytes: |d'| <= 68 * 255 fits int16
 *   weights  w' = F G g G^T F with F = diag(6, -2, -2, 1, 1, 12), which makes them integers: |w'| <= 144 * 128 fits int16
 *   products m[position][output channel] = sum over channels of w' d', modulo 2^32
 *   output   x = A m A^T = 144 y, modulo 2^32; twice as much in the first row of a tile of height 4 and in the first column of one of width
 *            4, four times where both meet
 * y is the sum that direct convolution gives. 144 = 9 * 16 and 9 has an inverse modulo 2^32, so x / 9 = 16 y (32 y, 64 y) modulo 2^32 and
 * a shift by 4 to 6 bits gives y + bias wherever |y + bias| < 2^25: whatever overflowed on the way does not matter. Weights and bias decide
 * whether that holds (oct_winograd_reject_weights()). An output of its own scale saves two of fourteen operations per dimension.
 *
 * Weights are packed either transformed (72 bytes for each input and output channel) or as they are (9 bytes). Then they are transformed
 * for each block of tiles, a stretch that stays in the first-level cache at a time and with F = 1, which saves multiplications; the
 * output transform makes up for it. That is better where tiles are few and weights many, because fetching would take longer.
 *
 * Here are sizes, tiles and predicates; packing is in conv_i8_winograd_pack.h, the loop over units in conv_i8_winograd_run.h. Transforms and
 * products come from the instruction set (conv_i8_winograd_tile.h).
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
#define OCT_WINOGRAD_AHEAD (256 << 10) /* bytes of weights that are on their way, at most */
#define OCT_WINOGRAD_STRETCH 32        /* steps whose weights are transformed together */
#define OCT_WINOGRAD_NEAR 128 /* steps whose transformed weights stay in the first-level cache while all tiles are multiplied by them */

/* One step multiplies a pair of channels of some tiles by the weights of all output channels of a panel. */
typedef struct oct_winograd_product {
  const int16_t *v; /* transformed inputs of the first tile at one position: [tile][channel] */
  ptrdiff_t tile;   /* elements between tiles */
  int64_t steps;
  const int16_t *u; /* transformed weights [steps][panel width][2] */
  int32_t *m;       /* results of the first tile: [tile][widest] */
  const char *next; /* what to fetch into the second-level cache meanwhile, and how many bytes per step */
  ptrdiff_t ahead;
  bool add; /* to what is in m */
} oct_winograd_product;

typedef struct oct_winograd_list oct_winograd_list;

/* Tiles of input of one size, each to the right of the one before, with which it shares two columns. */
typedef struct oct_winograd_input {
  const uint8_t *in;
  ptrdiff_t row, pixel;
  int64_t chunks;
  bool pairs; /* see oct_winograd_channel() */
  int16_t *v; /* the first tile's place, with `position` elements between positions and `tile` between tiles */
  ptrdiff_t position, tile;
  int64_t tiles;
  const char *next; /* weights to be fetched into the second-level cache meanwhile, `ahead` bytes for two rows of a vector of a tile */
  ptrdiff_t ahead;
} oct_winograd_input;

typedef void (*oct_winograd_input_fn)(const oct_winograd_input *p);
typedef void (*oct_winograd_product_fn)(const oct_winograd_product *p);
/* acc[pixel][widest] = y + bias, from m[position][widest] with `position` elements between. `bias` is to be added at position (1, 1), which
 * takes part in all pixels alike. */
typedef void (*oct_winograd_output_fn)(const int32_t *m, ptrdiff_t position, int vectors, const int32_t *bias, int32_t *acc);
/* All tiles of a panel of the widest kind at once, for outputs that oct_winograd_takes_whole(): the usual case, without detours.
 * `bias`: for tiles of 4x4, of 4 and 3, of 3x3. */
typedef void (*oct_winograd_whole_fn)(const oct_conv_i8_args *args, const oct_winograd_list *list, int64_t channel, const int32_t *m,
                                      ptrdiff_t position, const int32_t (*bias)[OCT_DIRECT_WIDTH]);

/* Transforms weights for the positions of row i: u[6][steps][panel width][2] from w[steps][9][panel width][2], without F;
 * `size` elements between the six. */
typedef void (*oct_winograd_expand_fn)(int i, const int8_t *w, int64_t steps, int vectors, int16_t *u, ptrdiff_t size);

typedef struct oct_winograd_isa {
  int lanes;                                                        /* channels of one input vector */
  bool pairs;                                                       /* 64 channels at a time: see oct_winograd_channel() */
  int quantum, widest;                                              /* panel widths: multiples of `quantum` up to `widest` */
  const int *rows;                                                  /* [width / quantum - 1]: most tiles of one product */
  const oct_winograd_product_fn (*products)[OCT_WINOGRAD_ROWS + 1]; /* [width / quantum - 1][tiles] */
  oct_winograd_expand_fn expand;                                    /* NULL: weights are packed transformed */
  oct_winograd_input_fn input[2][2];                                /* [height - 3][width - 3] of the tile */
  oct_winograd_output_fn output[2][2];
  oct_winograd_whole_fn whole; /* or NULL */
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
struct oct_winograd_list {
  int count, wide, short_, narrow; /* first tile of width 4, of height 3, of neither 4 */
  oct_winograd_tile tiles[OCT_WINOGRAD_BLOCK];
};

typedef struct oct_winograd_plan {
  int64_t fours_down, down, fours_across, across; /* tiles of an image */
  int64_t tiles, blocks, panels;
  int64_t chunks, steps; /* of channels: of `lanes`, of 2 */
  /* Workspace: transformed inputs [position][tile][channel], where a product reads the channels of each tile in one run (a loop that
   * changed place every few steps would be mispredicted as often), and products [position][tile][widest] of one block. */
  ptrdiff_t tile, input_position, result_position; /* elements */
  size_t input_bytes, result_bytes, weight_bytes;  /* weight_bytes: of a stretch of transformed weights */
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
  int64_t block = (p.tiles + p.blocks - 1) / p.blocks;
  p.tile = p.chunks * isa->lanes;
  p.input_position = (block * p.chunks | 1) * isa->lanes;
  p.result_position = block * isa->widest + 64 / (ptrdiff_t)sizeof(int32_t);
  p.input_bytes = ((size_t)(OCT_WINOGRAD_POSITIONS * p.input_position) * sizeof(int16_t) + 63) / 64 * 64;
  p.result_bytes = (size_t)(OCT_WINOGRAD_POSITIONS * p.result_position) * sizeof(int32_t);
  p.weight_bytes = isa->expand ? (size_t)(6 * (OCT_WINOGRAD_STRETCH * 2 * isa->widest + 32)) * sizeof(int16_t) : 0;
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

static inline bool oct_winograd_follows(const oct_winograd_tile *t, const oct_winograd_tile *before) {
  return t->n == before->n && t->y == before->y && t->x == before->x + before->width && t->width == before->width &&
         t->height == before->height;
}

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

static inline bool oct_winograd_pairs(const oct_conv_shape *s, const oct_winograd_isa *isa) { return isa->pairs && s->channels % 64 == 0; }

/* The input channel at place `i` of a tile. With `pairs`, 64 channels are two vectors of 32: the first holds the lower half of each 16. */
static inline int64_t oct_winograd_channel(bool pairs, int64_t i) {
  return pairs ? i / 64 * 64 + i % 32 / 8 * 16 + i % 64 / 32 * 8 + i % 8 : i;
}

/* Width of the panel that begins at output channel `first`. */
static inline int oct_winograd_width(const oct_conv_shape *s, const oct_winograd_isa *isa, int64_t first) {
  int64_t left = s->out_channels - first;
  return left >= isa->widest ? isa->widest : (int)((left + isa->quantum - 1) / isa->quantum) * isa->quantum;
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

/* Sizes for which a row is the fastest, as measured. */
typedef struct oct_winograd_worth {
  int64_t channels, out_channels, both, tiles; /* at least; both: channels * out_channels */
  int64_t most;                                /* channels * out_channels at most, per tile; 0: any */
} oct_winograd_worth;

static inline const char *oct_winograd_reject_sizes(const oct_conv_shape *s, const oct_winograd_worth *worth) {
  const char *reason = oct_winograd_reject(s);
  if (reason) return reason;
  int64_t fours, down, across, both = s->channels * s->out_channels;
  oct_winograd_split(s->out_h, &fours, &down);
  oct_winograd_split(s->out_w, &fours, &across);
  if (s->channels < worth->channels || s->out_channels < worth->out_channels || both < worth->both)
    return "direct convolution is faster for so few channels";
  int64_t tiles = s->batch * down * across;
  if (tiles < worth->tiles) return "direct convolution is faster for so few pixels";
  return worth->most && both > worth->most * tiles ? "fetching so many transformed weights would take longer than multiplying" : NULL;
}

/* With the zero point in the bias, y + bias lies between bias + 255 * (sum of negative weights) and bias + 255 * (sum of positive ones). */
static inline const char *oct_winograd_reject_weights(const oct_conv_shape *s, const int8_t *weights, const int32_t *bias) {
  int64_t depth = s->channels * 9;
  for (int64_t o = 0; o < s->out_channels; o++) {
    int64_t sum = 0, magnitude = 0, b = bias ? bias[o] : 0;
    oct_sum_weights(weights + o * depth, depth, &sum, &magnitude);
    int64_t highest = b + 255 * ((magnitude + sum) / 2), lowest = b - 255 * ((magnitude - sum) / 2);
    if (highest >= OCT_WINOGRAD_BOUND || lowest <= -OCT_WINOGRAD_BOUND)
      return "an accumulator with its bias could reach 2^25 = 33554432, the bound below which this form is exact";
  }
  return NULL;
}

#endif
