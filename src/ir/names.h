/* Open-addressing table from name to value or node. Keys are borrowed (they live in the graph's region).
 * SPDX-License-Identifier: MIT */
#ifndef OCT_IR_NAMES_H
#define OCT_IR_NAMES_H

#include "ir/graph.h"

struct oct_name_table {
  struct {
    const char *name;
    void *value;
  } * slots; /* a removed entry keeps its name with a NULL value */
  size_t capacity, used;
  unsigned counter; /* last suffix that was tried for a unique name */
};

octet_status oct_names_add(octet_context *ctx, struct oct_name_table *table, const char *name, void *value);
void *oct_names_find(const struct oct_name_table *table, const char *name);
void oct_names_remove(struct oct_name_table *table, const char *name);
void oct_names_free(struct oct_name_table *table);

#endif
