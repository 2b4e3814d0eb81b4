/* The choice of 8-bit kernels: candidates, estimates, the tuning log, timing, and sessions for little memory. Whatever is chosen, results are the
 * bytes of the scalar kernels.
 * SPDX-License-Identifier: MIT */
#include <sys/stat.h>
#include <unistd.h>

#include "exec/tune.h"
#include "exec_checks.h"

#define U8(name, scale, zero) "quant " name " u8 scale=" scale " zero_point=" zero "\n"
#define W(name, shape) "const " name " i8[" shape "] = rnd\nquant " name " i8 scale=0.004\n"

/* 3x3 with a residual (Winograd is possible), depthwise, 1x1, stride 2, a matrix. */
/* clang-format off */
static const char graph_text[] =
    "input x f32[N,16,9,8]\n" U8("x", "0.017", "118") W("w1", "16,16,3,3") W("w2", "16,1,3,3") W("w3", "40,16,1,1")
    W("w4", "24,40,3,3") W("w5", "10,24") "c = conv(x, w1) pads=1,1,1,1\ns = add(c, x)\na = relu(s)\n" U8("a", "0.06", "0")
    "d = conv(a, w2) group=16 pads=1,1,1,1\n" U8("d", "0.05", "120") "e = conv(d, w3)\nf = relu(e)\n" U8("f", "0.05", "0")
    "g = conv(f, w4) pads=1,1,1,1 strides=2,2\n" U8("g", "0.1", "130") "p = global_average_pool(g)\n" U8("p", "0.05", "128")
    "const shape i64[2] = -1,24\nq = reshape(p, shape)\n" U8("q", "0.05", "128") "const b f32[10] = rnd\n"
    "y = gemm(q, w5, b) transB=1\n" U8("y", "0.09", "128") "output y\noutput a\n";
/* clang-format on */

static char folder[] = "tune-XXXXXX";
static char path[64];

static int make_folder(void **state) {
  if (!mkdtemp(folder)) return -1;
  snprintf(path, sizeof path, "%s/log.json", folder);
  return context_create(state);
}

static int remove_folder(void **state) {
  unlink(path);
  rmdir(folder);
  return context_destroy(state);
}

static void write_file(const char *text) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

static void file_is(const char *text) {
  char buffer[4096];
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  size_t n = fread(buffer, 1, sizeof buffer - 1, f);
  fclose(f);
  buffer[n] = 0;
  assert_string_equal(buffer, text);
}

static oct_tune_log *open_log(void) {
  oct_tune_log *log;
  check(oct_tune_log_open(ctx, path, ctx->isa_mask, &log));
  assert_non_null(log);
  return log;
}

/* A session for `samples`, with what `o` says. */
static oct_session *session_of(const oct_graph *graph, oct_session_options o, int64_t samples) {
  oct_session *session = NULL;
  o.batch = samples;
  check(oct_session_create(ctx, graph, &o, &session));
  return session;
}

static exec_tensors outputs_of(oct_session *session, const exec_tensors *inputs) {
  exec_fill(session, inputs);
  check(oct_session_run(session));
  return exec_outputs(session);
}

static exec_tensors scalar_outputs(const oct_graph *graph, const exec_tensors *inputs) {
  return exec_run(graph, (exec_form){.fuse = OCT_FUSE_ALL, .isa = "scalar"}, inputs);
}

static void session_gives(const oct_graph *graph, oct_session_options o, const exec_tensors *inputs, const exec_tensors *want) {
  oct_session *session = session_of(graph, o, inputs->item[0]->shape.dim[0]);
  exec_tensors got = outputs_of(session, inputs);
  assert_true(exec_same_bytes(&got, want));
  exec_free(&got);
  oct_session_destroy(session);
}

/* ---- Candidates ---- */

static oct_conv_shape shape_of(int64_t size, int64_t channels, int64_t out_channels) {
  return (oct_conv_shape){.batch = 1,
                          .in_h = size,
                          .in_w = size,
                          .channels = channels,
                          .out_h = size,
                          .out_w = size,
                          .out_channels = out_channels,
                          .kernel_h = 3,
                          .kernel_w = 3,
                          .stride_h = 1,
                          .stride_w = 1,
                          .dilation_h = 1,
                          .dilation_w = 1,
                          .pad_top = 1,
                          .pad_left = 1,
                          .groups = 1};
}

static void candidates_go_by_estimate(void **state) {
  (void)state;
  oct_conv_shape shape = shape_of(28, 64, 64);
  int8_t *weights = calloc(64 * 64 * 9, 1);
  oct_candidate list[OCT_MAX_CANDIDATES];
  char reasons[512];
  for (int isa = 0; isa < OCT_ISA_COUNT; isa++) {
    uint32_t mask = ((2u << isa) - 1) & ctx->isa_mask;
    size_t n = oct_conv_i8_candidates(mask, &shape, weights, NULL, list, reasons, sizeof reasons);
    assert_true(n >= 1 && n <= OCT_MAX_CANDIDATES);
    const oct_conv_i8_kernel *preferred = oct_conv_i8_select_for(mask, &shape, weights, NULL, NULL, 0);
    assert_true(list[0].kernel == preferred || oct_conv_i8_estimate(preferred, &shape) > 1.2 * list[0].estimate);
    for (size_t i = 1; i < n; i++) assert_true(list[0].estimate <= 1.2 * list[i].estimate || list[0].kernel == preferred);
    assert_string_equal(reasons, "");
    for (size_t i = 0; i < n; i++) {
      assert_true(list[i].kernel->isa == OCT_ISA_SCALAR || oct_isa_allowed(mask, list[i].kernel->isa));
      assert_true(i < 2 || list[i - 1].estimate <= list[i].estimate);
      for (size_t k = 0; k < i; k++) assert_true(list[i].kernel->run != list[k].kernel->run);
    }
  }
  free(weights);
}

/* 288 channels of weights 127: an accumulator could reach 288 * 9 * 127 * 255 = 84 million, above 2^25. */
static void weights_that_are_refused_are_no_candidates(void **state) {
  (void)state;
  uint32_t mask = ctx->isa_mask & ~(UINT32_C(1) << OCT_ISA_AMX); /* tiles are preferred to these rows, whose refusal nobody asks for then */
  oct_conv_shape shape = shape_of(28, 288, 32);
  size_t bytes = 288 * 32 * 9;
  int8_t *weights = malloc(bytes);
  memset(weights, 127, bytes);
  oct_candidate list[OCT_MAX_CANDIDATES];
  char reasons[512];
  size_t n = oct_conv_i8_candidates(mask, &shape, weights, NULL, list, reasons, sizeof reasons);
  for (size_t i = 0; i < n; i++) assert_null(list[i].kernel->reject_weights);
  if (oct_isa_allowed(mask, OCT_ISA_AVX2)) assert_non_null(strstr(reasons, "33554432"));
  n = oct_conv_i8_candidates(mask, &shape, NULL, NULL, list, NULL, 0); /* not known: as good as refused */
  for (size_t i = 0; i < n; i++) assert_null(list[i].kernel->reject_weights);
  free(weights);
}

static void estimates_grow_with_the_work(void **state) {
  (void)state;
  const oct_conv_shape small = shape_of(16, 64, 64), large = shape_of(32, 64, 64);
  for (const oct_conv_i8_kernel *const *k = oct_conv_i8_kernels; *k; k++) {
    double one = oct_conv_i8_estimate(*k, &small), four = oct_conv_i8_estimate(*k, &large);
    assert_true(one > 0 && four > 3 * one && four < 5 * one);
  }
}

static void every_candidate_gives_the_same_bytes(void **state) {
  (void)state;
  oct_graph *graph = exec_parse(graph_text);
  for (int64_t batch = 1; batch <= 3; batch += 2) {
    exec_tensors inputs = exec_inputs(graph, batch), want = scalar_outputs(graph, &inputs);
    for (size_t i = 0; i < OCT_MAX_CANDIDATES; i++) {
      oct_session_options o = oct_session_options_default();
      o.candidate = i;
      session_gives(graph, o, &inputs, &want);
    }
    exec_free(&inputs);
    exec_free(&want);
  }
  oct_graph_destroy(graph);
}

/* ---- The log ---- */

static void the_log_decides_and_bytes_stay(void **state) {
  (void)state;
  oct_graph *graph = exec_parse(graph_text);
  exec_tensors inputs = exec_inputs(graph, 1), want = scalar_outputs(graph, &inputs);
  oct_session *plain = session_of(graph, oct_session_options_default(), 1);
  for (size_t pick = 0; pick < OCT_MAX_CANDIDATES; pick++) {
    oct_tune_log *log = open_log();
    size_t choices = 0;
    for (size_t i = 0; i < plain->n_steps; i++) {
      const oct_choice *c = plain->steps[i]->choice;
      oct_timed timed[OCT_MAX_CANDIDATES] = {{{0}, 0}};
      if (!c) continue;
      choices++;
      for (size_t k = 0; k < c->n_candidates; k++) {
        snprintf(timed[k].name, sizeof timed[k].name, "%s", c->candidates[k].kernel->name);
        timed[k].ms = 0.25 + (double)k;
      }
      check(oct_tune_log_put_kernel(ctx, log, c->key, timed, c->n_candidates, pick % c->n_candidates));
    }
    assert_int_equal(choices, 5);
    check(oct_tune_log_save(ctx, log));
    oct_tune_log_close(log);
    log = open_log();
    oct_session_options o = oct_session_options_default();
    o.tune_log = log;
    oct_session *session = session_of(graph, o, 1);
    for (size_t i = 0; i < plain->n_steps; i++) {
      const oct_choice *c = plain->steps[i]->choice;
      if (!c) continue;
      assert_string_equal(session->steps[i]->kernel, c->candidates[pick % c->n_candidates].kernel->name);
      assert_true(oct_tune_log_time(log, c->key, c->candidates[0].kernel->name) == 0.25);
    }
    exec_tensors got = outputs_of(session, &inputs);
    assert_true(exec_same_bytes(&got, &want));
    exec_free(&got);
    oct_session_destroy(session);
    oct_tune_log_close(log);
  }
  oct_session_destroy(plain);
  exec_free(&inputs);
  exec_free(&want);
  oct_graph_destroy(graph);
  unlink(path);
}

/* Names of no kernel, and of one that does not fit, are passed over. */
static void impossible_entries_are_passed_over(void **state) {
  (void)state;
  oct_graph *graph = exec_parse(graph_text);
  oct_session *plain = session_of(graph, oct_session_options_default(), 1);
  static const char *const names[] = {"conv_i8_of_tomorrow", "", "conv_f32_direct__scalar", "conv_i8_depthwise_3x3__avx512vnni"};
  for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
    oct_tune_log *log = open_log();
    oct_timed timed = {.ms = 1};
    snprintf(timed.name, sizeof timed.name, "%s", names[n]);
    for (size_t i = 0; i < plain->n_steps; i++)
      if (plain->steps[i]->choice && !strstr(plain->steps[i]->kernel, "depthwise"))
        check(oct_tune_log_put_kernel(ctx, log, plain->steps[i]->choice->key, &timed, 1, 0));
    oct_session_options o = oct_session_options_default();
    o.tune_log = log;
    oct_session *session = session_of(graph, o, 1);
    for (size_t i = 0; i < plain->n_steps; i++) assert_string_equal(session->steps[i]->kernel, plain->steps[i]->kernel);
    oct_session_destroy(session);
    oct_tune_log_close(log);
  }
  oct_session_destroy(plain);
  oct_graph_destroy(graph);
}

static void damaged_logs_are_left_alone(void **state) {
  (void)state;
  static const char *const texts[] = {"{",
                                      "no JSON",
                                      "[]",
                                      "17",
                                      "{}",
                                      "{\"octet_tune_log\": 2, \"processors\": {}}",
                                      "{\"octet_tune_log\": 1}",
                                      "{\"octet_tune_log\": 1, \"processors\": []}",
                                      "{\"octet_tune_log\": 1, \"processors\": {}",
                                      "PK\x03\x04",
                                      "{\"my\": \"settings\"}",
                                      "\xff\xfe{}"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    write_file(texts[i]);
    oct_warnings_clear(ctx);
    oct_tune_log *log = open_log();
    assert_int_equal(ctx->n_warnings, 1);
    assert_non_null(strstr(ctx->warnings[0], path));
    oct_timed timed = {.name = "a", .ms = 1};
    check(oct_tune_log_put_kernel(ctx, log, "key", &timed, 1, 0));
    assert_null(oct_tune_log_kernel(log, "key"));
    assert_int_equal(oct_tune_log_save(ctx, log), OCTET_UNSUPPORTED);
    assert_non_null(strstr(ctx->message, path));
    oct_tune_log_close(log);
    file_is(texts[i]);
  }
  oct_warnings_clear(ctx);
  unlink(path);
}

/* Parts of another kind than they should be are as good as absent, and are replaced by what is put there. */
static void odd_entries_are_absent(void **state) {
  (void)state;
  oct_tune_log *log = open_log();
  oct_timed timed[2] = {{"a", 2}, {"b", 1}};
  check(oct_tune_log_put_kernel(ctx, log, "key", timed, 2, 1));
  check(oct_tune_log_put_chunk(ctx, log, "key", &(oct_timed){"8", 3}, 1, 0));
  check(oct_tune_log_save(ctx, log));
  oct_tune_log_close(log);
  char text[4096] = "", changed[8192];
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  assert_true(fread(text, 1, sizeof text - 1, f) > 0);
  fclose(f);
  static const char *const changes[][2] = {{"\"layers\": {", "\"layers\": 5, \"old\": {"},
                                           {"\"chosen\": \"b\"", "\"chosen\": [1]"},
                                           {"\"chunks\": {", "\"chunks\": [], \"old\": {"},
                                           {"\"chosen\": \"8\"", "\"chosen\": \"-8\""},
                                           {"\"chosen\": \"8\"", "\"chosen\": \"99999999999999\""}};
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    const char *at = strstr(text, changes[i][0]);
    assert_non_null(at);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, changes[i][1], at + strlen(changes[i][0]));
    write_file(changed);
    log = open_log();
    assert_true(!oct_tune_log_kernel(log, "key") || oct_tune_log_chunk(log, "key") == 0);
    check(oct_tune_log_put_kernel(ctx, log, "key", timed, 2, 1));
    check(oct_tune_log_put_chunk(ctx, log, "key", &(oct_timed){"4", 3}, 1, 0));
    assert_string_equal(oct_tune_log_kernel(log, "key"), "b");
    assert_int_equal(oct_tune_log_chunk(log, "key"), 4);
    oct_tune_log_close(log);
  }
  assert_int_equal(ctx->n_warnings, 0);
  unlink(path);
}

static void other_processors_stay_in_the_file(void **state) {
  (void)state;
  write_file("{\"octet_tune_log\": 1, \"processors\": {\"Other CPU, avx2, 9\": {\"layers\": {\"key\": {\"chosen\": \"a\", \"ms\": {\"a\": "
             "1}}}}}}");
  oct_tune_log *log = open_log();
  assert_null(oct_tune_log_kernel(log, "key"));
  check(oct_tune_log_put_kernel(ctx, log, "key", &(oct_timed){"b", 2}, 1, 0));
  check(oct_tune_log_save(ctx, log));
  oct_tune_log_close(log);
  log = open_log();
  assert_string_equal(oct_tune_log_kernel(log, "key"), "b");
  oct_tune_log_close(log);
  check(oct_tune_log_open(ctx, path, 1u << OCT_ISA_SCALAR, &log)); /* another instruction set: another part */
  if (ctx->isa_mask != 1u << OCT_ISA_SCALAR) assert_null(oct_tune_log_kernel(log, "key"));
  oct_tune_log_close(log);
  char text[4096] = "";
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  assert_true(fread(text, 1, sizeof text - 1, f) > 0);
  fclose(f);
  assert_non_null(strstr(text, "Other CPU, avx2, 9"));
  unlink(path);
}

static void expect_path(const char *given, const char *want) {
  oct_tune_log *log;
  check(oct_tune_log_open(ctx, given, ctx->isa_mask, &log));
  if (want) assert_string_equal(oct_tune_log_path(log), want);
  else assert_null(log);
  oct_tune_log_close(log);
}

static void the_place_follows_the_environment(void **state) {
  (void)state;
  setenv("OCTET_TUNE_LOG", "none", 1);
  expect_path(NULL, NULL);
  expect_path("given.json", "given.json");
  expect_path("none", NULL);
  setenv("OCTET_TUNE_LOG", "/there/log.json", 1);
  expect_path(NULL, "/there/log.json");
  unsetenv("OCTET_TUNE_LOG");
  setenv("XDG_CACHE_HOME", "/cache", 1);
  setenv("HOME", "/home/me", 1);
  expect_path(NULL, "/cache/octet/tune.json");
  setenv("XDG_CACHE_HOME", "relative", 1); /* the XDG specification: to be ignored */
  expect_path(NULL, "/home/me/.cache/octet/tune.json");
  unsetenv("XDG_CACHE_HOME");
  expect_path(NULL, "/home/me/.cache/octet/tune.json");
  unsetenv("HOME");
  expect_path(NULL, NULL);
}

/* ---- Timing ---- */

static void tuning_times_every_layer_and_batch(void **state) {
  (void)state;
  oct_graph *graph = exec_parse(graph_text);
  for (int64_t batch = 1; batch <= 4; batch += 3) {
    exec_tensors inputs = exec_inputs(graph, batch), want = scalar_outputs(graph, &inputs);
    oct_tune_log *log = open_log();
    oct_session_options o = oct_session_options_default();
    o.batch = batch;
    check(oct_tune(ctx, graph, &o, 0.02, log));
    o.tune_log = log;
    oct_session *session = session_of(graph, o, batch);
    for (size_t i = 0; i < session->n_steps; i++) {
      const oct_choice *c = session->steps[i]->choice;
      if (!c) continue;
      assert_non_null(oct_tune_log_kernel(log, c->key));
      for (size_t k = 0; k < c->n_candidates; k++) assert_true(oct_tune_log_time(log, c->key, c->candidates[k].kernel->name) > 0);
      assert_non_null(strstr(session->plan.reports[session->steps[i]->node->id].why, "timed"));
    }
    if (batch > 1) {
      char key[OCT_TUNE_KEY];
      oct_tune_batch_key(session->whole, batch, 1, key);
      assert_int_equal(oct_tune_log_chunk(log, key), session->chunk);
    }
    exec_tensors got = outputs_of(session, &inputs);
    assert_true(exec_same_bytes(&got, &want));
    exec_free(&got);
    exec_free(&inputs);
    exec_free(&want);
    oct_session_destroy(session);
    oct_tune_log_close(log);
  }
  oct_graph_destroy(graph);
}

/* ---- Little memory, and threads ---- */

static void little_memory_gives_the_same_bytes(void **state) {
  (void)state;
  /* clang-format off */
  oct_graph *graph = exec_parse(
      "input x f32[N,64,16,16]\n" U8("x", "0.017", "118") W("w1", "64,64,3,3") W("w2", "64,64,3,3") "a = conv(x, w1) pads=1,1,1,1\n"
      U8("a", "0.3", "120") "y = conv(a, w2) pads=1,1,1,1\n" U8("y", "0.9", "128") "output y\n");
  /* clang-format on */
  exec_tensors inputs = exec_inputs(graph, 4), want = scalar_outputs(graph, &inputs);
  oct_session_options o = oct_session_options_default();
  oct_session *fast = session_of(graph, o, 4);
  o.memory_small = true;
  oct_session *small = session_of(graph, o, 4);
  exec_tensors got = outputs_of(small, &inputs);
  assert_true(exec_same_bytes(&got, &want));
  assert_int_equal(small->chunk, 1);
  assert_true(oct_session_weight_bytes(small) <= oct_session_weight_bytes(fast));
  assert_true(oct_session_weight_bytes(small) <
              64 * 64 * 9 * 2 * 5 / 4); /* as large as the weights are, and tables (narrow instruction sets: 16 bits) */
  assert_true(small->plan.arena_bytes <= fast->plan.arena_bytes);
  exec_free(&got);
  exec_free(&inputs);
  exec_free(&want);
  oct_session_destroy(small);
  oct_session_destroy(fast);
  oct_graph_destroy(graph);
}

/* A layer of 4 million products runs for some 40 microseconds; one of 10 thousand is over before a thread wakes. */
static void only_long_steps_are_split(void **state) {
  (void)state;
  /* clang-format off */
  oct_graph *graph = exec_parse(
      "input x f32[1,64,64,64]\n" U8("x", "0.017", "118") W("w1", "64,64,3,3") W("w2", "2,64,1,1") "a = conv(x, w1) pads=1,1,1,1\n"
      U8("a", "0.3", "120") "p = average_pool(a) kernel_shape=32,32 strides=32,32\n" U8("p", "0.1", "128") "y = conv(p, w2)\n"
      U8("y", "0.9", "128") "output y\n");
  /* clang-format on */
  exec_tensors inputs = exec_inputs(graph, 1), want = scalar_outputs(graph, &inputs);
  ctx->threads = 3;
  oct_session *session = session_of(graph, oct_session_options_default(), 1);
  size_t split = 0, whole = 0;
  for (size_t i = 0; i < session->n_steps; i++) {
    const oct_step *s = session->steps[i];
    if (!s->choice) continue;
    if (s->macs > 1e6) split += s->units >= 2 * s->grain;
    else whole += s->units < 2 * s->grain;
  }
  assert_int_equal(split, 1);
  assert_int_equal(whole, 1);
  exec_tensors got = outputs_of(session, &inputs);
  assert_true(exec_same_bytes(&got, &want));
  exec_free(&got);
  exec_free(&inputs);
  exec_free(&want);
  oct_session_destroy(session);
  ctx->threads = 1;
  oct_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(candidates_go_by_estimate),          cmocka_unit_test(weights_that_are_refused_are_no_candidates),
      cmocka_unit_test(estimates_grow_with_the_work),       cmocka_unit_test(every_candidate_gives_the_same_bytes),
      cmocka_unit_test(the_log_decides_and_bytes_stay),     cmocka_unit_test(impossible_entries_are_passed_over),
      cmocka_unit_test(damaged_logs_are_left_alone),        cmocka_unit_test(odd_entries_are_absent),
      cmocka_unit_test(other_processors_stay_in_the_file),  cmocka_unit_test(tuning_times_every_layer_and_batch),
      cmocka_unit_test(little_memory_gives_the_same_bytes), cmocka_unit_test(only_long_steps_are_split),
      cmocka_unit_test(the_place_follows_the_environment),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
