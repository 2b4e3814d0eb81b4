/* Dynamic quantization with a range that the graph already bounds (after Clip, sigmoid, softmax, ...): where only dynamically quantized layers read such
 * a value, per image or per row, it carries the parameters of that range, and no layer needs to look for one in the data. A range always includes 0.
 * SPDX-License-Identifier: MIT */
#include <math.h>

#include "passes/rewrite.h"

typedef struct range {
  float low, high;
} range;

static bool passes_on(const oct_node *node) {
  return oct_node_has(node, OCT_TRAIT_MOVEMENT) || oct_node_has(node, OCT_TRAIT_WINDOW_MAX) || oct_node_has(node, OCT_TRAIT_IDENTITY);
}

static bool fixed_range(const oct_node *node, range *out) {
  const oct_quantization_rule *rule = &node->op->quantization;
  if (oct_node_has(node, OCT_TRAIT_CLAMP) && node->op->clamp) return node->op->clamp(node, &out->low, &out->high);
  if (rule->output != OCT_OUTPUT_FIXED) return false;
  out->low = rule->fixed_low, out->high = rule->fixed_high;
  return true;
}

/* The range that the producer (or what it moves) guarantees. Padding puts in nothing but constants: it is left out. */
static bool bounded(const oct_value *v, range *out) {
  for (int hops = 0; hops < 64; hops++) {
    const oct_node *node = v->producer;
    if (!node || v->quant || v->dtype != OCT_F32 || node->outputs[0] != v) return false;
    if (fixed_range(node, out)) return isfinite(out->low) && isfinite(out->high) && out->low <= out->high;
    if (!passes_on(node) || strcmp(node->op->name, "pad") == 0 || !node->inputs[0]) return false;
    for (int i = 1; i < node->n_inputs; i++)
      if (node->inputs[i] && node->inputs[i]->dtype == OCT_F32) return false; /* concatenation and the like */
    v = node->inputs[0];
  }
  return false;
}

static bool is_dynamic(const oct_node *node) {
  if (!oct_node_has(node, OCT_TRAIT_ACCUMULATES) || oct_node_int(node, "dynamic") != 1 || node->n_inputs < 2) return false;
  const oct_tensor *w = oct_constant_of(node->inputs[1]);
  return w && w->dtype == OCT_I8 && node->inputs[1]->quant;
}

static bool only_dynamic_users(const oct_rewrite *rw, const oct_value *v) {
  if (!oct_rewrite_is_old(rw, v) || rw->is_output[v->id] || oct_use_count(&rw->uses, v) == 0) return false;
  for (int i = rw->uses.first[v->id]; i < rw->uses.first[v->id + 1]; i++)
    if (!is_dynamic(rw->uses.uses[i].node) || rw->uses.uses[i].index != 0) return false;
  return true;
}

/* Rounding before a move or a maximum gives the same numbers as after it. */
static octet_status set(oct_rewrite *rw, oct_value *v, const oct_quant *params) {
  for (;;) {
    OCT_TRY(oct_value_set_quant(rw->ctx, rw->graph, v, params));
    rw->changed = true;
    oct_node *node = v->producer;
    if (!passes_on(node) || oct_rewrite_only_user(rw, node->inputs[0]) != node || node->inputs[0]->quant) return OCTET_OK;
    v = node->inputs[0];
  }
}

static octet_status visit(oct_rewrite *rw, oct_value *v) {
  range r;
  if (!only_dynamic_users(rw, v) || !bounded(v, &r)) return OCTET_OK;
  float low = r.low < 0 ? r.low : 0, high = r.high > 0 ? r.high : 0, scale = (high - low) / 255.0f;
  if (!(scale > 0) || !isfinite(scale)) return OCTET_OK;
  int32_t zero_point = (int32_t)rintf(-low / scale);
  const oct_quant params = {.dtype = OCT_U8, .axis = -1, .count = 1, .scale = &scale, .zero_point = &zero_point};
  return set(rw, v, &params);
}

static octet_status run(octet_context *ctx, oct_graph *graph, bool *changed) {
  oct_rewrite rw;
  OCT_TRY(oct_rewrite_begin(ctx, graph, &rw));
  octet_status status = OCTET_OK;
  for (size_t i = 0; i < rw.n_values && status == OCTET_OK; i++) status = visit(&rw, graph->values[i]);
  return oct_rewrite_end(&rw, status, changed);
}

const oct_pass oct_pass_bound_ranges = {
    .name = "bound_ranges",
    .summary = "values with a known range that only dynamically quantized layers read carry its parameters",
    .run = run,
};
