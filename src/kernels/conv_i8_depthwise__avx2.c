/* Depthwise 8-bit convolution of any kernel, stride, dilation and channel multiplier, 32 output channels of a pixel at a time.
 * Packed weights: [block of 32][pair of taps][OCT_PAIR_BYTES].
 * SPDX-License-Identifier: MIT */
#include "kernels/conv_i8_depthwise_pairs__avx2.h"

#define ROWS 16 /* pixels between epilogues that are not plain */

static size_t packed_bytes(const oct_conv_shape *s) {
  return (size_t)((s->out_channels + 31) / 32) * (size_t)(oct_depthwise_padded_taps(s, 2) / 2) * OCT_PAIR_BYTES;
}

static void pack(const oct_conv_shape *s, const int8_t *weights, void *packed) {
  int taps = s->kernel_h * s->kernel_w, pairs = oct_depthwise_padded_taps(s, 2) / 2;
  memset(packed, 0, packed_bytes(s));
  for (int64_t c = 0; c < s->out_channels; c++)
    for (int t = 0; t < taps; t++)
      oct_pair_put((int8_t *)packed + (c / 32 * pairs + t / 2) * OCT_PAIR_BYTES, (int)(c % 32), t % 2, weights[c * taps + t]);
}

/* How a block's channels find their input bytes: side by side, or by a shuffle of 16 for each half. */
typedef struct spread {
  ptrdiff_t second; /* of the upper half's first input channel, from the lower half's */
  __m256i index;
} spread;

static inline __attribute__((always_inline)) __m256i load_tap(const uint8_t *in, const spread *s, bool repeat) {
  if (!repeat) return oct_load256(in);
  __m128i lower = _mm_loadu_si128((const __m128i *)(const void *)in),
          upper = _mm_loadu_si128((const __m128i *)(const void *)(in + s->second));
  return _mm256_shuffle_epi8(_mm256_inserti128_si256(_mm256_castsi128_si256(lower), upper, 1), s->index);
}

/* `repeat`, a constant wherever this is inlined: the multiplier is above 1. */
static inline __attribute__((always_inline)) oct_sums256 pixel(const uint8_t *in, const ptrdiff_t *offsets, int taps, const int8_t *w,
                                                               const spread *s, bool repeat, oct_sums256 c) {
  for (int t = 0; t < taps;) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i l0 = zero, l1 = zero, h0 = zero, h1 = zero;
    int stop = taps - t < 2 * OCT_PAIR_SUM ? taps : t + 2 * OCT_PAIR_SUM;
    for (; t < stop; t += 2, w += OCT_PAIR_BYTES) {
      const oct_pair256 x = oct_pair256_of(load_tap(in + offsets[t], s, repeat), load_tap(in + offsets[t + 1], s, repeat));
      oct_pair_half(x.low, w, &l0, &h0);
      oct_pair_half(x.high, w + 32, &l1, &h1);
    }
    oct_pair_widen(l0, h0, &c.c0, &c.c1);
    oct_pair_widen(l1, h1, &c.c2, &c.c3);
  }
  return c;
}

static spread spread_of(int64_t channel, int64_t multiplier) {
  uint8_t index[32];
  oct_depthwise_expand(channel, multiplier, index);
  oct_depthwise_expand(channel + 16, multiplier, index + 16);
  return (spread){(channel + 16) / multiplier - channel / multiplier, oct_load256(index)};
}

static inline __attribute__((always_inline)) void run_pixels(const oct_conv_i8_args *a, const ptrdiff_t *offsets, int taps, int64_t first,
                                                             int64_t last, int64_t channel, int64_t multiplier, bool repeat) {
  int count = (int)oct_min_i64(32, a->shape.out_channels - channel);
  const int8_t *w = (const int8_t *)a->packed + channel / 32 * (taps / 2) * OCT_PAIR_BYTES;
  const spread s = spread_of(channel, multiplier);
  const oct_sums256 bias = oct_sums256_load(a->epilogue.bias ? a->epilogue.bias + channel : NULL);
  oct_pair_epilogue e;
  oct_pair_epilogue_make(&e, a, channel, count);
  int32_t acc[ROWS * 32] __attribute__((aligned(32)));
  oct_direct_cursor cursor = oct_direct_cursor_at(a, first, channel / multiplier, channel);
  oct_direct_rows rows;
  for (int64_t p = first; p < last; p += ROWS) {
    oct_direct_cursor_take(&cursor, (int)oct_min_i64(ROWS, last - p), &rows);
    for (int r = 0; r < rows.count; r++) {
      oct_sums256 c = pixel(rows.in[r], offsets, taps, w, &s, repeat, bias);
      if (e.plain) oct_pair_store_plain(rows.out[r], &c, &e);
      else oct_sums256_store(acc + 32 * r, &c);
    }
    if (!e.plain) oct_epilogue_i8_avx2(a, &rows, channel, count, acc, 32);
  }
}

static void block(const oct_conv_i8_args *a, const ptrdiff_t *offsets, int taps, int64_t first, int64_t last, int64_t channel) {
  int64_t multiplier = oct_quotient(a->shape.out_channels, a->shape.channels);
  if (multiplier == 1) run_pixels(a, offsets, taps, first, last, channel, 1, false);
  else run_pixels(a, offsets, taps, first, last, channel, multiplier, true);
}

static void run(const oct_conv_i8_args *a, size_t begin, size_t end, void *workspace) {
  (void)workspace;
  oct_depthwise_run(a, begin, end, 2, 32, block);
}

const oct_conv_i8_kernel oct_conv_i8_depthwise__avx2 = {
    .name = "conv_i8_depthwise__avx2",
    .isa = OCT_ISA_AVX2,
    .preference = 350,
    .reject = oct_depthwise_reject,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .units = oct_depthwise_units,
    .run = run,
};
