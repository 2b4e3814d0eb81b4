/* ModelProto: versions, operator set, metadata, functions; then the graph. Entry points of the reader.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "formats/onnx_reader.h"

static octet_status set_metadata(oct_onnx_reader *reader, const char *key, oct_bytes value) {
  char *text = oct_strndup(reader->ctx, (const char *)value.data, value.size);
  if (!text) return OCTET_OUT_OF_MEMORY;
  octet_status status = oct_graph_set_metadata(reader->ctx, reader->graph, key, text);
  oct_free(text);
  return status;
}

/* StringStringEntryProto of metadata_props. Entries without key, and those past the first few hundred, are skipped. */
static octet_status read_metadata(oct_onnx_reader *reader, oct_bytes message) {
  oct_reader r = oct_wire_open(message);
  oct_wire_field f;
  oct_bytes key = {NULL, 0}, value = {NULL, 0};
  while (oct_wire_next(&r, &f)) {
    if (f.key == OCT_WIRE_BYTES(1)) key = f.bytes;
    if (f.key == OCT_WIRE_BYTES(2)) value = f.bytes;
  }
  if (r.failed) return oct_onnx_malformed(reader->ctx, "the metadata");
  if (key.size == 0 || reader->graph->n_metadata >= 500 || !oct_onnx_text_valid(key) || !oct_onnx_text_valid(value)) return OCTET_OK;
  char *text = oct_strndup(reader->ctx, (const char *)key.data, key.size);
  if (!text) return OCTET_OUT_OF_MEMORY;
  octet_status status = set_metadata(reader, text, value);
  oct_free(text);
  return status;
}

static octet_status read_opset(oct_onnx_reader *reader, oct_bytes message) {
  oct_reader r = oct_wire_open(message);
  oct_wire_field f;
  oct_bytes domain = {NULL, 0};
  int64_t version = 0;
  while (oct_wire_next(&r, &f)) {
    if (f.key == OCT_WIRE_BYTES(1)) domain = f.bytes;
    if (f.key == OCT_WIRE_VARINT(2)) version = (int64_t)f.integer;
  }
  if (r.failed) return oct_onnx_malformed(reader->ctx, "an operator-set declaration");
  if (domain.size && !oct_onnx_equal(domain, "ai.onnx")) return OCTET_OK;
  if (version < OCT_ONNX_OPSET_FIRST || version > OCT_ONNX_OPSET_LAST)
    return oct_fail(reader->ctx, OCTET_UNSUPPORTED, "operator set %lld is not supported; Octet reads %d to %d", (long long)version,
                    OCT_ONNX_OPSET_FIRST, OCT_ONNX_OPSET_LAST);
  if (reader->version && reader->version != version)
    return oct_fail(reader->ctx, OCTET_FORMAT, "the model declares two operator sets: %d and %lld", reader->version, (long long)version);
  reader->version = (int)version;
  return OCTET_OK;
}

static octet_status read_model_fields(oct_onnx_reader *reader) {
  octet_context *ctx = reader->ctx;
  oct_reader r = oct_wire_open(reader->model);
  oct_wire_field f;
  bool has_graph = false;
  while (oct_wire_next(&r, &f)) switch (f.key) {
      case OCT_WIRE_VARINT(1): reader->ir_version = (int64_t)f.integer; break;
      case OCT_WIRE_BYTES(2):
        if (f.bytes.size && oct_onnx_text_valid(f.bytes)) OCT_TRY(set_metadata(reader, "producer", f.bytes));
        break;
      case OCT_WIRE_BYTES(7):
        if (has_graph) return oct_fail(ctx, OCTET_FORMAT, "the model has two graphs");
        has_graph = true;
        reader->graph_bytes = f.bytes;
        break;
      case OCT_WIRE_BYTES(8): OCT_TRY(read_opset(reader, f.bytes)); break;
      case OCT_WIRE_BYTES(14): OCT_TRY(read_metadata(reader, f.bytes)); break;
      case OCT_WIRE_BYTES(25): OCT_TRY(oct_onnx_add_function(reader, f.bytes)); break;
      default: break;
    }
  if (r.failed) return oct_fail(ctx, OCTET_FORMAT, "not an ONNX model, or cut short: a field at byte %zu is malformed", r.position);
  if (!has_graph) return oct_fail(ctx, OCTET_FORMAT, "not an ONNX model: it has no graph");
  if (reader->ir_version < 3)
    return oct_fail(ctx, OCTET_UNSUPPORTED, "ONNX IR version %lld is not supported; it must be 3 or newer", (long long)reader->ir_version);
  return OCTET_OK;
}

/* The graph's name, when it has one. */
static octet_status read_graph_name(oct_onnx_reader *reader) {
  oct_reader r = oct_wire_open(reader->graph_bytes);
  oct_wire_field f;
  while (oct_wire_next(&r, &f)) {
    if (f.key != OCT_WIRE_BYTES(2) || f.bytes.size == 0 || !oct_onnx_text_valid(f.bytes)) continue;
    reader->graph->name = oct_region_strndup(reader->ctx, &reader->graph->region, (const char *)f.bytes.data, f.bytes.size);
    return reader->graph->name ? OCTET_OK : OCTET_OUT_OF_MEMORY;
  }
  return OCTET_OK;
}

static octet_status bind(oct_importer *importer, const char *foreign_output, oct_value *value) {
  oct_onnx_reader *reader = importer->user;
  oct_onnx_name *name = oct_onnx_names_find(&reader->scope->names, (oct_bytes){(const uint8_t *)foreign_output, strlen(foreign_output)});
  if (!name) return oct_fail(importer->ctx, OCTET_GRAPH, "value \"%s\" is not an output of this graph", foreign_output);
  if (name->value) return oct_fail(importer->ctx, OCTET_GRAPH, "value \"%s\" is defined twice", foreign_output);
  name->value = value;
  return name->type.size ? oct_onnx_apply_hint(reader, value, oct_onnx_bytes_at(reader, name->type)) : OCTET_OK;
}

static octet_status read_graph(oct_onnx_reader *reader, oct_onnx_scope *scope) {
  OCT_TRY(oct_onnx_collect(reader, scope));
  OCT_TRY(oct_onnx_resolve(reader, scope));
  OCT_TRY(oct_onnx_check_names(reader, scope));
  OCT_TRY(oct_onnx_make_values(reader, scope));
  OCT_TRY(oct_onnx_import_nodes(reader, scope));
  if (reader->n_outputs == 0) return oct_fail(reader->ctx, OCTET_GRAPH, "the graph has no outputs");
  return oct_onnx_make_outputs(reader, scope);
}

static octet_status read_model(oct_onnx_reader *reader) {
  if (reader->model.size > UINT32_MAX)
    return oct_fail(reader->ctx, OCTET_UNSUPPORTED, "the file is larger than 4 GiB; weights belong into external data");
  if (reader->model.size == 0) return oct_fail(reader->ctx, OCTET_FORMAT, "the file is empty");
  OCT_TRY(oct_graph_create(reader->ctx, "graph", &reader->graph));
  reader->importer = (oct_importer){.ctx = reader->ctx, .graph = reader->graph, .user = reader, .bind = bind};
  reader->nodes_left = 65536 + reader->model.size;
  OCT_TRY(read_model_fields(reader));
  OCT_TRY(read_graph_name(reader));
  oct_onnx_scope scope = {.names.base = reader->model.data, .version = reader->version};
  octet_status status = read_graph(reader, &scope);
  oct_onnx_scope_free(&scope);
  OCT_TRY(status);
  return oct_graph_compact(reader->ctx, reader->graph);
}

static octet_status finish(oct_onnx_reader *reader, octet_status status, oct_graph **out) {
  if (status == OCTET_OK) *out = reader->graph;
  else oct_graph_destroy(reader->graph);
  oct_onnx_names_free(&reader->known.names);
  oct_onnx_names_free(&reader->strangers.names);
  oct_onnx_names_free(&reader->function_names);
  oct_free(reader->known.types);
  oct_free(reader->strangers.types);
  oct_free(reader->functions);
  oct_free(reader->inputs);
  oct_free(reader->outputs);
  oct_onnx_source_free(&reader->source);
  return status;
}

octet_status oct_onnx_read_bytes(octet_context *ctx, oct_bytes bytes, const char *base_path, const oct_onnx_options *options,
                                 oct_graph **out) {
  oct_onnx_reader reader = {.ctx = ctx, .source = {.ctx = ctx, .path = base_path}, .model = bytes, .options = options};
  *out = NULL;
  return finish(&reader, read_model(&reader), out);
}

octet_status oct_onnx_read(octet_context *ctx, const char *path, const oct_onnx_options *options, oct_graph **out) {
  oct_onnx_reader reader = {.ctx = ctx, .source = {.ctx = ctx, .path = path}, .options = options};
  *out = NULL;
  OCT_TRY(oct_file_open(ctx, path, &reader.source.file));
  reader.model = oct_file_bytes(reader.source.file);
  octet_status status = finish(&reader, read_model(&reader), out);
  return status == OCTET_OK ? status : oct_fail_prefix(ctx, "%s", path);
}
