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

/* ---- Whole panels: oct_winograd_whole_fn ---- */

DEFINE_OUTPUT(output_scaled_33, 3, 3, false)
DEFINE_OUTPUT(output_scaled_34, 3, 4, false)
DEFINE_OUTPUT(output_scaled_43, 4, 3, false)
DEFINE_OUTPUT(output_scaled_44, 4, 4, false)
static const oct_winograd_output_fn output_scaled[2][2] = {{output_scaled_33, output_scaled_34}, {output_scaled_43, output_scaled_44}};

/* What makes bytes of the multiples 16, 32 and 64 of 16 channels' sums. */
typedef struct finish {
  __m512 multiplier[3]; /* profile onnx */
  /* Profile tflite: the product by a mantissa, 2^32 times what it stands for, then the shift to the right, whose half is in `nudge`. */
  __m512i even[3], odd[3];
  __m512i even_nudge, odd_nudge, right;
} finish;

static finish finish_of(const float *multiplier) {
  const __m512 m = _mm512_loadu_ps(multiplier);
  const oct_fixed512 fixed = oct_fixed512_of(m);
  const __m512i rounded = _mm512_set1_epi64(INT64_C(1) << 31), half = _mm512_sllv_epi32(_mm512_set1_epi32(1), fixed.less);
  finish f = {.even_nudge = _mm512_add_epi64(rounded, _mm512_slli_epi64(half, 32)),
              .odd_nudge = _mm512_add_epi64(rounded, _mm512_slli_epi64(_mm512_srli_epi64(half, 32), 32)),
              .right = fixed.right};
  for (int i = 0; i < 3; i++) {
    f.multiplier[i] = _mm512_mul_ps(m, _mm512_set1_ps(1.0f / (float)(16 << i)));
    f.even[i] = _mm512_srli_epi32(fixed.mantissa, (unsigned)(3 + i)); /* its last seven bits are 0 */
    f.odd[i] = _mm512_srli_epi64(f.even[i], 32);
  }
  return f;
}

/* oct_requantize_fixed512() for multiples of sums below 2^25 and multipliers below 1/4. Negative products are those of negative sums, but
 * for some that round to 0 anyway. */
INLINE __m512i finish_fixed(__m512i x, const finish *f, int scale) {
  const __m512i even = _mm512_add_epi64(_mm512_mul_epi32(x, f->even[scale]), f->even_nudge);
  const __m512i odd = _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(x, 32), f->odd[scale]), f->odd_nudge);
  const __m512i y = _mm512_castps_si512(_mm512_mask_movehdup_ps(_mm512_castsi512_ps(odd), 0x5555, _mm512_castsi512_ps(even)));
  return _mm512_srav_epi32(_mm512_mask_add_epi32(y, _mm512_movepi32_mask(x), y, _mm512_set1_epi32(-1)), f->right);
}

/* What outputs are, and from what they are made; constant wherever it is inlined. FLOATS, else bytes. NO_OFFSET: of residuals, their zero point
 * is 0. */
typedef enum source { FLOATS, FIXED, SUMS, SUMS_RESIDUAL, SUMS_RESIDUAL_NO_OFFSET } source;

INLINE __m512i finish_16(const int32_t *acc, const finish *f, int scale, const source from, const char *residual, const oct_quantize512 *q,
                         const oct_finish512 kind) {
  const __m512i x = _mm512_load_si512(acc);
  if (from == FIXED) return finish_fixed(x, f, scale);
  if (from != SUMS_RESIDUAL_NO_OFFSET) return oct_quantize_ps512(x, f->multiplier[scale], residual, q, kind);
  const __m512 r = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)residual)));
  const __m512 t = _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(x), f->multiplier[scale]), _mm512_mul_ps(r, q->residual_scale));
  return _mm512_cvtps_epi32(kind == OCT_FINISH_CLAMP ? oct_clamp_ps512(t, q->low, q->high) : t);
}

/* The bytes of one tile. */
INLINE void tile_bytes(const oct_conv_i8_args *a, const oct_winograd_tile *t, int64_t channel, const int32_t *acc, const finish *f,
                       const oct_quantize512 *q, const source from, const oct_finish512 kind) {
  const bool residual = from >= SUMS_RESIDUAL;
  for (int y = 0; y < t->height; y++) {
    char *out = (char *)oct_view_at(&a->out, 1, t->n, t->y + y, t->x) + channel;
    const char *r = residual ? (const char *)oct_view_at(&a->residual, 1, t->n, t->y + y, t->x) + channel : NULL;
    for (int x = 0; x < t->width; x++, acc += WIDTH, out += a->out.pixel) {
      const int scale = (y == 0 && t->height == 4) + (x == 0 && t->width == 4);
      if (residual) _mm_prefetch(r + t->width * a->residual.pixel, _MM_HINT_T0); /* of the next tile */
#define BYTES_OF(i) finish_16(acc + 16 * (i), &f[i], scale, from, residual ? r + 16 * (i) : NULL, q, kind)
      _mm512_storeu_si512(out, oct_pack_vectors512(BYTES_OF(0), BYTES_OF(1), BYTES_OF(2), BYTES_OF(3), q, kind));
#undef BYTES_OF
      if (residual) r += a->residual.pixel;
    }
  }
}

/* The floats of one tile. */
INLINE void tile_floats(const oct_conv_i8_args *a, const oct_winograd_tile *t, int64_t channel, const int32_t *acc, const finish *f,
                        const bool clamp) {
  const oct_epilogue_i8 *e = &a->epilogue;
  const __m512 low = _mm512_set1_ps(e->float_low), high = _mm512_set1_ps(e->float_high);
  for (int y = 0; y < t->height; y++) {
    float *out = (float *)oct_view_at(&a->out, sizeof *out, t->n, t->y + y, t->x) + channel;
    const float *r = a->residual.data ? (const float *)oct_view_at(&a->residual, sizeof *r, t->n, t->y + y, t->x) + channel : NULL;
    for (int x = 0; x < t->width; x++, acc += WIDTH, out += a->out.pixel) {
      const int scale = (y == 0 && t->height == 4) + (x == 0 && t->width == 4);
      for (int i = 0; i < 4; i++) {
        __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_load_si512(acc + 16 * i)), f[i].multiplier[scale]);
        if (e->float_bias) v = _mm512_add_ps(v, _mm512_loadu_ps(e->float_bias + channel + 16 * i));
        if (r) v = _mm512_add_ps(v, _mm512_loadu_ps(r + 16 * i));
        _mm_prefetch((const char *)(out + 16 * i + t->width * a->out.pixel), _MM_HINT_T0); /* of the next tile: as input_store() */
        _mm512_storeu_ps(out + 16 * i, clamp ? oct_clamp_ps512(v, low, high) : v);
      }
      if (r) r += a->residual.pixel;
    }
  }
}

INLINE void tiles(const oct_conv_i8_args *a, const oct_winograd_list *list, int64_t channel, const int32_t *m, ptrdiff_t position,
                  const int32_t (*bias)[OCT_DIRECT_WIDTH], const source from, const oct_finish512 kind) {
  const oct_quantize512 q = oct_quantize512_of(&a->epilogue);
  int32_t acc[OCT_WINOGRAD_PIXELS * WIDTH] __attribute__((aligned(64)));
  finish f[4];
  for (int i = 0; i < 4; i++) f[i] = finish_of(a->epilogue.multiplier + channel + 16 * i);
  for (int i = 0; i < list->count; i++, m += WIDTH) {
    const oct_winograd_tile *t = &list->tiles[i];
    output_scaled[t->height - 3][t->width - 3](m, position, 4, bias[t->height + t->width - 6], acc);
    if (from == FLOATS) tile_floats(a, t, channel, acc, f, kind == OCT_FINISH_CLAMP);
    else tile_bytes(a, t, channel, acc, f, &q, from, kind);
  }
}

INLINE void bytes_from(const oct_conv_i8_args *a, const oct_winograd_list *list, int64_t channel, const int32_t *m, ptrdiff_t position,
                       const int32_t (*bias)[OCT_DIRECT_WIDTH], const source from) {
  const oct_finish512 kind = oct_finish512_of(&a->epilogue, oct_largest512(a->epilogue.multiplier + channel, WIDTH), from >= SUMS_RESIDUAL);
  if (kind == OCT_FINISH_PLAIN) tiles(a, list, channel, m, position, bias, from, OCT_FINISH_PLAIN);
  else if (kind == OCT_FINISH_SATURATE || from == FIXED) tiles(a, list, channel, m, position, bias, from, OCT_FINISH_SATURATE);
  else tiles(a, list, channel, m, position, bias, from, OCT_FINISH_CLAMP);
}

static void floats(const oct_conv_i8_args *a, const oct_winograd_list *list, int64_t channel, const int32_t *m, ptrdiff_t position,
                   const int32_t (*bias)[OCT_DIRECT_WIDTH]) {
  const bool clamp = a->epilogue.float_low != -INFINITY || a->epilogue.float_high != INFINITY;
  if (clamp) tiles(a, list, channel, m, position, bias, FLOATS, OCT_FINISH_CLAMP);
  else tiles(a, list, channel, m, position, bias, FLOATS, OCT_FINISH_PLAIN);
}

static void whole(const oct_conv_i8_args *a, const oct_winograd_list *list, int64_t channel, const int32_t *m, ptrdiff_t position,
                  const int32_t (*bias)[OCT_DIRECT_WIDTH]) {
  if (a->epilogue.out == OCT_EPILOGUE_F32) floats(a, list, channel, m, position, bias);
  else if (a->epilogue.profile == OCT_PROFILE_TFLITE) bytes_from(a, list, channel, m, position, bias, FIXED);
  else if (!a->residual.data) bytes_from(a, list, channel, m, position, bias, SUMS);
  else if (a->epilogue.residual_zero_point) bytes_from(a, list, channel, m, position, bias, SUMS_RESIDUAL);
  else bytes_from(a, list, channel, m, position, bias, SUMS_RESIDUAL_NO_OFFSET);
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
    .pairs = true,
    .quantum = 16,
    .widest = WIDTH,
    .rows = rows,
    .products = products,
    .input = INPUTS,
    .output = OUTPUTS,
    .whole = whole,
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
