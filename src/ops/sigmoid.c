/* Smooth activations: sigmoid, tanh, swish, hard_sigmoid, hard_swish, gelu, mish, softplus, softsign.
 * SPDX-License-Identifier: MIT */
#include "ops/elementwise.h"
#include "ops/math_f32.h"

#define SQRT_HALF 0x1.6a09e667f3bcdp-1
#define SQRT_TWO_OVER_PI 0x1.9884533d43651p-1

static double sigmoid(const oct_node *node, double x) {
  (void)node;
  return oct_sigmoid(x);
}

static double tanh_of(const oct_node *node, double x) {
  (void)node;
  return oct_tanh(x);
}

static double swish(const oct_node *node, double x) { return x == -INFINITY ? 0 : x * oct_sigmoid((double)oct_node_float(node, "alpha") * x); }

static double unit_clamp(double x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

static double hard_sigmoid(const oct_node *node, double x) {
  return unit_clamp((double)oct_node_float(node, "alpha") * x + (double)oct_node_float(node, "beta"));
}

static double hard_swish(const oct_node *node, double x) {
  (void)node;
  return x * unit_clamp(x / 6 + 0.5);
}

static bool is_tanh_form(const oct_node *node) { return strcmp(oct_node_string(node, "approximate"), "tanh") == 0; }

static double gelu(const oct_node *node, double x) {
  if (x == -INFINITY) return 0;
  if (is_tanh_form(node)) return 0.5 * x * (1 + oct_tanh(SQRT_TWO_OVER_PI * (x + 0.044715 * x * x * x)));
  return 0.5 * x * (1 + oct_erf(x * SQRT_HALF));
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

OCT_APPLY_F32(apply_sigmoid, oct_sigmoid_f32(v))
OCT_APPLY_F32(apply_tanh, oct_tanh_f32(v))
OCT_APPLY_F32(apply_swish, v *oct_sigmoid_f32(p[0] * v))
OCT_APPLY_F32(apply_hard_sigmoid, unit_clamp_f32(p[0] * v + p[1]))
OCT_APPLY_F32(apply_hard_swish, v *unit_clamp_f32(v * (1.0f / 6.0f) + 0.5f))
OCT_APPLY_F32(apply_gelu_erf, 0.5f * v * (1.0f + oct_erf_f32(v *(float)SQRT_HALF)))
OCT_APPLY_F32(apply_gelu_tanh, 0.5f * v * (1.0f + oct_tanh_f32((float)SQRT_TWO_OVER_PI * (v + 0.044715f * v * v * v))))
OCT_APPLY_F32(apply_softsign, v / (1.0f + positive_f32(v)))
OCT_APPLY_F32(apply_softplus, (float)softplus(NULL, (double)v))
OCT_APPLY_F32(apply_mish, (float)mish(NULL, (double)v))

static octet_status lower_sigmoid(oct_lowering *l, oct_node *node) { return oct_unary_lower(l, node, "sigmoid_f32", apply_sigmoid, NULL); }
static octet_status lower_tanh(oct_lowering *l, oct_node *node) { return oct_unary_lower(l, node, "tanh_f32", apply_tanh, NULL); }
static octet_status lower_hard_swish(oct_lowering *l, oct_node *node) { return oct_unary_lower(l, node, "hard_swish_f32", apply_hard_swish, NULL); }
static octet_status lower_softplus(oct_lowering *l, oct_node *node) { return oct_unary_lower(l, node, "softplus_f32", apply_softplus, NULL); }
static octet_status lower_softsign(oct_lowering *l, oct_node *node) { return oct_unary_lower(l, node, "softsign_f32", apply_softsign, NULL); }
static octet_status lower_mish(oct_lowering *l, oct_node *node) { return oct_unary_lower(l, node, "mish_f32", apply_mish, NULL); }

static octet_status lower_swish(oct_lowering *l, oct_node *node) {
  return oct_unary_lower(l, node, "swish_f32", apply_swish, (const float[OCT_UNARY_PARAMETERS]){oct_node_float(node, "alpha")});
}

static octet_status lower_hard_sigmoid(oct_lowering *l, oct_node *node) {
  const float p[OCT_UNARY_PARAMETERS] = {oct_node_float(node, "alpha"), oct_node_float(node, "beta")};
  return oct_unary_lower(l, node, "hard_sigmoid_f32", apply_hard_sigmoid, p);
}

static octet_status lower_gelu(oct_lowering *l, oct_node *node) {
  return oct_unary_lower(l, node, "gelu_f32", is_tanh_form(node) ? apply_gelu_tanh : apply_gelu_erf, NULL);
}

static octet_status infer_gelu(octet_context *ctx, oct_node *node) {
  const char *form = oct_node_string(node, "approximate");
  if (strcmp(form, "none") != 0 && strcmp(form, "tanh") != 0)
    return oct_infer_fail(ctx, node, "attribute \"approximate\" is \"%s\"; it can be \"none\" or \"tanh\"", form);
  return oct_infer_floats(ctx, node);
}

#define NUMBER(name, fallback, text) {name, OCT_ATTRIBUTE_FLOAT, false, fallback, 0, 0, text}
static const oct_attribute_spec hard_attributes[] = {NUMBER("alpha", "0.2", "slope"), NUMBER("beta", "0.5", "value at 0"), {0}};
static const oct_attribute_spec swish_attributes[] = {NUMBER("alpha", "1", "slope inside the sigmoid"), {0}};
static const oct_attribute_spec gelu_attributes[] = {{"approximate", OCT_ATTRIBUTE_STRING, false, "none", 0, 0, "none (erf) or tanh"}, {0}};

#define ACTIVATION(op, text, function, lowering)                                                                                     \
  .name = op, .summary = text, .min_inputs = 1, .max_inputs = 1, .min_outputs = 1, .max_outputs = 1,                                  \
  .traits = OCT_TRAIT_ELEMENTWISE | OCT_TRAIT_UNARY | OCT_TRAIT_IN_PLACE | OCT_TRAIT_LAYOUT_AGNOSTIC,                                 \
  .reference = oct_unary_reference, .scalar1 = function, .lower = lowering

#define OBSERVED {.roles = {OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_OBSERVED}
#define FIXED(low, high) {.roles = {OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_FIXED, .fixed_low = low, .fixed_high = high}

static const char *const cases[] = {"in=f32[1,3,5,7]", "in=f32[2,17]", "in=f16[5]", NULL};
static const char *const hard_cases[] = {"in=f32[1,3,5,7]", "in=f32[2,17] attr:alpha=0.16666667 beta=0.5", NULL};
static const char *const gelu_cases[] = {"in=f32[1,3,5,7]", "in=f32[2,17] attr:approximate=\"tanh\"", NULL};

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
const oct_op oct_op_swish = {
  ACTIVATION("swish", "x sigmoid(alpha x)", swish, lower_swish),
  .infer = oct_infer_floats,
  .attributes = swish_attributes,
  .quantization = OBSERVED,
  .imports = OCT_ONNX_IMPORT("Swish", 24),
  .cases = cases,
};
const oct_op oct_op_gelu = {
  ACTIVATION("gelu", "x Phi(x), Phi the normal distribution", gelu, lower_gelu),
  .infer = infer_gelu,
  .attributes = gelu_attributes,
  .quantization = OBSERVED,
  .imports = OCT_ONNX_IMPORT("Gelu", 20),
  .cases = gelu_cases,
};
