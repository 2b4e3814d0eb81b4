/* Comparisons (equal, less, ...) and the logic of bools (and, or, xor).
 * SPDX-License-Identifier: MIT */
#include "ops/elementwise.h"

static double equal(const oct_node *node, double a, double b) {
  (void)node;
  return a == b;
}

static double less(const oct_node *node, double a, double b) {
  (void)node;
  return a < b;
}

static double less_or_equal(const oct_node *node, double a, double b) {
  (void)node;
  return a <= b;
}

static double greater(const oct_node *node, double a, double b) {
  (void)node;
  return a > b;
}

static double greater_or_equal(const oct_node *node, double a, double b) {
  (void)node;
  return a >= b;
}

static double and_of(const oct_node *node, double a, double b) {
  (void)node;
  return a != 0 && b != 0;
}

static double or_of(const oct_node *node, double a, double b) {
  (void)node;
  return a != 0 || b != 0;
}

static double xor_of(const oct_node *node, double a, double b) {
  (void)node;
  return (a != 0) != (b != 0);
}

/* Flipping the sign bit turns the order of u64 into that of i64. */
static int64_t ordered(int64_t x, bool is_unsigned) { return is_unsigned ? (int64_t)((uint64_t)x ^ (UINT64_C(1) << 63)) : x; }

static int64_t equal_integer(const oct_node *node, int64_t a, int64_t b, bool is_unsigned) {
  (void)node, (void)is_unsigned;
  return a == b;
}

static int64_t less_integer(const oct_node *node, int64_t a, int64_t b, bool is_unsigned) {
  (void)node;
  return ordered(a, is_unsigned) < ordered(b, is_unsigned);
}

static int64_t greater_integer(const oct_node *node, int64_t a, int64_t b, bool is_unsigned) {
  return less_integer(node, b, a, is_unsigned);
}
static int64_t less_or_equal_integer(const oct_node *node, int64_t a, int64_t b, bool is_unsigned) {
  return !less_integer(node, b, a, is_unsigned);
}
static int64_t greater_or_equal_integer(const oct_node *node, int64_t a, int64_t b, bool is_unsigned) {
  return !less_integer(node, a, b, is_unsigned);
}

#define REFERENCE(name, integer)                                                                                            \
  static octet_status name(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) { \
    (void)ctx;                                                                                                              \
    return oct_binary_reference_with(node, in[0], in[1], out[0], integer);                                                  \
  }
REFERENCE(reference_equal, equal_integer)
REFERENCE(reference_less, less_integer)
REFERENCE(reference_less_or_equal, less_or_equal_integer)
REFERENCE(reference_greater, greater_integer)
REFERENCE(reference_greater_or_equal, greater_or_equal_integer)
REFERENCE(reference_logic, NULL)

#define RELATION(op, text, function, whole, onnx, since)                                                                               \
  .name = op, .summary = text, .min_inputs = 2, .max_inputs = 2, .min_outputs = 1, .max_outputs = 1, .reference = whole,               \
  .scalar2 = function, .quantization = {.roles = {OCT_ROLE_NONE}, .output = OCT_OUTPUT_NONE}, .imports = OCT_ONNX_IMPORT(onnx, since), \
  .exports = OCT_ONNX_EXPORT(onnx)
#define SYMMETRIC (OCT_TRAIT_ELEMENTWISE | OCT_TRAIT_BINARY | OCT_TRAIT_COMMUTATIVE)
#define ORDERED (OCT_TRAIT_ELEMENTWISE | OCT_TRAIT_BINARY)

static const char *const cases[] = {"in=f32[1,3,5,7],f32[1,3,5,7]", "in=f32[3,1],f32[1,5]", "in=i64[5],i64[]=1", "in=u8[5],u8[5]", NULL};
static const char *const logic_cases[] = {"in=bool[3,4],bool[3,4]", "in=bool[3,1],bool[1,4]", NULL};

const oct_op oct_op_equal = {
    RELATION("equal", "a == b", equal, reference_equal, "Equal", 7),
    .traits = SYMMETRIC,
    .infer = oct_infer_compare,
    .cases = cases,
};
const oct_op oct_op_less = {
    RELATION("less", "a < b", less, reference_less, "Less", 7),
    .traits = ORDERED,
    .infer = oct_infer_compare,
    .cases = cases,
};
const oct_op oct_op_less_or_equal = {
    RELATION("less_or_equal", "a <= b", less_or_equal, reference_less_or_equal, "LessOrEqual", 12),
    .traits = ORDERED,
    .infer = oct_infer_compare,
    .cases = cases,
};
const oct_op oct_op_greater = {
    RELATION("greater", "a > b", greater, reference_greater, "Greater", 7),
    .traits = ORDERED,
    .infer = oct_infer_compare,
    .cases = cases,
};
const oct_op oct_op_greater_or_equal = {
    RELATION("greater_or_equal", "a >= b", greater_or_equal, reference_greater_or_equal, "GreaterOrEqual", 12),
    .traits = ORDERED,
    .infer = oct_infer_compare,
    .cases = cases,
};
const oct_op oct_op_and = {
    RELATION("and", "both", and_of, reference_logic, "And", 7),
    .traits = SYMMETRIC,
    .infer = oct_infer_broadcast_bools,
    .cases = logic_cases,
};
const oct_op oct_op_or = {
    RELATION("or", "either", or_of, reference_logic, "Or", 7),
    .traits = SYMMETRIC,
    .infer = oct_infer_broadcast_bools,
    .cases = logic_cases,
};
const oct_op oct_op_xor = {
    RELATION("xor", "one of the two", xor_of, reference_logic, "Xor", 7),
    .traits = SYMMETRIC,
    .infer = oct_infer_broadcast_bools,
    .cases = logic_cases,
};
