/* Attributes of nodes: setting them and reading them with the operator's defaults.
 * SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "ir/op.h"

const oct_attribute *oct_node_attribute(const oct_node *node, const char *name) {
  for (int i = 0; i < node->n_attributes; i++)
    if (strcmp(node->attributes[i].name, name) == 0) return &node->attributes[i];
  return NULL;
}

void oct_node_clear_attribute(oct_node *node, const char *name) {
  for (int i = 0; i < node->n_attributes; i++) {
    if (strcmp(node->attributes[i].name, name) != 0) continue;
    if (node->attributes[i].type == OCT_ATTRIBUTE_TENSOR) oct_tensor_release(node->attributes[i].tensor);
    memmove(node->attributes + i, node->attributes + i + 1, (size_t)(--node->n_attributes - i) * sizeof *node->attributes);
    return;
  }
}

static octet_status copy_strings(octet_context *ctx, oct_graph *graph, oct_attribute *to, const oct_attribute *from) {
  to->strings = oct_region_alloc(ctx, &graph->region, from->count ? from->count : 1, sizeof *to->strings);
  if (!to->strings) return OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < from->count; i++)
    if (!(to->strings[i] = oct_region_strdup(ctx, &graph->region, from->strings[i]))) return OCTET_OUT_OF_MEMORY;
  return OCTET_OK;
}

/* `to` becomes a copy of `from` whose memory belongs to the graph. */
static octet_status copy_attribute(octet_context *ctx, oct_graph *graph, const oct_attribute *from, oct_attribute *to) {
  *to = *from;
  to->name = oct_region_strdup(ctx, &graph->region, from->name);
  if (!to->name) return OCTET_OUT_OF_MEMORY;
  size_t element = from->type == OCT_ATTRIBUTE_INTS ? sizeof(int64_t) : sizeof(float);
  switch (from->type) {
    case OCT_ATTRIBUTE_STRING: to->s = oct_region_strdup(ctx, &graph->region, from->s); return to->s ? OCTET_OK : OCTET_OUT_OF_MEMORY;
    case OCT_ATTRIBUTE_INTS:
    case OCT_ATTRIBUTE_FLOATS:
      to->ints = oct_region_alloc(ctx, &graph->region, from->count ? from->count : 1, element);
      if (!to->ints) return OCTET_OUT_OF_MEMORY;
      if (from->count) memcpy(to->ints, from->ints, from->count * element);
      return OCTET_OK;
    case OCT_ATTRIBUTE_STRINGS: return copy_strings(ctx, graph, to, from);
    case OCT_ATTRIBUTE_TENSOR: to->tensor = oct_tensor_retain(from->tensor); return OCTET_OK;
    case OCT_ATTRIBUTE_INT:
    case OCT_ATTRIBUTE_FLOAT: return OCTET_OK;
  }
  return OCTET_OK;
}

octet_status oct_node_set_attribute(octet_context *ctx, oct_graph *graph, oct_node *node, const oct_attribute *attribute) {
  oct_attribute *wider = oct_region_alloc(ctx, &graph->region, (size_t)node->n_attributes + 1, sizeof *wider);
  if (!wider) return OCTET_OUT_OF_MEMORY;
  oct_attribute copy;
  OCT_TRY(copy_attribute(ctx, graph, attribute, &copy));
  oct_node_clear_attribute(node, attribute->name);
  if (node->n_attributes) memcpy(wider, node->attributes, (size_t)node->n_attributes * sizeof *wider);
  wider[node->n_attributes++] = copy;
  node->attributes = wider;
  return OCTET_OK;
}

octet_status oct_node_set_int(octet_context *ctx, oct_graph *graph, oct_node *node, const char *name, int64_t value) {
  return oct_node_set_attribute(ctx, graph, node, &(oct_attribute){.name = name, .type = OCT_ATTRIBUTE_INT, .i = value});
}

octet_status oct_node_set_float(octet_context *ctx, oct_graph *graph, oct_node *node, const char *name, float value) {
  return oct_node_set_attribute(ctx, graph, node, &(oct_attribute){.name = name, .type = OCT_ATTRIBUTE_FLOAT, .f = value});
}

octet_status oct_node_set_string(octet_context *ctx, oct_graph *graph, oct_node *node, const char *name, const char *value) {
  return oct_node_set_attribute(ctx, graph, node, &(oct_attribute){.name = name, .type = OCT_ATTRIBUTE_STRING, .s = value});
}

octet_status oct_node_set_ints(octet_context *ctx, oct_graph *graph, oct_node *node, const char *name, const int64_t *values,
                               size_t count) {
  oct_attribute attribute = {.name = name, .type = OCT_ATTRIBUTE_INTS, .count = count, .ints = (int64_t *)(uintptr_t)values};
  return oct_node_set_attribute(ctx, graph, node, &attribute);
}

static const char *fallback_of(const oct_node *node, const char *name) {
  for (const oct_attribute_spec *spec = node->op->attributes; spec && spec->name; spec++)
    if (strcmp(spec->name, name) == 0) return spec->fallback;
  return NULL;
}

int64_t oct_node_int(const oct_node *node, const char *name) {
  const oct_attribute *a = oct_node_attribute(node, name);
  if (a && a->type == OCT_ATTRIBUTE_INT) return a->i;
  const char *text = fallback_of(node, name);
  return text ? strtoll(text, NULL, 10) : 0;
}

float oct_node_float(const oct_node *node, const char *name) {
  const oct_attribute *a = oct_node_attribute(node, name);
  if (a && a->type == OCT_ATTRIBUTE_FLOAT) return a->f;
  const char *text = fallback_of(node, name);
  return text ? strtof(text, NULL) : 0;
}

const char *oct_node_string(const oct_node *node, const char *name) {
  const oct_attribute *a = oct_node_attribute(node, name);
  if (a && a->type == OCT_ATTRIBUTE_STRING) return a->s;
  const char *text = fallback_of(node, name);
  return text ? text : "";
}

const int64_t *oct_node_ints(const oct_node *node, const char *name, size_t *count) {
  const oct_attribute *a = oct_node_attribute(node, name);
  bool given = a && a->type == OCT_ATTRIBUTE_INTS;
  *count = given ? a->count : 0;
  return given ? a->ints : NULL;
}
