/* The verifier. It renumbers ids as oct_graph_compact() does, and runs shape inference, which may make shapes more precise.
 * SPDX-License-Identifier: MIT */
#include "ir/verify.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static octet_status broken(octet_context *ctx, const char *what, const char *name, const char *rule) {
  return oct_fail(ctx, OCTET_GRAPH, "%s \"%s\": %s", what, name, rule);
}

/* ---- One value ----------------------------------------------------------------------------------------------- */

static octet_status verify_quant(octet_context *ctx, const oct_value *v) {
  const oct_quant *q = v->quant;
  size_t size = oct_dtype_size(q->dtype);
  if (size == 0 || size > 4 || oct_dtype_is_float(q->dtype) || q->dtype == OCT_BOOL || q->dtype == OCT_U32)
    return oct_fail(ctx, OCTET_GRAPH, "value \"%s\": cannot be quantized to %s", v->name, oct_dtype_name(q->dtype));
  if (v->dtype != OCT_F32 && v->dtype != OCT_DTYPE_NONE) return broken(ctx, "value", v->name, "a quantized value must be f32");
  if (q->axis < -1 || q->axis >= OCT_MAX_RANK || (v->has_shape && q->axis >= v->shape.rank))
    return oct_fail(ctx, OCTET_GRAPH, "value \"%s\": quantization axis %d does not exist", v->name, q->axis);
  int64_t channels = q->axis < 0 ? 1 : v->has_shape && v->shape.dim[q->axis] >= 0 ? v->shape.dim[q->axis] : q->count;
  if (q->count < 1 || q->count != channels)
    return oct_fail(ctx, OCTET_GRAPH, "value \"%s\": %lld scales where %lld are needed", v->name, (long long)q->count, (long long)channels);
  int bits = (int)size * 8, is_signed = oct_dtype_is_signed(q->dtype);
  int64_t high = ((int64_t)1 << (bits - is_signed)) - 1, low = is_signed ? -high - 1 : 0;
  for (int64_t i = 0; i < q->count; i++) {
    if (!isfinite(q->scale[i]) || q->scale[i] <= 0)
      return oct_fail(ctx, OCTET_GRAPH, "value \"%s\": scale %g of channel %lld; it must be finite and above 0", v->name,
                      (double)q->scale[i], (long long)i);
    if (q->zero_point[i] < low || q->zero_point[i] > high)
      return oct_fail(ctx, OCTET_GRAPH, "value \"%s\": zero point %d of channel %lld does not fit %s", v->name, q->zero_point[i],
                      (long long)i, oct_dtype_name(q->dtype));
  }
  return OCTET_OK;
}

static octet_status verify_tensor(octet_context *ctx, const oct_value *v) {
  char a[OCT_SHAPE_TEXT], b[OCT_SHAPE_TEXT];
  const oct_tensor *t = v->tensor;
  oct_dtype dtype = v->quant ? v->quant->dtype : v->dtype;
  if (t->dtype != dtype)
    return oct_fail(ctx, OCTET_GRAPH, "value \"%s\": the tensor is %s, the value %s", v->name, oct_dtype_name(t->dtype),
                    oct_dtype_name(dtype));
  if (!v->has_shape || !oct_shape_equal(&t->shape, &v->shape))
    return oct_fail(ctx, OCTET_GRAPH, "value \"%s\": the tensor is %s, the value %s", v->name, oct_shape_text(&t->shape, a),
                    v->has_shape ? oct_shape_text(&v->shape, b) : "of unknown shape");
  int64_t count = oct_shape_count(&t->shape);
  if (count < 0 || t->bytes != (size_t)count * oct_dtype_size(t->dtype))
    return broken(ctx, "value", v->name, "the tensor's bytes do not fit its shape");
  return OCTET_OK;
}

octet_status oct_value_verify(octet_context *ctx, const oct_value *v) {
  if (v->has_shape && (v->shape.rank < 0 || v->shape.rank > OCT_MAX_RANK)) return broken(ctx, "value", v->name, "impossible rank");
  for (int d = 0; v->has_shape && d < v->shape.rank; d++)
    if (v->shape.dim[d] < OCT_DIM_UNKNOWN) return broken(ctx, "value", v->name, "negative dimension");
  if (v->quant) OCT_TRY(verify_quant(ctx, v));
  if (v->kind == OCT_CONSTANT && !v->tensor) return broken(ctx, "value", v->name, "a constant without tensor");
  if (v->kind != OCT_CONSTANT && v->kind != OCT_VARIABLE && v->tensor)
    return broken(ctx, "value", v->name, "only constants and variables hold tensors");
  if (v->kind != OCT_INTERMEDIATE && v->producer) return broken(ctx, "value", v->name, "only intermediates have a producer");
  return v->tensor ? verify_tensor(ctx, v) : OCTET_OK;
}

/* ---- One node ------------------------------------------------------------------------------------------------ */

static bool in_range(const oct_attribute_spec *spec, double x) {
  return (spec->low == 0 && spec->high == 0) || (x >= spec->low && x <= spec->high);
}

/* The first number of the attribute that is out of its range; false when there is none. */
static bool out_of_range(const oct_attribute_spec *spec, const oct_attribute *a, double *number) {
  size_t count = a->type == OCT_ATTRIBUTE_INT || a->type == OCT_ATTRIBUTE_FLOAT ? 1 : a->count;
  for (size_t i = 0; i < count; i++) {
    switch (a->type) {
      case OCT_ATTRIBUTE_INT: *number = (double)a->i; break;
      case OCT_ATTRIBUTE_FLOAT: *number = (double)a->f; break;
      case OCT_ATTRIBUTE_INTS: *number = (double)a->ints[i]; break;
      case OCT_ATTRIBUTE_FLOATS: *number = (double)a->floats[i]; break;
      default: return false;
    }
    if (!in_range(spec, *number)) return true;
  }
  return false;
}

static octet_status verify_attribute(octet_context *ctx, const oct_node *node, const oct_attribute *a) {
  static const char *const types[] = {"an integer", "a float", "a string", "integers", "floats", "strings", "a tensor"};
  const oct_attribute_spec *spec = node->op->attributes;
  while (spec && spec->name && strcmp(spec->name, a->name) != 0) spec++;
  if (!spec || !spec->name)
    return oct_fail(ctx, OCTET_GRAPH, "node \"%s\": %s has no attribute \"%s\"", node->name, node->op->name, a->name);
  if (spec->type != a->type)
    return oct_fail(ctx, OCTET_GRAPH, "node \"%s\" (%s): attribute \"%s\" must be %s, not %s", node->name, node->op->name, a->name,
                    types[spec->type], types[a->type]);
  double number;
  if (out_of_range(spec, a, &number))
    return oct_fail(ctx, OCTET_GRAPH, "node \"%s\" (%s): attribute \"%s\" is %g; allowed is %g to %g", node->name, node->op->name, a->name,
                    number, spec->low, spec->high);
  return OCTET_OK;
}

static octet_status verify_arity(octet_context *ctx, const oct_node *node, const char *what, int count, int least, int most,
                                 oct_value *const *values) {
  if (count < least || (most >= 0 && count > most)) {
    char limit[32] = "any number";
    if (most >= 0) snprintf(limit, sizeof limit, "%d", most);
    return oct_fail(ctx, OCTET_GRAPH, "node \"%s\" (%s): %d %ss; it takes %d to %s", node->name, node->op->name, count, what, least, limit);
  }
  for (int i = 0; i < least; i++)
    if (!values[i]) return oct_fail(ctx, OCTET_GRAPH, "node \"%s\" (%s): %s %d is absent, but needed", node->name, node->op->name, what, i);
  return OCTET_OK;
}

octet_status oct_node_verify(octet_context *ctx, const oct_node *node) {
  const oct_op *op = node->op;
  OCT_TRY(verify_arity(ctx, node, "input", node->n_inputs, op->min_inputs, op->max_inputs, node->inputs));
  OCT_TRY(verify_arity(ctx, node, "output", node->n_outputs, op->min_outputs, op->max_outputs, node->outputs));
  for (int i = 0; i < node->n_attributes; i++) OCT_TRY(verify_attribute(ctx, node, &node->attributes[i]));
  for (const oct_attribute_spec *spec = op->attributes; spec && spec->name; spec++)
    if (spec->required && !oct_node_attribute(node, spec->name))
      return oct_fail(ctx, OCTET_GRAPH, "node \"%s\" (%s): attribute \"%s\" is missing", node->name, op->name, spec->name);
  return OCTET_OK;
}

/* ---- The whole ----------------------------------------------------------------------------------------------- */

static bool belongs(const oct_graph *graph, const oct_value *v) {
  return v->id >= 0 && (size_t)v->id < graph->n_values && graph->values[v->id] == v;
}

/* The values of kind input are those that the graph lists, each once. */
static octet_status verify_inputs(octet_context *ctx, const oct_graph *graph) {
  size_t kept = 0;
  bool *listed = oct_alloc(ctx, graph->n_values + 1, sizeof *listed);
  if (!listed) return OCTET_OUT_OF_MEMORY;
  octet_status status = OCTET_OK;
  for (size_t i = 0; i < graph->n_inputs && status == OCTET_OK; i++) {
    const oct_value *v = graph->inputs[i];
    if (!belongs(graph, v) || v->kind != OCT_INPUT)
      status = broken(ctx, "graph input", v->name, "the value is not of kind input, or not in the graph");
    else if (listed[v->id]) status = broken(ctx, "graph input", v->name, "it is listed twice");
    else listed[v->id] = true;
  }
  for (size_t i = 0; i < graph->n_values; i++) kept += graph->values[i]->kind == OCT_INPUT && !listed[i];
  if (status == OCTET_OK && kept)
    status = oct_fail(ctx, OCTET_GRAPH, "%zu values of kind input are not listed among the graph's inputs", kept);
  oct_free(listed);
  return status;
}

static octet_status verify_values(octet_context *ctx, oct_graph *graph) {
  for (size_t i = 0; i < graph->n_values; i++) graph->values[i]->id = (int)i;
  for (size_t i = 0; i < graph->n_nodes; i++) graph->nodes[i]->id = (int)i;
  for (size_t i = 0; i < graph->n_values; i++) {
    const oct_value *v = graph->values[i];
    if (!v->name || !*v->name) return broken(ctx, "value", "", "a value without name");
    if (oct_graph_find(graph, v->name) != v) return broken(ctx, "value", v->name, "the name is not unique");
    OCT_TRY(oct_value_verify(ctx, v));
  }
  return verify_inputs(ctx, graph);
}

/* A value that is used must be there: made by an earlier node, or no intermediate. */
static octet_status verify_use(octet_context *ctx, const oct_graph *graph, const oct_value *v, const oct_node *user, size_t before) {
  const char *who = user ? user->name : "output of the graph";
  if (!belongs(graph, v)) return oct_fail(ctx, OCTET_GRAPH, "\"%s\" uses a value that is not in the graph", who);
  if (v->kind != OCT_INTERMEDIATE) return OCTET_OK;
  if (!v->producer) return oct_fail(ctx, OCTET_GRAPH, "\"%s\" uses \"%s\", which nothing makes", who, v->name);
  int id = v->producer->id;
  if (id < 0 || (size_t)id >= graph->n_nodes || graph->nodes[id] != v->producer)
    return oct_fail(ctx, OCTET_GRAPH, "\"%s\" uses \"%s\", whose producer is not in the graph", who, v->name);
  if ((size_t)id >= before)
    return oct_fail(ctx, OCTET_GRAPH, "node \"%s\" uses \"%s\" before it is made (cycle or wrong order)", who, v->name);
  return OCTET_OK;
}

static octet_status verify_results(octet_context *ctx, const oct_graph *graph, const oct_node *node) {
  for (int k = 0; k < node->n_outputs; k++) {
    const oct_value *v = node->outputs[k];
    if (!v) continue;
    if (!belongs(graph, v)) return broken(ctx, "node", node->name, "an output is not in the graph");
    if (v->producer != node || v->kind != OCT_INTERMEDIATE)
      return broken(ctx, "value", v->name, "it is made by two nodes, or is no intermediate");
    for (int j = 0; j < k; j++)
      if (node->outputs[j] == v) return broken(ctx, "value", v->name, "it is made twice by one node");
  }
  return OCTET_OK;
}

static bool contradicts(const oct_value *v, oct_dtype dtype, bool has_shape, const oct_shape *shape) {
  if (dtype != OCT_DTYPE_NONE && v->dtype != OCT_DTYPE_NONE && v->dtype != dtype) return true;
  if (!has_shape || !v->has_shape) return false;
  if (v->shape.rank != shape->rank) return true;
  for (int d = 0; d < shape->rank; d++)
    if (shape->dim[d] >= 0 && v->shape.dim[d] >= 0 && shape->dim[d] != v->shape.dim[d]) return true;
  return false;
}

/* Infers anew and compares with what was recorded. */
static octet_status verify_inferred(octet_context *ctx, oct_node *node) {
  enum { KEPT = 8 }; /* outputs beyond are inferred without comparison */
  struct {
    oct_dtype dtype;
    bool has_shape;
    oct_shape shape;
  } before[KEPT];
  int n = node->n_outputs < KEPT ? node->n_outputs : KEPT;
  for (int k = 0; k < n; k++) {
    const oct_value *v = node->outputs[k];
    if (!v) continue;
    before[k].dtype = v->dtype, before[k].has_shape = v->has_shape, before[k].shape = v->shape;
  }
  OCT_TRY(oct_node_infer(ctx, node));
  for (int k = 0; k < n; k++) {
    const oct_value *v = node->outputs[k];
    char a[OCT_SHAPE_TEXT], b[OCT_SHAPE_TEXT];
    if (!v || !contradicts(v, before[k].dtype, before[k].has_shape, &before[k].shape)) continue;
    return oct_fail(ctx, OCTET_SHAPE, "node \"%s\" (%s): output \"%s\" is recorded as %s %s but inferred as %s %s", node->name,
                    node->op->name, v->name, oct_dtype_name(before[k].dtype),
                    before[k].has_shape ? oct_shape_text(&before[k].shape, a) : "of unknown shape", oct_dtype_name(v->dtype),
                    v->has_shape ? oct_shape_text(&v->shape, b) : "of unknown shape");
  }
  return OCTET_OK;
}

octet_status oct_graph_verify(octet_context *ctx, oct_graph *graph) {
  OCT_TRY(verify_values(ctx, graph));
  for (size_t i = 0; i < graph->n_nodes; i++) {
    oct_node *node = graph->nodes[i];
    OCT_TRY(oct_node_verify(ctx, node));
    for (int k = 0; k < node->n_inputs; k++)
      if (node->inputs[k]) OCT_TRY(verify_use(ctx, graph, node->inputs[k], node, i));
    OCT_TRY(verify_results(ctx, graph, node));
    OCT_TRY(verify_inferred(ctx, node));
  }
  for (size_t i = 0; i < graph->n_outputs; i++) OCT_TRY(verify_use(ctx, graph, graph->outputs[i], NULL, graph->n_nodes));
  return OCTET_OK;
}
