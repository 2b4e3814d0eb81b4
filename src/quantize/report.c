/* The report of a conversion: layers, warnings, bytes.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "quantize/calibration.h"

octet_status oct_report_warn(octet_context *ctx, oct_quantize_report *r, const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  for (size_t i = 0; i < r->n_warnings; i++)
    if (strcmp(r->warnings[i], text) == 0) return OCTET_OK;
  OCT_TRY(oct_grow(ctx, &r->warnings, &r->warnings_capacity, r->n_warnings + 1, sizeof *r->warnings));
  if (!(r->warnings[r->n_warnings] = oct_region_strdup(ctx, &r->region, text))) return OCTET_OUT_OF_MEMORY;
  r->n_warnings++;
  return OCTET_OK;
}

/* A node has a layer entry when it computes on floats (or on what becomes 8 bits), and is not part of another one's step. */
static bool is_reported(const oct_calibration *c, const oct_node *node) {
  if (oct_is_fused_member(c, node) || node->op->quantization.output == OCT_OUTPUT_NONE) return false;
  if (c->nodes[node->id].integer || oct_weight_axis(node) >= 0) return true;
  return c->nodes[node->id].reason && c->options.mode == OCT_MODE_INT8;
}

static const char *type_of(const oct_node_choice *choice, const oct_node *node) {
  if (choice->integer) return "int8";
  bool weights = oct_weight_axis(node) >= 0;
  if (weights && choice->mode == OCT_MODE_FP16) return "float16";
  if (weights && (choice->mode == OCT_MODE_DYNAMIC || choice->mode == OCT_MODE_WEIGHT_ONLY)) return oct_quantize_mode_name(choice->mode);
  return "float";
}

octet_status oct_report_begin(oct_conversion *k) {
  oct_calibration *c = k->calibration;
  k->layers = oct_alloc(c->ctx, c->graph->n_nodes + 1, sizeof *k->layers);
  if (!k->layers) return OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < c->graph->n_nodes; i++) {
    const oct_node *node = c->graph->nodes[i];
    const oct_value *result = oct_calibration_result(c, node);
    oct_layer_report *layer = &k->layers[i];
    *layer = (oct_layer_report){.op = node->op->name,
                                .output = result ? result->name : "",
                                .type = type_of(&c->nodes[i], node),
                                .weight_sqnr_db = NAN,
                                .clipped = NAN};
    if (is_reported(c, node)) layer->name = node->name;
    if (strcmp(layer->type, "float") == 0) layer->reason = c->nodes[i].reason;
    layer->island = c->nodes[i].island && strcmp(layer->type, "float") == 0;
  }
  return OCTET_OK;
}

/* Float constants of layers that stay float count too. */
static void count_float_constants(const oct_calibration *c, const oct_node *node, oct_layer_report *layer) {
  if (layer->weights || strcmp(layer->type, "float") != 0 || layer->bytes) return;
  for (int i = 0; i < node->n_inputs; i++) {
    oct_role role = oct_node_role(node, i);
    const oct_tensor *t = oct_constant_of(node->inputs[i]);
    if (t && (role == OCT_ROLE_WEIGHT || role == OCT_ROLE_BIAS)) layer->bytes += t->bytes;
  }
  (void)c;
}

static octet_status keep_layer(oct_conversion *k, const oct_node *node, const oct_layer_report *from, oct_layer_report *to) {
  octet_context *ctx = k->calibration->ctx;
  oct_region *region = &k->report->region;
  const oct_value *result = oct_calibration_result(k->calibration, node);
  *to = *from;
  to->name = oct_region_strdup(ctx, region, from->name);
  to->output = oct_region_strdup(ctx, region, from->output);
  to->reason = from->reason ? oct_region_strdup(ctx, region, from->reason) : NULL;
  if (!to->name || !to->output || (from->reason && !to->reason)) return OCTET_OUT_OF_MEMORY;
  if (result && k->parameters[result->id].set) to->bytes += sizeof(float) + 1;
  for (size_t i = 0; i < k->report->n_values; i++)
    if (strcmp(k->report->values[i].name, to->output) == 0) to->clipped = k->report->values[i].chosen.effect.clipped;
  return OCTET_OK;
}

/* The step that a use belongs to: a fused node's is its root. */
static const oct_node_choice *reader_of(const oct_calibration *c, const oct_use *use) {
  if (!use->node) return NULL;
  const oct_node *root = c->fusion.root[use->node->id];
  return &c->nodes[root ? root->id : use->node->id];
}

/* Per result: one where an island reads what an integer layer made, one where an island's result is rounded. */
static int count_boundaries(const oct_calibration *c) {
  int count = 0;
  for (size_t i = 0; i < c->graph->n_nodes; i++) {
    const oct_node *node = c->graph->nodes[i];
    const oct_value *v = oct_is_fused_member(c, node) ? NULL : oct_calibration_result(c, node);
    bool read = false;
    if (!v) continue;
    for (int u = c->uses.first[v->id]; u < c->uses.first[v->id + 1]; u++) {
      const oct_node_choice *reader = reader_of(c, &c->uses.uses[u]);
      read = read || (reader && reader->island);
    }
    count += (c->nodes[i].integer && read) + (c->nodes[i].island && c->values[v->id].needed);
  }
  return count;
}

octet_status oct_report_finish(oct_conversion *k) {
  oct_calibration *c = k->calibration;
  oct_quantize_report *r = k->report;
  r->layers = oct_region_alloc(c->ctx, &r->region, c->graph->n_nodes + 1, sizeof *r->layers);
  if (!r->layers) return OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < c->graph->n_nodes; i++) {
    const oct_node *node = c->graph->nodes[i];
    oct_layer_report *layer = &k->layers[i];
    if (!layer->name) continue;
    count_float_constants(c, node, layer);
    OCT_TRY(keep_layer(k, node, layer, &r->layers[r->n_layers]));
    r->bytes += r->layers[r->n_layers].bytes;
    if (strcmp(layer->type, "float") == 0) r->n_float++;
    else r->n_integer++;
    r->n_layers++;
  }
  r->boundaries = count_boundaries(c);
  for (size_t i = 0; i < c->graph->n_inputs; i++)
    if (k->parameters[c->graph->inputs[i]->id].set) r->bytes += sizeof(float) + 1;
  return OCTET_OK;
}

void oct_quantize_report_free(oct_quantize_report *report) {
  oct_free(report->values);
  oct_free(report->warnings);
  oct_region_free(&report->region);
  *report = (oct_quantize_report){0};
}
