/* Elementwise operators and reductions: references against ONNX's reference evaluator (data/ops/elementwise.npz, made by
 * scripts/make_elementwise_golden.py) and against arithmetic; refusals of shape inference. Their kernels: test_ops_elementwise_lower.c;
 * elementary functions: test_ops_math.c.
 * SPDX-License-Identifier: MIT */
#include "context_checks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/npy.h"
#include "ops/op.h"

/* ---- running one operator by its reference ---- */

/* "axis=1 alpha=0.5 to=f16": integers, floats (with a point) and names. */
static void set_attributes(oct_graph *graph, oct_node *node, const char *text) {
  char copy[256], *save = NULL;
  snprintf(copy, sizeof copy, "%s", text);
  for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
    char *value = strchr(word, '=');
    *value++ = 0;
    octet_status status;
    if (strchr(value, '.')) status = oct_node_set_float(ctx, graph, node, word, strtof(value, NULL));
    else if (strchr("-0123456789", value[0])) status = oct_node_set_int(ctx, graph, node, word, strtol(value, NULL, 10));
    else status = oct_node_set_string(ctx, graph, node, word, value);
    assert_int_equal(status, OCTET_OK);
  }
}

/* A graph of one node over constants. */
static octet_status build(const char *op, const char *attributes, oct_tensor *const *in, int n, oct_graph **graph, oct_node **node) {
  oct_value *inputs[8] = {0};
  assert_non_null(oct_op_find(op));
  assert_int_equal(oct_graph_create(ctx, "test", graph), OCTET_OK);
  for (int i = 0; i < n; i++)
    if (in[i]) assert_int_equal(oct_graph_constant(ctx, *graph, NULL, oct_tensor_retain(in[i]), &inputs[i]), OCTET_OK);
  assert_int_equal(oct_graph_node(ctx, *graph, oct_op_find(op), "node", inputs, n, 1, node), OCTET_OK);
  set_attributes(*graph, *node, attributes);
  return oct_node_infer(ctx, *node);
}

static oct_tensor *compute(const char *op, const char *attributes, oct_tensor *const *in, int n) {
  oct_graph *graph;
  oct_node *node;
  oct_tensor *out;
  if (build(op, attributes, in, n, &graph, &node) != OCTET_OK) fail_msg("%s: %s", op, ctx->message);
  assert_true(node->outputs[0]->has_shape);
  assert_int_equal(oct_tensor_create(ctx, node->outputs[0]->dtype, &node->outputs[0]->shape, &out), OCTET_OK);
  if (node->op->reference(ctx, node, (const oct_tensor *const *)in, &out) != OCTET_OK) fail_msg("%s: %s", op, ctx->message);
  oct_graph_destroy(graph);
  return out;
}

static const struct {
  const char *name, *op, *attributes;
} golden[] = {
    {"relu", "relu", ""},
    {"leaky_relu", "leaky_relu", "alpha=0.2"},
    {"elu", "elu", "alpha=0.5"},
    {"selu", "selu", ""},
    {"celu", "celu", "alpha=2.0"},
    {"thresholded_relu", "thresholded_relu", "alpha=0.7"},
    {"sigmoid", "sigmoid", ""},
    {"tanh", "tanh", ""},
    {"hard_sigmoid", "hard_sigmoid", "alpha=0.3 beta=0.4"},
    {"hard_swish", "hard_swish", ""},
    {"softplus", "softplus", ""},
    {"softsign", "softsign", ""},
    {"gelu", "gelu", ""},
    {"gelu_tanh", "gelu", "approximate=tanh"},
    {"mish", "mish", ""},
    {"exp", "exp", ""},
    {"log", "log", ""},
    {"sqrt", "sqrt", ""},
    {"erf", "erf", ""},
    {"reciprocal", "reciprocal", ""},
    {"abs", "abs", ""},
    {"neg", "neg", ""},
    {"sign", "sign", ""},
    {"floor", "floor", ""},
    {"ceil", "ceil", ""},
    {"round", "round", ""},
    {"not", "not", ""},
    {"clip", "clip", ""},
    {"clip_i8", "clip", ""},
    {"prelu", "prelu", ""},
    {"add", "add", ""},
    {"sub", "sub", ""},
    {"mul", "mul", ""},
    {"div", "div", ""},
    {"add_wraps", "add", ""},
    {"mul_f16", "mul", ""},
    {"pow", "pow", ""},
    {"pow_mixed", "pow", ""},
    {"mod", "mod", ""},
    {"fmod", "mod", "fmod=1"},
    {"min", "min", ""},
    {"max", "max", ""},
    {"max_u64", "max", ""},
    {"sum", "sum", ""},
    {"mean", "mean", ""},
    {"equal", "equal", ""},
    {"less", "less", ""},
    {"greater", "greater", ""},
    {"less_or_equal", "less_or_equal", ""},
    {"greater_or_equal", "greater_or_equal", ""},
    {"and", "and", ""},
    {"or", "or", ""},
    {"xor", "xor", ""},
    {"where", "where", ""},
    {"cast_f16", "cast", "to=f16"},
    {"cast_i32", "cast", "to=i32"},
    {"cast_u8", "cast", "to=u8"},
    {"cast_bool", "cast", "to=bool"},
    {"reduce_mean", "reduce_mean", "keepdims=0"},
    {"reduce_sum", "reduce_sum", ""},
    {"reduce_sum_all", "reduce_sum", "keepdims=0"},
    {"reduce_sum_noop", "reduce_sum", "noop_with_empty_axes=1"},
    {"reduce_max", "reduce_max", ""},
    {"reduce_min", "reduce_min", "keepdims=0"},
    {"reduce_prod", "reduce_prod", ""},
    {"reduce_l1", "reduce_l1", ""},
    {"reduce_l2", "reduce_l2", ""},
    {"reduce_sum_square", "reduce_sum_square", ""},
    {"reduce_log_sum", "reduce_log_sum", ""},
    {"reduce_log_sum_exp", "reduce_log_sum_exp", ""},
    {"softmax", "softmax", ""},
    {"softmax_axis1", "softmax", "axis=1"},
    {"log_softmax", "log_softmax", "axis=0"},
};

static void compare(const char *name, const oct_tensor *got, const oct_tensor *right) {
  if (got->dtype != right->dtype || !oct_shape_equal(&got->shape, &right->shape)) {
    char a[OCT_SHAPE_TEXT], b[OCT_SHAPE_TEXT];
    fail_msg("%s: %s%s instead of %s%s", name, oct_dtype_name(got->dtype), oct_shape_text(&got->shape, a), oct_dtype_name(right->dtype),
             oct_shape_text(&right->shape, b));
  }
  for (int64_t i = 0; i < oct_shape_count(&right->shape); i++) {
    double y = oct_get_f64(got->data, got->dtype, i), r = oct_get_f64(right->data, right->dtype, i);
    double bound = oct_dtype_is_float(right->dtype) ? 2e-6 * fabs(r) + 1e-7 : 0; /* numpy's own float error */
    if (y != r && !(isnan(y) && isnan(r)) && !(fabs(y - r) <= bound)) fail_msg("%s[%lld]: %.9g instead of %.9g", name, (long long)i, y, r);
  }
}

static void references_agree_with_onnx(void **state) {
  (void)state;
  oct_bundle bundle;
  if (oct_npz_read(ctx, OCTET_SOURCE_DIR "/tests/data/ops/elementwise.npz", &bundle) != OCTET_OK) fail_msg("%s", ctx->message);
  size_t used = 0;
  for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
    oct_tensor *in[8] = {0};
    char key[128];
    int n = 0;
    for (const oct_named_tensor *t; snprintf(key, sizeof key, "%s.x%d", golden[i].name, n), (t = oct_bundle_find(&bundle, key));)
      in[n++] = t->tensor;
    snprintf(key, sizeof key, "%s.y", golden[i].name);
    const oct_named_tensor *right = oct_bundle_find(&bundle, key);
    if (!n || !right) fail_msg("%s: no data", golden[i].name);
    oct_tensor *got = compute(golden[i].op, golden[i].attributes, in, n);
    compare(golden[i].name, got, right->tensor);
    oct_tensor_release(got);
    used += (size_t)n + 1;
  }
  assert_int_equal(used, bundle.count);
  oct_bundle_free(&bundle);
}

/* ---- rules that arithmetic states ---- */

static oct_tensor *integers(oct_dtype dtype, int n, const int64_t *values) {
  oct_tensor *t;
  oct_shape shape = oct_shape_of(1, (int64_t)n);
  assert_int_equal(oct_tensor_create(ctx, dtype, &shape, &t), OCTET_OK);
  for (int i = 0; i < n; i++) oct_set_i64(t->data, dtype, i, values[i]);
  return t;
}

static void check_integers(const char *op, oct_dtype dtype, int n, const int64_t *a, const int64_t *b, const int64_t *right) {
  oct_tensor *in[2] = {integers(dtype, n, a), integers(dtype, n, b)}, *y = compute(op, "", in, 2);
  for (int i = 0; i < n; i++)
    if (oct_get_i64(y->data, y->dtype, i) != right[i])
      fail_msg("%s of %s: [%d] is %lld", op, oct_dtype_name(dtype), i, (long long)oct_get_i64(y->data, y->dtype, i));
  oct_tensor_release(y);
  oct_tensor_release(in[0]);
  oct_tensor_release(in[1]);
}

static void integers_wrap_and_never_trap(void **state) {
  (void)state;
  check_integers("div", OCT_I64, 4, (const int64_t[]){INT64_MIN, 7, -7, 7}, (const int64_t[]){-1, 0, 2, -2},
                 (const int64_t[]){INT64_MIN, 0, -3, -3});
  check_integers("div", OCT_U64, 2, (const int64_t[]){-1, 5}, (const int64_t[]){2, 0}, (const int64_t[]){INT64_MAX, 0});
  check_integers("mod", OCT_I64, 3, (const int64_t[]){INT64_MIN, 7, -7}, (const int64_t[]){-1, 0, 3}, (const int64_t[]){0, 0, 2});
  check_integers("pow", OCT_I32, 4, (const int64_t[]){2, -1, 0, 3}, (const int64_t[]){31, -3, -1, 0},
                 (const int64_t[]){INT32_MIN, -1, 0, 1});
  check_integers("sub", OCT_U8, 2, (const int64_t[]){3, 255}, (const int64_t[]){5, 1}, (const int64_t[]){254, 254});
  check_integers("mul", OCT_I8, 2, (const int64_t[]){100, -128}, (const int64_t[]){3, -1}, (const int64_t[]){44, -128});
}

static void empty_reductions_follow_onnx(void **state) {
  (void)state;
  static const struct {
    const char *op;
    oct_dtype dtype;
    double right;
  } rows[] = {{"reduce_sum", OCT_F32, 0},
              {"reduce_prod", OCT_F32, 1},
              {"reduce_max", OCT_F32, -INFINITY},
              {"reduce_min", OCT_F32, INFINITY},
              {"reduce_max", OCT_I8, -128},
              {"reduce_min", OCT_U16, 65535},
              {"reduce_max", OCT_BOOL, 0},
              {"reduce_min", OCT_BOOL, 1},
              {"reduce_log_sum", OCT_F32, -INFINITY},
              {"reduce_log_sum_exp", OCT_F32, -INFINITY},
              {"reduce_l2", OCT_F32, 0},
              {"reduce_min", OCT_I32, 2147483647}};
  oct_tensor *axes = integers(OCT_I64, 1, (const int64_t[]){1});
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    oct_tensor *in[2] = {NULL, axes};
    oct_shape shape = oct_shape_of(2, (int64_t)2, (int64_t)0);
    assert_int_equal(oct_tensor_create(ctx, rows[i].dtype, &shape, &in[0]), OCTET_OK);
    oct_tensor *y = compute(rows[i].op, "", in, 2);
    assert_int_equal(oct_shape_count(&y->shape), 2);
    if (oct_get_f64(y->data, y->dtype, 1) != rows[i].right)
      fail_msg("%s of %s over nothing: %g", rows[i].op, oct_dtype_name(rows[i].dtype), oct_get_f64(y->data, y->dtype, 1));
    oct_tensor_release(y);
    oct_tensor_release(in[0]);
  }
  oct_tensor_release(axes);
}

/* Case 9 of the faults met elsewhere: every combination of bounds, also low > high (all become high). */
static void clip_takes_any_bounds(void **state) {
  (void)state;
  static const struct {
    bool has_low, has_high;
    double low, high, right[3];
  } rows[] = {{false, false, 0, 0, {-9, 0.5, 9}},
              {true, false, -1, 0, {-1, 0.5, 9}},
              {false, true, 0, 2, {-9, 0.5, 2}},
              {true, true, -1, 2, {-1, 0.5, 2}},
              {true, true, 3, 1, {1, 1, 1}}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    oct_tensor *in[3] = {0};
    oct_shape shape = oct_shape_of(1, (int64_t)3), scalar = oct_shape_of(0);
    assert_int_equal(oct_tensor_create(ctx, OCT_F32, &shape, &in[0]), OCTET_OK);
    memcpy(in[0]->data, (const float[]){-9, 0.5f, 9}, 12);
    if (rows[i].has_low) assert_int_equal(oct_tensor_create(ctx, OCT_F32, &scalar, &in[1]), OCTET_OK);
    if (rows[i].has_high) assert_int_equal(oct_tensor_create(ctx, OCT_F32, &scalar, &in[2]), OCTET_OK);
    if (in[1]) oct_set_f64(in[1]->data, OCT_F32, 0, rows[i].low);
    if (in[2]) oct_set_f64(in[2]->data, OCT_F32, 0, rows[i].high);
    oct_tensor *y = compute("clip", "", in, 3);
    for (int k = 0; k < 3; k++) assert_true(oct_get_f64(y->data, OCT_F32, k) == rows[i].right[k]);
    oct_tensor_release(y);
    for (int k = 0; k < 3; k++) oct_tensor_release(in[k]);
  }
}

/* ---- refusals ---- */

static void refuse(const char *op, const char *attributes, oct_dtype a, oct_shape a_shape, oct_dtype b, oct_shape b_shape,
                   const char *word) {
  oct_tensor *in[2] = {0};
  oct_graph *graph;
  oct_node *node;
  int n = b == OCT_DTYPE_NONE ? 1 : 2;
  assert_int_equal(oct_tensor_create(ctx, a, &a_shape, &in[0]), OCTET_OK);
  if (n == 2) assert_int_equal(oct_tensor_create(ctx, b, &b_shape, &in[1]), OCTET_OK);
  if (build(op, attributes, in, n, &graph, &node) == OCTET_OK) fail_msg("%s was accepted", op);
  if (!strstr(ctx->message, word) || !strstr(ctx->message, "node")) fail_msg("%s: unclear: %s", op, ctx->message);
  oct_graph_destroy(graph);
  oct_tensor_release(in[0]);
  oct_tensor_release(in[1]);
}

static void inference_names_the_broken_rule(void **state) {
  (void)state;
  oct_shape s34 = oct_shape_of(2, (int64_t)3, (int64_t)4), s5 = oct_shape_of(1, (int64_t)5), one = oct_shape_of(1, (int64_t)1),
            none = oct_shape_of(0);
  refuse("add", "", OCT_F32, s34, OCT_F32, s5, "broadcast");
  refuse("add", "", OCT_F32, s34, OCT_F16, s34, "type");
  refuse("mul", "", OCT_BOOL, s34, OCT_BOOL, s34, "bool");
  refuse("relu", "", OCT_BOOL, s34, OCT_DTYPE_NONE, none, "bool");
  refuse("sigmoid", "", OCT_I32, s34, OCT_DTYPE_NONE, none, "float");
  refuse("not", "", OCT_F32, s34, OCT_DTYPE_NONE, none, "bool");
  refuse("softmax", "axis=2", OCT_F32, s34, OCT_DTYPE_NONE, none, "axis 2");
  refuse("reduce_sum", "", OCT_F32, s34, OCT_F32, one, "axes");
  refuse("clip", "", OCT_F32, s34, OCT_F32, s5, "scalar");
  refuse("clip", "", OCT_F32, s34, OCT_I32, none, "i32");
  refuse("prelu", "", OCT_F32, s5, OCT_F32, oct_shape_of(2, (int64_t)3, (int64_t)5), "slope");
  refuse("cast", "to=f8", OCT_F32, s34, OCT_DTYPE_NONE, none, "f8");
  refuse("gelu", "approximate=cubic", OCT_F32, s34, OCT_DTYPE_NONE, none, "cubic");
  refuse("and", "", OCT_F32, s34, OCT_F32, s34, "bool");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(references_agree_with_onnx),      cmocka_unit_test(integers_wrap_and_never_trap),
      cmocka_unit_test(empty_reductions_follow_onnx),    cmocka_unit_test(clip_takes_any_bounds),
      cmocka_unit_test(inference_names_the_broken_rule),
  };
  return cmocka_run_group_tests(tests, context_create, context_destroy);
}
