/* Direct 8-bit convolution, tiles of 10 pixels x 32 channels: 20 accumulators.
 * SPDX-License-Identifier: MIT */
#define ROWS 10
#define VECTORS 2

#include "kernels/conv_i8_direct_512_tile.h"

const oct_direct_tile oct_conv_i8_tile_10x32__avx512vnni = {
    .rows = ROWS,
    .width = WIDTH,
    .by_rows = {TILES},
};

static const char *reject(const oct_conv_shape *s) {
  return s->out_channels / s->groups > WIDTH ? "made for at most 32 output channels per group" : NULL;
}

const oct_conv_i8_kernel oct_conv_i8_direct_10x32__avx512vnni = {
    .name = "conv_i8_direct_10x32__avx512vnni",
    .isa = OCT_ISA_AVX512VNNI,
    .preference = 420,
    .reject = reject,
    .packed_bytes = oct_conv_i8_direct_packed_bytes__avx512vnni,
    .pack = oct_conv_i8_direct_pack__avx512vnni,
    .units = oct_conv_i8_direct_units__avx512vnni,
    .run = oct_conv_i8_direct_run__avx512vnni,
};
