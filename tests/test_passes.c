/* Passes: each keeps the results of small graphs, leaves what it must leave, and gives the numbers that arithmetic says.
 * SPDX-License-Identifier: MIT */
#include "pass_helpers.h"

#define HEAD "octet 1\n"

static const float *numbers(const oct_graph *g, const char *name) {
  const oct_value *v = oct_graph_find(g, name);
  assert_non_null(v);
  assert_non_null(v->tensor);
  return v->tensor->data;
}

/* ---- batch normalization, factors, shifts ---- */

#define BN "const g f32[2] = 2,3\nconst be f32[2] = 1,-1\nconst m f32[2] = 0.5,4\nconst v f32[2] = 3,8\n"

static void batch_normalization_into_conv(void **state) {
  (void)state;
  /* epsilon 1: factors 2/sqrt(3+1) = 1 and 3/sqrt(8+1) = 1; shifts 1 - 0.5 and -1 - 4; with bias 10, 20: 10.5 and 15. */
  oct_graph *g = rewritten(HEAD "input x f32[1,1,4,4]\nconst w f32[2,1,3,3] = 0.5\nconst b f32[2] = 10,20\n" BN
                                "c = conv(x, w, b) pads=1,1,1,1\ny = batch_normalization(c, g, be, m, v) epsilon=1\noutput y\n",
                           "fold_batch_normalization", 1e-5);
  assert_int_equal(g->n_nodes, 1);
  assert_true(numbers(g, "b")[0] == 10.5f && numbers(g, "b")[1] == 15.0f);
  assert_true(numbers(g, "w")[0] == 0.5f);
  oct_graph_destroy(g);
}

static void a_conv_without_bias_gets_one(void **state) {
  (void)state;
  oct_graph *g = rewritten(HEAD "input x f32[1,1,4,4]\nconst w f32[2,1,3,3] = 0.5\n" BN
                                "c = conv(x, w)\ny = batch_normalization(c, g, be, m, v) epsilon=1\nr = relu(y)\noutput r\n",
                           "fold_batch_normalization", 1e-5);
  assert_int_equal(g->n_nodes, 2);
  const oct_node *conv = oct_graph_find(g, "c")->producer;
  assert_int_equal(conv->n_inputs, 3);
  const float *bias = conv->inputs[2]->tensor->data;
  assert_true(bias[0] == 0.5f && bias[1] == -5.0f);
  oct_graph_destroy(g);
}

static void shared_weights_are_duplicated(void **state) {
  (void)state;
  oct_graph *g =
      rewritten(HEAD "input x f32[1,1,4,4]\nconst w f32[2,1,3,3] = 0.5\nconst g f32[2] = 2,4\nconst be f32[2] = 1,-1\nconst m f32[2] = "
                     "0\nconst v f32[2] = 1\n"
                     "c = conv(x, w)\ny = batch_normalization(c, g, be, m, v) epsilon=0\nd = conv(x, w)\nz = add(y, d)\noutput z\n",
                "fold_batch_normalization", 1e-5);
  assert_int_equal(count_ops(g, "batch_normalization"), 0);
  assert_true(numbers(g, "w")[0] == 0.5f); /* d's own */
  const oct_node *c = g->nodes[0]->inputs[1] == oct_graph_find(g, "w") ? g->nodes[1] : g->nodes[0];
  assert_true(((const float *)c->inputs[1]->tensor->data)[0] == 1.0f);
  oct_graph_destroy(g);
}

static void batch_normalization_that_must_stay(void **state) {
  (void)state;
  static const char *const texts[] = {
      /* the convolution has two consumers */
      "c = conv(x, w)\ny = batch_normalization(c, g, be, m, v)\nz = add(y, c)\noutput z\n",
      /* it is rounded in between */
      "c = conv(x, w)\nquant c u8 scale=0.1 zero_point=128\ny = batch_normalization(c, g, be, m, v)\noutput y\n",
      /* its output is an output of the graph */
      "c = conv(x, w)\ny = batch_normalization(c, g, be, m, v)\noutput y\noutput c\n",
      /* it follows no convolution */
      "c = concat(x, x) axis=1\ny = batch_normalization(c, g, be, m, v)\noutput y\n",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    char text[1024];
    snprintf(text, sizeof text, HEAD "input x f32[1,1,4,4]\nconst w f32[2,1,1,1] = 0.5\n" BN "%s", texts[i]);
    oct_graph *g = rewritten(text, NULL, 1e-6);
    assert_int_equal(count_ops(g, "batch_normalization"), 1);
    oct_graph_destroy(g);
  }
}

static void batch_normalization_into_gemm(void **state) {
  (void)state;
  oct_graph *g = rewritten(HEAD "input x f32[3,4]\nconst w f32[4,2] = 1,2,3,4,5,6,7,8\n" BN
                                "c = gemm(x, w)\ny = batch_normalization(c, g, be, m, v) epsilon=1\noutput y\n",
                           NULL, 1e-5);
  assert_int_equal(g->n_nodes, 1);
  oct_graph_destroy(g);
}

static void factors_and_shifts(void **state) {
  (void)state;
  oct_graph *g = rewritten(HEAD "input x f32[1,1,4,4]\nconst w f32[2,1,3,3] = 0.5\nconst b f32[2] = 1,2\nconst f f32[2,1,1] = 2,4\nconst s "
                                "f32[1,2,1,1] = 3,-5\nconst h f32[] = 2\n"
                                "c = conv(x, w, b)\nd = mul(f, c)\ne = add(d, s)\nk = div(e, h)\nl = sub(k, h)\noutput l\n",
                           NULL, 1e-5);
  assert_int_equal(g->n_nodes, 1); /* bias: ((1*2+3)/2)-2 = 0.5, ((2*4-5)/2)-2 = -0.5 */
  assert_string_equal(g->nodes[0]->outputs[0]->name, "l");
  assert_true(numbers(g, "b")[0] == 0.5f && numbers(g, "b")[1] == -0.5f);
  assert_true(numbers(g, "w")[0] == 0.5f && numbers(g, "w")[9] == 1.0f);
  oct_graph_destroy(g);
}

static void matmul_with_bias_becomes_gemm(void **state) {
  (void)state;
  oct_graph *g =
      rewritten(HEAD "input x f32[3,2]\nconst w f32[2,2] = 1,2,3,4\nconst s f32[2] = 7,8\nc = matmul(x, w)\nd = add(c, s)\noutput d\n",
                "add_bias", 1e-6);
  assert_int_equal(count_ops(g, "gemm"), 1);
  assert_int_equal(g->n_nodes, 1);
  oct_graph_destroy(g);
}

static void shifts_that_must_stay(void **state) {
  (void)state;
  /* by column, not by channel; and a constant that makes the result larger */
  oct_graph *g = rewritten(
      HEAD "input x f32[1,1,4,4]\nconst w f32[2,1,1,1] = 1,2\nconst s f32[4] = 1,2,3,4\nc = conv(x, w)\nd = add(c, s)\noutput d\n", NULL,
      1e-6);
  assert_int_equal(count_ops(g, "add"), 1);
  oct_graph_destroy(g);
  g = rewritten(HEAD
                "input x f32[1,1,2,2]\nconst w f32[1,1,1,1] = 2\nconst s f32[1,3,1,1] = 1,2,3\nc = conv(x, w)\nd = add(c, s)\noutput d\n",
                NULL, 1e-6);
  assert_int_equal(count_ops(g, "add"), 1);
  oct_graph_destroy(g);
}

/* ---- identities, folding, dead code, common subexpressions ---- */

static void identities_go(void **state) {
  (void)state;
  oct_graph *g = rewritten(HEAD "input x f32[2,3]\nconst s i64[2] = 2,3\na = identity(x)\nb = dropout(a)\nc = cast(b) to=f32\nd = "
                                "reshape(c, s)\ne = relu(d)\nf = identity(e)\noutput f\n",
                           NULL, 0);
  assert_int_equal(g->n_nodes, 1);
  assert_string_equal(g->nodes[0]->op->name, "relu");
  oct_graph_destroy(g);
  g = rewritten(HEAD "input x f32[2,3]\na = identity(x)\nb = identity(a)\nr = relu(x)\ns = identity(r)\noutput b\noutput r\noutput s\n",
                NULL, 0);
  assert_int_equal(count_ops(g, "identity"), 2); /* an input under another name, and a second name for r */
  oct_graph_destroy(g);
}

static void an_identity_that_rounds_stays(void **state) {
  (void)state;
  oct_graph *g = rewritten(HEAD "input x f32[2,3]\nr = relu(x)\na = identity(r)\nquant a u8 scale=0.1\nb = add(a, r)\noutput b\n", NULL, 0);
  assert_int_equal(count_ops(g, "identity"), 1);
  oct_graph_destroy(g);
  g = rewritten(HEAD "input x f32[2,3]\nr = relu(x)\na = identity(r)\nquant a u8 scale=0.1\nb = exp(a)\noutput b\n", NULL, 0);
  assert_int_equal(count_ops(g, "identity"), 0);
  assert_non_null(oct_graph_find(g, "r")->quant);
  oct_graph_destroy(g);
}

static void constants_fold(void **state) {
  (void)state;
  oct_graph *g = rewritten(HEAD "input x f32[2,3]\nconst a f32[3] = 1,2,3\nconst b f32[] = 10\nc = mul(a, b)\nd = add(c, a)\ne = add(x, "
                                "d)\nunused = relu(x)\noutput e\n",
                           NULL, 0);
  assert_int_equal(g->n_nodes, 1);
  const float *d = numbers(g, "d");
  assert_true(d[0] == 11 && d[1] == 22 && d[2] == 33);
  oct_graph_destroy(g);
}

static void float16_weights_stay_float16(void **state) {
  (void)state;
  oct_graph *g = rewritten(HEAD "input x f32[3,2]\nconst h f16[2,2] = 1,2,3,4\nconst k f16[2] = 5,6\nw = cast(h) to=f32\nc = matmul(x, "
                                "w)\nb = cast(k) to=f32\nd = mul(c, b)\nd2 = relu(d)\ne = exp(b)\nf = add(d2, e)\noutput f\n",
                           "constant_folding", 1e-6);
  assert_int_equal(count_ops(g, "cast"), 1); /* w; b is no weight */
  oct_graph_destroy(g);
}

static void equal_nodes_merge(void **state) {
  (void)state;
  oct_graph *g =
      rewritten(HEAD "input x f32[2,3]\ninput y f32[2,3]\na = add(x, y)\nb = add(y, x)\nc = sub(x, y)\nd = sub(y, x)\ne = sub(x, y)\n"
                     "const p f32[] = 2\nconst q f32[] = 2\nf = mul(c, p)\ng = mul(e, q)\nh = concat(a, b, d, f, g) axis=0\noutput "
                     "h\noutput b\noutput f\noutput g\n",
                "common_subexpressions", 0);
  assert_int_equal(count_ops(g, "add"), 1); /* under the output's name */
  assert_int_equal(count_ops(g, "sub"), 2);
  assert_int_equal(count_ops(g, "mul"), 2); /* both are outputs */
  oct_graph_destroy(g);
}

static void different_attributes_or_rounding_do_not_merge(void **state) {
  (void)state;
  oct_graph *g =
      rewritten(HEAD "input x f32[2,3]\na = softmax(x) axis=0\nb = softmax(x) axis=1\nc = relu(x)\nd = relu(x)\nquant d u8 scale=0.3\n"
                     "h = concat(a, b, c, d) axis=0\noutput h\n",
                "common_subexpressions", 0);
  assert_int_equal(g->n_nodes, 5);
  oct_graph_destroy(g);
}

/* ---- transposes ---- */

static void transposes_cancel(void **state) {
  (void)state;
  oct_graph *g = rewritten(
      HEAD "input x f32[1,2,3,4]\na = transpose(x) perm=0,2,3,1\nb = transpose(a) perm=0,3,1,2\nc = relu(b)\noutput c\n", NULL, 0);
  assert_int_equal(g->n_nodes, 1);
  oct_graph_destroy(g);
  g = rewritten(HEAD
                "input x f32[1,2,3,4]\na = transpose(x) perm=0,2,3,1\nb = transpose(a) perm=0,2,3,1\nc = relu(b)\noutput c\noutput a\n",
                NULL, 0);
  assert_int_equal(count_ops(g, "transpose"), 2);
  oct_graph_destroy(g);
}

static void transposes_cancel_through_elementwise(void **state) {
  (void)state;
  oct_graph *g = rewritten(
      HEAD "input x f32[1,2,3,4]\ninput y f32[1,2,3,4]\nconst two f32[] = 2\na = transpose(x) perm=0,2,3,1\nb = transpose(y) perm=0,2,3,1\n"
           "c = add(a, b)\nd = mul(c, two)\ne = relu(d)\nf = transpose(e) perm=0,3,1,2\noutput f\n",
      NULL, 0);
  assert_int_equal(count_ops(g, "transpose"), 0);
  assert_int_equal(g->n_nodes, 3);
  oct_graph_destroy(g);
  g = rewritten(HEAD "input x f32[1,2,3,4]\ninput y f32[1,2,3,4]\na = transpose(x) perm=0,2,3,1\nb = transpose(y) perm=0,2,3,1\n"
                     "c = add(a, b)\nquant c u8 scale=0.05 zero_point=100\nf = transpose(c) perm=0,3,1,2\noutput f\n",
                NULL, 0);
  assert_int_equal(g->n_nodes, 1);
  assert_non_null(g->outputs[0]->quant);
  oct_graph_destroy(g);
  /* a constant along the channels does not pass */
  g = rewritten(
      HEAD
      "input x f32[1,2,3,4]\nconst k f32[2] = 1,2\na = transpose(x) perm=0,2,3,1\nc = add(a, k)\nf = transpose(c) perm=0,3,1,2\noutput f\n",
      NULL, 0);
  assert_int_equal(count_ops(g, "transpose"), 2);
  oct_graph_destroy(g);
}

/* ---- quantize and dequantize ---- */

#define QP "const s f32[] = 0.25\nconst z u8[] = 128\n"

static void a_pair_becomes_parameters(void **state) {
  (void)state;
  oct_graph *g = rewritten(
      HEAD "input x f32[2,4]\n" QP "r = relu(x)\nq = quantize(r, s, z)\nd = dequantize(q, s, z)\ny = exp(d)\noutput y\n", NULL, 0);
  assert_int_equal(g->n_nodes, 2);
  const oct_quant *quant = oct_graph_find(g, "r")->quant;
  assert_int_equal(quant->dtype, OCT_U8);
  assert_true(quant->scale[0] == 0.25f && quant->zero_point[0] == 128 && quant->axis == -1);
  oct_graph_destroy(g);
}

static void a_float_input_carries_parameters(void **state) {
  (void)state;
  oct_graph *g =
      rewritten(HEAD "input x f32[2,4]\n" QP
                     "q = quantize(x, s, z)\nd = dequantize(q, s, z)\ny = exp(d)\nz2 = dequantize(q, s, z)\nw = add(y, z2)\noutput w\n",
                NULL, 0);
  assert_int_equal(g->n_nodes, 2);
  assert_non_null(g->inputs[0]->quant);
  oct_graph_destroy(g);
}

static void other_float_users_keep_the_float(void **state) {
  (void)state;
  oct_graph *g = rewritten(
      HEAD "input x f32[2,4]\n" QP "r = relu(x)\nq = quantize(r, s, z)\nd = dequantize(q, s, z)\ny = add(d, r)\noutput y\n", NULL, 0);
  assert_int_equal(count_ops(g, "identity"), 1);
  assert_int_equal(count_ops(g, "quantize") + count_ops(g, "dequantize"), 0);
  assert_null(oct_graph_find(g, "r")->quant);
  oct_graph_destroy(g);
  /* two different parameters on one value */
  g = rewritten(HEAD "input x f32[2,4]\nconst s2 f32[] = 0.5\n" QP
                     "r = relu(x)\nq = quantize(r, s, z)\nd = dequantize(q, s, z)\nq2 = quantize(r, s2, z)\nd2 = dequantize(q2, s2, z)\ny "
                     "= add(d, d2)\noutput y\n",
                NULL, 0);
  assert_int_equal(count_ops(g, "identity"), 2);
  oct_graph_destroy(g);
}

static void outputs_keep_their_names(void **state) {
  (void)state;
  oct_graph *g = rewritten(HEAD "input x f32[2,4]\n" QP "r = relu(x)\nq = quantize(r, s, z)\nd = dequantize(q, s, z)\noutput d\n", NULL, 0);
  assert_int_equal(g->n_nodes, 1);
  assert_non_null(g->outputs[0]->quant);
  oct_graph_destroy(g);
  g = rewritten(HEAD "input x f32[2,4]\n" QP
                     "q = quantize(x, s, z)\nd = dequantize(q, s, z)\ne = dequantize(q, s, z)\noutput d\noutput e\n",
                NULL, 0);
  assert_int_equal(count_ops(g, "quantize") + count_ops(g, "dequantize"), 0);
  oct_graph_destroy(g);
}

static void eight_bit_inputs_and_outputs_stay(void **state) {
  (void)state;
  oct_graph *g = rewritten(HEAD "input x u8[2,4]\n" QP "d = dequantize(x, s, z)\ny = exp(d)\nq = quantize(y, s, z)\noutput q\n", NULL, 0);
  assert_int_equal(g->n_nodes, 3);
  assert_non_null(oct_graph_find(g, "d")->quant);
  assert_non_null(oct_graph_find(g, "y")->quant);
  assert_int_equal(g->outputs[0]->dtype, OCT_U8);
  oct_graph_destroy(g);
}

static void constants_become_quantized(void **state) {
  (void)state;
  oct_graph *g = rewritten(
      HEAD
      "input x f32[2,3]\nconst w i8[2,3] = 1,-2,3,-4,5,-6\nconst ws f32[2] = 0.5,0.25\nconst b i32[2] = 7,-9\nconst bs f32[2] = 0.1,0.2\n"
      "wd = dequantize(w, ws) axis=0\nbd = dequantize(b, bs) axis=0\ny = gemm(x, wd, bd) transB=1\noutput y\n",
      NULL, 0);
  assert_int_equal(g->n_nodes, 1);
  const oct_value *w = g->nodes[0]->inputs[1], *b = g->nodes[0]->inputs[2];
  assert_string_equal(w->name, "w");
  assert_int_equal(w->quant->axis, 0);
  assert_int_equal(w->quant->count, 2);
  assert_int_equal(w->tensor->dtype, OCT_I8);
  assert_int_equal(w->dtype, OCT_F32);
  assert_int_equal(b->quant->dtype, OCT_I32);
  oct_graph_destroy(g);
}

static void unsigned_weights_around_128_become_signed(void **state) {
  (void)state;
  oct_graph *g = rewritten(HEAD "input x f32[2,3]\nconst w u8[3,2] = 0,255,128,127,129,1\n" QP
                                "wd = dequantize(w, s, z)\ny = matmul(x, wd)\noutput y\n",
                           NULL, 0);
  const oct_value *w = g->nodes[0]->inputs[1];
  const int8_t expected[6] = {-128, 127, 0, -1, 1, -127};
  assert_int_equal(w->tensor->dtype, OCT_I8);
  assert_int_equal(w->quant->zero_point[0], 0);
  assert_memory_equal(w->tensor->data, expected, 6);
  oct_graph_destroy(g);
}

static void one_constant_two_scales(void **state) {
  (void)state;
  oct_graph *g = rewritten(
      HEAD
      "input x f32[2,2]\nconst w i8[2,2] = 1,2,3,4\nconst s f32[] = 0.5\nconst t f32[] = 0.25\n"
      "a = dequantize(w, s)\nb = dequantize(w, t)\nc = dequantize(w, s)\ny = matmul(x, a)\nz = matmul(y, b)\nv = matmul(z, c)\noutput v\n",
      NULL, 0);
  assert_int_equal(g->n_nodes, 3);
  oct_value *first = g->nodes[0]->inputs[1], *second = g->nodes[1]->inputs[1], *third = g->nodes[2]->inputs[1];
  assert_ptr_equal(first->tensor, second->tensor); /* stored once */
  assert_ptr_equal(first, third);
  assert_true(first->quant->scale[0] == 0.5f && second->quant->scale[0] == 0.25f);
  oct_graph_destroy(g);
}

/* Case 31 of the list of faults: quantize - transpose and reshape - dequantize between integer layers. */
static void pairs_meet_through_movement(void **state) {
  (void)state;
  oct_graph *g = rewritten(HEAD "input x f32[1,2,3,4]\nconst shape i64[2] = 2,12\n" QP
                                "r = relu(x)\nq = quantize(r, s, z)\nt = transpose(q) perm=0,2,3,1\nu = reshape(t, shape)\nd = "
                                "dequantize(u, s, z)\ny = exp(d)\noutput y\n",
                           NULL, 0);
  assert_int_equal(count_ops(g, "quantize") + count_ops(g, "dequantize"), 0);
  assert_int_equal(g->n_nodes, 4);
  assert_non_null(oct_graph_find(g, "r")->quant);
  assert_true(oct_quant_equal(oct_graph_find(g, "t")->quant, oct_graph_find(g, "r")->quant));
  oct_graph_destroy(g);
  g = rewritten(HEAD
                "input x f32[1,2,4,4]\n" QP
                "r = relu(x)\nq = quantize(r, s, z)\nt = max_pool(q) kernel_shape=2,2\nd = dequantize(t, s, z)\ny = exp(d)\noutput y\n",
                NULL, 0);
  assert_int_equal(count_ops(g, "quantize") + count_ops(g, "dequantize"), 0);
  oct_graph_destroy(g);
}

static void pairs_that_must_stay(void **state) {
  (void)state;
  /* scales that differ; a scale that is an input */
  oct_graph *g = rewritten(HEAD "input x f32[2,4]\nconst s2 f32[] = 0.5\n" QP
                                "q = quantize(x, s, z)\nd = dequantize(q, s2, z)\ny = exp(d)\noutput y\n",
                           NULL, 0);
  assert_int_equal(count_ops(g, "quantize"), 1);
  assert_int_equal(count_ops(g, "dequantize"), 1);
  oct_graph_destroy(g);
  g = parse(HEAD "input x f32[2,4]\ninput s f32[]\nconst z u8[] = 128\nq = quantize(x, s, z)\nd = dequantize(q, s, z)\noutput d\n");
  check(oct_passes_run(ctx, g, NULL));
  assert_int_equal(count_ops(g, "quantize"), 1);
  oct_graph_destroy(g);
}

static void float_weights_between_a_pair(void **state) {
  (void)state;
  oct_graph *g = rewritten(HEAD "input x f32[2,2]\nconst w f32[2,2] = 0.3,-0.6,1,9\nconst s f32[2] = 0.1,0.2\nconst z i8[2] = 0\n"
                                "q = quantize(w, s, z) axis=0\nd = dequantize(q, s, z) axis=0\ny = matmul(x, d)\noutput y\n",
                           NULL, 0);
  assert_int_equal(g->n_nodes, 1);
  const int8_t expected[4] = {3, -6, 5, 45};
  assert_memory_equal(g->nodes[0]->inputs[1]->tensor->data, expected, 4);
  assert_int_equal(g->nodes[0]->inputs[1]->quant->axis, 0);
  oct_graph_destroy(g);
}

/* ---- the manager ---- */

static void passes_can_be_turned_off(void **state) {
  (void)state;
  const char *const off[] = {"identity_removal", NULL}, *const unknown[] = {"nope", NULL};
  oct_graph *g = parse(HEAD "input x f32[2]\na = relu(x)\nb = identity(a)\nc = exp(b)\noutput c\n");
  check(oct_passes_run(ctx, g, off));
  assert_int_equal(g->n_nodes, 3);
  assert_int_equal(oct_passes_run(ctx, g, unknown), OCTET_INVALID_ARGUMENT);
  assert_non_null(strstr(ctx->message, "nope"));
  check(oct_passes_run(ctx, g, NULL));
  assert_int_equal(g->n_nodes, 2);
  oct_graph_destroy(g);
}

static void allocation_failures(void **state) {
  (void)state;
  const char *text = HEAD
      "input x f32[1,1,4,4]\nconst w f32[2,1,3,3] = 0.5\n" BN QP
      "c = conv(x, w)\ny = batch_normalization(c, g, be, m, v)\nq = quantize(y, s, z)\n"
      "d = dequantize(q, s, z)\ni = identity(d)\nt = transpose(i)\nu = transpose(t)\nr = relu(u)\nr2 = relu(u)\nk = add(r, r2)\noutput k\n";
  octet_status status = OCTET_OUT_OF_MEMORY;
  for (int n = 0; status != OCTET_OK && n < 3000; n++) {
    oct_graph *g = parse(text);
    ctx->allocations_left = n;
    status = oct_passes_run(ctx, g, NULL);
    ctx->allocations_left = -1;
    assert_true(status == OCTET_OK || status == OCTET_OUT_OF_MEMORY);
    oct_graph_destroy(g);
  }
  assert_int_equal(status, OCTET_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(batch_normalization_into_conv),
      cmocka_unit_test(a_conv_without_bias_gets_one),
      cmocka_unit_test(shared_weights_are_duplicated),
      cmocka_unit_test(batch_normalization_that_must_stay),
      cmocka_unit_test(batch_normalization_into_gemm),
      cmocka_unit_test(factors_and_shifts),
      cmocka_unit_test(matmul_with_bias_becomes_gemm),
      cmocka_unit_test(shifts_that_must_stay),
      cmocka_unit_test(identities_go),
      cmocka_unit_test(an_identity_that_rounds_stays),
      cmocka_unit_test(constants_fold),
      cmocka_unit_test(float16_weights_stay_float16),
      cmocka_unit_test(equal_nodes_merge),
      cmocka_unit_test(different_attributes_or_rounding_do_not_merge),
      cmocka_unit_test(transposes_cancel),
      cmocka_unit_test(transposes_cancel_through_elementwise),
      cmocka_unit_test(a_pair_becomes_parameters),
      cmocka_unit_test(a_float_input_carries_parameters),
      cmocka_unit_test(other_float_users_keep_the_float),
      cmocka_unit_test(outputs_keep_their_names),
      cmocka_unit_test(eight_bit_inputs_and_outputs_stay),
      cmocka_unit_test(constants_become_quantized),
      cmocka_unit_test(unsigned_weights_around_128_become_signed),
      cmocka_unit_test(one_constant_two_scales),
      cmocka_unit_test(pairs_meet_through_movement),
      cmocka_unit_test(pairs_that_must_stay),
      cmocka_unit_test(float_weights_between_a_pair),
      cmocka_unit_test(passes_can_be_turned_off),
      cmocka_unit_test(allocation_failures),
  };
  return cmocka_run_group_tests(tests, context_create, context_destroy);
}
