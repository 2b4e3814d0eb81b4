/* The functions of oct_vector_math for vectors of floats, written once for every width. The including file defines
 *   V, LANES, V_SET1, V_LOAD, V_STORE, V_LOAD_PART(p, n, fill), V_STORE_PART(p, v, n)
 *   V_ADD, V_SUB, V_MUL, V_DIV, V_SQRT, V_FMA(a, b, c) = a b + c, V_FNMA(a, b, c) = c - a b, V_MIN, V_MAX (of NaN and x: the second operand)
 *   V_ROUND (to nearest integer, half to even), V_SCALE(y, k) = y 2^k for integers -151 < k < 129, V_ABS, V_SIGN(x, s) = |x| with the sign of s
 *   V_SUM, V_MOST (to one float)
 *   V_EVEN(a, b), V_ODD(a, b): of LANES pairs; V_PAIRS_LOW(u, w), V_PAIRS_HIGH(u, w): the pairs again
 *   V_GATHER(p, step), V_SCATTER(p, step, v): lanes at p[lane * step], step < 2^24
 * Products are fused here, so that results differ from the scalar form by rounding; errors stay below those that math_f32.h states.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_VECTOR_MATH_SIMD_H
#define OCT_KERNELS_VECTOR_MATH_SIMD_H

#include <string.h>

#include "kernels/vector_math.h"

#define INLINE static inline __attribute__((always_inline))

/* x = k ln 2 + r with |r| <= ln(2) / 2; returns expm1(r). */
INLINE V exp_parts(V x, V *k) {
  *k = V_ROUND(V_MUL(x, V_SET1(1.44269504f)));
  V r = V_FNMA(*k, V_SET1(0.693145752f), x), sum = V_SET1(1.0f / 5040);
  r = V_FNMA(*k, V_SET1(1.42860677e-6f), r);
  sum = V_FMA(sum, r, V_SET1(1.0f / 720));
  sum = V_FMA(sum, r, V_SET1(1.0f / 120));
  sum = V_FMA(sum, r, V_SET1(1.0f / 24));
  sum = V_FMA(sum, r, V_SET1(1.0f / 6));
  sum = V_FMA(sum, r, V_SET1(0.5f));
  return V_FMA(V_MUL(r, r), sum, r);
}

/* Bounds keep 2^k representable; NaN passes. */
INLINE V exp_of(V x) {
  V k, p = exp_parts(V_MAX(V_SET1(-104.0f), V_MIN(V_SET1(88.8f), x)), &k);
  return V_SCALE(V_ADD(p, V_SET1(1)), k);
}

INLINE V sigmoid_of(V x) { return V_DIV(V_SET1(1), V_ADD(V_SET1(1), exp_of(V_SUB(V_SET1(0), x)))); }

/* e / (e + 2) with e = expm1(2 |x|) = 2^k expm1(r) + (2^k - 1) */
INLINE V tanh_of(V x) {
  V k, t = V_MIN(V_SET1(10.0f), V_ABS(x)), p = exp_parts(V_ADD(t, t), &k), power = V_SCALE(V_SET1(1), k);
  V e = V_FMA(power, p, V_SUB(power, V_SET1(1)));
  return V_SIGN(V_DIV(e, V_ADD(e, V_SET1(2))), x);
}

/* x N(x^2) / D(x^2), fitted for the least relative error on [0, 3.92]; a little further it exceeds 1, which is what erf is in f32 from there on. */
INLINE V erf_of(V x) {
  V t = V_MIN(V_SET1(4.0f), V_ABS(x)), z = V_MUL(t, t), n = V_SET1(2.05024713e-06f), d = V_SET1(3.80927423e-05f);
  n = V_FMA(n, z, V_SET1(0.000284870338f));
  d = V_FMA(d, z, V_SET1(0.00116237514f));
  n = V_FMA(n, z, V_SET1(0.00376492882f));
  d = V_FMA(d, z, V_SET1(0.0149678255f));
  n = V_FMA(n, z, V_SET1(0.0527465814f));
  d = V_FMA(d, z, V_SET1(0.114102335f));
  n = V_FMA(n, z, V_SET1(0.190389984f));
  d = V_FMA(d, z, V_SET1(0.502061474f));
  n = V_FMA(n, z, V_SET1(1.12837915f));
  d = V_FMA(d, z, V_SET1(1));
  return V_SIGN(V_MIN(V_SET1(1), V_DIV(V_MUL(t, n), d)), x);
}

INLINE V gelu_of(V x) {
  V half = V_MUL(x, V_SET1(0.5f));
  return V_FMA(half, erf_of(V_MUL(x, V_SET1(0.70710678f))), half);
}

#define MAP(name, function)                                                           \
  static void name(size_t n, const float *x, float *y) {                              \
    size_t i = 0;                                                                     \
    for (; i + LANES <= n; i += LANES) V_STORE(y + i, function(V_LOAD(x + i)));       \
    if (i < n) V_STORE_PART(y + i, function(V_LOAD_PART(x + i, n - i, 0.0f)), n - i); \
  }

MAP(exp_f32, exp_of)
MAP(sigmoid_f32, sigmoid_of)
MAP(tanh_f32, tanh_of)
MAP(erf_f32, erf_of)
MAP(gelu_f32, gelu_of)

static void softmax_f32(size_t n, const float *x, float *y) {
  V most = V_SET1(-INFINITY), sum = V_SET1(0);
  size_t i = 0, whole = n / LANES * LANES;
  for (i = 0; i < whole; i += LANES) most = V_MAX(most, V_LOAD(x + i));
  if (i < n) most = V_MAX(most, V_LOAD_PART(x + i, n - i, -INFINITY));
  const V max = V_SET1(V_MOST(most));
  for (i = 0; i < whole; i += LANES) {
    V e = exp_of(V_SUB(V_LOAD(x + i), max));
    V_STORE(y + i, e);
    sum = V_ADD(sum, e);
  }
  if (i < n) {
    V e = exp_of(V_SUB(V_LOAD_PART(x + i, n - i, -INFINITY), max));
    V_STORE_PART(y + i, e, n - i);
    sum = V_ADD(sum, e);
  }
  const V factor = V_SET1(1.0f / V_SUM(sum));
  for (i = 0; i < whole; i += LANES) V_STORE(y + i, V_MUL(V_LOAD(y + i), factor));
  if (i < n) V_STORE_PART(y + i, V_MUL(V_LOAD_PART(y + i, n - i, 0.0f), factor), n - i);
}

/* The first `part` of LANES columns. */
INLINE void softmax_column_block(size_t n, const float *x, float *y, size_t stride, size_t part, const bool whole) {
#define COLUMN_LOAD(p, fill) (whole ? V_LOAD(p) : V_LOAD_PART(p, part, fill))
#define COLUMN_STORE(p, v)         \
  do {                             \
    if (whole) V_STORE(p, v);      \
    else V_STORE_PART(p, v, part); \
  } while (0)
  V max = V_SET1(-INFINITY), sum = V_SET1(0);
  for (size_t i = 0; i < n; i++) max = V_MAX(max, COLUMN_LOAD(x + i * stride, 0.0f));
  for (size_t i = 0; i < n; i++) {
    V e = exp_of(V_SUB(COLUMN_LOAD(x + i * stride, 0.0f), max));
    COLUMN_STORE(y + i * stride, e);
    sum = V_ADD(sum, e);
  }
  const V factor = V_DIV(V_SET1(1), sum);
  for (size_t i = 0; i < n; i++) COLUMN_STORE(y + i * stride, V_MUL(COLUMN_LOAD(y + i * stride, 0.0f), factor));
#undef COLUMN_LOAD
#undef COLUMN_STORE
}

static void softmax_columns_f32(size_t columns, size_t n, const float *x, float *y, size_t stride) {
  size_t c = 0;
  for (; c + LANES <= columns; c += LANES) softmax_column_block(n, x + c, y + c, stride, LANES, true);
  if (c < columns) softmax_column_block(n, x + c, y + c, stride, columns - c, false);
}

#define SHORT_ROW 16 /* longer rows fill vectors of their own */

/* LANES rows of two. */
INLINE void softmax_pairs(const float *x, float *y) {
  V a = V_LOAD(x), b = V_LOAD(x + LANES), u = V_EVEN(a, b), w = V_ODD(a, b), max = V_MAX(u, w);
  u = exp_of(V_SUB(u, max));
  w = exp_of(V_SUB(w, max));
  const V factor = V_DIV(V_SET1(1), V_ADD(u, w));
  u = V_MUL(u, factor);
  w = V_MUL(w, factor);
  V_STORE(y, V_PAIRS_LOW(u, w));
  V_STORE(y + LANES, V_PAIRS_HIGH(u, w));
}

/* LANES rows of at most SHORT_ROW, one in each lane. */
static void softmax_short_rows(size_t n, const float *x, float *y) {
  float tile[SHORT_ROW * LANES];
  if (n == 2) {
    softmax_pairs(x, y);
    return;
  }
  for (size_t i = 0; i < n; i++) V_STORE(tile + i * LANES, V_GATHER(x + i, (int)n));
  softmax_column_block(n, tile, tile, LANES, LANES, true);
  for (size_t i = 0; i < n; i++) V_SCATTER(y + i, (int)n, V_LOAD(tile + i * LANES));
}

static void softmax_rows_f32(size_t rows, size_t n, const float *x, float *y) {
  size_t r = 0;
  if (n > SHORT_ROW) {
    for (; r < rows; r++) softmax_f32(n, x + r * n, y + r * n);
    return;
  }
  for (; r + LANES <= rows; r += LANES) softmax_short_rows(n, x + r * n, y + r * n);
  if (r == rows) return;
  float few[SHORT_ROW * LANES] = {0}; /* the same operations, so that a row's place does not matter */
  memcpy(few, x + r * n, (rows - r) * n * sizeof *x);
  softmax_short_rows(n, few, few);
  memcpy(y + r * n, few, (rows - r) * n * sizeof *y);
}

/* Sums of four vectors at a time, so that an addition need not wait for the one before. */
INLINE float row_sum(size_t n, const float *x) {
  V a = V_SET1(0), b = a, c = a, d = a;
  size_t i = 0;
  for (; i + 4 * LANES <= n; i += 4 * LANES) {
    a = V_ADD(a, V_LOAD(x + i)), b = V_ADD(b, V_LOAD(x + i + LANES));
    c = V_ADD(c, V_LOAD(x + i + 2 * LANES)), d = V_ADD(d, V_LOAD(x + i + 3 * LANES));
  }
  for (; i + LANES <= n; i += LANES) a = V_ADD(a, V_LOAD(x + i));
  if (i < n) b = V_ADD(b, V_LOAD_PART(x + i, n - i, 0.0f));
  return V_SUM(V_ADD(V_ADD(a, b), V_ADD(c, d)));
}

INLINE V add_square(V sum, V difference) { return V_FMA(difference, difference, sum); }

INLINE float row_squares(size_t n, const float *x, float mean_f32) {
  const V mean = V_SET1(mean_f32);
  V a = V_SET1(0), b = a, c = a, d = a;
  size_t i = 0;
  for (; i + 4 * LANES <= n; i += 4 * LANES) {
    a = add_square(a, V_SUB(V_LOAD(x + i), mean)), b = add_square(b, V_SUB(V_LOAD(x + i + LANES), mean));
    c = add_square(c, V_SUB(V_LOAD(x + i + 2 * LANES), mean)), d = add_square(d, V_SUB(V_LOAD(x + i + 3 * LANES), mean));
  }
  for (; i + LANES <= n; i += LANES) a = add_square(a, V_SUB(V_LOAD(x + i), mean));
  if (i < n) b = add_square(b, V_SUB(V_LOAD_PART(x + i, n - i, mean_f32), mean));
  return V_SUM(V_ADD(V_ADD(a, b), V_ADD(c, d)));
}

static void layer_norm_f32(size_t n, const float *x, const float *scale, const float *shift, float epsilon, float *y) {
  const float mean_f32 = row_sum(n, x) / (float)n;
  const V mean = V_SET1(mean_f32), factor = V_SET1(1.0f / sqrtf(row_squares(n, x, mean_f32) / (float)n + epsilon));
  size_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    V r = V_MUL(V_MUL(V_SUB(V_LOAD(x + i), mean), factor), V_LOAD(scale + i));
    V_STORE(y + i, shift ? V_ADD(r, V_LOAD(shift + i)) : r);
  }
  if (i < n) {
    V r = V_MUL(V_MUL(V_SUB(V_LOAD_PART(x + i, n - i, 0.0f), mean), factor), V_LOAD_PART(scale + i, n - i, 0.0f));
    V_STORE_PART(y + i, shift ? V_ADD(r, V_LOAD_PART(shift + i, n - i, 0.0f)) : r, n - i);
  }
}

#endif
