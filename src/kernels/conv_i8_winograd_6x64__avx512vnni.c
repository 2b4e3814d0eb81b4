/* Exact Winograd convolution for AVX-512 VNNI: products of 6 tiles x 64 output channels, 8 x 48, 10 x 32 and 10 x 16. For many tiles:
 * weights are packed transformed.
 * SPDX-License-Identifier: MIT */
#define WIDTH 64

#include "kernels/conv_i8_winograd_512_tile.h"

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

/* Against direct convolution, whose weights are an eighth as large: 24 tiles pay for fetching them. At 64 channels 1.3 times as fast, at
 * 128 1.45 times, at 256 1.2 to 1.4 times; where a processor starts one 512-bit product per cycle beside additions, more. */
static const oct_winograd_worth worth = {.channels = 32, .out_channels = 32, .both = 2048, .tiles = 16, .most = 8192};

#include "kernels/conv_i8_winograd_row_tile.h"

const oct_conv_i8_kernel oct_conv_i8_winograd_6x64__avx512vnni = {
    .name = "conv_i8_winograd_6x64__avx512vnni",
    .isa = OCT_ISA_AVX512VNNI,
    .preference = 500,
    .reject = reject,
    .reject_weights = oct_winograd_reject_weights,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .workspace_bytes = workspace_bytes,
    .units = units,
    .run = run,
};
