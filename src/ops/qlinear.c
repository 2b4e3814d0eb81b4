/* Import of QLinearConv and QLinearMatMul: dequantize the inputs, run the float operator, quantize the output. The pass that absorbs such pairs
 * makes one integer operator of it; run as written it rounds once, at the end, as the operators' definition asks.
 * SPDX-License-Identifier: MIT */
#include "ops/qlinear.h"

static octet_status add_node(oct_importer *im, const char *op, const char *name, oct_value *const *inputs, int n_inputs, oct_node **out) {
  const oct_op *descriptor = oct_op_find(op);
  if (!descriptor) return oct_fail(im->ctx, OCTET_UNSUPPORTED, "operator '%s' is not built in", op);
  return oct_graph_node(im->ctx, im->graph, descriptor, name, inputs, n_inputs, 1, out);
}

/* x, scale, zero point -> real values. `axis` is where a scale of more than one element lies. */
static octet_status dequantize(oct_importer *im, oct_value *x, oct_value *scale, oct_value *zero_point, int64_t axis, oct_value **out) {
  oct_value *inputs[3] = {x, scale, zero_point};
  oct_node *node;
  OCT_TRY(add_node(im, "dequantize", x->name, inputs, zero_point ? 3 : 2, &node));
  if (!scale->has_shape || oct_shape_count(&scale->shape) != 1) OCT_TRY(oct_node_set_int(im->ctx, im->graph, node, "axis", axis));
  OCT_TRY(oct_node_infer(im->ctx, node));
  *out = node->outputs[0];
  return OCTET_OK;
}

/* The last node: rounds `x` to the output, named after the foreign node and bound to its output. */
static octet_status quantize(oct_importer *im, const oct_foreign_node *foreign, oct_value *x, oct_value *scale, oct_value *zero_point) {
  oct_value *inputs[3] = {x, scale, zero_point};
  oct_node *node;
  OCT_TRY(add_node(im, "quantize", foreign->name, inputs, 3, &node));
  return oct_import_finish(im, foreign, node);
}

static bool is_scalar(const oct_value *v) { return v->has_shape && oct_shape_count(&v->shape) == 1; }

/* Bias scale = input scale * weight scale, computed now when both are constants. */
static octet_status bias_scale(oct_importer *im, oct_value *x_scale, oct_value *w_scale, oct_value **out) {
  const oct_tensor *a = oct_constant_of(x_scale), *b = oct_constant_of(w_scale);
  double input;
  if (!a || !b || b->dtype != OCT_F32 || !oct_constant_scalar(x_scale, &input)) {
    oct_value *inputs[2] = {x_scale, w_scale};
    oct_node *node;
    OCT_TRY(add_node(im, "mul", "bias_scale", inputs, 2, &node));
    OCT_TRY(oct_node_infer(im->ctx, node));
    *out = node->outputs[0];
    return OCTET_OK;
  }
  oct_tensor *t;
  OCT_TRY(oct_tensor_create(im->ctx, OCT_F32, &b->shape, &t));
  for (int64_t i = 0; i < oct_shape_count(&b->shape); i++) ((float *)t->data)[i] = (float)input * ((const float *)b->data)[i];
  return oct_graph_constant(im->ctx, im->graph, "bias_scale", t, out);
}

static octet_status check_inputs(oct_importer *im, const oct_foreign_node *foreign, int needed) {
  for (int i = 0; i < needed; i++)
    if (!oct_foreign_input(foreign, i)) return oct_import_unsupported(im, foreign, "input %d is absent", i);
  return OCTET_OK;
}

octet_status oct_import_qlinear_conv(oct_importer *im, const oct_foreign_node *foreign) {
  OCT_TRY(check_inputs(im, foreign, 8));
  oct_value **in = foreign->inputs, *bias = oct_foreign_input(foreign, 8), *inputs[3] = {NULL, NULL, NULL}, *scale;
  OCT_TRY(dequantize(im, in[0], in[1], in[2], 1, &inputs[0]));
  OCT_TRY(dequantize(im, in[3], in[4], in[5], 0, &inputs[1]));
  if (bias) {
    OCT_TRY(bias_scale(im, in[1], in[4], &scale));
    OCT_TRY(dequantize(im, bias, scale, NULL, 0, &inputs[2]));
  }
  oct_node *node;
  OCT_TRY(oct_import_node(im, foreign, "conv", inputs, bias ? 3 : 2, 1, &node));
  OCT_TRY(oct_import_attributes(im, foreign, node, NULL));
  OCT_TRY(oct_node_infer(im->ctx, node));
  return quantize(im, foreign, node->outputs[0], in[6], in[7]);
}

octet_status oct_import_qlinear_matmul(oct_importer *im, const oct_foreign_node *foreign) {
  OCT_TRY(check_inputs(im, foreign, 8));
  oct_value **in = foreign->inputs, *inputs[2];
  for (int i = 0; i < 2; i++) {
    const oct_value *scale = in[3 * i + 1], *x = in[3 * i];
    if (!is_scalar(scale) && !(scale->has_shape && scale->shape.rank == 1 && x->has_shape && x->shape.rank >= 2))
      return oct_import_unsupported(im, foreign, "the scale '%s' is neither one number nor a vector", scale->name);
  }
  int64_t row_axis = in[0]->has_shape ? in[0]->shape.rank - 2 : 0, column_axis = in[3]->has_shape ? in[3]->shape.rank - 1 : 0;
  OCT_TRY(dequantize(im, in[0], in[1], in[2], row_axis, &inputs[0]));
  OCT_TRY(dequantize(im, in[3], in[4], in[5], column_axis, &inputs[1]));
  oct_node *node;
  OCT_TRY(oct_import_node(im, foreign, "matmul", inputs, 2, 1, &node));
  OCT_TRY(oct_node_infer(im->ctx, node));
  return quantize(im, foreign, node->outputs[0], in[6], in[7]);
}
