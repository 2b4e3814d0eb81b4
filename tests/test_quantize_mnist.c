/* The main job's accuracy: the MNIST network of examples/mnist in every mode, on all 10,000 test digits, for ten draws of the calibration
 * set. The figures are those that the project promises (float: 9,661 right, as PyTorch and ONNX Runtime have it).
 * SPDX-License-Identifier: MIT */
#include "formats/dataset.h"
#include "formats/labels.h"
#include "formats/model.h"
#include "quantize_checks.h"

#define FOLDER OCTET_SOURCE_DIR "/examples/mnist/"
enum { PIXELS = 784, SAMPLES = 1000 };

typedef struct mnist {
  oct_graph *graph;
  oct_dataset *training, *test;
  oct_labels labels;
  float *digits;
  int64_t count;
} mnist;

static void read_digit(const oct_dataset *data, int64_t index, float *to) {
  oct_sample_form form = {OCT_F32, false, oct_shape_of(3, 1, 28, 28)};
  must(oct_dataset_read(ctx, data, NULL, index, &form, to));
}

static mnist open_mnist(void) {
  mnist m = {0};
  oct_preprocess p;
  must(oct_preprocess_parse(ctx, "scale=1/255", &p));
  must(oct_model_read(ctx, FOLDER "mnist.oct", NULL, &m.graph));
  must(oct_dataset_open(ctx, FOLDER "train10k-images-idx3-ubyte.gz", &p, &m.training));
  must(oct_dataset_open(ctx, FOLDER "t10k-images-idx3-ubyte.gz", &p, &m.test));
  must(oct_labels_read(ctx, FOLDER "t10k-labels-idx1-ubyte.gz", m.test, &m.labels));
  m.count = oct_dataset_count(m.test);
  m.digits = oct_alloc(ctx, (size_t)m.count * PIXELS, sizeof *m.digits);
  for (int64_t i = 0; i < m.count; i++) read_digit(m.test, i, m.digits + i * PIXELS);
  return m;
}

static void close_mnist(mnist *m) {
  oct_free(m->digits);
  oct_labels_free(&m->labels);
  oct_dataset_close(m->training);
  oct_dataset_close(m->test);
  oct_graph_destroy(m->graph);
}

static int right_of(const mnist *m, const oct_graph *g) {
  enum { BATCH = 250 };
  oct_session_options o = oct_session_options_default();
  o.batch = BATCH;
  oct_session *s;
  int right = 0;
  must(oct_session_create(ctx, g, &o, &s));
  for (int64_t first = 0; first < m->count; first += BATCH) {
    memcpy(oct_session_input(s, 0).data, m->digits + first * PIXELS, BATCH * PIXELS * sizeof(float));
    must(oct_session_run(s));
    const float *y = oct_session_output(s, 0).data;
    for (int64_t i = 0; i < BATCH; i++) {
      int best = 0;
      for (int c = 1; c < 10; c++) best = y[i * 10 + c] > y[i * 10 + best] ? c : best;
      right += oct_labels_accept(&m->labels, first + i, best);
    }
  }
  oct_session_destroy(s);
  return right;
}

static oct_tensor *draw(const mnist *m, uint64_t seed) {
  int64_t chosen[SAMPLES];
  oct_shape shape = oct_shape_of(4, SAMPLES, 1, 28, 28);
  oct_tensor *t;
  must(oct_dataset_draw(ctx, seed, oct_dataset_count(m->training), SAMPLES, chosen));
  must(oct_tensor_create(ctx, OCT_F32, &shape, &t));
  for (int64_t i = 0; i < SAMPLES; i++) read_digit(m->training, chosen[i], (float *)t->data + i * PIXELS);
  return t;
}

static void the_promised_accuracy_is_reached(void **state) {
  (void)state;
  mnist m = open_mnist();
  assert_int_equal(right_of(&m, m.graph), 9661);
  for (uint64_t seed = 0; seed < 11; seed++) { /* 0 to 9, and 1 to 10 */
    oct_tensor *samples = draw(&m, seed);
    oct_quantize_report r = {0};
    oct_graph *q = quantized(m.graph, NULL, samples, &r);
    int right = right_of(&m, q);
    if (right < 9655) fail_msg("seed %d: %d right", (int)seed, right);
    all_layers_are(&r, "int8");
    assert_true(r.bytes <= 4096);
    assert_int_equal(r.boundaries, 0);
    oct_quantize_report_free(&r);
    oct_graph_destroy(q);
    oct_tensor_release(samples);
  }
  static const struct {
    oct_quantize_mode mode;
    int least;
  } modes[] = {{OCT_MODE_DYNAMIC, 9655}, {OCT_MODE_WEIGHT_ONLY, 9659}, {OCT_MODE_FP16, 9659}};
  for (size_t i = 0; i < 3; i++) {
    oct_quantize_options o = oct_quantize_options_default();
    o.mode = modes[i].mode;
    oct_graph *q;
    must(oct_quantize_graph(ctx, m.graph, &o, NULL, NULL, &q, NULL));
    assert_true(right_of(&m, q) >= modes[i].least);
    oct_graph_destroy(q);
  }
  close_mnist(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(the_promised_accuracy_is_reached, setup, teardown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
