/* exp, tanh, sigmoid and erf in float for hot loops: branch-free polynomials that compilers vectorize, the same bits on every
 * instruction set. Relative error below 3e-7 (erf: 4e-7; measured in tests/test_ops_math.c); denormal results are flushed to 0.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_MATH_F32_H
#define OCT_KERNELS_MATH_F32_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float oct_float_of_bits(int32_t bits) {
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

/* |x| below 100 and no NaN: x = k ln 2 + r with |r| <= ln(2) / 2; returns expm1(r) and 2^k in two factors. */
static inline float oct_exp_parts_f32(float x, float *power_a, float *power_b) {
  const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer, half to even */
  float n = (x * 1.44269504f + magic) - magic;
  float r = (x - n * 0.693145752f) - n * 1.42860677e-6f; /* the first constant has 16 bits: its product with n is exact */
  int32_t k = (int32_t)n, half = k / 2;
  *power_a = oct_float_of_bits((half + 127) * (1 << 23));
  *power_b = oct_float_of_bits((k - half + 127) * (1 << 23));
  float sum = 1.0f / 5040;
  sum = sum * r + 1.0f / 720;
  sum = sum * r + 1.0f / 120;
  sum = sum * r + 1.0f / 24;
  sum = sum * r + 1.0f / 6;
  sum = sum * r + 0.5f;
  return r + r * r * sum;
}

static inline float oct_exp_f32(float x) {
  float a, b, t = x > -87.34f ? x : -87.34f; /* also for NaN */
  t = t < 88.8f ? t : 88.8f;
  float y = (1.0f + oct_exp_parts_f32(t, &a, &b)) * a * b;
  y = x < -87.3365f ? 0.0f : y;
  y = x > 88.72284f ? INFINITY : y;
  return x != x ? x : y;
}

static inline float oct_sigmoid_f32(float x) {
  float t = x > -87.0f ? x : -87.0f;
  t = t < 87.0f ? t : 87.0f;
  float y = 1.0f / (1.0f + oct_exp_f32(-t));
  return x != x ? x : y;
}

static inline float oct_tanh_f32(float x) {
  float a, b, t = x < 0.0f ? -x : x;
  t = t < 10.0f ? t : 10.0f;
  float p = oct_exp_parts_f32(2.0f * t, &a, &b), power = a * b;
  float e = power * p + (power - 1.0f); /* expm1(2 |x|) */
  float y = e / (e + 2.0f);
  y = x < 0.0f ? -y : y;
  return x != x ? x : y;
}

/* Below 1 the Taylor series; above, Abramowitz and Stegun 7.1.26. */
static inline float oct_erf_f32(float x) {
  float t = x < 0.0f ? -x : x, s = -1.0f / 6894720;
  t = t < 4.0f ? t : 4.0f;
  float z = t * t;
  s = s * z + 1.0f / 685440;
  s = s * z - 1.0f / 75600;
  s = s * z + 1.0f / 9360;
  s = s * z - 1.0f / 1320;
  s = s * z + 1.0f / 216;
  s = s * z - 1.0f / 42;
  s = s * z + 1.0f / 10;
  s = s * z - 1.0f / 3;
  float low = 1.12837917f * (t + t * z * s);
  float u = 1.0f / (1.0f + 0.3275911f * t);
  float q = 1.061405429f;
  q = q * u - 1.453152027f;
  q = q * u + 1.421413741f;
  q = q * u - 0.284496736f;
  q = q * u + 0.254829592f;
  float high = 1.0f - q * u * oct_exp_f32(-t * t);
  float y = t < 0.9f ? low : high;
  y = x < 0.0f ? -y : y;
  return x != x ? x : y;
}

#endif
