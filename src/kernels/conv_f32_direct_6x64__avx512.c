/* Direct float convolution and matrix product, AVX-512: tiles of 6 pixels x 64 channels, and 8 x 48, 12 x 32, 6 or 12 x 16 for
 * what a layer's last panel needs. Packing and units: conv_f32_direct.h; the micro kernel: conv_f32_direct_tile.h.
 *
 * Products are fused into the accumulators (one rounding per product); the result stays within
 * (K + 4) * 2^-24 * (sum of |x * w| + |bias| + |residual|) of the exact one, K = products per output.
 * SPDX-License-Identifier: MIT */
#include <immintrin.h>

#include "kernels/conv_f32_pack__avx512.h"

#define LANES 16
#define PANEL 64
#define V __m512
#define M __mmask16
#define V_ZERO() _mm512_setzero_ps()
#define V_SET1(x) _mm512_set1_ps(x)
#define V_LOAD(p) _mm512_loadu_ps(p)
#define V_LOAD_MASK(m, p) _mm512_maskz_loadu_ps(m, p)
#define V_STORE(p, x) _mm512_storeu_ps(p, x)
#define V_STORE_MASK(p, m, x) _mm512_mask_storeu_ps(p, m, x)
#define V_ADD(a, b) _mm512_add_ps(a, b)
#define V_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define V_MIN(a, b) _mm512_min_ps(a, b)
#define V_MAX(a, b) _mm512_max_ps(a, b)

#include "kernels/conv_f32_direct_tile.h"

TILES_6(4, 1)
FIRST_TILES_6(4)
TILES_8(3, 1)
TILES_12(2, 1)
TILES_12(1, 1)
TILES_6(1, 4)

static const tile_set tiles[] = {
    {.columns = 4, .chains = 1, .height = 6, .run = {TILE_NAMES_6(4, 1)}, .first = {FIRST_TILE_NAMES_6(4)}},
    {.columns = 3, .chains = 1, .height = 8, .run = {TILE_NAMES_8(3, 1)}},
    {.columns = 2, .chains = 1, .height = 12, .run = {TILE_NAMES_12(2, 1)}},
    {.columns = 1, .chains = 4, .height = 6, .run = {TILE_NAMES_6(1, 4)}},
    {.columns = 1, .chains = 1, .height = 12, .run = {TILE_NAMES_12(1, 1)}},
};

/* The first set of this width whose chains divide the channels. */
static const tile_set *choose_tiles(int64_t columns, int64_t channels) {
  const tile_set *set = tiles;
  while (set->columns != columns || channels % set->chains != 0) set++;
  return set;
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
  if (!oct_conv_f32_pack_matrix_avx512(shape, PANEL, w, k_stride, n_stride, scale, (float *)packed))
    oct_conv_f32_pack_matrix(shape, LANES, PANEL, w, k_stride, n_stride, scale, (float *)packed);
}

static size_t units(const oct_conv_shape *shape) { return oct_conv_f32_units(shape, LANES, PANEL); }

static void run(const oct_conv_f32_args *args, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  const oct_conv_f32_plan plan = oct_conv_f32_plan_make(&args->shape, LANES, PANEL);
  for (size_t i = begin, next; i < end; i = next) {
    oct_conv_f32_unit unit;
    next = oct_conv_f32_unit_join(&plan, args->shape.groups, PANEL, i, end, &unit);
    int64_t width = plan.group_out - unit.column < PANEL ? plan.group_out - unit.column : PANEL, columns = (width + LANES - 1) / LANES;
    M mask = (M)(0xffffu >> (columns * LANES - width));
    run_unit(args, &plan, &unit, choose_tiles(columns, plan.group_in), mask, i == begin);
  }
}

const oct_conv_f32_kernel oct_conv_f32_direct_6x64__avx512 = {
    .name = "conv_f32_direct_6x64__avx512",
    .isa = OCT_ISA_AVX512,
    .preference = 200,
    .reject = reject,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .pack_matrix = pack_matrix,
    .units = units,
    .run = run,
};
