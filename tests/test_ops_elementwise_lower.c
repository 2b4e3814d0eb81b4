/* Kernels of elementwise operators, reductions and softmax: each case is run by a session in row-major and in channels-last
 * form with a border, in floats (against the reference, within a bound) and in 8 bits (against the stated formula, exactly). The references
 * themselves:
 * test_ops_elementwise.c.
 * SPDX-License-Identifier: MIT */
#include "context_checks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/session.h"
#include "ops/op.h"

#define MAX_INPUTS 3
#define MAX_ELEMENTS 8192

/* How the 8-bit result is defined. */
typedef enum rule { NOT_8_BIT, REFERENCE, SUM, DIFFERENCE, PRODUCT, IMAGE_MEAN } rule;

typedef struct op_case {
  const char *op, *attributes;
  int n;
  int64_t shape[MAX_INPUTS][5]; /* rank, then dims */
  unsigned constants;           /* bit i: input i is a constant */
  rule rule;
  const char *kernel; /* of the 8-bit form */
} op_case;

#define S0 \
  { 0 }
#define S1(a) \
  { 1, a }
#define S2(a, b) \
  { 2, a, b }
#define S3(a, b, c) \
  { 3, a, b, c }
#define S4(a, b, c, d) \
  { 4, a, b, c, d }

static const op_case cases[] = {
    {"relu", "", 1, {S4(2, 19, 5, 7)}, 0, REFERENCE, "table_u8"},
    {"relu", "", 1, {S2(3, 1001)}, 0, REFERENCE, "table_u8"},
    {"clip", "", 3, {S4(1, 8, 5, 7), S0, S0}, 6, REFERENCE, "table_u8"},
    {"leaky_relu", "alpha=0.2", 1, {S4(1, 3, 5, 7)}, 0, REFERENCE, "table_u8"},
    {"elu", "alpha=0.7", 1, {S2(3, 37)}, 0, REFERENCE, "table_u8"},
    {"sigmoid", "", 1, {S4(1, 17, 3, 3)}, 0, REFERENCE, "table_u8"},
    {"tanh", "", 1, {S2(2, 67)}, 0, REFERENCE, "table_u8"},
    {"hard_swish", "", 1, {S4(2, 16, 3, 5)}, 0, REFERENCE, "table_u8"},
    {"hard_sigmoid", "alpha=0.3", 1, {S1(40)}, 0, REFERENCE, "table_u8"},
    {"gelu", "", 1, {S3(2, 5, 17)}, 0, REFERENCE, "table_u8"},
    {"gelu", "approximate=tanh", 1, {S3(2, 5, 17)}, 0, REFERENCE, "table_u8"},
    {"mish", "", 1, {S2(2, 9)}, 0, REFERENCE, "table_u8"},
    {"exp", "", 1, {S2(2, 35)}, 0, REFERENCE, "table_u8"},
    {"erf", "", 1, {S2(2, 35)}, 0, REFERENCE, "table_u8"},
    {"sqrt", "", 1, {S2(2, 35)}, 0, REFERENCE, "table_u8"},
    {"round", "", 1, {S2(2, 35)}, 0, REFERENCE, "table_u8"},
    {"abs", "", 1, {S4(1, 2, 3, 4)}, 0, REFERENCE, "table_u8"},
    {"add", "", 2, {S4(2, 19, 5, 7), S4(2, 19, 5, 7)}, 0, SUM, "add_u8"},
    {"add", "", 2, {S4(2, 19, 5, 7), S4(2, 19, 1, 1)}, 0, SUM, "add_u8"},
    {"add", "", 2, {S4(1, 19, 1, 1), S4(2, 19, 3, 5)}, 0, SUM, "add_u8"},
    {"add", "", 2, {S4(1, 3, 6, 1), S4(1, 1, 6, 9)}, 0, SUM, "add_u8"},
    {"add", "", 2, {S2(3, 1), S2(1, 700)}, 0, SUM, "add_u8"},
    {"add", "", 2, {S4(2, 8, 5, 7), S0}, 2, REFERENCE, "tables_u8"},
    {"add", "", 2, {S3(8, 1, 1), S4(2, 8, 5, 7)}, 1, REFERENCE, "tables_u8"},
    {"sub", "", 2, {S4(2, 19, 5, 7), S4(2, 19, 5, 7)}, 0, DIFFERENCE, "add_u8"},
    {"sub", "", 2, {S1(33), S2(4, 33)}, 0, DIFFERENCE, "add_u8"},
    {"mul", "", 2, {S4(2, 19, 5, 7), S4(2, 19, 5, 7)}, 0, PRODUCT, "mul_u8"},
    {"mul", "", 2, {S4(2, 19, 5, 7), S4(2, 19, 1, 1)}, 0, PRODUCT, "mul_u8"},
    {"mul", "", 2, {S4(2, 19, 1, 1), S4(2, 19, 5, 7)}, 0, PRODUCT, "mul_u8"},
    {"mul", "", 2, {S4(2, 5, 4, 4), S3(1, 4, 4)}, 0, PRODUCT, "mul_u8"},
    {"mul", "", 2, {S4(2, 5, 4, 4), S1(1)}, 2, REFERENCE, "tables_u8"},
    {"div", "", 2, {S4(2, 5, 4, 4), S0}, 2, REFERENCE, "tables_u8"},
    {"div", "", 2, {S2(5, 40), S2(5, 1)}, 0, REFERENCE, "table_u8_u8"},
    {"pow", "", 2, {S2(5, 40), S0}, 2, REFERENCE, "tables_u8"},
    {"min", "", 2, {S4(2, 5, 4, 4), S4(2, 5, 4, 4)}, 0, REFERENCE, "order_u8"},
    {"max", "", 2, {S4(2, 5, 4, 4), S4(1, 5, 1, 1)}, 0, REFERENCE, "order_u8"},
    {"max", "", 2, {S2(4, 30), S0}, 2, REFERENCE, "tables_u8"},
    {"prelu", "", 2, {S4(2, 19, 5, 7), S3(19, 1, 1)}, 2, REFERENCE, "tables_u8"},
    {"prelu", "", 2, {S2(40, 6), S1(6)}, 2, REFERENCE, "tables_u8"},
    {"sum", "", 2, {S2(3, 5), S1(5)}, 0, NOT_8_BIT, NULL},
    {"reduce_mean", "axes=2,3", 1, {S4(2, 19, 5, 7)}, 0, IMAGE_MEAN, "average_pool_u8"},
    {"reduce_mean", "axes=-1,-2 keepdims=0", 1, {S4(3, 16, 9, 9)}, 0, IMAGE_MEAN, "average_pool_u8"},
    {"reduce_mean", "axes=1", 1, {S2(5, 77)}, 0, NOT_8_BIT, NULL},
    {"reduce_sum", "", 1, {S3(2, 5, 8)}, 0, NOT_8_BIT, NULL},
    {"reduce_max", "axes=2", 1, {S3(2, 5, 9)}, 0, NOT_8_BIT, NULL},
    {"reduce_min", "axes=1,2 keepdims=0", 1, {S3(2, 5, 9)}, 0, NOT_8_BIT, NULL},
    {"softmax", "", 1, {S2(3, 10)}, 0, REFERENCE, "softmax_u8"},
    {"softmax", "", 1, {S2(2, 1000)}, 0, REFERENCE, "softmax_u8"},
    {"softmax", "axis=1", 1, {S4(2, 5, 3, 4)}, 0, REFERENCE, "softmax_u8"},
    {"softmax", "", 1, {S2(4000, 2)}, 0, REFERENCE, "softmax_u8"},
    {"softmax", "", 1, {S2(300, 21)}, 0, REFERENCE, "softmax_u8"},
    {"softmax", "axis=1", 1, {S3(7, 9, 111)}, 0, REFERENCE, "softmax_u8"},
    {"log_softmax", "", 1, {S2(3, 37)}, 0, REFERENCE, "softmax_u8"},
    {"log_softmax", "", 1, {S2(9, 3)}, 0, REFERENCE, "softmax_u8"},
    {"log_softmax", "", 1, {S2(2, 1000)}, 0, REFERENCE, "softmax_u8"},
    {"log_softmax", "axis=0", 1, {S2(20, 19)}, 0, REFERENCE, "softmax_u8"},
};

/* ---- data ---- */

typedef struct run_state {
  const op_case *c;
  bool u8, channels_last;
  oct_shape shape[MAX_INPUTS];
  float x[MAX_INPUTS][MAX_ELEMENTS]; /* what the node sees: on the grid where quantized */
  int32_t q[MAX_INPUTS][MAX_ELEMENTS];
  oct_graph *graph;
  oct_node *node;
  oct_value *inputs[MAX_INPUTS + 1];
} run_state;

static const struct {
  oct_dtype dtype;
  float scale;
  int32_t zero_point, low, high;
} grids[] = {{OCT_U8, 0.03f, 120, 0, 255}, {OCT_I8, 0.017f, -9, -128, 127}, {OCT_U8, 0.05f, 0, 0, 255}};
static const float out_scale = 0.021f;
static const int32_t out_zero_point = 77;

static uint32_t seed;
static uint32_t next(void) {
  seed = seed * 1664525u + 1013904223u;
  return seed >> 8;
}

static void fill(run_state *r) {
  bool positive = strcmp(r->c->op, "sqrt") == 0 || strcmp(r->c->op, "pow") == 0;
  for (int i = 0; i < r->c->n; i++) {
    int64_t count = oct_shape_count(&r->shape[i]);
    int grid = positive && i == 0 ? 2 : i % 2;
    assert_true(count <= MAX_ELEMENTS);
    for (int64_t k = 0; k < count; k++) {
      uint32_t v = next();
      int32_t q = grids[grid].low + (int32_t)(k % 11 == 0 ? 255 : k % 13 == 0 ? 0 : v % 256); /* the ends often */
      bool quantized = r->u8 && !(r->c->constants >> i & 1);
      r->q[i][k] = q;
      r->x[i][k] = quantized || positive ? (float)(q - grids[grid].zero_point) * grids[grid].scale : (float)(v % 20001) / 2500.0f - 4.0f;
    }
  }
  if (strcmp(r->c->op, "clip") == 0) r->x[1][0] = -1.1f, r->x[2][0] = 2.3f;
  if (strcmp(r->c->op, "pow") == 0) r->x[1][0] = 2.0f;
  if (strcmp(r->c->op, "div") == 0 && r->c->constants) r->x[1][0] = 6.0f;
}

/* ---- the graph ---- */

static void quantize_value(run_state *r, oct_value *v, oct_dtype dtype, float scale, int32_t zero_point) {
  oct_quant quant = {.dtype = dtype, .axis = -1, .count = 1, .scale = &scale, .zero_point = &zero_point};
  assert_int_equal(oct_value_set_quant(ctx, r->graph, v, &quant), OCTET_OK);
}

/* max_pool: 1x1 turns a value channels-last; 3x3 with padding asks for a border. */
static oct_value *pool(run_state *r, oct_value *in, int64_t size) {
  oct_node *node;
  int64_t kernel[2] = {size, size}, pads[4] = {size / 2, size / 2, size / 2, size / 2};
  assert_int_equal(oct_graph_node(ctx, r->graph, oct_op_find("max_pool"), "pool", &in, 1, 1, &node), OCTET_OK);
  assert_int_equal(oct_node_set_ints(ctx, r->graph, node, "kernel_shape", kernel, 2), OCTET_OK);
  assert_int_equal(oct_node_set_ints(ctx, r->graph, node, "pads", pads, 4), OCTET_OK);
  assert_int_equal(oct_node_infer(ctx, node), OCTET_OK);
  if (in->quant) quantize_value(r, node->outputs[0], in->quant->dtype, in->quant->scale[0], in->quant->zero_point[0]);
  return node->outputs[0];
}

static oct_value *make_input(run_state *r, int i) {
  oct_value *v;
  char name[8];
  snprintf(name, sizeof name, "x%d", i);
  if (r->c->constants >> i & 1) {
    oct_tensor *t;
    assert_int_equal(oct_tensor_create(ctx, OCT_F32, &r->shape[i], &t), OCTET_OK);
    memcpy(t->data, r->x[i], t->bytes);
    assert_int_equal(oct_graph_constant(ctx, r->graph, name, t, &v), OCTET_OK);
    return v;
  }
  bool positive = strcmp(r->c->op, "sqrt") == 0 || strcmp(r->c->op, "pow") == 0;
  int grid = positive && i == 0 ? 2 : i % 2;
  assert_int_equal(oct_graph_input(ctx, r->graph, name, OCT_F32, &r->shape[i], &v), OCTET_OK);
  if (r->u8) quantize_value(r, v, grids[grid].dtype, grids[grid].scale, grids[grid].zero_point);
  return r->channels_last && r->shape[i].rank == 4 ? pool(r, v, 1) : v;
}

/* Attributes as "name=number"; "axes=..." becomes input 1. */
static void set_attributes(run_state *r, oct_node *node) {
  char copy[256], *save = NULL;
  snprintf(copy, sizeof copy, "%s", r->c->attributes);
  for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
    char *value = strchr(word, '=');
    *value++ = 0;
    octet_status status = OCTET_OK;
    if (strcmp(word, "axes") == 0) continue;
    if (strchr(value, '.')) status = oct_node_set_float(ctx, r->graph, node, word, strtof(value, NULL));
    else if (strchr("-0123456789", value[0])) status = oct_node_set_int(ctx, r->graph, node, word, strtol(value, NULL, 10));
    else status = oct_node_set_string(ctx, r->graph, node, word, value);
    assert_int_equal(status, OCTET_OK);
  }
}

static int axes_input(run_state *r, oct_value **out) {
  const char *text = strstr(r->c->attributes, "axes=");
  int64_t axes[4];
  int n = 0;
  if (!text) return 0;
  for (char *at = (char *)(uintptr_t)text + 4; *at == '=' || *at == ',';) axes[n++] = strtol(at + 1, &at, 10);
  assert_int_equal(oct_graph_constant_i64(ctx, r->graph, "axes", axes, (size_t)n, out), OCTET_OK);
  return 1;
}

static void make_graph(run_state *r) {
  assert_int_equal(oct_graph_create(ctx, "test", &r->graph), OCTET_OK);
  for (int i = 0; i < r->c->n; i++) r->inputs[i] = make_input(r, i);
  int n = r->c->n + axes_input(r, &r->inputs[r->c->n]);
  assert_int_equal(oct_graph_node(ctx, r->graph, oct_op_find(r->c->op), "node", r->inputs, n, 1, &r->node), OCTET_OK);
  set_attributes(r, r->node);
  if (oct_node_infer(ctx, r->node) != OCTET_OK) fail_msg("%s", ctx->message);
  oct_value *out = r->node->outputs[0];
  if (r->u8) quantize_value(r, out, OCT_U8, out_scale, out_zero_point);
  assert_int_equal(oct_graph_output(ctx, r->graph, out), OCTET_OK);
  if (r->channels_last && out->shape.rank == 4) assert_int_equal(oct_graph_output(ctx, r->graph, pool(r, out, 3)), OCTET_OK);
}

/* ---- what is right ---- */

static void reference(run_state *r, float *y) {
  oct_tensor headers[MAX_INPUTS + 2] = {0}, *pointers[MAX_INPUTS + 2];
  for (int i = 0; i < r->node->n_inputs; i++) {
    headers[i] = (oct_tensor){.dtype = OCT_F32, .shape = r->inputs[i]->shape, .data = i < r->c->n ? r->x[i] : NULL, .references = 1};
    if (i >= r->c->n) headers[i] = *r->inputs[i]->tensor;
    pointers[i] = &headers[i];
  }
  oct_tensor out = {.dtype = OCT_F32, .shape = r->node->outputs[0]->shape, .data = y, .references = 1}, *outs = &out;
  assert_int_equal(r->node->op->reference(ctx, r->node, (const oct_tensor *const *)pointers, &outs), OCTET_OK);
}

/* Flat index in input i of element k of the output (numpy broadcasting). */
static int64_t source(const run_state *r, int i, int64_t k) {
  const oct_shape *out = &r->node->outputs[0]->shape, *in = &r->shape[i];
  int64_t at = 0, stride = 1;
  for (int d = out->rank - 1; d >= 0; d--) {
    int64_t index = k % out->dim[d];
    int own = d - (out->rank - in->rank);
    k /= out->dim[d];
    if (own < 0) continue;
    if (in->dim[own] != 1) at += index * stride;
    stride *= in->dim[own];
  }
  return at;
}

static int32_t right_u8(const run_state *r, int64_t k, float reference_value) {
  float sa = grids[0].scale, sb = grids[1].scale, t;
  if (r->c->rule == REFERENCE) return oct_quantize(reference_value, out_scale, out_zero_point, 0, 255);
  if (r->c->rule == IMAGE_MEAN) {
    int64_t pixels = r->shape[0].dim[2] * r->shape[0].dim[3];
    int32_t sum = 0;
    for (int64_t i = 0; i < pixels; i++) sum += r->q[0][k * pixels + i] - grids[0].zero_point;
    t = (float)sum * (sa / out_scale / (float)pixels);
    return oct_requantize_onnx(t, out_zero_point, 0, 255);
  }
  int32_t a = r->q[0][source(r, 0, k)] - grids[0].zero_point, b = r->q[1][source(r, 1, k)] - grids[1].zero_point;
  if (r->c->rule == PRODUCT) t = (float)(a * b) * (sa * sb / out_scale);
  else if (r->c->rule == SUM) t = (float)a * (sa / out_scale) + (float)b * (sb / out_scale);
  else t = (float)a * (sa / out_scale) - (float)b * (sb / out_scale);
  return oct_requantize_onnx(t, out_zero_point, 0, 255);
}

static void compare(const run_state *r, const float *got, const float *right) {
  int64_t count = oct_shape_count(&r->node->outputs[0]->shape);
  for (int64_t k = 0; k < count; k++) {
    if (!r->u8) {
      if (!(fabsf(got[k] - right[k]) <= 2e-6f * fabsf(right[k]) + 1e-6f) && !(isnan(got[k]) && isnan(right[k])))
        fail_msg("%s f32 %s [%lld]: %.9g instead of %.9g", r->c->op, r->channels_last ? "channels-last" : "", (long long)k, (double)got[k],
                 (double)right[k]);
      continue;
    }
    int32_t q = right_u8(r, k, right[k]), have = oct_quantize(got[k], out_scale, out_zero_point, 0, 255);
    if (q != have)
      fail_msg("%s u8 %s [%lld]: %d instead of %d", r->c->op, r->channels_last ? "channels-last" : "", (long long)k, (int)have, (int)q);
  }
}

static bool has_step(const oct_session *s, const char *kernel) {
  for (size_t i = 0; i < s->n_steps; i++)
    if (strcmp(s->steps[i]->kernel, kernel) == 0) return true;
  return false;
}

static void check_case(const op_case *c, bool u8, bool channels_last) {
  static run_state r;
  static float right[MAX_ELEMENTS];
  memset(&r, 0, sizeof r);
  r.c = c;
  r.u8 = u8;
  r.channels_last = channels_last;
  seed = (uint32_t)(c - cases) + 1;
  for (int i = 0; i < c->n; i++) {
    r.shape[i].rank = (int)c->shape[i][0];
    for (int d = 0; d < r.shape[i].rank; d++) r.shape[i].dim[d] = c->shape[i][d + 1];
  }
  fill(&r);
  make_graph(&r);
  reference(&r, right);
  oct_session *session;
  oct_session_options options = oct_session_options_default();
  if (oct_session_create(ctx, r.graph, &options, &session) != OCTET_OK) fail_msg("%s: %s", c->op, ctx->message);
  if (has_step(session, "reference") || (u8 && !has_step(session, c->kernel)))
    fail_msg("%s %s does not run by its kernel", c->op, u8 ? "u8" : "f32");
  for (size_t k = 0; k < oct_session_inputs(session); k++) {
    oct_session_port port = oct_session_input(session, k);
    memcpy(port.data, r.x[port.value->name[1] - '0'], port.bytes);
  }
  for (int again = 0; again < 2; again++) { /* a second run must find everything as the first did */
    if (oct_session_run(session) != OCTET_OK) fail_msg("%s: %s", c->op, ctx->message);
    compare(&r, oct_session_output(session, 0).data, right);
  }
  oct_session_destroy(session);
  oct_graph_destroy(r.graph);
}

static void floats_agree_with_the_reference(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    check_case(&cases[i], false, false);
    check_case(&cases[i], false, true);
  }
}

static void eight_bits_follow_the_formula(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (cases[i].rule == NOT_8_BIT) continue;
    check_case(&cases[i], true, false);
    check_case(&cases[i], true, true);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(floats_agree_with_the_reference), cmocka_unit_test(eight_bits_follow_the_formula)};
  return cmocka_run_group_tests(tests, context_create, context_destroy);
}
