/* MatMul (ONNX, numpy's rules): contract, shapes, reference, lowering with a constant matrix B. Without one: matmul_f32.c.
 * SPDX-License-Identifier: MIT */
#include "ops/matmul.h"

#include "ops/accumulate.h"
#include "ops/qlinear.h"

/* A vector counts as a matrix of one row (A) or one column (B); its dim is missing in the output. */
static oct_shape as_matrix(const oct_shape *s, bool is_a) {
  if (s->rank != 1) return *s;
  return is_a ? oct_shape_of(2, (int64_t)1, s->dim[0]) : oct_shape_of(2, s->dim[0], (int64_t)1);
}

octet_status oct_matmul_infer_shape(octet_context *ctx, oct_node *node, oct_dtype dtype) {
  const oct_value *a = node->inputs[0], *b = node->inputs[1];
  char at[OCT_SHAPE_TEXT], bt[OCT_SHAPE_TEXT];
  if (!a->has_shape || !b->has_shape) {
    oct_infer_set(node->outputs[0], dtype, NULL);
    return OCTET_OK;
  }
  if (a->shape.rank < 1 || b->shape.rank < 1) return oct_infer_fail(ctx, node, "an input is a scalar; both must have rank 1 or more");
  oct_shape as = as_matrix(&a->shape, true), bs = as_matrix(&b->shape, false), batch, out;
  int64_t ka = as.dim[as.rank - 1], kb = bs.dim[bs.rank - 2], m = as.dim[as.rank - 2], n = bs.dim[bs.rank - 1];
  oct_shape_text(&a->shape, at), oct_shape_text(&b->shape, bt);
  if (ka >= 0 && kb >= 0 && ka != kb) return oct_infer_fail(ctx, node, "inner sizes of %s and %s differ", at, bt);
  as.rank -= 2, bs.rank -= 2;
  if (!oct_shape_broadcast(&as, &bs, &batch)) return oct_infer_fail(ctx, node, "leading dims of %s and %s do not broadcast", at, bt);
  out = batch;
  if (a->shape.rank > 1) out.dim[out.rank++] = m;
  if (b->shape.rank > 1) out.dim[out.rank++] = n;
  oct_infer_set(node->outputs[0], dtype, &out);
  return OCTET_OK;
}

static octet_status infer(octet_context *ctx, oct_node *node) {
  const oct_value *a = node->inputs[0], *b = node->inputs[1];
  if (a->dtype != OCT_DTYPE_NONE && b->dtype != OCT_DTYPE_NONE && a->dtype != b->dtype)
    return oct_infer_fail(ctx, node, "A is %s, but B is %s", oct_dtype_name(a->dtype), oct_dtype_name(b->dtype));
  if (a->dtype == OCT_BOOL) return oct_infer_fail(ctx, node, "the inputs are bool; they must be numbers");
  return oct_matmul_infer_shape(ctx, node, a->dtype);
}

oct_matmul_shape oct_matmul_shape_make(const oct_shape *a, const oct_shape *b) {
  oct_shape as = as_matrix(a, true), bs = as_matrix(b, false);
  oct_matmul_shape s = {.m = as.dim[as.rank - 2], .k = as.dim[as.rank - 1], .n = bs.dim[bs.rank - 1], .batches = 1};
  s.rank = (as.rank > bs.rank ? as.rank : bs.rank) - 2;
  int64_t a_step = 1, b_step = 1;
  for (int i = s.rank - 1; i >= 0; i--) {
    int ai = i - s.rank + as.rank - 2, bi = i - s.rank + bs.rank - 2;
    int64_t ad = ai >= 0 ? as.dim[ai] : 1, bd = bi >= 0 ? bs.dim[bi] : 1;
    s.batch[i] = ad == 1 ? bd : ad;
    s.a_stride[i] = ad == 1 ? 0 : a_step, s.b_stride[i] = bd == 1 ? 0 : b_step;
    a_step *= ad, b_step *= bd;
    s.batches *= s.batch[i];
  }
  return s;
}

void oct_matmul_batch(const oct_matmul_shape *s, int64_t batch, int64_t *a, int64_t *b) {
  *a = *b = 0;
  for (int i = s->rank - 1; i >= 0; i--) {
    int64_t index = batch % s->batch[i];
    batch /= s->batch[i];
    *a += index * s->a_stride[i], *b += index * s->b_stride[i];
  }
}

static void element(const oct_matmul_shape *s, const oct_tensor *a, const oct_tensor *b, int64_t ai, int64_t bi, oct_tensor *out,
                    int64_t to) {
  if (!oct_dtype_is_float(out->dtype)) {
    uint64_t sum = 0;
    for (int64_t k = 0; k < s->k; k++)
      sum += (uint64_t)oct_get_i64(a->data, a->dtype, ai + k) * (uint64_t)oct_get_i64(b->data, b->dtype, bi + k * s->n);
    oct_set_i64(out->data, out->dtype, to, (int64_t)sum);
    return;
  }
  double sum = 0;
  if (a->dtype == OCT_F32 && b->dtype == OCT_F32) {
    const float *x = (const float *)a->data + ai, *y = (const float *)b->data + bi;
    for (int64_t k = 0; k < s->k; k++) sum += (double)x[k] * (double)y[k * s->n];
  } else {
    for (int64_t k = 0; k < s->k; k++) sum += oct_get_f64(a->data, a->dtype, ai + k) * oct_get_f64(b->data, b->dtype, bi + k * s->n);
  }
  oct_set_f64(out->data, out->dtype, to, sum);
}

static octet_status reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx, (void)node;
  if (oct_shape_count(&out[0]->shape) == 0) return OCTET_OK;
  oct_matmul_shape s = oct_matmul_shape_make(&in[0]->shape, &in[1]->shape);
  for (int64_t batch = 0; batch < s.batches; batch++) {
    int64_t a, b;
    oct_matmul_batch(&s, batch, &a, &b);
    for (int64_t i = 0; i < s.m * s.n; i++)
      element(&s, in[0], in[1], a * s.m * s.k + i / s.n * s.k, b * s.k * s.n + i % s.n, out[0], batch * s.m * s.n + i);
  }
  return OCTET_OK;
}

static octet_status lower(oct_lowering *l, oct_node *node) {
  const oct_value *a = node->inputs[0], *b = node->inputs[1];
  if (oct_shape_count(&node->outputs[0]->shape) == 0) return oct_lower_decline(l, "the result is empty");
  if (!oct_constant_of(b) || b->shape.rank != 2) return oct_matmul_lower_f32(l, node);
  int64_t k = a->shape.dim[a->shape.rank - 1], rows = 1;
  for (int i = 0; i < a->shape.rank - 1; i++) rows *= a->shape.dim[i];
  oct_accumulate_problem p = {.node = node, .input = a, .weights = b, .weights_by_k = true, .alpha = 1};
  p.shape = (oct_conv_shape){.batch = 1,
                             .in_h = 1,
                             .in_w = rows,
                             .channels = k,
                             .out_h = 1,
                             .out_w = rows,
                             .out_channels = b->shape.dim[1],
                             .kernel_h = 1,
                             .kernel_w = 1,
                             .stride_h = 1,
                             .stride_w = 1,
                             .dilation_h = 1,
                             .dilation_w = 1,
                             .groups = 1};
  return oct_accumulate_lower(l, &p);
}

static int weight_axis(const oct_node *node) {
  const oct_value *b = node->inputs[1];
  return b->has_shape && b->shape.rank > 1 ? b->shape.rank - 1 : 0;
}

static oct_cost cost(const oct_node *node) {
  const oct_value *a = node->inputs[0], *y = node->outputs[0];
  if (!a->has_shape || !y->has_shape || a->shape.rank < 1) return (oct_cost){0};
  int64_t outputs = oct_shape_count(&y->shape), k = a->shape.dim[a->shape.rank - 1];
  return (oct_cost){.macs = outputs > 0 && k > 0 ? (double)outputs * (double)k : 0};
}

static const oct_attribute_spec attributes[] = {
    {"dynamic", OCT_ATTRIBUTE_INT, false, "0", 0, 2, "quantize A at run time, per row: 1, or in the range of the whole tensor: 2"},
    {NULL, OCT_ATTRIBUTE_INT, false, NULL, 0, 0, NULL},
};
static const oct_import_row imports[] = {
    {"onnx", "MatMul", 1, 0, NULL},
    {"onnx", "QLinearMatMul", 10, 0, oct_import_qlinear_matmul},
    {NULL, NULL, 0, 0, NULL},
};
static const oct_export_row exports[] = {{"onnx", "MatMul", NULL}, {NULL, NULL, NULL}};
static const char *const cases[] = {
    "in=f32[5,32],f32[32,10]", "in=f32[2,3,17],f32[17,65]",    "in=f32[2,1,5,7],f32[3,7,4]", "in=f32[9],f32[9,4]",
    "in=f32[4,9],f32[9]",      "in=f32[3,2,4,5],f32[3,2,5,6]", "in=i64[3,4],i64[4,2]",       NULL,
};

const oct_op oct_op_matmul = {
    .name = "matmul",
    .summary = "matrix product with numpy's rules",
    .traits = OCT_TRAIT_ACCUMULATES,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .attributes = attributes,
    .infer = infer,
    .reference = reference,
    .lower = lower,
    .per_sample = oct_per_sample_matmul,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION, OCT_ROLE_WEIGHT}, .output = OCT_OUTPUT_OBSERVED, .weight_axis = weight_axis},
    .imports = imports,
    .exports = exports,
    .cost = cost,
    .cases = cases,
};
