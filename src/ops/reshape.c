/* Reshape (ONNX): 0 copies a dim of the input (unless allowzero), -1 takes what is left.
 * SPDX-License-Identifier: MIT */
#include "ops/movement.h"

/* Size for the -1: what the input has left after the other dims; unknown dims that were copied cancel. */
static const char *fill_rest(const oct_shape *in, const bool copied[OCT_MAX_RANK], oct_shape *out, int rest) {
  int64_t have = 1, need = 1;
  bool known = true;
  for (int i = 0; i < in->rank; i++) {
    if (in->dim[i] == OCT_DIM_UNKNOWN) known = known && i < out->rank && copied[i];
    else if (__builtin_mul_overflow(have, in->dim[i], &have)) return "the input is too large";
  }
  for (int i = 0; i < out->rank; i++) {
    if (i == rest) continue;
    if (out->dim[i] == OCT_DIM_UNKNOWN) known = known && copied[i];
    else if (__builtin_mul_overflow(need, out->dim[i], &need)) return "the new shape is too large";
  }
  if (!known) return NULL;
  if (need == 0) return "-1 cannot be determined beside a dim of 0";
  if (have % need != 0) return "the elements do not divide into the new shape";
  out->dim[rest] = have / need;
  return NULL;
}

static const char *new_shape(const oct_shape *in, const int64_t *wanted, int count, bool allowzero, oct_shape *out) {
  bool copied[OCT_MAX_RANK] = {false}, zero = false;
  int rest = -1;
  out->rank = count;
  for (int i = 0; i < count; i++) {
    out->dim[i] = wanted[i];
    zero = zero || wanted[i] == 0;
    if (wanted[i] < -1) return "a dim below -1";
    if (wanted[i] == -1 && rest >= 0) return "more than one -1";
    if (wanted[i] == -1) rest = i;
    if (wanted[i] != 0 || allowzero) continue;
    if (i >= in->rank) return "a 0 beyond the rank of the input";
    copied[i] = true;
    out->dim[i] = in->dim[i];
  }
  if (rest < 0) return NULL;
  if (zero && allowzero) return "both 0 and -1 with allowzero";
  out->dim[rest] = OCT_DIM_UNKNOWN;
  return fill_rest(in, copied, out, rest);
}

static octet_status infer(octet_context *ctx, oct_node *node) {
  const oct_value *x = node->inputs[0], *s = node->inputs[1];
  int64_t wanted[OCT_MAX_RANK];
  char a[OCT_SHAPE_TEXT], b[OCT_SHAPE_TEXT];
  oct_shape out = {0};
  if (s->dtype != OCT_DTYPE_NONE && s->dtype != OCT_I64)
    return oct_infer_fail(ctx, node, "the shape '%s' is %s; it must be i64", s->name, oct_dtype_name(s->dtype));
  if (s->has_shape && (s->shape.rank != 1 || s->shape.dim[0] > OCT_MAX_RANK))
    return oct_infer_fail(ctx, node, "the shape '%s' is %s; it must be a list of at most %d numbers", s->name, oct_shape_text(&s->shape, a),
                          OCT_MAX_RANK);
  int count = oct_constant_ints(s, wanted, OCT_MAX_RANK);
  if (count < 0 || !x->has_shape) {
    out.rank = s->has_shape && s->shape.dim[0] >= 0 ? (int)s->shape.dim[0] : 0;
    for (int i = 0; i < out.rank; i++) out.dim[i] = count >= 0 && wanted[i] > 0 ? wanted[i] : OCT_DIM_UNKNOWN;
    oct_infer_set(node->outputs[0], x->dtype, s->has_shape && s->shape.dim[0] >= 0 ? &out : NULL);
    return OCTET_OK;
  }
  const char *why = new_shape(&x->shape, wanted, count, oct_node_int(node, "allowzero"), &out);
  int64_t have = oct_shape_count(&x->shape), need = oct_shape_count(&out);
  if (!why && oct_shape_known(&x->shape) && oct_shape_known(&out) && have != need) why = "the number of elements differs";
  if (why) return oct_infer_fail(ctx, node, "%s cannot become %s: %s", oct_shape_text(&x->shape, a), oct_shape_text(&out, b), why);
  oct_infer_set(node->outputs[0], x->dtype, &out);
  return OCTET_OK;
}

static const oct_attribute_spec attributes[] = {
    {"allowzero", OCT_ATTRIBUTE_INT, false, "0", 0, 1, "a 0 in the shape means 0"},
    {NULL, OCT_ATTRIBUTE_INT, false, NULL, 0, 0, NULL},
};
static const oct_import_row imports[] = {{"onnx", "Reshape", 5, 0, NULL}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row exports[] = {{"onnx", "Reshape", NULL}, {NULL, NULL, NULL}};
static const char *const cases[] = {
    "in=f32[2,3,4],i64[2]=0,-1", "in=f32[2,3,4,5],i64[3]=4,-1,3", "in=f32[1,5],i64[4]=1,5,1,1", "in=i32[6],i64[2]=2,3", NULL,
};

const oct_op oct_op_reshape = {
    .name = "reshape",
    .summary = "same elements in another shape",
    .traits = OCT_TRAIT_VIEW | OCT_TRAIT_MOVEMENT,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .attributes = attributes,
    .infer = infer,
    .reference = oct_reference_view,
    .lower = oct_lower_view,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION, OCT_ROLE_NONE}, .output = OCT_OUTPUT_SAME},
    .imports = imports,
    .exports = exports,
    .cases = cases,
};
