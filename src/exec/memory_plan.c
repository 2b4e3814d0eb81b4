/* Places buffers in one arena by their lifetimes: greedy by size, lowest free offset; in-place steps share.
 * SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "exec/plan.h"

/* When all buffers together are no larger than this (bytes) they are not overlapped at all: they stay in the first-level cache anyway,
 * and borders then need to be filled only once. */
#define SMALL_ARENA ((size_t)24 << 10)

static size_t padded_bytes(const oct_buffer *b) { return (b->bytes + OCT_OVERREAD + OCT_ALIGNMENT - 1) / OCT_ALIGNMENT * OCT_ALIGNMENT; }

static void find_lifetimes(oct_plan *plan) {
  for (size_t i = 0; i < plan->n_relocations; i++) {
    const oct_relocation *r = &plan->relocations[i];
    if (r->buffer < 0) continue;
    oct_buffer *b = &plan->buffers[r->buffer];
    if (r->step < b->first) b->first = r->step;
    if (r->step > b->last) b->last = r->step;
  }
  for (size_t i = 0; i < plan->graph->n_inputs; i++)
    if (plan->inputs[i]->buffer >= 0) plan->buffers[plan->inputs[i]->buffer].external = true;
  for (size_t i = 0; i < oct_plan_outputs(plan); i++)
    if (plan->outputs[i]->buffer >= 0) plan->buffers[plan->outputs[i]->buffer].external = true;
}

/* The output of an in-place step takes over the memory of an input that dies there. */
static void share_in_place(oct_plan *plan) {
  for (size_t i = 0; i < plan->n_relocations; i++) {
    const oct_relocation *w = &plan->relocations[i];
    if (!w->write || w->buffer < 0 || !plan->steps[w->step]->in_place) continue;
    oct_buffer *out = &plan->buffers[w->buffer];
    if (out->first != w->step || out->external || out->shared_with >= 0) continue;
    for (size_t k = 0; k < plan->n_relocations; k++) {
      const oct_relocation *r = &plan->relocations[k];
      if (r->write || r->step != w->step || r->buffer < 0 || r->buffer == w->buffer || r->offset != w->offset) continue;
      oct_buffer *in = &plan->buffers[r->buffer];
      if (in->last != r->step || in->external || in->bytes != out->bytes || in->shared_with >= 0) continue;
      out->shared_with = r->buffer;
      break;
    }
  }
  /* A chain a <- b <- c ends in one owner that lives as long as all of them. */
  for (size_t i = 0; i < plan->n_buffers; i++) {
    int owner = (int)i;
    while (plan->buffers[owner].shared_with >= 0) owner = plan->buffers[owner].shared_with;
    if (owner == (int)i) continue;
    if (plan->buffers[i].last > plan->buffers[owner].last) plan->buffers[owner].last = plan->buffers[i].last;
  }
}

static int by_falling_size(const void *a, const void *b) {
  const oct_buffer *x = *(oct_buffer *const *)a, *y = *(oct_buffer *const *)b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return x < y ? -1 : 1;
}

static int by_offset(const void *a, const void *b) {
  const oct_buffer *x = *(oct_buffer *const *)a, *y = *(oct_buffer *const *)b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return x < y ? -1 : 1;
}

static bool alive_together(const oct_buffer *a, const oct_buffer *b) { return a->first <= b->last && b->first <= a->last; }

static size_t lowest_offset(const oct_buffer *b, oct_buffer *const *placed, size_t n_placed) {
  size_t offset = 0, bytes = padded_bytes(b);
  for (size_t i = 0; i < n_placed; i++) { /* by rising offset */
    const oct_buffer *other = placed[i];
    if (!alive_together(b, other)) continue;
    if (other->offset >= offset + bytes) break;
    size_t end = other->offset + padded_bytes(other);
    if (end > offset) offset = end;
  }
  return offset;
}

/* ---- Borders that are there already ---- */

/* Nothing but the two buffers themselves used their memory between the fills. */
static bool undisturbed(const oct_plan *plan, const oct_relocation *earlier, const oct_relocation *later) {
  const oct_buffer *b = &plan->buffers[later->buffer];
  for (int i = 0; i < (int)plan->n_buffers; i++) {
    const oct_buffer *o = &plan->buffers[i];
    if (i == later->buffer || i == earlier->buffer || o->external || o->last <= earlier->step || o->first >= later->step) continue;
    if (o->offset < b->offset + b->bytes && b->offset < o->offset + o->bytes) return false;
  }
  return true;
}

/* The latest fill before `later` of the same border at the same place; NULL: none. */
static const oct_relocation *same_fill(const oct_plan *plan, const oct_relocation *later) {
  const oct_buffer *b = &plan->buffers[later->buffer];
  for (size_t i = (size_t)(later - plan->relocations); i-- > 0;) {
    const oct_relocation *r = &plan->relocations[i];
    if (!plan->is_border[r->step] || r->buffer < 0 || r->offset != later->offset) continue;
    const oct_buffer *o = &plan->buffers[r->buffer];
    if (!o->external && o->offset == b->offset && o->bytes == b->bytes &&
        oct_plan_same_border(plan->steps[r->step], plan->steps[later->step]))
      return r;
  }
  return NULL;
}

/* Layers of one shape take turns in the same memory: a border that an earlier one filled in this run need not be filled again. */
static void drop_fills(oct_plan *plan) {
  for (size_t i = 0; i < plan->n_relocations; i++) {
    const oct_relocation *r = &plan->relocations[i];
    if (!plan->is_border[r->step] || r->buffer < 0 || plan->buffers[r->buffer].external) continue;
    const oct_relocation *earlier = same_fill(plan, r);
    if (earlier && undisturbed(plan, earlier, r)) plan->steps[r->step]->units = 0;
  }
}

octet_status oct_plan_place(oct_plan *plan) {
  octet_context *ctx = plan->lowering.ctx;
  find_lifetimes(plan);
  share_in_place(plan);
  oct_buffer **order = oct_alloc(ctx, 2 * plan->n_buffers + 2, sizeof *order);
  if (!order) return OCTET_OUT_OF_MEMORY;
  oct_buffer **placed = order + plan->n_buffers;
  size_t n = 0, sum = 0;
  for (size_t i = 0; i < plan->n_buffers; i++) {
    oct_buffer *b = &plan->buffers[i];
    if (b->external || b->shared_with >= 0 || b->first > b->last) continue;
    order[n++] = b;
    sum += padded_bytes(b);
  }
  bool small = sum <= SMALL_ARENA;
  if (n) qsort(order, n, sizeof *order, by_falling_size);
  plan->arena_bytes = 0;
  for (size_t i = 0; i < n; i++) {
    oct_buffer *b = order[i];
    b->offset = small ? plan->arena_bytes : lowest_offset(b, placed, i);
    size_t end = b->offset + padded_bytes(b);
    if (end > plan->arena_bytes) plan->arena_bytes = end;
    placed[i] = b;
    if (!small) qsort(placed, i + 1, sizeof *placed, by_offset);
  }
  oct_free(order);
  for (size_t i = 0; i < plan->n_buffers; i++) {
    int owner = (int)i;
    while (plan->buffers[owner].shared_with >= 0) owner = plan->buffers[owner].shared_with;
    plan->buffers[i].offset = plan->buffers[owner].offset;
  }
  drop_fills(plan);
  return OCTET_OK;
}
