/* What the pooling operators share: inference over a window, and lowering to the pooling kernels.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_OPS_POOL_H
#define OCT_OPS_POOL_H

#include "ops/window.h"

typedef enum oct_pool_kind { OCT_POOL_MAX, OCT_POOL_AVERAGE } oct_pool_kind;

/* The window of a pool with the attributes kernel_shape and ceil_mode. */
octet_status oct_pool_window(octet_context *ctx, const oct_node *node, const oct_shape *in, oct_window *window);
/* Output 0: [N,C,window outputs] in the input's dtype. */
octet_status oct_pool_infer(octet_context *ctx, oct_node *node);
/* The window that covers the whole image. */
void oct_pool_whole(const oct_shape *in, oct_window *window);

/* Value of output element (flat index) over its window; *best (or NULL) receives the input element of a maximum. */
double oct_pool_max_at(const oct_window *window, const oct_tensor *in, int64_t index, int64_t *best);
double oct_pool_average_at(const oct_window *window, const oct_tensor *in, int64_t index, bool include_pad);

octet_status oct_pool_lower(oct_lowering *l, oct_node *node, const oct_window *window, oct_pool_kind kind, bool include_pad);
/* `taps` elements of the window per output. */
oct_cost oct_pool_cost(const oct_node *node, double taps);
/* Product of the attribute kernel_shape. */
double oct_pool_kernel_taps(const oct_node *node);

#endif
