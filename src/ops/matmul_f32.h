/* Between matmul_f32.c and matmul_attention.c: float products of two activations.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_OPS_MATMUL_F32_H
#define OCT_OPS_MATMUL_F32_H

#include "ops/accumulate_parts.h"
#include "ops/matmul.h"

/* All matrices of a product; as the parameters of a step, too. */
typedef struct oct_matmul_product {
  oct_conv_f32_args args; /* of the first matrix */
  const oct_conv_f32_kernel *kernel;
  const int64_t *a_offsets, *y_offsets, *residual_offsets; /* by matrix of the result, in elements */
  oct_matmul_shape matmul;
  const char *packed;         /* all matrices of B */
  size_t packed_bytes, units; /* of one matrix */
} oct_matmul_product;

oct_accumulate_problem oct_matmul_problem(oct_node *node, const oct_matmul_shape *matmul);
/* Input 0 or 1 before the transposition that reading does. */
const oct_value *oct_matmul_read_value(const oct_accumulate *a, int input);
/* Adds the step that packs every matrix of B. */
octet_status oct_matmul_pack(oct_accumulate *a, const oct_conv_f32_kernel *kernel, oct_slot **packed, size_t *bytes);
/* Everything but the addresses. */
octet_status oct_matmul_product_make(oct_accumulate *a, const oct_matmul_shape *matmul, const oct_conv_f32_kernel *kernel,
                                     size_t packed_bytes, oct_matmul_product *product);
/* Moves a view on; without data yet (scores, whose place a block gives) it stays so. */
static inline void oct_matmul_advance(oct_view *view, int64_t floats) {
  if (view->data) view->data = (float *)view->data + floats;
}
oct_conv_f32_args oct_matmul_args(const oct_matmul_product *product, int64_t batch);

/* softmax(scores) times B in one step (matmul_attention.c). */
octet_status oct_matmul_lower_attention(oct_accumulate *a, const oct_matmul_shape *matmul, const oct_conv_f32_kernel *kernel,
                                        const char *reasons);

#endif
