/* Elementwise operators with one data input: reference through scalar1, 8-bit form by table, float form by a dense loop.
 * SPDX-License-Identifier: MIT */
#include "ops/elementwise.h"

octet_status oct_unary_reference_with(const oct_node *node, const oct_tensor *in, oct_tensor *out, oct_integer1 integer) {
  int64_t count = oct_shape_count(&out->shape);
  double (*f)(const oct_node *, double) = node->op->scalar1;
  if (in->dtype == OCT_F32 && out->dtype == OCT_F32) {
    const float *x = in->data;
    float *y = out->data;
    for (int64_t i = 0; i < count; i++) y[i] = (float)f(node, (double)x[i]);
  } else if (integer && !oct_dtype_is_float(in->dtype)) {
    for (int64_t i = 0; i < count; i++) oct_set_i64(out->data, out->dtype, i, integer(node, oct_get_i64(in->data, in->dtype, i)));
  } else {
    for (int64_t i = 0; i < count; i++) oct_set_f64(out->data, out->dtype, i, f(node, oct_get_f64(in->data, in->dtype, i)));
  }
  return OCTET_OK;
}

octet_status oct_unary_reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  return oct_unary_reference_with(node, in[0], out[0], NULL);
}

typedef struct unary_params {
  const void *x;
  void *y;
  oct_units units;
  const oct_vector_kernels *vector;
  oct_unary_f32 apply;
  float p[OCT_UNARY_PARAMETERS];
  union {
    uint8_t to_u8[256];
    float to_f32[256];
  } table;
} unary_params;

static octet_status run_f32(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const unary_params *p = params;
  ptrdiff_t stride_y = oct_units_stride(&p->units, 0), stride_x = oct_units_stride(&p->units, 1);
  for (size_t unit = begin; unit < end; unit++) {
    oct_run run = oct_units_run(&p->units, 2, unit);
    const float *x = (const float *)p->x + run.offset[1];
    float *y = (float *)p->y + run.offset[0];
    if (stride_x == 1 && stride_y == 1) p->apply(p->vector, p->p, run.n, x, y);
    else
      for (size_t i = 0; i < run.n; i++) p->apply(p->vector, p->p, 1, x + (ptrdiff_t)i * stride_x, y + (ptrdiff_t)i * stride_y);
  }
  return OCTET_OK;
}

static octet_status run_table(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const unary_params *p = params;
  ptrdiff_t stride_y = oct_units_stride(&p->units, 0), stride_x = oct_units_stride(&p->units, 1);
  for (size_t unit = begin; unit < end; unit++) {
    oct_run run = oct_units_run(&p->units, 2, unit);
    const uint8_t *x = (const uint8_t *)p->x + run.offset[1];
    uint8_t *y = (uint8_t *)p->y + run.offset[0];
    if (stride_x == 1 && stride_y == 1) p->vector->table_u8(run.n, x, y, p->table.to_u8);
    else
      for (size_t i = 0; i < run.n; i++) y[(ptrdiff_t)i * stride_y] = p->table.to_u8[x[(ptrdiff_t)i * stride_x]];
  }
  return OCTET_OK;
}

static octet_status run_table_f32(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const unary_params *p = params;
  ptrdiff_t stride_y = oct_units_stride(&p->units, 0), stride_x = oct_units_stride(&p->units, 1);
  for (size_t unit = begin; unit < end; unit++) {
    oct_run run = oct_units_run(&p->units, 2, unit);
    const uint8_t *x = (const uint8_t *)p->x + run.offset[1];
    float *y = (float *)p->y + run.offset[0];
    if (stride_x == 1 && stride_y == 1) p->vector->table_u8_f32(run.n, x, y, p->table.to_f32);
    else
      for (size_t i = 0; i < run.n; i++) y[(ptrdiff_t)i * stride_y] = p->table.to_f32[x[(ptrdiff_t)i * stride_x]];
  }
  return OCTET_OK;
}

static octet_status add_step(oct_lowering *l, oct_node *node, const char *kernel, oct_step_fn run, oct_slot *in, oct_slot *out,
                             unary_params **params) {
  oct_step *step;
  OCT_TRY(oct_lower_step(l, node, kernel, run, sizeof **params, params, &step));
  oct_loops loops;
  oct_slots_loops(&loops, 2, (const oct_slot *[]){out, in});
  oct_units_make(&(*params)->units, &loops, step);
  step->in_place = in->dtype == out->dtype && oct_loops_aligned(&loops, 2);
  (*params)->vector = l->vector;
  OCT_TRY(oct_lower_read(l, step, &(*params)->x, in));
  return oct_lower_write(l, step, &(*params)->y, out);
}

void oct_table_fill(uint8_t table[256], const oct_slot *in, const oct_slot *out, const oct_node *node, oct_table_fn f, const void *user) {
  for (int32_t q = 0; q < 256; q++) {
    float y = (float)f(node, user, (double)oct_dequantize(q, in->scale, in->zero_point));
    table[q] = (uint8_t)oct_quantize(y, out->scale, out->zero_point, 0, 255);
  }
}

octet_status oct_table_lower(oct_lowering *l, oct_node *node, int input, oct_table_fn f, const void *user) {
  oct_slot *in, *out;
  unary_params *params;
  OCT_TRY(oct_lower_stored(l, node->inputs[input], &in));
  oct_value *value = node->outputs[0];
  oct_dtype dtype = oct_lower_dtype(l, value);
  bool to_u8 = dtype == OCT_U8 && value->quant;
  if (!in->quantized || in->dtype != OCT_U8 || (!to_u8 && dtype != OCT_F32)) return oct_lower_decline(l, "no 8-bit table for these types");
  OCT_TRY(oct_lower_output(l, value, dtype, in->layout, &out));
  if (to_u8) {
    OCT_TRY(add_step(l, node, "table_u8", run_table, in, out, &params));
    oct_table_fill(params->table.to_u8, in, out, node, f, user);
    return OCTET_OK;
  }
  OCT_TRY(add_step(l, node, "table_u8_f32", run_table_f32, in, out, &params));
  for (int32_t q = 0; q < 256; q++) params->table.to_f32[q] = (float)f(node, user, (double)oct_dequantize(q, in->scale, in->zero_point));
  return OCTET_OK;
}

static double scalar_of_node(const oct_node *node, const void *user, double x) {
  (void)user;
  return node->op->scalar1(node, x);
}

octet_status oct_unary_lower(oct_lowering *l, oct_node *node, const char *kernel, oct_unary_f32 apply, const float *p) {
  oct_slot *in, *out;
  unary_params *params;
  OCT_TRY(oct_lower_stored(l, node->inputs[0], &in));
  if (in->quantized && in->dtype == OCT_U8) return oct_table_lower(l, node, 0, scalar_of_node, NULL);
  if (in->dtype != OCT_F32 || node->outputs[0]->dtype != OCT_F32)
    return oct_lower_decline(l, "no kernel for %s", oct_dtype_name(in->dtype));
  if (!apply) return oct_lower_decline(l, "no float kernel");
  OCT_TRY(oct_lower_output(l, node->outputs[0], OCT_F32, in->layout, &out));
  OCT_TRY(add_step(l, node, kernel, run_f32, in, out, &params));
  params->apply = apply;
  if (p) memcpy(params->p, p, sizeof params->p);
  return OCTET_OK;
}
