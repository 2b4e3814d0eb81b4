/* A slice that takes out of a concatenation exactly one of the values that went in is that value.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "passes/rewrite.h"

static bool is_op(const oct_node *node, const char *name) { return node && strcmp(node->op->name, name) == 0 && node->n_inputs > 0; }

/* The one axis of the slice and its first index, when the step is 1 and both are constants. */
static bool slice_start(const oct_node *slice, const oct_shape *in, int64_t *axis, int64_t *start) {
  int64_t ends, step = 1;
  *axis = 0;
  if (slice->n_inputs < 3 || oct_constant_ints(slice->inputs[1], start, 1) != 1 || oct_constant_ints(slice->inputs[2], &ends, 1) != 1)
    return false;
  if (slice->n_inputs > 3 && slice->inputs[3] && oct_constant_ints(slice->inputs[3], axis, 1) != 1) return false;
  if (slice->n_inputs > 4 && slice->inputs[4] && oct_constant_ints(slice->inputs[4], &step, 1) != 1) return false;
  if (step != 1 || !oct_axis_normalize(axis, in->rank) || in->dim[*axis] < 0) return false;
  if (*start < 0) *start += in->dim[*axis];
  return *start >= 0;
}

static oct_value *find(const oct_node *slice) {
  if (!is_op(slice, "slice")) return NULL;
  const oct_value *whole = slice->inputs[0], *part = slice->outputs[0];
  const oct_node *concat = whole->producer;
  int64_t axis, start, concat_axis, at = 0;
  if (!is_op(concat, "concat") || !whole->has_shape || !part->has_shape || !oct_quant_equal(whole->quant, part->quant)) return NULL;
  concat_axis = oct_node_int(concat, "axis");
  if (!slice_start(slice, &whole->shape, &axis, &start)) return NULL;
  if (!oct_axis_normalize(&concat_axis, whole->shape.rank) || axis != concat_axis) return NULL;
  for (int i = 0; i < concat->n_inputs && at <= start; i++) {
    oct_value *in = concat->inputs[i];
    if (!in || !in->has_shape || in->shape.rank != whole->shape.rank || in->shape.dim[axis] < 0) return NULL;
    bool same = at == start && in->shape.dim[axis] > 0 && in->shape.dim[axis] == part->shape.dim[axis];
    if (same) return in->dtype == part->dtype && oct_quant_equal(in->quant, part->quant) ? in : NULL;
    at += in->shape.dim[axis];
  }
  return NULL;
}

static octet_status run(octet_context *ctx, oct_graph *graph, bool *changed) {
  oct_rewrite rw;
  OCT_TRY(oct_rewrite_begin(ctx, graph, &rw));
  octet_status status = OCTET_OK;
  for (size_t i = 0; i < graph->n_nodes && status == OCTET_OK; i++) {
    oct_node *node = graph->nodes[i];
    oct_value *in = find(node);
    if (!in || oct_use_count(&rw.uses, node->outputs[0]) == 0) continue;
    in = oct_rewrite_now(&rw, in);
    if (oct_rewrite_can_replace(&rw, node->outputs[0], in)) status = oct_rewrite_replace(&rw, node->outputs[0], in);
  }
  return oct_rewrite_end(&rw, status, changed);
}

const oct_pass oct_pass_slice_of_concat = {
    .name = "slice_of_concat",
    .summary = "a slice that gives back one input of a concatenation is that input",
    .run = run,
};
