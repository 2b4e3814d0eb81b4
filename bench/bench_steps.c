/* What a step costs beside its own work: a session whose steps do nothing.
 *
 * bench_steps makes a session of a tiny model, puts 1,000 empty steps in the place of its own, and times octet_session's loop over them: with one thread, and
 * with two, where every step is too small to be split. Then it times the empty session, which is the cost of a run.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "exec/session.h"
#include "ir/text.h"

#define STEPS 1000
#define RUNS 200
#define REPEATS 50

static octet_status do_nothing(octet_context *ctx, const void *params, size_t begin, size_t end, void *workspace) {
  (void)ctx, (void)params, (void)begin, (void)end, (void)workspace;
  return OCTET_OK;
}

static double nanoseconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* Least nanoseconds of one run. */
static double time_runs(oct_session *session) {
  double best = 1e18;
  for (int r = 0; r < REPEATS; r++) {
    double start = nanoseconds_now();
    for (int i = 0; i < RUNS; i++)
      if (oct_session_run(session) != OCTET_OK) exit(1);
    double each = (nanoseconds_now() - start) / RUNS;
    if (each < best) best = each;
  }
  return best;
}

static void measure(octet_context *ctx, const oct_graph *graph, int threads) {
  oct_session_options options = oct_session_options_default();
  oct_session *session;
  ctx->threads = threads;
  if (oct_session_create(ctx, graph, &options, &session) != OCTET_OK) {
    fprintf(stderr, "bench_steps: %s\n", ctx->message);
    exit(1);
  }
  oct_step empty[STEPS], *steps[STEPS], **own = session->steps;
  size_t n_own = session->n_steps;
  for (int i = 0; i < STEPS; i++) {
    empty[i] = (oct_step){.kernel = "nothing", .run = do_nothing, .units = 1, .grain = 1};
    steps[i] = &empty[i];
  }
  session->steps = steps;
  session->n_steps = STEPS;
  double full = time_runs(session);
  session->n_steps = 0;
  double none = time_runs(session);
  session->steps = own;
  session->n_steps = n_own;
  oct_session_destroy(session);
  printf("%d thread%s: %.2f ns per step, %.1f ns per run\n", threads, threads == 1 ? "" : "s", (full - none) / STEPS, none);
}

int main(void) {
  octet_context *ctx;
  oct_graph *graph;
  static const char model[] = "octet 1\ninput x f32[1,16]\ny = relu(x)\noutput y\n";
  if (oct_context_create(&ctx) != OCTET_OK || oct_text_parse(ctx, model, sizeof model - 1, NULL, NULL, &graph) != OCTET_OK) return 1;
  measure(ctx, graph, 1);
  measure(ctx, graph, 2);
  oct_graph_destroy(graph);
  oct_context_destroy(ctx);
  return 0;
}
