/* The verifier: sound graphs pass, and each broken rule is named.
 * SPDX-License-Identifier: MIT */
#include "context_checks.h"

#include <math.h>

#include "ir/text.h"
#include "ir/verify.h"

static const char *const text = "octet 1\ninput x f32[1,2,4,4]\nconst w f32[3,2,1,1] = 0.5\nconst b f32[3] = 1,2,3\nc = conv(x, w, b) "
                                "strides=2,2\nquant c u8 scale=0.5\n"
                                "r = relu(c)\ns = relu(r)\noutput s\n";

static oct_graph *sound(void) {
  oct_graph *graph;
  assert_int_equal(oct_text_parse(ctx, text, strlen(text), NULL, NULL, &graph), OCTET_OK);
  assert_int_equal(oct_graph_verify(ctx, graph), OCTET_OK);
  return graph;
}

static void broken(oct_graph *graph, octet_status status, const char *part) {
  octet_status got = oct_graph_verify(ctx, graph);
  if (got != status || !strstr(ctx->message, part)) print_error("status %d: %s\n", got, ctx->message);
  assert_int_equal(got, status);
  assert_non_null(strstr(ctx->message, part));
  oct_graph_destroy(graph);
}

static void a_constant_without_tensor(void **state) {
  (void)state;
  oct_graph *g = sound();
  oct_value *b = oct_graph_find(g, "b");
  oct_tensor_release(b->tensor);
  b->tensor = NULL;
  broken(g, OCTET_GRAPH, "value \"b\": a constant without tensor");
}

static void a_tensor_that_does_not_fit(void **state) {
  (void)state;
  oct_graph *g = sound();
  oct_graph_find(g, "b")->shape.dim[0] = 2;
  broken(g, OCTET_GRAPH, "value \"b\": the tensor is [3], the value [2]");
  g = sound();
  oct_graph_find(g, "b")->dtype = OCT_F16;
  broken(g, OCTET_GRAPH, "value \"b\": the tensor is f32, the value f16");
}

static void quantization_that_does_not_fit(void **state) {
  (void)state;
  oct_graph *g = sound();
  oct_graph_find(g, "c")->quant->axis = 4;
  broken(g, OCTET_GRAPH, "quantization axis 4");
  g = sound();
  oct_graph_find(g, "c")->quant->axis = 1;
  broken(g, OCTET_GRAPH, "1 scales where 3 are needed");
  g = sound();
  oct_graph_find(g, "c")->quant->scale[0] = NAN;
  broken(g, OCTET_GRAPH, "finite and above 0");
  g = sound();
  oct_graph_find(g, "c")->quant->zero_point[0] = -1;
  broken(g, OCTET_GRAPH, "zero point -1");
  g = sound();
  oct_graph_find(g, "c")->quant->dtype = OCT_F16;
  broken(g, OCTET_GRAPH, "cannot be quantized to f16");
}

static void wrong_order_and_cycles(void **state) {
  (void)state;
  oct_graph *g = sound();
  oct_node *first = g->nodes[1];
  g->nodes[1] = g->nodes[2];
  g->nodes[2] = first;
  broken(g, OCTET_GRAPH, "node \"s\" uses \"r\" before it is made");
  g = sound();
  g->nodes[1]->inputs[0] = oct_graph_find(g, "s");
  broken(g, OCTET_GRAPH, "node \"r\" uses \"s\" before it is made");
}

static void dangling_values(void **state) {
  (void)state;
  oct_graph *g = sound();
  oct_graph_remove_node(g, g->nodes[1]);
  broken(g, OCTET_GRAPH, "\"s\" uses \"r\", which nothing makes");
  g = sound();
  oct_graph_remove_node(g, g->nodes[2]);
  broken(g, OCTET_GRAPH, "output of the graph");
  g = sound();
  oct_value stray = {.name = "stray", .kind = OCT_CONSTANT, .id = 1};
  g->nodes[1]->inputs[0] = &stray;
  broken(g, OCTET_GRAPH, "not in the graph");
}

static void two_producers(void **state) {
  (void)state;
  oct_graph *g = sound();
  g->nodes[2]->outputs[0] = g->nodes[1]->outputs[0];
  broken(g, OCTET_GRAPH, "made by two nodes");
}

static void names_that_are_not_unique(void **state) {
  (void)state;
  oct_graph *g = sound();
  oct_graph_find(g, "s")->name = g->nodes[1]->outputs[0]->name;
  broken(g, OCTET_GRAPH, "not unique");
}

static void inputs_that_are_not_listed(void **state) {
  (void)state;
  oct_graph *g = sound();
  g->n_inputs = 0;
  broken(g, OCTET_GRAPH, "not listed");
  g = sound();
  g->inputs[0] = oct_graph_find(g, "b");
  broken(g, OCTET_GRAPH, "not of kind input");
}

static void attributes_that_break_the_rules(void **state) {
  (void)state;
  oct_graph *g = sound();
  assert_int_equal(oct_node_set_int(ctx, g, g->nodes[0], "colour", 3), OCTET_OK);
  broken(g, OCTET_GRAPH, "conv has no attribute \"colour\"");
  g = sound();
  assert_int_equal(oct_node_set_int(ctx, g, g->nodes[0], "strides", 3), OCTET_OK);
  broken(g, OCTET_GRAPH, "\"strides\" must be integers, not an integer");
  g = sound();
  assert_int_equal(oct_node_set_int(ctx, g, g->nodes[0], "group", 0), OCTET_OK);
  broken(g, OCTET_GRAPH, "\"group\" is 0");
}

static void arity(void **state) {
  (void)state;
  oct_graph *g = sound();
  g->nodes[0]->n_inputs = 1;
  broken(g, OCTET_GRAPH, "1 inputs; it takes 2 to 3");
  g = sound();
  g->nodes[0]->inputs[1] = NULL;
  broken(g, OCTET_GRAPH, "input 1 is absent");
}

static void shapes_that_contradict_inference(void **state) {
  (void)state;
  oct_graph *g = sound();
  oct_graph_find(g, "c")->shape.dim[2] = 7;
  broken(g, OCTET_SHAPE, "recorded as f32 [1,3,7,2] but inferred as f32 [1,3,2,2]");
  g = sound();
  oct_graph_find(g, "r")->dtype = OCT_I64;
  broken(g, OCTET_SHAPE, "recorded as i64");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_constant_without_tensor),
      cmocka_unit_test(a_tensor_that_does_not_fit),
      cmocka_unit_test(quantization_that_does_not_fit),
      cmocka_unit_test(wrong_order_and_cycles),
      cmocka_unit_test(dangling_values),
      cmocka_unit_test(two_producers),
      cmocka_unit_test(names_that_are_not_unique),
      cmocka_unit_test(inputs_that_are_not_listed),
      cmocka_unit_test(attributes_that_break_the_rules),
      cmocka_unit_test(arity),
      cmocka_unit_test(shapes_that_contradict_inference),
  };
  return cmocka_run_group_tests(tests, context_create, context_destroy);
}
