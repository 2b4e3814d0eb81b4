/* Convolution (ONNX Conv): contract, shape inference, reference loops for any number of spatial axes, imports.
 * Lowering to the convolution kernels is in accumulate.c, shared with gemm and matmul. QLinearConv is imported as
 * dequantize - conv - quantize.
 * SPDX-License-Identifier: MIT */
#include "ops/accumulate.h"
#include "ops/qlinear.h"
#include "ops/window.h"

static octet_status check_channels(octet_context *ctx, const oct_node *node, const oct_shape *x, const oct_shape *w) {
  int64_t group = oct_node_int(node, "group"), in = x->dim[1], per_group = w->dim[1], out = w->dim[0];
  if (group < 1) return oct_infer_fail(ctx, node, "group is %lld; it must be at least 1", (long long)group);
  if (in >= 0 && per_group >= 0 && (in % group != 0 || in / group != per_group))
    return oct_infer_fail(ctx, node, "the input has %lld channels in %lld group(s), but the weights take %lld per group", (long long)in,
                          (long long)group, (long long)per_group);
  if (out >= 0 && out % group != 0)
    return oct_infer_fail(ctx, node, "%lld output channels do not divide into %lld groups", (long long)out, (long long)group);
  return OCTET_OK;
}

octet_status oct_conv_infer_shape(octet_context *ctx, oct_node *node, oct_dtype dtype) {
  const oct_value *x = node->inputs[0], *w = node->inputs[1];
  const oct_shape *xs = x->has_shape ? &x->shape : NULL, *ws = w->has_shape ? &w->shape : NULL;
  char a[OCT_SHAPE_TEXT], b[OCT_SHAPE_TEXT];
  if (!xs) {
    oct_infer_set(node->outputs[0], dtype, NULL);
    return OCTET_OK;
  }
  if (xs->rank < 3) return oct_infer_fail(ctx, node, "the input %s has rank below 3; it must be [N,C,spatial...]", oct_shape_text(xs, a));
  if (ws && ws->rank != xs->rank)
    return oct_infer_fail(ctx, node, "the weights %s must have the rank of the input %s", oct_shape_text(ws, a), oct_shape_text(xs, b));
  int64_t kernel[OCT_WINDOW_MAX];
  OCT_TRY(oct_window_kernel(ctx, node, ws, xs->rank - 2, kernel));
  if (ws) OCT_TRY(check_channels(ctx, node, xs, ws));
  oct_window window;
  OCT_TRY(oct_window_infer(ctx, node, xs, kernel, false, &window));
  oct_shape out = {.rank = xs->rank, .dim = {xs->dim[0], ws ? ws->dim[0] : OCT_DIM_UNKNOWN}};
  for (int i = 0; i < window.rank; i++) out.dim[i + 2] = window.out[i];
  oct_infer_set(node->outputs[0], dtype, &out);
  return OCTET_OK;
}

static octet_status infer(octet_context *ctx, oct_node *node) {
  const oct_value *x = node->inputs[0], *w = node->inputs[1], *b = node->n_inputs > 2 ? node->inputs[2] : NULL;
  if (x->dtype != OCT_DTYPE_NONE && !oct_dtype_is_float(x->dtype))
    return oct_infer_fail(ctx, node, "the input is %s; it must be a float", oct_dtype_name(x->dtype));
  for (int i = 1; i < node->n_inputs; i++) {
    const oct_value *v = node->inputs[i];
    if (v && v->dtype != x->dtype && v->dtype != OCT_DTYPE_NONE && x->dtype != OCT_DTYPE_NONE)
      return oct_infer_fail(ctx, node, "the input is %s, but '%s' is %s", oct_dtype_name(x->dtype), v->name, oct_dtype_name(v->dtype));
  }
  if (b && b->has_shape) {
    char text[OCT_SHAPE_TEXT];
    int64_t channels = w->has_shape && w->shape.rank > 0 ? w->shape.dim[0] : OCT_DIM_UNKNOWN;
    if (b->shape.rank != 1 || (channels >= 0 && b->shape.dim[0] >= 0 && b->shape.dim[0] != channels))
      return oct_infer_fail(ctx, node, "the bias is %s; it must be [%lld], one per output channel", oct_shape_text(&b->shape, text),
                            (long long)channels);
  }
  return oct_conv_infer_shape(ctx, node, x->dtype);
}

static octet_status window_of(octet_context *ctx, const oct_node *node, const oct_shape *in, const oct_shape *weights, oct_window *window) {
  int64_t kernel[OCT_WINDOW_MAX];
  OCT_TRY(oct_window_kernel(ctx, node, weights, in->rank - 2, kernel));
  return oct_window_infer(ctx, node, in, kernel, false, window);
}

/* ---- Reference: double accumulation ------------------------------------------------------------------------ */

typedef struct conv_loops {
  oct_window window;
  int64_t taps, positions, in_size, in_channels, out_channels, group_in, group_out;
  oct_dtype x_dtype, w_dtype;
  const void *x, *w;
} conv_loops;

static double sum_at(const conv_loops *c, int64_t n, int64_t channel, int64_t position) {
  int64_t first = channel / c->group_out * c->group_in;
  double sum = 0;
  for (int64_t tap = 0; tap < c->taps; tap++) {
    int64_t offset = oct_window_offset(&c->window, position, tap, NULL);
    if (offset < 0) continue;
    int64_t xi = (n * c->in_channels + first) * c->in_size + offset, wi = channel * c->group_in * c->taps + tap;
    if (c->x_dtype == OCT_F32 && c->w_dtype == OCT_F32) {
      const float *x = (const float *)c->x + xi, *w = (const float *)c->w + wi;
      for (int64_t i = 0; i < c->group_in; i++) sum += (double)x[i * c->in_size] * (double)w[i * c->taps];
    } else {
      for (int64_t i = 0; i < c->group_in; i++)
        sum += oct_get_f64(c->x, c->x_dtype, xi + i * c->in_size) * oct_get_f64(c->w, c->w_dtype, wi + i * c->taps);
    }
  }
  return sum;
}

static octet_status reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  const oct_tensor *x = in[0], *w = in[1], *b = node->n_inputs > 2 ? in[2] : NULL;
  conv_loops c = {.x = x->data, .w = w->data, .x_dtype = x->dtype, .w_dtype = w->dtype};
  int64_t group = oct_node_int(node, "group"), total = oct_shape_count(&out[0]->shape);
  if (total == 0) return OCTET_OK;
  OCT_TRY(window_of(ctx, node, &x->shape, &w->shape, &c.window));
  c.taps = oct_window_taps(&c.window), c.positions = oct_window_positions(&c.window);
  c.in_channels = x->shape.dim[1], c.out_channels = w->shape.dim[0];
  c.group_in = w->shape.dim[1], c.group_out = c.out_channels / group;
  c.in_size = 1;
  for (int i = 0; i < c.window.rank; i++) c.in_size *= c.window.in[i];
  for (int64_t i = 0; i < total; i++) {
    int64_t position = i % c.positions, channel = i / c.positions % c.out_channels, n = i / c.positions / c.out_channels;
    double y = sum_at(&c, n, channel, position);
    if (b) y += oct_get_f64(b->data, b->dtype, channel);
    oct_set_f64(out[0]->data, out[0]->dtype, i, y);
  }
  return OCTET_OK;
}

/* ---- Lowering ----------------------------------------------------------------------------------------------- */

static octet_status lower(oct_lowering *l, oct_node *node) {
  const oct_value *x = node->inputs[0], *w = node->inputs[1];
  if (oct_shape_count(&node->outputs[0]->shape) == 0 || oct_shape_count(&x->shape) == 0) return oct_lower_decline(l, "a dimension is zero");
  if (x->shape.rank > 4) return oct_lower_decline(l, "convolution over %d spatial axes has no kernel", x->shape.rank - 2);
  oct_window window;
  OCT_TRY(window_of(l->ctx, node, &x->shape, &w->shape, &window));
  oct_accumulate_problem p = {
      .node = node, .input = x, .weights = w, .bias = node->n_inputs > 2 ? node->inputs[2] : NULL, .spatial = true, .alpha = 1};
  if (!oct_window_conv_shape(&window, &x->shape, w->shape.dim[0], oct_node_int(node, "group"), &p.shape))
    return oct_lower_decline(l, "a size is beyond the kernels' range");
  p.pad_bottom = window.rank == 2 ? (int)window.after[0] : 0;
  p.pad_right = (int)window.after[window.rank - 1];
  return oct_accumulate_lower(l, &p);
}

static void border(const oct_node *node, int border[4]) {
  memset(border, 0, 4 * sizeof *border);
  const oct_value *x = node->inputs[0], *w = node->inputs[1];
  if (oct_node_int(node, "dynamic") && !x->quant) return; /* its 8-bit copy has the border */
  if (!x->has_shape || x->shape.rank < 3 || x->shape.rank > 4 || !w->has_shape || w->shape.rank != x->shape.rank) return;
  oct_window window;
  int axis;
  if (oct_window_make(node, &x->shape, &w->shape.dim[2], false, &window, &axis)) return;
  int last = window.rank - 1;
  int64_t wanted[4] = {last ? window.before[0] : 0, window.before[last], last ? window.after[0] : 0, window.after[last]};
  for (int i = 0; i < 4; i++) border[i] = wanted[i] <= INT16_MAX ? (int)wanted[i] : 0;
}

static oct_cost cost(const oct_node *node) {
  const oct_value *w = node->inputs[1], *y = node->outputs[0];
  int64_t outputs = y->has_shape ? oct_shape_count(&y->shape) : -1, weights = w->has_shape ? oct_shape_count(&w->shape) : -1;
  if (outputs < 0 || weights < 0 || w->shape.dim[0] < 1) return (oct_cost){0};
  return (oct_cost){.macs = (double)outputs * (double)(weights / w->shape.dim[0])};
}

static const oct_attribute_spec attributes[] = {
    OCT_WINDOW_ATTRIBUTES,
    {"group", OCT_ATTRIBUTE_INT, false, "1", 1, INT32_MAX, "groups of channels; the channel count makes it depthwise"},
    {"kernel_shape", OCT_ATTRIBUTE_INTS, false, "", 1, INT32_MAX, "kernel size; read from the weights when absent"},
    {"dynamic", OCT_ATTRIBUTE_INT, false, "0", 0, 2,
     "quantize the input at run time, per image: 1, or in the range of the whole tensor: 2"},
    {NULL, OCT_ATTRIBUTE_INT, false, NULL, 0, 0, NULL},
};

static const oct_import_row imports[] = {
    {"onnx", "Conv", 1, 0, NULL},
    {"onnx", "QLinearConv", 10, 0, oct_import_qlinear_conv},
    {NULL, NULL, 0, 0, NULL},
};
static const oct_export_row exports[] = {{"onnx", "Conv", NULL}, {NULL, NULL, NULL}};

static const char *const cases[] = {
    "in=f32[1,3,8,8],f32[4,3,3,3],- attr:strides=2,2 pads=1,1,1,1",
    "in=f32[2,5,7,9],f32[17,5,3,2],f32[17] attr:pads=2,0,1,1",
    "in=f32[1,8,9,9],f32[8,1,3,3],f32[8] attr:group=8 pads=1,1,1,1",
    "in=f32[1,6,7,5],f32[12,1,5,3],f32[12] attr:group=6 pads=2,1,2,1 strides=2,1",
    "in=f32[1,8,6,6],f32[8,4,3,3],- attr:group=2 dilations=2,2 pads=2,2,2,2",
    "in=f32[3,64,5,5],f32[65,64,1,1],f32[65]",
    "in=f32[1,3,11,11],f32[32,3,3,3],f32[32] attr:auto_pad=SAME_UPPER strides=2,2",
    "in=f32[1,4,10],f32[6,4,3],f32[6] attr:pads=1,1",
    "in=f32[1,2,4,5,6],f32[3,2,2,3,2],f32[3] attr:pads=0,1,0,1,1,0",
    NULL,
};

const oct_op oct_op_conv = {
    .name = "conv",
    .summary = "convolution over one or more spatial axes",
    .traits = OCT_TRAIT_ACCUMULATES | OCT_TRAIT_CHANNELS_LAST,
    .min_inputs = 2,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .attributes = attributes,
    .infer = infer,
    .reference = reference,
    .lower = lower,
    .border = border,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION, OCT_ROLE_WEIGHT, OCT_ROLE_BIAS}, .output = OCT_OUTPUT_OBSERVED},
    .imports = imports,
    .exports = exports,
    .cost = cost,
    .cases = cases,
};
