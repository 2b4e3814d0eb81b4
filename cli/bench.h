/* The parts of `octet bench`: bench.c measures whole runs, bench_layers.c steps.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_CLI_BENCH_H
#define OCT_CLI_BENCH_H

#include "cli.h"

/* One batch size and number of threads. */
typedef struct bench_row {
  size_t batch, threads, arena, weights, n_steps;
  octet_timing time;
  octet_energy energy;
  octet_peaks peaks;      /* with --layers */
  octet_step_info *steps; /* strings of the session */
  octet_step_timing *step_times;
} bench_row;

/* Measures the steps and, once per number of threads, the peaks. */
octet_status bench_steps(octet_context *ctx, octet_session *session, double seconds, bench_row *row);
void bench_free_steps(bench_row *row);
void bench_print_steps(const bench_row *row);
void bench_json_steps(const bench_row *row, json_t *object);

#endif
