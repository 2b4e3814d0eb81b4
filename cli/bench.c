/* octet bench: how fast a model runs, per batch size and number of threads. Its steps are in bench_layers.c.
 * SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define MAX_LIST 16

typedef struct bench_options {
  const char *batches, *threads, *weights;
  double seconds;
  bool layers;
  cli_list shapes; /* NAME=1x64 */
  octet_session_options session;
} bench_options;

/* "NAME=1x64"; the name is cut off in place of "=". */
static bool parse_shape(const char *text, octet_tensor *out) {
  const char *equals = strrchr(text, '=');
  if (!equals || equals == text) return false;
  *out = (octet_tensor){.name = strndup(text, (size_t)(equals - text))};
  if (!out->name) return false;
  const char *p = equals + 1;
  while (out->rank < OCTET_MAX_RANK && *p >= '0' && *p <= '9') {
    char *end;
    out->dims[out->rank++] = strtoll(p, &end, 10);
    p = *end == 'x' && end[1] >= '0' && end[1] <= '9' ? end + 1 : end;
  }
  return *p == 0 && out->rank > 0;
}

static octet_status measure(cli *c, const octet_model *model, const bench_options *o, bench_row *row, octet_session **session) {
  octet_session_options options = o->session;
  options.batch = (int64_t)row->batch;
  octet_status status = octet_context_set_threads(c->ctx, (int)row->threads);
  if (status == OCTET_OK) status = octet_session_create(model, &options, session);
  if (status != OCTET_OK) return status;
  octet_session_fill_inputs(*session);
  octet_tensor first = octet_session_input(*session, 0);
  if (o->shapes.count && first.rank > 0 && first.dims[0] > 0) row->batch = (size_t)first.dims[0];
  row->arena = octet_session_arena_bytes(*session);
  row->weights = octet_session_weight_bytes(*session);
  status = octet_session_time(*session, o->seconds, &row->time);
  if (status == OCTET_OK) status = octet_session_energy(*session, o->seconds, &row->energy);
  if (status == OCTET_OK && o->layers) status = bench_steps(c->ctx, *session, o->seconds, row);
  return status;
}

static void add_row(cli_table *table, const bench_row *r) {
  char cells[8][32], arena[32], weights[32];
  snprintf(cells[0], 32, "%zu", r->batch);
  snprintf(cells[1], 32, "%zu", r->threads);
  snprintf(cells[2], 32, "%.4f", r->time.median_ms);
  snprintf(cells[3], 32, "%.4f", r->time.min_ms);
  snprintf(cells[4], 32, "%.4f", r->time.p90_ms);
  snprintf(cells[5], 32, "%.4f", r->time.p99_ms);
  snprintf(cells[6], 32, "%.5f", r->time.median_ms / (double)r->batch);
  snprintf(cells[7], 32, r->energy.reason[0] ? "-" : "%.3g", r->energy.joules / (double)r->batch);
  cli_table_row(table, (const char *[]){cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[6],
                                        cli_bytes((double)r->arena, arena), cli_bytes((double)r->weights, weights), cells[7]});
}

static void print_json(const char *name, const char *isa, const bench_row *r) {
  json_t *object =
      cli_json("sIIssffffIII", "model", name, "batch", (json_int_t)r->batch, "threads", (json_int_t)r->threads, "executor", "static", "isa",
               isa, "min_ms", r->time.min_ms, "median_ms", r->time.median_ms, "p90_ms", r->time.p90_ms, "p99_ms", r->time.p99_ms, "runs",
               (json_int_t)r->time.runs, "arena_bytes", (json_int_t)r->arena, "weight_bytes", (json_int_t)r->weights);
  if (r->energy.reason[0]) {
    json_object_set_new(object, "joules", json_null());
    json_object_set_new(object, "no_joules", cli_json_text(r->energy.reason));
  } else {
    json_object_set_new(object, "joules", json_real(r->energy.joules / (double)r->batch));
    json_object_set_new(object, "watts", json_real(r->energy.watts));
  }
  if (r->steps) bench_json_steps(r, object);
  cli_print_json(object);
  fflush(stdout);
}

/* One batch size and number of threads. */
static octet_status bench_one(cli *c, const octet_model *model, const bench_options *o, cli_table *table, bench_row *row) {
  octet_session *session = NULL;
  octet_status status = measure(c, model, o, row, &session);
  if (status == OCTET_OK && c->json) print_json(cli_base_name(c->positional[0]), octet_context_isa(c->ctx), row);
  if (status == OCTET_OK && !c->json) {
    cli_warnings(c);
    add_row(table, row);
    if (row->steps) bench_print_steps(row);
  }
  bench_free_steps(row);
  octet_session_destroy(session);
  return status;
}

static int bench_all(cli *c, const bench_options *o, const size_t *batches, size_t n_batches, const size_t *threads, size_t n_threads) {
  octet_model *model = NULL;
  octet_status status = octet_model_read(c->ctx, c->positional[0], o->weights, &model);
  cli_table table = cli_table_make("rrrrrrrrrr");
  cli_table_row(&table, (const char *[]){"batch", "threads", "median ms", "min ms", "p90 ms", "p99 ms", "per sample ms", "arena", "weights",
                                         "joules per sample"});
  bench_row row = {0};
  for (size_t t = 0; t < n_threads; t++)
    for (size_t b = 0; b < n_batches && status == OCTET_OK; b++) {
      row = (bench_row){.batch = batches[b], .threads = threads[t]};
      status = bench_one(c, model, o, &table, &row);
    }
  bool show = status == OCTET_OK && !c->json;
  if (show) printf("%s%s, %s\n", o->layers ? "\n" : "", cli_base_name(c->positional[0]), octet_context_isa(c->ctx));
  cli_table_print(&table, show ? stdout : NULL);
  if (show && row.energy.reason[0]) printf("no joules: %s\n", row.energy.reason);
  octet_model_destroy(model);
  return status == OCTET_OK ? CLI_DONE : cli_fail(c, status);
}

/* 1 to `most` each. */
static bool parse_list(const char *text, size_t most, size_t list[MAX_LIST], size_t *n) {
  bool fine = cli_numbers(text, list, MAX_LIST, n);
  for (size_t i = 0; fine && i < *n; i++) fine = list[i] > 0 && list[i] <= most;
  return fine;
}

static int run(cli *c, int argc, char **argv) {
  bench_options o = {.batches = "1", .threads = "1", .seconds = 1, .session = octet_session_options_default()};
  cli_making making = {0};
  const cli_option options[] = {
      {"--batch", CLI_TEXT, (void *)&o.batches, "N,N", "batch sizes (1)"},
      {"--threads", CLI_TEXT, (void *)&o.threads, "N,N", "numbers of threads (1)"},
      {"--seconds", CLI_NUMBER, &o.seconds, "S", "time for each of them (1)"},
      {"--layers", CLI_FLAG, &o.layers, NULL, "each step too: time, rate, bytes, shares of the machine's measured peaks"},
      {"--shape", CLI_LIST, &o.shapes, "NAME=1x64", "shape of an input (repeat for more)"},
      {"--weights", CLI_TEXT, (void *)&o.weights, "FILE", "take the weights from this .pth, .npz or .npy"},
      {"--exact-float", CLI_FLAG, &o.session.exact_float, NULL, "float convolutions by direct sums only: closer to exact, slower"},
      CLI_MAKING_OPTIONS(making),
      {0}};
  int status = cli_parse(c, argc, argv, options);
  if (status >= 0) return status;
  size_t batches[MAX_LIST], threads[MAX_LIST], n_batches, n_threads;
  if (!cli_making_apply(c, &making, &o.session)) return CLI_USAGE;
  if (!parse_list(o.batches, INT32_MAX, batches, &n_batches))
    return cli_usage(c, "--batch: \"%s\" is no list of at most 16 positive numbers", o.batches);
  if (!parse_list(o.threads, 256, threads, &n_threads))
    return cli_usage(c, "--threads: \"%s\" is no list of at most 16 numbers from 1 to 256", o.threads);
  octet_tensor shapes[sizeof o.shapes.items / sizeof *o.shapes.items] = {0};
  for (size_t i = 0; i < o.shapes.count && status != CLI_USAGE; i++)
    if (!parse_shape(o.shapes.items[i], &shapes[i]))
      status = cli_usage(c, "--shape: \"%s\" is not of the form NAME=1x64", o.shapes.items[i]);
  o.session.shapes = shapes;
  o.session.n_shapes = o.shapes.count;
  if (status != CLI_USAGE) status = bench_all(c, &o, batches, n_batches, threads, n_threads);
  for (size_t i = 0; i < o.shapes.count; i++) free((void *)(uintptr_t)shapes[i].name);
  return status;
}

const cli_command cli_bench = {
    "bench",
    "latency per batch size and threads; time, rate and bytes per layer",
    "MODEL [--batch 1,8] [--threads 1,2] [--layers] [--seconds S]",
    "Runs the model after a warm-up, with inputs between 0 and 1 (ones for integers) that lie in the session. Shows median, minimum, 90th "
    "and 99th\n"
    "percentile, and joules per sample where Linux offers energy counters.\n"
    "--layers holds each step against peaks that are measured in the same run: \"of arithmetic\" is the time that its products would take "
    "at the peak\n"
    "of direct 8-bit or float products, over the time it took (Winograd needs fewer products and may pass 100 %); \"of bandwidth\" the "
    "same for the\n"
    "bytes that it moves, at the bandwidth of the cache in which the activations of the step, or the weights of the model, fit. The larger "
    "of the\n"
    "two is the nearer bound.",
    "  octet bench model.onnx --batch 1,8,64 --threads 1,2\n  octet bench m8.onnx --layers\n  octet bench m8.onnx --batch 1,256 --json",
    1,
    1,
    run};
