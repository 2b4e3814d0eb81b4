/* Operator look-up and the helpers that operators use for shape inference.
 * SPDX-License-Identifier: MIT */
#include "ir/op.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const oct_op *oct_op_find(const char *name) {
  for (const oct_op *const *op = oct_op_registry; *op; op++)
    if (strcmp((*op)->name, name) == 0) return *op;
  return NULL;
}

static octet_status check_arity(octet_context *ctx, const oct_node *node) {
  const oct_op *op = node->op;
  if (node->n_inputs < op->min_inputs || (op->max_inputs >= 0 && node->n_inputs > op->max_inputs))
    return oct_infer_fail(ctx, node, "has %d inputs; %s takes %d to %d", node->n_inputs, op->name, op->min_inputs, op->max_inputs);
  if (node->n_outputs < op->min_outputs || (op->max_outputs >= 0 && node->n_outputs > op->max_outputs))
    return oct_infer_fail(ctx, node, "has %d outputs; %s makes %d to %d", node->n_outputs, op->name, op->min_outputs, op->max_outputs);
  for (int i = 0; i < op->min_inputs; i++)
    if (!node->inputs[i]) return oct_infer_fail(ctx, node, "input %d is absent, but %s needs it", i, op->name);
  for (const oct_attribute_spec *spec = op->attributes; spec && spec->name; spec++)
    if (spec->required && !oct_node_attribute(node, spec->name))
      return oct_infer_fail(ctx, node, "attribute \"%s\" is required", spec->name);
  return OCTET_OK;
}

octet_status oct_node_infer(octet_context *ctx, oct_node *node) {
  OCT_TRY(check_arity(ctx, node));
  return node->op->infer(ctx, node);
}

octet_status oct_graph_infer(octet_context *ctx, oct_graph *graph) {
  for (size_t i = 0; i < graph->n_nodes; i++) OCT_TRY(oct_node_infer(ctx, graph->nodes[i]));
  return OCTET_OK;
}

octet_status oct_infer_fail(octet_context *ctx, const oct_node *node, const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return oct_fail(ctx, OCTET_SHAPE, "node \"%s\" (%s): %s", node->name, node->op->name, text);
}

void oct_infer_set(oct_value *value, oct_dtype dtype, const oct_shape *shape) {
  if (!value) return;
  value->dtype = value->quant ? OCT_F32 : dtype;
  if (!shape) return;
  oct_shape fresh = *shape;
  if (value->has_shape && value->shape.rank == fresh.rank)
    for (int d = 0; d < fresh.rank; d++)
      if (fresh.dim[d] == OCT_DIM_UNKNOWN) fresh.dim[d] = value->shape.dim[d];
  value->shape = fresh;
  value->has_shape = true;
}

octet_status oct_infer_same(octet_context *ctx, oct_node *node) {
  (void)ctx;
  const oct_value *in = node->inputs[0];
  oct_infer_set(node->outputs[0], in->dtype, in->has_shape ? &in->shape : NULL);
  return OCTET_OK;
}

octet_status oct_infer_broadcast(octet_context *ctx, oct_node *node) {
  const oct_value *first = node->inputs[0];
  bool known = first->has_shape;
  oct_shape shape = first->shape;
  for (int i = 1; i < node->n_inputs; i++) {
    const oct_value *v = node->inputs[i];
    if (!v) return oct_infer_fail(ctx, node, "input %d is absent", i);
    if (v->dtype != first->dtype)
      return oct_infer_fail(ctx, node, "inputs \"%s\" (%s) and \"%s\" (%s) differ in type", first->name, oct_dtype_name(first->dtype),
                            v->name, oct_dtype_name(v->dtype));
    if (!v->has_shape) known = false;
    if (!known) continue;
    oct_shape joined;
    if (!oct_shape_broadcast(&shape, &v->shape, &joined)) {
      char a[OCT_SHAPE_TEXT], b[OCT_SHAPE_TEXT];
      return oct_infer_fail(ctx, node, "shapes %s and %s do not broadcast", oct_shape_text(&shape, a), oct_shape_text(&v->shape, b));
    }
    shape = joined;
  }
  oct_infer_set(node->outputs[0], first->dtype, known ? &shape : NULL);
  return OCTET_OK;
}

bool oct_axis_normalize(int64_t *axis, int rank) {
  if (*axis < -rank || *axis >= rank) return false;
  if (*axis < 0) *axis += rank;
  return true;
}
