/* Concat (ONNX): inputs one after the other along an axis. 8-bit inputs of another scale are mapped on the way.
 * SPDX-License-Identifier: MIT */
#include "ops/movement.h"

static octet_status check_input(octet_context *ctx, const oct_node *node, int i) {
  const oct_value *first = node->inputs[0], *v = node->inputs[i];
  if (!v) return oct_infer_fail(ctx, node, "input %d is absent", i);
  if (v->dtype != first->dtype && v->dtype != OCT_DTYPE_NONE && first->dtype != OCT_DTYPE_NONE)
    return oct_infer_fail(ctx, node, "input '%s' is %s, but '%s' is %s", v->name, oct_dtype_name(v->dtype), first->name,
                          oct_dtype_name(first->dtype));
  return OCTET_OK;
}

/* Joins a further shape to `out` along `axis`. */
static octet_status join(octet_context *ctx, const oct_node *node, const oct_shape *s, int axis, oct_shape *out) {
  char a[OCT_SHAPE_TEXT], b[OCT_SHAPE_TEXT];
  if (s->rank != out->rank)
    return oct_infer_fail(ctx, node, "%s and %s have different ranks", oct_shape_text(out, a), oct_shape_text(s, b));
  for (int d = 0; d < out->rank; d++) {
    int64_t *have = &out->dim[d], add = s->dim[d];
    if (d == axis) {
      if (*have == OCT_DIM_UNKNOWN || add == OCT_DIM_UNKNOWN) *have = OCT_DIM_UNKNOWN;
      else if (__builtin_add_overflow(*have, add, have)) return oct_infer_fail(ctx, node, "the result is too large");
    } else if (*have == OCT_DIM_UNKNOWN) {
      *have = add;
    } else if (add != OCT_DIM_UNKNOWN && add != *have) {
      return oct_infer_fail(ctx, node, "%s and %s differ in dim %d, which is not the axis", oct_shape_text(out, a), oct_shape_text(s, b),
                            d);
    }
  }
  return OCTET_OK;
}

static octet_status infer(octet_context *ctx, oct_node *node) {
  const oct_value *first = node->inputs[0];
  bool known = true;
  for (int i = 0; i < node->n_inputs; i++) {
    OCT_TRY(check_input(ctx, node, i));
    known = known && node->inputs[i]->has_shape;
  }
  if (!known) {
    oct_infer_set(node->outputs[0], first->dtype, NULL);
    return OCTET_OK;
  }
  int64_t axis = oct_node_int(node, "axis");
  if (!oct_axis_normalize(&axis, first->shape.rank))
    return oct_infer_fail(ctx, node, "axis %lld is out of range for rank %d", (long long)axis, first->shape.rank);
  oct_shape out = first->shape;
  for (int i = 1; i < node->n_inputs; i++) OCT_TRY(join(ctx, node, &node->inputs[i]->shape, (int)axis, &out));
  oct_infer_set(node->outputs[0], first->dtype, &out);
  return OCTET_OK;
}

static octet_status reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  int64_t axis = oct_node_int(node, "axis"), from[OCT_MAX_RANK], to[OCT_MAX_RANK], offset = 0;
  if (oct_shape_count(&out[0]->shape) == 0) return OCTET_OK;
  oct_axis_normalize(&axis, out[0]->shape.rank);
  oct_shape_strides(&out[0]->shape, to);
  for (int i = 0; i < node->n_inputs; i++) {
    oct_shape_strides(&in[i]->shape, from);
    oct_copy copy = oct_copy_make(&in[i]->shape, from, to);
    copy.out_offset = offset;
    oct_copy_run(&copy, oct_dtype_size(in[i]->dtype), in[i]->data, out[0]->data);
    offset += in[i]->shape.dim[axis] * to[axis];
  }
  return OCTET_OK;
}

/* Every input is stored as the output is; else all are taken in the logical type. */
static bool as_stored(oct_lowering *l, const oct_node *node) {
  for (int i = 0; i < node->n_inputs; i++) {
    const oct_value *v = node->inputs[i];
    oct_dtype have = v->kind == OCT_CONSTANT && !v->quant ? v->dtype : oct_lower_dtype(l, v);
    if (have != oct_lower_dtype(l, node->outputs[0])) return false;
  }
  return true;
}

static octet_status lower(oct_lowering *l, oct_node *node) {
  oct_value *y = node->outputs[0];
  int64_t axis = oct_node_int(node, "axis"), offset = 0, from[OCT_MAX_RANK], to[OCT_MAX_RANK];
  bool stored = as_stored(l, node);
  if (oct_shape_count(&y->shape) == 0) return oct_lower_decline(l, "the result is empty");
  oct_slot *out, *in;
  OCT_TRY(oct_lower_output(l, y, stored ? OCT_DTYPE_NONE : y->dtype, oct_lower_layout(l, y), &out));
  oct_axis_normalize(&axis, y->shape.rank);
  oct_slot_strides(out, out->shape.rank, to);
  for (int i = 0; i < node->n_inputs; i++) {
    const oct_value *v = node->inputs[i];
    const uint8_t *table;
    OCT_TRY(oct_lower_stored(l, v, &in));
    if (in->dtype != out->dtype) OCT_TRY(oct_lower_input(l, v, out->dtype, in->layout, NULL, &in));
    OCT_TRY(oct_requantize_table(l, in, out, &table));
    oct_slot_strides(in, in->shape.rank, from);
    oct_copy copy = oct_copy_make(&v->shape, from, to);
    copy.out_offset = offset;
    OCT_TRY(oct_movement_step(l, node, &copy, in, out, table));
    offset += v->shape.dim[axis] * to[axis];
  }
  return OCTET_OK;
}

static const oct_attribute_spec attributes[] = {
    {"axis", OCT_ATTRIBUTE_INT, true, NULL, -OCT_MAX_RANK, OCT_MAX_RANK - 1, "along which the inputs follow one another"},
    {NULL, OCT_ATTRIBUTE_INT, false, NULL, 0, 0, NULL},
};
static const oct_import_row imports[] = {{"onnx", "Concat", 4, 0, NULL}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row exports[] = {{"onnx", "Concat", NULL}, {NULL, NULL, NULL}};
static const char *const cases[] = {
    "in=f32[2,3],f32[2,5] attr:axis=1",
    "in=f32[1,8,5,5],f32[1,3,5,5],f32[1,16,5,5] attr:axis=1",
    "in=f32[1,4,2,3],f32[1,4,3,3] attr:axis=-2",
    "in=i64[2],i64[1],i64[3] attr:axis=0",
    "in=f32[2,3,4] attr:axis=0",
    NULL,
};

const oct_op oct_op_concat = {
    .name = "concat",
    .summary = "inputs one after the other along an axis",
    .traits = OCT_TRAIT_LAYOUT_AGNOSTIC,
    .min_inputs = 1,
    .max_inputs = -1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attributes = attributes,
    .infer = infer,
    .reference = reference,
    .lower = lower,
    .per_sample = oct_per_sample_axis,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION, OCT_ROLE_ACTIVATION, OCT_ROLE_ACTIVATION, OCT_ROLE_ACTIVATION},
                     .output = OCT_OUTPUT_OBSERVED},
    .imports = imports,
    .exports = exports,
    .cases = cases,
};
