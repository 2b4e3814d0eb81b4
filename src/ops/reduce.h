/* Reductions over axes: shared by reduce.c (operators, references) and reduce_lower.c (kernels).
 * SPDX-License-Identifier: MIT */
#ifndef OCT_OPS_REDUCE_H
#define OCT_OPS_REDUCE_H

#include "ops/op.h"

typedef enum oct_reduction {
  OCT_REDUCE_SUM,
  OCT_REDUCE_MEAN,
  OCT_REDUCE_MAX,
  OCT_REDUCE_MIN,
  OCT_REDUCE_PROD,
  OCT_REDUCE_L1,
  OCT_REDUCE_L2,
  OCT_REDUCE_SUM_SQUARE,
  OCT_REDUCE_LOG_SUM,
  OCT_REDUCE_LOG_SUM_EXP
} oct_reduction;

/* Bit d is set when dim d is reduced. `axes` has n entries (n 0: none are given); false when one is out of range, which goes to *bad. */
bool oct_reduce_mask(const oct_node *node, const int64_t *axes, int n, int rank, unsigned *mask, int64_t *bad);
/* The axes when they are known ahead; false when they are computed at run time or wrong. */
bool oct_reduce_constant_mask(const oct_node *node, int rank, unsigned *mask);

/* reduce_mean, reduce_sum, reduce_max and reduce_min of floats over the last dims; the mean over the image also of 8-bit values. */
octet_status oct_reduce_lower(oct_lowering *l, oct_node *node, oct_reduction kind);

#endif
