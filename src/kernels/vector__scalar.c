/* Vector kernels in plain C: the oracle of the other variants, which must give the same bytes (for floats: the same bits, but for
 * the payload of a NaN). Pools: vector_pool__scalar.c.
 * SPDX-License-Identifier: MIT */
#include "kernels/vector_math.h"
#include "kernels/vector_histogram.h"
#include "kernels/vector_planes.h"
#include "kernels/vector_scale.h"
#include "kernels/vector_pool.h"

static void quantize_f32_u8(size_t n, const float *x, uint8_t *y, float scale, int32_t zero_point) {
  for (size_t i = 0; i < n; i++) y[i] = (uint8_t)oct_quantize(x[i], scale, zero_point, 0, 255);
}

static void dequantize_u8_f32(size_t n, const uint8_t *x, float *y, float scale, int32_t zero_point) {
  for (size_t i = 0; i < n; i++) y[i] = oct_dequantize(x[i], scale, zero_point);
}

static void table_u8(size_t n, const uint8_t *x, uint8_t *y, const uint8_t table[256]) {
  for (size_t i = 0; i < n; i++) y[i] = table[x[i]];
}

static void table_u8_f32(size_t n, const uint8_t *x, float *y, const float table[256]) {
  for (size_t i = 0; i < n; i++) y[i] = table[x[i]];
}

static void add_u8(size_t n, const uint8_t *a, const uint8_t *b, uint8_t *y, float a_scale, int32_t a_zp, float b_scale, int32_t b_zp,
                   int32_t zp, int32_t low, int32_t high) {
  for (size_t i = 0; i < n; i++) {
    float t = (float)(a[i] - a_zp) * a_scale + (float)(b[i] - b_zp) * b_scale;
    y[i] = (uint8_t)oct_requantize_onnx(t, zp, low, high);
  }
}

static void mul_u8(size_t n, const uint8_t *a, const uint8_t *b, bool b_broadcast, uint8_t *y, float scale, int32_t a_zp, int32_t b_zp,
                   int32_t zp, int32_t low, int32_t high) {
  for (size_t i = 0; i < n; i++) {
    float t = (float)((a[i] - a_zp) * (b[b_broadcast ? 0 : i] - b_zp)) * scale;
    y[i] = (uint8_t)oct_requantize_onnx(t, zp, low, high);
  }
}

/* Adding 0 turns -0 into 0: which zero comes first in a vector depends on its width. */
static void minmax_f32(size_t n, const float *x, float *low, float *high) {
  float min = *low, max = *high;
  for (size_t i = 0; i < n; i++) {
    min = x[i] < min ? x[i] : min;
    max = x[i] > max ? x[i] : max;
  }
  *low = min + 0.0f;
  *high = max + 0.0f;
}

static void add_f32(size_t n, const float *a, const float *b, float *y) {
  for (size_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

static void sub_f32(size_t n, const float *a, const float *b, float *y) {
  for (size_t i = 0; i < n; i++) y[i] = a[i] - b[i];
}

static void mul_f32(size_t n, const float *a, const float *b, float *y) {
  for (size_t i = 0; i < n; i++) y[i] = a[i] * b[i];
}

static void div_f32(size_t n, const float *a, const float *b, float *y) {
  for (size_t i = 0; i < n; i++) y[i] = a[i] / b[i];
}

static void scale_f32(size_t n, const float *x, float *y, float scale, float shift) {
  for (size_t i = 0; i < n; i++) y[i] = x[i] * scale + shift;
}

static void clamp_f32(size_t n, const float *x, float *y, float low, float high) {
  for (size_t i = 0; i < n; i++) y[i] = oct_clamp_f32(x[i], low, high);
}

const oct_vector_kernels oct_vector__scalar = {
    .name = "vector__scalar",
    .isa = OCT_ISA_SCALAR,
    .quantize_f32_u8 = quantize_f32_u8,
    .dequantize_u8_f32 = dequantize_u8_f32,
    .table_u8 = table_u8,
    .table_u8_f32 = table_u8_f32,
    .add_u8 = add_u8,
    .mul_u8 = mul_u8,
    .minmax_f32 = minmax_f32,
    .add_f32 = add_f32,
    .sub_f32 = sub_f32,
    .mul_f32 = mul_f32,
    .div_f32 = div_f32,
    .scale_f32 = scale_f32,
    .clamp_f32 = clamp_f32,
    .math = &oct_vector_math__scalar,
    .max_pool_u8 = oct_max_pool_u8__scalar,
    .max_pool_f32 = oct_max_pool_f32__scalar,
    .average_pool_u8 = oct_average_pool_u8__scalar,
    .average_pool_f32 = oct_average_pool_f32__scalar,
    .transpose_u8 = oct_transpose_u8__scalar,
    .transpose_u32 = oct_transpose_u32__scalar,
    .quantize_planes_u8 = oct_quantize_planes_u8__scalar,
    .fold_scale = oct_fold_scale__scalar,
    .extremes_f32 = oct_extremes_f32__scalar,
    .histogram_f32 = oct_histogram_f32__scalar,
};
