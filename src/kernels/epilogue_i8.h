/* What happens to one int32 accumulator: the scalar form of the rules in kernels.h (oct_epilogue_i8). The oracle uses it,
 * and SIMD epilogues restate it. Integers wrap modulo 2^32, as the vector instructions do.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_EPILOGUE_I8_H
#define OCT_KERNELS_EPILOGUE_I8_H

#include "kernels/kernels.h"

static inline int32_t oct_wrap_add(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }
static inline int32_t oct_wrap_mul(int32_t a, int32_t b) { return (int32_t)((uint32_t)a * (uint32_t)b); }

static inline size_t oct_epilogue_element(const oct_epilogue_i8 *e) {
  return e->out == OCT_EPILOGUE_U8 || e->out == OCT_EPILOGUE_ROUNDED ? 1 : 4;
}

/* One channel's constants, looked up once for many pixels. */
typedef struct oct_epilogue_channel {
  int32_t bias, weight_sum, mantissa;
  int shift;
  float multiplier, float_bias;
} oct_epilogue_channel;

static inline oct_epilogue_channel oct_epilogue_channel_at(const oct_epilogue_i8 *e, int64_t c) {
  oct_epilogue_channel k = {.bias = e->bias ? e->bias[c] : 0};
  if (e->out == OCT_EPILOGUE_S32) return k;
  k.multiplier = e->multiplier[c];
  if (e->float_bias) k.float_bias = e->float_bias[c];
  if (e->row_scale) k.weight_sum = e->weight_sum[c];
  if (e->profile == OCT_PROFILE_TFLITE) oct_fixed_point(k.multiplier, &k.mantissa, &k.shift);
  return k;
}

/* `residual`: NULL or the u8 at this pixel and channel. The clamp comes before the zero point so that nothing overflows. */
static inline uint8_t oct_epilogue_u8(const oct_epilogue_i8 *e, const oct_epilogue_channel *k, int32_t acc, const uint8_t *residual) {
  int32_t v = oct_wrap_add(acc, k->bias), q;
  if (e->profile == OCT_PROFILE_TFLITE) {
    q = oct_clamp_i32(oct_requantize_tflite(v, k->mantissa, k->shift), e->low - e->zero_point, e->high - e->zero_point) + e->zero_point;
  } else {
    float t = (float)v * k->multiplier;
    if (residual) t += (float)(*residual - e->residual_zero_point) * e->residual_scale;
    q = oct_requantize_onnx(t, e->zero_point, e->low, e->high);
  }
  return e->table ? e->table[(uint8_t)q] : (uint8_t)q;
}

/* `pixel` is the output pixel's index over all images. */
static inline float oct_epilogue_real(const oct_epilogue_i8 *e, const oct_epilogue_channel *k, int32_t acc, int64_t pixel) {
  int32_t v = oct_wrap_add(acc, k->bias);
  float multiplier = k->multiplier, bias = k->float_bias;
  if (e->row_scale) {
    int64_t i = pixel / e->rows_per_scale;
    v = (int32_t)((uint32_t)v - (uint32_t)oct_wrap_mul(e->row_zero_point[i], k->weight_sum));
    multiplier = e->row_scale[i] * multiplier;
    if (e->out == OCT_EPILOGUE_ROUNDED) v = oct_wrap_add(v, oct_take_units(&bias, multiplier));
  }
  float y = (float)v * multiplier;
  return e->float_bias ? y + bias : y;
}

static inline float oct_epilogue_f32(const oct_epilogue_i8 *e, const oct_epilogue_channel *k, int32_t acc, int64_t pixel,
                                     const float *residual) {
  float y = oct_epilogue_real(e, k, acc, pixel);
  if (residual) y += *residual;
  return oct_clamp_f32(y, e->float_low, e->float_high);
}

/* Finishes one output element; `out` and `residual` point at it. */
static inline void oct_epilogue_store(const oct_epilogue_i8 *e, const oct_epilogue_channel *k, int32_t acc, int64_t pixel, void *out,
                                      const void *residual) {
  if (e->out == OCT_EPILOGUE_U8) *(uint8_t *)out = oct_epilogue_u8(e, k, acc, (const uint8_t *)residual);
  else if (e->out == OCT_EPILOGUE_F32) *(float *)out = oct_epilogue_f32(e, k, acc, pixel, (const float *)residual);
  else if (e->out == OCT_EPILOGUE_ROUNDED)
    *(uint8_t *)out = (uint8_t)oct_requantize_onnx(oct_epilogue_real(e, k, acc, pixel), e->zero_point, e->low, e->high);
  else *(int32_t *)out = oct_wrap_add(acc, k->bias);
}

#endif
