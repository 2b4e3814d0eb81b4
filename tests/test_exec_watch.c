/* Watched values: the pieces that a watch shows are the values that the same graph gives as outputs, each element once, whatever the layout, the border
 * and the threads.
 * SPDX-License-Identifier: MIT */
#include "exec_checks.h"

#define MOST 16

static const char *const texts[] = {
    /* borders of convolutions, channels last, an elementwise chain, a pool, a matrix product */
    "input x f32[N,3,11,9]\nconst w f32[5,3,3,3] = rnd\nconst v f32[6,5,3,3] = rnd\nconst m f32[6,4] = rnd\n"
    "a = conv(x, w) pads=1,1,1,1\nb = relu(a)\nc = conv(b, v) pads=2,2,2,2 dilations=2,2\nd = add(c, c)\ne = global_average_pool(d)\n"
    "f = flatten(e)\ng = matmul(f, m)\noutput x\noutput a\noutput b\noutput c\noutput d\noutput e\noutput f\noutput g\n",
    "input x f32[N,4,13]\nconst w f32[6,4,3] = rnd\na = conv(x, w) pads=1,1\nb = relu(a)\noutput b\noutput a\n",
    /* the batch is not the first dim, or none */
    "input x f32[N,6]\na = transpose(x) perm=1,0\nb = relu(a)\noutput a\noutput b\noutput x\n",
};

typedef struct seen {
  float *values[MOST];
  unsigned *times[MOST]; /* each element was shown */
  unsigned between[MOST];
} seen;

static void first(void *user, size_t index, const oct_watch_view *view, size_t begin, size_t end) {
  seen *s = user;
  for (size_t unit = begin; unit < end; unit++) {
    const oct_watch_piece p = oct_watch_piece_at(view, unit);
    for (size_t i = 0; i < p.count; i++) s->times[index][oct_watch_index(view, p.sample, p.first + i)]++;
  }
}

static void between(void *user, size_t index, const oct_watch_view *view) {
  seen *s = user;
  (void)view;
  s->between[index]++;
}

static void second(void *user, size_t index, const oct_watch_view *view, size_t begin, size_t end) {
  seen *s = user;
  for (size_t unit = begin; unit < end; unit++) {
    const oct_watch_piece p = oct_watch_piece_at(view, unit);
    for (size_t i = 0; i < p.count; i++) s->values[index][oct_watch_index(view, p.sample, p.first + i)] = p.data[i];
  }
}

static oct_session *session_of(const oct_graph *graph, const oct_watch *watch, const exec_tensors *inputs, int64_t batch) {
  oct_session *s;
  oct_session_options o = oct_session_options_default();
  o.batch = batch;
  o.chunk = batch;
  o.watch = watch;
  o.split_short = true;
  if (watch) o.fuse_kinds &= ~(unsigned)OCT_FUSE_STRIPS;
  check(oct_session_create(ctx, graph, &o, &s));
  for (size_t i = 0; i < oct_session_inputs(s); i++) memcpy(oct_session_input(s, i).data, inputs->item[i]->data, inputs->item[i]->bytes);
  return s;
}

static void watch_one(const char *text, int64_t batch, int threads) {
  seen s = {0};
  oct_graph *graph = exec_parse(text);
  exec_tensors inputs = exec_inputs(graph, batch);
  oct_watch watch = {.user = &s, .samples = (size_t)batch, .first = first, .between = between, .second = second};
  ctx->threads = threads;
  oct_session *plain = session_of(graph, NULL, &inputs, batch);
  for (size_t i = 0; i < graph->n_outputs; i++) {
    size_t count = oct_session_output(plain, i).bytes / sizeof(float);
    s.values[i] = calloc(count + 1, sizeof(float));
    s.times[i] = calloc(count + 1, sizeof(unsigned));
    assert_true(s.values[i] && s.times[i]);
  }
  oct_session *watching = session_of(graph, &watch, &inputs, batch);
  assert_int_equal(oct_session_outputs(watching), 0);
  check(oct_session_run(plain));
  for (unsigned run = 1; run <= 2; run++) {
    check(oct_session_run(watching));
    for (size_t i = 0; i < graph->n_outputs; i++) {
      oct_session_port port = oct_session_output(plain, i);
      assert_int_equal(s.between[i], run);
      assert_memory_equal(s.values[i], port.data, port.bytes);
      for (size_t k = 0; k < port.bytes / sizeof(float); k++) assert_int_equal(s.times[i][k], run);
    }
  }
  for (size_t i = 0; i < graph->n_outputs; i++) {
    free(s.values[i]);
    free(s.times[i]);
  }
  oct_session_destroy(watching);
  oct_session_destroy(plain);
  exec_free(&inputs);
  oct_graph_destroy(graph);
  ctx->threads = 1;
}

static void test_every_element_once(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    for (int64_t batch = 1; batch <= 3; batch++)
      for (int threads = 1; threads <= 3; threads++) watch_one(texts[i], batch, threads);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_element_once)};
  return cmocka_run_group_tests(tests, context_create, context_destroy);
}
