/* softmax and log_softmax along one axis. Before opset 13 ONNX flattened to two dims at the axis; the import writes that out.
 * On 8-bit values: softmax_u8.c.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "ops/elementwise.h"
#include "ops/math_f32.h"
#include "ops/softmax.h"

static octet_status infer(octet_context *ctx, oct_node *node) {
  const oct_value *x = node->inputs[0];
  int64_t axis = oct_node_int(node, "axis");
  if (x->has_shape && !oct_axis_normalize(&axis, x->shape.rank))
    return oct_infer_fail(ctx, node, "axis %lld is out of range for an input of rank %d", (long long)axis, x->shape.rank);
  return oct_infer_floats(ctx, node);
}

static oct_softmax_view view_of(const oct_shape *shape, int64_t axis) {
  oct_softmax_view v = {1, 1, 1};
  oct_axis_normalize(&axis, shape->rank);
  for (int d = 0; d < shape->rank; d++) *(d < axis ? &v.outer : d == axis ? &v.n : &v.inner) *= shape->dim[d];
  return v;
}

static octet_status reference_any(const oct_node *node, const oct_tensor *x, oct_tensor *y, bool logarithm) {
  oct_softmax_view v = view_of(&x->shape, oct_node_int(node, "axis"));
  for (int64_t row = 0; row < v.outer * v.inner; row++) {
    int64_t at = row / v.inner * v.n * v.inner + row % v.inner;
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < v.n; i++) {
      double e = oct_get_f64(x->data, x->dtype, at + i * v.inner);
      if (e > max) max = e;
    }
    for (int64_t i = 0; i < v.n; i++) sum += oct_exp(oct_get_f64(x->data, x->dtype, at + i * v.inner) - max);
    double log_sum = logarithm ? oct_log(sum) : 0;
    for (int64_t i = 0; i < v.n; i++) {
      double e = oct_get_f64(x->data, x->dtype, at + i * v.inner) - max;
      oct_set_f64(y->data, y->dtype, at + i * v.inner, logarithm ? e - log_sum : oct_exp(e) / sum);
    }
  }
  return OCTET_OK;
}

static octet_status reference_softmax(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  return reference_any(node, in[0], out[0], false);
}

static octet_status reference_log_softmax(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  return reference_any(node, in[0], out[0], true);
}

/* ---- Kernels ------------------------------------------------------------------------------------------------------ */

typedef struct softmax_params {
  const float *x;
  float *y;
  oct_softmax_view view;
  const oct_vector_kernels *vector;
} softmax_params;

static octet_status run_rows_f32(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const softmax_params *p = params;
  size_t n = (size_t)p->view.n;
  p->vector->math->softmax_rows_f32(end - begin, n, p->x + begin * n, p->y + begin * n);
  return OCTET_OK;
}

/* Positions of the inner dims lie side by side. */
static octet_status run_columns_f32(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const softmax_params *p = params;
  size_t n = (size_t)p->view.n, inner = (size_t)p->view.inner;
  for (size_t unit = begin, columns; unit < end; unit += columns) {
    size_t column = unit % inner, at = unit / inner * n * inner + column;
    columns = inner - column < end - unit ? inner - column : end - unit;
    p->vector->math->softmax_columns_f32(columns, n, p->x + at, p->y + at, inner);
  }
  return OCTET_OK;
}

/* One row of log_softmax, n >= LONG_ROW, in vector kernels; `e` has room for n. */
#define LONG_ROW 8

static void logarithm_row(const oct_vector_kernels *vector, size_t n, const float *x, float *y, float *e) {
  float low = INFINITY, max = -INFINITY, sums[LONG_ROW] = {0};
  vector->minmax_f32(n, x, &low, &max);
  vector->scale_f32(n, x, e, 1, -max);
  vector->math->exp_f32(n, e, e);
  for (size_t i = 0; i + LONG_ROW <= n; i += LONG_ROW)
    for (size_t k = 0; k < LONG_ROW; k++) sums[k] += e[i + k];
  for (size_t i = n / LONG_ROW * LONG_ROW; i < n; i++) sums[0] += e[i];
  for (size_t k = 1; k < LONG_ROW; k++) sums[0] += sums[k];
  vector->scale_f32(n, x, y, 1, -max);
  vector->scale_f32(n, y, y, 1, -(float)oct_log((double)sums[0]));
}

static octet_status run_logarithm_rows_f32(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx;
  const softmax_params *p = params;
  size_t n = (size_t)p->view.n;
  for (size_t row = begin; row < end; row++) logarithm_row(p->vector, n, p->x + row * n, p->y + row * n, workspace);
  return OCTET_OK;
}

static octet_status run_logarithm_f32(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const softmax_params *p = params;
  oct_softmax_view v = p->view;
  for (size_t row = begin; row < end; row++) {
    int64_t at = (int64_t)row / v.inner * v.n * v.inner + (int64_t)row % v.inner;
    const float *x = p->x + at;
    float *y = p->y + at, max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < v.n; i++) max = x[i * v.inner] > max ? x[i * v.inner] : max;
    for (int64_t i = 0; i < v.n; i++) sum += oct_exp_f32(x[i * v.inner] - max);
    float log_sum = (float)oct_log((double)sum);
    for (int64_t i = 0; i < v.n; i++) y[i * v.inner] = (x[i * v.inner] - max) - log_sum;
  }
  return OCTET_OK;
}

static octet_status lower_any(oct_lowering *l, oct_node *node, bool logarithm) {
  oct_value *x = node->inputs[0], *result = node->outputs[0];
  oct_slot *in, *out;
  if (x->dtype != OCT_F32) return oct_lower_decline(l, "no kernel for %s", oct_dtype_name(x->dtype));
  OCT_TRY(oct_lower_stored(l, x, &in));
  oct_softmax_view v = view_of(&x->shape, oct_node_int(node, "axis"));
  if (in->quantized && in->dtype == OCT_U8 && result->quant && oct_lower_dtype(l, result) == OCT_U8)
    return oct_softmax_u8_lower(l, node, v, logarithm);
  OCT_TRY(oct_lower_input(l, x, OCT_F32, OCT_LAYOUT_PLAIN, NULL, &in));
  OCT_TRY(oct_lower_output(l, result, OCT_F32, OCT_LAYOUT_PLAIN, &out));
  softmax_params *p;
  oct_step *step;
  bool rows = v.inner == 1 && (!logarithm || v.n >= LONG_ROW);
  oct_step_fn run = logarithm ? rows ? run_logarithm_rows_f32 : run_logarithm_f32 : rows ? run_rows_f32 : run_columns_f32;
  OCT_TRY(oct_lower_step(l, node, "softmax_f32", run, sizeof *p, &p, &step));
  step->in_place = true;
  p->view = v;
  p->vector = l->vector;
  if (logarithm && rows) step->workspace_bytes = (size_t)v.n * sizeof(float);
  oct_softmax_units(step, &v);
  OCT_TRY(oct_lower_read(l, step, &p->x, in));
  return oct_lower_write(l, step, &p->y, out);
}

static octet_status lower_softmax(oct_lowering *l, oct_node *node) { return lower_any(l, node, false); }
static octet_status lower_log_softmax(oct_lowering *l, oct_node *node) { return lower_any(l, node, true); }

/* ---- Import before opset 13 ----------------------------------------------------------------------------------------- */

static const char *const axis_only[] = {"axis", NULL};

/* Adds a node named after the foreign one and its own part in the form. */
static octet_status part_node(oct_importer *importer, const oct_foreign_node *foreign, const char *op, oct_value *const *inputs, int n,
                              oct_node **out) {
  char name[256];
  oct_foreign_node part = *foreign;
  snprintf(name, sizeof name, "%.200s_%s", foreign->name && *foreign->name ? foreign->name : foreign->outputs[0], op);
  part.name = name;
  return oct_import_node(importer, &part, op, inputs, n, 1, out);
}

/* The shape of `x` as an i64 value: a constant when it is known. */
static octet_status shape_value(oct_importer *importer, const oct_foreign_node *foreign, oct_value *x, oct_value **out) {
  if (x->has_shape && oct_shape_known(&x->shape))
    return oct_graph_constant_i64(importer->ctx, importer->graph, NULL, x->shape.dim, (size_t)x->shape.rank, out);
  oct_node *node;
  OCT_TRY(part_node(importer, foreign, "shape", &x, 1, &node));
  *out = node->outputs[0];
  return oct_node_infer(importer->ctx, node);
}

static octet_status import_flattening(oct_importer *importer, const oct_foreign_node *foreign, const char *op) {
  octet_context *ctx = importer->ctx;
  oct_value *x = oct_foreign_input(foreign, 0), *pair[2];
  int64_t axis = oct_foreign_int(foreign, "axis", 1), normalized = axis;
  oct_node *node, *back;
  if (!x || foreign->n_outputs < 1 || !foreign->outputs[0])
    return oct_import_unsupported(importer, foreign, "the input or output is absent");
  bool last = x->has_shape && oct_axis_normalize(&normalized, x->shape.rank) && normalized == x->shape.rank - 1;
  if (last) {
    OCT_TRY(oct_import_node(importer, foreign, op, &x, 1, 1, &node));
    OCT_TRY(oct_node_set_int(ctx, importer->graph, node, "axis", -1));
    OCT_TRY(oct_import_attributes(importer, foreign, node, axis_only));
    return oct_import_finish(importer, foreign, node);
  }
  OCT_TRY(part_node(importer, foreign, "flatten", &x, 1, &node));
  OCT_TRY(oct_node_set_int(ctx, importer->graph, node, "axis", axis));
  OCT_TRY(oct_node_infer(ctx, node));
  OCT_TRY(part_node(importer, foreign, op, node->outputs, 1, &node));
  OCT_TRY(oct_node_set_int(ctx, importer->graph, node, "axis", -1));
  OCT_TRY(oct_import_attributes(importer, foreign, node, axis_only));
  OCT_TRY(oct_node_infer(ctx, node));
  pair[0] = node->outputs[0];
  OCT_TRY(shape_value(importer, foreign, x, &pair[1]));
  OCT_TRY(oct_import_node(importer, foreign, "reshape", pair, 2, 1, &back));
  if (x->has_shape && oct_shape_count(&x->shape) == 0) OCT_TRY(oct_node_set_int(ctx, importer->graph, back, "allowzero", 1));
  return oct_import_finish(importer, foreign, back);
}

static octet_status import_softmax(oct_importer *importer, const oct_foreign_node *foreign) {
  return import_flattening(importer, foreign, "softmax");
}
static octet_status import_log_softmax(oct_importer *importer, const oct_foreign_node *foreign) {
  return import_flattening(importer, foreign, "log_softmax");
}

static const oct_attribute_spec attributes[] = {{"axis", OCT_ATTRIBUTE_INT, false, "-1", 0, 0, "along which the results sum to 1"}, {0}};

static const char *const cases[] = {
    "in=f32[1,10]", "in=f32[3,17]", "in=f32[2,5,4] attr:axis=1", "in=f32[2,3,4] attr:axis=0", "in=f16[2,5]", "in=f32[1,1000]", NULL};

const oct_op oct_op_softmax = {
    .name = "softmax",
    .summary = "e^x over its sum along an axis",
    .traits = OCT_TRAIT_SOFTMAX,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attributes = attributes,
    .infer = infer,
    .reference = reference_softmax,
    .lower = lower_softmax,
    .per_sample = oct_per_sample_axis,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_FIXED, .fixed_low = 0, .fixed_high = 1},
    .imports = (const oct_import_row[]){{"onnx", "Softmax", 7, 12, import_softmax}, {"onnx", "Softmax", 13, 0, NULL}, {0}},
    .exports = OCT_ONNX_EXPORT("Softmax"),
    .cases = cases,
};

const oct_op oct_op_log_softmax = {
    .name = "log_softmax",
    .summary = "logarithm of softmax",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attributes = attributes,
    .infer = infer,
    .reference = reference_log_softmax,
    .lower = lower_log_softmax,
    .per_sample = oct_per_sample_axis,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION}, .output = OCT_OUTPUT_OBSERVED},
    .imports = (const oct_import_row[]){{"onnx", "LogSoftmax", 7, 12, import_log_softmax}, {"onnx", "LogSoftmax", 13, 0, NULL}, {0}},
    .exports = OCT_ONNX_EXPORT("LogSoftmax"),
    .cases = cases,
};
