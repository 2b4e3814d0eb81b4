/* Which operators and functions a model uses: look-up, the list of unknown ones, and calls of model-local functions, which are expanded.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "formats/onnx_reader.h"

static bool is_default(oct_bytes domain) { return domain.size == 0 || oct_onnx_equal(domain, "ai.onnx"); }

static bool same_bytes(oct_bytes a, oct_bytes b) { return a.size == b.size && (a.size == 0 || !memcmp(a.data, b.data, a.size)); }

/* The entry of an operator type, added if new. */
static octet_status find_type(oct_onnx_reader *reader, const oct_onnx_node *node, oct_onnx_type **out) {
  octet_context *ctx = reader->ctx;
  oct_onnx_types *types = is_default(node->domain) ? &reader->known : &reader->strangers;
  oct_onnx_name *name;
  types->names.base = reader->model.data;
  OCT_TRY(oct_onnx_names_add(ctx, &types->names, node->type, &name));
  OCT_TRY(oct_grow(ctx, &types->types, &types->capacity, types->names.count, sizeof *types->types));
  *out = &types->types[name - types->names.items];
  return OCTET_OK;
}

octet_status oct_onnx_lookup(oct_onnx_reader *reader, const oct_onnx_node *node, int version, const oct_onnx_type **out) {
  oct_onnx_type *type;
  OCT_TRY(find_type(reader, node, &type));
  *out = type;
  if (type->version == version || !is_default(node->domain)) return OCTET_OK;
  char *text = oct_strndup(reader->ctx, (const char *)node->type.data, node->type.size);
  if (!text) return OCTET_OUT_OF_MEMORY;
  type->row = oct_import_find("onnx", text, version, &type->op);
  type->version = version;
  oct_free(text);
  return OCTET_OK;
}

oct_onnx_function *oct_onnx_function_of(const oct_onnx_reader *reader, const oct_onnx_node *node) {
  const oct_onnx_name *name = reader->n_functions ? oct_onnx_names_find(&reader->function_names, node->type) : NULL;
  for (uint32_t i = name ? name->producer : 0; i; i = reader->functions[i - 1].next) {
    oct_onnx_function *f = &reader->functions[i - 1];
    oct_bytes domain = oct_onnx_bytes_at(reader, f->domain);
    bool same_domain = same_bytes(domain, node->domain) || (is_default(domain) && is_default(node->domain));
    if (same_domain && same_bytes(oct_onnx_bytes_at(reader, f->overload), node->overload)) return f;
  }
  return NULL;
}

/* OperatorSetIdProto: the version when it speaks of the default domain, else 0. */
static int read_opset(oct_bytes message, bool *failed) {
  oct_reader r = oct_wire_open(message);
  oct_wire_field f;
  oct_bytes domain = {NULL, 0};
  int64_t version = 0;
  while (oct_wire_next(&r, &f)) {
    if (f.key == OCT_WIRE_BYTES(1)) domain = f.bytes;
    if (f.key == OCT_WIRE_VARINT(2)) version = (int64_t)f.integer;
  }
  *failed |= r.failed;
  return is_default(domain) && version > 0 && version < 1000000 ? (int)version : 0;
}

octet_status oct_onnx_add_function(oct_onnx_reader *reader, oct_bytes message) {
  octet_context *ctx = reader->ctx;
  oct_onnx_function function = {.body = oct_onnx_span_in(reader, message)};
  oct_bytes text = {NULL, 0};
  oct_reader r = oct_wire_open(message);
  oct_wire_field f;
  bool failed = false;
  while (oct_wire_next(&r, &f)) {
    if (f.key == OCT_WIRE_BYTES(1)) text = f.bytes;
    if (f.key == OCT_WIRE_BYTES(10)) function.domain = oct_onnx_span_in(reader, f.bytes);
    if (f.key == OCT_WIRE_BYTES(13)) function.overload = oct_onnx_span_in(reader, f.bytes);
    if (f.key == OCT_WIRE_BYTES(9)) {
      int version = read_opset(f.bytes, &failed);
      if (version > function.version) function.version = version;
    }
  }
  if (r.failed || failed) return oct_onnx_malformed(ctx, "a function");
  if (text.size == 0) return oct_fail(ctx, OCTET_FORMAT, "a function has no name");
  oct_onnx_name *name;
  reader->function_names.base = reader->model.data;
  OCT_TRY(oct_onnx_names_add(ctx, &reader->function_names, text, &name));
  OCT_TRY(oct_grow(ctx, &reader->functions, &reader->functions_capacity, reader->n_functions + 1, sizeof *reader->functions));
  function.name = oct_onnx_span_in(reader, text);
  function.next = name->producer;
  reader->functions[reader->n_functions++] = function;
  name->producer = (uint32_t)reader->n_functions;
  return OCTET_OK;
}

/* ---- Unknown operators ---- */

static octet_status resolve_node(oct_onnx_reader *reader, oct_bytes message, int version, size_t *unknown) {
  oct_onnx_node node;
  oct_onnx_type *type;
  const oct_onnx_type *found;
  OCT_TRY(oct_onnx_node_scan(reader->ctx, message, &node));
  oct_onnx_function *function = oct_onnx_function_of(reader, &node);
  if (function) {
    function->called = true;
    return OCTET_OK;
  }
  OCT_TRY(oct_onnx_lookup(reader, &node, version, &found));
  if (found->op) return OCTET_OK;
  OCT_TRY(find_type(reader, &node, &type));
  if (type->unknown++ == 0) {
    type->at = oct_onnx_span_in(reader, node.name.size ? node.name : node.first_output);
    type->domain = oct_onnx_span_in(reader, node.domain);
  }
  ++*unknown;
  return OCTET_OK;
}

static octet_status resolve_body(oct_onnx_reader *reader, const oct_onnx_function *function, size_t *unknown) {
  oct_reader r = oct_wire_open(oct_onnx_bytes_at(reader, function->body));
  oct_wire_field f;
  int version = function->version ? function->version : reader->version;
  while (oct_wire_next(&r, &f))
    if (f.key == OCT_WIRE_BYTES(7)) OCT_TRY(resolve_node(reader, f.bytes, version, unknown));
  return OCTET_OK;
}

static bool is_sub_graph(oct_bytes type) {
  return oct_onnx_equal(type, "If") || oct_onnx_equal(type, "Loop") || oct_onnx_equal(type, "Scan");
}

/* Appends the unknown types of one table; what does not fit is counted in *left. */
static size_t list_types(const oct_onnx_reader *reader, const oct_onnx_types *types, bool with_domain, char *text, size_t length,
                         size_t size, size_t *left, bool *sub_graphs) {
  for (size_t i = 0; i < types->names.count; i++) {
    const oct_onnx_type *type = &types->types[i];
    char name[OCT_ONNX_TEXT], domain[OCT_ONNX_TEXT], at[OCT_ONNX_TEXT];
    oct_bytes bytes = oct_onnx_bytes_at(reader, types->names.items[i].text);
    if (type->unknown == 0) continue;
    if (!with_domain && is_sub_graph(bytes)) *sub_graphs = true;
    if (size - length < 450) {
      ++*left;
      continue;
    }
    length += (size_t)snprintf(text + length, size - length, "%s%s%s%s (%zu, first at \"%s\")", length ? ", " : "",
                               with_domain ? oct_onnx_text(oct_onnx_bytes_at(reader, type->domain), domain) : "", with_domain ? "." : "",
                               oct_onnx_text(bytes, name), type->unknown, oct_onnx_text(oct_onnx_bytes_at(reader, type->at), at));
  }
  return length;
}

static octet_status report_unknown(oct_onnx_reader *reader, size_t nodes) {
  char text[1800] = "", more[64] = "";
  size_t left = 0;
  bool sub_graphs = false;
  size_t length = list_types(reader, &reader->known, false, text, 0, sizeof text, &left, &sub_graphs);
  list_types(reader, &reader->strangers, true, text, length, sizeof text, &left, &sub_graphs);
  if (left) snprintf(more, sizeof more, " and %zu other operators", left);
  return oct_fail(reader->ctx, OCTET_UNSUPPORTED, "%zu node%s of operators that Octet does not have (operator set %d): %s%s%s%s", nodes,
                  nodes == 1 ? "" : "s", reader->version, text, more, sub_graphs ? "; sub-graphs are not supported" : "",
                  reader->version ? "" : "; the model declares no operator set of the default domain");
}

octet_status oct_onnx_resolve(oct_onnx_reader *reader, oct_onnx_scope *main) {
  size_t unknown = 0;
  for (size_t i = 0; i < main->n_nodes; i++)
    OCT_TRY(resolve_node(reader, oct_onnx_bytes_at(reader, main->nodes[i]), main->version, &unknown));
  bool *seen = oct_alloc(reader->ctx, reader->n_functions, sizeof *seen);
  if (!seen) return OCTET_OUT_OF_MEMORY;
  octet_status status = OCTET_OK;
  for (bool again = true; again && status == OCTET_OK;) {
    again = false;
    for (size_t i = 0; i < reader->n_functions && status == OCTET_OK; i++) {
      if (!reader->functions[i].called || seen[i]) continue;
      seen[i] = again = true;
      status = resolve_body(reader, &reader->functions[i], &unknown);
    }
  }
  oct_free(seen);
  if (status == OCTET_OK && unknown) return report_unknown(reader, unknown);
  return status;
}

/* ---- Calls ---- */

/* Formal inputs take the values of the actual ones; nodes of the body are collected. */
static octet_status open_body(oct_onnx_reader *reader, oct_onnx_scope *inner, const oct_foreign_node *call) {
  oct_reader r = oct_wire_open(inner->defaults);
  oct_wire_field f;
  oct_onnx_name *name;
  int n = 0;
  while (oct_wire_next(&r, &f)) {
    if (f.key == OCT_WIRE_BYTES(4) && f.bytes.size) {
      OCT_TRY(oct_onnx_names_add(reader->ctx, &inner->names, f.bytes, &name));
      name->input = true;
      name->value = n < call->n_inputs ? call->inputs[n] : NULL;
      n++;
    } else if (f.key == OCT_WIRE_BYTES(7)) {
      OCT_TRY(oct_onnx_collect_node(reader, inner, f.bytes));
    }
  }
  if (inner->n_nodes > reader->nodes_left) return oct_import_unsupported(&reader->importer, call, "its functions expand to too many nodes");
  reader->nodes_left -= inner->n_nodes;
  return OCTET_OK;
}

/* Binds the outputs of the call to what the body made. */
static octet_status close_body(oct_onnx_reader *reader, oct_onnx_scope *outer, oct_onnx_scope *inner, const oct_foreign_node *call) {
  oct_reader r = oct_wire_open(inner->defaults);
  oct_wire_field f;
  char text[OCT_ONNX_TEXT];
  int n = 0;
  reader->scope = outer;
  while (oct_wire_next(&r, &f)) {
    if (f.key != OCT_WIRE_BYTES(5)) continue;
    const oct_onnx_name *name = f.bytes.size ? oct_onnx_names_find(&inner->names, f.bytes) : NULL;
    if (n < call->n_outputs && *call->outputs[n]) {
      if (!name || !name->value)
        return oct_import_unsupported(&reader->importer, call, "the function does not define its output \"%s\"",
                                      oct_onnx_text(f.bytes, text));
      if (name->producer && !oct_graph_find(reader->graph, call->outputs[n]))
        OCT_TRY(oct_value_rename(reader->ctx, reader->graph, name->value, call->outputs[n]));
      OCT_TRY(oct_import_bind(&reader->importer, call, n, name->value));
    }
    n++;
  }
  return OCTET_OK;
}

octet_status oct_onnx_call(oct_onnx_reader *reader, oct_onnx_scope *scope, const oct_onnx_function *function,
                           const oct_foreign_node *call) {
  if (scope->depth >= OCT_ONNX_CALL_DEPTH)
    return oct_import_unsupported(&reader->importer, call, "functions call one another more than %d deep, or call themselves",
                                  OCT_ONNX_CALL_DEPTH);
  oct_onnx_scope inner = {.parent = scope,
                          .call = call,
                          .defaults = oct_onnx_bytes_at(reader, function->body),
                          .depth = scope->depth + 1,
                          .names.base = reader->model.data,
                          .version = function->version ? function->version : reader->version};
  octet_status status = open_body(reader, &inner, call);
  if (status == OCTET_OK) status = oct_onnx_check_names(reader, &inner);
  if (status == OCTET_OK) status = oct_onnx_import_nodes(reader, &inner);
  if (status == OCTET_OK) status = close_body(reader, scope, &inner, call);
  oct_onnx_scope_free(&inner);
  return status;
}
