/* What convolution, gemm and matmul share when they are lowered: weights, folded bias, fused epilogue, and the choice between the integer,
 * the dynamically quantized and the float kernels.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_OPS_ACCUMULATE_H
#define OCT_OPS_ACCUMULATE_H

#include "ops/op.h"

typedef struct oct_accumulate_problem {
  oct_node *node;
  const oct_value *input, *weights, *bias; /* bias: one number per output channel (or one for all), or NULL */
  oct_conv_shape shape;
  int pad_bottom, pad_right;
  bool spatial;      /* input and output are images; else matrices, input [...,K] and output [...,N] */
  bool weights_by_k; /* matrix weights lie as [K][N], not [N][K] */
  float alpha, bias_factor; /* result = alpha * x*w + bias_factor * bias; bias_factor 0 stands for 1 */
} oct_accumulate_problem;

/* Adds the steps, or declines. */
octet_status oct_accumulate_lower(oct_lowering *l, const oct_accumulate_problem *problem);

/* Conv and ConvInteger share the shape rule. */
octet_status oct_conv_infer_shape(octet_context *ctx, oct_node *node, oct_dtype dtype);

#endif
