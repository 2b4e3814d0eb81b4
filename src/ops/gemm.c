/* Gemm (ONNX): alpha * A' * B' + beta * C on matrices. With a constant B it runs on the convolution kernels as a 1x1 problem.
 * SPDX-License-Identifier: MIT */
#include "ops/accumulate.h"

/* Rows and columns of a matrix input after transposition. */
static bool matrix(const oct_value *v, bool transposed, int64_t *rows, int64_t *columns) {
  *rows = *columns = OCT_DIM_UNKNOWN;
  if (!v->has_shape) return true;
  if (v->shape.rank != 2) return false;
  *rows = v->shape.dim[transposed ? 1 : 0], *columns = v->shape.dim[transposed ? 0 : 1];
  return true;
}

static octet_status infer(octet_context *ctx, oct_node *node) {
  const oct_value *a = node->inputs[0], *b = node->inputs[1], *c = node->n_inputs > 2 ? node->inputs[2] : NULL;
  char text[OCT_SHAPE_TEXT];
  int64_t m, k, k2, n;
  for (int i = 0; i < node->n_inputs; i++) {
    const oct_value *v = node->inputs[i];
    if (!v) continue;
    if (v->dtype == OCT_BOOL) return oct_infer_fail(ctx, node, "input '%s' is bool; it must be a number", v->name);
    if (v->dtype != a->dtype && v->dtype != OCT_DTYPE_NONE && a->dtype != OCT_DTYPE_NONE)
      return oct_infer_fail(ctx, node, "the input is %s, but '%s' is %s", oct_dtype_name(a->dtype), v->name, oct_dtype_name(v->dtype));
  }
  if (!matrix(a, oct_node_int(node, "transA"), &m, &k))
    return oct_infer_fail(ctx, node, "A is %s; it must be a matrix", oct_shape_text(&a->shape, text));
  if (!matrix(b, oct_node_int(node, "transB"), &k2, &n))
    return oct_infer_fail(ctx, node, "B is %s; it must be a matrix", oct_shape_text(&b->shape, text));
  if (k >= 0 && k2 >= 0 && k != k2) return oct_infer_fail(ctx, node, "A has inner size %lld, B has %lld", (long long)k, (long long)k2);
  oct_shape out = oct_shape_of(2, m, n), broadcast;
  if (c && c->has_shape &&
      (c->shape.rank > 2 || !oct_shape_broadcast(&c->shape, &out, &broadcast) || (m >= 0 && broadcast.dim[0] != m) ||
       (n >= 0 && broadcast.dim[1] != n)))
    return oct_infer_fail(ctx, node, "C is %s; it must broadcast to [%lld,%lld]", oct_shape_text(&c->shape, text), (long long)m,
                          (long long)n);
  oct_infer_set(node->outputs[0], a->dtype, &out);
  return OCTET_OK;
}

/* ---- Reference ------------------------------------------------------------------------------------------------ */

/* Flat index into C for output element (row, column). */
static int64_t c_index(const oct_shape *c, int64_t row, int64_t column) {
  int64_t columns = c->rank > 0 ? c->dim[c->rank - 1] : 1, rows = c->rank > 1 ? c->dim[0] : 1;
  return (rows == 1 ? 0 : row) * columns + (columns == 1 ? 0 : column);
}

typedef struct gemm_loops {
  const oct_tensor *a, *b;
  int64_t k, a_row, a_step, b_column, b_step; /* strides in elements */
} gemm_loops;

static double dot_float(const gemm_loops *g, int64_t row, int64_t column) {
  double sum = 0;
  int64_t ai = row * g->a_row, bi = column * g->b_column;
  if (g->a->dtype == OCT_F32 && g->b->dtype == OCT_F32) {
    const float *a = (const float *)g->a->data + ai, *b = (const float *)g->b->data + bi;
    for (int64_t i = 0; i < g->k; i++) sum += (double)a[i * g->a_step] * (double)b[i * g->b_step];
    return sum;
  }
  for (int64_t i = 0; i < g->k; i++)
    sum += oct_get_f64(g->a->data, g->a->dtype, ai + i * g->a_step) * oct_get_f64(g->b->data, g->b->dtype, bi + i * g->b_step);
  return sum;
}

static uint64_t dot_integer(const gemm_loops *g, int64_t row, int64_t column) {
  uint64_t sum = 0;
  int64_t ai = row * g->a_row, bi = column * g->b_column;
  for (int64_t i = 0; i < g->k; i++)
    sum += (uint64_t)oct_get_i64(g->a->data, g->a->dtype, ai + i * g->a_step) *
           (uint64_t)oct_get_i64(g->b->data, g->b->dtype, bi + i * g->b_step);
  return sum;
}

static octet_status reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  bool ta = oct_node_int(node, "transA"), tb = oct_node_int(node, "transB");
  double alpha = oct_node_float(node, "alpha"), beta = oct_node_float(node, "beta");
  const oct_tensor *c = node->n_inputs > 2 ? in[2] : NULL;
  int64_t m = out[0]->shape.dim[0], n = out[0]->shape.dim[1];
  gemm_loops g = {.a = in[0], .b = in[1], .k = in[0]->shape.dim[ta ? 0 : 1]};
  g.a_row = ta ? 1 : g.k, g.a_step = ta ? m : 1;
  g.b_column = tb ? g.k : 1, g.b_step = tb ? 1 : n;
  bool is_float = oct_dtype_is_float(out[0]->dtype);
  for (int64_t i = 0; i < m * n; i++) {
    int64_t row = i / n, column = i % n;
    if (!is_float && alpha == 1 && beta == 1) {
      uint64_t y = dot_integer(&g, row, column) + (c ? (uint64_t)oct_get_i64(c->data, c->dtype, c_index(&c->shape, row, column)) : 0);
      oct_set_i64(out[0]->data, out[0]->dtype, i, (int64_t)y);
      continue;
    }
    double y = alpha * (is_float ? dot_float(&g, row, column) : (double)(int64_t)dot_integer(&g, row, column));
    if (c) y += beta * oct_get_f64(c->data, c->dtype, c_index(&c->shape, row, column));
    oct_set_f64(out[0]->data, out[0]->dtype, i, y);
  }
  return OCTET_OK;
}

/* ---- Lowering --------------------------------------------------------------------------------------------------- */

static octet_status lower(oct_lowering *l, oct_node *node) {
  const oct_value *a = node->inputs[0], *b = node->inputs[1], *c = node->n_inputs > 2 ? node->inputs[2] : NULL;
  bool tb = oct_node_int(node, "transB");
  float beta = oct_node_float(node, "beta");
  if (oct_node_int(node, "transA")) return oct_lower_decline(l, "transA has no kernel");
  if (beta == 0) c = NULL;
  if (c && c->shape.rank == 2 && c->shape.dim[0] != 1) return oct_lower_decline(l, "C differs from row to row");
  oct_accumulate_problem p = {
      .node = node, .input = a, .weights = b, .bias = c, .weights_by_k = !tb, .alpha = oct_node_float(node, "alpha")};
  if (beta != 1) p.bias_factor = beta;
  p.shape = (oct_conv_shape){.batch = 1,
                             .in_h = 1,
                             .in_w = a->shape.dim[0],
                             .channels = a->shape.dim[1],
                             .out_h = 1,
                             .out_w = a->shape.dim[0],
                             .out_channels = b->shape.dim[tb ? 0 : 1],
                             .kernel_h = 1,
                             .kernel_w = 1,
                             .stride_h = 1,
                             .stride_w = 1,
                             .dilation_h = 1,
                             .dilation_w = 1,
                             .groups = 1};
  return oct_accumulate_lower(l, &p);
}

static int weight_axis(const oct_node *node) { return oct_node_int(node, "transB") ? 0 : 1; }

static oct_cost cost(const oct_node *node) {
  const oct_value *a = node->inputs[0], *y = node->outputs[0];
  if (!a->has_shape || !y->has_shape) return (oct_cost){0};
  int64_t outputs = oct_shape_count(&y->shape), k = a->shape.dim[oct_node_int(node, "transA") ? 0 : 1];
  return (oct_cost){.macs = outputs > 0 && k > 0 ? (double)outputs * (double)k : 0};
}

static const oct_attribute_spec attributes[] = {
    {"alpha", OCT_ATTRIBUTE_FLOAT, false, "1", 0, 0, "factor of the product"},
    {"beta", OCT_ATTRIBUTE_FLOAT, false, "1", 0, 0, "factor of C"},
    {"transA", OCT_ATTRIBUTE_INT, false, "0", 0, 1, "A is stored [K,M]"},
    {"transB", OCT_ATTRIBUTE_INT, false, "0", 0, 1, "B is stored [N,K]"},
    {"dynamic", OCT_ATTRIBUTE_INT, false, "0", 0, 2, "quantize A at run time, per row: 1, or in the range of the whole tensor: 2"},
    {NULL, OCT_ATTRIBUTE_INT, false, NULL, 0, 0, NULL},
};
static const oct_import_row imports[] = {{"onnx", "Gemm", 7, 0, NULL}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row exports[] = {{"onnx", "Gemm", NULL}, {NULL, NULL, NULL}};
static const char *const cases[] = {
    "in=f32[5,32],f32[32,10],f32[10]",
    "in=f32[1,17],f32[9,17],f32[1,9] attr:transB=1",
    "in=f32[7,6],f32[7,11],f32[6,11] attr:transA=1 alpha=0.5 beta=2",
    "in=f32[3,4],f32[4,65],f32[1] attr:beta=0.25",
    "in=f32[4,100],f32[33,100],- attr:transB=1 alpha=2",
    "in=f32[4,5],f32[5,3],f32[4,1]",
    "in=i32[3,4],i32[4,2],i32[2]",
    NULL,
};

const oct_op oct_op_gemm = {
    .name = "gemm",
    .summary = "matrix product with factors and bias",
    .traits = OCT_TRAIT_ACCUMULATES,
    .min_inputs = 2,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .attributes = attributes,
    .infer = infer,
    .reference = reference,
    .lower = lower,
    .per_sample = oct_per_sample_gemm,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION, OCT_ROLE_WEIGHT, OCT_ROLE_BIAS},
                     .output = OCT_OUTPUT_OBSERVED,
                     .weight_axis = weight_axis},
    .imports = imports,
    .exports = exports,
    .cost = cost,
    .cases = cases,
};
