/* Comparison of a float graph with its quantized form: outputs, layers along the graph and alone, inputs outside their range, islands,
 * causes; and what the report of a conversion says of clipping. "case N": ../shared/cases.md of the project's issues.
 * SPDX-License-Identifier: MIT */
#include "quantize_checks.h"

static const oct_compare_layer *compared(const oct_compare_report *r, const char *name) {
  for (size_t i = 0; i < r->n_layers; i++)
    if (strcmp(r->layers[i].name, name) == 0) return &r->layers[i];
  fail_msg("the comparison has no layer \"%s\"", name);
  return NULL;
}

static oct_compare_report comparison(const oct_graph *g, const oct_graph *q, oct_tensor *x) {
  oct_compare_report r = {0};
  one_batch b = batch_of(x);
  must(oct_compare(ctx, g, q, next_batch, &b, &r));
  return r;
}

static oct_graph *three_layers(void) {
  weight("c1.w", oct_shape_of(4, 6, 3, 3, 3), 0.4f), weight("c1.b", oct_shape_of(1, 6), 0.2f);
  weight("c2.w", oct_shape_of(4, 4, 6, 1, 1), 0.5f), weight("fc.w", oct_shape_of(2, 5, 4), 0.5f);
  return graph_of("input x f32[N,3,8,8]\n"
                  "c1 = conv(x, c1.w, c1.b)\nr1 = relu(c1)\n"
                  "c2 = conv(r1, c2.w, _)\nh = hard_swish(c2)\n"
                  "m = global_average_pool(h)\nf = flatten(m)\n"
                  "y = gemm(f, fc.w, _) transB=1\noutput y\n");
}

static void layers_alone_are_no_worse_than_along(void **state) {
  (void)state;
  oct_graph *g = three_layers();
  oct_tensor *x = random_tensor(oct_shape_of(4, 30, 3, 8, 8), 0, 1);
  for (int io = OCT_IO_FLOAT; io <= OCT_IO_UINT8; io++) {
    oct_quantize_options o = oct_quantize_options_default();
    o.io = (oct_quantize_io)io;
    oct_graph *q = quantized(g, &o, x, NULL);
    oct_compare_report r = comparison(g, q, x);
    assert_int_equal(r.n_outputs, 1);
    assert_string_equal(r.outputs[0].name, "y");
    assert_int_equal(r.boundaries, 0);
    assert_int_equal(r.samples, 30);
    static const char *const names[] = {"c1", "c2", "h", "m", "f", "y"};
    assert_true(r.n_layers <= 6);
    for (size_t i = 0; i < 6; i++) {
      if (strcmp(names[i], "c2") == 0 && r.n_layers == 5) continue; /* inside c2's step */
      if (strcmp(names[i], "h") == 0 && r.n_layers == 5) continue;
      const oct_compare_layer *layer = compared(&r, names[i]);
      assert_string_equal(layer->type, "int8");
      assert_true(layer->sqnr_db > 25 && layer->sqnr_alone_db > 28);
      assert_true(layer->sqnr_alone_db > layer->sqnr_db - 2);
      if (i < 5) assert_true(layer->clipped < 0.01);
    }
    assert_true(fabs(compared(&r, "c1")->sqnr_db - compared(&r, "c1")->sqnr_alone_db) < 1e-6); /* the first layer has nobody before it */
    if (io == OCT_IO_FLOAT) assert_true(fabs(r.outputs[0].sqnr_db - agreement(g, q, x, 0)) < 1e-6);
    assert_true(fabs(r.outputs[0].sqnr_db - compared(&r, "y")->sqnr_db) < 1e-6);
    oct_compare_report_free(&r);
    oct_graph_destroy(q);
  }
  oct_tensor_release(x);
  oct_graph_destroy(g);
}

static void a_graph_equals_itself(void **state) {
  (void)state;
  oct_graph *g = three_layers();
  oct_tensor *x = random_tensor(oct_shape_of(4, 3, 3, 8, 8), 0, 1);
  oct_compare_report r = comparison(g, g, x);
  assert_true(isinf(r.outputs[0].sqnr_db) || r.outputs[0].sqnr_db > 120);
  for (size_t i = 0; i < r.n_layers; i++) assert_string_equal(r.layers[i].type, "float");
  oct_compare_report_free(&r);
  oct_tensor_release(x);
  oct_graph_destroy(g);
}

static void modes_are_told_apart(void **state) {
  (void)state;
  static const struct {
    oct_quantize_mode mode;
    const char *type;
  } modes[] = {{OCT_MODE_DYNAMIC, "dynamic"}, {OCT_MODE_WEIGHT_ONLY, "weight-only"}, {OCT_MODE_FP16, "float16"}};
  oct_graph *g = three_layers();
  oct_tensor *x = random_tensor(oct_shape_of(4, 5, 3, 8, 8), 0, 1);
  for (size_t i = 0; i < 3; i++) {
    oct_quantize_options o = oct_quantize_options_default();
    o.mode = modes[i].mode;
    oct_graph *q = quantized(g, &o, x, NULL);
    oct_compare_report r = comparison(g, q, x);
    assert_string_equal(compared(&r, "c1")->type, modes[i].type);
    assert_string_equal(compared(&r, "y")->type, modes[i].type);
    assert_string_equal(compared(&r, "m")->type, "float");
    assert_true(compared(&r, "y")->sqnr_db > 30);
    oct_compare_report_free(&r);
    oct_graph_destroy(q);
  }
  oct_tensor_release(x);
  oct_graph_destroy(g);
}

/* ---- case 25 ---- */

static void data_outside_the_calibrated_range_are_warned_of(void **state) {
  (void)state;
  oct_graph *g = three_layers();
  oct_tensor *x = random_tensor(oct_shape_of(4, 10, 3, 8, 8), 0, 1), *bytes = random_tensor(oct_shape_of(4, 10, 3, 8, 8), 0, 255);
  oct_graph *q = quantized(g, NULL, x, NULL);
  oct_compare_report r = comparison(g, q, bytes);
  assert_int_equal(r.n_inputs, 1);
  assert_string_equal(r.inputs[0].name, "x");
  assert_float_equal(r.inputs[0].outside, 254.0 / 255, 0.02); /* even over 0..255: 1/255 of the values lie in 0..1 */
  assert_true(has_warning(r.warnings, r.n_warnings, "input \"x\"", "outside"));
  assert_true(has_warning(r.warnings, r.n_warnings, "\"c1\" (conv)", "clipped"));
  oct_compare_report_free(&r);
  r = comparison(g, q, x);
  assert_float_equal(r.inputs[0].outside, 0, 0);
  assert_int_equal(r.n_warnings, 0);
  oct_compare_report_free(&r);
  oct_tensor_release(x);
  oct_tensor_release(bytes);
  oct_graph_destroy(q);
  oct_graph_destroy(g);
}

/* ---- case 12 ---- */

static void one_scale_per_tensor_is_named_as_the_cause(void **state) {
  (void)state;
  float *w = weight("dw", oct_shape_of(4, 32, 1, 3, 3), 1);
  for (int i = 0; i < 32 * 9; i++) w[i] *= powf(10, -(float)(i / 9) / 8);
  weight("pw", oct_shape_of(4, 4, 32, 1, 1), 1);
  oct_graph *g = graph_of("input x f32[N,32,6,6]\nd = conv(x, dw, _) group=32 pads=1,1,1,1\ny = conv(d, pw, _)\noutput y\n");
  oct_tensor *x = random_tensor(oct_shape_of(4, 8, 32, 6, 6), -1, 1);
  for (int i = 0; i < 8 * 32 * 36; i++)
    ((float *)x->data)[i] *= powf(10, (float)(i / 36 % 32) / 8 - 4); /* channels that matter are those of small weights */
  double db[2];
  for (int per_tensor = 0; per_tensor < 2; per_tensor++) {
    oct_quantize_options o = oct_quantize_options_default();
    o.per_tensor = per_tensor;
    o.keep_float = (const char *const[]){"y"};
    o.n_keep_float = 1;
    oct_quantize_report report = {0};
    oct_graph *q = quantized(g, &o, x, &report);
    oct_compare_report r = comparison(g, q, x);
    db[per_tensor] = compared(&r, "d")->sqnr_alone_db;
    if (per_tensor) {
      is_warned(&report, "\"d\" (conv)", "per tensor");
      assert_true(has_warning(r.warnings, r.n_warnings, "\"d\" (conv)", "one weight scale per tensor"));
    }
    oct_compare_report_free(&r);
    oct_quantize_report_free(&report);
    oct_graph_destroy(q);
  }
  assert_true(db[0] > db[1] + 3);
  oct_tensor_release(x);
  oct_graph_destroy(g);
}

/* ---- case 24 ---- */

static void the_report_shows_what_clipping_would_gain(void **state) {
  (void)state;
  weight("w", oct_shape_of(4, 1, 1, 1, 1), 1)[0] = 1;
  weight("v", oct_shape_of(4, 1, 1, 1, 1), 1)[0] = 1;
  oct_graph *g = graph_of("input x f32[N,1,100,100]\na = conv(x, w, _)\ny = conv(a, v, _)\noutput y\n");
  oct_tensor *x = random_tensor(oct_shape_of(4, 10, 1, 100, 100), 0, 0);
  for (int i = 0; i < 100000; i++) { /* the sum of twelve even numbers is nearly normal with variance 1 */
    float sum = 0;
    for (int k = 0; k < 12; k++) sum += even(-0.5f, 0.5f);
    ((float *)x->data)[i] = sum;
  }
  ((float *)x->data)[77777] = 400;
  oct_quantize_report r = {0};
  oct_graph *q = quantized(g, NULL, x, &r);
  const oct_value_report *a = NULL;
  for (size_t i = 0; i < r.n_values; i++)
    if (strcmp(r.values[i].name, "a") == 0) a = &r.values[i];
  assert_non_null(a);
  assert_float_equal(a->high, 400, 1);
  assert_string_equal(a->observer, "minmax");
  assert_float_equal(a->by_observer[OCT_OBSERVER_MINMAX].effect.clipped, 0, 0);
  const oct_range_choice *percentile = &a->by_observer[OCT_OBSERVER_PERCENTILE];
  assert_true(percentile->range.high < 6);
  assert_true(percentile->effect.clipped > 0 && percentile->effect.clipped < 2e-4);
  assert_true(layer_named(&r, "a")->clipped == 0);
  oct_quantize_report_free(&r);
  oct_tensor_release(x);
  oct_graph_destroy(q);
  oct_graph_destroy(g);
}

/* ---- islands; different interfaces ---- */

static void islands_are_float_layers_before_integer_ones(void **state) {
  (void)state;
  oct_graph *g = three_layers();
  oct_tensor *x = random_tensor(oct_shape_of(4, 10, 3, 8, 8), 0, 1);
  oct_quantize_options o = oct_quantize_options_default();
  o.keep_float = (const char *const[]){"c2"};
  o.n_keep_float = 1;
  oct_graph *q = quantized(g, &o, x, NULL);
  oct_compare_report r = comparison(g, q, x);
  assert_string_equal(compared(&r, "c2")->type, "float");
  assert_true(compared(&r, "c2")->island);
  assert_false(compared(&r, "y")->island);
  assert_true(r.boundaries > 0);
  assert_true(isnan(compared(&r, "c2")->sqnr_alone_db));
  oct_compare_report_free(&r);
  oct_tensor_release(x);
  oct_graph_destroy(q);
  oct_graph_destroy(g);
}

static void graphs_must_match(void **state) {
  (void)state;
  oct_graph *g = three_layers(), *other = graph_of("input z f32[N,3,8,8]\nr = relu(z)\noutput r\n"),
            *two = graph_of("input x f32[N,3,8,8]\nr = relu(x)\noutput r\noutput x\n");
  oct_tensor *x = random_tensor(oct_shape_of(4, 1, 3, 8, 8), 0, 1);
  one_batch b = batch_of(x), none = {.times = 0};
  oct_compare_report r = {0};
  assert_int_equal(oct_compare(ctx, g, other, next_batch, &b, &r), OCTET_INVALID_ARGUMENT);
  oct_compare_report_free(&r);
  assert_int_equal(oct_compare(ctx, g, two, next_batch, &b, &r), OCTET_INVALID_ARGUMENT);
  oct_compare_report_free(&r);
  assert_int_equal(oct_compare(ctx, g, g, next_batch, &none, &r), OCTET_DATA);
  oct_compare_report_free(&r);
  oct_tensor_release(x);
  oct_graph_destroy(g);
  oct_graph_destroy(other);
  oct_graph_destroy(two);
}

static void every_failed_allocation_is_survived(void **state) {
  (void)state;
  oct_graph *g = three_layers();
  oct_tensor *x = random_tensor(oct_shape_of(4, 2, 3, 8, 8), 0, 1);
  oct_graph *q = quantized(g, NULL, x, NULL);
  octet_status status = OCTET_OUT_OF_MEMORY;
  for (int64_t n = 0; status != OCTET_OK; n++) {
    one_batch b = batch_of(x);
    oct_compare_report r = {0};
    ctx->allocations_left = n;
    status = oct_compare(ctx, g, q, next_batch, &b, &r);
    ctx->allocations_left = -1;
    if (status != OCTET_OK) assert_int_equal(status, OCTET_OUT_OF_MEMORY);
    oct_compare_report_free(&r);
    assert_true(n < 100000);
  }
  oct_tensor_release(x);
  oct_graph_destroy(q);
  oct_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(layers_alone_are_no_worse_than_along, setup, teardown),
      cmocka_unit_test_setup_teardown(a_graph_equals_itself, setup, teardown),
      cmocka_unit_test_setup_teardown(modes_are_told_apart, setup, teardown),
      cmocka_unit_test_setup_teardown(data_outside_the_calibrated_range_are_warned_of, setup, teardown),
      cmocka_unit_test_setup_teardown(one_scale_per_tensor_is_named_as_the_cause, setup, teardown),
      cmocka_unit_test_setup_teardown(the_report_shows_what_clipping_would_gain, setup, teardown),
      cmocka_unit_test_setup_teardown(islands_are_float_layers_before_integer_ones, setup, teardown),
      cmocka_unit_test_setup_teardown(graphs_must_match, setup, teardown),
      cmocka_unit_test_setup_teardown(every_failed_allocation_is_survived, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
