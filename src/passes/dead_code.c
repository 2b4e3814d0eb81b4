/* Nodes and constants that no output of the graph needs.
 * SPDX-License-Identifier: MIT */
#include "passes/pass.h"

static octet_status run(octet_context *ctx, oct_graph *graph, bool *changed) {
  size_t nodes = graph->n_nodes, values = graph->n_values;
  OCT_TRY(oct_graph_prune(ctx, graph));
  *changed |= graph->n_nodes != nodes || graph->n_values != values;
  return OCTET_OK;
}

const oct_pass oct_pass_dead_code = {
    .name = "dead_code",
    .summary = "nodes and constants that no output needs are dropped",
    .run = run,
};
