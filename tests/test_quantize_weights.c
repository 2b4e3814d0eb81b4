/* Quantized weights and biases: degenerate channels, biases that overflow, sharing, factors, half precision, non-finite numbers.
 * "case N": ../shared/cases.md of the project's issues.
 * SPDX-License-Identifier: MIT */
#include "quantize_checks.h"

static void dispose(oct_graph *g, oct_graph *q, oct_tensor *x, oct_quantize_report *r) {
  oct_quantize_report_free(r);
  oct_tensor_release(x);
  oct_graph_destroy(q);
  oct_graph_destroy(g);
}

/* The real weight of an int8 constant, by its own parameters. */
static double real_at(const oct_value *w, int64_t i, int64_t channel) {
  const oct_quant *q = w->quant;
  return (double)oct_get_i64(w->tensor->data, w->tensor->dtype, i) * (double)q->scale[q->axis < 0 ? 0 : channel];
}

/* Per channel, symmetric in [-127, 127], scale = largest / 127: the rule of the design. */
static void weights_follow_the_rule(void **state) {
  (void)state;
  const float *f = weight("w", oct_shape_of(4, 5, 3, 2, 2), 0.7f);
  weight("b", oct_shape_of(1, 5), 1);
  oct_graph *g = graph_of("input x f32[N,3,6,6]\ny = conv(x, w, b)\noutput y\n");
  oct_tensor *x = random_tensor(oct_shape_of(4, 8, 3, 6, 6), -1, 3);
  oct_quantize_report r = {0};
  oct_graph *q = quantized(g, NULL, x, &r);
  const oct_value *w = value_named(q, "w"), *b = value_named(q, "b");
  const oct_quant *in = value_named(q, "x")->quant;
  assert_int_equal(w->quant->axis, 0);
  assert_int_equal(w->quant->count, 5);
  for (int64_t c = 0; c < 5; c++) {
    float largest = 0;
    int reached = 0;
    for (int64_t i = c * 12; i < c * 12 + 12; i++) {
      if (fabsf(f[i]) > largest) largest = fabsf(f[i]);
      assert_true(fabs((double)f[i] - real_at(w, i, c)) <= (double)w->quant->scale[c] / 2 * 1.0001);
      int v = (int)oct_get_i64(w->tensor->data, OCT_I8, i);
      reached = abs(v) > reached ? abs(v) : reached;
    }
    assert_float_equal(w->quant->scale[c], largest / 127, 1e-9);
    assert_int_equal(reached, 127);
    assert_int_equal(w->quant->zero_point[c], 0);
    assert_true(b->quant->scale[c] == in->scale[0] * w->quant->scale[c]); /* exactly, in float32 */
  }
  assert_int_equal(b->tensor->dtype, OCT_I32);
  assert_int_equal(r.bytes, 60 + 5 * 4 + 5 * 4 + 5); /* weights, their scales, biases, the input's parameters */
  dispose(g, q, x, &r);
}

/* ---- case 1 ---- */

static void an_overflowing_bias_raises_its_channels_scale(void **state) {
  (void)state;
  float *w = weight("w", oct_shape_of(4, 2, 1, 1, 1), 1), *b = weight("b", oct_shape_of(1, 2), 1);
  w[0] = 0.5f, w[1] = 9.9568e-8f; /* scale 7.84e-10 */
  b[0] = 5, b[1] = -4.5f;
  oct_graph *g = graph_of("input x f32[N,1,4,4]\ny = conv(x, w, b)\noutput y\n");
  static const char text[] = "{\"x\": {\"scale\": 0.5, \"zero_point\": 128}}";
  oct_quantize_config config;
  must(oct_quantize_config_parse(ctx, text, strlen(text), &config));
  oct_quantize_options o = oct_quantize_options_default();
  o.config = &config;
  oct_tensor *x = random_tensor(oct_shape_of(4, 4, 1, 4, 4), -60, 60);
  oct_quantize_report r = {0};
  oct_graph *q = quantized(g, &o, x, &r);
  assert_string_equal(layer_named(&r, "y")->type, "int8");
  is_warned(&r, "\"y\"", "overflow int32");
  const oct_value *qw = value_named(q, "w"), *qb = value_named(q, "b");
  assert_float_equal(qw->quant->scale[0], 0.5f / 127, 1e-9);
  assert_true(qw->quant->scale[1] > 4.1e-9f); /* 4.5 / 0.5 / 2^31 */
  assert_float_equal(oct_get_f64(qb->tensor->data, OCT_I32, 1) * (double)qb->quant->scale[1], -4.5, 1e-6);
  size_t n;
  float *y = run_on(q, x, 0, &n), *f = run_on(g, x, 0, &n);
  for (size_t i = 0; i < n; i++) assert_true(fabsf(y[i] - f[i]) <= (i / 16 % 2 ? 1e-4f : 0.25f)); /* channel 0: rounding of the input */
  oct_free(y);
  oct_free(f);
  oct_quantize_config_free(&config);
  dispose(g, q, x, &r);
}

/* ---- case 2 ---- */

static void degenerate_channels_give_the_bias(void **state) {
  (void)state;
  float *w = weight("w", oct_shape_of(4, 4, 2, 1, 1), 1), *b = weight("b", oct_shape_of(1, 4), 1);
  const float channels[8] = {0, 0, 1e-6f, -9e-7f, 3e-41f, -1e-44f, 0.5f, 0.25f};
  memcpy(w, channels, sizeof channels);
  weight("v", oct_shape_of(4, 2, 4, 1, 1), 1);
  oct_graph *g = graph_of("input x f32[N,2,3,3]\nc = conv(x, w, b)\nd = conv(c, v, _)\noutput c\noutput d\n");
  oct_tensor *x = random_tensor(oct_shape_of(4, 6, 2, 3, 3), -1, 1);
  for (int per_tensor = 0; per_tensor < 2; per_tensor++) {
    oct_quantize_options o = oct_quantize_options_default();
    o.per_tensor = per_tensor;
    oct_quantize_report r = {0};
    oct_graph *q = quantized(g, &o, x, &r);
    const oct_quant *p = value_named(q, "w")->quant;
    for (int64_t c = 0; c < p->count; c++) assert_true(isfinite(p->scale[c]) && p->scale[c] >= 1e-20f);
    size_t n;
    float *y = run_on(q, x, 0, &n), step = value_named(q, "c")->quant->scale[0];
    for (size_t i = 0; i < n; i++) {
      size_t c = i / 9 % 4;
      assert_true(isfinite(y[i]));
      if (c < 3) assert_float_equal(y[i], b[c], step); /* 1e-6 is less than a step */
    }
    oct_free(y);
    oct_quantize_report_free(&r);
    oct_graph_destroy(q);
  }
  oct_tensor_release(x);
  oct_graph_destroy(g);
}

static void not_finite_weights_are_errors_that_name_them(void **state) {
  (void)state;
  static const oct_quantize_mode modes[] = {OCT_MODE_INT8, OCT_MODE_DYNAMIC, OCT_MODE_WEIGHT_ONLY, OCT_MODE_FP16};
  float *w = weight("w", oct_shape_of(4, 2, 2, 1, 1), 1), *b = weight("b", oct_shape_of(1, 2), 1);
  oct_graph *g = graph_of("input x f32[N,2,3,3]\ny = conv(x, w, b)\noutput y\n"), *q;
  oct_tensor *x = random_tensor(oct_shape_of(4, 2, 2, 3, 3), 0, 1);
  for (size_t m = 0; m < 4; m++) {
    one_batch batch = batch_of(x);
    oct_quantize_options o = oct_quantize_options_default();
    o.mode = modes[m];
    w[3] = NAN;
    assert_int_equal(oct_quantize_graph(ctx, g, &o, next_batch, &batch, &q, NULL), OCTET_DATA);
    assert_non_null(strstr(ctx->message, "\"w\""));
    w[3] = -INFINITY;
    assert_int_equal(oct_quantize_graph(ctx, g, &o, next_batch, &batch, &q, NULL), OCTET_DATA);
    w[3] = 1;
  }
  b[1] = NAN;
  one_batch batch = batch_of(x);
  oct_quantize_options o = oct_quantize_options_default();
  assert_int_equal(oct_quantize_graph(ctx, g, &o, next_batch, &batch, &q, NULL), OCTET_DATA);
  assert_non_null(strstr(ctx->message, "\"b\""));
  oct_tensor_release(x);
  oct_graph_destroy(g);
}

/* ---- cases 12 and 16 ---- */

static void channels_of_different_size_keep_their_scales(void **state) {
  (void)state;
  float *w = weight("dw", oct_shape_of(4, 32, 1, 3, 3), 1), *f = weight("fc", oct_shape_of(2, 10, 32), 1);
  for (int i = 0; i < 32 * 9; i++) w[i] *= powf(10, -(float)(i / 9) / 8);
  for (int i = 0; i < 320; i++) f[i] *= powf(100, -(float)(i / 32) / 9);
  oct_graph *g = graph_of("input x f32[N,32,6,6]\nd = conv(x, dw, _) group=32 pads=1,1,1,1\n"
                          "m = global_average_pool(d)\nv = flatten(m)\ny = gemm(v, fc, _) transB=1\noutput d\noutput y\n");
  oct_tensor *x = random_tensor(oct_shape_of(4, 8, 32, 6, 6), -1, 1);
  oct_quantize_report r = {0};
  oct_graph *q = quantized(g, NULL, x, &r);
  const oct_value *k = value_named(q, "dw");
  for (int64_t c = 0; c < 32; c++)
    for (int64_t i = c * 9; i < c * 9 + 9; i++) assert_true(fabs(real_at(k, i, c) - (double)w[i]) <= 1.01 * (double)k->quant->scale[c] / 2);
  assert_int_equal(r.n_warnings, 0);
  assert_true(layer_named(&r, "y")->weight_sqnr_db > 40);
  oct_graph_destroy(q);
  oct_quantize_options o = oct_quantize_options_default();
  o.per_tensor = true;
  q = quantized(g, &o, x, &r);
  is_warned(&r, "\"d\" (conv)", "one weight scale per tensor");
  is_warned(&r, "\"y\" (gemm)", "one weight scale per tensor");
  dispose(g, q, x, &r);
}

/* ---- case 17 ---- */

static void shared_weights_are_stored_once(void **state) {
  (void)state;
  weight("w", oct_shape_of(4, 3, 3, 1, 1), 1), weight("b", oct_shape_of(1, 3), 1), weight("b_1", oct_shape_of(1, 3), 1),
      weight("b0", oct_shape_of(1, 3), 1);
  oct_graph *g = graph_of("input x f32[N,3,4,4]\n"
                          "p = conv(x, w, b)\nr = relu(p)\n"
                          "q = conv(r, w, b)\n"
                          "s = add(q, r)\n"
                          "t = conv(s, w, b_1)\nu = conv(t, w, b0)\noutput u\n");
  oct_tensor *x = random_tensor(oct_shape_of(4, 20, 3, 4, 4), -2, 2);
  oct_quantize_report r = {0};
  oct_graph *q = quantized(g, NULL, x, &r);
  all_layers_are(&r, "int8");
  const oct_value *w = value_named(q, "w");
  const oct_value *biases[4];
  size_t layers = 0, constants = 0;
  for (size_t i = 0; i < q->n_nodes; i++) {
    if (!oct_node_has(q->nodes[i], OCT_TRAIT_ACCUMULATES)) continue;
    assert_ptr_equal(q->nodes[i]->inputs[1], w);
    const oct_value *bias = biases[layers++] = q->nodes[i]->inputs[2];
    assert_true(bias->quant->scale[1] == q->nodes[i]->inputs[0]->quant->scale[0] * w->quant->scale[1]);
  }
  assert_int_equal(layers, 4);
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < i; k++) assert_ptr_not_equal(biases[i], biases[k]);
  for (size_t i = 0; i < q->n_values; i++) constants += q->values[i]->kind == OCT_CONSTANT;
  assert_int_equal(constants, 5); /* one weight, four biases */
  assert_true(agreement(g, q, x, 0) > 28);
  dispose(g, q, x, &r);
}

static void a_constant_in_two_roles_is_two_constants(void **state) {
  (void)state;
  weight("v", oct_shape_of(4, 3, 3, 4, 4), 1);
  oct_graph *g = graph_of("input x f32[N,3,7,7]\np = conv(x, v, _)\ns = mul(p, v)\nt = conv(s, v, _)\noutput t\n");
  oct_tensor *x = random_tensor(oct_shape_of(4, 3, 3, 7, 7), 0, 1);
  oct_quantize_report r = {0};
  oct_graph *q = quantized(g, NULL, x, &r);
  assert_true(agreement(g, q, x, 0) > 24);
  dispose(g, q, x, &r);
}

static void a_tied_embedding_is_right_in_both_uses(void **state) {
  (void)state;
  weight("e", oct_shape_of(2, 50, 16), 1), weight("h.w", oct_shape_of(2, 16, 16), 0.5f);
  oct_graph *g = graph_of("input ids i64[N,6]\nconst shape i64[2] = -1, 16\n"
                          "rows = gather(e, ids)\n"
                          "flat = reshape(rows, shape)\nh = gemm(flat, h.w, _)\n"
                          "y = gemm(h, e, _) transB=1\noutput y\n");
  oct_shape s = oct_shape_of(2, 8, 6);
  oct_tensor *ids;
  must(oct_tensor_create(ctx, OCT_I64, &s, &ids));
  for (int i = 0; i < 48; i++) ((int64_t *)ids->data)[i] = i;
  static const oct_quantize_mode modes[] = {OCT_MODE_INT8, OCT_MODE_DYNAMIC, OCT_MODE_WEIGHT_ONLY};
  for (size_t m = 0; m < 3; m++) {
    oct_quantize_options o = oct_quantize_options_default();
    o.mode = modes[m];
    oct_quantize_report r = {0};
    oct_graph *q = quantized(g, &o, ids, &r);
    size_t tables = 0;
    for (size_t i = 0; i < q->n_values; i++)
      tables += q->values[i]->kind == OCT_CONSTANT && q->values[i]->shape.rank == 2 && q->values[i]->shape.dim[0] == 50;
    assert_int_equal(tables, 1);
    assert_true(agreement(g, q, ids, 0) > 28);
    oct_quantize_report_free(&r);
    oct_graph_destroy(q);
  }
  oct_tensor_release(ids);
  oct_graph_destroy(g);
}

/* ---- gemm's factors, matmul, half precision: case 18 ---- */

static void factors_go_into_the_constants(void **state) {
  (void)state;
  weight("a", oct_shape_of(2, 8, 12), 1), weight("c", oct_shape_of(2, 1, 12), 1), weight("m", oct_shape_of(2, 12, 5), 1);
  oct_graph *g = graph_of("input x f32[N,8]\nh = gemm(x, a, c) alpha=0.25 beta=3\nr = relu(h)\ny = matmul(r, m)\noutput y\n");
  oct_tensor *x = random_tensor(oct_shape_of(2, 40, 8), -1, 1);
  oct_quantize_report r = {0};
  oct_graph *q = quantized(g, NULL, x, &r);
  all_layers_are(&r, "int8");
  assert_int_equal(value_named(q, "m")->quant->axis, 1);
  assert_true(agreement(g, q, x, 0) > 32);
  dispose(g, q, x, &r);
}

static void half_precision_weights_are_folded_and_quantized(void **state) {
  (void)state;
  oct_tensor *f = random_tensor(oct_shape_of(4, 4, 3, 1, 1), -1, 1), *t = random_tensor(oct_shape_of(2, 5, 4), -1, 1), *half;
  must(oct_tensor_cast(ctx, f, OCT_F16, &half));
  must(oct_bundle_add(ctx, &weights, "w", half, NULL));
  must(oct_tensor_cast(ctx, t, OCT_F16, &half));
  must(oct_bundle_add(ctx, &weights, "t", half, NULL));
  oct_tensor_release(f);
  oct_tensor_release(t);
  oct_graph *g = graph_of("input x f32[N,3,4,4]\n"
                          "w32 = cast(w) to=f32\n"
                          "c = conv(x, w32, _)\n"
                          "m = global_average_pool(c)\nv = flatten(m)\n"
                          "ti = identity(t)\ntt = transpose(ti) perm=1,0\nt32 = cast(tt) to=f32\n"
                          "y = matmul(v, t32)\noutput y\n");
  oct_tensor *x = random_tensor(oct_shape_of(4, 8, 3, 4, 4), 0, 54800); /* nearly the largest half-precision number */
  oct_quantize_report r = {0};
  oct_graph *q = quantized(g, NULL, x, &r);
  all_layers_are(&r, "int8");
  assert_true(agreement(g, q, x, 0) > 28);
  dispose(g, q, x, &r);
}

/* ---- the accumulator ---- */

/* 70,000 products of 127 * 255 exceed 2^31: the layer is float, and the report says why. */
static void an_accumulator_that_could_overflow_stays_float(void **state) {
  (void)state;
  float *w = weight("w", oct_shape_of(2, 70000, 2), 1);
  for (int i = 0; i < 140000; i++) w[i] = i % 2 ? 1.0f : (float)(i % 3) - 1;
  oct_graph *g = graph_of("input x f32[N,70000]\ny = gemm(x, w, _)\noutput y\n");
  oct_tensor *x = random_tensor(oct_shape_of(2, 2, 70000), 0, 1);
  oct_quantize_report r = {0};
  oct_graph *q = quantized(g, NULL, x, &r);
  assert_string_equal(layer_named(&r, "y")->type, "float");
  assert_non_null(strstr(layer_named(&r, "y")->reason, "int32"));
  assert_true(agreement(g, q, x, 0) > 90);
  dispose(g, q, x, &r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(weights_follow_the_rule, setup, teardown),
      cmocka_unit_test_setup_teardown(an_overflowing_bias_raises_its_channels_scale, setup, teardown),
      cmocka_unit_test_setup_teardown(degenerate_channels_give_the_bias, setup, teardown),
      cmocka_unit_test_setup_teardown(not_finite_weights_are_errors_that_name_them, setup, teardown),
      cmocka_unit_test_setup_teardown(channels_of_different_size_keep_their_scales, setup, teardown),
      cmocka_unit_test_setup_teardown(shared_weights_are_stored_once, setup, teardown),
      cmocka_unit_test_setup_teardown(a_constant_in_two_roles_is_two_constants, setup, teardown),
      cmocka_unit_test_setup_teardown(a_tied_embedding_is_right_in_both_uses, setup, teardown),
      cmocka_unit_test_setup_teardown(factors_go_into_the_constants, setup, teardown),
      cmocka_unit_test_setup_teardown(half_precision_weights_are_folded_and_quantized, setup, teardown),
      cmocka_unit_test_setup_teardown(an_accumulator_that_could_overflow_stays_float, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
