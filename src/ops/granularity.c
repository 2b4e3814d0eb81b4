/* Granularity of quantize and dequantize nodes.
 * SPDX-License-Identifier: MIT */
#include "ops/granularity.h"

static octet_status check_blocks(octet_context *ctx, const oct_node *node, const oct_shape *x, const oct_shape *s, int64_t axis,
                                 int64_t block) {
  if (s->rank != x->rank) return oct_infer_fail(ctx, node, "block_size is given, so the scale must have the input's rank %d", x->rank);
  for (int d = 0; d < x->rank; d++) {
    int64_t want = d == axis && x->dim[d] > 0 ? (x->dim[d] - 1) / block + 1 : x->dim[d];
    if (s->dim[d] >= 0 && want >= 0 && s->dim[d] != want)
      return oct_infer_fail(ctx, node, "dim %d of the scale is %lld; blocks of %lld make it %lld", d, (long long)s->dim[d],
                            (long long)block, (long long)want);
  }
  return OCTET_OK;
}

octet_status oct_granularity_check(octet_context *ctx, const oct_node *node) {
  const oct_value *x = node->inputs[0], *scale = node->inputs[1], *zero = node->n_inputs > 2 ? node->inputs[2] : NULL;
  int64_t axis = oct_node_int(node, "axis"), block = oct_node_int(node, "block_size");
  char a[OCT_SHAPE_TEXT], b[OCT_SHAPE_TEXT];
  if (block < 0) return oct_infer_fail(ctx, node, "block_size is %lld", (long long)block);
  if (scale->dtype != OCT_DTYPE_NONE && !oct_dtype_is_float(scale->dtype))
    return oct_infer_fail(ctx, node, "the scale is %s; it must be a float", oct_dtype_name(scale->dtype));
  if (!scale->has_shape) return OCTET_OK;
  if (zero && zero->has_shape && oct_shape_known(&zero->shape) && oct_shape_known(&scale->shape) &&
      oct_shape_count(&zero->shape) != oct_shape_count(&scale->shape))
    return oct_infer_fail(ctx, node, "the zero point is %s, but the scale is %s", oct_shape_text(&zero->shape, a),
                          oct_shape_text(&scale->shape, b));
  if (!x->has_shape || (!block && oct_shape_count(&scale->shape) == 1)) return OCTET_OK;
  if (!block && scale->shape.rank != 1)
    return oct_infer_fail(ctx, node, "the scale is %s; it must be one number or a list", oct_shape_text(&scale->shape, a));
  if (!oct_axis_normalize(&axis, x->shape.rank))
    return oct_infer_fail(ctx, node, "axis %lld is out of range for rank %d", (long long)axis, x->shape.rank);
  if (block) return check_blocks(ctx, node, &x->shape, &scale->shape, axis, block);
  int64_t have = scale->shape.dim[0], want = x->shape.dim[axis];
  if (have >= 0 && want >= 0 && have != want)
    return oct_infer_fail(ctx, node, "%lld scales for dim %lld of %s", (long long)have, (long long)axis, oct_shape_text(&x->shape, a));
  return OCTET_OK;
}

oct_granularity oct_granularity_make(const oct_node *node, const oct_shape *x, const oct_shape *scale) {
  oct_granularity g = {.block = oct_node_int(node, "block_size")};
  int64_t axis = oct_node_int(node, "axis");
  g.single = oct_shape_count(scale) == 1;
  if (g.single || !oct_axis_normalize(&axis, x->rank)) {
    g.single = true;
    return g;
  }
  g.dim = x->dim[axis], g.inner = 1;
  for (int d = (int)axis + 1; d < x->rank; d++) g.inner *= x->dim[d];
  if (g.block) g.blocks = scale->dim[axis];
  return g;
}

bool oct_granularity_constant(const oct_node *node, float *scale, int32_t *zero_point) {
  const oct_value *zero = node->n_inputs > 2 ? node->inputs[2] : NULL;
  double s, z = 0;
  if (!oct_constant_scalar(node->inputs[1], &s) || (zero && !oct_constant_scalar(zero, &z))) return false;
  *scale = (float)s, *zero_point = (int32_t)z;
  return true;
}

bool oct_integer_range(oct_dtype dtype, int32_t *low, int32_t *high) {
  switch (dtype) {
    case OCT_U8: *low = 0, *high = 255; return true;
    case OCT_I8: *low = -128, *high = 127; return true;
    case OCT_U16: *low = 0, *high = 65535; return true;
    case OCT_I16: *low = -32768, *high = 32767; return true;
    default: return false;
  }
}

oct_dtype oct_dtype_of_onnx(int64_t number) {
  /* TensorProto.DataType of onnx.proto: FLOAT 1, UINT8, INT8, UINT16, INT16, INT32, INT64, STRING, BOOL, FLOAT16, DOUBLE, UINT32, UINT64, two complex, BFLOAT16 */
  static const oct_dtype types[] = {OCT_DTYPE_NONE, OCT_F32, OCT_U8,         OCT_I8,         OCT_U16, OCT_I16,
                                    OCT_I32,        OCT_I64, OCT_DTYPE_NONE, OCT_BOOL,       OCT_F16, OCT_F64,
                                    OCT_U32,        OCT_U64, OCT_DTYPE_NONE, OCT_DTYPE_NONE, OCT_BF16};
  return number >= 0 && number < (int64_t)(sizeof types / sizeof *types) ? types[number] : OCT_DTYPE_NONE;
}
