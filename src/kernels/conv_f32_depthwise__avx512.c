/* Depthwise and narrow grouped float convolution, AVX-512: 16 channels x up to 8 pixels. See conv_f32_depthwise_tile.h.
 *
 * The result stays within (K + 4) * 2^-24 * (sum of |x * w| + |bias| + |residual|) of the exact one, K = products per output.
 * SPDX-License-Identifier: MIT */
#include <immintrin.h>

#include "kernels/kernels.h"

#define LANES 16
#define REUSE 1
#define V __m512
#define I __m512i
#define M __mmask16
#define V_ZERO() _mm512_setzero_ps()
#define V_SET1(x) _mm512_set1_ps(x)
#define V_LOAD(p) _mm512_loadu_ps(p)
#define V_LOAD_MASK(m, p) _mm512_maskz_loadu_ps(m, p)
#define V_STORE(p, x) _mm512_storeu_ps(p, x)
#define V_STORE_MASK(p, m, x) _mm512_mask_storeu_ps(p, m, x)
#define I_NEXT(x) _mm512_add_epi32(x, _mm512_set1_epi32(1))
#define V_PERMUTE(i, x) _mm512_permutexvar_ps(i, x)
#define V_ADD(a, b) _mm512_add_ps(a, b)
#define V_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define V_MIN(a, b) _mm512_min_ps(a, b)
#define V_MAX(a, b) _mm512_max_ps(a, b)

static inline __mmask16 lane_mask(int64_t count) { return (__mmask16)(0xffffu >> (16 - count)); }

/* Lane i is output channel c + i; its group's first input channel, counted from `first`. */
static inline __m512i lane_inputs(int64_t c, int64_t first, int64_t group_in, int64_t group_out) {
  int32_t lanes[16];
  for (int i = 0; i < 16; i++) lanes[i] = (int32_t)((c + i) / group_out * group_in - first);
  return _mm512_loadu_si512(lanes);
}

#include "kernels/conv_f32_depthwise_tile.h"

const oct_conv_f32_kernel oct_conv_f32_depthwise__avx512 = {
    .name = "conv_f32_depthwise__avx512",
    .isa = OCT_ISA_AVX512,
    .preference = 210,
    .reject = reject,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .units = units,
    .run = run,
};
