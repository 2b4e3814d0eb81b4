/* The functions of oct_vector_math, written once in blocks of 16 floats that compilers turn into vectors of any width: the order of additions, and so
 * every bit, is the same on all instruction sets. Each vector_math__*.c defines OCT_MATH_ISA_BODY and gives the row its name.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_VECTOR_MATH_H
#define OCT_KERNELS_VECTOR_MATH_H

#include "kernels/kernels.h"
#include "kernels/math_f32.h"

extern const oct_vector_math oct_vector_math__scalar, oct_vector_math__avx2, oct_vector_math__avx512;

#ifdef OCT_MATH_ISA_BODY

#define LANES 16

typedef struct lanes {
  float at[LANES];
} lanes;

/* The last, partial block of x, filled up. */
static inline lanes load_some(const float *x, size_t left, float fill) {
  lanes v;
  for (int j = 0; j < LANES; j++) v.at[j] = fill;
  memcpy(v.at, x, left * sizeof *x);
  return v;
}

/* Full blocks are copied with a fixed size, which compilers turn into registers; the partial one goes through memory. Body: a statement about the
 * lanes v of x that begin at i. */
#define FOR_LANES(x, fill, body)                      \
  for (size_t i = 0; i < n; i += LANES) {             \
    lanes v;                                          \
    if (n - i >= LANES) {                             \
      memcpy(v.at, (x) + i, sizeof v.at);             \
      body memcpy(y + i, v.at, sizeof v.at);          \
    } else {                                          \
      v = load_some((x) + i, n - i, fill);            \
      body memcpy(y + i, v.at, (n - i) * sizeof *y);  \
    }                                                 \
  }

#define EACH(j) for (int j = 0; j < LANES; j++)

#define MAP(name, expression)                            \
  static void name(size_t n, const float *x, float *y) { \
    FOR_LANES(x, 0, EACH(j) {                            \
      float u = v.at[j];                                 \
      v.at[j] = (expression);                            \
    })                                                   \
  }

MAP(exp_f32, oct_exp_f32(u))
MAP(sigmoid_f32, oct_sigmoid_f32(u))
MAP(tanh_f32, oct_tanh_f32(u))
MAP(erf_f32, oct_erf_f32(u))
MAP(gelu_f32, 0.5f * u * (1.0f + oct_erf_f32(u * 0.70710678f)))

/* Pairs of lanes, then pairs of pairs: a fixed tree. */
static inline float sum_of(const float *lane) {
  float half[8], quarter[4];
  for (int j = 0; j < 8; j++) half[j] = lane[j] + lane[j + 8];
  for (int j = 0; j < 4; j++) quarter[j] = half[j] + half[j + 4];
  return (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
}

static inline float max_of(const float *lane) {
  float best = lane[0];
  for (int j = 1; j < LANES; j++) best = lane[j] > best ? lane[j] : best;
  return best;
}

/* acc = step over the lanes of x, the last ones filled up. */
#define FOLD(x, fill, step)                   \
  for (size_t i = 0; i < n; i += LANES) {     \
    lanes v;                                  \
    if (n - i >= LANES) {                     \
      memcpy(v.at, (x) + i, sizeof v.at);     \
      EACH(j) { step }                        \
    } else {                                  \
      v = load_some((x) + i, n - i, fill);    \
      EACH(j) { step }                        \
    }                                         \
  }

static void softmax_f32(size_t n, const float *x, float *y) {
  float most[LANES], sums[LANES] = {0};
  EACH(j) most[j] = -INFINITY;
  FOLD(x, -INFINITY, most[j] = v.at[j] > most[j] ? v.at[j] : most[j];)
  const float max = max_of(most);
  FOR_LANES(x, -INFINITY, EACH(j) v.at[j] = oct_exp_f32(v.at[j] - max); EACH(j) sums[j] += v.at[j];)
  const float sum = sum_of(sums);
  FOR_LANES(y, 0, EACH(j) v.at[j] = v.at[j] / sum;)
}

static void layer_norm_f32(size_t n, const float *x, const float *scale, const float *shift, float epsilon, float *y) {
  float sums[LANES] = {0}, squares[LANES] = {0};
  FOLD(x, 0, sums[j] += v.at[j];)
  const float mean = sum_of(sums) / (float)n;
  FOLD(x, mean, squares[j] += (v.at[j] - mean) * (v.at[j] - mean);)
  const float factor = 1.0f / sqrtf(sum_of(squares) / (float)n + epsilon);
  size_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    lanes v, s, t = {{0}};
    memcpy(v.at, x + i, sizeof v.at);
    memcpy(s.at, scale + i, sizeof s.at);
    if (shift) memcpy(t.at, shift + i, sizeof t.at);
    EACH(j) v.at[j] = (v.at[j] - mean) * factor * s.at[j] + t.at[j];
    memcpy(y + i, v.at, sizeof v.at);
  }
  for (; i < n; i++) y[i] = (x[i] - mean) * factor * scale[i] + (shift ? shift[i] : 0);
}

#define OCT_VECTOR_MATH_ROW                                                                                                                  \
  {                                                                                                                                          \
    .exp_f32 = exp_f32, .sigmoid_f32 = sigmoid_f32, .tanh_f32 = tanh_f32, .erf_f32 = erf_f32, .gelu_f32 = gelu_f32,                          \
    .softmax_f32 = softmax_f32, .layer_norm_f32 = layer_norm_f32,                                                                            \
  }

#endif
#endif
