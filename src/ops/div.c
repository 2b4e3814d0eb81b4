/* div, pow, mod. Integer division truncates, as C's; by zero it gives 0. An 8-bit operand with a small constant runs by tables, two 8-bit
 * operands by one table of all pairs.
 * SPDX-License-Identifier: MIT */
#include "ops/elementwise.h"

static double divide(const oct_node *node, double a, double b) {
  (void)node;
  return a / b;
}

static double power(const oct_node *node, double a, double b) {
  (void)node;
  return b == 2 ? a * a : b == 1 ? a : b == 0.5 && a >= 0 ? sqrt(a) : oct_pow(a, b);
}

static bool truncates(const oct_node *node) { return oct_node_int(node, "fmod") != 0; }

/* Sign of the dividend with fmod = 1, of the divisor without. */
static double modulo(const oct_node *node, double a, double b) {
  double r = fmod(a, b);
  if (truncates(node)) return r;
  if (r == 0) return copysign(0, b);
  return (r < 0) != (b < 0) ? r + b : r;
}

static int64_t divide_integer(const oct_node *node, int64_t a, int64_t b, bool is_unsigned) {
  (void)node;
  if (b == 0) return 0;
  if (is_unsigned) return (int64_t)((uint64_t)a / (uint64_t)b);
  return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static int64_t power_integer(const oct_node *node, int64_t a, int64_t b, bool is_unsigned) {
  bool exponent_negative = b < 0 && node->inputs[1]->dtype != OCT_U64;
  if (exponent_negative) return a == 1 || is_unsigned ? a == 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
  uint64_t result = 1, base = (uint64_t)a;
  for (uint64_t e = (uint64_t)b; e; e >>= 1, base *= base)
    if (e & 1) result *= base;
  return (int64_t)result;
}

static int64_t modulo_integer(const oct_node *node, int64_t a, int64_t b, bool is_unsigned) {
  if (b == 0 || b == -1) return is_unsigned && b ? (int64_t)((uint64_t)a % (uint64_t)b) : 0;
  if (is_unsigned) return (int64_t)((uint64_t)a % (uint64_t)b);
  int64_t r = a % b;
  return !truncates(node) && r && (r < 0) != (b < 0) ? r + b : r;
}

static octet_status reference_div(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  return oct_binary_reference_with(node, in[0], in[1], out[0], divide_integer);
}

static octet_status reference_pow(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  return oct_binary_reference_with(node, in[0], in[1], out[0], power_integer);
}

static octet_status reference_mod(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  return oct_binary_reference_with(node, in[0], in[1], out[0], modulo_integer);
}

/* The exponent may have another type than base and result. */
static octet_status infer_pow(octet_context *ctx, oct_node *node) {
  const oct_value *a = node->inputs[0], *b = node->inputs[1];
  if (a->dtype == OCT_BOOL || b->dtype == OCT_BOOL) return oct_infer_fail(ctx, node, "inputs are bool, but numbers are needed");
  oct_shape shape;
  bool known = a->has_shape && b->has_shape;
  if (known && !oct_shape_broadcast(&a->shape, &b->shape, &shape)) {
    char from[OCT_SHAPE_TEXT], to[OCT_SHAPE_TEXT];
    return oct_infer_fail(ctx, node, "shapes %s and %s do not broadcast", oct_shape_text(&a->shape, from), oct_shape_text(&b->shape, to));
  }
  oct_infer_set(node->outputs[0], a->dtype, known ? &shape : NULL);
  return OCTET_OK;
}

static void dense_div(const oct_vector_kernels *v, size_t n, const float *a, const float *b, float *y) { v->div_f32(n, a, b, y); }
OCT_APPLY2_F32(apply_div, dense_div, u / w)

static void dense_pow(const oct_vector_kernels *v, size_t n, const float *a, const float *b, float *y) {
  (void)v;
  for (size_t i = 0; i < n; i++) y[i] = (float)power(NULL, (double)a[i], (double)b[i]);
}
OCT_APPLY2_F32(apply_pow, dense_pow, (float)power(NULL, (double)u, (double)w))

static octet_status lower_div(oct_lowering *l, oct_node *node) { return oct_binary_lower(l, node, "div_f32", apply_div); }
static octet_status lower_pow(oct_lowering *l, oct_node *node) { return oct_binary_lower(l, node, "pow_f32", apply_pow); }

static const oct_attribute_spec mod_attributes[] = {{"fmod", OCT_ATTRIBUTE_INT, false, "0", 0, 1, "1: the result has the dividend's sign"},
                                                    {0}};

#define PAIR(op, text, more, function, whole, lowering, onnx, since)                                                             \
  .name = op, .summary = text,                                                                                                   \
  .traits = OCT_TRAIT_ELEMENTWISE | OCT_TRAIT_BINARY | OCT_TRAIT_IN_PLACE | OCT_TRAIT_LAYOUT_AGNOSTIC | (more), .min_inputs = 2, \
  .max_inputs = 2, .min_outputs = 1, .max_outputs = 1, .reference = whole, .scalar2 = function, .lower = lowering,               \
  .imports = OCT_ONNX_IMPORT(onnx, since), .exports = OCT_ONNX_EXPORT(onnx)
#define OBSERVED \
  { .roles = {OCT_ROLE_ACTIVATION, OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_OBSERVED }

static const char *const div_cases[] = {"in=f32[1,3,5,7],f32[]=6", "in=f32[3,1],f32[1,5]", "in=i32[4],i32[4]=1,2,-3,0",
                                        "in=f32[2,4],f32[4]=1,2,3,4", NULL};
static const char *const pow_cases[] = {"in=f32[1,3,5,7],f32[]=2", "in=f32[3],i32[3]=1,2,3", "in=i32[3],f32[]=2", NULL};
static const char *const mod_cases[] = {"in=i32[5],i32[5]=1,2,-3,0,7", "in=f32[3,4],f32[4]=1,2,-3,0.5 attr:fmod=1", NULL};

const oct_op oct_op_div = {
    PAIR("div", "a / b", OCT_TRAIT_SCALES, divide, reference_div, lower_div, "Div", 7),
    .infer = oct_infer_broadcast_numbers,
    .quantization = OBSERVED,
    .cases = div_cases,
};
const oct_op oct_op_pow = {
    PAIR("pow", "a to the power b", 0, power, reference_pow, lower_pow, "Pow", 7),
    .infer = infer_pow,
    .quantization = OBSERVED,
    .cases = pow_cases,
};
const oct_op oct_op_mod = {
    PAIR("mod", "remainder", 0, modulo, reference_mod, NULL, "Mod", 10),
    .infer = oct_infer_broadcast_numbers,
    .attributes = mod_attributes,
    .quantization = {.roles = {OCT_ROLE_NONE}, .output = OCT_OUTPUT_FLOAT},
    .cases = mod_cases,
};
