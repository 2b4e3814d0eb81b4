/* The neutral view through which formats and operators meet: formats know containers, operators know their foreign names.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_OPS_FOREIGN_H
#define OCT_OPS_FOREIGN_H

#include "ir/op.h"

/* A node as a format read it. Inputs are already graph values (constants included); outputs are made by oct_import_emit(). */
typedef struct oct_foreign_node {
  const char *type, *domain, *name; /* name "" when unnamed */
  int version;                      /* operator-set version of the model */
  oct_value **inputs;               /* NULL where absent */
  int n_inputs;
  const char **outputs; /* names; NULL or "" where not wanted */
  int n_outputs;
  const oct_attribute *attributes;
  int n_attributes;
} oct_foreign_node;

typedef struct oct_importer {
  octet_context *ctx;
  oct_graph *graph;
  void *user;
  /* Binds the foreign output name to a graph value (set by the format). */
  octet_status (*bind)(struct oct_importer *importer, const char *foreign_output, oct_value *value);
} oct_importer;

const oct_attribute *oct_foreign_attribute(const oct_foreign_node *node, const char *name);
int64_t oct_foreign_int(const oct_foreign_node *node, const char *name, int64_t fallback);
float oct_foreign_float(const oct_foreign_node *node, const char *name, float fallback);
const char *oct_foreign_string(const oct_foreign_node *node, const char *name, const char *fallback);
static inline oct_value *oct_foreign_input(const oct_foreign_node *node, int i) { return i < node->n_inputs ? node->inputs[i] : NULL; }

/* OCTET_UNSUPPORTED naming the foreign node and the form that Octet does not have. */
octet_status oct_import_unsupported(oct_importer *importer, const oct_foreign_node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds a node of operator `op` named after the foreign node; nothing is bound or inferred yet. */
octet_status oct_import_node(oct_importer *importer, const oct_foreign_node *node, const char *op, oct_value *const *inputs, int n_inputs,
                             int n_outputs, oct_node **out);
/* Copies the foreign attributes that the operator's rows know; any other is OCTET_UNSUPPORTED unless listed in `ignore` (NULL-ended, or NULL). */
octet_status oct_import_attributes(oct_importer *importer, const oct_foreign_node *node, oct_node *into, const char *const *ignore);
/* Infers `node` and binds its outputs to the foreign outputs in order (names taken over). */
octet_status oct_import_finish(oct_importer *importer, const oct_foreign_node *foreign, oct_node *node);
/* Binds foreign output i to any value. */
octet_status oct_import_bind(oct_importer *importer, const oct_foreign_node *foreign, int i, oct_value *value);
/* What a NULL import function does: node, attributes, finish. Trailing absent inputs are dropped. */
octet_status oct_import_default(oct_importer *importer, const oct_foreign_node *foreign, const oct_op *op);
/* An older attribute that is an input today: int list (or single int) attribute `name` as a constant i64 value; *out NULL when it is not given. */
octet_status oct_import_ints_input(oct_importer *importer, const oct_foreign_node *foreign, const char *name, oct_value **out);

/* Finds the row for a foreign operator of this version; NULL when unknown. *op receives the operator. A row for `format` with a NULL function has
 * *op set and row->import NULL. */
const oct_import_row *oct_import_find(const char *format, const char *type, int version, const oct_op **op);

/* Export: the format supplies these; operators call them. */
typedef struct oct_exporter {
  octet_context *ctx;
  const oct_graph *graph;
  const char *format;
  int version; /* operator set that is written */
  void *user;
  /* Writes one foreign node; inputs/outputs by name ("" for absent). */
  octet_status (*emit)(struct oct_exporter *exporter, const oct_foreign_node *node, const char *const *inputs);
  /* Name under which `value` can be used as a float (after its DequantizeLinear if it is quantized). */
  const char *(*name_of)(struct oct_exporter *exporter, const oct_value *value);
  /* Adds a constant; returns its name or NULL. */
  const char *(*constant)(struct oct_exporter *exporter, const char *hint, const oct_tensor *tensor);
} oct_exporter;

/* What a NULL export function does: same inputs, outputs and given attributes under the row's foreign name. */
octet_status oct_export_default(oct_exporter *exporter, const oct_node *node, const char *foreign_name);
const oct_export_row *oct_export_find(const char *format, const oct_op *op);

#endif
