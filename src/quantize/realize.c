/* Writing static int8 into the graph: parameters on rounded values, then weights and biases (realize_weights.c), constant operands, and the
 * types of inputs and outputs (realize_io.c).
 * SPDX-License-Identifier: MIT */
#include "quantize/calibration.h"

/* Values at a border that goes out as i8 carry signed parameters: the same grid, 128 lower. */
octet_status oct_set_parameters(octet_context *ctx, oct_graph *graph, oct_value *v, oct_parameters p, bool is_signed) {
  oct_quant q = {.dtype = is_signed ? OCT_I8 : OCT_U8, .axis = -1, .count = 1, .scale = &p.scale, .zero_point = &p.zero_point};
  if (is_signed) p.zero_point -= 128;
  return oct_value_set_quant(ctx, graph, v, &q);
}

/* ---- Constant operands ------------------------------------------------------------------------------------------------ */

/* A constant beside an activation. One number stays a float: it goes into a table. Of functions that are not symmetric in their operands
 * (division, power, slopes) the constant stays exact, since rounding may change more than its value. */
static bool wants_rounding(const oct_node *node, int input) {
  const oct_value *v = node->inputs[input];
  if (!oct_constant_of(v) || v->quant || v->tensor->dtype != OCT_F32 || oct_node_role(node, input) != OCT_ROLE_ACTIVATION) return false;
  if (!oct_node_has(node, OCT_TRAIT_BINARY)) return true;
  return oct_node_has(node, OCT_TRAIT_COMMUTATIVE) && oct_shape_count(&v->tensor->shape) > 1;
}

static octet_status round_constant(octet_context *ctx, const oct_value *v, oct_parameters p, oct_tensor **out) {
  int64_t count = oct_shape_count(&v->tensor->shape);
  const float *x = v->tensor->data;
  OCT_TRY(oct_tensor_create(ctx, OCT_U8, &v->tensor->shape, out));
  uint8_t *q = (*out)->data;
  for (int64_t i = 0; i < count; i++) q[i] = (uint8_t)oct_quantize(x[i], p.scale, p.zero_point, 0, 255);
  return OCTET_OK;
}

static oct_range range_of_content(const oct_tensor *t) {
  oct_range range = {0, 0};
  const float *x = t->data;
  int64_t count = oct_shape_count(&t->shape);
  for (int64_t i = 0; i < count; i++) {
    if ((double)x[i] < range.low) range.low = (double)x[i];
    if ((double)x[i] > range.high) range.high = (double)x[i];
  }
  return range;
}

/* Every use of the constant as operand of an integer node gets one rounded constant; other uses (floats, weights) keep the float one. */
static octet_status round_operand(oct_conversion *k, oct_node *node, int input, oct_value **rounded) {
  octet_context *ctx = k->calibration->ctx;
  oct_value *v = node->inputs[input];
  bool known = (size_t)v->id < k->calibration->graph->n_values && v == k->graph->values[v->id];
  if (!known || !rounded[v->id]) {
    OCT_TRY(oct_check_finite(ctx, v));
    oct_parameters p = oct_parameters_of(range_of_content(v->tensor), k->calibration->options.symmetric);
    if (known && k->parameters[v->id].set) p = k->parameters[v->id];
    oct_tensor *tensor;
    oct_value *fresh;
    OCT_TRY(round_constant(ctx, v, p, &tensor));
    OCT_TRY(oct_graph_constant(ctx, k->graph, v->name, tensor, &fresh));
    OCT_TRY(oct_set_parameters(ctx, k->graph, fresh, p, false));
    if (known) rounded[v->id] = fresh;
    node->inputs[input] = fresh;
    return OCTET_OK;
  }
  node->inputs[input] = rounded[v->id];
  return OCTET_OK;
}

octet_status oct_realize_operands(oct_conversion *k) {
  oct_calibration *c = k->calibration;
  oct_value **rounded = oct_alloc(c->ctx, c->graph->n_values + 1, sizeof *rounded); /* by id of the float constant */
  if (!rounded) return OCTET_OUT_OF_MEMORY;
  octet_status status = OCTET_OK;
  for (size_t i = 0; i < c->graph->n_nodes && status == OCTET_OK; i++) {
    if (!c->nodes[i].integer) continue;
    oct_node *node = k->graph->nodes[i];
    for (int input = 0; input < node->n_inputs && status == OCTET_OK; input++)
      if (wants_rounding(node, input)) status = round_operand(k, node, input, rounded);
  }
  /* A constant that only had rounded uses goes; its name passes to the rounded one. */
  for (size_t id = 0; id < c->graph->n_values && status == OCTET_OK; id++) {
    if (!rounded[id]) continue;
    oct_value *old = k->graph->values[id];
    bool used = false;
    for (size_t i = 0; i < k->graph->n_nodes; i++)
      for (int input = 0; input < k->graph->nodes[i]->n_inputs; input++) used = used || k->graph->nodes[i]->inputs[input] == old;
    for (size_t i = 0; i < k->graph->n_outputs; i++) used = used || k->graph->outputs[i] == old;
    if (used) continue;
    char *name = oct_region_strdup(c->ctx, &k->graph->region, old->name);
    if (!name) status = OCTET_OUT_OF_MEMORY;
    if (status == OCTET_OK) status = oct_value_rename(c->ctx, k->graph, old, "unused");
    if (status == OCTET_OK) status = oct_value_rename(c->ctx, k->graph, rounded[id], name);
  }
  oct_free(rounded);
  return status;
}

octet_status oct_realize(oct_conversion *k) {
  oct_calibration *c = k->calibration;
  for (size_t i = 0; i < c->graph->n_values; i++)
    if (c->values[i].needed && k->parameters[i].set)
      OCT_TRY(oct_set_parameters(c->ctx, k->graph, k->graph->values[i], k->parameters[i], false));
  OCT_TRY(oct_realize_weights(k));
  OCT_TRY(oct_realize_operands(k));
  OCT_TRY(oct_realize_weight_modes(k));
  OCT_TRY(oct_realize_io(k));
  return oct_graph_prune(c->ctx, k->graph);
}
