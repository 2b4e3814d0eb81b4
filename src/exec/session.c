/* Making and running sessions: see session.h.
 * SPDX-License-Identifier: MIT */
#include "exec/session.h"

#include <string.h>
#include <time.h>

#include "base/threads.h"

#if defined(__SSE__)
#include <immintrin.h>
typedef unsigned float_modes;
static float_modes set_float_modes(void) {
  unsigned old = _mm_getcsr();
  if ((old & 0xffc0) != 0x1f80) _mm_setcsr(0x1f80); /* nearest, no flush to zero, all exceptions masked */
  return old;
}
static void restore_float_modes(float_modes old) {
  if ((old & 0xffc0) != 0x1f80) _mm_setcsr(old);
}
#else
#include <fenv.h>
typedef fenv_t float_modes;
static float_modes set_float_modes(void) {
  fenv_t old;
  fegetenv(&old);
  fesetenv(FE_DFL_ENV);
  return old;
}
static void restore_float_modes(float_modes old) { fesetenv(&old); }
#endif

oct_session_options oct_session_options_default(void) { return (oct_session_options){.fuse_kinds = OCT_FUSE_ALL}; }

static bool shares_memory(const oct_plan *plan, int buffer) {
  const oct_buffer *b = &plan->buffers[buffer];
  for (size_t i = 0; i < plan->n_buffers; i++) {
    const oct_buffer *o = &plan->buffers[i];
    if ((int)i == buffer || o->first > o->last) continue;
    if (o->offset < b->offset + b->bytes + OCT_OVERREAD && b->offset < o->offset + o->bytes + OCT_OVERREAD) return true;
  }
  return false;
}

static octet_status run_whole(oct_session *s, const oct_step *step) { return step->run(s->ctx, step->params, 0, step->units, s->workspace); }

/* Borders in memory of their own are filled now; the others stay steps. */
static octet_status choose_steps(oct_session *s) {
  oct_plan *plan = &s->plan;
  s->steps = oct_alloc(s->ctx, plan->n_steps + 1, sizeof(oct_step *));
  bool *once = oct_alloc(s->ctx, plan->n_steps + 1, sizeof *once);
  if (!s->steps || !once) {
    oct_free(once);
    return OCTET_OUT_OF_MEMORY;
  }
  for (size_t i = 0; i < plan->n_relocations; i++) {
    const oct_relocation *r = &plan->relocations[i];
    if (plan->is_border[r->step] && r->buffer >= 0 && !shares_memory(plan, r->buffer)) once[r->step] = true;
  }
  octet_status status = OCTET_OK;
  for (size_t i = 0; i < plan->n_steps && status == OCTET_OK; i++) {
    if (once[i])
      status = run_whole(s, plan->steps[i]);
    else if (plan->steps[i]->units > 0)
      s->steps[s->n_steps++] = plan->steps[i];
  }
  oct_free(once);
  return status;
}

static void do_nothing(void *user, size_t begin, size_t end, size_t worker) { (void)user, (void)begin, (void)end, (void)worker; }

static octet_status build(oct_session *s, const oct_graph *graph, const oct_session_options *o) {
  octet_context *ctx = s->ctx;
  OCT_TRY(oct_graph_specialize(ctx, graph, o, &s->graph));
  oct_packed_cache *cache = NULL;
  if (o->cache)
    cache = oct_packed_retain(o->cache);
  else
    OCT_TRY(oct_packed_create(ctx, &cache));
  uint32_t isa_mask = (o->isa_mask ? o->isa_mask : ctx->isa_mask) | (o->exact_float ? OCT_EXACT_FLOAT : 0);
  octet_status status = oct_plan_make(ctx, s->graph, isa_mask, oct_graph_profile(s->graph), o->fuse_kinds, cache, &s->plan);
  oct_packed_release(cache);
  if (status != OCTET_OK) return status;
  s->workers = ctx->threads > 1 ? ctx->threads : 1;
  s->workspace_stride = (s->plan.workspace_bytes + 127) / 64 * 64;
  s->arena = oct_alloc(ctx, s->plan.arena_bytes + OCT_OVERREAD + OCT_ALIGNMENT, 1);
  s->workspace = oct_alloc(ctx, (size_t)s->workers, s->workspace_stride);
  if (!s->arena || !s->workspace) return OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < s->plan.n_relocations; i++) {
    const oct_relocation *r = &s->plan.relocations[i];
    const void *address = r->buffer < 0 ? r->data : s->arena + s->plan.buffers[r->buffer].offset + r->offset;
    memcpy(r->where, &address, sizeof address);
  }
  if (s->workers > 1) oct_parallel(ctx, (size_t)s->workers, 1, do_nothing, NULL); /* the pool is made now, not in run() */
  return choose_steps(s);
}

octet_status oct_session_create(octet_context *ctx, const oct_graph *graph, const oct_session_options *options, oct_session **out) {
  *out = NULL;
  oct_session *s = oct_alloc(ctx, 1, sizeof *s);
  if (!s) return OCTET_OUT_OF_MEMORY;
  s->ctx = ctx;
  octet_status status = build(s, graph, options);
  if (status != OCTET_OK) {
    oct_session_destroy(s);
    return status;
  }
  *out = s;
  return OCTET_OK;
}

void oct_session_destroy(oct_session *session) {
  if (!session) return;
  oct_free(session->steps);
  oct_free(session->arena);
  oct_free(session->workspace);
  oct_plan_free(&session->plan);
  oct_graph_destroy(session->graph);
  oct_free(session);
}

size_t oct_session_inputs(const oct_session *session) { return session->graph->n_inputs; }
size_t oct_session_outputs(const oct_session *session) { return session->graph->n_outputs; }

static oct_session_port port_of(const oct_session *s, const oct_value *value, const oct_slot *slot) {
  oct_session_port port = {.value = value, .bytes = (size_t)oct_shape_count(&value->shape) * oct_dtype_size(value->dtype)};
  port.data = slot->data ? (void *)(uintptr_t)slot->data : s->arena + s->plan.buffers[slot->buffer].offset + slot->offset;
  return port;
}

oct_session_port oct_session_input(const oct_session *session, size_t i) {
  return port_of(session, session->graph->inputs[i], session->plan.inputs[i]);
}

oct_session_port oct_session_output(const oct_session *session, size_t i) {
  return port_of(session, session->graph->outputs[i], session->plan.outputs[i]);
}

typedef struct parallel_step {
  oct_session *session;
  const oct_step *step;
} parallel_step;

static void run_piece(void *user, size_t begin, size_t end, size_t worker) {
  const parallel_step *p = user;
  p->step->run(p->session->ctx, p->step->params, begin, end, p->session->workspace + worker * p->session->workspace_stride);
}

/* Steps that can fail (references) have one unit, so a split step cannot. */
static octet_status run_step(oct_session *s, const oct_step *step) {
  if (s->workers == 1 || step->units < 2 * step->grain) return run_whole(s, step);
  parallel_step piece = {s, step};
  size_t grain = step->grain, share = (step->units + (size_t)s->workers - 1) / (size_t)s->workers;
  if (s->ctx->threads > s->workers && grain < share) grain = share; /* threads were added since: no more pieces than workspaces */
  oct_parallel(s->ctx, step->units, grain, run_piece, &piece);
  return OCTET_OK;
}

octet_status oct_session_run(oct_session *session) {
  float_modes old = set_float_modes();
  octet_status status = OCTET_OK;
  for (size_t i = 0; i < session->n_steps && status == OCTET_OK; i++) status = run_step(session, session->steps[i]);
  restore_float_modes(old);
  return status;
}

static double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

octet_status oct_session_run_profiled(oct_session *session, double *seconds) {
  float_modes old = set_float_modes();
  octet_status status = OCTET_OK;
  for (size_t i = 0; i < session->n_steps && status == OCTET_OK; i++) {
    double start = seconds_now();
    status = run_step(session, session->steps[i]);
    seconds[i] += seconds_now() - start;
  }
  restore_float_modes(old);
  return status;
}

size_t oct_session_weight_bytes(const oct_session *session) { return oct_packed_bytes(session->plan.cache) + session->plan.constant_bytes; }
