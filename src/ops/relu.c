/* relu: max(x, 0).
 * SPDX-License-Identifier: MIT */
#include "ops/elementwise.h"

static double relu(const oct_node *node, double x) {
  (void)node;
  return x < 0 ? 0 : x; /* NaN stays */
}

static int64_t relu_integer(const oct_node *node, int64_t x) {
  if (node->inputs[0]->dtype == OCT_U64) return x;
  return x < 0 ? 0 : x;
}

static octet_status reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  return oct_unary_reference_with(node, in[0], out[0], relu_integer);
}

static bool clamp(const oct_node *node, float *low, float *high) {
  (void)node;
  *low = 0;
  *high = INFINITY;
  return true;
}

static void apply(const oct_vector_kernels *vector, const float *p, size_t n, const float *x, float *y) {
  (void)p;
  vector->clamp_f32(n, x, y, 0, INFINITY);
}

static octet_status lower(oct_lowering *l, oct_node *node) { return oct_unary_lower(l, node, "clamp_f32", apply, NULL); }

static const char *const cases[] = {"in=f32[1,3,5,7]", "in=f32[2,17]", "in=i32[33]", "in=f16[5]", "in=f32[0,4]", NULL};

const oct_op oct_op_relu = {
    .name = "relu",
    .summary = "max(x, 0)",
    .traits = OCT_TRAIT_ELEMENTWISE | OCT_TRAIT_UNARY | OCT_TRAIT_IN_PLACE | OCT_TRAIT_LAYOUT_AGNOSTIC | OCT_TRAIT_CLAMP,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = oct_infer_numbers,
    .reference = reference,
    .scalar1 = relu,
    .clamp = clamp,
    .lower = lower,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_OBSERVED},
    .imports = OCT_ONNX_IMPORT("Relu", 7),
    .exports = OCT_ONNX_EXPORT("Relu"),
    .cases = cases,
};
