/* octet demo: the main job on the built-in network and digits, in one table.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

typedef struct form {
  const char *name, *mode; /* mode NULL: float */
  size_t correct, file_bytes, weight_bytes, arena_bytes;
  double ms1, ms256;
  octet_model *model; /* as read back */
} form;

#define MAX_FORMS 8

typedef struct demo {
  cli *c;
  const char *folder, *keep;
  double seconds;
  size_t samples, seed;
  octet_model *model;
  char work[512];
} demo;

static bool exists(const char *path) {
  struct stat s;
  return stat(path, &s) == 0;
}

/* examples/mnist: as told, below the working folder, or beside the program. */
static const char *find_folder(const char *told, char text[1024]) {
  if (told) return told;
  if (exists("examples/mnist/mnist.oct")) return "examples/mnist";
  char self[900];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n <= 0) return NULL;
  self[n] = 0;
  static const char *const places[] = {"/../examples/mnist", "/../share/octet/examples/mnist"};
  char *slash = strrchr(self, '/');
  if (slash) *slash = 0;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    char probe[1100];
    snprintf(text, 1024, "%s%s", self, places[i]);
    snprintf(probe, sizeof probe, "%s/mnist.oct", text);
    if (exists(probe)) return text;
  }
  return NULL;
}

static octet_status open_data(demo *d, const char *file, octet_dataset **out) {
  char path[1200];
  snprintf(path, sizeof path, "%s/%s", d->folder, file);
  return octet_dataset_open(d->c->ctx, path, NULL, d->model, out);
}

/* Quantizes, writes, and reads the file back: what is measured is what a user gets. */
static octet_status make_form(demo *d, form *f, octet_model **out) {
  octet_model *made = NULL;
  octet_dataset *data = NULL;
  char path[1024];
  snprintf(path, sizeof path, "%s/mnist-%s.onnx", d->work, f->mode ? f->mode : "float");
  octet_status status = OCTET_OK;
  if (f->mode) {
    octet_quantize_options o = octet_quantize_options_default();
    o.mode = f->mode;
    status = open_data(d, "train10k-images-idx3-ubyte.gz", &data);
    if (status == OCTET_OK) status = octet_dataset_draw(data, d->samples, d->seed);
    if (status == OCTET_OK) status = octet_quantize(d->model, data, &o, &made);
  }
  if (status == OCTET_OK) status = octet_model_write(made ? made : d->model, path);
  if (status == OCTET_OK) status = octet_model_read(d->c->ctx, path, NULL, out);
  struct stat s;
  if (status == OCTET_OK && stat(path, &s) == 0) f->file_bytes = (size_t)s.st_size;
  if (status == OCTET_OK) f->weight_bytes = octet_model_weight_bytes(made ? made : d->model);
  octet_dataset_destroy(data);
  octet_model_destroy(made);
  return status;
}

static octet_status score_form(demo *d, form *f) {
  octet_dataset *data = NULL;
  octet_accuracy a = {0};
  char labels[1200];
  snprintf(labels, sizeof labels, "%s/t10k-labels-idx1-ubyte.gz", d->folder);
  octet_status status = make_form(d, f, &f->model);
  if (status == OCTET_OK) status = open_data(d, "t10k-images-idx3-ubyte.gz", &data);
  if (status == OCTET_OK) status = octet_evaluate(f->model, data, labels, 0, NULL, &a);
  f->correct = a.correct;
  octet_dataset_destroy(data);
  return status;
}

static octet_status make_session(demo *d, const form *f, size_t batch, octet_session **out) {
  octet_session_options o = octet_session_options_default();
  octet_dataset *data = NULL;
  o.batch = (int64_t)batch;
  octet_status status = octet_session_create(f->model, &o, out);
  if (status == OCTET_OK) status = open_data(d, "t10k-images-idx3-ubyte.gz", &data);
  if (status == OCTET_OK) status = octet_dataset_fill(data, 0, batch, *out);
  octet_dataset_destroy(data);
  return status;
}

#define ROUNDS 5

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* All forms in turn, several rounds, so that a machine that slows down slows all of them alike; the median of the rounds' medians. */
static octet_status measure(demo *d, form *forms, size_t n, size_t batch) {
  octet_session *sessions[MAX_FORMS] = {0};
  double times[MAX_FORMS][ROUNDS];
  octet_status status = OCTET_OK;
  for (size_t i = 0; i < n && status == OCTET_OK; i++) status = make_session(d, &forms[i], batch, &sessions[i]);
  for (size_t r = 0; r < ROUNDS && status == OCTET_OK; r++) {
    for (size_t i = 0; i < n && status == OCTET_OK; i++) {
      octet_timing t;
      status = octet_session_time(sessions[i], d->seconds / ROUNDS, &t);
      times[i][r] = t.median_ms;
    }
  }
  for (size_t i = 0; i < n; i++) {
    if (status == OCTET_OK) {
      qsort(times[i], ROUNDS, sizeof times[i][0], by_value);
      *(batch == 1 ? &forms[i].ms1 : &forms[i].ms256) = times[i][ROUNDS / 2];
      if (batch == 1) forms[i].arena_bytes = octet_session_arena_bytes(sessions[i]);
    }
    octet_session_destroy(sessions[i]);
  }
  return status;
}

static void print_rows(const cli *c, const form *forms, size_t n) {
  cli_table table = cli_table_make("lrrrrrrrrr");
  cli_table_row(&table,
                (const char *[]){"form", "top-1", "change", "file", "weights", "arena", "batch 1", "speed-up", "batch 256", "speed-up"});
  cli_table_row(&table, (const char *[]){"", "of 10,000", "", "bytes", "bytes", "bytes", "us", "", "us/image", ""});
  for (size_t i = 0; i < n; i++) {
    const form *f = &forms[i];
    double us1 = 1e3 * f->ms1, us256 = 1e3 * f->ms256 / 256;
    if (c->json) {
      cli_print_json(cli_json("sIIIIIffff", "form", f->name, "correct", (json_int_t)f->correct, "change",
                              (json_int_t)f->correct - (json_int_t)forms[0].correct, "file_bytes", (json_int_t)f->file_bytes,
                              "weight_bytes", (json_int_t)f->weight_bytes, "arena_bytes", (json_int_t)f->arena_bytes, "batch1_us", us1,
                              "batch256_us_per_image", us256, "speedup1", forms[0].ms1 / f->ms1, "speedup256", forms[0].ms256 / f->ms256));
      continue;
    }
    char cell[9][32];
    snprintf(cell[0], 32, "%zu", f->correct);
    snprintf(cell[1], 32, "%+ld", (long)f->correct - (long)forms[0].correct);
    snprintf(cell[2], 32, "%zu", f->file_bytes);
    snprintf(cell[3], 32, "%zu", f->weight_bytes);
    snprintf(cell[4], 32, "%zu", f->arena_bytes);
    snprintf(cell[5], 32, "%.2f", us1);
    snprintf(cell[6], 32, "%.2fx", forms[0].ms1 / f->ms1);
    snprintf(cell[7], 32, "%.2f", us256);
    snprintf(cell[8], 32, "%.2fx", forms[0].ms256 / f->ms256);
    cli_table_row(&table, (const char *[]){f->name, cell[0], cell[1], cell[2], cell[3], cell[4], cell[5], cell[6], cell[7], cell[8]});
  }
  cli_table_print(&table, c->json ? NULL : stdout);
}

static void print_published(void) {
  printf("\nPublished for the same network (bwosh/torch-quantization, PyTorch 1.3, one laptop core; their input scale of 1 made the pixels "
         "binary):\n");
  cli_table table = cli_table_make("lrrr");
  cli_table_row(&table, (const char *[]){"form", "top-1", "file bytes", "latency"});
  cli_table_row(&table, (const char *[]){"float", "96.5 %", "13595", "5.28 ms"});
  cli_table_row(&table, (const char *[]){"static int8", "95.0 %", "5792", "2.76 ms"});
  cli_table_row(&table, (const char *[]){"QAT int8", "95.5 %", "6527", "2.69 ms"});
  cli_table_print(&table, stdout);
}

static octet_status run_forms(demo *d, form *forms, size_t n) {
  char path[1200];
  snprintf(path, sizeof path, "%s/mnist.oct", d->folder);
  octet_status status = octet_model_read(d->c->ctx, path, NULL, &d->model);
  for (size_t i = 0; i < n && status == OCTET_OK; i++) {
    if (isatty(STDERR_FILENO)) fprintf(stderr, "%s ...\n", forms[i].name);
    status = score_form(d, &forms[i]);
  }
  if (status == OCTET_OK) status = measure(d, forms, n, 1);
  if (status == OCTET_OK) status = measure(d, forms, n, 256);
  return status;
}

static int run(cli *c, int argc, char **argv) {
  demo d = {.c = c, .seconds = 1, .samples = 1000};
  const cli_option options[] = {{"--examples", CLI_TEXT, (void *)&d.folder, "DIR", "folder with mnist.oct, its weights and the digits"},
                                {"--seconds", CLI_NUMBER, &d.seconds, "S", "time per form and batch size (1)"},
                                {"--samples", CLI_COUNT, &d.samples, "N", "training digits for calibration (1000)"},
                                {"--seed", CLI_COUNT, &d.seed, "N", "seed of their draw (0)"},
                                {"--keep", CLI_TEXT, (void *)&d.keep, "DIR", "leave the five models there"},
                                {0}};
  int status = cli_parse(c, argc, argv, options);
  if (status >= 0) return status;
  char found[1024];
  d.folder = find_folder(d.folder, found);
  if (!d.folder) return cli_usage(c, "examples/mnist was not found here or beside the program: say --examples DIR");
  if (d.keep) {
    mkdir(d.keep, 0777);
    snprintf(d.work, sizeof d.work, "%s", d.keep);
  } else {
    snprintf(d.work, sizeof d.work, "%s/octet-demo-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(d.work)) return cli_usage(c, "no folder for temporary files: %s", d.work);
  }
  form forms[] = {{.name = "float"},
                  {.name = "int8", .mode = "int8"},
                  {.name = "dynamic", .mode = "dynamic"},
                  {.name = "weight-only", .mode = "weight-only"},
                  {.name = "fp16", .mode = "fp16"}};
  size_t n = sizeof forms / sizeof *forms;
  octet_status result = run_forms(&d, forms, n);
  if (result == OCTET_OK) {
    cli_warnings(c);
    if (!c->json) printf("The MNIST network, one thread, %s; all 10,000 test digits\n\n", octet_context_isa(c->ctx));
    print_rows(c, forms, n);
    if (!c->json) print_published();
  }
  status = result == OCTET_OK ? CLI_DONE : cli_fail(c, result);
  for (size_t i = 0; i < n; i++) octet_model_destroy(forms[i].model);
  for (size_t i = 0; i < n && !d.keep; i++) {
    char path[1024];
    snprintf(path, sizeof path, "%s/mnist-%s.onnx", d.work, forms[i].mode ? forms[i].mode : "float");
    unlink(path);
  }
  if (!d.keep) rmdir(d.work);
  octet_model_destroy(d.model);
  return status;
}

const cli_command cli_demo = {"demo",
                              "the main job on the built-in network and digits, in one table",
                              "[--seconds S] [--keep DIR]",
                              "Reads the MNIST network, quantizes it in each mode (calibrated on training digits), writes and reads back "
                              "each form, evaluates all of them on the\n"
                              "10,000 test digits, measures batch 1 and 256 on one thread, and shows one table.",
                              "  octet demo\n  octet demo --keep /tmp/models --json",
                              0,
                              0,
                              run};
