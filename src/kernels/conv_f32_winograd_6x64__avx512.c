/* Float Winograd convolution F(4x4,3x3), AVX-512: products of 6 tiles x 64 channels, 8 x 48, 12 x 32, 12 x 16.
 *
 * An output's result stays within (C + 32) * 2^-24 * (2304 * sum over the C channels of max |x| * max |w| + |bias| + |residual|) of
 * the exact one, with the maxima over the 6x6 inputs of its tile and over the channel's 3x3 weights: C + 32 roundings, and 2304 =
 * 48^2 bounds the products of the transforms' absolute coefficients. On data as networks have it the error is about five times that of
 * a direct sum: 1e-6 to 4e-6 of the outputs' root mean square. Inputs above 1e34 may overflow. A NaN or infinity spreads over its tile.
 * SPDX-License-Identifier: MIT */
#include "kernels/conv_f32_winograd__avx512.h"

#define PANEL 64
#define STORED 36
#define SCRATCH 0
#define LEAD(position) (position)
#define FETCHING 3
#define BYTES_PER_TILE 65536 /* above these, transforming the weights in registers is faster */
#define MOST_BYTES (2560 * 1024)
#define CACHED_FLOATS (184 * 1024)

#include "kernels/conv_f32_winograd_tile.h"
#include "kernels/conv_f32_winograd_products_tile.h"

GEMM_12(1)
GEMM_12(2)
GEMM_8(3)
GEMM_6(4)

static const gemm_set sets[PANEL / LANES] = {
    {.height = 12, .run = {GEMM_NAMES_12(1)}},
    {.height = 12, .run = {GEMM_NAMES_12(2)}},
    {.height = 8, .run = {GEMM_NAMES_8(3)}},
    {.height = 6, .run = {GEMM_NAMES_6(4)}},
};

static void multiply(const oct_winograd_f32_block *b, int64_t channels, int64_t width, const float *weights, const float *values,
                     float *products, float *scratch) {
  (void)scratch;
  for (int i = 0; i < POSITIONS; i++)
    multiply_position(&sets[width / LANES - 1], b, i, channels, width, weights + i * channels * width, values, products);
}

static const char *reject(const oct_conv_shape *s) {
  const char *refusal = oct_winograd_f32_refusal(s);
  return refusal ? refusal : oct_winograd_f32_is_heavy(s, BYTES_PER_TILE, MOST_BYTES) ? "too many transformed weights" : NULL;
}

const oct_conv_f32_kernel oct_conv_f32_winograd_6x64__avx512 = {
    .name = "conv_f32_winograd_6x64__avx512",
    .isa = OCT_ISA_AVX512,
    .preference = 220,
    .approximate = true,
    .reject = reject,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .workspace_bytes = workspace_bytes,
    .units = units,
    .run = run,
};
