/* Lowering of conv_integer and matmul_integer to the 8-bit convolution kernels.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_OPS_INTEGER_LOWER_H
#define OCT_OPS_INTEGER_LOWER_H

#include "ops/op.h"

typedef struct oct_integer_problem {
  oct_node *node; /* inputs: x, weights, zero point of x, zero point of the weights */
  oct_conv_shape shape;
  int pad_bottom, pad_right;
  bool spatial;      /* images; else matrices */
  bool weights_by_k; /* weights lie as [K][N] */
} oct_integer_problem;

octet_status oct_integer_lower(oct_lowering *l, const oct_integer_problem *problem);

#endif
