/* ONNX writing: what is written reads back as the same function; quantization parameters become the nodes that the standard has for them.
 * SPDX-License-Identifier: MIT */
#include "context_checks.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "formats/onnx.h"
#include "ref_interpreter.h"

#define OK(expression)                                                           \
  do {                                                                           \
    if ((expression) != OCTET_OK) fail_msg("%s: %s", #expression, ctx->message); \
  } while (0)

/* ---- Building ---- */

static float noise(unsigned *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return (float)(int32_t)(*seed >> 8 << 8) / 2147483648.0f;
}

static oct_value *constant(oct_graph *g, const char *name, oct_shape shape, float amplitude) {
  oct_tensor *t;
  oct_value *v;
  unsigned seed = (unsigned)strlen(name) * 77u + (unsigned)name[0];
  OK(oct_tensor_create(ctx, OCT_F32, &shape, &t));
  for (int64_t i = 0; i < oct_shape_count(&shape); i++) ((float *)t->data)[i] = amplitude * noise(&seed);
  OK(oct_graph_constant(ctx, g, name, t, &v));
  return v;
}

static oct_value *add(oct_graph *g, const char *op, const char *name, oct_value *a, oct_value *b, oct_value *c, oct_node **node) {
  oct_value *inputs[] = {a, b, c};
  assert_non_null(oct_op_find(op));
  OK(oct_graph_node(ctx, g, oct_op_find(op), name, inputs, c ? 3 : b ? 2 : 1, 1, node));
  return (*node)->outputs[0];
}

/* The MNIST network's shape: three convolutions with ReLU and pooling, global average, dense. */
static oct_graph *digits_net(void) {
  static const int64_t kernels[] = {3, 2, 2}, channels[] = {1, 8, 16, 32};
  oct_graph *g;
  oct_node *node;
  oct_value *x;
  char name[32];
  oct_shape in = oct_shape_of(4, (int64_t)OCT_DIM_UNKNOWN, (int64_t)1, (int64_t)28, (int64_t)28);
  OK(oct_graph_create(ctx, "digits", &g));
  OK(oct_graph_input(ctx, g, "input", OCT_F32, &in, &x));
  x->dim_names[0] = "N";
  for (int i = 0; i < 3; i++) {
    int64_t k = kernels[i], pads[] = {2, 2, 2, 2}, ones[] = {1, 1, 1, 1}, two[] = {2, 2}, stride[] = {i ? 1 : 2, i ? 1 : 2};
    snprintf(name, sizeof name, "conv%d.weight", i + 1);
    oct_value *w = constant(g, name, oct_shape_of(4, channels[i + 1], channels[i], k, k), .5f);
    snprintf(name, sizeof name, "conv%d.bias", i + 1);
    oct_value *b = constant(g, name, oct_shape_of(1, channels[i + 1]), .2f);
    snprintf(name, sizeof name, "conv%d", i + 1);
    x = add(g, "conv", name, x, w, b, &node);
    OK(oct_node_set_ints(ctx, g, node, "pads", pads, 4));
    OK(oct_node_set_ints(ctx, g, node, "strides", stride, 2));
    OK(oct_node_infer(ctx, node));
    snprintf(name, sizeof name, "relu%d", i + 1);
    x = add(g, "relu", name, x, NULL, NULL, &node);
    OK(oct_node_infer(ctx, node));
    snprintf(name, sizeof name, "pool%d", i + 1);
    x = add(g, "max_pool", name, x, NULL, NULL, &node);
    OK(oct_node_set_ints(ctx, g, node, "kernel_shape", two, 2));
    OK(oct_node_set_ints(ctx, g, node, "strides", two, 2));
    OK(oct_node_set_ints(ctx, g, node, "pads", ones, 4));
    OK(oct_node_infer(ctx, node));
  }
  x = add(g, "global_average_pool", "gap", x, NULL, NULL, &node);
  OK(oct_node_infer(ctx, node));
  x = add(g, "flatten", "flat", x, NULL, NULL, &node);
  OK(oct_node_infer(ctx, node));
  x = add(g, "gemm", "output", x, constant(g, "fc.weight", oct_shape_of(2, (int64_t)10, (int64_t)32), .5f),
          constant(g, "fc.bias", oct_shape_of(1, (int64_t)10), .2f), &node);
  OK(oct_node_set_int(ctx, g, node, "transB", 1));
  OK(oct_node_infer(ctx, node));
  OK(oct_graph_output(ctx, g, x));
  OK(oct_graph_compact(ctx, g));
  return g;
}

/* int8 weights on axis 0 with the largest value at 127. */
static void quantize_weights(oct_graph *g, oct_value *w) {
  const float *from = w->tensor->data;
  int64_t n = w->shape.dim[0], inner = oct_shape_count(&w->shape) / n;
  float scales[64];
  int32_t zeros[64] = {0};
  oct_tensor *t;
  OK(oct_tensor_create(ctx, OCT_I8, &w->shape, &t));
  for (int64_t c = 0; c < n; c++) {
    float most = 0;
    for (int64_t i = 0; i < inner; i++) most = fmaxf(most, fabsf(from[c * inner + i]));
    scales[c] = most / 127;
    for (int64_t i = 0; i < inner; i++)
      ((int8_t *)t->data)[c * inner + i] = (int8_t)oct_quantize(from[c * inner + i], scales[c], 0, -127, 127);
  }
  OK(oct_value_set_quant(ctx, g, w, &(oct_quant){OCT_I8, 0, n, scales, zeros}));
  oct_value_set_tensor(w, t);
}

/* int32 bias at the scale input * weight. */
static void quantize_bias(oct_graph *g, oct_value *b, float input_scale, const oct_quant *w) {
  int64_t n = b->shape.dim[0];
  float scales[64];
  int32_t zeros[64] = {0};
  oct_tensor *t;
  OK(oct_tensor_create(ctx, OCT_I32, &b->shape, &t));
  for (int64_t c = 0; c < n; c++) {
    scales[c] = input_scale * w->scale[c];
    ((int32_t *)t->data)[c] = (int32_t)rintf(((float *)b->tensor->data)[c] / scales[c]);
  }
  OK(oct_value_set_quant(ctx, g, b, &(oct_quant){OCT_I32, 0, n, scales, zeros}));
  oct_value_set_tensor(b, t);
}

/* Every activation gets parameters; what only moves or selects keeps those of its input. */
static void quantize_net(oct_graph *g, bool output_too) {
  float scale = 1.0f / 127;
  int32_t zero = 128;
  OK(oct_value_set_quant(ctx, g, g->inputs[0], &(oct_quant){OCT_U8, -1, 1, &scale, &zero}));
  for (size_t i = 0; i < g->n_nodes; i++) {
    oct_node *node = g->nodes[i];
    const oct_quant *in = node->inputs[0]->quant;
    bool weights = oct_op_has(node->op, OCT_TRAIT_ACCUMULATES);
    float s = weights ? .05f : in->scale[0];
    int32_t z = weights ? 77 : in->zero_point[0];
    if (weights) {
      quantize_weights(g, node->inputs[1]);
      quantize_bias(g, node->inputs[2], in->scale[0], node->inputs[1]->quant);
    }
    if (output_too || node->outputs[0] != g->outputs[0])
      OK(oct_value_set_quant(ctx, g, node->outputs[0], &(oct_quant){OCT_U8, -1, 1, &s, &z}));
  }
}

/* ---- Comparing ---- */

static oct_tensor *random_input(const oct_value *v, unsigned seed) {
  oct_tensor *t;
  oct_shape shape = v->shape;
  for (int i = 0; i < shape.rank; i++)
    if (shape.dim[i] < 0) shape.dim[i] = 2;
  OK(oct_tensor_create(ctx, v->dtype, &shape, &t));
  for (int64_t i = 0; i < oct_shape_count(&shape); i++)
    oct_set_f64(t->data, t->dtype, i, (oct_dtype_is_float(v->dtype) ? 1 : 100) * noise(&seed));
  return t;
}

/* Largest difference between the first outputs of two graphs on one random input. */
static double difference(oct_graph *a, oct_graph *b, double *largest) {
  oct_tensor *in[4] = {NULL}, *out[2][4] = {{NULL}};
  double worst = 0;
  for (size_t i = 0; i < a->n_inputs; i++) in[i] = random_input(a->inputs[i], 7 + (unsigned)i);
  OK(ref_interpret(ctx, NULL, a, (const oct_tensor *const *)in, out[0]));
  OK(ref_interpret(ctx, NULL, b, (const oct_tensor *const *)in, out[1]));
  assert_true(oct_shape_equal(&out[0][0]->shape, &out[1][0]->shape));
  assert_int_equal(out[0][0]->dtype, out[1][0]->dtype);
  *largest = 0;
  for (int64_t i = 0; i < oct_shape_count(&out[0][0]->shape); i++) {
    double x = oct_get_f64(out[0][0]->data, out[0][0]->dtype, i);
    worst = fmax(worst, fabs(x - oct_get_f64(out[1][0]->data, out[1][0]->dtype, i)));
    *largest = fmax(*largest, fabs(x));
  }
  for (int i = 0; i < 4; i++) {
    oct_tensor_release(in[i]);
    oct_tensor_release(out[0][i]);
    oct_tensor_release(out[1][i]);
  }
  return worst;
}

static oct_graph *again(const oct_graph *g, const char *path) {
  oct_graph *out;
  OK(oct_onnx_write(ctx, g, path));
  OK(oct_onnx_read(ctx, path, NULL, &out));
  return out;
}

static size_t count_nodes(const oct_graph *g, const char *op) {
  size_t n = 0;
  for (size_t i = 0; i < g->n_nodes; i++) n += strcmp(g->nodes[i]->op->name, op) == 0;
  return n;
}

static size_t file_size(const char *path, uint8_t **data) {
  FILE *f = fopen(path, "rb");
  *data = malloc(1 << 24);
  assert_true(f && *data);
  size_t size = fread(*data, 1, 1 << 24, f);
  fclose(f);
  return size;
}

/* ---- Tests ---- */

static void test_float(void **state) {
  (void)state;
  double largest;
  oct_graph *g = digits_net();
  OK(oct_graph_set_metadata(ctx, g, "preprocess", "scale=1/255"));
  oct_graph *h = again(g, "float.onnx");
  assert_int_equal(h->n_nodes, g->n_nodes);
  for (size_t i = 0; i < g->n_nodes; i++) {
    assert_string_equal(h->nodes[i]->name, g->nodes[i]->name);
    assert_string_equal(h->nodes[i]->outputs[0]->name, g->nodes[i]->outputs[0]->name);
    assert_ptr_equal(h->nodes[i]->op, g->nodes[i]->op);
  }
  assert_string_equal(h->name, "digits");
  assert_string_equal(h->inputs[0]->dim_names[0], "N");
  assert_string_equal(oct_graph_metadata(h, "preprocess"), "scale=1/255");
  assert_true(difference(g, h, &largest) == 0 && largest > 0);
  oct_graph_destroy(g);
  oct_graph_destroy(h);
}

/* Equal graphs give equal bytes, also after a round trip. */
static void test_same_bytes(void **state) {
  (void)state;
  oct_graph *g = digits_net();
  uint8_t *a, *b;
  OK(oct_onnx_write(ctx, g, "once.onnx"));
  oct_graph *h = again(g, "twice.onnx");
  OK(oct_onnx_write(ctx, h, "thrice.onnx"));
  size_t size = file_size("once.onnx", &a);
  assert_int_equal(file_size("twice.onnx", &b), size);
  assert_memory_equal(a, b, size);
  free(b);
  assert_int_equal(file_size("thrice.onnx", &b), size);
  assert_memory_equal(a, b, size);
  free(a);
  free(b);
  oct_graph_destroy(g);
  oct_graph_destroy(h);
}

/* A pair at each of 12 activations (input, 3 x conv, relu, pool, gap, flatten), one more if the output is quantized; and 4 weights,
 * 4 biases. */
static void test_quantized(void **state) {
  (void)state;
  for (int output_too = 0; output_too < 2; output_too++) {
    double largest;
    uint8_t *data;
    oct_graph *g = digits_net();
    quantize_net(g, output_too);
    oct_graph *h = again(g, "quantized.onnx");
    assert_int_equal(count_nodes(h, "quantize"), 12 + output_too);
    assert_int_equal(count_nodes(h, "dequantize"), 12 + output_too + 8);
    assert_int_equal(oct_graph_find(h, "conv1.weight")->dtype, OCT_I8);
    assert_int_equal(oct_graph_find(h, "fc.bias")->dtype, OCT_I32);
    assert_string_equal(h->outputs[0]->name, "output");
    assert_int_equal(h->outputs[0]->dtype, OCT_F32);
    assert_true(difference(g, h, &largest) == 0 && largest > 0);
    size_t size = file_size("quantized.onnx", &data);
    print_message("%zu bytes\n", size);
    assert_true(size <= 8192);
    free(data);
    oct_graph_destroy(g);
    oct_graph_destroy(h);
  }
}

static void test_weight_only(void **state) {
  (void)state;
  double largest;
  oct_graph *g = digits_net();
  quantize_weights(g, oct_graph_find(g, "conv2.weight"));
  oct_graph *h = again(g, "weight_only.onnx");
  assert_int_equal(count_nodes(h, "quantize"), 0);
  assert_int_equal(count_nodes(h, "dequantize"), 1);
  assert_true(difference(g, h, &largest) == 0 && largest > 0);
  oct_graph_destroy(g);
  oct_graph_destroy(h);
}

static void test_half_weights(void **state) {
  (void)state;
  double largest;
  oct_graph *g = digits_net();
  oct_value *w = oct_graph_find(g, "conv2.weight");
  oct_tensor *half;
  OK(oct_tensor_cast(ctx, w->tensor, OCT_F16, &half));
  oct_value_set_tensor(w, half);
  w->dtype = OCT_F32;
  oct_graph *h = again(g, "half.onnx");
  assert_int_equal(count_nodes(h, "cast"), 1);
  assert_int_equal(oct_graph_find(h, "conv2.weight")->tensor->dtype, OCT_F16);
  assert_true(difference(g, h, &largest) == 0 && largest > 0);
  oct_graph_destroy(g);
  oct_graph_destroy(h);
}

/* Convolution and dense layer with ranges found at run time: within 4 % of the largest output of the float network. */
static void test_dynamic(void **state) {
  (void)state;
  double largest;
  oct_graph *g = digits_net(), *plain = digits_net();
  for (size_t i = 0; i < g->n_nodes; i++) {
    if (!oct_op_has(g->nodes[i]->op, OCT_TRAIT_ACCUMULATES)) continue;
    quantize_weights(g, g->nodes[i]->inputs[1]);
    OK(oct_node_set_int(ctx, g, g->nodes[i], "dynamic", 1));
  }
  oct_graph *h = again(g, "dynamic.onnx");
  assert_int_equal(count_nodes(h, "dynamic_quantize"), 4);
  assert_int_equal(count_nodes(h, "conv_integer"), 3);
  assert_int_equal(count_nodes(h, "matmul_integer"), 1);
  assert_int_equal(ctx->n_warnings, 1);
  double worst = difference(plain, h, &largest);
  assert_true(worst > 0 && worst < .04 * largest);
  oct_graph_destroy(g);
  oct_graph_destroy(h);
  oct_graph_destroy(plain);
}

/* Output that is the input or a constant, one value as two outputs, and names that collide with generated ones. */
static void test_odd_outputs(void **state) {
  (void)state;
  oct_graph *g;
  oct_node *node;
  oct_value *x;
  float scale = .1f;
  int32_t zero = 0;
  oct_shape shape = oct_shape_of(1, (int64_t)3);
  OK(oct_graph_create(ctx, "odd", &g));
  OK(oct_graph_input(ctx, g, "s", OCT_F32, &shape, &x));
  oct_value *y = add(g, "relu", "y_q", x, NULL, NULL, &node), *c = constant(g, "z", shape, 1);
  OK(oct_node_infer(ctx, node));
  oct_value *w = add(g, "relu", "y", y, NULL, NULL, &node);
  OK(oct_node_infer(ctx, node));
  OK(oct_value_set_quant(ctx, g, w, &(oct_quant){OCT_I8, -1, 1, &scale, &zero}));
  OK(oct_value_set_quant(ctx, g, y, &(oct_quant){OCT_U8, -1, 1, &scale, &zero}));
  oct_value *outputs[] = {w, w, c, x};
  for (int i = 0; i < 4; i++) OK(oct_graph_output(ctx, g, outputs[i]));
  oct_graph *h = again(g, "odd.onnx");
  double largest;
  assert_int_equal(h->n_outputs, 4);
  assert_string_equal(h->outputs[0]->name, "y");
  assert_string_equal(h->outputs[2]->name, "z");
  assert_string_equal(h->outputs[3]->name, "s");
  assert_true(difference(g, h, &largest) == 0);
  oct_graph_destroy(g);
  oct_graph_destroy(h);
}

static void test_errors_leave_nothing(void **state) {
  (void)state;
  oct_graph *g = digits_net();
  assert_int_equal(oct_onnx_write(ctx, g, "no/such/folder/m.onnx"), OCTET_IO);
  assert_non_null(strstr(ctx->message, "no/such/folder/m.onnx"));
  unlink("memory.onnx");
  bool done = false;
  for (int64_t n = 0; !done; n++) {
    ctx->allocations_left = n;
    octet_status status = oct_onnx_write(ctx, g, "memory.onnx");
    done = status == OCTET_OK;
    if (!done) assert_int_equal(status, OCTET_OUT_OF_MEMORY);
    if (!done) assert_int_equal(access("memory.onnx", F_OK), -1);
  }
  ctx->allocations_left = -1;
  oct_graph_destroy(g);
}

/* A constant of 2.4 GB, whose bytes are not there: refused before anything is written. */
static void test_too_large(void **state) {
  (void)state;
  oct_graph *g = digits_net();
  oct_value *w;
  static float dummy;
  oct_tensor huge = {.dtype = OCT_F32, .shape = oct_shape_of(1, (int64_t)600000000), .data = &dummy, .bytes = 2400000000u, .references = 9};
  OK(oct_graph_constant(ctx, g, "huge", oct_tensor_retain(&huge), &w));
  OK(oct_graph_output(ctx, g, w));
  unlink("huge.onnx");
  assert_int_equal(oct_onnx_write(ctx, g, "huge.onnx"), OCTET_UNSUPPORTED);
  assert_non_null(strstr(ctx->message, "2 GiB"));
  assert_int_equal(access("huge.onnx", F_OK), -1);
  oct_graph_destroy(g);
}

/* 8-bit inputs and outputs: quantize and dequantize nodes stay as they are, without another pair beside them; i8 and u8 forms of the same
 * parameters count as equal. */
static void test_integer_ports(void **state) {
  (void)state;
  float scale = .1f, same = .1f;
  int32_t zero = 131;
  oct_graph *g;
  oct_node *node;
  oct_value *x, *s, *z;
  oct_tensor *t;
  oct_shape shape = oct_shape_of(1, (int64_t)5), scalar = {.rank = 0};
  OK(oct_graph_create(ctx, "ports", &g));
  OK(oct_graph_input(ctx, g, "x", OCT_I8, &shape, &x));
  OK(oct_graph_constant_f32(ctx, g, "scale", same, &s));
  OK(oct_tensor_create(ctx, OCT_I8, &scalar, &t));
  *(int8_t *)t->data = 3;
  OK(oct_graph_constant(ctx, g, "zero", t, &z));
  oct_value *d = add(g, "dequantize", "d", x, s, z, &node);
  OK(oct_node_infer(ctx, node));
  OK(oct_value_set_quant(ctx, g, d, &(oct_quant){OCT_U8, -1, 1, &scale, &zero}));
  oct_value *r = add(g, "relu", "r", d, NULL, NULL, &node);
  OK(oct_node_infer(ctx, node));
  OK(oct_value_set_quant(ctx, g, r, &(oct_quant){OCT_U8, -1, 1, &scale, &zero}));
  oct_value *q = add(g, "quantize", "q", r, s, z, &node);
  OK(oct_node_infer(ctx, node));
  OK(oct_graph_output(ctx, g, q));
  oct_graph *h = again(g, "ports.onnx");
  double largest;
  assert_int_equal(h->n_nodes, 3);
  assert_true(difference(g, h, &largest) == 0);
  oct_graph_destroy(g);
  oct_graph_destroy(h);
}

/* A bias with zero points, which ONNX does not have for 32 bits. */
static void test_bias_zero_points(void **state) {
  (void)state;
  double largest;
  oct_graph *g = digits_net();
  oct_value *w = oct_graph_find(g, "fc.weight"), *b = oct_graph_find(g, "fc.bias");
  quantize_weights(g, w);
  quantize_bias(g, b, .02f, w->quant);
  for (int i = 0; i < 10; i++) b->quant->zero_point[i] = i - 4;
  oct_graph *h = again(g, "bias.onnx");
  assert_true(difference(g, h, &largest) == 0 && largest > 0);
  oct_graph_destroy(g);
  oct_graph_destroy(h);
}

/* Every readable seed of the fuzz target computes the same after a round trip. */
static void test_seeds(void **state) {
  (void)state;
  const char *folder = OCTET_SOURCE_DIR "/fuzz/corpus/onnx";
  struct dirent **entries;
  int n = scandir(folder, &entries, NULL, alphasort), compared = 0;
  for (int i = 0; i < n; i++) {
    char path[1024];
    oct_graph *g;
    double largest;
    snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
    free(entries[i]);
    if (!oct_path_has_suffix(path, ".onnx") || oct_onnx_read(ctx, path, NULL, &g) != OCTET_OK) continue;
    oct_graph *h = again(g, "seed.onnx");
    if (difference(g, h, &largest) != 0) fail_msg("%s", path);
    oct_graph_destroy(g);
    oct_graph_destroy(h);
    compared++;
  }
  free(entries);
  assert_true(compared >= 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_float, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_same_bytes, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_quantized, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_weight_only, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_half_weights, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_dynamic, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_odd_outputs, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_errors_leave_nothing, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_too_large, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_integer_ports, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_bias_zero_points, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_seeds, context_create, context_destroy),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
