/* What convolutions and matrix products with AMX tiles share: blocks of 32 rows x 32 channels, four accumulating tiles of 16 x 16, 64
 * products deep per step; weights as the instruction reads them, and the fetching of those to come.
 *
 * Packed weights: [panel of 32 channels][step of 64 inputs][tile of 16 channels][4 inputs: 16][channel][4], the last panel having one
 * tile where that is enough. Inputs are padded with zero weights, so that bytes read past a row's end do not matter.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_TILES_AMXINT8_H
#define OCT_KERNELS_CONV_I8_TILES_AMXINT8_H

#include "kernels/epilogue_i8__avx512.h"

#define OCT_AMX_TILE 16
#define OCT_AMX_PANEL 32
#define OCT_AMX_DEPTH 64
#define OCT_AMX_TILE_BYTES 1024

static inline int64_t oct_amx_steps(int64_t inputs) { return (inputs + OCT_AMX_DEPTH - 1) / OCT_AMX_DEPTH; }
static inline int64_t oct_amx_panels(int64_t channels) { return (channels + OCT_AMX_PANEL - 1) / OCT_AMX_PANEL; }

/* Tiles of 16 channels of a panel. */
static inline int64_t oct_amx_wide(int64_t channels, int64_t panel) { return channels - panel * OCT_AMX_PANEL > OCT_AMX_TILE ? 2 : 1; }

static inline size_t oct_amx_packed_bytes(int64_t channels, int64_t steps) {
  int64_t panels = oct_amx_panels(channels);
  return (size_t)(((panels - 1) * 2 + oct_amx_wide(channels, panels - 1)) * steps) * OCT_AMX_TILE_BYTES;
}

/* Where the weight of a channel (of `channels`) and an input lies. */
static inline int64_t oct_amx_place(int64_t channels, int64_t steps, int64_t channel, int64_t input) {
  int64_t panel = channel / OCT_AMX_PANEL, tile = channel % OCT_AMX_PANEL / OCT_AMX_TILE, wide = oct_amx_wide(channels, panel);
  return (panel * 2 * steps + input / OCT_AMX_DEPTH * wide + tile) * OCT_AMX_TILE_BYTES + input % OCT_AMX_DEPTH / 4 * OCT_AMX_DEPTH +
         channel % OCT_AMX_TILE * 4 + input % 4;
}

/* The weights of `n` inputs from `input` on, both multiples of 4, for the output channel whose input 0 is at `out`. */
static inline void oct_amx_pack_row(int64_t wide, int64_t input, int64_t n, const int8_t *row, int8_t *out) {
  out += input / OCT_AMX_DEPTH * wide * OCT_AMX_TILE_BYTES + input % OCT_AMX_DEPTH / 4 * OCT_AMX_DEPTH;
  for (int64_t k = 0; k < n; k += 4, out += OCT_AMX_DEPTH) {
    memcpy(out, row + k, 4);
    if ((input + k + 4) % OCT_AMX_DEPTH == 0) out += (wide - 1) * OCT_AMX_TILE_BYTES;
  }
}

/* Packs the weights of a kernel whose rows begin `row` inputs apart. */
static inline void oct_amx_pack(const oct_conv_shape *s, int64_t steps, int64_t row, const int8_t *weights, void *packed) {
  const int64_t taps = (int64_t)s->kernel_h * s->kernel_w, depth = s->channels;
  const bool quads = depth % 4 == 0 && row % 4 == 0;
  int8_t rows[OCT_PACK_TAPS][OCT_PACK_IN], *out = (int8_t *)packed;
  memset(packed, 0, oct_amx_packed_bytes(s->out_channels, steps));
  for (int64_t first = 0; first < s->out_channels; first += OCT_PACK_OUT)
    for (int64_t from = 0; from < depth; from += OCT_PACK_IN)
      for (int64_t o = first; o < oct_min_i64(s->out_channels, first + OCT_PACK_OUT); o++) {
        const int64_t wide = oct_amx_wide(s->out_channels, o / OCT_AMX_PANEL), n = oct_min_i64(OCT_PACK_IN, depth - from);
        const int8_t *w = weights + (o * depth + from) * taps;
        for (int64_t t = 0; t < taps; t++) {
          const int64_t input = t / s->kernel_w * row + t % s->kernel_w * depth + from;
          if (quads) oct_amx_pack_row(wide, input, n, oct_pack_row(w, n, taps, t, rows), out + oct_amx_place(s->out_channels, steps, o, 0));
          for (int64_t c = 0; !quads && c < n; c++) out[oct_amx_place(s->out_channels, steps, o, input + c)] = w[c * taps + t];
        }
      }
}

/* The layout that the instruction reads. */
typedef struct oct_amx_config {
  uint8_t palette, start, reserved[14];
  uint16_t bytes[16];
  uint8_t rows[16];
} oct_amx_config;

/* Tiles 0 to 3: sums of rows (0-15, 0-15, 16-31, 16-31) x channels (0-15, 16-31, ...); 4, 5: rows; 6, 7: weights. `depth`: inputs of a
 * step that matter, at most 64; fewer are faster. */
static inline void oct_amx_configure(int64_t rows, int64_t depth) {
  oct_amx_config c = {.palette = 1};
  int upper = rows > OCT_AMX_TILE ? (int)rows - OCT_AMX_TILE : OCT_AMX_TILE, lower = rows > OCT_AMX_TILE ? OCT_AMX_TILE : (int)rows;
  for (int i = 0; i < 8; i++) c.bytes[i] = OCT_AMX_DEPTH, c.rows[i] = OCT_AMX_TILE;
  c.rows[0] = c.rows[1] = c.rows[4] = (uint8_t)lower;
  c.rows[2] = c.rows[3] = c.rows[5] = (uint8_t)upper;
  depth = (depth + 3) / 4;
  c.bytes[4] = c.bytes[5] = (uint16_t)(depth * 4);
  c.rows[6] = c.rows[7] = (uint8_t)depth;
  _tile_loadconfig(&c);
}

/* Weights to be fetched, a few lines with each step: those of a network come from far away each time. */
typedef struct oct_amx_fetch {
  const char *next, *end;
  int64_t lines;
} oct_amx_fetch;

/* The lines of the panel after this one, spread over the steps of a few of its blocks. */
static inline oct_amx_fetch oct_amx_fetch_of(int64_t channels, int64_t steps, const int8_t *weights, int64_t panel, int64_t blocks) {
  if (panel + 1 >= oct_amx_panels(channels)) return (oct_amx_fetch){0};
  int64_t following = oct_amx_wide(channels, panel + 1) * steps * OCT_AMX_TILE_BYTES, spread = oct_min_i64(blocks, 4) * steps;
  const char *next = (const char *)weights + 2 * steps * OCT_AMX_TILE_BYTES;
  return (oct_amx_fetch){next, next + following, (following / 64 + spread - 1) / spread};
}

/* Two tiles of rows, whose bytes are runs of steps at fixed distances. */
typedef struct oct_amx_block {
  const uint8_t *in[2];
  ptrdiff_t pitch;     /* bytes between rows */
  int64_t runs, steps; /* steps: of one run */
  ptrdiff_t run;       /* bytes between runs */
  const int8_t *weights;
  const int32_t *bias; /* of 32 channels */
  bool high, wide;     /* more than 16 rows, more than 16 channels */
} oct_amx_block;

/* Sums are left in tiles 0 to 3. `high` and `wide` are constant wherever this is inlined. */
static inline __attribute__((always_inline)) void oct_amx_products(const oct_amx_block *b, oct_amx_fetch *f, const bool high,
                                                                   const bool wide) {
  const int8_t *w = b->weights;
  const ptrdiff_t pitch = b->pitch;
  const char *next = f->next, *const end = f->end;
  const int64_t lines = f->lines, steps = b->steps, runs = b->runs;
  _tile_loadd(0, b->bias, 0);
  if (wide) _tile_loadd(1, b->bias + OCT_AMX_TILE, 0);
  if (high) _tile_loadd(2, b->bias, 0);
  if (high && wide) _tile_loadd(3, b->bias + OCT_AMX_TILE, 0);
  for (int64_t i = 0; i < runs; i++) {
    const uint8_t *in0 = b->in[0] + i * b->run, *in1 = high ? b->in[1] + i * b->run : in0;
    for (int64_t k = 0; k < steps; k++, in0 += OCT_AMX_DEPTH, in1 += OCT_AMX_DEPTH) {
      _tile_loadd(4, in0, pitch);
      _tile_loadd(6, w, OCT_AMX_DEPTH);
      if (high) _tile_loadd(5, in1, pitch);
      if (wide) _tile_loadd(7, w + OCT_AMX_TILE_BYTES, OCT_AMX_DEPTH);
      _tile_dpbusd(0, 4, 6);
      if (high) _tile_dpbusd(2, 5, 6);
      if (wide) _tile_dpbusd(1, 4, 7);
      if (high && wide) _tile_dpbusd(3, 5, 7);
      for (int64_t l = 0; l < lines && next < end; l++, next += 64) _mm_prefetch(next, _MM_HINT_T1);
      w += wide ? 2 * OCT_AMX_TILE_BYTES : OCT_AMX_TILE_BYTES;
    }
  }
  f->next = next;
}

static inline void oct_amx_multiply(const oct_amx_block *b, oct_amx_fetch *f) {
  if (b->high && b->wide) oct_amx_products(b, f, true, true);
  else if (b->high) oct_amx_products(b, f, true, false);
  else if (b->wide) oct_amx_products(b, f, false, true);
  else oct_amx_products(b, f, false, false);
}

/* acc[32][32], aligned. */
static inline void oct_amx_store(const oct_amx_block *b, int32_t *acc) {
  _tile_stored(0, acc, OCT_AMX_PANEL * 4);
  if (b->wide) _tile_stored(1, acc + OCT_AMX_TILE, OCT_AMX_PANEL * 4);
  if (b->high) _tile_stored(2, acc + OCT_AMX_TILE * OCT_AMX_PANEL, OCT_AMX_PANEL * 4);
  if (b->high && b->wide) _tile_stored(3, acc + OCT_AMX_TILE * OCT_AMX_PANEL + OCT_AMX_TILE, OCT_AMX_PANEL * 4);
}

#endif
