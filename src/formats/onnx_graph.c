/* GraphProto: first the names, unread; then inputs and used initializers; then the nodes in an order where every input exists.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "formats/onnx_reader.h"

void oct_onnx_scope_free(oct_onnx_scope *scope) {
  oct_onnx_names_free(&scope->names);
  oct_free(scope->nodes);
}

static octet_status defined_twice(oct_onnx_reader *reader, oct_bytes name, const char *how) {
  char text[OCT_ONNX_TEXT];
  return oct_fail(reader->ctx, OCTET_GRAPH, "value \"%s\" is defined twice%s", oct_onnx_text(name, text), how);
}

octet_status oct_onnx_collect_node(oct_onnx_reader *reader, oct_onnx_scope *scope, oct_bytes message) {
  oct_onnx_node node;
  oct_onnx_name *name;
  OCT_TRY(oct_onnx_node_scan(reader->ctx, message, &node));
  OCT_TRY(oct_grow(reader->ctx, &scope->nodes, &scope->nodes_capacity, scope->n_nodes + 1, sizeof *scope->nodes));
  scope->nodes[scope->n_nodes++] = oct_onnx_span_in(reader, message);
  oct_reader r = oct_wire_open(message);
  oct_wire_field f;
  while (oct_wire_next(&r, &f)) {
    if (f.key != OCT_WIRE_BYTES(2) || f.bytes.size == 0) continue;
    OCT_TRY(oct_onnx_names_add(reader->ctx, &scope->names, f.bytes, &name));
    if (name->producer) return defined_twice(reader, f.bytes, ": by two nodes");
    name->producer = (uint32_t)scope->n_nodes;
  }
  return OCTET_OK;
}

static octet_status collect_initializer(oct_onnx_reader *reader, oct_onnx_scope *scope, oct_bytes message) {
  oct_bytes text;
  oct_onnx_name *name;
  if (!oct_onnx_tensor_name(message, &text)) return oct_onnx_malformed(reader->ctx, "an initializer");
  if (text.size == 0) return oct_fail(reader->ctx, OCTET_FORMAT, "an initializer has no name");
  OCT_TRY(oct_onnx_names_add(reader->ctx, &scope->names, text, &name));
  if (name->initializer) return defined_twice(reader, text, ": by two initializers");
  name->initializer = true;
  name->tensor = oct_onnx_span_in(reader, message);
  return OCTET_OK;
}

/* An input, output or other declared value. */
static octet_status collect_value(oct_onnx_reader *reader, oct_onnx_scope *scope, uint32_t key, oct_bytes message) {
  octet_context *ctx = reader->ctx;
  oct_bytes text, type;
  oct_onnx_name *name;
  OCT_TRY(oct_onnx_value_info(ctx, message, &text, &type));
  bool input = key == OCT_WIRE_BYTES(11), output = key == OCT_WIRE_BYTES(12);
  if (text.size == 0 && (input || output)) return oct_fail(ctx, OCTET_FORMAT, "a graph %s has no name", input ? "input" : "output");
  if (text.size == 0 || (!input && !output && type.size == 0)) return OCTET_OK;
  OCT_TRY(oct_onnx_names_add(ctx, &scope->names, text, &name));
  if (type.size) name->type = oct_onnx_span_in(reader, type);
  if (input) {
    if (name->input) return defined_twice(reader, text, ": by two graph inputs");
    name->input = true;
    OCT_TRY(oct_grow(ctx, &reader->inputs, &reader->inputs_capacity, reader->n_inputs + 1, sizeof *reader->inputs));
    reader->inputs[reader->n_inputs++] = message;
  }
  if (output) {
    name->used = true;
    OCT_TRY(oct_grow(ctx, &reader->outputs, &reader->outputs_capacity, reader->n_outputs + 1, sizeof *reader->outputs));
    reader->outputs[reader->n_outputs++] = message;
  }
  return OCTET_OK;
}

octet_status oct_onnx_collect(oct_onnx_reader *reader, oct_onnx_scope *scope) {
  oct_reader r = oct_wire_open(reader->graph_bytes);
  oct_wire_field f;
  while (oct_wire_next(&r, &f)) switch (f.key) {
      case OCT_WIRE_BYTES(1): OCT_TRY(oct_onnx_collect_node(reader, scope, f.bytes)); break;
      case OCT_WIRE_BYTES(5): OCT_TRY(collect_initializer(reader, scope, f.bytes)); break;
      case OCT_WIRE_BYTES(11):
      case OCT_WIRE_BYTES(12):
      case OCT_WIRE_BYTES(13): OCT_TRY(collect_value(reader, scope, f.key, f.bytes)); break;
      case OCT_WIRE_BYTES(15):
        return oct_fail(reader->ctx, OCTET_UNSUPPORTED, "the graph has a sparse initializer; sparse tensors are not supported");
      default: break;
    }
  return r.failed ? oct_onnx_malformed(reader->ctx, "the graph") : OCTET_OK;
}

static octet_status dangling(oct_onnx_reader *reader, oct_bytes message, oct_bytes name) {
  char text[OCT_ONNX_TEXT], shown[OCT_ONNX_TEXT], type[OCT_ONNX_TEXT];
  oct_onnx_node node;
  OCT_TRY(oct_onnx_node_scan(reader->ctx, message, &node));
  return oct_fail(reader->ctx, OCTET_GRAPH, "node \"%s\" (%s) reads \"%s\", which nothing defines", oct_onnx_node_text(&node, shown),
                  oct_onnx_text(node.type, type), oct_onnx_text(name, text));
}

octet_status oct_onnx_check_names(oct_onnx_reader *reader, oct_onnx_scope *scope) {
  for (size_t i = 0; i < scope->names.count; i++) {
    const oct_onnx_name *name = &scope->names.items[i];
    if (name->producer && (name->input || name->initializer || name->value))
      return defined_twice(reader, oct_onnx_span_bytes(&scope->names, name->text),
                           name->initializer ? ": by an initializer and a node" : ": by an input and a node");
  }
  for (size_t i = 0; i < scope->n_nodes; i++) {
    oct_bytes message = oct_onnx_bytes_at(reader, scope->nodes[i]);
    oct_reader r = oct_wire_open(message);
    oct_wire_field f;
    while (oct_wire_next(&r, &f)) {
      if (f.key != OCT_WIRE_BYTES(1) || f.bytes.size == 0) continue;
      oct_onnx_name *name = oct_onnx_names_find(&scope->names, f.bytes);
      if (!name || !(name->producer || name->input || name->initializer || name->value)) return dangling(reader, message, f.bytes);
      name->used = true;
    }
  }
  return OCTET_OK;
}

static octet_status make_initializer(oct_onnx_reader *reader, oct_onnx_scope *scope, oct_onnx_name *name) {
  char text[OCT_ONNX_TEXT];
  oct_tensor *tensor;
  OCT_TRY(oct_onnx_tensor(&reader->source, oct_onnx_bytes_at(reader, name->tensor), &tensor));
  oct_bytes bytes = oct_onnx_span_bytes(&scope->names, name->text);
  char *copy = oct_strndup(reader->ctx, (const char *)bytes.data, bytes.size);
  if (!copy) {
    oct_tensor_release(tensor);
    return OCTET_OUT_OF_MEMORY;
  }
  octet_status status = oct_graph_constant(reader->ctx, reader->graph, copy, tensor, &name->value);
  oct_free(copy);
  return status == OCTET_OK ? status : oct_fail_prefix(reader->ctx, "initializer \"%s\"", oct_onnx_text(bytes, text));
}

/* Every bound name must be a graph input. */
static octet_status check_bound(oct_onnx_reader *reader, oct_onnx_scope *scope) {
  for (size_t i = 0; reader->options && i < reader->options->n_bound; i++) {
    const char *text = reader->options->bound[i].name;
    const oct_onnx_name *name = oct_onnx_names_find(&scope->names, (oct_bytes){(const uint8_t *)text, strlen(text)});
    if (!name || !name->input) return oct_fail(reader->ctx, OCTET_INVALID_ARGUMENT, "the model has no input \"%s\" to bind", text);
  }
  return OCTET_OK;
}

static bool is_bound(const oct_onnx_reader *reader, oct_bytes name) {
  for (size_t i = 0; reader->options && i < reader->options->n_bound; i++)
    if (oct_onnx_equal(name, reader->options->bound[i].name)) return true;
  return false;
}

octet_status oct_onnx_make_values(oct_onnx_reader *reader, oct_onnx_scope *scope) {
  OCT_TRY(check_bound(reader, scope));
  for (size_t i = 0; i < reader->n_inputs; i++) {
    oct_bytes text, type;
    OCT_TRY(oct_onnx_value_info(reader->ctx, reader->inputs[i], &text, &type));
    oct_onnx_name *name = oct_onnx_names_find(&scope->names, text);
    if (!name || (name->initializer && !is_bound(reader, text))) continue; /* IR 3 lists initializers as inputs, too */
    OCT_TRY(oct_onnx_make_input(reader, text, type, &name->value));
  }
  for (size_t i = 0; i < scope->names.count; i++) {
    oct_onnx_name *name = &scope->names.items[i];
    if (name->initializer && name->used && !name->value) OCT_TRY(make_initializer(reader, scope, name));
  }
  return OCTET_OK;
}

/* ---- Order: a depth-first walk from each node to the producers of its inputs, in the order of the file. ---- */

typedef struct frame {
  uint32_t node;
  size_t position; /* in the node's bytes */
} frame;

typedef struct walk {
  uint8_t *state; /* per node: 0 untouched, 1 on the stack, 2 imported */
  frame *stack;
  size_t depth, capacity;
} walk;

static octet_status report_cycle(oct_onnx_reader *reader, oct_onnx_scope *scope, const walk *w, uint32_t entry) {
  char message[1024], text[OCT_ONNX_TEXT];
  size_t length = 0, first = w->depth;
  while (first > 0 && w->stack[--first].node != entry) {
  }
  for (size_t i = first; i < w->depth && length < sizeof message - 300; i++) {
    oct_onnx_node node;
    OCT_TRY(oct_onnx_node_scan(reader->ctx, oct_onnx_bytes_at(reader, scope->nodes[w->stack[i].node]), &node));
    length +=
        (size_t)snprintf(message + length, sizeof message - length, "%s\"%s\"", i == first ? "" : ", ", oct_onnx_node_text(&node, text));
    if (length >= sizeof message - 300) snprintf(message + length, sizeof message - length, ", ...");
  }
  return oct_fail(reader->ctx, OCTET_GRAPH, "the graph has a cycle through the nodes %s", message);
}

static octet_status push(oct_onnx_reader *reader, oct_onnx_scope *scope, walk *w, uint32_t node) {
  if (w->state[node] == 1) return report_cycle(reader, scope, w, node);
  OCT_TRY(oct_grow(reader->ctx, &w->stack, &w->capacity, w->depth + 1, sizeof *w->stack));
  w->stack[w->depth++] = (frame){node, 0};
  w->state[node] = 1;
  return OCTET_OK;
}

/* Goes on with the node on top: pushes the producer of its next missing input, or imports it. */
static octet_status step(oct_onnx_reader *reader, oct_onnx_scope *scope, walk *w) {
  frame *top = &w->stack[w->depth - 1];
  oct_bytes message = oct_onnx_bytes_at(reader, scope->nodes[top->node]);
  oct_reader r = oct_wire_open(message);
  oct_wire_field f;
  r.position = top->position;
  while (oct_wire_next(&r, &f)) {
    if (f.key != OCT_WIRE_BYTES(1) || f.bytes.size == 0) continue;
    const oct_onnx_name *name = oct_onnx_names_find(&scope->names, f.bytes);
    if (!name || !name->producer || w->state[name->producer - 1] == 2) continue;
    top->position = r.position;
    return push(reader, scope, w, name->producer - 1);
  }
  OCT_TRY(oct_onnx_import_node(reader, scope, message));
  w->state[w->stack[--w->depth].node] = 2;
  return OCTET_OK;
}

octet_status oct_onnx_import_nodes(oct_onnx_reader *reader, oct_onnx_scope *scope) {
  walk w = {.state = oct_alloc(reader->ctx, scope->n_nodes, 1)};
  octet_status status = w.state ? OCTET_OK : OCTET_OUT_OF_MEMORY;
  for (uint32_t i = 0; status == OCTET_OK && i < scope->n_nodes; i++) {
    if (w.state[i] == 0) status = push(reader, scope, &w, i);
    while (status == OCTET_OK && w.depth > 0) status = step(reader, scope, &w);
  }
  oct_free(w.state);
  oct_free(w.stack);
  return status;
}

/* ---- Outputs ---- */

static bool is_output(const oct_graph *graph, const oct_value *value) {
  for (size_t i = 0; i < graph->n_outputs; i++)
    if (graph->outputs[i] == value) return true;
  return false;
}

/* A value that carries the output's name: renamed where it may be, else a copy. */
static octet_status name_output(oct_onnx_reader *reader, oct_value *value, const char *name, oct_value **out) {
  octet_context *ctx = reader->ctx;
  *out = value;
  if (strcmp(value->name, name) == 0) return OCTET_OK;
  oct_value *other = oct_graph_find(reader->graph, name);
  if (other) OCT_TRY(oct_value_rename(ctx, reader->graph, other, ""));
  if (value->kind == OCT_INTERMEDIATE && !is_output(reader->graph, value)) return oct_value_rename(ctx, reader->graph, value, name);
  const oct_op *identity = oct_op_find("identity");
  if (!identity) return oct_fail(ctx, OCTET_UNSUPPORTED, "output \"%s\" is another name of \"%s\"", name, value->name);
  oct_node *node;
  OCT_TRY(oct_graph_node(ctx, reader->graph, identity, name, &value, 1, 1, &node));
  *out = node->outputs[0];
  return oct_node_infer(ctx, node);
}

static octet_status make_output(oct_onnx_reader *reader, oct_onnx_scope *scope, oct_bytes message) {
  octet_context *ctx = reader->ctx;
  char text[OCT_ONNX_TEXT];
  oct_bytes bytes, type;
  oct_onnx_tensor_type declared;
  OCT_TRY(oct_onnx_value_info(ctx, message, &bytes, &type));
  oct_onnx_name *name = oct_onnx_names_find(&scope->names, bytes);
  if (!name || !name->value) return oct_fail(ctx, OCTET_GRAPH, "nothing defines the output \"%s\"", oct_onnx_text(bytes, text));
  char *copy = oct_strndup(ctx, (const char *)bytes.data, bytes.size);
  if (!copy) return OCTET_OUT_OF_MEMORY;
  oct_value *value = name->value;
  octet_status status = name_output(reader, value, copy, &value);
  oct_free(copy);
  if (status == OCTET_OK) status = oct_graph_output(ctx, reader->graph, value);
  if (status == OCTET_OK && type.size) status = oct_onnx_type_read(ctx, type, &declared);
  if (status == OCTET_OK && type.size && value->kind == OCT_INTERMEDIATE && value->has_shape && value->shape.rank == declared.shape.rank)
    status = oct_onnx_name_dims(reader, value, &declared);
  return status;
}

octet_status oct_onnx_make_outputs(oct_onnx_reader *reader, oct_onnx_scope *scope) {
  for (size_t i = 0; i < reader->n_outputs; i++) OCT_TRY(make_output(reader, scope, reader->outputs[i]));
  return OCTET_OK;
}
