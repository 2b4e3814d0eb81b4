/* Building graphs: values, constants, nodes, metadata. Changing them is in graph_edit.c, attributes are in attributes.c.
 * SPDX-License-Identifier: MIT */
#include "ir/graph.h"

#include <stdio.h>
#include <string.h>

#include "ir/names.h"
#include "ir/op.h"

octet_status oct_graph_create(octet_context *ctx, const char *name, oct_graph **out) {
  *out = NULL;
  oct_graph *graph = oct_alloc(ctx, 1, sizeof *graph);
  if (!graph) return OCTET_OUT_OF_MEMORY;
  graph->name = oct_region_strdup(ctx, &graph->region, name ? name : "");
  graph->names = oct_alloc(ctx, 1, sizeof *graph->names);
  graph->node_names = oct_alloc(ctx, 1, sizeof *graph->node_names);
  if (!graph->name || !graph->names || !graph->node_names) {
    oct_graph_destroy(graph);
    return OCTET_OUT_OF_MEMORY;
  }
  *out = graph;
  return OCTET_OK;
}

void oct_graph_destroy(oct_graph *graph) {
  if (!graph) return;
  for (size_t i = 0; i < graph->n_values; i++) oct_tensor_release(graph->values[i]->tensor);
  for (size_t i = 0; i < graph->n_nodes; i++)
    for (int k = 0; k < graph->nodes[i]->n_attributes; k++)
      if (graph->nodes[i]->attributes[k].type == OCT_ATTRIBUTE_TENSOR) oct_tensor_release(graph->nodes[i]->attributes[k].tensor);
  if (graph->names) oct_names_free(graph->names);
  oct_free(graph->names);
  if (graph->node_names) oct_names_free(graph->node_names);
  oct_free(graph->node_names);
  oct_free(graph->values);
  oct_free(graph->nodes);
  oct_free(graph->inputs);
  oct_free(graph->outputs);
  oct_free(graph->metadata);
  oct_region_free(&graph->region);
  oct_free(graph);
}

/* `base`, or the first of base_1, base_2, ... that is free; "v" stands in for an empty name. */
static char *unique_name(octet_context *ctx, oct_graph *graph, struct oct_name_table *table, const char *base) {
  if (!base || !*base) base = "v";
  if (!oct_names_find(table, base)) return oct_region_strdup(ctx, &graph->region, base);
  for (;;) {
    char *name = oct_region_printf(ctx, &graph->region, "%s_%u", base, ++table->counter);
    if (!name || !oct_names_find(table, name)) return name;
  }
}

octet_status oct_graph_value(octet_context *ctx, oct_graph *graph, const char *name, oct_value_kind kind, oct_dtype dtype,
                             const oct_shape *shape, oct_value **out) {
  *out = NULL;
  OCT_TRY(oct_grow(ctx, &graph->values, &graph->values_capacity, graph->n_values + 1, sizeof *graph->values));
  oct_value *value = oct_region_alloc(ctx, &graph->region, 1, sizeof *value);
  if (!value || !(value->name = unique_name(ctx, graph, graph->names, name))) return OCTET_OUT_OF_MEMORY;
  OCT_TRY(oct_names_add(ctx, graph->names, value->name, value));
  value->kind = kind;
  value->dtype = dtype;
  value->has_shape = shape != NULL;
  if (shape) value->shape = *shape;
  value->id = (int)graph->n_values;
  graph->values[graph->n_values++] = value;
  *out = value;
  return OCTET_OK;
}

octet_status oct_graph_input(octet_context *ctx, oct_graph *graph, const char *name, oct_dtype dtype, const oct_shape *shape,
                             oct_value **out) {
  OCT_TRY(oct_grow(ctx, &graph->inputs, &graph->inputs_capacity, graph->n_inputs + 1, sizeof *graph->inputs));
  OCT_TRY(oct_graph_value(ctx, graph, name, OCT_INPUT, dtype, shape, out));
  graph->inputs[graph->n_inputs++] = *out;
  return OCTET_OK;
}

octet_status oct_graph_constant(octet_context *ctx, oct_graph *graph, const char *name, oct_tensor *tensor, oct_value **out) {
  octet_status status = oct_graph_value(ctx, graph, name, OCT_CONSTANT, tensor->dtype, &tensor->shape, out);
  if (status != OCTET_OK) {
    oct_tensor_release(tensor);
    return status;
  }
  (*out)->tensor = tensor;
  return OCTET_OK;
}

octet_status oct_graph_constant_i64(octet_context *ctx, oct_graph *graph, const char *name, const int64_t *values, size_t count,
                                    oct_value **out) {
  oct_shape shape = {.rank = 1, .dim = {(int64_t)count}};
  oct_tensor *tensor;
  OCT_TRY(oct_tensor_create(ctx, OCT_I64, &shape, &tensor));
  if (count) memcpy(tensor->data, values, count * sizeof *values);
  return oct_graph_constant(ctx, graph, name, tensor, out);
}

octet_status oct_graph_constant_f32(octet_context *ctx, oct_graph *graph, const char *name, float value, oct_value **out) {
  oct_shape shape = {.rank = 0};
  oct_tensor *tensor;
  OCT_TRY(oct_tensor_create(ctx, OCT_F32, &shape, &tensor));
  *(float *)tensor->data = value;
  return oct_graph_constant(ctx, graph, name, tensor, out);
}

octet_status oct_graph_output(octet_context *ctx, oct_graph *graph, oct_value *value) {
  OCT_TRY(oct_grow(ctx, &graph->outputs, &graph->outputs_capacity, graph->n_outputs + 1, sizeof *graph->outputs));
  graph->outputs[graph->n_outputs++] = value;
  return OCTET_OK;
}

oct_value *oct_graph_find(const oct_graph *graph, const char *name) { return oct_names_find(graph->names, name); }

octet_status oct_value_rename(octet_context *ctx, oct_graph *graph, oct_value *value, const char *name) {
  if (strcmp(value->name, name) == 0) return OCTET_OK;
  oct_names_remove(graph->names, value->name);
  char *fresh = unique_name(ctx, graph, graph->names, name);
  if (!fresh) return OCTET_OUT_OF_MEMORY;
  value->name = fresh;
  return oct_names_add(ctx, graph->names, fresh, value);
}

void oct_value_set_tensor(oct_value *value, oct_tensor *tensor) {
  oct_tensor_release(value->tensor);
  value->tensor = tensor;
  value->shape = tensor->shape;
  value->has_shape = true;
  if (!value->quant) value->dtype = tensor->dtype;
}

octet_status oct_value_set_quant(octet_context *ctx, oct_graph *graph, oct_value *value, const oct_quant *quant) {
  if (!quant) {
    value->quant = NULL;
    return OCTET_OK;
  }
  oct_quant *copy = oct_quant_create(ctx, &graph->region, quant->dtype, quant->axis, quant->count, quant->scale, quant->zero_point);
  if (!copy) return OCTET_OUT_OF_MEMORY;
  value->quant = copy;
  value->dtype = OCT_F32;
  return OCTET_OK;
}

static octet_status new_node(octet_context *ctx, oct_graph *graph, const oct_op *op, const char *name, oct_value *const *inputs,
                             int n_inputs, int n_outputs, oct_node **out) {
  *out = NULL;
  OCT_TRY(oct_grow(ctx, &graph->nodes, &graph->nodes_capacity, graph->n_nodes + 1, sizeof *graph->nodes));
  oct_node *node = oct_region_alloc(ctx, &graph->region, 1, sizeof *node);
  if (!node) return OCTET_OUT_OF_MEMORY;
  node->op = op;
  node->name = unique_name(ctx, graph, graph->node_names, name && *name ? name : op->name);
  node->outputs = oct_region_alloc(ctx, &graph->region, (size_t)(n_outputs > 0 ? n_outputs : 1), sizeof *node->outputs);
  node->n_outputs = n_outputs;
  if (!node->name || !node->outputs) return OCTET_OUT_OF_MEMORY;
  OCT_TRY(oct_names_add(ctx, graph->node_names, node->name, node));
  OCT_TRY(oct_node_set_inputs(ctx, graph, node, inputs, n_inputs));
  *out = node;
  return OCTET_OK;
}

static void append_node(oct_graph *graph, oct_node *node) {
  node->id = (int)graph->n_nodes;
  graph->nodes[graph->n_nodes++] = node;
}

octet_status oct_graph_node(octet_context *ctx, oct_graph *graph, const oct_op *op, const char *name, oct_value *const *inputs,
                            int n_inputs, int n_outputs, oct_node **out) {
  oct_node *node;
  *out = NULL;
  OCT_TRY(new_node(ctx, graph, op, name, inputs, n_inputs, n_outputs, &node));
  for (int i = 0; i < n_outputs; i++) {
    OCT_TRY(oct_graph_value(ctx, graph, node->name, OCT_INTERMEDIATE, OCT_DTYPE_NONE, NULL, &node->outputs[i]));
    node->outputs[i]->producer = node;
  }
  append_node(graph, node);
  *out = node;
  return OCTET_OK;
}

octet_status oct_graph_node_into(octet_context *ctx, oct_graph *graph, const oct_op *op, const char *name, oct_value *const *inputs,
                                 int n_inputs, oct_value *const *outputs, int n_outputs, oct_node **out) {
  oct_node *node;
  *out = NULL;
  OCT_TRY(new_node(ctx, graph, op, name, inputs, n_inputs, n_outputs, &node));
  for (int i = 0; i < n_outputs; i++) {
    if (!(node->outputs[i] = outputs[i])) continue;
    if (outputs[i]->producer || outputs[i]->kind != OCT_INTERMEDIATE)
      return oct_fail(ctx, OCTET_GRAPH, "value \"%s\" is defined twice: node \"%s\" (%s) would define it again", outputs[i]->name,
                      node->name, op->name);
    outputs[i]->producer = node;
  }
  append_node(graph, node);
  *out = node;
  return OCTET_OK;
}

octet_status oct_node_set_inputs(octet_context *ctx, oct_graph *graph, oct_node *node, oct_value *const *inputs, int n_inputs) {
  if (n_inputs > node->n_inputs || !node->inputs) {
    oct_value **fresh = oct_region_alloc(ctx, &graph->region, (size_t)(n_inputs > 0 ? n_inputs : 1), sizeof *fresh);
    if (!fresh) return OCTET_OUT_OF_MEMORY;
    node->inputs = fresh;
  }
  for (int i = 0; i < n_inputs; i++) node->inputs[i] = inputs[i];
  node->n_inputs = n_inputs;
  return OCTET_OK;
}

octet_status oct_node_rename(octet_context *ctx, oct_graph *graph, oct_node *node, const char *name) {
  if (strcmp(node->name, name) == 0) return OCTET_OK;
  char *fresh = unique_name(ctx, graph, graph->node_names, name);
  if (!fresh) return OCTET_OUT_OF_MEMORY;
  oct_names_remove(graph->node_names, node->name);
  node->name = fresh;
  return oct_names_add(ctx, graph->node_names, fresh, node);
}

octet_status oct_graph_set_metadata(octet_context *ctx, oct_graph *graph, const char *key, const char *text) {
  for (size_t i = 0; i < graph->n_metadata; i++) {
    if (strcmp(graph->metadata[i].key, key) != 0) continue;
    if (!text) {
      memmove(graph->metadata + i, graph->metadata + i + 1, (--graph->n_metadata - i) * sizeof *graph->metadata);
      return OCTET_OK;
    }
    char *copy = oct_region_strdup(ctx, &graph->region, text);
    if (!copy) return OCTET_OUT_OF_MEMORY;
    graph->metadata[i].text = copy;
    return OCTET_OK;
  }
  if (!text) return OCTET_OK;
  OCT_TRY(oct_grow(ctx, &graph->metadata, &graph->metadata_capacity, graph->n_metadata + 1, sizeof *graph->metadata));
  oct_metadata entry = {oct_region_strdup(ctx, &graph->region, key), oct_region_strdup(ctx, &graph->region, text)};
  if (!entry.key || !entry.text) return OCTET_OUT_OF_MEMORY;
  graph->metadata[graph->n_metadata++] = entry;
  return OCTET_OK;
}

const char *oct_graph_metadata(const oct_graph *graph, const char *key) {
  for (size_t i = 0; i < graph->n_metadata; i++)
    if (strcmp(graph->metadata[i].key, key) == 0) return graph->metadata[i].text;
  return NULL;
}

int oct_constant_ints(const oct_value *v, int64_t *out, int max) {
  const oct_tensor *tensor = oct_constant_of(v);
  if (!tensor || v->quant || (tensor->dtype != OCT_I64 && tensor->dtype != OCT_I32) || tensor->shape.rank > 1) return -1;
  int64_t count = oct_shape_count(&tensor->shape);
  if (count < 0 || count > max) return -1;
  for (int64_t i = 0; i < count; i++) out[i] = oct_get_i64(tensor->data, tensor->dtype, i);
  return (int)count;
}

bool oct_constant_scalar(const oct_value *v, double *out) {
  const oct_tensor *tensor = oct_constant_of(v);
  if (!tensor || oct_shape_count(&tensor->shape) != 1) return false;
  *out = oct_get_f64(tensor->data, tensor->dtype, 0);
  if (v->quant) *out = (double)((float)(*out - v->quant->zero_point[0]) * v->quant->scale[0]);
  return true;
}
