/* The report of a comparison: sums become decibels, layers get their types and reasons from the planner, and what looks wrong is said by
 * name.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "quantize/compare.h"

#define NOTABLE_CLIPPING 0.001
#define BAD_LAYER_DB 30.0 /* below, a layer alone loses enough to look for a cause */
#define BAD_SPREAD 8.0    /* one weight scale for channels that differ as many times leaves the narrowest 16 steps each way */
#define LOST_SPREAD 32.0  /* 4 steps: that channel is lost, however little it weighs in the layer's ratio */

static octet_status warn(oct_comparison *k, const char *format, ...) __attribute__((format(printf, 2, 3)));
static octet_status warn(oct_comparison *k, const char *format, ...) {
  oct_compare_report *r = k->report;
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  OCT_TRY(oct_grow(k->ctx, &r->warnings, &r->warnings_capacity, r->n_warnings + 1, sizeof *r->warnings));
  if (!(r->warnings[r->n_warnings] = oct_region_strdup(k->ctx, &r->region, text))) return OCTET_OUT_OF_MEMORY;
  r->n_warnings++;
  return OCTET_OK;
}

/* ---- Types -------------------------------------------------------------------------------------------------------------- */

static const oct_node_report *planned(const oct_session *s, const char *name) {
  for (size_t i = 0; s && i < s->graph->n_nodes; i++)
    if (strcmp(s->graph->nodes[i]->name, name) == 0) return &s->plan.reports[i];
  return NULL;
}

static bool is_half(const oct_value *v) {
  const oct_node *cast = v->producer;
  return oct_constant_of(v) ? v->tensor->dtype == OCT_F16
                            : cast && cast->n_inputs == 1 && oct_constant_of(cast->inputs[0]) && cast->inputs[0]->tensor->dtype == OCT_F16;
}

static const char *type_of(const oct_node *node, const oct_node_report *r) {
  const oct_value *w = oct_node_has(node, OCT_TRAIT_ACCUMULATES) && node->n_inputs > 1 ? node->inputs[1] : NULL;
  bool int8 = w && oct_constant_of(w) && w->quant;
  bool integer = r ? r->integer : node->inputs[0] && oct_quant_is_8bit(node->inputs[0]->quant);
  if (int8 && oct_node_int(node, "dynamic")) return "dynamic";
  if (integer && (!w || int8)) return "int8";
  if (int8) return "weight-only";
  return w && is_half(w) ? "float16" : "float";
}

static bool reads(const oct_comparison *k, const oct_node *node, const oct_value *v) {
  const oct_fusion *f = &k->fusion.fusions[node->id];
  bool found = oct_node_has(node, OCT_TRAIT_ACCUMULATES) && f->residual == v;
  for (int n = 0; n < node->n_inputs && !found; n++) found = node->inputs[n] == v;
  return found;
}

/* Islands: float layers that an integer layer depends on. Backwards, so that chains of float layers are found in one sweep. */
static void mark_islands(oct_comparison *k) {
  oct_compare_report *r = k->report;
  for (size_t i = k->n_layers; i-- > 0;) {
    if (strcmp(r->layers[i].type, "float") != 0) continue;
    for (size_t j = i + 1; j < k->n_layers && !r->layers[i].island; j++) {
      bool leads = r->layers[j].island || strcmp(r->layers[j].type, "int8") == 0;
      r->layers[i].island = leads && reads(k, k->layers[j].node, k->layers[i].result);
    }
  }
}

/* Per result: one where an island reads what an integer layer made, one where an island's result is rounded. */
static void count_boundaries(oct_comparison *k) {
  oct_compare_report *r = k->report;
  for (size_t i = 0; i < k->n_layers; i++) {
    const oct_value *v = k->layers[i].result;
    bool integer = strcmp(r->layers[i].type, "int8") == 0, read = false;
    for (size_t j = i + 1; j < k->n_layers && integer && !read; j++) read = r->layers[j].island && reads(k, k->layers[j].node, v);
    r->boundaries += (integer && read) + (r->layers[i].island && oct_quant_is_8bit(v->quant));
  }
}

/* ---- Causes ------------------------------------------------------------------------------------------------------------- */

/* How many times the largest of the widest channel's weights is that of the narrowest; 1 unless there is one scale for all. */
static double channel_spread(const oct_node *node) {
  const oct_value *w = node->n_inputs > 1 ? node->inputs[1] : NULL;
  const oct_tensor *t = oct_constant_of(w);
  if (!t || !w->quant || w->quant->axis >= 0 || t->dtype != OCT_I8 || t->shape.rank < 2) return 1;
  int axis = node->op->quantization.weight_axis ? node->op->quantization.weight_axis(node) : 0;
  if (axis < 0 || axis >= t->shape.rank) return 1;
  int64_t inner = 1, channels = t->shape.dim[axis], count = oct_shape_count(&t->shape);
  for (int d = axis + 1; d < t->shape.rank; d++) inner *= t->shape.dim[d];
  int narrowest = 127;
  for (int64_t c = 0; c < channels; c++) {
    int largest = 0;
    for (int64_t e = 0; e < count; e++) {
      int q = ((const int8_t *)t->data)[e];
      if (e / inner % channels == c && (q < 0 ? -q : q) > largest) largest = q < 0 ? -q : q;
    }
    if (largest < narrowest) narrowest = largest;
  }
  return 127.0 / (narrowest > 0 ? narrowest : 0.5);
}

static octet_status judge_layer(oct_comparison *k, const oct_compare_layer *layer, const oct_node *node) {
  if (layer->clipped > NOTABLE_CLIPPING)
    OCT_TRY(warn(k, "\"%s\" (%s): %.3g %% of its results lie outside its 8-bit range and are clipped", layer->name, layer->op,
                 100 * layer->clipped));
  double spread = strcmp(layer->type, "int8") == 0 ? channel_spread(node) : 1;
  if (spread >= (layer->sqnr_alone_db < BAD_LAYER_DB ? BAD_SPREAD : LOST_SPREAD))
    return warn(k,
                "\"%s\" (%s): %.1f dB alone; the cause is one weight scale per tensor for channels that differ more than %.3g times: use a "
                "scale per channel",
                layer->name, layer->op, layer->sqnr_alone_db, spread);
  return OCTET_OK;
}

/* ---- Putting together ------------------------------------------------------------------------------------------------------ */

static octet_status copy_text(oct_comparison *k, const char *text, const char **out) {
  *out = text ? oct_region_strdup(k->ctx, &k->report->region, text) : NULL;
  return text && !*out ? OCTET_OUT_OF_MEMORY : OCTET_OK;
}

static octet_status fill_layer(oct_comparison *k, const oct_session *s, size_t i) {
  const oct_compared_layer *from = &k->layers[i];
  oct_compare_layer *to = &k->report->layers[i];
  const oct_node_report *planner = planned(s, from->node->name);
  *to = (oct_compare_layer){
      .op = from->node->op->name, .type = type_of(from->node, planner), .sqnr_db = oct_error_sqnr(&from->along), .clipped = NAN};
  bool is_float = strcmp(to->type, "float") == 0;
  to->sqnr_alone_db = is_float ? NAN : oct_error_sqnr(&from->alone);
  if (from->seen) to->clipped = (double)from->clipped / (double)from->seen;
  OCT_TRY(copy_text(k, from->node->name, &to->name));
  OCT_TRY(copy_text(k, from->result->name, &to->output));
  return copy_text(k, is_float && planner ? planner->decline : NULL, &to->reason);
}

static octet_status fill_outputs_and_inputs(oct_comparison *k) {
  oct_compare_report *r = k->report;
  r->n_outputs = k->n_outputs;
  for (size_t i = 0; i < k->n_outputs; i++) {
    OCT_TRY(copy_text(k, k->reference->outputs[i]->name, &r->outputs[i].name));
    r->outputs[i].sqnr_db = oct_error_sqnr(&k->outputs[i]);
    r->outputs[i].max_error = k->outputs[i].max_error;
    if (k->outputs[i].not_finite)
      OCT_TRY(warn(k, "output \"%s\": %zu of %zu elements are NaN or infinite in one model and not so in the other", r->outputs[i].name,
                   k->outputs[i].not_finite, k->outputs[i].count));
  }
  for (size_t i = 0; i < k->quantized->n_inputs; i++) {
    const oct_value *v = k->quantized->inputs[i];
    if (!k->inside[i]) continue;
    oct_compare_input *in = &r->inputs[r->n_inputs++];
    in->outside = (double)k->outside[i] / (double)k->inside[i];
    OCT_TRY(copy_text(k, v->name, &in->name));
    int low = v->quant->dtype == OCT_I8 ? -128 : 0;
    if (in->outside > NOTABLE_CLIPPING)
      OCT_TRY(warn(
          k, "input \"%s\": %.3g %% of its values lie outside the range it was calibrated for, [%g, %g]; is the preprocessing the same?",
          v->name, 100 * in->outside, (double)((float)(low - v->quant->zero_point[0]) * v->quant->scale[0]),
          (double)((float)(low + 255 - v->quant->zero_point[0]) * v->quant->scale[0])));
  }
  return OCTET_OK;
}

octet_status oct_compare_finish(oct_comparison *k) {
  octet_context *ctx = k->ctx;
  oct_compare_report *r = k->report;
  r->layers = oct_region_alloc(ctx, &r->region, k->n_layers + 1, sizeof *r->layers);
  r->outputs = oct_region_alloc(ctx, &r->region, k->n_outputs + 1, sizeof *r->outputs);
  r->inputs = oct_region_alloc(ctx, &r->region, k->quantized->n_inputs + 1, sizeof *r->inputs);
  if (!r->layers || !r->outputs || !r->inputs) return OCTET_OUT_OF_MEMORY;
  oct_session_options options = oct_session_options_default();
  oct_session *s = NULL;
  options.shapes = oct_probe_sample_shapes(k->quantized_probe, &options.n_shapes);
  octet_status status = oct_session_create(ctx, k->quantized, &options, &s);
  if (status == OCTET_OUT_OF_MEMORY) return status;
  status = OCTET_OK; /* without fixed shapes there is no plan to ask; the graph tells enough */
  r->n_layers = k->n_layers;
  for (size_t i = 0; i < k->n_layers && status == OCTET_OK; i++) status = fill_layer(k, s, i);
  oct_session_destroy(s);
  OCT_TRY(status);
  OCT_TRY(fill_outputs_and_inputs(k));
  mark_islands(k);
  count_boundaries(k);
  for (size_t i = 0; i < k->n_layers; i++) OCT_TRY(judge_layer(k, &r->layers[i], k->layers[i].node));
  return OCTET_OK;
}
