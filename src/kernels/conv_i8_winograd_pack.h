/* Weights of exact Winograd convolution: transformed and packed, or packed as they are. The formulas are in conv_i8_winograd.h.
 * Packed: [panel][position][step][panel width][2] int16, or as they are [panel][step][9][panel width][2] int8; the last panel is as narrow
 * as the quantum allows.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_WINOGRAD_PACK_H
#define OCT_KERNELS_CONV_I8_WINOGRAD_PACK_H

#include "kernels/conv_i8_winograd.h"

static inline size_t oct_winograd_packed_bytes(const oct_conv_shape *s, const oct_winograd_isa *isa) {
  int64_t channels = (s->out_channels + isa->quantum - 1) / isa->quantum * isa->quantum;
  return (size_t)(channels * ((s->channels + 1) / 2) * 2) * (isa->expand ? 9 : OCT_WINOGRAD_POSITIONS * sizeof(int16_t));
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

static inline void oct_winograd_pack_plain(const oct_conv_shape *s, const oct_winograd_isa *isa, const int8_t *weights, void *packed) {
  int8_t *out = (int8_t *)packed;
  memset(out, 0, oct_winograd_packed_bytes(s, isa));
  for (int64_t o = 0; o < s->out_channels; o += isa->widest) {
    int width = oct_winograd_width(s, isa, o), count = (int)oct_min_i64(width, s->out_channels - o);
    for (int64_t step = 0; step < (s->channels + 1) / 2; step++, out += 18 * width)
      for (int i = 0; i < count; i++)
        for (int c = 0; c < 2 && 2 * step + c < s->channels; c++)
          for (int t = 0; t < 9; t++) out[(t * width + i) * 2 + c] = weights[((o + i) * s->channels + 2 * step + c) * 9 + t];
  }
}

static inline void oct_winograd_pack(const oct_conv_shape *s, const oct_winograd_isa *isa, const int8_t *weights, void *packed) {
  if (isa->expand) {
    oct_winograd_pack_plain(s, isa, weights, packed);
    return;
  }
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

#endif
