/* The pickle machine's stack and nodes. Every loop consumes input; the number of nodes is bounded.
 * SPDX-License-Identifier: MIT */
#include "formats/pickle_machine.h"

#define MAX_NODES 16777216 /* a weight file has a few dozen per tensor */
#define SLAB 256           /* nodes per region allocation */

octet_status oct_pickle_malformed(oct_pickle_machine *m, const char *what) {
  return oct_fail(m->ctx, OCTET_FORMAT, "pickle: %s at byte %zu", what, m->in->position);
}

octet_status oct_pickle_new(oct_pickle_machine *m, oct_pickle_kind kind, oct_pickle **out) {
  if (m->slab_left == 0) {
    if (m->nodes >= MAX_NODES) return oct_pickle_malformed(m, "more values than a weight file needs");
    m->slab = oct_region_alloc(m->ctx, m->region, SLAB, sizeof *m->slab);
    if (!m->slab) return OCTET_OUT_OF_MEMORY;
    m->slab_left = SLAB;
    m->nodes += SLAB;
  }
  *out = m->slab++;
  m->slab_left--;
  (*out)->kind = (uint8_t)kind;
  return OCTET_OK;
}

octet_status oct_pickle_push(oct_pickle_machine *m, oct_pickle *value) {
  OCT_TRY(oct_grow(m->ctx, &m->stack, &m->stack_capacity, m->depth + 1, sizeof *m->stack));
  m->stack[m->depth++] = value;
  return OCTET_OK;
}

size_t oct_pickle_floor(const oct_pickle_machine *m) { return m->n_marks ? m->marks[m->n_marks - 1] : 0; }

octet_status oct_pickle_need(oct_pickle_machine *m, size_t count) {
  return m->depth - oct_pickle_floor(m) < count ? oct_pickle_malformed(m, "stack underflow") : OCTET_OK;
}

octet_status oct_pickle_pop(oct_pickle_machine *m, oct_pickle **out) {
  OCT_TRY(oct_pickle_need(m, 1));
  *out = m->stack[--m->depth];
  return OCTET_OK;
}

octet_status oct_pickle_append(oct_pickle_machine *m, oct_pickle *to, oct_pickle *const *values, size_t count) {
  size_t needed = to->count + count;
  if (needed > UINT32_MAX / 2) return oct_pickle_malformed(m, "container too large");
  if (needed > to->capacity) {
    size_t capacity = needed > 2 * (size_t)to->capacity ? needed : 2 * (size_t)to->capacity;
    oct_pickle **items = oct_region_alloc(m->ctx, m->region, capacity, sizeof *items);
    if (!items) return OCTET_OUT_OF_MEMORY;
    if (to->count) memcpy(items, to->items, to->count * sizeof *items);
    to->items = items;
    to->capacity = (uint32_t)capacity;
  }
  for (size_t i = 0; i < count; i++) to->items[to->count + i] = values[i];
  to->count += (uint32_t)count;
  return OCTET_OK;
}

bool oct_pickle_is(const oct_pickle *value, const char *text) {
  return value->kind == OCT_PICKLE_STRING && value->count == strlen(text) && !memcmp(value->text, text, value->count);
}

oct_pickle *oct_pickle_get(const oct_pickle *dict, const char *key) {
  if (dict->kind != OCT_PICKLE_DICT) return NULL;
  for (uint32_t i = 0; i + 1 < dict->count; i += 2)
    if (oct_pickle_is(dict->items[i], key)) return dict->items[i + 1];
  return NULL;
}
