/* Nodes whose inputs are constants, evaluated now. Left alone: dequantize (absorb_qdq makes quantized constants of them), and casts of
 * float16 constants that weights are taken from (so that export keeps float16; a session folds them in its own copy).
 * SPDX-License-Identifier: MIT */
#include "ops/fold.h"
#include "passes/pass.h"

/* Every use is a weight or bias of an accumulating operator. */
static bool only_weights(const oct_uses *uses, const oct_value *v) {
  for (int i = uses->first[v->id]; i < uses->first[v->id + 1]; i++)
    if (!oct_node_has(uses->uses[i].node, OCT_TRAIT_ACCUMULATES) || uses->uses[i].index == 0) return false;
  return oct_use_count(uses, v) > 0;
}

static bool keep(const oct_node *node, void *user) {
  if (oct_node_has(node, OCT_TRAIT_DEQUANTIZE)) return true;
  if (strcmp(node->op->name, "cast") != 0) return false;
  const oct_tensor *tensor = oct_constant_of(node->inputs[0]);
  bool half = tensor && (tensor->dtype == OCT_F16 || tensor->dtype == OCT_BF16) && node->outputs[0]->dtype == OCT_F32;
  return half && only_weights(user, node->outputs[0]);
}

static octet_status run(octet_context *ctx, oct_graph *graph, bool *changed) {
  oct_uses uses;
  OCT_TRY(oct_graph_uses(ctx, graph, &uses));
  size_t nodes = graph->n_nodes;
  octet_status status = oct_fold_constants_except(ctx, graph, keep, &uses);
  oct_uses_free(&uses);
  *changed |= graph->n_nodes != nodes;
  return status;
}

const oct_pass oct_pass_constant_folding = {
    .name = "constant_folding",
    .summary = "nodes whose inputs are constants are evaluated",
    .run = run,
};
