/* add and sub. 8 bits: t = float(a - a_zp) * (sa / so) +- float(b - b_zp) * (sb / so), rounded once.
 * SPDX-License-Identifier: MIT */
#include "ops/elementwise.h"

static double add(const oct_node *node, double a, double b) {
  (void)node;
  return a + b;
}

static double sub(const oct_node *node, double a, double b) {
  (void)node;
  return a - b;
}

static int64_t add_integer(const oct_node *node, int64_t a, int64_t b, bool is_unsigned) {
  (void)node, (void)is_unsigned;
  return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t sub_integer(const oct_node *node, int64_t a, int64_t b, bool is_unsigned) {
  (void)node, (void)is_unsigned;
  return (int64_t)((uint64_t)a - (uint64_t)b);
}

static octet_status reference_add(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  return oct_binary_reference_with(node, in[0], in[1], out[0], add_integer);
}

static octet_status reference_sub(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  return oct_binary_reference_with(node, in[0], in[1], out[0], sub_integer);
}

static void dense_add(const oct_vector_kernels *v, size_t n, const float *a, const float *b, float *y) { v->add_f32(n, a, b, y); }
static void dense_sub(const oct_vector_kernels *v, size_t n, const float *a, const float *b, float *y) { v->sub_f32(n, a, b, y); }
OCT_APPLY2_F32(apply_add, dense_add, u + w)
OCT_APPLY2_F32(apply_sub, dense_sub, u - w)

static void add_u8(const oct_binary_u8 *p, size_t n, const uint8_t *a, const uint8_t *b, bool b_broadcast, uint8_t *y) {
  (void)b_broadcast;
  p->vector->add_u8(n, a, b, y, p->a_scale, p->a_zero_point, p->b_scale, p->b_zero_point, p->zero_point, 0, 255);
}

static octet_status lower_sum(oct_lowering *l, oct_node *node, float sign, const char *float_kernel, oct_binary_f32 apply) {
  if (!oct_binary_is_u8(l, node)) return oct_binary_lower(l, node, float_kernel, apply);
  for (int i = 0; i < 2; i++) OCT_TRY(oct_lower_multiplier(l, node->inputs[i]->quant->scale[0], 1, node->outputs[0]->quant->scale[0]));
  oct_binary_slots slots;
  OCT_TRY(oct_binary_take(l, node, OCT_U8, &slots));
  const oct_binary_u8 p = {.a_scale = slots.a->scale / slots.out->scale, .b_scale = sign * (slots.b->scale / slots.out->scale)};
  return oct_binary_u8_lower(l, node, "add_u8", add_u8, false, &p, &slots);
}

static octet_status lower_add(oct_lowering *l, oct_node *node) { return lower_sum(l, node, 1, "add_f32", apply_add); }
static octet_status lower_sub(oct_lowering *l, oct_node *node) { return lower_sum(l, node, -1, "sub_f32", apply_sub); }

static const char *const cases[] = {"in=f32[1,3,5,7],f32[1,3,5,7]",
                                    "in=f32[2,16,4,4],f32[16,1,1]",
                                    "in=f32[3,1],f32[1,5]",
                                    "in=f32[2,17],f32[]=0.5",
                                    "in=f32[1,5,1,1],f32[1,5,3,3]",
                                    "in=i32[4],i32[4]",
                                    "in=u8[3,3],u8[3]",
                                    NULL};

const oct_op oct_op_add = {
    .name = "add",
    .summary = "a + b",
    .traits =
        OCT_TRAIT_ELEMENTWISE | OCT_TRAIT_BINARY | OCT_TRAIT_IN_PLACE | OCT_TRAIT_LAYOUT_AGNOSTIC | OCT_TRAIT_COMMUTATIVE | OCT_TRAIT_ADD,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = oct_infer_broadcast_numbers,
    .reference = reference_add,
    .scalar2 = add,
    .lower = lower_add,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION, OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_OBSERVED},
    .imports = OCT_ONNX_IMPORT("Add", 7),
    .exports = OCT_ONNX_EXPORT("Add"),
    .cases = cases,
};

const oct_op oct_op_sub = {
    .name = "sub",
    .summary = "a - b",
    .traits = OCT_TRAIT_ELEMENTWISE | OCT_TRAIT_BINARY | OCT_TRAIT_IN_PLACE | OCT_TRAIT_LAYOUT_AGNOSTIC,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = oct_infer_broadcast_numbers,
    .reference = reference_sub,
    .scalar2 = sub,
    .lower = lower_sub,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION, OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_OBSERVED},
    .imports = OCT_ONNX_IMPORT("Sub", 7),
    .exports = OCT_ONNX_EXPORT("Sub"),
    .cases = cases,
};
