/* What attention is made of, in sessions against the operators' references: products of two activations with transpositions and factors around them,
 * softmax, layer normalization, gelu.
 * SPDX-License-Identifier: MIT */
#include "exec_checks.h"

typedef struct float_case {
  const char *title, *text;
} float_case;

static const float_case cases[] = {
    {"heads split and joined",
     "input q f32[N,7,3,8]\ninput k f32[N,9,3,8]\ninput v f32[N,9,3,8]\nconst scale f32[] = 2.8284271\n"
     "qt = transpose(q) perm=0,2,1,3\nkt = transpose(k) perm=0,2,3,1\nvt = transpose(v) perm=0,2,1,3\n"
     "s = matmul(qt, kt)\nd = div(s, scale)\np = softmax(d) axis=-1\no = matmul(p, vt)\nj = transpose(o) perm=0,2,1,3\noutput j\n"},
    {"a mask that broadcasts", "input q f32[N,2,5,8]\ninput k f32[N,2,8,70]\ninput m f32[N,1,1,70]\ns = matmul(q, k)\nt = add(s, m)\np = "
                               "softmax(t) axis=-1\noutput p\n"},
    {"attention with a mask, heads joined",
     "input q f32[N,7,3,8]\ninput k f32[N,9,3,8]\ninput v f32[N,9,3,20]\ninput m f32[N,1,1,9]\nconst scale f32[] = 0.35355338\n"
     "qt = transpose(q) perm=0,2,1,3\nkt = transpose(k) perm=0,2,3,1\nvt = transpose(v) perm=0,2,1,3\n"
     "s = matmul(qt, kt)\nd = mul(s, scale)\nt = add(d, m)\np = softmax(t) axis=-1\no = matmul(p, vt)\nj = transpose(o) "
     "perm=0,2,1,3\noutput j\n"},
    {"attention in several blocks of rows, a mask per row",
     "input q f32[N,2,75,6]\ninput k f32[N,2,6,300]\ninput v f32[N,2,300,17]\ninput m f32[75,300]\ninput r f32[N,2,75,17]\n"
     "s = matmul(q, k)\nt = add(m, s)\np = softmax(t) axis=3\no = matmul(p, v)\ny = add(o, r)\nz = relu(y)\noutput z\n"},
    {"attention of one row", "input q f32[N,3,1,8]\ninput k f32[N,3,8,33]\ninput v f32[N,3,33,8]\ninput m f32[1,1,1,33]\n"
                             "s = matmul(q, k)\nt = add(s, m)\np = softmax(t) axis=-1\no = matmul(p, v)\noutput o\n"},
    {"values for all heads", "input q f32[N,3,5,8]\ninput k f32[N,3,8,9]\ninput v f32[9,4]\ns = matmul(q, k)\np = softmax(s) axis=-1\no = "
                             "matmul(p, v)\noutput o\n"},
    {"the scores are an output", "input q f32[N,5,8]\ninput k f32[N,8,9]\ninput v f32[N,9,4]\ns = matmul(q, k)\np = softmax(s) axis=-1\no "
                                 "= matmul(p, v)\noutput o\noutput s\n"},
    {"the weights are an output", "input q f32[N,5,8]\ninput k f32[N,8,9]\ninput v f32[N,9,4]\ns = matmul(q, k)\np = softmax(s) axis=-1\no "
                                  "= matmul(p, v)\noutput o\noutput p\n"},
    {"softmax over another axis",
     "input q f32[N,5,8]\ninput k f32[N,8,9]\ninput v f32[N,9,4]\ns = matmul(q, k)\np = softmax(s) axis=1\no = matmul(p, v)\noutput o\n"},
    {"more matrices of values than of scores",
     "input q f32[1,5,8]\ninput k f32[1,8,9]\ninput v f32[3,9,4]\ns = matmul(q, k)\np = softmax(s) axis=-1\no = matmul(p, v)\noutput o\n"},
    {"what all samples share", "input x f32[N,3,1]\nconst shape i64[3] = 1,3,5\nconst table f32[4,5] = rnd\nconst at i64[1,3] = 2,0,3\n"
                               "e = expand(x, shape)\ng = gather(table, at)\ny = add(e, g)\noutput y\n"},
    {"factor on the left, residual, clamp", "input a f32[N,4,6]\ninput b f32[N,6,5]\ninput r f32[N,4,5]\nconst half f32[] = 0.5\n"
                                            "m = matmul(a, b)\ns = mul(half, m)\nt = add(s, r)\ny = relu(t)\noutput y\n"},
    {"division of a constant is no factor", "input a f32[N,4,6]\ninput b f32[N,6,5]\nconst one f32[] = 1\nconst far f32[] = 40\n"
                                            "m = matmul(a, b)\nf = add(m, far)\nd = div(one, f)\noutput d\n"},
    {"a factor per column is none",
     "input a f32[N,4,6]\ninput b f32[N,6,5]\nconst c f32[5] = rnd\nm = matmul(a, b)\ny = mul(m, c)\noutput y\n"},
    {"the last dim moves", "input a f32[N,6,4]\ninput b f32[N,5,6]\nat = transpose(a) perm=0,2,1\nbt = transpose(b) perm=0,2,1\n"
                           "m = matmul(at, bt)\ny = transpose(m) perm=0,2,1\noutput y\n"},
    {"transpositions read by others too",
     "input a f32[N,3,4,6]\ninput b f32[N,3,5,6]\nat = transpose(a) perm=0,2,1,3\nbt = transpose(b) perm=0,1,3,2\n"
     "bu = transpose(bt) perm=0,2,1,3\nm = matmul(a, bt)\ny = add(at, at)\noutput m\noutput y\noutput bu\n"},
    {"the product is an output before it is turned",
     "input a f32[N,3,4,6]\ninput b f32[N,3,6,5]\nm = matmul(a, b)\ny = transpose(m) perm=0,2,1,3\noutput m\noutput y\n"},
    {"one matrix for all",
     "input a f32[N,3,4,6]\ninput b f32[6,5]\nbt = transpose(b) perm=0,1\nm = matmul(a, bt)\ny = transpose(m) perm=1,2,0,3\noutput y\n"},
    {"batch dims of both", "input a f32[N,1,4,6]\ninput b f32[3,6,17]\nm = matmul(a, b)\noutput m\n"},
    {"both factors are one value", "input a f32[N,5,5]\nt = transpose(a) perm=0,2,1\nm = matmul(t, t)\noutput m\n"},
    {"a block of a transformer", "input x f32[N,6,16]\nconst wq f32[16,16] = rnd\nconst wk f32[16,16] = rnd\nconst wv f32[16,16] = "
                                 "rnd\nconst bq f32[16] = rnd\nconst g f32[16] = rnd\n"
                                 "const b f32[16] = rnd\nconst w1 f32[16,40] = rnd\nconst b1 f32[40] = rnd\nconst w2 f32[40,16] = "
                                 "rnd\nconst heads i64[4] = 0,0,2,8\nconst joined i64[3] = 0,0,16\n"
                                 "q0 = matmul(x, wq)\nq1 = add(bq, q0)\nk0 = matmul(x, wk)\nv0 = matmul(x, wv)\nq2 = reshape(q1, "
                                 "heads)\nk2 = reshape(k0, heads)\nv2 = reshape(v0, heads)\n"
                                 "q = transpose(q2) perm=0,2,1,3\nk = transpose(k2) perm=0,2,3,1\nv = transpose(v2) perm=0,2,1,3\ns = "
                                 "matmul(q, k)\np = softmax(s) axis=-1\no = matmul(p, v)\n"
                                 "t = transpose(o) perm=0,2,1,3\nr = reshape(t, joined)\ny0 = add(r, x)\ny1 = layer_normalization(y0, g, "
                                 "b)\nh0 = matmul(y1, w1)\nh1 = add(h0, b1)\nh2 = gelu(h1)\n"
                                 "h3 = matmul(h2, w2)\ny2 = add(h3, y1)\ny3 = layer_normalization(y2, g, b)\noutput y3\n"},
};

static void attention_agrees_with_the_references(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) exec_agrees(cases[i].title, cases[i].text, 0);
}

static const oct_node_report *report_of(const oct_session *session, const char *name) {
  for (size_t i = 0; i < session->graph->n_nodes; i++)
    if (strcmp(session->graph->nodes[i]->name, name) == 0) return &session->plan.reports[i];
  return NULL;
}

/* The transpositions and the factor have no step of their own. */
static void what_surrounds_a_product_is_part_of_it(void **state) {
  (void)state;
  oct_graph *graph = exec_parse(cases[0].text);
  oct_session_options options = oct_session_options_default();
  oct_session *session;
  options.batch = 2;
  check(oct_session_create(ctx, graph, &options, &session));
  static const char *const inside[] = {"qt", "kt", "vt", "d", "j"};
  for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) assert_true(report_of(session, inside[i])->fused);
  oct_session_destroy(session);
  options.fuse_kinds &= ~(unsigned)OCT_FUSE_TRANSPOSE;
  check(oct_session_create(ctx, graph, &options, &session));
  for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) assert_false(report_of(session, inside[i])->fused);
  oct_session_destroy(session);
  oct_graph_destroy(graph);
}

/* Scores, mask and softmax have no step of their own. */
static void attention_is_one_step(void **state) {
  (void)state;
  oct_graph *graph = exec_parse(cases[2].text);
  static const char *const inside[] = {"s", "d", "t", "p", "j"};
  oct_session_options options = oct_session_options_default();
  oct_session *session;
  options.batch = 2;
  check(oct_session_create(ctx, graph, &options, &session));
  for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) assert_true(report_of(session, inside[i])->fused);
  assert_string_equal(report_of(session, "o")->kernel, "attention_f32");
  oct_session_destroy(session);
  options.fuse_kinds &= ~(unsigned)OCT_FUSE_ATTENTION;
  check(oct_session_create(ctx, graph, &options, &session));
  assert_false(report_of(session, "p")->fused);
  oct_session_destroy(session);
  oct_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(attention_agrees_with_the_references),
                                     cmocka_unit_test(what_surrounds_a_product_is_part_of_it), cmocka_unit_test(attention_is_one_step)};
  return cmocka_run_group_tests(tests, context_create, context_destroy);
}
