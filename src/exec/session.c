/* Making and running sessions: see session.h.
 * SPDX-License-Identifier: MIT */
#include "exec/session.h"

#include <string.h>

#include "base/clock.h"
#include "base/threads.h"
#include "exec/tune.h"
#include "ops/per_sample.h"

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
    if ((int)i == buffer || o->external || o->first > o->last) continue;
    if (o->offset < b->offset + b->bytes + OCT_OVERREAD && b->offset < o->offset + o->bytes + OCT_OVERREAD) return true;
  }
  return false;
}

static octet_status run_whole(oct_session *s, const oct_step *step) {
  return step->run(s->ctx, step->params, 0, step->units, s->workspace);
}

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
    if (once[i]) status = run_whole(s, plan->steps[i]);
    else if (plan->steps[i]->units > 0) s->steps[s->n_steps++] = plan->steps[i];
  }
  oct_free(once);
  return status;
}

static void do_nothing(void *user, size_t begin, size_t end, size_t worker) { (void)user, (void)begin, (void)end, (void)worker; }

/* ---- Inputs and outputs, and chunks of the batch ---- */

static int io_of_buffer(const oct_session *s, int buffer) {
  for (size_t i = 0; i < s->n_io; i++)
    if (s->io[i].buffer == buffer) return (int)i;
  return -1;
}

static octet_status add_io(oct_session *s, const oct_slot *slot) {
  if (slot->data || io_of_buffer(s, slot->buffer) >= 0) return OCTET_OK;
  size_t bytes = s->plan.buffers[slot->buffer].bytes, samples = s->batch ? (size_t)s->batch : 1, piece = s->batch ? (size_t)s->chunk : 1,
         total;
  if (!oct_mul_size(bytes / piece, samples, &total)) return oct_fail(s->ctx, OCTET_SHAPE, "the batch is too large");
  if (piece == samples) total = bytes;
  oct_session_io *io = &s->io[s->n_io];
  *io = (oct_session_io){.data = oct_alloc(s->ctx, total + OCT_OVERREAD, 1), .chunk_bytes = bytes, .buffer = slot->buffer};
  if (!io->data) return OCTET_OUT_OF_MEMORY;
  s->n_io++;
  return OCTET_OK;
}

static octet_status make_io(oct_session *s) {
  oct_plan *plan = &s->plan;
  s->io = oct_alloc(s->ctx, s->graph->n_inputs + s->graph->n_outputs + 1, sizeof *s->io);
  s->moving = oct_alloc(s->ctx, plan->n_relocations + 1, sizeof(oct_relocation *));
  s->moving_io = oct_alloc(s->ctx, plan->n_relocations + 1, sizeof *s->moving_io);
  if (!s->io || !s->moving || !s->moving_io) return OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < s->graph->n_inputs; i++) OCT_TRY(add_io(s, plan->inputs[i]));
  for (size_t i = 0; i < oct_plan_outputs(plan); i++) OCT_TRY(add_io(s, plan->outputs[i]));
  return OCTET_OK;
}

/* The last chunk of a batch that does not divide ends at the last sample and does a few samples twice. */
static void point_to_chunk(oct_session *s, int64_t chunk) {
  int64_t first = chunk * s->chunk;
  if (s->n_chunks > 1 && first > s->batch - s->chunk) first = s->batch - s->chunk;
  for (size_t i = 0; i < s->n_moving; i++) {
    const oct_session_io *io = &s->io[s->moving_io[i]];
    size_t skip = s->n_chunks > 1 ? io->chunk_bytes / (size_t)s->chunk * (size_t)first : 0;
    const void *address = io->data + skip + s->moving[i]->offset;
    memcpy(s->moving[i]->where, &address, sizeof address);
  }
}

static void relocate_all(oct_session *s) {
  for (size_t i = 0; i < s->plan.n_relocations; i++) {
    oct_relocation *r = &s->plan.relocations[i];
    int io = r->buffer < 0 ? -1 : io_of_buffer(s, r->buffer);
    if (io >= 0) {
      s->moving[s->n_moving] = r;
      s->moving_io[s->n_moving++] = io;
      continue;
    }
    const void *address = r->buffer < 0 ? r->data : s->arena + s->plan.buffers[r->buffer].offset + r->offset;
    memcpy(r->where, &address, sizeof address);
  }
  point_to_chunk(s, 0);
}

/* ---- Making ---- */

#define CACHE_BYTES ((size_t)128 << 10) /* of activations at once, where weights are light: well inside the second-level cache */
#define HEAVY_WEIGHTS \
  ((size_t)1 << 20) /* weights that do not stay there, and outweigh all activations, are worth being used for several samples */
#define HEAVY_CHUNK 8

static octet_status make_plan(oct_session *s, const oct_session_options *o, oct_packed_cache *cache) {
  oct_chooser chooser = {.log = o->tune_log, .candidate = o->candidate, .small = o->memory_small, .threads = s->ctx->threads};
  oct_plan_options options = {.isa_mask = o->isa_mask ? o->isa_mask : s->ctx->isa_mask,
                              .profile = oct_graph_profile(s->graph),
                              .fuse_kinds = o->fuse_kinds,
                              .strip_rows = o->strip_rows,
                              .chooser = &chooser,
                              .cache = cache,
                              .watch = o->watch};
  if (o->memory_small) options.isa_mask |= OCT_FEW_BYTES;
  if (o->exact_float) options.isa_mask |= OCT_EXACT_FLOAT;
  return oct_plan_make(s->ctx, s->graph, &options, &s->plan);
}

/* The same bytes, or the same slice over and over along the batch. */
static bool same_constant(const oct_tensor *piece, const oct_tensor *whole) {
  if (piece->bytes == whole->bytes) return piece->bytes == 0 || memcmp(piece->data, whole->data, piece->bytes) == 0;
  oct_shape shape = whole->shape;
  if (shape.rank < 1 || piece->shape.rank < 1 || piece->dtype != whole->dtype) return false;
  shape.dim[0] = piece->shape.dim[0];
  if (!oct_shape_equal(&shape, &piece->shape) || !oct_tensor_repeats(piece) || !oct_tensor_repeats(whole)) return false;
  return memcmp(piece->data, whole->data, whole->bytes / (size_t)whole->shape.dim[0]) == 0;
}

/* Shapes but for the batch, and constants, must be those of the whole: a batch size may be written into a shape, or computed with. */
static bool is_piece_of(const oct_graph *piece, const oct_graph *whole) {
  if (piece->n_nodes != whole->n_nodes) return false;
  for (size_t i = 0; i < piece->n_nodes; i++) {
    const oct_node *p = piece->nodes[i], *w = whole->nodes[i];
    if (p->op != w->op || p->n_inputs != w->n_inputs || p->n_outputs != w->n_outputs) return false;
    for (int k = 0; k < p->n_outputs; k++) {
      oct_shape shape = w->outputs[k] ? w->outputs[k]->shape : (oct_shape){0};
      if (shape.rank) shape.dim[0] = p->outputs[k]->shape.dim[0];
      if (p->outputs[k] && !oct_shape_equal(&p->outputs[k]->shape, &shape)) return false;
    }
    for (int k = 0; k < p->n_inputs; k++) {
      const oct_tensor *a = oct_constant_of(p->inputs[k]), *b = oct_constant_of(w->inputs[k]);
      bool is_shape =
          k == 1 && (oct_node_has(p, OCT_TRAIT_VIEW) || p->op->per_sample == oct_per_sample_expand); /* the output's shape was compared */
      if (!a != !b || (a && a != b && !is_shape && !same_constant(a, b))) return false;
    }
  }
  return true;
}

/* Specializes and plans for `samples` of the batch; OCTET_UNSUPPORTED when that would not be the same as the whole batch. */
static octet_status plan_piece(oct_session *s, const oct_graph *graph, const oct_session_options *o, int64_t samples,
                               oct_packed_cache *cache) {
  oct_named_shape *shapes = oct_alloc(s->ctx, s->whole->n_inputs + 1, sizeof *shapes);
  if (!shapes) return OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < s->whole->n_inputs; i++) {
    shapes[i] = (oct_named_shape){s->whole->inputs[i]->name, s->whole->inputs[i]->shape};
    shapes[i].shape.dim[0] = samples;
  }
  oct_session_options piece = *o;
  piece.shapes = shapes;
  piece.n_shapes = s->whole->n_inputs;
  oct_plan_free(&s->plan);
  oct_graph_destroy(s->graph);
  s->graph = NULL;
  octet_status status = oct_graph_specialize(s->ctx, graph, &piece, &s->graph);
  oct_free(shapes);
  if (status != OCTET_OK) return status;
  int64_t batch;
  if (!oct_graph_per_sample(s->graph, &batch) || batch != samples || !is_piece_of(s->graph, s->whole)) return OCTET_UNSUPPORTED;
  s->chunk = samples;
  s->n_chunks = s->batch / samples + (s->batch % samples != 0);
  return make_plan(s, o, cache);
}

static int64_t choose_chunk(const oct_session *s) {
  size_t per_sample = s->plan.arena_bytes ? s->plan.arena_bytes : 1, weights = oct_packed_bytes(s->plan.cache), activations = 0;
  for (size_t i = 0; i < s->plan.n_buffers; i++) activations += s->plan.buffers[i].bytes;
  int64_t chunk = (int64_t)(CACHE_BYTES / per_sample);
  if (weights > HEAVY_WEIGHTS && weights > activations && chunk < HEAVY_CHUNK) chunk = HEAVY_CHUNK;
  return chunk < 1 ? 1 : chunk > s->batch ? s->batch : chunk;
}

/* Samples at once as the caller, least memory or the tuning log want it; 0: to be chosen. */
static int64_t given_chunk(const oct_session *s, const oct_session_options *o) {
  char key[OCT_TUNE_KEY];
  if (o->chunk > 0) return o->chunk;
  if (o->memory_small) return 1;
  if (!o->tune_log) return 0;
  oct_tune_batch_key(s->whole, s->batch, s->ctx->threads, key);
  return oct_tune_log_chunk(o->tune_log, key);
}

/* In pieces where samples are apart (and the graph lets itself be made for a piece: a shape may be written into it); else as a whole. */
static octet_status plan_batch(oct_session *s, const oct_graph *graph, const oct_session_options *o, oct_packed_cache *cache) {
  OCT_TRY(oct_graph_specialize(s->ctx, graph, o, &s->whole));
  int64_t batch;
  bool pieces = oct_graph_per_sample(s->whole, &batch) && batch > 1;
  if (pieces) {
    s->batch = batch;
    int64_t given = given_chunk(s, o);
    octet_status status = plan_piece(s, graph, o, given < 1 ? 1 : given < batch ? given : batch, cache);
    int64_t chunk = status == OCTET_OK && given < 1 ? choose_chunk(s) : s->chunk;
    if (status == OCTET_OK && chunk != s->chunk) status = plan_piece(s, graph, o, chunk, cache);
    if (status == OCTET_OK || status == OCTET_OUT_OF_MEMORY) return status;
  }
  s->batch = 0;
  s->n_chunks = 1;
  oct_plan_free(&s->plan);
  oct_graph_destroy(s->graph);
  s->graph = s->whole;
  s->whole = NULL;
  return make_plan(s, o, cache);
}

static octet_status build(oct_session *s, const oct_graph *graph, const oct_session_options *o) {
  octet_context *ctx = s->ctx;
  oct_packed_cache *cache = NULL;
  if (o->cache) cache = oct_packed_retain(o->cache);
  else OCT_TRY(oct_packed_create(ctx, &cache));
  octet_status status = plan_batch(s, graph, o, cache);
  oct_packed_release(cache);
  if (status != OCTET_OK) return status;
  s->workers = ctx->threads > 1 ? ctx->threads : 1;
  if (s->workers > 1 && !o->split_short) OCT_TRY(oct_plan_share(&s->plan));
  s->workspace_stride = (s->plan.workspace_bytes + 127) / 64 * 64;
  s->arena = oct_alloc(ctx, s->plan.arena_bytes + OCT_OVERREAD + OCT_ALIGNMENT, 1);
  s->workspace = oct_alloc(ctx, (size_t)s->workers, s->workspace_stride);
  if (!s->arena || !s->workspace) return OCTET_OUT_OF_MEMORY;
  OCT_TRY(make_io(s));
  relocate_all(s);
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
  for (size_t i = 0; i < session->n_io; i++) oct_free(session->io[i].data);
  oct_free(session->io);
  oct_free(session->moving);
  oct_free(session->moving_io);
  oct_plan_free(&session->plan);
  oct_graph_destroy(session->graph);
  oct_graph_destroy(session->whole);
  oct_free(session);
}

size_t oct_session_inputs(const oct_session *session) { return session->graph->n_inputs; }
size_t oct_session_outputs(const oct_session *session) { return oct_plan_outputs(&session->plan); }

static oct_session_port port_of(const oct_session *s, const oct_value *value, const oct_slot *slot) {
  oct_session_port port = {.value = value, .bytes = (size_t)oct_shape_count(&value->shape) * oct_dtype_size(value->dtype)};
  port.data = slot->data ? (void *)(uintptr_t)slot->data : s->io[io_of_buffer(s, slot->buffer)].data + slot->offset;
  return port;
}

oct_session_port oct_session_input(const oct_session *session, size_t i) {
  const oct_graph *g = session->whole ? session->whole : session->graph;
  return port_of(session, g->inputs[i], session->plan.inputs[i]);
}

oct_session_port oct_session_output(const oct_session *session, size_t i) {
  const oct_graph *g = session->whole ? session->whole : session->graph;
  return port_of(session, g->outputs[i], session->plan.outputs[i]);
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

static octet_status run_steps(oct_session *s) {
  octet_status status = OCTET_OK;
  for (size_t i = 0; i < s->n_steps && status == OCTET_OK; i++) status = run_step(s, s->steps[i]);
  return status;
}

/* The time of a chain goes to its steps, by the parts that they had in the first worker's. */
static void share_time(const oct_session *s, size_t last, double spent, double *seconds) {
  for (size_t i = 0; i <= last; i++)
    if (s->steps[i]->strips == s->steps[last]->strips) seconds[i] += spent * oct_strips_part(s->steps[i], s->steps[last], s->workspace);
}

static octet_status run_steps_timed(oct_session *s, double *seconds) {
  octet_status status = OCTET_OK;
  for (size_t i = 0; i < s->n_steps && status == OCTET_OK; i++) {
    bool chain = oct_strips_run_in(s->steps[i]);
    if (chain) oct_strips_measure(s->steps[i], s->workspace, true);
    double start = oct_seconds_now();
    status = run_step(s, s->steps[i]);
    double spent = oct_seconds_now() - start;
    if (chain) oct_strips_measure(s->steps[i], s->workspace, false);
    if (chain) share_time(s, i, spent, seconds);
    else seconds[i] += spent;
  }
  return status;
}

octet_status oct_session_run_profiled(oct_session *session, double *seconds) {
  float_modes old = set_float_modes();
  octet_status status = OCTET_OK;
  for (int64_t c = 0; c < session->n_chunks && status == OCTET_OK; c++) {
    if (session->n_chunks > 1) point_to_chunk(session, c);
    status = seconds ? run_steps_timed(session, seconds) : run_steps(session);
  }
  restore_float_modes(old);
  return status;
}

octet_status oct_session_run(oct_session *session) { return oct_session_run_profiled(session, NULL); }

size_t oct_session_weight_bytes(const oct_session *session) { return oct_packed_bytes(session->plan.cache) + session->plan.constant_bytes; }
