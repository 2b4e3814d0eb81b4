/* MaxPool (ONNX), with the optional second output of positions in the reference.
 * SPDX-License-Identifier: MIT */
#include "ops/pool.h"

static octet_status infer(octet_context *ctx, oct_node *node) {
  OCT_TRY(oct_pool_infer(ctx, node));
  if (node->n_outputs > 1 && node->outputs[1])
    oct_infer_set(node->outputs[1], OCT_I64, node->outputs[0]->has_shape ? &node->outputs[0]->shape : NULL);
  return OCTET_OK;
}

/* Row-major position within one channel as column-major: the first axis varies fastest. */
static int64_t column_major(const oct_window *w, int64_t offset) {
  int64_t index[OCT_WINDOW_MAX], result = 0;
  for (int i = w->rank - 1; i >= 0; i--) index[i] = offset % w->in[i], offset /= w->in[i];
  for (int i = w->rank - 1; i >= 0; i--) result = result * w->in[i] + index[i];
  return result;
}

static octet_status reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  oct_window w;
  if (oct_shape_count(&out[0]->shape) == 0) return OCTET_OK;
  OCT_TRY(oct_pool_window(ctx, node, &in[0]->shape, &w));
  oct_tensor *positions = node->n_outputs > 1 && node->outputs[1] ? out[1] : NULL;
  bool by_column = oct_node_int(node, "storage_order") == 1;
  int64_t count = oct_shape_count(&out[0]->shape), size = 1;
  for (int i = 0; i < w.rank; i++) size *= w.in[i];
  for (int64_t i = 0; i < count; i++) {
    int64_t best;
    double y = oct_pool_max_at(&w, in[0], i, &best);
    if (oct_dtype_is_float(out[0]->dtype)) oct_set_f64(out[0]->data, out[0]->dtype, i, y);
    else oct_set_i64(out[0]->data, out[0]->dtype, i, y == -INFINITY ? 0 : oct_get_i64(in[0]->data, in[0]->dtype, best));
    if (positions) oct_set_i64(positions->data, OCT_I64, i, by_column ? best - best % size + column_major(&w, best % size) : best);
  }
  return OCTET_OK;
}

static octet_status lower(oct_lowering *l, oct_node *node) {
  if (node->n_outputs > 1 && node->outputs[1]) return oct_lower_decline(l, "the output of positions has no kernel");
  oct_window w;
  OCT_TRY(oct_pool_window(l->ctx, node, &node->inputs[0]->shape, &w));
  return oct_pool_lower(l, node, &w, OCT_POOL_MAX, false);
}

static oct_cost cost(const oct_node *node) { return oct_pool_cost(node, oct_pool_kernel_taps(node)); }

static const oct_attribute_spec attributes[] = {
    OCT_WINDOW_ATTRIBUTES,
    {"kernel_shape", OCT_ATTRIBUTE_INTS, true, NULL, 1, INT32_MAX, "size of the window per spatial axis"},
    {"ceil_mode", OCT_ATTRIBUTE_INT, false, "0", 0, 1, "round the output size up"},
    {"storage_order", OCT_ATTRIBUTE_INT, false, "0", 0, 1, "order of the positions: 0 row-major, 1 column-major"},
    {NULL, OCT_ATTRIBUTE_INT, false, NULL, 0, 0, NULL},
};
static const oct_import_row imports[] = {{"onnx", "MaxPool", 1, 0, NULL}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row exports[] = {{"onnx", "MaxPool", NULL}, {NULL, NULL, NULL}};
static const char *const cases[] = {
    "in=f32[1,3,8,8] attr:kernel_shape=2,2 strides=2,2",
    "in=f32[2,17,7,9] attr:kernel_shape=3,3 strides=2,2 pads=1,1,1,1",
    "in=f32[1,8,9,5] attr:kernel_shape=3,2 strides=2,2 ceil_mode=1",
    "in=f32[1,65,6,6] attr:kernel_shape=2,2 dilations=2,2",
    "in=f32[1,4,10] attr:kernel_shape=3 strides=2 auto_pad=SAME_UPPER",
    "in=u8[1,2,4,4] attr:kernel_shape=2,2",
    NULL,
};

const oct_op oct_op_max_pool = {
    .name = "max_pool",
    .summary = "largest element of each window",
    .traits = OCT_TRAIT_CHANNELS_LAST | OCT_TRAIT_WINDOW_MAX,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 2,
    .attributes = attributes,
    .infer = infer,
    .reference = reference,
    .lower = lower,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_SAME},
    .imports = imports,
    .exports = exports,
    .cost = cost,
    .cases = cases,
};
