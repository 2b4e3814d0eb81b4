/* 8-bit convolution in narrow groups (several input channels each, fewer output channels than a vector): what its variants share.
 * Lanes are output channels of neighbouring groups. A step is one tap and four input channels of the group: each lane gathers the
 * four bytes of its own group. Packed weights of a block of 16 output channels are [tap][step][16 lanes][4].
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_GROUPS_H
#define OCT_KERNELS_CONV_I8_GROUPS_H

#include "kernels/conv_i8_depthwise.h"

#define OCT_GROUPS_BLOCK 16 /* output channels of a block */
#define OCT_GROUPS_STEPS 4  /* most steps of a tap: 16 input channels per group */

static inline int oct_groups_steps(const oct_conv_shape *s) { return (int)((oct_quotient(s->channels, s->groups) + 3) / 4); }

/* Input bytes of the `lanes` output channels from `channel` on, counted from `*first`. */
static inline int64_t oct_groups_span(const oct_conv_shape *s, int64_t channel, int lanes, int64_t *first) {
  int64_t in = oct_quotient(s->channels, s->groups), out = oct_quotient(s->out_channels, s->groups);
  int64_t low = oct_quotient(channel, out), high = oct_quotient(oct_min_i64(channel + lanes, s->out_channels) - 1, out);
  *first = low * in;
  return (high - low + 1) * in;
}

/* The widest span of any `lanes` channels. */
static inline int64_t oct_groups_widest(const oct_conv_shape *s, int lanes) {
  int64_t widest = 0, first;
  for (int64_t c = 0; c < s->out_channels; c += lanes) {
    int64_t span = oct_groups_span(s, c, lanes, &first);
    if (span > widest) widest = span;
  }
  return widest;
}

static inline const char *oct_groups_reject(const oct_conv_shape *s) {
  if (s->groups == 1 || s->groups == s->channels) return "not in groups of several channels";
  if (s->out_channels > 12 * (int64_t)s->groups) return "made for at most 12 output channels per group";
  if (s->channels > 4 * OCT_GROUPS_STEPS * (int64_t)s->groups) return "made for at most 16 input channels per group";
  if (s->kernel_h * s->kernel_w > OCT_DEPTHWISE_TAPS) return "made for at most 128 taps";
  return NULL;
}

static inline size_t oct_groups_weights(const oct_conv_shape *s) {
  return (size_t)((s->out_channels + OCT_GROUPS_BLOCK - 1) / OCT_GROUPS_BLOCK) * (size_t)s->kernel_h * (size_t)s->kernel_w *
         (size_t)oct_groups_steps(s) * OCT_GROUPS_BLOCK * 4;
}

/* Calls put(packed, index of the step over all blocks and taps, lane, byte, weight) for every weight. */
typedef void (*oct_groups_put_fn)(int8_t *packed, size_t step, int lane, int byte, int8_t weight);
static inline void oct_groups_pack(const oct_conv_shape *s, const int8_t *weights, int8_t *packed, oct_groups_put_fn put) {
  int64_t in = oct_quotient(s->channels, s->groups), taps = (int64_t)s->kernel_h * s->kernel_w, steps = oct_groups_steps(s);
  for (int64_t o = 0; o < s->out_channels; o++)
    for (int64_t c = 0; c < in; c++)
      for (int64_t t = 0; t < taps; t++)
        put(packed, (size_t)((o / OCT_GROUPS_BLOCK * taps + t) * steps + c / 4), (int)(o % OCT_GROUPS_BLOCK), (int)(c % 4),
            weights[(o * in + c) * taps + t]);
}

/* index[4 * lane + b]: where the lanes from `channel` on find byte b of a step, counted from their first input byte; 0 behind the group's end. */
static inline void oct_groups_index(const oct_conv_shape *s, int64_t channel, int lanes, int step, uint8_t *index) {
  int64_t in = oct_quotient(s->channels, s->groups), out = oct_quotient(s->out_channels, s->groups), first;
  oct_groups_span(s, channel, lanes, &first);
  for (int i = 0; i < 4 * lanes; i++) {
    int64_t o = oct_min_i64(channel + i / 4, s->out_channels - 1), c = 4 * step + i % 4;
    index[i] = (uint8_t)(c < in ? oct_quotient(o, out) * in - first + c : 0);
  }
}

#endif
