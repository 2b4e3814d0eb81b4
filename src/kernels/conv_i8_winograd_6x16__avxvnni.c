/* Exact Winograd convolution for AVX-VNNI, and once more for the 256-bit VNNI of AVX-512, so that it is tested on machines without
 * AVX-VNNI.
 * SPDX-License-Identifier: MIT */
#include <immintrin.h>

/* The form that wraps; the saturating one would not be exact. */
#ifdef OCT_AVXVNNI_AS_AVX512VL
#define V_MULTIPLY_ADD(c, x, w) _mm256_dpwssd_epi32(c, x, w)
#else
#define V_MULTIPLY_ADD(c, x, w) _mm256_dpwssd_avx_epi32(c, x, w)
#endif

#include "kernels/conv_i8_winograd_256_tile.h"

/* Against direct convolution with 8-bit dot products, 1.1 to 1.3 times as fast. */
static const oct_winograd_worth worth = {.channels = 64, .out_channels = 32, .both = 2048, .tiles = 16};

#include "kernels/conv_i8_winograd_row_tile.h"

#ifdef OCT_AVXVNNI_AS_AVX512VL
const oct_conv_i8_kernel oct_conv_i8_winograd_6x16__avx512vl = {
    .name = "conv_i8_winograd_6x16__avx512vl",
    .isa = OCT_ISA_AVX512VNNI,
    .preference = 110,
#else
const oct_conv_i8_kernel oct_conv_i8_winograd_6x16__avxvnni = {
    .name = "conv_i8_winograd_6x16__avxvnni",
    .isa = OCT_ISA_AVXVNNI,
    .preference = 350,
#endif
    .reject = reject,
    .reject_weights = oct_winograd_reject_weights,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .workspace_bytes = workspace_bytes,
    .units = units,
    .run = run,
};
