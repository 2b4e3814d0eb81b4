/* Smooth activations: sigmoid, tanh, hard_sigmoid, hard_swish, mish, softplus, softsign; gelu and swish are in gelu.c.
 * SPDX-License-Identifier: MIT */
#include "ops/elementwise.h"

static double sigmoid(const oct_node *node, double x) {
  (void)node;
  return oct_sigmoid(x);
}

static double tanh_of(const oct_node *node, double x) {
  (void)node;
  return oct_tanh(x);
}

static double unit_clamp(double x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

static double hard_sigmoid(const oct_node *node, double x) {
  return unit_clamp((double)oct_node_float(node, "alpha") * x + (double)oct_node_float(node, "beta"));
}

static double hard_swish(const oct_node *node, double x) {
  (void)node;
  return x * unit_clamp(x / 6 + 0.5);
}

/* log(1 + e^x) */
static double softplus(const oct_node *node, double x) {
  (void)node;
  double e = oct_exp(-fabs(x)), positive = x > 0 ? x : 0;
  if (x != x) return x;
  return positive + (e < 1e-5 ? e - 0.5 * e * e : oct_log(1 + e));
}

static double mish(const oct_node *node, double x) { return x == -INFINITY ? 0 : x * oct_tanh(softplus(node, x)); }

static double softsign(const oct_node *node, double x) {
  (void)node;
  return isinf(x) ? copysign(1, x) : x / (1 + fabs(x));
}

static inline float unit_clamp_f32(float x) {
  float low = x < 0.0f ? 0.0f : x;
  return low > 1.0f ? 1.0f : low;
}

static inline float positive_f32(float x) { return x < 0.0f ? -x : x; }

OCT_APPLY_MATH(apply_sigmoid, sigmoid_f32)
OCT_APPLY_MATH(apply_tanh, tanh_f32)
OCT_APPLY_F32(apply_hard_sigmoid, unit_clamp_f32(p[0] * v + p[1]))
OCT_APPLY_F32(apply_hard_swish, v *unit_clamp_f32(v *(1.0f / 6.0f) + 0.5f))
OCT_APPLY_F32(apply_softsign, v / (1.0f + positive_f32(v)))
OCT_APPLY_F32(apply_softplus, (float)softplus(NULL, (double)v))
OCT_APPLY_F32(apply_mish, (float)mish(NULL, (double)v))

static octet_status lower_sigmoid(oct_lowering *l, oct_node *node) { return oct_unary_lower(l, node, "sigmoid_f32", apply_sigmoid, NULL); }
static octet_status lower_tanh(oct_lowering *l, oct_node *node) { return oct_unary_lower(l, node, "tanh_f32", apply_tanh, NULL); }
static octet_status lower_hard_swish(oct_lowering *l, oct_node *node) {
  return oct_unary_lower(l, node, "hard_swish_f32", apply_hard_swish, NULL);
}
static octet_status lower_softplus(oct_lowering *l, oct_node *node) {
  return oct_unary_lower(l, node, "softplus_f32", apply_softplus, NULL);
}
static octet_status lower_softsign(oct_lowering *l, oct_node *node) {
  return oct_unary_lower(l, node, "softsign_f32", apply_softsign, NULL);
}
static octet_status lower_mish(oct_lowering *l, oct_node *node) { return oct_unary_lower(l, node, "mish_f32", apply_mish, NULL); }

static octet_status lower_hard_sigmoid(oct_lowering *l, oct_node *node) {
  const float p[OCT_UNARY_PARAMETERS] = {oct_node_float(node, "alpha"), oct_node_float(node, "beta")};
  return oct_unary_lower(l, node, "hard_sigmoid_f32", apply_hard_sigmoid, p);
}

#define NUMBER(name, fallback, text) \
  { name, OCT_ATTRIBUTE_FLOAT, false, fallback, 0, 0, text }
static const oct_attribute_spec hard_attributes[] = {NUMBER("alpha", "0.2", "slope"), NUMBER("beta", "0.5", "value at 0"), {0}};

#define ACTIVATION(op, text, function, lowering)                                                                                        \
  .name = op, .summary = text, .min_inputs = 1, .max_inputs = 1, .min_outputs = 1, .max_outputs = 1,                                    \
  .traits = OCT_TRAIT_ELEMENTWISE | OCT_TRAIT_UNARY | OCT_TRAIT_IN_PLACE | OCT_TRAIT_LAYOUT_AGNOSTIC, .reference = oct_unary_reference, \
  .scalar1 = function, .lower = lowering

#define OBSERVED \
  { .roles = {OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_OBSERVED }
#define FIXED(low, high) \
  { .roles = {OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_FIXED, .fixed_low = low, .fixed_high = high }

static const char *const cases[] = {"in=f32[1,3,5,7]", "in=f32[2,17]", "in=f16[5]", NULL};
static const char *const hard_cases[] = {"in=f32[1,3,5,7]", "in=f32[2,17] attr:alpha=0.16666667 beta=0.5", NULL};

const oct_op oct_op_sigmoid = {
    ACTIVATION("sigmoid", "1 / (1 + e^-x)", sigmoid, lower_sigmoid),
    .infer = oct_infer_floats,
    .quantization = FIXED(0, 1),
    .imports = OCT_ONNX_IMPORT("Sigmoid", 7),
    .exports = OCT_ONNX_EXPORT("Sigmoid"),
    .cases = cases,
};
const oct_op oct_op_tanh = {
    ACTIVATION("tanh", "hyperbolic tangent", tanh_of, lower_tanh),
    .infer = oct_infer_floats,
    .quantization = FIXED(-1, 1),
    .imports = OCT_ONNX_IMPORT("Tanh", 7),
    .exports = OCT_ONNX_EXPORT("Tanh"),
    .cases = cases,
};
const oct_op oct_op_hard_sigmoid = {
    ACTIVATION("hard_sigmoid", "alpha x + beta, clamped to 0..1", hard_sigmoid, lower_hard_sigmoid),
    .infer = oct_infer_floats,
    .attributes = hard_attributes,
    .quantization = FIXED(0, 1),
    .imports = OCT_ONNX_IMPORT("HardSigmoid", 7),
    .exports = OCT_ONNX_EXPORT("HardSigmoid"),
    .cases = hard_cases,
};
const oct_op oct_op_hard_swish = {
    ACTIVATION("hard_swish", "x clamp(x/6 + 1/2, 0, 1)", hard_swish, lower_hard_swish),
    .infer = oct_infer_floats,
    .quantization = OBSERVED,
    .imports = OCT_ONNX_IMPORT("HardSwish", 14),
    .exports = OCT_ONNX_EXPORT("HardSwish"),
    .cases = cases,
};
const oct_op oct_op_softplus = {
    ACTIVATION("softplus", "log(1 + e^x)", softplus, lower_softplus),
    .infer = oct_infer_floats,
    .quantization = OBSERVED,
    .imports = OCT_ONNX_IMPORT("Softplus", 7),
    .exports = OCT_ONNX_EXPORT("Softplus"),
    .cases = cases,
};
const oct_op oct_op_softsign = {
    ACTIVATION("softsign", "x / (1 + |x|)", softsign, lower_softsign),
    .infer = oct_infer_floats,
    .quantization = FIXED(-1, 1),
    .imports = OCT_ONNX_IMPORT("Softsign", 7),
    .exports = OCT_ONNX_EXPORT("Softsign"),
    .cases = cases,
};
const oct_op oct_op_mish = {
    ACTIVATION("mish", "x tanh(log(1 + e^x))", mish, lower_mish),
    .infer = oct_infer_floats,
    .quantization = OBSERVED,
    .imports = OCT_ONNX_IMPORT("Mish", 18),
    .exports = OCT_ONNX_EXPORT("Mish"),
    .cases = cases,
};
