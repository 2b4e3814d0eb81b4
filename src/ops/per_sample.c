/* Operators and graphs that treat the samples of a batch apart: see per_sample.h.
 * SPDX-License-Identifier: MIT */
#include "ops/per_sample.h"

#include <string.h>

#define MAX_AXES (2 * OCT_MAX_RANK)

static int rank_of(const oct_node *node) { return node->inputs[0]->shape.rank; }

bool oct_per_sample_always(const oct_node *node) {
  (void)node;
  return true;
}

bool oct_per_sample_axis(const oct_node *node) {
  int64_t axis = oct_node_int(node, "axis");
  return oct_axis_normalize(&axis, rank_of(node)) && axis != 0;
}

/* A constant list of axes without 0. */
static bool leaves_out_batch(const oct_node *node, const oct_value *list) {
  int64_t axes[MAX_AXES];
  int n = list ? oct_constant_ints(list, axes, MAX_AXES) : -1;
  for (int i = 0; i < n; i++)
    if (!oct_axis_normalize(&axes[i], rank_of(node)) || axes[i] == 0) return false;
  return n > 0;
}

bool oct_per_sample_axes(const oct_node *node) { return node->n_inputs > 1 && leaves_out_batch(node, node->inputs[1]); }
bool oct_per_sample_slice(const oct_node *node) { return node->n_inputs > 3 && leaves_out_batch(node, node->inputs[3]); }

bool oct_per_sample_permutation(const oct_node *node) {
  size_t n;
  const int64_t *perm = oct_node_ints(node, "perm", &n);
  return n > 0 && perm[0] == 0;
}

bool oct_per_sample_gemm(const oct_node *node) {
  const oct_value *c = node->n_inputs > 2 ? node->inputs[2] : NULL;
  return !oct_node_int(node, "transA") && node->inputs[1]->kind == OCT_CONSTANT &&
         (!c || (c->kind == OCT_CONSTANT && (c->shape.rank < 2 || c->shape.dim[0] == 1)));
}

bool oct_per_sample_matmul(const oct_node *node) {
  const oct_value *a = node->inputs[0], *b = node->inputs[1];
  if (a->kind == OCT_CONSTANT || a->shape.rank < 2) return false;
  if (b->kind == OCT_CONSTANT)
    return b->shape.rank <= 2 || (a->shape.rank > b->shape.rank) ||
           (a->shape.rank == b->shape.rank && b->shape.dim[0] == 1 && a->shape.rank > 2);
  return a->shape.rank > 2 && a->shape.rank == b->shape.rank;
}

bool oct_per_sample_gather(const oct_node *node) {
  int64_t axis = oct_node_int(node, "axis");
  bool table = node->inputs[0]->kind == OCT_CONSTANT;
  if (!oct_axis_normalize(&axis, rank_of(node))) return false;
  return table ? axis == 0 && node->inputs[1]->kind != OCT_CONSTANT : axis != 0 && node->inputs[1]->kind == OCT_CONSTANT;
}

bool oct_per_sample_pad(const oct_node *node) {
  int64_t pads[MAX_AXES];
  int rank = rank_of(node), n = oct_constant_ints(node->inputs[1], pads, MAX_AXES);
  if (node->n_inputs > 3 && node->inputs[3]) return leaves_out_batch(node, node->inputs[3]);
  return n == 2 * rank && pads[0] == 0 && pads[rank] == 0;
}

bool oct_per_sample_expand(const oct_node *node) { return node->outputs[0]->shape.rank == rank_of(node); }

bool oct_tensor_repeats(const oct_tensor *tensor) {
  if (tensor->shape.rank < 1 || tensor->shape.dim[0] < 1) return false;
  size_t slice = tensor->bytes / (size_t)tensor->shape.dim[0];
  return tensor->bytes == slice || memcmp(tensor->data, (const char *)tensor->data + slice, tensor->bytes - slice) == 0;
}

/* Computes the same for every sample (constant folding leaves what would lose the quantization of its input). */
static bool depends_on_constants(const oct_node *node) {
  for (int i = 0; i < node->n_inputs; i++)
    if (node->inputs[i] && node->inputs[i]->kind != OCT_CONSTANT) return false;
  return node->n_inputs > 0;
}

static bool is_free(const oct_value *v) { return v->kind == OCT_CONSTANT || (v->producer && depends_on_constants(v->producer)); }

/* An operand of an elementwise node that depends on no input must be the same for every sample. */
static bool serves_all(const oct_value *v, const oct_value *output) {
  if (v->shape.rank < output->shape.rank) return true;
  if (v->shape.rank > output->shape.rank) return false;
  return v->shape.dim[0] == 1 || (oct_constant_of(v) && !v->quant && oct_tensor_repeats(v->tensor));
}

static bool node_per_sample(const oct_node *node, int64_t batch) {
  const oct_value *out = node->outputs[0];
  bool elementwise = oct_node_has(node, OCT_TRAIT_ELEMENTWISE);
  for (int i = 0; i < node->n_outputs; i++) {
    const oct_value *v = node->outputs[i];
    if (v && (v->shape.rank < 1 || v->shape.dim[0] != batch || (v->quant && v->quant->axis == 0))) return false;
  }
  if (!out) return false;
  for (int i = 0; i < node->n_inputs; i++) {
    const oct_value *v = node->inputs[i];
    if (!v) continue;
    if (v->kind == OCT_CONSTANT || (elementwise && is_free(v))) {
      if (elementwise && !serves_all(v, out)) return false;
    } else if (v->shape.rank < 1 || v->shape.dim[0] != batch || (elementwise && v->shape.rank != out->shape.rank)) {
      return false;
    }
  }
  if (node->op->per_sample) return node->op->per_sample(node);
  if (oct_node_has(node, OCT_TRAIT_CHANNELS_LAST)) {
    for (int i = 1; i < node->n_inputs; i++)
      if (node->inputs[i] && node->inputs[i]->kind != OCT_CONSTANT) return false;
    return true;
  }
  return elementwise || oct_node_has(node, OCT_TRAIT_VIEW);
}

bool oct_graph_per_sample(const oct_graph *graph, int64_t *batch) {
  if (graph->n_inputs == 0) return false;
  *batch = graph->inputs[0]->shape.rank > 0 ? graph->inputs[0]->shape.dim[0] : 0;
  for (size_t i = 0; i < graph->n_inputs; i++)
    if (graph->inputs[i]->shape.rank < 1 || graph->inputs[i]->shape.dim[0] != *batch ||
        (graph->inputs[i]->quant && graph->inputs[i]->quant->axis == 0))
      return false;
  for (size_t i = 0; i < graph->n_outputs; i++)
    if (graph->outputs[i]->kind == OCT_CONSTANT || graph->outputs[i]->shape.rank < 1 || graph->outputs[i]->shape.dim[0] != *batch)
      return false;
  for (size_t i = 0; i < graph->n_nodes; i++) {
    const oct_node *node = graph->nodes[i];
    if (depends_on_constants(node)) continue;
    if (oct_node_int(node, "dynamic") > 1 || !node_per_sample(node, *batch)) return false; /* 2: the range of the whole tensor */
  }
  return true;
}
