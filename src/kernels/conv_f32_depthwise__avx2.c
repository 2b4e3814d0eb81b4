/* Depthwise and narrow grouped float convolution, AVX2 + FMA: 8 channels x up to 8 pixels. See conv_f32_depthwise_tile.h.
 *
 * The result stays within (K + 4) * 2^-24 * (sum of |x * w| + |bias| + |residual|) of the exact one, K = products per output.
 * SPDX-License-Identifier: MIT */
#include <immintrin.h>

#include "kernels/kernels.h"

#define LANES 8
#define REUSE 0
#define V __m256
#define I __m256i
#define M __m256i
#define V_ZERO() _mm256_setzero_ps()
#define V_SET1(x) _mm256_set1_ps(x)
#define V_LOAD(p) _mm256_loadu_ps(p)
#define V_LOAD_MASK(m, p) _mm256_maskload_ps(p, m)
#define V_STORE(p, x) _mm256_storeu_ps(p, x)
#define V_STORE_MASK(p, m, x) _mm256_maskstore_ps(p, m, x)
#define I_NEXT(x) _mm256_add_epi32(x, _mm256_set1_epi32(1))
#define V_PERMUTE(i, x) _mm256_permutevar8x32_ps(x, i)
#define V_ADD(a, b) _mm256_add_ps(a, b)
#define V_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define V_MIN(a, b) _mm256_min_ps(a, b)
#define V_MAX(a, b) _mm256_max_ps(a, b)

static inline __m256i lane_mask(int64_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* Lane i is output channel c + i; its group's first input channel, counted from `first`. */
static inline __m256i lane_inputs(int64_t c, int64_t first, int64_t group_in, int64_t group_out) {
  int32_t lanes[8];
  for (int i = 0; i < 8; i++) lanes[i] = (int32_t)((c + i) / group_out * group_in - first);
  return _mm256_loadu_si256((const __m256i *)lanes);
}

#include "kernels/conv_f32_depthwise_tile.h"

const oct_conv_f32_kernel oct_conv_f32_depthwise__avx2 = {
    .name = "conv_f32_depthwise__avx2",
    .isa = OCT_ISA_AVX2,
    .preference = 110,
    .reject = reject,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .units = units,
    .run = run,
};
