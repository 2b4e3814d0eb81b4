/* The passes about dynamic quantization and gelu, on graphs in text. Against other tools: test_dynamic.py.
 * SPDX-License-Identifier: MIT */
#include "pass_helpers.h"

static const oct_node *find_op(const oct_graph *graph, const char *op) {
  for (size_t i = 0; i < graph->n_nodes; i++)
    if (strcmp(graph->nodes[i]->op->name, op) == 0) return graph->nodes[i];
  return NULL;
}

#define MATMUL(tail)                                                                                                                      \
  "octet 1\ninput x f32[3,4]\nconst w i8[4,2] = 1,-2,3,-4,5,-6,7,-8\nconst a f32[] = 0.5\nconst b f32[2] = 0.25,0.125\nconst c f32[2] = " \
  "1,2\n"                                                                                                                                 \
  "q, s, z = dynamic_quantize(x)\ni = matmul_integer(q, w, z)\nr = cast(i) to=f32\n" tail

static void orders_of_factors(void **state) {
  (void)state;
  static const char *const texts[] = {MATMUL("m = mul(s, b)\ny = mul(r, m)\noutput y\n"),
                                      MATMUL("m = mul(r, s)\ny = mul(b, m)\noutput y\n"),
                                      MATMUL("m = mul(b, r)\ny = mul(m, s)\noutput y\n")};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    oct_graph *graph = parse(texts[i]);
    check(oct_passes_run(ctx, graph, NULL));
    assert_int_equal(graph->n_nodes, 1);
    const oct_node *node = find_op(graph, "matmul");
    assert_non_null(node);
    assert_int_equal(oct_node_int(node, "dynamic"), 2);
    const oct_quant *quant = node->inputs[1]->quant;
    assert_int_equal(quant->axis, 1);
    assert_true(quant->scale[0] == 0.25f && quant->scale[1] == 0.125f);
    assert_string_equal(node->outputs[0]->name, "y");
    oct_graph_destroy(graph);
  }
}

/* The shape of x comes from data: what the factors are suffices. */
static void shapes_may_be_unknown(void **state) {
  (void)state;
  oct_graph *graph = parse(
      "octet 1\ninput x f32[3,4]\ninput n i64[N]\nconst w i8[4,2] = 1,-2,3,-4,5,-6,7,-8\nconst b f32[2] = 0.25,0.125\nconst c f32[2] = "
      "1,2\n"
      "e = expand(x, n)\nq, s, z = dynamic_quantize(e)\ni = matmul_integer(q, w, z)\nr = cast(i) to=f32\nm = mul(s, b)\nt = mul(r, m)\n"
      "y = add(t, c)\noutput y\n");
  check(oct_passes_run(ctx, graph, NULL));
  assert_non_null(find_op(graph, "matmul"));
  assert_false(find_op(graph, "matmul")->outputs[0]->has_shape);
  assert_int_equal(count_ops(graph, "matmul_integer"), 0);
  assert_int_equal(count_ops(graph, "add"), 1);
  oct_graph_destroy(graph);
  /* a factor of rank 2 may make another rank of a vector */
  graph = parse("octet 1\ninput x f32[3,4]\ninput n i64[N]\nconst w i8[4,2] = 1,-2,3,-4,5,-6,7,-8\nconst b f32[1,2] = 0.25,0.125\n"
                "e = expand(x, n)\nq, s, z = dynamic_quantize(e)\ni = matmul_integer(q, w, z)\nr = cast(i) to=f32\nm = mul(s, b)\ny = "
                "mul(r, m)\noutput y\n");
  check(oct_passes_run(ctx, graph, NULL));
  assert_int_equal(count_ops(graph, "matmul_integer"), 1);
  oct_graph_destroy(graph);
}

static void bias_makes_a_gemm(void **state) {
  (void)state;
  oct_graph *graph = parse(MATMUL("m = mul(s, a)\nt = mul(r, m)\ny = add(c, t)\noutput y\n"));
  check(oct_passes_run(ctx, graph, NULL));
  const oct_node *node = find_op(graph, "gemm");
  assert_int_equal(graph->n_nodes, 1);
  assert_non_null(node);
  assert_int_equal(node->inputs[1]->quant->count, 1);
  assert_true(((const float *)node->inputs[2]->tensor->data)[1] == 2);
  oct_graph_destroy(graph);
}

/* What must stay as it is: no scale, the accumulator read by two, another zero point, weights that are no int8. */
static void others_stay(void **state) {
  (void)state;
  static const char *const texts[] = {
      MATMUL("y = mul(r, b)\noutput y\n"), MATMUL("m = mul(s, b)\ny = mul(r, m)\noutput y\noutput r\n"),
      "octet 1\ninput x f32[3,4]\ninput p f32[3,4]\nconst w i8[4,2] = 1,-2,3,-4,5,-6,7,-8\nconst b f32[2] = 0.25,0.125\nq, s, z = "
      "dynamic_quantize(x)\n"
      "q2, s2, z2 = dynamic_quantize(p)\ni = matmul_integer(q, w, z2)\nr = cast(i) to=f32\nm = mul(s, b)\ny = mul(r, m)\nu = mul(y, "
      "s2)\noutput u\n",
      ("octet 1\ninput x f32[3,2]\nconst w u8[2,2] = 0,1,254,255\nconst wz u8[] = 5\nconst b f32[] = 0.25\nq, s, z = dynamic_quantize(x)\n"
       "i = matmul_integer(q, w, z, wz)\nr = cast(i) to=f32\nm = mul(s, b)\ny = mul(r, m)\noutput y\n")};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    oct_graph *graph = parse(texts[i]);
    check(oct_passes_run(ctx, graph, NULL));
    assert_int_equal(count_ops(graph, "matmul_integer"), 1);
    oct_graph_destroy(graph);
  }
}

static void marked_ones_are_per_row(void **state) {
  (void)state;
  oct_graph *graph = parse("octet 1\ninput x f32[3,2]\nconst w u8[2,2] = 0,1,254,255\nconst wz u8[] = 128\nconst b f32[] = 0.25\n"
                           "q, s, z = dynamic_quantize(x) per_sample=1\ni = matmul_integer(q, w, z, wz)\nr = cast(i) to=f32\nm = mul(s, "
                           "b)\ny = mul(r, m)\noutput y\n");
  check(oct_passes_run(ctx, graph, NULL));
  const oct_node *node = find_op(graph, "matmul");
  assert_non_null(node);
  assert_int_equal(oct_node_int(node, "dynamic"), 1);
  const int8_t *w = node->inputs[1]->tensor->data;
  assert_true(w[0] == -128 && w[1] == -127 && w[2] == 126 && w[3] == 127);
  oct_graph_destroy(graph);
}

/* A clamped value carries its bounds' parameters, and so does what is moved on the way. */
static void bounded_ranges(void **state) {
  (void)state;
  oct_graph *graph = parse("octet 1\ninput x f32[1,2,4,4]\nconst w f32[2,2,1,1] = 1,2,3,4\nconst low f32[] = -1\nconst high f32[] = 4.1\n"
                           "c = clip(x, low, high)\np = max_pool(c) kernel_shape=2,2\ny = conv(p, w) dynamic=1\noutput y\n");
  oct_value *w = oct_graph_find(graph, "w");
  oct_tensor *narrow;
  check(oct_tensor_create(ctx, OCT_I8, &w->shape, &narrow));
  oct_value_set_tensor(w, narrow);
  float scale = 0.5f;
  int32_t zero = 0;
  check(oct_value_set_quant(ctx, graph, w, &(oct_quant){.dtype = OCT_I8, .axis = -1, .count = 1, .scale = &scale, .zero_point = &zero}));
  w->dtype = OCT_F32;
  check(oct_pass_run(ctx, graph, "bound_ranges"));
  static const char *const names[] = {"c", "p"};
  for (int i = 0; i < 2; i++) {
    const oct_quant *quant = oct_graph_find(graph, names[i])->quant;
    assert_non_null(quant);
    assert_true(fabs((double)quant->scale[0] - 5.1 / 255) < 1e-8);
    assert_int_equal(quant->zero_point[0], 50); /* 1 / 0.02 */
  }
  assert_null(oct_graph_find(graph, "x")->quant);
  oct_graph_destroy(graph);
}

static void gelu_is_recognized(void **state) {
  (void)state;
  static const char *const texts[] = {"octet 1\ninput x f32[3,5]\nconst r f32[] = 1.4142135\nconst o f32[] = 1\nconst h f32[] = 0.5\nd = "
                                      "div(x, r)\ne = erf(d)\ns = add(e, o)\nm = mul(x, s)\ny = mul(m, h)\noutput y\n",
                                      "octet 1\ninput x f32[3,5]\nconst r f32[] = 0.70710677\nconst o f32[] = 1\nconst h f32[] = 0.5\nd = "
                                      "mul(r, x)\ne = erf(d)\ns = add(o, e)\nm = mul(h, x)\ny = mul(m, s)\noutput y\n",
                                      "octet 1\ninput x f32[3,5]\nconst r f32[] = 1.4142135\nconst o f32[] = 1\nconst h f32[] = 0.5\nd = "
                                      "div(x, r)\ne = erf(d)\ns = add(e, o)\nm = mul(s, h)\ny = mul(x, m)\noutput y\n"};
  for (size_t i = 0; i < 3; i++) {
    oct_graph *graph = rewritten(texts[i], "recognize_gelu", 1e-6);
    assert_int_equal(graph->n_nodes, 1);
    assert_int_equal(count_ops(graph, "gelu"), 1);
    oct_graph_destroy(graph);
  }
  /* another factor; the error function read twice */
  static const char *const others[] = {"octet 1\ninput x f32[3,5]\nconst r f32[] = 1.5\nconst o f32[] = 1\nconst h f32[] = 0.5\nd = div(x, "
                                       "r)\ne = erf(d)\ns = add(e, o)\nm = mul(x, s)\ny = mul(m, h)\noutput y\n",
                                       "octet 1\ninput x f32[3,5]\nconst r f32[] = 1.4142135\nconst o f32[] = 1\nconst h f32[] = 0.5\nd = "
                                       "div(x, r)\ne = erf(d)\ns = add(e, o)\nm = mul(x, s)\ny = mul(m, h)\noutput y\noutput e\n"};
  for (size_t i = 0; i < 2; i++) {
    oct_graph *graph = parse(others[i]);
    check(oct_pass_run(ctx, graph, "recognize_gelu"));
    assert_int_equal(count_ops(graph, "gelu"), 0);
    oct_graph_destroy(graph);
  }
}

/* ONNX's document of DepthToSpace writes both modes out so. */
static void depth_to_space_is_recognized(void **state) {
  (void)state;
#define WRITTEN_OUT(shape, perm, last)                                                                         \
  "octet 1\ninput x f32[2,12,2,3]\nconst s i64[6] = " shape "\nconst e i64[4] = " last "\na = reshape(x, s)\n" \
  "t = transpose(a) perm=" perm "\ny = reshape(t, e)\noutput y\n"
  static const char *const texts[] = {WRITTEN_OUT("-1,3,2,2,2,3", "0,1,4,2,5,3", "2,3,4,6"),
                                      WRITTEN_OUT("2,2,2,3,2,3", "0,3,4,1,5,2", "-1,3,4,6")};
  static const char *const modes[] = {"CRD", "DCR"};
  for (size_t i = 0; i < 2; i++) {
    oct_graph *graph = rewritten(texts[i], "recognize_depth_to_space", 0);
    assert_int_equal(graph->n_nodes, 1);
    assert_int_equal(count_ops(graph, "depth_to_space"), 1);
    assert_int_equal(oct_node_int(graph->nodes[0], "blocksize"), 2);
    assert_string_equal(oct_node_string(graph->nodes[0], "mode"), modes[i]);
    oct_graph_destroy(graph);
  }
  /* other orders, another end, a block that is not square, a value read elsewhere */
  static const char *const others[] = {
      WRITTEN_OUT("2,3,2,2,2,3", "0,1,4,3,5,2", "2,3,4,6"), WRITTEN_OUT("2,3,2,2,2,3", "0,1,4,2,5,3", "2,6,4,3"),
      WRITTEN_OUT("2,6,1,2,2,3", "0,1,4,2,5,3", "2,6,2,6"), WRITTEN_OUT("2,3,2,2,2,3", "0,1,4,2,5,3", "2,3,4,6") "output t\n"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    oct_graph *graph = parse(others[i]);
    check(oct_pass_run(ctx, graph, "recognize_depth_to_space"));
    assert_int_equal(count_ops(graph, "depth_to_space"), 0);
    oct_graph_destroy(graph);
  }
}

static void a_slice_gives_back_what_was_concatenated(void **state) {
  (void)state;
#define PARTS "octet 1\ninput x f32[4,3]\ninput z f32[4,2]\na = relu(x)\nb = exp(z)\nc = concat(a, b) axis=-1\nconst axis i64[1] = 1\n"
#define BOUNDS(start, end) "const s i64[1] = " start "\nconst e i64[1] = " end "\n"
  static const char *const bounds[] = {BOUNDS("0", "3"), BOUNDS("3", "5"), BOUNDS("-2", "9223372036854775807"), BOUNDS("-5", "-2")};
  char text[512];
  for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
    snprintf(text, sizeof text, "%s%st = slice(c, s, e, axis)\ny = neg(t)\noutput y\n", PARTS, bounds[i]);
    oct_graph *graph = rewritten(text, "slice_of_concat", 0);
    assert_int_equal(count_ops(graph, "slice") + count_ops(graph, "concat"), 0);
    assert_string_equal(oct_graph_find(graph, "y")->producer->inputs[0]->name, i % 3 ? "b" : "a");
    oct_graph_destroy(graph);
  }
  /* across the border; a part; another axis; a step; rounded in between */
  static const char *const others[] = {PARTS BOUNDS("2", "5") "t = slice(c, s, e, axis)\ny = neg(t)\noutput y\n",
                                       PARTS BOUNDS("0", "2") "t = slice(c, s, e, axis)\ny = neg(t)\noutput y\n",
                                       PARTS BOUNDS("0", "3") "t = slice(c, s, e)\ny = neg(t)\noutput y\n",
                                       PARTS BOUNDS("0", "3") "const two i64[1] = 2\nt = slice(c, s, e, axis, two)\ny = neg(t)\noutput y\n",
                                       PARTS "quant c u8 scale=0.1 zero_point=3\n" BOUNDS(
                                           "0", "3") "t = slice(c, s, e, axis)\nquant t u8 scale=0.1 zero_point=3\ny = neg(t)\noutput y\n"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    oct_graph *graph = parse(others[i]);
    check(oct_pass_run(ctx, graph, "slice_of_concat"));
    assert_int_equal(count_ops(graph, "slice"), 1);
    oct_graph_destroy(graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(orders_of_factors),
      cmocka_unit_test(shapes_may_be_unknown),
      cmocka_unit_test(bias_makes_a_gemm),
      cmocka_unit_test(others_stay),
      cmocka_unit_test(marked_ones_are_per_row),
      cmocka_unit_test(bounded_ranges),
      cmocka_unit_test(gelu_is_recognized),
      cmocka_unit_test(depth_to_space_is_recognized),
      cmocka_unit_test(a_slice_gives_back_what_was_concatenated),
  };
  return cmocka_run_group_tests(tests, context_create, context_destroy);
}
