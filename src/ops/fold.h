/* Evaluating nodes whose inputs are constants, with the operators' references. Used by the folding pass and when a session binds shapes.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_OPS_FOLD_H
#define OCT_OPS_FOLD_H

#include "ir/op.h"

/* Infers every node in order and replaces those whose inputs are all constant (or whose output depends on a known shape only) by constants;
 * prunes afterwards. Results over 2^28 elements stay nodes. Quantized constants pass through movement operators as integers; other
 * operators do not fold over them. */
octet_status oct_fold_constants(octet_context *ctx, oct_graph *graph);
/* Same, but for nodes of which `keep` says true (they stay, and so does what depends on them). */
octet_status oct_fold_constants_except(octet_context *ctx, oct_graph *graph, bool (*keep)(const oct_node *node, void *user), void *user);

#endif
