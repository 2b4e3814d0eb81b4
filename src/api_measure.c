/* Public functions: how long a session takes, step by step, what energy it needs, and what the machine could do at best.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "base/clock.h"
#include "base/energy.h"
#include "exec/peaks.h"

static double milliseconds_now(void) { return 1e3 * oct_seconds_now(); }

void octet_session_fill_inputs(octet_session *session) {
  for (size_t i = 0; i < octet_session_input_count(session); i++) {
    octet_tensor t = octet_session_input(session, i);
    uint32_t state = 1;
    if (strcmp(t.dtype, "f32") == 0) {
      for (size_t k = 0; k < t.bytes / 4; k++) {
        state = state * 1664525u + 1013904223u;
        ((float *)t.data)[k] = (float)(state >> 8) / 16777216.0f;
      }
    } else if (strcmp(t.dtype, "i64") == 0) {
      for (size_t k = 0; k < t.bytes / 8; k++) ((int64_t *)t.data)[k] = 1;
    } else if (strcmp(t.dtype, "i32") == 0) {
      for (size_t k = 0; k < t.bytes / 4; k++) ((int32_t *)t.data)[k] = 1;
    }
  }
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Runs for a tenth of `seconds` (at least three times), and says how long one run took. */
static octet_status warm_up(octet_session *session, double seconds, double *once_ms) {
  double start = milliseconds_now();
  int runs = 0;
  do {
    OCT_TRY(octet_session_run(session));
    runs++;
  } while (runs < 3 || (milliseconds_now() - start < 100 * seconds && runs < 10000));
  *once_ms = (milliseconds_now() - start) / runs;
  return OCTET_OK;
}

#define MAX_TIMED_RUNS 200000

/* Very short runs are timed in groups, so that the clock (about 25 ns) does not show. */
octet_status octet_session_time(octet_session *session, double seconds, octet_timing *out) {
  double once;
  *out = (octet_timing){0};
  OCT_TRY(warm_up(session, seconds, &once));
  int group = once > 0.01 ? 1 : (int)(0.01 / (once > 1e-5 ? once : 1e-5)) + 1;
  double *times = oct_alloc(session->ctx, MAX_TIMED_RUNS, sizeof *times);
  if (!times) return OCTET_OUT_OF_MEMORY;
  size_t n = 0;
  octet_status status = OCTET_OK;
  double end = milliseconds_now() + 1e3 * seconds, last = milliseconds_now();
  while (status == OCTET_OK && n < MAX_TIMED_RUNS && (last < end || n < 3)) {
    for (int g = 0; g < group && status == OCTET_OK; g++) status = octet_session_run(session);
    double now = milliseconds_now();
    times[n++] = (now - last) / group;
    last = now;
  }
  if (status == OCTET_OK) {
    qsort(times, n, sizeof *times, by_value);
    *out = (octet_timing){times[0], times[n / 2], times[n * 9 / 10], times[n * 99 / 100], n * (size_t)group};
  }
  oct_free(times);
  return status;
}

/* ---- Steps ---- */

/* Place of a session's step in its plan, which keeps relocations by that number. */
static int number_in_plan(const oct_plan *plan, const oct_step *step) {
  for (size_t i = 0; i < plan->n_steps; i++)
    if (plan->steps[i] == step) return (int)i;
  return -1;
}

/* Bytes of the buffers that a step reads and writes, each once; a step that fills borders touches little of its buffer and counts as none. */
static void count_activations(const oct_plan *plan, const oct_step *step, double *read, double *written) {
  int number = number_in_plan(plan, step);
  if (number < 0 || plan->is_border[number]) return;
  for (size_t i = 0; i < plan->n_relocations; i++) {
    const oct_relocation *r = &plan->relocations[i];
    if (r->step != number || r->buffer < 0) continue;
    bool seen = false;
    for (size_t k = 0; k < i && !seen; k++)
      seen = plan->relocations[k].step == number && plan->relocations[k].buffer == r->buffer && plan->relocations[k].write == r->write;
    if (!seen) *(r->write ? written : read) += (double)plan->buffers[r->buffer].bytes;
  }
}

static octet_step_timing cost_of_step(const octet_session *session, size_t index) {
  const oct_session *s = session->inner;
  const oct_step *step = s->steps[index];
  octet_step_timing t = {0};
  count_activations(&s->plan, step, &t.read_bytes, &t.written_bytes);
  const oct_node_report *report = step->node ? &s->plan.reports[step->node->id] : NULL;
  if (report && !step->form && report->kernel && strcmp(report->kernel, step->kernel) == 0) {
    t.weight_bytes = (double)report->packed_bytes;
    t.integer = report->integer;
  }
  double chunks = (double)s->n_chunks;
  t.weight_bytes *= chunks;
  t.read_bytes *= chunks;
  t.written_bytes *= chunks;
  return t;
}

/* What two looks at the clock take when nothing lies between them. */
static double clock_ms(void) {
  double least = 1;
  for (int i = 0; i < 1000; i++) {
    double a = milliseconds_now(), b = milliseconds_now();
    if (b - a < least) least = b - a;
  }
  return least;
}

#define MAX_STEP_TIMES ((size_t)1 << 21)
#define MAX_STEP_RUNS ((size_t)1000)

/* times: steps x runs, in milliseconds */
static octet_status time_each_step(octet_session *session, double seconds, size_t runs, double *one_run, double *times, size_t *done) {
  size_t steps = session->inner->n_steps;
  double end = milliseconds_now() + 1e3 * seconds;
  for (*done = 0; *done < runs && (*done < 3 || milliseconds_now() < end); ++*done) {
    memset(one_run, 0, steps * sizeof *one_run);
    OCT_TRY(oct_session_run_profiled(session->inner, one_run));
    for (size_t i = 0; i < steps; i++) times[i * runs + *done] = 1e3 * one_run[i];
  }
  return OCTET_OK;
}

octet_status octet_session_time_steps(octet_session *session, double seconds, octet_step_timing *out) {
  size_t steps = session->inner->n_steps, runs = MAX_STEP_TIMES / (steps + 1), done = 0;
  double once;
  OCT_TRY(warm_up(session, seconds, &once));
  runs = runs > MAX_STEP_RUNS ? MAX_STEP_RUNS : runs < 3 ? 3 : runs;
  double *one_run = oct_alloc(session->ctx, steps + 1, sizeof *one_run),
         *times = oct_alloc(session->ctx, (steps + 1) * runs, sizeof *times);
  octet_status status = one_run && times ? time_each_step(session, seconds, runs, one_run, times, &done) : OCTET_OUT_OF_MEMORY;
  double clock = clock_ms() * (double)session->inner->n_chunks;
  for (size_t i = 0; i < steps && status == OCTET_OK; i++) {
    double *mine = times + i * runs;
    qsort(mine, done, sizeof *mine, by_value);
    out[i] = cost_of_step(session, i);
    out[i].min_ms = mine[0] > clock ? mine[0] - clock : 0;
    out[i].median_ms = mine[done / 2] > clock ? mine[done / 2] - clock : 0;
  }
  oct_free(one_run);
  oct_free(times);
  return status;
}

/* ---- Energy and peaks ---- */

octet_status octet_session_energy(octet_session *session, double seconds, octet_energy *out) {
  *out = (octet_energy){0};
  oct_energy_reading before, after;
  const char *reason = oct_energy_read(OCT_ENERGY_FOLDER, &before);
  if (reason) {
    snprintf(out->reason, sizeof out->reason, "%s", reason);
    return OCTET_OK;
  }
  double start = milliseconds_now(), ms;
  do {
    OCT_TRY(octet_session_run(session));
    out->runs++;
    ms = milliseconds_now() - start;
  } while (ms < 1e3 * seconds);
  reason = oct_energy_read(OCT_ENERGY_FOLDER, &after);
  double joules = reason ? 0 : oct_energy_between(&before, &after);
  out->joules = joules / (double)out->runs;
  out->watts = 1e3 * joules / ms;
  if (joules <= 0) snprintf(out->reason, sizeof out->reason, "%s", reason ? reason : "the energy counters do not move");
  return OCTET_OK;
}

octet_status octet_context_peaks(octet_context *ctx, octet_peaks *out) { return oct_peaks_measure(ctx, out); }
