/* Running exact Winograd convolution: units, and for each block of tiles inputs, products and outputs. See conv_i8_winograd.h.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_WINOGRAD_RUN_H
#define OCT_KERNELS_CONV_I8_WINOGRAD_RUN_H

#include <immintrin.h>

#include "kernels/conv_i8_winograd.h"
#include "kernels/conv_i8_winograd_pack.h"

static inline size_t oct_winograd_workspace_bytes(const oct_conv_shape *s, const oct_winograd_isa *isa) {
  oct_winograd_plan p = oct_winograd_plan_of(s, isa);
  return p.input_bytes + p.result_bytes + p.weight_bytes;
}

/* A unit is one panel of one block; the units of a block follow one another. */
static inline size_t oct_winograd_units(const oct_conv_shape *s, const oct_winograd_isa *isa) {
  oct_winograd_plan p = oct_winograd_plan_of(s, isa);
  return (size_t)(p.blocks * p.panels);
}

/* Packed weights on their way into the second-level cache: in the order in which panels use them, one position of all panels ahead, and at a
 * steady pace. The third level delivers about as fast as the products of 16 tiles take weights, but those of fewer tiles take them faster. */
typedef struct oct_winograd_fetch {
  const char *next, *begin, *end; /* after the last panel comes the first one, for the next block of tiles */
  int64_t pace;                   /* bytes for 256 steps of one tile */
} oct_winograd_fetch;

/* For a block of tiles that begins with the panel at output channel `channel`. */
static inline oct_winograd_fetch oct_winograd_fetch_of(const oct_conv_i8_args *a, const oct_winograd_isa *isa, const oct_winograd_plan *p,
                                                       const oct_winograd_list *list, int64_t channel) {
  const int64_t bytes = p->steps * (isa->expand ? 18 : 4 * OCT_WINOGRAD_POSITIONS); /* of an output channel */
  const int64_t tiles = 25 * list->count + 5 * list->short_ + 5 * (list->narrow - list->wide) + (list->short_ - list->wide);
  const char *begin = (const char *)a->packed;
  return (oct_winograd_fetch){.next = begin + bytes * channel,
                              .begin = begin,
                              .end = begin + oct_winograd_packed_bytes(&a->shape, isa),
                              .pace = oct_quotient(256 * bytes * isa->widest, tiles * p->steps) + 1};
}

static inline void oct_winograd_fetch_advance(oct_winograd_fetch *f, ptrdiff_t bytes) {
  f->next += bytes;
  if (f->next >= f->end) f->next = f->begin;
}

/* Meanwhile the first weights are fetched, unless the block before has done so. */
static inline void oct_winograd_inputs(const oct_conv_i8_args *a, const oct_winograd_isa *isa, const oct_winograd_plan *p,
                                       const oct_winograd_list *list, int16_t *v, oct_winograd_fetch *fetch, bool first) {
  const ptrdiff_t ahead =
      (ptrdiff_t)oct_quotient(oct_min_i64((fetch->end - fetch->begin) / OCT_WINOGRAD_POSITIONS, OCT_WINOGRAD_AHEAD), list->count);
  oct_winograd_input input = {.row = a->in.row,
                              .pixel = a->in.pixel,
                              .chunks = p->chunks,
                              .pairs = oct_winograd_pairs(&a->shape, isa),
                              .v = v,
                              .position = p->input_position,
                              .tile = p->tile,
                              .ahead = first ? (ptrdiff_t)oct_quotient(ahead, 3 * p->chunks) + 1 : 0};
  for (int i = 0; i < list->count; i += (int)input.tiles, input.v += input.tiles * p->tile) {
    const oct_winograd_tile *t = &list->tiles[i];
    input.in = (const uint8_t *)oct_view_at(&a->in, 1, t->n, t->y - a->shape.pad_top, t->x - a->shape.pad_left);
    input.tiles = 1;
    while (i + input.tiles < list->count && oct_winograd_follows(t + input.tiles, t + input.tiles - 1)) input.tiles++;
    input.next = fetch->next;
    oct_winograd_fetch_advance(fetch, ahead * input.tiles);
    isa->input[t->height - 3][t->width - 3](&input);
  }
}

/* Positions [begin, end) and steps [from, from + steps) of one panel, u being the weights of the first. */
typedef struct oct_winograd_pass {
  int begin, end, width;
  int64_t from, steps;
  const int16_t *u;
  ptrdiff_t size; /* elements of u between positions */
} oct_winograd_pass;

/* The tiles that have a position, in groups of equal sizes, as far as possible. */
typedef struct oct_winograd_groups {
  int count;
  int8_t first[OCT_WINOGRAD_BLOCK + 1];
} oct_winograd_groups;

static inline oct_winograd_groups oct_winograd_groups_of(int first, int last, int most) {
  oct_winograd_groups g = {.count = (last - first + most - 1) / most};
  for (int i = 0; i <= g.count; i++) g.first[i] = (int8_t)(g.count ? first + (last - first) * i / g.count : first);
  return g;
}

static inline void oct_winograd_products(const oct_winograd_isa *isa, const oct_winograd_plan *p, const oct_winograd_groups groups[2][2],
                                         const oct_winograd_pass *pass, const int16_t *v, int32_t *m, oct_winograd_fetch *fetch) {
  const int width = pass->width;
  const oct_winograd_product_fn *products = isa->products[width / isa->quantum - 1];
  oct_winograd_product product = {.tile = p->tile, .steps = pass->steps, .u = pass->u, .add = pass->from > 0};
  v += pass->from * 2;
  for (int position = pass->begin; position < pass->end; position++, product.u += pass->size) {
    const oct_winograd_groups *g = &groups[position / 6 == 4][position % 6 == 4];
    for (int i = 0; i < g->count; i++) {
      const int from = g->first[i], tiles = g->first[i + 1] - from;
      product.v = v + position * p->input_position + from * p->tile;
      product.m = m + position * p->result_position + from * isa->widest;
      product.next = fetch->next;
      product.ahead = fetch->pace * tiles / 256;
      products[tiles](&product);
      oct_winograd_fetch_advance(fetch, product.ahead * product.steps);
    }
  }
}

/* All positions of the panel that begins at output channel `first`. */
static inline void oct_winograd_panel(const oct_conv_i8_args *a, const oct_winograd_isa *isa, const oct_winograd_plan *p,
                                      const oct_winograd_list *list, int64_t first, int width, const int16_t *v, int16_t *scratch,
                                      int32_t *m, oct_winograd_fetch *fetch) {
  oct_winograd_pass pass = {.width = width, .size = p->steps * 2 * width};
  const int most = isa->rows[width / isa->quantum - 1];
  const oct_winograd_groups groups[2][2] = {
      {oct_winograd_groups_of(0, list->count, most), oct_winograd_groups_of(list->wide, list->narrow, most)},
      {oct_winograd_groups_of(0, list->short_, most), oct_winograd_groups_of(list->wide, list->short_, most)}};
  if (!isa->expand) {
    pass.u = (const int16_t *)a->packed + OCT_WINOGRAD_POSITIONS * p->steps * 2 * first;
    for (; pass.begin < OCT_WINOGRAD_POSITIONS; pass.begin++) {
      pass.end = pass.begin + 1;
      for (pass.from = 0; pass.from < p->steps; pass.from += pass.steps, pass.u += pass.steps * 2 * width) {
        pass.steps = oct_min_i64(OCT_WINOGRAD_NEAR, p->steps - pass.from);
        oct_winograd_products(isa, p, groups, &pass, v, m, fetch);
      }
    }
    return;
  }
  const int8_t *w = (const int8_t *)a->packed + 18 * p->steps * first;
  pass.u = scratch;
  pass.size = OCT_WINOGRAD_STRETCH * 2 * width + 32; /* not the distance at which cache lines meet in one set */
  for (int i = 0; i < 6; i++) {
    pass.begin = 6 * i, pass.end = 6 * i + 6;
    for (pass.from = 0; pass.from < p->steps; pass.from += OCT_WINOGRAD_STRETCH) {
      pass.steps = oct_min_i64(OCT_WINOGRAD_STRETCH, p->steps - pass.from);
      isa->expand(i, w + pass.from * 18 * width, pass.steps, width / isa->quantum, scratch, pass.size);
      oct_winograd_products(isa, p, groups, &pass, v, m, fetch);
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

/* Whether outputs may be made from multiples of the sums: static ones, bytes without a table or floats. A shift by 6 bits may go into the
 * multipliers where none becomes so small that it would be rounded; in profile tflite what is below 1/4 is shifted to the right by two bits
 * or more. */
static inline bool oct_winograd_takes_whole(const oct_epilogue_i8 *e, int64_t channel, int count) {
  const bool bytes = e->out == OCT_EPILOGUE_U8, fixed = bytes && e->profile == OCT_PROFILE_TFLITE;
  const float least = fixed ? -1.0f : 1e-30f, most = fixed ? 0.25f : INFINITY;
  bool plain = bytes ? !e->table : e->out == OCT_EPILOGUE_F32 && !e->row_scale;
  for (int i = 0; plain && i < count; i++) {
    const float m = fabsf(e->multiplier[channel + i]);
    plain = m > least && m < most;
  }
  return plain;
}

static inline void oct_winograd_outputs(const oct_conv_i8_args *a, const oct_winograd_isa *isa, const oct_winograd_plan *p,
                                        const oct_winograd_list *list, int64_t channel, int width, const int32_t *m) {
  const oct_epilogue_i8 *e = &a->epilogue;
  int count = (int)oct_min_i64(width, a->shape.out_channels - channel);
  int32_t bias[3][OCT_DIRECT_WIDTH] __attribute__((aligned(64))), acc[OCT_WINOGRAD_PIXELS * OCT_DIRECT_WIDTH] __attribute__((aligned(64)));
  /* 144 times the bias, less the factor of position 1 in each dimension: 1 in tiles of 4, 3 in tiles of 3; without F, -2 times as much. */
  const uint32_t unit = isa->expand ? 4 : 16;
  for (int i = 0; i < width; i++) {
    uint32_t b = e->bias && i < count ? (uint32_t)e->bias[channel + i] * unit : 0;
    bias[0][i] = (int32_t)b, bias[1][i] = (int32_t)(b * 3), bias[2][i] = (int32_t)(b * 9);
  }
  if (isa->whole && count == isa->widest && oct_winograd_takes_whole(e, channel, count)) {
    isa->whole(a, list, channel, m, p->result_position, (const int32_t(*)[OCT_DIRECT_WIDTH])bias);
    return;
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
  int16_t *scratch = (int16_t *)(void *)((char *)workspace + p.input_bytes + p.result_bytes);
  int64_t unit = (int64_t)begin;
  while (unit < (int64_t)end) {
    oct_winograd_list list;
    int64_t block = oct_quotient(unit, p.panels), after = oct_min_i64((block + 1) * p.panels, (int64_t)end);
    oct_winograd_list_of(&p, block, &list);
    oct_winograd_fetch fetch = oct_winograd_fetch_of(a, isa, &p, &list, (unit - block * p.panels) * isa->widest);
    oct_winograd_inputs(a, isa, &p, &list, v, &fetch, unit == (int64_t)begin);
    for (; unit < after; unit++) {
      int64_t channel = (unit - block * p.panels) * isa->widest;
      int width = oct_winograd_width(&a->shape, isa, channel);
      oct_winograd_panel(a, isa, &p, &list, channel, width, v, scratch, m, &fetch);
      oct_winograd_outputs(a, isa, &p, &list, channel, width, m);
    }
  }
}

#endif
