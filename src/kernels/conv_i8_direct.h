/* Direct 8-bit convolution as a matrix product over row pointers, with no copy of the image: what every SIMD variant shares.
 * A tile is some output pixels (rows) times some output channels (a panel). The bytes that one pixel needs are a walk of
 * segments: contiguous bytes, at fixed distances. When the taps of a kernel row lie side by side (dilation 1, one group) the
 * segments are whole kernel rows; otherwise each tap is one. Segments are padded to steps of 4 bytes with zero weights.
 *
 * Packed weights: [group][panel][segment][step][panel width][4], the last panel of a group being as narrow as a tile allows.
 * Here are sizes, packing, the split into units and the loop over tiles; tiles and epilogues come from the instruction set.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_DIRECT_H
#define OCT_KERNELS_CONV_I8_DIRECT_H

#include "kernels/conv_i8_pack.h"
#include "kernels/epilogue_i8.h"

#define OCT_DIRECT_ROWS 10      /* most rows of any tile */
#define OCT_DIRECT_TILES 4      /* most tiles between epilogues: narrow ones share the overhead of one */
#define OCT_DIRECT_WIDTH 64     /* most channels of any tile */
#define OCT_DIRECT_ACC 384      /* most accumulators of any tile */
#define OCT_DIRECT_BLOCK 48     /* output pixels of one unit */
#define OCT_DIRECT_SEGMENTS 128 /* most segments of a walk */

/* Where a pixel's segments begin, counted from its first byte. */
typedef struct oct_direct_walk {
  int64_t segments, bytes; /* bytes: of one segment, padded to steps */
  const char *next;        /* weights to be used soon: a tile may fetch a line of them with each step */
  ptrdiff_t offsets[OCT_DIRECT_SEGMENTS];
} oct_direct_walk;

/* All steps of all segments, for tiles: STEP uses k, the offset from a pixel's first byte, and w, the step's weights. */
#define OCT_DIRECT_WALK(width, STEP)                                                        \
  for (const ptrdiff_t *s_ = walk->offsets, *last_ = s_ + walk->segments; s_ < last_; s_++) \
    for (ptrdiff_t k = *s_, end_ = k + walk->bytes; k < end_; k += 4, w += 4 * (width)) {   \
      STEP                                                                                  \
    }

/* acc[rows][width] = bias[width] + products. */
typedef void (*oct_direct_tile_fn)(const oct_direct_walk *walk, const uint8_t *const *in, const int8_t *weights, const int32_t *bias,
                                   int32_t *acc);

typedef struct oct_direct_tile {
  int rows, width;
  oct_direct_tile_fn by_rows[OCT_DIRECT_ROWS + 1]; /* [1..rows] */
} oct_direct_tile;

/* Where some pixels are; out and residual point at the panel's first channel. */
typedef struct oct_direct_rows {
  const uint8_t *in[OCT_DIRECT_ROWS * OCT_DIRECT_TILES];
  char *out[OCT_DIRECT_ROWS * OCT_DIRECT_TILES];
  const char *residual[OCT_DIRECT_ROWS * OCT_DIRECT_TILES];
  int64_t pixel; /* index of the first one over all images */
  int count;
} oct_direct_rows;

/* Finishes `count` channels from `channel` on of acc[rows->count][width]. */
typedef void (*oct_direct_epilogue_fn)(const oct_conv_i8_args *args, const oct_direct_rows *rows, int64_t channel, int count,
                                       const int32_t *acc, int width);

typedef struct oct_direct_isa {
  int quantum, widest;                 /* panel widths: multiples of `quantum` up to `widest` */
  bool pairs;                          /* weights of 16 bits, in another order: see oct_direct_offset() */
  const oct_direct_tile *const *tiles; /* [width / quantum - 1] */
  oct_direct_epilogue_fn epilogue;
} oct_direct_isa;

typedef struct oct_direct_plan {
  int64_t depth, group_out;         /* channels of one group: in, out */
  int64_t segments, segment, steps; /* segment: bytes without padding; steps: per segment */
  int64_t panels, panels_per_group;
  int64_t channel_bytes, group_bytes; /* packed weights */
  int64_t pixels, blocks, chunk;      /* chunk: blocks that run through all panels before the next chunk */
} oct_direct_plan;

static inline int64_t oct_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }

/* a / b for small problems, where a division is often trivial and a narrow one much faster than a wide one. Neither is negative. */
static inline int64_t oct_quotient(int64_t a, int64_t b) {
  if (a < b) return 0;
  if (b == 1) return a;
  return (a | b) >> 32 ? a / b : (int64_t)((uint32_t)a / (uint32_t)b);
}

static inline bool oct_direct_whole_rows(const oct_conv_shape *s) { return s->groups == 1 && (s->dilation_w == 1 || s->kernel_w == 1); }

/* Width of the panel that begins at `first` of a group. */
static inline int oct_direct_width(const oct_direct_isa *isa, const oct_direct_plan *p, int64_t first) {
  int64_t left = p->group_out - first;
  return left >= isa->widest ? isa->widest : (int)((left + isa->quantum - 1) / isa->quantum) * isa->quantum;
}

static inline oct_direct_plan oct_direct_plan_of(const oct_conv_shape *s, const oct_direct_isa *isa) {
  oct_direct_plan p = {.depth = oct_quotient(s->channels, s->groups), .group_out = oct_quotient(s->out_channels, s->groups)};
  bool whole = oct_direct_whole_rows(s);
  p.segment = whole ? s->kernel_w * p.depth : p.depth;
  p.segments = whole ? s->kernel_h : (int64_t)s->kernel_h * s->kernel_w;
  p.steps = (p.segment + 3) / 4;
  p.panels_per_group = (p.group_out + isa->widest - 1) / isa->widest;
  p.panels = p.panels_per_group * s->groups;
  int64_t widths = (p.panels_per_group - 1) * isa->widest;
  widths += oct_direct_width(isa, &p, widths);
  p.channel_bytes = p.segments * p.steps * (isa->pairs ? 8 : 4);
  p.group_bytes = widths * p.channel_bytes;
  p.pixels = s->batch * s->out_h * s->out_w;
  p.blocks = (p.pixels + OCT_DIRECT_BLOCK - 1) / OCT_DIRECT_BLOCK;
  /* Weights that stay in the second-level cache: let the pixels stay in it too, chunk by chunk. Large weights: pass over them once. */
  int64_t bytes_per_block = OCT_DIRECT_BLOCK * s->channels * s->stride_h * s->stride_w;
  bool small_weights = p.group_bytes * s->groups <= (512 << 10);
  p.chunk = small_weights && p.panels > 1 && bytes_per_block ? oct_quotient(256 << 10, bytes_per_block) : p.blocks;
  if (p.chunk < 4) p.chunk = 4;
  return p;
}

static inline size_t oct_direct_packed_bytes(const oct_conv_shape *s, const oct_direct_isa *isa) {
  return (size_t)(oct_direct_plan_of(s, isa).group_bytes * s->groups);
}

static inline size_t oct_direct_units(const oct_conv_shape *s, const oct_direct_isa *isa) {
  oct_direct_plan p = oct_direct_plan_of(s, isa);
  return (size_t)(p.blocks * p.panels);
}

/* Position of weight b (0..3) of channel o in a step. `pairs`: weights 0 and 2 of all channels, then 1 and 3, because a word's even and odd
 * bytes are what a mask and a shift give where there is no 8-bit dot product. */
static inline int64_t oct_direct_offset(bool pairs, int width, int64_t o, int64_t b) {
  return pairs ? (b & 1) * width * 2 + o * 2 + (b >> 1) : o * 4 + b;
}

/* The weight at position `at` of a packed panel. */
static inline void oct_direct_weight_put(bool pairs, int8_t *panel, int64_t at, int8_t value) {
  int16_t wide = value;
  if (pairs) memcpy(panel + 2 * at, &wide, 2);
  else panel[at] = value;
}
static inline int32_t oct_direct_weight_get(bool pairs, const int8_t *panel, int64_t at) {
  if (!pairs) return panel[at];
  int16_t wide;
  memcpy(&wide, panel + 2 * at, 2);
  return wide;
}

/* For input channels in multiples of 4, where every step has one tap: whatever the segments, they follow one another as taps do. */
static inline void oct_direct_pack_quads(const oct_conv_shape *s, const oct_direct_plan *p, const int8_t *weights, int count, int width,
                                         int8_t *out) {
  const int64_t taps = (int64_t)s->kernel_h * s->kernel_w;
  int8_t rows[OCT_PACK_TAPS][OCT_PACK_IN];
  for (int64_t first = 0; first < count; first += OCT_PACK_OUT)
    for (int64_t from = 0; from < p->depth; from += OCT_PACK_IN)
      for (int64_t o = first; o < oct_min_i64(count, first + OCT_PACK_OUT); o++) {
        const int64_t n = oct_min_i64(OCT_PACK_IN, p->depth - from);
        for (int64_t t = 0; t < taps; t++) {
          const int8_t *row = oct_pack_row(weights + (o * p->depth + from) * taps, n, taps, t, rows);
          int8_t *to = out + (t * p->depth + from) * width + 4 * o;
          for (int64_t c = 0; c < n; c += 4, to += 4 * width) memcpy(to, row + c, 4);
        }
      }
}

static inline void oct_direct_pack_panel(const oct_conv_shape *s, const oct_direct_isa *isa, const oct_direct_plan *p,
                                         const int8_t *weights, int count, int width, int8_t *out) {
  int64_t taps = (int64_t)s->kernel_h * s->kernel_w;
  if (!isa->pairs && p->depth % 4 == 0) {
    oct_direct_pack_quads(s, p, weights, count, width, out);
    return;
  }
  for (int64_t i = 0; i < p->segments; i++)
    for (int64_t k = 0; k < p->segment; k++) {
      int64_t tap = i * (p->segment / p->depth) + k / p->depth, c = k % p->depth;
      int64_t step = (i * p->steps + k / 4) * width * 4;
      for (int64_t o = 0; o < count; o++)
        oct_direct_weight_put(isa->pairs, out, step + oct_direct_offset(isa->pairs, width, o, k % 4),
                              weights[(o * p->depth + c) * taps + tap]);
    }
}

static inline void oct_direct_pack(const oct_conv_shape *s, const oct_direct_isa *isa, const int8_t *weights, void *packed) {
  oct_direct_plan p = oct_direct_plan_of(s, isa);
  int64_t per_channel = p.depth * s->kernel_h * s->kernel_w;
  int8_t *out = (int8_t *)packed;
  memset(out, 0, (size_t)(p.group_bytes * s->groups));
  for (int64_t g = 0; g < s->groups; g++)
    for (int64_t o = 0; o < p.group_out; o += isa->widest) {
      int width = oct_direct_width(isa, &p, o);
      oct_direct_pack_panel(s, isa, &p, weights + (g * p.group_out + o) * per_channel, (int)oct_min_i64(width, p.group_out - o), width,
                            out);
      out += width * p.channel_bytes;
    }
}

/* The walk for this view; false when the packed order does not fit it (pixels that lie apart and whose channels are no multiple of 4,
 * where segments are whole rows) or when it has too many segments. */
static inline bool oct_direct_walk_of(const oct_conv_shape *s, const oct_direct_plan *p, const oct_view *in, oct_direct_walk *w) {
  bool whole = oct_direct_whole_rows(s), close = s->kernel_w == 1 || in->pixel == s->channels;
  if (whole && !close && s->channels % 4) return false;
  int per_row = whole && close ? 1 : s->kernel_w;
  w->segments = (int64_t)s->kernel_h * per_row;
  w->bytes = whole && !close ? s->channels : p->steps * 4;
  if (w->segments > OCT_DIRECT_SEGMENTS) return false;
  for (int i = 0; i < s->kernel_h; i++)
    for (int j = 0; j < per_row; j++)
      w->offsets[i * per_row + j] = (ptrdiff_t)i * s->dilation_h * in->row + (ptrdiff_t)j * s->dilation_w * in->pixel;
  return true;
}

/* A tile for what has no walk: correct, not fast. */
static inline void oct_direct_tile_apart(const oct_conv_i8_args *a, const oct_direct_plan *p, bool pairs, int width,
                                         const oct_direct_rows *rows, const int8_t *weights, const int32_t *bias, int32_t *acc) {
  const oct_conv_shape *s = &a->shape;
  for (int r = 0; r < rows->count; r++)
    for (int o = 0; o < width; o++) {
      uint32_t sum = (uint32_t)bias[o];
      for (int64_t i = 0; i < p->segments; i++)
        for (int64_t k = 0; k < p->segment; k++) {
          int64_t tap = i * (p->segment / p->depth) + k / p->depth;
          ptrdiff_t offset = tap / s->kernel_w * s->dilation_h * a->in.row + tap % s->kernel_w * s->dilation_w * a->in.pixel;
          int32_t weight =
              oct_direct_weight_get(pairs, weights, (i * p->steps + k / 4) * width * 4 + oct_direct_offset(pairs, width, o, k % 4));
          sum += (uint32_t)(rows->in[r][offset + k % p->depth] * weight);
        }
      acc[r * width + o] = (int32_t)sum;
    }
}

/* Walks over output pixels without a division per pixel. */
typedef struct oct_direct_cursor {
  const oct_conv_i8_args *args;
  int64_t n, y, x, pixel, channel_in, channel_out;
  size_t element;
  const uint8_t *in;
  char *out;
  const char *residual;
} oct_direct_cursor;

static inline void oct_direct_cursor_row(oct_direct_cursor *c) {
  const oct_conv_i8_args *a = c->args;
  const oct_conv_shape *s = &a->shape;
  c->in = (const uint8_t *)oct_view_at(&a->in, 1, c->n, c->y * s->stride_h - s->pad_top, c->x * s->stride_w - s->pad_left) + c->channel_in;
  c->out = (char *)oct_view_at(&a->out, c->element, c->n, c->y, c->x) + (size_t)c->channel_out * c->element;
  if (a->residual.data)
    c->residual = (const char *)oct_view_at(&a->residual, c->element, c->n, c->y, c->x) + (size_t)c->channel_out * c->element;
}

static inline oct_direct_cursor oct_direct_cursor_at(const oct_conv_i8_args *a, int64_t pixel, int64_t channel_in, int64_t channel_out) {
  int64_t row = oct_quotient(pixel, a->shape.out_w);
  oct_direct_cursor c = {
      .args = a, .pixel = pixel, .channel_in = channel_in, .channel_out = channel_out, .element = oct_epilogue_element(&a->epilogue)};
  c.x = pixel - row * a->shape.out_w;
  c.n = oct_quotient(row, a->shape.out_h);
  c.y = row - c.n * a->shape.out_h;
  oct_direct_cursor_row(&c);
  return c;
}

/* Row by row of the output: within one, the next pixel is a constant distance away. */
static inline void oct_direct_cursor_take(oct_direct_cursor *c, int count, oct_direct_rows *rows) {
  const oct_conv_i8_args *a = c->args;
  const ptrdiff_t in_step = a->shape.stride_w * a->in.pixel, out_step = a->out.pixel * (ptrdiff_t)c->element,
                  residual_step = a->residual.pixel * (ptrdiff_t)c->element;
  rows->pixel = c->pixel;
  rows->count = count;
  c->pixel += count;
  for (int r = 0; r < count;) {
    const int end = (int)oct_min_i64(count, r + a->shape.out_w - c->x);
    const uint8_t *in = c->in;
    char *out = c->out;
    c->x += end - r;
    for (int i = r; c->residual && i < end; i++, c->residual += residual_step) rows->residual[i] = c->residual;
    for (; r < end; r++, in += in_step, out += out_step) rows->in[r] = in, rows->out[r] = out;
    c->in = in, c->out = out;
    if (c->x < a->shape.out_w) continue;
    c->x = 0;
    if (++c->y == a->shape.out_h) c->y = 0, c->n++;
    if (c->n < a->shape.batch) oct_direct_cursor_row(c);
  }
}

/* What a panel's tiles fetch: a line per step and tile until the panel after it is complete (weights of a network are too many for the
 * nearer caches, so that they come from far away each time). The other tiles, as late as they can, fetch what a later step waits for. */
static inline const char *oct_direct_next(const oct_conv_i8_args *a, const oct_direct_walk *walk, const char *after, const int8_t *weights,
                                          int width, int64_t panel, int64_t panels, int64_t tile, int64_t tiles) {
  const int64_t bytes = walk->segments * walk->bytes * 16, own = oct_min_i64((width + 15) / 16, tiles), others = tiles - own;
  if (after && tile < own) return after + tile * bytes;
  const int64_t late = oct_min_i64((int64_t)a->next_bytes - (panels * others + own) * bytes, 0);
  const int64_t at = (panel * others + tile - (after ? own : 0)) * bytes + late;
  return a->next && at > -bytes && at < (int64_t)a->next_bytes ? (const char *)a->next + (at > 0 ? at : 0) : (const char *)weights;
}

/* One panel over the output pixels [first, last); walk NULL: there is none.
 * Tiles have equal heights, as far as possible, so that none is a thin rest. */
static inline void oct_direct_run_panel(const oct_conv_i8_args *a, const oct_direct_isa *isa, const oct_direct_plan *p,
                                        oct_direct_walk *walk, int64_t panel, int64_t first, int64_t last) {
  int64_t group = oct_quotient(panel, p->panels_per_group), o = (panel - group * p->panels_per_group) * isa->widest,
          channel = group * p->group_out + o;
  int width = oct_direct_width(isa, p, o), count = (int)oct_min_i64(width, p->group_out - o);
  const int8_t *weights = (const int8_t *)a->packed + group * p->group_bytes + o * p->channel_bytes;
  const oct_direct_tile *tile = isa->tiles[width / isa->quantum - 1];
  const char *after = panel + 1 < p->panels ? (const char *)weights + width * p->channel_bytes : NULL;
  int32_t bias[OCT_DIRECT_WIDTH] __attribute__((aligned(64)));
  for (int i = 0; i < width; i++) bias[i] = a->epilogue.bias && i < count ? a->epilogue.bias[channel + i] : 0;
  int32_t acc[OCT_DIRECT_ACC * OCT_DIRECT_TILES] __attribute__((aligned(64)));
  oct_direct_cursor cursor = oct_direct_cursor_at(a, first, group * p->depth, channel);
  oct_direct_rows rows;
  int64_t tiles = oct_quotient(last - first + tile->rows - 1, tile->rows);
  int height = (int)oct_quotient(last - first, tiles);
  int64_t taller = last - first - height * tiles;
  int64_t fetched = 0, between = width <= 32 ? OCT_DIRECT_TILES : 1;
  for (int64_t t = 0; t < tiles; t += between) {
    int64_t together = oct_min_i64(between, tiles - t), tall = taller - t < 0 ? 0 : oct_min_i64(taller - t, together);
    oct_direct_cursor_take(&cursor, (int)(height * together + tall), &rows);
    if (!walk) oct_direct_tile_apart(a, p, isa->pairs, width, &rows, weights, bias, acc);
    for (int row = 0; walk && row < rows.count; tall--) {
      int take = height + (tall > 0);
      walk->next = oct_direct_next(a, walk, after, weights, width, panel, p->panels, fetched++, tiles);
      tile->by_rows[take](walk, rows.in + row, weights, bias, acc + row * width);
      row += take;
    }
    isa->epilogue(a, &rows, channel, count, acc, width);
  }
}

/* Units are ordered by chunk, panel, block: a contiguous range is run panel by panel. */
static inline void oct_direct_run(const oct_conv_i8_args *a, const oct_direct_isa *isa, size_t begin, size_t end) {
  oct_direct_plan p = oct_direct_plan_of(&a->shape, isa);
  oct_direct_walk walk;
  bool fits = oct_direct_walk_of(&a->shape, &p, &a->in, &walk);
  int64_t unit = (int64_t)begin, stop = (int64_t)end;
  while (unit < stop) {
    int64_t chunk = oct_quotient(unit, p.chunk * p.panels), first = chunk * p.chunk, blocks = oct_min_i64(p.chunk, p.blocks - first);
    int64_t inside = unit - first * p.panels, panel = oct_quotient(inside, blocks), block = inside - panel * blocks;
    int64_t take = oct_min_i64(blocks - block, stop - unit);
    int64_t from = (first + block) * OCT_DIRECT_BLOCK, to = oct_min_i64(from + take * OCT_DIRECT_BLOCK, p.pixels);
    oct_direct_run_panel(a, isa, &p, fits ? &walk : NULL, panel, from, to);
    unit += take;
  }
}

#endif
