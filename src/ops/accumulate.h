/* What convolution, gemm and matmul share when they are lowered: weights, folded bias, fused epilogue, and the choice between the integer,
 * the dynamically quantized and the float kernels.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_OPS_ACCUMULATE_H
#define OCT_OPS_ACCUMULATE_H

#include "ops/op.h"

/* One of several problems that make one node's result, each its own pixels of it (a phase of a transposed convolution). */
typedef struct oct_accumulate_part {
  const oct_tensor *source; /* packed weights are kept under this constant and `number` */
  int number;
  bool last, empty;             /* empty: all weights are zero, no input is read */
  int64_t y, x, step_y, step_x; /* output pixel (i,j) of the problem is pixel (y + i * step_y, x + j * step_x) of the node's */
  int64_t in_y, in_x;           /* input pixel (0,0) of the problem */
  int64_t border[4];            /* of the node's input: top, left, bottom, right */
  oct_slot **out;               /* where all parts write; the first one makes it */
  const oct_value *bias;        /* in place of the node's and the fused one, or NULL */
  oct_shape scratch;            /* rank > 0: the part writes scratch of this shape in the form of `result`, for a later step to move */
  oct_slot *result;
} oct_accumulate_part;

typedef struct oct_accumulate_problem {
  oct_node *node;
  const oct_value *input, *weights, *bias; /* bias: one number per output channel (or one for all), or NULL */
  oct_conv_shape shape;
  int pad_bottom, pad_right;
  bool spatial;              /* input and output are images; else matrices, input [...,K] and output [...,N] */
  bool weights_by_k;         /* matrix weights lie as [K][N], not [N][K] */
  oct_accumulate_part *part; /* NULL: the whole result; only with `spatial` and weights in the kernels' order */
  float alpha, bias_factor;  /* result = alpha * x*w + bias_factor * bias; bias_factor 0 stands for 1 */
} oct_accumulate_problem;

/* Adds the steps, or declines. */
octet_status oct_accumulate_lower(oct_lowering *l, const oct_accumulate_problem *problem);

/* Whether the 8-bit input and the int8 weights can be multiplied without an int32 accumulator overflowing. */
octet_status oct_accumulate_fits(oct_lowering *l, const oct_accumulate_problem *problem, bool *fits);

/* Conv and ConvInteger share the shape rule. */
octet_status oct_conv_infer_shape(octet_context *ctx, oct_node *node, oct_dtype dtype);

#endif
