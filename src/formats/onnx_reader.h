/* The state of one ONNX reading, shared by onnx_read.c (model), onnx_graph.c (names, order), onnx_node.c (nodes) and onnx_type.c.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_FORMATS_ONNX_READER_H
#define OCT_FORMATS_ONNX_READER_H

#include "formats/onnx_parts.h"
#include "ops/foreign.h"

#define OCT_ONNX_CALL_DEPTH 16 /* functions that call functions */

/* The fields of a NodeProto, in place. */
typedef struct oct_onnx_node {
  oct_bytes type, domain, name, overload, first_output;
  size_t n_inputs, n_outputs, n_attributes;
} oct_onnx_node;

/* What an operator type of the default domain resolves to, or how often an unknown one was met. */
typedef struct oct_onnx_type {
  const oct_import_row *row;
  const oct_op *op;
  int version;
  size_t unknown;   /* nodes of it that are unknown */
  oct_onnx_span at; /* name (or output) of the first such node */
  oct_onnx_span domain;
} oct_onnx_type;

/* Operator types by name; `types` runs parallel to `names.items`. */
typedef struct oct_onnx_types {
  oct_onnx_names names;
  oct_onnx_type *types;
  size_t capacity;
} oct_onnx_types;

typedef struct oct_onnx_function {
  oct_onnx_span name, domain, overload, body;
  int version;
  uint32_t next; /* function of equal name + 1 */
  bool called;
} oct_onnx_function;

/* The main graph or one call of a function. */
typedef struct oct_onnx_scope {
  struct oct_onnx_scope *parent;
  const oct_foreign_node *call; /* whose attributes the body refers to; NULL in the main graph */
  oct_bytes defaults;           /* body of the function: default attributes */
  oct_onnx_names names;
  oct_onnx_span *nodes;
  size_t n_nodes, nodes_capacity;
  int version, depth;
} oct_onnx_scope;

typedef struct oct_onnx_reader {
  oct_importer importer; /* user = this */
  octet_context *ctx;
  oct_onnx_source source;
  oct_bytes model, graph_bytes;
  const oct_onnx_options *options;
  oct_graph *graph;
  int64_t ir_version;
  int version;
  oct_onnx_scope *scope;
  oct_onnx_types known, strangers; /* default domain; all others */
  oct_onnx_names function_names;
  oct_onnx_function *functions;
  size_t n_functions, functions_capacity;
  oct_bytes *inputs, *outputs; /* ValueInfoProto */
  size_t n_inputs, inputs_capacity, n_outputs, outputs_capacity;
  size_t nodes_left; /* what calls of functions may still expand to */
} oct_onnx_reader;

/* ---- onnx_read.c --------------------------------------------------------------------------------------------- */
static inline oct_bytes oct_onnx_bytes_at(const oct_onnx_reader *reader, oct_onnx_span span) {
  return (oct_bytes){reader->model.data + span.offset, span.size};
}
static inline oct_onnx_span oct_onnx_span_in(const oct_onnx_reader *reader, oct_bytes bytes) {
  return (oct_onnx_span){bytes.size ? (uint32_t)(bytes.data - reader->model.data) : 0, (uint32_t)bytes.size};
}

/* ---- onnx_graph.c -------------------------------------------------------------------------------------------- */
/* Walks GraphProto: names, nodes, inputs, outputs; nothing is decoded yet. */
octet_status oct_onnx_collect(oct_onnx_reader *reader, oct_onnx_scope *scope);
/* Adds one node of a scope: its outputs become names. */
octet_status oct_onnx_collect_node(oct_onnx_reader *reader, oct_onnx_scope *scope, oct_bytes message);
/* Every input of every node is defined; marks the initializers that are used. */
octet_status oct_onnx_check_names(oct_onnx_reader *reader, oct_onnx_scope *scope);
octet_status oct_onnx_make_values(oct_onnx_reader *reader, oct_onnx_scope *scope);
/* Imports every node, producers first. */
octet_status oct_onnx_import_nodes(oct_onnx_reader *reader, oct_onnx_scope *scope);
octet_status oct_onnx_make_outputs(oct_onnx_reader *reader, oct_onnx_scope *scope);
void oct_onnx_scope_free(oct_onnx_scope *scope);

/* ---- onnx_node.c --------------------------------------------------------------------------------------------- */
octet_status oct_onnx_node_scan(octet_context *ctx, oct_bytes message, oct_onnx_node *node);
const char *oct_onnx_node_text(const oct_onnx_node *node, char text[OCT_ONNX_TEXT]); /* its name or first output */
octet_status oct_onnx_import_node(oct_onnx_reader *reader, oct_onnx_scope *scope, oct_bytes message);

/* ---- onnx_attribute.c ---------------------------------------------------------------------------------------- */
/* Decodes an AttributeProto into memory of `region`; `*out` keeps name NULL when it refers to an attribute that the call does not give.
 * A tensor is the caller's to release. */
octet_status oct_onnx_attribute(oct_onnx_reader *reader, oct_onnx_scope *scope, oct_bytes message, oct_region *region, oct_attribute *out);

/* ---- onnx_operators.c ---------------------------------------------------------------------------------------- */
/* Looks up every node's operator or function; one error lists all that are unknown. */
octet_status oct_onnx_resolve(oct_onnx_reader *reader, oct_onnx_scope *main);
octet_status oct_onnx_lookup(oct_onnx_reader *reader, const oct_onnx_node *node, int version, const oct_onnx_type **out);
oct_onnx_function *oct_onnx_function_of(const oct_onnx_reader *reader, const oct_onnx_node *node);
octet_status oct_onnx_add_function(oct_onnx_reader *reader, oct_bytes message);
octet_status oct_onnx_call(oct_onnx_reader *reader, oct_onnx_scope *scope, const oct_onnx_function *function, const oct_foreign_node *call);

/* ---- onnx_type.c --------------------------------------------------------------------------------------------- */
typedef struct oct_onnx_tensor_type {
  const char *other; /* "a sequence", ...: not a tensor; NULL: a tensor */
  int64_t data_type; /* 0: not given */
  bool has_shape;
  oct_shape shape;
  oct_bytes dim_names[OCT_MAX_RANK];
} oct_onnx_tensor_type;

octet_status oct_onnx_value_info(octet_context *ctx, oct_bytes message, oct_bytes *name, oct_bytes *type);
/* Decodes a TypeProto. */
octet_status oct_onnx_type_read(octet_context *ctx, oct_bytes message, oct_onnx_tensor_type *out);
/* Makes the graph input that a ValueInfoProto declares. */
octet_status oct_onnx_make_input(oct_onnx_reader *reader, oct_bytes name, oct_bytes type, oct_value **out);
/* Takes open sizes over from a declaration and warns where it contradicts. */
octet_status oct_onnx_apply_hint(oct_onnx_reader *reader, oct_value *value, oct_bytes type);
octet_status oct_onnx_name_dims(oct_onnx_reader *reader, oct_value *value, const oct_onnx_tensor_type *type);

#endif
