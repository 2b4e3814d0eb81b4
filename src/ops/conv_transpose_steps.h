/* What the two ways to lower a transposed convolution share: one convolution per phase (conv_transpose_lower.c), or one for all
 * phases (conv_transpose_merge.c).
 * SPDX-License-Identifier: MIT */
#ifndef OCT_OPS_CONV_TRANSPOSE_STEPS_H
#define OCT_OPS_CONV_TRANSPOSE_STEPS_H

#include "ops/accumulate_parts.h"
#include "ops/conv_transpose.h"

typedef struct oct_transpose_phases {
  oct_lowering *l;
  oct_node *node;
  oct_window window;
  const oct_value *weights;
  const float *floats; /* the weights as floats, or NULL: int8 */
  int64_t group_in, group_out, out_channels;
  oct_quant quant; /* of the int8 weights: one, or one per output channel of all groups */
} oct_transpose_phases;

/* The convolution of two phases, one per image axis. */
oct_conv_shape oct_transpose_shape(const oct_transpose_phases *s, const oct_transpose_phase *v, const oct_transpose_phase *h);

/* Few output channels: *done, and all phases are one convolution. `border`: of the input, top, left, bottom, right. */
octet_status oct_transpose_merge(const oct_transpose_phases *s, const int64_t border[4], bool *done);

#endif
