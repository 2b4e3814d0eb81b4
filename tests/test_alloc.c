/* Memory that runs out: each call is repeated with the first, the second, the third ... allocation failing, until none fails any more. It must say
 * OCTET_OUT_OF_MEMORY every time, give nothing half made, and (under the address sanitizer) leak nothing. And: running a session allocates nothing.
 * SPDX-License-Identifier: MIT */
#include "context_checks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/context.h"

#define MNIST OCTET_SOURCE_DIR "/examples/mnist/"

/* Everything that a small network of the usual operators needs: residual, depthwise, table, pooling, gemm. */
static const char *const network =
    "octet 1\nmetadata preprocess \"scale=1/255\"\ninput x f32[N,2,6,6]\n"
    "const w1 f32[4,2,3,3] = 0.1\nconst b1 f32[4] = 0.1,-0.2,0.3,0\nconst w2 f32[4,4,1,1] = -0.2\nconst w3 f32[4,1,3,3] = 0.3\nconst w4 "
    "f32[4,5] = 0.25\n"
    "const g f32[4] = 1,2,0.5,1\nconst z f32[4] = 0\nconst one f32[4] = 1\nconst low f32[] = 0\nconst high f32[] = 6\n"
    "c1 = conv(x, w1, b1) pads=1,1,1,1\nn1 = batch_normalization(c1, g, z, z, one)\nr1 = relu(n1)\nc2 = conv(r1, w2)\ns = add(c2, r1)\nr2 "
    "= clip(s, low, high)\n"
    "d = conv(r2, w3) group=4 pads=1,1,1,1\nh = sigmoid(d)\nm = max_pool(h) kernel_shape=2,2 strides=2,2\na = global_average_pool(m)\nf = "
    "flatten(a)\ny = gemm(f, w4)\noutput y\n";

static void write_text(const char *path, const char *text) {
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

static const char *const modes[] = {"int8", "dynamic", "weight-only", "fp16", "float"};
#define MODES 5

static octet_quantize_options mode_options(const char *mode) {
  octet_quantize_options o = octet_quantize_options_default();
  o.mode = mode;
  return o;
}

/* The network in each mode as small-MODE.oct. */
static octet_status write_modes(const octet_model *model) {
  octet_dataset *data = NULL;
  octet_status status = octet_dataset_open(ctx, "samples.npy", NULL, model, &data);
  for (int i = 0; i < MODES && status == OCTET_OK; i++) {
    char path[64];
    octet_quantize_options o = mode_options(modes[i]);
    octet_model *quantized = NULL;
    snprintf(path, sizeof path, "small-%s.oct", modes[i]);
    if (strcmp(modes[i], "float") != 0) status = octet_quantize(model, data, &o, &quantized);
    if (status == OCTET_OK) status = octet_model_write(quantized ? quantized : model, path);
    octet_model_destroy(quantized);
  }
  octet_dataset_destroy(data);
  return status;
}

static int setup(void **state) {
  (void)state;
  if (octet_context_create(&ctx) != OCTET_OK) return -1;
  write_text("small.oct", network);
  write_text("strict.oct", "octet 1\ninput x f32[N,2,6,6]\nconst w f32[4,2,3,3] = 0.1\nc = conv(x, w)\nf = flatten(c)\ntop = reduce_max(f) "
                           "keepdims=0\noutput top\n");
  float *samples = calloc(6 * 72, sizeof *samples);
  uint8_t labels[6] = {0, 1, 2, 3, 4, 0};
  if (!samples) return -1;
  for (int i = 0; i < 6 * 72; i++) samples[i] = (float)((i * 37 + 11) % 41) / 20 - 1;
  octet_tensor t = {.name = "x", .dtype = "f32", .rank = 4, .dims = {6, 2, 6, 6}, .data = samples, .bytes = 6 * 72 * 4};
  octet_tensor l = {.name = "labels", .dtype = "u8", .rank = 1, .dims = {6}, .data = labels, .bytes = 6};
  octet_model *model = NULL;
  octet_status status = octet_tensor_write(ctx, "samples.npy", &t);
  if (status == OCTET_OK) status = octet_tensor_write(ctx, "labels.npy", &l);
  if (status == OCTET_OK) status = octet_model_read(ctx, "small.oct", NULL, &model);
  if (status == OCTET_OK) status = octet_model_write(model, "small.onnx");
  if (status == OCTET_OK) status = write_modes(model);
  write_text("small.json", "{\"conv\": {\"observer\": \"kl\"}, \"y\": {\"mode\": \"float\"}}");
  octet_model_destroy(model);
  free(samples);
  return status == OCTET_OK ? 0 : -1;
}

static int teardown(void **state) {
  (void)state;
  static const char *const files[] = {"small.oct",  "small.onnx",   "strict.oct",  "samples.npy", "labels.npy",
                                      "small.json", "written.onnx", "written.oct", "written.npz"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) remove(files[i]);
  for (int i = 0; i < MODES; i++) {
    char path[64];
    snprintf(path, sizeof path, "small-%s.oct", modes[i]);
    remove(path);
    snprintf(path, sizeof path, "small-%s.npz", modes[i]);
    remove(path);
  }
  octet_context_destroy(ctx);
  return 0;
}

/* ---- The sweep ---- */

/* Prepares without limit, calls limit_allocations(), does what is tested, cleans up. */
typedef octet_status (*trial)(const void *what);

static int64_t allowed;

static void limit_allocations(void) { ctx->allocations_left = allowed; }

/* Up to `every` each allocation fails once; after that, where there are thousands, a growing stride. */
static void sweep(const char *title, trial attempt, const void *what, int64_t every) {
  octet_status status = OCTET_OUT_OF_MEMORY;
  int64_t trials = 0;
  for (allowed = 0; status != OCTET_OK; allowed += allowed < every ? 1 : 1 + (allowed - every) / 16) {
    status = attempt(what);
    bool used_up = ctx->allocations_left == 0;
    ctx->allocations_left = -1;
    trials++;
    if (status != OCTET_OK && status != OCTET_OUT_OF_MEMORY) {
      print_error("%s, allocation %lld: status %d: %s\n", title, (long long)allowed, (int)status, ctx->message);
      fail();
    }
    if (status == OCTET_OUT_OF_MEMORY && !used_up)
      print_error("%s, allocation %lld: out of memory before the limit\n", title, (long long)allowed);
    assert_true(status == OCTET_OK || used_up);
    bool said = status == OCTET_OK || strstr(ctx->message, "memory");
    if (!said) print_error("%s, allocation %lld: the message is \"%s\"\n", title, (long long)allowed, ctx->message);
    assert_true(said);
    octet_context_clear_warnings(ctx);
  }
  print_message("%s: %lld failures\n", title, (long long)(trials - 1));
  assert_true(trials > 1); /* something was allocated at all */
}

static octet_model *read_model(const char *path) {
  octet_model *model = NULL;
  ctx->allocations_left = -1;
  check(octet_model_read(ctx, path, NULL, &model));
  return model;
}

static octet_model *small_model(void) { return read_model("small.oct"); }

static octet_dataset *small_data(const octet_model *model) {
  octet_dataset *data = NULL;
  check(octet_dataset_open(ctx, "samples.npy", NULL, model, &data));
  return data;
}

/* The small network in a mode, as setup() wrote it. */
static octet_model *model_in(const char *mode) {
  char path[64];
  snprintf(path, sizeof path, "small-%s.oct", mode);
  return read_model(path);
}

static octet_status try_read(const void *what) {
  octet_model *model = NULL;
  limit_allocations();
  octet_status status = octet_model_read(ctx, what, NULL, &model);
  ctx->allocations_left = status == OCTET_OK ? -1 : ctx->allocations_left;
  assert_true((status == OCTET_OK) == (model != NULL));
  octet_model_destroy(model);
  return status;
}

static void reading(void **state) {
  (void)state;
  ctx->allocations_left = -1;
  sweep("reading .oct", try_read, "small.oct", 100000);
  sweep("reading .onnx", try_read, "small.onnx", 100000);
  sweep("reading .oct with .pth", try_read, MNIST "mnist.oct", 100000);
}

static octet_status try_optimize(const void *what) {
  octet_model *model = small_model();
  limit_allocations();
  octet_status status = octet_model_optimize(model, what);
  octet_model_destroy(model);
  return status;
}

static void optimizing(void **state) {
  (void)state;
  sweep("passes", try_optimize, NULL, 100000);
  sweep("some passes", try_optimize, "fold_batch_normalization", 100000);
}

static octet_status try_data(const void *what) {
  octet_dataset *data = NULL;
  limit_allocations();
  octet_status status = octet_dataset_open(ctx, what, NULL, NULL, &data);
  if (status == OCTET_OK) status = octet_dataset_draw(data, 5, 1);
  octet_dataset_destroy(data);
  return status;
}

static void opening_data(void **state) {
  (void)state;
  sweep("a .npy", try_data, "samples.npy", 100000);
  sweep("an IDX file", try_data, MNIST "t10k-images-idx3-ubyte.gz", 100000);
  sweep("images", try_data, OCTET_SOURCE_DIR "/fuzz/corpus", 100000);
}

static octet_status try_quantize(const void *what) {
  octet_model *model = small_model(), *quantized = NULL;
  octet_dataset *data = small_data(model);
  limit_allocations();
  octet_status status = octet_quantize(model, data, what, &quantized);
  assert_true((status == OCTET_OK) == (quantized != NULL));
  octet_model_destroy(quantized);
  octet_dataset_destroy(data);
  octet_model_destroy(model);
  return status;
}

static int64_t thorough(void) { return getenv("OCTET_SANITIZED") ? 60 : 400; }

static void quantizing(void **state) {
  (void)state;
  static const char *const observers[] = {"kl", "mse", "percentile", "moving-average"};
  for (int i = 0; i < 4; i++) {
    octet_quantize_options o = mode_options(modes[i]);
    sweep(modes[i], try_quantize, &o, 2 * thorough());
  }
  for (int i = 0; i < 4; i++) {
    octet_quantize_options o = mode_options("int8");
    o.observer = observers[i];
    sweep(observers[i], try_quantize, &o, thorough() / 8);
  }
  octet_quantize_options o = mode_options("int8");
  const char *const kept[] = {"c2"};
  o.keep_float = kept;
  o.n_keep_float = 1;
  o.config = "small.json";
  o.io = "uint8";
  o.per_tensor = o.symmetric = true;
  sweep("every option", try_quantize, &o, thorough() / 4);
}

/* What cannot be integer makes --strict fail, and the list of names must not be lost for want of memory. */
static octet_status try_strict(const void *what) {
  (void)what;
  octet_model *model = read_model("strict.oct"), *quantized = NULL;
  octet_dataset *data = small_data(model);
  octet_quantize_options o = mode_options("int8");
  o.strict = true;
  limit_allocations();
  octet_status status = octet_quantize(model, data, &o, &quantized);
  assert_null(quantized);
  octet_dataset_destroy(data);
  octet_model_destroy(model);
  if (status != OCTET_NOT_INTEGER) return status;
  assert_non_null(strstr(ctx->message, "top"));
  return OCTET_OK;
}

static void refusing_strictly(void **state) {
  (void)state;
  sweep("strict", try_strict, NULL, thorough() / 4);
}

typedef struct session_trial {
  const char *mode;
  octet_session_options options;
} session_trial;

static octet_status try_session(const void *what) {
  const session_trial *t = what;
  octet_model *model = model_in(t->mode);
  octet_session *session = NULL;
  octet_timing timing;
  limit_allocations();
  octet_status status = octet_session_create(model, &t->options, &session);
  assert_true((status == OCTET_OK) == (session != NULL));
  if (status == OCTET_OK) {
    int64_t made = ctx->allocations_made;
    for (int i = 0; i < 3 && status == OCTET_OK; i++) status = octet_session_run(session);
    if (status == OCTET_OK) status = octet_session_run_profiled(session);
    assert_int_equal(ctx->allocations_made, made);
    if (status == OCTET_OK) status = octet_session_time(session, 0, &timing);
  }
  octet_session_destroy(session);
  octet_model_destroy(model);
  return status;
}

static void making_sessions(void **state) {
  (void)state;
  for (int i = 0; i < MODES; i++) {
    session_trial t = {modes[i], octet_session_options_default()};
    t.options.batch = 2;
    sweep(modes[i], try_session, &t, thorough());
    if (strcmp(modes[i], "int8") != 0 && strcmp(modes[i], "float") != 0) continue;
    t.options.no_fuse = "all,fold_batch_normalization";
    sweep("not fused", try_session, &t, thorough() / 4);
    check(octet_context_set_threads(ctx, 2));
    sweep("two threads", try_session, &t, thorough() / 8);
    check(octet_context_set_threads(ctx, 1));
  }
}

static octet_status try_compare(const void *what) {
  octet_model *model = small_model(), *quantized = model_in(what);
  octet_dataset *data = small_data(model);
  octet_comparison *comparison = NULL;
  limit_allocations();
  octet_status status = octet_compare(model, quantized, data, 0, &comparison);
  assert_true((status == OCTET_OK) == (comparison != NULL));
  octet_comparison_destroy(comparison);
  octet_dataset_destroy(data);
  octet_model_destroy(quantized);
  octet_model_destroy(model);
  return status;
}

static void comparing(void **state) {
  (void)state;
  sweep("compare int8", try_compare, "int8", thorough());
  sweep("compare weight-only", try_compare, "weight-only", thorough() / 4);
}

static octet_status try_evaluate(const void *what) {
  (void)what;
  octet_model *model = small_model();
  octet_dataset *data = small_data(model);
  octet_accuracy a;
  limit_allocations();
  octet_status status = octet_evaluate(model, data, "labels.npy", 0, NULL, &a);
  octet_dataset_destroy(data);
  octet_model_destroy(model);
  return status;
}

static void evaluating(void **state) {
  (void)state;
  sweep("eval", try_evaluate, NULL, 2 * thorough());
}

typedef struct write_trial {
  const char *mode, *path;
} write_trial;

/* A failure leaves no file behind, not even a temporary one. */
static octet_status try_write(const void *what) {
  const write_trial *t = what;
  octet_model *model = model_in(t->mode);
  remove(t->path);
  limit_allocations();
  octet_status status = octet_model_write(model, t->path);
  assert_true((access(t->path, F_OK) == 0) == (status == OCTET_OK));
  octet_model_destroy(model);
  return status;
}

static void writing(void **state) {
  (void)state;
  for (int i = 0; i < MODES; i++) {
    write_trial onnx = {modes[i], "written.onnx"}, text = {modes[i], "written.oct"};
    sweep(modes[i], try_write, &onnx, thorough());
    sweep("as .oct", try_write, &text, thorough());
  }
}

static octet_status try_arrays(const void *what) {
  octet_tensor t = {0};
  limit_allocations();
  octet_status status = octet_tensor_read(ctx, what, &t);
  octet_tensor_free(&t);
  return status;
}

/* A TensorProto of floats [6,2,6,6] or [6,4]: dims, type 1, raw data. */
static void write_tensor(const char *path, const int *dims, int rank, const float *data, size_t bytes) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  for (int i = 0; i < rank; i++) fprintf(f, "%c%c", 0x08, dims[i]);
  fprintf(f, "%c%c%c%c%c", 0x10, 1, 0x4a, (int)(bytes & 0x7f) | 0x80, (int)(bytes >> 7));
  assert_int_equal(fwrite(data, 1, bytes, f), bytes);
  fclose(f);
}

static octet_status try_case(const void *what) {
  octet_case_result result = OCTET_CASE_FAILED;
  char detail[512] = "";
  ctx->allocations_left = allowed;
  octet_status status = octet_check_case(ctx, what, &result, detail);
  if (status == OCTET_OK && result != OCTET_CASE_PASSED) print_error("%s\n", detail);
  assert_true(status != OCTET_OK || result == OCTET_CASE_PASSED);
  return status;
}

/* A recorded case: memory that runs out must not look like a case that fails or is skipped. */
static void checking_a_case(void **state) {
  (void)state;
  octet_model *model = small_model();
  octet_session *session = NULL;
  octet_session_options o = octet_session_options_default();
  mkdir("case", 0777);
  mkdir("case/test_data_set_0", 0777);
  check(octet_model_write(model, "case/model.onnx"));
  o.batch = 6;
  check(octet_session_create(model, &o, &session));
  octet_tensor in = octet_session_input(session, 0), out = octet_session_output(session, 0);
  for (size_t i = 0; i < in.bytes / 4; i++) ((float *)in.data)[i] = (float)(i % 7) / 7;
  check(octet_session_run(session));
  write_tensor("case/test_data_set_0/input_0.pb", (const int[]){6, 2, 6, 6}, 4, in.data, in.bytes);
  write_tensor("case/test_data_set_0/output_0.pb", (const int[]){6, 5}, 2, out.data, out.bytes);
  octet_session_destroy(session);
  octet_model_destroy(model);
  sweep("a recorded case", try_case, "case", 2 * thorough());
  remove("case/test_data_set_0/input_0.pb");
  remove("case/test_data_set_0/output_0.pb");
  remove("case/model.onnx");
  rmdir("case/test_data_set_0");
  rmdir("case");
}

static void the_rest(void **state) {
  (void)state;
  sweep("an array", try_arrays, "samples.npy", 100000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reading),           cmocka_unit_test(optimizing),      cmocka_unit_test(opening_data), cmocka_unit_test(quantizing),
      cmocka_unit_test(refusing_strictly), cmocka_unit_test(making_sessions), cmocka_unit_test(comparing),    cmocka_unit_test(evaluating),
      cmocka_unit_test(writing),           cmocka_unit_test(checking_a_case), cmocka_unit_test(the_rest),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
