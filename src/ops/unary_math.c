/* Functions of one number: exp, log, sqrt, reciprocal, erf.
 * SPDX-License-Identifier: MIT */
#include "ops/elementwise.h"

static double exp_of(const oct_node *node, double x) {
  (void)node;
  return oct_exp(x);
}

static double log_of(const oct_node *node, double x) {
  (void)node;
  return oct_log(x);
}

static double sqrt_of(const oct_node *node, double x) {
  (void)node;
  return sqrt(x);
}

static double reciprocal(const oct_node *node, double x) {
  (void)node;
  return 1 / x;
}

static double erf_of(const oct_node *node, double x) {
  (void)node;
  return oct_erf(x);
}

OCT_APPLY_MATH(apply_exp, exp_f32)
OCT_APPLY_F32(apply_log, (float)oct_log((double)v))
OCT_APPLY_F32(apply_sqrt, sqrtf(v))
OCT_APPLY_F32(apply_reciprocal, 1.0f / v)
OCT_APPLY_MATH(apply_erf, erf_f32)

static octet_status lower_exp(oct_lowering *l, oct_node *node) { return oct_unary_lower(l, node, "exp_f32", apply_exp, NULL); }
static octet_status lower_log(oct_lowering *l, oct_node *node) { return oct_unary_lower(l, node, "log_f32", apply_log, NULL); }
static octet_status lower_sqrt(oct_lowering *l, oct_node *node) { return oct_unary_lower(l, node, "sqrt_f32", apply_sqrt, NULL); }
static octet_status lower_reciprocal(oct_lowering *l, oct_node *node) {
  return oct_unary_lower(l, node, "reciprocal_f32", apply_reciprocal, NULL);
}
static octet_status lower_erf(oct_lowering *l, oct_node *node) { return oct_unary_lower(l, node, "erf_f32", apply_erf, NULL); }

#define FUNCTION(op, text, function, lowering, onnx, since)                                                                             \
  .name = op, .summary = text, .min_inputs = 1, .max_inputs = 1, .min_outputs = 1, .max_outputs = 1,                                    \
  .traits = OCT_TRAIT_ELEMENTWISE | OCT_TRAIT_UNARY | OCT_TRAIT_IN_PLACE | OCT_TRAIT_LAYOUT_AGNOSTIC, .reference = oct_unary_reference, \
  .scalar1 = function, .lower = lowering, .quantization = {.roles = {OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_OBSERVED},              \
  .imports = OCT_ONNX_IMPORT(onnx, since), .exports = OCT_ONNX_EXPORT(onnx)

static const char *const cases[] = {"in=f32[1,3,5,7]", "in=f32[2,17]", "in=f16[5]", "in=f64[3]", NULL};

const oct_op oct_op_exp = {
    FUNCTION("exp", "e^x", exp_of, lower_exp, "Exp", 7),
    .infer = oct_infer_floats,
    .cases = cases,
};
const oct_op oct_op_log = {
    FUNCTION("log", "natural logarithm", log_of, lower_log, "Log", 7),
    .infer = oct_infer_floats,
    .cases = cases,
};
const oct_op oct_op_sqrt = {
    FUNCTION("sqrt", "square root", sqrt_of, lower_sqrt, "Sqrt", 7),
    .infer = oct_infer_floats,
    .cases = cases,
};
const oct_op oct_op_reciprocal = {
    FUNCTION("reciprocal", "1 / x", reciprocal, lower_reciprocal, "Reciprocal", 7),
    .infer = oct_infer_floats,
    .cases = cases,
};
const oct_op oct_op_erf = {
    FUNCTION("erf", "error function", erf_of, lower_erf, "Erf", 9),
    .infer = oct_infer_numbers,
    .cases = cases,
};
