/* Vector operations of the AVX-512 variants of the float Winograd convolution.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_F32_WINOGRAD__AVX512_H
#define OCT_KERNELS_CONV_F32_WINOGRAD__AVX512_H

#include <immintrin.h>
#include <stdint.h>

#define LANES 16
#define V __m512
#define M __mmask16
#define V_ZERO() _mm512_setzero_ps()
#define V_SET1(x) _mm512_set1_ps(x)
#define V_LOAD(p) _mm512_loadu_ps(p)
#define V_LOAD_MASK(m, p) _mm512_maskz_loadu_ps(m, p)
#define V_STORE(p, x) _mm512_storeu_ps(p, x)
#define V_STORE_MASK(p, m, x) _mm512_mask_storeu_ps(p, m, x)
#define V_ADD(a, b) _mm512_add_ps(a, b)
#define V_SUB(a, b) _mm512_sub_ps(a, b)
#define V_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define V_FMSUB(a, b, c) _mm512_fmsub_ps(a, b, c)
#define V_MIN(a, b) _mm512_min_ps(a, b)
#define V_MAX(a, b) _mm512_max_ps(a, b)

static inline __mmask16 lane_mask(int64_t count) { return (__mmask16)(0xffffu >> (16 - count)); }

#endif
