/* First-layer convolution for AVX-512 VNNI: tiles of 8 pixels x 32 channels.
 * SPDX-License-Identifier: MIT */
#define ROWS 8
#define WIDTH 32

#include "kernels/conv_i8_first_512_tile.h"

static const char *reject(const oct_conv_shape *s) {
  if ((s->out_channels - 1) % WIDTH < 16) return "made for multiples of 32 output channels, or nearly";
  return oct_first_reject(s);
}

const oct_conv_i8_kernel oct_conv_i8_first_8x32__avx512vnni = {
    .name = "conv_i8_first_8x32__avx512vnni",
    .isa = OCT_ISA_AVX512VNNI,
    .preference = 452,
    .reject = reject,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .units = oct_first_units,
    .run = run,
};
