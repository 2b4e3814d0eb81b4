/* The neutral node view: what importers and exporters of all formats share. Containers are in formats/, the rows in each operator's file.
 * SPDX-License-Identifier: MIT */
#include "ops/foreign.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAX_OUTPUTS 1024

const oct_attribute *oct_foreign_attribute(const oct_foreign_node *node, const char *name) {
  for (int i = 0; i < node->n_attributes; i++)
    if (strcmp(node->attributes[i].name, name) == 0) return &node->attributes[i];
  return NULL;
}

int64_t oct_foreign_int(const oct_foreign_node *node, const char *name, int64_t fallback) {
  const oct_attribute *a = oct_foreign_attribute(node, name);
  return a && a->type == OCT_ATTRIBUTE_INT ? a->i : fallback;
}

float oct_foreign_float(const oct_foreign_node *node, const char *name, float fallback) {
  const oct_attribute *a = oct_foreign_attribute(node, name);
  return a && a->type == OCT_ATTRIBUTE_FLOAT ? a->f : fallback;
}

const char *oct_foreign_string(const oct_foreign_node *node, const char *name, const char *fallback) {
  const oct_attribute *a = oct_foreign_attribute(node, name);
  return a && a->type == OCT_ATTRIBUTE_STRING ? a->s : fallback;
}

/* The node's name, or that of its first output. */
static const char *foreign_name(const oct_foreign_node *node) {
  if (node->name && *node->name) return node->name;
  for (int i = 0; i < node->n_outputs; i++)
    if (node->outputs[i] && *node->outputs[i]) return node->outputs[i];
  return "";
}

octet_status oct_import_unsupported(oct_importer *importer, const oct_foreign_node *node, const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return oct_fail(importer->ctx, OCTET_UNSUPPORTED, "node \"%s\" (%s): %s", foreign_name(node), node->type, text);
}

octet_status oct_import_node(oct_importer *importer, const oct_foreign_node *node, const char *op, oct_value *const *inputs, int n_inputs,
                             int n_outputs, oct_node **out) {
  *out = NULL;
  const oct_op *found = oct_op_find(op);
  if (!found) return oct_import_unsupported(importer, node, "it needs the operator \"%s\", which this build does not have", op);
  return oct_graph_node(importer->ctx, importer->graph, found, foreign_name(node), inputs, n_inputs, n_outputs, out);
}

static const oct_attribute_spec *find_spec(const oct_op *op, const char *name) {
  for (const oct_attribute_spec *spec = op->attributes; spec && spec->name; spec++)
    if (strcmp(spec->name, name) == 0) return spec;
  return NULL;
}

static bool listed(const char *const *names, const char *name) {
  for (; names && *names; names++)
    if (strcmp(*names, name) == 0) return true;
  return false;
}

static const char *type_text(oct_attribute_type type) {
  static const char *const texts[] = {"an integer",       "a float",           "a string", "a list of integers",
                                      "a list of floats", "a list of strings", "a tensor"};
  return texts[type];
}

octet_status oct_import_attributes(oct_importer *importer, const oct_foreign_node *node, oct_node *into, const char *const *ignore) {
  for (int i = 0; i < node->n_attributes; i++) {
    const oct_attribute *a = &node->attributes[i];
    if (listed(ignore, a->name)) continue;
    const oct_attribute_spec *spec = find_spec(into->op, a->name);
    if (!spec) return oct_import_unsupported(importer, node, "attribute \"%s\" is not known for this operator", a->name);
    if (spec->type != a->type && !(a->count == 0 && a->type >= OCT_ATTRIBUTE_INTS && a->type <= OCT_ATTRIBUTE_STRINGS))
      return oct_fail(importer->ctx, OCTET_GRAPH, "node \"%s\" (%s): attribute \"%s\" is %s; it must be %s", foreign_name(node), node->type,
                      a->name, type_text(a->type), type_text(spec->type));
    oct_attribute copy = *a;
    copy.type = spec->type;
    OCT_TRY(oct_node_set_attribute(importer->ctx, importer->graph, into, &copy));
  }
  return OCTET_OK;
}

octet_status oct_import_bind(oct_importer *importer, const oct_foreign_node *foreign, int i, oct_value *value) {
  if (i >= foreign->n_outputs || !foreign->outputs[i] || !*foreign->outputs[i]) return OCTET_OK;
  if (!value) return oct_import_unsupported(importer, foreign, "output %d (\"%s\") is not computed", i, foreign->outputs[i]);
  return importer->bind(importer, foreign->outputs[i], value);
}

octet_status oct_import_finish(oct_importer *importer, const oct_foreign_node *foreign, oct_node *node) {
  for (int i = node->n_outputs; i < foreign->n_outputs; i++)
    if (foreign->outputs[i] && *foreign->outputs[i])
      return oct_import_unsupported(importer, foreign, "output %d (\"%s\") is not known for this operator", i, foreign->outputs[i]);
  for (int i = 0; i < node->n_outputs && i < foreign->n_outputs; i++)
    if (node->outputs[i] && foreign->outputs[i] && *foreign->outputs[i])
      OCT_TRY(oct_value_rename(importer->ctx, importer->graph, node->outputs[i], foreign->outputs[i]));
  OCT_TRY(oct_node_infer(importer->ctx, node));
  for (int i = 0; i < node->n_outputs && i < foreign->n_outputs; i++) OCT_TRY(oct_import_bind(importer, foreign, i, node->outputs[i]));
  return OCTET_OK;
}

octet_status oct_import_default(oct_importer *importer, const oct_foreign_node *foreign, const oct_op *op) {
  int n_inputs = foreign->n_inputs, n_outputs = foreign->n_outputs;
  while (n_inputs > 0 && !foreign->inputs[n_inputs - 1]) n_inputs--;
  while (n_outputs > op->min_outputs && n_outputs > 0 && (!foreign->outputs[n_outputs - 1] || !*foreign->outputs[n_outputs - 1]))
    n_outputs--;
  if (n_outputs < op->min_outputs) n_outputs = op->min_outputs;
  int most = op->max_outputs < 0 ? MAX_OUTPUTS : op->max_outputs;
  if (n_outputs > most) return oct_import_unsupported(importer, foreign, "it has %d outputs; at most %d are known", n_outputs, most);
  if (n_inputs < op->min_inputs || (op->max_inputs >= 0 && n_inputs > op->max_inputs))
    return oct_fail(importer->ctx, OCTET_GRAPH, "node \"%s\" (%s): %d inputs are given; it takes %d to %d", foreign_name(foreign),
                    foreign->type, n_inputs, op->min_inputs, op->max_inputs < 0 ? n_inputs : op->max_inputs);
  oct_node *node;
  OCT_TRY(oct_import_node(importer, foreign, op->name, foreign->inputs, n_inputs, n_outputs, &node));
  OCT_TRY(oct_import_attributes(importer, foreign, node, NULL));
  return oct_import_finish(importer, foreign, node);
}

octet_status oct_import_ints_input(oct_importer *importer, const oct_foreign_node *foreign, const char *name, oct_value **out) {
  *out = NULL;
  const oct_attribute *a = oct_foreign_attribute(foreign, name);
  if (!a) return OCTET_OK;
  char hint[256];
  snprintf(hint, sizeof hint, "%s_%s", foreign_name(foreign), name);
  if (a->type == OCT_ATTRIBUTE_INT) return oct_graph_constant_i64(importer->ctx, importer->graph, hint, &a->i, 1, out);
  if (a->type == OCT_ATTRIBUTE_INTS) return oct_graph_constant_i64(importer->ctx, importer->graph, hint, a->ints, a->count, out);
  return oct_fail(importer->ctx, OCTET_GRAPH, "node \"%s\" (%s): attribute \"%s\" is %s; it must be a list of integers",
                  foreign_name(foreign), foreign->type, name, type_text(a->type));
}

const oct_import_row *oct_import_find(const char *format, const char *type, int version, const oct_op **op) {
  const oct_import_row *best = NULL;
  *op = NULL;
  for (const oct_op *const *candidate = oct_op_registry; *candidate; candidate++)
    for (const oct_import_row *row = (*candidate)->imports; row && row->format; row++) {
      bool fits = row->since <= version && (row->until == 0 || version <= row->until) && (!best || row->since > best->since);
      if (!fits || strcmp(row->name, type) != 0 || strcmp(row->format, format) != 0) continue;
      best = row;
      *op = *candidate;
    }
  return best;
}

const oct_export_row *oct_export_find(const char *format, const oct_op *op) {
  for (const oct_export_row *row = op->exports; row && row->format; row++)
    if (strcmp(row->format, format) == 0) return row;
  return NULL;
}

/* Inputs of `node` by the names under which they are floats; trailing absent ones are dropped. */
static octet_status export_inputs(oct_exporter *exporter, const oct_node *node, const char **names, int *count) {
  *count = node->n_inputs;
  while (*count > 0 && !node->inputs[*count - 1]) --*count;
  for (int i = 0; i < *count; i++) {
    names[i] = node->inputs[i] ? exporter->name_of(exporter, node->inputs[i]) : "";
    if (!names[i]) return exporter->ctx->status;
  }
  return OCTET_OK;
}

octet_status oct_export_default(oct_exporter *exporter, const oct_node *node, const char *foreign_name) {
  octet_context *ctx = exporter->ctx;
  const char **inputs = oct_alloc(ctx, (size_t)node->n_inputs + 1, sizeof *inputs);
  const char **outputs = oct_alloc(ctx, (size_t)node->n_outputs + 1, sizeof *outputs);
  oct_attribute *attributes = oct_alloc(ctx, (size_t)node->n_attributes + 1, sizeof *attributes);
  octet_status status = inputs && outputs && attributes ? OCTET_OK : OCTET_OUT_OF_MEMORY;
  oct_foreign_node foreign = {.type = foreign_name,
                              .domain = "",
                              .name = node->name,
                              .version = exporter->version,
                              .outputs = outputs,
                              .n_outputs = node->n_outputs,
                              .attributes = attributes};
  if (status == OCTET_OK) status = export_inputs(exporter, node, inputs, &foreign.n_inputs);
  for (int i = 0; status == OCTET_OK && i < node->n_outputs; i++) outputs[i] = node->outputs[i] ? node->outputs[i]->name : "";
  for (int i = 0; status == OCTET_OK && i < node->n_attributes; i++) /* these are Octet's own */
    if (strcmp(node->attributes[i].name, "dynamic") != 0 && strcmp(node->attributes[i].name, "per_sample") != 0)
      attributes[foreign.n_attributes++] = node->attributes[i];
  if (status == OCTET_OK) status = exporter->emit(exporter, &foreign, inputs);
  oct_free(inputs);
  oct_free(outputs);
  oct_free(attributes);
  return status;
}
