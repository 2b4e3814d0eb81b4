/* Direct float convolution and matrix product, AVX2 + FMA: tiles of 6 pixels x 16 channels; of 3 pixels with two or four chains
 * where a group has at most 16 or 8 channels. Packing and units: conv_f32_direct.h; the micro kernel: conv_f32_direct_tile.h.
 *
 * The bound is that of conv_f32_direct_6x64__avx512.c.
 * SPDX-License-Identifier: MIT */
#include <immintrin.h>

#include "kernels/kernels.h"

#define LANES 8
#define PANEL 16
#define V __m256
#define M __m256i
#define V_ZERO() _mm256_setzero_ps()
#define V_SET1(x) _mm256_set1_ps(x)
#define V_LOAD(p) _mm256_loadu_ps(p)
#define V_LOAD_MASK(m, p) _mm256_maskload_ps(p, m)
#define V_STORE(p, x) _mm256_storeu_ps(p, x)
#define V_STORE_MASK(p, m, x) _mm256_maskstore_ps(p, m, x)
#define V_ADD(a, b) _mm256_add_ps(a, b)
#define V_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define V_MIN(a, b) _mm256_min_ps(a, b)
#define V_MAX(a, b) _mm256_max_ps(a, b)

#include "kernels/conv_f32_direct_tile.h"

TILES_6(2, 1)
FIRST_TILES_6(2)
TILES_3(2, 2)
TILES_6(1, 1)
TILES_3(1, 4)

static const tile_set wide = {.columns = 2, .chains = 1, .height = 6, .run = {TILE_NAMES_6(2, 1)}, .first = {FIRST_TILE_NAMES_6(2)}};
static const tile_set wide_chains = {.columns = 2, .chains = 2, .height = 3, .run = {TILE_NAMES_3(2, 2)}};
static const tile_set narrow = {.columns = 1, .chains = 1, .height = 6, .run = {TILE_NAMES_6(1, 1)}};
static const tile_set narrow_chains = {.columns = 1, .chains = 4, .height = 3, .run = {TILE_NAMES_3(1, 4)}};

/* Chains pay where one panel is all there is: a single pixel would leave two accumulators waiting for each other. */
static const tile_set *choose_tiles(int64_t columns, const oct_conv_f32_plan *plan) {
  if (columns == 2) return plan->panels == 1 && plan->group_in % 2 == 0 ? &wide_chains : &wide;
  return plan->group_in % 4 == 0 ? &narrow_chains : &narrow;
}

static const char *reject(const oct_conv_shape *shape) {
  (void)shape;
  return NULL;
}

static size_t packed_bytes(const oct_conv_shape *shape) { return oct_conv_f32_packed_bytes(shape, LANES, PANEL); }

static void pack(const oct_conv_shape *shape, const float *weights, void *packed) {
  oct_conv_f32_pack(shape, LANES, PANEL, weights, (float *)packed);
}

static void pack_matrix(const oct_conv_shape *shape, const float *w, ptrdiff_t k_stride, ptrdiff_t n_stride, float scale, void *packed) {
  oct_conv_f32_pack_matrix(shape, LANES, PANEL, w, k_stride, n_stride, scale, (float *)packed);
}

static size_t units(const oct_conv_shape *shape) { return oct_conv_f32_units(shape, LANES, PANEL); }

static void run(const oct_conv_f32_args *args, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  const oct_conv_f32_plan plan = oct_conv_f32_plan_make(&args->shape, LANES, PANEL);
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  for (size_t i = begin, next; i < end; i = next) {
    oct_conv_f32_unit unit;
    next = oct_conv_f32_unit_join(&plan, args->shape.groups, PANEL, i, end, &unit);
    int64_t width = plan.group_out - unit.column < PANEL ? plan.group_out - unit.column : PANEL, columns = (width + LANES - 1) / LANES;
    M mask = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(width - (columns - 1) * LANES)), lane);
    run_unit(args, &plan, &unit, choose_tiles(columns, &plan), mask, i == begin);
  }
}

const oct_conv_f32_kernel oct_conv_f32_direct_6x16__avx2 = {
    .name = "conv_f32_direct_6x16__avx2",
    .isa = OCT_ISA_AVX2,
    .preference = 100,
    .reject = reject,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .pack_matrix = pack_matrix,
    .units = units,
    .run = run,
};
