/* Calibration: the float graph after the passes, run on samples with the observed values as additional outputs.
 * SPDX-License-Identifier: MIT */
#include "quantize/calibration.h"

#include "ops/fold.h"
#include "passes/pass.h"
#include "quantize/probe.h"

/* ---- Prepare ---------------------------------------------------------------------------------------------------------- */

static octet_status check_not_quantized(octet_context *ctx, const oct_graph *g) {
  for (size_t i = 0; i < g->n_values; i++)
    if (g->values[i]->quant)
      return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "the graph is quantized already: \"%s\" carries parameters", g->values[i]->name);
  return OCTET_OK;
}

static octet_status scaled_constant(octet_context *ctx, oct_graph *g, const oct_value *v, float factor, oct_value **out) {
  const float *x = v->tensor->data;
  oct_tensor *tensor;
  int64_t count = oct_shape_count(&v->tensor->shape);
  OCT_TRY(oct_tensor_create(ctx, OCT_F32, &v->tensor->shape, &tensor));
  for (int64_t i = 0; i < count; i++) ((float *)tensor->data)[i] = x[i] * factor;
  return oct_graph_constant(ctx, g, v->name, tensor, out);
}

static bool is_float_constant(const oct_value *v) { return oct_constant_of(v) && !v->quant && v->tensor->dtype == OCT_F32; }

/* Factors of a matrix product go into its constants: the integer form has none. */
static octet_status absorb_factors(octet_context *ctx, oct_graph *g, oct_node *node) {
  const oct_attribute *alpha = oct_node_attribute(node, "alpha"), *beta = oct_node_attribute(node, "beta");
  if (node->n_inputs < 2 || oct_node_role(node, 1) != OCT_ROLE_WEIGHT || !is_float_constant(node->inputs[1])) return OCTET_OK;
  if (alpha && alpha->type == OCT_ATTRIBUTE_FLOAT && alpha->f != 1) {
    OCT_TRY(scaled_constant(ctx, g, node->inputs[1], alpha->f, &node->inputs[1]));
    oct_node_clear_attribute(node, "alpha");
  }
  if (node->n_inputs > 2 && beta && beta->type == OCT_ATTRIBUTE_FLOAT && beta->f != 1 && beta->f != 0 &&
      is_float_constant(node->inputs[2])) {
    OCT_TRY(scaled_constant(ctx, g, node->inputs[2], beta->f, &node->inputs[2]));
    oct_node_clear_attribute(node, "beta");
  }
  return OCTET_OK;
}

static octet_status make_graph(oct_calibration *c, const oct_graph *graph, const oct_quantize_options *options) {
  octet_context *ctx = c->ctx;
  OCT_TRY(oct_graph_copy(ctx, graph, &c->graph));
  OCT_TRY(oct_graph_prune(ctx, c->graph));
  OCT_TRY(check_not_quantized(ctx, c->graph));
  OCT_TRY(oct_passes_run(ctx, c->graph, options->disabled_passes));
  OCT_TRY(oct_fold_constants(ctx, c->graph)); /* half-precision weights behind casts, which the passes leave */
  for (size_t i = 0; i < c->graph->n_nodes; i++)
    if (oct_node_has(c->graph->nodes[i], OCT_TRAIT_ACCUMULATES)) OCT_TRY(absorb_factors(ctx, c->graph, c->graph->nodes[i]));
  OCT_TRY(oct_graph_prune(ctx, c->graph));
  return oct_graph_infer(ctx, c->graph);
}

/* Interior values of fused steps. */
static void mark_inside(oct_calibration *c) {
  for (size_t i = 0; i < c->graph->n_nodes; i++) {
    const oct_node *root = c->fusion.root[i];
    if (!root) continue;
    const oct_value *output = c->fusion.fusions[root->id].output, *inner = root->outputs[0], *mine = c->graph->nodes[i]->outputs[0];
    if (inner != output) c->values[inner->id].inside = true;
    if (mine != output) c->values[mine->id].inside = true;
  }
}

/* Values that the first scheme needs, those they may take their range from, and the parts of concatenations. */
static octet_status choose_observed(oct_calibration *c) {
  oct_graph *g = c->graph;
  for (size_t i = 0; i < g->n_nodes; i++) {
    const oct_node *node = g->nodes[i];
    for (int k = 0; k < node->n_inputs && oct_node_joins(node) && c->nodes[i].mode == OCT_MODE_INT8; k++)
      if (node->inputs[k]) c->values[node->inputs[k]->id].watched = true;
  }
  for (size_t i = 0; i < g->n_values; i++) {
    const oct_value *v = g->values[i];
    oct_value_choice *choice = &c->values[i];
    if (!(choice->needed || choice->watched) || v->dtype != OCT_F32 || v->kind == OCT_CONSTANT || choice->inside) continue;
    choice->observer = oct_alloc(c->ctx, 1, sizeof *choice->observer);
    if (!choice->observer) return OCTET_OUT_OF_MEMORY;
    c->wants_data = true;
  }
  return OCTET_OK;
}

static octet_status prepare(oct_calibration *c, const oct_graph *graph, const oct_quantize_options *options) {
  octet_context *ctx = c->ctx;
  OCT_TRY(make_graph(c, graph, options));
  OCT_TRY(oct_fuse(ctx, c->graph, OCT_FUSE_ALL & ~(unsigned)OCT_FUSE_ATTENTION, &c->fusion));
  OCT_TRY(oct_graph_uses(ctx, c->graph, &c->uses));
  c->nodes = oct_alloc(ctx, c->graph->n_nodes + 1, sizeof *c->nodes);
  c->values = oct_alloc(ctx, c->graph->n_values + 1, sizeof *c->values);
  if (!c->nodes || !c->values) return OCTET_OUT_OF_MEMORY;
  mark_inside(c);
  OCT_TRY(oct_settings_apply(c, options));
  OCT_TRY(oct_scheme_decide(c));
  if (options->strict && options->mode == OCT_MODE_INT8) OCT_TRY(oct_scheme_check_strict(c));
  return choose_observed(c);
}

octet_status oct_quantize_prepare(octet_context *ctx, const oct_graph *graph, const oct_quantize_options *options, oct_calibration **out) {
  *out = NULL;
  const oct_observer_settings *o = &options->observers;
  if (!(o->percentile > 50 && o->percentile <= 100) || !(o->momentum > 0 && o->momentum <= 1))
    return oct_fail(ctx, OCTET_INVALID_ARGUMENT, "observers: the percentile must lie in (50, 100] and the momentum in (0, 1]");
  oct_calibration *c = oct_alloc(ctx, 1, sizeof *c);
  if (!c) return OCTET_OUT_OF_MEMORY;
  c->ctx = ctx;
  c->options = *options;
  c->options.keep_float = NULL;
  c->options.config = NULL;
  c->options.disabled_passes = NULL;
  octet_status status = prepare(c, graph, options);
  if (status != OCTET_OK) {
    oct_calibration_destroy(c);
    return status;
  }
  *out = c;
  return OCTET_OK;
}

void oct_calibration_destroy(oct_calibration *c) {
  if (!c) return;
  for (size_t i = 0; c->values && i < c->graph->n_values; i++) oct_free(c->values[i].observer);
  oct_probe_destroy(c->probe);
  oct_watching_destroy(c->watching);
  oct_fusion_map_free(&c->fusion);
  oct_uses_free(&c->uses);
  oct_free(c->nodes);
  oct_free(c->values);
  oct_graph_destroy(c->graph);
  oct_region_free(&c->region);
  oct_free(c);
}

const oct_graph *oct_calibration_graph(const oct_calibration *calibration) { return calibration->graph; }
bool oct_calibration_wants_data(const oct_calibration *calibration) { return calibration->wants_data; }

/* ---- Observe ---------------------------------------------------------------------------------------------------------- */

static octet_status start_probe(oct_calibration *c) {
  if (c->probe) return OCTET_OK;
  size_t count = 0, room = c->graph->n_values + 1;
  const char **names = oct_alloc(c->ctx, room, sizeof *names);
  oct_observer **observers = oct_alloc(c->ctx, room, sizeof *observers);
  octet_status status = names && observers ? OCTET_OK : OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < c->graph->n_values && status == OCTET_OK; i++) {
    if (!c->values[i].observer) continue;
    observers[count] = c->values[i].observer;
    names[count++] = c->graph->values[i]->name;
  }
  if (status == OCTET_OK && !c->watching)
    status = oct_watching_create(c->ctx, &c->options.observers, observers, names, count, &c->watching);
  if (status == OCTET_OK) {
    oct_watch watch = oct_watching_functions(c->watching);
    status = oct_probe_create_watching(c->ctx, c->graph, names, count, &watch, &c->probe);
  }
  oct_free(names);
  oct_free(observers);
  return status;
}

octet_status oct_calibration_observe(oct_calibration *c, const oct_named_tensor *inputs, size_t count) {
  if (!c->wants_data) return OCTET_OK;
  OCT_TRY(start_probe(c));
  oct_probe_pieces pieces;
  OCT_TRY(oct_probe_batch(c->probe, inputs, count, true, &pieces));
  for (size_t begin = 0, n = 0; oct_probe_next(&pieces, &begin, &n);) {
    oct_probe_run run;
    OCT_TRY(oct_watching_begin(c->watching, pieces.piece));
    OCT_TRY(oct_probe_run_piece(c->probe, inputs, count, &pieces, begin, n, &run));
    OCT_TRY(oct_watching_end(c->watching));
    c->samples += run.samples;
  }
  return OCTET_OK;
}
