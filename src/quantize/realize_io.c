/* Inputs and outputs as integers: a dequantize node after each input and a quantize node before each output. The values between carry the
 * same parameters, so that no rounding is added.
 * SPDX-License-Identifier: MIT */
#include "quantize/calibration.h"

static octet_status parameter_constants(octet_context *ctx, oct_graph *graph, const char *name, const oct_quant *q, oct_value *out[2]) {
  const oct_shape scalar = {.rank = 0};
  oct_tensor *scale, *zero_point;
  char *scale_name = oct_region_printf(ctx, &graph->region, "%s_scale", name),
       *zero_name = oct_region_printf(ctx, &graph->region, "%s_zero_point", name);
  if (!scale_name || !zero_name) return OCTET_OUT_OF_MEMORY;
  OCT_TRY(oct_tensor_create(ctx, OCT_F32, &scalar, &scale));
  *(float *)scale->data = q->scale[0];
  OCT_TRY(oct_graph_constant(ctx, graph, scale_name, scale, &out[0]));
  OCT_TRY(oct_tensor_create(ctx, q->dtype, &scalar, &zero_point));
  oct_set_i64(zero_point->data, q->dtype, 0, q->zero_point[0]);
  return oct_graph_constant(ctx, graph, zero_name, zero_point, &out[1]);
}

/* The border value keeps the parameters' grid, in the wanted signedness, and hands its name to the integer value. */
static octet_status prepare_border(octet_context *ctx, oct_graph *graph, oct_value *v, bool is_signed, char **name) {
  oct_quant *q = v->quant;
  if (is_signed && q->dtype == OCT_U8) q->dtype = OCT_I8, q->zero_point[0] -= 128;
  *name = oct_region_strdup(ctx, &graph->region, v->name);
  char *inner = oct_region_printf(ctx, &graph->region, "%s_f32", v->name);
  return *name && inner ? oct_value_rename(ctx, graph, v, inner) : OCTET_OUT_OF_MEMORY;
}

static octet_status integer_input(oct_conversion *k, size_t index, bool is_signed) {
  octet_context *ctx = k->calibration->ctx;
  oct_graph *g = k->graph;
  oct_value *v = g->inputs[index], *raw, *inputs[3];
  char *name;
  oct_node *node;
  const oct_op *op = oct_op_find("dequantize");
  if (!op) return oct_fail(ctx, OCTET_UNSUPPORTED, "this build has no dequantize operator");
  OCT_TRY(prepare_border(ctx, g, v, is_signed, &name));
  OCT_TRY(oct_graph_value(ctx, g, name, OCT_INPUT, v->quant->dtype, v->has_shape ? &v->shape : NULL, &raw));
  memcpy(raw->dim_names, v->dim_names, sizeof raw->dim_names);
  g->inputs[index] = raw;
  v->kind = OCT_INTERMEDIATE;
  inputs[0] = raw;
  OCT_TRY(parameter_constants(ctx, g, name, v->quant, inputs + 1));
  return oct_graph_node_into(ctx, g, op, v->name, inputs, 3, &v, 1, &node);
}

static octet_status integer_output(oct_conversion *k, size_t index, bool is_signed) {
  octet_context *ctx = k->calibration->ctx;
  oct_graph *g = k->graph;
  oct_value *v = g->outputs[index], *out, *inputs[3] = {v};
  char *name;
  oct_node *node;
  const oct_op *op = oct_op_find("quantize");
  if (!op) return oct_fail(ctx, OCTET_UNSUPPORTED, "this build has no quantize operator");
  OCT_TRY(prepare_border(ctx, g, v, is_signed, &name));
  OCT_TRY(oct_graph_value(ctx, g, name, OCT_INTERMEDIATE, v->quant->dtype, v->has_shape ? &v->shape : NULL, &out));
  memcpy(out->dim_names, v->dim_names, sizeof out->dim_names);
  for (size_t i = 0; i < g->n_outputs; i++)
    if (g->outputs[i] == v) g->outputs[i] = out;
  OCT_TRY(parameter_constants(ctx, g, name, v->quant, inputs + 1));
  return oct_graph_node_into(ctx, g, op, name, inputs, 3, &out, 1, &node);
}

octet_status oct_realize_io(oct_conversion *k) {
  oct_calibration *c = k->calibration;
  bool is_signed = c->options.io == OCT_IO_INT8;
  if (c->options.io == OCT_IO_FLOAT || c->options.mode != OCT_MODE_INT8) return OCTET_OK;
  for (size_t i = 0; i < k->graph->n_inputs; i++) {
    const oct_value *v = k->graph->inputs[i];
    if (v->quant) OCT_TRY(integer_input(k, i, is_signed));
    else if (v->dtype == OCT_F32)
      OCT_TRY(oct_report_warn(c->ctx, k->report, "input \"%s\" stays float: no integer layer reads it", v->name));
  }
  for (size_t i = 0; i < k->graph->n_outputs; i++) {
    const oct_value *v = k->graph->outputs[i];
    if (v->quant && v->kind != OCT_CONSTANT) OCT_TRY(integer_output(k, i, is_signed));
    else if (v->dtype == OCT_F32)
      OCT_TRY(oct_report_warn(c->ctx, k->report, "output \"%s\" stays float: no integer form of it was made", v->name));
  }
  return OCTET_OK;
}
