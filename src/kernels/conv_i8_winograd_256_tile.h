/* Exact Winograd convolution with 256-bit vectors: products of 6 tiles x 16 output channels, 10 x 8. The including file defines
 * V_MULTIPLY_ADD(c, x, w): c + the sums of the two products of each pair of 16-bit values, wrapping (two products fit 32 bits).
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_WINOGRAD_256_TILE_H
#define OCT_KERNELS_CONV_I8_WINOGRAD_256_TILE_H

#include "kernels/epilogue_i8__avx2.h"

#define LANES 16
#define WIDTH 16
#define V __m256i
#define V_ZERO() _mm256_setzero_si256()
#define V_SET1(x) _mm256_set1_epi32(x)
#define V_SET1_32(p) broadcast(p)
#define V_LOAD(p) _mm256_load_si256((const __m256i *)(const void *)(p))
#define V_STORE(p, x) _mm256_store_si256((__m256i *)(void *)(p), x)
#define V_WIDEN(p) _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define V_ADD16(a, b) _mm256_add_epi16(a, b)
#define V_SUB16(a, b) _mm256_sub_epi16(a, b)
#define V_SHIFT16(a, n) _mm256_slli_epi16(a, n)
#define V_ADD32(a, b) _mm256_add_epi32(a, b)
#define V_SUB32(a, b) _mm256_sub_epi32(a, b)
#define V_SHIFT32(a, n) _mm256_slli_epi32(a, n)
#define V_SHIFT_RIGHT32(a, n) _mm256_srai_epi32(a, n)
#define V_MUL32(a, b) _mm256_mullo_epi32(a, b)

static inline __m256i broadcast(const int16_t *p) {
  int32_t pair;
  memcpy(&pair, p, 4);
  return _mm256_set1_epi32(pair);
}

#include "kernels/conv_i8_winograd_tile.h"

DEFINE_PRODUCTS_6(1)
DEFINE_PRODUCT(1, 7)
DEFINE_PRODUCT(1, 8)
DEFINE_PRODUCT(1, 9)
DEFINE_PRODUCT(1, 10)
DEFINE_PRODUCTS_6(2)

static const int rows[] = {10, 6};
static const oct_winograd_product_fn products[][OCT_WINOGRAD_ROWS + 1] = {
    {PRODUCTS_6(1), product_1_7, product_1_8, product_1_9, product_1_10},
    {PRODUCTS_6(2)},
};
static const oct_winograd_isa isa = {
    .lanes = LANES,
    .quantum = 8,
    .widest = WIDTH,
    .rows = rows,
    .products = products,
    .input = INPUTS,
    .output = OUTPUTS,
    .epilogue = oct_epilogue_i8_avx2,
};

#endif
