/* leaky_relu and its relatives with a branch at zero: elu, selu, celu, thresholded_relu.
 * SPDX-License-Identifier: MIT */
#include "ops/elementwise.h"
#include "ops/math_f32.h"

static double expm1_of(double x) { return x > -1e-5 ? x + 0.5 * x * x : oct_exp(x) - 1; }

static double leaky_relu(const oct_node *node, double x) { return x < 0 ? (double)oct_node_float(node, "alpha") * x : x; }

static double elu(const oct_node *node, double x) { return x < 0 ? (double)oct_node_float(node, "alpha") * expm1_of(x) : x; }

static double selu(const oct_node *node, double x) {
  double alpha = (double)oct_node_float(node, "alpha"), gamma = (double)oct_node_float(node, "gamma");
  return gamma * (x < 0 ? alpha * expm1_of(x) : x);
}

static double celu(const oct_node *node, double x) {
  double alpha = (double)oct_node_float(node, "alpha");
  return x < 0 && alpha != 0 ? alpha * expm1_of(x / alpha) : x;
}

static double thresholded_relu(const oct_node *node, double x) { return x > (double)oct_node_float(node, "alpha") || x != x ? x : 0; }

static inline float leaky_f32(float x, float alpha) {
  float scaled = x * alpha;
  return x < 0 ? scaled : x;
}

static inline float elu_f32(float x, float alpha, float inner, float outer) {
  float low = alpha * (oct_exp_f32(x * inner) - 1.0f);
  return outer * (x < 0 ? low : x);
}

OCT_APPLY_F32(apply_leaky, leaky_f32(v, p[0]))
OCT_APPLY_F32(apply_elu, elu_f32(v, p[0], p[1], p[2]))
OCT_APPLY_F32(apply_threshold, v > p[0] || v != v ? v : 0)

static octet_status lower_leaky(oct_lowering *l, oct_node *node) {
  return oct_unary_lower(l, node, "leaky_relu_f32", apply_leaky, (const float[OCT_UNARY_PARAMETERS]){oct_node_float(node, "alpha")});
}

static octet_status lower_elu(oct_lowering *l, oct_node *node) {
  return oct_unary_lower(l, node, "elu_f32", apply_elu, (const float[OCT_UNARY_PARAMETERS]){oct_node_float(node, "alpha"), 1, 1});
}

static octet_status lower_selu(oct_lowering *l, oct_node *node) {
  const float p[OCT_UNARY_PARAMETERS] = {oct_node_float(node, "alpha"), 1, oct_node_float(node, "gamma")};
  return oct_unary_lower(l, node, "elu_f32", apply_elu, p);
}

static octet_status lower_celu(oct_lowering *l, oct_node *node) {
  float alpha = oct_node_float(node, "alpha");
  return oct_unary_lower(l, node, "elu_f32", apply_elu, (const float[OCT_UNARY_PARAMETERS]){alpha, 1 / alpha, 1});
}

static octet_status lower_threshold(oct_lowering *l, oct_node *node) {
  return oct_unary_lower(l, node, "thresholded_relu_f32", apply_threshold,
                         (const float[OCT_UNARY_PARAMETERS]){oct_node_float(node, "alpha")});
}

static octet_status infer_celu(octet_context *ctx, oct_node *node) {
  if (oct_node_float(node, "alpha") == 0) return oct_infer_fail(ctx, node, "attribute \"alpha\" is 0, which celu divides by");
  return oct_infer_floats(ctx, node);
}

#define ALPHA(fallback, text) \
  { "alpha", OCT_ATTRIBUTE_FLOAT, false, fallback, 0, 0, text }
static const oct_attribute_spec leaky_attributes[] = {ALPHA("0.01", "slope below 0"), {0}};
static const oct_attribute_spec alpha_attributes[] = {ALPHA("1", "scale of the exponential"), {0}};
static const oct_attribute_spec threshold_attributes[] = {ALPHA("1", "what is not above becomes 0"), {0}};
static const oct_attribute_spec selu_attributes[] = {
    ALPHA("1.67326319217681884765625", "scale of the exponential"),
    {"gamma", OCT_ATTRIBUTE_FLOAT, false, "1.05070102214813232421875", 0, 0, "scale of the whole"},
    {0}};

#define BRANCH(op, text, rows, function, lowering, onnx, since)                                                                         \
  .name = op, .summary = text, .attributes = rows, .min_inputs = 1, .max_inputs = 1, .min_outputs = 1, .max_outputs = 1,                \
  .traits = OCT_TRAIT_ELEMENTWISE | OCT_TRAIT_UNARY | OCT_TRAIT_IN_PLACE | OCT_TRAIT_LAYOUT_AGNOSTIC, .reference = oct_unary_reference, \
  .scalar1 = function, .lower = lowering, .quantization = {.roles = {OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_OBSERVED},              \
  .imports = OCT_ONNX_IMPORT(onnx, since), .exports = OCT_ONNX_EXPORT(onnx)

static const char *const leaky_cases[] = {"in=f32[1,3,5,7]", "in=f32[2,17] attr:alpha=0.2", "in=f16[5]", NULL};
static const char *const cases[] = {"in=f32[1,3,5,7]", "in=f32[2,17] attr:alpha=0.5", NULL};

const oct_op oct_op_leaky_relu = {
    BRANCH("leaky_relu", "x, or alpha x below 0", leaky_attributes, leaky_relu, lower_leaky, "LeakyRelu", 7),
    .infer = oct_infer_floats,
    .cases = leaky_cases,
};
const oct_op oct_op_elu = {
    BRANCH("elu", "x, or alpha (e^x - 1) below 0", alpha_attributes, elu, lower_elu, "Elu", 7),
    .infer = oct_infer_floats,
    .cases = cases,
};
const oct_op oct_op_selu = {
    BRANCH("selu", "gamma times elu", selu_attributes, selu, lower_selu, "Selu", 7),
    .infer = oct_infer_floats,
    .cases = cases,
};
const oct_op oct_op_celu = {
    BRANCH("celu", "x, or alpha (e^(x/alpha) - 1) below 0", alpha_attributes, celu, lower_celu, "Celu", 12),
    .infer = infer_celu,
    .cases = cases,
};
const oct_op oct_op_thresholded_relu = {
    BRANCH("thresholded_relu", "x where above alpha, else 0", threshold_attributes, thresholded_relu, lower_threshold, "ThresholdedRelu",
           10),
    .infer = oct_infer_floats,
    .cases = cases,
};
