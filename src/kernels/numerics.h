/* Every rounding rule of Octet, once. docs/numerics.md lists operator x profile -> formula.
 * Kernels for an instruction set may restate a rule in intrinsics; tests compare the bytes.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_NUMERICS_H
#define OCT_KERNELS_NUMERICS_H

#include <math.h>
#include <stdint.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* The family of rounding rules a model is run under; kept through export and import. */
typedef enum oct_profile { OCT_PROFILE_ONNX, OCT_PROFILE_TFLITE } oct_profile;

static inline int32_t oct_clamp_i32(int32_t x, int32_t low, int32_t high) { return x < low ? low : x > high ? high : x; }
static inline float oct_clamp_f32(float x, float low, float high) { return x < low ? low : x > high ? high : x; } /* NaN stays */

/* q = saturate(round_half_even(x / scale) + zero_point): a true division. NaN becomes the zero point. */
static inline int32_t oct_quantize(float x, float scale, int32_t zero_point, int32_t low, int32_t high) {
  float t = x / scale;
  if (t != t) return oct_clamp_i32(zero_point, low, high);
  t = oct_clamp_f32(t, (float)(low - zero_point), (float)(high - zero_point));
  return (int32_t)rintf(t) + zero_point;
}

static inline float oct_dequantize(int32_t q, float scale, int32_t zero_point) { return (float)(q - zero_point) * scale; }

/* Profile onnx: float32(acc) * multiplier (+ residual already scaled), clamped in float, round half to even, + zero point. */
static inline int32_t oct_requantize_onnx(float t, int32_t zero_point, int32_t low, int32_t high) {
  t = oct_clamp_f32(t, (float)(low - zero_point), (float)(high - zero_point));
  return (int32_t)rintf(t) + zero_point;
}

/* The order is part of the rule: (input scale * weight scale) / output scale, each step in float32. */
static inline float oct_multiplier(float input_scale, float weight_scale, float output_scale) {
  return input_scale * weight_scale / output_scale;
}

/* Takes from a float bias what the accumulator can hold: the number of its units, `multiplier` each, where rounding to one is at most an eighth
 * of the result's step, which is 1. Then nothing is left; else all is, and the number is 0. */
#define OCT_UNITS_MULTIPLIER 0.25f
#define OCT_MOST_UNITS 536870912 /* 2^29 */
static inline int32_t oct_take_units(float *bias, float multiplier) {
  const float units = *bias / multiplier;
  if (!(multiplier > 0 && multiplier <= OCT_UNITS_MULTIPLIER && fabsf(units) <= (float)OCT_MOST_UNITS)) return 0;
  *bias = 0;
  return (int32_t)rintf(units);
}

/* Profile tflite: multiplier as int32 mantissa in [2^30, 2^31) and a power of two (gemmlowp's rule, as in the TFLite reference kernels). */
static inline void oct_fixed_point(double multiplier, int32_t *mantissa, int *shift) {
  if (multiplier == 0) {
    *mantissa = 0;
    *shift = 0;
    return;
  }
  int exponent;
  double m = frexp(multiplier, &exponent);
  int64_t q = (int64_t)round(m * 2147483648.0);
  if (q == 2147483648LL) q /= 2, exponent++;
  if (exponent < -31) q = 0, exponent = 0;
  *mantissa = (int32_t)q;
  *shift = exponent;
}

static inline int32_t oct_doubling_high_multiply(int32_t a, int32_t b) {
  if (a == INT32_MIN && b == INT32_MIN) return INT32_MAX;
  int64_t product = (int64_t)a * b;
  int64_t nudge = product >= 0 ? (1 << 30) : 1 - (1 << 30);
  return (int32_t)((product + nudge) / 2147483648LL);
}

static inline int32_t oct_rounding_shift_right(int32_t x, int exponent) {
  int32_t mask = (int32_t)((1LL << exponent) - 1), remainder = x & mask, threshold = (mask >> 1) + (x < 0);
  return (x >> exponent) + (remainder > threshold);
}

static inline int32_t oct_requantize_tflite(int32_t acc, int32_t mantissa, int shift) {
  int left = shift > 0 ? shift : 0, right = shift > 0 ? 0 : -shift;
  return oct_rounding_shift_right(oct_doubling_high_multiply((int32_t)((uint32_t)acc << left), mantissa), right);
}

/* Adds the sum of n weights, and the sum of their magnitudes. */
static inline void oct_sum_weights(const int8_t *w, int64_t n, int64_t *sum, int64_t *magnitude) {
  int64_t k = 0;
#if defined(__SSE2__)
  /* Sums of unsigned bytes are one instruction: of w + 128, and of |w| = min(w, -w) as unsigned bytes. */
  const __m128i zero = _mm_setzero_si128(), offset = _mm_set1_epi8(-128);
  __m128i shifted = zero, positive = zero;
  for (; k + 16 <= n; k += 16) {
    const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(w + k));
    shifted = _mm_add_epi64(shifted, _mm_sad_epu8(_mm_xor_si128(x, offset), zero));
    positive = _mm_add_epi64(positive, _mm_sad_epu8(_mm_min_epu8(x, _mm_sub_epi8(zero, x)), zero));
  }
  int64_t s[2], m[2];
  _mm_storeu_si128((__m128i *)(void *)s, shifted);
  _mm_storeu_si128((__m128i *)(void *)m, positive);
  *sum += s[0] + s[1] - 128 * k, *magnitude += m[0] + m[1];
#endif
  for (; k < n; k++) *sum += w[k], *magnitude += w[k] < 0 ? -w[k] : w[k];
}

#endif
