/* ONNX files that are malformed, hostile or beyond what Octet has: each is refused with a message that names the place, in bounded time and
 * memory, without a crash.
 * SPDX-License-Identifier: MIT */
#include "context_checks.h"

#include <dirent.h>
#include <sys/resource.h>

#include "formats/onnx.h"
#include "onnx_builder.h"

enum { FLOAT = 1, INT64 = 7, STRING = 8, INT4 = 22 };

static octet_status read_bytes(const uint8_t *data, size_t size) {
  oct_graph *graph;
  octet_status status = oct_onnx_read_bytes(ctx, (oct_bytes){data, size}, NULL, NULL, &graph);
  oct_graph_destroy(graph);
  return status;
}

/* The graph is refused with this status and a message that contains each of the texts (NULL-ended). */
static void refused(pb graph, int opset, octet_status status, const char *const *texts) {
  pb model = pb_model(graph, opset, 8);
  octet_status got = read_bytes(model.data, model.size);
  free(model.data);
  if (got != status) fail_msg("status %d instead of %d: %s", got, status, ctx->message);
  for (; *texts; texts++)
    if (!strstr(ctx->message, *texts)) fail_msg("\"%s\" is not in: %s", *texts, ctx->message);
}
#define REFUSED(graph, opset, status, ...) refused(graph, opset, status, (const char *const[]){__VA_ARGS__, NULL})

static pb x_and_y(void) {
  pb g = {0};
  pb_message(&g, 11, pb_value_info("x", FLOAT, "4"));
  pb_message(&g, 12, pb_value_info("y", FLOAT, "4"));
  return g;
}

static void add_node(pb *g, const char *op, const char *inputs, const char *outputs, const char *name) {
  pb_message(g, 1, pb_node(op, inputs, outputs, name));
}

static void test_invalid_graphs(void **state) {
  (void)state;
  pb g = x_and_y();
  add_node(&g, "Add", "x,c", "a", "first");
  add_node(&g, "Relu", "a", "c", "second");
  add_node(&g, "Relu", "c", "y", "third");
  REFUSED(g, 13, OCTET_GRAPH, "cycle", "\"first\"", "\"second\"");
  g = x_and_y();
  add_node(&g, "Relu", "y", "y", "self");
  REFUSED(g, 13, OCTET_GRAPH, "cycle", "\"self\"");
  g = x_and_y();
  add_node(&g, "Relu", "gone", "y", "n");
  REFUSED(g, 13, OCTET_GRAPH, "\"n\"", "\"gone\"", "nothing defines");
  g = x_and_y();
  add_node(&g, "Relu", "x", "a", NULL);
  REFUSED(g, 13, OCTET_GRAPH, "\"y\"", "nothing defines");
  g = x_and_y();
  add_node(&g, "Relu", "x", "y", NULL);
  add_node(&g, "Neg", "x", "y", NULL);
  REFUSED(g, 13, OCTET_GRAPH, "\"y\"", "twice");
  g = x_and_y();
  add_node(&g, "Relu", "y", "x", NULL);
  REFUSED(g, 13, OCTET_GRAPH, "\"x\"", "twice");
  g = x_and_y();
  pb_message(&g, 11, pb_value_info("x", FLOAT, "4"));
  REFUSED(g, 13, OCTET_GRAPH, "\"x\"", "two graph inputs");
  g = x_and_y();
  for (int i = 0; i < 2; i++) pb_message(&g, 5, pb_tensor("w", FLOAT, NULL, 0, "\0\0\0\0", 4));
  REFUSED(g, 13, OCTET_GRAPH, "\"w\"", "two initializers");
  g = x_and_y();
  add_node(&g, "Relu", "x,x", "y", "n");
  REFUSED(g, 13, OCTET_GRAPH, "\"n\"", "2 inputs");
  g = x_and_y();
  add_node(&g, "Cast", "x", "y", "n"); /* attribute `to` is required */
  pb model = pb_model(g, 13, 8);
  assert_int_not_equal(read_bytes(model.data, model.size), OCTET_OK);
  free(model.data);
  assert_non_null(strstr(ctx->message, "\"to\""));
}

static void test_attributes(void **state) {
  (void)state;
  pb g = x_and_y(), node = pb_node("LeakyRelu", "x", "y", "n");
  pb_attribute_int(&node, "alpha", 1);
  pb_message(&g, 1, node);
  REFUSED(g, 13, OCTET_GRAPH, "\"n\"", "\"alpha\"", "float");
  g = x_and_y(), node = pb_node("Relu", "x", "y", "n");
  pb_attribute_int(&node, "surprise", 1);
  pb_message(&g, 1, node);
  REFUSED(g, 13, OCTET_UNSUPPORTED, "\"n\"", "\"surprise\"");
  pb attribute = {0};
  g = x_and_y(), node = pb_node("Relu", "x", "y", "n");
  pb_int(&attribute, 3, 1);
  pb_message(&node, 5, attribute);
  pb_message(&g, 1, node);
  REFUSED(g, 13, OCTET_FORMAT, "\"n\"", "no name");
}

static void test_unknown_operators(void **state) {
  (void)state;
  pb g = x_and_y();
  add_node(&g, "Foo", "x", "a", "f1");
  add_node(&g, "Foo", "a", "b", "f2");
  add_node(&g, "Loop", "b", "c", "l");
  pb node = pb_node("Bar", "c", "y", "b1");
  pb_text(&node, 7, "com.example");
  pb_message(&g, 1, node);
  REFUSED(g, 13, OCTET_UNSUPPORTED, "4 nodes", "Foo (2, first at \"f1\")", "Loop (1", "com.example.Bar (1", "sub-graphs");
}

static void test_unsupported_forms(void **state) {
  (void)state;
  pb g = x_and_y();
  add_node(&g, "Relu", "x", "y", NULL);
  REFUSED(g, 6, OCTET_UNSUPPORTED, "operator set 6", "7 to 28");
  g = x_and_y();
  add_node(&g, "Relu", "x", "y", NULL);
  REFUSED(g, 29, OCTET_UNSUPPORTED, "operator set 29");
  g = x_and_y();
  pb_message(&g, 11, pb_value_info("s", STRING, "1"));
  add_node(&g, "Relu", "x", "y", NULL);
  REFUSED(g, 13, OCTET_UNSUPPORTED, "\"s\"", "STRING");
  g = x_and_y();
  add_node(&g, "Add", "x,w", "y", NULL);
  const int64_t four[] = {4};
  pb_message(&g, 5, pb_tensor("w", INT4, four, 1, "\0\0", 2));
  REFUSED(g, 21, OCTET_UNSUPPORTED, "\"w\"", "INT4");
  pb sequence = {0}, type = {0};
  pb_text(&sequence, 1, "q");
  pb_message(&type, 4, (pb){0});
  pb_message(&sequence, 2, type);
  g = x_and_y();
  pb_message(&g, 11, sequence);
  add_node(&g, "Relu", "x", "y", NULL);
  REFUSED(g, 13, OCTET_UNSUPPORTED, "\"q\"", "sequence");
}

static void test_bad_tensors(void **state) {
  (void)state;
  const int64_t huge[] = {1 << 30, 1 << 30, 1 << 30}, big[] = {1000000000}, negative[] = {-4}, many[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  const struct {
    const int64_t *dims;
    int rank;
    octet_status status;
  } rows[] = {{huge, 3, OCTET_FORMAT}, {big, 1, OCTET_FORMAT}, {negative, 1, OCTET_FORMAT}, {many, 9, OCTET_UNSUPPORTED}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    for (int typed = 0; typed < 2; typed++) {
      pb t = {0}, g = x_and_y();
      for (int d = 0; d < rows[i].rank; d++) pb_int(&t, 1, rows[i].dims[d]);
      pb_int(&t, 2, FLOAT);
      pb_text(&t, 8, "w");
      if (typed) pb_float(&t, 4, 1);
      else pb_bytes(&t, 9, "\0\0\0\0", 4);
      pb_message(&g, 5, t);
      add_node(&g, "Add", "x,w", "y", NULL);
      REFUSED(g, 13, rows[i].status, "\"w\"");
    }
}

/* ---- Floods: memory and time stay small ---- */

static long peak_kib(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

/* `count` copies of an empty field with this number inside the graph, a node, an attribute, a tensor or the model. */
static pb flood(const char *where, unsigned number, size_t count) {
  pb many = {0}, g = x_and_y(), node = pb_node("Relu", "x", "y", "n");
  for (size_t i = 0; i < count; i++) pb_bytes(&many, number, NULL, 0);
  if (strcmp(where, "graph") == 0) pb_raw(&g, many.data, many.size);
  if (strcmp(where, "node") == 0) pb_raw(&node, many.data, many.size);
  if (strcmp(where, "attribute") == 0) {
    pb a = {0};
    pb_text(&a, 1, "a");
    pb_raw(&a, many.data, many.size);
    pb_message(&node, 5, a);
  }
  if (strcmp(where, "tensor") == 0) {
    pb_text(&many, 8, "w");
    pb_bytes(&g, 5, many.data, many.size);
    pb_message(&g, 1, pb_node("Add", "x,w", "z", NULL));
  }
  pb_message(&g, 1, node);
  pb model = pb_model(g, 13, 8);
  if (strcmp(where, "model") == 0) pb_raw(&model, many.data, many.size);
  free(many.data);
  return model;
}

static void test_floods(void **state) {
  (void)state;
  static const struct {
    const char *where;
    unsigned first, last;
  } rows[] = {{"graph", 1, 16}, {"node", 1, 10}, {"attribute", 1, 23}, {"tensor", 1, 16}, {"model", 2, 26}};
  const size_t count = 1000000;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    for (unsigned number = rows[i].first; number <= rows[i].last; number++) {
      pb model = flood(rows[i].where, number, count);
      long before = peak_kib();
      read_bytes(model.data, model.size);
      long grown = peak_kib() - before;
      free(model.data);
      if (!getenv("OCTET_SANITIZED") && grown > 16 * 2 * (long)count / 1024)
        fail_msg("%s field %u: %ld KiB for %zu KiB", rows[i].where, number, grown, model.size / 1024);
    }
}

/* Sub-graphs in sub-graphs, and deep groups of unknown fields. */
static void test_deep_nesting(void **state) {
  (void)state;
  pb inner = {0};
  for (int depth = 0; depth < 300; depth++) {
    pb attribute = {0}, node = pb_node("If", "x", "y", NULL), graph = {0};
    pb_text(&attribute, 1, "then_branch");
    pb_message(&attribute, 6, inner);
    pb_message(&node, 5, attribute);
    pb_message(&graph, 1, node);
    inner = graph;
  }
  pb g = x_and_y(), attribute = {0}, node = pb_node("Relu", "x", "y", "n");
  pb_text(&attribute, 1, "body");
  pb_message(&attribute, 6, inner);
  pb_message(&node, 5, attribute);
  pb_message(&g, 1, node);
  REFUSED(g, 13, OCTET_UNSUPPORTED, "\"n\"", "\"body\"", "sub-graph");
  pb groups = {0};
  for (int i = 0; i < 100000; i++) pb_varint(&groups, 99 << 3 | 3);
  assert_int_equal(read_bytes(groups.data, groups.size), OCTET_FORMAT);
  free(groups.data);
}

/* f0 calls f1 twice, f1 calls f2 twice, ...: would expand to 2^40 nodes; and a function that calls itself. */
static void test_functions_that_explode(void **state) {
  (void)state;
  for (int depth = 1; depth <= 40; depth += 13) {
    pb g = x_and_y(), top = pb_node("f0", "x", "y", "top");
    pb_text(&top, 7, "d");
    pb_message(&g, 1, top);
    pb model = pb_model(g, 13, 8);
    for (int i = 0; i < depth; i++) {
      pb f = {0};
      char name[16], next[16];
      snprintf(name, sizeof name, "f%d", i);
      snprintf(next, sizeof next, "f%d", depth == 1 ? 0 : i + 1);
      pb_text(&f, 1, name);
      pb_text(&f, 4, "a");
      pb_text(&f, 5, "c");
      pb_text(&f, 10, "d");
      for (int k = 0; k < 2; k++) {
        pb call = pb_node(i + 1 < depth || depth == 1 ? next : "Relu", k ? "b" : "a", k ? "c" : "b", NULL);
        if (i + 1 < depth || depth == 1) pb_text(&call, 7, "d");
        pb_message(&f, 7, call);
      }
      pb_message(&model, 25, f);
    }
    octet_status status = read_bytes(model.data, model.size);
    free(model.data);
    if (depth == 14) assert_int_equal(status, OCTET_OK); /* 2^14 nodes */
    else assert_int_equal(status, OCTET_UNSUPPORTED);
  }
}

/* ---- Every byte ---- */

static uint8_t *load(const char *path, size_t *size) {
  FILE *f = fopen(path, "rb");
  uint8_t *data = malloc(1 << 20);
  if (!f || !data) exit(1);
  *size = fread(data, 1, 1 << 20, f);
  fclose(f);
  return data;
}

/* All seeds of the fuzz target: cut at every byte, every bit flipped. The input lies in memory of its exact size. */
static void test_every_byte(void **state) {
  (void)state;
  const char *folder = OCTET_SOURCE_DIR "/fuzz/corpus/onnx";
  struct dirent **entries;
  int n = scandir(folder, &entries, NULL, alphasort), read = 0;
  assert_true(n > 2);
  for (int i = 0; i < n; i++) {
    char path[1024];
    size_t size;
    snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
    bool model = strstr(entries[i]->d_name, ".onnx") != NULL;
    free(entries[i]);
    if (!model) continue;
    uint8_t *data = load(path, &size);
    size_t stride = size > 1000 ? 37 : 1;
    for (size_t cut = 0; cut < size; cut += stride) {
      uint8_t *part = malloc(cut ? cut : 1);
      assert_non_null(part);
      memcpy(part, data, cut);
      read += read_bytes(part, cut) == OCTET_OK;
      free(part);
    }
    for (size_t bit = 0; bit < size * 8; bit += stride) {
      data[bit / 8] ^= (uint8_t)(1 << bit % 8);
      read += read_bytes(data, size) == OCTET_OK;
      data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    free(data);
  }
  free(entries);
  print_message("%d damaged files could still be read\n", read);
}

/* Every allocation fails once; nothing leaks (seen by the sanitizer) and the status says why. */
static void test_out_of_memory(void **state) {
  (void)state;
  const char *names[] = {"conv", "qdq", "function", "gemm_ir3", "typed_fields"};
  for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
    char path[512];
    size_t size;
    snprintf(path, sizeof path, "%s/fuzz/corpus/onnx/%s.onnx", OCTET_SOURCE_DIR, names[k]);
    uint8_t *data = load(path, &size);
    bool done = false;
    for (int64_t n = 0; !done; n++) {
      ctx->allocations_left = n;
      octet_status status = read_bytes(data, size);
      done = status == OCTET_OK;
      if (!done) assert_int_equal(status, OCTET_OUT_OF_MEMORY);
      assert_true(n < 10000);
    }
    ctx->allocations_left = -1;
    free(data);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_floods, context_create, context_destroy), /* first: it looks at the peak of memory */
      cmocka_unit_test_setup_teardown(test_invalid_graphs, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_attributes, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_unknown_operators, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_unsupported_forms, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_bad_tensors, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_deep_nesting, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_functions_that_explode, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_every_byte, context_create, context_destroy),
      cmocka_unit_test_setup_teardown(test_out_of_memory, context_create, context_destroy),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
