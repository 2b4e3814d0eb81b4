/* 512-bit vectors for exact Winograd convolution. Products are vpdpwssd, the form that wraps; the saturating one would not be exact.
 * The including file defines WIDTH, the output channels of a panel.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_WINOGRAD_512_TILE_H
#define OCT_KERNELS_CONV_I8_WINOGRAD_512_TILE_H

#include "kernels/epilogue_i8__avx512.h"

#define LANES 32
#define V __m512i
#define V_ZERO() _mm512_setzero_si512()
#define V_SET1(x) _mm512_set1_epi32(x)
#define V_SET1_32(p) broadcast(p)
#define V_LOAD(p) _mm512_load_si512(p)
#define V_STORE(p, x) _mm512_store_si512(p, x)
#define V_WIDEN(p) _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)(p)))
#define V_WIDEN_SIGNED(p) _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)(p)))
/* 32 of 64 channels of two pixels side by side: see oct_winograd_channel(). */
#define V_PAIRS(half, p, q)                                                  \
  (half ? _mm512_unpackhi_epi8(_mm512_loadu_si512(p), _mm512_loadu_si512(q)) \
        : _mm512_unpacklo_epi8(_mm512_loadu_si512(p), _mm512_loadu_si512(q)))
#define V_COMBINE(x, first, second) _mm512_maddubs_epi16(x, _mm512_set1_epi16((short)((second)*256 + ((first)&255))))
#define V_ADD16(a, b) _mm512_add_epi16(a, b)
#define V_SUB16(a, b) _mm512_sub_epi16(a, b)
#define V_SHIFT16(a, n) _mm512_slli_epi16(a, n)
#define V_ADD32(a, b) _mm512_add_epi32(a, b)
#define V_SUB32(a, b) _mm512_sub_epi32(a, b)
#define V_SHIFT32(a, n) _mm512_slli_epi32(a, n)
#define V_SHIFT_RIGHT32(a, n) _mm512_srai_epi32(a, n)
#define V_MUL32(a, b) _mm512_mullo_epi32(a, b)
#define V_MULTIPLY_ADD(c, x, w) _mm512_dpwssd_epi32(c, x, w)

static inline __m512i broadcast(const int16_t *p) {
  int32_t pair;
  memcpy(&pair, p, 4);
  return _mm512_set1_epi32(pair);
}

#include "kernels/conv_i8_winograd_tile.h"

#endif
