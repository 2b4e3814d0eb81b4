/* Shapes of a matrix product with numpy's rules, shared by matmul and matmul_integer.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_OPS_MATMUL_H
#define OCT_OPS_MATMUL_H

#include "ops/op.h"

typedef struct oct_matmul_shape {
  int64_t m, k, n, batches;
  int rank; /* of the batch dims */
  int64_t batch[OCT_MAX_RANK];
  int64_t a_stride[OCT_MAX_RANK], b_stride[OCT_MAX_RANK]; /* in matrices; 0 where broadcast */
} oct_matmul_shape;

/* Output shape (known as far as the inputs are), or a failure. */
octet_status oct_matmul_infer_shape(octet_context *ctx, oct_node *node, oct_dtype dtype);
/* Sizes of known shapes that infer accepted. */
oct_matmul_shape oct_matmul_shape_make(const oct_shape *a, const oct_shape *b);
/* Matrix of A and of B that output matrix `batch` needs. */
void oct_matmul_batch(const oct_matmul_shape *shape, int64_t batch, int64_t *a, int64_t *b);

/* Float product with a B that is known only at run time (matmul_f32.c). */
octet_status oct_matmul_lower_f32(oct_lowering *l, oct_node *node);

#endif
