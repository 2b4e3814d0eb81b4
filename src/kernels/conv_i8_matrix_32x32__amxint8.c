/* 8-bit matrix product with AMX tiles (conv_i8_tiles__amxint8.h). Bytes are those of every other row: the sums are exact integers modulo
 * 2^32.
 * SPDX-License-Identifier: MIT */
#include "kernels/conv_i8_tiles__amxint8.h"

#define BLOCK 128         /* rows of one unit: a multiple of 32 */
#define CHUNK (768 << 10) /* bytes of rows that meet all weights before the next ones */

/* Where the work lies. */
typedef struct matrix_plan {
  int64_t rows, steps, panels, blocks, chunk; /* chunk: blocks */
} matrix_plan;

static matrix_plan plan_of(const oct_conv_shape *s) {
  matrix_plan p = {.rows = s->out_w, .steps = oct_amx_steps(s->channels), .panels = oct_amx_panels(s->out_channels)};
  p.blocks = (p.rows + BLOCK - 1) / BLOCK;
  p.chunk = oct_quotient(CHUNK, BLOCK * s->channels);
  if (p.chunk < 1) p.chunk = 1;
  if (p.chunk > p.blocks) p.chunk = p.blocks;
  return p;
}

static const char *reject(const oct_conv_shape *s) {
  bool taps = s->kernel_h == 1 && s->kernel_w == 1 && s->stride_h == 1 && s->stride_w == 1 && !s->pad_top && !s->pad_left && s->groups == 1;
  if (!taps || s->batch != 1 || s->in_h != 1 || s->out_h != 1 || s->in_w != s->out_w) return "only for matrix products";
  if (s->out_w < OCT_AMX_TILE) return "few rows are bound by memory: a dot product is as fast";
  return s->channels < 16 ? "too few products per output for tiles" : NULL;
}

static size_t packed_bytes(const oct_conv_shape *s) { return oct_amx_packed_bytes(s->out_channels, plan_of(s).steps); }

static void pack(const oct_conv_shape *s, const int8_t *weights, void *packed) {
  oct_amx_pack(s, plan_of(s).steps, s->channels, weights, packed);
}

static size_t units(const oct_conv_shape *s) {
  matrix_plan p = plan_of(s);
  return (size_t)(p.panels * p.blocks);
}

/* One panel over the rows [first, last). */
static void run_panel(const oct_conv_i8_args *a, const matrix_plan *p, int64_t panel, int64_t first, int64_t last) {
  int64_t channel = panel * OCT_AMX_PANEL, depth = p->steps == 1 ? a->shape.channels : OCT_AMX_DEPTH;
  int count = (int)oct_min_i64(OCT_AMX_PANEL, a->shape.out_channels - channel);
  int32_t bias[OCT_AMX_PANEL] __attribute__((aligned(64))) = {0};
  int32_t acc[OCT_AMX_PANEL * OCT_AMX_PANEL] __attribute__((aligned(64)));
  for (int i = 0; a->epilogue.bias && i < count; i++) bias[i] = a->epilogue.bias[channel + i];
  oct_amx_block b = {.pitch = a->in.pixel,
                     .runs = 1,
                     .steps = p->steps,
                     .weights = (const int8_t *)a->packed + panel * 2 * p->steps * OCT_AMX_TILE_BYTES,
                     .bias = bias,
                     .wide = count > OCT_AMX_TILE};
  oct_amx_fetch f = oct_amx_fetch_of(a->shape.out_channels, p->steps, b.weights, panel, (last - first + OCT_AMX_PANEL - 1) / OCT_AMX_PANEL);
  oct_direct_cursor cursor = oct_direct_cursor_at(a, first, 0, channel);
  oct_direct_rows rows;
  int64_t height = 0;
  for (int64_t row = first; row < last; row += OCT_AMX_PANEL) {
    int64_t take = oct_min_i64(OCT_AMX_PANEL, last - row);
    if (take != height) oct_amx_configure(height = take, depth);
    oct_direct_cursor_take(&cursor, (int)take, &rows);
    b.in[0] = rows.in[0];
    b.in[1] = rows.in[0] + OCT_AMX_TILE * b.pitch;
    b.high = take > OCT_AMX_TILE;
    oct_amx_multiply(&b, &f);
    oct_amx_store(&b, acc);
    oct_epilogue_i8_avx512(a, &rows, channel, count, acc, OCT_AMX_PANEL);
  }
}

/* Units are ordered by chunk, panel, block, as in conv_i8_direct.h. */
static void run(const oct_conv_i8_args *a, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  matrix_plan p = plan_of(&a->shape);
  int64_t unit = (int64_t)begin, stop = (int64_t)end;
  while (unit < stop) {
    int64_t chunk = oct_quotient(unit, p.chunk * p.panels), first = chunk * p.chunk, blocks = oct_min_i64(p.chunk, p.blocks - first);
    int64_t inside = unit - first * p.panels, panel = oct_quotient(inside, blocks), at = inside - panel * blocks;
    int64_t take = oct_min_i64(blocks - at, stop - unit), from = (first + at) * BLOCK;
    run_panel(a, &p, panel, from, oct_min_i64(from + take * BLOCK, p.rows));
    unit += take;
  }
  _tile_release();
}

const oct_conv_i8_kernel oct_conv_i8_matrix_32x32__amxint8 = {
    .name = "conv_i8_matrix_32x32__amxint8",
    .isa = OCT_ISA_AMX,
    .preference = 600,
    .reject = reject,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .units = units,
    .run = run,
};
