/* DequantizeLinear (ONNX) where it stays a node of the graph: y = (x - zero_point) * scale.
 * SPDX-License-Identifier: MIT */
#include "ops/convert_rows.h"
#include "ops/granularity.h"

static octet_status infer(octet_context *ctx, oct_node *node) {
  const oct_value *x = node->inputs[0], *scale = node->inputs[1], *zero = node->n_inputs > 2 ? node->inputs[2] : NULL;
  int64_t number = oct_node_int(node, "output_dtype");
  oct_dtype dtype = number ? oct_dtype_of_onnx(number) : scale->dtype;
  int32_t low, high;
  if (x->dtype != OCT_DTYPE_NONE && x->dtype != OCT_I32 && !oct_integer_range(x->dtype, &low, &high))
    return oct_infer_fail(ctx, node, "the input is %s; it must be an 8- or 16-bit integer, or i32", oct_dtype_name(x->dtype));
  if (zero && zero->dtype != x->dtype && zero->dtype != OCT_DTYPE_NONE && x->dtype != OCT_DTYPE_NONE)
    return oct_infer_fail(ctx, node, "the zero point is %s, but the input is %s", oct_dtype_name(zero->dtype), oct_dtype_name(x->dtype));
  if (number && !oct_dtype_is_float(dtype))
    return oct_infer_fail(ctx, node, "output_dtype %lld is no float type that is there", (long long)number);
  OCT_TRY(oct_granularity_check(ctx, node));
  oct_infer_set(node->outputs[0], dtype, x->has_shape ? &x->shape : NULL);
  return OCTET_OK;
}

static octet_status reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  const oct_tensor *x = in[0], *scale = in[1], *zero = node->n_inputs > 2 ? in[2] : NULL;
  int64_t count = oct_shape_count(&x->shape);
  if (count == 0) return OCTET_OK;
  oct_granularity g = oct_granularity_make(node, &x->shape, &scale->shape);
  for (int64_t i = 0; i < count; i++) {
    int64_t k = oct_granularity_index(&g, i), q = oct_get_i64(x->data, x->dtype, i) - (zero ? oct_get_i64(zero->data, zero->dtype, k) : 0);
    double s = oct_get_f64(scale->data, scale->dtype, k);
    oct_set_f64(out[0]->data, out[0]->dtype, i, out[0]->dtype == OCT_F64 ? (double)q * s : (double)((float)q * (float)s));
  }
  return OCTET_OK;
}

/* 8-bit per tensor: 256 possible results. */
static octet_status lower(oct_lowering *l, oct_node *node) {
  const oct_value *x = node->inputs[0];
  oct_value *y = node->outputs[0];
  float scale;
  int32_t zero_point;
  oct_slot *in, *out;
  if (y->dtype != OCT_F32 || (x->dtype != OCT_U8 && x->dtype != OCT_I8)) return oct_lower_decline(l, "only 8 bits to f32 has a kernel");
  if (!oct_granularity_constant(node, &scale, &zero_point) || oct_node_int(node, "block_size"))
    return oct_lower_decline(l, "only a constant scale for the whole tensor has a kernel");
  if (oct_shape_count(&x->shape) == 0) return oct_lower_decline(l, "the tensor is empty");
  bool rounded = oct_lower_dtype(l, y) == OCT_U8;
  OCT_TRY(oct_lower_stored(l, x, &in));
  OCT_TRY(oct_lower_output(l, y, rounded ? OCT_U8 : OCT_F32, oct_lower_layout(l, y), &out));
  oct_convert_rows c = {.kind = rounded ? OCT_CONVERT_TABLE : OCT_CONVERT_TABLE_F32};
  uint8_t *table = oct_lower_memory(l, 256, 1);
  float *floats = oct_lower_memory(l, 256, sizeof *floats);
  if (!table || !floats) return OCTET_OUT_OF_MEMORY;
  for (int byte = 0; byte < 256; byte++) {
    int32_t q = x->dtype == OCT_I8 ? (int8_t)byte : byte;
    floats[byte] = oct_dequantize(q, scale, zero_point);
    if (rounded) table[byte] = (uint8_t)oct_quantize(floats[byte], out->scale, out->zero_point, 0, 255);
  }
  c.table = table, c.floats = floats;
  return oct_convert_rows_step(l, node, &c, in, out);
}

static octet_status export_node(oct_exporter *exporter, const oct_node *node) {
  if (exporter->version >= 21) return oct_export_default(exporter, node, "DequantizeLinear");
  int64_t number = oct_node_int(node, "output_dtype");
  if (oct_node_int(node, "block_size") || (number && oct_dtype_of_onnx(number) != OCT_F32))
    return oct_fail(exporter->ctx, OCTET_UNSUPPORTED, "node '%s': blocks and output types of dequantize need ONNX operator set 21",
                    node->name);
  oct_attribute axis = {.name = "axis", .type = OCT_ATTRIBUTE_INT, .i = oct_node_int(node, "axis")};
  oct_node copy = *node;
  copy.attributes = &axis, copy.n_attributes = oct_node_attribute(node, "axis") ? 1 : 0;
  return oct_export_default(exporter, &copy, "DequantizeLinear");
}

static const oct_attribute_spec attributes[] = {
    {"axis", OCT_ATTRIBUTE_INT, false, "1", -OCT_MAX_RANK, OCT_MAX_RANK - 1, "along which scales differ"},
    {"block_size", OCT_ATTRIBUTE_INT, false, "0", 0, INT32_MAX, "elements of the axis that share a scale; 0: no blocks"},
    {"output_dtype", OCT_ATTRIBUTE_INT, false, "0", 0, 0, "ONNX's number of the output type; 0: the scale's"},
    {NULL, OCT_ATTRIBUTE_INT, false, NULL, 0, 0, NULL},
};
static const oct_import_row imports[] = {{"onnx", "DequantizeLinear", 10, 0, NULL}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row exports[] = {{"onnx", "DequantizeLinear", export_node}, {NULL, NULL, NULL}};
static const char *const cases[] = {
    "in=u8[2,3,4],f32[]=0.05,u8[]=128",
    "in=i8[2,3,4],f32[3]=0.1,0.02,1,i8[3]=0,3,-5",
    "in=i32[3],f32[3]=0.1,0.2,0.3 attr:axis=0",
    "in=u16[6,2],f32[]=0.001",
    NULL,
};

const oct_op oct_op_dequantize = {
    .name = "dequantize",
    .summary = "integers of a scale as floats",
    .traits = OCT_TRAIT_DEQUANTIZE | OCT_TRAIT_LAYOUT_AGNOSTIC,
    .min_inputs = 2,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .attributes = attributes,
    .infer = infer,
    .reference = reference,
    .lower = lower,
    .per_sample = oct_per_sample_always,
    .quantization = {.output = OCT_OUTPUT_NONE},
    .imports = imports,
    .exports = exports,
    .cases = cases,
};
