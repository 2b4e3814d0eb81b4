/* prelu: x, or slope * x below 0; the slope broadcasts to x (per channel: [C,1,1]). 8 bits: one table per slope.
 * SPDX-License-Identifier: MIT */
#include "ops/elementwise.h"

#define SLOPES_LIMIT 4096

static double prelu(const oct_node *node, double x, double slope) {
  (void)node;
  return x < 0 ? x * slope : x;
}

static int64_t prelu_integer(const oct_node *node, int64_t x, int64_t slope, bool is_unsigned) {
  (void)node;
  return x < 0 && !is_unsigned ? (int64_t)((uint64_t)x * (uint64_t)slope) : x;
}

static octet_status infer(octet_context *ctx, oct_node *node) {
  const oct_value *x = node->inputs[0];
  OCT_TRY(oct_infer_broadcast_numbers(ctx, node));
  if (!x->has_shape || !node->inputs[1]->has_shape) return OCTET_OK;
  oct_shape shape;
  oct_shape_broadcast(&x->shape, &node->inputs[1]->shape, &shape);
  bool fits = shape.rank == x->shape.rank;
  for (int d = 0; fits && d < shape.rank; d++) fits = x->shape.dim[d] == OCT_DIM_UNKNOWN || x->shape.dim[d] == shape.dim[d];
  if (fits) return OCTET_OK;
  char a[OCT_SHAPE_TEXT], b[OCT_SHAPE_TEXT];
  return oct_infer_fail(ctx, node, "the slope's shape %s does not broadcast to the input's %s", oct_shape_text(&node->inputs[1]->shape, a),
                        oct_shape_text(&x->shape, b));
}

static octet_status reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  return oct_binary_reference_with(node, in[0], in[1], out[0], prelu_integer);
}

static inline float prelu_f32(float x, float slope) {
  float scaled = x * slope;
  return x < 0 ? scaled : x;
}

static void dense(const oct_vector_kernels *v, size_t n, const float *a, const float *b, float *y) {
  (void)v;
  for (size_t i = 0; i < n; i++) y[i] = prelu_f32(a[i], b[i]);
}
OCT_APPLY2_F32(apply, dense, prelu_f32(u, w))

static octet_status lower(oct_lowering *l, oct_node *node) {
  bool done;
  OCT_TRY(oct_binary_lower_tables(l, node, SLOPES_LIMIT, &done));
  return done ? OCTET_OK : oct_binary_lower(l, node, "prelu_f32", apply);
}

static const char *const cases[] = {"in=f32[1,3,5,7],f32[3,1,1]", "in=f32[2,17],f32[17]", "in=f32[2,4,3,3],f32[1]=0.25",
                                    "in=f32[2,3,5],f32[2,3,5]", NULL};

const oct_op oct_op_prelu = {
    .name = "prelu",
    .summary = "x, or slope x below 0",
    .traits = OCT_TRAIT_ELEMENTWISE | OCT_TRAIT_BINARY | OCT_TRAIT_IN_PLACE | OCT_TRAIT_LAYOUT_AGNOSTIC,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = infer,
    .reference = reference,
    .scalar2 = prelu,
    .lower = lower,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION, OCT_ROLE_NONE}, .output = OCT_OUTPUT_OBSERVED},
    .imports = OCT_ONNX_IMPORT("PRelu", 7),
    .exports = OCT_ONNX_EXPORT("PRelu"),
    .cases = cases,
};
