/* DynamicQuantizeLinear (ONNX): scale and zero point from the range of the whole tensor, at run time.
 * low = min(x, 0), high = max(x, 0), scale = (high - low) / 255 (1 when that is 0), zero point = clamp(round_half_even(0 - low / scale), 0, 255).
 * SPDX-License-Identifier: MIT */
#include "ops/convert_rows.h"

static octet_status infer(octet_context *ctx, oct_node *node) {
  const oct_value *x = node->inputs[0];
  oct_shape scalar = {0};
  if (x->dtype != OCT_DTYPE_NONE && x->dtype != OCT_F32)
    return oct_infer_fail(ctx, node, "the input is %s; it must be f32", oct_dtype_name(x->dtype));
  oct_infer_set(node->outputs[0], OCT_U8, x->has_shape ? &x->shape : NULL);
  if (node->n_outputs > 1) oct_infer_set(node->outputs[1], OCT_F32, &scalar);
  if (node->n_outputs > 2) oct_infer_set(node->outputs[2], OCT_U8, &scalar);
  return OCTET_OK;
}

static void parameters(float low, float high, float *scale, uint8_t *zero_point) {
  float s = (high - low) / 255.0f;
  if (!(s > 0) || s > 3.4e38f) s = 1;
  *scale = s;
  *zero_point = (uint8_t)rintf(oct_clamp_f32(-low / s, 0, 255));
}

static octet_status reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  const float *x = in[0]->data;
  int64_t count = oct_shape_count(&in[0]->shape);
  float low = 0, high = 0, scale;
  uint8_t zero_point;
  for (int64_t i = 0; i < count; i++) {
    if (x[i] < low) low = x[i];
    if (x[i] > high) high = x[i];
  }
  parameters(low, high, &scale, &zero_point);
  for (int64_t i = 0; i < count; i++) ((uint8_t *)out[0]->data)[i] = (uint8_t)oct_quantize(x[i], scale, zero_point, 0, 255);
  if (node->n_outputs > 1 && node->outputs[1]) *(float *)out[1]->data = scale;
  if (node->n_outputs > 2 && node->outputs[2]) *(uint8_t *)out[2]->data = zero_point;
  return OCTET_OK;
}

typedef struct range_step {
  const float *in;
  float *scale;
  uint8_t *zero_point;
  size_t count;
  const oct_vector_kernels *vector;
} range_step;

static octet_status run_range(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)begin, (void)end, (void)workspace;
  const range_step *s = params;
  float low = 0, high = 0;
  s->vector->minmax_f32(s->count, s->in, &low, &high);
  parameters(low, high, s->scale, s->zero_point);
  return OCTET_OK;
}

static octet_status output_or_scratch(oct_lowering *l, const oct_node *node, int i, oct_dtype dtype, oct_slot **out) {
  oct_shape scalar = {0};
  if (i < node->n_outputs && node->outputs[i]) return oct_lower_output(l, node->outputs[i], dtype, OCT_LAYOUT_PLAIN, out);
  return oct_lower_scratch(l, dtype, &scalar, OCT_LAYOUT_PLAIN, NULL, out);
}

static octet_status lower(oct_lowering *l, oct_node *node) {
  const oct_value *x = node->inputs[0];
  oct_slot *in, *out, *scale, *zero_point;
  range_step *s;
  oct_step *step;
  if (oct_shape_count(&x->shape) == 0) return oct_lower_decline(l, "the tensor is empty");
  OCT_TRY(oct_lower_input(l, x, OCT_F32, OCT_LAYOUT_PLAIN, NULL, &in));
  OCT_TRY(oct_lower_output(l, node->outputs[0], OCT_U8, OCT_LAYOUT_PLAIN, &out));
  OCT_TRY(output_or_scratch(l, node, 1, OCT_F32, &scale));
  OCT_TRY(output_or_scratch(l, node, 2, OCT_U8, &zero_point));
  OCT_TRY(oct_lower_step(l, node, "range_f32", run_range, sizeof *s, &s, &step));
  s->count = (size_t)oct_shape_count(&x->shape), s->vector = l->vector;
  OCT_TRY(oct_lower_read(l, step, &s->in, in));
  OCT_TRY(oct_lower_write(l, step, &s->scale, scale));
  OCT_TRY(oct_lower_write(l, step, &s->zero_point, zero_point));
  return oct_convert_rows_dynamic(l, node, in, scale, zero_point, out);
}

static const oct_attribute_spec attributes[] = {
    {"per_sample", OCT_ATTRIBUTE_INT, false, "0", 0, 1,
     "stands in for ranges per image or row, which absorb_dynamic restores; has no effect by itself"},
    {NULL, OCT_ATTRIBUTE_INT, false, NULL, 0, 0, NULL},
};
static const oct_import_row imports[] = {{"onnx", "DynamicQuantizeLinear", 11, 0, NULL}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row exports[] = {{"onnx", "DynamicQuantizeLinear", NULL}, {NULL, NULL, NULL}};
static const char *const cases[] = {"in=f32[2,3,4]", "in=f32[65]", "in=f32[3]=0,0,0", "in=f32[4]=1,2,3,4", NULL};

const oct_op oct_op_dynamic_quantize = {
    .name = "dynamic_quantize",
    .summary = "8-bit integers with scale and zero point from the tensor's own range",
    .traits = 0,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 3,
    .attributes = attributes,
    .infer = infer,
    .reference = reference,
    .lower = lower,
    .quantization = {.output = OCT_OUTPUT_NONE},
    .imports = imports,
    .exports = exports,
    .cases = cases,
};
