/* Writing a model: what must be known before, the nodes in order, and the file. Equal graphs give equal bytes.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "formats/onnx_writer.h"

#define MESSAGE_LIMIT (size_t) INT32_MAX /* protobuf's */

/* ---- Before ---- */

static bool is_cast(const oct_node *node) {
  const oct_export_row *row = oct_export_find("onnx", node->op);
  return row && (strcmp(row->name, "Cast") == 0 || strcmp(row->name, "CastLike") == 0);
}

/* A half-precision constant that stands where an f32 is wanted must be widened by a Cast. */
static void find_widened(oct_onnx_writer *writer) {
  for (size_t i = 0; i < writer->graph->n_values; i++) {
    const oct_value *v = writer->graph->values[i];
    const oct_tensor *t = oct_constant_of(v);
    writer->widen[i] = t && (t->dtype == OCT_F16 || t->dtype == OCT_BF16) && v->dtype == OCT_F32 && !v->quant;
  }
  for (size_t i = 0; i < writer->graph->n_nodes; i++) {
    const oct_node *node = writer->graph->nodes[i];
    bool wide = node->n_outputs > 0 && node->outputs[0] && node->outputs[0]->dtype == OCT_F32 && !is_cast(node);
    for (int k = 0; wide && k < node->n_inputs; k++) {
      const oct_tensor *t = oct_constant_of(node->inputs[k]);
      if (t && (t->dtype == OCT_F16 || t->dtype == OCT_BF16)) writer->widen[node->inputs[k]->id] = true;
    }
  }
}

/* Every operator must have an ONNX form; those that have none are listed at once. */
static octet_status check_operators(oct_onnx_writer *writer) {
  char text[1024] = "";
  size_t length = 0, count = 0;
  for (size_t i = 0; i < writer->graph->n_nodes; i++) {
    const oct_node *node = writer->graph->nodes[i];
    if (oct_export_find("onnx", node->op)) continue;
    if (length < sizeof text - 300)
      length += (size_t)snprintf(text + length, sizeof text - length, "%s\"%.100s\" (%s)", count ? ", " : "", node->name, node->op->name);
    count++;
  }
  return count ? oct_fail(writer->ctx, OCTET_UNSUPPORTED, "%zu node%s cannot be written as ONNX: %s", count, count == 1 ? "" : "s", text)
               : OCTET_OK;
}

static bool is_16_bit(oct_dtype dtype) { return dtype == OCT_I16 || dtype == OCT_U16; }

/* Operator set 21 brought 16-bit quantization and scales of other types than f32. */
static bool needs_21(const oct_graph *graph) {
  for (size_t i = 0; i < graph->n_values; i++) {
    const oct_quant *q = oct_onnx_quant_of(graph->values[i]);
    if (q && is_16_bit(q->dtype)) return true;
  }
  for (size_t i = 0; i < graph->n_nodes; i++) {
    const oct_node *node = graph->nodes[i];
    if (!oct_op_has(node->op, OCT_TRAIT_QUANTIZE) && !oct_op_has(node->op, OCT_TRAIT_DEQUANTIZE)) continue;
    if (is_16_bit(node->inputs[0]->dtype) || is_16_bit(node->outputs[0]->dtype)) return true;
    if (node->n_inputs > 1 && node->inputs[1] && node->inputs[1]->dtype != OCT_F32) return true;
  }
  return false;
}

/* ---- Values ---- */

static void put_type(oct_strbuf *out, const oct_value *value) {
  oct_strbuf shape = oct_strbuf_make(out->ctx), tensor = oct_strbuf_make(out->ctx), type = oct_strbuf_make(out->ctx);
  for (int i = 0; value->has_shape && i < value->shape.rank; i++) {
    oct_strbuf dim = oct_strbuf_make(out->ctx);
    if (value->shape.dim[i] != OCT_DIM_UNKNOWN) oct_put_integer(&dim, 1, (uint64_t)value->shape.dim[i]);
    else if (value->dim_names[i]) oct_put_text(&dim, 2, value->dim_names[i]);
    oct_put_message(&shape, 1, &dim);
  }
  oct_put_integer(&tensor, 1, (uint64_t)oct_onnx_data_type(value->dtype));
  if (value->has_shape) oct_put_message(&tensor, 2, &shape);
  oct_put_message(&type, 1, &tensor);
  oct_put_message(out, 2, &type);
}

static void put_value_info(oct_strbuf *out, unsigned number, const oct_value *value, const char *name) {
  oct_strbuf info = oct_strbuf_make(out->ctx);
  oct_put_text(&info, 1, name);
  put_type(&info, value);
  oct_put_message(out, number, &info);
}

/* Writes what remains to be written of the outputs: conversions, constants, inputs that are outputs. */
static octet_status put_outputs(oct_onnx_writer *writer, oct_strbuf *out) {
  for (size_t i = 0; i < writer->graph->n_outputs; i++) {
    const oct_value *value = writer->graph->outputs[i];
    bool repeated = false;
    for (size_t k = 0; k < i; k++) repeated |= writer->graph->outputs[k] == value;
    const char *name = oct_onnx_name_of(&writer->exporter, value);
    if (!name) return writer->ctx->status;
    if (value->kind == OCT_INPUT) name = value->name;
    if (repeated) {
      const char *copy = oct_onnx_fresh_name(writer, value->name, "");
      if (!copy) return OCTET_OUT_OF_MEMORY;
      OCT_TRY(oct_onnx_emit_simple(writer, "Identity", (const char *[4]){name}, copy, NULL, 0));
      name = copy;
    }
    put_value_info(out, 12, value, name);
  }
  return OCTET_OK;
}

static octet_status put_nodes(oct_onnx_writer *writer) {
  for (size_t i = 0; i < writer->graph->n_nodes; i++) {
    const oct_node *node = writer->graph->nodes[i];
    const oct_export_row *row = oct_export_find("onnx", node->op);
    octet_status status;
    writer->plain = oct_onnx_rounds_alike(node) ? node->inputs[0] : NULL;
    if (oct_onnx_is_dynamic(node, row->name)) status = oct_onnx_write_dynamic(writer, node, row->name);
    else if (row->export_node) status = row->export_node(&writer->exporter, node);
    else status = oct_export_default(&writer->exporter, node, row->name);
    if (status != OCTET_OK) return oct_fail_prefix(writer->ctx, "node \"%s\"", node->name);
  }
  writer->plain = NULL;
  return OCTET_OK;
}

/* ---- The file ---- */

static void put_metadata(oct_strbuf *out, const oct_graph *graph) {
  for (size_t i = 0; i < graph->n_metadata; i++) {
    oct_strbuf entry = oct_strbuf_make(out->ctx);
    if (strcmp(graph->metadata[i].key, "producer") == 0) continue; /* Octet is */
    oct_put_text(&entry, 1, graph->metadata[i].key);
    oct_put_text(&entry, 2, graph->metadata[i].text);
    oct_put_message(out, 14, &entry);
  }
}

static octet_status put_initializers(oct_onnx_writer *writer, oct_writer *file) {
  size_t position = 0;
  for (size_t i = 0; i < writer->n_chunks; i++) {
    const oct_onnx_chunk *chunk = &writer->chunks[i];
    OCT_TRY(oct_writer_put(file, writer->initializers.text + position, chunk->position - position));
    OCT_TRY(oct_writer_put(file, chunk->tensor->data, chunk->tensor->bytes));
    position = chunk->position;
  }
  return writer->initializers.length > position
             ? oct_writer_put(file, writer->initializers.text + position, writer->initializers.length - position)
             : OCTET_OK;
}

/* Model head, graph (nodes, name, initializers, inputs and outputs), operator set and metadata. */
static octet_status write_file(oct_onnx_writer *writer, const char *path, oct_strbuf *head, oct_strbuf *graph_tail,
                               const oct_strbuf *tail) {
  octet_context *ctx = writer->ctx;
  oct_strbuf name = oct_strbuf_make(ctx);
  oct_put_text(&name, 2, *writer->graph->name ? writer->graph->name : "graph");
  size_t size = writer->nodes.length + name.length + writer->initializers.length + writer->chunk_bytes + graph_tail->length;
  oct_put_varint(head, OCT_WIRE_BYTES(7));
  oct_put_varint(head, size);
  const oct_strbuf *parts[] = {&writer->nodes, &name, &writer->initializers, graph_tail, head, tail};
  octet_status status = OCTET_OK;
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
    if (parts[i]->failed) status = OCTET_OUT_OF_MEMORY;
  if (status == OCTET_OK && size + head->length + tail->length > MESSAGE_LIMIT)
    status = oct_fail(ctx, OCTET_UNSUPPORTED,
                      "the model would take %zu bytes; an ONNX file holds less than 2 GiB. Quantize its weights (--mode weight-only) first",
                      size + head->length + tail->length);
  oct_writer *file = NULL;
  if (status == OCTET_OK) status = oct_writer_open(ctx, path, &file);
  if (status == OCTET_OK) status = oct_writer_put(file, head->text, head->length);
  if (status == OCTET_OK && writer->nodes.length) status = oct_writer_put(file, writer->nodes.text, writer->nodes.length);
  if (status == OCTET_OK) status = oct_writer_put(file, name.text, name.length);
  if (status == OCTET_OK) status = put_initializers(writer, file);
  if (status == OCTET_OK && graph_tail->length) status = oct_writer_put(file, graph_tail->text, graph_tail->length);
  if (status == OCTET_OK) status = oct_writer_put(file, tail->text, tail->length);
  oct_strbuf_free(&name);
  if (status == OCTET_OK) return oct_writer_commit(file);
  oct_writer_abandon(file);
  return status;
}

static octet_status write_model(oct_onnx_writer *writer, const char *path) {
  octet_context *ctx = writer->ctx;
  int version = writer->exporter.version;
  oct_strbuf head = oct_strbuf_make(ctx), graph_tail = oct_strbuf_make(ctx), tail = oct_strbuf_make(ctx), opset = oct_strbuf_make(ctx);
  oct_put_integer(&head, 1, version > 18 ? 10 : 8);
  oct_put_text(&head, 2, "octet");
  octet_status status = check_operators(writer);
  if (status == OCTET_OK) status = put_nodes(writer);
  for (size_t i = 0; i < writer->graph->n_inputs; i++)
    put_value_info(&graph_tail, 11, writer->graph->inputs[i], writer->graph->inputs[i]->name);
  if (status == OCTET_OK) status = put_outputs(writer, &graph_tail);
  oct_put_integer(&opset, 2, (uint64_t)version);
  oct_put_message(&tail, 8, &opset);
  put_metadata(&tail, writer->graph);
  if (status == OCTET_OK) status = write_file(writer, path, &head, &graph_tail, &tail);
  oct_strbuf_free(&head);
  oct_strbuf_free(&graph_tail);
  oct_strbuf_free(&tail);
  return status;
}

static octet_status prepare(oct_onnx_writer *writer, const oct_graph *graph, int version) {
  octet_context *ctx = writer->ctx;
  OCT_TRY(oct_graph_copy(ctx, graph, &writer->graph));
  OCT_TRY(oct_graph_compact(ctx, writer->graph));
  writer->n_values = writer->graph->n_values;
  writer->names = oct_alloc(ctx, writer->n_values, sizeof *writer->names);
  writer->written = oct_alloc(ctx, writer->n_values, sizeof *writer->written);
  writer->is_output = oct_alloc(ctx, writer->n_values, sizeof *writer->is_output);
  writer->widen = oct_alloc(ctx, writer->n_values, sizeof *writer->widen);
  if (!writer->names || !writer->written || !writer->is_output || !writer->widen) return OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < writer->graph->n_outputs; i++) writer->is_output[writer->graph->outputs[i]->id] = true;
  find_widened(writer);
  writer->exporter = (oct_exporter){.ctx = ctx,
                                    .graph = writer->graph,
                                    .format = "onnx",
                                    .version = version,
                                    .user = writer,
                                    .emit = oct_onnx_emit,
                                    .name_of = oct_onnx_name_of,
                                    .constant = oct_onnx_constant};
  return OCTET_OK;
}

static octet_status write_version(octet_context *ctx, const oct_graph *graph, const char *path, int version) {
  oct_onnx_writer writer = {.ctx = ctx, .nodes = oct_strbuf_make(ctx), .initializers = oct_strbuf_make(ctx)};
  octet_status status = prepare(&writer, graph, version);
  if (status == OCTET_OK) status = write_model(&writer, path);
  for (size_t i = 0; i < writer.n_chunks; i++) oct_tensor_release((oct_tensor *)(uintptr_t)writer.chunks[i].tensor);
  for (size_t i = 0; i < writer.n_shared; i++) oct_tensor_release(writer.shared[i].tensor);
  oct_free(writer.chunks);
  oct_free(writer.shared);
  oct_free(writer.names);
  oct_free(writer.written);
  oct_free(writer.is_output);
  oct_free(writer.widen);
  oct_strbuf_free(&writer.nodes);
  oct_strbuf_free(&writer.initializers);
  oct_graph_destroy(writer.graph);
  return status;
}

/* Set 18 for as many readers as possible; 21 where the graph has what came later (an operator's export says so). */
octet_status oct_onnx_write(octet_context *ctx, const oct_graph *graph, const char *path) {
  octet_status status = OCTET_UNSUPPORTED;
  if (!needs_21(graph)) status = write_version(ctx, graph, path, 18);
  if (status == OCTET_UNSUPPORTED) status = write_version(ctx, graph, path, 21);
  return status == OCTET_OK ? status : oct_fail_prefix(ctx, "%s", path);
}
