/* MatMulInteger (ONNX): 8-bit factors with zero points, int32 result.
 * SPDX-License-Identifier: MIT */
#include "ops/integer_lower.h"
#include "ops/matmul.h"

/* A zero point is one number, one per row of A or column of B, or a tensor of that with the batch dims of its factor. */
static bool zero_point_fits(const oct_shape *z, const oct_shape *v, bool is_a) {
  int64_t count = oct_shape_count(z), lines = v->rank < 2 ? 1 : v->dim[is_a ? v->rank - 2 : v->rank - 1];
  if (count == 1 || count < 0 || lines < 0) return true;
  if (z->rank == 1) return count == lines;
  if (z->rank != v->rank) return false;
  for (int i = 0; i < v->rank; i++) {
    bool along = i == (is_a ? v->rank - 1 : v->rank - 2);
    if (z->dim[i] != (along ? 1 : v->dim[i]) && z->dim[i] >= 0 && v->dim[i] >= 0) return false;
  }
  return true;
}

static octet_status infer(octet_context *ctx, oct_node *node) {
  for (int i = 0; i < 2; i++) {
    const oct_value *v = node->inputs[i], *z = node->n_inputs > i + 2 ? node->inputs[i + 2] : NULL;
    if (v->dtype != OCT_DTYPE_NONE && v->dtype != OCT_U8 && v->dtype != OCT_I8)
      return oct_infer_fail(ctx, node, "'%s' is %s; it must be u8 or i8", v->name, oct_dtype_name(v->dtype));
    if (!z) continue;
    if (z->dtype != v->dtype && z->dtype != OCT_DTYPE_NONE && v->dtype != OCT_DTYPE_NONE)
      return oct_infer_fail(ctx, node, "the zero point '%s' is %s, but '%s' is %s", z->name, oct_dtype_name(z->dtype), v->name,
                            oct_dtype_name(v->dtype));
    char text[OCT_SHAPE_TEXT];
    if (z->has_shape && v->has_shape && !zero_point_fits(&z->shape, &v->shape, i == 0))
      return oct_infer_fail(ctx, node, "the zero point '%s' is %s; it must be one number, or one per %s", z->name,
                            oct_shape_text(&z->shape, text), i == 0 ? "row of A" : "column of B");
  }
  return oct_matmul_infer_shape(ctx, node, OCT_I32);
}

/* Zero point of row (A) or column (B) `line` of matrix `matrix`. */
static int64_t zero_point_at(const oct_tensor *z, int64_t matrix, int64_t line, int64_t lines) {
  if (!z) return 0;
  int64_t count = oct_shape_count(&z->shape);
  return oct_get_i64(z->data, z->dtype, count == 1 ? 0 : z->shape.rank == 1 ? line : (matrix * lines + line) % count);
}

static octet_status reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  const oct_tensor *a = in[0], *b = in[1], *az = node->n_inputs > 2 ? in[2] : NULL, *bz = node->n_inputs > 3 ? in[3] : NULL;
  if (oct_shape_count(&out[0]->shape) == 0) return OCTET_OK;
  oct_matmul_shape s = oct_matmul_shape_make(&a->shape, &b->shape);
  for (int64_t batch = 0; batch < s.batches; batch++) {
    int64_t am, bm;
    oct_matmul_batch(&s, batch, &am, &bm);
    for (int64_t i = 0; i < s.m * s.n; i++) {
      int64_t row = i / s.n, column = i % s.n, sum = 0;
      int64_t a_zero = zero_point_at(az, am, row, s.m), b_zero = zero_point_at(bz, bm, column, s.n);
      for (int64_t k = 0; k < s.k; k++)
        sum += (oct_get_i64(a->data, a->dtype, (am * s.m + row) * s.k + k) - a_zero) *
               (oct_get_i64(b->data, b->dtype, (bm * s.k + k) * s.n + column) - b_zero);
      oct_set_i64(out[0]->data, OCT_I32, batch * s.m * s.n + i, sum);
    }
  }
  return OCTET_OK;
}

static octet_status lower(oct_lowering *l, oct_node *node) {
  const oct_value *a = node->inputs[0], *b = node->inputs[1];
  if (oct_shape_count(&node->outputs[0]->shape) == 0 || oct_shape_count(&a->shape) == 0) return oct_lower_decline(l, "a dimension is zero");
  if (b->shape.rank != 2) return oct_lower_decline(l, "B is not one matrix");
  int64_t k = a->shape.dim[a->shape.rank - 1], rows = 1;
  for (int i = 0; i < a->shape.rank - 1; i++) rows *= a->shape.dim[i];
  oct_integer_problem p = {.node = node, .weights_by_k = true};
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
  return oct_integer_lower(l, &p);
}

static const oct_import_row imports[] = {{"onnx", "MatMulInteger", 10, 0, NULL}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row exports[] = {{"onnx", "MatMulInteger", NULL}, {NULL, NULL, NULL}};
static const char *const cases[] = {"in=u8[4,3],u8[3,2],u8[]=12,u8[]=0", "in=u8[2,3,5],i8[5,4],u8[]=100,i8[4]=1,2,3,-4",
                                    "in=i8[3,5],i8[5,2]", NULL};

const oct_op oct_op_matmul_integer = {
    .name = "matmul_integer",
    .summary = "matrix product of 8-bit integers into int32",
    .traits = 0,
    .min_inputs = 2,
    .max_inputs = 4,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = infer,
    .reference = reference,
    .lower = lower,
    .quantization = {.output = OCT_OUTPUT_NONE},
    .imports = imports,
    .exports = exports,
    .cases = cases,
};
