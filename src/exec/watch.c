/* The steps that watch a value: see watch.h.
 * SPDX-License-Identifier: MIT */
#include "exec/watch.h"

#include "exec/plan.h"

#define PIECE 4096 /* elements: small enough to be shared among threads, large enough for a call */

typedef struct watch_params {
  oct_watch_view view;
  const oct_watch *watch;
  size_t index;
} watch_params;

static octet_status run_first(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const watch_params *p = params;
  p->watch->first(p->watch->user, p->index, &p->view, begin, end);
  return OCTET_OK;
}

static octet_status run_between(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)begin, (void)end, (void)workspace;
  const watch_params *p = params;
  p->watch->between(p->watch->user, p->index, &p->view);
  return OCTET_OK;
}

static octet_status run_second(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)workspace;
  const watch_params *p = params;
  p->watch->second(p->watch->user, p->index, &p->view, begin, end);
  return OCTET_OK;
}

/* Samples lie one after the other in both layouts only where they are the outermost dim. */
static bool is_by_samples(const oct_slot *slot, size_t samples) {
  int rank = slot->shape.rank;
  return slot->layout == OCT_LAYOUT_CHANNELS_LAST && (rank == 3 || rank == 4) && slot->shape.dim[0] == (int64_t)samples;
}

static oct_watch_view view_of(const oct_slot *slot, size_t samples) {
  const oct_shape *s = &slot->shape;
  size_t count = (size_t)oct_shape_count(s);
  oct_watch_view v = {.samples = count % samples == 0 ? samples : 1, .lines = 1, .channels = 1};
  if (slot->layout == OCT_LAYOUT_CHANNELS_LAST) {
    oct_view view = oct_slot_view(slot);
    v.channels = (size_t)s->dim[1];
    v.lines = s->rank == 4 ? (size_t)s->dim[2] : 1;
    v.line = (size_t)(s->dim[s->rank - 1] * s->dim[1]);
    v.sample_stride = view.image, v.line_stride = view.row;
    if (view.row == (ptrdiff_t)v.line) v.line *= v.lines, v.lines = 1;
  } else {
    v.line = count / v.samples;
    v.sample_stride = (ptrdiff_t)v.line;
  }
  v.piece = v.line < PIECE ? v.line : PIECE;
  v.pieces = (v.line + PIECE - 1) / PIECE;
  return v;
}

static octet_status add_step(oct_plan *plan, const char *name, oct_step_fn run, oct_slot *slot, const watch_params *params, size_t units) {
  oct_lowering *l = &plan->lowering;
  watch_params *p;
  oct_step *step;
  OCT_TRY(oct_lower_step(l, plan->current, name, run, sizeof *p, &p, &step));
  *p = *params;
  step->units = units;
  step->form = true;
  return oct_lower_read(l, step, (void *)&p->view.data, slot);
}

static octet_status add_steps(oct_plan *plan, oct_value *value, size_t index) {
  oct_slot *slot = plan->values[value->id].stored ? &plan->values[value->id].stored->slot : NULL;
  if (!slot || !plan->values[value->id].stored->filled || slot->dtype != OCT_F32 ||
      (slot->layout == OCT_LAYOUT_CHANNELS_LAST && !is_by_samples(slot, plan->watch.samples)))
    OCT_TRY(oct_lower_input(&plan->lowering, value, OCT_F32, OCT_LAYOUT_PLAIN, NULL, &slot));
  if (oct_shape_count(&slot->shape) < 1) return OCTET_OK;
  watch_params p = {.view = view_of(slot, plan->watch.samples), .watch = &plan->watch, .index = index};
  size_t units = oct_watch_units(&p.view);
  OCT_TRY(add_step(plan, "watch_first", run_first, slot, &p, units));
  OCT_TRY(add_step(plan, "watch_between", run_between, slot, &p, 1));
  return add_step(plan, "watch_second", run_second, slot, &p, units);
}

octet_status oct_plan_watch(oct_plan *plan, const oct_value *value) {
  if (!plan->watched) return OCTET_OK;
  const oct_graph *g = plan->graph;
  for (size_t i = plan->watch.first_output; i < g->n_outputs; i++) {
    size_t index = i - plan->watch.first_output;
    if ((value && g->outputs[i] != value) || plan->watched[index] || g->outputs[i]->dtype != OCT_F32) continue;
    plan->watched[index] = true;
    OCT_TRY(add_steps(plan, g->outputs[i], index));
  }
  return OCTET_OK;
}

octet_status oct_plan_watch_begin(oct_plan *plan, const oct_watch *watch) {
  if (!watch) return OCTET_OK;
  plan->watch = *watch;
  plan->watched = oct_region_alloc(plan->lowering.ctx, &plan->region, plan->graph->n_outputs + 1, sizeof *plan->watched);
  return plan->watched ? OCTET_OK : OCTET_OUT_OF_MEMORY;
}

size_t oct_plan_outputs(const oct_plan *plan) { return plan->watched ? plan->watch.first_output : plan->graph->n_outputs; }
