/* Depthwise 8-bit convolution (groups == channels, any multiplier): what its SIMD variants share. Output channels are cut into
 * blocks; a block's input bytes at one tap are contiguous, so a pixel is a list of taps, padded with taps of zero weight.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_DEPTHWISE_H
#define OCT_KERNELS_CONV_I8_DEPTHWISE_H

#include "kernels/conv_i8_direct.h"

#define OCT_DEPTHWISE_TAPS 128  /* most taps */
#define OCT_DEPTHWISE_UNIT 64   /* output pixels of one unit */
#define OCT_DEPTHWISE_CHUNK 256 /* pixels that run through all channel blocks before the next ones */

static inline const char *oct_depthwise_reject(const oct_conv_shape *s) {
  if (s->groups != s->channels || s->groups == 1) return "not depthwise";
  if (s->kernel_h * s->kernel_w > OCT_DEPTHWISE_TAPS) return "made for at most 128 taps";
  return NULL;
}

static inline size_t oct_depthwise_units(const oct_conv_shape *s) {
  return (size_t)((s->batch * s->out_h * s->out_w + OCT_DEPTHWISE_UNIT - 1) / OCT_DEPTHWISE_UNIT);
}

/* Distances of the taps from a pixel's first; returns their number rounded up to a multiple of `multiple`. */
static inline int oct_depthwise_taps(const oct_conv_i8_args *a, int multiple, ptrdiff_t *offsets) {
  const oct_conv_shape *s = &a->shape;
  int count = 0;
  for (int i = 0; i < s->kernel_h; i++)
    for (int j = 0; j < s->kernel_w; j++)
      offsets[count++] = (ptrdiff_t)i * s->dilation_h * a->in.row + (ptrdiff_t)j * s->dilation_w * a->in.pixel;
  while (count % multiple) offsets[count++] = 0;
  return count;
}

static inline int oct_depthwise_padded_taps(const oct_conv_shape *s, int multiple) {
  return (s->kernel_h * s->kernel_w + multiple - 1) / multiple * multiple;
}

/* Which input byte each of a block's 16 output channels reads, counted from the block's first input channel. */
static inline void oct_depthwise_expand(int64_t first, int64_t multiplier, uint8_t index[16]) {
  int64_t input = first / multiplier, left = multiplier - (first - input * multiplier);
  for (int i = 0, at = 0; i < 16; i++) {
    index[i] = (uint8_t)at;
    if (--left == 0) at++, left = multiplier;
  }
}

/* One block, which begins at `channel`, over the output pixels [first, last). */
typedef void (*oct_depthwise_block_fn)(const oct_conv_i8_args *args, const ptrdiff_t *offsets, int taps, int64_t first, int64_t last,
                                       int64_t channel);

/* Units [begin, end): all blocks of `width` channels, chunk by chunk; taps are padded to a multiple of `multiple`. */
static inline void oct_depthwise_run(const oct_conv_i8_args *a, size_t begin, size_t end, int multiple, int width,
                                     oct_depthwise_block_fn block) {
  const oct_conv_shape *s = &a->shape;
  ptrdiff_t offsets[OCT_DEPTHWISE_TAPS + 4];
  int taps = oct_depthwise_taps(a, multiple, offsets);
  int64_t first = (int64_t)begin * OCT_DEPTHWISE_UNIT,
          last = oct_min_i64((int64_t)end * OCT_DEPTHWISE_UNIT, s->batch * s->out_h * s->out_w);
  for (; first < last; first += OCT_DEPTHWISE_CHUNK)
    for (int64_t c = 0; c < s->out_channels; c += width) block(a, offsets, taps, first, oct_min_i64(first + OCT_DEPTHWISE_CHUNK, last), c);
}

#endif
