/* Nodes with the same operator, attributes and inputs are computed once. Inputs of commutative operators compare in any order; small
 * constants compare by content. Constants themselves are not merged: their names are the user's.
 * SPDX-License-Identifier: MIT */
#include "passes/rewrite.h"

#define SMALL_CONSTANT 256 /* bytes */

static uint64_t mix(uint64_t hash, const void *bytes, size_t count) { /* FNV-1a */
  for (size_t i = 0; i < count; i++) hash = (hash ^ ((const uint8_t *)bytes)[i]) * 1099511628211u;
  return hash;
}

static bool is_small(const oct_value *v) { return v->kind == OCT_CONSTANT && v->tensor->bytes <= SMALL_CONSTANT; }

static bool same_value(const oct_value *a, const oct_value *b) {
  if (a == b) return true;
  if (!a || !b || !is_small(a) || !is_small(b) || a->tensor->dtype != b->tensor->dtype || !oct_shape_equal(&a->shape, &b->shape))
    return false;
  return oct_quant_equal(a->quant, b->quant) && memcmp(a->tensor->data, b->tensor->data, a->tensor->bytes) == 0;
}

static uint64_t hash_value(const oct_value *v) {
  uint64_t start = 14695981039346656037u;
  if (!v) return start;
  if (is_small(v)) return mix(mix(start, &v->tensor->dtype, sizeof v->tensor->dtype), v->tensor->data, v->tensor->bytes);
  return mix(start, &v, sizeof v);
}

static uint64_t hash_node(const oct_rewrite *rw, const oct_node *node) {
  uint64_t hash = mix(14695981039346656037u, &node->op, sizeof node->op), sum = 0;
  for (int i = 0; i < node->n_inputs; i++) {
    uint64_t one = hash_value(oct_rewrite_now(rw, node->inputs[i]));
    sum = oct_node_has(node, OCT_TRAIT_COMMUTATIVE) ? sum + one : mix(sum, &one, sizeof one);
  }
  return mix(mix(hash, &sum, sizeof sum), &node->n_outputs, sizeof node->n_outputs);
}

static bool same_attribute(const oct_attribute *a, const oct_attribute *b) {
  if (!b || a->type != b->type || a->count != b->count) return false;
  switch (a->type) {
    case OCT_ATTRIBUTE_INT: return a->i == b->i;
    case OCT_ATTRIBUTE_FLOAT: return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    case OCT_ATTRIBUTE_STRING: return strcmp(a->s, b->s) == 0;
    case OCT_ATTRIBUTE_INTS: return a->count == 0 || memcmp(a->ints, b->ints, a->count * sizeof *a->ints) == 0;
    case OCT_ATTRIBUTE_FLOATS: return a->count == 0 || memcmp(a->floats, b->floats, a->count * sizeof *a->floats) == 0;
    case OCT_ATTRIBUTE_STRINGS:
      for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->strings[i], b->strings[i]) != 0) return false;
      return true;
    case OCT_ATTRIBUTE_TENSOR:
      return a->tensor == b->tensor || (a->tensor->dtype == b->tensor->dtype && oct_shape_equal(&a->tensor->shape, &b->tensor->shape) &&
                                        memcmp(a->tensor->data, b->tensor->data, a->tensor->bytes) == 0);
  }
  return false;
}

static bool same_inputs(const oct_rewrite *rw, const oct_node *a, const oct_node *b, bool swapped) {
  for (int i = 0; i < a->n_inputs; i++)
    if (!same_value(oct_rewrite_now(rw, a->inputs[i]), oct_rewrite_now(rw, b->inputs[swapped ? 1 - i : i]))) return false;
  return true;
}

static bool same_node(const oct_rewrite *rw, const oct_node *a, const oct_node *b) {
  if (a->op != b->op || a->n_inputs != b->n_inputs || a->n_outputs != b->n_outputs || a->n_attributes != b->n_attributes) return false;
  for (int i = 0; i < a->n_attributes; i++)
    if (!same_attribute(&a->attributes[i], oct_node_attribute(b, a->attributes[i].name))) return false;
  bool swap = oct_node_has(a, OCT_TRAIT_COMMUTATIVE) && a->n_inputs == 2;
  if (!same_inputs(rw, a, b, false) && !(swap && same_inputs(rw, a, b, true))) return false;
  for (int i = 0; i < a->n_outputs; i++) {
    const oct_value *x = a->outputs[i], *y = b->outputs[i];
    if (!y) continue;
    if (!x || x->dtype != y->dtype || !oct_quant_equal(x->quant, y->quant) || !oct_rewrite_can_replace(rw, y, x)) return false;
  }
  return true;
}

/* Several outputs of one node might take over names at once; each was checked alone, so only one graph output may be among them. */
static bool takes_one_name(const oct_rewrite *rw, const oct_node *node) {
  int names = 0;
  for (int i = 0; i < node->n_outputs; i++) names += node->outputs[i] && rw->is_output[node->outputs[i]->id];
  return names <= 1;
}

static octet_status merge(oct_rewrite *rw, oct_node **slots, size_t n_slots, oct_node *node) {
  if (oct_node_has(node, OCT_TRAIT_NO_FOLD) || !takes_one_name(rw, node)) return OCTET_OK;
  size_t slot = (size_t)hash_node(rw, node) & (n_slots - 1);
  for (int probes = 0; slots[slot]; slot = (slot + 1) & (n_slots - 1), probes++) {
    if (probes > 64) return OCTET_OK; /* many alike that may not merge: enough tried */
    if (!same_node(rw, slots[slot], node)) continue;
    for (int i = 0; i < node->n_outputs; i++)
      if (node->outputs[i]) OCT_TRY(oct_rewrite_replace(rw, node->outputs[i], slots[slot]->outputs[i]));
    return OCTET_OK;
  }
  slots[slot] = node;
  return OCTET_OK;
}

static octet_status run(octet_context *ctx, oct_graph *graph, bool *changed) {
  oct_rewrite rw;
  OCT_TRY(oct_rewrite_begin(ctx, graph, &rw));
  size_t n_slots = 64;
  while (n_slots < 2 * graph->n_nodes) n_slots *= 2;
  oct_node **slots = oct_alloc(ctx, n_slots, sizeof *slots);
  octet_status status = slots ? OCTET_OK : OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < graph->n_nodes && status == OCTET_OK; i++) status = merge(&rw, slots, n_slots, graph->nodes[i]);
  oct_free(slots);
  return oct_rewrite_end(&rw, status, changed);
}

const oct_pass oct_pass_common_subexpressions = {
    .name = "common_subexpressions",
    .summary = "equal nodes are computed once",
    .run = run,
};
