/* Sizes and phases of a transposed convolution: see conv_transpose.h. Formulas of sizes and padding as in ONNX's ConvTranspose-11.
 * SPDX-License-Identifier: MIT */
#include "ops/conv_transpose.h"

#define LARGEST ((int64_t)1 << 40)

/* The last `rank` numbers of an attribute that may have a batch and a channel count before them, or none: then 0 or `absent` each. */
static const char *read_sizes(const oct_node *node, const char *name, int rank, int before, int64_t absent, int64_t *out) {
  size_t count = 0;
  const int64_t *list = oct_node_ints(node, name, &count);
  size_t skip = before && count == (size_t)(rank + before) ? (size_t)before : 0;
  if (count && count != (size_t)rank + skip) return "output_shape and output_padding must have one number per spatial axis";
  for (int i = 0; i < rank; i++) {
    out[i] = count ? list[skip + (size_t)i] : absent;
    if (out[i] > INT32_MAX || (count && out[i] < 0)) return "output_shape and output_padding must be 0 to 2147483647";
  }
  return NULL;
}

/* Padding that makes the output `size` long; a longer output than the kernel reaches ends in bias alone. */
static void pad_to(oct_window *w, int i, int64_t natural, int64_t size, bool upper) {
  int64_t total = natural > size ? natural - size : 0;
  w->out[i] = size;
  w->before[i] = upper ? total / 2 : total - total / 2;
  w->after[i] = total - w->before[i];
}

const char *oct_transpose_window(const oct_node *node, const oct_shape *in, const int64_t *kernel, oct_window *w, int *axis) {
  int64_t extra[OCT_WINDOW_MAX], wanted[OCT_WINDOW_MAX];
  oct_auto_pad pad;
  const char *why = oct_window_read(node, in, kernel, w, &pad, axis);
  if (why) return why;
  *axis = -1;
  if ((why = read_sizes(node, "output_padding", w->rank, 0, 0, extra))) return why;
  if ((why = read_sizes(node, "output_shape", w->rank, 2, OCT_DIM_UNKNOWN, wanted))) return why;
  bool same = pad == OCT_PAD_SAME_UPPER || pad == OCT_PAD_SAME_LOWER;
  for (int i = 0; i < w->rank; i++) {
    *axis = i;
    if (w->in[i] == OCT_DIM_UNKNOWN || w->kernel[i] == OCT_DIM_UNKNOWN) {
      w->out[i] = wanted[i];
      continue;
    }
    if (w->in[i] < 1) return "the input must not be empty";
    if (w->in[i] > LARGEST / w->stride[i] || w->kernel[i] > LARGEST / w->dilation[i]) return "the output is too large";
    int64_t natural = w->stride[i] * (w->in[i] - 1) + extra[i] + (w->kernel[i] - 1) * w->dilation[i] + 1;
    if (wanted[i] != OCT_DIM_UNKNOWN) pad_to(w, i, natural, wanted[i], pad == OCT_PAD_SAME_UPPER);
    else if (same) pad_to(w, i, natural, w->in[i] * w->stride[i], pad == OCT_PAD_SAME_UPPER);
    else w->out[i] = natural - w->before[i] - w->after[i];
    if (w->out[i] < 1) return "the padding leaves nothing of the output";
  }
  return NULL;
}

static int64_t greatest_divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

oct_transpose_phase oct_transpose_phase_of(const oct_window *w, int axis, int64_t first) {
  int64_t stride = w->stride[axis], dilation = w->dilation[axis], common = greatest_divisor(stride, dilation), step = stride / common;
  oct_transpose_phase p = {.first = first, .dilation = dilation / common, .tap_step = -step};
  p.count = w->out[axis] > first ? (w->out[axis] - first + stride - 1) / stride : 0;
  /* Kernel elements k that meet outputs of this phase: (first + before - k * dilation) is a multiple of the stride. */
  for (int64_t k = 0; k < step && k < w->kernel[axis]; k++) {
    if ((first + w->before[axis] - k * dilation) % stride != 0) continue;
    p.taps = (w->kernel[axis] - 1 - k) / step + 1;
    p.tap = k + (p.taps - 1) * step;
    p.offset = (first + w->before[axis] - p.tap * dilation) / stride;
    break;
  }
  return p;
}
