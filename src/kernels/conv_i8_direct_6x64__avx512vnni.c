/* Direct 8-bit convolution, tiles of 6 pixels x 64 channels: 24 accumulators. Also what the narrower rows of this instruction set share.
 * SPDX-License-Identifier: MIT */
#define ROWS 6
#define VECTORS 4

#include "kernels/conv_i8_direct_512_tile.h"

const oct_direct_tile oct_conv_i8_tile_6x64__avx512vnni = {
    .rows = ROWS,
    .width = WIDTH,
    .by_rows = {TILES},
};

static const oct_direct_tile *const tiles[] = {&oct_conv_i8_tile_10x16__avx512vnni, &oct_conv_i8_tile_10x32__avx512vnni,
                                               &oct_conv_i8_tile_8x48__avx512vnni, &oct_conv_i8_tile_6x64__avx512vnni};
static const oct_direct_isa isa = {.quantum = 16, .widest = 64, .tiles = tiles, .epilogue = oct_epilogue_i8_avx512};

size_t oct_conv_i8_direct_packed_bytes__avx512vnni(const oct_conv_shape *s) { return oct_direct_packed_bytes(s, &isa); }
void oct_conv_i8_direct_pack__avx512vnni(const oct_conv_shape *s, const int8_t *weights, void *packed) {
  oct_direct_pack(s, &isa, weights, packed);
}
size_t oct_conv_i8_direct_units__avx512vnni(const oct_conv_shape *s) { return oct_direct_units(s, &isa); }
void oct_conv_i8_direct_run__avx512vnni(const oct_conv_i8_args *args, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  oct_direct_run(args, &isa, begin, end);
}

const oct_conv_i8_kernel oct_conv_i8_direct_6x64__avx512vnni = {
    .name = "conv_i8_direct_6x64__avx512vnni",
    .isa = OCT_ISA_AVX512VNNI,
    .preference = 400,
    .packed_bytes = oct_conv_i8_direct_packed_bytes__avx512vnni,
    .pack = oct_conv_i8_direct_pack__avx512vnni,
    .units = oct_conv_i8_direct_units__avx512vnni,
    .run = oct_conv_i8_direct_run__avx512vnni,
};
