/* LayerNormalization (ONNX): over the last dims, from `axis` on: (x - mean) / sqrt(variance + epsilon) * scale + shift.
 * Outputs 1 and 2 are mean and 1 / sqrt(variance + epsilon), with the normalized dims being 1.
 * SPDX-License-Identifier: MIT */
#include "ops/op.h"

static octet_status infer(octet_context *ctx, oct_node *node) {
  const oct_value *x = node->inputs[0];
  int64_t axis = oct_node_int(node, "axis");
  if (x->dtype != OCT_DTYPE_NONE && !oct_dtype_is_float(x->dtype))
    return oct_infer_fail(ctx, node, "the input is %s; it must be a float", oct_dtype_name(x->dtype));
  oct_infer_set(node->outputs[0], x->dtype, x->has_shape ? &x->shape : NULL);
  if (x->has_shape && !oct_axis_normalize(&axis, x->shape.rank))
    return oct_infer_fail(ctx, node, "axis %lld is out of range for rank %d", (long long)axis, x->shape.rank);
  oct_shape reduced = x->shape, broadcast;
  for (int d = (int)axis; x->has_shape && d < x->shape.rank; d++) reduced.dim[d] = 1;
  for (int i = 1; i < node->n_outputs; i++) oct_infer_set(node->outputs[i], OCT_F32, x->has_shape ? &reduced : NULL);
  for (int i = 1; i < node->n_inputs; i++) {
    const oct_value *v = node->inputs[i];
    char text[OCT_SHAPE_TEXT];
    if (!v || !v->has_shape || !x->has_shape) continue;
    if (v->shape.rank > x->shape.rank || !oct_shape_broadcast(&v->shape, &x->shape, &broadcast))
      return oct_infer_fail(ctx, node, "'%s' is %s; it does not broadcast to the input", v->name, oct_shape_text(&v->shape, text));
  }
  return OCTET_OK;
}

/* The tensor as [rows][n]. */
static void split(const oct_node *node, const oct_shape *shape, int64_t *rows, int64_t *n) {
  int64_t axis = oct_node_int(node, "axis");
  oct_axis_normalize(&axis, shape->rank);
  *rows = *n = 1;
  for (int d = 0; d < shape->rank; d++) *(d < axis ? rows : n) *= shape->dim[d];
}

/* Element of a scale or shift that belongs to element `index` of the input. */
static double broadcast_at(const oct_tensor *t, const oct_shape *shape, int64_t index, double absent) {
  if (!t) return absent;
  int64_t at = 0, stride = 1;
  for (int d = shape->rank - 1, k = t->shape.rank - 1; k >= 0; d--, k--) {
    if (t->shape.dim[k] > 1) at += index % shape->dim[d] * stride;
    stride *= t->shape.dim[k];
    index /= shape->dim[d];
  }
  return oct_get_f64(t->data, t->dtype, at);
}

static octet_status reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  const oct_tensor *x = in[0], *scale = in[1], *shift = node->n_inputs > 2 ? in[2] : NULL;
  int64_t rows, n;
  double epsilon = (double)oct_node_float(node, "epsilon");
  split(node, &x->shape, &rows, &n);
  for (int64_t row = 0; row < rows && n > 0; row++) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < n; i++) mean += oct_get_f64(x->data, x->dtype, row * n + i) / (double)n;
    for (int64_t i = 0; i < n; i++) {
      double d = oct_get_f64(x->data, x->dtype, row * n + i) - mean;
      variance += d * d / (double)n;
    }
    double factor = 1 / sqrt(variance + epsilon);
    for (int64_t i = row * n; i < (row + 1) * n; i++) {
      double y = (oct_get_f64(x->data, x->dtype, i) - mean) * factor;
      oct_set_f64(out[0]->data, out[0]->dtype, i, y * broadcast_at(scale, &x->shape, i, 1) + broadcast_at(shift, &x->shape, i, 0));
    }
    if (node->n_outputs > 1 && node->outputs[1]) oct_set_f64(out[1]->data, out[1]->dtype, row, mean);
    if (node->n_outputs > 2 && node->outputs[2]) oct_set_f64(out[2]->data, out[2]->dtype, row, factor);
  }
  return OCTET_OK;
}

/* ---- Lowering ---------------------------------------------------------------------------------------------------- */

typedef struct norm_step {
  const float *in, *scale, *shift;
  float *out;
  size_t n;
  float epsilon;
  const oct_vector_kernels *vector;
} norm_step;

static octet_status run(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const norm_step *s = params;
  for (size_t row = begin; row < end; row++)
    s->vector->math->layer_norm_f32(s->n, s->in + row * s->n, s->scale, s->shift, s->epsilon, s->out + row * s->n);
  return OCTET_OK;
}

static bool is_whole(const oct_value *v, int64_t n) { return v->dtype == OCT_F32 && oct_shape_count(&v->shape) == n; }

static octet_status lower(oct_lowering *l, oct_node *node) {
  const oct_value *x = node->inputs[0], *shift = node->n_inputs > 2 ? node->inputs[2] : NULL;
  oct_slot *in, *out, *scale_slot, *shift_slot = NULL;
  norm_step *s;
  oct_step *step;
  int64_t rows, n;
  split(node, &x->shape, &rows, &n);
  for (int i = 1; i < node->n_outputs; i++)
    if (node->outputs[i]) return oct_lower_decline(l, "mean and deviation are outputs");
  if (x->dtype != OCT_F32 || rows < 1 || n < 1) return oct_lower_decline(l, "only f32 has a kernel, and no dimension may be zero");
  if (!is_whole(node->inputs[1], n) || (shift && !is_whole(shift, n))) return oct_lower_decline(l, "scale or shift is broadcast");
  OCT_TRY(oct_lower_input(l, x, OCT_F32, OCT_LAYOUT_PLAIN, NULL, &in));
  OCT_TRY(oct_lower_input(l, node->inputs[1], OCT_F32, OCT_LAYOUT_PLAIN, NULL, &scale_slot));
  if (shift) OCT_TRY(oct_lower_input(l, shift, OCT_F32, OCT_LAYOUT_PLAIN, NULL, &shift_slot));
  OCT_TRY(oct_lower_output(l, node->outputs[0], OCT_F32, OCT_LAYOUT_PLAIN, &out));
  OCT_TRY(oct_lower_step(l, node, "layer_norm_f32", run, sizeof *s, &s, &step));
  s->n = (size_t)n, s->epsilon = oct_node_float(node, "epsilon"), s->vector = l->vector;
  step->units = (size_t)rows;
  step->grain = 1 + 8192 / (size_t)n;
  step->in_place = true;
  OCT_TRY(oct_lower_read(l, step, &s->in, in));
  OCT_TRY(oct_lower_read(l, step, &s->scale, scale_slot));
  if (shift_slot) OCT_TRY(oct_lower_read(l, step, &s->shift, shift_slot));
  return oct_lower_write(l, step, &s->out, out);
}

static const oct_attribute_spec attributes[] = {
    {"axis", OCT_ATTRIBUTE_INT, false, "-1", -OCT_MAX_RANK, OCT_MAX_RANK - 1, "first of the dims that are normalized"},
    {"epsilon", OCT_ATTRIBUTE_FLOAT, false, "1e-05", 0, 0, "added to the variance"},
    {"stash_type", OCT_ATTRIBUTE_INT, false, "1", 0, 16, "type of mean and deviation: f32 here"},
    {NULL, OCT_ATTRIBUTE_INT, false, NULL, 0, 0, NULL},
};
static const oct_import_row imports[] = {{"onnx", "LayerNormalization", 17, 0, NULL}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row exports[] = {{"onnx", "LayerNormalization", NULL}, {NULL, NULL, NULL}};
static const char *const cases[] = {"in=f32[2,3,16],f32[16],f32[16]", "in=f32[5,33],f32[33]", "in=f32[2,3,4],f32[3,4],f32[3,4] attr:axis=1",
                                    "in=f32[2,3,5],f32[5],f32[1] attr:epsilon=0.01", NULL};

const oct_op oct_op_layer_normalization = {
    .name = "layer_normalization",
    .summary = "mean 0 and variance 1 over the last dims, then scale and shift",
    .min_inputs = 2,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 3,
    .attributes = attributes,
    .infer = infer,
    .reference = reference,
    .lower = lower,
    .per_sample = oct_per_sample_axis,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION, OCT_ROLE_NONE, OCT_ROLE_NONE}, .output = OCT_OUTPUT_FLOAT},
    .imports = imports,
    .exports = exports,
    .cases = cases,
};
