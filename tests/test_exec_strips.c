/* Convolutions that run together by strips of rows: the bytes are those of the steps run one by one, for any height of a strip, any instruction set
 * and any number of threads; values between them have no buffer; and the time of each step is still told apart.
 * SPDX-License-Identifier: MIT */
#include "exec_checks.h"

typedef enum layer_kind { POINTWISE, DEPTHWISE, FULL } layer_kind;

typedef struct layer {
  layer_kind kind;
  int channels, kernel, stride, dilation; /* channels: of the output */
  int top, left, bottom, right;
  int add; /* 1 + number of the layer whose result is added; 0: none */
} layer;

typedef struct network {
  const char *title;
  int channels, height, width, n;
  int chains; /* of the float form, when values of any size count */
  layer layers[8];
} network;

#define P(channels) \
  { POINTWISE, channels, 1, 1, 1, 0, 0, 0, 0, 0 }
#define P_ADD(channels, from) \
  { POINTWISE, channels, 1, 1, 1, 0, 0, 0, 0, 1 + (from) }
#define D(channels, kernel, stride, pad) \
  { DEPTHWISE, channels, kernel, stride, 1, pad, pad, pad, pad, 0 }

static const network networks[] = {
    {"expand, depthwise, project", 5, 13, 11, 3, 1, {P(24), D(24, 3, 1, 1), P(7)}},
    {"with stride", 8, 14, 9, 3, 1, {P(20), D(20, 3, 2, 1), P(6)}},
    {"5x5", 8, 17, 12, 3, 1, {P(33), D(33, 5, 1, 2), P(16)}},
    {"5x5 with stride", 3, 16, 10, 3, 1, {P(18), D(18, 5, 2, 2), P(9)}},
    {"more padding below", 4, 12, 12, 3, 1, {P(16), {DEPTHWISE, 16, 3, 2, 1, 0, 0, 1, 1, 0}, P(8)}},
    {"more padding above than rows are read", 4, 9, 8, 2, 1, {P(16), {DEPTHWISE, 16, 3, 1, 1, 5, 2, 4, 1, 0}}},
    {"no padding", 6, 11, 10, 2, 1, {P(12), D(12, 3, 1, 0)}},
    {"rows that nobody reads", 6, 13, 10, 3, 1, {P(12), {DEPTHWISE, 12, 1, 3, 1, 0, 0, 0, 0, 0}, P(5)}},
    {"dilation", 6, 15, 13, 3, 1, {P(12), {DEPTHWISE, 12, 3, 1, 3, 3, 3, 3, 3, 0}, P(12)}},
    {"one row", 6, 1, 40, 3, 1, {P(12), D(12, 3, 1, 1), P(5)}},
    {"the start of a network", 3, 21, 17, 4, 1, {{FULL, 16, 3, 2, 1, 1, 1, 1, 1, 0}, D(16, 3, 1, 1), P(8), P(48)}},
    {"residuals from outside and from the chain's end",
     8,
     12,
     12,
     7,
     2,
     {P(8), P(24), D(24, 3, 1, 1), P_ADD(8, 0), P(40), D(40, 5, 1, 2), P_ADD(8, 3)}},
    {"a residual in the middle", 5, 10, 9, 5, 1, {P(12), D(12, 3, 1, 1), P_ADD(12, 0), D(12, 3, 2, 1), P(5)}},
};
#define NETWORKS (sizeof networks / sizeof *networks)

static void put_value(oct_strbuf *text, const char *name, int number, bool quantized) {
  if (quantized) oct_strbuf_printf(text, "quant %s%d u8 scale=0.0%d1 zero_point=%d\n", name, number, 2 + number % 5, 100 + 9 * number % 60);
}

static oct_graph *make_graph(const network *n, bool quantized) {
  oct_strbuf text = oct_strbuf_make(ctx);
  char *taken;
  int channels = n->channels;
  oct_strbuf_printf(&text, "input x0 f32[N,%d,%d,%d]\n", channels, n->height, n->width);
  put_value(&text, "x", 0, quantized);
  for (int i = 0; i < n->n; i++) {
    const layer *l = &n->layers[i];
    int groups = l->kind == DEPTHWISE ? channels : 1;
    oct_strbuf_printf(&text, "const w%d %s[%d,%d,%d,%d] = rnd\n", i, quantized ? "i8" : "f32", l->channels, channels / groups, l->kernel,
                      l->kernel);
    if (quantized) oct_strbuf_printf(&text, "quant w%d i8 scale=0.0041\n", i);
    oct_strbuf_printf(&text, "%c%d = conv(x%d, w%d) group=%d strides=%d,%d dilations=%d,%d pads=%d,%d,%d,%d\n", l->add ? 'c' : 'x', i + 1,
                      i, i, groups, l->stride, l->stride, l->dilation, l->dilation, l->top, l->left, l->bottom, l->right);
    if (l->add) oct_strbuf_printf(&text, "x%d = add(c%d, x%d)\n", i + 1, i + 1, l->add);
    put_value(&text, "x", i + 1, quantized);
    channels = l->channels;
  }
  oct_strbuf_printf(&text, "output x%d\n", n->n);
  check(oct_strbuf_take(&text, &taken));
  oct_graph *graph = exec_parse(taken);
  oct_free(taken);
  return graph;
}

static int chains_of(const oct_session *session) {
  int n = 0;
  for (size_t i = 0; i < session->n_steps; i++) n += oct_strips_run_in(session->steps[i]);
  return n;
}

/* ---- Bytes ---- */

static void compare(const network *n, const oct_graph *graph, bool quantized, exec_form form, int64_t batch) {
  exec_tensors inputs = exec_inputs(graph, batch);
  form.fuse = OCT_FUSE_ALL & ~(unsigned)OCT_FUSE_STRIPS;
  form.chunk = batch;
  exec_tensors want = exec_run(graph, form, &inputs);
  form.fuse = OCT_FUSE_ALL;
  for (form.strip_rows = 1; form.strip_rows <= 7; form.strip_rows += 1 + form.strip_rows / 4) {
    exec_tensors got = exec_run(graph, form, &inputs);
    if (!exec_same_bytes(&got, &want)) {
      print_error("%s, %s, %s, batch %lld, %d threads: strips of %d rows change the result\n", n->title, quantized ? "quantized" : "float",
                  form.isa ? form.isa : "any", (long long)batch, form.threads, form.strip_rows);
      fail();
    }
    exec_free(&got);
  }
  exec_free(&want);
  exec_free(&inputs);
}

static void strips_change_no_byte(void **state) {
  (void)state;
  static const char *const sets[] = {"scalar", "avx2", "avx512", NULL};
  for (size_t i = 0; i < NETWORKS; i++) {
    for (int quantized = 0; quantized < 2; quantized++) {
      oct_graph *graph = make_graph(&networks[i], quantized);
      for (size_t k = 0; k < sizeof sets / sizeof *sets; k++)
        for (int threads = 1; threads <= 3; threads += 2)
          compare(&networks[i], graph, quantized, (exec_form){.isa = sets[k], .threads = threads}, threads);
      oct_graph_destroy(graph);
    }
  }
}

/* Against the references, which know of no rows. */
static void strips_agree_with_the_references(void **state) {
  (void)state;
  for (size_t i = 0; i < NETWORKS; i++) {
    oct_graph *graph = make_graph(&networks[i], false);
    exec_tensors inputs = exec_inputs(graph, 2), want = exec_expected(graph, &inputs);
    for (int rows = 1; rows <= 3; rows++)
      exec_agrees_as(networks[i].title, graph, (exec_form){.fuse = OCT_FUSE_ALL, .strip_rows = rows}, &inputs, &want, 0);
    exec_free(&inputs);
    exec_free(&want);
    oct_graph_destroy(graph);
  }
}

/* ---- What becomes of the plan ---- */

static void chains_are_found(void **state) {
  (void)state;
  for (size_t i = 0; i < NETWORKS; i++) {
    oct_graph *graph = make_graph(&networks[i], false);
    exec_tensors inputs = exec_inputs(graph, 1);
    oct_session *session = exec_session(graph, (exec_form){.fuse = OCT_FUSE_ALL, .strip_rows = 2}, &inputs);
    if (chains_of(session) != networks[i].chains) print_error("%s: %d chains\n", networks[i].title, chains_of(session));
    assert_int_equal(chains_of(session), networks[i].chains);
    oct_session_destroy(session);
    exec_free(&inputs);
    oct_graph_destroy(graph);
  }
}

/* 96 channels of 112x112 floats are 4.8 MB, which neither the arena nor a strip holds; small values are left alone. */
static void large_values_have_no_buffer(void **state) {
  (void)state;
  static const network large = {"large", 4, 112, 112, 3, 1, {P(96), D(96, 3, 2, 1), P(4)}};
  static const network small = {"small", 4, 28, 28, 3, 0, {P(96), D(96, 3, 2, 1), P(4)}};
  oct_graph *graph = make_graph(&large, false), *other = make_graph(&small, false);
  exec_tensors inputs = exec_inputs(graph, 1), few = exec_inputs(other, 1);
  exec_form form = {.fuse = OCT_FUSE_ALL, .strip_rows = -1};
  oct_session *session = exec_session(graph, form, &inputs), *plain = exec_session(other, form, &few);
  assert_int_equal(chains_of(session), 1);
  assert_int_equal(chains_of(plain), 0);
  assert_true(session->plan.arena_bytes < ((size_t)1 << 20));
  assert_true(session->plan.workspace_bytes < ((size_t)3 << 19));
  oct_session_destroy(session);
  oct_session_destroy(plain);
  compare(&large, graph, false, (exec_form){.threads = 1}, 1);
  exec_free(&inputs);
  exec_free(&few);
  oct_graph_destroy(graph);
  oct_graph_destroy(other);
}

/* A value that two nodes read, or that is an output, is made as a whole. */
static void values_with_other_readers_are_whole(void **state) {
  (void)state;
  static const char *const texts[] = {
      "input x f32[1,4,9,9]\nconst w f32[8,4,1,1] = rnd\nconst d f32[8,1,3,3] = rnd\na = conv(x, w)\nb = conv(a, d) group=8 pads=1,1,1,1\n"
      "output a\noutput b\n",
      "input x f32[1,4,9,9]\nconst w f32[8,4,1,1] = rnd\nconst d f32[8,1,3,3] = rnd\na = conv(x, w)\nb = conv(a, d) group=8 pads=1,1,1,1\n"
      "c = sigmoid(a)\ns = mul(b, c)\noutput s\n"};
  for (int i = 0; i < 2; i++) {
    oct_graph *graph = exec_parse(texts[i]);
    exec_tensors inputs = exec_inputs(graph, 1);
    oct_session *session = exec_session(graph, (exec_form){.fuse = OCT_FUSE_ALL, .strip_rows = 2}, &inputs);
    assert_int_equal(chains_of(session), 0);
    oct_session_destroy(session);
    exec_free(&inputs);
    oct_graph_destroy(graph);
  }
}

/* Every convolution of a chain gets a part of its time, and all parts together are no more than the run. */
static void time_is_told_apart(void **state) {
  (void)state;
  oct_graph *graph = make_graph(&networks[2], false);
  exec_tensors inputs = exec_inputs(graph, 1);
  oct_session *session = exec_session(graph, (exec_form){.fuse = OCT_FUSE_ALL, .strip_rows = 3}, &inputs);
  double seconds[16] = {0};
  assert_true(session->n_steps <= 16);
  exec_fill(session, &inputs);
  for (int i = 0; i < 200; i++) check(oct_session_run_profiled(session, seconds));
  int timed = 0;
  for (size_t i = 0; i < session->n_steps; i++) timed += session->steps[i]->strips && seconds[i] > 0;
  assert_int_equal(timed, 3);
  oct_session_destroy(session);
  exec_free(&inputs);
  oct_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(strips_change_no_byte, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(strips_agree_with_the_references, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(chains_are_found, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(large_values_have_no_buffer, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(values_with_other_readers_are_whole, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(time_is_told_apart, context_create, context_destroy),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
