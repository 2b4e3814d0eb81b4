/* 8-bit convolution in plain C: accepts every shape, ranks last, and is what all other variants are compared with.
 * Packed weights are [out][kernel_h][kernel_w][channels/groups], the order in which a channels-last image is read.
 * SPDX-License-Identifier: MIT */
#include "kernels/epilogue_i8.h"

#define BLOCK 64 /* output pixels of one row in a unit */

static size_t packed_bytes(const oct_conv_shape *s) {
  return (size_t)(s->out_channels * (s->channels / s->groups)) * (size_t)s->kernel_h * (size_t)s->kernel_w;
}

static void pack(const oct_conv_shape *s, const int8_t *weights, void *packed) {
  int64_t depth = s->channels / s->groups, taps = (int64_t)s->kernel_h * s->kernel_w;
  int8_t *out = (int8_t *)packed;
  for (int64_t o = 0; o < s->out_channels; o++)
    for (int64_t t = 0; t < taps; t++)
      for (int64_t c = 0; c < depth; c++) *out++ = weights[(o * depth + c) * taps + t];
}

static int64_t blocks_per_row(const oct_conv_shape *s) { return (s->out_w + BLOCK - 1) / BLOCK; }

static size_t units(const oct_conv_shape *s) { return (size_t)(s->batch * s->out_h * blocks_per_row(s)); }

/* One output element's sum of products, modulo 2^32; `in` is the first tap's first channel of the group. */
static int32_t dot(const oct_conv_shape *s, const oct_view *view, const uint8_t *in, const int8_t *weights) {
  int64_t depth = s->channels / s->groups;
  uint32_t sum = 0;
  for (int i = 0; i < s->kernel_h; i++)
    for (int j = 0; j < s->kernel_w; j++, weights += depth) {
      const uint8_t *x = in + (ptrdiff_t)i * s->dilation_h * view->row + (ptrdiff_t)j * s->dilation_w * view->pixel;
      for (int64_t c = 0; c < depth; c++) sum += (uint32_t)(x[c] * weights[c]);
    }
  return (int32_t)sum;
}

static void run_row(const oct_conv_i8_args *a, int64_t n, int64_t y, int64_t x0, int64_t x1, int64_t o) {
  const oct_conv_shape *s = &a->shape;
  const oct_epilogue_channel k = oct_epilogue_channel_at(&a->epilogue, o);
  int64_t depth = s->channels / s->groups, first = o / (s->out_channels / s->groups) * depth;
  const int8_t *weights = (const int8_t *)a->packed + o * depth * s->kernel_h * s->kernel_w;
  size_t element = oct_epilogue_element(&a->epilogue);
  for (int64_t x = x0; x < x1; x++) {
    const uint8_t *in = (const uint8_t *)oct_view_at(&a->in, 1, n, y * s->stride_h - s->pad_top, x * s->stride_w - s->pad_left) + first;
    char *out = (char *)oct_view_at(&a->out, element, n, y, x) + (size_t)o * element;
    const char *residual = a->residual.data ? (const char *)oct_view_at(&a->residual, element, n, y, x) + (size_t)o * element : NULL;
    oct_epilogue_store(&a->epilogue, &k, dot(s, &a->in, in, weights), (n * s->out_h + y) * s->out_w + x, out, residual);
  }
}

static void run(const oct_conv_i8_args *a, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  const oct_conv_shape *s = &a->shape;
  int64_t per_row = blocks_per_row(s);
  for (int64_t unit = (int64_t)begin; unit < (int64_t)end; unit++) {
    int64_t row = unit / per_row, x0 = unit % per_row * BLOCK, x1 = x0 + BLOCK < s->out_w ? x0 + BLOCK : s->out_w;
    for (int64_t o = 0; o < s->out_channels; o++) run_row(a, row / s->out_h, row % s->out_h, x0, x1, o);
  }
}

const oct_conv_i8_kernel oct_conv_i8_direct__scalar = {
    .name = "conv_i8_direct__scalar",
    .isa = OCT_ISA_SCALAR,
    .preference = 0,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .units = units,
    .run = run,
};
