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

#define OCT_WINOGRAD_WEIGHTS (2 * OCT_DIRECT_WIDTH) /* of a step: pairs of channels of a panel's output channels */

/* One dimension of F G, for all weights of a step at once: three become six, scaled by F. `stride`: from one of the three to the next. */
static inline void oct_winograd_weights(const int16_t *g, ptrdiff_t stride, int16_t *const w[6]) {
  for (int i = 0; i < OCT_WINOGRAD_WEIGHTS; i++) {
    const int first = g[i], middle = g[stride + i], last = g[2 * stride + i], even = first + last, wide = first + 4 * last;
    w[0][i] = (int16_t)(6 * first);
    w[1][i] = (int16_t)(-2 * (even + middle));
    w[2][i] = (int16_t)(-2 * (even - middle));
    w[3][i] = (int16_t)(wide + 2 * middle);
    w[4][i] = (int16_t)(wide - 2 * middle);
    w[5][i] = (int16_t)(12 * last);
  }
}

/* g[9] become u[36]; within a dimension they are as in the kernel, that is by rows. */
static inline void oct_winograd_weights_3x3(int16_t g[9][OCT_WINOGRAD_WEIGHTS], int16_t u[OCT_WINOGRAD_POSITIONS][OCT_WINOGRAD_WEIGHTS]) {
  int16_t columns[6][3][OCT_WINOGRAD_WEIGHTS];
  for (int j = 0; j < 3; j++) {
    int16_t *const to[6] = {columns[0][j], columns[1][j], columns[2][j], columns[3][j], columns[4][j], columns[5][j]};
    oct_winograd_weights(g[j], 3 * OCT_WINOGRAD_WEIGHTS, to);
  }
  for (int i = 0; i < 6; i++) {
    int16_t *const to[6] = {u[6 * i], u[6 * i + 1], u[6 * i + 2], u[6 * i + 3], u[6 * i + 4], u[6 * i + 5]};
    oct_winograd_weights(columns[i][0], OCT_WINOGRAD_WEIGHTS, to);
  }
}

static inline void oct_winograd_pack_plain(const oct_conv_shape *s, const oct_winograd_isa *isa, const int8_t *weights, void *packed) {
  const bool pairs = oct_winograd_pairs(s, isa);
  int8_t *out = (int8_t *)packed;
  memset(out, 0, oct_winograd_packed_bytes(s, isa));
  for (int64_t o = 0; o < s->out_channels; o += isa->widest) {
    int width = oct_winograd_width(s, isa, o), count = (int)oct_min_i64(width, s->out_channels - o);
    for (int64_t step = 0; step < (s->channels + 1) / 2; step++, out += 18 * width)
      for (int i = 0; i < count; i++)
        for (int c = 0; c < 2 && 2 * step + c < s->channels; c++)
          for (int t = 0; t < 9; t++)
            out[(t * width + i) * 2 + c] = weights[((o + i) * s->channels + oct_winograd_channel(pairs, 2 * step + c)) * 9 + t];
  }
}

static inline void oct_winograd_pack(const oct_conv_shape *s, const oct_winograd_isa *isa, const int8_t *weights, void *packed) {
  if (isa->expand) {
    oct_winograd_pack_plain(s, isa, weights, packed);
    return;
  }
  const bool pairs = oct_winograd_pairs(s, isa);
  int64_t steps = (s->channels + 1) / 2;
  int16_t *out = (int16_t *)packed;
  for (int64_t o = 0; o < s->out_channels; o += isa->widest) {
    int width = oct_winograd_width(s, isa, o), count = (int)oct_min_i64(width, s->out_channels - o);
    for (int64_t step = 0; step < steps; step++) {
      int16_t g[9][OCT_WINOGRAD_WEIGHTS] = {{0}}, u[OCT_WINOGRAD_POSITIONS][OCT_WINOGRAD_WEIGHTS];
      for (int i = 0; i < count; i++)
        for (int c = 0; c < 2 && 2 * step + c < s->channels; c++)
          for (int t = 0; t < 9; t++)
            g[t][2 * i + c] = weights[((o + i) * s->channels + oct_winograd_channel(pairs, 2 * step + c)) * 9 + t];
      oct_winograd_weights_3x3(g, u);
      for (int p = 0; p < OCT_WINOGRAD_POSITIONS; p++)
        memcpy(out + (p * steps + step) * 2 * width, u[p], (size_t)width * 2 * sizeof(int16_t));
    }
    out += OCT_WINOGRAD_POSITIONS * steps * 2 * width;
  }
}

#endif
