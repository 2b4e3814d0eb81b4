/* Sessions of float graphs against the operators' references: fusion, residual adds, borders, layouts, aliases, odd shapes, repeated runs.
 * Integer graphs are in test_exec_integer.c, the memory plan in test_memory_plan.c.
 * SPDX-License-Identifier: MIT */
#include "exec_checks.h"

typedef struct float_case {
  const char *title, *text;
} float_case;

#define CONV3(name, from, channels_in, channels)                                                                                  \
  "const " name ".w f32[" channels "," channels_in ",3,3] = rnd\nconst " name ".b f32[" channels "] = rnd\n" name " = conv(" from \
  ", " name ".w, " name ".b) pads=1,1,1,1\n"
#define CONV1(name, from, channels_in, channels) \
  "const " name ".w f32[" channels "," channels_in ",1,1] = rnd\n" name " = conv(" from ", " name ".w)\n"

/* clang-format off */
static const float_case cases[] = {
    {"convolution, bias, relu", "input x f32[N,3,7,6]\n" CONV3("c", "x", "3", "5") "y = relu(c)\noutput y\n"},
    {"convolution, clip",
     "input x f32[N,3,7,6]\nconst low f32[] = 0\nconst high f32[] = 1.5\n" CONV3("c", "x", "3", "5") "y = clip(c, low, high)\n"
     "output y\n"},
    {"clip with one bound",
     "input x f32[N,3,7,6]\nconst high f32[] = 0.5\n" CONV3("c", "x", "3", "5") "y = clip(c, _, high)\noutput y\n"},
    {"two clamps",
     "input x f32[N,3,7,6]\nconst high f32[] = 0.25\n" CONV3("c", "x", "3", "5") "r = relu(c)\ny = clip(r, _, high)\noutput y\n"},
    {"residual of the input", "input x f32[N,4,7,6]\n" CONV3("c", "x", "4", "4") "s = add(c, x)\ny = relu(s)\noutput y\n"},
    {"residual on the left", "input x f32[N,4,7,6]\n" CONV3("c", "x", "4", "4") "y = add(x, c)\noutput y\n"},
    {"two convolutions meet in an add",
     "input x f32[N,4,7,6]\n" CONV3("a", "x", "4", "6") CONV1("b", "x", "4", "6") "s = add(a, b)\ny = relu(s)\noutput y\n"},
    {"a convolution added to itself", "input x f32[N,4,7,6]\n" CONV3("a", "x", "4", "6") "y = add(a, a)\noutput y\n"},
    {"an add that broadcasts is no residual",
     "input x f32[N,4,7,6]\ninput z f32[4,1,1]\n" CONV3("a", "x", "4", "4") "y = add(a, z)\noutput y\n"},
    {"the sum is used twice",
     "input x f32[N,4,7,6]\n" CONV3("a", "x", "4", "4") "s = add(a, x)\nr = relu(s)\n" CONV3("b", "r", "4", "4") "t = add(b, s)\n"
     "u = relu(t)\noutput u\noutput s\n"},
    {"the convolution is used beside its relu",
     "input x f32[N,4,7,6]\n" CONV3("a", "x", "4", "4") "r = relu(a)\ny = mul(r, a)\noutput y\n"},
    {"the convolution is an output too", "input x f32[N,4,7,6]\n" CONV3("a", "x", "4", "4") "r = relu(a)\noutput r\noutput a\n"},
    {"residual after the activation", "input x f32[N,4,7,6]\n" CONV3("a", "x", "4", "4") "r = relu(a)\ny = add(r, x)\noutput y\n"},
    {"two residuals",
     "input x f32[N,4,7,6]\ninput z f32[N,4,7,6]\n" CONV3("a", "x", "4", "4") "s = add(a, x)\nt = add(s, z)\ny = relu(t)\noutput y\n"},
    {"three residual blocks",
     "input x f32[N,8,9,9]\n" CONV3("a", "x", "8", "8") "ar = relu(a)\n" CONV3("b", "ar", "8", "8") "s1 = add(b, x)\n"
     "r1 = relu(s1)\n" CONV3("c", "r1", "8", "8") "cr = relu(c)\n" CONV3("d", "cr", "8", "8") "s2 = add(d, r1)\nr2 = relu(s2)\n"
     CONV3("e", "r2", "8", "8") "s3 = add(r2, e)\noutput s3\n"},
    {"gemm, residual, relu",
     "input x f32[N,24]\nconst w f32[24,24] = rnd\nconst b f32[24] = rnd\ng = gemm(x, w, b)\ns = add(g, x)\ny = relu(s)\noutput y\n"},
    {"matmul of constants and of activations",
     "input x f32[N,3,5]\ninput z f32[N,5,4]\nconst w f32[4,9] = rnd\nm = matmul(x, z)\nn = matmul(m, w)\ny = relu(n)\noutput y\n"},
    {"a bias that is an add",
     "input x f32[N,3,7,6]\nconst k f32[5,1,1] = rnd\n" CONV1("c", "x", "3", "5") "s = add(k, c)\ny = relu(s)\noutput y\n"},
    {"a bias of one number", "input x f32[N,3,7,6]\nconst k f32[] = 0.3\n" CONV1("c", "x", "3", "5") "y = add(c, k)\noutput y\n"},
    {"two such, and a residual",
     "input x f32[N,3,7,6]\nconst k f32[1,3,1,1] = rnd\n" CONV1("c", "x", "3", "3") "s = add(c, k)\nt = add(s, k)\nu = add(t, x)\n"
     "y = relu(u)\noutput y\n"},
    {"an add per column is no bias",
     "input x f32[N,3,7,5]\nconst k f32[5] = rnd\n" CONV1("c", "x", "3", "5") "y = add(c, k)\noutput y\n"},
    {"an add that widens is no bias",
     "input x f32[1,3,7,5]\nconst k f32[2,5,1,1] = rnd\n" CONV1("c", "x", "3", "5") "y = add(c, k)\noutput y\n"},
    {"matmul with bias and relu",
     "input x f32[N,2,4]\nconst w f32[4,9] = rnd\nconst k f32[9] = rnd\nm = matmul(x, w)\ns = add(m, k)\ny = relu(s)\noutput y\n"},
    {"batch normalization between",
     "input x f32[N,4,7,6]\nconst g f32[6] = rnd\nconst o f32[6] = rnd\nconst m f32[6] = rnd\nconst v f32[6] = 0.5\n"
     CONV3("a", "x", "4", "6") "n = batch_normalization(a, g, o, m, v)\ny = relu(n)\noutput y\n"},
};
/* clang-format on */

static void float_graphs_agree_with_the_references(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) exec_agrees(cases[i].title, cases[i].text, 0);
}

/* clang-format off */
static const float_case layouts[] = {
    {"consumers with different paddings",
     "input x f32[N,3,9,8]\nconst k5 f32[4,5,5,5] = rnd\nconst k3 f32[4,5,3,3] = rnd\nconst k2 f32[4,5,2,2] = rnd\n"
     CONV3("a", "x", "3", "5") "r = relu(a)\np = conv(r, k5) pads=2,2,2,2\nq = conv(r, k3) pads=0,1,2,0\n"
     "s = conv(r, k2) strides=2,2\nm = max_pool(r) kernel_shape=3,3 pads=1,1,1,1\n"
     "v = average_pool(r) kernel_shape=2,2 pads=0,0,1,1 count_include_pad=1\noutput p\noutput q\noutput s\noutput m\noutput v\n"
     "output r\n"},
    {"paddings of an input",
     "input x f32[N,3,9,8]\nconst k5 f32[4,3,5,5] = rnd\n" CONV3("a", "x", "3", "5") "b = conv(x, k5) pads=2,2,2,2 strides=2,2\n"
     "y = max_pool(x) kernel_shape=2,2 pads=1,0,0,1\noutput a\noutput b\noutput y\n"},
    {"max pooling must not see padding",
     "input x f32[N,3,5,5]\nconst low f32[] = -3\n" CONV3("a", "x", "3", "4") "s = sub(a, b10)\n"
     "y = max_pool(s) kernel_shape=3,3 pads=1,1,1,1 strides=2,2\nz = conv(s, zw) pads=1,1,1,1\noutput y\noutput z\n"},
    {"elementwise chain between convolutions",
     "input x f32[N,3,6,5]\n" CONV3("a", "x", "3", "4") "t = sigmoid(a)\nu = mul(t, a)\nv = tanh(u)\nw = add(v, t)\n"
     CONV3("b", "w", "4", "3") "output b\n"},
    {"concat, slice, pad",
     "input x f32[N,3,6,5]\nconst from i64[1] = 1\nconst to i64[1] = 6\nconst axis i64[1] = 1\n"
     "const pads i64[8] = 0,0,1,2,0,1,0,1\n" CONV3("a", "x", "3", "4") CONV1("b", "x", "3", "3") "c = concat(a, b) axis=1\n"
     "s = slice(c, from, to, axis)\np = pad(s, pads)\n" CONV3("d", "p", "6", "2") "output d\noutput s\n"},
    {"concat with a plain part",
     "input x f32[N,3,6,5]\ninput z f32[N,2,6,5]\n" CONV3("a", "x", "3", "4") "c = concat(a, z, x) axis=1\n"
     CONV3("d", "c", "9", "2") "output d\noutput c\n"},
    {"concat over height",
     "input x f32[N,3,6,5]\n" CONV3("a", "x", "3", "4") CONV3("b", "x", "3", "4") "c = concat(a, b) axis=2\n"
     "y = average_pool(c) kernel_shape=2,2\noutput y\n"},
    {"transposes around a convolution",
     "input x f32[N,6,5,3]\nt = transpose(x) perm=0,3,1,2\n" CONV3("a", "t", "3", "4") "y = transpose(a) perm=0,2,3,1\noutput y\n"},
    {"flatten of channels-last",
     "input x f32[N,3,6,5]\nconst w f32[120,7] = rnd\n" CONV3("a", "x", "3", "4") "f = flatten(a)\ny = gemm(f, w)\noutput y\noutput f\n"},
    {"reduction over channels",
     "input x f32[N,3,6,5]\nconst axes i64[1] = 1\n" CONV3("a", "x", "3", "4") "m = reduce_mean(a, axes) keepdims=1\n"
     "y = mul(a, m)\noutput y\n"},
    {"broadcast against channels-last",
     "input x f32[N,3,6,5]\nconst per_channel f32[4,1,1] = rnd\nconst per_column f32[5] = rnd\n" CONV3("a", "x", "3", "4")
     "u = mul(a, per_channel)\nv = add(u, per_column)\n" CONV3("b", "v", "4", "2") "output b\n"},
    {"squeeze and excitation",
     "input x f32[N,4,6,5]\n" CONV3("a", "x", "4", "8") "g = global_average_pool(a)\n" CONV1("d", "g", "8", "2") "r = relu(d)\n"
     CONV1("e", "r", "2", "8") "h = sigmoid(e)\ny = mul(a, h)\noutput y\n"},
    {"depthwise and grouped", "input x f32[N,6,8,7]\nconst d f32[6,1,3,3] = rnd\nconst g f32[9,2,3,3] = rnd\na = conv(x, d) group=6 "
                              "pads=1,1,1,1\nr = relu(a)\ny = conv(r, g) group=3 strides=2,2 dilations=2,2 pads=2,2,2,2\noutput y\n"},
    {"one channel, one pixel",
     "input x f32[N,1,1,1]\nconst w f32[1,1,1,1] = rnd\na = conv(x, w)\nb = relu(a)\ny = global_average_pool(b)\noutput y\n"},
    {"one channel in both layouts", "input x f32[N,1,6,5]\nconst w f32[1,1,3,3] = rnd\na = conv(x, w) pads=1,1,1,1\nb = sigmoid(a)\nc = "
                                    "add(b, x)\ny = max_pool(c) kernel_shape=2,2\noutput y\noutput b\n"},
    {"one dimension", "input x f32[N,3,11]\nconst w f32[5,3,3] = rnd\na = conv(x, w) pads=1,1\nr = relu(a)\ny = max_pool(r) kernel_shape=2 "
                      "strides=2\noutput y\n"},
    {"three dimensions", "input x f32[N,2,4,5,3]\nconst w f32[3,2,2,2,2] = rnd\na = conv(x, w)\nr = relu(a)\noutput r\n"},
    {"in-place chain",
     "input x f32[N,40]\na = sigmoid(x)\nb = tanh(a)\nc = exp(b)\nd = relu(c)\ne = add(d, x)\nf = mul(e, e)\ng = sub(f, e)\noutput g\n"},
    {"an in-place step must not spoil what is read later",
     "input x f32[N,40]\na = sigmoid(x)\nb = tanh(a)\nc = exp(a)\nd = add(b, c)\ne = relu(d)\nf = add(e, a)\noutput f\noutput b\n"},
};
/* clang-format on */

static void layouts_do_not_show(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    char text[4096];
    /* constants that several texts use */
    snprintf(text, sizeof text, "const b10 f32[] = 10\nconst zw f32[2,4,3,3] = rnd\n%s", layouts[i].text);
    exec_agrees(layouts[i].title, strstr(layouts[i].text, "b10") ? text : layouts[i].text, 0);
  }
}

/* clang-format off */
static const float_case aliases[] = {
    {"an output that is an input", "input x f32[N,4]\ny = relu(x)\noutput x\noutput y\n"},
    {"an input that nothing else uses", "input x f32[N,4]\ninput z f32[N,2]\ny = relu(x)\noutput y\noutput z\n"},
    {"an unused input", "input x f32[N,4]\ninput z f32[N,2]\ny = relu(x)\noutput y\n"},
    {"a reshaped input as output",
     "input x f32[2,6]\nconst s i64[2] = 3,4\ny = reshape(x, s)\nz = relu(y)\noutput y\noutput z\noutput x\n"},
    {"a chain of views", "input x f32[2,6]\nconst s i64[3] = 2,3,2\nconst u i64[1] = 0\na = relu(x)\nb = reshape(a, s)\nc = unsqueeze(b, "
                         "u)\nd = flatten(c) axis=3\ne = identity(d)\noutput e\noutput b\n"},
    {"an elementwise step behind a view must not write through",
     "input x f32[2,6]\nconst s i64[2] = 3,4\ny = reshape(x, s)\nz = sigmoid(y)\nw = add(x, x)\noutput z\noutput w\noutput x\n"},
    {"a view of a value that lives on", "input x f32[2,6]\nconst s i64[2] = 3,4\na = tanh(x)\nv = reshape(a, s)\nb = exp(v)\nc = "
                                        "sigmoid(a)\nt = reshape(b, t26)\nd = add(c, t)\noutput d\n"},
    {"a constant as output", "input x f32[N,4]\nconst k f32[3] = 1,2,3\ny = relu(x)\noutput k\noutput y\n"},
    {"a folded constant as output", "input x f32[N,4]\nconst k f32[3] = 1,2,3\nj = exp(k)\ny = relu(x)\noutput j\noutput y\n"},
    {"the same value twice", "input x f32[N,4]\ny = relu(x)\noutput y\noutput y\n"},
    {"no nodes at all", "input x f32[N,4]\noutput x\n"},
    {"a shape as output", "input x f32[N,4]\ns = shape(x)\ny = relu(x)\noutput s\noutput y\n"},
    {"integers and booleans", "input x f32[N,4]\ninput i i64[N,4]\nconst half f32[] = 0.5\nb = greater(x, half)\nw = where(b, i, i)\na = "
                              "add(w, i)\nf = cast(a) to=f32\ny = mul(f, x)\noutput y\noutput b\noutput a\n"},
    {"split into views", "input x f32[N,6]\na = relu(x)\np, q, r = split(a) axis=1 num_outputs=3\ny = add(p, r)\noutput y\noutput q\n"},
};
/* clang-format on */

static void aliases_keep_their_content(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
    char text[2048];
    snprintf(text, sizeof text, "const t26 i64[2] = 2,6\n%s", aliases[i].text);
    exec_agrees(aliases[i].title, strstr(aliases[i].text, "t26") ? text : aliases[i].text, 0);
  }
}

/* clang-format off */
static const float_case empty[] = {
    {"no images",
     "input x f32[0,3,6,5]\n" CONV3("a", "x", "3", "4") "r = relu(a)\np = max_pool(r) kernel_shape=2,2\n"
     "g = global_average_pool(p)\nf = flatten(g)\noutput f\noutput r\n"},
    {"no rows", "input x f32[0,5]\nconst w f32[5,3] = rnd\nconst b f32[3] = rnd\ng = gemm(x, w, b)\ny = softmax(g)\noutput y\n"},
    {"no columns", "input x f32[2,0]\ninput z f32[2,3]\na = relu(x)\nc = concat(a, z, x) axis=1\noutput c\noutput a\n"},
    {"an empty sum", "input x f32[2,0]\nconst axis i64[1] = 1\ny = reduce_sum(x, axis) keepdims=1\noutput y\n"},
    {"matmul over nothing", "input x f32[2,0]\ninput z f32[0,3]\ny = matmul(x, z)\noutput y\n"},
    {"elementwise", "input x f32[2,0,3]\ny = sigmoid(x)\nz = add(y, x)\nt = transpose(z) perm=2,1,0\noutput t\n"},
};
/* clang-format on */

static void empty_tensors_are_no_exception(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) exec_agrees(empty[i].title, empty[i].text, 0);
}

/* Graphs in which a sample meets the others, or the size of the batch: they must not be run in pieces. */
static const float_case whole_batch[] = {
    {"the batch size in a shape", "input x f32[2,6]\nconst s i64[2] = 2,-1\nr = reshape(x, s)\ny = softmax(r)\noutput y\n"},
    {"the batch size in a shape, other rank", "input x f32[2,2,3]\nconst s i64[2] = 2,-1\nr = reshape(x, s)\ny = softmax(r)\noutput y\n"},
    {"the batch size in arithmetic",
     "input x f32[N,6]\nconst zero i64[1] = 0\ns = shape(x)\nn = gather(s, zero)\nf = cast(n) to=f32\ny = div(x, f)\noutput y\n"},
    {"the batch size through a view", "input x f32[N,2,3]\nconst zero i64[1] = 0\nconst rest i64[1] = -1\ns = shape(x)\nn = gather(s, "
                                      "zero)\nc = concat(n, rest) axis=0\nr = reshape(x, c)\ny = softmax(r)\noutput y\n"},
    {"a sum over the batch", "input x f32[N,6]\nconst axis i64[1] = 0\nm = reduce_mean(x, axis) keepdims=1\ny = sub(x, m)\noutput y\n"},
    {"softmax over the batch", "input x f32[N,6]\ny = softmax(x) axis=0\noutput y\n"},
    {"the batch turned", "input x f32[3,3]\ny = transpose(x) perm=1,0\noutput y\n"},
    {"the batch doubled and cut", "input x f32[N,6]\nconst one i64[1] = 1\nconst two i64[1] = 2\nconst axis i64[1] = 0\nc = concat(x, x) "
                                  "axis=0\ns = slice(c, one, two, axis)\ny = add(x, s)\noutput y\n"},
    {"samples by samples", "input x f32[N,4]\ninput z f32[N,4]\nt = transpose(z) perm=1,0\ny = matmul(x, t)\noutput y\n"},
    {"weights that are an input", "input x f32[3,4]\ninput w f32[3,4]\ny = gemm(x, w) transB=1\noutput y\n"},
    {"a constant per sample", "input x f32[3,4]\nconst k f32[3,1] = 1,2,3\ny = mul(x, k)\noutput y\n"},
    {"an input that all samples share", "input x f32[N,4]\ninput z f32[4]\ny = mul(x, z)\noutput y\n"},
    {"reversed samples", "input x f32[3,4]\nconst from i64[1] = -1\nconst to i64[1] = -100\nconst axis i64[1] = 0\nconst step i64[1] = "
                         "-1\ny = slice(x, from, to, axis, step)\noutput y\n"},
    {"chosen samples", "input x f32[3,4]\nconst which i64[3] = 2,0,1\ny = gather(x, which) axis=0\noutput y\n"},
    {"padding in the batch", "input x f32[3,4]\nconst pads i64[4] = 1,0,-1,0\ny = pad(x, pads)\noutput y\n"},
    {"rounded per sample",
     "input x f32[3,4]\nquant x u8 axis=0 scale=0.1,0.2,0.3\nr = relu(x)\nquant r u8 axis=0 scale=0.01,0.2,0.04\noutput r\n"},
};

static void samples_that_meet_stay_together(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof whole_batch / sizeof *whole_batch; i++) exec_agrees(whole_batch[i].title, whole_batch[i].text, 0);
}

/* ---- Runs ---- */

/* clang-format off */
static const char *const block =
    "input x f32[N,4,7,6]\ninput z f32[N,4,7,6]\n" CONV3("a", "x", "4", "4") "s = add(a, z)\nr = relu(s)\n"
    "m = max_pool(r) kernel_shape=2,2\n" CONV3("b", "m", "4", "9") "t = sigmoid(b)\ny = global_average_pool(t)\noutput y\n"
    "output r\n";
/* clang-format on */

static void runs_repeat_and_inputs_stay(void **state) {
  (void)state;
  oct_graph *graph = exec_parse(block);
  exec_tensors inputs = exec_inputs(graph, 3);
  oct_session *session = exec_session(graph, (exec_form){.fuse = OCT_FUSE_ALL}, &inputs);
  exec_fill(session, &inputs);
  check(oct_session_run(session));
  exec_tensors first = exec_outputs(session);
  int64_t made = ctx->allocations_made;
  for (int run = 0; run < 5; run++) check(oct_session_run(session)); /* inputs are not filled again */
  assert_int_equal(ctx->allocations_made, made);
  exec_tensors later = exec_outputs(session);
  assert_true(exec_same_bytes(&first, &later));
  for (size_t i = 0; i < inputs.count; i++)
    assert_memory_equal(oct_session_input(session, i).data, inputs.item[i]->data, inputs.item[i]->bytes);
  exec_free(&later);
  /* One input changes, the other keeps what it had; then everything goes back. */
  float *z = oct_session_input(session, 1).data, old = z[5];
  z[5] += 100;
  check(oct_session_run(session));
  later = exec_outputs(session);
  assert_false(exec_same_bytes(&first, &later));
  exec_free(&later);
  z[5] = old;
  check(oct_session_run(session));
  later = exec_outputs(session);
  assert_true(exec_same_bytes(&first, &later));
  exec_free(&later);
  exec_free(&first);
  oct_session_destroy(session);
  exec_free(&inputs);
  oct_graph_destroy(graph);
}

/* An image's result does not depend on what else is in the batch. */
static void batch_mates_do_not_matter(void **state) {
  (void)state;
  oct_graph *graph = exec_parse(block);
  exec_tensors whole = exec_inputs(graph, 5), want = exec_run(graph, (exec_form){.fuse = OCT_FUSE_ALL}, &whole);
  exec_tensors one = exec_inputs(graph, 1);
  for (int n = 0; n < 5; n++) {
    for (size_t i = 0; i < one.count; i++)
      memcpy(one.item[i]->data, (char *)whole.item[i]->data + (size_t)n * one.item[i]->bytes, one.item[i]->bytes);
    exec_tensors got = exec_run(graph, (exec_form){.fuse = OCT_FUSE_ALL}, &one);
    for (size_t i = 0; i < got.count; i++)
      assert_memory_equal(got.item[i]->data, (char *)want.item[i]->data + (size_t)n * got.item[i]->bytes, got.item[i]->bytes);
    exec_free(&got);
  }
  exec_free(&one);
  exec_free(&whole);
  exec_free(&want);
  oct_graph_destroy(graph);
}

/* Float results are the same bytes for every number of threads, and threads may be added after the session was made. */
static void threads_do_not_change_bytes(void **state) {
  (void)state;
  /* clang-format off */
  static const char *const wide =
      "input x f32[N,8,40,40]\n" CONV3("a", "x", "8", "24") "r = relu(a)\nt = tanh(r)\n" CONV3("b", "t", "24", "8")
      "s = add(b, x)\np = average_pool(s) kernel_shape=3,3 strides=2,2\nc = concat(p, p) axis=1\ny = softmax(c) axis=1\noutput y\n";
  /* clang-format on */
  oct_graph *graph = exec_parse(wide);
  exec_tensors inputs = exec_inputs(graph, 2), one = exec_run(graph, (exec_form){.fuse = OCT_FUSE_ALL}, &inputs);
  static const int counts[] = {2, 3, 7};
  for (size_t i = 0; i < 3; i++) {
    exec_tensors many = exec_run(graph, (exec_form){.fuse = OCT_FUSE_ALL, .threads = counts[i]}, &inputs);
    assert_true(exec_same_bytes(&one, &many));
    exec_free(&many);
  }
  oct_session *session = exec_session(graph, (exec_form){.fuse = OCT_FUSE_ALL, .threads = 2}, &inputs);
  exec_fill(session, &inputs);
  for (int threads = 1; threads <= 9; threads += 4) {
    ctx->threads = threads;
    check(oct_session_run(session));
    exec_tensors got = exec_outputs(session);
    assert_true(exec_same_bytes(&one, &got));
    exec_free(&got);
  }
  ctx->threads = 1;
  oct_session_destroy(session);
  exec_free(&inputs);
  exec_free(&one);
  oct_graph_destroy(graph);
}

/* A shape that comes as an input: bound, it is a constant and no input of the session any more. */
static void bound_inputs_become_constants(void **state) {
  (void)state;
  oct_graph *graph = exec_parse("input x f32[2,6]\ninput s i64[2]\ny = reshape(x, s)\nz = relu(y)\noutput z\n");
  oct_session_options o = oct_session_options_default();
  oct_session *session = NULL;
  assert_int_equal(oct_session_create(ctx, graph, &o, &session), OCTET_UNSUPPORTED);
  assert_non_null(strstr(ctx->message, "\"y\""));
  assert_non_null(strstr(ctx->message, "bind"));
  oct_tensor *shape;
  oct_shape two = {.rank = 1, .dim = {2}};
  check(oct_tensor_create(ctx, OCT_I64, &two, &shape));
  ((int64_t *)shape->data)[0] = 4;
  ((int64_t *)shape->data)[1] = -1;
  oct_named_tensor bound = {.name = (char *)(uintptr_t) "s", .tensor = shape};
  o.bound = &bound;
  o.n_bound = 1;
  check(oct_session_create(ctx, graph, &o, &session));
  assert_int_equal(oct_session_inputs(session), 1);
  oct_session_port in = oct_session_input(session, 0);
  for (int i = 0; i < 12; i++) ((float *)in.data)[i] = (float)(i - 6);
  check(oct_session_run(session));
  oct_session_port out = oct_session_output(session, 0);
  assert_int_equal(out.value->shape.dim[0], 4);
  assert_int_equal(out.value->shape.dim[1], 3);
  for (int i = 0; i < 12; i++) assert_true(((float *)out.data)[i] == (float)(i < 6 ? 0 : i - 6));
  oct_session_destroy(session);
  bound.name = (char *)(uintptr_t) "q";
  assert_int_equal(oct_session_create(ctx, graph, &o, &session), OCTET_INVALID_ARGUMENT);
  assert_non_null(strstr(ctx->message, "\"q\""));
  oct_tensor_release(shape);
  oct_graph_destroy(graph);
}

static void shapes_that_do_not_fit_are_named(void **state) {
  (void)state;
  oct_graph *graph = exec_parse("input image f32[N,3,8,8]\ny = relu(image)\noutput y\n");
  oct_named_shape wrong = {"image", {.rank = 4, .dim = {1, 4, 8, 8}}};
  oct_session_options o = oct_session_options_default();
  oct_session *session = NULL;
  o.shapes = &wrong;
  o.n_shapes = 1;
  assert_int_equal(oct_session_create(ctx, graph, &o, &session), OCTET_SHAPE);
  assert_null(session);
  assert_non_null(strstr(ctx->message, "\"image\""));
  assert_non_null(strstr(ctx->message, "[1,4,8,8]"));
  wrong.shape = (oct_shape){.rank = 3, .dim = {3, 8, 8}};
  assert_int_equal(oct_session_create(ctx, graph, &o, &session), OCTET_SHAPE);
  wrong.name = "picture";
  assert_int_equal(oct_session_create(ctx, graph, &o, &session), OCTET_INVALID_ARGUMENT);
  assert_non_null(strstr(ctx->message, "\"picture\""));
  oct_graph_destroy(graph);
}

static bool has_kernel(const oct_session *session, const char *part) {
  for (size_t i = 0; i < session->n_steps; i++)
    if (strstr(session->steps[i]->kernel, part)) return true;
  return false;
}

/* Winograd's rounding is not that of a direct sum; `exact_float` keeps it out. */
static void exact_float_sums_directly(void **state) {
  (void)state;
  oct_graph *graph = exec_parse("input x f32[N,16,12,12]\n" CONV3("y", "x", "16", "16") "output y\n");
  oct_session_options o = oct_session_options_default();
  for (int exact = 0; exact < 2; exact++) {
    oct_session *session = NULL;
    o.exact_float = exact;
    check(oct_session_create(ctx, graph, &o, &session));
    assert_int_equal(has_kernel(session, "winograd"), !exact && (ctx->isa_mask & (1u << OCT_ISA_AVX2)) != 0);
    oct_session_destroy(session);
  }
  oct_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(float_graphs_agree_with_the_references),
      cmocka_unit_test(layouts_do_not_show),
      cmocka_unit_test(aliases_keep_their_content),
      cmocka_unit_test(empty_tensors_are_no_exception),
      cmocka_unit_test(samples_that_meet_stay_together),
      cmocka_unit_test(runs_repeat_and_inputs_stay),
      cmocka_unit_test(batch_mates_do_not_matter),
      cmocka_unit_test(threads_do_not_change_bytes),
      cmocka_unit_test(bound_inputs_become_constants),
      cmocka_unit_test(shapes_that_do_not_fit_are_named),
      cmocka_unit_test(exact_float_sums_directly),
  };
  return cmocka_run_group_tests(tests, context_create, context_destroy);
}
