/* Constant folding: see fold.h.
 * SPDX-License-Identifier: MIT */
#include "ops/fold.h"

#define MAX_FOLDED_ELEMENTS ((int64_t)1 << 28)
#define MAX_OPERANDS 64

/* The quantized input that decides the node's treatment: none, one that moves along with the node, or one that forbids folding. */
typedef enum quantized_inputs { QUANTIZED_NONE, QUANTIZED_MOVES, QUANTIZED_BLOCKS } quantized_inputs;

static quantized_inputs classify_quantization(const oct_node *node) {
  for (int i = 0; i < node->n_inputs; i++) {
    const oct_value *v = node->inputs[i];
    if (!v || !v->quant) continue;
    bool moves = i == 0 && oct_node_has(node, OCT_TRAIT_MOVEMENT) && v->quant->axis < 0;
    if (!moves) return QUANTIZED_BLOCKS;
    return QUANTIZED_MOVES;
  }
  return QUANTIZED_NONE;
}

static bool foldable(const oct_node *node) {
  if (oct_node_has(node, OCT_TRAIT_NO_FOLD) || !node->op->reference || node->n_inputs > MAX_OPERANDS || node->n_outputs > MAX_OPERANDS)
    return false;
  for (int i = 0; i < node->n_outputs; i++) {
    const oct_value *v = node->outputs[i];
    if (!v) continue;
    int64_t count = v->has_shape ? oct_shape_count(&v->shape) : -1;
    if (v->quant || v->dtype == OCT_DTYPE_NONE || count < 0 || count > MAX_FOLDED_ELEMENTS) return false;
  }
  if (oct_node_has(node, OCT_TRAIT_SHAPE_ONLY)) return node->inputs[0]->has_shape && oct_shape_known(&node->inputs[0]->shape);
  for (int i = 0; i < node->n_inputs; i++)
    if (node->inputs[i] && !oct_constant_of(node->inputs[i])) return false;
  return classify_quantization(node) != QUANTIZED_BLOCKS;
}

static octet_status fold_node(octet_context *ctx, oct_graph *graph, oct_node *node) {
  const oct_tensor *in[MAX_OPERANDS] = {0};
  oct_tensor *out[MAX_OPERANDS] = {0};
  oct_tensor shape_only = {0};
  bool moves = classify_quantization(node) == QUANTIZED_MOVES;
  octet_status status = OCTET_OK;
  for (int i = 0; i < node->n_inputs; i++) in[i] = node->inputs[i] ? oct_constant_of(node->inputs[i]) : NULL;
  if (oct_node_has(node, OCT_TRAIT_SHAPE_ONLY) && !in[0]) {
    shape_only = (oct_tensor){.dtype = node->inputs[0]->dtype, .shape = node->inputs[0]->shape};
    in[0] = &shape_only;
  }
  for (int i = 0; i < node->n_outputs && status == OCTET_OK; i++) {
    oct_value *v = node->outputs[i];
    if (v) status = oct_tensor_create(ctx, moves && i == 0 ? in[0]->dtype : v->dtype, &v->shape, &out[i]);
  }
  if (status == OCTET_OK) status = node->op->reference(ctx, node, in, out);
  if (status == OCTET_OK && moves) status = oct_value_set_quant(ctx, graph, node->outputs[0], node->inputs[0]->quant);
  for (int i = 0; i < node->n_outputs; i++) {
    oct_value *v = node->outputs[i];
    if (status != OCTET_OK || !v) {
      oct_tensor_release(out[i]);
      continue;
    }
    v->kind = OCT_CONSTANT;
    v->tensor = out[i];
    v->producer = NULL;
    node->outputs[i] = NULL;
  }
  if (status != OCTET_OK) return oct_fail_prefix(ctx, "node \"%s\" (%s)", node->name, node->op->name);
  return OCTET_OK;
}

octet_status oct_fold_constants(octet_context *ctx, oct_graph *graph) { return oct_fold_constants_except(ctx, graph, NULL, NULL); }

octet_status oct_fold_constants_except(octet_context *ctx, oct_graph *graph, bool (*keep)(const oct_node *node, void *user), void *user) {
  OCT_TRY(oct_graph_compact(ctx, graph));
  for (size_t i = 0; i < graph->n_nodes; i++) {
    oct_node *node = graph->nodes[i];
    OCT_TRY(oct_node_infer(ctx, node));
    if (foldable(node) && !(keep && keep(node, user))) OCT_TRY(fold_node(ctx, graph, node)); /* left without outputs: pruned below */
  }
  return oct_graph_prune(ctx, graph);
}
