/* Sessions of quantized graphs: against the references (which compute in float and round where a value carries parameters), and byte-equal on every
 * instruction set and number of threads.
 * SPDX-License-Identifier: MIT */
#include "exec_checks.h"

typedef struct integer_case {
  const char *title;
  double step; /* scale of the outputs: the largest that a tie may change */
  const char *text;
} integer_case;

#define X "input x f32[N,4,7,6]\nquant x u8 scale=0.017 zero_point=118\n"
#define W(name, channels_in, channels, k) \
  "const " name " i8[" channels "," channels_in "," k "," k "] = rnd\nquant " name " i8 scale=0.004\n"
#define W4(name, k) "const " name " i8[4,4," k "," k "] = rnd\nquant " name " i8 axis=0 scale=0.004,0.003,0.0051,0.0007\n"
#define U8(name, scale, zero) "quant " name " u8 scale=" scale " zero_point=" zero "\n"
#define I8(name, scale, zero) "quant " name " i8 scale=" scale " zero_point=" zero "\n"

/* clang-format off */
static const integer_case cases[] = {
    {"convolution", 0.06, X W4("w", "3") "const b f32[4] = rnd\ny = conv(x, w, b) pads=1,1,1,1\n" U8("y", "0.06", "131") "output y\n"},
    {"convolution, relu", 0.05, X W4("w", "3") "r = conv(x, w) pads=1,1,1,1\ny = relu(r)\n" U8("y", "0.05", "0") "output y\n"},
    {"relu in the middle of a symmetric range", 0.05,
     X W4("w", "3") "r = conv(x, w) pads=1,1,1,1\ny = relu(r)\n" U8("y", "0.05", "128") "output y\n"},
    {"convolution rounded, then relu", 0.05,
     X W4("w", "3") "r = conv(x, w) pads=1,1,1,1\n" U8("r", "0.05", "100") "y = relu(r)\n" U8("y", "0.05", "100") "output y\n"},
    {"signed activations", 0.06,
     "input x f32[N,4,7,6]\n" I8("x", "0.017", "-10") W4("w", "3") "y = conv(x, w) strides=2,2\n" I8("y", "0.06", "3") "output y\n"},
    {"add, then round", 0.06,
     X W4("w", "3") "c = conv(x, w) pads=1,1,1,1\ns = add(c, x)\ny = relu(s)\n" U8("y", "0.06", "0") "output y\n"},
    {"round, then add", 0.07,
     X W4("w", "3") "c = conv(x, w) pads=1,1,1,1\n" U8("c", "0.06", "120") "s = add(c, x)\ny = relu(s)\n" U8("y", "0.07", "0")
     "output y\n"},
    {"round, add, round, relu", 0.07,
     X W4("w", "3") "c = conv(x, w) pads=1,1,1,1\n" U8("c", "0.06", "120") "s = add(x, c)\n" U8("s", "0.07", "127") "y = relu(s)\n"
     U8("y", "0.035", "0") "output y\n"},
    {"two convolutions, add, round", 0.09,
     X W4("v", "1") W4("w", "3") "a = conv(x, v)\nc = conv(x, w) pads=1,1,1,1\ns = add(a, c)\ny = relu(s)\n" U8("y", "0.09", "0")
     "output y\n"},
    {"two convolutions, each rounded, add", 0.09,
     X W4("v", "1") W4("w", "3") "a = conv(x, v)\n" U8("a", "0.02", "128") "c = conv(x, w) pads=1,1,1,1\n" U8("c", "0.06", "128")
     "y = add(a, c)\n" U8("y", "0.09", "100") "output y\n"},
    {"one rounded, the other not", 0.09,
     X W4("v", "1") W4("w", "3") "a = conv(x, v)\n" U8("a", "0.02", "128") "c = conv(x, w) pads=1,1,1,1\ny = add(c, a)\n"
     U8("y", "0.09", "100") "output y\n"},
    {"the residual is float", 0.09,
     X "input z f32[N,4,7,6]\n" W4("w", "3") "c = conv(x, w) pads=1,1,1,1\ny = add(c, z)\n" U8("y", "0.09", "100") "output y\n"},
    {"a constant added after an integer convolution", 0.06,
     X W4("w", "3") "const k f32[4,1,1] = rnd\nc = conv(x, w) pads=1,1,1,1\ns = add(c, k)\ny = relu(s)\n" U8("y", "0.06", "0")
     "output y\n"},
    {"table after a convolution", 0.00390625,
     X W4("w", "3") "c = conv(x, w) pads=1,1,1,1\n" U8("c", "0.05", "128") "y = sigmoid(c)\n" U8("y", "0.00390625", "0") "output y\n"},
    {"float activation before rounding", 0.00390625,
     X W4("w", "3") "c = conv(x, w) pads=1,1,1,1\ny = sigmoid(c)\n" U8("y", "0.00390625", "0") "output y\n"},
    {"float output from the accumulators", 0,
     X W4("w", "3") "const b f32[4] = rnd\nc = conv(x, w, b) pads=1,1,1,1\ny = relu(c)\noutput y\n"},
    {"several consumers with different paddings", 0.1,
     X W4("v", "3") W4("w", "5") "a = conv(x, v) pads=1,1,1,1\n" U8("a", "0.05", "77") "p = conv(a, w) pads=2,2,2,2\n"
     U8("p", "0.1", "128") "q = conv(a, v) pads=0,1,2,0\n" U8("q", "0.1", "140")
     "m = max_pool(a) kernel_shape=3,3 pads=1,1,1,1 strides=2,2\n" U8("m", "0.05", "77")
     "v2 = average_pool(a) kernel_shape=3,3 pads=0,0,1,1 count_include_pad=1\n" U8("v2", "0.05", "77") "output p\noutput q\n"
     "output m\noutput v2\noutput a\n"},
    {"depthwise", 0.03,
     "input x f32[N,9,7,6]\n" U8("x", "0.017", "118") W("w", "1", "9", "3") "r = conv(x, w) group=9 pads=1,1,1,1\ny = relu(r)\n"
     U8("y", "0.03", "0") "output y\n"},
    {"grouped, dilated", 0.06,
     X W("w", "2", "6", "3") "y = conv(x, w) group=2 dilations=2,2 pads=2,2,2,2\n" U8("y", "0.06", "131") "output y\n"},
    {"one dimension", 0.06,
     "input x f32[N,5,13]\n" U8("x", "0.017", "118") "const w i8[7,5,3] = rnd\nquant w i8 scale=0.004\ny = conv(x, w) pads=1,1\n"
     U8("y", "0.06", "100") "output y\n"},
    {"transposed convolution", 0.06,
     X "const w i8[4,5,4,4] = rnd\nquant w i8 axis=1 scale=0.004,0.003,0.0051,0.0007,0.002\nconst b f32[5] = rnd\n"
     "c = conv_transpose(x, w, b) strides=2,2 pads=1,1,1,1\ny = relu(c)\n" U8("y", "0.06", "0") "output y\n"},
    {"transposed convolution, add, table", 0.00390625,
     X "input z f32[N,3,15,13]\n" U8("z", "0.03", "90") "const w i8[4,3,3,3] = rnd\nquant w i8 scale=0.004\n"
     "c = conv_transpose(x, w) strides=2,2\ns = add(c, z)\n" U8("s", "0.05", "128") "y = sigmoid(s)\n" U8("y", "0.00390625", "0")
     "output y\n"},
    {"transposed convolution in groups that share scales", 0.06,
     X "const w i8[4,3,2,5] = rnd\nquant w i8 axis=1 scale=0.004,0.003,0.0051\n"
     "y = conv_transpose(x, w) group=2 strides=3,2 dilations=1,2 output_padding=1,0\n" U8("y", "0.06", "131") "output y\n"},
    {"float transposed convolution, rounded, table", 0.00390625,
     "input x f32[N,4,7,6]\nconst w f32[4,3,3,3] = rnd\nc = conv_transpose(x, w) strides=2,2\n" U8("c", "0.05", "128")
     "y = sigmoid(c)\n" U8("y", "0.00390625", "0") "output y\n"},
    {"concat of different scales", 0.04,
     X "a = sigmoid(x)\n" U8("a", "0.00390625", "0") "y = concat(x, a) axis=1\n" U8("y", "0.04", "110") "output y\n"},
    {"concat, slice, pad, transpose", 0.017,
     X "const s1 i64[1] = 1\nconst s5 i64[1] = 5\nconst pads i64[8] = 0,0,1,1,0,0,0,2\nc = concat(x, x) axis=1\n"
     U8("c", "0.017", "118") "s = slice(c, s1, s5, s1)\n" U8("s", "0.017", "118") "p = pad(s, pads)\n" U8("p", "0.017", "118")
     "y = transpose(p) perm=0,2,3,1\n" U8("y", "0.017", "118") "output y\n"},
    {"average pools", 0.02,
     X "a = average_pool(x) kernel_shape=3,3 pads=1,1,1,1 strides=2,2 count_include_pad=1\n" U8("a", "0.02", "117")
     "y = global_average_pool(a)\n" U8("y", "0.02", "100") "output y\noutput a\n"},
    {"mean over height and width", 0.02,
     X "const axes i64[2] = 2,3\ny = reduce_mean(x, axes) keepdims=0\n" U8("y", "0.02", "117") "output y\n"},
    /* a step of `a` (0.04) is multiplied by up to 2.33, so that b may be two steps off */
    {"arithmetic of activations", 0.1,
     X "input z f32[N,4,7,6]\n" U8("z", "0.03", "90") "a = add(x, z)\n" U8("a", "0.04", "128") "b = mul(a, x)\n"
     U8("b", "0.05", "128") "c = sub(b, z)\n" U8("c", "0.05", "101") "y = max(c, x)\n" U8("y", "0.05", "120") "output y\n"},
    {"multiplication per channel", 0.03,
     X "g = global_average_pool(x)\n" U8("g", "0.01", "128") "h = sigmoid(g)\n" U8("h", "0.00390625", "0") "y = mul(x, h)\n"
     U8("y", "0.03", "120") "output y\n"},
    {"gemm with residual", 0.09,
     "input x f32[N,16]\n" U8("x", "0.017", "118") "const w i8[16,16] = rnd\nquant w i8 axis=1 scale=@s\nconst b f32[16] = rnd\n"
     "g = gemm(x, w, b)\ns = add(g, x)\ny = relu(s)\n" U8("y", "0.09", "0") "output y\n"},
    {"matmul of two activations", 0.05,
     "input x f32[N,3,5]\ninput z f32[N,5,4]\n" U8("x", "0.017", "118") U8("z", "0.016", "130") "y = matmul(x, z)\n"
     U8("y", "0.05", "128") "output y\n"},
    {"softmax of many short rows", 0.003921569,
     "input x f32[N,300,3]\n" U8("x", "0.017", "118") "y = softmax(x)\n" U8("y", "0.003921569", "0") "output y\n"},
    {"softmax of long rows", 0.001,
     "input x f32[N,3,700]\n" U8("x", "0.03", "118") "y = softmax(x)\n" U8("y", "0.001", "7") "output y\n"},
    {"softmax over channels", 0.003921569,
     "input x f32[N,5,40,33]\n" U8("x", "0.03", "118") "y = softmax(x) axis=1\n" U8("y", "0.003921569", "0") "output y\n"},
    {"softmax", 0.00390625, "input x f32[N,10]\n" U8("x", "0.017", "118") "y = softmax(x)\n" U8("y", "0.00390625", "0") "output y\n"},
    {"views", 0.05,
     X "const shape i64[2] = -1,84\nr = relu(x)\n" U8("r", "0.017", "0") "f = reshape(r, shape)\n" U8("f", "0.017", "0")
     "y = add(f, f)\n" U8("y", "0.05", "0") "output y\noutput f\n"},
    {"a float island between integers", 0.05,
     X W4("w", "3") "c = conv(x, w) pads=1,1,1,1\n" U8("c", "0.06", "128") "e = erf(c)\nl = exp(e)\n" U8("l", "0.02", "10")
     "y = conv(l, w) pads=1,1,1,1\n" U8("y", "0.05", "128") "output y\n"},
    {"16-bit activations", 0.001,
     "input x f32[N,4,7,6]\nquant x i16 scale=0.0001\nconst w f32[4,4,3,3] = rnd\nc = conv(x, w) pads=1,1,1,1\ny = relu(c)\nquant y i16 "
     "scale=0.001\noutput y\n"},
    {"rounded and unrounded in one graph", 0.06,
     X W4("w", "3") "c = conv(x, w) pads=1,1,1,1\n" U8("c", "0.06", "131") "y = add(c, x)\noutput y\noutput c\n"},
    {"8-bit graph inputs and outputs", 1,
     "input x u8[N,4,7,6]\nconst sx f32[] = 0.017\nconst zx u8[] = 118\nconst sy f32[] = 0.06\nconst zy u8[] = 131\n" W4("w", "3")
     "f = dequantize(x, sx, zx)\nc = conv(f, w) pads=1,1,1,1\nr = relu(c)\ny = quantize(r, sy, zy)\noutput y\n"},
};
/* clang-format on */

/* The text with its one list in the weights file written out. */
static const char *with_lists(const char *text, char *buffer, size_t size) {
  const char *mark = strstr(text, "@s");
  if (!mark) return text;
  int n = snprintf(buffer, size, "%.*s", (int)(mark - text), text);
  for (int i = 0; i < 16; i++) n += snprintf(buffer + n, size - (size_t)n, "%s%.4f", i ? "," : "", 0.002 + 0.0003 * i);
  snprintf(buffer + n, size - (size_t)n, "%s", mark + 2);
  return buffer;
}

static void quantized_graphs_agree_with_the_references(void **state) {
  (void)state;
  char buffer[4096];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    exec_agrees(cases[i].title, with_lists(cases[i].text, buffer, sizeof buffer), cases[i].step);
}

/* ---- The same bytes everywhere ---- */

static const char *const isas[] = {"scalar", "avx2", "avxvnni", "avx512", "avx512vbmi", "avx512vnni", "amx"};

static void check_everywhere(const char *title, oct_graph *graph, int64_t batch, int most_threads) {
  exec_tensors inputs = exec_inputs(graph, batch);
  exec_tensors want = exec_run(graph, (exec_form){.fuse = OCT_FUSE_ALL, .isa = "scalar"}, &inputs);
  for (int threads = 1; threads <= most_threads; threads += 2)
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
      exec_tensors got = exec_run(graph, (exec_form){.fuse = OCT_FUSE_ALL, .isa = isas[i], .threads = threads}, &inputs);
      if (!exec_same_bytes(&got, &want)) {
        print_error("%s, batch %lld: %s with %d threads gives other bytes than scalar with one\n", title, (long long)batch, isas[i],
                    threads);
        fail();
      }
      exec_free(&got);
    }
  exec_free(&inputs);
  exec_free(&want);
}

static void bytes_are_the_same_everywhere(void **state) {
  (void)state;
  char buffer[4096];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (strstr(cases[i].text, "i16")) continue; /* float arithmetic inside */
    oct_graph *graph = exec_parse(with_lists(cases[i].text, buffer, sizeof buffer));
    check_everywhere(cases[i].title, graph, 1, 1);
    check_everywhere(cases[i].title, graph, 3, 1);
    oct_graph_destroy(graph);
  }
}

/* Large enough that steps are split among threads and every tile size has a remainder. */
static void larger_graphs_too(void **state) {
  (void)state;
  /* clang-format off */
  static const char *const text =
      "input x f32[N,3,45,37]\n" U8("x", "0.017", "118") W("w1", "3", "33", "3") W("w2", "1", "33", "3") W("w3", "33", "65", "1")
      W("w4", "65", "65", "3") W("w5", "33", "65", "1") "a = conv(x, w1) pads=1,1,1,1\nar = relu(a)\n" U8("ar", "0.02", "0")
      "d = conv(ar, w2) group=33 pads=1,1,1,1 strides=2,2\ndr = relu(d)\n" U8("dr", "0.03", "0") "p = conv(dr, w3)\npr = relu(p)\n"
      U8("pr", "0.05", "0") "q = conv(pr, w4) pads=1,1,1,1\ns = conv(dr, w5)\nt = add(q, s)\ntr = relu(t)\n" U8("tr", "0.3", "0")
      "m = max_pool(tr) kernel_shape=3,3 strides=2,2 pads=1,1,1,1\n" U8("m", "0.3", "0") "h = hard_swish(m)\n" U8("h", "0.3", "1")
      "g = global_average_pool(h)\n" U8("g", "0.1", "0") "f = flatten(g)\n" U8("f", "0.1", "0") "const wf i8[65,11] = rnd\n"
      "quant wf i8 scale=0.003\ny = gemm(f, wf)\noutput y\noutput m\n";
  /* clang-format on */
  oct_graph *graph = exec_parse(text);
  check_everywhere("a larger network", graph, 2, 3);
  oct_graph_destroy(graph);
}

/* Some rows pack weights in another way for another stride: first layers gather bytes by it, tiles of AMX lie otherwise. */
static void weights_that_serve_two_strides(void **state) {
  (void)state;
  /* clang-format off */
  static const integer_case shared[] = {
      {"first layers", 0.06,
       "input x f32[N,1,7,180]\n" U8("x", "0.017", "118") "const w i8[16,1,5,5] = rnd\nquant w i8 scale=0.004\n"
       "a = conv(x, w)\n" U8("a", "0.06", "131") "b = conv(x, w) strides=1,3\n" U8("b", "0.06", "131") "output a\noutput b\n"},
      {"first layers, even distances", 0.06,
       "input x f32[N,1,7,180]\n" U8("x", "0.017", "118") "const w i8[16,1,5,5] = rnd\nquant w i8 scale=0.004\n"
       "a = conv(x, w) strides=1,4\n" U8("a", "0.06", "131") "b = conv(x, w) strides=1,2\n" U8("b", "0.06", "131") "output a\noutput b\n"},
      {"tiles of the same number of pixels", 0.2,
       "input x f32[N,20,5,19]\ninput z f32[N,20,5,35]\n" U8("x", "0.017", "118") U8("z", "0.017", "118") W("w", "20", "128", "3")
       "a = conv(x, w)\n" U8("a", "0.2", "131") "b = conv(z, w) strides=1,2\n" U8("b", "0.2", "131") "output a\noutput b\n"},
  };
  /* clang-format on */
  for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
    oct_graph *graph = exec_parse(shared[i].text);
    check_everywhere(shared[i].title, graph, 2, 1);
    oct_graph_destroy(graph);
    exec_agrees(shared[i].title, shared[i].text, shared[i].step);
  }
}

/* ---- Quantized at run time, and weights alone ---- */

/* clang-format off */
static const integer_case dynamic_cases[] = {
    {"dynamic convolution", 0.02,
     "input x f32[N,4,7,6]\n" W4("w", "3") "const b f32[4] = rnd\nc = conv(x, w, b) pads=1,1,1,1 dynamic=1\ny = relu(c)\noutput y\n"},
    {"dynamic chain", 0.03,
     "input x f32[N,4,7,6]\n" W4("v", "3") W4("w", "1") "a = conv(x, v) pads=1,1,1,1 dynamic=1\nr = relu(a)\n"
     "c = conv(r, w) dynamic=1\ny = add(c, x)\noutput y\n"},
    {"dynamic gemm", 0.02,
     "input x f32[N,24]\nconst w i8[24,9] = rnd\nquant w i8 scale=0.004\nconst b f32[9] = rnd\ny = gemm(x, w, b) dynamic=1\noutput y\n"},
    {"dynamic matmul", 0.02, "input x f32[N,3,24]\nconst w i8[24,9] = rnd\nquant w i8 scale=0.004\ny = matmul(x, w) dynamic=1\noutput y\n"},
};
/* clang-format on */

/* Against exact arithmetic the error of 8-bit inputs is far below two hundredths of the largest output; and a sample's result is its own. */
static void dynamic_ranges_are_per_sample(void **state) {
  (void)state;
  for (size_t c = 0; c < sizeof dynamic_cases / sizeof *dynamic_cases; c++) {
    oct_graph *graph = exec_parse(dynamic_cases[c].text);
    exec_tensors whole = exec_inputs(graph, 3), one = exec_inputs(graph, 1), want = exec_expected(graph, &whole);
    for (size_t k = 0; k < whole.item[0]->bytes / 12; k++)
      ((float *)whole.item[0]->data)[k] *= 100; /* sample 0 is a hundred times larger */
    exec_tensors all = exec_run(graph, (exec_form){.fuse = OCT_FUSE_ALL}, &whole);
    for (size_t n = 0; n < 3; n++) {
      memcpy(one.item[0]->data, (char *)whole.item[0]->data + n * one.item[0]->bytes, one.item[0]->bytes);
      exec_tensors alone = exec_run(graph, (exec_form){.fuse = OCT_FUSE_ALL}, &one);
      assert_memory_equal(alone.item[0]->data, (char *)all.item[0]->data + n * alone.item[0]->bytes, alone.item[0]->bytes);
      const float *exact = (const float *)want.item[0]->data + n * alone.item[0]->bytes / 4;
      double largest = 0, worst = 0;
      for (size_t k = 0; n > 0 && k < alone.item[0]->bytes / 4; k++) {
        largest = fmax(largest, fabs((double)exact[k]));
        worst = fmax(worst, fabs((double)exact[k] - (double)((float *)alone.item[0]->data)[k]));
      }
      if (worst > dynamic_cases[c].step * largest) print_error("%s: %g of %g\n", dynamic_cases[c].title, worst, largest);
      assert_true(worst <= dynamic_cases[c].step * largest);
      exec_free(&alone);
    }
    check_everywhere(dynamic_cases[c].title, graph, 3, 3);
    exec_free(&whole);
    exec_free(&one);
    exec_free(&want);
    exec_free(&all);
    oct_graph_destroy(graph);
  }
}

static void integer_weights_in_float_arithmetic(void **state) {
  (void)state;
  exec_agrees("weight-only convolution", "input x f32[N,4,7,6]\n" W4("w", "3") "c = conv(x, w) pads=1,1,1,1\ny = relu(c)\noutput y\n", 0);
  exec_agrees("weight-only depthwise", "input x f32[N,4,7,6]\n" W("w", "1", "4", "3") "y = conv(x, w) pads=1,1,1,1 group=4\noutput y\n", 0);
  exec_agrees(
      "weight-only gemm",
      "input x f32[N,24]\nconst w i8[9,24] = rnd\nquant w i8 scale=0.004\nconst b f32[9] = rnd\ny = gemm(x, w, b) transB=1\noutput y\n", 0);
  exec_agrees("weight-only matmul", "input x f32[N,2,24]\nconst w i8[24,9] = rnd\nquant w i8 scale=0.004\ny = matmul(x, w)\noutput y\n", 0);
  exec_agrees("half-precision weights", "input x f32[N,4,7,6]\nconst h f16[4,4,3,3] = rnd\nw = cast(h) to=f32\ny = conv(x, w)\noutput y\n",
              0);
}

/* The profile of a model picks its rounding rule; both give the same bytes everywhere. */
static void the_tflite_profile_too(void **state) {
  (void)state;
  char buffer[4096];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (strstr(cases[i].text, "i16")) continue; /* float arithmetic inside */
    oct_graph *graph = exec_parse(with_lists(cases[i].text, buffer, sizeof buffer));
    check(oct_graph_set_metadata(ctx, graph, "profile", "tflite"));
    check_everywhere(cases[i].title, graph, 3, 3);
    oct_graph_destroy(graph);
  }
}

/* A sum that is rounded once has one rule (docs/numerics.md), where a single product has two. */
static void sums_are_rounded_alike(void **state) {
  (void)state;
  /* clang-format off */
  static const char *const texts[] = {
      "input x f32[N,16,9,8]\ninput r f32[N,16,9,8]\n" U8("x", "0.5", "128") U8("r", "0.5", "128")
      "const w i8[16,16,3,3] = rnd\nquant w i8 scale=0.0625\nc = conv(x, w) pads=1,1,1,1\nt = add(c, r)\n" U8("t", "0.5", "128") "output t\n",
      "input x f32[N,16,9,8]\n" U8("x", "0.5", "128")
      "const w i8[16,16,3,3] = rnd\nquant w i8 scale=0.0625\nt = conv(x, w) pads=1,1,1,1\n" U8("t", "0.5", "128") "output t\n"};
  /* clang-format on */
  for (size_t i = 0; i < 2; i++) {
    oct_graph *graph = exec_parse(texts[i]);
    exec_tensors inputs = exec_inputs(graph, 2);
    exec_tensors onnx = exec_run(graph, (exec_form){.fuse = OCT_FUSE_ALL}, &inputs);
    check(oct_graph_set_metadata(ctx, graph, "profile", "tflite"));
    exec_tensors tflite = exec_run(graph, (exec_form){.fuse = OCT_FUSE_ALL}, &inputs);
    assert_int_equal(exec_same_bytes(&onnx, &tflite), i == 0);
    exec_free(&inputs);
    exec_free(&onnx);
    exec_free(&tflite);
    oct_graph_destroy(graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(quantized_graphs_agree_with_the_references),
      cmocka_unit_test(bytes_are_the_same_everywhere),
      cmocka_unit_test(larger_graphs_too),
      cmocka_unit_test(weights_that_serve_two_strides),
      cmocka_unit_test(dynamic_ranges_are_per_sample),
      cmocka_unit_test(integer_weights_in_float_arithmetic),
      cmocka_unit_test(the_tflite_profile_too),
      cmocka_unit_test(sums_are_rounded_alike),
  };
  return cmocka_run_group_tests(tests, context_create, context_destroy);
}
