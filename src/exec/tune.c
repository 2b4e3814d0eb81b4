/* Timing candidates: see tune.h. One session takes the first candidate of every layer, the next one the second, and so on; they run in turn and
 * each step keeps its shortest time. So a kernel is timed where it will run: with its inputs just written by the layer before, and its weights
 * as far away as they will be.
 * SPDX-License-Identifier: MIT */
#include "exec/tune.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define LEAST_ROUNDS 4 /* the first one warms up */
#define MARGIN 0.97    /* another candidate must be faster than the rule's by more than timing errs, */
#define CLOCK_MS 2e-4  /* and by more than the clock does */
#define MAX_CHUNKS 6

typedef struct tuning {
  octet_context *ctx;
  const oct_graph *graph;
  oct_session_options options;
  oct_tune_log *log;
  double begin, seconds; /* of all the work */
} tuning;

static octet_status show_progress(const tuning *t) {
  double done = (oct_seconds_now() - t->begin) / (t->seconds > 0.001 ? t->seconds : 0.001);
  return oct_progress(t->ctx, "tuning", done < 0.999 ? (size_t)(1000 * done) : 999, 1000);
}

/* ---- Layers -------------------------------------------------------------------------------------------------------- */

typedef struct race {
  oct_session *sessions[OCT_MAX_CANDIDATES];
  size_t n, n_choices;       /* sessions; steps that there was a choice for, in each */
  const oct_choice **choice; /* [n_choices] of the first session */
  double *best;              /* [n][n_choices] seconds; 0: not timed */
  double *scratch;           /* by step */
} race;

static void race_free(race *r) {
  for (size_t i = 0; i < r->n; i++) oct_session_destroy(r->sessions[i]);
  oct_free(r->choice);
  oct_free(r->best);
  oct_free(r->scratch);
}

static octet_status race_choices(const tuning *t, race *r, size_t *most) {
  const oct_session *s = r->sessions[0];
  r->choice = oct_alloc(t->ctx, s->n_steps + 1, sizeof *r->choice);
  r->scratch = oct_alloc(t->ctx, s->n_steps + 1, sizeof *r->scratch);
  if (!r->choice || !r->scratch) return OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < s->n_steps; i++) {
    const oct_choice *c = s->steps[i]->choice;
    if (!c) continue;
    r->choice[r->n_choices++] = c;
    if (c->n_candidates > *most) *most = c->n_candidates;
  }
  return OCTET_OK;
}

static octet_status race_make(const tuning *t, race *r) {
  size_t most = 1;
  oct_session_options options = t->options;
  for (size_t i = 0; i < most; i++) {
    options.candidate = i;
    options.tune_log = NULL;
    OCT_TRY(oct_session_create(t->ctx, t->graph, &options, &r->sessions[i]));
    r->n++;
    r->sessions[i]->n_chunks = 1; /* the others do the same */
    if (i == 0) OCT_TRY(race_choices(t, r, &most));
  }
  r->best = oct_alloc(t->ctx, r->n * (r->n_choices + 1), sizeof *r->best);
  return r->best ? OCTET_OK : OCTET_OUT_OF_MEMORY;
}

/* Sessions differ in kernels only, so the choices come in one order. */
static octet_status race_run(race *r, size_t index) {
  oct_session *s = r->sessions[index];
  double *best = r->best + index * r->n_choices;
  if (s->n_steps != r->sessions[0]->n_steps) return OCTET_OK;
  memset(r->scratch, 0, s->n_steps * sizeof *r->scratch);
  OCT_TRY(oct_session_run_profiled(s, r->scratch));
  size_t at = 0;
  for (size_t i = 0; i < s->n_steps; i++) {
    if (!s->steps[i]->choice) continue;
    if (best[at] == 0 || r->scratch[i] < best[at]) best[at] = r->scratch[i];
    at++;
  }
  return OCTET_OK;
}

static bool same_problem(const oct_choice *a, const oct_choice *b) {
  return a->n_candidates == b->n_candidates && strcmp(a->key, b->key) == 0;
}

/* Layers of one shape share an entry: it gets the mean of their times. */
static octet_status record(const tuning *t, const race *r, size_t index) {
  const oct_choice *c = r->choice[index];
  size_t chosen = 0, alike = 0;
  oct_timed timed[OCT_MAX_CANDIDATES] = {{{0}, 0}};
  for (size_t other = 0; other < r->n_choices; other++) {
    if (!same_problem(c, r->choice[other])) continue;
    if (other < index) return OCTET_OK; /* recorded there */
    for (size_t i = 0; i < c->n_candidates; i++) timed[i].ms += 1e3 * r->best[i * r->n_choices + other];
    alike++;
  }
  for (size_t i = 0; i < c->n_candidates; i++) {
    timed[i].ms /= (double)alike;
    snprintf(timed[i].name, sizeof timed[i].name, "%s", c->candidates[i].kernel->name);
    if (timed[i].ms > 0 && timed[i].ms < MARGIN * timed[0].ms - CLOCK_MS && timed[i].ms < timed[chosen].ms) chosen = i;
  }
  return timed[0].ms > 0 ? oct_tune_log_put_kernel(t->ctx, t->log, c->key, timed, c->n_candidates, chosen) : OCTET_OK;
}

static octet_status race_all(const tuning *t, race *r, double seconds) {
  OCT_TRY(race_make(t, r));
  if (r->n_choices == 0) return OCTET_OK;
  double end = oct_seconds_now() + seconds;
  for (int round = 0; round < LEAST_ROUNDS || oct_seconds_now() < end; round++) {
    for (size_t i = 0; i < r->n; i++) OCT_TRY(race_run(r, i));
    OCT_TRY(show_progress(t));
  }
  for (size_t i = 0; i < r->n_choices; i++) OCT_TRY(record(t, r, i));
  return OCTET_OK;
}

static octet_status tune_layers(const tuning *t, double seconds) {
  race r = {.n = 0};
  octet_status status = race_all(t, &r, seconds);
  race_free(&r);
  return status;
}

/* ---- Samples at once ---------------------------------------------------------------------------------------------- */

void oct_tune_batch_key(const oct_graph *whole, int64_t batch, int threads, char key[OCT_TUNE_KEY]) {
  uint64_t hash = 14695981039346656037u; /* FNV-1a of operators, shapes and which values are rounded */
#define MIX(x) hash = (hash ^ (uint64_t)(x)) * 1099511628211u
  for (size_t i = 0; i < whole->n_nodes; i++) {
    const oct_node *node = whole->nodes[i];
    for (const char *p = node->op->name; *p; p++) MIX(*p);
    for (int k = 0; k < node->n_outputs; k++) {
      const oct_value *v = node->outputs[k];
      for (int d = 0; v && d < v->shape.rank; d++) MIX(v->shape.dim[d]);
      MIX(v && v->quant);
    }
  }
#undef MIX
  snprintf(key, OCT_TUNE_KEY, "graph %016llx n%lld t%d", (unsigned long long)hash, (long long)batch, threads);
}

typedef struct chunk_race {
  oct_session *sessions[MAX_CHUNKS];
  oct_timed timed[MAX_CHUNKS];
  size_t n;
} chunk_race;

static void add_chunk(int64_t chunks[MAX_CHUNKS], size_t *n, int64_t chunk, int64_t batch) {
  if (chunk < 1 || chunk > batch || *n == MAX_CHUNKS) return;
  for (size_t i = 0; i < *n; i++)
    if (chunks[i] == chunk) return;
  chunks[(*n)++] = chunk;
}

/* The rule's number first, then smaller and larger ones. */
static size_t list_chunks(const oct_session *s, int64_t chunks[MAX_CHUNKS]) {
  size_t n = 0;
  const int64_t c = s->chunk, list[] = {c, c / 2, 2 * c, 4 * c, 1, 8};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) add_chunk(chunks, &n, list[i], s->batch);
  return n;
}

static octet_status time_chunks(const tuning *t, chunk_race *r, double seconds) {
  double end = oct_seconds_now() + seconds;
  for (int round = 0; round < LEAST_ROUNDS || oct_seconds_now() < end; round++) {
    for (size_t i = 0; i < r->n; i++) {
      double start = oct_seconds_now();
      OCT_TRY(oct_session_run(r->sessions[i]));
      double ms = 1e3 * (oct_seconds_now() - start);
      if (round == 1 || (round > 1 && ms < r->timed[i].ms)) r->timed[i].ms = ms;
    }
    OCT_TRY(show_progress(t));
  }
  size_t chosen = 0;
  for (size_t i = 1; i < r->n; i++)
    if (r->timed[i].ms < MARGIN * r->timed[0].ms && r->timed[i].ms < r->timed[chosen].ms) chosen = i;
  const oct_session *s = r->sessions[0];
  char key[OCT_TUNE_KEY];
  oct_tune_batch_key(s->whole, s->batch, t->ctx->threads, key);
  return oct_tune_log_put_chunk(t->ctx, t->log, key, r->timed, r->n, chosen);
}

/* Layers are timed for every number of samples, as the log has one entry for each. */
static octet_status tune_chunks(tuning *t, const int64_t *chunks, size_t n) {
  chunk_race r = {.n = 0};
  octet_status status = OCTET_OK;
  for (size_t i = 0; i < n && status == OCTET_OK; i++) {
    t->options.chunk = chunks[i];
    status = tune_layers(t, 0.6 * t->seconds / (double)n);
    oct_session_options options = t->options;
    options.tune_log = t->log;
    if (status == OCTET_OK) status = oct_session_create(t->ctx, t->graph, &options, &r.sessions[i]);
    if (status != OCTET_OK) break;
    snprintf(r.timed[r.n++].name, sizeof r.timed[0].name, "%lld", (long long)chunks[i]);
  }
  if (status == OCTET_OK) status = time_chunks(t, &r, 0.4 * t->seconds);
  for (size_t i = 0; i < r.n; i++) oct_session_destroy(r.sessions[i]);
  return status;
}

octet_status oct_tune(octet_context *ctx, const oct_graph *graph, const oct_session_options *options, double seconds, oct_tune_log *log) {
  tuning t = {ctx, graph, *options, log, oct_seconds_now(), seconds};
  oct_session *s;
  int64_t chunks[MAX_CHUNKS];
  t.options.tune_log = NULL;
  t.options.cache = NULL; /* weights packed for kernels that lose are not kept */
  OCT_TRY(oct_session_create(ctx, graph, &t.options, &s));
  size_t n = s->batch > 1 && options->chunk <= 0 && s->whole ? list_chunks(s, chunks) : 1;
  oct_session_destroy(s);
  octet_status status = n > 1 ? tune_chunks(&t, chunks, n) : tune_layers(&t, seconds);
  if (status == OCTET_OK) status = oct_progress(ctx, "tuning", 1000, 1000);
  return status;
}
