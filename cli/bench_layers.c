/* Steps of a model beside the machine's measured peaks: `octet bench --layers`.
 *
 * A step cannot take less time than its products need at the arithmetic peak, nor less than its bytes need at the bandwidth of where they lie. Weights lie
 * where the weights of the whole model fit (each run reads all of them), activations where those of the step fit. The larger time is the nearer bound.
 * SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "bench.h"

typedef struct bounds {
  double arithmetic_ms, memory_ms; /* at the peaks */
} bounds;

octet_status bench_steps(octet_context *ctx, octet_session *session, double seconds, bench_row *row) {
  row->n_steps = octet_session_step_count(session);
  row->steps = calloc(row->n_steps + 1, sizeof *row->steps);
  row->step_times = calloc(row->n_steps + 1, sizeof *row->step_times);
  if (!row->steps || !row->step_times) return OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < row->n_steps; i++) row->steps[i] = octet_session_step(session, i);
  octet_status status = octet_session_time_steps(session, seconds, row->step_times);
  return status == OCTET_OK ? octet_context_peaks(ctx, &row->peaks) : status;
}

void bench_free_steps(bench_row *row) {
  free(row->steps);
  free(row->step_times);
}

/* Bytes per second, 1e9, where so many bytes lie. */
static double bandwidth(const octet_peaks *p, double bytes) {
  int level = 0;
  while (level < 3 && bytes > 0.75 * (double)p->cache_bytes[level]) level++;
  return p->read_gbs[level];
}

static bounds bounds_of(const bench_row *row, size_t i) {
  const octet_step_timing *t = &row->step_times[i];
  const octet_peaks *p = &row->peaks;
  double peak = t->integer ? p->int8_gmacs : p->float_gmacs, activations = t->read_bytes + t->written_bytes;
  bounds b = {0};
  if (peak > 0) b.arithmetic_ms = 1e-6 * row->steps[i].macs / peak;
  double weights_from = bandwidth(p, (double)row->weights), activations_from = bandwidth(p, activations);
  if (weights_from > 0) b.memory_ms += 1e-6 * t->weight_bytes / weights_from;
  if (activations_from > 0) b.memory_ms += 1e-6 * activations / activations_from;
  return b;
}

static double share(double bound_ms, double ms) { return ms > 0 ? bound_ms / ms : 0; }

static void add_row(cli_table *table, const char *number, const char *layer, const char *kernel, const octet_step_timing *t, double macs,
                    bounds b) {
  char median[32], least[32], rate[32] = "", moved[32] = "", arithmetic[32] = "", memory[32] = "";
  double bytes = t->weight_bytes + t->read_bytes + t->written_bytes;
  snprintf(median, sizeof median, "%.2f", 1e3 * t->median_ms);
  snprintf(least, sizeof least, "%.2f", 1e3 * t->min_ms);
  if (macs > 0 && t->median_ms > 0) snprintf(rate, sizeof rate, "%.1f", 1e-6 * macs / t->median_ms);
  if (bytes > 0) cli_bytes(bytes, moved);
  if (macs > 0) snprintf(arithmetic, sizeof arithmetic, "%.0f %%", 100 * share(b.arithmetic_ms, t->median_ms));
  if (bytes > 0) snprintf(memory, sizeof memory, "%.0f %%", 100 * share(b.memory_ms, t->median_ms));
  const char *nearer = bytes <= 0 && macs <= 0 ? "" : b.arithmetic_ms >= b.memory_ms ? "arithmetic" : "memory";
  cli_table_row(table, (const char *[]){number, layer, kernel, median, least, rate, moved, arithmetic, memory, nearer});
}

/* Sums over all steps. */
static double add_up(const bench_row *row, octet_step_timing *time, bounds *bound) {
  double macs = 0;
  *time = (octet_step_timing){0};
  *bound = (bounds){0};
  for (size_t i = 0; i < row->n_steps; i++) {
    const octet_step_timing *t = &row->step_times[i];
    bounds b = bounds_of(row, i);
    macs += row->steps[i].macs;
    time->min_ms += t->min_ms;
    time->median_ms += t->median_ms;
    time->weight_bytes += t->weight_bytes;
    time->read_bytes += t->read_bytes;
    time->written_bytes += t->written_bytes;
    bound->arithmetic_ms += b.arithmetic_ms;
    bound->memory_ms += b.memory_ms;
  }
  return macs;
}

void bench_print_steps(const bench_row *row) {
  cli_table table = cli_table_make("rllrrrrrrl");
  cli_table_row(&table, (const char *[]){"step", "layer", "kernel", "median us", "min us", "GMAC/s", "moved", "of arithmetic",
                                         "of bandwidth", "nearer"});
  for (size_t i = 0; i < row->n_steps; i++) {
    char number[32];
    snprintf(number, sizeof number, "%zu", i);
    add_row(&table, number, row->steps[i].layer, row->steps[i].kernel, &row->step_times[i], row->steps[i].macs, bounds_of(row, i));
  }
  octet_step_timing time;
  bounds bound;
  double macs = add_up(row, &time, &bound);
  add_row(&table, "", "all steps", "", &time, macs, bound);
  const octet_peaks *p = &row->peaks;
  printf("\nbatch %zu, %zu thread%s; measured peaks: int8 %.1f GMAC/s, float %.1f GMAC/s; reading", row->batch, row->threads,
         row->threads == 1 ? "" : "s", p->int8_gmacs, p->float_gmacs);
  for (int i = 0; i < 3; i++) {
    char size[32];
    printf(" %.0f GB/s from L%d (%s),", p->read_gbs[i], i + 1, p->cache_bytes[i] ? cli_bytes((double)p->cache_bytes[i], size) : "?");
  }
  printf(" %.0f GB/s from memory\n", p->read_gbs[3]);
  cli_table_print(&table, stdout);
}

static json_t *json_step(const bench_row *row, size_t i) {
  const octet_step_timing *t = &row->step_times[i];
  bounds b = bounds_of(row, i);
  return cli_json("Issbffffffffs", "step", (json_int_t)i, "layer", row->steps[i].layer, "kernel", row->steps[i].kernel, "integer",
                  t->integer, "median_us", 1e3 * t->median_ms, "min_us", 1e3 * t->min_ms, "macs", row->steps[i].macs, "weight_bytes",
                  t->weight_bytes, "read_bytes", t->read_bytes, "written_bytes", t->written_bytes, "arithmetic_share",
                  share(b.arithmetic_ms, t->median_ms), "bandwidth_share", share(b.memory_ms, t->median_ms), "nearer",
                  b.arithmetic_ms >= b.memory_ms ? "arithmetic" : "memory");
}

void bench_json_steps(const bench_row *row, json_t *object) {
  const octet_peaks *p = &row->peaks;
  json_t *steps = json_array();
  for (size_t i = 0; i < row->n_steps; i++) json_array_append_new(steps, json_step(row, i));
  json_object_set_new(object, "steps", steps);
  octet_step_timing time;
  bounds bound;
  double macs = add_up(row, &time, &bound);
  json_object_set_new(object, "all_steps",
                      cli_json("ffffff", "median_us", 1e3 * time.median_ms, "min_us", 1e3 * time.min_ms, "macs", macs, "bytes",
                               time.weight_bytes + time.read_bytes + time.written_bytes, "arithmetic_share",
                               share(bound.arithmetic_ms, time.median_ms), "bandwidth_share", share(bound.memory_ms, time.median_ms)));
  json_object_set_new(object, "peaks",
                      json_pack("{s:f,s:f,s:[f,f,f,f],s:[I,I,I]}", "int8_gmacs", p->int8_gmacs, "float_gmacs", p->float_gmacs, "read_gbs",
                                p->read_gbs[0], p->read_gbs[1], p->read_gbs[2], p->read_gbs[3], "cache_bytes",
                                (json_int_t)p->cache_bytes[0], (json_int_t)p->cache_bytes[1], (json_int_t)p->cache_bytes[2]));
}
