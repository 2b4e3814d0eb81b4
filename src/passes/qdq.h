/* Constant parameters of quantize and dequantize nodes, for absorb_qdq.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_PASSES_QDQ_H
#define OCT_PASSES_QDQ_H

#include "passes/rewrite.h"

/* What is known of all quantize and dequantize nodes at the beginning of a sweep. */
typedef struct oct_qdq {
  oct_rewrite rw;
  oct_region region;
  size_t n_nodes;
  oct_quant **params; /* by node id; NULL: no such node, or parameters that are not constant, not valid, or in blocks */
} oct_qdq;

octet_status oct_qdq_begin(octet_context *ctx, oct_graph *graph, oct_qdq *q);
octet_status oct_qdq_end(oct_qdq *q, octet_status status, bool *changed);

/* Parameters of a node of the beginning that has this trait; else NULL. */
const oct_quant *oct_qdq_params(const oct_qdq *q, const oct_node *node, oct_trait trait);
/* Every use of `v` is input 0 of such a node with equal parameters, and v is no graph output. */
bool oct_qdq_all_uses(const oct_qdq *q, const oct_value *v, oct_trait trait, const oct_quant *params);
/* identity(x) that rounds with `params`. */
octet_status oct_qdq_rounded(oct_qdq *q, oct_value *x, const oct_quant *params, oct_value **out);
/* Makes the output of a dequantize node `carrier` (which carries `params`), behind an identity where it cannot be so by itself. */
octet_status oct_qdq_replace_output(oct_qdq *q, oct_node *dequantize, oct_value *carrier, const oct_quant *params);

#endif
