/* ConvInteger (ONNX): 8-bit input and weights with zero points, int32 result.
 * SPDX-License-Identifier: MIT */
#include "ops/accumulate.h"
#include "ops/integer_lower.h"
#include "ops/window.h"

static octet_status check_zero_point(octet_context *ctx, const oct_node *node, int of, int index, int64_t channels) {
  const oct_value *z = node->n_inputs > index ? node->inputs[index] : NULL, *v = node->inputs[of];
  if (!z) return OCTET_OK;
  if (z->dtype != v->dtype && z->dtype != OCT_DTYPE_NONE && v->dtype != OCT_DTYPE_NONE)
    return oct_infer_fail(ctx, node, "the zero point '%s' is %s, but '%s' is %s", z->name, oct_dtype_name(z->dtype), v->name,
                          oct_dtype_name(v->dtype));
  int64_t count = z->has_shape ? oct_shape_count(&z->shape) : -1;
  if (count >= 0 && count != 1 && (channels < 0 || z->shape.rank != 1 || count != channels))
    return oct_infer_fail(ctx, node, "the zero point '%s' has %lld elements; it must have one%s", z->name, (long long)count,
                          channels < 0 ? "" : ", or one per output channel");
  return OCTET_OK;
}

static octet_status infer(octet_context *ctx, oct_node *node) {
  for (int i = 0; i < 2; i++) {
    const oct_value *v = node->inputs[i];
    if (v->dtype != OCT_DTYPE_NONE && v->dtype != OCT_U8 && v->dtype != OCT_I8)
      return oct_infer_fail(ctx, node, "'%s' is %s; it must be u8 or i8", v->name, oct_dtype_name(v->dtype));
  }
  const oct_value *w = node->inputs[1];
  OCT_TRY(check_zero_point(ctx, node, 0, 2, -1));
  OCT_TRY(check_zero_point(ctx, node, 1, 3, w->has_shape && w->shape.rank > 0 ? w->shape.dim[0] : -1));
  return oct_conv_infer_shape(ctx, node, OCT_I32);
}

static int64_t zero_point_at(const oct_tensor *z, int64_t channel) {
  if (!z) return 0;
  return oct_get_i64(z->data, z->dtype, oct_shape_count(&z->shape) == 1 ? 0 : channel);
}

static octet_status reference(octet_context *ctx, const oct_node *node, const oct_tensor *const *in, oct_tensor *const *out) {
  const oct_tensor *x = in[0], *w = in[1], *xz = node->n_inputs > 2 ? in[2] : NULL, *wz = node->n_inputs > 3 ? in[3] : NULL;
  oct_window window;
  if (oct_shape_count(&out[0]->shape) == 0) return OCTET_OK;
  OCT_TRY(oct_window_infer(ctx, node, &x->shape, &w->shape.dim[2], false, &window));
  int64_t group = oct_node_int(node, "group"), taps = oct_window_taps(&window), positions = oct_window_positions(&window),
          total = oct_shape_count(&out[0]->shape);
  int64_t channels = x->shape.dim[1], out_channels = w->shape.dim[0], group_in = w->shape.dim[1], group_out = out_channels / group,
          size = 1;
  for (int i = 0; i < window.rank; i++) size *= window.in[i];
  int64_t x_zero = zero_point_at(xz, 0);
  for (int64_t i = 0; i < total; i++) {
    int64_t position = i % positions, channel = i / positions % out_channels, n = i / positions / out_channels,
            first = channel / group_out * group_in;
    int64_t w_zero = zero_point_at(wz, channel), sum = 0;
    for (int64_t tap = 0; tap < taps; tap++) {
      int64_t offset = oct_window_offset(&window, position, tap, NULL);
      if (offset < 0) continue;
      for (int64_t k = 0; k < group_in; k++)
        sum += (oct_get_i64(x->data, x->dtype, (n * channels + first + k) * size + offset) - x_zero) *
               (oct_get_i64(w->data, w->dtype, (channel * group_in + k) * taps + tap) - w_zero);
    }
    oct_set_i64(out[0]->data, OCT_I32, i, sum);
  }
  return OCTET_OK;
}

static octet_status lower(oct_lowering *l, oct_node *node) {
  const oct_value *x = node->inputs[0], *w = node->inputs[1];
  oct_integer_problem p = {.node = node, .spatial = true};
  oct_window window;
  if (oct_shape_count(&node->outputs[0]->shape) == 0 || oct_shape_count(&x->shape) == 0) return oct_lower_decline(l, "a dimension is zero");
  if (x->shape.rank > 4) return oct_lower_decline(l, "convolution over %d spatial axes has no kernel", x->shape.rank - 2);
  OCT_TRY(oct_window_infer(l->ctx, node, &x->shape, &w->shape.dim[2], false, &window));
  if (!oct_window_conv_shape(&window, &x->shape, w->shape.dim[0], oct_node_int(node, "group"), &p.shape))
    return oct_lower_decline(l, "a size is beyond the kernels' range");
  p.pad_bottom = window.rank == 2 ? (int)window.after[0] : 0, p.pad_right = (int)window.after[window.rank - 1];
  return oct_integer_lower(l, &p);
}

static const oct_attribute_spec attributes[] = {
    OCT_WINDOW_ATTRIBUTES,
    {"group", OCT_ATTRIBUTE_INT, false, "1", 1, INT32_MAX, "groups of channels"},
    {"kernel_shape", OCT_ATTRIBUTE_INTS, false, "", 1, INT32_MAX, "kernel size; read from the weights when absent"},
    {NULL, OCT_ATTRIBUTE_INT, false, NULL, 0, 0, NULL},
};
static const oct_import_row imports[] = {{"onnx", "ConvInteger", 10, 0, NULL}, {NULL, NULL, 0, 0, NULL}};
static const oct_export_row exports[] = {{"onnx", "ConvInteger", NULL}, {NULL, NULL, NULL}};
static const char *const cases[] = {
    "in=u8[1,1,3,3],u8[1,1,2,2],u8[]=1",
    "in=u8[2,4,5,6],i8[3,4,3,3],u8[]=128,i8[3]=1,-2,3 attr:pads=1,1,1,1",
    "in=i8[1,4,7,7],i8[4,1,3,3] attr:group=4 strides=2,2",
    NULL,
};

const oct_op oct_op_conv_integer = {
    .name = "conv_integer",
    .summary = "convolution of 8-bit integers into int32",
    .traits = 0,
    .min_inputs = 2,
    .max_inputs = 4,
    .min_outputs = 1,
    .max_outputs = 1,
    .attributes = attributes,
    .infer = infer,
    .reference = reference,
    .lower = lower,
    .quantization = {.output = OCT_OUTPUT_NONE},
    .imports = imports,
    .exports = exports,
    .cases = cases,
};
