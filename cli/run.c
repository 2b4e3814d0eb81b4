/* octet run: outputs as .npy files.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

#define OUTPUT_PATH 8192

typedef struct run_state {
  cli_list inputs;
  const char *output_dir, *weights, *executor, *no_fuse;
  bool profile, exact_float;
  size_t batch, seed, repeat;
  octet_tensor *given; /* by --input */
  size_t n_given;
  cli_making making;
  octet_session_options options;
} run_state;

/* Splitmix64: random inputs are the same everywhere. */
static uint64_t next_random(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

/* Two standard normal numbers (Box and Muller). */
static void next_normal(uint64_t *state, float pair[2]) {
  double u = ((double)(next_random(state) >> 11) + 1) / 9007199254740993.0, v = (double)(next_random(state) >> 11) / 9007199254740992.0;
  double length = sqrt(-2 * log(u)), angle = 6.283185307179586 * v;
  pair[0] = (float)(length * cos(angle)), pair[1] = (float)(length * sin(angle));
}

/* Floats: standard normal; integers: 0 or 1; 8-bit ones: any. */
static void fill_random(octet_tensor *t, uint64_t *state) {
  if (strcmp(t->dtype, "f32") == 0) {
    float *x = t->data, pair[2];
    for (size_t i = 0; i < t->bytes / 4; i++) {
      if (i % 2 == 0) next_normal(state, pair);
      x[i] = pair[i % 2];
    }
  } else if (strcmp(t->dtype, "u8") == 0 || strcmp(t->dtype, "i8") == 0) {
    for (size_t i = 0; i < t->bytes; i++) ((uint8_t *)t->data)[i] = (uint8_t)next_random(state);
  } else if (strcmp(t->dtype, "i64") == 0) {
    for (size_t i = 0; i < t->bytes / 8; i++) ((int64_t *)t->data)[i] = (int64_t)(next_random(state) & 1);
  } else if (strcmp(t->dtype, "i32") == 0) {
    for (size_t i = 0; i < t->bytes / 4; i++) ((int32_t *)t->data)[i] = (int32_t)(next_random(state) & 1);
  } else {
    memset(t->data, 0, t->bytes);
  }
}

/* false (and a message) when an array has no name and the model does not have just one input. */
static bool names_are_clear(const run_state *s, const octet_model *model) {
  for (size_t i = 0; i < s->inputs.count; i++)
    if (!strchr(s->inputs.items[i], '=') && octet_model_input_count(model) != 1) {
      fprintf(stderr, "octet run: the model has %zu inputs: say --input NAME=%s\n", octet_model_input_count(model), s->inputs.items[i]);
      return false;
    }
  return true;
}

/* "NAME=F.npy", or "F.npy" when the model has one input. */
static octet_status read_given(cli *c, run_state *s, const octet_model *model) {
  s->given = calloc(s->inputs.count + 1, sizeof *s->given);
  if (!s->given) return OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < s->inputs.count; i++) {
    const char *item = s->inputs.items[i], *equals = strrchr(item, '=');
    octet_status status = octet_tensor_read(c->ctx, equals ? equals + 1 : item, &s->given[i]);
    if (status != OCTET_OK) return status;
    s->n_given++;
    free((void *)(uintptr_t)s->given[i].name);
    s->given[i].name = equals ? strndup(item, (size_t)(equals - item)) : strdup(octet_model_input(model, 0).name);
    if (!s->given[i].name) return OCTET_OUT_OF_MEMORY;
  }
  return OCTET_OK;
}

static octet_status make_session(run_state *s, const octet_model *model, octet_session **session) {
  octet_session_options o = s->options;
  octet_tensor *shapes = calloc(s->n_given + 1, sizeof *shapes);
  if (!shapes) return OCTET_OUT_OF_MEMORY;
  for (size_t i = 0; i < s->n_given; i++) {
    shapes[i] = s->given[i];
    shapes[i].data = NULL;
  }
  o.shapes = shapes;
  o.n_shapes = s->n_given;
  o.batch = (int64_t)s->batch;
  o.no_fuse = s->no_fuse;
  o.exact_float = s->exact_float;
  octet_status status = octet_session_create(model, &o, session);
  free(shapes);
  return status;
}

static int fill_inputs(const run_state *s, octet_session *session) {
  uint64_t random = s->seed;
  for (size_t i = 0; i < octet_session_input_count(session); i++) {
    octet_tensor t = octet_session_input(session, i);
    const octet_tensor *found = NULL;
    for (size_t k = 0; k < s->n_given; k++)
      if (strcmp(s->given[k].name, t.name) == 0) found = &s->given[k];
    if (!found) {
      if (s->n_given) fprintf(stderr, "octet run: no --input for \"%s\": it gets random values\n", t.name);
      fill_random(&t, &random);
      continue;
    }
    if (strcmp(found->dtype, t.dtype) != 0 || found->bytes != t.bytes) {
      fprintf(stderr, "octet run: input \"%s\" is %s of %zu bytes, the array is %s of %zu bytes\n", t.name, t.dtype, t.bytes, found->dtype,
              found->bytes);
      return CLI_FAILED;
    }
    memcpy(t.data, found->data, t.bytes);
  }
  return CLI_DONE;
}

/* DIR/NAME.npy; what a file name cannot hold becomes "_". */
static void output_path(const run_state *s, const octet_session *session, size_t index, char path[OUTPUT_PATH]) {
  int length = snprintf(path, OUTPUT_PATH, "%s/", s->output_dir);
  if (length < 0 || length >= OUTPUT_PATH) return;
  char *file = path + length;
  snprintf(file, (size_t)(OUTPUT_PATH - length), "%s.npy", octet_session_output(session, index).name);
  for (char *p = file; *p; p++)
    if (*p == '/' || *p == '\\' || *p == ':') *p = '_';
}

/* Two names may become one file; then neither is written. */
static bool outputs_are_apart(const run_state *s, const octet_session *session) {
  char a[OUTPUT_PATH], b[OUTPUT_PATH];
  for (size_t i = 0; i < octet_session_output_count(session); i++)
    for (size_t k = 0; k < i; k++) {
      const char *one = octet_session_output(session, k).name, *other = octet_session_output(session, i).name;
      output_path(s, session, k, a);
      output_path(s, session, i, b);
      if (strcmp(a, b) != 0 || strcmp(one, other) == 0) continue;
      fprintf(stderr, "octet run: outputs \"%s\" and \"%s\" would both be the file %s\n", one, other, a);
      return false;
    }
  return true;
}

static octet_status write_outputs(cli *c, const run_state *s, const octet_session *session) {
  if (s->output_dir) mkdir(s->output_dir, 0777); /* an error shows when the first file is written */
  for (size_t i = 0; i < octet_session_output_count(session); i++) {
    octet_tensor t = octet_session_output(session, i);
    char path[OUTPUT_PATH], dims[128];
    if (s->output_dir) {
      output_path(s, session, i, path);
      octet_status status = octet_tensor_write(c->ctx, path, &t);
      if (status != OCTET_OK) return status;
    }
    if (c->json) {
      cli_print_json(cli_json("ssos", "output", t.name, "dtype", t.dtype, "shape", cli_json_dims(&t), "file", s->output_dir ? path : NULL));
      continue;
    }
    printf("%s  %s %s", t.name, t.dtype, cli_dims(t.dims, t.rank, dims));
    if (s->output_dir) printf("  %s", path);
    if (strcmp(t.dtype, "f32") == 0 && !s->output_dir) {
      size_t n = t.bytes / 4;
      for (size_t k = 0; k < n && k < 8; k++) printf("%s%.6g", k ? " " : "  ", (double)((float *)t.data)[k]);
      if (n > 8) printf(" ...");
    }
    printf("\n");
  }
  return OCTET_OK;
}

/* Why the layer has its kernel; "" when there is nothing to say. */
static const char *choice_of(const octet_session *session, const char *layer) {
  for (size_t i = 0; i < octet_session_layer_count(session) && *layer; i++) {
    octet_layer l = octet_session_layer(session, i);
    if (l.choice && strcmp(l.name, layer) == 0) return l.choice;
  }
  return "";
}

static void print_profile(const cli *c, const octet_session *session, size_t runs) {
  double total = 0;
  for (size_t i = 0; i < octet_session_step_count(session); i++) total += octet_session_step(session, i).seconds;
  cli_table table = cli_table_make(c->verbose ? "rllrrrl" : "rllrrr");
  cli_table_row(&table, (const char *[]){"step", "layer", "kernel", "microseconds", "share", "GMAC/s", "choice"});
  for (size_t i = 0; i < octet_session_step_count(session); i++) {
    octet_step_info s = octet_session_step(session, i);
    double us = 1e6 * s.seconds / (double)runs;
    const char *choice = s.macs > 0 ? choice_of(session, s.layer) : "";
    if (c->json) {
      cli_print_json(cli_json("Issffs", "step", (json_int_t)i, "layer", s.layer, "kernel", s.kernel, "microseconds", us, "macs", s.macs,
                              "choice", *choice ? choice : NULL));
      continue;
    }
    char number[32], time[32], share[32], rate[32] = "";
    snprintf(number, sizeof number, "%zu", i);
    snprintf(time, sizeof time, "%.2f", us);
    snprintf(share, sizeof share, "%.1f %%", total > 0 ? 100 * s.seconds / total : 0);
    if (s.macs > 0) snprintf(rate, sizeof rate, "%.1f", s.macs / (us * 1e3));
    cli_table_row(&table, (const char *[]){number, s.layer, s.kernel, time, share, rate, choice});
  }
  if (!c->json) printf("\n");
  cli_table_print(&table, c->json ? NULL : stdout);
}

static octet_status execute(cli *c, run_state *s, octet_session *session) {
  for (size_t r = 0; r < s->repeat; r++) {
    octet_status status = s->profile ? octet_session_run_profiled(session) : octet_session_run(session);
    if (status != OCTET_OK) return status;
  }
  octet_status status = write_outputs(c, s, session);
  if (status == OCTET_OK && s->profile) print_profile(c, session, s->repeat);
  return status;
}

static int run(cli *c, int argc, char **argv) {
  run_state s = {.repeat = 1, .executor = "static"};
  const cli_option options[] = {
      {"--input", CLI_LIST, &s.inputs, "NAME=F.npy", "an input (repeat for more); inputs not given are random"},
      {"--output-dir", CLI_TEXT, (void *)&s.output_dir, "DIR", "write each output as DIR/NAME.npy"},
      {"--batch", CLI_COUNT, &s.batch, "N", "batch size when inputs are random"},
      {"--seed", CLI_COUNT, &s.seed, "N", "seed of random inputs (0)"},
      {"--repeat", CLI_COUNT, &s.repeat, "N", "run N times (1)"},
      {"--profile", CLI_FLAG, &s.profile, NULL, "time of each step; with -v why it has its kernel"},
      {"--executor", CLI_TEXT, (void *)&s.executor, "NAME", "static (the only one so far)"},
      {"--no-fuse", CLI_TEXT, (void *)&s.no_fuse, "NAMES",
       "leave these out: residual, activation, table, bias, transpose, attention, strips, all (fusions), or passes; comma-separated"},
      {"--weights", CLI_TEXT, (void *)&s.weights, "FILE", "take the weights from this .pth, .npz or .npy"},
      {"--exact-float", CLI_FLAG, &s.exact_float, NULL, "float convolutions by direct sums only: closer to exact, slower"},
      CLI_MAKING_OPTIONS(s.making),
      {0}};
  int status = cli_parse(c, argc, argv, options);
  if (status >= 0) return status;
  if (strcmp(s.executor, "static") != 0) return cli_usage(c, "there is no executor \"%s\" in this version: static", s.executor);
  s.options = octet_session_options_default();
  if (!cli_making_apply(c, &s.making, &s.options)) return CLI_USAGE;
  if (s.repeat == 0) return cli_usage(c, "--repeat must be at least 1");
  octet_model *model = NULL;
  octet_session *session = NULL;
  octet_status result = octet_model_read(c->ctx, c->positional[0], s.weights, &model);
  if (result == OCTET_OK && !names_are_clear(&s, model)) {
    octet_model_destroy(model);
    return CLI_FAILED;
  }
  if (result == OCTET_OK) result = read_given(c, &s, model);
  if (result == OCTET_OK) result = make_session(&s, model, &session);
  status = result == OCTET_OK ? fill_inputs(&s, session) : cli_fail(c, result);
  if (status == CLI_DONE && s.output_dir && !outputs_are_apart(&s, session)) status = CLI_FAILED;
  if (status == CLI_DONE) {
    result = execute(c, &s, session);
    if (result != OCTET_OK) status = cli_fail(c, result);
  }
  if (status == CLI_DONE) cli_warnings(c);
  for (size_t i = 0; i < s.n_given; i++) octet_tensor_free(&s.given[i]);
  free(s.given);
  octet_session_destroy(session);
  octet_model_destroy(model);
  return status;
}

const cli_command cli_run = {
    "run",
    "run a model once; outputs as .npy files",
    "MODEL [--input NAME=F.npy]... [--output-dir DIR] [--profile]",
    "Runs the model. Without --output-dir the first values are shown. --profile shows where the time went.",
    "  octet run model.onnx --input image=x.npy --output-dir out\n  octet run model.onnx --batch 8 --profile --repeat 20",
    1,
    1,
    run};
