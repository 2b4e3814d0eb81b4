/* Writing the parts of GraphProto: wire primitives, nodes with attributes, initializers.
 * SPDX-License-Identifier: MIT */
#include "formats/onnx_writer.h"

#define SMALL_TENSOR 1024 /* bytes; up to here data are copied into the buffer */

void oct_put_varint(oct_strbuf *out, uint64_t value) {
  char bytes[10];
  size_t n = 0;
  for (; value >= 0x80; value >>= 7) bytes[n++] = (char)(value | 0x80);
  bytes[n++] = (char)value;
  oct_strbuf_append(out, bytes, n);
}

void oct_put_integer(oct_strbuf *out, unsigned number, uint64_t value) {
  oct_put_varint(out, OCT_WIRE_VARINT(number));
  oct_put_varint(out, value);
}

void oct_put_bytes(oct_strbuf *out, unsigned number, const void *data, size_t size) {
  oct_put_varint(out, OCT_WIRE_BYTES(number));
  oct_put_varint(out, size);
  if (size) oct_strbuf_append(out, data, size);
}

void oct_put_text(oct_strbuf *out, unsigned number, const char *text) { oct_put_bytes(out, number, text, strlen(text)); }

void oct_put_float(oct_strbuf *out, unsigned number, float value) {
  oct_put_varint(out, OCT_WIRE_FIXED32(number));
  oct_strbuf_append(out, (const char *)&value, 4);
}

void oct_put_message(oct_strbuf *out, unsigned number, oct_strbuf *inner) {
  if (inner->failed) out->failed = true;
  else oct_put_bytes(out, number, inner->text, inner->length);
  oct_strbuf_free(inner);
  *inner = oct_strbuf_make(out->ctx);
}

/* ---- Attributes and nodes ---- */

/* TensorProto up to its data: dims, element type, name. */
static void put_tensor_head(oct_strbuf *out, const char *name, const oct_tensor *tensor) {
  oct_strbuf dims = oct_strbuf_make(out->ctx);
  for (int i = 0; i < tensor->shape.rank; i++) oct_put_varint(&dims, (uint64_t)tensor->shape.dim[i]);
  if (tensor->shape.rank) oct_put_message(out, 1, &dims);
  oct_put_integer(out, 2, (uint64_t)oct_onnx_data_type(tensor->dtype));
  if (*name) oct_put_text(out, 8, name);
}

static void put_attribute_value(oct_strbuf *out, const oct_attribute *a) {
  oct_strbuf inner = oct_strbuf_make(out->ctx);
  switch (a->type) {
    case OCT_ATTRIBUTE_INT: oct_put_integer(out, 3, (uint64_t)a->i); break;
    case OCT_ATTRIBUTE_FLOAT: oct_put_float(out, 2, a->f); break;
    case OCT_ATTRIBUTE_STRING: oct_put_text(out, 4, a->s); break;
    case OCT_ATTRIBUTE_INTS:
      for (size_t i = 0; i < a->count; i++) oct_put_varint(&inner, (uint64_t)a->ints[i]);
      if (a->count) oct_put_message(out, 8, &inner);
      break;
    case OCT_ATTRIBUTE_FLOATS: oct_put_bytes(out, 7, a->floats, a->count * sizeof(float)); break;
    case OCT_ATTRIBUTE_STRINGS:
      for (size_t i = 0; i < a->count; i++) oct_put_text(out, 9, a->strings[i]);
      break;
    case OCT_ATTRIBUTE_TENSOR:
      put_tensor_head(&inner, "", a->tensor);
      oct_put_bytes(&inner, 9, a->tensor->data, a->tensor->bytes);
      oct_put_message(out, 5, &inner);
      break;
  }
}

/* AttributeProto.AttributeType (onnx.proto). */
static unsigned attribute_type(oct_attribute_type type) {
  static const unsigned char types[] = {
      [OCT_ATTRIBUTE_INT] = 2,    [OCT_ATTRIBUTE_FLOAT] = 1,   [OCT_ATTRIBUTE_STRING] = 3, [OCT_ATTRIBUTE_INTS] = 7,
      [OCT_ATTRIBUTE_FLOATS] = 6, [OCT_ATTRIBUTE_STRINGS] = 8, [OCT_ATTRIBUTE_TENSOR] = 4};
  return types[type];
}

static void put_attribute(oct_strbuf *node, const oct_attribute *a) {
  oct_strbuf out = oct_strbuf_make(node->ctx);
  oct_put_text(&out, 1, a->name);
  put_attribute_value(&out, a);
  oct_put_integer(&out, 20, attribute_type(a->type));
  oct_put_message(node, 5, &out);
}

/* What only Octet knows goes into the node's metadata, where other tools do not mind it (NodeProto.metadata_props). */
static void put_property(oct_strbuf *node, const oct_attribute *a) {
  oct_strbuf out = oct_strbuf_make(node->ctx), text = oct_strbuf_make(node->ctx);
  oct_strbuf_printf(&text, "%lld", (long long)a->i);
  oct_put_text(&out, 1, a->name);
  oct_put_message(&out, 2, &text);
  oct_put_message(node, 9, &out);
}

/* A node's own output by the name that its producer must give it: one that is quantized and a graph output goes by another name before. */
static const char *output_name(oct_onnx_writer *writer, const char *name) {
  const oct_value *value = *name ? oct_graph_find(writer->graph, name) : NULL;
  bool own = value && value->kind == OCT_INTERMEDIATE && (size_t)value->id < writer->n_values;
  return own ? oct_onnx_raw_name(writer, value) : name;
}

static octet_status put_node(oct_onnx_writer *writer, const oct_foreign_node *node, const char *const *inputs, bool raw_outputs) {
  oct_strbuf out = oct_strbuf_make(writer->ctx);
  int n_outputs = node->n_outputs;
  while (n_outputs > 1 && !*node->outputs[n_outputs - 1]) n_outputs--;
  for (int i = 0; i < node->n_inputs; i++) oct_put_text(&out, 1, inputs[i] ? inputs[i] : "");
  for (int i = 0; i < n_outputs; i++) {
    const char *name = raw_outputs ? output_name(writer, node->outputs[i]) : node->outputs[i];
    if (!name) {
      oct_strbuf_free(&out);
      return writer->ctx->status;
    }
    oct_put_text(&out, 2, name);
  }
  if (node->name && *node->name && (n_outputs == 0 || strcmp(node->name, node->outputs[0]) != 0)) oct_put_text(&out, 3, node->name);
  oct_put_text(&out, 4, node->type);
  for (int i = 0; i < node->n_attributes; i++) {
    const oct_attribute *a = &node->attributes[i];
    if (strcmp(a->name, OCT_ONNX_PER_SAMPLE) != 0) put_attribute(&out, a);
  }
  if (node->domain && *node->domain) oct_put_text(&out, 7, node->domain);
  for (int i = 0; i < node->n_attributes; i++)
    if (strcmp(node->attributes[i].name, OCT_ONNX_PER_SAMPLE) == 0) put_property(&out, &node->attributes[i]);
  oct_put_message(&writer->nodes, 1, &out);
  return writer->nodes.failed ? OCTET_OUT_OF_MEMORY : OCTET_OK;
}

octet_status oct_onnx_emit(oct_exporter *exporter, const oct_foreign_node *node, const char *const *inputs) {
  return put_node(exporter->user, node, inputs, true);
}

octet_status oct_onnx_emit_simple(oct_onnx_writer *writer, const char *type, const char *const *inputs, const char *output,
                                  const oct_attribute *attributes, int n_attributes) {
  oct_foreign_node node = {
      .type = type, .domain = "", .name = "", .outputs = &output, .n_outputs = 1, .attributes = attributes, .n_attributes = n_attributes};
  while (node.n_inputs < 4 && inputs[node.n_inputs]) node.n_inputs++;
  return put_node(writer, &node, inputs, false);
}

/* ---- Initializers ---- */

octet_status oct_onnx_initializer(oct_onnx_writer *writer, const char *name, const oct_tensor *tensor) {
  octet_context *ctx = writer->ctx;
  if (oct_onnx_data_type(tensor->dtype) == 0)
    return oct_fail(ctx, OCTET_UNSUPPORTED, "constant \"%s\" has an element type that ONNX does not have", name);
  oct_strbuf head = oct_strbuf_make(ctx);
  put_tensor_head(&head, name, tensor);
  oct_put_varint(&head, OCT_WIRE_BYTES(9));
  oct_put_varint(&head, tensor->bytes);
  bool small = tensor->bytes <= SMALL_TENSOR;
  if (small && tensor->bytes) oct_strbuf_append(&head, tensor->data, tensor->bytes);
  oct_strbuf *out = &writer->initializers;
  oct_put_varint(out, OCT_WIRE_BYTES(5));
  oct_put_varint(out, head.length + (small ? 0 : tensor->bytes));
  oct_strbuf_append(out, head.text, head.length);
  bool failed = head.failed || out->failed;
  oct_strbuf_free(&head);
  if (failed) return OCTET_OUT_OF_MEMORY;
  if (small) return OCTET_OK;
  OCT_TRY(oct_grow(ctx, &writer->chunks, &writer->chunks_capacity, writer->n_chunks + 1, sizeof *writer->chunks));
  writer->chunks[writer->n_chunks++] = (oct_onnx_chunk){out->length, oct_tensor_retain((oct_tensor *)(uintptr_t)tensor)};
  writer->chunk_bytes += tensor->bytes;
  return OCTET_OK;
}

const char *oct_onnx_fresh_name(oct_onnx_writer *writer, const char *base, const char *suffix) {
  oct_strbuf text = oct_strbuf_make(writer->ctx);
  char *name;
  oct_value *reserved;
  oct_strbuf_printf(&text, "%s%s", base, suffix);
  if (oct_strbuf_take(&text, &name) != OCTET_OK) return NULL;
  octet_status status = oct_graph_value(writer->ctx, writer->graph, name, OCT_INTERMEDIATE, OCT_DTYPE_NONE, NULL, &reserved);
  oct_free(name);
  return status == OCTET_OK ? reserved->name : NULL;
}

static const char *find_shared(const oct_onnx_writer *writer, const oct_tensor *tensor) {
  for (size_t i = 0; i < writer->n_shared && tensor->bytes <= SMALL_TENSOR; i++) {
    const oct_tensor *t = writer->shared[i].tensor;
    if (t->dtype == tensor->dtype && t->bytes == tensor->bytes && oct_shape_equal(&t->shape, &tensor->shape) &&
        (t->bytes == 0 || !memcmp(t->data, tensor->data, t->bytes)))
      return writer->shared[i].name;
  }
  return NULL;
}

const char *oct_onnx_shared_constant(oct_onnx_writer *writer, const char *hint, oct_tensor *tensor) {
  const char *name = find_shared(writer, tensor);
  if (name) {
    oct_tensor_release(tensor);
    return name;
  }
  name = oct_onnx_fresh_name(writer, hint, "");
  octet_status status = name ? oct_onnx_initializer(writer, name, tensor) : OCTET_OUT_OF_MEMORY;
  if (status == OCTET_OK)
    status = oct_grow(writer->ctx, &writer->shared, &writer->shared_capacity, writer->n_shared + 1, sizeof *writer->shared);
  if (status == OCTET_OK) writer->shared[writer->n_shared++] = (oct_onnx_shared){tensor, name};
  else oct_tensor_release(tensor);
  return status == OCTET_OK ? name : NULL;
}

const char *oct_onnx_constant(oct_exporter *exporter, const char *hint, const oct_tensor *tensor) {
  return oct_onnx_shared_constant(exporter->user, hint, oct_tensor_retain((oct_tensor *)(uintptr_t)tensor));
}
