/* Exact Winograd convolution for AVX-512 VNNI, weights packed as transformed: for many tiles.
 * SPDX-License-Identifier: MIT */
#include "kernels/conv_i8_winograd.h"

/* Against direct convolution, whose weights are an eighth as large: 24 tiles pay for fetching them. At ResNet18's 64 channels 1.3 times
 * as fast, at 128 1.5 times; where a processor starts one 512-bit product per cycle beside additions, more. */
static const oct_winograd_worth worth = {.channels = 32, .out_channels = 32, .both = 2048, .tiles = 24};

#include "kernels/conv_i8_winograd_tile512.h"

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
