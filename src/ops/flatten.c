/* Flatten (ONNX): a matrix of the dims before `axis` and those from it on.
 * SPDX-License-Identifier: MIT */
#include "ops/movement.h"

static int64_t product(const oct_shape *s, int from, int to) {
  int64_t n = 1;
  for (int i = from; i < to; i++)
    if (s->dim[i] == OCT_DIM_UNKNOWN || __builtin_mul_overflow(n, s->dim[i], &n)) return OCT_DIM_UNKNOWN;
  return n;
}

static octet_status infer(octet_context *ctx, oct_node *node) {
  const oct_value *x = node->inputs[0];
  int64_t axis = oct_node_int(node, "axis");
  oct_shape out = oct_shape_of(2, (int64_t)OCT_DIM_UNKNOWN, (int64_t)OCT_DIM_UNKNOWN);
  if (x->has_shape) {
    int rank = x->shape.rank;
    if (axis < -rank || axis > rank) return oct_infer_fail(ctx, node, "axis %lld is outside [-%d, %d]", (long long)axis, rank, rank);
    if (axis < 0) axis += rank;
    out.dim[0] = product(&x->shape, 0, (int)axis), out.dim[1] = product(&x->shape, (int)axis, rank);
  }
  oct_infer_set(node->outputs[0], x->dtype, &out);
  return OCTET_OK;
}

static const oct_attribute_spec attributes[] = {
    {"axis", OCT_ATTRIBUTE_INT, false, "1", -OCT_MAX_RANK, OCT_MAX_RANK, "first dim of the columns"},
    {NULL, OCT_ATTRIBUTE_INT, false, NULL, 0, 0, NULL},
};
static const oct_import_row imports[] = {{"onnx", "Flatten", 1, 0, NULL}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row exports[] = {{"onnx", "Flatten", NULL}, {NULL, NULL, NULL}};
static const char *const cases[] = {"in=f32[2,3,4,5]", "in=f32[2,3,4] attr:axis=0", "in=f32[2,3,4] attr:axis=-1", "in=f32[5]", NULL};

const oct_op oct_op_flatten = {
    .name = "flatten",
    .summary = "same elements as a matrix",
    .traits = OCT_TRAIT_VIEW | OCT_TRAIT_MOVEMENT,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attributes = attributes,
    .infer = infer,
    .reference = oct_reference_view,
    .lower = oct_lower_view,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_SAME},
    .imports = imports,
    .exports = exports,
    .cases = cases,
};
