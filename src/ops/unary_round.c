/* Functions of one number that are exact: abs, neg, sign, floor, ceil, round (half to even), not.
 * SPDX-License-Identifier: MIT */
#include "ops/elementwise.h"

static double abs_of(const oct_node *node, double x) {
  (void)node;
  return fabs(x);
}

static double neg(const oct_node *node, double x) {
  (void)node;
  return -x;
}

static double sign(const oct_node *node, double x) {
  (void)node;
  return x > 0 ? 1 : x < 0 ? -1 : x;
}

static double floor_of(const oct_node *node, double x) {
  (void)node;
  return floor(x);
}

static double ceil_of(const oct_node *node, double x) {
  (void)node;
  return ceil(x);
}

static double round_of(const oct_node *node, double x) {
  (void)node;
  return rint(x);
}

static double not_of(const oct_node *node, double x) {
  (void)node;
  return x == 0;
}

/* u64 comes as its bits. */
static bool is_negative(const oct_node *node, int64_t x) { return x < 0 && node->inputs[0]->dtype != OCT_U64; }
static int64_t negate(int64_t x) { return (int64_t)(0 - (uint64_t)x); }

static int64_t abs_integer(const oct_node *node, int64_t x) { return is_negative(node, x) ? negate(x) : x; }
static int64_t sign_integer(const oct_node *node, int64_t x) { return is_negative(node, x) ? -1 : x != 0; }
static int64_t neg_integer(const oct_node *node, int64_t x) {
  (void)node;
  return negate(x);
}

static octet_status reference_abs(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  return oct_unary_reference_with(node, in[0], out[0], abs_integer);
}

static octet_status reference_neg(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  return oct_unary_reference_with(node, in[0], out[0], neg_integer);
}

static octet_status reference_sign(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  return oct_unary_reference_with(node, in[0], out[0], sign_integer);
}

OCT_APPLY_F32(apply_abs, fabsf(v))
OCT_APPLY_F32(apply_neg, -v)
OCT_APPLY_F32(apply_floor, floorf(v))
OCT_APPLY_F32(apply_ceil, ceilf(v))
OCT_APPLY_F32(apply_round, rintf(v))

static octet_status lower_abs(oct_lowering *l, oct_node *node) { return oct_unary_lower(l, node, "abs_f32", apply_abs, NULL); }
static octet_status lower_neg(oct_lowering *l, oct_node *node) { return oct_unary_lower(l, node, "neg_f32", apply_neg, NULL); }
static octet_status lower_floor(oct_lowering *l, oct_node *node) { return oct_unary_lower(l, node, "floor_f32", apply_floor, NULL); }
static octet_status lower_ceil(oct_lowering *l, oct_node *node) { return oct_unary_lower(l, node, "ceil_f32", apply_ceil, NULL); }
static octet_status lower_round(oct_lowering *l, oct_node *node) { return oct_unary_lower(l, node, "round_f32", apply_round, NULL); }
static octet_status lower_table(oct_lowering *l, oct_node *node) { return oct_unary_lower(l, node, "", NULL, NULL); }

static octet_status infer_not(octet_context *ctx, oct_node *node) {
  oct_dtype dtype = node->inputs[0]->dtype;
  if (dtype != OCT_DTYPE_NONE && dtype != OCT_BOOL)
    return oct_infer_fail(ctx, node, "input is %s, but bool is needed", oct_dtype_name(dtype));
  return oct_infer_same(ctx, node);
}

#define FUNCTION(op, text, function, whole, lowering, onnx, since)                                                        \
  .name = op, .summary = text, .min_inputs = 1, .max_inputs = 1, .min_outputs = 1, .max_outputs = 1,                      \
  .traits = OCT_TRAIT_ELEMENTWISE | OCT_TRAIT_UNARY | OCT_TRAIT_IN_PLACE | OCT_TRAIT_LAYOUT_AGNOSTIC, .reference = whole, \
  .scalar1 = function, .lower = lowering, .imports = OCT_ONNX_IMPORT(onnx, since), .exports = OCT_ONNX_EXPORT(onnx)
#define OBSERVED \
  { .roles = {OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_OBSERVED }

static const char *const cases[] = {"in=f32[1,3,5,7]", "in=f32[2,17]", "in=f16[5]", NULL};
static const char *const integer_cases[] = {"in=f32[1,3,5,7]", "in=i32[2,17]", "in=i8[5]", "in=i64[3]", NULL};
static const char *const not_cases[] = {"in=bool[2,3]", "in=bool[]", NULL};

const oct_op oct_op_abs = {
    FUNCTION("abs", "absolute value", abs_of, reference_abs, lower_abs, "Abs", 7),
    .infer = oct_infer_numbers,
    .quantization = OBSERVED,
    .cases = integer_cases,
};
const oct_op oct_op_neg = {
    FUNCTION("neg", "-x", neg, reference_neg, lower_neg, "Neg", 7),
    .infer = oct_infer_numbers,
    .quantization = OBSERVED,
    .cases = integer_cases,
};
const oct_op oct_op_sign = {
    FUNCTION("sign", "-1, 0 or 1", sign, reference_sign, lower_table, "Sign", 9),
    .infer = oct_infer_numbers,
    .quantization = OBSERVED,
    .cases = integer_cases,
};
const oct_op oct_op_floor = {
    FUNCTION("floor", "greatest integer not above x", floor_of, oct_unary_reference, lower_floor, "Floor", 7),
    .infer = oct_infer_floats,
    .quantization = OBSERVED,
    .cases = cases,
};
const oct_op oct_op_ceil = {
    FUNCTION("ceil", "least integer not below x", ceil_of, oct_unary_reference, lower_ceil, "Ceil", 7),
    .infer = oct_infer_floats,
    .quantization = OBSERVED,
    .cases = cases,
};
const oct_op oct_op_round = {
    FUNCTION("round", "nearest integer, half to even", round_of, oct_unary_reference, lower_round, "Round", 11),
    .infer = oct_infer_floats,
    .quantization = OBSERVED,
    .cases = cases,
};
const oct_op oct_op_not = {
    FUNCTION("not", "logical negation", not_of, oct_unary_reference, NULL, "Not", 7),
    .infer = infer_not,
    .quantization = {.output = OCT_OUTPUT_NONE},
    .cases = not_cases,
};
