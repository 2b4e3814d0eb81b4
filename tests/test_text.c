/* The text form: parsing, printing, both together, and messages for what is wrong.
 * SPDX-License-Identifier: MIT */
#include "context_checks.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ir/text.h"

/* ---- helpers ---- */

static void add_counting(oct_bundle *bundle, const char *name, oct_shape shape) {
  oct_tensor *tensor;
  assert_int_equal(oct_tensor_create(ctx, OCT_F32, &shape, &tensor), OCTET_OK);
  for (int64_t i = 0; i < oct_shape_count(&shape); i++) ((float *)tensor->data)[i] = (float)i;
  assert_int_equal(oct_bundle_add(ctx, bundle, name, tensor, NULL), OCTET_OK);
}

/* The weights file of every text here: a few counting arrays. */
static octet_status load_counting(octet_context *c, void *user, const char *file, oct_bundle *out) {
  (void)c, (void)user, (void)file;
  add_counting(out, "first.weight", oct_shape_of(4, 2, 1, 3, 3));
  add_counting(out, "last.weight", oct_shape_of(2, 3, 32));
  add_counting(out, "scales", oct_shape_of(1, 2));
  return OCTET_OK;
}

/* The weights file is what was printed. */
static octet_status load_printed(octet_context *c, void *user, const char *file, oct_bundle *out) {
  (void)file;
  const oct_bundle *from = user;
  for (size_t i = 0; i < from->count; i++)
    if (oct_bundle_add(c, out, from->items[i].name, oct_tensor_retain(from->items[i].tensor), NULL) != OCTET_OK) return OCTET_OUT_OF_MEMORY;
  return OCTET_OK;
}

static oct_graph *parse(const char *text) {
  oct_graph *graph;
  octet_status status = oct_text_parse(ctx, text, strlen(text), load_counting, NULL, &graph);
  if (status != OCTET_OK) print_error("%s\n", ctx->message);
  assert_int_equal(status, OCTET_OK);
  return graph;
}

static char *print(const oct_graph *graph, oct_bundle *arrays) {
  oct_strbuf out = oct_strbuf_make(ctx);
  char *text;
  *arrays = (oct_bundle){0};
  octet_status status = oct_text_print(ctx, graph, "arrays.npz", &out, arrays);
  if (status != OCTET_OK) print_error("%s\n", ctx->message);
  assert_int_equal(status, OCTET_OK);
  assert_int_equal(oct_strbuf_take(&out, &text), OCTET_OK);
  return text;
}

static void assert_same_value(const oct_value *a, const oct_value *b) {
  assert_string_equal(a->name, b->name);
  assert_int_equal(a->kind, b->kind);
  assert_int_equal(a->dtype, b->dtype);
  assert_int_equal(a->has_shape, b->has_shape);
  if (a->has_shape) assert_true(oct_shape_equal(&a->shape, &b->shape));
  assert_true(oct_quant_equal(a->quant, b->quant));
  assert_int_equal(a->observed_only, b->observed_only);
  assert_int_equal(a->tensor != NULL, b->tensor != NULL);
  if (!a->tensor) return;
  assert_int_equal(a->tensor->dtype, b->tensor->dtype);
  assert_true(oct_shape_equal(&a->tensor->shape, &b->tensor->shape));
  assert_memory_equal(a->tensor->data, b->tensor->data, a->tensor->bytes);
}

/* Prints, parses what was printed, compares every value, and prints again: the second text equals the first. */
static void assert_round_trip(const oct_graph *graph) {
  oct_bundle arrays, again;
  char *text = print(graph, &arrays);
  oct_graph *back;
  octet_status status = oct_text_parse(ctx, text, strlen(text), load_printed, &arrays, &back);
  if (status != OCTET_OK) print_error("%s\n%s\n", ctx->message, text);
  assert_int_equal(status, OCTET_OK);
  for (size_t i = 0; i < graph->n_values; i++) {
    const oct_value *v = graph->values[i], *w = oct_graph_find(back, v->name);
    if (v->kind == OCT_INTERMEDIATE && !v->producer) continue;
    assert_non_null(w);
    assert_same_value(v, w);
  }
  assert_int_equal(graph->n_nodes, back->n_nodes);
  for (size_t i = 0; i < graph->n_nodes; i++) {
    assert_string_equal(graph->nodes[i]->name, back->nodes[i]->name);
    assert_int_equal(graph->nodes[i]->n_inputs, back->nodes[i]->n_inputs);
    assert_int_equal(graph->nodes[i]->n_attributes, back->nodes[i]->n_attributes);
  }
  char *second = print(back, &again);
  assert_string_equal(text, second);
  oct_free(text);
  oct_free(second);
  oct_bundle_free(&arrays);
  oct_bundle_free(&again);
  oct_graph_destroy(back);
}

static void assert_fails(const char *text, octet_status status, const char *part) {
  oct_graph *graph;
  octet_status got = oct_text_parse(ctx, text, strlen(text), load_counting, NULL, &graph);
  if (got != status || !strstr(ctx->message, part)) print_error("status %d, message: %s\n", got, ctx->message);
  assert_int_equal(got, status);
  assert_null(graph);
  assert_non_null(strstr(ctx->message, part));
}

/* ---- parsing ---- */

static void parses_values(void **state) {
  (void)state;
  oct_graph *g = parse("octet 1\ngraph small\nmetadata preprocess \"scale=1/255\"\nweights \"w.npz\"\n"
                       "input image f32[N,1,8,8] # a comment\nconst b f32[2] = 0.5, -1\n\n"
                       "c = conv(image, first.weight, b) kernel_shape=3,3 strides=2,2 pads=1,1,\n  1,1 as node.one\n"
                       "r = relu(c)\nquant r i8 scale=0.25 zero_point=-128\noutput r\n");
  assert_string_equal(g->name, "small");
  assert_string_equal(oct_graph_metadata(g, "preprocess"), "scale=1/255");
  const oct_value *image = oct_graph_find(g, "image"), *c = oct_graph_find(g, "c"), *r = oct_graph_find(g, "r");
  assert_int_equal(image->kind, OCT_INPUT);
  assert_int_equal(image->shape.dim[0], OCT_DIM_UNKNOWN);
  assert_string_equal(image->dim_names[0], "N");
  assert_int_equal(oct_graph_find(g, "first.weight")->kind, OCT_CONSTANT);
  assert_true(((float *)oct_graph_find(g, "b")->tensor->data)[1] == -1.0f);
  assert_string_equal(c->producer->name, "node.one");
  assert_int_equal(c->shape.dim[1], 2); /* (8 + 2 - 3) / 2 + 1 = 4 */
  assert_int_equal(c->shape.dim[2], 4);
  assert_int_equal(c->shape.dim[3], 4);
  assert_int_equal(r->quant->dtype, OCT_I8);
  assert_int_equal(r->quant->axis, -1);
  assert_true(r->quant->scale[0] == 0.25f && r->quant->zero_point[0] == -128);
  assert_int_equal(g->n_outputs, 1);
  assert_ptr_equal(g->outputs[0], r);
  oct_graph_destroy(g);
}

static void words_are_names_too(void **state) {
  (void)state;
  oct_graph *g =
      parse("octet 1\ninput input f32[2]\noutput = relu(input)\n\"_\" = relu(output)\ninf = relu(\"_\")\noutput output\noutput inf\n");
  assert_int_equal(g->n_nodes, 3);
  assert_string_equal(g->outputs[0]->name, "output");
  assert_non_null(oct_graph_find(g, "_"));
  assert_round_trip(g);
  oct_graph_destroy(g);
}

static void numbers_of_every_type(void **state) {
  (void)state;
  oct_graph *g =
      parse("octet 1\n"
            "const a f32[4] = 0.1, inf, -inf, 1e-45\nconst b f64[2] = 0.1, 1e300\nconst c f16[2] = 65504, 6e-8\n"
            "const d bf16[1] = 3.140625\nconst e i8[2] = -128, 127\nconst f u8[1] = 255\nconst g u64[1] = 18446744073709551615\n"
            "const h i64[2] = -9223372036854775808, 9223372036854775807\nconst i bool[2] = true, 0\nconst j f32[] = nan\n"
            "const k f32[0] =\nconst l i32[2,3] = 7\nconst m u16[1] = 65535\nconst n u32[1] = 4294967295\nconst o i16[1] = -32768\n"
            "output a\noutput b\noutput c\noutput d\noutput e\noutput f\noutput g\noutput h\noutput i\noutput j\noutput k\noutput l\n"
            "output m\noutput n\noutput o\n");
  const float *a = oct_graph_find(g, "a")->tensor->data;
  assert_true(a[0] == 0.1f && a[1] == INFINITY && a[2] == -INFINITY && a[3] == 0x1p-149f);
  assert_true(((double *)oct_graph_find(g, "b")->tensor->data)[1] == 1e300);
  assert_int_equal(((uint16_t *)oct_graph_find(g, "c")->tensor->data)[0], 0x7bff); /* largest half */
  assert_int_equal(((uint16_t *)oct_graph_find(g, "c")->tensor->data)[1], 1);      /* smallest */
  assert_true(((uint64_t *)oct_graph_find(g, "g")->tensor->data)[0] == UINT64_MAX);
  assert_true(((int64_t *)oct_graph_find(g, "h")->tensor->data)[0] == INT64_MIN);
  assert_true(isnan(((float *)oct_graph_find(g, "j")->tensor->data)[0]));
  assert_int_equal(oct_graph_find(g, "k")->tensor->bytes, 0);
  assert_int_equal(((int32_t *)oct_graph_find(g, "l")->tensor->data)[5], 7);
  assert_round_trip(g);
  oct_graph_destroy(g);
}

static void every_float_reads_back(void **state) {
  (void)state;
  oct_graph *g = parse("octet 1\nconst a f32[16] = 0\noutput a\n");
  uint32_t seed = 12345, *bits = oct_graph_find(g, "a")->tensor->data;
  for (int round = 0; round < 100; round++) {
    for (int i = 0; i < 16; i++) {
      do seed = seed * 1664525u + 1013904223u, bits[i] = seed ^ seed >> 13;
      while ((bits[i] & 0x7f800000u) == 0x7f800000u);
    }
    assert_round_trip(g);
  }
  oct_graph_destroy(g);
}

/* ---- printing ---- */

static void round_trips(void **state) {
  (void)state;
  static const char *const texts[] = {
      "octet 1\ninput x f32[N,1,8,8]\nweights w\nc = conv(x, first.weight) kernel_shape=3,3\nquant c u8 scale=1e-3 zero_point=7\nobserved "
      "c\noutput c f32[N,2,?,?]\n",
      "octet 1\ngraph \"with \\\"quotes\\\" \\x01\"\nmetadata \"a key\" \"two\\nlines\"\ninput \"7\" f32[?,\"batch size\"]\n\"a/b c\" = "
      "relu(\"7\") as \"/node 1\"\noutput \"a/b c\"\n",
      "octet 1\ninput x f32\ny = relu(x)\ntype y f32[?,3]\noutput y\n",
      "octet 1\ninput x f32[2,2]\nvariable s f32[2,2] = 1,2,3,4\nvariable t f32[2,2] = none\ny = add(x, s)\nz = add(y, t)\noutput z\n",
      "octet 1\ninput x f32[4,3]\nweights w\nconst w i8[3,2] = 1,2,3,4,5,6\nquant w i8 axis=1 scale=0.5,0.25\ny = matmul(x, w)\noutput y\n",
      "octet 1\ninput x f32[2]\nconst six f32[] = 6\ny = clip(x, _, six)\nz = clip(y, -, six)\noutput z\n",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    oct_graph *g = parse(texts[i]);
    assert_round_trip(g);
    oct_graph_destroy(g);
  }
}

static void long_lists_go_to_the_arrays(void **state) {
  (void)state;
  oct_graph *g = parse("octet 1\ninput x f32[2,17]\nconst w f32[17] = 3\nconst q i8[17,1] = 5\nquant q i8 axis=0 scale=0.5 zero_point=1\n"
                       "const s i8[16] = 1\nquant s i8 scale=0.5\nconst \"q:scale\" f32[] = 1\na = add(x, w)\nm = matmul(a, q)\no = add(m, "
                       "\"q:scale\")\noutput o\noutput s\n");
  oct_graph_find(g, "q")->quant->zero_point[3] = -1;
  oct_bundle arrays;
  char *text = print(g, &arrays);
  assert_null(strstr(text, "const w"));
  assert_non_null(strstr(text, "const s i8[16] = 1,1"));
  assert_non_null(strstr(text, "weights \"arrays.npz\""));
  assert_non_null(oct_bundle_find(&arrays, "w"));
  assert_non_null(oct_bundle_find(&arrays, "q:scale_1")); /* q:scale is a value already */
  assert_int_equal(oct_bundle_find(&arrays, "q:zero_point")->tensor->dtype, OCT_I32);
  assert_int_equal(arrays.count, 4);
  oct_free(text);
  oct_bundle_free(&arrays);
  assert_round_trip(g);
  oct_strbuf out = oct_strbuf_make(ctx);
  arrays = (oct_bundle){0};
  assert_int_equal(oct_text_print(ctx, g, NULL, &out, &arrays), OCTET_INVALID_ARGUMENT);
  oct_strbuf_free(&out);
  oct_bundle_free(&arrays);
  oct_graph_destroy(g);
}

static void another_locale_changes_nothing(void **state) {
  (void)state;
  if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8")) {
    print_message("skipped: no locale with a decimal comma is installed\n");
    return;
  }
  oct_graph *g = parse("octet 1\nconst a f32[1] = 0.5\noutput a\n");
  assert_true(((float *)oct_graph_find(g, "a")->tensor->data)[0] == 0.5f);
  assert_round_trip(g);
  setlocale(LC_NUMERIC, "C");
  oct_graph_destroy(g);
}

/* ---- messages ---- */

static void messages_say_where_and_what(void **state) {
  (void)state;
  static const struct {
    const char *text;
    octet_status status;
    const char *part;
  } rows[] = {
      {"", OCTET_FORMAT, "line 1, column 1: expected \"octet 1\""},
      {"octet 2\n", OCTET_FORMAT, "line 1, column 7: version 2"},
      {"octet 1\ninput x f32[1]\ny = rellu(x)\n", OCTET_FORMAT, "line 3, column 5: unknown operator \"rellu\"; did you mean \"relu\""},
      {"octet 1\ninput x f32[1]\ny = foo(x)\nz = bar(y)\nv = foo(z)\n", OCTET_FORMAT,
       "unknown in all: \"foo\" (2 times), \"bar\" (1 time)"},
      {"octet 1\ninput x f32[1,1,4,4]\nweights w\ny = conv(x, first.weight) stride=2,2\n", OCTET_FORMAT,
       "line 4, column 27: conv has no attribute \"stride\"; did you mean \"strides\"?; it knows: auto_pad"},
      {"octet 1\ninput x f32[1]\ny = relu(x) alpha=1\n", OCTET_FORMAT, "relu has no attribute \"alpha\"; it has none"},
      {"octet 1\ninput image f32[1]\ny = relu(imag)\n", OCTET_FORMAT,
       "line 3, column 10: \"imag\" is not defined above; did you mean \"image\"?"},
      {"octet 1\ninput x f32[1]\ninput x f32[1]\n", OCTET_FORMAT, "line 3, column 7: \"x\" is defined twice"},
      {"octet 1\ninput x f32[1]\nx = relu(x)\n", OCTET_FORMAT, "defined twice"},
      {"octet 1\ninput x f32[1]\ny = relu(y)\n", OCTET_FORMAT, "depends on itself"},
      {"octet 1\ninput x f32[1]\ny, y = relu(x)\n", OCTET_FORMAT, "defined twice"},
      {"octet 1\ninput x f33[1]\n", OCTET_FORMAT, "expected a type"},
      {"octet 1\ninput x f32[1,-2]\n", OCTET_FORMAT, "expected a size"},
      {"octet 1\ninput x f32[1,2,3,4,5,6,7,8,9]\n", OCTET_FORMAT, "at most 8 dimensions"},
      {"octet 1\nconst a f32[3] = 1,2\n", OCTET_FORMAT, "2 numbers for f32[3], which holds 3"},
      {"octet 1\nconst a f32[1] = 1,2\n", OCTET_FORMAT, "more numbers"},
      {"octet 1\nconst a u8[1] = 256\n", OCTET_FORMAT, "256 is out of range for u8: 0 to 255"},
      {"octet 1\nconst a i64[1] = 9223372036854775808\n", OCTET_FORMAT, "expected a whole number"},
      {"octet 1\nconst a f32[1] = 1e39\n", OCTET_FORMAT, "expected a number that a float holds"},
      {"octet 1\nconst a f32[1] = 0x10\n", OCTET_FORMAT, "expected a number that a float holds"},
      {"octet 1\nconst a f32[1000000,1000000] = 0\n", OCTET_FORMAT, "belong in the weights file"},
      {"octet 1\nconst a f32[9223372036854775807,3] = 0\n", OCTET_FORMAT, "belong in the weights file"},
      {"octet 1\nweights w\nconst first.weight f32[2,2] \n", OCTET_FORMAT, "is f32[2,1,3,3] in the weights file, not f32[2,2]"},
      {"octet 1\nweights w\nconst a f32[2] = @nope\n", OCTET_FORMAT, "holds no array \"nope\""},
      {"octet 1\nweights w\nweights v\n", OCTET_FORMAT, "second weights"},
      {"octet 1\ninput x f32[1] input y f32[1]\n", OCTET_FORMAT, "expected the end of the line"},
      {"octet 1\nimput x f32[1]\n", OCTET_FORMAT, "did you mean \"input\""},
      {"octet 1\ninput \"x f32[1]\n", OCTET_FORMAT, "not closed"},
      {"octet 1\ninput \"x\\q\" f32[1]\n", OCTET_FORMAT, "unknown escape"},
      {"octet 1\ninput x; f32[1]\n", OCTET_FORMAT, "unexpected character ';'"},
      {"octet 1\ninput \xc3\xa4 f32[1]\n", OCTET_FORMAT, "unexpected byte 0xc3"},
      {"octet 1\nsubgraph x\n", OCTET_FORMAT, "reserved"},
      {"octet 1\ninput x f32[2]\nquant x u8 scale=0\n", OCTET_GRAPH, "line 3, column 9: value \"x\": scale 0"},
      {"octet 1\ninput x f32[2]\nquant x u8 scale=1 zero_point=300\n", OCTET_GRAPH, "zero point 300"},
      {"octet 1\ninput x f32[2]\nquant x u8 scale=1,2\n", OCTET_FORMAT, "need an axis"},
      {"octet 1\ninput x f32[3]\nquant x u8 axis=0 scale=1,2\n", OCTET_FORMAT, "2 scales for axis 0 of \"x\", which is 3 long"},
      {"octet 1\ninput x f32[3]\nquant x f32 scale=1\n", OCTET_GRAPH, "cannot be quantized to f32"},
      {"octet 1\nweights w\ninput x f32[2,2]\nquant first.weight i8 scale=1\n", OCTET_GRAPH, "the tensor is f32"},
      {"octet 1\ninput x f32[2,2]\nconst w f32[3,2] = 0\ny = matmul(x, w)\n", OCTET_SHAPE, "line 4, column 5: node \"y\" (matmul)"},
      {"octet 1\ninput x f32[2]\ny = relu(x, x)\n", OCTET_GRAPH, "2 inputs; it takes 1 to 1"},
      {"octet 1\ninput x f32[1,1,4,4]\nweights w\ny = conv(x, first.weight) strides=0,1\n", OCTET_GRAPH, "\"strides\" is 0; allowed is 1"},
      {"octet 1\ninput x f32[2]\ny = relu(x)\ntype y f32[3]\n", OCTET_FORMAT, "\"y\" has shape [2], not [3]"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) assert_fails(rows[i].text, rows[i].status, rows[i].part);
  oct_graph *graph;
  const char *text = "octet 1\nweights w\n";
  assert_int_equal(oct_text_parse(ctx, text, strlen(text), NULL, NULL, &graph), OCTET_FORMAT);
}

/* Every prefix of a text, and every text with one byte changed, is read or refused, never worse. */
static void damaged_texts(void **state) {
  (void)state;
  const char *text =
      "octet 1\nweights \"w\"\ninput x f32[N,1,8,8]\nquant x u8 scale=0.5\nconst b f32[2] = 1,-2.5e-3\n"
      "c, _ = conv(x, first.weight, b) pads=1,1,1,1 as \"n\\x41\"\nr = relu(c)\nquant r u8 axis=1 scale=[1,2]\noutput r f32[N,2,?,?]\n";
  size_t length = strlen(text);
  for (size_t n = 0; n <= length; n++) {
    oct_graph *graph;
    oct_text_parse(ctx, text, n, load_counting, NULL, &graph);
    oct_graph_destroy(graph);
  }
  char *copy = strdup(text);
  for (size_t n = 0; n < length; n++)
    for (size_t k = 0; k < 12; k++) {
      static const char bytes[12] = {0, '\n', '"', ',', '(', ']', '9', '-', '#', '\\', (char)0xff, '='};
      oct_graph *graph;
      copy[n] = bytes[k];
      oct_text_parse(ctx, copy, length, load_counting, NULL, &graph);
      oct_graph_destroy(graph);
      copy[n] = text[n];
    }
  free(copy);
}

static void failing_allocations(void **state) {
  (void)state;
  const char *text = "octet 1\nweights w\ninput x f32[N,1,8,8]\nconst b f32[2] = 1,2\nc = conv(x, first.weight, b) pads=1,1,1,1\nquant c "
                     "u8 scale=2\noutput c\n";
  octet_status status = OCTET_OUT_OF_MEMORY;
  for (int n = 0; status != OCTET_OK && n < 2000; n++) {
    oct_graph *graph;
    oct_bundle weights = {0}, arrays = {0};
    oct_strbuf out = oct_strbuf_make(ctx);
    add_counting(&weights, "first.weight", oct_shape_of(4, 2, 1, 3, 3));
    ctx->allocations_left = n;
    status = oct_text_parse(ctx, text, strlen(text), load_printed, &weights, &graph);
    if (status == OCTET_OK) status = oct_text_print(ctx, graph, "w", &out, &arrays);
    ctx->allocations_left = -1;
    assert_true(status == OCTET_OK || status == OCTET_OUT_OF_MEMORY);
    oct_graph_destroy(graph);
    oct_strbuf_free(&out);
    oct_bundle_free(&arrays);
    oct_bundle_free(&weights);
  }
  assert_int_equal(status, OCTET_OK);
}

/* ---- files of the project ---- */

static char *read_whole(const char *path) {
  oct_file *file;
  octet_status status = oct_file_open(ctx, path, &file);
  if (status != OCTET_OK) print_error("%s\n", ctx->message);
  assert_int_equal(status, OCTET_OK);
  oct_bytes bytes = oct_file_bytes(file);
  char *text = oct_strndup(ctx, (const char *)bytes.data, bytes.size);
  oct_file_close(file);
  return text;
}

static void the_documented_example(void **state) {
  (void)state;
  char *doc = read_whole(OCTET_SOURCE_DIR "/docs/text-form.md");
  char *start = strstr(doc, "```octet\n"), *end = start ? strstr(start + 9, "```") : NULL;
  assert_non_null(end);
  *end = 0;
  oct_graph *g = parse(start + 9);
  assert_string_equal(g->nodes[3]->name, "last");
  assert_int_equal(g->outputs[0]->shape.dim[1], 3);
  assert_round_trip(g);
  oct_graph_destroy(g);
  oct_free(doc);
}

static octet_status load_mnist_shapes(octet_context *c, void *user, const char *file, oct_bundle *out) {
  (void)c, (void)user;
  assert_string_equal(file, "orig.pth");
  add_counting(out, "conv1.weight", oct_shape_of(4, 8, 1, 3, 3));
  add_counting(out, "conv1.bias", oct_shape_of(1, 8));
  add_counting(out, "conv2.weight", oct_shape_of(4, 16, 8, 2, 2));
  add_counting(out, "conv2.bias", oct_shape_of(1, 16));
  add_counting(out, "conv3.weight", oct_shape_of(4, 32, 16, 2, 2));
  add_counting(out, "conv3.bias", oct_shape_of(1, 32));
  add_counting(out, "fc.weight", oct_shape_of(2, 10, 32));
  add_counting(out, "fc.bias", oct_shape_of(1, 10));
  return OCTET_OK;
}

static void the_mnist_network(void **state) {
  (void)state;
  char *text = read_whole(OCTET_SOURCE_DIR "/examples/mnist/mnist.oct");
  oct_graph *g;
  octet_status status = oct_text_parse(ctx, text, strlen(text), load_mnist_shapes, NULL, &g);
  if (status != OCTET_OK) print_error("%s\n", ctx->message);
  assert_int_equal(status, OCTET_OK);
  /* Sizes as in examples/mnist/README.md. */
  static const struct {
    const char *name;
    int64_t channels, size;
  } rows[] = {{"conv1", 8, 15}, {"pool1", 8, 8}, {"conv2", 16, 11}, {"pool2", 16, 6}, {"conv3", 32, 9}, {"pool3", 32, 5}, {"mean", 32, 1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const oct_value *v = oct_graph_find(g, rows[i].name);
    assert_int_equal(v->shape.dim[1], rows[i].channels);
    assert_int_equal(v->shape.dim[2], rows[i].size);
    assert_int_equal(v->shape.dim[3], rows[i].size);
  }
  assert_int_equal(g->outputs[0]->shape.dim[1], 10);
  assert_round_trip(g);
  oct_graph_destroy(g);
  oct_free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parses_values),
      cmocka_unit_test(words_are_names_too),
      cmocka_unit_test(numbers_of_every_type),
      cmocka_unit_test(every_float_reads_back),
      cmocka_unit_test(round_trips),
      cmocka_unit_test(long_lists_go_to_the_arrays),
      cmocka_unit_test(another_locale_changes_nothing),
      cmocka_unit_test(messages_say_where_and_what),
      cmocka_unit_test(damaged_texts),
      cmocka_unit_test(failing_allocations),
      cmocka_unit_test(the_documented_example),
      cmocka_unit_test(the_mnist_network),
  };
  return cmocka_run_group_tests(tests, context_create, context_destroy);
}
