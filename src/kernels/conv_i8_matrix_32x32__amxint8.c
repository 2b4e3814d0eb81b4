/* 8-bit matrix product with AMX tiles: blocks of 32 rows x 32 channels, four accumulating tiles of 16 x 16, 64 products deep per step.
 * Bytes are those of every other row: the sums are exact integers modulo 2^32.
 *
 * Packed weights: [panel of 32 channels][64 inputs][tile of 16 channels][4 inputs: 16][channel][4], the last panel having one tile
 * where that is enough; inputs are padded with zero weights, so that the bytes read past a row's end do not matter. Weights of a
 * network come from far away each time: while a panel is used the next one is fetched.
 * SPDX-License-Identifier: MIT */
#include "kernels/epilogue_i8__avx512.h"

#define TILE 16
#define PANEL 32
#define DEPTH 64
#define TILE_BYTES 1024
#define BLOCK 128         /* rows of one unit: a multiple of 32 */
#define CHUNK (768 << 10) /* bytes of rows that meet all weights before the next ones */

/* Where the work lies. */
typedef struct matrix_plan {
  int64_t rows, steps, panels, blocks, chunk; /* chunk: blocks */
} matrix_plan;

static matrix_plan plan_of(const oct_conv_shape *s) {
  matrix_plan p = {.rows = s->out_w, .steps = (s->channels + DEPTH - 1) / DEPTH, .panels = (s->out_channels + PANEL - 1) / PANEL};
  p.blocks = (p.rows + BLOCK - 1) / BLOCK;
  p.chunk = oct_quotient(CHUNK, BLOCK * s->channels);
  if (p.chunk < 1) p.chunk = 1;
  if (p.chunk > p.blocks) p.chunk = p.blocks;
  return p;
}

static const char *reject(const oct_conv_shape *s) {
  bool taps = s->kernel_h == 1 && s->kernel_w == 1 && s->stride_h == 1 && s->stride_w == 1 && !s->pad_top && !s->pad_left && s->groups == 1;
  if (!taps || s->batch != 1 || s->in_h != 1 || s->out_h != 1 || s->in_w != s->out_w) return "only for matrix products";
  if (s->out_w < TILE) return "few rows are bound by memory: a dot product is as fast";
  return s->channels < 16 ? "too few products per output for tiles" : NULL;
}

static int64_t tiles_of(const oct_conv_shape *s, int64_t panel) { return s->out_channels - panel * PANEL > TILE ? 2 : 1; }

static size_t packed_bytes(const oct_conv_shape *s) {
  matrix_plan p = plan_of(s);
  return (size_t)(((p.panels - 1) * 2 + tiles_of(s, p.panels - 1)) * p.steps) * TILE_BYTES;
}

static void pack(const oct_conv_shape *s, const int8_t *weights, void *packed) {
  matrix_plan p = plan_of(s);
  memset(packed, 0, packed_bytes(s));
  for (int64_t c = 0; c < s->out_channels; c++) {
    int64_t panel = c / PANEL, tiles = tiles_of(s, panel), tile = c % PANEL / TILE;
    int8_t *out = (int8_t *)packed + (panel * 2 * p.steps + tile) * TILE_BYTES + c % TILE * 4;
    for (int64_t k = 0; k < s->channels; k++)
      out[k / DEPTH * tiles * TILE_BYTES + k % DEPTH / 4 * DEPTH + k % 4] = weights[c * s->channels + k];
  }
}

static size_t units(const oct_conv_shape *s) {
  matrix_plan p = plan_of(s);
  return (size_t)(p.panels * p.blocks);
}

/* The layout that the instruction reads. */
typedef struct tile_config {
  uint8_t palette, start, reserved[14];
  uint16_t bytes[16];
  uint8_t rows[16];
} tile_config;

/* Tiles 0 to 3: sums of rows (0-15, 0-15, 16-31, 16-31) x channels (0-15, 16-31, ...); 4, 5: rows; 6, 7: weights. */
static void configure(int64_t rows) {
  tile_config c = {.palette = 1};
  int upper = rows > TILE ? (int)rows - TILE : TILE, lower = rows > TILE ? TILE : (int)rows;
  for (int i = 0; i < 8; i++) c.bytes[i] = DEPTH, c.rows[i] = TILE;
  c.rows[0] = c.rows[1] = c.rows[4] = (uint8_t)lower;
  c.rows[2] = c.rows[3] = c.rows[5] = (uint8_t)upper;
  _tile_loadconfig(&c);
}

/* Weights to be fetched, a few lines with each step. */
typedef struct fetch {
  const char *next, *end;
  int64_t lines;
} fetch;

typedef struct block {
  const uint8_t *in;
  ptrdiff_t pitch; /* bytes between rows */
  const int8_t *weights;
  int64_t steps;
  const int32_t *bias; /* of 32 channels */
  int32_t *acc;        /* [32][32] */
} block;

/* `high` and `wide`: more than 16 rows, more than 16 channels; constant wherever this is inlined. */
static inline __attribute__((always_inline)) void multiply(const block *b, fetch *f, const bool high, const bool wide) {
  const uint8_t *in = b->in;
  const int8_t *w = b->weights;
  _tile_loadd(0, b->bias, 0);
  if (wide) _tile_loadd(1, b->bias + TILE, 0);
  if (high) _tile_loadd(2, b->bias, 0);
  if (high && wide) _tile_loadd(3, b->bias + TILE, 0);
  for (int64_t k = 0; k < b->steps; k++, in += DEPTH, w += wide ? 2 * TILE_BYTES : TILE_BYTES) {
    _tile_loadd(4, in, b->pitch);
    _tile_loadd(6, w, DEPTH);
    if (high) _tile_loadd(5, in + TILE * b->pitch, b->pitch);
    if (wide) _tile_loadd(7, w + TILE_BYTES, DEPTH);
    _tile_dpbusd(0, 4, 6);
    if (high) _tile_dpbusd(2, 5, 6);
    if (wide) _tile_dpbusd(1, 4, 7);
    if (high && wide) _tile_dpbusd(3, 5, 7);
    for (int64_t i = 0; i < f->lines && f->next < f->end; i++, f->next += 64) _mm_prefetch(f->next, _MM_HINT_T1);
  }
  _tile_stored(0, b->acc, PANEL * 4);
  if (wide) _tile_stored(1, b->acc + TILE, PANEL * 4);
  if (high) _tile_stored(2, b->acc + TILE * PANEL, PANEL * 4);
  if (high && wide) _tile_stored(3, b->acc + TILE * PANEL + TILE, PANEL * 4);
}

static void multiply_block(const block *b, fetch *f, bool high, bool wide) {
  if (high && wide) multiply(b, f, true, true);
  else if (high) multiply(b, f, true, false);
  else if (wide) multiply(b, f, false, true);
  else multiply(b, f, false, false);
}

/* The lines of the panel after this one, spread over the steps of a few blocks. */
static fetch fetch_of(const oct_conv_shape *s, const matrix_plan *p, const int8_t *weights, int64_t panel, int64_t blocks) {
  if (panel + 1 == p->panels) return (fetch){0};
  int64_t following = tiles_of(s, panel + 1) * p->steps * TILE_BYTES, spread = oct_min_i64(blocks, 4) * p->steps;
  const char *next = (const char *)weights + 2 * p->steps * TILE_BYTES;
  return (fetch){next, next + following, (following / 64 + spread - 1) / spread};
}

/* One panel over the rows [first, last). */
static void run_panel(const oct_conv_i8_args *a, const matrix_plan *p, int64_t panel, int64_t first, int64_t last) {
  int64_t channel = panel * PANEL;
  int count = (int)oct_min_i64(PANEL, a->shape.out_channels - channel);
  int32_t bias[PANEL] __attribute__((aligned(64))) = {0};
  int32_t acc[PANEL * PANEL] __attribute__((aligned(64)));
  for (int i = 0; a->epilogue.bias && i < count; i++) bias[i] = a->epilogue.bias[channel + i];
  block b = {.pitch = a->in.pixel,
             .weights = (const int8_t *)a->packed + panel * 2 * p->steps * TILE_BYTES,
             .steps = p->steps,
             .bias = bias,
             .acc = acc};
  fetch f = fetch_of(&a->shape, p, b.weights, panel, (last - first + PANEL - 1) / PANEL);
  oct_direct_cursor cursor = oct_direct_cursor_at(a, first, 0, channel);
  oct_direct_rows rows;
  int64_t height = 0;
  for (int64_t row = first; row < last; row += PANEL) {
    int64_t take = oct_min_i64(PANEL, last - row);
    if (take != height) configure(height = take);
    oct_direct_cursor_take(&cursor, (int)take, &rows);
    b.in = rows.in[0];
    multiply_block(&b, &f, take > TILE, count > TILE);
    oct_epilogue_i8_avx512(a, &rows, channel, count, acc, PANEL);
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
