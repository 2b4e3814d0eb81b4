/* Dynamic quantization in ONNX: DynamicQuantizeLinear of the input, ConvInteger or MatMulInteger with the int8 weights, then scale and bias
 * in float. ONNX takes the range of the whole tensor (`dynamic` = 2). Where Octet takes that of each sample or row (`dynamic` = 1) the
 * DynamicQuantizeLinear is marked, so that Octet reads its own meaning back, and the difference in other tools is reported as a warning.
 * SPDX-License-Identifier: MIT */
#include "formats/onnx_writer.h"

static bool is_constant_f32(const oct_value *value) { return oct_constant_of(value) && !value->quant && value->tensor->dtype == OCT_F32; }

static const oct_value *input_of(const oct_node *node, int i) { return i < node->n_inputs ? node->inputs[i] : NULL; }

/* Output-channel axis of the weights, or -1 for a node that has no dynamic form. */
static int channel_axis(const oct_node *node, const char *name) {
  const oct_value *w = input_of(node, 1);
  if (!w || !w->has_shape) return -1;
  if (strcmp(name, "Conv") == 0) return 0;
  if (w->shape.rank != 2) return -1;
  if (strcmp(name, "MatMul") == 0) return 1;
  if (strcmp(name, "Gemm") == 0 && oct_node_int(node, "transA") == 0) return oct_node_int(node, "transB") ? 0 : 1;
  return -1;
}

bool oct_onnx_is_dynamic(const oct_node *node, const char *foreign_name) {
  const oct_attribute *dynamic = oct_node_attribute(node, "dynamic");
  const oct_value *w = input_of(node, 1), *bias = input_of(node, 2);
  if (!dynamic || dynamic->type != OCT_ATTRIBUTE_INT || dynamic->i == 0 || !oct_constant_of(w) || !w->quant) return false;
  int axis = channel_axis(node, foreign_name);
  const oct_quant *q = w->quant;
  if (axis < 0 || q->dtype != OCT_I8 || w->tensor->dtype != OCT_I8 || (q->axis >= 0 && q->axis != axis)) return false;
  for (int64_t i = 0; i < q->count; i++)
    if (q->zero_point[i] != 0) return false;
  return !bias || is_constant_f32(bias);
}

/* The weights with K before N, as MatMulInteger wants them; NULL on failure. */
static const char *transposed_weights(oct_onnx_writer *writer, const oct_value *w) {
  int64_t n = w->shape.dim[0], k = w->shape.dim[1];
  oct_shape shape = {.rank = 2, .dim = {k, n}};
  oct_tensor *tensor;
  if (oct_tensor_create(writer->ctx, OCT_I8, &shape, &tensor) != OCTET_OK) return NULL;
  const int8_t *from = w->tensor->data;
  int8_t *to = tensor->data;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < k; j++) to[j * n + i] = from[i * k + j];
  return oct_onnx_shared_constant(writer, w->name, tensor);
}

/* Per-channel numbers times `factor`, shaped so that they broadcast over `trailing` dims behind the channel. */
static const char *channel_constant(oct_onnx_writer *writer, const char *hint, const float *values, int64_t count, float factor,
                                    int trailing) {
  oct_shape shape = {.rank = count == 1 ? 0 : 1 + trailing, .dim = {count}};
  for (int i = 1; i < shape.rank; i++) shape.dim[i] = 1;
  oct_tensor *tensor;
  if (oct_tensor_create(writer->ctx, OCT_F32, &shape, &tensor) != OCTET_OK) return NULL;
  for (int64_t i = 0; i < count; i++) ((float *)tensor->data)[i] = values[i] * factor;
  return oct_onnx_shared_constant(writer, hint, tensor);
}

/* The bias: per channel for convolutions; as it is, times beta, for the others. */
static const char *bias_constant(oct_onnx_writer *writer, const oct_node *node, const char *foreign_name, int trailing) {
  const oct_value *bias = node->inputs[2];
  const float *values = bias->tensor->data;
  int64_t count = oct_shape_count(&bias->shape);
  if (strcmp(foreign_name, "Gemm") != 0) return channel_constant(writer, bias->name, values, count, 1, trailing);
  oct_tensor *tensor;
  if (oct_tensor_create(writer->ctx, OCT_F32, &bias->shape, &tensor) != OCTET_OK) return NULL;
  for (int64_t i = 0; i < count; i++) ((float *)tensor->data)[i] = values[i] * oct_node_float(node, "beta");
  return oct_onnx_shared_constant(writer, bias->name, tensor);
}

/* Names of the intermediate results. */
typedef struct names {
  const char *x, *scale, *zero, *sum, *real, *factor, *scaled;
} names;

static octet_status make_names(oct_onnx_writer *writer, const char *base, names *n) {
  n->x = oct_onnx_fresh_name(writer, base, "_x");
  n->scale = oct_onnx_fresh_name(writer, base, "_s");
  n->zero = oct_onnx_fresh_name(writer, base, "_z");
  n->sum = oct_onnx_fresh_name(writer, base, "_i");
  n->real = oct_onnx_fresh_name(writer, base, "_r");
  n->factor = oct_onnx_fresh_name(writer, base, "_m");
  n->scaled = oct_onnx_fresh_name(writer, base, "_y");
  return n->x && n->scale && n->zero && n->sum && n->real && n->factor && n->scaled ? OCTET_OK : writer->ctx->status;
}

static octet_status emit_quantized_input(oct_onnx_writer *writer, const char *input, bool per_sample, const names *n) {
  const char *outputs[3] = {n->x, n->scale, n->zero};
  const oct_attribute marker = {.name = OCT_ONNX_PER_SAMPLE, .type = OCT_ATTRIBUTE_INT, .i = 1};
  oct_foreign_node node = {.type = "DynamicQuantizeLinear", .domain = "", .name = "", .n_inputs = 1, .outputs = outputs, .n_outputs = 3};
  node.attributes = &marker, node.n_attributes = per_sample;
  return oct_onnx_emit(&writer->exporter, &node, &input);
}

static octet_status emit_product(oct_onnx_writer *writer, const oct_node *node, bool conv, const char *weights, const names *n) {
  const char *inputs[4] = {n->x, weights, n->zero};
  oct_attribute *kept = oct_alloc(writer->ctx, (size_t)node->n_attributes + 1, sizeof *kept);
  int count = 0;
  if (!kept) return OCTET_OUT_OF_MEMORY;
  for (int i = 0; conv && i < node->n_attributes; i++)
    if (strcmp(node->attributes[i].name, "dynamic") != 0) kept[count++] = node->attributes[i];
  octet_status status = oct_onnx_emit_simple(writer, conv ? "ConvInteger" : "MatMulInteger", inputs, n->sum, kept, count);
  oct_free(kept);
  return status;
}

octet_status oct_onnx_write_dynamic(oct_onnx_writer *writer, const oct_node *node, const char *foreign_name) {
  octet_context *ctx = writer->ctx;
  const oct_value *w = node->inputs[1], *bias = input_of(node, 2);
  bool conv = strcmp(foreign_name, "Conv") == 0, gemm = strcmp(foreign_name, "Gemm") == 0;
  int trailing = conv ? w->shape.rank - 2 : 0;
  names n;
  bool per_sample = oct_node_int(node, "dynamic") == 1;
  if (per_sample)
    oct_warn(ctx, "dynamic quantization in ONNX takes the range of the whole tensor, Octet that of each sample or row: results differ "
                  "slightly there");
  const char *input = oct_onnx_name_of(&writer->exporter, node->inputs[0]);
  if (!input) return ctx->status;
  OCT_TRY(make_names(writer, node->name, &n));
  const char *weights = w->name;
  if (gemm && oct_node_int(node, "transB")) weights = transposed_weights(writer, w);
  else if (!writer->written[w->id]) OCT_TRY(oct_onnx_initializer(writer, w->name, w->tensor));
  writer->written[w->id] = writer->written[w->id] || weights == w->name;
  const char *scales = channel_constant(writer, "s", w->quant->scale, w->quant->count, gemm ? oct_node_float(node, "alpha") : 1, trailing);
  const char *added = bias ? bias_constant(writer, node, foreign_name, trailing) : "";
  if (!weights || !scales || !added) return ctx->status;
  const oct_attribute to = {.name = "to", .type = OCT_ATTRIBUTE_INT, .i = oct_onnx_data_type(OCT_F32)};
  const char *output = oct_onnx_raw_name(writer, node->outputs[0]);
  if (!output) return ctx->status;
  OCT_TRY(emit_quantized_input(writer, input, per_sample, &n));
  OCT_TRY(emit_product(writer, node, conv, weights, &n));
  OCT_TRY(oct_onnx_emit_simple(writer, "Cast", (const char *[4]){n.sum}, n.real, &to, 1));
  OCT_TRY(oct_onnx_emit_simple(writer, "Mul", (const char *[4]){n.scale, scales}, n.factor, NULL, 0));
  OCT_TRY(oct_onnx_emit_simple(writer, "Mul", (const char *[4]){n.real, n.factor}, bias ? n.scaled : output, NULL, 0));
  return bias ? oct_onnx_emit_simple(writer, "Add", (const char *[4]){n.scaled, added}, output, NULL, 0) : OCTET_OK;
}
