/* QuantizeLinear (ONNX) where it stays a node of the graph: y = saturate(round_half_even(x / scale) + zero_point) into a plain integer tensor.
 * Pairs of quantize and dequantize between operators become quantization parameters of values instead (passes).
 * SPDX-License-Identifier: MIT */
#include "ops/convert_rows.h"
#include "ops/granularity.h"

static oct_dtype output_dtype(const oct_node *node) {
  const oct_value *zero = node->n_inputs > 2 ? node->inputs[2] : NULL;
  int64_t number = oct_node_int(node, "output_dtype");
  if (zero && zero->dtype != OCT_DTYPE_NONE) return zero->dtype;
  return number ? oct_dtype_of_onnx(number) : OCT_U8;
}

static octet_status infer(octet_context *ctx, oct_node *node) {
  const oct_value *x = node->inputs[0];
  oct_dtype dtype = output_dtype(node);
  int64_t number = oct_node_int(node, "output_dtype");
  int32_t low, high;
  if (!oct_integer_range(dtype, &low, &high)) return oct_infer_fail(ctx, node, "the output type must be u8, i8, u16 or i16");
  if (number && oct_dtype_of_onnx(number) != dtype)
    return oct_infer_fail(ctx, node, "output_dtype differs from the zero point's type %s", oct_dtype_name(dtype));
  if (x->dtype != OCT_DTYPE_NONE && !oct_dtype_is_float(x->dtype) && x->dtype != OCT_I32)
    return oct_infer_fail(ctx, node, "the input is %s; it must be a float or i32", oct_dtype_name(x->dtype));
  OCT_TRY(oct_granularity_check(ctx, node));
  oct_infer_set(node->outputs[0], dtype, x->has_shape ? &x->shape : NULL);
  return OCTET_OK;
}

/* The quotient as the scale's type (or the attribute precision) has it. */
static double divide(double x, double scale, oct_dtype precision) {
  if (precision == OCT_F64) return x / scale;
  float q = (float)x / (float)scale;
  if (precision == OCT_F16) q = oct_f16_to_f32(oct_f32_to_f16(oct_f16_to_f32(oct_f32_to_f16((float)x)) / (float)scale));
  if (precision == OCT_BF16) q = oct_bf16_to_f32(oct_f32_to_bf16(oct_bf16_to_f32(oct_f32_to_bf16((float)x)) / (float)scale));
  return (double)q;
}

static octet_status reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  (void)ctx;
  const oct_tensor *x = in[0], *scale = in[1], *zero = node->n_inputs > 2 ? in[2] : NULL;
  int64_t count = oct_shape_count(&x->shape), number = oct_node_int(node, "precision");
  if (count == 0) return OCTET_OK;
  oct_granularity g = oct_granularity_make(node, &x->shape, &scale->shape);
  oct_dtype precision = number ? oct_dtype_of_onnx(number) : scale->dtype;
  int32_t low = 0, high = 0;
  oct_integer_range(out[0]->dtype, &low, &high);
  for (int64_t i = 0; i < count; i++) {
    int64_t k = oct_granularity_index(&g, i), z = zero ? oct_get_i64(zero->data, zero->dtype, k) : 0;
    double q = rint(divide(oct_get_f64(x->data, x->dtype, i), oct_get_f64(scale->data, scale->dtype, k), precision));
    double y = q != q ? (double)z : q + (double)z;
    y = y < low ? low : y > high ? high : y;
    oct_set_i64(out[0]->data, out[0]->dtype, i, (int64_t)y);
  }
  return OCTET_OK;
}

/* 8-bit per tensor: by table when the input is stored in 8 bits, else by the quantizing kernel. */
static octet_status lower(oct_lowering *l, oct_node *node) {
  const oct_value *x = node->inputs[0];
  oct_value *y = node->outputs[0];
  float scale;
  int32_t zero_point, bias = y->dtype == OCT_I8 ? 128 : 0;
  oct_slot *in, *out;
  if (x->dtype != OCT_F32 || (y->dtype != OCT_U8 && y->dtype != OCT_I8)) return oct_lower_decline(l, "only f32 to 8 bits has a kernel");
  if (!oct_granularity_constant(node, &scale, &zero_point) || oct_node_int(node, "block_size") || node->inputs[1]->dtype != OCT_F32)
    return oct_lower_decline(l, "only a constant scale for the whole tensor has a kernel");
  if (oct_shape_count(&x->shape) == 0) return oct_lower_decline(l, "the tensor is empty");
  OCT_TRY(oct_lower_stored(l, x, &in));
  if (in->dtype != OCT_U8) OCT_TRY(oct_lower_input(l, x, OCT_F32, in->layout, NULL, &in));
  OCT_TRY(oct_lower_output(l, y, y->dtype, oct_lower_layout(l, y), &out));
  oct_convert_rows c = {.kind = OCT_CONVERT_QUANTIZE, .scale = scale, .zero_point = zero_point + bias};
  uint8_t *table = oct_lower_memory(l, 256, 1);
  if (!table) return OCTET_OUT_OF_MEMORY;
  for (int q = 0; q < 256; q++) {
    int32_t value = in->dtype == OCT_U8 ? oct_quantize(oct_dequantize(q, in->scale, in->zero_point), scale, zero_point + bias, 0, 255) : q;
    table[q] = (uint8_t)(value - bias);
  }
  if (in->dtype == OCT_U8) c.kind = OCT_CONVERT_TABLE;
  if (in->dtype == OCT_U8 || bias) c.table = table;
  return oct_convert_rows_step(l, node, &c, in, out);
}

static octet_status export_node(oct_exporter *exporter, const oct_node *node) {
  if (exporter->version >= 21) return oct_export_default(exporter, node, "QuantizeLinear");
  if (oct_node_int(node, "block_size"))
    return oct_fail(exporter->ctx, OCTET_UNSUPPORTED, "node '%s': blocked quantization needs ONNX operator set 21", node->name);
  if (output_dtype(node) != OCT_U8 && (node->n_inputs < 3 || !node->inputs[2]))
    return oct_fail(exporter->ctx, OCTET_UNSUPPORTED, "node '%s': an output type without zero point needs ONNX operator set 21",
                    node->name);
  oct_attribute axis = {.name = "axis", .type = OCT_ATTRIBUTE_INT, .i = oct_node_int(node, "axis")};
  oct_node copy = *node;
  copy.attributes = &axis, copy.n_attributes = oct_node_attribute(node, "axis") ? 1 : 0;
  return oct_export_default(exporter, &copy, "QuantizeLinear");
}

static const oct_attribute_spec attributes[] = {
    {"axis", OCT_ATTRIBUTE_INT, false, "1", -OCT_MAX_RANK, OCT_MAX_RANK - 1, "along which scales differ"},
    {"block_size", OCT_ATTRIBUTE_INT, false, "0", 0, INT32_MAX, "elements of the axis that share a scale; 0: no blocks"},
    {"output_dtype", OCT_ATTRIBUTE_INT, false, "0", 0, 0, "ONNX's number of the output type; 0: the zero point's, or u8"},
    {"precision", OCT_ATTRIBUTE_INT, false, "0", 0, 0, "ONNX's number of the type of the division; 0: the scale's"},
    {"saturate", OCT_ATTRIBUTE_INT, false, "1", 0, 1, "of 8-bit floats; without effect"},
    {NULL, OCT_ATTRIBUTE_INT, false, NULL, 0, 0, NULL},
};
static const oct_import_row imports[] = {{"onnx", "QuantizeLinear", 10, 0, NULL}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row exports[] = {{"onnx", "QuantizeLinear", export_node}, {NULL, NULL, NULL}};
static const char *const cases[] = {
    "in=f32[2,3,4],f32[]=0.05,u8[]=128",
    "in=f32[2,3,4],f32[3]=0.1,0.02,1,i8[3]=0,3,-5",
    "in=f32[65],f32[]=0.01,i8[]=-7 attr:axis=0",
    "in=f32[6,2],f32[]=0.001,u16[]=32768",
    NULL,
};

const oct_op oct_op_quantize = {
    .name = "quantize",
    .summary = "floats as integers of a scale",
    .traits = OCT_TRAIT_QUANTIZE | OCT_TRAIT_LAYOUT_AGNOSTIC,
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
