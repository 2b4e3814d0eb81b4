/* Movement operators: references and sessions against onnx.reference (tests/data/ops/movement.txt); the same operators inside a plan, in floats
 * and in 8 bits of one scale and of two, from and to channels-last images with a border; and arguments that do not fit.
 * SPDX-License-Identifier: MIT */
#include "op_golden.h"

static void test_golden(void **state) {
  (void)state;
  assert_true(golden_file("movement.txt") > 40);
}

static void ok(octet_status status) {
  if (status != OCTET_OK) fail_msg("%s", ctx->message);
}

/* ---- In a plan --------------------------------------------------------------------------------------------------- */

typedef struct move_case {
  const char *op, *attributes;
  int data_inputs;      /* images that are moved */
  int64_t shapes[3][5]; /* rank, dims */
  int64_t lists[4][9];  /* further inputs: count + 1 (0: none, 1: absent), values */
} move_case;

#define I4(n, c, h, w) \
  { 4, n, c, h, w }

static const move_case moves[] = {
    {"reshape", "", 1, {I4(1, 4, 3, 5)}, {{3, 4, 15}}},
    {"reshape", "", 1, {I4(2, 4, 3, 5)}, {{5, 2, 2, -1, 5}}},
    {"flatten", "", 1, {I4(2, 7, 3, 2)}, {{0}}},
    {"flatten", "", 1, {I4(2, 9, 1, 1)}, {{0}}},
    {"squeeze", "", 1, {I4(2, 9, 1, 1)}, {{3, 2, 3}}},
    {"unsqueeze", "", 1, {{2, 6, 5}}, {{3, 0, 3}}},
    {"identity", "", 1, {I4(1, 3, 4, 4)}, {{0}}},
    {"transpose", "perm=0,2,3,1", 1, {I4(2, 5, 6, 7)}, {{0}}},
    {"transpose", "perm=0,3,1,2", 1, {I4(1, 6, 7, 5)}, {{0}}},
    {"transpose", "perm=3,2,1,0", 1, {I4(2, 3, 4, 5)}, {{0}}},
    {"transpose", "", 1, {{2, 67, 45}}, {{0}}},
    {"slice", "", 1, {I4(1, 8, 5, 6)}, {{2, 2}, {2, 7}, {2, 1}}},
    {"slice", "", 1, {I4(1, 4, 7, 6)}, {{3, -1, 0}, {3, -100, 6}, {3, 2, 3}, {3, -2, 2}}},
    {"concat", "axis=1", 3, {I4(1, 3, 4, 5), I4(1, 16, 4, 5), I4(1, 1, 4, 5)}, {{0}}},
    {"concat", "axis=2", 2, {I4(2, 3, 4, 5), I4(2, 3, 1, 5)}, {{0}}},
    {"concat", "axis=-1", 2, {{2, 3, 4}, {2, 3, 9}}, {{0}}},
    {"pad", "", 1, {I4(1, 5, 4, 3)}, {{9, 0, 0, 1, 2, 0, 0, 0, 1}}},
    {"pad", "", 1, {I4(1, 5, 4, 3)}, {{9, 0, 2, -1, 0, 0, 1, 1, -2}}},
    {"pad", "mode=reflect", 1, {I4(1, 2, 4, 3)}, {{9, 0, 0, 1, 2, 0, 0, 0, 1}}},
    {"expand", "", 1, {I4(1, 5, 1, 1)}, {{5, 2, 5, 3, 4}}},
    {"tile", "", 1, {I4(1, 3, 2, 2)}, {{5, 2, 1, 3, 2}}},
    {"gather", "axis=1", 1, {I4(1, 6, 2, 3)}, {{4, 5, -6, 2}}},
    {"depth_to_space", "blocksize=2", 1, {I4(1, 8, 3, 2)}, {{0}}},
    {"depth_to_space", "blocksize=3 mode=CRD", 1, {I4(1, 18, 1, 2)}, {{0}}},
    {"space_to_depth", "blocksize=2", 1, {I4(1, 3, 4, 6)}, {{0}}},
};

enum { QUANTIZED = 1, OTHER_SCALE = 2, FROM_IMAGE = 4, TO_IMAGE = 8 };

static oct_value *add_node(oct_graph *g, const char *op, const char *attributes, oct_value **in, int n) {
  oct_node *node;
  ok(oct_graph_node(ctx, g, oct_op_find(op), op, in, n, 1, &node));
  golden_attributes(ctx, g, node, attributes);
  ok(oct_node_infer(ctx, node));
  return node->outputs[0];
}

static void set_quant(oct_graph *g, oct_value *v, oct_dtype dtype, float scale, int32_t zero_point) {
  oct_quant q = {.dtype = dtype, .axis = -1, .count = 1, .scale = &scale, .zero_point = &zero_point};
  ok(oct_value_set_quant(ctx, g, v, &q));
}

/* A depthwise convolution that changes nothing, but wants its input channels-last with a border. */
static oct_value *identity_convolution(oct_graph *g, oct_value *x, bool quantized) {
  char attributes[64];
  oct_shape shape = oct_shape_of(4, x->shape.dim[1], (int64_t)1, (int64_t)3, (int64_t)3);
  oct_tensor *t;
  oct_value *in[2] = {x};
  ok(oct_tensor_create(ctx, quantized ? OCT_I8 : OCT_F32, &shape, &t));
  for (int64_t c = 0; c < shape.dim[0]; c++)
    if (quantized) ((int8_t *)t->data)[c * 9 + 4] = 64;
    else ((float *)t->data)[c * 9 + 4] = 1;
  ok(oct_graph_constant(ctx, g, "w", t, &in[1]));
  if (quantized) set_quant(g, in[1], OCT_I8, 1.0f / 64, 0);
  snprintf(attributes, sizeof attributes, "pads=1,1,1,1 group=%lld", (long long)shape.dim[0]);
  return add_node(g, "conv", attributes, in, 2);
}

typedef struct move_run {
  const move_case *c;
  int flags;
  float scale[3]; /* of the inputs */
  int32_t zero[3];
  float out_scale;
  int32_t out_zero;
  oct_tensor *data[3], *right;
} move_run;

static void choose_scales(move_run *r) {
  for (int i = 0; i < 3; i++)
    r->scale[i] = 0.02f + (r->flags & OTHER_SCALE ? 0.005f * (float)i : 0), r->zero[i] = 100 + (r->flags & OTHER_SCALE ? 9 * i : 0);
  r->out_scale = r->flags & OTHER_SCALE ? 0.031f : r->scale[0];
  r->out_zero = r->flags & OTHER_SCALE ? 140 : r->zero[0];
}

/* Inputs on their grids; further inputs as constants. Returns their number. */
static int add_inputs(oct_graph *g, move_run *r, oct_value **in) {
  const move_case *c = r->c;
  char name[8];
  int n = 0;
  for (; n < c->data_inputs; n++) {
    oct_shape shape = {.rank = (int)c->shapes[n][0]};
    memcpy(shape.dim, &c->shapes[n][1], 4 * sizeof(int64_t));
    snprintf(name, sizeof name, "i%d", n);
    ok(oct_graph_input(ctx, g, name, OCT_F32, &shape, &in[n]));
    ok(oct_tensor_create(ctx, OCT_F32, &shape, &r->data[n]));
    for (int64_t i = 0; i < oct_shape_count(&shape); i++)
      ((float *)r->data[n]->data)[i] = (float)((i * 37 + i * i * 11 + n * 50) % 256 - r->zero[n]) * r->scale[n];
    if (r->flags & QUANTIZED) set_quant(g, in[n], OCT_U8, r->scale[n], r->zero[n]);
    if (r->flags & FROM_IMAGE && shape.rank == 4) {
      in[n] = add_node(g, "max_pool", "kernel_shape=1,1", &in[n], 1);
      if (r->flags & QUANTIZED) set_quant(g, in[n], OCT_U8, r->scale[n], r->zero[n]);
    }
  }
  for (int k = 0; k < 4 && c->lists[k][0]; k++, n++) {
    in[n] = NULL;
    if (c->lists[k][0] > 1) ok(oct_graph_constant_i64(ctx, g, "list", &c->lists[k][1], (size_t)c->lists[k][0] - 1, &in[n]));
  }
  return n;
}

/* The reference's result on the real inputs. */
static void expect(move_run *r, const oct_node *node) {
  const oct_tensor *in[8] = {0};
  for (int i = 0; i < node->n_inputs; i++) in[i] = i < r->c->data_inputs ? r->data[i] : oct_constant_of(node->inputs[i]);
  ok(oct_tensor_create(ctx, OCT_F32, &node->outputs[0]->shape, &r->right));
  ok(node->op->reference(ctx, node, in, &r->right));
}

static void compare(const move_run *r, const float *got) {
  for (int64_t i = 0; i < oct_shape_count(&r->right->shape); i++) {
    float want = ((const float *)r->right->data)[i];
    if (r->flags & QUANTIZED) want = oct_dequantize(oct_quantize(want, r->out_scale, r->out_zero, 0, 255), r->out_scale, r->out_zero);
    if (got[i] != want)
      fail_msg("%s %s, form %d, element %lld: %.9g instead of %.9g", r->c->op, r->c->attributes, r->flags, (long long)i, (double)got[i],
               (double)want);
  }
}

static void run_move(const move_case *c, int flags) {
  move_run r = {.c = c, .flags = flags};
  oct_graph *g;
  oct_value *in[8], *y;
  oct_session *session;
  oct_session_options options = oct_session_options_default();
  choose_scales(&r);
  ok(oct_graph_create(ctx, "move", &g));
  int n = add_inputs(g, &r, in);
  y = add_node(g, c->op, c->attributes, in, n);
  expect(&r, y->producer);
  if (flags & QUANTIZED) set_quant(g, y, OCT_U8, r.out_scale, r.out_zero);
  if (flags & TO_IMAGE && y->shape.rank == 4) {
    y = identity_convolution(g, y, flags & QUANTIZED);
    if (flags & QUANTIZED) set_quant(g, y, OCT_U8, r.out_scale, r.out_zero);
  }
  ok(oct_graph_output(ctx, g, y));
  ok(oct_session_create(ctx, g, &options, &session));
  for (int i = 0; i < c->data_inputs; i++) {
    oct_session_port port = oct_session_input(session, (size_t)i);
    memcpy(port.data, r.data[i]->data, port.bytes);
  }
  ok(oct_session_run(session));
  compare(&r, oct_session_output(session, 0).data);
  for (size_t i = 0; i < session->n_steps; i++)
    if (strcmp(session->steps[i]->kernel, "reference") == 0 && strcmp(c->attributes, "mode=reflect") != 0)
      fail_msg("%s %s, form %d runs by the reference", c->op, c->attributes, flags);
  oct_session_destroy(session);
  oct_graph_destroy(g);
  for (int i = 0; i < 3; i++) oct_tensor_release(r.data[i]);
  oct_tensor_release(r.right);
}

static void test_plans(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
    for (int flags = 0; flags < 16; flags++)
      if (!(flags & OTHER_SCALE) || flags & QUANTIZED) run_move(&moves[i], flags);
}

/* ---- What does not fit -------------------------------------------------------------------------------------------- */

typedef struct bad_case {
  const char *op, *attributes;
  int64_t shape[5];
  int64_t lists[4][9];
  const char *word;
} bad_case;

static const bad_case bad[] = {
    {"reshape", "", {3, 2, 3, 4}, {{3, 5, -1}}, "do not divide"},
    {"reshape", "", {3, 2, 3, 4}, {{3, 5, 5}}, "number of elements"},
    {"reshape", "", {3, 2, 3, 4}, {{3, -1, -1}}, "more than one -1"},
    {"reshape", "", {3, 2, 3, 4}, {{2, -2}}, "below -1"},
    {"reshape", "", {1, 24}, {{3, 24, 0}}, "beyond the rank"},
    {"reshape", "allowzero=1", {2, 0, 3}, {{3, 0, -1}}, "allowzero"},
    {"reshape", "", {2, 0, 3}, {{3, 0, -1}}, "-1 cannot be determined"},
    {"reshape", "", {1, 1}, {{5, 4294967296, 4294967296, 4294967296, -1}}, "too large"},
    {"flatten", "axis=4", {3, 2, 3, 4}, {{0}}, "axis"},
    {"squeeze", "", {3, 1, 3, 4}, {{2, 1}}, "is not 1"},
    {"squeeze", "", {3, 1, 3, 4}, {{3, 0, -3}}, "twice"},
    {"unsqueeze", "", {3, 2, 3, 4}, {{2, 7}}, "out of range"},
    {"unsqueeze", "", {4, 2, 3, 4, 5}, {{6, 0, 1, 2, 3, 4}}, "rank"},
    {"transpose", "perm=0,0,1", {3, 2, 3, 4}, {{0}}, "permutation"},
    {"transpose", "perm=0,1", {3, 2, 3, 4}, {{0}}, "permutation"},
    {"slice", "", {2, 3, 4}, {{2, 0}, {2, 1}, {2, 0}, {2, 0}}, "step is 0"},
    {"slice", "", {2, 3, 4}, {{2, 0}, {3, 1, 2}}, "length"},
    {"slice", "", {2, 3, 4}, {{2, 0}, {2, 1}, {2, 5}}, "axis"},
    {"pad", "", {2, 3, 4}, {{4, 1, 1, 1}}, "two numbers per"},
    {"pad", "", {2, 3, 4}, {{5, -2, 0, -2, 0}}, "cut"},
    {"pad", "", {2, 3, 4}, {{5, INT64_MAX, 0, INT64_MAX, 0}}, "absurdly"},
    {"pad", "mode=mirror", {2, 3, 4}, {{5, 1, 1, 1, 1}}, "mode"},
    {"pad", "mode=wrap", {2, 0, 4}, {{5, 1, 1, 1, 1}}, "empty axis"},
    {"expand", "", {2, 3, 4}, {{3, 2, 4}}, "does not broadcast"},
    {"expand", "", {2, 3, 4}, {{3, -1, 4}}, "holds"},
    {"tile", "", {2, 3, 4}, {{2, 2}}, "repeats"},
    {"tile", "", {2, 3, 4}, {{3, INT64_MAX, 2}}, "repeat"},
    {"gather", "axis=2", {2, 3, 4}, {{2, 0}}, "axis"},
    {"depth_to_space", "blocksize=2", {4, 1, 3, 2, 2}, {{0}}, "multiple"},
    {"space_to_depth", "blocksize=2", {4, 1, 3, 3, 2}, {{0}}, "multiple"},
    {"concat", "axis=3", {2, 3, 4}, {{0}}, "axis"},
    {"split", "axis=1", {2, 3, 4}, {{3, 2, 2}}, "sizes"},
};

static void test_bad(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const bad_case *b = &bad[i];
    oct_graph *g;
    oct_value *in[5] = {0};
    oct_node *node;
    oct_shape shape = {.rank = (int)b->shape[0]};
    int n = 1;
    memcpy(shape.dim, &b->shape[1], 4 * sizeof(int64_t));
    ok(oct_graph_create(ctx, "bad", &g));
    ok(oct_graph_input(ctx, g, "x", OCT_F32, &shape, &in[0]));
    for (; n < 5 && b->lists[n - 1][0]; n++)
      ok(oct_graph_constant_i64(ctx, g, "list", &b->lists[n - 1][1], (size_t)b->lists[n - 1][0] - 1, &in[n]));
    ok(oct_graph_node(ctx, g, oct_op_find(b->op), "culprit", in, n, 1, &node));
    golden_attributes(ctx, g, node, b->attributes);
    if (oct_node_infer(ctx, node) == OCTET_OK) fail_msg("%s %s (%zu) is accepted", b->op, b->attributes, i);
    if (!strstr(ctx->message, "culprit") || !strstr(ctx->message, b->word))
      fail_msg("%s %s: the message does not say '%s': %s", b->op, b->attributes, b->word, ctx->message);
    oct_graph_destroy(g);
  }
}

/* An index out of range is found when it is met, and the node is named. */
static void test_gather_range(void **state) {
  (void)state;
  oct_graph *g;
  oct_value *in[2];
  oct_session *session;
  oct_session_options options = oct_session_options_default();
  oct_shape data = oct_shape_of(1, (int64_t)3), at = oct_shape_of(1, (int64_t)2);
  ok(oct_graph_create(ctx, "gather", &g));
  ok(oct_graph_input(ctx, g, "x", OCT_F32, &data, &in[0]));
  ok(oct_graph_input(ctx, g, "at", OCT_I64, &at, &in[1]));
  ok(oct_graph_output(ctx, g, add_node(g, "gather", "", in, 2)));
  ok(oct_session_create(ctx, g, &options, &session));
  int64_t *index = oct_session_input(session, 1).data;
  index[0] = -3, index[1] = 2;
  ok(oct_session_run(session));
  static const int64_t wrong[] = {3, -4, INT64_MAX, INT64_MIN};
  for (int i = 0; i < 4; i++) {
    index[1] = wrong[i];
    assert_int_equal(oct_session_run(session), OCTET_DATA);
    assert_non_null(strstr(ctx->message, "gather"));
  }
  oct_session_destroy(session);
  oct_graph_destroy(g);
}

/* Sizes that are not known stay open, and what can be known is. */
static void test_unknown(void **state) {
  (void)state;
  oct_graph *g;
  oct_value *x, *in[3];
  oct_shape shape = oct_shape_of(4, (int64_t)OCT_DIM_UNKNOWN, (int64_t)3, (int64_t)4, (int64_t)5);
  static const int64_t copy[] = {0, -1}, first[] = {-1, 60}, starts[] = {1, 1}, ends[] = {1000, 3};
  ok(oct_graph_create(ctx, "open", &g));
  ok(oct_graph_input(ctx, g, "x", OCT_F32, &shape, &x));
  in[0] = x;
  ok(oct_graph_constant_i64(ctx, g, "copy", copy, 2, &in[1]));
  oct_value *y = add_node(g, "reshape", "", in, 2);
  assert_true(y->shape.rank == 2 && y->shape.dim[0] == OCT_DIM_UNKNOWN && y->shape.dim[1] == 60);
  ok(oct_graph_constant_i64(ctx, g, "first", first, 2, &in[1]));
  y = add_node(g, "reshape", "", in, 2);
  assert_true(y->shape.rank == 2 && y->shape.dim[0] == OCT_DIM_UNKNOWN && y->shape.dim[1] == 60);
  y = add_node(g, "flatten", "", in, 1);
  assert_true(y->shape.dim[0] == OCT_DIM_UNKNOWN && y->shape.dim[1] == 60);
  ok(oct_graph_constant_i64(ctx, g, "starts", starts, 2, &in[1]));
  ok(oct_graph_constant_i64(ctx, g, "ends", ends, 2, &in[2]));
  y = add_node(g, "slice", "", in, 3);
  assert_true(y->shape.dim[0] == OCT_DIM_UNKNOWN && y->shape.dim[1] == 2 && y->shape.dim[2] == 4);
  y = add_node(g, "transpose", "perm=3,0,1,2", in, 1);
  assert_true(y->shape.dim[0] == 5 && y->shape.dim[1] == OCT_DIM_UNKNOWN);
  y = add_node(g, "shape", "", in, 1);
  assert_true(y->dtype == OCT_I64 && y->shape.rank == 1 && y->shape.dim[0] == 4);
  oct_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden), cmocka_unit_test(test_plans), cmocka_unit_test(test_bad),
                                     cmocka_unit_test(test_gather_range), cmocka_unit_test(test_unknown)};
  return cmocka_run_group_tests(tests, context_create, context_destroy);
}
