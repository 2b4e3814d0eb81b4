/* The sliding window: output sizes, padding, and which input element a kernel element meets. Formulas as in ONNX's Conv-22 and AveragePool-22.
 * SPDX-License-Identifier: MIT */
#include "ops/window.h"

#define WINDOW_LARGEST ((int64_t)1 << 40)

/* `rank` numbers from `low` to INT32_MAX; without the attribute `fallback` each. */
static bool read_list(const oct_node *node, const char *name, int rank, int64_t low, int64_t fallback, int64_t *out) {
  size_t count = 0;
  const int64_t *list = oct_node_ints(node, name, &count);
  for (int i = 0; i < rank; i++) {
    out[i] = i < (int)count ? list[i] : fallback;
    if (out[i] < low || out[i] > INT32_MAX) return false;
  }
  return count == 0 || count == (size_t)rank;
}

static const char *read_pads(const oct_node *node, oct_window *w) {
  int64_t pads[2 * OCT_WINDOW_MAX];
  if (!read_list(node, "pads", 2 * w->rank, 0, 0, pads)) return "pads must be two non-negative numbers per spatial axis";
  for (int i = 0; i < w->rank; i++) w->before[i] = pads[i], w->after[i] = pads[w->rank + i];
  return NULL;
}

/* Output size under auto_pad SAME_*, and the padding that it takes. */
static void pad_same(oct_window *w, int i, bool upper) {
  int64_t extent = (w->kernel[i] - 1) * w->dilation[i] + 1;
  w->out[i] = (w->in[i] + w->stride[i] - 1) / w->stride[i];
  int64_t total = (w->out[i] - 1) * w->stride[i] + extent - w->in[i];
  if (total < 0) total = 0;
  w->before[i] = upper ? total / 2 : total - total / 2;
  w->after[i] = total - w->before[i];
}

static const char *size_axis(oct_window *w, int i, bool ceil_mode) {
  int64_t extent = (w->kernel[i] - 1) * w->dilation[i] + 1, room = w->in[i] + w->before[i] + w->after[i] - extent;
  if (room < 0) return "the kernel is larger than the padded input";
  w->out[i] = room / w->stride[i] + 1;
  if (ceil_mode && room % w->stride[i] != 0) w->out[i]++;
  /* A window that would start in the padding behind the image is left out. */
  if (ceil_mode && (w->out[i] - 1) * w->stride[i] >= w->in[i] + w->before[i]) w->out[i]--;
  return NULL;
}

const char *oct_window_read(const oct_node *node, const oct_shape *in, const int64_t *kernel, oct_window *w, oct_auto_pad *pad, int *axis) {
  memset(w, 0, sizeof *w);
  *axis = -1;
  w->rank = in->rank - 2;
  if (w->rank < 1) return "the input must have rank 3 or more: [N,C,spatial...]";
  if (!read_list(node, "strides", w->rank, 1, 1, w->stride)) return "strides must be one positive number per spatial axis";
  if (!read_list(node, "dilations", w->rank, 1, 1, w->dilation)) return "dilations must be one positive number per spatial axis";
  const char *why = read_pads(node, w);
  if (why) return why;
  static const char *const modes[] = {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"};
  const char *mode = oct_node_string(node, "auto_pad");
  int found = 0;
  while (*mode && found < 4 && strcmp(mode, modes[found]) != 0) found++;
  if (found == 4) return "auto_pad must be NOTSET, SAME_UPPER, SAME_LOWER or VALID";
  *pad = (oct_auto_pad)found;
  for (int i = 0; i < w->rank; i++) {
    *axis = i;
    w->in[i] = in->dim[i + 2];
    w->kernel[i] = kernel[i];
    w->out[i] = OCT_DIM_UNKNOWN;
    if (*pad != OCT_PAD_EXPLICIT) w->before[i] = w->after[i] = 0;
    if (w->kernel[i] != OCT_DIM_UNKNOWN && (w->kernel[i] < 1 || w->kernel[i] > INT32_MAX)) return "the kernel size must be at least 1";
    if (w->in[i] > WINDOW_LARGEST) return "the input is too large";
  }
  return NULL;
}

const char *oct_window_make(const oct_node *node, const oct_shape *in, const int64_t *kernel, bool ceil_mode, oct_window *w, int *axis) {
  oct_auto_pad pad;
  const char *why = oct_window_read(node, in, kernel, w, &pad, axis);
  for (int i = 0; i < w->rank && !why; i++) {
    *axis = i;
    if (w->in[i] == OCT_DIM_UNKNOWN || w->kernel[i] == OCT_DIM_UNKNOWN) continue;
    if (pad == OCT_PAD_SAME_UPPER || pad == OCT_PAD_SAME_LOWER) pad_same(w, i, pad == OCT_PAD_SAME_UPPER);
    else why = size_axis(w, i, ceil_mode);
  }
  return why;
}

octet_status oct_window_infer(octet_context *ctx, const oct_node *node, const oct_shape *in, const int64_t *kernel, bool ceil_mode,
                              oct_window *w) {
  int axis;
  const char *why = oct_window_make(node, in, kernel, ceil_mode, w, &axis);
  if (!why) return OCTET_OK;
  char text[OCT_SHAPE_TEXT];
  if (axis < 0) return oct_infer_fail(ctx, node, "%s; the input is %s", why, oct_shape_text(in, text));
  return oct_infer_fail(ctx, node, "spatial axis %d: %s (input %s, kernel %lld, dilation %lld, pads %lld and %lld)", axis, why,
                        oct_shape_text(in, text), (long long)w->kernel[axis], (long long)w->dilation[axis], (long long)w->before[axis],
                        (long long)w->after[axis]);
}

int oct_window_kernel_attribute(const oct_node *node, int64_t kernel[OCT_WINDOW_MAX]) {
  size_t count = 0;
  const int64_t *list = oct_node_ints(node, "kernel_shape", &count);
  for (int i = 0; i < OCT_WINDOW_MAX; i++) kernel[i] = i < (int)count ? list[i] : OCT_DIM_UNKNOWN;
  return (int)count;
}

octet_status oct_window_kernel(octet_context *ctx, const oct_node *node, const oct_shape *weights, int rank,
                               int64_t kernel[OCT_WINDOW_MAX]) {
  int64_t given[OCT_WINDOW_MAX];
  int count = oct_window_kernel_attribute(node, given);
  if (count && count != rank) return oct_infer_fail(ctx, node, "kernel_shape has %d numbers for %d spatial axes", count, rank);
  for (int i = 0; i < rank; i++) {
    kernel[i] = weights ? weights->dim[i + 2] : OCT_DIM_UNKNOWN;
    if (kernel[i] == OCT_DIM_UNKNOWN) kernel[i] = given[i];
    else if (count && given[i] != kernel[i])
      return oct_infer_fail(ctx, node, "kernel_shape[%d] is %lld, but the weights have %lld", i, (long long)given[i], (long long)kernel[i]);
  }
  return OCTET_OK;
}

int64_t oct_window_taps(const oct_window *w) {
  int64_t n = 1;
  for (int i = 0; i < w->rank; i++) n *= w->kernel[i];
  return n;
}

int64_t oct_window_positions(const oct_window *w) {
  int64_t n = 1;
  for (int i = 0; i < w->rank; i++) n *= w->out[i];
  return n;
}

int64_t oct_window_offset(const oct_window *w, int64_t position, int64_t tap, bool *padded) {
  int64_t offset = 0, step = 1;
  bool inside = true, in_pad = true;
  for (int i = w->rank - 1; i >= 0; i--) {
    int64_t at = position % w->out[i] * w->stride[i] - w->before[i] + tap % w->kernel[i] * w->dilation[i];
    position /= w->out[i];
    tap /= w->kernel[i];
    if (at < 0 || at >= w->in[i]) inside = false;
    if (at < -w->before[i] || at >= w->in[i] + w->after[i]) in_pad = false;
    offset += at * step;
    step *= w->in[i];
  }
  if (padded) *padded = in_pad;
  return inside ? offset : -1;
}

bool oct_window_has_empty(const oct_window *w) {
  for (int i = 0; i < w->rank; i++)
    for (int64_t o = 0; o < w->out[i]; o++) {
      int64_t first = o * w->stride[i] - w->before[i];
      if (first >= w->in[i]) return true;
      if (first >= 0) continue;
      int64_t skip = (-first + w->dilation[i] - 1) / w->dilation[i]; /* kernel elements in the padding before */
      if (skip >= w->kernel[i] || first + skip * w->dilation[i] >= w->in[i]) return true;
    }
  return false;
}

bool oct_window_conv_shape(const oct_window *w, const oct_shape *in, int64_t out_channels, int64_t groups, oct_conv_shape *shape) {
  if (w->rank < 1 || w->rank > 2) return false;
  int y = w->rank == 2 ? 0 : -1, x = w->rank - 1;
  for (int i = 0; i < w->rank; i++)
    if (w->kernel[i] > INT16_MAX || w->stride[i] > INT16_MAX || w->dilation[i] > INT16_MAX || w->before[i] > INT16_MAX ||
        w->after[i] > INT16_MAX)
      return false;
  if (groups > INT32_MAX) return false;
  *shape = (oct_conv_shape){.batch = in->dim[0], .in_h = 1, .channels = in->dim[1], .out_h = 1, .out_channels = out_channels};
  shape->kernel_h = shape->stride_h = shape->dilation_h = 1;
  if (y == 0) {
    shape->in_h = w->in[y], shape->out_h = w->out[y];
    shape->kernel_h = (int)w->kernel[y], shape->stride_h = (int)w->stride[y], shape->dilation_h = (int)w->dilation[y],
    shape->pad_top = (int)w->before[y];
  }
  shape->in_w = w->in[x], shape->out_w = w->out[x];
  shape->kernel_w = (int)w->kernel[x], shape->stride_w = (int)w->stride[x], shape->dilation_w = (int)w->dilation[x],
  shape->pad_left = (int)w->before[x];
  shape->groups = (int)groups;
  return true;
}
