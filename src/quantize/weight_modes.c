/* What the float modes do beside int8 weights (realize_weights.c): embedding tables in 8 bits, weights in half precision.
 * SPDX-License-Identifier: MIT */
#include "quantize/calibration.h"

#define SMALLEST_TABLE 1024 /* elements; smaller lookup tables stay float */
#define HALF_MAX 65504.0

/* ---- Embedding tables: int8, one scale per row ---------------------------------------------------------------------- */

static bool is_table_lookup(const oct_node *node) {
  if (!oct_node_has(node, OCT_TRAIT_MOVEMENT) || node->n_inputs != 2 || !node->inputs[1] || node->inputs[1]->kind == OCT_CONSTANT)
    return false;
  const oct_value *table = node->inputs[0];
  const oct_tensor *t = oct_constant_of(table);
  if (!t || table->quant || t->dtype != OCT_F32 || t->shape.rank != 2 || oct_shape_count(&t->shape) < SMALLEST_TABLE) return false;
  return (node->inputs[1]->dtype == OCT_I64 || node->inputs[1]->dtype == OCT_I32) && oct_node_int(node, "axis") == 0;
}

static octet_status quantize_table(oct_conversion *k, oct_node *node) {
  oct_calibration *c = k->calibration;
  oct_weight_form form;
  oct_value *table = node->inputs[0], *out;
  octet_status status = oct_weight_quantize(c->ctx, &k->graph->region, table, 0, false, NULL, &form);
  bool alone = oct_use_count(&c->uses, c->graph->values[table->id]) == 1;
  if (status == OCTET_OK) status = oct_weight_install(c->ctx, k->graph, table, &form, NULL, 0, alone, &out);
  oct_layer_report *layer = &k->layers[node->id];
  if (status == OCTET_OK) {
    node->inputs[0] = out;
    layer->name = c->graph->nodes[node->id]->name;
    layer->weights = "int8 per channel";
    layer->weight_sqnr_db = form.sqnr_db;
    layer->bytes = out->tensor->bytes + (size_t)form.count * sizeof(float);
    layer->type = oct_quantize_mode_name(OCT_MODE_WEIGHT_ONLY);
    layer->reason = NULL;
  }
  oct_tensor_release(form.tensor);
  return status;
}

/* ---- Half precision --------------------------------------------------------------------------------------------------- */

/* Why a constant must stay f32, or NULL: too large, or a whole output channel would vanish. */
static const char *why_not_half(const oct_tensor *t) {
  const float *x = t->data;
  int64_t channels = t->shape.rank > 1 ? t->shape.dim[0] : 1, each = oct_shape_count(&t->shape) / channels;
  for (int64_t c = 0; c < channels; c++) {
    bool something = false, kept = false;
    for (int64_t i = 0; i < each; i++) {
      float v = x[c * each + i];
      if (fabs((double)v) > HALF_MAX) return "a weight is beyond 65504, the largest half-precision number";
      something = something || v != 0;
      kept = kept || oct_f16_to_f32(oct_f32_to_f16(v)) != 0;
    }
    if (something && !kept) return "weights are so small that a whole channel would become zero in half precision";
  }
  return NULL;
}

/* Replaces the constant by a half-precision one (which takes the name) and a cast; all its users read the cast. */
static octet_status narrow(oct_conversion *k, oct_value *v) {
  octet_context *ctx = k->calibration->ctx;
  const oct_op *cast = oct_op_find("cast");
  oct_tensor *half;
  oct_value *constant;
  oct_node *node;
  if (!cast) return oct_fail(ctx, OCTET_UNSUPPORTED, "fp16: this build has no cast operator");
  OCT_TRY(oct_tensor_cast(ctx, v->tensor, OCT_F16, &half));
  char *name = oct_region_strdup(ctx, &k->graph->region, v->name), *wide = oct_region_printf(ctx, &k->graph->region, "%s_f32", v->name);
  if (!name || !wide) {
    oct_tensor_release(half);
    return OCTET_OUT_OF_MEMORY;
  }
  octet_status status = oct_value_rename(ctx, k->graph, v, wide);
  if (status != OCTET_OK) {
    oct_tensor_release(half);
    return status;
  }
  OCT_TRY(oct_graph_constant(ctx, k->graph, name, half, &constant));
  OCT_TRY(oct_graph_node(ctx, k->graph, cast, wide, &constant, 1, 1, &node));
  OCT_TRY(oct_node_set_string(ctx, k->graph, node, "to", "f32"));
  oct_graph_replace_uses(k->graph, v, node->outputs[0]);
  return oct_node_infer(ctx, node);
}

static octet_status narrow_input(oct_conversion *k, oct_node *node, int input, oct_layer_report *layer) {
  octet_context *ctx = k->calibration->ctx;
  oct_value *v = input < node->n_inputs ? node->inputs[input] : NULL;
  if (!v) return OCTET_OK;
  bool done =
      v->producer && v->producer->n_inputs == 1 && oct_constant_of(v->producer->inputs[0]) && v->producer->inputs[0]->dtype == OCT_F16;
  if (!done) {
    if (!oct_constant_of(v) || v->quant || v->tensor->dtype != OCT_F32) return OCTET_OK;
    OCT_TRY(oct_check_finite(ctx, v));
    const char *reason = why_not_half(v->tensor);
    if (reason) {
      layer->bytes += v->tensor->bytes;
      if (input == 1) layer->reason = reason, layer->type = oct_quantize_mode_name(OCT_MODE_FLOAT);
      return oct_report_warn(ctx, k->report, "\"%s\" (%s): \"%s\" is kept float: %s", node->name, node->op->name, v->name, reason);
    }
    layer->bytes += v->tensor->bytes / 2;
    OCT_TRY(narrow(k, v));
  }
  if (input == 0) { /* a lookup's table: not a layer otherwise */
    layer->name = k->calibration->graph->nodes[node->id]->name;
    layer->type = "float16";
    layer->reason = NULL;
  }
  if (input < 2) layer->weights = "float16";
  return OCTET_OK;
}

octet_status oct_realize_weight_modes(oct_conversion *k) {
  oct_calibration *c = k->calibration;
  for (size_t i = 0; i < c->graph->n_nodes; i++) {
    oct_node *node = k->graph->nodes[i];
    oct_quantize_mode mode = c->nodes[i].mode;
    if ((mode == OCT_MODE_DYNAMIC || mode == OCT_MODE_WEIGHT_ONLY) && is_table_lookup(node)) OCT_TRY(quantize_table(k, node));
    if (mode != OCT_MODE_FP16) continue;
    for (int input = 0; input < node->n_inputs; input++) {
      oct_role role = oct_node_role(node, input);
      if (role == OCT_ROLE_WEIGHT || role == OCT_ROLE_BIAS || (input == 0 && is_table_lookup(node)))
        OCT_TRY(narrow_input(k, node, input, &k->layers[i]));
    }
  }
  return OCTET_OK;
}
