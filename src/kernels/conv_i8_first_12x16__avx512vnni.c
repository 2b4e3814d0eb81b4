/* First-layer convolution for AVX-512 VNNI: tiles of 12 pixels x 16 channels.
 * SPDX-License-Identifier: MIT */
#define ROWS 12
#define WIDTH 16

#include "kernels/conv_i8_first_512_tile.h"

static const char *reject(const oct_conv_shape *s) {
  if (s->out_channels > WIDTH) return "made for at most 16 output channels";
  if (s->out_w < 40) return "direct convolution is faster for so short rows";
  return oct_first_reject(s);
}

const oct_conv_i8_kernel oct_conv_i8_first_12x16__avx512vnni = {
    .name = "conv_i8_first_12x16__avx512vnni",
    .isa = OCT_ISA_AVX512VNNI,
    .preference = 451,
    .reject = reject,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .units = oct_first_units,
    .run = run,
};
