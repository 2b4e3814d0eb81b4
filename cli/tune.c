/* octet tune: times the kernels of a model's integer layers and keeps what it finds.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "cli.h"

static void print_layers(const cli *c, const octet_session *session) {
  cli_table table = cli_table_make("lll");
  cli_table_row(&table, (const char *[]){"layer", "kernel", "choice"});
  for (size_t i = 0; i < octet_session_layer_count(session); i++) {
    octet_layer l = octet_session_layer(session, i);
    if (!l.choice || l.fused_into || strncmp(l.choice, "timed", 5) != 0) continue;
    if (c->json) cli_print_json(cli_json("sss", "layer", l.name, "kernel", l.kernel, "choice", l.choice));
    else cli_table_row(&table, (const char *[]){l.name, l.kernel, l.choice});
  }
  cli_table_print(&table, c->json ? NULL : stdout);
}

static octet_status tune(cli *c, const octet_model *model, const octet_session_options *o) {
  octet_session *session = NULL;
  octet_status status = octet_session_create(model, o, &session);
  if (status == OCTET_OK) {
    cli_warnings(c);
    print_layers(c, session);
  }
  octet_session_destroy(session);
  return status;
}

static int run(cli *c, int argc, char **argv) {
  const char *batches = "0", *weights = NULL;
  octet_session_options o = octet_session_options_default();
  o.tune_seconds = CLI_TUNE_SECONDS;
  const cli_option options[] = {
      {"--seconds", CLI_NUMBER, &o.tune_seconds, "S", "how long, per batch size (2)"},
      {"--output", CLI_TEXT, (void *)&o.tune_log, "LOG", "the tuning log (-o; OCTET_TUNE_LOG, else octet/tune.json in the user's cache)"},
      {"--batch", CLI_TEXT, (void *)&batches, "N,N", "batch sizes (as declared, else 1)"},
      {"--weights", CLI_TEXT, (void *)&weights, "FILE", "take the weights from this .pth, .npz or .npy"},
      {0}};
  int status = cli_parse(c, argc, argv, options);
  if (status >= 0) return status;
  size_t list[16], n;
  bool fine = cli_numbers(batches, list, 16, &n);
  for (size_t i = 0; fine && i < n; i++) fine = list[i] <= INT32_MAX;
  if (!fine) return cli_usage(c, "--batch: \"%s\" is no list of at most 16 numbers", batches);
  if (!(o.tune_seconds > 0)) return cli_usage(c, "--seconds must be more than 0");
  octet_model *model = NULL;
  octet_status result = octet_model_read(c->ctx, c->positional[0], weights, &model);
  for (size_t i = 0; i < n && result == OCTET_OK; i++) {
    o.batch = (int64_t)list[i];
    result = tune(c, model, &o);
  }
  status = result == OCTET_OK ? CLI_DONE : cli_fail(c, result);
  octet_model_destroy(model);
  return status;
}

const cli_command cli_tune = {
    "tune",
    "time the kernels of integer layers, keep the fastest",
    "MODEL [--seconds S] [--batch 1,8] [--threads N] [-o LOG]",
    "Times, inside whole runs, every kernel that can run an integer layer, and how many samples of a batch run best at once. The log is\n"
    "kept per processor, instruction set and version; later sessions of the same layers, batch and number of threads take what it says.\n"
    "Results stay the same bytes. Float layers are chosen by a fixed rule alone, so that their results repeat. A log that is damaged, or\n"
    "not one, is left alone with a warning. Other commands take nothing from any log with `--tune-log none` (or OCTET_TUNE_LOG=none).",
    "  octet tune model-int8.onnx\n  octet tune model-int8.onnx --batch 1,64 --threads 2 --seconds 10 -o tune.json",
    1,
    1,
    run};
