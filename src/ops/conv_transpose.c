/* Transposed convolution (ONNX ConvTranspose): contract, shape inference, reference loops for any number of spatial axes.
 * Weights are [in][out / group][kernel...]. It is lowered to ordinary convolutions: conv_transpose_lower.c.
 * SPDX-License-Identifier: MIT */
#include "ops/conv_transpose.h"

static octet_status check_channels(octet_context *ctx, const oct_node *node, const oct_shape *x, const oct_shape *w) {
  int64_t group = oct_node_int(node, "group"), in = x->dim[1];
  if (group < 1) return oct_infer_fail(ctx, node, "group is %lld; it must be at least 1", (long long)group);
  if (in >= 0 && w->dim[0] >= 0 && in != w->dim[0])
    return oct_infer_fail(ctx, node, "the input has %lld channels, but the weights take %lld", (long long)in, (long long)w->dim[0]);
  if (in >= 0 && in % group != 0)
    return oct_infer_fail(ctx, node, "%lld input channels do not divide into %lld groups", (long long)in, (long long)group);
  if (w->dim[1] > INT32_MAX) return oct_infer_fail(ctx, node, "%lld output channels per group are too many", (long long)w->dim[1]);
  return OCTET_OK;
}

static octet_status window_of(octet_context *ctx, const oct_node *node, const oct_shape *in, const oct_shape *weights, oct_window *w) {
  int64_t kernel[OCT_WINDOW_MAX];
  int axis;
  OCT_TRY(oct_window_kernel(ctx, node, weights, in->rank - 2, kernel));
  const char *why = oct_transpose_window(node, in, kernel, w, &axis);
  if (!why) return OCTET_OK;
  char text[OCT_SHAPE_TEXT];
  if (axis < 0) return oct_infer_fail(ctx, node, "%s; the input is %s", why, oct_shape_text(in, text));
  return oct_infer_fail(ctx, node, "spatial axis %d: %s (input %s, kernel %lld, stride %lld, pads %lld and %lld)", axis, why,
                        oct_shape_text(in, text), (long long)w->kernel[axis], (long long)w->stride[axis], (long long)w->before[axis],
                        (long long)w->after[axis]);
}

static octet_status check_types(octet_context *ctx, const oct_node *node) {
  const oct_value *x = node->inputs[0];
  if (x->dtype != OCT_DTYPE_NONE && !oct_dtype_is_float(x->dtype))
    return oct_infer_fail(ctx, node, "the input is %s; it must be a float", oct_dtype_name(x->dtype));
  for (int i = 1; i < node->n_inputs; i++) {
    const oct_value *v = node->inputs[i];
    if (v && v->dtype != x->dtype && v->dtype != OCT_DTYPE_NONE && x->dtype != OCT_DTYPE_NONE)
      return oct_infer_fail(ctx, node, "the input is %s, but '%s' is %s", oct_dtype_name(x->dtype), v->name, oct_dtype_name(v->dtype));
  }
  return OCTET_OK;
}

static octet_status infer(octet_context *ctx, oct_node *node) {
  const oct_value *x = node->inputs[0], *w = node->inputs[1], *b = node->n_inputs > 2 ? node->inputs[2] : NULL;
  const oct_shape *xs = &x->shape, *ws = w->has_shape ? &w->shape : NULL;
  char one[OCT_SHAPE_TEXT], two[OCT_SHAPE_TEXT];
  OCT_TRY(check_types(ctx, node));
  if (!x->has_shape) {
    oct_infer_set(node->outputs[0], x->dtype, NULL);
    return OCTET_OK;
  }
  if (xs->rank < 3) return oct_infer_fail(ctx, node, "the input %s has rank below 3; it must be [N,C,spatial...]", oct_shape_text(xs, one));
  if (ws && ws->rank != xs->rank)
    return oct_infer_fail(ctx, node, "the weights %s must have the rank of the input %s", oct_shape_text(ws, one), oct_shape_text(xs, two));
  if (ws) OCT_TRY(check_channels(ctx, node, xs, ws));
  oct_window window;
  OCT_TRY(window_of(ctx, node, xs, ws, &window));
  int64_t channels = ws && ws->dim[1] >= 0 ? ws->dim[1] * oct_node_int(node, "group") : OCT_DIM_UNKNOWN;
  if (b && b->has_shape && (b->shape.rank != 1 || (channels >= 0 && b->shape.dim[0] >= 0 && b->shape.dim[0] != channels)))
    return oct_infer_fail(ctx, node, "the bias is %s; it must be [%lld], one per output channel", oct_shape_text(&b->shape, one),
                          (long long)channels);
  oct_shape out = {.rank = xs->rank, .dim = {xs->dim[0], channels}};
  for (int i = 0; i < window.rank; i++) out.dim[i + 2] = window.out[i];
  oct_infer_set(node->outputs[0], x->dtype, &out);
  return OCTET_OK;
}

/* ---- Reference: double accumulation -------------------------------------------------------------------------------- */

typedef struct transpose_loops {
  oct_window window;
  int64_t taps, positions, in_size, group_in, group_out, in_channels, out_channels;
  const oct_tensor *x, *w;
} transpose_loops;

/* Offset within one channel of the input that kernel element `tap` carries to output `position`; -1: none. */
static int64_t source_of(const oct_window *w, int64_t position, int64_t tap) {
  int64_t offset = 0, step = 1;
  for (int i = w->rank - 1; i >= 0; i--) {
    int64_t at = position % w->out[i] + w->before[i] - tap % w->kernel[i] * w->dilation[i];
    position /= w->out[i];
    tap /= w->kernel[i];
    if (at < 0 || at % w->stride[i] != 0 || at / w->stride[i] >= w->in[i]) return -1;
    offset += at / w->stride[i] * step;
    step *= w->in[i];
  }
  return offset;
}

static double sum_at(const transpose_loops *t, int64_t n, int64_t channel, int64_t position) {
  int64_t first = channel / t->group_out * t->group_in, within = channel % t->group_out;
  double sum = 0;
  for (int64_t tap = 0; tap < t->taps; tap++) {
    int64_t offset = source_of(&t->window, position, tap);
    for (int64_t c = first; c < first + t->group_in && offset >= 0; c++)
      sum += oct_get_f64(t->x->data, t->x->dtype, (n * t->in_channels + c) * t->in_size + offset) *
             oct_get_f64(t->w->data, t->w->dtype, (c * t->group_out + within) * t->taps + tap);
  }
  return sum;
}

static octet_status reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  const oct_tensor *x = in[0], *w = in[1], *b = node->n_inputs > 2 ? in[2] : NULL;
  transpose_loops t = {.x = x, .w = w};
  int64_t group = oct_node_int(node, "group"), total = oct_shape_count(&out[0]->shape);
  if (total == 0) return OCTET_OK;
  OCT_TRY(window_of(ctx, node, &x->shape, &w->shape, &t.window));
  t.taps = oct_window_taps(&t.window), t.positions = oct_window_positions(&t.window);
  t.in_channels = x->shape.dim[1], t.group_in = t.in_channels / group;
  t.group_out = w->shape.dim[1], t.out_channels = t.group_out * group;
  t.in_size = 1;
  for (int i = 0; i < t.window.rank; i++) t.in_size *= t.window.in[i];
  for (int64_t i = 0; i < total; i++) {
    int64_t channel = i / t.positions % t.out_channels;
    double y = sum_at(&t, i / t.positions / t.out_channels, channel, i % t.positions);
    oct_set_f64(out[0]->data, out[0]->dtype, i, b ? y + oct_get_f64(b->data, b->dtype, channel) : y);
  }
  return OCTET_OK;
}

/* ---- The descriptor ----------------------------------------------------------------------------------------------- */

/* Where the weights have one entry per output channel; with groups of several channels, each entry serves one channel of every group. */
static int weight_axis(const oct_node *node) {
  const oct_value *w = node->inputs[1];
  int64_t group = oct_node_int(node, "group");
  bool depthwise = group > 1 && w->has_shape && w->shape.rank > 1 && w->shape.dim[0] == group && w->shape.dim[1] == 1;
  return depthwise ? 0 : 1;
}

static oct_cost cost(const oct_node *node) {
  const oct_value *x = node->inputs[0], *w = node->inputs[1];
  int64_t inputs = x->has_shape ? oct_shape_count(&x->shape) : -1, weights = w->has_shape ? oct_shape_count(&w->shape) : -1;
  if (inputs < 0 || weights < 0 || w->shape.dim[0] < 1) return (oct_cost){0};
  return (oct_cost){.macs = (double)inputs * (double)(weights / w->shape.dim[0])};
}

static const oct_attribute_spec attributes[] = {
    OCT_WINDOW_ATTRIBUTES,
    {"group", OCT_ATTRIBUTE_INT, false, "1", 1, INT32_MAX, "groups of channels"},
    {"kernel_shape", OCT_ATTRIBUTE_INTS, false, "", 1, INT32_MAX, "kernel size; read from the weights when absent"},
    {"output_padding", OCT_ATTRIBUTE_INTS, false, "", 0, INT32_MAX, "added to the end of each spatial axis of the output, default 0"},
    {"output_shape", OCT_ATTRIBUTE_INTS, false, "", 0, INT32_MAX, "size of the output per spatial axis; padding follows from it"},
    {NULL, OCT_ATTRIBUTE_INT, false, NULL, 0, 0, NULL},
};

static const oct_import_row imports[] = {{"onnx", "ConvTranspose", 1, 0, NULL}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row exports[] = {{"onnx", "ConvTranspose", NULL}, {NULL, NULL, NULL}};

static const char *const cases[] = {
    "in=f32[1,3,5,6],f32[3,4,3,3],- attr:strides=2,2 pads=1,1,1,1",
    "in=f32[2,5,7,4],f32[5,17,4,4],f32[17] attr:strides=2,2 pads=1,1,1,1",
    "in=f32[1,8,4,5],f32[8,65,2,2],f32[65] attr:strides=2,2",
    "in=f32[1,6,5,5],f32[6,1,3,3],f32[6] attr:group=6 strides=2,2 pads=1,1,1,1 output_padding=1,1",
    "in=f32[1,8,4,6],f32[8,3,3,2],f32[6] attr:group=2 strides=3,1 dilations=2,3",
    "in=f32[1,4,5,5],f32[4,3,2,2],f32[3] attr:strides=3,4 output_shape=13,18",
    "in=f32[1,16,6,6],f32[16,16,3,3],f32[16] attr:auto_pad=SAME_UPPER",
    "in=f32[1,4,9],f32[4,6,5],f32[6] attr:strides=3 pads=1,2 output_padding=2",
    "in=f32[1,2,3,4,3],f32[2,3,2,3,2],f32[3] attr:strides=2,1,2 pads=0,1,0,1,1,0",
    NULL,
};

const oct_op oct_op_conv_transpose = {
    .name = "conv_transpose",
    .summary = "transposed convolution over one or more spatial axes",
    .traits = OCT_TRAIT_ACCUMULATES | OCT_TRAIT_CHANNELS_LAST,
    .min_inputs = 2,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .attributes = attributes,
    .infer = infer,
    .reference = reference,
    .lower = oct_transpose_lower,
    .border = oct_transpose_border,
    .quantization = {.roles = {OCT_ROLE_ACTIVATION, OCT_ROLE_WEIGHT, OCT_ROLE_BIAS},
                     .output = OCT_OUTPUT_OBSERVED,
                     .weight_axis = weight_axis},
    .imports = imports,
    .exports = exports,
    .cost = cost,
    .cases = cases,
};
