/* The name tables of a graph.
 * SPDX-License-Identifier: MIT */
#include "ir/names.h"

#include <string.h>

static size_t hash_name(const char *name) { /* FNV-1a */
  uint64_t h = 1469598103934665603ULL;
  for (const unsigned char *p = (const unsigned char *)name; *p; p++) h = (h ^ *p) * 1099511628211ULL;
  return (size_t)(h ^ (h >> 32));
}

/* Slot that holds `name`, or the free slot where it would go. */
static size_t probe(const struct oct_name_table *table, const char *name) {
  size_t i = hash_name(name) & (table->capacity - 1);
  while (table->slots[i].name && strcmp(table->slots[i].name, name) != 0) i = (i + 1) & (table->capacity - 1);
  return i;
}

static octet_status widen(octet_context *ctx, struct oct_name_table *table) {
  struct oct_name_table wider = {.capacity = table->capacity ? table->capacity * 2 : 64, .counter = table->counter};
  wider.slots = oct_alloc(ctx, wider.capacity, sizeof *wider.slots);
  if (!wider.slots) return OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < table->capacity; i++) {
    if (!table->slots[i].value) continue;
    wider.slots[probe(&wider, table->slots[i].name)] = table->slots[i];
    wider.used++;
  }
  oct_free(table->slots);
  *table = wider;
  return OCTET_OK;
}

octet_status oct_names_add(octet_context *ctx, struct oct_name_table *table, const char *name, void *value) {
  if ((table->used + 1) * 4 > table->capacity * 3) OCT_TRY(widen(ctx, table));
  size_t i = probe(table, name);
  if (!table->slots[i].name) table->used++;
  table->slots[i].name = name;
  table->slots[i].value = value;
  return OCTET_OK;
}

void *oct_names_find(const struct oct_name_table *table, const char *name) {
  return table->capacity ? table->slots[probe(table, name)].value : NULL;
}

void oct_names_remove(struct oct_name_table *table, const char *name) {
  if (table->capacity) table->slots[probe(table, name)].value = NULL;
}

void oct_names_free(struct oct_name_table *table) { oct_free(table->slots); }
