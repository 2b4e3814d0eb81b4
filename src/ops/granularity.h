/* Which scale an element belongs to: one for all, one per slice of an axis, or one per block of an axis (ONNX QuantizeLinear).
 * SPDX-License-Identifier: MIT */
#ifndef OCT_OPS_GRANULARITY_H
#define OCT_OPS_GRANULARITY_H

#include "ops/op.h"

typedef struct oct_granularity {
  bool single;           /* one scale */
  int64_t dim, inner;    /* size of the axis, elements behind it */
  int64_t block, blocks; /* elements of the axis that share a scale, and how many such; 0: per slice */
} oct_granularity;

/* Checks attributes axis and block_size and the shapes of scale and zero point (inputs 1 and 2) against input 0. */
octet_status oct_granularity_check(octet_context *ctx, const oct_node *node);
oct_granularity oct_granularity_make(const oct_node *node, const oct_shape *x, const oct_shape *scale);
/* Index of the scale of element i. */
static inline int64_t oct_granularity_index(const oct_granularity *g, int64_t i) {
  if (g->single) return 0;
  int64_t at = i / g->inner % g->dim;
  if (!g->block) return at;
  return (i / g->inner / g->dim * g->blocks + at / g->block) * g->inner + i % g->inner;
}

/* Scale and zero point of a per-tensor node as constants; false when they are not. */
bool oct_granularity_constant(const oct_node *node, float *scale, int32_t *zero_point);

/* Smallest and largest integer of an 8- or 16-bit type. */
bool oct_integer_range(oct_dtype dtype, int32_t *low, int32_t *high);
/* ONNX's number of an element type (attributes output_dtype, precision, to); NONE for a type that is not there. */
oct_dtype oct_dtype_of_onnx(int64_t number);

#endif
