/* Exact Winograd convolution with 512-bit vectors (AVX-512 VNNI): products of 6 tiles x 64 output channels, 8 x 48, 10 x 32 and 10 x 16
 * by vpdpwssd, the form that wraps; the saturating one would not be exact.
 * SPDX-License-Identifier: MIT */
#ifndef OCT_KERNELS_CONV_I8_WINOGRAD_TILE512_H
#define OCT_KERNELS_CONV_I8_WINOGRAD_TILE512_H

#include "kernels/epilogue_i8__avx512.h"

#define LANES 32
#define WIDTH 64
#define V __m512i
#define V_ZERO() _mm512_setzero_si512()
#define V_SET1(x) _mm512_set1_epi32(x)
#define V_SET1_32(p) broadcast(p)
#define V_LOAD(p) _mm512_load_si512(p)
#define V_STORE(p, x) _mm512_store_si512(p, x)
#define V_WIDEN(p) _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)(p)))
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

DEFINE_PRODUCTS_6(1)
DEFINE_PRODUCT(1, 7)
DEFINE_PRODUCT(1, 8)
DEFINE_PRODUCT(1, 9)
DEFINE_PRODUCT(1, 10)
DEFINE_PRODUCTS_6(2)
DEFINE_PRODUCT(2, 7)
DEFINE_PRODUCT(2, 8)
DEFINE_PRODUCT(2, 9)
DEFINE_PRODUCT(2, 10)
DEFINE_PRODUCTS_6(3)
DEFINE_PRODUCT(3, 7)
DEFINE_PRODUCT(3, 8)
DEFINE_PRODUCTS_6(4)

static const int rows[] = {10, 10, 8, 6};
static const oct_winograd_product_fn products[][OCT_WINOGRAD_ROWS + 1] = {
    {PRODUCTS_6(1), product_1_7, product_1_8, product_1_9, product_1_10},
    {PRODUCTS_6(2), product_2_7, product_2_8, product_2_9, product_2_10},
    {PRODUCTS_6(3), product_3_7, product_3_8},
    {PRODUCTS_6(4)},
};
static const oct_winograd_isa isa = {
    .lanes = LANES,
    .quantum = 16,
    .widest = WIDTH,
    .rows = rows,
    .products = products,
    .input = INPUTS,
    .output = OUTPUTS,
    .epilogue = oct_epilogue_i8_avx512,
};

static const char *reject(const oct_conv_shape *s) { return oct_winograd_reject_small(s, &worth); }
static size_t packed_bytes(const oct_conv_shape *s) { return oct_winograd_packed_bytes(s, &isa); }
static void pack(const oct_conv_shape *s, const int8_t *weights, void *packed) { oct_winograd_pack(s, &isa, weights, packed); }
static size_t workspace_bytes(const oct_conv_shape *s) { return oct_winograd_workspace_bytes(s, &isa); }
static size_t units(const oct_conv_shape *s) { return oct_winograd_units(s, &isa); }
static void run(const oct_conv_i8_args *args, size_t begin, size_t end, void *workspace) {
  oct_winograd_run(args, &isa, begin, end, workspace);
}

#endif
