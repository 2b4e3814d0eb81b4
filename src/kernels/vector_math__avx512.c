/* Functions of floats, AVX-512. See vector_math_simd.h.
 * SPDX-License-Identifier: MIT */
#include <immintrin.h>

#define LANES 16
#define V __m512
#define PART(n) ((__mmask16)(0xffffu >> (16 - (n))))
#define V_SET1(x) _mm512_set1_ps(x)
#define V_LOAD(p) _mm512_loadu_ps(p)
#define V_STORE(p, v) _mm512_storeu_ps(p, v)
#define V_LOAD_PART(p, n, fill) _mm512_mask_loadu_ps(_mm512_set1_ps(fill), PART(n), p)
#define V_STORE_PART(p, v, n) _mm512_mask_storeu_ps(p, PART(n), v)
#define V_ADD(a, b) _mm512_add_ps(a, b)
#define V_SUB(a, b) _mm512_sub_ps(a, b)
#define V_MUL(a, b) _mm512_mul_ps(a, b)
#define V_DIV(a, b) _mm512_div_ps(a, b)
#define V_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define V_FNMA(a, b, c) _mm512_fnmadd_ps(a, b, c)
#define V_MIN(a, b) _mm512_min_ps(a, b)
#define V_MAX(a, b) _mm512_max_ps(a, b)
#define V_ROUND(a) _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define V_SCALE(y, k) _mm512_scalef_ps(y, k)
#define V_ABS(a) _mm512_abs_ps(a)
#define V_SIGN(x, s) _mm512_or_ps(x, _mm512_and_ps(s, _mm512_set1_ps(-0.0f)))
#define V_SUM(v) _mm512_reduce_add_ps(v)
#define V_MOST(v) _mm512_reduce_max_ps(v)
#define V_EVEN(a, b) _mm512_permutex2var_ps(a, lane_indices(0, 2), b)
#define V_ODD(a, b) _mm512_permutex2var_ps(a, lane_indices(1, 2), b)
#define V_PAIRS_LOW(u, w) _mm512_permutex2var_ps(u, pair_indices(0), w)
#define V_PAIRS_HIGH(u, w) _mm512_permutex2var_ps(u, pair_indices(8), w)
#define V_GATHER(p, step) _mm512_i32gather_ps(lane_indices(0, step), p, 4)
#define V_SCATTER(p, step, v) _mm512_i32scatter_ps(p, lane_indices(0, step), v, 4)

static inline __m512i lanes(void) { return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }
static inline __m512i lane_indices(int first, int step) {
  return _mm512_add_epi32(_mm512_set1_epi32(first), _mm512_mullo_epi32(lanes(), _mm512_set1_epi32(step)));
}
/* Elements first, first + 1, ... of two vectors in turn; index 16 is the second vector's element 0. */
static inline __m512i pair_indices(int first) {
  const __m512i half = _mm512_add_epi32(_mm512_srli_epi32(lanes(), 1), _mm512_set1_epi32(first));
  return _mm512_mask_add_epi32(half, 0xaaaa, half, _mm512_set1_epi32(16));
}

#include "kernels/vector_math_simd.h"

const oct_vector_math oct_vector_math__avx512 = OCT_VECTOR_MATH_ROW;
