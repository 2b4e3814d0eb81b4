/* Convolution, products, pools, normalization and quantization nodes: references and float kernels against onnx.reference
 * (tests/data/ops/spatial.txt), 8-bit pools against their formula, and windows, channels and scales that do not fit.
 * SPDX-License-Identifier: MIT */
#include "op_golden.h"

static void test_golden(void **state) {
  (void)state;
  assert_true(golden_file("spatial.txt") > 50);
}

/* ---- 8-bit pools ------------------------------------------------------------------------------------------------- */

typedef struct pool_case {
  const char *op, *attributes;
  int64_t n, c, h, w, kernel[2], stride[2], pads[4];
  bool ceil, include_pad, other_scale, is_signed;
} pool_case;

static const pool_case pools[] = {
    {"max_pool", "kernel_shape=2,2 strides=2,2", 1, 3, 8, 8, {2, 2}, {2, 2}, {0}, false, false, false, false},
    {"max_pool", "kernel_shape=3,3 strides=2,2 pads=1,1,1,1", 2, 17, 7, 9, {3, 3}, {2, 2}, {1, 1, 1, 1}, false, false, false, true},
    {"max_pool", "kernel_shape=3,2 strides=2,2 ceil_mode=1", 1, 65, 8, 7, {3, 2}, {2, 2}, {0}, true, false, true, false},
    {"average_pool", "kernel_shape=2,2 strides=2,2", 1, 3, 8, 8, {2, 2}, {2, 2}, {0}, false, false, true, false},
    {"average_pool", "kernel_shape=3,3 strides=2,2 pads=1,1,1,1", 2, 17, 7, 9, {3, 3}, {2, 2}, {1, 1, 1, 1}, false, false, true, true},
    {"average_pool",
     "kernel_shape=3,3 pads=1,0,1,2 count_include_pad=1",
     1,
     8,
     6,
     6,
     {3, 3},
     {1, 1},
     {1, 0, 1, 2},
     false,
     true,
     true,
     false},
    {"average_pool",
     "kernel_shape=3,3 strides=2,2 pads=1,1,1,1 ceil_mode=1 count_include_pad=1",
     1,
     8,
     6,
     6,
     {3, 3},
     {2, 2},
     {1, 1, 1, 1},
     true,
     true,
     true,
     false},
    {"global_average_pool", "", 2, 33, 5, 7, {5, 7}, {1, 1}, {0}, false, false, true, false},
    {"global_max_pool", "", 2, 33, 5, 7, {5, 7}, {1, 1}, {0}, false, false, false, false},
};

#define LIMIT 8192
static int32_t q[LIMIT];
static const float in_scale = 0.03f;

static int64_t out_size(int64_t in, int64_t kernel, int64_t stride, int64_t before, int64_t after, bool ceil_mode) {
  int64_t room = in + before + after - kernel, n = (ceil_mode ? room + stride - 1 : room) / stride + 1;
  return ceil_mode && (n - 1) * stride >= in + before ? n - 1 : n;
}

/* Largest value, or round(sum of (q - zero) * (in / out / count)). */
static int32_t pool_value(const pool_case *p, int64_t channel, int64_t oy, int64_t ox, float out_scale, int32_t in_zero, int32_t out_zero) {
  int64_t top = oy * p->stride[0] - p->pads[0], left = ox * p->stride[1] - p->pads[1], count = 0, sum = 0;
  int32_t largest = INT32_MIN, low = p->is_signed ? -128 : 0, high = p->is_signed ? 127 : 255;
  for (int64_t y = top; y < top + p->kernel[0]; y++)
    for (int64_t x = left; x < left + p->kernel[1]; x++) {
      bool inside = y >= 0 && x >= 0 && y < p->h && x < p->w;
      bool padded = y < p->h + p->pads[2] && x < p->w + p->pads[3];
      if (inside || (p->include_pad && padded)) count++;
      if (!inside) continue;
      int32_t v = q[(channel * p->h + y) * p->w + x];
      sum += v - in_zero;
      if (v > largest) largest = v;
    }
  if (strstr(p->op, "max")) return oct_quantize(oct_dequantize(largest, in_scale, in_zero), out_scale, out_zero, low, high);
  return oct_requantize_onnx((float)sum * ((in_scale / out_scale) / (float)count), out_zero, low, high);
}

static void run_pool(const pool_case *p, const char *isa) {
  oct_graph *graph;
  oct_value *x;
  oct_node *node;
  oct_session *session;
  oct_session_options options = oct_session_options_default();
  oct_shape shape = oct_shape_of(4, p->n, p->c, p->h, p->w);
  float out_scale = p->other_scale ? 0.041f : in_scale;
  int32_t in_zero = p->is_signed ? -7 : 131, out_zero = p->other_scale ? (p->is_signed ? 12 : 99) : in_zero;
  oct_dtype dtype = p->is_signed ? OCT_I8 : OCT_U8;
  oct_quant in_quant = {.dtype = dtype, .axis = -1, .count = 1, .scale = (float *)&in_scale, .zero_point = &in_zero};
  oct_quant out_quant = {.dtype = dtype, .axis = -1, .count = 1, .scale = &out_scale, .zero_point = &out_zero};
  assert_int_equal(oct_graph_create(ctx, "pool", &graph), OCTET_OK);
  assert_int_equal(oct_graph_input(ctx, graph, "x", OCT_F32, &shape, &x), OCTET_OK);
  assert_int_equal(oct_value_set_quant(ctx, graph, x, &in_quant), OCTET_OK);
  assert_int_equal(oct_graph_node(ctx, graph, oct_op_find(p->op), "pool", &x, 1, 1, &node), OCTET_OK);
  golden_attributes(ctx, graph, node, p->attributes);
  assert_int_equal(oct_node_infer(ctx, node), OCTET_OK);
  assert_int_equal(oct_value_set_quant(ctx, graph, node->outputs[0], &out_quant), OCTET_OK);
  assert_int_equal(oct_graph_output(ctx, graph, node->outputs[0]), OCTET_OK);
  assert_true(oct_isa_cap(isa, &options.isa_mask));
  options.isa_mask &= oct_isa_detect();
  if (oct_session_create(ctx, graph, &options, &session) != OCTET_OK) fail_msg("%s", ctx->message);
  oct_session_port in = oct_session_input(session, 0), out = oct_session_output(session, 0);
  int64_t count = oct_shape_count(&shape);
  assert_true(count <= LIMIT);
  for (int64_t i = 0; i < count; i++) {
    q[i] = (int32_t)((i * 7919 + i * i * 31) % 256) + (p->is_signed ? -128 : 0);
    ((float *)in.data)[i] = (float)(q[i] - in_zero) * in_scale;
  }
  assert_int_equal(oct_session_run(session), OCTET_OK);
  int64_t oh = out_size(p->h, p->kernel[0], p->stride[0], p->pads[0], p->pads[2], p->ceil);
  int64_t ow = out_size(p->w, p->kernel[1], p->stride[1], p->pads[1], p->pads[3], p->ceil);
  assert_int_equal(oct_shape_count(&out.value->shape), p->n * p->c * oh * ow);
  for (int64_t i = 0; i < p->n * p->c * oh * ow; i++) {
    float want = (float)(pool_value(p, i / ow / oh, i / ow % oh, i % ow, out_scale, in_zero, out_zero) - out_zero) * out_scale,
          got = ((float *)out.data)[i];
    if (got != want)
      fail_msg("%s %s (%s), element %lld: %.9g instead of %.9g", p->op, p->attributes, isa, (long long)i, (double)got, (double)want);
  }
  bool integer = false;
  for (size_t i = 0; i < session->n_steps; i++) integer = integer || strstr(session->steps[i]->kernel, "pool_u8");
  if (!integer) fail_msg("%s %s does not run in 8 bits", p->op, p->attributes);
  oct_session_destroy(session);
  oct_graph_destroy(graph);
}

static void test_pools_u8(void **state) {
  (void)state;
  static const char *const isas[] = {"scalar", "avx2", "avx512vnni"};
  for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
    for (int k = 0; k < 3; k++) run_pool(&pools[i], isas[k]);
}

/* Constant int8 weights: the integer operators run on the 8-bit kernels, whatever the zero point of the input is. */
static void test_integer_kernels(void **state) {
  (void)state;
  static const char *const ops[] = {"conv_integer", "matmul_integer"};
  for (int i = 0; i < 2; i++) {
    oct_graph *graph;
    oct_value *in[3];
    oct_node *node;
    oct_session *session;
    oct_tensor *t;
    oct_session_options options = oct_session_options_default();
    oct_shape x = i ? oct_shape_of(2, (int64_t)3, (int64_t)4) : oct_shape_of(4, (int64_t)1, (int64_t)2, (int64_t)3, (int64_t)3),
              scalar = {0};
    oct_shape w = i ? oct_shape_of(2, (int64_t)4, (int64_t)5) : oct_shape_of(4, (int64_t)4, (int64_t)2, (int64_t)1, (int64_t)1);
    assert_int_equal(oct_graph_create(ctx, "integers", &graph), OCTET_OK);
    assert_int_equal(oct_graph_input(ctx, graph, "x", OCT_U8, &x, &in[0]), OCTET_OK);
    assert_int_equal(oct_tensor_create(ctx, OCT_I8, &w, &t), OCTET_OK);
    memset(t->data, 3, t->bytes);
    assert_int_equal(oct_graph_constant(ctx, graph, "w", t, &in[1]), OCTET_OK);
    assert_int_equal(oct_graph_input(ctx, graph, "z", OCT_U8, &scalar, &in[2]), OCTET_OK);
    assert_int_equal(oct_graph_node(ctx, graph, oct_op_find(ops[i]), "node", in, 3, 1, &node), OCTET_OK);
    assert_int_equal(oct_node_infer(ctx, node), OCTET_OK);
    assert_int_equal(oct_graph_output(ctx, graph, node->outputs[0]), OCTET_OK);
    if (oct_session_create(ctx, graph, &options, &session) != OCTET_OK) fail_msg("%s", ctx->message);
    memset(oct_session_input(session, 0).data, 200, oct_session_input(session, 0).bytes);
    *(uint8_t *)oct_session_input(session, 1).data = 190;
    assert_int_equal(oct_session_run(session), OCTET_OK);
    assert_int_equal(((const int32_t *)oct_session_output(session, 0).data)[0], (i ? 4 : 2) * 3 * 10);
    bool kernel = false;
    for (size_t k = 0; k < session->n_steps; k++) kernel = kernel || strncmp(session->steps[k]->kernel, "conv_i8", 7) == 0;
    assert_true(kernel);
    oct_session_destroy(session);
    oct_graph_destroy(graph);
  }
}

/* ---- What does not fit -------------------------------------------------------------------------------------------- */

typedef struct bad_case {
  const char *op, *attributes;
  int64_t shapes[3][6]; /* rank + 1 (0: absent), dims */
  const char *word;     /* that the message holds */
} bad_case;

static const bad_case bad[] = {
    {"conv", "", {{5, 1, 3, 8, 8}, {5, 4, 2, 3, 3}}, "3 channels"},
    {"conv", "group=2", {{5, 1, 3, 8, 8}, {5, 4, 3, 3, 3}}, "group"},
    {"conv", "group=3", {{5, 1, 3, 8, 8}, {5, 4, 1, 3, 3}}, "do not divide"},
    {"conv", "", {{5, 1, 3, 2, 8}, {5, 4, 3, 3, 3}}, "larger than the padded input"},
    {"conv", "pads=1,1", {{5, 1, 3, 8, 8}, {5, 4, 3, 3, 3}}, "pads"},
    {"conv", "strides=0,1", {{5, 1, 3, 8, 8}, {5, 4, 3, 3, 3}}, "strides"},
    {"conv", "strides=1", {{5, 1, 3, 8, 8}, {5, 4, 3, 3, 3}}, "per spatial axis"},
    {"conv", "kernel_shape=5,5", {{5, 1, 3, 8, 8}, {5, 4, 3, 3, 3}}, "kernel_shape"},
    {"conv", "auto_pad=SAME", {{5, 1, 3, 8, 8}, {5, 4, 3, 3, 3}}, "auto_pad"},
    {"conv", "", {{3, 3, 8}, {3, 4, 3}}, "rank"},
    {"conv", "", {{5, 1, 3, 8, 8}, {5, 4, 3, 3, 3}, {2, 5}}, "bias"},
    {"conv", "dilations=2147483647,2147483647", {{5, 1, 3, 8, 8}, {5, 4, 3, 3, 3}}, "larger than the padded input"},
    {"gemm", "", {{3, 2, 3}, {3, 4, 5}}, "inner size"},
    {"gemm", "", {{4, 2, 3, 4}, {3, 4, 5}}, "matrix"},
    {"gemm", "", {{3, 2, 3}, {3, 3, 5}, {2, 4}}, "broadcast"},
    {"matmul", "", {{3, 2, 3}, {3, 2, 3}}, "inner sizes"},
    {"matmul", "", {{4, 2, 2, 3}, {4, 3, 3, 3}}, "broadcast"},
    {"matmul", "", {{1}, {3, 3, 3}}, "scalar"},
    {"max_pool", "kernel_shape=2,2 pads=2,0,0,0", {{5, 1, 1, 4, 4}}, "smaller than the kernel"},
    {"max_pool", "kernel_shape=5", {{5, 1, 1, 4, 4}}, "kernel_shape"},
    {"average_pool", "kernel_shape=5,5", {{5, 1, 1, 4, 4}}, "larger"},
    {"global_average_pool", "", {{5, 1, 1, 0, 4}}, "no elements"},
    {"batch_normalization", "", {{5, 1, 3, 4, 4}, {2, 3}, {2, 4}}, "channels"},
    {"quantize", "axis=5", {{3, 2, 3}, {2, 3}}, "axis"},
    {"quantize", "", {{3, 2, 3}, {2, 4}}, "scales"},
    {"quantize", "output_dtype=17", {{3, 2, 3}, {1}}, "output type"},
    {"dequantize", "", {{3, 2, 3}, {1}}, "integer"},
};

static void test_bad(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const bad_case *b = &bad[i];
    oct_graph *graph;
    oct_value *inputs[5] = {0};
    oct_node *node;
    int n = 0;
    assert_int_equal(oct_graph_create(ctx, "bad", &graph), OCTET_OK);
    for (; n < 3 && b->shapes[n][0]; n++) {
      oct_shape shape = {.rank = (int)b->shapes[n][0] - 1};
      for (int d = 0; d < shape.rank; d++) shape.dim[d] = b->shapes[n][d + 1];
      assert_int_equal(oct_graph_input(ctx, graph, "x", OCT_F32, &shape, &inputs[n]), OCTET_OK);
    }
    for (; n < oct_op_find(b->op)->min_inputs; n++) inputs[n] = inputs[n - 1];
    assert_int_equal(oct_graph_node(ctx, graph, oct_op_find(b->op), "culprit", inputs, n, 1, &node), OCTET_OK);
    golden_attributes(ctx, graph, node, b->attributes);
    if (oct_node_infer(ctx, node) == OCTET_OK) fail_msg("%s %s is accepted", b->op, b->attributes);
    if (!strstr(ctx->message, "culprit") || !strstr(ctx->message, b->word))
      fail_msg("%s %s: the message does not say '%s': %s", b->op, b->attributes, b->word, ctx->message);
    oct_graph_destroy(graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden), cmocka_unit_test(test_pools_u8), cmocka_unit_test(test_integer_kernels),
                                     cmocka_unit_test(test_bad)};
  return cmocka_run_group_tests(tests, context_create, context_destroy);
}
