/* Quantization of whole graphs: which layers become integer, what stays float and why, activations, joins, inputs and outputs, modes.
 * Weights and biases are in test_quantize_weights.c, comparison in test_compare.c. "case N": ../shared/cases.md of the project's issues.
 * SPDX-License-Identifier: MIT */
#include "quantize_checks.h"

/* ---- a plain net ---- */

static oct_graph *plain_net(void) {
  weight("c1.w", oct_shape_of(4, 8, 3, 3, 3), 0.4f), weight("c1.b", oct_shape_of(1, 8), 0.3f);
  weight("c2.w", oct_shape_of(4, 6, 8, 3, 3), 0.3f), weight("c2.b", oct_shape_of(1, 6), 0.3f);
  weight("fc.w", oct_shape_of(2, 5, 6), 0.5f), weight("fc.b", oct_shape_of(1, 5), 0.3f);
  return graph_of("input x f32[N,3,10,10]\n"
                  "c1 = conv(x, c1.w, c1.b) pads=1,1,1,1\n"
                  "r1 = relu(c1)\n"
                  "p1 = max_pool(r1) kernel_shape=2,2 strides=2,2\n"
                  "c2 = conv(p1, c2.w, c2.b)\n"
                  "r2 = relu(c2)\n"
                  "g = global_average_pool(r2)\n"
                  "f = flatten(g)\n"
                  "y = gemm(f, fc.w, fc.b) transB=1\n"
                  "output y\n");
}

static void a_plain_net_is_all_integer(void **state) {
  (void)state;
  oct_graph *g = plain_net();
  oct_tensor *x = random_tensor(oct_shape_of(4, 40, 3, 10, 10), 0, 1);
  oct_quantize_report r = {0};
  oct_graph *q = quantized(g, NULL, x, &r);
  all_layers_are(&r, "int8");
  assert_int_equal(r.boundaries, 0);
  assert_int_equal(r.n_float, 0);
  assert_int_equal(r.n_warnings, 0);
  assert_null(value_named(q, "c1")->quant); /* interior of conv + relu */
  assert_non_null(value_named(q, "r1")->quant);
  assert_true(oct_quant_equal(value_named(q, "r1")->quant, value_named(q, "p1")->quant));
  assert_null(value_named(q, "y")->quant); /* floats straight from the accumulators */
  const oct_quant *in = value_named(q, "x")->quant;
  assert_float_equal(in->scale[0], 1.0f / 255, 1e-5); /* the input's scale is that of its data */
  assert_int_equal(in->zero_point[0], 0);
  assert_true(agreement(g, q, x, 0) > 30);
  oct_quantize_report_free(&r);
  oct_tensor_release(x);
  oct_graph_destroy(q);
  oct_graph_destroy(g);
}

static void every_observer_converts(void **state) {
  (void)state;
  oct_graph *g = plain_net();
  oct_tensor *x = random_tensor(oct_shape_of(4, 40, 3, 10, 10), 0, 1);
  for (int kind = 0; kind < OCT_OBSERVER_KINDS; kind++)
    for (int symmetric = 0; symmetric < 2; symmetric++) {
      oct_quantize_options o = oct_quantize_options_default();
      o.observer = (oct_observer_kind)kind;
      o.symmetric = symmetric;
      oct_graph *q = quantized(g, &o, x, NULL);
      assert_true(agreement(g, q, x, 0) > (kind == OCT_OBSERVER_KL || kind == OCT_OBSERVER_MOVING_AVERAGE ? 12 : 24));
      if (symmetric) assert_int_equal(value_named(q, "r1")->quant->zero_point[0], 128);
      oct_graph_destroy(q);
    }
  oct_tensor_release(x);
  oct_graph_destroy(g);
}

/* ---- data: case 3, case 4 ---- */

static void no_samples_are_an_error(void **state) {
  (void)state;
  oct_graph *g = plain_net(), *q;
  oct_quantize_options o = oct_quantize_options_default();
  one_batch none = {.times = 0};
  assert_int_equal(oct_quantize_graph(ctx, g, &o, next_batch, &none, &q, NULL), OCTET_DATA);
  assert_non_null(strstr(ctx->message, "no samples"));
  assert_null(q);
  oct_graph_destroy(g);
}

static void an_all_zero_image_is_warned_of_by_name(void **state) {
  (void)state;
  oct_graph *g = plain_net();
  oct_tensor *x = random_tensor(oct_shape_of(4, 1, 3, 10, 10), 0, 0);
  oct_quantize_report r = {0};
  oct_graph *q = quantized(g, NULL, x, &r);
  is_warned(&r, "\"x\"", "only zeros");
  for (size_t i = 0; i < q->n_values; i++) {
    const oct_quant *p = q->values[i]->quant;
    for (int64_t c = 0; p && c < p->count; c++) assert_true(p->scale[c] > 1e-12f && isfinite(p->scale[c]));
  }
  oct_quantize_report_free(&r);
  oct_tensor_release(x);
  oct_graph_destroy(q);
  oct_graph_destroy(g);
}

static void unused_branches_are_pruned_and_live_ones_must_be_observed(void **state) {
  (void)state;
  weight("w", oct_shape_of(4, 2, 2, 1, 1), 1), weight("dead", oct_shape_of(4, 2, 2, 1, 1), NAN);
  oct_graph *g = graph_of("input x f32[N,2,4,4]\ninput gone f32[N,0,4,4]\n"
                          "d = conv(x, dead, _)\n"
                          "e = relu(d)\n"
                          "y = conv(x, w, _)\n"
                          "output y\n");
  oct_calibration *c;
  oct_quantize_options o = oct_quantize_options_default();
  must(oct_quantize_prepare(ctx, g, &o, &c));
  oct_graph *q;
  assert_int_equal(oct_calibration_convert(c, &q, NULL), OCTET_DATA);
  assert_non_null(strstr(ctx->message, "\"x\""));
  oct_tensor *x = random_tensor(oct_shape_of(4, 3, 2, 4, 4), -1, 1), *gone = random_tensor(oct_shape_of(4, 3, 0, 4, 4), 0, 1);
  oct_named_tensor both[2] = {{.name = "x", .tensor = x}, {.name = "gone", .tensor = gone}};
  assert_int_equal(oct_calibration_observe(c, both, 2), OCTET_DATA); /* an empty tensor is an error that names the input */
  assert_non_null(strstr(ctx->message, "gone"));
  oct_tensor_release(x);
  oct_tensor_release(gone);
  oct_calibration_destroy(c);
  oct_graph_destroy(g);
}

static void unusable_samples_are_errors_that_name_the_input(void **state) {
  (void)state;
  oct_graph *g = plain_net(), *q;
  oct_quantize_options o = oct_quantize_options_default();
  oct_tensor *x = random_tensor(oct_shape_of(4, 2, 3, 10, 10), 0, 1), *small = random_tensor(oct_shape_of(4, 2, 3, 9, 10), 0, 1), *whole;
  must(oct_tensor_cast(ctx, x, OCT_I64, &whole));
  ((float *)x->data)[333] = NAN;
  oct_tensor *bad[] = {x, small, whole};
  const char *words[] = {"NaN", "[2,3,9,10]", "i64"};
  for (int i = 0; i < 3; i++) {
    one_batch b = batch_of(bad[i]);
    assert_int_equal(oct_quantize_graph(ctx, g, &o, next_batch, &b, &q, NULL), OCTET_DATA);
    assert_non_null(strstr(ctx->message, "\"x\""));
    assert_non_null(strstr(ctx->message, words[i]));
    oct_tensor_release(bad[i]);
  }
  oct_graph_destroy(g);
}

/* ---- activations: cases 7 and 8 ---- */

static const char *const clipped_net = "input x f32[N,2,6,6]\n"
                                       "const six f32[] = 6\nconst zero f32[] = 0\n"
                                       "c1 = conv(x, c1.w, _)\n"
                                       "l = clip(c1, zero, six)\n"
                                       "c2 = conv(x, c2.w, _)\n"
                                       "r = relu(c2)\n"
                                       "c3 = conv(x, c3.w, _)\n"
                                       "joined = concat(l, r, c3) axis=1\n"
                                       "y = conv(joined, c4.w, _)\n"
                                       "output y\noutput l\noutput r\n";

static void activations_survive(void **state) {
  (void)state;
  weight("c1.w", oct_shape_of(4, 3, 2, 3, 3), 1.5f), weight("c2.w", oct_shape_of(4, 3, 2, 3, 3), 1);
  weight("c3.w", oct_shape_of(4, 3, 2, 3, 3), 0.5f), weight("c4.w", oct_shape_of(4, 2, 9, 1, 1), 0.5f);
  oct_graph *g = graph_of(clipped_net);
  oct_tensor *x = random_tensor(oct_shape_of(4, 20, 2, 6, 6), -2, 2);
  const char *const floats[] = {"l", "c2"};
  for (int symmetric = 0; symmetric < 2; symmetric++)
    for (size_t kept = 0; kept < 3; kept++) { /* none, the clip, the layer before the relu */
      oct_quantize_options o = oct_quantize_options_default();
      o.symmetric = symmetric;
      o.keep_float = floats + (kept ? kept - 1 : 0);
      o.n_keep_float = kept ? 1 : 0;
      oct_quantize_report r = {0};
      oct_graph *q = quantized(g, &o, x, &r);
      assert_true(agreement(g, q, x, 0) > 28);
      for (size_t out = 1; out < 3; out++) {
        size_t n;
        float *v = run_on(q, x, out, &n), highest = 0;
        for (size_t i = 0; i < n; i++) {
          assert_true(v[i] >= 0);
          if (out == 1) assert_true(v[i] <= 6.05f);
          if (v[i] > highest) highest = v[i];
        }
        assert_true(highest > 5);
        oct_free(v);
      }
      if (kept) assert_string_equal(layer_named(&r, kept == 1 ? "c1" : "c2")->type, "float");
      if (kept) assert_true(layer_named(&r, kept == 1 ? "c1" : "c2")->island);
      if (!kept) assert_int_equal(r.n_float, 0);
      oct_quantize_report_free(&r);
      oct_graph_destroy(q);
    }
  oct_tensor_release(x);
  oct_graph_destroy(g);
}

/* ---- joins: case 13 ---- */

static void a_join_of_boxes_and_scores_is_kept_float(void **state) {
  (void)state;
  weight("f.w", oct_shape_of(4, 8, 3, 3, 3), 0.4f), weight("box.w", oct_shape_of(4, 4, 8, 1, 1), 60),
      weight("score.w", oct_shape_of(4, 2, 8, 1, 1), 1);
  oct_graph *g = graph_of("input x f32[N,3,8,8]\n"
                          "f = conv(x, f.w, _)\nfr = relu(f)\n"
                          "b = conv(fr, box.w, _)\nbr = relu(b)\n"
                          "s = conv(fr, score.w, _)\np = sigmoid(s)\n"
                          "y = concat(br, p) axis=1\noutput y\n");
  oct_tensor *x = random_tensor(oct_shape_of(4, 20, 3, 8, 8), 0, 1);
  for (int io = 0; io < 2; io++) {
    oct_quantize_options o = oct_quantize_options_default();
    o.io = io ? OCT_IO_UINT8 : OCT_IO_FLOAT;
    oct_quantize_report r = {0};
    oct_graph *q = quantized(g, &o, x, &r);
    assert_string_equal(layer_named(&r, "b")->type, "int8");
    assert_string_equal(layer_named(&r, "s")->type, "int8");
    assert_string_equal(layer_named(&r, "y")->type, "float");
    assert_non_null(strstr(layer_named(&r, "y")->reason, "ranges"));
    is_warned(&r, "\"y\"", "ranges of its inputs differ");
    if (!io) { /* the scores, a hundredth of the boxes' range, are as good as the boxes */
      size_t n;
      float *a = run_on(g, x, 0, &n), *v = run_on(q, x, 0, &n);
      for (size_t i = 0; i < n; i++) /* [n][6][6][6]: channels 4 and 5 are scores */
        if (i / 36 % 6 >= 4) assert_float_equal(a[i], v[i], 0.05);
      oct_free(a);
      oct_free(v);
    }
    oct_quantize_report_free(&r);
    oct_graph_destroy(q);
  }
  oct_tensor_release(x);
  oct_graph_destroy(g);
}

/* ---- functions between layers: case 28; squeeze and excite, residuals: case 29 ---- */

static void functions_run_by_table(void **state) {
  (void)state;
  static const char *const functions[] = {
      "leaky_relu(c1) alpha=0.1", "hard_swish(c1)", "prelu(c1, slope)", "sigmoid(c1)",   "tanh(c1)",         "exp(c1)",
      "hard_sigmoid(c1)",         "gelu(c1)",       "mul(c1, three)",   "add(c1, bias)", "pow(square, two)", "sqrt(square)"};
  weight("c1.w", oct_shape_of(4, 4, 2, 1, 1), 1), weight("c2.w", oct_shape_of(4, 3, 4, 1, 1), 1);
  oct_tensor *x = random_tensor(oct_shape_of(4, 30, 2, 5, 5), -1, 1);
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    char text[800];
    bool square = strstr(functions[i], "square") != NULL;
    snprintf(text, sizeof text,
             "input x f32[N,2,5,5]\nconst slope f32[4,1,1] = 0.1, 0.2, 0.3, -0.4\nconst three f32[] = 3\nconst two f32[] = 2\n"
             "const bias f32[4,1,1] = 0.5, -0.5, 1, 0\nc1 = conv(x, c1.w, _)\n%sm = %s\ny = conv(m, c2.w, _)\noutput y\n",
             square ? "square = mul(c1, c1)\n" : "", functions[i]);
    oct_graph *g = graph_of(text);
    oct_quantize_report r = {0};
    oct_graph *q = quantized(g, NULL, x, &r);
    for (size_t k = 0; k < r.n_layers; k++)
      if (strcmp(r.layers[k].type, "int8") != 0)
        fail_msg("%s: \"%s\" is %s: %s", functions[i], r.layers[k].name, r.layers[k].type, r.layers[k].reason);
    double db = agreement(g, q, x, 0);
    if (db < 24) fail_msg("%s: %.1f dB", functions[i], db);
    oct_quantize_report_free(&r);
    oct_graph_destroy(q);
    oct_graph_destroy(g);
  }
  oct_tensor_release(x);
}

static void squeeze_and_excite_is_all_integer(void **state) {
  (void)state;
  weight("c1.w", oct_shape_of(4, 8, 3, 3, 3), 0.5f), weight("d.w", oct_shape_of(4, 2, 8, 1, 1), 1),
      weight("u.w", oct_shape_of(4, 8, 2, 1, 1), 1);
  weight("c2.w", oct_shape_of(4, 4, 8, 1, 1), 0.5f);
  oct_graph *g = graph_of("input x f32[N,3,8,8]\n"
                          "c1 = conv(x, c1.w, _)\nr1 = relu(c1)\n"
                          "s = global_average_pool(r1)\n"
                          "d = conv(s, d.w, _)\ndr = relu(d)\n"
                          "u = conv(dr, u.w, _)\ng = sigmoid(u)\n"
                          "m = mul(r1, g)\n"
                          "y = conv(m, c2.w, _)\noutput y\n");
  oct_tensor *x = random_tensor(oct_shape_of(4, 20, 3, 8, 8), 0, 1);
  oct_quantize_report r = {0};
  oct_graph *q = quantized(g, NULL, x, &r);
  all_layers_are(&r, "int8");
  assert_int_equal(r.boundaries, 0);
  assert_true(agreement(g, q, x, 0) > 28);
  oct_quantize_report_free(&r);
  oct_tensor_release(x);
  oct_graph_destroy(q);
  oct_graph_destroy(g);
}

static void residuals_of_different_scale_add_up(void **state) {
  (void)state;
  weight("c1.w", oct_shape_of(4, 8, 3, 1, 1), 0.5f), weight("c2.w", oct_shape_of(4, 8, 8, 1, 1), 10),
      weight("c3.w", oct_shape_of(4, 8, 8, 1, 1), 0.01f);
  weight("c4.w", oct_shape_of(4, 3, 8, 1, 1), 0.5f);
  oct_graph *g = graph_of("input x f32[N,3,8,8]\n"
                          "c1 = conv(x, c1.w, _)\nr1 = relu(c1)\n"
                          "c2 = conv(r1, c2.w, _)\nr2 = relu(c2)\n"
                          "c3 = conv(r2, c3.w, _)\n"
                          "a = add(c3, r1)\nar = relu(a)\n"
                          "b = add(ar, r2)\n" /* 50 times wider than ar, and a step of its own */
                          "y = conv(b, c4.w, _)\noutput y\n");
  oct_tensor *x = random_tensor(oct_shape_of(4, 20, 3, 8, 8), 0, 1);
  oct_quantize_report r = {0};
  oct_graph *q = quantized(g, NULL, x, &r);
  all_layers_are(&r, "int8");
  assert_null(value_named(q, "c3")->quant); /* conv + add + relu round once */
  assert_null(value_named(q, "a")->quant);
  assert_true(agreement(g, q, x, 0) > 30);
  oct_quantize_report_free(&r);
  oct_tensor_release(x);
  oct_graph_destroy(q);
  oct_graph_destroy(g);
}

/* ---- strict, keep-float, configuration ---- */

static oct_graph *island_net(void) {
  weight("c1.w", oct_shape_of(4, 4, 2, 1, 1), 1), weight("c2.w", oct_shape_of(4, 3, 4, 1, 1), 1);
  return graph_of("input x f32[N,2,5,5]\n"
                  "c1 = conv(x, c1.w, _)\n"
                  "const axis i64[1] = 1\nl = reduce_l2(c1, axis)\n"
                  "d = div(c1, l)\n"
                  "y = conv(d, c2.w, _)\noutput y\n");
}

static void strict_lists_what_cannot_be_integer(void **state) {
  (void)state;
  oct_graph *g = island_net(), *q;
  oct_tensor *x = random_tensor(oct_shape_of(4, 8, 2, 5, 5), 1, 2);
  one_batch b = batch_of(x);
  oct_quantize_options o = oct_quantize_options_default();
  o.strict = true;
  assert_int_equal(oct_quantize_graph(ctx, g, &o, next_batch, &b, &q, NULL), OCTET_NOT_INTEGER);
  assert_non_null(strstr(ctx->message, "\"l\" (reduce_l2): reduce_l2 has no integer form"));
  o.strict = false;
  oct_quantize_report r = {0};
  q = quantized(g, &o, x, &r);
  assert_string_equal(layer_named(&r, "l")->type, "float");
  assert_true(layer_named(&r, "l")->island);
  assert_true(r.boundaries > 0);
  oct_quantize_report_free(&r);
  oct_graph_destroy(q);
  oct_graph_destroy(g);
  oct_tensor_release(x);
  oct_bundle_free(&weights);
  g = plain_net();
  x = random_tensor(oct_shape_of(4, 4, 3, 10, 10), 0, 1);
  o.strict = true;
  q = quantized(g, &o, x, NULL);
  oct_tensor_release(x);
  oct_graph_destroy(q);
  oct_graph_destroy(g);
}

static void keep_float_takes_nodes_and_values(void **state) {
  (void)state;
  oct_graph *g = plain_net(), *q;
  oct_tensor *x = random_tensor(oct_shape_of(4, 10, 3, 10, 10), 0, 1);
  const char *name = "c2";
  oct_quantize_options o = oct_quantize_options_default();
  o.keep_float = &name;
  o.n_keep_float = 1;
  oct_quantize_report r = {0};
  q = quantized(g, &o, x, &r);
  assert_string_equal(layer_named(&r, "c2")->type, "float");
  assert_string_equal(layer_named(&r, "c1")->type, "int8");
  assert_null(value_named(q, "c2.w")->quant);
  assert_true(agreement(g, q, x, 0) > 30);
  oct_graph_destroy(q);
  name = "x"; /* a value: whatever reads it is float */
  q = quantized(g, &o, x, &r);
  assert_null(value_named(q, "x")->quant);
  assert_string_equal(layer_named(&r, "c1")->type, "float");
  assert_string_equal(layer_named(&r, "c2")->type, "int8");
  oct_graph_destroy(q);
  name = "nobody";
  one_batch b = batch_of(x);
  assert_int_equal(oct_quantize_graph(ctx, g, &o, next_batch, &b, &q, NULL), OCTET_INVALID_ARGUMENT);
  assert_non_null(strstr(ctx->message, "nobody"));
  oct_quantize_report_free(&r);
  oct_tensor_release(x);
  oct_graph_destroy(g);
}

static void a_configuration_sets_single_layers(void **state) {
  (void)state;
  oct_graph *g = plain_net();
  oct_tensor *x = random_tensor(oct_shape_of(4, 10, 3, 10, 10), 0, 1);
  static const char text[] = "{\"c1\": {\"scale\": 0.03125, \"zero_point\": 7}, \"c*\": {\"bits\": 8, \"observer\": \"mse\"}, \"gemm\": "
                             "{\"mode\": \"weight-only\"},"
                             " \"c2\": {\"per_tensor\": true}}";
  oct_quantize_config config;
  must(oct_quantize_config_parse(ctx, text, strlen(text), &config));
  oct_quantize_options o = oct_quantize_options_default();
  o.config = &config;
  oct_quantize_report r = {0};
  oct_graph *q = quantized(g, &o, x, &r);
  assert_float_equal(value_named(q, "r1")->quant->scale[0], 0.03125, 0);
  assert_int_equal(value_named(q, "r1")->quant->zero_point[0], 7);
  assert_int_equal(value_named(q, "c2.w")->quant->axis, -1);
  assert_string_equal(layer_named(&r, "y")->type, "weight-only");
  assert_string_equal(layer_named(&r, "c2")->weights, "int8 per tensor");
  oct_quantize_report_free(&r);
  oct_graph_destroy(q);
  oct_quantize_config_free(&config);
  oct_tensor_release(x);
  oct_graph_destroy(g);
}

static void bad_configurations_are_errors(void **state) {
  (void)state;
  static const char *const texts[] = {"{\"c1\": {\"bit\": 8}}",
                                      "{\"c1\": {\"bits\": 4}}",
                                      "{\"c1\": {\"scale\": -1}}",
                                      "{\"c1\": {\"scale\": \"a\"}}",
                                      "{\"c1\": {\"zero_point\": 256, \"scale\": 1}}",
                                      "{\"c1\": {\"zero_point\": 3}}",
                                      "{\"c1\": 3}",
                                      "[1]",
                                      "{\"c1\": {",
                                      "{\"c1\": {}, \"c1\": {}}",
                                      "{\"c1\": {\"observer\": \"max\"}}",
                                      "{\"c1\": {\"mode\": \"int4\"}}"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    oct_quantize_config config;
    assert_int_not_equal(oct_quantize_config_parse(ctx, texts[i], strlen(texts[i]), &config), OCTET_OK);
    assert_non_null(strstr(ctx->message, "configuration"));
    oct_quantize_config_free(&config);
  }
  oct_graph *g = plain_net();
  oct_quantize_config config;
  must(oct_quantize_config_parse(ctx, "{\"conv9\": {}}", 13, &config));
  oct_quantize_options o = oct_quantize_options_default();
  o.config = &config;
  oct_calibration *c;
  assert_int_equal(oct_quantize_prepare(ctx, g, &o, &c), OCTET_INVALID_ARGUMENT);
  assert_non_null(strstr(ctx->message, "conv9"));
  oct_quantize_config_free(&config);
  oct_graph_destroy(g);
}

/* ---- inputs and outputs ---- */

static void integer_inputs_and_outputs_hold_the_same_grid(void **state) {
  (void)state;
  oct_graph *g = plain_net();
  oct_tensor *x = random_tensor(oct_shape_of(4, 10, 3, 10, 10), -1, 1), *in8;
  size_t n, m;
  oct_quantize_options o = oct_quantize_options_default();
  for (int io = OCT_IO_INT8; io <= OCT_IO_UINT8; io++) {
    o.io = (oct_quantize_io)io;
    oct_dtype type = io == OCT_IO_INT8 ? OCT_I8 : OCT_U8;
    oct_quantize_report r = {0};
    oct_graph *q = quantized(g, &o, x, &r);
    all_layers_are(&r, "int8");
    assert_string_equal(q->inputs[0]->name, "x");
    assert_string_equal(q->outputs[0]->name, "y");
    must(oct_graph_infer(ctx, q));
    assert_int_equal(q->inputs[0]->dtype, type);
    assert_int_equal(q->outputs[0]->dtype, type);
    const oct_quant *pi = value_named(q, "x_f32")->quant, *po = value_named(q, "y_f32")->quant;
    must(oct_tensor_create(ctx, type, &x->shape, &in8));
    int low = type == OCT_I8 ? -128 : 0;
    for (int64_t i = 0; i < oct_shape_count(&x->shape); i++) { /* the rule of QuantizeLinear */
      double v = rint((double)(((const float *)x->data)[i] / pi->scale[0])) + pi->zero_point[0];
      oct_set_i64(in8->data, type, i, (int64_t)(v < low ? low : v > low + 255 ? low + 255 : v));
    }
    float *a = run_on(g, x, 0, &n), *y = run_on(q, in8, 0, &m);
    assert_int_equal(n, m);
    for (size_t i = 0; i < m; i++) y[i] = (y[i] - (float)po->zero_point[0]) * po->scale[0];
    assert_true(sqnr(a, y, n) > 28);
    oct_free(a);
    oct_free(y);
    oct_tensor_release(in8);
    oct_quantize_report_free(&r);
    oct_graph_destroy(q);
  }
  oct_tensor_release(x);
  oct_graph_destroy(g);
}

/* ---- the other modes ---- */

static void weight_modes_need_no_data(void **state) {
  (void)state;
  static const struct {
    oct_quantize_mode mode;
    const char *type;
    double least_db;
  } modes[] = {{OCT_MODE_DYNAMIC, "dynamic", 32}, {OCT_MODE_WEIGHT_ONLY, "weight-only", 38}, {OCT_MODE_FP16, "float16", 60}};
  oct_graph *g = plain_net();
  oct_tensor *x = random_tensor(oct_shape_of(4, 10, 3, 10, 10), 0, 1);
  for (size_t i = 0; i < 3; i++) {
    oct_quantize_options o = oct_quantize_options_default();
    o.mode = modes[i].mode;
    oct_quantize_report r = {0};
    oct_graph *q;
    must(oct_quantize_graph(ctx, g, &o, NULL, NULL, &q, &r));
    all_layers_are(&r, modes[i].type);
    assert_int_equal(r.n_layers, 3);
    assert_true(agreement(g, q, x, 0) > modes[i].least_db);
    const oct_value *w = value_named(q, "c1.w");
    assert_int_equal(w->tensor->dtype, o.mode == OCT_MODE_FP16 ? OCT_F16 : OCT_I8);
    oct_quantize_report_free(&r);
    oct_graph_destroy(q);
  }
  oct_tensor_release(x);
  oct_graph_destroy(g);
}

static void half_precision_keeps_what_it_would_lose(void **state) {
  (void)state;
  weight("c1.w", oct_shape_of(4, 4, 2, 1, 1), 1), weight("c2.w", oct_shape_of(4, 3, 4, 1, 1), 1);
  float *large = weight("c3.w", oct_shape_of(4, 3, 3, 1, 1), 1), *small = weight("c4.w", oct_shape_of(4, 2, 3, 1, 1), 1);
  large[4] = 1e5f;
  small[3] = 1e-9f, small[4] = -1e-9f, small[5] = 2e-9f; /* channel 1 would vanish */
  oct_graph
      *g = graph_of(
          "input x f32[N,2,5,5]\nc1 = conv(x, c1.w, _)\nc2 = conv(c1, c2.w, _)\nc3 = conv(c2, c3.w, _)\ny = conv(c3, c4.w, _)\noutput y\n"),
      *q;
  oct_quantize_options o = oct_quantize_options_default();
  o.mode = OCT_MODE_FP16;
  oct_quantize_report r = {0};
  must(oct_quantize_graph(ctx, g, &o, NULL, NULL, &q, &r));
  assert_int_equal(value_named(q, "c2.w")->tensor->dtype, OCT_F16);
  assert_int_equal(value_named(q, "c3.w")->tensor->dtype, OCT_F32);
  assert_int_equal(value_named(q, "c4.w")->tensor->dtype, OCT_F32);
  is_warned(&r, "c3.w", "65504");
  is_warned(&r, "c4.w", "channel");
  oct_quantize_report_free(&r);
  oct_graph_destroy(q);
  oct_graph_destroy(g);
}

/* ---- memory: case 22; failures of the allocator ---- */

static void calibration_memory_does_not_grow(void **state) {
  (void)state;
  oct_strbuf text = oct_strbuf_make(ctx);
  oct_strbuf_puts(&text, "input x f32[N,16]\n");
  for (int i = 0; i < 200; i++) {
    char name[16];
    snprintf(name, sizeof name, "w%d", i);
    weight(name, oct_shape_of(2, 16, 16), 0.5f);
    oct_strbuf_printf(&text, "h%d = gemm(%s%d, w%d, _)\nr%d = relu(h%d)\n", i, i ? "r" : "x", i - 1, i, i, i);
  }
  oct_strbuf_puts(&text, "output r199\n");
  char *body = strstr(text.text, "x-1");
  memcpy(body, "x  ", 3);
  oct_graph *g = graph_of(text.text);
  oct_strbuf_free(&text);
  oct_tensor *x = random_tensor(oct_shape_of(2, 50, 16), 0, 1);
  oct_named_tensor in = {.name = "x", .tensor = x};
  for (int kind = 0; kind < OCT_OBSERVER_KINDS; kind++) {
    oct_quantize_options o = oct_quantize_options_default();
    o.observer = (oct_observer_kind)kind;
    oct_calibration *c;
    must(oct_quantize_prepare(ctx, g, &o, &c));
    must(oct_calibration_observe(c, &in, 1)); /* makes the session */
    int64_t before = ctx->allocations_made;
    for (int i = 0; i < 19; i++) must(oct_calibration_observe(c, &in, 1)); /* 1,000 samples in all */
    int64_t each = (ctx->allocations_made - before) / 19;
    assert_true(each <= 2); /* scratch that is freed at once */
    oct_calibration_destroy(c);
  }
  oct_tensor_release(x);
  oct_graph_destroy(g);
}

static void every_failed_allocation_is_survived(void **state) {
  (void)state;
  oct_graph *g = plain_net();
  oct_tensor *x = random_tensor(oct_shape_of(4, 2, 3, 10, 10), 0, 1);
  oct_quantize_options o = oct_quantize_options_default();
  o.io = OCT_IO_UINT8;
  octet_status status = OCTET_OUT_OF_MEMORY;
  for (int64_t n = 0; status != OCTET_OK; n++) {
    one_batch b = batch_of(x);
    oct_quantize_report r = {0};
    oct_graph *q = NULL;
    ctx->allocations_left = n;
    status = oct_quantize_graph(ctx, g, &o, next_batch, &b, &q, &r);
    ctx->allocations_left = -1;
    if (status != OCTET_OK) assert_int_equal(status, OCTET_OUT_OF_MEMORY);
    assert_true((status == OCTET_OK) == (q != NULL));
    oct_quantize_report_free(&r);
    oct_graph_destroy(q);
    assert_true(n < 100000);
  }
  oct_tensor_release(x);
  oct_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_plain_net_is_all_integer, setup, teardown),
      cmocka_unit_test_setup_teardown(every_observer_converts, setup, teardown),
      cmocka_unit_test_setup_teardown(no_samples_are_an_error, setup, teardown),
      cmocka_unit_test_setup_teardown(an_all_zero_image_is_warned_of_by_name, setup, teardown),
      cmocka_unit_test_setup_teardown(unused_branches_are_pruned_and_live_ones_must_be_observed, setup, teardown),
      cmocka_unit_test_setup_teardown(unusable_samples_are_errors_that_name_the_input, setup, teardown),
      cmocka_unit_test_setup_teardown(activations_survive, setup, teardown),
      cmocka_unit_test_setup_teardown(a_join_of_boxes_and_scores_is_kept_float, setup, teardown),
      cmocka_unit_test_setup_teardown(functions_run_by_table, setup, teardown),
      cmocka_unit_test_setup_teardown(squeeze_and_excite_is_all_integer, setup, teardown),
      cmocka_unit_test_setup_teardown(residuals_of_different_scale_add_up, setup, teardown),
      cmocka_unit_test_setup_teardown(strict_lists_what_cannot_be_integer, setup, teardown),
      cmocka_unit_test_setup_teardown(keep_float_takes_nodes_and_values, setup, teardown),
      cmocka_unit_test_setup_teardown(a_configuration_sets_single_layers, setup, teardown),
      cmocka_unit_test_setup_teardown(bad_configurations_are_errors, setup, teardown),
      cmocka_unit_test_setup_teardown(integer_inputs_and_outputs_hold_the_same_grid, setup, teardown),
      cmocka_unit_test_setup_teardown(weight_modes_need_no_data, setup, teardown),
      cmocka_unit_test_setup_teardown(half_precision_keeps_what_it_would_lose, setup, teardown),
      cmocka_unit_test_setup_teardown(calibration_memory_does_not_grow, setup, teardown),
      cmocka_unit_test_setup_teardown(every_failed_allocation_is_survived, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
