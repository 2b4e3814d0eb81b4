/* Direct float convolution in plain C: accepts every shape, ranks last, and is what the other variants are tested against.
 *
 * Products and sums are double, in the order (kernel row, kernel column, channel), and are rounded to float once, before the
 * bias: the result stays within 4 * 2^-24 * (|sum| + |bias| + |residual|) + K * 2^-52 * sum of |x * w| of the exact one.
 * SPDX-License-Identifier: MIT */
#include "kernels/conv_f32_direct.h"

#define LANES 4
#define PANEL 4

static const char *reject(const oct_conv_shape *shape) {
  (void)shape;
  return NULL;
}

static size_t packed_bytes(const oct_conv_shape *shape) { return oct_conv_f32_packed_bytes(shape, LANES, PANEL); }

static void pack(const oct_conv_shape *shape, const float *weights, void *packed) {
  oct_conv_f32_pack(shape, LANES, PANEL, weights, (float *)packed);
}

static void pack_matrix(const oct_conv_shape *shape, const float *w, ptrdiff_t k_stride, ptrdiff_t n_stride, float scale, void *packed) {
  oct_conv_f32_pack_matrix(shape, LANES, PANEL, w, k_stride, n_stride, scale, (float *)packed);
}

static size_t units(const oct_conv_shape *shape) { return oct_conv_f32_units(shape, LANES, PANEL); }

/* Four output channels of one pixel. */
static void dot4(const float *in, const float *weights, const oct_conv_f32_runs *runs, float sum[4]) {
  double c0 = 0, c1 = 0, c2 = 0, c3 = 0;
  for (int64_t row = 0; row < runs->rows; row++) {
    for (int64_t run = 0; run < runs->runs; run++) {
      const float *a = in + row * runs->row_step + run * runs->run_step;
      for (int64_t k = 0; k < runs->length; k++, weights += 4) {
        double x = a[k];
        c0 += x * weights[0];
        c1 += x * weights[1];
        c2 += x * weights[2];
        c3 += x * weights[3];
      }
    }
  }
  sum[0] = (float)c0, sum[1] = (float)c1, sum[2] = (float)c2, sum[3] = (float)c3;
}

static void run(const oct_conv_f32_args *args, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  const oct_conv_f32_plan plan = oct_conv_f32_plan_make(&args->shape, LANES, PANEL);
  const oct_conv_f32_runs runs = oct_conv_f32_runs_make(args, plan.group_in);
  for (size_t i = begin; i < end; i++) {
    oct_conv_f32_unit unit = oct_conv_f32_unit_at(&plan, args->shape.groups, PANEL, i);
    int64_t channel = unit.group * plan.group_out + unit.column, left = plan.group_out - unit.column;
    const float *weights = (const float *)args->packed + (unit.group * plan.columns + unit.column) * plan.k;
    oct_conv_f32_walk walk = oct_conv_f32_walk_start(args, unit.pixel);
    for (int64_t pixel = unit.pixel; pixel < unit.pixel_end; pixel++) {
      float sum[4];
      dot4(walk.in + unit.group * plan.group_in, weights, &runs, sum);
      for (int64_t n = 0; n < 4 && n < left; n++) {
        float y = sum[n];
        if (args->bias) y += args->bias[channel + n];
        if (walk.residual) y += walk.residual[channel + n];
        walk.out[channel + n] = oct_clamp_f32(y, args->low, args->high);
      }
      oct_conv_f32_walk_next(&walk);
    }
  }
}

const oct_conv_f32_kernel oct_conv_f32_direct__scalar = {
    .name = "conv_f32_direct__scalar",
    .isa = OCT_ISA_SCALAR,
    .preference = 0,
    .reject = reject,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .pack_matrix = pack_matrix,
    .units = units,
    .run = run,
};
