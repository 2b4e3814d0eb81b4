/* How a value is written so that its users see a float: as it is, after a QuantizeLinear and DequantizeLinear pair, as integer initializer
 * with a DequantizeLinear, or as half-precision initializer with a Cast. Each is written when the value is first used.
 * SPDX-License-Identifier: MIT */
#include "formats/onnx_writer.h"

/* Zero point as of the unsigned form: 8-bit parameters that differ by the sign of what is stored describe the same real numbers. */
static double unsigned_zero_point(double zero_point, oct_dtype dtype) { return dtype == OCT_I8 ? zero_point + 128 : zero_point; }

static bool is_byte(oct_dtype dtype) { return dtype == OCT_I8 || dtype == OCT_U8; }

/* The quantize or dequantize node rounds to the real numbers that `q` describes (per tensor). */
static bool has_params(const oct_node *node, const oct_quant *q) {
  double scale, zero = 0;
  if (!node || q->axis >= 0 || node->n_inputs < 2 || !oct_constant_scalar(node->inputs[1], &scale)) return false;
  const oct_value *zero_point = node->n_inputs > 2 ? node->inputs[2] : NULL;
  const oct_value *stored = oct_op_has(node->op, OCT_TRAIT_QUANTIZE) ? node->outputs[0] : node->inputs[0];
  if (zero_point && !oct_constant_scalar(zero_point, &zero)) return false;
  if (!stored || (stored->dtype != q->dtype && !(is_byte(stored->dtype) && is_byte(q->dtype)))) return false;
  return scale == (double)q->scale[0] && unsigned_zero_point(zero, stored->dtype) == unsigned_zero_point(q->zero_point[0], q->dtype);
}

/* A value that a dequantize node of these parameters makes is rounded already. */
static bool needs_pair(const oct_value *value) {
  const oct_quant *q = oct_onnx_quant_of(value);
  return q && !(oct_node_has(value->producer, OCT_TRAIT_DEQUANTIZE) && has_params(value->producer, q));
}

const char *oct_onnx_raw_name(oct_onnx_writer *writer, const oct_value *value) {
  bool converted = needs_pair(value) && writer->is_output[value->id] && value->kind == OCT_INTERMEDIATE;
  if (!converted) return value->name;
  if (!writer->names[value->id]) writer->names[value->id] = oct_onnx_fresh_name(writer, value->name, "_f");
  return writer->names[value->id];
}

static const char *scale_constant(oct_onnx_writer *writer, const oct_quant *q) {
  oct_shape shape = {.rank = q->axis >= 0, .dim = {q->count}};
  oct_tensor *tensor;
  if (oct_tensor_create(writer->ctx, OCT_F32, &shape, &tensor) != OCTET_OK) return NULL;
  memcpy(tensor->data, q->scale, (size_t)q->count * sizeof(float));
  return oct_onnx_shared_constant(writer, "s", tensor);
}

static const char *zero_point_constant(oct_onnx_writer *writer, const oct_quant *q) {
  oct_shape shape = {.rank = q->axis >= 0, .dim = {q->count}};
  oct_tensor *tensor;
  if (oct_tensor_create(writer->ctx, q->dtype, &shape, &tensor) != OCTET_OK) return NULL;
  for (int64_t i = 0; i < q->count; i++) oct_set_i64(tensor->data, q->dtype, i, q->zero_point[i]);
  return oct_onnx_shared_constant(writer, "z", tensor);
}

/* A 32-bit zero point must be 0, which is what an absent one means. */
static octet_status quant_inputs(oct_onnx_writer *writer, const oct_quant *q, const char *inputs[4]) {
  inputs[1] = scale_constant(writer, q);
  if (inputs[1] && q->dtype != OCT_I32) inputs[2] = zero_point_constant(writer, q);
  return inputs[1] && (q->dtype == OCT_I32 || inputs[2]) ? OCTET_OK : writer->ctx->status;
}

static octet_status emit_dequantize(oct_onnx_writer *writer, const char *input, const oct_quant *q, const char *output) {
  const char *inputs[4] = {input};
  oct_attribute axis = {.name = "axis", .type = OCT_ATTRIBUTE_INT, .i = q->axis};
  OCT_TRY(quant_inputs(writer, q, inputs));
  return oct_onnx_emit_simple(writer, "DequantizeLinear", inputs, output, &axis, q->axis >= 0 && q->axis != 1);
}

static octet_status emit_pair(oct_onnx_writer *writer, const oct_value *value, const char *raw, const char *output) {
  const oct_quant *q = oct_onnx_quant_of(value);
  const char *inputs[4] = {raw};
  oct_attribute axis = {.name = "axis", .type = OCT_ATTRIBUTE_INT, .i = q->axis};
  const char *stored = oct_onnx_fresh_name(writer, value->name, "_q");
  if (!stored) return OCTET_OUT_OF_MEMORY;
  OCT_TRY(quant_inputs(writer, q, inputs));
  OCT_TRY(oct_onnx_emit_simple(writer, "QuantizeLinear", inputs, stored, &axis, q->axis >= 0 && q->axis != 1));
  return emit_dequantize(writer, stored, q, output);
}

static octet_status emit_widened(oct_onnx_writer *writer, const char *input, const char *output) {
  const char *inputs[4] = {input};
  oct_attribute to = {.name = "to", .type = OCT_ATTRIBUTE_INT, .i = oct_onnx_data_type(OCT_F32)};
  return oct_onnx_emit_simple(writer, "Cast", inputs, output, &to, 1);
}

/* ONNX has no zero points for 32-bit integers: they are subtracted beforehand. A new reference; NULL on failure. */
static oct_tensor *without_zero_points(oct_onnx_writer *writer, const oct_value *value) {
  const oct_quant *q = value->quant;
  oct_tensor *tensor = value->tensor, *fresh;
  bool any = false;
  for (int64_t i = 0; i < q->count; i++) any |= q->zero_point[i] != 0;
  if (!any || q->dtype != OCT_I32 || tensor->dtype != OCT_I32) return oct_tensor_retain(tensor);
  if (oct_tensor_create(writer->ctx, OCT_I32, &tensor->shape, &fresh) != OCTET_OK) return NULL;
  int64_t inner = 1, count = oct_shape_count(&tensor->shape);
  for (int d = q->axis + 1; d < tensor->shape.rank; d++) inner *= tensor->shape.dim[d];
  for (int64_t i = 0; i < count; i++) {
    int64_t x = (int64_t)((const int32_t *)tensor->data)[i] - q->zero_point[q->axis < 0 ? 0 : i / inner % q->count];
    if (x < INT32_MIN || x > INT32_MAX) {
      oct_fail(writer->ctx, OCTET_UNSUPPORTED, "constant \"%s\" leaves 32 bits when its zero point is subtracted", value->name);
      oct_tensor_release(fresh);
      return NULL;
    }
    ((int32_t *)fresh->data)[i] = (int32_t)x;
  }
  return fresh;
}

static octet_status emit_stored(oct_onnx_writer *writer, const oct_value *value, const char *name) {
  if (!oct_onnx_quant_of(value)) return oct_onnx_initializer(writer, name, value->tensor);
  oct_tensor *tensor = without_zero_points(writer, value);
  if (!tensor) return writer->ctx->status;
  octet_status status = oct_onnx_initializer(writer, name, tensor);
  oct_tensor_release(tensor);
  return status;
}

/* A constant's initializer and what makes a float of it. */
static octet_status emit_constant(oct_onnx_writer *writer, const oct_value *value, const char **name) {
  const oct_quant *q = oct_onnx_quant_of(value);
  const oct_tensor *tensor = value->tensor;
  bool stored = q && tensor->dtype == q->dtype, widen = writer->widen[value->id], converted = q || widen;
  bool keeps_name = writer->is_output[value->id]; /* the float one goes out under the value's name */
  *name = value->name;
  const char *raw = converted && keeps_name ? oct_onnx_fresh_name(writer, value->name, "_q") : value->name;
  if (!raw) return OCTET_OUT_OF_MEMORY;
  OCT_TRY(emit_stored(writer, value, raw));
  if (!converted) return OCTET_OK;
  if (!keeps_name && !(*name = oct_onnx_fresh_name(writer, value->name, "_d"))) return OCTET_OUT_OF_MEMORY;
  if (stored) return emit_dequantize(writer, raw, q, *name);
  return q ? emit_pair(writer, value, raw, *name) : emit_widened(writer, raw, *name);
}

bool oct_onnx_rounds_alike(const oct_node *node) {
  const oct_quant *q = oct_node_has(node, OCT_TRAIT_QUANTIZE) && node->inputs[0] ? oct_onnx_quant_of(node->inputs[0]) : NULL;
  return q && has_params(node, q);
}

static octet_status emit_value(oct_onnx_writer *writer, const oct_value *value, const char **name) {
  if (value->kind == OCT_CONSTANT || value->kind == OCT_VARIABLE) return emit_constant(writer, value, name);
  *name = value->name;
  if (!needs_pair(value)) return OCTET_OK;
  const char *raw = oct_onnx_raw_name(writer, value);
  bool keeps_name = value->kind == OCT_INTERMEDIATE && writer->is_output[value->id];
  if (!keeps_name) *name = oct_onnx_fresh_name(writer, value->name, "_d");
  return raw && *name ? emit_pair(writer, value, raw, *name) : writer->ctx->status;
}

const char *oct_onnx_name_of(oct_exporter *exporter, const oct_value *value) {
  oct_onnx_writer *writer = exporter->user;
  if (value == writer->plain) return oct_onnx_raw_name(writer, value);
  bool *written = &writer->written[value->id];
  if (*written) return writer->names[value->id];
  const char *name;
  if (emit_value(writer, value, &name) != OCTET_OK) return NULL;
  *written = true;
  writer->names[value->id] = name;
  return name;
}
