/* NodeProto: one node becomes a neutral view, which the operator's import row turns into graph nodes.
 * SPDX-License-Identifier: MIT */
#include <limits.h>

#include "formats/onnx_reader.h"

octet_status oct_onnx_node_scan(octet_context *ctx, oct_bytes message, oct_onnx_node *node) {
  oct_reader r = oct_wire_open(message);
  oct_wire_field f;
  char text[OCT_ONNX_TEXT];
  *node = (oct_onnx_node){.n_inputs = 0};
  while (oct_wire_next(&r, &f)) switch (f.key) {
      case OCT_WIRE_BYTES(1): node->n_inputs++; break;
      case OCT_WIRE_BYTES(2):
        if (f.bytes.size && !node->first_output.size) node->first_output = f.bytes;
        node->n_outputs++;
        break;
      case OCT_WIRE_BYTES(3): node->name = f.bytes; break;
      case OCT_WIRE_BYTES(4): node->type = f.bytes; break;
      case OCT_WIRE_BYTES(5): node->n_attributes++; break;
      case OCT_WIRE_BYTES(7): node->domain = f.bytes; break;
      case OCT_WIRE_BYTES(8): node->overload = f.bytes; break;
      case OCT_WIRE_BYTES(9): node->n_attributes++; break; /* metadata: at most one of Octet's own */
      default: break;
    }
  if (r.failed) return oct_onnx_malformed(ctx, "a node");
  if (node->type.size == 0) return oct_fail(ctx, OCTET_FORMAT, "node \"%s\" names no operator", oct_onnx_node_text(node, text));
  if (!oct_onnx_text_valid(node->type) || !oct_onnx_text_valid(node->name))
    return oct_fail(ctx, OCTET_FORMAT, "name or operator of node \"%s\" contains a zero byte", oct_onnx_node_text(node, text));
  if (node->n_inputs > INT_MAX || node->n_outputs > INT_MAX || node->n_attributes > INT_MAX)
    return oct_fail(ctx, OCTET_FORMAT, "a node is too large");
  return OCTET_OK;
}

const char *oct_onnx_node_text(const oct_onnx_node *node, char text[OCT_ONNX_TEXT]) {
  return oct_onnx_text(node->name.size ? node->name : node->first_output, text);
}

static const char *copy_text(octet_context *ctx, oct_region *region, oct_bytes bytes) {
  return bytes.size ? oct_region_strndup(ctx, region, (const char *)bytes.data, bytes.size) : "";
}

/* Octet's own mark in a node's metadata; others are not read. */
static bool is_per_sample(oct_bytes message) {
  oct_reader r = oct_wire_open(message);
  oct_wire_field f;
  bool key = false, value = false;
  while (oct_wire_next(&r, &f)) {
    if (f.key == OCT_WIRE_BYTES(1)) key = oct_onnx_equal(f.bytes, OCT_ONNX_PER_SAMPLE);
    if (f.key == OCT_WIRE_BYTES(2)) value = oct_onnx_equal(f.bytes, "1");
  }
  return !r.failed && key && value;
}

/* Fills the arrays of the neutral view; counts are raised as entries become valid. */
static octet_status fill_node(oct_onnx_reader *reader, oct_onnx_scope *scope, oct_bytes message, oct_region *region, oct_foreign_node *out,
                              oct_attribute *attributes) {
  octet_context *ctx = reader->ctx;
  oct_reader r = oct_wire_open(message);
  oct_wire_field f;
  while (oct_wire_next(&r, &f)) {
    if (f.key == OCT_WIRE_BYTES(1)) {
      oct_onnx_name *name = f.bytes.size ? oct_onnx_names_find(&scope->names, f.bytes) : NULL;
      out->inputs[out->n_inputs++] = name ? name->value : NULL;
    } else if (f.key == OCT_WIRE_BYTES(2)) {
      const char *text = copy_text(ctx, region, f.bytes);
      if (!text) return OCTET_OUT_OF_MEMORY;
      out->outputs[out->n_outputs++] = text;
    } else if (f.key == OCT_WIRE_BYTES(5)) {
      octet_status status = oct_onnx_attribute(reader, scope, f.bytes, region, &attributes[out->n_attributes]);
      if (status != OCTET_OK || attributes[out->n_attributes].name) out->n_attributes++;
      OCT_TRY(status);
    } else if (f.key == OCT_WIRE_BYTES(9) && strcmp(out->type, "DynamicQuantizeLinear") == 0 && is_per_sample(f.bytes)) {
      attributes[out->n_attributes++] = (oct_attribute){.name = "per_sample", .type = OCT_ATTRIBUTE_INT, .i = 1};
    }
  }
  return OCTET_OK;
}

static octet_status import_view(oct_onnx_reader *reader, oct_onnx_scope *scope, const oct_onnx_node *node, const oct_foreign_node *view) {
  const oct_onnx_function *function = oct_onnx_function_of(reader, node);
  const oct_onnx_type *type;
  if (function) return oct_onnx_call(reader, scope, function, view);
  OCT_TRY(oct_onnx_lookup(reader, node, scope->version, &type));
  if (!type->op) return oct_fail(reader->ctx, OCTET_UNSUPPORTED, "operator \"%s\" is unknown", view->type);
  reader->scope = scope;
  return type->row->import ? type->row->import(&reader->importer, view) : oct_import_default(&reader->importer, view, type->op);
}

/* Every output that the node names must have been bound. */
static octet_status check_outputs(oct_onnx_reader *reader, oct_onnx_scope *scope, const oct_foreign_node *view) {
  for (int i = 0; i < view->n_outputs; i++) {
    oct_bytes text = {(const uint8_t *)view->outputs[i], strlen(view->outputs[i])};
    const oct_onnx_name *name = text.size ? oct_onnx_names_find(&scope->names, text) : NULL;
    if (text.size && (!name || !name->value))
      return oct_import_unsupported(&reader->importer, view, "output %d (\"%s\") is not known for this operator", i, view->outputs[i]);
  }
  return OCTET_OK;
}

static octet_status import_scanned(oct_onnx_reader *reader, oct_onnx_scope *scope, oct_bytes message, const oct_onnx_node *node,
                                   oct_region *region) {
  octet_context *ctx = reader->ctx;
  char text[OCT_ONNX_TEXT];
  oct_attribute *attributes = oct_region_alloc(ctx, region, node->n_attributes + 1, sizeof *attributes);
  oct_foreign_node view = {
      .type = copy_text(ctx, region, node->type),
      .domain = copy_text(ctx, region, node->domain),
      .name = copy_text(ctx, region, node->name),
      .version = scope->version,
      .attributes = attributes,
      .inputs = oct_region_alloc(ctx, region, node->n_inputs + 1, sizeof *view.inputs),
      .outputs = oct_region_alloc(ctx, region, node->n_outputs + 1, sizeof *view.outputs),
  };
  if (!attributes || !view.type || !view.domain || !view.name || !view.inputs || !view.outputs) return OCTET_OUT_OF_MEMORY;
  octet_status status = fill_node(reader, scope, message, region, &view, attributes);
  if (status != OCTET_OK) status = oct_fail_prefix(ctx, "node \"%s\" (%s)", oct_onnx_node_text(node, text), view.type);
  if (status == OCTET_OK) status = import_view(reader, scope, node, &view);
  if (status == OCTET_OK) status = check_outputs(reader, scope, &view);
  for (int i = 0; i < view.n_attributes; i++)
    if (attributes[i].type == OCT_ATTRIBUTE_TENSOR) oct_tensor_release(attributes[i].tensor);
  return status;
}

octet_status oct_onnx_import_node(oct_onnx_reader *reader, oct_onnx_scope *scope, oct_bytes message) {
  oct_onnx_node node;
  oct_region region = {NULL};
  OCT_TRY(oct_onnx_node_scan(reader->ctx, message, &node));
  octet_status status = import_scanned(reader, scope, message, &node, &region);
  oct_region_free(&region);
  return status;
}
