/* Nodes that hand their input on: identity, dropout, a cast to the same type, a reshape (squeeze, flatten, ...) to the same shape.
 * An identity that carries quantization parameters its input has not stays, unless the input can carry them.
 * SPDX-License-Identifier: MIT */
#include "passes/rewrite.h"

/* Equal shapes, where at most one dim is unknown, in the same place: as the elements are as many, that dim is equal too. */
static bool same_shape(const oct_value *x, const oct_value *y) {
  int unknown = 0;
  if (!x->has_shape || !y->has_shape || x->shape.rank != y->shape.rank) return false;
  for (int d = 0; d < x->shape.rank; d++) {
    if (x->shape.dim[d] != y->shape.dim[d]) return false;
    if (x->shape.dim[d] == 0) return false;
    unknown += x->shape.dim[d] < 0;
  }
  return unknown <= 1;
}

static bool does_nothing(const oct_node *node) {
  const oct_value *x = node->inputs[0], *y = node->outputs[0];
  if (!x || !y || x->dtype != y->dtype) return false;
  if (oct_node_has(node, OCT_TRAIT_IDENTITY)) return true;
  if (oct_node_has(node, OCT_TRAIT_VIEW)) return same_shape(x, y);
  return strcmp(node->op->name, "cast") == 0 && x->dtype != OCT_DTYPE_NONE;
}

static bool more_outputs_used(const oct_rewrite *rw, const oct_node *node) {
  for (int i = 1; i < node->n_outputs; i++)
    if (node->outputs[i] && oct_use_count(&rw->uses, node->outputs[i]) > 0) return true;
  return false;
}

static octet_status drop(oct_rewrite *rw, oct_node *node) {
  if (node->n_inputs < 1 || node->n_outputs < 1 || !does_nothing(node) || more_outputs_used(rw, node)) return OCTET_OK;
  oct_value *x = oct_rewrite_now(rw, node->inputs[0]), *y = node->outputs[0];
  if (oct_use_count(&rw->uses, y) == 0 || !oct_rewrite_can_replace(rw, y, x)) return OCTET_OK;
  if (y->quant && !oct_quant_equal(y->quant, x->quant)) {
    bool can_carry = !x->quant && x->kind == OCT_INTERMEDIATE && oct_rewrite_only_user(rw, x) == node;
    if (!can_carry) return OCTET_OK;
    OCT_TRY(oct_value_set_quant(rw->ctx, rw->graph, x, y->quant));
  }
  return oct_rewrite_replace(rw, y, x);
}

static octet_status run(octet_context *ctx, oct_graph *graph, bool *changed) {
  oct_rewrite rw;
  OCT_TRY(oct_rewrite_begin(ctx, graph, &rw));
  octet_status status = OCTET_OK;
  for (size_t i = 0; i < graph->n_nodes && status == OCTET_OK; i++) status = drop(&rw, graph->nodes[i]);
  return oct_rewrite_end(&rw, status, changed);
}

const oct_pass oct_pass_identity_removal = {
    .name = "identity_removal",
    .summary = "identity, dropout, casts to the same type and reshapes to the same shape are dropped",
    .run = run,
};
