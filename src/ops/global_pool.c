/* GlobalAveragePool and GlobalMaxPool (ONNX): one number per channel.
 * SPDX-License-Identifier: MIT */
#include "ops/pool.h"

static octet_status infer(octet_context *ctx, oct_node *node) {
  const oct_value *x = node->inputs[0];
  char text[OCT_SHAPE_TEXT];
  if (x->dtype != OCT_DTYPE_NONE && !oct_dtype_is_float(x->dtype))
    return oct_infer_fail(ctx, node, "the input is %s; it must be a float", oct_dtype_name(x->dtype));
  if (!x->has_shape) {
    oct_infer_set(node->outputs[0], x->dtype, NULL);
    return OCTET_OK;
  }
  if (x->shape.rank < 2) return oct_infer_fail(ctx, node, "the input is %s; it must be [N,C,spatial...]", oct_shape_text(&x->shape, text));
  oct_shape out = x->shape;
  for (int i = 2; i < out.rank; i++) {
    if (out.dim[i] == 0) return oct_infer_fail(ctx, node, "the input %s has no elements to pool", oct_shape_text(&x->shape, text));
    out.dim[i] = 1;
  }
  oct_infer_set(node->outputs[0], x->dtype, &out);
  return OCTET_OK;
}

static octet_status reference_average(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx, (void)node;
  oct_window w;
  oct_pool_whole(&in[0]->shape, &w);
  int64_t count = oct_shape_count(&out[0]->shape);
  for (int64_t i = 0; i < count; i++) oct_set_f64(out[0]->data, out[0]->dtype, i, oct_pool_average_at(&w, in[0], i, false));
  return OCTET_OK;
}

static octet_status reference_max(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx, (void)node;
  oct_window w;
  oct_pool_whole(&in[0]->shape, &w);
  int64_t count = oct_shape_count(&out[0]->shape);
  for (int64_t i = 0; i < count; i++) oct_set_f64(out[0]->data, out[0]->dtype, i, oct_pool_max_at(&w, in[0], i, NULL));
  return OCTET_OK;
}

static octet_status lower_kind(oct_lowering *l, oct_node *node, oct_pool_kind kind) {
  const oct_shape *in = &node->inputs[0]->shape;
  if (in->rank < 3) return oct_lower_decline(l, "global pooling over %d spatial axes has no kernel", in->rank - 2);
  oct_window w;
  oct_pool_whole(in, &w);
  return oct_pool_lower(l, node, &w, kind, false);
}
static octet_status lower_average(oct_lowering *l, oct_node *node) { return lower_kind(l, node, OCT_POOL_AVERAGE); }
static octet_status lower_max(oct_lowering *l, oct_node *node) { return lower_kind(l, node, OCT_POOL_MAX); }

static oct_cost cost(const oct_node *node) {
  const oct_value *x = node->inputs[0];
  double taps = 1;
  for (int i = 2; x->has_shape && i < x->shape.rank; i++) taps *= x->shape.dim[i] > 0 ? (double)x->shape.dim[i] : 1;
  return oct_pool_cost(node, taps);
}

static const oct_import_row average_imports[] = {{"onnx", "GlobalAveragePool", 1, 0, NULL}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row average_exports[] = {{"onnx", "GlobalAveragePool", NULL}, {NULL, NULL, NULL}};
static const oct_import_row max_imports[] = {{"onnx", "GlobalMaxPool", 1, 0, NULL}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row max_exports[] = {{"onnx", "GlobalMaxPool", NULL}, {NULL, NULL, NULL}};
static const char *const cases[] = {"in=f32[1,3,8,8]", "in=f32[2,65,7,5]", "in=f32[3,16,1,1]", "in=f32[2,4,9]", NULL};

const oct_op oct_op_global_average_pool = {
    .name = "global_average_pool",
    .summary = "mean of each channel",
    .traits = OCT_TRAIT_CHANNELS_LAST,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = infer,
    .reference = reference_average,
    .lower = lower_average,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_OBSERVED},
    .imports = average_imports,
    .exports = average_exports,
    .cost = cost,
    .cases = cases,
};

const oct_op oct_op_global_max_pool = {
    .name = "global_max_pool",
    .summary = "largest element of each channel",
    .traits = OCT_TRAIT_CHANNELS_LAST | OCT_TRAIT_WINDOW_MAX,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = infer,
    .reference = reference_max,
    .lower = lower_max,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_SAME},
    .imports = max_imports,
    .exports = max_exports,
    .cost = cost,
    .cases = cases,
};
