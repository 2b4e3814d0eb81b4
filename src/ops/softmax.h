/* What the float and the 8-bit softmax share.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_OPS_SOFTMAX_H
#define OCT_OPS_SOFTMAX_H

#include "ops/op.h"

/* The tensor as [outer][n][inner], the middle one being the axis. */
typedef struct oct_softmax_view {
  int64_t outer, n, inner;
} oct_softmax_view;

/* One unit per row of n. */
static inline void oct_softmax_units(oct_step *step, const oct_softmax_view *v) {
  step->units = v->n > 0 ? (size_t)(v->outer * v->inner) : 0;
  step->grain = v->n > 0 && v->n < 1024 ? (size_t)(1024 / v->n) : 1;
}

/* Input and output are stored as 8-bit quantized values. */
octet_status oct_softmax_u8_lower(oct_lowering *l, oct_node *node, oct_softmax_view view, bool logarithm);

#endif
