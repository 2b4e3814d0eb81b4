/* The graph: values, nodes, attributes, and the calls that build and change them.
 * Operators are known here only through their descriptor (ir/op.h). The text form is in ir/text.h, the verifier in ir/verify.h.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_IR_GRAPH_H
#define OCT_IR_GRAPH_H

#include "tensor/tensor.h"

typedef struct oct_op oct_op;
typedef struct oct_node oct_node;
typedef struct oct_graph oct_graph;

typedef enum oct_value_kind {
  OCT_INPUT,       /* given by the caller */
  OCT_CONSTANT,    /* `tensor` holds it */
  OCT_VARIABLE,    /* assigned at run time; `tensor` is the initial value */
  OCT_INTERMEDIATE /* made by `producer` */
} oct_value_kind;

/* A value with quantization parameters is rounded there; one without stays float inside a fused step. The logical dtype of a
 * quantized value is f32; a quantized constant's tensor has quant->dtype. */
typedef struct oct_value {
  char *name; /* unique in the graph */
  oct_value_kind kind;
  oct_dtype dtype; /* OCT_DTYPE_NONE: not known yet */
  bool has_shape;  /* false: not even the rank is known */
  oct_shape shape;
  const char *dim_names[OCT_MAX_RANK]; /* symbolic names of unknown dims of inputs and outputs, or NULL */
  oct_tensor *tensor;
  oct_quant *quant;
  oct_node *producer; /* NULL unless OCT_INTERMEDIATE */
  int id;             /* index in graph->values after oct_graph_compact(), for side tables */
  bool observed_only; /* quantization: range known, not applied */
} oct_value;

typedef enum oct_attribute_type {
  OCT_ATTRIBUTE_INT,
  OCT_ATTRIBUTE_FLOAT,
  OCT_ATTRIBUTE_STRING,
  OCT_ATTRIBUTE_INTS,
  OCT_ATTRIBUTE_FLOATS,
  OCT_ATTRIBUTE_STRINGS,
  OCT_ATTRIBUTE_TENSOR
} oct_attribute_type;

typedef struct oct_attribute {
  const char *name;
  oct_attribute_type type;
  size_t count; /* of the list types */
  union {
    int64_t i;
    float f;
    const char *s;
    int64_t *ints;
    float *floats;
    const char **strings;
    oct_tensor *tensor;
  };
} oct_attribute;

struct oct_node {
  const oct_op *op;
  char *name;         /* unique among nodes */
  oct_value **inputs; /* NULL where an optional input is absent */
  int n_inputs;
  oct_value **outputs; /* NULL where an optional output is absent */
  int n_outputs;
  oct_attribute *attributes; /* only those that were given */
  int n_attributes;
  int id; /* index in graph->nodes after oct_graph_compact() */
};

typedef struct oct_metadata {
  char *key, *text;
} oct_metadata;

struct oct_graph {
  oct_region region; /* everything but tensors */
  char *name;
  oct_value **values;
  size_t n_values, values_capacity;
  oct_node **nodes; /* topological order */
  size_t n_nodes, nodes_capacity;
  oct_value **inputs;
  size_t n_inputs, inputs_capacity;
  oct_value **outputs;
  size_t n_outputs, outputs_capacity;
  oct_metadata *metadata; /* "preprocess", "profile", "producer", ... */
  size_t n_metadata, metadata_capacity;
  struct oct_name_table *names, *node_names;
};

octet_status oct_graph_create(octet_context *ctx, const char *name, oct_graph **out);
void oct_graph_destroy(oct_graph *graph); /* NULL is fine */
/* Deep copy that shares the tensors. */
octet_status oct_graph_copy(octet_context *ctx, const oct_graph *graph, oct_graph **out);

/* Values. `name` NULL or taken: a unique one is made from it. `shape` NULL: unknown rank. */
octet_status oct_graph_value(octet_context *ctx, oct_graph *graph, const char *name, oct_value_kind kind, oct_dtype dtype,
                             const oct_shape *shape, oct_value **out);
octet_status oct_graph_input(octet_context *ctx, oct_graph *graph, const char *name, oct_dtype dtype, const oct_shape *shape,
                             oct_value **out);
/* Takes over the reference to `tensor`, also on failure. */
octet_status oct_graph_constant(octet_context *ctx, oct_graph *graph, const char *name, oct_tensor *tensor, oct_value **out);
octet_status oct_graph_constant_i64(octet_context *ctx, oct_graph *graph, const char *name, const int64_t *values, size_t count,
                                    oct_value **out);                                                                      /* rank 1 */
octet_status oct_graph_constant_f32(octet_context *ctx, oct_graph *graph, const char *name, float value, oct_value **out); /* rank 0 */
octet_status oct_graph_output(octet_context *ctx, oct_graph *graph, oct_value *value);
oct_value *oct_graph_find(const oct_graph *graph, const char *name); /* NULL when there is none */
octet_status oct_value_rename(octet_context *ctx, oct_graph *graph, oct_value *value, const char *name);
/* Replaces a constant's tensor (takes over the reference). */
void oct_value_set_tensor(oct_value *value, oct_tensor *tensor);
octet_status oct_value_set_quant(octet_context *ctx, oct_graph *graph, oct_value *value, const oct_quant *quant); /* copies; NULL clears */

/* Appends a node with the given inputs (NULLs allowed) and fresh intermediate outputs named after the node. Call oct_node_infer()
 * once its attributes are set. */
octet_status oct_graph_node(octet_context *ctx, oct_graph *graph, const oct_op *op, const char *name, oct_value *const *inputs,
                            int n_inputs, int n_outputs, oct_node **out);
/* Same, with existing values (kind OCT_INTERMEDIATE, no producer yet) as outputs. */
octet_status oct_graph_node_into(octet_context *ctx, oct_graph *graph, const oct_op *op, const char *name, oct_value *const *inputs,
                                 int n_inputs, oct_value *const *outputs, int n_outputs, oct_node **out);
/* A name that another node has gets a number behind it. */
octet_status oct_node_rename(octet_context *ctx, oct_graph *graph, oct_node *node, const char *name);
octet_status oct_node_set_inputs(octet_context *ctx, oct_graph *graph, oct_node *node, oct_value *const *inputs, int n_inputs);

octet_status oct_node_set_int(octet_context *ctx, oct_graph *graph, oct_node *node, const char *name, int64_t value);
octet_status oct_node_set_float(octet_context *ctx, oct_graph *graph, oct_node *node, const char *name, float value);
octet_status oct_node_set_string(octet_context *ctx, oct_graph *graph, oct_node *node, const char *name, const char *value);
octet_status oct_node_set_ints(octet_context *ctx, oct_graph *graph, oct_node *node, const char *name, const int64_t *values, size_t count);
octet_status oct_node_set_attribute(octet_context *ctx, oct_graph *graph, oct_node *node, const oct_attribute *attribute); /* deep copy */
void oct_node_clear_attribute(oct_node *node, const char *name);
const oct_attribute *oct_node_attribute(const oct_node *node, const char *name); /* NULL when not given */
/* Value of a given attribute, else the default in the operator's attribute rows, else 0 / "" / an empty list. */
int64_t oct_node_int(const oct_node *node, const char *name);
float oct_node_float(const oct_node *node, const char *name);
const char *oct_node_string(const oct_node *node, const char *name);
const int64_t *oct_node_ints(const oct_node *node, const char *name, size_t *count);

/* Every use of `from` (node inputs and graph outputs) becomes `to`. */
void oct_graph_replace_uses(oct_graph *graph, oct_value *from, oct_value *to);
/* Unhooks and drops a node; its outputs become values without producer (dropped by the next compact if unused). */
void oct_graph_remove_node(oct_graph *graph, oct_node *node);
/* Drops values that nothing uses (graph inputs stay), sorts nodes topologically (stable), renumbers ids. OCTET_GRAPH names a cycle's nodes. */
octet_status oct_graph_compact(octet_context *ctx, oct_graph *graph);

/* Drops every node from which no graph output can be reached, then compacts. */
octet_status oct_graph_prune(octet_context *ctx, oct_graph *graph);

/* Who uses each value: uses[first[id] .. first[id + 1]) by value id. Valid until the graph changes; free with oct_uses_free(). */
typedef struct oct_use {
  oct_node *node; /* NULL: graph output */
  int index;      /* of the input or output */
} oct_use;
typedef struct oct_uses {
  int *first;
  oct_use *uses;
} oct_uses;
octet_status oct_graph_uses(octet_context *ctx, oct_graph *graph, oct_uses *out); /* compacts first */
void oct_uses_free(oct_uses *uses);
static inline int oct_use_count(const oct_uses *u, const oct_value *v) { return u->first[v->id + 1] - u->first[v->id]; }
/* The only use of the value when it is a node's input, else NULL. */
static inline oct_node *oct_only_user(const oct_uses *u, const oct_value *v) {
  return oct_use_count(u, v) == 1 ? u->uses[u->first[v->id]].node : NULL;
}

octet_status oct_graph_set_metadata(octet_context *ctx, oct_graph *graph, const char *key, const char *text); /* NULL text removes */
const char *oct_graph_metadata(const oct_graph *graph, const char *key);

/* The constant behind a value (constants only), else NULL. */
static inline const oct_tensor *oct_constant_of(const oct_value *v) { return v && v->kind == OCT_CONSTANT ? v->tensor : NULL; }
/* Reads an i32/i64 constant as int64 list of at most `max`; returns the count or -1 when `v` is no such constant. */
int oct_constant_ints(const oct_value *v, int64_t *out, int max);
/* Scalar (one element, any dtype) constant; false when it is none. Dequantizes. */
bool oct_constant_scalar(const oct_value *v, double *out);

#endif
