/* The library as octet.h shows it: the three calls, options, errors that name things, sessions, arrays in files, tables of what is built in.
 * Quantization and comparison are in test_api_quantize.c.
 * SPDX-License-Identifier: MIT */
#include "api_checks.h"

static void three_calls(void **state) {
  (void)state;
  octet_model *model;
  octet_session *session;
  check(octet_model_read(ctx, MNIST "mnist.oct", NULL, &model));
  check(octet_session_create(model, NULL, &session));
  check(octet_session_run(session)); /* a black image */
  assert_int_equal(octet_session_input_count(session), 1);
  assert_int_equal(octet_session_output_count(session), 1);
  octet_tensor in = octet_session_input(session, 0), out = octet_session_output(session, 0);
  assert_string_equal(in.name, "input");
  assert_string_equal(in.dtype, "f32");
  assert_int_equal(in.rank, 4);
  assert_int_equal(in.dims[0], 1);
  assert_int_equal(in.dims[3], 28);
  assert_int_equal(in.bytes, 784 * 4);
  assert_string_equal(out.name, "output");
  assert_int_equal(out.rank, 2);
  assert_int_equal(out.dims[1], 10);
  /* A session does not need its model any more, and an index out of range is an empty tensor. */
  octet_model_destroy(model);
  check(octet_session_run(session));
  assert_null(octet_session_input(session, 1).data);
  assert_null(octet_session_output(session, 7).name);
  octet_session_destroy(session);
}

static void first_ten_digits(void **state) {
  (void)state;
  static const int truth[10] = {7, 2, 1, 0, 4, 1, 4, 9, 5, 9}; /* the test set's first labels */
  octet_model *model = read_model(MNIST "mnist.oct");
  octet_dataset *data = open_digits(model, 0, 0);
  octet_session_options o = octet_session_options_default();
  octet_session *session;
  int right = 0;
  assert_int_equal(octet_dataset_count(data), 10000);
  o.batch = 10;
  check(octet_session_create(model, &o, &session));
  check(octet_dataset_fill(data, 0, 10, session));
  check(octet_session_run(session));
  const float *scores = octet_session_output(session, 0).data;
  for (int n = 0; n < 10; n++) {
    int best = 0;
    for (int k = 1; k < 10; k++)
      if (scores[n * 10 + k] > scores[n * 10 + best]) best = k;
    right += best == truth[n];
  }
  assert_true(right >= 9);
  refuses(OCTET_INVALID_ARGUMENT, "10000", octet_dataset_fill(data, 9995, 10, session));
  octet_session_destroy(session);
  octet_accuracy a;
  check(octet_evaluate(model, data, LABELS, 500, NULL, &a));
  assert_int_equal(a.total, 500);
  assert_true(a.correct >= 470 && a.correct5 >= a.correct && a.images_per_second > 0);
  assert_true(fabs(a.top1 - (double)a.correct / 500) < 1e-12);
  octet_dataset_destroy(data);
  octet_model_destroy(model);
}

/* ---- Options ---- */

static void options_have_sizes(void **state) {
  (void)state;
  octet_model *model = read_model(MNIST "mnist.oct");
  octet_session *session = NULL;
  octet_session_options o = octet_session_options_default();
  assert_int_equal(o.struct_size, sizeof o);
  assert_int_equal(o.batch, 0);
  assert_null(o.isa);
  octet_quantize_options q = octet_quantize_options_default();
  assert_int_equal(q.struct_size, sizeof q);
  assert_string_equal(q.mode, "int8");
  assert_false(q.per_tensor || q.symmetric || q.strict);
  /* A program built against an older header knows fewer fields: the rest has defaults, whatever bytes follow. */
  memset(&o, 0x55, sizeof o);
  o.struct_size = offsetof(octet_session_options, shapes);
  o.batch = 3;
  check(octet_session_create(model, &o, &session));
  assert_int_equal(octet_session_input(session, 0).dims[0], 3);
  octet_session_destroy(session);
  o = octet_session_options_default();
  o.struct_size = 0;
  refuses(OCTET_INVALID_ARGUMENT, "struct_size", octet_session_create(model, &o, &session));
  assert_null(session);
  o.struct_size = sizeof o + 8;
  refuses(OCTET_INVALID_ARGUMENT, "struct_size", octet_session_create(model, &o, &session));
  octet_model *quantized = NULL;
  q.struct_size = 3;
  refuses(OCTET_INVALID_ARGUMENT, "struct_size", octet_quantize(model, NULL, &q, &quantized));
  assert_null(quantized);
  octet_model_destroy(model);
}

static void options_are_checked(void **state) {
  (void)state;
  octet_model *model = read_model(MNIST "mnist.oct"), *quantized = NULL;
  octet_session *session = NULL;
  octet_session_options o = octet_session_options_default();
  o.isa = "mmx";
  refuses(OCTET_INVALID_ARGUMENT, "mmx", octet_session_create(model, &o, &session));
  o = octet_session_options_default();
  o.no_fuse = "residual,sideways";
  refuses(OCTET_INVALID_ARGUMENT, "sideways", octet_session_create(model, &o, &session));
  o = octet_session_options_default();
  octet_tensor shape = {.name = "image", .rank = 4, .dims = {1, 1, 28, 28}};
  o.shapes = &shape;
  o.n_shapes = 1;
  refuses(OCTET_INVALID_ARGUMENT, "image", octet_session_create(model, &o, &session));
  shape.name = "input";
  shape.dims[2] = 27;
  refuses(OCTET_SHAPE, "input", octet_session_create(model, &o, &session));
  shape.rank = 9;
  refuses(OCTET_INVALID_ARGUMENT, "rank", octet_session_create(model, &o, &session));
  shape = (octet_tensor){.name = "input", .dtype = "f32", .rank = 4, .dims = {1, 1, 28, 28}, .data = &shape, .bytes = 5};
  refuses(OCTET_INVALID_ARGUMENT, "5 bytes", octet_session_create(model, &o, &session));
  static const struct {
    const char *mode, *observer, *io, *word;
    double percentile;
  } wrong[] = {{"int3", NULL, "float", "int3", 0},
               {"int8", "median", "float", "median", 0},
               {"int8", NULL, "int4", "int4", 0},
               {"int8", "percentile", "float", "percentile", 20}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    octet_quantize_options q = octet_quantize_options_default();
    q.mode = wrong[i].mode;
    q.observer = wrong[i].observer;
    q.io = wrong[i].io;
    q.percentile = wrong[i].percentile;
    refuses(OCTET_INVALID_ARGUMENT, wrong[i].word, octet_quantize(model, NULL, &q, &quantized));
  }
  refuses(OCTET_INVALID_ARGUMENT, "calibration data", octet_quantize(model, NULL, NULL, &quantized));
  const char *const names[] = {"conv9"};
  octet_quantize_options q = octet_quantize_options_default();
  q.mode = "weight-only";
  q.keep_float = names;
  q.n_keep_float = 1;
  refuses(OCTET_INVALID_ARGUMENT, "conv9", octet_quantize(model, NULL, &q, &quantized));
  q = octet_quantize_options_default();
  q.config = "no-such-config.json";
  refuses(OCTET_IO, "no-such-config.json", octet_quantize(model, NULL, &q, &quantized));
  refuses(OCTET_INVALID_ARGUMENT, "0", octet_context_set_threads(ctx, 0));
  refuses(OCTET_INVALID_ARGUMENT, "257", octet_context_set_threads(ctx, 257));
  refuses(OCTET_INVALID_ARGUMENT, "sse", octet_context_set_isa(ctx, "sse"));
  octet_model_destroy(model);
}

/* ---- Errors ---- */

static void errors_name_things(void **state) {
  (void)state;
  octet_model *model = NULL;
  octet_dataset *data = NULL;
  refuses(OCTET_IO, "nowhere/model.onnx", octet_model_read(ctx, "nowhere/model.onnx", NULL, &model));
  assert_null(model);
  refuses(OCTET_UNSUPPORTED, ".txt", octet_model_read(ctx, MNIST "LICENSE.txt", NULL, &model));
  write_text("bad.oct", "octet 1\ninput x f32[1,3]\ny = reluu(x)\noutput y\n");
  refuses(OCTET_FORMAT, "bad.oct", octet_model_read(ctx, "bad.oct", NULL, &model));
  assert_non_null(strstr(octet_context_message(ctx), "line 3"));
  assert_non_null(strstr(octet_context_message(ctx), "relu"));
  write_text("shape.oct", "octet 1\ninput x f32[1,3]\ninput z f32[1,4]\ny = add(x, z) as \"the sum\"\noutput y\n");
  octet_status status = octet_model_read(ctx, "shape.oct", NULL, &model);
  assert_int_not_equal(status, OCTET_OK);
  assert_non_null(strstr(octet_context_message(ctx), "the sum"));
  refuses(OCTET_IO, "digits.gz", octet_dataset_open(ctx, "digits.gz", NULL, NULL, &data));
  refuses(OCTET_INVALID_ARGUMENT, "scal", octet_dataset_open(ctx, IMAGES, "scal=1/255", NULL, &data));
  model = read_model(MNIST "mnist.oct");
  refuses(OCTET_UNSUPPORTED, "model.xyz", octet_model_write(model, "model.xyz"));
  refuses(OCTET_IO, "nowhere", octet_model_write(model, "nowhere/model.onnx"));
  data = open_digits(model, 3, 0);
  octet_accuracy a;
  refuses(OCTET_IO, "no-labels", octet_evaluate(model, data, "no-labels", 0, NULL, &a));
  octet_dataset_destroy(data);
  octet_model_destroy(model);
  remove("bad.oct");
  remove("shape.oct");
}

static void statuses_have_names(void **state) {
  (void)state;
  assert_string_equal(octet_status_name(OCTET_OK), "ok");
  assert_string_equal(octet_status_name(OCTET_NOT_INTEGER), "cannot be integer");
  assert_non_null(octet_status_name((octet_status)99));
  assert_true(strlen(octet_version()) >= 5);
  octet_context *own;
  assert_int_equal(octet_context_create(&own), OCTET_OK);
  assert_string_equal(octet_context_message(own), "");
  assert_int_equal(octet_context_set_isa(own, "scalar"), OCTET_OK);
  assert_string_equal(octet_context_isa(own), "scalar");
  octet_context_destroy(own);
  octet_context_destroy(NULL);
  octet_model_destroy(NULL);
  octet_session_destroy(NULL);
  octet_dataset_destroy(NULL);
  octet_calibration_destroy(NULL);
  octet_comparison_destroy(NULL);
}

static void weights_that_do_not_match_are_warnings(void **state) {
  (void)state;
  octet_model *model = NULL;
  float one[3] = {1, 2, 3};
  octet_tensor t = {.name = "stranger", .dtype = "f32", .rank = 1, .dims = {3}, .data = one, .bytes = sizeof one};
  check(octet_tensor_write(ctx, "stranger.npy", &t));
  octet_context_clear_warnings(ctx);
  octet_status status = octet_model_read(ctx, MNIST "mnist.oct", "stranger.npy", &model);
  if (status == OCTET_OK) {
    assert_true(octet_context_warning_count(ctx) > 0);
    bool named = false;
    for (size_t i = 0; i < octet_context_warning_count(ctx); i++) named = named || strstr(octet_context_warning(ctx, i), "stranger");
    assert_true(named);
  } else {
    assert_non_null(strstr(octet_context_message(ctx), "stranger"));
  }
  octet_context_clear_warnings(ctx);
  assert_int_equal(octet_context_warning_count(ctx), 0);
  assert_string_equal(octet_context_warning(ctx, 0), "");
  octet_model_destroy(model);
  remove("stranger.npy");
}

/* ---- Sessions: what is in them, and how fast they are ---- */

static void sessions_can_be_looked_at(void **state) {
  (void)state;
  octet_model *model = read_model(MNIST "mnist.oct");
  octet_session *session;
  octet_session_options o = octet_session_options_default();
  octet_timing t;
  o.batch = 2;
  check(octet_session_create(model, &o, &session));
  double macs = 0, seconds = 0, by_step = 0;
  for (size_t i = 0; i < octet_session_layer_count(session); i++) macs += octet_session_layer(session, i).macs;
  /* conv1 8x9 on 15x15, conv2 16x8x4 on 11x11, conv3 32x16x4 on 9x9, fc 32x10; pooling takes no products */
  assert_true(fabs(macs - 2 * (72.0 * 225 + 512.0 * 121 + 2048.0 * 81 + 320)) < 0.5);
  check(octet_session_run_profiled(session));
  for (size_t i = 0; i < octet_session_layer_count(session); i++) {
    octet_layer l = octet_session_layer(session, i);
    assert_non_null(l.name);
    assert_non_null(l.type);
    assert_true(l.kernel || l.fused_into || l.reason || strcmp(l.op, "flatten") == 0); /* which is a view */
    seconds += l.seconds;
  }
  for (size_t i = 0; i < octet_session_step_count(session); i++) by_step += octet_session_step(session, i).seconds;
  assert_true(seconds > 0 && by_step >= seconds * 0.999);
  assert_true(octet_session_arena_bytes(session) > 2 * 784 * 4);
  assert_true(octet_session_weight_bytes(session) >= 12000);
  assert_int_equal(octet_session_boundary_count(session), 0);
  check(octet_session_time(session, 0.01, &t));
  assert_true(t.runs >= 3 && t.min_ms > 0 && t.min_ms <= t.median_ms && t.median_ms <= t.p90_ms && t.p90_ms <= t.p99_ms);
  octet_session_destroy(session);
  octet_model_destroy(model);
}

/* A bound input is no input of the session any more. */
static void inputs_can_be_bound(void **state) {
  (void)state;
  write_text("bind.oct", "octet 1\ninput x f32[2,6]\ninput s i64[2]\ny = reshape(x, s)\noutput y\n");
  octet_model *model = read_model("bind.oct");
  octet_session_options o = octet_session_options_default();
  octet_session *session = NULL;
  int64_t value[2] = {3, 4};
  octet_tensor s = {.name = "s", .dtype = "i64", .rank = 1, .dims = {2}, .data = value, .bytes = sizeof value};
  refuses(OCTET_UNSUPPORTED, "\"y\"", octet_session_create(model, &o, &session));
  o.shapes = &s;
  o.n_shapes = 1;
  check(octet_session_create(model, &o, &session));
  value[0] = 77; /* was copied */
  assert_int_equal(octet_session_input_count(session), 1);
  check(octet_session_run(session));
  assert_int_equal(octet_session_output(session, 0).dims[0], 3);
  assert_int_equal(octet_session_output(session, 0).dims[1], 4);
  octet_session_destroy(session);
  octet_model_destroy(model);
  remove("bind.oct");
}

static void optimizing_keeps_the_result(void **state) {
  (void)state;
  octet_model *model = read_model(MNIST "mnist.oct");
  check(octet_model_optimize(model, "dead_code,common_subexpressions"));
  refuses(OCTET_INVALID_ARGUMENT, "no_such_pass", octet_model_optimize(model, "no_such_pass"));
  check(octet_model_set_metadata(model, "author", "somebody"));
  assert_string_equal(octet_model_metadata(model, "author"), "somebody");
  assert_string_equal(octet_model_metadata(model, "preprocess"), "scale=1/255");
  assert_null(octet_model_metadata(model, "nothing"));
  check(octet_model_write(model, "kept.onnx"));
  octet_model *again = read_model("kept.onnx");
  assert_string_equal(octet_model_metadata(again, "author"), "somebody");
  assert_string_equal(octet_model_input(again, 0).name, "input");
  assert_true(octet_model_input(again, 0).dims[0] < 0);
  assert_int_equal(octet_model_output_count(again), 1);
  octet_model_destroy(again);
  octet_model_destroy(model);
  remove("kept.onnx");
}

static void arrays_go_to_files_and_back(void **state) {
  (void)state;
  int16_t numbers[6] = {-32768, -1, 0, 1, 2, 32767};
  octet_tensor t = {.name = "n", .dtype = "i16", .rank = 2, .dims = {2, 3}, .data = numbers, .bytes = sizeof numbers}, back;
  check(octet_tensor_write(ctx, "array.npy", &t));
  check(octet_tensor_read(ctx, "array.npy", &back));
  assert_string_equal(back.dtype, "i16");
  assert_int_equal(back.rank, 2);
  assert_int_equal(back.dims[1], 3);
  assert_memory_equal(back.data, numbers, sizeof numbers);
  octet_tensor_free(&back);
  octet_tensor_free(&back); /* empty now */
  t.bytes = 4;
  refuses(OCTET_INVALID_ARGUMENT, "array.npy", octet_tensor_write(ctx, "array.npy", &t));
  t = (octet_tensor){.rank = 1, .dims = {1}};
  refuses(OCTET_INVALID_ARGUMENT, "array.npy", octet_tensor_write(ctx, "array.npy", &t));
  remove("array.npy");
  refuses(OCTET_IO, "array.npy", octet_tensor_read(ctx, "array.npy", &back));
}

static void the_build_knows_itself(void **state) {
  (void)state;
  bool conv = false, sorted = true;
  for (size_t i = 0; i < octet_operator_count(); i++) {
    octet_operator_info o = octet_operator(i);
    assert_non_null(o.summary);
    assert_non_null(o.quantization);
    if (i && strcmp(octet_operator(i - 1).name, o.name) >= 0) sorted = false;
    if (strcmp(o.name, "conv") == 0) conv = o.has_lowering && strcmp(o.onnx_import, "Conv") == 0 && strcmp(o.quantization, "integer") == 0;
  }
  assert_true(conv && sorted);
  assert_null(octet_operator(100000).name);
  assert_null(octet_operator_import(0, 1000));
  assert_true(octet_kernel_count() > 10);
  assert_non_null(octet_kernel_name(octet_kernel_count() - 1));
  assert_null(octet_kernel_name(octet_kernel_count()));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(three_calls),
      cmocka_unit_test(first_ten_digits),
      cmocka_unit_test(options_have_sizes),
      cmocka_unit_test(options_are_checked),
      cmocka_unit_test(errors_name_things),
      cmocka_unit_test(statuses_have_names),
      cmocka_unit_test(weights_that_do_not_match_are_warnings),
      cmocka_unit_test(sessions_can_be_looked_at),
      cmocka_unit_test(inputs_can_be_bound),
      cmocka_unit_test(optimizing_keeps_the_result),
      cmocka_unit_test(arrays_go_to_files_and_back),
      cmocka_unit_test(the_build_knows_itself),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
