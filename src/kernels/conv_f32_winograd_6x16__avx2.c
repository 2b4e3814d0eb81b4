/* Float Winograd convolution F(4x4,3x3), AVX2 + FMA: products of 6 tiles x 16 channels, 12 x 8. The error and its bound are those of
 * conv_f32_winograd_6x64__avx512.c.
 * SPDX-License-Identifier: MIT */
#include <immintrin.h>
#include <stdint.h>

#define LANES 8
#define PANEL 16
#define STORED 36
#define SCRATCH 0
#define LEAD(position) (position)
#define FETCHING 2
#define BYTES_PER_TILE 655360 /* above this, direct sums are faster */
#define MOST_BYTES INT64_MAX
#define CACHED_FLOATS (160 * 1024)
#define V __m256
#define M __m256i
#define V_ZERO() _mm256_setzero_ps()
#define V_SET1(x) _mm256_set1_ps(x)
#define V_LOAD(p) _mm256_loadu_ps(p)
#define V_LOAD_MASK(m, p) _mm256_maskload_ps(p, m)
#define V_STORE(p, x) _mm256_storeu_ps(p, x)
#define V_STORE_MASK(p, m, x) _mm256_maskstore_ps(p, m, x)
#define V_ADD(a, b) _mm256_add_ps(a, b)
#define V_SUB(a, b) _mm256_sub_ps(a, b)
#define V_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define V_FMSUB(a, b, c) _mm256_fmsub_ps(a, b, c)
#define V_MIN(a, b) _mm256_min_ps(a, b)
#define V_MAX(a, b) _mm256_max_ps(a, b)

static inline __m256i lane_mask(int64_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

#include "kernels/conv_f32_winograd_tile.h"
#include "kernels/conv_f32_winograd_products_tile.h"

GEMM_12(1)
GEMM_6(2)

static const gemm_set sets[PANEL / LANES] = {
    {.height = 12, .run = {GEMM_NAMES_12(1)}},
    {.height = 6, .run = {GEMM_NAMES_6(2)}},
};

static void multiply(const oct_winograd_f32_block *b, int64_t channels, int64_t width, const float *weights, const float *values,
                     float *products, float *scratch) {
  (void)scratch;
  for (int i = 0; i < POSITIONS; i++)
    multiply_position(&sets[width / LANES - 1], b, i, channels, width, weights + i * channels * width, values, products);
}

/* By the tiles of one image, so that the choice, and with it the bits, does not depend on the batch. */
static const char *reject(const oct_conv_shape *s) {
  const char *refusal = oct_winograd_f32_refusal(s);
  oct_conv_shape image = *s;
  image.batch = 1;
  return refusal ? refusal : oct_winograd_f32_is_heavy(&image, BYTES_PER_TILE, MOST_BYTES) ? "too many transformed weights" : NULL;
}

const oct_conv_f32_kernel oct_conv_f32_winograd_6x16__avx2 = {
    .name = "conv_f32_winograd_6x16__avx2",
    .isa = OCT_ISA_AVX2,
    .preference = 120,
    .approximate = true,
    .reject = reject,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .workspace_bytes = workspace_bytes,
    .units = units,
    .run = run,
};
