/* The graphs of a comparison: integer inputs and outputs made comparable, and the graph cut into single layers.
 * SPDX-License-Identifier: MIT */
#include "quantize/compare.h"

/* Parameters from the constant operands of a quantize or dequantize node; NULL when they are not of one scale and constant. */
static oct_quant *parameters_of(octet_context *ctx, oct_graph *g, const oct_node *node, oct_dtype dtype) {
  double scale = 0, zero_point = 0;
  if (node->n_inputs < 2 || !oct_constant_scalar(node->inputs[1], &scale)) return NULL;
  if (node->n_inputs > 2 && node->inputs[2] && !oct_constant_scalar(node->inputs[2], &zero_point)) return NULL;
  float s = (float)scale;
  int32_t z = (int32_t)zero_point;
  return oct_quant_create(ctx, &g->region, dtype, -1, 1, &s, &z);
}

static octet_status strip_input(octet_context *ctx, oct_graph *g, size_t index, const oct_uses *uses) {
  oct_value *raw = g->inputs[index];
  oct_node *node = oct_only_user(uses, raw);
  if (oct_dtype_is_float(raw->dtype) || !oct_node_has(node, OCT_TRAIT_DEQUANTIZE) || node->inputs[0] != raw) return OCTET_OK;
  oct_value *v = node->outputs[0];
  if (!v->quant && !(v->quant = parameters_of(ctx, g, node, raw->dtype))) return ctx->status;
  char *name = oct_region_strdup(ctx, &g->region, raw->name);
  if (!name) return OCTET_OUT_OF_MEMORY;
  oct_graph_remove_node(g, node);
  v->kind = OCT_INPUT;
  v->dtype = OCT_F32;
  if (raw->has_shape) v->shape = raw->shape, v->has_shape = true;
  g->inputs[index] = v;
  OCT_TRY(oct_value_rename(ctx, g, raw, "raw"));
  return oct_value_rename(ctx, g, v, name);
}

static octet_status strip_output(octet_context *ctx, oct_graph *g, size_t index) {
  oct_value *out = g->outputs[index];
  oct_node *node = out->producer;
  if (!oct_node_has(node, OCT_TRAIT_QUANTIZE)) return OCTET_OK;
  oct_value *v = node->inputs[0];
  if (!v->quant && v->kind == OCT_INTERMEDIATE && !(v->quant = parameters_of(ctx, g, node, out->dtype))) return ctx->status;
  for (size_t i = 0; i < g->n_outputs; i++)
    if (g->outputs[i] == out) g->outputs[i] = v;
  if (v->kind != OCT_INTERMEDIATE) return OCTET_OK;
  char *name = oct_region_strdup(ctx, &g->region, out->name);
  if (!name) return OCTET_OUT_OF_MEMORY;
  OCT_TRY(oct_value_rename(ctx, g, out, "raw"));
  return oct_value_rename(ctx, g, v, name);
}

octet_status oct_compare_strip_io(octet_context *ctx, oct_graph *g) {
  oct_uses uses;
  OCT_TRY(oct_graph_uses(ctx, g, &uses));
  octet_status status = OCTET_OK;
  for (size_t i = 0; i < g->n_inputs && status == OCTET_OK; i++) status = strip_input(ctx, g, i, &uses);
  for (size_t i = 0; i < g->n_outputs && status == OCTET_OK; i++) status = strip_output(ctx, g, i);
  oct_uses_free(&uses);
  return status == OCTET_OK ? oct_graph_prune(ctx, g) : status;
}

/* ---- Cutting -------------------------------------------------------------------------------------------------------- */

static octet_status cut_at(oct_comparison *k, oct_graph *cut, oct_value *v, const oct_value *reference) {
  octet_context *ctx = k->ctx;
  oct_value *input;
  char *name = oct_region_printf(ctx, &cut->region, "%s" OCT_CUT_SUFFIX, v->name);
  if (!name) return OCTET_OUT_OF_MEMORY;
  OCT_TRY(oct_graph_input(ctx, cut, name, OCT_F32, NULL, &input));
  if (reference->has_shape) { /* the rank, which some operators need; sizes come with the samples */
    input->has_shape = true;
    input->shape.rank = reference->shape.rank;
    for (int d = 0; d < input->shape.rank; d++) input->shape.dim[d] = OCT_DIM_UNKNOWN;
  }
  OCT_TRY(oct_value_set_quant(ctx, cut, input, v->quant));
  for (size_t i = 0; i < cut->n_nodes; i++)
    for (int n = 0; n < cut->nodes[i]->n_inputs; n++)
      if (cut->nodes[i]->inputs[n] == v) cut->nodes[i]->inputs[n] = input;
  return OCTET_OK;
}

/* Values between layers that the float graph has too. Results of layers become outputs. */
static octet_status cut_all(oct_comparison *k, const bool *result) {
  oct_graph *cut = k->cut;
  size_t n = k->quantized->n_values;
  cut->n_outputs = 0;
  for (size_t i = 0; i < n; i++) {
    oct_value *v = cut->values[i];
    if (!result[i]) continue;
    const oct_value *reference = oct_graph_find(k->reference, v->name);
    if (!reference || reference->dtype != OCT_F32 || reference->kind != OCT_INTERMEDIATE) continue;
    OCT_TRY(cut_at(k, cut, v, reference));
    OCT_TRY(oct_graph_output(k->ctx, cut, v));
  }
  return oct_graph_prune(k->ctx, cut);
}

octet_status oct_compare_cut(oct_comparison *k) {
  bool *result = oct_alloc(k->ctx, k->quantized->n_values + 1, sizeof *result);
  if (!result) return OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < k->n_layers; i++) result[k->layers[i].result->id] = k->layers[i].result->kind == OCT_INTERMEDIATE;
  octet_status status = oct_graph_copy(k->ctx, k->quantized, &k->cut);
  if (status == OCTET_OK) status = cut_all(k, result);
  oct_free(result);
  return status;
}
