/* Exact Winograd convolution for AVX-512 VNNI: products of 6 tiles x 64 output channels, 8 x 48, 10 x 32 and 10 x 16. For many tiles:
 * weights are packed transformed.
 * SPDX-License-Identifier: MIT */
#define WIDTH 64

#include "kernels/conv_i8_winograd_512_tile.h"

DEFINE_PRODUCTS_6(1)
DEFINE_PRODUCT(1, 7)
DEFINE_PRODUCT(1, 8)
DEFINE_PRODUCT(1, 9)
DEFINE_PRODUCT(1, 10)
DEFINE_PRODUCTS_6(2)
DEFINE_PRODUCT(2, 7)
DEFINE_PRODUCT(2, 8)
DEFINE_PRODUCT(2, 9)
DEFINE_PRODUCT(2, 10)
DEFINE_PRODUCTS_6(3)
DEFINE_PRODUCT(3, 7)
DEFINE_PRODUCT(3, 8)
DEFINE_PRODUCTS_6(4)

/* ---- Bytes: oct_winograd_bytes_fn ---- */

DEFINE_OUTPUT(output_64_33, 3, 3, 0)
DEFINE_OUTPUT(output_64_34, 3, 4, 0)
DEFINE_OUTPUT(output_64_43, 4, 3, 0)
DEFINE_OUTPUT(output_64_44, 4, 4, 0)

/* The bytes of one tile from 64 times its sums. */
INLINE void tile_bytes(const oct_conv_i8_args *a, const oct_winograd_tile *t, int64_t channel, const int32_t *acc, const __m512 *multiplier,
                       const oct_quantize512 *q, const bool residual, const oct_finish512 finish) {
  const __m512 m0 = multiplier[0], m1 = multiplier[1], m2 = multiplier[2], m3 = multiplier[3];
  for (int y = 0; y < t->height; y++) {
    char *out = (char *)oct_view_at(&a->out, 1, t->n, t->y + y, t->x) + channel;
    const char *r = residual ? (const char *)oct_view_at(&a->residual, 1, t->n, t->y + y, t->x) + channel : NULL;
    for (int x = 0; x < t->width; x++, acc += WIDTH, out += a->out.pixel) {
#define BYTES_OF(i) oct_quantize_ps512(_mm512_load_si512(acc + 16 * (i)), m##i, residual ? r + 16 * (i) : NULL, q, finish)
      _mm512_storeu_si512(out, oct_pack_vectors512(BYTES_OF(0), BYTES_OF(1), BYTES_OF(2), BYTES_OF(3), q, finish));
#undef BYTES_OF
      if (residual) r += a->residual.pixel;
    }
  }
}

INLINE void tiles_bytes(const oct_conv_i8_args *a, const oct_winograd_list *list, int64_t channel, const int32_t *m, ptrdiff_t position,
                        const int32_t (*bias)[OCT_DIRECT_WIDTH], const bool residual, const oct_finish512 finish) {
  static const oct_winograd_output_fn outputs[2][2] = {{output_64_33, output_64_34}, {output_64_43, output_64_44}};
  const oct_quantize512 q = oct_quantize512_of(&a->epilogue);
  int32_t acc[OCT_WINOGRAD_PIXELS * WIDTH] __attribute__((aligned(64)));
  __m512 multiplier[4];
  for (int i = 0; i < 4; i++)
    multiplier[i] = _mm512_mul_ps(_mm512_loadu_ps(a->epilogue.multiplier + channel + 16 * i), _mm512_set1_ps(1.0f / 64));
  for (int i = 0; i < list->count; i++, m += WIDTH) {
    const oct_winograd_tile *t = &list->tiles[i];
    outputs[t->height - 3][t->width - 3](m, position, 4, bias[t->height + t->width - 6], acc);
    tile_bytes(a, t, channel, acc, multiplier, &q, residual, finish);
  }
}

static void bytes(const oct_conv_i8_args *a, const oct_winograd_list *list, int64_t channel, const int32_t *m, ptrdiff_t position,
                  const int32_t (*bias)[OCT_DIRECT_WIDTH]) {
  const bool residual = a->residual.data != NULL;
  const oct_finish512 finish = oct_finish512_of(&a->epilogue, oct_largest512(a->epilogue.multiplier + channel, WIDTH), residual);
  if (finish == OCT_FINISH_PLAIN && residual) tiles_bytes(a, list, channel, m, position, bias, true, OCT_FINISH_PLAIN);
  else if (finish == OCT_FINISH_PLAIN) tiles_bytes(a, list, channel, m, position, bias, false, OCT_FINISH_PLAIN);
  else if (finish == OCT_FINISH_SATURATE && residual) tiles_bytes(a, list, channel, m, position, bias, true, OCT_FINISH_SATURATE);
  else if (finish == OCT_FINISH_SATURATE) tiles_bytes(a, list, channel, m, position, bias, false, OCT_FINISH_SATURATE);
  else if (residual) tiles_bytes(a, list, channel, m, position, bias, true, OCT_FINISH_CLAMP);
  else tiles_bytes(a, list, channel, m, position, bias, false, OCT_FINISH_CLAMP);
}

static const int rows[] = {10, 10, 8, 6};
static const oct_winograd_product_fn products[][OCT_WINOGRAD_ROWS + 1] = {
    {PRODUCTS_6(1), product_1_7, product_1_8, product_1_9, product_1_10},
    {PRODUCTS_6(2), product_2_7, product_2_8, product_2_9, product_2_10},
    {PRODUCTS_6(3), product_3_7, product_3_8},
    {PRODUCTS_6(4)},
};
static const oct_winograd_isa isa = {
    .lanes = LANES,
    .quantum = 16,
    .widest = WIDTH,
    .rows = rows,
    .products = products,
    .input = INPUTS,
    .output = OUTPUTS,
    .bytes = bytes,
    .epilogue = oct_epilogue_i8_avx512,
};

/* Against direct convolution, whose weights are an eighth as large: 24 tiles pay for fetching them. At 64 channels 1.3 times as fast, at
 * 128 1.45 times, at 256 1.2 to 1.4 times; where a processor starts one 512-bit product per cycle beside additions, more. */
static const oct_winograd_worth worth = {.channels = 32, .out_channels = 32, .both = 2048, .tiles = 16, .most = 8192};

#include "kernels/conv_i8_winograd_row_tile.h"

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
