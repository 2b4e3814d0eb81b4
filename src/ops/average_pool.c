/* AveragePool (ONNX).
 * SPDX-License-Identifier: MIT */
#include "ops/pool.h"

static octet_status infer(octet_context *ctx, oct_node *node) {
  const oct_value *x = node->inputs[0];
  if (x->dtype != OCT_DTYPE_NONE && !oct_dtype_is_float(x->dtype))
    return oct_infer_fail(ctx, node, "the input is %s; it must be a float", oct_dtype_name(x->dtype));
  return oct_pool_infer(ctx, node);
}

static octet_status reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  oct_window w;
  if (oct_shape_count(&out[0]->shape) == 0) return OCTET_OK;
  OCT_TRY(oct_pool_window(ctx, node, &in[0]->shape, &w));
  int64_t count = oct_shape_count(&out[0]->shape);
  bool include_pad = oct_node_int(node, "count_include_pad");
  for (int64_t i = 0; i < count; i++) oct_set_f64(out[0]->data, out[0]->dtype, i, oct_pool_average_at(&w, in[0], i, include_pad));
  return OCTET_OK;
}

static octet_status lower(oct_lowering *l, oct_node *node) {
  oct_window w;
  OCT_TRY(oct_pool_window(l->ctx, node, &node->inputs[0]->shape, &w));
  return oct_pool_lower(l, node, &w, OCT_POOL_AVERAGE, oct_node_int(node, "count_include_pad"));
}

static oct_cost cost(const oct_node *node) { return oct_pool_cost(node, oct_pool_kernel_taps(node)); }

/* ONNX's average pooling has dilations since operator set 19. */
static octet_status export_node(oct_exporter *exporter, const oct_node *node) {
  size_t count;
  const int64_t *dilations = oct_node_ints(node, "dilations", &count);
  for (size_t i = 0; i < count; i++)
    if (dilations[i] != 1 && exporter->version < 19)
      return oct_fail(exporter->ctx, OCTET_UNSUPPORTED,
                      "node '%s': average_pool with dilations needs ONNX operator set 19, version %d is written", node->name,
                      exporter->version);
  return oct_export_default(exporter, node, "AveragePool");
}

static const oct_attribute_spec attributes[] = {
    OCT_WINDOW_ATTRIBUTES,
    {"kernel_shape", OCT_ATTRIBUTE_INTS, true, NULL, 1, INT32_MAX, "size of the window per spatial axis"},
    {"ceil_mode", OCT_ATTRIBUTE_INT, false, "0", 0, 1, "round the output size up"},
    {"count_include_pad", OCT_ATTRIBUTE_INT, false, "0", 0, 1, "divide by the elements inside the padded image, not only inside the image"},
    {NULL, OCT_ATTRIBUTE_INT, false, NULL, 0, 0, NULL},
};
static const oct_import_row imports[] = {{"onnx", "AveragePool", 7, 0, NULL}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row exports[] = {{"onnx", "AveragePool", export_node}, {NULL, NULL, NULL}};
static const char *const cases[] = {
    "in=f32[1,3,8,8] attr:kernel_shape=2,2 strides=2,2",
    "in=f32[2,17,7,9] attr:kernel_shape=3,3 strides=2,2 pads=1,1,1,1",
    "in=f32[1,8,7,7] attr:kernel_shape=3,3 pads=1,0,1,2 count_include_pad=1",
    "in=f32[1,8,9,5] attr:kernel_shape=3,2 strides=2,2 ceil_mode=1 pads=1,1,1,1 count_include_pad=1",
    "in=f32[1,4,10] attr:kernel_shape=3 strides=2 auto_pad=SAME_LOWER",
    NULL,
};

const oct_op oct_op_average_pool = {
    .name = "average_pool",
    .summary = "mean of each window",
    .traits = OCT_TRAIT_CHANNELS_LAST,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attributes = attributes,
    .infer = infer,
    .reference = reference,
    .lower = lower,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_OBSERVED},
    .imports = imports,
    .exports = exports,
    .cost = cost,
    .cases = cases,
};
