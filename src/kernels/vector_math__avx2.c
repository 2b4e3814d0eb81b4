/* Functions of floats, AVX2. See vector_math_simd.h.
 * SPDX-License-Identifier: MIT */
#include <immintrin.h>
#include <string.h>

#define LANES 8
#define V __m256
#define V_SET1(x) _mm256_set1_ps(x)
#define V_LOAD(p) _mm256_loadu_ps(p)
#define V_STORE(p, v) _mm256_storeu_ps(p, v)
#define V_LOAD_PART(p, n, fill) load_part(p, n, fill)
#define V_STORE_PART(p, v, n) store_part(p, v, n)
#define V_ADD(a, b) _mm256_add_ps(a, b)
#define V_SUB(a, b) _mm256_sub_ps(a, b)
#define V_MUL(a, b) _mm256_mul_ps(a, b)
#define V_DIV(a, b) _mm256_div_ps(a, b)
#define V_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define V_FNMA(a, b, c) _mm256_fnmadd_ps(a, b, c)
#define V_MIN(a, b) _mm256_min_ps(a, b)
#define V_MAX(a, b) _mm256_max_ps(a, b)
#define V_ROUND(a) _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define V_SCALE(y, k) scale(y, k)
#define V_ABS(a) _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a)
#define V_SIGN(x, s) _mm256_or_ps(x, _mm256_and_ps(s, _mm256_set1_ps(-0.0f)))
#define V_SUM(v) sum_of(v)
#define V_MOST(v) most_of(v)
#define V_EVEN(a, b) in_order(_mm256_shuffle_ps(a, b, 0x88))
#define V_ODD(a, b) in_order(_mm256_shuffle_ps(a, b, 0xdd))
#define V_PAIRS_LOW(u, w) _mm256_permute2f128_ps(_mm256_unpacklo_ps(u, w), _mm256_unpackhi_ps(u, w), 0x20)
#define V_PAIRS_HIGH(u, w) _mm256_permute2f128_ps(_mm256_unpacklo_ps(u, w), _mm256_unpackhi_ps(u, w), 0x31)
#define V_GATHER(p, step) gather(p, step)
#define V_SCATTER(p, step, v) scatter(p, step, v)

static inline __m256 load_part(const float *p, size_t n, float fill) {
  float part[LANES];
  _mm256_storeu_ps(part, _mm256_set1_ps(fill));
  memcpy(part, p, n * sizeof *p);
  return _mm256_loadu_ps(part);
}

static inline void store_part(float *p, __m256 v, size_t n) {
  float part[LANES];
  _mm256_storeu_ps(part, v);
  memcpy(p, part, n * sizeof *p);
}

/* In two factors, since 2^k alone may leave the normal numbers. */
static inline __m256 scale(__m256 y, __m256 k) {
  const __m256i whole = _mm256_cvtps_epi32(k), half = _mm256_srai_epi32(whole, 1), one = _mm256_set1_epi32(127);
  const __m256i a = _mm256_slli_epi32(_mm256_add_epi32(half, one), 23);
  const __m256i b = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, half), one), 23);
  return _mm256_mul_ps(_mm256_mul_ps(y, _mm256_castsi256_ps(a)), _mm256_castsi256_ps(b));
}

static inline float sum_of(__m256 v) {
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

static inline float most_of(__m256 v) {
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

/* Two halves that were put together lane by lane: 64-bit parts 0 2 1 3. */
static inline __m256 in_order(__m256 v) { return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), 0xd8)); }

static inline __m256 gather(const float *p, int step) {
  return _mm256_setr_ps(p[0], p[step], p[2 * step], p[3 * step], p[4 * step], p[5 * step], p[6 * step], p[7 * step]);
}

static inline void scatter(float *p, int step, __m256 v) {
  float part[LANES];
  _mm256_storeu_ps(part, v);
  for (int i = 0; i < LANES; i++) p[i * step] = part[i];
}

#include "kernels/vector_math_simd.h"

const oct_vector_math oct_vector_math__avx2 = OCT_VECTOR_MATH_ROW;
