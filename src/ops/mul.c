/* mul. 8 bits: t = float((a - a_zp) (b - b_zp)) * (sa sb / so), rounded once; [N,C,1,1] onto [N,C,H,W] (squeeze and excite) included.
 * SPDX-License-Identifier: MIT */
#include "ops/elementwise.h"

static double mul(const oct_node *node, double a, double b) {
  (void)node;
  return a * b;
}

static int64_t mul_integer(const oct_node *node, int64_t a, int64_t b, bool is_unsigned) {
  (void)node, (void)is_unsigned;
  return (int64_t)((uint64_t)a * (uint64_t)b);
}

static octet_status reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  return oct_binary_reference_with(node, in[0], in[1], out[0], mul_integer);
}

static void dense(const oct_vector_kernels *v, size_t n, const float *a, const float *b, float *y) { v->mul_f32(n, a, b, y); }
OCT_APPLY2_F32(apply, dense, u *w)

static void mul_u8(const oct_binary_u8 *p, size_t n, const uint8_t *a, const uint8_t *b, bool b_broadcast, uint8_t *y) {
  p->vector->mul_u8(n, a, b, b_broadcast, y, p->a_scale, p->a_zero_point, p->b_zero_point, p->zero_point, 0, 255);
}

static octet_status lower(oct_lowering *l, oct_node *node) {
  if (!oct_binary_is_u8(l, node)) return oct_binary_lower(l, node, "mul_f32", apply);
  const oct_quant *a = node->inputs[0]->quant, *b = node->inputs[1]->quant, *out = node->outputs[0]->quant;
  OCT_TRY(oct_lower_multiplier(l, a->scale[0], b->scale[0], out->scale[0]));
  oct_binary_slots slots;
  OCT_TRY(oct_binary_take(l, node, OCT_U8, &slots));
  const oct_binary_u8 p = {.a_scale = oct_multiplier(slots.a->scale, slots.b->scale, slots.out->scale)};
  return oct_binary_u8_lower(l, node, "mul_u8", mul_u8, true, &p, &slots);
}

static const char *const cases[] = {"in=f32[1,3,5,7],f32[1,3,5,7]",
                                    "in=f32[2,16,4,4],f32[2,16,1,1]",
                                    "in=f32[2,5,1,1],f32[2,5,3,3]",
                                    "in=f32[3,1],f32[1,5]",
                                    "in=f32[2,17],f32[]=0.5",
                                    "in=i32[4],i32[4]",
                                    "in=u8[3,3],u8[3]",
                                    NULL};

const oct_op oct_op_mul = {
    .name = "mul",
    .summary = "a b",
    .traits = OCT_TRAIT_ELEMENTWISE | OCT_TRAIT_BINARY | OCT_TRAIT_IN_PLACE | OCT_TRAIT_LAYOUT_AGNOSTIC | OCT_TRAIT_COMMUTATIVE |
              OCT_TRAIT_SCALES,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = oct_infer_broadcast_numbers,
    .reference = reference,
    .scalar2 = mul,
    .lower = lower,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION, OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_OBSERVED},
    .imports = OCT_ONNX_IMPORT("Mul", 7),
    .exports = OCT_ONNX_EXPORT("Mul"),
    .cases = cases,
};
