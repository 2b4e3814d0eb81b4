/* Exact Winograd convolution for AVX-512 VNNI: products of 10 tiles x 32 output channels, or 16. For few tiles and many weights: these are
 * packed as they are.
 * SPDX-License-Identifier: MIT */
#define WIDTH 32
#define OCT_WINOGRAD_PLAIN

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

static const int rows[] = {10, 10};
static const oct_winograd_product_fn products[][OCT_WINOGRAD_ROWS + 1] = {
    {PRODUCTS_6(1), product_1_7, product_1_8, product_1_9, product_1_10},
    {PRODUCTS_6(2), product_2_7, product_2_8, product_2_9, product_2_10},
};
static const oct_winograd_isa isa = {
    .lanes = LANES,
    .pairs = true,
    .quantum = 16,
    .widest = WIDTH,
    .rows = rows,
    .products = products,
    .expand = expand,
    .input = INPUTS,
    .output = OUTPUTS,
    .epilogue = oct_epilogue_i8_avx512,
};

/* Against direct convolution, with weights as large as its own: 1.05 to 1.2 times as fast with 16 tiles, more with more. */
static const oct_winograd_worth worth = {.channels = 128, .out_channels = 128, .both = 16384, .tiles = 16};

#include "kernels/conv_i8_winograd_row_tile.h"

const oct_conv_i8_kernel oct_conv_i8_winograd_compact_10x32__avx512vnni = {
    .name = "conv_i8_winograd_compact_10x32__avx512vnni",
    .isa = OCT_ISA_AVX512VNNI,
    .preference = 490,
    .reject = reject,
    .reject_weights = oct_winograd_reject_weights,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .workspace_bytes = workspace_bytes,
    .units = units,
    .run = run,
};
