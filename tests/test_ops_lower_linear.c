/* Convolution, gemm and matmul as sessions run them in 8 bits: static, with fused residual, clamp and table, with float output, and dynamic.
 * Expected values come from int64 loops and the formulas of kernels/numerics.h written out here; they must be met exactly.
 * SPDX-License-Identifier: MIT */
#include "context_checks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/session.h"
#include "ops/op.h"

enum {
  RELU = 1,
  RESIDUAL = 2,
  TABLE = 4,
  FLOAT_OUT = 8,
  SIGNED = 16,
  BIAS = 32,
  FLOAT_BIAS = 64,
  BIAS_RESCALED = 128,
  DYNAMIC = 256,
  PER_TENSOR = 512,
  SIGNED_OUT = 1024,
  FLOAT_PATH = 2048
};

typedef struct linear_case {
  const char *op;
  int n, c, h, w, o, kh, kw, group, stride, dilation, pads[4];
  int flags;
} linear_case;

static const linear_case cases[] = {
    {"conv", 1, 3, 8, 8, 4, 3, 3, 1, 1, 1, {1, 1, 1, 1}, BIAS},
    {"conv", 2, 5, 7, 9, 17, 3, 2, 1, 2, 1, {2, 0, 1, 1}, SIGNED},
    {"conv", 1, 16, 9, 9, 16, 3, 3, 16, 1, 1, {1, 1, 1, 1}, BIAS | RELU},
    {"conv", 1, 8, 6, 6, 8, 3, 3, 2, 1, 2, {2, 2, 2, 2}, SIGNED | BIAS | SIGNED_OUT},
    {"conv", 3, 64, 5, 5, 65, 1, 1, 1, 1, 1, {0}, FLOAT_BIAS | RESIDUAL | RELU},
    {"conv", 1, 4, 7, 7, 32, 3, 3, 1, 2, 1, {1, 1, 1, 1}, BIAS | TABLE},
    {"conv", 1, 4, 7, 7, 10, 3, 3, 1, 1, 1, {1, 1, 1, 1}, BIAS | TABLE | RESIDUAL | SIGNED_OUT},
    {"conv", 2, 4, 5, 6, 9, 3, 3, 1, 1, 1, {1, 1, 1, 1}, BIAS | FLOAT_OUT | RELU},
    {"conv", 1, 4, 5, 6, 9, 3, 3, 1, 1, 1, {1, 1, 1, 1}, BIAS_RESCALED},
    {"conv", 1, 4, 5, 6, 9, 3, 3, 1, 1, 1, {1, 1, 1, 1}, BIAS | PER_TENSOR},
    {"conv", 2, 4, 5, 6, 9, 3, 3, 1, 2, 1, {1, 0, 1, 2}, FLOAT_BIAS | DYNAMIC | RELU},
    {"conv", 2, 6, 5, 6, 6, 3, 3, 6, 1, 1, {1, 1, 1, 1}, DYNAMIC | RESIDUAL},
    {"conv1d", 2, 6, 1, 19, 5, 1, 3, 1, 2, 1, {0, 2, 0, 1}, BIAS | RELU},
    {"conv1d", 2, 6, 1, 19, 5, 1, 3, 1, 1, 1, {0, 1, 0, 1}, FLOAT_BIAS | DYNAMIC},
    {"conv", 1, 5, 6, 6, 7, 3, 3, 1, 1, 1, {1, 1, 1, 1}, FLOAT_BIAS | FLOAT_PATH | RELU},
    {"gemm", 5, 32, 1, 1, 10, 1, 1, 1, 1, 1, {0}, BIAS},
    {"gemm_t", 1, 17, 1, 1, 9, 1, 1, 1, 1, 1, {0}, FLOAT_BIAS | SIGNED | FLOAT_OUT},
    {"gemm", 3, 65, 1, 1, 33, 1, 1, 1, 1, 1, {0}, BIAS | RELU | RESIDUAL},
    {"gemm", 4, 40, 1, 1, 12, 1, 1, 1, 1, 1, {0}, FLOAT_BIAS | DYNAMIC},
    {"matmul", 6, 31, 1, 1, 70, 1, 1, 1, 1, 1, {0}, TABLE},
    {"matmul", 6, 31, 1, 1, 7, 1, 1, 1, 1, 1, {0}, DYNAMIC | RELU},
    {"matmul", 6, 31, 1, 1, 7, 1, 1, 1, 1, 1, {0}, FLOAT_PATH},
};

#define LIMIT 20000

typedef struct problem {
  const linear_case *c;
  int oh, ow;
  float x[LIMIT], residual[LIMIT];
  int32_t q[LIMIT], rq[LIMIT], bias_q[256];
  int8_t w[LIMIT];
  float sw[256], bias[256];
  float sx, sr, so, st; /* scales: input, residual, output, table's output */
  int32_t zx, zr, zo, zt;
} problem;

static problem P;
static uint32_t seed;

static int32_t next(int32_t low, int32_t high) {
  seed = seed * 1664525u + 1013904223u;
  return low + (int32_t)((seed >> 8) % (uint32_t)(high - low + 1));
}

static bool is(const linear_case *c, int flag) { return (c->flags & flag) != 0; }
static int inputs_of(const linear_case *c) { return c->n * c->c * c->h * c->w; }
static int outputs_of(void) { return P.c->n * P.c->o * P.oh * P.ow; }
static int depth_of(const linear_case *c) { return c->c / c->group * c->kh * c->kw; }

static void fill(const linear_case *c) {
  memset(&P, 0, sizeof P);
  P.c = c;
  bool line = c->h == 1;
  P.oh = (c->h + c->pads[0] + c->pads[2] - (c->kh - 1) * c->dilation - 1) / (line ? 1 : c->stride) + 1;
  P.ow = (c->w + c->pads[1] + c->pads[3] - (c->kw - 1) * c->dilation - 1) / c->stride + 1;
  P.sx = 0.021f, P.zx = is(c, SIGNED) ? -11 : 117;
  P.sr = 0.034f, P.zr = 99;
  P.so = 0.11f, P.zo = is(c, SIGNED_OUT) ? -3 : 121;
  P.st = 1.0f / 256, P.zt = 0;
  for (int i = 0; i < inputs_of(c); i++) {
    P.q[i] = is(c, SIGNED) ? next(-128, 127) : next(0, 255);
    P.x[i] = is(c, DYNAMIC) || is(c, FLOAT_PATH) ? (float)next(-5000, 7000) / 1024 : (float)(P.q[i] - P.zx) * P.sx;
  }
  for (int i = 0; i < outputs_of(); i++) P.rq[i] = next(0, 255), P.residual[i] = (float)(P.rq[i] - P.zr) * P.sr;
  for (int i = 0; i < c->o * depth_of(c); i++) P.w[i] = (int8_t)next(-127, 127);
  for (int i = 0; i < c->o; i++) {
    P.sw[i] = is(c, PER_TENSOR) ? 0.003f : 0.001f + 0.0001f * (float)(i % 17);
    P.bias_q[i] = next(-3000, 3000);
    P.bias[i] = (float)next(-3000, 3000) / 2048;
  }
}

/* ---- what is right ---- */

static int64_t input_index(int n, int channel, int y, int x) { return ((int64_t)(n * P.c->c + channel) * P.c->h + y) * P.c->w + x; }

/* Sum over the window of (value - zero) * w; padding counts as zero. */
static int64_t accumulate(const int32_t *q, int32_t zero, int n, int o, int oy, int ox) {
  const linear_case *c = P.c;
  int per = c->c / c->group, first = o / (c->o / c->group) * per, sy = c->h == 1 ? 1 : c->stride;
  int64_t sum = 0;
  for (int k = 0; k < per; k++)
    for (int i = 0; i < c->kh; i++)
      for (int j = 0; j < c->kw; j++) {
        int y = oy * sy - c->pads[0] + i * c->dilation, x = ox * c->stride - c->pads[1] + j * c->dilation;
        if (y < 0 || x < 0 || y >= c->h || x >= c->w) continue;
        sum += (int64_t)(q[input_index(n, first + k, y, x)] - zero) * P.w[((o * per + k) * c->kh + i) * c->kw + j];
      }
  return sum;
}

static double real_sum(int n, int o, int oy, int ox) {
  const linear_case *c = P.c;
  int per = c->c / c->group, first = o / (c->o / c->group) * per, sy = c->h == 1 ? 1 : c->stride;
  double sum = 0;
  for (int k = 0; k < per; k++)
    for (int i = 0; i < c->kh; i++)
      for (int j = 0; j < c->kw; j++) {
        int y = oy * sy - c->pads[0] + i * c->dilation, x = ox * c->stride - c->pads[1] + j * c->dilation;
        if (y < 0 || x < 0 || y >= c->h || x >= c->w) continue;
        sum += (double)P.x[input_index(n, first + k, y, x)] * (double)((float)P.w[((o * per + k) * c->kh + i) * c->kw + j] * P.sw[o]);
      }
  return sum;
}

static float clamp_relu(float t) { return is(P.c, RELU) && t < 0 ? 0 : t; }

static int32_t round_to(float t, int32_t zero, int32_t low, int32_t high) {
  float r = rintf(t) + (float)zero;
  return r < (float)low ? low : r > (float)high ? high : (int32_t)r;
}

static float bias_of(int o) { return is(P.c, FLOAT_BIAS) ? P.bias[o] : 0; }

static float expect_static(int64_t index, int n, int o, int oy, int ox) {
  const linear_case *c = P.c;
  float unit = P.sx * P.sw[o];
  int64_t acc = accumulate(P.q, P.zx, n, o, oy, ox);
  if (is(c, BIAS)) acc += P.bias_q[o];
  if (is(c, FLOAT_BIAS)) acc += (int64_t)rint((double)P.bias[o] / (double)unit);
  if (is(c, BIAS_RESCALED)) acc += (int64_t)rint((double)P.bias_q[o] * (double)1e-4f / (double)unit);
  if (is(c, FLOAT_OUT)) return clamp_relu((float)acc * unit);
  float t = (float)acc * (unit / P.so);
  if (is(c, RESIDUAL)) t += (float)(P.rq[index] - P.zr) * (P.sr / P.so);
  int32_t q = round_to(clamp_relu(t), P.zo, is(c, SIGNED_OUT) ? -128 : 0, is(c, SIGNED_OUT) ? 127 : 255);
  float y = (float)(q - P.zo) * P.so;
  if (!is(c, TABLE)) return y;
  double s = 1 / (1 + exp(-(double)y)); /* 8-bit steps are far wider than libm's error */
  return (float)(round_to((float)s / P.st, P.zt, 0, 255) - P.zt) * P.st;
}

/* Dynamic: the range of the image, or of the row. */
static float expect_dynamic(int64_t index, int n, int o, int oy, int ox) {
  const linear_case *c = P.c;
  int count = c->c * c->h * c->w;
  const float *x = P.x + (int64_t)n * count;
  float low = 0, high = 0;
  static int32_t q[LIMIT];
  for (int i = 0; i < count; i++) low = fminf(low, x[i]), high = fmaxf(high, x[i]);
  float scale = (high - low) / 255.0f;
  int32_t zero = (int32_t)rintf(-low / scale);
  for (int i = 0; i < count; i++) q[n * count + i] = round_to(x[i] / scale, zero, 0, 255);
  float y = (float)accumulate(q, zero, n, o, oy, ox) * (scale * P.sw[o]) + bias_of(o);
  if (is(c, RESIDUAL)) y += P.residual[index];
  return clamp_relu(y);
}

/* ---- the graph ---- */

static void ok(octet_status status) {
  if (status != OCTET_OK) fail_msg("%s", ctx->message);
}

static void set_quant(oct_graph *g, oct_value *v, oct_dtype dtype, int axis, int64_t count, const float *scale, const int32_t *zero) {
  oct_quant q = {.dtype = dtype, .axis = axis, .count = count, .scale = (float *)scale, .zero_point = (int32_t *)zero};
  ok(oct_value_set_quant(ctx, g, v, &q));
}

static oct_value *add_weights(oct_graph *g) {
  static const int32_t zeros[256];
  const linear_case *c = P.c;
  bool matrix = c->op[0] != 'c', by_n = strcmp(c->op, "gemm_t") == 0, line = strcmp(c->op, "conv1d") == 0;
  int depth = depth_of(c);
  oct_shape shape = matrix ? (by_n ? oct_shape_of(2, (int64_t)c->o, (int64_t)depth) : oct_shape_of(2, (int64_t)depth, (int64_t)c->o))
                           : oct_shape_of(4, (int64_t)c->o, (int64_t)(c->c / c->group), (int64_t)c->kh, (int64_t)c->kw);
  if (line) shape = oct_shape_of(3, (int64_t)c->o, (int64_t)(c->c / c->group), (int64_t)c->kw);
  bool turned = matrix && !by_n;
  oct_tensor *t;
  oct_value *w;
  ok(oct_tensor_create(ctx, is(c, FLOAT_PATH) ? OCT_F32 : OCT_I8, &shape, &t));
  for (int o = 0; o < c->o; o++)
    for (int k = 0; k < depth; k++) {
      int at = turned ? k * c->o + o : o * depth + k;
      if (is(c, FLOAT_PATH)) ((float *)t->data)[at] = (float)P.w[o * depth + k] * P.sw[o];
      else ((int8_t *)t->data)[at] = P.w[o * depth + k];
    }
  ok(oct_graph_constant(ctx, g, "w", t, &w));
  if (!is(c, FLOAT_PATH)) set_quant(g, w, OCT_I8, is(c, PER_TENSOR) ? -1 : turned ? 1 : 0, is(c, PER_TENSOR) ? 1 : c->o, P.sw, zeros);
  return w;
}

static oct_value *add_bias(oct_graph *g) {
  static const int32_t zeros[256];
  const linear_case *c = P.c;
  if (!is(c, BIAS) && !is(c, FLOAT_BIAS) && !is(c, BIAS_RESCALED)) return NULL;
  oct_shape shape = oct_shape_of(1, (int64_t)c->o);
  oct_tensor *t;
  oct_value *b;
  float scales[256];
  ok(oct_tensor_create(ctx, is(c, FLOAT_BIAS) ? OCT_F32 : OCT_I32, &shape, &t));
  memcpy(t->data, is(c, FLOAT_BIAS) ? (const void *)P.bias : (const void *)P.bias_q, (size_t)c->o * 4);
  ok(oct_graph_constant(ctx, g, "b", t, &b));
  for (int o = 0; o < c->o; o++) scales[o] = is(c, BIAS_RESCALED) ? 1e-4f : P.sx * P.sw[o];
  if (!is(c, FLOAT_BIAS)) set_quant(g, b, OCT_I32, is(c, BIAS_RESCALED) ? -1 : 0, is(c, BIAS_RESCALED) ? 1 : c->o, scales, zeros);
  return b;
}

static oct_value *add_node(oct_graph *g, const char *op, oct_value **in, int n, oct_node **node) {
  oct_node *made;
  ok(oct_graph_node(ctx, g, oct_op_find(op), op, in, n, 1, &made));
  if (node) *node = made;
  else ok(oct_node_infer(ctx, made));
  return made->outputs[0];
}

static oct_value *add_root(oct_graph *g, oct_value *x) {
  const linear_case *c = P.c;
  oct_value *in[3] = {x, add_weights(g), add_bias(g)};
  oct_node *node;
  bool conv = c->op[0] == 'c', line = strcmp(c->op, "conv1d") == 0;
  oct_value *y = add_node(g, conv ? "conv" : c->op[0] == 'g' ? "gemm" : "matmul", in, in[2] ? 3 : 2, &node);
  if (conv) {
    int64_t strides[2] = {c->stride, c->stride}, dilations[2] = {c->dilation, c->dilation},
            pads[4] = {c->pads[0], c->pads[1], c->pads[2], c->pads[3]};
    if (line) pads[0] = c->pads[1], pads[1] = c->pads[3];
    ok(oct_node_set_ints(ctx, g, node, "strides", strides, line ? 1 : 2));
    ok(oct_node_set_ints(ctx, g, node, "dilations", dilations, line ? 1 : 2));
    ok(oct_node_set_ints(ctx, g, node, "pads", pads, line ? 2 : 4));
    ok(oct_node_set_int(ctx, g, node, "group", c->group));
  }
  if (strcmp(c->op, "gemm_t") == 0) ok(oct_node_set_int(ctx, g, node, "transB", 1));
  if (is(c, DYNAMIC)) ok(oct_node_set_int(ctx, g, node, "dynamic", 1));
  ok(oct_node_infer(ctx, node));
  return y;
}

static oct_graph *build(void) {
  const linear_case *c = P.c;
  oct_graph *g;
  oct_value *x, *y, *r;
  bool integer = !is(c, DYNAMIC) && !is(c, FLOAT_PATH);
  oct_shape in = oct_shape_of(4, (int64_t)c->n, (int64_t)c->c, (int64_t)c->h, (int64_t)c->w);
  if (c->op[0] != 'c') in.rank = 2;
  if (strcmp(c->op, "conv1d") == 0) in = oct_shape_of(3, (int64_t)c->n, (int64_t)c->c, (int64_t)c->w);
  if (strcmp(c->op, "matmul") == 0) in = oct_shape_of(3, (int64_t)2, (int64_t)c->n / 2, (int64_t)c->c);
  ok(oct_graph_create(ctx, "linear", &g));
  ok(oct_graph_input(ctx, g, "x", OCT_F32, &in, &x));
  if (integer) set_quant(g, x, is(c, SIGNED) ? OCT_I8 : OCT_U8, -1, 1, &P.sx, &P.zx);
  y = add_root(g, x);
  if (is(c, RESIDUAL)) {
    ok(oct_graph_input(ctx, g, "r", OCT_F32, &y->shape, &r));
    if (integer) set_quant(g, r, OCT_U8, -1, 1, &P.sr, &P.zr);
    oct_value *both[2] = {y, r};
    y = add_node(g, "add", both, 2, NULL);
  }
  if (is(c, RELU)) y = add_node(g, "relu", &y, 1, NULL);
  if (integer && !is(c, FLOAT_OUT)) set_quant(g, y, is(c, SIGNED_OUT) ? OCT_I8 : OCT_U8, -1, 1, &P.so, &P.zo);
  if (is(c, TABLE)) {
    y = add_node(g, "sigmoid", &y, 1, NULL);
    set_quant(g, y, OCT_U8, -1, 1, &P.st, &P.zt);
  }
  ok(oct_graph_output(ctx, g, y));
  return g;
}

static void check_result(const float *got, const char *isa) {
  const linear_case *c = P.c;
  for (int64_t i = 0; i < outputs_of(); i++) {
    int ox = (int)(i % P.ow), oy = (int)(i / P.ow % P.oh), o = (int)(i / P.ow / P.oh % c->o), n = (int)(i / P.ow / P.oh / c->o);
    float want, bound = 0;
    if (is(c, FLOAT_PATH)) {
      want = clamp_relu((float)(real_sum(n, o, oy, ox) + (double)bias_of(o)));
      bound = 1e-4f;
    } else {
      want = is(c, DYNAMIC) ? expect_dynamic(i, n, o, oy, ox) : expect_static(i, n, o, oy, ox);
    }
    if (!(fabsf(got[i] - want) <= bound))
      fail_msg("case %d (%s), %s: output (%d,%d,%d,%d) is %.9g instead of %.9g", (int)(c - cases), c->op, isa, n, o, oy, ox, (double)got[i],
               (double)want);
  }
}

static void run_case(const linear_case *c, const char *isa) {
  oct_session_options options = oct_session_options_default();
  oct_session *session;
  bool integer_kernel = false;
  seed = (uint32_t)(c - cases) + 1;
  fill(c);
  oct_graph *g = build();
  if (!oct_isa_cap(isa, &options.isa_mask)) fail_msg("no instruction set %s", isa);
  options.isa_mask &= oct_isa_detect();
  ok(oct_session_create(ctx, g, &options, &session));
  for (size_t k = 0; k < oct_session_inputs(session); k++) {
    oct_session_port port = oct_session_input(session, k);
    memcpy(port.data, port.value->name[0] == 'x' ? P.x : P.residual, port.bytes);
  }
  for (size_t k = 0; k < session->n_steps; k++) {
    integer_kernel = integer_kernel || strncmp(session->steps[k]->kernel, "conv_i8", 7) == 0;
    if (strcmp(session->steps[k]->kernel, "reference") == 0) fail_msg("case %d (%s) runs by the reference", (int)(c - cases), c->op);
  }
  if (integer_kernel == is(c, FLOAT_PATH))
    fail_msg("case %d (%s) does not run in %s", (int)(c - cases), c->op, integer_kernel ? "floats" : "integers");
  ok(oct_session_run(session));
  check_result(oct_session_output(session, 0).data, isa);
  oct_session_destroy(session);
  oct_graph_destroy(g);
}

static void test_cases(void **state) {
  (void)state;
  static const char *const isas[] = {"scalar", "avx2", "avx512vnni"};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int k = 0; k < 3; k++) run_case(&cases[i], isas[k]);
}

/* 65536 products of 127 * 255 leave int32: the layer must run in floats, and say why. */
static void test_overflow(void **state) {
  (void)state;
  static const linear_case wide = {"gemm_t", 1, 100000, 1, 1, 1, 1, 1, 1, 1, 1, {0}, 0};
  oct_graph *g;
  oct_value *x, *w, *in[2];
  oct_tensor *t;
  oct_node *node;
  oct_session *session;
  float scale = 0.01f, so = 1000;
  int32_t zero = 0;
  oct_shape xs = oct_shape_of(2, (int64_t)1, (int64_t)wide.c), ws = oct_shape_of(2, (int64_t)1, (int64_t)wide.c);
  ok(oct_graph_create(ctx, "wide", &g));
  ok(oct_graph_input(ctx, g, "x", OCT_F32, &xs, &x));
  set_quant(g, x, OCT_U8, -1, 1, &scale, &zero);
  ok(oct_tensor_create(ctx, OCT_I8, &ws, &t));
  memset(t->data, 127, t->bytes);
  ok(oct_graph_constant(ctx, g, "w", t, &w));
  set_quant(g, w, OCT_I8, -1, 1, &scale, &zero);
  in[0] = x, in[1] = w;
  ok(oct_graph_node(ctx, g, oct_op_find("gemm"), "wide", in, 2, 1, &node));
  ok(oct_node_set_int(ctx, g, node, "transB", 1));
  ok(oct_node_infer(ctx, node));
  set_quant(g, node->outputs[0], OCT_U8, -1, 1, &so, &zero);
  ok(oct_graph_output(ctx, g, node->outputs[0]));
  oct_session_options options = oct_session_options_default();
  ok(oct_session_create(ctx, g, &options, &session));
  float *data = oct_session_input(session, 0).data;
  for (int i = 0; i < wide.c; i++) data[i] = 2.55f;
  ok(oct_session_run(session));
  const float *y = oct_session_output(session, 0).data;
  assert_true(y[0] == 255000.0f); /* 100000 * 2.55 * 1.27 = 323850 saturates at 255 * 1000 */
  bool said = false;
  for (size_t k = 0; k < session->n_steps; k++) said = said || (session->steps[k]->reason && strstr(session->steps[k]->reason, "int32"));
  assert_true(said);
  oct_session_destroy(session);
  oct_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_overflow)};
  return cmocka_run_group_tests(tests, context_create, context_destroy);
}
