/* ONNX reading: what the format allows and how it arrives in the graph. Malformed files: test_onnx_bad.c; writing: test_onnx_write.c.
 * SPDX-License-Identifier: MIT */
#include "context_checks.h"

#include <sys/stat.h>
#include <unistd.h>

#include "formats/check.h"
#include "formats/onnx.h"
#include "onnx_builder.h"
#include "ref_interpreter.h"

enum { FLOAT = 1, UINT8, INT8, UINT16, INT16, INT32, INT64, STRING, BOOL, FLOAT16, DOUBLE, UINT32, UINT64, BFLOAT16 = 16 };

/* Reads and frees the model; NULL when it is refused. */
static oct_graph *read_model(pb model, const oct_onnx_options *options) {
  oct_graph *graph;
  octet_status status = oct_onnx_read_bytes(ctx, (oct_bytes){model.data, model.size}, NULL, options, &graph);
  if (status != OCTET_OK) print_message("refused: %s\n", ctx->message);
  free(model.data);
  return graph;
}

static pb simple_graph(const char *op) {
  pb g = {0};
  pb_message(&g, 1, pb_node(op, "x", "y", NULL));
  pb_message(&g, 11, pb_value_info("x", FLOAT, "N,4"));
  pb_message(&g, 12, pb_value_info("y", FLOAT, "N,4"));
  return g;
}

/* ---- Graphs ---- */

static void test_names_and_sizes(void **state) {
  (void)state;
  oct_graph *g = read_model(pb_model(simple_graph("Relu"), 13, 7), NULL);
  assert_non_null(g);
  assert_int_equal(g->n_nodes, 1);
  assert_string_equal(g->nodes[0]->op->name, "relu");
  assert_string_equal(g->nodes[0]->name, "y"); /* unnamed: named after its output */
  assert_string_equal(g->inputs[0]->name, "x");
  assert_string_equal(g->outputs[0]->name, "y");
  assert_int_equal(g->outputs[0]->shape.dim[0], OCT_DIM_UNKNOWN);
  assert_string_equal(g->inputs[0]->dim_names[0], "N");
  assert_string_equal(g->outputs[0]->dim_names[0], "N");
  assert_int_equal(g->outputs[0]->shape.dim[1], 4);
  oct_graph_destroy(g);
}

/* Case 20: IR 3 lists initializers as inputs; the output is a convolution's own; nodes have no names. */
static void test_initializers_as_inputs(void **state) {
  (void)state;
  const int64_t dims[] = {2, 1, 1, 1};
  const float weights[] = {2, 3};
  pb g = {0};
  pb_message(&g, 1, pb_node("Conv", "x,w", "y", NULL));
  pb_message(&g, 5, pb_tensor("w", FLOAT, dims, 4, weights, sizeof weights));
  pb_message(&g, 11, pb_value_info("w", FLOAT, "2,1,1,1"));
  pb_message(&g, 11, pb_value_info("x", FLOAT, "1,1,2,2"));
  pb_message(&g, 12, pb_value_info("y", FLOAT, "1,2,2,2"));
  oct_graph *graph = read_model(pb_model(g, 8, 3), NULL);
  assert_non_null(graph);
  assert_int_equal(graph->n_inputs, 1);
  assert_string_equal(graph->inputs[0]->name, "x");
  assert_int_equal(oct_graph_find(graph, "w")->kind, OCT_CONSTANT);
  assert_int_equal(graph->outputs[0]->dtype, OCT_F32);
  assert_ptr_equal(graph->outputs[0]->producer, graph->nodes[0]);
  oct_graph_destroy(graph);
}

static void test_order_is_free(void **state) {
  (void)state;
  pb g = {0};
  pb_message(&g, 12, pb_value_info("y", FLOAT, "4"));
  pb_message(&g, 1, pb_node("Exp", "b", "y", "last"));
  pb_message(&g, 1, pb_node("Neg", "a", "b", "middle"));
  pb_message(&g, 1, pb_node("Relu", "x", "a", "first"));
  pb_message(&g, 11, pb_value_info("x", FLOAT, "4"));
  oct_graph *graph = read_model(pb_model(g, 13, 7), NULL);
  assert_non_null(graph);
  assert_string_equal(graph->nodes[0]->name, "first");
  assert_string_equal(graph->nodes[1]->name, "middle");
  assert_string_equal(graph->nodes[2]->name, "last");
  oct_graph_destroy(graph);
}

/* Outputs that are an input, a constant, and one value under two names. */
static void test_outputs_of_any_kind(void **state) {
  (void)state;
  const int64_t dims[] = {2};
  const float values[] = {1, 2};
  pb g = {0};
  pb_message(&g, 1, pb_node("Relu", "x", "r", NULL));
  pb_message(&g, 1, pb_node("Identity", "r", "s", NULL));
  pb_message(&g, 5, pb_tensor("c", FLOAT, dims, 1, values, sizeof values));
  pb_message(&g, 5, pb_tensor("unused", FLOAT, dims, 1, values, sizeof values));
  pb_message(&g, 11, pb_value_info("x", FLOAT, "4"));
  pb_message(&g, 12, pb_value_info("x", FLOAT, "4"));
  pb_message(&g, 12, pb_value_info("c", FLOAT, "2"));
  pb_message(&g, 12, pb_value_info("r", FLOAT, "4"));
  pb_message(&g, 12, pb_value_info("s", FLOAT, "4"));
  oct_graph *graph = read_model(pb_model(g, 13, 7), NULL);
  assert_non_null(graph);
  assert_int_equal(graph->n_outputs, 4);
  const char *names[] = {"x", "c", "r", "s"};
  for (int i = 0; i < 4; i++) assert_string_equal(graph->outputs[i]->name, names[i]);
  assert_null(oct_graph_find(graph, "unused"));
  oct_graph_destroy(graph);
}

static void test_hints_and_warnings(void **state) {
  (void)state;
  pb g = {0};
  pb_message(&g, 1, pb_node("Relu", "x", "a", NULL));
  pb_message(&g, 1, pb_node("Neg", "a", "y", NULL));
  pb_message(&g, 11, pb_value_info("x", FLOAT, "3,?"));
  pb_message(&g, 13, pb_value_info("a", FLOAT, "3,5"));
  pb_message(&g, 12, pb_value_info("y", FLOAT, "7,5"));
  oct_graph *graph = read_model(pb_model(g, 13, 7), NULL);
  assert_non_null(graph);
  assert_int_equal(oct_graph_find(graph, "a")->shape.dim[1], 5); /* open in the inference, taken from the declaration */
  assert_int_equal(graph->outputs[0]->shape.dim[0], 3);          /* contradicts the declaration: inferred, with a warning */
  assert_int_equal(ctx->n_warnings, 1);
  assert_non_null(strstr(ctx->warnings[0], "\"y\""));
  assert_non_null(strstr(ctx->warnings[0], "[7,5]"));
  oct_graph_destroy(graph);
}

static void test_bound_inputs(void **state) {
  (void)state;
  pb g = {0};
  oct_tensor *shape;
  oct_shape two = oct_shape_of(1, (int64_t)2);
  assert_int_equal(oct_tensor_create(ctx, OCT_I64, &two, &shape), OCTET_OK);
  ((int64_t *)shape->data)[0] = 6;
  ((int64_t *)shape->data)[1] = -1;
  pb_message(&g, 1, pb_node("Reshape", "x,s", "y", NULL));
  pb_message(&g, 11, pb_value_info("x", FLOAT, "3,4"));
  pb_message(&g, 11, pb_value_info("s", INT64, "2"));
  pb_message(&g, 12, pb_value_info("y", FLOAT, NULL));
  oct_named_tensor bound = {.name = (char[]){"s"}, .tensor = shape};
  oct_graph *graph = read_model(pb_model(g, 13, 7), &(oct_onnx_options){&bound, 1});
  assert_non_null(graph);
  assert_int_equal(graph->n_inputs, 1);
  oct_shape want = oct_shape_of(2, (int64_t)6, (int64_t)2);
  assert_true(oct_shape_equal(&graph->outputs[0]->shape, &want));
  oct_graph_destroy(graph);
  bound.name[0] = 'q';
  assert_null(read_model(pb_model(simple_graph("Relu"), 13, 7), &(oct_onnx_options){&bound, 1}));
  assert_int_equal(ctx->status, OCTET_INVALID_ARGUMENT);
  oct_tensor_release(shape);
}

/* A function with an attribute reference and a call inside a call: y = relu(relu(x) ...), alpha from the outer call or the default. */
static pb function_model(bool with_alpha) {
  pb inner = {0}, outer = {0}, leaky = pb_node("LeakyRelu", "t", "b", NULL), attribute = {0}, fallback = {0}, set = {0};
  pb_text(&attribute, 1, "alpha");
  pb_text(&attribute, 21, "k");
  pb_int(&attribute, 20, 1);
  pb_message(&leaky, 5, attribute);
  pb_text(&inner, 1, "F");
  pb_text(&inner, 4, "a");
  pb_text(&inner, 5, "b");
  pb_text(&inner, 10, "local");
  pb_message(&inner, 7, pb_node("Identity", "a", "t", NULL));
  pb_message(&inner, 7, leaky);
  pb_text(&fallback, 1, "k");
  pb_float(&fallback, 2, .5f);
  pb_int(&fallback, 20, 1);
  pb_message(&inner, 11, fallback);
  pb call = pb_node("F", "p", "q", "call");
  pb_text(&call, 7, "local");
  if (with_alpha) {
    pb a = {0};
    pb_text(&a, 1, "k");
    pb_float(&a, 2, .25f);
    pb_int(&a, 20, 1);
    pb_message(&call, 5, a);
  }
  pb_text(&outer, 1, "G");
  pb_text(&outer, 4, "p");
  pb_text(&outer, 5, "q");
  pb_text(&outer, 10, "local");
  pb_message(&outer, 7, call);
  pb graph = {0}, node = pb_node("G", "x", "y", "top");
  pb_text(&node, 7, "local");
  pb_message(&graph, 1, node);
  pb_message(&graph, 11, pb_value_info("x", FLOAT, "2"));
  pb_message(&graph, 12, pb_value_info("y", FLOAT, "2"));
  pb model = pb_model(graph, 16, 8);
  pb_text(&set, 1, "local");
  pb_int(&set, 2, 1);
  pb_message(&model, 8, set);
  pb_message(&model, 25, inner);
  pb_message(&model, 25, outer);
  return model;
}

static void test_functions(void **state) {
  (void)state;
  for (int given = 0; given < 2; given++) {
    oct_graph *g = read_model(function_model(given), NULL);
    assert_non_null(g);
    assert_int_equal(g->n_nodes, 2);
    assert_string_equal(g->nodes[1]->op->name, "leaky_relu");
    assert_float_equal(oct_node_float(g->nodes[1], "alpha"), given ? .25f : .5f, 0);
    assert_string_equal(g->outputs[0]->name, "y");
    oct_graph_destroy(g);
  }
}

static void test_metadata(void **state) {
  (void)state;
  pb model = pb_model(simple_graph("Relu"), 13, 7), entry = {0};
  pb_text(&entry, 1, "preprocess");
  pb_text(&entry, 2, "scale=1/255");
  pb_message(&model, 14, entry);
  pb_text(&model, 2, "somebody");
  oct_graph *g = read_model(model, NULL);
  assert_non_null(g);
  assert_string_equal(oct_graph_metadata(g, "preprocess"), "scale=1/255");
  assert_string_equal(oct_graph_metadata(g, "producer"), "somebody");
  oct_graph_destroy(g);
}

/* ---- Tensors ---- */

static oct_tensor *read_tensor(pb t) {
  oct_tensor *tensor;
  char *name;
  octet_status status = oct_onnx_read_tensor_bytes(ctx, (oct_bytes){t.data, t.size}, &tensor, &name);
  free(t.data);
  if (status != OCTET_OK) return NULL;
  assert_string_equal(name, "t");
  oct_free(name);
  return tensor;
}

static pb typed(int type, unsigned field, bool packed, bool fixed4, bool fixed8, const uint64_t *values, int count) {
  pb t = {0}, list = {0};
  pb_int(&t, 1, count);
  pb_int(&t, 2, type);
  pb_text(&t, 8, "t");
  for (int i = 0; i < count; i++) {
    pb *to = packed ? &list : &t;
    if (!packed) pb_varint(to, field << 3 | (fixed4 ? 5 : fixed8 ? 1 : 0));
    if (fixed4 || fixed8) pb_raw(to, &values[i], fixed4 ? 4 : 8);
    else pb_varint(to, values[i]);
  }
  if (packed) pb_message(&t, field, list);
  return t;
}

/* Bits of 3 and of -2 (2 where unsigned) in each type and in the field that onnx.proto names for it. */
static void test_typed_fields(void **state) {
  (void)state;
  static const struct {
    int type;
    oct_dtype dtype;
    unsigned field;
    bool fixed4, fixed8;
    uint64_t bits[2];
    double want[2];
  } rows[] = {
      {FLOAT, OCT_F32, 4, true, false, {0x40400000, 0xc0000000}, {3, -2}},
      {DOUBLE, OCT_F64, 10, false, true, {0x4008000000000000, 0xc000000000000000}, {3, -2}},
      {FLOAT16, OCT_F16, 5, false, false, {0x4200, 0xc000}, {3, -2}},
      {BFLOAT16, OCT_BF16, 5, false, false, {0x4040, 0xc000}, {3, -2}},
      {INT8, OCT_I8, 5, false, false, {3, (uint64_t)-2}, {3, -2}},
      {UINT8, OCT_U8, 5, false, false, {3, 200}, {3, 200}},
      {INT16, OCT_I16, 5, false, false, {3, (uint64_t)-2}, {3, -2}},
      {UINT16, OCT_U16, 5, false, false, {3, 60000}, {3, 60000}},
      {INT32, OCT_I32, 5, false, false, {3, (uint64_t)-2}, {3, -2}},
      {UINT32, OCT_U32, 11, false, false, {3, 4000000000}, {3, 4000000000.}},
      {INT64, OCT_I64, 7, false, false, {3, (uint64_t)-2}, {3, -2}},
      {UINT64, OCT_U64, 11, false, false, {3, 1ull << 40}, {3, 1099511627776.}},
      {BOOL, OCT_BOOL, 5, false, false, {0, 1}, {0, 1}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    for (int packed = 0; packed < 2; packed++) {
      oct_tensor *t = read_tensor(typed(rows[i].type, rows[i].field, packed, rows[i].fixed4, rows[i].fixed8, rows[i].bits, 2));
      assert_non_null(t);
      assert_int_equal(t->dtype, rows[i].dtype);
      for (int k = 0; k < 2; k++) assert_true(oct_get_f64(t->data, t->dtype, k) == rows[i].want[k]);
      oct_tensor_release(t);
    }
}

static void test_raw_and_empty_tensors(void **state) {
  (void)state;
  const int64_t dims[] = {2, 2}, none[] = {3, 0};
  const int16_t values[] = {1, -2, 3, -4};
  oct_tensor *t = read_tensor(pb_tensor("t", INT16, dims, 2, values, sizeof values));
  assert_non_null(t);
  assert_memory_equal(t->data, values, sizeof values);
  oct_tensor_release(t);
  t = read_tensor(pb_tensor("t", FLOAT, none, 2, NULL, 0));
  assert_non_null(t);
  assert_int_equal(oct_shape_count(&t->shape), 0);
  oct_tensor_release(t);
  t = read_tensor(pb_tensor("t", FLOAT, NULL, 0, values, 4)); /* a scalar */
  assert_non_null(t);
  assert_int_equal(t->shape.rank, 0);
  oct_tensor_release(t);
}

/* ---- External data: case 19 ---- */

static pb external(const char *name, const char *location, const char *offset, const char *length) {
  const char *keys[] = {"location", "offset", "length"}, *values[] = {location, offset, length};
  pb t = {0};
  pb_int(&t, 1, 4);
  pb_int(&t, 2, FLOAT);
  pb_text(&t, 8, name);
  for (int i = 0; i < 3; i++) {
    pb entry = {0};
    if (!values[i]) continue;
    pb_text(&entry, 1, keys[i]);
    pb_text(&entry, 2, values[i]);
    pb_message(&t, 13, entry);
  }
  pb_int(&t, 14, 1);
  return t;
}

/* Two tensors of four floats in one file, 0..7 at byte 16; the second one may lie elsewhere. */
static octet_status read_external(const char *location, const char *offset, const char *length, oct_graph **out) {
  pb g = {0};
  float data[12] = {-1, -1, -1, -1, 0, 1, 2, 3, 4, 5, 6, 7};
  pb file = {(uint8_t *)data, sizeof data, sizeof data};
  mkdir("external", 0777);
  pb_save(&file, "external/weights.bin");
  pb_message(&g, 1, pb_node("Add", "x,a", "s", NULL));
  pb_message(&g, 1, pb_node("Mul", "s,b", "y", NULL));
  pb_message(&g, 5, external("a", "weights.bin", "16", "16"));
  pb_message(&g, 5, external("b", location, offset, length));
  pb_message(&g, 11, pb_value_info("x", FLOAT, "4"));
  pb_message(&g, 12, pb_value_info("y", FLOAT, "4"));
  pb model = pb_model(g, 13, 7);
  pb_save(&model, "external/model.onnx");
  free(model.data);
  return oct_onnx_read(ctx, "external/model.onnx", NULL, out);
}

static void test_external_data(void **state) {
  (void)state;
  oct_graph *g;
  assert_int_equal(read_external("weights.bin", "32", NULL, &g), OCTET_OK);
  const float *a = oct_graph_find(g, "a")->tensor->data, *b = oct_graph_find(g, "b")->tensor->data;
  for (int i = 0; i < 4; i++) assert_true(a[i] == (float)i && b[i] == (float)i + 4);
  oct_graph_destroy(g);
  assert_int_equal(read_external("./weights.bin", "32", "16", &g), OCTET_OK);
  oct_graph_destroy(g);
}

static void test_external_data_refused(void **state) {
  (void)state;
  static const struct {
    const char *location, *offset, *length, *says;
    octet_status status;
  } rows[] = {
      {"missing.bin", "0", NULL, "missing.bin", OCTET_IO},
      {"../x", "0", NULL, "refused", OCTET_FORMAT},
      {"sub/../../x", "0", NULL, "refused", OCTET_FORMAT},
      {"/etc/hostname", "0", NULL, "refused", OCTET_FORMAT},
      {"..\\x", "0", NULL, "refused", OCTET_FORMAT},
      {"", "0", NULL, "refused", OCTET_FORMAT},
      {"link", "0", NULL, "refused", OCTET_FORMAT},
      {"weights.bin", "36", NULL, "48 bytes", OCTET_FORMAT},
      {"weights.bin", "99999999999999999999", NULL, "not a number", OCTET_FORMAT},
      {"weights.bin", "-1", NULL, "not a number", OCTET_FORMAT},
      {"weights.bin", "0", "12", "12 bytes", OCTET_FORMAT},
      {NULL, "0", NULL, "refused", OCTET_FORMAT},
  };
  oct_graph *g;
  mkdir("external", 0777);
  unlink("external/link");
  assert_int_equal(symlink("/etc/hostname", "external/link"), 0);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    octet_status status = read_external(rows[i].location, rows[i].offset, rows[i].length, &g);
    assert_null(g);
    if (status != rows[i].status || !strstr(ctx->message, rows[i].says) || !strstr(ctx->message, "\"b\""))
      fail_msg("row %zu: %d %s", i, status, ctx->message);
  }
}

/* ---- Real models ---- */

static const char *data_path(char path[512], const char *name) {
  snprintf(path, 512, "%s/../shared/data/%s", OCTET_SOURCE_DIR, name);
  if (access(path, R_OK) == 0) return path;
  print_message("skipped: %s is not there\n", name);
  return NULL;
}

static void test_real_models_read(void **state) {
  (void)state;
  static const struct {
    const char *name;
    size_t inputs, outputs;
  } rows[] = {{"efficientnet-lite0/efficientnet-lite0.onnx", 1, 1},
              {"resnet-cifar10/resnet20.onnx", 1, 1},
              {"ultraface/version-RFB-320.onnx", 1, 2},
              {"onnx-zoo-small/super_resolution_10/model.onnx", 1, 1},
              {"onnx-zoo-small/mnist_8/model_quantized.onnx", 1, 1}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char path[512];
    oct_graph *g;
    if (!data_path(path, rows[i].name)) continue;
    if (oct_onnx_read(ctx, path, NULL, &g) != OCTET_OK) fail_msg("%s", ctx->message);
    assert_int_equal(g->n_inputs, rows[i].inputs);
    assert_int_equal(g->n_outputs, rows[i].outputs);
    oct_graph_destroy(g);
  }
}

/* The zoo's own test vectors. */
static void test_zoo_vectors(void **state) {
  (void)state;
  char path[512];
  oct_check_result result;
  if (!data_path(path, "onnx-zoo-small/mnist_8")) return;
  assert_int_equal(oct_check_case(ctx, path, ref_interpret, NULL, &result), OCTET_OK);
  if (result.verdict != OCT_CHECK_PASSED) fail_msg("%s", result.message);
  assert_int_equal(result.data_sets, 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_names_and_sizes, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_initializers_as_inputs, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_order_is_free, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_outputs_of_any_kind, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_hints_and_warnings, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_bound_inputs, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_functions, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_metadata, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_typed_fields, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_raw_and_empty_tensors, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_external_data, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_external_data_refused, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_real_models_read, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_zoo_vectors, context_create, context_destroy),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
