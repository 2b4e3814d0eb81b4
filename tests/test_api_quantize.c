/* The library as octet.h shows it: quantization in one call and in steps, what its reports say, comparison, cancelling.
 * SPDX-License-Identifier: MIT */
#include "api_checks.h"

static size_t file_size(const char *path) {
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  fseek(f, 0, SEEK_END);
  long size = ftell(f);
  fclose(f);
  return (size_t)size;
}

/* The batch as a caller of the steps has it. */
static void observe_in_steps(octet_calibration *calibration, octet_dataset *data, octet_session *session, size_t batch, size_t total) {
  for (size_t first = 0; first < total; first += batch) {
    check(octet_dataset_fill(data, first, batch, session));
    octet_tensor in = octet_session_input(session, 0);
    check(octet_calibration_observe(calibration, &in, 1));
  }
}

static void steps_do_what_one_call_does(void **state) {
  (void)state;
  octet_model *model = read_model(MNIST "mnist.oct"), *at_once = NULL, *in_steps = NULL;
  octet_dataset *data = open_digits(model, 200, 3);
  octet_calibration *calibration = NULL;
  octet_session *session = NULL;
  octet_session_options o = octet_session_options_default();
  check(octet_quantize(model, data, NULL, &at_once));
  check(octet_calibration_create(model, NULL, &calibration));
  octet_model *early = NULL;
  octet_status status = octet_calibration_convert(calibration, &early); /* nothing was observed */
  assert_int_not_equal(status, OCTET_OK);
  assert_null(early);
  o.batch = 40;
  check(octet_session_create(model, &o, &session));
  observe_in_steps(calibration, data, session, 40, 200);
  check(octet_calibration_convert(calibration, &in_steps));
  check(octet_model_write(at_once, "once.onnx"));
  check(octet_model_write(in_steps, "steps.onnx"));
  size_t bytes = file_size("once.onnx");
  assert_int_equal(bytes, file_size("steps.onnx"));
  char *a = malloc(bytes), *b = malloc(bytes);
  FILE *f = fopen("once.onnx", "rb"), *g = fopen("steps.onnx", "rb");
  assert_true(a && b && fread(a, 1, bytes, f) == bytes && fread(b, 1, bytes, g) == bytes);
  assert_memory_equal(a, b, bytes);
  fclose(f);
  fclose(g);
  free(a);
  free(b);
  /* Errors of the steps. */
  octet_tensor in = octet_session_input(session, 0);
  octet_tensor wrong = in;
  wrong.name = "picture";
  assert_int_not_equal(octet_calibration_observe(calibration, &wrong, 1), OCTET_OK);
  assert_non_null(strstr(octet_context_message(ctx), "input"));
  wrong = in;
  wrong.dims[3] = 14;
  refuses(OCTET_INVALID_ARGUMENT, "bytes", octet_calibration_observe(calibration, &wrong, 1));
  ((float *)in.data)[5] = NAN;
  refuses(OCTET_DATA, "input", octet_calibration_observe(calibration, &in, 1));
  octet_session_destroy(session);
  octet_calibration_destroy(calibration);
  octet_dataset_destroy(data);
  octet_model_destroy(at_once);
  octet_model_destroy(in_steps);
  octet_model_destroy(model);
  remove("once.onnx");
  remove("steps.onnx");
}

static void reports_tell_what_was_done(void **state) {
  (void)state;
  octet_model *model = read_model(MNIST "mnist.oct"), *q = NULL;
  octet_dataset *data = open_digits(model, 100, 0);
  octet_comparison *comparison = NULL;
  check(octet_quantize(model, data, NULL, &q));
  assert_int_equal(octet_model_quantized_layer_count(model), 0);
  assert_int_equal(octet_model_quantized_boundaries(model), -1);
  assert_int_equal(octet_model_quantized_boundaries(q), 0);
  assert_true(octet_model_quantized_layer_count(q) >= 9);
  for (size_t i = 0; i < octet_model_quantized_layer_count(q); i++) assert_string_equal(octet_model_quantized_layer(q, i).type, "int8");
  assert_null(octet_model_quantized_layer(q, 1000).name);
  assert_true(octet_model_quantized_value_count(q) >= 5);
  double low, high, clipped, sqnr;
  octet_quantized_value v = octet_model_quantized_value(q, 0);
  assert_string_equal(v.name, "input");
  assert_true(fabs(v.scale - 1.0f / 255) < 1e-6f); /* pixels / 255: the whole range is used */
  assert_true(octet_model_quantized_alternative(q, 0, "kl", &low, &high, &clipped, &sqnr));
  assert_true(low >= 0 && high > 0.2 && high <= 1.0001 && clipped >= 0 && clipped < 0.5);
  assert_false(octet_model_quantized_alternative(q, 0, "guess", &low, &high, &clipped, &sqnr));
  assert_true(octet_model_weight_bytes(q) <= 4000);
  assert_true(octet_model_weight_bytes(model) > 3 * octet_model_weight_bytes(q));
  assert_int_equal(octet_model_parameter_count(q), octet_model_parameter_count(model));
  assert_int_equal(octet_model_parameter_count(model), 8 * 9 + 8 + 16 * 8 * 4 + 16 + 32 * 16 * 4 + 32 + 320 + 10);
  check(octet_compare(model, q, data, 0, &comparison));
  assert_int_equal(octet_comparison_output_count(comparison), 1);
  assert_true(octet_comparison_output(comparison, 0).sqnr_db > 20);
  assert_true(octet_comparison_output(comparison, 0).max_error > 0);
  assert_true(octet_comparison_layer_count(comparison) >= 9);
  for (size_t i = 0; i < octet_comparison_layer_count(comparison); i++) assert_true(octet_comparison_layer(comparison, i).sqnr_db > 15);
  octet_comparison_destroy(comparison);
  /* A model compared with itself. */
  check(octet_compare(model, model, data, 10, &comparison));
  assert_true(isinf(octet_comparison_output(comparison, 0).sqnr_db) && octet_comparison_output(comparison, 0).max_error == 0);
  octet_comparison_destroy(comparison);
  octet_dataset_destroy(data);
  octet_model_destroy(q);
  octet_model_destroy(model);
}

/* ---- Cancelling ---- */

typedef struct patience {
  int calls, limit;
} patience;

static bool be_patient(void *user, const char *what, size_t done, size_t total) {
  patience *p = user;
  assert_non_null(what);
  assert_true(total == 0 || done <= total);
  p->calls++;
  return p->limit < 0 || p->calls <= p->limit;
}

static void progress_can_cancel(void **state) {
  (void)state;
  octet_model *model = read_model(MNIST "mnist.oct"), *quantized = NULL;
  octet_dataset *data = open_digits(model, 600, 0);
  octet_quantize_options q = octet_quantize_options_default();
  octet_accuracy a;
  octet_comparison *comparison = NULL;
  q.batch = 50;
  patience p = {.limit = -1};
  octet_context_set_progress(ctx, be_patient, &p);
  check(octet_quantize(model, data, &q, &quantized));
  int all = p.calls;
  assert_true(all >= 12); /* one per batch */
  for (int limit = 0; limit < all; limit += 1 + all / 4) {
    octet_model *none = NULL;
    p = (patience){.limit = limit};
    refuses(OCTET_CANCELLED, "cancelled", octet_quantize(model, data, &q, &none));
    assert_null(none);
  }
  p = (patience){.limit = 0};
  refuses(OCTET_CANCELLED, "", octet_evaluate(model, data, LABELS, 0, NULL, &a));
  p = (patience){.limit = 0};
  refuses(OCTET_CANCELLED, "", octet_compare(model, quantized, data, 0, &comparison));
  assert_null(comparison);
  octet_context_set_progress(ctx, NULL, NULL);
  check(octet_evaluate(model, data, LABELS, 0, NULL, &a));
  octet_dataset_destroy(data);
  octet_model_destroy(quantized);
  octet_model_destroy(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steps_do_what_one_call_does),
      cmocka_unit_test(reports_tell_what_was_done),
      cmocka_unit_test(progress_can_cancel),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
