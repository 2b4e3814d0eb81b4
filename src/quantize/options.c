/* Options: names, defaults, and which settings reach which node and value.
 * SPDX-License-Identifier: MIT */
#include "quantize/calibration.h"

static const char *const mode_names[] = {[OCT_MODE_INT8] = "int8",
                                         [OCT_MODE_DYNAMIC] = "dynamic",
                                         [OCT_MODE_WEIGHT_ONLY] = "weight-only",
                                         [OCT_MODE_FP16] = "fp16",
                                         [OCT_MODE_FLOAT] = "float"};

bool oct_quantize_mode_parse(const char *name, oct_quantize_mode *mode) {
  for (size_t i = 0; i < sizeof mode_names / sizeof *mode_names; i++) {
    if (strcmp(mode_names[i], name) != 0) continue;
    *mode = (oct_quantize_mode)i;
    return true;
  }
  return false;
}

const char *oct_quantize_mode_name(oct_quantize_mode mode) { return mode_names[mode]; }

oct_quantize_options oct_quantize_options_default(void) {
  return (oct_quantize_options){.mode = OCT_MODE_INT8, .observer = OCT_OBSERVER_MINMAX, .observers = oct_observer_settings_default()};
}

/* '*' stands for any run of characters. Greedy with one point to return to, so linear in practice and never worse than quadratic. */
static bool matches(const char *pattern, const char *text) {
  const char *star = NULL, *retry = NULL;
  while (*text) {
    if (*pattern == '*') {
      star = pattern++;
      retry = text;
    } else if (*pattern == *text) {
      pattern++, text++;
    } else if (star) {
      pattern = star + 1;
      text = ++retry;
    } else {
      return false;
    }
  }
  while (*pattern == '*') pattern++;
  return !*pattern;
}

/* Nodes that a setting reaches together: a convolution with what is fused to it is one layer. */
static oct_node *layer_of(const oct_calibration *c, oct_node *node) {
  oct_node *root = c->fusion.root[node->id];
  return root ? root : node;
}

static void request_float(oct_calibration *c, oct_node *node) {
  oct_node_choice *choice = &c->nodes[layer_of(c, node)->id];
  choice->mode = OCT_MODE_FLOAT;
  choice->by_request = true;
}

static octet_status keep_float(oct_calibration *c, const char *name) {
  bool found = false;
  for (size_t i = 0; i < c->graph->n_nodes; i++) {
    if (strcmp(c->graph->nodes[i]->name, name) != 0) continue;
    request_float(c, c->graph->nodes[i]);
    found = true;
  }
  if (found) return OCTET_OK;
  oct_value *value = oct_graph_find(c->graph, name);
  if (!value)
    return oct_fail(c->ctx, OCTET_INVALID_ARGUMENT, "keep-float: the graph has no node or value \"%s\" (after folding and fusing)", name);
  c->values[value->id].blocked = "kept float by request";
  return OCTET_OK;
}

static bool reaches(const oct_layer_setting *s, const oct_node *node) {
  if (matches(s->pattern, node->name) || matches(s->pattern, node->op->name)) return true;
  for (int i = 0; i < node->n_outputs; i++)
    if (node->outputs[i] && matches(s->pattern, node->outputs[i]->name)) return true;
  return false;
}

static void set_value(oct_value_choice *v, const oct_layer_setting *s) {
  if (s->has_observer) v->kind = s->observer;
  if (s->has_scale) v->has_scale = true, v->scale = s->scale;
  if (s->has_zero_point) v->has_zero_point = true, v->zero_point = s->zero_point;
}

static void set_layer(oct_calibration *c, oct_node *node, const oct_layer_setting *s) {
  oct_node *layer = layer_of(c, node);
  oct_node_choice *choice = &c->nodes[layer->id];
  if (s->has_mode) choice->mode = s->mode, choice->by_request = s->mode == OCT_MODE_FLOAT;
  if (s->has_per_tensor) choice->per_tensor = s->per_tensor;
  oct_value *result = oct_calibration_result(c, layer);
  if (result) set_value(&c->values[result->id], s);
}

static octet_status apply_setting(oct_calibration *c, const oct_layer_setting *s) {
  bool found = false;
  for (size_t i = 0; i < c->graph->n_nodes; i++) {
    if (!reaches(s, c->graph->nodes[i])) continue;
    set_layer(c, c->graph->nodes[i], s);
    found = true;
  }
  for (size_t i = 0; i < c->graph->n_inputs; i++) {
    oct_value *input = c->graph->inputs[i];
    if (!matches(s->pattern, input->name)) continue;
    set_value(&c->values[input->id], s);
    if (s->has_mode && s->mode == OCT_MODE_FLOAT) c->values[input->id].blocked = "kept float by request";
    found = true;
  }
  if (!found)
    return oct_fail(c->ctx, OCTET_INVALID_ARGUMENT, "configuration: \"%s\" matches no layer, operator, value or input of the graph",
                    s->pattern);
  return OCTET_OK;
}

octet_status oct_settings_apply(oct_calibration *c, const oct_quantize_options *options) {
  for (size_t i = 0; i < c->graph->n_nodes; i++) {
    c->nodes[i].mode = options->mode;
    c->nodes[i].per_tensor = options->per_tensor;
  }
  for (size_t i = 0; i < c->graph->n_values; i++) c->values[i].kind = options->observer;
  if (options->config)
    for (size_t i = 0; i < options->config->n_layers; i++) OCT_TRY(apply_setting(c, &options->config->layers[i]));
  for (size_t i = 0; i < options->n_keep_float; i++) OCT_TRY(keep_float(c, options->keep_float[i]));
  return OCTET_OK;
}
