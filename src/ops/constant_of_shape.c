/* ConstantOfShape and Range (ONNX): tensors made from numbers that are usually known when the graph is read.
 * SPDX-License-Identifier: MIT */
#include "ops/op.h"

/* ---- ConstantOfShape --------------------------------------------------------------------------------------------- */

static const oct_tensor *value_of(const oct_node *node) {
  const oct_attribute *a = oct_node_attribute(node, "value");
  return a && a->type == OCT_ATTRIBUTE_TENSOR ? a->tensor : NULL;
}

static octet_status infer_fill(octet_context *ctx, oct_node *node) {
  const oct_value *s = node->inputs[0];
  const oct_tensor *t = value_of(node);
  oct_dtype dtype = t ? t->dtype : OCT_F32;
  oct_shape out = {0};
  if (t && oct_shape_count(&t->shape) != 1) return oct_infer_fail(ctx, node, "the attribute value must hold one element");
  if (s->dtype != OCT_DTYPE_NONE && s->dtype != OCT_I64)
    return oct_infer_fail(ctx, node, "the shape is %s; it must be i64", oct_dtype_name(s->dtype));
  if (s->has_shape && (s->shape.rank != 1 || s->shape.dim[0] > OCT_MAX_RANK))
    return oct_infer_fail(ctx, node, "the shape must be a list of at most %d numbers", OCT_MAX_RANK);
  int count = oct_constant_ints(s, out.dim, OCT_MAX_RANK);
  out.rank = count >= 0 ? count : s->has_shape && s->shape.dim[0] >= 0 ? (int)s->shape.dim[0] : 0;
  for (int i = 0; i < out.rank; i++) {
    if (count < 0) out.dim[i] = OCT_DIM_UNKNOWN;
    else if (out.dim[i] < 0) return oct_infer_fail(ctx, node, "the shape holds %lld", (long long)out.dim[i]);
  }
  oct_infer_set(node->outputs[0], dtype, count >= 0 || (s->has_shape && s->shape.dim[0] >= 0) ? &out : NULL);
  return OCTET_OK;
}

static octet_status reference_fill(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx, (void)in;
  const oct_tensor *t = value_of(node);
  size_t size = oct_dtype_size(out[0]->dtype);
  if (!t) {
    if (out[0]->bytes) memset(out[0]->data, 0, out[0]->bytes);
    return OCTET_OK;
  }
  for (size_t i = 0; i < out[0]->bytes; i += size) memcpy((char *)out[0]->data + i, t->data, size);
  return OCTET_OK;
}

/* ---- Range --------------------------------------------------------------------------------------------------------- */

/* Elements from start to limit (exclusive) in steps of delta; -1: not a count. */
static int64_t range_count(double start, double limit, double delta) {
  double n = ceil((limit - start) / delta);
  if (!(n > 0)) return delta != 0 && n == n ? 0 : -1;
  return n < 4.0e18 ? (int64_t)n : -1;
}

static octet_status infer_range(octet_context *ctx, oct_node *node) {
  oct_dtype dtype = node->inputs[0]->dtype;
  double v[3];
  bool constant = true;
  for (int i = 0; i < 3; i++) {
    const oct_value *x = node->inputs[i];
    if (x->dtype != dtype && x->dtype != OCT_DTYPE_NONE && dtype != OCT_DTYPE_NONE)
      return oct_infer_fail(ctx, node, "start, limit and delta differ in type");
    if (x->has_shape && oct_shape_known(&x->shape) && oct_shape_count(&x->shape) != 1)
      return oct_infer_fail(ctx, node, "'%s' must be one number", x->name);
    constant = oct_constant_scalar(x, &v[i]) && constant;
  }
  oct_shape out = oct_shape_of(1, (int64_t)OCT_DIM_UNKNOWN);
  if (constant) {
    out.dim[0] = range_count(v[0], v[1], v[2]);
    if (out.dim[0] < 0) return oct_infer_fail(ctx, node, "start %g, limit %g, delta %g make no range", v[0], v[1], v[2]);
  }
  oct_infer_set(node->outputs[0], dtype, &out);
  return OCTET_OK;
}

static octet_status reference_range(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx, (void)node;
  int64_t count = oct_shape_count(&out[0]->shape);
  oct_dtype dtype = out[0]->dtype;
  for (int64_t i = 0; i < count; i++) {
    if (oct_dtype_is_float(dtype))
      oct_set_f64(out[0]->data, dtype, i, oct_get_f64(in[0]->data, dtype, 0) + (double)i * oct_get_f64(in[2]->data, dtype, 0));
    else
      oct_set_i64(out[0]->data, dtype, i,
                  (int64_t)((uint64_t)oct_get_i64(in[0]->data, dtype, 0) + (uint64_t)i * (uint64_t)oct_get_i64(in[2]->data, dtype, 0)));
  }
  return OCTET_OK;
}

static const oct_attribute_spec fill_attributes[] = {
    {"value", OCT_ATTRIBUTE_TENSOR, false, NULL, 0, 0, "one element; f32 0 when absent"},
    {NULL, OCT_ATTRIBUTE_INT, false, NULL, 0, 0, NULL},
};
static const oct_import_row fill_imports[] = {{"onnx", "ConstantOfShape", 9, 0, NULL}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row fill_exports[] = {{"onnx", "ConstantOfShape", NULL}, {NULL, NULL, NULL}};
static const oct_import_row range_imports[] = {{"onnx", "Range", 11, 0, NULL}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row range_exports[] = {{"onnx", "Range", NULL}, {NULL, NULL, NULL}};
static const char *const fill_cases[] = {"in=i64[2]=3,4", "in=i64[1]=0", NULL};
static const char *const range_cases[] = {"in=i64[]=2,i64[]=9,i64[]=3", "in=f32[]=1,f32[]=-1,f32[]=-0.25", NULL};

const oct_op oct_op_constant_of_shape = {
    .name = "constant_of_shape",
    .summary = "a tensor of one value",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attributes = fill_attributes,
    .infer = infer_fill,
    .reference = reference_fill,
    .quantization = {.output = OCT_OUTPUT_NONE},
    .imports = fill_imports,
    .exports = fill_exports,
    .cases = fill_cases,
};

const oct_op oct_op_range = {
    .name = "range",
    .summary = "numbers from start to limit in steps",
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = infer_range,
    .reference = reference_range,
    .quantization = {.output = OCT_OUTPUT_NONE},
    .imports = range_imports,
    .exports = range_exports,
    .cases = range_cases,
};
