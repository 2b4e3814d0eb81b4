/* octet bench: how fast a model runs.
 * SPDX-License-Identifier: MIT */
#include "cli.h"

static void fill_inputs(octet_session *session) {
  for (size_t i = 0; i < octet_session_input_count(session); i++) {
    octet_tensor t = octet_session_input(session, i);
    if (t.dtype[0] != 'f' || t.bytes % 4) continue;
    uint32_t state = 1;
    for (size_t k = 0; k < t.bytes / 4; k++) {
      state = state * 1664525u + 1013904223u;
      ((float *)t.data)[k] = (float)(state >> 8) / 16777216.0f; /* 0 to 1 */
    }
  }
}

typedef struct bench_row {
  size_t batch, arena, weights;
  octet_timing t;
} bench_row;

static octet_status measure(const octet_model *model, size_t batch, double seconds, bool exact_float, bench_row *row) {
  octet_session_options o = octet_session_options_default();
  o.batch = (int64_t)batch;
  o.exact_float = exact_float;
  octet_session *session = NULL;
  octet_status status = octet_session_create(model, &o, &session);
  if (status != OCTET_OK) return status;
  fill_inputs(session);
  row->batch = batch;
  row->arena = octet_session_arena_bytes(session);
  row->weights = octet_session_weight_bytes(session);
  status = octet_session_time(session, seconds, &row->t);
  octet_session_destroy(session);
  return status;
}

static int run(cli *c, int argc, char **argv) {
  const char *batches = "1", *weights = NULL;
  double seconds = 1;
  bool exact_float = false;
  const cli_option options[] = {{"--batch", CLI_TEXT, (void *)&batches, "N,N", "batch sizes (1)"},
                                {"--seconds", CLI_NUMBER, &seconds, "S", "time per batch size (1)"},
                                {"--weights", CLI_TEXT, (void *)&weights, "FILE", "take the weights from this .pth, .npz or .npy"},
                                {"--exact-float", CLI_FLAG, &exact_float, NULL, "float convolutions by direct sums only: closer to exact, slower"},
                                {0}};
  int status = cli_parse(c, argc, argv, options);
  if (status >= 0) return status;
  size_t list[16], n;
  bool fine = cli_numbers(batches, list, 16, &n);
  for (size_t i = 0; fine && i < n; i++) fine = list[i] > 0 && list[i] <= INT32_MAX;
  if (!fine) return cli_usage(c, "--batch: \"%s\" is no list of at most 16 positive numbers", batches);
  octet_model *model = NULL;
  octet_status result = octet_model_read(c->ctx, c->positional[0], weights, &model);
  const char *name = cli_base_name(c->positional[0]), *isa = octet_context_isa(c->ctx);
  cli_table table = cli_table_make("rrrrrrr");
  cli_table_row(&table, (const char *[]){"batch", "median ms", "min ms", "p99 ms", "per sample ms", "arena", "weights"});
  for (size_t i = 0; i < n && result == OCTET_OK; i++) {
    bench_row r = {0};
    result = measure(model, list[i], seconds, exact_float, &r);
    if (result != OCTET_OK) break;
    if (c->json) {
      cli_print_json(json_pack("{s:s,s:I,s:I,s:s,s:s,s:f,s:f,s:f,s:f,s:I,s:I,s:I}", "model", name, "batch", (json_int_t)r.batch, "threads", (json_int_t)c->threads,
                               "executor", "static", "isa", isa, "min_ms", r.t.min_ms, "median_ms", r.t.median_ms, "p90_ms", r.t.p90_ms, "p99_ms", r.t.p99_ms,
                               "runs", (json_int_t)r.t.runs, "arena_bytes", (json_int_t)r.arena, "weight_bytes", (json_int_t)r.weights));
      fflush(stdout);
      continue;
    }
    char cells[5][32], arena[32], bytes[32];
    snprintf(cells[0], 32, "%zu", r.batch);
    snprintf(cells[1], 32, "%.4f", r.t.median_ms);
    snprintf(cells[2], 32, "%.4f", r.t.min_ms);
    snprintf(cells[3], 32, "%.4f", r.t.p99_ms);
    snprintf(cells[4], 32, "%.5f", r.t.median_ms / (double)r.batch);
    cli_table_row(&table, (const char *[]){cells[0], cells[1], cells[2], cells[3], cells[4], cli_bytes((double)r.arena, arena), cli_bytes((double)r.weights, bytes)});
  }
  status = result == OCTET_OK ? CLI_DONE : cli_fail(c, result);
  if (!c->json && status == CLI_DONE) {
    cli_warnings(c);
    printf("%s, %zu thread%s, %s\n", name, c->threads, c->threads == 1 ? "" : "s", isa);
  }
  cli_table_print(&table, c->json || status != CLI_DONE ? NULL : stdout);
  octet_model_destroy(model);
  return status;
}

const cli_command cli_bench = {"bench",
                               "latency per batch size",
                               "MODEL [--batch 1,8] [--seconds S] [--threads N]",
                               "Runs the model with inputs between 0 and 1 that lie in the session, after a warm-up; shows median, minimum and 99th percentile.",
                               "  octet bench model.onnx --batch 1,8,64\n  octet bench m8.onnx --batch 1,256 --json",
                               1,
                               1,
                               run};
