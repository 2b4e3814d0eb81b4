/* Models in files: .oct with weights beside it, written and read again; checkpoints put onto graphs; PyTorch's quantized state dicts.
 * SPDX-License-Identifier: MIT */
#include "context_checks.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "formats/model.h"
#include "formats/npy.h"
#include "ir/verify.h"

#define MNIST OCTET_SOURCE_DIR "/examples/mnist/mnist.oct"
#define CHECKPOINTS OCTET_SOURCE_DIR "/../shared/data/seed-mnist/"

static char folder[256];

static int setup(void **state) {
  if (!folder_create(folder)) return -1;
  return context_create(state);
}

static int teardown(void **state) {
  (void)state;
  char command[300];
  oct_context_destroy(ctx);
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  return system(command) == 0 ? 0 : -1;
}

static const char *in_folder(const char *name) {
  static char paths[4][512];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static void write_file(const char *name, const char *text) { check(oct_file_write(ctx, in_folder(name), text, strlen(text))); }

static void add(oct_bundle *bundle, const char *name, oct_dtype dtype, oct_shape shape, double first) {
  oct_tensor *tensor;
  check(oct_tensor_create(ctx, dtype, &shape, &tensor));
  for (int64_t i = 0; i < oct_shape_count(&shape); i++) oct_set_f64(tensor->data, dtype, i, first + (double)i);
  check(oct_bundle_add(ctx, bundle, name, tensor, NULL));
}

static bool warned(const char *part) {
  for (size_t i = 0; i < ctx->n_warnings; i++)
    if (strstr(ctx->warnings[i], part)) return true;
  for (size_t i = 0; i < ctx->n_warnings; i++) print_error("warning: %s\n", ctx->warnings[i]);
  return false;
}

static double number(const oct_graph *g, const char *name, int64_t index) {
  const oct_value *v = oct_graph_find(g, name);
  assert_non_null(v);
  return oct_get_f64(v->tensor->data, v->tensor->dtype, index);
}

/* ---- the network of the examples ---- */

static void reads_the_mnist_network(void **state) {
  (void)state;
  oct_graph *g;
  check(oct_model_read(ctx, MNIST, NULL, &g));
  assert_int_equal(g->n_nodes, 12);
  assert_string_equal(oct_graph_metadata(g, "preprocess"), "scale=1/255");
  int64_t weights = 0; /* 72 + 8 + 512 + 16 + 2048 + 32 + 320 + 10 */
  for (size_t i = 0; i < g->n_values; i++)
    if (g->values[i]->kind == OCT_CONSTANT) weights += oct_shape_count(&g->values[i]->shape);
  assert_int_equal(weights, 3018);
  check(oct_model_write(ctx, g, in_folder("copy.oct")));
  oct_graph *copy;
  check(oct_model_read(ctx, in_folder("copy.oct"), NULL, &copy));
  assert_int_equal(copy->n_nodes, 12);
  const oct_value *a = oct_graph_find(g, "conv3.weight"), *b = oct_graph_find(copy, "conv3.weight");
  assert_memory_equal(a->tensor->data, b->tensor->data, a->tensor->bytes);
  oct_graph_destroy(copy);
  oct_graph_destroy(g);
}

static void reads_a_quantized_state_dict(void **state) {
  (void)state;
  if (access(CHECKPOINTS "q.pth", R_OK) != 0) {
    print_message("skipped: %s is not here\n", CHECKPOINTS);
    return;
  }
  oct_graph *g;
  oct_warnings_clear(ctx);
  check(oct_model_read(ctx, MNIST, CHECKPOINTS "q.pth", &g));
  check(oct_graph_verify(ctx, g));
  assert_true(warned("no parameters for input \"input\""));
  /* Numbers as the pickle holds them. */
  const oct_value *w = oct_graph_find(g, "conv1.weight"), *r = oct_graph_find(g, "relu1"), *p = oct_graph_find(g, "pool1"),
                  *y = oct_graph_find(g, "output");
  assert_int_equal(w->tensor->dtype, OCT_I8);
  assert_int_equal(w->quant->axis, -1);
  assert_true(w->quant->scale[0] == (float)0.024976026266813278);
  assert_null(oct_graph_find(g, "conv1")->quant); /* fused: rounded after the ReLU */
  assert_true(r->quant->scale[0] == 0.05126289278268814f && r->quant->zero_point[0] == 0 && r->quant->dtype == OCT_U8);
  assert_true(oct_quant_equal(p->quant, r->quant));
  assert_true(oct_quant_equal(oct_graph_find(g, "flat")->quant, oct_graph_find(g, "relu3")->quant));
  assert_true(y->quant->scale[0] == 0.334920734167099f && y->quant->zero_point[0] == 58);
  assert_true(g->inputs[0]->quant->scale[0] == 1 && g->inputs[0]->quant->zero_point[0] == 0);
  /* The bias in units of input scale * weight scale: -2.544763 is the float network's, 1 * 0.024976026 the unit. */
  const oct_value *b = oct_graph_find(g, "conv1.bias");
  assert_int_equal(b->tensor->dtype, OCT_I32);
  assert_true(b->quant->scale[0] == w->quant->scale[0]);
  assert_int_equal((int)number(g, "conv1.bias", 0), -102);
  oct_graph_destroy(g);
  check(oct_model_read(ctx, MNIST, CHECKPOINTS "qa_q.pth", &g));
  assert_int_equal(oct_graph_find(g, "conv2.weight")->quant->axis, 0);
  assert_int_equal(oct_graph_find(g, "conv2.weight")->quant->count, 16);
  assert_int_equal(oct_graph_find(g, "conv2.bias")->quant->count, 16);
  oct_graph_destroy(g);
}

/* ---- weights files beside a text ---- */

static void weights_from_npz_and_npy(void **state) {
  (void)state;
  oct_bundle bundle = {0};
  add(&bundle, "w", OCT_F32, oct_shape_of(2, 3, 4), 1);
  check(oct_npz_write(ctx, in_folder("a.npz"), &bundle));
  check(oct_npy_write(ctx, in_folder("w.npy"), bundle.items[0].tensor));
  oct_bundle_free(&bundle);
  write_file("a.oct", "octet 1\nweights \"a.npz\"\ninput x f32[2,3]\ny = matmul(x, w)\noutput y\n");
  write_file("b.oct", "octet 1\nweights \"w.npy\"\ninput x f32[2,3]\ny = matmul(x, w)\noutput y\n");
  for (int i = 0; i < 2; i++) {
    oct_graph *g;
    check(oct_model_read(ctx, in_folder(i ? "b.oct" : "a.oct"), NULL, &g));
    assert_true(number(g, "w", 11) == 12);
    oct_graph_destroy(g);
  }
}

static void a_checkpoint_stands_in_for_a_missing_file(void **state) {
  (void)state;
  oct_bundle bundle = {0};
  oct_graph *g;
  add(&bundle, "w", OCT_F32, oct_shape_of(2, 3, 4), 5);
  check(oct_npz_write(ctx, in_folder("other.npz"), &bundle));
  oct_bundle_free(&bundle);
  write_file("c.oct", "octet 1\nweights \"lost.pth\"\ninput x f32[2,3]\ny = matmul(x, w)\noutput y\n");
  assert_int_equal(oct_model_read(ctx, in_folder("c.oct"), NULL, &g), OCTET_IO);
  assert_non_null(strstr(ctx->message, "lost.pth"));
  assert_null(g);
  check(oct_model_read(ctx, in_folder("c.oct"), in_folder("other.npz"), &g));
  assert_true(number(g, "w", 0) == 5);
  oct_graph_destroy(g);
}

static void what_does_not_match_is_listed(void **state) {
  (void)state;
  oct_bundle bundle = {0};
  oct_graph *g;
  oct_weights_report report;
  write_file("d.oct", "octet 1\ninput x f32[2,20]\nconst w f32[20,3] = 1\nconst v f32[3,20] = 2\nconst u f32[20,3] = 3\nconst h f16[20] = "
                      "4\nconst k i64[2] = 1,2\n"
                      "a = matmul(x, w)\nb = matmul(a, v)\nc = matmul(b, u)\noutput c\noutput h\noutput k\n");
  check(oct_model_read(ctx, in_folder("d.oct"), NULL, &g));
  add(&bundle, "w", OCT_F16, oct_shape_of(2, 20, 3), 0.5); /* converts */
  add(&bundle, "u", OCT_F32, oct_shape_of(2, 3, 20), 7);   /* wrong shape */
  add(&bundle, "k", OCT_F32, oct_shape_of(1, 2), 7);       /* wrong type */
  add(&bundle, "h", OCT_F32, oct_shape_of(1, 20), 7);
  add(&bundle, "extra.bias", OCT_F32, oct_shape_of(1, 2), 7);
  add(&bundle, "bn.num_batches_tracked", OCT_I64, oct_shape_of(0), 7);
  oct_warnings_clear(ctx);
  check(oct_model_apply_weights(ctx, g, &bundle, &report));
  assert_int_equal(report.matched, 2);
  assert_int_equal(report.misfits, 2);
  assert_int_equal(report.graph_only, 1);
  assert_int_equal(report.checkpoint_only, 1);
  assert_true(warned("u ([20,3] in the graph, [3,20] in the checkpoint)"));
  assert_true(warned("k (i64 in the graph, f32 in the checkpoint)"));
  assert_true(warned("not in the checkpoint, and were left as they are: v"));
  assert_true(warned("no constant of that name in the graph: extra.bias"));
  assert_true(number(g, "w", 1) == 1.5 && number(g, "v", 0) == 2 && number(g, "u", 0) == 3);
  assert_int_equal(oct_graph_find(g, "w")->tensor->dtype, OCT_F32);
  assert_int_equal(oct_graph_find(g, "h")->tensor->dtype, OCT_F16);
  oct_bundle_free(&bundle);
  add(&bundle, "nothing", OCT_F32, oct_shape_of(1, 2), 7);
  assert_int_equal(oct_model_apply_weights(ctx, g, &bundle, NULL), OCTET_DATA);
  oct_bundle_free(&bundle);
  oct_graph_destroy(g);
}

/* ---- what cannot be read or written ---- */

static void names_of_files_that_are_no_models(void **state) {
  (void)state;
  static const struct {
    const char *name, *part;
  } rows[] = {{"m.tflite", "later version"}, {"m.pth", "--weights"}, {"m.txt", "known are .onnx and .oct"}};
  oct_graph *g;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    assert_int_equal(oct_model_read(ctx, rows[i].name, NULL, &g), OCTET_UNSUPPORTED);
    assert_non_null(strstr(ctx->message, rows[i].part));
  }
  check(oct_model_read(ctx, MNIST, NULL, &g));
  assert_int_equal(oct_model_write(ctx, g, in_folder("m.tflite")), OCTET_UNSUPPORTED);
  assert_int_equal(oct_model_write(ctx, g, in_folder("no/such/folder/m.oct")), OCTET_IO);
  oct_graph_destroy(g);
  oct_bundle bundle;
  write_file("w.dat", "no weights");
  assert_int_equal(oct_weights_read(ctx, in_folder("w.dat"), &bundle), OCTET_UNSUPPORTED);
  oct_bundle_free(&bundle);
}

static void an_error_names_the_file_and_the_line(void **state) {
  (void)state;
  oct_graph *g;
  write_file("bad.oct", "octet 1\ninput x f32[2]\ny = rell(x)\n");
  assert_int_equal(oct_model_read(ctx, in_folder("bad.oct"), NULL, &g), OCTET_FORMAT);
  assert_non_null(strstr(ctx->message, "bad.oct: line 3, column 5: unknown operator \"rell\""));
}

static void a_failed_write_leaves_the_old_file(void **state) {
  (void)state;
  oct_graph *g;
  write_file("old.oct", "the old text");
  check(oct_model_read(ctx, MNIST, NULL, &g));
  for (int n = 0; n < 200; n += 7) {
    ctx->allocations_left = n;
    octet_status status = oct_model_write(ctx, g, in_folder("old.oct"));
    ctx->allocations_left = -1;
    if (status == OCTET_OK) break;
    oct_file *file;
    check(oct_file_open(ctx, in_folder("old.oct"), &file));
    assert_int_equal(oct_file_bytes(file).size, 12);
    oct_file_close(file);
  }
  oct_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_the_mnist_network),
      cmocka_unit_test(reads_a_quantized_state_dict),
      cmocka_unit_test(weights_from_npz_and_npy),
      cmocka_unit_test(a_checkpoint_stands_in_for_a_missing_file),
      cmocka_unit_test(what_does_not_match_is_listed),
      cmocka_unit_test(names_of_files_that_are_no_models),
      cmocka_unit_test(an_error_names_the_file_and_the_line),
      cmocka_unit_test(a_failed_write_leaves_the_old_file),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
