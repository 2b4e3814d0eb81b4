/* Exact Winograd convolution for AVX2: products by vpmaddwd, which is exact here (2 * 17340 * 18432 < 2^31).
 * SPDX-License-Identifier: MIT */
#include <immintrin.h>

#define V_MULTIPLY_ADD(c, x, w) _mm256_add_epi32(c, _mm256_madd_epi16(x, w))

#include "kernels/conv_i8_winograd_256_tile.h"

/* Against direct convolution, which has to widen its bytes: nearly always, 2.5 to 3.5 times as fast from 32 channels on. */
static const oct_winograd_worth worth = {.channels = 16, .out_channels = 8, .both = 256, .tiles = 4};

#include "kernels/conv_i8_winograd_row_tile.h"

const oct_conv_i8_kernel oct_conv_i8_winograd_6x16__avx2 = {
    .name = "conv_i8_winograd_6x16__avx2",
    .isa = OCT_ISA_AVX2,
    .preference = 250,
    .reject = reject,
    .reject_weights = oct_winograd_reject_weights,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .workspace_bytes = workspace_bytes,
    .units = units,
    .run = run,
};
