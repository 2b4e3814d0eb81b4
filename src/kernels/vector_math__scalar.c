/* Functions of floats in plain C: the polynomials of math_f32.h.
 * SPDX-License-Identifier: MIT */
#include "kernels/math_f32.h"
#include "kernels/vector_math.h"

/* Blocks of 16 are what compilers vectorize at -O2. */
#define MAP(name, expression)                            \
  static void name(size_t n, const float *x, float *y) { \
    for (; n >= 16; n -= 16, x += 16, y += 16) {         \
      float block[16];                                   \
      memcpy(block, x, sizeof block);                    \
      for (int j = 0; j < 16; j++) {                     \
        float v = block[j];                              \
        block[j] = (expression);                         \
      }                                                  \
      memcpy(y, block, sizeof block);                    \
    }                                                    \
    for (size_t i = 0; i < n; i++) {                     \
      float v = x[i];                                    \
      y[i] = (expression);                               \
    }                                                    \
  }

MAP(exp_f32, oct_exp_f32(v))
MAP(sigmoid_f32, oct_sigmoid_f32(v))
MAP(tanh_f32, oct_tanh_f32(v))
MAP(erf_f32, oct_erf_f32(v))
MAP(gelu_f32, 0.5f * v * (1.0f + oct_erf_f32(v * 0.70710678f)))

static void softmax_f32(size_t n, const float *x, float *y) {
  float max = -INFINITY, sum = 0;
  for (size_t i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
  for (size_t i = 0; i < n; i++) sum += y[i] = oct_exp_f32(x[i] - max);
  for (size_t i = 0; i < n; i++) y[i] = y[i] / sum;
}

static void softmax_rows_f32(size_t rows, size_t n, const float *x, float *y) {
  for (size_t r = 0; r < rows; r++) softmax_f32(n, x + r * n, y + r * n);
}

static void softmax_columns_f32(size_t columns, size_t n, const float *x, float *y, size_t stride) {
  for (size_t c = 0; c < columns; c++) {
    float max = -INFINITY, sum = 0;
    for (size_t i = 0; i < n; i++) max = x[i * stride + c] > max ? x[i * stride + c] : max;
    for (size_t i = 0; i < n; i++) sum += y[i * stride + c] = oct_exp_f32(x[i * stride + c] - max);
    for (size_t i = 0; i < n; i++) y[i * stride + c] = y[i * stride + c] / sum;
  }
}

static void layer_norm_f32(size_t n, const float *x, const float *scale, const float *shift, float epsilon, float *y) {
  float mean = 0, squares = 0;
  for (size_t i = 0; i < n; i++) mean += x[i];
  mean /= (float)n;
  for (size_t i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
  float factor = 1.0f / sqrtf(squares / (float)n + epsilon);
  for (size_t i = 0; i < n; i++) y[i] = (x[i] - mean) * factor * scale[i] + (shift ? shift[i] : 0);
}

const oct_vector_math oct_vector_math__scalar = OCT_VECTOR_MATH_ROW;
