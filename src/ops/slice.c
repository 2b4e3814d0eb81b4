/* Slice (ONNX, numpy's basic indexing). Bounds are inputs today; before operator set 10 attributes.
 * SPDX-License-Identifier: MIT */
#include "ops/movement.h"

/* starts, ends, axes, steps as given. */
typedef struct slice_lists {
  int64_t values[4][OCT_MAX_RANK];
  int count[4]; /* -1: not constant; 0 may be "absent" */
} slice_lists;

typedef struct slice_plan {
  int64_t start[OCT_MAX_RANK], step[OCT_MAX_RANK], count[OCT_MAX_RANK];
} slice_plan;

static void resolve_axis(slice_plan *p, int axis, int64_t dim, int64_t start, int64_t end, int64_t step) {
  if (step < -INT64_MAX) step = -INT64_MAX;
  if (start < 0) start += dim;
  if (end < 0) end += dim;
  int64_t low = step > 0 ? 0 : -1, high = step > 0 ? dim : dim - 1;
  start = start < 0 ? 0 : start > high ? high : start;
  end = end < low ? low : end > high ? high : end;
  int64_t distance = step > 0 ? end - start : start - end;
  p->count[axis] = distance > 0 && dim > 0 ? (distance - 1) / (step > 0 ? step : -step) + 1 : 0;
  p->start[axis] = p->count[axis] ? start : 0;
  p->step[axis] = p->count[axis] > 1 ? step : 1;
}

/* The slice of a shape; unknown dims that are sliced get an unknown count. Returns the broken rule in words, or NULL. */
static const char *resolve(const oct_shape *in, const slice_lists *lists, slice_plan *p) {
  int n = lists->count[0];
  bool seen[OCT_MAX_RANK] = {false};
  if (lists->count[1] != n) return "starts and ends differ in length";
  if (lists->count[2] && lists->count[2] != n) return "axes and starts differ in length";
  if (lists->count[3] && lists->count[3] != n) return "steps and starts differ in length";
  if (n > in->rank) return "more starts than dims";
  for (int i = 0; i < in->rank; i++) p->start[i] = 0, p->step[i] = 1, p->count[i] = in->dim[i];
  for (int i = 0; i < n; i++) {
    int64_t axis = lists->count[2] ? lists->values[2][i] : i, step = lists->count[3] ? lists->values[3][i] : 1;
    if (!oct_axis_normalize(&axis, in->rank)) return "an axis is out of range";
    if (seen[axis]) return "an axis is given twice";
    if (step == 0) return "a step is 0";
    seen[axis] = true;
    if (in->dim[axis] == OCT_DIM_UNKNOWN) continue;
    resolve_axis(p, (int)axis, in->dim[axis], lists->values[0][i], lists->values[1][i], step);
  }
  return NULL;
}

static bool constant_lists(const oct_node *node, slice_lists *lists) {
  bool constant = true;
  for (int i = 0; i < 4; i++) {
    const oct_value *v = i + 1 < node->n_inputs ? node->inputs[i + 1] : NULL;
    lists->count[i] = v ? oct_constant_ints(v, lists->values[i], OCT_MAX_RANK) : 0;
    if (lists->count[i] < 0) constant = false;
  }
  return constant;
}

static octet_status infer(octet_context *ctx, oct_node *node) {
  const oct_value *x = node->inputs[0];
  slice_lists lists;
  slice_plan plan;
  char text[OCT_SHAPE_TEXT];
  for (int i = 1; i < node->n_inputs; i++) {
    const oct_value *v = node->inputs[i];
    if (v && v->dtype != OCT_DTYPE_NONE && v->dtype != OCT_I64 && v->dtype != OCT_I32)
      return oct_infer_fail(ctx, node, "'%s' is %s; it must be i64 or i32", v->name, oct_dtype_name(v->dtype));
    if (v && v->has_shape && v->shape.rank != 1)
      return oct_infer_fail(ctx, node, "'%s' is %s; it must be a list", v->name, oct_shape_text(&v->shape, text));
    if (v && v->has_shape && v->shape.dim[0] > OCT_MAX_RANK)
      return oct_infer_fail(ctx, node, "'%s' has more numbers than a tensor has dims", v->name);
  }
  if (!x->has_shape) {
    oct_infer_set(node->outputs[0], x->dtype, NULL);
    return OCTET_OK;
  }
  oct_shape out = {.rank = x->shape.rank};
  if (!constant_lists(node, &lists)) {
    for (int i = 0; i < out.rank; i++) out.dim[i] = OCT_DIM_UNKNOWN;
    oct_infer_set(node->outputs[0], x->dtype, &out);
    return OCTET_OK;
  }
  const char *why = resolve(&x->shape, &lists, &plan);
  if (why) return oct_infer_fail(ctx, node, "%s; the input is %s", why, oct_shape_text(&x->shape, text));
  memcpy(out.dim, plan.count, sizeof out.dim);
  oct_infer_set(node->outputs[0], x->dtype, &out);
  return OCTET_OK;
}

static oct_copy make_copy(const slice_plan *p, const oct_shape *out, const int64_t in_stride[OCT_MAX_RANK],
                          const int64_t out_stride[OCT_MAX_RANK]) {
  oct_copy copy = oct_copy_make(out, in_stride, out_stride);
  for (int i = 0; i < out->rank; i++) {
    copy.in_offset += p->start[i] * in_stride[i];
    copy.in_stride[i] = in_stride[i] * p->step[i];
  }
  return copy;
}

static octet_status reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  slice_lists lists;
  slice_plan plan = {{0}, {0}, {0}};
  for (int i = 0; i < 4; i++)
    lists.count[i] = i + 1 < node->n_inputs && in[i + 1] ? oct_tensor_ints(in[i + 1], lists.values[i], OCT_MAX_RANK) : 0;
  const char *why = resolve(&in[0]->shape, &lists, &plan);
  for (int i = 0; !why && i < out[0]->shape.rank; i++)
    if (plan.count[i] != out[0]->shape.dim[i]) why = "the bounds differ from those that were planned with";
  if (why) return oct_fail(ctx, OCTET_SHAPE, "node '%s' (slice): %s", node->name, why);
  int64_t from[OCT_MAX_RANK], to[OCT_MAX_RANK];
  if (oct_shape_count(&out[0]->shape) == 0) return OCTET_OK;
  oct_shape_strides(&in[0]->shape, from);
  oct_shape_strides(&out[0]->shape, to);
  oct_copy copy = make_copy(&plan, &out[0]->shape, from, to);
  oct_copy_run(&copy, oct_dtype_size(in[0]->dtype), in[0]->data, out[0]->data);
  return OCTET_OK;
}

static octet_status lower(oct_lowering *l, oct_node *node) {
  slice_lists lists;
  slice_plan plan;
  oct_slot *in, *out;
  const uint8_t *table;
  if (!constant_lists(node, &lists) || resolve(&node->inputs[0]->shape, &lists, &plan))
    return oct_lower_decline(l, "the bounds are not constant");
  if (oct_shape_count(&node->outputs[0]->shape) == 0) return oct_lower_decline(l, "the result is empty");
  OCT_TRY(oct_movement_slots(l, node->inputs[0], node->outputs[0], &in, &out, &table));
  int64_t from[OCT_MAX_RANK], to[OCT_MAX_RANK];
  oct_slot_strides(in, in->shape.rank, from);
  oct_slot_strides(out, out->shape.rank, to);
  oct_copy copy = make_copy(&plan, &out->shape, from, to);
  return oct_movement_step(l, node, &copy, in, out, table);
}

/* Attributes starts, ends, axes (operator sets 1 to 9). */
static octet_status import_attribute_form(oct_importer *importer, const oct_foreign_node *foreign) {
  static const char *const ignore[] = {"starts", "ends", "axes", NULL};
  oct_value *inputs[4] = {oct_foreign_input(foreign, 0), NULL, NULL, NULL};
  oct_node *node;
  for (int i = 0; i < 3; i++) OCT_TRY(oct_import_ints_input(importer, foreign, ignore[i], &inputs[i + 1]));
  if (!inputs[1] || !inputs[2]) return oct_import_unsupported(importer, foreign, "the attributes starts and ends are required");
  OCT_TRY(oct_import_node(importer, foreign, "slice", inputs, inputs[3] ? 4 : 3, 1, &node));
  OCT_TRY(oct_import_attributes(importer, foreign, node, ignore));
  return oct_import_finish(importer, foreign, node);
}

static const oct_import_row imports[] = {
    {"onnx", "Slice", 1, 9, import_attribute_form},
    {"onnx", "Slice", 10, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};
static const oct_export_row exports[] = {{"onnx", "Slice", NULL}, {NULL, NULL, NULL}};
static const char *const cases[] = {
    "in=f32[4,5],i64[2]=1,0,i64[2]=3,5,i64[2]=0,1,i64[2]=1,2",
    "in=f32[4,5],i64[1]=-1,i64[1]=-5,i64[1]=1,i64[1]=-1",
    "in=f32[2,8,6,6],i64[1]=2,i64[1]=7,i64[1]=1",
    "in=f32[1,3,9,9],i64[2]=0,1,i64[2]=1000,1000,i64[2]=2,3,i64[2]=2,2",
    "in=i64[6],i64[1]=4,i64[1]=2",
    NULL,
};

const oct_op oct_op_slice = {
    .name = "slice",
    .summary = "every step-th element between bounds, per axis",
    .traits = OCT_TRAIT_MOVEMENT | OCT_TRAIT_LAYOUT_AGNOSTIC,
    .min_inputs = 3,
    .max_inputs = 5,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = infer,
    .reference = reference,
    .lower = lower,
    .per_sample = oct_per_sample_slice,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION, OCT_ROLE_NONE}, .output = OCT_OUTPUT_SAME},
    .imports = imports,
    .exports = exports,
    .cases = cases,
};
