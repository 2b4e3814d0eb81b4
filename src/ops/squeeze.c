/* Squeeze and Unsqueeze (ONNX): dims of 1 taken out or put in. Axes are an input today; before operator set 13 an attribute.
 * SPDX-License-Identifier: MIT */
#include "ops/movement.h"

/* Marks the axes (normalized for `rank`); a broken rule in words, or NULL. */
static const char *mark_axes(const int64_t *axes, int count, int rank, bool marked[OCT_MAX_RANK]) {
  for (int i = 0; i < count; i++) {
    int64_t axis = axes[i];
    if (!oct_axis_normalize(&axis, rank)) return "an axis is out of range";
    if (marked[axis]) return "an axis is given twice";
    marked[axis] = true;
  }
  return NULL;
}

static octet_status check_axes(octet_context *ctx, const oct_node *node, const oct_value *axes) {
  if (!axes) return OCTET_OK;
  if (axes->dtype != OCT_DTYPE_NONE && axes->dtype != OCT_I64)
    return oct_infer_fail(ctx, node, "the axes '%s' are %s; they must be i64", axes->name, oct_dtype_name(axes->dtype));
  if (axes->has_shape && (axes->shape.rank > 1 || oct_shape_count(&axes->shape) > OCT_MAX_RANK))
    return oct_infer_fail(ctx, node, "the axes '%s' must be a list of at most %d numbers", axes->name, OCT_MAX_RANK);
  return OCTET_OK;
}

static octet_status infer_squeeze(octet_context *ctx, oct_node *node) {
  const oct_value *x = node->inputs[0], *axes = node->n_inputs > 1 ? node->inputs[1] : NULL;
  int64_t list[OCT_MAX_RANK];
  bool marked[OCT_MAX_RANK] = {false};
  char text[OCT_SHAPE_TEXT];
  OCT_TRY(check_axes(ctx, node, axes));
  int count = axes ? oct_constant_ints(axes, list, OCT_MAX_RANK) : 0;
  if (!x->has_shape || count < 0 || (!axes && !oct_shape_known(&x->shape))) {
    oct_infer_set(node->outputs[0], x->dtype, NULL);
    return OCTET_OK;
  }
  const char *why = mark_axes(list, count, x->shape.rank, marked);
  if (why) return oct_infer_fail(ctx, node, "%s for the input %s", why, oct_shape_text(&x->shape, text));
  oct_shape out = {0};
  for (int i = 0; i < x->shape.rank; i++) {
    int64_t dim = x->shape.dim[i];
    if (marked[i] && dim != 1 && dim != OCT_DIM_UNKNOWN)
      return oct_infer_fail(ctx, node, "dim %d of %s is not 1", i, oct_shape_text(&x->shape, text));
    if (axes ? !marked[i] : dim != 1) out.dim[out.rank++] = dim;
  }
  oct_infer_set(node->outputs[0], x->dtype, &out);
  return OCTET_OK;
}

static octet_status infer_unsqueeze(octet_context *ctx, oct_node *node) {
  const oct_value *x = node->inputs[0], *axes = node->inputs[1];
  int64_t list[OCT_MAX_RANK];
  bool marked[OCT_MAX_RANK] = {false};
  OCT_TRY(check_axes(ctx, node, axes));
  int count = oct_constant_ints(axes, list, OCT_MAX_RANK);
  if (!x->has_shape || count < 0) {
    oct_infer_set(node->outputs[0], x->dtype, NULL);
    return OCTET_OK;
  }
  oct_shape out = {.rank = x->shape.rank + count};
  if (out.rank > OCT_MAX_RANK) return oct_infer_fail(ctx, node, "the result has rank %d; at most %d is possible", out.rank, OCT_MAX_RANK);
  const char *why = mark_axes(list, count, out.rank, marked);
  if (why) return oct_infer_fail(ctx, node, "%s for a result of rank %d", why, out.rank);
  for (int i = 0, from = 0; i < out.rank; i++) out.dim[i] = marked[i] ? 1 : x->shape.dim[from++];
  oct_infer_set(node->outputs[0], x->dtype, &out);
  return OCTET_OK;
}

static octet_status import_attribute_form(oct_importer *importer, const oct_foreign_node *foreign, const char *op) {
  static const char *const ignore[] = {"axes", NULL};
  oct_value *inputs[2] = {oct_foreign_input(foreign, 0), NULL};
  oct_node *node;
  OCT_TRY(oct_import_ints_input(importer, foreign, "axes", &inputs[1]));
  OCT_TRY(oct_import_node(importer, foreign, op, inputs, inputs[1] ? 2 : 1, 1, &node));
  OCT_TRY(oct_import_attributes(importer, foreign, node, ignore));
  return oct_import_finish(importer, foreign, node);
}
static octet_status import_squeeze(oct_importer *importer, const oct_foreign_node *foreign) {
  return import_attribute_form(importer, foreign, "squeeze");
}
static octet_status import_unsqueeze(oct_importer *importer, const oct_foreign_node *foreign) {
  return import_attribute_form(importer, foreign, "unsqueeze");
}

static const oct_import_row squeeze_imports[] = {
    {"onnx", "Squeeze", 1, 12, import_squeeze},
    {"onnx", "Squeeze", 13, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};
static const oct_import_row unsqueeze_imports[] = {
    {"onnx", "Unsqueeze", 1, 12, import_unsqueeze},
    {"onnx", "Unsqueeze", 13, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};
static const oct_export_row squeeze_exports[] = {{"onnx", "Squeeze", NULL}, {NULL, NULL, NULL}};
static const oct_export_row unsqueeze_exports[] = {{"onnx", "Unsqueeze", NULL}, {NULL, NULL, NULL}};
static const char *const squeeze_cases[] = {"in=f32[2,1,3,1],i64[2]=1,-1", "in=f32[1,3,1]", "in=i64[1,2],i64[1]=0", NULL};
static const char *const unsqueeze_cases[] = {"in=f32[2,3],i64[2]=0,-1", "in=f32[],i64[1]=0", "in=f32[3,4,5],i64[1]=2", NULL};

const oct_op oct_op_squeeze = {
    .name = "squeeze",
    .summary = "dims of 1 taken out",
    .traits = OCT_TRAIT_VIEW | OCT_TRAIT_MOVEMENT,
    .min_inputs = 1,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = infer_squeeze,
    .reference = oct_reference_view,
    .lower = oct_lower_view,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION, OCT_ROLE_NONE}, .output = OCT_OUTPUT_SAME},
    .imports = squeeze_imports,
    .exports = squeeze_exports,
    .cases = squeeze_cases,
};

const oct_op oct_op_unsqueeze = {
    .name = "unsqueeze",
    .summary = "dims of 1 put in",
    .traits = OCT_TRAIT_VIEW | OCT_TRAIT_MOVEMENT,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = infer_unsqueeze,
    .reference = oct_reference_view,
    .lower = oct_lower_view,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION, OCT_ROLE_NONE}, .output = OCT_OUTPUT_SAME},
    .imports = unsqueeze_imports,
    .exports = unsqueeze_exports,
    .cases = unsqueeze_cases,
};
